//! The form of what `lineside doctor` finds about a machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The version of [`Doctor`].
pub const DOCTOR_VERSION: &str = "1.1";

/// What a machine offers to live runs, and what is precise to what because of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Doctor {
    /// Version of this form: [`DOCTOR_VERSION`].
    pub version: String,
    /// Version of the program.
    pub lineside: String,
    /// Whether an interface can be captured from.
    pub can_capture: bool,
    /// Each thing that was looked at, in the order of the table.
    pub findings: Vec<Finding>,
    /// How late threads wake, measured.
    pub wake: Wake,
    /// Facts about the machine by name, as each run keeps them.
    #[serde(default)]
    pub facts: BTreeMap<String, String>,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// What it is, such as `clock_source`; of an interface, `interface` or `stamps`.
    pub what: String,
    /// The interface that it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// How good it is.
    pub state: Condition,
    /// How it is here, in words.
    pub found: String,
    /// What follows for runs.
    pub effect: String,
    /// A command, a setting or a flag that helps; absent where nothing is amiss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Figures by name, each with its unit at the end.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, u64>,
}

/// How good something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// As good as can be.
    Good,
    /// It works, with limits that `effect` states.
    Limited,
    /// It is not there, or may not be used.
    Missing,
    /// The machine does not say.
    #[default]
    Unknown,
}

/// By how much threads that slept woke too late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Wake {
    /// How many times one slept.
    pub samples: u64,
    /// For how long.
    pub nap_ns: u64,
    /// Half of them woke later than that.
    pub p50_ns: u64,
    /// One of a hundred woke later than that.
    pub p99_ns: u64,
    /// The latest.
    pub max_ns: u64,
}

pub(super) fn finding(
    what: &str,
    state: Condition,
    found: impl Into<String>,
    effect: &str,
) -> Finding {
    Finding {
        what: what.to_owned(),
        state,
        found: found.into(),
        effect: effect.to_owned(),
        ..Finding::default()
    }
}

pub(super) fn helped(mut finding: Finding, remedy: impl Into<String>) -> Finding {
    finding.remedy = Some(remedy.into());
    finding
}

pub(super) fn measured(mut finding: Finding, figures: &[(&str, Option<u64>)]) -> Finding {
    let known = { figures.iter() }.filter_map(|&(name, value)| Some((name.to_owned(), value?)));
    finding.figures = known.collect();
    finding
}
