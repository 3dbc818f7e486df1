//! The fast path: NFSv3 calls over TCP that lie whole in one frame, with the connection's usual
//! header, and whose replies do too: most of all metadata. Of READ and WRITE only what comes before
//! the data lies in one frame; the data passes as always.
//!
//! Of such a call its arguments are kept as they came, in a record of a few hundred bytes; its rows
//! are made from them and from the reply as that passes, straight into the sink's columns. Anything
//! else that happens to the call (it comes again, expires, is given up, its reply comes in pieces,
//! or data is missing) [widens](Operations::widen) it: it goes on as if it had come the general
//! way.

use lineside_account::{Claim, Counter, Counters};
use lineside_flow::Transport;
use lineside_frame::{Cursor, Piece};
use lineside_nfs::v3;
use lineside_rows::{OperationCells, OperationRows, RecordSink, Word};
use lineside_rpc::calls::{self, OnCall};
use lineside_rpc::message::ReplyHeader;
use lineside_rpc::record::{self, Message, Want};
use lineside_wire::{Direction, Endpoint};

use super::arguments::Arguments;
use super::connection::RpcConnection;
use super::direction::DirectionSink;
use super::files::{HandleBytes, file_id_of};
use super::headers::Caller;
use super::incoming::{IncomingMessage, begin_row, operation_id};
use super::operation::{CallRef, Signature, Slot};
use super::{Holder, Operations, PLACE_BITS};
use crate::protocol::{FastArguments, FastProcedure, FastRows, NoCells, Procedure};

/// The longest arguments on the fast path: a handle of 64 bytes and a name of 52.
const BYTES_MAX: usize = 128;

/// The longest that a reply to READ has before its data: status, attributes, three words (RFC 1813
/// section 3.3.6).
const REPLY_MAX: usize = 4 + 4 + 84 + 12;

/// What such a call costs, to draw on the budget.
pub(super) const FAST_CALL_BYTES: usize = size_of::<FastCall>();

const _: () = assert!(FAST_CALL_BYTES <= 256, "as the specification promises");

/// A call that waits for its reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FastCall {
    pub(crate) operation_id: i64,
    /// In its connection's table.
    key: u64,
    connection: usize,
    /// Of the frame that it began in.
    stamp_ns: Option<i64>,
    /// Of the frame that it ends in: nothing of the following is known before.
    pub(crate) end_ns: Option<i64>,
    frame: u64,
    input: u16,
    /// It has ended.
    is_done: bool,
    /// Bytes of the message.
    len: u32,
    /// Where in its stream it ends.
    end: i64,
    signature: Signature,
    /// Who calls.
    caller: CallerRef,
    pub(crate) procedure: FastProcedure,
    pub(crate) file_id: i64,
    /// The connection had not reported this file.
    pub(crate) is_new_file: bool,
    bytes_len: u8,
    /// The first call that it repeats.
    repeat_of: Option<i64>,
    bytes: [u8; BYTES_MAX],
}

impl FastCall {
    pub(super) fn piece(&self) -> Piece<'_> {
        Piece::bytes(&self.bytes[..self.bytes_len.into()])
    }

    fn direction(&self) -> Direction {
        Direction::BOTH[calls::parts(self.key).0]
    }

    /// What is known of its reply, which has just ended.
    #[inline]
    fn replied(&self, rpc: &RpcConnection, message: &Message) -> FastReply {
        FastReply {
            first_ns: message.first.stamp_ns,
            stamp_ns: message.last.stamp_ns,
            frame: message.last.number,
            input: message.last.input,
            len: message.len,
            waited_ns: self.waited_ns(rpc, message),
        }
    }

    pub(super) fn holder(&self) -> Holder {
        Holder {
            connection: self.connection,
            key: self.key,
        }
    }

    /// Its last byte has come; `passed`: of its direction.
    #[inline]
    fn end(&mut self, message: &Message, passed: i64) {
        let last = &message.last;
        (self.end_ns, self.frame, self.input) = (last.stamp_ns, last.number, last.input);
        (self.len, self.end, self.is_done) = (message.len as u32, passed, true);
    }

    /// How long it and its reply waited for bytes that were sent again.
    #[inline]
    fn waited_ns(&self, rpc: &RpcConnection, reply: &Message) -> [Option<i64>; 2] {
        if rpc.recoveries.iter().all(Option::is_none) {
            return [None; 2];
        }
        let call = (self.stamp_ns, self.end_ns);
        let times = [call, (reply.first.stamp_ns, reply.last.stamp_ns)];
        rpc.waited_ns(self.direction().opposite(), times, self.end)
    }

    /// The cells that the two headers and the frames give.
    pub(crate) fn put_to(
        &self,
        caller: &FastCaller,
        reply: &FastReply,
        cells: &mut impl OperationCells,
    ) {
        let number = u128::from(caller.first_operation.cast_unsigned()) << 32
            | u128::from(self.input) << 16
            | u128::from(reply.input);
        cells.common(number, |cells| {
            let (client, server) = (&caller.client, &caller.server);
            let header = &caller.header;
            cells.connection_id(caller.connection_id);
            cells.call_input(Some(self.input.into()));
            cells.reply_input(Some(reply.input.into()));
            cells.client_address(Some(client.address));
            cells.server_address(Some(server.address));
            cells.client_port(Some(client.port.into()));
            cells.server_port(Some(server.port.into()));
            cells.transport(Some(Transport::Tcp.name()));
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
        cells.call_end_ns(self.end_ns);
        cells.reply_time_ns(reply.first_ns);
        cells.reply_end_ns(reply.stamp_ns);
        cells.call_recovery_ns(reply.waited_ns[0]);
        cells.reply_recovery_ns(reply.waited_ns[1]);
        cells.call_frame(Some(self.frame as i64));
        cells.reply_frame(Some(reply.frame as i64));
        cells.xid(Some(calls::parts(self.key).1.into()));
        cells.call_bytes(Some(self.len.into()));
        cells.reply_bytes(Some(reply.len as i64));
        cells.repeat(self.repeat_of.is_some());
        cells.repeat_of(self.repeat_of);
    }
}

/// The calls on the fast path, in slots that are used again.
#[derive(Default)]
pub(crate) struct FastCalls {
    calls: Vec<FastCall>,
    free: Vec<u32>,
    callers: Callers,
}

impl FastCalls {
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    #[inline]
    pub(super) fn get(&self, at: u32) -> &FastCall {
        &self.calls[at as usize]
    }

    pub(super) fn waiting(&self) -> usize {
        self.calls.len() - self.free.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &FastCall)> {
        let mut is_free = vec![false; self.calls.len()];
        for &free in &self.free {
            is_free[free as usize] = true;
        }
        let calls = self.calls.iter().enumerate();
        calls
            .filter(move |(at, _)| !is_free[*at])
            .map(|(at, call)| (Slot::of_fast(at as u32), call))
    }

    /// A call whose slot is free from now on.
    #[inline]
    fn take(&mut self, at: u32) -> FastCall {
        self.free.push(at);
        self.calls[at as usize]
    }

    /// A connection calls with another header from now on, or ends.
    #[inline]
    pub(super) fn forget_caller(&mut self, rpc: &mut RpcConnection) {
        if let Some(caller) = rpc.fast_caller.take() {
            self.callers.release(caller);
        }
    }
}

/// A caller among those of the calls that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallerRef(u32);

/// What is known of the reply beside its results.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FastReply {
    /// Of the frame that it begins in.
    first_ns: Option<i64>,
    /// Of the frame that it ends in, like the next two.
    pub(crate) stamp_ns: Option<i64>,
    frame: u64,
    input: u16,
    /// Bytes of the message.
    len: usize,
    /// How long the call waited for bytes that were sent again, and how long the reply did.
    waited_ns: [Option<i64>; 2],
}

/// What the calls of a connection have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FastCaller {
    header: Caller,
    connection_id: i64,
    client: Endpoint,
    pub(crate) server: Endpoint,
    /// Its first call: no other caller has this number.
    pub(super) first_operation: i64,
    /// Calls that wait, and their connection if its last header is this.
    uses: u32,
}

/// Callers, each as long as its connection calls with it or a call of it waits.
#[derive(Default)]
struct Callers {
    callers: Vec<FastCaller>,
    free: Vec<CallerRef>,
}

impl Callers {
    fn add(&mut self, caller: FastCaller) -> CallerRef {
        if let Some(free) = self.free.pop() {
            self.callers[free.0 as usize] = caller;
            return free;
        }
        self.callers.push(caller);
        CallerRef((self.callers.len() - 1) as u32)
    }

    #[inline]
    fn get(&self, caller: CallerRef) -> &FastCaller {
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

/// What comes before the data in a reply to READ.
#[derive(Debug)]
pub(super) struct HeldReply {
    bytes: [u8; REPLY_MAX],
    len: u8,
    /// Of the frame that it began in.
    stamp_ns: Option<i64>,
}

impl HeldReply {
    fn new(bytes: &[u8], stamp_ns: Option<i64>) -> Self {
        let mut held = [0; REPLY_MAX];
        held[..bytes.len()].copy_from_slice(bytes);
        Self {
            bytes: held,
            len: bytes.len() as u8,
            stamp_ns,
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len.into()]
    }
}

/// Whether all of a message that came so far was seen, and its rest has not been lost.
#[inline]
fn is_seen(message: &Message) -> bool {
    message.missing == 0 && !message.cut && message.ended
}

impl<S: RecordSink> IncomingMessage<'_, S> {
    /// Whether the message lies in one frame, all of it.
    #[inline]
    fn is_whole(&self, cursor: &Cursor<'_>) -> bool {
        let message = self.message;
        self.is_complete
            && message.first.ordinal == message.last.ordinal
            && cursor.at_hand().len() == cursor.remaining()
    }

    /// Takes a call whose header is the connection's usual one, with the cursor after it; `None`:
    /// nothing has changed, and it goes the general path.
    #[inline]
    pub(super) fn on_fast_call(
        &mut self,
        xid: u32,
        number: u32,
        cursor: &Cursor<'_>,
    ) -> Option<Want> {
        if !(self.all.fast_path && is_seen(self.message))
            || self.message.first_offset >> PLACE_BITS != 0
        {
            return None;
        }
        let rpc = self.all.connection(self.connection);
        let caller = rpc.last_header.caller()?;
        let readable = caller.is_readable && !caller.is_wrapped && rpc.transport == Transport::Tcp;
        let procedure = FastProcedure::find(caller.meant, caller.version, number);
        let procedure = procedure.filter(|_| readable)?;
        let piece = [Piece::bytes(cursor.at_hand())];
        let arguments = procedure.arguments(&piece, self.is_whole(cursor))?;
        if arguments.bytes.len() > BYTES_MAX {
            return None;
        }
        self.all.expire(self.connection, self.counters);
        let key = calls::key(self.direction.index(), xid);
        let ordinal = self.message.first.ordinal;
        let rpc = self.all.connection(self.connection);
        if !matches!(rpc.calls.on_call(key, ordinal), OnCall::New) {
            return None;
        }
        let at = self.all.open_fast(self.connection)?;
        self.begin_fast_call(at, key, procedure, &arguments);
        let Some((offset, len)) = arguments.data else {
            return Some(Want::End);
        };
        let slot = Slot::of_fast(at);
        self.open(Some(slot), true, xid);
        self.expect_data(slot, Some(offset), len);
        Some(Want::Data {
            from: cursor.position() + arguments.bytes.len(),
            len: record::ALL,
        })
    }

    #[inline]
    fn begin_fast_call(
        &mut self,
        at: u32,
        key: u64,
        procedure: FastProcedure,
        arguments: &FastArguments<'_>,
    ) {
        let FastArguments {
            handle,
            bytes,
            data,
        } = arguments;
        let server = self.receiver();
        let file_id = file_id_of(server, handle);
        let caller = self.fast_caller();
        let Self { all, counters, .. } = self;
        let known = &all.fast.callers.get(caller).header;
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
        rpc.calls.outstanding(key, Slot::of_fast(at), now);
        if rpc.program == Word::None {
            rpc.program = program_word;
        }
        let fast = &mut all.fast.calls[at as usize];
        *fast = FastCall {
            operation_id: operation_id(message),
            key,
            connection: self.connection,
            stamp_ns: message.first.stamp_ns,
            end_ns: message.last.stamp_ns,
            frame: message.last.number,
            input: message.last.input,
            is_done: data.is_none(),
            len: message.len as u32,
            end: rpc.passed[direction],
            signature,
            caller,
            procedure,
            file_id,
            is_new_file,
            bytes_len: bytes.len() as u8,
            repeat_of,
            bytes: fast.bytes,
        };
        fast.bytes[..bytes.len()].copy_from_slice(bytes);
    }

    /// The connection's usual caller, once more in use.
    #[inline]
    fn fast_caller(&mut self) -> CallerRef {
        let all = &mut *self.all;
        let rpc = all.connections[self.connection].as_mut();
        let rpc = rpc.expect("a slot in use");
        let client = rpc.ends[self.direction];
        // Both ends may call with the same header.
        let is_its = |callers: &Callers, caller| callers.get(caller).client == client;
        if rpc
            .fast_caller
            .is_some_and(|caller| !is_its(&all.fast.callers, caller))
        {
            all.fast.forget_caller(rpc);
        }
        let callers = &mut all.fast.callers;
        let caller = *rpc.fast_caller.get_or_insert_with(|| {
            let header = rpc.last_header.caller();
            callers.add(FastCaller {
                header: *header.expect("it was compared"),
                connection_id: rpc.id,
                client,
                server: rpc.ends[self.direction.opposite()],
                first_operation: operation_id(self.message),
                uses: 1,
            })
        });
        callers.hold(caller);
        caller
    }

    /// Takes the reply to the call in `slot`, with the cursor after its header, and writes the
    /// rows unless data follows; `None`: nothing has changed, and it goes the general path.
    #[inline]
    pub(super) fn on_fast_reply(
        &mut self,
        xid: u32,
        slot: Slot,
        reply: &ReplyHeader<'_>,
        cursor: &Cursor<'_>,
    ) -> Option<Want> {
        let at = slot.fast()?;
        let call = self.all.fast.get(at);
        if !(call.is_done && reply.is_success() && is_seen(self.message)) {
            return None;
        }
        let bytes = cursor.at_hand();
        let pieces = [Piece::bytes(bytes)];
        let mut results = Cursor::new(&pieces);
        let reply = v3::Reply::decode(call.procedure.get(), &mut results);
        if results.fault().is_some() {
            return None;
        }
        let Some(data) = data_of(&reply) else {
            return self.is_whole(cursor).then(|| {
                self.counters.count(Counter::Replies);
                self.finish_fast(at, &reply, bytes);
                Want::End
            });
        };
        let len = data?;
        let (from, head) = (cursor.position(), bytes.get(..results.position())?);
        if head.len() > REPLY_MAX {
            return None;
        }
        let pieces = [call.piece()];
        let arguments = v3::Call::decode(call.procedure.get(), &mut Cursor::new(&pieces));
        let offset = arguments.offset();
        self.counters.count(Counter::Replies);
        self.open(Some(slot), false, xid);
        self.expect_data(slot, offset, len);
        let held = HeldReply::new(head, self.message.first.stamp_ns);
        let rpc = self.all.connection(self.connection);
        match &mut rpc.fast_reply {
            Some(reply) => **reply = held,
            none => *none = Some(Box::new(held)),
        }
        Some(Want::Data {
            from: from + head.len(),
            len: record::ALL,
        })
    }

    /// The reply to the call at `at` has come, all of it: writes the rows. `bytes`: its results,
    /// data excluded.
    #[inline]
    fn finish_fast(&mut self, at: u32, reply: &v3::Reply<'_>, bytes: &[u8]) {
        let call = self.all.fast.take(at);
        self.counters.count(Counter::CallsAnswered);
        let rpc = self.all.connection(self.connection);
        rpc.is_answered = true;
        let remembered = CallRef::Written(call.signature);
        let ordinal = self.message.first.ordinal;
        rpc.calls.answered(call.key, remembered, ordinal);
        self.write_fast(&call, reply, bytes);
        self.all.fast.callers.release(call.caller);
        self.all.forget_ended(self.connection, self.counters);
    }

    /// Writes the rows of a call and its reply, or leaves that to another actor.
    #[inline]
    fn write_fast(&mut self, call: &FastCall, results: &v3::Reply<'_>, bytes: &[u8]) {
        let pieces = [call.piece()];
        let arguments = v3::Call::decode(call.procedure.get(), &mut Cursor::new(&pieces));
        let all = &mut *self.all;
        let rpc = all.connections[self.connection].as_deref();
        let reply = call.replied(rpc.expect("a slot in use"), self.message);
        let caller = all.fast.callers.get(call.caller);
        let call = (call, &arguments);
        let mut rows = FastRows::new(call, (&reply, results), caller, self.counters);
        match &mut all.deferred {
            Some(deferred) => deferred.calls.note((call.0, caller), &reply, bytes),
            None => all.sink.operation(&mut rows),
        }
        if all.deferred.is_some() || !all.wants_nfs {
            // Times that do not fit are counted here, whoever has a column for them.
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

/// The bytes of data that a reply brings, if any; `None` in it: their number contradicts itself.
#[inline]
fn data_of(reply: &v3::Reply<'_>) -> Option<Option<u32>> {
    let v3::Reply::Read(outcome) = reply else {
        return None;
    };
    let ok = outcome.ok()?;
    Some(ok.data_len.filter(|_| ok.count == ok.data_len))
}

impl<S: RecordSink> DirectionSink<'_, S> {
    /// A message of the call on the fast path at `at` with data has ended, and none of that is missing. False:
    /// nothing has changed, and it goes the general path.
    pub(super) fn end_fast(
        &mut self,
        (at, is_call): (u32, bool),
        message: &Message,
        counters: &mut Counters,
    ) -> bool {
        if !message.ended || message.cut {
            return false;
        }
        let all = &mut *self.all;
        let rpc = all.connections[self.connection].as_mut();
        let rpc = rpc.expect("a slot in use");
        rpc.open[self.direction] = None;
        if is_call {
            let passed = rpc.passed[self.direction];
            all.fast.calls[at as usize].end(message, passed);
            return true;
        }
        let Some(held) = rpc.fast_reply.take() else {
            return true;
        };
        let pieces = [Piece::bytes(held.bytes())];
        let mut incoming = IncomingMessage {
            all,
            connection: self.connection,
            direction: self.direction,
            message,
            is_complete: true,
            counters,
        };
        let procedure = incoming.all.fast.get(at).procedure;
        let reply = v3::Reply::decode(procedure.get(), &mut Cursor::new(&pieces));
        incoming.finish_fast(at, &reply, held.bytes());
        self.all.connection(self.connection).fast_reply = Some(held);
        true
    }
}

impl<S: RecordSink> Operations<S> {
    /// A slot for a call on the fast path; `None`: there is no room, which the general path makes.
    #[inline]
    fn open_fast(&mut self, connection: usize) -> Option<u32> {
        if !self.has_room() {
            return None;
        }
        self.fast.free.pop().or_else(|| self.add_fast(connection))
    }

    #[cold]
    fn add_fast(&mut self, connection: usize) -> Option<u32> {
        if !self.budget.draw_as(self.claim(connection), FAST_CALL_BYTES) {
            return None;
        }
        self.fast.calls.push(FastCall {
            operation_id: 0,
            key: 0,
            connection: 0,
            stamp_ns: None,
            end_ns: None,
            frame: 0,
            input: 0,
            is_done: true,
            len: 0,
            end: 0,
            signature: Signature::new((None, None), 0, Arguments::default()),
            caller: CallerRef(0),
            procedure: FastProcedure::default(),
            file_id: 0,
            is_new_file: false,
            bytes_len: 0,
            repeat_of: None,
            bytes: [0; BYTES_MAX],
        });
        Some((self.fast.calls.len() - 1) as u32)
    }

    /// The operation of a call, which from now on goes the general path if it did not.
    pub(super) fn widen(&mut self, slot: Slot, counters: &mut Counters) -> Slot {
        let Some(at) = slot.fast() else {
            return slot;
        };
        let call = self.fast.take(at);
        // If need be beyond the budget: of both kinds there are no more than a part of it bears.
        let wide = self.operations.take_free().unwrap_or_else(|| {
            self.draw_operation(Claim::Full);
            self.operations.add()
        });
        let direction = call.direction();
        let rpc = self.connections[call.connection].as_mut();
        let rpc = rpc.expect("a slot in use");
        rpc.calls.set_outstanding(call.key, wide);
        let caller = &self.fast.callers.get(call.caller).header;
        let operation = &mut self.operations[wide];
        let pieces = [call.piece()];
        let arguments = v3::Call::decode(call.procedure.get(), &mut Cursor::new(&pieces));
        let (row, details) = (&mut operation.row, &mut operation.details);
        let xid = calls::parts(call.key).1;
        begin_row(row, call.operation_id, rpc, direction, xid);
        row.call_time_ns = call.stamp_ns;
        if call.is_done {
            row.call_end_ns = call.end_ns;
            row.call_frame = Some(call.frame as i64);
            row.call_input = Some(call.input.into());
            row.call_bytes = Some(call.len.into());
        }
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
        (operation.call_end, operation.call_done) = (call.end, call.is_done);
        operation.holder = Some(call.holder());
        self.fast.callers.release(call.caller);
        let RpcConnection {
            open, fast_reply, ..
        } = &mut **rpc;
        for open in open.iter_mut().flatten() {
            if open.slot != Some(slot) {
                continue;
            }
            open.slot = Some(wide);
            open.data_of = open.data_of.map(|_| wide);
            let held = fast_reply.as_deref().filter(|_| !open.is_call);
            if let Some(held) = held {
                let pieces = [Piece::bytes(held.bytes())];
                let reply = v3::Reply::decode(call.procedure.get(), &mut Cursor::new(&pieces));
                let (row, details) = (&mut operation.row, &mut operation.details);
                row.reply_time_ns = held.stamp_ns;
                row.rpc_status = Word::Known("SUCCESS");
                call.procedure.of_reply(&reply, row, details, counters);
            }
        }
        wide
    }
}
