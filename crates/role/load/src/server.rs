//! A server: what a protocol answers, kept until the client has it.
//!
//! A connection at rest is a number. While it has an unfinished request, or an answer that is not
//! acknowledged, it has a record of a pool, whose memory is used again.

use std::collections::VecDeque;

use lineside_frame::Chunk;
use lineside_time::Nanoseconds;
use serde::{Deserialize, Serialize};

use crate::application::{Application, Calls, ConnectionId, End, Reason};
use crate::protocol::{Answers, Server as Protocol};

const NONE: u32 = u32::MAX;
/// A connection whose client takes no answers may have this many bytes of them, or this many
/// pieces; then nothing more is read from it.
const KEPT_MAX: usize = 1 << 20;
const PIECES_MAX: usize = 1 << 12;

/// What a server counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ServerCounts {
    /// Connections that were taken.
    pub opened: u64,
    /// Of these, over as they should be.
    pub finished: u64,
    /// Over in any other way.
    pub failed: u64,
    /// Requests that were read whole.
    pub requests: u64,
    /// Bytes that came.
    pub received_bytes: u64,
    /// Bytes of answers that left.
    pub answer_bytes: u64,
}

impl ServerCounts {
    /// Adds those of another server.
    pub fn add(&mut self, other: &Self) {
        self.opened += other.opened;
        self.finished += other.finished;
        self.failed += other.failed;
        self.requests += other.requests;
        self.received_bytes += other.received_bytes;
        self.answer_bytes += other.answer_bytes;
    }
}

/// A server of a protocol.
pub struct Server<P: Protocol> {
    protocol: P,
    /// By the number of a connection.
    places: Vec<Place>,
    records: Vec<Record<P>>,
    free: Vec<u32>,
    counts: ServerCounts,
}

/// What is known of any connection: 12 bytes.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// The place of its record; [`NONE`]: it has none.
    record: u32,
    /// Bytes of its stream so far, as of the end of its last record.
    sent: [u32; 2],
}

const AT_REST: Place = Place {
    record: NONE,
    sent: [0; 2],
};

/// What a connection needs while something is under way on it.
struct Record<P: Protocol> {
    reader: P::Reader,
    outgoing: Outgoing<P::Content>,
    is_held: bool,
}

/// Answers that the client does not have yet.
struct Outgoing<C> {
    pieces: VecDeque<Piece<C>>,
    kept: VecDeque<u8>,
    /// The stream's bytes so far, and those that are acknowledged.
    ready: u64,
    acknowledged: u64,
    departed: u64,
    /// Bytes that became ready in this callback.
    fresh: u64,
    requests: u64,
    closes: bool,
}

#[derive(Clone, Copy)]
struct Piece<C> {
    /// Where it ends in the stream.
    end: u64,
    len: u64,
    /// Which content; `None`: bytes that are kept.
    content: Option<C>,
}

impl<C> Default for Outgoing<C> {
    fn default() -> Self {
        Self {
            pieces: VecDeque::new(),
            kept: VecDeque::new(),
            ready: 0,
            acknowledged: 0,
            departed: 0,
            fresh: 0,
            requests: 0,
            closes: false,
        }
    }
}

impl<C: Copy> Answers<C> for Outgoing<C> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.kept.extend(bytes);
        self.push(bytes.len() as u64, None);
    }

    fn content(&mut self, content: C, len: u64) {
        self.push(len, Some(content));
    }

    fn close(&mut self) {
        self.closes = true;
    }

    fn request(&mut self) {
        self.requests += 1;
    }
}

impl<C: Copy> Outgoing<C> {
    fn push(&mut self, len: u64, content: Option<C>) {
        if len == 0 {
            return;
        }
        self.ready += len;
        self.fresh += len;
        match self.pieces.back_mut() {
            // Bytes behind bytes are one piece.
            Some(last) if last.content.is_none() && content.is_none() => {
                last.end += len;
                last.len += len;
            }
            _ => self.pieces.push_back(Piece {
                end: self.ready,
                len,
                content,
            }),
        }
    }

    /// Whether the client has been given as much as may wait for it.
    fn is_full(&self) -> bool {
        self.kept.len() > KEPT_MAX || self.pieces.len() > PIECES_MAX
    }

    fn acknowledge(&mut self, bytes: u64) {
        self.acknowledged += bytes;
        while let Some(piece) = self.pieces.front_mut() {
            let left = piece.end.saturating_sub(self.acknowledged);
            if piece.content.is_none() {
                self.kept
                    .drain(..(piece.len - left.min(piece.len)) as usize);
                piece.len = left.min(piece.len);
            }
            if left > 0 {
                return;
            }
            self.pieces.pop_front();
        }
    }

    fn fill(&self, protocol: &impl Protocol<Content = C>, offset: u64, bytes: &mut [u8]) {
        let end = offset + bytes.len() as u64;
        let mut kept = 0;
        for piece in &self.pieces {
            let start = piece.end - piece.len;
            let (from, to) = (start.max(offset), piece.end.min(end));
            if from < to {
                let part = &mut bytes[(from - offset) as usize..(to - offset) as usize];
                match piece.content {
                    Some(content) => protocol.content(content, from - start, part),
                    None => {
                        let first = kept + (from - start) as usize;
                        let range = self.kept.range(first..first + part.len());
                        part.iter_mut()
                            .zip(range)
                            .for_each(|(to, from)| *to = *from);
                    }
                }
            }
            if piece.end >= end {
                return;
            }
            kept += if piece.content.is_none() {
                piece.len as usize
            } else {
                0
            };
        }
    }

    /// As it was before the connection.
    fn clear(&mut self) {
        self.pieces.clear();
        self.kept.clear();
        (self.ready, self.acknowledged, self.fresh, self.requests) = (0, 0, 0, 0);
        self.closes = false;
    }
}

impl<P: Protocol> Server<P> {
    /// A server without connections.
    pub fn new(protocol: P) -> Self {
        Self {
            protocol,
            places: Vec::new(),
            records: Vec::new(),
            free: Vec::new(),
            counts: ServerCounts::default(),
        }
    }

    /// What was counted so far.
    pub fn counts(&self) -> ServerCounts {
        self.counts
    }

    /// The protocol.
    pub fn protocol(&self) -> &P {
        &self.protocol
    }

    /// Bytes of memory for connections.
    pub fn allocated_bytes(&self) -> usize {
        self.places.capacity() * size_of::<Place>()
            + self.records.capacity() * size_of::<Record<P>>()
    }

    fn place(&self, connection: ConnectionId) -> usize {
        self.places[connection.0 as usize].record as usize
    }

    /// The record of a connection, taken from the pool if it has none.
    fn record(&mut self, connection: ConnectionId) -> usize {
        let place = &mut self.places[connection.0 as usize];
        if place.record == NONE {
            place.record = self.free.pop().unwrap_or_else(|| {
                self.records.push(Record {
                    reader: P::Reader::default(),
                    outgoing: Outgoing::default(),
                    is_held: false,
                });
                self.records.len() as u32 - 1
            });
            let [low, high] = place.sent.map(u64::from);
            let outgoing = &mut self.records[place.record as usize].outgoing;
            outgoing.ready = high << 32 | low;
            (outgoing.acknowledged, outgoing.departed) = (outgoing.ready, outgoing.ready);
        }
        place.record as usize
    }

    /// Gives the record of a connection back if nothing is under way.
    fn settle(&mut self, connection: ConnectionId) {
        let place = self.place(connection);
        let Some(record) = self.records.get(place) else {
            return;
        };
        if record.outgoing.pieces.is_empty() && self.protocol.rests(&record.reader) {
            self.release(connection);
        }
    }

    fn release(&mut self, connection: ConnectionId) {
        let place = &mut self.places[connection.0 as usize];
        let number = std::mem::replace(&mut place.record, NONE);
        if let Some(record) = self.records.get_mut(number as usize) {
            let sent = record.outgoing.ready;
            place.sent = [sent as u32, (sent >> 32) as u32];
            self.protocol.release(std::mem::take(&mut record.reader));
            record.outgoing.clear();
            record.is_held = false;
            self.free.push(number);
        }
    }

    /// Sends what a callback has made ready.
    fn send(&mut self, connection: ConnectionId, calls: &mut Calls) {
        let place = self.place(connection);
        let record = &mut self.records[place];
        let outgoing = &mut record.outgoing;
        let fresh = std::mem::take(&mut outgoing.fresh);
        self.counts.requests += std::mem::take(&mut outgoing.requests);
        if fresh > 0 {
            calls.send(connection, fresh, None);
        }
        if std::mem::take(&mut outgoing.closes) {
            // A client that goes on sending hears its answer all the same: RFC 9112, 9.6.
            calls.finish(connection);
        } else if outgoing.is_full() && !record.is_held {
            record.is_held = true;
            calls.set_window(connection, 0);
        }
    }
}

impl<P: Protocol> Application for Server<P> {
    fn on_open(&mut self, connection: ConnectionId, _: u32, _: [End; 2], calls: &mut Calls) {
        let number = connection.0 as usize;
        if self.places.len() <= number {
            self.places.resize(number + 1, AT_REST);
        }
        self.places[number] = AT_REST;
        self.counts.opened += 1;
        if P::GREETS {
            let place = self.record(connection);
            let Record {
                reader, outgoing, ..
            } = &mut self.records[place];
            self.protocol.greet(reader, outgoing);
            self.send(connection, calls);
        }
    }

    fn on_bytes(&mut self, connection: ConnectionId, _: u32, chunk: Chunk<'_>, calls: &mut Calls) {
        let bytes = chunk.bytes();
        self.counts.received_bytes += bytes.len() as u64;
        self.protocol.pass(calls.now());
        let place = self.record(connection);
        let Record {
            reader, outgoing, ..
        } = &mut self.records[place];
        self.protocol.read(reader, bytes, outgoing);
        self.send(connection, calls);
        self.settle(connection);
    }

    fn on_acknowledged(&mut self, connection: ConnectionId, _: u32, bytes: u64, calls: &mut Calls) {
        let place = self.place(connection);
        let Some(record) = self.records.get_mut(place) else {
            return;
        };
        record.outgoing.acknowledge(bytes);
        if record.is_held && !record.outgoing.is_full() {
            record.is_held = false;
            calls.set_window(connection, u32::MAX);
        }
        self.settle(connection);
    }

    fn on_end(&mut self, connection: ConnectionId, _: u32, calls: &mut Calls) {
        calls.finish(connection);
    }

    fn on_close(
        &mut self,
        connection: Option<ConnectionId>,
        _: u32,
        reason: Reason,
        _: &mut Calls,
    ) {
        match reason {
            Reason::Finished => self.counts.finished += 1,
            _ => self.counts.failed += 1,
        }
        if let Some(connection) = connection {
            self.release(connection);
        }
    }

    fn on_task(&mut self, _: Nanoseconds, _: u32, _: &mut Calls) {}

    fn on_departed(&mut self, connection: ConnectionId, _: u32, until: u64, _: Nanoseconds) {
        let place = self.place(connection);
        if let Some(record) = self.records.get_mut(place) {
            let departed = &mut record.outgoing.departed;
            // What leaves again counts once.
            self.counts.answer_bytes += until.saturating_sub(*departed);
            *departed = until.max(*departed);
        }
    }

    fn fill(&mut self, connection: ConnectionId, _: u32, offset: u64, bytes: &mut [u8]) {
        if let Some(record) = self.records.get(self.place(connection)) {
            record.outgoing.fill(&self.protocol, offset, bytes);
        }
    }
}
