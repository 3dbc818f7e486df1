//! NFSv3 (RFC 1813): a row for each call. WRITE is read from its beginning on, and so is the reply
//! to READ.

use std::net::IpAddr;

use lineside_frame::Cursor;
use lineside_nfs::v3;
use lineside_rows::{OperationCells, OperationRow, RecordSink, Word};
use lineside_rpc::record::Want;
use lineside_rpc::xdr::{InPlace, Optional};

use super::{Incoming, Needs, Protocol};
use crate::details::{with_bytes, word};
use crate::files::{Fact, file_id, file_id_of, handle_bytes};
use crate::procedure::Nfs3;
use crate::rows::Rows;
use crate::slot::Slot;

mod columns;
mod fast_path;

pub(crate) use columns::{file_type, object, set_attributes};
pub(crate) use fast_path::{FastArguments, FastResults, FastRows, NoCells};

impl Protocol for Nfs3 {
    type Call<'a> = v3::Call<'a>;
    type Reply<'a> = v3::Reply<'a>;

    #[inline]
    fn call_needs(self) -> Needs {
        match self.0 {
            v3::Procedure::Write => Needs::Beginning,
            _ => Needs::Whole,
        }
    }

    #[inline]
    fn reply_needs(self) -> Needs {
        match self.0 {
            v3::Procedure::Read => Needs::Beginning,
            _ => Needs::Whole,
        }
    }

    #[inline]
    fn decode_call<'a>(self, cursor: &mut Cursor<'a>) -> v3::Call<'a> {
        v3::Call::decode(self.0, cursor)
    }

    #[inline]
    fn decode_reply<'a>(self, cursor: &mut Cursor<'a>) -> v3::Reply<'a> {
        v3::Reply::decode(self.0, cursor)
    }

    fn on_call(
        self,
        call: &v3::Call<'_>,
        incoming: &mut impl Incoming,
        slot: Slot,
        cursor: &mut Cursor<'_>,
    ) -> Want {
        let server = incoming.receiver();
        let (operations, counters) = incoming.operations();
        let operation = &mut operations[slot];
        let row = &mut operation.row;
        let handle = call.file().map(|handle| handle.view());
        row.file_id = handle.map(|handle| file_id_of(server, &handle));
        common_of_call(call, server, row);
        let details = &mut operation.details;
        details.has_nfs |= columns::of_call(call, &mut details.nfs, counters);
        let mut want = Want::End;
        if let v3::Call::Write(write) = call
            && let Some(len) = write.data_len
        {
            want = incoming.expect_data_to_end(slot, write.offset, len, cursor);
            if write.count.is_some_and(|count| count != len) {
                cursor.reject();
            }
        }
        incoming.end_call(slot, handle, cursor);
        want
    }

    fn on_reply(
        self,
        reply: &v3::Reply<'_>,
        incoming: &mut impl Incoming,
        slot: Slot,
        cursor: &mut Cursor<'_>,
    ) -> Want {
        let server = incoming.sender();
        let (operations, counters) = incoming.operations();
        let operation = &mut operations[slot];
        let row = &mut operation.row;
        let attributes = reply.attributes();
        let result = reply.object();
        let result_file = result.map(|result| file_id_of(server, &result));
        common_of_reply(reply, attributes.as_ref(), result_file, row);
        let details = &mut operation.details;
        details.has_nfs |=
            columns::of_reply(reply, attributes.as_ref(), &mut details.nfs, counters);
        let offset = row.offset.map(i64::cast_unsigned);
        let mut want = Want::End;
        if let v3::Reply::Read(outcome) = reply
            && let Some(ok) = outcome.ok()
            && let Some(len) = ok.data_len
        {
            want = incoming.expect_data_to_end(slot, offset, len, cursor);
            if ok.count.is_some_and(|count| count != len) {
                cursor.reject();
            }
        }
        incoming.end_reply(slot, cursor);
        incoming.report_result(slot, result.map(|result| result.view()), server);
        report_listing(reply, incoming, slot, server);
        want
    }

    #[inline]
    fn write_rows<S: RecordSink>(self, rows: &mut Rows<'_, S>, slot: Slot) {
        rows.write(slot, is_about_call(self.0));
    }
}

/// Whether the attributes in a reply are those of the call's file: otherwise of the object that was
/// found or made.
fn is_about_call(procedure: v3::Procedure) -> bool {
    use v3::Procedure::{Create, Lookup, MkDir, MkNod, SymLink};
    !matches!(procedure, Lookup | Create | MkDir | SymLink | MkNod)
}

/// Sets the cells of the arguments that other protocols have too, but for the file.
#[inline]
fn common_of_call(call: &v3::Call<'_>, server: IpAddr, cells: &mut impl OperationCells) {
    if let Some(file2) = call.file2() {
        cells.file2_id(Some(file_id_of(server, &file2)));
    }
    with_bytes(call.name().as_deref(), |name| cells.name(name));
    if let v3::Call::Rename(args) = call {
        with_bytes(args.to.name.as_deref(), |name| cells.name2(name));
    }
    cells.offset(call.offset().map(u64::cast_signed));
    if columns::moves_data(call) {
        cells.count(call.count().map(i64::from));
    }
}

/// Sets the cells of the results that other protocols have too.
#[inline]
fn common_of_reply(
    reply: &v3::Reply<'_>,
    attributes: Option<&InPlace<'_, v3::Attributes>>,
    result_file: Option<i64>,
    cells: &mut impl OperationCells,
) {
    let status = reply.status();
    cells.status(status.map_or(Word::None, |status| word(v3::status_name(status), status)));
    cells.transferred(reply.transferred().map(i64::from));
    if let Some(attributes) = attributes {
        let (file_type, size) = type_and_size(*attributes);
        cells.file_size(size);
        cells.file_type(file_type);
    }
    cells.result_file_id(result_file);
}

#[inline]
fn type_and_size(attributes: InPlace<'_, v3::Attributes>) -> (Word, Option<i64>) {
    let (file_type, size) = attributes.with(|seen| (seen.file_type, seen.size));
    let file_type = file_type.map_or(Word::None, columns::file_type);
    (file_type, size.map(u64::cast_signed))
}

/// Reports the names that a directory's listing has, with their handles as far as it has them.
fn report_listing(reply: &v3::Reply<'_>, incoming: &mut impl Incoming, slot: Slot, server: IpAddr) {
    match reply {
        v3::Reply::ReadDirPlus(outcome) => {
            if let Some(listing) = outcome.ok() {
                report_entries(listing.entries.iter(), incoming, slot, server);
            }
        }
        v3::Reply::ReadDir(outcome) => {
            if let Some(listing) = outcome.ok() {
                let entries = listing.entries.iter().map(|entry| v3::EntryPlus {
                    fileid: entry.fileid,
                    name: entry.name,
                    ..v3::EntryPlus::default()
                });
                report_entries(entries, incoming, slot, server);
            }
        }
        _ => {}
    }
}

fn report_entries<'a>(
    entries: impl Iterator<Item = v3::EntryPlus<'a>>,
    incoming: &mut impl Incoming,
    slot: Slot,
    server: IpAddr,
) {
    if !incoming.may_report(slot) {
        return;
    }
    let OperationRow {
        operation_id,
        file_id: parent,
        ..
    } = incoming.operations().0[slot].row;
    let time_ns = incoming.message().last.stamp_ns;
    let mut rows = incoming.rows();
    for entry in entries {
        let Some(name) = entry.name else {
            continue;
        };
        let mut copy = None;
        let handle = entry.handle.value();
        let handle = { handle.as_ref() }.map(|handle| handle_bytes(handle, &mut copy));
        let mut scratch = std::mem::take(&mut rows.scratch.name);
        let name = match name.contiguous() {
            Some(bytes) => bytes,
            None => {
                scratch.clear();
                name.copy_to(&mut scratch);
                &scratch
            }
        };
        let (file_type, size) = match entry.attributes {
            Optional::Present(attributes) => attributes.with(|seen| (seen.file_type, seen.size)),
            Optional::Unread | Optional::Absent => (None, None),
        };
        let fact = Fact {
            operation_id,
            time_ns,
            server,
            handle: handle.unwrap_or(&[]),
            file_id: handle.map(|handle| file_id(server, handle)),
            fileid: entry.fileid.map(u64::cast_signed),
            parent,
            name: Some(name),
            file_type: file_type.map_or(Word::None, columns::file_type),
            size: size.map(u64::cast_signed),
        };
        rows.report_entry(&fact);
        rows.scratch.name = scratch;
    }
}
