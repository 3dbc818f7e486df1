//! The engine: where frames come in and leave.

use std::net::{IpAddr, SocketAddr};

use lineside_account::{Budget, Lease};
use lineside_frame::Frame;
use lineside_tcp::keyed::hash_of_words;
use lineside_tcp::neighbours::{Known, Neighbours, Turn};
use lineside_time::{Nanoseconds, Random, Wheel};
use lineside_wire::control::ControlFrame;
use lineside_wire::ethernet::{self, ether_type};

use crate::affinity::Affinities;
use crate::choice::{self, Chooser};
use crate::counters::{Outcome, Outcomes};
use crate::cut::ErrorLimit;
use crate::effects::{Effects, Outgoing};
use crate::fragments::Fragments;
use crate::health::Checks;
use crate::joints::Joints;
use crate::make::Maker;
use crate::packet::{self, IP_AT, Packet};
use crate::pool::{Hop, Pool, Traffic};
use crate::proxy::{self, Splices};
use crate::settings::{Settings, SettingsError, Timeouts};
use crate::shelves::Shelf;
use crate::table::{Connection, Direction, State, Table};

/// Neighbours that are known at once: nodes on the link, and gateways.
const NEIGHBOURS_MAX: u32 = 4096;

/// Where a neighbour is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) port: u8,
    pub(crate) ethernet: [u8; 6],
}

/// What is known of a frame that waits for a neighbour.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waits {
    /// The node that it is for; `None`: it is one of our own.
    pub(crate) node: Option<u16>,
    /// Whether its arrival still lacks an outcome: copies of a datagram do not have one each.
    pub(crate) counts: bool,
}

impl Waits {
    pub(crate) const OWN: Self = Self {
        node: None,
        counts: false,
    };
}

/// Counters of a port.
#[derive(Debug, Clone, Default)]
pub(crate) struct PortCounters {
    pub(crate) received: Traffic,
    pub(crate) sent: Traffic,
}

/// A load balancer and NAT.
#[derive(Debug)]
pub struct Nat {
    pub(crate) settings: Settings,
    pub(crate) pool: Pool,
    pub(crate) table: Table,
    pub(crate) joints: Joints,
    /// Answers handshakes in the nodes' place; `None`: no service asks for it.
    pub(crate) splices: Option<Box<Splices>>,
    pub(crate) affinities: Affinities,
    pub(crate) neighbours: Neighbours<Place, Waits>,
    /// Arrivals among the frames that wait for neighbours.
    waiting_arrivals: u64,
    /// Frames that a neighbour's answer releases; kept for its memory.
    released: Vec<(Frame, Waits)>,
    pub(crate) fragments: Fragments,
    pub(crate) checks: Checks,
    pub(crate) maker: Maker,
    pub(crate) errors: ErrorLimit,
    pub(crate) key: [u64; 2],
    pub(crate) outcomes: Outcomes,
    pub(crate) ports: Vec<PortCounters>,
    /// Connections that made room for others before their time.
    pub(crate) evicted: u64,
    /// SYNs of services that answer none by themselves, answered by a cookie.
    pub(crate) cookies: u64,
    pub(crate) lease: Lease,
    /// The last instant that it was given.
    pub(crate) now: Nanoseconds,
}

impl Nat {
    /// An engine with these settings, whose tables are drawn on `budget`.
    pub fn new(settings: Settings, budget: &Budget) -> Result<Self, SettingsError> {
        settings.check()?;
        let max = settings.connections_max;
        let bytes = Self::fixed_bytes(&settings);
        let over = || {
            let bytes = bytes + Table::bytes_for(max) + Affinities::bytes_for(max) + Maker::BYTES;
            SettingsError::Budget(max, bytes)
        };
        let mut random = Random::new(settings.seed);
        let key = [random.bits(), random.bits()];
        // Connections may fill their table: it is drawn as a whole, if not touched.
        if budget.limit_bytes() - budget.used_bytes() < bytes + Table::bytes_for(max) {
            return Err(over());
        }
        let lease = budget.lease(bytes).ok_or_else(over)?;
        let mut nat = Self {
            pool: Pool::new(&settings),
            table: Table::new(max, key, budget).ok_or_else(over)?,
            joints: Joints::new(budget).ok_or_else(over)?,
            splices: None,
            affinities: Affinities::new(max, key, budget).ok_or_else(over)?,
            neighbours: Neighbours::new(NEIGHBOURS_MAX, key, budget).ok_or_else(over)?,
            waiting_arrivals: 0,
            released: Vec::new(),
            fragments: Fragments::new(budget).ok_or_else(over)?,
            checks: Checks::new(random.bits()),
            maker: Maker::new(budget).ok_or_else(over)?,
            errors: ErrorLimit::default(),
            key,
            outcomes: Outcomes::default(),
            ports: vec![PortCounters::default(); settings.ports.len()],
            evicted: 0,
            cookies: 0,
            lease,
            now: 0,
            settings,
        };
        if nat.settings.splices() {
            let services = nat.spliced_services();
            let secret = [random.bits(), random.bits()];
            let bounds = proxy::Settings::default();
            let splices = Splices::new(bounds, services, secret, budget);
            nat.splices = Some(Box::new(splices.ok_or(SettingsError::SpliceBudget)?));
        }
        Ok(nat)
    }

    /// Bytes of what does not grow with connections.
    pub(crate) fn fixed_bytes(settings: &Settings) -> usize {
        const NODE_BYTES: usize = 1024;
        let of_service = |service: &crate::settings::Service| {
            let of_node = NODE_BYTES + Shelf::NAT_BYTES * settings.nat.len();
            Chooser::bytes_of(service.choice) + NODE_BYTES + of_node * service.nodes.len()
        };
        // Those of checks and of affinities are there also while they are empty.
        let wheels = 2 * Wheel::new().allocated_bytes();
        wheels + settings.services.iter().map(of_service).sum::<usize>()
    }

    /// Announces its addresses at all ports, and begins checks.
    pub fn begin(&mut self, now: Nanoseconds, out: &mut Effects) {
        self.now = now;
        let mut addresses: Vec<IpAddr> = self.pool.addresses().collect();
        addresses.sort();
        addresses.dedup();
        addresses
            .iter()
            .for_each(|&address| self.announce(address, out));
        for node in 0..self.pool.nodes.len() {
            self.begin_checks(now, node as u16);
        }
    }

    /// Announces an address at all ports.
    pub(crate) fn announce(&mut self, address: IpAddr, out: &mut Effects) {
        for port in 0..self.settings.ports.len() {
            let own = self.settings.ports[port].ethernet;
            self.send_control(port, &ControlFrame::announcement(own, address), out);
        }
    }

    /// Takes a frame that came by a port.
    pub fn on_frame(&mut self, now: Nanoseconds, port: usize, frame: Frame, out: &mut Effects) {
        self.now = now;
        let Some(counters) = self.ports.get_mut(port) else {
            debug_assert!(false, "a port that the settings have");
            return;
        };
        counters.received.add(1, frame.bytes().len() as u64);
        if let Some(outcome) = self.dispatch(now, port, frame, out) {
            self.outcomes.count(outcome);
        }
    }

    /// The outcome of a frame; `None`: it waits, or is counted already.
    fn dispatch(
        &mut self,
        now: Nanoseconds,
        port: usize,
        frame: Frame,
        out: &mut Effects,
    ) -> Option<Outcome> {
        let bytes = frame.bytes();
        if bytes.len() < IP_AT {
            return Some(Outcome::Malformed);
        }
        let header = ethernet::Frame::new_unchecked(bytes);
        let destination = header.destination();
        let is_group = destination[0] & 1 != 0;
        if !is_group && destination != self.settings.ports[port].ethernet {
            return Some(Outcome::NotForUs);
        }
        // What a hairpin's switch floods back is no client's.
        if self.is_own_ethernet(header.source()) {
            return Some(Outcome::NotForUs);
        }
        match header.ether_type() {
            _ if ethernet::is_tagged(bytes) => Some(Outcome::Tagged),
            ether_type::ARP => Some(self.on_arp(now, port, &frame, out)),
            ether_type::IPV4 | ether_type::IPV6 => {
                let wire_len = frame.descriptor().wire_len as usize;
                match Packet::read(bytes, wire_len) {
                    // A group's Ethernet address with ours behind it is a flooded or forged one.
                    Ok(_) if is_group => Some(Outcome::NotForUs),
                    Ok(packet) => self.on_packet(now, port, frame, &packet, out),
                    Err(Outcome::OtherProtocol) => self.on_icmp(now, port, frame, out),
                    Err(outcome) => Some(outcome),
                }
            }
            _ => Some(Outcome::NotIp),
        }
    }

    fn is_own_ethernet(&self, address: [u8; 6]) -> bool {
        self.settings
            .ports
            .iter()
            .any(|port| port.ethernet == address)
    }

    /// Does what is due.
    pub fn on_timer(&mut self, now: Nanoseconds, out: &mut Effects) {
        self.now = now;
        let timeouts = self.settings.timeouts;
        let timeout = |state| timeout(&timeouts, state);
        while let Some((number, connection)) = self.table.expire(now, timeout, &self.pool) {
            self.on_gone(number, &connection, out);
        }
        self.with_splices(now, out, |splices, caller| splices.on_timer(now, caller));
        self.affinities.on_timer(now);
        self.on_fragment_timers(now);
        self.on_check_timers(now, out);
        self.ask_again(now, out);
    }

    /// When [`on_timer`](Self::on_timer) is to be called at the latest.
    pub fn next_deadline(&self) -> Option<Nanoseconds> {
        let all = [
            self.table.next_deadline(),
            self.affinities.next_deadline(),
            self.splices
                .as_ref()
                .and_then(|splices| splices.next_deadline()),
            self.fragments
                .next_deadline(self.settings.timeouts.fragments),
            self.checks.next_deadline(),
            self.neighbours.next_deadline(),
        ];
        all.into_iter().flatten().min()
    }

    /// Frames that wait for neighbours or for a first fragment.
    pub fn held(&self) -> usize {
        self.neighbours.waiting_len() + self.fragments.held_len()
    }

    /// Frames that came in and wait: those that have no outcome yet.
    pub(crate) fn held_of_arrivals(&self) -> u64 {
        self.fragments.held_len() as u64 + self.waiting_arrivals
    }

    /// Copies frames that wait out of their ports' memory, at most this many bytes of them.
    pub fn spill(&mut self, bytes_max: usize) {
        let mut left = bytes_max;
        let waiting = self
            .neighbours
            .waiting_mut()
            .chain(self.fragments.held_mut());
        for frame in waiting {
            let len = frame.whole_len();
            if len > left {
                return;
            }
            left -= len;
            *frame = Frame::copied(&frame.parts().concat(), *frame.descriptor());
        }
    }

    /// The hash by which a client's connection gets its node.
    pub(crate) fn flow_hash(&self, client: (IpAddr, u16), service: u16) -> u64 {
        let bits = crate::table::bits(client.0);
        let ends = u64::from(client.1) << 16 | u64::from(service);
        hash_of_words(choice::KEY, [(bits >> 64) as u64, bits as u64, ends])
    }

    pub(crate) fn timeout(&self, state: State) -> Nanoseconds {
        timeout(&self.settings.timeouts, state)
    }

    /// A connection is out of the table.
    pub(crate) fn on_gone(&mut self, number: u32, connection: &Connection, out: &mut Effects) {
        self.leave_driver(connection, out);
        self.joints.forget(number);
        self.pool.on_gone(connection);
    }

    /// Hands a frame over as it is.
    #[inline]
    pub(crate) fn push(&mut self, port: usize, frame: Frame, out: &mut Effects) {
        self.ports[port].sent.add(1, frame.whole_len() as u64);
        out.frames.push(Outgoing { port, frame });
    }

    /// Lets a frame leave to a place.
    #[inline]
    pub(crate) fn leave_to(&mut self, place: Place, mut frame: Frame, out: &mut Effects) {
        let port = usize::from(place.port);
        let mut header = ethernet::Frame::new_unchecked(frame.bytes_mut());
        header.set_destination(place.ethernet);
        header.set_source(self.settings.ports[port].ethernet);
        self.push(port, frame, out);
    }

    /// Where the next station is; asks for it if need be.
    pub(crate) fn resolve(
        &mut self,
        now: Nanoseconds,
        hop: Hop,
        out: &mut Effects,
    ) -> Known<Place> {
        let known = self.neighbours.resolve(now, hop.address);
        if let Known::Address { asks: true, .. } | Known::Waits { asks: true } = known {
            self.ask(hop, out);
        }
        known
    }

    /// Lets a frame leave to the next station, or wait until that is known.
    pub(crate) fn leave_to_hop(
        &mut self,
        now: Nanoseconds,
        hop: Hop,
        frame: Frame,
        waits: Waits,
        out: &mut Effects,
    ) {
        match self.resolve(now, hop, out) {
            Known::Address { link_address, .. } => {
                self.leave_to_node(now, link_address, frame, waits, out);
            }
            Known::Waits { .. } => self.wait(hop, frame, waits),
            Known::NoRoom => self.count_if(waits.counts, Outcome::NeighbourFull),
        }
    }

    fn wait(&mut self, hop: Hop, frame: Frame, waits: Waits) {
        self.waiting_arrivals += u64::from(waits.counts);
        if let Some((_, dropped)) = self.neighbours.wait(hop.address, frame, waits) {
            self.waiting_arrivals -= u64::from(dropped.counts);
            self.count_if(dropped.counts, Outcome::NeighbourFull);
        }
    }

    /// Lets a rewritten frame leave to a node. One that is too long is cut, or answered by an ICMP
    /// error.
    fn leave_to_node(
        &mut self,
        now: Nanoseconds,
        place: Place,
        mut frame: Frame,
        waits: Waits,
        out: &mut Effects,
    ) {
        let mtu = self.settings.ports[usize::from(place.port)].mtu;
        let end = packet::end_of(frame.bytes());
        if end <= mtu as usize + IP_AT {
            self.on_leaving(waits, &frame);
            self.leave_to(place, frame, out);
            return;
        }
        if !frame.rest().is_empty() {
            frame = Frame::copied(&frame.parts().concat(), *frame.descriptor());
        }
        if packet::is_uncut(frame.bytes()) {
            let outcome = self.report_too_big(now, &frame.bytes()[IP_AT..end], mtu, out);
            self.count_if(waits.counts, outcome);
        } else if self.send_pieces(&mut frame, end, place, mtu, out) {
            self.on_leaving(waits, &frame);
        } else {
            self.count_if(waits.counts, Outcome::NoMemory);
        }
    }

    /// Counts a frame that leaves to a node.
    fn on_leaving(&mut self, waits: Waits, frame: &Frame) {
        if let Some(node) = waits.node {
            let traffic = &mut self.pool.nodes[usize::from(node)].traffic;
            traffic[Direction::ToNode.index()].add(1, frame.whole_len() as u64);
        }
        self.count_if(waits.counts, Outcome::ToNode);
    }

    pub(crate) fn count_if(&mut self, counts: bool, outcome: Outcome) {
        if counts {
            self.outcomes.count(outcome);
        }
    }

    /// Asks for a neighbour, at its port or at all.
    pub(crate) fn ask(&mut self, hop: Hop, out: &mut Effects) {
        let Some(ours) = self.pool.address_of_family(hop.address.is_ipv4()) else {
            return;
        };
        for port in 0..self.settings.ports.len() {
            if hop.port.is_some_and(|only| only != port) {
                continue;
            }
            let own = self.settings.ports[port].ethernet;
            if let Some(question) = ControlFrame::question(own, ours, hop.address) {
                self.send_control(port, &question, out);
            }
        }
    }

    /// Learns where a neighbour is, and lets go what waited for it. One that is known elsewhere is
    /// asked first: whoever forges its address does not get its traffic while it answers.
    pub(crate) fn learn(
        &mut self,
        now: Nanoseconds,
        address: IpAddr,
        place: Place,
        out: &mut Effects,
    ) {
        // A group is nobody's address.
        if place.ethernet[0] & 1 != 0 || self.pool.is_ours(address) {
            return;
        }
        let known = self.neighbours.known(address);
        if known.is_some_and(|known| known != place) {
            if self.neighbours.claim(now, address, place) {
                self.ask(self.hop_of(address), out);
            }
            return;
        }
        let mut released = std::mem::take(&mut self.released);
        let release = |frame, waits| released.push((frame, waits));
        self.neighbours.learn(now, address, place, false, release);
        for (frame, waits) in released.drain(..) {
            self.waiting_arrivals -= u64::from(waits.counts);
            self.leave_to_node(now, place, frame, waits, out);
        }
        self.released = released;
    }

    /// The next station at an address, as nodes have it.
    fn hop_of(&self, address: IpAddr) -> Hop {
        let hop = { self.pool.nodes.iter() }.find(|node| node.hop.address == address);
        let port = hop.and_then(|node| node.hop.port);
        Hop { address, port }
    }

    /// Asks again for neighbours that did not answer.
    fn ask_again(&mut self, now: Nanoseconds, out: &mut Effects) {
        loop {
            let (mut dropped, mut all) = (0, 0);
            let release = |_, waits: Waits| {
                dropped += u64::from(waits.counts);
                all += 1;
            };
            match self.neighbours.on_timer(now, release) {
                Some(Turn::Ask(address)) => self.ask(self.hop_of(address), out),
                Some(Turn::Moved(address)) => self.on_moved(address, out),
                Some(Turn::Silent(..)) => {
                    self.waiting_arrivals -= dropped;
                    self.outcomes.add(Outcome::NoNeighbour, dropped);
                }
                None => return,
            }
        }
    }
}

fn timeout(timeouts: &Timeouts, state: State) -> Nanoseconds {
    match state {
        State::Asked | State::Answered => timeouts.half_open,
        State::Established => timeouts.established,
        State::Closing | State::Closed => timeouts.transitory,
        State::Datagrams => timeouts.unanswered.min(timeouts.udp),
        State::Exchanged => timeouts.udp,
    }
}

/// An address and a port number as people write them.
pub(crate) fn socket(end: (IpAddr, u16)) -> SocketAddr {
    SocketAddr::new(end.0, end.1)
}
