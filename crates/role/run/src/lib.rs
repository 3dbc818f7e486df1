//! What the runs of all roles share: how one begins, goes on, ends, and is judged.
//!
//! ```text
//!  files, folders, pipes, interfaces ─► inputs ─► Merge ─► receive_all ─► Consumer     (a role's own)
//!                                                              │
//!  Run: folder, trace.json ◄── begin, tick, end ───────────────┘── judge: the table of verdict rules
//!       parts of tables    ◄── Parts, a thread of lineside-host
//! ```
//!
//! Not here: what a role does with frames, the command line, and printing. This crate has no clock:
//! whoever calls passes the time in. What a user should know while a run goes on passes through
//! [`Progress`].
#![forbid(unsafe_code)]

mod answering;
mod capture_file;
mod config_error;
mod confine;
pub mod control;
pub mod doctor;
mod drop_in;
mod error;
mod facts;
mod frame_file;
mod inputs;
mod interfaces;
pub mod live;
mod measuring;
mod monitor_stats;
mod monitor_words;
mod older;
mod own;
mod parts;
mod progress;
mod receive;
mod record;
pub mod request;
mod run;
mod runs;
mod sources;
pub mod stats;
mod verdict;

pub use answering::{Answering, Respond};
pub use capture_file::{check_capture_file, check_new_file};
pub use config_error::{ConfigError, of_word};
pub use confine::{
    DROP_INS_NEED_MORE, folder_of, keep_file_capabilities, not_confined, sandbox, sandbox_facts,
    to_write, with_capture_file,
};
pub use drop_in::{
    DropIn, DropInError, DropInReport, DropInSettings, Form, GivenRows, Pace, drop_ins, read_rows,
};
pub use error::RunError;
pub use facts::{input_facts, inputs_facts};
pub use frame_file::{frame_file, why_frames_miss, write_frames};
pub use inputs::{Opened, open, open_followed};
pub use interfaces::{Interfaces, open_interfaces};
pub use measuring::{Ending, Looks, Measuring, MonitorSwitch};
pub use monitor_stats::{MonitorsAsked, answer_capture};
pub use monitor_words::monitors;
pub use older::older_runs;
pub use parts::{PartRotation, Parts, bound_encoder, new_part, on_disk};
pub use progress::Progress;
pub use receive::{BURST_FRAMES, Consumer, Intake, Moment, Step, Turn, receive_all};
pub use record::{Record, so_far};
pub use run::Run;
pub use runs::{Runs, RunsError};
pub use sources::{Looked, Sources};
pub use verdict::{
    Check, Evidence, LateLimits, LinkEvidence, LoadEvidence, Moved, RULES, Reason, Rule,
    TapEvidence, borne, counted, drops, judge, named, unread,
};
