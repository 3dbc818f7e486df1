//! Slow operations: one by one, or how long those of each client, file, user … took.
//!
//! ```text
//!  operations ─► chosen rows ─► Pick, the slowest ─► paths, names, ways ─► SlowOperation
//!                            └► Groups, by client, file, … ─────────────► SlowGroup
//! ```
//!
//! One pass over `operations`; the tables `files` and `connections` are looked at afterwards, for
//! what is shown. An NFSv4 compound is one operation here: it has one call and one reply, so all
//! its rows have the same times.

mod best;
mod failed;
mod frames;
mod groups;
mod operation;
mod request;
mod spread;

use std::cmp::Reverse;
use std::path::Path;

use lineside_rows::Table;

pub use failed::{
    FAILED_MAX, Failed, FailedGroup, FailedGroups, FailedOperation, FailedRequest, failed,
    failed_groups,
};
pub use frames::Frames;
pub use groups::{GROUPS_MAX, Per, SlowGroup, SlowGroups, slow_groups};
pub use operation::{Divided, SlowOperation};
pub use request::{SlowBy, SlowRequest};

use crate::read::batch::Batch;
use crate::read::filter::{Chosen, Filter, span};
use crate::read::lexica::Lexica;
use crate::read::trace::{Trace, TraceError};
use best::Best;
use operation::{OwnColumns, Pick};
use request::duration;

/// Operations in one answer: the slowest of them.
pub const SLOW_MAX: usize = 1_000_000;

/// The slow operations of a trace.
#[derive(Debug, Clone, Default)]
pub struct Slow {
    /// As they were sorted.
    pub operations: Vec<SlowOperation>,
    /// Slow ones that were left out: there are more than were asked for, or than [`SLOW_MAX`].
    pub left_out: u64,
    /// Chosen operations with a time, or that waited for a reply that did not come; of a compound
    /// once.
    pub timed: u64,
    /// The longest of those.
    pub latency_max_ns: Option<u64>,
    /// Chosen calls without a reply of which there is no way to know how long they waited: the tap
    /// may have missed it.
    pub unanswered: u64,
    /// Chosen operations whose reply ended before their call began, by their stamps: there is no
    /// way to know how slow either.
    pub backwards: u64,
    /// The trace has several inputs: numbers of frames alone do not identify them.
    pub has_inputs: bool,
    /// What could not be read, in sentences.
    pub unreadable: Vec<String>,
}

/// Finds the operations that took long.
pub fn slow(path: &Path, filter: &Filter, request: &SlowRequest) -> Result<Slow, TraceError> {
    let mut trace = Trace::open(path)?;
    let (chosen, _) = span(&mut trace, filter)?;
    let mut lexica = Lexica::new();
    let own = OwnColumns::of(&mut trace);
    let mut picks = Picks {
        by: request.by.unwrap_or(match request.top {
            Some(_) => SlowBy::Latency,
            None => SlowBy::Time,
        }),
        kept_max: request.top.unwrap_or(SLOW_MAX).min(SLOW_MAX),
        latency_min_ns: request.latency_min_ns,
        ..Picks::default()
    };
    let shared = Batch::columns(&chosen);
    let columns = [shared.as_slice(), own.names()].concat();
    trace.batches(Table::Operations, &columns, |columns| {
        let batch = Batch::of(columns, &chosen, &mut lexica)?;
        let row_facts = own.batch(&columns[shared.len()..])?;
        picks.add(&batch, &row_facts, &chosen, &lexica);
        Ok(())
    });
    chosen.check(&lexica, &trace.warnings)?;
    picks.keep_first();
    let left_out = picks.left_out();
    let mut slow = picks.slow;
    slow.left_out = left_out;
    slow.operations = operation::operations(&mut trace, &picks.picks, &picks.best, &lexica);
    let inputs = trace
        .manifest
        .as_ref()
        .map(|manifest| manifest.inputs.len());
    slow.has_inputs = inputs.is_none_or(|inputs| inputs > 1);
    slow.unreadable = trace.warnings;
    Ok(slow)
}

/// The slow ones so far, and twice as many as are kept.
struct Picks {
    by: SlowBy,
    kept_max: usize,
    latency_min_ns: u64,
    picks: Vec<Pick>,
    found: u64,
    /// The compound whose rows pass.
    rpc_id: Option<i64>,
    /// By connection.
    best: Best,
    slow: Slow,
}

impl Default for Picks {
    fn default() -> Self {
        Self {
            by: SlowBy::Time,
            kept_max: SLOW_MAX,
            latency_min_ns: 0,
            picks: Vec::new(),
            found: 0,
            rpc_id: None,
            best: Best::default(),
            slow: Slow::default(),
        }
    }
}

impl Picks {
    fn add(
        &mut self,
        batch: &Batch<'_>,
        facts: &operation::RowFacts<'_>,
        chosen: &Chosen,
        lexica: &Lexica,
    ) {
        let [read, write] = ["READ", "WRITE"].map(|name| lexica.words.find(name));
        for row in batch.chosen(chosen, lexica) {
            let operation = Some(batch.operation.get(row));
            let times = [
                batch.call_time_ns.get(row),
                batch.call_end_ns.get(row),
                batch.reply_time_ns.get(row),
                batch.reply_end_ns.get(row),
            ];
            let span = match operation {
                _ if operation == write => times[0].zip(times[1]),
                _ if operation == read => times[2].zip(times[3]),
                _ => None,
            };
            let moved = batch
                .transferred
                .get(row)
                .and_then(|bytes| u64::try_from(bytes).ok());
            let took = span.and_then(|(from, to)| duration(from, to));
            if let Some((bytes, took_ns)) = moved.zip(took) {
                let connection = facts.connection_id.get(row).unwrap_or_default();
                self.best
                    .note(connection, operation == write, bytes, took_ns);
            }
            let rpc_id = batch.rpc_id.get(row);
            let is_next = rpc_id.is_none() || rpc_id != self.rpc_id;
            self.rpc_id = rpc_id;
            let Some(latency_ns) = self.latency_ns(batch, row, is_next) else {
                continue;
            };
            if is_next {
                self.slow.timed += 1;
                self.slow.latency_max_ns = self.slow.latency_max_ns.max(Some(latency_ns));
            }
            if latency_ns < self.latency_min_ns {
                continue;
            }
            let pick = Pick::of(batch, facts, row, lexica);
            match self.picks.last_mut() {
                Some(last) if !is_next && last.rpc_id == pick.rpc_id => last.merge(pick),
                _ => {
                    self.found += 1;
                    self.picks.push(pick);
                }
            }
        }
        if self.picks.len() >= 2 * self.kept_max.max(1 << 16) {
            self.keep_first();
        }
    }

    /// How long an operation took, or waited; `None` where there is no way to know, which is
    /// counted.
    fn latency_ns(&mut self, batch: &Batch<'_>, row: usize, is_next: bool) -> Option<u64> {
        if let Some(wait) = batch.wait(row) {
            return Some(wait.ns());
        }
        let is_unknown = batch.reply_missing.get(row) && !batch.is_joined(row);
        self.slow.unanswered += u64::from(is_next && is_unknown);
        let (call, reply) = (batch.call_time_ns.get(row)?, batch.reply_end_ns.get(row)?);
        let latency_ns = duration(call, reply);
        self.slow.backwards += u64::from(is_next && latency_ns.is_none());
        latency_ns
    }

    /// Keeps those that are shown, in their order. Without an order of their own, the slowest.
    fn keep_first(&mut self) {
        let by = match self.by {
            SlowBy::Time => SlowBy::Latency,
            by => by,
        };
        // The id breaks ties, so that the answer is the same every time.
        let rank = |pick: &Pick| (Reverse(pick.rank(by)), pick.operation_id);
        if self.picks.len() > self.kept_max {
            if self.kept_max > 0 {
                self.picks
                    .select_nth_unstable_by_key(self.kept_max - 1, rank);
            }
            self.picks.truncate(self.kept_max);
        }
        match self.by {
            SlowBy::Time => {
                let time = |pick: &Pick| (pick.times[0], pick.operation_id);
                self.picks.sort_unstable_by_key(time);
            }
            _ => self.picks.sort_unstable_by_key(rank),
        }
    }

    fn left_out(&self) -> u64 {
        self.found - self.picks.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_are_kept() {
        let pick = |operation_id, latency| Pick {
            operation_id,
            times: [Some(0), None, None, Some(latency)],
            ..Pick::default()
        };
        let mut picks = Picks {
            kept_max: 2,
            picks: vec![pick(1, 5), pick(2, 9), pick(3, 9), pick(4, 1)],
            found: 4,
            ..Picks::default()
        };
        picks.keep_first();
        let ids: Vec<_> = picks.picks.iter().map(|each| each.operation_id).collect();
        assert_eq!((ids, picks.left_out()), (vec![2, 3], 2));
    }
}
