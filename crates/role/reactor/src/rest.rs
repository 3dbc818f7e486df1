use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::Sides;

/// What the loop does while nothing is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wait {
    /// Looks again at once: takes a core of its own, and no frame waits until the loop has woken
    /// up.
    Spin,
    /// Sleeps until shortly before a frame is due, or until one arrives, and spins the rest: what
    /// comes after a pause is late by the time that waking up takes, some tens of microseconds.
    #[default]
    Hybrid,
    /// Sleeps until a frame is due, or until one arrives: least processor time, each release late
    /// by the kernel's timers and by waking up.
    Sleep,
}

impl Wait {
    /// The words of the command line.
    pub const WORDS: [(&str, Self); 3] = [
        ("spin", Self::Spin),
        ("hybrid", Self::Hybrid),
        ("sleep", Self::Sleep),
    ];

    /// How long to sleep if the next frame is due in `left_ns`, if at all.
    pub fn sleep_ns(self, left_ns: Option<i64>) -> i64 {
        let left_ns = left_ns.map_or(SLEEP_MAX_NS, |left_ns| left_ns.clamp(0, SLEEP_MAX_NS));
        match self {
            Self::Spin => 0,
            Self::Hybrid => left_ns - SPIN_NS,
            Self::Sleep => left_ns,
        }
    }
}

/// Spun before a deadline: the kernel's timer slack of 50 us and the time that waking up takes.
const SPIN_NS: i64 = 150_000;
/// The longest sleep: the caller of the loop looks after signals in between. A stall while the loop
/// sleeps is known to this.
const SLEEP_MAX_NS: i64 = 10_000_000;

/// The memory of a sleep, kept from one to the next. Empty while the loop runs.
#[derive(Default)]
pub(crate) struct Rest {
    polled: Vec<PollFd<'static>>,
    descriptors: Vec<BorrowedFd<'static>>,
}

impl Rest {
    /// Sleeps for this long, or until a frame arrives, or a signal: the caller looks after that.
    pub(crate) fn sleep<A>(&mut self, sleep_ns: i64, sides: &Sides<A>) {
        let mut descriptors: Vec<BorrowedFd<'_>> = std::mem::take(&mut self.descriptors);
        for port in sides.present() {
            port.wake_on(&mut descriptors);
        }
        let mut polled: Vec<PollFd<'_>> = std::mem::take(&mut self.polled);
        polled.extend(
            descriptors
                .drain(..)
                .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)),
        );
        let sleep = Duration::from_nanos(sleep_ns as u64);
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: sleep.subsec_nanos().into(),
        };
        let _ = poll(&mut polled, Some(&timeout));
        self.polled = emptied(polled, |_| unreachable!("it is empty"));
        self.descriptors = emptied(descriptors, |_| unreachable!("it is empty"));
    }
}

/// The memory of a vector for things of another lifetime: collected in place, since nothing is left
/// to map.
fn emptied<T, U>(mut vector: Vec<T>, never: impl Fn(T) -> U) -> Vec<U> {
    vector.clear();
    vector.into_iter().map(never).collect()
}
