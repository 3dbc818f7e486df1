//! The certificate of a load in words.

use std::collections::BTreeMap;

use lineside_analyze::LoadReport;
use lineside_trace::certificate::load::{
    Asked, DepartureFigures, Fill, FitFigures, Generator, Load, Quantiles,
};
use lineside_words::{bytes, grouped, number, percent, rate, signed_time, time};

use crate::block::{
    Block, Cell, Colour, Fact, Kind, Section, Table, Verdict, column, fact, text, wide,
};

/// The certificate, all of it.
pub(crate) fn section(load: &LoadReport) -> Section {
    let verdict = Block::Verdict(Verdict::of_run(load.verdict, &load.reasons));
    let mut blocks = vec![verdict, Block::List(facts(&load.found))];
    blocks.extend(times_table(&load.found).map(Block::Table));
    Section {
        heading: "Load".to_owned(),
        note: String::new(),
        blocks,
    }
}

fn facts(load: &Load) -> Vec<Fact> {
    let plain = |label, value| fact(label, value, String::new());
    let mut facts = vec![
        plain("server", server(load)),
        plain("model", model(&load.asked)),
    ];
    if let Some([offered, achieved, missed]) = offered(load) {
        facts.push(fact("offered", offered, format!("{achieved}, {missed}")));
    }
    let [answered, per_second, moved] = answered(load);
    facts.push(fact("answered", answered, format!("{per_second}, {moved}")));
    facts.extend(
        counts(load)
            .into_iter()
            .map(|(label, words)| plain(label, words)),
    );
    let departures = departures_words(&load.departures);
    facts.extend(
        departures
            .into_iter()
            .map(|words| plain("departures", words)),
    );
    facts.extend(
        generator_words(&load.generator)
            .into_iter()
            .map(|words| plain("generator", words)),
    );
    facts
}

/// A row for each kind of times.
fn times_table(load: &Load) -> Option<Table> {
    let times = times(load);
    if times.is_empty() {
        return None;
    }
    let columns = [
        column("", Kind::Name),
        column("p50", Kind::Number),
        column("p90", Kind::Number),
        column("p99", Kind::Number),
        column("p99.9", Kind::Number),
        column("max", Kind::Number),
        wide("count", Kind::Number),
    ];
    let rows: Vec<Vec<Cell>> = { times.iter() }
        .map(|(name, times)| {
            let mut row = vec![text(name.clone())];
            row.extend(quantiles(times).map(|(_, ns)| text(time(ns))));
            row.push(text(grouped(times.count)));
            row
        })
        .collect();
    let rest = match load.asked.is_open_loop() {
        true => {
            "Latency is from when a request was due to the end of its answer; service and first \
            byte are from its departure."
        }
        false => "",
    };
    Some(Table {
        caption: "times".to_owned(),
        columns: columns.to_vec(),
        rows_narrow: rows.len(),
        rows,
        rest: rest.to_owned(),
        axis: None,
    })
}

/// `http://a/ at 10.0.0.1:80 by kernel sockets`
pub(crate) fn server(load: &Load) -> String {
    let at = load.asked.servers.first();
    let at = at.map_or_else(String::new, |server| format!(" at {server}"));
    let by = match load.generator.transport.as_str() {
        "" => String::new(),
        transport => format!(" by {transport}"),
    };
    format!("{}{at}{by}", load.asked.url)
}

/// What was offered and achieved, and how much was missed, of an open loop.
pub(crate) fn offered(load: &Load) -> Option<[String; 3]> {
    let (offered, achieved) = load.rates.offered.zip(load.rates.achieved)?;
    let missed = percent(load.rates.missed_share.unwrap_or_default());
    Some([
        rate(offered),
        format!("{} achieved", rate(achieved)),
        format!("{missed} missed"),
    ])
}

/// How many were answered, how many a second, and how many bytes.
pub(crate) fn answered(load: &Load) -> [String; 3] {
    let (requests, rates) = (&load.requests, &load.rates);
    [
        format!(
            "{} of {}",
            grouped(requests.answered),
            grouped(requests.planned)
        ),
        rate(rates.answered),
        format!(
            "{}/s in, {}/s out",
            bytes(rates.received_bytes as u64),
            bytes(rates.request_bytes as u64)
        ),
    ]
}

/// What was stored before the load.
fn filled(fill: Fill) -> String {
    format!(
        "{} of {} values, {} in {:.1} s, apart from the counts here",
        grouped(fill.stored),
        grouped(fill.values),
        bytes(fill.request_bytes),
        fill.duration_s
    )
}

/// Whether most GETs missed: a server answers them from an empty store.
fn missed(load: &Load) -> String {
    let of = |status: &str| load.requests.statuses.get(status).copied().unwrap_or(0);
    let (hits, misses) = (of("HIT"), of("MISS"));
    let is_missed = load.asked.protocol == "memcached" && misses > hits;
    match (is_missed, load.fill) {
        (false, _) => String::new(),
        (true, None) => format!(
            "{} of GETs missed: it has few of these keys; --fill all stores their values first",
            percent(misses as f64 / (hits + misses) as f64)
        ),
        (true, Some(_)) => format!(
            "{} of GETs missed: it does not hold what was stored",
            percent(misses as f64 / (hits + misses) as f64)
        ),
    }
}

/// The outcomes of requests and connections that are worth a line.
pub(crate) fn counts(load: &Load) -> Vec<(&'static str, String)> {
    let (requests, connections) = (&load.requests, &load.connections);
    let has_statuses = !["echo", "udp", "sink", "source"].contains(&&*load.asked.protocol);
    let statuses = { requests.statuses.iter() }.filter(|_| has_statuses);
    let statuses = statuses.map(|(name, &count)| {
        let colon = if name.parse::<u32>().is_ok() { ":" } else { "" };
        format!("{name}{colon} {}", grouped(count))
    });
    let mut all = vec![
        ("filled first", load.fill.map_or_else(String::new, filled)),
        ("statuses", statuses.collect::<Vec<_>>().join(", ")),
        ("store", missed(load)),
        ("failed", causes(&requests.failed)),
        ("not sent", causes(&requests.unsent)),
        ("not opened", causes(&connections.refused)),
    ];
    for (label, count, what) in [
        (
            "spoiled",
            requests.spoiled,
            "answers were followed by bytes that answer nothing",
        ),
        (
            "waited",
            requests.waited,
            "requests found no free connection when due (raise -c)",
        ),
        (
            "checked late",
            requests.overdue,
            "requests by more than 1 ms",
        ),
        (
            "moved",
            requests.moved,
            "times the schedule was moved after a stall",
        ),
        (
            "one way",
            requests.one_way,
            "datagrams left; the other end counts what came",
        ),
        ("again", requests.duplicates, "answers came once more"),
        (
            "too late",
            requests.late_answers,
            "answers came after their requests had failed",
        ),
        (
            "strays",
            requests.strays,
            "datagrams came that answer nothing",
        ),
    ] {
        if count > 0 {
            all.push((label, format!("{} {what}", grouped(count))));
        }
    }
    all.retain(|(_, words)| !words.is_empty());
    all
}

/// The distributions of times, by name.
pub(crate) fn times(load: &Load) -> Vec<(String, &Quantiles)> {
    // A closed loop plans no instants.
    let is_open = load.asked.is_open_loop();
    let service = load.service.as_ref().filter(|_| is_open);
    let lateness = load.departures.lateness.as_ref().filter(|_| is_open);
    let all = [
        ("latency", load.latency.as_ref()),
        ("  service", service),
        ("  first byte", load.first_byte.as_ref()),
    ];
    let of_ends = [("connecting", load.opening.as_ref()), ("late", lateness)];
    let named = |(name, times): (&str, Option<_>)| Some((name.to_owned(), times?));
    let operations = { load.operations.iter() }.map(|(name, times)| (format!("  {name}"), times));
    { all.into_iter().filter_map(named) }
        .chain(operations)
        .chain(of_ends.into_iter().filter_map(named))
        .collect()
}

/// `open loop: poisson at 10,000/s, 50 connections, 1 worker, timer io, seed 1`
pub(crate) fn model(asked: &Asked) -> String {
    let ends = match asked.workers {
        0 => format!("{} connections", grouped(asked.connections.into())),
        1 => format!(
            "{} connections, 1 worker",
            grouped(asked.connections.into())
        ),
        workers => format!(
            "{} connections, {workers} workers",
            grouped(asked.connections.into())
        ),
    };
    let Some(arrivals) = &asked.arrivals else {
        return format!("closed loop: {ends}");
    };
    let of = match asked.arrivals_of.as_str() {
        "connections" => " of connections",
        _ => "",
    };
    let per_second = asked.rate.as_ref().map(|words| match words.parse() {
        Ok(number) => rate(number),
        Err(_) => words.clone(),
    });
    let per_second = per_second.map_or_else(String::new, |rate| format!(" at {rate}"));
    let timer = match asked.timer.as_str() {
        "" => String::new(),
        timer => format!(", timer {timer}"),
    };
    format!(
        "open loop: {arrivals}{per_second}{of}, {ends}{timer}, seed {}",
        asked.seed
    )
}

/// The quantiles, by name.
pub(crate) fn quantiles(times: &Quantiles) -> [(&'static str, u64); 5] {
    [
        ("p50", times.p50_ns),
        ("p90", times.p90_ns),
        ("p99", times.p99_ns),
        ("p99.9", times.p999_ns),
        ("max", times.max_ns),
    ]
}

/// How many were late, and how they fit the model.
pub(crate) fn departures_words(departures: &DepartureFigures) -> Vec<String> {
    let late = [
        (departures.over_10us, "10 us"),
        (departures.over_100us, "100 us"),
        (departures.over_1000us, "1 ms"),
    ];
    let late = late.map(|(count, bound)| format!("{} over {bound}", grouped(count)));
    let late = departures
        .lateness
        .is_some()
        .then(|| format!("late: {}", late.join(", ")));
    late.into_iter()
        .chain(departures.fit.as_ref().map(fit_words))
        .collect()
}

fn fit_words(fit: &FitFigures) -> String {
    let gaps = format!(
        "gaps of the first {} differ from those due by p50 {}, p99 {}; misfit {}",
        grouped(fit.departures),
        time(fit.gap_error_p50_ns),
        time(fit.gap_error_p99_ns),
        signed_time(fit.misfit_ns)
    );
    match fit.distance.zip(fit.p_value) {
        None => gaps,
        Some((distance, p_value)) => format!(
            "{gaps}; arrivals fit the model (KS D={}, p={})",
            number(distance),
            number(p_value)
        ),
    }
}

/// What it took, and what kept it.
pub(crate) fn generator_words(generator: &Generator) -> Vec<String> {
    // A load that goes on, or was killed, has not reported yet what it took.
    if generator.transport.is_empty() {
        return Vec::new();
    }
    let each = generator
        .cpu_s_per_million
        .map_or_else(String::new, |seconds| {
            format!(", {} CPU a request", signed_time(seconds * 1e3))
        });
    let mut words = vec![format!(
        "{} of CPU{each}, the busiest worker {} of the time",
        signed_time(generator.cpu_s * 1e9),
        percent(generator.busiest_share)
    )];
    let longest = format!(
        "turns of a loop took over 1 ms, {} the longest",
        time(generator.stall_max_ns)
    );
    for (count, what) in [
        (generator.stalls, longest.as_str()),
        (
            generator.held_back,
            "writes waited for a window or for room",
        ),
        (generator.retransmitted, "frames were sent again"),
        (generator.dropped, "frames were dropped at this end"),
    ] {
        if count > 0 {
            words.push(format!("{} {what}", grouped(count)));
        }
    }
    words
}

fn causes(counts: &BTreeMap<String, u64>) -> String {
    let counts = counts.iter().filter(|(_, count)| **count > 0);
    let words = counts.map(|(cause, &count)| format!("{} {}", cause_text(cause), grouped(count)));
    words.collect::<Vec<_>>().join(", ")
}

/// A cause in words.
fn cause_text(cause: &str) -> &str {
    match cause {
        "reset" => "reset or refused by the server",
        "closed" => "closed by the server",
        "timeout" => "no answer in time",
        "protocol" => "no answer of the protocol",
        "local" => "no port, descriptor or memory here",
        "no_connection" => "too many waited for a connection",
        "run_over" => "waited for a connection at the end",
        "refused" => "the connection did not open",
        other => other,
    }
}

/// A cause of failures in a drawing.
pub(crate) fn cause_words(cause: &str) -> (&'static str, Colour) {
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

#[cfg(test)]
mod tests {
    use lineside_analyze::closing;
    use lineside_trace::{Manifest, State, Verdict};
    use serde_json::json;

    use super::*;
    use crate::section::load_summary::summary;

    #[test]
    fn a_certificate_of_a_load_is_read_and_others_are_not() {
        let certificate = json!({
            "asked": { "url": "http://a/", "connections": 50, "arrivals": "poisson", "rate": "10" },
            "rates": { "offered": 10.0, "achieved": 9.5, "answered": 9.0 },
            "requests": { "planned": 100, "answered": 90, "failed": { "reset": 10 },
                          "statuses": { "HIT": 90 } },
            "latency": { "p50_ns": 5_000_000, "p90_ns": 6_000_000, "count": 90 }
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
        assert_eq!(closing("", &manifest("emulate")).load, None);
        let found = closing("", &manifest("load")).load.expect("a load");
        assert_eq!(
            (found.verdict, found.found.requests.answered),
            (Some(State::Disturbed), 90)
        );
        let section = section(&found);
        assert_eq!(section.heading, "Load");
        let Some(Block::List(facts)) = section.blocks.get(1) else {
            panic!("facts after the verdict");
        };
        let value = |label| {
            let fact = facts.iter().find(|fact| fact.label == label);
            fact.map(|fact| fact.value.as_str())
        };
        assert_eq!(
            value("model"),
            Some("open loop: poisson at 10/s, 50 connections, seed 0")
        );
        assert_eq!(value("failed"), Some("reset or refused by the server 10"));
        assert_eq!(value("statuses"), Some("HIT 90"));
        let Some(Block::Table(times)) = section.blocks.get(2) else {
            panic!("times after the facts");
        };
        let heads = times.columns.iter().map(|column| column.head.as_ref());
        let heads: Vec<_> = heads.collect();
        assert_eq!(heads, ["", "p50", "p90", "p99", "p99.9", "max", "count"]);
        let Cell::Text(p90) = &times.rows[0][2] else {
            panic!("a time");
        };
        assert_eq!(p90, "6.00 ms");
        let lines = summary(&found);
        let latency = lines.iter().find(|line| line.label == "latency");
        let latency = latency
            .map(|line| line.parts.join(", "))
            .unwrap_or_default();
        assert!(
            latency.starts_with("p50 5.00 ms, p90 6.00 ms, p99"),
            "{latency}"
        );
    }
}
