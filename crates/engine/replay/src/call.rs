//! Calls with their arguments, as a trace shows them.

use lineside_nfs::ancillary::portmap;
use lineside_nfs::{mount, v3, v4};
use lineside_nfs_client::Service;

/// A file or directory, as traces name it.
pub type FileId = i64;
/// The steps of a path, each a name.
pub type Path = Vec<Vec<u8>>;
/// A connection, as traces name it.
pub type ConnectionId = i64;

/// What an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Procedure {
    /// Of NFSv3.
    Nfs3(v3::Procedure),
    /// Of NFSv4: one of a compound.
    Nfs4(v4::Operation),
    /// Of MOUNT version 3.
    Mount(mount::Procedure),
    /// Of the port mapper, version 2.
    Portmap(portmap::Procedure),
}

/// Programs that are replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Program {
    /// NFSv3.
    Nfs3,
    /// NFSv4, with its minor version.
    Nfs4(u32),
    /// MOUNT version 3.
    Mount,
    /// The port mapper, version 2.
    Portmap,
}

impl Program {
    /// Where it is served.
    pub fn service(self) -> Service {
        match self {
            Self::Nfs3 | Self::Nfs4(_) => Service::Nfs,
            Self::Mount => Service::Mount,
            Self::Portmap => Service::Portmap,
        }
    }
}

/// Why a call is not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Why {
    /// Another program than NFS, MOUNT and the port mapper, or another version.
    Program,
    /// The trace lacks arguments of it.
    Arguments,
    /// It opens or keeps a session, which the client does by itself.
    Session,
    /// The server has no name for what it is about: the call that would have made it failed, or it
    /// was there before the trace began, and is not in the directory.
    Handle,
    /// It compares a value of the source's server, as VERIFY does, that no reply showed.
    Value,
    /// No connection to its service opened: a port mapper is not needed.
    Service,
}

impl Why {
    /// All, as the certificate names them.
    pub const ALL: [(Self, &str); 6] = [
        (Self::Program, "program"),
        (Self::Arguments, "arguments"),
        (Self::Session, "session"),
        (Self::Handle, "handle"),
        (Self::Value, "value"),
        (Self::Service, "service"),
    ];

    /// Its name in the certificate.
    pub fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(why, _)| *why == self);
        named.map_or("", |(_, name)| name)
    }
}

/// Calls that a trace has, and that a script has not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Calls of servers.
    pub callbacks: u64,
    /// Calls that the transport sent again.
    pub repeats: u64,
    /// Replies whose call was not seen.
    pub calls_not_seen: u64,
    /// Calls with Kerberos, which are made with AUTH_SYS.
    pub kerberos: u64,
    /// Calls over UDP, which are made over TCP.
    pub udp: u64,
    /// Calls that were not chosen.
    pub not_chosen: u64,
    /// Calls that were not chosen, and are made since others need them.
    pub needed: u64,
}

/// A call, or the opening of a connection.
#[derive(Debug, Clone, Default)]
pub struct Call {
    /// Its `rpc_id`; of an opening the connection's id.
    pub id: i64,
    /// When it was made.
    pub call_ns: i64,
    /// From then to its reply; 0 without one.
    pub took_ns: i64,
    /// Its connection.
    pub connection: ConnectionId,
    /// Its client, as a number.
    pub client: u32,
    /// Its server, as a place in [`Script::tops`](crate::Script::tops).
    pub server: u32,
    /// What it is part of; `None`: it opens its connection.
    pub program: Option<Program>,
    /// Why it is not made, as far as the trace shows that.
    pub left_out: Option<Why>,
    /// User and group.
    pub user: Option<(u32, u32)>,
    /// It had a reply.
    pub is_answered: bool,
    /// It came with Kerberos.
    pub is_kerberos: bool,
    /// It came over UDP.
    pub is_udp: bool,
    /// Its operations; of other programs than NFSv4 one.
    pub operations: Vec<Operation>,
}

/// An operation, as its row has it.
#[derive(Debug, Clone, Default)]
pub struct Operation {
    /// Its `operation_id`.
    pub id: i64,
    /// What it is; `None`: unknown.
    pub procedure: Option<Procedure>,
    /// What it is about.
    pub file: Option<FileId>,
    /// The second one: of RENAME and LINK.
    pub file2: Option<FileId>,
    /// The one that its reply named.
    pub made: Option<FileId>,
    /// Its names, as they were on the wire.
    pub names: [Option<Box<[u8]>>; 2],
    /// First byte.
    pub offset: Option<u64>,
    /// Bytes.
    pub count: Option<u32>,
    /// The same, of locks.
    pub length: Option<u64>,
    /// Its status, by name.
    pub status: Option<Box<str>>,
    /// The server did not reach it.
    pub not_executed: bool,
    /// Of a WRITE: blocks of 512 bytes in the file with their checksums, in their order.
    pub sums: Box<[(u64, u64)]>,
    /// What else its row has.
    pub facts: Option<Box<Facts>>,
}

/// Further arguments, as the tables `nfs`, `nfs4` and `services` name them.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "docs/guide/trace.md describes each column")]
pub struct Facts {
    pub stable_how: Option<Box<str>>,
    pub create_mode: Option<Box<str>>,
    pub create_verifier: Option<u64>,
    pub access_requested: Option<u32>,
    pub cookie: Option<u64>,
    pub cookie_verifier: Option<u64>,
    pub directory_bytes: Option<u32>,
    pub bytes_max: Option<u32>,
    pub set_mode: Option<u32>,
    pub set_uid: Option<u32>,
    pub set_gid: Option<u32>,
    pub set_size: Option<u64>,
    pub set_atime_how: Option<Box<str>>,
    pub set_atime_ns: Option<i64>,
    pub set_mtime_how: Option<Box<str>>,
    pub set_mtime_ns: Option<i64>,
    pub attribute_bitmap: Option<Box<[u8]>>,
    pub attribute_values: Option<Box<[u8]>>,
    pub guard_ctime_ns: Option<i64>,
    pub node_type: Option<Box<str>>,
    pub device_major: Option<u32>,
    pub device_minor: Option<u32>,
    pub symlink_target: Option<Box<[u8]>>,
    pub minor_version: Option<u32>,
    pub tag: Option<Box<[u8]>>,
    pub owner: Option<Box<[u8]>>,
    pub stateid: Option<Box<[u8]>>,
    pub stateid_sequence: Option<u32>,
    pub reply_stateid: Option<Box<[u8]>>,
    pub share_access: Option<u32>,
    pub share_deny: Option<u32>,
    pub claim: Option<Box<str>>,
    pub delegation_stateid: Option<Box<[u8]>>,
    pub lock_type: Option<Box<str>>,
    pub content: Option<Box<str>>,
    pub source_offset: Option<u64>,
    pub target_program: Option<u32>,
    pub target_version: Option<u32>,
    pub target_protocol: Option<u32>,
    pub target_port: Option<u32>,
}

impl Facts {
    /// Takes what others have.
    pub fn add(&mut self, others: Self) {
        macro_rules! add {
            ($($name:ident),*) => {
                $(self.$name = others.$name.or(self.$name.take());)*
            };
        }
        add!(
            stable_how,
            create_mode,
            create_verifier,
            access_requested,
            cookie,
            cookie_verifier,
            directory_bytes,
            bytes_max,
            set_mode,
            set_uid,
            set_gid,
            set_size,
            set_atime_how,
            set_atime_ns,
            set_mtime_how,
            set_mtime_ns,
            attribute_bitmap,
            attribute_values,
            guard_ctime_ns,
            node_type,
            device_major,
            device_minor,
            symlink_target,
            minor_version,
            tag,
            owner,
            stateid,
            stateid_sequence,
            reply_stateid,
            share_access,
            share_deny,
            claim,
            delegation_stateid,
            lock_type,
            content,
            source_offset,
            target_program,
            target_version,
            target_protocol,
            target_port
        );
    }
}

impl Call {
    /// Leaves it out if it cannot be made beside the others: one of another version of NFS, whose
    /// handles are other ones, and one that opens or keeps a session. `kept` is the version that
    /// most calls are of: `None`, NFSv3.
    pub fn keep_version(&mut self, kept: Option<u32>) {
        let is_other = match self.program {
            Some(Program::Nfs4(_)) => kept.is_none(),
            Some(Program::Nfs3) => kept.is_some(),
            _ => false,
        };
        let nfs4 = self.operations.iter().map(|it| match it.procedure {
            Some(Procedure::Nfs4(operation)) => Some(operation),
            _ => None,
        });
        let of_session = |it: Option<v4::Operation>| it.is_some_and(is_of_session);
        if is_other {
            self.left_out = Some(Why::Program);
        } else if nfs4.clone().any(|it| it.is_some_and(opens_session))
            || !self.operations.is_empty() && nfs4.clone().all(of_session)
        {
            self.left_out = Some(Why::Session);
        }
    }
}

/// What a compound is beside the calls that it is made for.
fn is_of_session(operation: v4::Operation) -> bool {
    opens_session(operation) || matches!(operation, v4::Operation::Sequence | v4::Operation::Renew)
}

/// What a client does once for a session, whatever else it asks for in the same compound: that of
/// nfs-ganesha looks at the root with its RECLAIM_COMPLETE.
fn opens_session(operation: v4::Operation) -> bool {
    matches!(
        operation,
        v4::Operation::SetClientId
            | v4::Operation::SetClientIdConfirm
            | v4::Operation::ExchangeId
            | v4::Operation::CreateSession
            | v4::Operation::BindConnToSession
            | v4::Operation::DestroySession
            | v4::Operation::DestroyClientId
            | v4::Operation::ReclaimComplete
            | v4::Operation::BackchannelCtl
    )
}
