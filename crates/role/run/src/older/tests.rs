//! Older runs, whose parts go in their order; what a kill and a full disk leave of that.

use std::convert::Infallible;
use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use lineside_rows::{LossRow, RecordSink as _, RowRef, Table};
use lineside_trace::{EncoderConfig, Part, PartSink, State, TraceEncoder};

use super::*;
use crate::Run;

/// When the first part was written.
const BEGIN_NS: i64 = 1_795_372_200_000_000_000;
const MINUTE_NS: i64 = 60_000_000_000;
/// Rows of a part.
const ROWS: u64 = 7;
const TABLES: [Table; 2] = [Table::Losses, Table::Operations];

/// A part with seven rows, and one with none.
fn bytes_of(trace_id: &str) -> [Vec<u8>; 2] {
    struct Found(Vec<(Table, Vec<u8>)>);
    impl PartSink for Found {
        type Error = Infallible;
        fn part(&mut self, part: Part) -> Result<(), Infallible> {
            self.0.push((part.table, part.pieces.concat()));
            Ok(())
        }
    }
    let config = EncoderConfig::new(&TABLES, trace_id);
    let mut encoder = TraceEncoder::new(&config, Found(Vec::new()));
    let row = LossRow::default();
    (0..ROWS).for_each(|_| encoder.row(RowRef::Losses(&row)));
    let (found, _) = encoder.finish().expect("it cannot fail");
    TABLES.map(|table| {
        let part = found.0.iter().find(|part| part.0 == table);
        part.expect("a table has a part").1.clone()
    })
}

/// A run that is over, with `parts` of each table, one a minute.
fn run(folder: &Path, name: &str, minute: i64, parts: i64) -> PathBuf {
    let path = folder.join(name);
    let at = |minute: i64| BEGIN_NS + minute * MINUTE_NS;
    let run = Run::begin(
        Some(&path),
        false,
        &name,
        serde_json::Value::Null,
        at(minute),
    );
    let mut run = run.expect("its folder is new");
    let bytes = bytes_of(&run.manifest.trace_id);
    for (table, bytes) in TABLES.iter().zip(bytes) {
        fs::create_dir(path.join(table.name())).expect("created");
        for part in 0..parts {
            let file = path.join(format!("{}/part-{part:06}.parquet", table.name()));
            fs::write(&file, &bytes).expect("written");
            age(&file, at(minute + part + 1));
        }
        let summary = TableSummary {
            rows: if *table == Table::Losses { ROWS } else { 0 } * parts as u64,
            parts: parts as u64,
            bytes: (bytes.len() as i64 * parts) as u64,
        };
        run.manifest.tables.insert(table.name().to_owned(), summary);
    }
    let mut verdict = run.manifest.verdict.clone();
    verdict.state = State::Complete;
    run.end(verdict, at(minute + parts)).expect("written");
    path
}

fn in_folder(folder: &Path, retention: Retention) -> OlderRuns {
    OlderRuns::in_folder(&Place::open(folder).expect("there"), retention)
}

/// The runs beside one that goes on.
fn beside(own: &RunFolder) -> Vec<PathBuf> {
    let (found, _) = older_runs(own);
    found.iter().map(|place| place.path().to_owned()).collect()
}

fn age(file: &Path, written_ns: i64) {
    let file = File::options().write(true).open(file).expect("there");
    let at = UNIX_EPOCH + Duration::from_nanos(written_ns as u64);
    let times = FileTimes::new().set_modified(at);
    file.set_times(times).expect("it is ours");
}

fn manifest(path: &Path) -> Manifest {
    let text = fs::read_to_string(path.join("trace.json")).expect("there");
    Manifest::from_json(&text).expect("whole")
}

fn bytes(path: &Path) -> u64 {
    manifest(path)
        .tables
        .values()
        .map(|table| table.bytes)
        .sum()
}

/// How many parts a run has, and that its `trace.json` says so.
fn parts(path: &Path) -> u64 {
    let told = manifest(path);
    for (name, table) in &told.tables {
        let files = fs::read_dir(path.join(name)).into_iter().flatten();
        let found = files.map(|entry| entry.expect("one").metadata().expect("there").len());
        let found: Vec<_> = found.collect();
        assert_eq!(
            table.parts,
            found.len() as u64,
            "{}: {name}",
            path.display()
        );
        assert_eq!(table.bytes, found.iter().sum::<u64>(), "{name}");
    }
    let rows = told.tables["losses"].rows;
    assert_eq!(rows, told.tables["losses"].parts * ROWS);
    told.tables.values().map(|table| table.parts).sum()
}

fn kept(time: Option<Duration>, bytes: Option<u64>) -> Retention {
    Retention {
        time,
        bytes,
        runs: true,
    }
}

const MINUTES: fn(u64) -> Option<Duration> = |minutes| Some(Duration::from_secs(60 * minutes));

#[test]
fn the_oldest_parts_go_over_all_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let runs = [("run=a", 0), ("run=b", 10), ("run=c", 20)];
    let runs = runs.map(|(name, minute)| run(folder, name, minute, 4));
    let all: u64 = runs.iter().map(|run| bytes(run)).sum();
    // As much as one and a half of three have.
    let mut older = in_folder(folder, kept(None, Some(all / 2 + 1_000)));
    older.retain(1_000, BEGIN_NS);
    let left = runs.each_ref().map(|run| parts(run));
    assert_eq!((left[0], left[2]), (0, 8));
    assert!((3..=5).contains(&left[1]), "{left:?}");
    let first = manifest(&runs[0]);
    assert_eq!(first.verdict.state, State::Limited);
    assert!(
        first.verdict.reasons[0].contains("28 rows"),
        "{:?}",
        first.verdict
    );
    assert_eq!(first.counters["limits.rows_kept"].value, 28);
    let removed = first.removed.expect("it is told");
    assert_eq!((removed.rows, removed.parts), (28, 8));
    assert_eq!(removed.kept_since_ns, Some(BEGIN_NS + 4 * MINUTE_NS));
    assert_eq!(
        fs::read_dir(&runs[0]).expect("there").count(),
        1,
        "trace.json"
    );
    assert_eq!(manifest(&runs[2]).removed, None);
    // A minute that is over goes, of both tables, whatever else there is.
    let mut older = in_folder(folder, kept(MINUTES(5), None));
    older.retain(0, BEGIN_NS + 27 * MINUTE_NS);
    assert_eq!((parts(&runs[1]), parts(&runs[2])), (0, 6));
    assert_eq!(older.bytes(), bytes(&runs[2]));
    assert!(older.make_room() && parts(&runs[2]) == 5);
    (0..5).for_each(|_| assert!(older.make_room()));
    assert!(!older.make_room(), "nothing is left");
    assert_eq!(parts(&runs[2]), 0);
    assert_eq!(older.take_notes(), [""; 0]);
}

#[test]
fn what_is_alive_or_no_trace_is_not_touched() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let alive = run(folder, "run=a", 0, 2);
    let own = RunFolder::create(&folder.join("run=b"), None).expect("new");
    let foreign = folder.join("run=0");
    fs::create_dir_all(foreign.join("losses")).expect("made");
    fs::write(foreign.join("losses/part-000000.parquet"), b"precious").expect("written");
    let elsewhere = tempfile::tempdir().expect("a folder");
    let linked = run(elsewhere.path(), "run=x", 0, 2);
    std::os::unix::fs::symlink(&linked, folder.join("run=y")).expect("linked");
    let mine = folder.join("run=a/losses/notes.parquet");
    let lock = File::open(&alive).expect("there");
    lock.lock().expect("free");
    let mut older = OlderRuns::of(&older_runs(&own).0, kept(MINUTES(1), Some(1)));
    older.retain(0, i64::MAX);
    assert!(!older.make_room() && older.bytes() == 0);
    assert_eq!([&alive, &linked].map(|run| parts(run)), [4, 4]);
    drop(lock);
    fs::write(&mine, b"precious").expect("written");
    let mut older = OlderRuns::of(&older_runs(&own).0, kept(MINUTES(1), None));
    older.retain(0, i64::MAX);
    assert_eq!(
        manifest(&alive).removed.map(|removed| removed.rows),
        Some(14)
    );
    assert!(mine.exists() && foreign.join("losses/part-000000.parquet").exists());
    assert_eq!(beside(&own), [foreign, alive]);
}

#[test]
fn what_a_kill_left_half_done_is_counted_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = run(folder.path(), "run=a", 0, 4);
    let before = fs::read(path.join("trace.json")).expect("there");
    let part = path.join("losses/part-000000.parquet");
    let bytes = fs::read(&part).expect("there");
    let mut older = in_folder(folder.path(), kept(MINUTES(1), None));
    older.retain(0, BEGIN_NS + 2 * MINUTE_NS + 1);
    assert_eq!(parts(&path), 6);
    // trace.json says that it is gone, and it is there: killed between the two.
    fs::write(&part, &bytes).expect("written");
    age(&part, BEGIN_NS + MINUTE_NS);
    let mut older = in_folder(folder.path(), kept(MINUTES(1), None));
    older.retain(0, BEGIN_NS);
    assert_eq!(parts(&path), 7, "it counts again");
    assert_eq!(manifest(&path).removed.map(|removed| removed.rows), Some(0));
    older.retain(0, BEGIN_NS + 2 * MINUTE_NS + 1);
    assert_eq!(
        manifest(&path).removed.map(|removed| removed.rows),
        Some(ROWS)
    );
    // They are gone, and trace.json does not say so: on a full disk.
    fs::write(path.join("trace.json"), before).expect("written");
    let mut older = in_folder(folder.path(), kept(MINUTES(1), None));
    older.retain(0, BEGIN_NS);
    assert_eq!(parts(&path), 6);
    let removed = manifest(&path).removed.expect("it is told");
    assert_eq!((removed.rows, removed.parts), (ROWS, 2));
    assert_eq!(removed.kept_since_ns, Some(BEGIN_NS + 2 * MINUTE_NS));
    assert_eq!(manifest(&path).verdict.state, State::Limited);
}

#[test]
fn parts_that_cannot_be_read_go_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = run(folder.path(), "run=a", 0, 3);
    let losses = path.join("losses");
    let hidden = losses.join(".part-000009.parquet.damaged");
    fs::write(&hidden, b"PAR1").expect("written");
    age(&hidden, BEGIN_NS);
    let last = losses.join("part-000002.parquet");
    let len = last.metadata().expect("there").len();
    fs::write(&last, vec![0; len as usize]).expect("written");
    age(&last, BEGIN_NS + 3 * MINUTE_NS);
    let mut older = in_folder(folder.path(), kept(MINUTES(1), None));
    older.retain(0, BEGIN_NS + 2 * MINUTE_NS);
    assert!(!hidden.exists());
    older.retain(0, i64::MAX);
    assert_eq!(parts(&path), 0);
    let removed = manifest(&path).removed.expect("it is told");
    assert_eq!((removed.rows, removed.parts), (3 * ROWS, 6));
    assert_eq!(fs::read_dir(&path).expect("there").count(), 1, "trace.json");
}

/// Where a disk is too full for a `trace.json`, a part goes first.
#[test]
fn a_full_disk_is_made_room_on_whatever_else_it_needs() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(disk) = lineside_testkit::disk::SmallDisk::mount(folder.path(), 256 << 10) else {
        println!("SKIP: mounting a small tmpfs needs root");
        return;
    };
    let path = run(disk.folder(), "run=a", 0, 4);
    let fill = || {
        let filler = disk.folder().join(".fill");
        let mut file = File::options()
            .create(true)
            .append(true)
            .open(filler)
            .expect("made");
        while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
    };
    fill();
    let mut older = in_folder(disk.folder(), kept(None, Some(1 << 30)));
    for left in (0..8).rev() {
        assert!(older.make_room());
        assert_eq!(parts(&path), left);
        fill();
    }
    assert!(!older.make_room());
}
