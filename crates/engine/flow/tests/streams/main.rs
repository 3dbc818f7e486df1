//! TCP streams through a tap that loses, delays, repeats and cuts frames. The content of each frame
//! is known, so that the frame of every delivered byte shows its place in the stream.

mod accounting;
mod beside;
mod firewalls;
mod floods;
mod hand;
mod incarnations;
mod past;
mod segments;
mod simulation;

use std::collections::BTreeMap;
use std::ops::Range;

use lineside_account::{Budget, Counter, Counters};
use lineside_flow::{Config, Connection, Engine, FlowCounts, StreamSink};
use lineside_frame::{Cause, Chunk, Descriptor, Frame, LinkType};
use lineside_time::Random;
use lineside_wire::Direction;
use proptest::prelude::*;

use simulation::{DEPTH, LATE_SEGMENTS, PAYLOAD_AT, Sent, Talk, displace, talk};

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
    /// Of a stream that was joined: the hole that it begins with.
    hole_before: [Option<(i64, Cause)>; 2],
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
            counters.count(Counter::FramesReceived);
            let taken = engine.on_frame(stamp_ns, &frame, self, &mut counters);
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
            if from_start.is_none() && output.next[direction].is_none() {
                // Where it is, the first bytes show.
                output.hole_before[direction] = Some((len, cause));
                return;
            }
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
        if let Some((len, cause)) = output.hole_before[direction].take() {
            output.holes[direction].push((place - len..place, cause));
        }
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
            // What is sent again carries a newer acknowledgement than when it was sent first: it
            // waits for no more than what followed it then.
            let before = &seen[..chunk.descriptor().ordinal as usize - 1];
            let after = before.iter().map(|seen| &seen.sent).filter(|sent| {
                (sent.incarnation, sent.direction) == (incarnation, direction)
                    && sent.start as i64 >= place + len
            });
            let after = after.map(|sent| sent.acknowledged).min();
            let acknowledged = frame.acknowledged.min(after.unwrap_or(usize::MAX));
            let to = acknowledged.min(covered.len());
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
        // A SYN may be lost as any frame.
        checker.joined = true;
        let bounded = Config { flow_held_max_bytes: held_max, ..config() };
        let budget = Budget::new(memory);
        let counters = checker.run(bounded, &budget);
        prop_assert!(budget.peak_bytes() <= memory);
        let limited = counters.value(Counter::ConnectionsLimit) + counters.value(Counter::HeldLimit);
        prop_assert!(limited > 0 || memory > 500, "what does not fit is counted");
    }
}

/// A part after two gaps: that the other end acknowledges what came before it shows nothing of it.
#[test]
fn what_waits_before_a_held_part_is_no_word_of_it() {
    let talks = [talk(18_010_805_191_439_428_089, 0)];
    let harm = Tap {
        seed: 8_149_390_315_845_134_582,
        drop: 0.105_341_022_121_739_74,
        duplicate: 0.0,
        late: 0.0,
        snap: usize::MAX,
        skip: (talks[0].sent.len() as f64 * 0.175_520_037_194_590_03) as usize,
    };
    let seen = tap(&talks[0].sent, harm);
    let mut checker = Checker::new(&talks, &seen);
    checker.joined = true;
    let counters = checker.run(config(), &Budget::new(64 << 20));
    assert_eq!(counters.value(Counter::StreamDiscarded), 0);
    checker.assert_exact(|_| false);
}
