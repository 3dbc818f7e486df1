//! A pool for heads and trailer sections that came in several pieces.

use crate::scan::Scan;

/// Where the parsers of many connections keep heads that are not complete yet.
///
/// Most heads come in one piece and never see it. A parser that holds one gives it back at the end
/// of the head, at an error and in [`Parser::finish`](crate::Parser::finish); a caller who drops a
/// connection without that calls [`Parser::release`](crate::Parser::release).
#[derive(Debug)]
pub struct Heads {
    held: Vec<Held>,
    free: Vec<u32>,
    count_max: usize,
}

/// A head of which some bytes have come.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) bytes: Vec<u8>,
    pub(crate) scan: Scan,
}

/// Memory that a place keeps for the next head. A guess: requests of browsers are of this size.
const KEPT_BYTES: usize = 4096;

impl Heads {
    /// Room for `count_max` heads of at most [`HEAD_MAX`](crate::HEAD_MAX) bytes at once. What does
    /// not fit fails with [`ErrorKind::NoRoom`](crate::ErrorKind::NoRoom).
    pub fn new(count_max: usize) -> Self {
        Self {
            held: Vec::new(),
            free: Vec::new(),
            count_max: count_max.min(u32::MAX as usize),
        }
    }

    /// How many heads are held now.
    pub fn held_count(&self) -> usize {
        self.held.len() - self.free.len()
    }

    /// A free place; its number is below `u32::MAX`.
    pub(crate) fn take(&mut self, scan: Scan) -> Option<u32> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.held.len() < self.count_max => {
                self.held.push(Held::default());
                self.held.len() as u32 - 1
            }
            None => return None,
        };
        self.held[slot as usize].scan = scan;
        Some(slot)
    }

    pub(crate) fn held(&mut self, slot: u32) -> &mut Held {
        &mut self.held[slot as usize]
    }

    pub(crate) fn give_back(&mut self, slot: u32) {
        let bytes = &mut self.held[slot as usize].bytes;
        bytes.clear();
        bytes.shrink_to(KEPT_BYTES);
        self.free.push(slot);
    }
}
