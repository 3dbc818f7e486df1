//! Runs of READs or WRITEs of a file, of which at most so many are under way.
//!
//! ```text
//!  calls       0 1 2 3   4   5     6          depth 4: the most under way when one was made
//!  replies             0   1   2 3            call 4 waits for the first reply, 5 for the second ...
//! ```
//!
//! How many may be under way is seen only where the server is slower than the client: the depth is
//! likely if most calls came when the window was full, soon after a reply, and replies took a
//! millisecond or more; otherwise it is a lower bound.

use hashbrown::HashMap;

use crate::{
    Cause, Config, Edge, EdgeKind, Figures, Mark, Observed, PlanSink, PlannedCall, Reply, RunKey,
};

/// Where replies come sooner, the client may be what keeps calls apart: a libnfs that was allowed 8
/// WRITEs of 64 KiB sent each promptly after the reply to the one before, which took 0.23 ms.
const TOOK_MIN_NS: i64 = 1_000_000;

/// A call, with what it may have waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunCall {
    number: u64,
    pub(crate) observed: Observed,
    /// What triggered it if nothing of the run did.
    own: (Cause, Option<Reply>),
    /// The thread's latest reply beside the run, if it came after the call before.
    between: Option<Reply>,
    under_way: u32,
}

impl RunCall {
    pub(crate) fn new(
        number: u64,
        observed: Observed,
        own: (Cause, Option<Reply>),
        between: Option<Reply>,
    ) -> Self {
        Self {
            number,
            observed,
            own,
            between,
            under_way: 0,
        }
    }
}

/// A run that goes on.
pub(crate) struct Run {
    pub(crate) number: u64,
    pub(crate) thread: u32,
    pub(crate) calls: Vec<RunCall>,
    /// When replies come that have not yet.
    outstanding: Vec<i64>,
    pub(crate) depth: u32,
    /// The latest call or reply.
    pub(crate) last_ns: i64,
}

impl Run {
    /// Adds a call.
    pub(crate) fn push(&mut self, mut call: RunCall) {
        let now_ns = call.observed.call_ns;
        self.outstanding.retain(|&reply_ns| reply_ns > now_ns);
        // Of a call without a reply there is no way to know when the client gave it up.
        self.outstanding.extend(call.observed.reply_ns);
        call.under_way = (self.outstanding.len() as u32).max(1);
        self.depth = self.depth.max(call.under_way);
        let last_ns = call.observed.reply_ns.unwrap_or(now_ns).max(now_ns);
        self.last_ns = self.last_ns.max(last_ns);
        self.calls.push(call);
    }

    /// Whether there may have been room for more calls than were ever under way.
    fn is_bound(&self) -> bool {
        /// Fewer calls after the first window show nothing. A guess: three may agree by chance.
        const CALLS_MIN: usize = 4;
        let depth = self.depth as usize;
        let Some(later) = self
            .calls
            .get(depth..)
            .filter(|calls| calls.len() >= CALLS_MIN)
        else {
            return true;
        };
        let replies = self.replies();
        let mut lags: Vec<i64> = Vec::new();
        for call in later.iter().filter(|call| call.under_way == self.depth) {
            let now_ns = call.observed.call_ns;
            let before = replies.partition_point(|&(ns, _)| ns <= now_ns);
            lags.extend({ before.checked_sub(1) }.map(|at| now_ns.saturating_sub(replies[at].0)));
        }
        if lags.len() * 2 < later.len() {
            return true;
        }
        let mut took: Vec<i64> = { self.calls.iter() }
            .filter_map(|call| {
                Some(
                    call.observed
                        .reply_ns?
                        .saturating_sub(call.observed.call_ns),
                )
            })
            .collect();
        let took_ns = median(&mut took);
        took_ns < TOOK_MIN_NS || median(&mut lags) > took_ns / 2
    }

    /// When replies came, and the places of their calls.
    fn replies(&self) -> Vec<(i64, usize)> {
        let calls = self.calls.iter().enumerate();
        let replies = calls.filter_map(|(at, call)| Some((call.observed.reply_ns?, at)));
        let mut replies: Vec<_> = replies.collect();
        replies.sort_unstable();
        replies
    }
}

fn median(values: &mut [i64]) -> i64 {
    let middle = values.len() / 2;
    match values.is_empty() {
        true => 0,
        false => *values.select_nth_unstable(middle).1,
    }
}

/// The runs that go on.
pub(crate) struct Runs {
    idle_ns: i64,
    calls_max: usize,
    open_calls_max: usize,
    /// Several threads may read a file at once: each has its run.
    open: HashMap<RunKey, Vec<Run>>,
    open_calls: usize,
    count: u64,
}

impl Runs {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            idle_ns: config.idle_ns,
            calls_max: config.run_calls_max.max(1),
            open_calls_max: config.open_calls_max,
            open: HashMap::new(),
            open_calls: 0,
            count: 0,
        }
    }

    /// The run that a call may belong to: that of the thread, where it is known, or the latest.
    pub(crate) fn going_on(&self, key: RunKey, thread: Option<u32>, now_ns: i64) -> Option<&Run> {
        let mut runs = self.open.get(&key)?.iter().rev();
        let run = runs.find(|run| thread.is_none_or(|thread| run.thread == thread))?;
        let is_near = now_ns.saturating_sub(run.last_ns) <= self.idle_ns;
        (is_near && run.calls.len() < self.calls_max).then_some(run)
    }

    pub(crate) fn begin(&mut self, key: RunKey, thread: u32) -> u64 {
        self.count += 1;
        let run = Run {
            number: self.count,
            thread,
            calls: Vec::new(),
            outstanding: Vec::new(),
            depth: 0,
            last_ns: i64::MIN,
        };
        self.open.entry(key).or_default().push(run);
        self.count
    }

    /// Adds a call to a run, and returns how many of it are under way at most.
    pub(crate) fn push(&mut self, key: RunKey, number: u64, call: RunCall) -> u32 {
        let mut runs = self.open.get_mut(&key).into_iter().flatten();
        let Some(run) = runs.find(|run| run.number == number) else {
            return 0;
        };
        run.push(call);
        self.open_calls += 1;
        run.depth
    }

    /// Ends the runs of a key that a thread has, or all of them.
    pub(crate) fn end(&mut self, key: RunKey, thread: Option<u32>) -> Vec<Run> {
        self.end_if(key, |run| thread.is_none_or(|thread| run.thread == thread))
    }

    /// Ends a thread's run, if all its calls have their replies.
    pub(crate) fn end_idle(&mut self, key: RunKey, thread: u32, now_ns: i64) -> Vec<Run> {
        self.end_if(key, |run| run.thread == thread && run.last_ns <= now_ns)
    }

    fn end_if(&mut self, key: RunKey, ends: impl Fn(&Run) -> bool) -> Vec<Run> {
        let Some(runs) = self.open.get_mut(&key) else {
            return Vec::new();
        };
        let ended: Vec<Run> = runs.extract_if(.., |run| ends(run)).collect();
        if runs.is_empty() {
            self.open.remove(&key);
        }
        let calls = ended.iter().map(|run| run.calls.len());
        self.open_calls -= calls.sum::<usize>();
        ended
    }

    /// The runs that end: those with nothing new for long; where there are too many calls, all.
    pub(crate) fn ending(&mut self, now_ns: i64, are_all: bool) -> Vec<(RunKey, Run)> {
        let are_all = are_all || self.are_too_many();
        let idle_ns = self.idle_ns;
        let ends = |run: &Run| are_all || now_ns.saturating_sub(run.last_ns) > idle_ns;
        let keys: Vec<RunKey> = { self.open.iter() }
            .filter(|(_, runs)| runs.iter().any(ends))
            .map(|(key, _)| *key)
            .collect();
        let mut ending: Vec<(RunKey, Run)> = Vec::new();
        for key in keys {
            let ended = self.end_if(key, ends);
            ending.extend(ended.into_iter().map(|run| (key, run)));
        }
        ending.sort_unstable_by_key(|(_, run)| run.number);
        ending
    }

    pub(crate) fn are_too_many(&self) -> bool {
        self.open_calls >= self.open_calls_max
    }
}

/// Gives the calls of a run that has ended, each with its edges. Returns those that a barrier after
/// the run waits for: all others come before one of them.
pub(crate) fn finish(
    run: &Run,
    idle_ns: i64,
    figures: &mut Figures,
    sink: &mut impl PlanSink,
) -> Vec<Mark> {
    let (depth, is_single) = (run.depth as usize, run.calls.len() < 2);
    let is_bound = run.is_bound();
    if !is_single {
        figures.run(run.depth, run.calls.len() as u64, is_bound);
    }
    let replies = run.replies();
    let first = run.calls.first().map(|call| call.own);
    // Calls before this one with replies: one whose reply the capture lost fills no window.
    let mut answered = 0;
    for (at, call) in run.calls.iter().enumerate() {
        let own = Some(call.own);
        let window = (depth > 1 && answered >= depth)
            .then(|| replies.get(answered - depth))
            .flatten()
            .filter(|(ns, _)| *ns <= call.observed.call_ns);
        answered += usize::from(call.observed.reply_ns.is_some());
        let window = window.map(|&(ns, from)| Reply {
            number: run.calls[from].number,
            ns,
            run: Some(run.number),
        });
        if let Some(from) = window {
            let edge = Edge {
                from: from.number,
                to: call.number,
                kind: EdgeKind::Window,
            };
            figures.edge(edge.kind);
            sink.edge(edge);
        }
        let between = call
            .between
            .filter(|q| window.is_none_or(|window| window.ns < q.ns));
        let chosen = match (between, window) {
            _ if depth < 2 || at == 0 => own,
            (Some(reply), _) => Some((Cause::Reply, Some(reply))),
            (None, Some(reply)) => Some((Cause::Window, Some(reply))),
            (None, None) => first,
        };
        let planned = PlannedCall {
            run: (!is_single).then_some(run.number),
            depth: (!is_single).then_some(run.depth),
            is_bound: (!is_single).then_some(is_bound),
            ..planned(call.number, call.observed, run.thread, chosen, idle_ns)
        };
        give(&planned, figures, sink);
    }
    let tail = replies.len().saturating_sub(depth);
    let marks = replies[tail..].iter().map(|&(reply_ns, at)| Mark {
        number: run.calls[at].number,
        reply_ns,
        thread: run.thread,
    });
    marks.collect()
}

/// A call with its trigger, unless that is too long ago.
pub(crate) fn planned(
    number: u64,
    observed: Observed,
    thread: u32,
    chosen: Option<(Cause, Option<Reply>)>,
    idle_ns: i64,
) -> PlannedCall {
    let chosen = chosen.and_then(|(cause, reply)| Some((cause, reply?)));
    let think = |reply: Reply| observed.call_ns.saturating_sub(reply.ns);
    let chosen = chosen.filter(|&(_, reply)| (0..=idle_ns).contains(&think(reply)));
    PlannedCall {
        number,
        observed,
        thread,
        cause: chosen.map_or(Cause::Time, |(cause, _)| cause),
        trigger: chosen.map(|(_, reply)| reply.number),
        think_ns: chosen.map(|(_, reply)| think(reply)),
        run: None,
        depth: None,
        is_bound: None,
    }
}

/// Gives a call and the edge from its trigger.
pub(crate) fn give(call: &PlannedCall, figures: &mut Figures, sink: &mut impl PlanSink) {
    if let (Some(from), true) = (call.trigger, call.cause != Cause::Window) {
        let edge = Edge {
            from,
            to: call.number,
            kind: EdgeKind::Trigger,
        };
        figures.edge(edge.kind);
        sink.edge(edge);
    }
    figures.call(call);
    sink.call(call);
}
