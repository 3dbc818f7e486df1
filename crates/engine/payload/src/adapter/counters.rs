//! What an adapter counts.

use lineside_time::Nanoseconds;
use serde::Serialize;

/// Frames that were dropped, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Drops {
    /// Too many waited for the link.
    pub waiting: u64,
    /// The input queue was full.
    pub input_queue: u64,
    /// The payload was evicted.
    pub missed: u64,
}

/// What an adapter did in a time: `came + inside_before = left + dropped + held`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct AdapterCounters {
    /// When counting began.
    pub began_ns: Nanoseconds,
    /// Until when it counted.
    pub until_ns: Nanoseconds,
    /// Frames that were inside when it began.
    pub inside_before: u64,
    /// Frames that came.
    pub came: u64,
    /// Frames that left.
    pub left: u64,
    /// Their bytes.
    pub left_bytes: u64,
    /// Frames that did not leave.
    pub dropped: Drops,
    /// Frames all of whose payload the cache had when they were sent.
    pub hits: u64,
    /// Those of which something was missing. Short frames are neither.
    pub misses: u64,
    /// Bytes that crossed the bus to the host.
    pub received_bytes: u64,
    /// Bytes that crossed back.
    pub sent_bytes: u64,
    /// Bytes that crossed because they had to make place in the cache.
    pub spilled_bytes: u64,
    /// How long the processor worked.
    pub processor_busy_ns: u64,
    /// How long the bus moved payload.
    pub bus_busy_ns: u64,
    /// Packets in the host that were not yet forwarded, times how long.
    #[serde(skip)]
    pub queued_ns: u128,
    /// The most of them.
    pub queued_max: u64,
}

impl AdapterCounters {
    /// How long it counted.
    pub fn took_ns(&self) -> i64 {
        self.until_ns - self.began_ns
    }

    /// Payloads that were there when they were wanted; 1 if none was wanted.
    pub fn hit_rate(&self) -> f64 {
        match self.hits + self.misses {
            0 => 1.0,
            all => self.hits as f64 / all as f64,
        }
    }

    /// The packets in the host that were not yet forwarded, on average.
    pub fn queued_mean(&self) -> f64 {
        self.queued_ns as f64 / self.took_ns().max(1) as f64
    }

    /// Megabytes a second that left.
    pub fn left_mb_per_s(&self) -> f64 {
        self.left_bytes as f64 * 1e3 / self.took_ns().max(1) as f64
    }

    /// The processor's load, 0 to 1.
    pub fn processor_share(&self) -> f64 {
        self.processor_busy_ns as f64 / self.took_ns().max(1) as f64
    }

    /// All bytes that crossed the bus.
    pub fn bus_bytes(&self) -> u64 {
        self.received_bytes + self.sent_bytes + self.spilled_bytes
    }
}
