//! What an image has that no call showed.

use crate::attributes::{GID, KIND, MODE, MTIME, SIZE, UID};
use crate::entries::{Entry, Image};
use crate::kind::Kind;
use crate::repair_kind::RepairKind;

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
