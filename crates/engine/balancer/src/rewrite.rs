//! Addresses, port numbers and what follows from them, rewritten where they lie. Checksums follow
//! by differences (RFC 1624), so that no payload is read.
//!
//! ```text
//!  checksum of a finished segment:  ~(pseudo-header + header + payload)
//!      every difference counts, complemented
//!  left to a network card:            pseudo-header
//!      not complemented, and only the difference of the addresses counts: the card adds up the
//!      ports with the rest
//! ```

use std::net::IpAddr;

use lineside_wire::{PROTOCOL_TCP, PROTOCOL_UDP, checksum, ipv4, ipv6, tcp, udp};

use crate::packet::{End, IP_AT, Packet};
use crate::proxy::{Splice, Way};
use crate::settings::Transport;

/// How a packet is rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rewriting {
    pub(crate) source: End,
    pub(crate) destination: End,
    /// Its transport checksum covers the pseudo-header only.
    pub(crate) is_partial: bool,
    /// How its numbers become those of the other half.
    pub(crate) splice: Option<(Way, Splice)>,
}

/// The one's complement difference between what was and what is, as a sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Difference(u16);

impl Difference {
    const NONE: Self = Self(0);

    /// Between bytes of an even length at an even offset.
    #[inline]
    fn between(old: &[u8], new: &[u8]) -> Self {
        Self(checksum::add(!checksum::sum(old), checksum::sum(new)))
    }

    #[inline]
    fn and(self, other: Self) -> Self {
        Self(checksum::add(self.0, other.0))
    }

    /// RFC 1624, 3, equation 3.
    #[inline]
    fn update(self, checksum: u16) -> u16 {
        !checksum::add(!checksum, self.0)
    }
}

/// Rewrites a packet that leaves: also its hop count falls. The caller has read it; the payload of
/// a datagram need not be there.
pub(crate) fn rewrite(bytes: &mut [u8], packet: &Packet, rewriting: &Rewriting) {
    let end = packet.end.min(bytes.len());
    let (headers, segment) = bytes[IP_AT..end].split_at_mut(packet.transport_at - IP_AT);
    let addresses = rewrite_ip(headers, rewriting.source.0, rewriting.destination.0, true);
    if packet.lacks_ip_checksum {
        let mut header = ipv4::Packet::new_unchecked(headers);
        header.fill_checksum();
    }
    if packet.fragment.is_some_and(|fragment| fragment.offset > 0) {
        return;
    }
    let ports = [rewriting.source.1, rewriting.destination.1];
    rewrite_transport(
        packet.transport,
        segment,
        ports,
        addresses,
        rewriting.is_partial,
    );
    if let Some((way, splice)) = rewriting.splice {
        splice.rewrite(way, segment, rewriting.is_partial);
    }
}

/// Rewrites the addresses of an IP header with what is behind it; of the family that it has.
pub(crate) fn rewrite_ip(
    header: &mut [u8],
    source: IpAddr,
    destination: IpAddr,
    is_forwarded: bool,
) -> Difference {
    const V4: usize = ipv4::field::SOURCE;
    const V6: usize = ipv6::field::SOURCE;
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let new = u64::from(source.to_bits()) << 32 | u64::from(destination.to_bits());
            let new = new.to_be_bytes();
            let addresses = Difference::between(&header[V4..V4 + 8], &new);
            header[V4..V4 + 8].copy_from_slice(&new);
            let mut all = addresses;
            if is_forwarded {
                const TTL: usize = ipv4::field::TTL;
                let old = [header[TTL], header[TTL + 1]];
                header[TTL] = header[TTL].saturating_sub(1);
                all = all.and(Difference::between(&old, &header[TTL..TTL + 2]));
            }
            update_at(header, ipv4::field::CHECKSUM, all);
            addresses
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let new = [source.octets(), destination.octets()];
            let addresses = Difference::between(&header[V6..V6 + 32], new.as_flattened());
            header[V6..V6 + 32].copy_from_slice(new.as_flattened());
            if is_forwarded {
                const HOPS: usize = ipv6::field::HOP_LIMIT;
                header[HOPS] = header[HOPS].saturating_sub(1);
            }
            addresses
        }
        _ => Difference::NONE,
    }
}

/// Rewrites the port numbers at the beginning of a segment or datagram, and as much of its checksum
/// as is there: an ICMP error has less.
pub(crate) fn rewrite_transport(
    transport: Transport,
    segment: &mut [u8],
    ports: [u16; 2],
    addresses: Difference,
    is_partial: bool,
) {
    let Some(old) = segment.first_chunk_mut::<4>() else {
        return;
    };
    let new = (u32::from(ports[0]) << 16 | u32::from(ports[1])).to_be_bytes();
    let difference = Difference::between(old, &new);
    *old = new;
    let at = checksum_at(transport);
    let Some(field) = segment.get_mut(at..at + 2) else {
        return;
    };
    let checksum = u16::from_be_bytes([field[0], field[1]]);
    let new = match transport {
        _ if is_partial => checksum::add(checksum, addresses.0),
        // None was sent: RFC 768.
        Transport::Udp if checksum == 0 => 0,
        Transport::Udp => match addresses.and(difference).update(checksum) {
            // 0 would say that there is none, and this is the same sum.
            0 => u16::MAX,
            new => new,
        },
        Transport::Tcp => addresses.and(difference).update(checksum),
    };
    field.copy_from_slice(&new.to_be_bytes());
}

pub(crate) fn add_at(bytes: &mut [u8], at: usize, by: u32) {
    if let Some(field) = bytes[at..].first_chunk_mut::<4>() {
        *field = u32::from_be_bytes(*field).wrapping_add(by).to_be_bytes();
    }
}

/// Offsets, kinds and lengths of the options of a TCP header that have a length.
fn options(header: &[u8]) -> impl Iterator<Item = (usize, u8, usize)> {
    let mut at = tcp::HEADER_LEN;
    std::iter::from_fn(move || {
        loop {
            match *header.get(at)? {
                0 => return None,
                1 => at += 1,
                kind => {
                    let len = usize::from(*header.get(at + 1)?);
                    if len < 2 || at + len > header.len() {
                        return None;
                    }
                    at += len;
                    return Some((at - len, kind, len));
                }
            }
        }
    })
}

/// Lowers the segment size that a SYN allows to `mss`, where it allows more.
pub(crate) fn clamp_mss(segment: &mut [u8], mss: u16, is_partial: bool) {
    let header_len = tcp::Segment::new_unchecked(&*segment).header_len();
    let Some(header) = segment.get_mut(..header_len) else {
        return;
    };
    let place = { options(header) }.find(|&(_, kind, len)| (kind, len) == (2, 4));
    let Some((at, ..)) = place else {
        return;
    };
    if u16::from_be_bytes([header[at + 2], header[at + 3]]) <= mss {
        return;
    }
    // The option may lie at an odd offset.
    let before = checksum::sum(header);
    header[at + 2..at + 4].copy_from_slice(&mss.to_be_bytes());
    if !is_partial {
        let difference = Difference(checksum::add(!before, checksum::sum(header)));
        update_at(header, checksum_at(Transport::Tcp), difference);
    }
}

/// Whether the checksum of a segment whose field is its pseudo-header's sum is really unfinished:
/// a finished one looks the same once in 65,536 times. The whole segment is summed, so that this is
/// asked where a sender is not known yet.
#[cold]
pub(crate) fn is_partial(bytes: &[u8], packet: &Packet) -> bool {
    let segment = &bytes[packet.transport_at..packet.end];
    let protocol = match packet.transport {
        Transport::Tcp => PROTOCOL_TCP,
        Transport::Udp => PROTOCOL_UDP,
    };
    checksum::transport(packet.source, packet.destination, protocol, segment) != 0
}

#[inline]
fn checksum_at(transport: Transport) -> usize {
    match transport {
        Transport::Tcp => tcp::field::CHECKSUM,
        Transport::Udp => udp::field::CHECKSUM,
    }
}

#[inline]
fn update_at(bytes: &mut [u8], at: usize, difference: Difference) {
    let new = difference.update(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
}
