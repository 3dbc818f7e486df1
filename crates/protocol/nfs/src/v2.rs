//! NFS version 2 (RFC 1094): all 18 procedures.

use lineside_rpc::xdr::{FixedOpaque, List, Name, Outcome};

/// Its RPC program number.
pub const PROGRAM: u32 = 100_003;
/// The version described here.
pub const VERSION: u32 = 2;

/// fhandle (RFC 1094 section 2.3.3).
pub type Handle<'a> = FixedOpaque<'a, 32>;

lineside_rpc::procedures! {
    0 Null "NULL": () => ();
    1 GetAttr "GETATTR": FileArgs<'a> => Outcome<Attributes, ()>;
    2 SetAttr "SETATTR": SetAttrArgs<'a> => Outcome<Attributes, ()>;
    3 Root "ROOT": () => ();
    4 Lookup "LOOKUP": DirOpArgs<'a> => Outcome<DirOpOk<'a>, ()>;
    5 ReadLink "READLINK": FileArgs<'a> => Outcome<ReadLinkOk<'a>, ()>;
    6 Read "READ": ReadArgs<'a> => Outcome<ReadOk, ()>;
    7 WriteCache "WRITECACHE": () => ();
    8 Write "WRITE": WriteArgs<'a> => Outcome<Attributes, ()>;
    9 Create "CREATE": CreateArgs<'a> => Outcome<DirOpOk<'a>, ()>;
    10 Remove "REMOVE": DirOpArgs<'a> => Outcome<(), ()>;
    11 Rename "RENAME": RenameArgs<'a> => Outcome<(), ()>;
    12 Link "LINK": LinkArgs<'a> => Outcome<(), ()>;
    13 SymLink "SYMLINK": SymLinkArgs<'a> => Outcome<(), ()>;
    14 MkDir "MKDIR": CreateArgs<'a> => Outcome<DirOpOk<'a>, ()>;
    15 RmDir "RMDIR": DirOpArgs<'a> => Outcome<(), ()>;
    16 ReadDir "READDIR": ReadDirArgs<'a> => Outcome<ReadDirOk<'a>, ()>;
    17 StatFs "STATFS": FileArgs<'a> => Outcome<StatFsOk, ()>;
}

lineside_rpc::xdr! {
    /// stat (RFC 1094 section 2.3.1).
    pub enum Status {
        OK = 0, "NFS_OK";
        PERM = 1, "NFSERR_PERM";
        NOENT = 2, "NFSERR_NOENT";
        IO = 5, "NFSERR_IO";
        NXIO = 6, "NFSERR_NXIO";
        ACCES = 13, "NFSERR_ACCES";
        EXIST = 17, "NFSERR_EXIST";
        NODEV = 19, "NFSERR_NODEV";
        NOTDIR = 20, "NFSERR_NOTDIR";
        ISDIR = 21, "NFSERR_ISDIR";
        FBIG = 27, "NFSERR_FBIG";
        NOSPC = 28, "NFSERR_NOSPC";
        ROFS = 30, "NFSERR_ROFS";
        NAMETOOLONG = 63, "NFSERR_NAMETOOLONG";
        NOTEMPTY = 66, "NFSERR_NOTEMPTY";
        DQUOT = 69, "NFSERR_DQUOT";
        STALE = 70, "NFSERR_STALE";
        WFLUSH = 99, "NFSERR_WFLUSH";
    }

    /// ftype (RFC 1094 section 2.3.2); of the last three, which servers send, that says nothing.
    pub enum FileType {
        NONE = 0, "NFNON";
        REGULAR = 1, "NFREG";
        DIRECTORY = 2, "NFDIR";
        BLOCK = 3, "NFBLK";
        CHARACTER = 4, "NFCHR";
        SYMLINK = 5, "NFLNK";
        SOCKET = 6, "NFSOCK";
        BAD = 7, "NFBAD";
        FIFO = 8, "NFFIFO";
    }

    /// timeval: since the Unix epoch.
    pub fixed struct Time { seconds: Option<u32>, microseconds: Option<u32> }

    /// fattr (RFC 1094 section 2.3.5).
    pub fixed struct Attributes {
        file_type: Option<FileType>,
        /// Permissions, and the file's type once more, as in Unix's `st_mode`.
        mode: Option<u32>,
        link_count: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        /// Bytes of the file.
        size: Option<u32>,
        block_size: Option<u32>,
        /// Numbers of a device, in the server's own form.
        device: Option<u32>,
        /// Blocks of disk that the file takes.
        blocks: Option<u32>,
        fsid: Option<u32>,
        fileid: Option<u32>,
        atime: Time,
        mtime: Time,
        ctime: Time,
    }

    /// sattr (RFC 1094 section 2.3.6): the attributes to be set; all ones is one that stays as it
    /// is.
    pub fixed struct SetAttributes {
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u32>,
        atime: Time,
        mtime: Time,
    }

    /// The arguments that are a handle alone: of GETATTR, READLINK and STATFS.
    pub struct FileArgs<'a> { file: Option<Handle<'a>> }

    /// diropargs: a name in a directory; the arguments of LOOKUP, REMOVE and RMDIR.
    pub struct DirOpArgs<'a> { directory: Option<Handle<'a>>, name: Option<Name<'a>> }

    /// sattrargs (RFC 1094 section 2.2.3).
    pub struct SetAttrArgs<'a> { file: Option<Handle<'a>>, attributes: SetAttributes }

    /// readargs (RFC 1094 section 2.2.7).
    pub struct ReadArgs<'a> {
        file: Option<Handle<'a>>,
        offset: Option<u32>,
        count: Option<u32>,
        /// Not used.
        total_count: Option<u32>,
    }

    /// writeargs (RFC 1094 section 2.2.9) up to the data, where the cursor then stands.
    pub struct WriteArgs<'a> {
        file: Option<Handle<'a>>,
        /// Not used, and so is `total_count`.
        begin_offset: Option<u32>,
        offset: Option<u32>,
        total_count: Option<u32>,
        /// Bytes of data that follow, before padding.
        data_len: Option<u32>,
    }

    /// createargs (RFC 1094 section 2.2.10), of MKDIR too.
    pub struct CreateArgs<'a> { what: DirOpArgs<'a>, attributes: SetAttributes }

    /// renameargs (RFC 1094 section 2.2.12).
    pub struct RenameArgs<'a> { from: DirOpArgs<'a>, to: DirOpArgs<'a> }

    /// linkargs (RFC 1094 section 2.2.13).
    pub struct LinkArgs<'a> { file: Option<Handle<'a>>, link: DirOpArgs<'a> }

    /// symlinkargs (RFC 1094 section 2.2.14).
    pub struct SymLinkArgs<'a> {
        what: DirOpArgs<'a>,
        /// The path that the link holds.
        target: Option<Name<'a>>,
        attributes: SetAttributes,
    }

    /// readdirargs (RFC 1094 section 2.2.17).
    pub struct ReadDirArgs<'a> {
        directory: Option<Handle<'a>>,
        cookie: Option<u32>,
        /// The most bytes that the entries may have.
        count: Option<u32>,
    }

    /// diropres: what was looked up or created.
    pub struct DirOpOk<'a> { object: Option<Handle<'a>>, attributes: Attributes }

    /// readlinkres.
    pub struct ReadLinkOk<'a> { target: Option<Name<'a>> }

    /// readres up to the data, where the cursor then stands.
    pub struct ReadOk {
        attributes: Attributes,
        /// Bytes of data that follow, before padding.
        data_len: Option<u32>,
    }

    /// readdirres.
    pub struct ReadDirOk<'a> { entries: List<'a, Entry<'a>>, eof: Option<bool> }

    /// entry.
    pub struct Entry<'a> { fileid: Option<u32>, name: Option<Name<'a>>, cookie: Option<u32> }

    /// statfsres (RFC 1094 section 2.2.18): blocks of `block_size` bytes.
    pub struct StatFsOk {
        /// The best size of a transfer, in bytes.
        transfer_size: Option<u32>,
        block_size: Option<u32>,
        blocks_total: Option<u32>,
        blocks_free: Option<u32>,
        /// What ordinary users may take.
        blocks_available: Option<u32>,
    }
}

/// The RFC's name of a status.
pub fn status_name(status: u32) -> Option<&'static str> {
    Status(status).name()
}

impl Time {
    /// Nanoseconds since the Unix epoch; `None` if a part was not seen or the microseconds exceed a
    /// second.
    pub fn nanoseconds_since_epoch(&self) -> Option<i64> {
        let microseconds = self.microseconds.filter(|&part| part < 1_000_000)?;
        Some(i64::from(self.seconds?) * 1_000_000_000 + i64::from(microseconds) * 1_000)
    }
}

/// What all calls have in common, for a table with one row a call.
impl<'a> Call<'a> {
    /// The file or directory that the call is about; of LINK the file, of RENAME the directory
    /// left.
    pub fn file(&self) -> Option<Handle<'a>> {
        match self {
            Self::Null(()) | Self::Root(()) | Self::WriteCache(()) => None,
            Self::GetAttr(args) | Self::ReadLink(args) | Self::StatFs(args) => args.file,
            Self::SetAttr(args) => args.file,
            Self::Read(args) => args.file,
            Self::Write(args) => args.file,
            Self::Link(args) => args.file,
            Self::ReadDir(args) => args.directory,
            _ => self.what()?.directory,
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

    /// The first byte of the file that is read or written.
    pub fn offset(&self) -> Option<u64> {
        match self {
            Self::Read(args) => args.offset.map(u64::from),
            Self::Write(args) => args.offset.map(u64::from),
            _ => None,
        }
    }

    /// Bytes to read, to write, or that the reply to READDIR may have.
    pub fn count(&self) -> Option<u32> {
        match self {
            Self::Read(args) => args.count,
            Self::Write(args) => args.data_len,
            Self::ReadDir(args) => args.count,
            _ => None,
        }
    }

    /// The first directory and name.
    fn what(&self) -> Option<&DirOpArgs<'a>> {
        match self {
            Self::Lookup(args) | Self::Remove(args) | Self::RmDir(args) => Some(args),
            Self::Create(args) | Self::MkDir(args) => Some(&args.what),
            Self::SymLink(args) => Some(&args.what),
            Self::Rename(args) => Some(&args.from),
            _ => None,
        }
    }
}

/// What all replies have in common, for a table with one row a call.
impl<'a> Reply<'a> {
    /// The status, if it was seen; NULL, ROOT and WRITECACHE have none.
    pub fn status(&self) -> Option<u32> {
        match self {
            Self::Null(()) | Self::Root(()) | Self::WriteCache(()) => None,
            Self::GetAttr(outcome) | Self::SetAttr(outcome) | Self::Write(outcome) => {
                outcome.status()
            }
            Self::Lookup(outcome) | Self::Create(outcome) | Self::MkDir(outcome) => {
                outcome.status()
            }
            Self::ReadLink(outcome) => outcome.status(),
            Self::Read(outcome) => outcome.status(),
            Self::Remove(outcome)
            | Self::Rename(outcome)
            | Self::Link(outcome)
            | Self::SymLink(outcome)
            | Self::RmDir(outcome) => outcome.status(),
            Self::ReadDir(outcome) => outcome.status(),
            Self::StatFs(outcome) => outcome.status(),
        }
    }

    /// The handle that was looked up or created.
    pub fn object(&self) -> Option<Handle<'a>> {
        match self {
            Self::Lookup(outcome) | Self::Create(outcome) | Self::MkDir(outcome) => {
                outcome.ok()?.object
            }
            _ => None,
        }
    }

    /// The attributes after the operation: of what was looked up or created, else of the file that
    /// the call is about.
    pub fn attributes(&self) -> Option<&Attributes> {
        match self {
            Self::GetAttr(outcome) | Self::SetAttr(outcome) | Self::Write(outcome) => outcome.ok(),
            Self::Lookup(outcome) | Self::Create(outcome) | Self::MkDir(outcome) => {
                outcome.ok().map(|ok| &ok.attributes)
            }
            Self::Read(outcome) => outcome.ok().map(|ok| &ok.attributes),
            _ => None,
        }
    }

    /// Bytes that READ moved. WRITE's reply does not say: a success wrote all.
    pub fn transferred(&self) -> Option<u32> {
        match self {
            Self::Read(outcome) => outcome.ok()?.data_len,
            _ => None,
        }
    }
}
