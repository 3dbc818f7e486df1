//! What came of datagrams of one way, as the end that counts them reports it.

use lineside_measure::Times;
use lineside_time::Nanoseconds;

/// What came to a sink, of all flows.
#[derive(Debug, Clone)]
pub struct SinkFigures {
    /// Everything that came: received, duplicates, beyond, corrupt, foreign and unkept.
    pub datagrams: u64,
    /// Datagrams that came, each once.
    pub received: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// As of [`FlowFigures::lost`](crate::protocol::FlowFigures::lost), of all flows.
    pub lost: u64,
    /// Datagrams that came again.
    pub duplicates: u64,
    /// As of [`FlowFigures::reordered`](crate::protocol::FlowFigures::reordered).
    pub reordered: u64,
    /// The most of all flows.
    pub extent_max: u64,
    /// As of [`FlowFigures::beyond`](crate::protocol::FlowFigures::beyond).
    pub beyond: u64,
    /// Datagrams whose padding is not the one that was sent.
    pub corrupt: u64,
    /// Anything else that came.
    pub foreign: u64,
    /// Datagrams of more flows than are kept apart.
    pub unkept: u64,
    /// Flows.
    pub flows: u64,
    /// Jitter at the end: the sum of all flows', and the most.
    pub jitter_ns: (u64, u64),
    /// When the first datagram came, and when the last.
    pub span_ns: Option<(Nanoseconds, Nanoseconds)>,
    /// Delays of one way, of datagrams whose clock is the sink's own.
    pub delays: Times,
    /// Of these, how many were less than 0, as far as the two readings of the clock disagree: they
    /// count as 0.
    pub early: u64,
    /// How these differ between datagrams that came one after the other, without sign: RFC 3393,
    /// of the pairs that jitter is about.
    pub variations: Times,
}

impl Default for SinkFigures {
    fn default() -> Self {
        /// Delays are measured up to a minute.
        const MINUTE_NS: u64 = 60_000_000_000;
        Self {
            datagrams: 0,
            received: 0,
            bytes: 0,
            lost: 0,
            duplicates: 0,
            reordered: 0,
            extent_max: 0,
            beyond: 0,
            corrupt: 0,
            foreign: 0,
            unkept: 0,
            flows: 0,
            jitter_ns: (0, 0),
            span_ns: None,
            delays: Times::up_to(MINUTE_NS),
            early: 0,
            variations: Times::up_to(MINUTE_NS),
        }
    }
}

impl SinkFigures {
    /// The mean of all flows' jitter.
    pub fn jitter_mean_ns(&self) -> Option<u64> {
        self.jitter_ns.0.checked_div(self.flows)
    }

    /// An identity that does not hold.
    pub fn broken_identity(&self) -> Option<&'static str> {
        let outcomes = self.received
            + self.duplicates
            + self.beyond
            + self.corrupt
            + self.foreign
            + self.unkept;
        (self.datagrams != outcomes)
            .then_some("datagrams = received + duplicates + beyond + corrupt + foreign + unkept")
    }

    /// Adds those of another sink, which had other flows.
    pub fn add(&mut self, other: &Self) {
        self.datagrams += other.datagrams;
        self.received += other.received;
        self.bytes += other.bytes;
        self.lost += other.lost;
        self.duplicates += other.duplicates;
        self.reordered += other.reordered;
        self.extent_max = self.extent_max.max(other.extent_max);
        self.beyond += other.beyond;
        self.corrupt += other.corrupt;
        self.foreign += other.foreign;
        self.unkept += other.unkept;
        self.flows += other.flows;
        let (sum, most) = other.jitter_ns;
        self.jitter_ns = (
            self.jitter_ns.0.saturating_add(sum),
            self.jitter_ns.1.max(most),
        );
        self.span_ns = match (self.span_ns, other.span_ns) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, other) => one.or(other),
        };
        self.delays.merge(&other.delays);
        self.early += other.early;
        self.variations.merge(&other.variations);
    }
}
