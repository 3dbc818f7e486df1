//! A load, as the certificate in `trace.json` describes it, and its course by its rows.

mod course;
mod pictures;

use std::collections::BTreeMap;

use lineside_account::bytes;
use lineside_trace::{Manifest, State};
use serde::{Deserialize, Serialize};

use crate::emulation::fact;
use crate::numbers::{grouped, percent, time};
use crate::page::{Block, Colour, Fact, Section, Verdict};

pub(crate) use course::{COLUMNS, Course};
pub use course::{LoadOverTime, LoadQuantile, LoadSteps};
pub(crate) use pictures::pictures;

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
    fn is_open(&self) -> bool {
        self.asked.arrivals.is_some()
    }
}

/// What a load was to do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LoadAsked {
    /// The server.
    pub url: String,
    /// Connections at once.
    pub connections: u32,
    /// How instants are spread, in words; null in a closed loop.
    pub arrivals: Option<String>,
    /// The rate, in words.
    pub rate: Option<String>,
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
    /// Requests that found no connection at their instant.
    pub waited: u64,
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
    /// Half of them are at most this.
    pub p50_ns: u64,
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
    /// Of the busiest worker's time, the share that it was running.
    pub busiest_share: f64,
    /// Turns of a worker's loop that took more than 1 ms.
    pub stalls: u64,
    /// The longest of them.
    pub stall_max_ns: u64,
}

/// How departures lay to their instants.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LoadDepartures {
    /// From the planned instant to the departure.
    pub lateness: Option<LoadTimes>,
}

/// The certificate of a load, and its course; `None` of other runs, and of a load that goes on or
/// was killed.
pub(crate) fn load(manifest: Option<&Manifest>, course: Option<Course>) -> Option<LoadReport> {
    let manifest = manifest?;
    manifest.configuration.get("load")?;
    let certificate = manifest.certificate.clone()?;
    let report: LoadReport = serde_json::from_value(certificate).unwrap_or_default();
    let (over_time, quantiles) = course.and_then(Course::finish).unzip();
    Some(LoadReport {
        over_time,
        quantiles: quantiles.unwrap_or_default(),
        verdict: Some(manifest.verdict.state),
        reasons: manifest.verdict.reasons.clone(),
        ..report
    })
}

/// The certificate in words.
pub(crate) fn section(load: &LoadReport) -> Section {
    let state = load
        .verdict
        .and_then(|state| serde_json::to_value(state).ok());
    let state = state.as_ref().and_then(serde_json::Value::as_str);
    let state = state.unwrap_or("not known").to_owned();
    let verdict = Block::Verdict(Verdict {
        complete: state == "complete",
        state,
        reasons: { load.reasons.iter() }
            .map(|reason| ("because", reason.clone()))
            .collect(),
    });
    Section {
        heading: "Load".to_owned(),
        note: String::new(),
        blocks: vec![verdict, Block::List(facts(load))],
    }
}

fn facts(load: &LoadReport) -> Vec<Fact> {
    let LoadAsked {
        url,
        connections,
        arrivals,
        rate,
        seed,
    } = &load.asked;
    let model = match (arrivals, rate) {
        (None, _) => "as fast as answers come".to_owned(),
        (Some(arrivals), None) => format!("{arrivals}, seed {seed}"),
        (Some(arrivals), Some(rate)) => format!("{arrivals} at {rate} a second, seed {seed}"),
    };
    let plain = |label, value| fact(label, value, String::new());
    let mut facts = vec![
        plain("server", url.clone()),
        plain(
            "model",
            format!("{model}, {} connections", grouped((*connections).into())),
        ),
    ];
    if let (Some(offered), Some(achieved)) = (load.rates.offered, load.rates.achieved) {
        let note = format!("{achieved:.1} achieved");
        facts.push(fact("offered", format!("{offered:.1} a second"), note));
    }
    let requests = &load.requests;
    let answered = format!(
        "{} of {}",
        grouped(requests.answered),
        grouped(requests.planned)
    );
    facts.push(fact(
        "answered",
        answered,
        format!(
            "{:.1} a second, {}/s in, {}/s out",
            load.rates.answered,
            bytes(load.rates.received_bytes as u64),
            bytes(load.rates.request_bytes as u64)
        ),
    ));
    for (label, counts, of) in [
        ("statuses", &requests.statuses, "of "),
        ("failed", &requests.failed, ""),
        ("not sent", &requests.unsent, ""),
        ("not opened", &load.connections.refused, ""),
    ] {
        let counts = counts.iter();
        let words: Vec<_> = counts
            .map(|(name, &count)| format!("{} {of}{name}", grouped(count)))
            .collect();
        if !words.is_empty() {
            facts.push(plain(label, words.join(", ")));
        }
    }
    if requests.waited > 0 {
        let note = "requests found no connection at their instant".to_owned();
        facts.push(fact("waited", grouped(requests.waited), note));
    }
    facts.extend(time_facts(load));
    facts.push(processor(&load.generator));
    facts
}

fn time_facts(load: &LoadReport) -> Vec<Fact> {
    let of_operations = load.operations.iter();
    let of_operations = of_operations.map(|(name, times)| ("latency", Some(times), &**name));
    // A closed loop plans no instants.
    let is_open = load.is_open();
    let service = load.service.as_ref().filter(|_| is_open);
    let lateness = load.departures.lateness.as_ref().filter(|_| is_open);
    let since = if is_open {
        "since the planned instant"
    } else {
        ""
    };
    let all = [
        ("latency", load.latency.as_ref(), since),
        ("service", service, "since the departure"),
        (
            "first byte",
            load.first_byte.as_ref(),
            "since the departure",
        ),
    ];
    let of_ends = [
        ("connecting", load.opening.as_ref(), ""),
        ("late", lateness, "departures after their instants"),
    ];
    { all.into_iter().chain(of_operations).chain(of_ends) }
        .filter_map(|(label, times, note)| Some(fact(label, times_text(times?), note.to_owned())))
        .collect()
}

fn processor(generator: &LoadGenerator) -> Fact {
    let stalls = match generator.stalls {
        0 => String::new(),
        stalls => format!(
            "; turns of a loop over 1 ms: {}, {} the longest",
            grouped(stalls),
            time(generator.stall_max_ns)
        ),
    };
    let note = format!(
        "the busiest worker {} of the time, by {}{stalls}",
        percent(generator.busiest_share),
        generator.transport
    );
    fact("processor", format!("{:.3} s", generator.cpu_s), note)
}

/// A cause of failures in a drawing.
fn cause_words(cause: &str) -> (&'static str, Colour) {
    match cause {
        "reset" => ("reset", Colour::Failed),
        "closed" => ("closed by the server", Colour::Write),
        "timeout" => ("no answer in time", Colour::Unanswered),
        "unreachable" => ("unreachable", Colour::Upper),
        "protocol" => ("no answer of the protocol", Colour::Read),
        "local" => ("no port, descriptor or memory", Colour::Other),
        _ => ("other", Colour::Other),
    }
}

fn times_text(times: &LoadTimes) -> String {
    format!(
        "50 % {}, 99 % {}, 99.9 % {}, most {}",
        time(times.p50_ns),
        time(times.p99_ns),
        time(times.p999_ns),
        time(times.max_ns)
    )
}

#[cfg(test)]
mod tests {
    use lineside_trace::Verdict;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_certificate_of_a_load_is_read_and_others_are_not() {
        let certificate = json!({
            "asked": { "url": "http://a/", "connections": 50, "arrivals": "poisson", "rate": "10" },
            "rates": { "offered": 10.0, "achieved": 9.5, "answered": 9.0 },
            "requests": { "planned": 100, "answered": 90, "failed": { "reset": 10 } },
            "latency": { "p50_ns": 5_000_000, "count": 90 }
        });
        let manifest = |verb: &str| Manifest {
            configuration: json!({ verb: {} }),
            certificate: Some(certificate.clone()),
            verdict: Verdict {
                state: State::Disturbed,
                reasons: vec!["late".to_owned()],
                ..Verdict::default()
            },
            ..Manifest::default()
        };
        assert_eq!(load(Some(&manifest("emulate")), None), None);
        let found = load(Some(&manifest("load")), None).expect("a load");
        assert_eq!(
            (found.verdict, found.requests.answered),
            (Some(State::Disturbed), 90)
        );
        let facts = facts(&found);
        let value = |label| {
            let fact = facts.iter().find(|fact| fact.label == label);
            fact.map(|fact| fact.value.as_str())
        };
        assert_eq!(
            value("model"),
            Some("poisson at 10 a second, seed 0, 50 connections")
        );
        assert_eq!(value("failed"), Some("10 reset"));
        assert_eq!(value("statuses"), None);
        assert!(value("latency").is_some_and(|text| text.starts_with("50 % 5.00 ms")));
        assert_eq!(section(&found).heading, "Load");
    }
}
