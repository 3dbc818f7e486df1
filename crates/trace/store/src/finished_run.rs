//! The folder of a run that is over or was killed, as the next one finds it. It belonged to another
//! user: nothing in it is reached by a path, and no link is followed.

use std::fs::TryLockError;
use std::ops::Deref;

use lineside_host::Place;

use crate::folder::is_free;

/// The folder of a run that nobody writes. It is locked: until this is dropped nobody does.
#[derive(Debug)]
pub struct FinishedRun(Place);

impl FinishedRun {
    /// Locks the folder; `None` if a run writes it.
    pub fn open(place: &Place) -> Option<Self> {
        is_free(place.file()).then(|| Self(place.clone()))
    }

    /// As [`open`](Self::open), of a run that is over: whoever looks whether it goes on meanwhile
    /// finds that it does not.
    pub fn open_over(place: &Place) -> Option<Self> {
        let locked = place.file().try_lock_shared();
        let is_free = !matches!(locked, Err(TryLockError::WouldBlock));
        is_free.then(|| Self(place.clone()))
    }
}

impl Deref for FinishedRun {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.0
    }
}

impl Drop for FinishedRun {
    fn drop(&mut self) {
        // The place stays open.
        let _ = self.0.file().unlock();
    }
}
