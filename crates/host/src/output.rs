//! The thread that writes finished parts of a trace into the run's folder. Encoding is not done
//! here.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::folder::{FolderError, RunFolder};

/// Parts that wait for the disk before [`PartWriter::wait_for_room`] does: at some 10 MiB each,
/// what a slow disk may hold in memory. A guess.
const QUEUED_MAX: usize = 4;

/// Writes parts into a run folder on a thread of its own, so that encoding does not wait for the
/// disk.
///
/// After an error no further part is written: complete parts stay, and the first error is the
/// answer to the next [`submit`](Self::submit) and to [`finish`](Self::finish).
#[derive(Debug)]
pub struct PartWriter {
    queue: PartQueue,
    unstarted: Option<Unstarted>,
    /// `None` once finished.
    thread: Option<JoinHandle<()>>,
}

/// A thread that nothing needs yet.
#[derive(Debug)]
struct Unstarted {
    folder: RunFolder,
    parts: Receiver<Option<QueuedPart>>,
    /// Bytes of parts that wait for [`PartWriter::finish`], if that comes next.
    last_bytes: Option<usize>,
}

/// Bytes of last parts that are not worth a thread.
const LAST_BYTES_MAX: usize = 1 << 20;

/// A way to a [`PartWriter`] that never waits: for those that must not block. The thread that gives
/// them work [waits](PartWriter::wait_for_room) in their place.
#[derive(Debug, Clone)]
pub struct PartQueue {
    // `None` ends the thread.
    parts: Sender<Option<QueuedPart>>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct QueuedPart {
    table: String,
    file: String,
    bytes: Pieces,
}

/// The bytes of a file, in pieces that follow one another.
#[derive(Debug)]
pub struct Pieces(Vec<Vec<u8>>);

impl From<Vec<u8>> for Pieces {
    fn from(bytes: Vec<u8>) -> Self {
        Self(vec![bytes])
    }
}

impl From<Vec<Vec<u8>>> for Pieces {
    fn from(pieces: Vec<Vec<u8>>) -> Self {
        Self(pieces)
    }
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    has_room: Condvar,
}

#[derive(Debug, Default)]
struct State {
    error: Option<FolderError>,
    queued: usize,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A poisoned lock still holds whole values: they are only ever assigned.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self) -> Option<FolderError> {
        self.state().error.clone()
    }
}

impl PartWriter {
    /// A writer into `folder`. Its thread starts with the first part.
    pub fn new(folder: &RunFolder) -> Self {
        let (parts, receiver) = channel();
        Self {
            queue: PartQueue {
                parts,
                shared: Arc::default(),
            },
            unstarted: Some(Unstarted {
                folder: folder.clone(),
                parts: receiver,
                last_bytes: None,
            }),
            thread: None,
        }
    }

    /// A writer whose thread runs: others will [queue](Self::queue) parts.
    pub fn start(folder: &RunFolder) -> Result<Self, FolderError> {
        let mut writer = Self::new(folder);
        writer.start_thread()?;
        Ok(writer)
    }

    fn start_thread(&mut self) -> Result<(), FolderError> {
        let Some(Unstarted { folder, parts, .. }) = self.unstarted.take() else {
            return Ok(());
        };
        let path = folder.path().to_owned();
        let thread = thread::Builder::new().name("output".to_owned()).spawn({
            let shared = Arc::clone(&self.queue.shared);
            move || write_parts(&folder, &parts, &shared)
        });
        let thread = thread
            .map_err(|error| FolderError::io(&path, "start the thread that writes", error))?;
        self.thread = Some(thread);
        Ok(())
    }

    /// What is submitted from now on are the last parts, which [`finish`](Self::finish) will
    /// follow. A short run needs no thread for them.
    pub fn expect_last(&mut self) {
        if let Some(unstarted) = &mut self.unstarted {
            unstarted.last_bytes = Some(0);
        }
    }

    /// Queues a part, `TABLE/FILE`; waits while the queue is full.
    pub fn submit(
        &mut self,
        table: &str,
        file: &str,
        bytes: impl Into<Pieces>,
    ) -> Result<(), FolderError> {
        let bytes = bytes.into();
        let waiting = self.unstarted.as_mut().and_then(|unstarted| {
            let waiting = unstarted.last_bytes.as_mut()?;
            *waiting += bytes.0.iter().map(Vec::len).sum::<usize>();
            Some(*waiting)
        });
        if waiting.is_none_or(|waiting| waiting > LAST_BYTES_MAX) {
            self.start_thread()?;
            self.wait_for_room();
        }
        self.queue.submit(table, file, bytes)
    }

    /// Waits while the queue is full, and nothing has failed.
    pub fn wait_for_room(&self) {
        let Shared {
            state, has_room, ..
        } = &*self.queue.shared;
        let is_full = |state: &mut State| state.queued >= QUEUED_MAX && state.error.is_none();
        let state = state.lock().unwrap_or_else(PoisonError::into_inner);
        drop(has_room.wait_while(state, is_full));
    }

    /// A way to this writer, to be used until it is finished.
    pub fn queue(&self) -> PartQueue {
        self.queue.clone()
    }

    /// Waits until everything is written; the first error, if there was one.
    pub fn finish(mut self) -> Result<(), FolderError> {
        self.close();
        match self.queue.shared.error() {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    fn close(&mut self) {
        // It fails only if the thread has ended, which joining it reports.
        let _ = self.queue.parts.send(None);
        if let Some(Unstarted { folder, parts, .. }) = self.unstarted.take() {
            write_parts(&folder, &parts, &self.queue.shared);
        }
        if let Some(thread) = self.thread.take() {
            thread.join().expect("writing parts does not panic");
        }
    }
}

impl PartQueue {
    /// Queues a part, `TABLE/FILE`, without waiting.
    pub fn submit(
        &self,
        table: &str,
        file: &str,
        bytes: impl Into<Pieces>,
    ) -> Result<(), FolderError> {
        let mut state = self.shared.state();
        if let Some(error) = &state.error {
            return Err(error.clone());
        }
        state.queued += 1;
        drop(state);
        let part = QueuedPart {
            table: table.to_owned(),
            file: file.to_owned(),
            bytes: bytes.into(),
        };
        self.parts
            .send(Some(part))
            .expect("parts are queued before the writer is finished");
        Ok(())
    }
}

impl Drop for PartWriter {
    /// What was submitted is written, also when a run ends early.
    fn drop(&mut self) {
        self.close();
    }
}

/// Writes the parts of a queue until its end, those together that wait at the same time.
fn write_parts(folder: &RunFolder, queue: &Receiver<Option<QueuedPart>>, shared: &Shared) {
    let mut is_open = true;
    while is_open && let Ok(first) = queue.recv() {
        let mut parts = Vec::new();
        let mut next = Some(first);
        while let Some(part) = next.take() {
            match part {
                Some(part) => {
                    parts.push(part);
                    next = queue.try_recv().ok();
                }
                None => is_open = false,
            }
        }
        let written = match shared.error() {
            None => write_together(folder, &parts),
            Some(_) => Ok(()),
        };
        let mut state = shared.state();
        state.queued -= parts.len();
        if let Err(error) = written {
            state.error = Some(error);
        }
        drop(state);
        shared.has_room.notify_all();
    }
}

fn write_together(folder: &RunFolder, parts: &[QueuedPart]) -> Result<(), FolderError> {
    for part in parts {
        folder.make_table(&part.table)?;
    }
    let file = |part: &'_ QueuedPart| Path::new(&part.table).join(&part.file);
    let files: Vec<_> = parts
        .iter()
        .map(|part| (file(part), part.bytes.0.as_slice()))
        .collect();
    folder.write(&files)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use lineside_testkit::disk::SmallDisk;

    use super::*;

    fn folder(parent: &Path) -> RunFolder {
        RunFolder::create(&parent.join("run"), None).expect("created")
    }

    #[test]
    fn parts_appear_whole_under_their_names() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = folder(parent.path());
        let mut writer = PartWriter::start(&folder).expect("started");
        for index in 0..20_u8 {
            let file = format!("part-{index:06}.parquet");
            writer
                .submit("nfs", &file, vec![index; 1000])
                .expect("no error");
        }
        let shared = Arc::clone(&writer.queue.shared);
        writer.finish().expect("written");
        assert_eq!(shared.state().queued, 0);
        let table = folder.path().join("nfs");
        assert_eq!(fs::read_dir(&table).expect("there").count(), 20);
        let last = fs::read(table.join("part-000019.parquet")).expect("there");
        assert_eq!(last, vec![19; 1000]);
    }

    #[test]
    fn the_last_parts_of_a_short_run_need_no_thread() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = folder(parent.path());
        let mut writer = PartWriter::new(&folder);
        writer.expect_last();
        let bytes = [100; 10].into_iter().chain([LAST_BYTES_MAX]);
        for (index, len) in bytes.enumerate() {
            assert!(writer.thread.is_none(), "part {index}");
            let file = format!("part-{index:06}.parquet");
            writer.submit("nfs", &file, vec![1; len]).expect("no error");
        }
        assert!(writer.thread.is_some(), "more than it may hold");
        writer.finish().expect("written");
        let names = fs::read_dir(folder.path().join("nfs")).expect("there");
        assert_eq!(names.count(), 11);

        let mut writer = PartWriter::new(&folder);
        writer.expect_last();
        let submitted = writer.submit("files", "part-000000.parquet", vec![1]);
        submitted.expect("no error");
        assert!(!folder.path().join("files").exists());
        drop(writer);
        assert!(folder.path().join("files/part-000000.parquet").exists());
    }

    #[test]
    fn the_first_error_is_remembered_and_ends_the_output() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = folder(parent.path());
        // Where the table's folder should be is a file.
        fs::write(folder.path().join("nfs"), b"").expect("written");
        let mut writer = PartWriter::start(&folder).expect("started");
        let mut submitted = Ok(());
        for _ in 0..=QUEUED_MAX + 2 {
            submitted =
                submitted.and_then(|()| writer.submit("nfs", "part-000000.parquet", vec![1]));
        }
        assert!(
            submitted.is_err(),
            "known before the queue was filled twice"
        );
        writer
            .submit("files", "part-000000.parquet", vec![1])
            .expect_err("remembered");
        let error = writer.finish().expect_err("remembered").to_string();
        assert!(error.contains("/nfs: cannot create the folder"), "{error}");
        assert!(!folder.path().join("files").exists());
    }

    #[test]
    fn queued_parts_are_not_written_after_an_error() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = folder(parent.path());
        fs::write(folder.path().join("nfs"), b"").expect("written");
        let (sender, receiver) = channel();
        let shared = Shared::default();
        shared.state().queued = 2;
        for table in ["nfs", "files"] {
            let part = QueuedPart {
                table: table.to_owned(),
                file: "part-000000.parquet".to_owned(),
                bytes: Vec::<u8>::new().into(),
            };
            sender.send(Some(part)).expect("it is received");
        }
        drop(sender);
        write_parts(&folder, &receiver, &shared);
        assert!(shared.error().is_some());
        assert!(!folder.path().join("files").exists());
    }

    #[test]
    fn a_full_disk_is_reported_and_leaves_complete_parts_only() {
        let parent = tempfile::tempdir().expect("a folder");
        let Some(_disk) = SmallDisk::mount(parent.path(), 64 << 10) else {
            println!("SKIP: mounting a small tmpfs needs root");
            return;
        };
        let folder = folder(parent.path());
        let mut writer = PartWriter::start(&folder).expect("started");
        writer
            .submit("nfs", "part-000000.parquet", vec![1; 30_000])
            .expect("fits");
        // Whether this answer has it already is a matter of time.
        let _ = writer.submit("nfs", "part-000001.parquet", vec![2; 90_000]);
        let error = writer.finish().expect_err("full").to_string();
        assert!(
            error.contains("/run/nfs/part-000001.parquet: cannot write the file"),
            "{error}"
        );
        assert!(
            error.ends_with("; free some space, or write elsewhere with -o"),
            "{error}"
        );
        let names = fs::read_dir(folder.path().join("nfs")).expect("there");
        let names: Vec<_> = names
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        assert_eq!(names, ["part-000000.parquet"]);
        fs::write(folder.path().join("fill"), vec![0; 28_000]).expect("fits");
        assert!(folder.replace("trace.json", &[b'x'; 40_000]).is_err());
    }
}
