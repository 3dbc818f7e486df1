//! A process that makes, names and removes the files of one series, and can do nothing else, beside
//! a run that has dropped its privileges: where the user that the run became may not write.
//!
//! ```text
//!  run, without privileges ── make NAME, remove NAME, rename NAME/NAME ──► process of root
//!                          ◄── the file, or an error ──
//! ```
//!
//! * It makes files of the series' names alone, and follows no link.
//! * It removes and renames what it made in this run.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, renameat, renameat_with, statat, unlinkat};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::folder_error::FolderError;
use crate::give_back::{KEPT, beside, receive};
use crate::place::Place;
use crate::privileges::{PrivilegeError, caller_of_sudo, keep_capabilities};
use crate::sandbox::Sandbox;
use crate::sandboxed_reader::{receive_file, send_file, serve_alone};

/// Two names (NAME_MAX), and what is wanted.
const REQUEST_LEN: usize = 1 + 255 + 1 + 255;

/// What makes the files of a series.
#[derive(Debug)]
pub struct FileMaker(Way);

#[derive(Debug)]
enum Way {
    /// This process, for good.
    Own(Series),
    /// The end of the run.
    Asked(OwnedFd),
}

impl FileMaker {
    /// For files that are named after `path`, such as `STEM_00001_TIME.SUFFIX`, and made by this
    /// process; the latest `kept` may be removed.
    pub fn new(path: &Path, replaces: bool, kept: usize) -> Result<Self, FolderError> {
        Ok(Self(Way::Own(Series::of(path, replaces, kept)?)))
    }

    /// The same, by a process beside this one, whose sandbox the folder is not in. To be called
    /// before there is another thread, and before what is not to be held is open.
    pub fn start(path: &Path, replaces: bool, kept: usize) -> Result<Self, PrivilegeError> {
        let series = Series::of(path, replaces, kept)?;
        let socket = beside(|socket| series.serve(socket));
        let socket = socket.map_err(|error| PrivilegeError::Io {
            action: "start the process that makes files",
            error,
        })?;
        Ok(Self(Way::Asked(socket)))
    }

    /// Makes a file of the series.
    pub fn make(&mut self, name: &OsStr) -> io::Result<File> {
        let made = self.ask(b'm', name.as_bytes())?;
        made.ok_or_else(|| io::Error::other("the process that makes files sent none"))
    }

    /// Removes a file that it made.
    pub fn remove(&mut self, name: &OsStr) -> io::Result<()> {
        self.ask(b'd', name.as_bytes()).map(drop)
    }

    /// Renames a file that it made.
    pub fn rename(&mut self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let names = [from.as_bytes(), b"/", to.as_bytes()].concat();
        self.ask(b'r', &names).map(drop)
    }

    fn ask(&mut self, what: u8, names: &[u8]) -> io::Result<Option<File>> {
        let request = [&[what], names].concat();
        match &mut self.0 {
            Way::Own(series) => Ok(series.answer(&request)?),
            Way::Asked(socket) => {
                send(&*socket, &request, SendFlags::NOSIGNAL)?;
                let file = receive_file(socket, "the process that makes files is gone")?;
                Ok(file.map(File::from))
            }
        }
    }
}

/// The files, and what may be done with them.
#[derive(Debug)]
struct Series {
    place: Place,
    stem: OsString,
    suffix: OsString,
    replaces: bool,
    /// The latest of those that it made, which may be removed.
    made: VecDeque<OsString>,
    kept: usize,
}

impl Series {
    fn of(path: &Path, replaces: bool, kept: usize) -> Result<Self, FolderError> {
        Ok(Self {
            place: Place::above(path)?,
            stem: path.file_stem().unwrap_or_default().to_owned(),
            suffix: path.extension().unwrap_or_default().to_owned(),
            replaces,
            made: VecDeque::new(),
            kept: kept.saturating_add(1),
        })
    }

    fn serve(mut self, socket: &OwnedFd) -> io::Result<()> {
        serve_alone(&[socket.as_fd(), self.place.file().as_fd()])?;
        keep_capabilities(&KEPT).map_err(io::Error::other)?;
        let sandbox = Sandbox::new().may_write_in(&self.place).may_give_files();
        sandbox.enter().map_err(io::Error::other)?;
        let mut request = [0; REQUEST_LEN];
        while let Some(len) = receive(socket, &mut request) {
            let done = self.answer(&request[..len]);
            let done = done.map_err(io::Error::from);
            send_file(
                socket,
                done.as_ref().map(|file| file.as_ref().map(AsFd::as_fd)),
            )?;
        }
        Ok(())
    }

    fn answer(&mut self, request: &[u8]) -> Result<Option<File>, Errno> {
        let (&what, names) = request.split_first().ok_or(Errno::INVAL)?;
        let mut names = names.split(|&byte| byte == b'/').map(OsStr::from_bytes);
        let name = names.next().ok_or(Errno::INVAL)?;
        match (what, names.next()) {
            (b'm', None) if self.is_of(name) => {
                let file = self.place.make_file(name, self.replaces)?;
                if let Some((user, group)) = caller_of_sudo() {
                    let _ = rustix::fs::fchown(&file, Some(user), Some(group));
                }
                self.add(name);
                Ok(Some(file))
            }
            (b'd', None) if self.take(name) => {
                unlinkat(self.place.file(), name, AtFlags::empty())?;
                Ok(None)
            }
            (b'r', Some(to)) if self.is_of(to) && self.take(name) => {
                let renamed = self.rename(name, to);
                self.add(if renamed.is_ok() { to } else { name });
                renamed.map(|()| None)
            }
            _ => Err(Errno::PERM),
        }
    }

    fn add(&mut self, name: &OsStr) {
        self.made.push_back(name.to_owned());
        if self.made.len() > self.kept {
            self.made.pop_front();
        }
    }

    /// Whether it made this file, which it then forgets.
    fn take(&mut self, name: &OsStr) -> bool {
        let place = self.made.iter().position(|made| made == name);
        place.is_some_and(|place| self.made.remove(place).is_some())
    }

    fn rename(&self, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
        let (folder, flags) = (self.place.file(), rustix::fs::RenameFlags::NOREPLACE);
        if self.replaces {
            return renameat(folder, from, folder, to);
        }
        match renameat_with(folder, from, folder, to, flags) {
            // Renaming without replacing, in one step, is not to be had on every file system.
            Err(Errno::INVAL | Errno::NOSYS) => {
                match statat(folder, to, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(_) => Err(Errno::EXIST),
                    Err(_) => renameat(folder, from, folder, to),
                }
            }
            renamed => renamed,
        }
    }

    /// Whether a name is one of the series: the stem, a number and a time, the suffix.
    fn is_of(&self, name: &OsStr) -> bool {
        let name = Path::new(name);
        let stem = name.file_stem().unwrap_or_default().as_bytes();
        let rest = stem.strip_prefix(self.stem.as_bytes());
        let is_number = |rest: &[u8]| {
            rest.first() == Some(&b'_')
                && rest
                    .iter()
                    .all(|&byte| byte == b'_' || byte.is_ascii_digit())
        };
        name.extension().unwrap_or_default() == self.suffix && rest.is_some_and(is_number)
    }
}
