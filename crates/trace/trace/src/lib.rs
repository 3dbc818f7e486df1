//! The trace: how rows become Parquet parts, how parts are read, and `trace.json`.
//!
//! ```text
//!  rows (lineside-rows) ──► TraceEncoder ──► Part { table, index, bytes } ──► PartSink
//!                           pages of columns;               (files are the
//!                           a row group a part               caller's)
//! ```
//!
//! The encoders follow from the description of the tables in `lineside-rows`. Other tools read the
//! parts too: portable types only, each part complete in itself. No clock here, and files only
//! where a trace is read: written parts are bytes in memory.
//!
//! Without the feature `parquet`, which encodes, only [`Manifest`] and, with the feature `read`,
//! [`read`] remain.
#![forbid(unsafe_code)]

pub mod certificate;
#[cfg(feature = "parquet")]
mod columns;
#[cfg(feature = "parquet")]
mod encoder;
#[cfg(feature = "parquet")]
mod encoders;
mod facts;
mod files;
mod form;
mod manifest;
#[cfg(feature = "parquet")]
mod merge;
#[cfg(feature = "parquet")]
mod page;
#[cfg(feature = "parquet")]
mod part;
#[cfg(feature = "parquet")]
mod part_file;
#[cfg(feature = "read")]
pub mod read;
#[cfg(all(test, feature = "parquet"))]
mod sample;
#[cfg(feature = "parquet")]
mod table_encoder;
mod two_taps;

#[cfg(feature = "parquet")]
pub use columns::{GivenCell, GivenColumn, GivenKind, GivenPart, GivenTable};
#[cfg(feature = "parquet")]
pub use encoder::{PartWindows, TraceEncoder};
#[cfg(feature = "parquet")]
pub use encoders::merge_parts;
pub use facts::{Machine, Role, State, Verdict};
pub use files::{manifest_text, open_file};
pub use manifest::{
    ActorFacts, ChecksumFacts, ClockFacts, CounterValue, DropInFacts, InMemory, InputFacts,
    LiveInput, Manifest, ManifestError, RELIEFS_MAX, Relief, RemovedFacts, Runtime, SECONDS_MAX,
    SandboxFacts, SchedulerFacts, Second, TableSummary, Tool, TrafficFacts,
};
#[cfg(feature = "parquet")]
pub use merge::{MergeError, Merged};
#[cfg(feature = "parquet")]
pub use part::{EncodeError, EncoderConfig, Part, PartSink, Summaries};
pub use two_taps::{TwoTaps, WayBetween};

/// The version of the tables: a new column raises the second number, a changed one the first.
pub const SCHEMA_VERSION: &str = "2.7";

/// How `checksums.checksum` is computed: XXH3, 64 bits, seed 0, over blocks of [`BLOCK_BYTES`].
pub const CHECKSUM: &str = "xxh3-64/seed0/512";

/// Bytes of file data under one checksum.
pub const BLOCK_BYTES: u32 = 512;
