//! Rows of all parts in the order of their calls.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::PathBuf;

use lineside_rows::Table;
use lineside_trace::read::PartReader;

use super::PlanOutput;
use super::calls::Calls;
use super::rows::{COLUMNS, Row, of_batch};
use super::states::States;
use crate::read::columns::Lexicon;
use crate::read::trace::Trace;

/// Rows in memory, of 150 bytes each: six parts of the usual size.
pub(super) const ROWS_MAX: usize = 1_600_000;

/// A part that is open.
struct Open {
    rows: Vec<Row>,
    next: usize,
}

/// The parts of `operations`.
pub(super) struct Merge {
    /// Those that were not read yet, with the first call in each; the last first.
    closed: Vec<(i64, usize, PathBuf)>,
    states: States,
    open: Vec<Open>,
    /// The next row of each open part.
    heads: BinaryHeap<Reverse<((i64, i64, i64), usize)>>,
    held: usize,
}

impl Merge {
    pub(super) fn new(trace: &mut Trace) -> Self {
        let mut closed = Vec::new();
        for (at, path) in trace.parts(Table::Operations).into_iter().enumerate() {
            let part = lineside_trace::open_file(&path).ok();
            let part = part.and_then(|file| PartReader::open(file).ok());
            // Without statistics any call may be in it; one that is damaged is named when it is
            // read.
            let range = part.and_then(|part| part.range("call_time_ns"));
            closed.push((range.map_or(i64::MIN, |(first, _)| first), at, path));
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
        let Some((_, _, path)) = self.closed.pop() else {
            return;
        };
        let mut rows = Vec::new();
        let not_seen = &mut calls.done.left_out.calls_not_seen;
        trace.batches_of_part((0, &path), Table::Operations, &COLUMNS, |batch| {
            of_batch(batch, words, not_seen, |row| rows.push(row))
        });
        if rows.is_empty() {
            return;
        }
        rows.sort_by_key(Row::key);
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
