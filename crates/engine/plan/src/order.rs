//! Which calls may be made: those of which everything that they wait for is there, in the order of
//! their threads. What predicts a workload walks its plan by this; a replay has its own window.

use std::sync::Arc;

/// A place in the list of calls.
pub type CallIndex = u32;

/// When a call is made at the earliest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// At this time after the beginning.
    At(i64),
    /// After a reply, and a time of thought.
    After {
        /// The earlier call.
        call: CallIndex,
        /// From its reply on.
        think_ns: i64,
    },
}

/// What a call waits for beside its edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Calls of one thread are made in their order. A number from 0.
    pub thread: u32,
    /// When.
    pub begin: Begin,
}

/// Lists of calls, one after the other.
#[derive(Debug)]
struct Lists {
    /// Where each list begins, and where the last one ends.
    begins: Vec<u32>,
    calls: Vec<CallIndex>,
}

impl Lists {
    /// A list for each key below `count`; pairs keep their order within a list.
    fn new(count: usize, pairs: impl Iterator<Item = (u32, CallIndex)> + Clone) -> Self {
        let mut begins = vec![0; count + 1];
        for (key, _) in pairs.clone() {
            begins[key as usize + 1] += 1;
        }
        for key in 0..count {
            begins[key + 1] += begins[key];
        }
        let mut next = begins.clone();
        let mut calls = vec![0; begins[count] as usize];
        for (key, call) in pairs {
            let place = &mut next[key as usize];
            calls[*place as usize] = call;
            *place += 1;
        }
        Self { begins, calls }
    }

    fn get(&self, key: u32) -> &[CallIndex] {
        let key = key as usize;
        &self.calls[self.begins[key] as usize..self.begins[key + 1] as usize]
    }
}

/// A call that waits.
#[derive(Debug, Clone, Copy, Default)]
struct Waiting {
    /// Replies that it lacks.
    lacks: u32,
    /// When it may be made, as far as is known.
    at_ns: i64,
    /// It may be made as soon as its thread comes to it.
    is_ready: bool,
}

/// What calls wait for: the same for all who walk it.
#[derive(Debug)]
struct Rules {
    steps: Vec<Step>,
    /// For each call, those that wait for its reply; one that waits for it as its trigger too is
    /// there twice.
    followers: Lists,
    threads: Lists,
}

/// The order of a workload's calls. A copy of one that nobody has walked is for another walk.
#[derive(Debug, Clone)]
pub struct Order {
    rules: Arc<Rules>,
    /// How many calls of each thread were made.
    made: Vec<u32>,
    waiting: Vec<Waiting>,
}

impl Order {
    /// Calls in the order in which they were made, and edges: an earlier call, and a later one that
    /// is made after its reply. The run begins at `begin_ns`.
    ///
    /// # Panics
    ///
    /// If a call waits for one that is not there.
    pub fn new(steps: Vec<Step>, edges: &[(CallIndex, CallIndex)], begin_ns: i64) -> Self {
        let triggers = (0..)
            .zip(&steps)
            .filter_map(|(index, step)| match step.begin {
                Begin::After { call, .. } => Some((call, index)),
                Begin::At(_) => None,
            });
        let edges = edges.iter().copied().chain(triggers);
        let threads = (0..).zip(&steps).map(|(index, step)| (step.thread, index));
        let thread_count = steps.iter().map(|step| step.thread as usize + 1).max();
        let mut waiting = vec![Waiting::default(); steps.len()];
        for (_, to) in edges.clone() {
            waiting[to as usize].lacks += 1;
        }
        for (state, step) in waiting.iter_mut().zip(&steps) {
            state.at_ns = match step.begin {
                Begin::At(at_ns) => begin_ns.saturating_add(at_ns),
                Begin::After { .. } => begin_ns,
            };
        }
        Self {
            made: vec![0; thread_count.unwrap_or(0)],
            waiting,
            rules: Arc::new(Rules {
                followers: Lists::new(steps.len(), edges),
                threads: Lists::new(thread_count.unwrap_or(0), threads),
                steps,
            }),
        }
    }

    /// The thread of a call.
    pub fn thread(&self, call: CallIndex) -> u32 {
        self.rules.steps[call as usize].thread
    }

    /// The calls that wait for nothing, and when they may be made.
    pub fn first(&self) -> impl Iterator<Item = (i64, CallIndex)> {
        let all = (0..).zip(&self.waiting);
        all.filter(|(_, state)| state.lacks == 0)
            .map(|(call, state)| (state.at_ns, call))
    }

    /// A reply came. `may` takes each call that lacks no reply any more, and when it may be made.
    pub fn on_reply(&mut self, now: i64, call: CallIndex, mut may: impl FnMut(i64, CallIndex)) {
        for &follower in self.rules.followers.get(call) {
            let after_ns = match self.rules.steps[follower as usize].begin {
                Begin::After { call: of, think_ns } if of == call => think_ns.max(0),
                Begin::After { .. } | Begin::At(_) => 0,
            };
            let state = &mut self.waiting[follower as usize];
            state.at_ns = state.at_ns.max(now.saturating_add(after_ns));
            state.lacks -= 1;
            if state.lacks == 0 {
                may(state.at_ns, follower);
            }
        }
    }

    /// The time of a call has come: it is made when its thread comes to it.
    pub fn on_ready(&mut self, call: CallIndex) {
        self.waiting[call as usize].is_ready = true;
    }

    /// The next call of a thread, if it may be made: it is, then. To be asked until there is none.
    pub fn make_next(&mut self, thread: u32) -> Option<CallIndex> {
        let made = &mut self.made[thread as usize];
        let next = *self.rules.threads.get(thread).get(*made as usize)?;
        if !self.waiting[next as usize].is_ready {
            return None;
        }
        *made += 1;
        Some(next)
    }
}
