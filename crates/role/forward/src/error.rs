use std::io;

use lineside_balancer::{RestoreError, SettingsError};
use lineside_host::{FolderError, PrivilegeError, SandboxError};
use lineside_port::PortError;
use lineside_run::live::NoTapMemory;

/// Why a forwarder cannot begin or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForwardError {
    /// The settings contradict themselves or this host.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The host stands in the way: what, and the way out.
    #[error("{0}")]
    Host(String),
    /// A port cannot be opened, or failed.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A privilege is missing, or cannot be dropped.
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    /// There is no sandbox although one is wanted.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The table of an earlier run is of no use.
    #[error("{path}: {why}")]
    Restore {
        /// The file.
        path: String,
        /// Why.
        why: RestoreError,
    },
    /// The run's folder cannot be written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The budget has no room for the tap.
    #[error("the frames to write need more memory than an eighth of --memory: raise it")]
    TapMemory,
    /// The budget has no room for the host's copies of payloads.
    #[error(
        "a queue of {hold} frames and the host's copies of their payloads need {bytes} bytes, which \
         is beyond the memory budget: raise --memory, or lower --hold or --cache"
    )]
    PayloadMemory {
        /// Frames that are to wait.
        hold: u32,
        /// Bytes of their copies.
        bytes: usize,
    },
    /// The operating system refused something else.
    #[error("{what}: {cause}")]
    System {
        /// What was tried.
        what: String,
        /// Why it failed.
        cause: io::Error,
    },
}

impl From<NoTapMemory> for ForwardError {
    fn from(_: NoTapMemory) -> Self {
        Self::TapMemory
    }
}

impl ForwardError {
    /// Whether the user has to ask for something else, as opposed to a failure of the machine.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Settings(_) | Self::Host(_) | Self::PayloadMemory { .. }
        )
    }
}
