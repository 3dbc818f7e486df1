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

use std::collections::VecDeque;

use lineside_frame::Chunk;
use lineside_time::{Nanoseconds, TimerId};

use crate::application::{Application, Calls, CloseBy, ConnectionId, End, Reason};
use crate::protocol::{Broken, Client as Protocol, Request};
use crate::results::{Cause, Results, Unsent};
use crate::rows::Rows;
use answers::Waiting;
use calendar::{Calendar, Entry};
use exchanges::{Exchange, Exchanges, NONE};
use pace::Thoughts;
use slots::{Slots, State};

/// Tasks that are no slot's.
const TASK_ARRIVAL: u32 = u32::MAX;
const TASK_TIMEOUT: u32 = u32::MAX - 1;
const TASK_END: u32 = u32::MAX - 2;
const TASK_CLOSE: u32 = u32::MAX - 3;
/// With this bit, a slot has thought; without it, it opens again.
const TASK_THOUGHT: u32 = 1 << 31;
/// With this bit, a request of a slot takes what came before it.
const TASK_CAME: u32 = 1 << 30;
/// The first number of requests that follow others on connections that arrive.
pub(crate) const FOLLOWERS: u64 = 1 << 40;
/// Arrivals that are dealt with in one task.
const ARRIVALS_MAX: usize = 16;

/// A client of a protocol: see the module.
pub struct Client<P: Protocol> {
    protocol: P,
    plan: Plan,
    /// Of a closed loop: times to think, if there are any.
    closed: Option<Thoughts>,
    phase: Phase,
    slots: Slots,
    exchanges: Exchanges<P::Reader>,
    /// Slots that take a request.
    ready: VecDeque<u32>,
    /// Slots without a connection, of a plan whose arrivals are those of connections.
    free: Vec<u32>,
    /// Requests that found no slot: number, and instant.
    waiting: VecDeque<(u64, Nanoseconds)>,
    /// What arrives in an open loop.
    calendar: Calendar,
    /// Requests of a closed loop so far.
    drawn: u64,
    /// Requests behind the first ones of connections that arrive.
    followed: u64,
    opening: u32,
    open: u32,
    /// Slots that were never tried yet.
    untried: u32,
    /// Of a run that is over, the slots before this one were told to end.
    ended: u32,
    timeout: Option<TimerId>,
    /// The request that was written last.
    written: Vec<u8>,
    written_for: Option<Request>,
    results: Results,
    rows: Option<Rows>,
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
        let (closed, arrivals) = pace.split();
        let mut results = Results::default();
        results.times.tell_apart(protocol.operations().len());
        Self {
            protocol,
            phase: Phase::Opening,
            slots: Slots::new(plan.connections, locals, targets),
            exchanges: Exchanges::with_capacity(under_way),
            ready: VecDeque::with_capacity(count),
            free: Vec::new(),
            waiting: VecDeque::with_capacity(plan.waiting_max.min(1 << 12)),
            calendar: Calendar::new(arrivals, &plan),
            drawn: 0,
            followed: 0,
            opening: 0,
            open: 0,
            untried: plan.connections,
            ended: 0,
            timeout: None,
            written: Vec::with_capacity(1 << 10),
            written_for: None,
            results,
            rows,
            plan,
            closed,
        }
    }

    /// Where it stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Connections that are open.
    pub fn open_connections(&self) -> u32 {
        self.open
    }

    /// Whether every connection of the plan is open, or was tried and failed.
    pub fn is_ready(&self) -> bool {
        self.is_of_flows() || (self.untried == 0 && self.opening == 0)
    }

    /// What was counted and measured.
    pub fn results(&mut self) -> &mut Results {
        &mut self.results
    }

    /// The protocol.
    pub fn protocol(&self) -> &P {
        &self.protocol
    }

    /// Takes the queue of rows, to [finish](Rows::finish) it.
    pub fn take_rows(&mut self) -> Option<Rows> {
        self.rows.take()
    }

    /// An identity of the counts that does not hold.
    pub fn broken_identity(&self) -> Option<&'static str> {
        let counts = &self.results.counts;
        let outstanding = self.exchanges.active.iter();
        let outstanding = outstanding.map(|(_, active)| u64::from(active.outstanding));
        counts.broken_identity(self.waiting.len() as u64, outstanding.sum())
    }

    /// Bytes of memory for each connection of the plan, and for what is under way.
    pub fn allocated_bytes(&self) -> usize {
        self.slots.all.capacity() * size_of::<slots::Slot>() + self.exchanges.allocated_bytes()
    }

    fn is_of_flows(&self) -> bool {
        self.plan.opens_on_arrival
    }

    /// Opens connections, as many at once as the plan allows. To be called at the beginning.
    pub fn open(&mut self, calls: &mut Calls) {
        if self.is_of_flows() {
            self.free = (0..self.plan.connections).rev().collect();
            self.untried = 0;
            return;
        }
        self.open_more(calls);
    }

    fn open_more(&mut self, calls: &mut Calls) {
        while self.untried > 0 && self.opening < self.plan.opening_max {
            let slot = self.plan.connections - self.untried;
            self.untried -= 1;
            self.connect(slot, calls);
        }
    }

    fn connect(&mut self, slot: u32, calls: &mut Calls) {
        let [local, remote] = self.slots.next_ends(slot, calls.now());
        self.opening += 1;
        calls.connect(local, remote, slot);
    }

    /// Requests leave from `at` on, and before `until`.
    pub fn start(&mut self, at: Nanoseconds, until: Nanoseconds, calls: &mut Calls) {
        self.phase = Phase::Running;
        if until < Nanoseconds::MAX {
            calls.schedule(until, TASK_END);
        }
        if self.closed.is_none() {
            self.calendar.start(at, until);
            self.schedule_arrival(calls);
            return;
        }
        while let Some(slot) = self.ready.pop_front() {
            self.slots.all[slot as usize].is_ready = false;
            calls.schedule(at, TASK_THOUGHT | slot);
        }
    }

    fn schedule_arrival(&mut self, calls: &mut Calls) {
        if let Some(due) = self.calendar.next_due() {
            calls.schedule(due.saturating_sub(self.plan.ahead_ns), TASK_ARRIVAL);
        } else if self.calendar.is_over() && self.waiting.is_empty() {
            self.stop(calls);
        }
    }

    /// Whether a closed loop has had all its requests.
    fn is_drawn(&self) -> bool {
        { self.plan.requests }.is_some_and(|requests| self.drawn >= requests)
    }

    /// Numbers of requests in a closed loop; `None` after the last one.
    fn draw(&mut self) -> Option<u64> {
        if self.is_drawn() {
            return None;
        }
        let (place, count) = self.plan.share;
        let number = self.drawn * count + place;
        self.drawn += 1;
        Some(number)
    }

    /// Requests of an open loop whose instants have come, or come soon.
    fn on_arrivals(&mut self, calls: &mut Calls) {
        let horizon = calls.now().saturating_add(self.plan.ahead_ns);
        for _ in 0..ARRIVALS_MAX {
            match self.take_arrival(horizon, calls) {
                Entry::Request(number, due) => self.on_arrival(number, due, calls),
                Entry::LookAgain(at) => {
                    calls.schedule(at, TASK_ARRIVAL);
                    return;
                }
                Entry::Nothing => break,
            }
        }
        if self.phase == Phase::Running {
            self.schedule_arrival(calls);
        }
    }

    fn take_arrival(&mut self, horizon: Nanoseconds, calls: &Calls) -> Entry {
        let counts = &mut self.results.counts;
        self.calendar.take(calls.now(), horizon, counts)
    }

    fn on_arrival(&mut self, number: u64, due: Nanoseconds, calls: &mut Calls) {
        self.results.counts.planned += 1;
        if let Some(slot) = self.take_ready() {
            self.begin(slot, number, due, calls);
            return;
        }
        if let Some(slot) = self.free.pop() {
            // The request leaves when it is open.
            self.connect(slot, calls);
        } else {
            self.results.counts.waited += 1;
        }
        if self.waiting.len() >= self.plan.waiting_max {
            self.results.counts.unsent[Unsent::NoConnection as usize] += 1;
            return;
        }
        self.waiting.push_back((number, due));
    }

    fn take_ready(&mut self) -> Option<u32> {
        while let Some(slot) = self.ready.pop_front() {
            self.slots.all[slot as usize].is_ready = false;
            // Since it was listed, its connection may have ended, or another one have a request.
            if self.is_able(slot) {
                return Some(slot);
            }
        }
        None
    }

    /// Whether a slot has a connection with room for a request.
    fn is_able(&self, slot: u32) -> bool {
        let entry = &self.slots.all[slot as usize];
        entry.state == State::Open && entry.left > 0 && self.outstanding(slot) < self.plan.pipeline
    }

    /// A slot may take another request: one that waits, the next of a closed loop, or it is listed.
    fn offer(&mut self, slot: u32, calls: &mut Calls) {
        if !self.is_able(slot) {
            return;
        }
        let left = self.slots.all[slot as usize].left;
        let is_begun = Some(left) != self.plan.requests_each;
        if self.is_of_flows() && is_begun {
            self.follow(slot, calls);
            return;
        }
        if let Some((number, due)) = self.waiting.pop_front() {
            self.begin(slot, number, due, calls);
            let is_last = self.waiting.is_empty() && self.calendar.is_over();
            if is_last && self.closed.is_none() {
                self.stop(calls);
            }
            return;
        }
        if self.closed.is_some() && self.phase == Phase::Running {
            self.think(slot, calls);
            return;
        }
        if !std::mem::replace(&mut self.slots.all[slot as usize].is_ready, true) {
            self.ready.push_back(slot);
        }
    }

    /// The next request of a connection whose first one had an instant of its own.
    fn follow(&mut self, slot: u32, calls: &mut Calls) {
        if self.phase == Phase::Running {
            // Their numbers lie above those of all arrivals.
            self.followed += 1;
            let (place, count) = self.plan.share;
            let number = FOLLOWERS + self.followed * count + place;
            self.results.counts.planned += 1;
            self.begin(slot, number, calls.now(), calls);
        }
    }

    fn outstanding(&self, slot: u32) -> u32 {
        match self.slots.all[slot as usize].active {
            NONE => 0,
            active => self.exchanges.active[active as usize].outstanding,
        }
    }

    /// The next request of a closed loop, after a time to think.
    fn think(&mut self, slot: u32, calls: &mut Calls) {
        let Some(think) = &mut self.closed else {
            return;
        };
        match think.next(self.plan.share) {
            wait_ns @ 1.. => {
                calls.schedule(calls.now().saturating_add(wait_ns), TASK_THOUGHT | slot);
            }
            _ => self.go_on(slot, calls),
        }
    }

    /// A slot of a closed loop has thought.
    fn go_on(&mut self, slot: u32, calls: &mut Calls) {
        let entry = &self.slots.all[slot as usize];
        if self.phase != Phase::Running || entry.state != State::Open || entry.left == 0 {
            return;
        }
        let Some(number) = self.draw() else {
            // What was put back leaves by another slot, which comes here after it.
            if self.waiting.is_empty() {
                self.stop(calls);
            }
            return;
        };
        self.results.counts.planned += 1;
        self.begin(slot, number, calls.now(), calls);
    }

    /// A request leaves by a slot, at its instant or, if that has passed, at once.
    fn begin(&mut self, slot: u32, ordinal: u64, intended_ns: Nanoseconds, calls: &mut Calls) {
        let request = Request { ordinal, slot };
        let len = self.len(request);
        let entry = &mut self.slots.all[slot as usize];
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
        self.results.counts.sent += 1;
        if !P::IS_ACKNOWLEDGED {
            self.results.counts.request_bytes += len;
        }
        match P::IS_UNASKED {
            true => self.take(slot, calls),
            false => calls.send(ConnectionId(entry.connection), len, Some(intended_ns)),
        }
        if self.timeout.is_none() {
            let deadline = exchange.begun_ns.saturating_add(self.plan.timeout_ns);
            self.timeout = Some(calls.schedule(deadline, TASK_TIMEOUT));
        }
        // With pipelining there may be room for more.
        if self.plan.pipeline > 1 {
            self.offer(slot, calls);
        }
    }

    /// Has the protocol read what came, and does what follows from each answer.
    fn read(
        &mut self,
        slot: u32,
        at: Nanoseconds,
        calls: &mut Calls,
        read: impl FnOnce(&mut P, &mut P::Reader, &mut Waiting<'_, P::Reader>) -> Result<(), Broken>,
    ) {
        let active = self.slots.all[slot as usize].active;
        let mut reader = std::mem::take(&mut self.exchanges.active[active as usize].reader);
        let mut waiting = Waiting {
            exchanges: &mut self.exchanges,
            results: &mut self.results,
            rows: self.rows.as_mut(),
            slots: &self.slots,
            active,
            at,
            answers: 0,
            closes: false,
        };
        waiting.on_first_byte();
        let outcome = read(&mut self.protocol, &mut reader, &mut waiting);
        let Waiting {
            answers, closes, ..
        } = waiting;
        self.exchanges.active[active as usize].reader = reader;
        if outcome.is_err() {
            self.break_off(slot, Cause::Protocol, calls);
            return;
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
        let entry = &mut self.slots.all[slot as usize];
        if entry.active != NONE && self.exchanges.trim(entry.active) && !P::IS_UNASKED {
            let active = std::mem::replace(&mut entry.active, NONE);
            let active = self.exchanges.active.remove(active as usize);
            self.protocol.release(active.reader);
        }
    }

    /// What a slot does when an answer is over.
    fn after_answer(&mut self, slot: u32, closes: bool, calls: &mut Calls) {
        let entry = &mut self.slots.all[slot as usize];
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
        let entry = &mut self.slots.all[slot as usize];
        entry.state = State::Closing;
        self.results.counts.closed += 1;
        let connection = ConnectionId(entry.connection);
        match self.plan.close_by {
            CloseBy::Fin => calls.close(connection),
            CloseBy::Rst => calls.abort(connection),
            CloseBy::Peer => {}
        }
    }

    /// Whether connections may open: in a run, and after it for requests that were put back.
    fn opens(&self) -> bool {
        match self.phase {
            Phase::Opening | Phase::Running => true,
            Phase::Draining => !self.waiting.is_empty(),
            Phase::Over => false,
        }
    }

    /// After a connection is over, its slot opens another one, at once or later.
    fn reopen(&mut self, slot: u32, is_failure: bool, calls: &mut Calls) {
        let entry = &mut self.slots.all[slot as usize];
        (entry.state, entry.connection) = (State::Free, NONE);
        if !self.opens() {
            return;
        }
        if self.is_of_flows() {
            self.free.push(slot);
            return;
        }
        if self.closed.is_some() && self.is_drawn() && self.waiting.is_empty() {
            // There is no request for another connection.
            self.stop(calls);
            return;
        }
        match is_failure {
            // One that cannot open while the others do so is tried again when the run goes on.
            true => {
                calls.schedule(calls.now().saturating_add(self.plan.retry_ns), slot);
            }
            false => self.connect(slot, calls),
        }
    }
}

impl<P: Protocol> Application for Client<P> {
    const WANTS_ACKNOWLEDGEMENTS: bool = P::IS_ACKNOWLEDGED;

    fn on_open(&mut self, connection: ConnectionId, slot: u32, ends: [End; 2], calls: &mut Calls) {
        let entry = &mut self.slots.all[slot as usize];
        let began_ns = entry.sent.cast_signed();
        (entry.connection, entry.state) = (connection.0, State::Open);
        (entry.sent, entry.active) = (0, NONE);
        entry.left = self.plan.requests_each.unwrap_or(u32::MAX);
        self.slots.set_local(slot, ends[0]);
        self.opening -= 1;
        self.open += 1;
        self.results.counts.opened += 1;
        self.results.times.opening.record(calls.now() - began_ns);
        if self.phase == Phase::Over {
            calls.close(connection);
            return;
        }
        if P::IS_UNASKED {
            self.slots.all[slot as usize].active = self.exchanges.activate(0);
            self.hold(slot, calls);
        }
        self.offer(slot, calls);
        if self.phase == Phase::Opening {
            self.open_more(calls);
        }
    }

    fn on_bytes(&mut self, _: ConnectionId, slot: u32, chunk: Chunk<'_>, calls: &mut Calls) {
        if P::IS_UNASKED && self.phase == Phase::Over {
            return;
        }
        let at = chunk.descriptor().stamp_ns.unwrap_or_else(|| calls.now());
        let bytes = chunk.bytes();
        self.results.counts.received_bytes += bytes.len() as u64;
        let entry = &self.slots.all[slot as usize];
        if entry.active == NONE {
            // Nothing was asked; an end that is under way may still bring something.
            if entry.state == State::Open {
                self.break_off(slot, Cause::Protocol, calls);
            }
            return;
        }
        self.read(slot, at, calls, |protocol, reader, waiting| {
            protocol.read(reader, bytes, waiting)
        });
    }

    fn on_acknowledged(&mut self, _: ConnectionId, slot: u32, bytes: u64, calls: &mut Calls) {
        if P::IS_ACKNOWLEDGED {
            self.results.counts.request_bytes += bytes;
        }
        let active = self.slots.all[slot as usize].active;
        if let Some(active) = self.exchanges.active.get_mut(active as usize) {
            active.acknowledged += bytes;
            if P::IS_ACKNOWLEDGED {
                let at = calls.now();
                self.read(slot, at, calls, |_, _, waiting| waiting.on_acknowledged());
            } else {
                self.trim(slot);
            }
            self.look_for_the_end(calls);
        }
    }

    fn on_end(&mut self, connection: ConnectionId, slot: u32, calls: &mut Calls) {
        if self.slots.all[slot as usize].active != NONE {
            let at = calls.now();
            self.read(slot, at, calls, |protocol, reader, waiting| {
                protocol.end(reader, waiting)
            });
        }
        if P::IS_UNASKED && self.slots.all[slot as usize].active != NONE {
            self.put_back(slot);
        }
        self.fail_all(slot, Cause::Closed);
        let entry = &mut self.slots.all[slot as usize];
        if matches!(entry.state, State::Open | State::Closing) {
            entry.state = State::Closing;
            calls.close(connection);
        }
        self.look_for_the_end(calls);
    }

    fn on_close(&mut self, _: Option<ConnectionId>, slot: u32, reason: Reason, calls: &mut Calls) {
        let state = self.slots.all[slot as usize].state;
        let is_failure = state == State::Opening;
        if is_failure {
            self.opening -= 1;
            self.results.counts.refused[Cause::from(reason) as usize] += 1;
            // The request for which it was to open has no other one.
            if self.is_of_flows() && self.waiting.pop_front().is_some() {
                self.results.counts.unsent[Unsent::Refused as usize] += 1;
            }
        } else {
            self.open -= 1;
        }
        self.fail_all(slot, Cause::from(reason));
        self.reopen(slot, is_failure, calls);
        if self.phase == Phase::Opening {
            self.open_more(calls);
        }
        self.look_for_the_end(calls);
    }

    fn on_task(&mut self, _: Nanoseconds, task: u32, calls: &mut Calls) {
        match task {
            TASK_ARRIVAL if self.phase == Phase::Running => self.on_arrivals(calls),
            TASK_ARRIVAL => {}
            TASK_TIMEOUT => self.on_timeouts(calls),
            TASK_END => self.stop(calls),
            TASK_CLOSE => self.close_some(calls),
            task if task & TASK_THOUGHT != 0 => self.go_on(task & !TASK_THOUGHT, calls),
            task if task & TASK_CAME != 0 => self.read_what_came(task & !TASK_CAME, calls),
            slot if self.opens() => self.connect(slot, calls),
            _ => {}
        }
    }

    fn fill(&mut self, _: ConnectionId, slot: u32, offset: u64, bytes: &mut [u8]) {
        let active = self.slots.all[slot as usize].active;
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
        let active = self.slots.all[slot as usize].active;
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
                self.results.on_departure(exchange, sent_ns);
            }
            place = exchange.next;
        }
    }
}
