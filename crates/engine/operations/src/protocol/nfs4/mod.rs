//! NFSv4 and its callbacks: a row for each operation of a compound.
//!
//! The operations of a compound have a slot each, chained to that of the first, which alone stands
//! in the connection's table of calls. Call and reply are read an operation at a time
//! ([`compound`]), so that file data in their middle passes as it comes:
//!
//! ```text
//!  call   header ─ SEQUENCE ─ PUTFH ─ WRITE ─ data ─ GETATTR
//!                     │         │       │               │
//!  slots            first ──► next ──► next ────────► next
//!                     │         │       │               │
//!  reply  header ─ SEQUENCE ─ PUTFH ─ WRITE ───────── GETATTR
//! ```
//!
//! The file that an operation is about is worked out when both have ended ([`current_file`]), since
//! only a GETFH after a LOOKUP gives the handle that the LOOKUP found.

use lineside_account::Counter;
use lineside_frame::Cursor;
use lineside_nfs::v4::{self, callback};
use lineside_rows::{OperationRow, RecordSink, RowRef, Word, is_success};
use lineside_rpc::record::Want;
use lineside_rpc::xdr::Xdr;

use super::{Incoming, Needs, Protocol};
use crate::details::{set_text, word};
use crate::files::Fact;
use crate::operation::{self, Operation, mark_incomplete};
use crate::procedure::{CompoundLink, FilesOfCompound, Nfs4, Progress, State};
use crate::rows::Rows;
use crate::slot::Slot;

mod columns;
mod compound;
mod current_file;

use compound::CompoundReader;

/// An operation's place in its compound.
#[inline]
fn link(operation: &Operation) -> CompoundLink {
    match operation.state {
        State::Nfs4(link) => link,
        State::None => CompoundLink::default(),
    }
}

#[inline]
fn link_mut(operation: &mut Operation) -> &mut CompoundLink {
    let state = &mut operation.state;
    if let State::None = state {
        *state = State::Nfs4(CompoundLink::default());
    }
    let State::Nfs4(link) = state else {
        unreachable!("it was set, and no other protocol has a state");
    };
    link
}

impl Protocol for Nfs4 {
    type Call<'a> = v4::CallHeader<'a>;
    type Reply<'a> = v4::ReplyHeader<'a>;

    const GOES_ON: bool = true;

    #[inline]
    fn call_needs(self) -> Needs {
        Needs::Beginning
    }

    #[inline]
    fn reply_needs(self) -> Needs {
        Needs::Beginning
    }

    fn decode_call<'a>(self, cursor: &mut Cursor<'a>) -> v4::CallHeader<'a> {
        match self {
            Self::Compound => v4::CallHeader::decode(cursor),
            Self::Callback => callback::CallHeader::decode(cursor).into(),
        }
    }

    fn decode_reply<'a>(self, cursor: &mut Cursor<'a>) -> v4::ReplyHeader<'a> {
        v4::ReplyHeader::decode(cursor)
    }

    /// The first row has what all of the compound has in common.
    fn on_call(
        self,
        header: &v4::CallHeader<'_>,
        incoming: &mut impl Incoming,
        slot: Slot,
        cursor: &mut Cursor<'_>,
    ) -> Want {
        let operation = &mut incoming.operations().0[slot];
        operation.row.call_incomplete = cursor.fault().is_some();
        operation.details.has_nfs4 = true;
        let details = &mut operation.details.nfs4;
        details.minor_version = header.minor_version.map(i64::from);
        set_text(&mut details.tag, header.tag.as_deref());
        details.compound_operations = header.operation_count.map(i64::from);
        self.begin(incoming, slot, header.operation_count, cursor)
    }

    fn on_reply(
        self,
        header: &v4::ReplyHeader<'_>,
        incoming: &mut impl Incoming,
        slot: Slot,
        cursor: &mut Cursor<'_>,
    ) -> Want {
        let operation = &mut incoming.operations().0[slot];
        operation.row.reply_incomplete = cursor.fault().is_some();
        operation.details.nfs4.compound_status = header
            .status
            .map_or(Word::None, |status| word(status.name(), status.0));
        link_mut(operation).results = header.operation_count;
        self.begin(incoming, slot, header.operation_count, cursor)
    }

    fn read_on(self, incoming: &mut impl Incoming, cursor: Cursor<'_>) -> Want {
        let Some(mut reader) = CompoundReader::new(self, incoming) else {
            return Want::End;
        };
        let want = reader.read_operations(cursor);
        reader.end();
        want
    }

    fn write_rows<S: RecordSink>(self, rows: &mut Rows<'_, S>, slot: Slot) {
        let mut files = std::mem::take(&mut rows.scratch.compound);
        // Each operation of a callback names its file itself.
        let has_current = matches!(self, Self::Compound);
        if has_current {
            files.resolve(rows.operations, slot);
        }
        write_operations(rows, slot);
        if has_current {
            report_files(&files, rows, slot);
        }
        rows.scratch.compound = files;
        let mut next = Some(slot);
        while let Some(slot) = next {
            next = link(&rows.operations[slot]).next;
            rows.report_rename(slot);
            rows.operations.release(slot);
        }
    }
}

impl Nfs4 {
    /// Reads the operations after the header of a call or a reply.
    fn begin(
        self,
        incoming: &mut impl Incoming,
        slot: Slot,
        operation_count: Option<u32>,
        cursor: &Cursor<'_>,
    ) -> Want {
        if let Some(open) = incoming.opened() {
            open.progress = Some(Progress::new(slot, operation_count));
        }
        self.read_on(incoming, *cursor)
    }
}

/// Writes a row for each operation of the compound.
fn write_operations<S: RecordSink>(rows: &mut Rows<'_, S>, first: Slot) {
    let CompoundLink {
        results,
        mut contradicts,
        ..
    } = link(&rows.operations[first]);
    let details = &rows.operations[first].details.nfs4;
    let mut fit = Fit {
        called: details.compound_operations,
        status: details.compound_status,
        ..Fit::default()
    };
    // Out of its slot while the others borrow from it.
    let mut whole = std::mem::take(&mut rows.operations[first].row);
    let mut next = Some(first);
    while let Some(slot) = next {
        let operation = &mut rows.operations[slot];
        let row = if slot == first {
            &mut whole
        } else {
            share(&whole, &mut operation.row);
            &mut operation.row
        };
        if let (Some(results), Some(index)) = (results, row.compound_index) {
            // A compound that succeeded has executed all.
            row.not_executed = index as u32 >= results && !is_ok(fit.status);
            row.reply_incomplete |= !row.not_executed && row.status == Word::None;
            fit.on_row(row, index as u32 >= results);
        }
        mark_incomplete(row, rows.counters);
        contradicts |= operation::contradicts(row);
        rows.sink.row(RowRef::Operations(row));
        if rows.wants.details {
            operation.details.write(row.operation_id, rows.sink);
        }
        next = link(operation).next;
    }
    let is_whole = !(whole.call_missing || whole.reply_missing || whole.reply_ambiguous);
    contradicts |= results.is_some_and(|of| fit.contradicts(of));
    if is_whole && contradicts {
        rows.counters.count(Counter::RepliesContradicting);
    }
    rows.operations[first].row = whole;
}

/// Whether the results of a compound fit its call and its status, as far as both were seen.
#[derive(Default)]
struct Fit {
    called: Option<i64>,
    status: Word,
    /// The status of the last result.
    last: Word,
    /// One failed, and others follow.
    goes_on: bool,
    /// A call or a result was not read.
    is_unknown: bool,
    rows: i64,
}

impl Fit {
    /// The next row; `is_beyond`: the reply has no result for it.
    #[inline]
    fn on_row(&mut self, row: &OperationRow, is_beyond: bool) {
        self.is_unknown |= row.call_incomplete;
        self.rows += 1;
        if !is_beyond {
            self.is_unknown |= row.status == Word::None;
            self.goes_on |= self.last != Word::None && !is_ok(self.last);
            self.last = row.status;
        }
    }

    fn contradicts(&self, results: u32) -> bool {
        let Some(called) = self.called.filter(|_| !self.is_unknown) else {
            return false;
        };
        let results = i64::from(results);
        if self.rows < results.min(called) {
            return false;
        }
        let is_other = match is_ok(self.status) {
            true => results < called || results > 0 && !is_ok(self.last),
            false => self.status != Word::None && results > 0 && self.last != self.status,
        };
        self.goes_on || results > called || is_other
    }
}

fn is_ok(status: Word) -> bool {
    matches!(status, Word::Known(status) if is_success(status))
}

/// Reports the files whose handles the compound has.
fn report_files<S: RecordSink>(files: &FilesOfCompound, rows: &mut Rows<'_, S>, first: Slot) {
    let whole = &rows.operations[first].row;
    let is_ambiguous = whole.reply_ambiguous;
    let time_ns = whole.reply_end_ns.or(whole.call_end_ns);
    let server = whole.server_address;
    for object in files.objects() {
        let (Some(holder), Some(file_id), Some(server)) = (object.holder, object.id, server) else {
            continue;
        };
        let holder = &mut rows.operations[holder];
        let Some(handle) = holder.handle.take() else {
            continue;
        };
        let operation_id = holder.row.operation_id;
        let mut name = std::mem::take(&mut rows.scratch.name);
        name.clear();
        let maker = object.maker.map(|maker| &rows.operations[maker].row);
        let made = maker.and_then(|row| row.name.bytes());
        name.extend_from_slice(made.unwrap_or(&[]));
        let attributes = object.attributes.filter(|_| !is_ambiguous);
        let attributes = attributes.map(|slot| &rows.operations[slot].row);
        let fact = Fact {
            operation_id,
            time_ns,
            server,
            handle: handle.bytes(),
            file_id: Some(file_id),
            fileid: None,
            parent: made.and(maker).and_then(|row| row.file_id),
            name: made.is_some().then_some(&name),
            file_type: attributes.map_or(Word::None, |row| row.file_type),
            size: attributes.and_then(|row| row.file_size),
        };
        rows.report_fact(&fact);
        rows.scratch.name = name;
    }
}

/// Copies what all operations of a compound have in common: all but what is counted once, in the
/// first row.
fn share(whole: &OperationRow, row: &mut OperationRow) {
    row.rpc_id = whole.rpc_id;
    row.connection_id = whole.connection_id;
    row.call_time_ns = whole.call_time_ns;
    row.call_end_ns = whole.call_end_ns;
    row.reply_time_ns = whole.reply_time_ns;
    row.reply_end_ns = whole.reply_end_ns;
    row.call_recovery_ns = whole.call_recovery_ns;
    row.reply_recovery_ns = whole.reply_recovery_ns;
    row.call_frame = whole.call_frame;
    row.reply_frame = whole.reply_frame;
    row.call_input = whole.call_input;
    row.reply_input = whole.reply_input;
    row.client_address = whole.client_address;
    row.server_address = whole.server_address;
    row.client_port = whole.client_port;
    row.server_port = whole.server_port;
    row.transport = whole.transport;
    row.xid = whole.xid;
    row.program = whole.program;
    row.program_number = whole.program_number;
    row.version = whole.version;
    row.rpc_status = whole.rpc_status;
    row.auth_flavor = whole.auth_flavor;
    row.user_id = whole.user_id;
    row.group_id = whole.group_id;
    row.call_missing = whole.call_missing;
    row.reply_missing = whole.reply_missing;
    row.repeat = whole.repeat;
    row.repeat_of = whole.repeat_of;
    row.reply_ambiguous = whole.reply_ambiguous;
}
