//! What a monitor is, and what it finds.

use lineside_time::Nanoseconds;

use super::{FlowCounts, FlowKey, Packet, Point};

/// Sees each frame at one point: a monitor.
///
/// Time is that of the heads. What it keeps is bounded, whatever passes.
pub trait Monitor: std::fmt::Debug + Send {
    /// A frame passed. What is over by now goes to `out`.
    fn on_packet(&mut self, packet: &Packet<'_>, out: &mut dyn Rows);

    /// Gives all that has not gone to `out` yet, as it stands: at the end, and whenever somebody
    /// wants to look.
    fn report(&self, out: &mut dyn Rows);

    /// Gives what says most in few rows, in less than a millisecond: frames wait meanwhile. By
    /// default that is all of it.
    fn summarize(&self, out: &mut dyn Rows) {
        self.report(out);
    }

    /// How many flows it knows; `None` if it follows none.
    fn flows(&self) -> Option<FlowCounts> {
        None
    }

    /// Bytes of memory that it takes.
    fn memory_bytes(&self) -> usize;
}

/// Takes what monitors found.
pub trait Rows {
    /// A bin of a distribution.
    fn bin(&mut self, bin: Bin);

    /// A window of time in which something passed.
    fn window(&mut self, window: Window);

    /// A flow, as it stands or at its end.
    fn flow(&mut self, flow: &FlowFacts);
}

/// How many values of a metric lay in a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bin {
    /// What was measured, with its unit: `gap_ns`.
    pub metric: &'static str,
    /// The flow, of a monitor by flow: 0 for all without a place.
    pub flow_id: Option<i64>,
    /// The lowest value that counts here.
    pub from: u64,
    /// The highest one.
    pub to: u64,
    /// How many there were.
    pub count: u64,
}

/// What passed in a window of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The flow, of a monitor by flow: 0 for all without a place.
    pub flow_id: Option<i64>,
    /// Where it begins: a multiple of its length.
    pub start_ns: Nanoseconds,
    /// How long it is.
    pub window_ns: Nanoseconds,
    /// Frames.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
}

/// What is known of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowFacts {
    /// From 1, in the order of their first frames; 0: frames that are of no flow, or of one that
    /// found no place.
    pub flow_id: i64,
    /// `None` of those.
    pub key: Option<FlowKey>,
    /// When its first frame passed.
    pub first_ns: Option<Nanoseconds>,
    /// When its latest one passed.
    pub last_ns: Option<Nanoseconds>,
    /// Frames.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Bytes of TCP or UDP payload.
    pub payload_bytes: u64,
    /// What TCP has besides.
    pub tcp: Option<TcpFacts>,
}

/// What is known of a flow of TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpFacts {
    /// Payload bytes that had passed before.
    pub retransmitted_bytes: u64,
    /// Segments that were overtaken: RFC 4737, 3.
    pub reordered_packets: u64,
    /// Their largest extent (RFC 4737, 4.2) and the largest n for which one was n-reordered (5.4).
    pub reordering_max: Option<(u64, u64)>,
    /// The scale of the windows; `None` while no SYN was seen.
    pub window_scale: Option<u8>,
    /// The smallest and the largest window that it announced.
    pub windows: Option<(u64, u64)>,
    /// From the SYN to the FIN.
    pub completion_ns: Option<u64>,
    /// Whether it ended with a FIN (true) or a RST.
    pub end: Option<bool>,
}

/// Where a frame of an input is seen.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// The port: an interface, a side, an input.
    pub port: String,
    /// The point.
    pub point: Point,
}

impl Place {
    /// The place that an input's name stands for: `eth1.left` is the point `left` of `eth1`, and
    /// all other names are ports at which frames came.
    pub fn named(name: &str) -> Self {
        let split = name.rsplit_once('.');
        match split.and_then(|(port, point)| Some((port, Point::named(point)?))) {
            Some((port, point)) if !port.is_empty() => Self {
                port: port.to_owned(),
                point,
            },
            _ => Self {
                port: name.to_owned(),
                point: Point::Came,
            },
        }
    }

    /// The name that stands for it, also in capture files.
    pub fn name(&self) -> String {
        format!("{}.{}", self.port, self.point.name())
    }
}

/// What rows are about.
#[derive(Debug, Clone, Copy)]
pub struct Label<'a> {
    /// The words that asked for the monitor, or the name of one that was added.
    pub monitor: &'a str,
    /// Where it measures.
    pub place: &'a Place,
}

/// Takes what monitors found, with its labels.
pub trait Report {
    /// A bin of a distribution.
    fn bin(&mut self, label: Label<'_>, bin: Bin);

    /// A window of time in which something passed.
    fn window(&mut self, label: Label<'_>, window: Window);

    /// A flow.
    fn flow(&mut self, label: Label<'_>, flow: &FlowFacts);
}
