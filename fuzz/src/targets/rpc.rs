//! Records: both directions of a connection, cut anywhere, with holes, with and without headers.

use std::collections::HashSet;

use lineside_account::{Budget, Counters};
use lineside_frame::{Cause, Chunk, Cursor, Descriptor, Fault, Frame, Piece};
use lineside_rpc::message::{Body, Header, encode_record};
use lineside_rpc::record::{self, Config, Message, MessageSink, Records, Want, on_datagram};
use lineside_rpc::xdr::Xdr;

use super::Bytes;

/// Pieces of two streams, each behind two bytes that say what they are; two bytes of choices for
/// all end the input.
pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let (choice, cut) = (bytes.last(), usize::from(bytes.last()));
    let bit = |bit: u8| choice & (1 << bit) != 0;
    let mut config = Config::default();
    if bit(0) {
        config.message_held_max_bytes = 300;
    }
    if bit(1) {
        config.search_held_max_bytes = 400;
    }
    if bit(2) {
        config.search_max_bytes = 2000;
    }
    if bit(3) {
        config.record_max_bytes = 5000;
    }
    let budget = Budget::new(if bit(4) { 600 } else { 1 << 20 });
    let mut records = [(); 2].map(|()| Records::new(config, &budget));
    let mut sinks = [Messages::default(), Messages::default()];
    let mut counters = Counters::new();
    let mut begun = [false; 2];
    let (mut xid, mut ordinal) = (0, 0);
    while !bytes.is_empty() {
        let (what, argument) = (bytes.u8(), bytes.u8());
        let direction = usize::from(what & 1);
        let scale = 1 << (what >> 5 & 3);
        let len = usize::from(argument) * scale;
        let mut made = Vec::new();
        let content = match what >> 1 & 7 {
            // Foreign bytes.
            0 | 1 => bytes.take(len),
            2 => {
                made.resize(len, 0);
                &made[..]
            }
            // Messages that are as they should be, of any length, in up to two fragments.
            kind @ (3..=5) => {
                xid += u32::from(kind == 3);
                message(kind == 4, xid, len, bit(5) && argument & 1 == 0, &mut made);
                &made[..]
            }
            6 => {
                made.extend_from_slice(b"\0\0\0\0\0\0\0\x02\0\x01\x86\xa3\0\0\0\x03\0\0\0\x01");
                &made[..]
            }
            _ => &[],
        };
        ordinal += 1;
        let descriptor = Descriptor {
            ordinal,
            number: ordinal,
            ..Descriptor::default()
        };
        let after_syn = bit(6) && !std::mem::replace(&mut begun[direction], true);
        {
            let (records, sink) = (&mut records[direction], &mut sinks[direction]);
            if content.is_empty() {
                let hole = Chunk::hole(len.max(1), Cause::NotSeen, &descriptor);
                records.on_stream(after_syn, hole, sink, &mut counters);
            } else {
                let frame = Frame::copied(content, descriptor).share();
                // The first part may be short: marks and headers are split anywhere.
                let border = cut.min(content.len() - 1);
                for (part, (start, end)) in [(0, border), (border, content.len())]
                    .into_iter()
                    .enumerate()
                {
                    let chunk = Chunk::of_frame(&frame, start, end - start);
                    if !chunk.is_empty() {
                        let after_syn = after_syn && (part == 0 || border == 0);
                        records.on_stream(after_syn, chunk, sink, &mut counters);
                    }
                }
                if bit(7) {
                    let mut datagram = Messages::default();
                    let chunk = Chunk::of_frame(&frame, 0, content.len());
                    let is_message = on_datagram(&[chunk], false, &mut datagram, &mut counters);
                    assert!(is_message || datagram.ended == 0);
                    datagram.finish();
                }
            }
            if what & 0x80 != 0 {
                records.spill();
            }
        }
        agree(&mut records, &mut sinks, argument % 8 == 7, &mut counters);
    }
    for (records, sink) in records.iter_mut().zip(&mut sinks) {
        records.finish(sink, &mut counters);
        sink.finish();
        assert!(!records.holds());
    }
    drop(records);
    assert_eq!(budget.used_bytes(), 0);
    assert!(budget.peak_bytes() <= budget.limit_bytes());
}

/// What `lineside-capture` does when one direction tells something about the other.
fn agree(
    records: &mut [Records; 2],
    sinks: &mut [Messages; 2],
    reconsider: bool,
    counters: &mut Counters,
) {
    for direction in [0, 1] {
        let seen = std::mem::take(&mut sinks[direction].seen);
        let (records, sink) = (&mut records[1 - direction], &mut sinks[1 - direction]);
        for &(xid, is_call) in &seen {
            if !is_call && records.has_candidate(xid, true) {
                assert!(records.on_agreement(xid, true, sink, counters));
            }
        }
        sink.other.extend(seen);
        if reconsider {
            records.reconsider(sink, counters);
        }
    }
}

/// A call of NFSv3 READ or its reply, with `len` bytes behind the header.
fn message(is_reply: bool, xid: u32, len: usize, in_two: bool, out: &mut Vec<u8>) {
    let mut message = Vec::new();
    let words: &[u32] = if is_reply {
        &[xid, 1, 0, 0, 0, 0]
    } else {
        &[xid, 0, 2, 100_003, 3, 6, 0, 0, 0, 0]
    };
    words
        .iter()
        .for_each(|word| message.extend(word.to_be_bytes()));
    message.resize(message.len() + len, 0x5a);
    encode_record(if in_two { &[30] } else { &[] }, &message, out);
}

/// Follows the messages of a direction and holds their order to what [`MessageSink`] promises.
#[derive(Default)]
struct Messages {
    state: State,
    /// The messages whose header was read since this was last looked at.
    seen: Vec<(u32, bool)>,
    /// Those of the other direction.
    other: HashSet<(u32, bool)>,
    ended: usize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum State {
    #[default]
    Between,
    /// More of a message is wanted, and whether more can come.
    Asking {
        done: bool,
    },
    /// So many bytes of the message lie behind, and so many are to come as data.
    Data {
        before: usize,
        left: u64,
    },
    Rest,
}

impl Messages {
    fn finish(&self) {
        assert!(matches!(
            self.state,
            State::Between | State::Asking { done: false }
        ));
    }

    fn want(&mut self, head: &[Piece<'_>], done: bool) -> Want {
        let mut cursor = Cursor::new(head);
        let header = Header::decode(&mut cursor);
        match cursor.fault() {
            Some(Fault::End) if !done => return Want::More(cursor.needed()),
            Some(Fault::Malformed) => return Want::Refuse,
            _ => {}
        }
        let (Some(xid), Body::Call(_) | Body::Reply(_)) = (header.xid, header.body) else {
            return Want::End;
        };
        match xid % 4 {
            0 if !done => return Want::Whole,
            1 if !done && cursor.remaining() < 50 => return Want::More(cursor.position() + 50),
            _ => self.seen.push((xid, matches!(header.body, Body::Call(_)))),
        }
        match xid % 4 {
            2 => Want::Data {
                from: cursor.position(),
                len: record::ALL,
            },
            3 => Want::Data {
                from: cursor.position(),
                len: u64::from(xid / 4 % 3000),
            },
            _ => Want::End,
        }
    }

    /// Behind data that was not all: some more, and data again.
    fn go_on(&mut self, head: &[Piece<'_>], done: bool) -> Want {
        let len: usize = head.iter().map(Piece::len).sum();
        match len {
            0..16 if !done => Want::More(16),
            0..16 => Want::End,
            _ => Want::Data {
                from: 16,
                len: len as u64 % 600,
            },
        }
    }
}

impl MessageSink for Messages {
    fn on_head(
        &mut self,
        message: &Message,
        head: &[Piece<'_>],
        done: bool,
        _: &mut Counters,
    ) -> Want {
        let len: usize = head.iter().map(Piece::len).sum();
        assert!(message.missing <= message.len);
        let (want, before) = match self.state {
            State::Between | State::Asking { done: false } => {
                assert_eq!(len, message.len);
                (self.want(head, done), 0)
            }
            // All that was asked for has come.
            State::Data { before, left: 0 } => {
                assert_eq!(before + len, message.len);
                (self.go_on(head, done), before)
            }
            state => panic!("a head in {state:?}"),
        };
        self.state = match want {
            Want::More(_) | Want::Whole if before > 0 => State::Data { before, left: 0 },
            Want::More(_) | Want::Whole => State::Asking { done },
            Want::Data { from, len } => State::Data {
                before: before + from,
                left: len,
            },
            Want::End => State::Rest,
            Want::Refuse => State::Between,
        };
        want
    }

    fn on_data(&mut self, chunk: Chunk<'_>, _: &mut Counters) {
        let State::Data { before, left } = &mut self.state else {
            panic!("data in {:?}", self.state);
        };
        assert!(!chunk.is_empty() && chunk.len() as u64 <= *left);
        *before += chunk.len();
        if *left != record::ALL {
            *left -= chunk.len() as u64;
        }
    }

    fn on_end(&mut self, message: &Message, _: &mut Counters) {
        match std::mem::take(&mut self.state) {
            State::Data { before, left } => assert!(left == 0 || before == message.len),
            State::Rest | State::Asking { done: true } => {}
            state => panic!("the end in {state:?}"),
        }
        self.ended += 1;
    }

    fn agrees(&mut self, xid: u32, is_call: bool) -> bool {
        self.other.contains(&(xid, !is_call))
    }
}
