//! A call or a reply with a compound, read an operation at a time.

use lineside_account::Counter;
use lineside_frame::{Cursor, Fault};
use lineside_nfs::v4::{self, Operation as Op, callback};
use lineside_rows::Word;
use lineside_rpc::record::Want;
use lineside_rpc::xdr::{Xdr, padding};

use super::{columns, link, link_mut};
use crate::details::{set_text, word};
use crate::files::{Fact, HandleBytes, file_id, file_id_of};
use crate::procedure::{Nfs4, Progress};
use crate::protocol::Incoming;
use crate::slot::Slot;

/// Operations of one compound that are recorded: servers allow some hundred at most.
const OPERATIONS_MAX: u32 = 1024;

/// What was read of a message.
enum Step {
    /// An operation; what follows it can be read.
    Next,
    /// An operation up to its data, of this many bytes.
    Data(u32),
    /// Nothing: too little has come.
    Wait,
    /// All that can be.
    Stop,
}

impl Progress {
    /// Nothing was read of the compound that begins in `first`.
    pub(super) fn new(first: Slot, operation_count: Option<u32>) -> Self {
        Self {
            left: operation_count.unwrap_or(0),
            index: 0,
            last: first,
            segments: 0,
        }
    }
}

/// Reads the operations of one message, as far as they have come.
pub(super) struct CompoundReader<'r, I> {
    incoming: &'r mut I,
    kind: Nfs4,
    is_call: bool,
    first: Slot,
    progress: Progress,
}

impl<'r, I: Incoming> CompoundReader<'r, I> {
    /// `None`: the message belongs to no compound any more.
    pub(super) fn new(kind: Nfs4, incoming: &'r mut I) -> Option<Self> {
        let open = incoming.opened()?;
        let (is_call, first, progress) = (open.is_call, open.slot?, open.progress?);
        Some(Self {
            incoming,
            kind,
            is_call,
            first,
            progress,
        })
    }

    /// What follows the cursor is read when more has come.
    pub(super) fn end(self) {
        if let Some(open) = self.incoming.opened() {
            open.progress = Some(self.progress);
        }
    }

    /// Reads on in a compound, of which all before the cursor was read.
    pub(super) fn read_operations(&mut self, mut cursor: Cursor<'_>) -> Want {
        while self.progress.left > 0 || self.progress.segments > 0 {
            let before = cursor;
            let step = match (self.is_call, self.kind) {
                (true, Nfs4::Compound) => self.read_call(&mut cursor),
                (true, Nfs4::Callback) => self.read_callback(&mut cursor),
                (false, Nfs4::Compound) if self.progress.segments > 0 => {
                    self.read_segment(&mut cursor)
                }
                (false, Nfs4::Compound) => self.read_result(&mut cursor),
                (false, Nfs4::Callback) => self.read_callback_result(&mut cursor),
            };
            match step {
                Step::Next => {}
                Step::Data(len) => {
                    return Want::Data {
                        from: cursor.position(),
                        len: u64::from(len) + padding(len as usize) as u64,
                    };
                }
                // What was read is done with.
                Step::Wait if before.position() > 0 => {
                    return Want::Data {
                        from: before.position(),
                        len: 0,
                    };
                }
                // A long operation is not tried again at each segment that comes.
                Step::Wait => return Want::More(cursor.needed().max(2 * before.remaining())),
                Step::Stop => {
                    self.incoming.count_malformed(&cursor);
                    break;
                }
            }
        }
        Want::End
    }

    fn read_call(&mut self, cursor: &mut Cursor<'_>) -> Step {
        let start = *cursor;
        let call = v4::Call::decode(cursor);
        if self.must_wait(cursor) {
            return Step::Wait;
        }
        let known = call.operation().map(Op::name);
        let Some(slot) = self.call_row(call.number(), known) else {
            return Step::Stop;
        };
        let server = self.incoming.receiver();
        let (operations, counters) = self.incoming.operations();
        let operation = &mut operations[slot];
        let (row, details) = (&mut operation.row, &mut operation.details);
        row.call_incomplete = cursor.fault().is_some();
        // Most have nothing beside their number but a handle.
        let is_plain = matches!(
            call,
            v4::Call::PutFh(_)
                | v4::Call::GetAttr(_)
                | v4::Call::GetFh(())
                | v4::Call::SaveFh(())
                | v4::Call::RestoreFh(())
        );
        if let v4::Call::GetAttr(args) = &call {
            details.has_nfs |= columns::set_bitmap(&mut details.nfs, args.request);
        } else if !is_plain {
            set_text(&mut row.name, call.name().as_deref());
            if let v4::Call::Rename(args) = &call {
                set_text(&mut row.name2, args.to.as_deref());
            }
            row.offset = call.offset().map(u64::cast_signed);
            if columns::moves_data(&call) {
                row.count = call.count().map(u64::cast_signed);
            }
            columns::of_call(&call, row, details, counters);
            columns::put_rest(&call, start, cursor, details);
        }
        if let Some(handle) = call.handle() {
            let file = file_id_of(server, &handle);
            row.file_id = Some(file);
            let is_known = self.incoming.has_reported(file);
            self.keep_handle(slot, &handle, !is_known);
        }
        if let v4::Call::Sequence(args) = &call {
            self.use_slot(args.session.zip(args.slot).zip(args.sequence));
        }
        if cursor.fault().is_some() {
            return Step::Stop;
        }
        if is_plain {
            return Step::Next;
        }
        let offset = match &call {
            v4::Call::Write(args) => args.offset,
            _ => None,
        };
        self.data_follows(slot, offset, call.data_len())
    }

    fn read_callback(&mut self, cursor: &mut Cursor<'_>) -> Step {
        let call = callback::Call::decode(cursor);
        if self.must_wait(cursor) {
            return Step::Wait;
        }
        let known = call.operation().map(callback::Operation::name);
        let Some(slot) = self.call_row(call.number(), known) else {
            return Step::Stop;
        };
        // The files are the caller's.
        let owner = self.incoming.sender();
        let operations = self.incoming.operations().0;
        let operation = &mut operations[slot];
        let (row, details) = (&mut operation.row, &mut operation.details);
        row.call_incomplete = cursor.fault().is_some();
        row.offset = call.offset().map(u64::cast_signed);
        row.count = call.count().map(u64::cast_signed);
        row.file_id = call.handle().map(|handle| file_id_of(owner, &handle));
        columns::of_callback(&call, details);
        match cursor.fault() {
            Some(_) => Step::Stop,
            None => Step::Next,
        }
    }

    fn read_result(&mut self, cursor: &mut Cursor<'_>) -> Step {
        let reply = v4::Reply::decode(cursor);
        if self.must_wait(cursor) {
            return Step::Wait;
        }
        let Some(slot) = self.result_row(reply.number(), cursor) else {
            return Step::Stop;
        };
        self.incoming.note_short(cursor);
        let server = self.incoming.sender();
        let (operations, counters) = self.incoming.operations();
        let operation = &mut operations[slot];
        let (row, details) = (&mut operation.row, &mut operation.details);
        row.status = status(reply.status());
        row.reply_incomplete = cursor.fault().is_some();
        // Many results are a status alone.
        if let v4::Reply::PutFh(_)
        | v4::Reply::Lookup(_)
        | v4::Reply::SaveFh(_)
        | v4::Reply::RestoreFh(_) = reply
        {
            return match cursor.fault() {
                Some(_) => Step::Stop,
                None => Step::Next,
            };
        }
        let is_of_other = columns::is_of_other_slot(&reply, details);
        columns::of_reply(&reply, row, details, counters);
        if is_of_other {
            link_mut(&mut self.incoming.operations().0[self.first]).contradicts = true;
        }
        if let Some(handle) = reply.handle() {
            let row = &mut self.incoming.operations().0[slot].row;
            row.file_id = Some(file_id_of(server, &handle));
            let may_report = self.incoming.may_report(self.first);
            self.keep_handle(slot, &handle, may_report);
        }
        if let v4::Reply::ReadDir(outcome) = &reply
            && let Some(listing) = outcome.ok()
            && self.incoming.may_report(self.first)
        {
            self.report_entries(slot, listing);
        }
        if cursor.fault().is_some() {
            return Step::Stop;
        }
        let operation = &mut self.incoming.operations().0[slot];
        if let Some(segments) = reply.segment_count() {
            operation.row.transferred = Some(0);
            self.progress.segments = segments;
            return Step::Next;
        }
        let offset = operation.row.offset.map(i64::cast_unsigned);
        self.data_follows(slot, offset, reply.data_len())
    }

    fn read_callback_result(&mut self, cursor: &mut Cursor<'_>) -> Step {
        let reply = callback::Reply::decode(cursor);
        if self.must_wait(cursor) {
            return Step::Wait;
        }
        let Some(slot) = self.result_row(reply.number(), cursor) else {
            return Step::Stop;
        };
        let (operations, counters) = self.incoming.operations();
        let operation = &mut operations[slot];
        let row = &mut operation.row;
        row.status = status(reply.status());
        row.reply_incomplete = cursor.fault().is_some();
        if let Some(attributes) = reply.attributes() {
            columns::object(attributes, row, &mut operation.details, counters);
        }
        self.incoming.note_short(cursor);
        match cursor.fault() {
            Some(_) => Step::Stop,
            None => Step::Next,
        }
    }

    /// A segment of READ_PLUS.
    fn read_segment(&mut self, cursor: &mut Cursor<'_>) -> Step {
        let segment = v4::Segment::decode(cursor);
        if self.must_wait(cursor) {
            return Step::Wait;
        }
        let slot = self.progress.last;
        let row = &mut self.incoming.operations().0[slot].row;
        let (offset, len, moved) = match &segment {
            v4::Segment::Data(data) => (data.offset, data.data_len, data.data_len.map(u64::from)),
            v4::Segment::Hole(hole) => (None, None, hole.length),
            _ => (None, None, None),
        };
        let Some(moved) = moved.filter(|_| cursor.fault().is_none()) else {
            (row.transferred, row.reply_incomplete) = (None, true);
            return Step::Stop;
        };
        let so_far = row.transferred.unwrap_or(0);
        row.transferred = Some(so_far.saturating_add(moved.cast_signed().max(0)));
        self.progress.segments -= 1;
        self.data_follows(slot, offset, len)
    }

    /// The slot of an operation of the call, with its name if it is `known`; `None` if its number
    /// was not seen, or there is no room for it.
    fn call_row(&mut self, number: Option<u32>, known: Option<&'static str>) -> Option<Slot> {
        let Some(number) = number else {
            let last = self.progress.last;
            self.incoming.operations().0[last].row.call_incomplete = true;
            return None;
        };
        let slot = self.new_row()?;
        let operation = &mut self.incoming.operations().0[slot];
        link_mut(operation).number = Some(number);
        operation.row.operation = word(known, number);
        if known.is_none() {
            self.incoming
                .operations()
                .1
                .count(Counter::OperationsUnknown);
        }
        Some(slot)
    }

    /// The slot of the operation that the next result answers; `None` if they do not belong
    /// together.
    fn result_row(&mut self, number: Option<u32>, cursor: &mut Cursor<'_>) -> Option<Slot> {
        let Progress { index, last, .. } = self.progress;
        let Some(number) = number else {
            self.incoming.operations().0[last].row.reply_incomplete = true;
            return None;
        };
        let first = &self.incoming.operations().0[self.first];
        let (is_read, count) = (
            link(first).number.is_some(),
            first.details.nfs4.compound_operations,
        );
        let called = if index > 0 {
            link(&self.incoming.operations().0[last]).next
        } else {
            is_read.then_some(self.first)
        };
        if let Some(slot) = called {
            // A number that the server does not know is answered as OP_ILLEGAL.
            let is_other = link(&self.incoming.operations().0[slot]).number != Some(number);
            if is_other && number != Op::Illegal.number() {
                cursor.reject();
                return None;
            }
            self.advance(slot);
            return Some(slot);
        }
        if count.is_some_and(|count| i64::from(index) >= count) {
            cursor.reject();
            return None;
        }
        // The call was not seen that far: the operation is known by its result.
        let slot = self.new_row()?;
        let operation = &mut self.incoming.operations().0[slot];
        link_mut(operation).number = Some(number);
        operation.row.operation = name(self.kind, number);
        operation.row.call_incomplete = true;
        Some(slot)
    }

    /// The slot of the operation that is read next; `None` if there is no room for it.
    fn new_row(&mut self) -> Option<Slot> {
        let Progress { index, last, .. } = self.progress;
        let mut slot = self.first;
        if index >= OPERATIONS_MAX {
            // Once: not by the reply, if the call has met the limit too.
            if self.is_call || self.incoming.operations().0[last].row.call_incomplete {
                self.incoming.operations().1.count(Counter::CompoundLimit);
            }
            return None;
        }
        let known = link(&self.incoming.operations().0[last]).next;
        if index > 0
            && let Some(known) = known
        {
            // The reply overtook the call.
            slot = known;
        } else if index > 0 {
            slot = self.incoming.open_operation()?;
            // Making room may have cost this very compound its slots.
            if self.incoming.opened().and_then(|open| open.slot) != Some(self.first) {
                self.incoming.operations().0.give_back(slot);
                return None;
            }
            link_mut(&mut self.incoming.operations().0[last]).next = Some(slot);
        }
        let id = self.incoming.operations().0[self.first].row.operation_id;
        let row = &mut self.incoming.operations().0[slot].row;
        row.operation_id = id + i64::from(index);
        row.compound_index = Some(index as i32);
        self.advance(slot);
        Some(slot)
    }

    /// One more operation was read: that in `slot`.
    fn advance(&mut self, slot: Slot) {
        let progress = &mut self.progress;
        progress.left = progress.left.saturating_sub(1);
        progress.index += 1;
        progress.last = slot;
    }

    /// A call uses a slot: whether one had its sequence before.
    fn use_slot(&mut self, used: Option<(([u8; 16], u32), u32)>) {
        let Some(((session, slot), sequence)) = used else {
            return;
        };
        let id = self.incoming.operations().0[self.first].row.operation_id;
        let first = self.incoming.use_slot((session, slot, sequence), id);
        let (operations, counters) = self.incoming.operations();
        let row = &mut operations[self.first].row;
        if first.is_some() && !row.repeat {
            (row.repeat, row.repeat_of) = (true, first);
            counters.count(Counter::CallsRepeated);
        }
    }

    fn data_follows(&mut self, slot: Slot, offset: Option<u64>, len: Option<u32>) -> Step {
        let Some(len) = len else { return Step::Next };
        self.incoming.expect_data(slot, offset, len);
        Step::Data(len)
    }

    /// Whether a field was not there because it may still come.
    fn must_wait(&self, cursor: &Cursor<'_>) -> bool {
        cursor.fault() == Some(Fault::End) && !self.incoming.is_complete()
    }

    /// Keeps a handle for the table `files`.
    fn keep_handle(&mut self, slot: Slot, handle: &v4::Handle<'_>, is_new: bool) {
        if is_new && self.incoming.wants().files {
            self.incoming.operations().0[slot].handle = Some(HandleBytes::new(handle));
        }
    }

    /// Reports the names of a directory that a reply lists, with their handles if it has them.
    fn report_entries(&mut self, slot: Slot, listing: &v4::ReadDirOk<'_>) {
        let server = self.incoming.sender();
        let time_ns = self.incoming.message().last.stamp_ns;
        let mut rows = self.incoming.rows();
        let parent = rows
            .scratch
            .compound
            .id_at(rows.operations, self.first, slot);
        let operation_id = rows.operations[slot].row.operation_id;
        for entry in listing.entries.iter() {
            let values = entry.attributes.values();
            let Some(entry_name) = entry.name else {
                continue;
            };
            let handle = values.handle.map(|handle| HandleBytes::new(&handle));
            let handle = handle.as_ref().map(HandleBytes::bytes);
            let mut name = std::mem::take(&mut rows.scratch.name);
            name.clear();
            entry_name.copy_to(&mut name);
            let fact = Fact {
                operation_id,
                time_ns,
                server,
                handle: handle.unwrap_or(&[]),
                file_id: handle.map(|handle| file_id(server, handle)),
                fileid: values.fileid.map(u64::cast_signed),
                parent,
                name: Some(&name),
                file_type: values.file_type.map_or(Word::None, columns::file_type),
                size: values.size.map(u64::cast_signed),
            };
            rows.report_entry(&fact);
            rows.scratch.name = name;
        }
    }
}

fn name(kind: Nfs4, number: u32) -> Word {
    let name = match kind {
        Nfs4::Compound => Op::from_number(number).map(Op::name),
        Nfs4::Callback => callback::Operation::from_number(number).map(callback::Operation::name),
    };
    word(name, number)
}

fn status(status: Option<u32>) -> Word {
    status.map_or(Word::None, |status| word(v4::status_name(status), status))
}
