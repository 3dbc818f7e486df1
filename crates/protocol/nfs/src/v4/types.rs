//! What arguments, results, attributes and callbacks of NFSv4 share.

use lineside_rpc::xdr::{Counted, Name, Opaque};

/// A file handle (RFC 8881 section 3.3, NFS4_FHSIZE).
pub type Handle<'a> = Opaque<'a, 128>;

/// What a client or a server calls itself or its lock owners (NFS4_OPAQUE_LIMIT).
pub type Owner<'a> = Opaque<'a, 1024>;

/// Bytes that another document describes, or the value of an extended attribute. The protocol sets
/// no limit; a megabyte is far above what servers accept.
pub type Body<'a> = Opaque<'a, 0x10_0000>;

/// pathname4: a path, a component each.
pub type Path<'a> = Counted<'a, Option<Name<'a>>>;

/// sessionid4.
pub type SessionId = [u8; 16];

/// deviceid4 of pNFS.
pub type DeviceId = [u8; 16];

/// verifier4.
pub type Verifier = [u8; 8];

lineside_rpc::xdr! {
    /// nfsstat4 (RFC 8881 section 15.1, RFC 7530 section 13.1, RFC 7862 section 11.1, RFC 8276).
    pub enum Status {
        OK = 0, "NFS4_OK";
        PERM = 1, "NFS4ERR_PERM";
        NOENT = 2, "NFS4ERR_NOENT";
        IO = 5, "NFS4ERR_IO";
        NXIO = 6, "NFS4ERR_NXIO";
        ACCESS = 13, "NFS4ERR_ACCESS";
        EXIST = 17, "NFS4ERR_EXIST";
        XDEV = 18, "NFS4ERR_XDEV";
        NOTDIR = 20, "NFS4ERR_NOTDIR";
        ISDIR = 21, "NFS4ERR_ISDIR";
        INVAL = 22, "NFS4ERR_INVAL";
        FBIG = 27, "NFS4ERR_FBIG";
        NOSPC = 28, "NFS4ERR_NOSPC";
        ROFS = 30, "NFS4ERR_ROFS";
        MLINK = 31, "NFS4ERR_MLINK";
        NAMETOOLONG = 63, "NFS4ERR_NAMETOOLONG";
        NOTEMPTY = 66, "NFS4ERR_NOTEMPTY";
        DQUOT = 69, "NFS4ERR_DQUOT";
        STALE = 70, "NFS4ERR_STALE";
        BADHANDLE = 10001, "NFS4ERR_BADHANDLE";
        BAD_COOKIE = 10003, "NFS4ERR_BAD_COOKIE";
        NOTSUPP = 10004, "NFS4ERR_NOTSUPP";
        TOOSMALL = 10005, "NFS4ERR_TOOSMALL";
        SERVERFAULT = 10006, "NFS4ERR_SERVERFAULT";
        BADTYPE = 10007, "NFS4ERR_BADTYPE";
        DELAY = 10008, "NFS4ERR_DELAY";
        SAME = 10009, "NFS4ERR_SAME";
        DENIED = 10010, "NFS4ERR_DENIED";
        EXPIRED = 10011, "NFS4ERR_EXPIRED";
        LOCKED = 10012, "NFS4ERR_LOCKED";
        GRACE = 10013, "NFS4ERR_GRACE";
        FHEXPIRED = 10014, "NFS4ERR_FHEXPIRED";
        SHARE_DENIED = 10015, "NFS4ERR_SHARE_DENIED";
        WRONGSEC = 10016, "NFS4ERR_WRONGSEC";
        CLID_INUSE = 10017, "NFS4ERR_CLID_INUSE";
        RESOURCE = 10018, "NFS4ERR_RESOURCE";
        MOVED = 10019, "NFS4ERR_MOVED";
        NOFILEHANDLE = 10020, "NFS4ERR_NOFILEHANDLE";
        MINOR_VERS_MISMATCH = 10021, "NFS4ERR_MINOR_VERS_MISMATCH";
        STALE_CLIENTID = 10022, "NFS4ERR_STALE_CLIENTID";
        STALE_STATEID = 10023, "NFS4ERR_STALE_STATEID";
        OLD_STATEID = 10024, "NFS4ERR_OLD_STATEID";
        BAD_STATEID = 10025, "NFS4ERR_BAD_STATEID";
        BAD_SEQID = 10026, "NFS4ERR_BAD_SEQID";
        NOT_SAME = 10027, "NFS4ERR_NOT_SAME";
        LOCK_RANGE = 10028, "NFS4ERR_LOCK_RANGE";
        SYMLINK = 10029, "NFS4ERR_SYMLINK";
        RESTOREFH = 10030, "NFS4ERR_RESTOREFH";
        LEASE_MOVED = 10031, "NFS4ERR_LEASE_MOVED";
        ATTRNOTSUPP = 10032, "NFS4ERR_ATTRNOTSUPP";
        NO_GRACE = 10033, "NFS4ERR_NO_GRACE";
        RECLAIM_BAD = 10034, "NFS4ERR_RECLAIM_BAD";
        RECLAIM_CONFLICT = 10035, "NFS4ERR_RECLAIM_CONFLICT";
        BADXDR = 10036, "NFS4ERR_BADXDR";
        LOCKS_HELD = 10037, "NFS4ERR_LOCKS_HELD";
        OPENMODE = 10038, "NFS4ERR_OPENMODE";
        BADOWNER = 10039, "NFS4ERR_BADOWNER";
        BADCHAR = 10040, "NFS4ERR_BADCHAR";
        BADNAME = 10041, "NFS4ERR_BADNAME";
        BAD_RANGE = 10042, "NFS4ERR_BAD_RANGE";
        LOCK_NOTSUPP = 10043, "NFS4ERR_LOCK_NOTSUPP";
        OP_ILLEGAL = 10044, "NFS4ERR_OP_ILLEGAL";
        DEADLOCK = 10045, "NFS4ERR_DEADLOCK";
        FILE_OPEN = 10046, "NFS4ERR_FILE_OPEN";
        ADMIN_REVOKED = 10047, "NFS4ERR_ADMIN_REVOKED";
        CB_PATH_DOWN = 10048, "NFS4ERR_CB_PATH_DOWN";
        BADIOMODE = 10049, "NFS4ERR_BADIOMODE";
        BADLAYOUT = 10050, "NFS4ERR_BADLAYOUT";
        BAD_SESSION_DIGEST = 10051, "NFS4ERR_BAD_SESSION_DIGEST";
        BADSESSION = 10052, "NFS4ERR_BADSESSION";
        BADSLOT = 10053, "NFS4ERR_BADSLOT";
        COMPLETE_ALREADY = 10054, "NFS4ERR_COMPLETE_ALREADY";
        CONN_NOT_BOUND_TO_SESSION = 10055, "NFS4ERR_CONN_NOT_BOUND_TO_SESSION";
        DELEG_ALREADY_WANTED = 10056, "NFS4ERR_DELEG_ALREADY_WANTED";
        BACK_CHAN_BUSY = 10057, "NFS4ERR_BACK_CHAN_BUSY";
        LAYOUTTRYLATER = 10058, "NFS4ERR_LAYOUTTRYLATER";
        LAYOUTUNAVAILABLE = 10059, "NFS4ERR_LAYOUTUNAVAILABLE";
        NOMATCHING_LAYOUT = 10060, "NFS4ERR_NOMATCHING_LAYOUT";
        RECALLCONFLICT = 10061, "NFS4ERR_RECALLCONFLICT";
        UNKNOWN_LAYOUTTYPE = 10062, "NFS4ERR_UNKNOWN_LAYOUTTYPE";
        SEQ_MISORDERED = 10063, "NFS4ERR_SEQ_MISORDERED";
        SEQUENCE_POS = 10064, "NFS4ERR_SEQUENCE_POS";
        REQ_TOO_BIG = 10065, "NFS4ERR_REQ_TOO_BIG";
        REP_TOO_BIG = 10066, "NFS4ERR_REP_TOO_BIG";
        REP_TOO_BIG_TO_CACHE = 10067, "NFS4ERR_REP_TOO_BIG_TO_CACHE";
        RETRY_UNCACHED_REP = 10068, "NFS4ERR_RETRY_UNCACHED_REP";
        UNSAFE_COMPOUND = 10069, "NFS4ERR_UNSAFE_COMPOUND";
        TOO_MANY_OPS = 10070, "NFS4ERR_TOO_MANY_OPS";
        OP_NOT_IN_SESSION = 10071, "NFS4ERR_OP_NOT_IN_SESSION";
        HASH_ALG_UNSUPP = 10072, "NFS4ERR_HASH_ALG_UNSUPP";
        CLIENTID_BUSY = 10074, "NFS4ERR_CLIENTID_BUSY";
        PNFS_IO_HOLE = 10075, "NFS4ERR_PNFS_IO_HOLE";
        SEQ_FALSE_RETRY = 10076, "NFS4ERR_SEQ_FALSE_RETRY";
        BAD_HIGH_SLOT = 10077, "NFS4ERR_BAD_HIGH_SLOT";
        DEADSESSION = 10078, "NFS4ERR_DEADSESSION";
        ENCR_ALG_UNSUPP = 10079, "NFS4ERR_ENCR_ALG_UNSUPP";
        PNFS_NO_LAYOUT = 10080, "NFS4ERR_PNFS_NO_LAYOUT";
        NOT_ONLY_OP = 10081, "NFS4ERR_NOT_ONLY_OP";
        WRONG_CRED = 10082, "NFS4ERR_WRONG_CRED";
        WRONG_TYPE = 10083, "NFS4ERR_WRONG_TYPE";
        DIRDELEG_UNAVAIL = 10084, "NFS4ERR_DIRDELEG_UNAVAIL";
        REJECT_DELEG = 10085, "NFS4ERR_REJECT_DELEG";
        RETURNCONFLICT = 10086, "NFS4ERR_RETURNCONFLICT";
        DELEG_REVOKED = 10087, "NFS4ERR_DELEG_REVOKED";
        PARTNER_NOTSUPP = 10088, "NFS4ERR_PARTNER_NOTSUPP";
        PARTNER_NO_AUTH = 10089, "NFS4ERR_PARTNER_NO_AUTH";
        UNION_NOTSUPP = 10090, "NFS4ERR_UNION_NOTSUPP";
        OFFLOAD_DENIED = 10091, "NFS4ERR_OFFLOAD_DENIED";
        WRONG_LFS = 10092, "NFS4ERR_WRONG_LFS";
        BADLABEL = 10093, "NFS4ERR_BADLABEL";
        OFFLOAD_NO_REQS = 10094, "NFS4ERR_OFFLOAD_NO_REQS";
        NOXATTR = 10095, "NFS4ERR_NOXATTR";
        XATTR2BIG = 10096, "NFS4ERR_XATTR2BIG";
    }

    /// nfs_ftype4.
    pub enum FileType {
        REGULAR = 1, "NF4REG";
        DIRECTORY = 2, "NF4DIR";
        BLOCK = 3, "NF4BLK";
        CHARACTER = 4, "NF4CHR";
        SYMLINK = 5, "NF4LNK";
        SOCKET = 6, "NF4SOCK";
        FIFO = 7, "NF4FIFO";
        ATTRIBUTE_DIRECTORY = 8, "NF4ATTRDIR";
        NAMED_ATTRIBUTE = 9, "NF4NAMEDATTR";
    }

    /// stable_how4: how far written data must have come before the reply.
    pub enum StableHow {
        UNSTABLE = 0, "UNSTABLE4";
        DATA_SYNC = 1, "DATA_SYNC4";
        FILE_SYNC = 2, "FILE_SYNC4";
    }

    /// nfs_lock_type4.
    pub enum LockType {
        READ = 1, "READ_LT";
        WRITE = 2, "WRITE_LT";
        READ_WAITING = 3, "READW_LT";
        WRITE_WAITING = 4, "WRITEW_LT";
    }

    /// open_delegation_type4 (RFC 8881 section 18.16, RFC 9754).
    pub enum DelegationType {
        NONE = 0, "OPEN_DELEGATE_NONE";
        READ = 1, "OPEN_DELEGATE_READ";
        WRITE = 2, "OPEN_DELEGATE_WRITE";
        NONE_EXTENDED = 3, "OPEN_DELEGATE_NONE_EXT";
        READ_ATTRIBUTES = 4, "OPEN_DELEGATE_READ_ATTRS_DELEG";
        WRITE_ATTRIBUTES = 5, "OPEN_DELEGATE_WRITE_ATTRS_DELEG";
    }

    /// layouttype4 (RFC 8881 section 3.3.13, RFC 8154, RFC 8435).
    pub enum LayoutType {
        FILES = 1, "LAYOUT4_NFSV4_1_FILES";
        OBJECTS = 2, "LAYOUT4_OSD2_OBJECTS";
        BLOCKS = 3, "LAYOUT4_BLOCK_VOLUME";
        FLEX_FILES = 4, "LAYOUT4_FLEX_FILES";
        SCSI = 5, "LAYOUT4_SCSI";
    }

    /// layoutiomode4.
    pub enum IoMode {
        READ = 1, "LAYOUTIOMODE4_READ";
        READ_WRITE = 2, "LAYOUTIOMODE4_RW";
        ANY = 3, "LAYOUTIOMODE4_ANY";
    }

    /// data_content4: what a SEEK looks for, and what a segment of READ_PLUS is.
    pub enum Content {
        DATA = 0, "NFS4_CONTENT_DATA";
        HOLE = 1, "NFS4_CONTENT_HOLE";
    }

    /// nfstime4: since the Unix epoch.
    pub scalar struct Time { seconds: i64, nanoseconds: u32 }

    /// fsid4.
    pub scalar struct FileSystemId { major: u64, minor: u64 }

    /// specdata4: a device's numbers.
    pub scalar struct Device { major: u32, minor: u32 }

    /// stateid4.
    pub scalar struct StateId { sequence: u32, other: [u8; 12] }

    /// change_info4: a directory's change attribute around an operation.
    pub scalar struct ChangeInfo {
        /// Nothing else changed the directory between the two.
        atomic: bool,
        before: u64,
        after: u64,
    }

    /// state_owner4: the owner of an open or a lock.
    pub struct StateOwner<'a> { client_id: Option<u64>, owner: Option<Owner<'a>> }

    /// netaddr4: a universal address.
    pub struct NetAddress<'a> { network: Option<Name<'a>>, address: Option<Name<'a>> }

    /// netloc4: a server, for copies between servers (RFC 7862 section 4).
    pub union NetLocation<'a> {
        1 => Name(name: Option<Name<'a>>),
        2 => Url(url: Option<Name<'a>>),
        3 => Address(address: NetAddress<'a>),
    }

    /// nfsace4: an entry of an access control list.
    pub struct Ace<'a> {
        /// acetype4: 0 allows, 1 denies, 2 audits, 3 alarms.
        ace_type: Option<u32>,
        flags: Option<u32>,
        mask: Option<u32>,
        who: Option<Name<'a>>,
    }

    /// open_read_delegation4.
    pub struct ReadDelegation<'a> {
        stateid: Option<StateId>,
        recall: Option<bool>,
        permissions: Ace<'a>,
    }

    /// open_write_delegation4.
    pub struct WriteDelegation<'a> {
        stateid: Option<StateId>,
        recall: Option<bool>,
        limit: SpaceLimit,
        permissions: Ace<'a>,
    }

    /// nfs_space_limit4: until when a client need not flush what it writes.
    pub union SpaceLimit {
        1 => Bytes(bytes: Option<u64>),
        2 => Blocks(blocks: Option<BlockLimit>),
    }

    /// nfs_modified_limit4.
    pub scalar struct BlockLimit { blocks: u32, bytes_per_block: u32 }

    /// open_none_delegation4: why there is no delegation.
    pub union NoDelegation {
        1 => Contention(server_will_push: Option<bool>),
        2 => Resource(server_will_signal: Option<bool>),
        _ => Other,
    }

    /// open_delegation4.
    pub union Delegation<'a> {
        0 => None,
        1 => Read(read: ReadDelegation<'a>),
        2 => Write(write: WriteDelegation<'a>),
        3 => NoneExtended(why: NoDelegation),
        4 => ReadAttributes(read: ReadDelegation<'a>),
        5 => WriteAttributes(write: WriteDelegation<'a>),
    }

    /// write_response4 of COPY, WRITE_SAME and CB_OFFLOAD.
    pub struct WriteResponse<'a> {
        /// Of an operation that goes on: what names it in OFFLOAD_STATUS, OFFLOAD_CANCEL and
        /// CB_OFFLOAD.
        callback_id: Counted<'a, Option<StateId>, 1>,
        /// Bytes written.
        count: Option<u64>,
        committed: Option<StableHow>,
        verifier: Option<Verifier>,
    }
}

/// The RFC's name of a status.
pub fn status_name(status: u32) -> Option<&'static str> {
    Status(status).name()
}

impl Time {
    /// Nanoseconds since the Unix epoch; `None` if the nanoseconds exceed a second or the sum a
    /// 64-bit number.
    pub fn nanoseconds_since_epoch(&self) -> Option<i64> {
        if self.nanoseconds >= 1_000_000_000 {
            return None;
        }
        let seconds = self.seconds.checked_mul(1_000_000_000)?;
        seconds.checked_add(i64::from(self.nanoseconds))
    }
}

impl Delegation<'_> {
    /// Its type, if that was seen.
    pub fn delegation_type(&self) -> Option<DelegationType> {
        self.discriminant().map(DelegationType)
    }

    /// What names it, if one was granted.
    pub fn stateid(&self) -> Option<StateId> {
        match self {
            Self::Read(read) | Self::ReadAttributes(read) => read.stateid,
            Self::Write(write) | Self::WriteAttributes(write) => write.stateid,
            Self::Unread | Self::None | Self::NoneExtended(_) => None,
        }
    }
}
