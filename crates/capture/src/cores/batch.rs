//! What travels between the actors: a box that goes from the reader through a pipeline, its
//! checksums and all sinks back to the reader, and is filled again.

use std::sync::mpsc::Sender;

use lineside_account::{Budget, Counter, Counters, Lease};
use lineside_actor::{Address, Waker};
use lineside_flow::Whole;
use lineside_frame::{FrameRef, Range};
use lineside_trace::{ChecksumRun, LossRow, RecordSink, RowBuffer, RowRef, Table};

use crate::blocks::{BLOCK_BYTES, Run, sum_blocks};

/// Frames of one pipeline, then the rows that came of them.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) pipeline: usize,
    pub(crate) items: Vec<Item>,
    /// Bytes of those frames.
    pub(crate) bytes: usize,
    /// The reader's time when the batch left it.
    pub(crate) now: i64,
    /// The port has no free block left: what is held is to be copied out.
    pub(crate) spill: bool,
    /// The input has ended.
    pub(crate) ending: bool,
    /// Data goes without checksums.
    pub(crate) is_relieved: bool,
    /// Connections are to be closed, from this slot on.
    pub(crate) close_from: Option<usize>,
    /// The pipeline that wants the batch back, to close more of them.
    pub(crate) back: Option<Address<Box<Self>>>,
    pub(crate) rows: RowBuffer,
    pub(crate) sums: Sums,
    /// The pipeline's, as of this batch.
    pub(crate) counters: Counters,
    /// Draws its memory on the budget.
    _lease: Option<Lease>,
}

/// Memory that a batch may keep for the next time: 256 frames, and the rows of as many small
/// operations.
pub(crate) const BATCH_BYTES: usize = 512 << 10;

impl Batch {
    /// An empty one, if the budget bears it.
    pub(crate) fn new(budget: &Budget) -> Option<Box<Self>> {
        let lease = budget.lease(BATCH_BYTES)?;
        Some(Box::new(Self {
            _lease: Some(lease),
            ..Self::default()
        }))
    }

    /// Gives all rows of the tables that `sink` wants to it.
    pub(crate) fn write_to(&self, sink: &mut impl RecordSink) {
        self.rows.write_to(sink);
        self.sums.write_to(sink);
    }

    /// Empty again. Memory is kept as far as it is what batches usually take.
    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.bytes = 0;
        self.rows.clear(ROWS_KEPT_MAX);
        self.sums.clear();
    }
}

/// What a pipeline is given, each with the running maximum of all inputs' stamps.
pub(crate) enum Item {
    Frame(i64, FrameRef),
    /// A packet put together from fragments.
    Whole(i64, Box<Whole>),
    /// A fragment with its outcome, for its row in `packets` only.
    Fragment(FrameRef, Counter),
    /// Frames that a port dropped.
    Loss(Box<LossRow>),
}

/// Rows of a kind that a batch keeps memory for.
const ROWS_KEPT_MAX: usize = 256;

/// The sink of a pipeline: gathers rows of the tables that any sink behind it wants.
pub(crate) struct Gather {
    pub(crate) wanted: Vec<Table>,
    pub(crate) rows: RowBuffer,
}

impl RecordSink for Gather {
    fn wants(&self, table: Table) -> bool {
        self.wanted.contains(&table)
    }

    fn on_time(&mut self, _: i64) {}

    fn row(&mut self, row: RowRef<'_>) {
        self.rows.push(row);
    }
}

/// Blocks whose checksums are wanted, then their checksums.
#[derive(Default)]
pub(crate) struct Sums {
    /// The ordinal of the frame that the pipeline looks at, and its place in the batch.
    pub(crate) frame: Option<(u64, usize)>,
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

    /// Computes all checksums.
    pub(crate) fn sum(&mut self, items: &[Item]) {
        let Self {
            runs, held, sums, ..
        } = self;
        let mut held_ranges = held.iter();
        for run in &*runs {
            sums.extend(run.straddling);
            let bytes = match run.whole {
                Whereabouts::Nowhere => &[],
                Whereabouts::Held => held_ranges.next().expect("noted with its run").bytes(),
                Whereabouts::Item(item, offset) => match &items[item] {
                    Item::Frame(_, frame) => &frame.bytes()[offset..][..run.whole_len],
                    _ => unreachable!("only frames are looked at in place"),
                },
            };
            sum_blocks(bytes, sums);
        }
        held.clear();
    }

    fn write_to(&self, sink: &mut impl RecordSink) {
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

    fn clear(&mut self) {
        self.runs.clear();
        self.held.clear();
        self.sums.clear();
    }
}

/// What a sink's actor is sent.
pub(crate) enum ToSink {
    Batch(Box<Batch>),
    /// To settle; true: every batch has come.
    Settle(bool),
}

/// Where a batch goes behind a sink.
pub(crate) enum Next {
    Sink(Address<ToSink>),
    Reader(Sender<Box<Batch>>, Option<Waker>),
}
