//! Reassembly: a segment is delivered at once, or held until what comes before it has come, and
//! holes take the place of what will not come.

use lineside_account::Counter;
use lineside_frame::{Cause, Chunk, Descriptor};
use lineside_wire::{Direction, SeqNumber, TcpHeader};

use crate::connection::Connection;
use crate::context::{Context, Shared};
use crate::counts::FlowCounts;
use crate::sink::StreamSink;
use crate::stream::{AHEAD_MAX, BEHIND_MAX, Held, Moment, Segment, State, Stream};

/// Which incarnation of a connection a segment belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Belongs {
    /// To this one, or it is kept as a stray.
    Here,
    /// To this one, after a long gap, which is a hole now: its strays are to be taken once more.
    AfterGap,
    /// To the next one, as the stray before it does.
    ToNext,
}

/// A segment at its place in its stream.
struct Placed<'a> {
    start: i64,
    payload_len: usize,
    captured_len: usize,
    /// The captured bytes.
    chunk: Chunk<'a>,
    /// The other direction must be delivered up to this sequence number first.
    needs: Option<SeqNumber>,
}

/// The first of the held parts of a stream.
pub(super) struct Front {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) arrived: Moment,
    /// Where delivery stood then, and what waited before it.
    pub(super) stood: i64,
    needs: Option<SeqNumber>,
    descriptor: Descriptor,
    /// It is a hole that the snap length made.
    is_cut: bool,
    /// The bound that what the stream holds has reached.
    limit: Option<Counter>,
}

/// The result of a try to go on with a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// Nothing is held, or a gap that may still be filled is in the way.
    Blocked,
    /// The other direction must come first.
    Waits,
    /// Something was delivered.
    Progressed,
}

impl Connection {
    /// Nothing more comes: delivers and reports the rest.
    pub(crate) fn finish<S: StreamSink>(&mut self, context: &mut Context<'_, S>) {
        self.advance(true, context);
        self.end_aside(context);
        for direction in Direction::BOTH {
            self.lose_tail(direction, context);
        }
        context.discard(&self.strays);
        self.report_interval(context);
        for stream in &mut self.streams {
            let drawn = std::mem::take(&mut stream.drawn_bytes);
            context.shared.held.give_back(drawn);
        }
    }

    /// Takes a segment; `chunk` is what was captured of it.
    #[inline]
    pub(crate) fn on_segment<S: StreamSink>(
        &mut self,
        direction: Direction,
        segment: Segment,
        chunk: Chunk<'_>,
        context: &mut Context<'_, S>,
    ) -> Belongs {
        let moment = self.moment(context.shared.now);
        if let Some(acknowledgement) = segment.acknowledgement {
            let stamp_ns = chunk.descriptor().stamp_ns;
            let is_alone = segment.payload_len == 0;
            let of = (direction.opposite(), acknowledgement);
            let by = (moment, stamp_ns, chunk.descriptor());
            self.take_acknowledgement(of, is_alone, by, context);
        }
        if segment.payload_len > 0 {
            if self.streams[direction].state == State::Unseen {
                self.begin(direction, &segment, moment);
            }
            let stream = &self.streams[direction];
            let start = stream.offset(segment.sequence);
            let end = start + segment.payload_len as i64;
            // After its FIN a stream has nothing.
            let is_after_fin = stream.fin.is_some_and(|fin| end > fin);
            let is_far = end < stream.next - BEHIND_MAX || start > stream.next + AHEAD_MAX;
            let is_of_next = || start != stream.next && self.follows_stray_syn(direction, &segment);
            if is_far || is_after_fin || !self.strays.is_empty() && is_of_next() {
                return self.on_stray(direction, segment, chunk, context);
            }
            let stream = &mut self.streams[direction];
            let stamp_ns = chunk.descriptor().stamp_ns;
            if stream.comes_after_acknowledgement(start, end, stamp_ns) {
                let counters = &mut context.counters;
                counters.count(Counter::SegmentsAfterAcknowledgement);
            }
            let needs = self.needs(direction, &segment, context.shared);
            let (stream, other) = direction.split_mut(&mut self.streams);
            if start != stream.next {
                stream.round_trip.on_repeated();
            } else if let Some(stamp_ns) = chunk.descriptor().stamp_ns {
                stream.round_trip.on_sent(end, stamp_ns);
            }
            let is_ready = needs.is_none_or(|needs| other.has_delivered(needs));
            let is_next =
                stream.state == State::Open && stream.held.is_empty() && start <= stream.next;
            let placed = Placed {
                start,
                payload_len: segment.payload_len,
                captured_len: segment.captured_len,
                chunk,
                needs,
            };
            // The rest of a cut one may come as a copy of another tap.
            let may_lengthen = self.has_copies() && segment.captured_len < segment.payload_len;
            if is_next && is_ready && !may_lengthen {
                self.deliver(direction, &placed, context);
                if !self.streams[direction.opposite()].held.is_empty() {
                    self.advance(false, context);
                }
                return Belongs::Here;
            }
            self.drop_strays(direction, start, &placed.chunk, context);
            self.hold(direction, &placed, moment, context);
        }
        if self.streams.iter().any(|stream| !stream.held.is_empty()) {
            self.advance(false, context);
        }
        Belongs::Here
    }

    /// Bytes of a direction are acknowledged, by a segment without payload if it `is_alone`.
    fn take_acknowledgement<S: StreamSink>(
        &mut self,
        (direction, acknowledgement): (Direction, SeqNumber),
        is_alone: bool,
        (moment, stamp_ns, by): (Moment, Option<i64>, &Descriptor),
        context: &mut Context<'_, S>,
    ) {
        let is_late = self.on_acknowledgement(direction, acknowledgement, moment, stamp_ns);
        if let (true, true, Some(at_ns)) = (is_late, is_alone, stamp_ns) {
            let offset = self.streams[direction].offset(acknowledgement);
            self.on_late_acknowledgement(direction, offset, at_ns, context);
        }
        if self.streams[direction].remembers_acks() {
            self.draw_held(direction, context);
        }
        self.give_up_passed(direction, by, context);
    }

    /// Begins a stream whose SYN was not seen. It is known where it stood when the tap began, from
    /// an acknowledgement that it sent, or, if the other side's SYN was seen, from the first one
    /// that it received.
    #[cold]
    fn begin(&mut self, direction: Direction, segment: &Segment, moment: Moment) {
        let (stream, other) = direction.split_mut(&mut self.streams);
        let received = stream.unseen.map(|(first, _)| first);
        let first = received
            .filter(|_| other.isn.is_some())
            .or(stream.stands_at);
        let first = first.filter(|&first| {
            let missed = i64::from(segment.sequence.bytes_from(first));
            // A keep-alive stands one place before the next byte (RFC 9293 3.8.4).
            missed <= AHEAD_MAX && missed != 1
        });
        stream.begin(first.unwrap_or(segment.sequence), State::Starting);
        stream.joined_at = first.map(|_| 0);
        stream.begun = moment;
    }

    /// What a segment acknowledges of the other direction, if that must be delivered first. A
    /// direction that was never seen is waited for only while it may be late as a whole.
    #[inline]
    fn needs(&self, direction: Direction, segment: &Segment, shared: &Shared) -> Option<SeqNumber> {
        let is_young = self.segments <= shared.config.late_segments
            || shared.now.saturating_sub(self.opened_ns) < shared.config.late_window_ns;
        let other = &self.streams[direction.opposite()];
        segment
            .acknowledgement
            .filter(|_| is_young || other.state != State::Unseen)
    }

    /// Delivers a segment that begins at or before the next expected byte: the path of nearly all
    /// segments, on which nothing is held or copied.
    #[inline]
    fn deliver<S: StreamSink>(
        &mut self,
        direction: Direction,
        placed: &Placed<'_>,
        context: &mut Context<'_, S>,
    ) {
        let Placed {
            start,
            payload_len,
            captured_len,
            chunk,
            ..
        } = *placed;
        let stream = &mut self.streams[direction];
        let seen = ((stream.next - start) as usize).min(payload_len);
        if seen == payload_len {
            // A retransmission, or the mirror has just begun to copy: the next segments show which.
            let window_ns = context.shared.config.duplicate_window_ns;
            let until_ns = context.shared.now.saturating_add(window_ns);
            self.watched_until_ns = self.watched_until_ns.max(until_ns);
        }
        let counts = &mut self.counts[direction];
        count_repeated(stream, counts, start, start + seen as i64, context);
        let fresh = chunk.from(seen.min(chunk.len()));
        let cut = payload_len - seen.max(captured_len).min(payload_len);
        let offset = stream.next;
        let after_syn = stream.syn_end == Some(offset);
        stream.next += (payload_len - seen) as i64;
        if !fresh.is_empty() {
            context
                .counters
                .add(Counter::StreamDelivered, fresh.len() as u64);
            context
                .sink
                .on_stream(self.slot, direction, after_syn, fresh, context.counters);
        }
        if cut > 0 {
            let hole = Chunk::hole(cut, Cause::SnapLength, chunk.descriptor());
            self.deliver_hole(direction, offset + fresh.len() as i64, hole, context);
        }
    }

    /// Delivers a part of a stream, of which so many bytes were captured.
    pub(super) fn deliver_at<S: StreamSink>(
        &mut self,
        direction: Direction,
        start: i64,
        (payload_len, captured_len): (usize, usize),
        chunk: Chunk<'_>,
        context: &mut Context<'_, S>,
    ) {
        let placed = Placed {
            start,
            payload_len,
            captured_len,
            chunk,
            needs: None,
        };
        self.deliver(direction, &placed, context);
    }

    /// A segment came again, as a mirror's copy: of what the snap length cut from the first one
    /// and is still held as a hole, this one may have more.
    pub(crate) fn lengthen<S: StreamSink>(
        &mut self,
        direction: Direction,
        tcp: &TcpHeader,
        payload: &[Chunk<'_>],
        context: &mut Context<'_, S>,
    ) {
        let stream = &mut self.streams[direction];
        // Without any held part there is no hole among them.
        let (false, [chunk]) = (stream.held.is_empty(), payload) else {
            return;
        };
        if stream.fill(stream.offset(tcp.sequence), chunk) {
            self.draw_held(direction, context);
            self.advance(false, context);
        }
    }

    fn hold<S: StreamSink>(
        &mut self,
        direction: Direction,
        placed: &Placed<'_>,
        moment: Moment,
        context: &mut Context<'_, S>,
    ) {
        let Placed {
            start,
            payload_len,
            captured_len,
            chunk,
            needs,
        } = *placed;
        let stream = &mut self.streams[direction];
        let counts = &mut self.counts[direction];
        let before = match stream.state {
            State::Open => ((stream.next - start).max(0) as usize).min(payload_len),
            _ => 0,
        };
        let first = start + before as i64;
        count_repeated(stream, counts, start, first, context);
        let captured = chunk.from(before.min(chunk.len()));
        let cut = payload_len - before.max(captured_len);
        let cut = Chunk::hole(cut, Cause::SnapLength, chunk.descriptor());
        let latest = stream.held.back().map(Held::end);
        let bytes_before = stream.held_bytes;
        let mut at = first;
        for part in [captured, cut].iter().filter(|part| !part.is_empty()) {
            let (repeated, conflicts) = stream.hold(at, part.hold(), moment, needs);
            context
                .counters
                .add(Counter::StreamDuplicate, repeated as u64);
            counts.retransmitted_bytes += repeated as u64;
            context
                .counters
                .add(Counter::OverlapConflicts, conflicts as u64);
            at += part.len() as i64;
        }
        let added = stream.held_bytes - bytes_before;
        if added > 0 && latest.is_some_and(|latest| first < latest) {
            context.counters.count(Counter::SegmentsOutOfOrder);
        }
        context.counters.add(Counter::StreamHeld, added as u64);
        self.draw_held(direction, context);
        context.shared.holders.insert(self.slot);
    }

    /// Draws what a stream takes now. `advance` gives up the gap before bytes for which the budget
    /// has no room: of a connection without an answered call while others can still have some.
    pub(super) fn draw_held<S: StreamSink>(
        &mut self,
        direction: Direction,
        context: &mut Context<'_, S>,
    ) {
        let stream = &mut self.streams[direction];
        if stream.memory_bytes() > stream.drawn_bytes {
            let claim = context.claim_of(self.slot);
            let more = stream.memory_bytes() - stream.drawn_bytes;
            if context.shared.held.draw(claim, more) {
                stream.drawn_bytes = stream.memory_bytes();
            } else {
                stream.forget_what_nothing_waits_for();
            }
        }
        let bytes = stream.memory_bytes();
        let over = stream.drawn_bytes.saturating_sub(bytes);
        context.shared.held.give_back(over);
        stream.drawn_bytes = stream.drawn_bytes.min(bytes);
        stream.undrawn_bytes = bytes - stream.drawn_bytes;
    }

    /// Delivers what can be delivered, in both directions. `at_end`: nothing more will come.
    pub(crate) fn advance<S: StreamSink>(&mut self, at_end: bool, context: &mut Context<'_, S>) {
        loop {
            let mut advance =
                |direction, forced| self.advance_one(direction, at_end, forced, context);
            let steps = Direction::BOTH.map(|direction| advance(direction, false));
            if steps.contains(&Step::Progressed) {
                continue;
            }
            // A direction that waits for the other in vain goes on only when the other cannot.
            let mut forced = |direction| {
                steps[direction] == Step::Waits && advance(direction, true) == Step::Progressed
            };
            if !forced(Direction::Forward) && !forced(Direction::Reverse) {
                return;
            }
        }
    }

    /// Delivers what can be delivered in one direction. `forced`: only the next part, although the
    /// other direction should come first, if it has waited long enough.
    fn advance_one<S: StreamSink>(
        &mut self,
        direction: Direction,
        at_end: bool,
        forced: bool,
        context: &mut Context<'_, S>,
    ) -> Step {
        let mut step = Step::Blocked;
        while let Some(front) = self.front(direction, context.shared) {
            if self.streams[direction].state == State::Starting
                && !self.open_joined(direction, &front, at_end, context)
            {
                return step;
            }
            if front.start > self.streams[direction].next {
                if !self.pass_gap(direction, &front, at_end, context) {
                    return step;
                }
                step = Step::Progressed;
                continue;
            }
            let other = &self.streams[direction.opposite()];
            if let Some(needs) = front.needs.filter(|&needs| !other.has_delivered(needs)) {
                if let Some(limit) = front.limit {
                    context.counters.count(limit);
                } else if !forced || !(at_end || self.is_overdue(front.arrived, context.shared)) {
                    return step.max(Step::Waits);
                } else {
                    // What the other direction misses is acknowledged and overdue by now.
                    let offset = other.acknowledged_offset(needs);
                    let by = &front.descriptor;
                    if self.give_up_acknowledged(direction.opposite(), offset, by, context) {
                        return Step::Progressed;
                    }
                }
            }
            if front.is_cut && !at_end && front.limit.is_none() && self.has_copies() {
                // A longer copy may come.
                if !self.is_overdue(front.arrived, context.shared) {
                    return step;
                }
            }
            if self.may_stray(direction, &front) {
                if at_end && self.is_long_unheard(direction, &front, context.shared) {
                    self.discard_front(direction, context);
                    step = Step::Progressed;
                    continue;
                }
                if !at_end && front.limit.is_none() {
                    return step;
                }
            }
            self.deliver_front(direction, context);
            step = Step::Progressed;
            if forced {
                break;
            }
        }
        step
    }

    fn front(&self, direction: Direction, shared: &Shared) -> Option<Front> {
        let stream = &self.streams[direction];
        let front = stream.held.front()?;
        Some(Front {
            start: front.start,
            end: front.end(),
            arrived: front.arrived,
            stood: front.stood,
            needs: front.needs,
            descriptor: front.range.descriptor,
            is_cut: front.range.chunk().missing() == Some(Cause::SnapLength),
            limit: match stream.fullness() > shared.config.flow_held_max_bytes {
                true => Some(Counter::FlowHeldLimit),
                false => (stream.undrawn_bytes > 0).then_some(Counter::HeldLimit),
            },
        })
    }

    /// Begins a stream that was joined in its middle with its first held part, once no earlier one
    /// is to be expected: the first segments may be out of order like any others.
    fn open_joined<S: StreamSink>(
        &mut self,
        direction: Direction,
        front: &Front,
        at_end: bool,
        context: &mut Context<'_, S>,
    ) -> bool {
        if !at_end && !self.is_overdue(self.streams[direction].begun, context.shared) {
            let Some(limit) = front.limit else {
                return false;
            };
            context.counters.count(limit);
        }
        self.streams[direction].open_joined(front.start);
        true
    }

    /// Delivers a hole for the gap before the first held part, if the gap is not waited for any
    /// longer; false if it is.
    fn pass_gap<S: StreamSink>(
        &mut self,
        direction: Direction,
        front: &Front,
        at_end: bool,
        context: &mut Context<'_, S>,
    ) -> bool {
        let start = front.start;
        let acknowledged = self.streams[direction].acknowledged(start);
        let is_lost = acknowledged
            .is_some_and(|moment| self.is_overdue(moment.later(front.arrived), context.shared));
        let cause = match (acknowledged, front.limit) {
            _ if is_lost => Cause::NotSeen,
            (None, _) if at_end && self.is_stray(direction, front, context.shared) => {
                self.discard_front(direction, context);
                return true;
            }
            (None, _) if at_end && self.is_asked_for(direction) => Cause::Lost,
            _ if at_end => Cause::NotSeen,
            (_, Some(limit)) => {
                context.counters.count(limit);
                Cause::GivenUp
            }
            _ => return false,
        };
        self.give_up(direction, start, cause, &front.descriptor, context);
        true
    }

    /// Delivers the first held part, which comes next in its stream.
    fn deliver_front<S: StreamSink>(&mut self, direction: Direction, context: &mut Context<'_, S>) {
        let held = self.take_front(direction, context);
        let stream = &mut self.streams[direction];
        debug_assert_eq!(
            held.start, stream.next,
            "held ranges do not overlap what is delivered"
        );
        stream.next = held.end();
        let after_syn = stream.syn_end == Some(held.start);
        let chunk = held.range.chunk();
        match chunk.missing() {
            None => {
                context
                    .counters
                    .add(Counter::StreamDelivered, chunk.len() as u64);
                context
                    .sink
                    .on_stream(self.slot, direction, after_syn, chunk, context.counters);
            }
            Some(_) => self.deliver_hole(direction, held.start, chunk, context),
        }
    }

    /// Takes the first of the held parts, of which there is one.
    pub(super) fn take_front<S: StreamSink>(
        &mut self,
        direction: Direction,
        context: &mut Context<'_, S>,
    ) -> Held {
        let stream = &mut self.streams[direction];
        let held = stream.take_front().expect("the front was looked at");
        let bytes = held.range.len() as u64;
        context.counters.subtract(Counter::StreamHeld, bytes);
        self.draw_held(direction, context);
        held
    }

    /// Whether a part that came at `moment`, or a gap that was acknowledged then, is waited for no
    /// longer.
    pub(super) fn is_overdue(&self, moment: Moment, shared: &Shared) -> bool {
        let config = &shared.config;
        let waited_ns = shared.now.saturating_sub(moment.ns);
        let is_late = self.segments - moment.segments >= config.late_segments
            && waited_ns >= config.late_window_ns;
        is_late
            || config
                .quiet_window_ns
                .is_some_and(|window_ns| waited_ns >= window_ns)
    }
}

/// Counts bytes that come again: as duplicates, or as discarded if they had been given up.
#[inline]
fn count_repeated<S>(
    stream: &Stream,
    counts: &mut FlowCounts,
    start: i64,
    end: i64,
    context: &mut Context<'_, S>,
) {
    if end > start {
        let late = stream.given_up(start, end);
        let repeated = (end - start) as u64 - late as u64;
        context.counters.add(Counter::StreamDiscarded, late as u64);
        context.counters.add(Counter::StreamDuplicate, repeated);
        context.counters.count(Counter::SegmentsRetransmitted);
        counts.retransmitted_bytes += repeated;
    }
}
