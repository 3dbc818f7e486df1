//! The account of a delay: its parts in one direction.

use serde::Serialize;

/// A part of a delay.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Part {
    /// Its name: delay, order, queue, rate.
    pub(super) part: &'static str,
    /// Its mean.
    pub(super) mean_ns: f64,
    pub(super) least_ns: f64,
    /// `None`: nothing bounds it.
    pub(super) most_ns: Option<f64>,
    /// Its cause, with the figures.
    pub(super) because: String,
}

/// One direction.
#[derive(Debug, Serialize)]
pub(super) struct Explained {
    pub(super) direction: &'static str,
    pub(super) parts: Vec<Part>,
    pub(super) remarks: Vec<String>,
}
