//! Two labs beside each other: the ratios of their runs, point by point.
//!
//! A change counts only if the estimate is beyond the threshold and its interval is beyond no
//! change; and, where a lab was run against itself before, beyond what that found.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::statistics::{Estimate, estimate};
use crate::{Better, LabError, Order, Results};

/// Two labs, compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compared {
    /// The least change that counts, as a share.
    pub threshold: f64,
    /// The greatest change that a lab showed against itself, if that was given.
    pub noise: Option<f64>,
    /// Points of the first lab that both have, and those that it has.
    pub points: (usize, usize),
    /// The changes: of each metric at each point, and of all points together.
    pub changes: Vec<Change>,
}

/// A metric in both labs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// Its name.
    pub metric: String,
    /// The values of the axes; `None` of all points together.
    pub at: Option<BTreeMap<String, String>>,
    /// The median ratio of runs of the same repeat, second to first.
    pub ratio: Option<Estimate>,
    /// Runs that both have.
    pub pairs: usize,
    /// `better`, `worse`, `changed` (neither is better), `same`, or `undecided`.
    pub state: &'static str,
}

impl Compared {
    /// Whether enough is there to be judged, and nothing is worse.
    pub fn passes(&self) -> bool {
        let (both, all) = self.points;
        let is_enough = both * 2 > all;
        let mut changes = self.changes.iter();
        is_enough && changes.all(|change| !matches!(change.state, "worse" | "undecided"))
    }
}

/// Compares two labs; `control` are two of the same thing.
pub fn compare(
    one: &Results,
    other: &Results,
    control: Option<(&Results, &Results)>,
    threshold: f64,
) -> Result<Compared, LabError> {
    let names = |of: &Results| of.lab.sweep.iter().map(|axis| axis.name.clone()).collect();
    let [mine, its]: [Vec<String>; 2] = [names(one), names(other)];
    if mine != its {
        return Err(LabError::Usage(format!(
            "the labs have other axes: {}, and {}",
            named(&mine),
            named(&its)
        )));
    }
    let noise = control.map(|(one, other)| noise(one, other));
    let pairs = pairs(one);
    let both = pairs.iter().filter(|(_, at)| other.point_at(at).is_some());
    let points = (both.count(), pairs.len());
    let least = threshold.max(noise.unwrap_or_default());
    let mut changes = Vec::new();
    for metric in one.lab.metrics() {
        let mut all = Vec::new();
        for (point, at) in &pairs {
            let ratios = ratios(one, other, &metric.name, *point, at);
            all.extend(ratios.iter().copied());
            let at = Some(at.clone());
            changes.push(change(&metric.name, metric.better, at, &ratios, least));
        }
        if pairs.len() > 1 {
            changes.push(change(&metric.name, metric.better, None, &all, least));
        }
    }
    Ok(Compared {
        threshold,
        noise,
        points,
        changes,
    })
}

/// The values of the first axis beside its first one, where they ran back to back: the ratios of
/// runs of the same repeat, as [`compare`] has them.
pub fn beside_first(of: &Results, threshold: f64) -> Vec<Change> {
    let Some(axis) = { of.lab.sweep.first() }.filter(|_| of.lab.order == Order::Paired) else {
        return Vec::new();
    };
    let mut changes = Vec::new();
    for (point, at) in pairs(of) {
        let mut first = at.clone();
        first.insert(axis.name.clone(), axis.values[0].clone());
        let Some(before) = of.point_at(&first).filter(|before| *before != point) else {
            continue;
        };
        for metric in of.lab.metrics() {
            let ratios = ratios(of, of, &metric.name, before, &at);
            let at = Some(at.clone());
            changes.push(change(&metric.name, metric.better, at, &ratios, threshold));
        }
    }
    changes
}

fn named(names: &[String]) -> String {
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    }
}

/// The points of a lab that have runs.
fn pairs(of: &Results) -> Vec<(usize, BTreeMap<String, String>)> {
    let points = (1..=of.lab.points()).filter(|point| !of.at_point(*point).is_empty());
    points.map(|point| (point, of.lab.values(point))).collect()
}

/// The ratios of runs of the same repeat.
fn ratios(
    one: &Results,
    other: &Results,
    metric: &str,
    point: usize,
    at: &BTreeMap<String, String>,
) -> Vec<f64> {
    let Some(there) = other.point_at(at) else {
        return Vec::new();
    };
    let its: BTreeMap<u32, f64> = other.values(there, metric).collect();
    let both = one.values(point, metric);
    let ratios = both.filter_map(|(repeat, value)| Some(its.get(&repeat)? / value));
    ratios.filter(|ratio| ratio.is_finite()).collect()
}

fn change(
    metric: &str,
    better: Option<Better>,
    at: Option<BTreeMap<String, String>>,
    ratios: &[f64],
    least: f64,
) -> Change {
    let ratio = estimate(ratios);
    let state = match ratio {
        Some(Estimate {
            value,
            low: Some(low),
            high: Some(high),
        }) => {
            let is_beyond = (value - 1.0).abs() > least && !(low..=high).contains(&1.0);
            match (is_beyond, better) {
                (false, _) => "same",
                (true, None) => "changed",
                (true, Some(better)) if (better == Better::More) == (value > 1.0) => "better",
                (true, Some(_)) => "worse",
            }
        }
        _ => "undecided",
    };
    Change {
        metric: metric.to_owned(),
        at,
        ratio,
        pairs: ratios.len(),
        state,
    }
}

/// The greatest change of a metric at a point between two labs that are the same.
fn noise(one: &Results, other: &Results) -> f64 {
    let mut noise = 0.0_f64;
    for metric in one.lab.metrics() {
        for (point, at) in pairs(one) {
            let ratio = estimate(&ratios(one, other, &metric.name, point, &at));
            noise = noise.max(ratio.map_or(0.0, |ratio| (ratio.value - 1.0).abs()));
        }
    }
    noise
}

#[cfg(test)]
pub(crate) mod tests {
    use lineside_time::Random;
    use lineside_trace::State;

    use super::*;
    use crate::PointRun;
    use crate::experiment::tests::{WHOLE, parse};

    /// A lab whose runs have this factor and some noise.
    pub(crate) fn results(factor: f64, noise: f64, seed: u64, points: usize) -> Results {
        let text = WHOLE.replace("repeats = 2", "repeats = 5");
        let lab = parse(&text).expect("it is right");
        let mut random = Random::new(seed);
        let mut runs = Vec::new();
        for point in 1..=points {
            for repeat in 1..=5 {
                let draw = random.bits() as f64 / u64::MAX as f64 - 0.5;
                let value = 1_000.0 * point as f64 * factor * (1.0 + noise * draw);
                runs.push(PointRun {
                    point,
                    repeat,
                    axes: lab.values(point),
                    seed: 0,
                    attempts: 1,
                    verdict: State::Complete,
                    reasons: Vec::new(),
                    began_ns: 0,
                    elapsed_ns: 0,
                    beside_ns: 0,
                    nodes: BTreeMap::new(),
                    metrics: BTreeMap::from([("answered".to_owned(), value)]),
                });
            }
        }
        Results { lab, runs }
    }

    fn compared(one: &Results, other: &Results) -> Compared {
        compare(one, other, None, 0.05).expect("the same axes")
    }

    #[test]
    fn a_slow_down_is_found_and_noise_is_none() {
        let (mut found, mut false_alarms) = (0, 0);
        for seed in 0..100 {
            let one = results(1.0, 0.08, 2 * seed, 4);
            let same = compared(&one, &results(1.0, 0.08, 1_000 + seed, 4));
            false_alarms += usize::from(!same.passes());
            let slower = compared(&one, &results(0.9, 0.08, 1_000 + seed, 4));
            found += usize::from(!slower.passes());
        }
        assert!(false_alarms <= 1, "{false_alarms} of 100 alarms were false");
        assert!(found >= 80, "{found} of 100 slow-downs of 10 % were found");
    }

    #[test]
    fn values_of_the_first_axis_are_set_beside_its_first_one() {
        let lab = results(1.0, 0.01, 1, 4);
        let changes = beside_first(&lab, 0.05);
        // Points 3 and 4 are 1 and 2 with the second delay, and three times and twice as many.
        assert_eq!(changes.len(), 2, "{changes:?}");
        for (change, right) in changes.iter().zip([3.0, 2.0]) {
            let ratio = change.ratio.expect("five repeats").value;
            assert!((ratio / right - 1.0).abs() < 0.02, "{change:?}");
            assert_eq!(change.state, "better");
        }
        let mut random = results(1.0, 0.01, 1, 4);
        random.lab.order = Order::Random;
        assert!(beside_first(&random, 0.05).is_empty());
    }

    #[test]
    fn what_is_missing_is_no_pass() {
        let one = results(1.0, 0.0, 1, 4);
        assert!(compared(&one, &results(1.0, 0.0, 2, 4)).passes());
        assert!(!compared(&one, &results(1.0, 0.0, 2, 2)).passes());
        assert!(!compared(&one, &results(1.0, 0.0, 2, 0)).passes());
        let better = compared(&one, &results(1.2, 0.0, 2, 4));
        assert!(better.passes());
        assert!(
            better.changes.iter().all(|change| change.state == "better"),
            "{better:?}"
        );
        // All five changes are of one metric: at four points, and of all.
        assert_eq!(better.changes.len(), 5);
        let mut other = results(1.0, 0.0, 2, 4);
        for run in &mut other.runs {
            run.metrics.clear();
        }
        let without = compared(&one, &other);
        assert!(!without.passes(), "{without:?}");
    }

    #[test]
    fn below_the_noise_of_the_machine_nothing_is_claimed() {
        let (one, slower) = (results(1.0, 0.0, 1, 4), results(0.9, 0.0, 2, 4));
        assert!(!compared(&one, &slower).passes());
        let noisy = results(0.85, 0.0, 3, 4);
        let controlled = compare(&one, &slower, Some((&one, &noisy)), 0.05).expect("the same");
        assert!(controlled.passes(), "{controlled:?}");
    }
}
