//! Frames by the expressions that they match: each set of expressions that occurs is a class of its
//! own in the link behind, which has the settings and the figures of each.
//!
//! ```text
//!  expressions   0 1 2 ...                        settings of set {0, 2}: of each setting the
//!  frame ─► set {0, 2} ─► known? ─► class         first of patch 0, patch 2, patch for all
//!                           └ no ─► settings ─► a class more
//! ```
//!
//! The classes of a few expressions are made before the first frame, one for each set, so that
//! nothing is made while frames wait. Of more, a class is made when the first frame of its set
//! comes.

use lineside_account::{Budget, Lease};
use lineside_filter::{Filter, Program};
use lineside_frame::{Burst, Frame, FrameRef, LinkType};
use lineside_link::{Departure, Effects, Link, Patch, Settings, sets_of_two};
use lineside_time::Nanoseconds;

use crate::account::Account;
use crate::element::{Element, LinkReport, arrival_ns};

/// The most expressions of one direction: a set of them has a bit for each.
pub const EXPRESSIONS_MAX: usize = 32;

/// Of this many expressions all sets are classes from the beginning on: 64, with 300 KiB for the
/// delays of each.
const READY_MAX: usize = 6;

/// So many sets share classes of equal settings at most and are still looked up; others are worked
/// out for each frame.
const SETS_MAX: usize = 1 << 16;

/// Sends frames to one of several links, by the expressions that they match. The links share queue,
/// rate and limit, as flows on one wire do: they are the classes of one [`Link`].
#[derive(Debug)]
pub struct Classifier {
    filters: Vec<Filter>,
    /// For each link type met so far; `None` matches nothing there.
    programs: Vec<(LinkType, Vec<Option<Program>>)>,
    /// The expressions of classes 1, 2, ...
    names: Vec<String>,
    /// The set of expressions of each class, a bit each.
    sets: Vec<u32>,
    /// Classes 0, 1, ... up to this one are those of sets 0, 1, ...
    ready: u32,
    /// The classes of other sets that occurred, sorted.
    others: Vec<(u32, u8)>,
    /// The latest of these.
    latest: (u32, u8),
    layers: Layers,
    /// Frames that were counted with those of another set.
    shared: u64,
    seed: u64,
    stream: u16,
    budget: Budget,
    leases: Vec<Lease>,
    link: Link<Frame>,
}

/// How the settings of classes came about: of a class that is made later, too.
#[derive(Debug)]
struct Layers {
    /// Those of all frames at the beginning.
    own: Settings,
    /// The lists of patches, one after the other.
    changes: Vec<Layer>,
}

#[derive(Debug)]
struct Layer {
    patches: Vec<Patch>,
    /// The number of the step that undoes it.
    held_by: Option<usize>,
    _lease: Option<Lease>,
}

impl Layers {
    /// The settings of a set of expressions.
    fn settings(&self, set: u32) -> Settings {
        let mut settings = self.own.clone();
        for change in &self.changes {
            settings = Patch::of_set(&change.patches, set).applied(&settings);
        }
        settings
    }
}

impl Classifier {
    /// All frames of one class.
    pub(crate) fn of_all(link: Link<Frame>, seed: u64, stream: u16, budget: &Budget) -> Self {
        Self {
            filters: Vec::new(),
            programs: Vec::new(),
            names: Vec::new(),
            sets: vec![0],
            ready: 1,
            others: Vec::new(),
            latest: (0, 0),
            layers: Layers {
                own: link.settings().clone(),
                changes: Vec::new(),
            },
            shared: 0,
            seed,
            stream,
            budget: budget.clone(),
            leases: Vec::new(),
            link,
        }
    }

    /// How many classes this many expressions have from the beginning on.
    pub(crate) fn ready(expressions: usize) -> usize {
        match expressions {
            0..=READY_MAX => 1 << expressions,
            _ => 1,
        }
    }

    /// Classifies by these expressions from now on. `patches` are for all frames, and for those of
    /// each expression.
    ///
    /// # Panics
    ///
    /// If there are more than [`EXPRESSIONS_MAX`].
    pub(crate) fn begin_with(&mut self, filters: Vec<Filter>, patches: Vec<Patch>) {
        assert!(
            filters.len() <= EXPRESSIONS_MAX,
            "the caller counts expressions"
        );
        self.layers.changes.push(Layer {
            patches,
            held_by: None,
            _lease: None,
        });
        let count = Self::ready(filters.len());
        if count == 1 {
            // What a class takes that is made while frames wait.
            for set in sets_of_two(filters.len()) {
                self.link.prepare_class(&self.layers.settings(set));
            }
        }
        self.filters = filters;
        self.ready = count as u32;
        let sets = 1..self.ready;
        let settings = sets.clone().map(|set| self.layers.settings(set)).collect();
        self.link.add_classes(settings, self.seed, self.stream);
        self.names
            .extend(sets.clone().map(|set| name(&self.filters, set)));
        self.sets.extend(sets);
    }

    /// Tells frames that match from all others from now on; whether each class has become two,
    /// those with the new expression after all others, and with the same settings.
    ///
    /// # Panics
    ///
    /// If there are [`EXPRESSIONS_MAX`].
    pub(crate) fn add(&mut self, filter: Filter) -> bool {
        assert!(
            self.filters.len() < EXPRESSIONS_MAX,
            "the caller counts expressions"
        );
        for (link_type, programs) in &mut self.programs {
            programs.push(filter.compile(link_type.0).ok());
        }
        self.filters.push(filter);
        if !self.doubles_before(self.filters.len()) {
            return false;
        }
        let known = self.link.classes().iter();
        let settings: Vec<_> = known.map(|class| class.settings().clone()).collect();
        self.link.add_classes(settings, self.seed, self.stream);
        let sets = self.ready..2 * self.ready;
        self.names
            .extend(sets.clone().map(|set| name(&self.filters, set)));
        self.sets.extend(sets);
        self.ready *= 2;
        true
    }

    /// Whether one expression more doubles the classes.
    pub(crate) fn doubles(&self) -> bool {
        self.doubles_before(self.filters.len() + 1)
    }

    fn doubles_before(&self, expressions: usize) -> bool {
        expressions <= READY_MAX && self.ready as usize == 1 << (expressions - 1)
    }

    /// The classes have changed by these patches; classes that are made later will have, too, until
    /// the step undoes it that holds them.
    pub(crate) fn changed(&mut self, patches: &[Patch], held_by: Option<usize>, lease: Lease) {
        let changes = &mut self.layers.changes;
        // The first one is what the run began with.
        let mut at = 0;
        changes.retain(|change| {
            at += 1;
            let is_kept = at == 1 || change.held_by.is_some() || held_by.is_some();
            is_kept || !Patch::is_alike(&change.patches, patches)
        });
        changes.push(Layer {
            patches: patches.to_vec(),
            held_by,
            _lease: Some(lease),
        });
        self.part();
    }

    /// A step undoes its patches.
    pub(crate) fn undone(&mut self, step: usize) {
        let changes = &mut self.layers.changes;
        changes.retain(|change| change.held_by != Some(step));
        self.part();
    }

    /// Sets that shared a class may have other settings from now on.
    fn part(&mut self) {
        let sets = &self.sets;
        self.others
            .retain(|(set, class)| sets[usize::from(*class)] == *set);
        self.latest = (0, 0);
    }

    /// The settings of a class by all patches.
    pub(crate) fn settings(&self, class: usize) -> Settings {
        self.layers.settings(self.sets[class])
    }

    /// The link, and what its classes of frames match.
    pub(crate) fn report(&self) -> LinkReport<'_> {
        LinkReport {
            link: &self.link,
            classes: &self.names,
            sets: &self.sets,
            filters: &self.filters,
            shared: self.shared,
        }
    }

    /// The link, to change its settings.
    pub(crate) fn link_mut(&mut self) -> &mut Link<Frame> {
        &mut self.link
    }

    /// The class of a set for which none was made; `None` if there is no memory for one.
    fn class_of(&mut self, set: u32) -> Option<u8> {
        if self.latest.0 != set {
            let known = self.others.binary_search_by_key(&set, |known| known.0);
            let class = match known {
                Ok(place) => self.others[place].1,
                Err(place) => {
                    let class = self.make(set)?;
                    if self.others.len() < SETS_MAX {
                        self.others.insert(place, (set, class));
                    }
                    class
                }
            };
            self.latest = (set, class);
        }
        let class = self.latest.1;
        self.shared += u64::from(self.sets[usize::from(class)] != set);
        Some(class)
    }

    /// A class for a set, or one of equal settings if there is no memory or no number for it.
    #[cold]
    fn make(&mut self, set: u32) -> Option<u8> {
        let settings = self.layers.settings(set);
        let own_bytes = size_of::<Settings>() + settings.delay.memory_bytes();
        // Its delays are counted twice: since the latest change, and before it.
        let lease = self.budget.lease(own_bytes + 2 * Account::memory_bytes(1));
        if let Some(lease) = lease {
            // Sets of the first expressions draw as they would alone.
            let (seed, stream) = match u16::try_from(set) {
                Ok(small) if set < 1 << READY_MAX => (self.seed, self.stream + 2 * small),
                _ => {
                    let mixed = u64::from(set).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    (self.seed ^ mixed, self.stream)
                }
            };
            if let Some(class) = self.link.add_class(settings.clone(), seed, stream) {
                self.leases.push(lease);
                self.names.push(name(&self.filters, set));
                self.sets.push(set);
                return Some(class);
            }
        }
        let mut classes = self.link.classes().iter();
        let equal = classes.position(|class| *class.settings() == settings)?;
        Some(equal as u8)
    }

    /// The class of a frame. An expression that asks for what its link type does not have does not
    /// match. `None`: there is no memory for its class.
    #[inline]
    fn class(&mut self, frame: &FrameRef) -> Option<u8> {
        if self.filters.is_empty() {
            return Some(0);
        }
        let (link_type, wire_len) = (frame.descriptor().link_type, frame.descriptor().wire_len);
        let mut known = self.programs.iter();
        let known = known.position(|(each, _)| *each == link_type);
        let at = known.unwrap_or_else(|| self.compile(link_type));
        let mut set = 0;
        for (bit, program) in self.programs[at].1.iter().enumerate() {
            let program = program.as_ref();
            let matches = program.is_some_and(|program| program.matches(frame.bytes(), wire_len));
            set |= u32::from(matches) << bit;
        }
        match set < self.ready {
            true => Some(set as u8),
            false => self.class_of(set),
        }
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
fn name(filters: &[Filter], set: u32) -> String {
    let chosen = filters.iter().enumerate();
    let chosen = chosen.filter(|(bit, _)| set >> bit & 1 == 1);
    let chosen: Vec<_> = chosen.map(|(_, filter)| filter.expression()).collect();
    chosen.join("; ")
}

impl Element for Classifier {
    fn begin(&mut self, now: Nanoseconds) {
        self.link.begin(now);
    }

    fn on_burst(&mut self, now: Nanoseconds, burst: &mut Burst, out: &mut Effects<Frame>) {
        for frame in burst.drain(..) {
            let at_ns = arrival_ns(&frame, now);
            match self.class(&frame) {
                Some(class) => self.link.push_class(class, at_ns, frame, out),
                None => self.link.refuse(at_ns, frame, out),
            }
        }
        self.link.on_timer(now, out);
    }

    fn on_departures(&mut self, from: &mut Vec<Departure<Frame>>, out: &mut Effects<Frame>) {
        for departure in from.drain(..) {
            match self.class(&departure.item) {
                Some(class) => self.link.push_departure(class, departure, out),
                None => self.link.refuse(departure.at_ns, departure.item, out),
            }
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
        let link = Link::new(Settings::default(), 7, 0, 1 << 20);
        let mut classifier = Classifier::of_all(link, 7, 0, &Budget::new(0));
        classifier.begin_with(filters.into(), Vec::new());
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
                assert_eq!(classifier.class(&frame), Some(class), "{link_type} {port}");
            }
        }
        assert_eq!(classifier.programs.len(), 2);
    }
}
