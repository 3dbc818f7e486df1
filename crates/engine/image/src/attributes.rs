//! Attributes of an object at the start of a trace: the first of each that was seen.

use crate::kind::Kind;
use crate::row::{Attributes, Row, SetAttributes};

/// Attributes, as bits of a set.
pub(crate) const KIND: u8 = 1;
pub(crate) const MODE: u8 = 2;
pub(crate) const UID: u8 = 4;
pub(crate) const GID: u8 = 8;
pub(crate) const SIZE: u8 = 16;
pub(crate) const MTIME: u8 = 32;

/// An object.
#[derive(Debug, Clone, Default)]
pub(crate) struct Node {
    /// Its `file_id`.
    pub(crate) file: Option<i64>,
    /// The first operation that showed it.
    pub(crate) id: i64,
    pub(crate) size: u64,
    pub(crate) mtime_ns: i64,
    pub(crate) target: Option<Box<str>>,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) device: Option<Box<(u32, u32)>>,
    /// Another node is the same object.
    pub(crate) alias: Option<u32>,
    /// The directory that a LOOKUP of `..` found.
    pub(crate) parent: Option<u32>,
    pub(crate) kind: Option<Kind>,
    /// What was seen of it last says that it has one name.
    pub(crate) is_single: bool,
    /// A seen call made it.
    pub(crate) is_made: bool,
    /// A seen call removed its name.
    pub(crate) is_gone: bool,
    /// Its `file_id` is another object's by now.
    pub(crate) is_remade: bool,
    /// A name at the start leads to it.
    pub(crate) is_named: bool,
    /// A MNT or PUTROOTFH leads to it.
    pub(crate) is_root: bool,
    /// Attributes that are as they were at the start.
    pub(crate) known: u8,
    /// Attributes that were first seen after a call had changed them.
    pub(crate) guessed: u8,
    /// Attributes that a seen call changed.
    pub(crate) changed: u8,
}

impl Node {
    /// Attributes that a reply has.
    pub(crate) fn show(&mut self, seen: &Attributes) {
        if self.is_remade {
            return;
        }
        if let Some(kind) = seen.kind {
            self.show_kind(kind);
        }
        if let Some(links) = seen.links.filter(|_| self.kind != Some(Kind::Directory)) {
            self.is_single = links == 1;
        }
        if let Some(mode) = seen.mode.filter(|_| self.takes(MODE)) {
            self.mode = mode & 0o7777;
        }
        if let Some(uid) = seen.uid.filter(|_| self.takes(UID)) {
            self.uid = uid;
        }
        if let Some(gid) = seen.gid.filter(|_| self.takes(GID)) {
            self.gid = gid;
        }
        self.show_size(seen.size);
        self.show_mtime(seen.mtime_ns);
        if let Some(device) = seen.device.filter(|_| self.is_device()) {
            self.device.get_or_insert_with(|| Box::new(device));
        }
    }

    pub(crate) fn show_kind(&mut self, kind: Kind) {
        if !self.is_remade && self.known & KIND == 0 {
            self.kind = Some(kind);
            self.known |= KIND;
        }
    }

    /// What it must be for an operation, unless attributes say otherwise.
    pub(crate) fn guess_kind(&mut self, kind: Kind) {
        if !self.is_remade {
            self.kind.get_or_insert(kind);
        }
    }

    pub(crate) fn show_size(&mut self, size: Option<u64>) {
        let Some(size) = size.filter(|_| self.takes(SIZE)) else {
            return;
        };
        // What READs showed before the change is nearer to the start.
        if self.known & SIZE > 0 || self.size == 0 {
            self.size = size;
        }
    }

    pub(crate) fn show_mtime(&mut self, mtime_ns: Option<i64>) {
        if let Some(mtime_ns) = mtime_ns.filter(|_| self.takes(MTIME)) {
            self.mtime_ns = mtime_ns;
        }
    }

    /// Bytes up to here are in the file, if no seen call wrote them.
    pub(crate) fn show_least(&mut self, end: u64) {
        if self.known & SIZE == 0 && self.changed & SIZE == 0 && !self.is_remade {
            self.size = self.size.max(end);
        }
    }

    /// What was seen of it under another number.
    pub(crate) fn absorb(&mut self, other: &Self) {
        let shown = |bit: u8| (other.known | other.guessed) & bit > 0;
        self.show(&Attributes {
            kind: other.kind.filter(|_| shown(KIND)),
            mode: Some(other.mode).filter(|_| shown(MODE)),
            uid: Some(other.uid).filter(|_| shown(UID)),
            gid: Some(other.gid).filter(|_| shown(GID)),
            size: Some(other.size).filter(|_| shown(SIZE)),
            mtime_ns: Some(other.mtime_ns).filter(|_| shown(MTIME)),
            device: other.device.as_deref().copied(),
            ..Attributes::default()
        });
        if let Some(kind) = other.kind {
            self.guess_kind(kind);
        }
        if self.target.is_none() {
            self.target.clone_from(&other.target);
        }
        self.changed |= other.changed;
        self.is_single |= other.is_single;
        self.is_named |= other.is_named;
        self.is_root |= other.is_root;
        self.is_made |= other.is_made;
        self.parent = self.parent.or(other.parent);
    }

    /// A call sets attributes: what was not seen before cannot be seen afterwards.
    pub(crate) fn set(&mut self, set: &SetAttributes) {
        let bits = [
            (set.mode, MODE),
            (set.uid, UID),
            (set.gid, GID),
            (set.size.is_some(), SIZE | MTIME),
            (set.mtime, MTIME),
        ];
        for (_, bit) in bits.into_iter().filter(|(is_set, _)| *is_set) {
            self.changed |= bit;
        }
    }

    /// A call writes, after which the file has `after` bytes, if its reply says so.
    pub(crate) fn write(&mut self, row: &Row<'_>) {
        self.show_size(row.before_size);
        self.show_mtime(row.before_mtime_ns);
        let end = { row.offset }.map(|offset| offset.saturating_add(row.bytes));
        // A write that ends within the file has not changed its size.
        if row
            .after
            .size
            .zip(end)
            .is_none_or(|(size, end)| end >= size)
        {
            self.changed |= SIZE;
        }
        self.changed |= MTIME;
    }

    /// Whether an attribute that is shown is new.
    fn takes(&mut self, bit: u8) -> bool {
        if self.is_remade || (self.known | self.guessed) & bit > 0 {
            return false;
        }
        match self.changed & bit > 0 {
            true => self.guessed |= bit,
            false => self.known |= bit,
        }
        true
    }

    /// Whether all attributes are known, so that neither calls that show them nor such that change
    /// them matter.
    pub(crate) fn is_settled(&self) -> bool {
        const ALL: u8 = KIND | MODE | UID | GID | SIZE | MTIME;
        let is_whole = self.kind != Some(Kind::Link) || self.target.is_some();
        self.is_remade || self.known == ALL && is_whole && !self.is_device()
    }

    pub(crate) fn is_device(&self) -> bool {
        matches!(self.kind, Some(Kind::BlockDevice | Kind::CharacterDevice))
    }
}
