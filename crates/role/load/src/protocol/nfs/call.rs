//! The call that a request is, and statuses of RPC among those of NFS.

use lineside_frame::Piece;
use lineside_nfs::v3::{self, Procedure};
use lineside_rpc::xdr::{Handle, Name, Optional};

use super::mix::{NfsMix, NfsRequest};
use super::tree::Tree;

/// Statuses of answers that are not `nfsstat3`.
pub(super) mod status {
    /// An answer without a status of its own, to NULL.
    pub(crate) const SUCCESS: u32 = 0x8000_0000;
    /// Plus `accept_stat`: the call was let in and not executed.
    pub(crate) const ACCEPTED: u32 = 0x8000_0000;
    /// Plus `reject_stat`: the call was not let in.
    pub(crate) const DENIED: u32 = 0x8000_0100;
}

/// Attributes of a SETATTR that changes no more than the time of the last change.
const TOUCH: v3::SetAttributes = v3::SetAttributes {
    mode: Optional::Absent,
    uid: Optional::Absent,
    gid: Optional::Absent,
    size: Optional::Absent,
    atime: v3::SetTime::DontChange,
    mtime: v3::SetTime::ServerTime,
};

/// Gives `take` the call that a request is.
pub(super) fn with_call<T>(
    request: NfsRequest,
    mix: &NfsMix,
    tree: &Tree,
    take: impl FnOnce(&v3::Call<'_>) -> T,
) -> T {
    let NfsRequest {
        file,
        offset,
        count,
        ..
    } = request;
    let pieces = [tree.handle(file), tree.directory(file), tree.root()];
    let pieces = pieces.map(|bytes| [Piece::bytes(bytes)]);
    let [handle, directory, root] = pieces.each_ref().map(|piece| Some(Handle::new(piece)));
    let name = [Piece::bytes(tree.name(file))];
    let (offset, count) = (Some(offset), Some(count));
    let of_root = v3::FileArgs { file: root };
    let call = match request.procedure {
        Procedure::GetAttr => v3::Call::GetAttr(v3::FileArgs { file: handle }),
        Procedure::SetAttr => v3::Call::SetAttr(v3::SetAttrArgs {
            file: handle,
            attributes: TOUCH,
            guard: Optional::Absent,
        }),
        Procedure::Lookup => v3::Call::Lookup(v3::DirOpArgs {
            directory,
            name: Some(Name::new(&name)),
        }),
        Procedure::Access => v3::Call::Access(v3::AccessArgs {
            file: handle,
            access: Some(0x3f),
        }),
        Procedure::Read => v3::Call::Read(v3::ReadArgs {
            file: handle,
            offset,
            count,
        }),
        Procedure::Write => v3::Call::Write(v3::WriteArgs {
            file: handle,
            offset,
            count,
            stable: Some(mix.stable),
            data_len: count,
        }),
        Procedure::ReadDir => v3::Call::ReadDir(v3::ReadDirArgs {
            directory,
            cookie: Some(0),
            cookie_verifier: Some([0; 8]),
            count: Some(8_192),
        }),
        Procedure::ReadDirPlus => v3::Call::ReadDirPlus(v3::ReadDirPlusArgs {
            directory,
            cookie: Some(0),
            cookie_verifier: Some([0; 8]),
            directory_count: Some(8_192),
            count_max: Some(32_768),
        }),
        Procedure::FsStat => v3::Call::FsStat(of_root),
        Procedure::FsInfo => v3::Call::FsInfo(of_root),
        Procedure::PathConf => v3::Call::PathConf(of_root),
        Procedure::Commit => v3::Call::Commit(v3::CommitArgs {
            file: handle,
            offset: Some(0),
            count: Some(0),
        }),
        _ => v3::Call::Null(()),
    };
    take(&call)
}
