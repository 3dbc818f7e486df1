//! The open and the closed loop of a client, whatever its transport.
//!
//! ```text
//!  open:   calendar ─► on_arrivals ─► on_arrival ─► a ready slot, or waiting ─► begin
//!  closed: offer ─► think ─► go_on ─► draw ─► begin
//! ```
//!
//! [`Core`] is the state that clients of streams and of datagrams share, [`Side`] what a transport
//! does about it. A slot is a connection of the plan, or a flow.

use std::collections::VecDeque;

use lineside_time::{Nanoseconds, TimerId};

use super::calendar::{Calendar, Entry};
use super::pace::Thoughts;
use super::slots::{Marks, Slots};
use super::{Locals, Pace, Phase, Plan, Target};
use crate::application::{Application, Calls};
use crate::results::{Results, Unsent};
use crate::rows::Rows;
use crate::worker::Load;

/// Tasks that are no slot's.
pub(super) const TASK_ARRIVAL: u32 = u32::MAX;
pub(super) const TASK_TIMEOUT: u32 = u32::MAX - 1;
pub(super) const TASK_END: u32 = u32::MAX - 2;
pub(super) const TASK_CLOSE: u32 = u32::MAX - 3;
/// With this bit, a slot of a closed loop goes on; without it, it opens again.
pub(super) const TASK_GO_ON: u32 = 1 << 31;
/// Arrivals that are dealt with in one task.
const ARRIVALS_MAX: usize = 16;

/// What clients share: see the module.
pub(super) struct Core {
    pub(super) plan: Plan,
    /// Of a closed loop: times to think, if there are any.
    pub(super) closed: Option<Thoughts>,
    pub(super) phase: Phase,
    pub(super) slots: Slots,
    /// Slots that take a request.
    pub(super) ready: VecDeque<u32>,
    /// Requests that found no slot: number, and instant.
    pub(super) waiting: VecDeque<(u64, Nanoseconds)>,
    /// What arrives in an open loop.
    pub(super) calendar: Calendar,
    /// Requests of a closed loop so far.
    drawn: u64,
    pub(super) opening: u32,
    pub(super) open: u32,
    /// Slots that were never tried yet.
    pub(super) untried: u32,
    pub(super) timeout: Option<TimerId>,
    pub(super) results: Results,
    pub(super) rows: Option<Rows>,
}

impl Core {
    /// `operations` is how many have times of their own.
    pub(super) fn new(
        plan: Plan,
        pace: Pace,
        targets: Vec<Target>,
        locals: Option<Locals>,
        rows: Option<Rows>,
        operations: usize,
    ) -> Self {
        let (closed, arrivals) = pace.split();
        let mut results = Results::default();
        results.times.tell_apart(operations);
        Self {
            phase: Phase::Opening,
            slots: Slots::new(plan.connections, locals, targets),
            ready: VecDeque::with_capacity(plan.connections as usize),
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

    /// Whether a closed loop has had all its requests.
    pub(super) fn is_drawn(&self) -> bool {
        { self.plan.requests }.is_some_and(|requests| self.drawn >= requests)
    }

    /// The number of the next request of a closed loop; `None` after the last one.
    fn draw(&mut self) -> Option<u64> {
        if self.is_drawn() {
            return None;
        }
        let (place, count) = self.plan.share;
        let number = self.drawn * count + place;
        self.drawn += 1;
        Some(number)
    }

    fn take_arrival(&mut self, horizon: Nanoseconds, calls: &Calls) -> Entry {
        let counts = &mut self.results.counts;
        self.calendar.take(calls.now(), horizon, counts)
    }

    /// Lists a slot among those that take a request.
    pub(super) fn list(&mut self, slot: u32) {
        if !self.slots.all[slot as usize].marks.set(Marks::READY, true) {
            self.ready.push_back(slot);
        }
    }

    fn next_ready(&mut self) -> Option<u32> {
        let slot = self.ready.pop_front()?;
        self.slots.all[slot as usize].marks.set(Marks::READY, false);
        Some(slot)
    }
}

/// What a transport does, below the loops.
pub(super) trait Side: Application + Sized {
    /// Whether a slot takes all waiting requests that it can, instead of one.
    const TAKES_ALL: bool;

    fn core(&self) -> &Core;
    fn core_mut(&mut self) -> &mut Core;

    /// Opens what the requests of a slot leave by.
    fn connect(&mut self, slot: u32, calls: &mut Calls);
    /// Whether a slot has a connection with room for a request.
    fn is_able(&self, slot: u32) -> bool;
    /// A request leaves by a slot, at its instant or, if that has passed, at once.
    fn begin(&mut self, slot: u32, number: u64, due: Nanoseconds, calls: &mut Calls);
    /// Whether no request is under way.
    fn is_idle(&self) -> bool;
    /// All requests without an answer fail by their time, and what is open ends.
    fn end_all(&mut self, calls: &mut Calls);
    /// An identity of the transport's counts that does not hold, or how many requests are
    /// outstanding.
    fn outstanding_of_all(&self) -> Result<u64, &'static str>;
    /// Bytes of memory beside the slots.
    fn own_bytes(&self) -> usize;

    /// A slot may be of use again: whether it is to have the next request.
    fn is_offered(&mut self, slot: u32, calls: &mut Calls) -> bool;
    /// Whether a slot of a closed loop begins its next request now.
    fn goes_on(&mut self, slot: u32) -> bool;

    /// A slot has begun a request that arrived.
    fn on_begun(&mut self, _slot: u32) {}
    /// A request found no slot: whether one opens for it.
    fn opens_for_request(&mut self, _calls: &mut Calls) -> bool {
        false
    }
    /// Requests that a slot of a closed loop without times to think begins at once.
    fn begun_max(&self) -> usize {
        1
    }
    /// Times to think that go on for a slot at once.
    fn thoughts_max(&self) -> u32 {
        1
    }
    /// A slot of a closed loop goes on at this instant.
    fn go_on_at(&mut self, slot: u32, at: Nanoseconds, calls: &mut Calls) {
        calls.schedule(at, TASK_GO_ON | slot);
    }

    /// Opens what is open before the start.
    fn open_first(&mut self, calls: &mut Calls) {
        self.open_more(calls);
    }

    /// Opens as many at once as the plan allows.
    fn open_more(&mut self, calls: &mut Calls) {
        while self.core().untried > 0 && self.core().opening < self.core().plan.opening_max {
            let core = self.core_mut();
            let slot = core.plan.connections - core.untried;
            core.untried -= 1;
            self.connect(slot, calls);
        }
    }

    fn schedule_arrival(&mut self, calls: &mut Calls) {
        let core = self.core();
        if let Some(due) = core.calendar.next_due() {
            calls.schedule(due.saturating_sub(core.plan.ahead_ns), TASK_ARRIVAL);
        } else if core.calendar.is_over() && core.waiting.is_empty() {
            Load::stop(self, calls);
        }
    }

    /// Requests of an open loop whose instants have come, or come soon.
    fn on_arrivals(&mut self, calls: &mut Calls) {
        if self.core().phase != Phase::Running {
            return;
        }
        let horizon = calls.now().saturating_add(self.core().plan.ahead_ns);
        for _ in 0..ARRIVALS_MAX {
            match self.core_mut().take_arrival(horizon, calls) {
                Entry::Request(number, due) => self.on_arrival(number, due, calls),
                Entry::LookAgain(at) => {
                    calls.schedule(at, TASK_ARRIVAL);
                    return;
                }
                Entry::Nothing => break,
            }
        }
        if self.core().phase == Phase::Running {
            self.schedule_arrival(calls);
        }
    }

    fn on_arrival(&mut self, number: u64, due: Nanoseconds, calls: &mut Calls) {
        self.core_mut().results.counts.planned += 1;
        while let Some(slot) = self.core_mut().next_ready() {
            // Since it was listed, its connection may have ended, or another one have a request.
            if self.is_able(slot) {
                self.begin(slot, number, due, calls);
                self.on_begun(slot);
                return;
            }
        }
        let opens = self.opens_for_request(calls);
        let core = self.core_mut();
        core.results.counts.waited += u64::from(!opens);
        if core.waiting.len() >= core.plan.waiting_max {
            core.results.counts.unsent[Unsent::NoConnection as usize] += 1;
            return;
        }
        core.waiting.push_back((number, due));
    }

    /// A slot may take another request: one that waits, the next of a closed loop, or it is listed.
    fn offer(&mut self, slot: u32, calls: &mut Calls) {
        if !self.is_offered(slot, calls) {
            return;
        }
        while self.is_able(slot) {
            let Some((number, due)) = self.core_mut().waiting.pop_front() else {
                break;
            };
            self.begin(slot, number, due, calls);
            let core = self.core();
            let is_last = core.waiting.is_empty() && core.calendar.is_over();
            if is_last && core.closed.is_none() {
                Load::stop(self, calls);
                return;
            }
            if !Self::TAKES_ALL {
                return;
            }
        }
        if self.core().closed.is_some() && self.core().phase == Phase::Running {
            self.think(slot, calls);
        } else if self.is_able(slot) {
            self.core_mut().list(slot);
        }
    }

    /// The next request of a closed loop, after a time to think.
    fn think(&mut self, slot: u32, calls: &mut Calls) {
        let core = self.core_mut();
        let Some(think) = &mut core.closed else {
            return;
        };
        match think.next(core.plan.share) {
            wait_ns @ 1.. => self.go_on_at(slot, calls.now().saturating_add(wait_ns), calls),
            _ => self.go_on(slot, calls),
        }
    }

    /// A slot of a closed loop has thought: it begins a request, or without a time to think as many
    /// as its transport lets it.
    fn go_on(&mut self, slot: u32, calls: &mut Calls) {
        let begun_max = match &self.core().closed {
            Some(think) if think.are_none() => self.begun_max(),
            _ => 1,
        };
        for _ in 0..begun_max {
            if self.core().phase != Phase::Running || !self.goes_on(slot) {
                return;
            }
            let core = self.core_mut();
            let Some(number) = core.draw() else {
                // What was put back leaves by another slot, which comes here after it.
                if core.waiting.is_empty() {
                    Load::stop(self, calls);
                }
                return;
            };
            core.results.counts.planned += 1;
            self.begin(slot, number, calls.now(), calls);
        }
        if begun_max > 1 && self.is_able(slot) {
            self.go_on_at(slot, calls.now(), calls);
        }
    }

    fn look_for_the_end(&mut self, calls: &mut Calls) {
        let core = self.core();
        if core.phase == Phase::Draining && core.waiting.is_empty() && self.is_idle() {
            Load::end(self, calls);
        }
    }
}

impl<S: Side> Load for S {
    fn open(&mut self, calls: &mut Calls) {
        self.open_first(calls);
    }

    fn is_ready(&self) -> bool {
        self.core().untried == 0 && self.core().opening == 0
    }

    fn open_connections(&self) -> u32 {
        self.core().open
    }

    fn phase(&self) -> Phase {
        self.core().phase
    }

    fn start(&mut self, at: Nanoseconds, until: Nanoseconds, calls: &mut Calls) {
        let core = self.core_mut();
        core.phase = Phase::Running;
        if until < Nanoseconds::MAX {
            calls.schedule(until, TASK_END);
        }
        if core.closed.is_none() {
            core.calendar.start(at, until);
            self.schedule_arrival(calls);
            return;
        }
        while let Some(slot) = self.core_mut().next_ready() {
            for _ in 0..self.thoughts_max() {
                self.go_on_at(slot, at, calls);
            }
        }
    }

    fn stop(&mut self, calls: &mut Calls) {
        if self.core().phase != Phase::Running {
            return;
        }
        let now = calls.now();
        while let Entry::Request(number, due) = self.core_mut().take_arrival(now, calls) {
            self.on_arrival(number, due, calls);
        }
        let core = self.core_mut();
        core.phase = Phase::Draining;
        core.results.ended_ns = core.results.ended_ns.max(now);
        let counts = &mut core.results.counts;
        core.calendar.give_up(now, &mut core.waiting, counts);
        self.look_for_the_end(calls);
    }

    fn end(&mut self, calls: &mut Calls) {
        let core = self.core_mut();
        if core.phase == Phase::Over {
            return;
        }
        core.phase = Phase::Over;
        core.results.counts.unsent[Unsent::RunOver as usize] += core.waiting.len() as u64;
        core.waiting.clear();
        self.end_all(calls);
    }

    fn results(&mut self) -> &mut Results {
        &mut self.core_mut().results
    }

    fn rows(&mut self) -> Option<&mut Rows> {
        self.core_mut().rows.as_mut()
    }

    fn take_rows(&mut self) -> Option<Rows> {
        self.core_mut().rows.take()
    }

    fn broken_identity(&self) -> Option<&'static str> {
        let core = self.core();
        match self.outstanding_of_all() {
            Ok(outstanding) => {
                let waiting = core.waiting.len() as u64;
                core.results.counts.broken_identity(waiting, outstanding)
            }
            Err(broken) => Some(broken),
        }
    }

    fn allocated_bytes(&self) -> usize {
        self.core().slots.all.capacity() * size_of::<super::slots::Slot>() + self.own_bytes()
    }
}
