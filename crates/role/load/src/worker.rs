//! A worker: one loop with one client. It gets orders (start, stop) and sends results as messages.

use std::io;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};

use lineside_host::{RunClock, thread_cpu_ns};
use lineside_port::PortError;
use lineside_reactor::Reactor;
use lineside_time::{Clock, Nanoseconds};
use serde::{Deserialize, Serialize};

use crate::application::{Application, Calls};
use crate::client::Phase;
use crate::results::{Counts, RecentTimes, RequestTimes, Results};
use crate::rows::Rows;
use crate::{SocketLoop, StackLoop};

/// A client as a worker drives it: it opens, starts, stops and ends when the worker says so, and
/// keeps its own account.
pub trait Load: Application {
    /// Opens what requests leave by. To be called at the beginning.
    fn open(&mut self, calls: &mut Calls);
    /// Whether everything of the plan is open, or was tried and failed.
    fn is_ready(&self) -> bool;
    /// Connections or flows that are open.
    fn open_connections(&self) -> u32;
    /// Where it stands.
    fn phase(&self) -> Phase;
    /// Requests leave from `at` on, and before `until`.
    fn start(&mut self, at: Nanoseconds, until: Nanoseconds, calls: &mut Calls);
    /// No further request leaves, but for those whose instants have come. Answers are waited for
    /// until [`end`](Self::end).
    fn stop(&mut self, calls: &mut Calls);
    /// The run is over: requests without an answer fail by their time, and what is open ends.
    fn end(&mut self, calls: &mut Calls);
    /// What was counted and measured.
    fn results(&mut self) -> &mut Results;
    /// The queue of rows, to hand over what is in it.
    fn rows(&mut self) -> Option<&mut Rows>;
    /// Takes the queue of rows, to [finish](Rows::finish) it.
    fn take_rows(&mut self) -> Option<Rows>;
    /// An identity of the counts that does not hold.
    fn broken_identity(&self) -> Option<&'static str>;
    /// Bytes of memory for what is open and what is under way.
    fn allocated_bytes(&self) -> usize;
}

/// A loop that drives an application.
pub trait Driver<A> {
    /// One turn.
    fn turn(&mut self, clock: &mut impl FnMut() -> Nanoseconds) -> Result<(), DriveError>;
    /// The application, to change it between two turns.
    fn application_mut(&mut self, now: Nanoseconds) -> (&mut A, &mut Calls);
    /// Connections of the transport.
    fn connections(&self) -> usize;
    /// What the transport counted and measured.
    fn facts(&mut self) -> DriveFacts;
}

/// Why a loop ended early.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The kernel's sockets cannot be watched.
    #[error("cannot wait for sockets: {0}")]
    Wait(#[from] io::Error),
}

/// What a transport counted and measured of itself.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct DriveFacts {
    /// `kernel sockets`, or the method of a port.
    pub transport: String,
    /// Requests that left at an instant of their own, those that had to wait for a window or for
    /// room, and retransmissions.
    pub timed: u64,
    /// Messages that a window, or a socket without room, held back.
    pub held_back: u64,
    /// Frames with bytes that were sent before.
    pub retransmitted: u64,
    /// Frames that this end's ports dropped or never sent.
    pub dropped: u64,
    /// Turns that came more than 1 ms after the one before, rests apart, and rests that ended far
    /// too late.
    pub stalls: u64,
    /// The longest of them.
    pub stall_max_ns: i64,
    /// All of them together.
    #[serde(default)]
    pub stalled_ns: i64,
    /// Counters of the transport, by name.
    pub counters: Vec<(String, u64)>,
}

impl<A: Application> Driver<A> for SocketLoop<A> {
    fn turn(&mut self, clock: &mut impl FnMut() -> Nanoseconds) -> Result<(), DriveError> {
        Ok(Self::turn(self, clock)?)
    }

    fn application_mut(&mut self, now: Nanoseconds) -> (&mut A, &mut Calls) {
        Self::application_mut(self, now)
    }

    fn connections(&self) -> usize {
        Self::connections(self)
    }

    fn facts(&mut self) -> DriveFacts {
        let counters = self.counters();
        DriveFacts {
            transport: "kernel sockets".to_owned(),
            timed: counters.timed,
            held_back: counters.held_back,
            stalls: counters.stalls,
            stall_max_ns: counters.stall_max_ns,
            stalled_ns: counters.stalled_ns,
            dropped: counters.overrun,
            counters: vec![("not_accepted".to_owned(), counters.not_accepted)],
            ..DriveFacts::default()
        }
    }
}

impl<A: Application> Driver<A> for Reactor<StackLoop<A>> {
    fn turn(&mut self, clock: &mut impl FnMut() -> Nanoseconds) -> Result<(), DriveError> {
        Ok(Self::turn(self, clock)?)
    }

    fn application_mut(&mut self, now: Nanoseconds) -> (&mut A, &mut Calls) {
        self.engine_mut().application_mut(now)
    }

    fn connections(&self) -> usize {
        self.engine().stack().connections()
    }

    fn facts(&mut self) -> DriveFacts {
        for port in self.ports_mut() {
            port.account();
        }
        let method = self
            .method(0)
            .map_or(String::new(), |method| method.to_string());
        let loop_facts = Self::facts(self);
        let dropped = self.ports().flat_map(|port| port.facts());
        let dropped = dropped.filter_map(|facts| facts.live.clone());
        let dropped =
            dropped.map(|live| live.dropped_interface + live.dropped_ring + live.dropped_pool);
        let counters = self.engine().counters();
        let handed = self.engine().sibling_counts();
        let own = [
            ("handed_over", handed.passed),
            ("handed_over_dropped", handed.dropped),
            ("handed_over_taken", handed.taken),
        ];
        DriveFacts {
            transport: method,
            timed: counters.timed,
            held_back: counters.held_back,
            retransmitted: counters.retransmitted,
            dropped: dropped.sum::<u64>() + loop_facts.dropped_down + loop_facts.too_long,
            stalls: loop_facts.stalls_over_1ms,
            stall_max_ns: loop_facts.stall_max_ns,
            stalled_ns: loop_facts.stalled_ns,
            counters: { self.engine().stack().counters().named().chain(own) }
                .map(|(name, count)| (name.to_owned(), count))
                .collect(),
        }
    }
}

/// An order of the distributor to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Requests leave from this instant on.
    Start(Nanoseconds),
    /// No further request leaves.
    Stop,
}

/// What a worker reports.
#[derive(Debug)]
pub enum News {
    /// Every connection is open, or was tried: this many are open.
    Ready(u32),
    /// What was counted so far, and the times since the last such report.
    Second(Box<Second>),
    /// It is over.
    Over(Box<WorkerResults>),
    /// It ended early.
    Failed(String),
}

/// A report while a run goes on.
#[derive(Debug)]
pub struct Second {
    /// When.
    pub at_ns: Nanoseconds,
    /// Counts since the start.
    pub counts: Counts,
    /// Connections that are open.
    pub open: u32,
    /// Times since the last report.
    pub recent: Box<RecentTimes>,
}

/// What a worker leaves.
#[derive(Debug)]
pub struct WorkerResults {
    /// Counts.
    pub counts: Counts,
    /// Times.
    pub times: RequestTimes,
    /// The first departures: planned, left.
    pub departures: Vec<(Nanoseconds, Nanoseconds)>,
    /// Of the transport.
    pub facts: DriveFacts,
    /// Processor time of the thread, from the start to the end of requests.
    pub cpu_ns: i64,
    /// From the start to the end of requests, as the loop found it.
    pub wall_ns: i64,
    /// From the start to the last answer, or to the end of requests if that is later.
    pub lasted_ns: i64,
    /// Times since the last report.
    pub recent: Box<RecentTimes>,
    /// Rows that found no room.
    pub rows_dropped: u64,
    /// Bytes of memory for connections and what was under way.
    pub allocated_bytes: usize,
    /// An identity of the counts that does not hold.
    pub broken_identity: Option<&'static str>,
    /// Why it ended before its time.
    pub failure: Option<String>,
}

/// How long a worker works.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Requests leave for this long; `None`: until the plan has no more.
    pub duration_ns: Option<i64>,
    /// After that, answers are waited for this long.
    pub drain_ns: i64,
    /// After that, ends of connections.
    pub linger_ns: i64,
    /// How often it reports.
    pub report_ns: i64,
}

/// Ends of a worker's messages.
pub struct Ends {
    /// From the distributor.
    pub orders: Receiver<Order>,
    /// To the distributor, with the worker's number.
    pub news: Sender<(usize, News)>,
    /// Histograms that were reported come back, emptied.
    pub spare: Receiver<Box<RecentTimes>>,
    /// The worker's number.
    pub number: usize,
}

/// Where a worker stands in its run.
struct Course {
    started: Option<Nanoseconds>,
    stop_at: Nanoseconds,
    give_up_at: Nanoseconds,
    over_at: Option<Nanoseconds>,
    report_at: Nanoseconds,
    /// When rows that wait for a full batch are handed over.
    flush_at: Nanoseconds,
    is_ready: bool,
    cpu_began_ns: i64,
    cpu_ns: i64,
}

/// Rows are handed over after this time: ten times a second, whatever the rate.
const FLUSH_NS: i64 = 100_000_000;

/// Drives a client from its first connection to its last. A loop that fails once requests leave
/// leaves what it measured by then.
pub fn drive<L: Load, D: Driver<L>>(
    driver: &mut D,
    clock: RunClock,
    timing: Timing,
    ends: &Ends,
) -> Result<Box<WorkerResults>, DriveError> {
    let mut now_of = || clock.now();
    let now = clock.now();
    let (client, calls) = driver.application_mut(now);
    client.open(calls);
    let mut course = Course {
        started: None,
        stop_at: Nanoseconds::MAX,
        give_up_at: Nanoseconds::MAX,
        over_at: None,
        report_at: Nanoseconds::MAX,
        flush_at: Nanoseconds::MAX,
        is_ready: false,
        cpu_began_ns: thread_cpu_ns(),
        cpu_ns: 0,
    };
    let mut failure = None;
    loop {
        let turned = driver.turn(&mut now_of);
        let now = clock.now();
        if let Err(error) = turned {
            if course.started.is_none() {
                return Err(error);
            }
            failure = Some(error.to_string());
            let (client, calls) = driver.application_mut(now);
            course.break_off(now, client, calls);
            break;
        }
        let connections = driver.connections();
        let (client, calls) = driver.application_mut(now);
        if course.step(now, client, calls, timing, ends, connections) {
            break;
        }
    }
    Ok(Box::new(WorkerResults {
        failure,
        ..course.results(driver, &mut now_of)
    }))
}

impl Course {
    /// What is due between two turns; whether the worker is over.
    fn step(
        &mut self,
        now: Nanoseconds,
        client: &mut impl Load,
        calls: &mut Calls,
        timing: Timing,
        ends: &Ends,
        connections: usize,
    ) -> bool {
        if !self.is_ready && client.is_ready() {
            self.is_ready = true;
            ends.tell(News::Ready(client.open_connections()));
        }
        match ends.orders.try_recv() {
            Ok(Order::Start(at)) if self.started.is_none() => {
                self.cpu_began_ns = thread_cpu_ns();
                self.started = Some(at);
                self.report_at = at.saturating_add(timing.report_ns);
                self.flush_at = at.saturating_add(FLUSH_NS);
                self.stop_at = { timing.duration_ns }.map_or(Nanoseconds::MAX, |duration_ns| {
                    at.saturating_add(duration_ns)
                });
                client.start(at, self.stop_at, calls);
            }
            Ok(Order::Start(_)) | Err(TryRecvError::Empty) => {}
            // Nobody listens any more: the same as an order to stop.
            Ok(Order::Stop) | Err(TryRecvError::Disconnected) => self.stop_at = now,
        }
        if now >= self.stop_at {
            self.stop_at = Nanoseconds::MAX;
            match client.phase() {
                Phase::Opening => client.end(calls),
                _ => client.stop(calls),
            }
        }
        match client.phase() {
            Phase::Draining if self.give_up_at == Nanoseconds::MAX => {
                self.give_up_at = now.saturating_add(timing.drain_ns);
            }
            Phase::Draining if now >= self.give_up_at => client.end(calls),
            Phase::Over if self.over_at.is_none() => {
                self.cpu_ns = thread_cpu_ns() - self.cpu_began_ns;
                self.over_at = Some(now);
            }
            _ => {}
        }
        if now >= self.report_at && self.over_at.is_none() {
            self.report_at += timing.report_ns;
            ends.report(now, client);
        }
        if now >= self.flush_at {
            self.flush_at = now.saturating_add(FLUSH_NS);
            if let Some(rows) = client.rows() {
                rows.flush();
            }
        }
        { self.over_at }.is_some_and(|over_at| connections == 0 || now - over_at > timing.linger_ns)
    }

    /// The loop has failed: requests without an answer fail now.
    fn break_off(&mut self, now: Nanoseconds, client: &mut impl Load, calls: &mut Calls) {
        client.stop(calls);
        client.end(calls);
        if self.over_at.is_none() {
            self.cpu_ns = thread_cpu_ns() - self.cpu_began_ns;
            self.over_at = Some(now);
        }
    }

    fn results<L: Load, D: Driver<L>>(
        &self,
        driver: &mut D,
        clock: &mut impl FnMut() -> Nanoseconds,
    ) -> WorkerResults {
        let facts = driver.facts();
        let (client, _) = driver.application_mut(clock());
        let broken_identity = client.broken_identity();
        let rows_dropped = client.take_rows().map_or(0, Rows::finish);
        let allocated_bytes = client.allocated_bytes();
        let Results {
            counts,
            times,
            departures,
            recent,
            ended_ns,
        } = std::mem::take(client.results());
        let (started, over) = (self.started.unwrap_or(0), self.over_at.unwrap_or(0));
        WorkerResults {
            counts,
            times,
            departures,
            facts,
            cpu_ns: self.cpu_ns,
            wall_ns: over - started,
            lasted_ns: (ended_ns - started).max(0),
            recent,
            rows_dropped,
            allocated_bytes,
            broken_identity,
            failure: None,
        }
    }
}

impl Ends {
    fn tell(&self, news: News) {
        // A distributor that is gone wants no news.
        let _ = self.news.send((self.number, news));
    }

    fn report(&self, now: Nanoseconds, client: &mut impl Load) {
        let open = client.open_connections();
        let results = client.results();
        // Without spare histograms the next report has these times too.
        if let Ok(spare) = self.spare.try_recv() {
            let recent = std::mem::replace(&mut results.recent, spare);
            let second = Second {
                at_ns: now,
                counts: results.counts.clone(),
                open,
                recent,
            };
            self.tell(News::Second(Box::new(second)));
        }
    }
}
