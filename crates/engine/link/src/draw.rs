//! Streams of random numbers, and how they become delays.
//!
//! The same seed gives the same draws on each machine: streams are integers, and the tables and
//! correlations computed from them use only +, -, x and /. Not here: which impairment draws when,
//! which is the link's.

use std::sync::{Arc, OnceLock};

use lineside_time::{Nanoseconds, Random};

use crate::settings::{Correlation, DELAY_MAX_NS, Delay, Distribution, Draws, Jitter};
use crate::table::{DEVIATION, TABLE_LEN, Table, Unit, exp_minus, normal_quantile};

/// The impairment that a stream of random numbers is for. Each has one of its own in each
/// direction, so that changing one of them leaves the draws of the others as they are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Impairment {
    Delay,
    Loss,
    Duplicate,
    Corrupt,
    Reorder,
}

/// The seed of an impairment's stream: number `stream` times 16 and the impairment in the sequence
/// of the link's seed.
fn stream_seed(seed: u64, stream: u16, impairment: Impairment) -> u64 {
    let mut random = Random::new(seed);
    let place = u32::from(stream) * 16 + impairment as u32;
    (0..place).for_each(|_| _ = random.bits());
    random.bits()
}

/// Shares of 2^32, even in the long run, from one draw to the next independent or not.
#[derive(Debug, Clone)]
pub(crate) struct Ranks {
    random: Random,
    prbs31: Prbs31,
    /// The normal deviate of the latest correlated rank, and when it was drawn.
    latest: Option<(f64, Nanoseconds)>,
    /// Frames often come at equal gaps, and working out weights takes longer than all else.
    weights: Weights,
}

/// The weights of the latest deviate and of a fresh one, for a gap in time and a half-life; the sum
/// of their squares is 1.
#[derive(Debug, Clone, Copy)]
struct Weights {
    gap_ns: Nanoseconds,
    half_ns: u64,
    kept: f64,
    fresh: f64,
}

impl Weights {
    fn new(kept: f64) -> Self {
        Self {
            gap_ns: 0,
            // No half-life is 0.
            half_ns: 0,
            kept,
            fresh: (1.0 - kept * kept).sqrt(),
        }
    }

    fn after(gap_ns: Nanoseconds, half_ns: u64) -> Self {
        let kept = exp_minus(gap_ns as f64 / half_ns as f64 * std::f64::consts::LN_2);
        Self {
            gap_ns,
            half_ns,
            ..Self::new(kept)
        }
    }
}

/// The quantiles of the normal distribution at `k / 4096`, and at the middles between.
#[derive(Debug)]
pub(crate) struct Normal {
    edges: Vec<f64>,
    middles: Vec<f64>,
    /// For each [`STEP`](Self::STEP) from [`LEAST`](Self::LEAST) on, the first edge in it or after
    /// it.
    guide: Vec<u16>,
}

impl Ranks {
    pub(crate) fn new(seed: u64, stream: u16, impairment: Impairment) -> Self {
        Self {
            random: Random::new(stream_seed(seed, stream, impairment)),
            prbs31: Prbs31::new(1),
            latest: None,
            weights: Weights::new(0.0),
        }
    }

    /// Begins the original hardware's sequence again.
    pub(crate) fn begin_prbs31(&mut self, state: u32) {
        self.prbs31 = Prbs31::new(state);
    }

    /// The next rank.
    #[inline]
    pub(crate) fn next(&mut self, now: Nanoseconds, correlation: Correlation) -> u32 {
        match correlation {
            Correlation::None => (self.random.bits() >> 32) as u32,
            _ => self.next_correlated(now, correlation),
        }
    }

    /// The upper `bits` bits are the index that the original hardware would draw from a table of
    /// 2^`bits` entries.
    #[inline]
    fn next_prbs31(&mut self, bits: u32) -> u32 {
        self.prbs31.advance() << (32 - bits)
    }

    /// An autoregressive normal process, of which each value's own rank is taken: so ranks are
    /// correlated and yet as even as independent ones. netem blends ranks with the one before,
    /// which makes middle ones more frequent.
    #[inline(never)]
    fn next_correlated(&mut self, now: Nanoseconds, correlation: Correlation) -> u32 {
        let fresh = (self.random.bits() >> 32) as u32;
        let normal = Normal::get();
        let independent = normal.middles[fresh as usize >> 20];
        let deviate = match self.latest {
            None => independent,
            Some((latest, at)) => {
                self.weights = match correlation {
                    Correlation::None => Weights::new(0.0),
                    Correlation::Share(share) if share == self.weights.kept => self.weights,
                    Correlation::Share(share) => Weights::new(share),
                    Correlation::HalfLife(half_ns) => {
                        let gap_ns = now.saturating_sub(at).max(0);
                        if (gap_ns, half_ns) == (self.weights.gap_ns, self.weights.half_ns) {
                            self.weights
                        } else {
                            Weights::after(gap_ns, half_ns)
                        }
                    }
                };
                self.weights.kept * latest + self.weights.fresh * independent
            }
        };
        self.latest = Some((deviate, now));
        let entry = normal.entry(deviate);
        // The bits that did not choose the deviate spread it over its entry.
        entry << 20 | (fresh & 0xf_ffff)
    }
}

impl Normal {
    /// Below all edges, and as far above 0 above all.
    const LEAST: f64 = -4.0;
    /// A fraction of a power of two, so that multiplying by it is exact.
    const STEP: f64 = 1.0 / 256.0;

    /// The one of this process. Making it takes a tenth of a second: code that will need it calls
    /// this before frames come.
    #[inline]
    pub(crate) fn get() -> &'static Self {
        static NORMAL: OnceLock<Normal> = OnceLock::new();
        NORMAL.get_or_init(Self::new)
    }

    fn new() -> Self {
        let len = TABLE_LEN as f64;
        let edges: Vec<f64> = (1..TABLE_LEN)
            .map(|k| normal_quantile(k as f64 / len))
            .collect();
        let steps = (-2.0 * Self::LEAST / Self::STEP) as usize;
        let guide = (0..=steps).map(|step| {
            let begin = Self::LEAST + step as f64 * Self::STEP;
            edges.partition_point(|&edge| edge <= begin) as u16
        });
        Self {
            guide: guide.collect(),
            middles: (0..TABLE_LEN)
                .map(|k| normal_quantile((k as f64 + 0.5) / len))
                .collect(),
            edges,
        }
    }

    /// How many edges are no greater.
    #[inline]
    fn entry(&self, deviate: f64) -> u32 {
        let step = ((deviate - Self::LEAST) / Self::STEP).max(0.0) as usize;
        let mut entry = usize::from(self.guide[step.min(self.guide.len() - 1)]);
        // The difference is rounded: what lies just below a step may count as in it.
        while entry > 0 && self.edges[entry - 1] > deviate {
            entry -= 1;
        }
        // Of the edges in one step few have to be looked at: where they are densest, seven.
        while self.edges.get(entry).is_some_and(|&edge| edge <= deviate) {
            entry += 1;
        }
        entry as u32
    }
}

/// The original hardware's pseudo-random sequence: x^31 + x^28 + 1, a whole word of 31 bits an
/// advance, read inverted.
///
/// NetFPGA/NRG-live: the low bits, as many as the table's address has, are the index of the next
/// draw.
#[derive(Debug, Clone)]
struct Prbs31 {
    state: u32,
}

impl Prbs31 {
    const MASK: u32 = (1 << 31) - 1;

    /// All zeros would stay so: 0 begins as 1, the state after a reset.
    fn new(state: u32) -> Self {
        let state = (state & Self::MASK).max(1);
        Self { state }
    }

    /// 31 steps of the shift register; the inverted word.
    #[inline]
    fn advance(&mut self) -> u32 {
        let upper = (self.state >> 3 ^ self.state) & (Self::MASK >> 3);
        let lower = (self.state ^ upper >> 25) & 7;
        self.state = upper << 3 | lower;
        !self.state & Self::MASK
    }
}

/// Delays by rank, and how often each was drawn.
#[derive(Debug)]
pub(crate) struct Sampler {
    shape: Shape,
    draws: Draws,
    correlation: Correlation,
    /// Bits of an index under [`Draws::Prbs31`].
    index_bits: u32,
    /// By entry; uniform and constant delays by the upper 12 bits of the rank.
    counts: Vec<u64>,
    sum_ns: i128,
    /// The largest delay that can be drawn.
    max_ns: i64,
}

#[derive(Debug, Clone)]
enum Shape {
    Constant(i64),
    /// From the first on, this many nanoseconds wide: netem's `mu - sigma + rnd % (2 * sigma)`.
    Uniform(i64, u64),
    Table(Arc<[i64]>),
}

impl Sampler {
    pub(crate) fn new(delay: &Delay) -> Self {
        let shape = shape(delay);
        let len = match &shape {
            Shape::Table(values) => values.len(),
            _ => TABLE_LEN,
        };
        let max_ns = match &shape {
            Shape::Constant(delay_ns) => *delay_ns,
            &Shape::Uniform(low_ns, width_ns) => low_ns.saturating_add(width_ns as i64),
            Shape::Table(values) => values.iter().copied().max().unwrap_or(0),
        };
        Self {
            max_ns,
            shape,
            draws: delay.draws,
            correlation: delay.correlation(),
            index_bits: len.next_power_of_two().trailing_zeros().max(1),
            counts: vec![0; len],
            sum_ns: 0,
        }
    }

    /// The same delays, of which none has been drawn.
    pub(crate) fn again(&self) -> Self {
        Self {
            shape: self.shape.clone(),
            draws: self.draws,
            correlation: self.correlation,
            index_bits: self.index_bits,
            max_ns: self.max_ns,
            counts: vec![0; self.counts.len()],
            sum_ns: 0,
        }
    }

    /// The next delay. A negative one is possible where jitter is larger than the delay.
    #[inline]
    pub(crate) fn draw(&mut self, now: Nanoseconds, ranks: &mut Ranks) -> i64 {
        if let Shape::Constant(delay_ns) = self.shape {
            return delay_ns;
        }
        let rank = match self.draws {
            Draws::Seeded { .. } => ranks.next(now, self.correlation),
            Draws::Prbs31 { .. } => ranks.next_prbs31(self.index_bits),
        };
        let entry = ((u64::from(rank) * self.counts.len() as u64) >> 32) as usize;
        self.counts[entry] += 1;
        let delay_ns = match &self.shape {
            Shape::Constant(delay_ns) => *delay_ns,
            &Shape::Uniform(low_ns, width_ns) => {
                low_ns + ((u128::from(rank) * u128::from(width_ns)) >> 32) as i64
            }
            Shape::Table(values) => values[entry],
        };
        self.sum_ns += i128::from(delay_ns);
        delay_ns
    }

    /// The delays with their numbers of draws, rising; without jitter nothing. A uniform
    /// distribution has 4,096 steps.
    pub(crate) fn drawn(&self) -> Vec<(i64, u64)> {
        let mut drawn: Vec<_> = { self.asked().into_iter() }
            .zip(self.counts.iter().copied())
            .collect();
        drawn.sort_unstable();
        drawn
    }

    /// The delay of each entry, in the table's order: each is as likely as the others. One, if
    /// constant.
    pub(crate) fn asked(&self) -> Vec<i64> {
        match &self.shape {
            Shape::Constant(delay_ns) => vec![*delay_ns],
            &Shape::Uniform(low_ns, width_ns) => {
                let steps = TABLE_LEN as u128;
                let middle = |k: u128| (2 * k + 1) * u128::from(width_ns) / (2 * steps);
                (0..steps).map(|k| low_ns + middle(k) as i64).collect()
            }
            Shape::Table(values) => values.to_vec(),
        }
    }

    /// The mean of all draws, exact.
    pub(crate) fn mean_ns(&self) -> Option<f64> {
        let count: u64 = self.counts.iter().sum();
        (count > 0).then(|| self.sum_ns as f64 / count as f64)
    }

    /// The largest delay that can be drawn.
    pub(crate) fn max_ns(&self) -> i64 {
        self.max_ns
    }

    /// The share of draws that lie below 0.
    pub(crate) fn negative_share(&self) -> f64 {
        match &self.shape {
            Shape::Constant(_) => 0.0,
            &Shape::Uniform(low_ns, width_ns) => (-low_ns as f64 / width_ns as f64).clamp(0.0, 1.0),
            Shape::Table(values) => {
                let negative = values.iter().filter(|&&value| value < 0).count();
                negative as f64 / values.len() as f64
            }
        }
    }
}

fn shape(delay: &Delay) -> Shape {
    let base_ns = delay.base_ns.min(DELAY_MAX_NS) as i64;
    let cut = |jitter_ns: u64| jitter_ns.min(DELAY_MAX_NS);
    match &delay.jitter {
        Jitter::None | Jitter::Around { jitter_ns: 0, .. } => Shape::Constant(base_ns),
        &Jitter::Around {
            jitter_ns,
            ref distribution,
        } => match standard(distribution) {
            None => Shape::Uniform(base_ns - cut(jitter_ns) as i64, 2 * cut(jitter_ns)),
            Some(table) => by_entry(base_ns, table.values(), |value| {
                scaled(value, cut(jitter_ns) as i64)
            }),
        },
        &Jitter::Above {
            jitter_ns,
            ref distribution,
        } => match standard(distribution) {
            None => Shape::Uniform(base_ns, cut(jitter_ns)),
            Some(table) => by_entry(base_ns, table.values(), |value| {
                ((i128::from(value + 32_768) * i128::from(cut(jitter_ns))) >> 16) as i64
            }),
        },
        &Jitter::Shifted {
            shift,
            cycle_ns,
            ref distribution,
        } => shifted(base_ns, shift.min(32), cut(cycle_ns) as i64, distribution),
        Jitter::Measured { table, times, .. } => {
            by_entry(base_ns, table.values(), |value| match table.unit() {
                Unit::Nanoseconds => (value as f64 * times).round() as i64,
                // `settings` refuses it: a shape without a size.
                Unit::Deviations => 0,
            })
        }
    }
}

/// The table of a distribution with a mean of 0 and a deviation of 1; `None` for the uniform one.
fn standard(distribution: &Distribution) -> Option<Table> {
    match distribution {
        Distribution::Uniform => None,
        Distribution::Table { table, .. } => Some(table.standardised().0),
    }
}

/// `base_ns` and, for each entry of a table, the delay that is made of it.
fn by_entry(base_ns: i64, values: &[i64], delay_ns: impl Fn(i64) -> i64) -> Shape {
    let most_ns = DELAY_MAX_NS as i64;
    let entry = |&value: &i64| base_ns + delay_ns(value).clamp(-most_ns, most_ns);
    Shape::Table(values.iter().map(entry).collect())
}

/// The original hardware's: 16 bits of the table, or the 12 of the index, become `shift` bits of
/// cycles.
fn shifted(base_ns: i64, shift: u32, cycle_ns: i64, distribution: &Distribution) -> Shape {
    let cycles = |value: i64, bits: u32| match shift.checked_sub(bits) {
        Some(left) => value << left,
        None => value >> (bits - shift),
    };
    match standard(distribution) {
        None => {
            let indices: Vec<_> = (0..TABLE_LEN as i64).collect();
            by_entry(base_ns, &indices, |index| {
                cycles(index, 12).saturating_mul(cycle_ns)
            })
        }
        Some(table) => by_entry(base_ns, table.values(), |value| {
            cycles(value + 32_768, 16).saturating_mul(cycle_ns)
        }),
    }
}

/// netem's `tabledist`: the parts of sigma above and below 8192 apart, each rounded away from 0.
fn scaled(value: i64, sigma_ns: i64) -> i64 {
    let rest = sigma_ns % DEVIATION * value;
    let half = if rest >= 0 {
        DEVIATION / 2
    } else {
        -DEVIATION / 2
    };
    (rest + half) / DEVIATION + sigma_ns / DEVIATION * value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;

    fn indices(count: usize) -> Vec<u32> {
        let mut sequence = Prbs31::new(1);
        (0..count).map(|_| sequence.advance() & 0xfff).collect()
    }

    #[test]
    fn prbs31_is_the_originals() {
        // By a model of the RTL of NetFPGA/NRG-live, b4fb526, from the state after a reset.
        let golden = [
            4086, 4030, 3510, 4094, 4086, 4030, 3510, 4094, 4086, 4026, 3478, 3806, 2006, 1690,
            3510, 4094,
        ];
        assert_eq!(indices(16), golden);
    }

    #[test]
    fn prbs31_is_31_steps_of_its_shift_register_an_advance() {
        let mut sequence = Prbs31::new(0x1234_5678);
        let mut register = sequence.state;
        for _ in 0..1000 {
            for _ in 0..31 {
                let bit = (register >> 30 ^ register >> 27) & 1;
                register = (register << 1 | bit) & Prbs31::MASK;
            }
            assert_eq!(sequence.advance(), !register & Prbs31::MASK);
        }
    }

    #[test]
    fn netems_rounding_is_kept() {
        // (sigma % 8192) * value, half added, / 8192, + (sigma / 8192) * value, by hand.
        for (value, sigma_ns, expected) in [
            (8192, 10_000, 10_000),
            (-8192, 10_000, -10_000),
            (1, 4096, 1),
            (-1, 4096, -1),
            (1, 4095, 0),
            (12_345, 20_000, 30_139),
            (-32_768, 8191, -32_764),
        ] {
            assert_eq!(scaled(value, sigma_ns), expected, "{value} x {sigma_ns}");
        }
    }

    #[test]
    fn shifted_jitter_is_the_originals() {
        let delay = |shift, distribution| Delay {
            base_ns: 1000,
            jitter: Jitter::Shifted {
                shift,
                cycle_ns: 5,
                distribution,
            },
            draws: Draws::Prbs31 { state: 1 },
            ..Delay::default()
        };
        // Uniform: the 12-bit index, shifted right by 12 - s.
        let mut ranks = Ranks::new(0, 0, Impairment::Delay);
        let mut sampler = Sampler::new(&delay(10, Distribution::Uniform));
        let drawn: Vec<_> = (0..4).map(|_| sampler.draw(0, &mut ranks)).collect();
        let golden = [4086, 4030, 3510, 4094].map(|index: i64| 1000 + (index >> 2) * 5);
        assert_eq!(drawn, golden);
        // A table: its unsigned entry, shifted right by 16 - s, or left.
        for shift in [11, 18] {
            ranks.begin_prbs31(1);
            let table = Table::pareto();
            let distribution = Distribution::named("pareto", table.clone());
            let mut sampler = Sampler::new(&delay(shift, distribution));
            let drawn: Vec<_> = (0..4).map(|_| sampler.draw(0, &mut ranks)).collect();
            let golden = [4086, 4030, 3510, 4094].map(|index: usize| {
                let unsigned = table.values()[index] + 32_768;
                1000 + 5 * if shift == 11 {
                    unsigned >> 5
                } else {
                    unsigned << 2
                }
            });
            assert_eq!(drawn, golden);
        }
    }

    #[test]
    fn the_guide_table_finds_what_a_search_finds() {
        let normal = Normal::new();
        let edges = normal
            .edges
            .iter()
            .flat_map(|&edge| [edge.next_down(), edge, edge.next_up()]);
        let others = (-5000..=5000).map(|k| f64::from(k) / 1000.0);
        for deviate in edges
            .chain(others)
            .chain([-1e300, 1e300, f64::NEG_INFINITY, f64::INFINITY])
        {
            let found = normal.edges.partition_point(|&edge| edge <= deviate) as u32;
            assert_eq!(normal.entry(deviate), found, "{deviate}");
        }
    }

    #[test]
    fn correlated_ranks_are_even_and_correlated() {
        for (correlation, expected) in [
            (Correlation::Share(0.25), 0.25),
            (Correlation::Share(0.9), 0.9),
            // Draws lie 1 ms apart: a half-life of 1 ms keeps half.
            (Correlation::HalfLife(1_000_000), 0.5),
        ] {
            let mut ranks = Ranks::new(3, 0, Impairment::Loss);
            let drawn: Vec<f64> = (0..200_000)
                .map(|k| f64::from(ranks.next(k * 1_000_000, correlation)) / 4_294_967_296.0)
                .collect();
            let mut sorted = drawn.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            let len = sorted.len() as f64;
            let steps = sorted.iter().enumerate();
            let distance = steps
                .map(|(k, rank)| (rank - k as f64 / len).abs())
                .fold(0.0, f64::max);
            assert!(distance < 0.015, "{correlation:?}: {distance}");
            let pairs = drawn
                .windows(2)
                .map(|pair| (pair[0] - 0.5) * (pair[1] - 0.5));
            let found = pairs.sum::<f64>() / len * 12.0;
            // A normal correlation r is one of ranks of 6 / pi * asin(r / 2).
            let expected = 6.0 / std::f64::consts::PI * (expected / 2.0_f64).asin();
            assert!((found - expected).abs() < 0.02, "{correlation:?}: {found}");
        }
    }
}
