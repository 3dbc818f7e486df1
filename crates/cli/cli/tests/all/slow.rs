//! `lineside slow`: its lists and groups against the tables, its filters, and the frames it names.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use lineside_rows::Table;
use lineside_testkit::{captures, tshark};
use serde_json::Value;
use tempfile::TempDir;

use crate::report::{printed, run, traced};
use crate::support::{Record, example, records, talk};

/// The words of `--per`.
pub(crate) const PER: [&str; 8] = [
    "client",
    "file",
    "directory",
    "user",
    "operation",
    "connection",
    "minute",
    "status",
];

/// The lines of `slow --json`.
fn slow(folder: &TempDir, arguments: &[&str]) -> Vec<Value> {
    let all = [&["slow", "trace", "--json"], arguments].concat();
    let text = printed(&run(folder, &all));
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn rows(folder: &TempDir) -> Vec<Record> {
    records(&folder.path().join("trace"), Table::Operations)
}

fn latency(row: &Record) -> Option<i64> {
    Some(row.integer("reply_end_ns")? - row.integer("call_time_ns")?)
}

fn ids(lines: &[Value]) -> Vec<i64> {
    let id = |each: &Value| each["operation_id"].as_i64().expect("an id");
    lines.iter().map(id).collect()
}

#[test]
fn slow_operations_are_those_that_took_long() {
    let folder = traced(&example());
    let rows = records(&folder.path().join("trace"), Table::Operations);
    let mut expected: Vec<_> = { rows.iter() }
        .filter_map(|row| {
            let latency = row.integer("reply_end_ns")? - row.integer("call_time_ns")?;
            let id = row.integer("operation_id")?;
            (latency >= 500_000).then_some((row.integer("call_time_ns")?, id))
        })
        .collect();
    expected.sort_unstable();
    let lines = printed(&run(&folder, &["slow", "trace", "500us", "--json"]));
    let found = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let found: Vec<Value> = found.collect();
    let ids: Vec<_> = found
        .iter()
        .map(|each| each["operation_id"].as_i64().expect("an id"))
        .collect();
    assert!(!ids.is_empty());
    assert_eq!(ids, expected.iter().map(|(_, id)| *id).collect::<Vec<_>>());
    assert!(
        found.iter().any(|each| each["path"] == "/vfs/random"),
        "paths are joined"
    );
    // Without a unit it is milliseconds, as nfsslower has it; the heading is nfsslower's.
    let text = printed(&run(&folder, &["slow", "trace", "0.5"]));
    assert_eq!(text.lines().count(), ids.len() + 1);
    assert!(text.starts_with("TIME  "), "{text}");
}

#[test]
fn a_slow_operation_with_a_name_shows_that_name() {
    let folder = traced(&example());
    let rows = records(&folder.path().join("trace"), Table::Operations);
    let named: Vec<_> = { rows.iter() }
        .filter(|row| matches!(row.text("operation"), Some("REMOVE" | "RMDIR" | "MKDIR")))
        .filter_map(|row| Some((row.integer("operation_id")?, row.text("name")?)))
        .collect();
    assert!(!named.is_empty());
    let lines = printed(&run(&folder, &["slow", "trace", "0", "--json"]));
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let id = line["operation_id"].as_i64();
        if let Some((_, name)) = named.iter().find(|(named, _)| Some(*named) == id) {
            let path = line["path"].as_str().unwrap_or_default();
            assert!(path.ends_with(&format!("/{name}")), "{line}");
        }
    }
}

#[test]
fn a_compound_is_slow_once() {
    let folder = traced(&captures::example("nfs-v4.pcapng.zst"));
    let rows = rows(&folder);
    let timed = rows.iter().filter(|row| latency(row).is_some());
    let rpcs: BTreeSet<_> = timed.map(|row| row.integer("rpc_id")).collect();
    let lines = slow(&folder, &["0"]);
    let found: BTreeSet<_> = lines.iter().map(|each| each["rpc_id"].as_i64()).collect();
    assert_eq!(found, rpcs);
    assert_eq!(lines.len(), rpcs.len(), "each once");
    for line in &lines {
        let names: Vec<_> = { rows.iter() }
            .filter(|row| row.integer("rpc_id") == line["rpc_id"].as_i64())
            .filter(|row| row.integer("compound_index").is_some())
            .filter_map(|row| row.text("operation"))
            .collect();
        assert_eq!(line["compound"], serde_json::json!(names));
        if names.contains(&"READ") {
            assert_eq!(line["operation"], "READ", "{line}");
        }
    }
    let by_client = slow(&folder, &["0", "--per", "client"]);
    let counted = by_client
        .iter()
        .filter_map(|each| each["operations"].as_u64());
    assert_eq!(counted.sum::<u64>(), rpcs.len() as u64);
}

#[test]
fn the_first_by_each_measure_are_the_greatest() {
    let folder = traced(&example());
    let all = slow(&folder, &["0"]);
    type Measure = fn(&Value) -> i64;
    let measures: [(&str, Measure); 4] = [
        ("latency", |each| each["latency_ns"].as_i64().unwrap_or(0)),
        ("server", |each| {
            each["server_time_ns"].as_i64().unwrap_or(0)
        }),
        ("transfer", |each| {
            let server = each["server_time_ns"].as_i64().unwrap_or(0);
            each["latency_ns"].as_i64().unwrap_or(0) - server
        }),
        ("size", |each| {
            each["transferred_bytes"].as_i64().unwrap_or(0)
        }),
    ];
    for (by, measure) in measures {
        let mut expected: Vec<i64> = all.iter().map(measure).collect();
        expected.sort_unstable_by_key(|&value| std::cmp::Reverse(value));
        let found = slow(&folder, &["--top", "7", "--by", by]);
        let found: Vec<i64> = found.iter().map(measure).collect();
        assert_eq!(found, expected[..7], "{by}");
    }
    assert_eq!(
        ids(&slow(&folder, &["--top", "7"])),
        ids(&slow(&folder, &["--top", "7", "--by", "latency"]))
    );
    assert_eq!(slow(&folder, &["--top", "0"]).len(), 0);
    let output = run(&folder, &["slow", "trace", "--by", "slow"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(talk(&output).contains("--per client"), "{}", talk(&output));
}

#[test]
fn the_parts_of_each_latency_sum_up_to_it() {
    let folder = traced(&example());
    for line in slow(&folder, &["0"]) {
        let parts = ["transfer_ns", "recovery_ns", "way_ns", "server_ns"];
        let sum: u64 = parts
            .iter()
            .filter_map(|part| line["divided"][part].as_u64())
            .sum();
        assert_eq!(Some(sum), line["latency_ns"].as_u64(), "{line}");
    }
}

#[test]
fn groups_have_the_latencies_of_their_operations() {
    let folder = traced(&example());
    let rows = rows(&folder);
    let key = |per: &str, row: &Record| match per {
        "client" => row.text("client_address").map(str::to_owned),
        "operation" => row.text("operation").map(str::to_owned),
        "user" => row.integer("user_id").map(|id| id.to_string()),
        "file" => row.integer("file_id").map(|id| id.to_string()),
        "connection" => row.integer("connection_id").map(|id| id.to_string()),
        _ => row
            .integer("call_time_ns")
            .map(|time| (time / 60_000_000_000).to_string()),
    };
    for per in [
        "client",
        "operation",
        "user",
        "file",
        "connection",
        "minute",
    ] {
        let mut expected: BTreeMap<Option<String>, Vec<i64>> = BTreeMap::new();
        for row in &rows {
            if let Some(latency) = latency(row) {
                expected.entry(key(per, row)).or_default().push(latency);
            }
        }
        let groups = slow(&folder, &["500us", "--per", per, "--top", "1000"]);
        assert_eq!(groups.len(), expected.len(), "{per}");
        for group in groups {
            let text = |value: &Value| match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let name = match per {
                "user" => group.get("user_id").map(text),
                "file" => group.get("file_id").map(text),
                "connection" => group.get("connection_id").map(text),
                "minute" => { group.get("minute_ns").and_then(Value::as_i64) }
                    .map(|time| (time / 60_000_000_000).to_string()),
                _ => Some(text(&group["name"])),
            };
            let mut latencies = expected[&name].clone();
            latencies.sort_unstable();
            let count = latencies.len();
            assert_eq!(group["operations"], count, "{group}");
            let slow = latencies.iter().filter(|&&ns| ns >= 500_000).count();
            assert_eq!(group["slow"], slow, "{group}");
            assert_eq!(group["latency_max_ns"], latencies[count - 1], "{group}");
            for (field, share) in [("latency_p50_ns", 0.5), ("latency_p99_ns", 0.99)] {
                let exact = latencies[(share * count as f64).ceil() as usize - 1];
                let found = group[field].as_i64().expect("a time");
                assert!(
                    found.abs_diff(exact) * 100 <= exact as u64,
                    "{field}, not {exact}: {group}"
                );
            }
        }
    }
    let text = printed(&run(
        &folder,
        &["slow", "trace", "500us", "--per", "directory"],
    ));
    assert!(text.lines().any(|line| line.ends_with(" /vfs")), "{text}");
}

#[test]
fn files_users_and_connections_are_chosen_by_filters() {
    let folder = traced(&example());
    let rows = rows(&folder);
    let count = |verb: &[&str], filter: &[&str]| -> u64 {
        let text = printed(&run(&folder, &[verb, filter].concat()));
        match verb[0] {
            "slow" => text.lines().count() as u64,
            _ => {
                let report: Value = serde_json::from_str(&text).expect("JSON");
                report["totals"]["operations"].as_u64().expect("a number")
            }
        }
    };
    let report = |filter: &[&str]| count(&["report", "trace", "--json"], filter);
    let with = |is: &dyn Fn(&Record) -> bool| rows.iter().filter(|row| is(row)).count() as u64;
    let random = { slow(&folder, &["0"]).into_iter() }
        .find(|each| each["path"] == "/vfs/random" && each["operation"] == "READ")
        .expect("a file of that name");
    let id: i64 = random["file_id"]
        .as_str()
        .expect("an id")
        .parse()
        .expect("digits");
    let of_file = with(&|row| row.integer("file_id") == Some(id));
    let named =
        with(&|row| row.integer("file_id") == Some(id) || row.text("name") == Some("random"));
    assert_eq!(report(&["--file", &id.to_string()]), of_file);
    assert_eq!(report(&["--file", "rand?m"]), named);
    assert_eq!(report(&["--file", "/vfs/rando*"]), named);
    let timed = with(&|row| row.integer("file_id") == Some(id) && latency(row).is_some());
    assert_eq!(
        count(
            &["slow", "trace", "0", "--json"],
            &["--file", &id.to_string()]
        ),
        timed
    );
    let users: BTreeSet<_> = rows
        .iter()
        .filter_map(|row| row.integer("user_id"))
        .collect();
    let user = users.first().expect("a user").to_string();
    assert_eq!(
        report(&["--user", &user]),
        with(&|row| row.integer("user_id") == user.parse().ok())
    );
    let connection = rows[0].integer("connection_id").expect("an id");
    let on_it = with(&|row| row.integer("connection_id") == Some(connection));
    assert_eq!(report(&["--connection", &connection.to_string()]), on_it);
    let port = rows[0].integer("client_port").expect("a port");
    let address = rows[0].text("client_address").expect("an address");
    let end = match address.contains(':') {
        true => format!("[{address}]:{port}"),
        false => format!("{address}:{port}"),
    };
    let at_end = with(&|row| {
        row.integer("client_port") == Some(port) && row.text("client_address") == Some(address)
    });
    assert_eq!(report(&["--connection", &end]), at_end);
    for (filter, nearest) in [
        (
            ["--file", "/vfs/randon"],
            "the nearest that does is /vfs/random",
        ),
        (["--user", "123456"], "user '123456' does not occur"),
        (
            ["--connection", "192.0.2.2:1"],
            "the nearest that does is 192.0.2.2:",
        ),
    ] {
        for verb in [
            &["report", "trace"][..],
            &["slow", "trace"],
            &["slow", "trace", "--per", "file"],
        ] {
            let output = run(&folder, &[verb, &filter].concat());
            assert_eq!(output.status.code(), Some(1));
            assert!(talk(&output).contains(nearest), "{}", talk(&output));
        }
    }
    let none = run(&folder, &["slow", "trace", "1000s"]);
    assert!(talk(&none).contains("the slowest took"), "{}", talk(&none));
}

#[test]
fn the_named_frames_are_those_of_call_and_reply() {
    if !tshark::available() {
        println!("SKIP: no tshark");
        return;
    }
    let folder = traced(&example());
    let rows = rows(&folder);
    for line in slow(&folder, &["--top", "3"]) {
        let command = line["tshark"].as_str().expect("a command");
        let fields = format!("{command} -T fields -e rpc.xid");
        let output = Command::new("bash")
            .args(["-c", &fields])
            .current_dir(folder.path())
            .output();
        let output = output.expect("bash runs");
        assert!(output.status.success(), "{}", talk(&output));
        let row = { rows.iter() }
            .find(|row| row.integer("operation_id") == line["operation_id"].as_i64())
            .expect("the row");
        let xid = format!("0x{:08x}", row.integer("xid").expect("an xid"));
        let shown = String::from_utf8(output.stdout).expect("UTF-8");
        assert_eq!(shown.lines().count(), 2, "{command}");
        assert!(
            shown.lines().all(|line| line.contains(&xid)),
            "{command}: {shown}, not {xid}"
        );
    }
}
