//! The certificate of a run: what was asked, when requests left, what came of them, and whether
//! its times may be believed.
//!
//! ```text
//!  Asked, Outcome, Machine, Limits ─► certificate ─► figures ─► evidence ─► verdict
//! ```

use std::collections::BTreeMap;

use lineside_run::{Evidence, LateLimits, LoadEvidence, Moved, judge};
use lineside_trace::certificate::Judged;
use lineside_trace::certificate::load::{
    Asked, ConnectionCounts, DepartureFigures, FitFigures, Generator, Limits, Load, Quantiles,
    Rates, RequestCounts, SecondFigures,
};
use lineside_words::grouped;
use lineside_workload::{Against, Fitness};

use crate::outcome::{Outcome, RunSecond};
use crate::results::{Cause, Counts, RequestTimes, Unsent};

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

fn second_figures(seconds: &[RunSecond]) -> Vec<SecondFigures> {
    let failed_of = |counts: &Counts| counts.failed.iter().sum::<u64>();
    let mut failed_before = 0;
    let mut figures = Vec::with_capacity(seconds.len());
    for second in seconds {
        let failed = failed_of(&second.counts);
        let at = |place: usize| second.latency_ns.map(|all| all[place]);
        figures.push(SecondFigures {
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

/// Seconds that a run must have for its thirds to be compared.
const DRIFT_SECONDS_MIN: usize = 6;

/// The certificate of a run, with its verdict.
pub type Certificate = Judged<Load>;

/// The certificate of a run.
pub fn certificate(
    asked: Asked,
    outcome: &Outcome,
    known: Known<'_>,
    limits: Limits,
) -> Certificate {
    let Known {
        planned,
        fitness,
        operations,
        status_name,
        machine,
        failures,
    } = known;
    let seconds = second_figures(&outcome.seconds);
    let times = &outcome.times;
    // A schedule goes on after its last request.
    let span_ns = planned.map_or(0, |planned| planned.span_ns);
    let duration_s = outcome.wall_ns.max(span_ns.cast_signed()) as f64 / 1e9;
    let found = Load {
        rates: rates(&asked, planned, outcome, duration_s),
        asked,
        duration_s,
        requests: requests(&outcome.counts, status_name),
        fill: outcome.fill,
        connections: ConnectionCounts {
            opened: outcome.counts.opened,
            closed: outcome.counts.closed,
            refused: by_cause(&outcome.counts.refused),
        },
        latency: Quantiles::of(&times.latency),
        service: Quantiles::of(&times.service),
        first_byte: Quantiles::of(&times.first_byte),
        operations: { operations.iter().zip(&times.operations) }
            .filter_map(|(name, times)| Some(((*name).to_owned(), Quantiles::of(times)?)))
            .collect(),
        opening: Quantiles::of(&times.opening),
        departures: departures(times, fitness),
        generator: generator(outcome, machine),
        drift: drift(&seconds),
        seconds,
        broken_identity: outcome.broken_identity.clone(),
        limits,
    };
    let verdict = judge(&Evidence {
        load: Some(evidence(&found, planned, times)),
        failures,
        ..Evidence::default()
    });
    Judged { found, verdict }
}

/// What the verdict follows from.
fn evidence(load: &Load, planned: Option<Planned>, times: &RequestTimes) -> LoadEvidence {
    let limits = &load.limits;
    let is_open = load.asked.is_open_loop();
    // Of a connection that arrives, the request leaves after its handshake.
    let is_timed = is_open && !load.asked.is_of_connections();
    let local =
        |all: &BTreeMap<String, u64>| all.get(Cause::Local.name()).copied().unwrap_or_default();
    let lateness = load.departures.lateness.filter(|_| is_timed);
    let (ended, failed) = load.ended();
    LoadEvidence {
        ended,
        failed,
        failures: failures(load),
        failed_share_max: limits.errors,
        departures: lateness.map_or(0, |lateness| lateness.count),
        late: load.departures.over_1000us,
        late_limits: LateLimits {
            late: limits.late,
            lateness_max_ns: limits.lateness_max_ns,
        },
        moved: moved(times).filter(|_| is_timed),
        lateness_max_ns: lateness.map_or(0, |lateness| lateness.max_ns),
        stalled: stalled(load),
        arrivals: planned.map_or(0, |planned| planned.arrivals),
        missed_share: load.rates.missed_share.unwrap_or_default(),
        missed_share_max: limits.rate_missed,
        lateness_p99_ns: lateness.map_or(0, |lateness| lateness.p99_ns),
        lateness_p99_max_ns: limits.lateness_p99_ns,
        planned: load.requests.planned,
        waited: if is_timed { load.requests.waited } else { 0 },
        waited_share_max: limits.waited,
        busy_share: match is_open && load.asked.wait == "sleep" {
            true => load.generator.busiest_share,
            false => 0.0,
        },
        busy_share_max: limits.busy,
        rows_dropped: load.generator.rows_dropped,
        frames_dropped: load.generator.dropped,
        without_local: local(&load.requests.failed)
            .saturating_add(local(&load.connections.refused)),
        stalls: load.generator.stalls,
        stall_max_ns: load.generator.stall_max_ns,
        stall_limit_ns: limits.stall_ns,
        steal_share: load.generator.steal_share.unwrap_or_default(),
        steal_share_max: limits.steal,
        drift: load.drift.unwrap_or(1.0),
        drift_max: limits.drift,
        broken_identity: load.broken_identity.clone(),
    }
}

/// How requests failed, the most frequent way first.
fn failures(load: &Load) -> String {
    let requests = &load.requests;
    let mut ways: Vec<(u64, &str)> = { requests.failed.iter() }
        .map(|(cause, &count)| (count, cause.as_str()))
        .collect();
    ways.push((load.refused(), "no connection"));
    ways.push((requests.spoiled, "more bytes after the answer"));
    // An agent's counts may be any.
    let answers = { requests.answered }.saturating_sub(requests.succeeded);
    let answers = answers.saturating_sub(requests.spoiled);
    ways.push((answers, "an answer that reports no success"));
    ways.retain(|&(count, _)| count > 0);
    ways.sort_unstable_by(|one, other| other.cmp(one));
    let ways = ways.iter();
    let ways = ways.map(|(count, way)| format!("{way} {}", grouped(*count)));
    ways.collect::<Vec<_>>().join(", ")
}

/// The first reported quantile of latency that lies beyond what the service times alone allow, by
/// more than its own error: its rank is uncertain by twice its deviation.
fn moved(times: &RequestTimes) -> Option<Moved> {
    /// Steps of the histograms.
    const STEP: f64 = 1.002;
    let count = times.latency.count() as f64;
    [0.5, 0.9, 0.99, 0.999].into_iter().find_map(|quantile| {
        let error = 1.96 * (quantile * (1.0 - quantile) / count).sqrt();
        let most_ns = times.service.quantile_ns((quantile + error).min(1.0))?;
        let to_ns = times.latency.quantile_ns(quantile)?;
        (to_ns as f64 > most_ns as f64 * STEP).then_some(Moved {
            quantile,
            from_ns: times.service.quantile_ns(quantile)?,
            to_ns,
        })
    })
}

/// Requests that were due or under way while the generator stood still: their share of the time,
/// and at the beginning of each stall those that had no answer yet, by Little's law.
fn stalled(load: &Load) -> u64 {
    let (generator, duration_ns) = (&load.generator, load.duration_s.max(1e-9) * 1e9);
    let stalled_ns = generator.stalled_ns as f64;
    let mean_ns = load.service.map_or(0, |service| service.mean_ns) as f64;
    let answered = load.requests.answered as f64;
    let under_way = (answered * mean_ns / duration_ns).min(load.asked.connections.into());
    let stalls = (stalled_ns / generator.stall_max_ns.max(1) as f64).ceil();
    let workers = f64::from(load.asked.workers.max(1));
    (answered * stalled_ns / workers / duration_ns + under_way / workers * stalls) as u64
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

fn by_cause(counts: &[u64; 6]) -> BTreeMap<String, u64> {
    let all = Cause::ALL
        .iter()
        .map(|&cause| (cause.name().to_owned(), counts[cause as usize]));
    all.filter(|&(_, count)| count > 0).collect()
}

fn requests(counts: &Counts, status_name: &dyn Fn(u32) -> String) -> RequestCounts {
    let unsent = Unsent::ALL
        .iter()
        .map(|&why| (why.name().to_owned(), counts.unsent[why as usize]));
    let statuses = counts.statuses.iter();
    RequestCounts {
        planned: counts.planned,
        sent: counts.sent,
        answered: counts.answered,
        succeeded: counts.succeeded,
        spoiled: counts.spoiled,
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

fn fit(fitness: Fitness) -> FitFigures {
    let against = match fitness.against {
        Against::Schedule => "schedule",
        Against::Model => "model",
        Against::Integral => "integral",
        Against::Drawn => "drawn",
    };
    FitFigures {
        departures: fitness.departures as u64,
        against: against.to_owned(),
        distance: fitness.distance.map(|distance| distance.ks),
        p_value: fitness.distance.map(|distance| distance.p_value),
        misfit_ns: fitness.misfit_ns,
        gap_error_p50_ns: fitness.gap_errors.p50_ns,
        gap_error_p99_ns: fitness.gap_errors.p99_ns,
        rate_error_ppm: fitness.rate_error_ppm,
    }
}

fn departures(times: &RequestTimes, fitness: Option<Fitness>) -> DepartureFigures {
    DepartureFigures {
        lateness: Quantiles::of(&times.lateness),
        over_10us: times.late.over_10us,
        over_100us: times.late.over_100us,
        over_1000us: times.late.over_1000us,
        fit: fitness.map(fit),
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
        generator.stalled_ns += facts.stalled_ns.max(0).cast_unsigned();
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
    fn counts_that_contradict_each_other_are_judged() {
        let load = Load {
            requests: RequestCounts {
                answered: 1,
                succeeded: u64::MAX,
                spoiled: u64::MAX,
                ..RequestCounts::default()
            },
            ..Load::default()
        };
        let ways = failures(&load);
        assert!(ways.starts_with("more bytes after the answer"), "{ways}");
        assert!(!ways.contains("reports no success"), "{ways}");
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
            let found = certificate(Asked::default(), &outcome, known, Limits::default());
            (found.duration_s, found.rates.answered)
        };
        assert_eq!(rates(500_000_000, None), (0.5, 200.0));
        assert_eq!(rates(500_000_000, Some(1_000_000_000)), (1.0, 100.0));
        assert_eq!(rates(2_000_000_000, Some(1_000_000_000)), (2.0, 50.0));
    }
}
