//! The I/O timer: what is built and waits for its instant, in buckets of 64 ns. The loop spins on
//! the earliest one.
//!
//! ```text
//!  cursor ─► [ ][ ][x x][ ] … [x]     2,048 buckets: 131 us        later: a heap
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lineside_time::Nanoseconds;

/// Bits of an instant within a bucket: 64 ns.
const BUCKET_BITS: u32 = 6;
const BUCKETS: usize = 2048;
const WORDS: usize = BUCKETS / 64;
const NONE: u32 = u32::MAX;

/// Items by the instant at which they leave. Those of one bucket leave in the order in which they
/// were given. Once it has held as many items before, it allocates nothing.
#[derive(Debug)]
pub struct Departures<T> {
    entries: Vec<Entry<T>>,
    free: u32,
    /// First and last entry of each bucket.
    buckets: Box<[(u32, u32)]>,
    /// A bit for each bucket that is not empty.
    occupied: [u64; WORDS],
    /// The bucket of the earliest instant that can be held; earlier ones go there too.
    cursor: i64,
    /// Entries in buckets.
    near: usize,
    /// Beyond the last bucket: instant, order, entry.
    far: BinaryHeap<Reverse<(Nanoseconds, u64, u32)>>,
    ordinal: u64,
}

#[derive(Debug)]
struct Entry<T> {
    due: Nanoseconds,
    next: u32,
    item: Option<T>,
}

impl<T> Default for Departures<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            free: NONE,
            buckets: vec![(NONE, NONE); BUCKETS].into(),
            occupied: [0; WORDS],
            cursor: i64::MIN >> BUCKET_BITS,
            near: 0,
            far: BinaryHeap::new(),
            ordinal: 0,
        }
    }
}

fn bucket_of(at: Nanoseconds) -> i64 {
    at >> BUCKET_BITS
}

impl<T> Departures<T> {
    /// How many items wait.
    pub fn len(&self) -> usize {
        self.near + self.far.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an item that is to leave at `due`.
    pub fn push(&mut self, due: Nanoseconds, item: T) {
        let entry = Entry {
            due,
            next: NONE,
            item: Some(item),
        };
        let place = self.free;
        let place = if place == NONE {
            self.entries.push(entry);
            self.entries.len() as u32 - 1
        } else {
            self.free = std::mem::replace(&mut self.entries[place as usize], entry).next;
            place
        };
        self.place(due, place);
    }

    /// Takes the earliest item if it is due by `until`, and when it was due.
    pub fn pop(&mut self, until: Nanoseconds) -> Option<(Nanoseconds, T)> {
        let bucket = self.earliest_bucket()?;
        let (first, last) = self.buckets[bucket];
        let entry = &mut self.entries[first as usize];
        if entry.due > until {
            return None;
        }
        let (due, item) = (entry.due, entry.item.take()?);
        let next = std::mem::replace(&mut entry.next, self.free);
        self.free = first;
        self.near -= 1;
        self.buckets[bucket] = (next, if next == NONE { NONE } else { last });
        if next == NONE {
            self.occupied[bucket / 64] &= !(1 << (bucket % 64));
        }
        Some((due, item))
    }

    /// When the next item is due.
    pub fn next_due(&mut self) -> Option<Nanoseconds> {
        let bucket = self.earliest_bucket()?;
        Some(self.entries[self.buckets[bucket].0 as usize].due)
    }

    /// The same, without moving the cursor: at most a scan of all buckets.
    pub fn earliest(&self) -> Option<Nanoseconds> {
        if self.near == 0 {
            return { self.far.peek() }.map(|&Reverse((due, ..))| due);
        }
        let start = self.cursor.rem_euclid(BUCKETS as i64) as usize;
        let bucket = self.occupied_from(start)?;
        Some(self.entries[self.buckets[bucket].0 as usize].due)
    }

    /// The first bucket from `start` on, and around, that is not empty.
    fn occupied_from(&self, start: usize) -> Option<usize> {
        let (word, bit) = (start / 64, start % 64);
        let mut bits = self.occupied[word] & (u64::MAX << bit);
        for step in 0..=WORDS {
            if bits != 0 {
                return Some((word + step) % WORDS * 64 + bits.trailing_zeros() as usize);
            }
            bits = self.occupied[(word + step + 1) % WORDS];
        }
        None
    }

    fn place(&mut self, due: Nanoseconds, place: u32) {
        if self.near == 0 && self.far.is_empty() {
            self.cursor = bucket_of(due);
        }
        let bucket = bucket_of(due).max(self.cursor);
        if bucket - self.cursor >= BUCKETS as i64 {
            self.far.push(Reverse((due, self.ordinal, place)));
            self.ordinal += 1;
            return;
        }
        let bucket = bucket.rem_euclid(BUCKETS as i64) as usize;
        let (first, last) = self.buckets[bucket];
        // Almost always an item is later than those before it.
        if first != NONE && due < self.entries[last as usize].due {
            self.insert_in_order(bucket, due, place);
        } else {
            match last {
                NONE => self.buckets[bucket] = (place, place),
                last => {
                    self.entries[last as usize].next = place;
                    self.buckets[bucket].1 = place;
                }
            }
        }
        self.occupied[bucket / 64] |= 1 << (bucket % 64);
        self.near += 1;
    }

    /// The bucket's last item is later: finds the place before the first one that is.
    #[cold]
    fn insert_in_order(&mut self, bucket: usize, due: Nanoseconds, place: u32) {
        let (mut before, mut at) = (NONE, self.buckets[bucket].0);
        while self.entries[at as usize].due <= due {
            (before, at) = (at, self.entries[at as usize].next);
        }
        self.entries[place as usize].next = at;
        match before {
            NONE => self.buckets[bucket].0 = place,
            before => self.entries[before as usize].next = place,
        }
    }

    /// The first bucket that is not empty, after moving the cursor there.
    fn earliest_bucket(&mut self) -> Option<usize> {
        if self.near == 0 {
            self.bring_near()?;
        }
        let start = self.cursor.rem_euclid(BUCKETS as i64) as usize;
        let found = self.occupied_from(start)?;
        let ahead = (found + BUCKETS - start) % BUCKETS;
        if ahead > 0 {
            self.cursor += ahead as i64;
            self.bring_near();
        }
        Some(found)
    }

    /// Moves what the buckets now reach out of the heap; `None` if nothing waits at all.
    fn bring_near(&mut self) -> Option<()> {
        if self.near == 0 {
            self.cursor = bucket_of(self.far.peek()?.0.0);
        }
        while let Some(&Reverse((due, _, place))) = self.far.peek() {
            if bucket_of(due) - self.cursor >= BUCKETS as i64 {
                break;
            }
            self.far.pop();
            self.place(due, place);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use lineside_time::Random;

    use super::*;

    /// Against a list that is sorted by instant, then by order.
    #[test]
    fn items_leave_in_the_order_of_their_instants() {
        let mut random = Random::new(5);
        for reach in [100, 5_000, 131_072, 1_000_000] {
            let (mut departures, mut model) = (Departures::default(), Vec::new());
            let mut now = -500_000;
            for number in 0..20_000u32 {
                let due = now + random.below(reach) as i64 - 200;
                departures.push(due, number);
                model.push((due, number));
                assert_eq!(departures.len(), model.len());
                if random.chance(0.4) {
                    continue;
                }
                now += random.below(300) as i64;
                let first = model.iter().map(|&(due, _)| due).min();
                assert_eq!(departures.next_due(), first);
                while let Some((due, number)) = departures.pop(now) {
                    assert_eq!(Some(due), model.iter().map(|&(due, _)| due).min());
                    let place = model.iter().position(|&each| each == (due, number));
                    model.swap_remove(place.expect("it was given"));
                }
                assert!(model.iter().all(|&(due, _)| due > now));
            }
        }
    }

    #[test]
    fn items_of_one_instant_keep_their_order() {
        let mut departures = Departures::default();
        for number in 0..100 {
            departures.push(if number < 50 { 1_000_000 } else { 7 }, number);
        }
        let order: Vec<i32> =
            std::iter::from_fn(|| departures.pop(2_000_000).map(|(_, number)| number)).collect();
        let expected: Vec<i32> = (50..100).chain(0..50).collect();
        assert_eq!(order, expected);
    }
}
