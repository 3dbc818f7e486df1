//! Protocols on top of RPC: what arguments and results mean, as rows.
//!
//! A protocol is a module with an implementation of [`Protocol`] and a line in `protocols!` below.
//! It decodes the arguments and results that [`rpc`](crate::rpc) has found, sets the cells of the
//! operation's row and of its [`Details`], announces file data, and reports files. It knows neither
//! streams nor how calls and replies are matched.

use lineside_account::Counters;
use lineside_frame::Cursor;
use lineside_rows::{RecordSink, Word};
use lineside_rpc::record::Want;

use crate::rpc::{Answer, IncomingMessage, Operations, Request, Slot};

mod details;
mod nfs3;
mod nfs4;
mod services;
mod unread;

pub(crate) use details::{Details, word};
pub(crate) use nfs3::{FastArguments, FastProcedure, FastRows, NoCells};
pub(crate) use nfs4::{CompoundLink, FilesOfCompound, Progress};

use nfs3::Nfs3;
use nfs4::Nfs4;
use services::Service;
use unread::Unread;

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
pub(crate) trait Protocol: Copy {
    /// The decoded arguments: of a message that needs only its beginning, the beginning.
    type Call<'a>;
    /// The decoded results, likewise.
    type Reply<'a>;

    /// Arguments go on behind what is decoded first.
    const GOES_ON: bool = false;

    /// The procedure that a call's three numbers name, if this protocol has it.
    fn find(program: u32, version: u32, number: u32) -> Option<Self>;

    /// The word of the column `operation`.
    fn name(self) -> Word;

    /// How much of a call must have come before it is decoded.
    fn call_needs(self) -> Needs;

    /// How much of a successful reply must have come before it is decoded.
    fn reply_needs(self) -> Needs;

    /// Decodes arguments, with the cursor after the RPC header.
    fn decode_call<'a>(self, cursor: &mut Cursor<'a>) -> Self::Call<'a>;

    /// Decodes results, with the cursor after the RPC header.
    fn decode_reply<'a>(self, cursor: &mut Cursor<'a>) -> Self::Reply<'a>;

    /// Sets the row's cells from a call, and returns what of the message is wanted next.
    fn on_call<S: RecordSink>(
        self,
        call: &Self::Call<'_>,
        incoming: &mut IncomingMessage<'_, S>,
        slot: Slot,
        cursor: &mut Cursor<'_>,
    ) -> Want;

    /// Sets the row's cells from a successful reply, and returns what of the message is wanted
    /// next.
    fn on_reply<S: RecordSink>(
        self,
        reply: &Self::Reply<'_>,
        incoming: &mut IncomingMessage<'_, S>,
        slot: Slot,
        cursor: &mut Cursor<'_>,
    ) -> Want;

    /// Reads what follows the data that was wanted last.
    fn read_on<S: RecordSink>(
        self,
        incoming: &mut IncomingMessage<'_, S>,
        cursor: Cursor<'_>,
    ) -> Want;

    /// Writes the rows of a call and releases its slots.
    fn write_rows<S: RecordSink>(
        self,
        all: &mut Operations<S>,
        connection: usize,
        slot: Slot,
        counters: &mut Counters,
    );
}

/// The one dispatch from a procedure to its protocol.
macro_rules! protocols {
    ($($(#[$doc:meta])* $protocol:ident,)*) => {
        /// A procedure as its protocol has it.
        #[derive(Debug, Clone, Copy)]
        pub(crate) enum Procedure {
            $($(#[$doc])* $protocol($protocol),)*
        }

        impl Procedure {
            /// The procedure that a call's three numbers name, by the first protocol that has it.
            #[inline]
            pub(crate) fn find(program: u32, version: u32, number: u32) -> Self {
                $(if let Some(protocol) = $protocol::find(program, version, number) {
                    return Self::$protocol(protocol);
                })*
                Self::default()
            }

            #[inline]
            pub(crate) fn name(self) -> Word {
                match self { $(Self::$protocol(protocol) => protocol.name(),)* }
            }

            /// Reads a call. `named` gives the name of the procedure, also where its arguments
            /// cannot be read.
            #[inline]
            pub(crate) fn read_call<S: RecordSink>(
                self,
                incoming: &mut IncomingMessage<'_, S>,
                request: &Request,
                named: Self,
                cursor: &mut Cursor<'_>,
            ) -> Want {
                match self { $(Self::$protocol(protocol) => {
                    incoming.read_call(protocol, [self, named], request, cursor)
                })* }
            }

            /// Reads a successful reply.
            #[inline]
            pub(crate) fn read_reply<S: RecordSink>(
                self,
                incoming: &mut IncomingMessage<'_, S>,
                answer: &Answer,
                cursor: &mut Cursor<'_>,
            ) -> Want {
                match self { $(Self::$protocol(protocol) => {
                    incoming.read_reply(protocol, answer, cursor)
                })* }
            }

            /// Reads what follows the data in the middle of a message.
            pub(crate) fn read_on<S: RecordSink>(
                self,
                incoming: &mut IncomingMessage<'_, S>,
                cursor: Cursor<'_>,
            ) -> Want {
                match self { $(Self::$protocol(protocol) => protocol.read_on(incoming, cursor),)* }
            }

            /// Writes the rows of a call and releases its slots.
            #[inline]
            pub(crate) fn write_rows<S: RecordSink>(
                self,
                all: &mut Operations<S>,
                connection: usize,
                slot: Slot,
                counters: &mut Counters,
            ) {
                match self { $(Self::$protocol(protocol) => {
                    protocol.write_rows(all, connection, slot, counters);
                })* }
            }
        }
    };
}

protocols! {
    /// NFSv3.
    Nfs3,
    /// Compounds of NFSv4, and those of its callbacks.
    Nfs4,
    /// NFSv2 and the programs beside NFS.
    Service,
    /// Everything else: only RPC's header is read.
    Unread,
}

impl Default for Procedure {
    fn default() -> Self {
        Self::Unread(Unread::default())
    }
}
