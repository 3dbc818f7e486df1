//! Times recorded one by one.
//!
//! Quantiles come from a histogram whose steps are 0.1 % wide: 1,024 steps for each power of two,
//! with a count of 8 bytes each. A histogram of fixed size over the 38 powers of two up to a day
//! therefore takes 304 KiB, whatever is recorded. A polling loop needs the fixed size, because it
//! must not allocate; a report takes [`Times::growing`], which covers only what was recorded.

use std::sync::atomic::{AtomicU64, Ordering};

use lineside_time::Nanoseconds;
use serde::{Deserialize, Serialize};

use crate::log_linear::{place, range};
use crate::{Distance, Spread};

/// A day.
const DAY_NS: u64 = 86_400_000_000_000;

/// Times from 0 on: quantiles to within the width of a step, mean, deviation and extremes exact.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "Sparse", into = "Sparse")]
pub struct Times {
    steps: Steps,
    sum_ns: u128,
    squares: f64,
    min_ns: u64,
    max_ns: u64,
}

/// Times on their way between processes: steps that have a count.
#[derive(Serialize, Deserialize)]
struct Sparse {
    bits: u32,
    /// The number of steps.
    len: u32,
    /// Whether it grows no more.
    is_fixed: bool,
    counts: Vec<(u32, u64)>,
    /// Low and high half: not all formats have numbers of 128 bits.
    sum_ns: [u64; 2],
    squares: f64,
    min_ns: u64,
    max_ns: u64,
}

impl From<Times> for Sparse {
    fn from(times: Times) -> Self {
        let counts = times.steps.counts.iter().zip(0..);
        Self {
            bits: times.steps.bits,
            len: times.steps.counts.len() as u32,
            is_fixed: times.steps.last != usize::MAX,
            counts: { counts.filter(|(count, _)| **count > 0) }
                .map(|(&count, place)| (place, count))
                .collect(),
            sum_ns: [times.sum_ns as u64, (times.sum_ns >> 64) as u64],
            squares: times.squares,
            min_ns: times.min_ns,
            max_ns: times.max_ns,
        }
    }
}

impl From<Sparse> for Times {
    fn from(sparse: Sparse) -> Self {
        let bits = sparse.bits.clamp(1, LINEAR_BITS_MAX);
        // No place is beyond that of the greatest number.
        let len = (sparse.len as usize).clamp(2, (65 - bits as usize) << bits);
        let mut counts = vec![0; len];
        let mut room = COUNTED_MAX;
        for (place, count) in sparse.counts {
            // What a process of another mind sends is no place here.
            if let Some(own) = counts.get_mut(place as usize) {
                let count = count.min(room);
                room -= count;
                *own += count;
            }
        }
        let steps = Steps {
            bits,
            counted: COUNTED_MAX - room,
            last: if sparse.is_fixed { len - 1 } else { usize::MAX },
            counts,
        };
        let (min_ns, max_ns) = steps.extremes(sparse.min_ns, sparse.max_ns);
        let sum_ns = u128::from(sparse.sum_ns[1]) << 64 | u128::from(sparse.sum_ns[0]);
        let count = u128::from(steps.counted);
        Self {
            sum_ns: match count {
                0 => 0,
                count => sum_ns.clamp(count * u128::from(min_ns), count * u128::from(max_ns)),
            },
            squares: sparse.squares.max(0.0),
            min_ns,
            max_ns,
            steps,
        }
    }
}

/// The most times that one process may say it has counted: those of any number of hosts still add
/// up to a number.
const COUNTED_MAX: u64 = 1 << 48;

/// Bits of the finest steps, of five digits.
const LINEAR_BITS_MAX: u32 = 17;

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
        Self::with(Steps::up_to(3, max_ns))
    }

    /// Times of any length, in a histogram that grows with the longest: `digits` of 3 mean
    /// quantiles to 0.1 %, 2 to 1 %. It has 5 digits at most.
    pub fn growing(digits: u8) -> Self {
        Self::with(Steps::new(digits))
    }

    fn with(steps: Steps) -> Self {
        Self {
            steps,
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
        self.steps.count(time_ns);
        self.sum_ns += u128::from(time_ns);
        // A signed number becomes a float in one step, an unsigned one in ten.
        let time = i64::try_from(time_ns).map_or(time_ns as f64, |time| time as f64);
        self.squares += time * time;
        self.min_ns = self.min_ns.min(time_ns);
        self.max_ns = self.max_ns.max(time_ns);
    }

    /// Adds many times. What grows with each of them stays in registers meanwhile, which it cannot
    /// where they come one by one.
    pub fn add_all(&mut self, times_ns: &[u32]) {
        let (Some(&least), Some(&greatest)) = (times_ns.iter().min(), times_ns.iter().max()) else {
            return;
        };
        self.min_ns = self.min_ns.min(least.into());
        self.max_ns = self.max_ns.max(greatest.into());
        let sum: u64 = times_ns.iter().map(|&ns| u64::from(ns)).sum();
        self.sum_ns += u128::from(sum);
        let mut squares = self.squares;
        self.steps.count_all(times_ns, greatest, |ns| {
            let time = f64::from(ns);
            squares += time * time;
        });
        self.squares = squares;
    }

    /// Adds the times of another histogram; of two of the same digits, the greater of both sizes is
    /// its own from then on. Of other digits, as another process may send them, each time counts as
    /// the greatest of its step.
    pub fn merge(&mut self, other: &Self) {
        match self.steps.bits == other.steps.bits {
            true => self.steps.merge(&other.steps),
            false => self.steps.merge_others(&other.steps),
        }
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.squares += other.squares;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Forgets all times, and keeps the memory.
    pub fn clear(&mut self) {
        self.steps.counts.fill(0);
        self.steps.counted = 0;
        (self.sum_ns, self.squares) = (0, 0.0);
        (self.min_ns, self.max_ns) = (u64::MAX, 0);
    }

    /// How many were recorded.
    pub fn count(&self) -> u64 {
        self.steps.counted
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

    /// How many lie in each step, from that of 0 on. With 3 digits these are the counts of an
    /// HdrHistogram of 3 significant digits whose lowest value is 1.
    pub fn counts(&self) -> &[u64] {
        &self.steps.counts
    }

    /// The time that this share, from 0 to 1, does not exceed.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        // The histogram answers with the upper end of a step, which may lie above every value.
        let value = self.steps.quantile(share)?;
        Some(value.clamp(self.min_ns, self.max_ns))
    }

    fn some(&self, ns: u64) -> Option<u64> {
        (self.count() > 0).then_some(ns)
    }

    /// Begins to look for quantiles, a part of the histogram at a time.
    pub fn scan<const N: usize>(&self, shares: [f64; N]) -> Scan<N> {
        let count = self.count();
        let rank = |share: f64| ((share * count as f64).ceil() as u64).clamp(1, count.max(1));
        Scan {
            // No step below has a value; without any time there is nothing to look at.
            at: self.min_ns().map_or(usize::MAX, |ns| self.steps.place(ns)),
            seen: 0,
            ranks: shares.map(rank),
            quantiles_ns: [None; N],
        }
    }

    /// Their distribution; `None` without any.
    pub fn spread(&self) -> Option<Spread> {
        if self.count() == 0 {
            return None;
        }
        // The largest value of a step stands for all its values: the shares up to it are then
        // exact.
        let clamp = |value: u64| value.clamp(self.min_ns, self.max_ns) as i64;
        let steps = self
            .steps
            .iter()
            .map(|(value, count)| (clamp(value), count));
        let count = self.count() as f64;
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
            let value = self.steps.highest(self.steps.place(value.max(0) as u64));
            (value.min(max_ns) as i64, count)
        };
        let asked = Spread::of(asked.steps.iter().map(rounded).collect());
        self.spread()?.distance(&asked)
    }
}

/// A look for quantiles of times that are recorded meanwhile: what holds the recorder up is one
/// part of the histogram, and not the whole of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Scan<const N: usize> {
    /// The next step.
    at: usize,
    /// Times in the steps before.
    seen: u64,
    /// The number of the time that is each quantile, when the look began.
    ranks: [u64; N],
    /// The time that each share does not exceed, once it is found. `None` at the end: there were no
    /// times.
    pub quantiles_ns: [Option<u64>; N],
}

impl<const N: usize> Scan<N> {
    /// Looks at the next `steps_max` steps of the times with which it began; whether all quantiles
    /// are found, or nothing is left to look at. Times that were recorded since the beginning make
    /// a quantile at most as much less as they are of all.
    pub fn go_on(&mut self, times: &Times, steps_max: usize) -> bool {
        let counts = &times.steps.counts;
        let end = self.at.saturating_add(steps_max).min(counts.len());
        for (place, &count) in counts.iter().enumerate().take(end).skip(self.at) {
            if count == 0 {
                continue;
            }
            self.seen += count;
            for (rank, found) in self.ranks.iter().zip(&mut self.quantiles_ns) {
                if found.is_none() && self.seen >= *rank {
                    let value = times.steps.highest(place);
                    *found = Some(value.clamp(times.min_ns, times.max_ns));
                }
            }
            if self.quantiles_ns.iter().all(Option::is_some) {
                return true;
            }
        }
        self.at = end.max(self.at);
        self.at >= counts.len()
    }
}

/// Times of up to a day, to 1 %, that one thread records while another reads them: 39 KiB, for what
/// a person reads while it runs.
#[derive(Debug)]
pub struct SharedTimes {
    /// Where a time counts; without counts of its own.
    steps: Steps,
    counts: Box<[AtomicU64]>,
}

impl Default for SharedTimes {
    fn default() -> Self {
        let steps = Steps::up_to(2, DAY_NS);
        let counts = steps.counts.iter().map(|_| AtomicU64::new(0)).collect();
        Self { steps, counts }
    }
}

impl SharedTimes {
    /// Adds a time.
    #[inline]
    pub fn add(&self, time_ns: u64) {
        let place = self.steps.place(time_ns).min(self.steps.last);
        // Relaxed, here and below: a reader takes what it finds.
        self.counts[place].fetch_add(1, Ordering::Relaxed);
    }

    /// What was recorded so far.
    pub fn counted(&self) -> CountedTimes {
        let mut steps = self.steps.clone();
        for (count, shared) in steps.counts.iter_mut().zip(&self.counts) {
            *count = shared.load(Ordering::Relaxed);
            steps.counted += *count;
        }
        CountedTimes(steps)
    }
}

/// What [`SharedTimes`] had recorded at a time.
#[derive(Debug, Clone)]
pub struct CountedTimes(Steps);

impl Default for CountedTimes {
    fn default() -> Self {
        Self(Steps::up_to(2, DAY_NS))
    }
}

impl CountedTimes {
    /// What came after `before`, an earlier state of the same.
    pub fn since(&self, before: &Self) -> Self {
        let mut steps = self.0.clone();
        for (count, before) in steps.counts.iter_mut().zip(&before.0.counts) {
            *count -= before;
        }
        steps.counted -= before.0.counted;
        Self(steps)
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.counted
    }

    /// The time that this share, from 0 to 1, does not exceed; `None` without any.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        self.0.quantile(share)
    }
}

/// How many values lie in each step, as [`log_linear`](crate::log_linear) has them.
#[derive(Debug, Clone)]
struct Steps {
    bits: u32,
    counts: Vec<u64>,
    /// The last step, in which all greater values count.
    last: usize,
    counted: u64,
}

impl Steps {
    /// Of a width of this many digits; they grow with the greatest value.
    fn new(digits: u8) -> Self {
        let values = 2 * 10u64.pow(digits.min(5).into());
        Self {
            bits: values.next_power_of_two().ilog2() - 1,
            counts: Vec::new(),
            last: usize::MAX,
            counted: 0,
        }
    }

    /// Likewise, but their memory is there from the start.
    fn up_to(digits: u8, max: u64) -> Self {
        let mut steps = Self::new(digits);
        steps.last = steps.place(max);
        steps.counts = vec![0; steps.last + 1];
        steps
    }

    /// The least and the greatest time as another process gives them, moved to where the counts
    /// allow them: figures below rely on it that the least is not above the greatest.
    fn extremes(&self, min_ns: u64, max_ns: u64) -> (u64, u64) {
        let is_used = |count: &u64| *count > 0;
        let first = self.counts.iter().position(is_used);
        let last = self.counts.iter().rposition(is_used);
        let (Some(first), Some(last)) = (first, last) else {
            return (u64::MAX, 0);
        };
        let highest = |place| match place == self.last {
            // All greater ones count there too.
            true => u64::MAX,
            false => self.highest(place),
        };
        let lowest = |place| range(self.bits, place).0;
        let min_ns = min_ns.clamp(lowest(first), highest(first));
        (
            min_ns,
            max_ns.clamp(lowest(last).max(min_ns), highest(last)),
        )
    }

    #[inline]
    fn count(&mut self, value: u64) {
        let place = self.place(value).min(self.last);
        if place >= self.counts.len() {
            self.grow(place);
        }
        self.counts[place] += 1;
        self.counted += 1;
    }

    /// Counts values of which the greatest is known; `each` sees them.
    #[inline]
    fn count_all(&mut self, values: &[u32], greatest: u32, mut each: impl FnMut(u32)) {
        let (bits, last) = (self.bits, self.last);
        let highest = self.place(greatest.into()).min(last);
        if highest >= self.counts.len() {
            self.grow(highest);
        }
        let counts = self.counts.as_mut_slice();
        for &value in values {
            let place = place(bits, value.into()).min(last);
            counts[place] += 1;
            each(value);
        }
        self.counted += values.len() as u64;
    }

    #[cold]
    fn grow(&mut self, place: usize) {
        // A power of two at a time.
        self.counts.resize((place | ((1 << self.bits) - 1)) + 1, 0);
    }

    fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
            self.last = self.last.max(other.last);
        }
        for (count, other) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*other);
        }
        self.counted = self.counted.saturating_add(other.counted);
    }

    fn merge_others(&mut self, other: &Self) {
        for (value, count) in other.iter() {
            let place = self.place(value).min(self.last);
            if place >= self.counts.len() {
                self.grow(place);
            }
            self.counts[place] = self.counts[place].saturating_add(count);
        }
        self.counted = self.counted.saturating_add(other.counted);
    }

    #[inline]
    fn place(&self, value: u64) -> usize {
        place(self.bits, value)
    }

    /// The greatest value of a step.
    fn highest(&self, place: usize) -> u64 {
        range(self.bits, place).1
    }

    /// Steps with values, from the lowest on: the greatest value of each, and how many it has.
    fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let counted = self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0);
        counted.map(|(place, &count)| (self.highest(place), count))
    }

    /// The greatest value of the step in which this many lie at or below.
    fn quantile(&self, share: f64) -> Option<u64> {
        let mut left = ((share * self.counted as f64).ceil() as u64).clamp(1, self.counted.max(1));
        for (value, count) in self.iter() {
            if count >= left {
                return Some(value);
            }
            left -= count;
        }
        None
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
    fn a_scan_by_parts_finds_the_quantiles() {
        for count in [0, 1, 2, 1_000] {
            let mut times = Times::default();
            for number in 0..count {
                times.add(1_000 + number * number * 977);
            }
            for steps in [1, 100, usize::MAX] {
                let mut scan = times.scan([0.5, 0.99, 1.0]);
                let mut parts = 1;
                while !scan.go_on(&times, steps) {
                    parts += 1;
                }
                let expected = [0.5, 0.99, 1.0].map(|share| times.quantile_ns(share));
                assert_eq!(scan.quantiles_ns, expected, "{count} by {steps}");
                assert!(steps != 1 || count < 2 || parts > 100, "{parts}");
                assert!(steps < usize::MAX || parts == 1, "{parts}");
            }
        }
    }

    #[test]
    fn figures_of_other_processes_agree_with_their_counts() {
        let mut own = Times::growing(3);
        for ns in [118_957, 120_000, 181_759] {
            own.add(ns);
        }
        let (last, none) = (u64::MAX, (u64::MAX, 0));
        let honest = (118_957, 181_759);
        for (counts, given, expected) in [
            (None, honest, honest),
            (None, (181_759, 118_957), (118_975, 181_632)),
            (None, (0, last), (118_912, 181_759)),
            (Some(vec![]), honest, none),
            (Some(vec![(5, 1), (6, last)]), honest, (5, 6)),
            (Some(vec![(last as u32, 1)]), honest, none),
        ] {
            let mut sparse = Sparse::from(own.clone());
            sparse.counts = counts.clone().unwrap_or(sparse.counts);
            (sparse.min_ns, sparse.max_ns) = given;
            sparse.sum_ns = [last, last];
            let mut times = Times::from(sparse);
            assert_eq!((times.min_ns, times.max_ns), expected, "{counts:?}");
            times.merge(&times.clone());
            let mean = times.mean_ns();
            assert_eq!(
                mean,
                times.max_ns(),
                "no mean is above the greatest: {counts:?}"
            );
            let quantiles = [0.0, 0.5, 1.0].map(|share| times.quantile_ns(share));
            assert_eq!(quantiles.map(|ns| ns.is_some()), [mean.is_some(); 3]);
            assert!(quantiles[2] <= times.max_ns() && times.spread().is_some() == mean.is_some());
        }
    }

    #[test]
    fn a_scan_goes_on_while_times_are_recorded() {
        let mut times = Times::default();
        (0..1_000).for_each(|_| times.add(1_000_000));
        let mut scan = times.scan([0.5]);
        assert!(!scan.go_on(&times, 0), "nothing was looked at");
        times.add(5);
        times.add(80_000_000_000);
        while !scan.go_on(&times, 8) {}
        let found = scan.quantiles_ns[0].expect("it is found");
        assert!((1_000_000..1_002_000).contains(&found), "{found}");
    }

    #[test]
    fn shared_times_are_read_in_intervals() {
        let shared = SharedTimes::default();
        (1..=1_000).for_each(|us| shared.add(us * 1_000));
        let before = shared.counted();
        assert_eq!(before.count(), 1_000);
        (1..=100).for_each(|ms| shared.add(ms * 1_000_000));
        shared.add(u64::MAX);
        let since = shared.counted().since(&before);
        assert_eq!(since.count(), 101);
        for (times, share, expected) in [
            (&before, 0.5, 500_000.0),
            (&before, 0.99, 990_000.0),
            (&since, 0.5, 51e6),
            (&since, 1.0, DAY_NS as f64),
        ] {
            let found = times.quantile_ns(share).expect("there are some") as f64;
            assert!((found / expected - 1.0).abs() < 0.011, "{share}: {found}");
        }
        assert_eq!(CountedTimes::default().quantile_ns(0.5), None);
    }

    #[test]
    fn recorded_times_have_the_distance_of_their_values() {
        let asked = Spread::of(
            (0..1000)
                .map(|value| (1_000_000 + 777 * value, 1))
                .collect(),
        );
        let mut times = Times::default();
        assert_eq!(times.spread(), None);
        assert!(times.steps.counts.len() * 8 <= Times::MEMORY_BYTES);
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
    fn steps_follow_one_another_and_are_as_narrow_as_asked() {
        for digits in [1, 2, 3, 5] {
            let steps = Steps::new(digits);
            let mut place = 0;
            while steps.highest(place) < u64::MAX {
                let (end, next) = (steps.highest(place), steps.highest(place + 1));
                assert_eq!((steps.place(end), steps.place(end + 1)), (place, place + 1));
                let width = (next - end - 1) as f64;
                assert!(width <= end as f64 * 10f64.powi(-i32::from(digits)));
                place += 1;
            }
            assert_eq!(steps.place(u64::MAX), place);
        }
    }

    #[test]
    fn many_times_at_once_are_as_one_by_one() {
        let values: Vec<u32> = (0..2_000u32)
            .map(|n| n.wrapping_mul(n) << (n % 11))
            .collect();
        for mut once in [
            Times::growing(3),
            Times::growing(2),
            Times::up_to(1_000_000),
        ] {
            let mut single = once.clone();
            for many in values.chunks(300) {
                once.add_all(many);
                many.iter().for_each(|&ns| single.add(ns.into()));
            }
            once.add_all(&[]);
            assert_eq!(format!("{once:?}"), format!("{single:?}"));
        }
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
