//! Sizes in bytes and times in nanoseconds, each drawn by the ordinal of what it is for: the
//! distributions of `shape`, scaled and bounded, and tables. When something arrives is
//! `schedule`'s.

use std::sync::Arc;

use crate::arrivals::Width;
use crate::draw;
use crate::math::{exp, ln, pow};
use crate::shape::{Sampler, Shape};

/// The most rows of a table.
pub const ROWS_MAX: usize = 1 << 16;
/// No draw is larger: 2^50 bytes or 13 days, and exact as a double.
pub const VALUE_MAX: u64 = 1 << 50;

/// What values are, in words and in print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes: `64`, `4KiB`, `1.5MB`.
    Bytes,
    /// Nanoseconds: `100us`, `2ms`.
    Time,
}

/// A distribution of sizes or of times.
///
/// | words, here of bytes | values |
/// |---|---|
/// | `64` · `constant 64` | all the same |
/// | `uniform 1KiB..64KiB` | whole numbers, even between two bounds, both included |
/// | `exponential mean 4KiB` | exponential |
/// | `gamma mean 4KiB cv 2` · `… shape 0.25` | gamma |
/// | `weibull mean 4KiB shape 0.7` | Weibull |
/// | `lognormal median 1KiB cv 2` · `lognormal mean …` · `… sigma 1` | lognormal |
/// | `generalized-pareto mean 329 shape 0.35` | generalised Pareto, from 0 on |
/// | `pareto min 1KiB alpha 1.3 max 10MiB` | Pareto, cut off at `max`; without it, unbounded |
/// | `table 64:90%, 4KiB:9%, 1MiB:1%` | these, with these shares; they add up to 100 % |
/// | `cdf 0:0%, 10kB:15%, 1MB:100%` | between these values, up to each of which lies its share |
/// | `file PATH` | between the rows of a file, which rise in value and cumulative share |
///
/// `exponential`, `gamma`, `weibull`, `lognormal` and `generalized-pareto` take `max VALUE` at the
/// end: larger draws count as that. All are rounded to the nearest whole number.
#[derive(Debug, Clone, PartialEq)]
pub struct Sizes {
    pub(crate) model: SizeModel,
    pub(crate) unit: Unit,
    drawer: Drawer,
}

/// A distribution as it was written.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SizeModel {
    /// Always the same.
    Constant(u64),
    /// Whole numbers from the first to the last.
    Uniform(u64, u64),
    /// A shape with a mean.
    Shaped {
        /// Which one.
        family: Family,
        /// The mean, or the median.
        centre: Centre,
        /// Larger draws count as this.
        max: Option<u64>,
    },
    /// Pareto, perhaps bounded.
    Pareto {
        /// The least value.
        min: u64,
        /// The exponent of the tail.
        alpha: f64,
        /// The greatest value.
        max: Option<u64>,
    },
    /// Values with their shares.
    Table(Arc<[(u64, f64)]>),
    /// Values with the shares up to them, both rising, with straight lines between; the last share
    /// is 1.
    Cdf(Arc<[(u64, f64)]>),
    /// The same of a file, with straight lines between.
    File {
        /// Its name in the words.
        name: String,
        /// Values with the shares up to them, both rising; the last share is 1.
        rows: Arc<[(u64, f64)]>,
    },
}

/// A family of distributions that a mean or median scales.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Family {
    /// Exponential.
    Exponential,
    /// Gamma.
    Gamma(Width),
    /// Weibull of this shape.
    Weibull(f64),
    /// Lognormal.
    Lognormal(Width),
    /// Generalised Pareto of this shape.
    GeneralizedPareto(f64),
}

/// What a distribution is scaled to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Centre {
    /// Its mean.
    Mean(u64),
    /// Its median; of lognormal ones only.
    Median(u64),
}

/// What drawing needs, worked out once.
#[derive(Debug, Clone, PartialEq)]
enum Drawer {
    Constant(u64),
    /// The first one, and how many there are.
    Uniform(u64, u64),
    Shaped {
        sampler: Sampler,
        scale: f64,
        max: u64,
    },
    /// `min (1 - part u)^power`.
    Pareto {
        min: f64,
        part: f64,
        power: f64,
        max: u64,
    },
    /// Values with the shares up to them.
    Steps(Arc<[(u64, f64)]>),
    Lines(Arc<[(u64, f64)]>),
}

impl Family {
    pub(crate) fn shape(self) -> Shape {
        match self {
            Self::Exponential => Shape::Exponential,
            Self::Gamma(width) => width.gamma(),
            Self::Weibull(shape) => Shape::Weibull { shape },
            Self::Lognormal(width) => width.lognormal(),
            Self::GeneralizedPareto(shape) => Shape::GeneralizedPareto { shape },
        }
    }
}

impl Sizes {
    /// Always the same.
    pub fn constant(value: u64, unit: Unit) -> Self {
        Self::new(SizeModel::Constant(value.min(VALUE_MAX)), unit)
    }

    pub(crate) fn new(model: SizeModel, unit: Unit) -> Self {
        let drawer = match &model {
            &SizeModel::Constant(value) => Drawer::Constant(value),
            &SizeModel::Uniform(low, high) => Drawer::Uniform(low, high - low + 1),
            &SizeModel::Shaped {
                family,
                centre,
                max,
            } => {
                let shape = family.shape();
                let scale = match centre {
                    Centre::Mean(mean) => mean as f64,
                    Centre::Median(median) => median as f64 / shape.scale(),
                };
                Drawer::Shaped {
                    sampler: Sampler::new(shape),
                    scale,
                    max: max.unwrap_or(VALUE_MAX),
                }
            }
            &SizeModel::Pareto { min, alpha, max } => {
                let ratio = max.map_or(f64::INFINITY, |max| max as f64 / min as f64);
                let above = match max {
                    Some(_) => pow(ratio, -alpha),
                    None => 0.0,
                };
                Drawer::Pareto {
                    min: min as f64,
                    part: 1.0 - above,
                    power: -1.0 / alpha,
                    max: max.unwrap_or(VALUE_MAX),
                }
            }
            SizeModel::Table(rows) => {
                let mut sum = 0.0;
                let cumulative = rows.iter().map(|&(value, share)| {
                    sum += share;
                    (value, sum)
                });
                Drawer::Steps(cumulative.collect())
            }
            SizeModel::Cdf(rows) | SizeModel::File { rows, .. } => Drawer::Lines(rows.clone()),
        };
        Self {
            model,
            unit,
            drawer,
        }
    }

    /// The distribution as it was written.
    pub fn model(&self) -> &SizeModel {
        &self.model
    }

    /// The value for this ordinal: a function of the two alone. Seeds come from
    /// [`seed_for`](crate::seed_for).
    #[inline]
    pub fn draw(&self, seed: u64, ordinal: u64) -> u64 {
        if let Drawer::Constant(value) = self.drawer {
            return value;
        }
        let mut random = draw::at(seed, ordinal);
        match &self.drawer {
            &Drawer::Constant(value) => value,
            &Drawer::Uniform(low, count) => low + random.below(count),
            Drawer::Shaped {
                sampler,
                scale,
                max,
            } => rounded(scale * sampler.draw(&mut random), *max),
            &Drawer::Pareto {
                min,
                part,
                power,
                max,
            } => {
                let above = 1.0 - part * draw::unit(&mut random);
                rounded(min * exp(power * ln(above)), max)
            }
            Drawer::Steps(rows) => {
                let share = draw::unit(&mut random);
                let row = rows.partition_point(|row| row.1 <= share);
                rows[row.min(rows.len() - 1)].0
            }
            Drawer::Lines(rows) => {
                let share = draw::unit(&mut random);
                let row = rows.partition_point(|row| row.1 <= share);
                let row = row.min(rows.len() - 1);
                let (value, up_to) = rows[row];
                // What lies up to the first row is its value.
                let Some(&(below, from)) = row.checked_sub(1).and_then(|row| rows.get(row)) else {
                    return value;
                };
                let part = (share - from) / (up_to - from);
                rounded(below as f64 + part * (value - below) as f64, value)
            }
        }
    }

    /// The mean of all draws, before they are rounded; `None` where there is none, or where `max`
    /// changes it.
    pub fn mean(&self) -> Option<f64> {
        Some(match &self.model {
            &SizeModel::Constant(value) => value as f64,
            &SizeModel::Uniform(low, high) => (low + high) as f64 / 2.0,
            SizeModel::Shaped { max: Some(_), .. } => return None,
            &SizeModel::Shaped { family, centre, .. } => match centre {
                Centre::Mean(mean) => mean as f64,
                Centre::Median(median) => median as f64 / family.shape().scale(),
            },
            &SizeModel::Pareto { min, alpha, max } => pareto_mean(min as f64, alpha, max)?,
            SizeModel::Table(rows) => rows
                .iter()
                .map(|&(value, share)| value as f64 * share)
                .sum(),
            SizeModel::Cdf(rows) | SizeModel::File { rows, .. } => {
                let first = rows
                    .first()
                    .map_or(0.0, |&(value, share)| value as f64 * share);
                let part = |rows: &[(u64, f64)]| {
                    (rows[0].0 + rows[1].0) as f64 / 2.0 * (rows[1].1 - rows[0].1)
                };
                first + rows.windows(2).map(part).sum::<f64>()
            }
        })
    }

    /// The most that can be drawn.
    pub fn max(&self) -> u64 {
        match &self.drawer {
            &Drawer::Constant(value) => value,
            &Drawer::Uniform(low, count) => low + count - 1,
            &Drawer::Shaped { max, .. } | &Drawer::Pareto { max, .. } => max,
            Drawer::Steps(rows) | Drawer::Lines(rows) => {
                rows.iter().map(|row| row.0).max().unwrap_or(0)
            }
        }
    }
}

/// The nearest whole number, at most `max`.
#[inline]
fn rounded(value: f64, max: u64) -> u64 {
    ((value + 0.5) as u64).min(max)
}

/// The mean of a Pareto distribution from `min` on, cut off at `max` by its own share.
fn pareto_mean(min: f64, alpha: f64, max: Option<u64>) -> Option<f64> {
    let Some(max) = max else {
        return (alpha > 1.0).then(|| alpha * min / (alpha - 1.0));
    };
    let ratio = min / max as f64;
    if alpha == 1.0 {
        return Some(min * -ln(ratio) / (1.0 - ratio));
    }
    let whole = alpha * min / (alpha - 1.0);
    Some(whole * (1.0 - pow(ratio, alpha - 1.0)) / (1.0 - pow(ratio, alpha)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::no_files;

    fn bytes(text: &str) -> Sizes {
        Sizes::parse("size", text, Unit::Bytes, &mut no_files).expect(text)
    }

    const MODELS: [&str; 15] = [
        "constant 64",
        "uniform 1KiB..64KiB",
        "uniform 0..1",
        "exponential mean 4KiB",
        "gamma mean 4KiB cv 2",
        "gamma mean 10MiB shape 4",
        "weibull mean 4KiB shape 0.7",
        "lognormal median 1KiB cv 2",
        "lognormal mean 1KiB sigma 0.5",
        "pareto min 1KiB alpha 1.3 max 10MiB",
        "pareto min 1KiB alpha 1 max 1MiB",
        "pareto min 100 alpha 3",
        "generalized-pareto mean 4KiB shape 0.2",
        "table 64:90%, 4KiB:9%, 1MiB:1%",
        "cdf 0:0%, 4KiB:53.5%, 1MiB:100%",
    ];

    #[test]
    fn sizes_print_the_words_that_they_are_read_from() {
        for text in MODELS {
            assert_eq!(bytes(text).to_string(), text);
        }
        assert_eq!(bytes("1.5kB"), bytes("constant 1500"));
        let bounded = "weibull mean 1000 shape 2 max 1GiB";
        assert_eq!(bytes(bounded).to_string(), bounded);
        let think = |text| Sizes::parse("think", text, Unit::Time, &mut no_files).expect(text);
        for text in ["exponential mean 100ms", "uniform 1ms..5ms", "constant 7us"] {
            assert_eq!(think(text).to_string(), text);
        }
        assert_eq!(think("2ms").draw(1, 1), 2_000_000);
    }

    #[test]
    fn draws_have_the_mean_that_is_said() {
        for text in MODELS {
            let sizes = bytes(text);
            let count = 300_000;
            let draws = (0..count).map(|ordinal| sizes.draw(9, ordinal));
            let (mut sum, mut squares) = (0.0, 0.0);
            for draw in draws {
                assert!(draw <= sizes.max(), "{text}: {draw}");
                (sum, squares) = (sum + draw as f64, squares + (draw as f64).powi(2));
            }
            let mean = sum / count as f64;
            let error = ((squares / count as f64 - mean * mean) / count as f64).sqrt();
            let expected = sizes.mean().expect(text);
            assert!(
                (mean - expected).abs() <= 4.0 * error + 1e-9,
                "{text}: {mean}, {expected}"
            );
        }
        assert_eq!(bytes("pareto min 1 alpha 0.9").mean(), None);
        assert_eq!(bytes("exponential mean 5 max 9").mean(), None);
    }

    #[test]
    fn shares_of_tables_and_bounds_are_as_written() {
        let count = |text: &str, is_hit: &dyn Fn(u64) -> bool| {
            let sizes = bytes(text);
            (0..100_000)
                .filter(|&ordinal| is_hit(sizes.draw(3, ordinal)))
                .count()
        };
        let table = "table 64:90%, 4KiB:9%, 1MiB:1%";
        let near = |count: usize, expected: usize| count.abs_diff(expected) < 500;
        assert!(near(count(table, &|size| size == 64), 90_000));
        assert!(near(count(table, &|size| size == 4096), 9_000));
        assert!(near(count(table, &|size| size == 1 << 20), 1_000));
        // Of a Pareto distribution of exponent 1, half lies within twice the least.
        assert!(near(
            count("lognormal median 1KiB cv 2", &|size| size < 1024),
            50_000
        ));
        assert!(near(
            count("pareto min 1KiB alpha 1", &|size| size < 2048),
            50_000
        ));
        assert_eq!(
            count("pareto min 9 alpha 0.5 max 20", &|size| !(9..=20)
                .contains(&size)),
            0
        );
        let bounded = count("exponential mean 1000 max 1000", &|size| size == 1000);
        assert!(near(bounded, 36_788), "{bounded}");
    }

    #[test]
    fn values_between_the_rows_of_a_file_lie_on_lines() {
        let mut load = |_: &str| Ok("# bytes, share\n100 0.2\n200, 0.6\n1KiB 100%\n".to_owned());
        let sizes = Sizes::parse("size", "file web.txt", Unit::Bytes, &mut load).expect("a file");
        assert_eq!(sizes.to_string(), "file web.txt");
        let draws: Vec<_> = (0..100_000).map(|ordinal| sizes.draw(5, ordinal)).collect();
        let up_to = |size: u64| draws.iter().filter(|&&draw| draw <= size).count();
        for (size, expected) in [
            (99, 0),
            (100, 20_000),
            (150, 40_000),
            (200, 60_000),
            (612, 80_000),
        ] {
            // Half a byte on the line from 100 to 200 is 0.2 %.
            assert!(
                up_to(size).abs_diff(expected) < 700,
                "{size}: {}",
                up_to(size)
            );
        }
        assert_eq!(up_to(1024), 100_000);
        let mean = draws.iter().sum::<u64>() as f64 / 1e5;
        assert!((mean - sizes.mean().expect("one")).abs() < 4.0, "{mean}");
    }

    #[test]
    fn a_draw_depends_on_seed_and_ordinal_alone() {
        let sizes = bytes("gamma mean 4KiB cv 2");
        let draws: Vec<_> = (0..100).map(|ordinal| sizes.draw(1, ordinal)).collect();
        let again: Vec<_> = (0..100)
            .rev()
            .map(|ordinal| sizes.draw(1, ordinal))
            .collect();
        assert!(draws.iter().eq(again.iter().rev()));
        assert!((0..100).any(|ordinal| sizes.draw(2, ordinal) != draws[ordinal as usize]));
    }

    #[test]
    fn refused_sizes_name_the_column_and_the_way_out() {
        for (text, column, advice) in [
            ("", 1, "such as 4KiB"),
            ("4KX", 1, "KiB, MB"),
            ("64k", 1, "kB, KiB"),
            ("-5", 1, "must not be negative"),
            ("1.5", 1, "whole number of bytes"),
            ("2000000GiB", 1, "more than 1PiB"),
            ("unifrom 1..2", 1, "nearest known word is uniform"),
            ("uniform 5..2", 9, "the smaller value first"),
            ("exponential 4KiB", 13, "nearest known word is mean"),
            ("exponential mean 0", 18, "too small"),
            ("lognormal median 1KiB", 22, "such as cv 1.5, is missing"),
            (
                "pareto min 1KiB alpha 1.3 max 1KiB",
                31,
                "max must be above min",
            ),
            ("table 64:90%, 4KiB:9%", 7, "99%: make it 100%"),
            ("table 64:90", 7, "such as 64:90%"),
            ("table 64:200%", 7, "such as 64:90%"),
            ("file", 5, "the name of a file"),
        ] {
            let error = Sizes::parse("size", text, Unit::Bytes, &mut no_files).expect_err(text);
            assert_eq!(error.column, column, "{error}");
            assert!(error.to_string().contains(advice), "{error}");
        }
        for (file, advice) in [
            ("", "the last share is 0"),
            ("5 0.5", "the last share is 0.5"),
            ("5 0.5\n4 1", "line 2: values and shares must rise"),
            ("5 0.5\n6 0.5", "line 2: values and shares must rise"),
            ("5 0.5 7", "line 1: '5 0.5 7' is not a value and the share"),
            ("5 2", "line 1: '5 2' is not a value and the share"),
        ] {
            let mut load = |_: &str| Ok(file.to_owned());
            let error = Sizes::parse("size", "file x", Unit::Bytes, &mut load).expect_err(file);
            assert!(error.to_string().contains(advice), "{error}");
        }
    }
}
