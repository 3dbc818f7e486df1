//! `lineside compare` and `--assert`: noise is no news, changes are, numbers are DuckDB's.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use lineside_analyze::Comparison;
use lineside_trace::{SCHEMA_VERSION, State};
use serde_json::Value;
use tempfile::TempDir;

use crate::python::python;
use crate::report::{check, publish};
use crate::support::{example, lineside, repository, talk};
use crate::traffic::{BEGIN_NS, Operation, SECOND_NS, Traffic};

/// A folder with traces of this traffic, each changed in its way.
pub(crate) fn written(
    name: &str,
    folder: &TempDir,
    traffic: &Traffic,
    change: impl Fn(&mut Operation) -> bool,
) {
    traffic.write(&folder.path().join(name), change);
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = lineside();
    let output = command
        .args(arguments)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .output();
    output.expect("lineside runs")
}

fn printed(folder: &TempDir, arguments: &[&str]) -> String {
    let output = run(folder.path(), arguments);
    assert!(output.status.success(), "{}", talk(&output));
    String::from_utf8(output.stdout).expect("UTF-8")
}

pub(crate) fn json(folder: &TempDir, arguments: &[&str]) -> Value {
    let all = [&["compare"], arguments, &["--json"]].concat();
    serde_json::from_str(&printed(folder, &all)).expect("JSON")
}

/// The changes, each with its course.
pub(crate) fn changes(comparison: &Value) -> Vec<String> {
    let changes = comparison["changes"].as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    { changes }
        .map(|change| format!("{}: {}", text(&change["course"]), text(&change["what"])))
        .collect()
}

#[test]
fn noise_is_no_news() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut news = Vec::new();
    let seeds: u64 =
        { std::env::var("LINESIDE_SEEDS").ok() }.map_or(8, |many| many.parse().expect("a number"));
    for seed in 1..=seeds {
        let traffic = Traffic {
            seed,
            ..Traffic::default()
        };
        written("a", &folder, &traffic, |_| true);
        // Two halves of a capture, and two captures of the same kind of traffic.
        news.extend(changes(&json(&folder, &["a", "--at", "60s"])));
        let other = Traffic {
            seed: seed + 1_000,
            ..traffic
        };
        written("b", &folder, &other, |_| true);
        news.extend(changes(&json(&folder, &["a", "b"])));
        for name in ["a", "b"] {
            fs::remove_dir_all(folder.path().join(name)).expect("removed");
        }
    }
    let allowed = seeds as usize / 50;
    assert!(
        news.len() <= allowed,
        "{} of {seeds} seeds: {news:#?}",
        news.len()
    );
}

#[test]
fn each_change_is_reported_and_the_worst_first() {
    let folder = tempfile::tempdir().expect("a folder");
    written("a", &folder, &Traffic::default(), |each| each.client != 9);
    let other = Traffic {
        seed: 2,
        ..Traffic::default()
    };
    written("b", &folder, &other, |each| {
        let late = each.at_ns > 60 * SECOND_NS;
        match (each.name, each.client) {
            // READ is twice as slow everywhere, from the middle on three times of client 1.
            ("READ", 1) => each.latency_ns *= 8.0,
            ("READ", _) if late => each.latency_ns *= 2.5,
            ("WRITE", _) if late && each.at_ns % 20 == 0 => each.status = "NFS3ERR_IO",
            ("GETATTR", _) => each.latency_ns /= 2.0,
            _ => {}
        }
        each.client != 3 && (each.name != "LOOKUP" || each.at_ns % 5 == 0)
    });
    let all = json(&folder, &["a", "b"]);
    let found = changes(&all);
    for (course, start, words) in [
        ("worse", "nfs v3 READ: ", &["p50", "of 10 clients"][..]),
        ("worse", "client 10.1.0.1, nfs v3 READ: ", &["p50"]),
        ("worse", "nfs v3 WRITE: NFS3ERR_IO: new", &[]),
        ("better", "nfs v3 GETATTR: ", &["p50"]),
        ("different", "client 10.1.0.9: new", &[]),
        ("different", "client 10.1.0.3: gone", &[]),
        ("different", "nfs v3 LOOKUP: ", &["of all operations"]),
    ] {
        let start = format!("{course}: {start}");
        let change = found.iter().find(|change| change.starts_with(&start));
        let change = change.unwrap_or_else(|| panic!("no {start}: {found:#?}"));
        words
            .iter()
            .for_each(|word| assert!(change.contains(word), "no {word}: {change}"));
    }
    let courses: Vec<_> = found
        .iter()
        .map(|change| change.split(':').next())
        .collect();
    let rank = |course: &Option<&str>| {
        ["worse", "different", "better"]
            .map(Some)
            .iter()
            .position(|each| each == course)
    };
    assert!(courses.is_sorted_by_key(rank), "{found:#?}");
    assert!(
        found[0].starts_with("worse: nfs v3 WRITE: NFS3ERR_IO"),
        "{found:#?}"
    );
    assert!(found[1].starts_with("worse: nfs v3 READ"), "{found:#?}");
    let since = |start: &str| {
        let list = all["changes"].as_array().expect("a list");
        let change = list
            .iter()
            .find(|each| each["what"].as_str().unwrap_or_default().starts_with(start));
        change.expect("there")["since_ns"]
            .as_i64()
            .map(|ns| (ns - BEGIN_NS) as f64 / 1e9)
    };
    let since_io = since("nfs v3 WRITE: NFS3ERR_IO").expect("a time");
    assert!((57.0..=63.0).contains(&since_io), "{since_io}");
    assert_eq!(since("nfs v3 GETATTR"), None, "from the beginning on");
    // One that did not change is in no list of changes.
    assert!(
        !found.iter().any(|change| change.contains("WRITE: p50")),
        "{found:#?}"
    );

    let text = printed(&folder, &["compare", "a", "b"]);
    assert!(text.lines().count() <= 24, "{text}");
    let long: Vec<_> = text
        .lines()
        .filter(|line| line.chars().count() > 80)
        .collect();
    assert!(long.is_empty(), "{long:#?}");
    assert!(text.contains("Worse") && text.contains("--full"), "{text}");
    let full = printed(&folder, &["compare", "a", "b", "--full"]);
    for part in ["Better", "No news", "Only in A", "Only in B"] {
        assert!(full.contains(part), "no {part}: {full}");
    }
}

#[test]
fn doubts_come_first_and_in_words() {
    let folder = tempfile::tempdir().expect("a folder");
    written("a", &folder, &Traffic::default(), |_| true);
    let other = Traffic {
        server: 2,
        verdict: State::Incomplete,
        ..Traffic::default()
    };
    written("b", &folder, &other, |_| true);
    written("empty", &folder, &Traffic::default(), |_| false);
    let text = printed(&folder, &["compare", "a", "b"]);
    for words in [
        "B is incomplete: 12 bytes",
        "the servers are others: 10.0.0.1 in A, 10.0.0.2 in B",
    ] {
        assert!(text.contains(words), "no {words}: {text}");
    }
    let text = printed(&folder, &["compare", "a", "empty"]);
    assert!(
        text.contains("B has no operations: there is nothing to compare"),
        "{text}"
    );
    let path = folder.path().join("b/trace.json");
    let older = fs::read_to_string(&path)
        .expect("there")
        .replace(SCHEMA_VERSION, "1.7");
    fs::write(&path, older).expect("written");
    let text = printed(&folder, &["compare", "a", "b", "--full"]);
    let versions = format!("versions: {SCHEMA_VERSION} in A, 1.7 in B");
    assert!(text.contains(&versions), "{text}");
    fs::remove_file(path).expect("removed");
    let output = run(folder.path(), &["compare", "a", "b"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("B has no verdict"), "{text}");
    let output = run(folder.path(), &["compare", "a"]);
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
}

#[test]
fn traces_without_a_common_operation_are_not_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let traffic = Traffic::default();
    written("a", &folder, &traffic, |_| true);
    written("b", &folder, &traffic, |each| {
        (each.name, each.latency_ns) = ("MNT", each.latency_ns * 100.0);
        true
    });
    let comparison = json(&folder, &["a", "b"]);
    let doubt = comparison["doubts"][0].as_str().expect("a doubt");
    assert!(
        doubt.contains("cannot be compared: no operation is in both"),
        "{doubt}"
    );
    assert!(doubt.contains("MNT in B"), "{doubt}");
    assert_eq!(changes(&comparison), [""; 0]);
    let screen = printed(&folder, &["compare", "a", "b"]);
    assert!(!screen.contains("Nothing changed"), "{screen}");
}

#[test]
fn figures_of_a_comparison_are_duckdbs() {
    let Some(python) = python() else {
        println!("SKIP: no Python with duckdb (LINESIDE_PYTHON): ./test makes one");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    written("a", &folder, &Traffic::default(), |_| true);
    let other = Traffic {
        seed: 2,
        ..Traffic::default()
    };
    written("b", &folder, &other, |each| {
        // GETATTR is left for the tail of what is no news.
        if each.name != "GETATTR" {
            each.latency_ns *= 2.0;
        }
        true
    });
    let metrics = [
        "p50(READ)",
        "p90",
        "p95(WRITE)",
        "p99(READ)",
        "p999",
        "mean(GETATTR)",
        "max(READ)",
        "count(LOOKUP)",
        "rate(READ)",
        "errors(LOOKUP)",
        "throughput",
        "throughput(READ)",
        "p99(READ, client=10.1.0.1)",
        "count(user=1001)",
        "unanswered",
        "retransmissions",
    ];
    let texts: Vec<String> = { metrics.iter() }
        .flat_map(|metric| ["A.", "B.", "ratio."].map(|side| (side, metric)))
        .map(|(side, metric)| format!("{side}{metric} >= {}", bound(side, metric)))
        .collect();
    let asserts: Vec<&str> = texts.iter().flat_map(|text| ["--assert", text]).collect();
    let arguments = [&["compare", "a", "b", "--json"], &asserts[..]].concat();
    let output = run(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    fs::write(folder.path().join("compare.json"), &output.stdout).expect("written");
    let output = Command::new(python)
        .arg(repository().join("crates/cli/cli/tests/all/compare.py"))
        .arg(folder.path())
        .output();
    let output = output.expect("Python runs");
    assert!(output.status.success(), "{}", talk(&output));
}

/// 0 in the unit of a metric.
fn bound(side: &str, metric: &str) -> &'static str {
    match metric {
        _ if side == "ratio." => "0",
        _ if metric.starts_with("throughput") => "0B/s",
        _ if metric.starts_with("rate") => "0/s",
        _ if metric.starts_with("errors") || metric == "unanswered" => "0%",
        _ if metric.starts_with("count") || metric == "retransmissions" => "0",
        _ => "0ns",
    }
}

/// A trace of the example, and a copy of it.
fn of_example() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let example = example().display().to_string();
    printed(&folder, &["capture", &example, "-q", "-o", "trace"]);
    folder
}

#[test]
fn an_assertion_decides_the_exit_status() {
    let folder = of_example();
    for (text, status, words) in [
        ("p99(READ) < 10ms", 0, "p99(READ) < 10ms holds: it is "),
        ("p99(READ) < 10us", 3, "p99(READ) < 10us fails: it is "),
        (
            "p99(REED) < 10ms",
            3,
            "there is no REED in it; the nearest is READ",
        ),
        (
            "p99(client=10.9.9.9) < 10ms",
            3,
            "there is no operation of client 10.9.9.9 in it",
        ),
        ("count(REED) == 0", 0, "holds: it is 0"),
        ("errors < 50%", 0, "of 414 operations"),
        ("loss == 0%", 0, "holds"),
        ("p98(READ) < 10ms", 2, "no metric 'p98'; the nearest is p9"),
        ("p99(READ) < 10mss", 2, "the units are ms (the nearest)"),
        ("B.p99(READ) < 10ms", 2, "give it to 'lineside compare'"),
    ] {
        let output = run(folder.path(), &["report", "trace", "--assert", text]);
        let message = talk(&output);
        assert_eq!(output.status.code(), Some(status), "{text}: {message}");
        assert!(message.contains(words), "{text}: no {words:?} in {message}");
    }
    let both = ["--assert", "count > 0", "--assert", "max < 1ns", "--json"];
    let output = run(folder.path(), &[&["report", "trace"], &both[..]].concat());
    assert_eq!(output.status.code(), Some(3));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let holds = |at: usize| report["assertions"][at]["holds"].as_bool();
    assert_eq!((holds(0), holds(1)), (Some(true), Some(false)));
    // A filter that chooses operations holds for assertions too.
    let arguments = [
        "report",
        "trace",
        "--operation",
        "WRITE",
        "--assert",
        "count(READ) == 0",
    ];
    assert_eq!(run(folder.path(), &arguments).status.code(), Some(0));

    let path = folder.path().join("trace/trace.json");
    let text = fs::read_to_string(&path).expect("there");
    fs::write(&path, text.replacen("\"complete\"", "\"limited\"", 1)).expect("written");
    let output = run(folder.path(), &["report", "trace", "--assert", "count > 0"]);
    assert!(
        talk(&output).contains("(the verdict is limited: this is less sure)"),
        "{}",
        talk(&output)
    );
    // What cannot be read whole has failed, whatever is asserted of the rest.
    let part = folder.path().join("trace/operations/part-000000.parquet");
    fs::write(part, "PAR1").expect("written");
    let output = run(
        folder.path(),
        &["report", "trace", "--assert", "count == 0"],
    );
    assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
}

#[test]
fn the_comparison_is_as_its_schema_says() {
    let schema = schemars::schema_for!(Comparison).to_value();
    publish("compare", &schema);
    let folder = of_example();
    let mut found = Vec::new();
    for arguments in [
        &["trace", "trace"][..],
        &["trace", "--at", "500ms"],
        &["trace", "trace", "--operation", "read"],
        &["trace", "trace", "--calls"],
        &["trace", "trace", "--calls", "--until", "500ms"],
    ] {
        let value = json(&folder, arguments);
        check(&value, &schema, &schema, "compare", &mut found);
    }
    let same = changes(&json(&folder, &["trace", "trace"]));
    assert!(same.is_empty(), "{same:#?}");
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_lab_and_a_trace_are_not_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    written("trace", &folder, &Traffic::default(), |_| true);
    fs::create_dir(folder.path().join("lab")).expect("made");
    let text = "node.one = { run = \"true\" }\n";
    fs::write(folder.path().join("lab/lab.toml"), text).expect("written");
    for both in [["lab", "trace"], ["trace", "lab"]] {
        let output = run(folder.path(), &[&["compare"], &both[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
        let text = talk(&output);
        assert!(text.contains("trace is no lab: compare two labs"), "{text}");
    }
}
