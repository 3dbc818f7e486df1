use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag;

/// The signals of a run: INT and TERM ask it to finish, a second one ends it at once; USR1 asks for
/// counters, USR2 for what is recorded so far to be complete on the disk.
///
/// The handlers only set flags, which the run looks at between bursts. Sequentially consistent
/// ordering is what `signal-hook` stores with; nothing else is ordered by the flags.
#[derive(Debug, Clone)]
pub struct Signals {
    stop: Arc<AtomicUsize>,
    counters: Arc<AtomicBool>,
    rotation: Arc<AtomicBool>,
}

impl Signals {
    /// Takes over INT, TERM, USR1 and USR2 for the rest of the process's life. Call it once.
    pub fn register() -> io::Result<Self> {
        let signals = Self {
            stop: Arc::default(),
            counters: Arc::default(),
            rotation: Arc::default(),
        };
        let stopping = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag unset and sets it, the second one
            // exits.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stopping))?;
            flag::register(signal, Arc::clone(&stopping))?;
            flag::register_usize(signal, Arc::clone(&signals.stop), signal as usize)?;
        }
        flag::register(SIGUSR1, Arc::clone(&signals.counters))?;
        flag::register(SIGUSR2, Arc::clone(&signals.rotation))?;
        Ok(signals)
    }

    /// The signal that asked the run to finish: the exit status is 128 and it.
    pub fn stop(&self) -> Option<u8> {
        match self.stop.load(Ordering::SeqCst) {
            0 => None,
            signal => u8::try_from(signal).ok(),
        }
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

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Signals belong to the whole process, so the test runs in one of its own: itself, started
    /// again with a variable what to do.
    const ROLE: &str = "LINESIDE_TEST_SIGNALS";

    fn child(role: &str) -> Option<i32> {
        let program = std::env::current_exe().expect("this test's program");
        let status = Command::new(program)
            .args([
                "--exact",
                "signals::tests::signals_set_flags_and_the_second_one_exits",
            ])
            .env(ROLE, role)
            .stdout(Stdio::null())
            .status();
        status.expect("the child runs").code()
    }

    #[test]
    fn signals_set_flags_and_the_second_one_exits() {
        use signal_hook::low_level::raise;
        let Ok(role) = std::env::var(ROLE) else {
            assert_eq!(child("once"), Some(42));
            assert_eq!(child("twice"), Some(130));
            assert_eq!(child("term"), Some(143));
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
        raise(SIGINT).expect("raised");
        assert_eq!(signals.stop(), Some(2));
        match role.as_str() {
            "twice" => raise(SIGINT).expect("raised"),
            "term" => raise(SIGTERM).expect("raised"),
            _ => {}
        }
        std::process::exit(42);
    }
}
