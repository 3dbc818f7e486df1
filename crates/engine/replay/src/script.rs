//! A workload as a trace shows it: calls with their arguments, and what each waits for.

use hashbrown::HashMap;
use lineside_nfs::ancillary::portmap;
use lineside_nfs::{mount, v3, v4};
use lineside_nfs_client::Service;
use lineside_plan::{CallIndex, EdgeKind, Step};

use crate::own::Shown;

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
    /// Its connection.
    pub connection: ConnectionId,
    /// Its client, as a number.
    pub client: u32,
    /// Its server, as a place in [`Script::tops`].
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

/// A workload.
#[derive(Debug, Default)]
pub struct Script {
    /// Calls and openings, in the order in which they were made.
    pub calls: Vec<Call>,
    /// What each waits for.
    pub steps: Vec<Step>,
    /// An earlier call, a later one that is made after its reply, and why.
    pub edges: Vec<(CallIndex, CallIndex, EdgeKind)>,
    /// Of WRITEs, by `operation_id`: blocks of 512 bytes in the file with their checksums, in
    /// their order.
    pub sums: HashMap<i64, Vec<(u64, u64)>>,
    /// By `operation_id`: values of the server's own which its reply has, and which VERIFYs
    /// compare.
    pub shown: HashMap<i64, Vec<Shown>>,
    /// Files by directory and name, as the trace reports them.
    pub names: HashMap<(FileId, Box<[u8]>), FileId>,
    /// What the clients mounted.
    pub roots: Vec<FileId>,
    /// The roots of the servers of NFSv4, as paths below the directory.
    pub tops: Vec<Path>,
    /// Where what was mounted is, and files that were there before, below the directory: as the
    /// trace's image has them.
    pub paths: HashMap<FileId, Path>,
    /// What it has not.
    pub left_out: LeftOut,
}

impl Script {
    /// Directories that a client of NFSv4 passes on its way from the root of the server, before the
    /// trace makes any: no mount names them.
    pub fn ways(&self) -> Vec<(u32, Path)> {
        let named = |operation: &Operation| match operation.procedure {
            Some(Procedure::Nfs4(name)) => Some(name),
            _ => None,
        };
        let uses = |operation: &&Operation| {
            let name = named(operation);
            let is_listed = name == Some(v4::Operation::ReadDir);
            is_listed || name.is_some() && operation.names[0].is_some()
        };
        let all = self.calls.iter().flat_map(|call| &call.operations);
        let directories = all.filter(uses).filter_map(|operation| operation.file);
        let directories: hashbrown::HashSet<FileId> = directories.collect();
        let mut ways = Vec::new();
        for call in &self.calls {
            let mut path: Option<Path> = None;
            for (at, operation) in call.operations.iter().enumerate() {
                match named(operation) {
                    Some(v4::Operation::Create) => return ways,
                    Some(v4::Operation::PutRootFh) => path = Some(Vec::new()),
                    Some(v4::Operation::PutFh) => path = None,
                    Some(v4::Operation::Lookup) => {
                        let is_ok = operation.status.as_deref() == Some("NFS4_OK");
                        let next = call.operations.get(at + 1);
                        let is_passed = next.is_some_and(|next| uses(&next))
                            || operation
                                .made
                                .is_some_and(|made| directories.contains(&made));
                        match (&mut path, &operation.names[0]) {
                            (Some(path), Some(name)) if is_ok && is_passed => {
                                path.push(name.to_vec());
                                let way = (call.server, path.clone());
                                if !ways.contains(&way) {
                                    ways.push(way);
                                }
                            }
                            _ => path = None,
                        }
                    }
                    _ => {}
                }
            }
        }
        ways
    }

    /// The version of NFS that most calls are of: `None`, NFSv3.
    pub fn minor_version(&self) -> Option<u32> {
        let of = |wanted: fn(&Program) -> bool| {
            let programs = self.calls.iter().filter_map(|call| call.program);
            programs.filter(wanted).count()
        };
        let nfs4 = of(|program| matches!(program, Program::Nfs4(_)));
        let is_nfs4 = nfs4 > of(|program| *program == Program::Nfs3);
        let minors = self.calls.iter().filter_map(|call| match call.program {
            Some(Program::Nfs4(minor)) => Some(minor),
            _ => None,
        });
        minors.max().filter(|_| is_nfs4)
    }

    /// Leaves out calls that cannot be made beside the others: those of another version of NFS,
    /// whose handles are other ones, and those that open and keep sessions.
    pub fn keep_version(&mut self) {
        let kept = self.minor_version();
        for call in &mut self.calls {
            let is_other = match call.program {
                Some(Program::Nfs4(_)) => kept.is_none(),
                Some(Program::Nfs3) => kept.is_some(),
                _ => false,
            };
            let nfs4 = call.operations.iter().map(|it| match it.procedure {
                Some(Procedure::Nfs4(operation)) => Some(operation),
                _ => None,
            });
            let of_session = |it: Option<v4::Operation>| it.is_some_and(is_of_session);
            if is_other {
                call.left_out = Some(Why::Program);
            } else if nfs4.clone().any(|it| it.is_some_and(opens_session))
                || !call.operations.is_empty() && nfs4.clone().all(of_session)
            {
                call.left_out = Some(Why::Session);
            }
        }
    }

    /// Files that calls use before a reply named them, in the order of their first use.
    pub fn needed(&self) -> Vec<FileId> {
        let mut made: hashbrown::HashSet<FileId> = self.roots.iter().copied().collect();
        let mut needed = Vec::new();
        let calls = self.calls.iter().filter(|call| call.left_out.is_none());
        for operation in calls.flat_map(|call| &call.operations) {
            for file in [operation.file, operation.file2].into_iter().flatten() {
                if made.insert(file) {
                    needed.push(file);
                }
            }
            made.extend(operation.made);
        }
        needed
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
