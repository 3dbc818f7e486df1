//! Something that stands out in a trace.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

/// Where the trouble is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Between clients and server.
    Network,
    /// The server, or what lies behind it.
    Server,
    /// A client.
    Client,
    /// Where the tap was, it cannot be told.
    CannotTell,
}

/// Something that stands out, with what is usually done about it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// What it is, in a word that stays: `attributes`, `stale`; `docs/guide/report.md` lists them.
    pub kind: &'static str,
    /// Where the trouble is; null if it is about no trouble with a place.
    pub place: Option<Place>,
    /// When it began; null if it is about all of the chosen time.
    pub since_ns: Option<i64>,
    /// When it ended; null likewise, or because it had not ended.
    pub until_ns: Option<i64>,
    /// Which client, file or connection; empty if it is about all.
    pub who: String,
    /// What happened, and how much: a sentence without its period.
    pub what: String,
    /// What shows it; may be empty.
    pub evidence: String,
    /// What to do: a sentence without its period.
    pub advice: String,
    /// The time that clients waited because of it, added up over their operations; 0 if that is
    /// not known.
    pub lost_ns: u64,
    /// Data are at stake, or the times of the trace: it comes before all others.
    pub severe: bool,
    /// Something failed, or was never answered: it comes before what could be faster.
    pub failed: bool,
    /// The share of operations it is about, of all chosen.
    pub operations_share: f64,
    /// The thresholds that it passed, and its numbers. Names end in their unit.
    pub basis: BTreeMap<&'static str, Value>,
}
