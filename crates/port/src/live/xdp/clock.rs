//! From CLOCK_MONOTONIC, by which the program stamps frames, to the wall clock.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds of CLOCK_MONOTONIC.
pub(super) fn monotonic_ns() -> i64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// What the wall clock is ahead of CLOCK_MONOTONIC, in nanoseconds. Both are slewed alike, so that this
/// changes only when the wall clock is set.
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

fn nanoseconds(time: Timespec) -> i64 {
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
