//! The report for a terminal: at most 80 columns, in plain text, with headings in bold where that
//! is wanted.

use std::fmt::Write;

use crate::interval::{Iostat, Series};
use crate::model::Report;
use crate::numbers::{date, file_name, grouped, harmless, percent, tail, time};
use crate::page::{Block, Cell, Chart, Column, Curve, Kind, Meters, Page, Scale, Table, page};
use crate::slow::Slow;

/// Columns of a line.
const WIDTH: usize = 80;
/// Columns of a line of bars over time.
const BARS: usize = 40;
/// Columns of a bar, and of counts over time, in a table.
const BAR: usize = 20;
/// Columns of a label.
const LABEL: usize = 14;
/// Columns that a name keeps, however little room there is.
const NAME_MIN: usize = 8;

/// How to write.
#[derive(Debug, Clone, Copy, Default)]
pub struct Style {
    /// Headings in bold, warnings in colour.
    pub colour: bool,
}

impl Style {
    fn heading(self, text: &str) -> String {
        let text = harmless(text);
        if self.colour {
            format!("\u{1b}[1m{text}\u{1b}[0m")
        } else {
            text
        }
    }

    fn alarm(self, text: &str) -> String {
        if self.colour {
            format!("\u{1b}[33m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

/// The whole report.
pub fn report(report: &Report, style: Style) -> String {
    let Page {
        title,
        about,
        sections,
        footer: _,
    } = page(report);
    let mut out = style.heading(&tail(&harmless(&title), WIDTH)) + "\n";
    for line in &about {
        wrapped("", line, &mut out);
    }
    for section in &sections {
        let _ = writeln!(out, "\n{}", style.heading(&section.heading));
        if !section.note.is_empty() {
            wrapped("", &section.note, &mut out);
        }
        for each in &section.blocks {
            block(each, style, &mut out);
        }
    }
    out
}

fn block(block: &Block, style: Style, out: &mut String) {
    match block {
        Block::Verdict(verdict) => {
            let state = match verdict.complete {
                true => verdict.state.clone(),
                false => style.alarm(&verdict.state),
            };
            let _ = writeln!(out, "{:<LABEL$}{state}", "verdict");
            for (label, reason) in &verdict.reasons {
                labelled(label, reason, out);
            }
        }
        Block::Facts(facts) | Block::List(facts) => {
            for fact in facts {
                let note = Some(&fact.note).filter(|note| !note.is_empty());
                let note = note.map_or_else(String::new, |note| format!("  ({note})"));
                labelled(fact.label, &(fact.value.clone() + &note), out);
            }
        }
        Block::Meters(meters) => labelled(meters.label, &meters_text(meters), out),
        Block::Text(text) => wrapped("", text, out),
        Block::Advice(findings) => {
            for (what, advice) in findings {
                wrapped("  * ", &format!("{what}: {advice}"), out);
            }
        }
        Block::Chart(values) => chart(values, out),
        Block::Curve(shares) => curve(shares, out),
        Block::Table(rows) => table(rows, out),
        Block::Beside(parts) => {
            for each in parts.iter().flatten() {
                self::block(each, style, out);
            }
        }
    }
}

fn meters_text(meters: &Meters) -> String {
    let meters = meters.meters.iter().map(|meter| {
        let note = Some(&meter.note).filter(|note| !note.is_empty());
        let note = note.map_or_else(String::new, |note| format!(" ({note})"));
        format!("{} {}{note}", percent(meter.share), meter.of)
    });
    meters.collect::<Vec<_>>().join(", ")
}

/// A line of bars for each layer, each up to its own greatest value.
fn chart(chart: &Chart, out: &mut String) {
    let steps = chart.layers.iter().map(|layer| layer.values.len()).max();
    let group = steps.unwrap_or(0).div_ceil(BARS).max(1);
    let step_ns = chart.step_ns.saturating_mul(group as u64);
    let _ = writeln!(out, "\n{}, {} a column", chart.title, time(step_ns));
    for layer in &chart.layers {
        let groups = layer.values.chunks(group).map(|values| {
            let values = values.iter().flatten().copied();
            match chart.scale {
                // Quantiles cannot be added: a column shows the worst of its steps.
                Scale::Time => values.max().unwrap_or(0),
                Scale::Rate | Scale::ByteRate => values.sum(),
            }
        });
        let groups: Vec<u64> = groups.collect();
        let greatest = groups.iter().copied().max().unwrap_or(0);
        if greatest > 0 {
            let scale = chart.scale.text(greatest as f64, step_ns);
            let _ = writeln!(out, "{:<LABEL$}{} up to {scale}", layer.name, bars(&groups));
        }
    }
}

/// A line of bars, from nothing to the greatest value.
fn bars(values: &[u64]) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let greatest = values.iter().copied().max().unwrap_or(0).max(1);
    let bar = |&value: &u64| match value {
        0 => ' ',
        // Something is never nothing.
        value => HEIGHTS[((value as f64 / greatest as f64 * 8.0).ceil() as usize).clamp(1, 8) - 1],
    };
    values.iter().map(bar).collect()
}

fn curve(curve: &Curve, out: &mut String) {
    let points =
        { curve.points.iter() }.filter(|point| matches!(point.first, 1 | 5 | 25 | 100 | 1_000));
    let points = points.map(|point| {
        let [operations, bytes] = [point.operations_share, point.bytes_share].map(percent);
        format!(
            "the first {}: {operations} of all operations, {bytes} of all bytes",
            grouped(point.first)
        )
    });
    wrapped("", &points.collect::<Vec<_>>().join("; "), out);
}

fn table(table: &Table, out: &mut String) {
    out.push('\n');
    let columns: Vec<(usize, &Column)> = { table.columns.iter().enumerate() }
        .filter(|(_, column)| !column.wide)
        .collect();
    let rows = table.rows.iter().take(table.rows_narrow);
    let rows: Vec<Vec<String>> = rows
        .map(|row| columns.iter().map(|&(at, _)| cell(&row[at])).collect())
        .collect();
    let width = |text: &str| text.chars().count();
    // The caption stands over the names.
    let caption = harmless(&table.caption);
    let heads: Vec<&str> = { columns.iter().enumerate() }
        .map(|(place, (_, column))| match (place, column.kind) {
            (0, Kind::Name | Kind::Path) => caption.as_str(),
            _ => column.head,
        })
        .collect();
    let mut widths: Vec<usize> = { columns.iter().enumerate() }
        .map(|(place, _)| {
            let cells = rows.iter().map(|row| width(&row[place]));
            cells.chain([width(heads[place])]).max().unwrap_or(0)
        })
        .collect();
    // What does not fit is cut from the widest name.
    let over = (widths.iter().sum::<usize>() + 2 * (widths.len() - 1)).saturating_sub(WIDTH);
    for _ in 0..over {
        let names = widths
            .iter_mut()
            .zip(&columns)
            .filter(|(width, (_, column))| {
                matches!(column.kind, Kind::Name | Kind::Path) && **width > NAME_MIN
            });
        if let Some((widest, _)) = names.max_by_key(|(width, _)| **width) {
            *widest -= 1;
        }
    }
    let mut line = |texts: Vec<&str>| {
        let mut line = String::new();
        for ((text, (_, column)), &width) in texts.into_iter().zip(&columns).zip(&widths) {
            let gap = if line.is_empty() { "" } else { "  " };
            let _ = match column.kind {
                Kind::Path => write!(line, "{gap}{:<width$}", tail(text, width)),
                Kind::Name => write!(line, "{gap}{:<width$}", front(text, width)),
                Kind::Number => write!(line, "{gap}{text:>width$}"),
                Kind::Bar(_) | Kind::Spark => write!(line, "{gap}{text:<width$}"),
            };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    };
    line(heads);
    for row in &rows {
        line(row.iter().map(String::as_str).collect());
    }
    if table.rows.len() > rows.len() {
        let more = table.rows.len() - rows.len();
        let _ = writeln!(out, "{more} more are in the forms --html and --json");
    } else if !table.rest.is_empty() {
        wrapped("", &table.rest, out);
    }
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => harmless(text),
        Cell::Bar(share) => "▪".repeat((share * BAR as f64).ceil() as usize),
        Cell::Spark(counts) => {
            let group = counts.len().div_ceil(BAR).max(1);
            let sums: Vec<u64> = counts
                .chunks(group)
                .map(|counts| counts.iter().sum())
                .collect();
            bars(&sums)
        }
    }
}

/// The begin of a text that has to fit in `width` characters.
fn front(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain(['…']).collect()
}

fn labelled(label: &str, text: &str, out: &mut String) {
    wrapped(&format!("{label:<LABEL$}"), text, out);
}

/// What nfsiostat prints, an interval after the other. `-` is what only a client knows.
pub fn intervals(series: &Series) -> String {
    let mut out = String::new();
    for interval in &series.intervals {
        let seconds = series.interval_ns as f64 / 1e9;
        let _ = writeln!(
            out,
            "{}, {:.3} ops/s\n{:8}{:>10}{:>11}{:>9}{:>12}{:>9}{:>5}{:>6}{:>10}",
            date(interval.start_ns),
            interval.all.operations as f64 / seconds,
            "",
            "ops/s",
            "kB/s",
            "kB/op",
            "retrans",
            "avg RTT",
            "exe",
            "queue",
            "errors"
        );
        for (name, iostat) in [("read:", &interval.read), ("write:", &interval.write)] {
            iostat_line(name, iostat, seconds, &mut out);
        }
        out.push('\n');
    }
    out
}

fn iostat_line(name: &str, iostat: &Iostat, seconds: f64, out: &mut String) {
    let operations = iostat.operations as f64;
    let kilobytes = iostat.rpc_bytes as f64 / 1024.0;
    let of = |number: f64, whole: f64| if whole == 0.0 { 0.0 } else { number / whole };
    let counted = |number: u64| format!("{number} ({:.1}%)", of(number as f64, operations) * 100.0);
    let _ = writeln!(
        out,
        "{name:<8}{:>10.3}{:>11.3}{:>9.3}{:>12}{:>9.3}{:>5}{:>6}{:>10}",
        operations / seconds,
        kilobytes / seconds,
        of(kilobytes, operations),
        counted(iostat.retransmissions),
        of(
            iostat.round_trip_sum_ns as f64 / 1e6,
            iostat.round_trips as f64
        ),
        "-",
        "-",
        counted(iostat.failed),
    );
}

/// What nfsslower prints, with client and user in place of process.
pub fn slow(slow: &Slow) -> String {
    let day = |ns: i64| ns.div_euclid(86_400_000_000_000);
    let days: Vec<i64> = slow
        .operations
        .iter()
        .map(|each| day(each.call_time_ns))
        .collect();
    // The date, where there is more than one; else the time alone, as nfsslower has it.
    let from = if days.first() == days.last() { 11 } else { 5 };
    let width = 23 - from;
    let addresses = slow.operations.iter().map(|each| each.client_address.len());
    let client_width = addresses.max().unwrap_or(0).max(6);
    let mut out = format!(
        "{:<width$} {:<client_width$} {:>6} {:<11} {:>8} {:>10} {:>9} FILENAME\n",
        "TIME", "CLIENT", "UID", "OP", "BYTES", "OFFSET_KB", "LAT(ms)"
    );
    let number =
        |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    for each in &slow.operations {
        let time = date(each.call_time_ns);
        let _ = writeln!(
            out,
            "{:<width$} {:<client_width$} {:>6} {:<11} {:>8} {:>10} {:>9.2} {}",
            time.get(from..23).unwrap_or(&time),
            harmless(&each.client_address),
            number(each.user_id.and_then(|id| u64::try_from(id).ok())),
            harmless(&each.operation),
            number(
                each.transferred_bytes
                    .and_then(|bytes| u64::try_from(bytes).ok())
            ),
            number(each.offset_bytes.map(|offset| offset / 1024)),
            each.latency_ns as f64 / 1e6,
            harmless(&file_name(
                each.path.as_deref().unwrap_or_default(),
                each.file_id
            )),
        );
    }
    out
}

/// Writes a text behind `lead`, its further lines below its first, none longer than [`WIDTH`].
fn wrapped(lead: &str, text: &str, out: &mut String) {
    let text = harmless(text);
    let indent = lead.chars().count();
    let mut line = lead.to_owned();
    let mut used = indent;
    for word in text.split(' ') {
        let mut word = word;
        let mut length = word.chars().count();
        if used > indent && used + 1 + length > WIDTH {
            let _ = writeln!(out, "{}", line.trim_end());
            line = " ".repeat(indent);
            used = indent;
        }
        if used > indent {
            line.push(' ');
            used += 1;
        }
        // A word longer than a line, such as a path, is cut into lines.
        while used + length > WIDTH {
            let at = word
                .char_indices()
                .nth(WIDTH - used)
                .map_or(word.len(), |(at, _)| at);
            let _ = writeln!(out, "{line}{}", &word[..at]);
            word = &word[at..];
            length = word.chars().count();
            line = " ".repeat(indent);
            used = indent;
        }
        line.push_str(word);
        used += length;
    }
    let _ = writeln!(out, "{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_longer_than_80_columns() {
        let mut out = String::new();
        let text = format!(
            "{} {} {}",
            "word ".repeat(40),
            "x".repeat(300),
            "ä".repeat(79)
        );
        wrapped("lead         ", &text, &mut out);
        assert!(
            out.lines().all(|line| line.chars().count() <= WIDTH),
            "{out}"
        );
        let letters = |text: &str| {
            text.chars()
                .filter(|letter| !letter.is_whitespace())
                .count()
        };
        assert_eq!(letters(&out), letters(&text) + 4);
    }

    #[test]
    fn bars_show_something_as_more_than_nothing() {
        assert_eq!(bars(&[0, 1, 500, 1_000]), " ▁▄█");
    }
}
