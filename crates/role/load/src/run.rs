//! A run: the distributor starts workers, hands out their shares, and takes what they report, by
//! messages alone.

use std::sync::mpsc::{channel, sync_channel};
use std::thread;
use std::time::Duration;

use lineside_host::{
    Cores, Descriptors, LOOP_PRIORITY, Pinned, RunClock, TcpOptions, set_real_time_priority,
};
use lineside_reactor::Reactor;

use crate::client::{Client, Locals, Pace, Plan, Target};
use crate::distributor::{Distributor, Held};
use crate::error::LoadError;
use crate::outcome::{Observer, Outcome};
use crate::protocol::Client as Protocol;
use crate::rows::Rows;
use crate::settings::{Settings, Transport};
use crate::stack_transport::open_stack;
use crate::worker::{Ends, Load, News, WorkerResults, drive};
use crate::{CloseBy, SocketLoop, StackLoop};

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
