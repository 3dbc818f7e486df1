use lineside_frame::{Burst, Frame};
use lineside_link::{Departure, Effects, Link};
use lineside_time::Nanoseconds;

use crate::classify::Classifier;
use crate::element::{Element, LinkReport};

/// The elements that frames pass which enter at one side, the first one first.
#[derive(Debug)]
pub(crate) struct Chain {
    /// Its link is the one in the certificate.
    first: Classifier,
    others: Vec<Box<dyn Element>>,
    /// What each element but the last one let go, on its way to the next.
    between: Vec<Effects<Frame>>,
}

impl Chain {
    pub(crate) fn new(first: Classifier) -> Self {
        Self {
            first,
            others: Vec::new(),
            between: Vec::new(),
        }
    }

    /// Adds an element at the end.
    pub(crate) fn push(&mut self, element: Box<dyn Element>) {
        self.others.push(element);
        self.between.push(Effects::default());
    }

    pub(crate) fn begin(&mut self, now: Nanoseconds) {
        self.first.begin(now);
        let others = self.others.iter_mut();
        others.for_each(|element| element.begin(now));
    }

    #[inline]
    pub(crate) fn on_burst(
        &mut self,
        now: Nanoseconds,
        burst: &mut Burst,
        out: &mut Effects<Frame>,
    ) {
        match self.between.first_mut() {
            None => self.first.on_burst(now, burst, out),
            Some(next) => {
                next.keeps_drops = out.keeps_drops;
                self.first.on_burst(now, burst, next);
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
        self.first.on_departures(from, first);
        self.on_timer(now, out);
    }

    #[inline]
    pub(crate) fn on_timer(&mut self, now: Nanoseconds, out: &mut Effects<Frame>) {
        match self.between.first_mut() {
            None => self.first.on_timer(now, out),
            Some(next) => {
                next.keeps_drops = out.keeps_drops;
                self.first.on_timer(now, next);
                self.pass_on(now, out);
            }
        }
    }

    /// From the first element to the others, one after the other.
    fn pass_on(&mut self, now: Nanoseconds, out: &mut Effects<Frame>) {
        let others = self.others.iter_mut().enumerate();
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
        let deadlines = self.others.iter().map(|element| element.next_deadline());
        let deadlines = deadlines.chain([self.first.next_deadline()]);
        deadlines.flatten().min()
    }

    pub(crate) fn held(&self) -> usize {
        let others = self.others.iter().map(|element| element.held());
        self.first.held() + others.sum::<usize>()
    }

    pub(crate) fn spill(&mut self, bytes_max: usize) {
        self.first.spill(bytes_max);
        let others = self.others.iter_mut();
        others.for_each(|element| element.spill(bytes_max));
    }

    /// The link of the certificate.
    pub(crate) fn report(&self) -> LinkReport<'_> {
        self.first.report()
    }

    /// The classifier of the link's frames.
    pub(crate) fn classifier(&self) -> &Classifier {
        &self.first
    }

    /// The same, to change it.
    pub(crate) fn classifier_mut(&mut self) -> &mut Classifier {
        &mut self.first
    }

    /// The same link.
    pub(crate) fn link_mut(&mut self) -> &mut Link<Frame> {
        self.first.link_mut()
    }
}
