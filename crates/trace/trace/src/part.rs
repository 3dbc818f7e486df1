//! What is encoded into parts, and where complete parts go.

use std::io;
use std::num::NonZeroU64;

use lineside_rows::Table;

use crate::manifest::TableSummary;

/// What to encode, and into how large parts.
#[derive(Debug, Clone)]
pub struct EncoderConfig {
    /// The tables to write; rows of others are dropped.
    pub tables: Vec<Table>,
    /// Written into each part; the same as in `trace.json`.
    pub trace_id: String,
    /// Most rows in a part.
    pub part_rows_max: usize,
    /// Most rows in a part of `checksums`, whose rows are small.
    pub checksum_part_rows_max: usize,
    /// A part ends, whatever its rows, when the bytes of its ended pages and dictionaries reach
    /// this.
    pub part_bytes_max: usize,
    /// Parts of all tables end, too, where the trace's time passes a multiple of this since the
    /// Unix epoch.
    pub part_time_ns: Option<NonZeroU64>,
}

impl EncoderConfig {
    /// The usual limits: parts of some 10 MiB, which a crash can lose at most once per table.
    pub fn new(tables: &[Table], trace_id: &str) -> Self {
        Self {
            tables: tables.to_vec(),
            trace_id: trace_id.to_owned(),
            part_rows_max: 262_144,
            checksum_part_rows_max: 1_048_576,
            part_bytes_max: 64 << 20,
            part_time_ns: None,
        }
    }
}

/// A complete Parquet file in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The table it belongs to.
    pub table: Table,
    /// Its place in the table, from 0: `part-000000.parquet`.
    pub index: u64,
    /// Rows in it.
    pub rows: u64,
    /// The end of the window of [`EncoderConfig::part_time_ns`] that its rows came in, nanoseconds
    /// since the Unix epoch; `None`: there are no windows, or none has begun.
    pub window_ns: Option<i64>,
    /// The file, in pieces that follow one another: columns as they were encoded.
    pub pieces: Vec<Vec<u8>>,
}

impl Part {
    /// Its file name.
    pub fn file_name(&self) -> String {
        format!("part-{:06}.parquet", self.index)
    }

    /// The file as a whole.
    pub fn bytes(&self) -> Vec<u8> {
        self.pieces.concat()
    }

    /// How long it is.
    pub fn bytes_len(&self) -> usize {
        self.pieces.iter().map(Vec::len).sum()
    }
}

/// Takes complete parts: a folder's output thread, a test.
pub trait PartSink {
    /// Why a part cannot be taken.
    type Error;

    /// Takes a part. After an error no further part comes.
    fn part(&mut self, part: Part) -> Result<(), Self::Error>;
}

impl<E, F: FnMut(Part) -> Result<(), E>> PartSink for F {
    type Error = E;

    fn part(&mut self, part: Part) -> Result<(), E> {
        self(part)
    }
}

/// Why a trace could not be encoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError<E> {
    /// The part sink refused a part.
    #[error(transparent)]
    Sink(E),
    /// A part could not be encoded.
    #[error("table {}: rows could not be encoded: {error}", table.name())]
    Encoding {
        /// The table.
        table: Table,
        /// The encoder's error.
        error: io::Error,
    },
}

/// Rows, parts and bytes of each table that is written.
pub type Summaries = Vec<(Table, TableSummary)>;
