//! The planner: calls in the order of their times become a plan.

use crate::resources::{Found, Resources};
use crate::runs::{Run, RunCall, Runs, finish, give, planned};
use crate::threads::Threads;
use crate::upcoming::Upcoming;
use crate::{
    Action, CallNumber, Cause, Config, Edge, EdgeKind, Event, Figures, Mark, Observed, PlanSink,
    Reply, RunKey, Touch,
};

/// Calls between two looks for runs that have ended.
const SWEEP_CALLS: u64 = 4_096;

/// Makes a plan of calls. To be given every call once, in the order of their times.
pub struct Planner<S> {
    config: Config,
    upcoming: Upcoming,
    /// Of the call that is looked at.
    touches: Vec<Touch>,
    threads: Threads,
    runs: Runs,
    resources: Resources,
    figures: Figures,
    number: CallNumber,
    sink: S,
}

impl<S: PlanSink> Planner<S> {
    /// A plan without calls.
    pub fn new(config: Config, sink: S) -> Self {
        Self {
            upcoming: Upcoming::default(),
            touches: Vec::new(),
            threads: Threads::new(&config),
            runs: Runs::new(&config),
            resources: Resources::new(&config),
            figures: Figures::default(),
            number: 0,
            config,
            sink,
        }
    }

    /// Where the plan goes.
    pub fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Takes the next call, and what it touches.
    pub fn call(&mut self, call: Observed, touches: &[Touch]) {
        self.upcoming.push(call, touches);
        if self.upcoming.len() > self.config.ahead_max {
            self.next();
        }
    }

    /// Ends the plan.
    pub fn finish(mut self) -> (Figures, S) {
        while self.upcoming.len() > 0 {
            self.next();
        }
        self.end_runs(i64::MAX, true);
        self.figures.threads = self.threads.count.into();
        self.figures.forgotten = self.threads.forgotten() + self.resources.forgotten();
        (self.figures, self.sink)
    }

    fn next(&mut self) {
        let mut touches = std::mem::take(&mut self.touches);
        if let Some(call) = self.upcoming.pop(&mut touches) {
            self.number += 1;
            self.plan(call, &touches);
            if self.number.is_multiple_of(SWEEP_CALLS) || self.runs.are_too_many() {
                self.end_runs(call.call_ns, false);
            }
        }
        self.touches = touches;
    }

    fn plan(&mut self, call: Observed, touches: &[Touch]) {
        self.threads.settle(call.client, call.call_ns);
        for touch in touches {
            let Some(file) = touch.file else { continue };
            if matches!(touch.action, Action::Commit | Action::Release) {
                self.end_run((call.client, file, true), None);
            }
            if touch.action == Action::Release {
                self.end_run((call.client, file, false), None);
            }
        }
        if call.event == Event::Timer {
            let thread = self.threads.timer(call.client);
            let call = planned(self.number, call, thread, None, self.config.idle_ns);
            give(&call, &mut self.figures, &mut self.sink);
            return;
        }
        match run_key(&call, touches) {
            Some(key) => self.plan_of_run(key, call, touches),
            None => {
                let thread = self.threads.choose(&call, touches, &self.upcoming);
                self.end_idle_runs(thread, &call);
                let chosen = self.triggered(thread, &call, touches);
                self.wait(thread, &call, None);
                let idle_ns = self.config.idle_ns;
                let call = planned(self.number, call, thread, Some(chosen), idle_ns);
                give(&call, &mut self.figures, &mut self.sink);
            }
        }
    }

    fn plan_of_run(&mut self, key: RunKey, call: Observed, touches: &[Touch]) {
        let owner = self.threads.owner(&call);
        let going_on = self.runs.going_on(key, owner, call.call_ns);
        let going_on = going_on.map(|run| {
            let last_ns = last_call_ns(&run.calls);
            (run.number, run.thread, last_ns, run.depth > 1)
        });
        let going_on = going_on.filter(|&(run, thread, _, is_window)| {
            let thread = self.threads.get(call.client, thread);
            thread.is_some_and(|thread| !thread.is_blocked_beside(run, is_window))
        });
        let going_on = going_on.map(|(run, thread, last_ns, _)| (run, thread, last_ns));
        let (run, thread, before_ns) = going_on.unwrap_or_else(|| {
            let thread = self.threads.choose(&call, touches, &self.upcoming);
            self.end_run(key, Some(thread));
            if let Some(thread) = self.threads.get(call.client, thread) {
                thread.runs.push(key);
            }
            (self.runs.begin(key, thread), thread, i64::MAX)
        });
        let (cause, reply) = self.triggered(thread, &call, touches);
        let between = self.threads.get(call.client, thread);
        let between = between.and_then(|thread| thread.latest_beside(run));
        let between = between.filter(|reply| reply.ns >= before_ns);
        let of_run = RunCall::new(self.number, call, (cause, reply), between);
        let depth = self.runs.push(key, run, of_run);
        if let (2.., Some(thread)) = (depth, self.threads.get(call.client, thread)) {
            thread.unblock(run);
        }
        self.wait(thread, &call, Some((run, depth < 2)));
    }

    /// What triggers a call of a thread. Its resources are noted, and the edges from them given.
    fn triggered(
        &mut self,
        thread: u32,
        call: &Observed,
        touches: &[Touch],
    ) -> (Cause, Option<Reply>) {
        let mark = Mark {
            number: self.number,
            reply_ns: call.reply_ns.unwrap_or(i64::MAX),
            thread,
        };
        let mut found = Found::default();
        let at = (call.client, call.call_ns);
        self.resources.find(at, mark, touches, &mut found);
        for &from in &found.after {
            let edge = Edge {
                from,
                to: self.number,
                kind: EdgeKind::Resource,
            };
            self.figures.edge(edge.kind);
            self.sink.edge(edge);
        }
        let own = self.threads.get(call.client, thread);
        let own = own.and_then(|thread| thread.last);
        let maker = found.maker.map(|mark| Reply {
            number: mark.number,
            ns: mark.reply_ns,
            run: None,
        });
        let is_near = |reply: &Reply| call.call_ns.saturating_sub(reply.ns) <= self.config.idle_ns;
        let chosen = match (own, maker.filter(is_near)) {
            (Some(own), _) => (Cause::Reply, Some(own)),
            (None, Some(maker)) => (Cause::Spawned, Some(maker)),
            (None, None) => (Cause::Guessed, self.threads.latest(call.client)),
        };
        self.threads.note(thread, call, touches);
        chosen
    }

    /// The thread waits for the reply.
    fn wait(&mut self, thread: u32, call: &Observed, run: Option<(u64, bool)>) {
        let reply = Reply {
            number: self.number,
            ns: call.reply_ns.unwrap_or(i64::MAX),
            run: run.map(|(run, _)| run),
        };
        if let Some(thread) = self.threads.get(call.client, thread) {
            thread.wait(reply, run.is_none_or(|(_, is_blocking)| is_blocking));
        }
    }

    fn end_runs(&mut self, now_ns: i64, are_all: bool) {
        for (key, run) in self.runs.ending(now_ns, are_all) {
            self.ended(key, &run);
        }
    }

    /// Ends the runs of a thread that makes another call after the last of their replies.
    fn end_idle_runs(&mut self, thread: u32, call: &Observed) {
        let of = self.threads.get(call.client, thread);
        let Some(of) = of.filter(|of| !of.runs.is_empty()) else {
            return;
        };
        for key in std::mem::take(&mut of.runs) {
            let ended = self.runs.end_idle(key, thread, call.call_ns);
            if ended.is_empty() {
                // It goes on, or has ended otherwise.
                let is_open = self
                    .runs
                    .going_on(key, Some(thread), call.call_ns)
                    .is_some();
                let of = self.threads.get(call.client, thread).filter(|_| is_open);
                of.into_iter().for_each(|of| of.runs.push(key));
            }
            ended.iter().for_each(|run| self.ended(key, run));
        }
    }

    fn end_run(&mut self, key: RunKey, thread: Option<u32>) {
        for run in self.runs.end(key, thread) {
            self.ended(key, &run);
        }
    }

    fn ended(&mut self, (client, file, is_write): RunKey, run: &Run) {
        let idle_ns = self.config.idle_ns;
        let tail = finish(run, idle_ns, &mut self.figures, &mut self.sink);
        self.resources.add_tails((client, file), is_write, &tail);
        if let Some(thread) = self.threads.get(client, run.thread) {
            thread.runs.retain(|key| *key != (client, file, is_write));
        }
    }
}

fn last_call_ns(calls: &[RunCall]) -> i64 {
    calls.last().map_or(i64::MIN, |call| call.observed.call_ns)
}

/// The run that a call may be part of.
fn run_key(call: &Observed, touches: &[Touch]) -> Option<RunKey> {
    let mut runs = touches.iter().filter_map(|touch| match touch.action {
        Action::Read => Some((call.client, touch.file?, false)),
        Action::Write => Some((call.client, touch.file?, true)),
        _ => None,
    });
    runs.next()
}
