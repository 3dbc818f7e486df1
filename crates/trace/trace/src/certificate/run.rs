//! What all live runs report of themselves.

use lineside_measure::Spread;
use serde::{Deserialize, Serialize};

/// What the polling loop measured of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LoopFacts {
    /// What was measured at the start.
    pub calibration: Option<Calibration>,
    /// The time from a frame's arrival to its hand-over if nothing delays it: the medians of
    /// `pickup` and `hand_over`.
    pub floor_ns: Option<i64>,
    /// Releases begin so much before their instant that half of the frames are handed over before
    /// it, by the kernel's stamps: the running median.
    pub lead_ns: i64,
    /// From the arrival of a frame to the look that found it, the first of each burst.
    pub pickup: Option<Spread>,
    /// From a call that sends to the kernel's stamp of its first frame.
    pub hand_over: Option<Spread>,
    /// The counts of the tap, if there is one. The loop leaves them to its caller.
    pub tap: Option<TapFacts>,
    /// Times that the loop did not run for more than 100 us although it did not sleep.
    pub stalls: u64,
    /// Those of more than 1 ms.
    pub stalls_over_1ms: u64,
    /// Those of more than 10 ms.
    pub stalls_over_10ms: u64,
    /// The longest of them.
    pub stall_max_ns: i64,
    /// The sum of them.
    pub stalled_ns: i64,
    /// Times that a port took no frame that was due.
    pub refusals: u64,
    /// Frames that arrived while the loop started: they waited for it, which is no delay of the
    /// path.
    pub dropped_at_start: u64,
    /// Frames that are too long for every other side or for the one by which they should leave, or
    /// were cut on their way to the port.
    pub too_long: u64,
    /// Frames that were due while the interface by which they should leave was down, or gone.
    pub dropped_down: u64,
    /// Sides of which a port failed, and without which the loop went on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<Gone>,
    /// Checksums finished that the sender had left to its adapter.
    pub checksums_completed: u64,
}

/// What the loop measured of itself before the first frame came.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Calibration {
    /// How it was measured.
    pub method: String,
    /// The least time from a frame's arrival to its hand-over: half of `turn` and all of `send`, by
    /// their medians.
    pub floor_ns: i64,
    /// A turn of the loop in which nothing arrives.
    pub turn: Spread,
    /// From the decision that a frame leaves to its hand-over.
    pub send: Spread,
}

/// The counts of a tap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TapFacts {
    /// Frames that went to the other thread.
    pub tapped: u64,
    /// Frames that found the queue full.
    pub dropped_queue: u64,
    /// Frames for which no memory was left.
    pub dropped_memory: u64,
}

/// A side without which the loop goes on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Gone {
    /// Its number.
    pub side: usize,
    /// When it failed, by the loop's clock.
    pub at_ns: i64,
    /// Why, with the name of the port.
    pub why: String,
}
