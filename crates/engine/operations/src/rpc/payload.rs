//! File data of READ and WRITE, which passes in chunks and is never held: checksums, and what of it
//! is missing.

use lineside_account::{Counter, Counters};
use lineside_frame::Chunk;
use lineside_rows::{ChecksumRun, RecordSink, RowRef};
use lineside_wire::Direction;

use super::Operations;
use super::connection::RpcConnection;
use super::direction::DirectionSink;
use crate::blocks::Blocks;
use crate::slot::Slot;

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
            deferred,
            ..
        } = &mut *self.all;
        let Some(connection) = &mut connections[self.connection] else {
            return;
        };
        let RpcConnection {
            open,
            blocks,
            summed,
            ..
        } = &mut **connection;
        let Some(open) = &mut open[self.direction] else {
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
            && let Some(blocks) = &mut blocks[self.direction]
        {
            let operation_id = open.data_id;
            let summed = &mut summed[self.direction];
            blocks.on_data(chunk.part(0, len as usize), |run| match deferred {
                Some(deferred) => deferred.sums.note(operation_id, &run),
                None => summed.add(&run, |first, sums| {
                    write_sums(operation_id, first, sums, sink);
                }),
            });
        }
    }
}

#[inline]
fn write_sums(operation_id: i64, first_block: i64, sums: &[u64], sink: &mut impl RecordSink) {
    sink.row(RowRef::Checksums(&ChecksumRun {
        operation_id,
        first_block,
        sums,
    }));
}

impl RpcConnection {
    /// The data of the message that is open in a direction has ended, if there was some. Returns
    /// the operation that it belongs to if some of it is missing.
    pub(super) fn end_data(
        &mut self,
        direction: Direction,
        sink: &mut impl RecordSink,
        counters: &mut Counters,
    ) -> Option<Slot> {
        let open = self.open[direction].as_mut()?;
        let slot = open.data_of.take()?;
        let is_missing = std::mem::take(&mut open.data_missing);
        let left = std::mem::take(&mut open.data_left);
        if std::mem::take(&mut open.has_sums)
            && let Some(blocks) = &self.blocks[direction]
        {
            let (summed, incomplete) = blocks.counts();
            counters.add(Counter::Blocks, summed);
            counters.add(Counter::BlocksIncomplete, incomplete);
            self.summed[direction].end(|first, sums| write_sums(open.data_id, first, sums, sink));
        }
        // Its rows may have been written already, for want of room.
        (open.slot.is_some() && (is_missing || left > 0)).then_some(slot)
    }
}
