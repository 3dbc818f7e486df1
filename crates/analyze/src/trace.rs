//! A trace on disk: its manifest, its parts, and what is wrong with them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use lineside_trace::read::{Column, PartReader, ReadError, Value};
use lineside_trace::{Manifest, SCHEMA_VERSION, State, Table, manifest_text, open_file};

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

/// A trace, opened. What is wrong with it is collected: what can be read still is.
#[derive(Debug)]
pub struct Trace {
    path: PathBuf,
    /// The table `operations` is there.
    has_operations: bool,
    /// `trace.json`, unless it is missing or damaged.
    pub manifest: Option<Manifest>,
    /// What was wrong so far, in sentences that name the file.
    pub warnings: Vec<String>,
    /// Columns that an older lineside did not write, as `table.column`: they read as null.
    pub lacks: BTreeSet<String>,
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
                Manifest::from_json(&text)
                    .map_err(|error| {
                        warnings.push(format!(
                            "{}: damaged: {error}; verdict, losses \
                    by cause and what was understood are not known",
                            json.display()
                        ))
                    })
                    .ok()
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
        let trace = Self {
            path: path.to_owned(),
            has_operations,
            manifest,
            warnings,
            lacks: BTreeSet::new(),
        };
        let may_lack = trace.is_of_link() || trace.is_unfinished() || trace.is_emptied();
        if !has_operations && !may_lack {
            return Err(not("it has no table operations"));
        }
        Ok(trace)
    }

    /// Whether it holds no tables but those of monitors, and describes an emulated link.
    pub fn is_of_link(&self) -> bool {
        let is_of_link = |manifest: &Manifest| {
            let of = |verb: &str| manifest.configuration.get(verb).is_some();
            of("emulate") || manifest.certificate.is_some() && !of("load")
        };
        // Tables of a run that was killed are not counted yet.
        let is_monitors = |name: &String| Table::MONITORS.iter().any(|table| table.name() == name);
        let has_tables =
            |manifest: &Manifest| self.has_operations || !manifest.tables.keys().all(is_monitors);
        { self.manifest.iter() }.any(|manifest| is_of_link(manifest) && !has_tables(manifest))
    }

    /// Whether `load` wrote it.
    fn is_load(&self) -> bool {
        let mut manifest = self.manifest.iter();
        manifest.any(|manifest| manifest.configuration.get("load").is_some())
    }

    /// Whether `trace.json` counts parts of a table.
    fn counts(&self, table: Table) -> bool {
        let mut manifest = self.manifest.iter();
        manifest.any(|manifest| manifest.tables.contains_key(table.name()))
    }

    /// Whether it should have parts of a table.
    fn counts_parts(&self, table: Table) -> bool {
        let tables = self.manifest.iter().map(|manifest| &manifest.tables);
        let mut counted = tables.filter_map(|tables| tables.get(table.name()));
        counted.any(|summary| summary.parts > 0)
    }

    /// Whether its run goes on or was killed: tables may not be there yet.
    fn is_unfinished(&self) -> bool {
        let mut manifest = self.manifest.iter();
        manifest.any(|manifest| manifest.verdict.state == State::Unfinished)
    }

    /// Whether it lost its last parts to `--keep`.
    fn is_emptied(&self) -> bool {
        let mut manifest = self.manifest.iter();
        manifest.any(|manifest| manifest.removed.is_some())
    }

    /// Whether a table is there, or should be: those of monitors are in few traces.
    pub(crate) fn has(&self, table: Table) -> bool {
        self.counts_parts(table) || self.path.join(table.name()).is_dir()
    }

    /// The complete parts of a table, in the order of their names. Parts that `trace.json` counts
    /// and that are not there become a warning.
    pub(crate) fn parts(&mut self, table: Table) -> Vec<PathBuf> {
        let folder = self.path.join(table.name());
        let mut parts: Vec<_> = match fs::read_dir(&folder) {
            Ok(entries) => entries
                .filter_map(|entry| Some(entry.ok()?.path()))
                .filter(|path| path.extension().is_some_and(|end| end == "parquet"))
                .collect(),
            // A run of `emulate` without a tap has no tables.
            Err(_) if self.is_of_link() => return Vec::new(),
            // A load has no more than it counts.
            Err(_) if self.is_load() && !self.counts(table) => return Vec::new(),
            // All of it went.
            Err(_) if self.is_emptied() && !self.counts_parts(table) => return Vec::new(),
            // One over files that was killed in its first seconds has none either.
            Err(error) if self.is_unfinished() && error.kind() == io::ErrorKind::NotFound => {
                return Vec::new();
            }
            Err(error) => {
                self.warn(format!("{}: cannot be read: {error}", folder.display()));
                return Vec::new();
            }
        };
        parts.sort();
        let counted = { self.manifest.iter() }
            .find_map(|manifest| manifest.tables.get(table.name()))
            .map_or(0, |summary| summary.parts);
        if (parts.len() as u64) < counted {
            self.warn(format!(
                "{}: {} of the {counted} parts that trace.json counts are there: what the others \
                hold is missing here",
                folder.display(),
                parts.len(),
            ));
        }
        parts
    }

    /// Whether it may have compounds of NFSv4: rows in their table, or no such table. In a run that
    /// goes on some may be in memory.
    pub(crate) fn has_compounds(&self) -> bool {
        let Ok(entries) = fs::read_dir(self.path.join(Table::Nfs4.name())) else {
            return true;
        };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let parts = paths.filter(|path| path.extension().is_some_and(|end| end == "parquet"));
        let rows = |path: PathBuf| {
            let part = PartReader::open(open_file(&path).ok()?).ok()?;
            Some(part.row_count())
        };
        let rows: Vec<Option<u64>> = parts.map(rows).collect();
        self.manifest.is_none()
            || self.is_unfinished()
            || rows.is_empty()
            || rows.iter().any(|&rows| rows != Some(0))
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
        for path in self.parts(table) {
            let Some(part) = self.open_part(&path) else {
                continue;
            };
            self.note_lacks(table, &part, columns);
            let read = part.batches(columns, BATCH_ROWS).and_then(|mut batches| {
                while let Some(batch) = batches.next() {
                    let batch = batch?;
                    take(&batch)?;
                    batches.reuse(batch);
                }
                Ok(())
            });
            if let Err(error) = read {
                self.damaged(&path, &error);
            }
        }
    }

    /// Gives `each` the values of `columns` in every row of a table. What is damaged becomes a
    /// warning, and the rest of its part is left out.
    pub fn rows(&mut self, table: Table, columns: &[&str], mut each: impl FnMut(&[Value])) {
        for path in self.parts(table) {
            let Some(part) = self.open_part(&path) else {
                continue;
            };
            self.note_lacks(table, &part, columns);
            let read = part.rows(columns).and_then(|mut rows| {
                rows.try_for_each(|row| {
                    each(&row?);
                    Ok(())
                })
            });
            if let Err(error) = read {
                self.damaged(&path, &error);
            }
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
