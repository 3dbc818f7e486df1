//! Our own TCP over an interface: the ports and stacks of a run's workers.

use std::net::IpAddr;

use lineside_account::Budget;
use lineside_host::{Netlink, RunClock};
use lineside_port::live::{AddressBlock, Interface, LiveOptions, StampClock, Steering, open_each};
use lineside_port::{LivePort, Method, PortError};
use lineside_tcp::congestion::Congestion;
use lineside_tcp::{Config, Prefix, Stack};

use crate::client::Target;
use crate::run::Settings;
use crate::{Siblings, siblings};

/// How an interface carries our own TCP.
#[derive(Clone)]
pub struct StackSettings {
    /// Its name.
    pub interface: String,
    /// How frames are taken; `None`: AF_XDP, or AF_PACKET where that cannot be had.
    pub method: Option<Method>,
    /// Blocks of addresses from which connections come, none of them the host's.
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
    /// What was sent, or a SYN, waits at most so long for an answer.
    pub timeout_ns: Option<i64>,
    /// The most connections, if more than the plan's, as of a server.
    pub connections_max: u32,
}

impl std::fmt::Debug for StackSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StackSettings")
            .field("interface", &self.interface)
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

/// Why the stack or its interface cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StackError {
    /// The interface.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The host's own address.
    #[error(
        "{0} is the host's own address, whose kernel would reset the connections: name addresses \
         that no host has, with --address, or remove it ('ip addr del')"
    )]
    Own(IpAddr),
    /// The host's addresses cannot be listed.
    #[error("cannot list the host's addresses: {0}")]
    Netlink(std::io::Error),
    /// Too few local ends.
    #[error(
        "{needed} connections need as many pairs of local address and port, and there are {pairs}: \
         more addresses (--address), or fewer connections"
    )]
    Pairs {
        /// Connections.
        needed: u32,
        /// Pairs.
        pairs: u64,
    },
    /// More workers than queues.
    #[error(
        "{interface} has {queues} queues, and each of {workers} workers needs one: -t {queues}, or \
         'ethtool -L {interface} combined {workers}'"
    )]
    Queues {
        /// The interface.
        interface: String,
        /// Queues that it has.
        queues: usize,
        /// Workers.
        workers: u32,
    },
    /// The tables of the smallest stack.
    #[error("--memory is too little for the tables of connections: raise it")]
    Memory,
    /// Packets that the interface does not carry.
    #[error("packets of {mtu} bytes do not pass {interface}, which carries {most}")]
    Mtu {
        /// Asked for.
        mtu: usize,
        /// The interface.
        interface: String,
        /// What it carries.
        most: usize,
    },
}

/// A worker's ports and stack.
pub struct OpenStack {
    /// Its queues.
    pub ports: Vec<Box<dyn LivePort>>,
    /// Its stack.
    pub stack: Stack,
    /// Its place among the workers of a client; a server's connection stays where it came.
    pub siblings: Option<Siblings>,
}

impl StackSettings {
    /// Addresses of its blocks that are somebody else's: servers' and routers'.
    pub fn taken(&self, targets: &[Target]) -> Vec<IpAddr> {
        let targets = targets.iter().map(|&(address, _)| address);
        targets.chain(self.routers.iter().copied()).collect()
    }
}

/// Opens the interface, and makes a stack for each worker.
pub fn open_stack(
    stack: &StackSettings,
    settings: &Settings,
    clock: RunClock,
) -> Result<Vec<OpenStack>, StackError> {
    let pairs = crate::client::Locals::new(
        stack.addresses.clone(),
        stack.taken(&settings.targets),
        stack.ports.0,
        stack.ports.1,
        (0, 1),
    );
    let needed = settings.plan.connections;
    if pairs.count() < needed.into() {
        let pairs = pairs.count();
        return Err(StackError::Pairs { needed, pairs });
    }
    let (workers, budget) = (settings.workers, &settings.budget);
    let mut opened = open(stack, workers, needed, settings.secret, budget, clock)?;
    if workers > 1 {
        let places = siblings(opened.len());
        for (open, place) in opened.iter_mut().zip(places) {
            open.siblings = Some(place);
        }
    }
    Ok(opened)
}

/// Opens an interface for so many workers, whose connections are so many in all.
pub fn open(
    stack: &StackSettings,
    workers: u32,
    connections: u32,
    secret: [u64; 2],
    budget: &Budget,
    clock: RunClock,
) -> Result<Vec<OpenStack>, StackError> {
    must_not_be_the_hosts(&stack.addresses)?;
    let interface = Interface::named(&stack.interface)?;
    let blocks =
        { stack.addresses.iter() }.map(|&Prefix { address, len }| AddressBlock { address, len });
    let live = LiveOptions {
        method: stack.method,
        sockets: workers as usize,
        // Its Ethernet address is not the host's.
        promiscuous: true,
        filter: Vec::new(),
        // The host goes on using the interface.
        steering: Some(Steering::Addresses(blocks.collect())),
        transmit_max: None,
        clock: StampClock::Steady {
            ahead_ns: clock.ahead_ns(),
        },
        budget: budget.clone(),
        bytes_max: budget.limit_bytes() / 4,
    };
    let mut ports = open_each(&interface, &live)?;
    let queues = ports.len();
    if queues < workers as usize {
        return Err(StackError::Queues {
            interface: stack.interface.clone(),
            queues,
            workers,
        });
    }
    let config = config(stack, &interface, connections.div_ceil(workers))?;
    let mut opened: Vec<OpenStack> = Vec::new();
    for _ in 0..workers {
        let stack = Stack::new(config.clone(), secret, budget).ok_or(StackError::Memory)?;
        opened.push(OpenStack {
            ports: Vec::new(),
            stack,
            siblings: None,
        });
    }
    // A queue for each, and what is left over in turn.
    for (number, port) in ports.drain(..).enumerate() {
        opened[number % workers as usize].ports.push(port);
    }
    Ok(opened)
}

/// The kernel would answer for an address of its own.
fn must_not_be_the_hosts(blocks: &[Prefix]) -> Result<(), StackError> {
    let addresses = Netlink::open().and_then(|netlink| netlink.addresses());
    let addresses = addresses.map_err(StackError::Netlink)?;
    let own = addresses.iter().find(|(_, address)| {
        let is_single = |block: &Prefix| block.len == Prefix::single(block.address).len;
        // A block may hold the host's address as long as it is not the only one: it is left out.
        { blocks.iter() }.any(|block| is_single(block) && block.contains(*address))
    });
    own.map_or(Ok(()), |&(_, address)| Err(StackError::Own(address)))
}

fn config(
    stack: &StackSettings,
    interface: &Interface,
    connections: u32,
) -> Result<Config, StackError> {
    let most = interface.mtu as usize;
    let mtu = stack.mtu.unwrap_or(most);
    if mtu > most {
        return Err(StackError::Mtu {
            mtu,
            interface: stack.interface.clone(),
            most,
        });
    }
    let first = stack.addresses.first().map(|block| block.address);
    let connections = connections.max(stack.connections_max).saturating_add(64);
    Ok(Config {
        addresses: stack.addresses.clone(),
        on_link: stack.on_link.clone(),
        routers: stack.routers.clone(),
        mtu,
        receive_window_bytes: stack.window_bytes,
        nagle: false,
        congestion: stack.congestion,
        connections_max: connections,
        // Each may have a request under way.
        active_max: connections.min(1 << 20),
        half_open_max: connections.clamp(1 << 12, 1 << 18),
        time_wait_ns: stack.time_wait_ns,
        time_wait_max: 1 << 20,
        user_timeout_ns: stack.timeout_ns,
        // Their kernels leave checksums to an adapter that is not there.
        takes_offloaded: { interface.kind.as_deref() }
            .is_some_and(|kind| matches!(kind, "veth" | "tun")),
        ..Config::new(link_address(first), &[])
    })
}

/// An Ethernet address of our own, locally administered: what comes for it does not concern the
/// host's kernel.
fn link_address(first: Option<IpAddr>) -> [u8; 6] {
    let mut link_address = [2, b'L', 0, 0, 0, 0];
    match first {
        Some(IpAddr::V4(address)) => link_address[2..].copy_from_slice(&address.octets()),
        Some(IpAddr::V6(address)) => link_address[2..].copy_from_slice(&address.octets()[12..]),
        None => {}
    }
    link_address
}
