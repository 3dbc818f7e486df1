//! READ and WRITE on the short way, and on the general one: whatever happens to their data.

use lineside_time::Random;

use super::again::{CALL, REPLY, Wire, lookup, words};
use super::plain::is_the_same_both_ways;
use super::*;

/// Bytes of data in a segment.
const SEGMENT: usize = 1448;
const LEN: u32 = 5001;
const STATUS: usize = 24;

fn header(xid: u32, procedure: u32) -> Vec<u8> {
    words(&[
        xid, 0, 2, 100_003, 3, procedure, 1, 20, 9, 0, 1000, 100, 0, 0, 0, 8, 1, 1,
    ])
}

fn with_data(mut message: Vec<u8>, len: u32) -> Vec<u8> {
    let mut data = vec![0; len as usize];
    Random::new(len.into()).fill(&mut data);
    message.extend(words(&[len]));
    message.extend_from_slice(&data);
    message.resize(message.len().next_multiple_of(4), 0);
    message
}

/// A READ of `len` bytes from byte 300 on, and its reply with them.
fn read(xid: u32, len: u32) -> [Vec<u8>; 2] {
    let mut call = header(xid, 6);
    call.extend(words(&[0, 300, len]));
    let mut reply = words(&[xid, 1, 0, 0, 0, 0, 0, 1]);
    reply.extend(words(&[1; 21]));
    reply.extend(words(&[len, 0]));
    [call, with_data(reply, len)]
}

/// A WRITE of `len` bytes from byte 300 on, and its reply.
fn write(xid: u32, len: u32) -> [Vec<u8>; 2] {
    let mut call = header(xid, 7);
    call.extend(words(&[0, 300, len, 2]));
    let reply = words(&[xid, 1, 0, 0, 0, 0, 0, 0, 0, len, 2, 5, 6]);
    [with_data(call, len), reply]
}

/// Which message of a call has the data, and where in that the number of its bytes lies.
type Data = (usize, usize);

/// A call and its reply, sent with data in segments.
struct Fate<'a> {
    wire: &'a mut Wire,
    messages: [Vec<u8>; 2],
    data: Data,
}

impl Fate<'_> {
    fn call(&mut self) {
        self.wire.send_in(CALL, &self.messages[CALL], SEGMENT, 0..0);
    }

    fn reply(&mut self) {
        self.wire
            .send_in(REPLY, &self.messages[REPLY], SEGMENT, 0..0);
    }

    fn both(&mut self) {
        self.call();
        self.reply();
    }

    /// Sends both; of the one with data, segments of `len` bytes, and none of those `lost`.
    fn both_without(&mut self, len: usize, lost: std::ops::Range<usize>) {
        for direction in [CALL, REPLY] {
            let lost = match direction == self.data.0 {
                true => lost.clone(),
                false => 0..0,
            };
            let message = &self.messages[direction];
            self.wire.send_in(direction, message, len, lost);
        }
    }

    /// Another number of bytes than there are: in the field this many bytes before that of the
    /// data.
    fn lie(&mut self, back: usize, by: i32) {
        let (message, at) = self.data;
        let field = &mut self.messages[message][at - back..][..4];
        let number = u32::from_be_bytes(field.try_into().expect("a word"));
        field.copy_from_slice(&number.wrapping_add_signed(by).to_be_bytes());
    }

    /// Sends the message with data but for its last three bytes.
    fn without_padding(&mut self) {
        let (direction, _) = self.data;
        let message = record(&self.messages[direction]);
        let (seen, lost) = message.split_at(message.len() - 3);
        for part in seen.chunks(SEGMENT) {
            self.wire.send_bytes(direction, part);
        }
        self.wire.send_bytes(direction, lost);
        self.wire.frames.pop();
    }

    /// Sends the first half of a message, what `between` sends, and the rest.
    fn interrupted(&mut self, direction: usize, between: impl FnOnce(&mut Self)) {
        let message = record(&self.messages[direction]);
        let (first, rest) = message.split_at(SEGMENT * 2);
        self.wire.send_bytes(direction, first);
        between(self);
        self.wire.send_bytes(direction, rest);
    }
}

type Act = fn(&mut Fate<'_>);

/// What may happen to a call with data.
const FATES: &[(&str, Act)] = &[
    ("answered", |fate| fate.both()),
    ("in one segment", |fate| fate.both_without(9000, 0..0)),
    ("its header in two segments", |fate| {
        fate.both_without(100, 0..0);
    }),
    ("a segment behind its header", |fate| {
        let len = fate.data.1 + 8;
        fate.both_without(len, 0..0);
    }),
    ("its first segment lost", |fate| {
        fate.both_without(SEGMENT, 0..1)
    }),
    ("a segment lost", |fate| fate.both_without(SEGMENT, 1..2)),
    ("its last segment lost", |fate| {
        fate.both_without(SEGMENT, 3..4);
    }),
    ("most segments lost", |fate| {
        fate.both_without(SEGMENT, 1..4)
    }),
    ("segments cut", |fate| {
        let first = fate.wire.frames.len();
        fate.both();
        for frame in &mut fate.wire.frames[first..] {
            frame.bytes.truncate(400);
        }
    }),
    ("no reply", |fate| fate.call()),
    ("no call", |fate| fate.reply()),
    ("half a reply, and the end", |fate| {
        fate.call();
        let message = record(&fate.messages[REPLY]);
        fate.wire
            .send_bytes(REPLY, &message[..message.len().min(2000)]);
        fate.wire.end(REPLY, TcpFlags::RST);
        fate.wire.connect(701);
        fate.both();
    }),
    ("half a call, and the end", |fate| {
        let message = record(&fate.messages[CALL]);
        fate.wire
            .send_bytes(CALL, &message[..message.len().min(2000)]);
        fate.wire.end(CALL, TcpFlags::RST);
        fate.wire.connect(701);
        fate.both();
    }),
    ("again before its reply", |fate| {
        fate.call();
        fate.both();
    }),
    ("again after its reply", |fate| {
        fate.both();
        fate.both();
    }),
    ("its reply twice", |fate| {
        fate.both();
        fate.reply();
    }),
    ("again in the middle", |fate| {
        let (message, _) = fate.data;
        if message == REPLY {
            fate.call();
        }
        fate.interrupted(message, |fate| match message {
            CALL => fate.reply(),
            _ => fate.call(),
        });
        fate.reply();
    }),
    ("another with its xid", |fate| {
        fate.call();
        fate.messages = write(7, 700);
        fate.both();
    }),
    ("another with its xid in the middle", |fate| {
        let (message, _) = fate.data;
        fate.call();
        if message == REPLY {
            fate.interrupted(REPLY, |fate| {
                let lookup = lookup(7, b"b", 72);
                fate.wire.send(CALL, &lookup[CALL]);
            });
        }
        fate.reply();
    }),
    ("two copies of each segment", |fate| {
        let first = fate.wire.frames.len();
        fate.both();
        let frames = fate.wire.frames.split_off(first);
        for frame in frames {
            fate.wire.frames.extend([frame.clone(), frame]);
        }
    }),
    ("sent again after a while", |fate| {
        let before = fate.wire.connection.sequences;
        fate.call();
        fate.wire.connection.sequences = before;
        fate.wire.now_ns += 200_000_000;
        fate.both();
    }),
    ("segments out of order", |fate| {
        let first = fate.wire.frames.len();
        fate.both();
        let frames = &mut fate.wire.frames[first..];
        frames.chunks_mut(2).for_each(<[_]>::reverse);
    }),
    ("a segment sent again after a while", |fate| {
        let (message, _) = fate.data;
        if message == REPLY {
            fate.call();
        }
        let at = fate.wire.frames.len() + 1;
        match message {
            CALL => fate.call(),
            _ => fate.reply(),
        }
        if at < fate.wire.frames.len() {
            let mut frame = fate.wire.frames[at].clone();
            fate.wire.now_ns += 200_000_000;
            frame.stamp_ns = Some(fate.wire.now_ns);
            fate.wire.frames.remove(at);
            fate.wire.frames.push(frame);
        }
        if message == CALL {
            fate.reply();
        }
    }),
    ("its padding lost", |fate| {
        if fate.data.0 == REPLY {
            fate.call();
        }
        fate.without_padding();
        if fate.data.0 == CALL {
            fate.reply();
        }
    }),
    ("its padding lost with all that follows", |fate| {
        if fate.data.0 == REPLY {
            fate.call();
        }
        fate.without_padding();
        fate.wire.end(fate.data.0, TcpFlags::RST);
        fate.wire.connect(701);
    }),
    ("an hour between", |fate| {
        fate.call();
        fate.wire.now_ns += 7_200_000_000_000;
        fate.wire.others(3);
        fate.reply();
    }),
    ("more data than announced", |fate| {
        fate.lie(0, -700);
        fate.both();
    }),
    ("less data than announced", |fate| {
        fate.lie(0, 700);
        fate.both();
    }),
    ("another count than its data", |fate| {
        fate.lie(8, 100);
        fate.both();
    }),
    ("less data than announced, twice", |fate| {
        fate.lie(0, 700);
        fate.lie(8, 700);
        fate.both();
    }),
    ("more data than announced, twice", |fate| {
        fate.lie(0, -700);
        fate.lie(8, -700);
        fate.both();
    }),
    ("no end of data", |fate| {
        fate.lie(0, -LEN.cast_signed() - 1);
        fate.lie(8, -LEN.cast_signed() - 1);
        fate.both();
    }),
    ("failed", |fate| {
        let reply = &mut fate.messages[REPLY];
        reply.truncate(STATUS);
        reply.extend(words(&[10_008, 0, 0]));
        fate.both();
    }),
    ("refused", |fate| {
        let reply = &mut fate.messages[REPLY];
        reply.truncate(STATUS);
        reply[STATUS - 1] = 3;
        fate.both();
    }),
    ("without padding", |fate| {
        let (message, _) = fate.data;
        let message = &mut fate.messages[message];
        message.truncate(message.len() - 3);
        fate.both();
    }),
    ("nonsense before its data", |fate| {
        let (message, at) = fate.data;
        // A handle that is too long, or a boolean that is none.
        let at = [60, at - 4][message];
        fate.messages[message][at..at + 4].fill(0xff);
        fate.both();
    }),
];

#[test]
fn file_data_goes_the_short_way_as_the_general_one() {
    let lens = [LEN, 0, 3, 512, 700];
    type Messages = fn(u32, u32) -> [Vec<u8>; 2];
    let sent: [(_, Messages, Data); 2] = [
        ("READ", read, (REPLY, STATUS + 4 + 88 + 8)),
        ("WRITE", write, (CALL, 72 + 16)),
    ];
    for (name, messages, data) in sent {
        for &(what, act) in FATES {
            let interrupts = what.contains("middle");
            for &len in lens.iter().take(if interrupts { 1 } else { lens.len() }) {
                let mut wire = Wire::new(false);
                wire.answered(&lookup(1, b"first", 70));
                act(&mut Fate {
                    wire: &mut wire,
                    messages: messages(7, len),
                    data,
                });
                let answered = messages(9, len);
                for direction in [CALL, REPLY] {
                    wire.send_in(direction, &answered[direction], SEGMENT, 0..0);
                }
                wire.answered(&lookup(10, b"last", 79));
                let what = format!("{name} of {len} bytes: {what}");
                is_the_same_both_ways(&wire, Config::default(), &what);
            }
        }
    }
}

#[test]
fn calls_whose_data_comes_are_given_up_as_others() {
    let mut wire = Wire::new(false);
    wire.answered(&lookup(1, b"first", 70));
    for xid in 0..200 {
        wire.send(CALL, &read(100 + xid, LEN)[CALL]);
        if xid % 10 == 5 {
            let data = record(&write(300 + xid, LEN)[CALL]);
            for part in data.chunks(SEGMENT) {
                wire.send_bytes(CALL, part);
            }
        }
    }
    for xid in 0..200 {
        wire.send_in(REPLY, &read(100 + xid, LEN)[REPLY], SEGMENT, 0..0);
    }
    let config = Config {
        outstanding_max: 32,
        ..Config::default()
    };
    is_the_same_both_ways(&wire, config, "given up");
}

#[test]
fn a_call_is_given_up_while_its_data_comes_as_others() {
    let mut wire = Wire::new(false);
    wire.answered(&lookup(1, b"first", 70));
    let [call, reply] = write(2, LEN).map(|message| record(&message));
    let (first, rest) = call.split_at(SEGMENT);
    wire.send_bytes(CALL, first);
    let before = std::mem::replace(&mut wire.connection, TcpConnection::new(701, [5, 5]));
    wire.connect(701);
    for xid in 0..4 {
        wire.send(CALL, &lookup(xid, b"a", 71)[CALL]);
    }
    wire.connection = before;
    wire.send_bytes(CALL, rest);
    wire.send_bytes(REPLY, &reply);
    let config = Config {
        outstanding_max: 2,
        ..Config::default()
    };
    is_the_same_both_ways(&wire, config, "given up");
}
