//! Directions of which the tap missed so much that sequence numbers alone do not show it.
//!
//! After 2^32 bytes less a few, what comes next looks like bytes that came before. A receiver never
//! takes an acknowledgement back: one that stands behind what it acknowledged, and moves on from
//! there, shows that the numbers have come round.

use lineside_frame::{Cause, Descriptor};
use lineside_wire::Direction;

use crate::connection::Connection;
use crate::connection::segments::AHEAD_MAX;
use crate::context::Context;
use crate::sink::StreamSink;
use crate::stream::{Behind, Segment, State};

/// So many acknowledgements that stand behind, each after the one before, are no accident of a
/// path that reorders.
const BEHIND_MIN: u8 = 3;
/// 2^32 bytes take as long on the fastest lines: what comes sooner is late.
const ROUND_MIN_NS: i64 = 250_000_000;
/// Bytes that a direction lacks, and that are acknowledged, are given up from so many on, before
/// acknowledgements are too far ahead to be believed.
const PASSED_MAX: i64 = AHEAD_MAX / 2;

impl Connection {
    /// A segment comes. If it brings nothing new, and the numbers of its direction have come round
    /// since, the bytes between are a hole now.
    #[inline]
    pub(crate) fn pass_round<S: StreamSink>(
        &mut self,
        direction: Direction,
        segment: &Segment,
        by: &Descriptor,
        context: &mut Context<'_, S>,
    ) {
        let stream = &self.streams[direction];
        let start = stream.offset(segment.sequence);
        let is_old = start + segment.payload_len as i64 <= stream.next;
        if is_old && segment.payload_len > 0 && stream.state == State::Open {
            self.on_old(direction, start, by, context);
        }
    }

    #[cold]
    fn on_old<S: StreamSink>(
        &mut self,
        direction: Direction,
        start: i64,
        by: &Descriptor,
        context: &mut Context<'_, S>,
    ) {
        let since_ns = self.senders[direction].next_ns;
        if by.stamp_ns.is_none_or(|now| now - since_ns < ROUND_MIN_NS) {
            return;
        }
        let acknowledgement = self.senders[direction.opposite()].acknowledgement;
        let stream = &mut self.streams[direction];
        let at = stream.offset(acknowledgement);
        if stream.acked.is_none_or(|acked| at >= acked) {
            stream.behind = Behind::default();
            return;
        }
        let behind = &mut stream.behind;
        if behind.count == 0 || at > behind.at {
            *behind = Behind {
                at,
                count: behind.count + 1,
            };
        }
        if behind.count < BEHIND_MIN {
            return;
        }
        *behind = Behind::default();
        // What is held lies before the gap, and nothing that it waits for will come.
        self.advance(true, context);
        let next = self.streams[direction].next;
        let end = start + (1 << 32);
        if end > next {
            self.give_up(direction, end, Cause::NotSeen, by, context);
        }
    }

    /// Gives up what the other end acknowledged and nothing came of, if that is much.
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
}
