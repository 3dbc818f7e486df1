//! The folder that a run leaves: creating, locking and replacing it, and files that appear whole
//! under their names. What is in the files is not known here.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use lineside_host::{
    FolderError, GiveBack, Giving, Heirloom, Place, caller_of_sudo, heir, is_alive, lock_holder,
    temporary_name,
};
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::process::{Gid, Uid};

use crate::room::{self, MANIFEST, ROOM, Room};
use crate::trace_files::{Before, IsTrace, TraceFiles};

/// The folder that a run leaves: tables of parts, and `trace.json`.
///
/// A file is complete under its name or not there: it is written under a name that begins with a
/// dot and ends in `.tmp`, which no reader sees, and renamed.
///
/// The folder is opened once: whoever may no longer look its path up still writes into it. Until
/// the last handle is dropped it is locked (flock(2)), and no other run replaces it. A trace that
/// it replaces goes when the run starts, that is with its first file under a name: a run that
/// cannot start has replaced nothing, whatever it had open by then. Until then it has its
/// [room](Self::keep_room), its socket and what the next run takes over, beside the trace. If it
/// was made for the run and nothing was written into it, it goes with the last handle: it would be
/// in the way of the next try.
#[derive(Debug, Clone)]
pub struct RunFolder(pub(crate) Arc<Opened>);

#[derive(Debug)]
pub(crate) struct Opened {
    place: Place,
    is_new: bool,
    /// Whether something that was written is gone.
    has_lost: AtomicBool,
    pub(crate) before: Mutex<Before>,
    /// Wakes who waits for the start.
    pub(crate) started: Condvar,
    /// The folders of what it replaced. The run uses most of them again; the others go at its end.
    pub(crate) emptied: Mutex<Vec<String>>,
    /// Folders beside it, of runs that are over.
    beside: OnceLock<Vec<Place>>,
    /// For the last `trace.json`.
    room: Mutex<Option<Room>>,
    /// Gives it back to its owner, once the last handle is dropped.
    back: Option<GiveBack>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        lock(&self.before).end(&self.place);
        if lock(&self.room).take().is_some() {
            room::remove(&self.place);
        }
        let emptied = self.emptied.get_mut();
        for name in emptied.unwrap_or_else(PoisonError::into_inner) {
            self.place.remove_empty_folder(name);
        }
        if self.is_new {
            self.place.remove_if_empty();
        }
    }
}

impl RunFolder {
    /// A new folder, or an empty one. With `force` also one that holds a trace and nothing else, as
    /// `force` judges: it will be emptied.
    pub fn create(path: &Path, force: Option<IsTrace>) -> Result<Self, FolderError> {
        let exists = || FolderError::Exists {
            path: path.to_owned(),
        };
        let made = Place::make(path).map_err(|error| match (error, force) {
            (FolderError::Io { error, .. }, None)
                if error.kind() == io::ErrorKind::NotADirectory =>
            {
                exists()
            }
            (error, _) => error,
        });
        let (place, is_new) = made?;
        Self::in_place(place, (is_new, false), force, exists)
    }

    /// The folder of a run in a folder of runs, which was made for it and is empty.
    pub fn of(place: &Place) -> Result<Self, FolderError> {
        let exists = || FolderError::Exists {
            path: place.path().to_owned(),
        };
        Self::in_place(place.clone(), (true, true), None, exists)
    }

    fn in_place(
        place: Place,
        (is_new, is_of_runs): (bool, bool),
        force: Option<IsTrace>,
        exists: impl Fn() -> FolderError,
    ) -> Result<Self, FolderError> {
        if !is_free(place.file()) {
            return Err(FolderError::Busy {
                path: place.path().to_owned(),
                holder: lock_holder(place.file()),
            });
        }
        // Only now no other process writes it.
        let replaced = match force {
            _ if is_new => None,
            None if !place.names()?.is_empty() => return Err(exists()),
            None => None,
            Some(is_trace) => Some(TraceFiles::of(&place, is_trace)?),
        };
        let giving = giving_back(&place, is_new);
        let back = (is_new || giving.is_some())
            .then(|| GiveBack::start(&place, giving, (is_new, is_of_runs)).ok())
            .flatten();
        Ok(Self(Arc::new(Opened {
            place,
            is_new,
            has_lost: AtomicBool::default(),
            before: Mutex::new(Before::of(replaced)),
            started: Condvar::new(),
            emptied: Mutex::default(),
            beside: OnceLock::new(),
            room: Mutex::default(),
            back,
        })))
    }

    /// Whether it was removed. A folder that was moved is still written.
    pub fn is_removed(&self) -> bool {
        self.place().is_removed()
    }

    /// Whether its path leads to something else by now.
    pub fn is_elsewhere(&self) -> bool {
        self.place().is_elsewhere()
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
        // Of a link in a table's place the kernel says that it is no folder.
        let is_missing = matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        );
        let is_robbed = is_missing
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

    /// Whether an error showed that somebody deleted what was written into it.
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
        self.place().path()
    }

    /// The folder itself.
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// Bytes that this user can still write on its disk.
    pub(crate) fn free_bytes(&self) -> u64 {
        let disk = rustix::fs::fstatvfs(self.file());
        disk.map_or(u64::MAX, |disk| disk.f_bavail * disk.f_frsize)
    }

    pub(crate) fn file(&self) -> &File {
        self.place().file()
    }

    /// Writes a file of the folder as a whole, in place of an older one: whatever happens, one of
    /// them is there.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), FolderError> {
        self.write(&[(name.into(), &[bytes])])
    }

    /// Keeps room on the disk for the [last](Self::replace_last) `trace.json`, or more of it.
    pub fn keep_room(&self, len: u64) -> Result<(), FolderError> {
        self.own(ROOM);
        let mut room = lock(&self.0.room);
        match &mut *room {
            Some(room) => { room.grow(len) }
                .map_err(|error| self.failed(Path::new(MANIFEST), "keep room for", error)),
            none => {
                *none = Some(Room::keep(self.place(), len)?);
                Ok(())
            }
        }
    }

    /// As [`replace`](Self::replace), of `trace.json` at the end of a run: on a full disk it takes
    /// the room that was kept, if that is enough.
    pub fn replace_last(&self, bytes: &[u8]) -> Result<(), FolderError> {
        let written = self.replace(MANIFEST, bytes);
        match &written {
            Err(error) if error.is_full() => {}
            _ => return written,
        }
        let Some(room) = lock(&self.0.room).take_if(|room| room.fits(bytes.len())) else {
            return written;
        };
        let became = room.become_file(self.place(), MANIFEST, bytes);
        became.map_err(|error| {
            room::remove(self.place());
            self.failed(Path::new(MANIFEST), "write the file", error)
        })
    }

    /// Once this returns, files that were [replaced](Self::replace) outlive a loss of power.
    pub fn sync(&self) -> Result<(), FolderError> {
        let synced = self.file().sync_all();
        synced.map_err(|error| self.failed(Path::new(""), "write the folder", error))
    }

    /// Makes the folder of a table, unless it is there.
    pub(crate) fn make_table(&self, table: &str) -> Result<(), FolderError> {
        self.start()?;
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
        if let Err(error) = self.start() {
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

    /// Folders of runs that are over, beside this one: while the run goes on, what it becomes may
    /// remove parts in them too, if they belong to the owner of the folder that they are in.
    pub fn lend_too(&self, folders: Vec<Place>) {
        let _ = self.0.beside.set(folders);
    }

    /// Those folders.
    pub fn beside(&self) -> &[Place] {
        self.0.beside.get().map_or(&[], Vec::as_slice)
    }
}

impl Heirloom for RunFolder {
    /// Makes a user the owner of the folder, its tables and their files. With `is_lent` also of the
    /// folders [beside](Self::lend_too) it, and not for good: what is in them at the end of the run
    /// will belong to the owner that they have now.
    fn give_to(&self, to: (Uid, Gid), is_lent: bool) -> Result<(), FolderError> {
        let owner = self.place().owner().map_or(u32::MAX, |(user, _)| user);
        if is_lent && !(owner == 0 && self.0.back.is_some() || owner == to.0.as_raw()) {
            // What is in it is not given, and that user could not remove it.
            self.start()?;
        }
        if !is_lent && !self.0.is_new && owner != to.0.as_raw() {
            // A folder that was there, and another's: who called sudo is not given it.
            return Ok(());
        }
        // In another's folder, what is older may have been put there to be given away.
        let may_be_older = is_lent && [0, to.0.as_raw()].contains(&owner);
        let giving = Giving {
            from: None,
            to,
            since_ns: (!may_be_older).then(|| self.place().since_ns()),
        };
        self.place().give(giving)?;
        if !is_lent {
            return Ok(());
        }
        let owner = { self.place().parent() }
            .ok()
            .and_then(|above| above.owner().ok());
        let owner = owner.map_or(0, |(user, _)| user);
        for folder in self.beside() {
            let of = folder.owner().map_or(u32::MAX, |(user, _)| user);
            if [owner, to.0.as_raw()].contains(&of) {
                { self.0.back.iter() }.for_each(|back| back.add(folder.name()));
                folder.give_folders(giving)?;
            }
        }
        Ok(())
    }
}

/// What belongs to whom at the end of the run, if this process may see to that.
fn giving_back(place: &Place, is_new: bool) -> Option<Giving> {
    let owner = place.owner().ok().filter(|_| !is_new);
    if let Some(to) = caller_of_sudo() {
        // As at the start.
        let is_his = owner.is_none_or(|(user, _)| user == to.0.as_raw());
        return is_his.then(|| Giving {
            from: Some(Uid::ROOT),
            to,
            since_ns: Some(place.since_ns()),
        });
    }
    let (lent_to, _) = heir()?;
    let (user, group) = owner.unwrap_or_default();
    Some(Giving {
        from: Some(lent_to),
        to: (Uid::from_raw(user), Gid::from_raw(group)),
        since_ns: None,
    })
}

/// Whether nobody else holds the lock of a folder, which is taken. A process that is over may still
/// hold it: by a child until that is started, or by the one that gives files back.
pub(crate) fn is_free(folder: &File) -> bool {
    for attempt in 0.. {
        // A file system without locks is no reason not to write.
        if !matches!(folder.try_lock(), Err(TryLockError::WouldBlock)) {
            return true;
        }
        // Attempts, at most one a millisecond.
        let patience = match lock_holder(folder) {
            Some(holder) if is_alive(holder) => 20,
            // It is over.
            Some(_) => 2_000,
            // Some file systems do not say.
            None => 500,
        };
        if attempt >= patience {
            return false;
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
    false
}

pub(crate) fn lock<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that is written and has not its name yet. Dropped, it goes.
struct Unnamed<'a> {
    folder: &'a RunFolder,
    /// Of its table, or the run's.
    place: Place,
    temporary: String,
    path: &'a Path,
    file: Option<File>,
}

impl<'a> Unnamed<'a> {
    fn write<P: AsRef<[u8]>>(
        folder: &'a RunFolder,
        path: &'a Path,
        pieces: &[P],
    ) -> Result<Self, FolderError> {
        let failed = |error| folder.failed(path, "write the file", error);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let table = path.parent().filter(|table| !table.as_os_str().is_empty());
        let place = match table {
            None => folder.place().clone(),
            Some(table) => folder.place().child(table).map_err(|error| match error {
                FolderError::Io { error, .. } => failed(again(&error)),
                error => error,
            })?,
        };
        let temporary = temporary_name(&name);
        let file = place.write_new(&temporary, pieces).map_err(failed)?;
        Ok(Self {
            folder,
            place,
            temporary,
            path,
            file: Some(file),
        })
    }

    /// Gives it its name, once it is on the disk.
    fn complete(mut self) -> Result<(), FolderError> {
        if let Some(file) = &self.file
            && let Err(error) = file.sync_all()
        {
            return Err(self.error("write the file", error));
        }
        let (folder, name) = (self.place.file(), self.path.file_name().unwrap_or_default());
        match rustix::fs::renameat(folder, &self.temporary, folder, name) {
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
            let _ = rustix::fs::unlinkat(self.place.file(), &self.temporary, AtFlags::empty());
        }
    }
}

/// The same error once more.
pub(crate) fn again(error: &io::Error) -> io::Error {
    error
        .raw_os_error()
        .map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "tests arrange by path what is found by descriptors"
)]
pub(crate) mod tests {
    use std::fs;
    use std::io::ErrorKind;

    use super::*;

    /// Takes any files for a trace's.
    const ANY: IsTrace = |_| Ok(());

    pub(crate) fn trace(parent: &Path) -> PathBuf {
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
        running.start().expect("removed");
        assert!(path.join(MANIFEST).exists(), "until there is another");
        running.replace(MANIFEST, b"{}").expect("written");
        let operations = fs::read_dir(path.join("operations"));
        assert_eq!(operations.expect("there").count(), 0);
        let error = RunFolder::create(&path, Some(ANY)).expect_err("it is written");
        assert!(matches!(error, FolderError::Busy { .. }), "{error}");
        assert!(path.join(MANIFEST).exists(), "nothing is touched");
        drop(running);
        assert_eq!(fs::read_dir(&path).expect("there").count(), 1, "no table");
        RunFolder::create(&path, Some(ANY)).expect("that run has ended");
        RunFolder::create(&path, Some(ANY)).expect("an empty folder holds nothing to lose");
    }

    #[test]
    fn what_stands_in_a_tables_place_is_no_table() {
        let parent = tempfile::tempdir().expect("a folder");
        let running = RunFolder::create(&parent.path().join("run"), None).expect("created");
        for error in [ErrorKind::NotFound, ErrorKind::NotADirectory] {
            let failed = |path: &str| running.failed(path.as_ref(), "write", error.into());
            assert!(
                matches!(failed("losses"), FolderError::Gone { .. }),
                "{error}"
            );
            fs::create_dir_all(parent.path().join("run/losses")).expect("created");
            assert!(
                matches!(failed("losses"), FolderError::Io { .. }),
                "{error}"
            );
            fs::remove_dir(parent.path().join("run/losses")).expect("removed");
        }
        running.replace(MANIFEST, b"{}").expect("written");
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
