//! Capture: frames in, operations out.
//!
//! ```text
//!  port ─► dissect ─► flow engine ─► records ─► calls and replies ─► rows ─► RecordSink
//!          (wire)     (flow)         (rpc)      (rpc, nfs)           (here)   (trace, or a user's own)
//!                                      └─ READ and WRITE data ─► checksums of 512-byte blocks
//! ```
//!
//! [`Filtered`] drops frames that do not match a filter before all this, and [`Recorded`] writes
//! the others into files. [`Pipeline`] is the whole path behind the port, single-threaded and
//! without I/O; [`run`] drives it from a port to the port's end, and [`capture`] is the whole run:
//! inputs, threads, folder and verdict. A row depends only on the bytes of its own connection and
//! on the [`Config`].
#![forbid(unsafe_code)]

mod arrivals;
mod blocks;
mod config;
mod cores;
mod decode_as;
mod filtered;
mod layers;
mod measured;
mod pipeline;
mod protocol;
mod recorded;
mod role;
mod rpc;
mod sums;

pub use lineside_flow::Config as FlowConfig;
pub use lineside_flow::Transport;
pub use lineside_rpc::message::program_name;
pub use lineside_rpc::record::Config as RecordConfig;
pub use lineside_run::Step;

pub use arrivals::Span;
pub use blocks::BLOCK_BYTES;
pub use config::Config;
pub use cores::{Cores, Done, Failed, Progress, Settle};
pub use decode_as::{DecodeAs, PortRule};
pub use filtered::Filtered;
pub use measured::Measured;
pub use pipeline::{Pipeline, run};
pub use recorded::{Recorded, interface};
pub use role::{
    CaptureError, CaptureFile, CoreSettings, ENCODERS, Follow, LiveSettings, OperationCount,
    Outcome, Scheduler, Seen, Settings, Tally, actors, capture, capture_into, is_failure, is_pipe,
    placed_by_traffic, tally_of,
};
pub use rpc::file_id;
