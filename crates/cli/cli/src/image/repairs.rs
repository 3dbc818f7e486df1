//! Table `repairs`: a row for each.

use lineside_image::{Image, RepairKind};
use lineside_rows::escape;
use lineside_trace::{GivenCell, GivenKind, GivenTable};

use crate::tables::{Folder, Kind, push, table};

const COLUMNS: [(&str, GivenKind); 6] = [
    ("path", GivenKind::Text),
    ("file_id", GivenKind::Integer),
    ("operation_id", GivenKind::Integer),
    ("kind", GivenKind::Text),
    ("is_guess", GivenKind::Boolean),
    ("what", GivenKind::Text),
];
const TABLE: &str = "repairs";
/// The folder of repairs.
pub(super) const REPAIRS: Kind = Kind {
    name: "table of repairs",
    tables: &[TABLE],
    facts: "image.json",
    instead: "give another folder for --repairs",
};

/// Takes repairs, and writes them if they have a folder.
pub(super) struct Table<'a> {
    folder: Option<&'a Folder>,
    table: GivenTable,
}

impl<'a> Table<'a> {
    pub(super) fn new(folder: Option<&'a Folder>) -> Self {
        Self {
            folder,
            table: table(&COLUMNS),
        }
    }

    pub(super) fn push(
        &mut self,
        image: &Image,
        at: u32,
        (kind, is_guess, what): (RepairKind, bool, &str),
    ) -> anyhow::Result<()> {
        let Some(folder) = self.folder else {
            return Ok(());
        };
        let entry = image.entry(at);
        let mut path = Vec::new();
        escape(&image.path(at), &mut path);
        let text = |text: &'static str| GivenCell::Bytes(text.as_bytes());
        let cells = [
            GivenCell::Bytes(&path),
            entry.file.map_or(GivenCell::Null, GivenCell::Integer),
            GivenCell::Integer(entry.id),
            text(kind.name()),
            GivenCell::Boolean(is_guess),
            GivenCell::Bytes(what.as_bytes()),
        ];
        folder.keep(TABLE, push(&mut self.table, &cells)?)
    }

    /// Writes the last part.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let last = self.table.finish()?.0;
        self.folder
            .map_or(Ok(()), |folder| folder.keep(TABLE, last))
    }
}
