//! The folder of a plan: tables `calls` and `edges`, and `plan.json`, which is written last.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use lineside_analyze::PlanOutput;
use lineside_plan::{Edge, Event, PlanSink, PlannedCall};
use lineside_trace::{GivenCell, GivenColumn, GivenKind, GivenPart, GivenTable};

const CALLS: [(&str, GivenKind); 16] = [
    ("call_id", GivenKind::Integer),
    ("time_ns", GivenKind::Integer),
    ("event", GivenKind::Text),
    ("operation_id", GivenKind::Integer),
    ("connection_id", GivenKind::Integer),
    ("client_address", GivenKind::Text),
    ("server_address", GivenKind::Text),
    ("user_id", GivenKind::Integer),
    ("operation", GivenKind::Text),
    ("thread", GivenKind::Integer),
    ("cause", GivenKind::Text),
    ("trigger", GivenKind::Integer),
    ("think_ns", GivenKind::Integer),
    ("run", GivenKind::Integer),
    ("depth", GivenKind::Integer),
    ("depth_is_bound", GivenKind::Boolean),
];
const EDGES: [(&str, GivenKind); 3] = [
    ("from_call", GivenKind::Integer),
    ("to_call", GivenKind::Integer),
    ("kind", GivenKind::Text),
];
const TABLES: [&str; 2] = ["calls", "edges"];
const FACTS: &str = "plan.json";

/// The folder that a plan is left in.
pub(super) struct Folder(PathBuf);

impl Folder {
    /// A new folder, or an empty one. With `force` also one that holds a plan and nothing else.
    pub(super) fn make(path: &Path, force: bool) -> anyhow::Result<Self> {
        let name = path.display();
        fs::create_dir_all(path).with_context(|| format!("{name}: cannot make it"))?;
        let files = files_of(path).with_context(|| format!("{name}: cannot be read"))?;
        if !files.is_empty() && !force {
            bail!("{name} exists already: give another folder, or --force to replace a plan");
        }
        if let Some(foreign) = files.iter().find(|file| !is_of_plan(path, file)) {
            bail!(
                "{}: it is no part of a plan, so --force does not replace {name}: give another \
                folder",
                foreign.display()
            );
        }
        for file in files {
            fs::remove_file(&file)
                .with_context(|| format!("{}: cannot remove it", file.display()))?;
        }
        for table in TABLES {
            let table = path.join(table);
            fs::create_dir_all(&table)
                .with_context(|| format!("{}: cannot make it", table.display()))?;
        }
        Ok(Self(path.to_owned()))
    }

    /// Leaves an empty folder where it was made in vain: the sandbox keeps what is beside it.
    pub(super) fn empty(&self) {
        for table in TABLES {
            let _ = fs::remove_dir(self.0.join(table));
        }
    }

    /// Writes what the plan is: from then on it is whole.
    pub(super) fn describe(&self, json: &str) -> anyhow::Result<()> {
        self.put("", FACTS, &[json.as_bytes()])
    }

    /// Writes a file under another name first, so that a reader sees it whole.
    fn put(&self, table: &str, name: &str, pieces: &[impl AsRef<[u8]>]) -> anyhow::Result<()> {
        let folder = self.0.join(table);
        let (open, done) = (folder.join(format!(".{name}.tmp")), folder.join(name));
        let write = || {
            let mut file = fs::File::create(&open)?;
            pieces
                .iter()
                .try_for_each(|piece| file.write_all(piece.as_ref()))?;
            fs::rename(&open, &done)
        };
        write().with_context(|| format!("{}: cannot write it", done.display()))
    }
}

/// The files of a folder and of those in it.
fn files_of(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        match kind.is_dir() && TABLES.iter().any(|table| path == folder.join(table)) {
            true => {
                for entry in fs::read_dir(&path)? {
                    files.push(entry?.path());
                }
            }
            false => files.push(path),
        }
    }
    Ok(files)
}

fn is_of_plan(folder: &Path, file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name = name.trim_start_matches('.').trim_end_matches(".tmp");
    let is_file = fs::symlink_metadata(file).is_ok_and(|facts| facts.is_file());
    is_file
        && match file.parent() == Some(folder) {
            true => name == FACTS,
            false => name.starts_with("part-") && name.ends_with(".parquet"),
        }
}

/// Takes a plan, and writes it if it has a folder.
pub(super) struct Output<'a> {
    folder: Option<&'a Folder>,
    calls: GivenTable,
    edges: GivenTable,
    texts: Vec<String>,
    error: Option<anyhow::Error>,
}

impl<'a> Output<'a> {
    pub(super) fn new(folder: Option<&'a Folder>) -> Self {
        let table = |columns: &[(&str, GivenKind)]| {
            let column = |&(name, kind): &(&str, GivenKind)| GivenColumn {
                name: name.to_owned(),
                kind,
            };
            GivenTable::new(columns.iter().map(column).collect(), "")
        };
        Self {
            folder,
            calls: table(&CALLS),
            edges: table(&EDGES),
            texts: Vec::new(),
            error: None,
        }
    }

    /// Writes the last parts.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let Some(folder) = self.folder else {
            return Ok(());
        };
        for (name, table) in TABLES.into_iter().zip([self.calls, self.edges]) {
            let (part, _) = table.finish()?;
            part.map_or(Ok(()), |part| folder.put(name, &part.file, &part.pieces))?;
        }
        Ok(())
    }

    fn took(&mut self, table: &str, part: std::io::Result<Option<GivenPart>>) {
        let written = part.map_err(anyhow::Error::from).and_then(|part| {
            let part = self.folder.zip(part);
            part.map_or(Ok(()), |(folder, part)| {
                folder.put(table, &part.file, &part.pieces)
            })
        });
        if let Err(error) = written {
            self.error.get_or_insert(error);
        }
    }

    fn is_wanted(&self) -> bool {
        self.folder.is_some() && self.error.is_none()
    }
}

fn push(table: &mut GivenTable, cells: &[GivenCell<'_>]) -> std::io::Result<Option<GivenPart>> {
    for (at, cell) in cells.iter().enumerate() {
        table.push(at, *cell)?;
    }
    table.advance(1)
}

impl PlanSink for Output<'_> {
    fn call(&mut self, call: &PlannedCall) {
        if !self.is_wanted() {
            return;
        }
        let (of, integer) = (&call.observed, |value: i64| GivenCell::Integer(value));
        let maybe = |value: Option<i64>| value.map_or(GivenCell::Null, GivenCell::Integer);
        let number = |value: Option<u64>| maybe(value.map(u64::cast_signed));
        let text = |at: u32| match self.texts.get(at as usize) {
            Some(text) if !text.is_empty() => GivenCell::Bytes(text.as_bytes()),
            _ => GivenCell::Null,
        };
        let (event, is_call) = match of.event {
            Event::Call => ("call", true),
            Event::Timer => ("timer", true),
            Event::Open => ("open", false),
        };
        let cells = [
            integer(call.number.cast_signed()),
            integer(of.call_ns),
            GivenCell::Bytes(event.as_bytes()),
            maybe(is_call.then_some(of.id)),
            integer(of.connection),
            text(of.client),
            text(of.server),
            maybe(of.user),
            text(of.operation),
            integer(call.thread.into()),
            GivenCell::Bytes(call.cause.name().as_bytes()),
            number(call.trigger),
            maybe(call.think_ns),
            number(call.run),
            maybe(call.depth.map(i64::from)),
            call.is_bound.map_or(GivenCell::Null, GivenCell::Boolean),
        ];
        let part = push(&mut self.calls, &cells);
        self.took(TABLES[0], part);
    }

    fn edge(&mut self, edge: Edge) {
        if !self.is_wanted() {
            return;
        }
        let cells = [
            GivenCell::Integer(edge.from.cast_signed()),
            GivenCell::Integer(edge.to.cast_signed()),
            GivenCell::Bytes(edge.kind.name().as_bytes()),
        ];
        let part = push(&mut self.edges, &cells);
        self.took(TABLES[1], part);
    }
}

impl PlanOutput for Output<'_> {
    fn text(&mut self, number: u32, text: &str) {
        let at = number as usize;
        self.texts
            .resize(self.texts.len().max(at + 1), String::new());
        text.clone_into(&mut self.texts[at]);
    }
}
