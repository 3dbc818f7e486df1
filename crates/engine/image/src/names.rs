//! Names in directories: what each was at the start of a trace, and what it is now.

use std::hash::{Hash, Hasher};

use hashbrown::{Equivalent, HashMap};

/// What a name leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Place {
    /// No call has shown it.
    #[default]
    Unknown,
    /// A call that was to make it has no reply.
    Unsure,
    /// Nothing has this name.
    Absent,
    /// A node.
    Node(u32),
}

/// A name in a directory.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Name {
    /// At the start; [`Place::Unknown`] is decided by the first call that shows it.
    pub(crate) at_first: Place,
    pub(crate) now: Place,
}

/// A directory and a name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Key(pub(crate) u32, pub(crate) Box<str>);

struct KeyRef<'a>(u32, &'a str);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        KeyRef(self.0, &self.1).hash(state);
    }
}

impl Hash for KeyRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
        self.1.hash(state);
    }
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.0 == key.0 && *self.1 == *key.1
    }
}

/// All names that calls have shown.
#[derive(Debug, Default)]
pub(crate) struct Names(HashMap<Key, Name>);

impl Names {
    pub(crate) fn get(&self, directory: u32, name: &str) -> Name {
        let name = self.0.get(&KeyRef(directory, name));
        name.copied().unwrap_or_default()
    }

    pub(crate) fn of(&mut self, directory: u32, name: &str) -> &mut Name {
        let key = KeyRef(directory, name);
        if !self.0.contains_key(&key) {
            self.0.insert(Key(directory, name.into()), Name::default());
        }
        self.0.get_mut(&key).expect("it is there by now")
    }

    pub(crate) fn into_all(self) -> impl Iterator<Item = (Key, Name)> {
        self.0.into_iter()
    }
}

/// Longest name of a file on Linux.
pub(crate) const NAME_MAX: usize = 255;

/// Whether a file can have this name, below its folder and nowhere else.
pub(crate) fn is_safe(name: &[u8]) -> bool {
    let is_step = name.is_empty() || name == b"." || name == b"..";
    !is_step && name.len() <= NAME_MAX && !name.contains(&b'/') && !name.contains(&0)
}

/// A number for a name that no file can have. FNV-1a, 64 bits.
pub(crate) fn number(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_a_folder_are_not_safe() {
        for name in ["", ".", "..", "a/b", "/", "a\0b"] {
            assert!(!is_safe(name.as_bytes()), "{name:?}");
        }
        assert!(!is_safe(&[b'a'; 256]));
        assert!(is_safe(&[b'a'; 255]) && is_safe(b"..."));
    }
}
