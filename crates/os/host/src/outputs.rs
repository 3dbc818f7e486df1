//! Files that a run will write and that are made before its sandbox is entered, so that the folders
//! which they are in are out of its reach.
//!
//! What was made and is still empty when the run is over goes again, however it ended: a process
//! beside it waits for that, in a sandbox in which it removes files of these folders and reads
//! none.
//!
//! ```text
//!  run ── makes FILE ─► sandbox: may write FILE ─► ... ─► end, or kill
//!    └─ fork ─► waits ──────────────────────────────────────► FILE is empty: it goes
//! ```

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, FileType, fstat, statat, unlinkat};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};

use crate::folder_error::FolderError;
use crate::give_back::{beside, receive};
use crate::place::Place;
use crate::privileges::{Capability, keep_capabilities};
use crate::sandbox::Sandbox;
use crate::sandboxed_reader::serve_alone;

/// What removing a file of another's folder takes.
const KEPT: [Capability; 2] = [Capability::DacOverride, Capability::DacReadSearch];

/// Those of this process.
static OUTPUTS: Mutex<Outputs> = Mutex::new(Outputs {
    made: Vec::new(),
    waiting: Vec::new(),
});

struct Outputs {
    /// Nobody waits for their end yet.
    made: Vec<Made>,
    /// The ends of those that wait.
    waiting: Vec<OwnedFd>,
}

/// A file, and where it is.
struct Made {
    folder: Place,
    name: OsString,
    file: OwnedFd,
}

/// Makes the file at `path`, unless something is there; whether it did. No link is followed. What
/// stands in the way is for whoever opens it to report.
pub fn make_output(path: &Path) -> bool {
    let make = || -> Result<(Place, OwnedFd), FolderError> {
        let folder = Place::above(path)?;
        let name = path.file_name().unwrap_or_default();
        let made = folder.make_file(name, false);
        let made = made.map_err(|error| FolderError::io(path, "make the file", error.into()))?;
        Ok((folder, made.into()))
    };
    let Some((name, (folder, file))) = path.file_name().zip(make().ok()) else {
        return false;
    };
    add(folder, name.to_owned(), file);
    true
}

/// Makes a folder, and those above it that are not there. What is made belongs to who called sudo.
pub fn make_folders(path: &Path) -> Result<(), FolderError> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    if let Some(above) = path.parent() {
        make_folders(above)?;
    }
    Place::make(path).map(drop)
}

/// Has a file go at the end of the run if it is empty then: one that the run opened and emptied.
pub fn goes_if_empty(path: &Path, file: &File) {
    let kept = Place::above(path).ok().zip(file.try_clone().ok());
    if let Some((name, (folder, file))) = path.file_name().zip(kept) {
        add(folder, name.to_owned(), file.into());
    }
}

fn add(folder: Place, name: OsString, file: OwnedFd) {
    let mut outputs = OUTPUTS.lock().unwrap_or_else(PoisonError::into_inner);
    outputs.made.push(Made { folder, name, file });
}

/// Starts the process that waits for the end of this one, if a file was made. To be called before
/// there is another thread, and before privileges are dropped.
pub fn watch_outputs() -> io::Result<()> {
    let mut outputs = OUTPUTS.lock().unwrap_or_else(PoisonError::into_inner);
    let made = std::mem::take(&mut outputs.made);
    if made.is_empty() {
        return Ok(());
    }
    let socket = beside(|socket| {
        let files = made
            .iter()
            .flat_map(|made| [made.file.as_fd(), made.folder.file().as_fd()]);
        serve_alone(&files.chain([socket.as_fd()]).collect::<Vec<_>>())?;
        keep_capabilities(&KEPT).map_err(io::Error::other)?;
        let sandbox = made.iter().fold(Sandbox::new(), |sandbox, made| {
            sandbox.may_remove_files_in(&made.folder)
        });
        sandbox.enter().map_err(io::Error::other)?;
        while receive(socket, &mut [0]).is_some() {}
        for made in &made {
            // One that cannot be removed stays, and is empty.
            let _ = made.remove_if_empty();
        }
        Ok(())
    })?;
    outputs.waiting.push(socket);
    Ok(())
}

/// Waits until the empty files are gone: the last thing that a program does.
pub fn end_outputs() {
    let mut outputs = OUTPUTS.lock().unwrap_or_else(PoisonError::into_inner);
    for socket in outputs.waiting.drain(..) {
        let _ = shutdown(&socket, Shutdown::Write);
        while receive(&socket, &mut [0]).is_some() {}
    }
}

impl Made {
    fn remove_if_empty(&self) -> Result<(), Errno> {
        let (made, folder) = (fstat(&self.file)?, self.folder.file());
        let is_file = FileType::from_raw_mode(made.st_mode).is_file();
        let named = statat(folder, &self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        // Something else may have the name by now.
        let is_it = (named.st_dev, named.st_ino) == (made.st_dev, made.st_ino);
        match is_file && is_it && made.st_size == 0 {
            true => unlinkat(folder, &self.name, AtFlags::empty()),
            false => Ok(()),
        }
    }
}
