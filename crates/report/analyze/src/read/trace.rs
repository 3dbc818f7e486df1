//! A trace on disk: its manifest, its parts, and what is wrong with them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use lineside_rows::Table;
use lineside_trace::read::{Column, PartReader, ReadError, Value};
use lineside_trace::{ClockFacts, Manifest, Role, SCHEMA_VERSION, State, manifest_text, open_file};

use crate::numbers::Zone;
use crate::read::runs::{RunOfMany, of_many, runs_of, together};

/// Rows in a batch: enough that what is done once a batch (looking up its texts) costs nothing.
pub(crate) const BATCH_ROWS: usize = 65_536;

/// Why there is nothing to report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The path is not the folder of a trace.
    #[error(
        "{} is not a trace ({why}): give the folder that 'lineside capture -o' left",
        path.display()
    )]
    NotTrace {
        /// What was given.
        path: PathBuf,
        /// What it lacks.
        why: &'static str,
    },
    /// Its `trace.json` is not of the form that it should have, and it has nothing else to read.
    #[error("{}: damaged: {why}; there are no tables to read without it", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the field that it is about.
        why: String,
    },
    /// A later version wrote it, in tables that this one does not know.
    #[error(
        "{}: schema {found} is newer than {SCHEMA_VERSION}, the newest that this lineside reads: \
         use the lineside that wrote it ({tool}); DuckDB and pandas open the tables as they are",
        path.display()
    )]
    Newer {
        /// The trace.
        path: PathBuf,
        /// Its schema version.
        found: String,
        /// What wrote it.
        tool: String,
    },
    /// A filter names what the trace does not have.
    #[error("{what} '{asked}' does not occur in this trace; {offer}")]
    Unknown {
        /// `client`, `user`, `file`, `connection` or `operation`.
        what: &'static str,
        /// What was asked for.
        asked: String,
        /// The nearest that does, in words.
        offer: String,
    },
    /// Nothing lies between the times that were asked for.
    #[error("--since {since} is not before --until {until}: nothing lies between them")]
    Backwards {
        /// The one.
        since: String,
        /// The other.
        until: String,
    },
    /// More intervals than anybody reads.
    #[error(
        "{count} intervals are more than {max}: choose a longer --interval, or less time with \
        --since and --until"
    )]
    Intervals {
        /// How many it would be.
        count: u64,
        /// The bound.
        max: u64,
    },
}

/// A trace, or several runs' as one, opened. What is wrong with it is collected: what can be read
/// still is.
#[derive(Debug)]
pub struct Trace {
    /// In the order of time.
    folders: Vec<Folder>,
    /// The runs, where there are several.
    pub(crate) runs: Vec<RunOfMany>,
    /// `trace.json`, unless it is missing or damaged; of several runs what they are together.
    pub manifest: Option<Manifest>,
    /// What was wrong so far, in sentences that name the file.
    pub warnings: Vec<String>,
    /// Columns that an older lineside did not write, as `table.column`: they read as null.
    pub lacks: BTreeSet<String>,
}

/// The folder of a run, and what its `trace.json` says of its tables.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// The table `operations` is there.
    has_operations: bool,
    /// `trace.json` could be read.
    is_described: bool,
    /// It holds no tables but those of monitors, and describes an emulated link.
    is_of_link: bool,
    /// `load` wrote it.
    is_load: bool,
    /// Its run goes on or was killed: tables may not be there yet.
    is_unfinished: bool,
    /// Its run is over, or the next one has counted what is there.
    is_closed: bool,
    /// It lost its last parts to `--keep`.
    is_emptied: bool,
    /// The parts of each table that it counts.
    counted: BTreeMap<String, u64>,
}

impl Folder {
    fn new(path: &Path, manifest: Option<&Manifest>) -> Self {
        let mut folder = Self {
            path: path.to_owned(),
            has_operations: path.join(Table::Operations.name()).is_dir(),
            is_described: manifest.is_some(),
            is_of_link: false,
            is_load: false,
            is_unfinished: false,
            is_closed: true,
            is_emptied: false,
            counted: BTreeMap::new(),
        };
        let Some(manifest) = manifest else {
            return folder;
        };
        let role = manifest.role();
        folder.is_load = role == Some(Role::Load);
        // Tables of a run that was killed are not counted yet.
        let is_monitors = |name: &String| Table::MONITORS.iter().any(|table| table.name() == name);
        let has_tables = folder.has_operations || !manifest.tables.keys().all(is_monitors);
        folder.is_of_link = (role == Some(Role::Emulate)
            || manifest.certificate.is_some() && !folder.is_load)
            && !has_tables;
        folder.is_unfinished = manifest.verdict.state == State::Unfinished || manifest.killed;
        folder.is_closed = manifest.verdict.state != State::Unfinished;
        folder.is_emptied = manifest.removed.is_some();
        let tables = manifest.tables.iter();
        folder.counted = tables.map(|(name, of)| (name.clone(), of.parts)).collect();
        folder
    }

    /// Whether it should have parts of a table.
    fn counts_parts(&self, table: Table) -> bool {
        self.counted
            .get(table.name())
            .is_some_and(|&parts| parts > 0)
    }

    /// The complete parts of a table, in the order of their names; and what is wrong, if that is
    /// not what `trace.json` counts.
    fn parts(&self, table: Table) -> (Vec<PathBuf>, Option<String>) {
        let folder = self.path.join(table.name());
        let mut parts: Vec<_> = match fs::read_dir(&folder) {
            Ok(entries) => entries
                .filter_map(|entry| Some(entry.ok()?.path()))
                .filter(|path| path.extension().is_some_and(|end| end == "parquet"))
                .collect(),
            Err(error) => {
                let is_none = error.kind() == io::ErrorKind::NotFound;
                // A run of `emulate` without a tap has no tables, a load no more than it counts.
                let may_lack = self.is_of_link
                    || self.is_load && !self.counted.contains_key(table.name())
                    // All of it went.
                    || self.is_emptied && !self.counts_parts(table)
                    // One over files that was killed in its first seconds has none either.
                    || self.is_unfinished && is_none;
                let why = || format!("{}: cannot be read: {error}", folder.display());
                return (Vec::new(), (!may_lack).then(why));
            }
        };
        parts.sort();
        let counted = self.counted.get(table.name()).copied().unwrap_or_default();
        let missing = || {
            format!(
                "{}: {} of the {counted} parts that trace.json counts are there: what the others \
                hold is missing here",
                folder.display(),
                parts.len(),
            )
        };
        // Parts of a run that goes on, or was killed, may have become one since they were counted.
        let may_be_merged = self.is_unfinished && !self.is_closed && !parts.is_empty();
        let missing = ((parts.len() as u64) < counted && !may_be_merged).then(missing);
        (parts, missing)
    }
}

/// Columns that identify within a run.
const IDS: [&str; 4] = ["operation_id", "rpc_id", "repeat_of", "connection_id"];

/// What is added to the ids of a run, so that two runs have the same only by a rare chance: each
/// run's ids lie close to each other, and these numbers far apart.
pub(super) fn id_shift(run: usize) -> i64 {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    (run as u64).wrapping_mul(GOLDEN).cast_signed()
}

impl Trace {
    /// Opens the folder of a trace.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let not = |why| TraceError::NotTrace {
            path: path.to_owned(),
            why,
        };
        if !path.exists() {
            return Err(not("there is nothing of that name"));
        }
        if !path.is_dir() {
            return Err(not("it is a file; if it holds frames, capture it first"));
        }
        let json = path.join("trace.json");
        let has_operations = path.join(Table::Operations.name()).is_dir();
        let mut warnings = Vec::new();
        let manifest = match manifest_text(&json) {
            Ok(text) => {
                check_version(path, &text)?;
                match Manifest::from_json(&text) {
                    Ok(manifest) => Some(manifest),
                    Err(error) if !has_operations => {
                        let (path, why) = (json, error.to_string());
                        return Err(TraceError::Damaged { path, why });
                    }
                    Err(error) => {
                        warnings.push(format!(
                            "{}: damaged: {error}; verdict, losses by cause and what was \
                            understood are not known",
                            json.display()
                        ));
                        None
                    }
                }
            }
            Err(_) if !has_operations => {
                return Err(not("it has neither trace.json nor a table operations"));
            }
            Err(error) => {
                warnings.push(format!(
                    "{}: cannot be read: {error}; verdict and what was understood are not known",
                    json.display()
                ));
                None
            }
        };
        let folder = Folder::new(path, manifest.as_ref());
        let may_lack = folder.is_of_link || folder.is_unfinished || folder.is_emptied;
        if !has_operations && !may_lack {
            return Err(not("it has no table operations"));
        }
        Ok(Self {
            folders: vec![folder],
            runs: Vec::new(),
            manifest,
            warnings,
            lacks: BTreeSet::new(),
        })
    }

    /// Opens the folder of a trace, or one of [runs](runs_of): all of them as one trace, whose ids
    /// are then others than in the tables. A run that cannot be opened becomes a warning.
    pub fn open_all(path: &Path, zone: &Zone) -> Result<Self, TraceError> {
        let mut runs = runs_of(path).unwrap_or_default();
        match runs.as_slice() {
            [] => return Self::open(path),
            [only] => return Self::open(&only.path),
            _ => {}
        }
        let (mut folders, mut warnings) = (Vec::new(), Vec::new());
        for run in &mut runs {
            match Self::open(&run.path) {
                Ok(mut opened) => {
                    folders.append(&mut opened.folders);
                    warnings.append(&mut opened.warnings);
                    run.trace = opened.manifest;
                }
                Err(error @ TraceError::Newer { .. }) => return Err(error),
                Err(error) => warnings.push(error.to_string()),
            }
        }
        Ok(Self {
            folders,
            manifest: together(&runs, zone),
            runs: of_many(&runs),
            warnings,
            lacks: BTreeSet::new(),
        })
    }

    /// The newest of several runs; the trace itself where there is one.
    pub(crate) fn newest(&self) -> Option<Self> {
        Self::open(&self.folders.last()?.path).ok()
    }

    /// Whether it holds no tables but those of monitors, and describes an emulated link.
    pub fn is_of_link(&self) -> bool {
        self.folders.iter().any(|folder| folder.is_of_link)
    }

    /// Whether `trace.json` could be read, of each run.
    pub(crate) fn is_described(&self) -> bool {
        self.folders.iter().all(|folder| folder.is_described)
    }

    /// Whether a table is there, or should be: those of monitors are in few traces.
    pub(crate) fn has(&self, table: Table) -> bool {
        let mut folders = self.folders.iter();
        folders.any(|folder| folder.counts_parts(table) || folder.path.join(table.name()).is_dir())
    }

    /// What an id of the tables became, in each run.
    pub(crate) fn ids(&self, id: i64) -> impl Iterator<Item = i64> + use<> {
        (0..self.run_count()).map(move |run| id.wrapping_add(id_shift(run)))
    }

    /// When each input of a run ended.
    pub(crate) fn ends_of_inputs(&self, run: usize) -> Vec<Option<i64>> {
        let own = || Self::open(&self.folders.get(run)?.path).ok()?.manifest;
        let manifest = match self.run_count() {
            1 => self.manifest.clone(),
            _ => own(),
        };
        manifest.as_ref().map(ends_of_inputs).unwrap_or_default()
    }

    /// Runs whose parts there are: several only if they were [opened](Self::open_all) as one.
    pub(crate) fn run_count(&self) -> usize {
        self.folders.len()
    }

    /// The complete parts of a table, in the order of their names, run by run. Parts that
    /// `trace.json` counts and that are not there become a warning.
    pub(crate) fn parts(&mut self, table: Table) -> Vec<PathBuf> {
        let runs = 0..self.run_count();
        runs.flat_map(|run| self.parts_of(run, table)).collect()
    }

    /// The same of one run.
    pub(crate) fn parts_of(&mut self, run: usize, table: Table) -> Vec<PathBuf> {
        let (parts, warning) = self.folders[run].parts(table);
        warning.into_iter().for_each(|warning| self.warn(warning));
        parts
    }

    /// Whether it may have compounds of NFSv4: rows in their table, or no such table. In a run that
    /// goes on some may be in memory.
    pub(crate) fn has_compounds(&self) -> bool {
        let rows = |path: &PathBuf| {
            let part = PartReader::open(open_file(path).ok()?).ok()?;
            Some(part.row_count())
        };
        let may_have = |folder: &Folder| {
            let (parts, _) = folder.parts(Table::Nfs4);
            folder.is_unfinished
                || parts.is_empty()
                || parts.iter().any(|path| rows(path) != Some(0))
        };
        !self.is_described() || self.folders.iter().any(may_have)
    }

    /// Whether every part of a table has these columns: a trace of an older version lacks those
    /// that came since.
    pub(crate) fn has_columns(&mut self, table: Table, columns: &[&str]) -> bool {
        let parts = self.parts(table);
        let has = |path: &PathBuf| {
            let part = open_file(path)
                .ok()
                .and_then(|file| PartReader::open(file).ok());
            // A damaged part is reported when its rows are read.
            part.is_none_or(|part| {
                let present: Vec<&str> = part.column_names().collect();
                columns.iter().all(|column| present.contains(column))
            })
        };
        parts.iter().all(has)
    }

    /// Opens a part. One that is damaged becomes a warning.
    pub(crate) fn open_part(&mut self, path: &Path) -> Option<PartReader<File>> {
        let file = match open_file(path) {
            Ok(file) => file,
            Err(error) => {
                self.warn(format!("{}: cannot be read: {error}", path.display()));
                return None;
            }
        };
        PartReader::open(file)
            .map_err(|error| self.damaged(path, &error))
            .ok()
    }

    /// Gives `take` every batch of a table, each with `columns`. What is damaged becomes a warning,
    /// and the rest of its part is left out.
    pub(crate) fn batches(
        &mut self,
        table: Table,
        columns: &[&str],
        mut take: impl FnMut(&[Column]) -> Result<(), ReadError>,
    ) {
        for run in 0..self.run_count() {
            self.batches_of(run, table, columns, &mut take);
        }
    }

    /// The same of one run.
    pub(crate) fn batches_of(
        &mut self,
        run: usize,
        table: Table,
        columns: &[&str],
        mut take: impl FnMut(&[Column]) -> Result<(), ReadError>,
    ) {
        for path in self.parts_of(run, table) {
            self.batches_of_part((run, &path), table, columns, &mut take);
        }
    }

    /// The same of one part of a run.
    pub(crate) fn batches_of_part(
        &mut self,
        (run, path): (usize, &Path),
        table: Table,
        columns: &[&str],
        mut take: impl FnMut(&[Column]) -> Result<(), ReadError>,
    ) {
        let shift = id_shift(run);
        let Some(part) = self.open_part(path) else {
            return;
        };
        self.note_lacks(table, &part, columns);
        let read = part.batches(columns, BATCH_ROWS).and_then(|mut batches| {
            while let Some(batch) = batches.next() {
                let mut batch = batch?;
                if shift != 0 {
                    let named = columns.iter().zip(&mut batch);
                    { named.filter(|(name, _)| IDS.contains(name)) }
                        .for_each(|(_, ids)| ids.add(shift));
                }
                take(&batch)?;
                batches.reuse(batch);
            }
            Ok(())
        });
        if let Err(error) = read {
            self.damaged(path, &error);
        }
    }

    /// Gives `each` the values of `columns` in every row of a table, as they are there. What is
    /// damaged becomes a warning, and the rest of its part is left out.
    pub fn rows(&mut self, table: Table, columns: &[&str], mut each: impl FnMut(&[Value])) {
        for path in self.parts(table) {
            self.rows_of_part((0, &path), table, columns, &mut each);
        }
    }

    /// The same of one part of a run, whose ids are those of the trace.
    pub(crate) fn rows_of_part(
        &mut self,
        (run, path): (usize, &Path),
        table: Table,
        columns: &[&str],
        mut each: impl FnMut(&[Value]),
    ) {
        let Some(part) = self.open_part(path) else {
            return;
        };
        self.note_lacks(table, &part, columns);
        let shift = id_shift(run);
        let read = part.rows(columns).and_then(|mut rows| {
            rows.try_for_each(|row| {
                let mut row = row?;
                let ids = columns.iter().zip(&mut row).filter(|_| shift != 0);
                for (_, id) in ids.filter(|(name, _)| IDS.contains(name)) {
                    if let Value::Integer(id) = id {
                        *id = id.wrapping_add(shift);
                    }
                }
                each(&row);
                Ok(())
            })
        });
        if let Err(error) = read {
            self.damaged(path, &error);
        }
    }

    /// The earliest and the latest value of some time columns of `operations`: from the parts'
    /// statistics, or from their rows where statistics do not show it. Nanoseconds since the Unix
    /// epoch.
    pub(crate) fn time_range(&mut self, columns: &[&str]) -> Option<(i64, i64)> {
        let mut range: Option<(i64, i64)> = None;
        let mut take = |low: i64, high: i64| {
            range = Some(range.map_or((low, high), |(first, last)| {
                (first.min(low), last.max(high))
            }));
        };
        for path in self.parts(Table::Operations) {
            // A damaged part is reported when its rows are read.
            let Some(part) = open_file(&path)
                .ok()
                .and_then(|file| PartReader::open(file).ok())
            else {
                continue;
            };
            let known: Vec<_> = columns
                .iter()
                .filter_map(|column| part.range(column))
                .collect();
            if known.len() == columns.len() {
                known.iter().for_each(|&(low, high)| take(low, high));
                continue;
            }
            for row in part.rows(columns).into_iter().flatten().flatten() {
                for time in row.iter().filter_map(|value| value.integer()) {
                    take(time, time);
                }
            }
        }
        range
    }

    /// Takes note of the columns that a part does not have.
    fn note_lacks(&mut self, table: Table, part: &PartReader<File>, columns: &[&str]) {
        let has = |column: &str| part.column_names().any(|name| name == column);
        let lacks = columns
            .iter()
            .filter(|column| part.is_older() && !has(column));
        self.lacks
            .extend(lacks.map(|column| format!("{}.{column}", table.name())));
    }

    /// Takes note of something wrong, once.
    pub(crate) fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    fn damaged(&mut self, path: &Path, error: &ReadError) {
        self.warn(format!("{}: {error}", path.display()));
    }
}

/// When each input ended: with the last frame of a file, with the run at an interface.
pub(crate) fn ends_of_inputs(manifest: &Manifest) -> Vec<Option<i64>> {
    let clocks = manifest.clocks.iter().enumerate();
    let end = |(at, clock): (usize, &ClockFacts)| {
        let input = manifest.inputs.get(at);
        let is_live = input.is_some_and(|input| input.live.is_some());
        clock.last_ns.max(manifest.ended_ns.filter(|_| is_live))
    };
    clocks.map(end).collect()
}

/// The first number of a schema version decides whether tables can be read.
fn check_version(path: &Path, json: &str) -> Result<(), TraceError> {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(json) else {
        return Ok(());
    };
    let text = |pointer| {
        value
            .pointer(pointer)
            .and_then(serde_json::Value::as_str)
            .unwrap_or("")
    };
    let major = |version: &str| -> Option<u64> { version.split('.').next()?.parse().ok() };
    let found = text("/schema_version");
    if major(found) <= major(SCHEMA_VERSION) {
        return Ok(());
    }
    Err(TraceError::Newer {
        path: path.to_owned(),
        found: found.to_owned(),
        tool: format!("{} {}", text("/tool/name"), text("/tool/version")),
    })
}
