//! The short way: NFSv3 calls over TCP that lie whole in one frame, with the connection's usual
//! header, and whose replies do too: most of all metadata.
//!
//! Of such a call its arguments are kept as they came, in a record of a few hundred bytes; its rows
//! are made from them and from the reply as that passes, straight into the sink's columns. Anything
//! else that happens to the call (it comes again, expires, is given up, or its reply comes in
//! pieces) [widens](Operations::widen) it: it goes on as if it had come the general way.

use std::net::IpAddr;

use lineside_account::{Counter, Counters};
use lineside_flow::Transport;
use lineside_frame::{Cursor, Piece, View};
use lineside_nfs::v3;
use lineside_rpc::calls::{self, OnCall};
use lineside_rpc::message::ReplyHeader;
use lineside_rpc::record::Message;
use lineside_trace::{OperationCells, OperationRows, RecordSink, Word};
use lineside_wire::Direction;

use super::arguments::Arguments;
use super::connection::RpcConnection;
use super::files::{HandleBytes, file_id_of};
use super::headers::Caller;
use super::incoming::{IncomingMessage, begin_row, operation_id};
use super::operation::{CallRef, Signature, Slot};
use super::{Holder, Operations, PLACE_BITS};
use crate::protocol::{NoCells, PlainProcedure, PlainRows, Procedure};

/// The longest arguments on the short way: a handle of 64 bytes and a name of 52.
const BYTES_MAX: usize = 128;

/// What such a call costs, to draw on the budget.
pub(super) const PLAIN_BYTES: usize = size_of::<PlainCall>();

const _: () = assert!(PLAIN_BYTES <= 256, "as the specification promises");

/// A call that waits for its reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlainCall {
    pub(crate) operation_id: i64,
    /// In its connection's table.
    key: u64,
    connection: usize,
    /// Of the frame that it came in.
    pub(crate) stamp_ns: Option<i64>,
    frame: u64,
    input: u16,
    /// Bytes of the message.
    len: u32,
    /// Where in its stream it ends.
    end: i64,
    signature: Signature,
    /// Who calls.
    caller: CallerRef,
    pub(crate) procedure: PlainProcedure,
    pub(crate) file_id: i64,
    /// The connection had not reported this file.
    pub(crate) is_new_file: bool,
    bytes_len: u8,
    /// The first call that it repeats.
    repeat_of: Option<i64>,
    bytes: [u8; BYTES_MAX],
}

impl PlainCall {
    fn piece(&self) -> Piece<'_> {
        Piece::bytes(&self.bytes[..self.bytes_len.into()])
    }

    fn direction(&self) -> Direction {
        Direction::BOTH[calls::parts(self.key).0]
    }

    pub(super) fn holder(&self) -> Holder {
        Holder {
            connection: self.connection,
            key: self.key,
        }
    }

    /// The cells that the two headers and the frames give.
    pub(crate) fn put_to(
        &self,
        rpc: &RpcConnection,
        caller: &PlainCaller,
        reply: &Message,
        cells: &mut impl OperationCells,
    ) {
        let direction = self.direction();
        let number = u64::from(caller.serial) << 32
            | u64::from(self.input) << 16
            | u64::from(reply.last.input);
        cells.common(number, |cells| {
            let (client, server) = (&rpc.ends[direction], &rpc.ends[direction.opposite()]);
            let header = &caller.header;
            cells.connection_id(rpc.id);
            cells.call_input(Some(self.input.into()));
            cells.reply_input(Some(reply.last.input.into()));
            cells.client_address(Some(client.address));
            cells.server_address(Some(server.address));
            cells.client_port(Some(client.port.into()));
            cells.server_port(Some(server.port.into()));
            cells.transport(Some(rpc.transport.name()));
            cells.program(header.program_word);
            cells.program_number(Some(header.program.into()));
            cells.version(header.version.try_into().ok());
            cells.rpc_status(Word::Known("SUCCESS"));
            cells.auth_flavor(header.auth_flavor);
            cells.user_id(header.ids[0]);
            cells.group_id(header.ids[1]);
            cells.retransmissions(0);
            cells.duplicate_replies(0);
        });
        cells.operation_id(self.operation_id);
        cells.rpc_id(self.operation_id);
        cells.call_time_ns(self.stamp_ns);
        cells.call_end_ns(self.stamp_ns);
        cells.reply_time_ns(reply.first.stamp_ns);
        cells.reply_end_ns(reply.last.stamp_ns);
        if rpc.recoveries.iter().any(Option::is_some) {
            let times = [self.stamp_ns, reply.last.stamp_ns].map(|stamp_ns| (stamp_ns, stamp_ns));
            let waited = rpc.waited_ns(direction.opposite(), times, self.end);
            cells.call_recovery_ns(waited[0]);
            cells.reply_recovery_ns(waited[1]);
        }
        cells.call_frame(Some(self.frame as i64));
        cells.reply_frame(Some(reply.last.number as i64));
        cells.xid(Some(calls::parts(self.key).1.into()));
        cells.call_bytes(Some(self.len.into()));
        cells.reply_bytes(Some(reply.len as i64));
        cells.repeat(self.repeat_of.is_some());
        cells.repeat_of(self.repeat_of);
    }
}

/// The calls on the short way, in slots that are used again.
#[derive(Default)]
pub(crate) struct PlainCalls {
    calls: Vec<PlainCall>,
    free: Vec<u32>,
    callers: Callers,
}

impl PlainCalls {
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    pub(super) fn waiting(&self) -> usize {
        self.calls.len() - self.free.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &PlainCall)> {
        let mut is_free = vec![false; self.calls.len()];
        for &free in &self.free {
            is_free[free as usize] = true;
        }
        let calls = self.calls.iter().enumerate();
        calls
            .filter(move |(at, _)| !is_free[*at])
            .map(|(at, call)| (Slot::of_plain(at as u32), call))
    }

    /// A call whose slot is free from now on.
    #[inline]
    fn take(&mut self, at: u32) -> PlainCall {
        self.free.push(at);
        self.calls[at as usize]
    }

    /// A connection calls with another header from now on, or ends.
    #[inline]
    pub(super) fn forget_caller(&mut self, rpc: &mut RpcConnection) {
        if let Some(caller) = rpc.plain_caller.take() {
            self.callers.release(caller);
        }
    }
}

/// A caller among those of the calls that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallerRef(u32);

/// What the calls of a connection have in common.
#[derive(Debug)]
pub(crate) struct PlainCaller {
    header: Caller,
    /// No other has had this number.
    serial: u32,
    /// Calls that wait, and their connection if its last header is this.
    uses: u32,
}

/// Callers, each as long as its connection calls with it or a call of it waits.
#[derive(Default)]
struct Callers {
    callers: Vec<PlainCaller>,
    free: Vec<CallerRef>,
    serial: u32,
}

impl Callers {
    fn add(&mut self, header: Caller) -> CallerRef {
        self.serial = self.serial.wrapping_add(1);
        let caller = PlainCaller {
            header,
            serial: self.serial,
            uses: 1,
        };
        if let Some(free) = self.free.pop() {
            self.callers[free.0 as usize] = caller;
            return free;
        }
        self.callers.push(caller);
        CallerRef((self.callers.len() - 1) as u32)
    }

    #[inline]
    fn get(&self, caller: CallerRef) -> &PlainCaller {
        &self.callers[caller.0 as usize]
    }

    #[inline]
    fn hold(&mut self, caller: CallerRef) {
        self.callers[caller.0 as usize].uses += 1;
    }

    #[inline]
    fn release(&mut self, caller: CallerRef) {
        let uses = &mut self.callers[caller.0 as usize].uses;
        *uses -= 1;
        if *uses == 0 {
            self.free.push(caller);
        }
    }
}

/// Whether a message lies in one frame, all of it.
#[inline]
fn is_plain(message: &Message) -> bool {
    message.missing == 0
        && !message.cut
        && message.ended
        && message.first.ordinal == message.last.ordinal
}

impl<S: RecordSink> IncomingMessage<'_, S> {
    /// Takes a call whose header is the connection's usual one, with the cursor after it; false:
    /// nothing has changed, and it goes the general way.
    #[inline]
    pub(super) fn on_plain_call(&mut self, xid: u32, number: u32, cursor: &Cursor<'_>) -> bool {
        let bytes = cursor.at_hand();
        let fits = bytes.len() == cursor.remaining() && bytes.len() <= BYTES_MAX;
        if !(self.all.short_ways && fits && self.is_complete && is_plain(self.message))
            || self.message.first_offset >> PLACE_BITS != 0
        {
            return false;
        }
        let rpc = self.all.connection(self.connection);
        let Some(caller) = rpc.last_header.caller() else {
            return false;
        };
        let readable = caller.is_readable && !caller.is_wrapped && rpc.transport == Transport::Tcp;
        let procedure = PlainProcedure::find(caller.meant, caller.version, number);
        let Some(procedure) = procedure.filter(|_| readable) else {
            return false;
        };
        let arguments = [Piece::bytes(bytes)];
        let Some(handle) = procedure.file_of_whole(&arguments) else {
            return false;
        };
        self.all.expire(self.connection, self.counters);
        let key = calls::key(self.direction.index(), xid);
        let ordinal = self.message.first.ordinal;
        let rpc = self.all.connection(self.connection);
        let is_new = matches!(rpc.calls.on_call(key, ordinal), OnCall::New);
        if !is_new {
            return false;
        }
        let Some(at) = self.all.open_plain() else {
            return false;
        };
        self.begin_plain_call(at, key, procedure, &handle, bytes);
        true
    }

    #[inline]
    fn begin_plain_call(
        &mut self,
        at: u32,
        key: u64,
        procedure: PlainProcedure,
        handle: &View<'_>,
        bytes: &[u8],
    ) {
        let server = self.receiver();
        let file_id = file_id_of(server, handle);
        let caller = self.plain_caller();
        let Self { all, counters, .. } = self;
        let known = &all.plain.callers.get(caller).header;
        let (numbers, program_word) = (known.numbers(), known.program_word);
        counters.add(Counter::CallsDecodedAs, known.is_decoded_as.into());
        let arguments = Arguments::of_bytes(bytes);
        let signature = Signature::new(numbers, procedure.get() as u32, arguments);
        let xid = calls::parts(key).1;
        let brief = arguments.hash();
        let repeat_of = self.remember(xid, signature.numbers, brief);
        self.counters
            .add(Counter::CallsRepeated, repeat_of.is_some().into());
        self.counters.count(Counter::RpcCalls);
        if self.all.connection(self.connection).caller.is_none() {
            self.all.set_caller(self.connection, self.direction);
        }
        let (message, direction) = (self.message, self.direction);
        let is_new_file = self.all.wants_files && !self.has_reported(file_id);
        let now = self.all.now;
        let all = &mut *self.all;
        let rpc = all.connections[self.connection].as_mut();
        let rpc = rpc.expect("a slot in use");
        rpc.calls.outstanding(key, Slot::of_plain(at), now);
        if rpc.program == Word::None {
            rpc.program = program_word;
        }
        let plain = &mut all.plain.calls[at as usize];
        *plain = PlainCall {
            operation_id: operation_id(message),
            key,
            connection: self.connection,
            stamp_ns: message.first.stamp_ns,
            frame: message.last.number,
            input: message.last.input,
            len: message.len as u32,
            end: rpc.passed[direction],
            signature,
            caller,
            procedure,
            file_id,
            is_new_file,
            bytes_len: bytes.len() as u8,
            repeat_of,
            bytes: plain.bytes,
        };
        plain.bytes[..bytes.len()].copy_from_slice(bytes);
    }

    /// The connection's usual caller, once more in use.
    #[inline]
    fn plain_caller(&mut self) -> CallerRef {
        let all = &mut *self.all;
        let rpc = all.connections[self.connection].as_mut();
        let rpc = rpc.expect("a slot in use");
        let callers = &mut all.plain.callers;
        let caller = *rpc.plain_caller.get_or_insert_with(|| {
            let caller = rpc.last_header.caller();
            callers.add(*caller.expect("it was compared"))
        });
        callers.hold(caller);
        caller
    }

    /// Takes the reply to the call in `slot`, with the cursor after its header, and writes the
    /// rows; false: nothing has changed, and it goes the general way.
    #[inline]
    pub(super) fn on_plain_reply(
        &mut self,
        slot: Slot,
        reply: &ReplyHeader<'_>,
        cursor: &Cursor<'_>,
    ) -> bool {
        let Some(at) = slot.plain() else {
            return false;
        };
        let bytes = cursor.at_hand();
        if !(reply.is_success() && self.is_complete && is_plain(self.message))
            || bytes.len() != cursor.remaining()
        {
            return false;
        }
        let procedure = self.all.plain.calls[at as usize].procedure;
        let pieces = [Piece::bytes(bytes)];
        let mut results = Cursor::new(&pieces);
        let reply = v3::Reply::decode(procedure.get(), &mut results);
        if results.fault().is_some() {
            return false;
        }
        let call = self.all.plain.take(at);
        self.counters.count(Counter::Replies);
        self.counters.count(Counter::CallsAnswered);
        let rpc = self.all.connection(self.connection);
        let remembered = CallRef::Written(call.signature);
        let ordinal = self.message.first.ordinal;
        rpc.calls.answered(call.key, remembered, ordinal);
        self.write_plain(&call, &reply);
        self.all.plain.callers.release(call.caller);
        self.all.forget_ended(self.connection, self.counters);
        true
    }

    /// Writes the rows of a call and its reply.
    #[inline]
    fn write_plain(&mut self, call: &PlainCall, reply: &v3::Reply<'_>) {
        let server: IpAddr = self.sender();
        let pieces = [call.piece()];
        let arguments = v3::Call::decode(call.procedure.get(), &mut Cursor::new(&pieces));
        let all = &mut *self.all;
        let rpc = all.connections[self.connection].as_deref();
        let caller = all.plain.callers.get(call.caller);
        let mut rows = PlainRows::new(
            (call, &arguments),
            (self.message, reply),
            server,
            (rpc.expect("a slot in use"), caller),
            self.counters,
        );
        all.sink.operation(&mut rows);
        if !all.wants_nfs {
            // Times that do not fit are counted, whether or not there is a column for them.
            rows.nfs(&mut NoCells);
        }
        if all.wants_files {
            let facts = rows.facts();
            for fact in facts.iter().flatten() {
                self.all.report_fact(self.connection, fact, self.counters);
            }
        }
    }
}

impl<S: RecordSink> Operations<S> {
    /// A slot for a call on the short way; `None`: there is no room, which the general way makes.
    #[inline]
    fn open_plain(&mut self) -> Option<u32> {
        if !self.has_room() {
            return None;
        }
        self.plain.free.pop().or_else(|| self.add_plain())
    }

    #[cold]
    fn add_plain(&mut self) -> Option<u32> {
        if !self.budget.draw(PLAIN_BYTES) {
            return None;
        }
        self.plain.calls.push(PlainCall {
            operation_id: 0,
            key: 0,
            connection: 0,
            stamp_ns: None,
            frame: 0,
            input: 0,
            len: 0,
            end: 0,
            signature: Signature::new((None, None), 0, Arguments::default()),
            caller: CallerRef(0),
            procedure: PlainProcedure::default(),
            file_id: 0,
            is_new_file: false,
            bytes_len: 0,
            repeat_of: None,
            bytes: [0; BYTES_MAX],
        });
        Some((self.plain.calls.len() - 1) as u32)
    }

    /// The operation of a call, which from now on goes the general way if it did not.
    pub(super) fn widen(&mut self, slot: Slot, counters: &mut Counters) -> Slot {
        let Some(at) = slot.plain() else {
            return slot;
        };
        let call = self.plain.take(at);
        // If need be beyond the budget: of both kinds there are no more than a part of it bears.
        let slot = self.operations.take_free().unwrap_or_else(|| {
            self.draw_operation();
            self.operations.add()
        });
        let direction = call.direction();
        let rpc = self.connections[call.connection].as_mut();
        let rpc = rpc.expect("a slot in use");
        rpc.calls.set_outstanding(call.key, slot);
        let caller = &self.plain.callers.get(call.caller).header;
        let operation = &mut self.operations[slot];
        let pieces = [call.piece()];
        let arguments = v3::Call::decode(call.procedure.get(), &mut Cursor::new(&pieces));
        let (row, details) = (&mut operation.row, &mut operation.details);
        let xid = calls::parts(call.key).1;
        begin_row(row, call.operation_id, rpc, direction, xid);
        (row.call_time_ns, row.call_end_ns) = (call.stamp_ns, call.stamp_ns);
        row.call_frame = Some(call.frame as i64);
        row.call_input = Some(call.input.into());
        row.call_bytes = Some(call.len.into());
        (row.program_number, row.version) = caller.numbers();
        row.program = caller.program_word;
        row.operation = call.procedure.name();
        row.auth_flavor = caller.auth_flavor;
        [row.user_id, row.group_id] = caller.ids;
        (row.repeat, row.repeat_of) = (call.repeat_of.is_some(), call.repeat_of);
        let server = rpc.ends[direction.opposite()].address;
        call.procedure
            .of_call(&arguments, server, row, details, counters);
        row.file_id = Some(call.file_id);
        if let Some(handle) = arguments.file().filter(|_| call.is_new_file) {
            operation.handle = Some(HandleBytes::new(&handle));
        }
        operation.procedure = Procedure::from(call.procedure);
        operation.number = call.procedure.get() as u32;
        operation.arguments = call.signature.arguments;
        (operation.call_end, operation.call_done) = (call.end, true);
        operation.holder = Some(call.holder());
        self.plain.callers.release(call.caller);
        slot
    }
}
