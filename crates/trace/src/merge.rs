//! One part of several: their rows are read and encoded anew, as those of a part that had held them
//! from the start.

use std::io;

use crate::columns::{Columns, ROWS_MAX, Zstd};
use crate::part_file::PartFile;
use crate::read::{PartReader, ReadError, Source};
use crate::table_encoder::end_file;
use crate::tables::{Row, Table, merge};

/// Rows that are decoded at once: with the values of an operation's 60 columns some 2 MiB.
const BATCH_ROWS: usize = 4096;

/// Why parts could not be merged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// A part could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The rows could not be encoded.
    #[error("rows could not be encoded: {0}")]
    Encode(#[from] io::Error),
    /// A part is another trace's, or of another version of the tables.
    #[error("a part of another trace, or of another version, is among them")]
    Foreign,
    /// A part has more rows, or fewer, than its description says.
    #[error("a part does not have the rows that it states")]
    Rows,
}

/// A merged part.
#[derive(Debug, PartialEq, Eq)]
pub struct Merged {
    /// Its rows: those of all parts.
    pub rows: u64,
    /// The file, in pieces that follow one another.
    pub pieces: Vec<Vec<u8>>,
}

/// Makes one part of several of a table of the trace `trace_id`, whose rows follow one another in
/// the parts' order.
///
/// What it holds meanwhile: the encoded rows, and a batch of decoded ones.
pub fn merge_parts<S: Source>(
    table: Table,
    trace_id: &str,
    parts: impl IntoIterator<Item = S>,
) -> Result<Merged, MergeError> {
    merge(table, trace_id, parts)
}

/// A part of one table, as it is made of others.
pub(crate) struct Merging<'a, C> {
    trace_id: &'a str,
    columns: C,
    zstd: Zstd,
}

impl<'a, C: Columns> Merging<'a, C> {
    pub(crate) fn new(trace_id: &'a str) -> Result<Self, MergeError> {
        Ok(Self {
            trace_id,
            columns: C::default(),
            zstd: Zstd::new(),
        })
    }

    pub(crate) fn run<S: Source>(
        mut self,
        sources: impl IntoIterator<Item = S>,
    ) -> Result<Merged, MergeError> {
        for source in sources {
            self.add(PartReader::open(source)?)?;
        }
        let rows = self.columns.rows();
        let mut file = PartFile::new();
        if rows > 0 {
            self.columns.end(&mut self.zstd, &mut file)?;
        }
        Ok(Merged {
            rows: rows as u64,
            pieces: end_file::<C>(file, rows, self.trace_id),
        })
    }

    fn add<S: Source>(&mut self, part: PartReader<S>) -> Result<(), MergeError> {
        let is_ours = part.metadata("lineside.trace_id") == Some(self.trace_id);
        if !is_ours || part.is_older() {
            return Err(MergeError::Foreign);
        }
        let (before, stated) = (self.columns.rows() as u64, part.row_count());
        let names = C::Row::TABLE.columns().iter().map(|column| column.name);
        let names: Vec<_> = names.collect();
        let mut batches = part.batches(&names, BATCH_ROWS)?;
        while let Some(batch) = batches.next() {
            let batch = batch?;
            self.take(&batch)?;
            batches.reuse(batch);
        }
        match self.columns.rows() as u64 - before == stated {
            true => Ok(()),
            false => Err(MergeError::Rows),
        }
    }

    fn take(&mut self, batch: &[crate::read::Column]) -> Result<(), MergeError> {
        let rows = batch.first().map_or(0, crate::read::Column::len);
        let mut from = 0;
        while from < rows {
            let room = ROWS_MAX - self.columns.rows() % ROWS_MAX;
            let next = rows.min(from + room);
            self.columns.refill(batch, from..next);
            from = next;
            if self.columns.rows().is_multiple_of(ROWS_MAX) {
                self.columns.end_full_pages(&mut self.zstd)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
