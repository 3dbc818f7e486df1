//! A load balancer and network address translator as an engine: it is given frames and the time,
//! and returns frames with other headers. No socket, no thread, no clock.
//!
//! ```text
//!  client ─► (virtual address) Nat (NAT address) ─► node
//!
//!  on_frame ─► Packet::read ─┬─► control: ARP, neighbour discovery, echoes, ICMP errors
//!                            ├─► fragments: where their first went
//!                            └─► forward: table ─┬─► follow ─► rewrite ─► leave, or wait
//!                                                └─► choose a node, a port number; enter
//!  on_timer ─► connections, affinities, fragments, checks of nodes, neighbours
//! ```
//!
//! * It owns its addresses: no host has them. Clients are answered where their last frame came
//!   from; nodes are reached by neighbours and routes.
//! * Payloads are neither read nor moved: a frame is rewritten where it lies, and checksums follow
//!   by differences, finished or left to a card ([`complete_checksum`]).
//! * Each frame that comes in has one [`Outcome`], or waits ([`Nat::held`]).
//! * Tables are drawn on a budget. When the table of connections or a node's port numbers are used
//!   up, those make room that would be missed least: closed ones, then answered UDP, handshakes
//!   that are not finished, unanswered UDP, idle ones; never TCP in use.
//! * A service may have its handshakes answered here, and its first requests read: [`proxy`].
//!
//! Not here: sockets; of protocols above TCP and UDP more than a check's status line and what
//! [`proxy`] reads.
//!
//! [`complete_checksum`]: lineside_wire::complete_checksum
#![forbid(unsafe_code)]

mod affinity;
mod change;
mod checking;
mod choice;
mod control;
mod counters;
mod cut;
mod driver;
mod effects;
mod follow;
mod forward;
mod fragmented;
mod fragments;
mod health;
mod joints;
mod make;
mod nat;
mod open;
mod packet;
mod pool;
mod ports;
mod proxied;
pub mod proxy;
mod report;
mod rewrite;
mod room;
mod save;
mod settings;
mod shelves;
mod table;

pub use change::{Change, ChangeError, ServiceName};
pub use counters::{Outcome, Outcomes};
pub use effects::{Decision, Effects, FlowKey, Outgoing, Translation};
pub use health::{Change as HealthChange, Finding};
pub use nat::Nat;
pub use pool::Traffic;
pub use report::{
    ExplainError, Explanation, NodeReport, NodeState, PortReport, Report, ServiceReport,
    TableReport, Why,
};
pub use save::RestoreError;
pub use settings::{
    Choice, Health, HttpCheck, NAT_ADDRESSES_MAX, NODES_MAX, NodeSettings, OnLoss, PORTS_MAX,
    PortSettings, Route, Service, Settings, SettingsError, Timeouts, Transport, WEIGHT_MAX,
};
