//! `lineside info`: the content of capture files or a trace, in a few lines.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use lineside_account::Budget;
use lineside_analyze::{Trace, Unfinished, Zone, may_be_of_runs};
use lineside_capture::{At, OnePlace, Tally, is_failure};
use lineside_port::Port;
use lineside_render::verdict_lines;
use lineside_rows::Table;
use lineside_run::inputs_facts;
use lineside_trace::read::Value;
use lineside_words::escape;

use crate::confine::{self, Confining};
use crate::exit::Exit;
use crate::experiments;
use crate::inputs::open;
use crate::print::{
    exit, filter_line, input_lines, passed_over, print, print_json, table_lines, tally_lines,
    traffic_lines, warn,
};
use crate::runs;

/// Flags of `info`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A capture file (- is standard input), a folder of them, a trace, a lab, or a folder of runs
    #[arg(value_name = "FILE|FOLDER|TRACE")]
    path: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    confining: Confining,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    if lineside_lab::Results::is_there(&arguments.path) {
        { arguments.confining }.enter(confine::trace(&arguments.path), None)?;
        return experiments::info(&arguments.path, arguments.json);
    }
    // Without trace.json it may be a folder of captures, or an unfinished trace.
    let path = &arguments.path;
    let is_trace = path.join("trace.json").exists() || path.join("operations").is_dir();
    let is_capture = !is_trace && !may_be_of_runs(path);
    let named = match is_capture {
        true => confine::captures(std::slice::from_ref(path)),
        false => confine::trace(path),
    };
    arguments.confining.enter(named, None)?;
    if let Some(runs) = runs::of(path) {
        match arguments.json {
            true => print_json(&serde_json::json!({ "runs": runs }))?,
            false => print(&runs::text(&runs, &Zone::local()))?,
        }
        return Ok(Exit::Done);
    }
    if path.is_dir() && is_trace {
        of_trace(arguments)
    } else {
        of_capture(arguments)
    }
}

fn of_capture(arguments: &Arguments) -> anyhow::Result<Exit> {
    let budget = Budget::new(256 << 20);
    let port = open(std::slice::from_ref(&arguments.path), &budget)?;
    let mut port = OnePlace::new(port, Some(At::Server));
    let (tally, counters, errors) = lineside_capture::tally_of(&mut port, &budget);
    let inputs = inputs_facts(&port.facts());
    if arguments.json {
        let json = serde_json::json!({
            "inputs": inputs,
            "summary": tally,
            "counters": counters.iter().map(|(counter, value)| (counter.name(), value)).collect::<BTreeMap<_, _>>(),
        });
        print_json(&json)?;
    } else {
        let mut out = String::new();
        input_lines(&inputs, &mut out);
        traffic_lines(&counters, &inputs, &mut out);
        tally_lines(&tally, &mut out);
        print(&out)?;
    }
    for warning in inputs.iter().flat_map(|input| &input.warnings) {
        warn(warning);
    }
    match errors.into_iter().next() {
        Some(error) => Err(error.into()),
        None => Ok(Exit::Done),
    }
}

fn of_trace(arguments: &Arguments) -> anyhow::Result<Exit> {
    let mut trace = Trace::open(&arguments.path)?;
    let tally = tally_of(&mut trace);
    let mut unfinished = Unfinished::of(&mut trace);
    if let Some(unfinished) = &mut unfinished {
        unfinished.is_running = lineside_store::is_running(&arguments.path);
    }
    let manifest = &trace.manifest;
    if arguments.json {
        let json = serde_json::json!({
            "trace": manifest,
            "summary": tally,
            "unfinished": unfinished,
            "unreadable": trace.warnings,
        });
        print_json(&json)?;
        return Ok(exit(&trace.warnings));
    }
    let mut out = String::new();
    if let Some(manifest) = manifest {
        let trace = format!(
            "{} ({} {}, schema {})",
            manifest.trace_id, manifest.tool.name, manifest.tool.version, manifest.schema_version
        );
        let _ = writeln!(out, "trace        {}", escape(&trace));
        input_lines(&manifest.inputs, &mut out);
        filter_line(manifest, &mut out);
        if let Some(sandbox) = &manifest.sandbox {
            let _ = writeln!(out, "sandbox      {}", escape(&sandbox.text()));
        }
    }
    // A run of `emulate` has no tables.
    if !trace.is_of_link() {
        tally_lines(&tally, &mut out);
    }
    if let Some(manifest) = manifest {
        table_lines(&manifest.tables, &mut out);
        verdict_lines(&manifest.verdict, &mut out);
        if let Some(unfinished) = unfinished {
            let _ = writeln!(out, "             {}", unfinished.text(&Zone::local()));
        }
    }
    if let Some(manifest) = manifest {
        passed_over(
            &arguments.path,
            &manifest.schema_version,
            &manifest.passed_over,
        );
    }
    print(&out)?;
    Ok(exit(&trace.warnings))
}

/// The columns of `operations` that a tally looks at.
const COLUMNS: [&str; 13] = [
    "program",
    "version",
    "operation",
    "status",
    "rpc_status",
    "transferred",
    "call_time_ns",
    "reply_time_ns",
    "call_missing",
    "reply_missing",
    "call_incomplete",
    "reply_incomplete",
    "data_incomplete",
];

/// Tallies the complete parts of the table `operations`.
fn tally_of(trace: &mut Trace) -> Tally {
    let mut tally = Tally::default();
    trace.rows(Table::Operations, &COLUMNS, |row| {
        let text = |at: usize| row[at].text().unwrap_or_default();
        let flag = |at: usize| row[at] == Value::Boolean(true);
        tally.row(
            [row[6].integer(), row[7].integer()],
            flag(8),
            flag(9),
            (10..13).any(flag),
        );
        let failed = is_failure(text(3), text(4));
        tally
            .count(text(0), row[1].integer(), text(2))
            .add(failed, row[5].integer());
    });
    tally
}
