//! The folder of a run that is over or was killed, as the next one finds it. It belonged to another
//! user: nothing in it is reached by a path, and no link is followed.

use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

use crate::folder::{FolderError, temporary_name};

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW);

/// The folder of a run that nobody writes. It is locked: until this is dropped nobody does.
#[derive(Debug)]
pub struct DeadRun {
    path: PathBuf,
    folder: File,
}

/// An entry of a folder, by the kind that it has itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// A folder, and no link to one.
    pub is_folder: bool,
    /// Its bytes, if it is a file.
    pub bytes: u64,
    /// When it was last written, nanoseconds since the Unix epoch.
    pub written_ns: i64,
}

impl DeadRun {
    /// Opens the folder; `None` if a run writes it.
    pub fn open(path: &Path) -> Result<Option<Self>, FolderError> {
        Self::locked(path, File::try_lock)
    }

    /// As [`open`](Self::open), of a run that is over: whoever looks whether it goes on meanwhile
    /// finds that it does not.
    pub fn open_over(path: &Path) -> Result<Option<Self>, FolderError> {
        Self::locked(path, File::try_lock_shared)
    }

    fn locked(
        path: &Path,
        lock: impl Fn(&File) -> Result<(), TryLockError>,
    ) -> Result<Option<Self>, FolderError> {
        let folder = rustix::fs::open(path, FOLDER, Mode::empty());
        let folder =
            folder.map_err(|error| FolderError::io(path, "open the folder", error.into()))?;
        let folder = File::from(folder);
        let is_free = !matches!(lock(&folder), Err(TryLockError::WouldBlock));
        let path = path.to_owned();
        Ok(is_free.then_some(Self { path, folder }))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is in the folder, or in one of its folders, in the order of names.
    pub fn entries(&self, below: Option<&str>) -> Result<Vec<Entry>, FolderError> {
        let read = || -> io::Result<Vec<Entry>> {
            let folder = self.below(below)?;
            let mut found = Vec::new();
            for entry in Dir::read_from(&folder)? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                if name == "." || name == ".." {
                    continue;
                }
                let facts =
                    rustix::fs::statat(&folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
                let seconds = facts.st_mtime.saturating_mul(1_000_000_000);
                found.push(Entry {
                    name,
                    is_folder: FileType::from_raw_mode(facts.st_mode).is_dir(),
                    bytes: facts.st_size.unsigned_abs(),
                    written_ns: seconds.saturating_add(facts.st_mtime_nsec as i64),
                });
            }
            found.sort_by(|one, other| one.name.cmp(&other.name));
            Ok(found)
        };
        read().map_err(|error| self.error(below, "read the folder", error))
    }

    /// Opens a file of the folder, or of one of its folders. Anything else is an error, a link too.
    pub fn open_file(&self, below: Option<&str>, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = rustix::fs::openat(self.below(below)?, name, flags, Mode::empty())?;
        let file = File::from(file);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("it is no file")),
        }
    }

    /// Removes a file, or a link.
    pub fn remove(&self, below: Option<&str>, name: &str) -> Result<(), FolderError> {
        let removed = { self.below(below) }
            .and_then(|folder| Ok(rustix::fs::unlinkat(folder, name, AtFlags::empty())?));
        removed.map_err(|error| self.error(below, "remove the file", error))
    }

    /// Removes a folder, and the files in it.
    pub fn remove_folder(&self, name: &str) -> Result<(), FolderError> {
        for entry in self.entries(Some(name))? {
            self.remove(Some(name), &entry.name)?;
        }
        let removed = rustix::fs::unlinkat(&self.folder, name, AtFlags::REMOVEDIR);
        removed.map_err(|error| self.error(Some(name), "remove the folder", error.into()))
    }

    /// Removes a folder in which there is nothing.
    pub fn remove_empty_folder(&self, name: &str) {
        // Fails if anything is in it.
        let _ = rustix::fs::unlinkat(&self.folder, name, AtFlags::REMOVEDIR);
    }

    /// Gives a file another name, which nothing has.
    pub fn rename(&self, below: &str, from: &str, to: &str) -> Result<(), FolderError> {
        let renamed = self.below(Some(below)).and_then(|folder| {
            let flags = rustix::fs::RenameFlags::NOREPLACE;
            rustix::fs::renameat_with(&folder, from, &folder, to, flags)?;
            File::from(folder).sync_all()
        });
        renamed.map_err(|error| self.error(Some(below), "rename the file", error))
    }

    /// Writes a file in place of an older one, and has it on the disk. It belongs to the owner of
    /// the folder.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), FolderError> {
        let temporary = temporary_name(name);
        let write = || -> io::Result<()> {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(0o666);
            let opened = rustix::fs::openat(&self.folder, &*temporary, flags, mode)?;
            let mut file = File::from(opened);
            file.write_all(bytes)?;
            let owner = self.folder.metadata()?;
            // Who may not give it away owns it, as it owns the folder.
            let _ = std::os::unix::fs::fchown(&file, Some(owner.uid()), Some(owner.gid()));
            file.sync_all()?;
            rustix::fs::renameat(&self.folder, &*temporary, &self.folder, name)?;
            self.folder.sync_all()
        };
        write().map_err(|error| {
            let _ = rustix::fs::unlinkat(&self.folder, &*temporary, AtFlags::empty());
            FolderError::io(&self.path.join(name), "write the file", error)
        })
    }

    fn below(&self, below: Option<&str>) -> io::Result<rustix::fd::OwnedFd> {
        let name = below.unwrap_or(".");
        Ok(rustix::fs::openat(
            &self.folder,
            name,
            FOLDER,
            Mode::empty(),
        )?)
    }

    fn error(&self, below: Option<&str>, action: &'static str, error: io::Error) -> FolderError {
        let path = below.map_or_else(|| self.path.clone(), |below| self.path.join(below));
        FolderError::io(&path, action, error)
    }
}
