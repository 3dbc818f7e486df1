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
mod names;
mod repairs;
mod row;
mod tree;

pub use blocks::{BLOCK_BYTES, FirstReads};
pub use entries::{Entry, Image, UNNAMED};
pub use names::{bytes as bytes_of, text as text_of};
pub use repairs::{Repair, RepairKind};
pub use row::{
    Action, Attributes, Creation, Directory, ListedName, Outcome, PROGRAMS, Row, SetAttributes,
};
pub use tree::Tree;

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// `REG`
    File,
    /// `DIR`
    Directory,
    /// `LNK`
    Link,
    /// `BLK`
    BlockDevice,
    /// `CHR`
    CharacterDevice,
    /// `SOCK`
    Socket,
    /// `FIFO`
    Fifo,
}

impl Kind {
    /// The word that the tables have for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "REG",
            Self::Directory => "DIR",
            Self::Link => "LNK",
            Self::BlockDevice => "BLK",
            Self::CharacterDevice => "CHR",
            Self::Socket => "SOCK",
            Self::Fifo => "FIFO",
        }
    }

    /// What a word of the tables means.
    pub fn of(name: &str) -> Option<Self> {
        const ALL: [Kind; 7] = [
            Kind::File,
            Kind::Directory,
            Kind::Link,
            Kind::BlockDevice,
            Kind::CharacterDevice,
            Kind::Socket,
            Kind::Fifo,
        ];
        ALL.into_iter().find(|kind| kind.name() == name)
    }
}
