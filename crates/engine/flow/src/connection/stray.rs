//! Segments ahead of their stream that belong to something else: another connection's, or injected.
//! Their bytes are not those of the stream, and what lies before them is no gap.

use lineside_account::Counter;
use lineside_frame::Chunk;
use lineside_wire::Direction;

use crate::connection::Connection;
use crate::connection::segments::Front;
use crate::context::{Context, Shared};
use crate::sink::StreamSink;
use crate::stream::{BEHIND_MAX, Held, State};

/// A gap longer than this, of which the other side says nothing while it goes on, is none.
const UNANSWERED_MAX: i64 = 1 << 20;
/// After so many times `late_segments`, what the other end has no word of was not sent by its peer:
/// 256 segments, and no recovery takes as many round trips.
const UNHEARD_TIMES: u64 = 8;

impl Connection {
    /// Whether a held part after a gap that nobody acknowledged belongs to something else: so much
    /// is never in flight, it lies beyond the window that its receiver has given or after the FIN,
    /// or the other side went on without a word of it.
    pub(super) fn is_stray(&self, direction: Direction, front: &Front, shared: &Shared) -> bool {
        let stream = &self.streams[direction];
        let ahead = front.start - stream.next;
        let other = &self.streams[direction.opposite()];
        let went_on = other.state == State::Open && self.is_overdue(front.arrived, shared);
        let is_beyond = self.senders[direction.opposite()]
            .known_edge()
            .is_some_and(|edge| {
                let edge = stream.offset(edge);
                // One that what came went beyond is an old one.
                edge >= stream.next && front.start > edge
            });
        let is_after_fin = stream.fin.is_some_and(|fin| front.start >= fin);
        let is_unanswered = ahead > UNANSWERED_MAX && went_on;
        let is_outside = ahead > BEHIND_MAX || is_beyond || is_after_fin;
        is_outside || is_unanswered || self.is_long_unheard(direction, front, shared)
    }

    /// Whether the first held part has been without a word of the other end for longer than it
    /// takes to send again what was lost, and stands alone.
    pub(super) fn is_long_unheard(
        &self,
        direction: Direction,
        front: &Front,
        shared: &Shared,
    ) -> bool {
        let passed = self.segments - front.arrived.segments;
        let next = self.streams[direction].held.get(1);
        passed / UNHEARD_TIMES >= shared.config.late_segments
            && next.is_none_or(|next| next.start > front.end)
            && self.is_unheard(direction, front.start, front.stood)
    }

    /// Whether the other end has acknowledged what came in order after a part that is held, nothing
    /// of the gap before it, and has no word of it: by blocks, or by asking for that gap.
    fn is_unheard(&self, direction: Direction, start: i64, stood: i64) -> bool {
        let stream = &self.streams[direction];
        let other = &self.senders[direction.opposite()];
        let at = stream.next.min(start);
        let went_by = stream
            .acked
            .is_some_and(|acked| stood < acked && acked <= at);
        went_by && !other.asks_again() && !other.has_sacked(stream.sequence(start))
    }

    /// Whether the other end has no word of the first held part.
    pub(super) fn holds_stray(&self, direction: Direction) -> bool {
        let first = self.streams[direction].held.front();
        first.is_some_and(|held| self.is_unheard(direction, held.start, held.stood))
    }

    /// Whether the first held part, which comes next, may be none of the stream: while nothing
    /// follows it, an acknowledgement or the next segment shows which.
    #[inline]
    pub(super) fn may_stray(&self, direction: Direction, front: &Front) -> bool {
        self.streams[direction].held.len() == 1
            && self.is_unheard(direction, front.start, front.stood)
    }

    /// A segment comes: held parts in its place that have other bytes, and of which the other end
    /// knows nothing, are none of the stream.
    pub(super) fn drop_strays<S: StreamSink>(
        &mut self,
        direction: Direction,
        start: i64,
        chunk: &Chunk<'_>,
        context: &mut Context<'_, S>,
    ) {
        let end = start + chunk.len() as i64;
        loop {
            let held = &self.streams[direction].held;
            if held.back().is_none_or(|last| last.end() <= start) {
                return;
            }
            let at = held.partition_point(|held| held.end() <= start);
            let stray = held.get(at).filter(|held| held.start < end);
            let Some(stray) = stray.filter(|held| differs(held, start, chunk)) else {
                return;
            };
            if !self.is_unheard(direction, stray.start, stray.stood) {
                return;
            }
            let stream = &mut self.streams[direction];
            if let Some(stray) = stream.held.remove(at) {
                stream.held_bytes -= stray.range.len();
                self.discard(direction, &stray, context);
            }
        }
    }

    /// Discards the first held part, which is none of its stream.
    #[cold]
    pub(super) fn discard_front<S: StreamSink>(
        &mut self,
        direction: Direction,
        context: &mut Context<'_, S>,
    ) {
        if let Some(stray) = self.streams[direction].take_front() {
            self.discard(direction, &stray, context);
        }
    }

    fn discard<S: StreamSink>(
        &mut self,
        direction: Direction,
        stray: &Held,
        context: &mut Context<'_, S>,
    ) {
        let bytes = stray.range.len() as u64;
        context.counters.subtract(Counter::StreamHeld, bytes);
        context.counters.add(Counter::StreamDiscarded, bytes);
        context.counters.count(Counter::SegmentsStray);
        self.draw_held(direction, context);
    }
}

/// Whether a held part and a segment that begins at `start` have different bytes at a place.
fn differs(held: &Held, start: i64, chunk: &Chunk<'_>) -> bool {
    let from = held.start.max(start);
    let one = held.range.bytes().get((from - held.start) as usize..);
    let other = chunk.bytes().get((from - start) as usize..);
    let (Some(one), Some(other)) = (one, other) else {
        return false;
    };
    let len = one.len().min(other.len());
    one[..len] != other[..len]
}
