//! UDP headers: RFC 768.

use std::net::IpAddr;

use crate::bytes::{set_u16, u16_at};
use crate::{PROTOCOL_UDP, checksum};

/// Offsets in a datagram.
pub mod field {
    /// Port of the sender.
    pub const SOURCE_PORT: usize = 0;
    /// Port of the receiver.
    pub const DESTINATION_PORT: usize = 2;
    /// Bytes of header and payload.
    pub const LEN: usize = 4;
    /// Checksum of pseudo-header, header and payload; 0 if there is none.
    pub const CHECKSUM: usize = 6;
    /// What follows the header.
    pub const PAYLOAD: usize = 8;
}

/// Bytes of a header.
pub const HEADER_LEN: usize = field::PAYLOAD;

/// A datagram in a buffer.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<T>(T);

impl<T: AsRef<[u8]>> Datagram<T> {
    /// The getters panic if the buffer is shorter than what they read.
    #[inline]
    pub fn new_unchecked(buffer: T) -> Self {
        Self(buffer)
    }

    /// `None` if the datagram is cut, or shorter than its header.
    pub fn new_checked(buffer: T) -> Option<Self> {
        let datagram = Self(buffer);
        let len = datagram.0.as_ref().len();
        (len >= HEADER_LEN && (HEADER_LEN..=len).contains(&datagram.len())).then_some(datagram)
    }

    /// Port of the sender.
    #[inline]
    pub fn source_port(&self) -> u16 {
        u16_at(self.0.as_ref(), field::SOURCE_PORT)
    }

    /// Port of the receiver.
    #[inline]
    pub fn destination_port(&self) -> u16 {
        u16_at(self.0.as_ref(), field::DESTINATION_PORT)
    }

    /// Bytes of header and payload, as the header says.
    #[inline]
    #[expect(
        clippy::len_without_is_empty,
        reason = "the length of the field, not of a container"
    )]
    pub fn len(&self) -> usize {
        u16_at(self.0.as_ref(), field::LEN).into()
    }

    /// The checksum as sent, right or not; 0 if there is none.
    #[inline]
    pub fn checksum(&self) -> u16 {
        u16_at(self.0.as_ref(), field::CHECKSUM)
    }

    /// Whether the checksum fits, or there is none.
    pub fn verify_checksum(&self, source: IpAddr, destination: IpAddr) -> bool {
        let datagram = &self.0.as_ref()[..self.len()];
        self.checksum() == 0
            || checksum::transport(source, destination, PROTOCOL_UDP, datagram) == 0
    }

    /// What follows the header, without padding.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[field::PAYLOAD..self.len()]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Datagram<T> {
    /// Sets the port of the sender.
    pub fn set_source_port(&mut self, port: u16) {
        set_u16(self.0.as_mut(), field::SOURCE_PORT, port);
    }

    /// Sets the port of the receiver.
    pub fn set_destination_port(&mut self, port: u16) {
        set_u16(self.0.as_mut(), field::DESTINATION_PORT, port);
    }

    /// Sets the bytes of header and payload.
    pub fn set_len(&mut self, len: u16) {
        set_u16(self.0.as_mut(), field::LEN, len);
    }

    /// Sets the checksum, or that there is none.
    pub fn set_checksum(&mut self, checksum: Option<u16>) {
        set_u16(
            self.0.as_mut(),
            field::CHECKSUM,
            checksum.map_or(0, nonzero),
        );
    }

    /// Computes and sets the checksum of the whole buffer, whatever the length field says.
    pub fn fill_checksum(&mut self, source: IpAddr, destination: IpAddr) {
        self.set_checksum(None);
        let checksum = checksum::transport(source, destination, PROTOCOL_UDP, self.0.as_ref());
        self.set_checksum(Some(checksum));
    }

    /// Adapts the checksum to a 16-bit word that changed from `old` to `new`, if there is one.
    pub fn update_checksum(&mut self, old: u16, new: u16) {
        if self.checksum() != 0 {
            self.set_checksum(Some(checksum::update(self.checksum(), old, new)));
        }
    }
}

/// 0 would say that there is no checksum, and 0xffff is the same sum.
fn nonzero(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}
