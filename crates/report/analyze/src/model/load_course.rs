//! The course of a load as data.

use std::collections::BTreeMap;

use serde::Serialize;

/// The chosen requests of a load over time, in steps of equal length. Each is a list with a value
/// for each step.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadOverTime {
    /// When the first step begins.
    pub start_ns: i64,
    /// How long each is.
    pub step_ns: u64,
    /// Requests that each row stands for (`--rows`): counts are of requests.
    pub requests_per_row: u64,
    /// Requests by the instant for which they were planned. Those that never left have no row:
    /// `found.requests.unsent` counts them.
    pub offered: Vec<u64>,
    /// Requests by their departure.
    pub achieved: Vec<u64>,
    /// Answers by their end.
    pub answered: Vec<u64>,
    /// Requests without an answer, by cause, by their departure.
    pub failed: BTreeMap<String, Vec<u64>>,
    /// From the planned instant to the end of the answer, by the planned instant.
    pub latency: LoadSteps,
    /// From the planned instant to the departure, by the planned instant.
    pub lateness: LoadSteps,
}

/// Times in each step; null without any. Quantiles are within 1 %.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadSteps {
    /// Half of them are at most this.
    pub p50_ns: Vec<Option<u64>>,
    /// 99 %.
    pub p99_ns: Vec<Option<u64>>,
    /// The longest.
    pub max_ns: Vec<Option<u64>>,
}

/// Times that a share of the requests do not exceed, within 0.1 %.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadQuantile {
    /// The share.
    pub share: f64,
    /// From the planned instant to the end of the answer; null without answers.
    pub latency_ns: Option<u64>,
    /// From the departure to the end of the answer.
    pub service_ns: Option<u64>,
    /// From the planned instant to the departure; null without departures.
    pub lateness_ns: Option<u64>,
}
