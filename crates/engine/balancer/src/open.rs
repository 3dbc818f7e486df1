//! Packets of no connection: those that begin one, and the outcome of others.

use lineside_time::Nanoseconds;
use lineside_wire::build::TcpFields;
use lineside_wire::icmp::{self, Failure};
use lineside_wire::{TcpFlags, TcpHeader, ethernet};

use crate::counters::Outcome;
use crate::effects::Effects;
use crate::follow::end_of;
use crate::forward::Arrival;
use crate::nat::{Nat, Place, socket};
use crate::packet::End;
use crate::ports;
use crate::settings::{OnLoss, Transport};
use crate::table::{Connection, Direction, Ends, State};

/// What a client's packet began.
enum Opened {
    /// A connection of this number.
    Entered(u32),
    /// Nothing: too many handshakes with its node wait.
    Crowded,
}

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
                Ok(Opened::Entered(number)) => {
                    self.pass(now, arrival, number, Direction::ToNode, out)
                }
                Ok(Opened::Crowded) => Some(self.answer_here(now, &arrival, service, out)),
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
                let outcome = match ports::CHECKS.contains(&packet.ports[1])
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
    ) -> Result<Opened, Outcome> {
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
        if state == State::Asked && self.splices.is_some() && self.is_node_crowded(node) {
            return Ok(Opened::Crowded);
        }
        let mut connection = Connection::new(client, service, node);
        connection.state = state;
        self.place(arrival, &mut connection);
        self.admit(now, connection, out).map(Opened::Entered)
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
        if let Some(affinity) = affinity
            && (last.is_some() || self.affinities.has_spare())
        {
            let until = now.saturating_add(affinity);
            self.affinities.set(client.0, service, node, until);
        }
        Some(node)
    }

    /// A client is there, as its connection shows: it has its node again, whoever else may ask.
    pub(crate) fn keep_affinity(&mut self, now: Nanoseconds, number: u32) {
        let connection = self.table.get(number);
        let (service, node) = (connection.service, connection.node);
        let slot = &self.pool.services[usize::from(service)];
        if let Some(affinity) = slot.settings.affinity {
            let client = connection.client().0;
            let until = now.saturating_add(affinity);
            self.affinities.set(client, service, node, until);
        }
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

    /// Ends all connections of a node.
    pub(crate) fn reset_all(&mut self, node: u16, out: &mut Effects) {
        let is_its = |nat: &Self, &number: &u32| nat.table.get(number).node == node;
        let numbers: Vec<u32> = { self.table.numbers() }
            .filter(|number| is_its(self, number))
            .collect();
        numbers.into_iter().for_each(|number| self.end(number, out));
    }

    /// Sends a reset to one end, in the other's name; its numbers are `shift` beyond those of the
    /// table.
    pub(crate) fn reset(
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
