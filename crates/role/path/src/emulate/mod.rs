//! The runs of `emulate` between live ports, from opening these to the certificate.
//!
//! ```text
//!  Between: interfaces ──────┐                      ┌─► Outcome: certificate, facts of the loop
//!  Commands: programs ───────┴─► LiveLoop ─► turns ─┤
//!                                  ▲                └─► Event: what the user should know meanwhile
//!  thread: Controlled ── Change ───┘
//! ```
//!
//! * [`Between`], [`Commands`] and [`Nodes`] open their ports, drop privileges and decide when the
//!   run ends; all turn the loop by the same function.
//! * [`Controlled`] takes requests at the socket of the run's folder in a thread of its own. The
//!   loop does one of the things that they ask for between two turns.
//! * Not here: the words of a command line and of requests, and printing.

mod between;
mod carrier;
mod commands;
mod control;
mod error;
mod host_end;
mod look;
mod nodes;
mod taking;
mod tapping;
mod turns;

pub use between::{Between, open_interfaces};
pub use commands::{CLIENT, Commands, INTERFACE, SERVER, Way};
pub use control::{Asked, ChangeSender, Controlled};
pub use error::EmulationError;
pub use host_end::HostEnd;
pub use nodes::{NodeLink, NodeOutcome, NodePlan, Nodes, NodesRan, Trouble, node_end};
pub use taking::{Taken, Taking, TakingError, Wanted, note_steps, places};
pub use tapping::Tapping;
pub use turns::{Event, Outcome};
