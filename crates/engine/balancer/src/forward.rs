//! Segments and datagrams: found in the table or entered there, rewritten, and sent on.

use lineside_frame::Frame;
use lineside_tcp::neighbours::Known;
use lineside_time::Nanoseconds;
use lineside_wire::icmp::Failure;
use lineside_wire::{TcpHeader, ethernet};

use crate::counters::Outcome;
use crate::cut;
use crate::effects::Effects;
use crate::follow::{Followed, follow};
use crate::nat::{Nat, Place, Waits};
use crate::packet::{self, IP_AT, Packet};
use crate::rewrite::{self, Rewriting, rewrite};
use crate::settings::Transport;
use crate::table::{Connection, Direction, Ends, KEPT, State, Tuple, flag};

/// Headers of IP and TCP, which a segment size leaves out: RFC 9293, 3.7.1.
const HEADERS_V4: u32 = 40;
const HEADERS_V6: u32 = 60;

/// A frame with what was read of it.
pub(crate) struct Arrival<'p> {
    pub(crate) port: usize,
    pub(crate) frame: Frame,
    pub(crate) packet: &'p Packet,
}

impl Nat {
    /// A segment, a datagram or a fragment.
    pub(crate) fn on_packet(
        &mut self,
        now: Nanoseconds,
        port: usize,
        frame: Frame,
        packet: &Packet,
        out: &mut Effects,
    ) -> Option<Outcome> {
        let arrival = Arrival {
            port,
            frame,
            packet,
        };
        match packet.fragment {
            None => self.on_whole(now, arrival, out),
            Some(fragment) => self.on_fragment(now, arrival, &fragment, out),
        }
    }

    /// A packet that has its ports.
    #[inline]
    pub(crate) fn on_whole(
        &mut self,
        now: Nanoseconds,
        arrival: Arrival<'_>,
        out: &mut Effects,
    ) -> Option<Outcome> {
        match self.table.find(&tuple(arrival.packet), &self.pool) {
            Some((number, direction)) => {
                if self.splices.is_some()
                    && let Some(outcome) = self.ask_splices(now, &arrival, number, direction, out)
                {
                    return Some(outcome);
                }
                self.pass(now, arrival, number, direction, out)
            }
            None => self.on_unknown(now, arrival, out),
        }
    }

    /// Follows a packet of a connection, and sends it on.
    pub(crate) fn pass(
        &mut self,
        now: Nanoseconds,
        arrival: Arrival<'_>,
        number: u32,
        direction: Direction,
        out: &mut Effects,
    ) -> Option<Outcome> {
        let packet = arrival.packet;
        if packet.hop_count <= 1 {
            return Some(self.hops_exceeded(now, &arrival, out));
        }
        if let Some(tcp) = &packet.tcp {
            match self.follow(now, &arrival, number, direction, tcp, out) {
                Ok(true) => {}
                Ok(false) => {
                    // The connection is over, and the client begins another.
                    let connection = self.table.remove(number, &self.pool);
                    self.on_gone(number, &connection, out);
                    return self.on_unknown(now, arrival, out);
                }
                Err(outcome) => return Some(outcome),
            }
        }
        self.table.renew(number, now, &self.pool);
        let is_moved = {
            let connection = self.table.get_mut(number);
            if connection.state == State::Datagrams && direction == Direction::ToClient {
                self.on_answered(now, number);
            }
            let connection = self.table.get_mut(number);
            let header = ethernet::Frame::new_unchecked(arrival.frame.bytes());
            let is_moved = direction == Direction::ToNode
                && (connection.ethernet, usize::from(connection.port))
                    != (header.source(), arrival.port);
            if is_moved {
                connection.ethernet = header.source();
                connection.port = arrival.port as u8;
            }
            connection.count(direction);
            is_moved
        };
        if is_moved {
            self.leave_driver_of(number, Direction::ToClient, out);
        }
        match direction {
            Direction::ToNode => self.pass_to_node(now, arrival, number, out),
            Direction::ToClient => {
                let connection = *self.table.get(number);
                let place = Place {
                    port: connection.port,
                    ethernet: connection.ethernet,
                };
                self.send_on(now, arrival, number, direction, place, out)
            }
        }
    }

    /// Follows a segment. False: its connection is over, and it begins another.
    fn follow(
        &mut self,
        now: Nanoseconds,
        arrival: &Arrival<'_>,
        number: u32,
        direction: Direction,
        tcp: &TcpHeader,
        out: &mut Effects,
    ) -> Result<bool, Outcome> {
        let header = &arrival.frame.bytes()[arrival.packet.transport_at..];
        let options = header
            .get(lineside_wire::tcp::HEADER_LEN..tcp.header_len)
            .unwrap_or_default();
        let mut tcp = *tcp;
        let connection = self.table.get_mut(number);
        if connection.flags & flag::SHIFTED != 0 && direction == Direction::ToNode {
            // Each end's numbers are followed as that end counts them.
            let splice = self.joints.of(number).unwrap_or_default();
            tcp.acknowledgement = tcp.acknowledgement - splice.sequence;
        }
        let before = connection.state;
        let of = [connection.node, connection.service];
        match follow(connection, direction, &tcp, options) {
            Followed::State(state) if state == before => Ok(true),
            Followed::State(state) => {
                let until = now.saturating_add(self.timeout(state));
                self.table.set_state(number, state, until, &self.pool);
                self.pool.on_state(of, before, state);
                if state == State::Established {
                    self.keep_affinity(now, number);
                } else {
                    for direction in Direction::BOTH {
                        self.leave_driver_of(number, direction, out);
                    }
                }
                Ok(true)
            }
            Followed::WrongReset => Err(Outcome::WrongReset),
            Followed::Anew => Ok(false),
        }
    }

    /// The node of a UDP mapping has answered.
    fn on_answered(&mut self, now: Nanoseconds, number: u32) {
        let until = now.saturating_add(self.timeout(State::Exchanged));
        self.table
            .set_state(number, State::Exchanged, until, &self.pool);
        self.keep_affinity(now, number);
    }

    fn pass_to_node(
        &mut self,
        now: Nanoseconds,
        mut arrival: Arrival<'_>,
        number: u32,
        out: &mut Effects,
    ) -> Option<Outcome> {
        let connection = *self.table.get(number);
        let service = &self.pool.services[usize::from(connection.service)];
        if service.settings.multicast {
            let nodes = service.nodes.len();
            for index in 0..nodes {
                let service = &self.pool.services[usize::from(connection.service)];
                let node = service.nodes[index];
                if node != connection.node && service.chooser.has(node) {
                    self.send_to_another(now, &mut arrival, number, node, out);
                }
            }
        }
        let node = &self.pool.nodes[usize::from(connection.node)];
        let hop = node.hop;
        match self.resolve(now, hop, out) {
            Known::Address { link_address, .. } => {
                self.send_on(now, arrival, number, Direction::ToNode, link_address, out)
            }
            Known::Waits { .. } => {
                let packet = arrival.packet;
                let rewriting = self.rewriting(&arrival.frame, packet, number, Direction::ToNode);
                let mut frame = self.parted(arrival.frame, packet);
                rewrite_frame(&mut frame, arrival.packet, &rewriting);
                // The port is not known where no route says it: the smallest is safe.
                let mtu = hop.port.map(|port| self.settings.ports[port].mtu);
                let mtu = mtu.unwrap_or_else(|| self.mtu_min());
                self.clamp(
                    &mut frame,
                    arrival.packet,
                    &connection,
                    arrival.port,
                    mtu,
                    &rewriting,
                );
                let waits = Waits {
                    node: Some(connection.node),
                    counts: true,
                };
                self.leave_to_hop(now, hop, frame, waits, out);
                None
            }
            Known::NoRoom => Some(Outcome::NeighbourFull),
        }
    }

    fn mtu_min(&self) -> u32 {
        let mtus = self.settings.ports.iter().map(|port| port.mtu);
        mtus.min().unwrap_or(0)
    }

    /// Sends a datagram to one more node.
    fn send_to_another(
        &mut self,
        now: Nanoseconds,
        arrival: &mut Arrival<'_>,
        number: u32,
        node: u16,
        out: &mut Effects,
    ) {
        let packet = arrival.packet;
        let slot = &self.pool.nodes[usize::from(node)];
        let hop = slot.hop;
        let destination = crate::pool::end(slot.address);
        let rewriting = Rewriting {
            destination,
            ..self.rewriting(&arrival.frame, packet, number, Direction::ToNode)
        };
        let another = arrival.frame.another();
        let mut frame = self.parted(another, packet);
        rewrite_frame(&mut frame, packet, &rewriting);
        let waits = Waits {
            node: Some(node),
            counts: false,
        };
        self.leave_to_hop(now, hop, frame, waits, out);
    }

    /// A frame whose headers may be rewritten: a datagram that goes to several nodes gets headers
    /// of its own, and its payload stays where it lies, for all of them.
    fn parted(&mut self, mut frame: Frame, packet: &Packet) -> Frame {
        match frame.has_others() && packet.transport == Transport::Udp {
            true => self.maker.with_own_head(&mut frame, packet.datagram_at()),
            false => frame,
        }
    }

    /// How a packet of a connection is rewritten.
    fn rewriting(
        &mut self,
        frame: &Frame,
        packet: &Packet,
        number: u32,
        direction: Direction,
    ) -> Rewriting {
        let connection = self.table.get_mut(number);
        // Whether a sender leaves checksums to its card is seen once: see `rewrite::is_partial`.
        let is_partial = packet.may_be_partial
            && (connection.has(flag::PARTIAL, direction)
                || rewrite::is_partial(frame.bytes(), packet));
        if is_partial {
            connection.set(flag::PARTIAL, direction, true);
        }
        let splice = match connection.flags & flag::SHIFTED {
            0 => None,
            _ => { self.joints.of(number) }.map(|splice| (direction.into(), splice)),
        };
        let way_back = self.pool.tuple(connection, direction.reversed());
        Rewriting {
            source: way_back.destination,
            destination: way_back.source,
            is_partial,
            splice,
        }
    }

    /// Rewrites a packet and sends it to a place that is known.
    #[inline]
    fn send_on(
        &mut self,
        now: Nanoseconds,
        arrival: Arrival<'_>,
        number: u32,
        direction: Direction,
        place: Place,
        out: &mut Effects,
    ) -> Option<Outcome> {
        let packet = arrival.packet;
        let mtu = self.settings.ports[usize::from(place.port)].mtu;
        let is_long = packet.len() > mtu as usize;
        if is_long && packet::is_uncut(arrival.frame.bytes()) {
            let failure = Failure::TooBig(mtu);
            return Some(self.report_error(now, &arrival, failure, Outcome::TooBig, out));
        }
        let (port, mut frame) = (arrival.port, arrival.frame);
        let rewriting = self.rewriting(&frame, packet, number, direction);
        if !is_long {
            frame = self.parted(frame, packet);
        }
        rewrite_frame(&mut frame, packet, &rewriting);
        let connection = *self.table.get(number);
        self.clamp(&mut frame, packet, &connection, port, mtu, &rewriting);
        let traffic = &mut self.pool.nodes[usize::from(connection.node)].traffic;
        traffic[direction.index()].add(1, frame.whole_len() as u64);
        let outcome = match direction {
            Direction::ToNode => Outcome::ToNode,
            Direction::ToClient => Outcome::ToClient,
        };
        if is_long {
            return Some(
                match self.send_pieces(&mut frame, packet.end, place, mtu, out) {
                    true => outcome,
                    false => Outcome::NoMemory,
                },
            );
        }
        self.leave_to(place, frame, out);
        let ports = [port, usize::from(place.port)];
        if self.may_enter(&connection, direction, packet, ports) {
            self.enter_driver(number, direction, port, place, &rewriting, out);
        }
        Some(outcome)
    }

    /// Cuts a packet that its sender allows to be cut: RFC 791, 3.2.
    pub(crate) fn send_pieces(
        &mut self,
        frame: &mut Frame,
        end: usize,
        place: Place,
        mtu: u32,
        out: &mut Effects,
    ) -> bool {
        // A card finishes no checksum of a packet in pieces.
        lineside_wire::complete_checksum(1, frame.bytes_mut());
        let pieces = cut::pieces(&frame.bytes()[..end], mtu as usize);
        for piece in pieces {
            let Some(mut part) = self.maker.cut(piece.len_bytes()) else {
                return false;
            };
            piece.write(&frame.bytes()[..end], part.bytes_mut());
            self.leave_to(place, part, out);
        }
        true
    }

    /// Lowers the segment size of a SYN to what both ports bear.
    fn clamp(
        &self,
        frame: &mut Frame,
        packet: &Packet,
        connection: &Connection,
        from: usize,
        mtu: u32,
        rewriting: &Rewriting,
    ) {
        if !packet.tcp.is_some_and(|tcp| tcp.flags.opens()) {
            return;
        }
        let service = &self.pool.services[usize::from(connection.service)].settings;
        let other = self.settings.ports[from].mtu;
        if !service.clamps_mss || other == mtu {
            return;
        }
        let headers = match packet.source.is_ipv4() {
            true => HEADERS_V4,
            false => HEADERS_V6,
        };
        let mss = mtu.min(other) - headers;
        let segment = &mut frame.bytes_mut()[packet.transport_at..packet.end];
        rewrite::clamp_mss(segment, mss as u16, rewriting.is_partial);
    }

    pub(crate) fn hops_exceeded(
        &mut self,
        now: Nanoseconds,
        arrival: &Arrival<'_>,
        out: &mut Effects,
    ) -> Outcome {
        let failure = Failure::TimeExceeded(0);
        self.report_error(now, arrival, failure, Outcome::HopsExceeded, out)
    }

    /// Sends an ICMP error to a packet's sender, from the address that the packet was for; none for
    /// a later fragment (RFC 1122, 3.2.2), and not too often. Returns the packet's outcome: this
    /// one, unless an error was due and could not be sent.
    pub(crate) fn report_error(
        &mut self,
        now: Nanoseconds,
        arrival: &Arrival<'_>,
        failure: Failure,
        outcome: Outcome,
        out: &mut Effects,
    ) -> Outcome {
        let packet = arrival.packet;
        if packet.fragment.is_some_and(|fragment| fragment.offset > 0)
            || packet.source.is_multicast()
            || packet.source.is_unspecified()
        {
            return outcome;
        }
        if !self.errors.take(now) {
            return Outcome::ErrorsLimited;
        }
        let bytes = arrival.frame.bytes();
        let ends = [packet.destination, packet.source];
        let header = ethernet::Frame::new_unchecked(bytes);
        let link = [header.source(), self.settings.ports[arrival.port].ethernet];
        let original = &bytes[IP_AT..packet.end];
        let frame = cut::error(&mut self.maker, failure, original, ends, link);
        if let Some(frame) = frame {
            self.push(arrival.port, frame, out);
        }
        outcome
    }
}

pub(crate) fn tuple(packet: &Packet) -> Tuple {
    Tuple {
        transport: packet.transport,
        source: packet.source(),
        destination: packet.destination(),
    }
}

/// Whether nodes of a connection see its client.
pub(crate) fn is_kept(connection: &Connection) -> bool {
    connection.nat == KEPT
}

/// Rewrites a packet. A checksum that its sender left to an adapter is left to the port by which it
/// leaves.
fn rewrite_frame(frame: &mut Frame, packet: &Packet, rewriting: &Rewriting) {
    rewrite(frame.bytes_mut(), packet, rewriting);
    frame.descriptor_mut().partial_checksum = rewriting.is_partial;
}
