//! Where one connection of a four-tuple ends and the next one begins: by SYN, FIN and RST, and by
//! segments that cannot belong to the connection as it is known.

use lineside_account::Counter;
use lineside_frame::{Cause, Chunk, Descriptor, Range};
use lineside_wire::{Direction, SeqNumber, TcpFlags, TcpHeader};

use crate::connection::rewritten::may_be_other_side;
use crate::connection::segments::Belongs;
use crate::connection::{Connection, Stray};
use crate::context::Context;
use crate::sink::StreamSink;
use crate::stream::{BEHIND_MAX, Segment, State, Stream};

/// How much of the other direction the tap may have missed meanwhile, for a segment beyond that to
/// be known as one of the same incarnation.
const KNOWN_AHEAD_MAX: i64 = 64 << 20;
/// Stray segments kept per connection until it is clear which incarnation they belong to.
const STRAYS_MAX: usize = 16;
/// How many bytes of a stream may have passed before its late SYN.
const SYN_LATE_MAX: i64 = 64 << 10;
/// After such a silence a SYN with the number of the one before begins another connection:
/// Linux's TIME-WAIT.
const AGAIN_NS: i64 = 60_000_000_000;
/// So long does a sender wait at least before it repeats a SYN, which a mirror does not: half of
/// RFC 6298's second.
const ASKED_AGAIN_NS: i64 = 500_000_000;

impl Connection {
    /// Whether a segment is the first one after a stray SYN. After one that repeats the stream's
    /// number come repeated data of the stream.
    #[cold]
    pub(super) fn follows_stray_syn(&self, direction: Direction, segment: &Segment) -> bool {
        let is_before = |stray: &Stray| {
            stray.direction == direction
                && stray.segment.is_syn
                && stray.segment.end() == segment.sequence
                && !self.streams[direction].is_own_syn(&stray.segment)
        };
        self.strays.iter().any(is_before)
    }

    /// Keeps a segment that cannot belong to the stream as it is known.
    #[cold]
    pub(crate) fn on_stray<S: StreamSink>(
        &mut self,
        direction: Direction,
        segment: Segment,
        chunk: Chunk<'_>,
        context: &mut Context<'_, S>,
    ) -> Belongs {
        let stream = &self.streams[direction];
        let before = self.strays.iter().find(|stray| {
            stray.direction == direction
                && stray.segment.end() == segment.sequence
                && !stream.is_own_syn(&stray.segment)
        });
        let before = before.map(|stray| stray.segment);
        if self.strays.len() == STRAYS_MAX {
            let oldest = self.strays.remove(0);
            let bytes = oldest.segment.payload_len as u64;
            context.counters.add(Counter::StreamDiscarded, bytes);
        }
        let claim = context.claim_of(self.slot);
        let cost = chunk.len() + size_of::<Stray>();
        let Some(lease) = context.shared.budget.lease_as(claim, cost) else {
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
            Some(_) if segment.is_syn => Belongs::Here,
            Some(before) if !before.is_syn && goes_on(self, direction, &before) => {
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

/// What a SYN means for the connection that its four-tuple has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syn {
    /// It belongs to the connection.
    Own,
    /// It begins another incarnation.
    BeginsNext,
    /// It does if it is answered, or if data follow it that the connection cannot have. One that
    /// lives answers a stray SYN with a challenge (RFC 5961 4.2) and goes on; after the end it may
    /// be the network's late copy of the first one; a moment after the first one it may have passed
    /// a firewall.
    MayBeginNext,
}

/// What a SYN means that comes after a silence of `silent_ns`.
pub(crate) fn role_of_syn(
    connection: &Connection,
    direction: Direction,
    syn: &Segment,
    silent_ns: i64,
) -> Syn {
    let stream = &connection.streams[direction];
    let other = &connection.streams[direction.opposite()];
    let answers_stray =
        |acknowledgement| answers_stray_syn(&connection.strays, direction, acknowledgement);
    let may_be_other_side = || may_be_other_side(connection, direction, syn, silent_ns);
    if syn.acknowledgement.is_some_and(answers_stray) {
        return match may_be_other_side() {
            true => Syn::MayBeginNext,
            false => Syn::BeginsNext,
        };
    }
    let is_own = match (stream.isn, stream.state) {
        // Its sender repeats a SYN for a minute or two, but not once data have moved.
        _ if stream.is_own_syn(syn) => {
            let is_over = connection.is_reset || connection.ended == [true; 2];
            return match is_over {
                _ if stream.has_moved() && silent_ns >= AGAIN_NS => Syn::BeginsNext,
                true => Syn::MayBeginNext,
                false => Syn::Own,
            };
        }
        (Some(_), _) => false,
        // The answer to a SYN of this incarnation, with its data or without (RFC 7413 2), unless it
        // acknowledges something else.
        (None, State::Unseen) => {
            let answers = |acknowledgement| {
                let offset = other.offset(acknowledgement);
                let is_own = |first: i64| (first..=other.seen()).contains(&offset);
                other.syn_end.is_none_or(is_own)
            };
            // Whoever answered it did so with a SYN that was seen.
            let is_answered = |(first, _): (SeqNumber, _)| {
                let ahead = first.distance_from(syn.sequence);
                other.isn.is_none() || (0..=SYN_LATE_MAX).contains(&i64::from(ahead))
            };
            syn.acknowledgement.is_none_or(answers) && stream.unseen.is_none_or(is_answered)
        }
        (None, State::Starting | State::Open) => stream.goes_on_from(syn.sequence),
    };
    let lives = connection.is_alive() && connection.has_moved();
    match (is_own, lives) {
        (true, _) => Syn::Own,
        // One that lives would have answered the first time.
        (false, true) if silent_ns >= ASKED_AGAIN_NS && connection.asks_again(direction, syn) => {
            Syn::BeginsNext
        }
        (false, true) => Syn::MayBeginNext,
        (false, false) if syn.acknowledgement.is_none() && may_be_other_side() => Syn::MayBeginNext,
        (false, false) => Syn::BeginsNext,
    }
}

/// Whether a SYN with an acknowledgement answers a stray SYN of the other direction.
fn answers_stray_syn(strays: &[Stray], direction: Direction, acknowledgement: SeqNumber) -> bool {
    strays.iter().any(|stray| {
        let Segment {
            sequence,
            payload_len,
            is_syn,
            ..
        } = stray.segment;
        let acknowledged = acknowledgement.distance_from(sequence);
        is_syn
            && stray.direction != direction
            && (0..=payload_len as i64).contains(&i64::from(acknowledged))
    })
}

impl Stream {
    /// Whether a SYN repeats the number with which the stream began: another incarnation begins
    /// with a higher one (RFC 9293 3.4.1), unless a capture is replayed.
    fn is_own_syn(&self, segment: &Segment) -> bool {
        segment.is_syn && self.isn.is_some_and(|isn| isn + 1 == segment.sequence)
    }

    /// Whether a stream that was joined goes on from `first`, the number after a late SYN.
    fn goes_on_from(&self, first: SeqNumber) -> bool {
        let begin = self.offset(first);
        let held = self.held.front().map_or(self.next, |held| held.start);
        let next = held.min(self.next);
        // No byte comes before the first one of the connection.
        let first = match self.state {
            State::Open => self.first,
            _ => next,
        };
        (next - SYN_LATE_MAX..=first).contains(&begin)
    }
}

/// Takes a SYN of this connection, which came at `stamp_ns`.
pub(crate) fn on_syn(
    connection: &mut Connection,
    direction: Direction,
    segment: &Segment,
    stamp_ns: Option<i64>,
) {
    let first = segment.sequence;
    let stream = &mut connection.streams[direction];
    if stream.isn.is_none() {
        match stream.state {
            State::Unseen => {
                stream.begin(first, State::Open);
                // All of the stream may be late, by the clock of its tap.
                let acknowledged = stream.unseen.map(|(_, last)| stream.offset(last));
                stream.early = acknowledged.unwrap_or(stream.early);
            }
            State::Starting => stream.open(stream.offset(first)),
            State::Open => {}
        }
        stream.isn = Some(first + u32::MAX);
        let end = stream.offset(first);
        stream.syn_end = Some(end);
        if let Some(stamp_ns) = stamp_ns {
            stream.round_trip.on_sent(end, stamp_ns);
        }
    } else {
        stream.round_trip.on_repeated();
    }
    stream.syn_len = stream.syn_len.max(segment.payload_len);
    connection.is_reset = false;
    if connection.initiator.is_none() {
        connection.initiator = Some(if segment.acknowledgement.is_some() {
            direction.opposite()
        } else {
            direction
        });
    }
}

/// Notes a FIN or RST, and what contradicts an earlier one. If the connection has ended by it:
/// whether by a reset.
pub(crate) fn note_end(
    connection: &mut Connection,
    direction: Direction,
    tcp: &TcpHeader,
) -> Option<bool> {
    let stream = &mut connection.streams[direction];
    let is_seen = stream.state != State::Unseen;
    let start = stream.offset(tcp.sequence);
    let end = start + tcp.payload_len as i64;
    if tcp.flags.contains(TcpFlags::RST) {
        // An RST that is not next resets nothing (RFC 5961 3.2). The next sequence number lies
        // between what the other side has and what was seen, a FIN included.
        let least = stream
            .acked
            .map_or(stream.next, |acked| acked.min(stream.next));
        let resets = !is_seen || (least..=stream.seen() + 1).contains(&end);
        connection.is_reset |= resets;
        return resets.then_some(true);
    }
    if !is_seen && tcp.payload_len == 0 {
        stream.stands_at.get_or_insert(tcp.sequence);
    }
    if tcp.payload_len > 0 {
        connection.is_reset = false;
    }
    // Nothing that was seen comes after a FIN, but for what is none of the stream.
    let is_near = (stream.seen()..=stream.next + BEHIND_MAX).contains(&end);
    let is_near = is_near || start == stream.next && connection.holds_stray(direction);
    let stream = &mut connection.streams[direction];
    if tcp.flags.contains(TcpFlags::FIN) && (!is_seen || is_near) {
        connection.ended[direction] = true;
        stream.fin = is_seen.then_some(end);
        return (connection.ended == [true; 2]).then_some(false);
    }
    None
}
