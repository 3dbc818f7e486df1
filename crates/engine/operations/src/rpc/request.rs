//! Calls: matched with what has been seen of their xid, then read by their protocol.

use lineside_account::Counter;
use lineside_flow::{Config as FlowConfig, Transport};
use lineside_frame::{Cursor, Fault};
use lineside_rows::{RecordSink, Word};
use lineside_rpc::calls::{self, Expired, OnCall};
use lineside_rpc::message::AuthSys;
use lineside_rpc::record::{Message, Want};

use super::Operations;
use super::ids::PLACE_BITS;
use super::incoming::{IncomingMessage, begin_row, operation_id, unwrap};
use super::tls::Probe;
use crate::arguments::{ARGUMENTS_MAX, Arguments};
use crate::headers::{Caller, put_sys};
use crate::operation::{CallRef, EarlyReply, Holder, Signature};
use crate::procedure::Procedure;
use crate::protocol::{Needs, Protocol, Reader};
use crate::slot::Slot;

/// A call by its header.
pub(super) struct Request<'a> {
    pub(super) xid: u32,
    pub(super) caller: Caller,
    /// The number of the procedure.
    pub(super) number: u32,
    pub(super) credential: Credential<'a>,
}

/// Where the credential of a call lies.
pub(super) enum Credential<'a> {
    /// In the connection's last header.
    Usual,
    /// In a header of its own, if it is AUTH_SYS.
    Own(Option<AuthSys<'a>>),
}

impl Request<'_> {
    fn signature(&self, arguments: Arguments) -> Signature {
        Signature::new(self.caller.numbers(), self.number, arguments)
    }
}

/// Reads the arguments of a call.
struct CallReader<'r, 'm, 'c, S> {
    incoming: &'r mut IncomingMessage<'m, S>,
    procedures: [Procedure; 2],
    request: &'r Request<'r>,
    cursor: &'r mut Cursor<'c>,
}

impl<S: RecordSink> Reader for CallReader<'_, '_, '_, S> {
    #[inline]
    fn read<P: Protocol>(self, protocol: P) -> Want {
        self.incoming
            .read_call(protocol, self.procedures, self.request, self.cursor)
    }
}

/// A call that begins an operation.
struct NewCall {
    /// The reply that came before it.
    early: Option<Box<EarlyReply>>,
    /// The same call has been answered before.
    is_repeat: bool,
    /// No other call is in the table with its xid.
    is_first: bool,
    /// Another one with its xid had no reply yet.
    is_ambiguous: bool,
}

impl<S: RecordSink> IncomingMessage<'_, S> {
    /// A call, with the cursor after its header.
    pub(super) fn on_call(&mut self, request: &Request<'_>, cursor: &mut Cursor<'_>) -> Want {
        let caller = &request.caller;
        let named = Procedure::find(caller.meant, caller.version, request.number);
        let procedure = match caller.is_readable {
            true => named,
            false => Procedure::default(),
        };
        if caller.is_wrapped {
            unwrap(cursor);
        }
        procedure.read(CallReader {
            incoming: self,
            procedures: [procedure, named],
            request,
            cursor,
        })
    }

    /// Reads the arguments as `protocol` has them; `procedure` is the same without its type, and
    /// `named` gives the name, also where the arguments cannot be read.
    #[inline]
    fn read_call<P: Protocol>(
        &mut self,
        protocol: P,
        [procedure, named]: [Procedure; 2],
        request: &Request<'_>,
        cursor: &mut Cursor<'_>,
    ) -> Want {
        let needs = protocol.call_needs();
        if !self.is_complete && needs == Needs::Whole {
            return Want::Whole;
        }
        let start = *cursor;
        // Decoded to where they stay: they are large, and a move costs as much as most of their
        // fields.
        let arguments = protocol.decode_call(cursor);
        if !self.is_complete && needs == Needs::Beginning && cursor.fault() == Some(Fault::End) {
            return Want::More(cursor.needed());
        }
        if request.caller.asks_tls {
            let key = calls::key(self.direction.index(), request.xid);
            let connection = self.all.connection(self.connection);
            // The answer may have come first, where the tap was late.
            if let None | Some(Probe::Looking(_)) = connection.probe {
                connection.probe = Some(Probe::Asked(key));
            }
        }
        if P::GOES_ON
            && let Some(bytes) = self.arguments_need(request, &start)
        {
            return Want::More(bytes);
        }
        let signature = match request.caller.is_readable && !request.caller.is_wrapped {
            true => {
                let is_before_data = needs == Needs::Beginning && !P::GOES_ON;
                let len = match is_before_data && cursor.fault().is_none() {
                    true => cursor.position() - start.position(),
                    false => start.remaining(),
                };
                request.signature(Arguments::of(&start, len))
            }
            // Of a call that is wrapped, also the bytes of a copy are others.
            false => request.signature(Arguments::default()),
        };
        let Some(slot) = self.begin_operation(request, &signature, P::GOES_ON, &start) else {
            self.open(None, true, request.xid);
            return Want::End;
        };
        self.open(Some(slot), true, request.xid);
        self.begin_call_row(slot, request, procedure, named.name());
        self.all.operations[slot].arguments = signature.arguments;
        protocol.on_call(&arguments, self, slot, cursor)
    }

    /// How long the message must be to decide whether it is the same call as an outstanding one, if
    /// it has not come that far.
    fn arguments_need(&mut self, request: &Request<'_>, start: &Cursor<'_>) -> Option<usize> {
        if self.is_complete || start.remaining() >= ARGUMENTS_MAX {
            return None;
        }
        let key = calls::key(self.direction.index(), request.xid);
        let calls = &self.all.connection(self.connection).calls;
        calls
            .is_outstanding(key)
            .then(|| start.position() + ARGUMENTS_MAX)
    }

    /// Sets what the header of the call gives of the row.
    #[inline]
    fn begin_call_row(
        &mut self,
        slot: Slot,
        request: &Request<'_>,
        procedure: Procedure,
        name: Word,
    ) {
        let Operations {
            connections,
            operations,
            ..
        } = &mut *self.all;
        let caller = &request.caller;
        let operation = &mut operations[slot];
        (operation.procedure, operation.number) = (procedure, request.number);
        operation.is_wrapped = caller.is_wrapped;
        let row = &mut operation.row;
        row.program = caller.program_word;
        row.operation = name;
        row.auth_flavor = caller.auth_flavor;
        [row.user_id, row.group_id] = caller.ids;
        let connection = connections[self.connection]
            .as_mut()
            .expect("a slot in use");
        match &request.credential {
            Credential::Usual => connection.last_header.put_credential(row),
            Credential::Own(sys) => { sys.iter() }.for_each(|sys| put_sys(sys, row)),
        }
        if connection.program == Word::None && operation.unproven_bytes.is_none() {
            connection.program = row.program;
        }
        self.counters
            .add(Counter::CallsDecodedAs, caller.is_decoded_as.into());
    }

    /// The slot of a new call; `None` if it is the copy of a known one, or there is no room.
    fn begin_operation(
        &mut self,
        request: &Request<'_>,
        signature: &Signature,
        goes_on: bool,
        start: &Cursor<'_>,
    ) -> Option<Slot> {
        if self.message.first_offset >> PLACE_BITS != 0 {
            self.counters.count(Counter::PlacesLimit);
            return None;
        }
        self.all.expire(self.connection, self.counters);
        let key = calls::key(self.direction.index(), request.xid);
        let mut new = self.match_call(key, signature, start)?;
        let slot = self.all.open_operation(self.connection, self.counters)?;
        let arguments = signature.arguments.to_remember(goes_on, start);
        let first_id = self.remember(request.xid, signature.numbers, arguments);
        if first_id.is_some() && new.is_first {
            new.is_repeat = true;
            self.counters.count(Counter::CallsRepeated);
        }
        let connection = self.all.connection(self.connection);
        let is_udp = connection.transport == Transport::Udp;
        let is_unproven = is_udp && !connection.trusts(&request.caller);
        let is_first_call = connection.caller.is_none();
        let seen = self.message.len - self.message.missing;
        if !is_unproven {
            self.counters.count(Counter::RpcCalls);
            self.counters.add(Counter::CallsUdp, u64::from(is_udp));
            if is_first_call {
                self.all.set_caller(self.connection, self.direction);
            }
        }
        let Operations {
            connections,
            operations,
            now,
            ..
        } = &mut *self.all;
        let connection = connections[self.connection]
            .as_mut()
            .expect("a slot in use");
        let replaced = match new.is_first {
            true => {
                connection.calls.outstanding(key, slot, *now);
                None
            }
            false => connection.calls.replace(key, slot, *now),
        };
        let operation = &mut operations[slot];
        operation.unproven_bytes = is_unproven.then_some(seen);
        operation.holder = Some(Holder {
            connection: self.connection,
            key,
        });
        operation.early = new.early;
        let row = &mut operation.row;
        begin_row(
            row,
            operation_id(self.message),
            connection,
            self.direction,
            request.xid,
        );
        row.call_time_ns = self.message.first.stamp_ns;
        (row.program_number, row.version) = request.caller.numbers();
        if new.is_repeat {
            (row.repeat, row.repeat_of) = (true, first_id);
        }
        row.reply_ambiguous = new.is_ambiguous;
        if let Some(CallRef::Open(replaced)) = replaced {
            self.all.emit(self.connection, replaced, self.counters);
        }
        Some(slot)
    }

    /// What a call is to those before it with its xid; `None` if it is the copy of one.
    #[inline]
    fn match_call(
        &mut self,
        key: u64,
        signature: &Signature,
        start: &Cursor<'_>,
    ) -> Option<NewCall> {
        let mut new = NewCall {
            early: None,
            is_repeat: false,
            is_first: true,
            is_ambiguous: false,
        };
        let is_same = |before: Signature| {
            before.numbers == signature.numbers
                && before.arguments.may_be(signature.arguments, start)
        };
        let ordinal = self.message.first.ordinal;
        let connection = self.all.connection(self.connection);
        match connection.calls.on_call(key, ordinal) {
            OnCall::New => {}
            // The reply belongs to another call, which was not seen.
            OnCall::Answers(reply)
                if is_before(&reply.message, self.message, &self.all.config.flow) =>
            {
                self.all
                    .read_early(self.connection, &reply, None, self.counters);
            }
            OnCall::Answers(reply) => new.early = Some(reply),
            OnCall::Again(slot) => {
                let slot = self.all.widen(slot, self.counters);
                if is_same(Signature::of(&self.all.operations[slot])) {
                    let seen = self.message.len - self.message.missing;
                    let operation = &mut self.all.operations[slot];
                    operation.row.retransmissions += 1;
                    if let Some(bytes) = &mut operation.unproven_bytes {
                        *bytes += seen;
                    }
                    self.counters.count(Counter::CallsRetransmitted);
                    return None;
                }
                // The xid was used again for something else: the first call will not be answered
                // now, or who knows which reply is whose.
                (new.is_first, new.is_ambiguous) = (false, true);
                self.all.operations[slot].row.reply_ambiguous = true;
                self.all
                    .on_expired(self.connection, Expired::Call(slot), self.counters);
            }
            OnCall::Repeat(answered) => {
                // Otherwise the xid was used again for something else.
                new.is_repeat = is_same(self.all.signature(answered));
                self.counters
                    .add(Counter::CallsRepeated, new.is_repeat.into());
                new.is_first = false;
            }
            OnCall::Late(answered) => {
                self.counters.count(Counter::CallsRetransmitted);
                if let CallRef::Open(slot) = answered {
                    self.all.operations[slot].row.retransmissions += 1;
                }
                return None;
            }
        }
        Some(new)
    }
}

/// Whether `earlier` was certainly sent before `later`, however late the tap was: by the stamps,
/// and by the frames between, since a late frame may be stamped when it comes.
fn is_before(earlier: &Message, later: &Message, flow: &FlowConfig) -> bool {
    let stamps = earlier.first.stamp_ns.zip(later.first.stamp_ns);
    let frames = later.first.ordinal.saturating_sub(earlier.first.ordinal);
    frames > flow.late_segments
        && stamps
            .is_some_and(|(earlier, later)| later.saturating_sub(earlier) > flow.late_window_ns)
}
