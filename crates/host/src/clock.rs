use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lineside_time::{Clock, Nanoseconds};

/// The machine's wall clock, which is never seen to run backwards: after it was set back it stands
/// still until it has caught up.
#[derive(Debug, Default)]
pub struct SystemClock {
    latest_ns: AtomicI64,
}

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that everything else is given"
    )]
    fn now(&self) -> Nanoseconds {
        // A clock before 1970 is a machine that was never set: 0 shows that well enough.
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ns = i64::try_from(since_epoch.unwrap_or_default().as_nanos()).unwrap_or(i64::MAX);
        // Relaxed: the maximum of one variable orders nothing else.
        self.latest_ns
            .fetch_max(now_ns, Ordering::Relaxed)
            .max(now_ns)
    }
}

/// How long something takes, by a clock that is never set.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    started: Instant,
}

impl Stopwatch {
    /// Begins now.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that everything else is given"
    )]
    pub fn start() -> Self {
        Self {
            started: Instant::now(),
        }
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Waits until so much time has passed since the start: sleeps as long as waking up late does
    /// no harm, then spins.
    #[expect(clippy::disallowed_methods, reason = "this is where time passes")]
    pub fn wait_until(&self, elapsed: Duration) {
        // The kernel's timers have 50 us of slack by default, and waking up takes some more.
        const SPIN: Duration = Duration::from_micros(150);
        if let Some(long) = elapsed.checked_sub(self.elapsed() + SPIN) {
            std::thread::sleep(long);
        }
        while self.elapsed() < elapsed {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_stands_still_rather_than_run_backwards() {
        let clock = SystemClock::default();
        let first = clock.now();
        assert!(first > 1_700_000_000_000_000_000, "after 2023: {first}");
        assert!(clock.now() >= first);
        let ahead = first + 3_600_000_000_000;
        clock.latest_ns.store(ahead, Ordering::Relaxed);
        assert_eq!(clock.now(), ahead);
    }
}
