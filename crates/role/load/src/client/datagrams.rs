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

use lineside_frame::Chunk;
use lineside_time::Nanoseconds;

use super::answers::Answered;
use super::core::{Core, Side, TASK_ARRIVAL, TASK_END, TASK_GO_ON, TASK_TIMEOUT};
use super::flight::{Fate, Flight, Sent, number_of};
use super::slots::State;
use super::{Locals, Pace, Phase, Plan, Target};
use crate::application::{Application, Calls, ConnectionId, End, Reason, SocketId};
use crate::protocol::{Answer, DatagramClient as Protocol, Numbered, Request};
use crate::results::{Cause, Row};
use crate::rows::Rows;
use crate::worker::Load;

/// Requests that a flow of a closed loop begins at once: others wait for the next turn.
const BEGUN_MAX: usize = 64;

/// A client of a protocol of datagrams: see the module. Of its [`Plan`], connections are flows,
/// `pipeline` is how many requests of a flow may be outstanding, and after `requests_each` it has
/// another local port. What else is about the beginning and end of connections does not apply.
pub struct DatagramClient<P: Protocol> {
    core: Core,
    protocol: P,
    flows: Vec<Flow>,
    flight: Flight,
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
        let operations = protocol.operations().len();
        Self {
            flows: vec![Flow::default(); count],
            flight: Flight::new(plan.connections, plan.pipeline, P::NUMBER_BITS),
            core: Core::new(plan, pace, targets, locals, rows, operations),
            protocol,
        }
    }

    /// The protocol.
    pub fn protocol(&self) -> &P {
        &self.protocol
    }

    /// Whether a flow has begun all its requests. With the last one over, it has another port.
    fn is_used_up(&mut self, flow: u32, calls: &mut Calls) -> bool {
        let Flow {
            left,
            outstanding,
            tasks,
            ..
        } = self.flows[flow as usize];
        let entry = &mut self.core.slots.all[flow as usize];
        let is_going_on = matches!(self.core.phase, Phase::Opening | Phase::Running);
        if left > 0 || entry.state != State::Open || !is_going_on {
            return false;
        }
        if outstanding == 0 && tasks == 0 {
            entry.state = State::Free;
            calls.unbind(SocketId(entry.connection));
            self.core.open -= 1;
            self.core.results.counts.closed += 1;
            self.connect(flow, calls);
        }
        true
    }

    /// After a request failed at once, a closed loop rests, so that it does not spin.
    fn retry(&mut self, flow: u32, calls: &mut Calls) {
        if self.core.closed.is_some() {
            let at = calls.now().saturating_add(self.core.plan.retry_ns);
            self.go_on_at(flow, at, calls);
        } else {
            self.offer(flow, calls);
        }
    }

    /// Requests whose time is over are lost.
    fn on_timeouts(&mut self, calls: &mut Calls) {
        self.core.timeout = None;
        while let Some((place, sent)) = self.flight.oldest() {
            let deadline = sent.begun_ns.saturating_add(self.core.plan.timeout_ns);
            if deadline > calls.now() {
                self.core.timeout = Some(calls.schedule(deadline, TASK_TIMEOUT));
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
        self.core.results.counts.failed[cause as usize] += 1;
        self.add_row(&sent, Err(Some(cause)));
        flow
    }

    fn add_row(&mut self, sent: &Sent, outcome: Result<(Answer, Nanoseconds), Option<Cause>>) {
        let request = sent.message.request;
        if let Some(rows) = { self.core.rows.as_mut() }.filter(|rows| rows.wants(request.ordinal)) {
            let answer = outcome.ok();
            rows.push(Row {
                ordinal: request.ordinal,
                slot: request.slot,
                intended_ns: sent.intended_ns,
                departed_ns: sent.departed_ns,
                first_ns: answer.map(|(_, at)| at),
                end_ns: answer.map(|(_, at)| at),
                ends: self.core.slots.ends(request.slot),
                status: answer.map(|(answer, _)| answer.status),
                request_bytes: sent.len.into(),
                content_bytes: answer.map_or(0, |(answer, _)| answer.content_bytes),
                cause: outcome.err().flatten(),
            });
        }
    }

    fn on_answer(&mut self, place: u32, (answer, at): (Answer, Nanoseconds), calls: &mut Calls) {
        let sent = self.flight.finish(place, true);
        let operation = self.protocol.operation_number(sent.message.request);
        self.core.results.on_answer(&Answered {
            answer: Answer {
                operation,
                ..answer
            },
            intended_ns: sent.intended_ns,
            departed_ns: sent.departed_ns,
            first_ns: at,
            at,
        });
        self.add_row(&sent, Ok((answer, at)));
        let flow = sent.message.request.slot;
        self.flows[flow as usize].outstanding -= 1;
        self.offer(flow, calls);
        self.look_for_the_end(calls);
    }
}

impl<P: Protocol> Side for DatagramClient<P> {
    const TAKES_ALL: bool = true;

    fn core(&self) -> &Core {
        &self.core
    }

    fn core_mut(&mut self) -> &mut Core {
        &mut self.core
    }

    fn connect(&mut self, flow: u32, calls: &mut Calls) {
        let [local, remote] = self.core.slots.next_ends(flow, calls.now());
        self.core.opening += 1;
        calls.bind(local, Some(remote), flow);
    }

    fn is_able(&self, flow: u32) -> bool {
        let Flow {
            next,
            outstanding,
            left,
            ..
        } = self.flows[flow as usize];
        self.core.slots.all[flow as usize].state == State::Open
            && left > 0
            && outstanding < self.core.plan.pipeline
            && self.flight.is_free(flow, next)
    }

    fn is_offered(&mut self, flow: u32, calls: &mut Calls) -> bool {
        !self.is_used_up(flow, calls)
    }

    fn goes_on(&mut self, flow: u32) -> bool {
        self.is_able(flow)
    }

    fn on_begun(&mut self, flow: u32) {
        if self.is_able(flow) {
            self.core.list(flow);
        }
    }

    fn begun_max(&self) -> usize {
        BEGUN_MAX
    }

    /// With a time to think, each request that may be outstanding has its own.
    fn thoughts_max(&self) -> u32 {
        match &self.core.closed {
            Some(think) if !think.are_none() => self.core.plan.pipeline,
            _ => 1,
        }
    }

    fn go_on_at(&mut self, flow: u32, at: Nanoseconds, calls: &mut Calls) {
        self.flows[flow as usize].tasks += 1;
        calls.schedule(at, TASK_GO_ON | flow);
    }

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
        self.core.results.counts.sent += 1;
        self.core.results.counts.request_bytes += u64::from(len);
        let socket = SocketId(self.core.slots.all[flow as usize].connection);
        let ends = self.core.slots.ends(flow);
        calls.datagram(socket, ends, len, token, Some(intended_ns));
        if self.core.timeout.is_none() && !self.protocol.is_one_way() {
            let deadline = begun_ns.saturating_add(self.core.plan.timeout_ns);
            self.core.timeout = Some(calls.schedule(deadline, TASK_TIMEOUT));
        }
    }

    fn is_idle(&self) -> bool {
        self.flight.waiting() == 0
    }

    fn end_all(&mut self, calls: &mut Calls) {
        while let Some((place, _)) = self.flight.oldest() {
            self.fail(place, Cause::Timeout);
        }
        for entry in &mut self.core.slots.all {
            if entry.state == State::Open {
                entry.state = State::Closing;
                calls.unbind(SocketId(entry.connection));
            }
        }
        self.core.open = 0;
    }

    fn outstanding_of_all(&self) -> Result<u64, &'static str> {
        let flows = self.flows.iter();
        let of_flows: u64 = flows.map(|flow| u64::from(flow.outstanding)).sum();
        match of_flows == u64::from(self.flight.waiting()) {
            true => Ok(of_flows),
            false => Err("outstanding = sum of all flows"),
        }
    }

    fn own_bytes(&self) -> usize {
        self.flows.capacity() * size_of::<Flow>() + self.flight.allocated_bytes()
    }
}

impl<P: Protocol> Application for DatagramClient<P> {
    fn on_bound(&mut self, socket: SocketId, flow: u32, local: End, calls: &mut Calls) {
        let entry = &mut self.core.slots.all[flow as usize];
        (entry.connection, entry.state) = (socket.0, State::Open);
        self.flows[flow as usize].left = self.core.plan.requests_each.unwrap_or(u32::MAX);
        self.core.slots.set_local(flow, local);
        self.core.opening -= 1;
        self.core.open += 1;
        self.core.results.counts.opened += 1;
        if self.core.phase == Phase::Over {
            self.core.slots.all[flow as usize].state = State::Closing;
            self.core.open -= 1;
            return calls.unbind(socket);
        }
        match (self.core.phase, &self.core.closed) {
            // As many thoughts as at the start.
            (Phase::Running, Some(think)) if !think.are_none() => {
                for _ in 0..self.core.plan.pipeline {
                    self.think(flow, calls);
                }
            }
            _ => self.offer(flow, calls),
        }
        self.open_more(calls);
    }

    fn on_bind_failed(&mut self, flow: u32, reason: Reason, calls: &mut Calls) {
        self.core.opening -= 1;
        self.core.slots.all[flow as usize].state = State::Free;
        self.core.results.counts.refused[Cause::from(reason) as usize] += 1;
        if matches!(self.core.phase, Phase::Opening | Phase::Running) {
            calls.schedule(calls.now().saturating_add(self.core.plan.retry_ns), flow);
        }
        self.open_more(calls);
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
        self.core.results.counts.received_bytes += bytes.len() as u64;
        let next = self.flows[flow as usize].next;
        let heard = self.protocol.read(flow, bytes);
        let fate = heard.and_then(|heard| {
            let number = number_of(heard.number, P::NUMBER_BITS, next)?;
            Some((self.flight.fate(flow, number, next), heard.answer))
        });
        let counts = &mut self.core.results.counts;
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
            self.core.results.on_departure(intended_ns, sent_ns);
        }
        let waits = self.flight.on_left(place, sent_ns);
        if waits && self.protocol.is_one_way() {
            let sent = self.flight.finish(place, true);
            let flow = sent.message.request.slot;
            self.flows[flow as usize].outstanding -= 1;
            self.core.results.counts.one_way += 1;
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
            TASK_ARRIVAL => self.on_arrivals(calls),
            TASK_TIMEOUT => self.on_timeouts(calls),
            TASK_END => self.stop(calls),
            task if task & TASK_GO_ON != 0 => {
                let flow = task & !TASK_GO_ON;
                self.flows[flow as usize].tasks -= 1;
                if !self.is_used_up(flow, calls) {
                    self.go_on(flow, calls);
                }
            }
            flow if matches!(self.core.phase, Phase::Opening | Phase::Running) => {
                self.connect(flow, calls);
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
