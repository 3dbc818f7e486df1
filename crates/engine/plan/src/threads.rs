//! Which of a client's threads makes a call.
//!
//! A thread waits for one reply at a time, but for those of runs. So a thread that waits makes no
//! call, and of those that do not, the call is one's
//!
//! 1. of the client, if all its calls to come are made by turns on its connections, never two at
//!    once, although two threads would have met,
//! 2. whose connection it comes on, where no other thread uses that,
//! 3. that used the file last, or has its handle by its latest reply,
//! 4. that is not about to go on with a file or a connection of its own, as the calls to come show;
//!    of several the one that worked in the same directory, for the same user, on the same
//!    connection, and then the one whose reply came last,
//!
//! and else it is the first call of a new thread.

use hashbrown::HashMap;

use crate::recent::Recent;
use crate::upcoming::{Upcoming, Used};
use crate::{Config, Observed, Reply, RunKey, Touch};

/// A call whose reply has not come.
struct Waiting {
    reply: Reply,
    /// The thread makes no other call meanwhile.
    is_blocking: bool,
}

/// A thread of a client.
pub(crate) struct Thread {
    pub(crate) number: u32,
    waiting: Vec<Waiting>,
    /// The latest reply, and the latest of another run, or of none, than that.
    pub(crate) last: Option<Reply>,
    other: Option<Reply>,
    /// The file that it used last, the one that its latest call looked up or made, and the
    /// directory that it was last in.
    own: Option<i64>,
    made: Option<i64>,
    directory: Option<i64>,
    user: Option<i64>,
    connection: i64,
    /// Its runs that may go on.
    pub(crate) runs: Vec<RunKey>,
}

impl Thread {
    fn new(number: u32, call: &Observed) -> Self {
        Self {
            number,
            waiting: Vec::new(),
            last: None,
            other: None,
            own: None,
            made: None,
            directory: None,
            user: call.user,
            connection: call.connection,
            runs: Vec::new(),
        }
    }

    /// Takes the replies that have come.
    fn settle(&mut self, now_ns: i64) {
        if self.waiting.iter().all(|each| each.reply.ns > now_ns) {
            return;
        }
        let mut come: Vec<Reply> = Vec::new();
        self.waiting.retain(|each| {
            let is_waiting = each.reply.ns > now_ns;
            if !is_waiting {
                come.push(each.reply);
            }
            is_waiting
        });
        come.sort_by_key(|reply| (reply.ns, reply.number));
        for reply in come {
            let is_same = |last: Reply| last.run.is_some() && last.run == reply.run;
            if self.last.is_some_and(|last| !is_same(last)) {
                self.other = self.last;
            }
            self.last = Some(reply);
        }
    }

    pub(crate) fn is_blocked(&self) -> bool {
        self.waiting.iter().any(|each| each.is_blocking)
    }

    /// Whether it waits for a reply that never came.
    fn is_lost(&self) -> bool {
        self.waiting.iter().any(|each| each.reply.ns == i64::MAX)
    }

    /// Whether it waits for a reply other than those of a run. Where it keeps several calls of that
    /// under way (`is_window`), it does so with other READs and WRITEs as well: the first WRITE
    /// among READs does not stop them.
    pub(crate) fn is_blocked_beside(&self, run: u64, is_window: bool) -> bool {
        let mut waiting = self.waiting.iter();
        waiting.any(|each| match each.reply.run {
            Some(other) => each.is_blocking && other != run && !is_window,
            None => each.is_blocking,
        })
    }

    /// The latest reply that is not of a run.
    pub(crate) fn latest_beside(&self, run: u64) -> Option<Reply> {
        let last = self.last.filter(|last| last.run != Some(run));
        last.or_else(|| self.other.filter(|other| other.run != Some(run)))
    }

    /// A run turned out to have several calls under way.
    pub(crate) fn unblock(&mut self, run: u64) {
        let of_run = self.waiting.iter_mut();
        let of_run = of_run.filter(|each| each.reply.run == Some(run));
        of_run.for_each(|each| each.is_blocking = false);
    }

    pub(crate) fn wait(&mut self, reply: Reply, is_blocking: bool) {
        self.waiting.push(Waiting { reply, is_blocking });
    }
}

#[derive(Default, Clone, Copy)]
struct Connection {
    thread: Option<u32>,
    is_shared: bool,
}

/// The threads of a client, by their numbers.
#[derive(Default)]
struct Client {
    threads: Vec<Thread>,
    /// That of timers.
    timer: Option<u32>,
}

impl Client {
    fn place(&self, number: u32) -> Option<usize> {
        let found = self
            .threads
            .binary_search_by_key(&number, |each| each.number);
        found.ok()
    }
}

/// The threads of all clients.
pub(crate) struct Threads {
    idle_ns: i64,
    threads_max: usize,
    clients: HashMap<u32, Client>,
    by_file: Recent<(u32, i64), u32>,
    connections: Recent<(u32, i64), Connection>,
    pub(crate) count: u32,
}

impl Threads {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            idle_ns: config.idle_ns,
            threads_max: config.threads_max.max(1),
            clients: HashMap::new(),
            by_file: Recent::new(config.remembered_max),
            connections: Recent::new(config.remembered_max),
            count: 0,
        }
    }

    pub(crate) fn forgotten(&self) -> u64 {
        self.by_file.forgotten + self.connections.forgotten
    }

    /// Takes the replies of a client that have come by now.
    pub(crate) fn settle(&mut self, client: u32, now_ns: i64) {
        let threads = &mut self.clients.entry(client).or_default().threads;
        threads.iter_mut().for_each(|thread| thread.settle(now_ns));
    }

    pub(crate) fn get(&mut self, client: u32, number: u32) -> Option<&mut Thread> {
        let client = self.clients.get_mut(&client)?;
        let place = client.place(number)?;
        client.threads.get_mut(place)
    }

    /// The latest reply to a client.
    pub(crate) fn latest(&self, client: u32) -> Option<Reply> {
        let threads = &self.clients.get(&client)?.threads;
        let replies = threads.iter().filter_map(|thread| thread.last);
        replies.max_by_key(|reply| (reply.ns, reply.number))
    }

    /// The thread of timers.
    pub(crate) fn timer(&mut self, client: u32) -> u32 {
        let client = self.clients.entry(client).or_default();
        *client.timer.get_or_insert_with(|| {
            self.count += 1;
            self.count
        })
    }

    /// The thread that makes a call.
    pub(crate) fn choose(&mut self, call: &Observed, touches: &[Touch], next: &Upcoming) -> u32 {
        if let Some(only) = self.only(call, next) {
            return only;
        }
        let of_connection = self.of_connection(call);
        let chosen = of_connection.or_else(|| self.of_file(call, touches));
        let chosen = chosen.or_else(|| self.free(call, touches, next));
        chosen.unwrap_or_else(|| self.start(call))
    }

    /// The thread whose connection a call comes on, where no other uses that.
    pub(crate) fn owner(&self, call: &Observed) -> Option<u32> {
        let at = self.connections.get(&(call.client, call.connection))?;
        at.thread.filter(|_| !at.is_shared)
    }

    fn is_free(&self, client: u32, number: u32) -> bool {
        let of = self.clients.get(&client);
        let thread = of.and_then(|of| of.threads.get(of.place(number)?));
        thread.is_some_and(|thread| !thread.is_blocked())
    }

    /// The thread of a client that has one, as its calls show.
    fn only(&self, call: &Observed, next: &Upcoming) -> Option<u32> {
        let threads = &self.clients.get(&call.client)?.threads;
        let may_call = |thread: &&Thread| {
            !thread.is_blocked()
                && (thread.user.is_none() || call.user.is_none() || thread.user == call.user)
        };
        let threads = threads.iter().filter(may_call);
        let latest = threads.max_by_key(|thread| thread.last.map(|last| (last.ns, last.number)));
        let is_one = next.is_one_thread(call.client);
        latest.filter(|_| is_one).map(|thread| thread.number)
    }

    fn of_connection(&mut self, call: &Observed) -> Option<u32> {
        let thread = self.owner(call)?;
        if self.is_free(call.client, thread) {
            return Some(thread);
        }
        let at = self.connections.entry((call.client, call.connection));
        at.is_shared = true;
        None
    }

    fn of_file(&self, call: &Observed, touches: &[Touch]) -> Option<u32> {
        let files = touches.iter().filter(|touch| !touch.is_directory);
        let files = files.filter_map(|touch| touch.file);
        let mut threads = files.filter_map(|file| self.by_file.get(&(call.client, file)));
        let thread = threads.find(|thread| self.is_free(call.client, **thread));
        thread.copied()
    }

    /// A thread that has nothing of its own to go on with.
    fn free(&self, call: &Observed, touches: &[Touch], next: &Upcoming) -> Option<u32> {
        let threads = &self.clients.get(&call.client)?.threads;
        let directory = directory(touches);
        let is_shared = |connection: i64| {
            let at = self.connections.get(&(call.client, connection));
            at.is_some_and(|at| at.is_shared)
        };
        let goes_on = |thread: &Thread| {
            let mut files = [thread.own, thread.made].into_iter().flatten();
            files.any(|file| next.has(Used::File(call.client, file)))
                || thread.connection != call.connection
                    && !is_shared(thread.connection)
                    && next.has(Used::Connection(call.client, thread.connection))
        };
        let may_call = |thread: &&Thread| {
            let last = thread.last.map(|last| call.call_ns.saturating_sub(last.ns));
            last.is_some_and(|gap_ns| gap_ns <= self.idle_ns)
                && !thread.is_blocked()
                && (thread.user.is_none() || call.user.is_none() || thread.user == call.user)
                && !goes_on(thread)
        };
        let rank = |thread: &&Thread| {
            let likeness = u8::from(directory.is_some() && thread.directory == directory) * 4
                + u8::from(thread.user == call.user) * 2
                + u8::from(thread.connection == call.connection);
            (likeness, thread.last.map(|last| (last.ns, last.number)))
        };
        let chosen = threads.iter().filter(may_call).max_by_key(rank);
        chosen.map(|thread| thread.number)
    }

    fn start(&mut self, call: &Observed) -> u32 {
        self.count += 1;
        let number = self.count;
        let threads = &mut self.clients.entry(call.client).or_default().threads;
        if threads.len() >= self.threads_max {
            let oldest = threads.iter().enumerate();
            let oldest = oldest.min_by_key(|(_, each)| {
                let last = each.last.map(|last| last.ns);
                (!each.is_lost(), each.is_blocked(), last)
            });
            if let Some((place, _)) = oldest {
                threads.remove(place);
            }
        }
        threads.push(Thread::new(number, call));
        number
    }

    /// Takes note of what a thread uses by a call.
    pub(crate) fn note(&mut self, number: u32, call: &Observed, touches: &[Touch]) {
        let connection = self.connections.entry((call.client, call.connection));
        connection.is_shared |= connection.thread.is_some_and(|thread| thread != number);
        connection.thread = Some(number);
        for touch in touches {
            let file = touch.file.filter(|_| !touch.is_directory);
            for file in file.into_iter().chain(touch.made) {
                *self.by_file.entry((call.client, file)) = number;
            }
        }
        let Some(thread) = self.get(call.client, number) else {
            return;
        };
        thread.connection = call.connection;
        thread.user = call.user.or(thread.user);
        let files = touches.iter().filter(|touch| !touch.is_directory);
        if let Some(file) = files.filter_map(|touch| touch.file).next_back() {
            (thread.own, thread.made) = (Some(file), None);
        }
        if let Some(made) = touches.iter().filter_map(|touch| touch.made).next_back() {
            thread.made = Some(made);
        }
        thread.directory = directory(touches).or(thread.directory);
    }
}

fn directory(touches: &[Touch]) -> Option<i64> {
    let directories = touches.iter().filter(|touch| touch.is_directory);
    directories.filter_map(|touch| touch.file).next_back()
}
