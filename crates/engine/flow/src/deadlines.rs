//! When connections are over unless a packet comes, the earliest first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Deadlines that may be in the heap beside two for each connection.
const SLACK: usize = 64;

/// At most one deadline of a connection counts, which it knows. Others are left where they are and
/// dropped when their turn comes.
#[derive(Default)]
pub(crate) struct Deadlines {
    heap: BinaryHeap<Reverse<Deadline>>,
}

/// When, and the slot of the connection.
pub(crate) type Deadline = (i64, usize);

impl Deadlines {
    /// Whether there is a deadline until `now`.
    #[inline]
    pub(crate) fn has_passed(&self, now: i64) -> bool {
        matches!(self.heap.peek(), Some(&Reverse((first_ns, _))) if first_ns <= now)
    }

    /// The first deadline.
    pub(crate) fn first(&self) -> Option<Deadline> {
        self.heap.peek().map(|first| first.0)
    }

    /// Takes the first deadline, if it is not after `now`.
    pub(crate) fn pop(&mut self, now: i64) -> Option<Deadline> {
        self.has_passed(now)
            .then(|| self.heap.pop())?
            .map(|first| first.0)
    }

    /// Adds the deadline of one of `connections` connections; `counts` says which of the others
    /// still do.
    pub(crate) fn push(
        &mut self,
        deadline: Deadline,
        connections: usize,
        counts: impl Fn(Deadline) -> bool,
    ) {
        self.heap.push(Reverse(deadline));
        if self.heap.len() > 2 * connections + SLACK {
            self.heap.retain(|&Reverse(deadline)| counts(deadline));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_not_before_its_time() {
        let mut deadlines = Deadlines::default();
        for deadline in [(30, 0), (10, 1), (20, 2)] {
            deadlines.push(deadline, 3, |_| true);
        }
        assert_eq!(deadlines.pop(9), None);
        assert!(!deadlines.has_passed(9) && deadlines.has_passed(10));
        let popped = [20, 20, 20, 30].map(|now| deadlines.pop(now));
        assert_eq!(popped, [Some((10, 1)), Some((20, 2)), None, Some((30, 0))]);
    }

    #[test]
    fn deadlines_that_count_no_more_are_dropped() {
        let mut deadlines = Deadlines::default();
        for at_ns in 0..100_000 {
            deadlines.push((at_ns, 0), 1, |deadline| deadline == (at_ns, 0));
            assert!(deadlines.heap.len() <= 2 + SLACK);
        }
        let last = std::iter::from_fn(|| deadlines.pop(i64::MAX)).last();
        assert_eq!(last, Some((99_999, 0)));
    }
}
