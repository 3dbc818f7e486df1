//! The texts of a trace as small numbers.

use hashbrown::HashSet;
use lineside_rows::is_success;

use super::columns::{Lexicon, Word};
use crate::limits::{CLIENTS_MAX, USERS_MAX};

/// The texts of a trace.
pub(crate) struct Lexica {
    pub(crate) clients: Lexicon,
    pub(crate) servers: Lexicon,
    pub(crate) words: Lexicon,
    /// Names in the column `operation`, for what to offer instead of an unknown one.
    operations: Vec<Word>,
    /// Users, where one is asked for.
    users: HashSet<i64>,
    states: Vec<Option<bool>>,
}

impl Lexica {
    pub(crate) fn new() -> Self {
        Self {
            clients: Lexicon::new(CLIENTS_MAX),
            servers: Lexicon::new(CLIENTS_MAX),
            words: Lexicon::new(WORDS_MAX),
            operations: Vec::new(),
            users: HashSet::new(),
            states: Vec::new(),
        }
    }

    /// Takes note of the operations of a batch, and of its users where one is asked for: what to
    /// offer instead of something unknown.
    pub(crate) fn note(
        &mut self,
        operations: &[Word],
        users: impl Iterator<Item = i64>,
        wanted: Option<i64>,
    ) {
        for &word in operations {
            if word != Lexicon::NONE && !self.operations.contains(&word) {
                self.operations.push(word);
            }
        }
        let Some(wanted) = wanted else { return };
        for user in users {
            if self.users.len() < USERS_MAX || user == wanted {
                self.users.insert(user);
            }
        }
    }

    pub(crate) fn has_user(&self, user_id: i64) -> bool {
        self.users.contains(&user_id)
    }

    pub(crate) fn users(&self) -> impl Iterator<Item = i64> {
        self.users.iter().copied()
    }

    pub(crate) fn operations(&self) -> Vec<String> {
        self.operations
            .iter()
            .map(|&word| self.words.text(word).to_owned())
            .collect()
    }

    /// The status with which an operation failed, if it did: the protocol's, or RPC's where there
    /// is none.
    pub(crate) fn failure(&mut self, status: Word, rpc_status: Word) -> Option<Word> {
        let word = if status == Lexicon::NONE {
            rpc_status
        } else {
            status
        };
        let at = word as usize;
        if at >= self.states.len() {
            self.states.resize(at + 1, None);
        }
        let words = &self.words;
        let failed = *self.states[at]
            .get_or_insert_with(|| word != Lexicon::NONE && !is_success(words.text(word)));
        failed.then_some(word)
    }
}

/// Texts of programs, operations and states.
const WORDS_MAX: usize = 4_096;
