//! What `trace.json` and its certificate both hold: the role, the verdict, the machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The role that wrote a trace: the verb of its command, and the key of its section in
/// [`Manifest::configuration`](crate::Manifest::configuration).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// `lineside capture`
    Capture,
    /// `lineside emulate`
    Emulate,
    /// `lineside forward`
    Forward,
    /// `lineside load`
    Load,
    /// `lineside replay`
    Replay,
}

impl Role {
    pub(crate) const ALL: [Self; 5] = [
        Self::Load,
        Self::Replay,
        Self::Forward,
        Self::Emulate,
        Self::Capture,
    ];

    /// Its verb.
    pub fn name(self) -> &'static str {
        match self {
            Self::Capture => "capture",
            Self::Emulate => "emulate",
            Self::Forward => "forward",
            Self::Load => "load",
            Self::Replay => "replay",
        }
    }
}

/// Whether a result holds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verdict {
    /// In one word.
    pub state: State,
    /// Why, in sentences; empty if complete.
    pub reasons: Vec<String>,
    /// Shares from 0 to 1 by name: what is missing of packets, bytes, connections.
    pub shares: BTreeMap<String, f64>,
}

/// The one word of a [`Verdict`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The run goes on, or was killed.
    #[default]
    Unfinished,
    /// Everything was seen.
    Complete,
    /// Something was not seen; the shares state how much.
    Incomplete,
    /// The machine disturbed the run: its times do not hold.
    Disturbed,
    /// A bound was hit, which changed the result.
    Limited,
}

/// The machine that a run used.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// Cores that the process may use.
    pub cores: Option<u64>,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Model of the processor.
    pub cpu_model: Option<String>,
    /// How it was set when the run began, by name; absent in traces of versions without it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}
