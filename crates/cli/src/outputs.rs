//! Outputs that verbs share: parts of tables, the beginning and the counts of `trace.json`, capture files.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use lineside_account::{Counter, Counters, Lease};
use lineside_capture::Span;
use lineside_host::{FolderError, MachineFacts, PartWriter};
use lineside_trace::{
    CounterValue, Machine, Manifest, Part, PartSink, Summaries, Tool, TraceEncoder,
};
use twox_hash::XxHash3_64;

use crate::config::ConfigError;

/// Refuses a capture file `out`, or a series of them, that is read itself, is there already, or shares standard output with
/// `--json`.
pub(crate) fn check_out(
    out: Option<&Path>,
    is_series: bool,
    inputs: &[PathBuf],
    force: bool,
    json: bool,
) -> anyhow::Result<()> {
    let Some(out) = out else { return Ok(()) };
    if out.as_os_str() == "-" {
        if json {
            let problem = "--json and --write-pcap - both want standard output";
            return Err(ConfigError::usage(problem).into());
        }
        return Ok(());
    }
    let there = std::fs::metadata(out).ok();
    let folder = match out.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let is_read = |input: &PathBuf| {
        let Ok(facts) = std::fs::metadata(input) else {
            return false;
        };
        let id = |facts: &std::fs::Metadata| (facts.dev(), facts.ino());
        // Files of a folder are read whatever their names, by `--follow` those that appear, too.
        match facts.is_dir() {
            true => folder.canonicalize().ok() == input.canonicalize().ok(),
            false => {
                there.as_ref().map(id) == Some(id(&facts)) || is_series && is_of_series(input, out)
            }
        }
    };
    if let Some(input) = inputs.iter().find(|input| is_read(input)) {
        let problem = match input == out {
            true => format!("{} is read: write another file", out.display()),
            false => format!(
                "{} would be written where {} is read: write it elsewhere",
                out.display(),
                input.display()
            ),
        };
        return Err(ConfigError::usage(&problem).into());
    }
    let out = out.display();
    if there.is_some_and(|there| there.is_file()) && !force {
        anyhow::bail!(
            "{out} exists already: name another file with --write-pcap, or replace it with --force"
        );
    }
    Ok(())
}

/// Whether `-b` may give a file that it writes the name of `input`: `OUT_00001_20261122093000.pcapng` for `OUT.pcapng`.
fn is_of_series(input: &Path, out: &Path) -> bool {
    let name = |path: &Path| {
        let name = path.file_stem().unwrap_or_default();
        name.to_string_lossy().into_owned()
    };
    let folder = |path: &Path| path.parent().map(Path::to_owned);
    let number = name(input)
        .strip_prefix(&(name(out) + "_"))
        .map(str::to_owned);
    folder(input) == folder(out)
        && input.extension() == out.extension()
        && number.is_some_and(|number| number.starts_with(|first: char| first.is_ascii_digit()))
}

/// The beginning of `trace.json`, of any verb.
pub(crate) fn begin_manifest(
    inputs: &impl std::fmt::Debug,
    configuration: serde_json::Value,
    started_ns: i64,
) -> Manifest {
    let machine = MachineFacts::read();
    // Two runs of one machine differ in when they began and in their process.
    let seed = format!("{started_ns} {} {inputs:?}", std::process::id());
    Manifest {
        schema_version: lineside_trace::SCHEMA_VERSION.to_owned(),
        tool: Tool {
            name: "lineside".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        trace_id: format!("{:016x}", XxHash3_64::oneshot(seed.as_bytes())),
        started_ns: Some(started_ns),
        configuration,
        machine: Machine {
            cores: machine.cores,
            memory_bytes: machine.memory_bytes,
            kernel: machine.kernel,
            cpu_model: machine.cpu_model,
        },
        ..Manifest::default()
    }
}

/// What `trace.json` says of a run, also while it goes on.
pub(crate) struct Seen {
    pub(crate) counters: Counters,
    pub(crate) spans: Vec<Span>,
    pub(crate) summaries: Summaries,
}

/// What was counted, and what the tables hold.
pub(crate) fn note_rows(manifest: &mut Manifest, seen: &Seen) {
    note_counters(manifest, &seen.counters);
    let tables = seen.summaries.iter();
    manifest.tables = tables
        .map(|(table, summary)| (table.name().to_owned(), *summary))
        .collect();
}

pub(crate) fn note_counters(manifest: &mut Manifest, counters: &Counters) {
    let value = |(counter, value): (Counter, u64)| {
        (
            counter.name().to_owned(),
            CounterValue {
                value,
                meaning: counter.meaning().to_owned(),
            },
        )
    };
    manifest.counters = counters.iter().map(value).collect();
}

/// Parts go to the thread that writes them.
pub(crate) struct Output(pub(crate) PartWriter);

impl PartSink for Output {
    type Error = FolderError;

    fn part(&mut self, part: Part) -> Result<(), FolderError> {
        let file = part.file_name();
        self.0.submit(part.table.name(), &file, part.bytes)
    }
}

/// Draws what the encoder holds on the budget; parts end early when it does not fit.
pub(crate) fn bound_encoder<P: PartSink>(encoder: &mut TraceEncoder<P>, lease: &mut Option<Lease>) {
    let held = encoder.held_bytes();
    if !lease.as_mut().is_some_and(|lease| lease.resize(held)) {
        encoder.end_parts();
        let held = encoder.held_bytes();
        if let Some(lease) = lease {
            lease.resize(held);
        }
    }
}
