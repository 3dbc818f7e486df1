//! Runs that are killed at instants drawn at random, which is why they nap: nothing is expected of
//! what had come by then.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use lineside_rows::Table;
use lineside_testkit::capture;
use lineside_trace::State;

use crate::python::python;
use crate::runs::report;
use crate::support::{example, lineside, manifest, records, sorted, talk};

/// Kills, unless `LINESIDE_KILLS` says how many.
const KILLS: u64 = 10;

/// Opens every part, counts by `run`, and finds no id twice in a run.
const QUERY: &str = "
import sys, glob, duckdb, pyarrow.dataset as ds, pyarrow.parquet as pq
folder = sys.argv[1]
for part in glob.glob(folder + '/run=*/*/*.parquet'):
    pq.read_table(part)
parts = sorted(glob.glob(folder + '/run=*/operations/*.parquet'))
table = ds.dataset(parts, partitioning='hive').to_table(columns=['run', 'operation_id'])
counts = {}
for run in table['run'].to_pylist():
    counts[str(run)] = counts.get(str(run), 0) + 1
found = duckdb.sql(f'''select run::varchar, count(*), count(distinct operation_id)
    from read_parquet({parts}, hive_partitioning = true) group by run''').fetchall()
assert counts == {run: rows for run, rows, _ in found}, (counts, found)
assert all(rows == ids for _, rows, ids in found), found
print(len(found))
";

fn capture_runs(out: &Path, cores: u64) -> Command {
    let mut command = lineside();
    {
        command.args([
            "capture", "-", "-q", "--runs", "--flush", "100ms", "--rotate", "1s", "-o",
        ])
    }
    .arg(out)
    .args(["--cores", &cores.to_string()])
    .stdin(Stdio::piped())
    .stdout(Stdio::null())
    .stderr(Stdio::piped());
    command
}

fn runs(out: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(out).expect("there");
    let mut runs: Vec<_> = entries.map(|entry| entry.expect("one").path()).collect();
    runs.sort();
    runs
}

/// Waits for the hidden folder in which a merge is under way, or for a second.
fn wait_for_merge(out: &Path) {
    let is_merging = || {
        let entries = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
        let mut tables = entries(out).flat_map(|run| entries(&run.path()));
        tables.any(|table| {
            let name = table.file_name().to_string_lossy().into_owned();
            name.starts_with('.') && name != ".trace.json.tmp"
        })
    };
    let watch = lineside_host::Stopwatch::start();
    while !is_merging() && watch.elapsed() < Duration::from_secs(3) {
        std::thread::park_timeout(Duration::from_micros(200));
    }
}

/// Kills at instants from the first one on, until all rows are in parts; on one core and two. Each
/// third one strikes while the process starts, and each third while parts are merged.
#[test]
fn the_next_start_closes_each_killed_run() {
    let folder = crate::support::private_folder();
    let out = folder.path().join("runs");
    let frames = capture::read(&example()).expect("the example");
    let input = capture::write(&frames);
    let mut random = 0x2545_F491_4F6C_DD1D_u64 ^ u64::from(std::process::id());
    println!("seed {random}");
    let kills = std::env::var("LINESIDE_KILLS").ok();
    for kill in 0..kills.map_or(KILLS, |kills| kills.parse().expect("a number")) {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let after = Duration::from_millis((random >> 33) % 1_500);
        let mut run = capture_runs(&out, 1 + kill % 2)
            .spawn()
            .expect("lineside runs");
        let mut pipe = run.stdin.take().expect("piped");
        let bytes = input.clone();
        let writer = std::thread::spawn(move || {
            // It breaks when the run is killed. The pipe stays open: the run does not end.
            let _ = pipe.write_all(&bytes);
            pipe
        });
        match kill % 3 {
            0 => std::thread::park_timeout(after),
            1 => std::thread::park_timeout(after / 50),
            _ => {
                wait_for_merge(&out);
                std::thread::park_timeout(after / 100);
            }
        }
        run.kill().expect("killed");
        run.wait().expect("it is over");
        drop(writer.join());
    }
    // The last one comes to its end.
    let mut run = capture_runs(&out, 1).spawn().expect("lineside runs");
    // Should it end early, it says why.
    let _ = run.stdin.take().expect("piped").write_all(&input);
    let output = run.wait_with_output().expect("it is over");
    assert!(output.status.success(), "{}", talk(&output));
    let runs = runs(&out);
    let (whole, killed) = runs.split_last().expect("the last one");
    let all: BTreeSet<String> = sorted(&records(whole, Table::Operations))
        .into_iter()
        .collect();
    let mut rows = 0;
    for run in killed {
        let closed = manifest(run);
        assert_eq!(closed.verdict.state, State::Incomplete, "{}", run.display());
        assert!(
            closed.verdict.reasons[0].starts_with("killed: "),
            "{:?}",
            closed.verdict
        );
        let counted = closed
            .tables
            .get("operations")
            .map_or(0, |table| table.rows);
        if counted == 0 {
            continue;
        }
        let found = sorted(&records(run, Table::Operations));
        assert_eq!(found.len() as u64, counted, "{}", run.display());
        assert!(
            found.iter().all(|row| all.contains(row)),
            "{}",
            run.display()
        );
        rows += counted;
    }
    println!(
        "{} killed runs left {rows} rows of {} each",
        killed.len(),
        all.len()
    );
    let listed = lineside()
        .arg("info")
        .arg(&out)
        .output()
        .expect("lineside runs");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    // The frames are of another day: nothing passed between the runs.
    assert!(!listed.contains("gap"), "{listed}");
    let report = report(&[&out]);
    assert_eq!(report["missing"]["verdict"], "incomplete");
    let of_report = report["trace"]["runs"].as_array().expect("several");
    assert_eq!(of_report.len(), runs.len());
    let gaps = of_report.iter().filter(|run| run["has_gap"] == true);
    assert_eq!(gaps.count(), 0);
    assert_eq!(report["totals"]["operations"], rows + all.len() as u64);
    let compare = lineside().arg("compare").args([&out, &out]).output();
    let compare = compare.expect("lineside runs");
    assert!(compare.status.success(), "{}", talk(&compare));
    let name = whole.file_name().expect("a name").to_string_lossy();
    let newest = format!("the newest of {} runs is {name};", runs.len());
    let record = |output: &Output| talk(output).matches(&newest).count();
    let bundle = lineside()
        .arg("bundle")
        .arg(&out)
        .arg("-o")
        .arg(folder.path().join("bundle.tar.gz"))
        .output();
    let bundle = bundle.expect("lineside runs");
    assert!(bundle.status.success(), "{}", talk(&bundle));
    assert_eq!(record(&bundle), 1, "{}", talk(&bundle));
    let Some(python) = python() else {
        println!("SKIP: no Python with duckdb, pandas and pyarrow (LINESIDE_PYTHON)");
        return;
    };
    let output = Command::new(python).args(["-c", QUERY]).arg(&out).output();
    let output = output.expect("Python runs");
    assert!(output.status.success(), "{}", talk(&output));
}
