//! Segments and datagrams: found in the table or entered there, rewritten, and sent on.

use lineside_frame::Frame;
use lineside_tcp::neighbours::Known;
use lineside_time::Nanoseconds;
use lineside_wire::build::TcpFields;
use lineside_wire::icmp::{self, Failure};
use lineside_wire::{TcpFlags, TcpHeader, ethernet};

use crate::counters::Outcome;
use crate::cut;
use crate::effects::{Decision, Effects, FlowKey, Translation};
use crate::follow::{Followed, end_of, follow};
use crate::health;
use crate::nat::{Nat, Place, Waits, socket};
use crate::packet::{End, IP_AT, Packet};
use crate::rewrite::{self, Rewriting, rewrite};
use crate::settings::Transport;
use crate::table::{Connection, Direction, Ends, KEPT, State, Tuple, flag};

/// Port numbers of connections: behind those of checks.
const PORTS_START: u16 = health::PORTS.end;
/// How many port numbers of a NAT address are tried. With 9 of 10 in use, 1 connection in a million
/// finds none.
const PORT_TRIES: u16 = 128;
/// A UDP flow is handed to the driver with this frame of a direction: a question and its answer are
/// not worth it.
const DATAGRAMS_TO_ENTER: u32 = 3;
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
        match self.table.find(&tuple(arrival.packet), &self.farm) {
            Some((number, direction)) => self.pass(now, arrival, number, direction, out),
            None => self.on_unknown(now, arrival, out),
        }
    }

    /// A packet of no connection.
    fn on_unknown(
        &mut self,
        now: Nanoseconds,
        arrival: Arrival<'_>,
        out: &mut Effects,
    ) -> Option<Outcome> {
        let packet = arrival.packet;
        let destination = socket(packet.destination());
        if let Some(service) = self.farm.service_of(packet.transport, destination) {
            return match self.open(now, &arrival, service, out) {
                Ok(number) => self.pass(now, arrival, number, Direction::ToNode, out),
                Err(outcome) => {
                    let slot = &mut self.farm.services[usize::from(service)];
                    slot.outcomes.count(outcome);
                    Some(outcome)
                }
            };
        }
        if !self.farm.is_ours(packet.destination) {
            return Some(Outcome::NotOurs);
        }
        if self.on_check_answer(now, packet, arrival.frame.bytes(), out) {
            return Some(Outcome::Check);
        }
        match packet.tcp {
            Some(tcp) => Some(self.refuse(&arrival, &tcp, Outcome::Reset, out)),
            None => {
                let code = match packet.source.is_ipv4() {
                    true => icmp::PORT_UNREACHABLE,
                    false => icmp::PORT_UNREACHABLE_V6,
                };
                self.report_error(&arrival, Failure::Unreachable(code), out);
                Some(Outcome::NoService)
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
            return Err(self.hops_exceeded(arrival, out));
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
        let added = self.table.add(connection, until, &self.farm);
        let number = added.ok_or(Outcome::TableFull)?;
        self.farm.on_opened(&connection);
        self.farm.services[usize::from(service)].opened += 1;
        self.farm.nodes[usize::from(node)].opened += 1;
        Ok(number)
    }

    /// The node of a client's new connection.
    fn choose(&mut self, now: Nanoseconds, client: End, service: u16) -> Option<u16> {
        let hash = self.flow_hash(client, service);
        let slot = &mut self.farm.services[usize::from(service)];
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
    fn make_room(&mut self, out: &mut Effects) -> Result<(), Outcome> {
        if !self.table.is_full() {
            return Ok(());
        }
        let oldest = self.table.oldest_half_open().ok_or(Outcome::TableFull)?;
        let connection = self.table.remove(oldest, &self.farm);
        self.on_gone(oldest, &connection, out);
        self.evicted += 1;
        Ok(())
    }

    /// Gives a connection a NAT address and port number that nobody has towards its node.
    fn take_port(&mut self, connection: &mut Connection) -> Result<(), Outcome> {
        let is_free = |nat: &Self, connection: &Connection| {
            let tuple = nat.farm.tuple(connection, Direction::ToClient);
            nat.table.find(&tuple, &nat.farm).is_none()
        };
        let service = &self.farm.services[usize::from(connection.service)].settings;
        if service.keeps_client {
            return match is_free(self, connection) {
                true => Ok(()),
                false => Err(Outcome::TupleTaken),
            };
        }
        let is_ipv4 = service.address.is_ipv4();
        let count = self.farm.nat_of_family(is_ipv4).count();
        let first = self.random.below(count as u64) as usize;
        let ports = u16::MAX - PORTS_START + 1;
        for turn in 0..count {
            let which = (first + turn) % count;
            let Some((nat, _)) = self.farm.nat_of_family(is_ipv4).nth(which) else {
                break;
            };
            connection.nat = nat;
            for _ in 0..PORT_TRIES {
                // Each is drawn: what a stranger sees says nothing of the next (RFC 6056, 3.3.1).
                connection.nat_port = PORTS_START + self.random.below(ports.into()) as u16;
                if is_free(self, connection) {
                    return Ok(());
                }
            }
        }
        Err(Outcome::NoPort)
    }

    /// The client is where its frame came from.
    fn place(&self, arrival: &Arrival<'_>, connection: &mut Connection) {
        let header = ethernet::Frame::new_unchecked(arrival.frame.bytes());
        connection.ethernet = header.source();
        connection.port = arrival.port as u8;
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
            return Some(self.hops_exceeded(&arrival, out));
        }
        if let Some(tcp) = &packet.tcp {
            match self.follow(now, &arrival, number, direction, tcp, out) {
                Ok(true) => {}
                Ok(false) => {
                    // The connection is over, and the client begins another.
                    let connection = self.table.remove(number, &self.farm);
                    self.on_gone(number, &connection, out);
                    return self.on_unknown(now, arrival, out);
                }
                Err(outcome) => return Some(outcome),
            }
        }
        let is_moved = {
            let connection = self.table.get_mut(number);
            connection.seen = now;
            let header = ethernet::Frame::new_unchecked(arrival.frame.bytes());
            let is_moved = direction == Direction::ToNode
                && (connection.ethernet, usize::from(connection.port))
                    != (header.source(), arrival.port);
            if is_moved {
                connection.ethernet = header.source();
                connection.port = arrival.port as u8;
            }
            if packet.transport == Transport::Udp {
                let next = &mut connection.next[direction.index()];
                *next = next.saturating_add(1);
            }
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
                self.send_on(arrival, number, direction, place, out)
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
        let connection = self.table.get_mut(number);
        let before = connection.state;
        match follow(connection, direction, tcp, options) {
            Followed::State(state) if state == before => Ok(true),
            Followed::State(state) => {
                let until = now.saturating_add(self.timeout(state));
                self.table.set_state(number, state, until);
                if state != State::Established {
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

    fn pass_to_node(
        &mut self,
        now: Nanoseconds,
        mut arrival: Arrival<'_>,
        number: u32,
        out: &mut Effects,
    ) -> Option<Outcome> {
        let connection = *self.table.get(number);
        let service = &self.farm.services[usize::from(connection.service)];
        if service.settings.multicast {
            let nodes = service.nodes.len();
            for index in 0..nodes {
                let service = &self.farm.services[usize::from(connection.service)];
                let node = service.nodes[index];
                if node != connection.node && service.chooser.has(node) {
                    self.send_copy(now, &mut arrival, number, node, out);
                }
            }
        }
        let node = &self.farm.nodes[usize::from(connection.node)];
        let hop = node.hop;
        match self.resolve(now, hop, out) {
            Known::Address { link_address, .. } => {
                self.send_on(arrival, number, Direction::ToNode, link_address, out)
            }
            Known::Waits { .. } => {
                let mut frame = arrival.frame;
                let rewriting = self.rewriting(&frame, arrival.packet, number, Direction::ToNode);
                rewrite(frame.bytes_mut(), arrival.packet, &rewriting);
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

    /// Sends a copy of a datagram to one more node. What the copies share and what differs is this
    /// function's alone.
    fn send_copy(
        &mut self,
        now: Nanoseconds,
        arrival: &mut Arrival<'_>,
        number: u32,
        node: u16,
        out: &mut Effects,
    ) {
        let packet = arrival.packet;
        let slot = &self.farm.nodes[usize::from(node)];
        let hop = slot.hop;
        let destination = crate::farm::end(slot.address);
        let mut frame = arrival.frame.another();
        let rewriting = Rewriting {
            destination,
            ..self.rewriting(&arrival.frame, packet, number, Direction::ToNode)
        };
        rewrite(frame.bytes_mut(), packet, &rewriting);
        let waits = Waits {
            node: Some(node),
            counts: false,
        };
        self.leave_to_hop(now, hop, frame, waits, out);
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
        let shift = match connection.flags & flag::SHIFTED {
            0 => [0; 2],
            _ => self.shifts.of_frame(number, direction),
        };
        let way_back = self.farm.tuple(connection, direction.reversed());
        Rewriting {
            source: way_back.destination,
            destination: way_back.source,
            is_partial,
            shift,
        }
    }

    /// Rewrites a packet and sends it to a place that is known.
    #[inline]
    fn send_on(
        &mut self,
        arrival: Arrival<'_>,
        number: u32,
        direction: Direction,
        place: Place,
        out: &mut Effects,
    ) -> Option<Outcome> {
        let packet = arrival.packet;
        let mtu = self.settings.ports[usize::from(place.port)].mtu;
        let is_long = packet.len() > mtu as usize;
        if is_long && packet.is_uncut(arrival.frame.bytes()) {
            self.report_error(&arrival, Failure::TooBig(mtu), out);
            return Some(Outcome::TooBig);
        }
        let (port, mut frame) = (arrival.port, arrival.frame);
        let rewriting = self.rewriting(&frame, packet, number, direction);
        rewrite(frame.bytes_mut(), packet, &rewriting);
        let connection = *self.table.get(number);
        self.clamp(&mut frame, packet, &connection, port, mtu, &rewriting);
        let traffic = &mut self.farm.nodes[usize::from(connection.node)].traffic;
        traffic[direction.index()].add(1, frame.bytes().len() as u64);
        let outcome = match direction {
            Direction::ToNode => Outcome::ToNode,
            Direction::ToClient => Outcome::ToClient,
        };
        if is_long {
            return Some(match self.send_pieces(frame, packet, place, mtu, out) {
                true => outcome,
                false => Outcome::NoMemory,
            });
        }
        self.leave_to(place, frame, out);
        if self.may_enter(
            &connection,
            direction,
            packet,
            [port, usize::from(place.port)],
        ) {
            self.table
                .get_mut(number)
                .set(flag::ENTERED, direction, true);
            let is = self.farm.tuple(&connection, direction);
            out.decided.push(Decision::Enter(Translation {
                transport: packet.transport,
                port,
                source: socket(is.source),
                destination: socket(is.destination),
                new_source: socket(rewriting.source),
                new_destination: socket(rewriting.destination),
                out_port: place.port.into(),
                ethernet_source: self.settings.ports[usize::from(place.port)].ethernet,
                ethernet_destination: place.ethernet,
            }));
        }
        Some(outcome)
    }

    /// Whether a direction may be handed to a driver now: plain frames of known translation, which
    /// fit the port by which they leave, with finished checksums.
    #[inline]
    fn may_enter(
        &self,
        connection: &Connection,
        direction: Direction,
        packet: &Packet,
        [from, to]: [usize; 2],
    ) -> bool {
        if connection.has(flag::ENTERED | flag::PARTIAL, direction)
            || connection.flags & flag::SHIFTED != 0
        {
            return false;
        }
        let is_ready = match connection.state {
            State::Established => true,
            State::Datagrams => connection.next[direction.index()] >= DATAGRAMS_TO_ENTER,
            _ => false,
        };
        let service = &self.farm.services[usize::from(connection.service)].settings;
        is_ready
            && packet.fragment.is_none()
            && !packet.may_be_partial
            && !service.multicast
            && self.settings.ports[from].mtu <= self.settings.ports[to].mtu
    }

    /// Cuts a packet that its sender allows to be cut: RFC 791, 3.2.
    fn send_pieces(
        &mut self,
        mut frame: Frame,
        packet: &Packet,
        place: Place,
        mtu: u32,
        out: &mut Effects,
    ) -> bool {
        // A card finishes no checksum of a packet in pieces.
        lineside_wire::complete_checksum(1, frame.bytes_mut());
        let pieces = cut::pieces(&frame.bytes()[..packet.end], mtu as usize);
        for piece in pieces {
            let Some(mut part) = self.maker.cut(piece.len_bytes()) else {
                return false;
            };
            piece.write(&frame.bytes()[..packet.end], part.bytes_mut());
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
        let service = &self.farm.services[usize::from(connection.service)].settings;
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

    fn hops_exceeded(&mut self, arrival: &Arrival<'_>, out: &mut Effects) -> Outcome {
        self.report_error(arrival, Failure::TimeExceeded(0), out);
        Outcome::HopsExceeded
    }

    /// Tells a packet's sender what became of it, in the name of the address that it was for; not
    /// of a later fragment (RFC 1122, 3.2.2).
    pub(crate) fn report_error(
        &mut self,
        arrival: &Arrival<'_>,
        failure: Failure,
        out: &mut Effects,
    ) {
        let packet = arrival.packet;
        if packet.fragment.is_some_and(|fragment| fragment.offset > 0)
            || packet.source.is_multicast()
            || packet.source.is_unspecified()
        {
            return;
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
    }

    /// A driver forwarded so much of a direction meanwhile, which keeps its connection alive.
    pub fn passed(&mut self, now: Nanoseconds, key: &FlowKey, frames: u64, bytes: u64) {
        let tuple = Tuple {
            transport: key.transport,
            source: crate::farm::end(key.source),
            destination: crate::farm::end(key.destination),
        };
        let Some((number, direction)) = self.table.find(&tuple, &self.farm) else {
            return;
        };
        if frames == 0 {
            return;
        }
        let connection = self.table.get_mut(number);
        connection.seen = connection.seen.max(now);
        if packet_is_followed(connection) {
            connection.flags |= flag::BYPASSED;
        }
        let node = &mut self.farm.nodes[usize::from(connection.node)];
        node.traffic[direction.index()].add(frames, bytes);
    }

    /// A driver forwards no direction of this connection any more.
    pub(crate) fn leave_driver(&self, connection: &Connection, out: &mut Effects) {
        for direction in Direction::BOTH {
            if connection.has(flag::ENTERED, direction) {
                let tuple = self.farm.tuple(connection, direction);
                out.decided.push(Decision::Leave(FlowKey {
                    transport: tuple.transport,
                    source: socket(tuple.source),
                    destination: socket(tuple.destination),
                }));
            }
        }
    }

    /// A driver forwards this direction no more, but may again.
    pub(crate) fn leave_driver_of(&mut self, number: u32, direction: Direction, out: &mut Effects) {
        let connection = self.table.get_mut(number);
        if !connection.has(flag::ENTERED, direction) {
            return;
        }
        let mut only = *connection;
        connection.set(flag::ENTERED, direction, false);
        only.set(flag::ENTERED, direction.reversed(), false);
        self.leave_driver(&only, out);
    }

    /// A neighbour is elsewhere now: what a driver has of connections to nodes behind it is old.
    #[cold]
    pub(crate) fn on_moved(&mut self, address: std::net::IpAddr, out: &mut Effects) {
        let numbers: Vec<u32> = self.table.numbers().collect();
        for number in numbers {
            let node = self.table.get(number).node;
            if self.farm.nodes[usize::from(node)].hop.address == address {
                self.leave_driver_of(number, Direction::ToNode, out);
            }
        }
    }

    /// A node does not answer any more: its connections are reset, or stay.
    #[cold]
    pub(crate) fn on_node_lost(&mut self, _now: Nanoseconds, node: u16, out: &mut Effects) {
        let service = self.farm.nodes[usize::from(node)].service;
        let settings = &self.farm.services[usize::from(service)].settings;
        if settings.on_loss == crate::settings::OnLoss::Reset {
            self.reset_all(node, out);
        }
    }

    /// Ends all connections of a node. Their clients are told; one whose numbers a driver has seen
    /// last gets its reset when it sends again.
    pub(crate) fn reset_all(&mut self, node: u16, out: &mut Effects) {
        let is_its = |nat: &Self, &number: &u32| nat.table.get(number).node == node;
        let numbers: Vec<u32> = { self.table.numbers() }
            .filter(|number| is_its(self, number))
            .collect();
        for number in numbers {
            let connection = self.table.remove(number, &self.farm);
            let shift = self.shifts.of_frame(number, Direction::ToClient);
            if self.is_told(&connection) {
                self.tell_client(&connection, shift, out);
            }
            self.on_gone(number, &connection, out);
        }
    }

    fn is_told(&self, connection: &Connection) -> bool {
        let is_open = matches!(connection.state, State::Established | State::Closing);
        is_open && connection.flags & flag::BYPASSED == 0
    }

    fn tell_client(&mut self, connection: &Connection, shift: [u32; 2], out: &mut Effects) {
        let to_client = Direction::ToClient.index();
        let service = &self.farm.services[usize::from(connection.service)].settings;
        let (ours, client) = (service.address, connection.client());
        let fields = TcpFields {
            source_port: ours.port(),
            destination_port: client.1,
            sequence: connection.next[to_client].wrapping_add(shift[0]),
            acknowledgement: connection.next[Direction::ToNode.index()],
            flags: TcpFlags::RST | TcpFlags::ACK,
            window: 0,
            options: &[],
        };
        let port = usize::from(connection.port);
        let link = [connection.ethernet, self.settings.ports[port].ethernet];
        let frame = self
            .maker
            .segment(link, [ours.ip(), client.0], &fields, &[]);
        if let Some(frame) = frame {
            self.push(port, frame, out);
        }
    }
}

/// Whether sequence numbers are followed.
fn packet_is_followed(connection: &Connection) -> bool {
    connection.state != State::Datagrams
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
