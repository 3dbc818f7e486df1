//! A tap on both sides of a firewall that draws initial sequence numbers anew, and what only looks
//! like that.

use lineside_account::Counter;
use lineside_wire::Direction::{self, Forward, Reverse};

use crate::SPACING_NS;
use crate::hand::{Hand, Recorder};
use crate::simulation::{ACK, RST, SYN};

type Part<'a> = (Direction, u32, u32, u8, &'a [u8]);

fn heard(parts: &[Part<'_>]) -> (Hand, Recorder) {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    for &(direction, sequence, acknowledgement, flags, payload) in parts {
        hand.segment(
            &mut sink,
            direction,
            sequence,
            acknowledgement,
            flags,
            payload,
        );
    }
    (hand, sink)
}

/// What the client says, then what the server answers, each on both sides.
#[test]
fn both_sides_of_a_firewall_are_one_connection() {
    let (hand, mut sink) = heard(&[
        (Forward, u32::MAX, 0, SYN, b""),
        (Forward, 900, 0, SYN, b""),
        (Reverse, 700_000_000, 901, SYN | ACK, b""),
        (Reverse, u32::MAX, 0, SYN | ACK, b""),
        (Forward, 0, 0, ACK, b"call"),
        (Forward, 901, 700_000_001, ACK, b"call"),
        (Reverse, 700_000_001, 905, ACK, b"reply"),
        (Reverse, 0, 4, ACK, b"reply"),
    ]);
    let counters = hand.finish(&mut sink);
    assert_eq!(counters.value(Counter::Connections), 1);
    assert_eq!(sink.streams, [&b"call"[..], b"reply"]);
    assert_eq!(sink.holes, [[], []]);
    assert_eq!(counters.broken_identity(), None);
}

/// The first SYN is lost, or its client has given it up.
#[test]
fn a_client_that_asks_again_at_once_opens_another_connection() {
    let reset: &[Part<'_>] = &[(Forward, 0, 0, RST, b"")];
    let answered: &[Part<'_>] = &[(Reverse, u32::MAX, 0, SYN | ACK, b"")];
    for between in [&[][..], reset, &[answered, reset].concat()] {
        for after in [ACK, RST] {
            let next = [
                (Forward, 900, 0, SYN, &b""[..]),
                (Reverse, 7_000, 901, SYN | ACK, b""),
                (Forward, 901, 7_001, ACK, b"new"),
                (Reverse, 7_001, 904, ACK, b"fresh"),
                (Forward, 904, 7_006, after, b""),
            ];
            let first = [(Forward, u32::MAX, 0, SYN, &b""[..])];
            let (hand, mut sink) = heard(&[&first, between, &next[..]].concat());
            let counters = hand.finish(&mut sink);
            assert_eq!(counters.value(Counter::Connections), 2, "{between:?}");
            assert_eq!(sink.streams, [&b"new"[..], b"fresh"], "{between:?}");
            assert_eq!(sink.holes, [[], []], "{between:?}");
            assert_eq!(counters.broken_identity(), None);
        }
    }
}

/// One that nobody answered goes on asking, with the other number.
#[test]
fn a_number_that_is_asked_with_again_opens_a_connection() {
    let syn = |sequence| (Forward, sequence, 0, SYN, &b""[..]);
    let (mut hand, mut sink) = heard(&[syn(u32::MAX), syn(900)]);
    hand.frames += 1_000_000_000 / SPACING_NS as u64;
    hand.segment(&mut sink, Forward, 900, 0, SYN, b"");
    hand.segment(&mut sink, Reverse, 7_000, 901, SYN | ACK, b"");
    hand.segment(&mut sink, Forward, 901, 7_001, ACK, b"new");
    let counters = hand.finish(&mut sink);
    assert_eq!(counters.value(Counter::Connections), 2);
    assert_eq!(sink.streams[0], b"new");
    assert_eq!(counters.broken_identity(), None);
}

/// Two servers answer, and the client goes on with the second: that is missing, and said so.
#[test]
fn copies_of_what_never_comes_are_a_hole() {
    let (hand, mut sink) = heard(&[
        (Forward, u32::MAX, 0, SYN, b""),
        (Reverse, u32::MAX, 0, SYN | ACK, b""),
        (Reverse, 700_000_000, 0, SYN | ACK, b""),
        (Forward, 0, 700_000_001, ACK, b"call"),
        (Reverse, 700_000_001, 4, ACK, b"reply"),
    ]);
    let counters = hand.finish(&mut sink);
    assert_eq!(counters.value(Counter::Connections), 1);
    assert_eq!(sink.streams, [b"", b""]);
    assert_eq!(counters.value(Counter::StreamLost), 4 + 5);
    assert_eq!(counters.value(Counter::HolesNotSeen), 2);
    assert_eq!(counters.broken_identity(), None);

    let (mut hand, mut sink) = heard(&[
        (Forward, u32::MAX, 0, SYN, b""),
        (Reverse, u32::MAX, 0, SYN | ACK, b""),
        (Reverse, 700_000_000, 0, SYN | ACK, b""),
        (Forward, 0, 700_000_001, ACK, b"call"),
        (Reverse, 700_000_001, 4, ACK, b"reply"),
    ]);
    hand.frames += 1_000_000_000 / SPACING_NS as u64;
    hand.segment(&mut sink, Reverse, 700_000_006, 4, ACK, b"again");
    hand.segment(&mut sink, Reverse, 700_000_011, 4, ACK, b"more");
    let counters = hand.finish(&mut sink);
    assert!(counters.value(Counter::StreamLost) > 9);
    assert_eq!(sink.streams[1], b"againmore");
    assert_eq!(counters.broken_identity(), None);
}
