//! What a forwarder did: its ports, services and nodes, the table of connections, and the outcomes
//! of frames.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use lineside_measure::Spread;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::judged::Certificate;
use super::run::LoopFacts;
use crate::Role;

/// What a forwarder did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Forward {
    /// When it began, by the clock of all instants here.
    pub began_ns: i64,
    /// How long it ran.
    pub ran_ns: i64,
    /// Frames at each port, and how it is read.
    pub interfaces: Vec<ForwardInterface>,
    /// From the arrival of a frame to the call that handed it over; null if none left.
    pub residence: Option<Spread>,
    /// Frames that came in: as many as all outcomes and those that wait.
    pub arrived: u64,
    /// Frames by outcome.
    pub outcomes: Counts,
    /// Frames that came in and wait for a neighbour or a first fragment.
    pub held: u64,
    /// Frames of its own: answers, questions, checks, pieces.
    pub made: u64,
    /// Frames at each port of the translation.
    pub ports: Vec<ForwardPort>,
    /// Services with their nodes.
    pub services: Vec<ForwardService>,
    /// The table of connections.
    pub table: ForwardTable,
    /// Connections whose handshake was answered here; null: no service asks for it.
    pub splices: Option<ForwardSplices>,
    /// What the driver forwarded past the loop; null without.
    pub driver: Option<ForwardDriver>,
    /// What happened over time.
    pub course: ForwardCourse,
    /// Where payloads lay; null without a payload mode.
    pub payloads: Option<ForwardPayloads>,
    /// What the loop measured of itself.
    #[serde(rename = "loop")]
    pub polling: LoopFacts,
}

impl Certificate for Forward {
    const VERDICT_AT: usize = 0;

    fn is_of(role: Option<Role>) -> bool {
        role == Some(Role::Forward)
    }
}

/// Counts by name, in an order of their own: a map in JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts(Vec<(Cow<'static, str>, u64)>);

impl Counts {
    /// The count of a name; `None` if there is none.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.iter()
            .find(|(known, _)| *known == name)
            .map(|(_, count)| count)
    }

    /// Each with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, count)| (&**name, *count))
    }
}

impl FromIterator<(&'static str, u64)> for Counts {
    fn from_iter<I: IntoIterator<Item = (&'static str, u64)>>(counts: I) -> Self {
        let counts = counts.into_iter();
        Self(counts.map(|(name, count)| (name.into(), count)).collect())
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Counts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Counts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("counts by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Counts, A::Error> {
                let mut counts = Vec::new();
                while let Some((name, count)) = map.next_entry::<String, u64>()? {
                    counts.push((name.into(), count));
                }
                Ok(Counts(counts))
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Counts {
    fn schema_name() -> Cow<'static, str> {
        BTreeMap::<String, u64>::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        BTreeMap::<String, u64>::json_schema(generator)
    }
}

/// Frames at an interface.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardInterface {
    /// The interface.
    pub name: String,
    /// How it is read.
    pub method: String,
    /// Frames that came to the program.
    pub came: u64,
    /// Their bytes.
    pub came_bytes: u64,
    /// Frames that left from it.
    pub left: u64,
    /// Their bytes.
    pub left_bytes: u64,
    /// Frames that never left: the port was down, or they were too long for it.
    pub unsent: u64,
}

/// Frames and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardTraffic {
    /// Frames.
    pub frames: u64,
    /// Their bytes, Ethernet header included.
    pub bytes: u64,
}

/// A port of the translation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardPort {
    /// Its name.
    pub name: String,
    /// What came in.
    pub received: ForwardTraffic,
    /// What left.
    pub sent: ForwardTraffic,
}

/// A service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardService {
    /// `tcp` or `udp`.
    pub transport: String,
    /// Its address and port.
    pub address: String,
    /// Connections that began.
    pub opened: u64,
    /// Connections that are open; the table also has closed ones, for late packets.
    pub connections: u64,
    /// Packets that began none, by outcome.
    pub refused: Counts,
    /// Its nodes.
    pub nodes: Vec<ForwardNode>,
    /// What nodes that were removed had: to them, and from them.
    pub past_nodes: [ForwardTraffic; 2],
}

/// A node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardNode {
    /// Its address and port.
    pub address: String,
    /// Its weight.
    pub weight: u64,
    /// `up`, `down` or `draining`.
    pub state: String,
    /// Connections that began.
    pub opened: u64,
    /// Connections that are open.
    pub connections: u64,
    /// What went to it.
    pub to_node: ForwardTraffic,
    /// What came from it.
    pub from_node: ForwardTraffic,
    /// Checks that succeeded.
    pub checks_good: u64,
    /// Checks that failed.
    pub checks_bad: u64,
    /// What the last check found.
    pub last_check: Option<ForwardFinding>,
    /// When it came up and went down, the latest last.
    pub history: Vec<ForwardChange>,
}

/// A node came up or went down.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardChange {
    /// When, by the clock of [`Forward::began_ns`].
    pub at_ns: i64,
    /// What it is since then.
    pub is_up: bool,
    /// What the check that decided it found.
    pub finding: serde_json::Value,
}

/// What a check found: `good`, `silent`, `refused`, `unreachable`, or `wrong-status` with the
/// status of the answer, 0 if that is no HTTP.
pub type ForwardFinding = serde_json::Value;

/// The table of connections.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardTable {
    /// Connections.
    pub connections: u64,
    /// Handshakes among them that are not finished.
    pub half_open: u64,
    /// The most connections.
    pub connections_max: u64,
    /// Bytes of memory that it takes with all indexes, also while it is not full.
    pub bytes: u64,
    /// Handshakes that made room for others.
    pub evicted: u64,
    /// SYNs that were answered by a cookie, as too many handshakes were half open.
    pub cookies: u64,
    /// Clients whose last node is remembered.
    pub affinities: u64,
}

/// Connections whose handshake was answered here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardSplices {
    /// Connections of which the handshake was finished.
    pub opened: u64,
    /// Those that wait for their client's request, or for a node's answer.
    pub waiting: u64,
    /// Those that were joined with a node's.
    pub spliced: u64,
    /// Those that ended before, by reason.
    pub failed: BTreeMap<String, u64>,
    /// All that was counted.
    pub counters: BTreeMap<String, u64>,
}

/// What the driver forwarded past the loop.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardDriver {
    /// Flows that are in its table.
    pub flows: usize,
    /// Flows that were entered.
    pub entered: u64,
    /// Flows that could not be entered: the loop forwarded them.
    pub refused: u64,
    /// Why, of the latest one; null if there was none.
    pub refused_why: Option<String>,
    /// Frames that it forwarded, as far as they were counted.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// All frames that the driver saw, by outcome.
    pub outcomes: BTreeMap<Cow<'static, str>, u64>,
}

/// Where payloads lay.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardPayloads {
    /// How they were kept.
    pub mode: String,
    /// Entries of the cache.
    pub entries: u64,
    /// Bytes of an entry.
    pub entry_bytes: u64,
    /// So many frames wait before the first leaves.
    pub hold: u64,
    /// Frames to be sent.
    pub came: u64,
    /// Frames that were handed to their port.
    pub left: u64,
    /// Frames whose payload was evicted and is lost, or for which there was no entry.
    pub dropped: u64,
    /// Frames that wait.
    pub waiting: u64,
    /// The most that waited.
    pub queue_max: u64,
    /// Sends whose payload was in the cache.
    pub hits: u64,
    /// Sends whose payload was not any more.
    pub misses: u64,
    /// Bindings that made place, taken from the queue of victims.
    pub evicted_victim: u64,
    /// Bindings that made place, of payloads not yet sent.
    pub evicted_priority: u64,
    /// Bindings that ended because the payload changed or its frame was used again.
    pub invalidated: u64,
    /// Receives and sends for which there was no entry.
    pub past: u64,
    /// Payloads that were copied to the host because they had to make place.
    pub spilled: u64,
    /// Payloads that were copied to the host because the memory of their port ran short.
    pub spilled_dry: u64,
    /// Bytes of payload that were copied to the host.
    pub to_host_bytes: u64,
    /// Bytes of payload that were copied from the host.
    pub to_adapter_bytes: u64,
    /// How often `adaptive` changed its mind.
    pub mode_changes: u64,
}

/// What happened in steps of equal length: each is a list with a value for each step. The last one
/// is not full.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardCourse {
    /// How long a step is.
    pub step_ns: u64,
    /// Connections that began.
    pub opened: Vec<u64>,
    /// Connections in the table as the step ended.
    pub connections: Vec<u64>,
    /// Handshakes among them that were not finished.
    pub half_open: Vec<u64>,
    /// Frames that came to the program.
    pub frames: Vec<u64>,
    /// Frames among them that were for a node or a client, and were lost.
    pub lost: Vec<u64>,
    /// Frames that the driver forwarded past it.
    pub by_driver: Vec<u64>,
    /// The first 64 nodes.
    pub nodes: Vec<ForwardNodeCourse>,
}

/// What happened at a node, in the same steps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardNodeCourse {
    /// `tcp` or `udp`.
    pub transport: String,
    /// The address and port of its service.
    pub service: String,
    /// Its address and port.
    pub node: String,
    /// Connections that began.
    pub opened: Vec<u64>,
}
