//! TCP streams through a tap that loses, delays, repeats and cuts frames. The content of each frame
//! is known, so that the frame of every delivered byte shows its place in the stream.

mod simulation;

use std::collections::BTreeMap;
use std::ops::Range;

use lineside_account::{Budget, Counter, Counters};
use lineside_flow::{Config, Connection, Engine, FlowCounts, StreamSink};
use lineside_frame::{Cause, Chunk, Descriptor, Frame, LinkType};
use lineside_time::Random;
use lineside_wire::Direction::{self, Forward, Reverse};
use proptest::prelude::*;

use simulation::{DEPTH, LATE_SEGMENTS, PAYLOAD_AT, Sent, Talk, builder, displace, talk};

const SPACING_NS: i64 = 1000;
const INTERVAL_NS: i64 = 16 * SPACING_NS;

fn config() -> Config {
    Config {
        // The simulated senders do not number their packets, so that a retransmission looks like a
        // copy.
        duplicate_window_ns: 0,
        late_segments: LATE_SEGMENTS as u64,
        late_window_ns: SPACING_NS,
        interval_ns: INTERVAL_NS,
        ..Config::default()
    }
}

/// A frame as the tap recorded it.
#[derive(Debug, Clone)]
struct Seen {
    sent: Sent,
    /// Captured bytes of the frame's payload.
    kept: usize,
}

/// What came out of one incarnation of the connection.
#[derive(Debug, Default)]
struct Output {
    incarnation: Option<usize>,
    /// Next expected place in each direction's stream, once something was delivered.
    next: [Option<i64>; 2],
    holes: [Vec<(Range<i64>, Cause)>; 2],
    delivered: [Vec<Range<i64>>; 2],
    after_syn: [usize; 2],
    closed: bool,
}

/// Checks bytes and holes as they are delivered.
struct Checker<'a> {
    talks: &'a [Talk],
    seen: &'a [Seen],
    outputs: Vec<Output>,
    slots: Vec<usize>,
    /// Whether a reply must come after what it acknowledges.
    ordered: bool,
    /// The handshake may not be seen, so that there is no way to know where a stream begins.
    joined: bool,
    /// Packets by the start of their interval, as reported.
    packets: BTreeMap<i64, u64>,
}

impl<'a> Checker<'a> {
    fn new(talks: &'a [Talk], seen: &'a [Seen]) -> Self {
        Self {
            talks,
            seen,
            outputs: Vec::new(),
            slots: Vec::new(),
            ordered: true,
            joined: false,
            packets: BTreeMap::new(),
        }
    }

    fn run(&mut self, config: Config, budget: &Budget) -> Counters {
        let mut engine = Engine::new(config, budget);
        let mut counters = Counters::new();
        let mut packets = BTreeMap::new();
        for (index, seen) in self.seen.to_vec().iter().enumerate() {
            let stamp_ns = index as i64 * SPACING_NS;
            let bytes = seen.sent.frame(&self.talks[seen.sent.incarnation]);
            let descriptor = Descriptor {
                stamp_ns: Some(stamp_ns),
                wire_len: bytes.len() as u32,
                link_type: LinkType::ETHERNET,
                number: index as u64 + 1,
                ordinal: index as u64 + 1,
                ..Descriptor::default()
            };
            let frame = Frame::copied(&bytes[..PAYLOAD_AT + seen.kept], descriptor).share();
            let dissected = lineside_wire::dissect(1, frame.bytes(), bytes.len());
            counters.count(Counter::FramesReceived);
            let taken = engine.on_frame(stamp_ns, &frame, &dissected, self, &mut counters);
            counters.count(taken.outcome);
            if taken.connection.is_some() {
                *packets
                    .entry(stamp_ns / INTERVAL_NS * INTERVAL_NS)
                    .or_default() += 1;
            }
            let held = counters.value(Counter::StreamHeld) as usize;
            assert!(
                held <= 2 * config.flow_held_max_bytes,
                "{held} bytes are held"
            );
            if index % 7 == 0 {
                engine.spill(&mut counters);
                engine.on_timer(stamp_ns, self, &mut counters);
            }
        }
        engine.finish(self, &mut counters);
        assert_eq!(counters.broken_identity(), None);
        assert_eq!(counters.value(Counter::StreamHeld), 0);
        assert!(self.outputs.iter().all(|output| output.closed));
        // Counts of an acknowledgement may be reported without a packet.
        self.packets.retain(|_, count| *count > 0);
        assert!(
            self.packets == packets,
            "each packet counts in its interval"
        );
        drop(engine);
        assert_eq!(budget.used_bytes(), 0, "what was drawn is given back");
        counters
    }

    /// The bytes of a direction of an incarnation that the tap saw.
    fn coverage(&self, incarnation: usize, direction: Direction) -> Vec<bool> {
        let mut covered = vec![false; self.talks[incarnation].streams[direction].len()];
        for seen in self.seen {
            if (seen.sent.incarnation, seen.sent.direction) == (incarnation, direction) {
                covered[seen.sent.start..seen.sent.start + seen.kept].fill(true);
            }
        }
        covered
    }

    /// Every byte that was seen is delivered, once, and every hole is where nothing was seen. Where
    /// no SYN was seen, a stream begins no later than the first of its frames that was seen.
    fn assert_exact(&self, syn_seen: impl Fn(usize) -> bool) {
        for (output, incarnation) in self
            .outputs
            .iter()
            .filter_map(|output| Some((output, output.incarnation?)))
        {
            for direction in Direction::BOTH {
                let covered = self.coverage(incarnation, direction);
                let mut delivered = vec![false; covered.len()];
                for range in &output.delivered[direction] {
                    delivered[range.start as usize..range.end as usize].fill(true);
                }
                let from = if syn_seen(incarnation) {
                    0
                } else {
                    let begun = output.delivered[direction].first();
                    let begun = begun.map_or(covered.len(), |range| range.start as usize);
                    let first = self.seen.iter().find(|seen| {
                        (seen.sent.incarnation, seen.sent.direction) == (incarnation, direction)
                            && seen.kept > 0
                    });
                    assert!(first.is_none_or(|first| begun <= first.sent.start));
                    begun
                };
                let different = (from..covered.len()).find(|&at| delivered[at] != covered[at]);
                assert_eq!(
                    different, None,
                    "direction {direction:?} of incarnation {incarnation}: what is seen is \
                    delivered"
                );
                for (range, cause) in &output.holes[direction] {
                    assert_ne!(*cause, Cause::GivenUp);
                    assert!(
                        covered[range.start as usize..range.end as usize]
                            .iter()
                            .all(|covered| !covered),
                        "a hole at {range:?} of direction {direction:?} where bytes were seen"
                    );
                }
            }
        }
    }

    fn output(&mut self, slot: usize) -> &mut Output {
        let at = self.slots[slot];
        &mut self.outputs[at]
    }
}

impl StreamSink for Checker<'_> {
    fn on_open(&mut self, slot: usize, _facts: &Connection) {
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, usize::MAX);
        }
        self.slots[slot] = self.outputs.len();
        self.outputs.push(Output::default());
    }

    fn on_stream(
        &mut self,
        slot: usize,
        direction: Direction,
        after_syn: bool,
        chunk: Chunk<'_>,
        _counters: &mut Counters,
    ) {
        assert!(!chunk.is_empty());
        let (seen, talks, ordered) = (self.seen, self.talks, self.ordered);
        let from_start = (!self.joined).then_some(0);
        let output = self.output(slot);
        assert!(!output.closed);
        output.after_syn[direction] += usize::from(after_syn);
        let len = chunk.len() as i64;
        if let Some(cause) = chunk.missing() {
            // A stream whose SYN was seen may begin with a hole.
            let next = output.next[direction].unwrap_or(0);
            output.holes[direction].push((next..next + len, cause));
            output.next[direction] = Some(next + len);
            return;
        }
        let frame = &seen[chunk.descriptor().ordinal as usize - 1].sent;
        let incarnation = *output.incarnation.get_or_insert(frame.incarnation);
        assert_eq!(
            incarnation, frame.incarnation,
            "bytes of another incarnation"
        );
        assert_eq!(frame.direction, direction);
        let place = frame.start as i64 + (chunk.offset_in_frame() - PAYLOAD_AT) as i64;
        let expected = output.next[direction].unwrap_or(place);
        assert_eq!(
            place, expected,
            "direction {direction:?}: the next byte of the stream"
        );
        let stream = &talks[incarnation].streams[direction];
        assert_eq!(
            chunk.bytes(),
            &stream[place as usize..(place + len) as usize]
        );
        output.delivered[direction].push(place..place + len);
        output.next[direction] = Some(place + len);
        // Of the other direction, all that this segment acknowledges and the tap saw comes first.
        let from = output.next[direction.opposite()].or(from_start);
        if let Some(from) = from.map(|from| from as usize) {
            let covered = self.coverage(incarnation, direction.opposite());
            let to = frame.acknowledged.min(covered.len());
            assert!(
                !ordered || from >= to || covered[from..to].iter().all(|covered| !covered),
                "frame {:?} is delivered before {from}..{to}, which it acknowledges",
                chunk.descriptor().ordinal
            );
        }
    }

    fn on_datagram(&mut self, _: usize, _: Direction, _: &[Chunk<'_>], _: &mut Counters) {
        panic!("no datagrams here");
    }

    fn on_loss(&mut self, _: usize, _: &Connection, _: Direction, _: i64, hole: Chunk<'_>) {
        assert!(hole.missing().is_some());
    }

    fn on_interval(&mut self, _: usize, _: &Connection, start: i64, counts: &[FlowCounts; 2]) {
        *self.packets.entry(start).or_default() += counts[0].packets + counts[1].packets;
    }

    fn on_close(&mut self, slot: usize, _facts: &Connection, _counters: &mut Counters) {
        self.output(slot).closed = true;
    }
}

/// What the tap does, all by one seed.
#[derive(Debug, Clone, Copy)]
struct Tap {
    seed: u64,
    drop: f64,
    duplicate: f64,
    late: f64,
    snap: usize,
    /// Frames missing at the beginning.
    skip: usize,
}

fn tap(sent: &[Sent], tap: Tap) -> Vec<Seen> {
    let mut random = Random::new(tap.seed);
    let mut seen = Vec::new();
    for sent in sent.iter().skip(tap.skip) {
        if random.chance(tap.drop) {
            continue;
        }
        let frame = Seen {
            sent: sent.clone(),
            kept: sent.len.min(tap.snap),
        };
        if random.chance(tap.duplicate) {
            seen.push(frame.clone());
        }
        seen.push(frame);
    }
    displace(seen, tap.late, DEPTH, &mut random)
}

fn taps() -> impl Strategy<Value = Tap> {
    (
        any::<u64>(),
        prop_oneof![Just(0.0), 0.0..0.2f64],
        prop_oneof![Just(0.0), 0.0..0.1f64],
        prop_oneof![Just(0.0), 0.0..0.3f64],
    )
        .prop_map(|(seed, drop, duplicate, late)| Tap {
            seed,
            drop,
            duplicate,
            late,
            snap: usize::MAX,
            skip: 0,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// From the handshake on: all bytes that are seen are delivered, and holes are where nothing
    /// was seen.
    #[test]
    fn exactly_the_bytes_that_were_seen_are_delivered(seed: u64, mut harm in taps()) {
        // The handshake itself is seen: the next test covers a handshake that is not.
        let talks = [talk(seed, 0)];
        harm.skip = 0;
        let mut seen = tap(&talks[0].sent[3..], harm);
        for (at, sent) in talks[0].sent[..3].iter().enumerate() {
            seen.insert(at, Seen { sent: sent.clone(), kept: 0 });
        }
        let mut checker = Checker::new(&talks, &seen);
        let counters = checker.run(config(), &Budget::new(64 << 20));
        checker.assert_exact(|_| true);
        prop_assert_eq!(checker.outputs.len(), 1);
        prop_assert_eq!(counters.value(Counter::OverlapConflicts), 0);
        prop_assert_eq!(counters.value(Counter::StreamDiscarded), 0);
        if harm.drop == 0.0 {
            prop_assert_eq!(counters.value(Counter::StreamLost), 0, "lateness is no loss");
        }
    }

    /// Joined anywhere, the handshake late or lost: from the first byte seen on, the same holds.
    #[test]
    fn a_stream_joined_in_its_middle_is_exact_from_there(seed: u64, harm in taps(), share in 0.0..0.9f64) {
        let talks = [talk(seed, 0)];
        let skip = (talks[0].sent.len() as f64 * share) as usize;
        let seen = tap(&talks[0].sent, Tap { skip, ..harm });
        let mut checker = Checker::new(&talks, &seen);
        checker.joined = true;
        checker.run(config(), &Budget::new(64 << 20));
        checker.assert_exact(|_| false);
    }

    /// A snap length makes a hole of the end of each frame, at once; a retransmission does not fill
    /// it.
    #[test]
    fn a_snap_length_cuts_each_frame(seed: u64, harm in taps(), snap in 0..60usize) {
        let talks = [talk(seed, 0)];
        let seen = tap(&talks[0].sent, Tap { snap, drop: 0.0, ..harm });
        let mut checker = Checker::new(&talks, &seen);
        let counters = checker.run(config(), &Budget::new(64 << 20));
        for direction in Direction::BOTH {
            let covered = checker.coverage(0, direction);
            let output = &checker.outputs[0];
            let mut left: Vec<_> = covered.iter().map(|_| 0).collect();
            for range in &output.delivered[direction] {
                left[range.start as usize..range.end as usize].iter_mut().for_each(|times| *times += 1);
            }
            for (range, cause) in &output.holes[direction] {
                prop_assert_eq!(*cause, Cause::SnapLength);
                left[range.start as usize..range.end as usize].iter_mut().for_each(|times| *times += 1);
            }
            prop_assert!(left.iter().all(|&times| times == 1), "nothing is lost on the wire: each \
            byte once");
        }
        prop_assert_eq!(counters.value(Counter::HolesNotSeen), 0);
    }

    /// The same four-tuple again and again, with initial sequence numbers far apart; of each
    /// handshake any part may be late or lost.
    #[test]
    fn a_four_tuple_is_used_again(seed: u64, harm in taps(), lost_syn: [bool; 3]) {
        let mut random = Random::new(seed);
        let talks: Vec<Talk> = (0..3).map(|incarnation| {
            let mut each = talk(random.bits(), incarnation);
            // A stray incarnation shows by two segments in sequence, so there must be as many.
            each.isns = [incarnation as u32 * 0x4000_0000, incarnation as u32 * 0x4000_0000 + 77];
            each
        }).collect();
        let mut seen = Vec::new();
        for (incarnation, each) in talks.iter().enumerate() {
            // Lateness does not reach from one incarnation into the next: TIME-WAIT is between
            // them.
            let mut part = tap(&each.sent, Tap { drop: 0.0, ..harm });
            part.retain(|seen| !(seen.sent.syn && lost_syn[incarnation]));
            seen.append(&mut part);
        }
        let mut checker = Checker::new(&talks, &seen);
        // A stray segment is delivered only when the next one shows that it belongs here.
        checker.ordered = false;
        let counters = checker.run(config(), &Budget::new(64 << 20));
        checker.assert_exact(|incarnation| !lost_syn[incarnation]);
        prop_assert_eq!(checker.outputs.len(), 3);
        prop_assert_eq!(counters.value(Counter::ConnectionsReused), 2);
        prop_assert_eq!(counters.value(Counter::StreamDiscarded), 0);
        prop_assert_eq!(counters.value(Counter::StreamLost), 0);
    }

    /// Bounds hold whatever comes, and segments that do not fit are counted; no wrong byte is
    /// delivered.
    #[test]
    fn bounds_hold(seed: u64, harm in taps(), held_max in 0..4000usize, memory in 0..6000usize) {
        let talks = [talk(seed, 0)];
        let seen = tap(&talks[0].sent, Tap { drop: harm.drop.max(0.05), ..harm });
        let mut checker = Checker::new(&talks, &seen);
        checker.ordered = false;
        let bounded = Config { flow_held_max_bytes: held_max, ..config() };
        let budget = Budget::new(memory);
        let counters = checker.run(bounded, &budget);
        prop_assert!(budget.peak_bytes() <= memory);
        let limited = counters.value(Counter::ConnectionsLimit) + counters.value(Counter::HeldLimit);
        prop_assert!(limited > 0 || memory > 500, "what does not fit is counted");
    }
}

/// A connection by hand: segments of both directions, their sequence numbers relative to the first.
struct Hand {
    engine: Engine,
    counters: Counters,
    frames: u64,
    budget: Budget,
}

#[derive(Default)]
struct Recorder {
    streams: [Vec<u8>; 2],
    holes: [Vec<(usize, Cause)>; 2],
    order: Vec<(Direction, usize)>,
    rtt_samples: u64,
}

impl StreamSink for Recorder {
    fn on_open(&mut self, _: usize, _: &Connection) {}

    fn on_stream(
        &mut self,
        _: usize,
        direction: Direction,
        _: bool,
        chunk: Chunk<'_>,
        _: &mut Counters,
    ) {
        match chunk.missing() {
            Some(cause) => self.holes[direction].push((chunk.len(), cause)),
            None => self.streams[direction].extend_from_slice(chunk.bytes()),
        }
        self.order.push((direction, chunk.len()));
    }

    fn on_datagram(&mut self, _: usize, _: Direction, _: &[Chunk<'_>], _: &mut Counters) {}
    fn on_loss(&mut self, _: usize, _: &Connection, _: Direction, _: i64, _: Chunk<'_>) {}
    fn on_interval(&mut self, _: usize, _: &Connection, _: i64, counts: &[FlowCounts; 2]) {
        self.rtt_samples += counts[0].rtt_samples + counts[1].rtt_samples;
    }
    fn on_close(&mut self, _: usize, _: &Connection, _: &mut Counters) {}
}

impl Hand {
    fn new() -> Self {
        let budget = Budget::new(64 << 20);
        Self {
            engine: Engine::new(config(), &budget),
            counters: Counters::new(),
            frames: 0,
            budget,
        }
    }

    fn segment(
        &mut self,
        sink: &mut Recorder,
        direction: Direction,
        sequence: u32,
        acknowledgement: u32,
        flags: u8,
        payload: &[u8],
    ) {
        self.frames += 1;
        let descriptor = Descriptor {
            stamp_ns: Some(self.frames as i64 * SPACING_NS),
            ordinal: self.frames,
            number: self.frames,
            ..Descriptor::default()
        };
        let bytes = builder(direction, sequence, acknowledgement, flags, payload);
        let frame = Frame::copied(&bytes, descriptor).share();
        let dissected = lineside_wire::dissect(1, &bytes, bytes.len());
        self.engine.on_frame(
            self.frames as i64 * SPACING_NS,
            &frame,
            &dissected,
            sink,
            &mut self.counters,
        );
    }

    fn handshake(&mut self, sink: &mut Recorder) {
        self.segment(sink, Forward, u32::MAX, 0, SYN, b"");
        self.segment(sink, Reverse, u32::MAX, 0, SYN | ACK, b"");
        self.segment(sink, Forward, 0, 0, ACK, b"");
    }

    fn finish(mut self, sink: &mut Recorder) -> Counters {
        self.engine.finish(sink, &mut self.counters);
        assert_eq!(self.budget.used_bytes(), 0);
        self.counters
    }
}

use simulation::{ACK, FIN, RST, SYN};

#[test]
fn the_first_of_conflicting_copies_wins_and_is_counted() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    hand.handshake(&mut sink);
    hand.segment(&mut sink, Forward, 4, 0, ACK, b"efgh");
    hand.segment(&mut sink, Forward, 2, 0, ACK, b"cdEFghij");
    hand.segment(&mut sink, Forward, 0, 0, ACK, b"abCD");
    let counters = hand.finish(&mut sink);
    assert_eq!(sink.streams[0], b"abcdefghij");
    assert_eq!(counters.value(Counter::OverlapConflicts), 4);
    assert_eq!(counters.value(Counter::StreamDuplicate), 6);
}

#[test]
fn late_segments_are_out_of_order_those_after_a_hole_are_not() {
    for (sent, out_of_order) in [
        (&[0, 4, 8, 12][..], 0),
        (&[4, 8, 12, 0], 1),
        (&[0, 8, 4, 16, 12], 2),
        // One never comes, one comes twice.
        (&[0, 8, 12, 16], 0),
        (&[0, 8, 8, 4], 1),
    ] {
        let (mut hand, mut sink) = (Hand::new(), Recorder::default());
        hand.handshake(&mut sink);
        for &sequence in sent {
            hand.segment(&mut sink, Forward, sequence, 0, ACK, b"abcd");
        }
        let counters = hand.finish(&mut sink);
        let counted = counters.value(Counter::SegmentsOutOfOrder);
        assert_eq!(counted, out_of_order, "{sent:?}");
    }
}

/// Live, half a second without a segment makes a hole; from a file only the connection's own
/// segments count.
#[test]
fn live_a_hole_in_a_quiet_connection_is_reported_in_time() {
    const SECOND_NS: i64 = 1_000_000_000;
    for quiet_window_ns in [Some(SECOND_NS / 2), None] {
        let (mut hand, mut sink) = (Hand::new(), Recorder::default());
        hand.engine = Engine::new(
            Config {
                quiet_window_ns,
                ..config()
            },
            &hand.budget,
        );
        hand.handshake(&mut sink);
        hand.segment(&mut sink, Forward, 0, 0, ACK, b"call");
        // "re" is lost; the client has it.
        hand.segment(&mut sink, Reverse, 2, 4, ACK, b"ply");
        hand.segment(&mut sink, Forward, 4, 5, ACK, b"");
        // A spill, which a port without free blocks asks for, does not end the waiting.
        hand.engine.spill(&mut hand.counters);
        hand.engine
            .on_timer(SECOND_NS / 3, &mut sink, &mut hand.counters);
        assert_eq!(sink.streams[1], b"", "it may only be late");
        hand.engine
            .on_timer(SECOND_NS, &mut sink, &mut hand.counters);
        let (is_live, lost) = (
            quiet_window_ns.is_some(),
            hand.counters.value(Counter::StreamLost),
        );
        assert_eq!(lost, if is_live { 2 } else { 0 });
        assert_eq!(sink.streams[1], if is_live { &b"ply"[..] } else { b"" });
        hand.finish(&mut sink);
        assert_eq!(sink.holes[1], [(2, Cause::NotSeen)]);
        assert_eq!(sink.streams, [b"call".to_vec(), b"ply".to_vec()]);
    }
}

#[test]
fn data_after_the_peers_fin_does_not_wait() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    hand.handshake(&mut sink);
    hand.segment(&mut sink, Forward, 0, 0, ACK | FIN, b"call");
    // The FIN takes a sequence number: 5 acknowledges it.
    hand.segment(&mut sink, Reverse, 0, 5, ACK, b"reply");
    assert_eq!(sink.streams[1], b"reply", "it waits for nothing");
    let counters = hand.finish(&mut sink);
    assert_eq!(counters.value(Counter::StreamLost), 0);
}

#[test]
fn a_lost_end_of_a_call_is_a_hole_before_its_reply() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    hand.handshake(&mut sink);
    hand.segment(&mut sink, Forward, 0, 0, ACK, b"ca");
    // "ll" is lost, and nothing more comes in that direction.
    for at in 0..20 {
        hand.segment(&mut sink, Reverse, at, 4, ACK, b"r");
    }
    assert_eq!(
        sink.order[..3],
        [(Forward, 2), (Forward, 2), (Reverse, 1)],
        "the call, its lost end, the reply"
    );
    assert_eq!(sink.holes[0], [(2, Cause::NotSeen)]);
    let counters = hand.finish(&mut sink);
    assert_eq!(counters.value(Counter::StreamLost), 2);
    assert_eq!(
        counters
            .broken_identity()
            .filter(|text| text.starts_with("stream")),
        None
    );
}

#[test]
fn one_wrong_acknowledgement_makes_no_hole() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    hand.handshake(&mut sink);
    hand.segment(&mut sink, Forward, 0, 0, ACK, b"call");
    hand.segment(&mut sink, Reverse, 0, 100_000, ACK, b"r");
    for at in 1..20 {
        hand.segment(&mut sink, Reverse, at, 4, ACK, b"r");
    }
    hand.segment(&mut sink, Forward, 4, 20, ACK, b"more");
    hand.finish(&mut sink);
    assert_eq!(sink.streams[0], b"callmore");
    assert_eq!(sink.holes[0], []);
}

#[test]
fn a_wrong_acknowledgement_drops_no_retransmission() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    hand.handshake(&mut sink);
    hand.segment(&mut sink, Forward, 0, 0, ACK, b"call");
    // Perhaps of an earlier incarnation.
    hand.segment(&mut sink, Reverse, 0, 10_000_000, ACK, b"");
    hand.segment(&mut sink, Forward, 8, 0, ACK, b"more");
    for _ in 0..4 * LATE_SEGMENTS {
        hand.segment(&mut sink, Reverse, 0, 4, ACK, b"");
    }
    hand.segment(&mut sink, Forward, 4, 0, ACK, b"some");
    let counters = hand.finish(&mut sink);
    assert_eq!(sink.streams[0], b"callsomemore");
    assert_eq!(counters.value(Counter::StreamLost), 0);
}

/// A tap that slept through 300 MB of one direction: the other one shows that it is the same
/// connection.
#[test]
fn a_gap_too_long_to_wait_for_is_a_hole_in_the_connection() {
    const MISSED: u32 = 300 << 20;
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    hand.handshake(&mut sink);
    hand.segment(&mut sink, Forward, 0, 0, ACK, b"call");
    hand.segment(&mut sink, Reverse, 0, 4, ACK, b"reply");
    for (at, payload) in [(5, b"next"), (9, b"last")] {
        hand.segment(&mut sink, Reverse, at + MISSED, 40_000, ACK, payload);
    }
    let counters = hand.finish(&mut sink);
    assert_eq!(sink.streams[1], b"replynextlast");
    assert_eq!(sink.holes[1], [(MISSED as usize, Cause::NotSeen)]);
    assert_eq!(counters.value(Counter::Connections), 1);
    // The lost bytes of the calls are acknowledged twice.
    let lost = u64::from(MISSED) + 40_000 - 4;
    assert_eq!(counters.value(Counter::StreamLost), lost);
    assert_eq!(counters.broken_identity(), None);
}

#[test]
fn data_after_a_fin_belongs_to_another_connection() {
    for segments in [1, 2] {
        let (mut hand, mut sink) = (Hand::new(), Recorder::default());
        hand.handshake(&mut sink);
        hand.segment(&mut sink, Forward, 0, 0, ACK | FIN, b"old");
        hand.segment(&mut sink, Reverse, 0, 4, ACK | FIN, b"");
        // The tap missed its SYN.
        for (at, payload) in [(100_000, b"new"), (100_003, b"one")].iter().take(segments) {
            hand.segment(&mut sink, Forward, *at, 500, ACK, *payload);
        }
        let counters = hand.finish(&mut sink);
        assert_eq!(sink.holes[0], []);
        assert_eq!(counters.value(Counter::StreamLost), 0);
        let reused = segments as u64 - 1;
        assert_eq!(counters.value(Counter::ConnectionsReusedUnseen), reused);
        let bytes = if segments == 2 {
            &b"oldnewone"[..]
        } else {
            b"old"
        };
        assert_eq!(sink.streams[0], bytes);
        assert_eq!(counters.broken_identity(), None);
    }
}

#[test]
fn an_unacknowledged_stray_far_ahead_makes_no_hole() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    hand.handshake(&mut sink);
    hand.segment(&mut sink, Forward, 0, 0, ACK, b"call");
    hand.segment(&mut sink, Forward, 100_000_000, 0, ACK, b"stray");
    hand.segment(&mut sink, Reverse, 0, 4, ACK, b"reply");
    let counters = hand.finish(&mut sink);
    assert_eq!(sink.streams[0], b"call");
    assert_eq!(counters.value(Counter::StreamLost), 0);
    assert_eq!(counters.value(Counter::StreamDiscarded), 5);
    assert_eq!(counters.broken_identity(), None);
}

/// Bytes that the other side acknowledged and the tap did not see: at the end of a stream, and of
/// one that was never seen.
#[test]
fn an_acknowledged_tail_that_was_not_seen_is_lost() {
    for (acknowledgements, flags, lost) in [
        (&[4, 104][..], ACK, 0),
        (&[104, 104], ACK, 100),
        // The byte is a FIN that was not seen.
        (&[5, 5], ACK, 0),
        (&[104], ACK | FIN, 0),
    ] {
        let (mut hand, mut sink) = (Hand::new(), Recorder::default());
        hand.handshake(&mut sink);
        hand.segment(&mut sink, Reverse, 0, 0, ACK, b"data");
        for &acknowledgement in acknowledgements {
            hand.segment(&mut sink, Forward, 0, acknowledgement, flags, b"");
        }
        let counters = hand.finish(&mut sink);
        assert_eq!(
            counters.value(Counter::StreamLost),
            lost,
            "{acknowledgements:?}"
        );
        assert_eq!(counters.broken_identity(), None);
    }
    // With its FIN, one acknowledgement is enough.
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    hand.handshake(&mut sink);
    hand.segment(&mut sink, Reverse, 100, 0, ACK | FIN, b"");
    hand.segment(&mut sink, Forward, 0, 101, ACK, b"");
    assert_eq!(hand.finish(&mut sink).value(Counter::StreamLost), 100);

    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    for at in 0..3 {
        hand.segment(&mut sink, Forward, at, 7_000 + 1_000 * at, ACK, b"c");
    }
    let counters = hand.finish(&mut sink);
    assert_eq!(
        counters.value(Counter::StreamLost),
        2_000,
        "one direction only"
    );
    assert_eq!(counters.broken_identity(), None);
}

#[test]
fn a_reset_outside_the_window_ends_no_connection() {
    let minute = 61_000_000_000 / SPACING_NS as u64;
    for (resets, connections) in [
        // Of this connection, as far as the tap can know.
        (&[(4, RST)][..], 2),
        // Blind: beyond what was sent, or before what the other side has.
        (&[(1_000, RST)], 1),
        (&[(2, RST)], 1),
        // A connection that goes on was not reset.
        (&[(4, RST), (4, ACK)], 1),
    ] {
        let (mut hand, mut sink) = (Hand::new(), Recorder::default());
        hand.handshake(&mut sink);
        hand.segment(&mut sink, Forward, 0, 0, ACK, b"call");
        hand.segment(&mut sink, Reverse, 0, 4, ACK, b"");
        for &(sequence, flags) in resets {
            let payload = if flags == ACK { &b"ab"[..] } else { b"" };
            hand.segment(&mut sink, Forward, sequence, 0, flags, payload);
        }
        hand.frames += minute;
        hand.segment(&mut sink, Reverse, 0, 4, ACK, b"reply");
        let counters = hand.finish(&mut sink);
        assert_eq!(
            counters.value(Counter::Connections),
            connections,
            "{resets:?}"
        );
    }
}

#[test]
fn many_small_parts_reach_the_limit_before_their_bytes_do() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    hand.handshake(&mut sink);
    let parts = Config::default().flow_held_max_bytes as u32 / 1024;
    for at in 1..=parts {
        hand.segment(&mut sink, Forward, 2 * at, 0, ACK, b"x");
    }
    assert_eq!(sink.holes[0], []);
    hand.segment(&mut sink, Forward, 2 * parts + 2, 0, ACK, b"x");
    assert_eq!(sink.holes[0][0], (2, Cause::GivenUp));
}

#[test]
fn retransmissions_give_no_round_trip() {
    for again in [false, true] {
        let (mut hand, mut sink) = (Hand::new(), Recorder::default());
        hand.handshake(&mut sink);
        hand.segment(&mut sink, Forward, 0, 0, ACK, b"call");
        if again {
            hand.frames += 1_000;
            hand.segment(&mut sink, Forward, 0, 0, ACK, b"call");
        }
        hand.segment(&mut sink, Reverse, 0, 4, ACK, b"");
        hand.finish(&mut sink);
        assert_eq!(sink.rtt_samples, u64::from(!again));
    }
}

#[test]
fn at_the_end_a_reply_still_follows_its_call() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    // Joined in its middle and over before the late window: all of it waits for the end. Both ways
    // round, since directions are numbered by address.
    for call in Direction::BOTH {
        hand.segment(&mut sink, call, 1000, 5000, ACK, b"call");
        hand.segment(&mut sink, call.opposite(), 5000, 1004, ACK, b"reply");
        hand.segment(&mut sink, call, 1004, 5005, ACK, b"again");
        let mut other = Hand::new();
        std::mem::swap(&mut hand, &mut other);
        other.finish(&mut sink);
        assert_eq!(
            std::mem::take(&mut sink.order),
            [(call, 4), (call.opposite(), 5), (call, 5)]
        );
    }
}

#[test]
fn a_syn_that_contradicts_held_data_opens_another_connection() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    hand.segment(&mut sink, Forward, 1000, 1, ACK, b"later");
    hand.segment(&mut sink, Forward, 900, 1, ACK, b"earlier");
    hand.segment(&mut sink, Forward, 949, 0, SYN, b"");
    let counters = hand.finish(&mut sink);
    assert_eq!(sink.streams[0], b"earlierlater");
    assert_eq!(counters.value(Counter::ConnectionsReused), 1);
}

#[test]
fn a_gap_is_given_up_when_it_is_acknowledged_and_late() {
    for acknowledged in [false, true] {
        let acknowledgement = if acknowledged { 8 } else { 0 };
        let (mut hand, mut sink) = (Hand::new(), Recorder::default());
        hand.handshake(&mut sink);
        hand.segment(&mut sink, Forward, 4, 0, ACK, b"efgh");
        for _ in 0..LATE_SEGMENTS {
            assert_eq!(sink.order, []);
            hand.segment(&mut sink, Reverse, 0, acknowledgement, ACK, b"");
        }
        assert_eq!(
            sink.order,
            [],
            "{LATE_SEGMENTS} segments after it, not one less"
        );
        hand.segment(&mut sink, Reverse, 0, acknowledgement, ACK, b"");
        let order = [(Forward, 4), (Forward, 4)];
        assert_eq!(sink.order, &order[..if acknowledged { 2 } else { 0 }]);
        hand.segment(&mut sink, Forward, 0, 0, ACK, b"abcd");
        let counters = hand.finish(&mut sink);
        let (bytes, discarded) = if acknowledged {
            (&b"efgh"[..], 4)
        } else {
            (&b"abcdefgh"[..], 0)
        };
        assert_eq!(sink.streams[0], bytes);
        assert_eq!(counters.value(Counter::StreamDiscarded), discarded);
    }
}

#[test]
fn a_syn_with_another_number_always_opens_a_connection() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    hand.handshake(&mut sink);
    hand.segment(&mut sink, Forward, 0, 0, ACK, b"old");
    hand.segment(&mut sink, Forward, u32::MAX, 0, SYN, b"");
    hand.segment(&mut sink, Forward, 900, 0, SYN, b"");
    hand.segment(&mut sink, Forward, 901, 0, 0, b"new");
    let counters = hand.finish(&mut sink);
    assert_eq!(sink.streams[0], b"oldnew");
    assert_eq!(sink.holes[0], []);
    assert_eq!(
        counters.value(Counter::ConnectionsReused),
        1,
        "its own SYN again is none"
    );
}

#[test]
fn a_stream_that_holds_too_much_gives_up_its_gap() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    hand.engine = Engine::new(
        Config {
            flow_held_max_bytes: 1 << 10,
            ..config()
        },
        &hand.budget,
    );
    hand.handshake(&mut sink);
    hand.segment(&mut sink, Forward, 4, 0, ACK, b"0123456789");
    assert_eq!(sink.order, []);
    hand.segment(&mut sink, Forward, 14, 0, ACK, b"a");
    assert_eq!(sink.holes[0], [(4, Cause::GivenUp)]);
    assert_eq!(sink.streams[0], b"0123456789a");
    let counters = hand.finish(&mut sink);
    assert_eq!(counters.value(Counter::HolesGivenUp), 1);
}
