//! What a lab found, as `lab.json` and `--json` have it.

use std::collections::BTreeMap;
use std::path::Path;

use lineside_lab::{Change, Estimate, Facts, Fit, Results, answer, beside_first, facts_in};
use serde::Serialize;

/// [`Figures::lab_version`].
const LAB_VERSION: &str = "1.0";

/// What a change is, where none is given.
pub(crate) const THRESHOLD: f64 = 0.05;

/// What a lab found.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Figures {
    /// The version of this document.
    pub(crate) lab_version: &'static str,
    /// The seed of the lab.
    pub(crate) seed: u64,
    /// Runs that were asked for.
    pub(crate) runs_planned: usize,
    /// Runs that are there.
    pub(crate) runs: usize,
    /// Runs whose links were disturbed in every attempt.
    pub(crate) disturbed: usize,
    /// The axes, in the order of the file, with their values.
    pub(crate) axes: Vec<Axis>,
    /// The points, in their order.
    pub(crate) points: Vec<Point>,
    /// What must hold.
    pub(crate) assertions: Vec<Assertion>,
    /// In paired order: the values of the first axis beside its first one, as ratios.
    pub(crate) beside_first: Vec<Change>,
    /// What bounds each metric over each delay and rate.
    pub(crate) fits: Vec<Fit>,
    /// The system under test, by name.
    pub(crate) facts: Facts,
}

/// An axis.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Axis {
    pub(crate) name: String,
    pub(crate) values: Vec<String>,
}

/// A point.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Point {
    /// From 1.
    pub(crate) point: usize,
    /// The values of the axes.
    pub(crate) axes: BTreeMap<String, String>,
    /// Runs that are there.
    pub(crate) repeats: usize,
    /// Those of them whose links were disturbed.
    pub(crate) disturbed: usize,
    /// The metrics, in the order of the file.
    pub(crate) metrics: Vec<Value>,
}

/// A metric at a point.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Value {
    pub(crate) metric: String,
    pub(crate) unit: String,
    /// Its median, with an interval of 95 %.
    #[serde(flatten)]
    pub(crate) estimate: Option<Estimate>,
}

/// Something that must hold.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Assertion {
    pub(crate) name: String,
    pub(crate) words: String,
    /// At how many points it was asked.
    pub(crate) points: usize,
    /// `holds`, `failed` or `undecided`.
    pub(crate) state: &'static str,
    /// Where it does not hold or cannot be judged, and why.
    pub(crate) why: Vec<String>,
}

impl Assertion {
    /// As other verbs have theirs.
    pub(crate) fn for_junit(&self) -> lineside_analyze::Assertion {
        lineside_analyze::Assertion {
            assertion: self.words.clone(),
            holds: self.state == "holds",
            undecided: self.state == "undecided",
            value: None,
            bound: 0.0,
            operations: self.points as u64,
            what: match self.why.is_empty() {
                true => format!("holds at {} points", self.points),
                false => self.why.join("; "),
            },
        }
    }
}

impl Figures {
    pub(crate) fn of(results: &Results, baseline: Option<&Results>) -> Self {
        let lab = &results.lab;
        let point = |point: usize| {
            let runs = results.at_point(point);
            let disturbed = runs.iter().filter(|run| run.is_disturbed());
            let metrics = lab.metrics().map(|metric| Value {
                metric: metric.name.clone(),
                unit: metric.unit.clone(),
                estimate: results.estimate(point, &metric.name),
            });
            Point {
                point,
                axes: lab.values(point),
                repeats: runs.len(),
                disturbed: disturbed.count(),
                metrics: metrics.collect(),
            }
        };
        let assertions = results.judge(baseline).into_iter().map(|judged| Assertion {
            state: match (judged.failed.is_empty(), judged.undecided.is_empty()) {
                (false, _) => "failed",
                (true, false) => "undecided",
                (true, true) => "holds",
            },
            name: judged.name,
            words: judged.words,
            points: judged.points,
            why: [judged.failed, judged.undecided].concat(),
        });
        let axis = |axis: &lineside_lab::Axis| Axis {
            name: axis.name.clone(),
            values: axis.values.clone(),
        };
        Self {
            lab_version: LAB_VERSION,
            seed: lab.seed,
            runs_planned: results.planned(),
            runs: results.runs.len(),
            disturbed: results.disturbed(),
            axes: lab.sweep.iter().map(axis).collect(),
            points: (1..=lab.points()).map(point).collect(),
            assertions: assertions.collect(),
            beside_first: beside_first(results, THRESHOLD),
            fits: answer(results),
            facts: Facts::new(),
        }
    }

    /// The same with the facts of a lab's folder.
    pub(crate) fn with_facts(self, folder: &Path) -> Self {
        Self {
            facts: facts_in(folder),
            ..self
        }
    }

    /// Whether all that must hold does.
    pub(crate) fn holds(&self) -> bool {
        self.assertions
            .iter()
            .all(|assertion| assertion.state == "holds")
    }
}

#[cfg(test)]
mod tests {
    use lineside_lab::{Compared, Reproduced};

    use super::*;

    fn check(name: &str, schema: &schemars::Schema) {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/schema");
        let path = format!("{folder}/{name}.schema.json");
        let text = serde_json::to_string_pretty(schema).expect("JSON") + "\n";
        if std::env::var_os("LINESIDE_STORE").is_some() {
            std::fs::write(&path, &text).expect("stored");
        }
        let known = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(text == known, "{path}: run with LINESIDE_STORE=1");
    }

    #[test]
    fn the_published_schemas_of_a_lab_are_those_of_the_code() {
        let made = || schemars::generate::SchemaSettings::default().for_serialize();
        check(
            "lab",
            &made().into_generator().into_root_schema_for::<Figures>(),
        );
        let compared = made().into_generator().into_root_schema_for::<Compared>();
        check("compare_lab", &compared);
        let reproduced = made().into_generator().into_root_schema_for::<Reproduced>();
        check("rerun_lab", &reproduced);
    }
}
