//! What a load leaves: its rate, its log of histograms, and the pictures of its report.

use std::path::Path;
use std::process::Command;

use lineside_rows::OperationRow;
use lineside_rows::Row as _;
use serde_json::Value;

use crate::python::python;
use crate::support::{Record, lineside, records, talk};
use crate::wall::load_ends::{Served, certificate, number};

/// A log as HdrHistogram's Python package reads it; `None` where there is none.
pub(crate) fn logged(log: &Path) -> Option<Value> {
    let python = python()?;
    let has_reader = Command::new(&python).args(["-c", "import hdrh"]).output();
    if !has_reader.is_ok_and(|output| output.status.success()) {
        println!("SKIP: no Python with hdrhistogram (LINESIDE_PYTHON): ./test makes one");
        return None;
    }
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/read_hlog.py");
    let output = Command::new(python).arg(reader).arg(log).output();
    let output = output.expect("Python runs");
    assert!(output.status.success(), "{}", talk(&output));
    Some(serde_json::from_slice(&output.stdout).expect("JSON"))
}

fn report(run: &Path, words: &[&str]) -> String {
    let output = lineside().arg("report").arg(run).args(words).output();
    let output = output.expect("lineside runs");
    assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Of each row when it was planned, when it left and when its answer was over.
fn times(run: &Path) -> Vec<[i64; 3]> {
    let columns = ["intended_time_ns", "call_time_ns", "reply_end_ns"];
    let rows = records(run, OperationRow::TABLE);
    let at = |row: &Record, column| row.integer(column).expect("it is answered");
    rows.iter()
        .map(|row| columns.map(|column| at(row, column)))
        .collect()
}

#[test]
fn the_rate_counts_to_the_last_answer() {
    let served = Served::start(&["http", "127.0.0.1:0"]);
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    let url = format!("http://{}/", served.at);
    let out = run.to_str().expect("UTF-8");
    let found = certificate(&[&url, "-R", "100", "-n", "40", "-c", "4", "-o", out]);
    let times = times(&run);
    let first = times.iter().map(|each| each[0]).min().expect("rows");
    let last = times.iter().map(|each| each[2]).max().expect("rows");
    // The first instant is that of the start.
    let lasted_s = (last - first) as f64 / 1e9;
    let duration_s = found["duration_s"].as_f64().expect("a number");
    assert!(
        (duration_s - lasted_s).abs() < 1e-6,
        "{duration_s}, not {lasted_s}"
    );
    let answered = found["rates"]["answered"].as_f64().expect("a number");
    assert!((answered - 40.0 / lasted_s).abs() < 1e-3, "{answered}");
    // A schedule that goes on counts to its end.
    let found = certificate(&[&url, "-R", "40", "-d", "500ms", "-c", "4"]);
    let duration_s = found["duration_s"].as_f64().expect("a number");
    assert!(duration_s >= 0.5, "{duration_s}");
    served.counts();
}

#[test]
fn a_log_of_histograms_counts_every_answer() {
    let served = Served::start(&["http", "127.0.0.1:0"]);
    let folder = tempfile::tempdir().expect("a folder");
    let (run, log) = (folder.path().join("run"), folder.path().join("run.hlog"));
    let url = format!("http://{}/", served.at);
    let [out, hdr] = [&run, &log].map(|path| path.to_str().expect("UTF-8"));
    let words = [
        "-R",
        "2000",
        "-d",
        "2500ms",
        "-t",
        "2",
        "-c",
        "4",
        "--arrivals",
        "poisson",
    ];
    let words = [&[&*url], &words[..], &["-o", out, "--hdr", hdr]].concat();
    let found = certificate(&words);
    // It is replaced where that is asked for alone.
    let again = lineside()
        .arg("load")
        .args(&words[..words.len() - 4])
        .args(["--hdr", hdr])
        .output();
    let again = again.expect("lineside runs");
    assert_eq!(again.status.code(), Some(2), "{}", talk(&again));
    assert!(
        talk(&again).contains("replace it with --force"),
        "{}",
        talk(&again)
    );
    served.counts();
    // A load that does not begin leaves none, and a link where it is.
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(folder.path().join("elsewhere"), &link).expect("a link");
    for (hdr, is_kept) in [(log.with_extension("none"), false), (link, true)] {
        let mut none = lineside();
        none.args(["load", &url, "-n", "1", "--hdr"]).arg(&hdr);
        assert_eq!(none.output().expect("runs").status.code(), Some(1));
        assert_eq!(hdr.exists(), is_kept, "{hdr:?}");
    }
    let text = std::fs::read_to_string(&log).expect("a log");
    assert_eq!(
        text.lines().filter(|line| line.starts_with("Tag=")).count(),
        6,
        "{text}"
    );
    let Some(logged) = logged(&log) else {
        return;
    };
    let times = times(&run);
    for (tag, from) in [("latency", 0), ("service", 1)] {
        let logged = &logged[tag];
        assert_eq!(
            number(logged, "/count"),
            number(&found, "/requests/answered")
        );
        let mut exact: Vec<i64> = times.iter().map(|each| each[2] - each[from]).collect();
        exact.sort_unstable();
        for (at, share) in [0.5, 0.9, 0.99, 0.999, 1.0].into_iter().enumerate() {
            // The package rounds to the nearest rank.
            let rank = (share * exact.len() as f64 + 0.5) as usize;
            let exact = exact[rank - 1] as f64;
            let value = number(logged, &format!("/quantiles_ns/{at}")) as f64;
            assert!(
                (value - exact).abs() <= exact / 1024.0 + 1.0,
                "{tag} {share}: {value}, not {exact}"
            );
        }
        let intervals = logged["intervals_ms"].as_array().expect("a list");
        let ends: Vec<_> = intervals.iter().map(|each| [&each[0], &each[1]]).collect();
        assert_eq!(ends[..2], [[0, 1_000], [1_000, 2_000]]);
        assert_eq!(ends[2][0].as_u64(), Some(2_000));
        let counts = intervals.iter().filter_map(|each| each[2].as_u64());
        assert_eq!(counts.sum::<u64>(), exact.len() as u64, "{intervals:?}");
    }
    let start_s = logged["latency"]["start_s"].as_f64().expect("a number");
    let first = times.iter().map(|each| each[0]).min().expect("rows") as f64 / 1e9;
    assert!(first >= start_s, "{start_s}, {first}");
}

#[test]
fn a_report_of_a_load_draws_its_course() {
    let served = Served::start(&["http", "127.0.0.1:0"]);
    let folder = tempfile::tempdir().expect("a folder");
    let [open, closed] = ["open", "closed"].map(|name| folder.path().join(name));
    let [open_out, closed_out] = [&open, &closed].map(|path| path.to_str().expect("UTF-8"));
    let url = format!("http://{}/", served.at);
    let found = certificate(&[&url, "-R", "1000", "-d", "1s", "-c", "4", "-o", open_out]);
    certificate(&[&url, "-n", "500", "-c", "4", "-o", closed_out]);
    served.counts();
    let json: Value = serde_json::from_str(&report(&open, &["--json"])).expect("JSON");
    let sum = |name: &str| -> u64 {
        let steps = json["load"]["over_time"][name].as_array().expect("a list");
        steps.iter().filter_map(Value::as_u64).sum()
    };
    let count = |name: &str| number(&found, &format!("/requests/{name}"));
    // What a busy machine kept from leaving has no row.
    let unsent = found.pointer("/requests/unsent").and_then(Value::as_object);
    let unsent = { unsent.into_iter().flatten() }.filter_map(|(_, count)| count.as_u64());
    for (series, count) in [
        ("offered", count("planned") - unsent.sum::<u64>()),
        ("achieved", count("sent")),
        ("answered", count("answered")),
    ] {
        assert_eq!(sum(series), count, "{series}: {found}");
    }
    let quantiles = json["load"]["quantiles"].as_array().expect("a list");
    let most = quantiles.last().expect("some");
    for times in ["latency", "service"] {
        let name = format!("/{times}_ns");
        assert_eq!(
            number(most, &name),
            number(&found, &format!("/{times}/max_ns"))
        );
        let all: Vec<_> = quantiles.iter().map(|each| number(each, &name)).collect();
        assert!(all.is_sorted(), "{all:?}");
    }
    let page = report(&open, &["--html", "-"]);
    for shown in [
        "Load over time",
        "offered",
        "Late departures",
        "Times by share",
        "p99.9",
    ] {
        assert!(page.contains(shown), "{shown}");
    }
    let drawn = report(&closed, &["--html", "-"]);
    assert!(drawn.contains("achieved") && !drawn.contains("Late departures"));
    let text = report(&open, &[]);
    assert!(text.lines().count() <= 25, "{text}");
    // A load asked for its mix itself.
    assert!(!text.contains("Workload"), "{text}");
    // A verdict of a busy machine takes lines from the figures of the short form.
    let text = report(&open, &["--full"]);
    for shown in [
        "verdict",
        "offered",
        "first byte",
        "connecting",
        "generator",
        "late ",
    ] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
}

#[test]
fn a_report_of_a_load_draws_failures_by_cause() {
    let served = Served::start(&["sink", "127.0.0.1:0"]);
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    let url = format!("http://{}/", served.at);
    let out = run.to_str().expect("UTF-8");
    let words = [
        "-R",
        "50",
        "-n",
        "10",
        "-c",
        "20",
        "--timeout",
        "100ms",
        "-o",
        out,
    ];
    certificate(&[&[&*url], &words[..]].concat());
    served.counts();
    let json: Value = serde_json::from_str(&report(&run, &["--json"])).expect("JSON");
    let failed = json["load"]["over_time"]["failed"]["timeout"].as_array();
    let failed = failed.expect("a list").iter().filter_map(Value::as_u64);
    assert_eq!(failed.sum::<u64>(), 10);
    assert!(report(&run, &["--html", "-"]).contains("no answer in time"));
    assert!(report(&run, &["--full"]).contains("no answer in time"));
}
