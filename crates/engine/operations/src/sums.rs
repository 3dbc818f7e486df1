//! Blocks of file data whose checksums another actor computes: noted where the data passes, summed
//! where the batch of its frames goes next.

use lineside_frame::{Range, xxh3};
use lineside_rows::{ChecksumRun, RecordSink, RowRef, Table};

use crate::blocks::{BLOCK_BYTES, Run};

/// Blocks whose checksums are wanted, then their checksums.
#[derive(Default)]
pub struct Sums {
    /// The ordinal of the frame that the pipeline looks at, and its place in the batch.
    pub frame: Option<(u64, usize)>,
    runs: Vec<NotedRun>,
    /// Bytes of other frames than the batch's.
    held: Vec<Range>,
    sums: Vec<u64>,
}

struct NotedRun {
    operation_id: i64,
    first: i64,
    /// The checksum of a first block that came in several pieces.
    straddling: Option<u64>,
    whole: Whereabouts,
    whole_len: usize,
}

/// Where the whole blocks of a run lie.
enum Whereabouts {
    /// In the frame of an item, from this offset on.
    Item(usize, usize),
    /// In the next held range.
    Held,
    /// The run is a straddling block alone.
    Nowhere,
}

impl Sums {
    /// Notes blocks of the frame at hand without touching its count of references, and holds those
    /// of other frames. A block that came in several pieces was just put together, in this core's
    /// cache: its checksum costs little more than a copy for another core, which would have to read
    /// that, too.
    pub(crate) fn note(&mut self, operation_id: i64, run: &Run<'_>) {
        let ordinal = run.whole.descriptor().ordinal;
        let whole = match self.frame {
            _ if run.whole.is_empty() => Whereabouts::Nowhere,
            Some((this, item)) if this == ordinal => {
                Whereabouts::Item(item, run.whole.offset_in_frame())
            }
            _ => {
                self.held.push(run.whole.hold());
                Whereabouts::Held
            }
        };
        self.runs.push(NotedRun {
            operation_id,
            first: run.first,
            straddling: run.straddling_sum(),
            whole,
            whole_len: run.whole.len(),
        });
    }

    /// Computes all checksums. `frame_of` gives the bytes of the frame at a place in the batch.
    pub fn sum<'a>(&mut self, frame_of: impl Fn(usize) -> &'a [u8]) {
        let Self {
            runs, held, sums, ..
        } = self;
        let mut held_ranges = held.iter();
        for run in &*runs {
            sums.extend(run.straddling);
            let bytes = match run.whole {
                Whereabouts::Nowhere => &[],
                Whereabouts::Held => held_ranges.next().expect("noted with its run").bytes(),
                Whereabouts::Item(item, offset) => &frame_of(item)[offset..][..run.whole_len],
            };
            xxh3::sum_each(bytes, sums);
        }
        held.clear();
    }

    /// Writes the rows of `checksums`, if `sink` wants them.
    pub fn write_to(&self, sink: &mut impl RecordSink) {
        if !sink.wants(Table::Checksums) {
            return;
        }
        let mut sums = &self.sums[..];
        for run in &self.runs {
            let count = usize::from(run.straddling.is_some()) + run.whole_len / BLOCK_BYTES;
            let (mine, rest) = sums.split_at(count);
            sink.row(RowRef::Checksums(&ChecksumRun {
                operation_id: run.operation_id,
                first_block: run.first,
                sums: mine,
            }));
            sums = rest;
        }
    }

    /// Empty again; memory is kept.
    pub fn clear(&mut self) {
        self.runs.clear();
        self.held.clear();
        self.sums.clear();
    }
}
