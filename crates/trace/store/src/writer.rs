//! The thread that writes finished parts of a trace into the run's folder. Encoding is not done
//! here.

use std::fmt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};

use lineside_account::Budget;
use lineside_host::FolderError;

use crate::compactor::{Compactor, Keeping};
use crate::folder::RunFolder;
use crate::queue::{NewPart, OnDisk, Order, Shared, State};

/// Parts that wait for the disk before [`PartWriter::wait_for_room`] does: at some 10 MiB each,
/// what a slow disk may hold in memory. A guess.
const QUEUED_MAX: usize = 4;

/// Writes parts into a run folder on a thread of its own, so that encoding does not wait for the
/// disk.
///
/// After an error no further part is written: complete parts stay, and the first error is the
/// answer to the next [`submit`](Self::submit) and to [`finish`](Self::finish).
///
/// Parts that come before the run has started in a folder that held a trace wait for that; if it
/// never does, they are nothing that was measured.
#[derive(Debug)]
pub struct PartWriter {
    folder: RunFolder,
    queue: PartQueue,
    unstarted: Option<Unstarted>,
    /// `None` once finished.
    thread: Option<JoinHandle<()>>,
}

/// A thread that nothing needs yet.
struct Unstarted {
    folder: RunFolder,
    orders: Receiver<Order>,
    keeping: Keeping,
    /// Bytes of parts that wait for [`PartWriter::finish`], if that comes next.
    last_bytes: Option<usize>,
}

impl fmt::Debug for Unstarted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Unstarted")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// Bytes of last parts that are not worth a thread.
const LAST_BYTES_MAX: usize = 1 << 20;

/// A way to a [`PartWriter`] that never waits: for those that must not block. The thread that gives
/// them work [waits](PartWriter::wait_for_room) in their place.
#[derive(Debug, Clone)]
pub struct PartQueue {
    orders: Sender<Order>,
    shared: Arc<Shared>,
}

impl PartWriter {
    /// A writer into `folder`. Its thread starts with the first part.
    pub fn new(folder: &RunFolder) -> Self {
        Self::keeping(folder, Keeping::default(), None)
    }

    /// A writer that keeps parts as `keeping` says. Those that wait for the disk draw on `budget`.
    pub fn keeping(folder: &RunFolder, keeping: Keeping, budget: Option<&Budget>) -> Self {
        let (orders, receiver) = channel();
        let shared = Shared {
            budget: budget.cloned(),
            ..Shared::default()
        };
        Self {
            folder: folder.clone(),
            queue: PartQueue {
                orders,
                shared: Arc::new(shared),
            },
            unstarted: Some(Unstarted {
                folder: folder.clone(),
                orders: receiver,
                keeping,
                last_bytes: None,
            }),
            thread: None,
        }
    }

    /// A writer whose thread runs: others will [queue](Self::queue) parts.
    pub fn start(mut self) -> Result<Self, FolderError> {
        self.start_thread()?;
        Ok(self)
    }

    fn start_thread(&mut self) -> Result<(), FolderError> {
        let Some(unstarted) = self.unstarted.take() else {
            return Ok(());
        };
        let path = unstarted.folder.path().to_owned();
        let queue = self.queue.clone();
        let thread = thread::Builder::new().name("output".to_owned());
        let thread = thread.spawn(move || unstarted.run(&queue));
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

    /// Queues a part; waits while the queue is full.
    pub fn submit(&mut self, part: NewPart) -> Result<(), FolderError> {
        let waiting = self.unstarted.as_mut().and_then(|unstarted| {
            let waiting = unstarted.last_bytes.as_mut()?;
            *waiting += part.bytes.len();
            Some(*waiting)
        });
        if waiting.is_none_or(|waiting| waiting > LAST_BYTES_MAX) {
            self.start_thread()?;
            self.wait_for_room();
        }
        self.queue.submit(part)
    }

    /// Waits while the queue is full, and nothing has failed. It does not before the run's start,
    /// which may be for this thread to make.
    pub fn wait_for_room(&self) {
        if !self.folder.has_started() {
            return;
        }
        let Shared {
            state, has_room, ..
        } = &*self.queue.shared;
        let is_full = |state: &mut State| {
            (state.queued >= QUEUED_MAX || state.is_over) && state.error.is_none()
        };
        let state = state.lock().unwrap_or_else(PoisonError::into_inner);
        drop(has_room.wait_while(state, is_full));
    }

    /// A way to this writer, to be used until it is finished.
    pub fn queue(&self) -> PartQueue {
        self.queue.clone()
    }

    /// Waits until everything is written: what is on the disk then, or the first error.
    pub fn finish(mut self) -> Result<OnDisk, FolderError> {
        self.folder.start()?;
        self.close();
        match self.queue.shared.error() {
            None => Ok(self.queue.on_disk()),
            Some(error) => Err(error),
        }
    }

    fn close(&mut self) {
        self.queue.shared.state().is_closed = true;
        self.folder.wake();
        // It fails only if the thread has ended, which joining it reports.
        let _ = self.queue.orders.send(Order::End);
        if let Some(unstarted) = self.unstarted.take() {
            unstarted.run(&self.queue);
        }
        if let Some(thread) = self.thread.take() {
            thread.join().expect("writing parts does not panic");
        }
    }
}

impl Unstarted {
    /// The thread, or what the caller does without one.
    fn run(self, queue: &PartQueue) {
        self.folder.wait_to_start(|| queue.shared.state().is_closed);
        if !self.folder.has_started() {
            return;
        }
        Compactor::new(&self.folder, &queue.shared, self.keeping, &queue.orders).run(&self.orders);
    }
}

impl PartQueue {
    /// Queues a part without waiting.
    pub fn submit(&self, part: NewPart) -> Result<(), FolderError> {
        let mut state = self.shared.state();
        if let Some(error) = &state.error {
            return Err(error.clone());
        }
        state.queued += 1;
        let bytes = part.bytes.len();
        match &self.shared.budget {
            Some(budget) if budget.draw(bytes) => state.drawn_bytes += bytes,
            Some(_) => state.is_over = true,
            None => {}
        }
        drop(state);
        // It fails only if the thread has ended, which joining it reports.
        let _ = self.orders.send(Order::Part(part));
        Ok(())
    }

    /// What is on the disk.
    pub fn on_disk(&self) -> OnDisk {
        self.shared.state().on_disk.clone()
    }

    /// Takes what the user may want to know of the output.
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.state().notes)
    }
}

impl Drop for PartWriter {
    /// What was submitted is written, also when a run ends early: not when it never started.
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "tests arrange by path what is found by descriptors"
)]
mod tests {
    use std::fs;
    use std::io;
    use std::num::NonZeroU64;
    use std::path::Path;

    use lineside_testkit::disk::SmallDisk;

    use super::*;
    use crate::compactor::Merging;
    use crate::part_index::{FinalParts, Retention};
    use crate::queue::Pieces;

    fn part(table: &str, index: u32, bytes: impl Into<Pieces>) -> NewPart {
        NewPart {
            table: table.to_owned(),
            file: format!("part-{index:06}.parquet"),
            rows: 1,
            window_ns: None,
            bytes: bytes.into(),
        }
    }

    fn folder(parent: &Path) -> RunFolder {
        RunFolder::create(&parent.join("run"), None).expect("created")
    }

    #[test]
    fn parts_appear_whole_under_their_names() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = folder(parent.path());
        let mut writer = PartWriter::new(&folder).start().expect("started");
        for index in 0..20_u8 {
            writer
                .submit(part("nfs", index.into(), vec![index; 1000]))
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
            let part = part("nfs", index as u32, vec![1; len]);
            writer.submit(part).expect("no error");
        }
        assert!(writer.thread.is_some(), "more than it may hold");
        writer.finish().expect("written");
        let names = fs::read_dir(folder.path().join("nfs")).expect("there");
        assert_eq!(names.count(), 11);

        let mut writer = PartWriter::new(&folder);
        writer.expect_last();
        let submitted = writer.submit(part("files", 0, vec![1]));
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
        let mut writer = PartWriter::new(&folder).start().expect("started");
        let mut submitted = Ok(());
        for _ in 0..=QUEUED_MAX + 2 {
            submitted = submitted.and_then(|()| writer.submit(part("nfs", 0, vec![1])));
        }
        assert!(
            submitted.is_err(),
            "known before the queue was filled twice"
        );
        { writer.submit(part("files", 0, vec![1])) }.expect_err("remembered");
        let error = writer.finish().expect_err("remembered").to_string();
        assert!(error.contains("/nfs: cannot create the folder"), "{error}");
        assert!(!folder.path().join("files").exists());
    }

    #[test]
    fn queued_parts_are_not_written_after_an_error() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = folder(parent.path());
        fs::write(folder.path().join("nfs"), b"").expect("written");
        let mut writer = PartWriter::new(&folder);
        for table in ["nfs", "files"] {
            let queue = writer.queue();
            queue
                .submit(part(table, 0, Vec::<u8>::new()))
                .expect("queued");
        }
        writer.start_thread().expect("started");
        writer.finish().expect_err("no folder");
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
        let mut writer = PartWriter::new(&folder).start().expect("started");
        writer
            .submit(part("nfs", 0, vec![1; 30_000]))
            .expect("fits");
        // Whether this answer has it already is a matter of time.
        let _ = writer.submit(part("nfs", 1, vec![2; 90_000]));
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

    #[test]
    fn on_a_full_disk_the_oldest_part_goes_if_it_may() {
        let parent = tempfile::tempdir().expect("a folder");
        let Some(_disk) = SmallDisk::mount(parent.path(), 256 << 10) else {
            println!("SKIP: mounting a small tmpfs needs root");
            return;
        };
        let folder = folder(parent.path());
        let keeping = Keeping {
            retention: Retention {
                bytes: Some(1 << 30),
                ..Retention::default()
            },
            ..Keeping::default()
        };
        let mut writer = PartWriter::keeping(&folder, keeping, None);
        for index in 0..40 {
            let table = ["nfs", "operations"][index as usize % 2];
            let submitted = writer.submit(part(table, index, vec![1; 20_000]));
            submitted.expect("there is always room");
        }
        let written = writer.finish().expect("the oldest made room");
        let parts: u64 = written.tables.iter().map(|(_, totals)| totals.parts).sum();
        assert_eq!(written.removed.totals.parts + parts, 40);
        assert!(
            parts >= 5 && written.removed.kept_since_ns.is_some(),
            "{written:?}"
        );
        let is_there = |index: u32| {
            let table = ["nfs", "operations"][index as usize % 2];
            let path = folder.path().join(table);
            path.join(format!("part-{index:06}.parquet")).exists()
        };
        assert!(!is_there(0) && !is_there(20) && is_there(38) && is_there(39));
    }

    /// A merger that puts the bytes of parts together, which makes any file of them.
    fn joining() -> Merging {
        Merging {
            finals: FinalParts {
                time_ns: NonZeroU64::new(60_000_000_000),
                bytes_max: 100_000,
                rows_max: |_| 1_000,
            },
            merge: Box::new(|_, parts| {
                let mut bytes = Vec::new();
                let rows = parts.len() as u64;
                for mut part in parts {
                    io::Read::read_to_end(&mut part, &mut bytes).expect("it is read");
                }
                Ok(Some((rows, bytes.into())))
            }),
        }
    }

    fn names(folder: &RunFolder, table: &str) -> Vec<String> {
        let entries = fs::read_dir(folder.path().join(table)).expect("there");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<_> = names
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn small_parts_become_one_and_nothing_is_left_of_them() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = folder(parent.path());
        let keeping = Keeping {
            merging: Some(joining()),
            ..Keeping::default()
        };
        let mut writer = PartWriter::keeping(&folder, keeping, None);
        for index in 0..150 {
            let mut part = part("nfs", index, vec![index as u8; 10]);
            part.window_ns = Some((i64::from(index) + 1) * 1_000_000_000);
            writer.submit(part).expect("no error");
        }
        let written = writer.finish().expect("written");
        let expected = [
            "part-000000-000059.parquet",
            "part-000060-000119.parquet",
            "part-000120-000149.parquet",
        ];
        assert_eq!(names(&folder, "nfs"), expected);
        assert_eq!(names(&folder, "."), ["nfs"]);
        let last = folder.path().join("nfs/part-000120-000149.parquet");
        let bytes: Vec<_> = (120..150_u8).flat_map(|index| [index; 10]).collect();
        assert_eq!(fs::read(last).expect("there"), bytes);
        let (_, totals) = &written.tables[0];
        assert_eq!((totals.rows, totals.parts, totals.bytes), (150, 3, 1_500));
    }

    #[test]
    fn parts_that_cannot_be_merged_are_left_and_reported() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = folder(parent.path());
        let merging = Merging {
            merge: Box::new(|_, _| Err("it is cut".to_owned())),
            ..joining()
        };
        let keeping = Keeping {
            merging: Some(merging),
            ..Keeping::default()
        };
        let mut writer = PartWriter::keeping(&folder, keeping, None);
        for index in 0..5 {
            let mut part = part("nfs", index, vec![1; 10]);
            part.window_ns = Some(1);
            writer.submit(part).expect("no error");
        }
        let queue = writer.queue();
        let written = writer.finish().expect("written");
        assert_eq!(written.tables[0].1.parts, 5);
        assert_eq!(names(&folder, "nfs").len(), 5);
        assert_eq!(
            queue.take_notes(),
            ["table nfs: its small parts are left as they are: it is cut"]
        );
    }

    #[test]
    fn parts_that_went_while_they_were_merged_stay_away() {
        for is_failing in [false, true] {
            let parent = tempfile::tempdir().expect("a folder");
            let folder = folder(parent.path());
            let oldest = folder.path().join("nfs/part-000000.parquet");
            let Merging { finals, mut merge } = joining();
            let (began, has_begun) = channel();
            let merging = Merging {
                finals,
                merge: Box::new(move |table, parts| {
                    // Of the first job, which has the oldest part.
                    let is_first = oldest.exists();
                    began.send(is_first).expect("the test waits");
                    while oldest.exists() {
                        thread::yield_now();
                    }
                    match is_first && is_failing {
                        true => Err("it went".to_owned()),
                        false => merge(table, parts),
                    }
                }),
            };
            let retention = Retention {
                bytes: Some(610),
                ..Retention::default()
            };
            let keeping = Keeping {
                merging: Some(merging),
                retention,
                ..Keeping::default()
            };
            let mut writer = PartWriter::keeping(&folder, keeping, None);
            for index in 0..62 {
                if index == 61 {
                    assert!(has_begun.recv().expect("a merge"));
                }
                let mut part = part("nfs", index, vec![index as u8; 10]);
                part.window_ns = Some((i64::from(index) + 1) * 1_000_000_000);
                writer.submit(part).expect("no error");
            }
            let queue = writer.queue();
            let written = writer.finish().expect("written");
            assert_eq!(queue.take_notes(), [""; 0]);
            assert_eq!(written.removed.totals.rows, 1);
            assert_eq!(written.tables[0].1.rows, 61);
            let expected = ["part-000001-000059.parquet", "part-000060-000061.parquet"];
            assert_eq!(names(&folder, "nfs"), expected);
        }
    }
}
