//! A call on the fast path: what is kept of it until its reply comes, and the cells that headers
//! and frames give of both.

use lineside_flow::Transport;
use lineside_frame::Piece;
use lineside_rows::{OperationCells, Word};
use lineside_rpc::calls;
use lineside_rpc::record::Message;
use lineside_wire::{Direction, Endpoint};

use crate::headers::{Caller, SysCredential};
use crate::operation::{Holder, Signature};
use crate::procedure::FastProcedure;

/// The longest arguments on the fast path: a handle of 64 bytes and a name of 52.
pub(crate) const BYTES_MAX: usize = 128;

/// The longest that a reply to READ has before its data: status, attributes, three words (RFC 1813
/// section 3.3.6).
pub(crate) const REPLY_MAX: usize = 4 + 4 + 84 + 12;

/// A call that waits for its reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FastCall {
    pub(crate) operation_id: i64,
    /// In its connection's table.
    pub(crate) key: u64,
    pub(crate) connection: usize,
    /// Of the frame that it began in.
    pub(crate) stamp_ns: Option<i64>,
    /// Of the frame that it ends in: nothing of the following is known before.
    pub(crate) end_ns: Option<i64>,
    pub(crate) frame: u64,
    pub(crate) input: u16,
    /// It has ended.
    pub(crate) is_done: bool,
    /// Bytes of the message.
    pub(crate) len: u32,
    /// Where in its stream it ends.
    pub(crate) end: i64,
    pub(crate) signature: Signature,
    /// Who calls.
    pub(crate) caller: CallerRef,
    pub(crate) procedure: FastProcedure,
    pub(crate) file_id: i64,
    /// The connection had not reported this file.
    pub(crate) is_new_file: bool,
    pub(crate) bytes_len: u8,
    /// The first call that it repeats.
    pub(crate) repeat_of: Option<i64>,
    pub(crate) bytes: [u8; BYTES_MAX],
}

impl FastCall {
    pub(crate) fn piece(&self) -> Piece<'_> {
        Piece::bytes(&self.bytes[..self.bytes_len.into()])
    }

    pub(crate) fn direction(&self) -> Direction {
        Direction::BOTH[calls::parts(self.key).0]
    }

    pub(crate) fn holder(&self) -> Holder {
        Holder {
            connection: self.connection,
            key: self.key,
        }
    }

    /// Its last byte has come; `passed`: of its direction.
    #[inline]
    pub(crate) fn end(&mut self, message: &Message, passed: i64) {
        let last = &message.last;
        (self.end_ns, self.frame, self.input) = (last.stamp_ns, last.number, last.input);
        (self.len, self.end, self.is_done) = (message.len as u32, passed, true);
    }

    /// The cells that the two headers and the frames give.
    pub(crate) fn put_to(
        &self,
        caller: &FastCaller,
        reply: &FastReply,
        cells: &mut impl OperationCells,
    ) {
        let number = u128::from(caller.first_operation.cast_unsigned()) << 32
            | u128::from(self.input) << 16
            | u128::from(reply.input);
        cells.common(number, |cells| {
            let (client, server) = (&caller.client, &caller.server);
            let header = &caller.header;
            cells.connection_id(caller.connection_id);
            cells.call_input(Some(self.input.into()));
            cells.reply_input(Some(reply.input.into()));
            cells.client_address(Some(client.address));
            cells.server_address(Some(server.address));
            cells.client_port(Some(client.port.into()));
            cells.server_port(Some(server.port.into()));
            cells.transport(Some(Transport::Tcp.name()));
            cells.program(header.program_word);
            cells.program_number(Some(header.program.into()));
            cells.version(header.version.try_into().ok());
            cells.rpc_status(Word::Known("SUCCESS"));
            cells.auth_flavor(header.auth_flavor);
            cells.user_id(header.ids[0]);
            cells.group_id(header.ids[1]);
            caller.credential.put_to(cells);
            cells.retransmissions(0);
            cells.duplicate_replies(0);
        });
        cells.operation_id(self.operation_id);
        cells.rpc_id(self.operation_id);
        cells.call_time_ns(self.stamp_ns);
        cells.call_end_ns(self.end_ns);
        cells.reply_time_ns(reply.first_ns);
        cells.reply_end_ns(reply.stamp_ns);
        cells.call_recovery_ns(reply.waited_ns[0]);
        cells.reply_recovery_ns(reply.waited_ns[1]);
        cells.call_frame(Some(self.frame as i64));
        cells.reply_frame(Some(reply.frame as i64));
        cells.xid(Some(calls::parts(self.key).1.into()));
        cells.call_bytes(Some(self.len.into()));
        cells.reply_bytes(Some(reply.len as i64));
        cells.repeat(self.repeat_of.is_some());
        cells.repeat_of(self.repeat_of);
    }
}

/// A caller among those of the calls that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallerRef(pub(crate) u32);

/// What is known of the reply beside its results.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FastReply {
    /// Of the frame that it begins in.
    pub(crate) first_ns: Option<i64>,
    /// Of the frame that it ends in, like the next two.
    pub(crate) stamp_ns: Option<i64>,
    pub(crate) frame: u64,
    pub(crate) input: u16,
    /// Bytes of the message.
    pub(crate) len: usize,
    /// How long the call waited for bytes that were sent again, and how long the reply did.
    pub(crate) waited_ns: [Option<i64>; 2],
}

/// What the calls of a connection have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FastCaller {
    pub(crate) header: Caller,
    pub(crate) credential: SysCredential,
    pub(crate) connection_id: i64,
    pub(crate) client: Endpoint,
    pub(crate) server: Endpoint,
    /// Its first call: no other caller has this number.
    pub(crate) first_operation: i64,
    /// Calls that wait, and their connection if its last header is this.
    pub(crate) uses: u32,
}

/// What comes before the data in a reply to READ.
#[derive(Debug)]
pub(crate) struct HeldReply {
    bytes: [u8; REPLY_MAX],
    len: u8,
    /// Of the frame that it began in.
    pub(crate) stamp_ns: Option<i64>,
}

impl HeldReply {
    pub(crate) fn new(bytes: &[u8], stamp_ns: Option<i64>) -> Self {
        let mut held = [0; REPLY_MAX];
        held[..bytes.len()].copy_from_slice(bytes);
        Self {
            bytes: held,
            len: bytes.len() as u8,
            stamp_ns,
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len.into()]
    }
}
