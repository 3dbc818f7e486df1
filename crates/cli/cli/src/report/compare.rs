//! `lineside compare`: what changed between two traces; and the judgement of `--assert`.

use lineside_analyze::{Assertion, Filter};
use lineside_host::Sandbox;

use super::flags::CompareArguments;
use crate::config::ConfigError;
use crate::exit::Exit;
use crate::junit::Junit;
use crate::print::{exit, print_csv, print_json, print_styled, say, style};

pub(crate) fn run(arguments: CompareArguments) -> anyhow::Result<Exit> {
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
    let mut comparison = lineside_analyze::compare(a, b)?;
    if !arguments.assert.is_empty() {
        comparison.assertions = lineside_analyze::assert_both(a, b, &arguments.assert)?;
    }
    if arguments.json {
        print_json(&comparison)?;
    } else if arguments.csv {
        let more = arguments.full.then_some(&comparison.unchanged);
        let rows: Vec<_> = { comparison.changes.iter() }
            .flat_map(|change| &change.figures)
            .chain(more.into_iter().flatten())
            .collect();
        print_csv(&rows)?;
    } else {
        print_styled(&lineside_render::comparison(
            &comparison,
            arguments.full,
            &style(zone),
        ))?;
    }
    let done = exit(&comparison.unreadable());
    Ok((comparison.assertions, done))
}

/// Says what was found of each assertion. A trace that could not be read whole has failed already:
/// what is asserted of the rest is not asserted of it.
pub(super) fn judged(assertions: &[Assertion], done: Exit) -> Exit {
    assertions.iter().for_each(|assertion| say(&assertion.what));
    match done {
        Exit::Done if assertions.iter().any(|assertion| !assertion.holds) => Exit::Assertion,
        done => done,
    }
}
