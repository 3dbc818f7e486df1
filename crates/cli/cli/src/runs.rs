//! A folder of runs (`capture -o DIR --runs`), as `info` and the verbs that read a trace see it.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use lineside_analyze::{OneRun, Zone, gap_text, runs_of};
use lineside_render::verdict_word;
use lineside_trace::{Manifest, State};
use lineside_words::{escape, grouped};
use serde::Serialize;

use crate::print::say;

/// A run of a folder, and whether it goes on.
#[derive(Debug, Serialize)]
pub(crate) struct RunFacts {
    #[serde(flatten)]
    run: OneRun,
    is_running: bool,
}

/// The runs of a folder in the order of time; `None` if it is no folder of runs.
pub(crate) fn of(folder: &Path) -> Option<Vec<RunFacts>> {
    let facts = |run: OneRun| RunFacts {
        is_running: lineside_store::is_running(&run.path),
        run,
    };
    Some(runs_of(folder)?.into_iter().map(facts).collect())
}

/// Puts the newest run in place of a folder of them, and says so.
pub(crate) fn choose(folder: &mut PathBuf) {
    let Some(runs) = runs_of(folder) else { return };
    if let Some(newest) = runs.last() {
        say(&format!(
            "{}: the newest of {} runs is {}; 'lineside info' lists all, with the gaps between them",
            folder.display(),
            runs.len(),
            newest.name,
        ));
        folder.clone_from(&newest.path);
    }
}

impl RunFacts {
    fn is_dead(&self) -> bool {
        let mut trace = self.run.trace.iter();
        !self.is_running && trace.any(|trace| trace.verdict.state == State::Unfinished)
    }
}

/// One line a run, with its reasons, and one for each time between two.
pub(crate) fn text(runs: &[RunFacts], zone: &Zone) -> String {
    let mut out = String::new();
    let mut before: Option<&Manifest> = None;
    for run in runs {
        let name = escape(&run.run.name);
        let Some(trace) = &run.run.trace else {
            let _ = writeln!(out, "{name}  trace.json cannot be read");
            continue;
        };
        if let Some(gap) =
            { before.replace(trace) }.and_then(|before| gap_text(before, trace, zone))
        {
            let _ = writeln!(out, "  {gap}");
        }
        let date = |ns: Option<i64>| ns.map_or_else(|| "?".to_owned(), |ns| zone.date(ns));
        let until = match (run.is_running, run.is_dead()) {
            (true, _) => "goes on".to_owned(),
            (false, true) => "killed; the next start with --runs closes it".to_owned(),
            (false, false) => format!("until {}", date(trace.ended_ns)),
        };
        let operations = trace.tables.get("operations").map_or(0, |table| table.rows);
        let _ = writeln!(
            out,
            "{name}  {} {until}, {} operations: {}",
            date(trace.started_ns),
            grouped(operations),
            verdict_word(&trace.verdict),
        );
        for reason in &trace.verdict.reasons {
            let _ = writeln!(out, "  {}", escape(reason));
        }
    }
    out
}
