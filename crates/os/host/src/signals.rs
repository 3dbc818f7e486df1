//! The signals of a run, as flags that it looks at.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use rustix::time::{ClockId, clock_gettime};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::{flag, low_level};

/// A second signal within this time is the same request: `timeout` sends one to the program and one
/// to its group, a terminal that is closed HUP and perhaps TERM.
const SAME_NS: i64 = 1_000_000_000;

/// The signals of a run: INT, TERM and HUP ask it to finish; another one, a second later or more,
/// ends it at once, unless that would [leave something behind](Self::shield). USR1 asks for
/// counters, USR2 for what is recorded so far to be complete on the disk.
///
/// The handlers only set flags, which the run looks at between bursts. Sequentially consistent
/// ordering is what `signal-hook` stores with; nothing else is ordered by the flags.
#[derive(Debug, Clone)]
pub struct Signals {
    stop: Arc<Stop>,
    counters: Arc<AtomicBool>,
    rotation: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct Stop {
    /// The first signal; 0: none.
    signal: AtomicUsize,
    /// When it came, by the monotonic clock; 0: never.
    since_ns: AtomicI64,
    is_shielded: AtomicBool,
    is_urgent: AtomicBool,
}

impl Stop {
    /// The handler: everything in it is safe at any moment.
    fn on_signal(&self, signal: i32) {
        let now = clock_gettime(ClockId::Monotonic);
        let now_ns = (now.tv_sec * 1_000_000_000 + now.tv_nsec).max(1);
        let (set, seen) = (Ordering::SeqCst, Ordering::SeqCst);
        match self.since_ns.compare_exchange(0, now_ns, set, seen) {
            Ok(_) => self.signal.store(signal as usize, Ordering::SeqCst),
            Err(since_ns) if now_ns - since_ns < SAME_NS => {}
            Err(_) if self.is_shielded.load(Ordering::SeqCst) => {
                self.is_urgent.store(true, Ordering::SeqCst);
            }
            Err(_) => low_level::exit(128 + signal),
        }
    }
}

impl Signals {
    /// Takes over INT, TERM, HUP, USR1 and USR2 for the rest of the process's life; HUP not if it
    /// is ignored, as under nohup(1). Call it once.
    pub fn register() -> io::Result<Self> {
        let signals = Self {
            stop: Arc::default(),
            counters: Arc::default(),
            rotation: Arc::default(),
        };
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            if signal == SIGHUP && is_ignored(signal) {
                continue;
            }
            let stop = Arc::clone(&signals.stop);
            // SAFETY: the handler calls clock_gettime(2) and _exit(2), which are async-signal-safe,
            // and touches atomics; it takes no lock, allocates nothing and cannot panic.
            // JUSTIFICATION: the flags of `signal-hook` do not know how long ago the first was.
            unsafe { low_level::register(signal, move || stop.on_signal(signal)) }?;
        }
        flag::register(SIGUSR1, Arc::clone(&signals.counters))?;
        flag::register(SIGUSR2, Arc::clone(&signals.rotation))?;
        Ok(signals)
    }

    /// The signal that asked the run to finish.
    pub fn stop(&self) -> Option<u8> {
        match self.stop.signal.load(Ordering::SeqCst) {
            0 => None,
            signal => u8::try_from(signal).ok(),
        }
    }

    /// From now on no signal ends the process by itself: it would leave programs or networks
    /// behind.
    pub fn shield(&self) {
        self.stop.is_shielded.store(true, Ordering::SeqCst);
    }

    /// Under the shield: whether the run was asked to end at once.
    pub fn is_urgent(&self) -> bool {
        self.stop.is_urgent.load(Ordering::SeqCst)
    }

    /// Whether counters were asked for since the last answer.
    pub fn take_counters_wanted(&self) -> bool {
        self.counters.swap(false, Ordering::SeqCst)
    }

    /// A flag that is set whenever a child has ended, which also ends a poll(2).
    pub fn watch_children(&self) -> io::Result<Arc<AtomicBool>> {
        let ended = Arc::default();
        flag::register(SIGCHLD, Arc::clone(&ended))?;
        Ok(ended)
    }

    /// Whether the parts' end was asked for since the last answer.
    pub fn take_rotation_wanted(&self) -> bool {
        self.rotation.swap(false, Ordering::SeqCst)
    }
}

/// Whether this process was started with a signal ignored.
fn is_ignored(signal: i32) -> bool {
    // SAFETY: all-zero bytes are a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action the call only writes the old one, to where there is room for it.
    // JUSTIFICATION: neither std nor rustix reads a signal's action.
    let read = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    read == 0 && action.sa_sigaction == libc::SIG_IGN
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Signals belong to the whole process, so the test runs in one of its own: itself, started
    /// again with a variable what to do.
    const ROLE: &str = "LINESIDE_TEST_SIGNALS";

    fn child(role: &str) -> Option<i32> {
        let program = std::env::current_exe().expect("this test's program");
        let mut command = Command::new("sh");
        // A shell that ignores a signal hands that down.
        let trap = if role == "nohup" { "trap '' HUP; " } else { "" };
        command.args(["-c", &format!("{trap}exec \"$@\""), "sh"]);
        let status = command
            .arg(program)
            .args([
                "--exact",
                "signals::tests::signals_set_flags_and_one_a_second_later_exits",
            ])
            .env(ROLE, role)
            .stdout(Stdio::null())
            .status();
        status.expect("the child runs").code()
    }

    #[test]
    fn signals_set_flags_and_one_a_second_later_exits() {
        use signal_hook::low_level::raise;
        let Ok(role) = std::env::var(ROLE) else {
            for role in ["once", "twice", "hangup", "nohup", "shielded"] {
                assert_eq!(child(role), Some(42), "{role}");
            }
            assert_eq!(child("later"), Some(143));
            return;
        };
        let signals = Signals::register().expect("registered");
        assert_eq!(signals.stop(), None);
        assert!(!signals.take_counters_wanted());
        raise(SIGUSR1).expect("raised");
        assert!(signals.take_counters_wanted());
        assert!(!signals.take_counters_wanted());
        assert!(!signals.take_rotation_wanted());
        raise(SIGUSR2).expect("raised");
        assert!(signals.take_rotation_wanted());
        assert!(!signals.take_rotation_wanted());
        if matches!(&*role, "hangup" | "nohup") {
            raise(SIGHUP).expect("raised");
            let stop = (role == "hangup").then_some(1);
            assert_eq!(signals.stop(), stop);
            std::process::exit(42);
        }
        raise(SIGINT).expect("raised");
        assert_eq!(signals.stop(), Some(2));
        // The first signal came a second ago.
        let age = || signals.stop.since_ns.fetch_sub(SAME_NS, Ordering::SeqCst);
        match role.as_str() {
            "twice" => raise(SIGTERM).expect("raised"),
            "shielded" => {
                signals.shield();
                raise(SIGTERM).expect("raised");
                assert!(!signals.is_urgent());
                age();
                raise(SIGTERM).expect("raised");
                assert!(signals.is_urgent());
            }
            "later" => {
                age();
                raise(SIGTERM).expect("raised");
            }
            _ => {}
        }
        assert_eq!(signals.stop(), Some(2));
        std::process::exit(42);
    }
}
