//! The settings of an emulated link in words, and what they resolve to.
//!
//! ```text
//!  LinkWords ─┬─► Words: way, expression, setting ─► LinkSpec ─► Path
//!  Ways ──────┘                                         ▲ changed
//!  StepWords: WHEN: ACTION; ... ────────────────────────┴─► Steps of the path
//! ```
//!
//! Not here: flags, keys of files, and printing.

mod control;
mod files;
mod spec;
mod steps;
#[cfg(test)]
mod tests;
mod ways;
mod words;

pub use control::{listen, responding};
pub use files::{Content, content, read_text};
pub use spec::{LinkSpec, files, wires};
pub use steps::{StepContext, StepWords, resolved};
pub use ways::{CAPTURE_SIDES, Ways, side_name};
