//! Servers that send without being asked: what comes before a request counts for it, and a
//! connection without a request takes nothing.

use super::exchanges::{Active, NONE};
use super::slots::{Slot, State};
use super::{Client, Phase, TASK_CAME};
use crate::application::{Calls, ConnectionId};
use crate::protocol::Client as Protocol;
use crate::results::Cause;

impl<P: Protocol> Client<P> {
    /// A request that sends nothing leaves when its connection takes what comes.
    pub(super) fn take(&mut self, slot: u32, calls: &mut Calls) {
        let Slot {
            connection, active, ..
        } = self.core.slots.all[slot as usize];
        calls.set_window(ConnectionId(connection), u32::MAX);
        let Active { last, reader, .. } = &self.exchanges.active[active as usize];
        if self.protocol.came(reader) > 0 {
            // Not here, where an answer before it may still be in hand.
            calls.schedule(calls.now(), TASK_CAME | slot);
        }
        let exchange = &mut self.exchanges.exchanges[*last as usize];
        exchange.departed_ns = exchange.begun_ns;
        self.core
            .results
            .on_departure(exchange.intended_ns, exchange.begun_ns);
    }

    /// A slot has taken bytes before its request.
    pub(super) fn read_what_came(&mut self, slot: u32, calls: &mut Calls) {
        if self.core.slots.all[slot as usize].active != NONE && self.outstanding(slot) > 0 {
            let at = calls.now();
            self.read(
                slot,
                (at, Cause::Protocol),
                calls,
                |protocol, reader, waiting| protocol.read(reader, &[], waiting),
            );
        }
    }

    /// A connection without a request takes nothing more, beyond what the peer was offered; it ends
    /// if no other request is to come, or it would take its share of the link from those that are
    /// under way.
    pub(super) fn hold(&mut self, slot: u32, calls: &mut Calls) {
        let entry = &self.core.slots.all[slot as usize];
        if entry.state != State::Open || self.outstanding(slot) > 0 {
            return;
        }
        calls.set_window(ConnectionId(entry.connection), 0);
        if self.core.phase == Phase::Draining && self.core.waiting.is_empty() {
            self.retire(slot, calls);
        }
    }

    /// The server has ended a connection between two requests, and the second one is begun: it
    /// goes to another connection. The first one of a connection fails.
    pub(super) fn put_back(&mut self, slot: u32) {
        let entry = &mut self.core.slots.all[slot as usize];
        let begun = self.core.plan.requests_each.unwrap_or(u32::MAX) - entry.left;
        let active = &self.exchanges.active[entry.active as usize];
        if begun < 2 || self.core.plan.opens_on_arrival || self.protocol.came(&active.reader) > 0 {
            return;
        }
        let (waiting, counts) = (&mut self.core.waiting, &mut self.core.results.counts);
        let active = std::mem::replace(&mut entry.active, NONE);
        let reader = self.exchanges.clear(active, |exchange| {
            counts.sent -= 1;
            waiting.push_front((exchange.request.ordinal, exchange.intended_ns));
        });
        self.protocol.release(reader);
    }
}
