//! When what is sent is due.
//!
//! ```text
//!  stamps, lengths ─plan─► due instants ─due(now)─► how many may leave ─on_sent(now)─► Departures
//! ```
//!
//! * Engines hold no frames, clock or socket: whoever does asks what is due, sends it, and says when.
//! * Lateness counts from the instant at which a frame was due, so that a stall is not forgotten by
//!   shifting the rest (no coordinated omission).
#![forbid(unsafe_code)]

mod replay;

pub use replay::{Departures, Lateness, Replay, Speed, SpeedError, Timing};
