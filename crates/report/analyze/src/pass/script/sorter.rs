//! Records of a fixed length in their order, in bounded memory: sorted by pieces, which lie on a
//! shelf and are merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::ops::Range;

use lineside_replay::{Appender, Forward, Shelf};

/// Bytes of a piece.
const PIECE_BYTES: usize = 8 << 20;

/// Takes records in any order.
pub(super) struct Sorter<const N: usize> {
    out: Appender,
    pieces: Vec<Range<u64>>,
    held: Vec<[u8; N]>,
    failure: Option<io::Error>,
}

impl<const N: usize> Sorter<N> {
    pub(super) fn new(shelf: Box<dyn Shelf>) -> Self {
        Self {
            out: Appender::new(shelf),
            pieces: Vec::new(),
            held: Vec::new(),
            failure: None,
        }
    }

    pub(super) fn push(&mut self, record: [u8; N]) {
        self.held.push(record);
        if self.held.len() * N >= PIECE_BYTES
            && let Err(error) = self.put()
        {
            self.failure = self.failure.take().or(Some(error));
        }
    }

    fn put(&mut self) -> io::Result<()> {
        self.held.sort_unstable();
        let begin = self.pieces.last().map_or(0, |last| last.end);
        let mut end = begin;
        for record in self.held.drain(..) {
            end = self.out.append(&record)? + N as u64;
        }
        self.pieces.push(begin..end);
        Ok(())
    }

    /// All records, to be read in their order.
    pub(super) fn finish(mut self) -> io::Result<Sorted<N>> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        self.put()?;
        let (shelf, _) = self.out.finish()?;
        Ok(Sorted {
            shelf,
            pieces: self.pieces,
        })
    }
}

/// Records of a [`Sorter`].
pub(super) struct Sorted<const N: usize> {
    shelf: Box<dyn Shelf>,
    pieces: Vec<Range<u64>>,
}

impl<const N: usize> Sorted<N> {
    pub(super) fn read(&self) -> io::Result<Merged<'_, N>> {
        let pieces = self.pieces.iter();
        let pieces = pieces.map(|piece| Forward::new(&*self.shelf, piece.clone()));
        let mut merged = Merged {
            pieces: pieces.collect(),
            heads: BinaryHeap::new(),
        };
        (0..merged.pieces.len()).try_for_each(|piece| merged.take(piece))?;
        Ok(merged)
    }
}

/// Records in their order.
pub(super) struct Merged<'a, const N: usize> {
    pieces: Vec<Forward<'a>>,
    heads: BinaryHeap<Reverse<([u8; N], usize)>>,
}

impl<const N: usize> Merged<'_, N> {
    fn take(&mut self, piece: usize) -> io::Result<()> {
        let of = &mut self.pieces[piece];
        if let Some(record) = of.peek(N)?.first_chunk::<N>() {
            self.heads.push(Reverse((*record, piece)));
            of.skip(N as u64);
        }
        Ok(())
    }

    /// The next one, if it is wanted.
    pub(super) fn next_if(
        &mut self,
        is_wanted: impl FnOnce(&[u8; N]) -> bool,
    ) -> io::Result<Option<[u8; N]>> {
        let next = self
            .heads
            .peek()
            .filter(|Reverse((record, _))| is_wanted(record));
        let Some(&Reverse((record, piece))) = next else {
            return Ok(None);
        };
        self.heads.pop();
        self.take(piece)?;
        Ok(Some(record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_many_pieces_come_in_their_order() {
        let mut sorter = Sorter::<16>::new(Box::new(Vec::new()));
        let count = 3 * PIECE_BYTES as u64 / 16 + 7;
        for number in 0..count {
            // A permutation: the factor is odd, and the last ones of 2^64 are cut off.
            let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut record = [0; 16];
            record[..8].copy_from_slice(&key.to_be_bytes());
            sorter.push(record);
        }
        let sorted = sorter.finish().expect("memory");
        assert_eq!(sorted.pieces.len(), 4);
        let mut read = sorted.read().expect("memory");
        let (mut seen, mut before) = (0, None);
        while let Some(record) = read.next_if(|_| true).expect("memory") {
            assert!(before < Some(record));
            (seen, before) = (seen + 1, Some(record));
        }
        assert_eq!(seen, count);
    }
}
