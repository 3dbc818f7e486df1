//! A timing wheel: pending instants in buckets by how far away they are. Who waits for them, and
//! by which clock, is not known here.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Nanoseconds;

/// Bits of a tick that each level resolves, the lowest first, 54 in all. The second one
/// reaches 4.3 s ahead in steps of a millisecond: a connection's timers are placed there at once.
const LEVEL_BITS: [u32; 6] = [10, 12, 8, 8, 8, 8];
const LEVELS: usize = LEVEL_BITS.len();
/// Bits below the lowest level: a tick of 1,024 ns.
const TICK_BITS: u32 = 10;
const NONE: u32 = u32::MAX;
/// Items of a chunk: four cache lines.
const CHUNK_ITEMS: usize = 16;
/// A bucket with no more items is sorted as it is, others are spread over the levels below.
const SORTED_MAX: u32 = 1024;
/// Chunks that are there from the beginning: a few timers lie now in few buckets, now in many.
const CHUNKS_MIN: usize = 128;
/// Items of timers that were moved or cancelled, beyond those that hold: then all are swept.
const STALE_MIN: usize = 4096;

/// A level: where its bits are, and its buckets.
#[derive(Debug, Clone, Copy)]
struct Level {
    shift: u32,
    mask: u32,
    /// Its first bucket.
    base: u32,
}

const LEVEL_TABLE: [Level; LEVELS] = {
    let (mut table, mut level, mut shift, mut base) = ([NO_LEVEL; LEVELS], 0, 0, 0);
    while level < LEVELS {
        let count = 1 << LEVEL_BITS[level];
        table[level] = Level {
            shift,
            mask: count - 1,
            base,
        };
        shift += LEVEL_BITS[level];
        base += count;
        level += 1;
    }
    table
};

const NO_LEVEL: Level = Level {
    shift: 0,
    mask: 0,
    base: 0,
};

/// By the highest bit in which two ticks differ.
const LEVEL_OF_BIT: [Level; 64] = {
    let (mut table, mut level, mut bit) = ([NO_LEVEL; 64], 0, 0);
    while bit < 64 {
        if level + 1 < LEVELS && bit == LEVEL_TABLE[level + 1].shift {
            level += 1;
        }
        table[bit as usize] = LEVEL_TABLE[level];
        bit += 1;
    }
    table
};

const BUCKETS: usize = {
    let last = LEVEL_TABLE[LEVELS - 1];
    (last.base + last.mask + 1) as usize
};

/// A timer of a [`Wheel`], from [`insert`](Wheel::insert) until it fires or is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId(pub u32);

/// Pending instants, each with a number of the caller's: a hierarchical timing wheel (Varghese and
/// Lauck, "Hashed and hierarchical timing wheels", SOSP 1987) that keeps exact instants and fires
/// them in their order.
///
/// ```text
///  tick of an entry, against that of the cursor
///  | level 5 | ... | level 1 | level 0 | 10 bits |      a bucket that is opened ─► sorted ─┐
///      the highest bit that differs says the           inserted before the cursor ─► heap ─┴► pop
///      level, whose bits are the bucket
/// ```
///
/// Inserting, moving and cancelling cost the same however many are pending. The earliest bucket is
/// opened when all before it are gone: its entries are sorted, and the cursor stands at its end, or
/// they are spread over the levels below if there are many. An entry a second away is placed once,
/// seldom twice. A bucket is a chain of chunks, so that its entries are read one after the other;
/// what was moved or cancelled stays there as a stale item until its bucket is opened or has no
/// other.
/// Where an entry is follows from its instant and the cursor. Memory: 16 bytes for each of the most
/// timers that were ever pending, as much again for up to twice as many items, and 200 KB.
#[derive(Debug)]
pub struct Wheel {
    entries: Vec<Entry>,
    /// The first of the free entries, which are a chain.
    free: u32,
    len: usize,
    buckets: Box<[Bucket]>,
    /// A bit for each bucket that is not empty, and one for each word that is not 0.
    occupied: [u64; BUCKETS / 64],
    /// Of each level.
    summary: [u64; LEVELS],
    chunks: Vec<Chunk>,
    /// Of each chunk the one that was filled before it, or the next free one.
    nexts: Vec<u32>,
    free_chunk: u32,
    /// Items in chunks, stale ones too.
    items: usize,
    /// All entries of this tick and of earlier ones are near, all others in buckets.
    cursor: u64,
    /// Items that are near: those of the bucket that was opened last, the latest first, and those
    /// that were inserted since. The earliest of either is not stale.
    sorted: Vec<Item>,
    /// Where they are while they are sorted.
    spare: Vec<Item>,
    heap: BinaryHeap<Reverse<Item>>,
    /// How many of them hold.
    near: usize,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    at: Nanoseconds,
    /// Of a free entry, the next free one.
    value: u32,
    /// Odd while it is pending.
    generation: u32,
}

/// A timer as it was when it was placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Item {
    at: Nanoseconds,
    id: u32,
    generation: u32,
}

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Chunk([Item; CHUNK_ITEMS]);

#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// The latest chunk; only that has room.
    first: u32,
    /// Items, and those of them that are not stale.
    items: u32,
    live: u32,
    /// No entry is earlier. It is the earliest instant unless that was moved or cancelled.
    earliest: Nanoseconds,
}

const EMPTY: Bucket = Bucket {
    first: NONE,
    items: 0,
    live: 0,
    earliest: Nanoseconds::MAX,
};

const NO_ITEM: Item = Item {
    at: 0,
    id: NONE,
    generation: 0,
};

impl Default for Wheel {
    fn default() -> Self {
        Self::new()
    }
}

impl Wheel {
    /// A wheel without timers.
    pub fn new() -> Self {
        Self {
            entries: Vec::new(),
            free: NONE,
            len: 0,
            buckets: vec![EMPTY; BUCKETS].into(),
            occupied: [0; BUCKETS / 64],
            summary: [0; LEVELS],
            chunks: Vec::with_capacity(CHUNKS_MIN),
            nexts: Vec::with_capacity(CHUNKS_MIN),
            free_chunk: NONE,
            items: 0,
            cursor: 0,
            sorted: Vec::with_capacity(SORTED_MAX as usize + CHUNK_ITEMS),
            spare: Vec::with_capacity(SORTED_MAX as usize),
            heap: BinaryHeap::with_capacity(SORTED_MAX as usize),
            near: 0,
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

    /// Memory that it takes.
    pub fn allocated_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
            + self.buckets.len() * size_of::<Bucket>()
            + self.chunks.capacity() * size_of::<Chunk>()
            + self.nexts.capacity() * size_of::<u32>()
            + (self.sorted.capacity() + self.spare.capacity()) * size_of::<Item>()
            + self.heap.capacity() * size_of::<Reverse<Item>>()
    }

    /// Adds a timer, which may be due already.
    #[inline]
    pub fn insert(&mut self, at: Nanoseconds, value: u32) -> TimerId {
        let id = if self.free == NONE {
            assert!(self.entries.len() < NONE as usize, "fewer than 2^32 timers");
            self.entries.push(Entry {
                at,
                value,
                generation: 1,
            });
            self.entries.len() as u32 - 1
        } else {
            let id = self.free;
            let entry = &mut self.entries[id as usize];
            self.free = entry.value;
            (entry.at, entry.value) = (at, value);
            entry.generation = entry.generation.wrapping_add(1);
            id
        };
        self.len += 1;
        self.place(self.item(id));
        TimerId(id)
    }

    /// Moves a pending timer to another instant.
    #[inline]
    pub fn set(&mut self, id: TimerId, at: Nanoseconds) {
        let entry = &mut self.entries[id.0 as usize];
        let before = entry.at;
        // Not pending meanwhile: a sweep, which places all that are, would place it a first time.
        entry.generation = entry.generation.wrapping_add(1);
        self.take_out(before);
        let entry = &mut self.entries[id.0 as usize];
        entry.at = at;
        entry.generation = entry.generation.wrapping_add(1);
        self.place(self.item(id.0));
    }

    /// Removes a pending timer.
    #[inline]
    pub fn cancel(&mut self, id: TimerId) {
        let before = self.entries[id.0 as usize].at;
        self.release(id.0);
        self.take_out(before);
    }

    /// The instant of a pending timer.
    #[inline]
    pub fn at(&self, id: TimerId) -> Nanoseconds {
        self.entries[id.0 as usize].at
    }

    /// No timer is due before this instant; `None` without timers. A timer is due exactly then,
    /// unless one that was earlier has been moved or cancelled: a call of [`pop`](Self::pop) at
    /// that instant finds out.
    #[inline]
    pub fn next_deadline(&self) -> Option<Nanoseconds> {
        if let Some((item, _)) = self.nearest() {
            return Some(item.at);
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
            if let Some((item, is_sorted)) = self.nearest() {
                if item.at > now {
                    return None;
                }
                match is_sorted {
                    true => drop(self.sorted.pop()),
                    false => drop(self.heap.pop()),
                }
                self.near -= 1;
                let value = self.entries[item.id as usize].value;
                self.release(item.id);
                self.drop_stale();
                return Some((item.at, value));
            }
            let first = self.first_bucket();
            let first = first.map(|bucket| (bucket, self.start_of(bucket)));
            let Some((bucket, start)) = first.filter(|&(_, start)| start <= now_tick) else {
                // No entry lies between, so that all stay where they are.
                self.cursor = self.cursor.max(now_tick);
                return None;
            };
            self.open(bucket, start);
        }
    }

    /// The number of the timer that fires after this many others, as far as that is known: another
    /// one may come between, and one that was cancelled may have any number.
    #[inline]
    pub fn upcoming(&self, after: usize) -> Option<u32> {
        let at = self.sorted.len().checked_sub(after + 1)?;
        let item = self.sorted.get(at)?;
        Some(self.entries[item.id as usize].value)
    }

    /// The earliest item that is near, and whether it is the last sorted one.
    #[inline]
    fn nearest(&self) -> Option<(Item, bool)> {
        match (self.sorted.last(), self.heap.peek()) {
            (Some(&one), Some(&Reverse(other))) if other.at < one.at => Some((other, false)),
            (Some(&one), _) => Some((one, true)),
            (None, Some(&Reverse(other))) => Some((other, false)),
            (None, None) => None,
        }
    }

    #[inline]
    fn item(&self, id: u32) -> Item {
        let Entry { at, generation, .. } = self.entries[id as usize];
        Item { at, id, generation }
    }

    #[inline]
    fn is_live(entries: &[Entry], item: Item) -> bool {
        entries[item.id as usize].generation == item.generation
    }

    /// Sorts the entries of the earliest bucket, while none is near; or spreads them over the
    /// levels below if there are many.
    #[inline(never)]
    fn open(&mut self, bucket: usize, start: u64) {
        let Bucket {
            first, items, live, ..
        } = self.buckets[bucket];
        let Level { shift, .. } = level_of(bucket).1;
        let is_sorted = shift == 0 || live <= SORTED_MAX;
        self.forget(bucket);
        self.cursor = if is_sorted {
            start | ((1 << shift) - 1)
        } else {
            start
        };
        self.items -= items as usize;
        let (mut place, mut len) = (first, (items as usize - 1) % CHUNK_ITEMS + 1);
        while place != NONE {
            self.take_live(place, len);
            len = CHUNK_ITEMS;
            place = self.free(place);
            while !is_sorted && let Some(item) = self.sorted.pop() {
                self.place(item);
            }
        }
        self.near += self.sorted.len();
        let bits = shift + TICK_BITS;
        sort(&mut self.sorted, &mut self.spare, Span { start, bits });
    }

    /// Adds the first items of a chunk to those to be sorted, but for stale ones. All entries are
    /// looked at, also where none is stale: they are far apart, and are needed soon. None waits for
    /// another one, as no branch depends on what is not there yet.
    #[inline]
    fn take_live(&mut self, chunk: u32, len: usize) {
        let mut end = self.sorted.len();
        self.sorted.resize(end + CHUNK_ITEMS, NO_ITEM);
        for &item in &self.chunks[chunk as usize].0[..len] {
            self.sorted[end] = item;
            end += usize::from(Self::is_live(&self.entries, item));
        }
        self.sorted.truncate(end);
    }

    /// Puts an item where its instant says.
    #[inline]
    fn place(&mut self, item: Item) {
        let Some(place) = self.place_of(item.at) else {
            self.near += 1;
            self.heap.push(Reverse(item));
            return;
        };
        let bucket = &mut self.buckets[place];
        let at = bucket.items as usize % CHUNK_ITEMS;
        bucket.items += 1;
        bucket.live += 1;
        bucket.earliest = bucket.earliest.min(item.at);
        self.items += 1;
        if at > 0 {
            self.chunks[bucket.first as usize].0[at] = item;
            return;
        }
        let before = bucket.first;
        if before == NONE {
            let (level, Level { base, .. }) = level_of(place);
            self.occupied[place / 64] |= 1 << (place % 64);
            self.summary[level] |= 1 << ((place - base as usize) / 64);
        }
        self.buckets[place].first = self.new_chunk(item, before);
    }

    /// The bucket of an instant; `None`: it is near.
    #[inline]
    fn place_of(&self, at: Nanoseconds) -> Option<usize> {
        let tick = tick(at);
        if tick <= self.cursor {
            return None;
        }
        let bit = 63 - (tick ^ self.cursor).leading_zeros();
        let Level { shift, mask, base } = LEVEL_OF_BIT[bit as usize];
        Some((base + ((tick >> shift) as u32 & mask)) as usize)
    }

    /// A chunk with one item, in front of another one.
    fn new_chunk(&mut self, item: Item, next: u32) -> u32 {
        let place = self.free_chunk;
        if place == NONE {
            let mut items = [NO_ITEM; CHUNK_ITEMS];
            items[0] = item;
            self.chunks.push(Chunk(items));
            self.nexts.push(next);
            return self.chunks.len() as u32 - 1;
        }
        self.free_chunk = std::mem::replace(&mut self.nexts[place as usize], next);
        self.chunks[place as usize].0[0] = item;
        place
    }

    /// Lets a chunk go; returns the one behind it.
    #[inline]
    fn free(&mut self, chunk: u32) -> u32 {
        let next = std::mem::replace(&mut self.nexts[chunk as usize], self.free_chunk);
        self.free_chunk = chunk;
        next
    }

    /// The item of a timer that was at this instant has become stale.
    #[inline]
    fn take_out(&mut self, at: Nanoseconds) {
        let Some(place) = self.place_of(at) else {
            self.near -= 1;
            self.drop_stale();
            return;
        };
        let bucket = &mut self.buckets[place];
        bucket.live -= 1;
        if bucket.live == 0 {
            self.free_chunks(place);
        } else if self.items > 2 * self.len + STALE_MIN {
            self.sweep();
        }
    }

    /// Lets the chunks of a bucket go that has only stale items.
    fn free_chunks(&mut self, bucket: usize) {
        let Bucket { first, items, .. } = self.buckets[bucket];
        self.forget(bucket);
        self.items -= items as usize;
        let mut place = first;
        while place != NONE {
            place = self.free(place);
        }
    }

    /// Drops all stale items: places each timer anew that is in a bucket.
    #[cold]
    fn sweep(&mut self) {
        for bucket in 0..self.buckets.len() {
            self.free_chunks(bucket);
        }
        for id in 0..self.entries.len() as u32 {
            let item = self.item(id);
            if item.generation & 1 != 0 && tick(item.at) > self.cursor {
                self.place(item);
            }
        }
    }

    /// A bucket is empty; its chunks are the caller's.
    fn forget(&mut self, place: usize) {
        let (level, Level { base, .. }) = level_of(place);
        self.buckets[place] = EMPTY;
        self.occupied[place / 64] &= !(1 << (place % 64));
        if self.occupied[place / 64] == 0 {
            self.summary[level] &= !(1 << ((place - base as usize) / 64));
        }
    }

    #[inline]
    fn release(&mut self, id: u32) {
        let entry = &mut self.entries[id as usize];
        debug_assert_ne!(entry.generation & 1, 0, "a timer that is pending");
        entry.generation = entry.generation.wrapping_add(1);
        entry.value = self.free;
        self.free = id;
        self.len -= 1;
    }

    /// The earliest item that is near is one that holds, and most of the others are.
    #[inline]
    fn drop_stale(&mut self) {
        if self.sorted.len() + self.heap.len() > self.near {
            self.drop_those_stale();
        }
    }

    #[cold]
    fn drop_those_stale(&mut self) {
        let entries = &self.entries;
        while { self.sorted.last() }.is_some_and(|&item| !Self::is_live(entries, item)) {
            self.sorted.pop();
        }
        while { self.heap.peek() }.is_some_and(|&Reverse(item)| !Self::is_live(entries, item)) {
            self.heap.pop();
        }
        if self.sorted.len() + self.heap.len() > 2 * self.near + 64 {
            self.sorted.retain(|&item| Self::is_live(entries, item));
            self.heap
                .retain(|&Reverse(item)| Self::is_live(entries, item));
        }
    }

    /// The bucket with the earliest entries: entries of a level share all higher bits with the
    /// cursor, so that those of a higher level come later.
    #[inline]
    fn first_bucket(&self) -> Option<usize> {
        let level = self.summary.iter().position(|&summary| summary != 0)?;
        let word = LEVEL_TABLE[level].base / 64 + self.summary[level].trailing_zeros();
        let bit = self.occupied[word as usize].trailing_zeros();
        Some((word * 64 + bit) as usize)
    }

    /// The first tick of a bucket.
    #[inline]
    fn start_of(&self, bucket: usize) -> u64 {
        let (_, Level { shift, mask, base }) = level_of(bucket);
        let slot = (bucket - base as usize) as u64;
        self.cursor & !(u64::from(mask) << shift | ((1 << shift) - 1)) | slot << shift
    }
}

/// The level of a bucket.
#[inline]
fn level_of(bucket: usize) -> (usize, Level) {
    let above = LEVEL_TABLE[1..].iter();
    let level = above.filter(|level| bucket >= level.base as usize).count();
    (level, LEVEL_TABLE[level])
}

/// Sorts the items of a bucket, the latest first. `spare` is as they are afterwards.
fn sort(items: &mut [Item], spare: &mut Vec<Item>, span: Span) {
    /// So many lie in a part on average.
    const PART_ITEMS: usize = 8;
    const PARTS_MAX: usize = 256;
    if items.len() <= FEW || span.bits > SHORT_BITS {
        sort_part(items, span);
        return;
    }
    // Parts of equal time, whose ends are counted first: what is drawn is spread over them.
    let parts = (items.len() / PART_ITEMS).next_power_of_two();
    let bits = parts.min(PARTS_MAX).trailing_zeros().min(span.bits);
    let mut ends = [0_u16; PARTS_MAX];
    let last = (1 << bits) - 1;
    let part_of = |item: &Item| last - (span.since(item.at) >> (span.bits - bits)) as usize;
    for item in &*items {
        ends[part_of(item) % PARTS_MAX] += 1;
    }
    let mut end = 0;
    for each in &mut ends {
        (*each, end) = (end, end + *each);
    }
    spare.clear();
    spare.extend_from_slice(items);
    for item in &*spare {
        let end = &mut ends[part_of(item) % PARTS_MAX];
        items[usize::from(*end)] = *item;
        *end += 1;
    }
    let mut rest = items;
    let mut start = 0;
    for end in &ends[..=last] {
        let part;
        (part, rest) = rest.split_at_mut(usize::from(*end - start));
        start = *end;
        sort_part(part, span);
    }
}

/// So few are put where the number of later ones says: a branch for each two that are compared, as
/// any other way has it, would be foretold wrongly half of the time.
const FEW: usize = 20;
/// Bits of the time that a bucket spans, and of a place among few items, in which they differ.
const SHORT_BITS: u32 = 26;
const PLACE_BITS: u32 = 5;

fn sort_part(items: &mut [Item], span: Span) {
    let count = items.len();
    if count > FEW || span.bits > SHORT_BITS {
        items.sort_unstable_by_key(|item| Reverse(item.at));
        return;
    }
    // Of two at one instant the second one counts as the later one.
    let mut keys = [-1_i32; FEW];
    let mut unsorted = [NO_ITEM; FEW];
    unsorted[..count].copy_from_slice(items);
    for ((place, key), item) in (0..).zip(&mut keys).zip(&*items) {
        *key = (span.since(item.at) << PLACE_BITS) as i32 | place;
    }
    for (item, key) in unsorted.iter().zip(keys).take(count) {
        let later = keys.iter().map(|&other| i32::from(other > key));
        items[later.sum::<i32>() as usize] = *item;
    }
}

/// The time that a bucket spans: from the start of a tick on, a power of two.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: u64,
    bits: u32,
}

impl Span {
    /// How far in it an instant lies.
    #[inline]
    fn since(self, at: Nanoseconds) -> u64 {
        order(at) - (self.start << TICK_BITS)
    }
}

/// Ticks in the order of instants, also of negative ones.
#[inline]
fn tick(at: Nanoseconds) -> u64 {
    order(at) >> TICK_BITS
}

#[inline]
fn order(at: Nanoseconds) -> u64 {
    at.cast_unsigned() ^ 1 << 63
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
        assert_eq!(wheel.items, 0);
    }

    #[test]
    fn timers_that_move_leave_a_bounded_number_of_items() {
        let mut wheel = Wheel::new();
        let ids: Vec<_> = (0..1000)
            .map(|value| wheel.insert(1_000_000_000, value))
            .collect();
        for turn in 0..300 {
            for &id in &ids {
                wheel.set(id, wheel.at(id) + 7_000_003 + turn);
            }
            assert!(wheel.items <= 2 * ids.len() + STALE_MIN, "{}", wheel.items);
            assert!(wheel.chunks.len() <= 4000, "{}", wheel.chunks.len());
        }
        let mut fired = 0;
        while let Some(at) = wheel.next_deadline() {
            fired += usize::from(wheel.pop(at).is_some());
        }
        assert_eq!((fired, wheel.items), (1000, 0));
    }

    #[test]
    fn a_timer_whose_move_sweeps_the_wheel_fires_once() {
        let mut random = crate::Random::new(1);
        for _ in 0..20 {
            let mut wheel = Wheel::new();
            let ids: Vec<_> = (0..50).map(|value| wheel.insert(1_000, value)).collect();
            loop {
                let (id, before) = (ids[random.below(50) as usize], wheel.items);
                wheel.set(id, 1_000_000 + random.below(1 << 40).cast_signed());
                if wheel.items + 1_000 < before {
                    break;
                }
            }
            let mut fired = BTreeSet::new();
            while let Some(at) = wheel.next_deadline() {
                if let Some((_, value)) = wheel.pop(at) {
                    assert!(fired.insert(value), "{value} fired before");
                }
            }
            assert_eq!((fired.len(), wheel.len(), wheel.items), (50, 0, 0));
        }
    }
}
