//! Echo requests and replies of ICMP (RFC 792) and ICMPv6 (RFC 4443, 4). Other messages are not
//! read.

use crate::bytes::{set_u16, u16_at};
use crate::checksum;

/// Offsets in a message.
mod field {
    pub(super) const KIND: usize = 0;
    pub(super) const CODE: usize = 1;
    pub(super) const CHECKSUM: usize = 2;
    pub(super) const IDENTIFIER: usize = 4;
    pub(super) const SEQUENCE: usize = 6;
}

/// Bytes of an echo's header.
pub const HEADER_LEN: usize = 8;

/// Types of messages.
pub mod kind {
    /// ICMP: an echo's answer.
    pub const ECHO_REPLY: u8 = 0;
    /// ICMP: asks for an echo.
    pub const ECHO_REQUEST: u8 = 8;
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
