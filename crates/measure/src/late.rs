use lineside_time::Nanoseconds;
use serde::Serialize;

/// Frames by how late they left. A frame counts under each bound that it exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
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
    /// Counts a frame that left so long after it was due.
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
}
