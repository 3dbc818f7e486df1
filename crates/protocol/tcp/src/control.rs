//! ARP (RFC 826), echoes of ICMP and ICMPv6 (RFC 792; RFC 4443, 4), neighbour discovery (RFC 4861,
//! 7.2): what a host answers for its addresses, and how it asks for those of others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use lineside_wire::ethernet::{self, ether_type};
use lineside_wire::headers::{Headers, emit_link, link_len};
use lineside_wire::icmp::PacketError;
use lineside_wire::neighbour::{self, Neighbour, What};
use lineside_wire::{PROTOCOL_ICMP, PROTOCOL_ICMPV6, arp, icmp, ipv4, ipv6};

use crate::effects::{Departure, Effects, Why};
use crate::leave::descriptor;
use crate::neighbours::Turn;
use crate::stack::Stack;

const BROADCAST: [u8; 6] = [0xff; 6];
pub(crate) const CONTROL: Departure = Departure {
    connection: None,
    why: Why::Control,
    due: None,
};

impl Stack {
    /// A frame that carries neither TCP nor UDP.
    pub(crate) fn on_control(&mut self, bytes: &[u8], effects: &mut impl Effects) {
        let at = link_len(&self.config.tags);
        let kind = [bytes[at - 2], bytes[at - 1]];
        let packet = &bytes[at..];
        let is_known = match u16::from_be_bytes(kind) {
            ether_type::ARP => self.on_arp(packet, effects),
            ether_type::IPV4 => self.on_icmp(bytes, packet, effects),
            ether_type::IPV6 => self.on_icmpv6(bytes, packet, effects),
            _ => None,
        };
        match is_known {
            Some(()) => self.counters.control += 1,
            None => self.counters.not_read += 1,
        }
    }

    /// RFC 826: who asks for one of our addresses is answered, and learned.
    fn on_arp(&mut self, packet: &[u8], effects: &mut impl Effects) -> Option<()> {
        let packet = arp::Packet::new_checked(packet)?;
        let (sender, target) = (packet.sender_address(), packet.target_address());
        let is_for_us = self.config.is_ours(target.into());
        // An address that is asked for by its owner-to-be (RFC 5227) is nobody's yet.
        if !sender.is_unspecified() {
            self.learn(sender.into(), packet.sender(), is_for_us, effects);
        }
        if is_for_us && packet.operation() == arp::REQUEST {
            let answer = (packet.sender(), sender);
            self.send_arp(arp::REPLY, target, answer, packet.sender(), effects);
        }
        Some(())
    }

    fn learn(
        &mut self,
        address: IpAddr,
        link_address: [u8; 6],
        adds: bool,
        effects: &mut impl Effects,
    ) {
        // A group is nobody's address.
        if link_address[0] & 1 != 0 {
            return;
        }
        let now = self.now;
        self.neighbours
            .learn(now, address, link_address, adds, |mut frame, departure| {
                let mut header = ethernet::Frame::new_unchecked(frame.bytes_mut());
                header.set_destination(link_address);
                effects.transmit(frame, departure);
            });
    }

    fn send_arp(
        &mut self,
        operation: u16,
        ours: Ipv4Addr,
        target: ([u8; 6], Ipv4Addr),
        receiver: [u8; 6],
        effects: &mut impl Effects,
    ) {
        let len = link_len(&self.config.tags) + arp::PACKET_LEN;
        let Some(mut frame) = self.cutter.cut(len, descriptor(len)) else {
            self.counters.frames_unsent += 1;
            return;
        };
        let own = self.config.link_address;
        let link = [receiver, own];
        let packet = emit_link(link, &self.config.tags, ether_type::ARP, frame.bytes_mut());
        arp::Packet::emit(packet, operation, (own, ours), target);
        effects.transmit(frame, CONTROL);
    }

    /// An echo request is answered; RFC 1122, 3.2.2.6: not one that came to a group.
    fn on_icmp(&mut self, bytes: &[u8], packet: &[u8], effects: &mut impl Effects) -> Option<()> {
        let packet = ipv4::Packet::new_checked(packet)?;
        let ends = [packet.destination(), packet.source()].map(IpAddr::from);
        let is_ours = packet.protocol() == PROTOCOL_ICMP
            && !packet.is_fragment()
            && packet.verify_checksum()
            && self.config.is_ours(ends[0]);
        let message = packet.payload();
        if !is_ours || icmp::checksum_of(message, ends) != 0 {
            return None;
        }
        if let Some(error) = PacketError::read(message) {
            self.on_packet_error(&error, effects);
            return Some(());
        }
        self.answer_echo(bytes, ends, message, effects)
    }

    fn on_icmpv6(&mut self, bytes: &[u8], packet: &[u8], effects: &mut impl Effects) -> Option<()> {
        let packet = ipv6::Packet::new_checked(packet)?;
        let (source, destination) = (packet.source(), packet.destination());
        let message = packet.payload();
        let ends = [destination.into(), source.into()];
        if packet.next_header() != PROTOCOL_ICMPV6 || icmp::checksum_of(message, ends) != 0 {
            return None;
        }
        if let Some(neighbour) = Neighbour::read(message) {
            // A router would have taken one away: RFC 4861, 7.1.
            if packet.hop_limit() != neighbour::HOP_LIMIT {
                return None;
            }
            self.on_neighbour(bytes, source, &neighbour, effects);
            return Some(());
        }
        if !self.config.is_ours(ends[0]) {
            return None;
        }
        if let Some(error) = PacketError::read_v6(message) {
            self.on_packet_error(&error, effects);
            return Some(());
        }
        self.answer_echo(bytes, ends, message, effects)
    }

    fn answer_echo(
        &mut self,
        bytes: &[u8],
        ends: [IpAddr; 2],
        message: &[u8],
        effects: &mut impl Effects,
    ) -> Option<()> {
        let request = match ends[0].is_ipv4() {
            true => icmp::kind::ECHO_REQUEST,
            false => icmp::kind::ECHO_REQUEST_V6,
        };
        let echo = icmp::Echo::new_checked(message)?;
        // An answer would be as long; a longer one than a packet would have to be cut.
        let most = self.config.mtu - if ends[0].is_ipv4() { 20 } else { 40 };
        if echo.kind() != request || message.len() > most {
            return None;
        }
        let protocol = if ends[0].is_ipv4() {
            PROTOCOL_ICMP
        } else {
            PROTOCOL_ICMPV6
        };
        // To whom it came from, as it came.
        let back = ethernet::Frame::new_unchecked(bytes).source();
        self.send_packet(
            ends,
            back,
            64,
            (protocol, message.len()),
            effects,
            |reply| {
                icmp::emit_reply(message, ends, reply);
            },
        );
        Some(())
    }

    /// RFC 4861, 7.2.3 to 7.2.5.
    fn on_neighbour(
        &mut self,
        bytes: &[u8],
        source: Ipv6Addr,
        neighbour: &Neighbour,
        effects: &mut impl Effects,
    ) {
        let target = neighbour.target;
        match neighbour.what {
            What::Advertisement { .. } => {
                let link_address = neighbour.link_address;
                if let Some(link_address) =
                    link_address.filter(|_| !self.config.is_ours(target.into()))
                {
                    self.learn(target.into(), link_address, false, effects);
                }
            }
            What::Solicitation if self.config.is_ours(target.into()) => {
                let is_probe = source.is_unspecified();
                if let Some(link_address) = neighbour.link_address.filter(|_| !is_probe) {
                    self.learn(source.into(), link_address, true, effects);
                }
                let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
                let (to, link) = match is_probe {
                    true => (all_nodes, neighbour::multicast_link_address(all_nodes)),
                    false => (source, ethernet::Frame::new_unchecked(bytes).source()),
                };
                let what = What::Advertisement {
                    is_solicited: !is_probe,
                    overrides: true,
                };
                self.send_neighbour(what, target, [target, to], link, effects);
            }
            What::Solicitation => {}
        }
    }

    fn send_neighbour(
        &mut self,
        what: What,
        target: Ipv6Addr,
        ends: [Ipv6Addr; 2],
        link: [u8; 6],
        effects: &mut impl Effects,
    ) {
        let own = self.config.link_address;
        let payload = (PROTOCOL_ICMPV6, neighbour::MESSAGE_LEN);
        let hops = neighbour::HOP_LIMIT;
        self.send_packet(
            ends.map(IpAddr::from),
            link,
            hops,
            payload,
            effects,
            |message| {
                Neighbour::emit(what, target, own, ends, message);
            },
        );
    }

    fn send_packet(
        &mut self,
        ends: [IpAddr; 2],
        receiver: [u8; 6],
        hop_count: u8,
        (protocol, payload_len): (u8, usize),
        effects: &mut impl Effects,
        write: impl FnOnce(&mut [u8]),
    ) {
        let headers = Headers {
            link: [receiver, self.config.link_address],
            tags: self.config.tags,
            hop_count,
            ..Headers::new(ends[0], ends[1])
        };
        let len = headers.len_bytes() + payload_len;
        let Some(mut frame) = self.cutter.cut(len, descriptor(len)) else {
            self.counters.frames_unsent += 1;
            return;
        };
        write(headers.emit(protocol, payload_len, frame.bytes_mut()));
        effects.transmit(frame, CONTROL);
    }

    /// Asks for a neighbour's Ethernet address.
    pub(crate) fn ask(&mut self, address: IpAddr, effects: &mut impl Effects) {
        let Some(ours) = self.config.address_of_family(address.is_ipv4()) else {
            return;
        };
        match (ours, address) {
            (IpAddr::V4(ours), IpAddr::V4(address)) => {
                self.send_arp(arp::REQUEST, ours, ([0; 6], address), BROADCAST, effects);
            }
            (IpAddr::V6(ours), IpAddr::V6(address)) => {
                let group = neighbour::solicited_node(address);
                let link = neighbour::multicast_link_address(group);
                self.send_neighbour(What::Solicitation, address, [ours, group], link, effects);
            }
            _ => {}
        }
    }

    /// Asks again for those that did not answer.
    pub(crate) fn ask_again(&mut self, effects: &mut impl Effects) {
        while let Some(turn) = self.neighbours.on_timer(self.now, |_, _| {}) {
            match turn {
                Turn::Ask(address) => self.ask(address, effects),
                Turn::Silent(address, dropped) => {
                    self.counters.frames_unresolved += dropped;
                    effects.on_silent(address);
                }
                // An end believes the latest answer, without a claim.
                Turn::Moved(_) => {}
            }
        }
    }
}
