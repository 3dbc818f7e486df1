//! Findings about how long operations took.

use super::{Finding, Scene};
use crate::aggregate::Batch;

/// What is collected about latency in the pass over `operations`.
pub(super) struct Watch {}

impl Watch {
    /// For operations between two times, both inclusive.
    pub(super) fn new(_span: Option<(i64, i64)>) -> Self {
        Self {}
    }

    /// Adds the chosen rows of a batch.
    pub(super) fn add(&mut self, _batch: &Batch<'_>, _rows: &[usize]) {}

    pub(super) fn findings(self, _scene: &mut Scene<'_>) -> Vec<Finding> {
        Vec::new()
    }
}
