//! What a plan comes to.

use serde::Serialize;

use crate::{Cause, EdgeKind, PlannedCall};

/// Counts of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Figures {
    /// Calls, without openings of connections.
    pub calls: u64,
    /// Connections of which the opening was seen.
    pub openings: u64,
    /// Clients' threads.
    pub threads: u64,
    /// Calls and openings after a reply of their thread.
    pub by_reply: u64,
    /// Those after a reply of their run, whose window was full.
    pub by_window: u64,
    /// Those that are the first of a thread, after the reply with what they use.
    pub by_spawn: u64,
    /// Those that are the first of a thread, after the latest reply of the client: a guess.
    pub by_guess: u64,
    /// Those that were made at a time of day: the first of a client, timers, and those after more
    /// than the idle time.
    pub by_time: u64,
    /// Calls that got no reply: nothing is known to come after them.
    pub unanswered: u64,
    /// Edges of each kind.
    pub trigger_edges: u64,
    /// Of runs.
    pub window_edges: u64,
    /// Of what calls need, and of what they must not overtake.
    pub resource_edges: u64,
    /// Runs of two calls and more.
    pub runs: u64,
    /// Calls in them.
    pub run_calls: u64,
    /// Depths of runs, the least first.
    pub depths: Vec<DepthFigures>,
    /// Times of thought, all together.
    pub think_ns: u64,
    /// Files, names, states and connections that were forgotten, since there were too many: edges
    /// from them are missing.
    pub forgotten: u64,
}

/// Runs of a depth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DepthFigures {
    /// Calls under way at once, at most.
    pub depth: u32,
    /// Runs.
    pub runs: u64,
    /// Calls in them.
    pub calls: u64,
    /// Runs of which the depth is a lower bound: their windows were seldom full.
    pub bounds: u64,
}

impl Figures {
    pub(crate) fn call(&mut self, call: &PlannedCall) {
        match call.observed.event {
            crate::Event::Open => self.openings += 1,
            _ => self.calls += 1,
        }
        self.unanswered += u64::from(call.observed.reply_ns.is_none());
        let think_ns = call.think_ns.unwrap_or(0).max(0).cast_unsigned();
        self.think_ns = self.think_ns.saturating_add(think_ns);
        match call.cause {
            Cause::Reply => self.by_reply += 1,
            Cause::Window => self.by_window += 1,
            Cause::Spawned => self.by_spawn += 1,
            Cause::Guessed => self.by_guess += 1,
            Cause::Time => self.by_time += 1,
        }
    }

    pub(crate) fn edge(&mut self, kind: EdgeKind) {
        match kind {
            EdgeKind::Trigger => self.trigger_edges += 1,
            EdgeKind::Window => self.window_edges += 1,
            EdgeKind::Resource => self.resource_edges += 1,
        }
    }

    pub(crate) fn run(&mut self, depth: u32, calls: u64, is_bound: bool) {
        self.runs += 1;
        self.run_calls += calls;
        let at = self.depths.binary_search_by_key(&depth, |of| of.depth);
        let at = at.unwrap_or_else(|at| {
            let of = DepthFigures {
                depth,
                ..DepthFigures::default()
            };
            self.depths.insert(at, of);
            at
        });
        let of = &mut self.depths[at];
        of.runs += 1;
        of.calls += calls;
        of.bounds += u64::from(is_bound);
    }

    /// Every call and opening.
    pub fn events(&self) -> u64 {
        self.calls + self.openings
    }
}
