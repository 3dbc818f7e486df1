//! A message as far as it has come, for the protocol that reads it.

use std::net::IpAddr;

use lineside_account::Counters;
use lineside_frame::Cursor;
use lineside_rows::{OperationRow, RecordSink, Word};
use lineside_rpc::message::{AcceptStatus, ReplyHeader};
use lineside_rpc::record::Message;
use lineside_wire::Direction;

use super::Operations;
use super::connection::RpcConnection;
use super::ids::PLACE_BITS;
use crate::operation::{OpenMessage, OperationTable};
use crate::protocol::Incoming;
use crate::rows::{Rows, Wants};
use crate::slot::Slot;

/// A message in one direction of a connection. The cursor over its bytes is passed beside it.
pub(crate) struct IncomingMessage<'a, S> {
    pub(crate) all: &'a mut Operations<S>,
    pub(crate) connection: usize,
    pub(crate) direction: Direction,
    pub(crate) message: &'a Message,
    /// Nothing more will come of it.
    pub(crate) is_complete: bool,
    pub(crate) counters: &'a mut Counters,
}

impl<S: RecordSink> IncomingMessage<'_, S> {
    /// The message's header is read; it belongs to the operation in `slot`, if to any.
    pub(super) fn open(&mut self, slot: Option<Slot>, is_call: bool, xid: u32) {
        let direction = self.direction;
        self.all.connection(self.connection).open[direction] =
            Some(OpenMessage::new(slot, is_call, xid));
    }
}

impl<S: RecordSink> Incoming for IncomingMessage<'_, S> {
    type Sink = S;

    #[inline]
    fn message(&self) -> &Message {
        self.message
    }

    #[inline]
    fn is_complete(&self) -> bool {
        self.is_complete
    }

    fn use_slot(&mut self, used: ([u8; 16], u32, u32), operation_id: i64) -> Option<i64> {
        let all = &mut *self.all;
        let rpc = all.connections[self.connection].as_deref_mut();
        let rpc = rpc.expect("a slot in use");
        let claim = rpc.claim();
        rpc.slots.on_call(used, operation_id, (&all.budget, claim))
    }

    fn receiver(&mut self) -> IpAddr {
        let direction = self.direction.opposite();
        self.all.connection(self.connection).ends[direction].address
    }

    fn sender(&mut self) -> IpAddr {
        let direction = self.direction;
        self.all.connection(self.connection).ends[direction].address
    }

    #[inline]
    fn operations(&mut self) -> (&mut OperationTable, &mut Counters) {
        (&mut self.all.operations, self.counters)
    }

    fn open_operation(&mut self) -> Option<Slot> {
        self.all.open_operation(self.connection, self.counters)
    }

    fn opened(&mut self) -> Option<&mut OpenMessage> {
        let direction = self.direction;
        self.all.connection(self.connection).open[direction].as_mut()
    }

    fn expect_data(&mut self, slot: Slot, offset: Option<u64>, len: u32) {
        let operation_id = self.all.operation_id(slot);
        let sums_from = self.all.sums_from(offset, len, self.counters);
        let connection = self.all.connection(self.connection);
        connection.expect_data(self.direction, (slot, operation_id), len, sums_from);
    }

    fn has_reported(&mut self, file: i64) -> bool {
        self.all
            .connection(self.connection)
            .known
            .has_reported(file)
    }

    #[inline]
    fn wants(&self) -> Wants {
        self.all.wants
    }

    fn rows(&mut self) -> Rows<'_, S> {
        self.all.rows(self.connection, self.counters)
    }
}

/// What rpc_gss_integ_data has before the arguments or results (RFC 2203 section 5.3.2.2): its
/// length, and the sequence number. The checksum after them is skipped.
pub(super) fn unwrap(cursor: &mut Cursor<'_>) {
    cursor.u64();
}

/// The number of the row that begins with a message.
pub(super) fn operation_id(message: &Message) -> i64 {
    ((message.first.ordinal << PLACE_BITS) | message.first_offset as u64).cast_signed()
}

/// The fields that each row has, whatever was called. `caller` is the direction of the call.
pub(super) fn begin_row(
    row: &mut OperationRow,
    operation_id: i64,
    connection: &RpcConnection,
    caller: Direction,
    xid: u32,
) {
    let ends = &connection.ends;
    let (client, server) = (&ends[caller], &ends[caller.opposite()]);
    (row.operation_id, row.rpc_id) = (operation_id, operation_id);
    row.connection_id = connection.id;
    row.client_address = Some(client.address);
    row.server_address = Some(server.address);
    row.client_port = Some(i32::from(client.port));
    row.server_port = Some(i32::from(server.port));
    row.transport = Some(connection.transport.name());
    row.xid = Some(i64::from(xid));
}

/// The word of the column `rpc_status`.
pub(super) fn rpc_status(reply: &ReplyHeader<'_>) -> Word {
    match reply {
        ReplyHeader::Accepted(accepted) if accepted.status == AcceptStatus::Success => {
            Word::Known("SUCCESS")
        }
        _ => reply.status_name().map_or(Word::None, Word::Known),
    }
}
