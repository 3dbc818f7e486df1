//! A connection by hand, one segment after the other.

use lineside_account::{Budget, Counters};
use lineside_flow::{Connection, Engine, FlowCounts, StreamSink, Value};
use lineside_frame::{Cause, Chunk, Descriptor, Frame, LinkType};
use lineside_wire::Direction::{self, Forward, Reverse};
use lineside_wire::ethernet;

use crate::simulation::{ACK, SYN, builder};
use crate::{SPACING_NS, config};

/// A connection by hand: segments of both directions, their sequence numbers relative to the first.
pub(crate) struct Hand {
    pub(crate) engine: Engine,
    pub(crate) counters: Counters,
    pub(crate) frames: u64,
    pub(crate) budget: Budget,
    /// The initiator's port.
    pub(crate) port: u16,
    /// By how much a stamp is behind the clock.
    pub(crate) lag_ns: i64,
    /// Without its Ethernet header no frame is a plain one.
    pub(crate) is_raw: bool,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Recorder {
    pub(crate) streams: [Vec<u8>; 2],
    pub(crate) holes: [Vec<(usize, Cause)>; 2],
    pub(crate) order: Vec<(Direction, usize)>,
    pub(crate) rtt_samples: u64,
    pub(crate) intervals: Vec<[FlowCounts; 2]>,
    /// Direction, where, and since when later bytes waited.
    pub(crate) sent_again: Vec<(Direction, i64, Option<i64>)>,
    /// The stamps of losses.
    pub(crate) lost_ns: Vec<Option<i64>>,
    pub(crate) now: i64,
    /// When connections were closed.
    pub(crate) closed_ns: Vec<i64>,
    /// The connections that it values: those whose streams have this many bytes.
    pub(crate) valued_from: Option<usize>,
    pub(crate) valued: Vec<usize>,
}

impl StreamSink for Recorder {
    fn on_time(&mut self, now: i64) {
        self.now = now;
    }
    fn on_open(&mut self, _: usize, _: &Connection) {}

    fn value(&self, connection: usize) -> Value {
        match self.valued.contains(&connection) {
            true => Value::Proven,
            false => Value::None,
        }
    }

    fn on_stream(
        &mut self,
        connection: usize,
        direction: Direction,
        _: bool,
        chunk: Chunk<'_>,
        _: &mut Counters,
    ) {
        match chunk.missing() {
            Some(cause) => self.holes[direction].push((chunk.len(), cause)),
            None => self.streams[direction].extend_from_slice(chunk.bytes()),
        }
        self.order.push((direction, chunk.len()));
        if self.valued_from.is_some_and(|from| chunk.len() >= from) {
            self.valued.push(connection);
        }
    }

    fn on_datagram(&mut self, _: usize, _: Direction, _: &[Chunk<'_>], _: &mut Counters) {}
    fn on_loss(&mut self, _: usize, _: &Connection, _: Direction, _: i64, hole: Chunk<'_>) {
        self.lost_ns.push(hole.descriptor().stamp_ns);
    }
    fn on_interval(&mut self, _: usize, _: &Connection, _: i64, counts: &[FlowCounts; 2]) {
        self.rtt_samples += counts[0].rtt_samples + counts[1].rtt_samples;
        self.intervals.push(*counts);
    }
    fn on_sent_again(
        &mut self,
        _: usize,
        direction: Direction,
        from: i64,
        since_ns: Option<i64>,
        _: i64,
    ) {
        self.sent_again.push((direction, from, since_ns));
    }
    fn on_close(&mut self, _: usize, _: &Connection, _: &mut Counters) {
        self.closed_ns.push(self.now);
    }
}

impl Hand {
    pub(crate) fn new() -> Self {
        let budget = Budget::new(64 << 20);
        Self {
            engine: Engine::new(config(), &budget),
            counters: Counters::new(),
            frames: 0,
            budget,
            port: 700,
            lag_ns: 0,
            is_raw: false,
        }
    }

    pub(crate) fn segment(
        &mut self,
        sink: &mut Recorder,
        direction: Direction,
        sequence: u32,
        acknowledgement: u32,
        flags: u8,
        payload: &[u8],
    ) {
        let bytes = builder(
            self.port,
            direction,
            sequence,
            acknowledgement,
            flags,
            payload,
        );
        self.frame(sink, &bytes);
    }

    pub(crate) fn frame(&mut self, sink: &mut Recorder, bytes: &[u8]) {
        self.frames += 1;
        let (bytes, link_type) = match self.is_raw {
            true => (&bytes[ethernet::HEADER_LEN..], LinkType::RAW),
            false => (bytes, LinkType::ETHERNET),
        };
        let descriptor = Descriptor {
            stamp_ns: Some(self.frames as i64 * SPACING_NS - self.lag_ns),
            link_type,
            ordinal: self.frames,
            number: self.frames,
            ..Descriptor::default()
        };
        let frame = Frame::copied(bytes, descriptor).share();
        let now = self.frames as i64 * SPACING_NS;
        self.engine.on_frame(now, &frame, sink, &mut self.counters);
    }

    pub(crate) fn handshake(&mut self, sink: &mut Recorder) {
        self.segment(sink, Forward, u32::MAX, 0, SYN, b"");
        self.segment(sink, Reverse, u32::MAX, 0, SYN | ACK, b"");
        self.segment(sink, Forward, 0, 0, ACK, b"");
    }

    pub(crate) fn finish(mut self, sink: &mut Recorder) -> Counters {
        self.engine.finish(sink, &mut self.counters);
        assert_eq!(self.budget.used_bytes(), 0);
        self.counters
    }
}
