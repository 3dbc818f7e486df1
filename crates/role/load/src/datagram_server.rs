//! A server of datagrams: each answer is kept until it leaves, which is soon.

use std::collections::VecDeque;

use lineside_frame::Chunk;
use lineside_time::Nanoseconds;

use crate::application::{Application, Calls, ConnectionId, End, Reason, SocketId};
use crate::protocol::DatagramServer as Protocol;
use crate::server::ServerCounts;

/// So many bytes of answers may wait to leave; then requests are counted and not answered.
const KEPT_MAX: usize = 1 << 22;

/// A server of a protocol of datagrams. Of its counts, `opened` are sockets and `failed` answers
/// that could not leave.
pub struct DatagramService<P> {
    protocol: P,
    /// The bytes of answers that wait, one after the other, and the length of each.
    kept: VecDeque<u8>,
    lens: VecDeque<u32>,
    /// The token of the first one.
    first: u64,
    answer: Vec<u8>,
    counts: ServerCounts,
}

impl<P: Protocol> DatagramService<P> {
    /// A server without a socket.
    pub fn new(protocol: P) -> Self {
        Self {
            protocol,
            kept: VecDeque::new(),
            lens: VecDeque::new(),
            first: 0,
            answer: Vec::new(),
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

    /// Lets answers up to one go: they leave in the order in which they were given.
    fn release(&mut self, token: u64) {
        while self.first <= token {
            let Some(len) = self.lens.pop_front() else {
                return;
            };
            self.kept.drain(..len as usize);
            self.first += 1;
        }
    }
}

impl<P: Protocol> Application for DatagramService<P> {
    fn on_bound(&mut self, _: SocketId, _: u32, _: End, _: &mut Calls) {
        self.counts.opened += 1;
    }

    fn on_datagram(
        &mut self,
        socket: SocketId,
        _: u32,
        ends: [End; 2],
        at: Nanoseconds,
        chunk: Chunk<'_>,
        calls: &mut Calls,
    ) {
        let bytes = chunk.bytes();
        self.counts.received_bytes += bytes.len() as u64;
        self.answer.clear();
        let is_request = self.protocol.read(ends, at, bytes, &mut self.answer);
        self.counts.requests += u64::from(is_request);
        let len = self.answer.len();
        if len == 0 {
            return;
        }
        if self.kept.len() + len > KEPT_MAX {
            self.counts.failed += 1;
            return;
        }
        let token = self.first + self.lens.len() as u64;
        self.kept.extend(&self.answer);
        self.lens.push_back(len as u32);
        self.counts.answer_bytes += len as u64;
        calls.datagram(socket, ends, len as u32, token, None);
    }

    fn fill_datagram(&mut self, _: u32, token: u64, _: Nanoseconds, bytes: &mut [u8]) {
        if let Some(before) = token.checked_sub(1) {
            self.release(before);
        }
        let kept = self.kept.range(..bytes.len().min(self.kept.len()));
        bytes
            .iter_mut()
            .zip(kept)
            .for_each(|(to, from)| *to = *from);
        self.release(token);
    }

    fn on_datagram_unsent(&mut self, _: u32, token: u64, _: Reason, _: &mut Calls) {
        self.release(token);
        self.counts.failed += 1;
    }

    // It has no connections, and schedules nothing.
    fn on_open(&mut self, _: ConnectionId, _: u32, _: [End; 2], _: &mut Calls) {}
    fn on_bytes(&mut self, _: ConnectionId, _: u32, _: Chunk<'_>, _: &mut Calls) {}
    fn on_acknowledged(&mut self, _: ConnectionId, _: u32, _: u64, _: &mut Calls) {}
    fn on_end(&mut self, _: ConnectionId, _: u32, _: &mut Calls) {}
    fn on_close(&mut self, _: Option<ConnectionId>, _: u32, _: Reason, _: &mut Calls) {}
    fn on_task(&mut self, _: Nanoseconds, _: u32, _: &mut Calls) {}
    fn fill(&mut self, _: ConnectionId, _: u32, _: u64, _: &mut [u8]) {}
}
