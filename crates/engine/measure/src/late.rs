//! How late frames left: counts by bound, and quantiles. When they were due is the caller's.

use lineside_time::Nanoseconds;
use serde::{Deserialize, Serialize};

use crate::Times;

/// Quantiles of lateness are exact to 0.1 % up to this.
const HOUR_NS: u64 = 3_600_000_000_000;

/// Frames by how late they left. A frame counts under each bound that it exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LateCounts {
    /// Frames more than 1 ms late.
    pub over_1000us: u64,
    /// Frames more than 100 us late.
    pub over_100us: u64,
    /// Frames more than 10 us late.
    pub over_10us: u64,
    /// Frames more than 1 us late.
    pub over_1us: u64,
}

impl LateCounts {
    /// Counts a frame that left this long after it was due.
    #[inline]
    pub fn record(&mut self, late_ns: Nanoseconds) {
        // Nearly all frames end here.
        if late_ns <= 1_000 {
            return;
        }
        self.over_1us += 1;
        self.over_10us += u64::from(late_ns > 10_000);
        self.over_100us += u64::from(late_ns > 100_000);
        self.over_1000us += u64::from(late_ns > 1_000_000);
    }

    /// Adds those of another count.
    pub fn add(&mut self, other: &Self) {
        self.over_1000us += other.over_1000us;
        self.over_100us += other.over_100us;
        self.over_10us += other.over_10us;
        self.over_1us += other.over_1us;
    }
}

/// Nanoseconds between when frames were due and when they left; to 0.1 %, up to an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Lateness {
    /// Half of the frames were no later.
    pub p50_ns: u64,
    /// 90 % of the frames were no later.
    pub p90_ns: u64,
    /// 99 % of the frames were no later.
    pub p99_ns: u64,
    /// 99.9 % of the frames were no later.
    pub p999_ns: u64,
    /// The most; exact, and without a bound.
    pub max_ns: u64,
    /// Frames by how late they left.
    pub late: LateCounts,
}

/// Records how late frames left, one by one; recording allocates nothing. What left early was not
/// late.
#[derive(Debug, Clone)]
pub struct LateTimes {
    times: Times,
    late: LateCounts,
}

impl Default for LateTimes {
    fn default() -> Self {
        Self {
            times: Times::up_to(HOUR_NS),
            late: LateCounts::default(),
        }
    }
}

impl LateTimes {
    /// A frame that was due at one instant left at another.
    #[inline]
    pub fn record(&mut self, due_ns: Nanoseconds, left_ns: Nanoseconds) {
        // Two instants may lie farther apart than a signed number reaches.
        let late_ns = u64::try_from(i128::from(left_ns) - i128::from(due_ns)).unwrap_or(0);
        self.times.add(late_ns);
        self.late.record(i64::try_from(late_ns).unwrap_or(i64::MAX));
    }

    /// What was recorded so far; `None` without any.
    pub fn lateness(&self) -> Option<Lateness> {
        let times = &self.times;
        Some(Lateness {
            p50_ns: times.quantile_ns(0.5)?,
            p90_ns: times.quantile_ns(0.9)?,
            p99_ns: times.quantile_ns(0.99)?,
            p999_ns: times.quantile_ns(0.999)?,
            max_ns: times.max_ns()?,
            late: self.late,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_counts_under_each_bound_that_it_exceeds() {
        let mut late = LateCounts::default();
        for late_ns in [-5, 0, 1_000, 1_001, 10_001, 100_000, 1_000_001, i64::MAX] {
            late.record(late_ns);
        }
        let expected = LateCounts {
            over_1us: 5,
            over_10us: 4,
            over_100us: 2,
            over_1000us: 2,
        };
        assert_eq!(late, expected);
    }

    #[test]
    fn lateness_has_the_figures_of_what_was_recorded() {
        let mut late = LateTimes::default();
        assert_eq!(late.lateness(), None);
        for late_ns in 1..=1000 {
            late.record(-500, late_ns - 500);
        }
        late.record(7, 3);
        late.record(i64::MIN, i64::MAX);
        let lateness = late.lateness().expect("recorded");
        assert_eq!((lateness.p50_ns, lateness.p90_ns), (500, 901));
        assert_eq!((lateness.p99_ns, lateness.max_ns), (991, u64::MAX));
        assert_eq!(lateness.late.over_1000us, 1);
    }
}
