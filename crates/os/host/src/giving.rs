//! Who owns a run's folder and what is in it, changed by descriptors: whoever owns the folder above
//! may rename what is there at any instant, put links in its place and other files into it, and is
//! given nothing for that.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, Stat, fchown, fstat, openat};
use rustix::io::Errno;
use rustix::process::{Gid, Uid, geteuid};

use crate::file_times::is_since;
use crate::folder_error::FolderError;
use crate::place::{Place, names_in};
use crate::privileges::is_stand_in;

/// Whose files are given to whom.
#[derive(Debug, Clone, Copy)]
pub struct Giving {
    /// Only what belongs to this user; `None`: all.
    pub from: Option<Uid>,
    pub to: (Uid, Gid),
    /// Only what was made at this time or later, on file systems that know when, nanoseconds since
    /// the Unix epoch: what is older was put there. `None`: all.
    pub since_ns: Option<i64>,
}

impl Place {
    /// Gives to the owner of the folder above what a run in this one was lent and did not give
    /// back, since all of it was killed.
    pub fn take_back(&self, above: &Self) -> Result<(), FolderError> {
        let owner = |place: &Self| place.owner().ok();
        let (Some((lent_to, _)), Some((user, group))) = (owner(self), owner(above)) else {
            return Ok(());
        };
        let is_lent = is_stand_in(lent_to) && geteuid().is_root() && user != lent_to;
        match is_lent {
            true => self.give(Giving {
                from: Some(Uid::from_raw(lent_to)),
                to: (Uid::from_raw(user), Gid::from_raw(group)),
                since_ns: None,
            }),
            false => Ok(()),
        }
    }

    /// Gives this folder, the folders in it and the files of all of them to a user: files of one
    /// name, and no link.
    pub fn give(&self, giving: Giving) -> Result<(), FolderError> {
        self.walk(&mut |found| giving.give(found))
    }

    /// Gives this folder and the folders in it to a user. Files keep their owner.
    pub fn give_folders(&self, giving: Giving) -> Result<(), FolderError> {
        self.walk(&mut |found| match found.kind().is_dir() {
            true => giving.give(found),
            false => Ok(()),
        })
    }

    /// Removes what a merge left that was killed: second names of what a table's own folder has,
    /// and a merged part that has no name yet.
    pub(crate) fn remove_half_merged(&self) {
        let hidden = |name: &str| Some(name.strip_prefix('.')?.strip_suffix(".tmp")?.to_owned());
        for name in self.names().unwrap_or_default() {
            if hidden(&name).is_some_and(|table| self.child(table).is_ok()) {
                // What cannot be removed keeps its owner; the next run in the folder tries again.
                let _ = self.remove_folder(&name);
            }
        }
    }

    /// Shows this folder, and what is in it and in the folders in it: each is opened, and is no
    /// link.
    fn walk(&self, each: &mut dyn FnMut(&Found<'_>) -> io::Result<()>) -> Result<(), FolderError> {
        fn below(
            (folder, is_top, depth): (&File, bool, u8),
            each: &mut dyn FnMut(&Found<'_>) -> io::Result<()>,
        ) -> io::Result<()> {
            each(&Found {
                file: folder.as_fd(),
                facts: fstat(folder)?,
                within: None,
                is_top,
            })?;
            for name in names_in(folder).unwrap_or_default() {
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = match openat(folder, &name, flags, Mode::empty()) {
                    Err(Errno::NOENT) => continue,
                    file => file?,
                };
                let found = Found {
                    file: file.as_fd(),
                    facts: fstat(&file)?,
                    within: Some((folder, &name)),
                    is_top: false,
                };
                if !found.kind().is_dir() {
                    each(&found)?;
                } else if depth > 0 {
                    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                    let inner = File::from(openat(&file, ".", flags, Mode::empty())?);
                    below((&inner, false, depth - 1), each)?;
                }
            }
            Ok(())
        }
        let walked = below((self.file(), true, 1), each);
        walked.map_err(|error| FolderError::io(self.path(), "change the owner", error))
    }
}

/// What a walk has found.
struct Found<'a> {
    /// Of a folder open, else a place in the file system alone.
    file: BorrowedFd<'a>,
    facts: Stat,
    /// Of what is no folder.
    within: Option<(&'a File, &'a OsStr)>,
    /// The folder where the walk began.
    is_top: bool,
}

impl Found<'_> {
    fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.facts.st_mode)
    }

    /// The file itself, open; `None` if its name leads to something else by now, or may not be
    /// read.
    fn open(&self) -> Option<OwnedFd> {
        let (folder, name) = self.within?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(folder, name, flags, Mode::empty()).ok()?;
        let facts = fstat(&file).ok()?;
        let is_it = (facts.st_dev, facts.st_ino) == (self.facts.st_dev, self.facts.st_ino);
        (is_it && facts.st_nlink == 1).then_some(file)
    }
}

impl Giving {
    fn give(&self, found: &Found<'_>) -> io::Result<()> {
        let (user, group) = self.to;
        let is_his = self
            .from
            .is_none_or(|from| from.as_raw() == found.facts.st_uid);
        let is_young = || match self.since_ns {
            Some(since_ns) => found.is_top || is_since(found.file, since_ns),
            None => true,
        };
        if !is_his || !is_young() {
            return Ok(());
        }
        match found.kind() {
            FileType::Directory => Ok(fchown(found.file, Some(user), Some(group))?),
            FileType::RegularFile => match found.open() {
                Some(file) => Ok(fchown(file, Some(user), Some(group))?),
                None => Ok(()),
            },
            // A socket stays with the user that is asked at it.
            _ => Ok(()),
        }
    }
}
