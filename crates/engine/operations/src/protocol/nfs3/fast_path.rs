//! Rows of a call whose arguments and results are at hand, both whole.

use std::net::IpAddr;

use lineside_account::Counters;
use lineside_frame::{Cursor, Piece, View};
use lineside_nfs::v3;
use lineside_rows::{NfsCells, OperationCells, OperationRow, OperationRows, Word};
use lineside_rpc::xdr::{Handle, InPlace, Name};

use super::columns;
use super::{common_of_call, common_of_reply, is_about_call, type_and_size};
use crate::details::Details;
use crate::fast_call::{FastCall, FastCaller, FastReply};
use crate::files::{Fact, file_id_of};
use crate::procedure::FastProcedure;

/// Arguments and results that were decoded.
pub(crate) type FastCallBody<'a> = v3::Call<'a>;
pub(crate) type FastResults<'a> = v3::Reply<'a>;

impl FastProcedure {
    /// The arguments that the piece `at_hand` has, if they are whole and as they should be.
    /// `is_whole`: that is all of the message. Where lengths show it, nothing is decoded.
    #[inline]
    pub(crate) fn arguments<'b>(
        self,
        at_hand: &'b [Piece<'b>; 1],
        is_whole: bool,
    ) -> Option<FastArguments<'b>> {
        use v3::Procedure::{
            Access, Commit, FsInfo, FsStat, GetAttr, Lookup, PathConf, Read, ReadLink, Remove,
            RmDir, Write,
        };
        let mut cursor = Cursor::new(at_hand);
        let bytes = cursor.at_hand();
        let handle = cursor.whole_counted(Handle::LEN_MAX)?;
        if matches!(self.get(), Write) {
            let (offset, count) = (cursor.u64()?, cursor.u32()?);
            let _stable_how = cursor.u32()?;
            let len = cursor.u32().filter(|&len| len == count)?;
            return Some(FastArguments {
                handle,
                bytes: &bytes[..cursor.position()],
                data: Some((offset, len)),
            });
        }
        if !is_whole {
            return None;
        }
        let is_as_it_should = match self.get() {
            GetAttr | ReadLink | FsStat | FsInfo | PathConf => cursor.remaining() == 0,
            Lookup | Remove | RmDir => {
                cursor.whole_counted(Name::LEN_MAX).is_some() && cursor.remaining() == 0
            }
            // Which rights; from where on, and how many bytes.
            Access => cursor.remaining() == 4,
            Commit | Read => cursor.remaining() == 12,
            _ => false,
        };
        (is_as_it_should || self.can_read(at_hand)).then_some(FastArguments {
            handle,
            bytes,
            data: None,
        })
    }

    /// Decodes arguments that were found to be whole.
    #[inline]
    pub(crate) fn decode_call<'b>(self, arguments: &'b [Piece<'b>; 1]) -> FastCallBody<'b> {
        v3::Call::decode(self.get(), &mut Cursor::new(arguments))
    }

    #[inline]
    pub(crate) fn decode_reply<'b>(self, cursor: &mut Cursor<'b>) -> FastResults<'b> {
        v3::Reply::decode(self.get(), cursor)
    }

    /// The bytes of data that a reply brings, if any; `None` in it: their number contradicts
    /// itself.
    #[inline]
    pub(crate) fn data_of(reply: &FastResults<'_>) -> Option<Option<u32>> {
        let v3::Reply::Read(outcome) = reply else {
            return None;
        };
        let ok = outcome.ok()?;
        Some(ok.data_len.filter(|_| ok.count == ok.data_len))
    }

    /// Whether a READ or WRITE moved more than was asked for.
    #[inline]
    pub(crate) fn contradicts(call: &v3::Call<'_>, reply: &v3::Reply<'_>) -> bool {
        match (call, reply) {
            (v3::Call::Read(call), v3::Reply::Read(outcome)) => {
                outcome.ok().is_some_and(|ok| ok.count > call.count)
            }
            (v3::Call::Write(call), v3::Reply::Write(outcome)) => {
                outcome.ok().is_some_and(|ok| ok.count > call.count)
            }
            _ => false,
        }
    }

    fn can_read(self, arguments: &[Piece<'_>]) -> bool {
        let mut cursor = Cursor::new(arguments);
        v3::Call::decode(self.get(), &mut cursor);
        cursor.fault().is_none()
    }

    /// Sets the cells of the arguments, for a row of its own.
    pub(crate) fn of_call(
        self,
        call: &v3::Call<'_>,
        server: IpAddr,
        row: &mut OperationRow,
        details: &mut Details,
        counters: &mut Counters,
    ) {
        common_of_call(call, server, row);
        details.has_nfs |= columns::of_call(call, &mut details.nfs, counters);
    }

    /// Sets the cells of results without an object, for a row of its own.
    pub(crate) fn of_reply(
        self,
        reply: &v3::Reply<'_>,
        row: &mut OperationRow,
        details: &mut Details,
        counters: &mut Counters,
    ) {
        let attributes = reply.attributes();
        common_of_reply(reply, attributes.as_ref(), None, row);
        let nfs = &mut details.nfs;
        details.has_nfs |= columns::of_reply(reply, attributes.as_ref(), nfs, counters);
    }
}

/// Arguments as they came, data excluded.
pub(crate) struct FastArguments<'b> {
    /// The file that they begin with.
    pub(crate) handle: View<'b>,
    pub(crate) bytes: &'b [u8],
    /// Where in the file the data behind them goes, and how long it is.
    pub(crate) data: Option<(u64, u32)>,
}

/// The rows of a call and its reply.
pub(crate) struct FastRows<'m, 'a> {
    call: &'m FastCall,
    arguments: &'m v3::Call<'m>,
    reply: &'m FastReply,
    results: &'m v3::Reply<'m>,
    attributes: Option<InPlace<'m, v3::Attributes>>,
    /// The object that was found or made, and its id.
    object: Option<(Handle<'m>, i64)>,
    server: IpAddr,
    caller: &'a FastCaller,
    counters: &'a mut Counters,
}

impl<'m, 'a> FastRows<'m, 'a> {
    #[inline]
    pub(crate) fn new(
        (call, arguments): (&'m FastCall, &'m v3::Call<'m>),
        (reply, results): (&'m FastReply, &'m v3::Reply<'m>),
        caller: &'a FastCaller,
        counters: &'a mut Counters,
    ) -> Self {
        let object = results.object();
        let server = caller.server.address;
        Self {
            call,
            arguments,
            reply,
            results,
            attributes: results.attributes(),
            object: object.map(|handle| (handle, file_id_of(server, &handle))),
            server,
            caller,
            counters,
        }
    }

    /// The facts about files: of the one that was found or made, then of the call's own, unless it
    /// is known.
    #[inline]
    pub(crate) fn facts(&self) -> [Option<Fact<'m>>; 2] {
        match self.object.is_some() || self.call.is_new_file {
            true => self.some_facts(),
            false => [None, None],
        }
    }

    fn some_facts(&self) -> [Option<Fact<'m>>; 2] {
        let FastCall {
            operation_id,
            file_id,
            is_new_file,
            ..
        } = *self.call;
        let (file_type, size) = self.attributes.map_or((Word::None, None), type_and_size);
        let contiguous = |view: View<'m>| view.contiguous();
        let found = self.object.and_then(|(handle, id)| {
            Some(Fact {
                operation_id,
                time_ns: self.reply.stamp_ns,
                server: self.server,
                handle: contiguous(handle.view())?,
                file_id: Some(id),
                fileid: None,
                parent: Some(file_id),
                name: self
                    .arguments
                    .name()
                    .and_then(|name| contiguous(name.view())),
                file_type,
                size,
            })
        });
        let handle = self.arguments.file().filter(|_| is_new_file);
        let own = handle.and_then(|handle| {
            let is_about_call = is_about_call(self.call.procedure.get());
            Some(Fact {
                operation_id,
                time_ns: self.reply.stamp_ns.or(self.call.end_ns),
                server: self.server,
                handle: contiguous(handle.view())?,
                file_id: Some(file_id),
                fileid: None,
                parent: None,
                name: None,
                file_type: if is_about_call { file_type } else { Word::None },
                size: size.filter(|_| is_about_call),
            })
        });
        [found, own]
    }
}

impl OperationRows for FastRows<'_, '_> {
    #[inline(always)]
    fn operation(&self, cells: &mut impl OperationCells) {
        self.call.put_to(self.caller, self.reply, cells);
        cells.operation(self.call.procedure.name());
        cells.file_id(Some(self.call.file_id));
        common_of_call(self.arguments, self.server, cells);
        let result = self.object.map(|(_, id)| id);
        common_of_reply(self.results, self.attributes.as_ref(), result, cells);
    }

    #[inline(always)]
    fn nfs(&mut self, cells: &mut impl NfsCells) {
        cells.operation_id(self.call.operation_id);
        columns::of_call(self.arguments, cells, self.counters);
        columns::of_reply(self.results, self.attributes.as_ref(), cells, self.counters);
    }
}

/// Takes no cells: what only counts asks for them.
pub(crate) struct NoCells;

impl NfsCells for NoCells {}
