//! `--rotate` and SIGUSR2: where parts end, and that nothing else changes.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use lineside_testkit::capture;
use lineside_trace::Table;
use lineside_trace::read::PartReader;

use crate::support::{
    example, lineside, manifest, parts, parts_with_rows, records, sorted, talk, wait_until,
};

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
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    slowed(&at("slow.pcap"));
    run(&at("slow.pcap"), &at("whole"), &[]);
    run(
        &at("slow.pcap"),
        &at("rotated"),
        &["--rotate", "1MiB", "--rotate", "5s"],
    );
    for &table in Table::ALL {
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
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("trace");
    let bytes = capture::bytes(&example()).expect("the example");
    let mut child = lineside()
        .args(["capture", "-", "-q", "-o"])
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
