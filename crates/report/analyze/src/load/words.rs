//! The certificate of a load in words.

use std::collections::BTreeMap;

use super::{LoadAsked, LoadDepartures, LoadFit, LoadGenerator, LoadReport, LoadTimes};
use crate::emulation::fact;
use crate::numbers::{bytes, grouped, number, percent, rate, signed_time, time};
use crate::page::{Block, Cell, Colour, Fact, Kind, Section, Table, Verdict, column, text, wide};

/// The certificate, all of it.
pub(crate) fn section(load: &LoadReport) -> Section {
    let verdict = Block::Verdict(Verdict::of_run(load.verdict, &load.reasons));
    let mut blocks = vec![verdict, Block::List(facts(load))];
    blocks.extend(times_table(load).map(Block::Table));
    Section {
        heading: "Load".to_owned(),
        note: String::new(),
        blocks,
    }
}

fn facts(load: &LoadReport) -> Vec<Fact> {
    let plain = |label, value| fact(label, value, String::new());
    let mut facts = vec![
        plain("server", load.server()),
        plain("model", load.asked.model()),
    ];
    if let Some([offered, achieved, missed]) = load.offered() {
        facts.push(fact("offered", offered, format!("{achieved}, {missed}")));
    }
    let [answered, per_second, moved] = load.answered();
    facts.push(fact("answered", answered, format!("{per_second}, {moved}")));
    facts.extend(
        load.counts()
            .into_iter()
            .map(|(label, words)| plain(label, words)),
    );
    let departures = load.departures.words();
    facts.extend(
        departures
            .into_iter()
            .map(|words| plain("departures", words)),
    );
    facts.extend(
        load.generator
            .words()
            .into_iter()
            .map(|words| plain("generator", words)),
    );
    facts
}

/// A row for each kind of times.
fn times_table(load: &LoadReport) -> Option<Table> {
    let times = load.times();
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
            row.extend(times.all().map(|(_, ns)| text(time(ns))));
            row.push(text(grouped(times.count)));
            row
        })
        .collect();
    let rest = match load.is_open() {
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

impl LoadReport {
    /// `http://a/ at 10.0.0.1:80 by kernel sockets`
    pub(super) fn server(&self) -> String {
        let at = self.asked.servers.first();
        let at = at.map_or_else(String::new, |server| format!(" at {server}"));
        let by = match self.generator.transport.as_str() {
            "" => String::new(),
            transport => format!(" by {transport}"),
        };
        format!("{}{at}{by}", self.asked.url)
    }

    /// What was offered and achieved, and how much was missed, of an open loop.
    pub(super) fn offered(&self) -> Option<[String; 3]> {
        let (offered, achieved) = self.rates.offered.zip(self.rates.achieved)?;
        let missed = percent(self.rates.missed_share.unwrap_or_default());
        Some([
            rate(offered),
            format!("{} achieved", rate(achieved)),
            format!("{missed} missed"),
        ])
    }

    /// How many were answered, how many a second, and how many bytes.
    pub(super) fn answered(&self) -> [String; 3] {
        let (requests, rates) = (&self.requests, &self.rates);
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

    /// What became of requests and connections, as far as it is worth a line.
    pub(super) fn counts(&self) -> Vec<(&'static str, String)> {
        let (requests, connections) = (&self.requests, &self.connections);
        let has_statuses = !["echo", "udp", "sink", "source"].contains(&&*self.asked.protocol);
        let statuses = { requests.statuses.iter() }.filter(|_| has_statuses);
        let statuses = statuses.map(|(name, &count)| {
            let colon = if name.parse::<u32>().is_ok() { ":" } else { "" };
            format!("{name}{colon} {}", grouped(count))
        });
        let mut all = vec![
            ("statuses", statuses.collect::<Vec<_>>().join(", ")),
            ("failed", causes(&requests.failed)),
            ("not sent", causes(&requests.unsent)),
            ("not opened", causes(&connections.refused)),
        ];
        for (label, count, what) in [
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
    pub(super) fn times(&self) -> Vec<(String, &LoadTimes)> {
        // A closed loop plans no instants.
        let is_open = self.is_open();
        let service = self.service.as_ref().filter(|_| is_open);
        let lateness = self.departures.lateness.as_ref().filter(|_| is_open);
        let all = [
            ("latency", self.latency.as_ref()),
            ("  service", service),
            ("  first byte", self.first_byte.as_ref()),
        ];
        let of_ends = [("connecting", self.opening.as_ref()), ("late", lateness)];
        let named = |(name, times): (&str, Option<_>)| Some((name.to_owned(), times?));
        let operations =
            { self.operations.iter() }.map(|(name, times)| (format!("  {name}"), times));
        { all.into_iter().filter_map(named) }
            .chain(operations)
            .chain(of_ends.into_iter().filter_map(named))
            .collect()
    }
}

impl LoadAsked {
    /// `open loop: poisson at 10,000/s, 50 connections, 1 worker, timer io, seed 1`
    pub(super) fn model(&self) -> String {
        let ends = match self.workers {
            0 => format!("{} connections", grouped(self.connections.into())),
            1 => format!("{} connections, 1 worker", grouped(self.connections.into())),
            workers => format!(
                "{} connections, {workers} workers",
                grouped(self.connections.into())
            ),
        };
        let Some(arrivals) = &self.arrivals else {
            return format!("closed loop: {ends}");
        };
        let of = match self.arrivals_of.as_str() {
            "connections" => " of connections",
            _ => "",
        };
        let per_second = self.rate.as_ref().map(|words| match words.parse() {
            Ok(number) => rate(number),
            Err(_) => words.clone(),
        });
        let per_second = per_second.map_or_else(String::new, |rate| format!(" at {rate}"));
        let timer = match self.timer.as_str() {
            "" => String::new(),
            timer => format!(", timer {timer}"),
        };
        format!(
            "open loop: {arrivals}{per_second}{of}, {ends}{timer}, seed {}",
            self.seed
        )
    }
}

impl LoadTimes {
    /// The quantiles, by name.
    pub(super) fn all(&self) -> [(&'static str, u64); 5] {
        [
            ("p50", self.p50_ns),
            ("p90", self.p90_ns),
            ("p99", self.p99_ns),
            ("p99.9", self.p999_ns),
            ("max", self.max_ns),
        ]
    }
}

impl LoadDepartures {
    /// How many were late, and how they fit the model.
    pub(super) fn words(&self) -> Vec<String> {
        let late = [
            (self.over_10us, "10 us"),
            (self.over_100us, "100 us"),
            (self.over_1000us, "1 ms"),
        ];
        let late = late.map(|(count, bound)| format!("{} over {bound}", grouped(count)));
        let late = self
            .lateness
            .is_some()
            .then(|| format!("late: {}", late.join(", ")));
        late.into_iter()
            .chain(self.fit.as_ref().map(LoadFit::words))
            .collect()
    }
}

impl LoadFit {
    fn words(&self) -> String {
        let gaps = format!(
            "gaps of the first {} differ from those due by p50 {}, p99 {}; misfit {}",
            grouped(self.departures),
            time(self.gap_error_p50_ns),
            time(self.gap_error_p99_ns),
            signed_time(self.misfit_ns)
        );
        match self.distance.zip(self.p_value) {
            None => gaps,
            Some((distance, p_value)) => format!(
                "{gaps}; arrivals fit the model (KS D={}, p={})",
                number(distance),
                number(p_value)
            ),
        }
    }
}

impl LoadGenerator {
    /// What it took, and what kept it.
    pub(super) fn words(&self) -> Vec<String> {
        let each = self.cpu_s_per_million.map_or_else(String::new, |seconds| {
            format!(", {} CPU a request", signed_time(seconds * 1e3))
        });
        let mut words = vec![format!(
            "{} of CPU{each}, the busiest worker {} of the time",
            signed_time(self.cpu_s * 1e9),
            percent(self.busiest_share)
        )];
        let longest = format!(
            "turns of a loop took over 1 ms, {} the longest",
            time(self.stall_max_ns)
        );
        for (count, what) in [
            (self.stalls, longest.as_str()),
            (self.held_back, "writes waited for a window or for room"),
            (self.retransmitted, "frames were sent again"),
            (self.dropped, "frames were dropped at this end"),
        ] {
            if count > 0 {
                words.push(format!("{} {what}", grouped(count)));
            }
        }
        words
    }
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
pub(super) fn cause_words(cause: &str) -> (&'static str, Colour) {
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
