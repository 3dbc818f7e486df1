//! What passive reassembly makes of the same run.

use std::collections::BTreeMap;

use lineside_account::{Budget, Counter, Counters};
use lineside_flow::{Config, Connection, Engine, FlowCounts, StreamSink};
use lineside_frame::{Chunk, Descriptor, Frame};
use lineside_wire::{Direction, Dissected, HeaderChecksum, dissect_outermost, tcp};

use crate::host::PORT;
use crate::{ClientEnd, Content};

/// No more than the largest window of a scenario comes after what is missing.
const AHEAD_MAX: u64 = 1 << 20;

/// The engine, and what it delivered.
pub(crate) struct Tap {
    engine: Engine,
    counters: Counters,
    seen: Seen,
    frames: u64,
}

/// Bytes of each connection's client and server, in the incarnation that has most of them.
pub(crate) type Streams = BTreeMap<ClientEnd, [u64; 2]>;

#[derive(Default)]
struct Seen {
    streams: Streams,
    slots: BTreeMap<usize, Incarnation>,
    errors: Vec<String>,
    lost: Vec<(ClientEnd, String)>,
    /// Of clients, and of the server.
    window_waits: [u64; 2],
}

/// A connection as the engine knows it. A late SYN begins another one of the same four-tuple, whose
/// bytes count from 0 again: RFC 9293, 3.5, figure 8.
struct Incarnation {
    client: ClientEnd,
    /// The direction in which its client sends.
    of_client: Direction,
    /// Bytes of the client and of the server so far, holes among them; of one that had no SYN it is
    /// known only once its bytes show where it goes on.
    offsets: [Option<u64>; 2],
}

impl Tap {
    pub(crate) fn new() -> Self {
        let config = Config {
            // Packets without a number that differs look like copies of each other.
            duplicate_window_ns: 0,
            ..Config::default()
        };
        Self {
            engine: Engine::new(config, &Budget::new(256 << 20)),
            counters: Counters::new(),
            seen: Seen::default(),
            frames: 0,
        }
    }

    /// A frame passes. A damaged one is the host's to drop: passive reassembly, which sees frames
    /// whose checksums were never filled in, does not look at them.
    pub(crate) fn see(&mut self, now: i64, frame: &Frame) {
        if is_damaged(frame) {
            return;
        }
        self.frames += 1;
        let descriptor = Descriptor {
            stamp_ns: Some(now),
            number: self.frames,
            ordinal: self.frames,
            ..*frame.descriptor()
        };
        let copy = Frame::copied(frame.bytes(), descriptor).share();
        self.counters.count(Counter::FramesReceived);
        let taken = { &mut self.engine }.on_frame(now, &copy, &mut self.seen, &mut self.counters);
        self.counters.count(taken.outcome);
    }

    /// The end: how many bytes of each connection it saw and how often clients, and the server,
    /// waited for room, or what it found wrong; `broken` connections may end with a loss.
    pub(crate) fn finish(mut self, broken: &[ClientEnd]) -> Result<(Streams, [u64; 2]), String> {
        self.engine.finish(&mut self.seen, &mut self.counters);
        if let Some(broken) = self.counters.broken_identity() {
            return Err(broken);
        }
        let mut errors = self.seen.errors.iter().chain(
            { self.seen.lost.iter() }
                .filter(|(client, _)| !broken.contains(client))
                .map(|(_, error)| error),
        );
        match errors.next() {
            Some(error) => Err(error.clone()),
            None => Ok((self.seen.streams, self.seen.window_waits)),
        }
    }
}

fn is_damaged(frame: &Frame) -> bool {
    let bytes = frame.bytes();
    let Dissected::Tcp(ip, _) = dissect_outermost(1, bytes, bytes.len()) else {
        return true;
    };
    let segment = tcp::Segment::new_checked(&bytes[ip.payload..][..ip.payload_len]);
    let is_right = segment.is_some_and(|tcp| tcp.verify_checksum(ip.source, ip.destination));
    ip.checksum == HeaderChecksum::Wrong || !is_right
}

impl StreamSink for Seen {
    fn on_open(&mut self, connection: usize, facts: &Connection) {
        let [one, other] = facts.ends();
        let (client, of_client) = match one.port == PORT {
            true => (other, Direction::Reverse),
            false => (one, Direction::Forward),
        };
        let client = (client.address, client.port);
        let incarnation = Incarnation {
            client,
            of_client,
            offsets: [None; 2],
        };
        self.slots.insert(connection, incarnation);
        self.streams.entry(client).or_default();
    }

    fn on_stream(
        &mut self,
        connection: usize,
        direction: Direction,
        after_syn: bool,
        chunk: Chunk<'_>,
        _: &mut Counters,
    ) {
        let incarnation = self.slots.get_mut(&connection).expect("it was opened");
        let client = incarnation.client;
        let from_client = direction == incarnation.of_client;
        let content = Content::new(client, from_client);
        let side = usize::from(!from_client);
        let most = &mut self.streams.entry(client).or_default()[side];
        let place = match incarnation.offsets[side] {
            None if after_syn => Some(0),
            None if chunk.missing().is_some() => return,
            // To an end that has forgotten the connection, as the tap has: bytes that come again,
            // or come late.
            None => {
                let mut places = 0..*most + AHEAD_MAX;
                places.find(|&at| content.differs(at, chunk.bytes()).is_none())
            }
            known => known,
        };
        let Some(offset) = place else {
            let text = format!("the tap has bytes of no place of {client:?}");
            self.errors.push(text);
            return;
        };
        if offset > *most {
            let text = format!("the tap lost {most}..{offset} of {client:?}");
            self.lost.push((client, text));
        }
        if let Some(at) = content.differs(offset, chunk.bytes()) {
            let text = format!("the tap has another byte at {at} of {client:?}");
            self.errors.push(text);
        }
        let end = offset + chunk.len() as u64;
        incarnation.offsets[side] = Some(end);
        *most = (*most).max(end);
    }

    fn on_datagram(&mut self, _: usize, _: Direction, _: &[Chunk<'_>], _: &mut Counters) {}

    fn on_loss(
        &mut self,
        connection: usize,
        _: &Connection,
        _: Direction,
        offset: i64,
        hole: Chunk<'_>,
    ) {
        let client = self.slots[&connection].client;
        let len = hole.len();
        let text = format!("the tap lost {len} bytes at {offset} of {client:?}");
        self.lost.push((client, text));
    }

    fn on_interval(&mut self, connection: usize, _: &Connection, _: i64, counts: &[FlowCounts; 2]) {
        let of_client = self.slots[&connection].of_client;
        self.window_waits[0] += counts[of_client].window_waits;
        self.window_waits[1] += counts[of_client.opposite()].window_waits;
    }

    fn on_close(&mut self, connection: usize, _: &Connection, _: &mut Counters) {
        self.slots.remove(&connection);
    }
}
