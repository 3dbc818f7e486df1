//! The switch between the ports of an emulated link, as the certificate describes it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What the switch between more than two ports counted: came + copies = left + dropped.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct EmulatedCore {
    /// `switch`
    pub kind: String,
    /// Frames that came.
    pub came: u64,
    /// Frames that went on to one port, where their destination is.
    pub forwarded: u64,
    /// Frames that went on to all other ports.
    pub flooded: u64,
    /// How many more frames left than came because of that.
    pub copies: u64,
    /// Frames that went nowhere, by reason: `same_port`, `reserved`, `malformed`, `no_port`.
    pub dropped: BTreeMap<String, u64>,
    /// Its table of addresses.
    pub addresses: EmulatedAddresses,
    /// By port.
    pub ports: Vec<EmulatedPort>,
}

/// Frames of one port at the switch.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct EmulatedPort {
    /// Its name.
    pub name: String,
    /// Frames that came to the switch from this port.
    pub came: u64,
    /// Frames that went on to this port.
    pub left: u64,
    /// Addresses that are known there.
    pub addresses: u64,
    /// It vanished while the link was used.
    pub is_gone: bool,
}

/// The account of a table of addresses.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct EmulatedAddresses {
    /// Those in the table.
    pub known: u64,
    /// The room of the table.
    pub known_max: u64,
    /// For so long an address is known that sends nothing.
    pub age_ns: i64,
    /// Times that one came into the table.
    pub learned: u64,
    /// Times that one was seen at another port than before.
    pub moved: u64,
    /// Those forgotten because they had sent nothing for so long.
    pub aged: u64,
    /// Those forgotten because the table was full.
    pub displaced: u64,
}
