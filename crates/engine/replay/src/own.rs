//! Attributes whose values are a server's own.

use lineside_nfs::v4::{self, Attributes};

/// An attribute whose values are a server's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Own {
    /// `change`.
    Change,
    /// `fileid`, and `mounted_on_fileid`, which is the same where nothing is mounted.
    File,
    /// `fsid`, by its first number.
    FileSystem,
    /// `time_access`.
    Atime,
    /// `time_modify`.
    Mtime,
    /// `time_metadata`.
    Ctime,
}

/// An own attribute's value: both numbers of it, of most the second is 0.
pub(crate) type OwnValue = [u64; 2];

impl Own {
    pub(crate) const ALL: [Self; 6] = [
        Self::Change,
        Self::File,
        Self::FileSystem,
        Self::Atime,
        Self::Mtime,
        Self::Ctime,
    ];

    pub(crate) fn value(self, of: &Attributes<'_>) -> Option<OwnValue> {
        let time = |time: v4::Time| [time.seconds.cast_unsigned(), time.nanoseconds.into()];
        match self {
            Self::Change => of.change.map(|it| [it, 0]),
            Self::File => of.fileid.or(of.mounted_on_fileid).map(|it| [it, 0]),
            Self::FileSystem => of.fsid.map(|it| [it.major, it.minor]),
            Self::Atime => of.atime.map(time),
            Self::Mtime => of.mtime.map(time),
            Self::Ctime => of.ctime.map(time),
        }
    }

    pub(crate) fn set(self, of: &mut Attributes<'_>, [first, second]: OwnValue) {
        let time = v4::Time {
            seconds: first.cast_signed(),
            nanoseconds: second as u32,
        };
        match self {
            Self::Change => of.change = Some(first),
            Self::File => {
                of.fileid = of.fileid.and(Some(first));
                of.mounted_on_fileid = of.mounted_on_fileid.and(Some(first));
            }
            Self::FileSystem => {
                of.fsid = Some(v4::FileSystemId {
                    major: first,
                    minor: second,
                });
            }
            Self::Atime => of.atime = Some(time),
            Self::Mtime => of.mtime = Some(time),
            Self::Ctime => of.ctime = Some(time),
        }
    }

    /// A value as the tables have it.
    pub(crate) fn key(self, [first, second]: OwnValue) -> i64 {
        let first = first.cast_signed();
        match self {
            Self::Change | Self::File | Self::FileSystem => first,
            Self::Atime | Self::Mtime | Self::Ctime => first
                .saturating_mul(1_000_000_000)
                .saturating_add(second as i64),
        }
    }

    /// Whether a client may have set it.
    pub(crate) fn may_be_set(self) -> bool {
        matches!(self, Self::Atime | Self::Mtime)
    }
}

/// A value of the attribute of a file, by its `file_id`, as the source's server had it.
pub type Shown = (i64, Own, i64);
