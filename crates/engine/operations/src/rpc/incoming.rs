//! A message as far as it has come: what protocols read, and what they report about it.

use std::net::IpAddr;

use lineside_account::{Counter, Counters};
use lineside_frame::{Cursor, Fault, View};
use lineside_rows::{OperationRow, RecordSink, Word};
use lineside_rpc::message::{AcceptStatus, ReplyHeader};
use lineside_rpc::record::{self, Message, Want};
use lineside_wire::Direction;

use super::connection::{OpenMessage, RpcConnection};
use super::files::{Fact, HandleBytes, existence_key, handle_bytes};
use super::operation::Slot;
use super::{Operations, PLACE_BITS};

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
    /// The address that the message was sent to: of a call, the server's.
    pub(crate) fn receiver(&mut self) -> IpAddr {
        let direction = self.direction.opposite();
        self.all.connection(self.connection).ends[direction].address
    }

    /// The address that sent the message: of a reply, the server's.
    pub(crate) fn sender(&mut self) -> IpAddr {
        let direction = self.direction;
        self.all.connection(self.connection).ends[direction].address
    }

    /// The message's header is read; it belongs to the operation in `slot`, if to any.
    pub(super) fn open(&mut self, slot: Option<Slot>, is_call: bool, xid: u32) {
        let direction = self.direction;
        self.all.connection(self.connection).open[direction] =
            Some(OpenMessage::new(slot, is_call, xid));
    }

    /// Its state since then; `None` if it was never [opened](Self::open).
    pub(crate) fn opened(&mut self) -> Option<&mut OpenMessage> {
        let direction = self.direction;
        self.all.connection(self.connection).open[direction].as_mut()
    }

    /// Bytes of file data follow, which begin at `offset` of the file.
    pub(crate) fn expect_data(&mut self, slot: Slot, offset: Option<u64>, len: u32) {
        let operation_id = self.all.operation_id(slot);
        let sums_from = self.all.sums_from(offset, len, self.counters);
        let connection = self.all.connection(self.connection);
        connection.expect_data(self.direction, (slot, operation_id), len, sums_from);
    }

    /// As [`expect_data`](Self::expect_data), to the end of the message.
    pub(crate) fn expect_data_to_end(
        &mut self,
        slot: Slot,
        offset: Option<u64>,
        len: u32,
        cursor: &Cursor<'_>,
    ) -> Want {
        self.expect_data(slot, offset, len);
        Want::Data {
            from: cursor.position(),
            len: record::ALL,
        }
    }

    /// The arguments have been read, as far as they came. `handle` is that of the call's file.
    pub(crate) fn end_call(&mut self, slot: Slot, handle: Option<View<'_>>, cursor: &Cursor<'_>) {
        self.all.operations[slot].row.call_incomplete = cursor.fault().is_some();
        if cursor.fault() == Some(Fault::Malformed) {
            self.counters.count(Counter::RecordsMalformed);
        }
        // The handle is kept until the reply gives the type, if this connection has not reported
        // the file yet.
        if self.all.wants_files
            && let (Some(handle), Some(file)) = (handle, self.all.operations[slot].row.file_id)
            && !self.has_reported(file)
        {
            self.all.operations[slot].handle = Some(HandleBytes::new(&handle));
        }
    }

    /// The results have been read, as far as they came.
    pub(crate) fn end_reply(&mut self, slot: Slot, cursor: &Cursor<'_>) {
        self.all.operations[slot].row.reply_incomplete = cursor.fault().is_some();
        if cursor.fault() == Some(Fault::Malformed) {
            self.counters.count(Counter::RecordsMalformed);
        }
    }

    /// Whether this connection has reported that a file exists.
    pub(crate) fn has_reported(&mut self, file: i64) -> bool {
        let facts = &self.all.connection(self.connection).facts;
        facts.contains(&existence_key(file))
    }

    /// Whether files in the results are reported: not if they may be those of another call.
    pub(crate) fn may_report(&self, slot: Slot) -> bool {
        self.all.wants_files && !self.all.operations[slot].row.reply_ambiguous
    }

    /// Reports the file that the reply names by its handle, as the one with the call's name in the
    /// call's directory.
    pub(crate) fn report_result(&mut self, slot: Slot, handle: Option<View<'_>>, server: IpAddr) {
        if !self.may_report(slot) {
            return;
        }
        let row = &mut self.all.operations[slot].row;
        let (Some(handle), Some(file_id)) = (handle, row.result_file_id) else {
            return;
        };
        let mut copy = None;
        let name = std::mem::take(&mut row.name);
        let fact = Fact {
            operation_id: row.operation_id,
            time_ns: self.message.last.stamp_ns,
            server,
            handle: handle_bytes(&handle, &mut copy),
            file_id,
            parent: row.file_id,
            name: name.bytes(),
            file_type: row.file_type,
            size: row.file_size,
        };
        self.all.report_fact(self.connection, &fact, self.counters);
        self.all.operations[slot].row.name = name;
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
