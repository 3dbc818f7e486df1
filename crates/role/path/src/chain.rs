use lineside_filter::Filter;
use lineside_frame::{Burst, Frame};
use lineside_link::{Departure, Effects, Link};
use lineside_time::Nanoseconds;

use crate::classify::Classifier;
use crate::element::{Element, LinkReport};

/// The elements that frames pass which enter at one side, the first one first.
#[derive(Debug)]
pub(crate) struct Chain {
    /// At least one; the first of them that is a link is the one in the certificate.
    elements: Vec<Box<dyn Element>>,
    /// What each element but the last one let go, on its way to the next.
    between: Vec<Effects<Frame>>,
}

impl Chain {
    pub(crate) fn new(link: Link<Frame>) -> Self {
        Self {
            elements: vec![Box::new(Classifier::new(Vec::new(), link))],
            between: Vec::new(),
        }
    }

    /// Puts an element in the place of the first one.
    pub(crate) fn replace_first(&mut self, element: Box<dyn Element>) {
        self.elements[0] = element;
    }

    /// Adds an element at the end.
    pub(crate) fn push(&mut self, element: Box<dyn Element>) {
        self.elements.push(element);
        self.between.push(Effects::default());
    }

    pub(crate) fn begin(&mut self, now: Nanoseconds) {
        let elements = self.elements.iter_mut();
        elements.for_each(|element| element.begin(now));
    }

    #[inline]
    pub(crate) fn on_burst(
        &mut self,
        now: Nanoseconds,
        burst: &mut Burst,
        out: &mut Effects<Frame>,
    ) {
        match self.between.first_mut() {
            None => self.elements[0].on_burst(now, burst, out),
            Some(next) => {
                next.keeps_drops = out.keeps_drops;
                self.elements[0].on_burst(now, burst, next);
                self.pass_on(now, out);
            }
        }
    }

    /// Takes all frames of `from`, which left a core; those that are due by `now` leave.
    pub(crate) fn on_departures(
        &mut self,
        now: Nanoseconds,
        from: &mut Vec<Departure<Frame>>,
        out: &mut Effects<Frame>,
    ) {
        let first = match self.between.first_mut() {
            None => &mut *out,
            Some(next) => {
                next.keeps_drops = out.keeps_drops;
                next
            }
        };
        self.elements[0].on_departures(from, first);
        self.on_timer(now, out);
    }

    #[inline]
    pub(crate) fn on_timer(&mut self, now: Nanoseconds, out: &mut Effects<Frame>) {
        match self.between.first_mut() {
            None => self.elements[0].on_timer(now, out),
            Some(next) => {
                next.keeps_drops = out.keeps_drops;
                self.elements[0].on_timer(now, next);
                self.pass_on(now, out);
            }
        }
    }

    /// From the first element to the others, one after the other.
    fn pass_on(&mut self, now: Nanoseconds, out: &mut Effects<Frame>) {
        let others = self.elements.iter_mut().skip(1).enumerate();
        for (at, element) in others {
            let (before, after) = self.between.split_at_mut(at + 1);
            let from = &mut before[at];
            out.drops.append(&mut from.drops);
            let to = match after.first_mut() {
                None => &mut *out,
                Some(next) => {
                    next.keeps_drops = from.keeps_drops;
                    next
                }
            };
            element.on_departures(&mut from.departures, to);
            element.on_timer(now, to);
        }
    }

    /// When the next frame is due.
    #[inline]
    pub(crate) fn next_deadline(&self) -> Option<Nanoseconds> {
        let deadlines = self.elements.iter().map(|element| element.next_deadline());
        deadlines.flatten().min()
    }

    pub(crate) fn held(&self) -> usize {
        self.elements.iter().map(|element| element.held()).sum()
    }

    pub(crate) fn spill(&mut self, bytes_max: usize) {
        let elements = self.elements.iter_mut();
        elements.for_each(|element| element.spill(bytes_max));
    }

    /// The link of the certificate.
    pub(crate) fn report(&self) -> LinkReport<'_> {
        let mut reports = self.elements.iter().filter_map(|element| element.report());
        reports.next().expect("a chain begins with a link")
    }

    /// Tells frames apart from now on, as [`Element::classify`] has it.
    pub(crate) fn classify(&mut self, filter: Filter, seed: u64, stream: u16) {
        self.elements[0].classify(filter, seed, stream);
    }

    /// The same link.
    pub(crate) fn link_mut(&mut self) -> &mut Link<Frame> {
        let mut links = self
            .elements
            .iter_mut()
            .filter_map(|element| element.link_mut());
        links.next().expect("a chain begins with a link")
    }
}
