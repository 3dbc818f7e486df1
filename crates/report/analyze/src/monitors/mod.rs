//! Monitors in a report: what passed a point, as distributions, over time and by flow.
//!
//! ```text
//!  monitor_flows ──► the heaviest flows ─┐
//!  monitor_bins ────► bins, added ───────┼──► Monitors ──► sections ──► terminal · html
//!  monitor_windows ─► rates, steps ──────┤
//!  monitor_events ──► marks ─────────────┘
//! ```
//!
//! Each table is read once, batch by batch. Windows become counts and few steps as they pass, so
//! memory does not depend on their number. Rows of one window, one bin or one flow are added: a run
//! in several parts may write several.

mod collect;
mod distribution;
mod draw;
mod flows;
mod model;
mod plain;
mod rate;
mod words;

pub(crate) use collect::monitors;
pub(crate) use draw::{STYLE, histogram, timeline};
pub use model::{
    MonitorBin, MonitorDistribution, MonitorEvent, MonitorFlow, MonitorFlows, MonitorPlace,
    MonitorRate, MonitorWindows, MonitoredFlow, Monitors, MonitorsOverTime,
};
pub(crate) use plain::{histogram_lines, timeline_lines};
pub(crate) use words::{line, sections};

/// A distribution, drawn on a logarithmic scale.
pub(crate) struct Histogram {
    title: String,
    distribution: MonitorDistribution,
}

/// A rate over time: what steps have on average, and in their busiest windows.
pub(crate) struct Timeline {
    title: String,
    /// Bits by the second, else packets.
    is_bits: bool,
    /// From when on times are written.
    begin_ns: i64,
    /// What the axis shows.
    from_ns: i64,
    to_ns: i64,
    /// Where the first step begins.
    start_ns: i64,
    step_ns: u64,
    window_ns: u64,
    means: Vec<f64>,
    most: Vec<f64>,
    /// Numbered events.
    marks: Vec<(u64, i64)>,
}

impl Timeline {
    fn text(&self, rate: f64) -> String {
        match self.is_bits {
            true => words::bits(rate),
            false => words::packet_rate(rate),
        }
    }

    /// How long the axis is, at least a nanosecond.
    fn span_ns(&self) -> u64 {
        self.to_ns.abs_diff(self.from_ns).max(1)
    }

    /// Whether a step has several windows, so that mean and busiest differ.
    fn is_joined(&self) -> bool {
        self.step_ns > self.window_ns
    }

    /// Where each step begins and ends, as shares of the axis; what is beyond it is cut.
    fn steps(&self) -> impl Iterator<Item = (f64, f64)> {
        let at = |number: usize| {
            let since = self.step_ns.saturating_mul(number as u64);
            let ns = self.start_ns.saturating_add_unsigned(since);
            self.share(ns.clamp(self.from_ns, self.to_ns))
        };
        (0..self.means.len()).map(move |number| (at(number), at(number + 1)))
    }

    /// Where a time is on the axis.
    fn share(&self, ns: i64) -> f64 {
        let since = i128::from(ns) - i128::from(self.from_ns);
        since as f64 / self.span_ns() as f64
    }
}
