//! What targets read their bytes by.

use std::io::{self, Read};

/// Bytes that become numbers and runs of bytes; 0 and empty when they are used up.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn u8(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from(self.u16()) << 16 | u32::from(self.u16())
    }

    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// The last byte: choices stand at the end, so that a capture file as it is can be a seed.
    pub(crate) fn last(&mut self) -> u8 {
        let (&last, rest) = self.0.split_last().unwrap_or((&0, &[]));
        self.0 = rest;
        last
    }
}

/// A source that gives at most `len_max` bytes at a time.
pub(crate) struct Pieces<B> {
    pub(crate) bytes: B,
    pub(crate) read: usize,
    pub(crate) len_max: usize,
}

impl<B: AsRef<[u8]>> Read for Pieces<B> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = &self.bytes.as_ref()[self.read..];
        let len = rest.len().min(buffer.len()).min(self.len_max);
        buffer[..len].copy_from_slice(&rest[..len]);
        self.read += len;
        Ok(len)
    }
}
