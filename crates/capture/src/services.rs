//! What NFSv2 and the programs beside NFS say, as columns of `operations` and `nfs`.

use lineside_account::Counters;
use lineside_nfs::side::{Named, Summary};
use lineside_trace::{NfsRow, OperationRow, Word};

use crate::details::{file_type, object, set_attributes, set_blob, set_text, word};

/// Fills in the arguments, but for files; false if the table `nfs` has nothing of them.
pub(crate) fn of_call(
    told: &Summary<'_>,
    common: &mut OperationRow,
    row: &mut NfsRow,
    counters: &mut Counters,
) -> bool {
    set_text(&mut common.name, told.name.as_ref());
    set_text(&mut common.name2, told.name2.as_ref());
    common.offset = told.offset.map(u64::cast_signed);
    common.count = told.count.map(u64::cast_signed);
    // The results of NLM come as calls of their own.
    common.status = status(told.status);
    let mut any = of_both(told, row);
    if let Some(set) = &told.set_attributes {
        set_attributes(set, row, counters);
        any = true;
    }
    if let Some(cookie) = told.directory_cookie {
        row.cookie = Some(i64::from(cookie));
        row.bytes_max = told.bytes_max.map(i64::from);
        any = true;
    }
    if let Some(bits) = told.access {
        row.access_requested = Some(i64::from(bits));
        any = true;
    }
    if let Some(is_exclusive) = told.exclusive {
        row.lock_type = Word::Known(if is_exclusive { "exclusive" } else { "shared" });
        any = true;
    }
    if let Some(owner) = &told.lock_owner {
        set_blob(&mut row.owner, owner);
        any = true;
    }
    any
}

/// Fills in the results, but for files; false if the table `nfs` has nothing of them.
pub(crate) fn of_reply(
    told: &Summary<'_>,
    common: &mut OperationRow,
    row: &mut NfsRow,
    counters: &mut Counters,
) -> bool {
    common.status = status(told.status);
    common.transferred = match told.transferred {
        None if told.transferred_all => common.count,
        moved => moved.map(i64::from),
    };
    let mut any = of_both(told, row);
    if let Some(attributes) = &told.attributes {
        common.file_size = attributes.size.map(u64::cast_signed);
        common.file_type = attributes.file_type.map_or(Word::None, file_type);
        object(attributes, row, counters);
        any = true;
    }
    if let Some(eof) = told.eof {
        row.eof = Some(eof);
        any = true;
    }
    if let Some(entries) = told.entries {
        row.entries = Some(i64::from(entries));
        any = true;
    }
    if told.total_bytes.is_some() {
        row.total_bytes = told.total_bytes.map(u64::cast_signed);
        row.free_bytes = told.free_bytes.map(u64::cast_signed);
        row.available_bytes = told.available_bytes.map(u64::cast_signed);
        row.read_preferred = told.transfer_size.map(i64::from);
        any = true;
    }
    if let Some(bits) = told.access {
        row.access_granted = Some(i64::from(bits));
        any = true;
    }
    for flavor in told.flavors.iter().flat_map(|flavors| flavors.iter()) {
        if !row.auth_flavors.is_null() {
            row.auth_flavors.append(b",");
        }
        match flavor.name() {
            Some(name) => row.auth_flavors.append(name.as_bytes()),
            None => row.auth_flavors.append(flavor.0.to_string().as_bytes()),
        }
        any = true;
    }
    any
}

/// What may stand in a call or in a reply.
fn of_both(told: &Summary<'_>, row: &mut NfsRow) -> bool {
    let mut any = false;
    if let Some(target) = &told.symlink_target {
        set_text(&mut row.symlink_target, Some(target));
        any = true;
    }
    if let Some(entries) = told.acl_entries {
        row.acl_entries = Some(i64::from(entries));
        any = true;
    }
    if told.target_program.is_some() {
        row.target_program = told.target_program.map(i64::from);
        row.target_version = told.target_version.map(i64::from);
        row.target_protocol = told.protocol.map(i64::from);
        any = true;
    }
    if let Some(port) = told.port {
        row.target_port = Some(i64::from(port));
        any = true;
    }
    if let Some(address) = &told.address {
        set_text(&mut row.target_address, Some(address));
        any = true;
    }
    any
}

fn status(status: Option<Named>) -> Word {
    status.map_or(Word::None, |status| word(status.name, status.number))
}
