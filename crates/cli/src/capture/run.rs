//! `lineside capture`: from capture files or interfaces to a trace.

use std::path::PathBuf;

use anyhow::Context;
use lineside_account::{Budget, Counters};
use lineside_capture::{Filtered, Pipeline, Recorded};
use lineside_host::{PartWriter, RunFolder, Signals, Stopwatch, SystemClock};
use lineside_port::{CaptureWriter, Live as _, Merge, Port, Rotation, WriterConfig};
use lineside_time::Clock;
use lineside_trace::{EncoderConfig, RecordSink, RowRef, State, Summaries, TraceEncoder};

use super::flags::Arguments;
use super::live::{self, Account, Relief};
use super::print::{actor_lines, list_interfaces, print_summary, progress_bar};
use super::settings::{Section, Settings, tables};
use super::verdict::verdict;
use super::watch::{Input, Live, Ran, Stop, Watch, note, with_filtered};
use super::{cores, decode_as};
use crate::Exit;
use crate::config::ConfigError;
use crate::inputs::{listening_lines, open_as};
use crate::outputs::{Output, Seen, begin_manifest, bound_encoder, check_out};
use crate::tally::{RowTally, Tallying};

/// Errors of inputs that are told: of many files that fail, most do for one reason.
const ERRORS_TOLD: usize = 3;

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    if arguments.list_interfaces {
        return list_interfaces(arguments.json).map(|()| Exit::Done);
    }
    let mut section = arguments.section()?;
    if let Some(path) = &arguments.config {
        section = section.over(Section::from_file(path)?);
    }
    let (section, settings) = section.resolved()?;
    if section.interfaces.is_none() {
        // An interface does not wait while the kernel makes room for a huge page, which may take tens of milliseconds.
        lineside_host::prefer_huge_pages();
    }
    if section.output.is_none() && settings.record.is_none() {
        return Err(ConfigError::usage(
            "nowhere to write: name a folder for the trace with -o TRACE, or a file with --write-pcap",
        )
        .into());
    }
    let budget = Budget::new(settings.memory_bytes);
    let inputs = match &settings.live {
        Some(live) => live::open(live, settings.filter.as_ref(), &budget)?,
        None => {
            let inputs = section.inputs.as_deref().unwrap_or_default();
            open_as(inputs, settings.follow.is_some(), &budget)?
        }
    };
    // Until here there is nothing to finish, and a signal may just end the process.
    let signals = Signals::register().context("cannot handle signals")?;
    let clock = SystemClock::default();
    let started_ns = clock.now();
    let stopwatch = Stopwatch::start();

    let force = section.force == Some(true);
    let read = section.inputs.as_deref().unwrap_or_default();
    let is_series = section.pcap_rotation.is_some();
    check_out(
        section.write_pcap.as_deref(),
        is_series,
        read,
        force,
        arguments.json,
    )?;
    let folder = section.output.as_ref();
    let folder = folder
        .map(|output| RunFolder::create(output, force))
        .transpose()?;
    let writer = settings
        .record
        .as_ref()
        .map(|record| open_writer(record, &section, &inputs, &budget, started_ns))
        .transpose()?;
    if settings.live.is_some() {
        let file = writer.as_ref().and_then(CaptureWriter::file);
        let dropped = lineside_host::drop_privileges(folder.as_ref(), file.as_slice())?;
        if dropped.is_namespace_root && !arguments.quiet {
            eprintln!(
                "lineside: no other user exists in this user namespace: it stays root, without capabilities"
            );
        }
        if let Some(writer) = &writer {
            writer.check_access()?;
        }
    }
    let mut port = Recorded::new(Filtered::new(inputs, settings.filter.clone()), writer);
    if !arguments.quiet {
        eprint!("{}", listening_lines(&port.facts()));
    }
    let mut manifest = begin_manifest(&section.inputs, section.to_json(), started_ns);
    if let Some(folder) = &folder {
        folder.replace("trace.json", manifest.to_json().as_bytes())?;
    }
    let encoder = EncoderConfig {
        part_bytes_max: settings.rotation.bytes_max,
        part_time_ns: settings.rotation.time_ns,
        ..EncoderConfig::new(&tables(&section), &manifest.trace_id)
    };
    let mut watch = Watch {
        progress: progress_bar(&port, arguments.quiet),
        written: stopwatch.elapsed(),
        bursts: 0,
        losses: Vec::new(),
        is_relieved: false,
        stop: Stop::End,
        live: settings.live.as_ref().map(|live| Live {
            account: Account::default(),
            relief: live.gives_up_checksums.then(Relief::default),
            duration: live.duration,
            shut: None,
        }),
        follow: settings.follow,
        asked: None,
        reads_pipe: { read.iter() }.any(|path| !path.is_file() && !path.is_dir()),
        clock: &clock,
        budget: &budget,
        manifest: &mut manifest,
        folder: folder.as_ref(),
        signals: &signals,
        stopwatch: &stopwatch,
    };
    let mut run = match (&folder, &settings.cores) {
        (None, _) => record(&mut port, settings.frames_max, &mut watch),
        (Some(folder), None) => {
            run_alone(&settings, folder, &encoder, &budget, &mut port, &mut watch)?
        }
        (Some(folder), Some(on)) => cores::run(
            &settings, on, folder, &encoder, &budget, &mut port, &mut watch,
        )?,
    };
    if matches!(watch.stop, Stop::Output(_)) {
        // What fails in the middle has had no last look.
        port.account();
    }
    run.errors.extend(port.finish().err());
    watch.progress.finish_and_clear();
    let (mut stop, tally) = (watch.stop, run.tally.finish());
    // A pipe came to its end, after its writer was asked to.
    let has_ended = matches!(stop, Stop::End) && watch.asked.is_some();
    if let (true, Some(signal)) = (has_ended, signals.stop()) {
        stop = Stop::Signal(signal);
    }
    // Such a run ends when its user says so.
    let is_endless = watch.live.is_some() || settings.follow.is_some() || has_ended;
    if let Some(live) = &watch.live {
        live.note(watch.manifest);
    }
    let seen = with_filtered(run.seen, &port);
    note(&mut manifest, &port, &seen);
    manifest.runtime = run.runtime;
    let (counters, errors) = (seen.counters, run.errors);
    manifest.verdict = verdict(&port.facts(), &counters, &errors, &stop, is_endless);
    manifest.ended_ns = Some(clock.now());
    let complete = match &folder {
        Some(folder) => format!(
            "; everything before is in the complete parts of {}",
            folder.path().display()
        ),
        None => String::new(),
    };
    let written = match &folder {
        Some(folder) => folder.replace("trace.json", manifest.to_json().as_bytes()),
        None => Ok(()),
    };
    if let Stop::Output(error) = &stop {
        // The disk that failed may have had room for that much.
        let account = match written {
            Ok(()) => "",
            Err(_) => {
                ", but trace.json had no room for what became of the run, and says that it is unfinished"
            }
        };
        anyhow::bail!("{error}{complete}{account}");
    }
    written?;

    let warnings = port
        .facts()
        .iter()
        .flat_map(|facts| &facts.warnings)
        .cloned()
        .collect::<Vec<_>>();
    let misfits = decode_as::warnings(&settings.config.decode_as, &counters);
    for warning in warnings.iter().chain(&misfits) {
        eprintln!("lineside: warning: {warning}");
    }
    if !arguments.quiet {
        let elapsed = stopwatch.elapsed().as_nanos() as i64;
        print_summary(arguments, &section, &manifest, &tally, &counters, elapsed)?;
    }
    if let Some(runtime) = manifest.runtime.as_ref().filter(|_| arguments.stats) {
        eprint!("{}", actor_lines(runtime));
    }
    if !errors.is_empty() {
        let told: Vec<_> = { errors.iter().take(ERRORS_TOLD) }
            .map(ToString::to_string)
            .collect();
        let more = match errors.len() - told.len() {
            0 => String::new(),
            more => format!("; and {more} errors more"),
        };
        anyhow::bail!("{}{more}{complete}", told.join("; "));
    }
    Ok(match stop {
        Stop::Signal(signal) => Exit::Signal(signal),
        _ if section.strict == Some(true) && manifest.verdict.state != State::Complete => {
            Exit::Disturbed
        }
        _ => Exit::Done,
    })
}

/// Everything on the calling thread: the fastest on one core.
fn run_alone(
    settings: &Settings,
    folder: &RunFolder,
    encoder: &EncoderConfig,
    budget: &Budget,
    port: &mut Input,
    watch: &mut Watch<'_>,
) -> anyhow::Result<Ran> {
    let output = Output(PartWriter::start(folder)?);
    let sink = Tallying {
        tally: RowTally::default(),
        next: TraceEncoder::new(encoder, output),
    };
    let mut memory = budget.lease(0);
    let mut pipeline = Pipeline::new(settings.config.clone(), budget, sink);
    let errors = lineside_capture::run(
        port,
        &mut pipeline,
        settings.frames_max,
        |port, pipeline, is_last| {
            let encoder = &mut pipeline.sink_mut().next;
            bound_encoder(encoder, &mut memory);
            if watch.signals.take_rotation_wanted() {
                encoder.end_parts();
            }
            if let Some(error) = encoder.error() {
                return watch.stop(Stop::Output(error.to_string()));
            }
            let step = watch.look(port, is_last, || Seen {
                counters: pipeline.counters().clone(),
                spans: pipeline.spans().to_vec(),
                summaries: pipeline.sink_mut().next.summaries(),
            });
            for row in watch.losses.drain(..) {
                pipeline.sink_mut().row(RowRef::Losses(&row));
            }
            pipeline.set_relieved(watch.is_relieved);
            step
        },
    );
    let spans = pipeline.spans().to_vec();
    let (Tallying { tally, next }, counters) = pipeline.finish();
    let summaries = next.summaries();
    let finished = next.finish().map_err(|error| error.to_string());
    let finished = finished.and_then(|(output, summaries)| {
        output.0.finish().map_err(|error| error.to_string())?;
        Ok(summaries)
    });
    let summaries = finished.unwrap_or_else(|error| {
        watch.stop(Stop::Output(error));
        summaries
    });
    Ok(Ran {
        tally,
        seen: Seen {
            counters,
            spans,
            summaries,
        },
        errors,
        runtime: None,
    })
}

/// Makes the capture file that frames are written into.
fn open_writer(
    (path, rotation): &(PathBuf, Rotation),
    section: &Section,
    inputs: &Merge,
    budget: &Budget,
    now_ns: i64,
) -> anyhow::Result<CaptureWriter> {
    // A pcapng file describes its interfaces as it goes: then each is described when its first frame comes.
    let facts = inputs.facts();
    let are_known = facts.iter().all(|facts| !facts.link_types.is_empty());
    let announced = facts.into_iter().filter(|_| are_known);
    let config = WriterConfig {
        budget: budget.clone(),
        interfaces: announced.map(lineside_capture::interface).collect(),
        application: concat!("lineside ", env!("CARGO_PKG_VERSION")).to_owned(),
        comment: section
            .filter
            .as_ref()
            .map(|filter| format!("filter: {filter}")),
        rotation: rotation.clone(),
        replaces: section.force == Some(true),
    };
    // A file's frames may be of any time: what is written begins with the first of them.
    let begin_ns = section.interfaces.is_some().then_some(now_ns);
    Ok(CaptureWriter::create(path, config, begin_ns)?)
}

/// Without a trace: frames only go into the capture file.
fn record(port: &mut Input, frames_max: u64, watch: &mut Watch<'_>) -> Ran {
    let seen = |counters: &Counters| Seen {
        counters: counters.clone(),
        spans: Vec::new(),
        summaries: Summaries::default(),
    };
    let look = |port: &mut Input, counters: &Counters, is_last| {
        watch.look(port, is_last, || seen(counters))
    };
    let (counters, errors) = lineside_capture::pass(port, frames_max, look);
    Ran {
        tally: RowTally::default(),
        seen: seen(&counters),
        errors,
        runtime: None,
    }
}
