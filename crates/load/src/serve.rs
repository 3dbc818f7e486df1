//! Servers that run until they are told to stop: the other end of a load.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use lineside_account::Budget;
use lineside_host::{Descriptors, RunClock, TcpOptions};
use lineside_reactor::{Reactor, Wait};
use lineside_tcp::Refused;
use lineside_time::Clock;

use crate::protocol::Server as Protocol;
use crate::run::LoadError;
use crate::server::{Server, ServerCounts};
use crate::stack_transport::{StackSettings, open};
use crate::worker::{DriveFacts, Driver};
use crate::{ListenError, SocketLoop, StackLoop};

/// Connections that wait to be accepted, as far as `net.core.somaxconn` lets them.
const BACKLOG: u16 = 4_096;

/// Where and how a server serves.
#[derive(Debug, Clone)]
pub struct ServeSettings {
    /// Its address and port.
    pub at: SocketAddr,
    /// By our own TCP over an interface; `None`: by the kernel's sockets.
    pub stack: Option<Box<StackSettings>>,
    /// Workers, each with a listener of its own.
    pub workers: u32,
    /// What a worker does while nothing comes.
    pub wait: Wait,
    /// Memory for frames and connections.
    pub budget: Budget,
    /// What strangers must not know.
    pub secret: [u64; 2],
}

/// What came of serving.
#[derive(Debug, Default)]
pub struct Served {
    /// Counts of all workers.
    pub counts: ServerCounts,
    /// Each worker's transport.
    pub transports: Vec<DriveFacts>,
    /// Processor time of all workers.
    pub cpu_ns: i64,
}

/// Why a server cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The kernel's listener.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Our own one.
    #[error("cannot listen: {0}")]
    Stack(#[from] Refused),
    /// As of a load.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A worker ended early.
    #[error("worker {0}: {1}")]
    Worker(u32, String),
}

/// Serves until `stop` is set; `ready` hears the address when the first worker listens.
pub fn serve<P: Protocol>(
    settings: &ServeSettings,
    make: &(impl Fn() -> P + Sync),
    clock: RunClock,
    stop: &AtomicBool,
    ready: impl FnOnce(SocketAddr),
) -> Result<Served, ServeError> {
    Descriptors::raise();
    let stacks = match &settings.stack {
        None => Vec::new(),
        Some(stack) => {
            let (workers, secret) = (settings.workers, settings.secret);
            open(stack, workers, 0, secret, &settings.budget, clock).map_err(LoadError::from)?
        }
    };
    let mut stacks: Vec<Option<_>> = stacks.into_iter().map(Some).collect();
    thread::scope(|scope| {
        let (results, outcomes) = channel();
        let (addresses, first) = channel();
        for worker in 0..settings.workers {
            let stack = stacks.get_mut(worker as usize).and_then(Option::take);
            let (results, addresses) = (results.clone(), addresses.clone());
            let work = move || {
                let tell = |address| {
                    let _ = addresses.send(address);
                };
                let outcome = match stack {
                    None => serve_sockets(settings, make, clock, stop, tell),
                    Some(open) => serve_stack(settings, make, open, clock, stop, tell),
                };
                if outcome.is_err() {
                    stop.store(true, Ordering::Relaxed);
                }
                let _ = results.send((worker, outcome));
            };
            let name = format!("serve-{worker}");
            let spawned = thread::Builder::new().name(name).spawn_scoped(scope, work);
            if let Err(error) = spawned {
                stop.store(true, Ordering::Relaxed);
                return Err(ServeError::Worker(worker, format!("no thread: {error}")));
            }
        }
        drop((results, addresses));
        if let Ok(address) = first.recv() {
            ready(address);
        }
        let mut served = Served::default();
        let mut failed = None;
        for (_, outcome) in outcomes {
            match outcome {
                Ok((counts, facts, cpu_ns)) => {
                    served.counts.add(&counts);
                    served.transports.push(facts);
                    served.cpu_ns += cpu_ns;
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(served), Err)
    })
}

type WorkerOutcome = Result<(ServerCounts, DriveFacts, i64), ServeError>;

fn serve_sockets<P: Protocol>(
    settings: &ServeSettings,
    make: &(impl Fn() -> P + Sync),
    clock: RunClock,
    stop: &AtomicBool,
    ready: impl FnOnce(SocketAddr),
) -> WorkerOutcome {
    let options = TcpOptions {
        reuse_port: settings.workers > 1,
        ..TcpOptions::default()
    };
    let mut sockets = SocketLoop::new(Server::new(make()), options, settings.wait)
        .map_err(LoadError::Epoll)?;
    ready(sockets.listen(settings.at, 0, BACKLOG)?);
    drive(&mut sockets, clock, stop)
}

fn serve_stack<P: Protocol>(
    settings: &ServeSettings,
    make: &(impl Fn() -> P + Sync),
    open: crate::stack_transport::OpenStack,
    clock: RunClock,
    stop: &AtomicBool,
    ready: impl FnOnce(SocketAddr),
) -> WorkerOutcome {
    let mut stack = open.stack;
    stack.listen(Some(settings.at.ip()), settings.at.port(), 0)?;
    ready(settings.at);
    let engine = StackLoop::new(stack, 0, Server::new(make()));
    let mut reactor = Reactor::new(engine, vec![open.ports], settings.wait, false);
    drive(&mut reactor, clock, stop)
}

fn drive<P: Protocol>(
    driver: &mut impl Driver<Server<P>>,
    clock: RunClock,
    stop: &AtomicBool,
) -> WorkerOutcome {
    let mut now = || clock.now();
    while !stop.load(Ordering::Relaxed) {
        let turned = driver.turn(&mut now);
        turned.map_err(|error| ServeError::Worker(0, error.to_string()))?;
    }
    let facts = driver.facts();
    let (server, _) = driver.application_mut(now());
    Ok((server.counts(), facts, lineside_host::thread_cpu_ns()))
}
