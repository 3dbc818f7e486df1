//! Why a replay cannot begin, or ended early.

use std::io;
use std::net::SocketAddr;

use lineside_capture::CaptureError;
use lineside_nfs_client::{CallError, ClientError};

/// Why a replay cannot begin, or ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RerunError {
    /// No URL.
    #[error("'{url}': {why}; write nfs://SERVER/EXPORT/DIR")]
    Url {
        /// As it was given.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Sockets cannot be watched.
    #[error("cannot wait for sockets: {0}")]
    Wait(#[from] io::Error),
    /// No connection.
    #[error("no connection to {service} at {to}: {why}; is it served there, and reachable?")]
    NoConnection {
        /// `nfs`, `mount`.
        service: &'static str,
        /// Where.
        to: SocketAddr,
        /// Why not.
        why: String,
    },
    /// Nothing that was tried is exported.
    #[error(
        "{server} exports nothing of {path} to this host ({why}): 'showmount -e {server}' lists \
         what it does"
    )]
    NoExport {
        /// The server.
        server: String,
        /// The path.
        path: String,
        /// The last answer.
        why: String,
    },
    /// The client could not be made known.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// What was open there is not.
    #[error(
        "{0}; it was started again, or not reached for the time of its lease, and what was open \
        there is lost: replay into a new directory"
    )]
    Forgotten(ClientError),
    /// A call that cannot be encoded.
    #[error("a call cannot be made: {0}")]
    Call(#[from] CallError),
    /// An answer says no.
    #[error("{doing}: {status}{hint}")]
    Refused {
        /// What was asked.
        doing: String,
        /// The status.
        status: String,
        /// The way out.
        hint: &'static str,
    },
    /// What came is no reply.
    #[error("{to} sent bytes that are no reply to a call: it is no NFS server")]
    NoReply {
        /// The server.
        to: SocketAddr,
    },
    /// No reply came in time.
    #[error(
        "no reply from {to} within {seconds} s while {doing}: is the server up? --timeout waits longer"
    )]
    Timeout {
        /// The server.
        to: SocketAddr,
        /// What was under way.
        doing: String,
        /// How long.
        seconds: u64,
    },
    /// There is something in the directory.
    #[error(
        "{url} is not empty: name a directory that is not there, or give --in-place to replay \
         among what is in it"
    )]
    NotEmpty {
        /// The directory.
        url: String,
    },
    /// The calls of the trace.
    #[error("the calls of the trace cannot be read back from their file: {0}")]
    Script(io::Error),
    /// Tables of RUN.
    #[error(transparent)]
    Trace(#[from] CaptureError),
    /// A thread panicked.
    #[error("the thread that writes rows panicked")]
    Panic,
    /// The user ended it.
    #[error("stopped before it began")]
    Stopped,
}
