//! Running the command and reading its output.

use std::fs::{File, Permissions};
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

use lineside_account::{Counter, Counters};
use lineside_rows::{
    ChecksumRow, FileRow, Nfs4Row, NfsRow, OperationRow, Row as _, ServiceRow, Table,
};
use lineside_testkit::captures;
pub(crate) use lineside_testkit::captures::repository;
pub(crate) use lineside_testkit::waiting::{wait_until, wait_until_still, wait_until_still_for};
use lineside_trace::read::{PartReader, Value};
use lineside_trace::{Manifest, State};
use tempfile::TempDir;

/// The command, built for this test, as wide as where there is no terminal.
pub(crate) fn lineside() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lineside"));
    command.env_remove("COLUMNS");
    command
}

/// The example that `./demo` captures.
pub(crate) fn example() -> PathBuf {
    captures::example("nfs-mix.pcapng.zst")
}

/// A folder that every user may look into and write to.
pub(crate) fn open_folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("its owner");
    folder
}

/// The text of a program on standard error.
pub(crate) fn talk(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A program that is killed once this is dropped, at the latest.
pub(crate) struct Guarded(pub(crate) Child);

impl Deref for Guarded {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Guarded {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder that its owner alone may pass: where live runs write, whatever user they become.
pub(crate) fn private_folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).expect("its owner");
    folder
}

/// A trace, read whole.
pub(crate) struct Trace {
    pub(crate) operations: Vec<Record>,
    pub(crate) checksums: Vec<Record>,
    /// Of the tables that belong to some protocols alone.
    pub(crate) nfs: Vec<Record>,
    pub(crate) nfs4: Vec<Record>,
    pub(crate) services: Vec<Record>,
    pub(crate) files: Vec<Record>,
    pub(crate) manifest: Manifest,
    _folder: TempDir,
}

impl Trace {
    /// Captures `input`; anything but exit status 0 fails the test.
    pub(crate) fn of(input: &Path, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the trace");
        let out = folder.path().join("trace");
        let output = lineside()
            .arg("capture")
            .arg(input)
            .arg("-o")
            .arg(&out)
            .arg("-q")
            .args(options)
            .output()
            .expect("lineside runs");
        assert!(
            output.status.success(),
            "{}: {}\n{}",
            input.display(),
            output.status,
            talk(&output)
        );
        Self::read(&out, folder)
    }

    /// Reads a trace, which goes with `folder`.
    pub(crate) fn read(out: &Path, folder: TempDir) -> Self {
        Self {
            operations: records(out, OperationRow::TABLE),
            checksums: records(out, ChecksumRow::TABLE),
            nfs: records(out, NfsRow::TABLE),
            nfs4: records(out, Nfs4Row::TABLE),
            services: records(out, ServiceRow::TABLE),
            files: records(out, FileRow::TABLE),
            manifest: manifest(out),
            _folder: folder,
        }
    }

    /// The rows of all tables that belong to some protocols alone.
    pub(crate) fn details(&self) -> impl Iterator<Item = &Record> {
        self.nfs.iter().chain(&self.nfs4).chain(&self.services)
    }

    /// The rows of NFS and MOUNT.
    pub(crate) fn nfs_rows(&self) -> impl Iterator<Item = &Record> {
        let rows = self.operations.iter();
        rows.filter(|row| matches!(row.text("program"), Some("nfs" | "mount")))
    }

    /// Of these, those of version 3.
    pub(crate) fn nfs3(&self) -> impl Iterator<Item = &Record> {
        self.nfs_rows()
            .filter(|row| row.integer("version") == Some(3))
    }

    /// Fails if an identity between counters does not hold.
    pub(crate) fn assert_identities(&self, what: &str) {
        assert_eq!(counters(&self.manifest).broken_identity(), None, "{what}");
    }
}

/// The counters that a manifest holds.
pub(crate) fn counters(manifest: &Manifest) -> Counters {
    let mut counters = Counters::new();
    for &counter in Counter::ALL {
        let value = manifest.counters.get(counter.name());
        counters.add(counter, value.map_or(0, |counter| counter.value));
    }
    counters
}

/// The status with which `emulate` ends a run that left a verdict: on a busy machine frames may
/// leave late, which counts with `--strict` alone.
pub(crate) fn held_status(out: &Path) -> i32 {
    assert_ne!(manifest(out).verdict.state, State::Unfinished);
    0
}

/// Whether `emulate` came to its end, on a busy machine with frames that left late.
pub(crate) fn came_to_its_end(output: &Output) -> bool {
    output.status.code() == Some(0)
}

/// `trace.json` of a run folder.
pub(crate) fn manifest(out: &Path) -> Manifest {
    let path = out.join("trace.json");
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Manifest::from_json(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All rows of a table.
pub(crate) fn records(out: &Path, table: Table) -> Vec<Record> {
    let columns: Vec<&str> = table.columns().iter().map(|column| column.name).collect();
    let mut records = Vec::new();
    for part in parts(out, table) {
        let file = File::open(&part).expect("a part can be opened");
        let reader =
            PartReader::open(file).unwrap_or_else(|error| panic!("{}: {error}", part.display()));
        for values in reader.rows(&columns).expect("every column is there") {
            records.push(Record {
                table,
                values: values.expect("a row"),
            });
        }
    }
    records
}

/// The complete parts of a table.
pub(crate) fn parts(out: &Path, table: Table) -> Vec<PathBuf> {
    let folder = out.join(table.name());
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut parts: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    parts.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "parquet")
    });
    parts.sort();
    parts
}

/// How many parts of a table have rows.
pub(crate) fn parts_with_rows(out: &Path, table: Table) -> usize {
    let rows = parts(out, table).into_iter().map(|part| {
        let file = File::open(part).expect("a part can be opened");
        PartReader::open(file).expect("a part").row_count()
    });
    rows.filter(|&rows| rows > 0).count()
}

/// Rows in an order that does not depend on their parts.
pub(crate) fn sorted<'a>(rows: impl IntoIterator<Item = &'a Record>) -> Vec<String> {
    let mut rows: Vec<String> = rows.into_iter().map(|row| format!("{row:?}")).collect();
    rows.sort();
    rows
}

/// A row of a table, its values by name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    pub(crate) table: Table,
    values: Vec<Value>,
}

impl Record {
    /// The value of a column.
    pub(crate) fn value(&self, column: &str) -> &Value {
        let place = self
            .table
            .columns()
            .iter()
            .position(|each| each.name == column);
        &self.values[place.unwrap_or_else(|| panic!("no column {column}"))]
    }

    /// A number, unless it is null.
    pub(crate) fn integer(&self, column: &str) -> Option<i64> {
        self.value(column).integer()
    }

    /// A text, unless it is null.
    pub(crate) fn text(&self, column: &str) -> Option<&str> {
        self.value(column).text()
    }

    /// A flag.
    pub(crate) fn is(&self, column: &str) -> bool {
        self.value(column) == &Value::Boolean(true)
    }

    /// The columns that are not `ignored` and not null, with their values.
    pub(crate) fn text_without(&self, ignored: impl Fn(&str) -> bool) -> String {
        let columns = self.table.columns().iter().zip(&self.values);
        let kept =
            columns.filter(|(column, value)| !ignored(column.name) && *value != &Value::Null);
        kept.map(|(column, value)| format!("{} {value:?} ", column.name))
            .collect()
    }

    /// The first column, but for `ignored` ones, that has a value here and another in `whole`.
    pub(crate) fn contradiction(
        &self,
        whole: &Self,
        ignored: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let values = self.values.iter().zip(&whole.values);
        let columns = self.table.columns().iter().zip(values);
        { columns }.find_map(|(column, (mine, theirs))| {
            let differs = !ignored(column.name) && mine != &Value::Null && mine != theirs;
            differs.then(|| format!("{}: {mine:?}, not {theirs:?}", column.name))
        })
    }
}
