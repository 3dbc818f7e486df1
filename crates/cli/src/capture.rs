//! `lineside capture`: from capture files or interfaces to a trace.

use std::fs::File;
use std::io::IsTerminal;
use std::num::NonZeroU64;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use lineside_account::{Budget, Counter, Counters, Kind, Lease};
use lineside_analyze::{bytes, grouped};
use lineside_capture::{Filtered, Pipeline, Recorded, Span, Step};
use lineside_host::{
    FolderError, MachineFacts, MemoryUse, PartWriter, RunFolder, Signals, Stopwatch, SystemClock,
};
use lineside_port::{
    CaptureReader, CaptureWriter, Facts, FolderFile, Followed, Live as _, Merge, MergeInput,
    PoolConfig, Port, PortError, Rotation, WriterConfig,
};
use lineside_time::Clock;
use lineside_trace::{
    ClockFacts, CounterValue, EncoderConfig, InputFacts, LossRow, Machine, Manifest, Part,
    PartSink, RecordSink, RowRef, Runtime, State, Summaries, Table, Tool, TraceEncoder, Verdict,
};
use twox_hash::XxHash3_64;

use crate::Exit;
use crate::config::{ConfigError, Follow, Section, Settings, count, path_parser};
use crate::live::{self, Account, Relief};
use crate::summary::{RowTally, Tally, Tallying, seconds, unread, verdict_lines};
use crate::{cores, decode_as};

/// Flags of `capture`. Each is short for a key of `[capture]`; the keys without a flag are in `docs/guide/capture.md`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Capture files: pcap or pcapng, plain or compressed (gzip, zstd, xz, lz4); - is standard input. Several are merged by their stamps
    #[arg(value_name = "FILE", value_parser = path_parser())]
    files: Vec<PathBuf>,
    /// The same as FILE
    #[arg(short = 'r', long = "read", value_name = "FILE", value_parser = path_parser())]
    read: Vec<PathBuf>,
    /// Interfaces to listen at instead; several are merged by their stamps
    #[arg(short, long = "interface", value_name = "IF", value_delimiter = ',')]
    interfaces: Vec<String>,
    /// List the interfaces and how each would be captured
    #[arg(long)]
    list_interfaces: bool,
    /// How frames are taken from interfaces: auto, af_packet, af_xdp or af_xdp_generic
    #[arg(long, value_name = "WORD")]
    method: Option<String>,
    /// Packet sockets that share the frames of an interface
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = count::<usize>)]
    sockets: Option<usize>,
    /// What goes first when a live run falls behind: drop (frames, at the port) or no-checksums (keep every operation, leave checksums out)
    #[arg(long, value_name = "WORD")]
    overload: Option<String>,
    /// Take only frames that are for this host
    #[arg(short = 'p', long)]
    no_promiscuous: bool,
    /// End a live run: duration:SECONDS
    #[arg(short = 'a', long = "autostop", value_name = "COND")]
    autostop: Option<String>,
    /// The folder that the trace becomes
    #[arg(short, long, value_name = "TRACE", value_parser = path_parser())]
    output: Option<PathBuf>,
    /// Write the frames into a capture file too, or, without -o, instead: pcapng, or pcap if it ends in .pcap; - is standard output
    #[arg(long, value_name = "FILE", value_parser = path_parser())]
    write_pcap: Option<PathBuf>,
    /// When the next capture file begins, as dumpcap's: filesize:kB, duration:SECONDS, interval:SECONDS, packets:N; files:N keeps the last N
    #[arg(short = 'b', value_name = "COND")]
    pcap_rotation: Vec<String>,
    /// Replace a trace that is there
    #[arg(long)]
    force: bool,
    /// A TOML file, or the trace.json of an earlier run; flags go before it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Look only at frames that match, as tcpdump's filters do: 'tcp port 2049 and host 10.0.0.1'
    #[arg(short, long, value_name = "EXPR", allow_hyphen_values = true)]
    filter: Option<String>,
    /// What the frames do not say: tcp.port==20490,rpc (or none: leave it alone), rpc.program==0x20000003,nfs; can be repeated
    #[arg(short, long, value_name = "RULE")]
    decode_as: Vec<String>,
    /// Stop after N frames (of those that match)
    #[arg(short = 'c', value_name = "N", allow_hyphen_values = true, value_parser = count::<NonZeroU64>)]
    frames_max: Option<NonZeroU64>,
    /// Go on when a file grows, or a folder gets its next file, until a signal or -a duration:SECONDS ends the run
    #[arg(long)]
    follow: bool,
    /// The one memory budget, such as 256MiB
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    memory: Option<String>,
    /// A hole is given up when it was acknowledged and then this time and 32 segments passed, such as 2ms
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    late_window: Option<String>,
    /// A packet that comes again within this time was mirrored twice, such as 2ms; 0 looks for none
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    duplicate_window: Option<String>,
    /// Where a part of a table ends at the latest: a size from 1MiB to 64MiB, a time from 1s on, or one of each (16MiB,60s)
    #[arg(
        long,
        value_name = "SIZE|TIME",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    rotate: Vec<String>,
    /// Leave out the tables nfs, nfs4 and services
    #[arg(long)]
    no_details: bool,
    /// Leave out the table checksums
    #[arg(long)]
    no_checksums: bool,
    /// Write the table packets too: a row a frame
    #[arg(long)]
    packets: bool,
    /// Exit with 4 if anything is missing from the capture
    #[arg(long)]
    strict: bool,
    /// Cores that rebuild operations; of files, the thread that reads is one of them
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = count::<usize>)]
    cores: Option<usize>,
    /// Who runs what on several cores: stealing (balances load) or pinned (a core each, for machines of their own)
    #[arg(long, value_name = "WORD")]
    scheduler: Option<String>,
    /// Cores of actors under pinned, such as pipeline-0=1, or traffic:TRACE: who exchanged most in that run shares one; the others are spread
    #[arg(long, value_name = "ACTOR=CORE|traffic:TRACE", value_delimiter = ',')]
    placement: Vec<String>,
    /// Say at the end what the actors did on several cores
    #[arg(long)]
    stats: bool,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    quiet: bool,
    /// Say what is counted besides
    #[arg(short, long)]
    verbose: bool,
}

impl Arguments {
    fn section(&self) -> Result<Section, ConfigError> {
        let duration = self.autostop.as_deref().map(duration).transpose()?;
        let inputs: Vec<_> = self.files.iter().chain(&self.read).cloned().collect();
        Ok(Section {
            inputs: (!inputs.is_empty()).then_some(inputs),
            interfaces: (!self.interfaces.is_empty()).then(|| self.interfaces.clone()),
            method: self.method.clone(),
            sockets: self.sockets,
            promiscuous: self.no_promiscuous.then_some(false),
            overload: self.overload.clone(),
            duration,
            output: self.output.clone(),
            write_pcap: self.write_pcap.clone(),
            pcap_rotation: (!self.pcap_rotation.is_empty()).then(|| self.pcap_rotation.clone()),
            force: self.force.then_some(true),
            filter: self.filter.clone(),
            decode_as: (!self.decode_as.is_empty()).then(|| self.decode_as.clone()),
            frames_max: self.frames_max,
            follow: self.follow.then_some(true),
            memory: self.memory.clone(),
            rotate: (!self.rotate.is_empty()).then(|| self.rotate.clone()),
            late_window: self.late_window.clone(),
            duplicate_window: self.duplicate_window.clone(),
            details: self.no_details.then_some(false),
            checksums: self.no_checksums.then_some(false),
            packets: self.packets.then_some(true),
            strict: self.strict.then_some(true),
            cores: self.cores,
            scheduler: self.scheduler.clone(),
            placement: (!self.placement.is_empty()).then(|| self.placement.clone()),
            ..Section::default()
        })
    }
}

/// Errors of inputs that are told: of many files that fail, most do for one reason.
const ERRORS_TOLD: usize = 3;

/// The time in a condition of `-a`, as dumpcap writes it.
pub(crate) fn duration(condition: &str) -> Result<String, ConfigError> {
    let seconds = condition
        .strip_prefix("duration:")
        .filter(|seconds| seconds.parse::<f64>().is_ok_and(|number| number > 0.0));
    seconds.map(|seconds| format!("{seconds}s")).ok_or_else(|| {
        ConfigError::usage(&format!(
            "-a {condition}: the one condition is duration:SECONDS, such as duration:60"
        ))
    })
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    if arguments.list_interfaces {
        return live::list(arguments.json).map(|()| Exit::Done);
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
        eprint!("{}", live::listening_lines(&port.facts()));
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
    let seen = run.seen.with_filtered(&port);
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
        eprint!("{}", cores::lines(runtime));
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

/// What a run came to.
pub(crate) struct Ran {
    pub(crate) tally: RowTally,
    pub(crate) seen: Seen,
    pub(crate) errors: Vec<PortError>,
    pub(crate) runtime: Option<Runtime>,
}

/// What `trace.json` says of a run, also while it goes on.
pub(crate) struct Seen {
    pub(crate) counters: Counters,
    pub(crate) spans: Vec<Span>,
    pub(crate) summaries: Summaries,
}

impl Seen {
    /// With the frames that the filter took away, whom only the port has seen.
    fn with_filtered(mut self, port: &Input) -> Self {
        self.counters.merge(port.port().counters());
        self
    }
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

/// Looks after a run: its signals, its progress, its `trace.json`.
pub(crate) struct Watch<'a> {
    folder: Option<&'a RunFolder>,
    pub(crate) signals: &'a Signals,
    /// Rows of frames that a port dropped, to be written.
    pub(crate) losses: Vec<LossRow>,
    /// Data goes without checksums.
    pub(crate) is_relieved: bool,
    live: Option<Live>,
    /// Files that grow are read.
    follow: Option<Follow>,
    /// When the end was asked for, where a pipe is read: the same Ctrl-C ends its writer, and what that still has is to come.
    asked: Option<Duration>,
    reads_pipe: bool,
    clock: &'a SystemClock,
    budget: &'a Budget,
    manifest: &'a mut Manifest,
    progress: ProgressBar,
    stopwatch: &'a Stopwatch,
    written: Duration,
    bursts: u64,
    stop: Stop,
}

/// What only a live run has.
struct Live {
    account: Account,
    /// If checksums may be given up.
    relief: Option<Relief>,
    duration: Option<Duration>,
    /// When no more frames were let in.
    shut: Option<Duration>,
}

impl Live {
    fn note(&self, manifest: &mut Manifest) {
        manifest.seconds = self.account.seconds();
        let reliefs = self.relief.iter().flat_map(|relief| &relief.times);
        manifest.reliefs = reliefs.copied().collect();
    }
}

/// What has arrived when a live run ends, or is still to come from a pipe, is read for at most so long.
const DRAIN: Duration = Duration::from_millis(1500);

impl Watch<'_> {
    /// Whether frames come whether or not they are read.
    pub(crate) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// Notes why the run ends, unless something went wrong before.
    pub(crate) fn stop(&mut self, why: Stop) -> Step {
        if !matches!(self.stop, Stop::Output(_)) {
            self.stop = why;
        }
        Step::Stop
    }

    /// Once a burst, and at the end.
    pub(crate) fn look(
        &mut self,
        port: &mut Input,
        is_last: bool,
        mut seen: impl FnMut() -> Seen,
    ) -> Step {
        self.bursts += 1;
        if self.live.is_some() {
            if self.look_live(port, is_last, &mut seen) == Step::Stop {
                return Step::Stop;
            }
        } else if let Some(signal) = self.signals.stop() {
            let elapsed = self.stopwatch.elapsed();
            let asked = *self.asked.get_or_insert(elapsed);
            if !self.reads_pipe || elapsed - asked > DRAIN {
                return self.stop(Stop::Signal(signal));
            }
        } else if let Some(Follow {
            duration: Some(duration),
        }) = self.follow
            && self.stopwatch.elapsed() >= duration
        {
            return Step::Stop;
        }
        if self.signals.take_counters_wanted() {
            if let Some(live) = &self.live {
                eprintln!("{}", live.account.line());
            }
            eprint!("{}", counter_lines(&seen().with_filtered(port).counters));
        }
        // Looking at the clock and the files' positions costs more than a burst of small frames.
        if self.live.is_none() {
            if !self.bursts.is_multiple_of(64) {
                return Step::Continue;
            }
            let bytes = port.facts().iter().map(|facts| facts.bytes).sum();
            self.progress.set_position(bytes);
        }
        if (self.stopwatch.elapsed() - self.written).as_secs() < REWRITE_SECONDS {
            return Step::Continue;
        }
        self.written = self.stopwatch.elapsed();
        if let Some(live) = &self.live {
            live.note(self.manifest);
        }
        note(self.manifest, port, &seen().with_filtered(port));
        let Some(folder) = self.folder else {
            return Step::Continue;
        };
        let text = self.manifest.to_json();
        match folder.replace("trace.json", text.as_bytes()) {
            Ok(()) => Step::Continue,
            Err(error) => self.stop(Stop::Output(error.to_string())),
        }
    }

    /// Ends a live run by letting no more frames in and reading those that have come, and keeps its account.
    fn look_live(
        &mut self,
        port: &mut Input,
        is_last: bool,
        seen: &mut impl FnMut() -> Seen,
    ) -> Step {
        let Some(live) = &mut self.live else {
            return Step::Continue;
        };
        live.account.note_backlog(port);
        if let Some(relief) = &mut live.relief {
            self.is_relieved = relief.look(port, self.clock);
        }
        let elapsed = self.stopwatch.elapsed();
        let signal = self.signals.stop();
        if live.shut.is_none() {
            if let Some(signal) = signal {
                self.stop = Stop::Signal(signal);
            }
            if signal.is_some() || live.duration.is_some_and(|duration| elapsed >= duration) {
                port.shut();
                live.shut = Some(elapsed);
            }
        }
        let is_drained = live.shut.is_some_and(|shut| elapsed - shut > DRAIN);
        if live.account.is_due(elapsed) || is_last || is_drained {
            let counters = seen().with_filtered(port).counters;
            let now_ns = self.clock.now();
            self.losses = live
                .account
                .tick(elapsed, now_ns, port, &counters, self.budget);
            self.progress.set_message(live.account.line());
            self.progress.tick();
        }
        match is_drained {
            true => Step::Stop,
            false => Step::Continue,
        }
    }
}

fn note(manifest: &mut Manifest, port: &Input, seen: &Seen) {
    note_inputs(manifest, port, &seen.spans);
    note_rows(manifest, seen);
}

/// What was counted, and what the tables hold.
pub(crate) fn note_rows(manifest: &mut Manifest, seen: &Seen) {
    note_counters(manifest, &seen.counters);
    let tables = seen.summaries.iter();
    manifest.tables = tables
        .map(|(table, summary)| (table.name().to_owned(), *summary))
        .collect();
}

/// How often `trace.json` is rewritten while the run goes on.
const REWRITE_SECONDS: u64 = 5;

/// All inputs, as far as the filter lets them through, and perhaps written into capture files.
pub(crate) type Input = Recorded<Filtered<Merge>>;

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

/// Opens the inputs as one port.
pub(crate) fn open(inputs: &[PathBuf], budget: &Budget) -> anyhow::Result<Merge> {
    open_as(inputs, false, budget)
}

/// The same; if it `follows`, the one file, or the last one of the one folder, is still growing.
fn open_as(inputs: &[PathBuf], follows: bool, budget: &Budget) -> anyhow::Result<Merge> {
    check_inputs(inputs)?;
    // Where one file of a folder follows another, both are open for a moment.
    let open_max = inputs
        .iter()
        .map(|input| 1 + usize::from(input.is_dir()))
        .sum();
    let pool = pool(budget, open_max);
    let mut ports: Vec<MergeInput> = Vec::with_capacity(inputs.len());
    for path in inputs {
        if !path.is_dir() {
            ports.push(match follows {
                true => Followed::file(path, &pool)?.into(),
                false => CaptureReader::open(path, &pool)?.into(),
            });
            continue;
        }
        let (mut files, left_out) = match lineside_port::list(path, &pool) {
            // The first one may be about to come.
            Err(PortError::NoCaptures { .. }) if follows => (Vec::new(), Vec::new()),
            listed => listed?,
        };
        for why in left_out {
            eprintln!("lineside: warning: left out: {why}");
        }
        let followed = match files.pop() {
            last if follows => {
                let last = last.as_ref().map(FolderFile::path);
                Some(Followed::folder(path, last, &pool)?)
            }
            last => {
                files.extend(last);
                None
            }
        };
        ports.extend(files.into_iter().map(MergeInput::from));
        ports.extend(followed.map(MergeInput::from));
    }
    if ports.len() > usize::from(u16::MAX) {
        return Err(ConfigError::usage("more than 65,535 files: merge some of them first").into());
    }
    Ok(Merge::new(ports))
}

/// Opens files, each with its name, and reads nothing yet.
pub(crate) fn open_files(inputs: &[PathBuf]) -> anyhow::Result<Vec<(String, File)>> {
    check_inputs(inputs)?;
    let open = |path: &PathBuf| Ok((path.display().to_string(), CaptureReader::open_file(path)?));
    inputs.iter().map(open).collect()
}

/// Reads open files as one port.
pub(crate) fn read(files: Vec<(String, File)>, budget: &Budget) -> anyhow::Result<Merge> {
    let pool = pool(budget, files.len());
    let mut readers = Vec::with_capacity(files.len());
    for (name, file) in files {
        readers.push(CaptureReader::of_file(file, &name, &pool)?);
    }
    Ok(Merge::new(readers))
}

/// A quarter of the budget is for blocks of frames in flight; the rest is for what is held, and for rows.
fn pool(budget: &Budget, files: usize) -> PoolConfig {
    PoolConfig {
        budget: budget.clone(),
        bytes_max: budget.limit_bytes() / 4 / files,
    }
}

fn check_inputs(inputs: &[PathBuf]) -> Result<(), ConfigError> {
    if inputs.is_empty() {
        return Err(ConfigError::usage(
            "nothing to capture: name a FILE, - for standard input, or an interface with -i",
        ));
    }
    let is_standard = |input: &&PathBuf| input.as_os_str() == "-";
    if inputs.iter().filter(is_standard).count() > 1 {
        return Err(ConfigError::usage(
            "standard input (-) can be read only once",
        ));
    }
    if inputs.len() > usize::from(u16::MAX) {
        return Err(ConfigError::usage(
            "more than 65,535 inputs: merge some of them first",
        ));
    }
    Ok(())
}

/// Why a run ended.
pub(crate) enum Stop {
    End,
    Signal(u8),
    Output(String),
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

pub(crate) fn tables(section: &Section) -> Vec<Table> {
    let on = |switch: Option<bool>| switch == Some(true);
    let wanted = |table: &Table| match table {
        Table::Checksums => on(section.checksums),
        Table::Nfs | Table::Nfs4 | Table::Services => on(section.details),
        Table::Packets => on(section.packets),
        _ => true,
    };
    Table::ALL.iter().copied().filter(wanted).collect()
}

fn progress_bar(port: &Input, quiet: bool) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let facts = port.facts();
    if facts.iter().any(|facts| facts.live.is_some()) {
        let style = ProgressStyle::with_template("{msg}").expect("the template is a constant");
        return ProgressBar::new_spinner().with_style(style);
    }
    let total: Option<u64> = facts.iter().map(|facts| facts.bytes_total).sum();
    let (bar, template) = match total {
        Some(total) => (
            ProgressBar::new(total),
            "{bar:30} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}",
        ),
        None => (
            ProgressBar::new_spinner(),
            "{spinner} {bytes} {binary_bytes_per_sec}",
        ),
    };
    bar.with_style(ProgressStyle::with_template(template).expect("the template is a constant"))
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

fn note_inputs(manifest: &mut Manifest, port: &Input, spans: &[Span]) {
    manifest.inputs = inputs(port);
    let clock = |(input, facts): (usize, &Facts)| {
        let span = spans
            .get(input)
            .filter(|span| span.first_ns <= span.last_ns);
        ClockFacts {
            input: facts.name.clone(),
            resolution_ns: facts.resolution_ns,
            error_ns: None,
            first_ns: span.map(|span| span.first_ns),
            last_ns: span.map(|span| span.last_ns),
        }
    };
    manifest.clocks = port.facts().into_iter().enumerate().map(clock).collect();
}

/// What `trace.json` and `info` say of each input.
pub(crate) fn inputs(port: &impl Port) -> Vec<InputFacts> {
    port.facts().into_iter().map(input).collect()
}

/// The same of one.
pub(crate) fn input(facts: &Facts) -> InputFacts {
    InputFacts {
        name: facts.name.clone(),
        format: match facts.compression {
            Some(compression) => format!("{}, {compression}", facts.format),
            None => facts.format.clone(),
        },
        link_types: facts
            .link_types
            .iter()
            .map(|link_type| link_type.0)
            .collect(),
        frames: facts.frames,
        bytes: facts.bytes,
        warnings: facts.warnings.clone(),
        live: facts.live.as_ref().map(live::facts),
    }
}

fn note_counters(manifest: &mut Manifest, counters: &Counters) {
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

fn verdict(
    inputs: &[&Facts],
    counters: &Counters,
    errors: &[PortError],
    stop: &Stop,
    is_endless: bool,
) -> Verdict {
    let mut verdict = Verdict {
        state: State::Complete,
        ..Verdict::default()
    };
    let mut incomplete = |reason: String| {
        verdict.state = State::Incomplete;
        verdict.reasons.push(reason);
    };
    let value = |counter| counters.value(counter);
    let lost = value(Counter::StreamLost);
    if lost > 0 {
        let share = lost as f64 / value(Counter::StreamBytes) as f64;
        incomplete(format!(
            "{} of the TCP payload ({:.3} %) never came: {} holes not seen by the tap, {} cut by the snap length, {} given up",
            bytes(lost),
            share * 100.0,
            grouped(value(Counter::HolesNotSeen)),
            grouped(value(Counter::HolesSnapLength)),
            grouped(value(Counter::HolesGivenUp)),
        ));
        verdict.shares.insert("stream_bytes_lost".to_owned(), share);
    }
    let mut incomplete = |reason: String| {
        verdict.state = State::Incomplete;
        verdict.reasons.push(reason);
    };
    for (counter, what) in [
        (
            Counter::DatagramsIncomplete,
            "fragmented packets lack some of their fragments",
        ),
        (
            Counter::DatagramsChecksumWrong,
            "fragmented datagrams do not match their checksum and were not read",
        ),
        (
            Counter::ConnectionsReusedUnseen,
            "connections began again, or went on elsewhere, without a SYN: the tap missed more than a hole",
        ),
    ] {
        if value(counter) > 0 {
            incomplete(format!("{} {what}", grouped(value(counter))));
        }
    }
    // A capture may begin between a call and its reply, now and then.
    let (orphans, replies) = (value(Counter::RepliesWithoutCall), value(Counter::Replies));
    if inputs.len() > 1 && orphans > replies / 100 {
        incomplete(format!(
            "{} of {} replies have no call: the inputs' clocks differ by more than --late-window, or one lacks what another has",
            grouped(orphans),
            grouped(replies)
        ));
    }
    if let Some(unread) = unread(counters) {
        incomplete(format!("not read: {unread}"));
    }
    let (mut arrived, mut dropped_live) = (0, 0);
    for facts in inputs {
        let dropped: u64 = facts
            .interfaces
            .iter()
            .filter_map(|interface| interface.dropped.max(interface.dropped_by_system))
            .sum();
        if dropped > 0 {
            incomplete(format!(
                "{}: its recorder says that {} frames were dropped",
                facts.name,
                grouped(dropped)
            ));
        }
        if let Some(live) = &facts.live {
            live::drop_reason(&facts.name, live)
                .into_iter()
                .for_each(&mut incomplete);
            arrived += live.arrived + live.dropped_interface;
            dropped_live += live::dropped(live).iter().sum::<u64>();
        }
        for warning in &facts.warnings {
            incomplete(warning.clone());
        }
    }
    for error in errors {
        incomplete(error.to_string());
    }
    match stop {
        Stop::End => {}
        Stop::Signal(_) if is_endless => {}
        Stop::Signal(signal) => incomplete(format!(
            "ended by signal {signal} before the end of the input"
        )),
        Stop::Output(error) => incomplete(error.clone()),
    }
    if dropped_live > 0 {
        let share = dropped_live as f64 / arrived as f64;
        verdict.shares.insert("frames_dropped".to_owned(), share);
    }
    for (counter, value) in counters
        .iter()
        .filter(|(counter, value)| counter.kind() == Kind::Limit && *value > 0)
    {
        verdict.state = State::Limited;
        verdict.reasons.push(format!(
            "{}: {} {}",
            counter.name(),
            grouped(value),
            counter.meaning()
        ));
    }
    verdict
}

fn print_summary(
    arguments: &Arguments,
    section: &Section,
    manifest: &Manifest,
    tally: &Tally,
    counters: &Counters,
    elapsed_ns: i64,
) -> anyhow::Result<()> {
    let output = section
        .output
        .as_ref()
        .map(|output| output.display().to_string());
    if arguments.json {
        let summary = serde_json::json!({
            "trace": output,
            "frames": counters.value(Counter::FramesReceived),
            "elapsed_ns": elapsed_ns,
            "summary": tally,
            "verdict": manifest.verdict,
            "inputs": manifest.inputs,
            "tables": manifest.tables,
        });
        crate::report::print_json(&summary)?;
        return Ok(());
    }
    let mut out = String::new();
    crate::info::input_lines(&manifest.inputs, &mut out);
    crate::info::filter_line(manifest, &mut out);
    if output.is_some() {
        crate::info::traffic_lines(counters, &mut out);
        tally.lines(&mut out);
        crate::info::table_lines(&manifest.tables, &mut out);
    }
    verdict_lines(&manifest.verdict, &mut out);
    if section
        .write_pcap
        .as_ref()
        .is_some_and(|path| path.as_os_str() == "-")
    {
        eprint!("{out}");
    } else {
        crate::report::print(&out)?;
    }
    if arguments.verbose {
        let memory = MemoryUse::read();
        eprint!("{}", counter_lines(counters));
        eprintln!(
            "took {}, peak memory {}",
            seconds(elapsed_ns),
            bytes(memory.peak_bytes.unwrap_or(0))
        );
    }
    Ok(())
}

fn counter_lines(counters: &Counters) -> String {
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
