//! The clocks of stamps, and notice of one that is set.

use std::os::fd::OwnedFd;

use lineside_host::{monotonic_ns, read_offset, wall_ns};
use lineside_time::ClockOffset;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// The clock by which a live port stamps frames, those that came and those that were handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StampClock {
    /// The wall clock, as of a capture. It may be set while the port is open.
    Wall,
    /// CLOCK_MONOTONIC and this many nanoseconds, whatever happens to the wall clock: see
    /// [`RunClock`](lineside_host::RunClock).
    Steady {
        /// What is added.
        ahead_ns: i64,
    },
}

/// Stamps of the kernel by a clock that may be set, as stamps by the clock of the port.
pub(super) struct KernelStamps {
    clock: StampClock,
    source: Source,
    offset: ClockOffset,
}

/// The clock by which the kernel stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// CLOCK_REALTIME.
    Wall,
    /// CLOCK_TAI.
    Tai,
}

impl KernelStamps {
    pub(super) fn new(clock: StampClock, source: Source) -> Self {
        Self {
            clock,
            source,
            offset: ClockOffset::new(read_offset(source.read())),
        }
    }

    /// Whether the kernel's stamps are those of the port.
    fn is_same(&self) -> bool {
        (self.clock, self.source) == (StampClock::Wall, Source::Wall)
    }

    /// Looks at the clocks: to be called once stamps have been read, before they are converted.
    pub(super) fn renew(&mut self) {
        if !self.is_same() {
            self.offset.observe(read_offset(self.source.read()));
        }
    }

    /// All stamps of the kernel's were read that are older than the latest look.
    pub(super) fn settle(&mut self) {
        self.offset.settle();
    }

    /// A stamp by the clock of the port.
    pub(super) fn stamp_ns(&self, kernel_ns: i64) -> i64 {
        if self.is_same() {
            return kernel_ns;
        }
        self.clock.of_monotonic(self.offset.steady_ns(kernel_ns))
    }
}

impl Source {
    fn read(self) -> fn() -> i64 {
        match self {
            Self::Wall => wall_ns,
            Self::Tai => tai_ns,
        }
    }
}

impl StampClock {
    /// The time now.
    pub(super) fn now(self) -> i64 {
        match self {
            Self::Wall => wall_ns(),
            Self::Steady { ahead_ns } => monotonic_ns() + ahead_ns,
        }
    }

    /// How far it is ahead of CLOCK_MONOTONIC now.
    pub(super) fn ahead_ns(self) -> i64 {
        match self {
            Self::Wall => read_offset(wall_ns).ahead_ns,
            Self::Steady { ahead_ns } => ahead_ns,
        }
    }

    /// An instant of CLOCK_MONOTONIC by this clock.
    fn of_monotonic(self, monotonic_ns: i64) -> i64 {
        monotonic_ns + self.ahead_ns()
    }
}

/// CLOCK_TAI, in nanoseconds.
fn tai_ns() -> i64 {
    let mut tai = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one whole timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_TAI, &raw mut tai) };
    tai.tv_sec * 1_000_000_000 + tai.tv_nsec
}

/// Notices when the wall clock is set (timerfd_create(2), `TFD_TIMER_CANCEL_ON_SET`).
pub(super) struct ClockWatch {
    timer: Option<OwnedFd>,
}

/// Never reached: a century.
const FAR: i64 = 100 * 365 * 24 * 3600;

impl ClockWatch {
    /// Watches from now on; where the kernel has no such timer, nothing is ever noticed.
    pub(super) fn new() -> Self {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let mut watch = Self {
            timer: timerfd_create(TimerfdClockId::Realtime, flags).ok(),
        };
        watch.arm();
        watch
    }

    fn arm(&mut self) {
        let Some(timer) = &self.timer else { return };
        let far = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec {
                tv_sec: wall_ns() / 1_000_000_000 + FAR,
                tv_nsec: 0,
            },
        };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        if timerfd_settime(timer, flags, &far).is_err() {
            self.timer = None;
        }
    }

    /// Whether the clock was set since this was asked last.
    pub(super) fn was_set(&mut self) -> bool {
        let Some(timer) = &self.timer else {
            return false;
        };
        let was_set = rustix::io::read(timer, &mut [0_u8; 8]) == Err(Errno::CANCELED);
        if was_set {
            self.arm();
        }
        was_set
    }
}
