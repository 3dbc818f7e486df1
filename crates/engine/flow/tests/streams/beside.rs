//! Streams beside others, and what is held of them.

use super::*;
use crate::hand::{Hand, Recorder};
use crate::simulation::{ACK, SYN, with_options};
use lineside_wire::Direction::{Forward, Reverse};
use lineside_wire::TcpFlags;
use lineside_wire::build::{FrameBuilder, TcpFields};

/// Clients of NFS take the same few ports below 1024, so that two of them often have the same one;
/// here they even have the same sequence numbers.
#[test]
fn clients_with_the_same_port_are_distinguished() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    let mut send = |client: u8, is_call: bool, sequence, flags, payload: &[u8]| {
        let [client, server] = [client, 2].map(|host| [10, 0, 0, host].into());
        let (ports, [from, to]) = match is_call {
            true => ([700, 2049], [client, server]),
            false => ([2049, 700], [server, client]),
        };
        let fields = TcpFields {
            source_port: ports[0],
            destination_port: ports[1],
            sequence,
            acknowledgement: 100,
            flags: TcpFlags(flags),
            ..TcpFields::default()
        };
        hand.frame(
            &mut sink,
            &FrameBuilder::new(from, to).tcp(&fields, payload),
        );
    };
    for client in [3, 1] {
        send(client, true, 99, SYN, b"");
        send(client, false, 99, SYN | ACK, b"");
        send(client, true, 100, ACK, b"");
    }
    // Each after one of the other connection.
    for (client, is_call, byte) in [(3, false, 23), (1, false, 21), (3, true, 3), (1, true, 1)] {
        send(client, is_call, 100, ACK, &[byte]);
    }
    let counters = hand.finish(&mut sink);
    assert_eq!(counters.value(Counter::Connections), 2);
    // Directions are by address, and the server's is between theirs.
    assert_eq!(sink.streams, [[23, 1], [21, 3]]);
    assert_eq!(sink.holes, [[], []]);
}

#[test]
fn what_is_held_is_copied_once() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    hand.handshake(&mut sink);
    hand.segment(&mut sink, Forward, 10, 0, ACK, b"later");
    hand.segment(&mut sink, Reverse, 20, 0, ACK, b"later too");
    for (more, copied) in [(false, 2), (false, 2), (true, 3)] {
        if more {
            hand.segment(&mut sink, Forward, 15, 0, ACK, b"more");
        }
        hand.engine.spill(&mut hand.counters);
        assert_eq!(hand.counters.value(Counter::RangesSpilled), copied);
    }
    hand.finish(&mut sink);
    assert_eq!(sink.streams[0], b"latermore");
}

/// How far ahead a part lies is counted from what was delivered, however much that is.
#[test]
fn a_gap_near_the_end_of_a_long_stream_is_a_hole() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    hand.handshake(&mut sink);
    let part = vec![7; 60_000];
    let mut at = 0;
    while at < 9 << 20 {
        hand.segment(&mut sink, Forward, at, 0, ACK, &part);
        at += part.len() as u32;
    }
    hand.segment(&mut sink, Forward, at + 100, 0, ACK, b"end");
    let counters = hand.finish(&mut sink);
    assert_eq!(sink.holes[0], [(100, Cause::NotSeen)]);
    assert_eq!(counters.value(Counter::StreamDiscarded), 0);
}

proptest! {
    /// A plain segment is looked at once, any other one layer by layer.
    #[test]
    fn plain_segments_are_taken_as_all_others(seed in any::<u64>(), copies in any::<bool>()) {
        let mut random = Random::new(seed);
        let (mut next, mut frames) = ([1000; 2], Vec::new());
        for _ in 0..80 {
            let direction = Direction::BOTH[usize::from(random.chance(0.5))];
            let payload = vec![seed as u8; random.below(40) as usize * usize::from(random.chance(0.7))];
            let mut sequence: u32 = next[direction];
            let mut acknowledgement: u32 = next[direction.opposite()];
            let mut flags = ACK;
            match random.below(20) {
                0 => sequence -= random.below(60) as u32,
                1 => sequence += random.below(60) as u32,
                2 => acknowledgement -= random.below(60) as u32,
                3 => acknowledgement += random.below(60) as u32,
                4 => flags |= TcpFlags::PSH.0,
                5 if random.chance(0.1) => flags |= TcpFlags::FIN.0,
                _ => {}
            }
            next[direction] = next[direction].max(sequence + payload.len() as u32);
            let options: &[u8] = match random.below(10) {
                0 => &[1, 1, 5, 10, 0, 0, 0, 5, 0, 0, 0, 9],
                1..4 => &[1; 12],
                _ => &[],
            };
            let contents = (options, &payload[..]);
            let mut frame = with_options(700, direction, sequence, acknowledgement, flags, contents);
            if random.chance(0.05) {
                *frame.last_mut().expect("a header") ^= 1;
            }
            if copies && random.chance(0.1) {
                frames.push(frame.clone());
            }
            frames.push(frame);
        }
        let run = |is_raw| {
            let (mut hand, mut sink) = (Hand::new(), Recorder::default());
            if copies {
                let config = Config { duplicate_window_ns: 5 * SPACING_NS, ..config() };
                hand.engine = Engine::new(config, &hand.budget);
            }
            hand.is_raw = is_raw;
            hand.segment(&mut sink, Forward, 999, 0, SYN, b"");
            hand.segment(&mut sink, Reverse, 999, 1000, SYN | ACK, b"");
            frames.iter().for_each(|frame| hand.frame(&mut sink, frame));
            let counters = hand.finish(&mut sink);
            (sink, counters.iter().collect::<Vec<_>>())
        };
        prop_assert_eq!(run(false), run(true));
    }
}
