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
mod packet;
mod report;
mod sizes;
mod summary;
mod tcp_stream;
mod windows;
mod words;

pub use bins::{Bins, Scale};
pub use flow_table::{FlowCounts, FlowKey};
pub use monitors::{MonitorError, Monitors};
pub use packet::{HEAD_LEN, Head, Packet, Point};
pub use report::{Bin, FlowFacts, Label, Monitor, Place, Report, Rows, TcpFacts, Window};
pub use summary::{Quantiles, Summary};
pub use words::{Kind, PlaceWords, Words, WordsError};
