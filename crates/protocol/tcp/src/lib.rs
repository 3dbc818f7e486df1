//! A TCP endpoint as an engine: it is given frames and the time, and returns frames that leave and
//! what the owners of its connections hear. No socket, no thread, no clock: a run is a function of
//! its inputs, so that each segment can be sent again from a seed.
//!
//! ```text
//!  on_burst ─► receive ─┬─► control: ARP, echoes, neighbours
//!                       ├─► listen: no connection yet
//!                       └─► input: checks ─► ack ─► text ─► Event::Stream, in order
//!                                                └─ held: out of order
//!  send, shutdown, abort ─┐         end of the burst
//!  on_timer ─► timers ────┴─► output ◄───┘
//!                               └─► fill ─► Effects::transmit
//! ```
//!
//! * Data is pulled: [`Stack::send`] says how many bytes are ready, [`Effects::fill`] is asked for
//!   them whenever a segment is built, first or again. There are no send buffers.
//! * Received bytes are [chunks](lineside_frame::Chunk), in order, where they lie.
//! * A connection at rest is 64 bytes; while bytes are in flight or missing it has a larger record
//!   from a bounded pool; in TIME_WAIT it is 32 bytes. Everything is drawn on one budget, and
//!   nothing is allocated for a segment.
//! * What of TCP is not here yet: `docs/decisions/0024-tcp-endpoint.md`.
#![forbid(unsafe_code)]

mod ack;
mod config;
pub mod congestion;
mod control;
pub mod cookie;
mod counters;
mod datagrams;
mod ecn;
mod effects;
mod errors;
mod fragments;
mod index_table;
mod input;
mod ip;
mod isn;
pub mod keyed;
mod leave;
mod listen;
mod lists;
pub mod neighbours;
mod options;
mod output;
mod ports;
mod promotion;
mod reassembly;
mod receive;
mod record;
mod recovery;
mod rtt;
mod scoreboard;
mod siphash;
pub mod slab;
mod stack;
mod tables;
mod timers;

pub use config::{Config, Ecn, Prefix};
pub use counters::Counters;
pub use effects::{Closed, ConnectionId, Datagram, Departure, Effects, Event, Why};
pub use ports::Refused;
pub use siphash::siphash;
pub use stack::Stack;
