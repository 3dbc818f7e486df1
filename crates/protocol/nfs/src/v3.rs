//! NFS version 3 (RFC 1813): all 22 procedures.

use lineside_rpc::xdr::{Handle, InPlace, List, Name, Optional, Outcome};

/// Its RPC program number.
pub const PROGRAM: u32 = 100_003;
/// The version described here.
pub const VERSION: u32 = 3;

lineside_rpc::procedures! {
    0 Null "NULL": () => ();
    1 GetAttr "GETATTR": FileArgs<'a> => Outcome<InPlace<'a, Attributes>, ()>;
    2 SetAttr "SETATTR": SetAttrArgs<'a> => Outcome<Wcc<'a>, Wcc<'a>>;
    3 Lookup "LOOKUP": DirOpArgs<'a> => Outcome<LookupOk<'a>, ObjectAttributes<'a>>;
    4 Access "ACCESS": AccessArgs<'a> => Outcome<AccessOk<'a>, ObjectAttributes<'a>>;
    5 ReadLink "READLINK": FileArgs<'a> => Outcome<ReadLinkOk<'a>, ObjectAttributes<'a>>;
    6 Read "READ": ReadArgs<'a> => Outcome<ReadOk<'a>, ObjectAttributes<'a>>;
    7 Write "WRITE": WriteArgs<'a> => Outcome<WriteOk<'a>, Wcc<'a>>;
    8 Create "CREATE": CreateArgs<'a> => Outcome<CreateOk<'a>, Wcc<'a>>;
    9 MkDir "MKDIR": MkDirArgs<'a> => Outcome<CreateOk<'a>, Wcc<'a>>;
    10 SymLink "SYMLINK": SymLinkArgs<'a> => Outcome<CreateOk<'a>, Wcc<'a>>;
    11 MkNod "MKNOD": MkNodArgs<'a> => Outcome<CreateOk<'a>, Wcc<'a>>;
    12 Remove "REMOVE": DirOpArgs<'a> => Outcome<Wcc<'a>, Wcc<'a>>;
    13 RmDir "RMDIR": DirOpArgs<'a> => Outcome<Wcc<'a>, Wcc<'a>>;
    14 Rename "RENAME": RenameArgs<'a> => Outcome<RenameResult<'a>, RenameResult<'a>>;
    15 Link "LINK": LinkArgs<'a> => Outcome<LinkResult<'a>, LinkResult<'a>>;
    16 ReadDir "READDIR": ReadDirArgs<'a> => Outcome<ReadDirOk<'a>, ObjectAttributes<'a>>;
    17 ReadDirPlus "READDIRPLUS": ReadDirPlusArgs<'a> => Outcome<ReadDirPlusOk<'a>, ObjectAttributes<'a>>;
    18 FsStat "FSSTAT": FileArgs<'a> => Outcome<FsStatOk<'a>, ObjectAttributes<'a>>;
    19 FsInfo "FSINFO": FileArgs<'a> => Outcome<FsInfoOk<'a>, ObjectAttributes<'a>>;
    20 PathConf "PATHCONF": FileArgs<'a> => Outcome<PathConfOk<'a>, ObjectAttributes<'a>>;
    21 Commit "COMMIT": CommitArgs<'a> => Outcome<CommitOk<'a>, Wcc<'a>>;
}

lineside_rpc::xdr! {
    /// nfsstat3 (RFC 1813 section 2.6).
    pub enum Status {
        OK = 0, "NFS3_OK";
        PERM = 1, "NFS3ERR_PERM";
        NOENT = 2, "NFS3ERR_NOENT";
        IO = 5, "NFS3ERR_IO";
        NXIO = 6, "NFS3ERR_NXIO";
        ACCES = 13, "NFS3ERR_ACCES";
        EXIST = 17, "NFS3ERR_EXIST";
        XDEV = 18, "NFS3ERR_XDEV";
        NODEV = 19, "NFS3ERR_NODEV";
        NOTDIR = 20, "NFS3ERR_NOTDIR";
        ISDIR = 21, "NFS3ERR_ISDIR";
        INVAL = 22, "NFS3ERR_INVAL";
        FBIG = 27, "NFS3ERR_FBIG";
        NOSPC = 28, "NFS3ERR_NOSPC";
        ROFS = 30, "NFS3ERR_ROFS";
        MLINK = 31, "NFS3ERR_MLINK";
        NAMETOOLONG = 63, "NFS3ERR_NAMETOOLONG";
        NOTEMPTY = 66, "NFS3ERR_NOTEMPTY";
        DQUOT = 69, "NFS3ERR_DQUOT";
        STALE = 70, "NFS3ERR_STALE";
        REMOTE = 71, "NFS3ERR_REMOTE";
        BADHANDLE = 10001, "NFS3ERR_BADHANDLE";
        NOT_SYNC = 10002, "NFS3ERR_NOT_SYNC";
        BAD_COOKIE = 10003, "NFS3ERR_BAD_COOKIE";
        NOTSUPP = 10004, "NFS3ERR_NOTSUPP";
        TOOSMALL = 10005, "NFS3ERR_TOOSMALL";
        SERVERFAULT = 10006, "NFS3ERR_SERVERFAULT";
        BADTYPE = 10007, "NFS3ERR_BADTYPE";
        JUKEBOX = 10008, "NFS3ERR_JUKEBOX";
    }

    /// ftype3 (RFC 1813 section 2.5).
    pub enum FileType {
        REGULAR = 1, "regular";
        DIRECTORY = 2, "directory";
        BLOCK = 3, "block";
        CHARACTER = 4, "character";
        SYMLINK = 5, "symlink";
        SOCKET = 6, "socket";
        FIFO = 7, "fifo";
    }

    /// stable_how: how far a WRITE's data must have come before the reply (RFC 1813 section 3.3.7).
    pub enum StableHow {
        UNSTABLE = 0, "UNSTABLE";
        DATA_SYNC = 1, "DATA_SYNC";
        FILE_SYNC = 2, "FILE_SYNC";
    }

    /// nfstime3: since the Unix epoch.
    pub fixed struct Time { seconds: Option<u32>, nanoseconds: Option<u32> }

    /// specdata3: a device's numbers.
    pub fixed struct Device { major: Option<u32>, minor: Option<u32> }

    /// fattr3: a file's attributes (RFC 1813 section 2.5).
    pub fixed struct Attributes {
        file_type: Option<FileType>,
        /// Permissions, as in the RFC: the lowest twelve bits.
        mode: Option<u32>,
        link_count: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        /// Bytes of the file.
        size: Option<u64>,
        /// Bytes of disk that it takes.
        used: Option<u64>,
        device: Device,
        fsid: Option<u64>,
        fileid: Option<u64>,
        atime: Time,
        mtime: Time,
        ctime: Time,
    }

    /// wcc_attr: attributes before an operation.
    pub fixed struct WccAttributes { size: Option<u64>, mtime: Time, ctime: Time }

    /// wcc_data: attributes before and after an operation, for weak cache consistency.
    pub struct Wcc<'a> { before: Optional<WccAttributes>, after: PostOpAttributes<'a> }

    /// set_atime, set_mtime: whether a time is set, and to what.
    pub union SetTime {
        0 => DontChange,
        1 => ServerTime,
        2 => ClientTime(time: Time),
    }

    /// sattr3: the attributes to be set (RFC 1813 section 2.5).
    pub struct SetAttributes {
        mode: Optional<Option<u32>>,
        uid: Optional<Option<u32>>,
        gid: Optional<Option<u32>>,
        size: Optional<Option<u64>>,
        atime: SetTime,
        mtime: SetTime,
    }

    /// The arguments that are a handle alone: of GETATTR, READLINK, FSSTAT, FSINFO and PATHCONF.
    pub struct FileArgs<'a> { file: Option<Handle<'a>> }

    /// diropargs3: a name in a directory; the arguments of LOOKUP, REMOVE and RMDIR.
    pub struct DirOpArgs<'a> { directory: Option<Handle<'a>>, name: Option<Name<'a>> }

    /// SETATTR3args (RFC 1813 section 3.3.2).
    pub struct SetAttrArgs<'a> {
        file: Option<Handle<'a>>,
        attributes: SetAttributes,
        /// Only if the file's ctime is still this.
        guard: Optional<Time>,
    }

    /// ACCESS3args (RFC 1813 section 3.3.4).
    pub struct AccessArgs<'a> {
        file: Option<Handle<'a>>,
        /// Bits: 1 read, 2 lookup, 4 modify, 8 extend, 16 delete, 32 execute.
        access: Option<u32>,
    }

    /// READ3args (RFC 1813 section 3.3.6).
    pub struct ReadArgs<'a> { file: Option<Handle<'a>>, offset: Option<u64>, count: Option<u32> }

    /// WRITE3args (RFC 1813 section 3.3.7) up to the data, where the cursor then stands.
    pub struct WriteArgs<'a> {
        file: Option<Handle<'a>>,
        offset: Option<u64>,
        count: Option<u32>,
        stable: Option<StableHow>,
        /// Bytes of data that follow, before padding; should equal `count`.
        data_len: Option<u32>,
    }

    /// CREATE3args (RFC 1813 section 3.3.8).
    pub struct CreateArgs<'a> { what: DirOpArgs<'a>, how: CreateHow }

    /// createhow3.
    pub union CreateHow {
        0 => Unchecked(attributes: SetAttributes),
        1 => Guarded(attributes: SetAttributes),
        2 => Exclusive(verifier: Option<[u8; 8]>),
    }

    /// MKDIR3args (RFC 1813 section 3.3.9).
    pub struct MkDirArgs<'a> { what: DirOpArgs<'a>, attributes: SetAttributes }

    /// SYMLINK3args (RFC 1813 section 3.3.10).
    pub struct SymLinkArgs<'a> {
        what: DirOpArgs<'a>,
        attributes: SetAttributes,
        /// The path that the link holds.
        target: Option<Name<'a>>,
    }

    /// MKNOD3args (RFC 1813 section 3.3.11).
    pub struct MkNodArgs<'a> { what: DirOpArgs<'a>, node: Node }

    /// mknoddata3, by [`FileType`].
    pub union Node {
        3 => Block(device: DeviceNode),
        4 => Character(device: DeviceNode),
        6 => Socket(attributes: SetAttributes),
        7 => Fifo(attributes: SetAttributes),
        _ => Other,
    }

    /// devicedata3.
    pub struct DeviceNode { attributes: SetAttributes, device: Device }

    /// RENAME3args (RFC 1813 section 3.3.14).
    pub struct RenameArgs<'a> { from: DirOpArgs<'a>, to: DirOpArgs<'a> }

    /// LINK3args (RFC 1813 section 3.3.15).
    pub struct LinkArgs<'a> { file: Option<Handle<'a>>, link: DirOpArgs<'a> }

    /// READDIR3args (RFC 1813 section 3.3.16).
    pub struct ReadDirArgs<'a> {
        directory: Option<Handle<'a>>,
        cookie: Option<u64>,
        cookie_verifier: Option<[u8; 8]>,
        /// The most bytes that the reply may have.
        count: Option<u32>,
    }

    /// READDIRPLUS3args (RFC 1813 section 3.3.17).
    pub struct ReadDirPlusArgs<'a> {
        directory: Option<Handle<'a>>,
        cookie: Option<u64>,
        cookie_verifier: Option<[u8; 8]>,
        /// The most bytes of names, file ids and cookies.
        directory_count: Option<u32>,
        /// The most bytes that the reply may have.
        count_max: Option<u32>,
    }

    /// COMMIT3args (RFC 1813 section 3.3.21).
    pub struct CommitArgs<'a> { file: Option<Handle<'a>>, offset: Option<u64>, count: Option<u32> }

    /// post_op_attr alone: the body of most failures.
    pub struct ObjectAttributes<'a> { attributes: PostOpAttributes<'a> }

    /// LOOKUP3resok.
    pub struct LookupOk<'a> {
        object: Option<Handle<'a>>,
        attributes: PostOpAttributes<'a>,
        directory: PostOpAttributes<'a>,
    }

    /// ACCESS3resok.
    pub struct AccessOk<'a> { attributes: PostOpAttributes<'a>, access: Option<u32> }

    /// READLINK3resok.
    pub struct ReadLinkOk<'a> { attributes: PostOpAttributes<'a>, target: Option<Name<'a>> }

    /// READ3resok up to the data, where the cursor then stands.
    pub struct ReadOk<'a> {
        attributes: PostOpAttributes<'a>,
        count: Option<u32>,
        eof: Option<bool>,
        /// Bytes of data that follow, before padding; should equal `count`.
        data_len: Option<u32>,
    }

    /// WRITE3resok.
    pub struct WriteOk<'a> {
        file: Wcc<'a>,
        count: Option<u32>,
        committed: Option<StableHow>,
        verifier: Option<[u8; 8]>,
    }

    /// CREATE3resok, and likewise of MKDIR, SYMLINK and MKNOD.
    pub struct CreateOk<'a> {
        object: Optional<Option<Handle<'a>>>,
        attributes: PostOpAttributes<'a>,
        directory: Wcc<'a>,
    }

    /// RENAME3resok and RENAME3resfail.
    pub struct RenameResult<'a> { from: Wcc<'a>, to: Wcc<'a> }

    /// LINK3resok and LINK3resfail.
    pub struct LinkResult<'a> { attributes: PostOpAttributes<'a>, directory: Wcc<'a> }

    /// READDIR3resok, with dirlist3.
    pub struct ReadDirOk<'a> {
        directory: PostOpAttributes<'a>,
        cookie_verifier: Option<[u8; 8]>,
        entries: List<'a, Entry<'a>>,
        eof: Option<bool>,
    }

    /// entry3.
    pub struct Entry<'a> { fileid: Option<u64>, name: Option<Name<'a>>, cookie: Option<u64> }

    /// READDIRPLUS3resok, with dirlistplus3.
    pub struct ReadDirPlusOk<'a> {
        directory: PostOpAttributes<'a>,
        cookie_verifier: Option<[u8; 8]>,
        entries: List<'a, EntryPlus<'a>>,
        eof: Option<bool>,
    }

    /// entryplus3.
    pub struct EntryPlus<'a> {
        fileid: Option<u64>,
        name: Option<Name<'a>>,
        cookie: Option<u64>,
        attributes: PostOpAttributes<'a>,
        handle: Optional<Option<Handle<'a>>>,
    }

    /// FSSTAT3resok (RFC 1813 section 3.3.18). `bytes_available` and `files_available` are what
    /// this user may take.
    pub struct FsStatOk<'a> {
        attributes: PostOpAttributes<'a>,
        bytes_total: Option<u64>,
        bytes_free: Option<u64>,
        bytes_available: Option<u64>,
        files_total: Option<u64>,
        files_free: Option<u64>,
        files_available: Option<u64>,
        /// For how many seconds this is not expected to change.
        invariant_seconds: Option<u32>,
    }

    /// FSINFO3resok (RFC 1813 section 3.3.19): sizes in bytes, each the largest, the preferred, or
    /// a factor of it.
    pub struct FsInfoOk<'a> {
        attributes: PostOpAttributes<'a>,
        read_max: Option<u32>,
        read_preferred: Option<u32>,
        read_multiple: Option<u32>,
        write_max: Option<u32>,
        write_preferred: Option<u32>,
        write_multiple: Option<u32>,
        readdir_preferred: Option<u32>,
        file_size_max: Option<u64>,
        time_delta: Time,
        /// Bits: 1 hard links, 2 symbolic links, 8 homogeneous, 16 times can be set.
        properties: Option<u32>,
    }

    /// PATHCONF3resok (RFC 1813 section 3.3.20).
    pub struct PathConfOk<'a> {
        attributes: PostOpAttributes<'a>,
        links_max: Option<u32>,
        name_max: Option<u32>,
        no_truncation: Option<bool>,
        chown_restricted: Option<bool>,
        case_insensitive: Option<bool>,
        case_preserving: Option<bool>,
    }

    /// COMMIT3resok.
    pub struct CommitOk<'a> { file: Wcc<'a>, verifier: Option<[u8; 8]> }
}

/// post_op_attr: a file's attributes after an operation.
pub type PostOpAttributes<'a> = Optional<InPlace<'a, Attributes>>;

/// The RFC's name of a status.
pub fn status_name(status: u32) -> Option<&'static str> {
    Status(status).name()
}

impl CreateHow {
    /// createmode3's name.
    pub fn name(&self) -> Option<&'static str> {
        Some(match self {
            Self::Unread => return None,
            Self::Unchecked(_) => "UNCHECKED",
            Self::Guarded(_) => "GUARDED",
            Self::Exclusive(_) => "EXCLUSIVE",
        })
    }
}

impl SetTime {
    /// time_how's name.
    pub fn name(&self) -> Option<&'static str> {
        Some(match self {
            Self::Unread => return None,
            Self::DontChange => "DONT_CHANGE",
            Self::ServerTime => "SET_TO_SERVER_TIME",
            Self::ClientTime(_) => "SET_TO_CLIENT_TIME",
        })
    }
}

impl Time {
    /// Nanoseconds since the Unix epoch; `None` if a part was not seen or the nanoseconds exceed a
    /// second.
    #[inline]
    pub fn nanoseconds_since_epoch(&self) -> Option<i64> {
        let nanoseconds = self.nanoseconds.filter(|&part| part < 1_000_000_000)?;
        Some(i64::from(self.seconds?) * 1_000_000_000 + i64::from(nanoseconds))
    }
}

/// What all calls have in common, for a table with one row a call.
impl<'a> Call<'a> {
    /// The file or directory that the call is about; of LINK the file, of RENAME the directory
    /// left.
    pub fn file(&self) -> Option<Handle<'a>> {
        match self {
            Self::Null(()) => None,
            Self::GetAttr(args)
            | Self::ReadLink(args)
            | Self::FsStat(args)
            | Self::FsInfo(args)
            | Self::PathConf(args) => args.file,
            Self::SetAttr(args) => args.file,
            Self::Access(args) => args.file,
            Self::Read(args) => args.file,
            Self::Write(args) => args.file,
            Self::Link(args) => args.file,
            Self::ReadDir(args) => args.directory,
            Self::ReadDirPlus(args) => args.directory,
            Self::Commit(args) => args.file,
            Self::Lookup(_)
            | Self::Create(_)
            | Self::MkDir(_)
            | Self::SymLink(_)
            | Self::MkNod(_)
            | Self::Remove(_)
            | Self::RmDir(_)
            | Self::Rename(_) => self.what()?.directory,
        }
    }

    /// The second directory, of RENAME and LINK: the one that gets the name.
    pub fn file2(&self) -> Option<Handle<'a>> {
        match self {
            Self::Rename(args) => args.to.directory,
            Self::Link(args) => args.link.directory,
            _ => None,
        }
    }

    /// The name that the call is about; of LINK the new one, of RENAME the old one.
    pub fn name(&self) -> Option<Name<'a>> {
        match self {
            Self::Link(args) => args.link.name,
            _ => self.what()?.name,
        }
    }

    /// RENAME's new name, or what SYMLINK's link holds.
    pub fn name2(&self) -> Option<Name<'a>> {
        match self {
            Self::Rename(args) => args.to.name,
            Self::SymLink(args) => args.target,
            _ => None,
        }
    }

    /// The first byte of the file that is read, written or committed.
    pub fn offset(&self) -> Option<u64> {
        match self {
            Self::Read(args) => args.offset,
            Self::Write(args) => args.offset,
            Self::Commit(args) => args.offset,
            _ => None,
        }
    }

    /// Bytes to read, to write, to commit, or that the reply to READDIR and READDIRPLUS may have.
    pub fn count(&self) -> Option<u32> {
        match self {
            Self::Read(args) => args.count,
            Self::Write(args) => args.count,
            Self::Commit(args) => args.count,
            Self::ReadDir(args) => args.count,
            Self::ReadDirPlus(args) => args.count_max,
            _ => None,
        }
    }

    /// The first directory and name.
    fn what(&self) -> Option<&DirOpArgs<'a>> {
        match self {
            Self::Lookup(args) | Self::Remove(args) | Self::RmDir(args) => Some(args),
            Self::Create(args) => Some(&args.what),
            Self::MkDir(args) => Some(&args.what),
            Self::SymLink(args) => Some(&args.what),
            Self::MkNod(args) => Some(&args.what),
            Self::Rename(args) => Some(&args.from),
            _ => None,
        }
    }
}

/// What all replies have in common, for a table with one row a call.
impl<'a> Reply<'a> {
    /// The status, if it was seen; NULL has none.
    pub fn status(&self) -> Option<u32> {
        match self {
            Self::Null(()) => None,
            Self::GetAttr(outcome) => outcome.status(),
            Self::SetAttr(outcome) | Self::Remove(outcome) | Self::RmDir(outcome) => {
                outcome.status()
            }
            Self::Lookup(outcome) => outcome.status(),
            Self::Access(outcome) => outcome.status(),
            Self::ReadLink(outcome) => outcome.status(),
            Self::Read(outcome) => outcome.status(),
            Self::Write(outcome) => outcome.status(),
            Self::Create(outcome)
            | Self::MkDir(outcome)
            | Self::SymLink(outcome)
            | Self::MkNod(outcome) => outcome.status(),
            Self::Rename(outcome) => outcome.status(),
            Self::Link(outcome) => outcome.status(),
            Self::ReadDir(outcome) => outcome.status(),
            Self::ReadDirPlus(outcome) => outcome.status(),
            Self::FsStat(outcome) => outcome.status(),
            Self::FsInfo(outcome) => outcome.status(),
            Self::PathConf(outcome) => outcome.status(),
            Self::Commit(outcome) => outcome.status(),
        }
    }

    /// The handle that was looked up or created.
    pub fn object(&self) -> Option<Handle<'a>> {
        match self {
            Self::Lookup(outcome) => outcome.ok()?.object,
            Self::Create(outcome)
            | Self::MkDir(outcome)
            | Self::SymLink(outcome)
            | Self::MkNod(outcome) => outcome.ok()?.object.value(),
            _ => None,
        }
    }

    /// The attributes after the operation: of what was looked up or created if that succeeded, else
    /// of the file or directory that the call is about ([`Call::file`]).
    #[inline]
    pub fn attributes(&self) -> Option<InPlace<'a, Attributes>> {
        let attributes = match self {
            Self::Null(()) => return None,
            Self::GetAttr(outcome) => return outcome.ok().copied(),
            Self::SetAttr(outcome) | Self::Remove(outcome) | Self::RmDir(outcome) => {
                let (Outcome::Ok(wcc) | Outcome::Fail(_, wcc)) = outcome else {
                    return None;
                };
                &wcc.after
            }
            Self::Lookup(outcome) => either(outcome, |ok| &ok.attributes, |fail| &fail.attributes)?,
            Self::Access(outcome) => either(outcome, |ok| &ok.attributes, |fail| &fail.attributes)?,
            Self::ReadLink(outcome) => {
                either(outcome, |ok| &ok.attributes, |fail| &fail.attributes)?
            }
            Self::Read(outcome) => either(outcome, |ok| &ok.attributes, |fail| &fail.attributes)?,
            Self::Write(outcome) => either(outcome, |ok| &ok.file.after, |fail| &fail.after)?,
            Self::Create(outcome)
            | Self::MkDir(outcome)
            | Self::SymLink(outcome)
            | Self::MkNod(outcome) => either(outcome, |ok| &ok.attributes, |fail| &fail.after)?,
            Self::Rename(outcome) => either(outcome, |ok| &ok.from.after, |fail| &fail.from.after)?,
            Self::Link(outcome) => either(outcome, |ok| &ok.attributes, |fail| &fail.attributes)?,
            Self::ReadDir(outcome) => either(outcome, |ok| &ok.directory, |fail| &fail.attributes)?,
            Self::ReadDirPlus(outcome) => {
                either(outcome, |ok| &ok.directory, |fail| &fail.attributes)?
            }
            Self::FsStat(outcome) => either(outcome, |ok| &ok.attributes, |fail| &fail.attributes)?,
            Self::FsInfo(outcome) => either(outcome, |ok| &ok.attributes, |fail| &fail.attributes)?,
            Self::PathConf(outcome) => {
                either(outcome, |ok| &ok.attributes, |fail| &fail.attributes)?
            }
            Self::Commit(outcome) => either(outcome, |ok| &ok.file.after, |fail| &fail.after)?,
        };
        attributes.present()
    }

    /// Bytes that READ or WRITE moved.
    pub fn transferred(&self) -> Option<u32> {
        match self {
            Self::Read(outcome) => outcome.ok()?.count,
            Self::Write(outcome) => outcome.ok()?.count,
            _ => None,
        }
    }
}

fn either<'o, O, F, T>(
    outcome: &'o Outcome<O, F>,
    ok: impl Fn(&'o O) -> &'o T,
    fail: impl Fn(&'o F) -> &'o T,
) -> Option<&'o T> {
    match outcome {
        Outcome::Unread => None,
        Outcome::Ok(body) => Some(ok(body)),
        Outcome::Fail(_, body) => Some(fail(body)),
    }
}
