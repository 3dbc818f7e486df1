//! When frames of a replay are due, and how late they left.
//!
//! ```text
//!  stamps, lengths ─plan─► due instants ─due(now)─► how many may leave ─on_sent(now)─► Departures
//! ```
//!
//! * The schedule holds no frames, clock or socket: the caller asks which frames are due, sends
//!   them, and reports when.
//! * Lateness counts from the instant at which a frame was due, so that a stall is not forgotten by
//!   shifting the rest (no coordinated omission).
#![forbid(unsafe_code)]

mod replay;

pub use replay::{Departures, Lateness, Replay, Speed, SpeedError, Timing};
