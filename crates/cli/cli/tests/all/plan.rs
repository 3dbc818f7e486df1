//! `lineside plan`: its tables and figures, and traces that have no plan.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use lineside_analyze::Plan;
use lineside_testkit::captures;
use lineside_trace::read::{PartReader, Value};
use serde_json::Value as Json;
use tempfile::TempDir;

use crate::report::{check, printed, publish, run, traced};
use crate::support::{example, talk};

const CALLS: [&str; 8] = [
    "call_id",
    "time_ns",
    "event",
    "operation_id",
    "thread",
    "cause",
    "trigger",
    "think_ns",
];

/// The rows of a table of a plan or a prediction.
pub(crate) fn rows(plan: &Path, table: &str, columns: &[&str]) -> Vec<Vec<Value>> {
    let mut parts: Vec<_> = { fs::read_dir(plan.join(table)).expect("a folder") }
        .map(|entry| entry.expect("an entry").path())
        .collect();
    parts.sort();
    let rows = parts.iter().flat_map(|part| {
        let file = fs::File::open(part).expect("a part");
        let part = PartReader::open(file).expect("Parquet");
        part.rows(columns)
            .expect("the columns")
            .map(|row| row.expect("a row"))
    });
    rows.collect()
}

fn planned(folder: &TempDir, plan: &str) -> Json {
    let text = printed(&run(folder, &["plan", "trace", "-o", plan, "--json"]));
    serde_json::from_str(&text).expect("JSON")
}

/// The example again, in parts of a second.
fn cut(folder: &TempDir) {
    let words = [
        "capture",
        "nfs-mix.pcapng.zst",
        "-q",
        "-o",
        "cut",
        "--rotate",
        "1s",
    ];
    printed(&run(folder, &words));
}

fn refused(folder: &TempDir, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert!(!output.status.success(), "{arguments:?}");
    let text = talk(&output);
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

#[test]
fn a_plan_has_each_call_once_and_no_circle() {
    for capture in [example(), captures::example("nfs-v4.pcapng.zst")] {
        let folder = traced(&capture);
        let figures = planned(&folder, "plan");
        let plan = folder.path().join("plan");
        let calls = rows(&plan, "calls", &CALLS);
        let mut numbers: Vec<_> = calls.iter().filter_map(|row| row[0].integer()).collect();
        numbers.sort_unstable();
        assert!(numbers.iter().copied().eq(1..=calls.len() as i64));
        let by_number: BTreeMap<_, _> = calls.iter().map(|row| (row[0].integer(), row)).collect();
        let operations = calls.iter().filter_map(|row| row[3].integer());
        let mut operations: Vec<_> = operations.collect();
        assert_eq!(
            operations.len() as u64,
            figures["calls"].as_u64().expect("a number")
        );
        operations.sort_unstable();
        operations.dedup();
        assert_eq!(
            operations.len() as u64,
            figures["calls"].as_u64().expect("a number")
        );
        let edges = rows(&plan, "edges", &["from_call", "to_call", "kind"]);
        for edge in &edges {
            let [from, to] = [0, 1].map(|at| by_number[&edge[at].integer()]);
            assert!(edge[0].integer() < edge[1].integer(), "{edge:?}");
            assert!(from[1].integer() <= to[1].integer(), "{edge:?}");
        }
        let edge_counts = ["trigger_edges", "window_edges", "resource_edges"];
        let counted = edge_counts.map(|name| figures[name].as_u64().expect("a number"));
        assert_eq!(counted.iter().sum::<u64>(), edges.len() as u64);
        for call in &calls {
            let is_timed = call[5].text() == Some("time");
            assert_eq!(is_timed, call[6] == Value::Null, "{call:?}");
            assert_eq!(is_timed, call[7] == Value::Null, "{call:?}");
        }
        let facts = fs::read_to_string(plan.join("plan.json")).expect("it is there");
        assert_eq!(serde_json::from_str::<Json>(&facts).expect("JSON"), figures);
    }
}

#[test]
fn the_same_rows_in_other_parts_have_the_same_plan() {
    let folder = traced(&example());
    cut(&folder);
    printed(&run(&folder, &["plan", "trace", "-o", "one"]));
    printed(&run(&folder, &["plan", "cut", "-o", "two"]));
    let parts = |trace: &str| fs::read_dir(folder.path().join(trace).join("operations"));
    let [one, two] = ["trace", "cut"].map(|trace| parts(trace).expect("a folder").count());
    assert!(one < two, "{one} and {two} parts");
    for table in ["calls", "edges"] {
        let name = format!("{table}/part-000000.parquet");
        let [one, two] = ["one", "two"].map(|plan| folder.path().join(plan).join(&name));
        assert_eq!(
            fs::read(one).expect("read"),
            fs::read(two).expect("read"),
            "{table}"
        );
    }
}

#[test]
fn the_json_of_a_plan_is_as_its_schema_says() {
    let settings = schemars::generate::SchemaSettings::default().for_serialize();
    let schema = settings
        .into_generator()
        .into_root_schema_for::<Plan>()
        .to_value();
    publish("plan", &schema);
    let folder = traced(&example());
    let mut found = Vec::new();
    check(
        &planned(&folder, "plan"),
        &schema,
        &schema,
        "plan",
        &mut found,
    );
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_trace_without_calls_or_replies_has_no_plan() {
    let folder = traced(&example());
    let one_way = |filter: &str, name: &str| {
        printed(&run(
            &folder,
            &[
                "capture",
                "nfs-mix.pcapng.zst",
                "-q",
                "-f",
                filter,
                "-o",
                name,
            ],
        ));
        refused(&folder, &["plan", name, "-o", "plan"])
    };
    let text = one_way("dst port 2049", "calls");
    assert!(
        text.contains("has calls alone") && text.contains("both pass"),
        "{text}"
    );
    let text = one_way("src port 2049", "replies");
    assert!(text.contains("has replies alone"), "{text}");
    let text = one_way("port 9", "nothing");
    assert!(text.contains("has no calls of NFS"), "{text}");
    // What was made in vain is empty, and taken without --force.
    printed(&run(&folder, &["plan", "trace", "-o", "plan"]));
    let text = refused(&folder, &["plan", "nfs-mix.pcapng.zst"]);
    assert!(text.contains("capture it first"), "{text}");
}

#[test]
fn a_lost_part_is_named_and_the_rest_is_planned() {
    let folder = traced(&example());
    cut(&folder);
    let lost = folder.path().join("cut/operations/part-000001.parquet");
    fs::remove_file(lost).expect("removed");
    let output = run(&folder, &["plan", "cut"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        talk(&output).contains("parts that trace.json counts"),
        "{}",
        talk(&output)
    );
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("trace "));
}

#[test]
fn a_plan_replaces_plans_alone() {
    let folder = traced(&example());
    printed(&run(&folder, &["plan", "trace", "-o", "plan"]));
    let text = refused(&folder, &["plan", "trace", "-o", "plan"]);
    assert!(text.contains("--force"), "{text}");
    printed(&run(&folder, &["plan", "trace", "-o", "plan", "--force"]));
    fs::write(folder.path().join("plan/thesis.txt"), "mine").expect("written");
    let text = refused(&folder, &["plan", "trace", "-o", "plan", "--force"]);
    assert!(text.contains("thesis.txt"), "{text}");
    let text = refused(&folder, &["plan", "trace", "-o", "trace", "--force"]);
    assert!(text.contains("no part of a plan"), "{text}");
    assert!(
        folder
            .path()
            .join("plan/calls/part-000000.parquet")
            .exists()
    );
}
