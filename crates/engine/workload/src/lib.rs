//! What a load sends and when: arrivals, sizes, keys and contents by models; and when frames of a
//! replay are due.
//!
//! ```text
//!  words ─► Arrivals ─┐
//!  words ─► Profile ──┴─► Schedule ─► Arrival { ordinal, at_ns }
//!  stamps, lengths ─plan─► due instants ─due(now)─► how many may leave ─on_sent(now)─► Departures
//! ```
//!
//! * Draws are functions of a seed and of the ordinal of what is sent, made of operations that IEEE
//!   754 fixes: the same on each machine, and with any number of workers.
//! * The schedule holds no frames, clock or socket: the caller asks when arrivals are due, sends
//!   them, and reports when.
//! * Lateness counts from the instant at which a frame was due, so that a stall is not forgotten by
//!   shifting the rest (no coordinated omission).
#![forbid(unsafe_code)]

mod arrivals;
mod cumulative;
mod draw;
mod fit;
mod gap_file;
mod keys;
mod math;
mod profile;
mod replay;
mod schedule;
mod shape;
mod size_words;
mod sizes;
mod template;

pub use arrivals::{Arrivals, STATES_MAX, State, Width};
pub use draw::{Purpose, seed_for};
pub use fit::{Against, Fit, Fitness, GapErrors, JUDGED};
pub use gap_file::{GAPS_MAX, GapFile};
pub use keys::{KEYS_MAX, Keys, Order};
pub use profile::{Profile, STEPS_MAX, Step};
pub use replay::{Departures, Replay, Speed, SpeedError, Timing};
pub use schedule::{Arrival, Schedule, ScheduleError, Share};
pub use shape::Shape;
pub use sizes::{Centre, Family, ROWS_MAX, SizeModel, Sizes, Unit, VALUE_MAX};
pub use template::{FIELD_MAX, Template};

/// A comma is a word of its own.
const MARKS: &[char] = &[','];

/// Reads the file of this name to its end, or says why it cannot.
pub type LoadFile<'a> = &'a mut dyn FnMut(&str) -> Result<String, String>;

/// Where no files are read.
pub fn no_files(name: &str) -> Result<String, String> {
    Err(format!("no file is read here: '{name}'"))
}
