//! A run: the distributor starts workers, hands out their shares, and takes what they report, by
//! messages alone.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use lineside_account::Budget;
use lineside_host::{Cores, DescriptorError, Descriptors, RunClock, TcpOptions};
use lineside_measure::Times;
use lineside_port::PortError;
use lineside_reactor::{Reactor, Wait};
use lineside_time::{Clock, Nanoseconds};

use crate::client::{Client, Locals, Pace, Plan, Target};
use crate::protocol::Client as Protocol;
use crate::results::{Counts, RequestTimes};
use crate::rows::Rows;
use crate::stack_transport::{StackError, StackSettings, open_stack};
use crate::worker::{DriveFacts, Ends, Load, News, Order, Second, Timing, WorkerResults, drive};
use crate::{CloseBy, SocketLoop, StackLoop};

/// A worker begins so long after all were told, so that they begin together.
const START_AFTER_NS: i64 = 20_000_000;
/// The distributor looks after signals this often.
const LOOK: Duration = Duration::from_millis(50);

/// How a run's connections are made.
#[derive(Debug, Clone)]
pub enum Transport {
    /// By the kernel's sockets, from these addresses in turn, or from the one that the kernel
    /// chooses.
    Sockets {
        /// Local addresses.
        from: Vec<std::net::IpAddr>,
    },
    /// By our own TCP over an interface.
    Stack(Box<StackSettings>),
}

/// How a run goes, its protocol and its pace apart.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Servers, asked in turn.
    pub targets: Vec<Target>,
    /// How connections are made.
    pub transport: Transport,
    /// Workers, each with a thread and a share of everything.
    pub workers: u32,
    /// Keeps each worker on a core of its own.
    pub pins: bool,
    /// What a worker does while nothing is due.
    pub wait: Wait,
    /// Of the whole run; a worker has its share of connections and requests.
    pub plan: Plan,
    /// How long it goes on.
    pub timing: Timing,
    /// Memory for frames and connections.
    pub budget: Budget,
    /// What strangers must not know of this run.
    pub secret: [u64; 2],
}

/// What makes a worker's protocol, pace and rows.
pub trait Make<P>: Sync {
    /// The protocol of a worker.
    fn protocol(&self, worker: u32) -> P;
    /// The pace of a worker: its share among so many.
    fn pace(&self, worker: u32, workers: u32) -> Pace;
    /// The queue of a worker's rows, if there are any.
    fn rows(&self, _worker: u32) -> Option<Rows> {
        None
    }
}

/// Hears how a run goes on, and says when it is to stop.
pub trait Watch {
    /// Connections are open; requests leave from now on.
    fn on_start(&mut self, _open: u32) {}
    /// What happened in a second, of all workers.
    fn on_second(&mut self, _second: &RunSecond) {}
    /// Whether the run is to stop.
    fn stops(&mut self) -> bool {
        false
    }
}

/// A second of a run.
#[derive(Debug, Clone, Default)]
pub struct RunSecond {
    /// Its number, from 1.
    pub number: u32,
    /// Counts since the start.
    pub counts: Counts,
    /// Connections that are open.
    pub open: u32,
    /// Answers in this second.
    pub answered: u64,
    /// Bytes that came in this second.
    pub received_bytes: u64,
    /// Of the latencies of this second: median, 99 %, most.
    pub latency_ns: Option<[u64; 3]>,
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Counts of all workers.
    pub counts: Counts,
    /// Times of all workers.
    pub times: RequestTimes,
    /// The first departures of all workers, by their planned instants.
    pub departures: Vec<(Nanoseconds, Nanoseconds)>,
    /// Each worker's transport.
    pub transports: Vec<DriveFacts>,
    /// Processor time of all workers' threads while requests were under way.
    pub cpu_ns: i64,
    /// From the first request to the last answer.
    pub wall_ns: i64,
    /// Processor time and wall time of the busiest worker.
    pub busiest: (i64, i64),
    /// Every second.
    pub seconds: Vec<RunSecond>,
    /// When requests began to leave.
    pub started_ns: Nanoseconds,
    /// Rows that found no room.
    pub rows_dropped: u64,
    /// Bytes of memory for connections and what was under way.
    pub allocated_bytes: usize,
    /// An identity of the counts that does not hold.
    pub broken_identity: Option<&'static str>,
    /// What kept the run from being what was asked, while it went on.
    pub notes: Vec<String>,
}

/// Why a run cannot begin, or ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// More connections than descriptors.
    #[error(transparent)]
    Descriptors(#[from] DescriptorError),
    /// The stack or its interface cannot be had.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
    /// No connection opened.
    #[error("no connection to {to} opened: {why}")]
    NobodyThere {
        /// The first server.
        to: SocketAddr,
        /// What came of the tries.
        why: String,
    },
    /// A worker ended early.
    #[error("worker {number}: {why}")]
    Worker {
        /// Its number.
        number: usize,
        /// What it said.
        why: String,
    },
    /// The kernel's sockets cannot be watched.
    #[error("cannot wait for sockets: {0}")]
    Epoll(std::io::Error),
    /// More workers than cores.
    #[error("{asked} workers with a core each, and this process may use {cores}: -t {cores}")]
    Cores {
        /// Workers.
        asked: u32,
        /// Cores.
        cores: usize,
    },
}

/// Ends of the distributor's messages to a worker.
struct Held {
    orders: Sender<Order>,
    spare: std::sync::mpsc::SyncSender<Box<Times>>,
}

/// A worker's share of a run.
#[derive(Debug, Clone)]
pub struct Part {
    /// The worker's number.
    pub worker: u32,
    /// How many there are.
    pub workers: u32,
    /// Its share of the plan.
    pub plan: Plan,
    /// Servers, asked in turn.
    pub targets: Vec<Target>,
    /// The addresses and ports of its connections; `None`: the transport chooses.
    pub locals: Option<Locals>,
}

/// Runs a load of a protocol over byte streams to its end.
pub fn run<P: Protocol>(
    settings: &Settings,
    make: &impl Make<P>,
    clock: RunClock,
    watch: &mut impl Watch,
) -> Result<Outcome, LoadError> {
    let client = |part: Part| {
        let protocol = make.protocol(part.worker);
        let pace = make.pace(part.worker, part.workers);
        let rows = make.rows(part.worker);
        Client::new(protocol, part.plan, pace, part.targets, part.locals, rows)
    };
    run_each(settings, &client, clock, watch)
}

/// Runs a load to its end, whose workers drive what `client` makes of their shares.
pub fn run_each<L: Load>(
    settings: &Settings,
    client: &(impl Fn(Part) -> L + Sync),
    clock: RunClock,
    watch: &mut impl Watch,
) -> Result<Outcome, LoadError> {
    if let Transport::Sockets { .. } = settings.transport {
        Descriptors::raise().require(settings.plan.connections.into())?;
    }
    let cores = match settings.pins {
        true => Some(pinned_cores(settings.workers)?),
        false => None,
    };
    let stacks = match &settings.transport {
        Transport::Sockets { .. } => Vec::new(),
        Transport::Stack(stack) => open_stack(stack, settings, clock)?,
    };
    let mut stacks: Vec<Option<_>> = stacks.into_iter().map(Some).collect();
    thread::scope(|scope| {
        let (news, reports) = channel();
        let mut held = Vec::new();
        for worker in 0..settings.workers {
            let (orders, to_worker) = channel();
            let (spare, from_us) = sync_channel(2);
            let _ = spare.send(Box::default());
            held.push(Held { orders, spare });
            let ends = Ends {
                orders: to_worker,
                news: news.clone(),
                spare: from_us,
                number: worker as usize,
            };
            let stack = stacks.get_mut(worker as usize).and_then(Option::take);
            let core = cores
                .as_ref()
                .map(|(cores, list)| (cores, list[worker as usize]));
            let name = format!("load-{worker}");
            let work = move || {
                let _pinned = core.map(|(cores, core)| cores.pin(core));
                let outcome = work(settings, client, worker, stack, clock, &ends);
                let news = match outcome {
                    Ok(results) => News::Over(results),
                    Err(error) => News::Failed(error),
                };
                let _ = ends.news.send((ends.number, news));
            };
            let spawned = thread::Builder::new().name(name).spawn_scoped(scope, work);
            if let Err(error) = spawned {
                return Err(LoadError::Worker {
                    number: worker as usize,
                    why: format!("no thread: {error}"),
                });
            }
        }
        drop(news);
        Distributor::new(settings, held).attend(&reports, clock, watch)
    })
}

fn pinned_cores(workers: u32) -> Result<(Cores, Vec<usize>), LoadError> {
    let cores = Cores::read().map_err(LoadError::Epoll)?;
    let asked = workers;
    let list = cores.for_loops(workers as usize).ok_or(LoadError::Cores {
        asked,
        cores: cores.allowed().len(),
    })?;
    Ok((cores, list))
}

/// A worker's whole life, in its thread.
fn work<L: Load>(
    settings: &Settings,
    client: &impl Fn(Part) -> L,
    worker: u32,
    stack: Option<crate::stack_transport::OpenStack>,
    clock: RunClock,
    ends: &Ends,
) -> Result<Box<WorkerResults>, String> {
    let (workers, place) = (settings.workers, u64::from(worker));
    let share = |all: u64| all / u64::from(workers) + u64::from(place < all % u64::from(workers));
    let plan = Plan {
        connections: share(settings.plan.connections.into()) as u32,
        requests: settings.plan.requests.map(share),
        share: (place, workers.into()),
        ..settings.plan.clone()
    };
    let close_by = plan.close_by;
    let client = client(Part {
        worker,
        workers,
        plan,
        targets: settings.targets.clone(),
        locals: locals_of(settings, worker),
    });
    match stack {
        Some(open) => {
            let engine = StackLoop::new(open.stack, 0, client);
            let mut reactor = Reactor::new(engine, vec![open.ports], settings.wait, false);
            drive(&mut reactor, clock, settings.timing, ends).map_err(|error| error.to_string())
        }
        None => {
            let options = TcpOptions {
                reset_on_close: close_by == CloseBy::Rst,
                user_timeout: Some(Duration::from_nanos(settings.plan.timeout_ns.max(1) as u64)),
                ..TcpOptions::default()
            };
            let sockets = SocketLoop::new(client, options, settings.wait);
            let mut sockets = sockets.map_err(|error| LoadError::Epoll(error).to_string())?;
            drive(&mut sockets, clock, settings.timing, ends).map_err(|error| error.to_string())
        }
    }
}

/// The addresses and ports of a worker's connections; `None`: the kernel chooses.
fn locals_of(settings: &Settings, worker: u32) -> Option<Locals> {
    let share = (worker, settings.workers);
    match &settings.transport {
        Transport::Sockets { from } if from.is_empty() => None,
        Transport::Sockets { from } => {
            let blocks = { from.iter() }.map(|&address| lineside_tcp::Prefix::single(address));
            // The kernel chooses the port.
            Some(Locals::new(blocks.collect(), Vec::new(), 0, 1, (0, 1)))
        }
        Transport::Stack(stack) => {
            let taken = stack.taken(&settings.targets);
            let (first, count) = stack.ports;
            Some(Locals::new(
                stack.addresses.clone(),
                taken,
                first,
                count,
                share,
            ))
        }
    }
}

/// What the distributor knows of a run that goes on.
struct Distributor<'a> {
    settings: &'a Settings,
    held: Vec<Held>,
    ready: u32,
    open: u32,
    over: Vec<Box<WorkerResults>>,
    /// The last report of each worker.
    latest: Vec<Option<Counts>>,
    opens: Vec<u32>,
    /// Latencies of the second that goes on.
    recent: Times,
    reported: u32,
    seconds: Vec<RunSecond>,
    started_ns: Option<Nanoseconds>,
    has_stopped: bool,
}

impl<'a> Distributor<'a> {
    fn new(settings: &'a Settings, held: Vec<Held>) -> Self {
        let count = held.len();
        Self {
            settings,
            held,
            ready: 0,
            open: 0,
            over: Vec::new(),
            latest: vec![None; count],
            opens: vec![0; count],
            recent: Times::default(),
            reported: 0,
            seconds: Vec::new(),
            started_ns: None,
            has_stopped: false,
        }
    }

    /// Attends to all workers until the last one is over.
    fn attend(
        mut self,
        reports: &Receiver<(usize, News)>,
        clock: RunClock,
        watch: &mut impl Watch,
    ) -> Result<Outcome, LoadError> {
        while self.over.len() < self.held.len() {
            if watch.stops() && !self.has_stopped {
                self.has_stopped = true;
                self.tell(Order::Stop);
            }
            let Ok((number, news)) = reports.recv_timeout(LOOK) else {
                continue;
            };
            match news {
                News::Ready(open) => self.on_ready(open, clock, watch),
                News::Second(second) => self.on_second(number, *second, watch),
                News::Over(results) => self.over.push(results),
                News::Failed(why) => {
                    self.tell(Order::Stop);
                    return Err(LoadError::Worker { number, why });
                }
            }
        }
        self.outcome()
    }

    fn tell(&self, order: Order) {
        for held in &self.held {
            // A worker that is over hears nothing.
            let _ = held.orders.send(order);
        }
    }

    fn on_ready(&mut self, open: u32, clock: RunClock, watch: &mut impl Watch) {
        self.ready += 1;
        self.open += open;
        if self.ready < self.settings.workers {
            return;
        }
        let is_of_flows = self.settings.plan.opens_on_arrival;
        if self.open == 0 && !is_of_flows {
            self.has_stopped = true;
            return self.tell(Order::Stop);
        }
        let at = clock.now() + START_AFTER_NS;
        self.started_ns = Some(at);
        self.tell(Order::Start(at));
        watch.on_start(self.open);
    }

    fn on_second(&mut self, number: usize, second: Second, watch: &mut impl Watch) {
        let Second {
            counts,
            open,
            mut recent,
            ..
        } = second;
        self.recent.merge(&recent);
        recent.clear();
        let _ = self.held[number].spare.try_send(recent);
        (self.latest[number], self.opens[number]) = (Some(counts), open);
        self.reported += 1;
        // Workers report at the same instants: the last one ends the second.
        if self.reported < self.settings.workers {
            return;
        }
        self.reported = 0;
        let mut counts = Counts::default();
        for each in self.latest.iter().flatten() {
            counts.add(each);
        }
        let before = self.seconds.last();
        let since = |of: fn(&Counts) -> u64| of(&counts) - before.map_or(0, |b| of(&b.counts));
        let quantile = |share| self.recent.quantile_ns(share);
        let latency_ns = (|| Some([quantile(0.5)?, quantile(0.99)?, self.recent.max_ns()?]))();
        let second = RunSecond {
            number: self.seconds.len() as u32 + 1,
            answered: since(|counts| counts.answered),
            received_bytes: since(|counts| counts.received_bytes),
            open: self.opens.iter().sum(),
            latency_ns,
            counts,
        };
        self.recent.clear();
        watch.on_second(&second);
        self.seconds.push(second);
    }

    fn outcome(self) -> Result<Outcome, LoadError> {
        let mut counts = Counts::default();
        let mut times = RequestTimes::default();
        let mut outcome = Outcome {
            counts: Counts::default(),
            times: RequestTimes::default(),
            departures: Vec::new(),
            transports: Vec::new(),
            cpu_ns: 0,
            wall_ns: 0,
            busiest: (0, 1),
            seconds: self.seconds,
            started_ns: self.started_ns.unwrap_or(0),
            rows_dropped: 0,
            allocated_bytes: 0,
            broken_identity: None,
            notes: Vec::new(),
        };
        for worker in self.over {
            counts.add(&worker.counts);
            times.add(&worker.times);
            outcome.departures.extend(worker.departures);
            outcome.transports.push(worker.facts);
            outcome.cpu_ns += worker.cpu_ns;
            outcome.wall_ns = outcome.wall_ns.max(worker.wall_ns);
            let (cpu, wall) = outcome.busiest;
            if worker.cpu_ns as f64 * wall as f64 > cpu as f64 * worker.wall_ns.max(1) as f64 {
                outcome.busiest = (worker.cpu_ns, worker.wall_ns.max(1));
            }
            outcome.rows_dropped += worker.rows_dropped;
            outcome.allocated_bytes += worker.allocated_bytes;
            outcome.broken_identity = outcome.broken_identity.or(worker.broken_identity);
        }
        if self.started_ns.is_none() && counts.opened == 0 {
            let to = SocketAddr::from(self.settings.targets[0]);
            let why = why_none(&counts);
            return Err(LoadError::NobodyThere { to, why });
        }
        outcome.departures.sort_unstable();
        (outcome.counts, outcome.times) = (counts, times);
        Ok(outcome)
    }
}

/// What came of tries of which none opened a connection.
fn why_none(counts: &Counts) -> String {
    use crate::results::Cause;
    let most = { Cause::ALL.iter() }.max_by_key(|&&cause| counts.refused[cause as usize]);
    let count = counts.refused.iter().sum::<u64>();
    if count == 0 {
        return "the run ended before any try was over".to_owned();
    }
    match most.copied().unwrap_or(Cause::Local) {
        Cause::Reset => "it refuses them; does a server listen there?".to_owned(),
        Cause::Timeout => "it does not answer: is it the right address, does a firewall drop \
                           what comes?"
            .to_owned(),
        Cause::Unreachable => {
            "the network has no way there: 'ip route get' and 'ip neigh' say why".to_owned()
        }
        Cause::Local => "this end has no port, descriptor or memory left".to_owned(),
        cause => format!("{count} tries failed ({})", cause.name()),
    }
}
