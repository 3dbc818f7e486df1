//! The actors: pipelines, their checksums, and sinks.

use std::collections::VecDeque;
use std::mem;
use std::sync::mpsc::Sender;

use lineside_actor::{Actor, Address, Context, Outcome, Waker};
use lineside_operations::Waiting;
use lineside_rows::{RecordSink, RowRef};

use super::Settle;
use super::batch::{BATCH_BYTES, Batch, Gather, Item, Next, ToSink};
use crate::pipeline::Flows;

/// Slots of connections that are closed for one batch: each may still have its outstanding calls,
/// whose rows may be many.
const CLOSE_SLOTS: usize = 64;

/// Flows and operations of the connections that are its share.
pub(super) struct PipelineActor {
    pub(super) flows: Flows<Gather>,
    pub(super) checksums: Address<Box<Batch>>,
    /// As of when it was looked at last.
    pub(super) waiting: Waiting,
    pub(super) looked_ns: i64,
    /// A batch whose rows are many goes round before its other items are taken.
    pub(super) is_behind: bool,
    /// Batches that came meanwhile.
    pub(super) later: VecDeque<Box<Batch>>,
}

/// So often is it looked at what waits.
const LOOK_NS: i64 = 1_000_000_000;

impl Actor for PipelineActor {
    type Message = Box<Batch>;

    fn on_message(&mut self, batch: Box<Batch>, context: &mut Context<'_, Box<Batch>>) -> Outcome {
        if self.is_behind && batch.taken == 0 {
            self.later.push_back(batch);
            return Ok(());
        }
        self.is_behind = false;
        let mut next = Some(batch);
        while let Some(mut batch) = next.filter(|_| !self.is_behind) {
            self.take(&mut batch, context);
            context.send(&self.checksums, batch);
            next = match self.is_behind {
                true => None,
                false => self.later.pop_front(),
            };
        }
        Ok(())
    }

    fn on_stop(&mut self, _: &mut Context<'_, Box<Batch>>) -> Outcome {
        self.flows.operations.give_back();
        Ok(())
    }
}

impl PipelineActor {
    /// Takes the items of a batch, as far as their rows are not too many for it.
    fn take(&mut self, batch: &mut Batch, context: &mut Context<'_, Box<Batch>>) {
        self.exchange(batch);
        self.flows.operations.set_relieved(batch.is_relieved);
        if batch.ending {
            self.flows.operations.set_ending();
        }
        let first = mem::take(&mut batch.taken);
        for (at, item) in batch.items.iter().enumerate().skip(first) {
            if self.flows.operations.sink_mut().rows.bytes() > BATCH_BYTES {
                batch.taken = at;
                break;
            }
            match item {
                Item::Frame(now, frame) => {
                    let ordinal = frame.descriptor().ordinal;
                    self.flows.operations.deferred().sums.frame = Some((ordinal, at));
                    self.flows.on_frame(*now, frame);
                }
                Item::Whole(now, whole) => {
                    self.flows.operations.deferred().sums.frame = None;
                    self.flows.on_whole(*now, whole);
                }
                Item::Fragment(frame, outcome) => self.flows.on_fragment(frame, *outcome),
                Item::Loss(row) => {
                    let sink = self.flows.operations.sink_mut();
                    sink.row(RowRef::Losses(row));
                }
            }
        }
        self.flows.operations.deferred().sums.frame = None;
        self.is_behind = batch.taken > 0;
        if self.is_behind {
            batch.back = Some(context.address());
        } else {
            self.finish(batch, context);
        }
        self.exchange(batch);
        batch.counters.clone_from(&self.flows.counters);
        if batch.now.saturating_sub(self.looked_ns) >= LOOK_NS {
            (self.waiting, self.looked_ns) = (self.flows.operations.waiting(), batch.now);
        }
        batch.waiting = self.waiting;
        // Of parts that were held, and no longer are.
        lineside_frame::give_back();
    }

    /// What follows the last item of a batch.
    fn finish(&mut self, batch: &mut Batch, context: &Context<'_, Box<Batch>>) {
        self.flows.on_timer(batch.now);
        for _ in 0..CLOSE_SLOTS {
            let Some(slot) = batch.close_from.take() else {
                break;
            };
            batch.close_from = self.flows.close_from(slot, 1);
            batch.back = batch.close_from.map(|_| context.address());
            if self.flows.operations.sink_mut().rows.bytes() > BATCH_BYTES {
                break;
            }
        }
        if batch.spill {
            self.flows.spill();
        }
    }

    /// Before a batch, its empty lists become those that are filled; after it, it takes them back.
    fn exchange(&mut self, batch: &mut Batch) {
        let operations = &mut self.flows.operations;
        mem::swap(operations.deferred(), &mut batch.deferred);
        mem::swap(&mut operations.sink_mut().rows, &mut batch.rows);
    }
}

/// Computes checksums, and lets the frames go.
pub(super) struct ChecksumActor {
    pub(super) next: Address<ToSink>,
}

impl Actor for ChecksumActor {
    type Message = Box<Batch>;

    fn on_message(
        &mut self,
        mut batch: Box<Batch>,
        context: &mut Context<'_, Box<Batch>>,
    ) -> Outcome {
        batch.sum();
        if batch.taken == 0 {
            batch.items.clear();
        }
        lineside_frame::give_back();
        context.send(&self.next, ToSink::Batch(batch));
        Ok(())
    }
}

/// A sink on a core of its own.
pub(super) struct SinkActor<S> {
    /// Until it is given back.
    pub(super) sink: Option<S>,
    pub(super) settle: Settle<S>,
    pub(super) next: Next,
    pub(super) now: i64,
    pub(super) ended: bool,
    /// Where the sink goes at the end.
    pub(super) home: Sender<S>,
}

impl<S: RecordSink + Send + 'static> Actor for SinkActor<S> {
    type Message = ToSink;

    fn on_message(&mut self, message: ToSink, context: &mut Context<'_, ToSink>) -> Outcome {
        let Some(sink) = &mut self.sink else {
            return Ok(());
        };
        let mut batch = match message {
            ToSink::Settle(is_last) => {
                self.ended = is_last;
                return (self.settle)(sink, is_last);
            }
            ToSink::Batch(batch) => batch,
        };
        // Batches of several pipelines come in any order.
        self.now = self.now.max(batch.now);
        sink.on_time(self.now);
        batch.write_to(sink);
        let settled = (self.settle)(sink, false);
        match (&self.next, batch.back.take()) {
            (Next::Sink(next), back) => {
                batch.back = back;
                context.send(next, ToSink::Batch(batch));
            }
            (Next::Reader(..), Some(pipeline)) => {
                batch.clear();
                context.send(&pipeline, batch);
            }
            (Next::Reader(reader, waker), None) => {
                // The reader is gone only when the run has failed.
                drop(reader.send(batch));
                waker.iter().for_each(Waker::wake);
            }
        }
        settled
    }

    /// Also after another actor's failure, so that what was recorded is complete as far as it goes.
    fn on_stop(&mut self, _: &mut Context<'_, ToSink>) -> Outcome {
        let Some(mut sink) = self.sink.take() else {
            return Ok(());
        };
        let settled = if self.ended {
            Ok(())
        } else {
            (self.settle)(&mut sink, true)
        };
        // Nobody waits for it only when the run has failed.
        let _ = self.home.send(sink);
        settled
    }
}
