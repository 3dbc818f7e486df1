//! The rows of a trace: what each table holds, and where rows go.
//!
//! ```text
//!  engine, role ──► row (OperationRow, …) ──► RecordSink: an encoder, an analysis, a test
//! ```
//!
//! [`for_each_table`] describes every table once; the row, the columns, their encoders in
//! `lineside-trace` and the documentation in `docs/guide/trace.md` follow from that. How rows are
//! encoded, and where, is not here: an engine that makes rows needs no more than this.
#![forbid(unsafe_code)]

mod buffer;
mod cell;
mod description;
mod tables;

pub use cell::{Address, Blob, Cell, ColumnType, Label, Text, Word, escape, unescape};
pub use tables::{
    ChecksumRow, ChecksumRun, CollectedRows, ColumnSpec, ConnectionRow, Encoding, FileRow, LossRow,
    MonitorBinRow, MonitorEventRow, MonitorFlowRow, MonitorWindowRow, Nfs4Row, NfsCells, NfsRow,
    OperationCells, OperationRow, OperationRows, PacketRow, RecordSink, Row, RowBuffer, RowRef,
    ServiceRow, Table,
};

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
