//! NFSv2 and the programs beside NFS: their fields as columns of `operations`, `nfs` and
//! `services`.

use lineside_account::Counters;
use lineside_frame::{Cursor, View};
use lineside_nfs::ancillary::{self, Named, Summary, nlm};
use lineside_rows::{Blob, OperationRow, ServiceRow, Text, Word};
use lineside_rpc::record::Want;

use super::nfs3::{file_type, object, set_attributes};
use super::{Incoming, Needs, Protocol};
use crate::details::{Details, set_blob, set_text, word};
use crate::files::file_id_of;
use crate::procedure::Service;
use crate::slot::Slot;

impl Protocol for Service {
    type Call<'a> = Summary<'a>;
    type Reply<'a> = Summary<'a>;

    fn call_needs(self) -> Needs {
        Needs::Whole
    }

    fn reply_needs(self) -> Needs {
        Needs::Whole
    }

    fn decode_call<'a>(self, cursor: &mut Cursor<'a>) -> Summary<'a> {
        let mut summary = Summary::default();
        self.0.call(cursor, &mut summary);
        summary
    }

    fn decode_reply<'a>(self, cursor: &mut Cursor<'a>) -> Summary<'a> {
        let mut summary = Summary::default();
        self.0.reply(cursor, &mut summary);
        summary
    }

    fn on_call(
        self,
        summary: &Summary<'_>,
        incoming: &mut impl Incoming,
        slot: Slot,
        cursor: &mut Cursor<'_>,
    ) -> Want {
        let server = incoming.receiver();
        let (operations, counters) = incoming.operations();
        let operation = &mut operations[slot];
        let (row, details) = (&mut operation.row, &mut operation.details);
        row.file_id = summary.file.map(|handle| file_id_of(server, &handle));
        row.file2_id = summary.file2.map(|handle| file_id_of(server, &handle));
        of_call(self.0, summary, row, details, counters);
        let mut want = Want::End;
        if let Some(len) = summary.data_len {
            want = incoming.expect_data_to_end(slot, summary.offset, len, cursor);
        }
        incoming.end_call(slot, summary.file, cursor);
        want
    }

    fn on_reply(
        self,
        summary: &Summary<'_>,
        incoming: &mut impl Incoming,
        slot: Slot,
        cursor: &mut Cursor<'_>,
    ) -> Want {
        let server = incoming.sender();
        let (operations, counters) = incoming.operations();
        let operation = &mut operations[slot];
        let (row, details) = (&mut operation.row, &mut operation.details);
        if let Some(result) = &summary.object {
            row.result_file_id = Some(file_id_of(server, result));
        }
        of_reply(self.0, summary, row, details, counters);
        let offset = row.offset.map(i64::cast_unsigned);
        let mut want = Want::End;
        if let Some(len) = summary.data_len {
            want = incoming.expect_data_to_end(slot, offset, len, cursor);
        }
        incoming.end_reply(slot, cursor);
        incoming.report_result(slot, summary.object, server);
        want
    }
}

/// Sets the cells of the arguments, but for files.
fn of_call(
    procedure: ancillary::Procedure,
    summary: &Summary<'_>,
    common: &mut OperationRow,
    details: &mut Details,
    counters: &mut Counters,
) {
    set_text(&mut common.name, summary.name.as_ref());
    set_text(&mut common.name2, summary.name2.as_ref());
    // The results of NLM come as calls of their own.
    common.status = status(summary.status);
    // MOUNT asks by a path alone.
    if matches!(
        procedure,
        ancillary::Procedure::Mount1(_) | ancillary::Procedure::Mount3(_)
    ) {
        return;
    }
    let (nfs, service) = (&mut details.nfs, &mut details.service);
    if is_test_result(procedure) {
        details.has_service |= holder(summary, service);
    } else {
        common.offset = summary.offset.map(u64::cast_signed);
        common.count = summary.count.map(u64::cast_signed);
        details.has_service |= lock(summary, service);
    }
    if let Some(set) = &summary.set_attributes {
        set_attributes(set, nfs, counters);
        details.has_nfs = true;
    }
    if let Some(cookie) = summary.directory_cookie {
        nfs.cookie = Some(i64::from(cookie));
        nfs.bytes_max = summary.bytes_max.map(i64::from);
        details.has_nfs = true;
    }
    details.has_nfs |= put(&mut nfs.access_requested, summary.access);
    of_both(summary, details);
}

/// Sets the cells of the results, but for files.
fn of_reply(
    procedure: ancillary::Procedure,
    summary: &Summary<'_>,
    common: &mut OperationRow,
    details: &mut Details,
    counters: &mut Counters,
) {
    common.status = status(summary.status);
    common.transferred = match summary.transferred {
        None if summary.transferred_all => common.count,
        moved => moved.map(i64::from),
    };
    let (nfs, service) = (&mut details.nfs, &mut details.service);
    if let Some(attributes) = &summary.attributes {
        common.file_size = attributes.size.map(u64::cast_signed);
        common.file_type = attributes.file_type.map_or(Word::None, file_type);
        object(attributes, nfs, counters);
        details.has_nfs = true;
    }
    if let Some(eof) = summary.eof {
        nfs.eof = Some(eof);
        details.has_nfs = true;
    }
    if matches!(procedure, ancillary::Procedure::Nfs2(_)) {
        details.has_nfs |= put(&mut nfs.entries, summary.entries);
    } else {
        details.has_service |= put(&mut service.entries, summary.entries);
    }
    if summary.total_bytes.is_some() {
        nfs.total_bytes = summary.total_bytes.map(u64::cast_signed);
        nfs.free_bytes = summary.free_bytes.map(u64::cast_signed);
        nfs.available_bytes = summary.available_bytes.map(u64::cast_signed);
        nfs.read_preferred = summary.transfer_size.map(i64::from);
        details.has_nfs = true;
    }
    details.has_nfs |= put(&mut nfs.access_granted, summary.access);
    details.has_service |= holder(summary, service);
    for flavor in summary.flavors.iter().flat_map(|flavors| flavors.iter()) {
        if !service.auth_flavors.is_null() {
            service.auth_flavors.append(b",");
        }
        match flavor.name() {
            Some(name) => service.auth_flavors.append(name.as_bytes()),
            None => service.auth_flavors.append(flavor.0.to_string().as_bytes()),
        }
        details.has_service = true;
    }
    if !matches!(
        procedure,
        ancillary::Procedure::Mount1(_) | ancillary::Procedure::Mount3(_)
    ) {
        of_both(summary, details);
    }
}

/// Sets the cells that a call or a reply may have.
fn of_both(summary: &Summary<'_>, details: &mut Details) {
    if let Some(target) = &summary.symlink_target {
        set_text(&mut details.nfs.symlink_target, Some(target));
        details.has_nfs = true;
    }
    let row = &mut details.service;
    let mut any = put(&mut row.target_program, summary.target_program);
    any |= put(&mut row.target_version, summary.target_version);
    any |= put(&mut row.target_procedure, summary.target_procedure);
    any |= put(&mut row.target_protocol, summary.protocol);
    any |= put(&mut row.target_port, summary.port);
    any |= put_text(&mut row.netid, summary.netid);
    any |= put_text(&mut row.target_address, summary.address);
    any |= put_blob(&mut row.transport_address, summary.transport_address);
    any |= put_text(&mut row.service_owner, summary.service_owner);
    any |= flag(&mut row.done, summary.done);
    any |= put(&mut row.forwarded_bytes, summary.forwarded_bytes);
    let ns = |seconds| i64::from(seconds) * 1_000_000_000;
    any |= put(&mut row.server_time_ns, summary.time_seconds.map(ns));
    any |= put_blob(&mut row.lock_cookie, summary.cookie);
    any |= put(&mut row.share_sequence, summary.sequence);
    any |= put(&mut row.monitor_state, summary.state);
    any |= put(&mut row.quota_id, summary.quota_id);
    any |= put(&mut row.quota_type, summary.quota_type);
    any |= put(&mut row.quota_command, summary.quota_command);
    any |= flag(&mut row.quota_active, summary.quota_active);
    any |= put(&mut row.quota_block_bytes, summary.quota_block_size);
    if let Some(limits) = &summary.quota_limits {
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
    any |= put(&mut row.acl_mask, summary.acl_mask);
    any |= put(&mut row.acl_entries, summary.acl_entries);
    any |= put(&mut row.acl_default_entries, summary.acl_default_entries);
    any |= flag(&mut row.creates, summary.create);
    details.has_service |= any;
}

/// A lock or share that is requested or released; false if there is none.
fn lock(summary: &Summary<'_>, row: &mut ServiceRow) -> bool {
    row.lock_type = summary.exclusive.map_or(Word::None, lock_type);
    let mut any = summary.exclusive.is_some();
    any |= flag(&mut row.blocking, summary.block);
    any |= flag(&mut row.reclaim, summary.reclaim);
    any |= put(&mut row.svid, summary.svid);
    any |= put_blob(&mut row.owner, summary.lock_owner);
    any |= put(
        &mut row.share_access,
        summary.share_access.map(|access| access.0),
    );
    any |= put(&mut row.share_deny, summary.share_mode.map(|mode| mode.0));
    any
}

/// The lock in the way of one that was tested; false if there is none.
fn holder(summary: &Summary<'_>, row: &mut ServiceRow) -> bool {
    let Some(is_exclusive) = summary.exclusive else {
        return false;
    };
    row.holder_lock_type = lock_type(is_exclusive);
    row.holder_svid = summary.svid.map(i64::from);
    put_blob(&mut row.holder_owner, summary.lock_owner);
    row.holder_offset = summary.offset.map(u64::cast_signed);
    row.holder_count = summary.count.map(u64::cast_signed);
    true
}

/// Whether a call is the result of TEST_MSG.
fn is_test_result(procedure: ancillary::Procedure) -> bool {
    matches!(
        procedure,
        ancillary::Procedure::Nlm1(nlm::v1::Procedure::TestRes)
            | ancillary::Procedure::Nlm4(nlm::v4::Procedure::TestRes)
    )
}

fn lock_type(is_exclusive: bool) -> Word {
    Word::Known(if is_exclusive { "exclusive" } else { "shared" })
}

/// Fills in a cell if there is a value; false if there is none.
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
