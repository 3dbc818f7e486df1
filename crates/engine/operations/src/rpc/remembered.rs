//! What is known of calls beyond the tables of their connections.

use hashbrown::HashSet;
use lineside_account::Budget;
use lineside_rpc::recent_calls::RecentCalls;

/// So long is a call remembered: over TCP, Linux sends it again after 60 s; over UDP after 1.1 s
/// and then at growing intervals, up to 60 s (nfs(5), timeo). One that got no reply until its
/// connection ended is remembered for longer.
pub(super) const RECENT_NS: i64 = 65_000_000_000;
/// They take at most this part of the memory: one in five, 2 million calls of 256 MiB.
const MEMORY_SHARE: usize = 5;

/// What is known of calls beyond the tables of their connections.
pub(super) struct Recent {
    pub(super) calls: RecentCalls,
    pub(super) resets: HashSet<u32>,
}

impl Recent {
    pub(super) fn new(budget: &Budget) -> Self {
        Self {
            calls: RecentCalls::new(RECENT_NS, budget.limit_bytes() / MEMORY_SHARE, budget),
            resets: HashSet::new(),
        }
    }
}
