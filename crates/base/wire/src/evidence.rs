//! Evidence of an IP packet in bytes that nothing has read down to it.

use crate::bytes::array;
use crate::ip::{HeaderChecksum, ipv4_checksum};
use crate::udp::{self, Datagram};
use crate::{PROTOCOL_TCP, PROTOCOL_UDP, ipv4, ipv6};

/// How far in an IP header is looked for: behind the headers of three unknown layers. A guess.
const REACH: usize = 128;

/// Whether an IP packet with TCP or UDP begins near `start` and ends before `end`, or where the
/// frame does.
///
/// Random bytes look like one at one place in 2^32 by IPv4's version, length, protocol and
/// checksum, and in 2^26 by what IPv6 has.
pub(crate) fn holds_ip(bytes: &[u8], start: usize, end: usize) -> bool {
    // Padding of the link may lie behind the end.
    let mut places = start..end.min(bytes.len()).min(start + REACH);
    places.any(|at| match bytes[at] >> 4 {
        4 => matches!(ipv4_in(bytes, at, end), Some(PROTOCOL_TCP | PROTOCOL_UDP)),
        6 => ipv6_in(bytes, at, end).is_some_and(|next| has_transport(next, &bytes[at..])),
        _ => false,
    })
}

/// Whether the header at `at` is one of IP: by IPv4's checksum, or IPv6's length.
pub(crate) fn is_ip(bytes: &[u8], at: usize, end: usize) -> bool {
    ipv4_in(bytes, at, end)
        .or_else(|| ipv6_in(bytes, at, end))
        .is_some()
}

/// The protocol that an IPv4 packet carries, if its header is right.
fn ipv4_in(bytes: &[u8], at: usize, end: usize) -> Option<u8> {
    let header = array::<{ ipv4::HEADER_LEN }>(bytes, at)?;
    let packet = ipv4::Packet::new_unchecked(header);
    let fits = packet.version() == 4
        && (ipv4::HEADER_LEN..=packet.total_len()).contains(&packet.header_len())
        && end
            .checked_sub(at)
            .is_some_and(|room| packet.total_len() <= room)
        && ipv4_checksum(bytes, at, packet.header_len()) == HeaderChecksum::Right;
    fits.then(|| packet.protocol())
}

/// What follows the header of an IPv6 packet that reaches to the end.
fn ipv6_in(bytes: &[u8], at: usize, end: usize) -> Option<u8> {
    /// Ethernet's shortest payload, and a check value behind it.
    const PADDING_MAX: usize = 50;
    let header = array::<{ ipv6::HEADER_LEN }>(bytes, at)?;
    let packet = ipv6::Packet::new_unchecked(header);
    let padding = end.checked_sub(at + ipv6::HEADER_LEN + packet.payload_len())?;
    (packet.version() == 6 && padding <= PADDING_MAX).then(|| packet.next_header())
}

/// Whether an IPv6 packet goes on as TCP or UDP does, if that is what follows its header.
fn has_transport(next_header: u8, packet: &[u8]) -> bool {
    let payload = &packet[ipv6::HEADER_LEN..];
    match next_header {
        // At least five words of header, and reserved bits that are zero.
        PROTOCOL_TCP => payload
            .get(12)
            .is_some_and(|byte| byte >> 4 >= 5 && byte & 0x0e == 0),
        PROTOCOL_UDP => array::<{ udp::HEADER_LEN }>(payload, 0).is_some_and(|header| {
            let payload_len = ipv6::Packet::new_unchecked(packet).payload_len();
            Datagram::new_unchecked(header).len() == payload_len
        }),
        _ => false,
    }
}
