//! Replies: matched with their calls, then read by the protocol of the call.

use lineside_account::{Counter, Counters};
use lineside_flow::Transport;
use lineside_frame::{Cursor, Fault};
use lineside_rows::{RecordSink, Word};
use lineside_rpc::calls::{self, OnReply};
use lineside_rpc::message::ReplyHeader;
use lineside_rpc::record::{Message, Want};
use lineside_wire::Direction;

use super::Operations;
use super::ids::PLACE_BITS;
use super::incoming::{IncomingMessage, begin_row, operation_id, rpc_status, unwrap};
use crate::operation::{CallRef, Signature};
use crate::procedure::Procedure;
use crate::protocol::{Needs, Protocol, Reader};
use crate::slot::Slot;

/// A reply to a call that was seen.
struct Answer {
    xid: u32,
    slot: Slot,
    rpc_status: Word,
}

/// Reads the results of a successful reply.
struct ReplyReader<'r, 'm, 'c, S> {
    incoming: &'r mut IncomingMessage<'m, S>,
    answer: &'r Answer,
    cursor: &'r mut Cursor<'c>,
}

impl<S: RecordSink> Reader for ReplyReader<'_, '_, '_, S> {
    #[inline]
    fn read<P: Protocol>(self, protocol: P) -> Want {
        self.incoming.read_reply(protocol, self.answer, self.cursor)
    }
}

impl<S: RecordSink> IncomingMessage<'_, S> {
    /// A reply, with the cursor after its header.
    pub(super) fn on_reply(
        &mut self,
        xid: u32,
        reply: &ReplyHeader<'_>,
        cursor: &mut Cursor<'_>,
    ) -> Want {
        let calls_direction = self.direction.opposite();
        let key = calls::key(calls_direction.index(), xid);
        let connection = self.all.connection(self.connection);
        let mut found = connection.calls.on_reply(key);
        if found == OnReply::Unknown && connection.has_candidate(calls_direction, xid, true) {
            // The call is there, but it was not certain to be one: now it is.
            let (all, counters) = (&mut *self.all, &mut *self.counters);
            all.with_records(
                self.connection,
                calls_direction,
                counters,
                |records, sink, counters| {
                    records.on_agreement(xid, true, sink, counters);
                },
            );
            found = self.all.connection(self.connection).calls.on_reply(key);
        }
        match found {
            OnReply::Answers(slot) => {
                if let Some(want) = self.on_fast_reply(xid, slot, reply, cursor) {
                    return want;
                }
                let slot = self.all.widen(slot, self.counters);
                self.on_matched_reply(xid, slot, reply, cursor)
            }
            OnReply::Duplicate(answered) => {
                self.counters.count(Counter::Replies);
                self.counters.count(Counter::RepliesDuplicate);
                if let CallRef::Open(slot) = answered {
                    let is_elsewhere = self.all.is_elsewhere;
                    let operation = &mut self.all.operations[slot];
                    operation.row.duplicate_replies += 1;
                    // The server that was called answers too: the first answer may be another's.
                    let is_other = operation.is_elsewhere && !is_elsewhere;
                    if is_other && !std::mem::replace(&mut operation.row.reply_ambiguous, true) {
                        self.counters.count(Counter::RepliesAmbiguous);
                    }
                }
                self.open(None, false, xid);
                Want::End
            }
            OnReply::TooLate => self.on_late_reply(xid, reply),
            OnReply::Unknown => {
                let call = self.all.recent_call(self.connection, calls_direction, xid);
                match call.map(|call| call.is_given_up) {
                    None => self.on_reply_without_call(xid, reply),
                    Some(true) => self.on_late_reply(xid, reply),
                    Some(false) => {
                        self.counters.count(Counter::Replies);
                        self.counters.count(Counter::RepliesDuplicate);
                        self.open(None, false, xid);
                        Want::End
                    }
                }
            }
        }
    }

    /// A reply whose call had been given up.
    fn on_late_reply(&mut self, xid: u32, reply: &ReplyHeader<'_>) -> Want {
        self.counters.count(Counter::ReplyLimit);
        self.on_reply_without_call(xid, reply)
    }

    fn on_reply_without_call(&mut self, xid: u32, reply: &ReplyHeader<'_>) -> Want {
        self.all.expire(self.connection, self.counters);
        if self.all.connection(self.connection).is_trusted() {
            self.all
                .set_caller(self.connection, self.direction.opposite());
        }
        if self.keep_early(xid) {
            self.open(None, false, xid);
            return Want::End;
        }
        self.on_unmatched_reply(xid, reply)
    }

    /// A reply whose call was never seen: its procedure is not known, so only the header is read.
    pub(super) fn on_unmatched_reply(&mut self, xid: u32, reply: &ReplyHeader<'_>) -> Want {
        let calls_direction = self.direction.opposite();
        let connection = self.all.connection(self.connection);
        if !connection.is_trusted() {
            self.counters.count(Counter::DatagramsDoubted);
            return Want::Refuse;
        }
        if let Some(records) = &mut connection.records[calls_direction] {
            records.revive();
        }
        self.counters.count(Counter::Replies);
        self.counters.count(Counter::RepliesWithoutCall);
        self.all
            .note_orphan(self.connection, self.direction, self.counters);
        let slot = if self.message.first_offset >> PLACE_BITS != 0 {
            self.counters.count(Counter::PlacesLimit);
            None
        } else {
            self.all.open_operation(self.connection, self.counters)
        };
        if let Some(slot) = slot {
            let Operations {
                connections,
                operations,
                ..
            } = &mut *self.all;
            let connection = connections[self.connection]
                .as_ref()
                .expect("a slot in use");
            let operation = &mut operations[slot];
            operation.call_done = true;
            let row = &mut operation.row;
            let id = operation_id(self.message);
            begin_row(row, id, connection, calls_direction, xid);
            row.call_missing = true;
            row.reply_time_ns = self.message.first.stamp_ns;
            row.rpc_status = rpc_status(reply);
        }
        self.open(slot, false, xid);
        Want::End
    }

    /// The reply to the call in `slot`.
    pub(super) fn on_matched_reply(
        &mut self,
        xid: u32,
        slot: Slot,
        reply: &ReplyHeader<'_>,
        cursor: &mut Cursor<'_>,
    ) -> Want {
        let is_elsewhere = self.all.is_elsewhere;
        let operation = &mut self.all.operations[slot];
        operation.is_elsewhere = is_elsewhere;
        let mut procedure = Procedure::default();
        if reply.is_success() {
            procedure = operation.procedure;
            if operation.is_wrapped {
                unwrap(cursor);
            }
        } else {
            operation.details.set_refusal(reply);
        }
        let answer = Answer {
            xid,
            slot,
            rpc_status: rpc_status(reply),
        };
        procedure.read(ReplyReader {
            incoming: self,
            answer: &answer,
            cursor,
        })
    }

    /// Reads the results as `protocol` has them.
    #[inline]
    fn read_reply<P: Protocol>(
        &mut self,
        protocol: P,
        answer: &Answer,
        cursor: &mut Cursor<'_>,
    ) -> Want {
        let needs = protocol.reply_needs();
        if !self.is_complete && needs == Needs::Whole {
            return Want::Whole;
        }
        // Decoded to where they stay, like a call's arguments.
        let results = protocol.decode_reply(cursor);
        if !self.is_complete && needs == Needs::Beginning && cursor.fault() == Some(Fault::End) {
            return Want::More(cursor.needed());
        }
        self.open(Some(answer.slot), false, answer.xid);
        self.counters.count(Counter::Replies);
        let row = &mut self.all.operations[answer.slot].row;
        row.reply_time_ns = self.message.first.stamp_ns;
        row.rpc_status = answer.rpc_status;
        protocol.on_reply(&results, self, answer.slot, cursor)
    }
}

impl<S: RecordSink> Operations<S> {
    /// Both messages of an operation have ended. `last`: the later one.
    pub(super) fn on_answered(
        &mut self,
        connection: usize,
        key: u64,
        slot: Slot,
        last: &Message,
        counters: &mut Counters,
    ) {
        if self.operations[slot].row.call_missing {
            return self.emit(connection, slot, counters);
        }
        if self.operations[slot].unproven_bytes.take().is_some() {
            counters.count(Counter::RpcCalls);
            counters.count(Counter::CallsUdp);
            let program = self.operations[slot].row.program;
            self.connection(connection).program = program;
            self.set_caller(connection, Direction::BOTH[calls::parts(key).0]);
        }
        counters.count(Counter::CallsAnswered);
        if self.operations[slot].row.reply_ambiguous {
            counters.count(Counter::RepliesAmbiguous);
        }
        // Where copies of the reply may follow, the row waits for them until it is evicted.
        let rpc = self.connection(connection);
        rpc.answered += 1;
        let waits =
            rpc.transport == Transport::Udp || self.operations[slot].row.retransmissions > 0;
        let remembered = match waits {
            true => CallRef::Open(slot),
            false => CallRef::Written(Signature::of(&self.operations[slot])),
        };
        let calls = &mut self.connection(connection).calls;
        calls.answered(key, remembered, last.first.ordinal);
        if !waits {
            self.emit(connection, slot, counters);
        }
        self.forget_ended(connection, counters);
    }
}
