//! How far two clocks are apart.

use crate::{Clock, Nanoseconds};

/// The clock of a loop that frames must not be late for: it is never set, and knows the wall clock
/// beside it, which may be.
pub trait SteadyClock: Clock {
    /// How far the wall clock is ahead of this one now.
    fn wall_offset(&self) -> OffsetReading;
}

/// How far a clock that may be set is ahead of one that never is, as read at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetReading {
    /// When, by the clock that is never set.
    pub at_ns: Nanoseconds,
    /// How far the other one is ahead.
    pub ahead_ns: i64,
    /// How wrong that may be, either way.
    pub error_ns: i64,
}

/// A clock that may be set, followed beside one that never is: both run at the same speed, so that
/// their distance changes only when the one is set.
#[derive(Debug, Clone)]
pub struct ClockOffset {
    latest: OffsetReading,
    /// The distance before the clock was set, while stamps from before may still come.
    before_ns: i64,
}

/// A distance that differs by less is the same: reading two clocks one after the other takes some
/// time.
const SAME_NS: i64 = 10_000;

impl ClockOffset {
    /// The distance as of now.
    pub fn new(reading: OffsetReading) -> Self {
        Self {
            latest: reading,
            before_ns: reading.ahead_ns,
        }
    }

    /// Another reading; returns by how much the clock was set since the one before, if it was.
    pub fn observe(&mut self, reading: OffsetReading) -> Option<i64> {
        let by_ns = reading.ahead_ns - self.latest.ahead_ns;
        let was_set = by_ns.abs() > SAME_NS + reading.error_ns + self.latest.error_ns;
        if !was_set {
            // A reading that was interrupted is not kept for longer than it has to be.
            if reading.error_ns < self.latest.error_ns {
                if self.before_ns == self.latest.ahead_ns {
                    self.before_ns = reading.ahead_ns;
                }
                self.latest = reading;
            }
            self.latest.at_ns = reading.at_ns;
            return None;
        }
        self.before_ns = self.latest.ahead_ns;
        self.latest = reading;
        Some(by_ns)
    }

    /// No stamp from before the latest reading is still to come.
    pub fn settle(&mut self) {
        self.before_ns = self.latest.ahead_ns;
    }

    /// How far the clock is ahead.
    pub fn ahead_ns(&self) -> i64 {
        self.latest.ahead_ns
    }

    /// A stamp by the clock that may be set, taken a short time before the latest reading, by the
    /// one that never is. Of a stamp from about the time at which the clock was set, the later of
    /// the two instants that it may mean counts, unless that is yet to come.
    pub fn steady_ns(&self, stamp_ns: Nanoseconds) -> Nanoseconds {
        let now = self.latest.at_ns;
        let instants = [self.latest.ahead_ns, self.before_ns];
        let instants = instants.map(|ahead_ns| stamp_ns.saturating_sub(ahead_ns));
        let past = instants.into_iter().filter(|&instant| instant <= now);
        past.max().unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at_ns: i64, ahead_ns: i64) -> OffsetReading {
        OffsetReading {
            at_ns,
            ahead_ns,
            error_ns: 500,
        }
    }

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn a_narrower_reading_takes_the_place_of_a_wide_one() {
        let mut wide = reading(0, 100 * SECOND);
        (wide.ahead_ns, wide.error_ns) = (wide.ahead_ns + 300_000, 400_000);
        let mut offset = ClockOffset::new(wide);
        assert_eq!(offset.observe(reading(SECOND, 100 * SECOND)), None);
        assert_eq!(offset.ahead_ns(), 100 * SECOND);
        // And not the other way round.
        wide.at_ns = 2 * SECOND;
        assert_eq!(offset.observe(wide), None);
        assert_eq!(offset.ahead_ns(), 100 * SECOND);
        assert_eq!(offset.steady_ns(101 * SECOND), SECOND);
    }

    #[test]
    fn a_clock_that_is_set_moves_no_stamp() {
        for by_ns in [-4 * SECOND, 4 * SECOND, 50_000, -3_600 * SECOND] {
            let mut offset = ClockOffset::new(reading(0, 100 * SECOND));
            // Stamped before the clock was set and after, and read together.
            let stamps = [
                1_000_000 + 100 * SECOND,
                1_020_000 + 100 * SECOND + by_ns,
                1_030_000 + 100 * SECOND + by_ns,
            ];
            let set = offset.observe(reading(1_040_000, 100 * SECOND + by_ns));
            assert_eq!(set, Some(by_ns));
            let steady = stamps.map(|stamp_ns| offset.steady_ns(stamp_ns));
            assert_eq!(steady, [1_000_000, 1_020_000, 1_030_000], "{by_ns}");
            // A frame that waited for long: nothing from before is to come.
            offset.settle();
            assert_eq!(
                offset.observe(reading(9 * SECOND, 100 * SECOND + by_ns)),
                None
            );
            assert_eq!(
                offset.steady_ns(2 * SECOND + 100 * SECOND + by_ns),
                2 * SECOND
            );
        }
    }

    #[test]
    fn a_slow_reading_is_no_set_clock_and_no_stamp_is_to_come() {
        let mut offset = ClockOffset::new(reading(0, 7 * SECOND));
        let slow = OffsetReading {
            error_ns: 80_000,
            ..reading(SECOND, 7 * SECOND + 60_000)
        };
        assert_eq!(offset.observe(slow), None);
        assert_eq!(offset.ahead_ns(), 7 * SECOND);
        assert_eq!(offset.steady_ns(8 * SECOND + 300), SECOND);
    }
}
