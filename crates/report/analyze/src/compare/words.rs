//! What a comparison found, in words.

use lineside_words::{bytes, grouped, percent, rate, time};

use super::sample::{Kind, Outcome};
use crate::model::{Compared, Subject};
use crate::numbers::{file_name, tail};

/// Columns that a path or a client keeps in a line.
const NAME_MAX: usize = 40;

/// `nfs v3 READ`
pub(super) fn kind((program, version, operation): &Kind) -> String {
    let version = version.map_or_else(String::new, |version| format!(" v{version}"));
    match (program.as_str(), operation.as_str()) {
        ("", "") => "calls that were not seen".to_owned(),
        (program, operation) => format!("{program}{version} {operation}"),
    }
}

pub(super) fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Status(status) => status.clone(),
        Outcome::NoReply => "no reply".to_owned(),
        Outcome::SentAgain => "sent again".to_owned(),
    }
}

/// Whether an outcome is no trouble: searches along a path make it every day.
pub(super) fn is_everyday(outcome: &str) -> bool {
    outcome.ends_with("_NOENT") || outcome.ends_with("ERR_NOENT")
}

/// `client 10.0.0.7, nfs v3 READ`
pub fn who(subject: &Subject) -> String {
    let client = subject
        .client
        .as_ref()
        .map(|client| format!("client {client}"));
    let server = { subject.server.as_ref() }.map(|server| format!("server {server}"));
    let path = subject.path.as_deref().unwrap_or_default();
    let file = { subject.file_id }.map(|id| tail(&file_name(path, Some(id)), NAME_MAX));
    let parts = [client, server, file, subject.operation.clone()];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match (parts.is_empty(), &subject.outcome) {
        (true, _) => "all operations".to_owned(),
        (false, None) => parts.join(", "),
        (false, Some(outcome)) => format!("{}: {outcome}", parts.join(", ")),
    }
}

/// The name of a figure, and its value in words.
fn figure(measure: &str) -> (&'static str, fn(f64) -> String) {
    let ns: fn(f64) -> String = |ns| time(ns as u64);
    match measure {
        "latency_p50_ns" => ("p50", ns),
        "latency_p99_ns" => ("p99", ns),
        "latency_geometric_mean_ns" => ("typically", ns),
        "operations_per_second" => ("operations", rate),
        "read_bytes_per_second" => ("read", |rate| format!("{}/s", bytes(rate as u64))),
        "written_bytes_per_second" => ("written", |rate| format!("{}/s", bytes(rate as u64))),
        "outcome_share" => ("of its operations", percent),
        "latency_tail_share" => ("take longer than 99 % of their kind", percent),
        _ => ("of all operations", percent),
    }
}

fn times(ratio: f64) -> String {
    if ratio >= 100.0 {
        format!("{ratio:.0}")
    } else if ratio >= 10.0 {
        format!("{ratio:.1}")
    } else {
        format!("{ratio:.2}")
    }
}

/// `(2.01 times, 1.90 to 2.13)`
fn ratio(compared: &Compared) -> String {
    let Some(ratio) = compared.ratio else {
        return "(none before)".to_owned();
    };
    let range = match (compared.ratio_low, compared.ratio_high) {
        (Some(low), Some(high)) => format!(", {} to {}", times(low), times(high)),
        (Some(low), None) => format!(", at least {}", times(low)),
        (None, Some(high)) => format!(", at most {}", times(high)),
        (None, None) => String::new(),
    };
    format!("({} times{range})", times(ratio))
}

/// What changed: `nfs v3 READ: median 210 us -> 420 us (2.00 times, 1.90 to 2.13)`.
pub fn change_words(figures: &[Compared], spread: Option<&(usize, Vec<String>)>) -> String {
    let subject = figures
        .first()
        .map(|compared| who(&compared.subject))
        .unwrap_or_default();
    let parts = figures.iter().map(|compared| {
        let (name, text) = figure(compared.measure);
        let [a, b] = [compared.a, compared.b].map(|value| value.map_or_else(String::new, text));
        let after = compared.measure.ends_with("share");
        let (before, after) = if after {
            ("", format!(" {name}"))
        } else {
            (name, String::new())
        };
        let space = if before.is_empty() { "" } else { " " };
        format!("{before}{space}{a} -> {b}{after} {}", ratio(compared))
    });
    let parts: Vec<String> = parts.collect();
    let spread = match spread {
        Some((asked, who)) if *asked > 1 && !who.is_empty() => {
            let named = if who.len() <= 3 {
                format!(": {}", who.join(", "))
            } else {
                String::new()
            };
            format!("; {} of {} clients{named}", who.len(), asked)
        }
        _ => String::new(),
    };
    format!("{subject}: {}{spread}", parts.join(", "))
}

/// What only one of the traces has, as news.
pub(super) fn appearance(
    subject: &Subject,
    in_b: bool,
    operations: u64,
    share: Option<f64>,
) -> String {
    let share = percent(share.unwrap_or_default());
    let of = if subject.outcome.is_some() {
        "its operations"
    } else {
        "all operations"
    };
    let count = grouped(operations);
    if in_b {
        format!("{}: new, {share} of {of} ({count})", who(subject))
    } else {
        format!("{}: gone, was {share} of {of} ({count})", who(subject))
    }
}
