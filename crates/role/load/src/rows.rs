//! Rows on their way from a worker to the thread that writes them: batches in a bounded ring, so
//! that the worker never waits.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use crate::results::Row;

/// Rows of a batch.
const BATCH: usize = 1_024;
/// Batches of a queue: at 100,000 requests a second, 0.6 s.
const BATCHES: usize = 64;

/// The worker's end of a queue of rows.
#[derive(Debug)]
pub struct Rows {
    batch: Vec<Row>,
    full: SyncSender<Vec<Row>>,
    empty: Receiver<Vec<Row>>,
    /// One request in this many has one.
    every: u64,
    dropped: u64,
}

/// The writer's end.
#[derive(Debug)]
pub struct RowSource {
    full: Receiver<Vec<Row>>,
    empty: SyncSender<Vec<Row>>,
}

/// A queue of rows, with one for each request whose number is a multiple of `every`.
pub fn rows(every: u64) -> (Rows, RowSource) {
    let (full, source) = sync_channel(BATCHES);
    let (give_back, empty) = sync_channel(BATCHES);
    for _ in 0..BATCHES - 1 {
        give_back
            .send(Vec::with_capacity(BATCH))
            .expect("the ring has room for all batches");
    }
    let rows = Rows {
        batch: Vec::with_capacity(BATCH),
        full,
        empty,
        every: every.max(1),
        dropped: 0,
    };
    let source = RowSource {
        full: source,
        empty: give_back,
    };
    (rows, source)
}

impl Rows {
    /// Whether a request has a row.
    pub fn wants(&self, ordinal: u64) -> bool {
        ordinal.is_multiple_of(self.every)
    }

    /// Adds a row; one that finds no room is counted.
    pub fn push(&mut self, row: Row) {
        if self.batch.len() == BATCH {
            self.flush();
        }
        if self.batch.len() < self.batch.capacity() {
            self.batch.push(row);
        } else {
            self.dropped += 1;
        }
    }

    /// Hands over what there is.
    pub fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let Ok(empty) = self.empty.try_recv() else {
            return;
        };
        let batch = std::mem::replace(&mut self.batch, empty);
        if let Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) =
            self.full.try_send(batch)
        {
            // The writer is gone: what comes now is counted.
            self.dropped += batch.len() as u64;
            self.batch = batch;
            self.batch.clear();
        }
    }

    /// Waits until everything is handed over, after the last request; how many found no room.
    pub fn finish(mut self) -> u64 {
        if !self.batch.is_empty() && self.full.send(std::mem::take(&mut self.batch)).is_err() {
            self.dropped += self.batch.len() as u64;
        }
        self.dropped
    }

    /// Rows that found no room.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl RowSource {
    /// The rows of the next batch, as soon as there is one; an error if none came for `patience`,
    /// and after the last one.
    pub fn next(
        &self,
        patience: Duration,
        mut take: impl FnMut(&Row),
    ) -> Result<(), RecvTimeoutError> {
        let mut batch = self.full.recv_timeout(patience)?;
        batch.iter().for_each(&mut take);
        batch.clear();
        // The worker may have ended.
        let _ = self.empty.try_send(batch);
        Ok(())
    }
}
