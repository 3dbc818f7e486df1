//! What an image uses of a row.

use crate::kind::Kind;

/// Programs whose calls an image is made of.
pub const PROGRAMS: [&str; 2] = ["nfs", "mount"];

/// What an operation does to the tree, or shows of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Action {
    /// Nothing but the attributes of its object.
    #[default]
    Attributes,
    /// LOOKUP.
    Look,
    /// LOOKUPP.
    LookAtParent,
    /// OPEN.
    Open,
    /// CREATE, MKDIR, SYMLINK, MKNOD: an object of this kind; of NFSv4 the row says which.
    Make(Option<Kind>),
    /// REMOVE, RMDIR: an object of this kind, if the operation is for one.
    Remove(Option<Kind>),
    /// RENAME.
    Rename,
    /// LINK.
    Link,
    /// READ.
    Read,
    /// WRITE, and others that change content: ALLOCATE, COPY.
    Write,
    /// SETATTR.
    Set,
    /// READDIR, READDIRPLUS.
    List,
    /// READLINK.
    ReadLink,
    /// MNT.
    Mount,
    /// PUTROOTFH, PUTPUBFH.
    PutRoot,
    /// PUTFH.
    PutHandle,
    /// GETFH.
    GetHandle,
    /// SAVEFH.
    Save,
    /// RESTOREFH.
    Restore,
}

impl Action {
    /// What an operation of NFS or MOUNT does.
    pub fn of(operation: &str) -> Self {
        match operation {
            "LOOKUP" => Self::Look,
            "LOOKUPP" => Self::LookAtParent,
            "OPEN" => Self::Open,
            // Of NFSv4 the row has its kind, and OPEN makes files.
            "CREATE" => Self::Make(None),
            "MKDIR" => Self::Make(Some(Kind::Directory)),
            "SYMLINK" => Self::Make(Some(Kind::Link)),
            "MKNOD" => Self::Make(None),
            // Of NFSv4 it removes directories, too.
            "REMOVE" => Self::Remove(None),
            "RMDIR" => Self::Remove(Some(Kind::Directory)),
            "RENAME" => Self::Rename,
            "LINK" => Self::Link,
            "READ" | "READ_PLUS" => Self::Read,
            "WRITE" | "ALLOCATE" | "DEALLOCATE" | "WRITE_SAME" => Self::Write,
            "SETATTR" => Self::Set,
            "READDIR" | "READDIRPLUS" => Self::List,
            "READLINK" => Self::ReadLink,
            "MNT" => Self::Mount,
            "PUTROOTFH" | "PUTPUBFH" => Self::PutRoot,
            "PUTFH" => Self::PutHandle,
            "GETFH" => Self::GetHandle,
            "SAVEFH" => Self::Save,
            "RESTOREFH" => Self::Restore,
            _ => Self::Attributes,
        }
    }
}

/// What became of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Outcome {
    /// Its reply was not seen.
    #[default]
    NotSeen,
    /// It was done.
    Done,
    /// There is nothing of that name.
    NoEntry,
    /// There is something of that name.
    Exists,
    /// There is a directory of that name, with something in it.
    NotEmpty,
    /// It failed, which shows nothing.
    Failed,
}

impl Outcome {
    /// What a status means; `None`: it was not seen.
    pub fn of(status: Option<&str>) -> Self {
        let Some(status) = status else {
            return Self::NotSeen;
        };
        let status = status.split_once('_').map_or(status, |(_, status)| status);
        match status {
            "OK" => Self::Done,
            "NOENT" => Self::NoEntry,
            "EXIST" => Self::Exists,
            "NOTEMPTY" => Self::NotEmpty,
            _ => Self::Failed,
        }
    }
}

/// How a CREATE or an OPEN makes a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Creation {
    /// It makes none, or how is not known.
    #[default]
    None,
    /// It makes one unless there is one.
    Unchecked,
    /// It fails where there is one, or where another call made it.
    Guarded,
}

impl Creation {
    /// What `create_mode` means.
    pub fn of(mode: Option<&str>) -> Self {
        match mode {
            None => Self::None,
            Some(mode) if mode.starts_with("UNCHECKED") => Self::Unchecked,
            Some(_) => Self::Guarded,
        }
    }
}

/// Attributes of an object, as far as a reply has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attributes {
    /// What it is.
    pub kind: Option<Kind>,
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Bytes in it.
    pub size: Option<u64>,
    /// When it was modified.
    pub mtime_ns: Option<i64>,
    /// When it was changed.
    pub ctime_ns: Option<i64>,
    /// Hard links to it.
    pub links: Option<u32>,
    /// Major and minor number of a device.
    pub device: Option<(u32, u32)>,
}

/// What a reply has of the directory of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Directory {
    /// Permission bits.
    pub mode: Option<u32>,
    /// When it was modified, before the operation.
    pub before_mtime_ns: Option<i64>,
    /// The same after it.
    pub mtime_ns: Option<i64>,
    /// NFSv4: the change attribute before the operation and after it, if both are there.
    pub changes: Option<(i64, i64)>,
}

/// Which attributes a call sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetAttributes {
    /// Permission bits.
    pub mode: bool,
    /// Owner.
    pub uid: bool,
    /// Group.
    pub gid: bool,
    /// Bytes in the file.
    pub size: Option<u64>,
    /// When it was modified.
    pub mtime: bool,
}

/// A row of `operations`, with what other tables have of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Row<'a> {
    /// `operation_id`
    pub id: i64,
    /// `rpc_id`
    pub call: i64,
    /// The server: a number that is the same in all rows of it.
    pub server: u32,
    /// It is one of the operations of a compound.
    pub is_of_compound: bool,
    /// What it does.
    pub action: Action,
    /// What became of it.
    pub outcome: Outcome,
    /// `file_id`, `file2_id`, `result_file_id`
    pub file: Option<i64>,
    /// The second file.
    pub file2: Option<i64>,
    /// The one that was found or made.
    pub made: Option<i64>,
    /// Names as they stand in the tables.
    pub name: Option<&'a str>,
    /// The second name.
    pub name2: Option<&'a str>,
    /// First byte that is read or written.
    pub offset: Option<u64>,
    /// Bytes that were moved; of a call without a reply those that were asked for.
    pub bytes: u64,
    /// READ: the end of the file was reached.
    pub is_end: bool,
    /// How a file is made.
    pub creation: Creation,
    /// What kind of object an operation of NFSv4 makes.
    pub made_kind: Option<Kind>,
    /// What a symbolic link holds.
    pub target: Option<&'a str>,
    /// Attributes of the object after the operation.
    pub after: Attributes,
    /// Bytes in the file before the operation.
    pub before_size: Option<u64>,
    /// When the file was modified, before the operation.
    pub before_mtime_ns: Option<i64>,
    /// Its directory.
    pub directory: Directory,
    /// What it sets.
    pub set: SetAttributes,
}

/// A name in the reply of a READDIRPLUS or READDIR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ListedName<'a> {
    /// The operation.
    pub id: i64,
    /// The directory.
    pub directory: i64,
    /// The name, as it stands in the tables.
    pub name: &'a str,
    /// The object, if the reply has its handle.
    pub file: Option<i64>,
    /// What it is.
    pub kind: Option<Kind>,
    /// Bytes in it.
    pub size: Option<u64>,
}
