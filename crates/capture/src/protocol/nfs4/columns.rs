//! NFSv4: its fields as columns of the tables `operations` and `nfs`, which have what other
//! versions have too, and `nfs4`. Of the latter two an operation has a row if any of its fields is
//! there.

use lineside_account::{Counter, Counters};
use lineside_nfs::v3;
use lineside_nfs::v4::attributes::{Attributes, SetTime};
use lineside_nfs::v4::layouts::LayoutBody;
use lineside_nfs::v4::{self, AttributeList, LayoutType, StateId, callback};
use lineside_trace::{Nfs4Cells, NfsCells, OperationCells, OperationRow, Word};

use crate::protocol::details::{Details, bits, with_bytes, word};
use crate::protocol::nfs3;

/// The cells that the header of a call gives to its first row in `nfs4`.
pub(super) fn of_header(header: &v4::CallHeader<'_>, cells: &mut impl Nfs4Cells) {
    cells.minor_version(header.minor_version.map(i64::from));
    with_bytes(header.tag.as_deref(), |tag| cells.tag(tag));
    cells.compound_operations(header.operation_count.map(i64::from));
}

/// The same of a reply.
pub(super) fn of_reply_header(header: &v4::ReplyHeader<'_>, cells: &mut impl Nfs4Cells) {
    let status = header.status;
    cells.compound_status(status.map_or(Word::None, |status| word(status.name(), status.0)));
}

/// Sets the cells of an operation's arguments, for a row of its own.
pub(super) fn of_call(
    call: &v4::Call<'_>,
    common: &mut OperationRow,
    details: &mut Details,
    counters: &mut Counters,
) {
    common_of_call(call, common);
    let attributes = call.attributes().map(AttributeList::read);
    if let Some((_, is_short)) = attributes {
        common.call_incomplete |= is_short;
        counters.add(Counter::RecordsMalformed, is_short.into());
    }
    let values = attributes.as_ref().map(|(values, _)| values);
    details.has_nfs |= nfs_of_call(call, values, &mut details.nfs, counters);
    let nfs4 = &mut details.nfs4;
    details.has_nfs4 |= nfs4_of_call(call, nfs4);
    details.has_nfs4 |= session_and_client(call.session(), call.client_id(), nfs4);
}

/// Sets the cells of an operation's results, for a row of its own.
pub(super) fn of_reply(
    reply: &v4::Reply<'_>,
    common: &mut OperationRow,
    details: &mut Details,
    counters: &mut Counters,
) {
    common.transferred = reply.transferred().map(u64::cast_signed);
    if let Some(attributes) = reply.attributes() {
        object(attributes, common, details, counters);
    }
    details.has_nfs |= nfs_of_reply(reply, &mut details.nfs);
    let nfs4 = &mut details.nfs4;
    details.has_nfs4 |= nfs4_of_reply(reply, nfs4);
    details.has_nfs4 |= session_and_client(reply.session(), reply.client_id(), nfs4);
}

/// Sets the cells of an object's attributes, for a row of its own.
pub(super) fn object(
    list: &AttributeList<'_>,
    common: &mut OperationRow,
    details: &mut Details,
    counters: &mut Counters,
) {
    let (values, is_short) = list.read();
    common.reply_incomplete |= is_short;
    counters.add(Counter::RecordsMalformed, is_short.into());
    common_of_object(&values, common);
    details.has_nfs |= nfs_of_object(&values, &mut details.nfs, counters);
    details.has_nfs4 |= nfs4_of_object(&values, &mut details.nfs4);
}

/// The cells that the arguments have in `operations`, without files.
pub(super) fn common_of_call(call: &v4::Call<'_>, cells: &mut impl OperationCells) {
    with_bytes(call.name().as_deref(), |name| cells.name(name));
    if let v4::Call::Rename(args) = call {
        with_bytes(args.to.as_deref(), |name| cells.name2(name));
    }
    cells.offset(call.offset().map(u64::cast_signed));
    if moves_data(call) {
        cells.count(call.count().map(u64::cast_signed));
    }
}

/// The cells that an object's attributes have in `operations`.
pub(super) fn common_of_object(values: &Attributes<'_>, cells: &mut impl OperationCells) {
    cells.file_size(values.size.map(u64::cast_signed));
    cells.file_type(values.file_type.map_or(Word::None, file_type));
}

/// The cells of the arguments, and of the `attributes` among them, in `nfs`; false if there are
/// none.
pub(super) fn nfs_of_call(
    call: &v4::Call<'_>,
    attributes: Option<&Attributes<'_>>,
    cells: &mut impl NfsCells,
    counters: &mut Counters,
) -> bool {
    use v4::Call;
    let any = attributes.is_some_and(|values| set_attributes(values, cells, counters));
    match call {
        Call::Access(args) => cells.access_requested(args.access.map(i64::from)),
        Call::Write(args) => cells.stable_how(args.stable.map_or(Word::None, stable_how)),
        Call::Create(args) => {
            cells.node_type(args.object.file_type().map_or(Word::None, file_type));
            match &args.object {
                v4::CreateType::Block(Some(device)) | v4::CreateType::Character(Some(device)) => {
                    cells.device_major(Some(i64::from(device.major)));
                    cells.device_minor(Some(i64::from(device.minor)));
                }
                v4::CreateType::Symlink(target) => {
                    with_bytes(target.as_deref(), |target| cells.symlink_target(target));
                }
                _ => {}
            }
        }
        Call::Open(args) => {
            let Some(mode) = args.how.create_mode() else {
                return any;
            };
            cells.create_mode(Word::Known(mode));
            if let v4::OpenHow::Create(v4::CreateHow::Exclusive(verifier)) = &args.how {
                cells.create_verifier(verifier.map(bits));
            }
        }
        Call::ReadDir(args) => {
            cells.cookie(args.cookie.map(u64::cast_signed));
            cells.cookie_verifier(args.cookie_verifier.map(bits));
            cells.directory_bytes(args.directory_count.map(i64::from));
            cells.bytes_max(args.count_max.map(i64::from));
        }
        _ => return any,
    }
    true
}

/// The cells of the arguments in `nfs4`, but for [`session_and_client`]; false if there are none.
pub(super) fn nfs4_of_call(call: &v4::Call<'_>, cells: &mut impl Nfs4Cells) -> bool {
    use v4::Call;
    let mut any = false;
    if let Some(StateId { sequence, other }) = call.stateid() {
        cells.stateid(Some(&other));
        cells.stateid_sequence(Some(i64::from(sequence)));
        any = true;
    }
    let source = call.source_offset().map(u64::cast_signed);
    any |= given(source, |source| cells.source_offset(source));
    let owner = call.owner().and_then(|owner| owner.owner);
    with_bytes(owner.as_deref(), |owner| cells.owner(owner));
    any |= owner.is_some();
    match call {
        Call::Open(args) => {
            cells.share_access(args.access.map(i64::from));
            cells.share_deny(args.deny.map(i64::from));
            cells.claim(args.claim.claim_type().map_or(Word::None, Word::Known));
        }
        Call::OpenDowngrade(args) => {
            cells.share_access(args.access.map(i64::from));
            cells.share_deny(args.deny.map(i64::from));
        }
        Call::Lock(args) => cells.lock_type(args.lock_type.map_or(Word::None, lock_type)),
        Call::LockT(args) => cells.lock_type(args.lock_type.map_or(Word::None, lock_type)),
        Call::LockU(args) => cells.lock_type(args.lock_type.map_or(Word::None, lock_type)),
        Call::Sequence(args) => {
            cells.slot(args.slot.map(i64::from));
            cells.slot_sequence(args.sequence.map(i64::from));
            cells.highest_slot(args.highest_slot.map(i64::from));
        }
        Call::LayoutGet(args) => {
            cells.layout_type(args.layout_type.map_or(Word::None, layout_type));
            cells.layout_mode(args.io_mode.map_or(Word::None, layout_mode));
        }
        Call::LayoutReturn(args) => {
            cells.layout_type(args.layout_type.map_or(Word::None, layout_type));
            cells.layout_mode(args.io_mode.map_or(Word::None, layout_mode));
        }
        Call::GetDeviceInfo(args) => {
            cells.device(args.device.as_ref().map(<[u8; 16]>::as_slice));
            cells.layout_type(args.layout_type.map_or(Word::None, layout_type));
        }
        Call::Seek(args) => {
            let content = args.what;
            cells.content(content.map_or(Word::None, |what| word(what.name(), what.0)));
        }
        _ => return any,
    }
    true
}

/// What arguments and results both may have, in `nfs4`: what the results say is the operation's.
pub(super) fn session_and_client(
    session: Option<v4::SessionId>,
    client: Option<u64>,
    cells: &mut impl Nfs4Cells,
) -> bool {
    let any = given(session, |_| {
        cells.session(session.as_ref().map(<[u8; 16]>::as_slice));
    });
    any | given(client.map(u64::cast_signed), |client| {
        cells.client_id(client);
    })
}

/// The cells of the results in `nfs`, without attributes; false if there are none.
pub(super) fn nfs_of_reply(reply: &v4::Reply<'_>, cells: &mut impl NfsCells) -> bool {
    use v4::Reply;
    match reply {
        Reply::Access(outcome) => {
            let granted = outcome.ok().and_then(|ok| ok.access).map(i64::from);
            given(granted, |granted| cells.access_granted(granted))
        }
        Reply::ReadLink(outcome) => {
            let target = outcome.ok().and_then(|ok| ok.target);
            with_bytes(target.as_deref(), |target| cells.symlink_target(target));
            target.is_some()
        }
        Reply::ReadDir(outcome) => {
            given(reply.eof(), |eof| cells.eof(eof));
            let Some(ok) = outcome.ok() else {
                return false;
            };
            cells.reply_cookie_verifier(ok.cookie_verifier.map(bits));
            // A list that was cut has more entries than were seen.
            cells.entries(ok.eof.map(|_| ok.entries.iter().count() as i64));
            true
        }
        _ => {
            let any = given(reply.eof(), |eof| cells.eof(eof));
            let Some((committed, verifier)) = reply.committed() else {
                return any;
            };
            cells.committed(committed.map_or(Word::None, stable_how));
            cells.write_verifier(verifier.map(bits));
            true
        }
    }
}

/// The cells of the results in `nfs4`, without attributes and but for [`session_and_client`]; false
/// if there are none.
pub(super) fn nfs4_of_reply(reply: &v4::Reply<'_>, cells: &mut impl Nfs4Cells) -> bool {
    use v4::Reply;
    let mut any = false;
    if let Some(StateId { sequence, other }) = reply.stateid() {
        cells.reply_stateid(Some(&other));
        cells.reply_stateid_sequence(Some(i64::from(sequence)));
        any = true;
    }
    if let Some(change) = reply.change_info() {
        cells.directory_change_before(Some(change.before.cast_signed()));
        cells.directory_change(Some(change.after.cast_signed()));
        cells.directory_change_atomic(Some(change.atomic));
        any = true;
    }
    if let Some(delegation) = reply.delegation() {
        let kind = delegation.delegation_type();
        cells.delegation(kind.map_or(Word::None, |kind| word(kind.name(), kind.0)));
        let other = delegation.stateid().map(|stateid| stateid.other);
        cells.delegation_stateid(other.as_ref().map(<[u8; 12]>::as_slice));
        any = true;
    }
    let flags = |flags: Option<u32>| flags.map(i64::from);
    match reply {
        Reply::Open(outcome) => {
            let of_open = flags(outcome.ok().and_then(|ok| ok.flags));
            any |= given(of_open, |flags| cells.open_flags(flags));
        }
        Reply::Sequence(outcome) => {
            let of_sequence = flags(outcome.ok().and_then(|ok| ok.status_flags));
            any |= given(of_sequence, |flags| cells.reply_flags(flags));
        }
        Reply::ExchangeId(outcome) => {
            let of_client = flags(outcome.ok().and_then(|ok| ok.flags));
            any |= given(of_client, |flags| cells.reply_flags(flags));
        }
        Reply::CreateSession(outcome) => {
            let of_session = flags(outcome.ok().and_then(|ok| ok.flags));
            any |= given(of_session, |flags| cells.reply_flags(flags));
        }
        Reply::LayoutGet(v4::LayoutGetResult::Ok(ok)) => {
            cells.layouts(Some(ok.layouts.iter().count() as i64));
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
                cells.device(device.as_ref().map(<[u8; 16]>::as_slice));
            }
            any = true;
        }
        Reply::Seek(outcome) => {
            let offset = outcome.ok().and_then(|ok| ok.offset);
            let offset = offset.map(u64::cast_signed);
            any |= given(offset, |offset| cells.reply_offset(offset));
        }
        _ => {}
    }
    any
}

/// Whether `count` means bytes of a file, and not room for a listing.
fn moves_data(call: &v4::Call<'_>) -> bool {
    !matches!(call, v4::Call::ReadDir(_) | v4::Call::ListXattrs(_))
}

/// The cells of an object's attributes in `nfs4`; false if there are none.
pub(super) fn nfs4_of_object(values: &Attributes<'_>, cells: &mut impl Nfs4Cells) -> bool {
    with_bytes(values.owner.as_deref(), |name| cells.owner_name(name));
    with_bytes(values.group.as_deref(), |name| cells.owner_group_name(name));
    let mut any = values.owner.is_some() || values.group.is_some();
    any |= given(values.change.map(u64::cast_signed), |change| {
        cells.change(change);
    });
    any | given(values.acl.count().map(i64::from), |entries| {
        cells.acl_entries(entries);
    })
}

/// The cells of an object's attributes in `nfs`; false if there are none.
pub(super) fn nfs_of_object(
    values: &Attributes<'_>,
    cells: &mut impl NfsCells,
    counters: &mut Counters,
) -> bool {
    let number = |value: Option<u32>| value.map(i64::from);
    let signed = |value: Option<u64>| value.map(u64::cast_signed);
    let mut any = given(number(values.mode), |mode| cells.mode(mode));
    any |= given(number(values.link_count), |links| cells.links(links));
    any |= given(signed(values.used), |bytes| cells.used_bytes(bytes));
    // Zero for all but devices.
    if let Some(v4::FileType::BLOCK | v4::FileType::CHARACTER) = values.file_type
        && let Some(device) = values.device
    {
        cells.rdev_major(Some(i64::from(device.major)));
        cells.rdev_minor(Some(i64::from(device.minor)));
        any = true;
    }
    let fsid = values.fsid.map(|fsid| fsid.major.cast_signed());
    any |= given(fsid, |fsid| cells.filesystem_id(fsid));
    any |= given(signed(values.fileid), |fileid| cells.fileid(fileid));
    any |= given(time(values.atime, counters), |ns| cells.atime_ns(ns));
    any |= given(time(values.mtime, counters), |ns| cells.mtime_ns(ns));
    any |= given(time(values.ctime, counters), |ns| cells.ctime_ns(ns));
    any | filesystem(values, cells, counters)
}

/// The same of what attributes say of the whole file system, which few ask for.
fn filesystem(values: &Attributes<'_>, cells: &mut impl NfsCells, counters: &mut Counters) -> bool {
    let number = |value: Option<u32>| value.map(i64::from);
    let signed = |value: Option<u64>| value.map(u64::cast_signed);
    let mut any = given(signed(values.bytes_total), |n| cells.total_bytes(n));
    any |= given(signed(values.bytes_free), |n| cells.free_bytes(n));
    any |= given(signed(values.bytes_available), |n| cells.available_bytes(n));
    any |= given(signed(values.files_total), |n| cells.total_files(n));
    any |= given(signed(values.files_free), |n| cells.free_files(n));
    any |= given(signed(values.files_available), |n| cells.available_files(n));
    any |= given(signed(values.read_max), |n| cells.read_max(n));
    any |= given(signed(values.write_max), |n| cells.write_max(n));
    any |= given(signed(values.file_size_max), |n| cells.file_size_max(n));
    any |= given(number(values.links_max), |n| cells.links_max(n));
    any |= given(number(values.name_max), |n| cells.name_max(n));
    any |= given(values.no_truncation, |is| cells.no_truncation(is));
    any |= given(values.chown_restricted, |is| cells.chown_restricted(is));
    any |= given(values.case_insensitive, |is| cells.case_insensitive(is));
    any |= given(values.case_preserving, |is| cells.case_preserving(is));
    any | given(time(values.time_delta, counters), |ns| {
        cells.time_delta_ns(ns);
    })
}

/// The cells of the attributes that a call sets; false if there are none.
fn set_attributes(
    values: &Attributes<'_>,
    cells: &mut impl NfsCells,
    counters: &mut Counters,
) -> bool {
    let mut any = given(values.mode.map(i64::from), |mode| cells.set_mode(mode));
    any |= given(values.size.map(u64::cast_signed), |n| cells.set_size(n));
    let how = |set: &SetTime| match set {
        SetTime::Unread => Word::None,
        SetTime::ClientTime(_) => Word::Known("SET_TO_CLIENT_TIME4"),
        SetTime::ServerTime(_) => Word::Known("SET_TO_SERVER_TIME4"),
    };
    let [atime, mtime] = [how(&values.set_atime), how(&values.set_mtime)];
    cells.set_atime_how(atime);
    cells.set_mtime_how(mtime);
    if let SetTime::ClientTime(to) = values.set_atime {
        cells.set_atime_ns(time(to, counters));
    }
    if let SetTime::ClientTime(to) = values.set_mtime {
        cells.set_mtime_ns(time(to, counters));
    }
    any |= atime != Word::None || mtime != Word::None;
    any
}

/// Sets the cells of a callback's arguments.
pub(super) fn of_callback(call: &callback::Call<'_>, details: &mut Details) {
    let row = &mut details.nfs4;
    let mut any = session_and_client(call.session(), None, row);
    if let Some(StateId { sequence, other }) = call.stateid() {
        row.stateid.set(&other);
        row.stateid_sequence = Some(i64::from(sequence));
        any = true;
    }
    if let callback::Call::Sequence(args) = call {
        row.slot = args.slot.map(i64::from);
        row.slot_sequence = args.sequence.map(i64::from);
        row.highest_slot = args.highest_slot.map(i64::from);
    }
    details.has_nfs4 |= any;
}

/// The word of the column `file_type`: that of NFSv3, which has the same numbers, and what came
/// with NFSv4.
pub(super) fn file_type(kind: v4::FileType) -> Word {
    match kind {
        v4::FileType::ATTRIBUTE_DIRECTORY => Word::Known("ATTRDIR"),
        v4::FileType::NAMED_ATTRIBUTE => Word::Known("NAMEDATTR"),
        other => nfs3::file_type(v3::FileType(other.0)),
    }
}

/// Gives a value, if there is one; false if there is none.
#[inline(always)]
fn given<T>(value: Option<T>, give: impl FnOnce(Option<T>)) -> bool {
    let is_some = value.is_some();
    if is_some {
        give(value);
    }
    is_some
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

/// Nanoseconds since the epoch; a time that does not fit is null and counted.
fn time(time: Option<v4::Time>, counters: &mut Counters) -> Option<i64> {
    let time = time?;
    let ns = time.nanoseconds_since_epoch();
    if ns.is_none() {
        counters.count(Counter::TimesUnfit);
    }
    ns
}
