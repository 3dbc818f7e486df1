//! From CLOCK_MONOTONIC, by which the program stamps frames, to the wall clock.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds of CLOCK_MONOTONIC.
pub(super) fn monotonic_ns() -> i64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// What the wall clock is ahead of CLOCK_MONOTONIC, in nanoseconds. Both are slewed alike, so that
/// this changes only when the wall clock is set.
pub(super) fn wall_offset_ns() -> i64 {
    let sample = || {
        let before_ns = monotonic_ns();
        let wall_ns = nanoseconds(clock_gettime(ClockId::Realtime));
        let after_ns = monotonic_ns();
        let width_ns = after_ns - before_ns;
        (width_ns, wall_ns - before_ns - width_ns / 2)
    };
    // The narrowest is the one that nothing interrupted.
    let narrowest = (0..5).map(|_| sample()).min();
    narrowest.expect("five samples").1
}

/// What CLOCK_TAI is ahead of the wall clock, in nanoseconds: whole seconds.
pub(super) fn tai_offset_ns() -> i64 {
    const SECOND_NS: i64 = 1_000_000_000;
    let mut tai = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one whole timespec.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_TAI, &raw mut tai) };
    if result < 0 {
        return 0;
    }
    let wall_ns = nanoseconds(clock_gettime(ClockId::Realtime));
    let ahead_ns = tai.tv_sec * SECOND_NS + tai.tv_nsec - wall_ns;
    (ahead_ns + SECOND_NS / 2).div_euclid(SECOND_NS) * SECOND_NS
}

fn nanoseconds(time: Timespec) -> i64 {
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
