//! Stateful load: when each request was meant to leave, when it left, and what came of it.
//!
//! ```text
//!  models (workload) ─► Client ─ Application ─┬─ StackLoop ─ Reactor ─ ports    our own TCP
//!                       Server ─ callbacks ───┴─ SocketLoop ─ epoll             the kernel's
//! ```
//!
//! * An [`Application`] hears of connections by callbacks that never block, and queues what it
//!   wants in [`Calls`]. Two transports drive it: [`StackLoop`], our own TCP over live ports, and
//!   [`SocketLoop`], the kernel's sockets, which need no privilege.
//! * Two timers: tasks wait in a wheel, at the level of requests; what is built waits for its
//!   instant in [`Departures`], at the level of frames, and the loop spins on it.
//! * [`client`] decides what leaves when, by models that know nothing of each other; [`protocol`]
//!   says what it is; [`server`] answers.
#![forbid(unsafe_code)]

pub mod agents;
mod application;
pub mod certificate;
pub mod client;
pub mod confine;
mod datagram_server;
mod departures;
pub mod directed;
pub mod director;
mod distributor;
pub mod error;
pub mod gathering;
pub mod hdr;
pub mod launch;
mod one_way;
pub mod outcome;
mod patient;
pub mod peer;
pub mod prepared;
pub mod protocol;
pub mod recording;
pub mod results;

mod rows;
pub mod run;
pub mod search;
pub mod serve;
pub mod server;
pub mod settings;
pub mod so_far;
mod socket_loop;
mod stack_loop;
pub mod stack_transport;
pub mod tap;
pub mod timetable;
pub mod words;
mod worker;
mod worker_handoff;

pub use application::{Application, Calls, CloseBy, ConnectionId, End, Reason, SocketId};
pub use datagram_server::DatagramService;
pub use departures::Departures;
pub use patient::Patience;
pub use rows::{RowSource, Rows, rows};
pub use socket_loop::{ListenError, SocketLoop, SocketLoopCounters};
pub use stack_loop::{Leaving, StackLoop, StackLoopCounters};
pub use worker::{
    DriveError, DriveFacts, Driver, Ends, Load, News, Order, Second, Timing, WorkerResults, drive,
};
pub use worker_handoff::{SiblingCounts, Siblings, siblings};
