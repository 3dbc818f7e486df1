//! IPv6 headers and the extension headers that stand before a transport header: RFC 8200, 3 and 4.

use std::net::Ipv6Addr;

use crate::bytes::{array_at, set, set_u16, set_u32, u16_at, u32_at};

/// Offsets in a packet.
pub mod field {
    /// Version, traffic class and flow label.
    pub const VERSION: usize = 0;
    /// Bytes after the header.
    pub const PAYLOAD_LEN: usize = 4;
    /// Names what follows the header.
    pub const NEXT_HEADER: usize = 6;
    /// How many routers may still forward the packet.
    pub const HOP_LIMIT: usize = 7;
    /// The sender's address.
    pub const SOURCE: usize = 8;
    /// The receiver's address.
    pub const DESTINATION: usize = 24;
    /// What follows the header.
    pub const PAYLOAD: usize = 40;
}

/// Offsets in a fragment header: RFC 8200, 4.5.
mod fragment_field {
    pub(super) const NEXT_HEADER: usize = 0;
    pub(super) const RESERVED: usize = 1;
    pub(super) const POSITION: usize = 2;
    pub(super) const IDENTIFICATION: usize = 4;
}

/// Bytes of a header.
pub const HEADER_LEN: usize = field::PAYLOAD;
/// Bytes of a fragment header.
pub const FRAGMENT_HEADER_LEN: usize = 8;

/// Numbers of extension headers: RFC 8200, 4; RFC 4302, 2.
pub mod extension {
    /// Hop-by-hop options.
    pub const HOP_BY_HOP: u8 = 0;
    /// A route.
    pub const ROUTING: u8 = 43;
    /// Which part of a packet this is.
    pub const FRAGMENT: u8 = 44;
    /// Authentication, the only one that IPv4 has too.
    pub const AUTHENTICATION: u8 = 51;
    /// Options for the receiver.
    pub const DESTINATION: u8 = 60;
}

/// Bytes of an extension header of this kind, by its first 8 bytes. Not for a fragment header,
/// which has no length.
#[inline]
pub(crate) fn extension_len(kind: u8, header: &[u8; 8]) -> usize {
    let units = usize::from(header[1]);
    match kind {
        // RFC 4302, 2.2: in words of 4 bytes, minus 2.
        extension::AUTHENTICATION => (units + 2) * 4,
        _ => (units + 1) * 8,
    }
}

/// Offsets in a routing header: RFC 8200, 4.4.
mod routing_field {
    pub(super) const TYPE: usize = 2;
    pub(super) const SEGMENTS_LEFT: usize = 3;
    pub(super) const ADDRESSES: usize = 8;
}

/// The address at the end of the route that a whole routing header gives, if the packet is still on
/// its way there. Checksums are computed for it, not for the next stop that the IPv6 header names
/// (RFC 8200, 8.1).
pub(crate) fn final_destination(header: &[u8]) -> Option<Ipv6Addr> {
    let addresses = header.get(routing_field::ADDRESSES..)?;
    if header[routing_field::SEGMENTS_LEFT] == 0 {
        return None;
    }
    let last = match header[routing_field::TYPE] {
        // Source route (RFC 5095 calls it off), mobile IPv6 (RFC 6275, 6.4).
        0 | 2 => addresses.last_chunk::<16>(),
        // Segment routing lists the last stop first (RFC 8754, 2).
        4 => addresses.first_chunk::<16>(),
        _ => None,
    };
    last.map(|&octets| octets.into())
}

/// A packet in a buffer.
#[derive(Debug, Clone, Copy)]
pub struct Packet<T>(T);

impl<T: AsRef<[u8]>> Packet<T> {
    /// The getters panic if the buffer is shorter than what they read.
    #[inline]
    pub fn new_unchecked(buffer: T) -> Self {
        Self(buffer)
    }

    /// `None` if the packet is cut, or its version is another. The payload ends with the packet:
    /// what the buffer has after it is padding.
    pub fn new_checked(buffer: T) -> Option<Self> {
        let packet = Self(buffer);
        let len = packet.0.as_ref().len();
        let fits =
            len >= HEADER_LEN && packet.version() == 6 && HEADER_LEN + packet.payload_len() <= len;
        fits.then_some(packet)
    }

    /// 6, if this is IPv6.
    #[inline]
    pub fn version(&self) -> u8 {
        self.0.as_ref()[field::VERSION] >> 4
    }

    /// Congestion notification, 2 bits: RFC 3168, 5.
    pub fn ecn(&self) -> u8 {
        self.0.as_ref()[field::VERSION + 1] >> 4 & 3
    }

    /// Bytes after the header, as it says: extension headers are among them.
    #[inline]
    pub fn payload_len(&self) -> usize {
        u16_at(self.0.as_ref(), field::PAYLOAD_LEN).into()
    }

    /// Names what follows the header.
    #[inline]
    pub fn next_header(&self) -> u8 {
        self.0.as_ref()[field::NEXT_HEADER]
    }

    /// How many routers may still forward the packet.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        self.0.as_ref()[field::HOP_LIMIT]
    }

    /// The sender's address.
    #[inline]
    pub fn source(&self) -> Ipv6Addr {
        array_at::<16>(self.0.as_ref(), field::SOURCE).into()
    }

    /// The receiver's address.
    #[inline]
    pub fn destination(&self) -> Ipv6Addr {
        array_at::<16>(self.0.as_ref(), field::DESTINATION).into()
    }

    /// What follows the header, without padding.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[field::PAYLOAD..HEADER_LEN + self.payload_len()]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets the version to 6, and the 8 bits of differentiated services and congestion
    /// notification; the flow label to 0.
    pub fn set_traffic_class(&mut self, class: u8) {
        set_u32(
            self.0.as_mut(),
            field::VERSION,
            6 << 28 | u32::from(class) << 20,
        );
    }

    /// Sets the bytes after the header.
    pub fn set_payload_len(&mut self, len: u16) {
        set_u16(self.0.as_mut(), field::PAYLOAD_LEN, len);
    }

    /// Sets what follows the header.
    pub fn set_next_header(&mut self, number: u8) {
        self.0.as_mut()[field::NEXT_HEADER] = number;
    }

    /// Sets how many routers may still forward the packet.
    pub fn set_hop_limit(&mut self, limit: u8) {
        self.0.as_mut()[field::HOP_LIMIT] = limit;
    }

    /// Sets the sender's address.
    pub fn set_source(&mut self, address: Ipv6Addr) {
        set(self.0.as_mut(), field::SOURCE, &address.octets());
    }

    /// Sets the receiver's address.
    pub fn set_destination(&mut self, address: Ipv6Addr) {
        set(self.0.as_mut(), field::DESTINATION, &address.octets());
    }
}

/// A fragment header in a buffer.
#[derive(Debug, Clone, Copy)]
pub struct FragmentHeader<T>(T);

impl<T: AsRef<[u8]>> FragmentHeader<T> {
    /// The getters panic if the buffer is shorter than [`FRAGMENT_HEADER_LEN`].
    #[inline]
    pub fn new_unchecked(buffer: T) -> Self {
        Self(buffer)
    }

    /// Names what the whole packet has after the fragment header.
    pub fn next_header(&self) -> u8 {
        self.0.as_ref()[fragment_field::NEXT_HEADER]
    }

    /// Bytes of the packet's payload before this fragment.
    pub fn offset(&self) -> usize {
        usize::from(u16_at(self.0.as_ref(), fragment_field::POSITION) & !7)
    }

    /// Whether more fragments of the packet follow.
    pub fn more_fragments(&self) -> bool {
        u16_at(self.0.as_ref(), fragment_field::POSITION) & 1 != 0
    }

    /// The same for all fragments of a packet between two addresses.
    pub fn identification(&self) -> u32 {
        u32_at(self.0.as_ref(), fragment_field::IDENTIFICATION)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> FragmentHeader<T> {
    /// Sets what the whole packet has after the fragment header.
    pub fn set_next_header(&mut self, number: u8) {
        self.0.as_mut()[fragment_field::NEXT_HEADER] = number;
        self.0.as_mut()[fragment_field::RESERVED] = 0;
    }

    /// Sets which part of a packet this is: its offset in bytes, a multiple of 8, and whether more
    /// parts follow.
    pub fn set_position(&mut self, offset: usize, more: bool) {
        let position = offset as u16 | u16::from(more);
        set_u16(self.0.as_mut(), fragment_field::POSITION, position);
    }

    /// Sets the identification.
    pub fn set_identification(&mut self, identification: u32) {
        set_u32(
            self.0.as_mut(),
            fragment_field::IDENTIFICATION,
            identification,
        );
    }
}
