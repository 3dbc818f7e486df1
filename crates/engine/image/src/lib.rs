//! The tree of files as it was when a trace began, from the calls that the trace has.
//!
//! ```text
//!  rows in the order of their calls ─► Tree ─► Image: entries, parents first; path_of(file_id)
//!   names of READDIRPLUS                │        └─ repairs: what the trace does not have
//!                                       │ names: what each was at first, what it is now
//!                                       │ nodes: the first of each attribute that was seen
//!  blocks of READs and WRITEs ─► FirstReads ─► which blocks the image has
//! ```
//!
//! The first call that shows a name shows what was there before: a LOOKUP that finds it, a REMOVE
//! that removes it, a LOOKUP that fails. From then on calls change it, and what they change is no
//! part of the image. So it is with each attribute and each block of data.
//!
//! * Objects that the trace itself makes, and names that it gives, are not in the image.
//! * An object whose handle was used and that has no name at the start is named by its `file_id`.
//! * Whatever an entry has that no call showed is a [`Repair`].
//! * Where clients that the capture did not see changed the tree, calls contradict each other: the
//!   first one holds.
//!
//! Names are foreign: an image has none that leaves its folder. No clock, no files, no sockets.
#![forbid(unsafe_code)]

mod attributes;
mod blocks;
mod entries;
mod kind;
mod names;
mod repair_kind;
mod repairs;
mod row;
mod tree;

pub use blocks::{BLOCK_BYTES, FirstReads};
pub use entries::{Entry, Image, UNNAMED};
pub use kind::Kind;
pub use repair_kind::RepairKind;
pub use repairs::Repair;
pub use row::{
    Action, Attributes, Creation, Directory, ListedName, Outcome, PROGRAMS, Row, SetAttributes,
};
pub use tree::Tree;
