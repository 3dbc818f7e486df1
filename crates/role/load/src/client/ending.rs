//! How requests and connections of a client end: the run's end, timeouts, and failures.

use crate::application::{Calls, CloseBy, ConnectionId};
use crate::protocol::Client as Protocol;
use crate::results::{Cause, Unsent};

use super::answers::row;
use super::calendar::Entry;
use super::exchanges::NONE;
use super::slots::State;
use super::{Client, Phase, TASK_CLOSE, TASK_TIMEOUT};

/// Connections that are told to end in one task.
const CLOSING_MAX: u32 = 1_024;

impl<P: Protocol> Client<P> {
    /// No further request leaves, but for those whose instants have come. Answers are waited for
    /// until [`end`](Self::end).
    pub fn stop(&mut self, calls: &mut Calls) {
        if self.phase != Phase::Running {
            return;
        }
        let now = calls.now();
        while let Entry::Request(number, due) = self.take_arrival(now, calls) {
            self.on_arrival(number, due, calls);
        }
        self.phase = Phase::Draining;
        self.results.ended_ns = self.results.ended_ns.max(now);
        let counts = &mut self.results.counts;
        self.calendar.give_up(now, &mut self.waiting, counts);
        self.look_for_the_end(calls);
    }

    pub(super) fn look_for_the_end(&mut self, calls: &mut Calls) {
        let is_idle = self.exchanges.exchanges.is_empty() && self.waiting.is_empty();
        if self.phase == Phase::Draining && is_idle {
            self.end(calls);
        }
    }

    /// The run is over: requests without an answer fail by their time, and all connections end.
    pub fn end(&mut self, calls: &mut Calls) {
        if self.phase == Phase::Over {
            return;
        }
        self.phase = Phase::Over;
        self.results.counts.unsent[Unsent::RunOver as usize] += self.waiting.len() as u64;
        self.waiting.clear();
        for slot in 0..self.slots.all.len() as u32 {
            self.fail_all(slot, Cause::Timeout);
        }
        self.close_some(calls);
    }

    /// The next connections end. Calls for all of them at once would take as much memory as they
    /// do themselves.
    pub(super) fn close_some(&mut self, calls: &mut Calls) {
        let first = self.ended;
        self.ended = first
            .saturating_add(CLOSING_MAX)
            .min(self.slots.all.len() as u32);
        for slot in first..self.ended {
            let entry = self.slots.all[slot as usize];
            if matches!(entry.state, State::Open | State::Closing) {
                let connection = ConnectionId(entry.connection);
                match self.plan.close_by {
                    CloseBy::Rst => calls.abort(connection),
                    CloseBy::Fin | CloseBy::Peer => calls.close(connection),
                }
            }
        }
        if (self.ended as usize) < self.slots.all.len() {
            calls.schedule(calls.now(), TASK_CLOSE);
        }
    }

    /// Requests whose time is over fail, and their connections with them.
    pub(super) fn on_timeouts(&mut self, calls: &mut Calls) {
        self.timeout = None;
        while let Some(oldest) = self.exchanges.oldest() {
            let deadline = oldest.begun_ns.saturating_add(self.plan.timeout_ns);
            if deadline > calls.now() {
                self.timeout = Some(calls.schedule(deadline, TASK_TIMEOUT));
                return;
            }
            self.break_off(oldest.request.slot, Cause::Timeout, calls);
        }
    }

    /// A connection is of no use any more: its requests fail, and it ends by a RST.
    #[cold]
    pub(super) fn break_off(&mut self, slot: u32, cause: Cause, calls: &mut Calls) {
        self.fail_all(slot, cause);
        let entry = &mut self.slots.all[slot as usize];
        entry.state = State::Closing;
        calls.abort(ConnectionId(entry.connection));
    }

    /// Requests of a slot that have no answer fail.
    pub(super) fn fail_all(&mut self, slot: u32, cause: Cause) {
        let active = std::mem::replace(&mut self.slots.all[slot as usize].active, NONE);
        if active == NONE {
            return;
        }
        let (results, rows) = (&mut self.results, &mut self.rows);
        let slots = &self.slots;
        let reader = self.exchanges.clear(active, |exchange| {
            results.counts.failed[cause as usize] += 1;
            if let Some(rows) =
                { rows.as_mut() }.filter(|rows| rows.wants(exchange.request.ordinal))
            {
                rows.push(row(slots, &exchange, Err(cause)));
            }
        });
        self.protocol.release(reader);
    }
}
