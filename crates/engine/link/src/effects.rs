use lineside_time::Nanoseconds;

use crate::DropReason;

/// A frame that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure<T> {
    /// When it leaves.
    pub at_ns: Nanoseconds,
    /// When it entered; in a chain of elements, when it entered the first one.
    pub entered_ns: Nanoseconds,
    /// The delay that it was given.
    pub delay_ns: Nanoseconds,
    /// When its delay ended: later than the drawn one if order was to be kept. From then on it
    /// waited for the rate.
    pub due_ns: Nanoseconds,
    /// Its class.
    pub class: u8,
    /// [`Link::changes`](crate::Link::changes) when it entered.
    pub changes: u16,
    /// The frame.
    pub item: T,
}

/// A frame that is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped<T> {
    /// When.
    pub at_ns: Nanoseconds,
    /// Why.
    pub reason: DropReason,
    /// The frame.
    pub item: T,
}

/// Takes the frames that a link lets go.
pub trait Output<T> {
    /// A frame leaves.
    fn departs(&mut self, departure: Departure<T>);
    /// A frame is dropped.
    fn drops(&mut self, dropped: Dropped<T>);
}

/// Departures alone: the link counts drops in any case.
impl<T> Output<T> for Vec<Departure<T>> {
    #[inline]
    fn departs(&mut self, departure: Departure<T>) {
        self.push(departure);
    }

    fn drops(&mut self, _: Dropped<T>) {}
}

/// Departures, each in order of its instant, and drops if they are wanted.
#[derive(Debug)]
pub struct Effects<T> {
    /// Frames that leave.
    pub departures: Vec<Departure<T>>,
    /// Frames that were dropped; empty unless [`keeps_drops`](Self::keeps_drops).
    pub drops: Vec<Dropped<T>>,
    /// Whether dropped frames are kept, for an observer. They stay in their port's memory until
    /// they are taken.
    pub keeps_drops: bool,
}

impl<T> Default for Effects<T> {
    fn default() -> Self {
        Self {
            departures: Vec::new(),
            drops: Vec::new(),
            keeps_drops: false,
        }
    }
}

impl<T> Output<T> for Effects<T> {
    #[inline]
    fn departs(&mut self, departure: Departure<T>) {
        self.departures.push(departure);
    }

    fn drops(&mut self, dropped: Dropped<T>) {
        if self.keeps_drops {
            self.drops.push(dropped);
        }
    }
}
