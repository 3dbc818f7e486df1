//! Rows of all parts in the order of their calls.

use lineside_rows::Table;

use super::calls::Calls;
use super::left_out::PlanOutput;
use super::rows::{COLUMNS, Row, of_batch};
use super::states::States;
use crate::read::columns::Lexicon;
use crate::read::in_order::{InOrder, Ordered, Overlap};
use crate::read::trace::Trace;

/// Rows in memory, of 150 bytes each: six parts of the usual size.
pub(super) const ROWS_MAX: usize = 1_600_000;

impl InOrder for Row {
    fn key(&self) -> (i64, i64, i64) {
        (self.call_ns, self.rpc_id, self.operation_id)
    }
}

/// Gives all rows to `calls`, unless too many parts overlap.
pub(super) fn run<S: PlanOutput>(
    trace: &mut Trace,
    words: &mut Lexicon,
    calls: &mut Calls<'_, S>,
) -> Result<(), Overlap> {
    let mut ordered = Ordered::new(trace, ROWS_MAX);
    let states = States::of(trace);
    loop {
        let (done, aside) = (&mut calls.done, &mut *calls.aside);
        let not_seen = &mut done.left_out.calls_not_seen;
        let row = ordered.next(|part, _| {
            let mut rows = Vec::with_capacity(part.rows.min(ROWS_MAX / 4));
            trace.batches_of_part(
                (part.run, &part.path),
                Table::Operations,
                &COLUMNS,
                |batch| of_batch(batch, words, not_seen, |row| rows.push(row)),
            );
            if rows.iter().any(|row: &Row| row.is_of_compound) {
                states.add_to(trace, &mut rows);
            }
            aside.part(trace, (part.run, &part.path), words, &mut rows);
            rows
        })?;
        match row {
            Some(row) => calls.row(&row, words),
            None => return Ok(()),
        }
    }
}
