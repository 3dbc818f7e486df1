//! Times recorded one by one.
//!
//! Quantiles come from a histogram whose steps are 0.1 % wide: 1,024 steps for each power of two,
//! with a count of 8 bytes each. A histogram of fixed size over the 38 powers of two up to a day
//! therefore takes 304 KiB, whatever is recorded. A polling loop needs the fixed size, because it
//! must not allocate; a report takes [`Times::growing`], which covers only what was recorded.

use hdrhistogram::Histogram;
use lineside_time::Nanoseconds;

use crate::{Distance, Spread};

/// A day.
const DAY_NS: u64 = 86_400_000_000_000;

/// Times from 0 on: quantiles to within the width of a step, mean, deviation and extremes exact.
#[derive(Debug, Clone)]
pub struct Times {
    histogram: Histogram<u64>,
    sum_ns: u128,
    squares: f64,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Times {
    /// Times of up to a day, to 0.1 %.
    fn default() -> Self {
        Self::up_to(DAY_NS)
    }
}

impl Times {
    /// The memory of the default histogram: 1,024 steps for each power of two, and 2,048 for the
    /// first ones.
    pub const MEMORY_BYTES: usize = 38 * 1024 * 8;

    /// Times of up to `max_ns`, at least 2 ns, to 0.1 %; in quantiles a longer one counts as
    /// `max_ns`. Recording allocates nothing.
    pub fn up_to(max_ns: u64) -> Self {
        let histogram = Histogram::new_with_bounds(1, max_ns.max(2), 3);
        Self::with(histogram.expect("3 digits, and bounds of which the upper is twice the lower"))
    }

    /// Times of any length, in a histogram that grows with the longest: `digits` of 3 mean
    /// quantiles to 0.1 %, 2 to 1 %.
    ///
    /// # Panics
    ///
    /// If `digits` is more than 5.
    pub fn growing(digits: u8) -> Self {
        Self::with(Histogram::new(digits).expect("5 digits at most"))
    }

    fn with(histogram: Histogram<u64>) -> Self {
        Self {
            histogram,
            sum_ns: 0,
            squares: 0.0,
            min_ns: u64::MAX,
            max_ns: 0,
        }
    }

    /// Adds a time; a negative one counts as 0.
    #[inline]
    pub fn record(&mut self, time_ns: Nanoseconds) {
        self.add(time_ns.max(0) as u64);
    }

    /// Adds a time.
    #[inline]
    pub fn add(&mut self, time_ns: u64) {
        if self.histogram.record(time_ns).is_err() {
            self.histogram.saturating_record(time_ns);
        }
        self.sum_ns += u128::from(time_ns);
        self.squares += (time_ns as f64).powi(2);
        self.min_ns = self.min_ns.min(time_ns);
        self.max_ns = self.max_ns.max(time_ns);
    }

    /// How many were recorded.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The shortest; `None` without any, as for all figures.
    pub fn min_ns(&self) -> Option<u64> {
        self.some(self.min_ns)
    }

    /// The longest.
    pub fn max_ns(&self) -> Option<u64> {
        self.some(self.max_ns)
    }

    /// The mean, rounded down.
    pub fn mean_ns(&self) -> Option<u64> {
        self.some((self.sum_ns / u128::from(self.count().max(1))) as u64)
    }

    /// The time that this share, from 0 to 1, does not exceed.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        // The histogram answers with the upper end of a step, which may lie above every value.
        let value = || self.histogram.value_at_quantile(share);
        (self.count() > 0).then(|| value().clamp(self.min_ns, self.max_ns))
    }

    fn some(&self, ns: u64) -> Option<u64> {
        (self.count() > 0).then_some(ns)
    }

    /// Their distribution; `None` without any.
    pub fn spread(&self) -> Option<Spread> {
        if self.histogram.is_empty() {
            return None;
        }
        let recorded = self.histogram.iter_recorded();
        // The largest value of a step stands for all its values: the shares up to it are then
        // exact.
        let clamp = |value: u64| value.clamp(self.min_ns, self.max_ns) as i64;
        let steps = recorded.map(|step| (clamp(step.value_iterated_to()), step.count_at_value()));
        let count = self.histogram.len() as f64;
        let mean_ns = self.sum_ns as f64 / count;
        Some(Spread {
            mean_ns,
            deviation_ns: (self.squares / count - mean_ns * mean_ns).max(0.0).sqrt(),
            min_ns: self.min_ns as i64,
            ..Spread::of(steps.collect())
        })
    }

    /// The distance of these times from `asked`, whose values are first rounded up as recorded ones
    /// are; otherwise as [`Spread::distance`].
    pub fn distance(&self, asked: &Spread) -> Option<Distance> {
        let max_ns = self.max_ns.max(asked.max_ns.max(0) as u64);
        let rounded = |&(value, count): &(i64, u64)| {
            let value = self.histogram.highest_equivalent(value.max(0) as u64);
            (value.min(max_ns) as i64, count)
        };
        let asked = Spread::of(asked.steps.iter().map(rounded).collect());
        self.spread()?.distance(&asked)
    }
}

/// Times of which some are negative: to 0.1 us, and to 0.1 % from a tenth of a millisecond on.
#[derive(Debug, Default)]
pub struct SignedTimes(Times);

impl SignedTimes {
    /// A time below this counts as this: no release begins so early.
    const MIN_NS: i64 = -100_000;

    /// Adds a time.
    #[inline]
    pub fn record(&mut self, time_ns: Nanoseconds) {
        self.0.record(time_ns - Self::MIN_NS);
    }

    /// Their distribution; `None` without any.
    pub fn spread(&self) -> Option<Spread> {
        let mut spread = self.0.spread()?;
        spread.mean_ns += Self::MIN_NS as f64;
        for value in [
            &mut spread.min_ns,
            &mut spread.p01_ns,
            &mut spread.p10_ns,
            &mut spread.p50_ns,
            &mut spread.p90_ns,
            &mut spread.p99_ns,
            &mut spread.p999_ns,
            &mut spread.max_ns,
        ] {
            *value += Self::MIN_NS;
        }
        Some(spread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_times_have_the_distance_of_their_values() {
        let asked = Spread::of(
            (0..1000)
                .map(|value| (1_000_000 + 777 * value, 1))
                .collect(),
        );
        let mut times = Times::default();
        assert_eq!(times.spread(), None);
        assert!(times.histogram.distinct_values() * 8 <= Times::MEMORY_BYTES);
        for value in 0..1000 {
            times.record(1_000_000 + 777 * value);
        }
        let spread = times.spread().expect("times");
        assert!((spread.mean_ns - asked.mean_ns).abs() < 1e-3);
        assert!((spread.deviation_ns - asked.deviation_ns).abs() < 1.0);
        assert!((spread.p50_ns - asked.p50_ns).abs() < 1500);
        assert_eq!((spread.min_ns, spread.max_ns), (1_000_000, 1_776_223));
        assert!(times.distance(&asked).expect("times").ks < 1e-9);
    }

    #[test]
    fn quantiles_saturate_at_the_upper_bound_and_extremes_do_not() {
        let mut times = Times::up_to(1_000_000);
        [5, 7, u64::MAX].into_iter().for_each(|ns| times.add(ns));
        assert_eq!((times.min_ns(), times.max_ns()), (Some(5), Some(u64::MAX)));
        assert_eq!(times.quantile_ns(0.5), Some(7));
        let longest = times.quantile_ns(1.0).expect("times");
        assert!((1_000_000..1_100_000).contains(&longest), "{longest}");
        let mut growing = Times::growing(3);
        [5, 7, 1 << 40].into_iter().for_each(|ns| growing.add(ns));
        let longest = growing.quantile_ns(1.0).expect("times");
        assert_eq!(longest, 1 << 40);
        assert_eq!(growing.mean_ns(), Some(((1 << 40) + 12) / 3));
    }

    #[test]
    fn negative_times_keep_their_sign() {
        let mut times = SignedTimes::default();
        [-2_000, 1_000, 4_000]
            .into_iter()
            .for_each(|ns| times.record(ns));
        let spread = times.spread().expect("times");
        assert_eq!((spread.min_ns, spread.max_ns), (-2_000, 4_000));
        assert!((spread.mean_ns - 1_000.0).abs() < 1e-9);
        assert!((spread.p50_ns - 1_000).abs() <= 100, "{}", spread.p50_ns);
    }
}
