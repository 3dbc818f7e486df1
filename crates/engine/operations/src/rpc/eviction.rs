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

/// So much of what is there is given up at once, since finding it passes over all operations.
const ANSWERED_SHARE: usize = 8;
const OUTSTANDING_SHARE: usize = 32;

/// A call that may be given up.
struct Held {
    holder: Holder,
    slot: Slot,
    /// Frame and place of its call.
    id: i64,
    /// Its row only waits for copies of its reply.
    is_answered: bool,
    /// How many calls of its connection, then of its client, are rather kept.
    rank: usize,
}

/// What is given up.
enum GiveUp {
    Answered,
    /// Calls without reply of connections that nobody answers.
    Spare,
    /// Any calls without reply, for a connection that is worth it.
    Any,
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
            self.make_room(claim, counters);
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

    /// Gives up what goes first, and what goes next while that was not enough.
    fn make_room(&mut self, claim: Claim, counters: &mut Counters) {
        let (mut answered, mut spare) = (0, 0);
        for held in self.held() {
            match held.is_answered {
                true => answered += 1,
                false => spare += usize::from(self.is_spare(&held)),
            }
        }
        // Those that are more.
        let mut steps = [GiveUp::Answered, GiveUp::Spare, GiveUp::Any];
        if spare > answered {
            steps.swap(0, 1);
        }
        for step in steps {
            if self.has_room() && self.operations.has_free() {
                return;
            }
            match step {
                GiveUp::Answered => self.give_up_answered(counters),
                GiveUp::Spare => self.give_up_outstanding(Claim::Spare, counters),
                GiveUp::Any if claim == Claim::Full => self.give_up_outstanding(claim, counters),
                GiveUp::Any => {}
            }
        }
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

    /// All calls that may be given up.
    fn held(&self) -> impl Iterator<Item = Held> {
        let held = self.operations.iter().filter_map(|(slot, operation)| {
            Some(Held {
                holder: operation.holder?,
                slot,
                id: operation.row.operation_id,
                is_answered: operation.call_done && operation.reply_done,
                rank: 0,
            })
        });
        let fast = self.fast.iter().map(|(slot, call)| Held {
            holder: call.holder(),
            slot,
            id: call.operation_id,
            is_answered: false,
            rank: 0,
        });
        held.chain(fast)
    }

    /// Whether nobody answers on its connection.
    fn is_spare(&self, held: &Held) -> bool {
        self.claim(held.holder.connection) == Claim::Spare
    }

    fn give_up_answered(&mut self, counters: &mut Counters) {
        let mut held: Vec<Held> = self.held().filter(|held| held.is_answered).collect();
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
        let held = self.held().filter(|held| !held.is_answered);
        let held = held.filter(|held| claim == Claim::Full || self.is_spare(held));
        let mut held: Vec<Held> = held.collect();
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
