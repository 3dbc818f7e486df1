//! A client: connections, the requests on them, and the account of each request.
//!
//! ```text
//!  Pace ─► due instants ─► begin(slot) ─► Calls::send ─► fill ─► on_departed ─► on_bytes ─► account
//!                             ▲  no slot: waits, and keeps the instant
//!                        ready slots
//! ```
//!
//! * A slot is a connection of the plan, open or not. It is small; what a request needs is in pools
//!   for those under way.
//! * Latency counts from the instant for which a request was planned, and beside it from its
//!   departure. A request that found no connection waits, and is late by that.
//! * planned = sent + unsent by reason; sent = answered + failed by cause + outstanding.

mod answers;
mod calendar;
mod catch_up;
mod contents;
mod core;
mod datagrams;
mod ending;
mod exchanges;
mod flight;
mod pace;
mod plan;
mod server_push;
mod slots;

pub use datagrams::DatagramClient;
pub use pace::{Arrivals, Pace, ThinkTimes, Thinking};
pub use plan::{CatchUp, Phase, Plan};
pub use slots::{Locals, Target};

use lineside_frame::Chunk;
use lineside_time::Nanoseconds;

use crate::application::{Application, Calls, CloseBy, ConnectionId, End, Reason};
use crate::protocol::{Broken, Client as Protocol, Request};
use crate::results::{Cause, Unsent};
use crate::rows::Rows;
use crate::worker::Load;
use answers::Waiting;
use core::{Core, Side, TASK_ARRIVAL, TASK_CLOSE, TASK_END, TASK_GO_ON, TASK_TIMEOUT};
use exchanges::{Exchange, Exchanges, NONE};
use slots::{Marks, State};

/// With this bit, a request of a slot takes what came before it.
const TASK_CAME: u32 = 1 << 30;
/// The first number of requests that follow others on connections that arrive.
pub(crate) const FOLLOWERS: u64 = 1 << 40;

/// A client of a protocol: see the module.
pub struct Client<P: Protocol> {
    core: Core,
    protocol: P,
    exchanges: Exchanges<P::Reader>,
    /// Slots without a connection, of a plan whose arrivals are those of connections.
    free: Vec<u32>,
    /// Requests behind the first ones of connections that arrive.
    followed: u64,
    /// Of a run that is over, the slots before this one are ending.
    ended: u32,
    /// The request that was written last.
    written: Vec<u8>,
    written_for: Option<Request>,
}

impl<P: Protocol> Client<P> {
    /// A client of `targets` in turn, whose connections come from `locals`, or from wherever the
    /// transport likes.
    pub fn new(
        protocol: P,
        plan: Plan,
        pace: Pace,
        targets: Vec<Target>,
        locals: Option<Locals>,
        rows: Option<Rows>,
    ) -> Self {
        let count = plan.connections as usize;
        let under_way = count.saturating_mul(plan.pipeline as usize).min(1 << 16);
        let operations = protocol.operations().len();
        Self {
            core: Core::new(plan, pace, targets, locals, rows, operations),
            protocol,
            exchanges: Exchanges::with_capacity(under_way),
            free: Vec::new(),
            followed: 0,
            ended: 0,
            written: Vec::with_capacity(1 << 10),
            written_for: None,
        }
    }

    /// The protocol.
    pub fn protocol(&self) -> &P {
        &self.protocol
    }

    fn is_of_flows(&self) -> bool {
        self.core.plan.opens_on_arrival
    }

    fn outstanding(&self, slot: u32) -> u32 {
        match self.core.slots.all[slot as usize].active {
            NONE => 0,
            active => self.exchanges.active[active as usize].outstanding,
        }
    }

    /// The next request of a connection whose first one had an instant of its own.
    fn follow(&mut self, slot: u32, calls: &mut Calls) {
        if self.core.phase == Phase::Running {
            // Their numbers lie above those of all arrivals.
            self.followed += 1;
            let (place, count) = self.core.plan.share;
            let number = FOLLOWERS + self.followed * count + place;
            self.core.results.counts.planned += 1;
            self.begin(slot, number, calls.now(), calls);
        }
    }

    /// Has the protocol read what came, and does what follows from each answer. Requests fail by
    /// `broken` if what came cannot be read.
    fn read(
        &mut self,
        slot: u32,
        (at, broken): (Nanoseconds, Cause),
        calls: &mut Calls,
        read: impl FnOnce(&mut P, &mut P::Reader, &mut Waiting<'_, P::Reader>) -> Result<(), Broken>,
    ) {
        let active = self.core.slots.all[slot as usize].active;
        let mut reader = std::mem::take(&mut self.exchanges.active[active as usize].reader);
        let mut waiting = Waiting {
            exchanges: &mut self.exchanges,
            results: &mut self.core.results,
            rows: self.core.rows.as_mut(),
            slots: &self.core.slots,
            active,
            at,
            answers: 0,
            closes: false,
            last: None,
        };
        waiting.on_first_byte();
        let outcome = read(&mut self.protocol, &mut reader, &mut waiting);
        let is_idle = waiting.exchanges.active[active as usize].outstanding == 0;
        let is_spoiled = outcome.is_err() && is_idle;
        let has_succeeded = is_idle && { waiting.last.as_ref() }
            .is_some_and(|(_, answered)| answered.answer.is_success);
        let is_late = waiting.last.is_none();
        waiting.settle(match is_spoiled {
            true => Err(Cause::Protocol),
            false => Ok(()),
        });
        let Waiting {
            answers, closes, ..
        } = waiting;
        self.exchanges.active[active as usize].reader = reader;
        if outcome.is_err() {
            if is_spoiled && is_late {
                self.spoil(slot);
            }
            self.break_off(slot, broken, calls);
            return;
        }
        if has_succeeded {
            let entry = &mut self.core.slots.all[slot as usize];
            entry.marks.set(Marks::SUCCEEDED, true);
        }
        self.trim(slot);
        for _ in 0..answers {
            self.after_answer(slot, closes, calls);
        }
        if P::IS_UNASKED && answers > 0 {
            self.hold(slot, calls);
        }
    }

    /// Lets go what is answered and acknowledged.
    fn trim(&mut self, slot: u32) {
        let entry = &mut self.core.slots.all[slot as usize];
        if entry.active != NONE && self.exchanges.trim(entry.active) && !P::IS_UNASKED {
            let active = std::mem::replace(&mut entry.active, NONE);
            let active = self.exchanges.active.remove(active as usize);
            self.protocol.release(active.reader);
        }
    }

    /// What a slot does when an answer is over.
    fn after_answer(&mut self, slot: u32, closes: bool, calls: &mut Calls) {
        let entry = &mut self.core.slots.all[slot as usize];
        if closes {
            // What was sent behind it is not answered.
            entry.left = 0;
        }
        let (is_open, is_used_up) = (entry.state == State::Open, entry.left == 0);
        let is_last = is_used_up && (closes || self.outstanding(slot) == 0);
        match is_last && is_open {
            true => self.retire(slot, calls),
            false => self.offer(slot, calls),
        }
        self.look_for_the_end(calls);
    }

    /// A connection has had all its requests.
    fn retire(&mut self, slot: u32, calls: &mut Calls) {
        let entry = &mut self.core.slots.all[slot as usize];
        entry.state = State::Closing;
        self.core.results.counts.closed += 1;
        let connection = ConnectionId(entry.connection);
        match self.core.plan.close_by {
            CloseBy::Fin => calls.close(connection),
            CloseBy::Rst => calls.abort(connection),
            CloseBy::Peer => {}
        }
    }

    /// Whether connections may open: in a run, and after it for requests that were put back.
    fn opens(&self) -> bool {
        match self.core.phase {
            Phase::Opening | Phase::Running => true,
            Phase::Draining => !self.core.waiting.is_empty(),
            Phase::Over => false,
        }
    }

    /// After a connection is over, its slot opens another one, at once or later.
    fn reopen(&mut self, slot: u32, is_failure: bool, calls: &mut Calls) {
        let entry = &mut self.core.slots.all[slot as usize];
        (entry.state, entry.connection) = (State::Free, NONE);
        if !self.opens() {
            return;
        }
        if self.is_of_flows() {
            // A request may have waited for a slot; those that open have one each.
            match self.core.waiting.len() > self.core.opening as usize {
                true => self.connect(slot, calls),
                false => self.free.push(slot),
            }
            return;
        }
        if self.core.closed.is_some() && self.core.is_drawn() && self.core.waiting.is_empty() {
            // There is no request for another connection.
            self.stop(calls);
            return;
        }
        match is_failure {
            // One that cannot open while the others do so is tried again when the run goes on.
            true => {
                calls.schedule(calls.now().saturating_add(self.core.plan.retry_ns), slot);
            }
            false => self.connect(slot, calls),
        }
    }
}

impl<P: Protocol> Side for Client<P> {
    const TAKES_ALL: bool = false;

    fn core(&self) -> &Core {
        &self.core
    }

    fn core_mut(&mut self) -> &mut Core {
        &mut self.core
    }

    fn open_first(&mut self, calls: &mut Calls) {
        if self.is_of_flows() {
            self.free = (0..self.core.plan.connections).rev().collect();
            self.core.untried = 0;
        }
        self.open_more(calls);
    }

    fn connect(&mut self, slot: u32, calls: &mut Calls) {
        let [local, remote] = self.core.slots.next_ends(slot, calls.now());
        self.core.opening += 1;
        calls.connect(local, remote, slot);
    }

    fn is_able(&self, slot: u32) -> bool {
        let entry = &self.core.slots.all[slot as usize];
        let pipeline = self.core.plan.pipeline;
        entry.state == State::Open && entry.left > 0 && self.outstanding(slot) < pipeline
    }

    fn opens_for_request(&mut self, calls: &mut Calls) -> bool {
        let free = self.free.pop();
        // The request leaves when it is open.
        free.inspect(|&slot| self.connect(slot, calls)).is_some()
    }

    fn is_offered(&mut self, slot: u32, calls: &mut Calls) -> bool {
        if !self.is_able(slot) {
            return false;
        }
        let left = self.core.slots.all[slot as usize].left;
        let is_begun = Some(left) != self.core.plan.requests_each;
        let follows = self.is_of_flows() && is_begun;
        if follows {
            self.follow(slot, calls);
        }
        !follows
    }

    fn goes_on(&mut self, slot: u32) -> bool {
        let entry = &self.core.slots.all[slot as usize];
        entry.state == State::Open && entry.left > 0
    }

    fn begin(&mut self, slot: u32, ordinal: u64, intended_ns: Nanoseconds, calls: &mut Calls) {
        let request = Request { ordinal, slot };
        let len = self.len(request);
        let entry = &mut self.core.slots.all[slot as usize];
        if entry.active == NONE {
            entry.active = self.exchanges.activate(entry.sent);
        }
        let exchange = Exchange {
            request,
            start: entry.sent,
            len,
            next: NONE,
            intended_ns,
            departed_ns: Nanoseconds::MIN,
            first_ns: Nanoseconds::MIN,
            begun_ns: intended_ns.max(calls.now()),
            is_answered: false,
            older: NONE,
            younger: NONE,
        };
        self.exchanges.append(entry.active, exchange);
        entry.sent += len;
        entry.left -= 1;
        entry.marks.set(Marks::SUCCEEDED, false);
        self.core.results.counts.sent += 1;
        if !P::IS_ACKNOWLEDGED {
            self.core.results.counts.request_bytes += len;
        }
        match P::IS_UNASKED {
            true => self.take(slot, calls),
            false => calls.send(ConnectionId(entry.connection), len, Some(intended_ns)),
        }
        if self.core.timeout.is_none() {
            let deadline = exchange.begun_ns.saturating_add(self.core.plan.timeout_ns);
            self.core.timeout = Some(calls.schedule(deadline, TASK_TIMEOUT));
        }
        // With pipelining there may be room for more.
        if self.core.plan.pipeline > 1 {
            self.offer(slot, calls);
        }
    }

    fn is_idle(&self) -> bool {
        self.exchanges.exchanges.is_empty()
    }

    fn end_all(&mut self, calls: &mut Calls) {
        for slot in 0..self.core.slots.all.len() as u32 {
            self.fail_all(slot, Cause::Timeout);
        }
        self.close_some(calls);
    }

    fn outstanding_of_all(&self) -> Result<u64, &'static str> {
        let active = self.exchanges.active.iter();
        Ok(active
            .map(|(_, active)| u64::from(active.outstanding))
            .sum())
    }

    fn own_bytes(&self) -> usize {
        self.exchanges.allocated_bytes()
    }
}

impl<P: Protocol> Application for Client<P> {
    const WANTS_ACKNOWLEDGEMENTS: bool = P::IS_ACKNOWLEDGED;

    fn on_open(&mut self, connection: ConnectionId, slot: u32, ends: [End; 2], calls: &mut Calls) {
        let entry = &mut self.core.slots.all[slot as usize];
        let began_ns = entry.sent.cast_signed();
        (entry.connection, entry.state) = (connection.0, State::Open);
        (entry.sent, entry.active) = (0, NONE);
        entry.marks.set(Marks::SUCCEEDED, false);
        entry.left = self.core.plan.requests_each.unwrap_or(u32::MAX);
        self.core.slots.set_local(slot, ends[0]);
        self.core.opening -= 1;
        self.core.open += 1;
        self.core.results.counts.opened += 1;
        self.core
            .results
            .times
            .opening
            .record(calls.now() - began_ns);
        if self.core.phase == Phase::Over {
            calls.close(connection);
            return;
        }
        if P::IS_UNASKED {
            self.core.slots.all[slot as usize].active = self.exchanges.activate(0);
            self.hold(slot, calls);
        }
        self.offer(slot, calls);
        if self.core.phase == Phase::Opening {
            self.open_more(calls);
        }
    }

    fn on_bytes(&mut self, _: ConnectionId, slot: u32, chunk: Chunk<'_>, calls: &mut Calls) {
        if P::IS_UNASKED && self.core.phase == Phase::Over {
            return;
        }
        let at = chunk.descriptor().stamp_ns.unwrap_or_else(|| calls.now());
        let bytes = chunk.bytes();
        self.core.results.counts.received_bytes += bytes.len() as u64;
        let entry = &self.core.slots.all[slot as usize];
        if entry.active == NONE {
            // Nothing was asked; an end that is under way may still bring something.
            let is_open = entry.state == State::Open;
            self.spoil(slot);
            if is_open {
                self.break_off(slot, Cause::Protocol, calls);
            }
            return;
        }
        self.read(
            slot,
            (at, Cause::Protocol),
            calls,
            |protocol, reader, waiting| protocol.read(reader, bytes, waiting),
        );
    }

    fn on_acknowledged(&mut self, _: ConnectionId, slot: u32, bytes: u64, calls: &mut Calls) {
        if P::IS_ACKNOWLEDGED {
            self.core.results.counts.request_bytes += bytes;
        }
        let active = self.core.slots.all[slot as usize].active;
        if let Some(active) = self.exchanges.active.get_mut(active as usize) {
            active.acknowledged += bytes;
            if P::IS_ACKNOWLEDGED {
                let at = calls.now();
                self.read(slot, (at, Cause::Protocol), calls, |_, _, waiting| {
                    waiting.on_acknowledged()
                });
            } else {
                self.trim(slot);
            }
            self.look_for_the_end(calls);
        }
    }

    fn on_end(&mut self, connection: ConnectionId, slot: u32, calls: &mut Calls) {
        if self.core.slots.all[slot as usize].active != NONE {
            let at = calls.now();
            // An answer that ends within is cut, whatever its bytes.
            self.read(
                slot,
                (at, Cause::Closed),
                calls,
                |protocol, reader, waiting| protocol.end(reader, waiting),
            );
        }
        if P::IS_UNASKED && self.core.slots.all[slot as usize].active != NONE {
            self.put_back(slot);
        }
        self.fail_all(slot, Cause::Closed);
        let entry = &mut self.core.slots.all[slot as usize];
        if matches!(entry.state, State::Open | State::Closing) {
            entry.state = State::Closing;
            calls.close(connection);
        }
        self.look_for_the_end(calls);
    }

    fn on_close(&mut self, _: Option<ConnectionId>, slot: u32, reason: Reason, calls: &mut Calls) {
        let state = self.core.slots.all[slot as usize].state;
        let is_failure = state == State::Opening;
        if is_failure {
            self.core.opening -= 1;
            self.core.results.counts.refused[Cause::from(reason) as usize] += 1;
            // The request for which it was to open has no other one.
            if self.is_of_flows() && self.core.waiting.pop_front().is_some() {
                self.core.results.counts.unsent[Unsent::Refused as usize] += 1;
            }
        } else {
            self.core.open -= 1;
        }
        self.fail_all(slot, Cause::from(reason));
        self.reopen(slot, is_failure, calls);
        if self.core.phase == Phase::Opening {
            self.open_more(calls);
        }
        self.look_for_the_end(calls);
    }

    fn on_task(&mut self, _: Nanoseconds, task: u32, calls: &mut Calls) {
        match task {
            TASK_ARRIVAL => self.on_arrivals(calls),
            TASK_TIMEOUT => self.on_timeouts(calls),
            TASK_END => self.stop(calls),
            TASK_CLOSE => self.close_some(calls),
            task if task & TASK_GO_ON != 0 => self.go_on(task & !TASK_GO_ON, calls),
            task if task & TASK_CAME != 0 => self.read_what_came(task & !TASK_CAME, calls),
            slot if self.opens() => self.connect(slot, calls),
            _ => {}
        }
    }

    fn fill(&mut self, _: ConnectionId, slot: u32, offset: u64, bytes: &mut [u8]) {
        let active = self.core.slots.all[slot as usize].active;
        if active == NONE {
            return;
        }
        let end = offset + bytes.len() as u64;
        let mut place = self.exchanges.active[active as usize].first;
        while place != NONE {
            let exchange = self.exchanges.exchanges[place as usize];
            let (start, last) = (exchange.start, exchange.end());
            if start >= end {
                return;
            }
            if last > offset {
                let (from, to) = (start.max(offset), last.min(end));
                let part = &mut bytes[(from - offset) as usize..(to - offset) as usize];
                self.fill_part(exchange.request, from - start, part);
            }
            place = exchange.next;
        }
    }

    fn on_departed(&mut self, _: ConnectionId, slot: u32, until: u64, sent_ns: Nanoseconds) {
        let active = self.core.slots.all[slot as usize].active;
        if active == NONE {
            return;
        }
        let mut place = self.exchanges.active[active as usize].first;
        while place != NONE {
            let exchange = &mut self.exchanges.exchanges[place as usize];
            if exchange.start >= until {
                return;
            }
            if exchange.departed_ns == Nanoseconds::MIN {
                exchange.departed_ns = sent_ns;
                self.core
                    .results
                    .on_departure(exchange.intended_ns, sent_ns);
            }
            place = exchange.next;
        }
    }
}
