//! What monitors have found so far, in few numbers: for a person who looks while they measure.

use super::{Bin, FlowCounts, FlowFacts, Label, Place, Report, Window};

/// What a monitor found at a place, so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The words that asked for the monitor, or the name of one that was added.
    pub monitor: String,
    /// Where it measures.
    pub place: Place,
    /// What it measured, in the order of the table `monitor_bins`; without those of single flows.
    pub distributions: Vec<Quantiles>,
    /// The latest window of time that is over, or else the one that goes on.
    pub window: Option<Window>,
    /// The flows that it knows, if it follows any.
    pub flows: Option<FlowCounts>,
}

/// The main numbers of a distribution. A bin counts as its highest value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantiles {
    /// What was measured, with its unit: `gap_ns`.
    pub metric: &'static str,
    /// How many values there are.
    pub count: u64,
    /// Half of them are at most this.
    pub p50: u64,
    /// Nine of ten are at most this.
    pub p90: u64,
    /// 99 of 100 are at most this.
    pub p99: u64,
    /// The greatest.
    pub max: u64,
}

/// Makes summaries of what monitors report.
#[derive(Debug, Default)]
pub(super) struct Summaries {
    pub(super) all: Vec<Summary>,
    /// The bins of the metric that is being given: highest values, and how many there are.
    bins: Vec<(u64, u64)>,
    metric: &'static str,
}

impl Summaries {
    /// What comes next is of this monitor, at this place.
    pub(super) fn begin(&mut self, label: Label<'_>, flows: Option<FlowCounts>) {
        self.end();
        self.all.push(Summary {
            monitor: label.monitor.to_owned(),
            place: label.place.clone(),
            distributions: Vec::new(),
            window: None,
            flows,
        });
    }

    /// No bin of the current metric comes any more.
    pub(super) fn end(&mut self) {
        let count: u64 = self.bins.iter().map(|(_, count)| count).sum();
        let quantile = |share: f64| {
            let mut left = ((share * count as f64).ceil() as u64).max(1);
            let mut bins = self.bins.iter();
            let found = bins.find(|(_, count)| {
                let is_here = *count >= left;
                left = left.saturating_sub(*count);
                is_here
            });
            found.map_or(0, |(value, _)| *value)
        };
        if let (Some((max, _)), Some(summary)) = (self.bins.last(), self.all.last_mut()) {
            summary.distributions.push(Quantiles {
                metric: self.metric,
                count,
                p50: quantile(0.5),
                p90: quantile(0.9),
                p99: quantile(0.99),
                max: *max,
            });
        }
        self.bins.clear();
    }
}

impl Report for Summaries {
    fn bin(&mut self, _: Label<'_>, bin: Bin) {
        if bin.flow_id.is_some() {
            return;
        }
        if bin.metric != self.metric {
            self.end();
            self.metric = bin.metric;
        }
        // The last bin of some scales has no end.
        let value = if bin.to == u64::MAX { bin.from } else { bin.to };
        self.bins.push((value, bin.count));
    }

    fn window(&mut self, _: Label<'_>, window: Window) {
        if let Some(summary) = self.all.last_mut()
            && window.flow_id.is_none()
        {
            summary.window = Some(window);
        }
    }

    fn flow(&mut self, _: Label<'_>, _: &FlowFacts) {}
}
