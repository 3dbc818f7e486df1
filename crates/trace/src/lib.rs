//! The trace: what each table holds, how rows become Parquet parts, and `trace.json`.
//!
//! ```text
//!  rows (OperationRow, …) ──► RecordSink ──► TraceEncoder ──► Part { table, index, bytes } ──► PartSink
//!                                            pages of columns; a row group a part               (files are the caller's)
//! ```
//!
//! [`tables`] describes every table once; the row, the columns, the Parquet schema and the documentation in
//! `docs/guide/trace.md` follow from that. The contract with other tools is `trace-format.md`: portable
//! types only, each part complete in itself. No files and no clock here: parts are bytes in memory.
//!
//! Without the feature `parquet` only rows, [`RecordSink`] and [`Manifest`] remain.
#![forbid(unsafe_code)]

mod cell;
#[cfg(feature = "parquet")]
mod columns;
#[cfg(feature = "parquet")]
mod encoder;
mod manifest;
#[cfg(feature = "parquet")]
mod page;
#[cfg(feature = "parquet")]
pub mod read;
#[cfg(all(test, feature = "parquet"))]
mod sample;
mod sink;
pub mod tables;

pub use cell::{Address, Blob, Cell, ColumnType, Label, Text, Word};
#[cfg(feature = "parquet")]
pub use encoder::{EncodeError, EncoderConfig, Part, PartSink, Summaries, TraceEncoder};
pub use manifest::{
    ActorFacts, ChecksumFacts, ClockFacts, CounterValue, InputFacts, LiveInput, Machine, Manifest,
    RELIEFS_MAX, Relief, Runtime, SECONDS_MAX, SchedulerFacts, Second, State, TableSummary, Tool,
    Verdict,
};
pub use sink::{CollectedRows, RecordSink};
pub use tables::{
    ChecksumRow, ColumnSpec, ConnectionRow, Encoding, FileRow, LossRow, NfsRow, OperationRow,
    PacketRow, Row, Table,
};

/// The version of the tables: a new column raises the second number, a changed one the first.
pub const SCHEMA_VERSION: &str = "1.0";

/// How `checksums.checksum` is computed: XXH3, 64 bits, seed 0, over blocks of [`BLOCK_BYTES`].
pub const CHECKSUM: &str = "xxh3-64/seed0/512";

/// Bytes of file data under one checksum.
pub const BLOCK_BYTES: u32 = 512;
