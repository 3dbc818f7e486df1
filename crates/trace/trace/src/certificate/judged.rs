//! A certificate with its verdict, and its form in `trace.json`.

use std::ops::{Deref, DerefMut};

use serde::de::{DeserializeOwned, Error as _};
use serde::ser::{Error as _, Serializer};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{Role, Verdict};

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
