//! `lineside capture --cores`: pipelines, checksums and encoders as actors.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lineside_account::{Budget, Lease};
use lineside_actor::Report;
use lineside_capture::{Cores, Done};
use lineside_host::{FolderError, PartQueue, PartWriter, RunFolder};
use lineside_trace::{
    ActorFacts, EncoderConfig, Part, PartSink, RecordSink, RowRef, Runtime, SchedulerFacts,
    Summaries, Table, TableSummary, TraceEncoder, TrafficFacts,
};

use super::placement::{CoreSettings, ENCODERS, Scheduler};
use super::settings::Settings;
use super::watch::{Input, Ran, Stop, Watch};
use crate::outputs::{Seen, bound_encoder};
use crate::tally::{RowTally, Tallying};

/// What the reader and the encoders tell each other.
#[derive(Default)]
struct Shared {
    /// How often all open parts were to end.
    rotations: AtomicU64,
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

/// Parts go to the thread that writes them; the reader waits for it where it is slow.
struct Output {
    queue: PartQueue,
    shared: Arc<Shared>,
}

impl PartSink for Output {
    type Error = FolderError;

    fn part(&mut self, part: Part) -> Result<(), FolderError> {
        let (table, file, bytes) = (part.table, part.file_name(), part.bytes.len() as u64);
        self.queue.submit(table.name(), &file, part.bytes)?;
        let mut summaries = self.shared.summaries();
        let at = summaries.iter().position(|(known, _)| *known == table);
        let at = at.unwrap_or_else(|| {
            summaries.push((table, TableSummary::default()));
            summaries.len() - 1
        });
        let summary = &mut summaries[at].1;
        summary.rows += part.rows;
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

    fn row(&mut self, row: RowRef<'_>) {
        self.rows.row(row);
    }
}

/// Few, so that a batch's checksums are computed and its rows encoded while both are in the cache.
const BATCHES_PER_ACTIVATION_MAX: usize = 2;

pub(crate) fn run(
    settings: &Settings,
    cores: &CoreSettings,
    folder: &RunFolder,
    config: &EncoderConfig,
    budget: &Budget,
    port: &mut Input,
    watch: &mut Watch<'_>,
) -> anyhow::Result<Ran> {
    let shared = Arc::new(Shared::default());
    let writer = PartWriter::start(folder)?;
    let encoder = |tables: &[Table]| {
        let wanted = config.tables.iter().copied();
        let config = EncoderConfig {
            tables: wanted.filter(|table| tables.contains(table)).collect(),
            ..config.clone()
        };
        let output = Output {
            queue: writer.queue(),
            shared: Arc::clone(&shared),
        };
        Encoder {
            rows: Tallying {
                tally: RowTally::default(),
                next: TraceEncoder::new(&config, output),
            },
            memory: budget.lease(0),
            rotations: 0,
            shared: Arc::clone(&shared),
        }
    };
    let sinks = ENCODERS.map(|(name, tables)| (name.to_owned(), encoder(tables)));
    let mut system = lineside_actor::Config::new(cores.scheduler.schedule(cores.count)?);
    system.placement.clone_from(&cores.placement);
    system.messages_per_activation_max = BATCHES_PER_ACTIVATION_MAX;
    // For the next run's placement; a lookup a batch.
    system.count_traffic = true;
    let cores_of = Cores {
        config: settings.config.clone(),
        pipelines: cores.count,
        system,
        reader_helps: !watch.is_live(),
        sinks: sinks.into(),
        settle: Encoder::settle,
    };
    let done = cores_of.run(
        port,
        budget,
        settings.frames_max,
        |port, progress, is_last| {
            // In the place of the encoders, which never wait.
            writer.wait_for_room();
            if watch.signals.take_rotation_wanted() {
                shared.rotations.fetch_add(1, Ordering::Relaxed);
                progress.settle();
            }
            let step = watch.look(port, is_last, || Seen {
                counters: progress.counters(),
                spans: progress.spans().to_vec(),
                summaries: shared.summaries().clone(),
            });
            for row in watch.losses.drain(..) {
                progress.loss(&row);
            }
            progress.set_relieved(watch.is_relieved);
            step
        },
    )?;
    let Done {
        sinks,
        counters,
        spans,
        errors,
        report,
        failure,
    } = done;
    if let Some(failure) = failure {
        watch.stop(Stop::Output(failure));
    }
    let tally = sinks.into_iter().map(|encoder| encoder.rows.tally);
    let tally = tally.reduce(|one, other| if one.is_empty() { other } else { one });
    if let Err(error) = writer.finish() {
        watch.stop(Stop::Output(error.to_string()));
    }
    let summaries = shared.summaries().clone();
    Ok(Ran {
        tally: tally.unwrap_or_default(),
        seen: Seen {
            counters,
            spans,
            summaries,
        },
        errors,
        runtime: Some(facts(cores.scheduler, &report)),
    })
}

fn facts(scheduler: Scheduler, report: &Report) -> Runtime {
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
