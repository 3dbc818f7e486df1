//! Monitors in a report: what passed a point, as distributions, over time and by flow.
//!
//! ```text
//!  monitor_flows ──► the heaviest flows ─┐
//!  monitor_bins ────► bins, added ───────┼──► Monitors ──► sections ──► terminal · html
//!  monitor_windows ─► rates, steps ──────┤
//!  monitor_events ──► marks ─────────────┘
//! ```
//!
//! Each table is read once, batch by batch. Windows become counts and few steps as they pass, so
//! memory does not depend on their number. Rows of one window, one bin or one flow are added: a run
//! in several parts may write several.

mod collect;
mod distribution;
mod flows;
mod places;
mod rate;

pub(crate) use collect::monitors;
