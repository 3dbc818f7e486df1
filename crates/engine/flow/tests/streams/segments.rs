//! Segments by hand: what is delivered, held, counted and given up.

use lineside_account::Counter;
use lineside_flow::{Config, Engine};
use lineside_frame::Cause;
use lineside_wire::Direction::{self, Forward, Reverse};

use crate::hand::{Hand, Recorder};
use crate::simulation::{ACK, FIN, LATE_SEGMENTS, SYN};
use crate::{SPACING_NS, config};

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
        let last_ns = Some(hand.frames as i64 * SPACING_NS);
        let counters = hand.finish(&mut sink);
        assert_eq!(
            counters.value(Counter::StreamLost),
            lost,
            "{acknowledgements:?}"
        );
        let expected = if lost > 0 { vec![last_ns] } else { vec![] };
        assert_eq!(sink.lost_ns, expected, "when the connection was seen last");
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
        // SYN and answer, and answer and acknowledgement, give one each.
        assert_eq!(sink.rtt_samples, 2 + u64::from(!again));
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
    // The bound that was hit, and no other.
    assert_eq!(counters.value(Counter::FlowHeldLimit), 1);
    assert_eq!(counters.value(Counter::HeldLimit), 0);
}

#[test]
fn a_stream_for_which_memory_is_short_says_so() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    hand.handshake(&mut sink);
    let taken = hand
        .budget
        .lease(hand.budget.limit_bytes() - hand.budget.used_bytes())
        .expect("it is free");
    hand.segment(&mut sink, Forward, 4, 0, ACK, b"0123456789");
    assert_eq!(sink.holes[0], [(4, Cause::GivenUp)]);
    drop(taken);
    let counters = hand.finish(&mut sink);
    assert_eq!(counters.value(Counter::FlowHeldLimit), 0);
    assert_eq!(counters.value(Counter::HeldLimit), 1);
}

/// The network lost a segment before the tap, which missed a reply too.
#[test]
fn a_retransmission_waits_for_no_newer_acknowledgement() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    hand.handshake(&mut sink);
    hand.segment(&mut sink, Forward, 4, 0, ACK, b"next");
    hand.segment(&mut sink, Reverse, 5, 0, ACK, b"other");
    hand.segment(&mut sink, Forward, 0, 10, ACK, b"call");
    assert_eq!(sink.order, [(Forward, 4), (Forward, 4)]);
    assert_eq!(sink.streams[0], b"callnext");
}

#[test]
fn a_stray_of_which_the_other_side_says_nothing_makes_no_hole() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    hand.handshake(&mut sink);
    hand.segment(&mut sink, Forward, 0, 0, ACK, b"call");
    hand.segment(&mut sink, Forward, 2 << 20, 0, ACK, b"stray");
    for at in 0..2 * LATE_SEGMENTS as u32 {
        hand.segment(&mut sink, Reverse, at, 4 + at, ACK, b"r");
        hand.segment(&mut sink, Forward, 4 + at, at + 1, ACK, b"c");
    }
    let counters = hand.finish(&mut sink);
    assert_eq!(sink.holes, [[], []]);
    assert_eq!(counters.value(Counter::StreamDiscarded), 5);
}

/// Queues of one port are read in turn, and their stamps are right: only these decide.
#[test]
fn segments_are_late_by_their_stamps_and_not_by_their_turn() {
    for (lag_ns, count) in [(2 * SPACING_NS, 0), (0, 1)] {
        let (mut hand, mut sink) = (Hand::new(), Recorder::default());
        hand.handshake(&mut sink);
        hand.segment(&mut sink, Reverse, 0, 4, ACK, b"reply");
        hand.lag_ns = lag_ns;
        hand.segment(&mut sink, Forward, 0, 0, ACK, b"call");
        let counters = hand.finish(&mut sink);
        assert_eq!(counters.value(Counter::SegmentsAfterAcknowledgement), count);
    }
}

/// What an end says of itself before its first byte shows what the tap missed of it.
#[test]
fn a_joined_stream_begins_where_its_end_stood() {
    for (stood, begins, lost) in [
        (0, 100, 100),
        (100, 100, 0),
        // A keep-alive stands one place before.
        (99, 100, 0),
        // Of a segment that was late.
        (104, 100, 0),
    ] {
        let (mut hand, mut sink) = (Hand::new(), Recorder::default());
        hand.segment(&mut sink, Reverse, stood, 7_000, ACK, b"");
        hand.segment(&mut sink, Forward, 7_000, begins, ACK, b"call");
        hand.segment(&mut sink, Reverse, begins, 7_004, ACK, b"reply");
        hand.segment(&mut sink, Forward, 7_004, begins + 5, ACK, b"");
        let counters = hand.finish(&mut sink);
        assert_eq!(counters.value(Counter::StreamLost), lost, "{stood}");
        assert_eq!(sink.streams[1], b"reply");
    }
    // The SYN of one end alone: what the other one acknowledges first is where it begins.
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    hand.segment(&mut sink, Forward, u32::MAX, 0, SYN, b"");
    hand.segment(&mut sink, Forward, 0, 0, ACK, b"call");
    hand.segment(&mut sink, Reverse, 100, 4, ACK, b"reply");
    hand.segment(&mut sink, Forward, 4, 105, ACK, b"");
    assert_eq!(hand.finish(&mut sink).value(Counter::StreamLost), 100);
}

#[test]
fn a_last_acknowledgement_of_what_never_came_is_counted() {
    for (acknowledgements, count) in [
        (&[4, 104][..], 1),
        // It was a wrong one.
        (&[104, 4], 0),
        // A FIN that was not seen.
        (&[4, 5], 0),
    ] {
        let (mut hand, mut sink) = (Hand::new(), Recorder::default());
        hand.handshake(&mut sink);
        hand.segment(&mut sink, Reverse, 0, 0, ACK, b"data");
        for &acknowledgement in acknowledgements {
            hand.segment(&mut sink, Forward, 0, acknowledgement, ACK, b"");
        }
        let counters = hand.finish(&mut sink);
        let counted = counters.value(Counter::AcknowledgedAtLast);
        assert_eq!(counted, count, "{acknowledgements:?}");
        assert_eq!(counters.value(Counter::StreamLost), 0);
    }
}

/// All of a direction comes after it was acknowledged, its SYN too.
#[test]
fn a_direction_that_is_late_as_a_whole_is_noticed() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    hand.segment(&mut sink, Reverse, u32::MAX, 0, SYN | ACK, b"");
    hand.segment(&mut sink, Reverse, 0, 4, ACK, b"reply");
    hand.segment(&mut sink, Forward, u32::MAX, 0, SYN, b"");
    hand.segment(&mut sink, Forward, 0, 0, ACK, b"call");
    let counters = hand.finish(&mut sink);
    assert_eq!(sink.streams[0], b"call");
    assert_eq!(counters.value(Counter::SegmentsAfterAcknowledgement), 1);
}
