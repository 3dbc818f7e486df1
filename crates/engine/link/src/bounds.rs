//! How much a link holds: what memory bears, and warnings where that does not fit the settings.

use crate::derived_limit::{mean_rate, product_bytes};
use crate::settings::Limit;
use crate::{Item, Link};

/// The longest frame of an Ethernet without jumbo frames, with its
/// [overhead](crate::ETHERNET_OVERHEAD).
const FRAME_BYTES: u64 = 1538;

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
