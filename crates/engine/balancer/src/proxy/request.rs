//! What a client sent before there was a node to take it: bytes at their places.

use lineside_account::{Budget, Lease};

/// The least memory of a request; most are shorter. A guess.
const LEN_MIN: usize = 2048;
/// Parts that may lie ahead of a hole; what makes another one is dropped and comes again.
const AHEAD_MAX: usize = 8;

/// The beginning of a stream, put together from segments in any order.
#[derive(Debug)]
pub(super) struct Request {
    bytes: Vec<u8>,
    lease: Lease,
    /// Bytes from the first one that are there without a hole.
    known: usize,
    /// Begin and end of the parts behind a hole, in their order, none touching another.
    ahead: [(usize, usize); AHEAD_MAX],
    ahead_count: usize,
    /// Where the stream ends, if its end came.
    end: Option<usize>,
}

/// The outcome of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// It has its place, or had it already.
    Whole,
    /// The budget has no room for it, or it would make too many holes.
    NoRoom,
}

impl Request {
    /// `None` if the budget is used up.
    pub(super) fn new(budget: &Budget) -> Option<Self> {
        Some(Self {
            bytes: Vec::new(),
            lease: budget.lease(0)?,
            known: 0,
            ahead: [(0, 0); AHEAD_MAX],
            ahead_count: 0,
            end: None,
        })
    }

    /// The bytes from the first one to the first hole.
    pub(super) fn known(&self) -> &[u8] {
        &self.bytes[..self.known]
    }

    /// Whether all bytes came, and then the end of the stream.
    pub(super) fn has_ended(&self) -> bool {
        self.end == Some(self.known)
    }

    /// The stream ends at an offset. The first end that is heard of holds.
    pub(super) fn end_at(&mut self, offset: usize) {
        self.end.get_or_insert(offset);
    }

    /// Takes a part at its offset; what lies beyond `limit` bytes is left out.
    pub(super) fn add(&mut self, offset: usize, part: &[u8], limit: usize) -> Taken {
        let limit = self.end.map_or(limit, |end| end.min(limit));
        let end = (offset + part.len()).min(limit);
        let begin = offset.max(self.known);
        if begin >= end {
            return Taken::Whole;
        }
        if !self.reserve(end, limit) {
            return Taken::NoRoom;
        }
        if begin > self.known && !self.enter(begin, end) {
            return Taken::NoRoom;
        }
        self.bytes[begin..end].copy_from_slice(&part[begin - offset..end - offset]);
        if begin == self.known {
            self.known = end;
            self.join();
        }
        Taken::Whole
    }

    fn reserve(&mut self, len: usize, limit: usize) -> bool {
        if len <= self.bytes.len() {
            return true;
        }
        let len = len.next_power_of_two().max(LEN_MIN).min(limit.max(len));
        if !self.lease.resize(len) {
            return false;
        }
        self.bytes.reserve_exact(len - self.bytes.len());
        self.bytes.resize(len, 0);
        true
    }

    /// A part that lies behind a hole, joined with those that it touches.
    fn enter(&mut self, mut begin: usize, mut end: usize) -> bool {
        let mut kept = [(0, 0); AHEAD_MAX];
        let mut count = 0;
        for &(from, to) in &self.ahead[..self.ahead_count] {
            if to < begin || from > end {
                kept[count] = (from, to);
                count += 1;
            } else {
                (begin, end) = (begin.min(from), end.max(to));
            }
        }
        if count == AHEAD_MAX {
            return false;
        }
        let place = kept[..count].partition_point(|&(from, _)| from < begin);
        kept[place..=count].rotate_right(1);
        kept[place] = (begin, end);
        (self.ahead, self.ahead_count) = (kept, count + 1);
        true
    }

    /// Parts that no hole precedes any more become known.
    fn join(&mut self) {
        let parts = &self.ahead[..self.ahead_count];
        let joined = parts.iter().take_while(|&&(from, to)| {
            let joins = from <= self.known;
            if joins {
                self.known = self.known.max(to);
            }
            joins
        });
        let joined = joined.count();
        self.ahead.copy_within(joined..self.ahead_count, 0);
        self.ahead_count -= joined;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Parts in any order, overlapping and again, against a map of bytes.
        #[test]
        fn parts_in_any_order_make_the_stream(
            parts in proptest::collection::vec((0_usize..300, 0_usize..80), 0..60),
            limit in 1_usize..320,
        ) {
            let stream: Vec<u8> = (0..400).map(|at| (at * 7 % 251) as u8).collect();
            let budget = Budget::new(1 << 16);
            let mut request = Request::new(&budget).expect("there is room");
            let mut there = [false; 400];
            for (offset, len) in parts {
                let taken = request.add(offset, &stream[offset..offset + len], limit);
                if taken == Taken::Whole {
                    there[offset..(offset + len).min(limit).max(offset)].fill(true);
                }
                let known = there.iter().position(|&is| !is).unwrap_or(there.len());
                prop_assert_eq!(request.known(), &stream[..known]);
            }
            drop(request);
            prop_assert_eq!(budget.used_bytes(), 0);
        }
    }

    #[test]
    fn an_end_cuts_what_lies_behind_it() {
        let budget = Budget::new(1 << 16);
        let mut request = Request::new(&budget).expect("there is room");
        request.add(2, b"cd", 100);
        request.end_at(4);
        request.add(4, b"ef", 100);
        assert!(!request.has_ended());
        request.add(0, b"ab", 100);
        assert_eq!((request.known(), request.has_ended()), (&b"abcd"[..], true));
    }

    #[test]
    fn without_memory_a_part_is_refused() {
        let budget = Budget::new(LEN_MIN);
        let mut request = Request::new(&budget).expect("there is room");
        assert_eq!(request.add(0, &[1; 100], 9000), Taken::Whole);
        assert_eq!(request.add(LEN_MIN, &[1; 100], 9000), Taken::NoRoom);
        assert_eq!(request.known().len(), 100);
    }
}
