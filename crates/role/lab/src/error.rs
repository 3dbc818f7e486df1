use std::path::{Path, PathBuf};

use lineside_host::FolderError;
use lineside_path::emulate::EmulationError;

/// Why a lab cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The file is not as it should be.
    #[error("{}:{line}:{column}: {why}", file.display())]
    Words {
        /// The file.
        file: PathBuf,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What is wrong there, and what would be right.
        why: String,
    },
    /// What was asked for cannot be done.
    #[error("{0}")]
    Usage(String),
    /// A point could not be run or measured.
    #[error("{0}")]
    Point(String),
    /// The file of a lab cannot be read.
    #[error("{}: cannot be read: {cause}", path.display())]
    Unread {
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: std::io::Error,
    },
    /// A file could not be made or written.
    #[error("{}: {what}: {cause}: {}", path.display(), lineside_host::way_out(path, cause))]
    File {
        /// The file.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        cause: std::io::Error,
    },
    /// The run's folder cannot be made or written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The links or nodes could not be had.
    #[error(transparent)]
    Emulation(#[from] EmulationError),
    /// The operating system refused.
    #[error("{what}: {cause}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        cause: std::io::Error,
    },
}

impl LabError {
    pub(crate) fn file(path: &Path, what: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |cause| Self::File { path, what, cause }
    }

    pub(crate) fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |cause| Self::System { what, cause }
    }

    /// Whether the user has to ask for something else.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Words { .. } | Self::Usage(_))
    }
}
