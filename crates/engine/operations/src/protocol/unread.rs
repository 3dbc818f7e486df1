//! Procedures whose arguments and results are not read: unknown ones, encrypted ones, and NULL of
//! NFSv4.

use lineside_account::Counters;
use lineside_frame::Cursor;
use lineside_nfs::v4;
use lineside_rows::{RecordSink, Word};
use lineside_rpc::record::Want;

use super::{Needs, Protocol};
use crate::rpc::{IncomingMessage, Operations, Slot};

/// A procedure by its numbers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Unread {
    program: u32,
    version: u32,
    number: u32,
}

impl Protocol for Unread {
    type Call<'a> = ();
    type Reply<'a> = ();

    const GOES_ON: bool = true;

    fn find(program: u32, version: u32, number: u32) -> Option<Self> {
        Some(Self {
            program,
            version,
            number,
        })
    }

    fn name(self) -> Word {
        match (self.program, self.version, self.number) {
            (v4::PROGRAM, v4::VERSION, 0) => Word::Known("NULL"),
            (program, v4::callback::VERSION, 0) if v4::callback::PROGRAMS.contains(&program) => {
                Word::Known("CB_NULL")
            }
            _ => Word::Number(i64::from(self.number)),
        }
    }

    fn call_needs(self) -> Needs {
        Needs::Nothing
    }

    fn reply_needs(self) -> Needs {
        Needs::Nothing
    }

    fn decode_call(self, _: &mut Cursor<'_>) {}

    fn decode_reply(self, _: &mut Cursor<'_>) {}

    fn on_call<S: RecordSink>(
        self,
        (): &(),
        incoming: &mut IncomingMessage<'_, S>,
        slot: Slot,
        cursor: &mut Cursor<'_>,
    ) -> Want {
        incoming.end_call(slot, None, cursor);
        Want::End
    }

    fn on_reply<S: RecordSink>(
        self,
        (): &(),
        incoming: &mut IncomingMessage<'_, S>,
        slot: Slot,
        cursor: &mut Cursor<'_>,
    ) -> Want {
        incoming.end_reply(slot, cursor);
        Want::End
    }

    fn read_on<S: RecordSink>(self, _: &mut IncomingMessage<'_, S>, _: Cursor<'_>) -> Want {
        Want::End
    }

    fn write_rows<S: RecordSink>(
        self,
        all: &mut Operations<S>,
        connection: usize,
        slot: Slot,
        counters: &mut Counters,
    ) {
        all.write_row(connection, slot, true, counters);
    }
}
