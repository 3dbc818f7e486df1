use lineside_time::Nanoseconds;
use lineside_trace::certificate::run::LoopFacts;

/// A gap of more than this between two looks of a loop that does not sleep is a stall of the
/// machine.
const STALL_NS: i64 = 100_000;

/// What the loop counts of itself, without what has to be worked out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoopCounts {
    /// As [`LoopFacts::stalls`].
    pub stalls: u64,
    /// As [`LoopFacts::stalls_over_1ms`].
    pub stalls_over_1ms: u64,
    /// As [`LoopFacts::stall_max_ns`].
    pub stall_max_ns: i64,
    /// As [`LoopFacts::stalled_ns`].
    pub stalled_ns: i64,
    /// As [`LoopFacts::refusals`].
    pub refusals: u64,
    /// As [`LoopFacts::dropped_at_start`].
    pub dropped_at_start: u64,
    /// As [`LoopFacts::too_long`].
    pub too_long: u64,
    /// As [`LoopFacts::dropped_down`].
    pub dropped_down: u64,
}

/// Counts the time since the look before this one, if it was a stall.
pub(crate) fn note_gap(facts: &mut LoopFacts, gap_ns: Nanoseconds) {
    if gap_ns > STALL_NS {
        facts.stalls += 1;
        facts.stalls_over_1ms += u64::from(gap_ns > 1_000_000);
        facts.stalls_over_10ms += u64::from(gap_ns > 10_000_000);
        facts.stalled_ns += gap_ns;
        facts.stall_max_ns = facts.stall_max_ns.max(gap_ns);
    }
}
