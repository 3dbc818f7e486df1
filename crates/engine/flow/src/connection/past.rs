//! Segments whose timestamp is older than what their end has shown: their receiver drops them and
//! repeats its acknowledgement (PAWS, RFC 7323 5.3).
//!
//! They are set aside, and their bytes that come otherwise count. Where bytes were acknowledged
//! and came in no other segment, the receiver saw the segments in another order than the tap, and
//! took what is aside; unless it repeated its acknowledgement, which shows that it did not.

use lineside_account::Counter;
use lineside_frame::{Cause, Chunk, Descriptor};
use lineside_wire::tcp::{TcpOption, TcpOptions};
use lineside_wire::{Direction, SeqNumber, TcpFlags, TcpHeader};

use crate::clock::Clock;
use crate::connection::{Connection, Stray};
use crate::context::Context;
use crate::sink::StreamSink;
use crate::stream::{Segment, State};

/// After such a silence a timestamp says nothing: half the range of a clock of microseconds, as
/// Linux has it (TCP_PAWS_WRAP). RFC 7323 5.5 has 24 days, for one of milliseconds.
const SILENT_NS: i64 = 2_147_000_000_000;
/// Segments set aside per connection. A guess: a burst of a path's old copies, or two windows of a
/// sender whose clock is not to be believed.
const ASIDE_MAX: usize = 32;

impl Connection {
    /// Sets a segment aside whose timestamp is too old, with what was captured of it. False: it
    /// is to be taken as others are.
    pub(crate) fn is_past<S: StreamSink>(
        &mut self,
        direction: Direction,
        (tcp, options): (&TcpHeader, &[u8]),
        (segment, payload): (Segment, &[Chunk<'_>]),
        context: &mut Context<'_, S>,
    ) -> bool {
        self.drop_aside(direction, tcp);
        let timestamp = TcpOptions::new(options).flatten().find_map(|option| {
            let TcpOption::Timestamps { value, .. } = option else {
                return None;
            };
            Some(value)
        });
        let (stream, sender) = (&self.streams[direction], &mut self.senders[direction]);
        let is_other = tcp.flags.opens() || tcp.flags.contains(TcpFlags::RST);
        let Some(value) = timestamp.filter(|_| stream.state == State::Open && !is_other) else {
            return false;
        };
        let start = stream.offset(segment.sequence);
        let end = start + segment.payload_len as i64;
        let is_silent = context.shared.now.saturating_sub(sender.last_ns) > SILENT_NS;
        if is_silent || !sender.clock.is_after(value) {
            // As RFC 7323 4.3 has it: not of segments after a gap, nor of old ones.
            if start <= stream.next && stream.next <= end {
                sender.clock = Clock::at(value);
            } else {
                sender.stale = Some(tcp.acknowledgement);
            }
            return false;
        }
        sender.stale = Some(tcp.acknowledgement);
        let ends = tcp.flags.contains(TcpFlags::FIN);
        (end > stream.next || ends) && self.set_aside(direction, segment, payload, context)
    }

    #[cold]
    fn set_aside<S: StreamSink>(
        &mut self,
        direction: Direction,
        mut segment: Segment,
        payload: &[Chunk<'_>],
        context: &mut Context<'_, S>,
    ) -> bool {
        if self.aside.len() == ASIDE_MAX {
            // Nothing shows that the receiver dropped any.
            self.take_all_aside(context);
            return false;
        }
        let bytes = segment.payload_len as u64;
        context.counters.count(Counter::SegmentsPast);
        context.counters.add(Counter::StreamDiscarded, bytes);
        let captured = payload.first().filter(|first| first.missing().is_none());
        let Some(captured) = captured else {
            return true;
        };
        let chunk = captured.part(0, captured.len().min(segment.payload_len));
        segment.captured_len = chunk.len();
        let claim = context.claim_of(self.slot);
        let cost = chunk.len() + size_of::<Stray>();
        if let Some(lease) = context.shared.budget.lease_as(claim, cost) {
            self.aside.push(Stray {
                direction,
                segment,
                range: chunk.hold(),
                _lease: lease,
            });
            context.shared.holders.insert(self.slot);
        }
        true
    }

    /// Forgets what came otherwise since, and what the other end does not have: it repeats an
    /// acknowledgement while the tap knows of no other reason.
    fn drop_aside(&mut self, direction: Direction, tcp: &TcpHeader) {
        if self.aside.is_empty() {
            return;
        }
        let back = direction.opposite();
        let (streams, sender) = (&self.streams, &self.senders[direction]);
        let repeats = tcp.flags == TcpFlags::ACK
            && tcp.payload_len == 0
            && sender.repeats(tcp.acknowledgement, tcp.window)
            && streams[back].held.is_empty();
        self.aside.retain(|stray| {
            let stream = &streams[stray.direction];
            let is_refused = repeats
                && stray.direction == back
                && stream.offset(stray.segment.sequence) >= stream.offset(tcp.acknowledgement);
            stream.offset(stray.segment.end()) > stream.next && !is_refused
        });
    }

    /// The timestamps of an end go back for good: they say nothing.
    fn take_all_aside<S: StreamSink>(&mut self, context: &mut Context<'_, S>) {
        self.senders
            .iter_mut()
            .for_each(|sender| sender.clock = Clock::default());
        for stray in std::mem::take(&mut self.aside) {
            let bytes = stray.segment.payload_len as u64;
            context.counters.subtract(Counter::StreamDiscarded, bytes);
            let segment = Segment {
                acknowledgement: None,
                ..stray.segment
            };
            self.on_segment(stray.direction, segment, stray.range.chunk(), context);
        }
    }

    /// Delivers what lies aside of a stream before `end`, as far as it was acknowledged, and holes
    /// before that.
    #[cold]
    pub(super) fn deliver_aside<S: StreamSink>(
        &mut self,
        direction: Direction,
        end: i64,
        (cause, by): (Cause, &Descriptor),
        context: &mut Context<'_, S>,
    ) {
        while let Some(stray) = self.take_aside(direction, end) {
            let stream = &self.streams[direction];
            let start = stream.offset(stray.segment.sequence);
            if start > stream.next {
                self.give_up_all(direction, start, cause, by, context);
            }
            // Bytes after `end` are held already.
            let len = (end - start) as usize;
            let len = len.min(stray.segment.payload_len);
            context
                .counters
                .subtract(Counter::StreamDiscarded, len as u64);
            self.senders[direction].clock = Clock::default();
            let chunk = stray.range.chunk();
            let captured_len = chunk.len().min(len);
            let chunk = chunk.part(0, captured_len);
            self.deliver_at(direction, start, (len, captured_len), chunk, context);
        }
    }

    /// Takes the first one aside of a stream that begins before `end`, if it was acknowledged.
    fn take_aside(&mut self, direction: Direction, end: i64) -> Option<Stray> {
        let stream = &self.streams[direction];
        let acked = stream.acked?;
        let offset = |number: SeqNumber| stream.offset(number);
        let places = self.aside.iter().enumerate().filter(|(_, stray)| {
            let (start, after) = (offset(stray.segment.sequence), offset(stray.segment.end()));
            stray.direction == direction && after > stream.next && start < end && after <= acked
        });
        let first = places.min_by_key(|(_, stray)| offset(stray.segment.sequence));
        let place = first.map(|(place, _)| place)?;
        Some(self.aside.remove(place))
    }

    /// Whether segments lie aside.
    pub(super) fn has_aside(&self) -> bool {
        !self.aside.is_empty()
    }

    /// Of a connection that ends: delivers what lies aside and was acknowledged.
    pub(super) fn end_aside<S: StreamSink>(&mut self, context: &mut Context<'_, S>) {
        if self.aside.is_empty() {
            return;
        }
        for direction in Direction::BOTH {
            let stream = &self.streams[direction];
            if let Some(acked) = stream.acked.filter(|&acked| acked > stream.next) {
                let by = Descriptor {
                    stamp_ns: Some(self.last_ns),
                    ..self.first
                };
                self.deliver_aside(direction, acked, (Cause::NotSeen, &by), context);
            }
        }
    }
}
