//! Room on the disk for the last `trace.json` of a run, kept from its beginning on: a full disk
//! takes rows, and never the account of what was measured.
//!
//! The room is a hidden file, whose blocks are allocated. Where there is no other room it is
//! written in place and renamed, which needs none. It goes with the run's last handle.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use lineside_host::{FolderError, Place};
use rustix::fs::{AtFlags, FallocateFlags, fallocate};
use rustix::io::Errno;

/// What describes a run, in its folder.
pub(crate) const MANIFEST: &str = "trace.json";

/// Its name.
pub(crate) const ROOM: &str = ".trace.json.room";

/// Zeros that are written at once where the file system allocates nothing beforehand.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Blocks that are kept.
#[derive(Debug)]
pub(crate) struct Room {
    file: File,
    len: u64,
}

impl Room {
    /// Keeps `len` bytes in a folder.
    pub(crate) fn keep(place: &Place, len: u64) -> Result<Self, FolderError> {
        let kept = || -> io::Result<Self> {
            let file = place.make_file(ROOM.as_ref(), true)?;
            let mut room = Self { file, len: 0 };
            room.grow(len)?;
            Ok(room)
        };
        kept().map_err(|error| {
            remove(place);
            let path = place.path().join(MANIFEST);
            FolderError::io(&path, "keep room on the disk for the file", error)
        })
    }

    /// Keeps more.
    pub(crate) fn grow(&mut self, len: u64) -> io::Result<()> {
        if len <= self.len {
            return Ok(());
        }
        match fallocate(&self.file, FallocateFlags::empty(), 0, len) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.write_zeros(len)?,
            allocated => allocated?,
        }
        self.len = len;
        Ok(())
    }

    /// Whether a file of this length needs no other room.
    pub(crate) fn fits(&self, len: usize) -> bool {
        len as u64 <= self.len
    }

    fn write_zeros(&self, len: u64) -> io::Result<()> {
        let mut at = self.len;
        while at < len {
            let zeros = &ZEROS[..ZEROS.len().min((len - at) as usize)];
            self.file.write_all_at(zeros, at)?;
            at += zeros.len() as u64;
        }
        self.file.sync_all()
    }

    /// Becomes the file `name` of the folder, with these bytes.
    pub(crate) fn become_file(self, place: &Place, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, 0)?;
        self.file.set_len(bytes.len() as u64)?;
        self.file.sync_all()?;
        Ok(rustix::fs::renameat(
            place.file(),
            ROOM,
            place.file(),
            name,
        )?)
    }
}

/// Takes the room away, if there is some.
pub(crate) fn remove(place: &Place) {
    let _ = rustix::fs::unlinkat(place.file(), ROOM, AtFlags::empty());
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "tests arrange by path what is found by descriptors"
)]
mod tests {
    use std::fs;

    use lineside_testkit::disk::SmallDisk;

    use crate::RunFolder;

    #[test]
    fn the_last_record_has_room_on_a_full_disk() {
        let parent = tempfile::tempdir().expect("a folder");
        let Some(_disk) = SmallDisk::mount(parent.path(), 256 << 10) else {
            println!("SKIP: mounting a small tmpfs needs root");
            return;
        };
        let path = parent.path().join("run");
        let folder = RunFolder::create(&path, None).expect("created");
        folder.keep_room(100_000).expect("there is room");
        folder.replace("trace.json", b"{}").expect("written");
        folder.keep_room(110_000).expect("for more");
        folder.keep_room(10).expect("what is kept is more");
        folder
            .keep_room(1 << 20)
            .expect_err("as much as that is not there");
        let filler = vec![1; 256 << 10];
        fs::write(parent.path().join("filler"), filler).expect_err("it is full");
        folder
            .replace_last(&vec![b'x'; 120_000])
            .expect_err("more than was kept");
        let record = vec![b'x'; 109_000];
        assert!(folder.replace("trace.json", &record).is_err());
        assert_eq!(fs::read(path.join("trace.json")).expect("there"), b"{}");
        folder.replace_last(&record).expect("it has its room");
        assert_eq!(fs::read(path.join("trace.json")).expect("there"), record);
        drop(folder);
        assert_eq!(fs::read_dir(&path).expect("there").count(), 1);
    }

    #[test]
    fn room_that_nobody_needed_goes() {
        let parent = tempfile::tempdir().expect("a folder");
        let path = parent.path().join("run");
        let folder = RunFolder::create(&path, None).expect("created");
        folder.keep_room(1_000).expect("there is room");
        assert_eq!(fs::read_dir(&path).expect("there").count(), 1);
        drop(folder);
        assert!(!path.exists(), "it was made for the run");
        // A run that was killed leaves it, and the next one takes its place.
        let folder = RunFolder::create(&path, None).expect("created");
        folder.keep_room(1_000).expect("there is room");
        folder.replace_last(b"{}").expect("written");
        fs::write(path.join(super::ROOM), b"0").expect("written");
        drop(folder);
        let folder = RunFolder::create(&path, Some(|_| Ok(()))).expect("a trace");
        folder.replace("trace.json", b"{}").expect("written");
        drop(folder);
        assert_eq!(fs::read_dir(&path).expect("there").count(), 1);
    }
}
