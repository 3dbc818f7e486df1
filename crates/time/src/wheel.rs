use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Nanoseconds;

/// Bits of an instant that one level tells apart: 1,024 buckets a level.
const LEVEL_BITS: u32 = 10;
const BUCKETS: usize = 1 << LEVEL_BITS;
/// Bits below the lowest level: a tick of 1,024 ns. Entries of one tick are ordered by a heap, which
/// stays small at any load that a core bears.
const TICK_BITS: u32 = 10;
/// Levels until all 64 bits are told apart.
const LEVELS: usize = 6;
const NONE: u32 = u32::MAX;

/// Where an entry is: in bucket `level * BUCKETS + slot`, or in one of these.
const DUE: u16 = u16::MAX;
const FREE: u16 = u16::MAX - 1;

/// A timer of a [`Wheel`], from [`insert`](Wheel::insert) until it fires or is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId(pub u32);

/// Pending instants, each with a number of the caller's: a hierarchical timing wheel (Varghese and
/// Lauck, "Hashed and hierarchical timing wheels", SOSP 1987) that keeps exact instants and fires
/// them in their order.
///
/// ```text
///  tick of an entry, against that of the cursor        cursor's tick and earlier ─► heap ─► pop
///  | level 5 | ... | level 1 | level 0 | 10 bits |
///      10 bits each: the highest that differs is the level, its value is the bucket
/// ```
///
/// Inserting, moving and cancelling cost the same however many are pending. Moving the cursor into
/// a bucket spreads its entries over the levels below: twice for an entry a second away. Memory is
/// that of the most timers that were ever pending, 24 bytes each, and 100 KB.
#[derive(Debug)]
pub struct Wheel {
    entries: Vec<Entry>,
    /// The first of the free entries, which are a chain.
    free: u32,
    len: usize,
    buckets: Box<[Bucket]>,
    /// A bit for each bucket that is not empty, and one for each word that is not 0.
    occupied: [[u64; BUCKETS / 64]; LEVELS],
    summary: [u16; LEVELS],
    /// All entries of this tick and of earlier ones are in the heap, all others in buckets.
    cursor: u64,
    /// Instants that are near, some of which may have been cancelled or moved since.
    heap: BinaryHeap<Reverse<(Nanoseconds, u32)>>,
    /// How many of them hold.
    due: usize,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    at: Nanoseconds,
    value: u32,
    /// Neighbours in the bucket; of a free one, the next free one.
    next: u32,
    previous: u32,
    place: u16,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    first: u32,
    /// No entry is earlier. It is the earliest instant unless that was taken out.
    earliest: Nanoseconds,
}

const EMPTY: Bucket = Bucket {
    first: NONE,
    earliest: Nanoseconds::MAX,
};

impl Default for Wheel {
    fn default() -> Self {
        Self::new()
    }
}

impl Wheel {
    /// Bytes of a pending timer.
    pub const ENTRY_BYTES: usize = size_of::<Entry>();

    /// A wheel without timers.
    pub fn new() -> Self {
        Self {
            entries: Vec::new(),
            free: NONE,
            len: 0,
            buckets: vec![EMPTY; LEVELS * BUCKETS].into(),
            occupied: [[0; BUCKETS / 64]; LEVELS],
            summary: [0; LEVELS],
            cursor: 0,
            heap: BinaryHeap::new(),
            due: 0,
        }
    }

    /// How many timers are pending.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none is pending.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a timer, which may be due already.
    #[inline]
    pub fn insert(&mut self, at: Nanoseconds, value: u32) -> TimerId {
        let entry = Entry {
            at,
            value,
            next: NONE,
            previous: NONE,
            place: FREE,
        };
        let id = self.free;
        if id == NONE {
            assert!(self.entries.len() < NONE as usize, "fewer than 2^32 timers");
            self.entries.push(entry);
            self.free = NONE;
        } else {
            self.free = self.entries[id as usize].next;
            self.entries[id as usize] = entry;
        }
        let id = if id == NONE {
            self.entries.len() as u32 - 1
        } else {
            id
        };
        self.len += 1;
        self.place(id);
        TimerId(id)
    }

    /// Moves a pending timer to another instant.
    #[inline]
    pub fn set(&mut self, id: TimerId, at: Nanoseconds) {
        self.take_out(id.0);
        self.entries[id.0 as usize].at = at;
        self.place(id.0);
    }

    /// Removes a pending timer.
    #[inline]
    pub fn cancel(&mut self, id: TimerId) {
        self.take_out(id.0);
        self.release(id.0);
    }

    /// The instant of a pending timer.
    pub fn at(&self, id: TimerId) -> Nanoseconds {
        self.entries[id.0 as usize].at
    }

    /// No timer is due before this instant; `None` without timers. A timer is due exactly then,
    /// unless one that was earlier has been moved or cancelled: a call of [`pop`](Self::pop) at that
    /// instant finds out.
    pub fn next_deadline(&self) -> Option<Nanoseconds> {
        if let Some(&Reverse((at, _))) = self.heap.peek() {
            return Some(at);
        }
        let bucket = self.first_bucket()?;
        Some(self.buckets[bucket].earliest)
    }

    /// Takes the earliest timer that is due at `now`: its instant and its number. Of two of one
    /// instant either may come first, always the same one after the same calls.
    #[inline]
    pub fn pop(&mut self, now: Nanoseconds) -> Option<(Nanoseconds, u32)> {
        let now_tick = tick(now);
        loop {
            if let Some(&Reverse((at, id))) = self.heap.peek() {
                if at > now {
                    return None;
                }
                self.heap.pop();
                self.due -= 1;
                let value = self.entries[id as usize].value;
                self.release(id);
                self.drop_stale();
                return Some((at, value));
            }
            let first = self.first_bucket();
            let Some((bucket, start)) = first.map(|bucket| (bucket, self.start_of(bucket))) else {
                self.cursor = self.cursor.max(now_tick);
                return None;
            };
            if start > now_tick {
                // No entry lies between, so that all stay where they are.
                self.cursor = self.cursor.max(now_tick);
                return None;
            }
            self.open(bucket, start);
        }
    }

    /// Spreads the entries of a bucket over the heap and the levels below it.
    fn open(&mut self, bucket: usize, start: u64) {
        self.cursor = start;
        let mut id = self.buckets[bucket].first;
        self.clear(bucket);
        while id != NONE {
            let next = self.entries[id as usize].next;
            self.place(id);
            id = next;
        }
    }

    /// Puts an entry that is in no bucket where its instant says.
    #[inline]
    fn place(&mut self, id: u32) {
        let at = self.entries[id as usize].at;
        let tick = tick(at);
        if tick <= self.cursor {
            self.entries[id as usize].place = DUE;
            self.due += 1;
            self.heap.push(Reverse((at, id)));
            return;
        }
        let level = (63 - (tick ^ self.cursor).leading_zeros()) / LEVEL_BITS;
        let slot = (tick >> (level * LEVEL_BITS)) as usize & (BUCKETS - 1);
        let level = level as usize;
        let place = level * BUCKETS + slot;
        let bucket = &mut self.buckets[place];
        let next = bucket.first;
        bucket.first = id;
        bucket.earliest = bucket.earliest.min(at);
        if next == NONE {
            self.occupied[level][slot / 64] |= 1 << (slot % 64);
            self.summary[level] |= 1 << (slot / 64);
        } else {
            self.entries[next as usize].previous = id;
        }
        let entry = &mut self.entries[id as usize];
        (entry.next, entry.previous) = (next, NONE);
        entry.place = place as u16;
    }

    /// Takes an entry out of its bucket, or makes what the heap has of it stale.
    #[inline]
    fn take_out(&mut self, id: u32) {
        let entry = self.entries[id as usize];
        debug_assert_ne!(entry.place, FREE, "a timer that is pending");
        if entry.place == DUE {
            self.entries[id as usize].place = FREE;
            self.due -= 1;
            self.drop_stale();
            return;
        }
        if entry.next != NONE {
            self.entries[entry.next as usize].previous = entry.previous;
        }
        if entry.previous != NONE {
            self.entries[entry.previous as usize].next = entry.next;
        } else {
            let place = usize::from(entry.place);
            self.buckets[place].first = entry.next;
            if entry.next == NONE {
                self.clear(place);
            }
        }
    }

    fn clear(&mut self, place: usize) {
        let (level, slot) = (place / BUCKETS, place % BUCKETS);
        self.buckets[place] = EMPTY;
        self.occupied[level][slot / 64] &= !(1 << (slot % 64));
        if self.occupied[level][slot / 64] == 0 {
            self.summary[level] &= !(1 << (slot / 64));
        }
    }

    fn release(&mut self, id: u32) {
        let entry = &mut self.entries[id as usize];
        entry.place = FREE;
        entry.next = self.free;
        self.free = id;
        self.len -= 1;
    }

    /// Whether an entry of the heap still stands for its timer. If the timer came back to the same
    /// instant there are two: both are right, and the one that is left over is not after the first
    /// has fired.
    fn is_live(entries: &[Entry], at: Nanoseconds, id: u32) -> bool {
        let entry = &entries[id as usize];
        entry.place == DUE && entry.at == at
    }

    /// The first of the heap is one that holds, and most of the others are.
    #[inline]
    fn drop_stale(&mut self) {
        if self.heap.len() == self.due {
            return;
        }
        while let Some(&Reverse((at, id))) = self.heap.peek()
            && !Self::is_live(&self.entries, at, id)
        {
            self.heap.pop();
        }
        if self.heap.len() > 2 * self.due + 64 {
            self.rebuild_heap();
        }
    }

    #[cold]
    fn rebuild_heap(&mut self) {
        let mut items = std::mem::take(&mut self.heap).into_vec();
        items.retain(|&Reverse((at, id))| Self::is_live(&self.entries, at, id));
        items.sort_unstable();
        items.dedup();
        self.heap = items.into();
    }

    /// The bucket with the earliest entries: entries of a level share all higher bits with the
    /// cursor, so that those of a higher level come later.
    #[inline]
    fn first_bucket(&self) -> Option<usize> {
        let level = self.summary.iter().position(|&summary| summary != 0)?;
        let word = self.summary[level].trailing_zeros() as usize;
        let bit = self.occupied[level][word].trailing_zeros() as usize;
        Some(level * BUCKETS + word * 64 + bit)
    }

    /// The first tick of a bucket.
    #[inline]
    fn start_of(&self, bucket: usize) -> u64 {
        let (level, slot) = ((bucket / BUCKETS) as u32, (bucket % BUCKETS) as u64);
        let shift = level * LEVEL_BITS;
        let higher = self
            .cursor
            .checked_shr(shift + LEVEL_BITS)
            .and_then(|bits| bits.checked_shl(shift + LEVEL_BITS))
            .unwrap_or(0);
        higher | slot << shift
    }
}

/// Ticks in the order of instants, also of negative ones.
#[inline]
fn tick(at: Nanoseconds) -> u64 {
    (at.cast_unsigned() ^ 1 << 63) >> TICK_BITS
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Operation {
        Insert(i64),
        Set(usize, i64),
        Cancel(usize),
        Pop(i64),
    }

    /// Distances of all sizes, also back in time.
    fn distance() -> impl Strategy<Value = i64> {
        prop_oneof![
            -5000_i64..5000,
            0_i64..3_000_000,
            0_i64..5_000_000_000,
            0_i64..i64::MAX / 4,
        ]
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            3 => distance().prop_map(Operation::Insert),
            2 => (any::<usize>(), distance()).prop_map(|(which, by)| Operation::Set(which, by)),
            1 => any::<usize>().prop_map(Operation::Cancel),
            2 => prop_oneof![0_i64..2000, 0_i64..2_000_000, 0_i64..9_000_000_000]
                .prop_map(Operation::Pop),
        ]
    }

    proptest! {
        #[test]
        fn a_wheel_fires_what_an_ordered_set_fires(
            begin in prop_oneof![Just(i64::MIN / 2), -3000_i64..3000, Just(1_790_000_000_000_000_000)],
            operations in proptest::collection::vec(operation(), 1..300),
        ) {
            let (mut wheel, mut now) = (Wheel::new(), begin);
            let mut pending: Vec<(TimerId, u32)> = Vec::new();
            let mut model = BTreeSet::new();
            for (number, operation) in operations.into_iter().enumerate() {
                let value = number as u32;
                match operation {
                    Operation::Insert(by) => {
                        let at = now.saturating_add(by);
                        pending.push((wheel.insert(at, value), value));
                        model.insert((at, value));
                    }
                    Operation::Set(which, by) if !pending.is_empty() => {
                        let (id, value) = pending[which % pending.len()];
                        model.remove(&(wheel.at(id), value));
                        wheel.set(id, now.saturating_add(by));
                        model.insert((now.saturating_add(by), value));
                    }
                    Operation::Cancel(which) if !pending.is_empty() => {
                        let (id, value) = pending.swap_remove(which % pending.len());
                        model.remove(&(wheel.at(id), value));
                        wheel.cancel(id);
                    }
                    Operation::Pop(by) => {
                        now = now.saturating_add(by);
                        while let Some((at, value)) = wheel.pop(now) {
                            // Of one instant, any.
                            prop_assert_eq!(model.first().map(|first| first.0), Some(at));
                            prop_assert!(model.remove(&(at, value)));
                            pending.retain(|entry| entry.1 != value);
                        }
                        prop_assert!(model.first().is_none_or(|first| first.0 > now));
                    }
                    _ => {}
                }
                prop_assert_eq!(wheel.len(), model.len());
                let first = model.first().map(|first| first.0);
                prop_assert!(wheel.next_deadline().is_none() == first.is_none());
                prop_assert!(wheel.next_deadline() <= first, "no deadline is missed");
            }
            // Asked when it says, it comes to the end, firing each at its instant.
            while let Some(at) = wheel.next_deadline() {
                match wheel.pop(at) {
                    Some((fired, value)) => {
                        prop_assert!(fired <= at && model.remove(&(fired, value)));
                    }
                    None => prop_assert!(wheel.next_deadline() > Some(at), "it goes on"),
                }
            }
            prop_assert!(model.is_empty() && wheel.is_empty());
        }
    }

    #[test]
    fn the_deadline_is_exact_while_nothing_is_cancelled() {
        let mut wheel = Wheel::new();
        for at in [7_000_000_123, 5_000, 5_001, 200_000_077, 90_000_000_000_001] {
            wheel.insert(at, 0);
        }
        let mut fired = Vec::new();
        while let Some(at) = wheel.next_deadline() {
            fired.push(wheel.pop(at).expect("exactly then").0);
        }
        let expected = [5_000, 5_001, 200_000_077, 7_000_000_123, 90_000_000_000_001];
        assert_eq!(fired, expected);
    }

    #[test]
    fn timers_that_come_and_go_take_no_more_memory() {
        let mut wheel = Wheel::new();
        for now in 0..100_000_i64 {
            let near = wheel.insert(now, 1);
            let far = wheel.insert(now + 40_000_000, 2);
            wheel.set(near, now - 3);
            wheel.cancel(far);
            wheel.cancel(near);
        }
        assert!(wheel.is_empty() && wheel.entries.len() <= 2);
        assert!(wheel.heap.len() <= 64, "{}", wheel.heap.len());
    }
}
