use std::io;

use lineside_host::{FolderError, PrivilegeError, SandboxError};
use lineside_port::PortError;

/// Why a run cannot begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The command line or the configuration must change.
    #[error("{0}")]
    Usage(String),
    /// A file is there that would be overwritten.
    #[error("{0} exists already: name another file with --write-pcap, or replace it with --force")]
    Exists(String),
    /// An input cannot be opened, or a capture file cannot be written.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The run folder cannot be written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A privilege is missing, or cannot be dropped.
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    /// There is no sandbox although one is wanted.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The operating system refused something else.
    #[error("{what}: {cause}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        cause: io::Error,
    },
}

impl RunError {
    pub(crate) fn usage(text: &str) -> Self {
        Self::Usage(text.to_owned())
    }

    /// Whether the user has to ask for something else, as opposed to a failure of the machine.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_))
    }
}
