//! The limit that follows from rate and delay.

use crate::settings::{Limit, Schedule, Settings};

/// A [derived](Limit::Derived) queue holds at least this, some 40 frames: without a delay nothing
/// else sizes it.
const QUEUE_BYTES_MIN: u64 = 64 * 1024;

/// Rate times delay.
pub(crate) fn product_bytes(bits_per_second: u64, delay_ns: u64) -> u64 {
    let bits = u128::from(bits_per_second) * u128::from(delay_ns) / 1_000_000_000;
    u64::try_from(bits / 8).unwrap_or(u64::MAX)
}

/// The mean rate over time, and the burst.
pub(crate) fn mean_rate(settings: &Settings) -> Option<(u64, u64)> {
    let scheduled = match &settings.schedule {
        Some(Schedule::Path(path)) => path.bits_per_second(),
        Some(Schedule::Deliveries(deliveries)) => Some(deliveries.bits_per_second()),
        None => None,
    };
    let constant = settings
        .rate
        .map(|rate| (rate.bits_per_second, rate.burst_bytes));
    scheduled.map(|rate| (rate, 0)).or(constant)
}

pub(crate) fn derived_limit(settings: &Settings, delay_max_ns: i64) -> Limit {
    let Some((bits_per_second, burst_bytes)) = mean_rate(settings) else {
        return Limit::Derived;
    };
    let under_way = product_bytes(bits_per_second, delay_max_ns.max(0) as u64);
    // One bandwidth-delay product of the way there and back, as routers were long built.
    let queue = under_way.saturating_mul(2).max(QUEUE_BYTES_MIN);
    Limit::Bytes(under_way.saturating_add(queue).saturating_add(burst_bytes))
}
