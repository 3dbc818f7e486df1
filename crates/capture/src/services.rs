//! What NFSv2 and the programs beside NFS say, as columns of `operations`, `nfs` and `services`.

use lineside_account::Counters;
use lineside_nfs::side::{Named, Summary};
use lineside_trace::{OperationRow, Word};

use crate::details::{Details, file_type, object, set_attributes, set_blob, set_text, word};

/// Fills in the arguments, but for files.
pub(crate) fn of_call(
    told: &Summary<'_>,
    common: &mut OperationRow,
    details: &mut Details,
    counters: &mut Counters,
) {
    set_text(&mut common.name, told.name.as_ref());
    set_text(&mut common.name2, told.name2.as_ref());
    common.offset = told.offset.map(u64::cast_signed);
    common.count = told.count.map(u64::cast_signed);
    // The results of NLM come as calls of their own.
    common.status = status(told.status);
    of_both(told, details);
    let (nfs, service) = (&mut details.nfs, &mut details.service);
    if let Some(set) = &told.set_attributes {
        set_attributes(set, nfs, counters);
        details.has_nfs = true;
    }
    if let Some(cookie) = told.directory_cookie {
        nfs.cookie = Some(i64::from(cookie));
        nfs.bytes_max = told.bytes_max.map(i64::from);
        details.has_nfs = true;
    }
    if let Some(bits) = told.access {
        nfs.access_requested = Some(i64::from(bits));
        details.has_nfs = true;
    }
    if let Some(is_exclusive) = told.exclusive {
        service.lock_type = Word::Known(if is_exclusive { "exclusive" } else { "shared" });
        details.has_service = true;
    }
    if let Some(owner) = &told.lock_owner {
        set_blob(&mut service.owner, owner);
        details.has_service = true;
    }
}

/// Fills in the results, but for files.
pub(crate) fn of_reply(
    told: &Summary<'_>,
    common: &mut OperationRow,
    details: &mut Details,
    counters: &mut Counters,
) {
    common.status = status(told.status);
    common.transferred = match told.transferred {
        None if told.transferred_all => common.count,
        moved => moved.map(i64::from),
    };
    of_both(told, details);
    let (nfs, service) = (&mut details.nfs, &mut details.service);
    if let Some(attributes) = &told.attributes {
        common.file_size = attributes.size.map(u64::cast_signed);
        common.file_type = attributes.file_type.map_or(Word::None, file_type);
        object(attributes, nfs, counters);
        details.has_nfs = true;
    }
    if let Some(eof) = told.eof {
        nfs.eof = Some(eof);
        details.has_nfs = true;
    }
    if let Some(entries) = told.entries {
        nfs.entries = Some(i64::from(entries));
        details.has_nfs = true;
    }
    if told.total_bytes.is_some() {
        nfs.total_bytes = told.total_bytes.map(u64::cast_signed);
        nfs.free_bytes = told.free_bytes.map(u64::cast_signed);
        nfs.available_bytes = told.available_bytes.map(u64::cast_signed);
        nfs.read_preferred = told.transfer_size.map(i64::from);
        details.has_nfs = true;
    }
    if let Some(bits) = told.access {
        nfs.access_granted = Some(i64::from(bits));
        details.has_nfs = true;
    }
    for flavor in told.flavors.iter().flat_map(|flavors| flavors.iter()) {
        if !service.auth_flavors.is_null() {
            service.auth_flavors.append(b",");
        }
        match flavor.name() {
            Some(name) => service.auth_flavors.append(name.as_bytes()),
            None => service.auth_flavors.append(flavor.0.to_string().as_bytes()),
        }
        details.has_service = true;
    }
}

/// What may stand in a call or in a reply.
fn of_both(told: &Summary<'_>, details: &mut Details) {
    if let Some(target) = &told.symlink_target {
        set_text(&mut details.nfs.symlink_target, Some(target));
        details.has_nfs = true;
    }
    let row = &mut details.service;
    if let Some(entries) = told.acl_entries {
        row.acl_entries = Some(i64::from(entries));
        details.has_service = true;
    }
    if told.target_program.is_some() {
        row.target_program = told.target_program.map(i64::from);
        row.target_version = told.target_version.map(i64::from);
        row.target_protocol = told.protocol.map(i64::from);
        details.has_service = true;
    }
    if let Some(port) = told.port {
        row.target_port = Some(i64::from(port));
        details.has_service = true;
    }
    if let Some(address) = &told.address {
        set_text(&mut row.target_address, Some(address));
        details.has_service = true;
    }
}

fn status(status: Option<Named>) -> Word {
    status.map_or(Word::None, |status| word(status.name, status.number))
}
