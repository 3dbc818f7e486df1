//! Distributions as tables of quantiles: the built-in ones of netem, and those made of samples.
//! Reading and writing them in their file formats is `format`'s.

use std::fmt;
use std::sync::Arc;

/// The most entries of a table, as in netem.
pub const TABLE_LEN_MAX: usize = 65_536;
/// What one standard deviation is in a table of [`Unit::Deviations`], as in netem.
pub const DEVIATION: i64 = 8192;
/// Entries of the tables that are generated here: netem's and the original hardware's.
pub const TABLE_LEN: usize = 4096;

/// The quantiles of a distribution, rising: entry `k` of `n` stands for the share from `k/n` to
/// `(k+1)/n`.
///
/// [`normal`](Self::normal), [`pareto`](Self::pareto) and [`pareto_normal`](Self::pareto_normal)
/// are netem's tables to the last digit. Only the four operations, which IEEE 754 fixes, go into
/// them, so they are the same on each machine.
#[derive(Clone, PartialEq, Eq)]
pub struct Table {
    values: Arc<[i64]>,
    unit: Unit,
}

/// What the numbers of a [`Table`] are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// The difference from the mean, [`DEVIATION`] for one standard deviation: from -4 to +4 of
    /// these.
    Deviations,
    /// Nanoseconds.
    Nanoseconds,
}

/// Why numbers are not a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Nothing to make a table of.
    #[error("there are no numbers in it")]
    Empty,
    /// More than [`TABLE_LEN_MAX`].
    #[error("{len} entries are more than {TABLE_LEN_MAX}: make a table from samples first")]
    TooLong {
        /// How many.
        len: usize,
    },
}

impl Table {
    /// A table of these quantiles. They need not rise, as netem's need not; code that needs them in
    /// order sorts them.
    pub fn new(values: Vec<i64>, unit: Unit) -> Result<Self, TableError> {
        match values.len() {
            0 => Err(TableError::Empty),
            len if len > TABLE_LEN_MAX => Err(TableError::TooLong { len }),
            _ => Ok(Self {
                values: values.into(),
                unit,
            }),
        }
    }

    /// The `len` quantiles, at the middle of their shares, of measured times in nanoseconds, in any
    /// order.
    pub fn from_samples(mut samples: Vec<i64>, len: usize) -> Result<Self, TableError> {
        if samples.is_empty() {
            return Err(TableError::Empty);
        }
        samples.sort_unstable();
        let quantile = |k: usize| samples[(2 * k + 1) * samples.len() / (2 * len)];
        Self::new((0..len).map(quantile).collect(), Unit::Nanoseconds)
    }

    /// The normal distribution. netem takes each quantile from a grid of 1/20000 deviation, and so
    /// does this.
    pub fn normal() -> Self {
        let values = (0..TABLE_LEN).map(|k| clamp16(normal_entry(k)));
        Self::generated(values)
    }

    /// The Pareto distribution of shape 3, moved to mean 0 and scaled to deviation 1.
    pub fn pareto() -> Self {
        Self::generated((0..TABLE_LEN).map(pareto_entry))
    }

    /// A quarter of the normal and three quarters of the Pareto quantile of the same share.
    pub fn pareto_normal() -> Self {
        let entry = |k| clamp16((normal_entry(k) + 3 * pareto_entry(k)) / 4);
        Self::generated((0..TABLE_LEN).map(entry))
    }

    fn generated(values: impl Iterator<Item = i64>) -> Self {
        Self {
            values: values.collect(),
            unit: Unit::Deviations,
        }
    }

    /// The entries.
    pub fn values(&self) -> &[i64] {
        &self.values
    }

    /// What they are.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// The mean of the entries, in their unit.
    pub fn mean(&self) -> f64 {
        self.values.iter().map(|&value| value as f64).sum::<f64>() / self.values.len() as f64
    }

    /// The standard deviation of the entries, in their unit.
    pub fn deviation(&self) -> f64 {
        let mean = self.mean();
        let squares = self
            .values
            .iter()
            .map(|&value| (value as f64 - mean).powi(2));
        (squares.sum::<f64>() / self.values.len() as f64).sqrt()
    }

    /// The same shape with mean 0 and deviation [`DEVIATION`], cut at four deviations as netem's
    /// and the original's tables are; and how many entries were cut. A table of
    /// [`Unit::Deviations`] is only cut.
    pub fn standardised(&self) -> (Self, usize) {
        let (mean, deviation) = match self.unit {
            Unit::Deviations => (0.0, DEVIATION as f64),
            Unit::Nanoseconds => (self.mean(), self.deviation()),
        };
        let scale = if deviation > 0.0 {
            DEVIATION as f64 / deviation
        } else {
            0.0
        };
        let scaled = |&value: &i64| ((value as f64 - mean) * scale).round() as i64;
        let cut = self
            .values
            .iter()
            .map(scaled)
            .filter(|&value| value != clamp16(value));
        let values = self.values.iter().map(|value| clamp16(scaled(value)));
        (Self::generated(values), cut.count())
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("len", &self.values.len())
            .field("unit", &self.unit)
            .finish_non_exhaustive()
    }
}

/// The range of an entry in netem's kernel module.
fn clamp16(value: i64) -> i64 {
    value.clamp(i16::MIN.into(), i16::MAX.into())
}

/// Not cut to 16 bits: netem cuts only what it prints, and its Pareto-normal table is made from
/// this.
fn normal_entry(k: usize) -> i64 {
    const GRID: f64 = 20_000.0;
    let share = (4 * k) as f64 + 0.5;
    let quantile = normal_quantile(share / 16_384.0);
    ((quantile * GRID).floor() / GRID * DEVIATION as f64).round_ties_even() as i64
}

fn pareto_entry(k: usize) -> i64 {
    let share = (65_536 - 16 * k) as f64 / 65_536.0;
    let quantile = (1.0 / cube_root(share) - 1.5) * (4.0 / 3.0);
    let entry = (quantile * DEVIATION as f64).round_ties_even() as i64;
    entry.min(i16::MAX.into())
}

/// Newton's method, for `0 < value <= 1`.
fn cube_root(value: f64) -> f64 {
    let mut root = 1.0;
    for _ in 0..64 {
        root -= (root * root * root - value) / (3.0 * root * root);
    }
    root
}

/// `exp(-x)` for `x >= 0`, by its series: all terms of the inverse are positive, so no digit is
/// lost.
pub(crate) fn exp_minus(x: f64) -> f64 {
    // Below this nothing here needs it, and the series would take long.
    if x > 64.0 {
        return 0.0;
    }
    let (mut sum, mut term, mut k) = (1.0, 1.0, 1.0);
    while term > sum * 1e-18 {
        term *= x / k;
        sum += term;
        k += 1.0;
    }
    1.0 / sum
}

/// The share of the normal distribution below `x`: Marsaglia, "Evaluating the normal distribution",
/// Journal of Statistical Software 11(4), 2004.
fn normal_share(x: f64) -> f64 {
    const ROOT_OF_TWO_PI: f64 = 2.506_628_274_631_000_5;
    let (mut sum, mut term, mut odd) = (x, x, 1.0);
    while term.abs() > sum.abs() * 1e-18 {
        odd += 2.0;
        term *= x * x / odd;
        sum += term;
    }
    0.5 + sum * exp_minus(x * x / 2.0) / ROOT_OF_TWO_PI
}

/// The inverse of [`normal_share`], by halving an interval that holds every share from 1e-9 to 1 -
/// 1e-9.
pub(crate) fn normal_quantile(share: f64) -> f64 {
    let (mut low, mut high) = (-6.0, 6.0);
    for _ in 0..56 {
        let middle = (low + high) / 2.0;
        if normal_share(middle) < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format;

    /// FNV-1a over the entries: the tables are the same on each machine.
    fn fingerprint(table: &Table) -> u64 {
        let bytes = table.values().iter().flat_map(|value| value.to_le_bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    #[test]
    fn generated_tables_are_netems_to_the_last_digit() {
        let folder = [
            "/usr/lib/tc",
            "/usr/lib64/tc",
            "/usr/lib/x86_64-linux-gnu/tc",
            "/usr/lib/aarch64-linux-gnu/tc",
        ]
        .into_iter()
        .find(|folder| std::path::Path::new(folder).join("normal.dist").exists());
        for (name, table, golden) in [
            ("normal", Table::normal(), 0x867a_55ff_99ca_41fc),
            ("pareto", Table::pareto(), 0x502c_ebc4_6164_4ee8),
            (
                "paretonormal",
                Table::pareto_normal(),
                0xbeb8_ca87_891e_b787,
            ),
        ] {
            assert_eq!(table.values().len(), TABLE_LEN);
            assert!(table.values().is_sorted());
            assert_eq!(fingerprint(&table), golden, "{name}");
            let Some(folder) = folder else {
                println!("SKIP: no tables of tc(8) here to compare with");
                continue;
            };
            let path = format!("{folder}/{name}.dist");
            let text = std::fs::read_to_string(&path).expect("readable");
            let theirs = format::read(&text).expect("a table");
            assert_eq!(theirs, table, "{path}");
        }
    }

    #[test]
    fn means_and_deviations_are_those_measured_of_netems() {
        for (table, mean, deviation) in [
            (Table::normal(), -0.0008, 1.0001),
            (Table::pareto(), -0.034, 0.820),
            (Table::pareto_normal(), -0.025, 0.834),
        ] {
            let unit = DEVIATION as f64;
            assert!(
                (table.mean() / unit - mean).abs() < 0.0006,
                "{}",
                table.mean() / unit
            );
            assert!(
                (table.deviation() / unit - deviation).abs() < 0.0006,
                "{}",
                table.deviation() / unit
            );
        }
    }

    #[test]
    fn a_table_from_samples_has_their_quantiles() {
        let samples: Vec<i64> = (0..10_000).rev().map(|k| 1000 + 3 * k).collect();
        let table = Table::from_samples(samples, 1000).expect("samples");
        assert_eq!(table.values()[0], 1000 + 3 * 5);
        assert_eq!(table.values()[999], 1000 + 3 * 9995);
        assert!((table.mean() - 15_998.5).abs() < 3.0);
        let (standard, cut) = table.standardised();
        assert_eq!((standard.unit(), cut), (Unit::Deviations, 0));
        assert!(standard.mean().abs() < 1.0);
        assert!((standard.deviation() - 8192.0).abs() < 1.0);
        // Of one sample among many, far away, netem's form keeps four deviations.
        let mut far = vec![0; 999];
        far.push(1_000_000);
        let (standard, cut) = Table::from_samples(far, 1000)
            .expect("samples")
            .standardised();
        assert_eq!((standard.values()[999], cut), (32_767, 1));
        assert_eq!(Table::from_samples(Vec::new(), 10), Err(TableError::Empty));
    }
}
