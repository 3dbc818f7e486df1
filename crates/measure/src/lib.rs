//! Measures of times: how they are distributed, how far that is from what was asked for, and how
//! many frames were late.
//!
//! * [`Times`] and [`SignedTimes`] record times one by one, in memory that is reserved at the
//!   start.
//! * [`Spread`] holds the figures of a distribution, and its values; [`Distance`] is the
//!   Kolmogorov-Smirnov distance between two.
//! * [`LateCounts`] counts frames by how late they left.
//!
//! Not here: clocks. The caller measures, and passes nanoseconds.
#![forbid(unsafe_code)]

mod late;
mod spread;
mod times;

pub use late::LateCounts;
pub use spread::{Distance, Spread};
pub use times::{CountedTimes, SharedTimes, SignedTimes, Times};
