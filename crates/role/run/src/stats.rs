//! What a run has counted so far: the answer to `lineside ctl RUN stats`.
//!
//! It is a form of its own, which other programs read: a new field raises the second number of its
//! version, a changed one the first.

use lineside_measure::monitor::Summary;
use serde::{Deserialize, Serialize};

/// The version of [`RunStats`].
pub const STATS_VERSION: &str = "1.0";

/// What a run has counted so far. Counters are of the whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunStats {
    /// Version of this form: a new field raises the second number, a changed one the first.
    pub stats_version: String,
    /// When, by the run's clock, in nanoseconds since 1970.
    pub at_ns: i64,
    /// The same, from the beginning of the run; none of a capture.
    pub after_ns: Option<i64>,
    /// Each direction of the link; with a switch, both links of each port. None of a capture.
    pub directions: Vec<DirectionStats>,
    /// What the switch counted, if there is one.
    pub switch: Option<SwitchStats>,
    /// The copies of frames for monitors and captures, if any are taken.
    pub tap: Option<TapStats>,
    /// What the polling loop measured of itself, if there is one.
    #[serde(rename = "loop")]
    pub polling: Option<LoopStats>,
    /// What each monitor has found so far, at each place.
    pub monitors: Vec<MonitorStats>,
}

/// One direction of a link.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DirectionStats {
    /// Its name, as in the certificate.
    pub name: String,
    /// Frames that entered.
    pub entered: u64,
    /// Their bytes.
    pub entered_bytes: u64,
    /// Frames that left.
    pub released: u64,
    /// Their bytes.
    pub released_bytes: u64,
    /// Frames made of others.
    pub duplicated: u64,
    /// Frames of which one bit was flipped.
    pub corrupted: u64,
    /// Frames that were dropped.
    pub dropped: DropStats,
    /// Frames under way: `entered + duplicated = released + dropped + held`.
    pub held: u64,
    /// From entering to leaving, of frames that entered since the latest change of settings;
    /// without those of `matches`. None before the first one left.
    pub delay: Option<DelayStats>,
    /// Of these, frames that left later than they should have.
    pub late: LateStats,
    /// Frames that match expressions.
    pub matches: Vec<MatchStats>,
    /// Since the line before, with `--every`; none of the first line.
    pub rates: Option<RateStats>,
}

/// Frames that were dropped, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DropStats {
    /// By the loss model.
    pub loss: u64,
    /// The link was down.
    pub down: u64,
    /// More than the link holds.
    pub limit: u64,
    /// More than the rate.
    pub rate: u64,
    /// More than fits into memory.
    pub memory: u64,
    /// Due at an interface that was down.
    pub interface: u64,
}

impl DropStats {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.loss + self.down + self.limit + self.rate + self.memory + self.interface
    }
}

/// Delays of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DelayStats {
    /// How many frames.
    pub count: u64,
    /// The shortest.
    pub min_ns: u64,
    /// Half of them are at most this.
    pub p50_ns: u64,
    /// 99 of 100 are at most this.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Frames that left later than they should have. A frame counts under each bound that it exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LateStats {
    /// More than 10 us.
    pub over_10us: u64,
    /// More than 100 us.
    pub over_100us: u64,
    /// More than 1 ms.
    pub over_1000us: u64,
    /// The most that a frame was late.
    pub max_ns: i64,
}

/// Frames of one direction that match an expression, or several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatchStats {
    /// The expressions.
    pub expressions: String,
    /// Frames that entered.
    pub entered: u64,
    /// Those of them that were lost.
    pub lost: u64,
    /// From entering to leaving, since the latest change of settings.
    pub delay: Option<DelayStats>,
}

/// How much passes.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RateStats {
    /// Frames that entered, a second.
    pub entered_pps: f64,
    /// Their bits, a second.
    pub entered_bps: f64,
    /// Frames that left, a second.
    pub released_pps: f64,
    /// Their bits, a second.
    pub released_bps: f64,
    /// Frames that were dropped, a second.
    pub dropped_pps: f64,
}

/// What a switch counted: `came + copies` = frames that left it + dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SwitchStats {
    /// Frames that came.
    pub came: u64,
    /// Frames that went on to one port.
    pub forwarded: u64,
    /// Frames that went on to all other ports.
    pub flooded: u64,
    /// How many more frames left than came because of that.
    pub copies: u64,
    /// Frames that went nowhere.
    pub dropped: u64,
    /// Addresses in its table.
    pub addresses: u64,
    /// By port.
    pub ports: Vec<PortStats>,
}

/// A port of a switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PortStats {
    /// Its name.
    pub name: String,
    /// Frames that came to the switch from this port.
    pub came: u64,
    /// Frames that went on to this port.
    pub left: u64,
    /// Addresses that are known there.
    pub addresses: u64,
    /// It vanished while the run went on.
    pub is_gone: bool,
}

/// The copies of frames for monitors and captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TapStats {
    /// Copies that were taken.
    pub copied: u64,
    /// Copies that found no room in the queue.
    pub dropped_queue: u64,
    /// Frames for whose copy there was no memory.
    pub dropped_memory: u64,
}

/// What the polling loop measured of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoopStats {
    /// Times that the loop did not run for more than 100 us although it did not sleep.
    pub stalls: u64,
    /// Those of more than 1 ms.
    pub stalls_over_1ms: u64,
    /// The longest of them.
    pub stall_max_ns: i64,
    /// The sum of them.
    pub stalled_ns: i64,
    /// Times that a port took no frame that was due.
    pub refusals: u64,
    /// Frames that were too long for where they should leave.
    pub too_long: u64,
    /// Frames that were due while the interface by which they should leave was down.
    pub dropped_down: u64,
    /// Frames that arrived while the loop started.
    pub dropped_at_start: u64,
}

/// What a monitor has found so far at a place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MonitorStats {
    /// The words that asked for it.
    pub monitor: String,
    /// The port.
    pub port: String,
    /// What happened to the frames there: `came`, `left`, `dropped_loss`, ...
    pub point: String,
    /// Frames in all bins of each metric of `monitor_bins`; those of flows are of flows that are
    /// over, and none are of single flows.
    pub distributions: Vec<DistributionStats>,
    /// The latest window of time in which frames passed and that is over, or else the one that goes
    /// on; of a monitor of `utilisation` or `packets`.
    pub window: Option<WindowStats>,
    /// Flows in its table, of a monitor of flows.
    pub flows_known: Option<u64>,
    /// All flows that it saw.
    pub flows_seen: Option<u64>,
}

/// The main numbers of a distribution. A bin counts as its highest value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DistributionStats {
    /// What was measured, with its unit: `gap_ns`.
    pub metric: String,
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

/// A window of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WindowStats {
    /// Where it begins.
    pub start_ns: i64,
    /// How long it is.
    pub window_ns: i64,
    /// Frames.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Frames a second.
    pub pps: f64,
    /// Bits a second.
    pub bps: f64,
}

impl From<Summary> for MonitorStats {
    fn from(summary: Summary) -> Self {
        let distributions = summary.distributions.iter();
        Self {
            monitor: summary.monitor,
            port: summary.place.port,
            point: summary.place.point.name().to_owned(),
            distributions: distributions
                .map(|each| DistributionStats {
                    metric: each.metric.to_owned(),
                    count: each.count,
                    p50: each.p50,
                    p90: each.p90,
                    p99: each.p99,
                    max: each.max,
                })
                .collect(),
            window: summary.window.map(|window| {
                let seconds = window.window_ns as f64 / 1e9;
                WindowStats {
                    start_ns: window.start_ns,
                    window_ns: window.window_ns,
                    packets: window.packets,
                    bytes: window.bytes,
                    pps: window.packets as f64 / seconds,
                    bps: window.bytes as f64 * 8.0 / seconds,
                }
            }),
            flows_known: summary.flows.map(|flows| flows.known),
            flows_seen: summary.flows.map(|flows| flows.seen),
        }
    }
}

impl RunStats {
    /// Adds to each direction how much passed since `before`.
    pub fn with_rates(mut self, before: &Self) -> Self {
        let seconds = (self.at_ns - before.at_ns) as f64 / 1e9;
        if seconds <= 0.0 {
            return self;
        }
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        for direction in &mut self.directions {
            let mut earlier = before.directions.iter();
            let Some(earlier) = earlier.find(|earlier| earlier.name == direction.name) else {
                continue;
            };
            direction.rates = Some(RateStats {
                entered_pps: rate(direction.entered, earlier.entered),
                entered_bps: 8.0 * rate(direction.entered_bytes, earlier.entered_bytes),
                released_pps: rate(direction.released, earlier.released),
                released_bps: 8.0 * rate(direction.released_bytes, earlier.released_bytes),
                dropped_pps: rate(direction.dropped.total(), earlier.dropped.total()),
            });
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_since_the_line_before() {
        let stats = |at_ns, entered| RunStats {
            stats_version: STATS_VERSION.to_owned(),
            at_ns,
            after_ns: None,
            directions: vec![DirectionStats {
                name: "outbound".to_owned(),
                entered,
                entered_bytes: 100 * entered,
                released: entered,
                dropped: DropStats {
                    loss: entered / 10,
                    ..DropStats::default()
                },
                ..DirectionStats::default()
            }],
            switch: None,
            tap: None,
            polling: None,
            monitors: Vec::new(),
        };
        let before = stats(1_000_000_000, 1_000);
        let now = stats(3_000_000_000, 5_000).with_rates(&before);
        let rates = now.directions[0].rates.expect("there are some");
        assert_eq!((rates.entered_pps, rates.entered_bps), (2_000.0, 1.6e6));
        assert_eq!((rates.released_bps, rates.dropped_pps), (0.0, 200.0));
        let same = stats(1_000_000_000, 5_000).with_rates(&before);
        assert_eq!(same.directions[0].rates, None, "no time has passed");
    }
}
