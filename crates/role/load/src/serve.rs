//! Servers that run until they are stopped: the other end of a load.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use lineside_host::{Descriptors, RunClock, TcpOptions};
use lineside_reactor::Reactor;
use lineside_time::{Clock, Nanoseconds};

use crate::error::{LoadError, ServeError};
use crate::one_way::SinkFigures;
use crate::protocol::{DatagramServer, Server as Protocol};
use crate::server::{Server, ServerCounts};
use crate::settings::ServeSettings;
use crate::stack_transport::{OpenStack, open_for_server};
use crate::worker::{DriveFacts, Driver};
use crate::{Application, DatagramService, SocketLoop, StackLoop};

/// Connections that wait to be accepted, as far as `net.core.somaxconn` lets them.
const BACKLOG: u16 = 4_096;
/// A server that is stopped takes what had come by then, for this long at most.
const REST_NS: Nanoseconds = 100_000_000;

/// What came of serving.
#[derive(Debug, Default)]
pub struct Served {
    /// Counts of all workers.
    pub counts: ServerCounts,
    /// Each worker's transport.
    pub transports: Vec<DriveFacts>,
    /// Processor time of all workers.
    pub cpu_ns: i64,
    /// Of stamped datagrams of one way.
    pub one_way: SinkFigures,
}

/// The server of any protocol.
pub trait Serve: Send + Sync {
    /// Serves until `stop` is set; `ready` receives the address when all workers listen.
    fn serve(
        &self,
        settings: &ServeSettings,
        clock: RunClock,
        stop: &AtomicBool,
        ready: &dyn Fn(SocketAddr),
    ) -> Result<Served, ServeError>;
}

/// Servers of a protocol over byte streams, as this makes them for each worker.
pub struct ServeStreams<F>(pub F);

impl<P: Protocol, F: Fn() -> P + Send + Sync> Serve for ServeStreams<F> {
    fn serve(
        &self,
        settings: &ServeSettings,
        clock: RunClock,
        stop: &AtomicBool,
        ready: &dyn Fn(SocketAddr),
    ) -> Result<Served, ServeError> {
        serve(settings, &self.0, clock, stop, ready)
    }
}

/// Servers of a protocol of datagrams.
pub struct ServeDatagrams<F, P> {
    /// Makes that of a worker.
    pub make: F,
    /// What it counted of stamped datagrams.
    pub figures: fn(&P) -> SinkFigures,
}

impl<P: DatagramServer, F: Fn(RunClock) -> P + Send + Sync> Serve for ServeDatagrams<F, P> {
    fn serve(
        &self,
        settings: &ServeSettings,
        clock: RunClock,
        stop: &AtomicBool,
        ready: &dyn Fn(SocketAddr),
    ) -> Result<Served, ServeError> {
        let make = || (self.make)(clock);
        let (mut served, figures) =
            serve_datagrams(settings, &make, &self.figures, clock, stop, ready)?;
        figures
            .iter()
            .for_each(|figures| served.one_way.add(figures));
        Ok(served)
    }
}

/// What differs between servers of byte streams and of datagrams.
trait Kind: Sync {
    type App: Application;
    /// What a worker leaves beside its counts.
    type Left: Send;

    fn app(&self) -> Self::App;
    fn listen(
        &self,
        sockets: &mut SocketLoop<Self::App>,
        at: SocketAddr,
    ) -> Result<SocketAddr, ServeError>;
    fn listen_by_stack(
        &self,
        stack: &mut StackLoop<Self::App>,
        at: SocketAddr,
        now: Nanoseconds,
    ) -> Result<(), ServeError>;
    fn left(&self, app: &Self::App) -> (ServerCounts, Self::Left);
}

/// Servers of byte streams, as this makes them.
struct Streams<F>(F);

impl<P: Protocol, F: Fn() -> P + Sync> Kind for Streams<F> {
    type App = Server<P>;
    type Left = ();

    fn app(&self) -> Server<P> {
        Server::new(self.0())
    }

    fn listen(
        &self,
        sockets: &mut SocketLoop<Server<P>>,
        at: SocketAddr,
    ) -> Result<SocketAddr, ServeError> {
        Ok(sockets.listen(at, 0, BACKLOG)?)
    }

    fn listen_by_stack(
        &self,
        stack: &mut StackLoop<Server<P>>,
        at: SocketAddr,
        _: Nanoseconds,
    ) -> Result<(), ServeError> {
        Ok(stack.listen((at.ip(), at.port()), 0)?)
    }

    fn left(&self, app: &Server<P>) -> (ServerCounts, ()) {
        (app.counts(), ())
    }
}

/// Servers of datagrams, as the first makes them; the second takes what they have to say.
struct Datagrams<F, G>(F, G);

impl<P, F, G, R> Kind for Datagrams<F, G>
where
    P: DatagramServer,
    F: Fn() -> P + Sync,
    G: Fn(&P) -> R + Sync,
    R: Send,
{
    type App = DatagramService<P>;
    type Left = R;

    fn app(&self) -> DatagramService<P> {
        DatagramService::new(self.0())
    }

    fn listen(
        &self,
        sockets: &mut SocketLoop<DatagramService<P>>,
        at: SocketAddr,
    ) -> Result<SocketAddr, ServeError> {
        Ok(sockets.bind((at.ip(), at.port()), None, 0)?)
    }

    fn listen_by_stack(
        &self,
        stack: &mut StackLoop<DatagramService<P>>,
        at: SocketAddr,
        now: Nanoseconds,
    ) -> Result<(), ServeError> {
        stack.bind(now, (at.ip(), at.port()), None, 0)?;
        Ok(())
    }

    fn left(&self, app: &DatagramService<P>) -> (ServerCounts, R) {
        (app.counts(), (self.1)(app.protocol()))
    }
}

/// Serves until `stop` is set; `ready` hears the address when all workers listen.
pub fn serve<P: Protocol>(
    settings: &ServeSettings,
    make: &(impl Fn() -> P + Sync),
    clock: RunClock,
    stop: &AtomicBool,
    ready: impl FnOnce(SocketAddr),
) -> Result<Served, ServeError> {
    let (served, _) = serve_each(settings, &Streams(make), clock, stop, ready)?;
    Ok(served)
}

/// The same by datagrams; `left` takes what each worker's protocol has counted and measured itself.
/// Flows of one client may come to different workers, each flow to one.
pub fn serve_datagrams<P: DatagramServer, R: Send>(
    settings: &ServeSettings,
    make: &(impl Fn() -> P + Sync),
    left: &(impl Fn(&P) -> R + Sync),
    clock: RunClock,
    stop: &AtomicBool,
    ready: impl FnOnce(SocketAddr),
) -> Result<(Served, Vec<R>), ServeError> {
    serve_each(settings, &Datagrams(make, left), clock, stop, ready)
}

fn serve_each<K: Kind>(
    settings: &ServeSettings,
    kind: &K,
    clock: RunClock,
    stop: &AtomicBool,
    ready: impl FnOnce(SocketAddr),
) -> Result<(Served, Vec<K::Left>), ServeError> {
    Descriptors::raise();
    let stacks = match &settings.stack {
        None => Vec::new(),
        Some(stack) => {
            let (workers, secret) = (settings.workers, settings.secret);
            let opened = open_for_server(stack, workers, secret, &settings.budget, clock);
            opened.map_err(LoadError::from)?
        }
    };
    let mut stacks: Vec<Option<_>> = stacks.into_iter().map(Some).collect();
    thread::scope(|scope| {
        let (results, outcomes) = channel();
        let mut at = settings.at;
        for worker in 0..settings.workers {
            let stack = stacks.get_mut(worker as usize).and_then(Option::take);
            let (address, listens) = channel();
            let results = results.clone();
            let work = move || {
                let tell = move |at| {
                    let _ = address.send(at);
                };
                let outcome = match stack {
                    None => serve_sockets(settings, kind, at, clock, stop, tell),
                    Some(open) => serve_stack(settings, kind, open, clock, stop, tell),
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
            // All have the port that the first one was given; one that fails says so below.
            at = listens.recv().unwrap_or(at);
        }
        drop(results);
        if !stop.load(Ordering::Relaxed) {
            ready(at);
        }
        let (mut served, mut all_left) = (Served::default(), Vec::new());
        let mut failed = None;
        for (_, outcome) in outcomes {
            match outcome {
                Ok(((counts, left), facts, cpu_ns)) => {
                    served.counts.add(&counts);
                    served.transports.push(facts);
                    served.cpu_ns += cpu_ns;
                    all_left.push(left);
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok((served, all_left)), Err)
    })
}

type WorkerOutcome<L> = Result<((ServerCounts, L), DriveFacts, i64), ServeError>;

fn serve_sockets<K: Kind>(
    settings: &ServeSettings,
    kind: &K,
    at: SocketAddr,
    clock: RunClock,
    stop: &AtomicBool,
    ready: impl FnOnce(SocketAddr),
) -> WorkerOutcome<K::Left> {
    let options = TcpOptions {
        reuse_port: settings.workers > 1,
        ..TcpOptions::default()
    };
    let mut sockets =
        SocketLoop::new(kind.app(), options, settings.wait).map_err(LoadError::Epoll)?;
    sockets.stamp(clock.ahead_ns());
    ready(kind.listen(&mut sockets, at)?);
    drive(&mut sockets, kind, clock, stop)
}

fn serve_stack<K: Kind>(
    settings: &ServeSettings,
    kind: &K,
    open: OpenStack,
    clock: RunClock,
    stop: &AtomicBool,
    ready: impl FnOnce(SocketAddr),
) -> WorkerOutcome<K::Left> {
    let mut engine = StackLoop::new(open.stack, 0, kind.app());
    kind.listen_by_stack(&mut engine, settings.at, clock.now())?;
    ready(settings.at);
    let mut reactor = Reactor::new(engine, vec![open.ports], settings.wait, false);
    drive(&mut reactor, kind, clock, stop)
}

fn drive<K: Kind>(
    driver: &mut impl Driver<K::App>,
    kind: &K,
    clock: RunClock,
    stop: &AtomicBool,
) -> WorkerOutcome<K::Left> {
    let mut now = || clock.now();
    let mut turn = |driver: &mut _| {
        let turned = Driver::turn(driver, &mut now);
        turned.map_err(|error| ServeError::Worker(0, error.to_string()))
    };
    while !stop.load(Ordering::Relaxed) {
        turn(driver)?;
    }
    // What clients had sent by then counts.
    let until = clock.now().saturating_add(REST_NS);
    let mut taken = None;
    loop {
        let (app, _) = driver.application_mut(clock.now());
        let left = kind.left(app);
        if taken == Some(left.0.received_bytes) || clock.now() >= until {
            return Ok((left, driver.facts(), lineside_host::thread_cpu_ns()));
        }
        taken = Some(left.0.received_bytes);
        turn(driver)?;
    }
}
