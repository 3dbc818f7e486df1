//! Connections that are answered here first, and then joined to a node: SYN proxy and content
//! switch.
//!
//! ```text
//!  client                         here                                node
//!    │ SYN ───────────────────────► nothing is kept                     │
//!    │ ◄───────────── SYN/ACK: its number is a cookie                   │
//!    │ ACK ───────────────────────► the cookie is right: an entry       │
//!    │ GET /img/1 ────────────────► acknowledged and kept, until the    │
//!    │                              rules can decide                    │
//!    │                              SYN with the client's number ─────► │
//!    │                              ◄───────────────────────── SYN/ACK  │
//!    │                              ACK, GET /img/1 ──────────────────► │
//!    │ ◄══════════════════ spliced: a difference of numbers ══════════► │
//!    │                              the request is acknowledged: the    │
//!    │                              entry goes, the difference stays    │
//! ```
//!
//! * A SYN costs no memory: [`Splices::on_client`] answers it by a SYN cookie
//!   ([`lineside_tcp::cookie`]), and the client's acknowledgement brings back its options.
//! * An entry lives from that acknowledgement until the node has acknowledged the request that is
//!   replayed to it. Then a [`Splice`] is all that is left, in the caller's table.
//! * What client and node agree on is what the answer to the client's SYN offered, a service's
//!   [`Offer`]: a node that does not use timestamps where it offers them is refused. A node without
//!   selective acknowledgements ignores the client's, one with another window shift has its windows
//!   translated. Congestion notification is not agreed on.
//! * The rules decide once for each connection. Later requests of the same one go to the same node.
//! * A client whose handshake's last segment is lost, and who waits for the server to speak first,
//!   waits in vain: of it nothing is known here. That is the price of cookies, RFC 4987, 3.6.
//! * Not here: addresses, ports, frames, the choice among nodes. The caller has them: see
//!   [`Effects`].

mod client;
mod counters;
mod emit;
mod engine;
mod entry;
mod node;
mod request;
mod rewrite;
mod rules;
pub mod tls;

use std::net::SocketAddr;

use lineside_time::Nanoseconds;
use lineside_wire::SeqNumber;
use lineside_wire::build::TcpFields;
use lineside_wire::tcp::Segment;

pub use counters::{Counters, Report};
pub use engine::Splices;
pub use rewrite::{Splice, Way};
pub use rules::{Group, Rule, RuleError, Rules, Verdict};

/// Bounds and times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Connections that are answered and have no node yet, or whose request is being replayed.
    pub entries_max: u32,
    /// The most bytes that are kept of a request; at most 65,535. A longer one goes where those go
    /// that no rule takes.
    pub request_bytes_max: u32,
    /// A client has this long to make its request.
    pub request_timeout_ns: Nanoseconds,
    /// A SYN to a node is sent again after this time, then after twice that.
    pub connect_timeout_ns: Nanoseconds,
    /// SYNs that a node is sent before it counts as silent.
    pub connect_tries: u8,
    /// Nodes that are asked before the client is refused.
    pub nodes_max: u8,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            // As many as the endpoint has half open.
            entries_max: 1 << 12,
            // Twice what nginx and Apache take of a request's head by default.
            request_bytes_max: 16 << 10,
            // HAProxy's guides have 5 to 10 s for the same.
            request_timeout_ns: 10_000_000_000,
            // RFC 6298, 2.1.
            connect_timeout_ns: 1_000_000_000,
            connect_tries: 3,
            nodes_max: 3,
        }
    }
}

/// What the answer to a client's SYN offers: what all nodes of the service can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// The longest segment that the nodes take.
    pub mss: u16,
    /// By how many bits windows are shifted; that of the nodes needs no translation.
    pub window_scale: u8,
    /// Selective acknowledgements.
    pub sack: bool,
    /// Timestamps; without them a cookie has no place for a shift and for SACK, which are then not
    /// offered.
    pub timestamps: bool,
}

impl Default for Offer {
    fn default() -> Self {
        Self {
            // Ethernet, IPv6: fits both families.
            mss: 1440,
            // What Linux chooses with its default buffers.
            window_scale: 7,
            sack: true,
            timestamps: true,
        }
    }
}

/// A service whose connections are answered here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Service {
    /// How the first request decides; `None`: a SYN proxy, whose connections all go to group 0 as
    /// soon as their handshake is over.
    pub rules: Option<Rules>,
    /// Nodes of each group that the rules name, for the caller: the engine does not read them. A
    /// group that is not here has all.
    pub groups: Vec<Vec<SocketAddr>>,
    /// What clients are offered.
    pub offer: Offer,
}

/// A segment that arrived.
#[derive(Debug, Clone, Copy)]
pub struct Arrived<'a> {
    /// The end that sent it, and the end that it is for.
    pub ends: [SocketAddr; 2],
    /// Header and payload: [`Segment::new_checked`].
    pub segment: Segment<&'a [u8]>,
    /// The checksum covers the pseudo-header only:
    /// [`TcpHeader::checksum_offloaded`](lineside_wire::TcpHeader).
    pub checksum_offloaded: bool,
    /// Where it came from, in a word of the caller's own.
    pub from: u64,
}

/// What two halves have become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Joined {
    /// How their numbers differ.
    pub splice: Splice,
    /// By how many bits the client's windows are shifted, and the node's.
    pub scales: [u8; 2],
    /// The next number that each sends, in its own numbers.
    pub next: [SeqNumber; 2],
}

/// What the caller is to do with a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing: it was meant for this engine.
    Taken,
    /// It goes on, rewritten: [`Splice::rewrite`].
    Pass(Splice),
    /// It belongs to no connection here.
    Unknown,
}

/// Takes what the engine does. No call comes back into the engine.
pub trait Effects {
    /// A segment leaves from one end to the other: to a client ([`Way::ToClient`]), with the word
    /// that [came](Arrived::from) from there, or to a node.
    fn transmit(
        &mut self,
        way: Way,
        ends: [SocketAddr; 2],
        to: u64,
        fields: &TcpFields<'_>,
        payload: &[u8],
    );
    /// Chooses a node for a connection, whose `ends` are client and service: of a group, this many
    /// nodes of which have failed before. `from` is the client's word. Returns an end of the
    /// caller's own that nothing else uses, and the node. `None`: there is no other node, or no
    /// port.
    fn choose(
        &mut self,
        service: u32,
        chosen: (Group, u8),
        ends: [SocketAddr; 2],
        from: u64,
    ) -> Option<[SocketAddr; 2]>;
    /// A chosen node refused or did not answer, or the connection is over before it did: the ends
    /// are free again.
    fn release(&mut self, node_ends: [SocketAddr; 2], why: Failed);
    /// From now on segments between client and service go to the node and back, rewritten; those
    /// of both sides still come here first until [`finish`](Self::finish).
    fn splice(&mut self, node_ends: [SocketAddr; 2], joined: &Joined);
    /// The node has all of the request, or one of both sides has reset the connection: segments of
    /// both sides need not come here any more.
    fn finish(&mut self, node_ends: [SocketAddr; 2]);
    /// A spliced connection is over, because the node does not acknowledge its request.
    fn abort(&mut self, node_ends: [SocketAddr; 2]);
}

/// Why a node does not get a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failed {
    /// It answered by a RST.
    Refused,
    /// It did not answer.
    Silent,
    /// Its answer has no timestamps, which the client was offered.
    Options,
    /// The client ended the connection first.
    Client,
}
