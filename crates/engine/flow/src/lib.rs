//! Passive flows: from dissected packets to byte streams and datagrams, whatever the tap did to
//! them.
//!
//! ```text
//!  packet ──► fragments ──► connection table ──► per direction: in order? ──► StreamSink
//!             (bounded)     (four-tuple, epochs)   held, holes, overlaps       on_stream, on_datagram
//! ```
//!
//! The tap is not the receiver: it may miss a packet that the receiver got, see an acknowledgement
//! before the data, see packets late, twice, or cut. So a missing part of a stream becomes a *hole*
//! with a [cause](lineside_frame::Cause) only by these rules:
//!
//! * cut by the snap length: at once;
//! * acknowledged by the receiver, and since then [`Config::late_segments`] further segments of the
//!   connection and [`Config::late_window_ns`] have passed: the tap did not see it. Until then, it
//!   may only be late. Live, [`Config::quiet_window_ns`] alone is enough, so that the loss of a
//!   connection that goes quiet is reported in time;
//! * not acknowledged: it waits for its retransmission, until the flow holds
//!   [`Config::flow_held_max_bytes`].
//!
//! A segment whose own acknowledgement covers data of the other direction that has not been
//! delivered yet waits for that data in the same way, so that a protocol sees a call before its
//! reply even if the tap did not. If it waits in vain, the missing bytes become a hole before it,
//! provided that they were acknowledged twice or that other data followed them.
//!
//! ```text
//!  engine ──► connections ──► connection
//!    │        slots, table      ├ segments: deliver, hold, advance
//!    ├ fragments                ├ acknowledgements, holes
//!    └ duplicates, cut          └ incarnations: SYN, FIN, RST, strays
//! ```
//!
//! The engine takes time as an argument and touches no socket, thread or clock. It does not send:
//! it is no TCP endpoint.
#![forbid(unsafe_code)]

mod clock;
mod config;
mod connection;
mod connections;
mod context;
mod counts;
mod cut;
mod damage;
mod deadlines;
mod duplicates;
mod engine;
mod fragments;
mod openings;
mod origin;
mod packets;
mod round_trips;
mod sink;
mod stream;
mod taken;
mod whole;

pub use config::Config;
pub use connection::{Connection, Transport};
pub use counts::FlowCounts;
pub use engine::Engine;
pub use fragments::Fragments;
pub use round_trips::{RoundTrip, RoundTrips, Towards};
pub use sink::{StreamSink, Value};
pub use taken::Taken;
pub use whole::Whole;
