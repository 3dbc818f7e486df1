//! How requests and connections of a client end: timeouts, and failures.

use crate::application::{Calls, CloseBy, ConnectionId};
use crate::protocol::Client as Protocol;
use crate::results::Cause;

use super::Client;
use super::answers::row;
use super::core::{TASK_CLOSE, TASK_TIMEOUT};
use super::exchanges::NONE;
use super::slots::{Marks, State};

/// Connections that a task ends at once, at most.
const CLOSING_MAX: u32 = 1_024;

impl<P: Protocol> Client<P> {
    /// The next connections end. Calls for all of them at once would take as much memory as they
    /// do themselves.
    pub(super) fn close_some(&mut self, calls: &mut Calls) {
        let first = self.ended;
        self.ended = first
            .saturating_add(CLOSING_MAX)
            .min(self.core.slots.all.len() as u32);
        for slot in first..self.ended {
            let entry = self.core.slots.all[slot as usize];
            if matches!(entry.state, State::Open | State::Closing) {
                let connection = ConnectionId(entry.connection);
                match self.core.plan.close_by {
                    CloseBy::Rst => calls.abort(connection),
                    CloseBy::Fin | CloseBy::Peer => calls.close(connection),
                }
            }
        }
        if (self.ended as usize) < self.core.slots.all.len() {
            calls.schedule(calls.now(), TASK_CLOSE);
        }
    }

    /// Requests whose time is over fail, and their connections with them.
    pub(super) fn on_timeouts(&mut self, calls: &mut Calls) {
        self.core.timeout = None;
        while let Some(oldest) = self.exchanges.oldest() {
            let deadline = oldest.begun_ns.saturating_add(self.core.plan.timeout_ns);
            if deadline > calls.now() {
                self.core.timeout = Some(calls.schedule(deadline, TASK_TIMEOUT));
                return;
            }
            self.break_off(oldest.request.slot, Cause::Timeout, calls);
        }
    }

    /// A connection is of no use any more: its requests fail, and it ends by a RST.
    #[cold]
    pub(super) fn break_off(&mut self, slot: u32, cause: Cause, calls: &mut Calls) {
        self.fail_all(slot, cause);
        let entry = &mut self.core.slots.all[slot as usize];
        entry.state = State::Closing;
        calls.abort(ConnectionId(entry.connection));
    }

    /// Bytes that answer nothing came so long after an answer that it is counted already: it is a
    /// success no more.
    #[cold]
    pub(super) fn spoil(&mut self, slot: u32) {
        let marks = &mut self.core.slots.all[slot as usize].marks;
        if marks.set(Marks::SUCCEEDED, false) {
            let counts = &mut self.core.results.counts;
            counts.succeeded -= 1;
            counts.spoiled += 1;
        }
    }

    /// Requests of a slot that have no answer fail.
    pub(super) fn fail_all(&mut self, slot: u32, cause: Cause) {
        let active = std::mem::replace(&mut self.core.slots.all[slot as usize].active, NONE);
        if active == NONE {
            return;
        }
        let (results, rows) = (&mut self.core.results, &mut self.core.rows);
        let slots = &self.core.slots;
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
