//! Room for operations: a share of the memory, and what is given up when it is used up.
//!
//! A new operation is never refused, and no connection pays for another. First go, whichever are
//! more, calls without reply of connections that nobody answers (what they are worth, their sender
//! alone says), or the answered calls whose rows only wait for copies of their reply, the oldest
//! first: nothing is lost by that but such copies. Then go other calls without reply. Of calls, it
//! is the oldest of the client that has most of them, and there of the connection that has most;
//! for a call of a connection that nobody answers only those of such connections.

use hashbrown::HashMap;
use lineside_account::{Claim, Counter, Counters};
use lineside_rows::{RecordSink, RowRef};
use lineside_rpc::calls::{self, Expired};
use lineside_wire::Direction;

use super::Operations;
use crate::operation::{Holder, OPERATION_BYTES};
use crate::slot::Slot;

/// Operations take at most this part of the memory: one in four. A guess: blocks of frames and the
/// parts of the trace need most of the rest.
const MEMORY_SHARE: usize = 4;
/// So much of what is there is given up at once, since finding it passes over all operations.
const ANSWERED_SHARE: usize = 8;
const OUTSTANDING_SHARE: usize = 32;

/// How many operations a budget bears.
pub(super) fn operations_max(limit_bytes: usize) -> usize {
    limit_bytes / MEMORY_SHARE / OPERATION_BYTES
}

/// A call that may be given up.
struct Held {
    holder: Holder,
    slot: Slot,
    /// Frame and place of its call.
    id: i64,
    /// How many calls of its connection, then of its client, are rather kept.
    rank: usize,
}

impl<S: RecordSink> Operations<S> {
    /// A slot where none is free: a new one, or that of a call that is given up for it.
    #[cold]
    pub(super) fn add_operation(
        &mut self,
        connection: usize,
        counters: &mut Counters,
    ) -> Option<Slot> {
        let claim = self.claim(connection);
        if !self.has_room() || !self.draw_operation(claim) {
            let lacks = |all: &Self| !all.has_room() || !all.operations.has_free();
            // Those that are more.
            let is_spare = |held: &Held| self.claim(held.holder.connection) == Claim::Spare;
            let spare = self
                .held(false)
                .iter()
                .filter(|held| is_spare(held))
                .count();
            if spare > self.held(true).len() {
                self.give_up_outstanding(Claim::Spare, counters);
            } else {
                self.give_up_answered(counters);
            }
            if lacks(self) {
                self.give_up_answered(counters);
                self.give_up_outstanding(Claim::Spare, counters);
            }
            if lacks(self) && claim == Claim::Full {
                self.give_up_outstanding(claim, counters);
            }
            if let Some(slot) = self.operations.take_free() {
                return Some(slot);
            }
            // All belong to messages that are being read, as many as there are directions at most,
            // or to connections that come before this one, whose call will be given up next.
            if !self.draw_operation(Claim::Full) {
                counters.count(Counter::OutstandingLimit);
                return None;
            }
        }
        Some(self.operations.add())
    }

    /// Whether there may be one more operation.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.operations.waiting() + self.fast.waiting() < self.operations_max
    }

    /// Draws a slot on the budget.
    pub(super) fn draw_operation(&mut self, claim: Claim) -> bool {
        let is_drawn = self.budget.draw_as(claim, OPERATION_BYTES);
        self.operations_drawn += usize::from(is_drawn);
        is_drawn
    }

    fn held(&self, is_answered: bool) -> Vec<Held> {
        let held = self.operations.iter().filter_map(|(slot, operation)| {
            let is_asked = (operation.call_done && operation.reply_done) == is_answered;
            Some(Held {
                holder: operation.holder.filter(|_| is_asked)?,
                slot,
                id: operation.row.operation_id,
                rank: 0,
            })
        });
        let fast = self.fast.iter().filter(|_| !is_answered);
        let fast = fast.map(|(slot, call)| Held {
            holder: call.holder(),
            slot,
            id: call.operation_id,
            rank: 0,
        });
        held.chain(fast).collect()
    }

    fn give_up_answered(&mut self, counters: &mut Counters) {
        let mut held = self.held(true);
        let most = (self.operations.len() / ANSWERED_SHARE).max(1);
        held.sort_unstable_by_key(|held| held.id);
        for held in held.iter().take(most) {
            let Holder { connection, key } = held.holder;
            self.connection(connection).calls.forget(key);
            self.emit(connection, held.slot, counters);
        }
    }

    /// As what a connection may draw: calls that nobody answers give way.
    #[inline]
    pub(super) fn claim(&self, connection: usize) -> Claim {
        match self.connections[connection].as_ref() {
            Some(rpc) => rpc.claim(),
            None => Claim::Spare,
        }
    }

    fn give_up_outstanding(&mut self, claim: Claim, counters: &mut Counters) {
        let mut held = self.held(false);
        held.retain(|held| {
            claim == Claim::Full || self.claim(held.holder.connection) == Claim::Spare
        });
        let most = (held.len() / OUTSTANDING_SHARE).max(1);
        held.sort_unstable_by_key(|held| std::cmp::Reverse(held.id));
        rank(&mut held, |held| held.holder.connection);
        held.sort_by_key(|held| held.rank);
        let client = |held: &Held| {
            let Holder { connection, key } = held.holder;
            let caller = Direction::BOTH[calls::parts(key).0];
            let rpc = self.connections[connection].as_ref();
            rpc.map(|rpc| rpc.ends[caller].address)
        };
        rank(&mut held, client);
        held.sort_by_key(|held| (std::cmp::Reverse(held.rank), held.id));
        for held in held.iter().take(most) {
            let Holder { connection, key } = held.holder;
            self.connection(connection).calls.give_up(key);
            counters.count(Counter::OutstandingLimit);
            let slot = self.widen(held.slot, counters);
            self.write_call_lost(connection, slot);
            self.on_expired(connection, Expired::Call(slot), counters);
        }
    }

    /// A call that was given up, in the table of losses.
    fn write_call_lost(&mut self, connection: usize, slot: Slot) {
        let id = self.connection(connection).id;
        let row = &mut self.loss;
        row.clear();
        row.connection_id = Some(id);
        row.direction = Some("client_to_server");
        row.time_ns = self.operations[slot].row.call_time_ns;
        row.cause = Some("call_given_up");
        self.sink.row(RowRef::Losses(row));
    }
}

/// Numbers those that are of the same `group`, in their order.
fn rank<G: std::hash::Hash + Eq>(all: &mut [Held], group: impl Fn(&Held) -> G) {
    let mut counts: HashMap<G, usize> = HashMap::new();
    for held in all {
        let count = counts.entry(group(held)).or_default();
        held.rank = *count;
        *count += 1;
    }
}
