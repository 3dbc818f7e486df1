//! A distribution of times in a few figures and as steps, and the distance between two of them.
//! Recording times is `Times`'s.

use serde::{Deserialize, Serialize};

/// A distribution of times: its figures, and its values as far as they are kept.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Spread {
    /// How many values it has.
    pub count: u64,
    /// The mean, in nanoseconds.
    pub mean_ns: f64,
    /// The standard deviation, in nanoseconds.
    pub deviation_ns: f64,
    /// The smallest value.
    pub min_ns: i64,
    /// 1 % of the values are at most this.
    pub p01_ns: i64,
    /// 10 % of the values are at most this.
    pub p10_ns: i64,
    /// 50 % of the values are at most this.
    pub p50_ns: i64,
    /// 90 % of the values are at most this.
    pub p90_ns: i64,
    /// 99 % of the values are at most this.
    pub p99_ns: i64,
    /// 99.9 % of the values are at most this.
    pub p999_ns: i64,
    /// The largest value.
    pub max_ns: i64,
    /// The values with their counts, in rising order.
    #[serde(skip)]
    pub(crate) steps: Vec<(i64, u64)>,
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
        let square = |value: i64| (value as f64 - mean_ns).powi(2);
        let squares = steps
            .iter()
            .map(|&(value, count)| square(value) * count as f64);
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

    /// Drops the values and keeps the figures: a distance from or to this is `None` from then on.
    pub fn forget_values(&mut self) {
        self.steps = Vec::new();
    }

    /// The Kolmogorov-Smirnov distance from `asked`, and how likely one at least as large is if the
    /// values are independent draws from `asked`: the limiting distribution with Stephens'
    /// correction (JRSS B 32, 1970). For a distribution with steps large distances are rarer, so
    /// the true p-value is at most the one given. `None` if either has no values.
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
        Some(Distance::of(largest, self.count as f64))
    }
}

/// How far one distribution lies from another.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Distance {
    /// The largest difference between the shares of values up to a point, from 0 to 1.
    pub ks: f64,
    /// How likely a distance at least as large is among independent draws.
    pub p_value: f64,
}

impl Distance {
    /// That of `count` values from a distribution: the limiting distribution with Stephens'
    /// correction. Between two samples of n and m values, `count` is n m / (n + m).
    pub fn of(ks: f64, count: f64) -> Self {
        let root = count.sqrt();
        let p_value = kolmogorov((root + 0.12 + 0.11 / root) * ks);
        Self { ks, p_value }
    }
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
}
