//! Every number of a finding is DuckDB's, over the same Parquet: of the captures at hand, of the
//! cases beside the repository, and of made-up traffic for what these do not have.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use lineside_rows::ConnectionRow;
use lineside_testkit::captures;
use tempfile::TempDir;

use crate::findings::{during, measured, minute, resent};
use crate::python::python;
use crate::report::{printed, run, traced};
use crate::support::{repository, talk};
use crate::traffic::{Operation, Traffic};

/// Of larger captures the findings are those of smaller ones.
const INPUT_BYTES_MAX: u64 = 4_000_000;

/// The captures at hand, and the cases beside the repository, but for those that are no capture
/// of their own.
fn inputs() -> Vec<PathBuf> {
    let mut inputs = captures::all();
    let cases = captures::beside().and_then(|traces| fs::read_dir(traces.join("../cases")).ok());
    let cases = { cases.into_iter().flatten().flatten() }.map(|entry| entry.path());
    inputs.extend(cases.filter(|path| path.to_string_lossy().contains(".pcap")));
    inputs.retain(|path| fs::metadata(path).is_ok_and(|file| file.len() <= INPUT_BYTES_MAX));
    inputs.sort();
    inputs
}

fn made(traffic: Traffic, change: impl Fn(&mut Operation) -> bool) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    traffic.write(&folder.path().join("trace"), change);
    folder
}

/// Replies of which each round trip of 20 ms takes 16 KiB: the client's window is full.
fn small_window(mut row: ConnectionRow) -> Vec<ConnectionRow> {
    row.client_rtt_min_ns = Some(10_000_000);
    row.server_rtt_min_ns = Some(10_000_000);
    row.server_packets = 20_000;
    row.server_bytes = 20_000_000;
    row.server_window_waits = 900;
    vec![row]
}

fn traffic() -> Vec<TempDir> {
    let of = |intervals| Traffic {
        intervals,
        ..minute(7)
    };
    let all = |_: &mut Operation| true;
    let tail = |each: &mut Operation| {
        if during(each, 15..45) && each.at_ns / 1_000 % 100 == 0 {
            each.latency_ns = 230e6;
        }
        true
    };
    let slow = |each: &mut Operation| {
        each.latency_ns += 30e6;
        true
    };
    let transfers = |each: &mut Operation| {
        each.transfer_ns = 40e6;
        each.latency_ns += 40e6;
        true
    };
    vec![
        made(of(|row| resent(row, [120, 90, 20, 20])), all),
        made(of(|row| resent(row, [120, 90, 40, 0])), all),
        made(of(measured), tail),
        made(of(measured), slow),
        made(of(small_window), transfers),
    ]
}

fn report(folder: &TempDir) {
    let text = printed(&run(folder, &["report", "trace", "--json"]));
    fs::write(folder.path().join("report.json"), text).expect("written");
}

/// How often each kind was compared; an error has what differs.
fn compared(python: &Path, folders: &[TempDir]) -> Result<String, String> {
    let output = Command::new(python)
        .arg(repository().join("crates/cli/cli/tests/all/findings.py"))
        .arg(repository().join("docs/guide/trace.md"))
        .args(folders.iter().map(TempDir::path))
        .output()
        .expect("Python runs");
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).expect("UTF-8")),
        false => Err(talk(&output)),
    }
}

#[test]
fn the_numbers_of_findings_are_duckdbs() {
    let Some(python) = python() else {
        println!("SKIP: no Python with duckdb (LINESIDE_PYTHON): ./test makes one");
        return;
    };
    let mut folders: Vec<TempDir> = inputs().iter().map(|input| traced(input)).collect();
    folders.extend(traffic());
    folders.iter().for_each(report);
    let kinds = compared(&python, &folders).unwrap_or_else(|differ| panic!("{differ}"));
    println!("{kinds}");
    for kind in ["loss", "reordering", "tail", "slow_server", "window"] {
        assert!(kinds.contains(&format!("{kind} ")), "{kind}: {kinds}");
    }
    // A number that is another one is noticed.
    let tampered = folders.last().expect("one").path().join("report.json");
    let text = fs::read_to_string(&tampered).expect("there");
    let mut found: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    found["findings"][0]["lost_ns"] = 1.into();
    serde_json::to_writer(File::create(&tampered).expect("made"), &found).expect("written");
    assert!(compared(&python, &folders[folders.len() - 1..]).is_err());
}
