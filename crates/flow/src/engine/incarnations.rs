//! Where one connection of a four-tuple ends and the next one begins: by SYN, FIN and RST, and by segments that cannot belong
//! to the connection as it is known.

use lineside_account::{Counter, Counters};
use lineside_frame::{Cause, Chunk, Descriptor, Range};
use lineside_wire::{Direction, SeqNumber, TcpFlags, TcpHeader};

use super::{BEHIND_MAX, Engine, StreamSink};
use crate::connection::{Connection, Key, Origin, Stray};
use crate::stream::{Segment, State};

/// How much of the other direction the tap may have missed meanwhile, for a segment beyond that to be known as one of the same
/// incarnation.
const KNOWN_AHEAD_MAX: i64 = 64 << 20;
/// Stray segments kept per connection until it is clear whose they are.
const STRAYS_MAX: usize = 16;

impl Engine {
    /// A segment that cannot belong to the stream as it is known.
    #[cold]
    pub(super) fn on_stray<S: StreamSink>(
        &mut self,
        slot: usize,
        direction: Direction,
        segment: Segment,
        chunk: Chunk<'_>,
        sink: &mut S,
        counters: &mut Counters,
    ) -> Option<usize> {
        let connection = self.slots[slot].as_mut().expect("a slot in use");
        let end = |of: &Segment| of.sequence + of.payload_len as u32;
        let mut strays = { &connection.strays }
            .iter()
            .map(|stray| (stray.direction, stray.segment));
        let before =
            strays.find(|(from, stray)| *from == direction && end(stray) == segment.sequence);
        if connection.strays.len() == STRAYS_MAX {
            let oldest = connection.strays.remove(0);
            counters.add(Counter::StreamDiscarded, oldest.segment.payload_len as u64);
        }
        let Some(lease) = self.budget.lease(chunk.len() + size_of::<Stray>()) else {
            counters.count(Counter::HeldLimit);
            counters.add(Counter::StreamDiscarded, segment.payload_len as u64);
            return Some(slot);
        };
        let range = if chunk.is_empty() {
            Range::hole(0, Cause::SnapLength, *chunk.descriptor())
        } else {
            chunk.hold()
        };
        connection.strays.push(Stray {
            direction,
            segment,
            range,
            _lease: lease,
        });
        let (key, layers) = (connection.key, connection.layers);
        self.note_holder(slot);
        // Two in sequence are no accident.
        let Some((_, before)) = before else {
            return Some(slot);
        };
        let connection = self.slots[slot].as_ref().expect("a slot in use");
        if goes_on(connection, direction, &before) {
            self.leap(
                slot,
                direction,
                before.sequence,
                chunk.descriptor(),
                sink,
                counters,
            );
            return self.replay_strays(slot, sink, counters);
        }
        // The four-tuple was used again, and the tap missed the SYN.
        counters.count(Counter::ConnectionsReusedUnseen);
        let origin = Origin::Known(chunk.descriptor(), &layers);
        let slot = self.renew(slot, key, &origin, sink, counters)?;
        self.replay_strays(slot, sink, counters)
    }

    /// A direction goes on with `sequence`, behind a gap that is longer than any that is waited at.
    fn leap<S: StreamSink>(
        &mut self,
        slot: usize,
        direction: Direction,
        sequence: SeqNumber,
        by: &Descriptor,
        sink: &mut S,
        counters: &mut Counters,
    ) {
        // What is held lies before the gap, and nothing that it waits for will come.
        self.advance(slot, true, sink, counters);
        let connection = self.slots[slot].as_mut().expect("a slot in use");
        let stream = &mut connection.streams[direction];
        let start = stream.offset(sequence);
        self.give_up(slot, direction, start, Cause::NotSeen, by, sink, counters);
    }

    /// Returns the slot, which is another one if the strays themselves show yet another incarnation.
    pub(super) fn replay_strays<S: StreamSink>(
        &mut self,
        mut slot: usize,
        sink: &mut S,
        counters: &mut Counters,
    ) -> Option<usize> {
        let connection = self.slots[slot].as_mut().expect("a slot in use");
        let mut strays = std::mem::take(&mut connection.strays).into_iter();
        while let Some(stray) = strays.next() {
            let chunk = stray.range.chunk();
            match self.on_segment(slot, stray.direction, stray.segment, chunk, sink, counters) {
                Some(same_or_next) => slot = same_or_next,
                None => {
                    let bytes: usize = strays.map(|stray| stray.segment.payload_len).sum();
                    counters.add(Counter::StreamDiscarded, bytes as u64);
                    return None;
                }
            }
        }
        Some(slot)
    }

    /// Ends an incarnation and begins the next one with the segments that strayed.
    pub(super) fn renew<S: StreamSink>(
        &mut self,
        slot: usize,
        key: Key,
        origin: &Origin<'_>,
        sink: &mut S,
        counters: &mut Counters,
    ) -> Option<usize> {
        counters.count(Counter::ConnectionsReused);
        let strays = std::mem::take(&mut self.slots[slot].as_mut().expect("a slot in use").strays);
        // The new incarnation begins with its earliest frame, which may be a stray one.
        let first = strays
            .iter()
            .map(|stray| stray.range.descriptor)
            .min_by_key(|first| first.ordinal);
        self.close(slot, sink, counters);
        let first = first.unwrap_or_else(|| *origin.descriptor());
        let origin = Origin::Known(&first, &origin.layers());
        let Some(slot) = self.slot(key, None, &origin, sink, counters) else {
            let bytes: usize = strays.iter().map(|stray| stray.segment.payload_len).sum();
            counters.add(Counter::StreamDiscarded, bytes as u64);
            return None;
        };
        let connection = self.slots[slot].as_mut().expect("just made");
        connection.strays = strays;
        self.note_holder(slot);
        Some(slot)
    }
}

/// Whether a segment far ahead is one of the same incarnation, of which the tap missed much: by what it acknowledges of the other
/// direction, which another incarnation does by chance once in fifty times.
fn goes_on(connection: &Connection, direction: Direction, segment: &Segment) -> bool {
    let [stream, other] = [direction, direction.opposite()].map(|at| &connection.streams[at]);
    let acknowledges = |acknowledgement| {
        let ahead = other.offset(acknowledgement) - other.next;
        other.state == State::Open && (-BEHIND_MAX..=KNOWN_AHEAD_MAX).contains(&ahead)
    };
    connection.is_alive()
        && stream.state == State::Open
        && stream.offset(segment.sequence) > stream.next
        && segment.acknowledgement.is_some_and(acknowledges)
}

/// Whether a SYN begins another incarnation of the four-tuple.
pub(super) fn begins_anew(connection: &Connection, direction: Direction, tcp: &TcpHeader) -> bool {
    let stream = &connection.streams[direction];
    match (stream.isn, stream.state) {
        (Some(isn), _) => isn != tcp.sequence,
        (None, State::Unseen) => {
            // The answer to a SYN of this incarnation, unless it acknowledges something else.
            let other = connection.streams[direction.opposite()].isn;
            let acknowledges = tcp
                .flags
                .contains(TcpFlags::ACK)
                .then_some(tcp.acknowledgement);
            matches!((other, acknowledges), (Some(isn), Some(ack)) if ack != isn + 1)
        }
        // The SYN is late: it belongs here if the stream goes on from it.
        (None, State::Starting | State::Open) => {
            let begin = stream.offset(tcp.sequence + 1);
            let held = stream.held.front().map_or(stream.next, |held| held.start);
            let next = held.min(stream.next);
            // No byte comes before the first one of the connection.
            let first = if stream.state == State::Open {
                stream.first
            } else {
                next
            };
            !(next - SYN_LATE_MAX..=first).contains(&begin)
        }
    }
}

/// How many bytes of a stream may have passed before its late SYN.
const SYN_LATE_MAX: i64 = 64 << 10;

pub(super) fn on_syn(connection: &mut Connection, direction: Direction, tcp: &TcpHeader) {
    let stream = &mut connection.streams[direction];
    if stream.isn.is_none() {
        let first = tcp.sequence + 1;
        match stream.state {
            State::Unseen => stream.begin(first, State::Open),
            State::Starting => stream.open(stream.offset(first)),
            State::Open => {}
        }
        stream.isn = Some(tcp.sequence);
        stream.syn_end = Some(stream.offset(first));
    }
    if connection.initiator.is_none() {
        let answers = tcp.flags.contains(TcpFlags::ACK);
        connection.initiator = Some(if answers {
            direction.opposite()
        } else {
            direction
        });
    }
}

/// Takes note of a FIN or RST, and of what denies one.
pub(super) fn note_end(connection: &mut Connection, direction: Direction, tcp: &TcpHeader) {
    let syn = tcp.flags.opens();
    let stream = &mut connection.streams[direction];
    let first = tcp.sequence + u32::from(syn);
    let is_seen = stream.state != State::Unseen;
    let end = stream.offset(first) + tcp.payload_len as i64;
    if tcp.flags.contains(TcpFlags::RST) {
        // One that is not next resets nothing (RFC 5961 3.2). What is next lies between what the other side has and, a FIN
        // included, what was seen.
        let least = stream
            .acked
            .map_or(stream.next, |acked| acked.min(stream.next));
        connection.is_reset |= !is_seen || (least..=stream.seen() + 1).contains(&end);
        return;
    }
    if syn || tcp.payload_len > 0 {
        connection.is_reset = false;
    }
    // Nothing that was seen comes behind a FIN.
    let is_near = (stream.seen()..=stream.next + BEHIND_MAX).contains(&end);
    if tcp.flags.contains(TcpFlags::FIN) && (!is_seen || is_near) {
        connection.ended[direction] = true;
        stream.fin = is_seen.then_some(end);
    }
}
