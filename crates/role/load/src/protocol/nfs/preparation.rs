//! What is prepared before a run, and why it cannot be.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use lineside_workload::Sizes;

use super::tree::Tree;
use crate::application::Reason;
use crate::error::LoadError;

pub use lineside_nfs_client::{MountAt, NFS_PORT, PORTMAP_PORT};

/// Which files a run's requests are about.
#[derive(Debug, Clone)]
pub enum Files {
    /// Those of the export, this many at most, in the order of their paths.
    Found {
        /// Files, from 1 to [`FILES_MAX`].
        files_max: u32,
    },
    /// Files `f0000000`, `f0000001` … spread over directories `d00000`, `d00001` …. One that is
    /// there is used; one that is not, or is too short, is an error, or is made.
    Made {
        /// Files, from 1 to [`FILES_MAX`].
        files: u32,
        /// Directories, from 1 on, and no more than files.
        directories: u32,
        /// Bytes of each file.
        bytes: Sizes,
        /// Seeds the sizes.
        seed: u64,
        /// Makes what is not there.
        makes: bool,
    },
}

/// The most files of a tree.
pub const FILES_MAX: u32 = 1 << 22;
/// The most directories of a tree.
pub const DIRECTORIES_MAX: u32 = 1 << 16;

/// What is to be prepared.
#[derive(Debug, Clone)]
pub struct Preparation {
    /// The export's path.
    pub export: String,
    /// Where MOUNT is.
    pub mount: MountAt,
    /// Which files.
    pub files: Files,
    /// User and group of AUTH_SYS.
    pub user: (u32, u32),
    /// A reply may take this long.
    pub timeout_ns: i64,
}

/// Why a tree could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrepareError {
    /// The run of the preparation.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A server's port is not open.
    #[error(
        "no connection to {service} at {to} ({reason:?}): is it served there? \
         port= and mountport= say where else"
    )]
    NoConnection {
        /// `mount` or `nfs`.
        service: &'static str,
        /// Where.
        to: SocketAddr,
        /// What came of the try.
        reason: Reason,
    },
    /// The connection ended before everything was known.
    #[error("the server ended the connection while {doing} ({reason:?})")]
    Ended {
        /// What was under way.
        doing: String,
        /// How it ended.
        reason: Reason,
    },
    /// No reply came.
    #[error("no reply within {seconds} s while {doing}")]
    NoReply {
        /// What was under way.
        doing: String,
        /// How long was waited.
        seconds: f64,
    },
    /// A reply says no.
    #[error("{doing}: {status}{hint}")]
    Refused {
        /// What was asked.
        doing: String,
        /// The status by its name.
        status: String,
        /// What may help.
        hint: &'static str,
    },
    /// What came is no reply, or not one to what was asked.
    #[error("{doing}: the reply is not one to it")]
    NoReplyAtAll {
        /// What was asked.
        doing: String,
    },
    /// A tree without files.
    #[error(
        "there are no files below {export}: 'prepare' makes some, such as 1000 of 64 KiB in 10 \
         directories"
    )]
    NoFiles {
        /// The export's path.
        export: String,
    },
    /// Too many or too few are asked for.
    #[error(
        "{files} files in {directories} directories: from 1 to {FILES_MAX} files, and from 1 to \
         {DIRECTORIES_MAX} directories, no more than files"
    )]
    Count {
        /// Files.
        files: u32,
        /// Directories.
        directories: u32,
    },
    /// The run was stopped before.
    #[error("stopped while {doing}")]
    Stopped {
        /// What was under way.
        doing: String,
    },
}

impl From<PrepareError> for LoadError {
    fn from(error: PrepareError) -> Self {
        match error {
            PrepareError::Load(error) => error,
            error => Self::Prepare(Box::new(error)),
        }
    }
}

/// What a preparer hands over when it is over.
pub(super) type Handover = Arc<Mutex<Option<Result<Tree, PrepareError>>>>;
