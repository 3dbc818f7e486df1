//! Frames that wait for their instants.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

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
    to_spill: ToSpill,
}

/// The frames that [`DelayQueue::next_to_spill`] has not given: found without looking at others.
#[derive(Debug, Default)]
struct ToSpill {
    /// Frames that have left the ring: the number of its first one.
    left: u64,
    /// Those of the ring, by their numbers: one range more for each time that some of them were
    /// given and others came.
    ring: VecDeque<Range<u64>>,
    /// Those that lie aside, by their slots.
    aside: Vec<u32>,
    /// For each slot where it stands among them, if it does.
    aside_at: Vec<Option<u32>>,
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
    /// It lies in memory of its own from the beginning.
    pub(crate) is_spilled: bool,
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
            to_spill: ToSpill::default(),
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
            is_spilled: frame.is_spilled,
            item: frame.item,
        };
        if self.ring.back().is_none_or(|last| last.due_ns <= due_ns) {
            self.to_spill.push_ring(self.ring.len() as u64);
            self.ring.push_back(waiting);
        } else {
            self.push_aside(waiting);
        }
    }

    fn push_aside(&mut self, waiting: Waiting<T>) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.to_spill.aside_at.push(None);
            self.slots.len() as u32 - 1
        });
        self.heap.push(Reverse(Key {
            due_ns: waiting.due_ns,
            arrival: waiting.arrival,
            slot,
        }));
        self.slots[slot as usize] = Some(waiting);
        self.to_spill.push_aside(slot);
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
            let waiting = self.ring.pop_front()?;
            self.to_spill.pop_ring();
            return Some(waiting);
        };
        self.heap.pop();
        self.free.push(key.slot);
        self.to_spill.remove_aside(key.slot);
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

    /// One of the frames that were not given before: each waiting one is given once. As far as
    /// order was kept it is the one that is due last.
    pub(crate) fn next_to_spill(&mut self) -> Option<&mut Waiting<T>> {
        let aside = self.to_spill.aside.last().map(|&slot| slot as usize);
        let last = self.to_spill.ring.back();
        let last = last.map(|range| (range.end - 1 - self.to_spill.left) as usize);
        let aside_ns = aside.and_then(|slot| Some(self.slots[slot].as_ref()?.due_ns));
        if aside_ns > last.map(|at| self.ring[at].due_ns) {
            self.to_spill.remove_aside(aside? as u32);
            return self.slots[aside?].as_mut();
        }
        self.to_spill.pop_ring_back();
        self.ring.get_mut(last?)
    }
}

impl ToSpill {
    /// A frame comes to the end of the ring, which has `len` others.
    #[inline]
    fn push_ring(&mut self, len: u64) {
        let number = self.left + len;
        match self.ring.back_mut() {
            Some(last) if last.end == number => last.end += 1,
            _ => self.ring.push_back(number..number + 1),
        }
    }

    /// The ring's first frame leaves.
    #[inline]
    fn pop_ring(&mut self) {
        if let Some(first) = self.ring.front_mut()
            && first.start == self.left
        {
            first.start += 1;
            if first.is_empty() {
                self.ring.pop_front();
            }
        }
        self.left += 1;
    }

    /// The last of the ring's was given.
    fn pop_ring_back(&mut self) {
        if let Some(last) = self.ring.back_mut() {
            last.end -= 1;
            if last.is_empty() {
                self.ring.pop_back();
            }
        }
    }

    fn push_aside(&mut self, slot: u32) {
        self.aside_at[slot as usize] = Some(self.aside.len() as u32);
        self.aside.push(slot);
    }

    /// The frame in this slot left, or was given.
    fn remove_aside(&mut self, slot: u32) {
        let Some(at) = self.aside_at[slot as usize].take() else {
            return;
        };
        self.aside.swap_remove(at as usize);
        if let Some(&moved) = self.aside.get(at as usize) {
            self.aside_at[moved as usize] = Some(at);
        }
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
                    is_spilled: false,
                    item: number,
                });
                model.push((due_ns, number));
            }
            assert_eq!(queue.len(), model.len());
        }
        assert!(queue.slots.len() < 5000, "slots are used again");
    }

    #[test]
    fn each_waiting_frame_is_spilled_once_and_the_last_due_first() {
        let mut random = Random::new(6);
        for jitter in [0, 300] {
            let mut queue = DelayQueue::new();
            // Numbers of frames that wait and were not given, in the order in which they came.
            let mut model: Vec<u32> = Vec::new();
            let (mut given, mut number, mut most_ranges) = (0, 0, 0);
            for step in 0..40_000_i64 {
                match random.below(10) {
                    0..5 => {
                        let due_ns = step + random.below(jitter + 1) as i64;
                        queue.push(Arrival {
                            due_ns,
                            entered_ns: 0,
                            delay_ns: 0,
                            len_bytes: 60,
                            class: 0,
                            changes: 0,
                            is_spilled: false,
                            item: number,
                        });
                        model.push(number);
                        number += 1;
                    }
                    5..9 => {
                        let left = queue.pop().map(|waiting| waiting.item);
                        model.retain(|number| Some(*number) != left);
                    }
                    _ => {
                        let next = queue.next_to_spill().map(|waiting| waiting.item);
                        assert_eq!(next.is_none(), model.is_empty());
                        if jitter == 0 {
                            assert_eq!(next, model.last().copied());
                        }
                        model.retain(|number| Some(*number) != next);
                        given += u64::from(next.is_some());
                    }
                }
                most_ranges = most_ranges.max(queue.to_spill.ring.len());
            }
            assert!(given > 1_000, "{given}");
            assert!(most_ranges > 1);
            while let Some(waiting) = queue.next_to_spill() {
                let item = waiting.item;
                assert!(model.contains(&item), "given before: {item}");
                model.retain(|number| *number != item);
            }
            assert!(model.is_empty(), "not given: {model:?}");
        }
    }
}
