//! NFSv3's fields as columns of the table `nfs`.

use lineside_account::{Counter, Counters};
use lineside_nfs::v3;
use lineside_rows::{NfsCells, Word};
use lineside_rpc::xdr::{InPlace, Optional, Outcome};

use crate::details::{bits, with_bytes, word};

/// Whether `count` means bytes of a file, as for READ, WRITE and COMMIT, and not room for a
/// listing.
pub(super) fn moves_data(call: &v3::Call<'_>) -> bool {
    matches!(
        call,
        v3::Call::Read(_) | v3::Call::Write(_) | v3::Call::Commit(_)
    )
}

/// The word of the column `file_type`: ftype3 without its prefix.
pub(crate) fn file_type(kind: v3::FileType) -> Word {
    Word::Known(match kind {
        v3::FileType::REGULAR => "REG",
        v3::FileType::DIRECTORY => "DIR",
        v3::FileType::BLOCK => "BLK",
        v3::FileType::CHARACTER => "CHR",
        v3::FileType::SYMLINK => "LNK",
        v3::FileType::SOCKET => "SOCK",
        v3::FileType::FIFO => "FIFO",
        other => return Word::Number(i64::from(other.0)),
    })
}

/// Sets the cells of the arguments; false if there are none.
pub(super) fn of_call(
    call: &v3::Call<'_>,
    cells: &mut impl NfsCells,
    counters: &mut Counters,
) -> bool {
    match call {
        v3::Call::SetAttr(args) => {
            set_attributes(&args.attributes, cells, counters);
            cells.guard_ctime_ns(
                args.guard
                    .present()
                    .and_then(|guard| time(&guard, counters)),
            );
        }
        v3::Call::Access(args) => cells.access_requested(args.access.map(i64::from)),
        v3::Call::Write(args) => cells.stable_how(args.stable.map_or(Word::None, stable_how)),
        v3::Call::Create(args) => {
            cells.create_mode(args.how.name().map_or(Word::None, Word::Known));
            match &args.how {
                v3::CreateHow::Unchecked(attributes) | v3::CreateHow::Guarded(attributes) => {
                    set_attributes(attributes, cells, counters)
                }
                v3::CreateHow::Exclusive(verifier) => cells.create_verifier(verifier.map(bits)),
                v3::CreateHow::Unread => {}
            }
        }
        v3::Call::MkDir(args) => set_attributes(&args.attributes, cells, counters),
        v3::Call::SymLink(args) => {
            set_attributes(&args.attributes, cells, counters);
            with_bytes(args.target.as_deref(), |target| {
                cells.symlink_target(target)
            });
        }
        v3::Call::MkNod(args) => {
            let (kind, attributes, device) = match &args.node {
                v3::Node::Block(node) => ("BLK", &node.attributes, Some(&node.device)),
                v3::Node::Character(node) => ("CHR", &node.attributes, Some(&node.device)),
                v3::Node::Socket(attributes) => ("SOCK", attributes, None),
                v3::Node::Fifo(attributes) => ("FIFO", attributes, None),
                _ => return false,
            };
            cells.node_type(Word::Known(kind));
            set_attributes(attributes, cells, counters);
            cells.device_major(device.and_then(|device| device.major).map(i64::from));
            cells.device_minor(device.and_then(|device| device.minor).map(i64::from));
        }
        v3::Call::ReadDir(args) => {
            cells.cookie(args.cookie.map(u64::cast_signed));
            cells.cookie_verifier(args.cookie_verifier.map(bits));
            cells.bytes_max(args.count.map(i64::from));
        }
        v3::Call::ReadDirPlus(args) => {
            cells.cookie(args.cookie.map(u64::cast_signed));
            cells.cookie_verifier(args.cookie_verifier.map(bits));
            cells.directory_bytes(args.directory_count.map(i64::from));
            cells.bytes_max(args.count_max.map(i64::from));
        }
        _ => return false,
    }
    true
}

/// Sets the cells of the results and of the attributes among them; false if there are none.
pub(super) fn of_reply(
    reply: &v3::Reply<'_>,
    attributes: Option<&InPlace<'_, v3::Attributes>>,
    cells: &mut impl NfsCells,
    counters: &mut Counters,
) -> bool {
    if let Some(attributes) = attributes {
        match attributes.whole() {
            Some(attributes) => object(&attributes, cells, counters),
            None => object_in_part(&attributes.get(), cells, counters),
        }
    }
    match reply {
        v3::Reply::Null(()) => return false,
        v3::Reply::GetAttr(_) => {}
        v3::Reply::SetAttr(outcome) => {
            if let Outcome::Ok(wcc) | Outcome::Fail(_, wcc) = outcome {
                before(wcc, cells, counters);
            }
        }
        // The attributes of these are the directory's own.
        v3::Reply::Remove(outcome) | v3::Reply::RmDir(outcome) => {
            if let Outcome::Ok(wcc) | Outcome::Fail(_, wcc) = outcome {
                directory(wcc, cells, counters);
            }
        }
        v3::Reply::Lookup(outcome) => {
            let attributes = match outcome {
                Outcome::Ok(ok) => ok.directory.present(),
                Outcome::Fail(_, fail) => fail.attributes.present(),
                Outcome::Unread => None,
            };
            if let Some(attributes) = attributes {
                directory_after(&attributes, cells, counters);
            }
        }
        v3::Reply::Access(outcome) => {
            cells.access_granted(outcome.ok().and_then(|ok| ok.access).map(i64::from))
        }
        v3::Reply::ReadLink(outcome) => {
            with_bytes(outcome.ok().and_then(|ok| ok.target).as_deref(), |target| {
                cells.symlink_target(target)
            })
        }
        v3::Reply::Read(outcome) => cells.eof(outcome.ok().and_then(|ok| ok.eof)),
        v3::Reply::Write(outcome) => {
            if let Some(wcc) = wcc_of(outcome, |ok| &ok.file, |fail| fail) {
                before(wcc, cells, counters);
            }
            if let Some(ok) = outcome.ok() {
                cells.committed(ok.committed.map_or(Word::None, stable_how));
                cells.write_verifier(ok.verifier.map(bits));
            }
        }
        v3::Reply::Create(outcome)
        | v3::Reply::MkDir(outcome)
        | v3::Reply::SymLink(outcome)
        | v3::Reply::MkNod(outcome) => {
            if let Some(wcc) = wcc_of(outcome, |ok| &ok.directory, |fail| fail) {
                directory(wcc, cells, counters);
            }
        }
        v3::Reply::Rename(outcome) => {
            if let Outcome::Ok(result) | Outcome::Fail(_, result) = outcome {
                directory(&result.from, cells, counters);
                directory2(&result.to, cells, counters);
            }
        }
        v3::Reply::Link(outcome) => {
            if let Outcome::Ok(result) | Outcome::Fail(_, result) = outcome {
                directory2(&result.directory, cells, counters);
            }
        }
        v3::Reply::ReadDir(outcome) => {
            if let Some(ok) = outcome.ok() {
                cells.eof(ok.eof);
                cells.reply_cookie_verifier(ok.cookie_verifier.map(bits));
                // A list that was cut has more entries than were seen.
                cells.entries(ok.eof.map(|_| ok.entries.iter().count() as i64));
            }
        }
        v3::Reply::ReadDirPlus(outcome) => {
            if let Some(ok) = outcome.ok() {
                cells.eof(ok.eof);
                cells.reply_cookie_verifier(ok.cookie_verifier.map(bits));
                cells.entries(ok.eof.map(|_| ok.entries.iter().count() as i64));
            }
        }
        v3::Reply::FsStat(outcome) => set_fs_stat(outcome.ok(), cells),
        v3::Reply::FsInfo(outcome) => set_fs_info(outcome.ok(), cells, counters),
        v3::Reply::PathConf(outcome) => set_path_conf(outcome.ok(), cells),
        v3::Reply::Commit(outcome) => {
            if let Some(wcc) = wcc_of(outcome, |ok| &ok.file, |fail| fail) {
                before(wcc, cells, counters);
            }
            cells.write_verifier(outcome.ok().and_then(|ok| ok.verifier).map(bits));
        }
    }
    true
}

fn set_fs_stat(ok: Option<&v3::FsStatOk<'_>>, cells: &mut impl NfsCells) {
    let Some(ok) = ok else { return };
    cells.total_bytes(ok.bytes_total.map(u64::cast_signed));
    cells.free_bytes(ok.bytes_free.map(u64::cast_signed));
    cells.available_bytes(ok.bytes_available.map(u64::cast_signed));
    cells.total_files(ok.files_total.map(u64::cast_signed));
    cells.free_files(ok.files_free.map(u64::cast_signed));
    cells.available_files(ok.files_available.map(u64::cast_signed));
    cells.invariant_seconds(ok.invariant_seconds.map(i64::from));
}

fn set_fs_info(ok: Option<&v3::FsInfoOk<'_>>, cells: &mut impl NfsCells, counters: &mut Counters) {
    let Some(ok) = ok else { return };
    cells.read_max(ok.read_max.map(i64::from));
    cells.read_preferred(ok.read_preferred.map(i64::from));
    cells.read_multiple(ok.read_multiple.map(i64::from));
    cells.write_max(ok.write_max.map(i64::from));
    cells.write_preferred(ok.write_preferred.map(i64::from));
    cells.write_multiple(ok.write_multiple.map(i64::from));
    cells.directory_preferred(ok.readdir_preferred.map(i64::from));
    cells.file_size_max(ok.file_size_max.map(u64::cast_signed));
    cells.time_delta_ns(time(&ok.time_delta, counters));
    cells.properties(ok.properties.map(i64::from));
}

fn set_path_conf(ok: Option<&v3::PathConfOk<'_>>, cells: &mut impl NfsCells) {
    let Some(ok) = ok else { return };
    cells.links_max(ok.links_max.map(i64::from));
    cells.name_max(ok.name_max.map(i64::from));
    cells.no_truncation(ok.no_truncation);
    cells.chown_restricted(ok.chown_restricted);
    cells.case_insensitive(ok.case_insensitive);
    cells.case_preserving(ok.case_preserving);
}

fn wcc_of<'o, 'a, O, F>(
    outcome: &'o Outcome<O, F>,
    ok: impl Fn(&'o O) -> &'o v3::Wcc<'a>,
    fail: impl Fn(&'o F) -> &'o v3::Wcc<'a>,
) -> Option<&'o v3::Wcc<'a>> {
    match outcome {
        Outcome::Unread => None,
        Outcome::Ok(body) => Some(ok(body)),
        Outcome::Fail(_, body) => Some(fail(body)),
    }
}

fn stable_how(how: v3::StableHow) -> Word {
    word(how.name(), how.0)
}

/// Nanoseconds since the epoch; a time that contradicts itself is null and counted.
#[inline]
fn time(time: &v3::Time, counters: &mut Counters) -> Option<i64> {
    let ns = time.nanoseconds_since_epoch();
    if ns.is_none() && time.seconds.is_some() && time.nanoseconds.is_some() {
        counters.count(Counter::TimesUnfit);
    }
    ns
}

pub(crate) fn set_attributes(
    set: &v3::SetAttributes,
    cells: &mut impl NfsCells,
    counters: &mut Counters,
) {
    cells.set_mode(set.mode.value().map(i64::from));
    cells.set_uid(set.uid.value().map(i64::from));
    cells.set_gid(set.gid.value().map(i64::from));
    cells.set_size(set.size.value().map(u64::cast_signed));
    cells.set_atime_how(set.atime.name().map_or(Word::None, Word::Known));
    cells.set_mtime_how(set.mtime.name().map_or(Word::None, Word::Known));
    if let v3::SetTime::ClientTime(to) = &set.atime {
        cells.set_atime_ns(time(to, counters));
    }
    if let v3::SetTime::ClientTime(to) = &set.mtime {
        cells.set_mtime_ns(time(to, counters));
    }
}

#[cold]
fn object_in_part(attributes: &v3::Attributes, cells: &mut impl NfsCells, counters: &mut Counters) {
    object(attributes, cells, counters);
}

/// Always inlined: of attributes that are read in place, only the used ones are read then.
#[inline(always)]
pub(crate) fn object(
    attributes: &v3::Attributes,
    cells: &mut impl NfsCells,
    counters: &mut Counters,
) {
    cells.mode(attributes.mode.map(i64::from));
    cells.links(attributes.link_count.map(i64::from));
    cells.owner_id(attributes.uid.map(i64::from));
    cells.owner_group_id(attributes.gid.map(i64::from));
    cells.used_bytes(attributes.used.map(u64::cast_signed));
    // Zero for all but devices; what other types put there has no meaning (RFC 1813 section 2.6).
    if matches!(
        attributes.file_type,
        Some(v3::FileType::BLOCK | v3::FileType::CHARACTER)
    ) {
        cells.rdev_major(attributes.device.major.map(i64::from));
        cells.rdev_minor(attributes.device.minor.map(i64::from));
    }
    cells.filesystem_id(attributes.fsid.map(u64::cast_signed));
    cells.fileid(attributes.fileid.map(u64::cast_signed));
    cells.atime_ns(time(&attributes.atime, counters));
    cells.mtime_ns(time(&attributes.mtime, counters));
    cells.ctime_ns(time(&attributes.ctime, counters));
}

fn before(wcc: &v3::Wcc<'_>, cells: &mut impl NfsCells, counters: &mut Counters) {
    if let Optional::Present(before) = &wcc.before {
        cells.before_size(before.size.map(u64::cast_signed));
        cells.before_mtime_ns(time(&before.mtime, counters));
        cells.before_ctime_ns(time(&before.ctime, counters));
    }
}

fn directory(wcc: &v3::Wcc<'_>, cells: &mut impl NfsCells, counters: &mut Counters) {
    if let Optional::Present(before) = &wcc.before {
        cells.directory_before_size(before.size.map(u64::cast_signed));
        cells.directory_before_mtime_ns(time(&before.mtime, counters));
        cells.directory_before_ctime_ns(time(&before.ctime, counters));
    }
    if let Optional::Present(after) = &wcc.after {
        directory_after(after, cells, counters);
    }
}

fn directory_after(
    after: &InPlace<'_, v3::Attributes>,
    cells: &mut impl NfsCells,
    counters: &mut Counters,
) {
    after.with(|after| {
        cells.directory_size(after.size.map(u64::cast_signed));
        cells.directory_mode(after.mode.map(i64::from));
        cells.directory_links(after.link_count.map(i64::from));
        cells.directory_fileid(after.fileid.map(u64::cast_signed));
        cells.directory_mtime_ns(time(&after.mtime, counters));
        cells.directory_ctime_ns(time(&after.ctime, counters));
    });
}

fn directory2(wcc: &v3::Wcc<'_>, cells: &mut impl NfsCells, counters: &mut Counters) {
    if let Optional::Present(before) = &wcc.before {
        cells.directory2_before_mtime_ns(time(&before.mtime, counters));
    }
    if let Optional::Present(after) = &wcc.after {
        after.with(|after| {
            cells.directory2_fileid(after.fileid.map(u64::cast_signed));
            cells.directory2_mtime_ns(time(&after.mtime, counters));
        });
    }
}
