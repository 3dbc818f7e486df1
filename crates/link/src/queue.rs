//! Frames that wait for their instants.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use lineside_time::Nanoseconds;

/// What a frame that waits takes besides itself and its bytes: its entry, and its key if it lies
/// aside.
pub(crate) const WAITING_BYTES: usize =
    size_of::<Waiting<()>>() + size_of::<Key>() + size_of::<u32>();

/// A queue by due instants, in which those of one instant leave as they came.
///
/// What comes with an instant no earlier than all in the ring goes to its end: as long as order is
/// kept nothing else happens. The others go to the heap, which holds keys only.
#[derive(Debug)]
pub(crate) struct DelayQueue<T> {
    ring: VecDeque<Waiting<T>>,
    heap: BinaryHeap<Reverse<Key>>,
    slots: Vec<Option<Waiting<T>>>,
    free: Vec<u32>,
    arrivals: u64,
}

/// A frame that waits.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    pub(crate) due_ns: Nanoseconds,
    pub(crate) entered_ns: Nanoseconds,
    /// What was drawn, before order was kept.
    pub(crate) delay_ns: Nanoseconds,
    arrival: u64,
    pub(crate) len_bytes: u32,
    pub(crate) class: u8,
    pub(crate) changes: u16,
    pub(crate) is_spilled: bool,
    pub(crate) item: T,
}

/// A frame that begins to wait.
pub(crate) struct Arrival<T> {
    pub(crate) due_ns: Nanoseconds,
    pub(crate) entered_ns: Nanoseconds,
    pub(crate) delay_ns: Nanoseconds,
    pub(crate) len_bytes: u32,
    pub(crate) class: u8,
    pub(crate) changes: u16,
    pub(crate) item: T,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    due_ns: Nanoseconds,
    arrival: u64,
    slot: u32,
}

impl<T> DelayQueue<T> {
    pub(crate) fn new() -> Self {
        Self {
            ring: VecDeque::new(),
            heap: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            arrivals: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.ring.len() + self.heap.len()
    }

    #[inline]
    pub(crate) fn push(&mut self, frame: Arrival<T>) {
        let arrival = self.arrivals;
        self.arrivals += 1;
        let due_ns = frame.due_ns;
        let waiting = Waiting {
            due_ns,
            entered_ns: frame.entered_ns,
            delay_ns: frame.delay_ns,
            arrival,
            len_bytes: frame.len_bytes,
            class: frame.class,
            changes: frame.changes,
            is_spilled: false,
            item: frame.item,
        };
        if self.ring.back().is_none_or(|last| last.due_ns <= due_ns) {
            self.ring.push_back(waiting);
        } else {
            self.push_aside(waiting);
        }
    }

    fn push_aside(&mut self, waiting: Waiting<T>) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.heap.push(Reverse(Key {
            due_ns: waiting.due_ns,
            arrival: waiting.arrival,
            slot,
        }));
        self.slots[slot as usize] = Some(waiting);
    }

    /// When the next frame is due, and its bytes.
    #[inline]
    pub(crate) fn front(&self) -> Option<(Nanoseconds, u32)> {
        let waiting = match self.aside_is_next() {
            None => self.ring.front(),
            Some(key) => self.slots[key.slot as usize].as_ref(),
        };
        waiting.map(|waiting| (waiting.due_ns, waiting.len_bytes))
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Waiting<T>> {
        let Some(key) = self.aside_is_next() else {
            return self.ring.pop_front();
        };
        self.heap.pop();
        self.free.push(key.slot);
        self.slots[key.slot as usize].take()
    }

    /// The heap's first, if it comes before the ring's.
    #[inline]
    fn aside_is_next(&self) -> Option<Key> {
        let Reverse(key) = *self.heap.peek()?;
        let first = self.ring.front();
        first
            .is_none_or(|first| (key.due_ns, key.arrival) < (first.due_ns, first.arrival))
            .then_some(key)
    }

    /// All that waits, youngest first as far as order was kept.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Waiting<T>> {
        let aside = self.slots.iter_mut().flatten();
        aside.chain(self.ring.iter_mut().rev())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_time::Random;

    #[test]
    fn frames_leave_by_instants_and_then_as_they_came() {
        let mut random = Random::new(5);
        let mut queue = DelayQueue::new();
        let mut model: Vec<(i64, u32)> = Vec::new();
        for number in 0..20_000_u32 {
            // Now and then emptied, so that slots are used again.
            if random.chance(0.45) || (number % 5000 > 4000 && !model.is_empty()) {
                model.sort();
                let expected = (!model.is_empty()).then(|| model.remove(0));
                assert_eq!(
                    queue.front().map(|(due, _)| due),
                    expected.map(|(due, _)| due)
                );
                let found = queue.pop().map(|waiting| (waiting.due_ns, waiting.item));
                assert_eq!(found, expected);
            } else {
                let due_ns = random.below(300) as i64 - 150;
                queue.push(Arrival {
                    due_ns,
                    entered_ns: 0,
                    delay_ns: 0,
                    len_bytes: 60,
                    class: 0,
                    changes: 0,
                    item: number,
                });
                model.push((due_ns, number));
            }
            assert_eq!(queue.len(), model.len());
        }
        assert!(queue.slots.len() < 5000, "slots are used again");
        assert_eq!(queue.iter_mut().count(), model.len());
    }
}
