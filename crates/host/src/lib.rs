//! What a run asks of the operating system: clocks, signals, privileges, facts about the machine, and the run folder.
//!
//! Engines never come here; roles and the binary do. Nothing here needs `unsafe` so far.
#![forbid(unsafe_code)]

mod clock;
mod folder;
mod machine;
mod output;
mod privileges;
mod signals;

pub use clock::{Stopwatch, SystemClock};
pub use folder::{FolderError, RunFolder};
pub use machine::{MachineFacts, MemoryUse};
pub use output::{PartQueue, PartWriter};
pub use privileges::{Capability, Dropped, PrivilegeError, Privileges, drop_privileges};
pub use signals::Signals;
