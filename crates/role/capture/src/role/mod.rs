//! A capture as a run: from files or interfaces to a trace in a folder, a capture file, or both.
//!
//! ```text
//!  capture ─ opens inputs and outputs, drops privileges
//!     ├─ single_thread  one thread: pipeline, encoder          ┐
//!     ├─ on_cores actors: pipelines, checksums, encoders ├─ each burst: Watch ─ signals, account, trace.json
//!     └─ pass     no trace: frames into a capture file   ┘
//! ```
//!
//! Not here: what a frame becomes, which is [`Pipeline`](crate::Pipeline)'s, and printing, which
//! passes through [`Progress`](lineside_run::Progress).

mod account;
mod confine;
mod on_cores;
mod placement;
mod settings;
mod single_thread;
mod tally;
mod watch;

use std::fs::Metadata;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lineside_account::{Budget, Counters};
use lineside_host::{FileMaker, FolderError, ServiceManager, Signals, Stopwatch, SystemClock};
use lineside_port::{
    CaptureWriter, Interface, Live as _, Merge, Port as _, PortError, Recorded, Wrapper as _,
    WriterConfig,
};
use lineside_run::{
    Answering, DropInReport, Evidence, Interfaces, Measuring, Opened, Pace, Progress, Run,
    RunError, check_capture_file, judge, older_runs, open, open_followed, open_interfaces,
};
use lineside_store::RunFolder;
use lineside_time::Clock;
use lineside_trace::{InMemory, Manifest};

use crate::cores::Failed;
use crate::filtered::Filtered;
use crate::measured::Measured;
use crate::one_place::OnePlace;
use crate::taps::{self, Stamps, Taps};
use single_thread::Ran;
use watch::{Around, Stop, Watch};

pub use placement::{CoreSettings, ENCODERS, Scheduler, actors, placed_by_traffic};
pub use settings::{CaptureFile, Follow, LiveSettings, Settings, is_pipe};
pub use single_thread::{Seen, capture_into, tally_of};
pub use tally::{OperationCount, Tally, is_failure};

/// All inputs, as far as the filter lets them through, measured, each frame once, and perhaps
/// written into capture files.
type Input = Recorded<OnePlace<Measured<Filtered<Merge>>>>;

/// Errors of inputs that are listed: of many files that fail, most do for one reason.
const ERRORS_LISTED: usize = 3;

/// Why a capture could not begin, or broke off.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// Inputs or outputs cannot be opened.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A capture file cannot be written.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The run folder cannot be written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The actors cannot run.
    #[error(transparent)]
    Cores(#[from] Failed),
    /// The output failed while the capture ran.
    #[error("{0}")]
    Output(String),
}

impl CaptureError {
    /// Whether the user has to ask for something else, as opposed to a failure of the machine.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Run(error) if error.is_usage())
    }
}

/// What a capture came to.
pub struct Outcome {
    /// What `trace.json` holds.
    pub manifest: Manifest,
    /// The operations, counted.
    pub tally: Tally,
    /// All counters.
    pub counters: Counters,
    /// How long it took.
    pub elapsed: Duration,
    /// The signal that cut it short. A live run has no end of its own: it is done when its user
    /// says so.
    pub signal: Option<u8>,
    /// Which inputs failed, in a sentence; everything else was captured.
    pub failure: Option<String>,
}

/// What a capture takes before it has seen anything: of the program itself what it touches, stacks.
const PROGRAM_BYTES: usize = 12 << 20;

/// Captures until the inputs end, a signal, or a limit of the settings.
pub fn capture(settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, CaptureError> {
    // Parts are merged by one thread with what others have given back.
    lineside_host::share_one_heap();
    if settings.live.is_none() && !are_small(&settings.inputs) {
        // For interfaces not: they do not wait while the kernel makes room for a huge page, which
        // may take tens of milliseconds. For small files not: to clear one takes longer than to
        // read them.
        lineside_host::prefer_huge_pages();
    }
    // Before privileges are dropped: later its socket may not be reached.
    let manager = ServiceManager::from_environment();
    let budget = Budget::new(settings.memory_bytes);
    let _program = budget.lease(PROGRAM_BYTES.min(settings.memory_bytes / 5));
    let clock = SystemClock::default();
    let (run, maker, inputs) = if settings.live.is_some() {
        // Before sockets are opened, which processes beside this one would hold.
        let run = begin_run(settings, clock.now(), progress);
        let maker = match &run {
            Ok(_) => file_maker(settings)?,
            Err(_) => None,
        };
        // An error of the inputs comes first.
        let inputs = open_inputs(settings, &budget, progress)?;
        (run?, maker, inputs)
    } else {
        confine::check_inputs(&settings.inputs)?;
        let mut run = begin_run(settings, clock.now(), progress)?;
        let maker = file_maker(settings)?;
        let sandbox = confine::sandbox(settings, run.folder.as_ref())?;
        confine::keep_capabilities(settings, run.folder.as_ref())?;
        confine::enter(settings, sandbox, &mut run, progress)?;
        (run, maker, open_inputs(settings, &budget, progress)?)
    };
    // Until here there is nothing to finish, and a signal may just end the process.
    let signals = Signals::register().map_err(|cause| RunError::System {
        what: "cannot handle signals",
        cause,
    })?;
    let stopwatch = Stopwatch::start();
    let now_ns = clock.now();
    let (mut run, mut port, answering) =
        begin(settings, run, (inputs, maker), &budget, now_ns, progress)?;
    manager.ready();
    let around = Around {
        signals: &signals,
        manager: &manager,
        clock: &clock,
        stopwatch: &stopwatch,
        budget: &budget,
        progress,
    };
    let mut taps = match settings.live.is_none() && settings.follow.is_none() {
        true => taps::find(&settings.inputs, &budget),
        false => Taps::default(),
    };
    { taps.notes.iter() }.for_each(|note| around.progress.note(note));
    run.manifest.two_taps = std::mem::take(&mut taps.pairs);
    (port.port_mut().port_mut()).leave_out(std::mem::take(&mut taps.dropped));
    let mut watch = Watch::new(settings, &mut run, around);
    let respond = settings.respond.zip(port.port_mut().port_mut().looks());
    let respond = respond.map(|(respond, looks)| respond(looks));
    let mut take = || {
        take_frames(
            settings,
            (&budget, taps.stamps.as_ref()),
            &mut port,
            &mut watch,
        )
    };
    let mut ran = match answering.zip(respond) {
        Some((answering, respond)) => answering.during(respond, take)?,
        None => take()?,
    };
    manager.stopping();
    if matches!(watch.stop, Stop::Output(_)) {
        // A failure in the middle leaves the last second unaccounted.
        port.account();
    }
    ran.errors.extend(port.finish().err());
    let (mut drop_ins, mut unmeasured) = (DropInReport::default(), None);
    if let Some(ending) = port.port_mut().port_mut().take().map(Measuring::end) {
        { ending.warnings.iter() }.for_each(|warning| watch.warn(warning));
        match ending.tables {
            Ok(summaries) => ran.seen.summaries.extend(summaries),
            Err(why) => unmeasured = Some(why),
        }
        ran.seen.removed.add(ending.removed);
        drop_ins = ending.drop_ins;
    }
    { ran.notes.iter() }.for_each(|note| watch.warn(note));
    let (stop, is_endless) = watch.end();
    if let Some(note) = port.port().note() {
        progress.note(&note);
    }
    let mut interfaces = settings.live.iter().map(|live| &live.interfaces);
    if interfaces.any(Interfaces::are_all) {
        // One of all that were up may go: the others are all that is left.
        let errors = std::mem::take(&mut ran.errors).into_iter();
        let (gone, others): (Vec<_>, _) =
            errors.partition(|error| matches!(error, PortError::InterfaceGone { .. }));
        gone.iter()
            .for_each(|error| progress.note(&error.to_string()));
        ran.errors = others;
    }
    let seen = watch::with_filtered(ran.seen, &port);
    watch::note(&mut run, &port, &seen);
    run.set_drop_ins(drop_ins);
    run.manifest.runtime = ran.runtime;
    let mut failures: Vec<_> = ran.errors.iter().map(ToString::to_string).collect();
    failures.extend(unmeasured.clone());
    let signal = match &stop {
        // A run without an end of its own ends when its user says so.
        Stop::Signal(number) if !is_endless => Some(*number),
        Stop::Signal(_) | Stop::End => None,
        Stop::Output(error) => {
            failures.push(error.clone());
            None
        }
    };
    let mut verdict = judge(&Evidence {
        counters: seen.counters.clone(),
        inputs: port.facts(),
        failures,
        signal,
        looks_for_rpc: settings.output.is_some(),
        filter: settings.filter_text.as_deref(),
        ..Evidence::default()
    });
    port.port().port().doubt(&mut verdict);
    let written = run.end(verdict, clock.now());
    let complete = match &run.folder {
        // The error names it.
        Some(folder) if folder.is_removed() => String::new(),
        Some(folder) => {
            // Of a table that was removed there is nothing.
            let what = match folder.has_lost() {
                true => "all else",
                false => "everything",
            };
            format!(
                "; {what} before is in the complete parts of {}",
                folder.path().display()
            )
        }
        None => String::new(),
    };
    if let Stop::Output(error) = &stop {
        // The disk that failed may have had room for that much.
        let account = match &written {
            Err(FolderError::Gone { .. }) | Ok(()) => "",
            Err(error) if error.is_full() => {
                ", but trace.json had no room for the run's outcome, and says that it is \
                unfinished"
            }
            Err(_) => {
                ", but trace.json could not be written any more, and says that the run is \
                unfinished"
            }
        };
        return Err(CaptureError::Output(format!("{error}{complete}{account}")));
    }
    written?;
    Ok(Outcome {
        manifest: run.manifest,
        tally: ran.tally.finish(),
        counters: seen.counters,
        elapsed: stopwatch.elapsed(),
        signal: match stop {
            Stop::Signal(signal) if settings.live.is_none() => Some(signal),
            _ => None,
        },
        failure: failure(&ran.errors, &complete).or(unmeasured),
    })
}

/// Whether the inputs are files, of a few blocks together.
fn are_small(inputs: &[PathBuf]) -> bool {
    const SMALL_BYTES: u64 = 1 << 20;
    let add = |sum: u64, path: &PathBuf| {
        let facts = path.metadata().ok().filter(Metadata::is_file)?;
        // Of many files the first ones decide.
        Some(sum + facts.len()).filter(|&sum| sum < SMALL_BYTES)
    };
    inputs.iter().try_fold(0, add).is_some()
}

fn open_inputs(
    settings: &Settings,
    budget: &Budget,
    progress: &mut dyn Progress,
) -> Result<Merge, RunError> {
    let opened = match (&settings.live, settings.follow) {
        (Some(live), _) => open_interfaces(&live.interfaces, settings.filter.as_ref(), budget),
        (None, Some(_)) => open_followed(&settings.inputs, budget),
        (None, None) => open(&settings.inputs, budget),
    };
    let Opened { port, left_out } = opened?;
    for why in left_out {
        progress.warn(&format!("left out: {why}"));
    }
    Ok(port)
}

/// Makes the folder of the run.
fn begin_run(
    settings: &Settings,
    now_ns: i64,
    progress: &mut dyn Progress,
) -> Result<Run, CaptureError> {
    if let Some(file) = &settings.capture_file {
        check_capture_file(&file.path, file.is_series, &settings.inputs, settings.force)?;
    }
    let (inputs, configuration) = (&settings.inputs, settings.configuration.clone());
    let run = match &settings.made {
        Some(made) => Run::in_folder(Some(RunFolder::of(made)?), inputs, configuration, now_ns),
        None => {
            let output = settings.output.as_deref();
            Run::begin(output, settings.force, inputs, configuration, now_ns)?
        }
    };
    if let Some(folder) = { run.folder.as_ref() }.filter(|_| confine::keeps_less_of_runs(settings))
    {
        let (older, left_out) = older_runs(folder);
        folder.lend_too(older);
        if left_out > 0 {
            progress.warn(&format!(
                "{left_out} older runs keep what they have while this one goes on: more descriptors \
                 are needed to keep less of them, so raise the limit ('ulimit -n')"
            ));
        }
    }
    Ok(run)
}

/// What makes the capture files of a run; `None` if there is one file, or none.
fn file_maker(settings: &Settings) -> Result<Option<FileMaker>, CaptureError> {
    let file = settings.capture_file.as_ref();
    let file = file.filter(|file| file.rotation.turns() && file.path.as_os_str() != "-");
    let maker = file.map(|file| FileMaker::start(&file.path, settings.force, file.rotation.kept()));
    Ok(maker.transpose().map_err(RunError::from)?)
}

/// Opens what is written, drops privileges where they were needed, and describes the run in its
/// folder.
fn begin(
    settings: &Settings,
    mut run: Run,
    (inputs, maker): (Merge, Option<FileMaker>),
    budget: &Budget,
    now_ns: i64,
    progress: &mut dyn Progress,
) -> Result<(Run, Input, Option<Answering>), CaptureError> {
    let writer = { settings.capture_file.as_ref() }
        .map(|file| open_writer(file, settings, (&inputs, maker), budget, now_ns))
        .transpose()?;
    let answering = listen(settings, &run, budget, progress);
    if settings.live.is_some() {
        let file = writer.as_ref().and_then(CaptureWriter::file);
        let sandbox = confine::sandbox(settings, run.folder.as_ref())?;
        let dropped =
            lineside_host::drop_privileges(run.folder.as_ref().map(|it| it as _), file.as_slice());
        if dropped.map_err(RunError::from)?.is_namespace_root {
            progress.note(
                "no other user exists in this user namespace: it stays root, without capabilities",
            );
        }
        confine::enter(settings, sandbox, &mut run, progress)?;
    }
    let inputs = Filtered::new(inputs, settings.filter.clone())
        .live(settings.live.is_some())
        .cut_at(settings.snap_len);
    let folder = run
        .folder
        .as_ref()
        .filter(|_| !settings.monitors.is_empty() || !settings.drop_ins.programs.is_empty());
    let measuring = folder.map(|folder| {
        let trace_id = &run.manifest.trace_id;
        let pace = match (&settings.live, settings.rotation.by_clock) {
            (Some(_), _) => Pace::Live,
            (None, true) => Pace::Grown,
            (None, false) => Pace::File,
        };
        let mut measuring = Measuring::new(
            &settings.monitors,
            folder,
            trace_id,
            &settings.rotation,
            budget,
        )
        .with_drop_ins(&settings.drop_ins, pace, folder, trace_id, budget);
        measuring.start();
        measuring
    });
    let at = settings.live.is_none().then(|| settings.at.clone());
    let port = OnePlace::new(Measured::new(inputs, measuring), at);
    let port = Recorded::new(port, writer);
    progress.begin(&port.facts());
    run.manifest.in_memory = Some(InMemory {
        time_ns: now_ns,
        ..InMemory::default()
    });
    run.keep_room()?;
    run.save()?;
    Ok((run, port, answering))
}

/// Listens in the folder of a live run with monitors. Where there can be no socket, the run goes on
/// without.
fn listen(
    settings: &Settings,
    run: &Run,
    budget: &Budget,
    progress: &mut dyn Progress,
) -> Option<Answering> {
    let is_asked = settings.live.is_some() && settings.respond.is_some();
    let folder = run
        .folder
        .as_ref()
        .filter(|_| is_asked && !settings.monitors.is_empty())?;
    match Answering::listen(folder, budget) {
        Ok(answering) => Some(answering),
        Err(error) => {
            progress.warn(&format!("nothing can be asked while this runs: {error}"));
            None
        }
    }
}

/// Makes the capture file that frames are written into.
fn open_writer(
    file: &CaptureFile,
    settings: &Settings,
    (inputs, maker): (&Merge, Option<FileMaker>),
    budget: &Budget,
    now_ns: i64,
) -> Result<CaptureWriter, PortError> {
    // A pcapng file describes its interfaces as it goes: then each is described when its first
    // frame comes.
    let facts = inputs.facts();
    let are_known = facts.iter().all(|facts| !facts.link_types.is_empty());
    let announced = facts.into_iter().filter(|_| are_known);
    let filter = settings.filter_text.as_ref();
    let config = WriterConfig {
        budget: budget.clone(),
        interfaces: announced
            .map(|facts| Interface {
                snap_len: settings.snap_len,
                ..facts.interface()
            })
            .collect(),
        application: concat!("lineside ", env!("CARGO_PKG_VERSION")).to_owned(),
        comment: filter.map(|filter| format!("filter: {filter}")),
        rotation: file.rotation.clone(),
        replaces: settings.force,
    };
    // A file's frames may be of any time: what is written begins with the first of them.
    let begin_ns = settings.live.is_some().then_some(now_ns);
    CaptureWriter::create_by(&file.path, config, begin_ns, maker)
}

/// Takes all frames, into whatever is written.
fn take_frames(
    settings: &Settings,
    (budget, other_tap): (&Budget, Option<&Arc<Stamps>>),
    port: &mut Input,
    watch: &mut Watch<'_>,
) -> Result<Ran, CaptureError> {
    let Some(folder) = watch.run.folder.clone() else {
        return Ok(watch.pass(port, settings.frames_max));
    };
    let trace_id = watch.run.manifest.trace_id.clone();
    let mut ran = match &settings.cores {
        None => {
            let thread = single_thread::SingleThread {
                folder: &folder,
                tables: &settings.tables,
                trace_id: &trace_id,
                rotation: &settings.rotation,
                config: settings.config.clone(),
                budget,
                frames_max: settings.frames_max,
                latencies: watch.latencies(),
                amend: other_tap.cloned().map(|it| it as _),
            };
            thread.run(port, |port, turn| watch.on_burst(port, turn))?
        }
        Some(cores) => {
            let on_cores = on_cores::OnCores {
                settings,
                cores,
                folder: &folder,
                encoder: &settings.rotation.encoder(&settings.tables, &trace_id),
                budget,
                other_tap: other_tap.cloned(),
            };
            on_cores.run(port, watch)?
        }
    };
    if let Some(failure) = ran.failure.take() {
        watch.stop(Stop::Output(failure));
    }
    Ok(ran)
}

/// The errors of inputs, and where everything else is.
fn failure(errors: &[PortError], complete: &str) -> Option<String> {
    if errors.is_empty() {
        return None;
    }
    let listed = errors.iter().take(ERRORS_LISTED);
    let listed: Vec<_> = listed.map(ToString::to_string).collect();
    let more = match errors.len() - listed.len() {
        0 => String::new(),
        more => format!("; and {more} errors more"),
    };
    Some(format!("{}{more}{complete}", listed.join("; ")))
}
