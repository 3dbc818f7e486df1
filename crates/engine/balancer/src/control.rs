//! What it answers as the owner of its addresses: ARP (RFC 826), neighbour discovery (RFC 4861,
//! 7.2), echoes (RFC 792; RFC 4443, 4). And ICMP errors, translated with the packet inside
//! (RFC 5508, 4).

use std::net::{IpAddr, Ipv6Addr};

use lineside_frame::Frame;
use lineside_time::Nanoseconds;
use lineside_wire::control::ControlFrame;
use lineside_wire::icmp::{self, Failure, PacketError};
use lineside_wire::neighbour::{self, Neighbour, What};
use lineside_wire::{PROTOCOL_ICMP, PROTOCOL_ICMPV6, PROTOCOL_TCP, PROTOCOL_UDP};
use lineside_wire::{arp, ethernet, ipv4, ipv6};

use crate::counters::Outcome;
use crate::cut;
use crate::effects::Effects;
use crate::forward::is_kept;
use crate::nat::{Nat, Place, Waits};
use crate::packet::{self, End, IP_AT};
use crate::rewrite::{add_at, rewrite_ip, rewrite_transport};
use crate::settings::Transport;
use crate::table::{Direction, Ends, Tuple, flag};

/// Of a TCP header.
const SEQUENCE: usize = 4;
/// Of an ICMP message.
const CHECKSUM: usize = 2;

/// An ICMP message in a frame.
struct Message {
    ends: [IpAddr; 2],
    hop_count: u8,
    start: usize,
    end: usize,
}

/// An ICMP error about a packet of a connection, and where it goes.
struct Translated {
    number: u32,
    direction: Direction,
    transport: Transport,
    /// Where the transport header of the packet inside is, in the message.
    inside: usize,
}

impl Nat {
    /// RFC 826: whoever asks for one of our addresses is answered; each sender is learned from.
    pub(crate) fn on_arp(
        &mut self,
        now: Nanoseconds,
        port: usize,
        frame: &Frame,
        out: &mut Effects,
    ) -> Outcome {
        let Some(packet) = arp::Packet::new_checked(&frame.bytes()[IP_AT..]) else {
            return Outcome::Malformed;
        };
        let (sender, target) = (packet.sender_address(), packet.target_address());
        let place = Place {
            port: port as u8,
            ethernet: packet.sender(),
        };
        // An address that is asked for by its owner-to-be (RFC 5227) is nobody's yet.
        if !sender.is_unspecified() {
            self.learn(now, sender.into(), place, out);
        }
        if packet.operation() == arp::REQUEST && self.pool.is_ours(target.into()) {
            let own = self.settings.ports[port].ethernet;
            let reply = ControlFrame::arp_reply(own, target, (packet.sender(), sender));
            self.send_control(port, &reply, out);
        }
        Outcome::Control
    }

    /// A packet that is neither TCP nor UDP.
    pub(crate) fn on_icmp(
        &mut self,
        now: Nanoseconds,
        port: usize,
        frame: Frame,
        out: &mut Effects,
    ) -> Option<Outcome> {
        let message = match Message::read(frame.bytes()) {
            Ok(message) => message,
            Err(outcome) => return Some(outcome),
        };
        let bytes = &frame.bytes()[message.start..message.end];
        if icmp::checksum_of(bytes, message.ends) != 0 {
            return Some(Outcome::WrongChecksum);
        }
        let is_ipv4 = message.ends[0].is_ipv4();
        if let (IpAddr::V6(source), Some(neighbour)) = (
            message.ends[0],
            (!is_ipv4).then(|| Neighbour::read(bytes)).flatten(),
        ) {
            // A router would have taken one away: RFC 4861, 7.1.
            if message.hop_count != neighbour::HOP_LIMIT {
                return Some(Outcome::Malformed);
            }
            self.on_neighbour(now, port, source, &neighbour, out);
            return Some(Outcome::Control);
        }
        match message.error(frame.bytes()) {
            Some(error) => match self.find_error(now, &message, &error, out) {
                Ok(translated) => self.translate(now, frame, &message, &translated, out),
                Err(outcome) => Some(outcome),
            },
            None => Some(self.answer_echo(port, &frame, &message, out)),
        }
    }

    fn answer_echo(
        &mut self,
        port: usize,
        frame: &Frame,
        message: &Message,
        out: &mut Effects,
    ) -> Outcome {
        let [source, destination] = message.ends;
        if !self.pool.is_ours(destination) {
            return Outcome::NotOurs;
        }
        let back = ethernet::Frame::new_unchecked(frame.bytes()).source();
        let link = [back, self.settings.ports[port].ethernet];
        let request = &frame.bytes()[message.start..message.end];
        match ControlFrame::echo_reply(link, [destination, source], request) {
            None => Outcome::OtherProtocol,
            Some(reply) if self.send_control(port, &reply, out) => Outcome::Control,
            Some(_) => Outcome::NoMemory,
        }
    }

    /// Sends a frame of our own; whether there was memory for it.
    pub(crate) fn send_control(
        &mut self,
        port: usize,
        control: &ControlFrame<'_>,
        out: &mut Effects,
    ) -> bool {
        let frame = self.maker.control(control);
        let has_memory = frame.is_some();
        if let Some(frame) = frame {
            self.push(port, frame, out);
        }
        has_memory
    }

    /// RFC 4861, 7.2.3 to 7.2.5.
    fn on_neighbour(
        &mut self,
        now: Nanoseconds,
        port: usize,
        source: Ipv6Addr,
        message: &Neighbour,
        out: &mut Effects,
    ) {
        let target = message.target;
        let is_probe = source.is_unspecified();
        let place = message.link_address.map(|ethernet| Place {
            port: port as u8,
            ethernet,
        });
        match message.what {
            What::Advertisement { .. } => {
                if let Some(place) = place {
                    self.learn(now, target.into(), place, out);
                }
            }
            What::Solicitation if self.pool.is_ours(target.into()) => {
                let own = self.settings.ports[port].ethernet;
                if let Some(place) = place.filter(|_| !is_probe) {
                    self.learn(now, source.into(), place, out);
                }
                let to = place.filter(|_| !is_probe);
                let to = to.map(|place| (source, place.ethernet));
                let answer = ControlFrame::advertisement(own, target, to, !is_probe);
                self.send_control(port, &answer, out);
            }
            What::Solicitation => {}
        }
    }

    /// The connection whose packet met an error; those about checks are taken here.
    fn find_error(
        &mut self,
        now: Nanoseconds,
        message: &Message,
        error: &PacketError<'_>,
        out: &mut Effects,
    ) -> Result<Translated, Outcome> {
        let transport = match error.protocol {
            PROTOCOL_TCP => Transport::Tcp,
            PROTOCOL_UDP => Transport::Udp,
            _ => return Err(Outcome::NoSuchPacket),
        };
        let ports = error.transport.first_chunk::<4>();
        let [a, b, c, d] = *ports.ok_or(Outcome::Malformed)?;
        let sender: End = (error.source, u16::from_be_bytes([a, b]));
        let receiver: End = (error.destination, u16::from_be_bytes([c, d]));
        if error.source != message.ends[1] {
            return Err(Outcome::Malformed);
        }
        // Frames of the direction against that of the packet inside come as this.
        let tuple = Tuple {
            transport,
            source: receiver,
            destination: sender,
        };
        match self.table.find(&tuple, &self.pool) {
            Some((number, direction)) => Ok(Translated {
                number,
                direction,
                transport,
                inside: message.end - message.start - error.transport.len(),
            }),
            None if self.on_check_error(now, sender, receiver, out) => Err(Outcome::Check),
            None => Err(Outcome::NoSuchPacket),
        }
    }

    /// Reports to a client that its packet, which is rewritten already, is too long for the port by
    /// which it would leave. The error is translated as one of a router behind that port is.
    pub(crate) fn report_too_big(
        &mut self,
        now: Nanoseconds,
        packet: &[u8],
        mtu: u32,
        out: &mut Effects,
    ) -> Outcome {
        if !self.errors.take(now) {
            return Outcome::ErrorsLimited;
        }
        let ends = packet::ends_of(packet);
        let failure = Failure::TooBig(mtu);
        let link = [[0; 6]; 2];
        let error = cut::error(&mut self.maker, failure, packet, [ends[1], ends[0]], link);
        let Some(frame) = error else {
            return Outcome::NoMemory;
        };
        let Ok(message) = Message::read(frame.bytes()) else {
            return Outcome::TooBig;
        };
        if let Some(error) = message.error(frame.bytes())
            && let Ok(translated) = self.find_error(now, &message, &error, out)
            && translated.direction == Direction::ToClient
        {
            self.translate(now, frame, &message, &translated, out);
        }
        Outcome::TooBig
    }

    /// Sends an error on to the sender of the packet inside, as it sent that.
    fn translate(
        &mut self,
        now: Nanoseconds,
        mut frame: Frame,
        message: &Message,
        translated: &Translated,
        out: &mut Effects,
    ) -> Option<Outcome> {
        let (number, direction) = (translated.number, translated.direction);
        if message.hop_count <= 1 {
            return Some(Outcome::HopsExceeded);
        }
        let connection = *self.table.get(number);
        let way_back = self.pool.tuple(&connection, direction.reversed());
        // As whoever sends it on in this direction, which hides routers of the other side; a client
        // that nodes see anyway hides none.
        let keeps_source = direction == Direction::ToNode && is_kept(&connection);
        let source = match keeps_source {
            true => message.ends[0],
            false => way_back.destination.0,
        };
        let ends = [source, way_back.source.0];
        let bytes = frame.bytes_mut();
        let (headers, rest) = bytes[IP_AT..message.end].split_at_mut(message.start - IP_AT);
        rewrite_ip(headers, ends[0], ends[1], true);
        // The packet inside went the other way.
        let (inner, segment) =
            rest[icmp::HEADER_LEN..].split_at_mut(translated.inside - icmp::HEADER_LEN);
        let [inner_source, inner_destination] = [way_back.source, way_back.destination];
        let addresses = rewrite_ip(inner, inner_source.0, inner_destination.0, false);
        let ports = [inner_source.1, inner_destination.1];
        rewrite_transport(translated.transport, segment, ports, addresses, false);
        if connection.flags & flag::SHIFTED != 0 && segment.len() >= SEQUENCE + 4 {
            let splice = self.joints.of(number).unwrap_or_default();
            // The client's own numbers are the node's, too.
            if direction == Direction::ToNode {
                add_at(segment, SEQUENCE, splice.sequence.wrapping_neg());
            }
        }
        rest[CHECKSUM..CHECKSUM + 2].fill(0);
        let checksum = icmp::checksum_of(rest, ends).to_be_bytes();
        rest[CHECKSUM..CHECKSUM + 2].copy_from_slice(&checksum);
        match direction {
            Direction::ToClient => {
                let place = Place {
                    port: connection.port,
                    ethernet: connection.ethernet,
                };
                self.leave_to(place, frame, out);
                Some(Outcome::ToClient)
            }
            Direction::ToNode => {
                let hop = self.pool.nodes[usize::from(connection.node)].hop;
                let waits = Waits {
                    node: Some(connection.node),
                    counts: true,
                };
                self.leave_to_hop(now, hop, frame, waits, out);
                None
            }
        }
    }
}

impl Message {
    /// The error that it is, if it is one.
    fn error<'a>(&self, frame: &'a [u8]) -> Option<PacketError<'a>> {
        let bytes = &frame[self.start..self.end];
        match self.ends[0].is_ipv4() {
            true => PacketError::read(bytes),
            false => PacketError::read_v6(bytes),
        }
    }

    fn read(bytes: &[u8]) -> Result<Self, Outcome> {
        let packet = &bytes[IP_AT..];
        let version = packet.first().map_or(0, |first| first >> 4);
        let (ends, hop_count, header_len, len) = match version {
            4 => {
                let packet = ipv4::Packet::new_checked(packet).ok_or(Outcome::Malformed)?;
                if packet.protocol() != PROTOCOL_ICMP || packet.is_fragment() {
                    return Err(Outcome::OtherProtocol);
                }
                if !packet.verify_checksum() {
                    return Err(Outcome::WrongChecksum);
                }
                let ends = [packet.source().into(), packet.destination().into()];
                (
                    ends,
                    packet.ttl(),
                    packet.header_len(),
                    packet.payload().len(),
                )
            }
            6 => {
                let packet = ipv6::Packet::new_checked(packet).ok_or(Outcome::Malformed)?;
                if packet.next_header() != PROTOCOL_ICMPV6 {
                    return Err(Outcome::OtherProtocol);
                }
                let ends = [packet.source().into(), packet.destination().into()];
                let len = packet.payload().len();
                (ends, packet.hop_limit(), ipv6::HEADER_LEN, len)
            }
            _ => return Err(Outcome::Malformed),
        };
        let start = IP_AT + header_len;
        // A message shorter than an echo's header is none that is known.
        match len < icmp::HEADER_LEN {
            true => Err(Outcome::Malformed),
            false => Ok(Self {
                ends,
                hop_count,
                start,
                end: start + len,
            }),
        }
    }
}
