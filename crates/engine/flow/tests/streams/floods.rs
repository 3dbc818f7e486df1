//! What connections hold beside a flood of others that hold as much as they can.

use lineside_account::{Budget, Counter};
use lineside_flow::Engine;
use lineside_wire::Direction::{Forward, Reverse};

use crate::config;
use crate::hand::{Hand, Recorder};
use crate::simulation::{ACK, SYN};

const BUDGET: usize = 2 << 20;

fn hand() -> Hand {
    let mut hand = Hand::new();
    hand.budget = Budget::new(BUDGET);
    hand.engine = Engine::new(config(), &hand.budget);
    hand
}

/// The flood takes what is there for it; what is held of a connection of value waits for its gap.
#[test]
fn what_a_valued_connection_holds_outlives_a_flood() {
    let (mut hand, mut sink) = (hand(), Recorder::default());
    sink.valued_from = Some(5);
    hand.handshake(&mut sink);
    hand.segment(&mut sink, Forward, 0, 0, ACK, b"a call");
    sink.valued_from = None;
    for port in 1_000..1_150 {
        hand.port = port;
        hand.handshake(&mut sink);
        // As many as others leave room for, or more.
        for part in 1..=11 + u32::from(port % 3) {
            hand.segment(&mut sink, Forward, part * 2_000, 0, ACK, &[0; 1_400]);
        }
    }
    assert!(hand.counters.value(Counter::HeldLimit) > 0);
    assert!(hand.budget.used_bytes() > BUDGET / 8 * 7 - (16 << 10));
    let limits = hand.counters.value(Counter::HeldLimit);
    (sink.streams, sink.holes) = Default::default();
    hand.port = 700;
    for part in 1..=50 {
        hand.segment(&mut sink, Forward, 6 + part * 1_400, 0, ACK, &[b'x'; 1_400]);
    }
    assert_eq!(sink.streams[0], b"", "the first part is late");
    hand.segment(&mut sink, Forward, 6, 0, ACK, &[b'x'; 1_400]);
    assert_eq!(sink.streams[0], [b'x'; 51 * 1_400]);
    assert_eq!(sink.holes[0], []);
    assert_eq!(hand.counters.value(Counter::HeldLimit), limits);
    hand.finish(&mut sink);
}

/// Acknowledgements of bytes that are never seen are remembered, and take memory too.
#[test]
fn remembered_acknowledgements_are_drawn_and_given_back() {
    let (mut hand, mut sink) = (hand(), Recorder::default());
    hand.handshake(&mut sink);
    hand.segment(&mut sink, Forward, 0, 0, ACK, b"call");
    let before = hand.budget.used_bytes();
    for part in 1..=100 {
        hand.segment(&mut sink, Reverse, 0, 4 + part * 100, ACK, b"");
    }
    let drawn = hand.budget.used_bytes() - before;
    assert!(drawn >= 99 * 24, "{drawn} bytes");
    hand.finish(&mut sink);
}

/// A list of held parts doubles: what it has places for is drawn, not what is in it.
#[test]
fn places_of_held_parts_are_drawn() {
    let drawn = |parts: u32| {
        let (mut hand, mut sink) = (hand(), Recorder::default());
        hand.handshake(&mut sink);
        for part in 1..=parts {
            hand.segment(&mut sink, Forward, part * 2, 0, ACK, b"x");
        }
        let drawn = hand.budget.used_bytes();
        hand.finish(&mut sink);
        drawn
    };
    // As many places more, of a hundred bytes each; memory is drawn in steps of 16 KiB.
    let [full, doubled] = [1024, 1025].map(drawn);
    assert!(doubled > full + (80 << 10), "{full} and {doubled}");
}

/// A stamp may be the last one there is: no deadline that stands for never has passed then.
#[test]
fn the_last_nanosecond_ends_what_is_open_and_nothing_else() {
    let mut sink = Recorder::default();
    let mut hand = hand();
    hand.segment(&mut sink, Forward, u32::MAX, 0, SYN, b"");
    hand.port += 1;
    hand.handshake(&mut sink);
    for _ in 0..2 {
        (hand.engine).on_timer(i64::MAX, &mut sink, &mut hand.counters);
    }
    assert_eq!(sink.closed_ns.len(), 2);
    hand.finish(&mut sink);
}
