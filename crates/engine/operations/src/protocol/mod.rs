//! Protocols on top of RPC: what arguments and results mean, as rows.
//!
//! A protocol is a module with an implementation of [`Protocol`], and a type with a line in the
//! list of [`procedure`](crate::procedure). It decodes the arguments and results of an [`Incoming`]
//! message, sets the cells of the operation's row and of its details, announces file data, and
//! reports files. It knows neither streams nor how calls and replies are matched.

use std::net::IpAddr;

use lineside_account::{Counter, Counters};
use lineside_frame::{Cursor, Fault, View};
use lineside_rows::RecordSink;
use lineside_rpc::record::{self, Message, Want};

use crate::files::{Fact, HandleBytes, handle_bytes};
use crate::operation::{OpenMessage, OperationTable};
use crate::procedure::{Numbered, Procedure, for_each_protocol};
use crate::rows::{Rows, Wants};
use crate::slot::Slot;

mod nfs3;
mod nfs4;
mod services;
mod unread;

pub(crate) use nfs3::{FastArguments, FastResults, FastRows, NoCells};

/// How much of a message must have come before a protocol reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// No more than the RPC header.
    Nothing,
    /// What is decoded first; file data or other operations follow, which are read as they come.
    Beginning,
    /// All of it.
    Whole,
}

/// A procedure of an RPC program, or the procedures that are read alike.
pub(crate) trait Protocol: Numbered {
    /// The decoded arguments: of a message that needs only its beginning, the beginning.
    type Call<'a>;
    /// The decoded results, likewise.
    type Reply<'a>;

    /// Arguments go on behind what is decoded first.
    const GOES_ON: bool = false;

    /// How much of a call must have come before it is decoded.
    fn call_needs(self) -> Needs;

    /// How much of a successful reply must have come before it is decoded.
    fn reply_needs(self) -> Needs;

    /// Decodes arguments, with the cursor after the RPC header.
    fn decode_call<'a>(self, cursor: &mut Cursor<'a>) -> Self::Call<'a>;

    /// Decodes results, with the cursor after the RPC header.
    fn decode_reply<'a>(self, cursor: &mut Cursor<'a>) -> Self::Reply<'a>;

    /// Sets the row's cells from a call, and returns what of the message is wanted next.
    fn on_call(
        self,
        call: &Self::Call<'_>,
        incoming: &mut impl Incoming,
        slot: Slot,
        cursor: &mut Cursor<'_>,
    ) -> Want;

    /// Sets the row's cells from a successful reply, and returns what of the message is wanted
    /// next.
    fn on_reply(
        self,
        reply: &Self::Reply<'_>,
        incoming: &mut impl Incoming,
        slot: Slot,
        cursor: &mut Cursor<'_>,
    ) -> Want;

    /// Reads what follows the data that was wanted last.
    fn read_on(self, _: &mut impl Incoming, _: Cursor<'_>) -> Want {
        Want::End
    }

    /// Writes the rows of a call and releases its slots.
    fn write_rows<S: RecordSink>(self, rows: &mut Rows<'_, S>, slot: Slot) {
        rows.write(slot, true);
    }
}

/// A message in one direction of a connection, as far as it has come: what protocols read, and what
/// they report about it. The cursor over its bytes is passed beside it.
pub(crate) trait Incoming {
    /// Where the rows go.
    type Sink: RecordSink;

    /// What came of it so far.
    fn message(&self) -> &Message;

    /// Nothing more will come of it.
    fn is_complete(&self) -> bool;

    /// A call uses a slot of a session with a sequence: the first call that did, if one did.
    fn use_slot(&mut self, used: ([u8; 16], u32, u32), operation_id: i64) -> Option<i64>;

    /// The address that the message was sent to: of a call, the server's.
    fn receiver(&mut self) -> IpAddr;

    /// The address that sent the message: of a reply, the server's.
    fn sender(&mut self) -> IpAddr;

    /// All operations that are open.
    fn operations(&mut self) -> (&mut OperationTable, &mut Counters);

    /// A slot for one more operation; `None`: there is no room. Others may lose theirs for it.
    fn open_operation(&mut self) -> Option<Slot>;

    /// What is known of the message since its header was read; `None` if that is not open.
    fn opened(&mut self) -> Option<&mut OpenMessage>;

    /// Bytes of file data follow, which begin at `offset` of the file.
    fn expect_data(&mut self, slot: Slot, offset: Option<u64>, len: u32);

    /// Whether this connection has reported that a file exists.
    fn has_reported(&mut self, file: i64) -> bool;

    fn wants(&self) -> Wants;

    /// What rows of its connection are written through.
    fn rows(&mut self) -> Rows<'_, Self::Sink>;

    /// As [`expect_data`](Self::expect_data), to the end of the message.
    fn expect_data_to_end(
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
    fn end_call(&mut self, slot: Slot, handle: Option<View<'_>>, cursor: &Cursor<'_>) {
        self.count_malformed(cursor);
        self.operations().0[slot].row.call_incomplete = cursor.fault().is_some();
        // The handle is kept until the reply gives the type, if this connection has not reported
        // the file yet.
        let file_id = self.operations().0[slot].row.file_id;
        if self.wants().files
            && let (Some(handle), Some(file)) = (handle, file_id)
            && !self.has_reported(file)
        {
            self.operations().0[slot].handle = Some(HandleBytes::new(&handle));
        }
    }

    /// The results have been read, as far as they came.
    fn end_reply(&mut self, slot: Slot, cursor: &Cursor<'_>) {
        self.count_malformed(cursor);
        self.operations().0[slot].row.reply_incomplete = cursor.fault().is_some();
    }

    /// A message that was read to where it cannot be right: a field contradicts the protocol, or
    /// the message ends before its fields do, and nothing of it is missing.
    fn count_malformed(&mut self, cursor: &Cursor<'_>) {
        let is_malformed = match cursor.fault() {
            Some(Fault::Malformed) => true,
            Some(Fault::End) => {
                let message = self.message();
                self.is_complete() && message.ended && !message.cut && message.missing == 0
            }
            Some(Fault::Hole) | None => false,
        };
        if is_malformed {
            self.operations().1.count(Counter::RecordsMalformed);
        }
        self.note_short(cursor);
    }

    /// Counts results that end before their last field although the message was seen whole: then
    /// it is the server that ended them.
    #[inline]
    fn note_short(&mut self, cursor: &Cursor<'_>) {
        if cursor.fault() == Some(Fault::End) {
            let message = self.message();
            let is_whole = message.missing == 0 && message.ended && !message.cut;
            if is_whole && self.is_complete() {
                self.operations().1.count(Counter::RepliesShort);
            }
        }
    }

    /// Whether files in the results are reported: not if they may be those of another call.
    fn may_report(&mut self, slot: Slot) -> bool {
        self.wants().files && !self.operations().0[slot].row.reply_ambiguous
    }

    /// Reports the file that the reply names by its handle, as the one with the call's name in the
    /// call's directory.
    fn report_result(&mut self, slot: Slot, handle: Option<View<'_>>, server: IpAddr) {
        if !self.may_report(slot) {
            return;
        }
        let time_ns = self.message().last.stamp_ns;
        let row = &mut self.operations().0[slot].row;
        let (Some(handle), Some(file_id)) = (handle, row.result_file_id) else {
            return;
        };
        let mut copy = None;
        let name = std::mem::take(&mut row.name);
        let fact = Fact {
            operation_id: row.operation_id,
            time_ns,
            server,
            handle: handle_bytes(&handle, &mut copy),
            file_id: Some(file_id),
            fileid: None,
            parent: row.file_id,
            name: name.bytes(),
            file_type: row.file_type,
            size: row.file_size,
        };
        self.rows().report_fact(&fact);
        self.operations().0[slot].row.name = name;
    }
}

/// What reads a message as its protocol has it.
pub(crate) trait Reader {
    fn read<P: Protocol>(self, protocol: P) -> Want;
}

/// The one dispatch from a procedure to its protocol.
macro_rules! dispatch {
    ($($(#[$doc:meta])* $protocol:ident $({ $($state:tt)* })?,)*) => {
        impl Procedure {
            /// Has a message read by its protocol.
            #[inline]
            pub(crate) fn read(self, reader: impl Reader) -> Want {
                match self { $(Self::$protocol(protocol) => reader.read(protocol),)* }
            }

            /// Reads what follows the data in the middle of a message.
            pub(crate) fn read_on(self, incoming: &mut impl Incoming, cursor: Cursor<'_>) -> Want {
                match self { $(Self::$protocol(protocol) => protocol.read_on(incoming, cursor),)* }
            }

            /// Writes the rows of a call and releases its slots.
            #[inline]
            pub(crate) fn write_rows<S: RecordSink>(self, rows: &mut Rows<'_, S>, slot: Slot) {
                match self { $(Self::$protocol(protocol) => protocol.write_rows(rows, slot),)* }
            }
        }
    };
}

for_each_protocol!(dispatch);
