//! The account of a delay: its parts in one direction.

use serde::Serialize;

/// A part of a delay.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// Its name: delay, order, queue, rate.
    pub part: &'static str,
    /// Its mean.
    pub mean_ns: f64,
    /// Its least.
    pub least_ns: f64,
    /// Its most; `None`: nothing bounds it.
    pub most_ns: Option<f64>,
    /// Its cause, with the figures.
    pub because: String,
}

/// One direction.
#[derive(Debug, Serialize)]
pub struct Explained {
    /// Its name.
    pub direction: &'static str,
    /// The parts of the delay, in the order in which they come.
    pub parts: Vec<Part>,
    /// What else there is to know.
    pub remarks: Vec<String>,
}
