//! Medians with intervals from few repeats.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use lineside_time::Random;
use serde::Serialize;

/// A median with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Estimate {
    /// The median.
    pub value: f64,
    /// Unknown with fewer than three repeats.
    pub low: Option<f64>,
    /// The same.
    pub high: Option<f64>,
}

impl Estimate {
    /// Whether the interval is not wider than a share of the median.
    pub(crate) fn is_within(&self, share: f64) -> bool {
        let bounds = self.low.zip(self.high);
        bounds.is_some_and(|(low, high)| high - low <= share * self.value.abs())
    }
}

/// Resamples of an interval.
const RESAMPLES: usize = 2_000;
/// What lies outside of an interval of 95 % on each side.
const TAIL: f64 = 0.025;
/// Fewer repeats have no interval: their resamples are hardly different from them.
pub(crate) const REPEATS_MIN: usize = 3;

/// The median of some values.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The median with its interval of 95 %, by bootstrap; the same values give the same one.
pub(crate) fn estimate(values: &[f64]) -> Option<Estimate> {
    let value = median(values)?;
    if values.len() < REPEATS_MIN {
        return Some(Estimate {
            value,
            low: None,
            high: None,
        });
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middles = middles(values.len());
    let mut medians: Vec<(f64, usize)> = { middles.iter() }
        .map(|&([one, other], count)| (f64::midpoint(sorted[one], sorted[other]), count))
        .collect();
    medians.sort_by(|one, other| one.0.total_cmp(&other.0));
    let at = |share: f64| {
        let rank = ((RESAMPLES - 1) as f64 * share).round() as usize;
        let mut before = 0;
        let found = medians.iter().find(|(_, count)| {
            before += count;
            before > rank
        });
        found.map(|(median, _)| *median)
    };
    Some(Estimate {
        value,
        low: at(TAIL),
        high: at(1.0 - TAIL),
    })
}

/// The ratio of the medians of two samples that are no pairs, second to first, with its interval of
/// 95 % by bootstrap of both; `None` where one of them may be 0 or of either sign.
pub(crate) fn ratio(one: &[f64], other: &[f64]) -> Option<Estimate> {
    let mut random = Random::new((one.len() + other.len()) as u64);
    let mut drawn = |values: &[f64]| {
        let one = |_| values[random.below(values.len() as u64) as usize];
        let resample: Vec<_> = (0..values.len()).map(one).collect();
        median(&resample)
    };
    let of = |one: f64, other: f64| Some(other / one).filter(|it| it.is_finite() && *it > 0.0);
    let value = of(median(one)?, median(other)?)?;
    if one.len().min(other.len()) < REPEATS_MIN {
        return Some(Estimate {
            value,
            low: None,
            high: None,
        });
    }
    let ratios = (0..RESAMPLES).map(|_| of(drawn(one)?, drawn(other)?));
    let mut ratios = ratios.collect::<Option<Vec<_>>>()?;
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| ratios[((ratios.len() - 1) as f64 * share).round() as usize];
    Some(Estimate {
        value,
        low: Some(at(TAIL)),
        high: Some(at(1.0 - TAIL)),
    })
}

/// The places of the middle one, or of the two in the middle, in a sorted resample, and how many
/// resamples have them.
type Middles = Vec<([usize; 2], usize)>;

thread_local! {
    /// By the number of values: a lab has thousands of points with the same number of repeats.
    static MIDDLES: RefCell<BTreeMap<usize, Rc<Middles>>> = const { RefCell::new(BTreeMap::new()) };
}

fn middles(count: usize) -> Rc<Middles> {
    let draw = || {
        let mut random = Random::new(count as u64);
        let mut counts: BTreeMap<[usize; 2], usize> = BTreeMap::new();
        let mut places = vec![0; count];
        for _ in 0..RESAMPLES {
            places.fill_with(|| random.below(count as u64) as usize);
            places.sort_unstable();
            let middle = [places[(count - 1) / 2], places[count / 2]];
            *counts.entry(middle).or_default() += 1;
        }
        Rc::new(counts.into_iter().collect())
    };
    MIDDLES.with_borrow_mut(|known| known.entry(count).or_insert_with(draw).clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_hold_the_median_nearly_always() {
        let mut random = Random::new(7);
        let (mut held, count) = (0, 400);
        for _ in 0..count {
            // The median of the uniform distribution is a half.
            let values: Vec<_> = (0..9)
                .map(|_| random.bits() as f64 / u64::MAX as f64)
                .collect();
            let estimate = estimate(&values).expect("nine values");
            let (low, high) = estimate.low.zip(estimate.high).expect("an interval");
            assert!(low <= estimate.value && estimate.value <= high);
            held += usize::from((low..=high).contains(&0.5));
        }
        assert!(held > count * 88 / 100, "{held} of {count}");
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(estimate(&[1.0, 2.0]).and_then(|it| it.low), None);
    }
}
