//! An emulated link, as the certificate in `trace.json` describes it.

use std::collections::BTreeMap;

use lineside_trace::certificate::link::Link;
use lineside_trace::{Manifest, Role, State, certificate};
use serde::Serialize;

/// What an emulated link was asked, what it drew and what it did.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Emulation {
    /// Whether the emulation holds.
    pub verdict: Option<State>,
    /// Why.
    pub reasons: Vec<String>,
    /// What was asked for, in the words of the flags: of a run that has no certificate, for it goes
    /// on or was killed.
    pub asked: BTreeMap<String, String>,
    /// Its certificate.
    #[serde(flatten)]
    pub link: Link,
}

/// The certificate of a run, or what is known of one that has none yet.
pub(crate) fn emulation(manifest: &Manifest) -> Option<Emulation> {
    if matches!(manifest.role(), Some(Role::Load | Role::Forward)) {
        return None;
    }
    let Some(link) = certificate::of(manifest) else {
        return unfinished(manifest);
    };
    Some(Emulation {
        verdict: Some(manifest.verdict.state),
        reasons: manifest.verdict.reasons.clone(),
        asked: BTreeMap::new(),
        link,
    })
}

/// A run of `emulate` without a certificate.
fn unfinished(manifest: &Manifest) -> Option<Emulation> {
    let configuration = manifest.section(Role::Emulate)?;
    let asked = LINK_SETTINGS.iter().filter_map(|name| {
        let words = configuration.get(*name)?.as_array()?.iter();
        let words: Vec<_> = words.filter_map(serde_json::Value::as_str).collect();
        Some(((*name).to_owned(), words.join(", ")))
    });
    Some(Emulation {
        verdict: Some(manifest.verdict.state),
        reasons: vec![
            "the run goes on, or was killed: the certificate, which accounts for the frames, is \
            written when it ends"
                .to_owned(),
        ],
        asked: asked.collect(),
        link: Link {
            seed: configuration["seed"].as_u64().unwrap_or_default(),
            ..Link::default()
        },
    })
}

/// The names of settings.
pub const LINK_SETTINGS: [&str; 9] = [
    "delay",
    "rate",
    "loss",
    "duplicate",
    "corrupt",
    "reorder",
    "limit",
    "link",
    "path",
];
