use lineside_filter::{Filter, Program};
use lineside_frame::{FrameRef, LinkType};
use lineside_link::Settings;

/// Expressions that are told apart in one direction: a kind of frames for each set of them, of which there are twice as many with each.
pub const EXPRESSIONS_MAX: usize = 6;

/// Tells frames apart by which of some expressions they match.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    filters: Vec<Filter>,
    /// For each link type met so far; `None` matches nothing there.
    programs: Vec<(LinkType, Vec<Option<Program>>)>,
    /// By the set of expressions that match, a bit each.
    kinds: Vec<u8>,
    /// What matches, of kinds 1, 2, ...
    names: Vec<String>,
}

impl Kinds {
    /// Frames by what they match: `settings` says what befalls those that match a set of the filters, a bit each. Sets that are treated alike
    /// are one kind; returned is what befalls kinds 1, 2, ...
    pub(crate) fn new(
        filters: Vec<Filter>,
        settings: impl Fn(usize) -> Settings,
    ) -> (Self, Vec<Settings>) {
        assert!(filters.len() <= EXPRESSIONS_MAX, "the caller counted them");
        let mut all = vec![settings(0)];
        let (mut kinds, mut names) = (vec![0], Vec::new());
        for set in 1..1 << filters.len() {
            let wanted = settings(set);
            let known = all.iter().position(|known| *known == wanted);
            let kind = known.unwrap_or_else(|| {
                let chosen = filters.iter().enumerate();
                let chosen = chosen.filter(|(bit, _)| set >> bit & 1 == 1);
                let chosen: Vec<_> = chosen.map(|(_, filter)| filter.expression()).collect();
                names.push(chosen.join("; "));
                all.push(wanted);
                all.len() - 1
            });
            kinds.push(kind as u8);
        }
        all.remove(0);
        let kinds = Self {
            filters,
            programs: Vec::new(),
            kinds,
            names,
        };
        (kinds, all)
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
        let mut set = 0;
        for (bit, program) in self.programs[at].1.iter().enumerate() {
            let matches = { program.as_ref() }
                .is_some_and(|program| program.matches(frame.bytes(), wire_len));
            set |= usize::from(matches) << bit;
        }
        self.kinds[set]
    }
}
