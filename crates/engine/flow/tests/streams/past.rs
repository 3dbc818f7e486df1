//! Segments whose timestamps are older than what their end has shown (PAWS, RFC 7323 5), and
//! segments ahead that nobody acknowledges.

use lineside_account::{Counter, Counters};
use lineside_frame::Cause;
use lineside_wire::Direction::{self, Forward, Reverse};
use lineside_wire::tcp::{SackBlocks, TcpOption};

use crate::hand::{Hand, Recorder};
use crate::simulation::{ACK, FIN, SYN, with_options};

const LINE: usize = 10;

/// A connection whose ends stamp their segments.
struct Talk {
    hand: Hand,
    sink: Recorder,
    clock: u32,
    /// The options begin with the timestamp, not with two no-operations.
    is_unusual: bool,
}

impl Talk {
    fn new(is_raw: bool, clock: u32) -> Self {
        let mut talk = Self {
            hand: Hand::new(),
            sink: Recorder::default(),
            clock,
            is_unusual: false,
        };
        talk.hand.is_raw = is_raw;
        talk.send(Forward, u32::MAX, 0, SYN, b"");
        talk.send(Reverse, u32::MAX, 0, SYN | ACK, b"");
        talk.send(Forward, 0, 0, ACK, b"");
        talk
    }

    fn send(&mut self, direction: Direction, sequence: u32, ack: u32, flags: u8, payload: &[u8]) {
        self.clock = self.clock.wrapping_add(3);
        self.send_at(self.clock, direction, (sequence, ack, flags), payload);
    }

    fn send_at(
        &mut self,
        value: u32,
        direction: Direction,
        (sequence, ack, flags): (u32, u32, u8),
        payload: &[u8],
    ) {
        let mut options = [1; 12];
        let at = if self.is_unusual { 0 } else { 2 };
        TcpOption::Timestamps { value, echo: 7 }.emit(&mut options[at..]);
        let contents = (options.as_slice(), payload);
        let frame = with_options(self.hand.port, direction, sequence, ack, flags, contents);
        self.hand.frame(&mut self.sink, &frame);
    }

    /// Lines of the client, each acknowledged.
    fn lines(&mut self, lines: std::ops::Range<usize>) {
        for line in lines {
            let sequence = (line * LINE) as u32;
            self.send(Forward, sequence, 0, ACK, &text(line));
            self.send(Reverse, 0, sequence + LINE as u32, ACK, b"");
        }
    }

    fn finish(mut self) -> (Recorder, Counters) {
        let counters = self.hand.finish(&mut self.sink);
        assert_eq!(counters.broken_identity(), None);
        (self.sink, counters)
    }
}

fn text(line: usize) -> [u8; LINE] {
    let text = format!("line {line:04}\n");
    text.as_bytes().try_into().expect("as long as a line")
}

fn all(lines: usize) -> Vec<u8> {
    (0..lines).flat_map(text).collect()
}

#[test]
fn a_segment_of_long_ago_does_not_win() {
    // The clock may come round, and the options may be unusual.
    for (is_raw, clock, is_unusual) in [
        (false, 50_000, false),
        (true, 50_000, false),
        (false, u32::MAX - 40, false),
        (false, 50_000, true),
    ] {
        for (ahead, flags, is_answered) in
            [(0, 0, true), (20, 0, true), (0, FIN, true), (0, 0, false)]
        {
            let mut talk = Talk::new(is_raw, clock);
            talk.is_unusual = is_unusual;
            talk.lines(0..10);
            for _ in 0..3 {
                let past = (100 + ahead, 0, ACK | flags);
                talk.send_at(
                    talk.clock.wrapping_sub(40_000),
                    Forward,
                    past,
                    b"of long ago",
                );
                if is_answered {
                    talk.send(Reverse, 0, 100, ACK, b"");
                }
            }
            talk.lines(10..80);
            let (sink, counters) = talk.finish();
            let what = format!("raw {is_raw}, clock {clock}, {ahead} ahead, flags {flags}");
            assert_eq!(sink.streams[0], all(80), "{what}");
            assert_eq!(sink.holes[0], [], "{what}");
            assert_eq!(counters.value(Counter::SegmentsPast), 3, "{what}");
            assert_eq!(counters.value(Counter::StreamDiscarded), 33, "{what}");
            assert_eq!(counters.value(Counter::OverlapConflicts), 0, "{what}");
        }
    }
}

/// The receiver saw the segments in another order.
#[test]
fn what_was_acknowledged_and_never_came_otherwise_counts() {
    for at_end in [false, true] {
        let mut talk = Talk::new(false, 9);
        talk.lines(0..10);
        talk.send_at(8, Forward, (100, 0, ACK), &text(10));
        if !at_end {
            talk.lines(11..80);
        }
        // A second one confirms it.
        let end = if at_end { 110 } else { 800 };
        talk.send(Reverse, 0, end, ACK, b"");
        talk.send(Reverse, 0, end, ACK, b"");
        let (sink, counters) = talk.finish();
        let lines = end as usize / LINE;
        assert_eq!(sink.streams[0], all(lines), "at the end: {at_end}");
        assert_eq!(sink.holes[0], []);
        assert_eq!(counters.value(Counter::StreamDiscarded), 0);
    }
}

/// It repeated its acknowledgement, and has bytes that the tap missed.
#[test]
fn what_the_receiver_refused_fills_no_hole() {
    let mut talk = Talk::new(false, 900);
    talk.lines(0..10);
    talk.send_at(8, Forward, (100, 0, ACK), b"long past\n");
    talk.send(Reverse, 0, 100, ACK, b"");
    talk.lines(11..80);
    let (sink, _) = talk.finish();
    assert_eq!(sink.holes[0], [(LINE, Cause::NotSeen)]);
}

#[test]
fn a_clock_that_goes_back_for_good_says_nothing() {
    let mut talk = Talk::new(false, 1 << 30);
    talk.lines(0..10);
    talk.clock = 5;
    for line in 10..80 {
        talk.send(Forward, (line * LINE) as u32, 0, ACK, &text(line));
    }
    talk.send(Reverse, 0, 800, ACK, b"");
    talk.send(Reverse, 0, 800, ACK, b"");
    let (sink, counters) = talk.finish();
    assert_eq!(sink.streams[0], all(80));
    assert_eq!(counters.value(Counter::StreamDiscarded), 0);
}

/// Another connection's segment, or an injected one, ahead within the window.
#[test]
fn a_stray_ahead_that_nobody_acknowledges_is_no_loss() {
    // After 10 lines: never reached; reached at its first byte, or within a line.
    for ahead in [5_000, 1_500, 20, 300, 77, 12] {
        for (lines, flags) in [(80, ACK | FIN), (80, ACK), (200, ACK)] {
            let (mut hand, mut sink) = (Hand::new(), Recorder::default());
            hand.handshake(&mut sink);
            for line in 0..lines {
                let sequence = (line * LINE) as u32;
                hand.segment(&mut sink, Forward, sequence, 0, ACK, &text(line));
                hand.segment(&mut sink, Reverse, 0, sequence + LINE as u32, ACK, b"");
                if line == 10 {
                    hand.segment(&mut sink, Forward, 110 + ahead, 0, ACK, b"another's call");
                }
            }
            let end = (lines * LINE) as u32;
            hand.segment(&mut sink, Forward, end, 0, flags, b"");
            let counters = hand.finish(&mut sink);
            let what = format!("{ahead} ahead, {lines} lines, flags {flags}");
            assert_eq!(sink.streams[0], all(lines), "{what}");
            assert_eq!(sink.holes[0], [], "{what}");
            assert_eq!(counters.value(Counter::SegmentsStray), 1, "{what}");
            assert_eq!(counters.value(Counter::StreamDiscarded), 14, "{what}");
            assert_eq!(counters.value(Counter::OverlapConflicts), 0, "{what}");
            assert_eq!(counters.broken_identity(), None);
        }
    }
}

/// What came before its turn, and what the receiver has by its blocks, is of the stream.
#[test]
fn what_came_before_its_turn_is_no_stray() {
    for (is_sacked, is_late) in [(true, false), (false, true), (false, false)] {
        let (mut hand, mut sink) = (Hand::new(), Recorder::default());
        hand.handshake(&mut sink);
        hand.segment(&mut sink, Forward, 20, 0, ACK, &text(2));
        for line in [0, 1] {
            let sequence = (line * LINE) as u32;
            hand.segment(&mut sink, Forward, sequence, 0, ACK, &text(line));
            let (ack, block) = (sequence + LINE as u32, [[0, 0, 0, 20, 0, 0, 0, 30]]);
            let mut options = [1; 12];
            TcpOption::Sack(SackBlocks::new(&block)).emit(&mut options[2..]);
            let options = if is_sacked { options.as_slice() } else { &[] };
            let frame = with_options(hand.port, Reverse, 0, ack, ACK, (options, b""));
            hand.frame(&mut sink, &frame);
        }
        if is_late {
            // Nothing more is seen of the other end.
            for line in 3..80 {
                hand.segment(
                    &mut sink,
                    Forward,
                    (line * LINE) as u32,
                    0,
                    ACK,
                    &text(line),
                );
            }
        }
        let counters = hand.finish(&mut sink);
        let lines = if is_late { 80 } else { 3 };
        assert_eq!(sink.streams[0], all(lines), "{is_sacked}, {is_late}");
        assert_eq!(counters.value(Counter::StreamDiscarded), 0);
    }
}
