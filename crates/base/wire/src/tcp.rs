//! TCP headers and their options: RFC 9293, 3.1 and 3.2; RFC 7323; RFC 2018.

use std::fmt;
use std::net::IpAddr;
use std::ops::BitOr;

use crate::bytes::{set_u16, set_u32, u16_at, u32_at};
use crate::{PROTOCOL_TCP, SeqNumber, checksum};

/// Offsets in a segment.
pub mod field {
    /// Port of the sender.
    pub const SOURCE_PORT: usize = 0;
    /// Port of the receiver.
    pub const DESTINATION_PORT: usize = 2;
    /// Sequence number of the first byte.
    pub const SEQUENCE: usize = 4;
    /// The next sequence number that the sender expects.
    pub const ACKNOWLEDGEMENT: usize = 8;
    /// In the upper half, words of 4 bytes before the payload.
    pub const DATA_OFFSET: usize = 12;
    /// Control bits.
    pub const FLAGS: usize = 13;
    /// The receive window of the sender.
    pub const WINDOW: usize = 14;
    /// Checksum of pseudo-header, header and payload.
    pub const CHECKSUM: usize = 16;
    /// Where urgent data ends.
    pub const URGENT: usize = 18;
    /// Options, or the payload where there are none.
    pub const OPTIONS: usize = 20;
}

/// Bytes of a header without options.
pub const HEADER_LEN: usize = field::OPTIONS;
/// The most bytes of options that a header has room for.
pub const OPTIONS_LEN_MAX: usize = 40;

/// A segment in a buffer.
#[derive(Debug, Clone, Copy)]
pub struct Segment<T>(T);

impl<T: AsRef<[u8]>> Segment<T> {
    /// The getters panic if the buffer is shorter than what they read.
    #[inline]
    pub fn new_unchecked(buffer: T) -> Self {
        Self(buffer)
    }

    /// `None` if the header is cut, or its length contradicts itself.
    pub fn new_checked(buffer: T) -> Option<Self> {
        let segment = Self(buffer);
        let len = segment.0.as_ref().len();
        (len >= HEADER_LEN && (HEADER_LEN..=len).contains(&segment.header_len())).then_some(segment)
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

    /// Sequence number of the first payload byte; of the SYN if there is one.
    #[inline]
    pub fn sequence(&self) -> SeqNumber {
        SeqNumber(u32_at(self.0.as_ref(), field::SEQUENCE))
    }

    /// The next sequence number that the sender expects; holds if ACK is set.
    #[inline]
    pub fn acknowledgement(&self) -> SeqNumber {
        SeqNumber(u32_at(self.0.as_ref(), field::ACKNOWLEDGEMENT))
    }

    /// Bytes of the header, options included.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.0.as_ref()[field::DATA_OFFSET] >> 4) * 4
    }

    /// Control bits.
    #[inline]
    pub fn flags(&self) -> TcpFlags {
        TcpFlags(self.0.as_ref()[field::FLAGS])
    }

    /// The window as sent, without its scale.
    #[inline]
    pub fn window(&self) -> u16 {
        u16_at(self.0.as_ref(), field::WINDOW)
    }

    /// The checksum as sent, right or not.
    #[inline]
    pub fn checksum(&self) -> u16 {
        u16_at(self.0.as_ref(), field::CHECKSUM)
    }

    /// Whether the checksum fits the whole buffer.
    pub fn verify_checksum(&self, source: IpAddr, destination: IpAddr) -> bool {
        checksum::transport(source, destination, PROTOCOL_TCP, self.0.as_ref()) == 0
    }

    /// The options, one after the other.
    pub fn options(&self) -> TcpOptions<'_> {
        TcpOptions(&self.0.as_ref()[field::OPTIONS..self.header_len()])
    }

    /// What follows the header.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[self.header_len()..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Segment<T> {
    /// Sets the port of the sender.
    pub fn set_source_port(&mut self, port: u16) {
        set_u16(self.0.as_mut(), field::SOURCE_PORT, port);
    }

    /// Sets the port of the receiver.
    pub fn set_destination_port(&mut self, port: u16) {
        set_u16(self.0.as_mut(), field::DESTINATION_PORT, port);
    }

    /// Sets the sequence number.
    pub fn set_sequence(&mut self, sequence: SeqNumber) {
        set_u32(self.0.as_mut(), field::SEQUENCE, sequence.0);
    }

    /// Sets the acknowledgement number.
    pub fn set_acknowledgement(&mut self, acknowledgement: SeqNumber) {
        set_u32(self.0.as_mut(), field::ACKNOWLEDGEMENT, acknowledgement.0);
    }

    /// Sets the length of the header in bytes, a multiple of 4.
    pub fn set_header_len(&mut self, len: usize) {
        self.0.as_mut()[field::DATA_OFFSET] = ((len / 4) << 4) as u8;
    }

    /// Sets the control bits.
    pub fn set_flags(&mut self, flags: TcpFlags) {
        self.0.as_mut()[field::FLAGS] = flags.0;
    }

    /// Sets the window as sent.
    pub fn set_window(&mut self, window: u16) {
        set_u16(self.0.as_mut(), field::WINDOW, window);
    }

    /// Sets where urgent data ends.
    pub fn set_urgent(&mut self, urgent: u16) {
        set_u16(self.0.as_mut(), field::URGENT, urgent);
    }

    /// Sets the checksum.
    pub fn set_checksum(&mut self, checksum: u16) {
        set_u16(self.0.as_mut(), field::CHECKSUM, checksum);
    }

    /// Computes and sets the checksum of the whole buffer.
    pub fn fill_checksum(&mut self, source: IpAddr, destination: IpAddr) {
        self.set_checksum(0);
        let checksum = checksum::transport(source, destination, PROTOCOL_TCP, self.0.as_ref());
        self.set_checksum(checksum);
    }

    /// The options, to be written once the length of the header is set.
    pub fn options_mut(&mut self) -> &mut [u8] {
        let header_len = self.header_len();
        &mut self.0.as_mut()[field::OPTIONS..header_len]
    }
}

/// TCP's control bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// The sender has no more data.
    pub const FIN: Self = Self(0x01);
    /// Begins a connection.
    pub const SYN: Self = Self(0x02);
    /// Aborts the connection.
    pub const RST: Self = Self(0x04);
    /// Hand the data over now.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement number holds.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer holds.
    pub const URG: Self = Self(0x20);
    /// Echo of congestion.
    pub const ECE: Self = Self(0x40);
    /// The congestion window was reduced.
    pub const CWR: Self = Self(0x80);

    /// Whether the segment opens a connection or answers one that does. No stack sends a SYN with
    /// PSH, FIN or RST: such a header is damaged (seen in a public capture, where believing it
    /// would hide all that follows).
    #[inline]
    pub fn opens(self) -> bool {
        self.contains(Self::SYN) && self.0 & (Self::PSH.0 | Self::FIN.0 | Self::RST.0) == 0
    }

    /// True if all bits of `flags` are set.
    pub fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl BitOr for TcpFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
        let is_set = |bit: &usize| self.0 & (1 << bit) != 0;
        let set = (0..8).filter(is_set).map(|bit| names[bit]);
        f.debug_set().entries(set).finish()
    }
}

/// Numbers of options: RFC 9293, 3.2; RFC 7323, 2.2 and 3.2; RFC 2018, 2 and 3.
mod option {
    pub(super) const END: u8 = 0;
    pub(super) const NO_OPERATION: u8 = 1;
    pub(super) const MSS: u8 = 2;
    pub(super) const WINDOW_SCALE: u8 = 3;
    pub(super) const SACK_PERMITTED: u8 = 4;
    pub(super) const SACK: u8 = 5;
    pub(super) const TIMESTAMPS: u8 = 8;
}

/// An option of a TCP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// The most payload bytes that the sender takes in a segment.
    Mss(u16),
    /// The sender's windows count in units of two to this power.
    WindowScale(u8),
    /// The sender understands [`Sack`](Self::Sack).
    SackPermitted,
    /// What the sender has received out of order.
    Sack(SackBlocks<'a>),
    /// RFC 7323, 3.2.
    Timestamps {
        /// The sender's clock.
        value: u32,
        /// The receiver's clock in the segment that this one answers.
        echo: u32,
    },
}

/// Blocks of sequence numbers: the first of each, and the one after its last.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SackBlocks<'a>(&'a [[u8; 8]]);

impl<'a> SackBlocks<'a> {
    /// The most blocks that a header has room for.
    pub const MAX: usize = 4;

    /// Blocks as they are sent.
    pub fn new(blocks: &'a [[u8; 8]]) -> Self {
        Self(blocks)
    }

    /// A block as it is sent.
    pub fn block(start: SeqNumber, end: SeqNumber) -> [u8; 8] {
        (u64::from(start.0) << 32 | u64::from(end.0)).to_be_bytes()
    }

    /// The first sequence number of each block, and the one after its last.
    pub fn iter(self) -> impl ExactSizeIterator<Item = (SeqNumber, SeqNumber)> + 'a {
        let number = |block, at| SeqNumber(u32_at(block, at));
        let blocks = self.0.iter();
        blocks.map(move |block| (number(block, 0), number(block, 4)))
    }
}

impl fmt::Debug for SackBlocks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl TcpOption<'_> {
    /// Bytes of the option in a header.
    #[expect(clippy::len_without_is_empty, reason = "no option is empty")]
    pub fn len(&self) -> usize {
        match self {
            Self::Mss(_) => 4,
            Self::WindowScale(_) => 3,
            Self::SackPermitted => 2,
            Self::Sack(blocks) => 2 + 8 * blocks.0.len(),
            Self::Timestamps { .. } => 10,
        }
    }

    /// Writes the option to the beginning of `buffer`, and returns what is left of that. Panics if
    /// there is no room.
    pub fn emit<'b>(&self, buffer: &'b mut [u8]) -> &'b mut [u8] {
        let (bytes, rest) = buffer.split_at_mut(self.len());
        bytes[1] = self.len() as u8;
        bytes[0] = match *self {
            Self::Mss(mss) => {
                set_u16(bytes, 2, mss);
                option::MSS
            }
            Self::WindowScale(shift) => {
                bytes[2] = shift;
                option::WINDOW_SCALE
            }
            Self::SackPermitted => option::SACK_PERMITTED,
            Self::Sack(blocks) => {
                bytes[2..].copy_from_slice(blocks.0.as_flattened());
                option::SACK
            }
            Self::Timestamps { value, echo } => {
                set_u32(bytes, 2, value);
                set_u32(bytes, 6, echo);
                option::TIMESTAMPS
            }
        };
        rest
    }
}

/// An option whose length contradicts its kind or the header's end: the options after it cannot be
/// found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedOption;

/// The options of a header that this crate knows, in their order; others are skipped. A malformed
/// one ends them.
#[derive(Debug, Clone, Copy)]
pub struct TcpOptions<'a>(&'a [u8]);

impl<'a> TcpOptions<'a> {
    /// Reads options, as they stand after the first 20 bytes of a header.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The first option, and what follows it; `None` in place of an option that is not known.
    fn first(bytes: &'a [u8]) -> Option<(Option<TcpOption<'a>>, &'a [u8])> {
        let (&[kind, len], _) = bytes.split_first_chunk::<2>()?;
        let (bytes, rest) = bytes.split_at_checked(len.into())?;
        let value = bytes.get(2..)?;
        let option = match (kind, value.len()) {
            (option::MSS, 2) => TcpOption::Mss(u16_at(value, 0)),
            (option::WINDOW_SCALE, 1) => TcpOption::WindowScale(value[0]),
            (option::SACK_PERMITTED, 0) => TcpOption::SackPermitted,
            (option::SACK, 8 | 16 | 24 | 32) => TcpOption::Sack(SackBlocks(value.as_chunks().0)),
            (option::TIMESTAMPS, 8) => TcpOption::Timestamps {
                value: u32_at(value, 0),
                echo: u32_at(value, 4),
            },
            (option::MSS..=option::SACK | option::TIMESTAMPS, _) => return None,
            _ => return Some((None, rest)),
        };
        Some((Some(option), rest))
    }
}

impl<'a> Iterator for TcpOptions<'a> {
    type Item = Result<TcpOption<'a>, MalformedOption>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match *self.0.first()? {
                option::END => return None,
                option::NO_OPERATION => self.0 = &self.0[1..],
                _ => {
                    let Some((option, rest)) = Self::first(self.0) else {
                        self.0 = &[];
                        return Some(Err(MalformedOption));
                    };
                    self.0 = rest;
                    if let Some(option) = option {
                        return Some(Ok(option));
                    }
                }
            }
        }
    }
}
