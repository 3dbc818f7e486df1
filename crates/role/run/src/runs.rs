//! A folder of runs (`-o DIR --runs`): each start is a run of its own, `DIR/run=20261122T183000Z`,
//! which DuckDB, Spark and pandas see as a partition with a column `run`.
//!
//! ```text
//!  DIR/                         locked by the run that writes into it (flock(2))
//!    run=20261122T183000Z/      killed: closed by the next start, verdict incomplete
//!    run=20261122T190112Z/      written now
//! ```
//!
//! Nothing here removes a row, unless a full disk leaves no room for a start that is not to keep
//! all ([`OlderRuns`]): what goes are beginnings of files, which have no name yet, copies that were
//! about to take a table's place, and folders in which there is nothing.

use std::path::{Path, PathBuf};

use lineside_host::{FolderError, Place};
use lineside_rows::Table;
use lineside_store::{FinishedRun, Older as _, Retention};
use lineside_trace::read::PartReader;
use lineside_trace::{Manifest, State, TableSummary};

use crate::older::{OlderRuns, say_removed};
use crate::own::{PREFIX, TOOL, manifest_in};

/// Runs that may begin in the same second, before a clock that was set back comes to nothing.
const NAMES_MAX: i64 = 10_000;

/// Bytes that a run's `trace.json` may take at first.
const ROOM_LEN: usize = 32 << 10;

/// Why no run begins in a folder of runs. Each has the place and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunsError {
    /// What is in the folder is not ours.
    #[error(
        "{} is no run of lineside's, so --runs writes nothing beside it: choose another folder \
         with -o, or move it away", .0.display()
    )]
    Foreign(PathBuf),
    /// The folder is that of one run.
    #[error(
        "{} is the trace of one run: name the folder above it, or another one, with -o, or leave \
         out --runs", .0.display()
    )]
    OneRun(PathBuf),
    /// Another run writes into the folder.
    #[error(
        "{} has a run that goes on{}: end that one first, or choose another folder with -o",
        path.display(), holder.map_or_else(String::new, |holder| format!(" (process {holder})"))
    )]
    Busy {
        /// The folder.
        path: PathBuf,
        /// The process, if the kernel names it.
        holder: Option<u32>,
    },
    /// Its clock was set back very often.
    #[error("{}: the next seconds have runs already: set the clock", .0.display())]
    Names(PathBuf),
    /// The operating system refused.
    #[error(transparent)]
    Folder(#[from] FolderError),
}

/// A folder of runs, locked, with the folder of the run that begins.
#[derive(Debug)]
pub struct Runs {
    run: Place,
    /// What was found of runs before, in sentences.
    pub notes: Vec<String>,
    _lock: FinishedRun,
    _folder: MadeFor,
}

/// A folder that goes, if it was made for runs of which none began.
#[derive(Debug)]
struct MadeFor {
    folder: Place,
    is_new: bool,
}

impl Runs {
    /// Makes the folder, if it is not there, closes the runs in it that were killed, and makes the
    /// folder of one that begins at `now_ns`. On a full disk the oldest parts go, if not all are to
    /// be kept.
    pub fn begin(path: &Path, now_ns: i64, retention: Retention) -> Result<Self, RunsError> {
        let (folder, is_new) = Place::make(path)?;
        let made = MadeFor {
            folder: folder.clone(),
            is_new,
        };
        // Before the lock: a run in it holds its folder's.
        let entries = folder.entries()?;
        if entries.iter().any(|entry| entry.name == "trace.json") {
            return Err(RunsError::OneRun(path.to_owned()));
        }
        let lock = FinishedRun::open(&folder).ok_or_else(|| RunsError::Busy {
            path: path.to_owned(),
            holder: folder.lock_holder(),
        })?;
        let mut notes = Vec::new();
        let make_room = || OlderRuns::in_folder(&folder, retention).make_room();
        for run in runs_in(&folder)? {
            let run = run?;
            let closed = with_room(make_room, || close(&folder, &run, now_ns), is_full);
            match closed {
                // It is no reason to record nothing. The next start tries again.
                Err(RunsError::Folder(error)) => notes.push(format!("not closed: {error}")),
                closed => notes.extend(closed?),
            }
        }
        let run = with_room(make_room, || make_run(&folder, now_ns), is_full)?;
        // The name outlives a loss of power, as the parts below it do.
        folder.sync()?;
        Ok(Self {
            run,
            notes,
            _lock: lock,
            _folder: made,
        })
    }

    /// The folder of the run, which is there and empty.
    pub fn run(&self) -> &Place {
        &self.run
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        // Of a run that could not begin.
        self.run.remove_if_empty();
    }
}

impl Drop for MadeFor {
    fn drop(&mut self) {
        if self.is_new {
            self.folder.remove_if_empty();
        }
    }
}

/// The runs in a folder; an error for what is none. Hidden names and `lost+found` are passed over.
fn runs_in(folder: &Place) -> Result<Vec<Result<String, RunsError>>, RunsError> {
    let mut runs = Vec::new();
    for entry in folder.entries()? {
        let name = entry.name;
        if name.starts_with('.') || name == "lost+found" {
            continue;
        }
        runs.push(match name.starts_with(PREFIX) && entry.is_folder {
            true => Ok(name),
            false => Err(RunsError::Foreign(folder.path().join(name))),
        });
    }
    // What is foreign comes first: then nothing was changed.
    runs.sort_by_key(Result::is_ok);
    Ok(runs)
}

/// What `make` comes to once there is room for it, as far as older parts can make some.
fn with_room<T, E>(
    make_room: impl Fn() -> bool,
    mut make: impl FnMut() -> Result<T, E>,
    is_full: impl Fn(&E) -> bool,
) -> Result<T, E> {
    loop {
        match make() {
            Err(error) if is_full(&error) && make_room() => {}
            made => return made,
        }
    }
}

fn is_full(error: &RunsError) -> bool {
    matches!(error, RunsError::Folder(error) if error.is_full())
}

/// Makes the folder of a run, with room for its first `trace.json`: named after the second, or
/// after the next one that no run has.
fn make_run(folder: &Place, now_ns: i64) -> Result<Place, RunsError> {
    let now = now_ns.div_euclid(1_000_000_000);
    for second in now..now + NAMES_MAX {
        let Ok(at) = jiff::Timestamp::from_second(second) else {
            break;
        };
        let name = format!("{PREFIX}{}", at.strftime("%Y%m%dT%H%M%SZ"));
        let Some(run) = folder.make_child(&name)? else {
            continue;
        };
        return match run.try_room("trace.json", ROOM_LEN) {
            Ok(()) => Ok(run),
            Err(error) => {
                run.remove_if_empty();
                Err(error.into())
            }
        };
    }
    Err(RunsError::Names(folder.path().to_owned()))
}

/// Closes a run that was killed. What there is to say of it, if it is not as its run left it.
fn close(folder: &Place, name: &str, now_ns: i64) -> Result<Option<String>, RunsError> {
    let place = folder.child(name)?;
    let path = place.path();
    let Some(run) = FinishedRun::open(&place) else {
        return Ok(Some(format!(
            "{}: a run writes it: left alone",
            path.display()
        )));
    };
    let closed = close_locked(&run, now_ns)?;
    // All of it was killed, also what gives files back.
    place.take_back(folder)?;
    Ok(closed)
}

fn close_locked(run: &FinishedRun, now_ns: i64) -> Result<Option<String>, RunsError> {
    let path = run.path();
    let entries = run.entries()?;
    let has = |name: &str| entries.iter().any(|entry| entry.name == name);
    if !has("trace.json") {
        let is_begun = |name: &str| name == ".trace.json.tmp";
        if let Some(other) = entries.iter().find(|entry| !is_begun(&entry.name)) {
            return Err(RunsError::Foreign(path.join(&other.name)));
        }
        for entry in &entries {
            run.remove(&entry.name)?;
        }
        // It was killed before it began. Who may not remove it leaves it.
        run.remove_if_empty();
        return Ok(None);
    }
    let manifest = match manifest_in(run) {
        Ok(manifest) => manifest,
        Err(error) => {
            let trace = path.join("trace.json");
            return Ok(Some(format!("{}: {error}: left as it is", trace.display())));
        }
    };
    if manifest.tool.name != TOOL {
        return Err(RunsError::Foreign(path.to_owned()));
    }
    match manifest.verdict.state {
        State::Unfinished => Ok(Some(close_dead(run, manifest, now_ns)?)),
        _ => Ok(None),
    }
}

/// What is in the tables of a run that was killed.
#[derive(Debug, Default)]
struct Found {
    tables: Vec<(String, TableSummary)>,
    /// The latest time of an operation.
    until_ns: Option<i64>,
    /// Parts that cannot be read.
    damaged: Vec<String>,
}

/// Removes what has no name yet, counts what is there, and writes the verdict last: killed before,
/// the next start does it again.
fn close_dead(run: &FinishedRun, mut manifest: Manifest, now_ns: i64) -> Result<String, RunsError> {
    let found = clean(run)?;
    let saved_ns = { manifest.in_memory.map(|memory| memory.time_ns) }.or(manifest.started_ns);
    let until_ns = found.until_ns.or(saved_ns);
    manifest.tables = found.tables.into_iter().collect();
    manifest.verdict.state = State::Incomplete;
    manifest.killed = true;
    let time = |ns: Option<i64>| ns.map_or_else(|| "an unknown time".to_owned(), time_text);
    let killed = match found.until_ns {
        Some(until) => format!(
            "killed: its last operation is of {}, and what came later is missing",
            time_text(until)
        ),
        None => "killed: it has no operation, and what came is missing".to_owned(),
    };
    let counters = format!("counters are those of {}", time(saved_ns));
    let mut reasons = vec![format!("{killed}; {counters}")];
    if !found.damaged.is_empty() {
        reasons.push(format!(
            "parts that cannot be read were set aside: {}",
            found.damaged.join(", ")
        ));
    }
    let text = format!("{}: {}", run.path().display(), reasons.join("; "));
    manifest.verdict.reasons = reasons;
    manifest.ended_ns = until_ns.max(saved_ns).or(Some(now_ns));
    manifest.in_memory = None;
    say_removed(&mut manifest);
    run.replace("trace.json", manifest.to_json().as_bytes())?;
    Ok(text)
}

fn clean(run: &FinishedRun) -> Result<Found, RunsError> {
    let mut found = Found::default();
    let entries = run.entries()?;
    let has_table = |name: &str| {
        entries
            .iter()
            .any(|entry| entry.is_folder && entry.name == name)
    };
    for entry in &entries {
        let name = &entry.name;
        let hidden = { name.strip_prefix('.') }.and_then(|rest| rest.strip_suffix(".tmp"));
        match (entry.is_folder, hidden) {
            // Links to what the table's own folder has, and its merged part.
            (true, Some(table)) if has_table(table) => run.remove_folder(name)?,
            (true, None) => {
                let summary = count(run, name, &mut found)?;
                found.tables.push((name.clone(), summary));
            }
            (false, Some("trace.json")) => run.remove(name)?,
            (false, None) if name == "control" => run.remove(name)?,
            _ => {}
        }
    }
    Ok(found)
}

/// Counts the parts of a table. One that cannot be read gets a hidden name: readers of the others
/// would fail on it.
fn count(run: &FinishedRun, table: &str, found: &mut Found) -> Result<TableSummary, RunsError> {
    let mut summary = TableSummary::default();
    let folder = run.child(table)?;
    for entry in folder.entries()? {
        let name = &entry.name;
        if name.starts_with(".part-") && name.ends_with(".tmp") && !entry.is_folder {
            folder.remove(name)?;
        }
        if name.starts_with('.') || !name.ends_with(".parquet") {
            continue;
        }
        let Some((rows, bytes, until)) = part_facts(&folder, table, name) else {
            folder.rename(name, &format!(".{name}.damaged"))?;
            found.damaged.push(format!("{table}/.{name}.damaged"));
            continue;
        };
        summary.rows += rows;
        summary.parts += 1;
        summary.bytes += bytes;
        found.until_ns = found.until_ns.max(until);
    }
    Ok(summary)
}

/// Rows, bytes, and the latest time of an operation; `None` if a part cannot be read.
fn part_facts(folder: &Place, table: &str, name: &str) -> Option<(u64, u64, Option<i64>)> {
    let file = folder.open_file(name).ok()?;
    let bytes = file.metadata().ok()?.len();
    let part = PartReader::open(file).ok()?;
    let is_operations = table == Table::Operations.name();
    let until = ["call_time_ns", "reply_time_ns"].map(|column| part.range(column));
    let until = until.iter().flatten().map(|range| range.1).max();
    Some((part.row_count(), bytes, until.filter(|_| is_operations)))
}

fn time_text(ns: i64) -> String {
    jiff::Timestamp::from_nanosecond(ns.into()).map_or_else(
        |_| format!("{ns} ns"),
        |at| at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
    )
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "tests arrange by path what is found by descriptors"
)]
mod tests {
    use std::fs;

    use lineside_store::RunFolder;

    use super::*;
    use crate::Run;

    const ALL: Retention = Retention {
        time: None,
        bytes: None,
        runs: true,
    };

    const NOW: i64 = 1_795_372_200_000_000_000;

    fn begin(path: &Path, now_ns: i64) -> (Runs, Run) {
        let runs = Runs::begin(path, now_ns, ALL).expect("it begins");
        let configuration = serde_json::json!({ "capture": {} });
        let folder = RunFolder::of(runs.run()).expect("its folder is empty");
        let run = Run::in_folder(Some(folder), &"a", configuration, now_ns);
        run.save().expect("written");
        (runs, run)
    }

    fn manifest(path: &Path) -> Manifest {
        let text = fs::read_to_string(path.join("trace.json")).expect("there");
        Manifest::from_json(&text).expect("whole")
    }

    #[test]
    fn the_next_start_closes_a_run_that_was_killed() {
        let above = tempfile::tempdir().expect("a folder");
        let path = above.path().join("runs");
        let (runs, run) = begin(&path, NOW);
        let killed = runs.run().path().to_owned();
        assert!(
            killed.ends_with("run=20261122T183000Z"),
            "{}",
            killed.display()
        );
        let busy = Runs::begin(&path, NOW, ALL)
            .expect_err("it goes on")
            .to_string();
        assert!(busy.contains("a run that goes on"), "{busy}");
        drop((runs, run));
        for folder in ["operations", ".operations.tmp"] {
            fs::create_dir(killed.join(folder)).expect("created");
            fs::write(killed.join(folder).join("part-000000.parquet"), b"PAR1").expect("written");
        }
        fs::write(killed.join("operations/.part-000001.parquet.tmp"), b"x").expect("written");
        fs::write(killed.join(".trace.json.tmp"), b"x").expect("written");
        // The clock was set back: the same second again.
        let (runs, run) = begin(&path, NOW);
        assert!(runs.run().path().ends_with("run=20261122T183001Z"));
        assert!(runs.notes[0].contains("killed"), "{:?}", runs.notes);
        drop((runs, run));
        let closed = manifest(&killed);
        assert_eq!(closed.verdict.state, State::Incomplete);
        assert!(closed.ended_ns.is_some());
        let reasons = closed.verdict.reasons.join("; ");
        assert!(
            reasons.contains("operations/.part-000000.parquet.damaged"),
            "{reasons}"
        );
        let left = fs::read_dir(killed.join("operations")).expect("there");
        let left: Vec<_> = left.map(|entry| entry.expect("one").file_name()).collect();
        assert_eq!(left, [".part-000000.parquet.damaged"]);
        assert_eq!(
            fs::read_dir(&killed).expect("there").count(),
            2,
            "no temporary files"
        );
        let before = fs::read(killed.join("trace.json")).expect("there");
        let (runs, _) = begin(&path, NOW - 31_536_000_000_000_000);
        assert!(
            runs.notes.iter().all(|note| !note.contains("183000Z")),
            "{:?}",
            runs.notes
        );
        assert_eq!(fs::read(killed.join("trace.json")).expect("there"), before);
    }

    #[test]
    fn a_folder_that_is_not_one_of_runs_is_left_alone() {
        let above = tempfile::tempdir().expect("a folder");
        let path = above.path().join("runs");
        let (runs, _) = begin(&path, NOW);
        let one = runs.run().path().to_owned();
        drop(runs);
        let error = Runs::begin(&one, NOW, ALL)
            .expect_err("one run")
            .to_string();
        assert!(error.contains("the folder above it"), "{error}");
        for foreign in ["notes.txt", "run=x"] {
            fs::write(path.join(foreign), b"precious").expect("written");
            let error = Runs::begin(&path, NOW, ALL)
                .expect_err("foreign")
                .to_string();
            assert!(error.contains(foreign), "{error}");
            assert_eq!(
                manifest(&one).verdict.state,
                State::Unfinished,
                "nothing is touched"
            );
            fs::remove_file(path.join(foreign)).expect("removed");
        }
        std::os::unix::fs::symlink(&one, path.join("run=1")).expect("linked");
        assert!(matches!(
            Runs::begin(&path, NOW, ALL),
            Err(RunsError::Foreign(_))
        ));
    }

    #[test]
    fn links_in_a_dead_run_are_not_followed() {
        let above = tempfile::tempdir().expect("a folder");
        let path = above.path().join("runs");
        let (runs, run) = begin(&path, NOW);
        let killed = runs.run().path().to_owned();
        drop((runs, run));
        let precious = above.path().join("precious");
        fs::create_dir(&precious).expect("created");
        fs::write(precious.join(".part-000000.parquet.tmp"), b"precious").expect("written");
        let link = std::os::unix::fs::symlink::<&Path, PathBuf>;
        link(&precious, killed.join("operations")).expect("linked");
        let file = precious.join(".part-000000.parquet.tmp");
        link(&file, killed.join(".trace.json.tmp")).expect("linked");
        let (runs, _) = begin(&path, NOW);
        assert_eq!(runs.notes.len(), 1);
        assert_eq!(fs::read(file).expect("there"), b"precious");
        assert_eq!(manifest(&killed).verdict.state, State::Incomplete);
    }

    #[test]
    fn a_run_that_could_not_begin_leaves_no_folder() {
        let above = tempfile::tempdir().expect("a folder");
        let path = above.path().join("runs");
        drop(Runs::begin(&path, NOW, ALL).expect("it begins"));
        assert!(!path.exists(), "it was made for the run");
        fs::create_dir(&path).expect("made");
        drop(Runs::begin(&path, NOW, ALL).expect("it begins"));
        assert_eq!(fs::read_dir(&path).expect("there").count(), 0);
        let missing = above.path().join("missing/runs");
        let error = Runs::begin(&missing, NOW, ALL)
            .expect_err("no parent")
            .to_string();
        assert!(error.contains("cannot create the folder"), "{error}");
    }
}
