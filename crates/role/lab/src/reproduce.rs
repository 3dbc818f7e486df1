//! A lab that was run somewhere else, run again here: which of its points are reproduced.
//!
//! ```text
//!                1 - T        1        1 + T
//!      ────────────┼──────────┼──────────┼────────────►  ratio, here to there
//!   |--differs--|     |-reproduced-|
//!                                    |-undecided-|
//! ```
//!
//! Runs of two machines are no pairs, so the ratio is one of medians, and its interval is by
//! bootstrap of either side. What is not known to be the same is not called reproduced: the whole
//! interval has to lie within the threshold. Runs whose links were disturbed are not counted.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::facts::{Differing, differing};
use crate::statistics::{Estimate, REPEATS_MIN, estimate, ratio};
use crate::{Facts, LabError, Results};

/// A lab, run again.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reproduced {
    /// By how much a reproduced metric may differ, as a share.
    pub threshold: f64,
    /// The points of the lab.
    pub points: Vec<PointAgain>,
    /// Facts that are not the same: `one` there, `other` here.
    pub facts: Vec<Differing>,
}

/// A point, run again.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PointAgain {
    /// The values of the axes.
    pub axes: BTreeMap<String, String>,
    /// `differs` if a metric does; `reproduced` if all are; else `undecided`.
    pub state: &'static str,
    /// Its metrics.
    pub metrics: Vec<MetricAgain>,
}

/// A metric at a point that was run again.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MetricAgain {
    /// Its name.
    pub metric: String,
    /// There, without disturbed runs.
    pub there: Option<Estimate>,
    /// Here, without disturbed runs.
    pub here: Option<Estimate>,
    /// Here to there.
    pub ratio: Option<Estimate>,
    /// `reproduced`, `differs` or `undecided`.
    pub state: &'static str,
    /// Why it cannot be told.
    pub why: Option<String>,
}

const REPRODUCED: &str = "reproduced";
const DIFFERS: &str = "differs";
const UNDECIDED: &str = "undecided";

impl Reproduced {
    /// Sets runs from here beside those from there, which are of one experiment.
    pub fn of(
        (there, of_there): (&Results, &Facts),
        (here, of_here): (&Results, &Facts),
        threshold: f64,
    ) -> Result<Self, LabError> {
        if there.lab.text != here.lab.text {
            let why = "the runs are of two experiments: 'compare' sets these beside each other";
            return Err(LabError::Usage(why.to_owned()));
        }
        let lab = &there.lab;
        let points = (1..=lab.points()).map(|point| {
            let metrics = lab.metrics().map(|metric| {
                MetricAgain::of(
                    &metric.name,
                    [there, here].map(|of| Sample::of(of, point, &metric.name)),
                    threshold,
                )
            });
            PointAgain::of(lab.values(point), metrics.collect())
        });
        Ok(Self {
            threshold,
            points: points.collect(),
            facts: differing(of_there, of_here),
        })
    }

    /// How many points have a state.
    pub fn count(&self, state: &str) -> usize {
        self.points
            .iter()
            .filter(|point| point.state == state)
            .count()
    }

    /// Whether every point is reproduced.
    pub fn holds(&self) -> bool {
        !self.points.is_empty() && self.points.iter().all(|point| point.state == REPRODUCED)
    }
}

impl PointAgain {
    fn of(axes: BTreeMap<String, String>, metrics: Vec<MetricAgain>) -> Self {
        let any = |state: &str| metrics.iter().any(|metric| metric.state == state);
        let state = match (any(DIFFERS), any(UNDECIDED) || metrics.is_empty()) {
            (true, _) => DIFFERS,
            (false, true) => UNDECIDED,
            (false, false) => REPRODUCED,
        };
        Self {
            axes,
            state,
            metrics,
        }
    }
}

/// What one side has of a metric at a point.
struct Sample {
    values: Vec<f64>,
    runs: usize,
    disturbed: usize,
}

impl Sample {
    fn of(results: &Results, point: usize, metric: &str) -> Self {
        let runs = results.at_point(point);
        let sound = runs.iter().filter(|run| !run.is_disturbed());
        Self {
            values: sound
                .filter_map(|run| run.metrics.get(metric).copied())
                .collect(),
            runs: runs.len(),
            disturbed: runs.iter().filter(|run| run.is_disturbed()).count(),
        }
    }

    /// Why nothing can be told of it.
    fn lacks(&self, place: &str) -> Option<String> {
        let (runs, disturbed, counted) = (self.runs, self.disturbed, self.values.len());
        (counted < REPEATS_MIN).then(|| match (runs, disturbed) {
            (0, _) => format!("no run {place}"),
            (_, 0) => format!("{counted} runs {place} have it, {REPEATS_MIN} are needed"),
            _ => format!("{disturbed} of {runs} runs {place} were disturbed, {counted} are left"),
        })
    }

    /// The value that all have.
    fn same(&self) -> Option<f64> {
        let first = *self.values.first()?;
        self.values
            .iter()
            .all(|value| *value == first)
            .then_some(first)
    }
}

impl MetricAgain {
    fn of(metric: &str, [there, here]: [Sample; 2], threshold: f64) -> Self {
        let lacks = [there.lacks("there"), here.lacks("here")];
        let lacks: Vec<_> = lacks.into_iter().flatten().collect();
        let ratio = ratio(&there.values, &here.values);
        let is_same = there.same().is_some() && there.same() == here.same();
        let (state, why) = match (lacks.is_empty(), is_same, ratio) {
            (false, _, _) => (UNDECIDED, Some(lacks.join("; "))),
            // Also where it is 0, such as an exit status.
            (true, true, _) => (REPRODUCED, None),
            (
                true,
                false,
                Some(Estimate {
                    low: Some(low),
                    high: Some(high),
                    ..
                }),
            ) => {
                let bounds = 1.0 - threshold..=1.0 + threshold;
                let (has_low, has_high) = (bounds.contains(&low), bounds.contains(&high));
                match (
                    has_low && has_high,
                    high < *bounds.start() || low > *bounds.end(),
                ) {
                    (true, _) => (REPRODUCED, None),
                    (false, true) => (DIFFERS, None),
                    (false, false) => {
                        let why =
                            "its interval reaches over the threshold: more repeats would tell";
                        (UNDECIDED, Some(why.to_owned()))
                    }
                }
            }
            _ => (
                UNDECIDED,
                Some("values of 0, or of either sign, have no ratio".to_owned()),
            ),
        };
        Self {
            metric: metric.to_owned(),
            there: estimate(&there.values),
            here: estimate(&here.values),
            ratio: ratio.filter(|_| lacks.is_empty()),
            state,
            why,
        }
    }
}

#[cfg(test)]
mod tests {
    use lineside_time::Random;
    use lineside_trace::State;

    use super::*;
    use crate::PointRun;
    use crate::experiment::tests::{WHOLE, parse};

    const POINTS: usize = 2;

    /// A lab whose runs have this factor and some noise.
    fn results(factor: f64, noise: f64, seed: u64) -> Results {
        let lab = parse(&WHOLE.replace("repeats = 2", "repeats = 5")).expect("it is right");
        let mut random = Random::new(seed);
        let mut runs = Vec::new();
        for (point, repeat) in (1..=POINTS).flat_map(|at| (1..=5).map(move |repeat| (at, repeat))) {
            let draw = random.bits() as f64 / u64::MAX as f64 - 0.5;
            let value = 1_000.0 * factor * (1.0 + noise * draw);
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
        Results { lab, runs }
    }

    fn again(there: &Results, here: &Results) -> Reproduced {
        let facts = Facts::new();
        Reproduced::of((there, &facts), (here, &facts), 0.1).expect("of one experiment")
    }

    /// The states of the points that were run, and why.
    fn states(there: &Results, here: &Results) -> Vec<(&'static str, String)> {
        let again = again(there, here);
        let points = again.points.into_iter().take(POINTS);
        let state = |point: PointAgain| {
            let why = point.metrics.into_iter().find_map(|metric| metric.why);
            (point.state, why.unwrap_or_default())
        };
        points.map(state).collect()
    }

    #[test]
    fn only_what_is_known_to_be_the_same_is_reproduced() {
        let (mut same, mut wrong, mut found) = (0, 0, 0);
        for seed in 0..100 {
            let there = results(1.0, 0.08, seed);
            let of = |factor| results(factor, 0.08, 1_000 + seed);
            let is = |here: &Results, state| states(&there, here)[0].0 == state;
            same += usize::from(is(&of(1.0), REPRODUCED));
            wrong += usize::from(is(&of(1.0), DIFFERS));
            wrong += usize::from(is(&of(0.85), REPRODUCED));
            found += usize::from(is(&of(0.75), DIFFERS));
        }
        assert!(same >= 90, "{same} of 100 were reproduced");
        assert!(wrong <= 1, "{wrong} of 200 were called what they are not");
        assert!(found >= 90, "{found} of 100 were found to differ");
    }

    #[test]
    fn what_is_missing_or_disturbed_is_undecided() {
        let (there, here) = (results(1.0, 0.02, 1), results(1.0, 0.02, 2));
        assert_eq!(states(&there, &here)[0].0, REPRODUCED);
        // Two points of the experiment have no run.
        let all = again(&there, &here);
        assert!(all.count(UNDECIDED) > 0 && !all.holds(), "{all:?}");
        let undecided = |there: &Results, here: &Results, expected: &str| {
            let (state, why) = states(there, here)[0].clone();
            assert_eq!(state, UNDECIDED, "{why}");
            assert!(why.contains(expected), "{why}");
        };
        let mut few = here.clone();
        few.runs.retain(|run| run.repeat < 3);
        undecided(&there, &few, "2 runs here have it, 3 are needed");
        undecided(&few, &here, "2 runs there have it");
        let mut disturbed = here.clone();
        for run in disturbed.runs.iter_mut().filter(|run| run.repeat > 2) {
            run.verdict = State::Disturbed;
        }
        undecided(
            &there,
            &disturbed,
            "3 of 5 runs here were disturbed, 2 are left",
        );
        let mut renamed = here.clone();
        renamed.runs.iter_mut().for_each(|run| run.metrics.clear());
        undecided(&there, &renamed, "0 runs here have it");
        let mut none = here.clone();
        none.runs.clear();
        undecided(&there, &none, "no run here");
        undecided(&there, &results(1.0, 0.6, 3), "reaches over the threshold");
    }

    #[test]
    fn zeros_are_reproduced_by_zeros_alone() {
        let of = |value: f64| {
            let mut results = results(1.0, 0.0, 1);
            let all = results
                .runs
                .iter_mut()
                .flat_map(|run| run.metrics.values_mut());
            all.for_each(|it| *it = value);
            results
        };
        assert_eq!(states(&of(0.0), &of(0.0))[0].0, REPRODUCED);
        for (there, here) in [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0)] {
            let (state, why) = states(&of(there), &of(here))[0].clone();
            assert_eq!(state, UNDECIDED, "{there} {here}");
            assert!(why.contains("no ratio"), "{why}");
        }
    }
}
