//! Packets made of others: pieces of one that is too long, and ICMP errors about one.

use std::net::IpAddr;

use lineside_frame::Frame;
use lineside_time::Nanoseconds;
use lineside_wire::icmp::{self, Failure};
use lineside_wire::{PROTOCOL_ICMP, PROTOCOL_ICMPV6, ipv4};

use crate::make::Maker;
use crate::packet::IP_AT;

/// How much of a packet an ICMP error has: RFC 1812, 4.3.2.3, all that fits 576 bytes.
const ERROR_V4: usize = 576 - 28;
/// RFC 4443, 2.4 (c): all that fits the smallest MTU.
const ERROR_V6: usize = 1280 - 48;
/// Fragments but the last are multiples of this many bytes.
const UNIT: usize = 8;

/// ICMP errors are limited in rate (RFC 1812, 4.3.2.8; RFC 4443, 2.4 (f)): this many a second,
const ERRORS_PER_SECOND: i64 = 1_000;
/// after this many at once.
const ERRORS_AT_ONCE: i64 = 50;

/// A token bucket for ICMP errors, by the instant at which it is full again.
#[derive(Debug, Default)]
pub(crate) struct ErrorLimit {
    full_at: Nanoseconds,
}

impl ErrorLimit {
    /// Takes a token, if one is there.
    pub(crate) fn take(&mut self, now: Nanoseconds) -> bool {
        const TOKEN: Nanoseconds = 1_000_000_000 / ERRORS_PER_SECOND;
        let full_at = self.full_at.max(now).saturating_add(TOKEN);
        let is_there = full_at.saturating_sub(now) <= ERRORS_AT_ONCE * TOKEN;
        if is_there {
            self.full_at = full_at;
        }
        is_there
    }
}

/// A piece of an IPv4 packet.
pub(crate) struct Piece {
    headers_len: usize,
    /// Which bytes of the payload.
    start: usize,
    end: usize,
    /// Of the whole packet's payload, where that is a fragment itself.
    offset: usize,
    more: bool,
}

/// The pieces of an IPv4 packet in a frame, so that each packet is at most `mtu` bytes.
pub(crate) fn pieces(bytes: &[u8], mtu: usize) -> impl Iterator<Item = Piece> + use<> {
    let packet = ipv4::Packet::new_unchecked(&bytes[IP_AT..]);
    let headers_len = packet.header_len();
    let (offset, more) = (packet.fragment_offset(), packet.more_fragments());
    let payload_len = (bytes.len() - IP_AT).saturating_sub(headers_len);
    let step = mtu.saturating_sub(headers_len).max(UNIT) / UNIT * UNIT;
    (0..payload_len).step_by(step).map(move |start| {
        let end = (start + step).min(payload_len);
        Piece {
            headers_len,
            start,
            end,
            offset: offset + start,
            more: more || end < payload_len,
        }
    })
}

impl Piece {
    /// Bytes of its frame.
    pub(crate) fn len_bytes(&self) -> usize {
        IP_AT + self.headers_len + self.end - self.start
    }

    /// Writes the frame of a piece of the frame `whole`.
    pub(crate) fn write(&self, whole: &[u8], piece: &mut [u8]) {
        let headers = IP_AT + self.headers_len;
        piece[..headers].copy_from_slice(&whole[..headers]);
        piece[headers..].copy_from_slice(&whole[headers + self.start..headers + self.end]);
        let len = piece.len() - IP_AT;
        let mut packet = ipv4::Packet::new_unchecked(&mut piece[IP_AT..headers]);
        if self.start > 0 {
            // RFC 791, 3.1: only some options are in every fragment.
            drop_uncopied(packet.options_mut());
        }
        packet.set_total_len(len as u16);
        packet.set_fragment(self.offset, self.more);
        packet.fill_checksum();
    }
}

/// Replaces options that only the first fragment has by no operation.
fn drop_uncopied(options: &mut [u8]) {
    const COPIED: u8 = 0x80;
    let mut at = 0;
    while let Some(&kind) = options.get(at) {
        let len = match kind {
            0 => return,
            1 => 1,
            _ => options.get(at + 1).map_or(0, |&len| usize::from(len)),
        };
        let Some(option) = options.get_mut(at..at + len).filter(|_| len > 0) else {
            return;
        };
        if kind & COPIED == 0 {
            option.fill(1);
        }
        at += len;
    }
}

/// An ICMP error about `packet`, from the first of `ends` to the second.
pub(crate) fn error(
    maker: &mut Maker,
    failure: Failure,
    packet: &[u8],
    ends: [IpAddr; 2],
    link: [[u8; 6]; 2],
) -> Option<Frame> {
    let (protocol, most) = match ends[0].is_ipv4() {
        true => (PROTOCOL_ICMP, ERROR_V4),
        false => (PROTOCOL_ICMPV6, ERROR_V6),
    };
    let len = icmp::HEADER_LEN + packet.len().min(most);
    maker.packet(link, ends, 64, (protocol, len), |message| {
        icmp::emit_error(failure, packet, ends, message);
    })
}
