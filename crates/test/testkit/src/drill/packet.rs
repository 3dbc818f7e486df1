//! Frames of the peer, written as a script says, and frames of the stack, read.

use std::net::IpAddr;

use lineside_frame::{Descriptor, Frame, LinkType};
use lineside_wire::build::FrameBuilder;
use lineside_wire::icmp::{self, Failure};
use lineside_wire::neighbour::{self, Neighbour, What};
use lineside_wire::tcp::{self, Segment as Wire};
use lineside_wire::{
    Dissected, PROTOCOL_ICMP, PROTOCOL_ICMPV6, PROTOCOL_TCP, SeqNumber, TcpFlags, arp,
    dissect_outermost,
};

use super::script::{PathError, Segment, TcpOption};

pub(super) const OUR_LINK: [u8; 6] = [2, 0, 0, 0, 0, 1];
const THEIR_LINK: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// The stack's address and the peer's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    pub(super) ours: IpAddr,
    pub(super) theirs: IpAddr,
}

/// A segment that left.
#[derive(Debug, Clone)]
pub(super) struct Left {
    pub(super) at: i64,
    /// Source and destination.
    pub(super) ports: [u16; 2],
    pub(super) flags: TcpFlags,
    pub(super) sequence: u32,
    pub(super) ack: u32,
    pub(super) window: u16,
    pub(super) urgent: u16,
    pub(super) ecn: u8,
    /// Without padding.
    pub(super) options: Vec<TcpOption>,
    pub(super) payload: Vec<u8>,
}

/// The byte with this sequence number, counted from the SYN, of either end.
pub(super) fn content(number: u32) -> u8 {
    (number.wrapping_mul(0x9e37_79b9) >> 11) as u8
}

/// A frame as it comes from a port.
pub(super) fn wrapped(bytes: &[u8]) -> Frame {
    let descriptor = Descriptor {
        wire_len: bytes.len() as u32,
        link_type: LinkType::ETHERNET,
        ..Descriptor::default()
    };
    Frame::copied(bytes, descriptor)
}

impl Ends {
    pub(super) fn of(is_ipv4: bool) -> Self {
        let [ours, theirs]: [IpAddr; 2] = match is_ipv4 {
            true => [[192, 168, 0, 1], [192, 0, 2, 1]].map(IpAddr::from),
            false => [1, 2].map(|host| [0xfd3d, 0, 0, 0, 0, 0, 0, host].into()),
        };
        Self { ours, theirs }
    }

    fn builder(&self) -> FrameBuilder {
        FrameBuilder::new(self.theirs, self.ours).with_link_addresses(THEIR_LINK, OUR_LINK)
    }

    /// A segment of the peer, in numbers of the wire.
    pub(super) fn segment(
        &self,
        ports: [u16; 2],
        segment: &Segment,
        [sequence, ack]: [u32; 2],
        options: &[u8],
    ) -> Vec<u8> {
        let start = segment.start.unwrap_or_default();
        let first = start.wrapping_add(u32::from(segment.flags.contains(TcpFlags::SYN)));
        let options_len = options.len().next_multiple_of(4);
        let header_len = tcp::HEADER_LEN + options_len;
        let mut bytes = vec![0; header_len + segment.len as usize];
        for (byte, at) in bytes[header_len..].iter_mut().zip(0..) {
            *byte = content(first.wrapping_add(at));
        }
        let mut wire = Wire::new_unchecked(&mut bytes[..]);
        wire.set_source_port(ports[0]);
        wire.set_destination_port(ports[1]);
        wire.set_sequence(SeqNumber(sequence));
        wire.set_acknowledgement(SeqNumber(ack));
        wire.set_header_len(header_len);
        wire.set_flags(segment.flags);
        wire.set_window(segment.window.unwrap_or(u16::MAX));
        wire.set_urgent(segment.urgent.unwrap_or_default());
        wire.options_mut()[..options.len()].copy_from_slice(options);
        wire.fill_checksum(self.theirs, self.ours);
        let builder = self.builder().with_ecn(segment.ecn.unwrap_or_default());
        builder.packet(PROTOCOL_TCP, &bytes)
    }

    /// An ICMP error about a segment of the stack that begins with `sequence`.
    pub(super) fn error(
        &self,
        error: &PathError,
        ports: [u16; 2],
        sequence: u32,
    ) -> Option<Vec<u8>> {
        let failure = failure(error, self.ours.is_ipv4())?;
        let mut transport = [0; tcp::HEADER_LEN];
        let mut wire = Wire::new_unchecked(&mut transport[..]);
        wire.set_source_port(ports[0]);
        wire.set_destination_port(ports[1]);
        wire.set_sequence(SeqNumber(sequence));
        wire.set_header_len(tcp::HEADER_LEN);
        wire.set_flags(TcpFlags::ACK);
        let echoed = FrameBuilder::new(self.ours, self.theirs).with_link_type(101);
        let packet = echoed.packet(PROTOCOL_TCP, &transport);
        let mut message = vec![0; icmp::HEADER_LEN + packet.len()];
        icmp::emit_error(failure, &packet, [self.theirs, self.ours], &mut message);
        let protocol = match self.ours.is_ipv4() {
            true => PROTOCOL_ICMP,
            false => PROTOCOL_ICMPV6,
        };
        Some(self.builder().packet(protocol, &message))
    }

    /// The answer to a question for the peer's Ethernet address.
    pub(super) fn answer(&self) -> Vec<u8> {
        match (self.ours, self.theirs) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                let mut frame = vec![0; 14 + arp::PACKET_LEN];
                let links = [OUR_LINK, THEIR_LINK];
                let rest = lineside_wire::headers::emit_link(links, &[None; 2], 0x0806, &mut frame);
                let (from, to) = ((THEIR_LINK, theirs), (OUR_LINK, ours));
                arp::Packet::emit(rest, arp::REPLY, from, to);
                frame
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                let what = What::Advertisement {
                    is_solicited: true,
                    overrides: true,
                };
                let mut message = vec![0; neighbour::MESSAGE_LEN];
                Neighbour::emit(what, theirs, THEIR_LINK, [theirs, ours], &mut message);
                let builder = self.builder().with_ttl(neighbour::HOP_LIMIT);
                builder.packet(PROTOCOL_ICMPV6, &message)
            }
            _ => unreachable!("`of` takes two addresses of one family"),
        }
    }

    /// Reads a frame of the stack; `None`: it carries no segment. A wrong checksum is an error.
    pub(super) fn read(&self, frame: &[u8], at: i64) -> Result<Option<Left>, String> {
        let Dissected::Tcp(ip, _) = dissect_outermost(1, frame, frame.len()) else {
            return Ok(None);
        };
        let bytes = &frame[ip.payload..][..ip.payload_len];
        let wire = Wire::new_checked(bytes).ok_or("a segment without a whole header left")?;
        if !wire.verify_checksum(ip.source, ip.destination) {
            return Err("a segment with a wrong checksum left".into());
        }
        let mut options = Vec::new();
        for option in wire.options() {
            let option = option.map_err(|_| "a segment with malformed options left")?;
            options.push(match option {
                tcp::TcpOption::Mss(mss) => TcpOption::Mss(mss),
                tcp::TcpOption::WindowScale(scale) => TcpOption::WindowScale(scale),
                tcp::TcpOption::SackPermitted => TcpOption::SackPermitted,
                tcp::TcpOption::Sack(blocks) => {
                    TcpOption::Sack(blocks.iter().map(|(start, end)| (start.0, end.0)).collect())
                }
                tcp::TcpOption::Timestamps { value, echo } => TcpOption::Timestamps { value, echo },
            });
        }
        Ok(Some(Left {
            at,
            ports: [wire.source_port(), wire.destination_port()],
            flags: wire.flags(),
            sequence: wire.sequence().0,
            ack: wire.acknowledgement().0,
            window: wire.window(),
            urgent: u16::from_be_bytes([bytes[tcp::field::URGENT], bytes[tcp::field::URGENT + 1]]),
            ecn: match ip.source.is_ipv4() {
                true => frame[ip.header + 1] & 3,
                false => frame[ip.header + 1] >> 4 & 3,
            },
            options,
            payload: wire.payload().to_vec(),
        }))
    }
}

/// ICMP's codes by packetdrill's names (RFC 792; RFC 1122, 3.2.2.1), and ICMPv6's (RFC 4443, 3.1).
const CODES: [&[(&str, u8)]; 2] = [
    &[
        ("net_unreachable", 0),
        ("host_unreachable", 1),
        ("protocol_unreachable", 2),
        ("port_unreachable", 3),
        ("source_route_failed", 5),
        ("net_unknown", 6),
        ("host_unknown", 7),
        ("source_host_isolated", 8),
        ("net_prohibited", 9),
        ("host_prohibited", 10),
        ("net_unreachable_for_tos", 11),
        ("host_unreachable_for_tos", 12),
        ("packet_filtered", 13),
        ("precedence_violation", 14),
        ("precedence_cutoff", 15),
    ],
    &[
        ("no_route", 0),
        ("admin_prohibited", 1),
        ("not_neighbour", 2),
        ("address_unreachable", 3),
        ("port_unreachable", 4),
    ],
];

fn failure(error: &PathError, is_ipv4: bool) -> Option<Failure> {
    let code = error.code.as_deref();
    match (error.kind.as_str(), code) {
        ("unreachable", Some("frag_needed")) if is_ipv4 => {
            Some(Failure::TooBig(error.mtu.unwrap_or_default()))
        }
        ("packet_too_big", None) if !is_ipv4 => Some(Failure::TooBig(error.mtu?)),
        ("unreachable", Some(code)) => {
            let codes = CODES[usize::from(!is_ipv4)];
            let known = codes.iter().find(|(name, _)| *name == code)?;
            Some(Failure::Unreachable(known.1))
        }
        ("time_exceeded", None) => Some(Failure::TimeExceeded(0)),
        _ => None,
    }
}
