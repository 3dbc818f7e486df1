//! What an image has that no call showed.

use serde::Serialize;

use crate::Kind;
use crate::attributes::{GID, KIND, MODE, MTIME, SIZE, UID};
use crate::entries::{Entry, Image};

/// Why an entry is not, or may not be, as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RepairKind {
    /// No call shows its name: it is named by `file_id`, or by the operation that showed it.
    Name,
    /// A file cannot have its name here: it has another one.
    NameReplaced,
    /// Nothing shows what it is: it is a file, or a directory where it has names in it.
    Type,
    /// Permission bits were not seen, or only after they were changed.
    Mode,
    /// Owner or group were not seen, or only after they were changed, or have a name alone.
    Owner,
    /// Its size was not seen, or only after it was changed.
    Size,
    /// What the symbolic link holds was not seen.
    Target,
    /// The time of its last change was not seen, or only after it was changed.
    Time,
    /// What the writer of the image could not make as it was.
    NotMade,
}

impl RepairKind {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 9] = [
        Self::Name,
        Self::NameReplaced,
        Self::Type,
        Self::Mode,
        Self::Owner,
        Self::Size,
        Self::Target,
        Self::Time,
        Self::NotMade,
    ];

    /// The word that the table has for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::NameReplaced => "name_replaced",
            Self::Type => "type",
            Self::Mode => "mode",
            Self::Owner => "owner",
            Self::Size => "size",
            Self::Target => "target",
            Self::Time => "time",
            Self::NotMade => "not_made",
        }
    }
}

/// A repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repair {
    /// What was repaired.
    pub kind: RepairKind,
    /// The entry: its place in the image.
    pub entry: u32,
    /// It has a value that was seen, but after a call had changed it.
    pub is_guess: bool,
}

impl Image {
    /// All repairs of an entry.
    pub fn repairs_of(&self, at: u32) -> impl Iterator<Item = Repair> {
        let entry = self.entry(at);
        let repair = move |kind, is_guess| Repair {
            kind,
            entry: at,
            is_guess,
        };
        let name = entry.name_repair.map(|kind| repair(kind, false));
        // Another name of the same file has them.
        let attributes = match entry.link_of {
            Some(_) => Vec::new(),
            None => attribute_repairs(&entry),
        };
        let attributes = attributes.into_iter();
        name.into_iter()
            .chain(attributes.map(move |(kind, is_guess)| repair(kind, is_guess)))
    }
}

fn attribute_repairs(entry: &Entry<'_>) -> Vec<(RepairKind, bool)> {
    // What the image adds, was nowhere.
    if entry.is_added {
        return Vec::new();
    }
    let bits = |kind: Kind| match kind {
        Kind::File => &[
            (RepairKind::Type, KIND),
            (RepairKind::Mode, MODE),
            (RepairKind::Owner, UID | GID),
            (RepairKind::Size, SIZE),
            (RepairKind::Time, MTIME),
        ][..],
        Kind::Link => &[(RepairKind::Owner, UID | GID)],
        _ => &[
            (RepairKind::Type, KIND),
            (RepairKind::Mode, MODE),
            (RepairKind::Owner, UID | GID),
            (RepairKind::Time, MTIME),
        ],
    };
    let mut repairs = Vec::new();
    for &(kind, bit) in bits(entry.kind) {
        // What an operation is for, a directory, a link, is no guess.
        let is_certain = kind == RepairKind::Type && entry.has_kind;
        if entry.known & bit != bit && !is_certain {
            repairs.push((kind, (entry.known | entry.guessed) & bit == bit));
        }
    }
    if entry.kind == Kind::Link && entry.target.is_none() {
        repairs.push((RepairKind::Target, false));
    }
    repairs
}
