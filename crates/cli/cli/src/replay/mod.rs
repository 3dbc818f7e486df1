//! `lineside replay`: the workload of a trace, run again on another server.

mod flags;
mod print;
mod settings;

use std::fs::File;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, anyhow};
use lineside_account::Budget;
use lineside_analyze::{SHELF_FILES, script};
use lineside_host::{Place, RunClock, Signals, SystemClock, watch_outputs};
use lineside_plan::Config;
use lineside_rerun::{
    Asked, FramePort, Ground, Outcome, RerunError, Sources, Url, Watch, certificate,
};
use lineside_rerun::{prepare, run as rerun, tap};
use lineside_rows::Table;
use lineside_run::{Run, keep_file_capabilities, not_confined, sandbox_facts};
use lineside_store::RunFolder;
use lineside_time::Clock;
use serde_json::json;

pub(crate) use flags::Arguments;

use crate::config::Sandboxing;
use crate::confine;
use crate::exit::Exit;
use crate::print::{print, print_json, warn};
use crate::runs;
use settings::Wanted;

/// Memory of the thread that makes rows.
const BUDGET_BYTES: usize = 256 << 20;

pub(crate) fn run(mut arguments: Arguments) -> anyhow::Result<Exit> {
    let wanted = Wanted::of(&arguments)?;
    let url = Url::parse(&arguments.to)?;
    runs::choose(&mut arguments.trace);
    let signals = Signals::register().context("cannot handle signals")?;
    let mut run = begin(&arguments, &wanted)?;
    let files = files(run.folder.as_ref())?;
    confine(&arguments, &mut run)?;
    let config = Config {
        idle_ns: i64::try_from(arguments.idle).unwrap_or(i64::MAX),
        ..Config::default()
    };
    let filter = arguments.filter.filter();
    let (of_plan, script) = script(&arguments.trace, config, &filter, files)?;
    if !of_plan.lacks.is_empty() {
        let (trace, lacks) = (arguments.trace.display(), of_plan.lacks.join(", "));
        warn(&format!(
            "{trace} is of an older lineside, and lacks {lacks}: calls that need one of these are \
             left out, or ask for what a usual client does; make it anew with 'lineside capture'"
        ));
    }
    let clock = RunClock::start();
    let user = wanted.user_of_preparation(&script);
    let (in_place, timeout_ns) = (arguments.in_place, wanted.timeout_ns);
    let places = wanted.places(&url);
    let places = places.iter();
    let grounds = places.map(|url| prepare(&script, url, user, in_place, timeout_ns, &clock));
    let grounds: Vec<Ground> = grounds.collect::<Result<_, _>>()?;
    let asked = Asked {
        script: &script,
        url: &url,
        copies: wanted.copies(&grounds),
        timeout_ns,
    };
    let outcome = make(&asked, &mut run, &clock, &signals)?;
    let of_source = wanted.asked(&arguments, &of_plan);
    let certificate = certificate(of_source, &script, &grounds, &outcome);
    run.manifest.certificate = Some(serde_json::to_value(&certificate)?);
    run.end(certificate.verdict.clone(), SystemClock::default().now())?;
    match arguments.json {
        true => print_json(&certificate)?,
        false => print(&print::text(
            &certificate,
            run.folder.as_ref().map(RunFolder::path),
        ))?,
    }
    match outcome.failure {
        Some(failure) => Err(anyhow!(failure)),
        None => Ok(Exit::of_state(certificate.verdict.state, false)),
    }
}

/// Files for the calls of the trace: in the folder of the run if it has one.
fn files(folder: Option<&RunFolder>) -> anyhow::Result<[File; SHELF_FILES]> {
    let place = match folder {
        Some(folder) => folder.place().clone(),
        None => Place::open(&std::env::temp_dir())?,
    };
    let made: Result<Vec<_>, _> = (0..SHELF_FILES).map(|_| place.nameless_file()).collect();
    let made = made.with_context(|| {
        let place = place.path().display();
        format!("cannot make a file in {place}: name another folder with -o or TMPDIR")
    })?;
    made.try_into().map_err(|_| anyhow!("too few files"))
}

/// The record of the run, in its folder if it has one.
fn begin(arguments: &Arguments, wanted: &Wanted) -> anyhow::Result<Run> {
    let configuration = json!({ "replay": wanted.words(arguments) });
    let now_ns = SystemClock::default().now();
    let output = arguments.output.as_deref();
    Ok(Run::begin(
        output,
        arguments.force,
        &arguments.to,
        configuration,
        now_ns,
    )?)
}

/// Drops what the run does not need, before a byte of the trace is read and before there is another
/// thread.
fn confine(arguments: &Arguments, run: &mut Run) -> anyhow::Result<()> {
    watch_outputs()?;
    let mut sandbox = confine::trace(&arguments.trace).may_connect_everywhere();
    if let Some(folder) = &run.folder {
        sandbox = sandbox.may_write_in(folder.place());
    }
    keep_file_capabilities(arguments.output.as_deref().into_iter())?;
    let confined = arguments.confining.applied(sandbox);
    let confined = confined.map(|sandbox| sandbox.enter()).transpose()?;
    confined.iter().for_each(confine::note);
    let facts = confined.as_ref().map(sandbox_facts);
    run.manifest.sandbox = Some(facts.unwrap_or_else(|| not_confined(Sandboxing::NONE)));
    Ok(())
}

/// Makes the calls, while a thread makes rows of what passes.
fn make(
    asked: &Asked<'_>,
    run: &mut Run,
    clock: &RunClock,
    signals: &Signals,
) -> anyhow::Result<Outcome> {
    let sources = Arc::new(Sources::default());
    let mut watch = Watching { signals };
    let Some(folder) = run.folder.clone() else {
        return Ok(rerun(asked, None, &sources, clock, &mut watch)?);
    };
    run.keep_room()?;
    run.save()?;
    let trace_id = run.manifest.trace_id.clone();
    let (tap, port) = tap();
    let (outcome, seen) = thread::scope(|scope| {
        let amend = Arc::clone(&sources);
        let taking = scope.spawn(|| take(&folder, &trace_id, port, amend));
        let outcome = rerun(asked, Some(tap), &sources, clock, &mut watch);
        (outcome, taking.join())
    });
    let seen = seen.map_err(|_| RerunError::Panic)?;
    if let Ok(seen) = &seen {
        run.set_rows(&seen.counters, &seen.summaries);
    }
    let outcome = outcome?;
    seen?;
    Ok(outcome)
}

fn take(
    folder: &RunFolder,
    trace_id: &str,
    mut port: FramePort,
    sources: Arc<Sources>,
) -> Result<lineside_capture::Seen, lineside_capture::CaptureError> {
    let budget = Budget::new(BUDGET_BYTES);
    let wanted = |table: &Table| *table != Table::Packets && !Table::MONITORS.contains(table);
    let tables: Vec<_> = Table::ALL.iter().copied().filter(wanted).collect();
    lineside_capture::capture_into(
        folder,
        &tables,
        trace_id,
        &mut port,
        &budget,
        Some(sources as _),
    )
}

struct Watching<'a> {
    signals: &'a Signals,
}

impl Watch for Watching<'_> {
    fn on_second(&mut self, _made: usize, _all: usize) {}

    fn stops(&mut self) -> bool {
        self.signals.stop().is_some()
    }
}
