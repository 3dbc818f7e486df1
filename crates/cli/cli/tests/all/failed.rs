//! `lineside failed`: its lists and groups against the tables, and the frames it names.

use std::collections::{BTreeMap, BTreeSet};

use lineside_rows::{Table, is_success};
use lineside_testkit::captures;
use serde_json::Value;
use tempfile::TempDir;

use crate::report::{printed, run, traced};
use crate::support::{Record, example, records, talk};

/// The lines of `failed --json`.
fn failed(folder: &TempDir, arguments: &[&str]) -> Vec<Value> {
    let all = [&["failed", "trace", "--json"], arguments].concat();
    let text = printed(&run(folder, &all));
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// The status of a row that failed; empty: it was not answered.
fn failure(row: &Record) -> Option<String> {
    let status = row.text("status").or_else(|| row.text("rpc_status"));
    match status {
        Some(status) if !is_success(status) => Some(status.to_owned()),
        _ if row.is("reply_missing") => Some(String::new()),
        _ => None,
    }
}

fn rows(folder: &TempDir) -> Vec<Record> {
    records(&folder.path().join("trace"), Table::Operations)
}

#[test]
fn failed_operations_are_those_whose_status_is_no_success() {
    for capture in [example(), captures::example("nfs-v4.pcapng.zst")] {
        let folder = traced(&capture);
        let rows = rows(&folder);
        let mut expected = BTreeMap::new();
        for row in &rows {
            if let Some(status) = failure(row) {
                // Of a compound without a reply any of its operations stands for it.
                let id = match status.is_empty() {
                    true => row.integer("rpc_id"),
                    false => row.integer("operation_id"),
                };
                expected.insert(id, status);
            }
        }
        let lines = failed(&folder, &[]);
        let found: BTreeMap<_, _> = { lines.iter() }
            .map(|line| {
                let status = line["status"].as_str().unwrap_or_default().to_owned();
                let id = match status.is_empty() {
                    true => line["rpc_id"].as_i64(),
                    false => line["operation_id"].as_i64(),
                };
                (id, status)
            })
            .collect();
        assert!(!found.is_empty());
        assert_eq!(found, expected);
        assert_eq!(found.len(), lines.len(), "each once");
        for per in ["status", "operation", "client", "file", "minute"] {
            let groups = failed(&folder, &["--per", per]);
            let sum = |name: &str| {
                groups
                    .iter()
                    .filter_map(|each| each[name].as_u64())
                    .sum::<u64>()
            };
            let all = sum("failed") + sum("unanswered");
            assert_eq!(all, lines.len() as u64, "{per}");
        }
    }
}

#[test]
fn one_status_is_chosen_with_and_without_its_version() {
    let folder = traced(&example());
    let statuses: BTreeSet<String> = rows(&folder).iter().filter_map(failure).collect();
    let status = { statuses.iter() }
        .find(|status| status.starts_with("NFS3ERR_"))
        .expect("the example has failures");
    let stem = status.trim_start_matches("NFS3ERR_");
    let lines = failed(&folder, &["--status", status]);
    assert!(!lines.is_empty() && lines.iter().all(|line| line["status"] == **status));
    assert_eq!(failed(&folder, &["--status", &stem.to_lowercase()]), lines);
    let text = printed(&run(&folder, &["failed", "trace", "--status", stem]));
    assert_eq!(text.lines().count(), lines.len() + 1, "{text}");
    assert!(text.starts_with("TIME  "), "{text}");
    let output = run(&folder, &["failed", "trace", "--status", stem]);
    let command = lines[0]["tshark"].as_str().expect("a command");
    assert!(talk(&output).contains(command), "{}", talk(&output));
    let none = run(&folder, &["failed", "trace", "--status", "NXIO"]);
    assert!(talk(&none).contains("none of"), "{}", talk(&none));
}
