//! Rows of all parts in the order of their calls.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};

use lineside_rows::Table;
use lineside_trace::read::PartReader;

use super::calls::Calls;
use super::left_out::PlanOutput;
use super::rows::{COLUMNS, Row, of_batch};
use super::states::States;
use crate::read::columns::{Integers, Lexicon};
use crate::read::trace::Trace;

/// Rows in memory, of 150 bytes each: six parts of the usual size.
pub(super) const ROWS_MAX: usize = 1_600_000;

/// The first call of a part, its place in the table, where it is and its rows.
type Closed = (i64, usize, PathBuf, u64);

/// The order of the next row of a part, and the part's place.
type Head = ((i64, i64, i64), usize);

/// A part that is open.
struct Open {
    rows: Vec<Row>,
    next: usize,
}

/// The parts of `operations`.
pub(super) struct Merge {
    /// Those that were not read yet, with the first call in each; the last first.
    closed: Vec<Closed>,
    states: States,
    open: Vec<Open>,
    /// The next row of each open part.
    heads: BinaryHeap<Reverse<Head>>,
    held: usize,
}

impl Merge {
    pub(super) fn new(trace: &mut Trace) -> Self {
        let mut closed = Vec::new();
        for (at, path) in trace.parts(Table::Operations).into_iter().enumerate() {
            let part = lineside_trace::open_file(&path).ok();
            let part = part.and_then(|file| PartReader::open(file).ok());
            let range = part.as_ref().and_then(|part| part.range("call_time_ns"));
            let first_ns = range.map_or_else(|| first_call(trace, &path), |(first, _)| first);
            let rows = part.as_ref().map_or(0, PartReader::row_count);
            closed.push((first_ns, at, path, rows));
        }
        closed.sort_unstable_by(|one, other| other.cmp(one));
        Self {
            closed,
            states: States::of(trace),
            open: Vec::new(),
            heads: BinaryHeap::new(),
            held: 0,
        }
    }

    /// Gives all rows to `calls`. `false`: too many parts overlap.
    pub(super) fn run<S: PlanOutput>(
        &mut self,
        trace: &mut Trace,
        words: &mut Lexicon,
        calls: &mut Calls<S>,
    ) -> bool {
        loop {
            let next_ns = self.heads.peek().map(|Reverse((key, _))| key.0);
            while let Some((first_ns, ..)) = self.closed.last()
                && next_ns.is_none_or(|next_ns| *first_ns <= next_ns)
            {
                self.read(trace, words, calls);
                if self.held > ROWS_MAX {
                    return false;
                }
                if next_ns.is_none() {
                    break;
                }
            }
            let Some(Reverse((_, at))) = self.heads.pop() else {
                match self.closed.is_empty() {
                    true => return true,
                    false => continue,
                }
            };
            let part = &mut self.open[at];
            calls.row(&part.rows[part.next], words);
            part.next += 1;
            match part.rows.get(part.next) {
                Some(row) => self.heads.push(Reverse((row.key(), at))),
                None => {
                    self.held -= part.rows.len();
                    part.rows = Vec::new();
                }
            }
        }
    }

    fn read<S: PlanOutput>(
        &mut self,
        trace: &mut Trace,
        words: &mut Lexicon,
        calls: &mut Calls<S>,
    ) {
        let Some((_, _, path, count)) = self.closed.pop() else {
            return;
        };
        // A footer may say anything.
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let mut rows = Vec::with_capacity(count.min(ROWS_MAX / 4));
        let not_seen = &mut calls.done.left_out.calls_not_seen;
        trace.batches_of_part((0, &path), Table::Operations, &COLUMNS, |batch| {
            of_batch(batch, words, not_seen, |row| rows.push(row))
        });
        if rows.is_empty() {
            return;
        }
        rows.sort_unstable_by_key(Row::key);
        if rows.iter().any(|row| row.is_of_compound) {
            self.states.add_to(trace, &mut rows);
        }
        self.held += rows.len();
        let free = self.open.iter().position(|part| part.rows.is_empty());
        let at = free.unwrap_or(self.open.len());
        self.heads.push(Reverse((rows[0].key(), at)));
        let part = Open { rows, next: 0 };
        match self.open.get_mut(at) {
            Some(place) => *place = part,
            None => self.open.push(part),
        }
    }
}

/// When the first call of a part was made, whose footer does not say so. What cannot be read is
/// named when its turn comes.
fn first_call(trace: &mut Trace, path: &Path) -> i64 {
    let column = ["call_time_ns"];
    let mut first_ns = i64::MAX;
    trace.batches_of_part((0, path), Table::Operations, &column, |batch| {
        let times = Integers::of(column[0], &batch[0])?;
        let times = (0..batch[0].len()).filter_map(|row| times.get(row));
        first_ns = times.fold(first_ns, i64::min);
        Ok(())
    });
    first_ns
}
