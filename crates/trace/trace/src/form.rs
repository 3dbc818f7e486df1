//! Reading `trace.json`: whether it has the fields of its version, all of them and no others.

use serde::Deserialize;
use serde_json::Value;

use crate::{Manifest, ManifestError, SCHEMA_VERSION, certificate};

impl Manifest {
    /// Reads the text of a `trace.json`. One of this version has all of its fields and no others;
    /// an older one may lack some, and a newer one have [more](Self::passed_over).
    pub fn from_json(text: &str) -> Result<Self, ManifestError> {
        let given: Value = serde_json::from_str(text)?;
        let mut manifest = Self::deserialize(&given)?;
        let certificate = certificate::rewritten(&manifest)?;
        let found = version(&manifest.schema_version);
        if found < version(SCHEMA_VERSION) {
            let reasons = &manifest.verdict.reasons;
            manifest.killed |= reasons.iter().any(|reason| reason.starts_with("killed:"));
            return Ok(manifest);
        }
        let mut own = serde_json::to_value(&manifest)?;
        if let Some(certificate) = certificate {
            own["certificate"] = certificate;
        }
        let Differences { unknown, missing } = Differences::between(&given, &own);
        if found > version(SCHEMA_VERSION) {
            manifest.passed_over = unknown;
            return Ok(manifest);
        }
        let unknown = unknown.into_iter().map(ManifestError::Unknown);
        let missing = missing.into_iter().map(ManifestError::Missing);
        unknown.chain(missing).next().map_or(Ok(manifest), Err)
    }
}

/// The two numbers of a schema version.
fn version(text: &str) -> Option<(u64, u64)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Fields by which a value differs from the same one as this version writes it, by their paths.
#[derive(Debug, Default)]
struct Differences {
    unknown: Vec<String>,
    missing: Vec<String>,
}

impl Differences {
    fn between(given: &Value, own: &Value) -> Self {
        let mut differences = Self::default();
        differences.find("", given, own);
        differences
    }

    fn find(&mut self, path: &str, given: &Value, own: &Value) {
        let within = |name: &str| match path {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        match (given, own) {
            (Value::Object(given), Value::Object(own)) => {
                for (name, value) in given {
                    match own.get(name) {
                        Some(own) => self.find(&within(name), value, own),
                        None => self.unknown.push(within(name)),
                    }
                }
                let missing = own.keys().filter(|name| !given.contains_key(*name));
                self.missing.extend(missing.map(|name| within(name)));
            }
            // serde reads a list as an object whose fields have no names.
            (Value::Array(_), Value::Object(own)) => {
                self.missing.extend(own.keys().map(|name| within(name)));
            }
            (Value::Array(given), Value::Array(own)) => {
                for (at, (given, own)) in given.iter().zip(own).enumerate() {
                    self.find(&format!("{path}[{at}]"), given, own);
                }
            }
            _ => {}
        }
    }
}
