//! A capture on several cores: pipelines, checksums and encoders as actors.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lineside_account::{Budget, Lease};
use lineside_actor::Report;
use lineside_host::FolderError;
use lineside_measure::SharedTimes;
use lineside_rows::{LossRow, OperationRows, RecordSink, RowRef, Table};
use lineside_run::{bound_encoder, new_part, on_disk};
use lineside_store::{PartQueue, PartWriter, RunFolder};
use lineside_trace::{
    ActorFacts, EncoderConfig, Part, PartSink, Runtime, SchedulerFacts, Summaries, TableSummary,
    TraceEncoder, TrafficFacts,
};

use super::placement::{CoreSettings, ENCODERS, Scheduler};
use super::single_thread::{Ran, Seen};
use super::tally::{RowTally, Tallying};
use super::watch::{Watch, Writing};
use super::{CaptureError, Input, Settings};
use crate::cores::{Cores, Done, Failed, Progress};
use crate::taps::Stamps;

/// What the reader and the encoders share.
#[derive(Default)]
struct Shared {
    /// How often all open parts were to end.
    rotations: AtomicU64,
    /// Rows of `operations` in the open part.
    open_rows: AtomicU64,
    summaries: Mutex<Summaries>,
}

impl Shared {
    fn summaries(&self) -> MutexGuard<'_, Summaries> {
        // A poisoned lock still holds whole summaries.
        self.summaries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes parts to the thread that writes them; the reader waits for that thread where it is slow.
struct Output {
    queue: PartQueue,
    shared: Arc<Shared>,
}

impl PartSink for Output {
    type Error = FolderError;

    fn part(&mut self, part: Part) -> Result<(), FolderError> {
        let (table, rows, bytes) = (part.table, part.rows, part.bytes_len() as u64);
        self.queue.submit(new_part(part))?;
        let mut summaries = self.shared.summaries();
        let at = summaries.iter().position(|(known, _)| *known == table);
        let at = at.unwrap_or_else(|| {
            summaries.push((table, TableSummary::default()));
            summaries.len() - 1
        });
        let summary = &mut summaries[at].1;
        summary.rows += rows;
        summary.parts += 1;
        summary.bytes += bytes;
        Ok(())
    }
}

/// The encoder of some tables, on a core of its own.
struct Encoder {
    rows: Tallying<TraceEncoder<Output>>,
    memory: Option<Lease>,
    rotations: u64,
    shared: Arc<Shared>,
}

impl Encoder {
    fn settle(&mut self, is_last: bool) -> lineside_actor::Outcome {
        let encoder = &mut self.rows.next;
        bound_encoder(encoder, &mut self.memory);
        // Relaxed: a wish, which orders nothing.
        let rotations = self.shared.rotations.load(Ordering::Relaxed);
        if is_last || std::mem::replace(&mut self.rotations, rotations) != rotations {
            encoder.end_parts();
        }
        if encoder.wants(Table::Operations) {
            let rows = encoder.open_rows(Table::Operations);
            self.shared.open_rows.store(rows, Ordering::Relaxed);
        }
        match encoder.error() {
            Some(error) => Err(error.to_string().into()),
            None => Ok(()),
        }
    }
}

impl RecordSink for Encoder {
    fn wants(&self, table: Table) -> bool {
        self.rows.wants(table)
    }

    fn on_time(&mut self, now_ns: i64) {
        self.rows.on_time(now_ns);
    }

    #[inline(always)]
    fn row(&mut self, row: RowRef<'_>) {
        self.rows.row(row);
    }

    #[inline(always)]
    fn operation(&mut self, rows: &mut impl OperationRows) {
        self.rows.operation(rows);
    }
}

/// The run between two bursts.
struct CoresTurn<'a, 'b> {
    progress: &'a mut Progress<'b>,
    shared: &'a Shared,
    queue: &'a PartQueue,
    is_last: bool,
}

impl Writing for CoresTurn<'_, '_> {
    fn is_last(&self) -> bool {
        self.is_last
    }

    fn seen(&mut self) -> Seen {
        let (mut summaries, written) = (self.shared.summaries().clone(), self.queue.on_disk());
        on_disk(&mut summaries, &written);
        Seen {
            counters: self.progress.counters(),
            spans: self.progress.spans().to_vec(),
            summaries,
            removed: written.removed,
            // Relaxed: of a moment ago, as the counters.
            open_rows: self.shared.open_rows.load(Ordering::Relaxed),
            waiting: self.progress.waiting(),
        }
    }

    fn take_notes(&mut self) -> Vec<String> {
        self.queue.take_notes()
    }

    /// Each encoder did so when it was made.
    fn begin_tables(&mut self) {}

    fn end_parts(&mut self) {
        self.shared.rotations.fetch_add(1, Ordering::Relaxed);
        self.progress.settle();
    }

    fn loss(&mut self, row: &LossRow) {
        self.progress.loss(row);
    }

    fn set_relieved(&mut self, is_relieved: bool) {
        self.progress.set_relieved(is_relieved);
    }
}

/// Few, so that a batch's checksums are computed and its rows encoded while both are in the cache.
const BATCHES_PER_ACTIVATION_MAX: usize = 2;

/// A capture on several cores.
pub(super) struct OnCores<'a> {
    pub(super) settings: &'a Settings,
    pub(super) cores: &'a CoreSettings,
    pub(super) folder: &'a RunFolder,
    pub(super) encoder: &'a EncoderConfig,
    pub(super) budget: &'a Budget,
    /// What another tap saw.
    pub(super) other_tap: Option<Arc<Stamps>>,
}

impl OnCores<'_> {
    /// Takes all frames of `port`.
    pub(super) fn run(&self, port: &mut Input, watch: &mut Watch<'_>) -> Result<Ran, CaptureError> {
        let shared = Arc::new(Shared::default());
        let (rotation, trace_id) = (&self.settings.rotation, &self.encoder.trace_id);
        let writer = rotation
            .writer(self.folder, trace_id, self.budget)
            .start()?;
        let queue = writer.queue();
        let sinks = ENCODERS.map(|(name, tables)| {
            let output = Output {
                queue: writer.queue(),
                shared: Arc::clone(&shared),
            };
            (
                name.to_owned(),
                self.encoder(tables, output, watch.latencies()),
            )
        });
        let system = self.system()?;
        let cores = Cores {
            config: self.settings.config.clone(),
            pipelines: self.cores.count,
            system,
            reader_helps: !watch.is_live(),
            sinks: sinks.into(),
            settle: Encoder::settle,
        };
        let frames_max = self.settings.frames_max;
        let done = cores.run(port, self.budget, frames_max, |port, progress, is_last| {
            // In the place of the encoders, which never wait.
            writer.wait_for_room();
            let mut turn = CoresTurn {
                progress,
                shared: &shared,
                queue: &queue,
                is_last,
            };
            watch.on_burst(port, &mut turn)
        })?;
        Ok(self.ran(done, writer, &shared))
    }

    /// The encoder of those of the tables that are wanted.
    fn encoder(
        &self,
        tables: &[Table],
        output: Output,
        latencies: Option<Arc<SharedTimes>>,
    ) -> Encoder {
        let wanted = self.encoder.tables.iter().copied();
        let config = EncoderConfig {
            tables: wanted.filter(|table| tables.contains(table)).collect(),
            ..self.encoder.clone()
        };
        let shared = Arc::clone(&output.shared);
        let mut next = TraceEncoder::new(&config, output);
        next.begin();
        Encoder {
            shared,
            rows: Tallying {
                tally: RowTally::default(),
                latencies,
                amend: self.other_tap.clone().map(|it| it as _),
                next,
            },
            memory: self.budget.lease(0),
            rotations: 0,
        }
    }

    fn system(&self) -> Result<lineside_actor::Config, Failed> {
        let schedule = self.cores.scheduler.schedule(self.cores.count)?;
        let mut system = lineside_actor::Config::new(schedule);
        system.placement.clone_from(&self.cores.placement);
        system.messages_per_activation_max = BATCHES_PER_ACTIVATION_MAX;
        // For the next run's placement; a lookup a batch.
        system.count_traffic = true;
        Ok(system)
    }

    fn ran(&self, done: Done<Encoder>, writer: PartWriter, shared: &Shared) -> Ran {
        let tally = { done.sinks.into_iter() }.map(|encoder| encoder.rows.tally);
        let tally = tally.reduce(|one, other| if one.is_empty() { other } else { one });
        let queue = writer.queue();
        let written = writer.finish().map_err(|error| error.to_string());
        let (mut summaries, kept) = (shared.summaries().clone(), queue.on_disk());
        on_disk(&mut summaries, &kept);
        Ran {
            tally: tally.unwrap_or_default(),
            seen: Seen {
                counters: done.counters,
                spans: done.spans,
                summaries,
                removed: kept.removed,
                ..Seen::default()
            },
            errors: done.errors,
            notes: queue.take_notes(),
            runtime: Some(runtime(self.cores.scheduler, &done.report)),
            failure: done.failure.or_else(|| written.err()),
        }
    }
}

fn runtime(scheduler: Scheduler, report: &Report) -> Runtime {
    let schedulers = report.schedulers.iter().map(|each| SchedulerFacts {
        messages: each.messages,
        activations: each.activations,
        steals: each.steals,
        remote_sends: each.remote_sends,
        queue_max: each.queue_max as u64,
        parks: each.parks,
        idle_ns: each.idle.as_nanos() as u64,
        total_ns: each.total.as_nanos() as u64,
    });
    let actors = report.actors.iter().map(|each| ActorFacts {
        name: each.name.clone(),
        home: each.home as u64,
        messages: each.messages,
        activations: each.activations,
        queue_max: each.run_max,
    });
    let name = |at: usize| report.actors[at].name.clone();
    let traffic = report.traffic.iter().map(|each| TrafficFacts {
        from: name(each.from),
        to: name(each.to),
        messages: each.messages,
    });
    Runtime {
        scheduler: scheduler.word().to_owned(),
        wall_ns: report.wall.as_nanos() as u64,
        schedulers: schedulers.collect(),
        actors: actors.collect(),
        traffic: traffic.collect(),
    }
}
