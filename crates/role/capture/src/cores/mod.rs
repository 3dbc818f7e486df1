//! The path from frames to rows on several cores, as actors.
//!
//! ```text
//!  calling thread                 actors
//!  port ─► fragments, share ─┬─► pipeline 0 ─► checksums 0 ─┬─► sink 0 ─► sink 1 ─► … ─┐
//!    ▲     of each frame     └─► pipeline 1 ─► checksums 1 ─┘                          │
//!    └──────────────────────────── empty batches ◄─────────────────────────────────────┘
//! ```
//!
//! A [`Batch`](batch::Batch) goes round: the reader fills it with frames of one pipeline, which
//! adds rows and notes blocks of file data; the checksums are computed elsewhere, sinks take the
//! rows, and it comes back. There is a fixed number of them, so the reader waits where the actors
//! are slower, and no actor ever does.
//!
//! Rows are those of a single [`Pipeline`](crate::Pipeline), ids included: each frame carries the
//! time that all inputs had reached with it, fragments are put together before they are shared out,
//! and a connection is one pipeline's alone.

mod actors;
mod batch;
mod distributor;

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use lineside_account::{Budget, Counters};
use lineside_actor::{Address, ConfigError, Guest, Outcome, Report, RunError, Schedule, System};
use lineside_flow::Fragments;
use lineside_frame::Burst;
use lineside_operations::{Config, Waiting};
use lineside_port::{PortError, Receive};
use lineside_rows::{LossRow, RecordSink, RowBuffer, Table};
use lineside_run::{Consumer, Moment, Step, receive_all};

use crate::arrivals::{Arrivals, Span};
use crate::pipeline::Flows;
use actors::{ChecksumActor, PipelineActor, SinkActor};
use batch::{BATCH_BYTES, Batch, Gather, Next, ToSink};
use distributor::{Distributor, Ended, Share};

/// Called after each batch that a sink took, when [`Progress::settle`] says so, and with true after
/// the last one. An error stops the run.
pub type Settle<S> = fn(&mut S, bool) -> Outcome;

/// A capture on several cores, to be [run](Self::run).
pub struct Cores<S> {
    /// What decides the rows. Bounds that count connections or calls hold for each pipeline.
    pub config: Config,
    /// How many pipelines share the connections.
    pub pipelines: usize,
    /// Who runs the actors. Their names, for the placement: `pipeline-0`, `checksums-0` and so on,
    /// and those of the sinks.
    pub system: lineside_actor::Config,
    /// The reading thread is one of the stealing schedulers: it runs actors where it would wait for
    /// them. For inputs that wait for their reader.
    pub reader_helps: bool,
    /// Where rows go, by name. Each is an actor and is given the rows of all tables that it wants,
    /// batch by batch, those of different pipelines in any order.
    pub sinks: Vec<(String, S)>,
    /// See [`Settle`].
    pub settle: Settle<S>,
}

/// What a capture on several cores came to.
pub struct Done<S> {
    /// The sinks, in their order.
    pub sinks: Vec<S>,
    /// All counters.
    pub counters: Counters,
    /// The stamps seen of each input.
    pub spans: Vec<Span>,
    /// An input that failed ended there, and the others went on.
    pub errors: Vec<PortError>,
    /// What the actors did.
    pub report: Report,
    /// The actor that failed, and why, if one did: then the rest of the input was not read, and the
    /// sinks have what came before.
    pub failure: Option<String>,
}

/// A capture that could not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failed {
    /// The system of actors cannot run as it was asked to.
    #[error(transparent)]
    System(#[from] ConfigError),
    /// The budget does not bear a batch for each pipeline.
    #[error("the memory budget does not bear {0} pipelines: each needs {kib} KiB; give more \
        memory, or fewer cores", kib = BATCH_BYTES >> 10)]
    Memory(usize),
    /// There is nobody to take rows.
    #[error("a capture needs a sink")]
    NoSink,
    /// The thread that waits for the actors could not start.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

/// What is known while the run goes on.
pub struct Progress<'a>(&'a mut Distributor);

impl Progress<'_> {
    /// All counters, as of the batches that came back.
    pub fn counters(&self) -> Counters {
        self.0.counters()
    }

    /// What waits for replies, as of those batches.
    pub fn waiting(&self) -> Waiting {
        self.0.waiting()
    }

    /// The stamps seen of each input, by its number.
    pub fn spans(&self) -> &[Span] {
        self.0.spans()
    }

    /// Adds a row to the table `losses`: frames that a port dropped.
    pub fn loss(&mut self, row: &LossRow) {
        // If the run has ended, the next burst fails.
        let _ = self.0.on_loss(row);
    }

    /// Whether data that comes from now on goes without checksums, because the run is behind.
    pub fn set_relieved(&mut self, is_relieved: bool) {
        self.0.is_relieved = is_relieved;
    }

    /// Sends what waits for a full batch, and lets every sink settle now, batch or not.
    pub fn settle(&mut self) {
        // If the run has ended, the next burst fails.
        let _ = self.0.settle();
    }
}

impl<S: RecordSink + Send + 'static> Cores<S> {
    /// Reads `port` on the calling thread until its end, until `frames_max` frames, or until
    /// `between`, called after each burst and, with true, after the last one, says so. What the
    /// actors draw comes from `budget`.
    ///
    /// Under [`Schedule::Simulated`] everything is read before the run begins: for small inputs
    /// that lie in memory of their own.
    pub fn run<P: Receive>(
        self,
        port: &mut P,
        budget: &Budget,
        frames_max: u64,
        between: impl FnMut(&mut P, &mut Progress<'_>, bool) -> Step,
    ) -> Result<Done<S>, Failed> {
        let is_simulated = matches!(self.system.schedule, Schedule::Simulated { .. });
        let Graph {
            system,
            mut distributor,
            home,
        } = self.graph(budget, is_simulated)?;
        let (errors, counters, spans, ran) = if is_simulated {
            let errors = read(port, &mut distributor, frames_max, between);
            let ran = system.run();
            distributor.collect();
            let spans = distributor.spans().to_vec();
            (errors, distributor.counters(), spans, ran)
        } else {
            thread::scope(|scope| {
                let actors = thread::Builder::new().name("actors".to_owned());
                let actors = actors.spawn_scoped(scope, || system.run())?;
                // Moved here: with its handle it keeps the run from ending, also if reading panics.
                let mut distributor = distributor;
                let errors = read(port, &mut distributor, frames_max, between);
                // The sinks of a run that has stopped end without a message.
                let _ = distributor.tell_sinks(true);
                let (counters, spans) = (distributor.counters(), distributor.spans().to_vec());
                drop(distributor);
                let ran = actors.join();
                // Handlers' panics are caught, so this one is the runtime's own.
                let ran = ran.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                Ok::<_, Failed>((errors, counters, spans, ran))
            })?
        };
        let (report, failure) = match ran {
            Ok(report) => (report, None),
            Err(RunError {
                actor,
                cause,
                report,
            }) => (*report, Some(format!("actor '{actor}' failed: {cause}"))),
        };
        Ok(Done {
            sinks: home.try_iter().collect(),
            counters,
            spans,
            errors,
            report,
            failure,
        })
    }

    /// Creates the actors, each after those that it sends to: so they also stop in the order of the
    /// flow.
    fn graph(self, budget: &Budget, is_simulated: bool) -> Result<Graph<S>, Failed> {
        let config = self.config;
        let free: Option<Vec<_>> = (0..self.pipelines).map(|_| Batch::new(budget)).collect();
        let free = free.ok_or(Failed::Memory(self.pipelines))?;
        if self.sinks.is_empty() {
            return Err(Failed::NoSink);
        }
        let mut system = System::new(self.system)?;
        // Nothing fails from here on: a guest without a run would wait for it.
        let guest = self.reader_helps.then(|| system.guest()).flatten();
        let (to_reader, returned) = channel();
        let (to_home, home) = channel();
        let wants = |table: &Table| self.sinks.iter().any(|(_, sink)| sink.wants(*table));
        let wanted: Vec<Table> = Table::ALL.iter().copied().filter(wants).collect();
        let mut sinks: Vec<Address<ToSink>> = Vec::new();
        for (name, sink) in self.sinks.into_iter().rev() {
            let next = match sinks.last() {
                Some(next) => Next::Sink(next.clone()),
                None => Next::Reader(to_reader.clone(), guest.as_ref().and_then(Guest::waker)),
            };
            let actor = SinkActor {
                sink: Some(sink),
                settle: self.settle,
                next,
                now: i64::MIN,
                ended: false,
                home: to_home.clone(),
            };
            sinks.push(system.spawn(name, actor));
        }
        let first = sinks.last().expect("there is a sink");
        let flows = || {
            let gather = Gather {
                wanted: wanted.clone(),
                rows: RowBuffer::default(),
            };
            Flows::new(config.clone(), budget, gather)
        };
        let pipelines = spawn_pipelines(&mut system, self.pipelines, first, flows);
        let distributor = Distributor {
            handle: system.handle(),
            pipelines,
            sinks,
            returned,
            free,
            to_make: 3 * self.pipelines + BATCHES_BESIDES,
            under_way: 0,
            is_simulated,
            budget: budget.clone(),
            arrivals: Arrivals::default(),
            fragments: Fragments::new(&config.flow, budget),
            counters: Counters::new(),
            wants_packets: wanted.contains(&Table::Packets),
            ending: false,
            sent_time_ns: i64::MIN,
            is_relieved: false,
            guest,
        };
        Ok(Graph {
            system,
            distributor,
            home,
        })
    }
}

/// Creates the pipelines, each with the actor that computes its checksums.
fn spawn_pipelines(
    system: &mut System,
    count: usize,
    first_sink: &Address<ToSink>,
    flows: impl Fn() -> Flows<Gather>,
) -> Vec<Share> {
    let checksums: Vec<_> = (0..count)
        .map(|index| {
            let next = first_sink.clone();
            system.spawn(format!("checksums-{index}"), ChecksumActor { next })
        })
        .collect();
    let pipelines = checksums.into_iter().enumerate().map(|(index, checksums)| {
        let flows = flows();
        let actor = PipelineActor {
            flows,
            checksums,
            waiting: Waiting::default(),
            looked_ns: i64::MIN,
            is_behind: false,
            later: VecDeque::new(),
        };
        Share {
            to: system.spawn(format!("pipeline-{index}"), actor),
            open: None,
            counters: Counters::new(),
            waiting: Waiting::default(),
        }
    });
    pipelines.collect()
}

/// Batches beside those of the pipelines, of which each has one that is filled, one at hand, one
/// whose checksums are computed and one that waits: some for the sinks. A guess.
const BATCHES_BESIDES: usize = 8;

/// The actors and both ends of their work.
struct Graph<S> {
    system: System,
    distributor: Distributor,
    home: Receiver<S>,
}

/// Reads until the end, and lets everything become rows. The run reports an actor's failure that
/// cut this short.
fn read<P: Receive>(
    port: &mut P,
    distributor: &mut Distributor,
    frames_max: u64,
    mut between: impl FnMut(&mut P, &mut Progress<'_>, bool) -> Step,
) -> Vec<PortError> {
    let mut reader = Reader {
        distributor,
        has_ended: false,
    };
    let errors = receive_all(port, &mut reader, frames_max, |port, reader, moment| {
        let mut progress = Progress(reader.distributor);
        between(port, &mut progress, moment == Moment::Last)
    });
    if !reader.has_ended {
        let _ = reader.distributor.finish();
    }
    errors
}

/// Passes frames to the distributor until the actors end.
struct Reader<'a> {
    distributor: &'a mut Distributor,
    has_ended: bool,
}

impl Reader<'_> {
    fn step(&mut self, done: Result<(), Ended>) -> Step {
        self.has_ended |= done.is_err();
        match self.has_ended {
            true => Step::Stop,
            false => Step::Continue,
        }
    }
}

impl Consumer for Reader<'_> {
    fn on_burst(&mut self, burst: &mut Burst) -> Step {
        let done = self.distributor.on_burst(burst);
        self.step(done)
    }

    fn on_pool_empty(&mut self) -> Step {
        let done = self.distributor.relieve();
        self.step(done)
    }

    fn on_idle(&mut self, until_ns: i64) -> Step {
        let done = self.distributor.on_idle(until_ns);
        self.step(done)
    }
}
