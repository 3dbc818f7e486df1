//! Streams beside others, and what is held of them.

use super::*;
use crate::hand::{Hand, Recorder};
use crate::simulation::{ACK, SYN};
use lineside_wire::Direction::{Forward, Reverse};
use lineside_wire::TcpFlags;
use lineside_wire::build::{FrameBuilder, TcpFields};

/// Clients of NFS take the same few ports below 1024, so that two of them often have the same one.
#[test]
fn clients_with_the_same_port_are_told_apart() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    let from = |client: u8, sequence, flags, payload: &[u8]| {
        let fields = TcpFields {
            source_port: 700,
            destination_port: 2049,
            sequence,
            flags: TcpFlags(flags),
            ..TcpFields::default()
        };
        let builder = FrameBuilder::new([10, 0, 0, client].into(), [10, 0, 0, 2].into());
        builder.tcp(&fields, payload)
    };
    let begins = [(1, 100), (3, 900_000_000)];
    for (client, sequence) in begins {
        hand.frame(&mut sink, &from(client, sequence - 1, SYN, b""));
    }
    for at in 0..3 {
        for (client, sequence) in begins {
            let sequence = sequence + 2 * at;
            let payload = [client, at as u8];
            hand.frame(&mut sink, &from(client, sequence, ACK, &payload));
        }
    }
    let counters = hand.finish(&mut sink);
    assert_eq!(counters.value(Counter::Connections), 2);
    // Direction is by address: the server's is between theirs.
    assert_eq!(sink.streams, [[1, 0, 1, 1, 1, 2], [3, 0, 3, 1, 3, 2]]);
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
