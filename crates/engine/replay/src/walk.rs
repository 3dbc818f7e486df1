//! When calls are made: a plan's order, at the pace that is wanted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use hashbrown::HashMap;
use lineside_plan::{Begin, CallIndex, EdgeKind, Order, Step};

use crate::script::Script;

/// At what pace calls are made.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Pace {
    /// As the plan has it: after the replies that the program waited for, and its thought.
    #[default]
    Closed,
    /// At the times of the trace, but never before what a call needs is there.
    Open,
    /// As soon as what a call needs is there, without thought.
    Fast,
}

/// When a call was meant to be made, was made, and had its reply. `i64::MIN`: never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// When everything was there that it waited for.
    pub meant_ns: i64,
    /// When it was made.
    pub made_ns: i64,
    /// When its reply was there, or when it was given up.
    pub ended_ns: i64,
}

const NEVER: Times = Times {
    meant_ns: i64::MIN,
    made_ns: i64::MIN,
    ended_ns: i64::MIN,
};

/// Gives each call of a script once. A copy of one that has not begun is for another run of it.
#[derive(Debug, Clone)]
pub struct Walk {
    order: Order,
    edges: Arc<[(CallIndex, CallIndex)]>,
    due: BinaryHeap<Reverse<(i64, CallIndex)>>,
    /// The thread whose call became due last, and when it was.
    thread: Option<(u32, i64)>,
    times: Vec<Times>,
    made: usize,
    ended: usize,
}

impl Walk {
    /// The walk of a script that begins at `begin_ns`. Times of the trace are divided by `speed`.
    pub fn new(script: &Script, pace: Pace, speed: f64, begin_ns: i64) -> Self {
        let (steps, edges) = paced(script, pace, speed);
        let order = Order::new(steps, &edges, begin_ns);
        Self {
            due: order.first().map(Reverse).collect(),
            order,
            edges: edges.into(),
            thread: None,
            times: vec![NEVER; script.calls.len()],
            made: 0,
            ended: 0,
        }
    }

    /// When [`next`](Self::next) has a call, as far as is known.
    pub fn next_deadline(&self) -> Option<i64> {
        match self.thread {
            Some((_, meant_ns)) => Some(meant_ns),
            None => self.due.peek().map(|Reverse((at, _))| *at),
        }
    }

    /// A call that is made now. To be asked until there is none.
    pub fn next(&mut self, now: i64) -> Option<CallIndex> {
        loop {
            if let Some((thread, meant_ns)) = self.thread {
                if let Some(call) = self.order.make_next(thread) {
                    self.times[call as usize].meant_ns = meant_ns;
                    self.times[call as usize].made_ns = now;
                    self.made += 1;
                    return Some(call);
                }
                self.thread = None;
            }
            let &Reverse((at, call)) = self.due.peek().filter(|Reverse((at, _))| *at <= now)?;
            self.due.pop();
            self.order.on_ready(call);
            self.thread = Some((self.order.thread(call), at));
        }
    }

    /// A call has left.
    pub fn on_sent(&mut self, now: i64, call: CallIndex) {
        self.times[call as usize].made_ns = now;
    }

    /// The reply to a call came, or none will come: what waits for it goes on.
    pub fn on_end(&mut self, now: i64, call: CallIndex) {
        let times = &mut self.times[call as usize];
        if times.made_ns == i64::MIN || times.ended_ns != i64::MIN {
            return;
        }
        times.ended_ns = now;
        self.ended += 1;
        let due = &mut self.due;
        self.order
            .on_reply(now, call, |at, follower| due.push(Reverse((at, follower))));
    }

    /// Whether all calls were made, and all have ended.
    pub fn is_over(&self) -> bool {
        self.ended == self.times.len()
    }

    /// Calls that were made.
    pub fn made(&self) -> usize {
        self.made
    }

    /// The times of each call.
    pub fn times(&self) -> &[Times] {
        &self.times
    }

    /// Edges of which both calls were made, and those of them whose later call was not made before
    /// the earlier one had ended.
    pub fn edges_kept(&self) -> [u64; 2] {
        let mut counts = [0; 2];
        for &(from, to) in &*self.edges {
            let (from, to) = (&self.times[from as usize], &self.times[to as usize]);
            if from.made_ns != i64::MIN && to.made_ns != i64::MIN {
                let is_kept = from.ended_ns != i64::MIN && to.made_ns >= from.ended_ns;
                counts[0] += 1;
                counts[1] += u64::from(is_kept);
            }
        }
        counts
    }
}

/// What each call waits for at this pace.
fn paced(script: &Script, pace: Pace, speed: f64) -> (Vec<Step>, Vec<(CallIndex, CallIndex)>) {
    let scaled = |ns: i64| (ns as f64 / speed) as i64;
    let resources = script
        .edges
        .iter()
        .filter(|edge| pace != Pace::Open || edge.2 == EdgeKind::Resource);
    let mut edges: Vec<_> = resources.map(|&(from, to, _)| (from, to)).collect();
    if pace == Pace::Open {
        edges.extend(named_before(script));
        edges.sort_unstable();
        edges.dedup();
    }
    let first_ns = script.calls.iter().map(|call| call.call_ns).min();
    let first_ns = first_ns.unwrap_or_default();
    let mut last_of_thread = HashMap::new();
    let mut steps = Vec::with_capacity(script.steps.len());
    for ((index, step), call) in (0..).zip(&script.steps).zip(&script.calls) {
        let mut step = *step;
        match pace {
            Pace::Open => {
                step = Step {
                    thread: index,
                    begin: Begin::At(scaled(call.call_ns.saturating_sub(first_ns))),
                };
            }
            Pace::Closed => match &mut step.begin {
                Begin::At(ns) | Begin::After { think_ns: ns, .. } => *ns = scaled(*ns),
            },
            Pace::Fast => match &mut step.begin {
                Begin::After { think_ns, .. } => *think_ns = 0,
                // Time of day: what the thread did before is over, as far as it had an answer.
                begin @ Begin::At(_) => {
                    *begin = Begin::At(0);
                    let before = last_of_thread.get(&step.thread);
                    edges.extend(before.map(|&before| (before, index)));
                }
            },
        }
        if call.is_answered || call.program.is_none() {
            last_of_thread.insert(step.thread, index);
        }
        steps.push(step);
    }
    (steps, edges)
}

/// The call whose reply first named a file, or last gave a state, and each later call that uses it.
/// A plan has edges from other threads for the first use alone: the rest is the order of threads,
/// which open loop has not.
fn named_before(script: &Script) -> Vec<(CallIndex, CallIndex)> {
    let mut files = HashMap::new();
    let mut states = HashMap::new();
    let mut edges = Vec::new();
    for (index, call) in (0..).zip(&script.calls) {
        for operation in &call.operations {
            let used = [operation.file, operation.file2].into_iter().flatten();
            edges.extend(used.filter_map(|file| Some((*files.get(&file)?, index))));
            let facts = operation.facts.as_deref();
            let state = facts.and_then(|facts| facts.stateid.as_deref());
            edges.extend(state.and_then(|state| Some((*states.get(state)?, index))));
            if let Some(made) = operation.made {
                files.entry(made).or_insert(index);
            }
            if let Some(made) = facts.and_then(|facts| facts.reply_stateid.as_deref()) {
                // Each call that gives it again changes its number, as OPEN_CONFIRM does.
                states.insert(made, index);
            }
        }
    }
    // A compound may use what it made itself.
    edges.retain(|(from, to)| from != to);
    edges
}
