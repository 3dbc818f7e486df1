//! Writes the image of a trace: into a folder of this host, or to an NFS server.
//!
//! ```text
//!  Image ─► make, parents first ─► blocks, as the trace shows them ─► settle, children first
//!            names, links            only what was seen: the rest       size, mode, owner, times
//!                                    stays a hole
//! ```
//!
//! A [`Target`] is one of the two. What it cannot make as it was, it makes as near as it can, and
//! notes: that is a repair.
//!
//! * A [folder](FolderTarget) is reached by descriptors from its top on, no link is followed, and
//!   nothing that is there is opened for writing or replaced.
//! * On a [server](NfsTarget) everything is below one directory, which is made first, and must not
//!   be there.
#![forbid(unsafe_code)]

mod connection;
mod folder;
mod nfs;
mod url;
mod version4;

use std::io;

use lineside_frame::block::{ZEROS, block_of};
use lineside_image::{BLOCK_BYTES, Entry, Image, Kind};

pub use connection::ServerError;
pub use folder::FolderTarget;
pub use nfs::NfsTarget;
pub use url::{Url, UrlError};

/// Bytes that are written at once: what every server takes.
const RUN_BYTES: usize = 32 << 10;

/// Why an image is not whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The disk is full, or a quota is used up.
    #[error("{path}: {why}: the image is not whole; make room, or give another place")]
    Full {
        /// Where it was to be written.
        path: String,
        /// The system's or the server's word.
        why: String,
    },
    /// Another entry has the name.
    #[error(
        "{path}: it is there already: this file system takes two names of the image for one, as \
        some do that differ in case alone; the image is not whole: give another place"
    )]
    TwoForOne {
        /// The second of the names.
        path: String,
    },
    /// The host's file system.
    #[error("{path}: cannot {what}: {error}; the image is not whole")]
    Folder {
        /// Where.
        path: String,
        /// What was to be done.
        what: &'static str,
        /// The system's word.
        error: io::Error,
    },
    /// The server.
    #[error(transparent)]
    Server(#[from] ServerError),
}

/// What could not be made as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The entry.
    pub entry: u32,
    /// What is otherwise.
    pub what: &'static str,
}

/// Where an image is written.
pub trait Target {
    /// Makes an entry, whose parent was made.
    fn make(&mut self, image: &Image, at: u32, entry: &Entry<'_>) -> Result<(), WriteError>;

    /// Writes data of a file.
    fn write(&mut self, image: &Image, at: u32, offset: u64, data: &[u8])
    -> Result<(), WriteError>;

    /// Gives an entry its size, mode, owner and times: all below it have theirs.
    fn settle(&mut self, image: &Image, at: u32, entry: &Entry<'_>) -> Result<(), WriteError>;

    /// Nothing follows.
    fn finish(&mut self, image: &Image) -> Result<(), WriteError>;

    /// What could not be made as it was.
    fn notes(&mut self) -> Vec<Note>;
}

/// What was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Blocks that hold something.
    pub blocks: u64,
    /// Blocks that hold zeros, which take no room.
    pub zero_blocks: u64,
}

/// An image on its way to a target.
#[derive(Debug)]
pub struct Writer<T> {
    target: T,
    /// Data that is not written yet: of an entry, from an offset on.
    run: Vec<u8>,
    of: (u32, u64),
    written: Written,
}

impl<T: Target> Writer<T> {
    /// Makes all entries; their data comes in [`block`](Self::block).
    pub fn begin(mut target: T, image: &Image) -> Result<Self, WriteError> {
        for at in 0..image.len() {
            target.make(image, at, &image.entry(at))?;
        }
        Ok(Self {
            target,
            run: Vec::with_capacity(RUN_BYTES),
            of: (0, 0),
            written: Written::default(),
        })
    }

    /// Writes a block that has this checksum.
    pub fn block(
        &mut self,
        image: &Image,
        entry: u32,
        block: u64,
        sum: u64,
    ) -> Result<(), WriteError> {
        if image.entry(entry).kind != Kind::File {
            return Ok(());
        }
        if sum == ZEROS {
            self.written.zero_blocks += 1;
            return Ok(());
        }
        self.written.blocks += 1;
        let offset = block.saturating_mul(BLOCK_BYTES);
        let is_next = self.of.0 == entry && self.of.1 + self.run.len() as u64 == offset;
        if !is_next || self.run.len() >= RUN_BYTES {
            self.flush(image)?;
            self.of = (entry, offset);
        }
        self.run.extend_from_slice(&block_of(sum));
        Ok(())
    }

    /// Gives all entries their attributes, the last first.
    pub fn finish(mut self, image: &Image) -> Result<(Written, Vec<Note>), WriteError> {
        self.flush(image)?;
        for at in (0..image.len()).rev() {
            self.target.settle(image, at, &image.entry(at))?;
        }
        self.target.finish(image)?;
        Ok((self.written, self.target.notes()))
    }

    fn flush(&mut self, image: &Image) -> Result<(), WriteError> {
        if !self.run.is_empty() {
            let (entry, offset) = self.of;
            self.target.write(image, entry, offset, &self.run)?;
            self.run.clear();
        }
        Ok(())
    }
}

/// What a symbolic link holds where no call showed it: as many bytes as its size says.
fn target_of(entry: &Entry<'_>) -> (Vec<u8>, bool) {
    /// The longest that systems take.
    const TARGET_MAX: usize = 4_095;
    let unseen = || {
        let len = usize::try_from(entry.size).unwrap_or(TARGET_MAX);
        vec![b'x'; len.clamp(1, TARGET_MAX)]
    };
    match entry.target.map(lineside_rows::unescape) {
        Some(target) => {
            let fits = !target.is_empty() && target.len() <= TARGET_MAX && !target.contains(&0);
            match fits {
                true => (target, true),
                false => (unseen(), false),
            }
        }
        // That is a repair of the image.
        None => (unseen(), true),
    }
}

/// The image's path of an entry, for messages.
fn shown(top: &str, image: &Image, at: u32) -> String {
    let path = image.path(at);
    let path = String::from_utf8_lossy(&path);
    match path.is_empty() {
        true => top.to_owned(),
        false => format!("{top}/{}", lineside_words::escape(&path)),
    }
}

const SET_ID: &str = "set-user-id and set-group-id are left out: its content is not what it was";
const OWNER: &str = "owner and group are this user's: giving files away takes privileges";
const DEVICE: &str = "a device is an empty file here: a device of another host leads elsewhere";
const TARGET: &str = "a link cannot hold what it held: it holds as many other bytes";
const SIZE: &str = "its size is more than this file system takes: it has what was seen of it";
const SERVER_SIZE: &str = "its size is more than the server takes: it has what was seen of it";
const LINK: &str = "one more name of a file cannot be made here: it is an empty file of its own";
const MODE: &str = "its mode cannot be set";
const TIME: &str = "its time cannot be set";
const SPECIAL: &str = "a socket or FIFO cannot be made here: it is an empty file";
