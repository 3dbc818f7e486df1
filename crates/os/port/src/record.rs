//! What the formats of capture files share: frames among bytes, and numbers in either order.

use lineside_frame::LinkType;

/// What a format makes of the bytes that are ready.
pub(crate) enum Step {
    /// So many must be ready to say more.
    Need(usize),
    /// So many, ready or not, are no frame.
    Skip(usize),
    Frame(Record),
}

/// A frame and what surrounds it; all of it is ready.
pub(crate) struct Record {
    pub(crate) before: usize,
    pub(crate) len: usize,
    pub(crate) behind: usize,
    pub(crate) wire_len: u32,
    pub(crate) stamp_ns: Option<i64>,
    pub(crate) link_type: LinkType,
    pub(crate) interface: u16,
    pub(crate) damaged: bool,
}

/// Byte order of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Little,
    Big,
}

impl Order {
    pub(crate) fn u16(self, bytes: &[u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(*bytes),
            Self::Big => u16::from_be_bytes(*bytes),
        }
    }

    pub(crate) fn u32(self, bytes: &[u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(*bytes),
            Self::Big => u32::from_be_bytes(*bytes),
        }
    }

    pub(crate) fn u64(self, bytes: &[u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(*bytes),
            Self::Big => u64::from_be_bytes(*bytes),
        }
    }
}

/// The `N` bytes at `offset`, if all are there.
#[inline]
pub(crate) fn array<const N: usize>(bytes: &[u8], offset: usize) -> Option<&[u8; N]> {
    bytes.get(offset..)?.first_chunk()
}
