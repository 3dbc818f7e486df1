//! One part of several: their rows are read and encoded anew, as those of a part that had held them
//! from the start.

use std::io;

use lineside_rows::Row;

use crate::columns::{Columns, ROWS_MAX, Zstd};
use crate::part_file::PartFile;
use crate::read::{Column, Decompressor, PartReader, ReadError, Source};
use crate::table_encoder::end_file;

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

/// A part of one table, as it is made of others.
pub(crate) struct Merging<'a, C> {
    trace_id: &'a str,
    columns: C,
    zstd: Zstd,
    decompressor: Option<Decompressor<'static>>,
}

/// A part of no more bytes is read at once: columns of a small part lie close to one another.
const AT_ONCE_BYTES: u64 = 256 << 10;

/// A part on its way to a larger one.
enum Small<S> {
    InMemory(Vec<u8>),
    Large(S),
}

impl<S: Source> Small<S> {
    fn read(source: S) -> io::Result<Self> {
        let len = source.size()?;
        if len > AT_ONCE_BYTES {
            return Ok(Self::Large(source));
        }
        let mut bytes = vec![0; len as usize];
        source.read_at(0, &mut bytes)?;
        Ok(Self::InMemory(bytes))
    }
}

impl<S: Source> Source for Small<S> {
    fn size(&self) -> io::Result<u64> {
        match self {
            Self::InMemory(bytes) => bytes.size(),
            Self::Large(source) => source.size(),
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        match self {
            Self::InMemory(bytes) => bytes.read_at(offset, buffer),
            Self::Large(source) => source.read_at(offset, buffer),
        }
    }
}

impl<'a, C: Columns> Merging<'a, C> {
    pub(crate) fn new(trace_id: &'a str) -> Result<Self, MergeError> {
        Ok(Self {
            trace_id,
            columns: C::default(),
            zstd: Zstd::new(),
            decompressor: None,
        })
    }

    pub(crate) fn run<S: Source>(
        mut self,
        sources: impl IntoIterator<Item = S>,
    ) -> Result<Merged, MergeError> {
        for source in sources {
            let part = Small::read(source).map_err(ReadError::from)?;
            self.add(PartReader::open(part)?)?;
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
        // Of a table with a hundred columns most have no value, and are not even read; rows are
        // counted by the first.
        let names = C::Row::TABLE.columns().iter().map(|column| column.name);
        let (given, names): (Vec<_>, Vec<_>) = { names.enumerate() }
            .filter(|&(place, name)| place == 0 || !part.is_null(place, name))
            .unzip();
        let decompressor = match self.decompressor.take() {
            Some(decompressor) => decompressor,
            None => Decompressor::new()?,
        };
        let mut batches = part.batches_by(decompressor, &names, BATCH_ROWS)?;
        while let Some(batch) = batches.next() {
            let batch = batch?;
            self.take(&given, &batch)?;
            batches.reuse(batch);
        }
        self.decompressor = Some(batches.end());
        match self.columns.rows() as u64 - before == stated {
            true => Ok(()),
            false => Err(MergeError::Rows),
        }
    }

    /// Adds the rows of a batch, which has the table's columns at the places `given`.
    fn take(&mut self, given: &[usize], batch: &[Column]) -> Result<(), MergeError> {
        let rows = batch.first().map_or(0, Column::len);
        let mut columns = vec![None; C::Row::TABLE.columns().len()];
        for (&place, column) in given.iter().zip(batch) {
            columns[place] = Some(column);
        }
        let mut from = 0;
        while from < rows {
            let room = ROWS_MAX - self.columns.rows() % ROWS_MAX;
            let next = rows.min(from + room);
            self.columns.refill(&columns, from..next);
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
