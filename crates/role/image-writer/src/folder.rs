//! A folder of this host.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use hashbrown::HashMap;
use lineside_host::{Owners, Place};
use lineside_image::{Entry, Image, Kind};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, fchmod, ftruncate, futimens,
    linkat, mkdirat, mknodat, openat, symlinkat,
};
use rustix::io::Errno;

use crate::{
    DEVICE, LINK, MODE, Note, OWNER, SET_ID, SIZE, SPECIAL, TARGET, TIME, Target, WriteError,
    shown, target_of,
};

/// Files that are open at once, below the limit of every system.
const FILES_MAX: usize = 64;

const NO_LINK: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC);
const FOLDER: OFlags = NO_LINK.union(OFlags::DIRECTORY);

/// While it is written, nobody else gets into it.
const OWN_FOLDER: Mode = Mode::RWXU;
const OWN_FILE: Mode = Mode::RUSR.union(Mode::WUSR);

/// A folder that is written.
#[derive(Debug)]
pub struct FolderTarget {
    place: Place,
    /// The directory that was last used.
    directory: Option<(u32, OwnedFd)>,
    files: HashMap<u32, (File, u64)>,
    uses: u64,
    /// What gives files to their owners.
    owners: Option<Owners>,
    notes: Vec<Note>,
}

impl FolderTarget {
    /// Writes into a folder, which is empty; by `owners` files go to theirs.
    pub fn new(place: Place, owners: Option<Owners>) -> Self {
        Self {
            place,
            directory: None,
            files: HashMap::new(),
            uses: 0,
            owners,
            notes: Vec::new(),
        }
    }

    fn note(&mut self, entry: u32, what: &'static str) {
        self.notes.push(Note { entry, what });
    }

    fn failed(&self, image: &Image, at: u32, what: &'static str, error: Errno) -> WriteError {
        let path = shown(&self.place.path().display().to_string(), image, at);
        let error = std::io::Error::from(error);
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::EXIST) => WriteError::TwoForOne { path },
            Some(Errno::NOSPC | Errno::DQUOT) => {
                let why = error.to_string();
                WriteError::Full { path, why }
            }
            _ => WriteError::Folder { path, what, error },
        }
    }

    /// Opens a directory of the image, step by step from the top.
    fn open_directory(&mut self, image: &Image, at: u32) -> Result<OwnedFd, Errno> {
        if let Some((_, open)) = self.directory.as_ref().filter(|(last, _)| *last == at) {
            return open.try_clone().map_err(|_| Errno::MFILE);
        }
        let mut steps = Vec::new();
        let mut step = at;
        let last = self.directory.take();
        let is_last = |step: u32| last.as_ref().is_some_and(|(last, _)| *last == step);
        while step != 0 && !is_last(step) {
            steps.push(step);
            step = image.entry(step).parent;
        }
        let mut open = match last {
            Some((last, open)) if last == step => open,
            _ => openat(self.place.file(), ".", FOLDER, Mode::empty())?,
        };
        while let Some(step) = steps.pop() {
            open = openat(&open, image.entry(step).name, FOLDER, Mode::empty())?;
        }
        let kept = open.try_clone().map_err(|_| Errno::MFILE)?;
        self.directory = Some((at, kept));
        Ok(open)
    }

    fn open(&mut self, image: &Image, at: u32, flags: OFlags) -> Result<OwnedFd, Errno> {
        let entry = image.entry(at);
        let parent = self.open_directory(image, entry.parent)?;
        openat(&parent, entry.name, flags | NO_LINK, Mode::empty())
    }

    /// Makes an entry; what became of it otherwise.
    fn make_in(
        &mut self,
        image: &Image,
        parent: &OwnedFd,
        entry: &Entry<'_>,
    ) -> Result<Option<&'static str>, Errno> {
        let name = entry.name;
        if let Some(first) = entry.link_of {
            let first = image.entry(first);
            let from = self.open_directory(image, first.parent)?;
            return match linkat(&from, first.name, parent, name, AtFlags::empty()) {
                Ok(()) => Ok(None),
                Err(Errno::MLINK | Errno::PERM | Errno::OPNOTSUPP) => {
                    make_file(parent, name)?;
                    Ok(Some(LINK))
                }
                Err(error) => Err(error),
            };
        }
        match entry.kind {
            Kind::Directory => mkdirat(parent, name, OWN_FOLDER)?,
            Kind::File => make_file(parent, name)?,
            Kind::BlockDevice | Kind::CharacterDevice => {
                make_file(parent, name)?;
                return Ok(Some(DEVICE));
            }
            Kind::Link => {
                let (target, is_right) = target_of(entry);
                symlinkat(target.as_slice(), parent, name)?;
                return Ok((!is_right).then_some(TARGET));
            }
            Kind::Socket | Kind::Fifo => {
                let kind = match entry.kind {
                    Kind::Socket => FileType::Socket,
                    _ => FileType::Fifo,
                };
                let mode = Mode::from_raw_mode(entry.mode & 0o777);
                match mknodat(parent, name, kind, mode, 0) {
                    Err(Errno::PERM | Errno::OPNOTSUPP | Errno::INVAL) => {
                        make_file(parent, name)?;
                        return Ok(Some(SPECIAL));
                    }
                    made => made?,
                }
            }
        }
        Ok(None)
    }

    /// The file that is open for writing.
    fn file(&mut self, image: &Image, at: u32) -> Result<&File, Errno> {
        self.uses += 1;
        if !self.files.contains_key(&at) {
            if self.files.len() >= FILES_MAX {
                let oldest = self.files.iter().min_by_key(|(_, (_, used))| *used);
                let oldest = oldest.map(|(&at, _)| at);
                oldest.map(|at| self.files.remove(&at));
            }
            let file = self.open(image, at, OFlags::WRONLY)?;
            self.files.insert(at, (file.into(), 0));
        }
        let (file, used) = self.files.get_mut(&at).ok_or(Errno::BADF)?;
        *used = self.uses;
        Ok(file)
    }

    fn give(&mut self, image: &Image, at: u32, entry: &Entry<'_>) {
        let mine = (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        );
        let is_mine = |number: Option<u32>, mine: u32| number.is_none_or(|number| number == mine);
        if entry.is_added || is_mine(entry.uid, mine.0) && is_mine(entry.gid, mine.1) {
            return;
        }
        let path = image.path(at);
        let owners = self.owners.as_ref();
        if !owners.is_some_and(|owners| owners.give(&path, entry.uid, entry.gid)) {
            self.note(at, OWNER);
        }
    }

    fn set(&mut self, at: u32, entry: &Entry<'_>, open: &OwnedFd) -> Result<(), Errno> {
        if entry.kind == Kind::File {
            match ftruncate(open, entry.size) {
                Err(Errno::FBIG | Errno::INVAL | Errno::PERM) => self.note(at, SIZE),
                done => done?,
            }
        }
        let set_id = 0o6000;
        let mut mode = entry.mode;
        if entry.kind != Kind::Directory && mode & set_id > 0 {
            self.note(at, SET_ID);
            mode &= !set_id;
        }
        if fchmod(open, Mode::from_raw_mode(mode)).is_err() {
            self.note(at, MODE);
        }
        if let Some(ns) = entry.mtime_ns {
            let time = Timespec {
                tv_sec: ns.div_euclid(1_000_000_000),
                tv_nsec: ns.rem_euclid(1_000_000_000),
            };
            let omit = Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            };
            let times = Timestamps {
                last_access: omit,
                last_modification: time,
            };
            if futimens(open, &times).is_err() {
                self.note(at, TIME);
            }
        }
        Ok(())
    }
}

/// A new file: what is there is neither opened nor followed.
fn make_file(parent: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | NO_LINK;
    openat(parent, name, flags, OWN_FILE).map(drop)
}

impl Target for FolderTarget {
    fn make(&mut self, image: &Image, at: u32, entry: &Entry<'_>) -> Result<(), WriteError> {
        if at == 0 {
            return Ok(());
        }
        let made = { self.open_directory(image, entry.parent) }
            .and_then(|parent| self.make_in(image, &parent, entry));
        let noted = made.map_err(|error| self.failed(image, at, "make it", error))?;
        noted.into_iter().for_each(|what| self.note(at, what));
        Ok(())
    }

    fn write(
        &mut self,
        image: &Image,
        at: u32,
        offset: u64,
        data: &[u8],
    ) -> Result<(), WriteError> {
        let file = self.file(image, at);
        let written = file.and_then(|file| {
            let written = file.write_all_at(data, offset);
            written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        });
        match written {
            // Beyond what this file system has for a file: its size is noted when it is set.
            Err(Errno::FBIG | Errno::INVAL) => Ok(()),
            written => written.map_err(|error| self.failed(image, at, "write it", error)),
        }
    }

    fn settle(&mut self, image: &Image, at: u32, entry: &Entry<'_>) -> Result<(), WriteError> {
        self.files.remove(&at);
        let flags = match (entry.kind, entry.link_of) {
            (_, Some(_)) => return Ok(()),
            (Kind::Link, _) => {
                self.give(image, at, entry);
                return Ok(());
            }
            (Kind::Socket, _) => {
                // It cannot be opened; those bits are what a umask takes away.
                if entry.mode & 0o7022 > 0 {
                    self.note(at, MODE);
                }
                self.give(image, at, entry);
                return Ok(());
            }
            (Kind::Fifo, _) => OFlags::RDONLY | OFlags::NONBLOCK,
            (Kind::Directory, _) => OFlags::RDONLY | OFlags::DIRECTORY,
            _ => OFlags::WRONLY,
        };
        let open = match at {
            0 => openat(self.place.file(), ".", flags | NO_LINK, Mode::empty()),
            _ => self.open(image, at, flags),
        };
        let set = open.and_then(|open| self.set(at, entry, &open));
        set.map_err(|error| self.failed(image, at, "set its attributes", error))?;
        // Once it is another's, this process cannot change it any more.
        self.give(image, at, entry);
        Ok(())
    }

    fn finish(&mut self, _: &Image) -> Result<(), WriteError> {
        Ok(())
    }

    fn notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }
}
