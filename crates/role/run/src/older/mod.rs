//! The runs of a folder that are over, as `--keep` of the one that goes on sees them: their parts
//! are older than all of its own, and go first.
//!
//! ```text
//!  DIR/run=A/  trace.json             nothing is left: `removed` has what there was
//!  DIR/run=B/  trace.json, 3 parts    the oldest that has something: its parts go next
//!  DIR/run=C/  trace.json, 9 parts
//!  DIR/run=D/                         goes on
//! ```
//!
//! First `trace.json` says that a part is gone, then it goes: whatever is missing is accounted for,
//! also after a kill. Only where the disk is too full for a `trace.json` it is the other way round.
//! Where the two differ, the parts are counted anew before the next one goes.

use std::collections::VecDeque;

use lineside_account::Counter;
use lineside_host::{Descriptors, FolderError, Place};
use lineside_store::{FinishedRun, Older, Retention, RunFolder};
use lineside_trace::read::PartReader;
use lineside_trace::{CounterValue, Manifest, RemovedFacts, State, TableSummary};

use crate::own::{PREFIX, TOOL, is_table_name, manifest_in};
use crate::verdict::add_limit;

/// Runs that are over, in a folder that no other run begins in.
#[derive(Debug)]
pub(crate) struct OlderRuns {
    folders: Vec<Place>,
    retention: Retention,
    /// The oldest first; `None`: not looked for yet.
    runs: Option<VecDeque<Over>>,
    /// Nothing is left of these, and there was no room to say so.
    untold: Vec<Over>,
    notes: Vec<String>,
}

/// A run that is over and has something.
#[derive(Debug)]
struct Over {
    place: Place,
    /// When it began, by its `trace.json`.
    started_ns: Option<i64>,
    /// Of its parts: what its `trace.json` says, until it is opened.
    bytes: u64,
    opened: Option<Opened>,
}

/// What is in a run.
#[derive(Debug)]
struct Opened {
    manifest: Manifest,
    /// The oldest first.
    parts: VecDeque<OldPart>,
    /// `trace.json` does not say it yet.
    is_untold: bool,
}

#[derive(Debug, Clone)]
struct OldPart {
    table: String,
    file: String,
    bytes: u64,
    written_ns: i64,
    /// It was set aside, since it cannot be read: `trace.json` does not count it.
    is_damaged: bool,
}

impl OlderRuns {
    /// Those in `folder`.
    pub(crate) fn in_folder(folder: &Place, retention: Retention) -> Self {
        let folders: Vec<_> = folders(folder).collect();
        Self::of(&folders, retention)
    }

    /// Those in these folders, as far as they hold any.
    pub(crate) fn of(folders: &[Place], retention: Retention) -> Self {
        Self {
            folders: folders.to_vec(),
            retention,
            runs: None,
            untold: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn runs(&mut self) -> &mut VecDeque<Over> {
        if self.runs.is_none() {
            self.runs = Some(self.look());
        }
        self.runs.get_or_insert_default()
    }

    fn look(&mut self) -> VecDeque<Over> {
        // Folders that are no trace, or cannot be read, stay: the start has warned about them.
        let found = self.folders.drain(..);
        let mut runs: Vec<_> = found.filter_map(|place| Over::find(&place).ok()?).collect();
        runs.sort_by(|one, other| {
            (one.started_ns, one.place.path()).cmp(&(other.started_ns, other.place.path()))
        });
        runs.into()
    }

    /// The oldest run that has something, opened.
    fn oldest(&mut self) -> Option<&mut Over> {
        loop {
            let mut note = None;
            let first = self.runs().front_mut()?;
            if first.opened.is_none() {
                match Opened::of(&first.place) {
                    Ok(opened) => {
                        first.bytes = { opened.iter() }.map(Opened::bytes).sum();
                        first.opened = opened;
                    }
                    Err(error) => note = Some(error),
                }
            }
            let opened = first.opened.as_ref();
            let is_untold = opened.is_some_and(|opened| opened.is_untold);
            if opened.is_some_and(|opened| !opened.parts.is_empty()) {
                return self.runs().front_mut();
            }
            let over = self.runs().pop_front();
            self.untold.extend(over.filter(|_| is_untold));
            self.notes.extend(note.map(left_alone));
        }
    }

    /// Removes the `count` oldest parts of the oldest run. Where that fails it is left alone from
    /// now on.
    fn remove(&mut self, count: usize) {
        let Some(run) = self.oldest() else { return };
        match run.remove(count) {
            Ok(true) => {}
            Ok(false) => drop(self.runs().pop_front()),
            Err(error) => {
                self.runs().pop_front();
                self.notes.push(left_alone(error));
            }
        }
    }
}

impl OlderRuns {
    /// Says what there was no room for before.
    fn tell(&mut self) {
        let mut untold = std::mem::take(&mut self.untold);
        // One that fails otherwise is counted by whoever looks next.
        untold.retain_mut(|run| run.tell().is_ok_and(|is_told| !is_told));
        self.untold = untold;
    }
}

fn left_alone(error: FolderError) -> String {
    format!("an older run is left as it is, whatever is to be kept: {error}")
}

/// Descriptors of older runs that are opened without asking for more.
const DESCRIPTORS: usize = 500;

/// Runs beside the one in `own` that have parts and that nobody writes, opened: whoever drops its
/// privileges may not look them up any more. Of more than may be opened, the oldest; and how many
/// are left out.
pub fn older_runs(own: &RunFolder) -> (Vec<Place>, usize) {
    let has_table = |place: &Place| {
        let entries = place.entries().unwrap_or_default();
        entries.iter().any(|entry| is_table_name(&entry.name))
    };
    let Ok(above) = own.place().parent() else {
        return (Vec::new(), 0);
    };
    let mut names = names(&above);
    names.retain(|name| **name != *own.place().name());
    if names.len() > DESCRIPTORS {
        Descriptors::raise();
    }
    let most = (Descriptors::read().room() / 2) as usize;
    let left_out = names.len().saturating_sub(most);
    names.truncate(most);
    let found = { names.iter() }.filter_map(|name| above.child(name).ok());
    let found = found.filter(|place| has_table(place) && FinishedRun::open_over(place).is_some());
    (found.collect(), left_out)
}

/// The folders of runs in a folder.
fn folders(folder: &Place) -> impl Iterator<Item = Place> {
    names(folder)
        .into_iter()
        .filter_map(|name| folder.child(name).ok())
}

fn names(folder: &Place) -> Vec<String> {
    let entries = folder.entries().unwrap_or_default().into_iter();
    let runs = entries.filter(|entry| entry.is_folder && entry.name.starts_with(PREFIX));
    runs.map(|entry| entry.name).collect()
}

impl Older for OlderRuns {
    fn bytes(&self) -> u64 {
        let runs = self.runs.iter().flatten();
        runs.map(|run| run.bytes).sum()
    }

    fn retain(&mut self, own_bytes: u64, now_ns: i64) {
        self.tell();
        loop {
            self.runs();
            let bytes = own_bytes + self.bytes();
            let Retention {
                time, bytes: most, ..
            } = self.retention;
            let Some(opened) = self.oldest().and_then(|run| run.opened.as_ref()) else {
                return;
            };
            let mut left = bytes;
            let is_due = |part: &&OldPart| {
                let age_ns = now_ns.saturating_sub(part.written_ns);
                let is_old = time.is_some_and(|time| i128::from(age_ns) > time.as_nanos() as i128);
                let is_much = most.is_some_and(|most| left > most);
                left = left.saturating_sub(part.bytes);
                is_old || is_much
            };
            match opened.parts.iter().take_while(is_due).count() {
                0 => return,
                count => self.remove(count),
            }
        }
    }

    fn make_room(&mut self) -> bool {
        if !self.retention.is_limited() {
            return false;
        }
        let is_there = self.oldest().is_some();
        self.remove(1);
        self.tell();
        is_there
    }

    fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}

impl Over {
    /// What there is in a folder; `None`: nothing that could go.
    fn find(place: &Place) -> Result<Option<Self>, FolderError> {
        let Some(run) = FinishedRun::open_over(place) else {
            return Ok(None);
        };
        let Ok(manifest) = manifest_in(&run) else {
            return Ok(None);
        };
        if manifest.tool.name != TOOL {
            return Ok(None);
        }
        let entries = run.entries()?;
        let mut folders = entries.iter().filter(|entry| entry.is_folder);
        let has_tables = folders.any(|folder| is_table_name(&folder.name));
        Ok(has_tables.then(|| Self {
            place: place.clone(),
            started_ns: manifest.started_ns,
            bytes: manifest.tables.values().map(|table| table.bytes).sum(),
            opened: None,
        }))
    }

    /// Writes `trace.json`; whether there was room.
    fn tell(&mut self) -> Result<bool, FolderError> {
        if let (Some(opened), Some(run)) = (&mut self.opened, FinishedRun::open_over(&self.place)) {
            opened.tell(&run)?;
            return Ok(!opened.is_untold);
        }
        Ok(true)
    }

    /// Removes the `count` oldest parts; `false` if another process writes the run.
    fn remove(&mut self, count: usize) -> Result<bool, FolderError> {
        let Some(opened) = &mut self.opened else {
            return Ok(true);
        };
        let Some(run) = FinishedRun::open_over(&self.place) else {
            return Ok(false);
        };
        let parts: Vec<_> = opened.parts.drain(..count).collect();
        for part in &parts {
            opened.account(part, rows_of(&run, part));
        }
        opened.tell(&run)?;
        for part in &parts {
            run.child(&part.table)?.remove(&part.file)?;
            if !opened.parts.iter().any(|left| left.table == part.table) {
                run.remove_empty_folder(&part.table);
            }
        }
        if opened.is_untold {
            // Now there is room.
            opened.tell(&run)?;
        }
        self.bytes = opened.bytes();
        Ok(true)
    }
}

/// Rows of a part; `None`: it cannot be read.
fn rows_of(run: &FinishedRun, part: &OldPart) -> Option<u64> {
    let file = run.child(&part.table).ok()?.open_file(&part.file).ok()?;
    Some(PartReader::open(file).ok()?.row_count())
}

impl Opened {
    /// What is in the folder; `None`: another process writes it, or has changed it.
    fn of(place: &Place) -> Result<Option<Self>, FolderError> {
        let Some(run) = FinishedRun::open_over(place) else {
            return Ok(None);
        };
        let Ok(mut manifest) = manifest_in(&run) else {
            return Ok(None);
        };
        let mut parts = Vec::new();
        for table in run.entries()? {
            if !table.is_folder || !is_table_name(&table.name) {
                continue;
            }
            let table = table.name;
            let entries = run.child(&table)?.entries()?;
            let found = entries.into_iter().filter(|entry| !entry.is_folder);
            let found = found.filter_map(|entry| OldPart::of(&table, entry));
            let found: Vec<_> = found.collect();
            if found.is_empty() {
                run.remove_empty_folder(&table);
            }
            parts.extend(found);
        }
        parts.sort_by(|one, other| {
            (one.written_ns, &one.table, &one.file).cmp(&(
                other.written_ns,
                &other.table,
                &other.file,
            ))
        });
        let is_untold =
            manifest.verdict.state != State::Unfinished && count_anew(&run, &mut manifest, &parts);
        let mut opened = Self {
            manifest,
            parts: parts.into(),
            is_untold,
        };
        if is_untold {
            opened.tell(&run)?;
        }
        Ok(Some(opened))
    }

    fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// Notes in what will be `trace.json` that a part is gone.
    fn account(&mut self, part: &OldPart, rows: Option<u64>) {
        self.is_untold = true;
        if part.is_damaged {
            return;
        }
        let is_last = { self.parts.iter() }.all(|left| left.is_damaged || left.table != part.table);
        let table = self.manifest.tables.entry(part.table.clone()).or_default();
        // With the last part all rows of a table are gone, also if nobody can count them any more.
        let gone = match is_last && self.manifest.verdict.state != State::Unfinished {
            true => *table,
            false => TableSummary {
                rows: rows.unwrap_or_default(),
                parts: 1,
                bytes: part.bytes,
            },
        };
        table.rows = table.rows.saturating_sub(gone.rows);
        table.parts = table.parts.saturating_sub(gone.parts);
        table.bytes = table.bytes.saturating_sub(gone.bytes);
        let removed = self.manifest.removed.get_or_insert_default();
        removed.rows += gone.rows;
        removed.parts += gone.parts;
        removed.bytes += gone.bytes;
        removed.kept_since_ns = removed.kept_since_ns.max(Some(part.written_ns));
    }

    /// Writes `trace.json`, unless the disk is full.
    fn tell(&mut self, run: &FinishedRun) -> Result<(), FolderError> {
        say_removed(&mut self.manifest);
        if self.parts.is_empty() {
            // The most of it, and of no use without the rows.
            self.manifest.seconds = Vec::new();
        }
        match run.replace("trace.json", self.manifest.to_json().as_bytes()) {
            Ok(()) => self.is_untold = false,
            Err(error) if error.is_full() => self.is_untold = true,
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl OldPart {
    fn of(table: &str, entry: lineside_host::Entry) -> Option<Self> {
        let hidden =
            { entry.name.strip_prefix('.') }.and_then(|rest| rest.strip_suffix(".damaged"));
        let is_damaged = hidden.is_some();
        let part = hidden.unwrap_or(&entry.name);
        let is_part = part.starts_with("part-") && part.ends_with(".parquet");
        is_part.then(|| Self {
            table: table.to_owned(),
            is_damaged,
            bytes: entry.bytes,
            written_ns: entry.written_ns,
            file: entry.name,
        })
    }
}

/// Counts what is there, if it is not what `trace.json` says; whether it was not. Then the process
/// that removed parts was killed between the two, or somebody else removed them.
fn count_anew(run: &FinishedRun, manifest: &mut Manifest, parts: &[OldPart]) -> bool {
    let mut differs = false;
    let mut removed = manifest.removed.unwrap_or_default();
    for (name, told) in &mut manifest.tables {
        let parts = parts
            .iter()
            .filter(|part| part.table == *name && !part.is_damaged);
        let mut found = TableSummary::default();
        for part in parts.clone() {
            found.parts += 1;
            found.bytes += part.bytes;
        }
        if (found.parts, found.bytes) == (told.parts, told.bytes) {
            continue;
        }
        differs = true;
        found.rows = parts.filter_map(|part| rows_of(run, part)).sum();
        let gone = |removed: u64, told: u64, found: u64| (removed + told).saturating_sub(found);
        removed.rows = gone(removed.rows, told.rows, found.rows);
        removed.parts = gone(removed.parts, told.parts, found.parts);
        removed.bytes = gone(removed.bytes, told.bytes, found.bytes);
        *told = found;
    }
    if differs {
        // What went was older than all that is left.
        let since = parts.iter().map(|part| part.written_ns).min();
        removed.kept_since_ns = removed.kept_since_ns.max(since.or(manifest.ended_ns));
        manifest.removed = Some(removed);
    }
    differs
}

/// Puts into counters and verdict what went because of `--keep`.
pub(crate) fn say_removed(manifest: &mut Manifest) {
    let Some(RemovedFacts { rows, parts, .. }) = manifest.removed else {
        return;
    };
    if parts == 0 {
        manifest.removed = None;
        return;
    }
    if rows == 0 {
        return;
    }
    let counter = CounterValue {
        value: rows,
        meaning: Counter::RowsLimit.meaning().to_owned(),
    };
    let name = Counter::RowsLimit.name().to_owned();
    manifest.counters.insert(name, counter);
    add_limit(&mut manifest.verdict, Counter::RowsLimit, rows);
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "tests arrange by path what is found by descriptors"
)]
mod tests;
