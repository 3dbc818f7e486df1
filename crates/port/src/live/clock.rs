use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

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

/// The wall clock: nanoseconds since the Unix epoch.
pub(super) fn wall_ns() -> i64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}
