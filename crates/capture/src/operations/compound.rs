//! NFSv4's compounds: a row an operation.
//!
//! The operations of a compound have a slot each, chained to that of the first, which alone stands in
//! [`Pairs`](lineside_rpc::pairs::Pairs). Call and reply are read an operation at a time, so that file data in
//! their middle passes by as it comes:
//!
//! ```text
//!  call   header ─ SEQUENCE ─ PUTFH ─ WRITE ─ data ─ GETATTR
//!                     │         │       │               │
//!  slots            first ──► next ──► next ────────► next
//!                     │         │       │               │
//!  reply  header ─ SEQUENCE ─ PUTFH ─ WRITE ───────── GETATTR
//! ```
//!
//! Which file an operation is about is worked out when both have ended ([`Files`]), since a LOOKUP is told apart
//! only by a GETFH that follows it.

use lineside_account::{Counter, Counters};
use lineside_frame::{Cursor, Fault};
use lineside_nfs::v4::{self, Operation as Op, callback};
use lineside_rpc::record::{Message, Want};
use lineside_rpc::xdr::{Xdr, padding};
use lineside_trace::{OperationRow, RecordSink, RowRef, Word};

use super::{
    Fact, HANDLE_MAX, HandleBytes, Kind, Note, Operations, Passing, Side, bare_key, end_data,
    file_id, file_id_of, note_cut,
};
use crate::details::{set_text, word};
use crate::details4;

/// Operations of one compound that are recorded: servers allow some hundred at most.
const OPERATIONS_MAX: u32 = 1024;

/// How far a message with a compound was read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compound {
    /// Operations still to be read, and those that were.
    left: u32,
    index: u32,
    /// The slot of the one read last.
    last: Note,
    /// Segments of its READ_PLUS still to be read.
    segments: u32,
}

/// Where in a message the reading stands.
struct Place {
    first: Note,
    compound: Compound,
    is_call: bool,
    is_callback: bool,
    /// Nothing more will come of the message.
    done: bool,
    /// When the last frame so far came.
    time_ns: Option<i64>,
}

impl Place {
    /// One more was read: that in `note`.
    fn advance(&mut self, note: Note) {
        let compound = &mut self.compound;
        compound.left = compound.left.saturating_sub(1);
        compound.index += 1;
        compound.last = note;
    }
}

/// What was read of a message.
enum Step {
    /// An operation; what follows it can be read.
    Next,
    /// An operation up to its data, of so many bytes.
    Data(u32),
    /// Nothing: too little has come.
    Wait,
    /// All that can be.
    Stop,
}

impl<S: RecordSink> Side<'_, S> {
    /// A compound's call, from its first words on: what the first row says of all of it.
    #[inline(never)]
    pub(super) fn begin_compound(
        &mut self,
        message: &Message,
        note: Note,
        mut cursor: Cursor<'_>,
        done: bool,
        counters: &mut Counters,
    ) -> Want {
        let operation = &mut self.all.operations[note as usize];
        let header = call_header(operation.kind, &mut cursor);
        operation.row.call_incomplete = cursor.fault().is_some();
        operation.details.has_nfs4 = true;
        let details = &mut operation.details.nfs4;
        details.minor_version = header.minor_version.map(i64::from);
        set_text(&mut details.tag, header.tag.as_deref());
        details.compound_operations = header.operation_count.map(i64::from);
        self.pass_compound(note, header.operation_count);
        self.read_compound(message, cursor, done, counters)
    }

    /// Its reply.
    #[inline(never)]
    pub(super) fn answer_compound(
        &mut self,
        message: &Message,
        note: Note,
        mut cursor: Cursor<'_>,
        done: bool,
        counters: &mut Counters,
    ) -> Want {
        let header = v4::ReplyHeader::decode(&mut cursor);
        let operation = &mut self.all.operations[note as usize];
        operation.row.reply_incomplete = cursor.fault().is_some();
        operation.details.nfs4.compound_status = header
            .status
            .map_or(Word::None, |status| word(status.name(), status.0));
        operation.results = header.operation_count;
        self.pass_compound(note, header.operation_count);
        self.read_compound(message, cursor, done, counters)
    }

    fn pass_compound(&mut self, note: Note, count: Option<u32>) {
        if let Some(passing) = self.passing() {
            passing.compound = Some(Compound {
                left: count.unwrap_or(0),
                index: 0,
                last: note,
                segments: 0,
            });
        }
    }

    /// Reads on in a compound, of which all before the cursor was read.
    pub(super) fn read_compound(
        &mut self,
        message: &Message,
        cursor: Cursor<'_>,
        done: bool,
        counters: &mut Counters,
    ) -> Want {
        let Operations {
            talks, operations, ..
        } = &mut *self.all;
        let talk = talks[self.slot].as_mut().expect("a slot in use");
        if let Some(passing) = &mut talk.passing[self.direction] {
            let blocks = talk.blocks[self.direction].as_deref();
            end_data(passing, blocks, operations, counters);
        }
        let Some((first, is_call, compound)) = self
            .passing()
            .and_then(|passing| Some((passing.operation?, passing.is_call, passing.compound?)))
        else {
            return Want::End;
        };
        let mut place = Place {
            first,
            compound,
            is_call,
            is_callback: self.all.operations[first as usize].kind == Kind::Callback,
            done,
            time_ns: message.last.stamp_ns,
        };
        let want = self.read_operations(&mut place, cursor, counters);
        if let Some(passing) = self.passing() {
            passing.compound = Some(place.compound);
        }
        want
    }

    fn read_operations(
        &mut self,
        place: &mut Place,
        mut cursor: Cursor<'_>,
        counters: &mut Counters,
    ) -> Want {
        while place.compound.left > 0 || place.compound.segments > 0 {
            let before = cursor;
            let step = match (place.is_call, place.is_callback) {
                (true, false) => self.read_call(place, &mut cursor, counters),
                (true, true) => self.read_callback(place, &mut cursor, counters),
                (false, false) if place.compound.segments > 0 => {
                    self.read_segment(place, &mut cursor, counters)
                }
                (false, false) => self.read_result(place, &mut cursor, counters),
                (false, true) => self.read_callback_result(place, &mut cursor, counters),
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
                    if cursor.fault() == Some(Fault::Malformed) {
                        counters.count(Counter::RecordsMalformed);
                    }
                    break;
                }
            }
        }
        Want::End
    }

    fn read_call(
        &mut self,
        place: &mut Place,
        cursor: &mut Cursor<'_>,
        counters: &mut Counters,
    ) -> Step {
        let call = v4::Call::decode(cursor);
        if waits(place, cursor) {
            return Step::Wait;
        }
        let known = call.operation().map(Op::name);
        let Some(note) = self.asked_row(place, call.number(), known, counters) else {
            return Step::Stop;
        };
        let server = self.server();
        let operation = &mut self.all.operations[note as usize];
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
        if !is_plain {
            set_text(&mut row.name, call.name().as_deref());
            if let v4::Call::Rename(args) = &call {
                set_text(&mut row.name2, args.to.as_deref());
            }
            row.offset = call.offset().map(u64::cast_signed);
            if details4::moves_data(&call) {
                row.count = call.count().map(u64::cast_signed);
            }
            details4::of_call(&call, details, counters);
        }
        if let Some(handle) = call.handle() {
            let file = file_id_of(server, &handle);
            row.file_id = Some(file);
            let is_known = self.all.talk(self.slot).facts.contains(&bare_key(file));
            self.keep_handle(note, &handle, !is_known);
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
        self.data_follows(note, offset, call.data_len(), counters)
    }

    fn read_callback(
        &mut self,
        place: &mut Place,
        cursor: &mut Cursor<'_>,
        counters: &mut Counters,
    ) -> Step {
        let call = callback::Call::decode(cursor);
        if waits(place, cursor) {
            return Step::Wait;
        }
        let known = call.operation().map(callback::Operation::name);
        let Some(note) = self.asked_row(place, call.number(), known, counters) else {
            return Step::Stop;
        };
        // The files are the caller's.
        let owner = self.server_of_reply();
        let operation = &mut self.all.operations[note as usize];
        let (row, details) = (&mut operation.row, &mut operation.details);
        row.call_incomplete = cursor.fault().is_some();
        row.offset = call.offset().map(u64::cast_signed);
        row.count = call.count().map(u64::cast_signed);
        row.file_id = call.handle().map(|handle| file_id_of(owner, &handle));
        details4::of_callback(&call, details);
        match cursor.fault() {
            Some(_) => Step::Stop,
            None => Step::Next,
        }
    }

    fn read_result(
        &mut self,
        place: &mut Place,
        cursor: &mut Cursor<'_>,
        counters: &mut Counters,
    ) -> Step {
        let reply = v4::Reply::decode(cursor);
        if waits(place, cursor) {
            return Step::Wait;
        }
        let Some(note) = self.answered_row(place, reply.number(), cursor, counters) else {
            return Step::Stop;
        };
        let server = self.server_of_reply();
        let operation = &mut self.all.operations[note as usize];
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
        details4::of_reply(&reply, row, details, counters);
        if let Some(handle) = reply.handle() {
            row.file_id = Some(file_id_of(server, &handle));
            self.keep_handle(note, &handle, true);
        }
        if let v4::Reply::ReadDir(outcome) = &reply
            && let Some(listing) = outcome.ok()
            && self.all.wants_files
        {
            self.note_entries(place, note, listing, counters);
        }
        if cursor.fault().is_some() {
            return Step::Stop;
        }
        let operation = &mut self.all.operations[note as usize];
        if let Some(segments) = reply.segment_count() {
            operation.row.transferred = Some(0);
            place.compound.segments = segments;
            return Step::Next;
        }
        let offset = operation.row.offset.map(i64::cast_unsigned);
        self.data_follows(note, offset, reply.data_len(), counters)
    }

    fn read_callback_result(
        &mut self,
        place: &mut Place,
        cursor: &mut Cursor<'_>,
        counters: &mut Counters,
    ) -> Step {
        let reply = callback::Reply::decode(cursor);
        if waits(place, cursor) {
            return Step::Wait;
        }
        let Some(note) = self.answered_row(place, reply.number(), cursor, counters) else {
            return Step::Stop;
        };
        let operation = &mut self.all.operations[note as usize];
        let row = &mut operation.row;
        row.status = status(reply.status());
        row.reply_incomplete = cursor.fault().is_some();
        if let Some(attributes) = reply.attributes() {
            details4::object(attributes, row, &mut operation.details, counters);
        }
        match cursor.fault() {
            Some(_) => Step::Stop,
            None => Step::Next,
        }
    }

    /// A segment of READ_PLUS.
    fn read_segment(
        &mut self,
        place: &mut Place,
        cursor: &mut Cursor<'_>,
        counters: &mut Counters,
    ) -> Step {
        let segment = v4::Segment::decode(cursor);
        if waits(place, cursor) {
            return Step::Wait;
        }
        let note = place.compound.last;
        let row = &mut self.all.operations[note as usize].row;
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
        place.compound.segments -= 1;
        self.data_follows(note, offset, len, counters)
    }

    /// The slot of an operation of the call, with its name if it is `known`; `None` if its number was not seen, or there is no room for it.
    fn asked_row(
        &mut self,
        place: &mut Place,
        number: Option<u32>,
        known: Option<&'static str>,
        counters: &mut Counters,
    ) -> Option<Note> {
        let Some(number) = number else {
            let last = place.compound.last;
            self.all.operations[last as usize].row.call_incomplete = true;
            return None;
        };
        let note = self.new_row(place, counters)?;
        let operation = &mut self.all.operations[note as usize];
        operation.op = Some(number);
        operation.row.operation = word(known, number);
        if known.is_none() {
            counters.count(Counter::OperationsUnknown);
        }
        Some(note)
    }

    /// The slot of the operation that the next result answers; `None` if they do not belong together.
    fn answered_row(
        &mut self,
        place: &mut Place,
        number: Option<u32>,
        cursor: &mut Cursor<'_>,
        counters: &mut Counters,
    ) -> Option<Note> {
        let Compound { index, last, .. } = place.compound;
        let Some(number) = number else {
            self.all.operations[last as usize].row.reply_incomplete = true;
            return None;
        };
        let first = &self.all.operations[place.first as usize];
        let (is_read, told) = (first.op.is_some(), first.details.nfs4.compound_operations);
        let asked = if index > 0 {
            self.all.operations[last as usize].next
        } else {
            is_read.then_some(place.first)
        };
        if let Some(note) = asked {
            // A number that the server does not know is answered as OP_ILLEGAL.
            let is_other = self.all.operations[note as usize].op != Some(number);
            if is_other && number != Op::Illegal.number() {
                cursor.reject();
                return None;
            }
            place.advance(note);
            return Some(note);
        }
        if told.is_some_and(|told| i64::from(index) >= told) {
            cursor.reject();
            return None;
        }
        // The call was not seen that far: the result tells what it was.
        let note = self.new_row(place, counters)?;
        let operation = &mut self.all.operations[note as usize];
        operation.op = Some(number);
        operation.row.operation = name(place.is_callback, number);
        operation.row.call_incomplete = true;
        Some(note)
    }

    fn new_row(&mut self, place: &mut Place, counters: &mut Counters) -> Option<Note> {
        let Compound { index, last, .. } = place.compound;
        let mut note = place.first;
        if index >= OPERATIONS_MAX {
            // Once: not by the reply, if the call has met the limit too.
            if place.is_call || self.all.operations[last as usize].row.call_incomplete {
                counters.count(Counter::CompoundLimit);
            }
            return None;
        }
        let known = self.all.operations[last as usize].next;
        if index > 0
            && let Some(known) = known
        {
            // The reply overtook the call.
            note = known;
        } else if index > 0 {
            note = self.all.open_operation(self.slot, counters)?;
            // Making room may have cost this very compound its slots.
            if self.passing().and_then(|passing| passing.operation) != Some(place.first) {
                self.all.free.push(note);
                return None;
            }
            self.all.operations[last as usize].next = Some(note);
        }
        let id = self.all.operations[place.first as usize].row.operation_id;
        let row = &mut self.all.operations[note as usize].row;
        row.operation_id = id + i64::from(index);
        row.compound_index = Some(index as i32);
        place.advance(note);
        Some(note)
    }

    fn data_follows(
        &mut self,
        note: Note,
        offset: Option<u64>,
        len: Option<u32>,
        counters: &mut Counters,
    ) -> Step {
        let Some(len) = len else { return Step::Next };
        let sums_from = self.all.sums_from(offset, len, counters);
        let talk = self.all.talk(self.slot);
        talk.expect_data(self.direction, note, len, sums_from);
        Step::Data(len)
    }

    /// Keeps a handle for the table `files`.
    fn keep_handle(&mut self, note: Note, handle: &v4::Handle<'_>, is_new: bool) {
        if is_new && self.all.wants_files {
            self.all.operations[note as usize].handle = Some(HandleBytes::new(handle));
        }
    }

    fn passing(&mut self) -> Option<&mut Passing> {
        let direction = self.direction;
        self.all.talk(self.slot).passing[direction].as_mut()
    }

    /// The files of a directory that a reply lists with their handles.
    fn note_entries(
        &mut self,
        place: &Place,
        note: Note,
        listing: &v4::ReadDirOk<'_>,
        counters: &mut Counters,
    ) {
        let (slot, server) = (self.slot, self.server_of_reply());
        let all = &mut *self.all;
        let parent = all.scratch.files.id_at(&all.operations, place.first, note);
        let operation_id = all.operations[note as usize].row.operation_id;
        for entry in listing.entries.iter() {
            let values = entry.attributes.values();
            let (Some(handle), Some(entry_name)) = (values.handle, entry.name) else {
                continue;
            };
            let handle = HandleBytes::new(&handle);
            let mut name = std::mem::take(&mut all.scratch.name);
            name.clear();
            entry_name.copy_to(&mut name);
            let fact = Fact {
                operation_id,
                time_ns: place.time_ns,
                server,
                handle: handle.bytes(),
                file_id: file_id(server, handle.bytes()),
                parent,
                name: Some(&name),
                file_type: values.file_type.map_or(Word::None, details4::file_type),
                size: values.size.map(u64::cast_signed),
            };
            all.fact(slot, &fact, counters);
            all.scratch.name = name;
        }
    }
}

impl<S: RecordSink> Operations<S> {
    /// Writes the rows of a compound and frees its slots.
    pub(super) fn emit_compound(&mut self, slot: usize, first: Note, counters: &mut Counters) {
        let mut files = std::mem::take(&mut self.scratch.files);
        files.resolve(&mut self.operations, first);
        let results = self.operations[first as usize].results;
        // Out of its slot while the others borrow from it.
        let mut whole = std::mem::take(&mut self.operations[first as usize].row);
        let mut next = Some(first);
        while let Some(note) = next {
            let operation = &mut self.operations[note as usize];
            let row = if note == first {
                &mut whole
            } else {
                share(&whole, &mut operation.row);
                &mut operation.row
            };
            if let (Some(results), Some(index)) = (results, row.compound_index) {
                row.not_executed = index as u32 >= results;
                row.reply_incomplete |= !row.not_executed && row.status == Word::None;
            }
            note_cut(row);
            self.sink.row(RowRef::Operations(row));
            if self.wants_details {
                operation.details.write(row.operation_id, &mut self.sink);
            }
            next = operation.next;
        }
        let time_ns = whole.reply_end_ns.or(whole.call_end_ns);
        let server = whole.server_address;
        self.operations[first as usize].row = whole;
        for object in files.told() {
            let (Some(holder), Some(file_id), Some(server)) = (object.holder, object.id, server)
            else {
                continue;
            };
            let holder = &mut self.operations[holder as usize];
            let Some(handle) = holder.handle.take() else {
                continue;
            };
            let operation_id = holder.row.operation_id;
            let mut name = std::mem::take(&mut self.scratch.name);
            name.clear();
            let maker = object
                .maker
                .map(|maker| &self.operations[maker as usize].row);
            let told = maker.and_then(|row| row.name.bytes());
            name.extend_from_slice(told.unwrap_or(&[]));
            let attributes = object.attributes;
            let attributes = attributes.map(|note| &self.operations[note as usize].row);
            let fact = Fact {
                operation_id,
                time_ns,
                server,
                handle: handle.bytes(),
                file_id,
                parent: told.and(maker).and_then(|row| row.file_id),
                name: told.is_some().then_some(&name),
                file_type: attributes.map_or(Word::None, |row| row.file_type),
                size: attributes.and_then(|row| row.file_size),
            };
            self.fact(slot, &fact, counters);
            self.scratch.name = name;
        }
        self.scratch.files = files;
        let mut next = Some(first);
        while let Some(note) = next {
            next = self.operations[note as usize].next.take();
            self.clear(note);
        }
    }
}

/// First bytes of a compound, of what has come of it: a session's slot and sequence are among them, or the handle that it begins
/// with. Clients use an xid again before it was answered when the connection was lost: the call is the same only if it says the
/// same. `None` if one of them was not seen.
#[inline(never)]
pub(super) fn identity(mut cursor: Cursor<'_>) -> Option<HandleBytes> {
    let view = cursor.view(cursor.remaining().min(HANDLE_MAX))?;
    Some(HandleBytes::new(&view))
}

/// Whether compounds with these first bytes may be the same.
pub(super) fn is_alike(one: &HandleBytes, other: &HandleBytes) -> bool {
    let len = one.len.min(other.len);
    one.bytes[..len] == other.bytes[..len]
}

/// How long a message must be for the first words of its compound, if they have not all come.
pub(super) fn header_needs(
    kind: Kind,
    is_call: bool,
    mut cursor: Cursor<'_>,
    done: bool,
) -> Option<usize> {
    if done {
        return None;
    }
    if is_call {
        call_header(kind, &mut cursor);
    } else {
        v4::ReplyHeader::decode(&mut cursor);
    }
    (cursor.fault() == Some(Fault::End)).then(|| cursor.needed())
}

fn call_header<'a>(kind: Kind, cursor: &mut Cursor<'a>) -> v4::CallHeader<'a> {
    match kind {
        Kind::Callback => callback::CallHeader::decode(cursor).into(),
        _ => v4::CallHeader::decode(cursor),
    }
}

/// Whether a field was not there because it may still come.
fn waits(place: &Place, cursor: &Cursor<'_>) -> bool {
    cursor.fault() == Some(Fault::End) && !place.done
}

fn name(is_callback: bool, number: u32) -> Word {
    let name = if is_callback {
        callback::Operation::from_number(number).map(callback::Operation::name)
    } else {
        Op::from_number(number).map(Op::name)
    };
    word(name, number)
}

fn status(status: Option<u32>) -> Word {
    status.map_or(Word::None, |status| word(v4::status_name(status), status))
}

/// What all operations of a compound have in common: all but what is counted once, in the first row.
fn share(whole: &OperationRow, row: &mut OperationRow) {
    row.rpc_id = whole.rpc_id;
    row.connection_id = whole.connection_id;
    row.call_time_ns = whole.call_time_ns;
    row.call_end_ns = whole.call_end_ns;
    row.reply_time_ns = whole.reply_time_ns;
    row.reply_end_ns = whole.reply_end_ns;
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
}
