use lineside_filter::{Filter, Program};
use lineside_frame::{FrameRef, LinkType};

/// Expressions that are told apart in one direction: a kind of frames for each set of them, of which there are twice as many with each.
pub const EXPRESSIONS_MAX: usize = 6;

/// Tells frames apart by which of some expressions they match: each set of these is a kind, whose number has a bit for each.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    filters: Vec<Filter>,
    /// For each link type met so far; `None` matches nothing there.
    programs: Vec<(LinkType, Vec<Option<Program>>)>,
    /// What matches, of kinds 1, 2, ...
    names: Vec<String>,
}

impl Kinds {
    pub(crate) fn new(filters: Vec<Filter>) -> Self {
        assert!(filters.len() <= EXPRESSIONS_MAX, "the caller counted them");
        let name = |set: usize| {
            let chosen = filters.iter().enumerate();
            let chosen = chosen.filter(|(bit, _)| set >> bit & 1 == 1);
            let chosen: Vec<_> = chosen.map(|(_, filter)| filter.expression()).collect();
            chosen.join("; ")
        };
        Self {
            names: (1..1 << filters.len()).map(name).collect(),
            filters,
            programs: Vec::new(),
        }
    }

    /// How many kinds there are.
    pub(crate) fn count(&self) -> usize {
        1 << self.filters.len()
    }

    /// What matches, of kinds 1, 2, ...
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The kind of a frame. An expression that asks for what its link type does not have does not match.
    #[inline]
    pub(crate) fn kind(&mut self, frame: &FrameRef) -> u8 {
        if self.filters.is_empty() {
            return 0;
        }
        let (link_type, wire_len) = (frame.descriptor().link_type, frame.descriptor().wire_len);
        let known = self
            .programs
            .iter()
            .position(|(each, _)| *each == link_type);
        let at = known.unwrap_or_else(|| {
            let filters = self.filters.iter();
            let programs = filters.map(|filter| filter.compile(link_type.0).ok());
            self.programs.push((link_type, programs.collect()));
            self.programs.len() - 1
        });
        let mut kind = 0;
        for (bit, program) in self.programs[at].1.iter().enumerate() {
            let matches = { program.as_ref() }
                .is_some_and(|program| program.matches(frame.bytes(), wire_len));
            kind |= u8::from(matches) << bit;
        }
        kind
    }
}
