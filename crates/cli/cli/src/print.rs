//! Standard output, and the lines that several verbs print.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::path::Path;

use anyhow::bail;
use lineside_account::{Counter, Counters};
use lineside_analyze::Zone;
use lineside_capture::Tally;
use lineside_render::{Style, WIDTH, terminal};
use lineside_run::{counted, named, unread};
use lineside_trace::{InputFacts, Manifest, SCHEMA_VERSION, TableSummary};
use lineside_wire::link_type;
use lineside_words::{bytes, escape, escape_json, grouped, signed_time};
use serde::Serialize;

use crate::charset;
use crate::exit::Exit;

/// Prints to standard output; a reader that closes it early, such as `head`, is no error. What
/// could steer a terminal is written out, wherever it came from.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    print_styled(&escaped_lines(text))
}

/// The same, at once; whether anybody reads it.
pub(crate) fn print_if_read(text: &str) -> anyhow::Result<bool> {
    let mut stdout = io::stdout().lock();
    let written = io::Write::write_all(&mut stdout, escaped_lines(text).as_bytes());
    is_read(written.and_then(|()| io::Write::flush(&mut stdout)))
}

/// Prints a text that has styles of our own in it, and whose other parts are harmless.
pub(crate) fn print_styled(text: &str) -> anyhow::Result<()> {
    print_data(&charset::shown(text))
}

/// Prints data, such as JSON, as they are.
pub(crate) fn print_data(text: &str) -> anyhow::Result<()> {
    is_read(io::Write::write_all(
        &mut io::stdout().lock(),
        text.as_bytes(),
    ))
    .map(drop)
}

/// Whether anybody reads standard output; it may fail for other reasons.
fn is_read(written: io::Result<()>) -> anyhow::Result<bool> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => bail!("standard output: cannot write: {error}"),
        Ok(()) => Ok(true),
    }
}

/// Prints JSON as [`print()`] does.
pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print_data(&json_text(value)?)
}

/// Prints rows as CSV.
pub(crate) fn print_csv(rows: &[impl Serialize]) -> anyhow::Result<()> {
    print_data(&lineside_render::csv(rows)?)
}

/// A value as JSON that steers no terminal either.
pub(crate) fn json_text(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(escape_json(&serde_json::to_string_pretty(value)?) + "\n")
}

/// Prints a text to standard error, as [`print()`] does. A terminal that was closed takes none, and
/// that ends nothing.
pub(crate) fn talk(text: &str) {
    let text = escaped_lines(text);
    let _ = io::Write::write_all(&mut io::stderr().lock(), charset::shown(&text).as_bytes());
}

/// Prints a line to standard error. Further lines of the text are indented: none of them looks like
/// one of ours.
pub(crate) fn say(text: &str) {
    let is_indented = text.lines().skip(1).all(|line| line.starts_with("  "));
    let indent = if is_indented { "\n" } else { "\n  " };
    talk(&format!("lineside: {}\n", text.replace('\n', indent)));
}

/// Prints a warning, in one line.
pub(crate) fn warn(text: &str) {
    talk(&format!("lineside: warning: {}\n", escape(text)));
}

/// Each line of a text escaped; tabs, which tables of numbers have, stay.
fn escaped_lines(text: &str) -> String {
    let line = |line: &str| line.split('\t').map(escape).collect::<Vec<_>>().join("\t");
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Lists the fields of a newer minor version that were passed over.
pub(crate) fn passed_over(trace: &Path, version: &str, fields: &[String]) {
    if !fields.is_empty() {
        say(&format!(
            "{}: schema {version} is newer than {SCHEMA_VERSION}: passed over {}",
            trace.display(),
            fields.join(", ")
        ));
    }
}

/// Warns of parts that could not be read. The rest has been reported, but the run has failed.
pub(crate) fn exit(unreadable: &[String]) -> Exit {
    unreadable.iter().for_each(|warning| warn(warning));
    if unreadable.is_empty() {
        Exit::Done
    } else {
        Exit::Failure
    }
}

/// How reports are written: as wide as `COLUMNS` says or the terminal is, from 60 to 200 columns.
pub(crate) fn style(zone: Zone) -> Style {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let asked = std::env::var("COLUMNS").ok();
    let asked = asked.and_then(|columns| columns.parse().ok());
    let width = asked.or_else(lineside_host::terminal_columns);
    let width = width.map_or(WIDTH, |width: usize| width.clamp(60, 200));
    Style {
        colour: !plain && io::stdout().is_terminal(),
        width: width - charset::spare_columns(),
        zone,
    }
}

/// The first screen of a run that ends.
pub(crate) fn closing(folder: Option<&Path>, manifest: &Manifest) -> String {
    let name = folder.map_or_else(String::new, |folder| folder.display().to_string());
    let report = lineside_analyze::closing(&name, manifest);
    terminal::closing(&report, &style(Zone::local()))
}

pub(crate) fn input_lines(inputs: &[InputFacts], out: &mut String) {
    for input in inputs {
        // Nearly all are Ethernet.
        let others = input.link_types.iter().filter(|&&number| number != 1);
        let others: Vec<String> = others.map(|&number| link_type::with_name(number)).collect();
        let others = match others.as_slice() {
            [] => String::new(),
            others => format!(", link type {}", others.join(", ")),
        };
        let _ = writeln!(
            out,
            "input        {} ({}): {} frames, {}{others}",
            escape(&input.name),
            escape(&input.format),
            grouped(input.frames),
            bytes(input.bytes)
        );
    }
}

/// The number of frames that a run's filter rejected, if it had a filter.
pub(crate) fn filter_line(manifest: &Manifest, out: &mut String) {
    let Some(filter) = manifest.configuration["capture"]["filter"].as_str() else {
        return;
    };
    let ours = manifest.counters.get(Counter::FramesFiltered.name());
    let live = manifest
        .inputs
        .iter()
        .filter_map(|input| input.live.as_ref());
    let kernels: Option<u64> = live.map(|live| live.filtered).sum();
    let filtered = ours.map_or(0, |counter| counter.value) + kernels.unwrap_or(0);
    let uncounted = match kernels {
        Some(_) => "",
        None => "; frames that the kernel rejected are not counted: that needs cap_bpf",
    };
    let _ = writeln!(
        out,
        "filter       {filter:?}: {} frames did not match{uncounted}",
        grouped(filtered)
    );
}

pub(crate) fn traffic_lines(counters: &Counters, inputs: &[InputFacts], out: &mut String) {
    let value = |counter| counters.value(counter);
    let _ = writeln!(
        out,
        "connections  {}, {} of them with RPC",
        grouped(value(Counter::Connections)),
        grouped(value(Counter::ConnectionsRpc))
    );
    let disorder = [
        (Counter::SegmentsOutOfOrder, "segments out of order"),
        (Counter::SegmentsRetransmitted, "retransmitted"),
        (Counter::HolesNotSeen, "holes"),
        (Counter::FramesCut, "frames cut by the snap length"),
        (Counter::Resynchronised, "times resynchronised"),
    ];
    let link_types = inputs.iter().flat_map(|input| input.link_types.clone());
    let lines = [
        ("disorder", counted(&disorder, counters)),
        ("not RPC", named(counters)),
        ("not read", unread(counters, link_types)),
    ];
    for (lead, found) in lines {
        if let Some(found) = found {
            let _ = writeln!(out, "{lead:<13}{found}");
        }
    }
}

pub(crate) fn table_lines(tables: &BTreeMap<String, TableSummary>, out: &mut String) {
    let mut lead = "tables";
    for (name, summary) in tables {
        let _ = writeln!(
            out,
            "{lead:<13}{:<14}{:>11} rows{:>12}",
            escape(name),
            grouped(summary.rows),
            bytes(summary.bytes)
        );
        lead = "";
    }
}

/// `12.3 s`
pub(crate) fn seconds(ns: i64) -> String {
    signed_time(ns as f64)
}

pub(crate) fn counter_lines(counters: &Counters) -> String {
    let shown = counters.iter().filter(|&(_, value)| value > 0);
    shown
        .map(|(counter, value)| {
            format!(
                "{:<40}{:>16}  {}\n",
                counter.name(),
                grouped(value),
                counter.meaning()
            )
        })
        .collect()
}

/// The operations, by program and name.
pub(crate) fn tally_lines(tally: &Tally, out: &mut String) {
    if tally.total == 0 {
        out.push_str("operations   none\n");
        return;
    }
    let _ = write!(out, "operations   {}", grouped(tally.total));
    if let (Some(first), Some(last)) = (tally.first_ns, tally.last_ns) {
        let _ = write!(out, " in {}", seconds(last.saturating_sub(first)));
    }
    for (what, number) in [
        ("without reply", tally.unanswered),
        ("without call", tally.replies_without_call),
        ("incomplete", tally.incomplete),
    ] {
        if number > 0 {
            let _ = write!(out, ", {} {what}", grouped(number));
        }
    }
    out.push('\n');
    for (program, operations) in &tally.operations {
        let mut by_calls: Vec<_> = operations.iter().collect();
        by_calls.sort_by_key(|(_, count)| std::cmp::Reverse(count.calls));
        let program = escape(program);
        let mut lead = program.as_str();
        for (operation, count) in by_calls {
            let operation = escape(operation);
            // NFSv4 has names of up to 20 letters, most with few calls.
            let width = 24_usize.saturating_sub(operation.len().max(14));
            let _ = write!(
                out,
                "  {lead:<11}{operation:<14} {:>width$}",
                grouped(count.calls)
            );
            if count.errors > 0 {
                let _ = write!(out, "{:>11} failed", grouped(count.errors));
            }
            if count.bytes_moved > 0 {
                let _ = write!(out, "{:>12} moved", bytes(count.bytes_moved));
            }
            out.push('\n');
            lead = "";
        }
    }
}
