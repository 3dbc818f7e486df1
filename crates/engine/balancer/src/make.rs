//! Frames of our own: ARP, neighbour discovery, ICMP, checks and resets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use lineside_account::Budget;
use lineside_frame::{Cutter, Descriptor, Frame, LinkType};
use lineside_wire::build::TcpFields;
use lineside_wire::ethernet::ether_type;
use lineside_wire::headers::{Headers, emit_link, link_len};
use lineside_wire::neighbour::{self, Neighbour, What};
use lineside_wire::{PROTOCOL_ICMPV6, PROTOCOL_TCP, arp};

/// Frames are cut from blocks of this size: beyond the longest packet and its headers.
const BLOCK_BYTES: usize = 1 << 17;
/// As many as hold a burst of full packets that are under way.
const BLOCKS_MAX: usize = 32;
const BROADCAST: [u8; 6] = [0xff; 6];

/// What makes frames.
pub(crate) struct Maker {
    cutter: Cutter,
    pub(crate) made: u64,
}

impl std::fmt::Debug for Maker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Maker").field("made", &self.made).finish()
    }
}

impl Maker {
    pub(crate) const BYTES: usize = 2 * BLOCK_BYTES;

    pub(crate) fn new(budget: &Budget) -> Option<Self> {
        Some(Self {
            cutter: Cutter::new(BLOCK_BYTES, BLOCKS_MAX, budget)?,
            made: 0,
        })
    }

    pub(crate) fn cut(&mut self, len: usize) -> Option<Frame> {
        let descriptor = Descriptor {
            wire_len: len as u32,
            link_type: LinkType::ETHERNET,
            ..Descriptor::default()
        };
        let frame = self.cutter.cut(len, descriptor)?;
        self.made += 1;
        Some(frame)
    }

    /// The first `head_len` bytes of a frame once more, in front of its other bytes where they lie;
    /// those are kept until the last of such frames was sent. A whole copy if there is no memory.
    pub(crate) fn with_own_head(&mut self, frame: &mut Frame, head_len: usize) -> Frame {
        let descriptor = *frame.descriptor();
        let Some(mut head) = self.cutter.cut(head_len, descriptor) else {
            return frame.another();
        };
        let (bytes, len) = (head.bytes_mut(), frame.bytes().len());
        bytes.copy_from_slice(&frame.bytes()[..head_len]);
        head.with_rest(frame, head_len..len)
    }

    /// A packet; `write` fills its payload. `link` has the receiver first.
    pub(crate) fn packet(
        &mut self,
        link: [[u8; 6]; 2],
        ends: [IpAddr; 2],
        hop_count: u8,
        (protocol, payload_len): (u8, usize),
        write: impl FnOnce(&mut [u8]),
    ) -> Option<Frame> {
        let headers = Headers {
            link,
            hop_count,
            ..Headers::new(ends[0], ends[1])
        };
        let mut frame = self.cut(headers.len_bytes() + payload_len)?;
        write(headers.emit(protocol, payload_len, frame.bytes_mut()));
        Some(frame)
    }

    /// A TCP segment.
    pub(crate) fn segment(
        &mut self,
        link: [[u8; 6]; 2],
        ends: [IpAddr; 2],
        fields: &TcpFields<'_>,
        payload: &[u8],
    ) -> Option<Frame> {
        let len = fields.header_len() + payload.len();
        self.packet(link, ends, 64, (PROTOCOL_TCP, len), |segment| {
            segment[fields.header_len()..].copy_from_slice(payload);
            fields.emit(ends, segment);
        })
    }

    /// An ARP packet from our Ethernet and IPv4 address to the target's.
    pub(crate) fn arp(
        &mut self,
        operation: u16,
        own: ([u8; 6], Ipv4Addr),
        target: ([u8; 6], Ipv4Addr),
        receiver: [u8; 6],
    ) -> Option<Frame> {
        let mut frame = self.cut(link_len(&[None; 2]) + arp::PACKET_LEN)?;
        let link = [receiver, own.0];
        let packet = emit_link(link, &[], ether_type::ARP, frame.bytes_mut());
        arp::Packet::emit(packet, operation, own, target);
        Some(frame)
    }

    /// A message of neighbour discovery.
    pub(crate) fn neighbour(
        &mut self,
        what: What,
        target: Ipv6Addr,
        own: [u8; 6],
        ends: [Ipv6Addr; 2],
        receiver: [u8; 6],
    ) -> Option<Frame> {
        let payload = (PROTOCOL_ICMPV6, neighbour::MESSAGE_LEN);
        let hops = neighbour::HOP_LIMIT;
        self.packet(
            [receiver, own],
            ends.map(IpAddr::from),
            hops,
            payload,
            |message| {
                Neighbour::emit(what, target, own, ends, message);
            },
        )
    }

    /// The question for a neighbour, from an address of ours.
    pub(crate) fn question(
        &mut self,
        own: [u8; 6],
        ours: IpAddr,
        address: IpAddr,
    ) -> Option<Frame> {
        match (ours, address) {
            (IpAddr::V4(ours), IpAddr::V4(address)) => {
                self.arp(arp::REQUEST, (own, ours), ([0; 6], address), BROADCAST)
            }
            (IpAddr::V6(ours), IpAddr::V6(address)) => {
                let group = neighbour::solicited_node(address);
                let link = neighbour::multicast_link_address(group);
                self.neighbour(What::Solicitation, address, own, [ours, group], link)
            }
            _ => None,
        }
    }

    /// The announcement of an address of ours: RFC 5227, 3; RFC 4861, 7.2.6.
    pub(crate) fn announcement(&mut self, own: [u8; 6], ours: IpAddr) -> Option<Frame> {
        match ours {
            IpAddr::V4(ours) => self.arp(arp::REQUEST, (own, ours), ([0; 6], ours), BROADCAST),
            IpAddr::V6(ours) => {
                let what = What::Advertisement {
                    is_solicited: false,
                    overrides: true,
                };
                let link = neighbour::multicast_link_address(ALL_NODES);
                self.neighbour(what, ours, own, [ours, ALL_NODES], link)
            }
        }
    }
}

/// RFC 4291, 2.7.1.
pub(crate) const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
