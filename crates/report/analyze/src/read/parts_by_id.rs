//! Parts of a table by the operations that their rows belong to.

use std::path::PathBuf;

use lineside_rows::Table;
use lineside_trace::read::{Column, PartReader, ReadError, Value};

use super::trace::{Trace, id_shift};

const ALL_IDS: (i64, i64) = (i64::MIN, i64::MAX);

/// The parts of a table that have rows.
pub(crate) struct PartsById {
    table: Table,
    /// Each with its run and the ids of its operations, as their footers have them.
    parts: Vec<(usize, PathBuf, (i64, i64))>,
}

impl PartsById {
    pub(crate) fn of(trace: &mut Trace, table: Table) -> Self {
        let mut parts = Vec::new();
        for run in 0..trace.run_count() {
            for path in trace.parts_of(run, table) {
                let part = lineside_trace::open_file(&path).ok();
                let part = part.and_then(|file| PartReader::open(file).ok());
                if part.as_ref().is_some_and(|part| part.row_count() == 0) {
                    continue;
                }
                let range = part.and_then(|part| part.range("operation_id"));
                // Of several runs the ids are others than in the table.
                let shifted = |id: i64| id.checked_add(id_shift(run));
                let range = range.and_then(|(low, high)| shifted(low).zip(shifted(high)));
                parts.push((run, path, range.unwrap_or(ALL_IDS)));
            }
        }
        Self { table, parts }
    }

    /// Gives `take` the batches of the parts that may have one of these ids, as the trace has them.
    pub(crate) fn near(
        &self,
        trace: &mut Trace,
        (first, last): (i64, i64),
        columns: &[&str],
        mut take: impl FnMut(&[Column]) -> Result<(), ReadError>,
    ) {
        for (run, path) in self.having((first, last)) {
            trace.batches_of_part((run, path), self.table, columns, &mut take);
        }
    }

    /// The same by rows.
    pub(crate) fn rows_near(
        &self,
        trace: &mut Trace,
        ids: (i64, i64),
        columns: &[&str],
        mut each: impl FnMut(&[Value]),
    ) {
        for (run, path) in self.having(ids) {
            trace.rows_of_part((run, path), self.table, columns, &mut each);
        }
    }

    fn having(&self, (first, last): (i64, i64)) -> impl Iterator<Item = (usize, &PathBuf)> {
        let all = self.parts.iter();
        let near = all.filter(move |(_, _, (low, high))| *low <= last && first <= *high);
        near.map(|(run, path, _)| (*run, path))
    }
}
