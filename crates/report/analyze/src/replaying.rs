//! A replay, as the certificate in `trace.json` describes it.

use std::ops::Deref;

use lineside_trace::certificate::replay::Replay;
use lineside_trace::{Manifest, State, certificate};
use serde::Serialize;

/// What came of a replay.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Replayed {
    /// Whether it did all that it was asked.
    pub verdict: Option<State>,
    /// Why not.
    pub reasons: Vec<String>,
    /// Its certificate.
    #[serde(flatten)]
    pub found: Replay,
}

impl Deref for Replayed {
    type Target = Replay;

    fn deref(&self) -> &Replay {
        &self.found
    }
}

/// The certificate of a replay; `None` of other runs, and of one that goes on or was killed.
pub(crate) fn replayed(manifest: &Manifest) -> Option<Replayed> {
    Some(Replayed {
        verdict: Some(manifest.verdict.state),
        reasons: manifest.verdict.reasons.clone(),
        found: certificate::of(manifest)?,
    })
}
