//! What waits while a run goes on.

use lineside_flow::Transport;
use lineside_rows::RecordSink;

use super::Operations;
use super::remembered::RECENT_NS;

/// What waits for replies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Operations without a row yet: their reply, or a copy of it, may still come.
    pub operations: u64,
    /// Calls whose reply has not come.
    pub calls: u64,
    /// How long the oldest of these calls has waited.
    pub oldest_ns: u64,
}

impl Waiting {
    /// With what waits elsewhere.
    pub fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.calls += other.calls;
        self.oldest_ns = self.oldest_ns.max(other.oldest_ns);
    }
}

impl<S: RecordSink> Operations<S> {
    /// What waits. This looks at every connection: once a second is often enough. Those that have
    /// ended are left out and, over UDP, which has no end, those that are silent for a minute:
    /// their clients have given up.
    pub fn waiting(&self) -> Waiting {
        let mut waiting = Waiting {
            operations: (self.operations.waiting() + self.fast.waiting()) as u64,
            ..Waiting::default()
        };
        for rpc in self.connections.iter().flatten() {
            let is_silent = self.now.saturating_sub(rpc.datagram_ns) >= RECENT_NS;
            let is_over = rpc.ended_ns.is_some() || rpc.transport == Transport::Udp && is_silent;
            if let Some((calls, since_ns)) = rpc.calls.waiting().filter(|_| !is_over) {
                waiting.calls += calls as u64;
                let oldest_ns = self.now.saturating_sub(since_ns).max(0).unsigned_abs();
                waiting.oldest_ns = waiting.oldest_ns.max(oldest_ns);
            }
        }
        waiting
    }
}
