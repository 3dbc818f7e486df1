//! Clocks: the machine's wall clock, one for runs that must not be late, a stopwatch.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lineside_time::{Clock, Nanoseconds, OffsetReading, SteadyClock};

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

/// The clock of a run whose deadlines hold whatever happens to the wall clock: CLOCK_MONOTONIC,
/// counted from the Unix epoch as the wall clock had it when the run began.
#[derive(Debug, Clone, Copy)]
pub struct RunClock {
    ahead_ns: i64,
}

impl RunClock {
    /// Begins now.
    pub fn start() -> Self {
        Self {
            ahead_ns: read_offset(wall_ns).ahead_ns,
        }
    }

    /// How far it is ahead of CLOCK_MONOTONIC: always the same.
    pub fn ahead_ns(&self) -> i64 {
        self.ahead_ns
    }
}

impl Clock for RunClock {
    #[inline]
    fn now(&self) -> Nanoseconds {
        monotonic_ns() + self.ahead_ns
    }
}

impl SteadyClock for RunClock {
    fn wall_offset(&self) -> OffsetReading {
        let reading = read_offset(wall_ns);
        OffsetReading {
            at_ns: reading.at_ns + self.ahead_ns,
            ahead_ns: reading.ahead_ns - self.ahead_ns,
            ..reading
        }
    }
}

/// CLOCK_MONOTONIC, in nanoseconds.
#[inline]
pub fn monotonic_ns() -> i64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Names CLOCK_MONOTONIC as this process has it: processes that find the same name, in whatever
/// container, read the same clock. 0: it is not known.
pub fn clock_name() -> u64 {
    let read = |name: &str| std::fs::read(name).unwrap_or_default();
    let boot = read("/proc/sys/kernel/random/boot_id");
    if boot.is_empty() {
        return 0;
    }
    // A time namespace has a clock of its own.
    let offsets = read("/proc/self/timens_offsets");
    // FNV-1a: other versions of this program have to find the same name.
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let all = boot.iter().chain(&offsets);
    all.fold(0xcbf2_9ce4_8422_2325, fold).max(1)
}

/// Processor time of the calling thread, in nanoseconds: its own, and the kernel's for it.
#[inline]
pub fn thread_cpu_ns() -> i64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The wall clock: nanoseconds since the Unix epoch. It may be set at any time.
#[inline]
pub fn wall_ns() -> i64 {
    read(libc::CLOCK_REALTIME)
}

/// How far the clock that `read` reads is ahead of CLOCK_MONOTONIC.
pub fn read_offset(read: impl Fn() -> i64) -> OffsetReading {
    /// What the clocks take to be read if nothing interrupts it.
    const NARROW_NS: i64 = 1_000;
    const SAMPLES_MAX: usize = 5;
    let sample = || {
        let before_ns = monotonic_ns();
        let read_ns = read();
        let at_ns = monotonic_ns();
        let width_ns = at_ns - before_ns;
        OffsetReading {
            at_ns,
            ahead_ns: read_ns - before_ns - width_ns / 2,
            error_ns: width_ns / 2,
        }
    };
    let mut narrowest = sample();
    for _ in 1..SAMPLES_MAX {
        if 2 * narrowest.error_ns < NARROW_NS {
            break;
        }
        let another = sample();
        if another.error_ns < narrowest.error_ns {
            narrowest = another;
        }
    }
    narrowest
}

#[inline]
pub(crate) fn read(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one whole timespec.
    // JUSTIFICATION: rustix looks for the kernel's code by itself and dies under valgrind, which
    // hides that.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
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

    #[test]
    fn the_clock_of_a_run_begins_at_wall_time() {
        let clock = RunClock::start();
        let (before, wall, after) = (clock.now(), wall_ns(), clock.now());
        assert!(before <= after);
        let offset = clock.wall_offset();
        assert!(offset.at_ns >= after);
        // The wall clock may be set while this runs, on a machine that has just started.
        if offset.ahead_ns.abs() < 1_000_000 {
            assert!((before - 1_000_000..after + 1_000_000).contains(&wall));
        }
    }
}
