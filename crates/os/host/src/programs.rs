//! Programs that a run starts and that die with it, and all that they leave behind. Those of a node
//! with a PID namespace of its own are in `node`.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, Signal, set_child_subreaper, set_parent_process_death_signal};

use crate::clock::Stopwatch;
use crate::ender::Ender;
use crate::namespaces::something_listens;

/// The outcome of the wait for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// Something listens.
    Listens,
    /// The program has ended.
    Ended(ExitStatus),
    /// Nothing listens yet, and the wait is over.
    Late,
}

/// A program that this process started, and that dies with it.
#[derive(Debug)]
pub struct Program(Child);

impl Program {
    /// Starts it. `in_background`: the terminal's signals do not reach it.
    pub fn start(command: &mut Command, in_background: bool) -> io::Result<Self> {
        if in_background {
            command.process_group(0);
        }
        // SAFETY: one system call, between fork and exec, that touches no memory.
        // JUSTIFICATION: it has to be made by the child itself, and `Command` has no word for it.
        unsafe {
            command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
        }
        command.spawn().map(Self)
    }

    /// Its status, if it has ended.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.0.try_wait()
    }

    /// Waits until something listens in the network namespace of the calling thread, for at most
    /// `patience` or until `is_stopped`.
    pub fn wait_for_listener(
        &mut self,
        patience: Duration,
        mut is_stopped: impl FnMut() -> bool,
    ) -> io::Result<Readiness> {
        /// The pause between two looks.
        const PAUSE: Duration = Duration::from_millis(5);
        let (since, mut looks) = (Stopwatch::start(), 0);
        while !something_listens() {
            if let Some(status) = self.ended()? {
                return Ok(Readiness::Ended(status));
            }
            if since.elapsed() >= patience || is_stopped() {
                return Ok(Readiness::Late);
            }
            looks += 1;
            since.wait_until(PAUSE * looks);
        }
        Ok(Readiness::Listens)
    }

    /// Has `ender` send it TERM; if it has ended, nothing happens.
    pub fn terminate(&self, ender: &Ender) {
        if let Some(pid) = Pid::from_raw(self.0.id() as i32) {
            ender.signal(pid, Signal::TERM);
        }
    }
}

/// From now on this process is killed when the one that started it ends.
pub fn end_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Asks a process that this one started to end.
pub fn ask_to_end(process: Pid) {
    let _ = rustix::process::kill_process(process, Signal::TERM);
}

/// All that this process started, and what that started and left behind.
#[derive(Debug)]
pub struct Descendants(Ender);

impl Descendants {
    /// From now on, a process whose parent ends becomes this process's own child. Call it before
    /// starting any. `ender` ends them.
    pub fn adopt(ender: Ender) -> io::Result<Self> {
        // Any process but 0 counts as yes: the kernel looks at nothing else.
        set_child_subreaper(Pid::from_raw(1))?;
        Ok(Self(ender))
    }

    /// Waits for those that have ended, of which nobody wants to know.
    pub fn reap(&self) {
        while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG) {}
    }

    /// What ends them.
    pub fn ender(&self) -> &Ender {
        &self.0
    }

    /// Those that live.
    fn all() -> Vec<Pid> {
        // A kernel without CONFIG_PROC_CHILDREN does not list them: then the programs started last
        // die with this process.
        let children = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
        let ids = children.split_whitespace().filter_map(|id| id.parse().ok());
        ids.filter_map(Pid::from_raw).collect()
    }

    fn signal(&self, signal: Signal) {
        for pid in Self::all() {
            self.0.signal(pid, signal);
        }
    }

    /// Sends all of them TERM, and after `patience` KILL, until none is left. Meanwhile `turn` is
    /// called again and again. Without this they get KILL when this is dropped.
    pub fn end(self, patience: Duration, turn: impl FnMut()) {
        self.signal(Signal::TERM);
        self.await_end(patience, turn);
    }

    fn await_end(&self, patience: Duration, mut turn: impl FnMut()) {
        /// What the kernel does not end at once after KILL hangs in a system call, perhaps for
        /// ever.
        const KILLED: Duration = Duration::from_secs(1);
        let since = Stopwatch::start();
        let mut looked = Duration::ZERO;
        loop {
            turn();
            let elapsed = since.elapsed();
            if elapsed - looked < Duration::from_millis(1) {
                continue;
            }
            looked = elapsed;
            // Those that have ended are gone only when asked for.
            self.reap();
            if Self::all().is_empty() || elapsed > patience + KILLED {
                return;
            }
            if elapsed > patience {
                self.signal(Signal::KILL);
            }
        }
    }
}

impl Drop for Descendants {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        self.await_end(Duration::ZERO, || {});
    }
}
