//! What is known of an IP packet, and of a fragment of one.

use std::net::IpAddr;

use crate::bytes::array;
use crate::{checksum, ipv4};

/// What the IP header and those before it hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip {
    /// The sender of the packet.
    pub source: IpAddr,
    /// The receiver: at the end of the route, where an IPv6 routing header gives one.
    pub destination: IpAddr,
    /// What the payload is, behind all extension headers.
    pub protocol: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// What distinguishes the sender's packets (RFC 6864); 0 in IPv6, which has that in fragments
    /// only.
    pub identification: u16,
    /// Offset in the bytes of the IP header; 0 of a packet that was put together from fragments.
    pub header: usize,
    /// Offset in the bytes of the payload, behind all extension headers.
    pub payload: usize,
    /// Bytes of the payload on the wire, by the IP header; Ethernet's padding is not among them.
    /// Where the header claims more than the frame had, what the frame had.
    pub payload_len: usize,
    /// How many bytes of the payload a snap length left.
    pub captured_len: usize,
    /// Tunnels around the packet, as far as they are in these bytes: see
    /// [`layers`](crate::layers()).
    pub tunnels: u8,
    /// See [`Layers::virtual_network`](crate::Layers::virtual_network), of those tunnels.
    pub virtual_network: Option<u32>,
    /// See [`Layers::vlan`](crate::Layers::vlan), of the tags in these bytes.
    pub vlan: u16,
    /// What the header's checksum is worth.
    pub checksum: HeaderChecksum,
}

/// What the checksum of an IP header is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeaderChecksum {
    /// It fits the header.
    Right,
    /// It does not.
    Wrong,
    /// It is 0: left to a network card that the tap stands before.
    Offloaded,
    /// IPv6 has none.
    NoneInIpv6,
    /// A snap length cut the header.
    Unknown,
}

/// Which part of a packet a fragment is: RFC 791, 3.1; RFC 8200, 4.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// The same for all fragments of a packet between two addresses (16 bits in IPv4).
    pub identification: u32,
    /// Bytes of the packet's payload before this part. Never lies beyond 65,535 with the part's
    /// end.
    pub offset: usize,
    /// Fragments follow. If so, the part's length is a multiple of 8.
    pub more: bool,
    /// What the first fragment begins with; in IPv6 this may be an extension header.
    pub protocol: u8,
}

/// What the fragments of a packet have in common, and those of other packets do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FragmentKey {
    ends: [IpAddr; 2],
    protocol: u8,
    identification: u32,
}

impl Fragment {
    /// Which packet this is a part of. `ends` are the addresses of its sender and its receiver.
    pub fn key(&self, ends: [IpAddr; 2]) -> FragmentKey {
        FragmentKey {
            ends,
            protocol: self.protocol,
            identification: self.identification,
        }
    }
}

impl Ip {
    /// The sum of the pseudo-header of `len` bytes of payload, which TCP's and UDP's checksums
    /// cover beside them.
    #[inline]
    pub fn pseudo_header_sum(&self, len: usize) -> u16 {
        checksum::pseudo_header_sum(self.source, self.destination, self.protocol, len)
    }

    /// The payload is `start..end` on the wire.
    #[inline]
    pub(crate) fn set_payload(&mut self, bytes: &[u8], start: usize, end: usize) {
        self.payload = start.min(bytes.len());
        self.payload_len = end - start;
        self.captured_len = end.min(bytes.len()) - self.payload;
    }
}

#[inline]
pub(crate) fn ipv4_checksum(bytes: &[u8], offset: usize, header_len: usize) -> HeaderChecksum {
    if let Some(header) = array::<{ ipv4::HEADER_LEN }>(bytes, offset)
        && header_len == ipv4::HEADER_LEN
        && checksum::sum(header) == 0xffff
    {
        return HeaderChecksum::Right;
    }
    let Some(header) = bytes.get(offset..offset + header_len) else {
        return HeaderChecksum::Unknown;
    };
    if checksum::sum(header) == 0xffff {
        return HeaderChecksum::Right;
    }
    match ipv4::Packet::new_unchecked(header).checksum() {
        0 => HeaderChecksum::Offloaded,
        _ => HeaderChecksum::Wrong,
    }
}
