//! When files were made.

use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, StatxFlags, statx};

/// Whether a file was made at a time or later; where the file system does not know, it may have
/// been.
pub(crate) fn is_since(file: BorrowedFd<'_>, since_ns: i64) -> bool {
    let facts = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME);
    let Some(facts) = { facts.ok() }.filter(|facts| facts.stx_mask & StatxFlags::BTIME.bits() != 0)
    else {
        return true;
    };
    let seconds = facts.stx_btime.tv_sec.saturating_mul(1_000_000_000);
    seconds.saturating_add(facts.stx_btime.tv_nsec.into()) >= since_ns
}

/// Now, by the clock that file systems stamp with: no file that is made later has an earlier stamp.
pub(crate) fn file_time_ns() -> i64 {
    crate::clock::read(libc::CLOCK_REALTIME_COARSE)
}
