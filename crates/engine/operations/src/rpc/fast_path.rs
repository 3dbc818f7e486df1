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
use lineside_rows::{OperationRows, RecordSink, Word};
use lineside_rpc::calls::{self, OnCall};
use lineside_rpc::message::ReplyHeader;
use lineside_rpc::record::{self, Message, Want};

use super::Operations;
use super::connection::RpcConnection;
use super::direction::DirectionSink;
use super::fast_calls::{Callers, FAST_CALL_BYTES};
use super::ids::PLACE_BITS;
use super::incoming::{IncomingMessage, begin_row, operation_id};
use crate::arguments::Arguments;
use crate::fast_call::{
    BYTES_MAX, CallerRef, FastCall, FastCaller, FastReply, HeldReply, REPLY_MAX,
};
use crate::files::{HandleBytes, file_id_of};
use crate::operation::{CallRef, Signature};
use crate::procedure::{FastProcedure, Procedure};
use crate::protocol::{FastArguments, FastResults, FastRows, Incoming, NoCells};
use crate::slot::Slot;

impl RpcConnection {
    /// What is known of the reply to a call on the fast path, which has just ended.
    #[inline]
    fn replied_to(&self, call: &FastCall, message: &Message) -> FastReply {
        FastReply {
            first_ns: message.first.stamp_ns,
            stamp_ns: message.last.stamp_ns,
            frame: message.last.number,
            input: message.last.input,
            len: message.len,
            waited_ns: self.fast_waited_ns(call, message),
        }
    }

    /// How long it and its reply waited for bytes that were sent again.
    #[inline]
    fn fast_waited_ns(&self, call: &FastCall, reply: &Message) -> [Option<i64>; 2] {
        if self.recoveries.iter().all(Option::is_none) {
            return [None; 2];
        }
        let called = (call.stamp_ns, call.end_ns);
        let times = [called, (reply.first.stamp_ns, reply.last.stamp_ns)];
        self.waited_ns(call.direction().opposite(), times, call.end)
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
        rpc.last_header.credential()?;
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
        let signature = Signature::new(numbers, procedure.number(), arguments);
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
        let is_new_file = self.all.wants.files && !self.has_reported(file_id);
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
            let credential = rpc.last_header.credential();
            callers.add(FastCaller {
                header: *header.expect("it was compared"),
                credential: *credential.expect("it was looked at"),
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
        let reply = call.procedure.decode_reply(&mut results);
        if results.fault().is_some() {
            return None;
        }
        let Some(data) = FastProcedure::data_of(&reply) else {
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
        let arguments = call.procedure.decode_call(&pieces);
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
    fn finish_fast(&mut self, at: u32, reply: &FastResults<'_>, bytes: &[u8]) {
        let call = self.all.fast.take(at);
        self.counters.count(Counter::CallsAnswered);
        let rpc = self.all.connection(self.connection);
        rpc.answered += 1;
        let remembered = CallRef::Written(call.signature);
        let ordinal = self.message.first.ordinal;
        rpc.calls.answered(call.key, remembered, ordinal);
        self.write_fast(&call, reply, bytes);
        self.all.fast.callers.release(call.caller);
        self.all.forget_ended(self.connection, self.counters);
    }

    /// Writes the rows of a call and its reply, or leaves that to another actor.
    #[inline]
    fn write_fast(&mut self, call: &FastCall, results: &FastResults<'_>, bytes: &[u8]) {
        let pieces = [call.piece()];
        let arguments = call.procedure.decode_call(&pieces);
        if FastProcedure::contradicts(&arguments, results) {
            self.counters.count(Counter::RepliesContradicting);
        }
        let all = &mut *self.all;
        let rpc = all.connections[self.connection].as_deref_mut();
        let rpc = rpc.expect("a slot in use");
        if rpc.late_ack.is_some() {
            let direction = call.direction().opposite();
            let reply_ns = [self.message.first.stamp_ns, self.message.last.stamp_ns];
            rpc.end_ack_wait(direction, call.end_ns, reply_ns);
        }
        let reply = rpc.replied_to(call, self.message);
        let caller = all.fast.callers.get(call.caller);
        let call = (call, &arguments);
        let mut rows = FastRows::new(call, (&reply, results), caller, self.counters);
        match &mut all.deferred {
            Some(deferred) => deferred.calls.note((call.0, caller), &reply, bytes),
            None => all.sink.operation(&mut rows),
        }
        if all.deferred.is_some() || !all.wants.nfs {
            // Times that do not fit are counted here, whoever has a column for them.
            rows.nfs(&mut NoCells);
        }
        if all.wants.files {
            let facts = rows.facts();
            for fact in facts.iter().flatten() {
                self.rows().report_fact(fact);
            }
        }
    }
}

impl<S: RecordSink> DirectionSink<'_, S> {
    /// A message of the call on the fast path at `at` with data has ended, and none of that is
    /// missing. False: nothing has changed, and it goes the general path.
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
        let reply = procedure.decode_reply(&mut Cursor::new(&pieces));
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
        let known = self.fast.callers.get(call.caller);
        let (caller, credential) = (&known.header, &known.credential);
        let operation = &mut self.operations[wide];
        let pieces = [call.piece()];
        let arguments = call.procedure.decode_call(&pieces);
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
        credential.put_to(row);
        (row.repeat, row.repeat_of) = (call.repeat_of.is_some(), call.repeat_of);
        let server = rpc.ends[direction.opposite()].address;
        call.procedure
            .of_call(&arguments, server, row, details, counters);
        row.file_id = Some(call.file_id);
        if let Some(handle) = arguments.file().filter(|_| call.is_new_file) {
            operation.handle = Some(HandleBytes::new(&handle));
        }
        operation.procedure = Procedure::from(call.procedure);
        operation.number = call.procedure.number();
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
                let reply = call.procedure.decode_reply(&mut Cursor::new(&pieces));
                let (row, details) = (&mut operation.row, &mut operation.details);
                row.reply_time_ns = held.stamp_ns;
                row.rpc_status = Word::Known("SUCCESS");
                call.procedure.of_reply(&reply, row, details, counters);
            }
        }
        wide
    }
}
