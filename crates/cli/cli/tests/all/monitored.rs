//! `lineside report` of what monitors found: the same numbers in every form.

use std::convert::Infallible;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use lineside_analyze::Report;
use lineside_rows::{
    MonitorBinRow, MonitorEventRow, MonitorFlowRow, MonitorWindowRow, Row, Table, Text, Word,
};
use lineside_time::Random;
use lineside_trace::certificate::Judged;
use lineside_trace::certificate::link::Link;
use lineside_trace::{
    EncoderConfig, Manifest, Part, SCHEMA_VERSION, State, TableSummary, TraceEncoder, Verdict,
};
use lineside_words::{bytes, grouped, time};
use serde_json::Value;
use tempfile::TempDir;

use crate::report::{check, printed, run, traced};
use crate::support::example;

const BEGIN_NS: i64 = 1_700_000_000_000_000_000;
const MS: i64 = 1_000_000;
const ALL: &str = "all at eth1";
const BY_FLOW: &str = "gap,packets at eth1.came by flow window 10ms";

fn word(text: &str) -> Text {
    let mut word = Text::default();
    word.set(text.as_bytes());
    word
}

/// Ten seconds: 400 Mb/s in bursts, half as much from the fourth second on, and nothing in the
/// half second after the sixth.
fn windows(point: &'static str) -> Vec<MonitorWindowRow> {
    let random = &mut Random::new(7);
    let window = |at_ms: i64, packets: i64| MonitorWindowRow {
        monitor: word(ALL),
        port: word("eth1"),
        point: Some(point),
        time_ns: Some(BEGIN_NS + at_ms * MS),
        window_ns: MS,
        packets,
        bytes: packets * 1_514,
        ..MonitorWindowRow::default()
    };
    let mut rows = Vec::new();
    for at_ms in (0..10_000).filter(|at_ms| !(6_000..6_500).contains(at_ms)) {
        let usual = if at_ms < 4_000 { 33 } else { 16 };
        if random.chance(0.9) {
            rows.push(window(at_ms, usual + random.below(12) as i64));
        }
    }
    // Stamps went back: a second row of the busiest window, which is that by this alone.
    rows[2_000].packets = 40;
    rows[2_000].bytes = 40 * 1_514;
    let mut again = rows[2_000].clone();
    (again.packets, again.bytes) = (41, 41 * 1_514);
    rows.push(again);
    rows
}

fn bins(monitor: &str, metric: &'static str, bins: &[(i64, i64, i64)]) -> Vec<MonitorBinRow> {
    let row = |&(bin_from, bin_to, count): &(i64, i64, i64)| MonitorBinRow {
        monitor: word(monitor),
        port: word("eth1"),
        point: Some("came"),
        metric: Some(metric),
        bin_from,
        bin_to,
        count,
        ..MonitorBinRow::default()
    };
    bins.iter().map(row).collect()
}

/// Gaps around 12 us, with a tail up to half a second.
fn gaps() -> Vec<(i64, i64, i64)> {
    let mut gaps = Vec::new();
    for power in 8..24i64 {
        for part in 0..32i64 {
            let from = (32 + part) << power;
            let near = ((from as f64 / 12_000.0).ln() * 2.2).powi(2);
            let count = (40_000.0 * (-near).exp() + 3e5 / from as f64).round() as i64;
            gaps.push((from, from + (1 << power) - 1, count));
        }
    }
    gaps.retain(|(_, _, count)| *count > 0);
    gaps
}

fn flow(flow_id: i64, bytes: i64) -> MonitorFlowRow {
    let address = |last| Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)));
    let is_flow = flow_id > 0;
    MonitorFlowRow {
        monitor: word(ALL),
        port: word("eth1"),
        point: Some("came"),
        flow_id: Some(flow_id),
        source_address: address(7).filter(|_| is_flow),
        destination_address: address(2).filter(|_| is_flow),
        source_port: is_flow.then_some(40_000 + flow_id as i32),
        destination_port: is_flow.then_some(2_049),
        transport: if is_flow {
            Word::Known("tcp")
        } else {
            Word::None
        },
        first_ns: Some(BEGIN_NS),
        last_ns: Some(BEGIN_NS + 9_999 * MS),
        packets: bytes / 1_514,
        bytes,
        payload_bytes: is_flow.then_some(bytes / 1_514 * 1_448),
        retransmitted_bytes: is_flow.then_some(1_448 * (flow_id % 3)),
        reordered_packets: is_flow.then_some(flow_id % 2),
        reordering_extent_max: (flow_id % 2 == 1).then_some(3),
        n_reordering_max: (flow_id % 2 == 1).then_some(2),
        tcp_window_scale: (flow_id % 4 == 1).then_some(7),
        tcp_window_min_bytes: is_flow.then_some(64_240),
        tcp_window_max_bytes: is_flow.then_some(3_145_728),
        completion_ns: (flow_id % 4 == 1).then_some(9_998 * MS),
        flow_end: if flow_id % 4 == 1 { Some("fin") } else { None },
    }
}

fn events() -> Vec<MonitorEventRow> {
    let event = |at_ms: i64, event, frames, text: &str| MonitorEventRow {
        time_ns: Some(BEGIN_NS + at_ms * MS),
        event: Some(event),
        frames,
        text: if text.is_empty() {
            Text::default()
        } else {
            word(text)
        },
        ..MonitorEventRow::default()
    };
    vec![
        event(0, "begin", None, ""),
        event(
            4_000,
            "change",
            None,
            "eth1>eth2: rate 200Mbit (was 400Mbit)",
        ),
        event(6_000, "change", None, "eth1>eth2: link down"),
        event(6_500, "change", None, "eth1>eth2: link up"),
        event(8_000, "unmeasured", Some(12), ""),
        event(10_000, "end", None, ""),
    ]
}

/// Writes the tables of monitors into a folder.
fn write(folder: &Path) {
    let sink = |part: Part| -> Result<(), Infallible> {
        let folder = folder.join(part.table.name());
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join(part.file_name()), part.bytes()).expect("written");
        Ok(())
    };
    let mut encoder = TraceEncoder::new(&EncoderConfig::new(Table::MONITORS, "monitored"), sink);
    let sizes = [
        (64, 64, 20_000),
        (66, 66, 31_000),
        (590, 590, 300),
        (1_514, 1_514, 180_000),
    ];
    for rows in [
        bins(ALL, "packet_bytes", &sizes),
        bins(ALL, "gap_ns", &gaps()),
        bins(
            ALL,
            "burst_packets",
            &[(1, 1, 900), (2, 2, 5_000), (44, 44, 7_000), (96, 97, 40)],
        ),
        bins(
            ALL,
            "tcp_window_bytes",
            &[(62_976, 64_511, 9_000), (3_080_192, 3_145_727, 4_000)],
        ),
        bins(
            ALL,
            "flow_completion_ns",
            &[(9_932_111_872, 10_066_329_599, 10)],
        ),
    ] {
        rows.iter().for_each(|row| row.write_to(&mut encoder));
    }
    for point in ["came", "left"] {
        windows(point)
            .iter()
            .for_each(|row| row.write_to(&mut encoder));
    }
    for flow_id in 0..40 {
        let of_all = flow(flow_id, (1 + flow_id) * 1_514_000);
        of_all.write_to(&mut encoder);
        let by_flow = MonitorFlowRow {
            monitor: word(BY_FLOW),
            ..of_all
        };
        by_flow.write_to(&mut encoder);
        for mut row in bins(BY_FLOW, "gap_ns", &[(992, 1_007, 90), (12_032, 12_287, 10)]) {
            row.flow_id = Some(flow_id);
            row.write_to(&mut encoder);
        }
        for at_ms in [0, 10, 30] {
            let row = MonitorWindowRow {
                monitor: word(BY_FLOW),
                port: word("eth1"),
                point: Some("came"),
                flow_id: Some(flow_id),
                time_ns: Some(BEGIN_NS + at_ms * MS),
                window_ns: 10 * MS,
                packets: 10,
                bytes: 15_140,
            };
            row.write_to(&mut encoder);
        }
    }
    events().iter().for_each(|row| row.write_to(&mut encoder));
    let _sink = encoder.finish().expect("nothing fails");
}

/// The run folder of an emulated link with monitors alone.
fn emulated() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("trace");
    fs::create_dir(&run).expect("made");
    write(&run);
    let link = Link {
        seed: 7,
        clock: "virtual".to_owned(),
        ..Link::default()
    };
    let certificate = Judged {
        found: link,
        verdict: Verdict::default(),
    };
    let mut manifest = Manifest {
        schema_version: SCHEMA_VERSION.to_owned(),
        trace_id: "monitored".to_owned(),
        certificate: serde_json::to_value(certificate).ok(),
        ..Manifest::default()
    };
    manifest.verdict.state = State::Complete;
    for table in Table::MONITORS {
        let summary = TableSummary {
            parts: 1,
            ..TableSummary::default()
        };
        manifest.tables.insert(table.name().to_owned(), summary);
    }
    fs::write(run.join("trace.json"), manifest.to_json()).expect("written");
    folder
}

fn json(folder: &TempDir) -> Value {
    let text = printed(&run(folder, &["report", "trace", "--json"]));
    serde_json::from_str(&text).expect("JSON")
}

fn number(value: &Value, pointer: &str) -> u64 {
    let found = value.pointer(pointer).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("{pointer}: {value}"))
}

#[test]
fn monitors_have_the_same_numbers_in_every_form() {
    let folder = emulated();
    let report = json(&folder);
    let place = |monitor: &str, point: &str| {
        let places = report["monitors"]["places"].as_array().expect("places");
        let mut places = places.iter();
        let place = places.find(|place| place["monitor"] == monitor && place["point"] == point);
        place.expect("a place").clone()
    };
    let came = place(ALL, "came");
    let rows = windows("came");
    let sum = |of: fn(&MonitorWindowRow) -> i64| rows.iter().map(of).sum::<i64>().unsigned_abs();
    assert_eq!(number(&came, "/windows/packets"), sum(|row| row.packets));
    assert_eq!(number(&came, "/windows/bytes"), sum(|row| row.bytes));
    let times = || rows.iter().filter_map(|row| row.time_ns);
    let span = times().min().zip(times().max());
    let (begin, end) = span.expect("rows have times");
    let all = begin.abs_diff(end) / MS.unsigned_abs() + 1;
    assert_eq!(number(&came, "/windows/windows"), all);
    assert_eq!(number(&came, "/windows/empty"), all + 1 - rows.len() as u64);
    let most = came
        .pointer("/windows/bits_per_second/max")
        .and_then(Value::as_f64);
    assert_eq!(most, Some(81.0 * 1_514.0 * 8.0 * 1e3));
    assert_eq!(
        came.pointer("/windows/bits_per_second/min"),
        Some(&0.0.into())
    );
    assert_eq!(number(&came, "/flows/heaviest/0/bytes"), 40 * 1_514_000);
    assert_eq!(number(&came, "/flows/flows"), 39);
    let by_flow = place(BY_FLOW, "came");
    let flows = by_flow["by_flow"].as_array().expect("flows");
    let ids: Vec<_> = flows.iter().map(|flow| flow["flow_id"].as_i64()).collect();
    let expected = (30..40).rev().chain([0]).map(Some);
    assert_eq!(ids, expected.collect::<Vec<_>>());

    let gap = came["distributions"].as_array().expect("a list").iter();
    let gap = gap
        .clone()
        .find(|of| of["metric"] == "gap_ns")
        .expect("gaps");
    let full = printed(&run(&folder, &["report", "trace", "--full", "--utc"]));
    let first = printed(&run(&folder, &["report", "trace", "--utc"]));
    let page = printed(&run(&folder, &["report", "trace", "--html", "-", "--utc"]));
    for text in [
        grouped(number(&came, "/windows/packets")),
        bytes(number(&came, "/windows/bytes")),
        "981 Mb/s".to_owned(),
        grouped(number(gap, "/count")),
        time(number(gap, "/p50")),
        time(number(gap, "/p99")),
        time(number(gap, "/max")),
        bytes(number(&came, "/flows/heaviest/0/bytes")),
        "rate 200Mbit (was 400Mbit)".to_owned(),
        "+4.000000 s".to_owned(),
    ] {
        for (form, shown) in [("--full", &full), ("--html", &page)] {
            assert!(shown.contains(&text), "{form} lacks {text}: {shown}");
        }
    }
    // The first screen has a line about them.
    assert!(first.lines().count() <= 25, "{first}");
    assert!(
        first.contains("monitors ") && first.contains("981 Mb/s"),
        "{first}"
    );
    let long: Vec<_> = { full.lines() }
        .filter(|line| line.chars().count() > 80)
        .collect();
    assert!(long.is_empty(), "longer than 80 columns: {long:#?}");
    assert_eq!(page.matches("<figure class=\"monitor\">").count(), 8);
}

#[test]
fn monitors_in_json_are_as_the_schema_says() {
    let report = json(&emulated());
    let schema = schemars::schema_for!(Report).to_value();
    let mut found = Vec::new();
    check(&report, &schema, &schema, "report", &mut found);
    assert!(found.is_empty(), "{found:#?}");
    assert!(report["monitors"]["places"][0].is_object(), "{report}");
}

#[test]
fn a_capture_with_monitors_reports_both() {
    let folder = traced(&example());
    let before = ["--full", "--json", "--html=-"]
        .map(|form| printed(&run(&folder, &["report", "trace", "--utc", form])));
    let report: Value = serde_json::from_str(&before[1]).expect("JSON");
    assert!(report.get("monitors").is_none(), "{report}");
    assert!(
        !before[2].contains(".monitor .plot"),
        "a page without monitors has their style"
    );
    write(&folder.path().join("trace"));
    let first = printed(&run(&folder, &["report", "trace", "--utc"]));
    assert!(first.lines().count() <= 24, "{first}");
    let line = "monitors      2 monitors at 3 points, up to 981 Mb/s in 1 ms at eth1.";
    assert!(first.contains(line), "{first}");
    let full = printed(&run(&folder, &["report", "trace", "--full", "--utc"]));
    // What was there before is there still, in its order.
    let mut lines = full.lines();
    for line in before[0].lines() {
        assert!(lines.any(|other| other == line), "{line} is gone: {full}");
    }
    assert!(full.contains("Monitor 1 at eth1.came"), "{full}");
}
