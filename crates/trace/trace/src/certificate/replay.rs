//! What a replay was asked, what it did, and how its answers differ from the source's.

use std::collections::BTreeMap;

use lineside_measure::Spread;
use serde::{Deserialize, Serialize};

use super::judged::Certificate;
use crate::Role;

/// What came of a replay.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Replay {
    /// What was asked.
    pub asked: Asked,
    /// Seconds from the first call to the last reply.
    pub duration_s: f64,
    /// The same in the source.
    pub source_duration_s: f64,
    /// Calls.
    pub calls: Calls,
    /// Statuses beside the source's.
    pub statuses: Statuses,
    /// Calls that had to wait for earlier ones, and those of them that did.
    pub edges: Edges,
    /// How much later than meant calls were made, nanoseconds; null without calls.
    pub issue_time: Option<Spread>,
    /// What the server has not, with what was done instead: counts by name.
    pub repairs: BTreeMap<String, u64>,
    /// Connections that were opened, and times that one broke and was opened again.
    pub connections: u64,
    /// See `connections`.
    pub broken: u64,
    /// Turns of the loop of more than 1 ms that did not wait, the longest of them, and their sum.
    pub stalls: u64,
    /// See `stalls`.
    pub stall_max_ns: i64,
    /// See `stalls`.
    pub stalled_ns: i64,
    /// Why it ended early; empty if it did not.
    pub failure: String,
}

/// What a replay was to do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Asked {
    /// The source.
    pub trace: String,
    /// The source's id, as its `trace.json` has it.
    pub trace_id: String,
    /// Where to.
    pub url: String,
    /// `closed`, `open` or `fast`.
    pub pace: String,
    /// Times of the source are divided by this.
    pub speed: f64,
    /// User and group of all calls; null: those of the source.
    pub user: Option<String>,
    /// How many times the workload was run at once, each in a directory of its own.
    pub clients: u64,
}

/// Calls of a replay, of all its clients. `source` = `made` + all of `left_out`, unless it ended
/// early.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Calls {
    /// Calls of the source's clients, without those that flags did not choose.
    pub source: u64,
    /// Calls that were made.
    pub made: u64,
    /// Those of them that were answered.
    pub answered: u64,
    /// Those whose reply did not come.
    pub lost: u64,
    /// Those of them that the source's server had not answered.
    pub unanswered_in_source: u64,
    /// Calls that were not made, by reason: `program`, `arguments`, `session`, `handle`, `value`,
    /// `service`.
    pub left_out: BTreeMap<String, u64>,
    /// Calls that flags did not choose, and that are not needed.
    pub not_chosen: u64,
    /// Calls of `source` that flags did not choose, and that chosen ones need.
    pub needed: u64,
    /// Callbacks of the source, which are not made.
    pub callbacks: u64,
    /// Calls that the source's transport repeated, which are not made again.
    pub repeats: u64,
    /// Replies of the source whose call was not seen.
    pub not_seen: u64,
    /// Calls that had Kerberos, and are made with AUTH_SYS.
    pub kerberos_as_sys: u64,
    /// Calls that went over UDP, and are made over TCP.
    pub udp_over_tcp: u64,
    /// Bytes of WRITEs.
    pub written_bytes: u64,
}

/// Statuses of operations beside the source's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Statuses {
    /// Operations that have a status in both.
    pub compared: u64,
    /// Those of them with the same.
    pub same: u64,
    /// The others, the most frequent first.
    pub differing: Vec<Differing>,
}

/// A status that is not the source's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Differing {
    /// The operation.
    pub operation: String,
    /// The source's status.
    pub source: String,
    /// The other one.
    pub found: String,
    /// How often.
    pub count: u64,
}

/// Edges of the plan between calls that were made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Edges {
    /// All of them.
    pub all: u64,
    /// Those whose later call was made after the reply to the earlier one.
    pub kept: u64,
}

impl Certificate for Replay {
    const VERDICT_AT: usize = usize::MAX;

    fn is_of(role: Option<Role>) -> bool {
        role == Some(Role::Replay)
    }
}
