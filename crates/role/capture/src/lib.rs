//! Capture: frames in, operations out.
//!
//! ```text
//!  port ─► dissect ─► flow engine ─► operations ─► RecordSink
//!          (wire)     (flow)         (operations)  (trace, or a user's own)
//! ```
//!
//! [`Filtered`] drops frames that do not match a filter before all this, and
//! [`Recorded`](lineside_port::Recorded) writes the others into files. [`Pipeline`] is the whole
//! path behind the port, single-threaded and without I/O; [`run`] drives it from a port to the
//! port's end, and [`capture`] is the whole run: inputs, threads, folder and verdict. A row depends
//! only on the bytes of its own connection and on the [`Config`].
#![forbid(unsafe_code)]

mod arrivals;
mod cores;
mod filtered;
mod measured;
mod one_place;
mod pipeline;
mod role;
mod taps;

pub use lineside_flow::Config as FlowConfig;
pub use lineside_flow::Transport;
pub use lineside_operations::{BLOCK_BYTES, Config, DecodeAs, PortRule, file_id};
pub use lineside_rpc::message::program_name;
pub use lineside_rpc::record::Config as RecordConfig;
pub use lineside_run::Step;

pub use arrivals::Span;
pub use cores::{Cores, Done, Failed, Progress, Settle};
pub use filtered::Filtered;
pub use measured::Measured;
pub use one_place::{At, OnePlace};
pub use pipeline::{Pipeline, run};
pub use role::{
    CaptureError, CaptureFile, CoreSettings, ENCODERS, Follow, LiveSettings, OperationCount,
    Outcome, Scheduler, Seen, Settings, Tally, actors, capture, capture_into, is_failure, is_pipe,
    placed_by_traffic, tally_of,
};
pub use taps::Amend;
