//! A folder of runs (`capture -o DIR --runs`), as `info` and the verbs that read a trace see it.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use lineside_account::harmless;
use lineside_analyze::{Zone, grouped};
use lineside_trace::{Manifest, State, manifest_text};
use serde::Serialize;

use crate::print::{say, verdict_word};

/// A run of a folder.
#[derive(Debug, Serialize)]
pub(crate) struct RunFacts {
    /// Its folder.
    #[serde(skip)]
    path: PathBuf,
    name: String,
    is_running: bool,
    /// `null`: it cannot be read.
    trace: Option<Manifest>,
}

/// Whether a folder looks like one of runs; nothing in it is read.
pub(crate) fn may_be(folder: &Path) -> bool {
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| entry.file_name().to_string_lossy().starts_with("run="))
}

/// The runs of a folder in the order of time; `None` if it is no folder of runs.
pub(crate) fn of(folder: &Path) -> Option<Vec<RunFacts>> {
    if folder.join("trace.json").exists() || folder.join("operations").is_dir() {
        return None;
    }
    let entries = fs::read_dir(folder).ok()?;
    let run = |entry: fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_run = name.starts_with("run=") && entry.file_type().ok()?.is_dir();
        let path = is_run.then(|| entry.path())?;
        let trace = path.join("trace.json");
        trace.exists().then(|| RunFacts {
            is_running: lineside_host::is_running(&path),
            trace: { manifest_text(&trace).ok() }.and_then(|text| Manifest::from_json(&text).ok()),
            path,
            name,
        })
    };
    let mut runs: Vec<_> = entries.filter_map(|entry| run(entry.ok()?)).collect();
    // A clock that was set may have given names in another order than their starts'.
    runs.sort_by(|one, other| one.key().cmp(&other.key()));
    (!runs.is_empty()).then_some(runs)
}

/// Puts the newest run in place of a folder of them, and says so.
pub(crate) fn choose(folder: &mut PathBuf) {
    let Some(runs) = of(folder) else { return };
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
    fn key(&self) -> (Option<i64>, &str) {
        let started = self.trace.as_ref().and_then(|trace| trace.started_ns);
        (started, &self.name)
    }

    fn is_dead(&self) -> bool {
        let mut trace = self.trace.iter();
        !self.is_running && trace.any(|trace| trace.verdict.state == State::Unfinished)
    }
}

/// One line a run, with its reasons, and one for each time between two.
pub(crate) fn text(runs: &[RunFacts], zone: &Zone) -> String {
    let mut out = String::new();
    let mut before: Option<&RunFacts> = None;
    for run in runs {
        let Some(trace) = &run.trace else {
            let _ = writeln!(out, "{}  trace.json cannot be read", harmless(&run.name));
            continue;
        };
        if let Some(line) = before.and_then(|before| gap(before, trace, zone)) {
            let _ = writeln!(out, "  {line}");
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
            "{}  {} {until}, {} operations: {}",
            harmless(&run.name),
            date(trace.started_ns),
            grouped(operations),
            verdict_word(&trace.verdict),
        );
        for reason in &trace.verdict.reasons {
            let _ = writeln!(out, "  {}", harmless(reason));
        }
        before = Some(run);
    }
    out
}

/// What lies between a run and the next one.
fn gap(before: &RunFacts, next: &Manifest, zone: &Zone) -> Option<String> {
    let trace = before.trace.as_ref()?;
    let is_killed = before.is_dead() || { trace.verdict.reasons.iter() }
        .any(|reason| reason.starts_with("killed:"));
    let why = if is_killed { "was killed" } else { "ended" };
    let Some((from, to)) = trace.ended_ns.zip(next.started_ns) else {
        return Some(format!("gap: the run before {why}, it is not known when"));
    };
    let seconds = (to - from) as f64 / 1e9;
    Some(match seconds < 0.0 {
        true => "the clock was set back: how long the gap is, is not known".to_owned(),
        false => format!(
            "gap: nothing is recorded from {} on for {seconds:.3} s: the run before {why}",
            zone.date(from)
        ),
    })
}
