//! Putting one part in the place of several, so that whoever lists a table's folder finds either
//! all of them or the one.
//!
//! A hidden folder gets the new part, and a link to each part that stays; then it and the table's
//! folder exchange their names, in one step (`RENAME_EXCHANGE` of renameat2(2)). A reader that has
//! listed the folder before finds that a part is gone, and lists it again; it never finds rows
//! twice, since no name is ever given again. The folder of before stays a while under the hidden
//! name: a reader that is still listing it is to see all of it.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use lineside_host::{FolderError, temporary_name};
use rustix::fs::{AtFlags, Mode, RenameFlags, linkat};
use rustix::io::Errno;

use crate::folder::{RunFolder, again};

/// Why parts were not replaced. Nothing has changed then.
#[derive(Debug)]
pub(crate) enum NotReplaced {
    /// The file system cannot exchange two folders, or has no hard links.
    Unable(io::Error),
    /// Another error.
    Failed(FolderError),
}

impl From<FolderError> for NotReplaced {
    fn from(error: FolderError) -> Self {
        Self::Failed(error)
    }
}

impl RunFolder {
    /// Puts `file` in the place of the parts `replaced` of a table. The folder of before has its
    /// hidden name until [`drop_replaced`](Self::drop_replaced).
    pub(crate) fn replace_parts<P: AsRef<[u8]>>(
        &self,
        table: &str,
        file: &str,
        pieces: &[P],
        replaced: &[String],
    ) -> Result<(), NotReplaced> {
        let hidden = temporary_name(table);
        self.drop_replaced(table);
        rustix::fs::mkdirat(self.file(), &hidden, Mode::from_raw_mode(0o777))
            .map_err(|error| self.cannot(&hidden, "create the folder", error))?;
        let done = self.exchange(table, &hidden, file, pieces, replaced);
        if done.is_err() {
            self.drop_replaced(table);
        }
        done
    }

    fn exchange<P: AsRef<[u8]>>(
        &self,
        table: &str,
        hidden: &str,
        file: &str,
        pieces: &[P],
        replaced: &[String],
    ) -> Result<(), NotReplaced> {
        self.write(&[(Path::new(hidden).join(file), pieces)])?;
        let (from, to) = (self.place().child(table)?, self.place().child(hidden)?);
        for name in from.names()? {
            if name.starts_with('.') || replaced.contains(&name) {
                continue;
            }
            let linked = linkat(from.file(), &name, to.file(), &name, AtFlags::empty());
            linked.map_err(|error| self.unable(&to.path().join(&name), "link the file", error))?;
        }
        self.sync_table(hidden)?;
        let flags = RenameFlags::EXCHANGE;
        let renamed = rustix::fs::renameat_with(self.file(), hidden, self.file(), table, flags);
        renamed
            .map_err(|error| self.unable(&self.path().join(table), "exchange the folder", error))?;
        // What it was replaced by outlives a loss of power before the parts are gone.
        self.sync()?;
        Ok(())
    }

    /// Removes the folder that a table had before parts were replaced, if there is one.
    pub(crate) fn drop_replaced(&self, table: &str) {
        let hidden = temporary_name(table);
        // What cannot be removed is hidden, and is tried again the next time.
        let _ = self.place().remove_folder(&hidden);
    }

    /// Removes a part.
    pub(crate) fn remove_part(&self, table: &str, file: &str) -> Result<(), FolderError> {
        match self
            .place()
            .child(table)
            .and_then(|table| table.remove(file))
        {
            // Somebody else was faster: it is gone, which is what was asked for.
            Err(FolderError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Opens a part for reading.
    pub(crate) fn open_part(&self, table: &str, file: &str) -> io::Result<std::fs::File> {
        let table = self.place().child(table).map_err(io::Error::other)?;
        table.open_file(file)
    }

    /// Once this returns, names that files of a table were given outlive a loss of power.
    pub(crate) fn sync_table(&self, table: &str) -> Result<(), FolderError> {
        let synced = { self.place().child(table) }.and_then(|folder| {
            let synced = folder.file().sync_all();
            synced.map_err(|error| FolderError::io(folder.path(), "write the folder", error))
        });
        synced.map_err(|error| self.of_table(table, "write the folder", error))
    }

    /// The first of these parts of a table that is not there.
    pub(crate) fn find_missing(&self, table: &str, parts: &[&str]) -> Option<PathBuf> {
        let first = parts.first()?;
        let path = PathBuf::from(table);
        match self.place().child(table).and_then(|folder| folder.names()) {
            Ok(names) => {
                let names: BTreeSet<_> = names.iter().map(String::as_str).collect();
                let missing = parts.iter().find(|part| !names.contains(*part));
                missing.map(|part| path.join(part))
            }
            Err(_) if !self.has_table(table) => Some(path),
            Err(_) => Some(path.join(first)),
        }
    }

    fn cannot(&self, name: &str, action: &'static str, error: Errno) -> NotReplaced {
        let path: PathBuf = self.path().join(name);
        NotReplaced::Failed(FolderError::io(&path, action, error.into()))
    }

    fn of_table(&self, table: &str, action: &'static str, error: FolderError) -> FolderError {
        match error {
            FolderError::Io { error, .. } => self.failed(Path::new(table), action, again(&error)),
            error => error,
        }
    }

    fn unable(&self, path: &Path, action: &'static str, error: Errno) -> NotReplaced {
        match error {
            Errno::INVAL
            | Errno::NOSYS
            | Errno::OPNOTSUPP
            | Errno::PERM
            | Errno::MLINK
            | Errno::XDEV => NotReplaced::Unable(error.into()),
            _ => NotReplaced::Failed(FolderError::io(path, action, error.into())),
        }
    }
}
