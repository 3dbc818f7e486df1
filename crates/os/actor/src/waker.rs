//! Wakes a guest from any thread.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::fence;

use crate::shared::Shared;

/// Wakes a [`Guest`](crate::Guest) that waits for something else than messages.
#[derive(Clone)]
pub struct Waker {
    shared: Arc<Shared>,
    index: usize,
}

impl Waker {
    pub(crate) fn new(shared: Arc<Shared>, index: usize) -> Self {
        Self { shared, index }
    }

    /// Wakes the guest if it waits. What it waits for was written before.
    pub fn wake(&self) {
        fence(SeqCst);
        self.shared.seats.wake(self.index);
    }
}
