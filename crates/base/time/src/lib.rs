//! Instants, the virtual clock, clocks that may be set, pending instants in a [`Wheel`], and seeded
//! random streams.
//!
//! Engines never read a clock: they are given `now` (rule 1 of `ARCHITECTURE.md`). Live, `now`
//! comes from a [`Clock`] of `lineside-host`; from files and in tests it is a [`VirtualClock`], the
//! running maximum of the stamps seen.
#![forbid(unsafe_code)]

mod offset;
mod random;
mod wheel;

pub use offset::{ClockOffset, OffsetReading};
pub use random::Random;
pub use wheel::{TimerId, Wheel};

/// Nanoseconds since the Unix epoch. Negative before 1970, as a capture file may claim.
///
/// 64 bits reach from the year 1677 to 2262; a reader counts and clears a stamp beyond that.
pub type Nanoseconds = i64;

/// A source of `now` for engines.
pub trait Clock {
    /// The current instant. Never less than an earlier answer.
    fn now(&self) -> Nanoseconds;
}

/// The clock of a loop that frames must not be late for: it is never set, and knows the wall clock
/// beside it, which may be.
pub trait SteadyClock: Clock {
    /// How far the wall clock is ahead of this one now.
    fn wall_offset(&self) -> OffsetReading;
}

/// Time that follows the stamps of what is read: the running maximum of all stamps so far.
///
/// Each record keeps its own stamp; only deadlines compare with this clock, so that a frame with an
/// old stamp cannot turn time back, and the same input meets the same deadlines.
#[derive(Debug, Clone, Copy)]
pub struct VirtualClock {
    now_ns: Nanoseconds,
}

impl VirtualClock {
    /// A clock before every stamp.
    pub fn new() -> Self {
        Self {
            now_ns: Nanoseconds::MIN,
        }
    }

    /// Moves the clock to `stamp_ns` if that is later, and returns the time.
    pub fn observe(&mut self, stamp_ns: Nanoseconds) -> Nanoseconds {
        self.now_ns = self.now_ns.max(stamp_ns);
        self.now_ns
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Nanoseconds {
        self.now_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_virtual_clock_never_runs_backwards() {
        let mut clock = VirtualClock::new();
        assert_eq!(clock.observe(5), 5);
        assert_eq!(clock.observe(3), 5);
        assert_eq!(clock.now(), 5);
    }
}
