//! When calls are made: a plan's order, at the pace that is wanted.
//!
//! ```text
//!  Script ─► heads ─► window: calls that wait, are due, or are under way ─► ended: times alone
//!                       ▲ as many as there is room for, from the oldest that has not ended
//! ```
//!
//! A call is given when everything that it waits for has ended, its time has come, and its thread
//! has come to it. As edges lead from earlier calls to later ones, the oldest call that has not
//! ended waits for none that is not read yet.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;

use hashbrown::HashMap;
use lineside_plan::{Begin, CallIndex, EdgeKind};

use crate::lateness::Lateness;
use crate::script::{Head, Heads, Script, Waits};

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

/// Calls that are known at once, of all copies, of some 100 bytes each: 47 s of a trace with ten
/// thousand calls a second. A thread that is ahead of the others by more waits.
pub const WINDOW_CALLS: usize = 1 << 19;
/// Calls are read when there is room for so many.
const READ_CALLS: usize = 32;

const NEVER: i64 = i64::MIN;
const NONE: u32 = u32::MAX;

/// A call that was read and has not ended, or that has while an older one has not.
#[derive(Debug)]
struct Entry {
    thread: u32,
    /// Replies that it lacks.
    lacks: u32,
    /// Calls whose replies it waits for, all of them.
    edges: u32,
    /// The one after whose reply it thinks.
    trigger: CallIndex,
    think_ns: i64,
    /// The next call of its thread, and its first follower in [`Walk::links`].
    next: CallIndex,
    followers: u32,
    /// When it may be made, as far as is known, was meant to be made, was made, and ended.
    at_ns: i64,
    meant_ns: i64,
    made_ns: i64,
    ended_ns: i64,
    body: (u64, u32),
    write_bytes: u32,
    /// It may be made as soon as its thread comes to it.
    is_ready: bool,
    /// It is an opening, or was left out.
    is_nothing: bool,
}

/// Gives each call of a script once.
#[derive(Debug)]
pub struct Walk<'a> {
    heads: Heads<'a>,
    pace: Pace,
    speed: f64,
    first_ns: i64,
    begin_ns: i64,
    room: usize,
    /// How many calls were read in all, and how many there are.
    all: CallIndex,
    /// The oldest call of the window.
    base: CallIndex,
    window: VecDeque<Entry>,
    /// When calls before the window ended, the last ones.
    before: VecDeque<i64>,
    /// Of each thread the first call that was not made, and the last one.
    threads: HashMap<u32, (CallIndex, CallIndex)>,
    /// A call that waits for another, and the next link of that other one.
    links: Vec<(CallIndex, u32)>,
    free: Vec<u32>,
    due: BinaryHeap<Reverse<(i64, CallIndex)>>,
    /// The thread whose call became due last, and when it was.
    thread: Option<(u32, i64)>,
    /// In fast loop: the last call of each thread that had an answer.
    last_of_thread: HashMap<u32, CallIndex>,
    /// Where the look for WRITEs goes on.
    looked: CallIndex,
    made: u64,
    ended: u64,
    late: Lateness,
    edges: [u64; 2],
    span_ns: Option<(i64, i64)>,
    held: u64,
    failure: Option<io::Error>,
}

impl<'a> Walk<'a> {
    /// The walk of a script that [begins](Self::begin) at 0, with so many calls in its window.
    /// Times of the trace are divided by `speed`.
    pub fn new(script: &'a Script, pace: Pace, speed: f64, room: usize) -> Self {
        let mut walk = Self {
            heads: script.heads(),
            pace,
            speed,
            first_ns: script.first_ns(),
            begin_ns: 0,
            room: room.max(2 * READ_CALLS),
            all: script.len(),
            base: 0,
            window: VecDeque::new(),
            before: VecDeque::new(),
            threads: HashMap::new(),
            links: Vec::new(),
            free: Vec::new(),
            due: BinaryHeap::new(),
            thread: None,
            last_of_thread: HashMap::new(),
            looked: 0,
            made: 0,
            ended: 0,
            late: Lateness::default(),
            edges: [0; 2],
            span_ns: None,
            held: 0,
            failure: None,
        };
        walk.read(0);
        walk
    }

    /// Its time begins. No call was given before.
    pub fn begin(&mut self, begin_ns: i64) {
        self.begin_ns = begin_ns;
        let later = |at: i64| at.saturating_add(begin_ns);
        for entry in &mut self.window {
            entry.at_ns = later(entry.at_ns);
        }
        let due = std::mem::take(&mut self.due).into_iter();
        self.due = due
            .map(|Reverse((at, call))| Reverse((later(at), call)))
            .collect();
    }

    /// When [`next`](Self::next) has a call, as far as is known.
    pub fn next_deadline(&self) -> Option<i64> {
        match self.thread {
            Some((_, meant_ns)) => Some(meant_ns),
            None => self.due.peek().map(|Reverse((at, _))| *at),
        }
    }

    /// A call that is made now, and where its body is. To be asked until there is none.
    pub fn next(&mut self, now: i64) -> Option<(CallIndex, (u64, u32))> {
        loop {
            if let Some((thread, meant_ns)) = self.thread {
                if let Some(call) = self.make_next(thread) {
                    let entry = self.entry(call)?;
                    entry.meant_ns = meant_ns;
                    entry.made_ns = now;
                    let (edges, lacks, body) = (entry.edges, entry.lacks, entry.body);
                    self.edges[0] += u64::from(edges);
                    self.edges[1] += u64::from(edges - lacks);
                    self.made += 1;
                    return Some((call, body));
                }
                self.thread = None;
            }
            let &Reverse((at, call)) = self.due.peek().filter(|Reverse((at, _))| *at <= now)?;
            self.due.pop();
            let entry = self.entry(call)?;
            entry.is_ready = true;
            let thread = entry.thread;
            self.thread = Some((thread, at));
        }
    }

    /// The next call of a thread, if it may be made.
    fn make_next(&mut self, thread: u32) -> Option<CallIndex> {
        let (first, last) = *self.threads.get(&thread)?;
        let entry = self.entry(first).filter(|entry| entry.is_ready)?;
        let next = entry.next;
        match next {
            NONE => self.threads.remove(&thread),
            next => self.threads.insert(thread, (next, last)),
        };
        Some(first)
    }

    /// A call has left.
    pub fn on_sent(&mut self, now: i64, call: CallIndex) {
        if let Some(entry) = self.entry(call) {
            entry.made_ns = now;
        }
    }

    /// A call was no call of the server: an opening, or one that was left out.
    pub fn on_nothing(&mut self, now: i64, call: CallIndex) {
        if let Some(entry) = self.entry(call) {
            entry.is_nothing = true;
        }
        self.on_end(now, call);
    }

    /// The reply to a call came, or none will come: what waits for it goes on.
    pub fn on_end(&mut self, now: i64, call: CallIndex) {
        let Some(entry) = self.entry(call) else {
            return;
        };
        if entry.made_ns == NEVER || entry.ended_ns != NEVER {
            return;
        }
        entry.ended_ns = now;
        let (made_ns, late_ns) = (entry.made_ns, entry.made_ns.saturating_sub(entry.meant_ns));
        let is_call = !entry.is_nothing;
        let mut link = std::mem::replace(&mut entry.followers, NONE);
        if is_call {
            self.late.add(late_ns);
        }
        let (first_ns, last_ns) = self.span_ns.unwrap_or((made_ns, now));
        self.span_ns = Some((first_ns.min(made_ns), last_ns.max(now)));
        self.ended += 1;
        while let Some(&(follower, next)) = self.links.get(link as usize) {
            self.free.push(link);
            link = next;
            self.end_of(now, call, follower);
        }
        self.go_on(now);
    }

    /// A call waits for one less, which has ended at `now`.
    fn end_of(&mut self, now: i64, call: CallIndex, follower: CallIndex) {
        let Some(entry) = self.entry(follower) else {
            return;
        };
        let after_ns = match entry.trigger == call {
            true => entry.think_ns.max(0),
            false => 0,
        };
        entry.at_ns = entry.at_ns.max(now.saturating_add(after_ns));
        entry.lacks -= 1;
        if entry.lacks == 0 {
            let at_ns = entry.at_ns;
            self.due.push(Reverse((at_ns, follower)));
        }
    }

    /// The window goes on behind calls that have ended.
    fn go_on(&mut self, now: i64) {
        while let Some(entry) = { self.window.front() }.filter(|it| it.ended_ns != NEVER) {
            self.before.push_back(entry.ended_ns);
            if self.before.len() > self.room {
                self.before.pop_front();
            }
            self.window.pop_front();
            self.base += 1;
        }
        if self.room - self.window.len() >= READ_CALLS {
            self.read(now);
        }
    }

    /// Reads calls while there is room for them.
    fn read(&mut self, now: i64) {
        while self.window.len() < self.room && self.failure.is_none() {
            match self.heads.read() {
                Ok(Some(head)) => self.add(now, &head),
                Ok(None) => break,
                Err(error) => self.failure = Some(error),
            }
        }
    }

    fn scaled(&self, ns: i64) -> i64 {
        (ns as f64 / self.speed) as i64
    }

    /// Thread and beginning of a call at this pace, and in fast loop the call of its thread that is
    /// to be over first.
    fn paced(&mut self, head: &Head) -> (u32, Begin, Option<CallIndex>) {
        let (thread, mut begin) = (head.step.thread, head.step.begin);
        match self.pace {
            // Each is a thread of its own.
            Pace::Open => {
                let at_ns = self.scaled(head.call_ns.saturating_sub(self.first_ns));
                return (head.index, Begin::At(at_ns), None);
            }
            Pace::Closed => match &mut begin {
                Begin::At(ns) | Begin::After { think_ns: ns, .. } => *ns = self.scaled(*ns),
            },
            Pace::Fast => {
                let last = self.last_of_thread.get(&thread).copied();
                if head.is_answered || head.program.is_none() {
                    self.last_of_thread.insert(thread, head.index);
                }
                match &mut begin {
                    Begin::After { think_ns, .. } => *think_ns = 0,
                    // Time of day: what the thread did before is over, as far as it had an answer.
                    Begin::At(_) => return (thread, Begin::At(0), last),
                }
            }
        }
        (thread, begin, None)
    }

    /// A call is the last of its thread.
    fn enqueue(&mut self, thread: u32, call: CallIndex) {
        let (_, last) = self.threads.entry(thread).or_insert((call, call));
        let before = std::mem::replace(last, call);
        if before != call
            && let Some(before) = self.entry(before)
        {
            before.next = call;
        }
    }

    /// A call comes into the window.
    fn add(&mut self, now: i64, head: &Head) {
        let call = head.index;
        let (thread, begin, after_last) = self.paced(head);
        let (trigger, think_ns, at_ns) = match begin {
            Begin::At(at_ns) => (NONE, 0, self.begin_ns.saturating_add(at_ns)),
            Begin::After { call, think_ns } => (call, think_ns, self.begin_ns),
        };
        self.window.push_back(Entry {
            thread,
            lacks: 0,
            edges: 0,
            trigger,
            think_ns,
            next: NONE,
            followers: NONE,
            at_ns,
            meant_ns: NEVER,
            made_ns: NEVER,
            ended_ns: NEVER,
            body: head.body,
            write_bytes: head.write_bytes,
            is_ready: false,
            is_nothing: false,
        });
        self.enqueue(thread, call);
        let is_open = self.pace == Pace::Open;
        // One that waits for no reply of its thread may come before what it uses.
        let is_alone = matches!(begin, Begin::At(_));
        let edges = head.edges.iter().filter(|(_, waits)| match waits {
            Waits::Plan(EdgeKind::Resource) => true,
            Waits::Plan(_) => !is_open,
            Waits::Named => is_alone,
        });
        let edges = edges.map(|(from, _)| *from).chain(after_last);
        let trigger = Some(trigger).filter(|of| !edges.clone().any(|from| from == *of));
        self.wait(now, call, edges.chain(trigger));
    }

    /// A call waits for these.
    fn wait(&mut self, now: i64, call: CallIndex, all: impl Iterator<Item = CallIndex>) {
        let (mut lacks, mut edges) = (1, 0);
        let at = |from: CallIndex| from.checked_sub(self.base).map(|at| at as usize);
        let mut ended = Vec::new();
        for from in all.filter(|from| *from < call) {
            edges += 1;
            let entry = at(from).and_then(|at| self.window.get_mut(at));
            match entry {
                Some(entry) if entry.ended_ns == NEVER => {
                    let link = (call, entry.followers);
                    let place = self.free.pop().unwrap_or(self.links.len() as u32);
                    entry.followers = place;
                    match self.links.get_mut(place as usize) {
                        Some(free) => *free = link,
                        None => self.links.push(link),
                    }
                    lacks += 1;
                }
                Some(entry) => ended.push((from, entry.ended_ns)),
                None => {
                    let back = (self.base - from) as usize;
                    let place = self.before.len().checked_sub(back);
                    // Of one that ended long ago the time is not known.
                    let ended_ns = place.map_or(now, |place| self.before[place]);
                    ended.push((from, ended_ns));
                }
            }
        }
        if let Some(entry) = self.entry(call) {
            (entry.lacks, entry.edges) = (lacks + ended.len() as u32, edges);
        }
        for (from, ended_ns) in ended {
            self.end_of(ended_ns, from, call);
        }
        // Itself: it was read.
        self.end_of(NEVER, NONE - 1, call);
        let is_late = |entry: &mut Entry| entry.lacks == 0 && entry.at_ns < now;
        self.held += u64::from(self.entry(call).is_some_and(is_late));
    }

    fn entry(&mut self, call: CallIndex) -> Option<&mut Entry> {
        let at = call.checked_sub(self.base)?;
        self.window.get_mut(at as usize)
    }

    /// The next call, among those that were not made, that writes so many bytes at least: where its
    /// body is. Each is named once; `None`, too, if it writes more than `room`.
    pub fn next_write(&mut self, min: u32, room: usize) -> Option<(CallIndex, (u64, u32))> {
        self.looked = self.looked.max(self.base);
        loop {
            let call = self.looked;
            let entry = self.entry(call)?;
            let is_wanted = entry.write_bytes >= min && entry.made_ns == NEVER;
            let found = (call, entry.body);
            if is_wanted && entry.write_bytes as usize > room {
                return None;
            }
            self.looked += 1;
            if is_wanted {
                return Some(found);
            }
        }
    }

    /// Whether all calls were made, and all have ended.
    pub fn is_over(&self) -> bool {
        self.ended == u64::from(self.all)
    }

    /// Why no more calls can be read.
    pub fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// Calls that were made.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// How much later than they were meant calls were made, openings and what was left out apart.
    pub fn lateness(&self) -> Lateness {
        let mut late = self.late.clone();
        let under_way = self
            .window
            .iter()
            .filter(|entry| entry.made_ns != NEVER && entry.ended_ns == NEVER && !entry.is_nothing);
        under_way.for_each(|it| late.add(it.made_ns.saturating_sub(it.meant_ns)));
        late
    }

    /// When the first call was made, and when the last one ended.
    pub fn span_ns(&self) -> Option<(i64, i64)> {
        self.span_ns
    }

    /// Replies that calls which were made were to wait for, and those that they waited for.
    pub fn edges_kept(&self) -> [u64; 2] {
        self.edges
    }

    /// Calls whose time had come before they were read: their threads were too far ahead.
    pub fn held(&self) -> u64 {
        self.held
    }
}
