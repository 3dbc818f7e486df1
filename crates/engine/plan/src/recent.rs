//! A map that forgets what was not used for long.

use std::hash::Hash;

use hashbrown::HashMap;

/// Holds between `max` and twice as many entries: those used since the map was last full, and those
/// used before that. The latter are dropped together.
pub(crate) struct Recent<K, V> {
    max: usize,
    new: HashMap<K, V>,
    old: HashMap<K, V>,
    pub(crate) forgotten: u64,
}

impl<K: Hash + Eq, V: Default> Recent<K, V> {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max: max.max(1),
            new: HashMap::new(),
            old: HashMap::new(),
            forgotten: 0,
        }
    }

    /// The entry of a key, which is used by this.
    pub(crate) fn entry(&mut self, key: K) -> &mut V {
        if !self.new.contains_key(&key) && self.new.len() >= self.max {
            self.forgotten += self.old.len() as u64;
            std::mem::swap(&mut self.old, &mut self.new);
            self.new.clear();
        }
        let old = &mut self.old;
        let found = self.new.entry(key);
        match found {
            hashbrown::hash_map::Entry::Occupied(found) => found.into_mut(),
            hashbrown::hash_map::Entry::Vacant(empty) => {
                let value = old.remove(empty.key()).unwrap_or_default();
                empty.insert(value)
            }
        }
    }

    /// What is known of a key.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.new.get(key).or_else(|| self.old.get(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_is_kept_and_the_rest_is_forgotten() {
        let mut map: Recent<u32, u32> = Recent::new(10);
        for round in 0..1000 {
            *map.entry(7) = 7;
            *map.entry(1000 + round) = round;
        }
        assert_eq!(map.get(&7), Some(&7));
        assert_eq!(map.get(&1000), None);
        assert!(map.new.len() <= 10 && map.old.len() <= 10);
        assert!(map.forgotten >= 980, "{}", map.forgotten);
    }
}
