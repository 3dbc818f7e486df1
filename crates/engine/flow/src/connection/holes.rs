//! Holes: what takes the place of bytes that will not come, and why.

use lineside_account::Counter;
use lineside_frame::{Cause, Chunk, Descriptor};
use lineside_wire::{Direction, SeqNumber};

use crate::connection::Connection;
use crate::context::Context;
use crate::sink::StreamSink;
use crate::stream::{AHEAD_MAX, State, Stream};

/// Bytes that a direction lacks, and that are acknowledged, are given up from so many on, before
/// acknowledgements are too far ahead to be believed.
const PASSED_MAX: i64 = AHEAD_MAX / 2;

impl Stream {
    /// Why bytes are missing that would be so for `cause` if none of them had come.
    fn cause(&self, cause: Cause, start: i64, end: i64) -> Cause {
        match cause {
            Cause::NotSeen | Cause::Lost if self.is_damaged(start, end) => Cause::Damaged,
            _ => cause,
        }
    }
}

impl Connection {
    /// Notes where the bytes of a damaged segment belong.
    #[cold]
    pub(crate) fn note_damaged(&mut self, direction: Direction, sequence: SeqNumber, len: usize) {
        let stream = &mut self.streams[direction];
        if stream.state == State::Open {
            let start = stream.offset(sequence);
            stream.damage(start, start + len as i64);
        }
    }

    /// Delivers a hole for the missing bytes of a stream before `offset`, which the other side
    /// acknowledged. False if there are none, or if it is not certain.
    pub(super) fn give_up_acknowledged<S: StreamSink>(
        &mut self,
        direction: Direction,
        offset: i64,
        by: &Descriptor,
        context: &mut Context<'_, S>,
    ) -> bool {
        let stream = &mut self.streams[direction];
        if stream.state == State::Starting
            && let Some(first) = stream.held.front()
        {
            // Nothing earlier of a stream that was joined will come now: it begins.
            let first = first.start;
            stream.open_joined(first);
            return true;
        }
        let start = stream.next;
        let end = match stream.held.front() {
            Some(held) if held.start <= offset => held.start,
            // Nothing after it was seen, so that a single acknowledgement might be a wrong one.
            _ => offset.min(stream.acked.unwrap_or(start)),
        };
        // A single byte with nothing after it may be a FIN that was not seen.
        let may_be_fin = end - start == 1 && stream.held.is_empty();
        if stream.state != State::Open || end <= start || may_be_fin {
            return false;
        }
        self.give_up(direction, end, Cause::NotSeen, by, context);
        true
    }

    /// Gives up what the other end acknowledged and nothing came of, if that is much: the tap
    /// missed so much of the direction that acknowledgements alone show it.
    pub(super) fn give_up_passed<S: StreamSink>(
        &mut self,
        direction: Direction,
        by: &Descriptor,
        context: &mut Context<'_, S>,
    ) {
        let stream = &self.streams[direction];
        let acked = stream.acked.unwrap_or(stream.next);
        let is_much = acked - stream.next > PASSED_MAX;
        if stream.state == State::Open && stream.held.is_empty() && is_much {
            self.give_up(direction, acked, Cause::NotSeen, by, context);
        }
    }

    /// Delivers a hole for what never came of a stream before `end`, or came in segments that lie
    /// aside.
    pub(super) fn give_up<S: StreamSink>(
        &mut self,
        direction: Direction,
        end: i64,
        cause: Cause,
        by: &Descriptor,
        context: &mut Context<'_, S>,
    ) {
        if self.has_aside() {
            self.deliver_aside(direction, end, (cause, by), context);
        }
        if self.streams[direction].next < end {
            self.give_up_all(direction, end, cause, by, context);
        }
    }

    /// Delivers a hole for all of a stream before `end`.
    pub(super) fn give_up_all<S: StreamSink>(
        &mut self,
        direction: Direction,
        end: i64,
        cause: Cause,
        by: &Descriptor,
        context: &mut Context<'_, S>,
    ) {
        let stream = &mut self.streams[direction];
        let start = stream.next;
        let cause = stream.cause(cause, start, end);
        stream.lose(start, end);
        stream.next = end;
        // A hole is nothing that came in order.
        let later = stream.held.iter_mut();
        later.for_each(|held| held.stood += end - start);
        let len = (end - start) as usize;
        context.counters.add(Counter::StreamBytes, len as u64);
        self.deliver_hole(direction, start, Chunk::hole(len, cause, by), context);
    }

    pub(super) fn deliver_hole<S: StreamSink>(
        &mut self,
        direction: Direction,
        offset: i64,
        hole: Chunk<'_>,
        context: &mut Context<'_, S>,
    ) {
        self.report_loss(direction, offset, hole, context);
        let after_syn = self.streams[direction].syn_end == Some(offset);
        context
            .sink
            .on_stream(self.slot, direction, after_syn, hole, context.counters);
    }

    fn report_loss<S: StreamSink>(
        &mut self,
        direction: Direction,
        offset: i64,
        hole: Chunk<'_>,
        context: &mut Context<'_, S>,
    ) {
        self.counts[direction].lost_bytes += hole.len() as u64;
        context.counters.add(Counter::StreamLost, hole.len() as u64);
        context.counters.count(match hole.missing() {
            Some(Cause::SnapLength) => Counter::HolesSnapLength,
            Some(Cause::GivenUp) => Counter::HolesGivenUp,
            Some(Cause::Lost) => Counter::HolesLost,
            Some(Cause::Damaged) => Counter::HolesDamaged,
            _ => Counter::HolesNotSeen,
        });
        context
            .sink
            .on_loss(self.slot, self, direction, offset, hole);
    }

    /// Of a connection of which nothing more comes: reports as lost what the other side
    /// acknowledged after the last byte that was seen, and what lies before a FIN.
    pub(super) fn lose_tail<S: StreamSink>(
        &mut self,
        direction: Direction,
        context: &mut Context<'_, S>,
    ) {
        let stream = &self.streams[direction];
        let (offset, len) = match (stream.state, stream.unseen) {
            (State::Unseen, Some((first, last))) => (0, i64::from(last.bytes_from(first))),
            // A FIN that came late may have been acknowledged before.
            (State::Open, _) => {
                let end = stream.fin.or(stream.acked).unwrap_or(stream.next);
                let end = end.max(stream.before_fin(self.copied_to(direction).unwrap_or(end)));
                (stream.next, end - stream.next)
            }
            _ => return,
        };
        // Live, two taps do not end at one moment.
        let config = &context.shared.config;
        let settled_ns = self.last_ns.saturating_sub(config.late_window_ns);
        let latest = stream.acks.back();
        let is_young = latest.is_some_and(|(_, moment)| moment.ns > settled_ns);
        let is_live = config.quiet_window_ns.is_some();
        if is_live && is_young {
            return;
        }
        // A single byte may be a FIN.
        let byte = i64::from(stream.fin.is_none());
        if stream
            .claimed_at_last()
            .is_some_and(|claimed| claimed > byte)
        {
            context.counters.count(Counter::AcknowledgedAtLast);
        }
        if len <= byte {
            return;
        }
        let by = Descriptor {
            stamp_ns: Some(self.last_ns),
            ..self.first
        };
        context.counters.add(Counter::StreamBytes, len as u64);
        let cause = self.streams[direction].cause(Cause::NotSeen, offset, offset + len);
        let hole = Chunk::hole(len as usize, cause, &by);
        self.report_loss(direction, offset, hole, context);
    }
}
