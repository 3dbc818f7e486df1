//! Packets of no connection: those that begin one, and the outcome of others.

use lineside_tcp::keyed::hash_of_words;
use lineside_time::Nanoseconds;
use lineside_wire::build::TcpFields;
use lineside_wire::icmp::{self, Failure};
use lineside_wire::{TcpFlags, TcpHeader, ethernet};

use crate::counters::Outcome;
use crate::effects::Effects;
use crate::follow::end_of;
use crate::forward::Arrival;
use crate::health;
use crate::nat::{Nat, Place, socket};
use crate::packet::End;
use crate::settings::{OnLoss, Transport};
use crate::table::{Connection, Direction, Ends, State, flag};

/// Port numbers of connections: behind those of checks.
const PORTS_START: u16 = health::PORTS.end;
/// Sets the hashes of port numbers apart from those of the choice of nodes.
const PORT_WORD: u64 = 0x706f_7274;
/// How many port numbers of a NAT address are tried. With 9 of 10 in use, 1 connection in a million
/// finds none.
const PORT_TRIES: u16 = 128;

impl Nat {
    /// A packet of no connection.
    pub(crate) fn on_unknown(
        &mut self,
        now: Nanoseconds,
        arrival: Arrival<'_>,
        out: &mut Effects,
    ) -> Option<Outcome> {
        let packet = arrival.packet;
        let destination = socket(packet.destination());
        if let Some(service) = self.pool.service_of(packet.transport, destination) {
            if let Some(tcp) = &packet.tcp
                && self.is_answered_here(now, &arrival, service, tcp)
            {
                return Some(self.answer_here(now, &arrival, service, out));
            }
            return match self.open(now, &arrival, service, out) {
                Ok(number) => self.pass(now, arrival, number, Direction::ToNode, out),
                Err(outcome) => {
                    let slot = &mut self.pool.services[usize::from(service)];
                    slot.outcomes.count(outcome);
                    Some(outcome)
                }
            };
        }
        if !self.pool.is_ours(packet.destination) {
            return Some(Outcome::NotOurs);
        }
        if self.on_check_answer(now, packet, arrival.frame.bytes(), out) {
            return Some(Outcome::Check);
        }
        match packet.tcp {
            Some(tcp) => {
                // A check has ended before its node's last segments came.
                let outcome = match health::PORTS.contains(&packet.ports[1])
                    && self.pool.is_node(packet.source())
                {
                    true => Outcome::Check,
                    false => Outcome::Reset,
                };
                Some(self.refuse(&arrival, &tcp, outcome, out))
            }
            None => {
                let code = match packet.source.is_ipv4() {
                    true => icmp::PORT_UNREACHABLE,
                    false => icmp::PORT_UNREACHABLE_V6,
                };
                let failure = Failure::Unreachable(code);
                Some(self.report_error(now, &arrival, failure, Outcome::NoService, out))
            }
        }
    }

    /// Answers a segment that cannot be delivered with a reset, as RFC 9293, 3.5.2 says; a reset
    /// gets no answer.
    fn refuse(
        &mut self,
        arrival: &Arrival<'_>,
        tcp: &TcpHeader,
        outcome: Outcome,
        out: &mut Effects,
    ) -> Outcome {
        if tcp.flags.contains(TcpFlags::RST) {
            return Outcome::NoConnection;
        }
        let packet = arrival.packet;
        let fields = TcpFields {
            source_port: packet.ports[1],
            destination_port: packet.ports[0],
            window: 0,
            ..match tcp.flags.contains(TcpFlags::ACK) {
                true => TcpFields {
                    sequence: tcp.acknowledgement.0,
                    flags: TcpFlags::RST,
                    ..TcpFields::default()
                },
                false => TcpFields {
                    acknowledgement: end_of(tcp).0,
                    flags: TcpFlags::RST | TcpFlags::ACK,
                    ..TcpFields::default()
                },
            }
        };
        let back = ethernet::Frame::new_unchecked(arrival.frame.bytes()).source();
        let link = [back, self.settings.ports[arrival.port].ethernet];
        let ends = [packet.destination, packet.source];
        if let Some(frame) = self.maker.segment(link, ends, &fields, &[]) {
            self.push(arrival.port, frame, out);
        }
        outcome
    }

    /// Enters a connection that a client's packet begins.
    fn open(
        &mut self,
        now: Nanoseconds,
        arrival: &Arrival<'_>,
        service: u16,
        out: &mut Effects,
    ) -> Result<u32, Outcome> {
        let packet = arrival.packet;
        let state = match (packet.transport, packet.tcp) {
            (Transport::Udp, _) => State::Datagrams,
            (Transport::Tcp, None) => return Err(Outcome::NoConnection),
            (Transport::Tcp, Some(tcp)) => {
                if !tcp.flags.opens() || tcp.flags.contains(TcpFlags::ACK) {
                    return Err(self.refuse(arrival, &tcp, Outcome::Reset, out));
                }
                State::Asked
            }
        };
        if packet.hop_count <= 1 {
            return Err(self.hops_exceeded(now, arrival, out));
        }
        let client = packet.source();
        let Some(node) = self.choose(now, client, service) else {
            if let Some(tcp) = packet.tcp {
                return Err(self.refuse(arrival, &tcp, Outcome::NoNode, out));
            }
            return Err(Outcome::NoNode);
        };
        self.make_room(out)?;
        let mut connection = Connection::new(client, service, node);
        connection.state = state;
        connection.seen = now;
        self.place(arrival, &mut connection);
        self.take_port(&mut connection)?;
        let until = now.saturating_add(self.timeout(state));
        let added = self.table.add(connection, until, &self.pool);
        let number = added.ok_or(Outcome::TableFull)?;
        self.pool.on_opened(&connection);
        self.pool.services[usize::from(service)].opened += 1;
        self.pool.nodes[usize::from(node)].opened += 1;
        Ok(number)
    }

    /// The node of a client's new connection.
    pub(crate) fn choose(&mut self, now: Nanoseconds, client: End, service: u16) -> Option<u16> {
        let hash = self.flow_hash(client, service);
        let slot = &mut self.pool.services[usize::from(service)];
        let affinity = slot.settings.affinity;
        let last = affinity.and_then(|_| self.affinities.node(now, client.0, service));
        let node = match last.filter(|&node| slot.chooser.has(node)) {
            Some(node) => node,
            None => slot.chooser.choose(now, hash)?,
        };
        if let Some(affinity) = affinity {
            let until = now.saturating_add(affinity);
            self.affinities.set(client.0, service, node, until);
        }
        Some(node)
    }

    /// The handshake that waits longest goes when the table is full.
    pub(crate) fn make_room(&mut self, out: &mut Effects) -> Result<(), Outcome> {
        if !self.table.is_full() {
            return Ok(());
        }
        let oldest = self.table.oldest_half_open().ok_or(Outcome::TableFull)?;
        let connection = self.table.remove(oldest, &self.pool);
        self.on_gone(oldest, &connection, out);
        self.evicted += 1;
        Ok(())
    }

    /// Gives a connection a NAT address and port number that no other has towards its node.
    ///
    /// They follow from the client's address and port by a keyed hash (RFC 6056, 3.3.3): a client
    /// that begins anew from a port has the same ones again, so that a node which has the
    /// connection before in TIME-WAIT sees sequence numbers and stamps of the same clock go on (RFC
    /// 6191). Ports drawn at random would come to clients whose clocks are behind, and their SYNs
    /// would be dropped.
    pub(crate) fn take_port(&mut self, connection: &mut Connection) -> Result<(), Outcome> {
        let is_free = |nat: &Self, connection: &Connection| {
            let tuple = nat.pool.tuple(connection, Direction::ToClient);
            nat.table.find(&tuple, &nat.pool).is_none()
        };
        let service = &self.pool.services[usize::from(connection.service)].settings;
        if service.keeps_client {
            return match is_free(self, connection) {
                true => Ok(()),
                false => Err(Outcome::TupleTaken),
            };
        }
        let is_ipv4 = service.address.is_ipv4();
        let count = self.pool.nat_of_family(is_ipv4).count();
        let hash = self.flow_hash(connection.client(), connection.service);
        let first = (hash >> 32) as usize % count.max(1);
        for turn in 0..count {
            let which = (first + turn) % count;
            let Some((nat, _)) = self.pool.nat_of_family(is_ipv4).nth(which) else {
                break;
            };
            connection.nat = nat;
            for attempt in 0..PORT_TRIES {
                connection.nat_port = self.nat_port(hash, attempt);
                if is_free(self, connection) {
                    return Ok(());
                }
            }
        }
        Err(Outcome::NoPort)
    }

    /// The port number that a flow takes at an attempt.
    fn nat_port(&self, hash: u64, attempt: u16) -> u16 {
        let ports = u64::from(u16::MAX - PORTS_START) + 1;
        let drawn = hash_of_words(self.key, [hash, u64::from(attempt), PORT_WORD]);
        // The upper half of the product: as even as the hash.
        PORTS_START + (((drawn >> 32) * ports) >> 32) as u16
    }

    /// The client is where its frame came from.
    fn place(&self, arrival: &Arrival<'_>, connection: &mut Connection) {
        let header = ethernet::Frame::new_unchecked(arrival.frame.bytes());
        connection.ethernet = header.source();
        connection.port = arrival.port as u8;
    }

    /// A node does not answer any more: its connections are reset, or stay.
    #[cold]
    pub(crate) fn on_node_lost(&mut self, _now: Nanoseconds, node: u16, out: &mut Effects) {
        let service = self.pool.nodes[usize::from(node)].service;
        let settings = &self.pool.services[usize::from(service)].settings;
        if settings.on_loss == OnLoss::Reset {
            self.reset_all(node, out);
        }
    }

    /// Ends all connections of a node. Both ends get a reset; where a driver has seen the last
    /// sequence numbers, each end gets it when it sends again.
    pub(crate) fn reset_all(&mut self, node: u16, out: &mut Effects) {
        let is_its = |nat: &Self, &number: &u32| nat.table.get(number).node == node;
        let numbers: Vec<u32> = { self.table.numbers() }
            .filter(|number| is_its(self, number))
            .collect();
        // A node that cannot be reached is not asked for: its frames would push out others' that
        // wait.
        let node_place = self
            .neighbours
            .known(self.pool.nodes[usize::from(node)].hop.address);
        for number in numbers {
            let connection = self.table.remove(number, &self.pool);
            let shift = { self.joints.of(number) }.map_or(0, |splice| splice.sequence);
            if self.gets_reset(&connection) {
                let client = Place {
                    port: connection.port,
                    ethernet: connection.ethernet,
                };
                self.reset(&connection, Direction::ToClient, client, shift, out);
                if let Some(node) = node_place {
                    self.reset(&connection, Direction::ToNode, node, 0, out);
                }
            }
            self.on_gone(number, &connection, out);
        }
    }

    fn gets_reset(&self, connection: &Connection) -> bool {
        let is_open = matches!(connection.state, State::Established | State::Closing);
        is_open && connection.flags & flag::BYPASSED == 0
    }

    /// Sends a reset to one end, in the other's name; its numbers are `shift` beyond those of the
    /// table.
    fn reset(
        &mut self,
        connection: &Connection,
        direction: Direction,
        place: Place,
        shift: u32,
        out: &mut Effects,
    ) {
        // As what this end sends comes in, turned round.
        let tuple = self.pool.tuple(connection, direction.reversed());
        let (from, to) = (tuple.destination, tuple.source);
        let fields = TcpFields {
            source_port: from.1,
            destination_port: to.1,
            sequence: connection.next[direction.index()].wrapping_add(shift),
            acknowledgement: connection.next[direction.reversed().index()],
            flags: TcpFlags::RST | TcpFlags::ACK,
            window: 0,
            options: &[],
        };
        let port = usize::from(place.port);
        let link = [place.ethernet, self.settings.ports[port].ethernet];
        let frame = self.maker.segment(link, [from.0, to.0], &fields, &[]);
        if let Some(frame) = frame {
            self.push(port, frame, out);
        }
    }
}
