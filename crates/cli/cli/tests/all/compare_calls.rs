//! `lineside compare A B --calls`: what was planted is found, and nothing else.

use std::convert::Infallible;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::Command;

use lineside_rows::{ChecksumRow, ConnectionRow, OperationRow, Row, Table, Word};
use lineside_testkit::captures;
use lineside_trace::certificate::replay::{Asked, Replay};
use lineside_trace::certificate::{Judged, load::Load};
use lineside_trace::{
    ClockFacts, CounterValue, EncoderConfig, Manifest, Part, SCHEMA_VERSION, State, TraceEncoder,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::python::python;
use crate::report::{printed, run, traced};
use crate::support::{example, manifest, repository, talk};

const BEGIN_NS: i64 = 1_700_000_000_000_000_000;
const US: i64 = 1_000;

/// A call before it is written.
#[derive(Clone, Copy)]
struct Call {
    client: u8,
    /// Its place among its client's.
    at: i64,
    call_ns: i64,
    server_ns: i64,
    version: i32,
    operation: &'static str,
    file: i64,
    offset: i64,
    status: &'static str,
    /// Of its block.
    data: i64,
    xid: i64,
    id: i64,
    source: Option<i64>,
    is_answered: bool,
}

/// Clients that each make one call after another.
fn calls(clients: u8, each: i64) -> Vec<Call> {
    let mut calls = Vec::new();
    for client in 1..=clients {
        for at in 0..each {
            let operation = ["LOOKUP", "READ", "WRITE", "GETATTR"][(at % 4) as usize];
            calls.push(Call {
                client,
                at,
                call_ns: i64::from(client) * 7 * US + at * 300 * US,
                server_ns: 200 * US,
                version: 3,
                operation,
                file: i64::from(client) * 100 + at / 40,
                offset: at % 10 * 512,
                status: "NFS3_OK",
                data: at * 31,
                xid: i64::from(client) * 1_000_000 + at,
                id: 0,
                source: None,
                is_answered: true,
            });
        }
    }
    calls.sort_by_key(|call| (call.call_ns, call.client));
    for (id, call) in (1..).zip(&mut calls) {
        call.id = id << 18;
    }
    calls
}

fn row(call: &Call) -> OperationRow {
    let call_ns = BEGIN_NS + call.call_ns;
    let reply_ns = Some(call_ns + 10 * US + call.server_ns).filter(|_| call.is_answered);
    let moves = matches!(call.operation, "READ" | "WRITE");
    let mut row = OperationRow {
        operation_id: call.id,
        rpc_id: call.id,
        connection_id: i64::from(call.client),
        call_time_ns: Some(call_ns),
        call_end_ns: Some(call_ns + 10 * US),
        reply_time_ns: reply_ns,
        reply_end_ns: reply_ns.map(|ns| ns + 10 * US),
        client_address: Some(IpAddr::V4(Ipv4Addr::new(10, 1, 0, call.client))),
        server_address: Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1))),
        xid: Some(call.xid),
        program: Word::Known("nfs"),
        version: Some(call.version),
        operation: Word::Known(call.operation),
        file_id: Some(call.file),
        offset: moves.then_some(call.offset),
        count: moves.then_some(512),
        source_operation_id: call.source,
        reply_missing: !call.is_answered,
        ..OperationRow::default()
    };
    if call.operation == "LOOKUP" {
        row.name.set(format!("name-{}", call.at).as_bytes());
    }
    if call.is_answered {
        (row.rpc_status, row.status) = (Word::Known("SUCCESS"), Word::Known(call.status));
        row.transferred = moves.then_some(512);
    }
    row
}

/// Writes a trace, rows in the order of replies. One that repeats calls is a replay of `a`.
fn write(folder: &TempDir, name: &str, calls: &[Call], verdict: State) {
    write_replay(folder, name, calls, verdict, "a");
}

/// Writes a trace which, if it repeats calls, is a replay of one of this id.
fn write_replay(folder: &TempDir, name: &str, calls: &[Call], verdict: State, replayed: &str) {
    let root = folder.path().join(name);
    let to = root.clone();
    let sink = move |part: Part| -> Result<(), Infallible> {
        let folder = to.join(part.table.name());
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join(part.file_name()), part.bytes()).expect("written");
        Ok(())
    };
    let mut encoder = TraceEncoder::new(&EncoderConfig::new(Table::ALL, name), sink);
    let mut calls = calls.to_vec();
    calls.sort_by_key(|call| (call.call_ns + call.server_ns, call.id));
    for call in &calls {
        row(call).write_to(&mut encoder);
        if call.is_answered && matches!(call.operation, "READ" | "WRITE") {
            let sum = ChecksumRow {
                operation_id: call.id,
                block: call.offset / 512,
                checksum: call.data,
            };
            sum.write_to(&mut encoder);
        }
    }
    for client in 1..=9 {
        let connection = ConnectionRow {
            connection_id: client.into(),
            client_address: Some(IpAddr::V4(Ipv4Addr::new(10, 1, 0, client))),
            server_address: Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1))),
            transport: Some("tcp"),
            program: Word::Known("nfs"),
            server_packets: 9,
            client_rtt_min_ns: Some(3 * US),
            server_rtt_min_ns: Some(5 * US),
            ..ConnectionRow::default()
        };
        connection.write_to(&mut encoder);
    }
    let _sink = encoder.finish().expect("nothing fails");
    let mut manifest = Manifest {
        schema_version: SCHEMA_VERSION.to_owned(),
        trace_id: name.to_owned(),
        ..Manifest::default()
    };
    manifest.verdict.state = verdict;
    if calls.iter().any(|call| call.source.is_some()) {
        let of = Judged::<Replay> {
            found: Replay {
                asked: Asked {
                    trace_id: replayed.to_owned(),
                    ..Asked::default()
                },
                ..Replay::default()
            },
            verdict: manifest.verdict.clone(),
        };
        manifest.configuration = json!({ "replay": {} });
        manifest.certificate = Some(serde_json::to_value(of).expect("JSON"));
    }
    if verdict != State::Complete {
        manifest.verdict.reasons = vec!["12 bytes of streams were lost".to_owned()];
    }
    fs::write(root.join("trace.json"), manifest.to_json()).expect("written");
}

/// A trace `a`, and `b` as it is after a change.
fn both(change: impl Fn(&mut Vec<Call>)) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let a = calls(3, 400);
    let mut b = a.clone();
    change(&mut b);
    write(&folder, "a", &a, State::Complete);
    write(&folder, "b", &b, State::Complete);
    folder
}

fn compared(folder: &TempDir, arguments: &[&str]) -> Value {
    whole(folder, arguments)["calls"].clone()
}

fn whole(folder: &TempDir, arguments: &[&str]) -> Value {
    let all = [&["compare"], arguments, &["--calls", "--json"]].concat();
    let text = printed(&run(folder, &all));
    serde_json::from_str(&text).expect("JSON")
}

const COUNTS: [&str; 6] = [
    "missing",
    "added",
    "other_status",
    "other_content",
    "later",
    "earlier",
];

/// The counts that are not 0.
fn found(calls: &Value) -> Vec<(&'static str, u64)> {
    let count = |name: &str| calls[name].as_u64().expect("a number");
    { COUNTS.into_iter() }
        .map(|name| (name, count(name)))
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// Other transaction ids, connections stay: as a program that runs again.
fn again(calls: &mut [Call]) {
    for call in calls {
        call.xid += 77_000_000;
    }
}

/// A difference that is planted, and what must be found.
type Planted = (
    &'static str,
    fn(&mut Vec<Call>),
    &'static [(&'static str, u64)],
);

const PLANTED: [Planted; 9] = [
    ("nothing", |_| {}, &[]),
    (
        "10 calls gone",
        |calls| {
            let mut count = 0;
            calls.retain(|call| {
                count += u64::from(call.client == 2 && call.at >= 55);
                !(call.client == 2 && call.at >= 55 && count <= 10)
            });
        },
        &[("missing", 10)],
    ),
    (
        "1 ms later on one client",
        |calls| {
            let late = calls.iter_mut().filter(|call| call.client == 1);
            late.for_each(|call| call.call_ns += 1_000 * US);
        },
        &[("later", 400)],
    ),
    (
        "1 ms earlier on one client",
        |calls| {
            let early = calls.iter_mut().filter(|call| call.client == 2);
            early.for_each(|call| call.call_ns -= 1_000 * US);
        },
        &[("earlier", 400)],
    ),
    (
        "one status",
        |calls| calls[500].status = "NFS3ERR_IO",
        &[("other_status", 1)],
    ),
    (
        "one reply gone",
        |calls| calls[500].is_answered = false,
        &[("other_status", 1)],
    ),
    (
        "one block of data",
        |calls| {
            let read = calls.iter_mut().find(|call| call.operation == "READ");
            read.expect("a READ").data += 1;
        },
        &[("other_content", 1)],
    ),
    (
        "one offset",
        |calls| {
            let read = calls.iter_mut().rfind(|call| call.operation == "READ");
            read.expect("a READ").offset += 512;
        },
        &[("other_content", 1)],
    ),
    (
        "one client",
        |calls| {
            let mut more: Vec<Call> = calls
                .iter()
                .filter(|call| call.client == 3)
                .copied()
                .collect();
            for call in &mut more {
                (call.client, call.xid, call.id) = (9, call.xid + 9_000_000, call.id + 1);
            }
            calls.extend(more);
        },
        &[("added", 400)],
    ),
];

#[test]
fn planted_differences_are_found_and_nothing_else() {
    for (what, plant, wanted) in PLANTED {
        let folder = both(plant);
        let calls = compared(&folder, &["a", "b"]);
        assert_eq!(calls["rule"], "xid", "{what}");
        assert_eq!(found(&calls), wanted, "{what}: {calls:#}");
        // A run of the same program has other transaction ids.
        let folder = both(|calls| {
            plant(calls);
            again(calls);
        });
        let calls = compared(&folder, &["a", "b"]);
        assert_eq!(calls["rule"], "order", "{what}");
        assert_eq!(found(&calls), wanted, "{what} by order: {calls:#}");
        // A replay names its calls; it makes them in another order.
        let folder = both(|calls| {
            plant(calls);
            again(calls);
            for call in calls {
                call.source = Some(call.id).filter(|_| call.client != 9);
                call.id = (2_000 << 18) - call.id;
            }
        });
        let calls = compared(&folder, &["a", "b"]);
        assert_eq!(calls["rule"], "source_operation_id", "{what}");
        assert_eq!(found(&calls), wanted, "{what} by source: {calls:#}");
    }
}

/// Gives calls other ids, as a replay does, which names those that it repeats.
fn replayed(calls: &[Call], last_id: i64) -> Vec<Call> {
    let mut calls = calls.to_vec();
    again(&mut calls);
    for call in &mut calls {
        call.source = Some(call.id);
        call.id = (last_id << 18) - call.id;
    }
    calls
}

#[test]
fn replays_are_compared_with_each_other_and_their_source() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = calls(3, 400);
    let one = replayed(&source, 2_000);
    let mut other = replayed(&source, 1_500);
    other.remove(700);
    for (name, calls) in [("a", &source), ("one", &one), ("other", &other)] {
        write(&folder, name, calls, State::Complete);
    }
    for (a, b, wanted) in [
        ("one", "other", "missing"),
        ("other", "one", "added"),
        ("other", "a", "added"),
        ("a", "other", "missing"),
    ] {
        let calls = compared(&folder, &[a, b]);
        assert_eq!(calls["rule"], "source_operation_id", "{a} {b}");
        assert_eq!(found(&calls), [(wanted, 1)], "{a} {b}: {calls:#}");
    }
    // Ids of a replay of something else may be the same by chance: they name nothing of it.
    let mut third = one.clone();
    third.sort_by_key(|call| call.call_ns);
    for (call, id) in third
        .iter_mut()
        .zip(source.iter().rev().map(|call| call.id))
    {
        call.source = Some(id);
    }
    for (name, replayed) in [("third", "b"), ("nameless", "")] {
        write_replay(&folder, name, &third, State::Complete, replayed);
        for [a, b] in [["a", name], [name, "a"], ["one", name]] {
            let all = whole(&folder, &[a, b]);
            let calls = &all["calls"];
            assert_ne!(calls["rule"], "source_operation_id", "{calls:#}");
            assert_eq!(found(calls), [], "{a} {b}: {calls:#}");
            let doubts = all["doubts"].to_string();
            assert!(doubts.contains("is a replay of"), "{doubts}");
        }
    }
}

#[test]
fn calls_of_another_version_do_not_correspond() {
    let folder = both(|calls| {
        again(calls);
        calls.iter_mut().for_each(|call| call.version = 2);
    });
    let calls = compared(&folder, &["a", "b"]);
    assert_eq!(found(&calls), [("missing", 1_200), ("added", 1_200)]);
    let answer = calls["answer"].as_str().expect("a text");
    assert!(
        answer.starts_with("they are of different workloads"),
        "{answer}"
    );
}

#[test]
fn loss_clocks_and_stalls_are_doubts() {
    let folder = both(|_| {});
    let path = folder.path().join("b/trace.json");
    let mut manifest = manifest(&folder.path().join("b"));
    manifest.verdict.state = State::Incomplete;
    manifest
        .verdict
        .shares
        .insert("stream_bytes_lost".to_owned(), 0.02);
    manifest.clocks.push(ClockFacts {
        resolution_ns: Some(1_000_000),
        ..ClockFacts::default()
    });
    let back = CounterValue {
        value: 3,
        meaning: String::new(),
    };
    manifest
        .counters
        .insert("frames.stamped_back".to_owned(), back);
    let mut found = Load::default();
    (found.generator.stalls, found.generator.stall_max_ns) = (2, 30_000_000);
    let verdict = manifest.verdict.clone();
    let certificate = serde_json::to_value(Judged { found, verdict });
    manifest.certificate = Some(certificate.expect("JSON"));
    manifest.configuration = json!({"load": {}});
    fs::write(&path, manifest.to_json()).expect("written");
    let text = printed(&run(&folder, &["compare", "a", "b", "--calls", "--json"]));
    let all: Value = serde_json::from_str(&text).expect("JSON");
    let doubts = all["doubts"].to_string();
    for words in [
        "B lacks 2.0 % of the bytes or frames",
        "B has stamps in steps of 1.00 ms",
        "B has 3 frames with stamps that go back",
        "B stood still 2 times, at most 30.0 ms",
    ] {
        assert!(doubts.contains(words), "no {words:?} in {doubts}");
    }
    assert!(!doubts.contains("A "), "{doubts}");
}

#[test]
fn no_capture_differs_from_itself_call_by_call() {
    let mut compared_ones = 0;
    for capture in captures::all() {
        let folder = traced(&capture);
        let all = ["compare", "trace", "trace", "--calls", "--json"];
        let output = run(&folder, &all);
        let Ok(text) = serde_json::from_slice::<Value>(&output.stdout) else {
            let text = talk(&output);
            assert_eq!(
                output.status.code(),
                Some(1),
                "{}: {text}",
                capture.display()
            );
            assert_eq!(text.lines().count(), 1, "{}: {text}", capture.display());
            continue;
        };
        let calls = &text["calls"];
        assert_eq!(found(calls), [], "{}: {calls:#}", capture.display());
        let own = ["later_themselves", "earlier_themselves"].map(|name| calls[name].as_u64());
        assert_eq!(own, [Some(0); 2], "{}", capture.display());
        assert_eq!(calls["pairs"], calls["a"]["calls"], "{}", capture.display());
        assert_eq!(calls["elapsed"][0], calls["elapsed"][1]);
        compared_ones += 1;
    }
    assert!(compared_ones >= 3, "{compared_ones}");
}

#[test]
fn calls_do_not_depend_on_how_rows_lie_in_parts() {
    let folder = traced(&example());
    let name = "nfs-mix.pcapng.zst";
    printed(&run(
        &folder,
        &["capture", name, "-q", "-o", "cut", "--rotate", "1s"],
    ));
    let one = compared(&folder, &["trace", "trace"]);
    for (a, b) in [("trace", "cut"), ("cut", "trace"), ("cut", "cut")] {
        assert_eq!(compared(&folder, &[a, b]), one, "{a} {b}");
    }
}

#[test]
fn the_difference_of_time_is_divided() {
    // The server takes 100 us longer for each call of the client that is last.
    let folder = both(|calls| {
        for call in calls {
            call.server_ns += 100 * US;
            call.call_ns += call.at * 100 * US;
        }
    });
    let calls = compared(&folder, &["a", "b"]);
    let [a, b] = [0, 1].map(|at| calls["elapsed"][at].clone());
    let by = |part: &str| b[part].as_i64().zip(a[part].as_i64()).map(|(b, a)| b - a);
    assert_eq!(by("total_ns"), Some(400 * 100 * US), "{calls:#}");
    assert_eq!(by("server_ns"), Some(400 * 100 * US), "{calls:#}");
    assert_eq!(by("network_ns"), Some(0), "{calls:#}");
    assert_eq!(by("client_ns"), Some(0), "{calls:#}");
    let parts = ["server_ns", "network_ns", "client_ns"].map(|part| a[part].as_i64().expect("one"));
    assert_eq!(Some(parts.iter().sum()), a["total_ns"].as_i64());
    assert_eq!(calls["later_themselves"], 0, "{calls:#}");
    let answer = calls["answer"].as_str().expect("a text");
    assert!(
        answer.contains("most of it is the server, 40.0 ms"),
        "{answer}"
    );
}

#[test]
fn elapsed_time_round_trip_and_counts_are_asserted() {
    let folder = both(|calls| {
        let last = calls
            .iter_mut()
            .max_by_key(|call| call.call_ns)
            .expect("one");
        last.server_ns += 60_000 * US;
        last.status = "NFS3ERR_IO";
    });
    for (text, status, words) in [
        ("elapsed <= 160%", 0, "holds: it is 1.5 times"),
        ("elapsed <= 110%", 3, "fails: it is 1.5 times"),
        ("ratio.elapsed < 1.1", 3, "fails"),
        ("A.elapsed < 130ms", 0, "holds: it is 120 ms"),
        (
            "rtt < 9us",
            0,
            "holds: it is 8.00 us, the median over connections",
        ),
        ("rtt <= 100%", 0, "holds"),
        ("other_status == 0", 3, "fails: it is 1"),
        ("missing == 0", 0, "holds: it is 0"),
        ("later == 0", 0, "holds: it is 0"),
        ("earlier != 0", 3, "fails: it is 0"),
        ("missing(READ) == 0", 2, "write missing == 0"),
    ] {
        let output = run(&folder, &["compare", "a", "b", "--calls", "--assert", text]);
        let message = talk(&output);
        assert_eq!(output.status.code(), Some(status), "{text}: {message}");
        assert!(message.contains(words), "{text}: no {words:?} in {message}");
    }
    let output = run(&folder, &["compare", "a", "b", "--assert", "added == 0"]);
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    let output = run(&folder, &["report", "a", "--assert", "elapsed < 110%"]);
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    // An assertion that fails comes before a verdict, which counts with --strict alone.
    write(&folder, "b", &calls(3, 400), State::Incomplete);
    for (more, status) in [
        (&[][..], 0),
        (&["--strict"], 4),
        (&["--strict", "--assert", "missing == 1"], 3),
    ] {
        let output = run(&folder, &[&["compare", "a", "b", "--calls"], more].concat());
        assert_eq!(output.status.code(), Some(status), "{}", talk(&output));
    }
}

#[test]
fn the_answer_comes_first_and_lists_are_bounded() {
    let folder = both(|calls| calls.retain(|call| call.at != 100 && call.at < 380));
    let text = printed(&run(&folder, &["compare", "a", "b", "--calls", "--utc"]));
    assert!(
        text.starts_with("Of 1,200 calls of A and 1,137 of B: 63 missing."),
        "{text}"
    );
    assert!(
        text.contains("by client, xid and operation; 63 without a"),
        "{text}"
    );
    let listed = text.lines().filter(|line| line.starts_with("- ")).count();
    assert_eq!(listed, 10, "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let words = ["compare", "a", "b", "--calls", "--csv", "-n", "20"];
    let csv = printed(&run(&folder, &words));
    assert_eq!(csv.lines().count(), 21, "{csv}");
    assert!(csv.starts_with("kind,client,operation"), "{csv}");
    let same = printed(&run(&folder, &["compare", "a", "a", "--calls"]));
    let words = "B has the same 1,200 calls as A, and takes as long: 120 ms.";
    assert!(same.starts_with(words), "{same}");
    assert!(
        same.contains("Both are complete: they may be compared."),
        "{same}"
    );
}

#[test]
fn traces_without_calls_or_replies_are_refused_in_one_line() {
    let folder = both(|calls| calls.clear());
    let refused = |words: &[&str]| {
        let output = run(&folder, words);
        assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
        let text = talk(&output);
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    };
    let text = refused(&["compare", "a", "b", "--calls"]);
    assert!(
        text.contains("b has no calls: 'lineside info b' shows"),
        "{text}"
    );
    // Replies alone, as a capture of one direction has them.
    let path = folder.path().join("b");
    fs::remove_dir_all(&path).expect("removed");
    write(&folder, "b", &[], State::Complete);
    let to = path.join("operations");
    let sink = move |part: Part| -> Result<(), Infallible> {
        if part.table == Table::Operations {
            fs::write(to.join(part.file_name()), part.bytes()).expect("written");
        }
        Ok(())
    };
    let mut encoder = TraceEncoder::new(&EncoderConfig::new(Table::ALL, "b"), sink);
    let reply = OperationRow {
        operation_id: 1,
        rpc_id: 1,
        call_missing: true,
        reply_time_ns: Some(BEGIN_NS),
        ..OperationRow::default()
    };
    reply.write_to(&mut encoder);
    let _sink = encoder.finish().expect("nothing fails");
    let text = refused(&["compare", "a", "b", "--calls"]);
    assert!(
        text.contains("b has replies alone: the capture saw one direction"),
        "{text}"
    );
    assert!(text.contains("capture where both pass"), "{text}");
    let output = run(&folder, &["compare", "a", "--at", "10ms", "--calls"]);
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
}

#[test]
fn counts_of_calls_are_duckdbs() {
    let Some(python) = python() else {
        println!("SKIP: no Python with duckdb (LINESIDE_PYTHON): ./test makes one");
        return;
    };
    let folder = both(|calls| {
        calls.retain(|call| call.at % 97 != 5);
        for call in calls.iter_mut().filter(|call| call.at % 41 == 7) {
            call.status = "NFS3ERR_STALE";
        }
        for call in calls.iter_mut().filter(|call| call.at % 31 == 1) {
            call.data ^= 1;
        }
        for call in calls
            .iter_mut()
            .filter(|call| call.client == 3 && call.at > 200)
        {
            (call.call_ns, call.server_ns) = (call.call_ns + 150 * US, call.server_ns + 5 * US);
        }
        let more: Vec<Call> = calls
            .iter()
            .filter(|call| call.at % 50 == 3)
            .copied()
            .collect();
        let more = more.into_iter().map(|call| Call {
            xid: call.xid + 500_000,
            id: call.id + 1,
            ..call
        });
        calls.extend(more);
    });
    let json = printed(&run(&folder, &["compare", "a", "b", "--calls", "--json"]));
    fs::write(folder.path().join("compare.json"), json).expect("written");
    let output = Command::new(python)
        .arg(repository().join("crates/cli/cli/tests/all/compare_calls.py"))
        .arg(folder.path())
        .output();
    let output = output.expect("Python runs");
    assert!(output.status.success(), "{}", talk(&output));
}

#[test]
fn a_folder_that_is_no_trace_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path: &Path = folder.path();
    fs::write(path.join("file"), "x").expect("written");
    for words in [["none", "none"], ["file", "file"]] {
        let output = run(&folder, &["compare", words[0], words[1], "--calls"]);
        assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
        assert_eq!(talk(&output).lines().count(), 1, "{}", talk(&output));
    }
}
