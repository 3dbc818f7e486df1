//! Why a load or its server cannot begin, or ended early.

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use lineside_host::{DescriptorError, PrivilegeError, SandboxError};
use lineside_port::PortError;
use lineside_tcp::Refused;

use crate::socket_loop::ListenError;
use crate::words::UsageError;

/// Why a run cannot begin, or ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// More connections than descriptors.
    #[error(transparent)]
    Descriptors(#[from] DescriptorError),
    /// The stack or its interface cannot be had.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
    /// No connection opened.
    #[error("no connection to {to} opened: {why}")]
    NobodyThere {
        /// The first server.
        to: SocketAddr,
        /// What came of the tries.
        why: String,
    },
    /// A worker ended early.
    #[error("worker {number}: {why}")]
    Worker {
        /// Its number.
        number: usize,
        /// Its error.
        why: String,
    },
    /// The load went on without a part of it.
    #[error("{0}")]
    CutShort(String),
    /// The kernel's sockets cannot be watched.
    #[error("cannot wait for sockets: {0}")]
    Epoll(std::io::Error),
    /// A setting that cannot be used.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// What a protocol prepares before the load.
    #[error(transparent)]
    Prepare(Box<dyn Error + Send + Sync>),
    /// The server of a load at another interface.
    #[error(transparent)]
    Server(Box<ServeError>),
    /// Privileges cannot be dropped.
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    /// There is no sandbox although one is wanted.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// A file that cannot be made.
    #[error("{}: cannot be made", path.display())]
    File {
        /// Its name.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// More workers than cores.
    #[error("{asked} workers with a core each, and this process may use {cores}: -t {cores}")]
    Cores {
        /// Workers.
        asked: u32,
        /// Cores.
        cores: usize,
    },
}

impl LoadError {
    /// Whether other flags would help, and nothing else.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Descriptors(_)
                | Self::Usage(_)
                | Self::Cores { .. }
                | Self::Stack(
                    StackError::Own(_)
                        | StackError::Ports(..)
                        | StackError::Pairs { .. }
                        | StackError::Queues { .. }
                        | StackError::Memory
                        | StackError::TapMemory
                        | StackError::Mtu { .. }
                )
        )
    }
}

/// Why the stack or its interface cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StackError {
    /// The interface.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The host's own address.
    #[error(
        "{0} is the host's own address, whose kernel would reset the connections: name addresses \
         that no host has, with --address, or remove it ('ip addr del')"
    )]
    Own(IpAddr),
    /// Ports of the host's own address that its kernel uses.
    #[error(
        "{0} is the host's own address, and {1}: name ports that its kernel leaves alone, such as \
         --ports 61000-65535"
    )]
    Ports(IpAddr, String),
    /// Nobody is at the next hop.
    #[error(
        "no neighbour at {interface} answers for {address}: name the --router by which it is \
         reached, or look whether it is there ('ping')"
    )]
    Neighbour {
        /// The interface.
        interface: String,
        /// Who was asked for.
        address: IpAddr,
    },
    /// The host's addresses cannot be listed.
    #[error("cannot list the host's addresses: {0}")]
    Netlink(std::io::Error),
    /// Too few local ends.
    #[error(
        "{needed} connections need as many pairs of local address and port, and there are {pairs}: \
         more addresses (--address), or fewer connections"
    )]
    Pairs {
        /// Connections.
        needed: u32,
        /// Pairs.
        pairs: u64,
    },
    /// More workers than queues.
    #[error(
        "{interface} has {queues} queues, and each of {workers} workers needs one: -t {queues}, or \
         'ethtool -L {interface} combined {workers}'"
    )]
    Queues {
        /// The interface.
        interface: String,
        /// Queues that it has.
        queues: usize,
        /// Workers.
        workers: u32,
    },
    /// The tables of the smallest stack.
    #[error("--memory is too little for the tables of connections: raise it")]
    Memory,
    /// Copies of frames.
    #[error("--memory is too little for copies of frames, which take an eighth: raise it")]
    TapMemory,
    /// Packets that the interface does not carry.
    #[error("packets of {mtu} bytes do not pass {interface}, which carries {most}")]
    Mtu {
        /// Asked for.
        mtu: usize,
        /// The interface.
        interface: String,
        /// What it carries.
        most: usize,
    },
}

/// Why a server cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The kernel's listener.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Our own one.
    #[error("cannot listen: {0}")]
    Stack(#[from] Refused),
    /// As of a load.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A worker ended early.
    #[error("worker {0}: {1}")]
    Worker(u32, String),
}
