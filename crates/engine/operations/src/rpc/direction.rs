//! One direction of a connection as the sink of its messages: beginning, data, end.

use lineside_account::{Claim, Counters};
use lineside_frame::{Chunk, Cursor, Fault, Piece, Range};
use lineside_rows::RecordSink;
use lineside_rpc::calls;
use lineside_rpc::message::{
    AcceptStatus, AcceptedReply, Auth, Body, CallHeader, Flavor, Header, RPC_VERSION, ReplyHeader,
};
use lineside_rpc::record::{Message, MessageSink, Records, Want};
use lineside_rpc::xdr::Xdr;
use lineside_wire::Direction;

use super::Operations;
use super::incoming::IncomingMessage;
use super::request::{Credential, Request};
use super::tls::Probe;
use crate::headers::{Caller, SUCCESS};
use crate::slot::Slot;

/// Lists kept for reuse, and how long one may be: few messages wait for their rest at once, and 1
/// MiB in segments is 725 ranges. 6 MiB in all.
const SPARE_MAX: usize = 64;
const SPARE_RANGES_MAX: usize = 1024;

/// One direction of one connection.
pub(super) struct DirectionSink<'a, S> {
    pub(super) all: &'a mut Operations<S>,
    pub(super) connection: usize,
    pub(super) direction: Direction,
}

impl<S: RecordSink> MessageSink for DirectionSink<'_, S> {
    fn on_head(
        &mut self,
        message: &Message,
        head: &[Piece<'_>],
        done: bool,
        counters: &mut Counters,
    ) -> Want {
        let mut incoming = IncomingMessage {
            all: &mut *self.all,
            connection: self.connection,
            direction: self.direction,
            message,
            is_complete: done,
            counters,
        };
        incoming.on_head(&mut Cursor::new(head))
    }

    fn on_data(&mut self, chunk: Chunk<'_>, _counters: &mut Counters) {
        self.take_data(chunk);
    }

    fn on_end(&mut self, message: &Message, counters: &mut Counters) {
        let all = &mut *self.all;
        let connection = all.connections[self.connection]
            .as_mut()
            .expect("a slot in use");
        let mut lacking = connection.end_data(self.direction, &mut all.sink, counters);
        let Some(open) = &connection.open[self.direction] else {
            return;
        };
        if let Some(slot) = open.slot
            && let Some(at) = slot.fast()
        {
            let is_call = open.is_call;
            if lacking.is_none() && self.end_fast((at, is_call), message, counters) {
                return;
            }
            let slot = self.all.widen(slot, counters);
            lacking = lacking.map(|_| slot);
        }
        let open = self.all.connection(self.connection).open[self.direction].take();
        if let Some(lacking) = lacking {
            self.all.operations[lacking].row.data_incomplete = true;
        }
        let Some((open, slot)) = open.and_then(|open| open.slot.map(|slot| (open, slot))) else {
            return;
        };
        self.end_message(slot, open.is_call, message);
        let operation = &mut self.all.operations[slot];
        if let Some(early) = operation.early.take_if(|_| open.is_call) {
            let all = &mut *self.all;
            return all.read_early(self.connection, &early, Some(slot), counters);
        }
        if operation.call_done && operation.reply_done {
            let caller = match open.is_call {
                true => self.direction,
                false => self.direction.opposite(),
            };
            let key = calls::key(caller.index(), open.xid);
            self.all
                .on_answered(self.connection, key, slot, message, counters);
        }
    }

    fn hears_both(&self) -> bool {
        { self.all.connections[self.connection].as_ref() }.is_some_and(|rpc| rpc.hears_both)
    }

    fn claim(&self) -> Claim {
        self.all.claim(self.connection)
    }

    fn spare(&mut self) -> Vec<Range> {
        self.all.spare.pop().unwrap_or_default()
    }

    fn recycle(&mut self, mut ranges: Vec<Range>) {
        if self.all.spare.len() < SPARE_MAX && ranges.capacity() <= SPARE_RANGES_MAX {
            ranges.clear();
            self.all.spare.push(ranges);
        }
    }

    fn agrees(&mut self, xid: u32, is_call: bool) -> bool {
        let other = self.direction.opposite();
        let connection = self.all.connection(self.connection);
        if is_call {
            connection
                .calls
                .is_early(calls::key(self.direction.index(), xid))
                || connection.has_candidate(other, xid, false)
        } else {
            connection
                .calls
                .is_outstanding(calls::key(other.index(), xid))
                || connection.has_candidate(other, xid, true)
        }
    }
}

impl<S: RecordSink> Operations<S> {
    /// Runs `act` on a direction's records, which are taken out of the connection meanwhile so that
    /// the sink can reach everything else, the other direction included.
    pub(super) fn with_records(
        &mut self,
        connection: usize,
        direction: Direction,
        counters: &mut Counters,
        act: impl FnOnce(&mut Records, &mut DirectionSink<'_, S>, &mut Counters),
    ) {
        let Some(mut records) = self.connection(connection).records[direction].take() else {
            return;
        };
        let mut sink = DirectionSink {
            all: self,
            connection,
            direction,
        };
        act(&mut records, &mut sink, counters);
        let holds = records.holds();
        self.connection(connection).records[direction] = Some(records);
        if holds {
            self.add_holder(connection);
        }
    }

    /// No more records come, in either direction.
    pub(super) fn finish_records(&mut self, connection: usize, counters: &mut Counters) {
        for direction in Direction::BOTH {
            self.with_records(
                connection,
                direction,
                counters,
                |records, sink, counters| {
                    records.finish(sink, counters);
                },
            );
        }
    }
}

impl<S: RecordSink> DirectionSink<'_, S> {
    /// Sets what the end of a message gives of its operation.
    #[inline]
    fn end_message(&mut self, slot: Slot, is_call: bool, message: &Message) {
        let connection = self.all.connections[self.connection]
            .as_deref_mut()
            .expect("a slot in use");
        let passed = connection.passed[self.direction];
        let operation = &mut self.all.operations[slot];
        let row = &mut operation.row;
        let last = message.ended.then_some(&message.last);
        let end_ns = last.and_then(|last| last.stamp_ns);
        let frame = last.map(|last| last.number as i64);
        let input = last.map(|last| i32::from(last.input));
        let bytes = (!message.cut).then_some(message.len as i64);
        if is_call {
            (row.call_end_ns, row.call_frame) = (end_ns, frame);
            (row.call_input, row.call_bytes) = (input, bytes);
            (operation.call_end, operation.call_done) = (passed, true);
        } else {
            (row.reply_end_ns, row.reply_frame) = (end_ns, frame);
            (row.reply_input, row.reply_bytes) = (input, bytes);
            operation.reply_done = true;
            if connection.late_ack.is_some() {
                let reply_ns = [row.reply_time_ns, row.reply_end_ns];
                connection.end_ack_wait(self.direction, row.call_end_ns, reply_ns);
            }
            if connection.recoveries.iter().any(Option::is_some) {
                let call = (row.call_time_ns, row.call_end_ns);
                let reply = (row.reply_time_ns, row.reply_end_ns);
                let waited =
                    connection.waited_ns(self.direction, [call, reply], operation.call_end);
                [row.call_recovery_ns, row.reply_recovery_ns] = waited;
            }
        }
    }
}

impl<S: RecordSink> IncomingMessage<'_, S> {
    /// The beginning of a message, or what follows the data in its middle.
    fn on_head(&mut self, cursor: &mut Cursor<'_>) -> Want {
        let bytes = cursor.at_hand();
        let connection = self.all.connection(self.connection);
        if connection.open[self.direction].is_some() {
            return self.on_continuation(*cursor);
        }
        if let Some((xid, rest)) = bytes.split_first_chunk()
            && rest.first_chunk() == Some(&SUCCESS)
        {
            cursor.skip(4 + SUCCESS.len());
            let xid = u32::from_be_bytes(*xid);
            let reply = ReplyHeader::Accepted(AcceptedReply {
                verifier: Auth::none(),
                status: AcceptStatus::Success,
            });
            return self.on_reply(xid, &reply, cursor);
        }
        if let Some((xid, number, len)) = connection.last_header.again(bytes) {
            cursor.skip(len);
            return self.on_usual_call(xid, number, cursor);
        }
        let Header { xid, body } = Header::decode(cursor);
        if cursor.fault() == Some(Fault::End) && !self.is_complete {
            return Want::More(cursor.needed());
        }
        match (xid, body) {
            (Some(xid), Body::Call(call)) => self.on_call_header(xid, &call, bytes, cursor),
            (Some(xid), Body::Reply(reply)) => {
                let key = calls::key(self.direction.opposite().index(), xid);
                let asked = Some(Probe::Asked(key));
                if reply.starts_tls().unwrap_or(connection.probe == asked) {
                    connection.probe = Some(Probe::Agreed);
                }
                self.on_reply(xid, &reply, cursor)
            }
            // The words that decide were seen and are neither a call's nor a reply's: the search
            // for records went wrong.
            _ if cursor.fault() == Some(Fault::Malformed) => Want::Refuse,
            _ => {
                self.open(None, false, 0);
                Want::End
            }
        }
    }

    /// A call whose header is like the last one.
    #[inline]
    fn on_usual_call(&mut self, xid: u32, number: u32, cursor: &mut Cursor<'_>) -> Want {
        if let Some(want) = self.on_fast_call(xid, number, cursor) {
            return want;
        }
        let connection = self.all.connection(self.connection);
        let caller = connection.last_header.caller();
        let request = Request {
            xid,
            caller: *caller.expect("a header was compared"),
            number,
            credential: Credential::Usual,
        };
        self.on_call(&request, cursor)
    }

    /// A call whose header is not like the last one. `bytes`: the first of the message.
    fn on_call_header(
        &mut self,
        xid: u32,
        call: &CallHeader<'_>,
        bytes: &[u8],
        cursor: &mut Cursor<'_>,
    ) -> Want {
        let caller = Caller::new(call, &self.all.config.decode_as);
        let (Some(caller), Some(rpc_version), Some(number)) =
            (caller, call.rpc_version, call.procedure)
        else {
            // Too little of the header survived to know what was called.
            self.open(None, true, xid);
            return Want::End;
        };
        if rpc_version != RPC_VERSION {
            return Want::Refuse;
        }
        if call.credential.flavor == Some(Flavor::SYS)
            && cursor.fault().is_none()
            && let Some(header) = bytes.get(..cursor.position())
        {
            let Operations {
                connections, fast, ..
            } = &mut *self.all;
            let connection = connections[self.connection].as_mut();
            let connection = connection.expect("a slot in use");
            fast.forget_caller(connection);
            connection.last_header.remember(header, caller);
            return self.on_usual_call(xid, number, cursor);
        }
        let request = Request {
            xid,
            caller,
            number,
            credential: Credential::Own(call.credential.sys()),
        };
        self.on_call(&request, cursor)
    }

    /// What follows the data in the middle of a message.
    fn on_continuation(&mut self, cursor: Cursor<'_>) -> Want {
        let Operations {
            connections,
            operations,
            sink,
            ..
        } = &mut *self.all;
        let connection = connections[self.connection]
            .as_mut()
            .expect("a slot in use");
        if let Some(lacking) = connection.end_data(self.direction, sink, self.counters) {
            operations[lacking].row.data_incomplete = true;
        }
        let open = connection.open[self.direction].as_ref();
        let Some(slot) = open.and_then(|open| open.slot) else {
            return Want::End;
        };
        let procedure = operations[slot].procedure;
        procedure.read_on(self, cursor)
    }
}
