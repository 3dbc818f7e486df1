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

use rustix::fs::{AtFlags, Dir, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::folder::{FolderError, RunFolder, temporary_name};

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
        for name in self.names(table)? {
            if name.starts_with('.') || replaced.contains(&name) {
                continue;
            }
            let (from, to) = (Path::new(table).join(&name), Path::new(hidden).join(&name));
            let linked = rustix::fs::linkat(self.file(), &from, self.file(), &to, AtFlags::empty());
            linked.map_err(|error| self.unable(&to, "link the file", error))?;
        }
        self.sync_table(hidden)?;
        let flags = RenameFlags::EXCHANGE;
        let renamed = rustix::fs::renameat_with(self.file(), hidden, self.file(), table, flags);
        renamed.map_err(|error| self.unable(Path::new(table), "exchange the folder", error))?;
        // What it was replaced by outlives a loss of power before the parts are gone.
        self.sync()?;
        Ok(())
    }

    /// Removes the folder that a table had before parts were replaced, if there is one.
    pub(crate) fn drop_replaced(&self, table: &str) {
        let hidden = temporary_name(table);
        // What cannot be removed is hidden, and is tried again the next time.
        for name in self.names(&hidden).unwrap_or_default() {
            let path = Path::new(&hidden).join(name);
            let _ = rustix::fs::unlinkat(self.file(), path, AtFlags::empty());
        }
        let _ = rustix::fs::unlinkat(self.file(), &hidden, AtFlags::REMOVEDIR);
    }

    /// Removes a part.
    pub(crate) fn remove_part(&self, table: &str, file: &str) -> Result<(), FolderError> {
        let path = Path::new(table).join(file);
        match rustix::fs::unlinkat(self.file(), &path, AtFlags::empty()) {
            // Somebody else was faster: it is gone, which is what was asked for.
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(FolderError::io(
                &self.path().join(path),
                "remove the file",
                error.into(),
            )),
        }
    }

    /// Opens a part for reading.
    pub(crate) fn open_part(&self, table: &str, file: &str) -> io::Result<std::fs::File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let path = Path::new(table).join(file);
        let opened = rustix::fs::openat(self.file(), path, flags, Mode::empty())?;
        Ok(opened.into())
    }

    /// Once this returns, names that files of a table were given outlive a loss of power.
    pub(crate) fn sync_table(&self, table: &str) -> Result<(), FolderError> {
        let synced = self
            .open_folder(table)
            .and_then(|folder| rustix::fs::fsync(&folder));
        synced.map_err(|error| self.failed(Path::new(table), "write the folder", error.into()))
    }

    fn open_folder(&self, table: &str) -> Result<rustix::fd::OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        rustix::fs::openat(self.file(), table, flags, Mode::empty())
    }

    /// The first of these parts of a table that is not there.
    pub(crate) fn find_missing(&self, table: &str, parts: &[&str]) -> Option<PathBuf> {
        let first = parts.first()?;
        let path = PathBuf::from(table);
        match self.names(table) {
            Ok(names) => {
                let names: BTreeSet<_> = names.iter().map(String::as_str).collect();
                let missing = parts.iter().find(|part| !names.contains(*part));
                missing.map(|part| path.join(part))
            }
            Err(_) if !self.has_table(table) => Some(path),
            Err(_) => Some(path.join(first)),
        }
    }

    /// The names in a table's folder.
    fn names(&self, table: &str) -> Result<Vec<String>, FolderError> {
        let read = || -> Result<Vec<String>, Errno> {
            let mut names = Vec::new();
            for entry in Dir::read_from(self.open_folder(table)?)? {
                let name = entry?.file_name().to_string_lossy().into_owned();
                if name != "." && name != ".." {
                    names.push(name);
                }
            }
            Ok(names)
        };
        read().map_err(|error| {
            FolderError::io(&self.path().join(table), "read the folder", error.into())
        })
    }

    fn cannot(&self, name: &str, action: &'static str, error: Errno) -> NotReplaced {
        let path: PathBuf = self.path().join(name);
        NotReplaced::Failed(FolderError::io(&path, action, error.into()))
    }

    fn unable(&self, path: &Path, action: &'static str, error: Errno) -> NotReplaced {
        match error {
            Errno::INVAL
            | Errno::NOSYS
            | Errno::OPNOTSUPP
            | Errno::PERM
            | Errno::MLINK
            | Errno::XDEV => NotReplaced::Unable(error.into()),
            _ => NotReplaced::Failed(FolderError::io(
                &self.path().join(path),
                action,
                error.into(),
            )),
        }
    }
}
