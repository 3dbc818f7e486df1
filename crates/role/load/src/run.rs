//! A run: the distributor starts workers, hands out their shares, and takes what they report, by
//! messages alone.

use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{channel, sync_channel};
use std::thread;
use std::time::Duration;

use lineside_account::Budget;
use lineside_host::{
    Cores, DescriptorError, Descriptors, LOOP_PRIORITY, Pinned, PrivilegeError, RunClock,
    SandboxError, TcpOptions, set_real_time_priority,
};

use lineside_port::PortError;
use lineside_reactor::{Reactor, Wait};
use lineside_time::Nanoseconds;

use crate::client::{Client, Locals, Pace, Plan, Target};
use crate::distributor::{Distributor, Held};
pub use crate::outcome::{Outcome, RunSecond};
use crate::protocol::Client as Protocol;
use crate::rows::Rows;
use crate::serve::ServeError;
use crate::stack_transport::{StackError, StackSettings, open_stack};
use crate::words::UsageError;
use crate::worker::{Ends, Load, News, Timing, WorkerResults, drive};
use crate::{CloseBy, SocketLoop, StackLoop};

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
    /// Where they stand among all workers of a load that several processes make: the number of the
    /// first one, and how many there are in all.
    pub among: (u32, u32),
    /// Keeps each worker on a core of its own.
    pub pins: bool,
    /// Has workers run before all normal threads (SCHED_FIFO).
    pub real_time: bool,
    /// What a worker does while nothing is due.
    pub wait: Wait,
    /// Of the whole load; a worker has its share of connections and requests.
    pub plan: Plan,
    /// How long it goes on.
    pub timing: Timing,
    /// Memory for frames and connections.
    pub budget: Budget,
    /// What strangers must not know of this run.
    pub secret: [u64; 2],
}

impl Settings {
    /// Descriptors that this process's share of connections needs.
    fn descriptors(&self) -> u64 {
        let share = u64::from(self.plan.connections) * u64::from(self.workers);
        share.div_ceil(self.among.1.max(1).into())
    }

    /// The most connections whose descriptors this process may open, as of now.
    pub fn connections_max(&self) -> u32 {
        match self.transport {
            Transport::Sockets { .. } => self.connections_in(Descriptors::raise().room()),
            Transport::Stack(_) => u32::MAX,
        }
    }

    /// The most connections that need no more descriptors than these.
    fn connections_in(&self, room: u64) -> u32 {
        let most = room.saturating_mul(self.among.1.max(1).into());
        u32::try_from(most / u64::from(self.workers.max(1))).unwrap_or(u32::MAX)
    }
}

/// What strangers must not know of a run.
pub fn secret() -> [u64; 2] {
    let state = RandomState::new();
    [state.hash_one(1), state.hash_one(2)]
}

/// What makes a worker's protocol, pace and rows.
pub trait Make<P>: Sync {
    /// The protocol of a worker.
    fn protocol(&self, worker: u32) -> P;
    /// The pace of a worker: its share among this many.
    fn pace(&self, worker: u32, workers: u32) -> Pace;
    /// The queue of a worker's rows, if there are any.
    fn rows(&self, _worker: u32) -> Option<Rows> {
        None
    }
}

/// Hears how a run goes on, and says when it is to stop.
pub trait Observer {
    /// So many connections are open: when requests begin to leave, at `soon` or later; `None`:
    /// never.
    fn start_at(&mut self, _open: u32, soon: Nanoseconds) -> Option<Nanoseconds> {
        Some(soon)
    }
    /// What happened in a second, of all workers.
    fn on_second(&mut self, _second: &RunSecond) {}
    /// Whether the run is to stop.
    fn stops(&mut self) -> bool {
        false
    }
}

/// Of a watch, whether the run is to stop: before requests leave, there is nothing else to report.
pub(crate) struct OnlyStops<'a>(pub(crate) &'a mut dyn Observer);

impl Observer for OnlyStops<'_> {
    fn stops(&mut self) -> bool {
        self.0.stops()
    }
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
        /// Its error.
        why: String,
    },
    /// The load went on without a part of it.
    #[error("{0}")]
    CutShort(String),
    /// The kernel's sockets cannot be watched.
    #[error("cannot wait for sockets: {0}")]
    Epoll(std::io::Error),
    /// A setting that cannot be used.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// What a protocol prepares before the load.
    #[error(transparent)]
    Prepare(Box<dyn Error + Send + Sync>),
    /// The server of a load at another interface.
    #[error(transparent)]
    Server(Box<ServeError>),
    /// Privileges cannot be dropped.
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    /// There is no sandbox although one is wanted.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// A file that cannot be made.
    #[error("{}: cannot be made", path.display())]
    File {
        /// Its name.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// More workers than cores.
    #[error("{asked} workers with a core each, and this process may use {cores}: -t {cores}")]
    Cores {
        /// Workers.
        asked: u32,
        /// Cores.
        cores: usize,
    },
}

impl LoadError {
    /// Whether other flags would help, and nothing else.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Descriptors(_)
                | Self::Usage(_)
                | Self::Cores { .. }
                | Self::Stack(
                    StackError::Own(_)
                        | StackError::Ports(..)
                        | StackError::Pairs { .. }
                        | StackError::Queues { .. }
                        | StackError::Memory
                        | StackError::TapMemory
                        | StackError::Mtu { .. }
                )
        )
    }
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
    observer: &mut dyn Observer,
) -> Result<Outcome, LoadError> {
    let client = |part: Part| {
        let protocol = make.protocol(part.worker);
        let pace = make.pace(part.worker, part.workers);
        let rows = make.rows(part.worker);
        Client::new(protocol, part.plan, pace, part.targets, part.locals, rows)
    };
    run_each(settings, &client, clock, observer)
}

/// Runs a load to its end, whose workers drive what `client` makes of their shares.
pub fn run_each<L: Load>(
    settings: &Settings,
    client: &(impl Fn(Part) -> L + Sync),
    clock: RunClock,
    observer: &mut dyn Observer,
) -> Result<Outcome, LoadError> {
    if let Transport::Sockets { .. } = settings.transport {
        Descriptors::raise().require(settings.descriptors())?;
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
                let placed = place(core, settings.real_time);
                let outcome =
                    placed.and_then(|_pinned| work(settings, client, worker, stack, clock, &ends));
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
        Distributor::new(settings, held).attend(&reports, clock, observer)
    })
}

fn pinned_cores(workers: u32) -> Result<(Cores, Vec<usize>), LoadError> {
    let cores = Cores::read().map_err(LoadError::Epoll)?;
    let asked = workers;
    let list = cores
        .for_loops(workers as usize)
        .ok_or_else(|| LoadError::Cores {
            asked,
            cores: cores.allowed().len(),
        })?;
    Ok((cores, list))
}

/// Keeps the calling thread on a core, and gives it its priority.
fn place(core: Option<(&Cores, usize)>, real_time: bool) -> Result<Option<Pinned>, String> {
    let pinned = core.map(|(cores, core)| cores.pin(core)).transpose();
    let pinned = pinned.map_err(|error| error.to_string())?;
    if real_time {
        set_real_time_priority(LOOP_PRIORITY).map_err(|error| error.to_string())?;
    }
    Ok(pinned)
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
    let (first, workers) = settings.among;
    let (number, place) = (first + worker, u64::from(first + worker));
    let share = |all: u64| all / u64::from(workers) + u64::from(place < all % u64::from(workers));
    let plan = Plan {
        connections: share(settings.plan.connections.into()) as u32,
        requests: settings.plan.requests.map(share),
        share: (place, workers.into()),
        ..settings.plan.clone()
    };
    let close_by = plan.close_by;
    let client = client(Part {
        worker: number,
        workers,
        plan,
        targets: settings.targets.clone(),
        locals: locals_of(settings, number),
    });
    match stack {
        Some(open) => {
            let mut engine = StackLoop::new(open.stack, 0, client);
            if let Some(siblings) = open.siblings {
                engine.set_siblings(siblings);
            }
            if let Some(tap) = open.tap {
                engine.set_tap(tap);
            }
            let mut reactor = Reactor::new(engine, vec![open.ports], settings.wait, false);
            let driven = drive(&mut reactor, clock, settings.timing, ends);
            let results = driven.map_err(|error| error.to_string())?;
            if let Transport::Stack(stack) = &settings.transport {
                stack
                    .opened
                    .give_back(worker, reactor.into_ports().collect());
            }
            Ok(results)
        }
        None => {
            let options = TcpOptions {
                reset_on_close: close_by == CloseBy::Rst,
                user_timeout: Some(Duration::from_nanos(settings.plan.timeout_ns.max(1) as u64)),
                ..TcpOptions::default()
            };
            let sockets = SocketLoop::new(client, options, settings.wait);
            let mut sockets = sockets.map_err(|error| LoadError::Epoll(error).to_string())?;
            sockets.stamp(clock.ahead_ns());
            drive(&mut sockets, clock, settings.timing, ends).map_err(|error| error.to_string())
        }
    }
}

/// The addresses and ports of a worker's connections; `None`: the kernel chooses.
fn locals_of(settings: &Settings, worker: u32) -> Option<Locals> {
    let share = (worker, settings.among.1);
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
