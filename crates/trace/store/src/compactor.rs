//! What the output thread does: it writes parts, puts merged ones in the place of small ones, and
//! removes those that are no longer kept. Merging itself is another thread's, of the lowest
//! priority.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lineside_host::{FolderError, monotonic_ns, wall_ns};
use rustix::process::setpriority_process;

use crate::folder::RunFolder;
use crate::part_index::{FinalParts, Job, PartIndex, Retention, Shelved};
use crate::queue::{NewPart, Order, Pieces, Shared};
use crate::swap::NotReplaced;

/// Makes one part of several of a table, given opened in their order: its rows and its bytes, or
/// `None` if there is no memory for that now. An error: one of them cannot be read.
pub type Merge = Box<dyn FnMut(&str, Vec<File>) -> Result<Option<(u64, Pieces)>, String> + Send>;

/// How small parts become large ones.
pub struct Merging {
    /// Where final parts end.
    pub finals: FinalParts,
    /// Makes one part of several.
    pub merge: Merge,
}

/// What to do with the parts of a run once they are written.
#[derive(Default)]
pub struct Keeping {
    /// `None`: they stay as they are.
    pub merging: Option<Merging>,
    /// Which of them go, and when.
    pub retention: Retention,
    /// What goes before them.
    pub older: Option<Box<dyn Older>>,
}

/// Runs beside the one that goes on, which are over: what they have is older than all that it has.
pub trait Older: Send {
    /// Bytes that they have and that can go.
    fn bytes(&self) -> u64;

    /// Removes what is over its time at `now_ns`, or too much with `own_bytes` of the run that goes
    /// on: the oldest first.
    fn retain(&mut self, own_bytes: u64, now_ns: i64);

    /// Removes the oldest part, since the disk is full; whether there was one.
    fn make_room(&mut self) -> bool;

    /// Takes what the user may want to know.
    fn take_notes(&mut self) -> Vec<String>;
}

/// How long a table's folder of before is left to readers that are listing it.
const GRACE: Duration = Duration::from_secs(1);
/// The same at the end of a run: listing a folder takes microseconds.
const LAST_GRACE: Duration = Duration::from_millis(50);
/// How long after a failure for lack of memory or of room merging is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// Room for `trace.json`, which parts leave on a disk where they may go.
const MANIFEST_BYTES: u64 = 128 << 10;
/// How often it is looked what is over its time, where nothing is written.
const LOOK: Duration = Duration::from_secs(60);
/// Of nice(2): everything else comes first.
const LOWEST_PRIORITY: i32 = 19;

/// The work of the output thread.
pub(crate) struct Compactor<'a> {
    folder: &'a RunFolder,
    shared: &'a Shared,
    shelf: PartIndex,
    retention: Retention,
    older: Option<Box<dyn Older>>,
    /// The wall clock's time less that of a clock that nobody sets, once: what setting the wall
    /// clock changes later removes nothing.
    wall_offset_ns: i64,
    merger: Option<Merger>,
    /// Tables whose folders of before are still there, and since when.
    replaced: BTreeMap<String, u64>,
}

/// Merges parts on a thread of its own.
struct Merger {
    merge: Arc<Mutex<Merge>>,
    jobs: Sender<Job>,
    /// Taken by the thread, once it is needed.
    waiting: Option<(Receiver<Job>, Sender<Order>)>,
    thread: Option<JoinHandle<()>>,
    is_busy: bool,
    /// Not before this time.
    not_before_ns: u64,
}

impl<'a> Compactor<'a> {
    /// Work that is done as `keeping` says; `orders` is where a merger's results go.
    pub(crate) fn new(
        folder: &'a RunFolder,
        shared: &'a Shared,
        keeping: Keeping,
        orders: &Sender<Order>,
    ) -> Self {
        let Keeping {
            merging,
            retention,
            older,
        } = keeping;
        let (merge, finals) = match merging {
            Some(Merging { merge, finals }) => (Some(merge), Some(finals)),
            None => (None, None),
        };
        Self {
            folder,
            shared,
            shelf: PartIndex::new(finals, retention),
            retention,
            older,
            wall_offset_ns: wall_ns() - monotonic_ns(),
            merger: merge.map(|merge| Merger::new(merge, orders.clone())),
            replaced: BTreeMap::new(),
        }
    }

    /// Does what comes until the end.
    pub(crate) fn run(mut self, orders: &Receiver<Order>) {
        let mut is_open = true;
        while is_open {
            let first = match (self.replaced.is_empty(), self.retention.time) {
                (true, None) => orders.recv().map_err(RecvTimeoutError::from),
                (true, Some(_)) => orders.recv_timeout(LOOK),
                (false, _) => orders.recv_timeout(GRACE),
            };
            let mut next = match first {
                Err(RecvTimeoutError::Disconnected) => break,
                first => first.ok(),
            };
            let mut parts = Vec::new();
            while let Some(order) = next.take() {
                match order {
                    Order::Part(part) => parts.push(part),
                    Order::Merged(job, merged) => self.on_merged(&job, merged),
                    Order::End => {
                        is_open = false;
                        break;
                    }
                }
                next = orders.try_recv().ok();
            }
            self.on_parts(&parts);
            self.drop_replaced(GRACE);
            self.retain();
            self.begin_merge();
            self.publish();
        }
        self.end(orders);
    }

    fn on_parts(&mut self, parts: &[NewPart]) {
        let written = match self.shared.error() {
            None => self.write_with_room(parts),
            Some(_) => Ok(()),
        };
        self.shared.on_done(parts, written.err());
    }

    /// Writes parts; where the disk is full, the oldest make room if not all are to be kept.
    fn write_with_room(&mut self, mut parts: &[NewPart]) -> Result<(), FolderError> {
        loop {
            let (done, written) = self.write(parts);
            parts = &parts[done..];
            match written {
                Err(error) if error.is_full() && self.remove_oldest(true) => {}
                written => return written,
            }
        }
    }

    /// Writes parts together: how many are complete, and why the next one is not.
    fn write(&mut self, parts: &[NewPart]) -> (usize, Result<(), FolderError>) {
        let made = parts
            .iter()
            .try_for_each(|part| self.make_table(&part.table));
        if made.is_err() {
            return (0, made);
        }
        let file = |part: &NewPart| Path::new(&part.table).join(&part.file);
        let files: Vec<_> = parts
            .iter()
            .map(|part| (file(part), part.bytes.as_slice()))
            .collect();
        let (done, written) = self.folder.write_counted(&files);
        let mut tables: Vec<_> = parts[..done].iter().map(|part| &*part.table).collect();
        tables.dedup();
        let synced = tables
            .iter()
            .try_for_each(|table| self.folder.sync_table(table));
        for part in &parts[..done] {
            let shelved = Shelved {
                file: part.file.clone(),
                rows: part.rows,
                bytes: part.bytes.len() as u64,
                window_ns: part.window_ns.unwrap_or_else(wall_ns),
                written_ns: now_ns(),
            };
            self.shelf.add(&part.table, shelved);
        }
        (done, written.and(synced))
    }

    /// Makes a table's folder, unless it is there, as it has to be once it has had a part.
    fn make_table(&self, table: &str) -> Result<(), FolderError> {
        let is_gone = self.shelf.has_parts(table) && !self.folder.has_table(table);
        if is_gone && !self.folder.is_removed() {
            return Err(self.folder.lost(Path::new(table)));
        }
        self.folder.make_table(table)
    }

    /// Whether every part that was written and not removed is there.
    fn check(&self) -> Result<(), FolderError> {
        let mut tables = self.shelf.parts();
        match tables.find_map(|(table, parts)| self.folder.find_missing(table, &parts)) {
            Some(_) if self.folder.is_removed() => Err(self.folder.lost(Path::new(""))),
            Some(path) => Err(self.folder.lost(&path)),
            None => Ok(()),
        }
    }

    /// Removes what is no longer kept.
    fn retain(&mut self) {
        if let Some(older) = &mut self.older {
            older.retain(self.shelf.bytes(), monotonic_ns() + self.wall_offset_ns);
            { older.take_notes().into_iter() }.for_each(|note| self.shared.note(note));
        }
        while self.remove_oldest(false) {}
        // The new `trace.json` is written while the old one still exists.
        while self.retention.is_limited()
            && self.folder.free_bytes() < MANIFEST_BYTES
            && self.remove_oldest(true)
        {}
    }

    fn remove_oldest(&mut self, makes_room: bool) -> bool {
        if !self.retention.is_limited() {
            return false;
        }
        if makes_room && !self.replaced.is_empty() {
            // Folders of before hold their parts' room too.
            self.drop_replaced(Duration::ZERO);
        }
        let mut older_bytes = 0;
        if let Some(older) = &mut self.older {
            if makes_room && older.make_room() {
                return true;
            }
            older_bytes = older.bytes();
        }
        let removal = self.shelf.next_removal(now_ns(), older_bytes, makes_room);
        let Some((table, file)) = removal else {
            return false;
        };
        match self.folder.remove_part(&table, &file) {
            Ok(()) => true,
            Err(error) => {
                self.shared
                    .note(format!("{error}: it is not kept, and is still there"));
                false
            }
        }
    }

    /// Removes folders that tables had before, once they had them no more for `grace`.
    fn drop_replaced(&mut self, grace: Duration) {
        let now = now_ns();
        let folder = self.folder;
        self.replaced.retain(|table, since| {
            let is_over = now.saturating_sub(*since) >= grace.as_nanos() as u64;
            if is_over {
                folder.drop_replaced(table);
            }
            !is_over
        });
    }

    fn begin_merge(&mut self) {
        let Some(merger) = &mut self.merger else {
            return;
        };
        // Where folders of before are still left to readers, the next ones wait: one a table.
        let is_waiting = !self.replaced.is_empty() || now_ns() < merger.not_before_ns;
        if merger.is_busy || is_waiting || self.shared.error().is_some() {
            return;
        }
        if let Some(job) = self.shelf.next_merge(false)
            && !merger.begin(self.folder, job)
        {
            self.merger = None;
        }
    }

    fn on_merged(&mut self, job: &Job, merged: Result<Option<(u64, Pieces)>, String>) {
        let Some(merger) = &mut self.merger else {
            return;
        };
        merger.is_busy = false;
        if !self.shelf.has(job) {
            // Some went meanwhile, and must not come back with the merged one. Those that are left
            // are another job.
            return;
        }
        let (rows, pieces) = match merged {
            Ok(Some(merged)) => merged,
            Ok(None) => return merger.wait(),
            Err(why) => {
                self.shelf.leave(job);
                let table = &job.table;
                let note = format!("table {table}: its small parts are left as they are: {why}");
                return self.shared.note(note);
            }
        };
        let (folder, table) = (self.folder, &job.table);
        let replaced = folder.replace_parts(table, &job.file, pieces.as_slice(), &job.files);
        match replaced {
            Ok(()) => {
                self.replaced.insert(table.clone(), now_ns());
                self.shelf.merged(job, rows, pieces.len() as u64);
            }
            // The small parts are there: nothing is lost by waiting for room.
            Err(NotReplaced::Failed(error)) if error.is_full() => merger.wait(),
            Err(NotReplaced::Failed(error)) => {
                self.shelf.leave(job);
                self.shared
                    .note(format!("{error}: small parts are left as they are"));
            }
            Err(NotReplaced::Unable(error)) => {
                self.merger = None;
                let path = folder.path().display();
                self.shared.note(format!(
                    "{path}: its file system cannot put one part in the place of several \
                     ({error}): small parts are left as they are; --flush none writes large ones"
                ));
            }
        }
    }

    /// Merges what is left, and removes what is hidden.
    fn end(mut self, orders: &Receiver<Order>) {
        while self.merger.as_ref().is_some_and(|merger| merger.is_busy) {
            match orders.recv() {
                Ok(Order::Merged(job, merged)) => self.on_merged(&job, merged),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        while self.shared.error().is_none()
            && let Some(merger) = &mut self.merger
            && merger.not_before_ns == 0
            && let Some(job) = self.shelf.next_merge(true)
        {
            // Whoever ends the run waits for it: at this thread's priority.
            let merged = merge(&merger.merge, self.folder, &job);
            if self.replaced.contains_key(&job.table) {
                thread::park_timeout(LAST_GRACE);
            }
            self.on_merged(&job, merged);
        }
        self.retain();
        if !self.replaced.is_empty() {
            thread::park_timeout(LAST_GRACE);
            self.drop_replaced(Duration::ZERO);
        }
        if self.shared.error().is_none() {
            self.shared.on_done(&[], self.check().err());
        }
        self.publish();
        if let Some(merger) = self.merger.take() {
            merger.end();
        }
    }

    fn publish(&self) {
        let totals = self.shelf.totals();
        let totals = totals.map(|(name, totals)| (name.to_owned(), totals));
        self.shared.publish(totals.collect(), self.shelf.removed());
    }
}

impl Merger {
    fn new(merge: Merge, results: Sender<Order>) -> Self {
        let (jobs, receiver) = channel();
        Self {
            merge: Arc::new(Mutex::new(merge)),
            jobs,
            waiting: Some((receiver, results)),
            thread: None,
            is_busy: false,
            not_before_ns: 0,
        }
    }

    /// Begins a job; whether it could.
    fn begin(&mut self, folder: &RunFolder, job: Job) -> bool {
        if let Some((jobs, results)) = self.waiting.take() {
            let (folder, of) = (folder.clone(), Arc::clone(&self.merge));
            let thread = thread::Builder::new().name("merger".to_owned());
            let thread = thread.spawn(move || {
                // Where it may not, it merges as everybody else.
                let _ = setpriority_process(None, LOWEST_PRIORITY);
                while let Ok(job) = jobs.recv() {
                    let merged = merge(&of, &folder, &job);
                    if results.send(Order::Merged(job, merged)).is_err() {
                        return;
                    }
                }
            });
            self.thread = thread.ok();
        }
        self.is_busy = self.thread.is_some() && self.jobs.send(job).is_ok();
        self.is_busy
    }

    fn wait(&mut self) {
        self.not_before_ns = now_ns() + RETRY.as_nanos() as u64;
    }

    fn end(self) {
        drop(self.jobs);
        if let Some(thread) = self.thread {
            thread.join().expect("merging parts does not panic");
        }
    }
}

fn merge(
    merge: &Mutex<Merge>,
    folder: &RunFolder,
    job: &Job,
) -> Result<Option<(u64, Pieces)>, String> {
    let opened = { job.files.iter() }
        .map(|file| {
            let open = folder.open_part(&job.table, file);
            open.map_err(|error| format!("{file}: cannot be opened: {error}"))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let mut merge = merge.lock().unwrap_or_else(PoisonError::into_inner);
    merge(&job.table, opened)
}

fn now_ns() -> u64 {
    monotonic_ns().cast_unsigned()
}
