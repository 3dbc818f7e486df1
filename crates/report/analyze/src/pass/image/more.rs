//! What tables `nfs` and `nfs4` have of rows.

use lineside_image::{Creation, Kind};
use lineside_trace::read::{Column, ReadError};

use super::rows::Kept;
use crate::read::columns::{Flags, Integers, Texts};
use crate::read::parts_by_id::PartsById;
use crate::read::trace::Trace;

const OF_NFS: [&str; 25] = [
    "operation_id",
    "create_mode",
    "set_mode",
    "set_uid",
    "set_gid",
    "set_size",
    "set_mtime_how",
    "node_type",
    "symlink_target",
    "eof",
    "mode",
    "links",
    "owner_id",
    "owner_group_id",
    "rdev_major",
    "rdev_minor",
    "mtime_ns",
    "ctime_ns",
    "before_size",
    "before_mtime_ns",
    "directory_before_mtime_ns",
    "directory_mode",
    "directory_mtime_ns",
    "device_major",
    "device_minor",
];

const OF_NFS4: [&str; 5] = [
    "operation_id",
    "owner_name",
    "owner_group_name",
    "directory_change_before",
    "directory_change",
];

/// Rows of a part, in the order of their ids.
pub(super) fn find(rows: &mut [Kept], id: i64) -> Option<&mut Kept> {
    let at = rows.binary_search_by_key(&id, |row| row.id).ok()?;
    rows.get_mut(at)
}

fn number(value: Option<i64>) -> Option<u32> {
    value.and_then(|value| u32::try_from(value).ok())
}

/// Gives rows what a batch of `nfs` has of them.
pub(super) fn of_nfs(batch: &[Column], rows: &mut [Kept]) -> Result<(), ReadError> {
    let integers = |at: usize| Integers::of(OF_NFS[at], &batch[at]);
    let texts = |at: usize| Texts::of(OF_NFS[at], &batch[at]);
    let (ids, create_mode) = (integers(0)?, texts(1)?);
    let set = [integers(2)?, integers(3)?, integers(4)?, integers(5)?];
    let (set_mtime, node_type, target) = (texts(6)?, texts(7)?, texts(8)?);
    let end = Flags::of(OF_NFS[9], &batch[9])?;
    let (mode, links, uid, gid) = (integers(10)?, integers(11)?, integers(12)?, integers(13)?);
    let device = [integers(14)?, integers(15)?];
    let (mtime, ctime) = (integers(16)?, integers(17)?);
    let (before_size, before_mtime) = (integers(18)?, integers(19)?);
    let directory = [integers(20)?, integers(21)?, integers(22)?];
    let made_device = [integers(23)?, integers(24)?];
    for at in 0..batch[0].len() {
        let Some(row) = ids.get(at).and_then(|id| find(rows, id)) else {
            continue;
        };
        let pair = |of: &[Integers<'_>; 2]| number(of[0].get(at)).zip(number(of[1].get(at)));
        row.mode = number(mode.get(at)).unwrap_or(row.mode);
        row.uid = number(uid.get(at)).unwrap_or(row.uid);
        row.gid = number(gid.get(at)).unwrap_or(row.gid);
        row.mtime_ns = mtime.get(at).unwrap_or(row.mtime_ns);
        row.ctime_ns = ctime.get(at).unwrap_or(row.ctime_ns);
        row.is_linked = links.get(at).is_some_and(|links| links > 1);
        row.is_end = end.get(at);
        let is_device = matches!(row.kind, Some(Kind::BlockDevice | Kind::CharacterDevice));
        let sets = set.iter().any(|of| of.get(at).is_some());
        let sets_mtime = { set_mtime.get(at) }.is_some_and(|how| how != "DONT_CHANGE");
        let has_before = before_size.get(at).is_some() || before_mtime.get(at).is_some();
        let has_directory = directory.iter().any(|of| of.get(at).is_some());
        let makes = create_mode.get(at).is_some() || node_type.get(at).is_some();
        let others = [
            target.get(at).is_some(),
            is_device,
            sets,
            sets_mtime,
            has_before,
        ];
        if !others.contains(&true) && !has_directory && !makes {
            continue;
        }
        let more = row.more();
        more.creation = Creation::of(create_mode.get(at));
        more.made_kind = node_type.get(at).and_then(Kind::of);
        more.target = target.get(at).map(Box::from);
        more.device = pair(&device)
            .filter(|_| is_device)
            .or_else(|| pair(&made_device));
        more.before_size = before_size.get(at).map(i64::cast_unsigned);
        more.before_mtime_ns = before_mtime.get(at);
        more.directory.before_mtime_ns = directory[0].get(at);
        more.directory.mode = number(directory[1].get(at));
        more.directory.mtime_ns = directory[2].get(at);
        more.set.mode = set[0].get(at).is_some();
        more.set.uid = set[1].get(at).is_some();
        more.set.gid = set[2].get(at).is_some();
        more.set.size = set[3].get(at).map(i64::cast_unsigned);
        more.set.mtime = sets_mtime;
    }
    Ok(())
}

/// The same of `nfs4`.
pub(super) fn of_nfs4(batch: &[Column], rows: &mut [Kept]) -> Result<(), ReadError> {
    let integers = |at: usize| Integers::of(OF_NFS4[at], &batch[at]);
    let texts = |at: usize| Texts::of(OF_NFS4[at], &batch[at]);
    let ids = integers(0)?;
    let (owner, group) = (texts(1)?, texts(2)?);
    let (before, after) = (integers(3)?, integers(4)?);
    for at in 0..batch[0].len() {
        let Some(row) = ids.get(at).and_then(|id| find(rows, id)) else {
            continue;
        };
        row.uid = owner.get(at).and_then(owner_number).unwrap_or(row.uid);
        row.gid = group.get(at).and_then(owner_number).unwrap_or(row.gid);
        if let Some(changes) = before.get(at).zip(after.get(at)) {
            row.more().directory.changes = Some(changes);
        }
    }
    Ok(())
}

/// The number of an owner as NFSv4 names it: a number, or one of the names that all hosts have.
fn owner_number(owner: &str) -> Option<u32> {
    let name = owner.split('@').next().unwrap_or_default();
    match name {
        "root" => Some(0),
        "nobody" | "nfsnobody" => Some(65_534),
        _ => name
            .parse()
            .ok()
            .filter(|_| name.bytes().all(|byte| byte.is_ascii_digit())),
    }
}

pub(super) fn add_to(trace: &mut Trace, nfs: &PartsById, nfs4: &PartsById, rows: &mut [Kept]) {
    let Some((first, last)) = rows.first().zip(rows.last()) else {
        return;
    };
    let ids = (first.id, last.id);
    nfs.near(trace, ids, &OF_NFS, |batch| of_nfs(batch, rows));
    if rows.iter().any(|row| row.is_of_compound) {
        nfs4.near(trace, ids, &OF_NFS4, |batch| of_nfs4(batch, rows));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_of_nfsv4_are_numbers_where_they_can() {
        assert_eq!(owner_number("root@example.org"), Some(0));
        assert_eq!(owner_number("1000"), Some(1000));
        assert_eq!(owner_number("1000@example.org"), Some(1000));
        assert_eq!(owner_number("nobody"), Some(65_534));
        for name in ["alice@example.org", "", "@", "+5", "99999999999"] {
            assert_eq!(owner_number(name), None, "{name}");
        }
    }
}
