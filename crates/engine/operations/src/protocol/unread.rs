//! Procedures whose arguments and results are not read.

use lineside_account::Counter;
use lineside_frame::Cursor;
use lineside_rows::{RecordSink, Word};
use lineside_rpc::record::Want;

use super::{Incoming, Needs, Protocol};
use crate::procedure::Unread;
use crate::rows::Rows;
use crate::slot::Slot;

impl Protocol for Unread {
    type Call<'a> = ();
    type Reply<'a> = ();

    const GOES_ON: bool = true;

    fn call_needs(self) -> Needs {
        Needs::Nothing
    }

    fn reply_needs(self) -> Needs {
        Needs::Nothing
    }

    fn decode_call(self, _: &mut Cursor<'_>) {}

    fn decode_reply(self, _: &mut Cursor<'_>) {}

    fn on_call(
        self,
        (): &(),
        incoming: &mut impl Incoming,
        slot: Slot,
        cursor: &mut Cursor<'_>,
    ) -> Want {
        incoming.end_call(slot, None, cursor);
        Want::End
    }

    fn on_reply(
        self,
        (): &(),
        incoming: &mut impl Incoming,
        slot: Slot,
        cursor: &mut Cursor<'_>,
    ) -> Want {
        incoming.end_reply(slot, cursor);
        Want::End
    }

    fn write_rows<S: RecordSink>(self, rows: &mut Rows<'_, S>, slot: Slot) {
        let row = &rows.operations[slot].row;
        if row.auth_flavor == Word::Known("gss_privacy") {
            let bytes = row.call_bytes.unwrap_or(0) + row.reply_bytes.unwrap_or(0);
            rows.counters
                .add(Counter::SealedBytes, bytes.unsigned_abs());
        }
        rows.write(slot, true);
    }
}
