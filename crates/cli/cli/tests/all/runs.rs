//! `--runs`: a folder of runs, some of which are killed.

use std::path::Path;
use std::process::Command;

use lineside_rows::{ConnectionRow, Table};
use lineside_trace::{Manifest, TableSummary};

use crate::python::python;
use crate::support::{example, lineside, manifest, parts, talk};
use crate::traffic::{SECOND_NS, Traffic};

/// The report on a trace, as JSON.
pub(crate) fn report(words: &[&Path]) -> serde_json::Value {
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

    // An id belongs to its run, and is reported of no other.
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
    // A run that cannot be opened is named, and the report covers the others.
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
    assert!(
        talk(&output).contains("--force has no effect with --runs"),
        "{}",
        talk(&output)
    );
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
