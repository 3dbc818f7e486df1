//! A comparison in words, and for a terminal.

use std::fmt::Write;

use lineside_trace::State;

use super::sample::{Kind, Outcome};
use super::{Appearance, Appearances, Compared, Comparison, Course, Side, Subject};
use crate::numbers::{bytes, file_name, grouped, percent, rate, tail, time};
use crate::terminal::{SCREEN, Style, WIDTH, lines_of};

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
fn who(subject: &Subject) -> String {
    let client = subject
        .client
        .as_ref()
        .map(|client| format!("client {client}"));
    let path = subject.path.as_deref().unwrap_or_default();
    let file = { subject.file_id }.map(|id| tail(&file_name(path, Some(id)), NAME_MAX));
    let parts = [client, file, subject.operation.clone()];
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
pub(super) fn change(figures: &[Compared], spread: Option<&(usize, Vec<String>)>) -> String {
    let subject = figures
        .first()
        .map(|compared| who(&compared.subject))
        .unwrap_or_default();
    let parts = figures.iter().map(|compared| {
        let (name, text) = figure(compared.measure);
        let [a, b] = [compared.a, compared.b].map(|value| value.map_or_else(String::new, text));
        let after = name.starts_with("of ");
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

/// The comparison for a terminal: one screen, or all of it.
pub fn comparison(comparison: &Comparison, full: bool, style: &Style) -> String {
    let mut out = style.heading("What changed from A to B") + "\n";
    side("A", &comparison.a, style, &mut out);
    side("B", &comparison.b, style, &mut out);
    for doubt in &comparison.doubts {
        let kept = if full {
            doubt.clone()
        } else {
            head(doubt, 2 * WIDTH - 4)
        };
        wrapped("! ", &kept, style, &mut out);
    }
    let is_empty = comparison.a.operations == 0 || comparison.b.operations == 0;
    if !is_empty {
        changes(comparison, full, style, &mut out);
    }
    if full {
        tables(comparison, style, &mut out);
    }
    out
}

fn side(name: &str, side: &Side, style: &Style, out: &mut String) {
    let verdict = side.verdict.map_or_else(
        || "no verdict".to_owned(),
        |state| match state {
            State::Complete => "complete".to_owned(),
            other => format!("{other:?}").to_lowercase(),
        },
    );
    let when = side
        .start_ns
        .map_or_else(String::new, |start| format!("{}, ", style.zone.date(start)));
    let text = format!(
        "{}: {when}{}, {} operations, {} clients, {verdict}",
        tail(&side.asked.trace, 24),
        time(side.duration_ns),
        grouped(side.operations),
        grouped(side.clients),
    );
    wrapped(&format!("{name}  "), &text, style, out);
}

fn changes(comparison: &Comparison, full: bool, style: &Style, out: &mut String) {
    // The last two lines say what is not shown, and how sure the rest is.
    let room = SCREEN - 3;
    let mut shown = 0;
    let mut last = None;
    for change in &comparison.changes {
        let mut text = String::new();
        if last != Some(change.course) {
            let heading = match change.course {
                Course::Worse => "Worse",
                Course::Different => "Different",
                Course::Better => "Better",
            };
            text += &format!("\n{}\n", style.heading(heading));
        }
        let since = change
            .since_ns
            .map_or_else(String::new, |ns| format!(", since {}", style.zone.date(ns)));
        wrapped("- ", &format!("{}{since}", change.what), style, &mut text);
        if !full && out.lines().count() + text.lines().count() > room {
            break;
        }
        *out += &text;
        last = Some(change.course);
        shown += 1;
    }
    let left = comparison.changes.len() - shown;
    let others = comparison.unchanged.len() as u64;
    if comparison.changes.is_empty() {
        let _ = writeln!(
            out,
            "\n{}",
            style.heading("Nothing changed that chance does not explain")
        );
    } else if left > 0 {
        let _ = writeln!(
            out,
            "\n{left} more changes, and {others} figures that are no news: --full"
        );
    } else if !full {
        let _ = writeln!(
            out,
            "\n{others} further figures are no news: --full lists them"
        );
    }
    let all = format!(
        "{} figures were compared; all intervals together hold 99 times of 100, and a ratio below \
        1.1 is no news.",
        grouped(comparison.comparisons)
    );
    wrapped("", &all, style, out);
}

fn tables(comparison: &Comparison, style: &Style, out: &mut String) {
    let _ = writeln!(out, "\n{}", style.heading("No news"));
    for compared in &comparison.unchanged {
        wrapped(
            "- ",
            &change(std::slice::from_ref(compared), None),
            style,
            out,
        );
    }
    for (name, only) in [("A", &comparison.only_in_a), ("B", &comparison.only_in_b)] {
        let Appearances {
            files,
            busiest_files,
            clients,
            operations,
            outcomes,
        } = only;
        let lists = [clients, operations, outcomes, busiest_files];
        if lists.iter().all(|list| list.is_empty()) {
            continue;
        }
        let _ = writeln!(out, "\n{}", style.heading(&format!("Only in {name}")));
        if *files > 0 {
            let _ = writeln!(out, "  {} files; the busiest:", grouped(*files));
        }
        for Appearance {
            subject,
            operations,
        } in lists.into_iter().flatten()
        {
            wrapped(
                "- ",
                &format!("{}: {}", who(subject), grouped(*operations)),
                style,
                out,
            );
        }
    }
    for (name, side) in [("A", &comparison.a), ("B", &comparison.b)] {
        for reason in &side.reasons {
            wrapped(&format!("{name}: "), reason, style, out);
        }
    }
}

/// Writes a text after `lead`, its further lines below the first.
fn wrapped(lead: &str, text: &str, style: &Style, out: &mut String) {
    for line in lines_of(lead, text, style.width) {
        *out += &line;
        out.push('\n');
    }
}

/// The begin of a text that has to be short.
fn head(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}

impl Comparison {
    /// What could not be read of either trace, in sentences.
    pub fn unreadable(&self) -> Vec<String> {
        { self.a.unreadable.iter() }
            .chain(&self.b.unreadable)
            .cloned()
            .collect()
    }
}
