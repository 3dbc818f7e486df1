//! A program that is fed while a run goes on, and whose output is read: without privileges, in the
//! background, and never in the run's way.
//!
//! ```text
//!  offer ─► queue, bounded ─► feeder thread ─► standard input │ program
//!                             reader thread ◄─ standard output │
//! ```
//!
//! * Whoever offers waits no longer than asked: what finds no room is refused.
//! * The feeder starts the program and outlives it: the program dies with that thread.
//! * [`end`](PipedChild::end) closes its input, and ends a program that does not end by itself.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, set_parent_process_death_signal};

use crate::clock::Stopwatch;
use crate::privileges::renounce;

/// A program that is fed.
#[derive(Debug)]
pub struct PipedChild<T>(Arc<Shared<T>>);

/// What came of a companion.
#[derive(Debug)]
pub struct Ended<T> {
    /// What was read of its output; `None` if the output is still open.
    pub read: Option<T>,
    /// Why it did not end well, or its output was refused.
    pub failure: Option<String>,
    /// Batches that it was given, and what they weigh together.
    pub delivered: Weighed,
    /// Batches that were accepted and did not reach it.
    pub undelivered: Weighed,
}

/// Some batches.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Weighed {
    /// How many.
    pub batches: u64,
    /// What they weigh: whatever the caller counts.
    pub weight: u64,
}

impl Weighed {
    /// One more. Those that weigh nothing do not count.
    pub fn add(&mut self, weight: u64) {
        self.batches += u64::from(weight > 0);
        self.weight += weight;
    }
}

/// The output of a companion, and how long it runs.
#[derive(Debug)]
pub struct ChildOutput {
    output: ChildStdout,
    since: Stopwatch,
}

impl ChildOutput {
    /// What runs since the companion's start.
    pub fn since(&self) -> Stopwatch {
        self.since
    }
}

impl Read for ChildOutput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.output.read(buffer)
    }
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    /// Any change of the state.
    changed: Condvar,
    queued_bytes_max: usize,
}

#[derive(Debug)]
struct State<T> {
    queue: VecDeque<(Vec<u8>, u64)>,
    queued_bytes: usize,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
    /// No further batch comes.
    is_closed: bool,
    /// Nobody takes batches any more.
    takes_nothing: bool,
    /// The last offer found no room for as long as it waited.
    is_stuck: bool,
    /// While it runs.
    child: Option<Child>,
    /// Once the feeder has ended.
    has_ended: bool,
    failure: Option<String>,
    read: Option<T>,
    delivered: Weighed,
    undelivered: Weighed,
}

/// How long a program has to end once its input is closed, and again after TERM and after KILL.
const CLOSED: Duration = Duration::from_secs(5);
const TERMINATED: Duration = Duration::from_secs(1);

/// How long the end may take that goes on step by step: a program that takes what is queued.
const END_MAX: Duration = Duration::from_secs(30);

impl<T: Send + 'static> PipedChild<T> {
    /// Starts a shell's command. `read` reads its output in a thread of its own, and says what it
    /// read; if it refuses the output, the program is fed no more. At most `queued_bytes_max` bytes
    /// wait for the program, or one batch.
    pub fn start(
        command: &str,
        queued_bytes_max: usize,
        read: impl FnOnce(ChildOutput) -> (T, Result<(), String>) + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                queued_bytes: 0,
                spare: Vec::new(),
                is_closed: false,
                takes_nothing: false,
                is_stuck: false,
                child: None,
                has_ended: false,
                failure: None,
                read: None,
                delivered: Weighed::default(),
                undelivered: Weighed::default(),
            }),
            changed: Condvar::new(),
            queued_bytes_max,
        });
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        // The terminal's signals end the run, which then ends the program.
        shell.process_group(0);
        let renounce = renounce();
        // SAFETY: system calls between fork and exec, which touch no memory of this process.
        // JUSTIFICATION: they have to be made by the child itself, and `Command` has no word for
        // them.
        unsafe {
            shell.pre_exec(move || {
                renounce()?;
                // The last one: a change of credentials takes it back.
                Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
            });
        }
        let feeder = thread::Builder::new().name("drop-in".to_owned());
        feeder.spawn({
            let shared = Arc::clone(&shared);
            move || shared.feed(&mut shell, read)
        })?;
        Ok(Self(shared))
    }

    /// A buffer for the next batch, empty.
    pub fn buffer(&self) -> Vec<u8> {
        self.0.state().spare.pop().unwrap_or_default()
    }

    /// Gives it a batch; false if there was no room within `patience`. Where there was none the
    /// last time, it does not wait again.
    pub fn offer(&self, mut bytes: Vec<u8>, weight: u64, patience: Duration) -> bool {
        let max = self.0.queued_bytes_max;
        let has_room =
            |state: &State<T>| state.queue.is_empty() || state.queued_bytes + bytes.len() <= max;
        let mut state = self.0.state();
        if !state.is_stuck && !patience.is_zero() {
            let is_full = |state: &mut State<T>| !state.takes_nothing && !has_room(state);
            let waited = self.0.changed.wait_timeout_while(state, patience, is_full);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let is_taken = !state.takes_nothing && has_room(&state);
        state.is_stuck = !is_taken;
        if is_taken {
            state.queued_bytes += bytes.len();
            state.queue.push_back((bytes, weight));
            drop(state);
            self.0.changed.notify_all();
        } else {
            bytes.clear();
            state.spare.push(bytes);
        }
        is_taken
    }

    /// Whether it takes no more: it has ended, or its output was refused.
    pub fn takes_nothing(&self) -> bool {
        self.0.state().takes_nothing
    }

    /// Closes its input and waits until it has ended: for some seconds, then it is made to end.
    pub fn end(self) -> Ended<T> {
        let shared = &*self.0;
        shared.state().is_closed = true;
        shared.changed.notify_all();
        let since = Stopwatch::start();
        let mut patience = CLOSED;
        loop {
            let (has_ended, batches) = shared.wait_for_end(patience);
            let is_moving = shared.state().delivered.batches > batches;
            if has_ended || !is_moving || since.elapsed() > END_MAX {
                break;
            }
            patience = CLOSED;
        }
        for (signal, what) in [
            (
                Signal::TERM,
                "it did not end when its input was closed: it was sent TERM",
            ),
            (Signal::KILL, "nor then: it was killed"),
        ] {
            if shared.state().has_ended {
                break;
            }
            shared.signal(signal, what);
            shared.wait_for_end(TERMINATED);
        }
        let is_open = |state: &mut State<T>| state.read.is_none();
        let state = shared.state();
        let waited = shared
            .changed
            .wait_timeout_while(state, TERMINATED, is_open);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        while let Some((_, weight)) = state.queue.pop_front() {
            state.undelivered.add(weight);
        }
        Ended {
            read: state.read.take(),
            failure: state.failure.take(),
            delivered: state.delivered,
            undelivered: state.undelivered,
        }
    }
}

impl<T> Drop for PipedChild<T> {
    /// A run that breaks off closes the input too.
    fn drop(&mut self) {
        let state = self.0.state.lock();
        state.unwrap_or_else(PoisonError::into_inner).is_closed = true;
        self.0.changed.notify_all();
    }
}

impl<T: Send + 'static> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        // A poisoned lock still holds whole values.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the feeder's end: whether it has come, and how many batches were delivered before.
    fn wait_for_end(&self, patience: Duration) -> (bool, u64) {
        let state = self.state();
        let before = state.delivered.batches;
        let runs = |state: &mut State<T>| !state.has_ended;
        let waited = self.changed.wait_timeout_while(state, patience, runs);
        let state = waited.unwrap_or_else(PoisonError::into_inner).0;
        (state.has_ended, before)
    }

    /// Sends a signal to the program and what it started, unless it has ended.
    fn signal(&self, signal: Signal, what: &str) {
        let mut state = self.state();
        let Some(child) = &state.child else { return };
        if let Some(group) = Pid::from_raw(child.id() as i32) {
            let _ = kill_process_group(group, signal);
        }
        state.failure = Some(match state.failure.take() {
            Some(before) => format!("{before}; {what}"),
            None => what.to_owned(),
        });
    }

    /// The feeder: starts the program, gives it what is queued, and waits for its end.
    fn feed(
        self: &Arc<Self>,
        shell: &mut Command,
        read: impl FnOnce(ChildOutput) -> (T, Result<(), String>) + Send + 'static,
    ) {
        let failure = match shell.spawn() {
            Ok(mut child) => {
                let (input, output) = (child.stdin.take(), child.stdout.take());
                self.state().child = Some(child);
                let started = output.map_or(Ok(()), |output| self.start_reader(output, read));
                if let (Some(mut input), Ok(())) = (input, &started) {
                    self.give(&mut input);
                }
                self.state().takes_nothing = true;
                self.changed.notify_all();
                let status = self.wait_for_child();
                started.err().or(status)
            }
            Err(error) => Some(format!("it cannot be started: {error}")),
        };
        let mut state = self.state();
        state.child = None;
        (state.takes_nothing, state.has_ended) = (true, true);
        state.failure = state.failure.take().or(failure);
        drop(state);
        self.changed.notify_all();
    }

    fn start_reader(
        self: &Arc<Self>,
        output: ChildStdout,
        read: impl FnOnce(ChildOutput) -> (T, Result<(), String>) + Send + 'static,
    ) -> Result<(), String> {
        let reader = thread::Builder::new().name("drop-in-reader".to_owned());
        let shared = Arc::clone(self);
        let output = ChildOutput {
            output,
            since: Stopwatch::start(),
        };
        let started = reader.spawn(move || {
            let (read, accepted) = read(output);
            let mut state = shared.state();
            if let Err(why) = accepted {
                state.takes_nothing = true;
                state.failure = Some(why);
            }
            state.read = Some(read);
            drop(state);
            shared.changed.notify_all();
        });
        let started = started.map(|_| ());
        started.map_err(|error| format!("the thread that reads its output cannot start: {error}"))
    }

    /// Gives it batches, until no more come or it takes none.
    fn give(&self, input: &mut ChildStdin) {
        // As much as a user may have; without it a batch takes more turns.
        let _ = rustix::pipe::fcntl_setpipe_size(&*input, 1 << 20);
        loop {
            let has_none = |state: &mut State<T>| {
                state.queue.is_empty() && !state.is_closed && !state.takes_nothing
            };
            let waited = self.changed.wait_while(self.state(), has_none);
            let mut state = waited.unwrap_or_else(PoisonError::into_inner);
            if state.takes_nothing {
                return;
            }
            let Some((mut bytes, weight)) = state.queue.pop_front() else {
                return;
            };
            drop(state);
            let given = input.write_all(&bytes);
            let mut state = self.state();
            state.queued_bytes -= bytes.len();
            match given {
                Ok(()) => state.delivered.add(weight),
                Err(_) => state.undelivered.add(weight),
            }
            bytes.clear();
            state.spare.push(bytes);
            drop(state);
            self.changed.notify_all();
            if given.is_err() {
                return;
            }
        }
    }

    /// Waits for the program's end. Says why it did not end well.
    fn wait_for_child(&self) -> Option<String> {
        /// The longest pause between two looks.
        const PAUSE_MAX: Duration = Duration::from_millis(50);
        let (since, mut next, mut pause) =
            (Stopwatch::start(), Duration::ZERO, Duration::from_millis(1));
        loop {
            let mut state = self.state();
            let child = state.child.as_mut()?;
            match child.try_wait() {
                Ok(Some(status)) => {
                    let is_early = !state.is_closed;
                    return failure_of(status, is_early);
                }
                // Whoever waited for any child has its status.
                Err(_) => return None,
                Ok(None) => {}
            }
            drop(state);
            next += pause;
            since.wait_until(next);
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }
}

/// Why a program did not end well.
fn failure_of(status: ExitStatus, is_early: bool) -> Option<String> {
    let when = if is_early {
        " while the run went on"
    } else {
        ""
    };
    match (status.code(), status.signal()) {
        (Some(0), _) if is_early => Some("it ended while the run went on".to_owned()),
        (Some(0), _) => None,
        (Some(code @ (126 | 127)), _) => Some(format!(
            "its shell cannot run it (status {code}): give the path of a file that its user may \
            execute"
        )),
        (Some(code), _) => Some(format!("it ended with status {code}{when}")),
        (None, Some(signal)) => Some(format!("signal {signal} ended it{when}")),
        (None, None) => Some(format!("it ended{when}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(command: &str, queued_bytes_max: usize) -> PipedChild<String> {
        let read = |mut output: ChildOutput| {
            let mut text = String::new();
            let read = output.read_to_string(&mut text);
            (text, read.map(|_| ()).map_err(|error| error.to_string()))
        };
        PipedChild::start(command, queued_bytes_max, read).expect("threads start")
    }

    #[test]
    fn a_companion_reads_and_writes_until_its_input_ends() {
        let companion = start("cat; grep CapEff /proc/self/status; id -u", 1 << 20);
        for _ in 0..3 {
            assert!(companion.offer(b"abc\n".to_vec(), 2, Duration::from_secs(5)));
        }
        let ended = companion.end();
        let text = ended.read.expect("it has ended");
        assert!(text.starts_with("abc\nabc\nabc\n"), "{text}");
        assert!(text.contains("CapEff:\t0000000000000000"), "{text}");
        assert!(!text.ends_with("\n0\n"), "not root: {text}");
        assert_eq!(ended.failure, None);
        let three = Weighed {
            batches: 3,
            weight: 6,
        };
        assert_eq!(
            (ended.delivered, ended.undelivered),
            (three, Weighed::default())
        );
    }

    #[test]
    fn one_that_never_reads_is_killed_with_what_it_started() {
        let companion = start("trap '' TERM; sleep 100 & sleep 100", 4 << 20);
        let batch = || vec![0; 3 << 20];
        assert!(companion.offer(batch(), 1, Duration::ZERO));
        // The feeder holds the first batch, and can write no more than the pipe takes.
        while !companion.0.state().queue.is_empty() {
            thread::yield_now();
        }
        assert!(companion.offer(batch(), 1, Duration::ZERO));
        assert!(!companion.offer(batch(), 1, Duration::from_millis(1)));
        // It does not wait again: if it did, this would hang.
        for _ in 0..8 {
            assert!(!companion.offer(batch(), 1, Duration::from_secs(3_600)));
        }
        let ended = companion.end();
        let failure = ended.failure.expect("killed");
        assert!(failure.contains("it was killed"), "{failure}");
        assert_eq!(ended.undelivered.weight, 2);
        assert_eq!(ended.read, Some(String::new()), "all of it has ended");
    }

    #[test]
    fn one_that_ends_early_says_with_which_status() {
        for (command, reason) in [
            ("exit 3", "it ended with status 3 while the run went on"),
            ("exec true", "it ended while the run went on"),
            ("/nowhere/x 2>&-", "its shell cannot run it (status 127)"),
            ("kill -9 $$", "signal 9 ended it while the run went on"),
        ] {
            let companion = start(command, 1 << 20);
            while !companion.0.state().has_ended {
                companion.offer(vec![0; 100], 1, Duration::ZERO);
                thread::yield_now();
            }
            assert!(companion.takes_nothing());
            let failure = companion.end().failure.expect(command);
            assert!(failure.starts_with(reason), "{command}: {failure}");
        }
    }
}
