use lineside_frame::Frame;
use lineside_link::{Departure, Dropped};
use lineside_time::Nanoseconds;

use crate::{CoreDrop, Departures, SideId};

/// Sees each frame that enters a path, each that leaves it and each that it drops, the same way in
/// virtual time and between ports. It delays no frame. Between ports it sees a departure when that
/// is due: when it was sent, the loop's [`Tap`](lineside_reactor::Tap) knows.
pub trait Observer {
    /// Frames enter at `side`, each at its stamp, or `now` if it has none or a later one.
    fn on_arrivals(&mut self, now: Nanoseconds, side: SideId, frames: &[Frame]);

    /// Frames that entered at `side` leave at `now`, in this order.
    fn on_departures(&mut self, now: Nanoseconds, side: SideId, departures: &[Departure<Frame>]);

    /// Frames that entered at `side` were dropped.
    fn on_drops(&mut self, side: SideId, drops: &[Dropped<Frame>]);

    /// The core dropped frames.
    fn on_core_drops(&mut self, drops: &[CoreDrop]);

    /// All frames that left by `now` have been observed.
    fn on_turn(&mut self, now: Nanoseconds);

    /// A step has a monitor measure from `now` on, or not.
    fn on_switch(&mut self, _now: Nanoseconds, _monitor: usize, _is_on: bool) {}
}

/// The observers of a path.
#[derive(Default)]
pub(crate) struct Observers(Vec<Box<dyn Observer>>);

impl Observers {
    pub(crate) fn push(&mut self, observer: Box<dyn Observer>) {
        self.0.push(observer);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn on_arrivals(&mut self, now: Nanoseconds, side: SideId, frames: &[Frame]) {
        for observer in &mut self.0 {
            observer.on_arrivals(now, side, frames);
        }
    }

    pub(crate) fn on_departures(
        &mut self,
        now: Nanoseconds,
        side: SideId,
        departures: &[Departure<Frame>],
    ) {
        for observer in &mut self.0 {
            observer.on_departures(now, side, departures);
        }
    }

    pub(crate) fn on_switch(&mut self, now: Nanoseconds, monitor: usize, is_on: bool) {
        for observer in &mut self.0 {
            observer.on_switch(now, monitor, is_on);
        }
    }

    /// Drops, which are then forgotten, and the end of a turn.
    pub(crate) fn end_turn(&mut self, now: Nanoseconds, out: &mut Departures) {
        for (side, effects) in out.sides_mut() {
            if !effects.drops.is_empty() {
                for observer in &mut self.0 {
                    observer.on_drops(side, &effects.drops);
                }
                effects.drops.clear();
            }
        }
        if !out.core_drops.is_empty() {
            for observer in &mut self.0 {
                observer.on_core_drops(&out.core_drops);
            }
            out.core_drops.clear();
        }
        for observer in &mut self.0 {
            observer.on_turn(now);
        }
    }
}

impl std::fmt::Debug for Observers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} observers", self.0.len())
    }
}
