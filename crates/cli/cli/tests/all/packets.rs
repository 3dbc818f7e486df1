//! `lineside packets`: what it cuts out is what tshark shows, and nothing of another capture.

use std::fs;
use std::process::{Command, Output};

use lineside_rows::Table;
use lineside_testkit::{capture, captures, tshark};
use tempfile::TempDir;

use crate::report::{printed, run, traced};
use crate::support::{Record, example, records, talk};

/// A READ that takes several frames.
fn long_read(folder: &TempDir) -> Record {
    let rows = records(&folder.path().join("trace"), Table::Operations);
    let reads = rows
        .into_iter()
        .filter(|row| row.text("operation") == Some("READ"));
    let over_tcp = reads.filter(|row| row.text("transport") == Some("tcp"));
    { over_tcp }
        .max_by_key(|row| {
            row.integer("reply_end_ns")
                .zip(row.integer("reply_time_ns"))
                .map_or(0, |(end, begin)| end - begin)
        })
        .expect("a READ")
}

fn cut(folder: &TempDir, arguments: &[&str]) -> Output {
    run(folder, &[&["packets", "trace"], arguments].concat())
}

fn times(folder: &TempDir, file: &str, filter: &str) -> Vec<String> {
    let output = Command::new("tshark")
        .args([
            "-r",
            file,
            "-Y",
            filter,
            "-T",
            "fields",
            "-e",
            "frame.time_epoch",
        ])
        .current_dir(folder.path())
        .output()
        .expect("tshark runs");
    assert!(output.status.success(), "{}", talk(&output));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines().map(str::to_owned).collect()
}

fn seconds(ns: i64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

#[test]
fn an_operations_frames_are_those_that_tshark_shows() {
    if !tshark::available() {
        println!("SKIP: no tshark");
        return;
    }
    let folder = traced(&example());
    let read = long_read(&folder);
    let id = read.integer("operation_id").expect("an id").to_string();
    let [from, until] =
        ["call_time_ns", "reply_end_ns"].map(|at| read.integer(at).expect("a time"));
    let port = read.integer("client_port").expect("a port");
    let name = "nfs-mix.pcapng.zst";
    // tshark reads zstd as well.
    for (around, ns) in [("0", 0), ("20ms", 20_000_000)] {
        printed(&cut(
            &folder,
            &[
                "--operation",
                &id,
                "--around",
                around,
                "-w",
                "out.pcapng",
                "--force",
            ],
        ));
        let filter = format!(
            "tcp.port == {port} && frame.time_epoch >= {} && frame.time_epoch <= {}",
            seconds(from - ns),
            seconds(until + ns)
        );
        let expected = times(&folder, name, &filter);
        assert!(expected.len() > 2, "{expected:?}");
        assert_eq!(times(&folder, "out.pcapng", "frame"), expected, "{around}");
    }
    let connection = read.integer("connection_id").expect("an id").to_string();
    let to_pipe = cut(&folder, &["--connection", &connection, "-w", "-"]);
    assert!(to_pipe.status.success(), "{}", talk(&to_pipe));
    fs::write(folder.path().join("piped.pcapng"), &to_pipe.stdout).expect("written");
    assert_eq!(
        times(&folder, "piped.pcapng", "frame"),
        times(&folder, name, &format!("tcp.port == {port}"))
    );
    // And the trace of it has the operation.
    printed(&run(
        &folder,
        &["capture", "out.pcapng", "-q", "-o", "again"],
    ));
    let again = records(&folder.path().join("again"), Table::Operations);
    assert!(
        again
            .iter()
            .any(|row| row.integer("xid") == read.integer("xid"))
    );
}

#[test]
fn a_capture_that_is_not_the_traces_is_refused() {
    let folder = traced(&example());
    let id = long_read(&folder)
        .integer("operation_id")
        .expect("an id")
        .to_string();
    let ask = |arguments: &[&str]| cut(&folder, &[&["--operation", &id][..], arguments].concat());
    let other = captures::example("nfs-v4.pcapng.zst");
    let other = fs::canonicalize(other).expect("an example");
    // One frame less, and every number is another.
    let mut frames = capture::read(&example()).expect("the example");
    frames.remove(0);
    fs::write(folder.path().join("shifted.pcap"), capture::write(&frames)).expect("written");
    fs::write(
        folder.path().join("short.pcap"),
        capture::write(&frames[..3]),
    )
    .expect("written");
    for (file, why) in [
        (
            other.to_str().expect("UTF-8"),
            "does not belong to the trace: frame",
        ),
        ("shifted.pcap", "does not belong to the trace: frame"),
        ("short.pcap", "it has fewer"),
    ] {
        let output = ask(&["-r", file, "-w", "out.pcapng"]);
        assert_eq!(output.status.code(), Some(1), "{file}");
        assert!(talk(&output).contains(why), "{file}: {}", talk(&output));
        assert!(!folder.path().join("out.pcapng").exists(), "{file}");
    }
    printed(&ask(&["-w", "out.pcapng"]));
    let before = fs::read(folder.path().join("out.pcapng")).expect("written");
    let output = ask(&["-w", "out.pcapng"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(talk(&output).contains("--force"), "{}", talk(&output));
    assert_eq!(
        fs::read(folder.path().join("out.pcapng")).expect("there"),
        before
    );
    let output = cut(&folder, &["--operation", "5", "-w", "other.pcapng"]);
    assert!(
        talk(&output).contains("the nearest that does is"),
        "{}",
        talk(&output)
    );
    // An input is never written over, and one that has gone is asked for.
    let output = ask(&["-w", "nfs-mix.pcapng.zst", "--force"]);
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    fs::rename(
        folder.path().join("nfs-mix.pcapng.zst"),
        folder.path().join("gone.zst"),
    )
    .expect("moved");
    let output = ask(&["-w", "third.pcapng"]);
    assert!(talk(&output).contains("name with -r"), "{}", talk(&output));
    printed(&ask(&["-r", "gone.zst", "-w", "third.pcapng"]));
}
