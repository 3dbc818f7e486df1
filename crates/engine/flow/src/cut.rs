//! Datagrams that a snap length cut, while a longer copy by another tap may still come. Not here:
//! segments, which their stream holds, and fragments.

use std::collections::VecDeque;

use lineside_account::{Budget, Counters, Lease};
use lineside_frame::{Cause, Chunk, Range};
use lineside_wire::Direction;

use crate::sink::StreamSink;

/// Datagrams that wait at once; those beyond are delivered as they are. A guess: 1 million a
/// second, in the usual millisecond.
const WAITING_MAX: usize = 1024;

/// What copies of a datagram have in common beside their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Datagram {
    /// Its connection.
    pub(crate) slot: usize,
    pub(crate) direction: Direction,
    pub(crate) identification: u16,
    /// Bytes on the wire.
    pub(crate) payload_len: usize,
}

/// One that waits.
pub(crate) struct CutDatagram {
    datagram: Datagram,
    /// As much as was captured.
    payload: Range,
    until_ns: i64,
    /// Draws it on the memory budget.
    lease: Lease,
}

impl CutDatagram {
    fn is(&self, datagram: &Datagram, payload: &Chunk<'_>) -> bool {
        let mut both = self.payload.bytes().iter().zip(payload.bytes());
        self.datagram == *datagram && both.all(|(one, other)| one == other)
    }

    /// Takes a longer copy's bytes, and keeps its own stamp and frame.
    fn set_payload(&mut self, longer: &Chunk<'_>) {
        let descriptor = self.payload.descriptor;
        self.payload = longer.hold();
        self.payload.descriptor = descriptor;
    }

    pub(crate) fn deliver<S: StreamSink>(&self, sink: &mut S, counters: &mut Counters) {
        let Datagram {
            slot,
            direction,
            payload_len,
            ..
        } = self.datagram;
        let cut_len = payload_len - self.payload.len();
        let cut = Chunk::hole(cut_len, Cause::SnapLength, &self.payload.descriptor);
        let chunks = [self.payload.chunk(), cut];
        let chunks = &chunks[..if cut.is_empty() { 1 } else { 2 }];
        sink.on_datagram(slot, direction, chunks, counters);
    }
}

/// All that wait, in the order in which they came.
pub(crate) struct CutDatagrams {
    window_ns: i64,
    budget: Budget,
    waiting: VecDeque<CutDatagram>,
}

impl CutDatagrams {
    /// Each waits for `window_ns`; with 0, none does.
    pub(crate) fn new(window_ns: i64, budget: &Budget) -> Self {
        Self {
            window_ns,
            budget: budget.clone(),
            waiting: VecDeque::new(),
        }
    }

    /// True if none waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// After this time the first one waits no longer.
    pub(crate) fn until_ns(&self) -> i64 {
        let first = self.waiting.front();
        first.map_or(i64::MAX, |first| first.until_ns)
    }

    /// Lets a datagram wait, if there is room for it.
    pub(crate) fn hold(&mut self, now: i64, datagram: Datagram, payload: &Chunk<'_>) -> bool {
        if self.window_ns == 0 || self.waiting.len() == WAITING_MAX {
            return false;
        }
        let Some(lease) = self.budget.lease(size_of::<CutDatagram>() + payload.len()) else {
            return false;
        };
        self.waiting.push_back(CutDatagram {
            datagram,
            payload: payload.hold(),
            until_ns: now.saturating_add(self.window_ns),
            lease,
        });
        true
    }

    /// A copy of a datagram came: if that waits, it becomes as long as the copy. Returns it if it
    /// is whole now.
    pub(crate) fn lengthen(
        &mut self,
        datagram: &Datagram,
        payload: &Chunk<'_>,
    ) -> Option<CutDatagram> {
        let is_it = |one: &CutDatagram| one.is(datagram, payload);
        let at = self.waiting.iter().position(is_it)?;
        if payload.len() == datagram.payload_len {
            let mut whole = self.waiting.remove(at)?;
            whole.set_payload(payload);
            return Some(whole);
        }
        let one = &mut self.waiting[at];
        let more = payload.len().saturating_sub(one.payload.len());
        if more > 0 && one.lease.resize(one.lease.bytes() + more) {
            one.set_payload(payload);
        }
        None
    }

    /// Takes out the first one.
    pub(crate) fn pop(&mut self) -> Option<CutDatagram> {
        self.waiting.pop_front()
    }

    /// Takes out the first one of a connection.
    pub(crate) fn pop_of(&mut self, slot: usize) -> Option<CutDatagram> {
        let is_its = |one: &CutDatagram| one.datagram.slot == slot;
        let at = self.waiting.iter().position(is_its)?;
        self.waiting.remove(at)
    }

    /// Copies what waits out of its blocks; returns how many ranges that were.
    pub(crate) fn spill(&mut self) -> usize {
        let waiting = self.waiting.iter_mut();
        waiting.map(|one| usize::from(one.payload.spill())).sum()
    }
}
