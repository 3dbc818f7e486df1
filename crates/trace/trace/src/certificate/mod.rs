//! The certificate of a run in `trace.json`: what a role was asked, and what it did. A role fills
//! these types, and reports, comparisons and live statistics read the same ones.
//!
//! ```text
//!  role: fills a type ──► Judged ──► trace.json ──► Manifest::from_json: checked ──► of ──► reader
//! ```

pub mod link;
pub mod load;
pub mod run;
#[cfg(test)]
mod tests;

use std::ops::{Deref, DerefMut};

use serde::de::{DeserializeOwned, Error as _};
use serde::ser::{Error as _, Serializer};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{Manifest, Role, Verdict};

/// What a role found out.
pub trait Certificate: Serialize + DeserializeOwned + Default {
    /// The place of the verdict among the fields of `trace.json`.
    const VERDICT_AT: usize;
    /// Fields that `trace.json` leaves out if they are empty.
    const ABSENT_IF_EMPTY: &'static [&'static str] = &[];

    /// Whether it is that of a run of `role`.
    fn is_of(role: Option<Role>) -> bool;
}

/// A certificate with its verdict: the form in `trace.json`.
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Judged<C> {
    /// What was found out.
    #[cfg_attr(feature = "schema", schemars(flatten))]
    pub found: C,
    /// Whether it holds.
    pub verdict: Verdict,
}

impl<C> Deref for Judged<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.found
    }
}

impl<C> DerefMut for Judged<C> {
    fn deref_mut(&mut self) -> &mut C {
        &mut self.found
    }
}

impl<C: Certificate> Serialize for Judged<C> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut value = serde_json::to_value(&self.found).map_err(S::Error::custom)?;
        let verdict = serde_json::to_value(&self.verdict).map_err(S::Error::custom)?;
        if let Value::Object(fields) = &mut value {
            fields.retain(|name, value| !C::ABSENT_IF_EMPTY.contains(&&**name) || !is_empty(value));
            let at = C::VERDICT_AT.min(fields.len());
            fields.shift_insert(at, VERDICT.to_owned(), verdict);
        }
        value.serialize(serializer)
    }
}

impl<'de, C: Certificate> Deserialize<'de> for Judged<C> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let verdict = value.get(VERDICT).map(Verdict::deserialize);
        Ok(Self {
            found: C::deserialize(&value).map_err(D::Error::custom)?,
            verdict: { verdict.transpose() }
                .map_err(D::Error::custom)?
                .unwrap_or_default(),
        })
    }
}

/// The certificate of a run, if it is one of this kind. A field that an older version did not
/// write is empty.
///
/// # Panics
///
/// If [`Manifest::from_json`] would have refused the certificate.
pub fn of<C: Certificate>(manifest: &Manifest) -> Option<C> {
    let certificate = manifest.certificate.as_ref()?;
    let read = || C::deserialize(certificate).expect("roles write, and from_json checks, the form");
    C::is_of(manifest.role()).then(read)
}

/// The certificate of a manifest as this version writes it, to compare it with what was read.
pub(crate) fn rewritten(manifest: &Manifest) -> serde_json::Result<Option<Value>> {
    fn of<C: Certificate>(role: Option<Role>, given: &Value) -> Option<serde_json::Result<Value>> {
        C::is_of(role).then(|| serde_json::to_value(Judged::<C>::deserialize(given)?))
    }
    let Some(given) = &manifest.certificate else {
        return Ok(None);
    };
    let role = manifest.role();
    { of::<link::Link>(role, given) }
        .or_else(|| of::<load::Load>(role, given))
        .transpose()
}

const VERDICT: &str = "verdict";

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Number(number) => number.as_u64() == Some(0),
        Value::Array(all) => all.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Bool(_) | Value::String(_) => false,
    }
}
