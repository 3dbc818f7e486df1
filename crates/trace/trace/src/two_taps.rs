//! What `trace.json` has of two taps of one path.

use serde::{Deserialize, Serialize};

/// Two captures of the same packets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TwoTaps {
    /// The input that is nearer to the server: rows are of this.
    pub server_tap: String,
    /// The other one.
    pub client_tap: String,
    /// Connections that both have.
    pub connections: u64,
    /// Packets of the server's tap whose bytes the other one has.
    pub packets: u64,
    /// From one tap to the other and back, by the fastest packets each way; null if they have
    /// packets of one direction in common.
    pub round_trip_ns: Option<i64>,
    /// How far the clock of the server's tap is ahead, if the fastest packets take as long there as
    /// back.
    pub clock_offset_ns: Option<i64>,
    /// The way to the server, without that offset.
    pub to_server: Option<WayBetween>,
    /// The way back.
    pub to_client: Option<WayBetween>,
    /// Packets that did not come from the client's tap to the server's, and were sent again.
    pub lost_to_server: u64,
    /// The same of the way back.
    pub lost_to_client: u64,
    /// Packets of whose bytes the server's tap has none while it watched the connection.
    pub unseen_by_server_tap: u64,
    /// The same of the other tap.
    pub unseen_by_client_tap: u64,
}

/// How long packets took from one tap to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WayBetween {
    /// The fastest.
    pub least_ns: i64,
    /// The median.
    pub median_ns: i64,
    /// The quantile 0.99.
    pub p99_ns: i64,
}
