//! How long a workload would take over another network.
//!
//! ```text
//!             ready ─► thread's turn ─► client's stack ─► link ─► server's stack ─► server time
//!   replies ─► edges                        ▲                                           │
//!      ▲                                    └──────────── link ◄──── server's stack ◄───┘
//!      └────────────────────────────────────┘
//! ```
//!
//! The calls of a plan go, in virtual time, over the TCP of `lineside-tcp` at both ends, and over
//! an emulated link each way. A call is made when what it waits for is there: the replies that it
//! needs, the time of thought after one of them, and the calls of its thread before it. The server
//! takes as long for each as it took when the workload was captured. Handshakes, slow start, losses
//! and queues are those of the endpoints and links; bytes are counted, not made.
//!
//! What it leaves out: other traffic; processors; what servers and clients do otherwise when
//! replies come at other times (caches, read-ahead, the order in which a server works); how far the
//! windows of connections had opened that are older than the capture.
//!
//! A run is a function of its inputs: the same seed gives the same nanosecond.
#![forbid(unsafe_code)]

mod ends;
mod workload;
mod world;

pub use lineside_plan::{Begin, CallIndex};
pub use workload::{Call, Connection, Defect, Work, Workload};
pub use world::{Network, Outcome, Times, predict};
