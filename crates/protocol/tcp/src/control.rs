//! ARP (RFC 826), echoes of ICMP and ICMPv6 (RFC 792; RFC 4443, 4), neighbour discovery (RFC 4861,
//! 7.2): what a host answers for its addresses, and how it asks for those of others.

use std::net::{IpAddr, Ipv6Addr};

use lineside_wire::control::ControlFrame;
use lineside_wire::ethernet::{self, ether_type};
use lineside_wire::headers::link_len;
use lineside_wire::icmp::PacketError;
use lineside_wire::neighbour::{self, Neighbour, What};
use lineside_wire::{PROTOCOL_ICMP, PROTOCOL_ICMPV6, arp, icmp, ipv4, ipv6};

use crate::effects::{Departure, Effects, Why};
use crate::ip::descriptor;
use crate::neighbours::Turn;
use crate::stack::Stack;

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
            let own = self.config.link_address;
            let reply = ControlFrame::arp_reply(own, target, (packet.sender(), sender));
            self.send_control(&reply, effects);
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
        // An answer would be as long; a longer one than a packet would have to be cut.
        let most = self.config.mtu - if ends[0].is_ipv4() { 20 } else { 40 };
        if message.len() > most {
            return None;
        }
        // To whom it came from, as it came.
        let back = ethernet::Frame::new_unchecked(bytes).source();
        let link = [back, self.config.link_address];
        let reply = ControlFrame::echo_reply(link, ends, message)?;
        self.send_control(&reply, effects);
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
                let back = ethernet::Frame::new_unchecked(bytes).source();
                let to = (!is_probe).then_some((source, back));
                let own = self.config.link_address;
                let answer = ControlFrame::advertisement(own, target, to, !is_probe);
                self.send_control(&answer, effects);
            }
            What::Solicitation => {}
        }
    }

    fn send_control(&mut self, control: &ControlFrame<'_>, effects: &mut impl Effects) {
        let tags = &self.config.tags;
        let len = control.len_bytes(tags);
        let Some(mut frame) = self.cutter.cut(len, descriptor(len)) else {
            self.counters.frames_unsent += 1;
            return;
        };
        control.emit(tags, frame.bytes_mut());
        effects.transmit(frame, CONTROL);
    }

    /// Asks for a neighbour's Ethernet address.
    pub(crate) fn ask(&mut self, address: IpAddr, effects: &mut impl Effects) {
        let Some(ours) = self.config.address_of_family(address.is_ipv4()) else {
            return;
        };
        let question = ControlFrame::question(self.config.link_address, ours, address);
        if let Some(question) = question {
            self.send_control(&question, effects);
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
