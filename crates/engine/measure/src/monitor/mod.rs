//! Monitors: what passed at a point, as distributions, over time and by flow.
//!
//! ```text
//!  head: time, place, wire length, first bytes
//!    │ Monitors::on_head
//!    ▼
//!  its place (port, point) ─► each monitor there whose expression matches
//!                                              │ Monitor::on_packet        │ Monitor::report
//!                                              └──────────────► Rows ◄─────┘
//!                                               bins, windows, flows, each with its label
//! ```
//!
//! * A [`Head`] is what monitors need of a frame: they neither hold nor delay it.
//! * A [`Point`] says what happened to the frame at its port: it came, left, or was dropped.
//! * [`Monitor`] is the trait of all monitors; [`Monitors`] makes those that [`Words`] ask for at
//!   each point, and takes others: see `examples/monitor.rs`.
//! * What a monitor found goes to [`Rows`]: what is over as soon as it is, the rest when it
//!   [reports](Monitor::report).
//!
//! Not here: clocks, ports, tables in files.

mod bins;
mod flow_table;
mod flows;
mod gaps;
mod monitors;
mod sizes;
mod summary;
mod tcp_stream;
mod windows;
mod words;

pub use bins::{Bins, Scale};
pub use flow_table::FlowKey;
pub use flows::{FlowFacts, TcpFacts};
pub use monitors::{Label, MonitorError, Monitors, Place, Report};
pub use summary::{FlowCounts, Quantiles, Summary};
pub use words::{Kind, PlaceWords, Words, WordsError};

use lineside_time::Nanoseconds;
use lineside_wire::Dissected;

/// What monitors need of a frame.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// When it came, left or was dropped; `None` if its recorder gave no time.
    pub time_ns: Option<Nanoseconds>,
    /// Where it was seen, by the number that [`Monitors::place`] gave.
    pub place: u16,
    /// What the first byte is: a LINKTYPE_ value.
    pub link_type: u16,
    /// Bytes on the wire, from the Ethernet header on.
    pub wire_len: u32,
    /// The first bytes, as many as there are up to [`HEAD_LEN`].
    pub bytes: &'a [u8],
}

/// Bytes of a frame that monitors look at: Ethernet with two tags, IPv6 with an extension header,
/// and TCP with all options.
pub const HEAD_LEN: usize = 128;

/// A head, and what its headers say.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// The head.
    pub head: Head<'a>,
    /// Its headers.
    pub headers: &'a Dissected,
}

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

/// What happened to a frame at its port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Point {
    /// It arrived there.
    Came,
    /// It left there.
    Left,
    /// It arrived there, and the loss model dropped it.
    DroppedLoss,
    /// It arrived there while the link was down.
    DroppedDown,
    /// It arrived there, and the link held too much already.
    DroppedLimit,
    /// It arrived there, beyond the rate.
    DroppedRate,
    /// It arrived there, and there was no memory for it.
    DroppedMemory,
    /// It arrived there, and was due at an interface that was down.
    DroppedInterface,
    /// It arrived there, and the switch between the ports sent it nowhere.
    DroppedSwitch,
}

impl Point {
    /// Every point.
    pub const ALL: [Self; 9] = [
        Self::Came,
        Self::Left,
        Self::DroppedLoss,
        Self::DroppedDown,
        Self::DroppedLimit,
        Self::DroppedRate,
        Self::DroppedMemory,
        Self::DroppedInterface,
        Self::DroppedSwitch,
    ];

    /// Its name in words, tables and capture files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Came => "came",
            Self::Left => "left",
            Self::DroppedLoss => "dropped_loss",
            Self::DroppedDown => "dropped_down",
            Self::DroppedLimit => "dropped_limit",
            Self::DroppedRate => "dropped_rate",
            Self::DroppedMemory => "dropped_memory",
            Self::DroppedInterface => "dropped_interface",
            Self::DroppedSwitch => "dropped_switch",
        }
    }

    /// Whether frames are dropped there.
    pub fn is_drop(self) -> bool {
        !matches!(self, Self::Came | Self::Left)
    }

    /// The point with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|point| point.name() == name)
    }
}
