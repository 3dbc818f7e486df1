//! File data of READ and WRITE, which passes in chunks and is never held: checksums, and what of it
//! is missing.

use lineside_account::{Counter, Counters};
use lineside_frame::Chunk;
use lineside_trace::{ChecksumRun, RecordSink, RowRef};

use super::Operations;
use super::connection::OpenMessage;
use super::direction::DirectionSink;
use super::operation::Slot;
use crate::blocks::Blocks;

impl<S: RecordSink> Operations<S> {
    /// The offset of `len` bytes of data, if they are to be checksummed.
    pub(super) fn sums_from(
        &self,
        offset: Option<u64>,
        len: u32,
        counters: &mut Counters,
    ) -> Option<u64> {
        let offset = offset.filter(|_| self.config.checksums)?;
        if self.is_relieved {
            counters.add(Counter::BlocksLimit, Blocks::spanned(offset, len.into()));
            return None;
        }
        Some(offset)
    }
}

impl<S: RecordSink> DirectionSink<'_, S> {
    /// Bytes or a hole of the data that a protocol has announced.
    #[inline]
    pub(super) fn take_data(&mut self, chunk: Chunk<'_>) {
        let Operations {
            connections,
            sink,
            scratch,
            deferred,
            ..
        } = &mut *self.all;
        let Some(connection) = &mut connections[self.connection] else {
            return;
        };
        let Some(open) = &mut connection.open[self.direction] else {
            return;
        };
        let len = (chunk.len() as u64).min(open.data_left);
        if len == 0 {
            return;
        }
        open.data_left -= len;
        open.data_missing |= chunk.missing().is_some();
        if open.has_sums
            && open.slot.is_some()
            && let Some(blocks) = &mut connection.blocks[self.direction]
        {
            let operation_id = open.data_id;
            blocks.on_data(chunk.part(0, len as usize), |run| match deferred {
                Some(deferred) => deferred.note(operation_id, &run),
                None => {
                    let sums = &mut scratch.sums;
                    sums.clear();
                    run.sum(sums);
                    sink.row(RowRef::Checksums(&ChecksumRun {
                        operation_id,
                        first_block: run.first,
                        sums,
                    }));
                }
            });
        }
    }
}

/// The data of a message has ended. Returns the operation that it belongs to if some of it is
/// missing.
pub(super) fn end_data(
    open: &mut OpenMessage,
    blocks: Option<&Blocks>,
    counters: &mut Counters,
) -> Option<Slot> {
    let slot = open.data_of.take()?;
    let is_missing = std::mem::take(&mut open.data_missing);
    let left = std::mem::take(&mut open.data_left);
    if std::mem::take(&mut open.has_sums)
        && let Some(blocks) = blocks
    {
        let (summed, incomplete) = blocks.counts();
        counters.add(Counter::Blocks, summed);
        counters.add(Counter::BlocksIncomplete, incomplete);
    }
    // Its rows may have been written already, for want of room.
    (open.slot.is_some() && (is_missing || left > 0)).then_some(slot)
}
