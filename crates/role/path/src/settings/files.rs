//! The files named in a link's settings: tables, path files and traces of deliveries.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use lineside_link::{Deliveries, PathFile, Table, format};
use lineside_run::ConfigError;

/// The source of files' texts.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// Where names begin.
    folder: PathBuf,
    known: BTreeMap<String, String>,
    used: BTreeSet<String>,
    /// The texts of those that have been sent; others may not be read.
    is_closed: bool,
}

impl Files {
    /// Those whose names begin in a folder.
    pub(super) fn within(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            ..Self::default()
        }
    }

    /// These and no others.
    pub(super) fn of(known: BTreeMap<String, String>) -> Self {
        Self {
            known,
            is_closed: true,
            ..Self::default()
        }
    }

    /// The texts of the requested files, by name.
    pub(super) fn into_used(mut self) -> BTreeMap<String, String> {
        self.known.retain(|name, _| self.used.contains(name));
        self.known
    }

    fn text(&mut self, name: &str) -> Result<&str, String> {
        if !self.known.contains_key(name) {
            if self.is_closed {
                return Err(format!("{name}: it was not sent"));
            }
            let text = read_text(&self.folder.join(name))?;
            self.known.insert(name.to_owned(), text);
        }
        self.used.insert(name.to_owned());
        Ok(&self.known[name])
    }

    pub(super) fn table(&mut self, name: &str) -> Result<Table, String> {
        load(name, self.text(name)?)
    }

    pub(super) fn path(&mut self, name: &str) -> Result<PathFile, ConfigError> {
        let path = { self.text(name) }.and_then(|text| path(name, text));
        path.map_err(|why| ConfigError::usage(&format!("path: {why}")))
    }

    pub(super) fn deliveries(&mut self, name: &str) -> Result<Deliveries, ConfigError> {
        let trace = { self.text(name) }.and_then(|text| deliveries(name, text));
        trace.map_err(|why| ConfigError::usage(&format!("rate: {why}")))
    }
}

/// No table is longer: 65,536 numbers, or some million samples.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The content of a file.
pub enum Content {
    Table(Table),
    /// Nanoseconds.
    Samples(Vec<i64>),
}

/// A table for `--delay '… distribution FILE'`: samples become one of 4,096 entries.
fn load(name: &str, text: &str) -> Result<Table, String> {
    match content(name, text)? {
        Content::Table(table) => Ok(table),
        Content::Samples(samples) => {
            Table::from_samples(samples, 4096).map_err(|error| format!("{name}: {error}"))
        }
    }
}

/// A path file for `--path`.
fn path(name: &str, text: &str) -> Result<PathFile, String> {
    PathFile::read(name, text).map_err(|error| format!("{name}: {error}"))
}

/// A trace of mahimahi's for `--rate 'trace FILE'`.
fn deliveries(name: &str, text: &str) -> Result<Deliveries, String> {
    Deliveries::read(name, text).map_err(|error| format!("{name}: {error}"))
}

/// The text of a file named in a setting.
pub fn read_text(path: &Path) -> Result<String, String> {
    let name = path.display();
    let mut text = String::new();
    let opened =
        File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    opened.map_err(|error| format!("{name}: cannot read it: {error}"))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!(
            "{name}: it is larger than 64 MiB, too large for a table"
        ));
    }
    Ok(text)
}

pub fn content(name: &str, text: &str) -> Result<Content, String> {
    let content = if name.ends_with(".dist") || format::is_coe(text) {
        format::read(text).map(Content::Table)
    } else {
        format::read_samples(text, 1.0).map(Content::Samples)
    };
    content.map_err(|error| format!("{name}: {error}"))
}
