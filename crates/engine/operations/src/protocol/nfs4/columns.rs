//! NFSv4: its fields as columns of the tables `nfs`, which has what other versions have too, and
//! `nfs4`.

use lineside_account::{Counter, Counters};
use lineside_frame::Cursor;
use lineside_nfs::v3;
use lineside_nfs::v4::layouts::LayoutBody;
use lineside_nfs::v4::{self, AttributeList, LayoutType, StateId, callback};
use lineside_rows::{Blob, Nfs4Row, NfsRow, OperationRow, Word};

use crate::details::{Details, bits, set_blob, set_text, word};
use crate::protocol::nfs3;

/// Sets the cells of an operation's arguments.
pub(super) fn of_call(
    call: &v4::Call<'_>,
    common: &mut OperationRow,
    details: &mut Details,
    counters: &mut Counters,
) {
    if let Some(attributes) = call.attributes() {
        common.call_incomplete |= set_attributes(attributes, details, counters);
    }
    let (nfs, nfs4) = (&mut details.nfs, &mut details.nfs4);
    let mut any4 = set_stateid(
        call.stateid(),
        &mut nfs4.stateid,
        &mut nfs4.stateid_sequence,
    );
    any4 |= set_bytes(&mut nfs4.session, call.session().as_ref());
    any4 |= put(&mut nfs4.client_id, call.client_id().map(u64::cast_signed));
    any4 |= put(
        &mut nfs4.source_offset,
        call.source_offset().map(u64::cast_signed),
    );
    if let Some(owner) = call.owner().and_then(|owner| owner.owner.as_ref()) {
        set_blob(&mut nfs4.owner, owner);
        any4 = true;
    }
    any4 |= set_client(call, nfs4);
    any4 |= put(
        &mut nfs4.owner_sequence,
        owner_sequence(call).map(i64::from),
    );
    let (in_nfs, in_nfs4) = set_arguments(call, nfs, nfs4);
    details.has_nfs |= in_nfs;
    details.has_nfs4 |= any4 || in_nfs4;
}

/// Most bytes of arguments, and of values of attributes, that are kept as they came: a list of
/// state ids, or an ACL, may have a megabyte.
const ARGUMENTS_MAX: usize = 4096;

/// Sets the arguments, from the operation's `start` to the cursor, of an operation that has some in
/// no other column.
pub(super) fn put_rest(
    call: &v4::Call<'_>,
    mut start: Cursor<'_>,
    end: &Cursor<'_>,
    details: &mut Details,
) {
    let len = end.position() - start.position();
    if !has_more(call) || end.fault().is_some() || len > ARGUMENTS_MAX {
        return;
    }
    let _number = start.u32();
    if let Some(arguments) = len.checked_sub(4).and_then(|len| start.view(len)) {
        set_blob(&mut details.nfs4.arguments, &arguments);
        details.has_nfs4 = true;
    }
}

/// Whether an operation has arguments that are in no other column.
#[inline]
fn has_more(call: &v4::Call<'_>) -> bool {
    use v4::Call;
    match call {
        Call::Open(args) => matches!(
            (&args.how, &args.claim),
            (v4::OpenHow::Other(_), _) | (_, v4::Claim::Previous(_))
        ),
        Call::Create(args) => matches!(args.object, v4::CreateType::Other(_)),
        Call::Lock(_)
        | Call::OpenAttr(_)
        | Call::SetClientId(_)
        | Call::SetClientIdConfirm(_)
        | Call::BackchannelCtl(_)
        | Call::BindConnToSession(_)
        | Call::ExchangeId(_)
        | Call::CreateSession(_)
        | Call::GetDirDelegation(_)
        | Call::GetDeviceInfo(_)
        | Call::GetDeviceList(_)
        | Call::LayoutCommit(_)
        | Call::LayoutGet(_)
        | Call::LayoutReturn(_)
        | Call::SecInfoNoName(_)
        | Call::SetSsv(_)
        | Call::TestStateId(_)
        | Call::WantDelegation(_)
        | Call::ReclaimComplete(_)
        | Call::Copy(_)
        | Call::CopyNotify(_)
        | Call::IoAdvise(_)
        | Call::LayoutError(_)
        | Call::LayoutStats(_)
        | Call::WriteSame(_)
        | Call::Clone(_)
        | Call::SetXattr(_)
        | Call::ListXattrs(_) => true,
        _ => false,
    }
}

/// The sequence number of an owner of opens or locks: of the first lock of an owner that of the
/// lock's.
fn owner_sequence(call: &v4::Call<'_>) -> Option<u32> {
    match call {
        v4::Call::Open(args) => args.sequence,
        v4::Call::OpenConfirm(args) => args.sequence,
        v4::Call::OpenDowngrade(args) => args.sequence,
        v4::Call::Close(args) => args.sequence,
        v4::Call::LockU(args) => args.sequence,
        v4::Call::Lock(args) => match &args.locker {
            v4::Locker::Known(owner) => owner.sequence,
            v4::Locker::New(owner) => owner.lock_sequence,
            v4::Locker::Unread => None,
        },
        _ => None,
    }
}

/// Sets which attributes an operation names; whether it was seen.
pub(super) fn set_bitmap(nfs: &mut NfsRow, bitmap: Option<v4::Bitmap>) -> bool {
    let Some(bitmap) = bitmap else {
        return false;
    };
    let (words, count) = (bitmap.words(), bitmap.word_count() as usize);
    let mut bytes = [0; 16];
    for (out, word) in bytes.chunks_exact_mut(4).zip(words) {
        out.copy_from_slice(&word.to_be_bytes());
    }
    let cell = &mut nfs.attribute_bitmap;
    cell.set(&bytes[..4 * count.min(words.len())]);
    // Words that no attribute has a bit in.
    (words.len()..count).for_each(|_| cell.append(&[0; 4]));
    true
}

/// Sets what a client calls itself; whether it does.
fn set_client(call: &v4::Call<'_>, nfs4: &mut Nfs4Row) -> bool {
    let (name, verifier) = match call {
        v4::Call::ExchangeId(args) => (&args.owner, args.verifier),
        v4::Call::SetClientId(args) => (&args.id, args.verifier),
        _ => return false,
    };
    if let Some(name) = name {
        set_blob(&mut nfs4.client_name, name);
    }
    nfs4.client_verifier = verifier.map(bits);
    name.is_some() || verifier.is_some()
}

/// Sets the cells of the arguments that one operation has; whether there are any in `nfs`, and in
/// `nfs4`.
fn set_arguments(call: &v4::Call<'_>, nfs: &mut NfsRow, nfs4: &mut Nfs4Row) -> (bool, bool) {
    use v4::Call;
    match call {
        Call::Access(args) => {
            nfs.access_requested = args.access.map(i64::from);
            (true, false)
        }
        Call::Write(args) => {
            nfs.stable_how = args.stable.map_or(Word::None, stable_how);
            (true, false)
        }
        Call::Create(args) => {
            nfs.node_type = args.object.file_type().map_or(Word::None, file_type);
            match &args.object {
                v4::CreateType::Block(Some(device)) | v4::CreateType::Character(Some(device)) => {
                    nfs.device_major = Some(i64::from(device.major));
                    nfs.device_minor = Some(i64::from(device.minor));
                }
                v4::CreateType::Symlink(target) => {
                    set_text(&mut nfs.symlink_target, target.as_deref());
                }
                _ => {}
            }
            (true, false)
        }
        Call::Open(args) => {
            nfs4.share_access = args.access.map(i64::from);
            nfs4.share_deny = args.deny.map(i64::from);
            nfs4.claim = args.claim.claim_type().map_or(Word::None, Word::Known);
            let mode = args.how.create_mode();
            nfs.create_mode = mode.map_or(Word::None, Word::Known);
            let verifier = match &args.how {
                v4::OpenHow::Create(v4::CreateHow::Exclusive(verifier)) => *verifier,
                v4::OpenHow::Create(v4::CreateHow::ExclusiveWithAttributes(create)) => {
                    create.verifier
                }
                _ => None,
            };
            nfs.create_verifier = verifier.map(bits);
            (mode.is_some(), true)
        }
        Call::OpenDowngrade(args) => {
            nfs4.share_access = args.access.map(i64::from);
            nfs4.share_deny = args.deny.map(i64::from);
            (false, true)
        }
        Call::Lock(args) => {
            nfs4.lock_type = args.lock_type.map_or(Word::None, lock_type);
            (false, true)
        }
        Call::LockT(args) => {
            nfs4.lock_type = args.lock_type.map_or(Word::None, lock_type);
            (false, true)
        }
        Call::LockU(args) => {
            nfs4.lock_type = args.lock_type.map_or(Word::None, lock_type);
            (false, true)
        }
        Call::ReadDir(args) => {
            nfs.cookie = args.cookie.map(u64::cast_signed);
            nfs.cookie_verifier = args.cookie_verifier.map(bits);
            nfs.directory_bytes = args.directory_count.map(i64::from);
            nfs.bytes_max = args.count_max.map(i64::from);
            set_bitmap(nfs, args.request);
            (true, false)
        }
        Call::Sequence(args) => {
            nfs4.slot = args.slot.map(i64::from);
            nfs4.slot_sequence = args.sequence.map(i64::from);
            nfs4.highest_slot = args.highest_slot.map(i64::from);
            nfs4.cache_reply = args.cache_this;
            (false, true)
        }
        Call::LayoutGet(args) => {
            nfs4.layout_type = args.layout_type.map_or(Word::None, layout_type);
            nfs4.layout_mode = args.io_mode.map_or(Word::None, layout_mode);
            (false, true)
        }
        Call::LayoutReturn(args) => {
            nfs4.layout_type = args.layout_type.map_or(Word::None, layout_type);
            nfs4.layout_mode = args.io_mode.map_or(Word::None, layout_mode);
            (false, true)
        }
        Call::GetDeviceInfo(args) => {
            set_bytes(&mut nfs4.device, args.device.as_ref());
            nfs4.layout_type = args.layout_type.map_or(Word::None, layout_type);
            (false, true)
        }
        Call::Seek(args) => {
            let content = args.what;
            nfs4.content = content.map_or(Word::None, |what| word(what.name(), what.0));
            (false, true)
        }
        _ => (false, false),
    }
}

/// Sets the cells of an operation's results, those of the table `operations` too.
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
    let (nfs, nfs4) = (&mut details.nfs, &mut details.nfs4);
    let (id, sequence) = (&mut nfs4.reply_stateid, &mut nfs4.reply_stateid_sequence);
    let mut any4 = set_stateid(reply.stateid(), id, sequence);
    any4 |= set_bytes(&mut nfs4.session, reply.session().as_ref());
    any4 |= put(&mut nfs4.client_id, reply.client_id().map(u64::cast_signed));
    if let Some(change) = reply.change_info() {
        nfs4.directory_change_before = Some(change.before.cast_signed());
        nfs4.directory_change = Some(change.after.cast_signed());
        nfs4.directory_change_atomic = Some(change.atomic);
        any4 = true;
    }
    let mut any = put(&mut nfs.eof, reply.eof());
    if let Some((committed, verifier)) = reply.committed() {
        nfs.committed = committed.map_or(Word::None, stable_how);
        nfs.write_verifier = verifier.map(bits);
        any = true;
    }
    if let Some(delegation) = reply.delegation() {
        nfs4.delegation = delegation
            .delegation_type()
            .map_or(Word::None, |kind| word(kind.name(), kind.0));
        let other = delegation.stateid().map(|stateid| stateid.other);
        set_bytes(&mut nfs4.delegation_stateid, other.as_ref());
        any4 = true;
    }
    let (in_nfs, in_nfs4) = set_results(reply, nfs, nfs4);
    details.has_nfs |= any || in_nfs;
    details.has_nfs4 |= any4 || in_nfs4;
}

/// Whether the result of a SEQUENCE is about another slot or sequence than its call.
pub(super) fn is_of_other_slot(reply: &v4::Reply<'_>, details: &Details) -> bool {
    let v4::Reply::Sequence(outcome) = reply else {
        return false;
    };
    let Some(ok) = outcome.ok() else {
        return false;
    };
    let called = [details.nfs4.slot, details.nfs4.slot_sequence];
    let answered = [ok.slot, ok.sequence].map(|number| number.map(i64::from));
    { called.into_iter().zip(answered) }
        .any(|(called, answered)| called.is_some() && answered.is_some() && called != answered)
}

/// Sets the status of each state id; whether there are any.
fn set_statuses(ok: &v4::TestStateIdOk<'_>, nfs4: &mut Nfs4Row) -> bool {
    let cell = &mut nfs4.stateid_statuses;
    for status in ok.statuses.iter() {
        if !cell.is_null() {
            cell.append(b",");
        }
        match v4::status_name(status) {
            Some(name) => cell.append(name.as_bytes()),
            None => cell.append(status.to_string().as_bytes()),
        }
    }
    !cell.is_null()
}

/// Sets the cells of the results that one operation has; whether there are any in `nfs`, and in
/// `nfs4`.
fn set_results(reply: &v4::Reply<'_>, nfs: &mut NfsRow, nfs4: &mut Nfs4Row) -> (bool, bool) {
    use v4::Reply;
    let (mut any, mut any4) = (false, false);
    match reply {
        Reply::Access(outcome) => {
            let granted = outcome.ok().and_then(|ok| ok.access);
            any |= put(&mut nfs.access_granted, granted.map(i64::from));
        }
        Reply::Open(outcome) => {
            let flags = outcome.ok().and_then(|ok| ok.flags);
            any4 |= put(&mut nfs4.open_flags, flags.map(i64::from));
        }
        Reply::ReadLink(outcome) => {
            let target = outcome.ok().and_then(|ok| ok.target);
            set_text(&mut nfs.symlink_target, target.as_deref());
            any |= target.is_some();
        }
        Reply::ReadDir(outcome) => {
            if let Some(ok) = outcome.ok() {
                nfs.reply_cookie_verifier = ok.cookie_verifier.map(bits);
                // A list that was cut has more entries than were seen.
                nfs.entries = ok.eof.map(|_| ok.entries.iter().count() as i64);
                any = true;
            }
        }
        Reply::TestStateId(outcome) => {
            any4 |= outcome.ok().is_some_and(|ok| set_statuses(ok, nfs4));
        }
        Reply::Sequence(outcome) => {
            let flags = outcome.ok().and_then(|ok| ok.status_flags);
            any4 |= put(&mut nfs4.reply_flags, flags.map(i64::from));
        }
        Reply::ExchangeId(outcome) => {
            let flags = outcome.ok().and_then(|ok| ok.flags);
            any4 |= put(&mut nfs4.reply_flags, flags.map(i64::from));
        }
        Reply::CreateSession(outcome) => {
            let flags = outcome.ok().and_then(|ok| ok.flags);
            any4 |= put(&mut nfs4.reply_flags, flags.map(i64::from));
        }
        Reply::LayoutGet(v4::LayoutGetResult::Ok(ok)) => {
            nfs4.layouts = Some(ok.layouts.iter().count() as i64);
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
                set_bytes(&mut nfs4.device, device.as_ref());
            }
            any4 = true;
        }
        Reply::Seek(outcome) => {
            let offset = outcome.ok().and_then(|ok| ok.offset);
            any4 |= put(&mut nfs4.reply_offset, offset.map(u64::cast_signed));
        }
        _ => {}
    }
    (any, any4)
}

/// Whether `count` means bytes of a file, and not room for a listing.
pub(super) fn moves_data(call: &v4::Call<'_>) -> bool {
    !matches!(call, v4::Call::ReadDir(_) | v4::Call::ListXattrs(_))
}

/// The attributes of an object.
pub(super) fn object(
    list: &AttributeList<'_>,
    common: &mut OperationRow,
    details: &mut Details,
    counters: &mut Counters,
) {
    let (values, is_short) = list.read();
    common.reply_incomplete |= is_short;
    counters.add(Counter::RecordsMalformed, is_short.into());
    common.file_size = values.size.map(u64::cast_signed);
    common.file_type = values.file_type.map_or(Word::None, file_type);

    let row = &mut details.nfs4;
    let mut any = put(&mut row.change, values.change.map(u64::cast_signed));
    set_text(&mut row.owner_name, values.owner.as_deref());
    set_text(&mut row.owner_group_name, values.group.as_deref());
    any |= values.owner.is_some() || values.group.is_some();
    any |= put(&mut row.acl_entries, values.acl.count().map(i64::from));
    details.has_nfs4 |= any;

    let row = &mut details.nfs;
    let mut any = put(&mut row.mode, values.mode.map(i64::from));
    any |= put(&mut row.links, values.link_count.map(i64::from));
    any |= put(&mut row.used_bytes, values.used.map(u64::cast_signed));
    // Zero for all but devices.
    if matches!(
        values.file_type,
        Some(v4::FileType::BLOCK | v4::FileType::CHARACTER)
    ) {
        let device = values.device;
        any |= put(
            &mut row.rdev_major,
            device.map(|device| i64::from(device.major)),
        );
        row.rdev_minor = device.map(|device| i64::from(device.minor));
    }
    let fsid = values.fsid.map(|fsid| fsid.major.cast_signed());
    any |= put(&mut row.filesystem_id, fsid);
    any |= put(&mut row.fileid, values.fileid.map(u64::cast_signed));
    any |= put(&mut row.atime_ns, time(values.atime, counters));
    any |= put(&mut row.mtime_ns, time(values.mtime, counters));
    any |= put(&mut row.ctime_ns, time(values.ctime, counters));
    let signed = |value: Option<u64>| value.map(u64::cast_signed);
    any |= put(&mut row.total_bytes, signed(values.bytes_total));
    any |= put(&mut row.free_bytes, signed(values.bytes_free));
    any |= put(&mut row.available_bytes, signed(values.bytes_available));
    any |= put(&mut row.total_files, signed(values.files_total));
    any |= put(&mut row.free_files, signed(values.files_free));
    any |= put(&mut row.available_files, signed(values.files_available));
    any |= put(&mut row.read_max, signed(values.read_max));
    any |= put(&mut row.write_max, signed(values.write_max));
    any |= put(&mut row.file_size_max, signed(values.file_size_max));
    any |= put(&mut row.links_max, values.links_max.map(i64::from));
    any |= put(&mut row.name_max, values.name_max.map(i64::from));
    any |= put(&mut row.no_truncation, values.no_truncation);
    any |= put(&mut row.chown_restricted, values.chown_restricted);
    any |= put(&mut row.case_insensitive, values.case_insensitive);
    any |= put(&mut row.case_preserving, values.case_preserving);
    any |= put(&mut row.time_delta_ns, time(values.time_delta, counters));
    details.has_nfs |= any;
}

/// True if the list contradicts its mask.
fn set_attributes(
    list: &AttributeList<'_>,
    details: &mut Details,
    counters: &mut Counters,
) -> bool {
    details.has_nfs |= set_bitmap(&mut details.nfs, list.mask);
    if let Some(values) = list.value_bytes()
        && values.len() <= ARGUMENTS_MAX
    {
        set_blob(&mut details.nfs.attribute_values, &values);
    }
    let ((values, is_short), row) = (list.read(), &mut details.nfs);
    counters.add(Counter::RecordsMalformed, is_short.into());
    let mut any = put(&mut row.set_mode, values.mode.map(i64::from));
    any |= put(&mut row.set_size, values.size.map(u64::cast_signed));
    let how = |set: &v4::attributes::SetTime| match set {
        v4::attributes::SetTime::Unread => Word::None,
        v4::attributes::SetTime::ClientTime(_) => Word::Known("SET_TO_CLIENT_TIME4"),
        v4::attributes::SetTime::ServerTime(_) => Word::Known("SET_TO_SERVER_TIME4"),
    };
    row.set_atime_how = how(&values.set_atime);
    row.set_mtime_how = how(&values.set_mtime);
    any |= row.set_atime_how != Word::None || row.set_mtime_how != Word::None;
    if let v4::attributes::SetTime::ClientTime(to) = values.set_atime {
        row.set_atime_ns = time(to, counters);
    }
    if let v4::attributes::SetTime::ClientTime(to) = values.set_mtime {
        row.set_mtime_ns = time(to, counters);
    }
    details.has_nfs |= any;
    is_short
}

/// Sets the cells of a callback's arguments.
pub(super) fn of_callback(call: &callback::Call<'_>, details: &mut Details) {
    let row = &mut details.nfs4;
    let mut any = set_stateid(call.stateid(), &mut row.stateid, &mut row.stateid_sequence);
    any |= set_bytes(&mut row.session, call.session().as_ref());
    if let callback::Call::Sequence(args) = call {
        row.slot = args.slot.map(i64::from);
        row.slot_sequence = args.sequence.map(i64::from);
        row.highest_slot = args.highest_slot.map(i64::from);
        row.cache_reply = args.cache_this;
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

/// Sets a cell if there is a value; false if there is none.
fn put<T>(cell: &mut Option<T>, value: Option<T>) -> bool {
    let is_some = value.is_some();
    if is_some {
        *cell = value;
    }
    is_some
}

fn set_stateid(from: Option<StateId>, other: &mut Blob, sequence: &mut Option<i64>) -> bool {
    put(sequence, from.map(|stateid| i64::from(stateid.sequence)));
    set_bytes(other, from.map(|stateid| stateid.other).as_ref())
}

fn set_bytes<const N: usize>(blob: &mut Blob, bytes: Option<&[u8; N]>) -> bool {
    if let Some(bytes) = bytes {
        blob.set(bytes);
    }
    bytes.is_some()
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
