//! IPv4 headers: RFC 791, 3.1.

use std::net::Ipv4Addr;

use crate::bytes::{set, set_u16, u16_at, u32_at};
use crate::checksum;

/// Offsets in a packet.
pub mod field {
    /// Version and, in words of 4 bytes, header length.
    pub const VERSION_LEN: usize = 0;
    /// Differentiated services and congestion notification.
    pub const TRAFFIC_CLASS: usize = 1;
    /// Bytes of header and payload.
    pub const TOTAL_LEN: usize = 2;
    /// Distinguishes the sender's packets.
    pub const IDENTIFICATION: usize = 4;
    /// Flags and, in words of 8 bytes, fragment offset.
    pub const FRAGMENT: usize = 6;
    /// Time to live.
    pub const TTL: usize = 8;
    /// Names what follows the header.
    pub const PROTOCOL: usize = 9;
    /// Checksum of the header.
    pub const CHECKSUM: usize = 10;
    /// The sender's address.
    pub const SOURCE: usize = 12;
    /// The receiver's address.
    pub const DESTINATION: usize = 16;
    /// Options, or the payload where there are none.
    pub const OPTIONS: usize = 20;
}

/// Bytes of a header without options.
pub const HEADER_LEN: usize = field::OPTIONS;
/// The most bytes of options that a header has room for.
pub const OPTIONS_LEN_MAX: usize = 40;
/// The first byte of a header without options.
pub const VERSION_LEN_PLAIN: u8 = 0x45;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const FRAGMENT_OFFSET: u16 = 0x1fff;

/// A packet in a buffer.
#[derive(Debug, Clone, Copy)]
pub struct Packet<T>(T);

impl<T: AsRef<[u8]>> Packet<T> {
    /// The getters panic if the buffer is shorter than what they read.
    #[inline]
    pub fn new_unchecked(buffer: T) -> Self {
        Self(buffer)
    }

    /// `None` if the packet is cut, or its version or lengths contradict each other. The payload
    /// ends with the packet: what the buffer has after it is padding.
    pub fn new_checked(buffer: T) -> Option<Self> {
        let packet = Self(buffer);
        let len = packet.0.as_ref().len();
        let fits = len >= HEADER_LEN
            && packet.version() == 4
            && (HEADER_LEN..=packet.total_len()).contains(&packet.header_len())
            && packet.total_len() <= len;
        fits.then_some(packet)
    }

    /// 4, if this is IPv4.
    #[inline]
    pub fn version(&self) -> u8 {
        self.0.as_ref()[field::VERSION_LEN] >> 4
    }

    /// Bytes of the header, options included.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.0.as_ref()[field::VERSION_LEN] & 0x0f) * 4
    }

    /// Whether the header is IPv4's and has no options.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.0.as_ref()[field::VERSION_LEN] == VERSION_LEN_PLAIN
    }

    /// Congestion notification, 2 bits: RFC 3168, 5.
    pub fn ecn(&self) -> u8 {
        self.0.as_ref()[field::TRAFFIC_CLASS] & 3
    }

    /// Bytes of the packet, as the header says.
    #[inline]
    pub fn total_len(&self) -> usize {
        u16_at(self.0.as_ref(), field::TOTAL_LEN).into()
    }

    /// Distinguishes the sender's packets: RFC 6864.
    #[inline]
    pub fn identification(&self) -> u16 {
        u16_at(self.0.as_ref(), field::IDENTIFICATION)
    }

    /// Whether more fragments of the packet follow.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        u16_at(self.0.as_ref(), field::FRAGMENT) & MORE_FRAGMENTS != 0
    }

    /// Bytes of the packet's payload before this fragment.
    #[inline]
    pub fn fragment_offset(&self) -> usize {
        usize::from(u16_at(self.0.as_ref(), field::FRAGMENT) & FRAGMENT_OFFSET) * 8
    }

    /// Whether this is a part of a packet.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        u16_at(self.0.as_ref(), field::FRAGMENT) & (MORE_FRAGMENTS | FRAGMENT_OFFSET) != 0
    }

    /// Whether no router may cut the packet into fragments.
    pub fn dont_fragment(&self) -> bool {
        u16_at(self.0.as_ref(), field::FRAGMENT) & DONT_FRAGMENT != 0
    }

    /// Time to live.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.0.as_ref()[field::TTL]
    }

    /// Names what follows the header.
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.0.as_ref()[field::PROTOCOL]
    }

    /// The checksum of the header as sent, right or not.
    #[inline]
    pub fn checksum(&self) -> u16 {
        u16_at(self.0.as_ref(), field::CHECKSUM)
    }

    /// Whether the checksum fits the header.
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        checksum::sum(&self.0.as_ref()[..self.header_len()]) == 0xffff
    }

    /// The sender's address.
    #[inline]
    pub fn source(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(u32_at(self.0.as_ref(), field::SOURCE))
    }

    /// The receiver's address.
    #[inline]
    pub fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(u32_at(self.0.as_ref(), field::DESTINATION))
    }

    /// The options, padded to words of 4 bytes.
    pub fn options(&self) -> &[u8] {
        &self.0.as_ref()[field::OPTIONS..self.header_len()]
    }

    /// What follows the header, without padding.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[self.header_len()..self.total_len()]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets the version to 4 and the length of the header in bytes, a multiple of 4.
    pub fn set_header_len(&mut self, len: usize) {
        self.0.as_mut()[field::VERSION_LEN] = 0x40 | (len / 4) as u8;
    }

    /// Sets the 8 bits of differentiated services and congestion notification.
    pub fn set_traffic_class(&mut self, class: u8) {
        self.0.as_mut()[field::TRAFFIC_CLASS] = class;
    }

    /// Sets the bytes of the packet.
    pub fn set_total_len(&mut self, len: u16) {
        set_u16(self.0.as_mut(), field::TOTAL_LEN, len);
    }

    /// Sets the identification.
    pub fn set_identification(&mut self, identification: u16) {
        set_u16(self.0.as_mut(), field::IDENTIFICATION, identification);
    }

    /// Sets which part of a packet this is: its offset in bytes, a multiple of 8, and whether more
    /// parts follow. Clears "don't fragment".
    pub fn set_fragment(&mut self, offset: usize, more: bool) {
        let more = if more { MORE_FRAGMENTS } else { 0 };
        set_u16(self.0.as_mut(), field::FRAGMENT, (offset / 8) as u16 | more);
    }

    /// Sets that this is a whole packet, which no router may cut into fragments.
    pub fn set_dont_fragment(&mut self) {
        set_u16(self.0.as_mut(), field::FRAGMENT, DONT_FRAGMENT);
    }

    /// Sets the time to live.
    pub fn set_ttl(&mut self, ttl: u8) {
        self.0.as_mut()[field::TTL] = ttl;
    }

    /// Sets what follows the header.
    pub fn set_protocol(&mut self, protocol: u8) {
        self.0.as_mut()[field::PROTOCOL] = protocol;
    }

    /// Computes and sets the checksum of the header.
    pub fn fill_checksum(&mut self) {
        let header_len = self.header_len();
        set_u16(self.0.as_mut(), field::CHECKSUM, 0);
        let checksum = checksum::checksum(&self.0.as_ref()[..header_len]);
        set_u16(self.0.as_mut(), field::CHECKSUM, checksum);
    }

    /// Sets the sender's address.
    pub fn set_source(&mut self, address: Ipv4Addr) {
        set(self.0.as_mut(), field::SOURCE, &address.octets());
    }

    /// Sets the receiver's address.
    pub fn set_destination(&mut self, address: Ipv4Addr) {
        set(self.0.as_mut(), field::DESTINATION, &address.octets());
    }

    /// The options, to be written once the length of the header is set.
    pub fn options_mut(&mut self) -> &mut [u8] {
        let header_len = self.header_len();
        &mut self.0.as_mut()[field::OPTIONS..header_len]
    }
}
