//! What the certificate of a forwarder holds.

use std::collections::BTreeMap;

use lineside_trace::State;
use serde::{Deserialize, Serialize};

/// What a forwarder did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Forwarding {
    /// Whether anything is missing.
    #[serde(skip_deserializing)]
    pub verdict: Option<State>,
    /// Why.
    #[serde(skip_deserializing)]
    pub reasons: Vec<String>,
    /// When it began, nanoseconds since the Unix epoch.
    #[serde(skip_deserializing)]
    pub started_ns: i64,
    /// The same by the clock of all other instants here.
    pub began_ns: i64,
    /// How long it ran.
    pub ran_ns: i64,
    /// Frames at each port.
    pub interfaces: Vec<ForwardingPort>,
    /// Services with their nodes.
    pub services: Vec<ForwardingService>,
    /// The table of connections.
    pub table: ForwardingTable,
    /// What became of frames, by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// From a frame's arrival to the call that handed it over; null if none left.
    pub residence: Option<ForwardingTimes>,
    /// What the driver forwarded past the program; null without.
    pub driver: Option<ForwardingDriver>,
    /// Where payloads lay; null without a payload mode.
    pub payloads: Option<ForwardingPayloads>,
    /// What happened over time.
    pub course: ForwardingCourse,
}

/// Frames at a port.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardingPort {
    /// The interface.
    pub name: String,
    /// How it was read.
    pub method: String,
    /// Frames that came to the program.
    pub came: u64,
    /// Frames that left from it.
    pub left: u64,
    /// Frames that never left: the port was down, or they were too long for it.
    pub unsent: u64,
}

/// A service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardingService {
    /// `tcp` or `udp`.
    pub transport: String,
    /// Its address and port.
    pub address: String,
    /// Connections that began.
    pub opened: u64,
    /// Connections in the table.
    pub connections: u64,
    /// Its nodes.
    pub nodes: Vec<ForwardingNode>,
}

/// A node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardingNode {
    /// Its address and port.
    pub address: String,
    /// Its weight.
    pub weight: u64,
    /// `up`, `down` or `draining`.
    pub state: String,
    /// Connections that began.
    pub opened: u64,
    /// Connections in the table.
    pub connections: u64,
    /// Checks that succeeded.
    pub checks_good: u64,
    /// Checks that failed.
    pub checks_bad: u64,
    /// When it came up and went down, the latest last.
    pub history: Vec<ForwardingChange>,
}

/// A node came up or went down.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardingChange {
    /// When, by the clock of `began_ns`.
    pub at_ns: i64,
    /// What it is since then.
    pub is_up: bool,
    /// What the check that decided it found.
    pub finding: serde_json::Value,
}

/// The table of connections.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardingTable {
    /// Connections.
    pub connections: u64,
    /// Handshakes among them that are not finished.
    pub half_open: u64,
    /// The most connections.
    pub connections_max: u64,
    /// Handshakes that made room for others.
    pub evicted: u64,
    /// SYNs that were answered by a cookie, as too many handshakes were half open.
    pub cookies: u64,
}

/// A distribution of times.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardingTimes {
    /// Half of them are at most this.
    pub p50_ns: i64,
    /// 99 %.
    pub p99_ns: i64,
    /// The longest.
    pub max_ns: i64,
}

/// What the driver forwarded past the program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardingDriver {
    /// Frames.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Flows that were entered.
    pub entered: u64,
    /// Flows that could not be.
    pub refused: u64,
    /// Why, of the latest one; null if there was none.
    pub refused_why: Option<String>,
    /// What became of all frames that the driver saw, by outcome.
    pub outcomes: BTreeMap<String, u64>,
}

/// Where payloads lay.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardingPayloads {
    /// How they were kept.
    pub mode: String,
    /// Entries of the cache.
    pub entries: u64,
    /// Bytes of an entry.
    pub entry_bytes: u64,
    /// Frames that were to be sent.
    pub came: u64,
    /// Frames whose payload was lost.
    pub dropped: u64,
    /// The most frames that waited.
    pub queue_max: u64,
    /// Sends whose payload was in the cache.
    pub hits: u64,
    /// Sends whose payload was not any more.
    pub misses: u64,
    /// Payloads that were copied to the host to make place.
    pub spilled: u64,
    /// Payloads that were copied to the host because their port ran short of memory.
    pub spilled_dry: u64,
    /// Bytes of payload that were copied to the host.
    pub to_host_bytes: u64,
    /// Bytes of payload that were copied back.
    pub to_adapter_bytes: u64,
}

/// What happened in steps of equal length: each is a list with a value for each step. The last step
/// is not full.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardingCourse {
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
    pub nodes: Vec<ForwardingNodeCourse>,
}

/// What happened at a node, in the same steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardingNodeCourse {
    /// `tcp` or `udp`.
    pub transport: String,
    /// The address and port of its service.
    pub service: String,
    /// Its address and port.
    pub node: String,
    /// Connections that began.
    pub opened: Vec<u64>,
}
