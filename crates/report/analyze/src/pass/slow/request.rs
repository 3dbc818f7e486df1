//! What is asked for of slow operations.

/// How slow operations, or groups of them, are sorted: the greatest first, but by time the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlowBy {
    /// When the call came; of groups, their names.
    Time,
    /// From the first byte of the call to the last of the reply; of groups, the 99th percentile.
    Latency,
    /// From the end of the call to the begin of the reply; of groups, the 99th percentile.
    Server,
    /// The transfer of call and reply; of groups, in all.
    Transfer,
    /// The time that call and reply waited for bytes that were sent again; of groups, in all.
    Recovery,
    /// Bytes moved; of groups, in all.
    Size,
    /// Of groups: how many operations were slow.
    Slow,
    /// Of groups: operations.
    Operations,
}

/// Which operations are slow, and which of these are shown.
#[derive(Debug, Clone, Copy, Default)]
pub struct SlowRequest {
    /// Those that took at least this long are slow.
    pub latency_min_ns: u64,
    /// So many are shown.
    pub top: Option<usize>,
    /// The first by this; else, by time.
    pub by: Option<SlowBy>,
}

pub(super) fn duration(from: i64, to: i64) -> Option<u64> {
    u64::try_from(to.checked_sub(from)?).ok()
}
