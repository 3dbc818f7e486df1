//! `lineside lab`: an experiment from one file.

mod bundle;
mod figures;
mod flags;
mod names;
mod rerun;

use std::path::Path;

use anyhow::Context;
use lineside_host::Signals;
use lineside_lab::{Experiment, Lab, LabError, Progress, Results};
use lineside_trace::{GivenCell, GivenKind};

pub(crate) use flags::Arguments;
use flags::Other;

use crate::config::ConfigError;
use crate::exit::Exit;
use crate::experiments::figures::{Assertion, Figures};
use crate::experiments::print as text;
use crate::junit::Junit;
use crate::print::{json_text, print, print_json, print_styled, say, warn};
use crate::tables::{Folder, Kind, push, table};

/// What a lab's folder holds beside its points.
const LAB: Kind = Kind {
    name: "lab",
    tables: &["points"],
    facts: "lab.json",
    instead: "give another folder with -o",
};

pub(crate) fn run(mut arguments: Arguments) -> anyhow::Result<Exit> {
    match arguments.other.take() {
        Some(Other::Bundle(arguments)) => bundle::run(arguments),
        Some(Other::Rerun(arguments)) => rerun::run(&arguments, keep, on_progress),
        None => run_here(&arguments),
    }
}

fn run_here(arguments: &Arguments) -> anyhow::Result<Exit> {
    let experiment = Experiment::read(arguments.file())?;
    experiment.check_figures(arguments.file(), &|words| figures::read(words).map(drop))?;
    let folder = arguments.folder();
    if arguments.dry_run {
        print(&text::plan(&experiment, &folder))?;
        return Ok(Exit::Done);
    }
    let baseline = arguments
        .baseline
        .as_deref()
        .map(Results::read)
        .transpose()?;
    if baseline.is_none()
        && experiment
            .claims
            .iter()
            .any(lineside_lab::Claim::needs_baseline)
    {
        let why = "an assertion asks for a baseline: name the folder of that lab, --baseline RUN";
        return Err(ConfigError::usage(why).into());
    }
    if arguments.junit.is_some() && experiment.claims.is_empty() {
        let file = arguments.file().display();
        let why = format!("--junit lists what came of assertions, and {file} has none");
        return Err(ConfigError::usage(&why).into());
    }
    let junit = Junit::open(arguments.junit.as_deref(), experiment.claims.len())?;
    let signals = Signals::register().context("cannot handle signals")?;
    let places = (folder.as_path(), arguments.home(), arguments.rsh.as_str());
    let lab = Lab::begin(
        &experiment,
        places,
        (arguments.resume, arguments.force),
        &figures::of,
        &signals,
    )?;
    let ran = ran(arguments, &experiment, &lab);
    drop(lab);
    // Whatever ended it, all points so far stand.
    let results = Results::read(&folder)?;
    let figures = Figures::of(&results, baseline.as_ref()).with_facts(&folder);
    let kept = keep(&results, &figures, &folder);
    let signal = ran.inspect_err(|_| say(&resuming(arguments, &results)))?;
    kept?;
    match arguments.json {
        true => print_json(&figures)?,
        false => print_styled(&text::text(&figures, &folder))?,
    }
    if let Some(signal) = signal {
        say(&resuming(arguments, &results));
        return Ok(Exit::Signal(signal));
    }
    if let Some(junit) = junit {
        let assertions = figures.assertions.iter().map(Assertion::for_junit);
        let assertions: Vec<_> = assertions.collect();
        junit.finish("lab", &folder.display().to_string(), &assertions)?;
    }
    if figures.disturbed > 0 {
        warn(&text::disturbed(&figures));
    }
    Ok(match figures.holds() {
        false => Exit::Assertion,
        true if figures.disturbed > 0 && arguments.strict => Exit::Disturbed,
        true => Exit::Done,
    })
}

/// Runs what is asked for first, if that is wanted, and what is missing. The signal that ended it.
fn ran(
    arguments: &Arguments,
    experiment: &Experiment,
    lab: &Lab<'_>,
) -> Result<Option<u8>, LabError> {
    let show = |text: &str| {
        if !arguments.quiet {
            say(text);
        }
    };
    let installed = match arguments.install {
        true => lab.install(&mut |step| show(&format!("install: {step}"))),
        false => {
            let steps = experiment.installs().into_iter();
            steps.for_each(|step| show(&format!("not run without --install: {step}")));
            Ok(None)
        }
    };
    installed.and_then(|signal| match signal {
        Some(signal) => Ok(Some(signal)),
        None => lab.run(&mut |progress| {
            if !arguments.quiet {
                on_progress(experiment, &progress);
            }
        }),
    })
}

fn on_progress(experiment: &Experiment, progress: &Progress<'_>) {
    match progress {
        Progress::Begins { .. } => {}
        Progress::Measured(ran) => say(&text::measured(experiment, ran)),
        Progress::Again(ran) => say(&text::again(experiment, ran)),
    }
}

/// How a lab that did not come to its end goes on.
fn resuming(arguments: &Arguments, results: &Results) -> String {
    let all = results.planned();
    format!(
        "{} of {all} runs are done and stand; 'lineside lab {} -o {} --resume' runs the others",
        results.runs.len(),
        arguments.file().display(),
        arguments.folder().display(),
    )
}

/// Writes table `points`, and the document.
fn keep(results: &Results, figures: &Figures, folder: &Path) -> anyhow::Result<()> {
    let tables = Folder::within(folder, &LAB)?;
    let axes = results.lab.sweep.iter();
    let mut columns: Vec<_> = axes
        .map(|axis| (axis.name.as_str(), GivenKind::Text))
        .collect();
    columns.extend([
        ("point", GivenKind::Integer),
        ("repeat", GivenKind::Integer),
        ("metric", GivenKind::Text),
        ("value", GivenKind::Float),
        ("unit", GivenKind::Text),
        ("verdict", GivenKind::Text),
    ]);
    let mut points = table(&columns);
    for run in &results.runs {
        let verdict = serde_json::to_value(run.verdict)?;
        let verdict = verdict.as_str().unwrap_or_default();
        for metric in results.lab.metrics() {
            let Some(value) = run.metrics.get(&metric.name) else {
                continue;
            };
            let axes = results.lab.sweep.iter();
            let values = axes.map(|axis| run.axes.get(&axis.name));
            let mut cells: Vec<_> = { values }
                .map(|value| value.map_or(GivenCell::Null, |value| text_cell(value)))
                .collect();
            cells.extend([
                GivenCell::Integer(run.point as i64),
                GivenCell::Integer(run.repeat.into()),
                GivenCell::Bytes(metric.name.as_bytes()),
                GivenCell::Float(*value),
                text_cell(&metric.unit),
                GivenCell::Bytes(verdict.as_bytes()),
            ]);
            tables.keep("points", push(&mut points, &cells)?)?;
        }
    }
    tables.keep("points", points.finish()?.0)?;
    tables.describe(&json_text(figures)?)
}

fn text_cell(text: &str) -> GivenCell<'_> {
    match text {
        "" => GivenCell::Null,
        text => GivenCell::Bytes(text.as_bytes()),
    }
}
