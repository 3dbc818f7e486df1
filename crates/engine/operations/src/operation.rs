//! Operations that are open, in slots that are used again.

use std::ops::{Index, IndexMut};

use lineside_account::{Counter, Counters, Lease};
use lineside_flow::Transport;
use lineside_frame::Range;
use lineside_rows::{OperationRow, Word};
use lineside_rpc::record::Message;
use lineside_wire::Direction;

use crate::arguments::Arguments;
use crate::details::Details;
use crate::files::HandleBytes;
use crate::procedure::{Procedure, Progress, State};
use crate::slot::Slot;

/// What is known of one call and its reply so far.
#[derive(Debug, Default)]
pub(crate) struct Operation {
    pub(crate) row: OperationRow,
    pub(crate) details: Details,
    /// What reads its arguments and results.
    pub(crate) procedure: Procedure,
    /// The number of the procedure.
    pub(crate) number: u32,
    /// Where in its stream the call ends, or the segment that ends it.
    pub(crate) call_end: i64,
    pub(crate) call_done: bool,
    pub(crate) reply_done: bool,
    /// The handle in the call, if this connection has not reported its file yet; of NFSv4 also the
    /// one in the reply.
    pub(crate) handle: Option<HandleBytes>,
    /// What its protocol keeps of it.
    pub(crate) state: State,
    /// What distinguishes it from other calls with its xid; nothing if that was not seen.
    pub(crate) arguments: Arguments,
    /// It is a call only if it is answered, and has this many bytes.
    pub(crate) unproven_bytes: Option<usize>,
    /// Arguments and results are wrapped for RPCSEC_GSS's integrity.
    pub(crate) is_wrapped: bool,
    /// Its reply came from another address than was called.
    pub(crate) is_elsewhere: bool,
    /// Where its call is known: not of the further operations of a compound, nor of a reply alone.
    pub(crate) holder: Option<Holder>,
    /// A reply that came before its call, to be read when the call has ended.
    pub(crate) early: Option<Box<EarlyReply>>,
}

impl Operation {
    fn clear(&mut self) {
        self.row.clear();
        self.details.clear();
        self.procedure = Procedure::default();
        (self.call_done, self.reply_done) = (false, false);
        (self.handle, self.holder) = (None, None);
        self.unproven_bytes = None;
        self.is_elsewhere = false;
        self.arguments = Arguments::default();
        self.state = State::None;
    }
}

/// What an operation costs, to draw on the budget: two rows with a name each.
pub(crate) const OPERATION_BYTES: usize = size_of::<Operation>() + 256;
/// Operations take at most this part of the memory: one in four. A guess: blocks of frames and the
/// parts of the trace need most of the rest.
const MEMORY_SHARE: usize = 4;

/// How many operations a budget bears.
pub(crate) fn operations_max(limit_bytes: usize) -> usize {
    limit_bytes / MEMORY_SHARE / OPERATION_BYTES
}

/// All slots, those in use and the free ones.
#[derive(Default)]
pub(crate) struct OperationTable {
    operations: Vec<Operation>,
    free: Vec<Slot>,
}

impl OperationTable {
    pub(crate) fn len(&self) -> usize {
        self.operations.len()
    }

    /// Operations that have no row yet.
    pub(crate) fn waiting(&self) -> usize {
        self.operations.len() - self.free.len()
    }

    pub(crate) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// All operations, free slots included.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &Operation)> {
        (0..).map(Slot::new).zip(&self.operations)
    }

    #[inline]
    pub(crate) fn take_free(&mut self) -> Option<Slot> {
        self.free.pop()
    }

    pub(crate) fn add(&mut self) -> Slot {
        self.operations.push(Operation::default());
        Slot::new((self.operations.len() - 1) as u32)
    }

    /// The slot is free again, and its operation empty.
    #[inline]
    pub(crate) fn release(&mut self, slot: Slot) {
        self[slot].clear();
        self.free.push(slot);
    }

    /// The slot, which was not used, is free again.
    pub(crate) fn give_back(&mut self, slot: Slot) {
        self.free.push(slot);
    }
}

impl Index<Slot> for OperationTable {
    type Output = Operation;

    #[inline]
    fn index(&self, slot: Slot) -> &Operation {
        &self.operations[slot.place()]
    }
}

impl IndexMut<Slot> for OperationTable {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut Operation {
        &mut self.operations[slot.place()]
    }
}

/// A call in its connection's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) connection: usize,
    pub(crate) key: u64,
}

/// A datagram with a reply that waits for its call.
#[derive(Debug)]
pub(crate) struct EarlyReply {
    pub(crate) message: Message,
    pub(crate) ranges: Vec<Range>,
    pub(crate) direction: Direction,
    /// Copies of it that came after.
    pub(crate) duplicates: i32,
    /// Bytes of them all.
    pub(crate) seen: usize,
    /// Draws it on the memory budget.
    pub(crate) _lease: Lease,
}

/// A message whose header was read and whose end has not come.
#[derive(Debug)]
pub(crate) struct OpenMessage {
    /// The operation that it belongs to.
    pub(crate) slot: Option<Slot>,
    pub(crate) is_call: bool,
    pub(crate) xid: u32,
    /// How far its protocol has read it, if it reads in steps.
    pub(crate) progress: Option<Progress>,
    /// The operation that the file data at hand belongs to, and the number of its row.
    pub(crate) data_of: Option<Slot>,
    pub(crate) data_id: i64,
    /// Bytes of file data still to come.
    pub(crate) data_left: u64,
    pub(crate) data_missing: bool,
    /// The data is checksummed, in the connection's [`Blocks`].
    pub(crate) has_sums: bool,
}

impl OpenMessage {
    pub(crate) fn new(slot: Option<Slot>, is_call: bool, xid: u32) -> Self {
        Self {
            slot,
            is_call,
            xid,
            progress: None,
            data_of: None,
            data_id: 0,
            data_left: 0,
            data_missing: false,
            has_sums: false,
        }
    }
}

/// What the connection's table of calls keeps of an answered call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallRef {
    /// Its rows wait for copies of its reply.
    Open(Slot),
    /// Its rows are written.
    Written(Signature),
}

/// What was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signature {
    /// Program, version and procedure in one number. Those of NFS and of the programs beside it do
    /// not collide.
    pub(crate) numbers: u32,
    pub(crate) arguments: Arguments,
}

impl Signature {
    #[inline]
    pub(crate) fn new(
        (program, version): (Option<i64>, Option<i32>),
        procedure: u32,
        arguments: Arguments,
    ) -> Self {
        let (program, version) = (program.unwrap_or(0) as u32, version.unwrap_or(0) as u32);
        Self {
            numbers: program ^ (version << 18) ^ (procedure << 22),
            arguments,
        }
    }

    #[inline]
    pub(crate) fn of(operation: &Operation) -> Self {
        let Operation { row, number, .. } = operation;
        let numbers = (row.program_number, row.version);
        Self::new(numbers, *number, operation.arguments)
    }
}

/// Whether an operation moves no more bytes than it asks for.
#[cold]
fn moves_as_asked(operation: Word) -> bool {
    matches!(operation, Word::Known("READ" | "WRITE"))
}

/// Whether an operation's reply has moved more bytes than its call asks for.
#[inline]
pub(crate) fn contradicts(row: &OperationRow) -> bool {
    row.count.is_some() && row.transferred > row.count && moves_as_asked(row.operation)
}

/// A cut message takes more with it: where the header before data is cut, the data, and where the
/// call does not show how its reply is to be read, the reply.
#[inline]
pub(crate) fn mark_incomplete(row: &mut OperationRow, counters: &mut Counters) {
    if row.call_incomplete || row.reply_incomplete {
        let has_status = row.program == Word::Known("nfs") && row.operation != Word::Known("NULL");
        row.reply_incomplete |= has_status
            && row.status == Word::None
            && row.rpc_status == Word::Known("SUCCESS")
            && !row.not_executed;
        let has_failed = matches!(row.status, Word::Known(status) if !status.ends_with("_OK"));
        row.data_incomplete |= match row.operation {
            Word::Known("WRITE") => row.call_incomplete,
            Word::Known("READ") => row.reply_incomplete && !has_failed,
            _ => false,
        };
    }
    // Over TCP, the holes in its streams are counted.
    if (row.call_incomplete || row.reply_incomplete || row.data_incomplete)
        && row.transport == Some(Transport::Udp.name())
    {
        counters.count(Counter::OperationsUdpIncomplete);
    }
}
