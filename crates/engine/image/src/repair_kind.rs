//! Kinds of repairs.

use serde::Serialize;

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
