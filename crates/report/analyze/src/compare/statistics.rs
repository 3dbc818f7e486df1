//! Intervals that hold for the heavy tails and the bursts of storage traffic.
//!
//! Operations are not independent of one another: they come in bursts, and a slow second is slow
//! for all of them. So the unit of chance is a slice of time, not an operation. A share, a rate and
//! a mean are ratios of two sums over slices, with the variance of such a ratio; a quantile has the
//! interval of the share of operations that do not exceed it, turned back into times (Woodruff,
//! 1952), which asks nothing of the tail. Slices that resemble those before them say the same
//! again: as far as their autocorrelation reaches they count as one, both for the error and for how
//! many there are. With too few left there is no interval. None is narrower than independent
//! operations would make it. A regime that lasts as long as a whole trace shows in none.

/// Slices with operations that a comparison needs.
pub(super) const SLICES_MIN: usize = 8;
/// The same of operations.
const OPERATIONS_MIN: f64 = 30.0;
/// Independent slices, of those that there are, below which nothing is sure.
const INDEPENDENT_MIN: usize = 4;

/// A value with the interval in which it lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    pub(super) value: f64,
    /// Unknown where the data do not bound it.
    pub(super) low: Option<f64>,
    pub(super) high: Option<f64>,
}

/// A ratio of two sums over slices, `x / n`, and the standard error of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ratio {
    pub(super) value: f64,
    pub(super) error: f64,
    /// Slices with an `n`.
    pub(super) slices: usize,
    /// As many independent ones would say as much.
    pub(super) independent: usize,
}

impl Ratio {
    /// Of slices in the order of time. `variance_min` is the variance that independent operations
    /// would have.
    pub(super) fn of(
        slices: &[(f64, f64)],
        variance_min: impl Fn(f64, f64) -> f64,
    ) -> Option<Self> {
        let active = || slices.iter().filter(|(_, n)| *n > 0.0);
        let (count, whole) = active().fold((0, 0.0), |(count, sum), (_, n)| (count + 1, sum + n));
        if count < 2 {
            return None;
        }
        let value = active().map(|(x, _)| x).sum::<f64>() / whole;
        let rests: Vec<f64> = active().map(|(x, n)| x - value * n).collect();
        let squares: f64 = rests.iter().map(|rest| rest * rest).sum();
        let alike = resemblance(&rests, squares);
        let spread = count as f64 / (count as f64 - 1.0) * squares * alike;
        let variance = (spread / (whole * whole)).max(variance_min(value, whole));
        Some(Self {
            value,
            error: variance.sqrt(),
            slices: count,
            independent: (count as f64 / alike) as usize,
        })
    }

    /// Whether there are enough independent slices for an interval.
    pub(super) fn is_sure(&self) -> bool {
        self.independent >= INDEPENDENT_MIN
    }

    /// As unsure as `all` makes it, of which it is a part: a slow time is slow for all of them, and
    /// a part may show too little to find that out.
    fn within(self, all: Option<&Self>) -> Self {
        let Some(all) = all else {
            return self;
        };
        let alike = all.slices as f64 / all.independent.max(1) as f64;
        let shared = all.error * (1.0 - 1.0 / alike.max(1.0)).sqrt();
        Self {
            error: self.error.hypot(shared),
            ..self
        }
    }

    /// The share of `x` in `n`, both counts.
    pub(super) fn share(slices: &[(f64, f64)]) -> Option<Self> {
        Self::of(slices, |share, whole| share * (1.0 - share) / whole)
    }

    /// The mean count of a slice.
    pub(super) fn rate(counts: impl Iterator<Item = f64>) -> Option<Self> {
        let slices: Vec<_> = counts.map(|count| (count, 1.0)).collect();
        Self::of(&slices, |mean, slices| mean / slices)
    }

    /// The interval on a scale of logarithms: a ratio of 2 is as far from 1 as one of 1/2.
    pub(super) fn estimate(self, critical: f64) -> Option<Estimate> {
        (self.value > 0.0).then(|| {
            let factor = (critical * self.error / self.value).exp();
            let sure = |bound: f64| self.is_sure().then_some(bound);
            Estimate {
                value: self.value,
                low: sure(self.value / factor),
                high: sure(self.value * factor),
            }
        })
    }
}

/// By how much the variance of a sum is greater because slices resemble those before them: how many
/// of them are one block. Correlations are summed up to the first that chance explains. Taking away
/// the mean makes each too small by the block's share of the trace, which is put right.
fn resemblance(rests: &[f64], squares: f64) -> f64 {
    let count = rests.len() as f64;
    if squares <= 0.0 {
        return 1.0;
    }
    let products = |lag: usize| { rests.iter().zip(&rests[lag..]) }.map(|(one, other)| one * other);
    let mut block = 1.0;
    for _ in 0..3 {
        let taken = block / count;
        let correlations = (1..rests.len() / 2)
            .map(|lag| products(lag).sum::<f64>() / squares + taken)
            .take_while(|correlation| *correlation > 1.0 / count.sqrt());
        block = 1.0 + 2.0 * correlations.sum::<f64>();
    }
    block
}

/// How many operations took how long, slice by slice.
///
/// Times are counted in steps of at most 1.6 %, so a quantile is within 0.8 %.
#[derive(Debug, Clone, Default)]
pub(super) struct Distribution {
    /// Each slice that has any: its number and its steps, in order.
    slices: Vec<(u32, Vec<(u16, u32)>)>,
    /// Of the last slice, not yet sorted in.
    pending: Vec<u16>,
}

/// Times that wait until they are sorted in.
const PENDING_MAX: usize = 1_024;
/// Bits of a time that its step keeps, beside the first.
const STEP_BITS: u32 = 6;

/// The step of a time.
pub(super) fn step(ns: u64) -> u16 {
    let shift = (u64::BITS - STEP_BITS - 1).saturating_sub(ns.leading_zeros());
    ((shift << STEP_BITS) + (ns >> shift) as u32) as u16
}

/// The first time of a step.
fn start(step: u16) -> f64 {
    let step = u32::from(step);
    let shift = (step >> STEP_BITS).saturating_sub(1);
    let mantissa = step - (shift << STEP_BITS);
    f64::from(mantissa) * 2f64.powi(shift as i32)
}

/// The time that stands for a step.
fn middle(step: u16) -> f64 {
    if step < 1 << (STEP_BITS + 1) {
        start(step)
    } else {
        (start(step) + start(step + 1)) / 2.0
    }
}

impl Distribution {
    /// Adds a time to a slice: the last one, if that comes after it.
    pub(super) fn add(&mut self, slice: u32, step: u16) {
        let last = self.slices.last().map(|(last, _)| *last);
        if last.is_none_or(|last| last < slice) {
            self.settle();
            self.slices.push((slice, Vec::new()));
        }
        self.pending.push(step);
        if self.pending.len() >= PENDING_MAX {
            self.settle();
        }
    }

    /// Sorts in what waits.
    pub(super) fn settle(&mut self) {
        let Some((_, steps)) = self.slices.last_mut() else {
            return;
        };
        self.pending.sort_unstable();
        let old = std::mem::take(steps);
        let new = self.pending.chunk_by(|one, other| one == other);
        let new = new.map(|same| (same[0], same.len() as u32)).collect();
        *steps = merged(old, new);
        self.pending.clear();
    }

    /// All times of several.
    pub(super) fn sum(all: &[&Self]) -> Self {
        let slices = all.iter().flat_map(|each| &each.slices);
        let Some(last) = slices.clone().map(|(slice, _)| *slice).max() else {
            return Self::default();
        };
        let steps = slices.flat_map(|(_, steps)| steps).map(|&(step, _)| step);
        let width = usize::from(steps.max().unwrap_or(0)) + 1;
        let mut counts = vec![0u32; width * (last as usize + 1)];
        for (slice, steps) in all.iter().flat_map(|each| &each.slices) {
            let counts = &mut counts[width * *slice as usize..];
            steps
                .iter()
                .for_each(|&(step, count)| counts[usize::from(step)] += count);
        }
        let slices = (0..).zip(counts.chunks(width)).map(|(slice, counts)| {
            let steps = (0..).zip(counts).filter(|(_, count)| **count > 0);
            (
                slice,
                steps
                    .map(|(step, &count)| (step, count))
                    .collect::<Vec<_>>(),
            )
        });
        Self {
            slices: slices.filter(|(_, steps)| !steps.is_empty()).collect(),
            pending: Vec::new(),
        }
    }

    /// What it has from a slice on.
    pub(super) fn from(&self, slice: u32) -> Self {
        let slices = self.slices.iter().filter(|(each, _)| *each >= slice);
        Self {
            slices: slices.cloned().collect(),
            pending: Vec::new(),
        }
    }

    pub(super) fn count(&self) -> u64 {
        let steps = self.slices.iter().flat_map(|(_, steps)| steps);
        steps.map(|&(_, count)| u64::from(count)).sum()
    }

    /// Every time, step by step.
    fn whole(&self) -> Vec<(u16, u64)> {
        let steps = self.slices.iter().flat_map(|(_, steps)| steps);
        let mut all: Vec<(u16, u64)> = steps.map(|&(step, count)| (step, count.into())).collect();
        all.sort_unstable();
        let mut whole: Vec<(u16, u64)> = Vec::new();
        for (step, count) in all {
            match whole.last_mut() {
                Some((last, sum)) if *last == step => *sum += count,
                _ => whole.push((step, count)),
            }
        }
        whole
    }

    /// The quantile, with its interval; `critical` is the factor of the standard error for so many
    /// slices, `all` has these times too.
    pub(super) fn quantile(
        &self,
        share: f64,
        all: Option<&Self>,
        critical: impl Fn(usize) -> f64,
    ) -> Option<Estimate> {
        let whole = self.whole();
        let count = whole.iter().map(|&(_, count)| count).sum::<u64>() as f64;
        if count < OPERATIONS_MIN {
            return None;
        }
        let at = step_of(&whole, share * count)?;
        let independent = share * (1.0 - share) / count;
        let ratio = |times: &Self, variance_min: f64| {
            let below: Vec<_> = { times.below(at) }
                .map(|(_, below, all)| (below, all))
                .collect();
            Ratio::of(&below, |_, _| variance_min)
        };
        let of_all = all.and_then(|all| ratio(all, 0.0));
        let ratio = ratio(self, independent)?.within(of_all.as_ref());
        if ratio.slices < SLICES_MIN {
            return None;
        }
        let margin = critical(ratio.independent) * ratio.error;
        let bound = |share: f64| {
            let inside = ratio.is_sure() && share > 0.0 && share < 1.0;
            inside.then(|| step_of(&whole, share * count)).flatten()
        };
        Some(Estimate {
            value: middle(at),
            low: bound(share - margin).map(start),
            high: bound(share + margin).map(|step| start(step + 1)),
        })
    }

    /// The time that this share of the times of both do not exceed, each trace weighing the same.
    pub(super) fn common(&self, other: &Self, share: f64) -> Option<f64> {
        let mut both = Vec::new();
        for whole in [self.whole(), other.whole()] {
            let count = whole.iter().map(|&(_, count)| count).sum::<u64>() as f64;
            both.extend({ whole.into_iter() }.map(|(step, part)| (step, part as f64 / count)));
        }
        both.sort_unstable_by_key(|&(step, _)| step);
        let mut sum = 0.0;
        let found = both.iter().find(|&&(_, part)| {
            sum += part / 2.0;
            sum >= share
        });
        found.or_else(|| both.last()).map(|&(step, _)| middle(step))
    }

    /// The mean time.
    pub(super) fn mean(&self) -> Option<f64> {
        let whole = self.whole();
        let sum = whole
            .iter()
            .map(|&(step, count)| middle(step) * count as f64)
            .sum::<f64>();
        let count = whole.iter().map(|&(_, count)| count).sum::<u64>() as f64;
        (count > 0.0).then(|| sum / count)
    }

    /// Of each slice: its number, the sum of the logarithms of its times, and how many there are.
    pub(super) fn logarithms(&self) -> impl Iterator<Item = (u32, f64, f64)> {
        self.slices.iter().map(|(slice, steps)| {
            let (mut sum, mut all) = (0.0, 0.0);
            for &(step, count) in steps {
                sum += middle(step).max(1.0).ln() * f64::from(count);
                all += f64::from(count);
            }
            (*slice, sum, all)
        })
    }

    /// Whether there is enough for any interval.
    pub(super) fn is_enough(&self) -> bool {
        self.slices.len() >= SLICES_MIN && self.count() as f64 >= OPERATIONS_MIN
    }

    /// Of each slice: its number, how many times are not above a step, and how many there are.
    fn below(&self, step: u16) -> impl Iterator<Item = (u32, f64, f64)> {
        self.slices.iter().map(move |(slice, steps)| {
            let sum = |steps: &[(u16, u32)]| {
                let counts = steps.iter().map(|&(_, count)| u64::from(count));
                counts.sum::<u64>() as f64
            };
            let end = steps.partition_point(|&(each, _)| each <= step);
            (*slice, sum(&steps[..end]), sum(steps))
        })
    }

    /// Of each slice: its number, how many times are above `ns`, and how many there are.
    pub(super) fn above(&self, ns: f64) -> Vec<(u32, f64, f64)> {
        let below = self.below(step(ns as u64));
        below
            .map(|(slice, below, all)| (slice, all - below, all))
            .collect()
    }
}

/// Two lists of steps as one.
fn merged(one: Vec<(u16, u32)>, other: Vec<(u16, u32)>) -> Vec<(u16, u32)> {
    if one.is_empty() {
        return other;
    }
    let mut both = Vec::with_capacity(one.len().max(other.len()));
    let (mut one, mut other) = (one.into_iter().peekable(), other.into_iter().peekable());
    loop {
        let next = match (one.peek(), other.peek()) {
            (Some(mine), Some(theirs)) if mine.0 == theirs.0 => {
                let sum = (mine.0, mine.1 + theirs.1);
                one.next();
                other.next();
                sum
            }
            (Some(mine), Some(theirs)) if mine.0 < theirs.0 => *mine,
            (_, Some(theirs)) => *theirs,
            (Some(mine), None) => *mine,
            (None, None) => return both,
        };
        one.next_if_eq(&next);
        other.next_if_eq(&next);
        both.push(next);
    }
}

/// The step with the time of this rank, counted from 1.
fn step_of(whole: &[(u16, u64)], rank: f64) -> Option<u16> {
    let mut sum = 0.0;
    let found = whole.iter().find(|&&(_, count)| {
        sum += count as f64;
        sum >= rank
    });
    found.or_else(|| whole.last()).map(|&(step, _)| step)
}

/// Logarithms of times, summed up slice by slice: 80 bytes a file, however many operations it has.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Logarithms {
    pub(super) operations: u64,
    slice: u32,
    slices: u32,
    /// Of the last slice: operations, and their logarithms.
    last: (f64, f64),
    /// Over the slices before: n, x, n², nx, x².
    sums: [f64; 5],
    /// The logarithms' own squares.
    squares: f64,
}

impl Logarithms {
    pub(super) fn add(&mut self, slice: u32, logarithm: f64) {
        if slice > self.slice || self.slices == 0 {
            self.sums = self.folded();
            self.last = (0.0, 0.0);
            self.slice = slice;
            self.slices += 1;
        }
        self.operations += 1;
        self.last.0 += 1.0;
        self.last.1 += logarithm;
        self.squares += logarithm * logarithm;
    }

    fn folded(&self) -> [f64; 5] {
        let ((n, x), sums) = (self.last, self.sums);
        let last = [n, x, n * n, n * x, x * x];
        std::array::from_fn(|at| sums[at] + last[at])
    }

    /// Whether there is enough for an interval.
    pub(super) fn is_enough(&self) -> bool {
        self.slices as usize >= SLICES_MIN && self.operations as f64 >= OPERATIONS_MIN
    }

    /// The geometric mean: that of a time whose logarithm is the mean. `all` is the mean logarithm
    /// of all that share their slow times with these.
    pub(super) fn geometric_mean(
        &self,
        all: Option<&Ratio>,
        critical: impl Fn(usize) -> f64,
    ) -> Option<Estimate> {
        let [whole, sum, n_n, n_x, x_x] = self.folded();
        let slices = self.slices as usize;
        if !self.is_enough() {
            return None;
        }
        let mean = sum / whole;
        let squares = (x_x - 2.0 * mean * n_x + mean * mean * n_n).max(0.0);
        let independent = (self.squares / whole - mean * mean).max(0.0) / whole;
        let spread = slices as f64 / (slices as f64 - 1.0) * squares / (whole * whole);
        let ratio = Ratio {
            value: mean,
            error: spread.max(independent).sqrt(),
            slices,
            // A file has too few operations to show how many of its slices are.
            independent: all.map_or(slices, |all| slices.min(all.independent)),
        };
        let ratio = ratio.within(all);
        let margin = critical(ratio.independent) * ratio.error;
        let sure = |bound: f64| ratio.is_sure().then_some(bound.exp());
        Some(Estimate {
            value: mean.exp(),
            low: sure(mean - margin),
            high: sure(mean + margin),
        })
    }
}

/// How one value compares with another: the second over the first, with its interval, each side
/// taken from the sides of both that make it (Zou and Donner, 2008).
pub(super) fn ratio(a: &Estimate, b: &Estimate) -> Option<Estimate> {
    if a.value <= 0.0 || b.value <= 0.0 {
        return None;
    }
    let width = |from: f64, to: f64| (to / from).ln();
    let both = |one: f64, other: f64| one.hypot(other);
    let value = b.value / a.value;
    let low = (b.low.filter(|&low| low > 0.0)).zip(a.high);
    let high = b.high.zip(a.low.filter(|&low| low > 0.0));
    Some(Estimate {
        value,
        low: low.map(|(low, high)| value / both(width(low, b.value), width(a.value, high)).exp()),
        high: high.map(|(high, low)| value * both(width(b.value, high), width(low, a.value)).exp()),
    })
}

/// The factor of the standard error that an estimate of `slices` slices exceeds, on either side,
/// with this probability.
///
/// Student's distribution by its expansion around the normal one (Abramowitz and Stegun, 26.7.5 and
/// 26.2.23): within 0.5 % from 20 slices on.
pub(super) fn critical(probability: f64, slices: usize) -> f64 {
    let tail = (probability / 2.0).clamp(1e-300, 0.5);
    let t = (-2.0 * tail.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let under = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let z = t - above / under;
    let n = slices.saturating_sub(1).max(1) as f64;
    let polynomial = |factors: &[f64]| {
        factors
            .iter()
            .rev()
            .fold(0.0, |sum, each| sum * z * z + each)
    };
    z + z * polynomial(&[1.0, 1.0]) / (4.0 * n)
        + z * polynomial(&[3.0, 16.0, 5.0]) / (96.0 * n.powi(2))
        + z * polynomial(&[-15.0, 17.0, 19.0, 3.0]) / (384.0 * n.powi(3))
        + z * polynomial(&[-945.0, -1920.0, 1482.0, 776.0, 79.0]) / (92_160.0 * n.powi(4))
}

/// Since when a share is what it is: the slice after which it left what it was in the other trace.
/// `None`: from the beginning on. `slices` have their number, `x` and `n`; `before` is the share of
/// the other trace.
pub(super) fn since(slices: &[(u32, f64, f64)], before: f64) -> Option<u32> {
    let sums = |slices: &[(u32, f64, f64)]| {
        slices
            .iter()
            .fold((0.0, 0.0), |(x, n), each| (x + each.1, n + each.2))
    };
    let share = |slices: &[(u32, f64, f64)]| {
        let (x, n) = sums(slices);
        (n > 0.0).then(|| x / n)
    };
    let mean = share(slices)?;
    let mut sum = 0.0;
    let distance = slices.iter().map(|&(_, x, n)| {
        sum += x - mean * n;
        f64::abs(sum)
    });
    let distances: Vec<f64> = distance.collect();
    let farthest = (0..distances.len()).max_by(|&a, &b| distances[a].total_cmp(&distances[b]))?;
    let (first, rest) = slices.split_at(farthest + 1);
    let (first_share, rest_share) = (share(first)?, share(rest)?);
    // Before, it was nearer by far to the other trace than to what it became.
    let is_step = (first_share - before).abs() < (rest_share - before).abs() / 4.0;
    (is_step && first.len() >= 2).then(|| rest[0].0)
}

#[cfg(test)]
mod tests {
    use lineside_time::Random;

    use super::*;

    #[test]
    fn critical_values_are_those_of_the_tables() {
        for (probability, slices, known) in [
            (0.05, 10_000, 1.960),
            (0.05, 11, 2.228),
            (0.01, 31, 2.750),
            (1e-4, 48, 4.249),
            (1e-6, 48, 5.600),
        ] {
            let found = critical(probability, slices);
            assert!(
                (found / known - 1.0).abs() < 0.01,
                "{probability} {slices}: {found}"
            );
        }
    }

    #[test]
    fn steps_are_narrow_and_in_order() {
        let mut last = 0;
        for shift in 0..640 {
            let ns = 2f64.powf(f64::from(shift) / 10.0) as u64;
            let step = step(ns);
            assert!(step >= last, "{ns}");
            last = step;
            let error = (middle(step) / ns as f64 - 1.0).abs();
            assert!(error <= 0.008, "{ns}: {}", middle(step));
        }
        assert_eq!(middle(step(100)), 100.0);
    }

    #[test]
    fn a_distribution_is_the_same_however_it_was_added() {
        let mut whole = Distribution::default();
        let mut parts = [Distribution::default(), Distribution::default()];
        for number in 0..10_000_u32 {
            let (slice, time) = (number / 500, step(u64::from(number * 7_919 % 5_000)));
            whole.add(slice, time);
            parts[number as usize % 2].add(slice, time);
        }
        let [mut one, mut other] = parts;
        for each in [&mut whole, &mut one, &mut other] {
            each.settle();
        }
        assert_eq!(Distribution::sum(&[&one, &other]).slices, whole.slices);
        assert_eq!(whole.from(5).count(), 7_500);
        assert_eq!(whole.count(), 10_000);
        let median = whole.quantile(0.5, None, |_| 2.0).expect("times").value;
        assert!((median / 2_500.0 - 1.0).abs() < 0.01, "{median}");
        let mean = whole.mean().expect("times");
        assert!((mean / 2_500.0 - 1.0).abs() < 0.01, "{mean}");
    }

    #[test]
    fn bursts_widen_an_interval() {
        let even = Ratio::rate((0..40).map(|_| 100.0)).expect("slices");
        let burst = Ratio::rate((0..40).map(|slice| f64::from(slice / 20) * 200.0));
        let burst = burst.expect("slices");
        assert_eq!((even.value, burst.value), (100.0, 100.0));
        assert!(
            (even.error - (100.0f64 / 40.0).sqrt()).abs() < 1e-9,
            "{even:?}"
        );
        assert!(
            burst.error > 40.0,
            "one burst of 20 slices says little: {burst:?}"
        );
    }

    /// Two traces of one process whose regimes are longer than a slice: 1,000 pairs each.
    #[test]
    fn regimes_longer_than_a_slice_are_no_change() {
        const PAIRS: u64 = 1_000;
        type Draw = fn(&mut Random, &mut f64) -> f64;
        // The draw of a slice, and slices before the first.
        let processes: [(&str, Draw, u32); 4] = [
            (
                "AR(1)",
                |random, state| {
                    *state = 0.95 * *state + unit(random);
                    (4.6 + 0.1 * *state).exp()
                },
                200,
            ),
            (
                "regimes of 8 slices",
                |random, state| {
                    *state = if random.chance(1.0 / 8.0) {
                        1.0 - *state
                    } else {
                        *state
                    };
                    100.0 + 200.0 * *state + 5.0 * unit(random)
                },
                50,
            ),
            (
                "bursts of 6 to 14 slices",
                |random, state| {
                    match *state > 0.0 {
                        true => *state -= 1.0,
                        false if random.chance(0.03) => *state = 6.0 + random.below(8) as f64,
                        false => {}
                    }
                    let level = if *state > 0.0 { 400.0 } else { 100.0 };
                    level + 5.0 * unit(random)
                },
                100,
            ),
            ("independent", |random, _| 100.0 + 10.0 * unit(random), 0),
        ];
        // As of 30 questions of a family.
        let probability = 0.01 / 3.0 / 30.0;
        for (name, draw, before) in processes {
            let mut called = 0;
            for seed in 0..PAIRS {
                let mut random = Random::new(seed);
                let mut estimate = || {
                    let mut state = 0.0;
                    (0..before).for_each(|_| {
                        draw(&mut random, &mut state);
                    });
                    let slices: Vec<_> = (0..48)
                        .map(|_| (draw(&mut random, &mut state), 1.0))
                        .collect();
                    let mean = Ratio::of(&slices, |_, _| 0.0).expect("48 slices");
                    mean.estimate(critical(probability, mean.independent))
                };
                let (a, b) = estimate().zip(estimate()).expect("above 0");
                let ratio = ratio(&a, &b).expect("above 0");
                let is_more = ratio.low.is_some_and(|low| low > 1.1);
                let is_less = ratio.high.is_some_and(|high| high < 1.0 / 1.1);
                called += u64::from(is_more || is_less);
            }
            assert!(called <= PAIRS / 100, "{name}: {called} of {PAIRS}");
        }
    }

    /// A slow time is slow for all files: one of them shows too few slices to find that out.
    #[test]
    fn files_are_as_unsure_as_all_of_their_way() {
        const PAIRS: u64 = 1_000;
        let probability = 0.01 / 3.0 / 30.0;
        let [mut alone, mut with_all] = [0, 0];
        for seed in 0..PAIRS {
            let mut random = Random::new(seed);
            let mut trace = || {
                let (mut state, mut file) = (0.0, Logarithms::default());
                let mut all = Vec::new();
                for slice in 0..248u32 {
                    state = 0.9 * state + 0.15 * unit(&mut random);
                    if slice < 200 {
                        continue;
                    }
                    all.push((100.0 * (12.0 + state), 100.0));
                    (0..5).for_each(|_| {
                        file.add(slice - 200, 12.0 + state + 0.5 * unit(&mut random));
                    });
                }
                (file, Ratio::of(&all, |_, _| 0.0).expect("48 slices"))
            };
            let [(a, all_a), (b, all_b)] = [trace(), trace()];
            let is_called = |all: [Option<&Ratio>; 2]| {
                let estimate = |of: &Logarithms, all| {
                    let factor = |slices| critical(probability, slices);
                    of.geometric_mean(all, factor).expect("48 slices")
                };
                let [a, b] = [estimate(&a, all[0]), estimate(&b, all[1])];
                let ratio = ratio(&a, &b).expect("above 0");
                u64::from(
                    ratio.low.is_some_and(|low| low > 1.0)
                        || ratio.high.is_some_and(|high| high < 1.0),
                )
            };
            alone += is_called([None, None]);
            with_all += is_called([Some(&all_a), Some(&all_b)]);
        }
        assert!(with_all <= PAIRS / 100, "{with_all} of {PAIRS}");
        assert!(alone > PAIRS / 50, "{alone} of {PAIRS} show nothing");
    }

    /// About normal: a sum of twelve.
    fn unit(random: &mut Random) -> f64 {
        (0..12)
            .map(|_| random.below(1 << 20) as f64 / f64::from(1 << 20))
            .sum::<f64>()
            - 6.0
    }

    #[test]
    fn a_step_in_time_is_found() {
        let slices = |from: u32| -> Vec<_> {
            let share = |slice| if slice < from { 1.0 } else { 30.0 };
            (0..48).map(|slice| (slice, share(slice), 100.0)).collect()
        };
        assert_eq!(since(&slices(17), 0.01), Some(17));
        assert_eq!(since(&slices(0), 0.01), None);
    }
}
