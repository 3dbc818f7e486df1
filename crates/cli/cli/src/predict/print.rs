//! A prediction as text.

use std::fmt::Write;

use lineside_render::slow::table;
use lineside_words::{escape, grouped, time};

use super::figures::{Figure, OfPoint, Prediction};

/// Operations of a point that are shown; JSON and CSV have all.
const SHOWN_MAX: usize = 8;

/// What is predicted: a line a point, then the operations.
pub(super) fn text(of: &Prediction) -> String {
    let mut out = format!(
        "{}: {} calls of {} clients over {} connections, {} as captured\n\n",
        escape(&of.trace),
        grouped(of.calls),
        grouped(of.clients),
        grouped(of.connections),
        ns(of.captured_ns)
    );
    out.push_str(&points(of));
    out.push('\n');
    out.push_str(&operations(of));
    doubts(of, &mut out);
    out
}

fn ns(ns: i64) -> String {
    time(u64::try_from(ns).unwrap_or(0))
}

fn names(of: &Prediction) -> Vec<&'static str> {
    let first = of.points.first();
    first.map_or_else(Vec::new, |point| point.axes.keys().copied().collect())
}

fn all(point: &OfPoint) -> Option<&Figure> {
    { point.figures.iter() }.find(|figure| figure.operation.is_none())
}

fn points(of: &Prediction) -> String {
    let axes = names(of);
    let upper: Vec<String> = axes.iter().map(|name| name.to_uppercase()).collect();
    let mut heading: Vec<(&str, bool)> = upper.iter().map(|name| (name.as_str(), true)).collect();
    let is_drawn = of.points.iter().any(|point| point.draws > 1);
    let last = ["OF CAPTURED", "P50", "P99", "SENT AGAIN", "UNFINISHED"];
    let drawn = is_drawn.then_some("OF DRAWS");
    heading.extend(
        ["ELAPSED"]
            .into_iter()
            .chain(drawn)
            .chain(last)
            .map(|name| (name, true)),
    );
    let row = |point: &OfPoint| {
        let figure = all(point);
        let mut row: Vec<String> = point.axes.values().map(|value| escape(value)).collect();
        let ratio = match of.captured_ns {
            0 => "-".to_owned(),
            captured => format!("{:.2} x", point.elapsed_ns as f64 / captured as f64),
        };
        row.push(ns(point.elapsed_ns));
        row.extend(is_drawn.then(|| match point.draws {
            1 => "-".to_owned(),
            _ => format!(
                "{} to {}",
                ns(point.elapsed_least_ns),
                ns(point.elapsed_most_ns)
            ),
        }));
        row.extend([
            ratio,
            figure.map_or_else(|| "-".to_owned(), |figure| ns(figure.p50_ns)),
            figure.map_or_else(|| "-".to_owned(), |figure| ns(figure.p99_ns)),
            grouped(point.retransmissions),
            grouped(point.unfinished),
        ]);
        row
    };
    let rows: Vec<Vec<String>> = of.points.iter().map(row).collect();
    table(&heading, &rows)
}

/// The figures of operations, of all clients together.
fn of_operations(point: &OfPoint) -> impl Iterator<Item = &Figure> {
    let figures = point.figures.iter();
    figures.filter(|figure| figure.client.is_none() && figure.operation.is_some())
}

/// The operations that waited longest together, as captured and at each point.
fn operations(of: &Prediction) -> String {
    let mut heading = vec![("OPERATION", false), ("CALLS", true)];
    heading.extend([("CAPTURED P50", true), ("P99", true)]);
    let numbers: Vec<[String; 2]> = { 1..=of.points.len().min(3) }
        .map(|number| [format!("POINT {number} P50"), "P99".to_owned()])
        .collect();
    for [p50, p99] in &numbers {
        heading.extend([(p50.as_str(), true), (p99.as_str(), true)]);
    }
    let Some(first) = of.points.first() else {
        return String::new();
    };
    let mut shown: Vec<_> = of_operations(first).collect();
    let waited = |figure: &&Figure| i128::from(figure.calls) * i128::from(figure.p50_ns);
    shown.sort_by_key(|figure| std::cmp::Reverse(waited(figure)));
    let row = |figure: &&Figure| {
        let name = figure.operation.as_deref().unwrap_or_default();
        let mut row = vec![
            escape(name),
            grouped(figure.calls),
            ns(figure.captured_p50_ns),
            ns(figure.captured_p99_ns),
        ];
        for point in of.points.iter().take(numbers.len()) {
            let found = of_operations(point).find(|other| other.operation == figure.operation);
            row.extend(found.map_or_else(
                || ["-".to_owned(), "-".to_owned()],
                |found| [ns(found.p50_ns), ns(found.p99_ns)],
            ));
        }
        row
    };
    let rows: Vec<Vec<String>> = shown.iter().take(SHOWN_MAX).map(row).collect();
    let mut out = table(&heading, &rows);
    if shown.len() > SHOWN_MAX {
        let _ = writeln!(
            out,
            "{} more: --csv and --json have all",
            shown.len() - SHOWN_MAX
        );
    }
    out
}

fn doubts(of: &Prediction, out: &mut String) {
    out.push_str("\nHow sure this is\n");
    let doubts = &of.doubts;
    for (number, what) in [
        (
            doubts.guessed,
            "of which it is a guess what they waited for",
        ),
        (
            doubts.bounded,
            "of windows that may have been larger than the trace shows",
        ),
        (doubts.unanswered, "without a reply: nothing waits for them"),
        (
            doubts.without_size,
            "of which the trace has no size: taken for 128 bytes each way",
        ),
        (doubts.udp, "over UDP, which go over TCP here"),
    ] {
        if number > 0 {
            let _ = writeln!(out, "  {} calls {what}", grouped(number));
        }
    }
    out.push_str("What it leaves out\n");
    for what in of.leaves_out {
        let _ = writeln!(out, "  {what}");
    }
}
