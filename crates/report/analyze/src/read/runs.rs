//! A folder of runs (`capture -o DIR --runs`), and what it comes to as one trace.
//!
//! Counters and tables add up; the verdict is the worst of the runs', with a reason more for each
//! time between two, in which nothing was recorded.

use std::fs;
use std::path::{Path, PathBuf};

use lineside_trace::{
    InputFacts, Manifest, RemovedFacts, Role, SandboxFacts, State, Verdict, manifest_text,
};
use serde::Serialize;

use crate::numbers::Zone;

/// A run of a folder.
#[derive(Debug, Clone, Serialize)]
pub struct OneRun {
    /// Its folder.
    #[serde(skip)]
    pub path: PathBuf,
    /// Its folder's name: `run=20261122T183000Z`.
    pub name: String,
    /// `trace.json`; null: it cannot be read.
    pub trace: Option<Manifest>,
}

impl OneRun {
    fn key(&self) -> (Option<i64>, &str) {
        let started = self.trace.as_ref().and_then(|trace| trace.started_ns);
        (started, &self.name)
    }
}

/// A run of a folder that a report is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunOfMany {
    /// Its folder's name.
    pub name: String,
    /// When it began.
    pub started_ns: Option<i64>,
    /// When it ended; null while it goes on.
    pub ended_ns: Option<i64>,
    /// Its verdict; null if `trace.json` cannot be read.
    pub verdict: Option<State>,
    /// Its operations.
    pub operations: u64,
    /// Whether there is a time between the run before and this one in which nothing was recorded;
    /// never of files.
    pub has_gap: bool,
    /// How long; null where it is not known, or the clock was set back.
    pub gap_ns: Option<u64>,
}

/// Whether a folder looks like one of runs; nothing in it is read.
pub fn may_be_of_runs(folder: &Path) -> bool {
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| entry.file_name().to_string_lossy().starts_with("run="))
}

/// The runs of a folder in the order of time; `None` if it is no folder of runs.
pub fn runs_of(folder: &Path) -> Option<Vec<OneRun>> {
    if folder.join("trace.json").exists() || folder.join("operations").is_dir() {
        return None;
    }
    let entries = fs::read_dir(folder).ok()?;
    let run = |entry: fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_run = name.starts_with("run=") && entry.file_type().ok()?.is_dir();
        let path = is_run.then(|| entry.path())?;
        let trace = path.join("trace.json");
        trace.exists().then(|| OneRun {
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

/// What lies between a run and the next one, in words; `None` of files, also piped in, whose frames
/// come from other times than their runs'.
pub fn gap_text(before: &Manifest, next: &Manifest, zone: &Zone) -> Option<String> {
    if !may_lie_between(before, next) {
        return None;
    }
    let is_killed = before.verdict.state == State::Unfinished || before.killed;
    let why = if is_killed { "was killed" } else { "ended" };
    let Some((from, to)) = before.ended_ns.zip(next.started_ns) else {
        return Some(format!("gap: the run before {why}, it is not known when"));
    };
    Some(match to < from {
        true => "the clock was set back: how long the gap is, is not known".to_owned(),
        false => format!(
            "gap: nothing is recorded from {} on for {:.3} s: the run before {why}",
            zone.date(from),
            to.saturating_sub(from) as f64 / 1e9
        ),
    })
}

/// What the frames of a run are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// Of the time of the run.
    Live,
    /// Of another time.
    Files,
    /// A run that was killed early does not say.
    Unknown,
}

impl Source {
    fn of(run: &Manifest) -> Self {
        let of_input = |(at, input): (usize, &InputFacts)| match (&input.live, &*input.name) {
            (Some(_), _) => Self::Live,
            (None, "-") => was_recorded(run, at).map_or(Self::Unknown, |was| match was {
                true => Self::Files,
                false => Self::Live,
            }),
            (None, _) => Self::Files,
        };
        let all: Vec<Self> = run.inputs.iter().enumerate().map(of_input).collect();
        match all.as_slice() {
            [] => Self::Unknown,
            all if all.contains(&Self::Live) => Self::Live,
            all if all.contains(&Self::Unknown) => Self::Unknown,
            _ => Self::Files,
        }
    }
}

/// Whether frames may have passed between two runs. Of two that do not say what they are of, those
/// of an interface may; a pipe may as well bring a file.
fn may_lie_between(before: &Manifest, next: &Manifest) -> bool {
    match (Source::of(before), Source::of(next)) {
        (Source::Files, _) | (_, Source::Files) => false,
        (Source::Unknown, Source::Unknown) => ![before, next].iter().any(|run| reads_pipe(run)),
        _ => true,
    }
}

/// Whether standard input is read, as far as the configuration says.
fn reads_pipe(run: &Manifest) -> bool {
    let inputs = { run.section(Role::Capture) }.and_then(|section| section["inputs"].as_array());
    let mut inputs = inputs.into_iter().flatten();
    inputs.any(|input| input.as_str() == Some("-")) || run.inputs.iter().any(|it| it.name == "-")
}

/// What a live capture that is piped in may buffer, and its clock be off.
const PIPE_LATE_NS: i64 = 60_000_000_000;

/// Whether frames of an input that is piped in were stamped long before the run, or after it: it is
/// a file, and no live capture. `None`: nothing says so.
fn was_recorded(run: &Manifest, input: usize) -> Option<bool> {
    let (first, last) =
        { run.clocks.get(input) }.and_then(|clock| clock.first_ns.zip(clock.last_ns))?;
    let before = { run.started_ns }.is_some_and(|start| last < start.saturating_sub(PIPE_LATE_NS));
    let after = { run.ended_ns }.is_some_and(|end| first > end.saturating_add(PIPE_LATE_NS));
    Some(before || after)
}

/// The runs that a report is about, each with the time before it.
pub(crate) fn of_many(runs: &[OneRun]) -> Vec<RunOfMany> {
    let mut before: Option<&Manifest> = None;
    let facts = runs.iter().map(|run| {
        let trace = run.trace.as_ref();
        let tables = trace.and_then(|trace| trace.tables.get("operations"));
        let before = std::mem::replace(&mut before, trace);
        let gap = before.zip(trace);
        let gap = gap.filter(|(before, next)| may_lie_between(before, next));
        let length_ns = |(before, next): (&Manifest, &Manifest)| {
            let (from, to) = before.ended_ns.zip(next.started_ns)?;
            u64::try_from(to.checked_sub(from)?).ok()
        };
        RunOfMany {
            name: run.name.clone(),
            started_ns: trace.and_then(|trace| trace.started_ns),
            ended_ns: trace.and_then(|trace| trace.ended_ns),
            verdict: trace.map(|trace| trace.verdict.state),
            operations: tables.map_or(0, |table| table.rows),
            has_gap: gap.is_some(),
            gap_ns: gap.and_then(length_ns),
        }
    });
    facts.collect()
}

/// What the runs are together; `None` if no `trace.json` of theirs can be read. What cannot be
/// added up is that of the newest one: what wrote it, its id, its configuration.
pub(crate) fn together(runs: &[OneRun], zone: &Zone) -> Option<Manifest> {
    let mut traces = runs.iter().filter_map(|run| run.trace.as_ref());
    let first = traces.next()?.clone();
    let mut whole = traces.fold(first, |before, trace| after(before, trace.clone()));
    whole.verdict = verdict(runs, zone);
    Some(whole)
}

/// A run with what was before it.
fn after(before: Manifest, mut run: Manifest) -> Manifest {
    for (name, of) in before.tables {
        let sum = run.tables.entry(name).or_default();
        add(&mut sum.rows, of.rows);
        add(&mut sum.parts, of.parts);
        add(&mut sum.bytes, of.bytes);
    }
    for (name, of) in before.counters {
        match run.counters.get_mut(&name) {
            Some(sum) => add(&mut sum.value, of.value),
            None => _ = run.counters.insert(name, of),
        }
    }
    run.inputs = { run.inputs.into_iter() }.fold(before.inputs, with_input);
    run.clocks = [before.clocks, run.clocks].concat();
    run.reliefs = [before.reliefs, run.reliefs].concat();
    run.drop_ins = [before.drop_ins, run.drop_ins].concat();
    run.started_ns = before.started_ns;
    run.removed = match (before.removed, run.removed) {
        (Some(old), Some(new)) => Some(RemovedFacts {
            kept_since_ns: old.kept_since_ns.max(new.kept_since_ns),
            rows: old.rows.saturating_add(new.rows),
            parts: old.parts.saturating_add(new.parts),
            bytes: old.bytes.saturating_add(new.bytes),
        }),
        (old, new) => old.or(new),
    };
    // The one of which least held.
    let held = |sandbox: &Option<SandboxFacts>| sandbox.as_ref().map(|facts| facts.holds.len());
    if held(&before.sandbox) < held(&run.sandbox) {
        run.sandbox = before.sandbox;
    }
    run
}

/// Anybody may have written a `trace.json`.
fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

/// Inputs with a further one: the same interface in the next run is the same input.
fn with_input(mut inputs: Vec<InputFacts>, next: InputFacts) -> Vec<InputFacts> {
    let queue = |input: &InputFacts| {
        input
            .live
            .as_ref()
            .map(|live| (live.queue, live.method.clone()))
    };
    let is_same = |input: &&mut InputFacts| {
        (&input.name, &input.format) == (&next.name, &next.format) && queue(input) == queue(&next)
    };
    let Some(known) = inputs.iter_mut().find(is_same) else {
        inputs.push(next);
        return inputs;
    };
    add(&mut known.frames, next.frames);
    add(&mut known.bytes, next.bytes);
    known.speed_bps = known
        .speed_bps
        .filter(|_| known.speed_bps == next.speed_bps);
    known.warnings.extend(next.warnings);
    if let (Some(sum), Some(live)) = (&mut known.live, next.live) {
        add(&mut sum.arrived, live.arrived);
        sum.filtered = sum
            .filtered
            .zip(live.filtered)
            .map(|(one, other)| one.saturating_add(other));
        add(&mut sum.dropped_interface, live.dropped_interface);
        add(&mut sum.dropped_ring, live.dropped_ring);
        add(&mut sum.dropped_pool, live.dropped_pool);
        add(&mut sum.unread, live.unread);
        add(&mut sum.clock_steps, live.clock_steps);
    }
    inputs
}

/// The worst verdict, and why, each reason with its run's name; of shares the greatest. Where
/// nothing was recorded between two runs, they are incomplete together.
fn verdict(runs: &[OneRun], zone: &Zone) -> Verdict {
    let mut verdict = Verdict {
        state: State::Complete,
        ..Verdict::default()
    };
    let mut before: Option<&Manifest> = None;
    for run in runs {
        let Some(trace) = &run.trace else {
            verdict.state = worse(verdict.state, State::Incomplete);
            let reason = format!("{}: trace.json cannot be read", run.name);
            verdict.reasons.push(reason);
            continue;
        };
        if let Some(gap) =
            { before.replace(trace) }.and_then(|before| gap_text(before, trace, zone))
        {
            verdict.state = worse(verdict.state, State::Incomplete);
            verdict.reasons.push(format!("{}: {gap}", run.name));
        }
        verdict.state = worse(verdict.state, trace.verdict.state);
        let reasons = trace.verdict.reasons.iter();
        verdict
            .reasons
            .extend(reasons.map(|reason| format!("{}: {reason}", run.name)));
        for (name, &share) in &trace.verdict.shares {
            let greatest = verdict.shares.entry(name.clone()).or_default();
            *greatest = greatest.max(share);
        }
    }
    verdict
}

fn worse(one: State, other: State) -> State {
    let rank = |state: State| match state {
        State::Complete => 0,
        State::Limited => 1,
        State::Incomplete => 2,
        State::Disturbed => 3,
        State::Unfinished => 4,
    };
    if rank(other) > rank(one) { other } else { one }
}

#[cfg(test)]
mod tests {
    use lineside_trace::ClockFacts;

    use super::*;

    #[test]
    fn a_capture_of_another_day_that_is_piped_in_is_a_file() {
        const DAY: i64 = 86_400_000_000_000;
        let run = |started_ns: i64, stamps: [i64; 2]| Manifest {
            started_ns: Some(started_ns),
            ended_ns: Some(started_ns + 1_000),
            inputs: vec![InputFacts {
                name: "-".to_owned(),
                ..InputFacts::default()
            }],
            clocks: vec![ClockFacts {
                first_ns: Some(stamps[0]),
                last_ns: Some(stamps[1]),
                ..ClockFacts::default()
            }],
            ..Manifest::default()
        };
        let gap = |stamps: fn(i64) -> [i64; 2]| {
            let runs = [10 * DAY, 11 * DAY].map(|start| run(start, stamps(start)));
            gap_text(&runs[0], &runs[1], &Zone::default())
        };
        assert_eq!(gap(|_| [DAY, DAY + 5]), None, "recorded before");
        assert_eq!(gap(|_| [90 * DAY, 91 * DAY]), None, "a clock far ahead");
        // Killed before it wrote anything: nothing shows that it was live.
        let killed = Manifest::default();
        let piped = Manifest {
            configuration: serde_json::json!({ "capture": { "inputs": ["-"] } }),
            ..Manifest::default()
        };
        assert!(gap_text(&killed, &killed, &Zone::default()).is_some());
        assert_eq!(gap_text(&piped, &piped, &Zone::default()), None);
        // tcpdump's pipe: stamps of the run, and a little before.
        assert!(gap(|start| [start - 900, start + 500]).is_some());
        assert!(
            gap(|start| [start - DAY, start + 500]).is_some(),
            "a ring since yesterday"
        );
    }
}
