//! `lineside packets`: the frames of operations and connections, cut out of the captures that a
//! trace was made of.
//!
//! ```text
//!  trace ─► spans: two ends, a time, frames that must be there
//!  captures, once ─► every such frame is there?  ─► captures, again ─► OUT
//! ```
//!
//! The captures are read twice, so that nothing is written of a capture that the trace was not made
//! of.

mod search;

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use lineside_account::Budget;
use lineside_analyze::{Span, Trace, input_file, spans};
use lineside_port::{CaptureWriter, Port, Rotation, WriterConfig};
use lineside_run::{check_capture_file, check_new_file, receive_all};
use lineside_trace::{Manifest, manifest_text};
use lineside_words::{grouped, parse_duration};

use crate::config::ConfigError;
use crate::confine::{self, Confining};
use crate::exit::Exit;
use crate::inputs::open;
use crate::print::{say, warn};
use search::Search;

/// Memory for frames in flight.
const MEMORY_BYTES: usize = 256 << 20;

/// Names of captures: as many as a `trace.json` of the greatest length has.
const NAMES_BYTES_MAX: u64 = 64 << 20;

/// Flags of `packets`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The folder of a trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Cut out these operations, by operation_id ('slow' prints it): all frames of their connection
    /// from the start of the call to the end of the reply
    #[arg(
        long,
        value_name = "ID",
        value_delimiter = ',',
        required_unless_present = "connection"
    )]
    operation: Vec<i64>,
    /// Cut out all frames of these connections, by connection_id
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    connection: Vec<i64>,
    /// Add all frames between the same ends TIME before and after, e.g. 10s
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = seconds_ns)]
    around: i64,
    /// Read these capture files, or a folder of them [default: those that trace.json names]
    #[arg(short, long = "read", value_name = "FILE")]
    read: Vec<PathBuf>,
    /// Write the frames to this file: pcapng, or pcap if its name ends in .pcap; - is standard
    /// output
    #[arg(short, long = "write-pcap", alias = "write", value_name = "FILE")]
    write: PathBuf,
    /// Replace FILE if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    confining: Confining,
}

fn seconds_ns(text: &str) -> Result<i64, String> {
    let with_unit = match text.parse::<f64>() {
        Ok(_) => format!("{text}s"),
        Err(_) => text.to_owned(),
    };
    let ns = parse_duration(&with_unit).map_err(|error| error.to_string())?;
    i64::try_from(ns).map_err(|_| format!("'{text}' is too long"))
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let captures = match arguments.read.is_empty() {
        true => named_by(&arguments.trace, arguments.confining),
        false => arguments.read.clone(),
    };
    check_new_file(&arguments.write, "-w", arguments.force)?;
    let named = confine::captures(&captures).may_read_below(&arguments.trace);
    arguments.confining.enter(named, Some(&arguments.write))?;
    let mut trace = Trace::open(&arguments.trace)?;
    let mut wanted = spans(&mut trace, &arguments.operation, &arguments.connection)?;
    for span in &mut wanted {
        span.from_ns = span.from_ns.saturating_sub(arguments.around);
        span.until_ns = span.until_ns.saturating_add(arguments.around);
    }
    let inputs = match arguments.read.is_empty() {
        true => files_of(&arguments.trace, trace.manifest.as_ref(), &wanted)?,
        false => arguments.read.clone(),
    };
    if inputs.iter().any(|input| input.as_os_str() == "-") {
        bail!(ConfigError::usage(
            "-r -: captures are read twice, so they must be files"
        ));
    }
    check_capture_file(&arguments.write, false, &inputs, true)?;
    let is_live = { trace.manifest.iter() }
        .flat_map(|manifest| &manifest.inputs)
        .any(|input| input.live.is_some());
    let mut search = Search::new(wanted, is_live);
    read(&inputs, &mut search, None)?;
    if let Some(why) = search.contradiction() {
        bail!(
            "{}: {why}; name with -r the capture that the trace was made of",
            names(&inputs)
        );
    }
    read(&inputs, &mut search, Some(&arguments.write))?;
    say(&format!(
        "wrote {} frames to {}",
        grouped(search.found),
        arguments.write.display()
    ));
    for warning in &trace.warnings {
        warn(warning);
    }
    Ok(Exit::Done)
}

/// The files that hold the frames of these times, as `trace.json` names them.
fn files_of(
    trace: &Path,
    manifest: Option<&Manifest>,
    wanted: &[Span],
) -> anyhow::Result<Vec<PathBuf>> {
    let Some(manifest) = manifest else {
        bail!("trace.json cannot be read: name the captures with -r");
    };
    let is_needed = |at: usize| {
        let clock = manifest.clocks.get(at);
        let Some((first, last)) = clock.and_then(|clock| clock.first_ns.zip(clock.last_ns)) else {
            return true;
        };
        { wanted.iter() }.any(|span| span.from_ns <= last && first <= span.until_ns)
    };
    let mut files = Vec::new();
    for (at, input) in manifest.inputs.iter().enumerate() {
        if !is_needed(at) {
            continue;
        }
        if input.live.is_some() {
            bail!(
                "the trace is of the interface {}: name with -r the file that was written beside \
                it (capture --write-pcap)",
                input.name
            );
        }
        match input_file(trace, &input.name) {
            Some(file) => files.push(file),
            None => bail!(
                "{} is not there any more, nor beside the trace: name with -r where it is now",
                input.name
            ),
        }
    }
    Ok(files)
}

/// The captures that a trace names, as far as they are there. Which they are has to be known before
/// the sandbox is entered: `trace.json`, which anybody may have made, is read in one of its own.
fn named_by(trace: &Path, confining: Confining) -> Vec<PathBuf> {
    let names = || {
        let text = manifest_text(&trace.join("trace.json")).ok();
        let manifest = text.and_then(|text| Manifest::from_json(&text).ok());
        let inputs = manifest.into_iter().flat_map(|manifest| manifest.inputs);
        inputs
            .map(|input| input.name)
            .collect::<Vec<_>>()
            .join("\0")
    };
    let names = match confining.applied(confine::trace(trace)) {
        None => names(),
        Some(sandbox) => {
            let read = || names().into_bytes();
            // What cannot be read here is not read below either, which says why.
            let read = lineside_host::read_sandboxed(sandbox, NAMES_BYTES_MAX, read);
            String::from_utf8(read.unwrap_or_default()).unwrap_or_default()
        }
    };
    let names = names.split('\0').filter(|name| !name.is_empty());
    names.filter_map(|name| input_file(trace, name)).collect()
}

/// Reads the captures, and writes what is found to `out`.
fn read(inputs: &[PathBuf], search: &mut Search, out: Option<&Path>) -> anyhow::Result<()> {
    let budget = Budget::new(MEMORY_BYTES);
    let mut port = open(inputs, &budget)?;
    search.begin(out.is_some());
    let mut writer = None;
    let mut written = Ok(());
    let errors = receive_all(&mut port, search, u64::MAX, |port, search, _| {
        search.note_names(port.facts().into_iter().map(|facts| facts.name.as_str()));
        if let Some(out) = out {
            written = write(search, &mut writer, out, port, &budget);
        }
        match written {
            Ok(()) => lineside_run::Step::Continue,
            Err(_) => lineside_run::Step::Stop,
        }
    });
    written?;
    if let Some(error) = errors.into_iter().next() {
        // What is damaged behind the frames does not matter, and the frames are checked.
        warn(&error.to_string());
    }
    match writer {
        Some(writer) => Ok(writer.finish()?),
        None => Ok(()),
    }
}

fn write(
    search: &mut Search,
    writer: &mut Option<CaptureWriter>,
    out: &Path,
    port: &impl Port,
    budget: &Budget,
) -> anyhow::Result<()> {
    if search.frames.is_empty() {
        return Ok(());
    }
    if writer.is_none() {
        let config = WriterConfig {
            budget: budget.clone(),
            interfaces: { port.facts().into_iter() }
                .map(lineside_port::Facts::interface)
                .collect(),
            application: concat!("lineside ", env!("CARGO_PKG_VERSION")).to_owned(),
            comment: Some(search.about()),
            rotation: Rotation::default(),
            replaces: false,
        };
        *writer = Some(CaptureWriter::create(out, config, None)?);
    }
    if let Some(writer) = writer {
        writer.write(&search.frames)?;
    }
    search.frames.clear();
    Ok(())
}

fn names(inputs: &[PathBuf]) -> String {
    let names: Vec<String> = inputs
        .iter()
        .map(|input| input.display().to_string())
        .collect();
    match names.as_slice() {
        [one] => one.clone(),
        [first, ..] => format!("{first} and {} more", names.len() - 1),
        [] => "no file".to_owned(),
    }
}
