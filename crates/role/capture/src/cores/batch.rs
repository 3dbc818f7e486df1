//! What travels between the actors: a box that goes from the reader through a pipeline, its
//! checksums and all sinks back to the reader, and is filled again.

use std::sync::mpsc::Sender;

use lineside_account::{Budget, Counter, Counters, Lease};
use lineside_actor::{Address, Waker};
use lineside_flow::Whole;
use lineside_frame::FrameRef;
use lineside_operations::{Deferred, Waiting};
use lineside_rows::{LossRow, RecordSink, RowBuffer, RowRef, Table};

/// Frames of one pipeline, then the rows that came of them.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) pipeline: usize,
    pub(crate) items: Vec<Item>,
    /// Of these, the pipeline has taken so many, and takes the others when the rows of the first
    /// have gone round; 0: all.
    pub(crate) taken: usize,
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
    /// The pipeline that wants the batch back, to take more items or close more connections.
    pub(crate) back: Option<Address<Box<Self>>>,
    pub(crate) rows: RowBuffer,
    pub(crate) deferred: Deferred,
    /// The pipeline's, as of this batch.
    pub(crate) counters: Counters,
    /// What waits for replies in the pipeline.
    pub(crate) waiting: Waiting,
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
        self.deferred.calls.write_to(sink);
        self.rows.write_to(sink);
        self.deferred.sums.write_to(sink);
    }

    /// Computes the checksums of all blocks noted.
    pub(crate) fn sum(&mut self) {
        let Self {
            items, deferred, ..
        } = self;
        deferred.sums.sum(|item| match &items[item] {
            Item::Frame(_, frame) => frame.bytes(),
            _ => unreachable!("only frames are looked at in place"),
        });
    }

    /// Without rows again, and empty if all items were taken. Memory is kept as far as it is what
    /// batches usually take.
    pub(crate) fn clear(&mut self) {
        if self.taken == 0 {
            self.items.clear();
            self.bytes = 0;
        }
        self.rows.clear(ROWS_KEPT_MAX);
        self.deferred.sums.clear();
        self.deferred.calls.clear(ROWS_KEPT_MAX);
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
