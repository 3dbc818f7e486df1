//! Echo requests and replies of ICMP (RFC 792) and ICMPv6 (RFC 4443, 4), and errors with the packet
//! that met them (RFC 792, RFC 1191, 4; RFC 4443, 3). Neighbour discovery is
//! [`neighbour`](crate::neighbour)'s, other messages are not read.

use std::net::IpAddr;

use crate::bytes::{array, set, set_u16, set_u32, u16_at, u32_at};
use crate::ipv6::{FRAGMENT_HEADER_LEN, FragmentHeader, extension, extension_len};
use crate::{PROTOCOL_ICMPV6, checksum, ipv4, ipv6};

/// Offsets in a message.
mod field {
    pub(super) const KIND: usize = 0;
    pub(super) const CODE: usize = 1;
    pub(super) const CHECKSUM: usize = 2;
    pub(super) const IDENTIFIER: usize = 4;
    pub(super) const SEQUENCE: usize = 6;
    /// Of an error: the packet that met it.
    pub(super) const PACKET: usize = 8;
}

/// Bytes of an echo's header.
pub const HEADER_LEN: usize = 8;

/// Types of messages.
pub mod kind {
    /// ICMP: an echo's answer.
    pub const ECHO_REPLY: u8 = 0;
    /// ICMP: the packet could not be delivered.
    pub const UNREACHABLE: u8 = 3;
    /// ICMP: asks for an echo.
    pub const ECHO_REQUEST: u8 = 8;
    /// ICMP: the packet met too many routers, or not all of its fragments came.
    pub const TIME_EXCEEDED: u8 = 11;
    /// ICMPv6: the packet could not be delivered.
    pub const UNREACHABLE_V6: u8 = 1;
    /// ICMPv6: the packet is longer than the next link bears.
    pub const TOO_BIG_V6: u8 = 2;
    /// ICMPv6: the packet met too many routers, or not all of its fragments came.
    pub const TIME_EXCEEDED_V6: u8 = 3;
    /// ICMPv6: asks for an echo.
    pub const ECHO_REQUEST_V6: u8 = 128;
    /// ICMPv6: an echo's answer.
    pub const ECHO_REPLY_V6: u8 = 129;
}

/// An echo request or reply in a buffer.
#[derive(Debug, Clone, Copy)]
pub struct Echo<T>(T);

impl<T: AsRef<[u8]>> Echo<T> {
    /// `None` if the buffer is shorter than the header.
    pub fn new_checked(buffer: T) -> Option<Self> {
        (buffer.as_ref().len() >= HEADER_LEN).then_some(Self(buffer))
    }

    /// The type of the message: see [`kind`].
    pub fn kind(&self) -> u8 {
        self.0.as_ref()[field::KIND]
    }

    /// Distinguishes the senders of a host.
    pub fn identifier(&self) -> u16 {
        u16_at(self.0.as_ref(), field::IDENTIFIER)
    }

    /// Distinguishes a sender's echoes.
    pub fn sequence(&self) -> u16 {
        u16_at(self.0.as_ref(), field::SEQUENCE)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Echo<T> {
    /// Writes the header before a payload that is in the buffer. The checksum is ICMP's; ICMPv6
    /// adds a pseudo-header, which the kernel does for its sockets.
    pub fn emit(mut buffer: T, kind: u8, identifier: u16, sequence: u16) -> Self {
        let bytes = buffer.as_mut();
        (bytes[field::KIND], bytes[field::CODE]) = (kind, 0);
        set_u16(bytes, field::CHECKSUM, 0);
        set_u16(bytes, field::IDENTIFIER, identifier);
        set_u16(bytes, field::SEQUENCE, sequence);
        let checksum = checksum::checksum(bytes);
        set_u16(bytes, field::CHECKSUM, checksum);
        Self(buffer)
    }
}

/// ICMP's code of an unreachable destination for which the packet was too long.
const FRAGMENTATION_NEEDED: u8 = 4;

/// ICMP's code of a port that nobody has: RFC 792.
pub const PORT_UNREACHABLE: u8 = 3;
/// ICMPv6's: RFC 4443, 3.1.
pub const PORT_UNREACHABLE_V6: u8 = 4;

/// The fate of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// It could not be delivered; the code says why, in ICMP's numbers or ICMPv6's.
    Unreachable(u8),
    /// It is longer than the next link bears, which is this many bytes; 0 of routers older than RFC
    /// 1191.
    TooBig(u32),
    /// It met too many routers (0), or not all of its fragments came (1).
    TimeExceeded(u8),
}

/// An error that a packet met, and what the message has of the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketError<'a> {
    /// Its fate.
    pub failure: Failure,
    /// Who had sent it.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// What it carried, behind all extension headers.
    pub protocol: u8,
    /// The beginning of that: RFC 792 promises 8 bytes, which is ports and sequence number.
    pub transport: &'a [u8],
}

impl<'a> PacketError<'a> {
    /// Reads an ICMP message; `None` if it is no error, or has less than a header of a first
    /// fragment. The checksum is the caller's.
    pub fn read(message: &'a [u8]) -> Option<Self> {
        let packet = message.get(field::PACKET..)?;
        let code = message[field::CODE];
        let failure = match message[field::KIND] {
            kind::UNREACHABLE if code == FRAGMENTATION_NEEDED => {
                Failure::TooBig(u16_at(message, field::SEQUENCE).into())
            }
            kind::UNREACHABLE => Failure::Unreachable(code),
            kind::TIME_EXCEEDED => Failure::TimeExceeded(code),
            _ => return None,
        };
        let header = ipv4::Packet::new_unchecked(array::<{ ipv4::HEADER_LEN }>(packet, 0)?);
        if header.version() != 4 || header.fragment_offset() != 0 {
            return None;
        }
        let header_len = header.header_len();
        Some(Self {
            failure,
            source: header.source().into(),
            destination: header.destination().into(),
            protocol: header.protocol(),
            transport: packet.get(header_len.max(ipv4::HEADER_LEN)..)?,
        })
    }

    /// The same of an ICMPv6 message.
    pub fn read_v6(message: &'a [u8]) -> Option<Self> {
        let packet = message.get(field::PACKET..)?;
        let code = message[field::CODE];
        let failure = match message[field::KIND] {
            kind::UNREACHABLE_V6 => Failure::Unreachable(code),
            kind::TOO_BIG_V6 => Failure::TooBig(u32_at(message, field::IDENTIFIER)),
            kind::TIME_EXCEEDED_V6 => Failure::TimeExceeded(code),
            _ => return None,
        };
        let header = ipv6::Packet::new_unchecked(array::<{ ipv6::HEADER_LEN }>(packet, 0)?);
        if header.version() != 6 {
            return None;
        }
        let (protocol, transport) =
            behind_extensions(header.next_header(), &packet[ipv6::HEADER_LEN..])?;
        Some(Self {
            failure,
            source: header.source().into(),
            destination: header.destination().into(),
            protocol,
            transport,
        })
    }
}

/// `None` if an extension header is cut, or the packet is a later fragment.
fn behind_extensions(mut protocol: u8, mut bytes: &[u8]) -> Option<(u8, &[u8])> {
    loop {
        let len = match protocol {
            extension::FRAGMENT => {
                let header = array::<FRAGMENT_HEADER_LEN>(bytes, 0)?;
                if FragmentHeader::new_unchecked(header).offset() != 0 {
                    return None;
                }
                FRAGMENT_HEADER_LEN
            }
            extension::HOP_BY_HOP
            | extension::ROUTING
            | extension::DESTINATION
            | extension::AUTHENTICATION => extension_len(protocol, array(bytes, 0)?),
            _ => return Some((protocol, bytes)),
        };
        protocol = *bytes.first()?;
        bytes = bytes.get(len..)?;
    }
}

/// Writes an error that fills `message`, around as much of `packet` as has room. `ends` are the
/// addresses of its sender and of the packet's, of the packet's family.
pub fn emit_error(failure: Failure, packet: &[u8], ends: [IpAddr; 2], message: &mut [u8]) {
    let is_ipv4 = ends[0].is_ipv4();
    let (kind, code, word) = match (failure, is_ipv4) {
        (Failure::Unreachable(code), true) => (kind::UNREACHABLE, code, 0),
        (Failure::TooBig(mtu), true) => (kind::UNREACHABLE, FRAGMENTATION_NEEDED, mtu & 0xffff),
        (Failure::TimeExceeded(code), true) => (kind::TIME_EXCEEDED, code, 0),
        (Failure::Unreachable(code), false) => (kind::UNREACHABLE_V6, code, 0),
        (Failure::TooBig(mtu), false) => (kind::TOO_BIG_V6, 0, mtu),
        (Failure::TimeExceeded(code), false) => (kind::TIME_EXCEEDED_V6, code, 0),
    };
    (message[field::KIND], message[field::CODE]) = (kind, code);
    set_u16(message, field::CHECKSUM, 0);
    set_u32(message, field::IDENTIFIER, word);
    let kept = packet.len().min(message.len() - field::PACKET);
    set(message, field::PACKET, &packet[..kept]);
    message[field::PACKET + kept..].fill(0);
    let checksum = checksum_of(message, ends);
    set_u16(message, field::CHECKSUM, checksum);
}

/// The checksum of a message from the first of `ends` to the second; 0 if it contains its own and
/// that is right. ICMPv6's covers a pseudo-header too (RFC 4443, 2.3).
pub fn checksum_of(message: &[u8], ends: [IpAddr; 2]) -> u16 {
    match ends[0].is_ipv4() {
        true => checksum::checksum(message),
        false => checksum::transport(ends[0], ends[1], PROTOCOL_ICMPV6, message),
    }
}

/// Writes the answer to an echo request, which is as long, from the first of `ends` to the second.
pub fn emit_reply(request: &[u8], ends: [IpAddr; 2], reply: &mut [u8]) {
    let sum = checksum::copy_and_sum(&request[HEADER_LEN..], &mut reply[HEADER_LEN..]);
    reply[..HEADER_LEN].copy_from_slice(&request[..HEADER_LEN]);
    let is_ipv4 = ends[0].is_ipv4();
    reply[field::KIND] = match is_ipv4 {
        true => kind::ECHO_REPLY,
        false => kind::ECHO_REPLY_V6,
    };
    set_u16(reply, field::CHECKSUM, 0);
    let header = checksum::add(sum, checksum::sum(&reply[..HEADER_LEN]));
    let pseudo = match is_ipv4 {
        true => 0,
        false => checksum::pseudo_header_sum(ends[0], ends[1], PROTOCOL_ICMPV6, reply.len()),
    };
    set_u16(reply, field::CHECKSUM, !checksum::add(header, pseudo));
}
