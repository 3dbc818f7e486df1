//! A client whose requests are datagrams: flows, each a local port of its own, and the account of
//! each request.
//!
//! ```text
//!  Pace ─► due instants ─► begin(flow) ─► Calls::datagram ─► fill ─► departed ─► on_datagram
//!                             ▲  no flow: waits, and keeps the instant                │
//!                        ready flows, in turn            flow and number: which request it answers
//! ```
//!
//! * Nothing is sent again: a request without an answer in time counts as lost. An answer that
//!   comes later, or again, is counted apart and changes nothing.
//! * planned = sent + unsent by reason; sent = answered + failed by cause + one-way + outstanding.

use std::collections::VecDeque;

use lineside_frame::Chunk;
use lineside_time::{Nanoseconds, TimerId};

use super::calendar::{Calendar, Entry};
use super::flight::{Fate, Flight, Sent, number_of};
use super::pace::Thoughts;
use super::slots::{Slots, State};
use super::{Locals, Pace, Phase, Plan, Target};
use crate::application::{Application, Calls, ConnectionId, End, Reason, SocketId};
use crate::protocol::{Answer, DatagramClient as Protocol, Numbered, Request};
use crate::results::{Cause, DEPARTURES_KEPT, Results, Row, Unsent};
use crate::rows::Rows;
use crate::worker::Load;

/// Tasks that are no flow's.
const TASK_ARRIVAL: u32 = u32::MAX;
const TASK_TIMEOUT: u32 = u32::MAX - 1;
const TASK_END: u32 = u32::MAX - 2;
/// With this bit, a flow goes on; without it, it is bound again.
const TASK_GO_ON: u32 = 1 << 31;
/// Arrivals that are dealt with in one task.
const ARRIVALS_MAX: usize = 16;
/// Requests that a flow of a closed loop begins at once: others wait for the next turn.
const BEGUN_MAX: usize = 64;

/// A client of a protocol of datagrams: see the module. Of its [`Plan`], connections are flows,
/// `pipeline` is how many requests of a flow may be outstanding, and after `requests_each` it has
/// another local port. What else is about the beginning and end of connections does not apply.
pub struct DatagramClient<P: Protocol> {
    protocol: P,
    plan: Plan,
    /// Of a closed loop: times to think, if there are any.
    closed: Option<Thoughts>,
    phase: Phase,
    slots: Slots,
    flows: Vec<Flow>,
    flight: Flight,
    /// Flows that take a request.
    ready: VecDeque<u32>,
    /// Requests that found no flow: number, and instant.
    waiting: VecDeque<(u64, Nanoseconds)>,
    /// What arrives in an open loop.
    calendar: Calendar,
    /// Requests of a closed loop so far.
    drawn: u64,
    opening: u32,
    open: u32,
    /// Flows that were never tried yet.
    untried: u32,
    timeout: Option<TimerId>,
    results: Results,
    rows: Option<Rows>,
}

/// A flow of the plan.
#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    /// Requests so far: the number of the next one.
    next: u64,
    outstanding: u32,
    /// Requests that it may still begin before it has another local port.
    left: u32,
    /// Tasks of it that are to come.
    tasks: u32,
    /// It is in the list of those that take a request.
    is_ready: bool,
}

impl<P: Protocol> DatagramClient<P> {
    /// A client of `targets` in turn, whose datagrams come from `locals`, or from wherever the
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
        let (closed, arrivals) = pace.split();
        let mut results = Results::default();
        results.times.tell_apart(protocol.operations().len());
        Self {
            protocol,
            phase: Phase::Opening,
            slots: Slots::new(plan.connections, locals, targets),
            flows: vec![Flow::default(); count],
            flight: Flight::new(plan.connections, plan.pipeline, P::NUMBER_BITS),
            ready: VecDeque::with_capacity(count),
            waiting: VecDeque::with_capacity(plan.waiting_max.min(1 << 12)),
            calendar: Calendar::new(arrivals, &plan),
            drawn: 0,
            opening: 0,
            open: 0,
            untried: plan.connections,
            timeout: None,
            results,
            rows,
            plan,
            closed,
        }
    }

    /// The protocol.
    pub fn protocol(&self) -> &P {
        &self.protocol
    }

    fn bind_more(&mut self, calls: &mut Calls) {
        while self.untried > 0 && self.opening < self.plan.opening_max {
            let flow = self.plan.connections - self.untried;
            self.untried -= 1;
            self.bind(flow, calls);
        }
    }

    fn bind(&mut self, flow: u32, calls: &mut Calls) {
        let [local, remote] = self.slots.next_ends(flow, calls.now());
        self.opening += 1;
        calls.bind(local, Some(remote), flow);
    }

    fn schedule_arrival(&mut self, calls: &mut Calls) {
        if let Some(due) = self.calendar.next_due() {
            calls.schedule(due.saturating_sub(self.plan.ahead_ns), TASK_ARRIVAL);
        } else if self.calendar.is_over() && self.waiting.is_empty() {
            self.stop(calls);
        }
    }

    fn look_for_the_end(&mut self, calls: &mut Calls) {
        if self.phase == Phase::Draining && self.flight.waiting() == 0 {
            self.end(calls);
        }
    }

    /// The number of the next request of a closed loop; `None` after the last one.
    fn draw(&mut self) -> Option<u64> {
        if { self.plan.requests }.is_some_and(|requests| self.drawn >= requests) {
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
        while let Some(flow) = self.ready.pop_front() {
            self.flows[flow as usize].is_ready = false;
            if self.is_able(flow) {
                self.begin(flow, number, due, calls);
                self.list(flow);
                return;
            }
        }
        self.results.counts.waited += 1;
        if self.waiting.len() >= self.plan.waiting_max {
            self.results.counts.unsent[Unsent::NoConnection as usize] += 1;
            return;
        }
        self.waiting.push_back((number, due));
    }

    fn is_able(&self, flow: u32) -> bool {
        let Flow {
            next,
            outstanding,
            left,
            ..
        } = self.flows[flow as usize];
        self.slots.all[flow as usize].state == State::Open
            && left > 0
            && outstanding < self.plan.pipeline
            && self.flight.is_free(flow, next)
    }

    /// Lists a flow among those that take a request, if it does.
    fn list(&mut self, flow: u32) {
        if self.is_able(flow) && !std::mem::replace(&mut self.flows[flow as usize].is_ready, true) {
            self.ready.push_back(flow);
        }
    }

    /// A flow may take another request: one that waits, the next of a closed loop, or it is listed.
    fn offer(&mut self, flow: u32, calls: &mut Calls) {
        if self.is_used_up(flow, calls) {
            return;
        }
        while self.is_able(flow) {
            let Some((number, due)) = self.waiting.pop_front() else {
                break;
            };
            self.begin(flow, number, due, calls);
            if self.waiting.is_empty() && self.calendar.is_over() {
                self.stop(calls);
                return;
            }
        }
        if self.phase == Phase::Running && self.closed.is_some() {
            self.think(flow, calls);
        } else {
            self.list(flow);
        }
    }

    /// Whether a flow has begun all its requests. With the last one over, it has another port.
    fn is_used_up(&mut self, flow: u32, calls: &mut Calls) -> bool {
        let Flow {
            left,
            outstanding,
            tasks,
            ..
        } = self.flows[flow as usize];
        let entry = &mut self.slots.all[flow as usize];
        let is_going_on = matches!(self.phase, Phase::Opening | Phase::Running);
        if left > 0 || entry.state != State::Open || !is_going_on {
            return false;
        }
        if outstanding == 0 && tasks == 0 {
            entry.state = State::Free;
            calls.unbind(SocketId(entry.connection));
            self.open -= 1;
            self.results.counts.closed += 1;
            self.bind(flow, calls);
        }
        true
    }

    fn schedule(&mut self, flow: u32, at: Nanoseconds, calls: &mut Calls) {
        self.flows[flow as usize].tasks += 1;
        calls.schedule(at, TASK_GO_ON | flow);
    }

    /// The next request of a closed loop, after a time to think.
    fn think(&mut self, flow: u32, calls: &mut Calls) {
        let Some(think) = &mut self.closed else {
            return;
        };
        match think.next(self.plan.share) {
            wait_ns @ 1.. => {
                self.schedule(flow, calls.now().saturating_add(wait_ns), calls);
            }
            _ => self.go_on(flow, calls),
        }
    }

    /// A flow of a closed loop has thought: it begins a request, or without a time to think as many
    /// as may be outstanding.
    fn go_on(&mut self, flow: u32, calls: &mut Calls) {
        let at_once = match &self.closed {
            Some(think) if think.are_none() => BEGUN_MAX,
            _ => 1,
        };
        if self.is_used_up(flow, calls) {
            return;
        }
        for _ in 0..at_once {
            if self.phase != Phase::Running || !self.is_able(flow) {
                return;
            }
            let Some(number) = self.draw() else {
                self.stop(calls);
                return;
            };
            self.results.counts.planned += 1;
            self.begin(flow, number, calls.now(), calls);
        }
        if at_once > 1 && self.is_able(flow) {
            self.schedule(flow, calls.now(), calls);
        }
    }

    /// After a request failed at once, a closed loop rests, so that it does not spin.
    fn retry(&mut self, flow: u32, calls: &mut Calls) {
        if self.closed.is_some() {
            let at = calls.now().saturating_add(self.plan.retry_ns);
            self.schedule(flow, at, calls);
        } else {
            self.offer(flow, calls);
        }
    }

    /// A request leaves by a flow, at its instant or, if that has passed, at once.
    fn begin(&mut self, flow: u32, ordinal: u64, intended_ns: Nanoseconds, calls: &mut Calls) {
        let entry = &mut self.flows[flow as usize];
        let message = Numbered {
            request: Request {
                ordinal,
                slot: flow,
            },
            number: entry.next,
        };
        entry.next += 1;
        entry.left -= 1;
        entry.outstanding += 1;
        let len = self.protocol.len(message) as u32;
        let begun_ns = intended_ns.max(calls.now());
        let token = self.flight.begin(message, len, intended_ns, begun_ns);
        self.results.counts.sent += 1;
        self.results.counts.request_bytes += u64::from(len);
        let socket = SocketId(self.slots.all[flow as usize].connection);
        let ends = self.slots.ends(flow);
        calls.datagram(socket, ends, len, token, Some(intended_ns));
        if self.timeout.is_none() && !self.protocol.is_one_way() {
            let deadline = begun_ns.saturating_add(self.plan.timeout_ns);
            self.timeout = Some(calls.schedule(deadline, TASK_TIMEOUT));
        }
    }

    /// Requests whose time is over are lost.
    fn on_timeouts(&mut self, calls: &mut Calls) {
        self.timeout = None;
        while let Some((place, sent)) = self.flight.oldest() {
            let deadline = sent.begun_ns.saturating_add(self.plan.timeout_ns);
            if deadline > calls.now() {
                self.timeout = Some(calls.schedule(deadline, TASK_TIMEOUT));
                return;
            }
            match sent.has_left {
                true => {
                    let flow = self.fail(place, Cause::Timeout);
                    self.offer(flow, calls);
                }
                false => self.flight.postpone(place, calls.now()),
            }
        }
        self.look_for_the_end(calls);
    }

    /// A request has no answer; returns its flow.
    #[cold]
    fn fail(&mut self, place: u32, cause: Cause) -> u32 {
        let sent = self.flight.finish(place, false);
        let flow = sent.message.request.slot;
        self.flows[flow as usize].outstanding -= 1;
        self.results.counts.failed[cause as usize] += 1;
        self.add_row(&sent, Err(Some(cause)));
        flow
    }

    fn add_row(&mut self, sent: &Sent, outcome: Result<(Answer, Nanoseconds), Option<Cause>>) {
        let request = sent.message.request;
        if let Some(rows) = { self.rows.as_mut() }.filter(|rows| rows.wants(request.ordinal)) {
            let answer = outcome.ok();
            rows.push(Row {
                ordinal: request.ordinal,
                slot: request.slot,
                intended_ns: sent.intended_ns,
                departed_ns: sent.departed_ns,
                first_ns: answer.map(|(_, at)| at),
                end_ns: answer.map(|(_, at)| at),
                ends: self.slots.ends(request.slot),
                status: answer.map(|(answer, _)| answer.status),
                request_bytes: sent.len.into(),
                content_bytes: answer.map_or(0, |(answer, _)| answer.content_bytes),
                cause: outcome.err().flatten(),
            });
        }
    }

    fn on_answer(&mut self, place: u32, (answer, at): (Answer, Nanoseconds), calls: &mut Calls) {
        let sent = self.flight.finish(place, true);
        let Results {
            counts,
            times,
            recent,
            ended_ns,
            ..
        } = &mut self.results;
        *ended_ns = (*ended_ns).max(at);
        counts.answered += 1;
        counts.succeeded += u64::from(answer.is_success);
        counts.content_bytes += answer.content_bytes;
        counts.on_status(answer.status);
        let latency_ns = at - sent.intended_ns;
        times.latency.record(latency_ns);
        let operation = self.protocol.operation_number(sent.message.request);
        if let Some(operation) = times.operations.get_mut(usize::from(operation)) {
            operation.record(latency_ns);
        }
        recent.latency.record(latency_ns);
        // A fast answer may come before the loop knows when its request left.
        let departed_ns = sent.departed_ns.unwrap_or(sent.intended_ns);
        times.service.record(at - departed_ns);
        recent.service.record(at - departed_ns);
        times.first_byte.record(at - departed_ns);
        self.add_row(&sent, Ok((answer, at)));
        let flow = sent.message.request.slot;
        self.flows[flow as usize].outstanding -= 1;
        self.offer(flow, calls);
        self.look_for_the_end(calls);
    }

    /// A request left, if it is known when.
    fn on_departure(&mut self, intended_ns: Nanoseconds, sent_ns: Nanoseconds) {
        let late_ns = sent_ns - intended_ns;
        self.results.times.lateness.record(late_ns);
        self.results.times.late.record(late_ns);
        if self.results.departures.len() < DEPARTURES_KEPT {
            self.results.departures.push((intended_ns, sent_ns));
        }
    }
}

impl<P: Protocol> Load for DatagramClient<P> {
    fn open(&mut self, calls: &mut Calls) {
        self.bind_more(calls);
    }

    fn is_ready(&self) -> bool {
        self.untried == 0 && self.opening == 0
    }

    fn open_connections(&self) -> u32 {
        self.open
    }

    fn phase(&self) -> Phase {
        self.phase
    }

    fn start(&mut self, at: Nanoseconds, until: Nanoseconds, calls: &mut Calls) {
        self.phase = Phase::Running;
        if until < Nanoseconds::MAX {
            calls.schedule(until, TASK_END);
        }
        let Some(think) = &self.closed else {
            self.calendar.start(at, until);
            self.schedule_arrival(calls);
            return;
        };
        // With a time to think, each request that may be outstanding has its own.
        let each = if !think.are_none() {
            self.plan.pipeline
        } else {
            1
        };
        while let Some(flow) = self.ready.pop_front() {
            self.flows[flow as usize].is_ready = false;
            for _ in 0..each {
                self.flows[flow as usize].tasks += 1;
                calls.schedule(at, TASK_GO_ON | flow);
            }
        }
    }

    fn stop(&mut self, calls: &mut Calls) {
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

    fn end(&mut self, calls: &mut Calls) {
        if self.phase == Phase::Over {
            return;
        }
        self.phase = Phase::Over;
        while let Some((place, _)) = self.flight.oldest() {
            self.fail(place, Cause::Timeout);
        }
        for entry in &mut self.slots.all {
            if entry.state == State::Open {
                entry.state = State::Closing;
                calls.unbind(SocketId(entry.connection));
            }
        }
        self.open = 0;
    }

    fn results(&mut self) -> &mut Results {
        &mut self.results
    }

    fn take_rows(&mut self) -> Option<Rows> {
        self.rows.take()
    }

    fn broken_identity(&self) -> Option<&'static str> {
        let counts = &self.results.counts;
        let of_flows = self
            .flows
            .iter()
            .map(|flow| u64::from(flow.outstanding))
            .sum::<u64>();
        if of_flows != u64::from(self.flight.waiting()) {
            return Some("outstanding = sum of all flows");
        }
        counts.broken_identity(self.waiting.len() as u64, of_flows)
    }

    fn allocated_bytes(&self) -> usize {
        self.slots.all.capacity() * size_of::<super::slots::Slot>()
            + self.flows.capacity() * size_of::<Flow>()
            + self.flight.allocated_bytes()
    }
}

impl<P: Protocol> Application for DatagramClient<P> {
    fn on_bound(&mut self, socket: SocketId, flow: u32, local: End, calls: &mut Calls) {
        let entry = &mut self.slots.all[flow as usize];
        (entry.connection, entry.state) = (socket.0, State::Open);
        self.flows[flow as usize].left = self.plan.requests_each.unwrap_or(u32::MAX);
        self.slots.set_local(flow, local);
        self.opening -= 1;
        self.open += 1;
        self.results.counts.opened += 1;
        if self.phase == Phase::Over {
            self.slots.all[flow as usize].state = State::Closing;
            self.open -= 1;
            return calls.unbind(socket);
        }
        match (self.phase, &self.closed) {
            // As many thoughts as at the start.
            (Phase::Running, Some(think)) if !think.are_none() => {
                for _ in 0..self.plan.pipeline {
                    self.think(flow, calls);
                }
            }
            _ => self.offer(flow, calls),
        }
        self.bind_more(calls);
    }

    fn on_bind_failed(&mut self, flow: u32, reason: Reason, calls: &mut Calls) {
        self.opening -= 1;
        self.slots.all[flow as usize].state = State::Free;
        self.results.counts.refused[Cause::from(reason) as usize] += 1;
        if matches!(self.phase, Phase::Opening | Phase::Running) {
            calls.schedule(calls.now().saturating_add(self.plan.retry_ns), flow);
        }
        self.bind_more(calls);
    }

    fn on_datagram(
        &mut self,
        _: SocketId,
        flow: u32,
        _: [End; 2],
        at: Nanoseconds,
        chunk: Chunk<'_>,
        calls: &mut Calls,
    ) {
        let bytes = chunk.bytes();
        self.results.counts.received_bytes += bytes.len() as u64;
        let next = self.flows[flow as usize].next;
        let heard = self.protocol.read(flow, bytes);
        let fate = heard.and_then(|heard| {
            let number = number_of(heard.number, P::NUMBER_BITS, next)?;
            Some((self.flight.fate(flow, number, next), heard.answer))
        });
        let counts = &mut self.results.counts;
        match fate {
            None | Some((Fate::Unsent, _)) => counts.strays += 1,
            Some((Fate::Answered, _)) => counts.duplicates += 1,
            Some((Fate::Over, _)) => counts.late_answers += 1,
            Some((Fate::Waits(place), answer)) => {
                let message = self.flight.get(place).message;
                match self.protocol.is_answer_to(message, bytes) {
                    true => self.on_answer(place, (answer, at), calls),
                    false => counts.strays += 1,
                }
            }
        }
    }

    fn fill_datagram(&mut self, _: u32, token: u64, leaves_ns: Nanoseconds, bytes: &mut [u8]) {
        if let Some((_, sent)) = self.flight.of_token(token) {
            let message = sent.message;
            self.protocol.write(message, leaves_ns, bytes);
        }
    }

    fn on_datagram_departed(
        &mut self,
        _: u32,
        token: u64,
        sent_ns: Option<Nanoseconds>,
        calls: &mut Calls,
    ) {
        let Some((place, sent)) = self.flight.of_token(token) else {
            return;
        };
        let intended_ns = sent.intended_ns;
        if let Some(sent_ns) = sent_ns {
            self.on_departure(intended_ns, sent_ns);
        }
        let waits = self.flight.on_left(place, sent_ns);
        if waits && self.protocol.is_one_way() {
            let sent = self.flight.finish(place, true);
            let flow = sent.message.request.slot;
            self.flows[flow as usize].outstanding -= 1;
            self.results.counts.one_way += 1;
            self.add_row(&sent, Err(None));
            self.offer(flow, calls);
            self.look_for_the_end(calls);
        }
    }

    fn on_datagram_unsent(&mut self, _: u32, token: u64, reason: Reason, calls: &mut Calls) {
        let Some((place, _)) = self.flight.of_token(token) else {
            return;
        };
        if self.flight.on_left(place, None) {
            let flow = self.fail(place, Cause::from(reason));
            self.retry(flow, calls);
            self.look_for_the_end(calls);
        }
    }

    /// It is about one datagram: the oldest that it can be about.
    fn on_datagram_error(&mut self, _: SocketId, flow: u32, reason: Reason, calls: &mut Calls) {
        let next = self.flows[flow as usize].next;
        if let Some(place) = self.flight.oldest_of(flow, next) {
            self.fail(place, Cause::from(reason));
            self.retry(flow, calls);
            self.look_for_the_end(calls);
        }
    }

    fn on_task(&mut self, _: Nanoseconds, task: u32, calls: &mut Calls) {
        match task {
            TASK_ARRIVAL if self.phase == Phase::Running => self.on_arrivals(calls),
            TASK_ARRIVAL => {}
            TASK_TIMEOUT => self.on_timeouts(calls),
            TASK_END => self.stop(calls),
            task if task & TASK_GO_ON != 0 => {
                let flow = task & !TASK_GO_ON;
                self.flows[flow as usize].tasks -= 1;
                self.go_on(flow, calls);
            }
            flow if matches!(self.phase, Phase::Opening | Phase::Running) => {
                self.bind(flow, calls);
            }
            _ => {}
        }
    }

    // It has no connections.
    fn on_open(&mut self, _: ConnectionId, _: u32, _: [End; 2], _: &mut Calls) {}
    fn on_bytes(&mut self, _: ConnectionId, _: u32, _: Chunk<'_>, _: &mut Calls) {}
    fn on_acknowledged(&mut self, _: ConnectionId, _: u32, _: u64, _: &mut Calls) {}
    fn on_end(&mut self, _: ConnectionId, _: u32, _: &mut Calls) {}
    fn on_close(&mut self, _: Option<ConnectionId>, _: u32, _: Reason, _: &mut Calls) {}
    fn fill(&mut self, _: ConnectionId, _: u32, _: u64, _: &mut [u8]) {}
}
