//! What a protocol's settings are read from: a URL and keys of `[load]`.

use lineside_http::Url;
use lineside_words::parse_share;
use lineside_workload::{Sizes, Unit};
use serde_json::{Map, Value};

/// The longest file that a setting names: of gaps, of times, of sizes.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A setting of a load that cannot be used, and how to mend it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

impl UsageError {
    /// With this text.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The error of a module that has its own.
    pub(crate) fn of(error: impl ToString) -> Self {
        Self(error.to_string())
    }
}

/// The URL and the keys of a load, as its protocol reads them.
#[derive(Debug, Clone, Copy)]
pub struct Words<'a> {
    /// The URL.
    pub url: &'a str,
    /// The URL after its scheme.
    pub rest: &'a str,
    /// The keys of all protocols, by name; null if one was not set.
    pub keys: &'a Map<String, Value>,
    /// Seeds all draws.
    pub seed: u64,
    /// How long an answer may take.
    pub timeout_ns: i64,
    /// Sizes of bulk data of a preset, if the URL gives none.
    pub preset_sizes: Option<&'static str>,
}

impl<'a> Words<'a> {
    /// The text of a key.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        self.keys.get(key)?.as_str()
    }

    /// The texts of a key that has several.
    pub fn texts(&self, key: &str) -> Vec<&'a str> {
        let list = self.keys.get(key).and_then(Value::as_array);
        let texts = list.into_iter().flatten();
        texts.filter_map(Value::as_str).collect()
    }

    /// The number of a key.
    pub fn count(&self, key: &str) -> Option<u32> {
        self.keys.get(key)?.as_u64()?.try_into().ok()
    }

    /// Whether a key is true.
    pub fn is_set(&self, key: &str) -> bool {
        self.keys.get(key).and_then(Value::as_bool) == Some(true)
    }

    /// Something is wrong with the URL.
    pub(crate) fn wrong(&self, why: impl ToString) -> UsageError {
        UsageError(format!("{}: {}", self.url, why.to_string()))
    }

    /// The URL up to its query, and the value of the query's only parameter; `form` shows it.
    pub(crate) fn parameter(
        &self,
        name: &str,
        form: &str,
    ) -> Result<(&'a str, Option<&'a str>), UsageError> {
        let (at, query) = self.rest.split_once('?').unwrap_or((self.rest, ""));
        match query
            .strip_prefix(name)
            .and_then(|value| value.strip_prefix('='))
        {
            None if !query.is_empty() => {
                Err(self.wrong(format!("'{query}' is unknown here: write {form}")))
            }
            value => Ok((at, value)),
        }
    }

    /// Host and port of `at`, a URL without scheme, path and query, whose whole form is `form`.
    pub(crate) fn server(&self, at: &str, port: u16, form: &str) -> Result<Url, UsageError> {
        let mut url = Url::parse(&format!("http://{at}")).map_err(|error| self.wrong(error))?;
        if url.target != "/" {
            return Err(self.wrong(format!("there are no paths here: write {form}")));
        }
        let after_address = at.trim_end_matches('/').rsplit(']').next();
        if !after_address.is_some_and(|rest| rest.contains(':')) {
            url.port = port;
        }
        Ok(url)
    }
}

/// Sizes in words; `setting` names them in errors.
pub(crate) fn sizes(setting: &'static str, words: &str) -> Result<Sizes, UsageError> {
    Sizes::parse(setting, words, Unit::Bytes, &mut read_file).map_err(UsageError::of)
}

/// A file that words name.
pub fn read_file(name: &str) -> Result<String, String> {
    let len = std::fs::metadata(name)
        .map_err(|error| format!("'{name}': {error}"))?
        .len();
    if len > FILE_BYTES_MAX {
        return Err(format!("'{name}' is longer than 64 MiB"));
    }
    std::fs::read_to_string(name).map_err(|error| format!("'{name}': {error}"))
}

/// A share: `1%` or `0.01`.
pub fn share(text: &str) -> Result<f64, String> {
    parse_share(text).ok_or_else(|| format!("'{text}' is not a share: write 1% or 0.01"))
}

#[cfg(test)]
pub(crate) mod test {
    use std::sync::LazyLock;

    use super::*;

    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

    /// A URL, and no key.
    pub(crate) fn words(url: &str) -> Words<'_> {
        Words {
            url,
            rest: url.split_once("://").map_or("", |(_, rest)| rest),
            keys: &NONE,
            seed: 1,
            timeout_ns: 1,
            preset_sizes: None,
        }
    }
}
