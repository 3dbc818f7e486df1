//! Table `repairs`: a row for each, and `image.json`, which is written last.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use lineside_image::{Image, RepairKind, text_of};
use lineside_trace::{GivenCell, GivenColumn, GivenKind, GivenTable};

const COLUMNS: [(&str, GivenKind); 6] = [
    ("path", GivenKind::Text),
    ("file_id", GivenKind::Integer),
    ("operation_id", GivenKind::Integer),
    ("kind", GivenKind::Text),
    ("is_guess", GivenKind::Boolean),
    ("what", GivenKind::Text),
];
const TABLE: &str = "repairs";
const FACTS: &str = "image.json";

/// The folder of the table.
pub(super) struct Folder(PathBuf);

impl Folder {
    /// A new folder, or an empty one.
    pub(super) fn make(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        fs::create_dir_all(path).with_context(|| format!("{name}: cannot make it"))?;
        let mut entries = fs::read_dir(path).with_context(|| format!("{name}: cannot be read"))?;
        if entries.next().is_some() {
            bail!("{name} exists already: give another folder for --repairs");
        }
        let table = path.join(TABLE);
        fs::create_dir(&table).with_context(|| format!("{}: cannot make it", table.display()))?;
        Ok(Self(path.to_owned()))
    }

    /// Leaves an empty folder where it was made in vain.
    pub(super) fn empty(&self) {
        let _ = fs::remove_dir(self.0.join(TABLE));
    }

    fn put(&self, name: &Path, pieces: &[impl AsRef<[u8]>]) -> anyhow::Result<()> {
        let path = self.0.join(name);
        let write = || {
            let mut file = fs::File::create_new(&path)?;
            { pieces.iter() }.try_for_each(|piece| file.write_all(piece.as_ref()))
        };
        write().with_context(|| format!("{}: cannot write it", path.display()))
    }

    /// Writes what the image is: from then on it is whole.
    pub(super) fn describe(&self, json: &str) -> anyhow::Result<()> {
        self.put(Path::new(FACTS), &[json.as_bytes()])
    }
}

/// Takes repairs, and writes them if they have a folder.
pub(super) struct Table<'a> {
    folder: Option<&'a Folder>,
    table: GivenTable,
}

impl<'a> Table<'a> {
    pub(super) fn new(folder: Option<&'a Folder>) -> Self {
        let column = |&(name, kind): &(&str, GivenKind)| GivenColumn {
            name: name.to_owned(),
            kind,
        };
        let table = GivenTable::new(COLUMNS.iter().map(column).collect(), "");
        Self { folder, table }
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
        let path = text_of(&image.path(at));
        let text = |text: &'static str| GivenCell::Bytes(text.as_bytes());
        let cells = [
            GivenCell::Bytes(path.as_bytes()),
            entry.file.map_or(GivenCell::Null, GivenCell::Integer),
            GivenCell::Integer(entry.id),
            text(kind.name()),
            GivenCell::Boolean(is_guess),
            GivenCell::Bytes(what.as_bytes()),
        ];
        for (column, cell) in cells.iter().enumerate() {
            self.table.push(column, *cell)?;
        }
        match self.table.advance(1)? {
            Some(part) => folder.put(&Path::new(TABLE).join(&part.file), &part.pieces),
            None => Ok(()),
        }
    }

    /// Writes the last part.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let Some(folder) = self.folder else {
            return Ok(());
        };
        let (part, _) = self.table.finish()?;
        part.map_or(Ok(()), |part| {
            folder.put(&Path::new(TABLE).join(&part.file), &part.pieces)
        })
    }
}
