//! Operations of a connection's streams, as rows: what a capture, a replay and a load's tap share.
//!
//! ```text
//!  flow engine ─► records ─► calls and replies ─► protocol ─► rows ─► RecordSink
//!                 (crate rpc)  (rpc)              (protocol)
//!                                  └─ READ and WRITE data ─► checksums of 512-byte blocks
//! ```
//!
//! [`Operations`] is the flow engine's sink. It has no port, no clock and no output: time comes
//! with the frames, and rows go to the caller's sink. A row depends only on the bytes of its own
//! connection and on the [`Config`].
#![forbid(unsafe_code)]

mod arguments;
mod blocks;
mod config;
mod decode_as;
mod details;
mod family;
mod fast_call;
mod files;
mod headers;
mod layers;
mod operation;
mod procedure;
mod protocol;
mod rows;
mod rpc;
mod slot;
mod sums;

pub use blocks::BLOCK_BYTES;
pub use config::Config;
pub use decode_as::{DecodeAs, PortRule};
pub use files::file_id;
pub use rpc::{Deferred, NotedCalls, Operations, Waiting, connection_id_of};
pub use sums::Sums;
