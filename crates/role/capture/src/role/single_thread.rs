//! A capture on the calling thread, without actors: the fastest on one core. With `--cores` it is
//! `on_cores` that runs.

use std::sync::Arc;

use lineside_account::{Budget, Counters, Lease};
use lineside_host::FolderError;
use lineside_measure::SharedTimes;
use lineside_port::{PortError, Receive};
use lineside_rows::{LossRow, RecordSink, RowRef, Table};
use lineside_run::{PartRotation, Parts, Step, bound_encoder, on_disk};
use lineside_store::{Removed, RunFolder};
use lineside_trace::{Runtime, Summaries, TraceEncoder};

use super::CaptureError;
use super::tally::{Discard, RowTally, Tally, Tallying};
use super::watch::Writing;
use crate::arrivals::Span;
use crate::pipeline::{Pipeline, run};
use crate::taps::Amend;
use lineside_operations::{Config, Waiting};

/// What taking frames came to.
pub(super) struct Ran {
    /// The operations, counted.
    pub(super) tally: RowTally,
    /// What `trace.json` says of it.
    pub(super) seen: Seen,
    /// Inputs that failed.
    pub(super) errors: Vec<PortError>,
    /// What the actors did; only on several cores.
    pub(super) runtime: Option<Runtime>,
    /// What the user should know of the output.
    pub(super) notes: Vec<String>,
    /// Why the output failed, if it did.
    pub(super) failure: Option<String>,
}

/// What `trace.json` says of a run, also while it goes on.
#[derive(Default)]
pub struct Seen {
    /// All counters.
    pub counters: Counters,
    /// The stamps of each input.
    pub spans: Vec<Span>,
    /// The tables.
    pub summaries: Summaries,
    /// Rows of `operations` that are in no part yet.
    pub open_rows: u64,
    /// What waits for replies.
    pub waiting: Waiting,
    /// Rows that were not to be kept any longer.
    pub removed: Removed,
}

/// A pipeline whose rows go into the tables of a folder.
type Tabling = Pipeline<Tallying<TraceEncoder<Parts>>>;

/// Everything on the calling thread, which is the fastest on one core.
pub(super) struct SingleThread<'a> {
    pub(super) folder: &'a RunFolder,
    pub(super) tables: &'a [Table],
    pub(super) trace_id: &'a str,
    pub(super) rotation: &'a PartRotation,
    pub(super) config: Config,
    pub(super) budget: &'a Budget,
    pub(super) frames_max: u64,
    /// Where latencies go, if anybody looks at them meanwhile.
    pub(super) latencies: Option<Arc<SharedTimes>>,
    /// Columns that others set.
    pub(super) amend: Option<Arc<dyn Amend>>,
}

/// A run between two bursts.
pub(super) struct AloneTurn<'a> {
    pipeline: &'a mut Tabling,
    is_last: bool,
}

impl Writing for AloneTurn<'_> {
    fn is_last(&self) -> bool {
        self.is_last
    }

    fn seen(&mut self) -> Seen {
        let encoder = &mut self.pipeline.sink_mut().next;
        let queue = encoder.sink_mut().0.queue();
        let (mut summaries, written) = (encoder.summaries(), queue.on_disk());
        on_disk(&mut summaries, &written);
        Seen {
            summaries,
            removed: written.removed,
            open_rows: encoder.open_rows(Table::Operations),
            waiting: self.pipeline.waiting(),
            counters: self.pipeline.counters().clone(),
            spans: self.pipeline.spans().to_vec(),
        }
    }

    fn take_notes(&mut self) -> Vec<String> {
        let output = self.pipeline.sink_mut().next.sink_mut();
        output.0.queue().take_notes()
    }

    fn begin_tables(&mut self) {
        self.pipeline.sink_mut().next.begin();
    }

    fn end_parts(&mut self) {
        self.pipeline.sink_mut().next.end_parts();
    }

    fn loss(&mut self, row: &LossRow) {
        self.pipeline.sink_mut().row(RowRef::Losses(row));
    }

    fn set_relieved(&mut self, is_relieved: bool) {
        self.pipeline.set_relieved(is_relieved);
    }
}

impl SingleThread<'_> {
    /// Takes all frames of `port`; `between` is called after each burst, unless the output has
    /// failed.
    pub(super) fn run<P: Receive>(
        self,
        port: &mut P,
        mut between: impl FnMut(&mut P, &mut AloneTurn<'_>) -> Step,
    ) -> Result<Ran, FolderError> {
        let rotation = self.rotation;
        let writer = rotation.writer(self.folder, self.trace_id, self.budget);
        let queue = writer.queue();
        let encoder = rotation.encoder(self.tables, self.trace_id);
        let sink = Tallying {
            tally: RowTally::default(),
            latencies: self.latencies,
            amend: self.amend,
            next: TraceEncoder::new(&encoder, Parts(writer)),
        };
        let mut memory = self.budget.lease(0);
        let mut pipeline = Pipeline::new(self.config, self.budget, sink);
        let mut failure = None;
        let errors = run(
            port,
            &mut pipeline,
            self.frames_max,
            |port, pipeline, is_last| {
                failure = bounded(pipeline, &mut memory);
                match failure {
                    Some(_) => Step::Stop,
                    None => between(port, &mut AloneTurn { pipeline, is_last }),
                }
            },
        );
        let spans = pipeline.spans().to_vec();
        pipeline.sink_mut().next.sink_mut().0.expect_last();
        let (Tallying { tally, next, .. }, counters) = pipeline.finish();
        let mut summaries = next.summaries();
        let finished = next.finish().map_err(|error| error.to_string());
        let finished = finished.and_then(|(output, whole)| {
            summaries = whole;
            output.0.finish().map_err(|error| error.to_string())
        });
        if let Err(error) = finished {
            failure.get_or_insert(error);
        }
        let written = queue.on_disk();
        on_disk(&mut summaries, &written);
        Ok(Ran {
            tally,
            seen: Seen {
                counters,
                spans,
                summaries,
                removed: written.removed,
                ..Seen::default()
            },
            errors,
            runtime: None,
            notes: queue.take_notes(),
            failure,
        })
    }
}

/// Keeps the encoder within the budget; why it cannot go on, if it cannot.
fn bounded(pipeline: &mut Tabling, memory: &mut Option<Lease>) -> Option<String> {
    let encoder = &mut pipeline.sink_mut().next;
    bound_encoder(encoder, memory);
    encoder.error().map(ToString::to_string)
}

/// Captures all frames of `port` into `tables` of a folder, with the default settings of a live
/// run's parts, until the port's end: the capture beside another role's run, which may set columns.
pub fn capture_into(
    folder: &RunFolder,
    tables: &[Table],
    trace_id: &str,
    port: &mut impl Receive,
    budget: &Budget,
    amend: Option<Arc<dyn Amend>>,
) -> Result<Seen, CaptureError> {
    let thread = SingleThread {
        folder,
        tables,
        trace_id,
        rotation: &PartRotation::LIVE,
        config: Config::default(),
        budget,
        frames_max: u64::MAX,
        latencies: None,
        amend,
    };
    let ran = thread.run(port, |_, _| Step::Continue)?;
    match ran.failure {
        Some(failure) => Err(CaptureError::Output(failure)),
        None => Ok(ran.seen),
    }
}

/// Counts the operations of all frames of `port`, and writes nothing.
pub fn tally_of(port: &mut impl Receive, budget: &Budget) -> (Tally, Counters, Vec<PortError>) {
    let config = Config {
        checksums: false,
        ..Config::default()
    };
    let sink = Tallying {
        tally: RowTally::default(),
        latencies: None,
        amend: None,
        next: Discard,
    };
    let mut pipeline = Pipeline::new(config, budget, sink);
    let errors = run(port, &mut pipeline, u64::MAX, |_, _, _| Step::Continue);
    let (Tallying { tally, .. }, counters) = pipeline.finish();
    (tally.finish(), counters, errors)
}
