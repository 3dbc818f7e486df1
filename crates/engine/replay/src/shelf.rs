//! Where a script lies: bytes that are written once, one after the other, and read anywhere. A file
//! is one, so that a script of any length takes no memory.

use std::fmt::Debug;
use std::io;

/// Bytes that are written once, one after the other, and read anywhere.
pub trait Shelf: Debug {
    /// Writes behind what is there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Reads what was written at a place.
    fn read_at(&self, at: u64, bytes: &mut [u8]) -> io::Result<()>;
}

impl Shelf for Vec<u8> {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }

    fn read_at(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let there = self.get(at..).and_then(|rest| rest.get(..bytes.len()));
        bytes.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// So much is written, and read, at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Writes to a shelf in large pieces.
#[derive(Debug)]
pub struct Appender {
    shelf: Box<dyn Shelf>,
    bytes: Vec<u8>,
    len: u64,
}

impl Appender {
    /// Writes to a shelf that is empty.
    pub fn new(shelf: Box<dyn Shelf>) -> Self {
        Self {
            shelf,
            bytes: Vec::with_capacity(2 * CHUNK_BYTES),
            len: 0,
        }
    }

    /// Writes, and returns the place.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let at = self.len;
        self.bytes.extend_from_slice(bytes);
        self.len += bytes.len() as u64;
        if self.bytes.len() >= CHUNK_BYTES {
            self.shelf.append(&self.bytes)?;
            self.bytes.clear();
        }
        Ok(at)
    }

    /// The shelf with all that was written, and how much that is.
    pub fn finish(mut self) -> io::Result<(Box<dyn Shelf>, u64)> {
        self.shelf.append(&self.bytes)?;
        Ok((self.shelf, self.len))
    }
}

/// Reads a part of a shelf from its beginning to its end.
#[derive(Debug)]
pub struct Forward<'a> {
    shelf: &'a dyn Shelf,
    /// What was read of it, and how much of that was used.
    bytes: Vec<u8>,
    used: usize,
    /// Where the rest of it begins, and where it ends.
    next: u64,
    end: u64,
}

impl<'a> Forward<'a> {
    /// Reads what lies in these places.
    pub fn new(shelf: &'a dyn Shelf, places: std::ops::Range<u64>) -> Self {
        Self {
            shelf,
            bytes: Vec::new(),
            used: 0,
            next: places.start,
            end: places.end,
        }
    }

    /// Where it is.
    pub fn at(&self) -> u64 {
        self.next - (self.bytes.len() - self.used) as u64
    }

    /// Whether all was read.
    pub fn is_over(&self) -> bool {
        self.at() >= self.end
    }

    /// The next bytes, as many as there are of these.
    pub fn peek(&mut self, len: usize) -> io::Result<&[u8]> {
        if self.bytes.len() - self.used < len && self.next < self.end {
            self.bytes.drain(..self.used);
            self.used = 0;
            let before = self.bytes.len();
            let left = usize::try_from(self.end - self.next).unwrap_or(usize::MAX);
            let more = left.min(len.max(CHUNK_BYTES));
            self.bytes.resize(before + more, 0);
            self.shelf.read_at(self.next, &mut self.bytes[before..])?;
            self.next += more as u64;
        }
        let there = &self.bytes[self.used..];
        Ok(&there[..there.len().min(len)])
    }

    /// Goes on behind so many bytes.
    pub fn skip(&mut self, len: u64) {
        let there = (self.bytes.len() - self.used) as u64;
        if len <= there {
            self.used += len as usize;
        } else {
            self.next = self.next.saturating_add(len - there).min(self.end);
            self.bytes.clear();
            self.used = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_in_its_order() {
        let mut all = Appender::new(Box::new(Vec::new()));
        let piece = |number: u32| number.to_be_bytes();
        let places: Vec<_> = (0..100_000)
            .map(|number| all.append(&piece(number)).expect("memory"))
            .collect();
        let (shelf, len) = all.finish().expect("memory");
        assert_eq!(len, 400_000);
        let mut read = Forward::new(&*shelf, 0..len);
        for number in (0..100_000).step_by(2) {
            assert_eq!(read.at(), places[number as usize]);
            assert_eq!(read.peek(4).expect("memory"), piece(number));
            read.skip(8);
        }
        assert!(read.is_over());
        assert!(read.peek(1).expect("memory").is_empty());
        let mut far = Forward::new(&*shelf, 0..len);
        far.skip(399_996);
        assert_eq!(far.peek(9).expect("memory"), piece(99_999));
        assert!(shelf.read_at(399_997, &mut [0; 4]).is_err());
    }
}
