//! What a load was asked, when its requests left, and what came of them.

use std::collections::BTreeMap;

use lineside_measure::Times;
use serde::{Deserialize, Serialize};

use super::judged::Certificate;
use crate::Role;

/// What came of a load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Load {
    /// What was asked.
    pub asked: Asked,
    /// Seconds from the first request to the last answer, or to the end of the schedule if that is
    /// later.
    pub duration_s: f64,
    /// Rates.
    pub rates: Rates,
    /// Requests.
    pub requests: RequestCounts,
    /// Values that were stored before the load, which are in none of its counts; null without.
    pub fill: Option<Fill>,
    /// Connections.
    pub connections: ConnectionCounts,
    /// From the planned instant to the end of the answer; null without answers, as the next two.
    pub latency: Option<Quantiles>,
    /// From the departure to the end of the answer.
    pub service: Option<Quantiles>,
    /// From the departure to the first byte of the answer.
    pub first_byte: Option<Quantiles>,
    /// As `latency`, by the protocol's operations, where it tells them apart.
    pub operations: BTreeMap<String, Quantiles>,
    /// From the SYN to an open connection; null without connections.
    pub opening: Option<Quantiles>,
    /// Departures.
    pub departures: DepartureFigures,
    /// The generator.
    pub generator: Generator,
    /// Each second of the run.
    pub seconds: Vec<SecondFigures>,
    /// The greatest median of latency of a third of the run by the least; null under 6 seconds.
    pub drift: Option<f64>,
    /// Identity of the counts that does not hold: a fault of this program.
    pub broken_identity: Option<String>,
    /// What bounds the verdict.
    pub limits: Limits,
}

impl Load {
    /// Requests that never left because the server opened no connection for them.
    pub fn refused(&self) -> u64 {
        let unsent = &self.requests.unsent;
        let mut refused = self.connections.refused.iter();
        // Where none was refused, those that waited did so for this end or for other answers.
        match refused.any(|(cause, count)| cause != "local" && *count > 0) {
            true => { unsent.values() }.fold(0, |sum, count| sum.saturating_add(*count)),
            false => unsent.get("refused").copied().unwrap_or_default(),
        }
    }

    /// Requests with an outcome, and those of them that got no good answer. A request that never
    /// left because this end was busy has none.
    pub fn ended(&self) -> (u64, u64) {
        let requests = &self.requests;
        let sent = requests.sent.saturating_sub(requests.one_way);
        let ended = sent.saturating_add(self.refused());
        (ended, ended.saturating_sub(requests.succeeded))
    }
}

impl Certificate for Load {
    const VERDICT_AT: usize = usize::MAX;

    fn is_of(role: Option<Role>) -> bool {
        role == Some(Role::Load)
    }
}

/// Values that were stored before a load, so that its requests find them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Fill {
    /// Values, of all servers together.
    pub values: u64,
    /// Of these, stored.
    pub stored: u64,
    /// Bytes of the requests.
    pub request_bytes: u64,
    /// How long it took.
    pub duration_s: f64,
}

/// What a run was to do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Asked {
    /// The URL, as it was given.
    pub url: String,
    /// `http`, `echo`.
    pub protocol: String,
    /// Addresses and ports of the servers, asked in turn.
    pub servers: Vec<String>,
    /// Connections at once.
    pub connections: u32,
    /// Workers.
    pub workers: u32,
    /// How instants are spread, in words; null in a closed loop.
    pub arrivals: Option<String>,
    /// The rate, in words; null in a closed loop, and where arrivals have a rate of their own.
    pub rate: Option<String>,
    /// What arrives: `requests` or `connections`.
    pub arrivals_of: String,
    /// `io`, `app` or `sleep`.
    pub timer: String,
    /// `spin`, `hybrid` or `sleep`.
    pub wait: String,
    /// Seed of all draws.
    pub seed: u64,
}

impl Asked {
    /// Whether requests leave at instants of their own.
    pub fn is_open_loop(&self) -> bool {
        self.arrivals.is_some()
    }

    /// Whether connections arrive.
    pub fn is_of_connections(&self) -> bool {
        self.arrivals_of == "connections"
    }
}

/// A distribution of times in a few figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Quantiles {
    /// How many there are.
    pub count: u64,
    /// The mean.
    pub mean_ns: u64,
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

impl Quantiles {
    /// Of recorded times; `None` without any.
    pub fn of(times: &Times) -> Option<Self> {
        Some(Self {
            count: times.count(),
            mean_ns: times.mean_ns()?,
            p50_ns: times.quantile_ns(0.5)?,
            p90_ns: times.quantile_ns(0.9)?,
            p99_ns: times.quantile_ns(0.99)?,
            p999_ns: times.quantile_ns(0.999)?,
            max_ns: times.max_ns()?,
        })
    }
}

/// Rates, a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Rates {
    /// Arrivals that the schedule holds; null in a closed loop.
    pub offered: Option<f64>,
    /// Arrivals that became requests, or connections, in the scheduled time; null in a closed loop.
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RequestCounts {
    /// Requests whose instant came.
    pub planned: u64,
    /// Of these, given to a connection.
    pub sent: u64,
    /// Answers that came whole.
    pub answered: u64,
    /// Of these, with a status that reports success.
    pub succeeded: u64,
    /// Answers that are no success because bytes came later that answer nothing.
    pub spoiled: u64,
    /// Requests that found no connection at their instant.
    pub waited: u64,
    /// Requests of an open loop that were looked at more than 1 ms after their instant.
    pub overdue: u64,
    /// How often the schedule was moved after a stall (`--catch-up reanchor`).
    pub moved: u64,
    /// By how much in all.
    pub moved_ns: u64,
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
    /// Bytes of requests.
    pub request_bytes: u64,
    /// Bytes that came.
    pub received_bytes: u64,
    /// Bytes of answers' contents.
    pub content_bytes: u64,
}

/// Connections by what came of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ConnectionCounts {
    /// Connections that were opened.
    pub opened: u64,
    /// Connections that the plan ended.
    pub closed: u64,
    /// Tries that did not open, by cause.
    pub refused: BTreeMap<String, u64>,
}

/// How departures lay to their instants.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct DepartureFigures {
    /// From the planned instant to the departure; null without departures.
    pub lateness: Option<Quantiles>,
    /// Departures more than 10 us late.
    pub over_10us: u64,
    /// Departures more than 100 us late.
    pub over_100us: u64,
    /// Departures more than 1 ms late.
    pub over_1000us: u64,
    /// How the first 10,000 fit the model; null in a closed loop, and where connections arrive.
    pub fit: Option<FitFigures>,
}

/// How well departures fit their model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct FitFigures {
    /// How many were judged.
    pub departures: u64,
    /// What their gaps were compared with: the `schedule`, the `model`, the model after the
    /// `integral` of the rate, or the gaps that were `drawn`.
    pub against: String,
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
    /// By how much the rate was above that of the schedule, in millionths.
    pub rate_error_ppm: f64,
}

/// What the generator took, and what kept it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Generator {
    /// `kernel sockets`, or how our own TCP takes frames.
    pub transport: String,
    /// Processor seconds of all workers while requests were under way.
    pub cpu_s: f64,
    /// The same for a million answers; null without answers.
    pub cpu_s_per_million: Option<f64>,
    /// Of the busiest worker's time, the share that it was running.
    pub busiest_share: f64,
    /// Turns of a worker's loop that took more than 1 ms.
    pub stalls: u64,
    /// The longest of them.
    pub stall_max_ns: u64,
    /// All of them together.
    pub stalled_ns: u64,
    /// Processor time that a hypervisor gave to others, as a share of all; null if not known.
    pub steal_share: Option<f64>,
    /// Writes that a window, or a socket without room, held back.
    pub held_back: u64,
    /// Frames with bytes that were sent before; our own TCP alone knows them.
    pub retransmitted: u64,
    /// Frames that this end's ports dropped or never sent.
    pub dropped: u64,
    /// Rows of `operations` that found no room.
    pub rows_dropped: u64,
    /// Bytes of memory for connections and what was under way.
    pub allocated_bytes: u64,
    /// Counters of the transport, by name, of all workers.
    pub counters: BTreeMap<String, u64>,
}

/// A second of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SecondFigures {
    /// Its number, from 1.
    pub number: u32,
    /// Connections that were open at its end.
    pub open: u32,
    /// Answers in it.
    pub answered: u64,
    /// Requests that failed in it.
    pub failed: u64,
    /// Bytes that came in it.
    pub received_bytes: u64,
    /// Median of the latencies in it; null without answers, as the others.
    pub p50_ns: Option<u64>,
    /// 99 %.
    pub p99_ns: Option<u64>,
    /// The longest.
    pub max_ns: Option<u64>,
}

/// Beyond these a run is not valid. A share is from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Limits {
    /// Of the arrivals of a schedule, those that did not become requests in time.
    pub rate_missed: f64,
    /// Of the requests with an outcome, those that got no good answer: beyond it the run is not
    /// valid as a measure of its server, and ends with 3.
    pub errors: f64,
    /// Of departures, those that left more than 1 ms late, where that moves a quantile of latency
    /// beyond its own error; of requests, those that a stall may delay.
    pub late: f64,
    /// 99 % of departures must be no later; null: that is not judged, as the next.
    pub lateness_p99_ns: Option<u64>,
    /// All departures must be no later.
    pub lateness_max_ns: Option<u64>,
    /// Of the requests of an open loop, those that found no connection at their instant.
    pub waited: f64,
    /// Of the busiest worker's time, what it may be running where waiting takes none (`sleep`).
    pub busy: f64,
    /// The longest turn of a loop.
    pub stall_ns: u64,
    /// Processor time that a hypervisor gave to others.
    pub steal: f64,
    /// By how much the median of latency may differ between the thirds of a run, as a factor.
    pub drift: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            rate_missed: 0.001,
            errors: 0.1,
            // As of frames of an emulated link.
            late: 0.001,
            lateness_p99_ns: None,
            lateness_max_ns: None,
            waited: 0.01,
            busy: 0.95,
            stall_ns: 10_000_000,
            steal: 0.01,
            drift: 1.5,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts of another host may be any.
    #[test]
    fn sums_of_any_counts_end_at_the_greatest() {
        let mut load = Load::default();
        load.requests.sent = u64::MAX;
        load.requests.succeeded = 1;
        let unsent = [("refused", u64::MAX), ("late", 2)];
        load.requests.unsent = unsent.map(|(why, count)| (why.to_owned(), count)).into();
        load.connections.refused = [("reset".to_owned(), 1)].into();
        assert_eq!(load.refused(), u64::MAX);
        assert_eq!(load.ended(), (u64::MAX, u64::MAX - 1));
    }
}
