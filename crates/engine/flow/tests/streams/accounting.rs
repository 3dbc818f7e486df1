//! What an end had to do: send again, and why.

use lineside_flow::FlowCounts;
use lineside_wire::Direction::{Forward, Reverse};

use crate::hand::{Hand, Recorder};
use crate::simulation::{ACK, with_options};

/// Frames are 1 us apart, so that this many make a millisecond.
const MILLISECOND: u64 = 1_000;

fn sum(recorder: &Recorder, of: fn(&FlowCounts) -> u64) -> [u64; 2] {
    [0, 1].map(|direction| {
        let intervals = recorder.intervals.iter();
        intervals.map(|counts| of(&counts[direction])).sum()
    })
}

#[test]
fn retransmissions_are_distinguished() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    hand.handshake(&mut sink);
    for (at, data) in [(0, b"aaaa"), (4, b"bbbb"), (8, b"cccc"), (12, b"dddd")] {
        hand.segment(&mut sink, Forward, at, 0, ACK, data);
    }
    for _ in 0..3 {
        hand.frames += 2 * MILLISECOND;
        hand.segment(&mut sink, Reverse, 0, 4, ACK, b"");
    }
    hand.segment(&mut sink, Forward, 4, 0, ACK, b"bbbb");
    hand.frames += 2 * MILLISECOND;
    hand.segment(&mut sink, Reverse, 0, 8, ACK, b"");
    hand.frames += 200 * MILLISECOND;
    hand.segment(&mut sink, Forward, 8, 0, ACK, b"cccc");
    hand.segment(&mut sink, Reverse, 0, 12, ACK, b"");
    // The rest of what was sent before the timer ran out.
    hand.segment(&mut sink, Forward, 12, 0, ACK, b"dddd");
    hand.segment(&mut sink, Reverse, 0, 16, ACK, b"");
    hand.frames += 2 * MILLISECOND;
    hand.segment(&mut sink, Forward, 12, 0, ACK, b"dddd");
    let sent_again = std::mem::take(&mut sink.sent_again);
    hand.finish(&mut sink);
    assert_eq!(sum(&sink, |counts| counts.retransmissions), [4, 0]);
    assert_eq!(sum(&sink, |counts| counts.fast_retransmissions), [1, 0]);
    assert_eq!(sum(&sink, |counts| counts.timeout_retransmissions), [2, 0]);
    assert_eq!(sum(&sink, |counts| counts.spurious_retransmissions), [1, 0]);
    assert_eq!(sum(&sink, |counts| counts.out_of_order_packets), [0, 0]);
    assert_eq!(sum(&sink, |counts| counts.duplicate_acks)[1], 2);
    // All of them had passed the tap before.
    let expected = [
        (Forward, -12, None),
        (Forward, -8, None),
        (Forward, -4, None),
    ];
    assert_eq!(sent_again, expected);
}

#[test]
fn one_report_of_a_second_arrival_is_of_several_segments() {
    let spurious = |until: u32| {
        let (mut hand, mut sink) = (Hand::new(), Recorder::default());
        hand.handshake(&mut sink);
        for turn in 0..2 {
            hand.frames += turn * 200 * MILLISECOND;
            for (at, data) in [(0, b"aaaa"), (4, b"bbbb"), (8, b"cccc")] {
                hand.segment(&mut sink, Forward, at, 0, ACK, data);
            }
        }
        selective(&mut hand, &mut sink, 12, [0, until], b"");
        hand.finish(&mut sink);
        assert_eq!(sum(&sink, |counts| counts.retransmissions), [3, 0]);
        sum(&sink, |counts| counts.spurious_retransmissions)
    };
    assert_eq!(spurious(4), [1, 0]);
    assert_eq!(spurious(7), [2, 0]);
    assert_eq!(spurious(12), [3, 0]);
}

/// A segment of the answering end with a block of a SACK option, without timestamps.
fn selective(hand: &mut Hand, sink: &mut Recorder, ack: u32, block: [u32; 2], data: &[u8]) {
    let mut options = vec![1, 1, 5, 10];
    { block.iter() }.for_each(|edge| options.extend(edge.to_be_bytes()));
    let at = hand.port;
    let bytes = with_options(at, Reverse, 0, ack, ACK, (&options, data));
    hand.frame(sink, &bytes);
}

#[test]
fn data_that_report_a_second_arrival_are_read() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    hand.handshake(&mut sink);
    hand.segment(&mut sink, Forward, 0, 0, ACK, b"aaaa");
    hand.frames += 200 * MILLISECOND;
    hand.segment(&mut sink, Forward, 0, 0, ACK, b"aaaa");
    hand.segment(&mut sink, Reverse, 0, 4, ACK, b"");
    selective(&mut hand, &mut sink, 4, [0, 4], b"reply");
    hand.finish(&mut sink);
    assert_eq!(sum(&sink, |counts| counts.retransmissions), [1, 0]);
    assert_eq!(sum(&sink, |counts| counts.spurious_retransmissions), [1, 0]);
}

#[test]
fn blocks_that_came_with_data_are_the_newest() {
    let fast = |newest: [u32; 2]| {
        let (mut hand, mut sink) = (Hand::new(), Recorder::default());
        hand.handshake(&mut sink);
        for (at, data) in [(0, b"aaaa"), (4, b"bbbb"), (8, b"cccc"), (12, b"dddd")] {
            hand.segment(&mut sink, Forward, at, 0, ACK, data);
        }
        hand.segment(&mut sink, Reverse, 0, 4, ACK, b"");
        for _ in 0..3 {
            selective(&mut hand, &mut sink, 4, [8, 12], b"");
        }
        selective(&mut hand, &mut sink, 4, newest, b"reply");
        hand.segment(&mut sink, Forward, 12, 5, ACK, b"dddd");
        hand.finish(&mut sink);
        assert_eq!(sum(&sink, |counts| counts.retransmissions), [1, 0]);
        sum(&sink, |counts| counts.fast_retransmissions)
    };
    // The receiver has what is sent again, so that nothing asks for it.
    assert_eq!(fast([8, 16]), [0, 0]);
    assert_eq!(fast([8, 12]), [1, 0]);
}

#[test]
fn late_segments_were_overtaken_or_sent_again() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    hand.handshake(&mut sink);
    // The handshake took 2 us: within that time, one segment overtook another.
    hand.segment(&mut sink, Forward, 4, 0, ACK, b"bbbb");
    hand.segment(&mut sink, Forward, 0, 0, ACK, b"aaaa");
    hand.segment(&mut sink, Forward, 12, 0, ACK, b"dddd");
    let since_ns = hand.frames as i64 * 1_000;
    hand.frames += 5 * MILLISECOND;
    hand.segment(&mut sink, Forward, 8, 0, ACK, b"cccc");
    assert_eq!(sink.sent_again, [(Forward, 0, Some(since_ns))]);
    hand.finish(&mut sink);
    assert_eq!(sum(&sink, |counts| counts.out_of_order_packets), [1, 0]);
    assert_eq!(sum(&sink, |counts| counts.retransmissions), [1, 0]);
}

#[test]
fn peaks_are_those_of_the_clocks_milliseconds() {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    let begin = 10 * MILLISECOND;
    for (at, frame) in [
        (0, begin),
        (4, begin + 1),
        (8, begin + 999),
        (12, begin + 1_500),
    ] {
        hand.frames = frame - 1;
        hand.segment(&mut sink, Forward, at, 0, ACK, b"data");
    }
    hand.finish(&mut sink);
    // Each frame has 60 bytes, the least of Ethernet's. The intervals of this test are 16 us long.
    let peaks: Vec<u64> = { sink.intervals.iter() }
        .map(|counts| counts[0].peak_1ms_bytes)
        .collect();
    let bytes = sink.intervals[0][0].peak_1s_bytes / 2;
    assert_eq!(peaks, [2 * bytes, bytes, bytes]);
    assert_eq!(sum(&sink, |counts| counts.segment_max_bytes), [12, 0]);
}

/// The answering end's window holds 65,535 bytes, and a segment 500; the initiator leaves it
/// `room`, the rest is left to `then`. How often the initiator waited.
fn waits(room: u32, then: fn(&mut Hand, &mut Recorder, u32)) -> u64 {
    let (mut hand, mut sink) = (Hand::new(), Recorder::default());
    hand.handshake(&mut sink);
    let data = [0; 500];
    let mut at = 0;
    while at + room < 65_535 {
        let len = (65_535 - room - at).min(500);
        hand.segment(&mut sink, Forward, at, 0, ACK, &data[..len as usize]);
        at += len;
    }
    hand.frames += 2 * MILLISECOND;
    then(&mut hand, &mut sink, at);
    hand.finish(&mut sink);
    let [forward, reverse] = sum(&sink, |counts| counts.window_waits);
    assert_eq!(reverse, 0);
    forward
}

#[test]
fn a_sender_waits_for_room_if_it_goes_on_when_there_is_some() {
    let at_once = |hand: &mut Hand, sink: &mut Recorder, at: u32| {
        hand.segment(sink, Reverse, 0, at, ACK, b"");
        hand.segment(sink, Forward, at, 0, ACK, &[1; 500]);
    };
    assert_eq!(waits(499, at_once), 1);
    assert_eq!(waits(0, at_once), 1);
    assert_eq!(waits(500, at_once), 0, "a segment had room");
    let later = |hand: &mut Hand, sink: &mut Recorder, at: u32| {
        hand.segment(sink, Reverse, 0, at, ACK, b"");
        hand.frames += 2 * MILLISECOND;
        hand.segment(sink, Forward, at, 0, ACK, &[1; 500]);
    };
    assert_eq!(waits(100, later), 0, "the message was at its end");
    let answers = |hand: &mut Hand, sink: &mut Recorder, at: u32| {
        hand.segment(sink, Reverse, 0, at, ACK, b"");
        hand.segment(sink, Reverse, 0, at, ACK, b"reply");
        hand.segment(sink, Forward, at, 5, ACK, &[1; 500]);
    };
    assert_eq!(
        waits(100, answers),
        0,
        "the reply may be what it waited for"
    );
    let fills = |hand: &mut Hand, sink: &mut Recorder, at: u32| {
        hand.segment(sink, Forward, at, 0, ACK, &[1; 60]);
        hand.segment(sink, Reverse, 0, at + 60, ACK, b"");
        hand.segment(sink, Forward, at + 60, 0, ACK, &[1; 500]);
    };
    assert_eq!(waits(100, fills), 1, "the first went without waiting");
}

#[test]
fn a_sender_that_is_asked_again_does_not_wait_for_room() {
    let lost = |hand: &mut Hand, sink: &mut Recorder, at: u32| {
        for _ in 0..3 {
            hand.segment(sink, Reverse, 0, 500, ACK, b"");
        }
        // What is left of the window that the loss keeps from moving.
        hand.segment(sink, Forward, at, 0, ACK, &[1; 500]);
        hand.segment(sink, Reverse, 0, at, ACK, b"");
        hand.segment(sink, Forward, at + 500, 0, ACK, &[1; 500]);
    };
    assert_eq!(waits(600, lost), 0);
}
