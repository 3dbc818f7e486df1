//! Distributions told in figures, and how far one lies from another.

use hdrhistogram::Histogram;
use lineside_time::Nanoseconds;
use serde::Serialize;

/// A distribution of times.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Spread {
    /// Of how many values.
    pub count: u64,
    /// Nanoseconds.
    pub mean_ns: f64,
    /// The standard deviation, nanoseconds.
    pub deviation_ns: f64,
    /// The least.
    pub min_ns: i64,
    /// 1 % are no more.
    pub p01_ns: i64,
    /// A tenth is no more.
    pub p10_ns: i64,
    /// Half are no more.
    pub p50_ns: i64,
    /// Nine tenths are no more.
    pub p90_ns: i64,
    /// 99 % are no more.
    pub p99_ns: i64,
    /// 99.9 % are no more.
    pub p999_ns: i64,
    /// The greatest.
    pub max_ns: i64,
    /// The values and their counts, rising.
    #[serde(skip)]
    steps: Vec<(i64, u64)>,
}

impl Spread {
    /// The distribution of values with their counts, in any order.
    pub fn of(mut steps: Vec<(i64, u64)>) -> Self {
        steps.retain(|&(_, count)| count > 0);
        steps.sort_unstable();
        let count: u64 = steps.iter().map(|&(_, count)| count).sum();
        let Some((&(min_ns, _), &(max_ns, _))) = steps.first().zip(steps.last()) else {
            return Self::default();
        };
        let sum: f64 = steps
            .iter()
            .map(|&(value, count)| value as f64 * count as f64)
            .sum();
        let mean_ns = sum / count as f64;
        let squares =
            { steps.iter() }.map(|&(value, count)| (value as f64 - mean_ns).powi(2) * count as f64);
        let quantile = |share: f64| {
            let wanted = (share * count as f64).ceil() as u64;
            let mut seen = 0;
            let step = steps.iter().find(|(_, count)| {
                seen += count;
                seen >= wanted
            });
            step.map_or(max_ns, |&(value, _)| value)
        };
        Self {
            count,
            mean_ns,
            deviation_ns: (squares.sum::<f64>() / count as f64).sqrt(),
            min_ns,
            p01_ns: quantile(0.01),
            p10_ns: quantile(0.1),
            p50_ns: quantile(0.5),
            p90_ns: quantile(0.9),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            max_ns,
            steps,
        }
    }

    /// Keeps the figures alone: a distance from or to this is `None` from now on.
    pub fn forget_values(&mut self) {
        self.steps = Vec::new();
    }

    /// The Kolmogorov-Smirnov distance from `asked`, and how likely one so large is if the values are
    /// independent draws of that: the limiting distribution with Stephens' correction (JRSS B 32, 1970).
    /// A distribution in steps makes large ones less likely than that, so the p-value is at least as large as it says.
    /// `None` without values.
    pub fn distance(&self, asked: &Self) -> Option<Distance> {
        if self.steps.is_empty() || asked.steps.is_empty() {
            return None;
        }
        let (mut here, mut there) = (self.steps.iter().peekable(), asked.steps.iter().peekable());
        let (mut below_here, mut below_there, mut largest) = (0, 0, 0.0_f64);
        loop {
            let heads = (
                here.peek().map(|step| step.0),
                there.peek().map(|step| step.0),
            );
            let value = match heads {
                (None, None) => break,
                (Some(one), None) | (None, Some(one)) => one,
                (Some(one), Some(other)) => one.min(other),
            };
            while let Some(step) = here.next_if(|step| step.0 == value) {
                below_here += step.1;
            }
            while let Some(step) = there.next_if(|step| step.0 == value) {
                below_there += step.1;
            }
            let share = below_here as f64 / self.count as f64;
            largest = largest.max((share - below_there as f64 / asked.count as f64).abs());
        }
        let root = (self.count as f64).sqrt();
        let p_value = kolmogorov((root + 0.12 + 0.11 / root) * largest);
        Some(Distance {
            ks: largest,
            p_value,
        })
    }
}

/// How far one distribution lies from another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Distance {
    /// The largest difference of the shares below a value, from 0 to 1.
    pub ks: f64,
    /// How likely one so large is among independent draws.
    pub p_value: f64,
}

/// The chance that Kolmogorov's statistic exceeds `x`.
fn kolmogorov(x: f64) -> f64 {
    // The series needs many terms here, where its sum is 1 to ten digits.
    if x < 0.2 {
        return 1.0;
    }
    let term = |k: i32| {
        let sign = if k % 2 == 1 { 2.0 } else { -2.0 };
        sign * (-2.0 * f64::from(k * k) * x * x).exp()
    };
    (1..=20).map(term).sum::<f64>().clamp(0.0, 1.0)
}

/// Times as they are measured: quantiles to 0.1 %, mean, deviation and extremes exact.
#[derive(Debug, Clone)]
pub struct Times {
    histogram: Histogram<u64>,
    sum_ns: i128,
    squares: f64,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Times {
    fn default() -> Self {
        // A day.
        let histogram = Histogram::new_with_bounds(1, 86_400_000_000_000, 3);
        Self {
            histogram: histogram.expect("3 digits and a greater bound above a lower are allowed"),
            sum_ns: 0,
            squares: 0.0,
            min_ns: u64::MAX,
            max_ns: 0,
        }
    }
}

impl Times {
    /// What one takes: of each power of two 1,024 steps, and a first one of 2,048.
    pub const MEMORY_BYTES: usize = 38 * 1024 * 8;

    /// One more; what lies below 0 counts as 0.
    #[inline]
    pub fn record(&mut self, time_ns: Nanoseconds) {
        let time_ns = time_ns.max(0) as u64;
        self.histogram.saturating_record(time_ns);
        self.sum_ns += i128::from(time_ns);
        self.squares += (time_ns as f64).powi(2);
        self.min_ns = self.min_ns.min(time_ns);
        self.max_ns = self.max_ns.max(time_ns);
    }

    /// Their distribution; `None` without any.
    pub fn spread(&self) -> Option<Spread> {
        if self.histogram.is_empty() {
            return None;
        }
        let recorded = self.histogram.iter_recorded();
        // A step of the histogram stands for all its values, by the greatest: shares below that are then exact.
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

    /// The distance of what was measured from `asked`, as [`Spread::distance`] has it, but with `asked`'s values rounded up as a
    /// measured one is.
    pub fn distance(&self, asked: &Spread) -> Option<Distance> {
        let rounded = |&(value, count): &(i64, u64)| {
            let value = value.max(0) as u64;
            let value = self.histogram.highest_equivalent(value);
            (
                value.min(self.max_ns.max(asked.max_ns.max(0) as u64)) as i64,
                count,
            )
        };
        let asked = Spread::of(asked.steps.iter().map(rounded).collect());
        self.spread()?.distance(&asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_figures_of_its_values() {
        let spread = Spread::of((1..=1000).rev().map(|value| (value, 2)).collect());
        assert_eq!((spread.count, spread.mean_ns), (2000, 500.5));
        assert!((spread.deviation_ns - 288.675).abs() < 0.001);
        let quantiles = [
            spread.min_ns,
            spread.p01_ns,
            spread.p50_ns,
            spread.p99_ns,
            spread.p999_ns,
            spread.max_ns,
        ];
        assert_eq!(quantiles, [1, 10, 500, 990, 999, 1000]);
    }

    #[test]
    fn kolmogorovs_distribution_is_that_of_tables() {
        // The quantiles that every table of the test has: 1.2238, 1.3581, 1.6276.
        for (x, p) in [
            (1.223_85, 0.1),
            (1.358_10, 0.05),
            (1.627_62, 0.01),
            (0.5, 0.963_945),
        ] {
            assert!((kolmogorov(x) - p).abs() < 1e-5, "{x}: {}", kolmogorov(x));
        }
    }

    #[test]
    fn distances_are_those_of_the_shares() {
        let asked = Spread::of((0..100).map(|value| (value, 1)).collect());
        let same = asked.distance(&asked).expect("values");
        assert_eq!((same.ks, same.p_value), (0.0, 1.0));
        let moved = Spread::of((10..110).map(|value| (value, 1)).collect());
        let moved = moved.distance(&asked).expect("values");
        assert!((moved.ks - 0.1).abs() < 1e-12);
        assert!(
            moved.p_value > 0.2 && moved.p_value < 0.3,
            "{}",
            moved.p_value
        );
    }

    #[test]
    fn measured_times_are_as_far_as_they_are() {
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
}
