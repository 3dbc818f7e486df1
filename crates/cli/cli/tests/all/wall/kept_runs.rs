//! `--runs` with `--keep`: parts of older runs go first, whoever the run that goes on has become.

use std::fs::{File, FileTimes};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use lineside_rows::Table;
use lineside_trace::State;

use crate::python::python;
use crate::support::{example, lineside, manifest, records, talk, wait_until};
use crate::wall::wire::{Running, Wire, need_wire, private_folder};

/// Runs of the example, one after the other.
fn capture_runs(out: &Path, options: &[&str]) -> String {
    let output = lineside()
        .arg("capture")
        .arg(example())
        .args(["-q", "--runs", "-o"])
        .arg(out)
        .args(options)
        .output()
        .expect("lineside runs");
    assert!(output.status.success(), "{}", talk(&output));
    talk(&output)
}

fn runs(out: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(out).expect("there");
    let mut runs: Vec<_> = entries.map(|entry| entry.expect("one").path()).collect();
    runs.sort();
    runs
}

/// The parts of a run, whose tables may go meanwhile.
fn files(run: &Path) -> Vec<PathBuf> {
    let entries = |path| std::fs::read_dir(path).into_iter().flatten().flatten();
    let tables = entries(run.to_owned()).map(|entry| entry.path());
    let tables = tables.filter(|path| path.is_dir());
    tables.flat_map(entries).map(|entry| entry.path()).collect()
}

/// As if all of it had been written in 2025.
fn age(run: &Path) {
    let at = UNIX_EPOCH + Duration::from_secs(1_750_000_000);
    for path in files(run) {
        let file = File::open(path).expect("there");
        let times = FileTimes::new().set_modified(at);
        file.set_times(times).expect("it is ours");
    }
}

const READ: &str = "
import sys, duckdb, pyarrow.dataset as ds
from glob import glob
parts = sys.argv[1] + '/*/operations/*.parquet'
print(duckdb.sql(f\"select count(*) from read_parquet('{parts}', hive_partitioning = true)\")
    .fetchall()[0][0], ds.dataset(glob(parts), partitioning='hive').count_rows())
";

#[test]
fn parts_of_older_runs_go_first_and_are_counted() {
    let folder = private_folder();
    let out = folder.path().join("runs");
    (0..2).for_each(|_| drop(capture_runs(&out, &[])));
    let [first, second] = &runs(&out)[..] else {
        panic!("two runs: {:?}", runs(&out));
    };
    age(first);
    let before = [first, second].map(|run| manifest(run));
    assert_eq!(capture_runs(&out, &["--keep", "10min"]), "");
    let record = manifest(first);
    assert!(files(first).is_empty());
    assert!(
        record
            .tables
            .values()
            .all(|table| table.rows + table.parts + table.bytes == 0)
    );
    let removed = record.removed.expect("it is reported");
    assert_eq!(
        removed.rows,
        before[0]
            .tables
            .values()
            .map(|table| table.rows)
            .sum::<u64>()
    );
    assert!(removed.kept_since_ns.is_some());
    assert_eq!(record.verdict.state, State::Limited);
    assert_eq!(manifest(second), before[1], "it is not touched");
    let rows = records(second, Table::Operations).len();
    let [_, _, third] = &runs(&out)[..] else {
        panic!("three runs");
    };
    assert_eq!(records(third, Table::Operations).len(), rows);
    assert_eq!(manifest(third).removed, None);
    let info = lineside()
        .arg("info")
        .arg(&out)
        .output()
        .expect("lineside runs");
    let info = String::from_utf8_lossy(&info.stdout).into_owned();
    assert!(
        info.contains("limits.rows_kept") && info.contains("(give more: keep)"),
        "{info}"
    );
    for verb in ["report", "info"] {
        let output = lineside()
            .arg(verb)
            .arg(first)
            .output()
            .expect("lineside runs");
        let all = String::from_utf8_lossy(&output.stdout).into_owned() + &talk(&output);
        assert!(
            output.status.success() && all.contains("limits.rows_kept"),
            "{verb}: {all}"
        );
    }
    let Some(python) = python() else {
        println!("SKIP: no Python with duckdb, pandas and pyarrow (LINESIDE_PYTHON)");
        return;
    };
    let output = Command::new(python).args(["-c", READ]).arg(&out).output();
    let output = output.expect("Python runs");
    assert!(output.status.success(), "{}", talk(&output));
    let counted = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(counted.trim(), format!("{0} {0}", 2 * rows));
}

/// The run has become `nobody` by then, in a sandbox; what it may remove belongs to root again
/// when it is over, also after a kill.
#[test]
fn nobody_removes_what_root_captured_before() {
    need_wire!();
    let wire = Wire::new("kept", 1);
    for signal in ["INT", "KILL"] {
        let folder = private_folder();
        let out = folder.path().join("runs");
        (0..2).for_each(|_| drop(capture_runs(&out, &[])));
        let [first, second] = &runs(&out)[..] else {
            panic!("two runs: {:?}", runs(&out));
        };
        age(first);
        let mut command = wire.tap.command(lineside().get_program());
        command
            .args([
                "capture",
                "-i",
                "t0",
                "--method",
                "af_packet",
                "--runs",
                "-o",
            ])
            .arg(&out)
            .args(["--keep", "10min"]);
        let before = manifest(second);
        let running = Running::spawn(&mut command, out.clone(), private_folder());
        running.wait_until("the older parts go", || files(first).is_empty());
        running.signal(signal);
        let ended = running.end();
        assert_eq!(
            ended.status.success(),
            signal == "INT",
            "{}",
            ended.messages
        );
        assert!(
            !ended.messages.contains("left as it is"),
            "{}",
            ended.messages
        );
        assert!(manifest(first).removed.expect("reported").rows > 0);
        assert_eq!(manifest(second), before);
        let is_roots = |path: &PathBuf| path.metadata().expect("there").uid() == 0;
        wait_until("all of it is root's", || {
            let entries = runs(&out).into_iter();
            let mut all = entries.flat_map(|run| [runs(&run), vec![run]].concat());
            all.all(|path| is_roots(&path))
        });
        assert!(files(second).iter().all(is_roots));
    }
}

/// One message, with who holds the folder, and the way out: of runs in a folder of them, and of two
/// in one folder.
#[test]
fn a_second_run_in_one_folder_names_the_first() {
    let folder = private_folder();
    for options in [&["--runs"][..], &["--force"]] {
        let out = folder.path().join(options[0]);
        let start = || {
            let mut command = lineside();
            command
                .args(["capture", "-", "-q", "-o"])
                .arg(&out)
                .args(options);
            command.stdin(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().expect("lineside runs")
        };
        let mut first = start();
        wait_until("it has begun", || lineside_store::is_running(&out));
        let second = start().wait_with_output().expect("it ends");
        assert_eq!(second.status.code(), Some(1));
        let message = talk(&second);
        assert_eq!(message.lines().count(), 1, "{message}");
        let process = format!("(process {})", first.id());
        assert!(
            message.contains(&process) && message.contains("end that one first, or choose"),
            "{message}"
        );
        first.kill().expect("it goes on");
        first.wait().expect("it is over");
    }
}
