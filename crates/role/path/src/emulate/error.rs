use std::io;
use std::process::ExitStatus;

use lineside_host::{FolderError, NamespaceError, PrivilegeError, SandboxError, UplinkError};
use lineside_port::PortError;
use lineside_run::live::NoTapMemory;

/// Why an emulation between live ports cannot begin or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulationError {
    /// A port cannot be opened.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A privilege is missing, or cannot be dropped.
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    /// There is no sandbox although one is wanted.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// There is no namespace of our own.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// There is no way outside.
    #[error(transparent)]
    Uplink(#[from] UplinkError),
    /// Nothing can stand between this host and that interface.
    #[error("cannot put a link between this host and {interface}: {why}")]
    HostEnd {
        /// The interface.
        interface: String,
        /// Why, and what helps.
        why: String,
    },
    /// A carrier is to go, and cannot.
    #[error("{0}")]
    Carrier(String),
    /// The memory for the tap is more than the budget has.
    #[error("the tap needs more memory than an eighth of --memory: raise it")]
    TapMemory,
    /// The run's folder cannot be written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Nothing can be emulated without a server.
    #[error(
        "the server ended before the client began: {status}; it must keep running, in the \
         foreground: '{command}'"
    )]
    ServerEnded {
        /// How it ended.
        status: ExitStatus,
        /// The server's command.
        command: String,
    },
    /// The client's program cannot be run.
    #[error("cannot start the client '{program}': {cause}")]
    Client {
        /// Its name.
        program: String,
        /// Why.
        cause: io::Error,
    },
    /// The state of a program cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The operating system refused something else.
    #[error("{what}: {cause}")]
    System {
        /// What was tried.
        what: String,
        /// Why it failed.
        cause: io::Error,
    },
}

impl From<NoTapMemory> for EmulationError {
    fn from(_: NoTapMemory) -> Self {
        Self::TapMemory
    }
}

impl EmulationError {
    pub(super) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::System {
            what: what.into(),
            cause,
        }
    }

    /// The status of a program that runs others if it cannot run this one, as of env and nohup.
    pub fn client_status(&self) -> Option<u8> {
        match self {
            Self::Client { cause, .. } if cause.kind() == io::ErrorKind::NotFound => Some(127),
            Self::Client { .. } => Some(126),
            _ => None,
        }
    }

    /// Whether the user has to ask for something else, as opposed to a failure of the machine.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Uplink(UplinkError::NoPasta) | Self::HostEnd { .. } | Self::Carrier(_)
        )
    }
}
