//! Replies that come before their calls.

use lineside_account::{Counter, Counters};
use lineside_frame::{Chunk, Cursor, Piece, Range};
use lineside_rows::RecordSink;
use lineside_rpc::calls;
use lineside_rpc::message::{Body, Header, ReplyHeader};
use lineside_rpc::record::{self, Want};
use lineside_rpc::xdr::Xdr;

use super::Operations;
use super::direction::DirectionSink;
use super::incoming::IncomingMessage;
use crate::operation::EarlyReply;
use crate::slot::Slot;

/// What a reply that waits for its call costs beside its bytes: its place in a table and a list of
/// ranges.
const EARLY_BYTES: usize = 256;

impl<S: RecordSink> IncomingMessage<'_, S> {
    /// Keeps a reply without a call, if its call may still come; false if it does not wait. Over
    /// TCP the flow engine has waited for the call already.
    pub(super) fn keep_early(&mut self, xid: u32) -> bool {
        let key = calls::key(self.direction.opposite().index(), xid);
        let now = self.all.now;
        let seen = self.message.len - self.message.missing;
        let connection = self.all.connection(self.connection);
        let is_first = !connection.calls.is_early(key);
        let claim = connection.claim();
        let bytes = size_of::<EarlyReply>() + EARLY_BYTES + self.message.len;
        if connection.transport == lineside_flow::Transport::Udp && is_first {
            let Some(lease) = self.all.budget.lease_as(claim, bytes) else {
                self.counters.count(Counter::OutstandingLimit);
                return false;
            };
            let early = EarlyReply {
                _lease: lease,
                message: *self.message,
                ranges: Vec::new(),
                direction: self.direction,
                duplicates: 0,
                seen,
            };
            let calls = &mut self.all.connection(self.connection).calls;
            calls.early(key, Box::new(early), now);
            self.all.early_key = Some(key);
            return true;
        }
        let calls = &mut self.all.connection(self.connection).calls;
        match calls.early_reply(key) {
            Some(early) => {
                early.duplicates += 1;
                early.seen += seen;
                true
            }
            None => false,
        }
    }
}

impl<S: RecordSink> Operations<S> {
    /// Holds the bytes of the reply that was kept, if this datagram is one.
    pub(super) fn hold_early(&mut self, connection: usize, chunks: &[Chunk<'_>]) {
        let early = self.early_key.take();
        let calls = &mut self.connection(connection).calls;
        if let Some(early) = early.and_then(|key| calls.early_reply(key)) {
            early.ranges = chunks.iter().map(Chunk::hold).collect();
            self.add_holder(connection);
        }
    }

    /// Reads a reply that has waited, now that its call is there (or will never come).
    pub(super) fn read_early(
        &mut self,
        connection: usize,
        early: &EarlyReply,
        slot: Option<Slot>,
        counters: &mut Counters,
    ) {
        let chunks: Vec<Chunk<'_>> = early.ranges.iter().map(Range::chunk).collect();
        let pieces: Vec<Piece<'_>> = chunks.iter().map(Chunk::piece).collect();
        let mut cursor = Cursor::new(&pieces);
        let Header {
            xid: Some(xid),
            body: Body::Reply(reply),
        } = Header::decode(&mut cursor)
        else {
            return;
        };
        let want = self.read_early_reply(
            connection,
            early,
            (xid, slot, &reply),
            &mut cursor,
            counters,
        );
        if want == Want::Refuse {
            return counters.subtract(Counter::RpcBytes, early.seen as u64);
        }
        let duplicates = u64::from(early.duplicates.unsigned_abs());
        counters.add(Counter::Replies, duplicates);
        counters.add(Counter::RepliesDuplicate, duplicates);
        let mut sink = DirectionSink {
            all: self,
            connection,
            direction: early.direction,
        };
        let open = sink.all.connection(connection).open[early.direction].as_ref();
        if let Some(slot) = open.and_then(|open| open.slot) {
            sink.all.operations[slot].row.duplicate_replies += early.duplicates;
        }
        record::finish(want, &early.message, &chunks, &mut sink, counters);
    }

    fn read_early_reply(
        &mut self,
        connection: usize,
        early: &EarlyReply,
        (xid, slot, reply): (u32, Option<Slot>, &ReplyHeader<'_>),
        cursor: &mut Cursor<'_>,
        counters: &mut Counters,
    ) -> Want {
        let mut incoming = IncomingMessage {
            all: self,
            connection,
            direction: early.direction,
            message: &early.message,
            is_complete: true,
            counters,
        };
        match slot {
            Some(slot) => incoming.on_matched_reply(xid, slot, reply, cursor),
            None => incoming.on_unmatched_reply(xid, reply),
        }
    }
}
