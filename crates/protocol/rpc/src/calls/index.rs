//! Where the entry of a key lies: a ring by the key's low bits, and a map of those whose place
//! there is taken. Most clients number their calls in order, so that few are.

use hashbrown::HashMap;

/// No entry.
const NONE: u32 = u32::MAX;
/// Places of the smallest ring.
const RING_MIN: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Index {
    /// A power of two of them, at least twice as many as entries; or none.
    ring: Vec<u32>,
    others: HashMap<u64, u32>,
}

impl Index {
    /// The entry of a key. `is_it`: whether an entry has this key.
    #[inline]
    pub(super) fn find(&self, key: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let at = *self.ring.get(self.place(key))?;
        if at != NONE && is_it(at) {
            return Some(at);
        }
        match self.others.is_empty() {
            true => None,
            false => self.find_other(key),
        }
    }

    #[cold]
    fn find_other(&self, key: u64) -> Option<u32> {
        self.others.get(&key).copied()
    }

    /// Adds the entry of a key that has none; false if the ring is too small for `count` entries:
    /// it is to be built again.
    #[inline]
    pub(super) fn insert(&mut self, key: u64, at: u32, count: u32) -> bool {
        if 2 * count as usize > self.ring.len() {
            return false;
        }
        let place = self.place(key);
        match self.ring[place] {
            NONE => self.ring[place] = at,
            _ => self.insert_other(key, at),
        }
        true
    }

    #[inline]
    pub(super) fn remove(&mut self, key: u64, at: u32) {
        let place = self.place(key);
        if self.ring[place] == at {
            self.ring[place] = NONE;
        } else {
            self.remove_other(key);
        }
    }

    #[cold]
    fn insert_other(&mut self, key: u64, at: u32) {
        self.others.insert(key, at);
    }

    #[cold]
    fn remove_other(&mut self, key: u64) {
        self.others.remove(&key);
    }

    /// Makes a ring for `count` entries, whose keys these are.
    #[cold]
    pub(super) fn rebuild(&mut self, count: u32, keys: impl Iterator<Item = (u64, u32)>) {
        let len = (2 * count as usize).next_power_of_two().max(RING_MIN);
        self.ring = vec![NONE; len];
        self.others = HashMap::new();
        for (key, at) in keys {
            let is_added = self.insert(key, at, count);
            debug_assert!(is_added, "the ring is large enough");
        }
    }

    #[inline]
    fn place(&self, key: u64) -> usize {
        key as usize & self.ring.len().wrapping_sub(1)
    }
}
