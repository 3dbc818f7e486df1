//! What a client is, what it asks of its caller, and what goes wrong.

use lineside_nfs::{mount, v4};
use lineside_time::Nanoseconds;

use crate::header::{Credential, Refusal};

/// The well-known port of the port mapper (RFC 1833 section 3).
pub const PORTMAP_PORT: u16 = 111;
/// The well-known port of NFS (RFC 1813 section 2.3, RFC 7530 section 3.1).
pub const NFS_PORT: u16 = 2_049;

/// Which NFS a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// NFSv3.
    V3,
    /// NFSv4 with this minor version, 0 to 2.
    V4(u32),
}

/// Where MOUNT is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MountAt {
    /// Where the server's port mapper says; where there is no port mapper, or it knows no MOUNT, at
    /// NFS's port.
    #[default]
    Portmap,
    /// At this port.
    Port(u16),
}

/// An export to be mounted: its root's handle is then known.
#[derive(Debug, Clone)]
pub struct Mount {
    /// Its path.
    pub export: Vec<u8>,
    /// Of NFSv3.
    pub at: MountAt,
}

/// What a client is.
#[derive(Debug, Clone)]
pub struct Config {
    /// Which NFS.
    pub version: Version,
    /// Of NFSv4: what the client calls itself, and a verifier that another start of it would not
    /// have.
    pub owner: Vec<u8>,
    /// See `owner`.
    pub verifier: v4::Verifier,
    /// What is mounted before calls leave.
    pub mount: Option<Mount>,
    /// The port of NFS.
    pub port: u16,
    /// By whom the client's own calls are.
    pub credential: Credential,
    /// How long a reply may take.
    pub timeout_ns: Option<Nanoseconds>,
    /// The xid of the first call.
    pub first_xid: u32,
    /// Sizes of a record's first fragments; the last one takes the rest.
    pub fragments: Vec<usize>,
    /// Slots that are asked for.
    pub slots: u32,
    /// Calls under way at once.
    pub calls_max: usize,
    /// Bytes of calls that wait or are under way.
    pub bytes_max: usize,
    /// Bytes of a reply.
    pub reply_bytes_max: u32,
}

impl Config {
    /// A client with usual limits, which mounts nothing.
    pub fn new(version: Version, owner: &[u8], verifier: v4::Verifier) -> Self {
        Self {
            version,
            owner: owner.to_owned(),
            verifier,
            mount: None,
            port: NFS_PORT,
            credential: Credential::none(),
            timeout_ns: None,
            first_xid: 1,
            fragments: Vec::new(),
            // As many as Linux asks for.
            slots: 64,
            calls_max: 4_096,
            bytes_max: 64 << 20,
            // The largest READ of the servers in use, with what stands around it.
            reply_bytes_max: (1 << 20) + 4_096,
        }
    }
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// The port mapper.
    Portmap,
    /// MOUNT.
    Mount,
    /// NFS.
    Nfs,
}

impl Service {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portmap => "portmap",
            Self::Mount => "mount",
            Self::Nfs => "nfs",
        }
    }
}

/// A call of the client's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// GETPORT of MOUNT.
    GetPort,
    /// MNT.
    Mnt,
    /// SETCLIENTID.
    SetClientId,
    /// SETCLIENTID_CONFIRM.
    SetClientIdConfirm,
    /// EXCHANGE_ID.
    ExchangeId,
    /// CREATE_SESSION.
    CreateSession,
    /// RECLAIM_COMPLETE.
    ReclaimComplete,
    /// LOOKUP of the export, and GETATTR of the lease's time.
    Root,
    /// RENEW, or a SEQUENCE alone.
    Renew,
    /// DESTROY_SESSION.
    DestroySession,
    /// DESTROY_CLIENTID.
    DestroyClientId,
}

impl Step {
    /// What it is, for an error.
    pub fn name(self) -> &'static str {
        match self {
            Self::GetPort => "GETPORT of MOUNT",
            Self::Mnt => "MNT",
            Self::SetClientId => "SETCLIENTID",
            Self::SetClientIdConfirm => "SETCLIENTID_CONFIRM",
            Self::ExchangeId => "EXCHANGE_ID",
            Self::CreateSession => "CREATE_SESSION",
            Self::ReclaimComplete => "RECLAIM_COMPLETE",
            Self::Root => "LOOKUP of the export",
            Self::Renew => "RENEW",
            Self::DestroySession => "DESTROY_SESSION",
            Self::DestroyClientId => "DESTROY_CLIENTID",
        }
    }

    fn status_name(self, status: u32) -> String {
        let name = match self {
            Self::Mnt => mount::status_name(status),
            _ => v4::status_name(status),
        };
        name.map_or_else(|| status.to_string(), str::to_owned)
    }
}

/// A connection of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Connection(pub(crate) usize);

/// What a connection carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Records in a stream of bytes.
    Stream,
    /// A message in each datagram.
    Datagrams,
}

/// How far the client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Idle,
    /// It waits for a connection.
    Connecting(Service),
    /// A call of its own is under way.
    Asking(Step),
    Ready,
    Closing(Step),
    Over,
}

/// What a client asks of its caller, or reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A connection to this port is needed: [`opened`](crate::Client::opened) answers it, or
    /// [`refused`](crate::Client::refused).
    Connect(Service, u16),
    /// The export is mounted, the server knows this client: calls leave.
    Ready,
    /// No reply to the call with this tag will be reported.
    Lost(u64, LostBy),
    /// The client is of no more use, and its calls are lost.
    Failed(ClientError),
    /// The server has forgotten this client, as it was asked to.
    Closed,
}

/// Why there is no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostBy {
    /// None came in time. The call may still be executed.
    Timeout,
    /// Its connection was abandoned, or the client closed.
    Closed,
}

/// Why a client is of no more use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No connection.
    #[error("no connection to {}", .0.name())]
    NoConnection(Service),
    /// A call of its own was refused.
    #[error("{} was refused: {}", .0.name(), .1.name())]
    Refused(Step, Refusal),
    /// A call of its own failed.
    #[error("{} was answered {}", .0.name(), .0.status_name(*.1))]
    Status(Step, u32),
    /// The reply to a call of its own has not what it should have.
    #[error("the reply to {} is not one", .0.name())]
    Unreadable(Step),
    /// No reply to a call of its own.
    #[error("no reply to {}", .0.name())]
    NoReply(Step),
    /// Connections that were abandoned had calls in all slots of the session.
    #[error("all slots of the session were lost with their connections")]
    NoSlots,
    /// The server does not know the client any more: it was restarted, or the lease expired.
    #[error("the server has forgotten the client: {}", Step::Renew.status_name(*.0))]
    Forgotten(u32),
}

/// Why a call was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// As many bytes of calls are kept as may be.
    #[error("too many bytes of calls wait")]
    Full,
    /// As many owners and states are kept as may be.
    #[error("too many owners or states")]
    Owners,
    /// A compound of a client of NFSv3.
    #[error("a compound, of a client of NFSv3")]
    Version,
    /// The data is not as long as the calls say.
    #[error("the data is not as long as its call says")]
    Data,
    /// There is no such connection.
    #[error("no such connection")]
    Connection,
    /// The client has failed or was closed.
    #[error("the client is of no more use")]
    Over,
}
