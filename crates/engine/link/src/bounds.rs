//! How much a link holds: the limit derived from rate and delay, what memory bears, and warnings
//! where these do not fit the settings.

use crate::settings::{Limit, Schedule, Settings};
use crate::{Item, Link};

/// The longest frame of an Ethernet without jumbo frames, with its
/// [overhead](crate::ETHERNET_OVERHEAD).
const FRAME_BYTES: u64 = 1538;
/// A [derived](Limit::Derived) queue holds at least this, some 40 frames: without a delay nothing
/// else sizes it.
const QUEUE_BYTES_MIN: u64 = 64 * 1024;

impl<T: Item> Link<T> {
    /// What a user should know of the settings, a sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for negative in self.negative_shares().filter(|&share| share > 0.0) {
            warnings.push(format!(
                "{:.1} % of the draws lie below 0, as the jitter is larger than the delay: those \
                frames leave at once",
                negative * 100.0
            ));
        }
        let unfollowed = self.counters().unfollowed;
        if unfollowed > 0 {
            warnings.push(format!(
                "{unfollowed} TCP segments were of more connections than memory bears, or than \
                65,536: none of them was lost"
            ));
        }
        let max_ns = self.delay_max_ns().max(0) as u64;
        let product = mean_rate(self.settings()).map(|(rate, _)| product_bytes(rate, max_ns));
        warnings.extend(limit_warning(self.limit(), product, max_ns));
        let memory_bytes_max = self.memory_bytes_max();
        if let Some(product) = product.filter(|&product| product > memory_bytes_max as u64) {
            warnings.push(format!(
                "rate x delay, {product} bytes, is more than the {memory_bytes_max} bytes of \
                memory for frames under way: give more with --memory"
            ));
        }
        warnings
    }

    /// The largest product of delay and rate that memory bears, in bytes of frames of 1,514. Of
    /// shorter frames it is less, as each takes some memory besides its bytes.
    pub fn product_bytes_max(&self) -> u64 {
        let frames = self.memory_bytes_max() / Self::memory_bytes(1514);
        frames as u64 * 1514
    }
}

/// The warning that a limit is too small for delays of up to `max_ns`, with a rate for `product`.
fn limit_warning(limit: Limit, product: Option<u64>, max_ns: u64) -> Option<String> {
    match (limit, product) {
        (Limit::Frames(most), Some(product)) if most.saturating_mul(FRAME_BYTES) < product => {
            Some(format!(
                "a limit of {most} frames is less than rate x delay, {product} bytes or {} frames \
                of 1,514: frames will be dropped",
                product.div_ceil(FRAME_BYTES)
            ))
        }
        (Limit::Bytes(most), Some(product)) if most < product => Some(format!(
            "a limit of {most} bytes is less than rate x delay, {product} bytes: frames will be \
            dropped"
        )),
        (Limit::Frames(most), None) if max_ns > 0 => {
            let frames_a_second = most as f64 * 1e9 / max_ns as f64;
            Some(format!(
                "with a limit of {most} frames and delays of up to {}, more than \
                {frames_a_second:.0} frames/s are dropped",
                lineside_words::format_duration(max_ns),
            ))
        }
        _ => None,
    }
}

/// Rate times delay.
fn product_bytes(bits_per_second: u64, delay_ns: u64) -> u64 {
    let bits = u128::from(bits_per_second) * u128::from(delay_ns) / 1_000_000_000;
    u64::try_from(bits / 8).unwrap_or(u64::MAX)
}

/// The mean rate over time, and the burst.
fn mean_rate(settings: &Settings) -> Option<(u64, u64)> {
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
