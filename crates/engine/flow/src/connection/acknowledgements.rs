use lineside_wire::{Direction, SeqNumber};

use crate::connection::Connection;
use crate::connection::segments::{AHEAD_MAX, BEHIND_MAX};
use crate::stream::{Moment, State};

impl Connection {
    /// A segment of the other direction, stamped `stamp_ns`, acknowledges bytes of this one.
    #[inline]
    pub(super) fn on_acknowledgement(
        &mut self,
        direction: Direction,
        acknowledgement: SeqNumber,
        moment: Moment,
        stamp_ns: Option<i64>,
    ) {
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
            return;
        }
        let offset = stream.offset(acknowledgement);
        if offset <= stream.next + AHEAD_MAX {
            self.acknowledge(direction, offset, moment, stamp_ns);
        }
    }

    /// Everything before `offset` of a stream was acknowledged by a segment with this stamp.
    #[inline]
    fn acknowledge(
        &mut self,
        direction: Direction,
        offset: i64,
        moment: Moment,
        stamp_ns: Option<i64>,
    ) {
        self.streams[direction].acknowledge(offset, moment, stamp_ns);
        self.end_round_trip(direction, offset, stamp_ns);
    }

    /// If the segment whose round trip is measured was acknowledged, its round trip is over.
    #[inline(always)]
    pub(crate) fn end_round_trip(
        &mut self,
        direction: Direction,
        offset: i64,
        stamp_ns: Option<i64>,
    ) {
        let stream = &mut self.streams[direction];
        if let Some(sent_ns) = stream.round_trip.on_acknowledged(|end| offset >= end)
            && let Some(took_ns) = stamp_ns.and_then(|now| now.checked_sub(sent_ns))
            && let Ok(took_ns) = u64::try_from(took_ns)
        {
            self.counts[direction].add_round_trip(took_ns);
        }
    }
}
