//! `lineside compare`: what changed between two traces; and the judgement of `--assert`.

use std::path::Path;

use lineside_analyze::{Assert, Assertion, Comparison, Filter};
use lineside_host::Sandbox;
use lineside_lab::Results;
use lineside_trace::State;

use super::flags::CompareArguments;
use crate::config::ConfigError;
use crate::exit::Exit;
use crate::experiments::{self, Comparing};
use crate::junit::Junit;
use crate::print::{exit, print_csv, print_json, print_styled, say, style};

/// Calls of each kind of difference that are listed.
const CALLS_TOP: usize = 10;

pub(crate) fn run(arguments: CompareArguments) -> anyhow::Result<Exit> {
    let is_lab = Results::is_there;
    if let Some(b) = { arguments.b.as_deref() }.filter(|b| is_lab(&arguments.a) || is_lab(b)) {
        let folders = [arguments.a.as_path(), b];
        if let Some(other) = folders.into_iter().find(|folder| !is_lab(folder)) {
            let why = format!(
                "{} is no lab: compare two labs, or two traces",
                other.display()
            );
            return Err(ConfigError::usage(&why).into());
        }
        return labs(&arguments, b);
    }
    let is_of_labs = arguments.threshold.is_some() || arguments.control.is_some();
    if is_of_labs || arguments.markdown.is_some() {
        let a = arguments.a.display();
        let why = format!("--threshold, --control and --markdown are of labs, and {a} is none");
        return Err(ConfigError::usage(&why).into());
    }
    let folders = [Some(&arguments.a), arguments.b.as_ref()];
    let named = { folders.into_iter().flatten() }.fold(Sandbox::new(), |sandbox, folder| {
        sandbox.may_read_below(folder)
    });
    if arguments.html.is_some() {
        return Err(ConfigError::usage(
            "compare has no page: --json and --csv have all figures, and 'lineside report TRACE \
            --html FILE' makes a page of each trace",
        )
        .into());
    }
    if !arguments.calls && arguments.assert.iter().any(Assert::is_of_calls) {
        return Err(ConfigError::usage(
            "missing, added, other_status, other_content, later and earlier are of calls: add --calls",
        )
        .into());
    }
    let junit = Junit::open(arguments.junit.as_deref(), arguments.assert.len())?;
    let confined = { arguments.confining }.enter(named, arguments.junit.as_deref());
    let done = confined.and_then(|()| compare(&arguments));
    let (assertions, done) = done?;
    if let Some(junit) = junit {
        let b = arguments.b.as_ref().unwrap_or(&arguments.a);
        let both = format!("{} {}", arguments.a.display(), b.display());
        junit.finish("compare", &both, &assertions)?;
    }
    Ok(judged(&assertions, done))
}

/// Compares two labs.
fn labs(arguments: &CompareArguments, b: &Path) -> anyhow::Result<Exit> {
    let others = [arguments.calls, arguments.csv, arguments.html.is_some()];
    if others.contains(&true) || !arguments.assert.is_empty() {
        let why = "of two labs there is the text, --json, --markdown, --junit, --threshold and \
                   --control";
        return Err(ConfigError::usage(why).into());
    }
    let asked = Comparing {
        folders: [&arguments.a, b],
        control: arguments.control.as_deref(),
        threshold: arguments.threshold,
        is_json: arguments.json,
        markdown: arguments.markdown.as_deref(),
    };
    let read = asked.folders.into_iter().chain(asked.control);
    let named = read.fold(Sandbox::new(), Sandbox::may_read_below);
    // Its cases are the metrics at the points, of which a lab has at least one.
    let junit = Junit::open(arguments.junit.as_deref(), 1)?;
    let outs = [asked.markdown, arguments.junit.as_deref()];
    let outs: Vec<_> = outs.into_iter().flatten().collect();
    { arguments.confining }.enter_writing(named, &outs)?;
    let (state, cases) = experiments::compare(&asked)?;
    if let Some(junit) = junit {
        let both = format!("{} {}", arguments.a.display(), b.display());
        junit.finish("compare", &both, &cases)?;
    }
    Ok(state)
}

/// Prints the comparison. Returns what came of assertions, and whether all could be read.
fn compare(arguments: &CompareArguments) -> anyhow::Result<(Vec<Assertion>, Exit)> {
    let filter = arguments.filter.filter();
    let zone = filter.zone.clone();
    let (a, b) = match (&arguments.b, arguments.at) {
        (None, Some(_)) => (
            Filter {
                until: arguments.at,
                ..filter.clone()
            },
            Filter {
                since: arguments.at,
                ..filter
            },
        ),
        _ => (filter.clone(), filter),
    };
    let a = (arguments.a.as_path(), &a);
    let b = (arguments.b.as_deref().unwrap_or(&arguments.a), &b);
    let mut comparison = match arguments.calls {
        true => {
            let top = arguments.top.and_then(|top| usize::try_from(top).ok());
            lineside_analyze::compare_calls(a, b, top.unwrap_or(CALLS_TOP))?
        }
        false => lineside_analyze::compare(a, b)?,
    };
    if !arguments.assert.is_empty() {
        let calls = comparison.calls.as_ref();
        let judged = lineside_analyze::assert_both(a, b, &arguments.assert, calls)?;
        comparison.assertions = judged;
    }
    if arguments.json {
        print_json(&comparison)?;
    } else if let (true, Some(calls)) = (arguments.csv, &comparison.calls) {
        print_csv(&calls.differences)?;
    } else if arguments.csv {
        let more = arguments.full.then_some(&comparison.unchanged);
        let rows: Vec<_> = { comparison.changes.iter() }
            .flat_map(|change| &change.figures)
            .chain(more.into_iter().flatten())
            .collect();
        print_csv(&rows)?;
    } else if arguments.calls {
        print_styled(&lineside_render::compared_calls(&comparison, &style(zone)))?;
    } else {
        print_styled(&lineside_render::comparison(
            &comparison,
            arguments.full,
            &style(zone),
        ))?;
    }
    let done = match exit(&comparison.unreadable()) {
        Exit::Done => Exit::of_state(state(&comparison), arguments.strict),
        done => done,
    };
    Ok((comparison.assertions, done))
}

/// The verdict of both: that of the first that is not complete.
fn state(comparison: &Comparison) -> State {
    let states = [&comparison.a, &comparison.b].map(|side| side.verdict.unwrap_or_default());
    let worse = states.into_iter().find(|state| *state != State::Complete);
    worse.unwrap_or(State::Complete)
}

/// Says what was found of each assertion. A trace that could not be read whole has failed already:
/// what is asserted of the rest is not asserted of it.
pub(super) fn judged(assertions: &[Assertion], done: Exit) -> Exit {
    assertions.iter().for_each(|assertion| say(&assertion.what));
    match done {
        // It comes before a verdict that is not complete.
        Exit::Done | Exit::Disturbed if { assertions.iter() }.any(|each| !each.holds) => {
            Exit::Assertion
        }
        done => done,
    }
}
