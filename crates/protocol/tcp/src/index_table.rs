//! IndexTable by the hash of what they stand for.
//!
//! ```text
//!  a bucket, 64 bytes   │ ten tags │ passed │ ten numbers │
//!                         16 bits of a hash   of records
//! ```
//!
//! A bucket is a cache line: among a million connections a look into it and one at the record are
//! all that finding one takes. An entry whose bucket is full lies in the next one that is not, and
//! each bucket counts the entries that passed it: no other bucket is searched.

use lineside_account::{Budget, Lease};
use lineside_frame::prefetch;

const SLOTS: usize = 10;
/// The fewest buckets that there are once there is an entry.
const BUCKETS_MIN: usize = 8;
/// 512 KB of them.
const BUCKETS_CACHED: usize = 1 << 13;

/// An open-addressing table that is drawn on the budget.
#[derive(Debug)]
pub(crate) struct IndexTable {
    /// None, or a power of two.
    buckets: Vec<Bucket>,
    len: usize,
    lease: Lease,
}

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Bucket {
    /// 0: there is no entry.
    tags: [u16; SLOTS],
    /// Entries that would be here, or before, and are in a bucket behind this one.
    passed: u32,
    numbers: [u32; SLOTS],
}

const _: () = assert!(size_of::<Bucket>() == 64, "a cache line");

const EMPTY: Bucket = Bucket {
    tags: [0; SLOTS],
    passed: 0,
    numbers: [0; SLOTS],
};

impl Bucket {
    /// A bit for each slot with this tag.
    #[inline]
    fn slots(&self, tag: u16) -> u32 {
        let bits = self.tags.iter().enumerate();
        bits.fold(0, |bits, (slot, &each)| {
            bits | u32::from(each == tag) << slot
        })
    }
}

impl IndexTable {
    pub(crate) fn new(budget: &Budget) -> Option<Self> {
        Some(Self {
            buckets: Vec::new(),
            len: 0,
            lease: budget.lease(0)?,
        })
    }

    /// The entry with this hash that is the one.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let home = self.home(hash);
        let mut at = home;
        loop {
            let bucket = self.buckets.get(at)?;
            let mut slots = bucket.slots(tag(hash));
            while slots != 0 {
                let number = bucket.numbers[slots.trailing_zeros() as usize];
                if is_it(number) {
                    return Some(number);
                }
                slots &= slots - 1;
            }
            if bucket.passed == 0 {
                return None;
            }
            at = self.after(at);
            // Of few buckets, each may have been passed by some entry.
            if at == home {
                return None;
            }
        }
    }

    /// Whether a cache of the second level has no room for it.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.buckets.len() > BUCKETS_CACHED
    }

    /// Asks for the bucket in which an entry of this hash is looked for first.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        if let Some(bucket) = self.buckets.get(self.home(hash)) {
            prefetch(bucket);
        }
    }

    /// Those of that bucket that may be the one.
    #[inline]
    pub(crate) fn likely(&self, hash: u64) -> impl Iterator<Item = u32> {
        let bucket = self.buckets.get(self.home(hash));
        bucket.into_iter().flat_map(move |bucket| {
            let entries = bucket.tags.iter().zip(bucket.numbers);
            let alike = entries.filter(move |&(&each, _)| each == tag(hash));
            alike.map(|(_, number)| number)
        })
    }

    /// Makes room for one more; `hash_of` has the hash of each that is there.
    #[inline]
    pub(crate) fn reserve(&mut self, hash_of: impl Fn(u32) -> u64) -> Option<()> {
        // Fuller ones would pass many buckets: a bucket has eight entries on average then.
        if 16 * (self.len + 1) <= 13 * SLOTS * self.buckets.len() {
            return Some(());
        }
        self.grow(hash_of)
    }

    #[cold]
    fn grow(&mut self, hash_of: impl Fn(u32) -> u64) -> Option<()> {
        let count = (2 * self.buckets.len()).max(BUCKETS_MIN);
        let bytes = count * size_of::<Bucket>();
        // While entries move both are there.
        if !self.lease.resize(self.lease.bytes() + bytes) {
            return None;
        }
        let before = std::mem::replace(&mut self.buckets, vec![EMPTY; count]);
        self.len = 0;
        for bucket in &before {
            let entries = bucket.tags.iter().zip(bucket.numbers);
            for (_, number) in entries.filter(|&(&tag, _)| tag != 0) {
                self.insert(hash_of(number), number);
            }
        }
        drop(before);
        self.lease.resize(bytes);
        Some(())
    }

    /// Enters a number that is not there; there is [room](Self::reserve).
    #[inline]
    pub(crate) fn insert(&mut self, hash: u64, number: u32) {
        let mut at = self.home(hash);
        self.len += 1;
        loop {
            let bucket = &mut self.buckets[at];
            let free = bucket.slots(0);
            if free != 0 {
                let slot = free.trailing_zeros() as usize;
                (bucket.tags[slot], bucket.numbers[slot]) = (tag(hash), number);
                return;
            }
            bucket.passed += 1;
            at = self.after(at);
        }
    }

    /// Removes a number, which is there.
    #[inline]
    pub(crate) fn remove(&mut self, hash: u64, number: u32) {
        let mut at = self.home(hash);
        self.len -= 1;
        loop {
            let bucket = &mut self.buckets[at];
            let mut slots = bucket.slots(tag(hash));
            while slots != 0 {
                let slot = slots.trailing_zeros() as usize;
                if bucket.numbers[slot] == number {
                    bucket.tags[slot] = 0;
                    return;
                }
                slots &= slots - 1;
            }
            debug_assert_ne!(bucket.passed, 0, "it is there");
            bucket.passed -= 1;
            at = self.after(at);
        }
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        hash as usize & self.buckets.len().wrapping_sub(1)
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.buckets.len() - 1)
    }
}

/// What a bucket knows of a hash: none of the bits that say which bucket it is.
#[inline]
fn tag(hash: u64) -> u16 {
    (hash >> 48) as u16 | 1
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// With `spread` of 1 all hashes are of few buckets, and with few tags.
        #[test]
        fn a_table_finds_what_a_set_has(
            spread in 1_u64..400,
            operations in proptest::collection::vec((any::<bool>(), 0_u32..600), 1..2000),
        ) {
            let budget = Budget::new(1 << 20);
            let mut table = IndexTable::new(&budget).expect("nothing is drawn yet");
            let hash_of = |number: u32| {
                let number = u64::from(number) % spread;
                ((number * 0x5_0001 % 7) << 48) | (number * 3)
            };
            let mut model = BTreeSet::new();
            for (enters, number) in operations {
                if enters && model.insert(number) {
                    table.reserve(hash_of).expect("it fits");
                    table.insert(hash_of(number), number);
                } else if !enters && model.remove(&number) {
                    table.remove(hash_of(number), number);
                }
                let found = table.find(hash_of(number), |each| each == number);
                prop_assert_eq!(found, model.get(&number).copied());
                prop_assert_eq!(table.len, model.len());
            }
            for number in 0..600 {
                let found = table.find(hash_of(number), |each| each == number);
                prop_assert_eq!(found, model.get(&number).copied());
            }
            for &number in &model {
                table.remove(hash_of(number), number);
            }
            prop_assert!(table.buckets.iter().all(|bucket| bucket.passed == 0));
        }
    }

    #[test]
    fn a_number_is_not_there_though_each_bucket_was_passed() {
        let budget = Budget::new(1 << 20);
        let mut table = IndexTable::new(&budget).expect("nothing is drawn yet");
        // Each bucket in turn is home to more than it has slots for, while the one behind it is
        // full; then most of them go.
        let hash_of = |number: u32| u64::from(number / 100);
        for bucket in 0..BUCKETS_MIN as u32 {
            let both = [bucket, (bucket + 1) % BUCKETS_MIN as u32];
            let entries = both.map(|home| (0..SLOTS as u32).map(move |at| 100 * home + at));
            let entries: Vec<u32> = entries.into_iter().flatten().collect();
            for &number in &entries {
                table.reserve(hash_of).expect("it fits");
                table.insert(hash_of(number), number);
            }
            let kept = 100 * bucket + 50;
            table.reserve(hash_of).expect("it fits");
            table.insert(hash_of(kept), kept);
            for &number in &entries {
                table.remove(hash_of(number), number);
            }
        }
        assert!(table.buckets.iter().all(|bucket| bucket.passed > 0));
        assert_eq!(table.find(3, |number| number == 1), None);
        assert_eq!(table.find(3, |number| number == 350), Some(350));
    }

    #[test]
    fn a_table_grows_within_the_budget() {
        let budget = Budget::new(8 * 64 + 16 * 64);
        let mut table = IndexTable::new(&budget).expect("nothing is drawn yet");
        let hash_of = |number: u32| u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut len = 0;
        while table.reserve(hash_of).is_some() {
            table.insert(hash_of(len), len);
            len += 1;
        }
        assert_eq!(len, 130, "13 of 16 slots");
        assert_eq!(budget.used_bytes(), 16 * 64);
        assert!(
            (0..len).all(|number| {
                table.find(hash_of(number), |each| each == number) == Some(number)
            })
        );
    }
}
