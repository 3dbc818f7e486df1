//! How a load and its server go: what they connect, over what, and for how long.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lineside_account::Budget;
use lineside_host::Descriptors;
use lineside_port::live::Interface;
use lineside_port::{LivePort, Method};
use lineside_reactor::{TapPort, Wait};
use lineside_tcp::Prefix;
use lineside_tcp::congestion::Congestion;

use crate::client::{Plan, Target};
use crate::error::StackError;
use crate::worker::Timing;

/// How a run's connections are made.
#[derive(Debug, Clone)]
pub enum Transport {
    /// By the kernel's sockets, from these addresses in turn, or from the one that the kernel
    /// chooses.
    Sockets {
        /// Local addresses.
        from: Vec<IpAddr>,
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
    pub(crate) fn descriptors(&self) -> u64 {
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

/// A neighbour's address, and its Ethernet address.
pub type Neighbour = (IpAddr, [u8; 6]);

/// How an interface carries our own TCP.
#[derive(Clone)]
pub struct StackSettings {
    /// Its name.
    pub interface: String,
    /// How frames are taken; `None`: AF_XDP, or AF_PACKET where that cannot be had.
    pub method: Option<Method>,
    /// Blocks of addresses from which connections come: none of them the host's, or, of a client,
    /// only the host's own, of which it then has the `ports` alone.
    pub addresses: Vec<Prefix>,
    /// Addresses that are reached without a router.
    pub on_link: Vec<Prefix>,
    /// Routers for all others.
    pub routers: Vec<IpAddr>,
    /// The first local port, and how many.
    pub ports: (u16, u32),
    /// The longest packet; `None`: the interface's.
    pub mtu: Option<usize>,
    /// The window that is offered.
    pub window_bytes: u32,
    /// How the congestion window moves.
    pub congestion: &'static dyn Congestion,
    /// Twice the maximum segment lifetime: how long a port rests after a connection that this end
    /// ended.
    pub time_wait_ns: i64,
    /// What was sent, or a SYN, waits at most this long for an answer.
    pub timeout_ns: Option<i64>,
    /// The most connections, if more than the plan's, as of a server.
    pub connections_max: u32,
    /// Ethernet addresses of neighbours, where nobody may ask for them: the stack then has that of
    /// the interface.
    pub neighbours: Option<Vec<Neighbour>>,
    /// Where a client's workers send the other ends of their taps: copies of all frames that came
    /// and left.
    pub taps: Option<Sender<Vec<TapPort>>>,
    /// What was opened before the run.
    pub opened: Opened,
}

/// An interface that is open beyond a run: opened before the first, while this process had the
/// privileges for it and one thread, and given back by the workers of a client for the next.
#[derive(Clone, Default)]
pub struct Opened(Arc<Mutex<Option<OpenInterface>>>);

/// An interface, and what was found out when it was opened.
pub(crate) struct OpenInterface {
    pub(crate) interface: Interface,
    /// Of the kernel, where nobody else may ask.
    pub(crate) neighbours: Option<Vec<Neighbour>>,
    /// By the worker that had them.
    pub(crate) ports: Vec<(u32, Vec<Box<dyn LivePort>>)>,
}

impl Opened {
    pub(crate) fn slot(&self) -> MutexGuard<'_, Option<OpenInterface>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the ports of a worker whose run is over.
    pub(crate) fn give_back(&self, worker: u32, ports: Vec<Box<dyn LivePort>>) {
        if let Some(open) = &mut *self.slot() {
            open.ports.push((worker, ports));
        }
    }

    /// Opens it, unless it is open, for this many workers; its ports in their order.
    pub(crate) fn ports(
        &self,
        workers: u32,
        open: impl FnOnce() -> Result<OpenInterface, StackError>,
    ) -> Result<Found, StackError> {
        let mut slot = self.slot();
        let kept = slot.take().filter(|open| open.count() >= workers as usize);
        let mut kept = kept.map_or_else(open, Ok)?;
        kept.ports.sort_by_key(|(worker, _)| *worker);
        let ports = { kept.ports.drain(..) }.flat_map(|(_, ports)| ports);
        let found = Found {
            ports: ports.collect(),
            interface: kept.interface.clone(),
            neighbours: kept.neighbours.clone(),
        };
        *slot = Some(kept);
        Ok(found)
    }
}

impl OpenInterface {
    fn count(&self) -> usize {
        self.ports.iter().map(|(_, ports)| ports.len()).sum()
    }
}

/// The ports of a run, and what is known of their interface.
pub(crate) struct Found {
    pub(crate) ports: Vec<Box<dyn LivePort>>,
    pub(crate) interface: Interface,
    pub(crate) neighbours: Option<Vec<Neighbour>>,
}

impl std::fmt::Debug for StackSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StackSettings")
            .field("interface", &self.interface)
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

impl StackSettings {
    /// Addresses of its blocks that are somebody else's: servers' and routers'.
    pub fn taken(&self, targets: &[Target]) -> Vec<IpAddr> {
        let targets = targets.iter().map(|&(address, _)| address);
        targets.chain(self.routers.iter().copied()).collect()
    }
}
