//! The trace: what each table holds, how rows become Parquet parts, and `trace.json`.
//!
//! ```text
//!  rows (OperationRow, …) ──► RecordSink ──► TraceEncoder ──► Part { table, index, bytes } ──► PartSink
//!                                            pages of columns;               (files are the
//!                                            a row group a part               caller's)
//! ```
//!
//! [`tables`] describes every table once; the row, the columns, the Parquet schema and the
//! documentation in `docs/guide/trace.md` follow from that. Other tools read the parts too:
//! portable types only, each part complete in itself. No clock here, and files only where a trace
//! is read: written parts are bytes in memory.
//!
//! Without the feature `parquet`, which encodes, only rows, [`RecordSink`], [`Manifest`] and, with
//! the feature `read`, [`read`] remain.
#![forbid(unsafe_code)]

mod buffer;
mod cell;
#[cfg(feature = "parquet")]
mod columns;
#[cfg(feature = "parquet")]
mod encoder;
mod files;
mod manifest;
#[cfg(feature = "parquet")]
mod merge;
#[cfg(feature = "parquet")]
mod page;
#[cfg(feature = "parquet")]
mod part_file;
#[cfg(feature = "read")]
pub mod read;
#[cfg(all(test, feature = "parquet"))]
mod sample;
mod sink;
#[cfg(feature = "parquet")]
mod table_encoder;
pub mod tables;

pub use cell::{Address, Blob, Cell, ColumnType, Label, Text, Word};
#[cfg(feature = "parquet")]
pub use columns::{GivenCell, GivenColumn, GivenKind, GivenPart, GivenTable};
#[cfg(feature = "parquet")]
pub use encoder::{
    EncodeError, EncoderConfig, Part, PartSink, PartWindows, Summaries, TraceEncoder,
};
pub use files::{manifest_text, open_file};
pub use manifest::{
    ActorFacts, ChecksumFacts, ClockFacts, CounterValue, DropInFacts, InMemory, InputFacts,
    LiveInput, Machine, Manifest, RELIEFS_MAX, Relief, RemovedFacts, Role, Runtime, SECONDS_MAX,
    SandboxFacts, SchedulerFacts, Second, State, TableSummary, Tool, TrafficFacts, Verdict,
};
#[cfg(feature = "parquet")]
pub use merge::{MergeError, Merged, merge_parts};
pub use sink::{ChecksumRun, OperationRows, RecordSink};
pub use tables::{
    ChecksumRow, CollectedRows, ColumnSpec, ConnectionRow, Encoding, FileRow, LossRow,
    MonitorBinRow, MonitorEventRow, MonitorFlowRow, MonitorWindowRow, Nfs4Row, NfsCells, NfsRow,
    OperationCells, OperationRow, PacketRow, Row, RowBuffer, RowRef, ServiceRow, Table,
};

/// The version of the tables: a new column raises the second number, a changed one the first.
pub const SCHEMA_VERSION: &str = "2.5";

/// Whether a word of the columns `status` or `rpc_status` means success. Most protocols' ends in
/// `_OK`; NLM and KLM grant, NSM has a name of its own, and so has RPC; HTTP has 2xx and 3xx (RFC
/// 9110, 15), DNS `NOERROR` (RFC 2929, 2.3); what memcached finds, misses and stores is none of its
/// errors.
pub fn is_success(status: &str) -> bool {
    // The most frequent first.
    status.ends_with("_OK")
        || matches!(status, "SUCCESS" | "STAT_SUCC" | "NOERROR")
        || matches!(status, "HIT" | "MISS" | "STORED")
        || status.ends_with("_GRANTED")
        || matches!(status.as_bytes(), [b'2' | b'3', b'0'..=b'9', b'0'..=b'9'])
}

/// How `checksums.checksum` is computed: XXH3, 64 bits, seed 0, over blocks of [`BLOCK_BYTES`].
pub const CHECKSUM: &str = "xxh3-64/seed0/512";

/// Bytes of file data under one checksum.
pub const BLOCK_BYTES: u32 = 512;

#[cfg(test)]
mod tests {
    use super::is_success;

    #[test]
    fn each_protocols_success_is_known() {
        for status in [
            "SUCCESS",
            "NFS_OK",
            "NFS3_OK",
            "NFS4_OK",
            "MNT_OK",
            "MNT3_OK",
            "Q_OK",
            "STAT_SUCC",
            "LCK_GRANTED",
            "NLM4_GRANTED",
            "KLM_GRANTED",
            "200",
            "304",
            "NOERROR",
            "MISS",
        ] {
            assert!(is_success(status), "{status}");
        }
        for status in [
            "PROG_UNAVAIL",
            "NFS3ERR_NOENT",
            "STAT_FAIL",
            "Q_EPERM",
            "NLM4_DENIED",
            "LCK_BLOCKED",
            "KLM_DENIED",
            "MNT3ERR_ACCES",
            "10044",
            "404",
            "NXDOMAIN",
            "NOT_STORED",
            "503",
            "",
        ] {
            assert!(!is_success(status), "{status}");
        }
    }
}
