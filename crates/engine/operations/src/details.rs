//! What an operation has beyond the table `operations`, and how fields become cells.

use lineside_frame::View;
use lineside_rows::{Blob, Nfs4Row, NfsRow, RecordSink, RowRef, ServiceRow, Table, Text, Word};
use lineside_rpc::message::{AcceptStatus, Rejection, ReplyHeader};

/// Rows of an operation in the tables that belong to one protocol each. One whose flag is not set
/// is empty.
#[derive(Debug, Default)]
pub(crate) struct Details {
    pub(crate) nfs: NfsRow,
    pub(crate) nfs4: Nfs4Row,
    pub(crate) service: ServiceRow,
    pub(crate) has_nfs: bool,
    pub(crate) has_nfs4: bool,
    pub(crate) has_service: bool,
}

impl Details {
    /// Whether a sink wants any of them.
    pub(crate) fn wanted(sink: &impl RecordSink) -> bool {
        [Table::Nfs, Table::Nfs4, Table::Services]
            .iter()
            .any(|&table| sink.wants(table))
    }

    /// Gives the rows that have a value to `sink`, as those of an operation.
    pub(crate) fn write(&mut self, operation_id: i64, sink: &mut impl RecordSink) {
        if self.has_nfs {
            self.nfs.operation_id = operation_id;
            sink.row(RowRef::Nfs(&self.nfs));
        }
        if self.has_nfs4 {
            self.nfs4.operation_id = operation_id;
            sink.row(RowRef::Nfs4(&self.nfs4));
        }
        if self.has_service {
            self.service.operation_id = operation_id;
            sink.row(RowRef::Services(&self.service));
        }
    }

    /// Why RPC refused a call.
    #[cold]
    pub(crate) fn set_refusal(&mut self, reply: &ReplyHeader<'_>) {
        let row = &mut self.service;
        let versions = match reply {
            ReplyHeader::Denied(Rejection::AuthError(Some(status))) => {
                row.auth_error = word(status.name(), status.0);
                self.has_service = true;
                return;
            }
            ReplyHeader::Denied(Rejection::RpcMismatch(versions)) => versions,
            ReplyHeader::Accepted(reply) => match &reply.status {
                AcceptStatus::ProgMismatch(versions) => versions,
                _ => return,
            },
            _ => return,
        };
        row.version_min = versions.low.map(i64::from);
        row.version_max = versions.high.map(i64::from);
        self.has_service = true;
    }

    /// Empty again; memory of texts is kept.
    #[inline]
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.has_nfs) {
            self.nfs.clear();
        }
        if std::mem::take(&mut self.has_nfs4) {
            self.nfs4.clear();
        }
        if std::mem::take(&mut self.has_service) {
            self.service.clear();
        }
    }
}

/// A constant by its name, or by its number if the protocol knows no name for it.
pub(crate) fn word(name: Option<&'static str>, number: u32) -> Word {
    match name {
        Some(name) => Word::Known(name),
        None => Word::Number(i64::from(number)),
    }
}

/// Sets a cell to bytes that may lie in several pieces.
pub(crate) fn set_blob(blob: &mut Blob, view: &View<'_>) {
    blob.set(&[]);
    for slice in view.slices() {
        blob.append(slice);
    }
}

/// Gives the bytes that a view has, if there is one, wherever they lie.
#[inline]
pub(crate) fn with_bytes(view: Option<&View<'_>>, take: impl FnOnce(Option<&[u8]>)) {
    match view.map(View::contiguous) {
        None => take(None),
        Some(Some(bytes)) => take(Some(bytes)),
        Some(None) => {
            let mut bytes = Vec::new();
            view.inspect(|view| view.copy_to(&mut bytes));
            take(Some(&bytes));
        }
    }
}

/// Sets a cell to a text, if there is one.
pub(crate) fn set_text(text: &mut Text, view: Option<&View<'_>>) {
    let Some(view) = view else {
        return;
    };
    if let Some(bytes) = view.contiguous() {
        return text.set(bytes);
    }
    text.set(&[]);
    for slice in view.slices() {
        text.append(slice);
    }
}

/// A verifier as a number.
pub(crate) fn bits(verifier: [u8; 8]) -> i64 {
    i64::from_be_bytes(verifier)
}
