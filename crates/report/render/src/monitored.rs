//! What is drawn of monitors: distributions on a logarithmic scale, and rates over time.

use lineside_analyze::MonitorDistribution;
use lineside_words::{bit_rate, bytes, grouped, time};

/// A distribution, drawn on a logarithmic scale.
pub(crate) struct Histogram {
    pub(crate) title: String,
    pub(crate) distribution: MonitorDistribution,
}

/// A rate over time: what steps have on average, and in their busiest windows.
pub(crate) struct Timeline {
    pub(crate) title: String,
    /// Bits by the second, else packets.
    pub(crate) is_bits: bool,
    /// From when on times are written.
    pub(crate) begin_ns: i64,
    /// What the axis shows.
    pub(crate) from_ns: i64,
    pub(crate) to_ns: i64,
    /// Where the first step begins.
    pub(crate) start_ns: i64,
    pub(crate) step_ns: u64,
    pub(crate) window_ns: u64,
    pub(crate) means: Vec<f64>,
    pub(crate) most: Vec<f64>,
    /// Numbered events.
    pub(crate) marks: Vec<(u64, i64)>,
}

impl Timeline {
    pub(crate) fn text(&self, rate: f64) -> String {
        match self.is_bits {
            true => bit_rate(rate),
            false => lineside_words::rate(rate),
        }
    }

    /// How long the axis is, at least a nanosecond.
    pub(crate) fn span_ns(&self) -> u64 {
        self.to_ns.abs_diff(self.from_ns).max(1)
    }

    /// Whether a step has several windows, so that mean and busiest differ.
    pub(crate) fn is_joined(&self) -> bool {
        self.step_ns > self.window_ns
    }

    /// Where each step begins and ends, as shares of the axis; what is beyond it is cut.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (f64, f64)> {
        let at = |number: usize| {
            let since = self.step_ns.saturating_mul(number as u64);
            let ns = self.start_ns.saturating_add_unsigned(since);
            self.share(ns.clamp(self.from_ns, self.to_ns))
        };
        (0..self.means.len()).map(move |number| (at(number), at(number + 1)))
    }

    /// Where a time is on the axis.
    pub(crate) fn share(&self, ns: i64) -> f64 {
        let since = i128::from(ns) - i128::from(self.from_ns);
        since as f64 / self.span_ns() as f64
    }
}

/// A value with its unit.
pub(crate) fn value(number: u64, unit: &str) -> String {
    match unit {
        "ns" => time(number),
        // Lengths of frames are known to the byte.
        "bytes" if number < 100_000 => format!("{} B", grouped(number)),
        "bytes" => bytes(number),
        _ => grouped(number),
    }
}

/// A round length of time: `1 ms`.
pub(crate) fn length(ns: u64) -> String {
    let text = time(ns);
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            let number = number.trim_end_matches('0').trim_end_matches('.');
            format!("{number} {unit}")
        }
        _ => text,
    }
}

impl Histogram {
    /// The lowest and the highest position that is drawn.
    pub(crate) fn span(&self) -> (f64, f64) {
        let bins = &self.distribution.bins;
        let from = bins.first().map_or(1, |bin| bin.from);
        let to = bins.last().map_or(1, |bin| bin.to);
        (position(from as f64), position(to as f64 + 1.0))
    }

    /// How dense values are in each bin: from where to where it reaches, and its count by what it
    /// takes of the logarithmic scale.
    pub(crate) fn densities(&self) -> impl Iterator<Item = (f64, f64, f64)> {
        self.distribution.bins.iter().map(|bin| {
            let from = position(bin.from as f64);
            let to = position(bin.to as f64 + 1.0);
            (from, to, bin.count as f64 / (to - from))
        })
    }
}

/// Where a value lies on a logarithmic scale, in powers of two; 0 lies one below 1.
pub(crate) fn position(value: f64) -> f64 {
    value.max(0.5).log2()
}
