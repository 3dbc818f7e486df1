//! Directions of which the tap missed nearly 2^32 bytes and nothing else was seen meanwhile.
//!
//! What comes next looks like bytes that came before, and is acknowledged: behind what its receiver
//! had acknowledged already. No receiver takes an acknowledgement back, but a path that reorders
//! delivers old ones late. Timestamps tell both apart: an old acknowledgement has an old one.

use lineside_account::Counter;
use lineside_frame::{Cause, Descriptor};
use lineside_wire::Direction;

use crate::connection::Connection;
use crate::context::Context;
use crate::sink::StreamSink;
use crate::stream::{Behind, Segment, State};

/// Acknowledgements, each stamped later than the one before, that show it: the first one may be of
/// the same tick as the one that it stands behind, and one may be wrong.
const STAMPED_MIN: u8 = 3;
/// So many without timestamps show that something is wrong, and no hole. A guess: seed 975 of `sim`
/// has three.
const PLAIN_MIN: u8 = 8;
/// 2^32 bytes take as long on the fastest lines: what comes sooner is late.
const ROUND_MIN_NS: i64 = 250_000_000;

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
        if is_old && segment.payload_len > 1 && stream.state == State::Open {
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
        let since_ns = self.senders[direction].next_ns();
        if by.stamp_ns.is_none_or(|now| now - since_ns < ROUND_MIN_NS) {
            return;
        }
        let other = &self.senders[direction.opposite()];
        let (at, clock) = (other.acknowledgement, other.clock);
        let stream = &mut self.streams[direction];
        if { stream.acked }.is_none_or(|acked| stream.offset(at) >= acked) {
            stream.behind = Behind::default();
            return;
        }
        let behind = &mut stream.behind;
        let is_later = at.is_after(behind.at) && clock.is_later(behind.clock);
        if behind.count > 0 && (!is_later || other.is_stale()) {
            return;
        }
        let count = behind.count.saturating_add(1);
        *behind = Behind { at, clock, count };
        if clock.is_none() {
            if count == PLAIN_MIN {
                context.counters.count(Counter::AcknowledgementsBack);
            }
            return;
        }
        if count < STAMPED_MIN {
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
}
