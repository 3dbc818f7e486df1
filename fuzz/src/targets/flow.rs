//! Streams: the flow engine fed with any segments. What it delivers has to be gapless, in order and
//! from the right place of a frame that was given to it.

use std::ops::Range;

use lineside_account::{Budget, Counter, Counters, Kind};
use lineside_flow::{Config, Connection, Engine, FlowCounts, StreamSink};
use lineside_frame::{Cause, Chunk, Descriptor, Frame, LinkType};
use lineside_wire::{
    Direction, PROTOCOL_TCP, SeqNumber, TcpFlags, TcpHeader, checksum, ethernet, ipv4,
};

use super::Bytes;

/// A TCP header as it is put into the frames.
const HEADER_LEN: usize = 20;
/// The headers before it.
const ETHERNET_LEN: usize = ethernet::HEADER_LEN;
const HEADERS_LEN: usize = ETHERNET_LEN + ipv4::HEADER_LEN;

/// Segments of eight bytes of choices each; two bytes of choices for all end the input.
pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let (choice, begin) = (bytes.last(), bytes.last());
    let bit = |bit: u8| choice & (1 << bit) != 0;
    let mut config = Config {
        interval_ns: 1_000_000_000,
        ..Config::default()
    };
    if bit(0) {
        config.late_segments = 3;
    }
    if bit(1) {
        config.flow_held_max_bytes = 500;
    }
    if bit(2) {
        config.connections_max = 1;
    }
    if bit(3) {
        config.idle_timeout_ns = 1_000_000_000;
    }
    let budget = Budget::new(if bit(4) { 9_000 } else { 1 << 20 });
    let mut engine = Engine::new(config, &budget);
    let mut counters = Counters::new();
    let mut sink = Streams::default();
    // Where each direction of each of two connections is; near the wrap-around, if so chosen.
    let base = u32::from(begin) << 24 | if begin & 1 == 0 { 0 } else { 0x00ff_ff00 };
    let mut next = [[base, base.wrapping_mul(3)].map(SeqNumber); 2];
    let mut now = 0;
    while !bytes.is_empty() {
        let (flags, kind) = (bytes.u8(), bytes.u8());
        let (step, acknowledged) = (bytes.u8() as i8, bytes.u8() as i8);
        let (len, time) = (usize::from(bytes.u16()) % 3000, bytes.u8());
        let (connection, direction) = (
            usize::from(kind & 1),
            Direction::BOTH[usize::from(kind >> 1 & 1)],
        );
        let scale = match kind >> 2 & 3 {
            0 => 0,
            1 => 1,
            2 => 500,
            // Beyond what can be a gap.
            _ => 10 << 20,
        };
        let sequence = next[connection][direction] + (i32::from(step) * scale) as u32;
        let acknowledgement =
            next[connection][direction.opposite()] + (i32::from(acknowledged) * 100) as u32;
        let snapped = if kind & 0x20 == 0 { 0 } else { len / 2 };
        now += if kind & 0x40 == 0 {
            i64::from(time) * 10_000
        } else {
            i64::from(time) * 1_000_000_000
        };
        let header = TcpHeader {
            source_port: 700 + direction.index() as u16,
            destination_port: 701 - direction.index() as u16,
            sequence,
            acknowledgement,
            flags: TcpFlags(flags),
            window: 1000,
            checksum: 0,
            header_len: HEADER_LEN,
            payload: HEADER_LEN,
            payload_len: len,
            captured_len: len - snapped,
            checksum_offloaded: false,
        };
        sink.segment(
            &mut engine,
            now,
            connection,
            header,
            kind & 0x80 != 0,
            &mut counters,
        );
        if kind & 0x10 == 0 {
            let end = sequence + (len as u32 + u32::from(flags >> 1 & 1));
            next[connection][direction] = end;
        }
        if time & 1 != 0 {
            engine.on_timer(now, &mut sink, &mut counters);
        }
        if time & 6 == 6 {
            engine.spill(&mut counters);
        }
        assert_eq!(counters.value(Counter::StreamDelivered), sink.delivered);
        assert_eq!(counters.value(Counter::StreamLost), sink.lost);
    }
    engine.finish(&mut sink, &mut counters);
    assert_eq!(counters.broken_identity(), None);
    assert_eq!(counters.value(Counter::StreamDelivered), sink.delivered);
    assert_eq!(counters.value(Counter::StreamLost), sink.lost);
    assert_eq!(counters.value(Counter::StreamHeld), 0);
    assert_eq!(
        sink.places,
        [const { None }; 8],
        "every connection is closed"
    );
    assert_eq!(budget.used_bytes(), 0);
    assert!(counters.sum(Kind::Limit) > 0 || counters.value(Counter::DroppedConnections) == 0);
}

/// Follows the streams.
#[derive(Default)]
struct Streams {
    /// Of each frame, by its ordinal: the sequence number of its first payload byte.
    sequences: Vec<SeqNumber>,
    /// By connection: the next byte's sequence number and offset of each direction, once one was
    /// seen.
    places: [Option<[Place; 2]>; 8],
    delivered: u64,
    lost: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Place {
    sequence: Option<SeqNumber>,
    offset: Option<i64>,
}

impl Streams {
    /// Gives a segment to the engine, whole or in two fragments.
    fn segment(
        &mut self,
        engine: &mut Engine,
        now: i64,
        connection: usize,
        tcp: TcpHeader,
        in_fragments: bool,
        counters: &mut Counters,
    ) {
        let mut bytes = vec![0; HEADER_LEN];
        bytes[..2].copy_from_slice(&tcp.source_port.to_be_bytes());
        bytes[2..4].copy_from_slice(&tcp.destination_port.to_be_bytes());
        bytes[4..8].copy_from_slice(&tcp.sequence.0.to_be_bytes());
        bytes[8..12].copy_from_slice(&tcp.acknowledgement.0.to_be_bytes());
        (bytes[12], bytes[13]) = ((HEADER_LEN as u8 / 4) << 4, tcp.flags.0);
        let syn = u32::from(tcp.flags.opens());
        let first = tcp.sequence + syn;
        let content = |at: usize| byte(first + at as u32);
        bytes.extend((0..tcp.captured_len).map(content));
        let address = |host: u16| [10, 0, connection as u8, host as u8];
        let mut header = [0; HEADERS_LEN];
        header[12..14].copy_from_slice(&0x0800_u16.to_be_bytes());
        (header[14], header[22], header[23]) = (0x45, 64, PROTOCOL_TCP);
        header[18..20].copy_from_slice(&(self.sequences.len() as u16).to_be_bytes());
        header[26..30].copy_from_slice(&address(tcp.source_port));
        header[30..34].copy_from_slice(&address(tcp.destination_port));
        let len = HEADER_LEN + tcp.payload_len;
        let first = first - HEADER_LEN as u32;
        if !in_fragments {
            return self.packet(engine, now, header, &bytes, 0..len, first, counters);
        }
        // The first fragment has the header and at most 40 bytes; the other one may come first.
        let border = (bytes.len() / 8 * 8).min(64);
        let mut parts = [0..border, border..len];
        if tcp.payload_len % 2 == 1 {
            parts.reverse();
        }
        for part in parts {
            let more = if part.start == 0 { 0x2000 } else { 0 };
            let fragment = more | (part.start / 8) as u16;
            header[20..22].copy_from_slice(&fragment.to_be_bytes());
            self.packet(engine, now, header, &bytes, part, first, counters);
        }
    }

    /// Gives a part of a segment to the engine in a packet with this header; `first` is the
    /// sequence number of the segment's first byte.
    #[expect(clippy::too_many_arguments, reason = "all of them are of one packet")]
    fn packet(
        &mut self,
        engine: &mut Engine,
        now: i64,
        mut header: [u8; HEADERS_LEN],
        segment: &[u8],
        part: Range<usize>,
        first: SeqNumber,
        counters: &mut Counters,
    ) {
        let captured = &segment[part.start.min(segment.len())..part.end.min(segment.len())];
        let total_len = HEADERS_LEN - ETHERNET_LEN + part.len();
        header[16..18].copy_from_slice(&(total_len as u16).to_be_bytes());
        let sum = checksum::checksum(&header[ETHERNET_LEN..]);
        header[24..26].copy_from_slice(&sum.to_be_bytes());
        let before = (HEADERS_LEN as u32).wrapping_sub(part.start as u32);
        self.sequences.push(first - before);
        let descriptor = Descriptor {
            stamp_ns: Some(now),
            wire_len: (HEADERS_LEN + part.len()) as u32,
            link_type: LinkType::ETHERNET,
            number: self.sequences.len() as u64,
            ordinal: self.sequences.len() as u64,
            ..Descriptor::default()
        };
        let frame = Frame::copied(&[&header, captured].concat(), descriptor).share();
        counters.count(Counter::FramesReceived);
        let taken = engine.on_frame(now, &frame, self, counters);
        counters.count(taken.outcome);
    }

    fn place(&mut self, connection: usize, direction: Direction) -> &mut Place {
        &mut self.places[connection]
            .as_mut()
            .expect("an open connection")[direction]
    }
}

/// The byte that has this sequence number.
fn byte(sequence: SeqNumber) -> u8 {
    sequence
        .0
        .to_be_bytes()
        .into_iter()
        .fold(0, |sum, byte| sum ^ byte)
}

impl StreamSink for Streams {
    fn on_open(&mut self, connection: usize, _: &Connection) {
        assert_eq!(self.places[connection], None, "the slot is in use");
        self.places[connection] = Some([Place::default(); 2]);
    }

    fn on_stream(
        &mut self,
        connection: usize,
        direction: Direction,
        after_syn: bool,
        chunk: Chunk<'_>,
        _: &mut Counters,
    ) {
        assert!(!chunk.is_empty());
        let first = self.sequences[chunk.descriptor().ordinal as usize - 1]
            + chunk.offset_in_frame() as u32;
        let place = self.place(connection, direction);
        assert!(
            !after_syn || place.sequence.is_none(),
            "bytes before the first"
        );
        if chunk.missing().is_some() {
            if let Some(sequence) = &mut place.sequence {
                *sequence += chunk.len() as u32;
            }
            return;
        }
        if let Some(expected) = place.sequence {
            assert_eq!(first, expected, "what is delivered has gaps or comes twice");
        }
        place.sequence = Some(first + chunk.len() as u32);
        for (at, &found) in chunk.bytes().iter().enumerate() {
            assert_eq!(found, byte(first + at as u32));
        }
        self.delivered += chunk.len() as u64;
    }

    fn on_datagram(&mut self, _: usize, _: Direction, _: &[Chunk<'_>], _: &mut Counters) {
        unreachable!("there is no UDP");
    }

    fn on_loss(
        &mut self,
        connection: usize,
        _: &Connection,
        direction: Direction,
        offset: i64,
        hole: Chunk<'_>,
    ) {
        assert!(matches!(
            hole.missing(),
            Some(Cause::NotSeen | Cause::Lost | Cause::SnapLength | Cause::GivenUp)
        ));
        let place = self.place(connection, direction);
        assert!(
            place.offset.is_none_or(|before| before <= offset),
            "holes in order"
        );
        place.offset = Some(offset + hole.len() as i64);
        // What is lost behind all that was seen is told here alone.
        self.lost += hole.len() as u64;
    }

    fn on_interval(&mut self, _: usize, _: &Connection, _: i64, _: &[FlowCounts; 2]) {}

    fn on_close(&mut self, connection: usize, _: &Connection, _: &mut Counters) {
        assert!(self.places[connection].take().is_some(), "closed twice");
    }
}
