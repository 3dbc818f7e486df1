//! The certificate of a run: what was asked, when requests left, what came of them, and whether
//! its times may be believed.
//!
//! ```text
//!  Asked, Outcome, Machine, Limits ─► Certificate::new ─► figures ─► evidence ─► verdict
//! ```

use std::collections::BTreeMap;

use lineside_measure::Times;
use lineside_run::{Evidence, LoadEvidence, judge};
use lineside_trace::Verdict;
use lineside_workload::{Against, Fitness};
use serde::Serialize;

use crate::outcome::{Outcome, RunSecond};
use crate::results::{Cause, Counts, RequestTimes, Unsent};

/// What a run was to do.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// What the schedule of an open loop holds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Planned {
    /// Arrivals of the schedule, as far as the run was to go.
    pub arrivals: u64,
    /// Nanoseconds in which they come.
    pub span_ns: u64,
}

/// What is known of a run beside its outcome.
pub struct Known<'a> {
    /// What the schedule holds; `None` in a closed loop.
    pub planned: Option<Planned>,
    /// How departures fit the model.
    pub fitness: Option<Fitness>,
    /// The protocol's names of its operations, if it has several.
    pub operations: &'a [&'static str],
    /// What the protocol calls a status.
    pub status_name: &'a dyn Fn(u32) -> String,
    /// The machine.
    pub machine: Machine,
    /// Errors that cut the run short.
    pub failures: Vec<String>,
}

/// What the machine did meanwhile.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Machine {
    /// Processor time that a hypervisor gave to others, as a share of all; `None`: not known.
    pub steal_share: Option<f64>,
}

/// A distribution of times in a few figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestCounts {
    /// Requests whose instant came.
    pub planned: u64,
    /// Of these, given to a connection.
    pub sent: u64,
    /// Answers that came whole.
    pub answered: u64,
    /// Of these, with a status that reports success.
    pub succeeded: u64,
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
    pub unsent: BTreeMap<&'static str, u64>,
    /// Sent and not answered, by cause.
    pub failed: BTreeMap<&'static str, u64>,
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConnectionCounts {
    /// Connections that were opened.
    pub opened: u64,
    /// Connections that the plan ended.
    pub closed: u64,
    /// Tries that did not open, by cause.
    pub refused: BTreeMap<&'static str, u64>,
}

/// How departures lay to their instants.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FitFigures {
    /// How many were judged.
    pub departures: u64,
    /// What their gaps were compared with: the `schedule`, the `model`, the model after the
    /// `integral` of the rate, or the gaps that were `drawn`.
    pub against: &'static str,
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

impl From<Fitness> for FitFigures {
    fn from(fitness: Fitness) -> Self {
        Self {
            departures: fitness.departures as u64,
            against: match fitness.against {
                Against::Schedule => "schedule",
                Against::Model => "model",
                Against::Integral => "integral",
                Against::Drawn => "drawn",
            },
            distance: fitness.distance.map(|distance| distance.ks),
            p_value: fitness.distance.map(|distance| distance.p_value),
            misfit_ns: fitness.misfit_ns,
            gap_error_p50_ns: fitness.gap_errors.p50_ns,
            gap_error_p99_ns: fitness.gap_errors.p99_ns,
            rate_error_ppm: fitness.rate_error_ppm,
        }
    }
}

/// What the generator took, and what kept it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

impl SecondFigures {
    fn all(seconds: &[RunSecond]) -> Vec<Self> {
        let failed_of = |counts: &Counts| counts.failed.iter().sum::<u64>();
        let mut failed_before = 0;
        let mut figures = Vec::with_capacity(seconds.len());
        for second in seconds {
            let failed = failed_of(&second.counts);
            let at = |place: usize| second.latency_ns.map(|all| all[place]);
            figures.push(Self {
                number: second.number,
                open: second.open,
                answered: second.answered,
                failed: failed.saturating_sub(failed_before),
                received_bytes: second.received_bytes,
                p50_ns: at(0),
                p99_ns: at(1),
                max_ns: at(2),
            });
            failed_before = failed;
        }
        figures
    }
}

/// Beyond these a run is not valid. A share is from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limits {
    /// Of the arrivals of a schedule, those that did not become requests in time.
    pub rate_missed: f64,
    /// 99 % of departures must be no later.
    pub lateness_p99_ns: u64,
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
            // As of frames of an emulated link.
            lateness_p99_ns: 1_000_000,
            waited: 0.01,
            busy: 0.95,
            stall_ns: 10_000_000,
            steal: 0.01,
            drift: 1.5,
        }
    }
}

/// What came of a run, and whether it is valid.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Certificate {
    /// What was asked.
    pub asked: Asked,
    /// Seconds from the first request to the last answer, or to the end of the schedule if that is
    /// later.
    pub duration_s: f64,
    /// Rates.
    pub rates: Rates,
    /// Requests.
    pub requests: RequestCounts,
    /// Connections.
    pub connections: ConnectionCounts,
    /// From the planned instant to the end of the answer; null without answers, as the next two.
    pub latency: Option<Quantiles>,
    /// From the departure to the end of the answer.
    pub service: Option<Quantiles>,
    /// From the departure to the first byte of the answer.
    pub first_byte: Option<Quantiles>,
    /// As `latency`, by the protocol's operations, where it tells them apart.
    pub operations: BTreeMap<&'static str, Quantiles>,
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
    /// Whether the run is valid.
    pub verdict: Verdict,
}

/// Seconds that a run must have for its thirds to be compared.
const DRIFT_SECONDS_MIN: usize = 6;

impl Certificate {
    /// The certificate of a run, with its verdict.
    pub fn new(asked: Asked, outcome: &Outcome, known: Known<'_>, limits: Limits) -> Self {
        let Known {
            planned,
            fitness,
            operations,
            status_name,
            machine,
            failures,
        } = known;
        let seconds = SecondFigures::all(&outcome.seconds);
        let times = &outcome.times;
        // A schedule goes on after its last request.
        let span_ns = planned.map_or(0, |planned| planned.span_ns);
        let duration_s = outcome.wall_ns.max(span_ns.cast_signed()) as f64 / 1e9;
        let mut certificate = Self {
            rates: rates(&asked, planned, outcome, duration_s),
            asked,
            duration_s,
            requests: requests(&outcome.counts, status_name),
            connections: ConnectionCounts {
                opened: outcome.counts.opened,
                closed: outcome.counts.closed,
                refused: by_cause(&outcome.counts.refused),
            },
            latency: Quantiles::of(&times.latency),
            service: Quantiles::of(&times.service),
            first_byte: Quantiles::of(&times.first_byte),
            operations: { operations.iter().zip(&times.operations) }
                .filter_map(|(&name, times)| Some((name, Quantiles::of(times)?)))
                .collect(),
            opening: Quantiles::of(&times.opening),
            departures: departures(times, fitness),
            generator: generator(outcome, machine),
            drift: drift(&seconds),
            seconds,
            broken_identity: outcome.broken_identity.clone(),
            limits,
            verdict: Verdict::default(),
        };
        certificate.verdict = judge(&Evidence {
            load: Some(certificate.evidence(planned)),
            failures,
            ..Evidence::default()
        });
        certificate
    }

    /// What the verdict follows from.
    fn evidence(&self, planned: Option<Planned>) -> LoadEvidence {
        let limits = &self.limits;
        let is_open = self.asked.is_open_loop();
        // Of a connection that arrives, the request leaves after its handshake.
        let is_timed = is_open && !self.asked.is_of_connections();
        let local = |all: &BTreeMap<&'static str, u64>| {
            all.get(Cause::Local.name()).copied().unwrap_or_default()
        };
        LoadEvidence {
            arrivals: planned.map_or(0, |planned| planned.arrivals),
            missed_share: self.rates.missed_share.unwrap_or_default(),
            missed_share_max: limits.rate_missed,
            lateness_p99_ns: { self.departures.lateness.filter(|_| is_timed) }
                .map_or(0, |lateness| lateness.p99_ns),
            lateness_p99_max_ns: limits.lateness_p99_ns,
            planned: self.requests.planned,
            waited: if is_timed { self.requests.waited } else { 0 },
            waited_share_max: limits.waited,
            busy_share: match is_open && self.asked.wait == "sleep" {
                true => self.generator.busiest_share,
                false => 0.0,
            },
            busy_share_max: limits.busy,
            rows_dropped: self.generator.rows_dropped,
            frames_dropped: self.generator.dropped,
            without_local: local(&self.requests.failed) + local(&self.connections.refused),
            stalls: self.generator.stalls,
            stall_max_ns: self.generator.stall_max_ns,
            stall_limit_ns: limits.stall_ns,
            steal_share: self.generator.steal_share.unwrap_or_default(),
            steal_share_max: limits.steal,
            drift: self.drift.unwrap_or(1.0),
            drift_max: limits.drift,
            broken_identity: self.broken_identity.clone(),
        }
    }
}

fn rates(asked: &Asked, planned: Option<Planned>, outcome: &Outcome, duration_s: f64) -> Rates {
    let counts = &outcome.counts;
    let duration_s = duration_s.max(1e-9);
    let mut rates = Rates {
        answered: counts.answered as f64 / duration_s,
        received_bytes: counts.received_bytes as f64 / duration_s,
        request_bytes: counts.request_bytes as f64 / duration_s,
        ..Rates::default()
    };
    let Some(planned) = planned else {
        return rates;
    };
    let came = match asked.is_of_connections() {
        true => counts.opened + counts.refused.iter().sum::<u64>(),
        false => counts.sent,
    };
    let span_s = planned.span_ns as f64 / 1e9;
    if span_s > 0.0 {
        rates.offered = Some(planned.arrivals as f64 / span_s);
        rates.achieved = Some(came.min(planned.arrivals) as f64 / span_s);
    }
    let missed = planned.arrivals.saturating_sub(came);
    rates.missed_share = Some(missed as f64 / planned.arrivals.max(1) as f64);
    rates
}

fn by_cause(counts: &[u64; 6]) -> BTreeMap<&'static str, u64> {
    let all = Cause::ALL
        .iter()
        .map(|&cause| (cause.name(), counts[cause as usize]));
    all.filter(|&(_, count)| count > 0).collect()
}

fn requests(counts: &Counts, status_name: &dyn Fn(u32) -> String) -> RequestCounts {
    let unsent = Unsent::ALL
        .iter()
        .map(|&why| (why.name(), counts.unsent[why as usize]));
    let statuses = counts.statuses.iter();
    RequestCounts {
        planned: counts.planned,
        sent: counts.sent,
        answered: counts.answered,
        succeeded: counts.succeeded,
        waited: counts.waited,
        overdue: counts.overdue,
        moved: counts.moved,
        moved_ns: counts.moved_ns,
        one_way: counts.one_way,
        late_answers: counts.late_answers,
        duplicates: counts.duplicates,
        strays: counts.strays,
        unsent: unsent.filter(|&(_, count)| count > 0).collect(),
        failed: by_cause(&counts.failed),
        statuses: statuses
            .map(|&(status, count)| (status_name(status), count))
            .collect(),
        request_bytes: counts.request_bytes,
        received_bytes: counts.received_bytes,
        content_bytes: counts.content_bytes,
    }
}

fn departures(times: &RequestTimes, fitness: Option<Fitness>) -> DepartureFigures {
    DepartureFigures {
        lateness: Quantiles::of(&times.lateness),
        over_10us: times.late.over_10us,
        over_100us: times.late.over_100us,
        over_1000us: times.late.over_1000us,
        fit: fitness.map(FitFigures::from),
    }
}

fn generator(outcome: &Outcome, machine: Machine) -> Generator {
    let cpu_s = outcome.cpu_ns as f64 / 1e9;
    let answered = outcome.counts.answered;
    let (busy, wall) = outcome.busiest;
    let mut generator = Generator {
        transport: { outcome.transports.first() }
            .map_or(String::new(), |facts| facts.transport.clone()),
        cpu_s,
        cpu_s_per_million: (answered > 0).then(|| cpu_s * 1e6 / answered as f64),
        busiest_share: busy as f64 / wall.max(1) as f64,
        steal_share: machine.steal_share,
        rows_dropped: outcome.rows_dropped,
        allocated_bytes: outcome.allocated_bytes as u64,
        ..Generator::default()
    };
    for facts in &outcome.transports {
        generator.stalls += facts.stalls;
        let longest = facts.stall_max_ns.max(0).cast_unsigned();
        generator.stall_max_ns = generator.stall_max_ns.max(longest);
        generator.held_back += facts.held_back;
        generator.retransmitted += facts.retransmitted;
        generator.dropped += facts.dropped;
        for (name, count) in &facts.counters {
            *generator.counters.entry(name.clone()).or_default() += count;
        }
    }
    generator
}

/// The greatest median latency of a third of the run by the least: medians of each second's median.
fn drift(seconds: &[SecondFigures]) -> Option<f64> {
    let medians: Vec<u64> = seconds.iter().filter_map(|second| second.p50_ns).collect();
    if medians.len() < DRIFT_SECONDS_MIN {
        return None;
    }
    let third = medians.len() / 3;
    let parts = [
        0..third,
        third..medians.len() - third,
        medians.len() - third..medians.len(),
    ];
    let of_parts = parts.map(|part| {
        let mut part = medians[part].to_vec();
        part.sort_unstable();
        part[part.len() / 2].max(1)
    });
    let most = of_parts.iter().max()?;
    let least = of_parts.iter().min()?;
    Some(*most as f64 / *least as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(medians: &[u64]) -> Vec<SecondFigures> {
        let second = |&p50_ns| SecondFigures {
            p50_ns: Some(p50_ns),
            ..SecondFigures::default()
        };
        medians.iter().map(second).collect()
    }

    #[test]
    fn thirds_are_compared_by_their_medians() {
        assert_eq!(drift(&seconds(&[100; 5])), None, "too short");
        // One bad second of three changes no median.
        assert_eq!(
            drift(&seconds(&[100, 100, 900, 100, 100, 100, 100, 5, 100])),
            Some(1.0)
        );
        assert_eq!(drift(&seconds(&[100, 100, 100, 100, 300, 300])), Some(3.0));
        assert_eq!(drift(&seconds(&[400, 400, 100, 100, 100, 100])), Some(4.0));
    }

    #[test]
    fn rates_count_to_the_end_of_the_schedule() {
        let rates = |wall_ns, span_ns: Option<u64>| {
            let outcome = Outcome {
                counts: Counts {
                    answered: 100,
                    ..Counts::default()
                },
                wall_ns,
                ..Outcome::default()
            };
            let planned = span_ns.map(|span_ns| Planned {
                arrivals: 100,
                span_ns,
            });
            let known = Known {
                planned,
                fitness: None,
                operations: &[],
                status_name: &|status| status.to_string(),
                machine: Machine::default(),
                failures: Vec::new(),
            };
            let found = Certificate::new(Asked::default(), &outcome, known, Limits::default());
            (found.duration_s, found.rates.answered)
        };
        assert_eq!(rates(500_000_000, None), (0.5, 200.0));
        assert_eq!(rates(500_000_000, Some(1_000_000_000)), (1.0, 100.0));
        assert_eq!(rates(2_000_000_000, Some(1_000_000_000)), (2.0, 50.0));
    }
}
