//! Rows of `operations`, as few bytes as an image needs of them.

use lineside_image::{Action, Attributes, Kind, ListedName, Outcome, PROGRAMS, Row, Tree};
use lineside_trace::read::{Column, ReadError};

use super::left_out::ImageLeftOut;
use crate::read::columns::{Flags, Integers, Lexicon, Shorts, Texts, Words};
use crate::read::in_order::InOrder;

/// The columns that are read, in this order.
pub(super) const COLUMNS: [&str; 25] = [
    "operation_id",
    "rpc_id",
    "call_time_ns",
    "server_address",
    "program",
    "operation",
    "status",
    "rpc_status",
    "file_id",
    "file2_id",
    "result_file_id",
    "name",
    "name2",
    "offset",
    "count",
    "transferred",
    "file_size",
    "file_type",
    "call_missing",
    "reply_missing",
    "data_incomplete",
    "not_executed",
    "repeat",
    "compound_index",
    "version",
];

/// A row. The numbers that most rows have stand here, and `NONE` for null.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) call_ns: i64,
    pub(super) call: i64,
    pub(super) id: i64,
    pub(super) file: i64,
    pub(super) made: i64,
    pub(super) offset: i64,
    pub(super) size: i64,
    pub(super) mtime_ns: i64,
    pub(super) ctime_ns: i64,
    pub(super) bytes: u32,
    pub(super) server: u32,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) action: Action,
    pub(super) outcome: Outcome,
    pub(super) kind: Option<Kind>,
    pub(super) is_of_compound: bool,
    pub(super) is_end: bool,
    pub(super) is_linked: bool,
    pub(super) data_incomplete: bool,
    pub(super) more: Option<Box<More>>,
}

/// What few rows have.
#[derive(Debug, Default)]
pub(super) struct More {
    pub(super) file2: Option<i64>,
    pub(super) name: Option<Box<str>>,
    pub(super) name2: Option<Box<str>>,
    pub(super) target: Option<Box<str>>,
    pub(super) made_kind: Option<Kind>,
    pub(super) creation: lineside_image::Creation,
    pub(super) before_size: Option<u64>,
    pub(super) before_mtime_ns: Option<i64>,
    pub(super) directory: lineside_image::Directory,
    pub(super) set: lineside_image::SetAttributes,
    pub(super) device: Option<(u32, u32)>,
    /// What a READDIR lists.
    pub(super) listed: Vec<Listed>,
}

/// A name that a READDIR lists.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) directory: i64,
    pub(super) name: Box<str>,
    pub(super) file: Option<i64>,
    pub(super) kind: Option<Kind>,
    pub(super) size: Option<u64>,
}

impl Listed {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.name.len() + 16
    }

    pub(super) fn give(&self, id: i64, tree: &mut Tree) {
        tree.listed(&ListedName {
            id,
            directory: self.directory,
            name: &self.name,
            file: self.file,
            kind: self.kind,
            size: self.size,
        });
    }
}

pub(super) const NONE: i64 = i64::MIN;
pub(super) const NO_NUMBER: u32 = u32::MAX;

impl InOrder for Kept {
    fn key(&self) -> (i64, i64, i64) {
        (self.call_ns, self.call, self.id)
    }

    /// Bytes in memory.
    fn weight(&self) -> usize {
        let more = self.more.as_deref().map_or(0, |more| {
            let texts = [&more.name, &more.name2, &more.target];
            let texts = texts.into_iter().flatten().map(|text| text.len() + 16);
            let listed = more.listed.iter().map(Listed::weight);
            size_of::<More>() + 16 + texts.sum::<usize>() + listed.sum::<usize>()
        });
        size_of::<Self>() + more
    }
}

impl Kept {
    pub(super) fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    pub(super) fn row(&self) -> Row<'_> {
        let default = More::default();
        let more = self.more.as_deref();
        let text =
            |text: fn(&More) -> &Option<Box<str>>| more.and_then(|more| text(more).as_deref());
        let (name, name2) = (text(|more| &more.name), text(|more| &more.name2));
        let target = text(|more| &more.target);
        let more = more.unwrap_or(&default);
        let number = |value: u32| (value != NO_NUMBER).then_some(value);
        Row {
            id: self.id,
            call: self.call,
            server: self.server,
            is_of_compound: self.is_of_compound,
            action: self.action,
            outcome: self.outcome,
            file: some(self.file),
            file2: more.file2,
            made: some(self.made),
            name,
            name2,
            offset: some(self.offset).map(i64::cast_unsigned),
            bytes: self.bytes.into(),
            is_end: self.is_end,
            creation: more.creation,
            made_kind: more.made_kind,
            target,
            after: Attributes {
                kind: self.kind,
                mode: number(self.mode),
                uid: number(self.uid),
                gid: number(self.gid),
                size: some(self.size).map(i64::cast_unsigned),
                mtime_ns: some(self.mtime_ns),
                ctime_ns: some(self.ctime_ns),
                links: self.is_linked.then_some(2),
                device: more.device,
            },
            before_size: more.before_size,
            before_mtime_ns: more.before_mtime_ns,
            directory: more.directory,
            set: more.set,
        }
    }
}

pub(super) fn some(value: i64) -> Option<i64> {
    (value != NONE).then_some(value)
}

/// Gives `take` the rows of a batch that matter, and counts those that cannot.
pub(super) fn of_batch(
    batch: &[Column],
    words: &mut Lexicon,
    left_out: &mut ImageLeftOut,
    mut take: impl FnMut(Kept),
) -> Result<(), ReadError> {
    let integers = |at: usize| Integers::of(COLUMNS[at], &batch[at]);
    let (id, call, call_ns) = (integers(0)?, integers(1)?, integers(2)?);
    let servers = Words::of(COLUMNS[3], &batch[3], words)?;
    let texts = |at: usize| Texts::of(COLUMNS[at], &batch[at]);
    let (program, operation) = (texts(4)?, texts(5)?);
    let (status, rpc_status) = (texts(6)?, texts(7)?);
    let (file, file2, made) = (integers(8)?, integers(9)?, integers(10)?);
    let (name, name2) = (texts(11)?, texts(12)?);
    let (offset, count, transferred) = (integers(13)?, integers(14)?, integers(15)?);
    let (size, kind) = (integers(16)?, texts(17)?);
    let flags = |at: usize| Flags::of(COLUMNS[at], &batch[at]);
    let (missing, unanswered) = (flags(18)?, flags(19)?);
    let (incomplete, not_executed, repeat) = (flags(20)?, flags(21)?, flags(22)?);
    let index = Shorts::of(COLUMNS[23], &batch[23])?;
    let version = Shorts::of(COLUMNS[24], &batch[24])?;
    let or_none = |value: Option<i64>| value.unwrap_or(NONE);
    for row in 0..batch[0].len() {
        let is_one = { program.get(row) }.is_some_and(|name| PROGRAMS.contains(&name));
        let of = id.get(row).unwrap_or_default();
        let Some(ns) = call_ns.get(row).filter(|_| !missing.get(row)) else {
            // Of other protocols a response alone is none of ours.
            left_out.calls_not_seen += u64::from(is_one || program.get(row).is_none());
            continue;
        };
        if !is_one || repeat.get(row) || not_executed.get(row) {
            continue;
        }
        let word = operation.get(row).unwrap_or_default();
        let outcome = outcome(status.get(row), rpc_status.get(row));
        left_out.replies_not_seen +=
            u64::from(unanswered.get(row) && index.get(row).is_none_or(|at| at == 0));
        let bytes = match outcome {
            Outcome::NotSeen => count.get(row),
            _ => transferred.get(row),
        };
        take(Kept {
            call_ns: ns,
            call: call.get(row).unwrap_or(of),
            id: of,
            file: or_none(file.get(row)),
            made: or_none(made.get(row)),
            offset: or_none(offset.get(row)),
            size: or_none(size.get(row)),
            mtime_ns: NONE,
            ctime_ns: NONE,
            bytes: u32::try_from(bytes.unwrap_or(0).max(0)).unwrap_or(u32::MAX),
            server: servers.get(row),
            mode: NO_NUMBER,
            uid: NO_NUMBER,
            gid: NO_NUMBER,
            action: action(word, version.get(row)),
            outcome,
            kind: kind.get(row).and_then(Kind::of),
            is_of_compound: index.get(row).is_some(),
            is_end: false,
            is_linked: false,
            data_incomplete: incomplete.get(row),
            more: more(file2.get(row), name.get(row), name2.get(row)),
        });
    }
    Ok(())
}

fn outcome(status: Option<&str>, rpc_status: Option<&str>) -> Outcome {
    match rpc_status.is_some_and(|status| status != "SUCCESS") {
        true => Outcome::Failed,
        false => Outcome::of(status),
    }
}

fn more(file2: Option<i64>, name: Option<&str>, name2: Option<&str>) -> Option<Box<More>> {
    let is_there = file2.is_some() || name.is_some() || name2.is_some();
    is_there.then(|| {
        Box::new(More {
            file2,
            name: name.map(Box::from),
            name2: name2.map(Box::from),
            ..More::default()
        })
    })
}

/// NFSv4's CREATE makes all but files.
fn action(operation: &str, version: Option<i32>) -> Action {
    match (operation, version) {
        ("CREATE", Some(2 | 3)) => Action::Make(Some(Kind::File)),
        ("REMOVE", Some(2 | 3)) => Action::Remove(Some(Kind::File)),
        _ => Action::of(operation),
    }
}
