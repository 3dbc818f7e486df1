//! Streams of records through [`Records`]: however they are cut, whatever is lost of them, and
//! whatever their data looks like. The frame of each message that comes out shows where in the
//! stream it begins.

use std::collections::{BTreeMap, BTreeSet};

use lineside_account::{Budget, Claim, Counter, Counters};
use lineside_frame::{Cause, Chunk, Cursor, Descriptor, Frame, FrameRef, Piece};
use lineside_rpc::message::encode_record;
use lineside_rpc::record::{self, Config, Message, MessageSink, Records, Want};
use lineside_time::Random;
use proptest::prelude::*;

/// Of a READ reply's or a WRITE call's message before its data, as these tests make them.
const BULK_AT: usize = 44;

/// A message of a stream.
#[derive(Debug, Clone)]
struct SentMessage {
    xid: u32,
    is_call: bool,
    /// Its record's first byte in the stream.
    start: usize,
    body: Vec<u8>,
}

/// A stream, its messages, and what carries it: segments of any size.
struct Stream {
    bytes: Vec<u8>,
    messages: Vec<SentMessage>,
    frames: Vec<(usize, FrameRef)>,
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// The 44 bytes before the data of a call or a reply.
fn head(xid: u32, is_call: bool, procedure: u32) -> Vec<u8> {
    let bytes = if is_call {
        words(&[xid, 0, 2, 100_003, 3, procedure, 0, 0, 0, 0, 7])
    } else {
        words(&[xid, 1, 0, 0, 0, 0, 0, 0, 1, 1, 7])
    };
    assert_eq!(bytes.len(), BULK_AT);
    bytes
}

impl Stream {
    /// Messages of one direction; each next one has the next xid. `data` makes the data of each.
    fn new(
        random: &mut Random,
        is_call: bool,
        divided: bool,
        first_xid: u32,
        count: usize,
        mut data: impl FnMut(&mut Random) -> Vec<u8>,
    ) -> Self {
        let (mut bytes, mut messages) = (Vec::new(), Vec::new());
        for index in 0..count {
            let xid = first_xid.wrapping_add(index as u32);
            let mut body = head(xid, is_call, 6);
            body.extend(data(random));
            messages.push(SentMessage {
                xid,
                is_call,
                start: bytes.len(),
                body: body.clone(),
            });
            // Most records are one fragment; one without bytes is legal too. A header in several,
            // or with an empty fragment behind it, can be walked but is not searched for.
            let mut fragments: Vec<usize> = Vec::new();
            if random.chance(0.2) {
                let least = if divided { 1 } else { 40 };
                fragments.push(least + random.below((body.len() - least) as u64) as usize);
                let least = usize::from(!divided);
                fragments.extend((0..random.below(4)).map(|_| least + random.below(50) as usize));
            }
            encode_record(&fragments, &body, &mut bytes);
        }
        Self {
            bytes,
            messages,
            frames: Vec::new(),
        }
    }

    /// Cuts it into segments of the sizes that `size` returns.
    fn cut(mut self, mut size: impl FnMut() -> usize) -> Self {
        let mut at = 0;
        while at < self.bytes.len() {
            let len = size().clamp(1, self.bytes.len() - at);
            let descriptor = Descriptor {
                ordinal: self.frames.len() as u64,
                ..Descriptor::default()
            };
            let frame = Frame::copied(&self.bytes[at..at + len], descriptor).share();
            self.frames.push((at, frame));
            at += len;
        }
        self
    }

    /// Whether `range` lies in frames that are not lost.
    fn survives(&self, range: std::ops::Range<usize>, lost: &[bool]) -> bool {
        self.frames.iter().zip(lost).all(|((start, frame), &lost)| {
            !lost || start + frame.bytes().len() <= range.start || *start >= range.end
        })
    }
}

/// What came out of a direction, and what the other one agrees with.
#[derive(Default)]
struct Sink {
    /// By place in the stream: xid, kind, whether it ended, and its data with holes.
    found: BTreeMap<usize, Found>,
    current: Option<usize>,
    starts: Vec<usize>,
    outstanding: BTreeSet<u32>,
    twice: usize,
    /// A call of the connection was answered.
    is_answered: bool,
}

#[derive(Debug, Default, PartialEq)]
struct Found {
    xid: u32,
    is_call: bool,
    ended: bool,
    len: usize,
    data: Vec<Option<u8>>,
}

impl Sink {
    /// Takes the data of every other message in parts: some from what it is asked about, some as
    /// data.
    fn go_on(&mut self, place: usize, head: &[Piece<'_>], done: bool) -> Want {
        let found = self.found.get_mut(&place).expect("its head came");
        let len: usize = head.iter().map(Piece::len).sum();
        let need = 1 + found.data.len() % 90;
        if len < need && !done {
            return Want::More(need);
        }
        let mut cursor = Cursor::new(head);
        for _ in 0..need.min(len) {
            let mut byte = cursor;
            found.data.push(byte.array::<1>().map(|[byte]| byte));
            cursor.skip(1).expect("it is there");
        }
        if len == 0 {
            return Want::End;
        }
        Want::Data {
            from: need.min(len),
            len: found.data.len() as u64 % 700,
        }
    }
}

impl MessageSink for Sink {
    fn claim(&self) -> Claim {
        match self.is_answered {
            true => Claim::Full,
            false => Claim::Spare,
        }
    }

    fn on_head(
        &mut self,
        message: &Message,
        head: &[Piece<'_>],
        done: bool,
        _: &mut Counters,
    ) -> Want {
        if let Some(place) = self.current {
            return self.go_on(place, head, done);
        }
        let mut cursor = Cursor::new(head);
        if cursor.remaining() < BULK_AT && !done {
            return Want::More(BULK_AT);
        }
        let (Some(xid), Some(kind)) = (cursor.u32(), cursor.u32()) else {
            return Want::End;
        };
        if kind > 1 {
            return Want::Refuse;
        }
        let place = self.starts[message.first.ordinal as usize] + message.first_offset;
        let found = Found {
            xid,
            is_call: kind == 0,
            ..Found::default()
        };
        self.twice += usize::from(self.found.insert(place, found).is_some());
        self.current = Some(place);
        self.outstanding.remove(&xid);
        Want::Data {
            from: BULK_AT,
            len: if xid.is_multiple_of(2) {
                record::ALL
            } else {
                u64::from(xid % 1000)
            },
        }
    }

    fn on_data(&mut self, chunk: Chunk<'_>, _: &mut Counters) {
        let Some(found) = self.current.and_then(|place| self.found.get_mut(&place)) else {
            return;
        };
        match chunk.missing() {
            Some(_) => found.data.resize(found.data.len() + chunk.len(), None),
            None => found.data.extend(chunk.bytes().iter().copied().map(Some)),
        }
    }

    fn on_end(&mut self, message: &Message, _: &mut Counters) {
        if let Some(place) = self.current.take() {
            let found = self.found.get_mut(&place).expect("its head came");
            (found.ended, found.len) = (message.ended, message.len);
        }
    }

    fn agrees(&mut self, xid: u32, is_call: bool) -> bool {
        !is_call && self.outstanding.contains(&xid)
    }
}

/// Runs a direction. The calls of replies are outstanding from `depth` messages before; replies to
/// calls are seen `depth` messages after.
struct Run<'a> {
    stream: &'a Stream,
    lost: &'a [bool],
    after_syn: bool,
    depth: usize,
    config: Config,
}

impl Run<'_> {
    fn go(&self) -> (Sink, Counters, Records) {
        let mut sink = Sink {
            starts: self.stream.frames.iter().map(|(start, _)| *start).collect(),
            ..Sink::default()
        };
        let budget = Budget::new(256 << 20);
        let (mut records, mut counters) = (Records::new(self.config, &budget), Counters::new());
        let (mut called, mut replied) = (0, 0);
        let mut first = true;
        for ((start, frame), &lost) in self.stream.frames.iter().zip(self.lost) {
            let end = start + frame.bytes().len();
            let begun = |at: usize| self.stream.messages.partition_point(|sent| sent.start < at);
            while called < self.stream.messages.len().min(begun(end) + self.depth) {
                let sent = &self.stream.messages[called];
                if !sent.is_call {
                    sink.outstanding.insert(sent.xid);
                }
                called += 1;
            }
            let chunk = if lost {
                Chunk::hole(frame.bytes().len(), Cause::NotSeen, frame.descriptor())
            } else {
                Chunk::of_frame(frame, 0, frame.bytes().len())
            };
            let after_syn = std::mem::take(&mut first) && self.after_syn;
            records.on_stream(after_syn, chunk, &mut sink, &mut counters);
            // The last one that begins here may not be complete.
            let complete =
                begun(end + 1).saturating_sub(usize::from(end < self.stream.bytes.len()));
            while replied + self.depth < complete {
                let sent = &self.stream.messages[replied];
                if sent.is_call {
                    records.on_agreement(sent.xid, true, &mut sink, &mut counters);
                }
                replied += 1;
            }
        }
        for sent in self.stream.messages[replied..]
            .iter()
            .filter(|sent| sent.is_call)
        {
            records.on_agreement(sent.xid, true, &mut sink, &mut counters);
        }
        records.finish(&mut sink, &mut counters);
        (sink, counters, records)
    }

    /// Every message that is found is one, and holds what it holds.
    fn assert_precise(&self, sink: &Sink, what: &str) {
        assert_eq!(sink.twice, 0, "{what}: a message twice");
        for (place, found) in &sink.found {
            let sent = self
                .stream
                .messages
                .iter()
                .find(|sent| sent.start == *place);
            let sent = sent.unwrap_or_else(|| {
                let Found { xid, is_call, .. } = found;
                panic!("{what}: xid {xid} call {is_call} at {place} is no message")
            });
            assert_eq!(
                (found.xid, found.is_call),
                (sent.xid, sent.is_call),
                "{what}"
            );
            let data = &sent.body[BULK_AT.min(sent.body.len())..];
            assert!(found.data.len() <= data.len(), "{what}");
            for (at, byte) in found.data.iter().enumerate() {
                assert!(
                    byte.is_none_or(|byte| byte == data[at]),
                    "{what}: data of {place}"
                );
            }
        }
    }

    /// Every message whose first 28 bytes are there is found.
    fn assert_recalled(&self, sink: &Sink, what: &str) {
        for sent in &self.stream.messages {
            let head = sent.start..sent.start + 28;
            assert!(
                sink.found.contains_key(&sent.start) || !self.stream.survives(head, self.lost),
                "{what}: xid {} at {} of {} is not found",
                sent.xid,
                sent.start,
                self.stream.bytes.len()
            );
        }
    }
}

fn random_bytes(random: &mut Random, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Any cut, any fragments: the same messages with the same data.
    #[test]
    fn cuts_and_fragments_change_nothing(seed: u64, size in 1..200usize, is_call: bool, after_syn: bool) {
        let mut random = Random::new(seed);
        let stream = Stream::new(&mut random, is_call, after_syn, 5, 30, |random| {
            let len = random.below(300) as usize & !3;
            random_bytes(random, len)
        })
        .cut(|| 1 + random.below(size as u64) as usize);
        let lost = vec![false; stream.frames.len()];
        let run = Run { stream: &stream, lost: &lost, after_syn, depth: 4, config: Config::default() };
        let (sink, counters, _) = run.go();
        run.assert_precise(&sink, "cuts");
        run.assert_recalled(&sink, "cuts");
        for sent in &stream.messages {
            let found = &sink.found[&sent.start];
            prop_assert!(found.ended);
            prop_assert_eq!(found.len, sent.body.len());
            let data: Vec<_> = sent.body[BULK_AT..].iter().copied().map(Some).collect();
            prop_assert_eq!(&found.data, &data);
        }
        prop_assert_eq!(counters.value(Counter::Resynchronised), u64::from(!after_syn));
    }

    /// A hole inside a fragment of known length does not end the fast mode.
    #[test]
    fn a_hole_inside_data_is_walked_across(seed: u64, is_call: bool) {
        let mut random = Random::new(seed);
        let stream = Stream::new(&mut random, is_call, true, 5, 20, |random| random_bytes(random, 4000));
        let stream = stream.cut(|| 100 + random.below(900) as usize);
        // Lost: frames without a mark, and without the first bytes of a message.
        let marks = marks(&stream);
        let lost: Vec<bool> = stream.frames.iter().map(|(start, frame)| {
            let range = *start..start + frame.bytes().len();
            let of_value = marks.iter().any(|mark| mark.start < range.end && range.start < mark.end)
                || stream.messages.iter().any(|sent| sent.start < range.end && range.start < sent.start + 60);
            !of_value && random.chance(0.5)
        }).collect();
        let run = Run { stream: &stream, lost: &lost, after_syn: true, depth: 4, config: Config::default() };
        let (sink, counters, _) = run.go();
        run.assert_precise(&sink, "data");
        prop_assert_eq!(sink.found.len(), stream.messages.len());
        prop_assert_eq!(counters.value(Counter::Resynchronised), 0);
        for sent in &stream.messages {
            prop_assert_eq!(sink.found[&sent.start].data.len(), sent.body.len() - BULK_AT);
        }
    }

    /// A hole over a mark is searched across: nothing is lost but what was in it.
    #[test]
    fn whatever_is_lost_the_rest_is_found(
        seed: u64, is_call: bool, after_syn: bool, loss in 0.0..0.3f64, depth in 0..8usize, size in 30..3000usize,
    ) {
        let mut random = Random::new(seed);
        let stream = Stream::new(&mut random, is_call, false, 5, 40, |random| {
            let len = if random.chance(0.5) { 0 } else { random.below(9000) as usize & !3 };
            random_bytes(random, len)
        })
        .cut(|| 30 + random.below(size as u64) as usize);
        let lost: Vec<bool> = stream.frames.iter().map(|_| random.chance(loss)).collect();
        let run = Run { stream: &stream, lost: &lost, after_syn, depth, config: Config::default() };
        let (sink, ..) = run.go();
        run.assert_precise(&sink, "loss");
        run.assert_recalled(&sink, "loss");
    }
}

/// Where the record marks of a stream lie.
fn marks(stream: &Stream) -> Vec<std::ops::Range<usize>> {
    let (mut marks, mut at) = (Vec::new(), 0);
    while at < stream.bytes.len() {
        marks.push(at..at + 4);
        let mark: [u8; 4] = stream.bytes[at..at + 4].try_into().expect("four bytes");
        at += 4 + (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize;
    }
    marks
}

/// A stored capture: frames with calls and replies, several in each, of the xids given.
fn stored_capture(
    random: &mut Random,
    len: usize,
    mut xid: impl FnMut(&mut Random) -> u32,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < len {
        let mut payload = Vec::new();
        for _ in 0..1 + random.below(5) {
            let mut body = head(xid(random), random.chance(0.5), 6);
            let len = random.below(400) as usize & !3;
            body.extend(random_bytes(random, len));
            encode_record(&[], &body, &mut payload);
        }
        // A frame's header in the file, and those of Ethernet, IP and TCP.
        bytes.extend(random_bytes(random, 16 + 54));
        bytes.extend(payload);
    }
    bytes.truncate(len);
    bytes
}

/// A stored stream of records, without anything between them.
fn stored_stream(
    random: &mut Random,
    len: usize,
    mut xid: impl FnMut(&mut Random) -> u32,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < len {
        let mut body = head(xid(random), random.chance(0.5), 6);
        let len = random.below(2000) as usize & !3;
        body.extend(random_bytes(random, len));
        encode_record(&[], &body, &mut bytes);
    }
    bytes.truncate(len);
    bytes
}

/// The data is full of RPC. Xids in it are of messages that were answered long ago.
fn assert_data_is_no_message(stored: &str, seed: u64, data_len: usize, count: usize) {
    let mut random = Random::new(seed);
    let is_call = random.chance(0.5);
    let first_xid = 0x3000_0000 + (random.bits() as u32 >> 4);
    let old = move |random: &mut Random| first_xid.wrapping_sub(100 + random.below(5000) as u32);
    let stream = Stream::new(&mut random, is_call, false, first_xid, count, |random| {
        let len = if random.chance(0.3) { 0 } else { data_len };
        match stored {
            "capture" => stored_capture(random, len, old),
            _ => stored_stream(random, len, old),
        }
    })
    .cut(|| {
        if random.chance(0.3) {
            1 + random.below(1448) as usize
        } else {
            1448
        }
    });
    let (loss, burst) = (
        [0.003, 0.02, 0.1][random.below(3) as usize],
        1 + random.below(8),
    );
    let mut left = 0;
    let joined = random.chance(0.5);
    let mut lost: Vec<bool> = stream
        .frames
        .iter()
        .map(|_| {
            left = if random.chance(loss) { burst } else { left };
            left = left.saturating_sub(1);
            left > 0
        })
        .collect();
    if joined && random.chance(0.5) {
        let missing = lost.len().min(1 + random.below(4) as usize);
        lost[..missing].fill(true);
    }
    let run = Run {
        stream: &stream,
        lost: &lost,
        after_syn: !joined,
        depth: random.below(8) as usize,
        config: Config::default(),
    };
    let what = format!(
        "{stored} seed {seed} calls {is_call} after_syn {}",
        run.after_syn
    );
    let (sink, ..) = run.go();
    run.assert_precise(&sink, &what);
    // Of a stream in a stream more places look like headers than are remembered.
    if stored == "capture" || data_len < 1 << 20 {
        run.assert_recalled(&sink, &what);
    }
}

#[test]
fn a_stored_capture_is_data() {
    for seed in 0..600 {
        assert_data_is_no_message("capture", seed, 1 + (seed as usize * 977) % 40_000, 12);
    }
    for seed in 0..12 {
        assert_data_is_no_message("capture", seed, 1 << 20, 6);
    }
}

#[test]
fn a_stored_stream_of_records_is_data() {
    for seed in 0..600 {
        assert_data_is_no_message("stream", seed, 1 + (seed as usize * 977) % 40_000, 12);
    }
    for seed in 0..12 {
        assert_data_is_no_message("stream", seed, 1 << 20, 6);
    }
}

#[test]
fn empty_fragments_before_a_short_one_lose_nothing() {
    for is_call in [true, false] {
        let mut random = Random::new(8);
        let mut stream = Stream::new(&mut random, is_call, true, 5, 0, |_| Vec::new());
        for xid in 5..15 {
            let body = head(xid, is_call, 6);
            stream.messages.push(SentMessage {
                xid,
                is_call,
                start: stream.bytes.len(),
                body: body.clone(),
            });
            // As many as the record's number, before a fragment of 8 bytes.
            stream.bytes.extend(vec![0; 4 * (xid as usize - 5)]);
            encode_record(&[8], &body, &mut stream.bytes);
        }
        for size in [1, 7, 60, stream.bytes.len()] {
            let (bytes, messages) = (stream.bytes.clone(), stream.messages.clone());
            let frames = Vec::new();
            let cut = Stream {
                bytes,
                messages,
                frames,
            }
            .cut(|| size);
            let lost = vec![false; cut.frames.len()];
            let run = Run {
                stream: &cut,
                lost: &lost,
                after_syn: true,
                depth: 2,
                config: Config::default(),
            };
            let (sink, counters, _) = run.go();
            run.assert_precise(&sink, "empty fragments");
            assert_eq!(sink.found.len(), 10, "{size}");
            assert_eq!(counters.value(Counter::Resynchronised), 0);
        }
    }
}

/// What is not RPC: the first segments of other protocols, and bytes of no protocol.
fn others() -> Vec<(&'static str, Vec<u8>)> {
    let mut random = Random::new(1);
    let mut tls = vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    tls.extend(random_bytes(&mut random, 20 << 20));
    vec![
        (
            "http",
            b"GET /index.html HTTP/1.1\r\nHost: example.org\r\n\r\n".repeat(400_000),
        ),
        ("tls", tls),
        ("ssh", b"SSH-2.0-OpenSSH_9.2\r\n".repeat(900_000)),
        ("random", random_bytes(&mut random, 20 << 20)),
        ("zeros", vec![0; 20 << 20]),
        ("ones", vec![0xff; 20 << 20]),
    ]
}

#[test]
fn other_protocols_are_recognised_early_and_held_never() {
    for (name, bytes) in others() {
        for after_syn in [true, false] {
            let (budget, config) = (Budget::new(64 << 20), Config::default());
            let (mut records, mut counters) = (Records::new(config, &budget), Counters::new());
            let mut sink = Sink::default();
            let mut held_until = 0;
            for (index, part) in bytes.chunks(1448).enumerate() {
                let frame = Frame::copied(part, Descriptor::default()).share();
                let chunk = Chunk::of_frame(&frame, 0, part.len());
                let first = after_syn && index == 0;
                records.on_stream(first, chunk, &mut sink, &mut counters);
                if records.holds() {
                    held_until = (index + 1) * 1448;
                }
            }
            assert!(sink.found.is_empty() && !records.is_rpc(), "{name}");
            let most = if after_syn {
                1448
            } else {
                config.search_max_bytes as usize + 2 * 1448
            };
            assert!(
                held_until <= most,
                "{name} after_syn {after_syn}: held until {held_until}"
            );
            assert!(
                budget.peak_bytes() < 64 << 10,
                "{name}: {}",
                budget.peak_bytes()
            );
        }
    }
}

/// Whether it comes whole or in parts, what is no message is not taken for one.
#[test]
fn a_record_that_is_no_message_is_searched_across() {
    for size in [10, 1 << 20] {
        let mut random = Random::new(4);
        let mut stream = Stream::new(&mut random, false, false, 5, 20, |random| {
            random_bytes(random, 60)
        });
        let start = stream.messages[10].start;
        // Behind the mark and the xid: neither call nor reply.
        stream.bytes[start + 11] = 9;
        let stream = stream.cut(|| size);
        let lost = vec![false; stream.frames.len()];
        let run = Run {
            stream: &stream,
            lost: &lost,
            after_syn: true,
            depth: 20,
            config: Config::default(),
        };
        let (sink, counters, _) = run.go();
        assert!(!sink.found.contains_key(&start));
        assert_eq!(sink.found.len(), 19);
        assert_eq!(counters.value(Counter::Resynchronised), 1);
    }
}

/// A record longer than allowed is passed over and counted; a mark that was garbled is no such
/// record.
#[test]
fn an_implausibly_long_record_is_counted() {
    for (begins_long, is_garbled, step) in [
        (false, false, 1000),
        (true, false, 1000),
        (false, true, 1000),
        (false, false, 8),
        (false, true, 8),
        // The mark alone in its segment, or in several.
        (true, false, 4),
        (true, false, 3),
        (false, false, 3),
        (false, true, 3),
        (true, false, 1),
        (false, false, 1),
    ] {
        let mut random = Random::new(6);
        let mut stream = Stream::new(&mut random, true, true, 5, 0, |_| Vec::new());
        for xid in 5..15 {
            let is_long = xid == if begins_long { 5 } else { 8 };
            let mut hidden = Vec::new();
            let mut body = head(xid, true, 7);
            body.resize(if is_long { 9000 } else { 100 }, 0xee);
            stream.messages.push(SentMessage {
                xid,
                is_call: true,
                start: stream.bytes.len(),
                body: body.clone(),
            });
            let start = stream.bytes.len();
            encode_record(&[], &body, &mut stream.bytes);
            if is_long && is_garbled {
                stream.bytes[start..start + 28].fill(0x77);
            } else if is_long {
                // A record in its data is not read.
                encode_record(&[], &head(xid + 1, true, 7), &mut hidden);
                let at = start + 100;
                stream.bytes[at..at + hidden.len()].copy_from_slice(&hidden);
            }
        }
        let stream = stream.cut(|| step);
        let lost = vec![false; stream.frames.len()];
        let config = Config {
            record_max_bytes: 8000,
            ..Config::default()
        };
        let run = Run {
            stream: &stream,
            lost: &lost,
            after_syn: true,
            depth: 2,
            config,
        };
        let (sink, counters, _) = run.go();
        run.assert_precise(&sink, "too long");
        assert_eq!(sink.found.len(), 9, "the others");
        let sent = counters.value(Counter::RecordLimit);
        assert_eq!(sent, u64::from(!is_garbled));
    }
}

/// What a search keeps of bytes without headers is little, and must be had: without memory for it
/// the search goes on.
#[test]
fn a_search_without_memory_goes_on() {
    let budget = Budget::new(8);
    let mut records = Records::new(Config::default(), &budget);
    let (mut sink, mut counters) = (Sink::default(), Counters::new());
    for ordinal in 0..3 {
        let descriptor = Descriptor {
            ordinal,
            ..Descriptor::default()
        };
        let frame = Frame::copied(&[0x77; 100], descriptor).share();
        let chunk = Chunk::of_frame(&frame, 0, 100);
        records.on_stream(false, chunk, &mut sink, &mut counters);
    }
    assert_eq!(counters.value(Counter::HeldLimit), 3);
    assert!(sink.found.is_empty() && !records.is_rpc());
}

#[test]
fn a_head_too_large_for_memory_is_read_as_far_as_it_came() {
    let mut random = Random::new(3);
    let stream = Stream::new(&mut random, false, false, 5, 20, |random| {
        random_bytes(random, 60)
    });
    let stream = stream.cut(|| 10);
    let mut sink = Sink {
        starts: stream.frames.iter().map(|(start, _)| *start).collect(),
        is_answered: true,
        ..Sink::default()
    };
    // Two parts of 10 bytes fit, with what holding them takes.
    let memory = 25 + 2 * 24 + 4 * size_of::<lineside_frame::Range>();
    let budget = Budget::new(memory);
    let mut records = Records::new(Config::default(), &budget);
    let mut counters = Counters::new();
    for (index, (_, frame)) in stream.frames.iter().enumerate() {
        let chunk = Chunk::of_frame(frame, 0, frame.bytes().len());
        records.on_stream(index == 0, chunk, &mut sink, &mut counters);
    }
    assert_eq!(sink.found.len(), 20);
    assert!(counters.value(Counter::HeldLimit) > 0);
    assert_eq!(
        counters.value(Counter::Resynchronised),
        0,
        "the walk goes on"
    );
}

/// Whoever sends calls that nobody answers leaves the reserve to those that are answered.
#[test]
fn heads_of_answered_calls_are_held_beside_a_flood() {
    const BUDGET: usize = 64 << 10;
    for is_answered in [false, true] {
        let (budget, mut counters) = (Budget::new(BUDGET), Counters::new());
        let mut hold_half = |sink: &mut Sink| {
            let mut records = Records::new(Config::default(), &budget);
            let mut record = Vec::new();
            encode_record(&[], &head(7, true, 4), &mut record);
            let frame = Frame::copied(&record[..20], Descriptor::default()).share();
            let chunk = Chunk::of_frame(&frame, 0, frame.bytes().len());
            records.on_stream(true, chunk, sink, &mut counters);
            let limits = counters.value(Counter::HeldLimit);
            (records, limits)
        };
        let mut flood = Vec::new();
        let limits = loop {
            let (records, limits) = hold_half(&mut Sink::default());
            flood.push(records);
            if limits > 0 {
                break limits;
            }
        };
        assert!(flood.len() > 100);
        let mut sink = Sink {
            is_answered,
            ..Sink::default()
        };
        let (records, limits) = { (0..20).map(|_| hold_half(&mut sink)) }.fold(
            (Vec::new(), limits),
            |(mut all, _), (records, limits)| {
                all.push(records);
                (all, limits)
            },
        );
        assert_eq!(limits, if is_answered { 1 } else { 21 });
        drop((flood, records));
        assert_eq!(budget.used_bytes(), 0);
    }
}
