//! The start of a run in a folder that holds a trace: until then that trace is whole, and the run
//! has beside it what it opens first.
//!
//! ```text
//!  create ─► room, socket, states, parts that wait ─► start: the old trace goes, names are given
//!        └── all that can fail: ports, files, privileges, the sandbox, the server ──┘
//! ```

use std::fs::File;
use std::path::Path;

use lineside_host::{FolderError, temporary_name};
use rustix::fs::{AtFlags, Mode, OFlags};

use crate::folder::{RunFolder, lock};
use crate::trace_files::{Before, STATES, is_state};

impl RunFolder {
    /// Opens the two [files](STATES) in which the run keeps what the next one takes over. Until the
    /// start they are beside those of the run before.
    pub fn open_states(&self) -> Result<[File; 2], FolderError> {
        let mut before = lock(&self.0.before);
        before.has_states = true;
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let open = |name: &str| {
            let hidden = temporary_name(name);
            // One that was killed early left it.
            let _ = rustix::fs::unlinkat(self.file(), &hidden, AtFlags::empty());
            let opened =
                rustix::fs::openat(self.file(), &hidden, flags, Mode::from_raw_mode(0o600));
            let path = self.path().join(name);
            opened
                .map(File::from)
                .map_err(|error| FolderError::io(&path, "open the file", error.into()))
        };
        let files = [open(STATES[0])?, open(STATES[1])?];
        if before.replaced.is_none() {
            self.name_states(&mut before)?;
        }
        Ok(files)
    }

    fn name_states(&self, before: &mut Before) -> Result<(), FolderError> {
        if !std::mem::take(&mut before.has_states) {
            return Ok(());
        }
        let folder = self.file();
        STATES.iter().try_for_each(|name| {
            let renamed = rustix::fs::renameat(folder, temporary_name(name), folder, *name);
            renamed.map_err(|error| self.failed(Path::new(name), "rename the file", error.into()))
        })
    }

    /// What could fail has been tried: what the folder held before goes. To be called once
    /// privileges are dropped; what another user could not remove then goes before.
    pub(crate) fn start(&self) -> Result<(), FolderError> {
        let mut before = lock(&self.0.before);
        let Some(mut replaced) = before.replaced.take() else {
            return Ok(());
        };
        self.0.started.notify_all();
        lock(&self.0.emptied).extend_from_slice(&replaced.folders);
        if before.has_states {
            // New ones take their names: at every instant there are some.
            { &mut replaced.rests }.retain(|(table, name)| table.is_some() || !is_state(name));
        }
        replaced.remove()?;
        self.name_states(&mut before)
    }

    /// A name that this run takes by itself, before its start: a file that an interrupted run left
    /// there is not removed later. Whether there is one.
    pub(crate) fn own(&self, name: &str) -> bool {
        let mut before = lock(&self.0.before);
        let Some(replaced) = &mut before.replaced else {
            return false;
        };
        let count = replaced.rests.len();
        { &mut replaced.rests }.retain(|(table, rest)| table.is_some() || rest != name);
        replaced.rests.len() < count
    }

    /// Waits until the run has started, or `is_over`, which [`wake`](Self::wake) has looked at.
    pub(crate) fn wait_to_start(&self, is_over: impl Fn() -> bool) {
        let before = lock(&self.0.before);
        let is_early = |before: &mut Before| before.replaced.is_some() && !is_over();
        drop(self.0.started.wait_while(before, is_early));
    }

    /// Whether the run has started, or its folder held nothing before.
    pub(crate) fn has_started(&self) -> bool {
        lock(&self.0.before).replaced.is_none()
    }

    /// Wakes those that wait for the start, to look whether all is over.
    pub(crate) fn wake(&self) {
        let _before = lock(&self.0.before);
        self.0.started.notify_all();
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "tests arrange by path what is found by descriptors"
)]
mod tests {
    use std::fs;

    use lineside_account::Budget;

    use super::*;
    use crate::folder::tests::trace;
    use crate::room::MANIFEST;
    use crate::{Control, IsTrace, NewPart, PartWriter};

    /// Takes any files for a trace's.
    const ANY: IsTrace = |_| Ok(());

    /// Whatever a run has open before its start, the trace that it would replace stays as it was.
    #[test]
    fn a_run_that_cannot_start_replaces_nothing() {
        let parent = tempfile::tempdir().expect("a folder");
        let path = trace(parent.path());
        let before = RunFolder::create(&path, Some(ANY)).expect("a trace");
        before.replace(MANIFEST, b"{}").expect("written");
        fs::create_dir_all(path.join("operations")).expect("there");
        fs::write(path.join("operations/part-000000.parquet"), b"x").expect("written");
        drop(before.open_states().expect("opened"));
        fs::write(path.join(STATES[1]), b"the table").expect("written");
        drop(before);
        let held = || {
            let mut held: Vec<_> = { ["", "operations"].iter() }
                .flat_map(|folder| fs::read_dir(path.join(folder)).expect("there"))
                .map(|entry| entry.expect("an entry").path())
                .map(|path| (fs::read(&path).unwrap_or_default(), path))
                .collect();
            held.sort();
            held
        };
        let all = held();
        assert_eq!(all.len(), 5, "{all:?}");
        let part = || NewPart {
            table: "operations".to_owned(),
            file: "part-000009.parquet".to_owned(),
            rows: 1,
            window_ns: None,
            bytes: vec![1].into(),
        };
        let open = || {
            let folder = RunFolder::create(&path, Some(ANY)).expect("a trace");
            folder.keep_room(10_000).expect("there is room");
            let control = Control::listen(&folder, &Budget::new(1 << 20)).expect("a socket");
            let states = folder.open_states().expect("opened");
            let mut writer = PartWriter::new(&folder).start().expect("a thread");
            for _ in 0..9 {
                writer.submit(part()).expect("it waits");
            }
            (writer, control, states, folder)
        };
        drop(open());
        assert_eq!(held(), all);
        // One that is killed leaves no more than the next one knows.
        let (writer, control, _, folder) = open();
        std::mem::forget((control, folder.clone()));
        drop((writer, folder.place().file().unlock()));
        assert_eq!(held().iter().filter(|it| all.contains(it)).count(), 5);
        let (writer, _control, _, folder) = open();
        folder.replace(MANIFEST, b"{}").expect("written");
        assert!(!path.join("operations/part-000000.parquet").exists());
        assert_eq!(
            fs::read(path.join(STATES[1])).expect("there"),
            b"",
            "the new one"
        );
        writer
            .finish()
            .expect_err("the same name nine times, or written");
    }
}
