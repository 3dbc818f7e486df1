//! What a client does, and where it stands.

use crate::application::CloseBy;

/// What a client does about requests of an open loop whose instants passed while it stood still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CatchUp {
    /// All leave at once, as late as they are.
    #[default]
    Keep,
    /// So many leave in each millisecond, as late as they are.
    Cap(u32),
    /// The schedule moves: the latest is due now, and all others later by as much.
    Reanchor,
}

/// What a client does, its pace apart.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Connections that are open at once.
    pub connections: u32,
    /// What arrives is connections: each opens when its instant has come. Otherwise all are open
    /// before the start, and requests arrive.
    pub opens_on_arrival: bool,
    /// Requests of a connection, after which it ends and another one opens; `None`: no end.
    pub requests_each: Option<u32>,
    /// Requests that may be outstanding on a connection.
    pub pipeline: u32,
    /// How this end ends a connection.
    pub close_by: CloseBy,
    /// Requests in all, of this client; `None`: until the time is over.
    pub requests: Option<u64>,
    /// An answer may take this long.
    pub timeout_ns: i64,
    /// How long before its instant a request is prepared.
    pub ahead_ns: i64,
    /// Handshakes that are under way at once before the start.
    pub opening_max: u32,
    /// Requests that wait for a connection; more are given up.
    pub waiting_max: usize,
    /// What to do with requests whose instants passed while the client stood still.
    pub catch_up: CatchUp,
    /// After a connection failed, the next try of its slot waits this long.
    pub retry_ns: i64,
    /// This client's place among those of the run, and how many there are: numbers of requests in a
    /// closed loop leave this rest.
    pub share: (u64, u64),
}

/// Where a client stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Connections open; no request leaves.
    Opening,
    /// Requests leave.
    Running,
    /// No further request leaves; answers are waited for.
    Draining,
    /// Nothing is under way.
    Over,
}
