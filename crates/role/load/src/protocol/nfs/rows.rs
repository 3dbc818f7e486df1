//! What a row of a call has besides its times: the columns that a capture of it fills too, from the
//! call and its status. What only a reply says, such as the file's size, is not kept of it.

use std::net::IpAddr;

use lineside_nfs::v3;
use lineside_operations::file_id;
use lineside_rows::{OperationRow, Word};

use super::call::{status, with_call};
use super::mix::{NfsMix, NfsRequest};
use super::tree::Tree;

/// Bytes of a record mark, which a message's length leaves out.
const MARK: i64 = 4;

/// Sets the columns of a call whose answer had this status.
pub(super) fn describe(
    asked: NfsRequest,
    answered: Option<u32>,
    mix: &NfsMix,
    tree: &Tree,
    row: &mut OperationRow,
) {
    row.program_number = Some(v3::PROGRAM.into());
    row.version = Some(v3::VERSION.cast_signed());
    row.auth_flavor = Word::Known("sys");
    (row.user_id, row.group_id) = (Some(mix.user.0.into()), Some(mix.user.1.into()));
    row.call_bytes = row.call_bytes.map(|bytes| bytes - MARK);
    let server = row.server_address;
    with_call(asked, mix, tree, |call| set_call(call, server, row));
    let is_ok = answered == Some(v3::Status::OK.0);
    row.transferred = row.transferred.filter(|_| is_ok && moves_data(asked));
    // Statuses of RPC lie above those of NFS.
    match answered {
        None => {}
        Some(code) if code < status::SUCCESS => row.rpc_status = Word::Known("SUCCESS"),
        Some(_) => row.rpc_status = std::mem::take(&mut row.status),
    }
}

fn moves_data(asked: NfsRequest) -> bool {
    matches!(asked.procedure, v3::Procedure::Read | v3::Procedure::Write)
}

fn set_call(call: &v3::Call<'_>, server: Option<IpAddr>, row: &mut OperationRow) {
    let handle = call.file().map(|handle| handle.to_vec());
    row.file_id = { server.zip(handle) }.map(|(server, handle)| file_id(server, &handle));
    if let Some(name) = call.name() {
        row.name.set(&name.to_vec());
    }
    row.offset = call.offset().map(u64::cast_signed);
    // Of a listing, a count is room for it, and no bytes of a file.
    if let v3::Call::Read(_) | v3::Call::Write(_) | v3::Call::Commit(_) = call {
        row.count = call.count().map(i64::from);
    }
}
