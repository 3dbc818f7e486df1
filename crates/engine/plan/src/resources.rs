//! What a call needs that earlier ones made, and what it must not overtake.
//!
//! * A handle, a state id or a session exists after the reply that has it: edge to the first call
//!   of each thread that uses it.
//! * Changes of a name keep their order, with what looked at it between them; a name goes after the
//!   uses of its file.
//! * Accesses of overlapping ranges of which one is written keep their order, also of two clients.
//! * COMMIT comes after the WRITEs before it; CLOSE and UNLOCK after the READs, too.

use std::collections::VecDeque;

use crate::recent::Recent;
use crate::{Action, Config, Mark, Touch};

/// Accesses of a file that are compared with a new one, of READs and WRITEs each. A guess: windows
/// of clients are at most 64 calls deep, and what lies further back has long been answered.
const ACCESSES_MAX: usize = 64;
/// Calls that are remembered of a name, a state, a handle, by thread; and of runs before a barrier.
const LAST_MAX: usize = 16;
const TAILS_MAX: usize = 128;

/// What was made, and who uses it.
#[derive(Default)]
struct Made {
    by: Option<Mark>,
    /// Threads that have used it since: their later calls come after that one.
    users: Vec<u32>,
    /// The latest use by each thread.
    last: Vec<Mark>,
}

impl Made {
    fn use_by(&mut self, call: &Mark, call_ns: i64, found: &mut Found) {
        if !self.users.contains(&call.thread) {
            let by = self.by.filter(|by| by.is_before(call_ns));
            if let Some(by) = by {
                found.needs(by);
            }
            push_bounded(&mut self.users, call.thread);
        }
        self.last.retain(|last| last.thread != call.thread);
        push_bounded(&mut self.last, *call);
    }

    fn make(&mut self, by: Mark) {
        self.by = Some(by);
        self.users = vec![by.thread];
    }
}

fn push_bounded<T>(list: &mut Vec<T>, value: T) {
    if list.len() >= LAST_MAX {
        list.remove(0);
    }
    list.push(value);
}

#[derive(Default)]
struct Name {
    change: Option<Mark>,
    looks: Vec<Mark>,
    file: Option<i64>,
}

struct Access {
    mark: Mark,
    range: (u64, u64),
}

/// Reads and writes of a file.
#[derive(Default)]
struct Accesses([VecDeque<Access>; 2]);

/// What was found for a call.
#[derive(Default)]
pub(crate) struct Found {
    /// Calls that it comes after.
    pub(crate) after: Vec<u64>,
    /// The latest of them that made what it uses.
    pub(crate) maker: Option<Mark>,
}

impl Found {
    fn needs(&mut self, mark: Mark) {
        self.after.push(mark.number);
        let is_later = |maker: Mark| (mark.reply_ns, mark.number) > (maker.reply_ns, maker.number);
        if self.maker.is_none_or(is_later) {
            self.maker = Some(mark);
        }
    }

    fn follows(&mut self, mark: &Mark, call_ns: i64) {
        if mark.is_before(call_ns) {
            self.after.push(mark.number);
        }
    }
}

/// What is known of files, names and states.
pub(crate) struct Resources {
    handles: Recent<(u32, i64), Made>,
    states: Recent<u64, Made>,
    names: Recent<u64, Name>,
    accesses: Recent<i64, Accesses>,
    /// The last calls of runs that have ended, of a client's READs or WRITEs of a file.
    tails: Recent<(u32, i64), Vec<(Mark, bool)>>,
}

impl Resources {
    pub(crate) fn new(config: &Config) -> Self {
        let max = config.remembered_max;
        Self {
            handles: Recent::new(max),
            states: Recent::new(max),
            names: Recent::new(max),
            // Each may take 6 KiB.
            accesses: Recent::new(max / 32),
            tails: Recent::new(max),
        }
    }

    pub(crate) fn forgotten(&self) -> u64 {
        let names = self.states.forgotten + self.names.forgotten;
        self.handles.forgotten + names + self.accesses.forgotten + self.tails.forgotten
    }

    /// A run has ended, whose last calls these are.
    pub(crate) fn add_tails(&mut self, of: (u32, i64), is_write: bool, marks: &[Mark]) {
        let tails = self.tails.entry(of);
        tails.extend(marks.iter().map(|mark| (*mark, is_write)));
        let more = tails.len().saturating_sub(TAILS_MAX);
        tails.drain(..more);
        tails.shrink_to_fit();
    }

    /// Finds what a call comes after. What it makes and changes is noted at once: no other call can
    /// come between.
    pub(crate) fn find(
        &mut self,
        (client, call_ns): (u32, i64),
        call: Mark,
        touches: &[Touch],
        found: &mut Found,
    ) {
        for touch in touches {
            if let Some(file) = touch.file {
                let handle = self.handles.entry((client, file));
                handle.use_by(&call, call_ns, found);
                self.barrier((client, file), call_ns, touch.action, found);
            }
            if let Some(state) = touch.state {
                let state = self.states.entry(state);
                if touch.action == Action::Release {
                    let others = state.last.iter().filter(|last| last.thread != call.thread);
                    others.for_each(|last| found.follows(last, call_ns));
                }
                state.use_by(&call, call_ns, found);
            }
            self.name((client, call_ns), call, touch, found);
            if let (Some(file), Some(range)) = (touch.file, touch.range) {
                let is_write = matches!(touch.action, Action::Write | Action::Set);
                self.accesses
                    .entry(file)
                    .find(call, call_ns, range, is_write, found);
            }
            if let Some(made) = touch.made {
                let handle = self.handles.entry((client, made));
                if handle.by.is_none() || touch.action == Action::Change {
                    handle.make(call);
                }
            }
            if let Some(state) = touch.made_state {
                let state = self.states.entry(state);
                if state.by.is_none() {
                    state.make(call);
                }
            }
        }
        found.after.sort_unstable();
        found.after.dedup();
    }

    fn barrier(&mut self, of: (u32, i64), call_ns: i64, action: Action, found: &mut Found) {
        let are_all = match action {
            Action::Commit => false,
            Action::Release => true,
            _ => return,
        };
        let tails = self.tails.entry(of);
        tails.retain(|(mark, is_write)| {
            let is_covered = (are_all || *is_write) && mark.is_before(call_ns);
            if is_covered {
                found.after.push(mark.number);
            }
            !is_covered
        });
    }

    fn name(
        &mut self,
        (client, call_ns): (u32, i64),
        call: Mark,
        touch: &Touch,
        found: &mut Found,
    ) {
        let Some(key) = touch.name else { return };
        let name = self.names.entry(key);
        if let Some(change) = name.change.filter(|change| change.is_before(call_ns)) {
            found.needs(change);
        }
        match touch.action {
            Action::Change => {
                name.looks
                    .iter()
                    .for_each(|look| found.follows(look, call_ns));
                let gone = name.file.filter(|_| touch.made.is_none());
                (name.change, name.file) = (Some(call), touch.made);
                name.looks.clear();
                if let Some(used) = gone.and_then(|file| self.handles.get(&(client, file))) {
                    let others = used.last.iter().filter(|last| last.thread != call.thread);
                    others.for_each(|last| found.follows(last, call_ns));
                }
            }
            _ => {
                name.file = touch.made.or(name.file);
                name.looks.retain(|look| look.thread != call.thread);
                push_bounded(&mut name.looks, call);
            }
        }
    }
}

impl Accesses {
    fn find(
        &mut self,
        mark: Mark,
        call_ns: i64,
        range: (u64, u64),
        is_write: bool,
        found: &mut Found,
    ) {
        let [reads, writes] = &mut self.0;
        let own = if is_write { &*reads } else { &VecDeque::new() };
        let conflicting = own.iter().chain(writes.iter());
        let overlapping =
            conflicting.filter(|other| other.range.0 < range.1 && range.0 < other.range.1);
        overlapping.for_each(|other| found.follows(&other.mark, call_ns));
        let own = if is_write { writes } else { reads };
        if own.len() >= ACCESSES_MAX {
            own.pop_front();
        }
        own.push_back(Access { mark, range });
    }
}
