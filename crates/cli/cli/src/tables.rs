//! A folder of tables that a verb leaves beside a trace: a folder of Parquet files each, and a JSON
//! document, which is written last.

use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use lineside_host::{make_folders, own};
use lineside_trace::{GivenCell, GivenColumn, GivenKind, GivenPart, GivenTable};

/// What such a folder holds.
#[derive(Debug)]
pub(crate) struct Kind {
    /// What a user calls it.
    pub(crate) name: &'static str,
    pub(crate) tables: &'static [&'static str],
    /// The document.
    pub(crate) facts: &'static str,
    /// What else can be done where there is one already.
    pub(crate) instead: &'static str,
}

/// A folder that tables are left in.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    kind: &'static Kind,
}

impl Folder {
    /// A new folder, or an empty one. With `force` also one that holds such tables and
    /// nothing else.
    pub(crate) fn make(path: &Path, kind: &'static Kind, force: bool) -> anyhow::Result<Self> {
        let name = path.display();
        make_folders(path).with_context(|| format!("{name}: cannot make it"))?;
        let files = files_of(path, kind).with_context(|| format!("{name}: cannot be read"))?;
        if !files.is_empty() && !force {
            bail!("{name} exists already: {}", kind.instead);
        }
        if let Some(foreign) = files.iter().find(|file| !is_of(kind, path, file)) {
            bail!(
                "{}: it is no part of a {}, so --force does not replace {name}: give another folder",
                foreign.display(),
                kind.name
            );
        }
        for file in files {
            fs::remove_file(&file)
                .with_context(|| format!("{}: cannot remove it", file.display()))?;
        }
        for table in kind.tables {
            let table = path.join(table);
            make_folders(&table).with_context(|| format!("{}: cannot make it", table.display()))?;
        }
        Ok(Self {
            path: path.to_owned(),
            kind,
        })
    }

    /// A folder that holds more than its tables, which replace those of before.
    pub(crate) fn within(path: &Path, kind: &'static Kind) -> anyhow::Result<Self> {
        for table in kind.tables {
            let table = path.join(table);
            let made = make_folders(&table);
            made.with_context(|| format!("{}: cannot make it", table.display()))?;
        }
        Ok(Self {
            path: path.to_owned(),
            kind,
        })
    }

    /// Leaves an empty folder where it was made in vain: the sandbox keeps what is beside it.
    pub(crate) fn empty(&self) {
        for table in self.kind.tables {
            let _ = fs::remove_dir(self.path.join(table));
        }
    }

    /// Writes the document: from then on it is whole.
    pub(crate) fn describe(&self, json: &str) -> anyhow::Result<()> {
        self.put("", self.kind.facts, &[json.as_bytes()])
    }

    /// Writes a part of a table, if there is one.
    pub(crate) fn keep(&self, table: &str, part: Option<GivenPart>) -> anyhow::Result<()> {
        part.map_or(Ok(()), |part| self.put(table, &part.file, &part.pieces))
    }

    /// Writes a file under another name first, so that a reader sees it whole.
    fn put(&self, table: &str, name: &str, pieces: &[impl AsRef<[u8]>]) -> anyhow::Result<()> {
        let folder = self.path.join(table);
        let (open, done) = (folder.join(format!(".{name}.tmp")), folder.join(name));
        let write = || {
            let mut file = fs::File::create(&open)?;
            own(file.as_fd());
            pieces
                .iter()
                .try_for_each(|piece| file.write_all(piece.as_ref()))?;
            fs::rename(&open, &done)
        };
        write().with_context(|| format!("{}: cannot write it", done.display()))
    }
}

/// The files of a folder and of those in it.
fn files_of(folder: &Path, kind: &Kind) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, is_folder) = (entry.path(), entry.file_type()?.is_dir());
        match is_folder && kind.tables.iter().any(|table| path == folder.join(table)) {
            true => {
                for entry in fs::read_dir(&path)? {
                    files.push(entry?.path());
                }
            }
            false => files.push(path),
        }
    }
    Ok(files)
}

fn is_of(kind: &Kind, folder: &Path, file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name = name.trim_start_matches('.').trim_end_matches(".tmp");
    let is_file = fs::symlink_metadata(file).is_ok_and(|facts| facts.is_file());
    is_file
        && match file.parent() == Some(folder) {
            true => name == kind.facts,
            false => name.starts_with("part-") && name.ends_with(".parquet"),
        }
}

/// A table of these columns.
pub(crate) fn table(columns: &[(&str, GivenKind)]) -> GivenTable {
    let column = |&(name, kind): &(&str, GivenKind)| GivenColumn {
        name: name.to_owned(),
        kind,
    };
    GivenTable::new(columns.iter().map(column).collect(), "")
}

/// Adds a row; a part, if that fills one.
pub(crate) fn push(
    table: &mut GivenTable,
    cells: &[GivenCell<'_>],
) -> std::io::Result<Option<GivenPart>> {
    for (at, cell) in cells.iter().enumerate() {
        table.push(at, *cell)?;
    }
    table.advance(1)
}
