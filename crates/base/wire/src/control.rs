//! Frames in which a host asks for its neighbours and answers for its own addresses: ARP (RFC 826),
//! neighbour discovery (RFC 4861, 7.2) and echoes (RFC 792; RFC 4443, 4). Each knows its length, so
//! that its sender cuts a frame for it and has it written there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::ethernet::ether_type;
use crate::headers::{Headers, emit_link, link_len};
use crate::icmp::Echo;
use crate::neighbour::{self, Neighbour, What};
use crate::{PROTOCOL_ICMP, PROTOCOL_ICMPV6, arp, icmp};

const BROADCAST: [u8; 6] = [0xff; 6];
/// RFC 4291, 2.7.1.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// RFC 1700, page 64.
const ECHO_HOPS: u8 = 64;

/// VLAN tags, as in [`Headers::tags`].
type Tags = [Option<(u16, u16)>; 2];

/// A frame to be written.
#[derive(Debug, Clone, Copy)]
pub struct ControlFrame<'a> {
    /// Ethernet addresses of the receiver and the sender.
    link: [[u8; 6]; 2],
    message: Message<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Message<'a> {
    Arp {
        operation: u16,
        ours: Ipv4Addr,
        target: ([u8; 6], Ipv4Addr),
    },
    Neighbour {
        what: What,
        target: Ipv6Addr,
        ends: [Ipv6Addr; 2],
    },
    EchoReply {
        request: &'a [u8],
        ends: [IpAddr; 2],
    },
}

impl<'a> ControlFrame<'a> {
    /// Asks, from our Ethernet address `own` and our address `ours`, for the Ethernet address of a
    /// neighbour. `None` if the two addresses are of different families.
    pub fn question(own: [u8; 6], ours: IpAddr, address: IpAddr) -> Option<Self> {
        match (ours, address) {
            (IpAddr::V4(ours), IpAddr::V4(address)) => {
                Some(Self::arp(arp::REQUEST, own, ours, ([0; 6], address)))
            }
            (IpAddr::V6(ours), IpAddr::V6(target)) => {
                let group = neighbour::solicited_node(target);
                Some(Self {
                    link: [neighbour::multicast_link_address(group), own],
                    message: Message::Neighbour {
                        what: What::Solicitation,
                        target,
                        ends: [ours, group],
                    },
                })
            }
            _ => None,
        }
    }

    /// Announces an address of ours: RFC 5227, 3; RFC 4861, 7.2.6.
    pub fn announcement(own: [u8; 6], ours: IpAddr) -> Self {
        match ours {
            IpAddr::V4(ours) => Self::arp(arp::REQUEST, own, ours, ([0; 6], ours)),
            IpAddr::V6(ours) => Self::advertisement(own, ours, None, false),
        }
    }

    /// Answers an ARP request for `ours` from these addresses.
    pub fn arp_reply(own: [u8; 6], ours: Ipv4Addr, asker: ([u8; 6], Ipv4Addr)) -> Self {
        Self {
            link: [asker.0, own],
            ..Self::arp(arp::REPLY, own, ours, asker)
        }
    }

    /// Advertises our address `target` to a neighbour; `None`: to all of them.
    pub fn advertisement(
        own: [u8; 6],
        target: Ipv6Addr,
        to: Option<(Ipv6Addr, [u8; 6])>,
        is_solicited: bool,
    ) -> Self {
        let all = (ALL_NODES, neighbour::multicast_link_address(ALL_NODES));
        let (to, link) = to.unwrap_or(all);
        let what = What::Advertisement {
            is_solicited,
            overrides: true,
        };
        let ends = [target, to];
        Self {
            link: [link, own],
            message: Message::Neighbour { what, target, ends },
        }
    }

    /// Answers an ICMP message from the first of `ends` to the second; `None` if it is no echo
    /// request. `link` has the receiver first.
    pub fn echo_reply(link: [[u8; 6]; 2], ends: [IpAddr; 2], request: &'a [u8]) -> Option<Self> {
        let kind = match ends[0].is_ipv4() {
            true => icmp::kind::ECHO_REQUEST,
            false => icmp::kind::ECHO_REQUEST_V6,
        };
        let message = Message::EchoReply { request, ends };
        (Echo::new_checked(request)?.kind() == kind).then_some(Self { link, message })
    }

    fn arp(operation: u16, own: [u8; 6], ours: Ipv4Addr, target: ([u8; 6], Ipv4Addr)) -> Self {
        let message = Message::Arp {
            operation,
            ours,
            target,
        };
        Self {
            link: [BROADCAST, own],
            message,
        }
    }

    /// Bytes of the frame.
    pub fn len_bytes(&self, tags: &Tags) -> usize {
        match self.packet(tags) {
            None => link_len(tags) + arp::PACKET_LEN,
            Some((headers, _, payload_len)) => headers.len_bytes() + payload_len,
        }
    }

    /// Writes the frame, which fills `frame`.
    pub fn emit(&self, tags: &Tags, frame: &mut [u8]) {
        let payload = match self.packet(tags) {
            None => emit_link(self.link, tags, ether_type::ARP, frame),
            Some((headers, protocol, payload_len)) => headers.emit(protocol, payload_len, frame),
        };
        let own = self.link[1];
        match self.message {
            Message::Arp {
                operation,
                ours,
                target,
            } => {
                arp::Packet::emit(payload, operation, (own, ours), target);
            }
            Message::Neighbour { what, target, ends } => {
                Neighbour::emit(what, target, own, ends, payload);
            }
            Message::EchoReply { request, ends } => icmp::emit_reply(request, ends, payload),
        }
    }

    /// Headers, protocol and payload's length of an IP packet; `None` for ARP.
    fn packet(&self, tags: &Tags) -> Option<(Headers, u8, usize)> {
        let (ends, hop_count, payload_len) = match self.message {
            Message::Arp { .. } => return None,
            Message::Neighbour { ends, .. } => (
                ends.map(IpAddr::from),
                neighbour::HOP_LIMIT,
                neighbour::MESSAGE_LEN,
            ),
            Message::EchoReply { request, ends } => (ends, ECHO_HOPS, request.len()),
        };
        let protocol = match ends[0].is_ipv4() {
            true => PROTOCOL_ICMP,
            false => PROTOCOL_ICMPV6,
        };
        let headers = Headers {
            link: self.link,
            tags: *tags,
            hop_count,
            ..Headers::new(ends[0], ends[1])
        };
        Some((headers, protocol, payload_len))
    }
}
