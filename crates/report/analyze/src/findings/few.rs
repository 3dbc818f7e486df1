//! Counts of a few clients or servers.

use crate::numbers::share;
use crate::read::columns::{Lexicon, Word};

/// Ends that are counted one by one.
const ENDS_MAX: usize = 64;
/// Of what has one end: so much of it is that end's.
const MOST_SHARE: f64 = 0.9;

/// How many times each of a few.
#[derive(Debug, Default)]
pub(super) struct Few(Vec<(Word, u64)>);

impl Few {
    pub(super) fn add(&mut self, word: Word, count: u64) {
        match self.0.iter().position(|(other, _)| *other == word) {
            Some(at) => self.0[at].1 += count,
            None if self.0.len() < ENDS_MAX => self.0.push((word, count)),
            None => (),
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for &(word, count) in &other.0 {
            self.add(word, count);
        }
    }

    /// The names of the first ones, most first.
    pub(super) fn names(&self, lexicon: &Lexicon) -> String {
        let mut most = self.0.clone();
        most.sort_by_key(|&(word, count)| (std::cmp::Reverse(count), word));
        let names = most
            .iter()
            .take(3)
            .map(|&(word, _)| lexicon.text(word).to_owned());
        let mut names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
        if most.len() > 3 {
            names.push("…".to_owned());
        }
        names.join(", ")
    }

    /// The one that has nearly all.
    pub(super) fn only(&self, all: u64) -> Option<Word> {
        let most = self.0.iter().max_by_key(|(_, count)| *count)?;
        (share(most.1, all) >= MOST_SHARE).then_some(most.0)
    }
}
