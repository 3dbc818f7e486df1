use lineside_wire::{Direction, SeqNumber};

use crate::connection::Connection;
use crate::context::Context;
use crate::sink::StreamSink;
use crate::stream::{AHEAD_MAX, BEHIND_MAX, Moment, State};

/// An acknowledgement that takes so long is late: delayed by its sender, by 40 ms and more (RFC
/// 1122 4.2.3.2 allows 500), or on a long way.
const LATE_NS: u64 = 20_000_000;

impl Connection {
    /// A segment of the other direction, stamped `stamp_ns`, acknowledges bytes of this one.
    /// Whether it is late.
    #[inline]
    pub(super) fn on_acknowledgement(
        &mut self,
        direction: Direction,
        acknowledgement: SeqNumber,
        moment: Moment,
        stamp_ns: Option<i64>,
    ) -> bool {
        let stream = &mut self.streams[direction];
        if stream.state == State::Unseen {
            let (first, last) = stream
                .unseen
                .get_or_insert((acknowledgement, acknowledgement));
            let behind = i64::from(first.bytes_from(acknowledgement));
            if behind <= BEHIND_MAX {
                *first = acknowledgement;
            }
            if i64::from(acknowledgement.bytes_from(*last)) <= AHEAD_MAX {
                *last = acknowledgement;
                stream.early_stamp_ns = stamp_ns;
            }
            return false;
        }
        let offset = stream.offset(acknowledgement);
        offset <= stream.next + AHEAD_MAX && self.acknowledge(direction, offset, moment, stamp_ns)
    }

    /// A late acknowledgement without bytes came at `at_ns`, of everything before `offset`: if this
    /// end had sent all that it might, it may go on only now (RFC 896, RFC 9293 3.8.6).
    #[cold]
    #[inline(never)]
    pub(crate) fn on_late_acknowledgement<S: StreamSink>(
        &mut self,
        direction: Direction,
        offset: i64,
        at_ns: i64,
        context: &mut Context<'_, S>,
    ) {
        let Some(since_ns) = self.filled_ns(direction, offset >= self.streams[direction].next)
        else {
            return;
        };
        let within_ns = self.round_trip_to(direction);
        context
            .sink
            .on_late_acknowledgement(self.slot, direction, since_ns, at_ns, within_ns);
    }

    /// Everything before `offset` of a stream was acknowledged by a segment with this stamp.
    #[inline]
    fn acknowledge(
        &mut self,
        direction: Direction,
        offset: i64,
        moment: Moment,
        stamp_ns: Option<i64>,
    ) -> bool {
        self.streams[direction].acknowledge(offset, moment, stamp_ns);
        self.end_round_trip(direction, offset, stamp_ns)
    }

    /// If the segment whose round trip is measured was acknowledged, its round trip is over.
    /// Whether that took long.
    #[inline(always)]
    pub(crate) fn end_round_trip(
        &mut self,
        direction: Direction,
        offset: i64,
        stamp_ns: Option<i64>,
    ) -> bool {
        let stream = &mut self.streams[direction];
        if let Some(sent_ns) = stream.round_trip.on_acknowledged(|end| offset >= end)
            && let Some(took_ns) = stamp_ns.and_then(|now| now.checked_sub(sent_ns))
            && let Ok(took_ns) = u64::try_from(took_ns)
        {
            self.counts[direction].add_round_trip(took_ns);
            return took_ns >= LATE_NS;
        }
        false
    }
}
