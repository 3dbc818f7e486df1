//! The calls of a capture as they were on the wire: streams put together by `lineside-flow` alone,
//! in which a call is found by the id of its row.

use std::collections::HashMap;
use std::path::Path;

use lineside_account::{Budget, Counters};
use lineside_flow::{Config, Connection, Engine, FlowCounts, StreamSink};
use lineside_frame::{Burst, Chunk, SharedBurst};
use lineside_port::{CaptureReader, PoolConfig, Receive, Received};
use lineside_wire::Direction;

/// Bits of an id that give a place in its frame.
const PLACE_BITS: u32 = 18;
const LAST_FRAGMENT: u32 = 1 << 31;

/// A byte, unless the capture did not see it.
type Seen = Option<u8>;

/// All streams and datagrams of a capture.
#[derive(Default)]
pub(super) struct Wire {
    streams: Vec<Vec<Seen>>,
    /// The stream of each direction of the connections that are open.
    open: HashMap<(usize, Direction), usize>,
    /// What each frame brought: where it lies in the frame, the stream, where there, how long.
    brought: HashMap<u64, Vec<(usize, usize, usize, usize)>>,
    /// Messages of their own.
    datagrams: HashMap<(u64, usize), Vec<Seen>>,
}

impl Wire {
    pub(super) fn of(capture: &Path) -> Self {
        let pool = PoolConfig::new(Budget::new(256 << 20), 64 << 20);
        let mut reader = CaptureReader::open(capture, &pool).expect("a capture");
        let budget = Budget::new(256 << 20);
        let mut engine = Engine::new(Config::default(), &budget);
        let (mut wire, mut counters) = (Self::default(), Counters::new());
        let (mut burst, mut now) = (Burst::new(), i64::MIN);
        while reader.receive(&mut burst, 256).expect("no failure") != Received::End {
            // As a run does, whose ids these are: one input's frames have their own numbers.
            for frame in burst.iter_mut() {
                let descriptor = frame.descriptor_mut();
                descriptor.ordinal = descriptor.number;
            }
            for frame in SharedBurst::new(&mut burst).iter() {
                now = now.max(frame.descriptor().stamp_ns.unwrap_or(now));
                engine.on_frame(now, frame, &mut wire, &mut counters);
            }
            engine.spill(&mut counters);
        }
        engine.finish(&mut wire, &mut counters);
        wire
    }

    /// The message that begins where an id says; `None`: not all of it was seen.
    pub(super) fn message(&self, id: i64) -> Option<Vec<u8>> {
        let (frame, place) = (
            id as u64 >> PLACE_BITS,
            id as usize & ((1 << PLACE_BITS) - 1),
        );
        if let Some(datagram) = self.datagrams.get(&(frame, place)) {
            return datagram.iter().copied().collect();
        }
        let brought = self.brought.get(&frame)?;
        let &(offset, stream, at, _) = { brought.iter() }
            .find(|&&(offset, _, _, len)| (offset..offset + len).contains(&place))?;
        let mut rest = self.streams[stream].get(at + place - offset..)?;
        let mut message = Vec::new();
        loop {
            let (mark, behind) = rest.split_at_checked(4)?;
            let mark: Option<Vec<u8>> = mark.iter().copied().collect();
            let mark = u32::from_be_bytes(mark?.try_into().ok()?);
            let (fragment, behind) = behind.split_at_checked((mark & !LAST_FRAGMENT) as usize)?;
            for &byte in fragment {
                message.push(byte?);
            }
            if mark & LAST_FRAGMENT != 0 {
                return Some(message);
            }
            rest = behind;
        }
    }
}

impl StreamSink for Wire {
    fn on_open(&mut self, connection: usize, _: &Connection) {
        for direction in Direction::BOTH {
            self.open
                .insert((connection, direction), self.streams.len());
            self.streams.push(Vec::new());
        }
    }

    fn on_stream(
        &mut self,
        connection: usize,
        direction: Direction,
        _after_syn: bool,
        chunk: Chunk<'_>,
        _: &mut Counters,
    ) {
        let stream = self.open[&(connection, direction)];
        let bytes = &mut self.streams[stream];
        if chunk.missing().is_some() {
            // Longer holes than a message has no test needs.
            let len = chunk.len().min(1 << 20);
            return bytes.extend(std::iter::repeat_n(None, len));
        }
        let place = (chunk.offset_in_frame(), stream, bytes.len(), chunk.len());
        let brought = self.brought.entry(chunk.descriptor().ordinal);
        brought.or_default().push(place);
        bytes.extend(chunk.bytes().iter().copied().map(Some));
    }

    fn on_datagram(&mut self, _: usize, _: Direction, chunks: &[Chunk<'_>], _: &mut Counters) {
        let Some(first) = chunks.first() else { return };
        let place = (first.descriptor().ordinal, first.offset_in_frame());
        let mut bytes = Vec::new();
        for chunk in chunks {
            match chunk.missing() {
                Some(_) => bytes.extend(std::iter::repeat_n(None, chunk.len())),
                None => bytes.extend(chunk.bytes().iter().copied().map(Some)),
            }
        }
        self.datagrams.insert(place, bytes);
    }

    fn on_loss(&mut self, _: usize, _: &Connection, _: Direction, _: i64, _: Chunk<'_>) {}

    fn on_interval(&mut self, _: usize, _: &Connection, _: i64, _: &[FlowCounts; 2]) {}

    fn on_close(&mut self, _: usize, _: &Connection, _: &mut Counters) {}
}
