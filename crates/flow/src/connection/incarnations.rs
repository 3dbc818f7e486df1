//! Where one connection of a four-tuple ends and the next one begins: by SYN, FIN and RST, and by
//! segments that cannot belong to the connection as it is known.

use lineside_account::Counter;
use lineside_frame::{Cause, Chunk, Descriptor, Range};
use lineside_wire::{Direction, SeqNumber, TcpFlags, TcpHeader};

use crate::connection::segments::{BEHIND_MAX, Belongs};
use crate::connection::{Connection, Stray};
use crate::context::Context;
use crate::sink::StreamSink;
use crate::stream::{Segment, State};

/// How much of the other direction the tap may have missed meanwhile, for a segment beyond that to
/// be known as one of the same incarnation.
const KNOWN_AHEAD_MAX: i64 = 64 << 20;
/// Stray segments kept per connection until it is clear which incarnation they belong to.
const STRAYS_MAX: usize = 16;
/// How many bytes of a stream may have passed before its late SYN.
const SYN_LATE_MAX: i64 = 64 << 10;

impl Connection {
    /// Keeps a segment that cannot belong to the stream as it is known.
    #[cold]
    pub(super) fn on_stray<S: StreamSink>(
        &mut self,
        direction: Direction,
        segment: Segment,
        chunk: Chunk<'_>,
        context: &mut Context<'_, S>,
    ) -> Belongs {
        let end = |of: &Segment| of.sequence + of.payload_len as u32;
        let before = self
            .strays
            .iter()
            .find(|stray| stray.direction == direction && end(&stray.segment) == segment.sequence);
        let before = before.map(|stray| stray.segment);
        if self.strays.len() == STRAYS_MAX {
            let oldest = self.strays.remove(0);
            let bytes = oldest.segment.payload_len as u64;
            context.counters.add(Counter::StreamDiscarded, bytes);
        }
        let Some(lease) = context
            .shared
            .budget
            .lease(chunk.len() + size_of::<Stray>())
        else {
            let bytes = segment.payload_len as u64;
            context.counters.count(Counter::HeldLimit);
            context.counters.add(Counter::StreamDiscarded, bytes);
            return Belongs::Here;
        };
        let range = match chunk.is_empty() {
            true => Range::hole(0, Cause::SnapLength, *chunk.descriptor()),
            false => chunk.hold(),
        };
        self.strays.push(Stray {
            direction,
            segment,
            range,
            _lease: lease,
        });
        context.shared.holders.insert(self.slot);
        // Two in sequence are no accident.
        match before {
            None => Belongs::Here,
            Some(before) if goes_on(self, direction, &before) => {
                self.leap(direction, before.sequence, chunk.descriptor(), context);
                Belongs::AfterGap
            }
            Some(_) => Belongs::ToNext,
        }
    }

    /// A direction goes on with `sequence`, after a gap too long to wait for.
    fn leap<S: StreamSink>(
        &mut self,
        direction: Direction,
        sequence: SeqNumber,
        by: &Descriptor,
        context: &mut Context<'_, S>,
    ) {
        // What is held lies before the gap, and nothing that it waits for will come.
        self.advance(true, context);
        let start = self.streams[direction].offset(sequence);
        self.give_up(direction, start, Cause::NotSeen, by, context);
    }
}

/// Whether a segment far ahead belongs to the same incarnation, of which the tap missed much: by
/// what it acknowledges of the other direction, which another incarnation does by chance once in
/// fifty times.
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
pub(crate) fn begins_anew(connection: &Connection, direction: Direction, tcp: &TcpHeader) -> bool {
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

pub(crate) fn on_syn(connection: &mut Connection, direction: Direction, tcp: &TcpHeader) {
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

/// Notes a FIN or RST, and what contradicts an earlier one.
pub(crate) fn note_end(connection: &mut Connection, direction: Direction, tcp: &TcpHeader) {
    let syn = tcp.flags.opens();
    let stream = &mut connection.streams[direction];
    let first = tcp.sequence + u32::from(syn);
    let is_seen = stream.state != State::Unseen;
    let end = stream.offset(first) + tcp.payload_len as i64;
    if tcp.flags.contains(TcpFlags::RST) {
        // An RST that is not next resets nothing (RFC 5961 3.2). The next sequence number lies
        // between what the other side has and what was seen, a FIN included.
        let least = stream
            .acked
            .map_or(stream.next, |acked| acked.min(stream.next));
        connection.is_reset |= !is_seen || (least..=stream.seen() + 1).contains(&end);
        return;
    }
    if syn || tcp.payload_len > 0 {
        connection.is_reset = false;
    }
    // Nothing that was seen comes after a FIN.
    let is_near = (stream.seen()..=stream.next + BEHIND_MAX).contains(&end);
    if tcp.flags.contains(TcpFlags::FIN) && (!is_seen || is_near) {
        connection.ended[direction] = true;
        stream.fin = is_seen.then_some(end);
    }
}
