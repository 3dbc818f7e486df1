//! What this stack needs of IP packets and their frames.

use std::net::IpAddr;

use lineside_frame::{Descriptor, LinkType};

/// Codepoints of the IP header: RFC 3168, 5.
pub(crate) const ECT_0: u8 = 0b10;
pub(crate) const CE: u8 = 0b11;

/// The two bits of an IP header.
pub(crate) fn codepoint(header: &[u8]) -> u8 {
    match header {
        [first, second, ..] if first >> 4 == 4 => second & 3,
        [_, second, ..] => second >> 4 & 3,
        _ => 0,
    }
}

/// Whether it is the address of one host: packets may come from it and go to it.
pub(crate) fn is_unicast(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !(address.is_multicast() || address.is_unspecified() || is_broadcast)
}

/// Of a frame of one's own.
pub(crate) fn descriptor(len: usize) -> Descriptor {
    Descriptor {
        wire_len: len as u32,
        link_type: LinkType::ETHERNET,
        ..Descriptor::default()
    }
}
