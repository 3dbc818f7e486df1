//! Disks that are full at random instants, with and without `--keep`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use lineside_rows::Table;
use lineside_testkit::capture;
use lineside_testkit::disk::SmallDisk;
use lineside_trace::{Manifest, State};

use crate::python::python;
use crate::support::{example, lineside, manifest, parts, records, sorted, talk};

/// Full disks of each kind, unless `LINESIDE_FULL_DISKS` says how many.
const DISKS: u64 = 4;
/// Bytes of a disk, and rows that do not fit into it.
const DISK_BYTES: usize = 1 << 20;

/// Opens every part, and finds no id twice in a run.
const QUERY: &str = "
import sys, glob, pyarrow.parquet as pq
for part in glob.glob(sys.argv[1] + '/run=*/*/*.parquet'):
    pq.read_table(part)
for run in glob.glob(sys.argv[1] + '/run=*'):
    ids = [id for part in glob.glob(run + '/operations/*.parquet')
        for id in pq.read_table(part)['operation_id'].to_pylist()]
    assert len(ids) == len(set(ids)), run
";

/// Fills the disk after a while, and frees half of that later.
fn fill(disk: &Path, after: Duration, bytes: usize) -> std::thread::JoinHandle<()> {
    let filler = disk.join("filler");
    std::thread::spawn(move || {
        std::thread::park_timeout(after);
        let Ok(mut file) = std::fs::File::create(filler) else {
            return;
        };
        let mut left = bytes;
        while left > 0 && file.write_all(&[0; 4096]).is_ok() {
            left = left.saturating_sub(4096);
        }
    })
}

fn run(out: &Path, options: &[&str], input: &[u8]) -> (i32, String) {
    let mut command = lineside();
    { command.args(["capture", "-", "-q", "--runs", "--flush", "100ms", "-o"]) }
        .arg(out)
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("lineside runs");
    let mut pipe = child.stdin.take().expect("piped");
    for piece in input.chunks(64 << 10) {
        std::thread::park_timeout(Duration::from_millis(10));
        if pipe.write_all(piece).is_err() {
            break;
        }
    }
    drop(pipe);
    let output = child.wait_with_output().expect("it ends");
    (output.status.code().expect("no signal"), talk(&output))
}

/// Rows of operations that a run has, and those that it says went.
fn accounted(run: &Path, record: &Manifest) -> u64 {
    let found = match run.join("operations").exists() {
        true => records(run, Table::Operations).len() as u64,
        false => 0,
    };
    for (name, table) in &record.tables {
        let is_known = Table::ALL.iter().find(|known| known.name() == name);
        let Some(&known) = is_known.filter(|_| run.join(name).exists()) else {
            assert_eq!(
                table.parts, 0,
                "{name}: {:?} {:?}",
                record.verdict, record.counters
            );
            continue;
        };
        let rows = records(run, known).len() as u64;
        assert_eq!(
            (table.rows, table.parts),
            (rows, parts(run, known).len() as u64),
            "{name}"
        );
    }
    found
}

#[test]
fn full_disks_lose_nothing_unreported() {
    let frames = capture::read(&example()).expect("the example");
    let input = capture::write(&frames);
    let whole = tempfile::tempdir().expect("a folder");
    let (code, message) = run(&whole.path().join("runs"), &[], &input);
    assert_eq!(code, 0, "{message}");
    let runs = |out: &Path| {
        let entries = std::fs::read_dir(out).into_iter().flatten().flatten();
        let mut runs: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        runs.sort();
        runs
    };
    let whole_run = &runs(&whole.path().join("runs"))[0];
    let all: std::collections::BTreeSet<_> = sorted(&records(whole_run, Table::Operations))
        .into_iter()
        .collect();
    let rows_of_all: u64 = manifest(whole_run)
        .tables
        .values()
        .map(|table| table.rows)
        .sum();
    let mut random = 0x2545_F491_4F6C_DD1D_u64 ^ u64::from(std::process::id());
    println!("seed {random}");
    let count = std::env::var("LINESIDE_FULL_DISKS").ok();
    let count = count.map_or(DISKS, |count| count.parse().expect("a number"));
    let (mut failed, mut limited) = (0, 0);
    for disk in 0..2 * count {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let folder = tempfile::tempdir().expect("a folder");
        let Some(small) = SmallDisk::mount(folder.path(), DISK_BYTES) else {
            println!("SKIP: mounting a small tmpfs needs root");
            return;
        };
        let out = small.folder().join("runs");
        let keeps = disk % 2 == 1;
        let options: &[&str] = if keeps { &["--keep", "1GiB"] } else { &[] };
        let after = Duration::from_millis((random >> 33) % 600);
        let filler = fill(
            small.folder(),
            after,
            DISK_BYTES - ((random >> 20) as usize % (256 << 10)),
        );
        for turn in 0..3 {
            let (code, message) = run(&out, options, &input);
            let what = format!("disk {disk}, turn {turn}, full after {after:?}: {message}");
            assert!(
                code == 0 || code == 1 && message.contains("No space left"),
                "{what}"
            );
            if code == 1 {
                failed += 1;
                let way_out = ["free some space", "write elsewhere"];
                assert!(way_out.iter().any(|way| message.contains(way)), "{what}");
                assert!(message.contains(&*out.to_string_lossy()), "{what}");
            }
        }
        filler.join().expect("it fills");
        for run in runs(&out) {
            let text = std::fs::read_to_string(run.join("trace.json")).unwrap_or_default();
            let Ok(record) = Manifest::from_json(&text) else {
                panic!("disk {disk}: {}: no trace.json", run.display());
            };
            let what = format!("disk {disk}: {}: {:?}", run.display(), record.verdict);
            let found = match record.verdict.state {
                // Nothing has counted it yet: the next start does.
                State::Unfinished => continue,
                _ => accounted(&run, &record),
            };
            if found > 0 {
                let rows = sorted(&records(&run, Table::Operations));
                assert!(rows.iter().all(|row| all.contains(row)), "{what}");
            }
            limited += u64::from(record.verdict.state == State::Limited);
            let there: u64 = record.tables.values().map(|table| table.rows).sum();
            let removed = record.removed.map_or(0, |removed| removed.rows);
            match record.verdict.state {
                State::Complete => assert_eq!(found, all.len() as u64, "{what}"),
                State::Limited if record.verdict.reasons.len() == 1 => {
                    assert_eq!(there + removed, rows_of_all, "{what}");
                }
                _ => assert!(!record.verdict.reasons.is_empty(), "{what}"),
            }
        }
        if let Some(python) = python() {
            let output = Command::new(python).args(["-c", QUERY]).arg(&out).output();
            let output = output.expect("Python runs");
            assert!(output.status.success(), "disk {disk}: {}", talk(&output));
        }
    }
    println!(
        "{} disks: {failed} runs ended, {limited} are limited",
        2 * count
    );
}
