//! Our own TCP over an interface: the ports and stacks of a run's workers.

use std::net::IpAddr;
use std::time::Duration;

use lineside_account::Budget;
use lineside_host::{Netlink, RunClock, ports_in_use};
use lineside_port::LivePort;
use lineside_port::live::{AddressBlock, Interface, LiveOptions, StampClock, Steering, open_each};
use lineside_reactor::{Tap, TapPoints, TapPort, tap};
use lineside_tcp::{Config, Prefix, Stack};

use crate::client::Target;
use crate::error::StackError;
use crate::settings::{
    Found, Neighbour, OpenInterface, ServeSettings, Settings, StackSettings, Transport,
};
use crate::{Siblings, siblings};

/// A worker's ports and stack.
pub struct OpenStack {
    /// Its queues.
    pub ports: Vec<Box<dyn LivePort>>,
    /// Its stack.
    pub stack: Stack,
    /// Its place among the workers of a client; a server's connection stays where it came.
    pub siblings: Option<Siblings>,
    /// Takes copies of its frames.
    pub tap: Option<Tap>,
}

/// Opens the interface for the runs of a client before they begin: also for one that prepares them
/// with fewer workers.
pub fn open_before(settings: &Settings, clock: RunClock) -> Result<(), StackError> {
    let Transport::Stack(stack) = &settings.transport else {
        return Ok(());
    };
    check_pairs(stack, settings)?;
    let open = open_for_client(stack, settings, clock)?;
    *stack.opened.slot() = Some(open);
    Ok(())
}

/// The same of a server.
pub fn open_for_server_before(settings: &ServeSettings, clock: RunClock) -> Result<(), StackError> {
    if let Some(stack) = &settings.stack {
        let open = open_of_server(stack, settings.workers, &settings.budget, clock)?;
        *stack.opened.slot() = Some(open);
    }
    Ok(())
}

/// Opens the interface, unless it is open, and makes a stack for each worker.
pub fn open_stack(
    stack: &StackSettings,
    settings: &Settings,
    clock: RunClock,
) -> Result<Vec<OpenStack>, StackError> {
    check_pairs(stack, settings)?;
    let (workers, budget) = (settings.workers, &settings.budget);
    let open = || open_for_client(stack, settings, clock);
    let found = stack.opened.ports(workers, open)?;
    let connections = settings.plan.connections;
    let mut opened = stacks(
        stack,
        found,
        (workers, connections),
        settings.secret,
        budget,
    )?;
    if let Some(taps) = &stack.taps {
        // Whoever writes may have failed, and says why itself.
        let _ = taps.send(tap_all(&mut opened, budget)?);
    }
    if workers > 1 {
        let places = siblings(opened.len());
        for (open, place) in opened.iter_mut().zip(places) {
            open.siblings = Some(place);
        }
    }
    Ok(opened)
}

/// There are as many pairs of a local address and port as connections.
fn check_pairs(stack: &StackSettings, settings: &Settings) -> Result<(), StackError> {
    let pairs = crate::client::Locals::new(
        stack.addresses.clone(),
        stack.taken(&settings.targets),
        stack.ports.0,
        stack.ports.1,
        (0, 1),
    );
    let (needed, pairs) = (settings.plan.connections, pairs.count());
    match pairs < needed.into() {
        true => Err(StackError::Pairs { needed, pairs }),
        false => Ok(()),
    }
}

fn open_for_client(
    stack: &StackSettings,
    settings: &Settings,
    clock: RunClock,
) -> Result<OpenInterface, StackError> {
    let ours = of_client(stack)?;
    let neighbours = match &ours {
        Steering::HostPorts { .. } => Some(of_kernel(stack, &settings.targets)?),
        Steering::Addresses(_) => stack.neighbours.clone(),
    };
    open(
        stack,
        (ours, neighbours),
        settings.workers,
        &settings.budget,
        clock,
    )
}

/// Gives each worker a tap; returns their other ends.
fn tap_all(opened: &mut [OpenStack], budget: &Budget) -> Result<Vec<TapPort>, StackError> {
    let points = TapPoints {
        came: Some(usize::MAX),
        left: Some(usize::MAX),
        dropped: None,
    };
    let bytes_max = budget.limit_bytes() / 8 / opened.len();
    let tapped = opened.iter_mut().map(|open| {
        let (tap, port) = tap(1, points, bytes_max, budget).ok_or(StackError::TapMemory)?;
        open.tap = Some(tap);
        Ok(port)
    });
    tapped.collect()
}

/// Opens an interface for a server.
pub fn open_for_server(
    stack: &StackSettings,
    workers: u32,
    secret: [u64; 2],
    budget: &Budget,
    clock: RunClock,
) -> Result<Vec<OpenStack>, StackError> {
    let open = || open_of_server(stack, workers, budget, clock);
    let found = stack.opened.ports(workers, open)?;
    stacks(stack, found, (workers, 0), secret, budget)
}

fn open_of_server(
    stack: &StackSettings,
    workers: u32,
    budget: &Budget,
    clock: RunClock,
) -> Result<OpenInterface, StackError> {
    match first_of_host(&stack.addresses)? {
        // Whoever connects has an Ethernet address that only the kernel would ask for.
        Some(address) => Err(StackError::Own(address)),
        None => open(stack, (of_nobody(stack), None), workers, budget, clock),
    }
}

/// Opens an interface for this many workers.
fn open(
    stack: &StackSettings,
    (ours, neighbours): (Steering, Option<Vec<Neighbour>>),
    workers: u32,
    budget: &Budget,
    clock: RunClock,
) -> Result<OpenInterface, StackError> {
    let interface = Interface::named(&stack.interface)?;
    let live = LiveOptions {
        method: stack.method,
        sockets: workers as usize,
        // The Ethernet address of addresses that no host has is not the host's.
        promiscuous: neighbours.is_none(),
        filter: Vec::new(),
        // The host goes on using the interface.
        steering: Some(ours),
        flows: None,
        transmit_max: None,
        clock: StampClock::Steady {
            ahead_ns: clock.ahead_ns(),
        },
        budget: budget.clone(),
        bytes_max: budget.limit_bytes() / 4,
    };
    let ports = open_each(&interface, &live)?;
    let queues = ports.len();
    if queues < workers as usize {
        return Err(StackError::Queues {
            interface: stack.interface.clone(),
            queues,
            workers,
        });
    }
    Ok(OpenInterface {
        interface,
        neighbours,
        ports: vec![(0, ports)],
    })
}

/// A stack for each of this many workers, whose connections are this many in all.
fn stacks(
    stack: &StackSettings,
    found: Found,
    (workers, connections): (u32, u32),
    secret: [u64; 2],
    budget: &Budget,
) -> Result<Vec<OpenStack>, StackError> {
    let Found {
        ports,
        interface,
        neighbours,
    } = found;
    let mut config = config(stack, &interface, connections.div_ceil(workers))?;
    if let Some(address) = interface.hardware_address.filter(|_| neighbours.is_some()) {
        config.link_address = address;
    }
    let mut opened: Vec<OpenStack> = Vec::new();
    for _ in 0..workers {
        let stack = Stack::new(config.clone(), secret, budget);
        let mut stack = stack.ok_or(StackError::Memory)?;
        for &(address, link_address) in neighbours.as_deref().unwrap_or_default() {
            stack.keep_neighbour(address, link_address);
        }
        opened.push(OpenStack {
            ports: Vec::new(),
            stack,
            siblings: None,
            tap: None,
        });
    }
    // A queue for each, and what is left over in turn.
    for (number, port) in ports.into_iter().enumerate() {
        opened[number % workers as usize].ports.push(port);
    }
    Ok(opened)
}

/// Frames for all of the addresses.
fn of_nobody(stack: &StackSettings) -> Steering {
    let blocks =
        { stack.addresses.iter() }.map(|&Prefix { address, len }| AddressBlock { address, len });
    Steering::Addresses(blocks.collect())
}

/// What a client takes: all frames for addresses that no host has; of the host's own, those for
/// its ports, as long as nobody else has one of them.
fn of_client(stack: &StackSettings) -> Result<Steering, StackError> {
    let Some(own) = first_of_host(&stack.addresses)? else {
        return Ok(of_nobody(stack));
    };
    let (first, count) = stack.ports;
    let last = (u32::from(first) + count.saturating_sub(1)).min(u16::MAX.into()) as u16;
    let steering = Steering::HostPorts {
        addresses: stack.addresses.iter().map(|block| block.address).collect(),
        ports: first..=last,
    };
    if let Some(warning) = steering.warning() {
        return Err(StackError::Ports(own, warning));
    }
    let used = ports_in_use().into_iter();
    match used
        .clone()
        .find(|used| (first..=last).contains(&used.port))
    {
        Some(used) => {
            let why = format!("{} port {} is in use", used.protocol, used.port);
            Err(StackError::Ports(own, why))
        }
        None => Ok(steering),
    }
}

/// The kernel keeps ARP and neighbour discovery of its own addresses: here is what it knows of
/// those to whom a client sends.
fn of_kernel(stack: &StackSettings, targets: &[Target]) -> Result<Vec<Neighbour>, StackError> {
    const PATIENCE: Duration = Duration::from_secs(5);
    let netlink = Netlink::open().map_err(StackError::Netlink)?;
    let index = Interface::named(&stack.interface)?.index;
    let is_near = |target: &IpAddr| stack.on_link.iter().any(|block| block.contains(*target));
    let targets = { targets.iter() }.map(|&(address, _)| address);
    let next = targets.filter(is_near).chain(stack.routers.iter().copied());
    let known = next.map(|address| {
        let found = netlink.find_neighbour(index, address, PATIENCE);
        let found = found.map_err(StackError::Netlink)?;
        let interface = stack.interface.clone();
        let missing = StackError::Neighbour { interface, address };
        found.map(|found| (address, found)).ok_or(missing)
    });
    known.collect()
}

/// The first of single addresses that is the host's own, whose kernel would answer for it.
fn first_of_host(blocks: &[Prefix]) -> Result<Option<IpAddr>, StackError> {
    let addresses = Netlink::open().and_then(|netlink| netlink.addresses());
    let addresses = addresses.map_err(StackError::Netlink)?;
    let own = addresses.iter().find(|(_, address)| {
        let is_single = |block: &Prefix| block.len == Prefix::single(block.address).len;
        // A block may hold the host's address as long as it is not the only one: it is left out.
        { blocks.iter() }.any(|block| is_single(block) && block.contains(*address))
    });
    Ok(own.map(|&(_, address)| address))
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
