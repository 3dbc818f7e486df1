//! `lineside report` and `lineside slow`: against DuckDB, against a stored page, and on bad input.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::python::python;
use crate::support::{example, lineside, records, repository, shared_traces, talk};

/// A folder with a trace of `input` in `trace`.
fn traced(input: &Path) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let output = lineside()
        .arg("capture")
        .arg(input)
        .args(["-q", "-o"])
        .arg(folder.path().join("trace"))
        .output()
        .expect("lineside runs");
    assert!(output.status.success(), "{}", talk(&output));
    folder
}

/// Runs `lineside` in a folder, so that what it prints does not depend on where that is.
fn run(folder: &TempDir, arguments: &[&str]) -> Output {
    let mut command = lineside();
    command.args(arguments).current_dir(folder.path());
    command.output().expect("lineside runs")
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", talk(output));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn json(folder: &TempDir, arguments: &[&str]) -> Value {
    let all = [&["report", "trace", "--json"], arguments].concat();
    serde_json::from_str(&printed(&run(folder, &all))).expect("JSON")
}

fn part(folder: &TempDir) -> PathBuf {
    folder.path().join("trace/operations/part-000001.parquet")
}

#[test]
fn the_terminal_form_is_as_stored_and_fits_80_columns() {
    let folder = traced(&example());
    let text = printed(&run(&folder, &["report", "trace"]));
    let long: Vec<_> = { text.lines() }
        .filter(|line| line.chars().count() > 80)
        .collect();
    assert!(long.is_empty(), "longer than 80 columns: {long:#?}");
    assert!(
        !text.contains('\u{1b}'),
        "colours although it is no terminal"
    );
    let stored = repository().join("crates/cli/tests/all/report.txt");
    if std::env::var_os("LINESIDE_STORE").is_some() {
        fs::write(&stored, &text).expect("stored");
    }
    let known = fs::read_to_string(&stored).expect("the stored report");
    assert!(
        text == known,
        "run with LINESIDE_STORE=1 and look at the difference:\n{text}"
    );
}

#[test]
fn counts_sums_and_quantiles_agree_with_duckdb() {
    let Some(python) = python() else {
        println!("SKIP: no Python with duckdb (LINESIDE_PYTHON): ./test makes one");
        return;
    };
    let mut inputs = vec![example()];
    if let Some(shared) = shared_traces() {
        inputs.push(shared.join("public/wireshark__nfs_bad_stalls.cap.zst"));
        inputs.push(shared.join("own/mix-v3-1500-snap128.pcap.zst"));
    }
    for input in inputs {
        let folder = traced(&input);
        let report = printed(&run(&folder, &["report", "trace", "--json"]));
        let mut child = Command::new(&python)
            .arg(repository().join("crates/cli/tests/all/report.py"))
            .arg(folder.path().join("trace"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("Python runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(report.as_bytes()).expect("written");
        drop(stdin);
        let output = child.wait_with_output().expect("Python ends");
        assert!(
            output.status.success(),
            "{}: {}",
            input.display(),
            talk(&output)
        );
    }
}

#[test]
fn the_page_needs_nothing_else() {
    let folder = traced(&example());
    let page = printed(&run(&folder, &["report", "trace", "--html", "-"]));
    for reference in ["http:", "https:", "src=", "@import", "url(", "//"] {
        assert!(!page.contains(reference), "the page has {reference}");
    }
    let links: Vec<_> = page.matches("href=").collect();
    assert_eq!(
        (links.len(), page.matches("href=\"data:,\"").count()),
        (1, 1)
    );
    let data = page
        .split("id=\"report\">")
        .nth(1)
        .and_then(|rest| rest.split("</script>").next());
    let data: Value = serde_json::from_str(data.expect("the data")).expect("JSON");
    assert_eq!(data, json(&folder, &[]));
}

#[test]
fn every_field_of_the_json_form_is_described() {
    let folder = traced(&example());
    let guide = fs::read_to_string(repository().join("docs/guide/report.md")).expect("the guide");
    let mut keys = Vec::new();
    collect_keys(&json(&folder, &[]), &mut keys);
    collect_keys(&json(&folder, &["--interval", "1"]), &mut keys);
    let slow = printed(&run(&folder, &["slow", "trace", "0", "--json"]));
    for line in slow.lines().take(5) {
        collect_keys(&serde_json::from_str(line).expect("JSON"), &mut keys);
    }
    let missing: Vec<_> = keys
        .iter()
        .filter(|key| !guide.contains(&format!("`{key}`")))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/guide/report.md does not describe {missing:?}"
    );
}

fn collect_keys(value: &Value, keys: &mut Vec<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| collect_keys(value, keys)),
        Value::Object(map) => {
            for (key, value) in map {
                if !keys.contains(key) {
                    keys.push(key.clone());
                }
                collect_keys(value, keys);
            }
        }
        _ => {}
    }
}

#[test]
fn filters_divide_the_operations() {
    let folder = traced(&example());
    let count = |arguments: &[&str]| {
        json(&folder, arguments)["totals"]["operations"]
            .as_u64()
            .expect("a number")
    };
    let all = count(&[]);
    assert_eq!(all, 414);
    let (before, after) = (count(&["--until", "1ms"]), count(&["--since", "1ms"]));
    assert!(before > 0 && after > 0);
    assert_eq!(before + after, all);
    assert_eq!(
        count(&["--client", "192.0.2.2"]) + count(&["--client", "2001:DB8:0::2"]),
        all
    );
    assert_eq!(count(&["--operation", "read"]), 110);
    assert_eq!(
        count(&["--operation", "WRITE", "--client", "192.0.2.2"]),
        51
    );
    assert_eq!(count(&["--since", "2100-01-01T00:00:00Z"]), 0);
}

#[test]
fn intervals_add_up() {
    let folder = traced(&example());
    let series = json(&folder, &["--interval", "0.1"]);
    let intervals = series["intervals"].as_array().expect("intervals");
    assert_eq!(intervals.len(), 14);
    let sum = |pointer: &str| {
        intervals
            .iter()
            .filter_map(|each| each.pointer(pointer)?.as_u64())
            .sum::<u64>()
    };
    assert_eq!(sum("/all/operations"), 414);
    assert_eq!(sum("/read/operations"), 110);
    assert_eq!(sum("/write/operations"), 67);
    assert_eq!(sum("/all/retransmissions"), 8);
    let text = printed(&run(&folder, &["report", "trace", "--interval", "1"]));
    assert_eq!(text.matches("read: ").count(), 2);
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
}

#[test]
fn slow_operations_are_those_that_took_long() {
    let folder = traced(&example());
    let rows = records(
        &folder.path().join("trace"),
        lineside_trace::Table::Operations,
    );
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
fn what_is_no_trace_is_said_to_be_none() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("file"), "x").expect("written");
    fs::create_dir(folder.path().join("empty")).expect("made");
    for (path, why) in [
        ("absent", "there is nothing of that name"),
        ("file", "it is a file"),
        ("empty", "neither trace.json nor a table operations"),
    ] {
        for verb in ["report", "slow"] {
            let output = run(&folder, &[verb, path]);
            assert_eq!(output.status.code(), Some(1), "{path}");
            assert!(talk(&output).contains(why), "{path}: {}", talk(&output));
            assert!(output.stdout.is_empty());
        }
    }
}

#[test]
fn a_newer_schema_is_refused_and_a_newer_column_is_not() {
    let folder = traced(&example());
    let path = folder.path().join("trace/trace.json");
    let text = fs::read_to_string(&path).expect("trace.json");
    let version = |version: &str| {
        text.replace(
            "\"schema_version\": \"1.0\"",
            &format!("\"schema_version\": \"{version}\""),
        )
    };
    fs::write(&path, version("1.7")).expect("written");
    assert_eq!(json(&folder, &[])["trace"]["schema_version"], "1.7");
    fs::write(&path, version("2.0")).expect("written");
    let output = run(&folder, &["report", "trace"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        talk(&output).contains("schema 2.0 is newer than"),
        "{}",
        talk(&output)
    );
}

#[test]
fn what_can_be_reported_of_a_damaged_trace_is() {
    // A part that is gone.
    let folder = traced(&example());
    fs::remove_file(part(&folder)).expect("removed");
    let output = run(&folder, &["report", "trace"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        talk(&output).contains("1 of the 2 parts"),
        "{}",
        talk(&output)
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains("unreadable"));

    // A part that ends early, and one whose pages are damaged.
    for harm in [
        |bytes: &mut Vec<u8>| bytes.truncate(1_000),
        |bytes: &mut Vec<u8>| bytes[20..900].fill(0xff),
    ] {
        let folder = traced(&example());
        let mut bytes = fs::read(part(&folder)).expect("the part");
        harm(&mut bytes);
        fs::write(part(&folder), bytes).expect("written");
        for verb in ["report", "slow"] {
            let output = run(&folder, &[verb, "trace"]);
            assert_eq!(output.status.code(), Some(1));
            assert!(
                talk(&output).contains("part-000001.parquet"),
                "{}",
                talk(&output)
            );
            assert!(!output.stdout.is_empty());
        }
    }

    // No trace.json: the tables are still there.
    let folder = traced(&example());
    fs::remove_file(folder.path().join("trace/trace.json")).expect("removed");
    let output = run(&folder, &["report", "trace"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("not known") && text.contains("operations   414"),
        "{text}"
    );
}

#[test]
fn what_does_not_occur_is_answered_with_the_nearest() {
    let folder = traced(&example());
    for (arguments, nearest) in [
        (["--client", "192.0.2.22"], "nearest that does is 192.0.2.2"),
        (["--operation", "READD"], "nearest that does is READ"),
    ] {
        for verb in ["report", "slow"] {
            let output = run(&folder, &[&[verb, "trace"][..], &arguments].concat());
            assert_eq!(output.status.code(), Some(1));
            assert!(talk(&output).contains(nearest), "{}", talk(&output));
        }
    }
    let output = run(&folder, &["report", "trace", "--since", "yesterday"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(talk(&output).contains("RFC 3339"), "{}", talk(&output));
}
