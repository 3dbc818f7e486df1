//! A bucket that fills at a rate, exact to the fraction of a nanosecond.

use lineside_time::Nanoseconds;

use crate::settings::RateLimit;

const NS: u64 = 1_000_000_000;

/// The bucket is described by the instant at which it was empty, or would have been: at any later
/// one it holds what the rate brought since, at most the burst.
#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    limit: RateLimit,
    burst: Instant,
    empty: Instant,
}

/// Nanoseconds and parts of one, in units of 1/rate: whole numbers, so that no rounding adds up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Instant {
    ns: Nanoseconds,
    parts: u64,
}

impl Bucket {
    /// A bucket that is full at `now`, and thus before.
    pub(crate) fn new(limit: RateLimit, now: Nanoseconds) -> Self {
        let bits_per_second = limit.bits_per_second.max(1);
        let limit = RateLimit {
            bits_per_second,
            ..limit
        };
        let burst = time_for(limit.burst_bytes, bits_per_second);
        let mut bucket = Self {
            limit,
            burst,
            empty: Instant {
                ns: Nanoseconds::MIN,
                parts: 0,
            },
        };
        bucket.fill(now);
        bucket
    }

    /// The same bucket under another limit: what was used up at `now` is not given again.
    pub(crate) fn changed(&self, limit: RateLimit, now: Nanoseconds) -> Self {
        let mut changed = Self::new(limit, now);
        // A part of a nanosecond of another rate counts as a whole.
        let empty = Instant {
            ns: self
                .empty
                .ns
                .saturating_add(i64::from(self.empty.parts > 0)),
            parts: 0,
        };
        changed.empty = changed.empty.max(empty);
        changed
    }

    pub(crate) fn limit(&self) -> &RateLimit {
        &self.limit
    }

    /// The first nanosecond at which a frame that is due at `due` may leave.
    #[inline]
    pub(crate) fn ready_ns(&self, due: Nanoseconds, len_bytes: u32) -> Nanoseconds {
        let earned = self.after(due, len_bytes);
        earned
            .ns
            .saturating_add(i64::from(earned.parts > 0))
            .max(due)
    }

    /// The frame leaves.
    #[inline]
    pub(crate) fn take(&mut self, due: Nanoseconds, len_bytes: u32) {
        self.empty = self.after(due, len_bytes);
    }

    /// When the bucket is empty again, the frame having left.
    #[inline]
    fn after(&self, due: Nanoseconds, len_bytes: u32) -> Instant {
        let rate = self.limit.bits_per_second;
        let bytes = u64::from(len_bytes) + u64::from(self.limit.overhead_bytes);
        let full = self.full_at(due);
        plus(self.empty.max(full), time_for(bytes, rate), rate)
    }

    fn fill(&mut self, now: Nanoseconds) {
        self.empty = self.empty.max(self.full_at(now));
    }

    /// When a bucket that is full at `now` was empty: one burst's time before.
    #[inline]
    fn full_at(&self, now: Nanoseconds) -> Instant {
        match self.burst {
            Instant { ns, parts: 0 } => Instant {
                ns: now.saturating_sub(ns),
                parts: 0,
            },
            Instant { ns, parts } => Instant {
                ns: now.saturating_sub(ns).saturating_sub(1),
                parts: self.limit.bits_per_second - parts,
            },
        }
    }
}

/// How long the rate takes for this many bytes.
#[inline]
fn time_for(bytes: u64, bits_per_second: u64) -> Instant {
    match bytes.checked_mul(8 * NS) {
        Some(product) => Instant {
            ns: (product / bits_per_second) as i64,
            parts: product % bits_per_second,
        },
        None => {
            let product = u128::from(bytes) * u128::from(8 * NS);
            let rate = u128::from(bits_per_second);
            Instant {
                ns: i64::try_from(product / rate).unwrap_or(i64::MAX / 4),
                parts: (product % rate) as u64,
            }
        }
    }
}

#[inline]
fn plus(a: Instant, b: Instant, bits_per_second: u64) -> Instant {
    let parts = a.parts + b.parts;
    let whole = parts >= bits_per_second;
    Instant {
        ns: a.ns.saturating_add(b.ns).saturating_add(i64::from(whole)),
        parts: if whole {
            parts - bits_per_second
        } else {
            parts
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Excess;

    fn limit(bits_per_second: u64, burst_bytes: u64, overhead_bytes: u32) -> RateLimit {
        RateLimit {
            bits_per_second,
            burst_bytes,
            overhead_bytes,
            excess: Excess::Wait,
        }
    }

    #[test]
    fn without_a_burst_a_frame_takes_its_time_on_the_wire() {
        let mut bucket = Bucket::new(limit(1_000_000_000, 0, 24), 0);
        assert_eq!(bucket.ready_ns(1000, 1514), 1000 + 12_304);
        bucket.take(1000, 1514);
        assert_eq!(bucket.ready_ns(1000, 60), 1000 + 12_304 + 672);
        bucket.take(1000, 60);
        // Idle time is not saved up.
        assert_eq!(bucket.ready_ns(50_000, 60), 50_672);
    }

    #[test]
    fn a_burst_leaves_at_once_and_then_the_rate_holds() {
        // 8 bits a microsecond: a byte is 1000 ns.
        let mut bucket = Bucket::new(limit(8_000_000, 250, 0), 0);
        let mut instants = Vec::new();
        for _ in 0..4 {
            instants.push(bucket.ready_ns(10, 100));
            bucket.take(10, 100);
        }
        assert_eq!(instants, [10, 10, 50_010, 150_010]);
        // What is longer than the bucket waits for what is missing.
        let bucket = Bucket::new(limit(8_000_000, 250, 0), 0);
        assert_eq!(bucket.ready_ns(10, 300), 50_010);
    }

    #[test]
    fn fractions_add_up_to_what_they_are() {
        // 7 bits a second: a byte takes 8/7 s.
        let mut bucket = Bucket::new(limit(7, 0, 0), 0);
        for _ in 0..700 {
            bucket.take(0, 1);
        }
        assert_eq!(
            bucket.empty,
            Instant {
                ns: 800 * NS as i64,
                parts: 0
            }
        );
        assert_eq!(bucket.ready_ns(0, 1), 801_142_857_143);
        // A rate of 10^18 does not overflow.
        let bucket = Bucket::new(limit(1_000_000_000_000_000_000, u64::MAX / 8, 0), 0);
        assert_eq!(bucket.ready_ns(7, 262_144), 7);
    }

    #[test]
    fn a_change_gives_nothing_twice() {
        let mut bucket = Bucket::new(limit(8_000_000, 0, 0), 0);
        bucket.take(0, 100);
        let slower = bucket.changed(limit(800_000, 0, 0), 50_000);
        assert_eq!(slower.ready_ns(50_000, 10), 200_000);
        let faster = bucket.changed(limit(80_000_000, 0, 0), 500_000);
        assert_eq!(faster.ready_ns(500_000, 10), 501_000);
    }
}
