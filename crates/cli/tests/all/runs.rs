//! `--runs`: a folder of runs, some of which are killed.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use lineside_testkit::capture;
use lineside_trace::{ConnectionRow, Manifest, State, Table, TableSummary};

use crate::python::python;
use crate::support::{example, lineside, manifest, parts, records, sorted, talk};
use crate::traffic::{SECOND_NS, Traffic};

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
    let folder = tempfile::tempdir().expect("a folder");
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
    run.stdin
        .take()
        .expect("piped")
        .write_all(&input)
        .expect("read");
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
    let told = |output: &Output| talk(output).matches(&newest).count();
    let bundle = lineside()
        .arg("bundle")
        .arg(&out)
        .arg("-o")
        .arg(folder.path().join("bundle.tar.gz"))
        .output();
    let bundle = bundle.expect("lineside runs");
    assert!(bundle.status.success(), "{}", talk(&bundle));
    assert_eq!(told(&bundle), 1, "{}", talk(&bundle));
    let Some(python) = python() else {
        println!("SKIP: no Python with duckdb, pandas and pyarrow (LINESIDE_PYTHON)");
        return;
    };
    let output = Command::new(python).args(["-c", QUERY]).arg(&out).output();
    let output = output.expect("Python runs");
    assert!(output.status.success(), "{}", talk(&output));
}

/// The report on a trace, as JSON.
fn report(words: &[&Path]) -> serde_json::Value {
    let output = lineside().args(["report", "--json"]).args(words).output();
    let output = output.expect("lineside runs");
    assert!(output.status.success(), "{}", talk(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The same operations in one trace and in three runs, of which each counts its ids from 1.
#[test]
fn a_report_on_runs_is_that_of_one_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let [whole, out] = ["whole", "runs"].map(|name| folder.path().join(name));
    let traffic = |names| Traffic {
        seconds: 30,
        names,
        intervals: |row| {
            vec![ConnectionRow {
                client_peak_1s_bytes: 1_000,
                ..row
            }]
        },
        ..Traffic::default()
    };
    let make = |path: &Path| std::fs::create_dir_all(path).expect("made");
    make(&whole);
    traffic(("new", 9)).write(&whole, |_| true);
    // A name that an older run learned late is no newer one.
    let names = [("old", 20 << 18), ("older", 30 << 18), ("new", 9)];
    for (run, names) in names.into_iter().enumerate() {
        let path = out.join(format!("run=2026112{run}T000000Z"));
        make(&path);
        let own = run as i64 * 10..(run as i64 + 1) * 10;
        traffic(names).write(&path, |each| own.contains(&(each.at_ns / SECOND_NS)));
    }
    let [one, many] = [&whole, &out].map(|path| report(&[path]));
    for part in [
        "totals",
        "operations",
        "errors",
        "over_time",
        "clients",
        "users",
        "files",
    ] {
        assert_eq!(one[part], many[part], "{part}");
    }
    assert_eq!(
        many["missing"]["verdict"], "incomplete",
        "what lies between them"
    );
    let operations = one["totals"]["operations"].clone();
    // Three connections have the same id.
    let entries = |report: &serde_json::Value, of| report[of].as_array().map(Vec::len);
    assert_eq!(
        (entries(&one, "wire"), entries(&many, "wire")),
        (Some(1), Some(3))
    );
    assert_eq!(entries(&many["trace"], "runs"), Some(3));
    assert!(
        many["files"].to_string().contains("/new-3"),
        "{}",
        many["files"]
    );

    // An id is one of each run, and is told of no other.
    let connection = |path: &Path| report(&[path, Path::new("--connection"), Path::new("1")]);
    let [one, many] = [&whole, &out].map(|path| connection(path)["totals"]["operations"].clone());
    assert_eq!(one, many);
    // What nobody wrote is no figure, and no panic.
    let path = out.join("run=20261120T000000Z/trace.json");
    let text = std::fs::read_to_string(&path).expect("there");
    let mut foreign = Manifest::from_json(&text).expect("a trace.json");
    (foreign.started_ns, foreign.ended_ns) = (Some(i64::MAX), Some(i64::MIN));
    let most = TableSummary {
        rows: u64::MAX,
        ..TableSummary::default()
    };
    foreign.tables.insert("nfs".to_owned(), most);
    for run in ["run=20261120T000000Z", "run=20261122T000000Z"] {
        let path = out.join(run).join("trace.json");
        std::fs::write(path, foreign.to_json()).expect("written");
    }
    assert_eq!(report(&[&out])["totals"]["operations"], operations);
    std::fs::write(&path, text).expect("written");
    // One that cannot be opened is told, and the others are reported on.
    let lost = std::fs::remove_dir_all(out.join("run=20261121T000000Z/operations"));
    lost.expect("removed");
    let output = lineside().arg("report").arg(&out).output();
    let output = output.expect("lineside runs");
    assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("run=20261121T000000Z"), "{text}");
}

#[test]
fn runs_and_force_are_not_given_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("runs");
    let output = lineside()
        .arg("capture")
        .arg(example())
        .args(["--runs", "--force", "-o"])
        .arg(&out)
        .output()
        .expect("lineside runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(talk(&output).contains("leave out one"), "{}", talk(&output));
    assert!(!out.exists());
}

/// That none of these files can be read.
const REFUSED: &str = "
import sys, glob, duckdb, pyarrow.parquet as pq
files = glob.glob(sys.argv[1] + '/*.parquet')
for file in files:
    for read in (pq.read_table, lambda file: duckdb.read_parquet(file).fetchall()):
        try:
            read(file)
        except Exception:
            continue
        sys.exit(file + ' was read')
print(len(files))
";

/// What a power cut without a file system's help leaves of any file of a trace.
#[test]
fn a_file_cut_at_any_4_kib_gives_no_wrong_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("trace");
    let cuts = folder.path().join("cuts");
    std::fs::create_dir(&cuts).expect("made");
    let captured = lineside()
        .arg("capture")
        .arg(example())
        .args(["-q", "-o"])
        .arg(&out)
        .status();
    assert!(captured.expect("lineside runs").success());
    let report = || {
        let report = lineside().arg("report").arg(&out).arg("--json").output();
        let report = report.expect("lineside runs");
        let json: serde_json::Value = serde_json::from_slice(&report.stdout).expect("JSON");
        (json["totals"].clone(), report)
    };
    let (whole, _) = report();
    let mut files = vec![out.join("trace.json")];
    let tables = manifest(&out).tables;
    let is_there = |table: &&Table| tables.contains_key(table.name());
    let there = Table::ALL.iter().filter(is_there);
    files.extend(there.flat_map(|&table| parts(&out, table)));
    let mut count = 0;
    for path in files {
        let bytes = std::fs::read(&path).expect("it is there");
        let is_part = path.extension().is_some_and(|name| name == "parquet");
        // Of the newline behind trace.json nothing is missing.
        let ends = [1, bytes.len() - 9, bytes.len() - 4, bytes.len() - 2];
        for len in (0..bytes.len()).step_by(4096).chain(ends) {
            std::fs::write(&path, &bytes[..len]).expect("written");
            let (totals, output) = report();
            let is_told =
                output.status.code() == Some(1) && talk(&output).contains(&*path.to_string_lossy());
            // A table that the report does not need is not read.
            assert!(is_told || totals == whole, "{} of {}", len, path.display());
            if !is_part {
                assert!(is_told, "{len} of trace.json: {}", talk(&output));
            } else {
                count += 1;
                let copy = cuts.join(format!("{count}.parquet"));
                std::fs::copy(&path, copy).expect("copied");
            }
        }
        std::fs::write(&path, &bytes).expect("written");
    }
    assert_eq!(report().0, whole);
    let Some(python) = python() else {
        println!("SKIP: no Python with duckdb, pandas and pyarrow (LINESIDE_PYTHON)");
        return;
    };
    let output = Command::new(python)
        .args(["-c", REFUSED])
        .arg(&cuts)
        .output();
    let output = output.expect("Python runs");
    assert!(output.status.success(), "{}", talk(&output));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        count.to_string()
    );
}
