//! `trace.json`: what a run was, where it stands, and how far its result can be trusted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::facts::{Machine, Role, Verdict};
use crate::{SCHEMA_VERSION, TwoTaps};

/// The whole of `trace.json`. It is rewritten while a run goes on, and last of all at its end.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Manifest {
    /// [`SCHEMA_VERSION`](crate::SCHEMA_VERSION) of the tables.
    pub schema_version: String,
    /// The program that wrote the trace.
    pub tool: Tool,
    /// The same in every part of the trace.
    pub trace_id: String,
    /// Whether the result holds.
    pub verdict: Verdict,
    /// Whether the run was killed, and the next one closed it; absent if not.
    #[serde(default, skip_serializing_if = "is_false")]
    pub killed: bool,
    /// When the run began, nanoseconds since the Unix epoch.
    pub started_ns: Option<i64>,
    /// When it ended; `None` while it goes on.
    pub ended_ns: Option<i64>,
    /// How blocks are checksummed.
    pub checksum: ChecksumFacts,
    /// What was read; the place in this list is the `input` of rows.
    pub inputs: Vec<InputFacts>,
    /// The clocks of those inputs, in the same order.
    pub clocks: Vec<ClockFacts>,
    /// Inputs that are two taps of one path; absent if none are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub two_taps: Vec<TwoTaps>,
    /// The tables by name.
    pub tables: BTreeMap<String, TableSummary>,
    /// What a run that goes on holds in memory, and a kill loses; absent once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_memory: Option<InMemory>,
    /// Rows that went because they were not to be kept any longer (`--keep`); absent if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<RemovedFacts>,
    /// Every counter of the run by name.
    pub counters: BTreeMap<String, CounterValue>,
    /// When checksums were given up because the run was behind (`--overload no-checksums`): the
    /// first [`RELIEFS_MAX`] times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reliefs: Vec<Relief>,
    /// The last seconds of a live run, at most [`SECONDS_MAX`]; every second with drops has a row
    /// in `losses`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seconds: Vec<Second>,
    /// The programs that measured beside the run (`--drop-in`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drop_ins: Vec<DropInFacts>,
    /// Whether foreign bytes were read in a sandbox; absent in traces of versions without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxFacts>,
    /// The machine it ran on.
    pub machine: Machine,
    /// What the actors did; only of a run on several cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Runtime>,
    /// What a role was asked and did, with its verdict: a [`Judged`](crate::certificate::Judged).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<serde_json::Value>,
    /// The resolved configuration: `--config trace.json` runs it again.
    pub configuration: serde_json::Value,
    /// Fields of a newer minor version, by their paths: nothing here knows them.
    #[serde(skip)]
    pub passed_over: Vec<String>,
}

/// Why a `trace.json` cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// It is no JSON, or a field has another type.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A field that this version does not have.
    #[error("{0}: version {SCHEMA_VERSION} has no such field")]
    Unknown(String),
    /// A field that this version has.
    #[error("{0}: the field is missing")]
    Missing(String),
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// What became of a program that was given heads.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DropInFacts {
    /// Its name; its table is `monitor_NAME`.
    pub name: String,
    /// Its command.
    pub command: String,
    /// Heads that it was given.
    pub heads: u64,
    /// Heads that it missed, since it did not read them in time.
    pub dropped_heads: u64,
    /// The batches in which those were.
    pub dropped_batches: u64,
    /// Rows of its table.
    pub rows: u64,
    /// Why it did not come to its end; absent if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// A program and its version.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tool {
    /// `lineside`
    pub name: String,
    /// Its version.
    pub version: String,
}

/// How blocks of file data are checksummed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChecksumFacts {
    /// `XXH3`, 64 bits.
    pub algorithm: String,
    /// Its seed.
    pub seed: u64,
    /// Bytes in a block.
    pub block_bytes: u32,
}

impl Default for ChecksumFacts {
    fn default() -> Self {
        Self {
            algorithm: "XXH3-64".to_owned(),
            seed: 0,
            block_bytes: crate::BLOCK_BYTES,
        }
    }
}

/// One input of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InputFacts {
    /// The path or interface as given; `-` is standard input.
    pub name: String,
    /// `pcap`, `pcapng`, … with the compression, if any.
    pub format: String,
    /// Numbers of the link types that it declares (LINKTYPE_ values).
    pub link_types: Vec<u16>,
    /// Frames read.
    pub frames: u64,
    /// Bytes of those frames on the wire.
    pub bytes: u64,
    /// Bits a second that its interface claims, of several the fastest; a virtual one may claim
    /// any. Absent if nothing says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_bps: Option<u64>,
    /// What was wrong with it.
    pub warnings: Vec<String>,
    /// How an interface was listened at, and what passed it unseen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveInput>,
}

/// An interface that is listened at, or one of its queues. At the end `arrived` = frames received +
/// `dropped_ring` + `dropped_pool` + `unread`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LiveInput {
    /// `AF_PACKET`, `AF_XDP native` or `AF_XDP generic`.
    pub method: String,
    /// Why that.
    pub reason: String,
    /// The queue, if the interface has several.
    pub queue: Option<u32>,
    /// The longest network packet, in bytes.
    pub mtu_bytes: u32,
    /// Frames that came as far as the port, behind the adapter and the kernel's filter.
    pub arrived: u64,
    /// Frames that the kernel's filter rejected before; null where it does not count them.
    #[serde(default)]
    pub filtered: Option<u64>,
    /// Frames that the adapter or its driver dropped.
    pub dropped_interface: u64,
    /// Frames that found the ring to the port full.
    pub dropped_ring: u64,
    /// Frames for which no memory was free.
    pub dropped_pool: u64,
    /// Frames that had come when the run ended, and were not read any more.
    pub unread: u64,
    /// Times that the clock of the stamps was set.
    pub clock_steps: u64,
}

/// Seconds that [`Manifest::seconds`] holds.
pub const SECONDS_MAX: usize = 300;

/// Times that [`Manifest::reliefs`] holds.
pub const RELIEFS_MAX: usize = 1000;

/// A time in which a live run was behind, and data went without checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Relief {
    /// When it began, nanoseconds since the Unix epoch.
    pub from_ns: i64,
    /// When it ended; `None` while it lasts.
    pub until_ns: Option<i64>,
}

/// About a second of a live run, over all inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Second {
    /// When it ended, nanoseconds since the Unix epoch.
    pub time_ns: i64,
    /// Frames received.
    pub received: u64,
    /// Bytes of them on the wire.
    pub received_bytes: u64,
    /// Of these frames, those that the filter took away.
    pub filtered: u64,
    /// Frames dropped by adapters or their drivers.
    pub dropped_interface: u64,
    /// Frames that found a ring full.
    pub dropped_ring: u64,
    /// Frames for which no memory was free.
    pub dropped_pool: u64,
    /// Bytes of streams given up as lost.
    pub stream_lost_bytes: u64,
    /// Thousandths of what lies between the kernel and the run that waited to be received: the most
    /// seen.
    pub backlog_permille: u16,
    /// Bytes of the memory budget in use.
    pub memory_bytes: u64,
}

/// The clock that stamped an input's frames.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ClockFacts {
    /// The input's name.
    pub input: String,
    /// The least step between two stamps.
    pub resolution_ns: Option<u64>,
    /// Bound of the error of a stamp; `None`: not stated.
    pub error_ns: Option<u64>,
    /// The earliest stamp.
    pub first_ns: Option<i64>,
    /// The latest stamp.
    pub last_ns: Option<i64>,
}

/// What there is of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TableSummary {
    /// Rows in complete parts.
    pub rows: u64,
    /// Complete parts.
    pub parts: u64,
    /// Bytes of those parts.
    pub bytes: u64,
}

/// Operations of a run that are in no part yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InMemory {
    /// As of when, nanoseconds since the Unix epoch, by the machine's clock.
    pub time_ns: i64,
    /// Rows of the table `operations`.
    pub operations: u64,
    /// Operations without a row yet: their reply, or a copy of it, may still come.
    pub waiting: u64,
    /// Calls whose reply has not come, on connections that have not ended.
    #[serde(default)]
    pub calls_waiting: u64,
    /// How long the oldest of these calls has waited; 0 if there is none.
    #[serde(default)]
    pub oldest_wait_ns: u64,
}

/// A run's sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SandboxFacts {
    /// What held: `landlock` (files, networks, signals), `seccomp` (system calls). Empty: none.
    pub holds: Vec<String>,
    /// What did not hold, and why.
    pub missing: Vec<String>,
    /// What the run needs beside what every run does, such as TCP sockets: it makes a sandbox no
    /// less whole.
    #[serde(default)]
    pub allowed: Vec<String>,
}

impl SandboxFacts {
    /// Whether everything held.
    pub fn is_whole(&self) -> bool {
        !self.holds.is_empty() && self.missing.is_empty()
    }

    /// What held, what did not, and what was allowed beside, in words.
    pub fn text(&self) -> String {
        let holds = match self.holds.as_slice() {
            [] => "none".to_owned(),
            holds => holds.join(", "),
        };
        let mut text = match self.missing.as_slice() {
            [] => holds,
            missing => format!("{holds}: {}", missing.join("; ")),
        };
        if !self.allowed.is_empty() {
            text += "; allowed: ";
            text += &self.allowed.join(", ");
        }
        text
    }
}

/// Rows that are no longer there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RemovedFacts {
    /// All rows that were complete after this time are there, nanoseconds since the Unix epoch.
    pub kept_since_ns: Option<i64>,
    /// Rows of all tables.
    pub rows: u64,
    /// Their parts.
    pub parts: u64,
    /// The bytes of those.
    pub bytes: u64,
}

/// A counter with what it counts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CounterValue {
    /// How many.
    pub value: u64,
    /// Of what.
    pub meaning: String,
}

/// What the actors of a run did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Runtime {
    /// `stealing` or `pinned`.
    pub scheduler: String,
    /// From the start of the schedulers to the end of the last actor.
    pub wall_ns: u64,
    /// One for each core.
    pub schedulers: Vec<SchedulerFacts>,
    /// In the order of their creation.
    pub actors: Vec<ActorFacts>,
    /// Messages from actor to actor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traffic: Vec<TrafficFacts>,
}

/// What a scheduler did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SchedulerFacts {
    /// Messages handled.
    pub messages: u64,
    /// Times an actor was given the scheduler.
    pub activations: u64,
    /// Times it took actors from another scheduler.
    pub steals: u64,
    /// Messages to actors at home on another scheduler.
    pub remote_sends: u64,
    /// Most actors seen waiting for it.
    pub queue_max: u64,
    /// Times it went to sleep.
    pub parks: u64,
    /// Time it looked for work or slept.
    pub idle_ns: u64,
    /// Time it ran altogether.
    pub total_ns: u64,
}

/// What an actor did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ActorFacts {
    /// Such as `pipeline-0`.
    pub name: String,
    /// The scheduler that is its home, under `pinned`.
    pub home: u64,
    /// Messages handled: each is a batch.
    pub messages: u64,
    /// Times it was given a scheduler.
    pub activations: u64,
    /// Its queue was never longer.
    pub queue_max: u64,
}

/// Messages from one actor to another, each by its name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TrafficFacts {
    /// The sender.
    pub from: String,
    /// The receiver.
    pub to: String,
    /// How many: each is a batch.
    pub messages: u64,
}

impl Manifest {
    /// The text of `trace.json`.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("every key is a text");
        text.push('\n');
        text
    }

    /// The role that wrote it; `None` if it has no configuration.
    pub fn role(&self) -> Option<Role> {
        { Role::ALL.into_iter() }.find(|&role| self.section(role).is_some())
    }

    /// The configuration of a role.
    pub fn section(&self, role: Role) -> Option<&serde_json::Value> {
        self.configuration.get(role.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;

    /// Before 2.5 the first reason of a run that was killed began with the word.
    #[test]
    fn a_killed_run_is_known_by_its_field_or_an_older_reason() {
        let mut manifest = Manifest {
            schema_version: SCHEMA_VERSION.to_owned(),
            ..Manifest::default()
        };
        let reason = "killed: it has no operation, and what came is missing";
        manifest.verdict.reasons.push(reason.to_owned());
        let killed = |manifest: &Manifest| {
            let read = Manifest::from_json(&manifest.to_json());
            read.expect("readable").killed
        };
        assert!(!killed(&manifest));
        manifest.killed = true;
        assert!(killed(&manifest));
        manifest.killed = false;
        manifest.schema_version = "2.4".to_owned();
        assert!(killed(&manifest));
    }

    #[test]
    fn a_role_is_the_section_of_its_configuration() {
        for role in Role::ALL {
            let manifest = Manifest {
                configuration: serde_json::json!({ role.name(): {} }),
                ..Manifest::default()
            };
            assert_eq!(manifest.role(), Some(role));
            let word = serde_json::to_value(role).expect("a word");
            assert_eq!(word, role.name());
        }
        assert_eq!(Manifest::default().role(), None);
    }

    #[test]
    fn a_manifest_survives_its_text() {
        let mut manifest = Manifest {
            schema_version: SCHEMA_VERSION.to_owned(),
            started_ns: Some(1),
            configuration: serde_json::json!({"capture": {"late_window": "2ms"}}),
            ..Manifest::default()
        };
        manifest.verdict.state = State::Incomplete;
        manifest.verdict.shares.insert("packets".to_owned(), 0.25);
        manifest.inputs.push(InputFacts::default());
        manifest
            .tables
            .insert("operations".to_owned(), TableSummary::default());
        let text = manifest.to_json();
        assert!(text.contains(r#""state": "incomplete""#), "{text}");
        assert_eq!(Manifest::from_json(&text).expect("readable"), manifest);
    }

    #[test]
    fn what_a_run_needs_beside_leaves_its_sandbox_whole() {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let facts = |holds: &[&str], missing: &[&str]| SandboxFacts {
            holds: words(holds),
            missing: words(missing),
            allowed: words(&["TCP sockets", "UDP sockets"]),
        };
        let whole = facts(&["landlock", "seccomp"], &[]);
        assert!(whole.is_whole());
        assert_eq!(
            whole.text(),
            "landlock, seccomp; allowed: TCP sockets, UDP sockets"
        );
        assert!(!facts(&["seccomp"], &["landlock: too old"]).is_whole());
        assert!(!facts(&[], &["--no-sandbox"]).is_whole());
        assert!(!facts(&[], &[]).is_whole());
        let older = r#"{"holds": ["seccomp"], "missing": []}"#;
        let older: SandboxFacts = serde_json::from_str(older).expect("readable");
        assert!(older.is_whole() && older.allowed.is_empty());
    }
}
