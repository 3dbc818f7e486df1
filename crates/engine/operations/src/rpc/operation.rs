//! Operations that are open, in slots that are used again.

use std::ops::{Index, IndexMut};

use lineside_account::{Counter, Counters};
use lineside_flow::Transport;
use lineside_rows::{OperationRow, Word};

use super::Holder;
use super::arguments::Arguments;
use super::early::EarlyReply;
use super::files::HandleBytes;
use crate::protocol::{CompoundLink, Details, Procedure};

/// What is known of one call and its reply so far.
#[derive(Debug, Default)]
pub(crate) struct Operation {
    pub(crate) row: OperationRow,
    pub(crate) details: Details,
    /// What reads its arguments and results.
    pub(crate) procedure: Procedure,
    /// The number of the procedure.
    pub(super) number: u32,
    /// Where in its stream the call ends, or the segment that ends it.
    pub(super) call_end: i64,
    pub(super) call_done: bool,
    pub(super) reply_done: bool,
    /// The handle in the call, if this connection has not reported its file yet; of NFSv4 also the
    /// one in the reply.
    pub(crate) handle: Option<HandleBytes>,
    /// Of NFSv4: its place in a compound.
    pub(crate) compound: CompoundLink,
    /// What distinguishes it from other calls with its xid; nothing if that was not seen.
    pub(super) arguments: Arguments,
    /// It is a call only if it is answered, and has so many bytes.
    pub(super) unproven_bytes: Option<usize>,
    /// Arguments and results are wrapped for RPCSEC_GSS's integrity.
    pub(super) is_wrapped: bool,
    /// Where its call is known: not of the further operations of a compound, nor of a reply alone.
    pub(super) holder: Option<Holder>,
    /// A reply that came before its call, to be read when the call has ended.
    pub(super) early: Option<Box<EarlyReply>>,
}

impl Operation {
    fn clear(&mut self) {
        self.row.clear();
        self.details.clear();
        self.procedure = Procedure::default();
        (self.call_done, self.reply_done) = (false, false);
        (self.handle, self.holder) = (None, None);
        self.unproven_bytes = None;
        self.arguments = Arguments::default();
        self.compound.clear();
    }
}

/// What an operation costs, to draw on the budget: two rows with a name each.
pub(super) const OPERATION_BYTES: usize = size_of::<Operation>() + 256;

/// Where an open operation lies: among those of the general path, or of the [fast](super::fast_path)
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(u32);

impl Slot {
    /// The bit of one on the fast path.
    const FAST: u32 = 1 << 31;

    pub(super) fn of_fast(at: u32) -> Self {
        Self(at | Self::FAST)
    }

    /// Its place among the calls on the fast path, if it is one.
    #[inline]
    pub(super) fn fast(self) -> Option<u32> {
        (self.0 & Self::FAST != 0).then_some(self.0 & !Self::FAST)
    }
}

/// All slots, those in use and the free ones.
#[derive(Default)]
pub(crate) struct OperationTable {
    operations: Vec<Operation>,
    free: Vec<Slot>,
}

impl OperationTable {
    pub(super) fn len(&self) -> usize {
        self.operations.len()
    }

    /// Operations that have no row yet.
    pub(super) fn waiting(&self) -> usize {
        self.operations.len() - self.free.len()
    }

    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// All operations, free slots included.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &Operation)> {
        (0..).map(Slot).zip(&self.operations)
    }

    #[inline]
    pub(super) fn take_free(&mut self) -> Option<Slot> {
        self.free.pop()
    }

    pub(super) fn add(&mut self) -> Slot {
        self.operations.push(Operation::default());
        Slot((self.operations.len() - 1) as u32)
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
        &self.operations[slot.0 as usize]
    }
}

impl IndexMut<Slot> for OperationTable {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut Operation {
        &mut self.operations[slot.0 as usize]
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
    pub(super) numbers: u32,
    pub(super) arguments: Arguments,
}

impl Signature {
    #[inline]
    pub(super) fn new(
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
    pub(super) fn of(operation: &Operation) -> Self {
        let Operation { row, number, .. } = operation;
        let numbers = (row.program_number, row.version);
        Self::new(numbers, *number, operation.arguments)
    }
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
