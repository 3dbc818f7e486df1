//! The report for a terminal: at most 80 columns, in plain text, with headings in bold where that is wanted.

use std::fmt::Write;

use crate::interval::{Iostat, Series};
use crate::model::{Busy, Direction, Operation, OverTime, Ranking, Report};
use crate::numbers::{bytes, date, grouped, harmless, percent, share, tail, time};
use crate::slow::Slow;

/// Columns of a line.
const WIDTH: usize = 80;
/// Columns of a line of bars.
const BARS: usize = 40;
/// Entries of a list: the JSON and HTML forms have more.
const LIST: usize = 10;

/// How to write.
#[derive(Debug, Clone, Copy, Default)]
pub struct Style {
    /// Headings in bold, warnings in colour.
    pub colour: bool,
}

impl Style {
    fn heading(self, text: &str) -> String {
        if self.colour {
            format!("\u{1b}[1m{text}\u{1b}[0m")
        } else {
            text.to_owned()
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
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{}",
        style.heading(&tail(
            &format!("Report on {}", harmless(&report.parameters.trace)),
            WIDTH
        ))
    );
    filter(report, &mut out);
    missing(report, style, &mut out);
    totals(report, style, &mut out);
    findings(report, style, &mut out);
    over_time(&report.over_time, style, &mut out);
    operations(&report.operations, style, &mut out);
    transfers(&report.operations, style, &mut out);
    directions(report, style, &mut out);
    ranking("files", &report.files, style, &mut out);
    ranking("clients", &report.clients, style, &mut out);
    errors(report, style, &mut out);
    out
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
            file_name(each.path.as_deref().unwrap_or_default(), each.file_id),
        );
    }
    out
}

fn filter(report: &Report, out: &mut String) {
    let parameters = &report.parameters;
    let chosen = [
        parameters.since_ns.map(|ns| format!("since {}", date(ns))),
        parameters.until_ns.map(|ns| format!("until {}", date(ns))),
        parameters
            .client
            .as_ref()
            .map(|client| format!("client {}", harmless(client))),
        parameters
            .operation
            .as_ref()
            .map(|name| format!("operation {}", harmless(name))),
    ];
    let chosen: Vec<_> = chosen.into_iter().flatten().collect();
    if !chosen.is_empty() {
        wrapped("only         ", &chosen.join(", "), out);
    }
}

fn missing(report: &Report, style: Style, out: &mut String) {
    let missing = &report.missing;
    section("What is missing from the capture", style, out);
    let verdict = verdict(report);
    let _ = writeln!(
        out,
        "verdict      {}",
        if verdict == "complete" {
            verdict
        } else {
            style.alarm(&verdict)
        }
    );
    for reason in &missing.reasons {
        wrapped("             ", &harmless(reason), out);
    }
    for loss in &missing.losses {
        let what = match loss.dropped_frames {
            0 => format!(
                "{} in {} holes",
                bytes(loss.lost_bytes),
                grouped(loss.holes)
            ),
            frames => format!("{} frames dropped", grouped(frames)),
        };
        wrapped(
            "lost         ",
            &format!("{what}, {}", loss_cause(&loss.direction, &loss.cause)),
            out,
        );
    }
    for unreadable in &missing.unreadable {
        wrapped("unreadable   ", &harmless(unreadable), out);
    }
    if let Some(understood) = &report.understood {
        let of_rpc = percent(understood.rpc_connections_share);
        let of_tcp = percent(understood.tcp_share);
        let line = format!("{of_rpc} of the bytes of RPC connections, {of_tcp} of all TCP bytes");
        wrapped("understood   ", &line, out);
        let tls = match understood.tls_connections {
            0 => String::new(),
            count => format!(", {} with TLS", grouped(count)),
        };
        let _ = writeln!(
            out,
            "connections  {}, {} of them with RPC{tls}",
            grouped(understood.connections),
            grouped(understood.rpc_connections),
        );
    }
}

/// The verdict in words.
pub(crate) fn verdict(report: &Report) -> String {
    let state = report
        .missing
        .verdict
        .and_then(|state| serde_json::to_value(state).ok());
    state
        .as_ref()
        .and_then(|state| state.as_str())
        .map_or_else(|| "not known".to_owned(), str::to_owned)
}

/// A cause as `losses` has it, in words.
pub(crate) fn loss_cause(direction: &str, cause: &str) -> String {
    let direction = match direction {
        "client_to_server" => " from clients",
        "server_to_client" => " from servers",
        _ => "",
    };
    let cause = match cause {
        "not_seen" => "never seen by the tap",
        "snap_length" => "cut by the snap length",
        "given_up" => "given up when memory ran short",
        "port_dropped" => "dropped by the port",
        _ => "cause not known",
    };
    format!("{cause}{direction}")
}

fn totals(report: &Report, style: Style, out: &mut String) {
    let totals = &report.totals;
    section("Workload", style, out);
    let mut line = grouped(totals.operations);
    if let (Some(first), Some(_)) = (totals.first_ns, totals.last_ns) {
        let _ = write!(
            line,
            " in {} from {}",
            time(totals.duration_ns),
            date(first)
        );
    }
    let _ = writeln!(out, "operations   {line}");
    let _ = writeln!(
        out,
        "moved        {} read, {} written",
        bytes(totals.read_bytes),
        bytes(totals.written_bytes)
    );
    let _ = writeln!(
        out,
        "seen         {} clients, {} files",
        grouped(totals.clients),
        grouped(totals.files)
    );
    let odd = odd(report);
    if !odd.is_empty() {
        let odd: Vec<_> = odd
            .iter()
            .map(|(what, count)| format!("{} {what}", grouped(*count)))
            .collect();
        wrapped("of them      ", &odd.join(", "), out);
    }
}

/// What is not as it should be, with how often it was so.
pub(crate) fn odd(report: &Report) -> Vec<(&'static str, u64)> {
    let totals = &report.totals;
    let odd = [
        ("failed", totals.failed),
        ("without reply", totals.unanswered),
        ("without call", totals.without_call),
        ("incomplete", totals.incomplete),
        ("called again after the reply", totals.repeated),
        ("retransmissions", totals.retransmissions),
        ("further replies", totals.duplicate_replies),
        ("without time", totals.without_time),
        ("times that run backwards", totals.negative_times),
    ];
    odd.into_iter().filter(|(_, count)| *count > 0).collect()
}

fn findings(report: &Report, style: Style, out: &mut String) {
    if report.findings.is_empty() {
        return;
    }
    section("What stands out", style, out);
    for finding in &report.findings {
        wrapped(
            "  * ",
            &format!("{}: {}", harmless(&finding.what), finding.advice),
            out,
        );
    }
}

fn over_time(over_time: &OverTime, style: Style, out: &mut String) {
    if over_time.reads.is_empty() {
        return;
    }
    let steps = over_time.reads.len();
    let group = steps.div_ceil(BARS);
    let step_ns = over_time.step_ns.saturating_mul(group as u64);
    section(
        &format!("Over time, {} a column", time(step_ns)),
        style,
        out,
    );
    let seconds = step_ns as f64 / 1e9;
    let rate = |count: u64| {
        format!(
            "at most {}/s",
            grouped((count as f64 / seconds).round() as u64)
        )
    };
    let byte_rate = |count: u64| {
        format!(
            "at most {}/s",
            bytes((count as f64 / seconds).round() as u64)
        )
    };
    let all: Vec<u64> = (0..steps)
        .map(|at| over_time.reads[at] + over_time.writes[at] + over_time.others[at])
        .collect();
    let sum = |values: &[u64]| {
        values
            .chunks(group)
            .map(|values| values.iter().sum())
            .collect::<Vec<u64>>()
    };
    let mut line = |name: &str, values: &[u64], scale: &dyn Fn(u64) -> String| {
        let greatest = values.iter().copied().max().unwrap_or(0);
        if greatest > 0 {
            let _ = writeln!(out, "{name:<12} {} {}", bars(values), scale(greatest));
        }
    };
    line("operations", &sum(&all), &rate);
    line("read", &sum(&over_time.read_bytes), &byte_rate);
    line("written", &sum(&over_time.written_bytes), &byte_rate);
    line("failed", &sum(&over_time.failed), &rate);
    line("no reply", &sum(&over_time.unanswered), &rate);
    // Quantiles cannot be added: a column shows the worst of its steps.
    let worst = over_time.server_time_p99_ns.chunks(group);
    let worst: Vec<u64> = worst
        .map(|values| values.iter().flatten().copied().max().unwrap_or(0))
        .collect();
    line("server p99", &worst, &|ns| format!("at most {}", time(ns)));
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

/// `nfs v3 READ`
pub(crate) fn operation_name(operation: &Operation) -> String {
    let name = match (operation.program.as_str(), operation.version) {
        ("", _) => "call not seen".to_owned(),
        (program, None) => format!("{program} {}", operation.operation),
        (program, Some(version)) => format!("{program} v{version} {}", operation.operation),
    };
    harmless(name.trim_end())
}

fn operations(operations: &[Operation], style: Style, out: &mut String) {
    if operations.is_empty() {
        return;
    }
    section(
        "Operations and server time (end of the call to begin of the reply)",
        style,
        out,
    );
    let _ = writeln!(
        out,
        "{:<20}{:>12}{:>9}{:>9}{:>10}{:>10}{:>10}",
        "", "operations", "share", "failed", "median", "99 %", "most"
    );
    for each in operations {
        let failed = if each.failed == 0 {
            "-".to_owned()
        } else {
            percent(share(each.failed, each.operations))
        };
        let times = &each.server_time;
        let _ = writeln!(
            out,
            "{:<20}{:>12}{:>9}{:>9}{:>10}{:>10}{:>10}",
            tail(&operation_name(each), 19),
            grouped(each.operations),
            percent(each.operations_share),
            failed,
            optional_time(times.p50_ns),
            optional_time(times.p99_ns),
            optional_time(times.max_ns),
        );
    }
}

fn transfers(operations: &[Operation], style: Style, out: &mut String) {
    let slow = |each: &&Operation| {
        [&each.call_transfer_time, &each.reply_transfer_time]
            .iter()
            .any(|times| times.p99_ns.unwrap_or(0) > 0)
    };
    let moving: Vec<_> = operations.iter().filter(slow).take(LIST).collect();
    if moving.is_empty() {
        return;
    }
    section(
        "Transfer time (first to last byte of a message)",
        style,
        out,
    );
    let _ = writeln!(
        out,
        "{:<20}{:>12}{:>12}{:>12}{:>12}{:>12}",
        "", "call, median", "99 %", "reply, med.", "99 %", "moved"
    );
    for each in moving {
        let _ = writeln!(
            out,
            "{:<20}{:>12}{:>12}{:>12}{:>12}{:>12}",
            tail(&operation_name(each), 19),
            optional_time(each.call_transfer_time.p50_ns),
            optional_time(each.call_transfer_time.p99_ns),
            optional_time(each.reply_transfer_time.p50_ns),
            optional_time(each.reply_transfer_time.p99_ns),
            if each.moved_bytes == 0 {
                "-".to_owned()
            } else {
                bytes(each.moved_bytes)
            },
        );
    }
}

pub(crate) fn optional_time(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), time)
}

fn directions(report: &Report, style: Style, out: &mut String) {
    for (name, direction) in [("READ", &report.reads), ("WRITE", &report.writes)] {
        if direction.operations > 0 {
            section(
                &format!(
                    "{name}: {}, {}",
                    grouped(direction.operations),
                    bytes(direction.moved_bytes)
                ),
                style,
                out,
            );
            direction_lines(direction, out);
        }
    }
}

fn direction_lines(direction: &Direction, out: &mut String) {
    let mut places = Vec::new();
    if let Some(sequential) = direction.sequential_share {
        places.push(format!(
            "{} sequential, {} random",
            percent(sequential),
            percent(1.0 - sequential)
        ));
    }
    if direction.placed > 0 {
        let aligned = |number| percent(share(number, direction.placed));
        places.push(format!(
            "aligned {} to 512 B, {} to 4 KiB",
            aligned(direction.aligned_512),
            aligned(direction.aligned_4096)
        ));
    }
    if !places.is_empty() {
        wrapped("place        ", &places.join("; "), out);
    }
    let most = direction
        .sizes
        .iter()
        .map(|class| class.operations)
        .max()
        .unwrap_or(0);
    for class in &direction.sizes {
        let length = (class.operations as f64 / most.max(1) as f64 * 28.0).ceil() as usize;
        let _ = writeln!(
            out,
            "to {:>8} {:>12} {:>8} {:>11} {}",
            bytes(class.size_max_bytes),
            grouped(class.operations),
            percent(share(class.operations, direction.operations)),
            bytes(class.moved_bytes),
            "▪".repeat(length),
        );
    }
}

fn ranking(what: &str, ranking: &Ranking, style: Style, out: &mut String) {
    if ranking.by_operations.is_empty() {
        return;
    }
    section(
        &format!("Busiest {what} of {}", grouped(ranking.count)),
        style,
        out,
    );
    let curve = ranking
        .concentration
        .iter()
        .filter(|point| matches!(point.first, 1 | 5 | 25 | 100 | 1_000));
    let curve: Vec<_> = curve
        .map(|point| {
            let [operations, bytes] = [point.operations_share, point.bytes_share].map(percent);
            format!("first {}: {operations} / {bytes}", grouped(point.first))
        })
        .collect();
    if !curve.is_empty() {
        wrapped("operations/bytes  ", &curve.join("; "), out);
    }
    let _ = writeln!(
        out,
        "{:>12}{:>9}{:>12}{:>12}  by operations",
        "operations", "failed", "read", "written"
    );
    for busy in ranking.by_operations.iter().take(LIST) {
        busy_line(busy, out);
    }
    let listed = |busy: &&Busy| {
        !ranking
            .by_operations
            .iter()
            .take(LIST)
            .any(|other| other == *busy)
    };
    let further: Vec<_> = ranking.by_bytes.iter().take(LIST).filter(listed).collect();
    if !further.is_empty() {
        let _ = writeln!(
            out,
            "{:>12}{:>9}{:>12}{:>12}  further ones by bytes",
            "", "", "", ""
        );
        for busy in further {
            busy_line(busy, out);
        }
    }
    if ranking.not_tracked_operations > 0 {
        wrapped(
            "             ",
            &format!(
                "there was no room for all {what}: those not told apart have {} operations together, so one that is \
                 missing here has at most as many",
                grouped(ranking.not_tracked_operations)
            ),
            out,
        );
    }
}

fn busy_line(busy: &Busy, out: &mut String) {
    let or_dash = |number: u64, text: String| if number == 0 { "-".to_owned() } else { text };
    let _ = writeln!(
        out,
        "{:>12}{:>9}{:>12}{:>12}  {}",
        grouped(busy.operations),
        or_dash(busy.failed, grouped(busy.failed)),
        or_dash(busy.read_bytes, bytes(busy.read_bytes)),
        or_dash(busy.written_bytes, bytes(busy.written_bytes)),
        tail(&file_name(&busy.name, busy.file_id), WIDTH - 47),
    );
}

/// A path or, where it is not known, the file's id as the tables have it.
pub(crate) fn file_name(name: &str, file_id: Option<i64>) -> String {
    match (name, file_id) {
        ("", Some(id)) => format!("file {id}"),
        ("", None) => "-".to_owned(),
        (name, _) => harmless(name),
    }
}

fn errors(report: &Report, style: Style, out: &mut String) {
    if report.errors.is_empty() {
        return;
    }
    section(
        &format!("Errors: {}", grouped(report.totals.failed)),
        style,
        out,
    );
    for error in report.errors.iter().take(LIST) {
        let name = format!("{} {}", error.program, error.operation);
        let group = error.over_time.len().div_ceil(20).max(1);
        let sums: Vec<u64> = error
            .over_time
            .chunks(group)
            .map(|counts| counts.iter().sum())
            .collect();
        let _ = writeln!(
            out,
            "{:>11}  {:<18} {:<25} {}",
            grouped(error.failed),
            tail(&harmless(name.trim()), 18),
            tail(&harmless(&error.status), 25),
            bars(&sums).trim_end(),
        );
    }
    let further: u64 = report
        .errors
        .iter()
        .skip(LIST)
        .map(|error| error.failed)
        .sum();
    if further + report.errors_not_listed > 0 {
        let _ = writeln!(
            out,
            "{:>11}  of other kinds",
            grouped(further + report.errors_not_listed)
        );
    }
}

fn section(heading: &str, style: Style, out: &mut String) {
    let _ = writeln!(out, "\n{}", style.heading(heading));
}

/// Writes a text behind `lead`, its further lines below its first, none longer than [`WIDTH`].
fn wrapped(lead: &str, text: &str, out: &mut String) {
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
