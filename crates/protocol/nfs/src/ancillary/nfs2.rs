//! NFSv2 as a [`Summary`]: its attributes as version 3 says them.

use lineside_rpc::xdr::{Optional, Outcome};

use super::{Named, Summary};
use crate::v2::{Attributes, Call, FileType, Reply, SetAttributes, Time, status_name};
use crate::v3;

/// As version 3 says it: what this version writes in another way or leaves to the server's system
/// is not there.
impl From<&Attributes> for v3::Attributes {
    fn from(attributes: &Attributes) -> Self {
        Self {
            file_type: attributes.file_type.map(|kind| match kind {
                FileType::FIFO => v3::FileType::FIFO,
                // Version 3's 7 and 8 are other things.
                FileType::BAD => v3::FileType(0),
                FileType(number) => v3::FileType(number),
            }),
            // The file's type stands above the permissions.
            mode: attributes.mode.map(|mode| mode & 0o7777),
            link_count: attributes.link_count,
            uid: attributes.uid,
            gid: attributes.gid,
            size: attributes.size.map(u64::from),
            used: None,
            device: v3::Device::default(),
            fsid: attributes.fsid.map(u64::from),
            fileid: attributes.fileid.map(u64::from),
            atime: attributes.atime.into(),
            mtime: attributes.mtime.into(),
            ctime: attributes.ctime.into(),
        }
    }
}

impl From<Time> for v3::Time {
    fn from(time: Time) -> Self {
        Self {
            seconds: time.seconds,
            nanoseconds: time.microseconds.map(|part| part.saturating_mul(1000)),
        }
    }
}

/// As version 3 says it.
impl From<&SetAttributes> for v3::SetAttributes {
    fn from(attributes: &SetAttributes) -> Self {
        fn value(field: Option<u32>) -> Optional<Option<u32>> {
            match field {
                None => Optional::Unread,
                Some(u32::MAX) => Optional::Absent,
                Some(_) => Optional::Present(field),
            }
        }
        fn time(time: Time) -> v3::SetTime {
            match (time.seconds, time.microseconds) {
                (None, _) | (_, None) => v3::SetTime::Unread,
                (Some(u32::MAX), _) => v3::SetTime::DontChange,
                // No number of microseconds: how clients say "now", though the RFC does not.
                (_, Some(1_000_000)) => v3::SetTime::ServerTime,
                _ => v3::SetTime::ClientTime(time.into()),
            }
        }
        Self {
            mode: value(attributes.mode),
            uid: value(attributes.uid),
            gid: value(attributes.gid),
            size: match value(attributes.size) {
                Optional::Unread => Optional::Unread,
                Optional::Absent => Optional::Absent,
                Optional::Present(size) => Optional::Present(size.map(u64::from)),
            },
            atime: time(attributes.atime),
            mtime: time(attributes.mtime),
        }
    }
}

impl<'a> Call<'a> {
    pub(crate) fn summarise(&self, summary: &mut Summary<'a>) {
        summary.file = self.file().map(|handle| *handle);
        summary.file2 = self.file2().map(|handle| *handle);
        summary.name = self.name().map(|name| *name);
        summary.offset = self.offset();
        match self {
            Self::Read(args) => summary.count = args.count.map(u64::from),
            Self::Write(args) => {
                summary.count = args.data_len.map(u64::from);
                summary.data_len = args.data_len;
            }
            Self::SetAttr(args) => summary.set_attributes = Some((&args.attributes).into()),
            Self::Create(args) | Self::MkDir(args) => {
                summary.set_attributes = Some((&args.attributes).into());
            }
            Self::SymLink(args) => {
                summary.symlink_target = args.target.map(|target| *target);
                summary.set_attributes = Some((&args.attributes).into());
            }
            Self::Rename(args) => summary.name2 = args.to.name.map(|name| *name),
            Self::ReadDir(args) => {
                summary.directory_cookie = args.cookie;
                summary.bytes_max = args.count;
            }
            _ => {}
        }
    }
}

impl<'a> Reply<'a> {
    pub(crate) fn summarise(&self, summary: &mut Summary<'a>) {
        let status = self.status();
        summary.status = status.map(|status| Named::new(status, status_name));
        summary.object = self.object().map(|handle| *handle);
        summary.attributes = self.attributes().map(Into::into);
        summary.transferred = self.transferred();
        match self {
            Self::Write(outcome) => summary.transferred_all = outcome.ok().is_some(),
            Self::ReadLink(Outcome::Ok(ok)) => {
                summary.symlink_target = ok.target.map(|target| *target)
            }
            Self::Read(Outcome::Ok(ok)) => summary.data_len = ok.data_len,
            Self::ReadDir(Outcome::Ok(ok)) => {
                summary.entries = Some(ok.entries.iter().count() as u32);
                summary.eof = ok.eof;
            }
            Self::StatFs(Outcome::Ok(ok)) => {
                let bytes =
                    |blocks: Option<u32>| Some(u64::from(blocks?) * u64::from(ok.block_size?));
                summary.transfer_size = ok.transfer_size;
                summary.total_bytes = bytes(ok.blocks_total);
                summary.free_bytes = bytes(ok.blocks_free);
                summary.available_bytes = bytes(ok.blocks_available);
            }
            _ => {}
        }
    }
}
