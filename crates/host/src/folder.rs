//! The folder that a run leaves: creating, locking and replacing it, and files that appear whole
//! under their names. What is in the files is not known here.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::process::{Gid, Uid};

use crate::control::{lock_holder, named};
use crate::give_back::GiveBack;
use crate::shelf::part_indexes;

/// Why a run folder cannot be made or written. Each has the place and the remedy.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The path is taken.
    #[error("{} exists already: choose another folder with -o, or replace the trace in it with \
        --force", path.display())]
    Exists {
        /// The path.
        path: PathBuf,
    },
    /// `--force`, but what is there is not a trace of ours alone.
    #[error("{} is not part of a trace that lineside wrote, so --force deletes nothing there: \
        choose another folder with -o, or remove it yourself", path.display())]
    Foreign {
        /// What does not belong to a trace.
        path: PathBuf,
    },
    /// `--force`, but a run that has not ended writes it.
    #[error("{} is being written by another run{}: end that one first, or choose another folder \
        with -o", path.display(), named(holder))]
    Busy {
        /// The folder.
        path: PathBuf,
        /// The process, if the kernel names it.
        holder: Option<u32>,
    },
    /// Somebody took away what a run writes.
    #[error("{} was removed or replaced while a run wrote into it, and what it held is lost: start \
        the run again, and remove a trace only once its run has ended ('lineside info' says so)",
        path.display())]
    Gone {
        /// The folder of the run, or of a table, or a part.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("{}: cannot {action}: {error}; {}", path.display(), way_out(error))]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The error of the system call.
        error: Arc<io::Error>,
    },
}

impl FolderError {
    /// Whether the disk, or what one may have of it, is full.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io { error, .. } if is_full(error))
    }

    pub(crate) fn io(path: &Path, action: &'static str, error: io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            action,
            error: Arc::new(error),
        }
    }
}

/// Whether a disk, or what one may have of it, is full.
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// What the user may do where the folder of a run cannot be written.
pub fn way_out(error: &io::Error) -> &'static str {
    match error.kind() {
        _ if is_full(error) => "free some space, or write elsewhere with -o",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "write where you may with -o"
        }
        io::ErrorKind::NotFound => "create the folder above it, or write elsewhere with -o",
        _ => "write elsewhere with -o",
    }
}

/// The folder that a run leaves: tables of parts, and `trace.json`.
///
/// A file is complete under its name or not there: it is written under a name that begins with a
/// dot and ends in `.tmp`, which no reader sees, and renamed.
///
/// The folder is opened once: whoever may no longer look its path up still writes into it. Until
/// the last handle is dropped it is locked (flock(2)), and no other run replaces it. A trace that
/// it replaces goes with the first write: a run that cannot begin has replaced nothing. If it was
/// made for the run and nothing was written into it, it goes with the last handle: it would be in
/// the way of the next try.
#[derive(Debug, Clone)]
pub struct RunFolder(Arc<Opened>);

#[derive(Debug)]
struct Opened {
    path: PathBuf,
    folder: File,
    is_new: bool,
    /// Whether something that was written is gone.
    has_lost: AtomicBool,
    /// What is in it, and goes before anything is written.
    replaced: Mutex<TraceFiles>,
    /// The folders of what it replaced. The run uses most of them again; the others go at its end.
    emptied: Mutex<Vec<PathBuf>>,
    /// Gives it back to its owner, once the last handle is dropped.
    back: Mutex<Vec<GiveBack>>,
    /// Folders beside it that are lent and given back too.
    beside: Mutex<Vec<PathBuf>>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        let emptied = self.emptied.get_mut();
        for path in emptied.unwrap_or_else(PoisonError::into_inner) {
            if let Some(name) = path.file_name() {
                // Fails if anything is in it.
                let _ = rustix::fs::unlinkat(&self.folder, name, AtFlags::REMOVEDIR);
            }
        }
        if self.is_new {
            // Fails if anything is in it.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

const MANIFEST: &str = "trace.json";
/// Where a run keeps what the next one takes over: written in turns, so that one is whole.
pub const STATES: [&str; 2] = ["state.0", "state.1"];
/// The socket of [`Control`](crate::Control).
pub(crate) const CONTROL: &str = "control";

/// Bytes of a write(2). Most kernels do not interrupt one: all 10 MiB of a part at once kept the
/// reader of a ring on the same core waiting for 7 ms, as long as a third of the ring lasts.
const WRITE_LEN: usize = 128 * 1024;

impl RunFolder {
    /// A new folder, or an empty one. With `force` also one that holds a trace and nothing else, as
    /// `force` judges: it will be emptied.
    pub fn create(path: &Path, force: Option<IsTrace>) -> Result<Self, FolderError> {
        let made = DirBuilder::new().create(path);
        let is_there =
            { made.as_ref() }.is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists);
        if !is_there {
            made.map_err(|error| FolderError::io(path, "create the folder", error))?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty());
        let exists = || FolderError::Exists {
            path: path.to_owned(),
        };
        let folder = folder.map_err(|error| match force {
            None if error == rustix::io::Errno::NOTDIR => exists(),
            _ => FolderError::io(path, "open the folder", error.into()),
        })?;
        let folder = File::from(folder);
        // A file system without locks is no reason not to write. A child of the run before may hold
        // the lock until it is started: some milliseconds.
        let is_free = (0..20_000).any(|_| {
            let is_free = !matches!(folder.try_lock(), Err(TryLockError::WouldBlock));
            if !is_free {
                std::thread::yield_now();
            }
            is_free
        });
        if !is_free {
            return Err(FolderError::Busy {
                path: path.to_owned(),
                holder: lock_holder(&folder),
            });
        }
        // Only now no other process writes it.
        let replaced = match force {
            _ if !is_there => TraceFiles::default(),
            None if !entries(path)?.is_empty() => return Err(exists()),
            None => TraceFiles::default(),
            Some(is_trace) => TraceFiles::of(path, is_trace)?,
        };
        Ok(Self(Arc::new(Opened {
            path: path.to_owned(),
            folder,
            is_new: !is_there,
            has_lost: AtomicBool::default(),
            replaced: Mutex::new(replaced),
            emptied: Mutex::default(),
            back: Mutex::default(),
            beside: Mutex::default(),
        })))
    }

    /// Whether it was removed. A folder that was moved is still written.
    pub fn is_removed(&self) -> bool {
        self.file().metadata().is_ok_and(|facts| facts.nlink() == 0)
    }

    /// Whether its path leads to something else by now.
    pub fn is_elsewhere(&self) -> bool {
        let (opened, named) = (self.file().metadata(), self.path().metadata());
        match (opened, named) {
            (Ok(opened), Ok(named)) => (opened.dev(), opened.ino()) != (named.dev(), named.ino()),
            (_, Err(error)) => error.kind() == io::ErrorKind::NotFound,
            // Who may not look says nothing.
            _ => false,
        }
    }

    /// Why something in it could not be done.
    pub(crate) fn failed(
        &self,
        path: &Path,
        action: &'static str,
        error: io::Error,
    ) -> FolderError {
        if error.kind() == io::ErrorKind::NotFound && self.is_removed() {
            return self.lost(Path::new(""));
        }
        // Of a part, or of the table itself.
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        let table = above.unwrap_or(path).to_str();
        // A file in a table's folder was there, whether or not its folder is still to be removed.
        let is_robbed = error.kind() == io::ErrorKind::NotFound
            && table.is_some_and(|table| !table.is_empty())
            && (above.is_some() || table.is_some_and(|table| !self.has_table(table)));
        if let Some(table) = table.filter(|_| is_robbed) {
            return self.lost(Path::new(table));
        }
        FolderError::io(&self.path().join(path), action, error)
    }

    /// Somebody took away what was at a path in it, or itself.
    pub(crate) fn lost(&self, path: &Path) -> FolderError {
        self.0.has_lost.store(true, Ordering::Relaxed);
        // An empty path would add a slash.
        let parts = self.path().components().chain(path.components());
        FolderError::Gone {
            path: parts.collect(),
        }
    }

    /// Whether an error said that somebody took away what was written into it.
    pub fn has_lost(&self) -> bool {
        self.0.has_lost.load(Ordering::Relaxed)
    }

    /// Whether a table's folder is there, and no link to one.
    pub(crate) fn has_table(&self, table: &str) -> bool {
        let facts = rustix::fs::statat(self.file(), table, AtFlags::SYMLINK_NOFOLLOW);
        facts.is_ok_and(|facts| FileType::from_raw_mode(facts.st_mode).is_dir())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Bytes that this user can still write on its disk.
    pub(crate) fn free_bytes(&self) -> u64 {
        let disk = rustix::fs::fstatvfs(&self.0.folder);
        disk.map_or(u64::MAX, |disk| disk.f_bavail * disk.f_frsize)
    }

    pub(crate) fn file(&self) -> &File {
        &self.0.folder
    }

    /// Writes a file of the folder as a whole, in place of an older one: whatever happens, one of
    /// them is there.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), FolderError> {
        self.write(&[(name.into(), &[bytes])])
    }

    /// Opens the two [files](STATES) in which the run keeps what the next one takes over.
    pub fn open_states(&self) -> Result<[File; 2], FolderError> {
        self.clear()?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let open = |name: &str| {
            let opened = rustix::fs::openat(self.file(), name, flags, Mode::from_raw_mode(0o600));
            let path = self.path().join(name);
            opened
                .map(File::from)
                .map_err(|error| FolderError::io(&path, "open the file", error.into()))
        };
        Ok([open(STATES[0])?, open(STATES[1])?])
    }

    /// Once this returns, files that were [replaced](Self::replace) outlive a loss of power.
    pub fn sync(&self) -> Result<(), FolderError> {
        let synced = self.file().sync_all();
        synced.map_err(|error| self.failed(Path::new(""), "write the folder", error))
    }

    /// Makes the folder of a table, unless it is there.
    pub(crate) fn make_table(&self, table: &str) -> Result<(), FolderError> {
        self.clear()?;
        let made = rustix::fs::mkdirat(self.file(), table, Mode::from_raw_mode(0o777));
        match made {
            Err(rustix::io::Errno::EXIST) if self.has_table(table) => Ok(()),
            Err(error) => Err(self.failed(Path::new(table), "create the folder", error.into())),
            Ok(()) => Ok(()),
        }
    }

    /// Writes files, named from the folder on, each in pieces, under temporary names, and renames
    /// each when its bytes are on the disk. What several files change in common, such as blocks of
    /// inodes, is written once if they are all there before the first one has to be on the disk.
    ///
    /// After an error the files before the one that it names are complete, and the others are not
    /// there.
    pub(crate) fn write<P: AsRef<[u8]>>(
        &self,
        files: &[(PathBuf, &[P])],
    ) -> Result<(), FolderError> {
        self.write_counted(files).1
    }

    /// As [`write`](Self::write): how many files are complete, and why the next one is not.
    pub(crate) fn write_counted<P: AsRef<[u8]>>(
        &self,
        files: &[(PathBuf, &[P])],
    ) -> (usize, Result<(), FolderError>) {
        if let Err(error) = self.clear() {
            return (0, Err(error));
        }
        let mut open = Vec::with_capacity(files.len());
        let mut written = Ok(());
        for (file, pieces) in files {
            match Unnamed::write(self, file, pieces) {
                Ok(begun) => open.push(begun),
                Err(error) => {
                    written = Err(error);
                    break;
                }
            }
        }
        // In order: what comes after a file that fails is dropped, which removes it.
        let mut done = 0;
        for begun in open {
            if let Err(error) = begun.complete() {
                return (done, Err(error));
            }
            done += 1;
        }
        (done, written)
    }

    /// Takes `trace.json` away again: of a run that could not begin, which wrote nothing else.
    pub fn withdraw(&self) {
        // If it cannot be removed, it states that the run is unfinished.
        let _ = rustix::fs::unlinkat(self.file(), MANIFEST, AtFlags::empty());
    }

    /// Takes away what it replaces.
    pub(crate) fn clear(&self) -> Result<(), FolderError> {
        let mut replaced = self
            .0
            .replaced
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut emptied = { self.0.emptied.lock() }.unwrap_or_else(PoisonError::into_inner);
        emptied.extend_from_slice(&replaced.folders);
        std::mem::take(&mut *replaced).remove()
    }

    /// What is in the folder, and [beside](Self::lend_too) it, at the end of the run will belong to
    /// the owner that the folder, or the one above it, has now. Where no process can be started for
    /// that, it keeps the owner that it has then.
    pub(crate) fn lend(&self, to: Uid) {
        let mut beside = { self.0.beside.lock() }.unwrap_or_else(PoisonError::into_inner);
        let above = self.path().join("..");
        let owner = above.metadata().map_or(0, |facts| facts.uid());
        beside.retain(|path| {
            let facts = path.symlink_metadata();
            facts.is_ok_and(|facts| [owner, to.as_raw()].contains(&facts.uid()))
        });
        let mut back = self.0.back.lock().unwrap_or_else(PoisonError::into_inner);
        back.extend(GiveBack::start(self.path()).ok());
        if !beside.is_empty() {
            back.extend(GiveBack::of_folders(&above, &beside).ok());
        }
    }

    /// Folders of runs that are over, beside this one: while the run goes on, what it becomes may
    /// remove parts in them too, if they belong to the owner of the folder that they are in.
    pub fn lend_too(&self, folders: Vec<PathBuf>) {
        *self.0.beside.lock().unwrap_or_else(PoisonError::into_inner) = folders;
    }

    /// Gives those folders, and the folders in them, to a user. Files keep their owner.
    pub(crate) fn give_beside_to(&self, user: Uid, group: Gid) -> Result<(), FolderError> {
        let beside = { self.0.beside.lock() }.unwrap_or_else(PoisonError::into_inner);
        for folder in &*beside {
            let tables = entries(folder)?.into_iter();
            let tables = tables.filter(|(_, _, kind)| kind.is_dir());
            let tables = tables.map(|(path, _, _)| path);
            tables.chain([folder.clone()]).try_for_each(|path| {
                let (user, group) = (user.as_raw(), group.as_raw());
                std::os::unix::fs::lchown(&path, Some(user), Some(group))
                    .map_err(|error| FolderError::io(&path, "change the owner", error))
            })?;
        }
        Ok(())
    }

    /// Makes a user the owner of the folder, its tables and their files.
    pub(crate) fn give_to(&self, user: Uid, group: Gid) -> Result<(), FolderError> {
        // That user may not look its path up any more.
        self.clear()?;
        let mut paths = vec![self.path().to_owned()];
        for (entry, _, kind) in entries(self.path())? {
            if kind.is_dir() {
                paths.extend(entries(&entry)?.into_iter().map(|(part, _, _)| part));
            }
            paths.push(entry);
        }
        paths.iter().try_for_each(|path| {
            let (user, group) = (user.as_raw(), group.as_raw());
            std::os::unix::fs::lchown(path, Some(user), Some(group))
                .map_err(|error| FolderError::io(path, "change the owner", error))
        })
    }
}

/// A file that is written and has not its name yet. Dropped, it goes.
struct Unnamed<'a> {
    folder: &'a RunFolder,
    temporary: PathBuf,
    path: &'a Path,
    file: Option<File>,
}

impl<'a> Unnamed<'a> {
    fn write<P: AsRef<[u8]>>(
        folder: &'a RunFolder,
        path: &'a Path,
        pieces: &[P],
    ) -> Result<Self, FolderError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut unnamed = Self {
            folder,
            temporary: path.with_file_name(temporary_name(&name)),
            path,
            file: None,
        };
        // A link that somebody else has put there is not followed, and goes, as what a run before
        // has left.
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(0o666);
        let mut write = || {
            let open = || {
                let flags = flags | OFlags::CLOEXEC;
                rustix::fs::openat(folder.file(), &unnamed.temporary, flags, mode)
            };
            let opened = match open() {
                Err(rustix::io::Errno::EXIST) => {
                    rustix::fs::unlinkat(folder.file(), &unnamed.temporary, AtFlags::empty())?;
                    open()?
                }
                opened => opened?,
            };
            let file = unnamed.file.insert(File::from(opened));
            let pieces = pieces
                .iter()
                .flat_map(|piece| piece.as_ref().chunks(WRITE_LEN));
            pieces
                .into_iter()
                .try_for_each(|piece| file.write_all(piece))
        };
        match write() {
            Ok(()) => Ok(unnamed),
            Err(error) => Err(unnamed.error("write the file", error)),
        }
    }

    /// Gives it its name, once it is on the disk.
    fn complete(mut self) -> Result<(), FolderError> {
        if let Some(file) = &self.file
            && let Err(error) = file.sync_all()
        {
            return Err(self.error("write the file", error));
        }
        let folder = self.folder.file();
        match rustix::fs::renameat(folder, &self.temporary, folder, self.path) {
            Ok(()) => {
                self.file = None;
                Ok(())
            }
            Err(error) => Err(self.error("rename the file", error.into())),
        }
    }

    fn error(&self, action: &'static str, error: io::Error) -> FolderError {
        self.folder.failed(self.path, action, error)
    }
}

impl Drop for Unnamed<'_> {
    fn drop(&mut self) {
        if self.file.is_some() {
            // The first error is the one to report; a temporary file that cannot be removed is
            // hidden.
            let _ = rustix::fs::unlinkat(self.folder.file(), &self.temporary, AtFlags::empty());
        }
    }
}

/// The name under which a file is written: DuckDB's `*.parquet` does not see it for its end, and
/// pandas, pyarrow and Spark, which read whatever is in a folder, do not for the dot it begins
/// with.
pub(crate) fn temporary_name(name: &str) -> String {
    format!(".{name}.tmp")
}

/// What a folder holds whose names are those of a trace.
#[derive(Debug, Default)]
pub struct TraceFiles {
    /// `trace.json`.
    pub manifest: PathBuf,
    /// The tables' folders.
    pub folders: Vec<PathBuf>,
    /// Complete parts.
    pub parts: Vec<PathBuf>,
    /// What an interruption leaves: the beginnings of parts, a socket.
    rests: Vec<PathBuf>,
    /// Folders of such names, which go with what is in them.
    hidden: Vec<PathBuf>,
}

/// Judges whether `trace.json`, folders and parts are a trace that lineside wrote, and returns the
/// first that is not. What is in files is not known here.
pub type IsTrace = fn(&TraceFiles) -> Result<(), PathBuf>;

impl TraceFiles {
    /// What is in a folder that holds a trace, or nothing; an error if anything else is in it.
    fn of(path: &Path, is_trace: IsTrace) -> Result<Self, FolderError> {
        let foreign = |path| FolderError::Foreign { path };
        let mut files = Self::default();
        let mut is_empty = true;
        for (entry, name, kind) in entries(path)? {
            is_empty = false;
            if kind.is_dir() {
                // A folder that was about to be exchanged for a table's, or was.
                let table = { name.strip_prefix('.') }.and_then(|rest| rest.strip_suffix(".tmp"));
                for (part, name, kind) in entries(&entry)? {
                    match is_part(&name).filter(|_| kind.is_file()) {
                        Some(true) => files.parts.push(part),
                        Some(false) => files.rests.push(part),
                        None => return Err(foreign(part)),
                    }
                }
                match table {
                    Some(table) if path.join(table).is_dir() => files.hidden.push(entry),
                    Some(_) => return Err(foreign(entry)),
                    None => files.folders.push(entry),
                }
            } else if name == MANIFEST && kind.is_file() {
                files.manifest = entry;
            } else if name == temporary_name(MANIFEST) && kind.is_file()
                || name == CONTROL && kind.is_socket()
                || STATES.contains(&&*name) && kind.is_file()
            {
                files.rests.push(entry);
            } else {
                return Err(foreign(entry));
            }
        }
        match is_empty {
            true => Ok(files),
            false if files.manifest.as_os_str().is_empty() => Err(foreign(path.to_owned())),
            false => is_trace(&files).map(|()| files).map_err(foreign),
        }
    }

    /// Removes these files but for `trace.json`, which the next one replaces: what an interruption
    /// leaves can still be recognised as a trace.
    fn remove(self) -> Result<(), FolderError> {
        self.parts.iter().chain(&self.rests).try_for_each(|file| {
            fs::remove_file(file).map_err(|error| FolderError::io(file, "remove the file", error))
        })?;
        self.hidden.iter().try_for_each(|folder| {
            let removed = fs::remove_dir(folder);
            removed.map_err(|error| FolderError::io(folder, "remove the folder", error))
        })
    }
}

/// Path, name and kind (that of a link itself) of each entry.
fn entries(folder: &Path) -> Result<Vec<(PathBuf, String, fs::FileType)>, FolderError> {
    let read = || -> io::Result<_> {
        fs::read_dir(folder)?
            .map(|entry| {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                Ok((entry.path(), name, entry.file_type()?))
            })
            .collect()
    };
    read().map_err(|error| FolderError::io(folder, "read the folder", error))
}

/// Whether a part is complete; `None` if a name is not a part's.
fn is_part(name: &str) -> Option<bool> {
    let temporary = { name.strip_prefix('.') }.and_then(|rest| rest.strip_suffix(".tmp"));
    part_indexes(temporary.unwrap_or(name)).map(|_| temporary.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes any files for a trace's.
    const ANY: IsTrace = |_| Ok(());

    fn trace(parent: &Path) -> PathBuf {
        let path = parent.join("run");
        let folder = RunFolder::create(&path, None).expect("created");
        folder.replace(MANIFEST, b"{}").expect("written");
        fs::create_dir(path.join("operations")).expect("created");
        fs::write(path.join("operations/part-000000.parquet"), b"x").expect("written");
        fs::write(path.join("operations/.part-000001.parquet.tmp"), b"x").expect("written");
        path
    }

    #[test]
    fn an_existing_folder_is_refused_and_a_trace_replaced_by_force() {
        let parent = tempfile::tempdir().expect("a folder");
        let path = trace(parent.path());
        let error = RunFolder::create(&path, None)
            .expect_err("exists")
            .to_string();
        assert!(
            error.contains("run exists already") && error.contains("--force"),
            "{error}"
        );
        let running = RunFolder::create(&path, Some(ANY)).expect("replaced");
        assert_eq!(fs::read_dir(&path).expect("there").count(), 2, "not yet");
        running.clear().expect("removed");
        assert!(path.join(MANIFEST).exists(), "until there is another");
        running.replace(MANIFEST, b"{}").expect("written");
        assert_eq!(entries(&path.join("operations")).expect("there").len(), 0);
        let error = RunFolder::create(&path, Some(ANY)).expect_err("it is written");
        assert!(matches!(error, FolderError::Busy { .. }), "{error}");
        assert!(path.join(MANIFEST).exists(), "nothing is touched");
        drop(running);
        assert_eq!(fs::read_dir(&path).expect("there").count(), 1, "no table");
        RunFolder::create(&path, Some(ANY)).expect("that run has ended");
        RunFolder::create(&path, Some(ANY)).expect("an empty folder holds nothing to lose");
    }

    #[test]
    fn a_folder_of_a_run_that_wrote_nothing_goes() {
        let parent = tempfile::tempdir().expect("a folder");
        let path = parent.path().join("run");
        drop(RunFolder::create(&path, None).expect("created"));
        assert!(!path.exists(), "it was made for the run");
        fs::create_dir(&path).expect("created");
        drop(RunFolder::create(&path, Some(ANY)).expect("empty"));
        assert!(path.exists(), "it was there before");
    }

    #[test]
    fn an_empty_folder_needs_no_force() {
        let parent = tempfile::tempdir().expect("a folder");
        let path = parent.path().join("run");
        fs::create_dir(&path).expect("created");
        let running = RunFolder::create(&path, None).expect("nothing to lose");
        let error = RunFolder::create(&path, None).expect_err("it is written");
        assert!(matches!(error, FolderError::Busy { .. }), "{error}");
        running.replace(MANIFEST, b"{}").expect("written");
        drop(running);
        let error = RunFolder::create(&path, None).expect_err("a trace");
        assert!(matches!(error, FolderError::Exists { .. }), "{error}");
        let file = path.join(MANIFEST);
        let error = RunFolder::create(&file, None).expect_err("a file");
        assert!(matches!(error, FolderError::Exists { .. }), "{error}");
    }

    #[test]
    fn a_run_that_could_not_begin_leaves_nothing() {
        let parent = tempfile::tempdir().expect("a folder");
        let path = parent.path().join("run");
        let folder = RunFolder::create(&path, None).expect("created");
        folder.replace(MANIFEST, b"{}").expect("written");
        folder.withdraw();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn force_deletes_nothing_that_is_not_a_trace() {
        let parent = tempfile::tempdir().expect("a folder");
        for foreign in [
            "notes.txt",
            "operations/mine.parquet",
            "operations/part-1.parquet",
        ] {
            let path = trace(parent.path());
            fs::write(path.join(foreign), b"precious").expect("written");
            let error = RunFolder::create(&path, Some(ANY))
                .expect_err("foreign")
                .to_string();
            assert!(error.contains(foreign), "{error}");
            assert!(path.join(foreign).exists());
            assert!(
                path.join("operations/part-000000.parquet").exists(),
                "nothing is touched"
            );
            fs::remove_dir_all(&path).expect("removed");
        }
        let path = trace(parent.path());
        fs::remove_file(path.join(MANIFEST)).expect("removed");
        assert!(
            RunFolder::create(&path, Some(ANY)).is_err(),
            "no trace.json, no trace"
        );
        let file = parent.path().join("file");
        fs::write(&file, b"precious").expect("written");
        assert!(RunFolder::create(&file, Some(ANY)).is_err());
        assert_eq!(fs::read(&file).expect("there"), b"precious");
    }

    #[test]
    fn a_folder_that_is_linked_is_not_followed() {
        let parent = tempfile::tempdir().expect("a folder");
        let path = trace(parent.path());
        let elsewhere = parent.path().join("elsewhere");
        fs::create_dir(&elsewhere).expect("created");
        fs::write(elsewhere.join("part-000000.parquet"), b"precious").expect("written");
        std::os::unix::fs::symlink(&elsewhere, path.join("nfs")).expect("linked");
        assert!(RunFolder::create(&path, Some(ANY)).is_err());
        assert!(elsewhere.join("part-000000.parquet").exists());
    }

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = RunFolder::create(&parent.path().join("run"), None).expect("created");
        folder.replace(MANIFEST, b"long old text").expect("written");
        folder.replace(MANIFEST, b"new").expect("written");
        assert_eq!(
            fs::read(folder.path().join(MANIFEST)).expect("there"),
            b"new"
        );
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 1);
    }

    #[test]
    fn a_planted_link_is_not_followed() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = RunFolder::create(&parent.path().join("run"), None).expect("created");
        let victim = parent.path().join("victim");
        fs::write(&victim, b"precious").expect("written");
        let planted = folder.path().join(".trace.json.tmp");
        std::os::unix::fs::symlink(&victim, planted).expect("planted");
        folder.replace(MANIFEST, b"new").expect("written");
        assert_eq!(fs::read(&victim).expect("there"), b"precious");
        let written = folder.path().join(MANIFEST);
        assert!(fs::symlink_metadata(&written).expect("there").is_file());
        assert_eq!(fs::read(written).expect("there"), b"new");
    }

    #[test]
    fn errors_name_the_cause_the_place_and_the_remedy() {
        let missing = Path::new("/nonexistent/run");
        let error = RunFolder::create(missing, None)
            .expect_err("no parent")
            .to_string();
        assert!(
            error.starts_with("/nonexistent/run: cannot create the folder: "),
            "{error}"
        );
        assert!(
            error.ends_with("create the folder above it, or write elsewhere with -o"),
            "{error}"
        );
    }
}
