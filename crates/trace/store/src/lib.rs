//! The folder that a run leaves, on disk: its parts and how they are merged, what is kept of it and
//! of older runs, and the socket at which a run that goes on is asked.
//!
//! Everything works by descriptors of folders (`lineside_host::Place`): a path is looked up once,
//! and no link in a folder is followed.
#![forbid(unsafe_code)]

mod compactor;
mod control;
mod control_client;
mod finished_run;
mod folder;
mod part_index;
mod queue;
mod room;
mod start;
mod swap;
mod trace_files;
mod writer;

pub use compactor::{Keeping, Merge, Merging, Older};
pub use control::{Control, Request, is_running};
pub use control_client::ControlClient;
pub use finished_run::FinishedRun;
pub use folder::RunFolder;
pub use part_index::{FinalParts, Removed, Retention, TableTotals};
pub use queue::{NewPart, OnDisk, Pieces};
pub use trace_files::{IsTrace, STATES, TraceFiles};
pub use writer::{PartQueue, PartWriter};
