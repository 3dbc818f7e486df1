//! A load, as the certificate in `trace.json` describes it, and its course by its rows.

use lineside_trace::certificate::load::Load;
use lineside_trace::{Manifest, State, certificate};
use serde::Serialize;

use crate::model::{LoadOverTime, LoadQuantile};

/// What a load was asked, and what came of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadReport {
    /// Whether the run is valid.
    pub verdict: Option<State>,
    /// Why not.
    pub reasons: Vec<String>,
    /// Its certificate.
    #[serde(flatten)]
    pub found: Load,
    /// The chosen requests over time; null without rows of them.
    pub over_time: Option<LoadOverTime>,
    /// How times of the chosen requests are spread.
    pub quantiles: Vec<LoadQuantile>,
}

/// The certificate of a load, and its course; `None` of other runs, and of a load that goes on or
/// was killed.
pub(crate) fn load(
    manifest: Option<&Manifest>,
    course: Option<(LoadOverTime, Vec<LoadQuantile>)>,
) -> Option<LoadReport> {
    let manifest = manifest?;
    let found = certificate::of(manifest)?;
    let (over_time, quantiles) = course.unzip();
    Some(LoadReport {
        verdict: Some(manifest.verdict.state),
        reasons: manifest.verdict.reasons.clone(),
        found,
        over_time,
        quantiles: quantiles.unwrap_or_default(),
    })
}
