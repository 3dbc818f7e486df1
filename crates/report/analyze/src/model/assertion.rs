//! What came of an assertion.

use serde::Serialize;

/// An assertion, judged.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Assertion {
    /// As it was given.
    pub assertion: String,
    /// Whether it holds.
    pub holds: bool,
    /// Whether it cannot be judged, as there is nothing that it could be of: it does not hold.
    pub undecided: bool,
    /// What was found: nanoseconds, bytes per second, operations per second, a share or a count,
    /// as the metric has it; null: there is nothing that it could be of.
    pub value: Option<f64>,
    /// What it was compared with, in the same unit.
    pub bound: f64,
    /// Chosen operations; of a ratio, those of the trace that has fewer.
    pub operations: u64,
    /// The finding in words.
    pub what: String,
}

/// What a run prints as JSON, with what came of its assertions.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WithAssertions<T, A = Vec<Assertion>> {
    /// The run.
    #[serde(flatten)]
    pub of: T,
    /// The assertions, judged, in the order in which they were given.
    pub assertions: A,
}
