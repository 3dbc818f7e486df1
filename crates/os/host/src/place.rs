//! A folder on disk that is reached by descriptors: it is looked up once, with the privileges of
//! that moment, and whatever happens to its path later, or to what this process may pass, it stays
//! the same one.
//!
//! ```text
//!  /root/traces/run      parent ── name ──► folder ── openat, unlinkat, renameat, fchownat
//!  the path: messages    O_PATH             O_RDONLY     no link is followed
//! ```

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, mkdirat, openat, renameat, renameat_with,
    statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::file_times::{file_time_ns, is_since};
use crate::folder_error::FolderError;
use crate::lock::lock_holder;
use crate::privileges::caller_of_sudo;

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);
const NO_LINK: OFlags = FOLDER.union(OFlags::NOFOLLOW);

/// Bytes of a write(2). Most kernels do not interrupt one: all 10 MiB of a part at once kept the
/// reader of a ring on the same core waiting for 7 ms, as long as a third of the ring lasts.
const WRITE_LEN: usize = 128 * 1024;

/// A folder, the one that it is in, and its name there. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Place(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// For messages.
    path: PathBuf,
    parent: OwnedFd,
    name: OsString,
    folder: File,
    /// When it was opened.
    since_ns: i64,
}

/// An entry of a folder, by the kind that it has itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// A folder, and no link to one.
    pub is_folder: bool,
    /// A file, and no link to one.
    pub is_file: bool,
    /// A socket.
    pub is_socket: bool,
    /// Its bytes, if it is a file.
    pub bytes: u64,
    /// When it was last written, nanoseconds since the Unix epoch.
    pub written_ns: i64,
}

/// Gives what this process has just made to the user that called sudo. A file system on which root
/// may not do that still holds it.
pub fn own(made: BorrowedFd<'_>) {
    if let Some((user, group)) = caller_of_sudo() {
        let _ = rustix::fs::fchown(made, Some(user), Some(group));
    }
}

impl Place {
    /// The folder at a path that the user named, which may be a link to it; for root one of its
    /// own, since links of others could lead it anywhere.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let (parent, name) = above(path)?;
        let opened = match geteuid().is_root() && !is_of_root(&parent, &name) {
            true => openat(&parent, &name, NO_LINK, Mode::empty()),
            false => openat(&parent, &name, FOLDER, Mode::empty()),
        };
        let folder = opened.map_err(|error| failed(path, "open the folder", error))?;
        Ok(Self::of(path, parent, name, folder))
    }

    /// Makes the folder, and says so; or the one that is there. A new one belongs to the user that
    /// called sudo.
    pub fn make(path: &Path) -> Result<(Self, bool), FolderError> {
        let (parent, name) = above(path)?;
        let begun_ns = file_time_ns();
        match mkdirat(&parent, &name, Mode::from_raw_mode(0o777)) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Ok((Self::open(path)?, false)),
            Err(error) => return Err(failed(path, "create the folder", error)),
        }
        // Whatever was put there instead is not followed, and not given away.
        let opened = openat(&parent, &name, NO_LINK, Mode::empty());
        let folder = opened.map_err(|error| failed(path, "open the folder", error))?;
        // Who gives nothing away needs no proof, which some file systems cannot give: their times
        // are coarse, or another machine's.
        if geteuid().is_root() && !is_since(folder.as_fd(), begun_ns) {
            let error = io::Error::other("another one was put in its place");
            return Err(FolderError::io(path, "open the folder", error));
        }
        own(folder.as_fd());
        Ok((Self::of(path, parent, name, folder), true))
    }

    fn of(path: &Path, parent: OwnedFd, name: OsString, folder: OwnedFd) -> Self {
        Self(Arc::new(Inner {
            path: path.to_owned(),
            parent,
            name,
            folder: folder.into(),
            since_ns: file_time_ns(),
        }))
    }

    /// The folder that a path is in: that of a file to be written.
    pub fn above(path: &Path) -> Result<Self, FolderError> {
        let folder = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        Self::open(folder.unwrap_or_else(|| Path::new(".")))
    }

    /// A folder in this one, and no link to one.
    pub fn child(&self, name: impl AsRef<OsStr>) -> Result<Self, FolderError> {
        let name = name.as_ref();
        let path = self.0.path.join(name);
        let opened = openat(&self.0.folder, name, NO_LINK, Mode::empty());
        let folder = opened.map_err(|error| failed(&path, "open the folder", error))?;
        // Not a copy of this descriptor, which may be locked.
        let parent = openat(
            self.file(),
            ".",
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let parent = parent.map_err(|error| failed(&path, "open the folder", error))?;
        Ok(Self::of(&path, parent, name.to_owned(), folder))
    }

    /// Makes a folder in this one; `None` if something of that name is there.
    pub fn make_child(&self, name: &str) -> Result<Option<Self>, FolderError> {
        match mkdirat(self.file(), name, Mode::from_raw_mode(0o777)) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Ok(None),
            Err(error) => return Err(self.failed(name, "create the folder", error)),
        }
        let made = self.child(name)?;
        own(made.file().as_fd());
        Ok(Some(made))
    }

    /// The folder that this one is in.
    pub fn parent(&self) -> Result<Self, FolderError> {
        let Inner { path, parent, .. } = &*self.0;
        let error = |error| failed(path, "open the folder above it", error);
        let folder = openat(parent, ".", FOLDER, Mode::empty()).map_err(error)?;
        let above = openat(parent, "..", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let folder_path = path.parent().filter(|path| !path.as_os_str().is_empty());
        let folder_path = folder_path.unwrap_or_else(|| Path::new("."));
        // Its own name is not known, and it is not removed.
        let name = OsString::from(".");
        Ok(Self::of(folder_path, above.map_err(error)?, name, folder))
    }

    /// Where it was when it was opened: for messages.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Its name in the folder above.
    pub fn name(&self) -> &OsStr {
        &self.0.name
    }

    pub fn file(&self) -> &File {
        &self.0.folder
    }

    /// The folder that it is in.
    pub fn above_it(&self) -> BorrowedFd<'_> {
        self.0.parent.as_fd()
    }

    /// When it was opened, by the clock of file systems: what is in it and older, this process did
    /// not make.
    pub fn since_ns(&self) -> i64 {
        self.0.since_ns
    }

    /// User and group that it belongs to.
    pub fn owner(&self) -> io::Result<(u32, u32)> {
        let facts = self.file().metadata()?;
        Ok((facts.uid(), facts.gid()))
    }

    /// The process that holds the lock of the folder, as far as the kernel shows it.
    pub fn lock_holder(&self) -> Option<u32> {
        lock_holder(self.file())
    }

    /// Once this returns, names in it outlive a loss of power.
    pub fn sync(&self) -> Result<(), FolderError> {
        let synced = self.file().sync_all();
        synced.map_err(|error| FolderError::io(self.path(), "write the folder", error))
    }

    /// Whether it was removed. A folder that was moved is not.
    pub fn is_removed(&self) -> bool {
        self.file().metadata().is_ok_and(|facts| facts.nlink() == 0)
    }

    /// Whether its name leads to something else by now.
    pub fn is_elsewhere(&self) -> bool {
        let (opened, named) = (
            fstat(self.file()),
            statat(CWD, self.path(), AtFlags::empty()),
        );
        match (opened, named) {
            (Ok(opened), Ok(named)) => {
                (opened.st_dev, opened.st_ino) != (named.st_dev, named.st_ino)
            }
            (_, Err(error)) => error == Errno::NOENT,
            // Who may not look says nothing.
            _ => false,
        }
    }

    /// What is in the folder, in the order of names.
    pub fn entries(&self) -> Result<Vec<Entry>, FolderError> {
        let read = || -> io::Result<Vec<Entry>> {
            let mut found = Vec::new();
            for name in names_in(self.file())? {
                let facts = match statat(self.file(), &name, AtFlags::SYMLINK_NOFOLLOW) {
                    // It went meanwhile.
                    Err(Errno::NOENT) => continue,
                    facts => facts?,
                };
                let kind = FileType::from_raw_mode(facts.st_mode);
                let seconds = facts.st_mtime.saturating_mul(1_000_000_000);
                found.push(Entry {
                    name: name.to_string_lossy().into_owned(),
                    is_folder: kind.is_dir(),
                    is_file: kind.is_file(),
                    is_socket: kind.is_socket(),
                    bytes: facts.st_size.unsigned_abs(),
                    written_ns: seconds.saturating_add(facts.st_mtime_nsec as i64),
                });
            }
            found.sort_by(|one, other| one.name.cmp(&other.name));
            Ok(found)
        };
        read().map_err(|error| FolderError::io(self.path(), "read the folder", error))
    }

    /// Names in the folder.
    pub fn names(&self) -> Result<Vec<String>, FolderError> {
        let names = names_in(self.file());
        let names =
            names.map_err(|error| FolderError::io(self.path(), "read the folder", error))?;
        Ok({ names.iter() }
            .map(|name| name.to_string_lossy().into_owned())
            .collect())
    }

    /// Opens a file of the folder for reading. Anything else is an error, a link too.
    pub fn open_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = File::from(openat(self.file(), name, flags, Mode::empty())?);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("it is no file")),
        }
    }

    /// Makes a file, which belongs to the user that called sudo; whatever has its name is an error,
    /// and with `replaces` goes.
    pub fn make_file(&self, name: &OsStr, replaces: bool) -> Result<File, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        let opened = match openat(self.file(), name, flags, mode) {
            Err(Errno::EXIST) if replaces => {
                unlinkat(self.file(), name, AtFlags::empty())?;
                openat(self.file(), name, flags, mode)
            }
            opened => opened,
        };
        let file = opened.map(File::from)?;
        own(file.as_fd());
        Ok(file)
    }

    /// A file to be written and read that has no name, and is gone when it is closed.
    pub fn nameless_file(&self) -> Result<File, Errno> {
        let name = temporary_name(&format!("nameless-{}", std::process::id()));
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let made = openat(self.file(), &*name, flags, Mode::from_raw_mode(0o600))?;
        unlinkat(self.file(), &*name, AtFlags::empty())?;
        Ok(made.into())
    }

    /// Makes a file and writes it, in pieces. What a run before has left, or somebody else has put
    /// there, goes: a link too, which is not followed.
    pub fn write_new<P: AsRef<[u8]>>(&self, name: &str, pieces: &[P]) -> io::Result<File> {
        let mut file = self.make_file(name.as_ref(), true)?;
        let pieces = { pieces.iter() }.flat_map(|piece| piece.as_ref().chunks(WRITE_LEN));
        let written = { pieces.into_iter() }.try_for_each(|piece| file.write_all(piece));
        match written {
            Ok(()) => Ok(file),
            Err(error) => {
                // The first error is the one to report; the file is hidden.
                let _ = unlinkat(self.file(), name, AtFlags::empty());
                Err(error)
            }
        }
    }

    /// Removes a file, or a link.
    pub fn remove(&self, name: &str) -> Result<(), FolderError> {
        let removed = unlinkat(self.file(), name, AtFlags::empty());
        removed.map_err(|error| self.failed(name, "remove the file", error))
    }

    /// Removes a folder, and the files in it.
    pub fn remove_folder(&self, name: &str) -> Result<(), FolderError> {
        let folder = self.child(name)?;
        for name in folder.names()? {
            folder.remove(&name)?;
        }
        let removed = unlinkat(self.file(), name, AtFlags::REMOVEDIR);
        removed.map_err(|error| self.failed(name, "remove the folder", error))
    }

    /// Removes a folder if there is nothing in it.
    pub fn remove_empty_folder(&self, name: impl AsRef<OsStr>) {
        // Fails if anything is in it.
        let _ = unlinkat(self.file(), name.as_ref(), AtFlags::REMOVEDIR);
    }

    /// Removes this folder if there is nothing in it.
    pub fn remove_if_empty(&self) {
        // Something else may have the name by now.
        let is_it = || {
            let named = statat(&self.0.parent, self.name(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
            let opened = fstat(self.file()).ok()?;
            Some((named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino))
        };
        if is_it() != Some(false) {
            let _ = unlinkat(&self.0.parent, self.name(), AtFlags::REMOVEDIR);
        }
    }

    /// Gives a file another name, which nothing has, for good.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), FolderError> {
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        let renamed = renameat_with(self.file(), from, self.file(), to, flags);
        let renamed = renamed.map_err(io::Error::from);
        { renamed.and_then(|()| self.file().sync_all()) }
            .map_err(|error| FolderError::io(&self.path().join(from), "rename the file", error))
    }

    /// Writes a file in place of an older one, and has it on the disk. It belongs to the owner of
    /// the folder.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), FolderError> {
        let temporary = temporary_name(name);
        let write = || -> io::Result<()> {
            let file = self.write_new(&temporary, &[bytes])?;
            let (user, group) = self.owner()?;
            // Who may not give it away owns it, as it owns the folder.
            let _ = std::os::unix::fs::fchown(&file, Some(user), Some(group));
            file.sync_all()?;
            renameat(self.file(), &*temporary, self.file(), name)?;
            self.file().sync_all()
        };
        write().map_err(|error| {
            let _ = unlinkat(self.file(), &*temporary, AtFlags::empty());
            FolderError::io(&self.path().join(name), "write the file", error)
        })
    }

    /// Whether there is room for a file of this many bytes, which would have this name.
    pub fn try_room(&self, name: &str, len: usize) -> Result<(), FolderError> {
        // As a file that a run which is killed now would leave.
        let name = temporary_name(name);
        let tried = self.write_new(&name, &[vec![0_u8; len]]);
        let _ = unlinkat(self.file(), &*name, AtFlags::empty());
        let tried = tried.map(drop);
        tried.map_err(|error| FolderError::io(self.path(), "write into the folder", error))
    }

    fn failed(&self, name: &str, action: &'static str, error: Errno) -> FolderError {
        failed(&self.path().join(name), action, error)
    }
}

/// Whether what has a name is root's, in a folder where nobody else could put something in its
/// place.
fn is_of_root(parent: &OwnedFd, name: &OsStr) -> bool {
    let named = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
    let is_kept = fstat(parent).is_ok_and(|folder| {
        let mode = Mode::from_raw_mode(folder.st_mode);
        let others = Mode::WGRP | Mode::WOTH;
        folder.st_uid == 0 && (!mode.intersects(others) || mode.contains(Mode::SVTX))
    });
    is_kept && named.is_ok_and(|named| named.st_uid == 0)
}

/// The folder that a path is in, and the name there.
fn above(path: &Path) -> Result<(OwnedFd, OsString), FolderError> {
    // Of `..`, `/` and the like it is the folder itself.
    let (parent, name) = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if parent.as_os_str().is_empty() => (Path::new("."), name),
        (Some(parent), Some(name)) => (parent, name),
        _ => (path, OsStr::new(".")),
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(CWD, parent, flags, Mode::empty());
    let opened = opened.map_err(|error| failed(path, "create the folder", error))?;
    Ok((opened, name.to_owned()))
}

pub(crate) fn names_in(folder: &File) -> io::Result<Vec<OsString>> {
    use std::os::unix::ffi::OsStrExt;
    let mut listing = Dir::read_from(folder)?;
    listing.rewind();
    let mut names = Vec::new();
    for entry in listing {
        let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

fn failed(path: &Path, action: &'static str, error: Errno) -> FolderError {
    FolderError::io(path, action, error.into())
}

/// The name under which a file is written: DuckDB's `*.parquet` does not see it for its end, and
/// pandas, pyarrow and Spark, which read whatever is in a folder, do not for the dot it begins
/// with.
pub fn temporary_name(name: &str) -> String {
    format!(".{name}.tmp")
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "tests arrange by path what is found by descriptors"
)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::process::{Gid, Uid};

    use super::*;
    use crate::giving::Giving;

    fn ino(path: &Path) -> u64 {
        fs::symlink_metadata(path).expect("there").ino()
    }

    #[test]
    fn what_takes_a_folders_name_is_not_written() {
        let above = tempfile::tempdir().expect("a folder");
        let at = |name: &str| above.path().join(name);
        let (place, is_new) = Place::make(&at("run")).expect("made");
        assert!(is_new && !Place::make(&at("run")).expect("there").1);
        let inode = ino(&at("run"));
        fs::rename(at("run"), at("moved")).expect("moved");
        fs::create_dir(at("elsewhere")).expect("made");
        symlink(at("elsewhere"), at("run")).expect("linked");
        symlink(at("elsewhere"), at("moved/nfs")).expect("linked");
        place.replace("trace.json", b"{}").expect("written");
        assert!(place.child("nfs").is_err() && place.make_child("nfs").expect("there").is_none());
        assert!(place.is_elsewhere() && !place.is_removed());
        assert!(at("moved/trace.json").exists());
        place.remove("trace.json").expect("removed");
        place.remove("nfs").expect("the link goes");
        place.remove_if_empty();
        assert_eq!(ino(&at("moved")), inode, "the name is another's");
        assert!(at("elsewhere").exists() && at("run").exists());
        // A link that the user named is one to write into.
        let named = Place::open(&at("run")).expect("a folder");
        named.replace("trace.json", b"{}").expect("written");
        assert!(at("elsewhere/trace.json").exists());
    }

    #[test]
    fn root_follows_a_link_of_its_own_alone() {
        if !geteuid().is_root() {
            println!("SKIP: links of others need root");
            return;
        }
        let above = tempfile::tempdir().expect("a folder");
        let at = |name: &str| above.path().join(name);
        fs::create_dir(at("elsewhere")).expect("made");
        symlink(at("elsewhere"), at("run")).expect("linked");
        assert!(Place::open(&at("run")).is_ok() && !Place::make(&at("run")).expect("there").1);
        std::os::unix::fs::lchown(at("run"), Some(1234), Some(1234)).expect("given");
        assert!(Place::open(&at("run")).is_err() && Place::make(&at("run")).is_err());
        fs::remove_file(at("run")).expect("removed");
        fs::create_dir(at("run")).expect("made");
        std::os::unix::fs::chown(at("run"), Some(1234), Some(1234)).expect("given");
        assert!(
            Place::open(&at("run")).is_ok(),
            "a folder of another's is no link"
        );
    }

    #[test]
    fn only_what_has_no_other_name_is_given_away() {
        if !geteuid().is_root() {
            println!("SKIP: giving files away needs root");
            return;
        }
        let above = tempfile::tempdir().expect("a folder");
        let at = |name: &str| above.path().join(name);
        for file in ["run/nfs", "run/.nfs.tmp", "run/nfs/inner"] {
            fs::create_dir_all(at(file)).expect("made");
        }
        for file in [
            "precious",
            "run/trace.json",
            "run/nfs/part",
            "run/nfs/inner/deep",
        ] {
            fs::write(at(file), b"x").expect("written");
        }
        fs::hard_link(at("precious"), at("run/nfs/planted")).expect("linked");
        // Both names are in the folder: that of a merge that was killed.
        fs::hard_link(at("run/nfs/part"), at("run/.nfs.tmp/part")).expect("linked");
        symlink(at("precious"), at("run/link")).expect("linked");
        let place = Place::open(&at("run")).expect("there");
        let to = |user| (Uid::from_raw(user), Gid::from_raw(user));
        let giving = |from: Option<u32>, user| Giving {
            from: from.map(Uid::from_raw),
            to: to(user),
            since_ns: None,
        };
        let owner = |name: &str| fs::symlink_metadata(at(name)).expect("there").uid();
        place.give(giving(Some(7), 8)).expect("nobody's");
        assert_eq!(owner("run"), 0);
        place.give(giving(None, 7)).expect("given");
        assert_eq!((owner("run/nfs"), owner("run/nfs/part")), (7, 0));
        place.remove_half_merged();
        assert!(!at("run/.nfs.tmp").exists());
        fs::write(at("run/young"), b"x").expect("written");
        let young = Giving {
            since_ns: Some(file_time_ns() + 1_000_000_000),
            ..giving(None, 9)
        };
        place.give(young).expect("given");
        assert_eq!((owner("run/nfs"), owner("run/young")), (7, 0));
        place.give(giving(None, 8)).expect("given");
        for given in ["run", "run/nfs", "run/trace.json", "run/nfs/part"] {
            assert_eq!(owner(given), 8, "{given}");
        }
        for kept in [
            "precious",
            "run/nfs/planted",
            "run/link",
            "run/nfs/inner/deep",
        ] {
            assert_eq!(owner(kept), 0, "{kept}");
        }
        place.give_folders(giving(Some(8), 9)).expect("given");
        assert_eq!((owner("run/nfs"), owner("run/nfs/part")), (9, 8));
    }
}
