//! What waits for the output thread, and what that thread publishes.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use lineside_account::Budget;
use lineside_host::FolderError;

use crate::part_index::{Job, Removed, TableTotals};

/// A part that is complete, and on no disk yet.
#[derive(Debug)]
pub struct NewPart {
    /// Its table.
    pub table: String,
    /// Its name, such as `part-000000.parquet`, which the table never had before.
    pub file: String,
    /// Its rows.
    pub rows: u64,
    /// When, by the trace's time, the last of its rows may have been complete, nanoseconds since
    /// the Unix epoch; `None`: when it is written.
    pub window_ns: Option<i64>,
    /// Its bytes.
    pub bytes: Pieces,
}

/// An order to the thread.
pub(crate) enum Order {
    Part(NewPart),
    /// What came of a job.
    Merged(Job, Result<Option<(u64, Pieces)>, String>),
    End,
}

/// The bytes of a file, in pieces that follow one another.
#[derive(Debug)]
pub struct Pieces(Vec<Vec<u8>>);

impl Pieces {
    pub(crate) fn as_slice(&self) -> &[Vec<u8>] {
        &self.0
    }

    /// Bytes in all.
    pub fn len(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Vec<u8>> for Pieces {
    fn from(bytes: Vec<u8>) -> Self {
        Self(vec![bytes])
    }
}

impl From<Vec<Vec<u8>>> for Pieces {
    fn from(pieces: Vec<Vec<u8>>) -> Self {
        Self(pieces)
    }
}

/// What is on the disk of a run.
#[derive(Debug, Default, Clone)]
pub struct OnDisk {
    /// What each table has.
    pub tables: Vec<(String, TableTotals)>,
    /// What went because it was not to be kept any longer.
    pub removed: Removed,
}

/// What the writer and its thread share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) state: Mutex<State>,
    pub(crate) has_room: Condvar,
    /// What queued parts draw on.
    pub(crate) budget: Option<Budget>,
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // A poisoned lock still holds whole values: they are only ever assigned.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn error(&self) -> Option<FolderError> {
        self.state().error.clone()
    }

    /// Parts are written, or an error keeps them from being so.
    pub(crate) fn on_done(&self, parts: &[NewPart], error: Option<FolderError>) {
        let mut state = self.state();
        state.queued -= parts.len();
        if state.queued == 0 {
            state.is_over = false;
            let drawn = std::mem::take(&mut state.drawn_bytes);
            { self.budget.iter() }.for_each(|budget| budget.give_back(drawn));
        }
        if error.is_some() {
            state.error = error;
        }
        drop(state);
        self.has_room.notify_all();
    }

    pub(crate) fn publish(&self, tables: Vec<(String, TableTotals)>, removed: Removed) {
        self.state().on_disk = OnDisk { tables, removed };
    }

    pub(crate) fn note(&self, note: String) {
        self.state().notes.push(note);
    }
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// No more orders come.
    pub(crate) is_closed: bool,
    pub(crate) error: Option<FolderError>,
    pub(crate) queued: usize,
    pub(crate) drawn_bytes: usize,
    /// What is queued does not fit into the budget: nothing more until it is written.
    pub(crate) is_over: bool,
    pub(crate) on_disk: OnDisk,
    pub(crate) notes: Vec<String>,
}
