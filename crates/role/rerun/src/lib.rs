//! A captured NFS workload, run again on another server over the kernel's sockets.
//!
//! ```text
//!  Script ─► Replay ─► nfs-client ─► Lines ─► sockets
//!              ▲                       │ what was written and read, with its time
//!              └────── replies         └─► Tap ─► capture ─► tables of RUN
//! ```
//!
//! [`prepare`] finds or makes the directory that everything happens below, and what the source's
//! calls use that was there before. [`run`] makes the calls from one thread: one that is due leaves
//! when its time comes, whatever else goes on. What passes its sockets goes to a thread that
//! captures it as frames, so that a run's own rows are those of a capture.
#![forbid(unsafe_code)]

mod asking;
mod below;
mod error;
mod lines;
mod outcome;
mod prepare;
mod run;
mod sources;
mod tap;
mod url;

pub use error::RerunError;
pub use outcome::{Outcome, certificate};
pub use prepare::{Ground, prepare};
pub use run::{Asked, Runner, Watch, run};
pub use sources::Sources;
pub use tap::{FramePort, Tap, tap};
pub use url::Url;
