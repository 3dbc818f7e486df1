//! Services, nodes and NAT addresses by the numbers that connections name. A number stays its
//! owner's until no connection names it, also when its service or node has been removed.

use std::net::{IpAddr, SocketAddr};

use hashbrown::HashMap;
use lineside_time::Nanoseconds;

use crate::choice::{Candidate, Chooser};
use crate::counters::Outcomes;
use crate::health::Checked;
use crate::packet::End;
use crate::settings::{NodeSettings, Route, Service, Settings, Transport};
use crate::table::{Connection, Direction, Ends, KEPT, State, Tuple};

/// Frames and bytes of a direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Frames that left.
    pub frames: u64,
    /// Their bytes, Ethernet header included.
    pub bytes: u64,
}

impl Traffic {
    #[inline]
    pub(crate) fn add(&mut self, frames: u64, bytes: u64) {
        self.frames += frames;
        self.bytes += bytes;
    }
}

/// The next station on the way to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) address: IpAddr,
    /// `None`: it is asked for at all ports.
    pub(crate) port: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct ServiceSlot {
    pub(crate) settings: Service,
    /// Numbers of its nodes, in the order of its settings.
    pub(crate) nodes: Vec<u16>,
    pub(crate) chooser: Chooser,
    pub(crate) is_removed: bool,
    pub(crate) connections: u32,
    /// Of these, such that are closed and wait for late packets.
    pub(crate) closed: u32,
    pub(crate) opened: u64,
    pub(crate) outcomes: Outcomes,
    /// Of nodes that were removed.
    pub(crate) past: [Traffic; 2],
}

#[derive(Debug)]
pub(crate) struct NodeSlot {
    pub(crate) service: u16,
    pub(crate) address: SocketAddr,
    transport: Transport,
    /// The number of its address.
    pub(crate) endpoint: u16,
    pub(crate) weight: u32,
    pub(crate) hop: Hop,
    pub(crate) is_up: bool,
    pub(crate) is_draining: bool,
    pub(crate) is_removed: bool,
    /// When it came up, if it has been down or was added later.
    pub(crate) rises_from: Option<Nanoseconds>,
    pub(crate) connections: u32,
    /// Of these, such that are closed and wait for late packets.
    pub(crate) closed: u32,
    pub(crate) opened: u64,
    pub(crate) traffic: [Traffic; 2],
    pub(crate) checked: Checked,
}

impl ServiceSlot {
    /// Its way to choose, or its slow start, has changed.
    pub(crate) fn set_choice(&mut self) {
        let settings = &self.settings;
        self.chooser = Chooser::new(settings.choice, settings.slow_start);
    }
}

impl NodeSlot {
    pub(crate) fn takes_connections(&self) -> bool {
        self.is_up && !self.is_draining && !self.is_removed && self.weight > 0
    }
}

/// A NAT address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NatAddress {
    pub(crate) address: IpAddr,
    pub(crate) is_removed: bool,
}

#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) services: Vec<ServiceSlot>,
    pub(crate) nodes: Vec<NodeSlot>,
    pub(crate) nat: Vec<NatAddress>,
    by_address: HashMap<(Transport, SocketAddr), u16>,
    /// Numbers of NAT addresses by family, IPv4 first.
    nat_numbers: [Vec<u8>; 2],
    endpoints: Endpoints,
    routes: Vec<Route>,
}

impl Ends for Pool {
    #[inline]
    fn tuple(&self, connection: &Connection, direction: Direction) -> Tuple {
        let service = &self.services[usize::from(connection.service)].settings;
        let (source, destination) = match direction {
            Direction::ToNode => (connection.client(), end(service.address)),
            Direction::ToClient => {
                let node = end(self.nodes[usize::from(connection.node)].address);
                let source = match connection.nat {
                    KEPT => connection.client(),
                    nat => (self.nat[usize::from(nat)].address, connection.nat_port),
                };
                (node, source)
            }
        };
        Tuple {
            transport: service.transport,
            source,
            destination,
        }
    }

    #[inline]
    fn endpoint(&self, connection: &Connection) -> u16 {
        self.nodes[usize::from(connection.node)].endpoint
    }
}

/// Numbers of nodes' addresses: nodes of several services at one address have one number, since
/// they share its port numbers.
#[derive(Debug, Default)]
struct Endpoints {
    /// With how many nodes have it.
    by_address: HashMap<(Transport, SocketAddr), (u16, u32)>,
    free: Vec<u16>,
}

impl Endpoints {
    fn take(&mut self, key: (Transport, SocketAddr)) -> u16 {
        let next = match self.by_address.contains_key(&key) {
            true => 0,
            false => { self.free.pop() }.unwrap_or(self.by_address.len() as u16),
        };
        let (number, nodes) = self.by_address.entry(key).or_insert((next, 0));
        *nodes += 1;
        *number
    }

    fn give_back(&mut self, key: (Transport, SocketAddr)) {
        let Some((number, nodes)) = self.by_address.get_mut(&key) else {
            return;
        };
        *nodes -= 1;
        if *nodes == 0 {
            self.free.push(*number);
            self.by_address.remove(&key);
        }
    }
}

#[inline]
pub(crate) fn end(address: SocketAddr) -> (IpAddr, u16) {
    (address.ip(), address.port())
}

impl Pool {
    pub(crate) fn new(settings: &Settings) -> Self {
        let mut pool = Self {
            services: Vec::new(),
            nodes: Vec::new(),
            nat: Vec::new(),
            by_address: HashMap::new(),
            nat_numbers: Default::default(),
            endpoints: Endpoints::default(),
            routes: settings.routes.clone(),
        };
        pool.set_nat(&settings.nat);
        for service in &settings.services {
            pool.add_service(service, None);
        }
        pool
    }

    pub(crate) fn service_of(&self, transport: Transport, address: SocketAddr) -> Option<u16> {
        self.by_address.get(&(transport, address)).copied()
    }

    pub(crate) fn set_routes(&mut self, routes: &[Route]) {
        self.routes = routes.to_vec();
        for node in &mut self.nodes {
            node.hop = hop(&self.routes, node.address.ip());
        }
    }

    /// Whether it is one of our addresses.
    pub(crate) fn is_ours(&self, address: IpAddr) -> bool {
        self.addresses().any(|ours| ours == address)
    }

    /// Our addresses; those of several services several times.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let nat = self.nat.iter().filter(|nat| !nat.is_removed);
        let services = self.services.iter().filter(|service| !service.is_removed);
        nat.map(|nat| nat.address)
            .chain(services.map(|service| service.settings.address.ip()))
    }

    /// One of our addresses of a family, best a NAT address: it asks for neighbours.
    pub(crate) fn address_of_family(&self, is_ipv4: bool) -> Option<IpAddr> {
        self.addresses().find(|ours| ours.is_ipv4() == is_ipv4)
    }

    /// The NAT addresses of a family, with their numbers.
    pub(crate) fn nat_of_family(&self, is_ipv4: bool) -> impl Iterator<Item = (u8, IpAddr)> {
        let numbered = self.nat.iter().enumerate();
        numbered
            .filter(move |(_, nat)| !nat.is_removed && nat.address.is_ipv4() == is_ipv4)
            .map(|(number, nat)| (number as u8, nat.address))
    }

    /// The numbers of the NAT addresses of a family.
    pub(crate) fn nat_numbers(&self, is_ipv4: bool) -> &[u8] {
        &self.nat_numbers[usize::from(!is_ipv4)]
    }

    /// Has these NAT addresses instead of those of before.
    pub(crate) fn set_nat(&mut self, addresses: &[IpAddr]) {
        for nat in &mut self.nat {
            nat.is_removed = !addresses.contains(&nat.address);
        }
        addresses.iter().for_each(|&address| self.add_nat(address));
        self.nat_numbers = [true, false].map(|is_ipv4| {
            let numbered = self.nat_of_family(is_ipv4);
            numbered.map(|(number, _)| number).collect()
        });
    }

    fn add_nat(&mut self, address: IpAddr) {
        match self.nat.iter_mut().find(|nat| nat.address == address) {
            Some(nat) => nat.is_removed = false,
            None => self.nat.push(NatAddress {
                address,
                is_removed: false,
            }),
        }
    }

    /// Adds a service that is not there, with its nodes; `now`: their shares rise from then on.
    pub(crate) fn add_service(&mut self, service: &Service, now: Option<Nanoseconds>) -> u16 {
        let slot = ServiceSlot {
            settings: service.clone(),
            nodes: Vec::new(),
            chooser: Chooser::new(service.choice, service.slow_start),
            is_removed: false,
            connections: 0,
            closed: 0,
            opened: 0,
            outcomes: Outcomes::default(),
            past: Default::default(),
        };
        let is_free = |slot: &ServiceSlot| slot.is_removed && slot.connections == 0;
        let number = match self.services.iter().position(is_free) {
            Some(number) => {
                self.services[number] = slot;
                number as u16
            }
            None => {
                self.services.push(slot);
                self.services.len() as u16 - 1
            }
        };
        self.by_address
            .insert((service.transport, service.address), number);
        for &node in &service.nodes {
            self.add_node(number, node, now);
        }
        self.refresh(number);
        number
    }

    /// Forgets a service's address; its nodes are removed one by one.
    pub(crate) fn remove_service(&mut self, number: u16) {
        let slot = &mut self.services[usize::from(number)];
        slot.is_removed = true;
        let key = (slot.settings.transport, slot.settings.address);
        self.by_address.remove(&key);
    }

    pub(crate) fn add_node(
        &mut self,
        service: u16,
        settings: NodeSettings,
        now: Option<Nanoseconds>,
    ) -> u16 {
        let is_free = |slot: &NodeSlot| slot.is_removed && slot.connections == 0;
        let reused = self.nodes.iter().position(is_free);
        if let Some(number) = reused {
            let before = &self.nodes[number];
            self.endpoints.give_back((before.transport, before.address));
        }
        let transport = self.services[usize::from(service)].settings.transport;
        let slot = NodeSlot {
            service,
            address: settings.address,
            transport,
            endpoint: self.endpoints.take((transport, settings.address)),
            weight: settings.weight,
            hop: hop(&self.routes, settings.address.ip()),
            is_up: true,
            is_draining: false,
            is_removed: false,
            rises_from: now,
            connections: 0,
            closed: 0,
            opened: 0,
            traffic: Default::default(),
            checked: Checked::default(),
        };
        let number = match reused {
            Some(number) => {
                self.nodes[number] = slot;
                number as u16
            }
            None => {
                self.nodes.push(slot);
                self.nodes.len() as u16 - 1
            }
        };
        self.services[usize::from(service)].nodes.push(number);
        number
    }

    /// A node of a service by its address.
    pub(crate) fn node_of(&self, service: u16, address: SocketAddr) -> Option<u16> {
        let nodes = &self.services[usize::from(service)].nodes;
        { nodes.iter() }
            .copied()
            .find(|&node| self.nodes[usize::from(node)].address == address)
    }

    /// Whether any service has a node there.
    pub(crate) fn is_node(&self, end: End) -> bool {
        { self.nodes.iter() }.any(|node| !node.is_removed && self::end(node.address) == end)
    }

    /// Takes a node out of its service; its number is free when it has no more connections.
    pub(crate) fn remove_node(&mut self, number: u16) {
        let node = &mut self.nodes[usize::from(number)];
        node.is_removed = true;
        let service = &mut self.services[usize::from(node.service)];
        service.nodes.retain(|&each| each != number);
        self.settle_removed(number);
    }

    /// What a removed node had is its service's once its number is free.
    fn settle_removed(&mut self, number: u16) {
        let node = &mut self.nodes[usize::from(number)];
        if !node.is_removed || node.connections > 0 {
            return;
        }
        let service = &mut self.services[usize::from(node.service)];
        for (past, traffic) in service.past.iter_mut().zip(&mut node.traffic) {
            past.add(traffic.frames, traffic.bytes);
            *traffic = Traffic::default();
        }
    }

    /// The nodes of a service that take connections have changed.
    pub(crate) fn refresh(&mut self, service: u16) {
        let slot = &mut self.services[usize::from(service)];
        let nodes = slot
            .nodes
            .iter()
            .map(|&number| (number, &self.nodes[usize::from(number)]));
        let candidates =
            nodes
                .filter(|(_, node)| node.takes_connections())
                .map(|(number, node)| Candidate {
                    node: number,
                    address: node.address,
                    weight: node.weight,
                    connections: node.connections,
                    rises_from: node.rises_from,
                });
        slot.chooser.set(candidates);
    }

    /// A connection has begun.
    pub(crate) fn on_opened(&mut self, connection: &Connection) {
        let node = &mut self.nodes[usize::from(connection.node)];
        node.connections += 1;
        let service = &mut self.services[usize::from(connection.service)];
        service.connections += 1;
        // One that was saved may be over.
        let is_closed = u32::from(connection.state == State::Closed);
        service.closed += is_closed;
        node.closed += is_closed;
        if let Some(candidate) = service.chooser.candidate_mut(connection.node) {
            candidate.connections = node.connections;
        }
    }

    /// A connection of a node and a service is in another state than before: closed, or open again
    /// where its node did not believe a reset.
    pub(crate) fn on_state(&mut self, [node, service]: [u16; 2], before: State, state: State) {
        let [was, is] = [before, state].map(|state| u32::from(state == State::Closed));
        let node = &mut self.nodes[usize::from(node)].closed;
        let service = &mut self.services[usize::from(service)].closed;
        for closed in [node, service] {
            *closed = *closed + is - was;
        }
    }

    /// A connection is gone.
    pub(crate) fn on_gone(&mut self, connection: &Connection) {
        let node = &mut self.nodes[usize::from(connection.node)];
        node.connections -= 1;
        let service = &mut self.services[usize::from(connection.service)];
        service.connections -= 1;
        let is_closed = u32::from(connection.state == State::Closed);
        service.closed -= is_closed;
        node.closed -= is_closed;
        if let Some(candidate) = service.chooser.candidate_mut(connection.node) {
            candidate.connections = node.connections;
        }
        self.settle_removed(connection.node);
    }
}

/// The longest network that has the address decides; without one it is a neighbour somewhere.
fn hop(routes: &[Route], address: IpAddr) -> Hop {
    let fitting = routes.iter().filter(|route| route.has(address));
    match fitting.max_by_key(|route| route.network.1) {
        Some(route) => Hop {
            address: route.via.unwrap_or(address),
            port: Some(route.port),
        },
        None => Hop {
            address,
            port: None,
        },
    }
}
