//! Measures: how times are distributed, how far that is from what was asked for, how many frames
//! were late, and what monitors see of frames.
//!
//! * [`Times`] and [`SignedTimes`] record times one by one, in memory that is reserved at the
//!   start.
//! * [`Spread`] holds the figures of a distribution, and its values; [`Distance`] is the
//!   Kolmogorov-Smirnov distance between two.
//! * [`LateTimes`] records how late frames left, and [`LateCounts`] only counts them.
//! * [`monitor`] has the monitors: windows, lengths, gaps, bursts and flows of what passes a point.
//!
//! Not here: clocks. The caller measures, and passes nanoseconds.
#![forbid(unsafe_code)]

mod late;
mod log_linear;
pub mod monitor;
mod spread;
mod times;

pub use late::{LateCounts, LateTimes, Lateness};
pub use spread::{Distance, Spread};
pub use times::{CountedTimes, Scan, SharedTimes, SignedTimes, Times};
