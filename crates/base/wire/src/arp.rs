//! Address resolution for IPv4 on Ethernet: RFC 826. Other pairs of protocols are not read.

use std::net::Ipv4Addr;

use crate::bytes::{array_at, set, set_u16, u16_at};
use crate::ethernet::ether_type;

/// Offsets in a packet.
mod field {
    pub(super) const HARDWARE: usize = 0;
    pub(super) const PROTOCOL: usize = 2;
    pub(super) const HARDWARE_LEN: usize = 4;
    pub(super) const PROTOCOL_LEN: usize = 5;
    pub(super) const OPERATION: usize = 6;
    pub(super) const SENDER: usize = 8;
    pub(super) const SENDER_ADDRESS: usize = 14;
    pub(super) const TARGET: usize = 18;
    pub(super) const TARGET_ADDRESS: usize = 24;
}

/// Bytes of a packet.
pub const PACKET_LEN: usize = 28;
const ETHERNET: u16 = 1;

/// The operation of a packet that asks for an address.
pub const REQUEST: u16 = 1;
/// The operation of a packet that answers.
pub const REPLY: u16 = 2;

/// A packet in a buffer.
#[derive(Debug, Clone, Copy)]
pub struct Packet<T>(T);

impl<T: AsRef<[u8]>> Packet<T> {
    /// `None` if the packet is cut, or not about IPv4 on Ethernet.
    pub fn new_checked(buffer: T) -> Option<Self> {
        let bytes = buffer.as_ref();
        let is_known = bytes.len() >= PACKET_LEN
            && u16_at(bytes, field::HARDWARE) == ETHERNET
            && u16_at(bytes, field::PROTOCOL) == ether_type::IPV4
            && (bytes[field::HARDWARE_LEN], bytes[field::PROTOCOL_LEN]) == (6, 4);
        is_known.then_some(Self(buffer))
    }

    /// [`REQUEST`], [`REPLY`], or another that is not known.
    pub fn operation(&self) -> u16 {
        u16_at(self.0.as_ref(), field::OPERATION)
    }

    /// The sender's Ethernet address.
    pub fn sender(&self) -> [u8; 6] {
        array_at(self.0.as_ref(), field::SENDER)
    }

    /// The sender's IPv4 address.
    pub fn sender_address(&self) -> Ipv4Addr {
        array_at::<4>(self.0.as_ref(), field::SENDER_ADDRESS).into()
    }

    /// The target's IPv4 address.
    pub fn target_address(&self) -> Ipv4Addr {
        array_at::<4>(self.0.as_ref(), field::TARGET_ADDRESS).into()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Writes a whole packet, [`PACKET_LEN`] bytes: each end with its Ethernet and its IPv4
    /// address.
    pub fn emit(
        mut buffer: T,
        operation: u16,
        sender: ([u8; 6], Ipv4Addr),
        target: ([u8; 6], Ipv4Addr),
    ) -> Self {
        let bytes = buffer.as_mut();
        set_u16(bytes, field::HARDWARE, ETHERNET);
        set_u16(bytes, field::PROTOCOL, ether_type::IPV4);
        (bytes[field::HARDWARE_LEN], bytes[field::PROTOCOL_LEN]) = (6, 4);
        set_u16(bytes, field::OPERATION, operation);
        set(bytes, field::SENDER, &sender.0);
        set(bytes, field::SENDER_ADDRESS, &sender.1.octets());
        set(bytes, field::TARGET, &target.0);
        set(bytes, field::TARGET_ADDRESS, &target.1.octets());
        Self(buffer)
    }
}
