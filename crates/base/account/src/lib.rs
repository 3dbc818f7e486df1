//! One memory budget and one registry of counters and reasons (rule 5 of `ARCHITECTURE.md`).
//!
//! Everything that can grow draws on the one [`Budget`] of a run; what does not fit goes by a
//! stated policy under a [`Counter`], and all counters end in `trace.json`.
//! [`Counters::broken_identity`] states the sums that must hold whatever the input was.
#![forbid(unsafe_code)]

mod budget;
mod counters;

pub use budget::{Budget, Claim, Lease};
pub use counters::{Counter, Counters, Kind};
