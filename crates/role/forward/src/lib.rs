//! A NAT and load balancer between live ports: one virtual address, many nodes, no payload touched.
//!
//! ```text
//!  port 0 ─► Nat: whose, to which node ─► port 1        Forwarder, the engine of a polling loop
//!    ▲  └──────────────┬──────────────────► port n
//!  driver: decided flows do not come up    requests between two turns ◄── thread at the socket
//!                                          table ──► file, for the next process
//! ```
//!
//! * The outcome of a frame is decided in `lineside-balancer`, which has neither ports nor a
//!   clock.
//! * A [`Forwarder`] is that engine in the polling loop of `lineside-reactor`; [`Forward`] opens
//!   the ports, drops the privileges and turns the loop until its end.
//! * With a payload mode, frames wait in a queue, and the payload cache says where their payloads
//!   lie meanwhile.
//! * [`settings`] reads the words of services and of requests; these are answered between two
//!   turns, so that a change is never half made.
#![forbid(unsafe_code)]

mod course;
mod driver;
mod error;
mod forwarder;
mod outcome;
mod payloads;
mod requests;
mod run;
pub mod settings;
mod table;

pub use course::{Course, CourseOfNode};
pub use driver::Driver;
pub use error::ForwardError;
pub use forwarder::{Forwarder, Passed};
pub use outcome::{Certificate, Outcome};
pub use payloads::{Departure, PayloadSettings, Payloads};
pub use requests::{Asked, Controlled};
pub use run::{ByDriver, Event, Forward, Opened, Tapping, interfaces};
pub use table::{TableFile, has_no_table, read_table};
