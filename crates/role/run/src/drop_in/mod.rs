//! Drop-in monitors: programs in any language that are given heads and write a table of their own.
//!
//! ```text
//!  frames ─► Rows, a batch ─► message, of Arrow IPC or CSV ─► PipedChild ─► program
//!                                                                             │
//!                         table monitor_NAME ◄─ GivenTable ◄─ Answer ◄────────┘
//! ```
//!
//! * A batch that finds no room is dropped, and the next one says so: see [`Pace`].
//! * A program that dies or writes what no table can hold ends alone: the run goes on.
//!
//! Not here: processes and their threads, which are the host's.

mod answer;
mod asked;
mod flat;
mod heads;
mod read;
mod read_arrow;
mod read_csv;
mod rows;
mod words;
mod write;

use std::time::Duration;

use lineside_account::{Budget, Lease};
use lineside_host::{Ended, PipedChild, Weighed};
use lineside_store::RunFolder;
use lineside_trace::{DropInFacts, TableSummary};
use lineside_wire::Dissected;

use answer::Answer;
use heads::Rows;
use write::{Body, Missed, put_arrow_end, put_arrow_schema, put_csv, put_csv_names};

pub use asked::drop_ins;
pub use read::read_rows;
pub use rows::GivenRows;
pub use words::{DropIn, DropInError, Form};

/// What drop-ins of a run are given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DropInSettings {
    /// The programs.
    pub programs: Vec<DropIn>,
    /// The first bytes, this many, of each frame besides; 0: none.
    pub bytes: usize,
}

/// How frames come, and whether they wait for a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// From interfaces or a loop, which wait for nobody: what finds no room is dropped at once.
    Live,
    /// From a pipe or a file that grows: as they come, and they wait.
    Grown,
    /// From files: they wait for a program that takes a batch a second.
    File,
}

impl Pace {
    /// How long a batch waits for room.
    fn patience(self) -> Duration {
        match self {
            Self::Live => Duration::ZERO,
            Self::Grown | Self::File => Duration::from_secs(1),
        }
    }
}

/// Heads in a batch: some 1 MB, as much as a pipe may hold.
const BATCH_HEADS: usize = 8_192;

/// Bytes of a batch that has fewer heads.
const BATCH_BYTES: usize = 1 << 20;

/// How long a head that came just now waits for its batch to fill, by the time of the heads.
const BATCH_NS: i64 = 100_000_000;

/// Bytes that wait for a program: some 40,000 heads.
const QUEUED_BYTES_MAX: usize = 4 << 20;

/// Memory for a program: its queue, as many buffers to be used again, and batches that are made.
const MEMORY_BYTES: usize = 3 * QUEUED_BYTES_MAX;

/// The drop-ins of a run.
pub(crate) struct DropIns {
    running: Vec<Running>,
    bytes: usize,
    pace: Pace,
    rows: Rows,
    batch_bytes: usize,
    body: Body,
}

/// A program that runs.
struct Running {
    program: DropIn,
    companion: Result<PipedChild<Option<TableSummary>>, String>,
    _memory: Option<Lease>,
    /// Since the batch before, and in all.
    missed: Missed,
    dropped: Weighed,
}

/// What came of drop-ins.
#[derive(Debug, Default)]
pub struct DropInReport {
    /// What their tables hold, by name.
    pub tables: Vec<(String, TableSummary)>,
    /// For `trace.json`.
    pub facts: Vec<DropInFacts>,
    /// What a user should know.
    pub warnings: Vec<String>,
}

impl DropIns {
    /// Starts the programs, whose tables go into `folder`.
    pub(crate) fn start(
        settings: &DropInSettings,
        pace: Pace,
        folder: &RunFolder,
        trace_id: &str,
        budget: &Budget,
    ) -> Self {
        let has_bytes = settings.bytes > 0;
        let start = |program: &DropIn| {
            let answer = Answer::new(&program.table(), trace_id, folder, budget);
            let form = program.form;
            let read = move |output| answer.read(form, output);
            let memory = budget.lease(MEMORY_BYTES);
            let companion = match memory {
                Some(_) => PipedChild::start(&program.command, QUEUED_BYTES_MAX, read)
                    .map_err(|error| format!("it cannot be started: {error}")),
                None => Err("it does not fit into the memory budget: raise --memory".to_owned()),
            };
            if let Ok(companion) = &companion {
                let mut head = companion.buffer();
                match form {
                    Form::Arrow => put_arrow_schema(has_bytes, &mut head),
                    Form::Csv => put_csv_names(has_bytes, &mut head),
                }
                companion.offer(head, 0, Duration::ZERO);
            }
            Running {
                program: program.clone(),
                companion,
                _memory: memory,
                missed: Missed::default(),
                dropped: Weighed::default(),
            }
        };
        Self {
            running: settings.programs.iter().map(start).collect(),
            bytes: settings.bytes,
            pace,
            rows: Rows::default(),
            batch_bytes: 0,
            body: Body::default(),
        }
    }

    /// A frame was seen at a place, by its number. `places` gives what numbers stand for.
    #[inline]
    pub(crate) fn on_frame(
        &mut self,
        (time_ns, place): (Option<i64>, u16),
        wire_bytes: u32,
        headers: &Dissected,
        bytes: &[u8],
        places: impl FnOnce() -> Vec<(String, &'static str)>,
    ) {
        let kept = &bytes[..bytes.len().min(self.bytes)];
        self.batch_bytes += kept.len();
        let lens = (wire_bytes, bytes.len() as u32);
        self.rows.push((time_ns, place), lens, headers, kept);
        let is_full = self.rows.rows.len() >= BATCH_HEADS || self.batch_bytes >= BATCH_BYTES;
        if is_full || self.pace != Pace::File && self.rows.spans(BATCH_NS) {
            self.send(&places());
        }
    }

    /// Gives the batch to each program.
    #[inline(never)]
    fn send(&mut self, places: &[(String, &'static str)]) {
        let (rows, has_bytes) = (&self.rows, self.bytes > 0);
        let heads = rows.rows.len() as u64;
        let mut is_laid_out = false;
        for running in &mut self.running {
            let Ok(companion) = &running.companion else {
                continue;
            };
            if companion.takes_nothing() {
                running.dropped.add(heads);
                continue;
            }
            let mut message = companion.buffer();
            match running.program.form {
                Form::Arrow => {
                    if !is_laid_out {
                        self.body.fill(rows, has_bytes, places);
                        is_laid_out = true;
                    }
                    self.body.put(running.missed, &mut message);
                }
                Form::Csv => put_csv(rows, has_bytes, places, running.missed, &mut message),
            }
            if companion.offer(message, heads, self.pace.patience()) {
                running.missed = Missed::default();
            } else {
                running.missed.batches += 1;
                running.missed.heads += heads;
                running.dropped.add(heads);
            }
        }
        self.rows.clear();
        self.batch_bytes = 0;
    }

    /// Gives what is left, and ends the programs.
    pub(crate) fn end(mut self, places: &[(String, &'static str)]) -> DropInReport {
        if !self.rows.rows.is_empty() {
            self.send(places);
        }
        // All of them at once: each may take some seconds.
        let ended = std::thread::scope(|scope| {
            let pace = self.pace;
            let ending = self
                .running
                .into_iter()
                .map(|running| scope.spawn(move || running.end(pace)));
            let ending: Vec<_> = ending.collect();
            let ended = ending.into_iter().filter_map(|thread| thread.join().ok());
            ended.collect::<Vec<_>>()
        });
        let mut report = DropInReport::default();
        for (program, facts, summary) in ended {
            report.warnings.extend(warnings(&facts));
            report
                .tables
                .extend(summary.map(|summary| (program.table(), summary)));
            report.facts.push(facts);
        }
        report
    }
}

impl Running {
    fn end(self, pace: Pace) -> (DropIn, DropInFacts, Option<TableSummary>) {
        let Self {
            program,
            companion,
            mut dropped,
            ..
        } = self;
        let mut facts = DropInFacts {
            name: program.name.clone(),
            command: program.command.clone(),
            ..DropInFacts::default()
        };
        let mut summary = None;
        match companion {
            Err(why) => facts.failure = Some(why),
            Ok(companion) => {
                if program.form == Form::Arrow {
                    let mut end = companion.buffer();
                    put_arrow_end(&mut end);
                    companion.offer(end, 0, pace.patience());
                }
                let Ended {
                    read,
                    failure,
                    delivered,
                    undelivered,
                } = companion.end();
                let is_open = read
                    .is_none()
                    .then(|| "its output is still open".to_owned());
                facts.failure = failure.or(is_open);
                summary = read.flatten();
                facts.heads = delivered.weight;
                dropped.batches += undelivered.batches;
                dropped.weight += undelivered.weight;
            }
        }
        facts.dropped_batches = dropped.batches;
        facts.dropped_heads = dropped.weight;
        facts.rows = summary.map_or(0, |summary| summary.rows);
        (program, facts, summary)
    }
}

/// What a user should know of a drop-in.
fn warnings(facts: &DropInFacts) -> Vec<String> {
    let mut warnings = Vec::new();
    let name = &facts.name;
    if let Some(why) = &facts.failure {
        warnings.push(format!("drop-in '{name}': {why}"));
    }
    if facts.dropped_heads > 0 {
        let why = match facts.failure {
            Some(_) => "",
            None => ": it did not read them in time",
        };
        warnings.push(format!(
            "drop-in '{name}' missed {} heads ({} batches){why}",
            facts.dropped_heads, facts.dropped_batches
        ));
    }
    if facts.failure.is_none() && facts.rows == 0 {
        warnings.push(format!("drop-in '{name}' wrote no rows"));
    }
    warnings
}

#[cfg(test)]
mod tests;
