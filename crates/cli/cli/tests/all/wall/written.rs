//! `-w` and `-s`: what a live run writes reads back to the rows of that run, cut as tcpdump cuts.

use std::path::Path;
use std::process::Command;

use lineside_account::Budget;
use lineside_frame::Burst;
use lineside_port::{CaptureReader, Interface, PoolConfig, Port, Receive, Received};
use lineside_testkit::capture;

use crate::support::Trace;
use crate::wall::live::example_frames;
use crate::wall::tags::tagged_frames;
use crate::wall::wire::{Running, Tcpdump, Wire, need_wire, private_folder};

/// Every row of a trace as text, ids, stamps and frame numbers included, but for the input: a file
/// is one. Sorted: where a file ends, all that waits for longer copies comes at once, and live time
/// goes on.
fn rows(trace: &Trace) -> Vec<String> {
    let is_input = |column: &str| matches!(column, "call_input" | "reply_input");
    let rows = trace.operations.iter().chain(trace.details());
    let mut rows: Vec<String> = rows
        .chain(&trace.checksums)
        .map(|row| row.text_without(is_input))
        .collect();
    rows.sort_unstable();
    rows
}

/// What tshark counts in a capture file.
fn tshark_frames(path: &Path) -> usize {
    let output = Command::new("tshark")
        .args(["-n", "-T", "fields", "-e", "frame.number", "-r"])
        .arg(path)
        .output()
        .expect("tshark runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout.iter().filter(|&&byte| byte == b'\n').count()
}

#[test]
fn what_a_live_run_writes_reads_back_to_its_rows() {
    need_wire!("tshark");
    let wire = Wire::new("written", 1);
    let frames = tagged_frames();
    for name in ["out.pcapng", "out.pcap"] {
        for options in [&[][..], &["-f", "vlan or tcp port 2049"], &["-s", "150"]] {
            let what = format!("{name} {options:?}");
            let folder = private_folder();
            let path = folder.path().join(name);
            let fixed = ["-i", "t0", "--method", "af_packet", "-w"];
            let arguments = [&fixed, &[path.to_str().expect("a plain path")][..], options].concat();
            let running = Running::start(&wire.tap, &arguments);
            wire.send(&frames);
            let live = running.interrupt().trace(0);
            let again = Trace::of(&path, &[]);
            assert!(
                live.operations.len() > 50,
                "{what}: {}",
                live.operations.len()
            );
            let (live_rows, rows_again) = (rows(&live), rows(&again));
            assert_eq!(live_rows.len(), rows_again.len(), "{what}");
            for (one, other) in live_rows.iter().zip(&rows_again) {
                assert_eq!(one, other, "{what}");
            }
            let written = live.manifest.inputs[0].frames;
            assert_eq!(tshark_frames(&path) as u64, written, "{what}");
        }
    }
}

#[test]
fn a_snapshot_length_cuts_frames_as_tcpdumps_does() {
    need_wire!("tcpdump");
    let wire = Wire::new("cut", 1);
    let frames = tagged_frames();
    for method in ["af_packet", "af_xdp"] {
        let folder = private_folder();
        let (ours, theirs) = (
            folder.path().join("ours.pcapng"),
            folder.path().join("theirs.pcap"),
        );
        let tcpdump = wire.tap.command("tcpdump");
        let tcpdump = (method == "af_packet").then(|| Tcpdump::cut(tcpdump, "t0", &theirs, "90"));
        let path = ours.to_str().expect("a plain path");
        let options = ["-i", "t0", "--method", method, "-w", path, "-s", "90"];
        let running = Running::start(&wire.tap, &options);
        wire.send(&frames);
        running.interrupt().trace(0);
        let read = capture::read(&ours).expect("a capture");
        assert_eq!(read.len(), frames.len());
        for (read, sent) in read.iter().zip(&frames) {
            let kept = &sent.bytes[..sent.bytes.len().min(90)];
            assert_eq!(
                (&read.bytes[..], read.wire_len),
                (kept, sent.wire_len),
                "{method}"
            );
        }
        if let Some(tcpdump) = tcpdump {
            tcpdump.end_when_quiet();
            let theirs = capture::read(&theirs).expect("tcpdump's");
            let bytes = |frame: &capture::Frame| (frame.bytes.clone(), frame.wire_len);
            assert!(
                read.iter().map(bytes).eq(theirs.iter().map(bytes)),
                "as tcpdump"
            );
        }
        let [interface] = &interfaces_of(&ours)[..] else {
            panic!("one interface")
        };
        assert_eq!(interface.snap_len, 90);
        assert_eq!(interface.received, Some(frames.len() as u64));
    }
}

/// The interfaces that a pcapng file describes, with their last figures.
pub(crate) fn interfaces_of(path: &Path) -> Vec<Interface> {
    let pool = PoolConfig::new(Budget::new(64 << 20), 16 << 20);
    let mut reader = CaptureReader::open(path, &pool).expect("a capture");
    let mut burst = Burst::new();
    while reader.receive(&mut burst, 256).expect("whole") != Received::End {
        burst.clear();
    }
    reader.facts()[0].interfaces.clone()
}

#[test]
fn a_snapshot_length_cuts_the_frames_of_files_too() {
    let folder = private_folder();
    let (whole, cut) = (
        folder.path().join("whole.pcap"),
        folder.path().join("cut.pcapng"),
    );
    let frames = example_frames();
    std::fs::write(&whole, capture::write(&frames)).expect("written");
    let mut command = crate::support::lineside();
    let output = command
        .args(["capture", "-s", "60", "-w"])
        .args([&cut, &whole])
        .output();
    assert!(output.expect("it runs").status.success());
    let read = capture::read(&cut).expect("a capture");
    assert!(read.len() == frames.len() && read.iter().all(|frame| frame.bytes.len() <= 60));
    assert!(
        read.iter()
            .zip(&frames)
            .all(|(read, frame)| read.wire_len == frame.wire_len)
    );
}
