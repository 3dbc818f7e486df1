//! What only NFSv4 has: its fields as columns of the table `nfs`.

use lineside_account::{Counter, Counters};
use lineside_nfs::v3;
use lineside_nfs::v4::layouts::LayoutBody;
use lineside_nfs::v4::{self, AttributeList, LayoutType, StateId, callback};
use lineside_trace::{Blob, NfsRow, OperationRow, Word};

use crate::details::{bits, set_blob, set_text, word};

/// Fills in the arguments of an operation; false if there is nothing to say.
pub(crate) fn of_call(call: &v4::Call<'_>, row: &mut NfsRow, counters: &mut Counters) -> bool {
    use v4::Call;
    set_stateid(call.stateid(), &mut row.stateid, &mut row.stateid_sequence);
    set_bytes(&mut row.session, call.session().as_ref());
    row.client_id = call.client_id().map(u64::cast_signed);
    row.source_offset = call.source_offset().map(u64::cast_signed);
    if let Some(owner) = call.owner().and_then(|owner| owner.owner.as_ref()) {
        set_blob(&mut row.owner, owner);
    }
    if let Some(attributes) = call.attributes() {
        set_attributes(attributes, row, counters);
    }
    match call {
        Call::Access(args) => row.access_requested = args.access.map(i64::from),
        Call::Write(args) => row.stable_how = args.stable.map_or(Word::None, stable_how),
        Call::Create(args) => {
            row.node_type = args.object.file_type().map_or(Word::None, file_type);
            match &args.object {
                v4::CreateType::Block(Some(device)) | v4::CreateType::Character(Some(device)) => {
                    row.device_major = Some(i64::from(device.major));
                    row.device_minor = Some(i64::from(device.minor));
                }
                v4::CreateType::Symlink(target) => {
                    set_text(&mut row.symlink_target, target.as_deref());
                }
                _ => {}
            }
        }
        Call::Open(args) => {
            row.share_access = args.access.map(i64::from);
            row.share_deny = args.deny.map(i64::from);
            row.claim = args.claim.claim_type().map_or(Word::None, Word::Known);
            row.create_mode = args.how.create_mode().map_or(Word::None, Word::Known);
            if let v4::OpenHow::Create(v4::CreateHow::Exclusive(verifier)) = &args.how {
                row.create_verifier = verifier.map(bits);
            }
        }
        Call::OpenDowngrade(args) => {
            row.share_access = args.access.map(i64::from);
            row.share_deny = args.deny.map(i64::from);
        }
        Call::Lock(args) => row.lock_type = args.lock_type.map_or(Word::None, lock_type),
        Call::LockT(args) => row.lock_type = args.lock_type.map_or(Word::None, lock_type),
        Call::LockU(args) => row.lock_type = args.lock_type.map_or(Word::None, lock_type),
        Call::ReadDir(args) => {
            row.cookie = args.cookie.map(u64::cast_signed);
            row.cookie_verifier = args.cookie_verifier.map(bits);
            row.directory_bytes = args.directory_count.map(i64::from);
            row.bytes_max = args.count_max.map(i64::from);
        }
        Call::Sequence(args) => {
            row.slot = args.slot.map(i64::from);
            row.slot_sequence = args.sequence.map(i64::from);
            row.highest_slot = args.highest_slot.map(i64::from);
        }
        Call::LayoutGet(args) => {
            row.layout_type = args.layout_type.map_or(Word::None, layout_type);
            row.layout_mode = args.io_mode.map_or(Word::None, layout_mode);
        }
        Call::LayoutReturn(args) => {
            row.layout_type = args.layout_type.map_or(Word::None, layout_type);
            row.layout_mode = args.io_mode.map_or(Word::None, layout_mode);
        }
        Call::GetDeviceInfo(args) => {
            set_bytes(&mut row.device, args.device.as_ref());
            row.layout_type = args.layout_type.map_or(Word::None, layout_type);
        }
        Call::Seek(args) => {
            row.content = args
                .what
                .map_or(Word::None, |what| word(what.name(), what.0))
        }
        // Of these the table has nothing, but for what all operations may have.
        _ => {
            return !(row.stateid.is_null()
                && row.session.is_null()
                && row.owner.is_null()
                && row.client_id.is_none()
                && row.source_offset.is_none()
                && call.attributes().is_none());
        }
    }
    true
}

/// Fills in the results of an operation, in the row of what all protocols have too; false if the table `nfs` has nothing of them.
pub(crate) fn of_reply(
    reply: &v4::Reply<'_>,
    common: &mut OperationRow,
    row: &mut NfsRow,
    counters: &mut Counters,
) -> bool {
    use v4::Reply;
    let mut any = false;
    common.transferred = reply.transferred().map(u64::cast_signed);
    if let Some(stateid) = reply.stateid() {
        let (id, sequence) = (&mut row.reply_stateid, &mut row.reply_stateid_sequence);
        set_stateid(Some(stateid), id, sequence);
        any = true;
    }
    if let Some(session) = reply.session() {
        set_bytes(&mut row.session, Some(&session));
        any = true;
    }
    if let Some(id) = reply.client_id() {
        row.client_id = Some(id.cast_signed());
        any = true;
    }
    if let Some(change) = reply.change_info() {
        row.directory_change_before = Some(change.before.cast_signed());
        row.directory_change = Some(change.after.cast_signed());
        row.directory_change_atomic = Some(change.atomic);
        any = true;
    }
    if let Some((committed, verifier)) = reply.committed() {
        row.committed = committed.map_or(Word::None, stable_how);
        row.write_verifier = verifier.map(bits);
        any = true;
    }
    if let Some(eof) = reply.eof() {
        row.eof = Some(eof);
        any = true;
    }
    if let Some(attributes) = reply.attributes() {
        object(attributes, common, row, counters);
        any = true;
    }
    if let Some(delegation) = reply.delegation() {
        row.delegation = delegation
            .delegation_type()
            .map_or(Word::None, |kind| word(kind.name(), kind.0));
        let other = delegation.stateid().map(|stateid| stateid.other);
        set_bytes(&mut row.delegation_stateid, other.as_ref());
        any = true;
    }
    match reply {
        Reply::Access(outcome) => {
            row.access_granted = outcome.ok().and_then(|ok| ok.access).map(i64::from)
        }
        Reply::Open(outcome) => {
            row.open_flags = outcome.ok().and_then(|ok| ok.flags).map(i64::from)
        }
        Reply::ReadLink(outcome) => set_text(
            &mut row.symlink_target,
            outcome.ok().and_then(|ok| ok.target).as_deref(),
        ),
        Reply::ReadDir(outcome) => {
            if let Some(ok) = outcome.ok() {
                row.reply_cookie_verifier = ok.cookie_verifier.map(bits);
                // A list that was cut has more entries than were seen.
                row.entries = ok.eof.map(|_| ok.entries.iter().count() as i64);
            }
        }
        Reply::Sequence(outcome) => {
            row.reply_flags = outcome.ok().and_then(|ok| ok.status_flags).map(i64::from)
        }
        Reply::ExchangeId(outcome) => {
            row.reply_flags = outcome.ok().and_then(|ok| ok.flags).map(i64::from)
        }
        Reply::CreateSession(outcome) => {
            row.reply_flags = outcome.ok().and_then(|ok| ok.flags).map(i64::from)
        }
        Reply::LayoutGet(v4::LayoutGetResult::Ok(ok)) => {
            row.entries = Some(ok.layouts.iter().count() as i64);
            if let Some(layout) = ok.layouts.first() {
                let device = match layout.content() {
                    Some(LayoutBody::Files(file)) => file.device,
                    Some(LayoutBody::FlexFiles(flex)) => {
                        let mirror = flex.mirrors.first();
                        let server = mirror.and_then(|mirror| mirror.first());
                        server.and_then(|server| server.device)
                    }
                    None => None,
                };
                set_bytes(&mut row.device, device.as_ref());
            }
        }
        Reply::Seek(outcome) => {
            row.reply_offset = outcome.ok().and_then(|ok| ok.offset).map(u64::cast_signed)
        }
        _ => return any,
    }
    true
}

/// Whether `count` means bytes of a file, and not room for a listing.
pub(crate) fn moves_data(call: &v4::Call<'_>) -> bool {
    !matches!(call, v4::Call::ReadDir(_) | v4::Call::ListXattrs(_))
}

/// The attributes of an object.
pub(crate) fn object(
    list: &AttributeList<'_>,
    common: &mut OperationRow,
    row: &mut NfsRow,
    counters: &mut Counters,
) {
    let values = list.values();
    common.file_size = values.size.map(u64::cast_signed);
    common.file_type = values.file_type.map_or(Word::None, file_type);
    row.change = values.change.map(u64::cast_signed);
    row.mode = values.mode.map(i64::from);
    row.links = values.link_count.map(i64::from);
    set_text(&mut row.owner_name, values.owner.as_deref());
    set_text(&mut row.owner_group_name, values.group.as_deref());
    row.acl_entries = values.acl.count().map(i64::from);
    row.used_bytes = values.used.map(u64::cast_signed);
    // Zero for all but devices.
    if matches!(
        values.file_type,
        Some(v4::FileType::BLOCK | v4::FileType::CHARACTER)
    ) {
        row.rdev_major = values.device.map(|device| i64::from(device.major));
        row.rdev_minor = values.device.map(|device| i64::from(device.minor));
    }
    row.filesystem_id = values.fsid.map(|fsid| fsid.major.cast_signed());
    row.fileid = values.fileid.map(u64::cast_signed);
    row.atime_ns = time(values.atime, counters);
    row.mtime_ns = time(values.mtime, counters);
    row.ctime_ns = time(values.ctime, counters);
    row.total_bytes = values.bytes_total.map(u64::cast_signed);
    row.free_bytes = values.bytes_free.map(u64::cast_signed);
    row.available_bytes = values.bytes_available.map(u64::cast_signed);
    row.total_files = values.files_total.map(u64::cast_signed);
    row.free_files = values.files_free.map(u64::cast_signed);
    row.available_files = values.files_available.map(u64::cast_signed);
    row.read_max = values.read_max.map(u64::cast_signed);
    row.write_max = values.write_max.map(u64::cast_signed);
    row.file_size_max = values.file_size_max.map(u64::cast_signed);
    row.links_max = values.links_max.map(i64::from);
    row.name_max = values.name_max.map(i64::from);
    row.no_truncation = values.no_truncation;
    row.chown_restricted = values.chown_restricted;
    row.case_insensitive = values.case_insensitive;
    row.case_preserving = values.case_preserving;
    row.time_delta_ns = time(values.time_delta, counters);
}

fn set_attributes(list: &AttributeList<'_>, row: &mut NfsRow, counters: &mut Counters) {
    let values = list.values();
    row.set_mode = values.mode.map(i64::from);
    row.set_size = values.size.map(u64::cast_signed);
    let how = |set: &v4::attributes::SetTime| match set {
        v4::attributes::SetTime::Unread => Word::None,
        v4::attributes::SetTime::ClientTime(_) => Word::Known("SET_TO_CLIENT_TIME4"),
        v4::attributes::SetTime::ServerTime(_) => Word::Known("SET_TO_SERVER_TIME4"),
    };
    row.set_atime_how = how(&values.set_atime);
    row.set_mtime_how = how(&values.set_mtime);
    if let v4::attributes::SetTime::ClientTime(to) = values.set_atime {
        row.set_atime_ns = time(to, counters);
    }
    if let v4::attributes::SetTime::ClientTime(to) = values.set_mtime {
        row.set_mtime_ns = time(to, counters);
    }
}

/// Fills in the arguments of a callback; false if there is nothing to say.
pub(crate) fn of_callback(call: &callback::Call<'_>, row: &mut NfsRow) -> bool {
    set_stateid(call.stateid(), &mut row.stateid, &mut row.stateid_sequence);
    set_bytes(&mut row.session, call.session().as_ref());
    if let callback::Call::Sequence(args) = call {
        row.slot = args.slot.map(i64::from);
        row.slot_sequence = args.sequence.map(i64::from);
        row.highest_slot = args.highest_slot.map(i64::from);
    }
    !(row.stateid.is_null() && row.session.is_null())
}

/// The word of the column `file_type`: that of NFSv3, which has the same numbers, and what came with NFSv4.
pub(crate) fn file_type(kind: v4::FileType) -> Word {
    match kind {
        v4::FileType::ATTRIBUTE_DIRECTORY => Word::Known("ATTRDIR"),
        v4::FileType::NAMED_ATTRIBUTE => Word::Known("NAMEDATTR"),
        other => crate::details::file_type(v3::FileType(other.0)),
    }
}

fn set_stateid(from: Option<StateId>, other: &mut Blob, sequence: &mut Option<i64>) {
    set_bytes(other, from.map(|stateid| stateid.other).as_ref());
    *sequence = from.map(|stateid| i64::from(stateid.sequence));
}

fn set_bytes<const N: usize>(blob: &mut Blob, bytes: Option<&[u8; N]>) {
    if let Some(bytes) = bytes {
        blob.set(bytes);
    }
}

fn stable_how(how: v4::StableHow) -> Word {
    word(how.name(), how.0)
}

fn lock_type(kind: v4::LockType) -> Word {
    word(kind.name(), kind.0)
}

fn layout_type(kind: LayoutType) -> Word {
    word(kind.name(), kind.0)
}

fn layout_mode(mode: v4::IoMode) -> Word {
    word(mode.name(), mode.0)
}

/// Nanoseconds since the epoch; what does not fit is null and counted.
fn time(time: Option<v4::Time>, counters: &mut Counters) -> Option<i64> {
    let time = time?;
    let ns = time.nanoseconds_since_epoch();
    if ns.is_none() {
        counters.count(Counter::TimesUnfit);
    }
    ns
}
