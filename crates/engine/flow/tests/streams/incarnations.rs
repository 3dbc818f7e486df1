//! Where one connection of a four-tuple ends and the next one begins.

use lineside_account::Counter;
use lineside_flow::{Config, Engine};
use lineside_frame::Cause;
use lineside_wire::Direction::{Forward, Reverse};

use crate::hand::{Hand, Recorder};
use crate::simulation::{ACK, FIN, LATE_SEGMENTS, RST, SYN};
use crate::{SPACING_NS, config};

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
fn a_syn_that_contradicts_held_data_opens_another_connection() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    hand.segment(&mut sink, Forward, 1000, 1, ACK, b"later");
    hand.segment(&mut sink, Forward, 900, 1, ACK, b"earlier");
    hand.segment(&mut sink, Forward, 949, 0, SYN, b"");
    hand.segment(&mut sink, Reverse, 49, 950, SYN | ACK, b"");
    let counters = hand.finish(&mut sink);
    assert_eq!(sink.streams[0], b"earlierlater");
    assert_eq!(counters.value(Counter::ConnectionsReused), 1);
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

/// Frames after which this many seconds have passed.
fn seconds(seconds: u64) -> u64 {
    seconds * 1_000_000_000 / SPACING_NS as u64
}

/// A call and its reply, and perhaps the end.
fn conversation(hand: &mut Hand, sink: &mut Recorder) {
    hand.handshake(sink);
    hand.segment(sink, Forward, 0, 0, ACK, b"call");
    hand.segment(sink, Reverse, 0, 4, ACK, b"reply");
}

#[test]
fn the_same_number_begins_anew_after_an_end_or_a_minute() {
    for (ends, pause, connections) in [
        (
            &[(Forward, 4, FIN | ACK), (Reverse, 5, FIN | ACK)][..],
            0,
            2,
        ),
        (&[(Reverse, 5, RST)], 0, 2),
        (&[], 61, 2),
        // Another tap's copy of the SYN, late.
        (&[], 1, 1),
    ] {
        let (mut hand, mut sink) = (Hand::new(), Recorder::default());
        conversation(&mut hand, &mut sink);
        for &(direction, sequence, flags) in ends {
            hand.segment(&mut sink, direction, sequence, 9 - sequence, flags, b"");
        }
        hand.frames += seconds(pause);
        conversation(&mut hand, &mut sink);
        let counters = hand.finish(&mut sink);
        assert_eq!(
            counters.value(Counter::Connections),
            connections,
            "{ends:?}"
        );
        let times = connections as usize;
        assert_eq!(sink.streams[0], b"call".repeat(times), "{ends:?}");
        assert_eq!(sink.streams[1], b"reply".repeat(times), "{ends:?}");
        assert_eq!(sink.holes, [[], []]);
        assert_eq!(counters.broken_identity(), None);
    }
}

/// The network kept copies of the first segments until both ends had closed; data of the beginning
/// may still be missing.
#[test]
fn a_late_copy_of_the_syn_after_both_fins_begins_nothing() {
    for first_is_late in [true, false] {
        let (mut hand, mut sink) = (Hand::new(), Recorder::default());
        hand.handshake(&mut sink);
        if !first_is_late {
            hand.segment(&mut sink, Forward, 0, 0, ACK, b"ca");
        }
        hand.segment(&mut sink, Forward, 2, 0, ACK | FIN, b"ll");
        hand.segment(&mut sink, Reverse, 0, 0, ACK | FIN, b"reply");
        hand.segment(&mut sink, Forward, u32::MAX, 0, SYN, b"");
        // A challenge, then what the connection missed or had.
        hand.segment(&mut sink, Reverse, 6, 0, ACK, b"");
        hand.segment(&mut sink, Forward, 0, 0, ACK, b"ca");
        hand.segment(&mut sink, Forward, 2, 0, ACK | FIN, b"ll");
        hand.segment(&mut sink, Reverse, 6, 5, ACK, b"");
        let counters = hand.finish(&mut sink);
        assert_eq!(counters.value(Counter::Connections), 1, "{first_is_late}");
        assert_eq!(sink.streams[0], b"call", "{first_is_late}");
        assert_eq!(sink.streams[1], b"reply");
        assert_eq!(sink.holes, [[], []]);
        assert_eq!(counters.value(Counter::StreamDiscarded), 0);
        assert_eq!(counters.broken_identity(), None);
    }
}

#[test]
fn late_copies_far_behind_begin_nothing() {
    const MISSED: u32 = 300 << 20;
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    hand.handshake(&mut sink);
    hand.segment(&mut sink, Forward, 0, 0, ACK, b"call");
    for (at, payload) in [(0, b"next"), (4, b"last")] {
        hand.segment(&mut sink, Forward, at + MISSED, 0, ACK, payload);
    }
    hand.segment(&mut sink, Forward, 8 + MISSED, 0, ACK | FIN, b"");
    hand.segment(&mut sink, Reverse, 0, MISSED + 9, ACK | FIN, b"");
    hand.segment(&mut sink, Forward, u32::MAX, 0, SYN, b"");
    hand.segment(&mut sink, Forward, 0, 0, ACK, b"call");
    let counters = hand.finish(&mut sink);
    assert_eq!(sink.streams[0], b"callnextlast");
    assert_eq!(counters.value(Counter::Connections), 1);
    assert_eq!(counters.broken_identity(), None);
}

#[test]
fn a_syn_repeated_before_data_is_the_same_connection() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    for pause in [1, 2, 64] {
        hand.segment(&mut sink, Forward, u32::MAX, 0, SYN, b"");
        hand.frames += seconds(pause);
    }
    let mut hand_over = Hand::new();
    std::mem::swap(&mut hand, &mut hand_over);
    // Unanswered for more than a minute, it is given up: nothing was in it.
    assert_eq!(hand_over.finish(&mut sink).value(Counter::Connections), 1);
    for _ in 0..3 {
        hand.segment(&mut sink, Forward, u32::MAX, 0, SYN, b"");
        hand.segment(&mut sink, Reverse, u32::MAX, 0, SYN | ACK, b"");
    }
    conversation(&mut hand, &mut sink);
    let counters = hand.finish(&mut sink);
    assert_eq!(counters.value(Counter::Connections), 1);
    assert_eq!(sink.streams[0], b"call");
}

/// RFC 5961, section 4.2: the other end answers with an ACK of what it has.
#[test]
fn a_stray_syn_that_is_challenged_ends_nothing() {
    for (joined, sequence) in [(false, 900), (false, 500_000_000), (true, 900)] {
        let (mut hand, mut sink) = (Hand::new(), Recorder::default());
        if joined {
            hand.segment(&mut sink, Forward, 0, 0, ACK, b"call");
            hand.segment(&mut sink, Reverse, 0, 4, ACK, b"reply");
        } else {
            conversation(&mut hand, &mut sink);
        }
        hand.segment(&mut sink, Forward, sequence, 0, SYN, b"");
        hand.segment(&mut sink, Reverse, 5, 4, ACK, b"");
        hand.segment(&mut sink, Forward, 4, 5, ACK, b"more");
        hand.segment(&mut sink, Reverse, 5, 8, ACK, b"again");
        let counters = hand.finish(&mut sink);
        assert_eq!(counters.value(Counter::Connections), 1, "{sequence}");
        assert_eq!(sink.streams[0], b"callmore");
        assert_eq!(sink.streams[1], b"replyagain");
        assert_eq!(sink.holes, [[], []]);
        assert_eq!(counters.broken_identity(), None);
    }
}

/// The old connection was never closed, or the tap missed it. Near numbers and far ones, with data
/// in the SYN or after it.
#[test]
fn a_syn_that_is_answered_begins_the_next_connection() {
    for sequence in [900, 100_000, 500_000_000] {
        for carries in [false, true] {
            let (mut hand, mut sink) = (Hand::new(), Recorder::default());
            conversation(&mut hand, &mut sink);
            let first = sequence + 1;
            let (in_syn, after): (&[u8], &[u8]) = match carries {
                true => (b"ne", b"w"),
                false => (b"", b"new"),
            };
            let next = first + in_syn.len() as u32;
            hand.segment(&mut sink, Forward, sequence, 0, SYN, in_syn);
            hand.segment(&mut sink, Reverse, 7_000, next, SYN | ACK, b"");
            hand.segment(&mut sink, Forward, next, 7_001, ACK, after);
            hand.segment(&mut sink, Reverse, 7_001, first + 3, ACK, b"fresh");
            let counters = hand.finish(&mut sink);
            assert_eq!(counters.value(Counter::Connections), 2, "{sequence}");
            assert_eq!(sink.streams[0], b"callnew", "{sequence} {carries}");
            assert_eq!(sink.streams[1], b"replyfresh");
            assert_eq!(sink.holes, [[], []]);
            assert_eq!(counters.value(Counter::StreamDiscarded), 0);
            assert_eq!(counters.broken_identity(), None);
        }
    }
}

/// RFC 7413: a server takes the data of the SYN or leaves them.
#[test]
fn data_in_a_syn_are_acknowledged_with_it() {
    for (acknowledged, again) in [(4, &b""[..]), (0, b"call")] {
        let (mut hand, mut sink) = (Hand::new(), Recorder::default());
        hand.segment(&mut sink, Forward, u32::MAX, 0, SYN, b"call");
        hand.segment(&mut sink, Reverse, u32::MAX, acknowledged, SYN | ACK, b"");
        hand.segment(&mut sink, Forward, acknowledged, 0, ACK, again);
        // The answer was lost behind the tap, and came again.
        hand.segment(&mut sink, Forward, u32::MAX, 0, SYN, b"");
        hand.segment(&mut sink, Reverse, u32::MAX, acknowledged, SYN | ACK, b"");
        hand.segment(&mut sink, Reverse, 0, 4, ACK, b"reply");
        hand.segment(&mut sink, Forward, 4, 5, ACK, b"more");
        let counters = hand.finish(&mut sink);
        assert_eq!(counters.value(Counter::Connections), 1);
        assert_eq!(sink.streams[0], b"callmore");
        assert_eq!(sink.streams[1], b"reply");
    }
}

#[test]
fn silence_of_hours_ends_no_sequence_numbers() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    conversation(&mut hand, &mut sink);
    hand.frames += seconds(5 * 3600);
    let now_ns = hand.frames as i64 * SPACING_NS;
    hand.engine.on_timer(now_ns, &mut sink, &mut hand.counters);
    hand.segment(&mut sink, Forward, 104, 5, ACK, b"more");
    for _ in 0..2 * LATE_SEGMENTS {
        hand.segment(&mut sink, Reverse, 5, 108, ACK, b"");
    }
    let counters = hand.finish(&mut sink);
    assert_eq!(counters.value(Counter::Connections), 1);
    assert_eq!(sink.holes[0], [(100, Cause::NotSeen)]);
    assert_eq!(sink.streams[0], b"callmore");
}

/// Whatever is called between frames: the frames' times alone close connections, the one that is
/// over first before the others.
#[test]
fn connections_are_closed_when_they_are_over() {
    for timers in [0, 1, 7] {
        let (mut hand, mut sink) = (Hand::new(), Recorder::default());
        conversation(&mut hand, &mut sink);
        let mut expected = Vec::new();
        for (port, flags) in [(801, FIN), (802, RST), (803, 0), (804, FIN)] {
            hand.port = port;
            hand.handshake(&mut sink);
            hand.segment(&mut sink, Forward, 0, 0, ACK | flags, b"");
            if flags == FIN {
                hand.segment(&mut sink, Reverse, 0, 1, ACK | FIN, b"");
                hand.frames += seconds(1);
                // The last acknowledgement puts it off.
                hand.segment(&mut sink, Forward, 1, 1, ACK, b"");
            }
            let (timeout, now_ns) = (if flags == 0 { 3600 } else { 60 }, sink.now);
            expected.push(now_ns + timeout * 1_000_000_000 + 1);
        }
        hand.port = 700;
        for _ in 0..10 {
            hand.frames += seconds(400);
            for _ in 0..timers {
                let now_ns = hand.frames as i64 * SPACING_NS;
                hand.engine.on_timer(now_ns, &mut sink, &mut hand.counters);
            }
            hand.segment(&mut sink, Forward, 4, 5, ACK, b"");
        }
        expected.sort_unstable();
        assert_eq!(sink.closed_ns, expected, "{timers} timers");
        hand.finish(&mut sink);
    }
}

/// A flood of SYNs takes the places of what nobody answered, and no mount's.
#[test]
fn half_open_connections_go_before_those_in_use() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    let bounded = Config {
        connections_max: 8,
        ..config()
    };
    hand.engine = Engine::new(bounded, &hand.budget);
    conversation(&mut hand, &mut sink);
    for port in 1_000..1_100 {
        hand.port = port;
        hand.segment(&mut sink, Forward, u32::MAX, 0, SYN, b"");
    }
    hand.port = 800;
    conversation(&mut hand, &mut sink);
    hand.port = 700;
    hand.segment(&mut sink, Forward, 4, 5, ACK, b"more");
    let counters = hand.finish(&mut sink);
    assert_eq!(sink.streams[0], b"callcallmore");
    assert_eq!(counters.value(Counter::Connections), 102);
    assert_eq!(counters.value(Counter::ConnectionsLimit), 94);
    assert_eq!(counters.value(Counter::DroppedConnections), 0);
}

/// A connection of which one SYN was seen is small, in an order that no other one disturbs, and has
/// the state of any other as soon as more of it comes.
#[test]
fn half_open_connections_take_256_bytes_each() {
    const FLOOD: u16 = 1_000;
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    let one_interval = Config {
        interval_ns: 60_000_000_000,
        ..config()
    };
    hand.engine = Engine::new(one_interval, &hand.budget);
    let before = hand.budget.used_bytes();
    for port in 1_000..1_000 + FLOOD {
        hand.port = port;
        hand.segment(&mut sink, Forward, u32::MAX, 0, SYN, b"");
    }
    // The table of duplicates is one for all.
    let flood = hand.budget.used_bytes() - before;
    hand.port = 700;
    hand.segment(&mut sink, Forward, u32::MAX, 0, SYN, b"");
    let each = hand.budget.used_bytes() - before - flood;
    assert!(each <= 256, "{each} bytes");
    assert_eq!(hand.budget.peak_bytes() - before, flood + each);
    assert!(sink.intervals.is_empty());
    // The middle, the end and the beginning of the list become connections.
    for port in [1_000 + FLOOD / 2, 700, 1_000] {
        hand.port = port;
        hand.segment(&mut sink, Reverse, u32::MAX, 0, SYN | ACK, b"");
        hand.segment(&mut sink, Forward, 0, 0, ACK, b"call");
    }
    let counters = hand.finish(&mut sink);
    assert_eq!(sink.streams[0], b"callcallcall");
    let packets = |counts: &[lineside_flow::FlowCounts; 2]| counts[0].packets + counts[1].packets;
    let of_three = sink.intervals.iter().filter(|counts| packets(counts) == 3);
    assert_eq!(of_three.count(), 3);
    assert_eq!(sink.intervals.len(), usize::from(FLOOD) + 1);
    assert_eq!(counters.value(Counter::Connections), u64::from(FLOOD) + 1);
    assert_eq!(counters.value(Counter::ConnectionsLimit), 0);
    assert_eq!(counters.broken_identity(), None);
}

/// Whatever is opened beside them, what the sink values stays, however long it rests.
#[test]
fn a_flood_of_requests_costs_no_valued_connection() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    hand.budget = lineside_account::Budget::new(4 << 20);
    hand.engine = Engine::new(config(), &hand.budget);
    sink.valued_from = Some(5);
    for port in 700..720 {
        hand.port = port;
        conversation(&mut hand, &mut sink);
    }
    for port in 1_000..11_000 {
        hand.port = port;
        hand.handshake(&mut sink);
        hand.segment(&mut sink, Forward, 0, 0, ACK, b"GET");
    }
    sink.streams[0].clear();
    for port in 700..720 {
        hand.port = port;
        hand.segment(&mut sink, Forward, 4, 5, ACK, b"more");
    }
    assert!(hand.budget.used_bytes() <= (4 << 20) / 2, "a share of it");
    let counters = hand.finish(&mut sink);
    assert_eq!(sink.streams[0], b"more".repeat(20));
    assert_eq!(counters.value(Counter::Connections), 10_020);
    assert_eq!(counters.value(Counter::ValuedLimit), 0);
    assert!(counters.value(Counter::IdleLimit) > 9_000);
    assert_eq!(counters.broken_identity(), None);
}
