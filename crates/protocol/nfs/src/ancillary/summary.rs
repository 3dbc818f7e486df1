//! What a call or a reply says, for one row.

use lineside_frame::View;
use lineside_rpc::message::Flavor;
use lineside_rpc::xdr::Array;

use super::values::{Access, DenyMode, Limits};
use crate::v3;

/// A number of an enumeration, with its name if the specification has one for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// As on the wire.
    pub number: u32,
    /// As in the specification.
    pub name: Option<&'static str>,
}

impl Named {
    pub(crate) fn new(number: u32, name: impl Fn(u32) -> Option<&'static str>) -> Self {
        Self {
            number,
            name: name(number),
        }
    }
}

/// What a call or a reply says, for a table with one row a call. What it does not say, or the
/// capture did not see, is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary<'a> {
    /// Handle of the file or directory that the call is about; of LINK the file, of RENAME the
    /// directory left.
    pub file: Option<View<'a>>,
    /// Handle of the second directory, of RENAME and LINK: the one that gets the name.
    pub file2: Option<View<'a>>,
    /// The name that the call is about: of a directory entry; the path of MOUNT and RQUOTA; NLM's
    /// and NSM's host, which is NLM's caller; KLM's server.
    pub name: Option<View<'a>>,
    /// RENAME's new name; the host that NSM is to call back.
    pub name2: Option<View<'a>>,
    /// What a symbolic link holds: SYMLINK, READLINK.
    pub symlink_target: Option<View<'a>>,
    /// The first byte that is read, written or locked. In a reply to TEST, and in TEST_RES, of the
    /// lock in the way.
    pub offset: Option<u64>,
    /// Bytes to read, to write or to lock; of a lock, 0 reaches to the end of the file.
    pub count: Option<u64>,
    /// Bytes of file data that follow, before padding: the cursor stands at the first one.
    pub data_len: Option<u32>,
    /// Bytes that READ moved.
    pub transferred: Option<u32>,
    /// A WRITE succeeded, which in NFSv2 moves all bytes that the call brought; its reply has no
    /// number of them.
    pub transferred_all: bool,
    /// The protocol's own status, with its name. NLM's `*_RES` have it in the call.
    pub status: Option<Named>,
    /// Handle in a result: what was looked up, created or mounted.
    pub object: Option<View<'a>>,
    /// Attributes after the operation, of `object` if the reply has one, else of the call's file.
    /// NFSv2's as version 3 says them.
    pub attributes: Option<v3::Attributes>,
    /// Attributes to be set: SETATTR, CREATE, MKDIR, SYMLINK. NFSv2's as version 3 says them.
    pub set_attributes: Option<v3::SetAttributes>,
    /// READDIR: where to go on.
    pub directory_cookie: Option<u32>,
    /// READDIR: the most bytes that the result may have.
    pub bytes_max: Option<u32>,
    /// READDIR: the end was reached.
    pub eof: Option<bool>,
    /// Entries of a result that is a list, if all of it was there: READDIR, DUMP, EXPORT,
    /// GETADDRLIST.
    pub entries: Option<u32>,
    /// STATFS: bytes that READ and WRITE should move at once.
    pub transfer_size: Option<u32>,
    /// STATFS: bytes of the file system.
    pub total_bytes: Option<u64>,
    /// STATFS: bytes free.
    pub free_bytes: Option<u64>,
    /// STATFS: bytes free for this user.
    pub available_bytes: Option<u64>,
    /// MNT version 3: what the server accepts.
    pub flavors: Option<Array<'a, Flavor, 1024>>,

    /// The program that portmap, rpcbind or a forwarded call is about, or that NSM is to call back.
    pub target_program: Option<u32>,
    /// Its version.
    pub target_version: Option<u32>,
    /// Its procedure: CALLIT, BCAST and INDIRECT; NSM's callback.
    pub target_procedure: Option<u32>,
    /// Portmap: IP's number of the transport, 6 for TCP and 17 for UDP.
    pub protocol: Option<u32>,
    /// Portmap: the port that is registered, or the answer, where 0 is none.
    pub port: Option<u32>,
    /// rpcbind: the kind of transport, such as `tcp6`.
    pub netid: Option<View<'a>>,
    /// rpcbind: a universal address, in an answer empty if there is none.
    pub address: Option<View<'a>>,
    /// UADDR2TADDR, TADDR2UADDR: an address as the transport has it.
    pub transport_address: Option<View<'a>>,
    /// rpcbind: the user that registered the program.
    pub service_owner: Option<View<'a>>,
    /// SET, UNSET: whether it was done.
    pub done: Option<bool>,
    /// CALLIT, BCAST, INDIRECT: bytes of the arguments or results that are passed on.
    pub forwarded_bytes: Option<u32>,
    /// GETTIME: seconds since the Unix epoch.
    pub time_seconds: Option<u32>,

    /// NLM: what a reply, or a call that follows, has in common with its call.
    pub cookie: Option<View<'a>>,
    /// NLM, KLM: an exclusive lock, not a shared one.
    pub exclusive: Option<bool>,
    /// NLM, KLM: the caller waits for the lock.
    pub block: Option<bool>,
    /// NLM: the lock or share was held before the server restarted.
    pub reclaim: Option<bool>,
    /// NLM, KLM: the process that owns the lock.
    pub svid: Option<u32>,
    /// NLM: the owner of the lock or share, as its host knows it.
    pub lock_owner: Option<View<'a>>,
    /// NLM: SHARE, UNSHARE: what others may not do meanwhile.
    pub share_mode: Option<DenyMode>,
    /// NLM: SHARE, UNSHARE: what the caller wants to do.
    pub share_access: Option<Access>,
    /// NLM: SHARE, UNSHARE: the server's number of this change.
    pub sequence: Option<u32>,
    /// NLM, NSM: a status monitor's state number, odd while its host is up.
    pub state: Option<u32>,

    /// RQUOTA: user or group.
    pub quota_id: Option<u32>,
    /// RQUOTA version 2: 0 for a user, 1 for a group.
    pub quota_type: Option<u32>,
    /// RQUOTA: SETQUOTA's command, as quotactl(2) has it.
    pub quota_command: Option<u32>,
    /// RQUOTA: bytes of a block.
    pub quota_block_size: Option<u32>,
    /// RQUOTA: the limits are enforced.
    pub quota_active: Option<bool>,
    /// RQUOTA: limits, and what is used of them.
    pub quota_limits: Option<Limits>,

    /// NFSACL: which lists, bits: 1 the list, 2 its length, 4 the default list, 8 its length.
    pub acl_mask: Option<u32>,
    /// NFSACL: entries of the list that are in this message.
    pub acl_entries: Option<u32>,
    /// NFSACL: entries of the default list that are in this message.
    pub acl_default_entries: Option<u32>,
    /// NFSACL version 2: bits asked for or granted by ACCESS.
    pub access: Option<u32>,
    /// NFSACL: GETXATTRDIR makes the directory if there is none.
    pub create: Option<bool>,
}
