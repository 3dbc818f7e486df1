//! What NFSv2 and the programs beside NFS say, as columns of `operations`, `nfs` and `services`.

use lineside_account::Counters;
use lineside_frame::View;
use lineside_nfs::side::{Named, Procedure, Summary, nlm};
use lineside_trace::{Blob, OperationRow, ServiceRow, Text, Word};

use crate::details::{Details, file_type, object, set_attributes, set_blob, set_text, word};

/// Fills in the arguments, but for files.
pub(crate) fn of_call(
    procedure: Procedure,
    told: &Summary<'_>,
    common: &mut OperationRow,
    details: &mut Details,
    counters: &mut Counters,
) {
    set_text(&mut common.name, told.name.as_ref());
    set_text(&mut common.name2, told.name2.as_ref());
    // The results of NLM come as calls of their own.
    common.status = status(told.status);
    // MOUNT asks by a path alone.
    if matches!(procedure, Procedure::Mount1(_) | Procedure::Mount3(_)) {
        return;
    }
    let (nfs, service) = (&mut details.nfs, &mut details.service);
    if is_test_result(procedure) {
        details.has_service |= holder(told, service);
    } else {
        common.offset = told.offset.map(u64::cast_signed);
        common.count = told.count.map(u64::cast_signed);
        details.has_service |= lock(told, service);
    }
    if let Some(set) = &told.set_attributes {
        set_attributes(set, nfs, counters);
        details.has_nfs = true;
    }
    if let Some(cookie) = told.directory_cookie {
        nfs.cookie = Some(i64::from(cookie));
        nfs.bytes_max = told.bytes_max.map(i64::from);
        details.has_nfs = true;
    }
    details.has_nfs |= put(&mut nfs.access_requested, told.access);
    of_both(told, details);
}

/// Fills in the results, but for files.
pub(crate) fn of_reply(
    procedure: Procedure,
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
    if matches!(procedure, Procedure::Nfs2(_)) {
        details.has_nfs |= put(&mut nfs.entries, told.entries);
    } else {
        details.has_service |= put(&mut service.entries, told.entries);
    }
    if told.total_bytes.is_some() {
        nfs.total_bytes = told.total_bytes.map(u64::cast_signed);
        nfs.free_bytes = told.free_bytes.map(u64::cast_signed);
        nfs.available_bytes = told.available_bytes.map(u64::cast_signed);
        nfs.read_preferred = told.transfer_size.map(i64::from);
        details.has_nfs = true;
    }
    details.has_nfs |= put(&mut nfs.access_granted, told.access);
    details.has_service |= holder(told, service);
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
    if !matches!(procedure, Procedure::Mount1(_) | Procedure::Mount3(_)) {
        of_both(told, details);
    }
}

/// What may stand in a call or in a reply.
fn of_both(told: &Summary<'_>, details: &mut Details) {
    if let Some(target) = &told.symlink_target {
        set_text(&mut details.nfs.symlink_target, Some(target));
        details.has_nfs = true;
    }
    let row = &mut details.service;
    let mut any = put(&mut row.target_program, told.target_program);
    any |= put(&mut row.target_version, told.target_version);
    any |= put(&mut row.target_procedure, told.target_procedure);
    any |= put(&mut row.target_protocol, told.protocol);
    any |= put(&mut row.target_port, told.port);
    any |= put_text(&mut row.netid, told.netid);
    any |= put_text(&mut row.target_address, told.address);
    any |= put_blob(&mut row.transport_address, told.transport_address);
    any |= put_text(&mut row.service_owner, told.service_owner);
    any |= flag(&mut row.done, told.done);
    any |= put(&mut row.forwarded_bytes, told.forwarded_bytes);
    let ns = |seconds| i64::from(seconds) * 1_000_000_000;
    any |= put(&mut row.server_time_ns, told.time_seconds.map(ns));
    any |= put_blob(&mut row.lock_cookie, told.cookie);
    any |= put(&mut row.share_sequence, told.sequence);
    any |= put(&mut row.monitor_state, told.state);
    any |= put(&mut row.quota_id, told.quota_id);
    any |= put(&mut row.quota_type, told.quota_type);
    any |= put(&mut row.quota_command, told.quota_command);
    any |= flag(&mut row.quota_active, told.quota_active);
    any |= put(&mut row.quota_block_bytes, told.quota_block_size);
    if let Some(limits) = &told.quota_limits {
        any |= put(&mut row.quota_blocks_hard, limits.blocks_hard);
        any |= put(&mut row.quota_blocks_soft, limits.blocks_soft);
        any |= put(&mut row.quota_blocks_used, limits.blocks_used);
        any |= put(&mut row.quota_files_hard, limits.files_hard);
        any |= put(&mut row.quota_files_soft, limits.files_soft);
        any |= put(&mut row.quota_files_used, limits.files_used);
        any |= put(
            &mut row.quota_blocks_seconds_left,
            limits.blocks_seconds_left,
        );
        any |= put(&mut row.quota_files_seconds_left, limits.files_seconds_left);
    }
    any |= put(&mut row.acl_mask, told.acl_mask);
    any |= put(&mut row.acl_entries, told.acl_entries);
    any |= put(&mut row.acl_default_entries, told.acl_default_entries);
    any |= flag(&mut row.creates, told.create);
    details.has_service |= any;
}

/// A lock or share that is asked for or given up; false if there is none.
fn lock(told: &Summary<'_>, row: &mut ServiceRow) -> bool {
    row.lock_type = told.exclusive.map_or(Word::None, lock_type);
    let mut any = told.exclusive.is_some();
    any |= flag(&mut row.blocking, told.block);
    any |= flag(&mut row.reclaim, told.reclaim);
    any |= put(&mut row.svid, told.svid);
    any |= put_blob(&mut row.owner, told.lock_owner);
    any |= put(
        &mut row.share_access,
        told.share_access.map(|access| access.0),
    );
    any |= put(&mut row.share_deny, told.share_mode.map(|mode| mode.0));
    any
}

/// The lock in the way of one that was tested; false if there is none.
fn holder(told: &Summary<'_>, row: &mut ServiceRow) -> bool {
    let Some(is_exclusive) = told.exclusive else {
        return false;
    };
    row.holder_lock_type = lock_type(is_exclusive);
    row.holder_svid = told.svid.map(i64::from);
    put_blob(&mut row.holder_owner, told.lock_owner);
    row.holder_offset = told.offset.map(u64::cast_signed);
    row.holder_count = told.count.map(u64::cast_signed);
    true
}

/// Whether a call is the result of TEST_MSG.
fn is_test_result(procedure: Procedure) -> bool {
    matches!(
        procedure,
        Procedure::Nlm1(nlm::v1::Procedure::TestRes) | Procedure::Nlm4(nlm::v4::Procedure::TestRes)
    )
}

fn lock_type(is_exclusive: bool) -> Word {
    Word::Known(if is_exclusive { "exclusive" } else { "shared" })
}

/// Fills in a cell, unless there is nothing to say; false then.
fn put(cell: &mut Option<i64>, value: Option<impl Into<i64>>) -> bool {
    let value = value.map(Into::into);
    *cell = value.or(*cell);
    value.is_some()
}

fn flag(cell: &mut Option<bool>, value: Option<bool>) -> bool {
    *cell = value.or(*cell);
    value.is_some()
}

fn put_text(cell: &mut Text, value: Option<View<'_>>) -> bool {
    set_text(cell, value.as_ref());
    value.is_some()
}

fn put_blob(cell: &mut Blob, value: Option<View<'_>>) -> bool {
    if let Some(value) = &value {
        set_blob(cell, value);
    }
    value.is_some()
}

fn status(status: Option<Named>) -> Word {
    status.map_or(Word::None, |status| word(status.name, status.number))
}
