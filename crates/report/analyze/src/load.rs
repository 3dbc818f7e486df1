//! A load, as the certificate in `trace.json` describes it, and its course by its rows.

use std::collections::BTreeMap;

use lineside_trace::{Manifest, Role, State};
use serde::{Deserialize, Serialize};

use crate::model::{LoadOverTime, LoadQuantile};

/// What a load was asked, and what came of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LoadReport {
    /// Whether the run is valid.
    #[serde(skip_deserializing)]
    pub verdict: Option<State>,
    /// Why not.
    #[serde(skip_deserializing)]
    pub reasons: Vec<String>,
    /// What was asked.
    pub asked: LoadAsked,
    /// Rates, a second.
    pub rates: LoadRates,
    /// Requests.
    pub requests: LoadRequests,
    /// From the planned instant to the end of the answer.
    pub latency: Option<LoadTimes>,
    /// From the departure to the end of the answer.
    pub service: Option<LoadTimes>,
    /// From the departure to the first byte of the answer.
    pub first_byte: Option<LoadTimes>,
    /// As `latency`, by the protocol's operations, where it tells them apart.
    pub operations: BTreeMap<String, LoadTimes>,
    /// From the SYN to an open connection.
    pub opening: Option<LoadTimes>,
    /// Departures.
    pub departures: LoadDepartures,
    /// Connections.
    pub connections: LoadConnections,
    /// The generator.
    pub generator: LoadGenerator,
    /// The chosen requests over time; null without rows of them.
    #[serde(skip_deserializing)]
    pub over_time: Option<LoadOverTime>,
    /// How times of the chosen requests are spread.
    #[serde(skip_deserializing)]
    pub quantiles: Vec<LoadQuantile>,
}

impl LoadReport {
    /// Whether requests had instants of their own.
    pub fn is_open(&self) -> bool {
        self.asked.arrivals.is_some()
    }
}

/// What a load was to do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LoadAsked {
    /// The URL, as it was given.
    pub url: String,
    /// `http`, `echo`.
    pub protocol: String,
    /// Addresses and ports of the servers.
    pub servers: Vec<String>,
    /// Connections at once.
    pub connections: u32,
    /// Workers.
    pub workers: u32,
    /// How instants are spread, in words; null in a closed loop.
    pub arrivals: Option<String>,
    /// The rate, in words.
    pub rate: Option<String>,
    /// What arrives: `requests` or `connections`.
    pub arrivals_of: String,
    /// `io`, `app` or `sleep`.
    pub timer: String,
    /// Seed of all draws.
    pub seed: u64,
}

/// Rates, a second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LoadRates {
    /// Arrivals that the schedule holds; null in a closed loop.
    pub offered: Option<f64>,
    /// Arrivals that became requests; null in a closed loop.
    pub achieved: Option<f64>,
    /// The share of arrivals that did not; null in a closed loop.
    pub missed_share: Option<f64>,
    /// Answers.
    pub answered: f64,
    /// Bytes of answers.
    pub received_bytes: f64,
    /// Bytes of requests.
    pub request_bytes: f64,
}

/// Requests by what came of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LoadRequests {
    /// Requests whose instant came.
    pub planned: u64,
    /// Answers.
    pub answered: u64,
    /// Requests that found no free connection when they were due.
    pub waited: u64,
    /// Requests of an open loop that the generator checked more than 1 ms after they were due.
    pub overdue: u64,
    /// How often the schedule was moved after a stall.
    pub moved: u64,
    /// Datagrams that left and want no answer.
    pub one_way: u64,
    /// Answers in datagrams to requests that had failed by then.
    pub late_answers: u64,
    /// Answers in datagrams to requests that were answered before.
    pub duplicates: u64,
    /// Datagrams that came and answered nothing.
    pub strays: u64,
    /// Planned and never sent, by reason.
    pub unsent: BTreeMap<String, u64>,
    /// Sent and not answered, by cause.
    pub failed: BTreeMap<String, u64>,
    /// Answers by status.
    pub statuses: BTreeMap<String, u64>,
}

/// A distribution of times.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LoadTimes {
    /// How many there are.
    pub count: u64,
    /// Half of them are at most this.
    pub p50_ns: u64,
    /// 90 %.
    pub p90_ns: u64,
    /// 99 %.
    pub p99_ns: u64,
    /// 99.9 %.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Connections by what came of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LoadConnections {
    /// Connections that were opened.
    pub opened: u64,
    /// Tries that did not open, by cause.
    pub refused: BTreeMap<String, u64>,
}

/// What the generator took.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LoadGenerator {
    /// `kernel sockets`, or how our own TCP takes frames.
    pub transport: String,
    /// Processor seconds of all workers.
    pub cpu_s: f64,
    /// The same for a million answers; null without answers.
    pub cpu_s_per_million: Option<f64>,
    /// Of the busiest worker's time, the share that it was running.
    pub busiest_share: f64,
    /// Turns of a worker's loop that took more than 1 ms.
    pub stalls: u64,
    /// The longest of them.
    pub stall_max_ns: u64,
    /// Writes that a window, or a socket without room, held back.
    pub held_back: u64,
    /// Frames with bytes that were sent before.
    pub retransmitted: u64,
    /// Frames that this end's ports dropped or never sent.
    pub dropped: u64,
}

/// How departures lay to their instants.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LoadDepartures {
    /// From the planned instant to the departure.
    pub lateness: Option<LoadTimes>,
    /// Departures more than 10 us late.
    pub over_10us: u64,
    /// Departures more than 100 us late.
    pub over_100us: u64,
    /// Departures more than 1 ms late.
    pub over_1000us: u64,
    /// How the first of them fit the model; null in a closed loop.
    pub fit: Option<LoadFit>,
}

/// How well departures fit their model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LoadFit {
    /// How many were judged.
    pub departures: u64,
    /// Distance by Kolmogorov and Smirnov; null for constant arrivals, as the next.
    pub distance: Option<f64>,
    /// How likely a distance at least as large is if the generator adds nothing.
    pub p_value: Option<f64>,
    /// The area between the distributions of the gaps as they left and as they were due.
    pub misfit_ns: f64,
    /// Half of the gaps were no farther from the gap that was due, longer or shorter.
    pub gap_error_p50_ns: u64,
    /// 99 % of the gaps.
    pub gap_error_p99_ns: u64,
}

/// The certificate of a load, and its course; `None` of other runs, and of a load that goes on or
/// was killed.
pub(crate) fn load(
    manifest: Option<&Manifest>,
    course: Option<(LoadOverTime, Vec<LoadQuantile>)>,
) -> Option<LoadReport> {
    let manifest = manifest?;
    manifest.section(Role::Load)?;
    let certificate = manifest.certificate.clone()?;
    let report: LoadReport = serde_json::from_value(certificate).unwrap_or_default();
    let (over_time, quantiles) = course.unzip();
    Some(LoadReport {
        over_time,
        quantiles: quantiles.unwrap_or_default(),
        verdict: Some(manifest.verdict.state),
        reasons: manifest.verdict.reasons.clone(),
        ..report
    })
}
