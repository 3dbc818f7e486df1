//! Names that READDIRPLUS and READDIR listed: they stand in `files` alone.

use lineside_image::{Action, Kind};

use super::more::find;
use super::rows::{Kept, Listed};
use crate::read::columns::{Integers, Texts};
use crate::read::parts_by_id::PartsById;
use crate::read::trace::Trace;

const COLUMNS: [&str; 6] = [
    "file_id",
    "operation_id",
    "parent_file_id",
    "name",
    "file_type",
    "file_size",
];

/// Gives rows, in the order of their ids, the names that they have listed.
pub(super) fn add_to(trace: &mut Trace, files: &PartsById, rows: &mut [Kept]) {
    let mut lists = rows.iter().filter(|row| row.action == Action::List);
    let first = lists.next().map(|row| row.id);
    let last = lists.next_back().map(|row| row.id).or(first);
    let Some(ids) = first.zip(last) else {
        return;
    };
    files.near(trace, ids, &COLUMNS, |batch| {
        let integers = |at: usize| Integers::of(COLUMNS[at], &batch[at]);
        let (file, id, parent) = (integers(0)?, integers(1)?, integers(2)?);
        let texts = |at: usize| Texts::of(COLUMNS[at], &batch[at]);
        let (name, kind, size) = (texts(3)?, texts(4)?, integers(5)?);
        for at in 0..batch[0].len() {
            let of = id.get(at).and_then(|id| find(rows, id));
            let Some(row) = of.filter(|row| row.action == Action::List) else {
                continue;
            };
            let Some((directory, name)) = parent.get(at).zip(name.get(at)) else {
                continue;
            };
            row.more().listed.push(Listed {
                directory,
                name: name.into(),
                file: file.get(at),
                kind: kind.get(at).and_then(Kind::of),
                size: size.get(at).map(i64::cast_unsigned),
            });
        }
        Ok(())
    });
}
