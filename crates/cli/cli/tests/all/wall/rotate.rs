//! `--rotate` and SIGUSR2: where parts end, and that nothing else changes.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use lineside_rows::Table;
use lineside_testkit::capture;
use lineside_trace::read::PartReader;

use crate::support::{
    example, lineside, manifest, parts, parts_with_rows, records, sorted, talk, wait_until,
};
use crate::wall::wire::{Running, Wire, need_wire};

const WINDOW_NS: i64 = 5_000_000_000;

/// The example at one frame every 10 ms, from a time that is no multiple of the window.
fn slowed(path: &Path) {
    let mut frames = capture::read(&example()).expect("the example");
    for (frame, place) in frames.iter_mut().zip(0..) {
        frame.stamp_ns = Some(1_700_000_003_000_000_000 + place * 10_000_000);
    }
    std::fs::write(path, capture::write(&frames)).expect("written");
}

fn run(input: &Path, out: &Path, options: &[&str]) {
    let output = lineside()
        .arg("capture")
        .arg(input)
        .args(["--packets", "-q", "-o"])
        .arg(out)
        .args(options)
        .output()
        .expect("lineside runs");
    assert!(output.status.success(), "{}", talk(&output));
}

#[test]
fn parts_end_with_their_window_and_keep_every_row() {
    let folder = crate::support::private_folder();
    let at = |name: &str| folder.path().join(name);
    slowed(&at("slow.pcap"));
    run(&at("slow.pcap"), &at("whole"), &[]);
    run(
        &at("slow.pcap"),
        &at("rotated"),
        &["--rotate", "1MiB", "--rotate", "5s"],
    );
    let tables = Table::ALL.iter();
    // Without monitors there are none of their tables.
    for &table in tables.filter(|table| !Table::MONITORS.contains(table)) {
        assert!(
            parts_with_rows(&at("whole"), table) <= 1,
            "{}",
            table.name()
        );
        assert_eq!(
            sorted(&records(&at("rotated"), table)),
            sorted(&records(&at("whole"), table)),
            "{}",
            table.name()
        );
        let written = manifest(&at("rotated")).tables[table.name()];
        assert_eq!(written.parts, parts(&at("rotated"), table).len() as u64);
    }
    // A frame's row is known at its stamp: each part has the frames of one window, and each window
    // one part.
    let mut windows = Vec::new();
    for part in parts(&at("rotated"), Table::Packets) {
        let reader = PartReader::open(File::open(part).expect("there")).expect("a part");
        if let Some((first, last)) = reader.range("time_ns") {
            assert_eq!(first / WINDOW_NS, last / WINDOW_NS);
            windows.push(first / WINDOW_NS);
        }
    }
    assert!(windows.len() > 4, "{windows:?}");
    assert!(
        windows.is_sorted_by(|one, next| *next == one + 1),
        "{windows:?}"
    );
}

#[test]
fn usr2_completes_the_parts_recorded_so_far() {
    let folder = crate::support::private_folder();
    let out = folder.path().join("trace");
    let bytes = capture::bytes(&example()).expect("the example");
    let mut child = lineside()
        .args(["capture", "-", "-q", "--flush", "none", "-o"])
        .arg(&out)
        .stdin(Stdio::piped())
        .spawn()
        .expect("lineside runs");
    let mut pipe = child.stdin.take().expect("piped");
    pipe.write_all(&bytes[..bytes.len() / 2]).expect("it reads");
    pipe.flush().expect("it reads");
    wait_until("trace.json is there", || out.join("trace.json").exists());
    wait_until("a part with rows is there", || {
        let kill = Command::new("kill")
            .args(["-USR2", &child.id().to_string()])
            .status();
        assert!(kill.is_ok_and(|status| status.success()));
        out.join("operations").exists() && !records(&out, Table::Operations).is_empty()
    });
    pipe.write_all(&bytes[bytes.len() / 2..])
        .expect("it goes on");
    drop(pipe);
    assert!(child.wait().expect("it ends").success());
    assert!(parts_with_rows(&out, Table::Operations) > 1);
    let whole = folder.path().join("whole");
    run(&example(), &whole, &[]);
    assert_eq!(
        sorted(&records(&out, Table::Operations)),
        sorted(&records(&whole, Table::Operations))
    );
}

/// Over UDP a row waits for copies of its reply.
const TCP: [&str; 2] = ["-f", "tcp"];

/// Starts a capture with the default rotation of `input` into a folder of its own.
fn capture_of(input: impl Into<Stdio>, words: &[&str]) -> Running {
    let folder = crate::support::private_folder();
    let out = folder.path().join("trace");
    let mut command = lineside();
    command.args(["capture", "-o"]).arg(&out).args(TCP);
    command.args(words).stdin(input);
    Running::spawn(&mut command, out, folder)
}

#[test]
fn a_kill_loses_what_came_in_the_last_second_alone() {
    need_wire!();
    let wire = Wire::new("kill", 1);
    let frames = capture::read(&example()).expect("the example");
    let bytes = capture::bytes(&example()).expect("the example");
    let folder = crate::support::private_folder();
    let at = |name: &str| folder.path().join(name);
    run(&example(), &at("whole"), &TCP);
    let expected = records(&at("whole"), Table::Operations).len();
    let listen = |options: &[&str]| {
        // Both at once: AF_XDP takes the frames.
        let shared = ["-i", "t0", "--method", "af_packet"];
        let options = [&shared, &TCP[..], options].concat();
        Running::start(&wire.tap, &options)
    };
    let (alone, on_cores) = (listen(&[]), listen(&["--cores", "2"]));
    wire.send(&frames);
    std::fs::write(at("grows.pcapng"), &bytes).expect("written");
    let grows = at("grows.pcapng").display().to_string();
    let followed = capture_of(Stdio::null(), &["--follow", &grows]);
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let piped = capture_of(reader, &["-"]);
    writer.write_all(&bytes).expect("it reads");
    // Nothing comes any more: only time ends the parts.
    let runs = [alone, on_cores, followed, piped];
    for running in &runs {
        let out = &running.out;
        running.wait_until("every operation is in a part", || {
            let is_there = out.join("operations").exists();
            is_there && records(out, Table::Operations).len() == expected
        });
    }
    for running in runs {
        running.signal("KILL");
        let ended = running.end();
        let shown = lineside().arg("report").arg(&ended.out).output();
        let shown = shown.expect("lineside runs");
        assert!(shown.status.success(), "{}", talk(&shown));
        let text = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(text.contains("unfinished: the run was killed: "), "{text}");
        let is_there =
            |table: &&Table| **table != Table::Packets && !Table::MONITORS.contains(table);
        for &table in Table::ALL.iter().filter(is_there) {
            // Only the first part is empty: time ends no part without rows.
            let count = parts(&ended.out, table).len();
            let most = 1 + parts_with_rows(&ended.out, table);
            assert!(count <= most, "{}: {count} parts", table.name());
        }
    }
}

/// What a verb says of an unfinished trace, in words and as JSON.
fn message(verb: &str, out: &Path) -> (String, serde_json::Value) {
    let run = |options: &[&str]| {
        let output = lineside().args([verb]).arg(out).args(options).output();
        let output = output.expect("lineside runs");
        assert!(output.status.success(), "{}", talk(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let text = run(&[]).split_whitespace().collect::<Vec<_>>().join(" ");
    let json: serde_json::Value = serde_json::from_str(&run(&["--json"])).expect("JSON");
    let place = if verb == "info" {
        "/unfinished"
    } else {
        "/missing/unfinished"
    };
    (text, json.pointer(place).expect("it is unfinished").clone())
}

#[test]
fn an_unfinished_trace_says_what_is_in_memory() {
    let bytes = capture::bytes(&example()).expect("the example");
    let whole = crate::support::private_folder();
    run(&example(), whole.path(), &TCP);
    let expected = records(whole.path(), Table::Operations).len() as u64;
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let running = capture_of(reader, &["-", "--rotate", "64MiB", "--flush", "none"]);
    writer.write_all(&bytes).expect("it reads");
    let out = running.out.clone();
    running.wait_until("trace.json is there", || out.join("trace.json").exists());
    running.wait_until("trace.json is written anew", || {
        let in_memory = manifest(&out).in_memory.expect("the run goes on");
        in_memory.operations == expected
    });
    for verb in ["report", "info"] {
        let (text, json) = message(verb, &out);
        let sentence = format!("the run goes on: the last {expected} operations are still");
        assert!(text.contains(&sentence), "{verb}: {text}");
        assert!(
            text.contains("parts end by --rotate 64MiB"),
            "{verb}: {text}"
        );
        assert_eq!(
            (&json["is_running"], &json["written"]),
            (&true.into(), &0.into())
        );
        assert_eq!(json["in_memory"], expected);
    }
    running.wait_until("a part with rows is there", || {
        running.signal("USR2");
        !records(&out, Table::Operations).is_empty()
    });
    running.signal("KILL");
    let ended = running.end();
    for verb in ["report", "info"] {
        // trace.json may still say what was in memory before: the part shows that it no longer is.
        let (text, json) = message(verb, &ended.out);
        assert!(
            text.contains("every operation was in a part; what came later"),
            "{text}"
        );
        assert_eq!(
            (&json["is_running"], &json["written"]),
            (&false.into(), &expected.into())
        );
        assert!(json["since_ns"].as_i64().is_some(), "{json}");
    }
}

#[test]
fn limits_that_cannot_be_are_refused_with_the_way_out() {
    for (limit, expected) in [
        ("60", "rotate: 60 is not a size from 1MiB to 64MiB"),
        ("1ms", "rotate: 1ms is not from 1s to 292 years"),
        (
            "often",
            "rotate: 'often' is neither a size nor a time: write 16MiB, 60s, or 16MiB,60s for both",
        ),
        (
            "1s,2s",
            "rotate: 1s,2s gives the same limit twice: give at most one size and one time",
        ),
    ] {
        let output = lineside()
            .arg("capture")
            .arg(example())
            .args(["-o", "/nowhere", "--rotate", limit])
            .output()
            .expect("lineside runs");
        assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
        assert!(talk(&output).contains(expected), "{}", talk(&output));
    }
}
