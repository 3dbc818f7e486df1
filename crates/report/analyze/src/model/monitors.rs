//! What monitors found, as data.

use serde::Serialize;

/// What the monitors of a run found. About the whole run, whatever the filter.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Monitors {
    /// When the run's first frame passed; null if nothing has a time.
    pub begin_ns: Option<i64>,
    /// When its last one did.
    pub end_ns: Option<i64>,
    /// By monitor, port and point.
    pub places: Vec<MonitorPlace>,
    /// Rows of further places, for which there was no room in `places`.
    pub rows_not_listed: u64,
    /// What happened meanwhile, in order.
    pub events: Vec<MonitorEvent>,
    /// Further events, for which there was no room in `events`.
    pub events_not_listed: u64,
}

/// What a monitor found at a point of a port.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MonitorPlace {
    /// The monitor, in the words that asked for it.
    pub monitor: String,
    /// The port: an interface, a side, an input.
    pub port: String,
    /// `came`, `left`, or why frames were dropped: `dropped_loss`.
    pub point: String,
    /// What passed in windows of time; null if the monitor does not measure that.
    pub windows: Option<MonitorWindows>,
    /// By metric.
    pub distributions: Vec<MonitorDistribution>,
    /// The flows; null if the monitor has none.
    pub flows: Option<MonitorFlows>,
    /// Of a monitor by flow: what it measured of the heaviest flows, and of those without a place
    /// in its table (0).
    pub by_flow: Vec<MonitoredFlow>,
}

/// The values of a metric, counted in bins. A value lies anywhere in its bin.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MonitorDistribution {
    /// What was measured, as in the table: `gap_ns`.
    pub metric: String,
    /// Of all that follows: `ns`, `bytes`, `packets`, or empty if the metric does not end in one.
    pub unit: &'static str,
    /// How many values there were.
    pub count: u64,
    /// The lowest value of the lowest bin.
    pub min: u64,
    /// Half are no more: here and below, the highest value of the bin in which the quantile lies.
    pub p50: u64,
    /// 90 % are no more.
    pub p90: u64,
    /// 99 % are no more.
    pub p99: u64,
    /// 99.9 % are no more.
    pub p999: u64,
    /// The highest value of the highest bin.
    pub max: u64,
    /// The mean, if all values of a bin lie in its middle.
    pub mean: f64,
    /// The width of the widest bin in which a quantile lies, as a share of its highest value: the
    /// exact quantiles are lower by that at most. 0: they are exact.
    pub bin_width_share: f64,
    /// The highest bin has no end: what lies in it is taken as its lowest value.
    pub is_open: bool,
    /// At most 128 bins, those of the table joined; those without values are left out. None of a
    /// single flow.
    pub bins: Vec<MonitorBin>,
}

/// A range of values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MonitorBin {
    /// The lowest value that counts here.
    pub from: u64,
    /// The highest one.
    pub to: u64,
    /// How many there were.
    pub count: u64,
}

/// What passed in windows of time, between the first and the last in which anything did.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MonitorWindows {
    /// How long each is.
    pub window_ns: u64,
    /// When the first one begins.
    pub first_ns: i64,
    /// When the last one begins.
    pub last_ns: i64,
    /// How many there are, those in which nothing passed among them.
    pub windows: u64,
    /// Those in which nothing passed.
    pub empty: u64,
    /// Frames in all.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Bits per second, over all windows.
    pub bits_per_second: MonitorRate,
    /// Frames per second, over all windows.
    pub packets_per_second: MonitorRate,
    /// Rows that came when their window was over, and count as windows of their own; 0 unless a
    /// million windows came between.
    pub rows_not_joined: u64,
    /// Over time; null of a single flow.
    pub over_time: Option<MonitorsOverTime>,
}

/// A rate in windows of time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MonitorRate {
    /// In the emptiest window.
    pub min: f64,
    /// In half of the windows no more; quantiles are within 1 %.
    pub p50: f64,
    /// In 90 % no more.
    pub p90: f64,
    /// In 99 % no more.
    pub p99: f64,
    /// In 99.9 % no more.
    pub p999: f64,
    /// In the busiest one.
    pub max: f64,
    /// When the first busiest one begins.
    pub max_at_ns: i64,
    /// In all of the time.
    pub mean: f64,
}

/// Rates over time: of each step the mean, and the busiest of its windows.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MonitorsOverTime {
    /// When the first step begins.
    pub start_ns: i64,
    /// How long each is: a multiple of the window's length.
    pub step_ns: u64,
    /// Bits per second, on average.
    pub mean_bits_per_second: Vec<f64>,
    /// In the busiest window.
    pub max_bits_per_second: Vec<f64>,
    /// Frames per second, on average.
    pub mean_packets_per_second: Vec<f64>,
    /// In the busiest window.
    pub max_packets_per_second: Vec<f64>,
}

/// The flows that a monitor saw at a point: each direction apart.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MonitorFlows {
    /// How many have a row of their own.
    pub flows: u64,
    /// Frames of all flows, and of none.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Bytes of TCP and UDP payload.
    pub payload_bytes: u64,
    /// TCP: payload bytes that had passed before.
    pub retransmitted_bytes: u64,
    /// TCP: segments that were overtaken, or sent again for what was lost before this point.
    pub reordered_packets: u64,
    /// Flows of TCP that ended with a FIN.
    pub finished: u64,
    /// Flows of TCP that ended with a RST.
    pub reset: u64,
    /// Those with most bytes, heaviest first.
    pub heaviest: Vec<MonitorFlow>,
    /// Frames that are of no flow, and those of flows that found no place in the table.
    pub others: Option<MonitorFlow>,
}

/// One direction of a connection, or of an exchange of datagrams.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MonitorFlow {
    /// As in the tables; 0 of `others`.
    pub flow_id: i64,
    /// Who sends.
    pub source_address: Option<String>,
    /// Who receives.
    pub destination_address: Option<String>,
    /// From which port.
    pub source_port: Option<i32>,
    /// To which port.
    pub destination_port: Option<i32>,
    /// `tcp`, `udp`, or the protocol's number.
    pub transport: Option<String>,
    /// When the first frame passed.
    pub first_ns: Option<i64>,
    /// When the last one did.
    pub last_ns: Option<i64>,
    /// From the first to the last.
    pub duration_ns: Option<u64>,
    /// Frames.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Bytes of TCP or UDP payload.
    pub payload_bytes: u64,
    /// `bytes` over `duration_ns`; null if that is 0.
    pub bits_per_second: Option<f64>,
    /// TCP: payload bytes that had passed before.
    pub retransmitted_bytes: u64,
    /// TCP: segments that were overtaken, or sent again for what was lost before this point.
    pub reordered_packets: u64,
    /// The largest reordering extent (RFC 4737, 4.2).
    pub reordering_extent_max: Option<u64>,
    /// The largest n for which a segment was n-reordered (RFC 4737, 5.4).
    pub n_reordering_max: Option<u64>,
    /// Bits by which windows are shifted; null: its SYN was not seen, and windows are those on the
    /// wire.
    pub tcp_window_scale: Option<i32>,
    /// The smallest window that it announced.
    pub tcp_window_min_bytes: Option<u64>,
    /// The largest one.
    pub tcp_window_max_bytes: Option<u64>,
    /// From its SYN to its FIN.
    pub completion_ns: Option<u64>,
    /// `fin` or `rst`; null: its end was not seen.
    pub flow_end: Option<String>,
}

/// What a monitor by flow measured of one flow.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MonitoredFlow {
    /// The flow: one of `heaviest`, or 0, the others.
    pub flow_id: i64,
    /// What passed in windows of time.
    pub windows: Option<MonitorWindows>,
    /// By metric.
    pub distributions: Vec<MonitorDistribution>,
}

/// Something that happened while monitors measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MonitorEvent {
    /// When; null if no frame has a time.
    pub time_ns: Option<i64>,
    /// From the begin of the run.
    pub after_ns: Option<i64>,
    /// As in the table: `begin`, `end`, `change`, `mark`, `step`, `undone`, `refused`,
    /// `unmeasured`, `others`.
    pub event: String,
    /// Where; null if it is not of one port.
    pub port: Option<String>,
    /// How many frames it is about.
    pub frames: Option<u64>,
    /// In words; may be empty.
    pub text: String,
}

/// Metrics that are known, in the order of a report, with what they are in words.
pub const METRICS: [(&str, &str); 14] = [
    ("packet_bytes", "packet size"),
    ("gap_ns", "gap"),
    ("gap_decades_ns", "gap, in decades"),
    ("burst_packets", "burst, packets"),
    ("burst_bytes", "burst, bytes"),
    ("window_packets", "packets a window"),
    ("window_bytes", "bytes a window"),
    ("flow_packets", "flow, packets"),
    ("flow_bytes", "flow, bytes"),
    ("flow_completion_ns", "flow, SYN to FIN"),
    ("tcp_window_bytes", "TCP window"),
    ("tcp_window_unscaled_bytes", "TCP window, raw"),
    ("reordering_extent_packets", "reordering extent"),
    ("n_reordering_packets", "n-reordering"),
];
