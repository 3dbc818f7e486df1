//! Frames by the expressions that they match: each set of expressions is a class of its own in the
//! link behind, which has the settings and the figures of each.

use lineside_filter::{Filter, Program};
use lineside_frame::{Burst, Frame, FrameRef, LinkType};
use lineside_link::{Departure, Effects, Link};
use lineside_time::Nanoseconds;

use crate::element::{Element, LinkReport, arrival_ns};

/// The most expressions of one direction: each set of them is a class of frames, of which each
/// expression doubles the number.
pub const EXPRESSIONS_MAX: usize = 6;

/// Sends frames to one of several links, by the expressions that they match. The links share queue,
/// rate and limit, as flows on one wire do: they are the classes of one [`Link`].
///
/// Each set of expressions is a class, whose number has a bit for each.
#[derive(Debug)]
pub struct Classifier {
    filters: Vec<Filter>,
    /// For each link type met so far; `None` matches nothing there.
    programs: Vec<(LinkType, Vec<Option<Program>>)>,
    /// The expressions of classes 1, 2, ...
    names: Vec<String>,
    link: Link<Frame>,
}

impl Classifier {
    /// How many classes so many expressions make.
    ///
    /// # Panics
    ///
    /// If there are more than [`EXPRESSIONS_MAX`].
    pub fn class_count(expressions: usize) -> usize {
        assert!(
            expressions <= EXPRESSIONS_MAX,
            "the caller counts expressions"
        );
        1 << expressions
    }

    /// A classifier by these expressions before a link with their classes.
    ///
    /// # Panics
    ///
    /// If the link has fewer classes, or if there are more expressions than [`EXPRESSIONS_MAX`].
    pub fn new(filters: Vec<Filter>, link: Link<Frame>) -> Self {
        let count = Self::class_count(filters.len());
        assert_eq!(link.classes().len(), count, "each class has settings");
        Self {
            names: (1..count).map(|set| name(&filters, set)).collect(),
            filters,
            programs: Vec::new(),
            link,
        }
    }

    /// The class of a frame. An expression that asks for what its link type does not have does not
    /// match.
    #[inline]
    fn class(&mut self, frame: &FrameRef) -> u8 {
        if self.filters.is_empty() {
            return 0;
        }
        let (link_type, wire_len) = (frame.descriptor().link_type, frame.descriptor().wire_len);
        let mut known = self.programs.iter();
        let known = known.position(|(each, _)| *each == link_type);
        let at = known.unwrap_or_else(|| self.compile(link_type));
        let mut class = 0;
        for (bit, program) in self.programs[at].1.iter().enumerate() {
            let program = program.as_ref();
            let matches = program.is_some_and(|program| program.matches(frame.bytes(), wire_len));
            class |= u8::from(matches) << bit;
        }
        class
    }

    /// Compiles the expressions for a link type; the place of the programs.
    #[cold]
    fn compile(&mut self, link_type: LinkType) -> usize {
        let filters = self.filters.iter();
        let programs = filters.map(|filter| filter.compile(link_type.0).ok());
        self.programs.push((link_type, programs.collect()));
        self.programs.len() - 1
    }
}

/// The expressions of a set of them, a bit each.
fn name(filters: &[Filter], set: usize) -> String {
    let chosen = filters.iter().enumerate();
    let chosen = chosen.filter(|(bit, _)| set >> bit & 1 == 1);
    let chosen: Vec<_> = chosen.map(|(_, filter)| filter.expression()).collect();
    chosen.join("; ")
}

impl Element for Classifier {
    fn classify(&mut self, filter: Filter, seed: u64, stream: u16) {
        let known = self.link.classes().iter();
        let settings: Vec<_> = known.map(|class| class.settings().clone()).collect();
        let count = settings.len();
        self.link.add_classes(settings, seed, stream);
        for (link_type, programs) in &mut self.programs {
            programs.push(filter.compile(link_type.0).ok());
        }
        self.filters.push(filter);
        let names = (count..2 * count).map(|set| name(&self.filters, set));
        self.names.extend(names);
    }

    fn begin(&mut self, now: Nanoseconds) {
        self.link.begin(now);
    }

    fn on_burst(&mut self, now: Nanoseconds, burst: &mut Burst, out: &mut Effects<Frame>) {
        for frame in burst.drain(..) {
            let (class, at_ns) = (self.class(&frame), arrival_ns(&frame, now));
            self.link.push_class(class, at_ns, frame, out);
        }
        self.link.on_timer(now, out);
    }

    fn on_departures(&mut self, from: &mut Vec<Departure<Frame>>, out: &mut Effects<Frame>) {
        for departure in from.drain(..) {
            let class = self.class(&departure.item);
            self.link.push_departure(class, departure, out);
        }
    }

    fn on_timer(&mut self, now: Nanoseconds, out: &mut Effects<Frame>) {
        self.link.on_timer(now, out);
    }

    fn next_deadline(&self) -> Option<Nanoseconds> {
        self.link.next_deadline()
    }

    fn held(&self) -> usize {
        self.link.held()
    }

    fn spill(&mut self, bytes_max: usize) {
        self.link.spill(bytes_max);
    }

    fn report(&self) -> Option<LinkReport<'_>> {
        Some(LinkReport {
            link: &self.link,
            classes: &self.names,
        })
    }

    fn link_mut(&mut self) -> Option<&mut Link<Frame>> {
        Some(&mut self.link)
    }
}

#[cfg(test)]
mod tests {
    use lineside_frame::Descriptor;
    use lineside_link::Settings;
    use lineside_wire::build::FrameBuilder;

    use super::*;

    /// One program for each link type, however often they alternate.
    #[test]
    fn frames_are_classified_by_their_own_link_type() {
        let filters = ["udp port 2", "tcp"].map(|text| Filter::parse(text).expect("a filter"));
        let mut link = Link::new(Settings::default(), 7, 0, 1 << 20);
        link.add_classes(vec![Settings::default(); 3], 7, 0);
        let mut classifier = Classifier::new(filters.into(), link);
        let [one, other] = [1, 2].map(|host| [10, 0, 0, host].into());
        for _ in 0..3 {
            for (link_type, port, class) in [(1, 2, 1), (101, 2, 1), (1, 3, 0), (101, 3, 0)] {
                let builder = FrameBuilder::new(one, other).with_link_type(link_type);
                let bytes = builder.udp(700, port, b"x");
                let descriptor = Descriptor {
                    link_type: LinkType(link_type),
                    wire_len: bytes.len() as u32,
                    ..Descriptor::default()
                };
                let frame = Frame::copied(&bytes, descriptor);
                assert_eq!(classifier.class(&frame), class, "{link_type} {port}");
            }
        }
        assert_eq!(classifier.programs.len(), 2);
    }
}
