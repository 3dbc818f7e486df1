//! Files that are still written, folders that get their next one, and rings.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command};

use lineside_rows::Table;
use lineside_testkit::capture;
use lineside_trace::State;

use crate::input::{assert_refused, rotated, rows_of, run};
use crate::support::{Trace, example, lineside, manifest, records, talk, wait_until};

/// Runs `lineside capture FOLDER --follow -o OUT`.
fn follow(folder: &Path, out: &Path) -> Child {
    lineside()
        .arg("capture")
        .arg(folder)
        .args(["--follow", "-q", "-o"])
        .arg(out)
        .spawn()
        .expect("lineside runs")
}

/// Frames that a run has read so far.
pub(crate) fn frames_read(trace: &Path) -> u64 {
    let inputs = match trace.join("trace.json").exists() {
        true => manifest(trace).inputs,
        false => Vec::new(),
    };
    inputs.iter().map(|input| input.frames).sum()
}

pub(crate) fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    let status = Command::new("kill").args([name, &pid]).status();
    assert!(status.expect("kill runs").success());
}

fn interrupt(child: &mut Child) {
    signal(child, "-INT");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}

/// `tcpdump -W 2 -z gzip` in slow motion: two names, written over in turn, and each complete file
/// compressed beside them.
#[test]
fn a_ring_of_files_is_followed_round() {
    let source = tempfile::tempdir().expect("a folder");
    let parts = &rotated(source.path())[..4];
    for at in 4..12 {
        std::fs::remove_file(source.path().join(format!("part{at}"))).expect("it was there");
    }
    let expected = Trace::of(source.path(), &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let out = tempfile::tempdir().expect("a folder");
    let write = |at: usize, bytes: &[u8]| {
        std::fs::write(folder.path().join(format!("ring{}", at % 2)), bytes).expect("written");
    };
    write(0, &parts[0]);
    write(1, &parts[1]);
    let trace = out.path().join("trace");
    let mut child = follow(folder.path(), &trace);
    let frames = capture::read(&example()).expect("the example").len();
    let are_read = |files: usize| {
        let wanted = (files * frames.div_ceil(12)).min(frames) as u64;
        wait_until("files are read", || frames_read(&trace) == wanted);
    };
    are_read(2);
    // Another run leaves this one alone.
    let other = run(&example(), &trace, &["--force"]);
    assert_refused(&other, 1, &trace);
    assert!(talk(&other).contains("is being written by another run"));
    for (at, part) in parts.iter().enumerate().skip(2) {
        let packed = std::fs::File::create(folder.path().join(format!("done{at}.gz")));
        let mut gzip = Command::new("gzip");
        gzip.arg("-c")
            .arg(folder.path().join(format!("ring{}", at % 2)))
            .stdout(packed.expect("created"));
        assert!(gzip.status().expect("gzip runs").success());
        write(at, part);
        are_read(at + 1);
    }
    interrupt(&mut child);
    let trace = Trace::read(&trace, out);
    assert_eq!(trace.manifest.verdict.state, State::Complete);
    assert_eq!(rows_of(&trace), rows_of(&expected));
}

/// tcpdump and dumpcap go round while the reader is stopped.
#[test]
fn a_ring_that_laps_its_reader_is_reported() {
    let source = tempfile::tempdir().expect("a folder");
    let parts = rotated(source.path());
    for is_deleting in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let out = tempfile::tempdir().expect("a folder");
        let path = |at: usize| match is_deleting {
            true => folder
                .path()
                .join(format!("ring_{at:05}_20261127{at:06}.pcap")),
            false => folder.path().join(format!("ring{}", at % 3)),
        };
        let write = |at: usize| {
            std::fs::write(path(at), &parts[at]).expect("written");
            if is_deleting && at >= 3 {
                std::fs::remove_file(path(at - 3)).expect("it was there");
            }
        };
        write(0);
        write(1);
        let trace = out.path().join("trace");
        let mut child = follow(folder.path(), &trace);
        let a_file = capture::read(&example())
            .expect("the example")
            .len()
            .div_ceil(12) as u64;
        wait_until("two files are read", || frames_read(&trace) == 2 * a_file);
        signal(&child, "-STOP");
        (2..8).for_each(write);
        signal(&child, "-CONT");
        wait_until("the others are read", || frames_read(&trace) == 5 * a_file);
        interrupt(&mut child);
        let manifest = manifest(&trace);
        assert_eq!(manifest.verdict.state, State::Incomplete);
        let loss = match is_deleting {
            true => "3 of the numbers 1 to 5 of the ring were deleted unread",
            false => "ring1 was overwritten before all of it was read",
        };
        let reasons = &manifest.verdict.reasons;
        let is_named = |reason: &&String| reason.contains(loss);
        assert_eq!(reasons.iter().filter(is_named).count(), 1, "{reasons:?}");
        let losses = records(&trace, Table::Losses);
        let lapped = { losses.iter() }.filter(|row| row.text("cause") == Some("ring_lapped"));
        assert_eq!(lapped.count(), 1);
        let report = lineside().arg("report").arg(&trace).output();
        let report = report.expect("lineside runs").stdout;
        let report = String::from_utf8(report).expect("UTF-8");
        assert!(
            report.contains("overwritten or deleted in a ring of files"),
            "{report}"
        );
    }
}

#[test]
fn a_folder_that_grows_is_followed_from_file_to_file() {
    let source = tempfile::tempdir().expect("a folder");
    let parts = rotated(source.path());
    let expected = Trace::of(source.path(), &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let out = tempfile::tempdir().expect("a folder");
    let write = |at: usize, bytes: &[u8]| {
        let path = folder.path().join(format!("grows{at}"));
        let mut file = std::fs::OpenOptions::new();
        let file = file.create(true).append(true).open(path);
        file.expect("opened").write_all(bytes).expect("written");
    };
    // The first file is there, cut within a record.
    write(0, &parts[0][..parts[0].len() - 7]);
    let trace = out.path().join("trace");
    let mut child = follow(folder.path(), &trace);
    wait_until("the run begins", || trace.join("trace.json").exists());
    write(0, &parts[0][parts[0].len() - 7..]);
    for (at, part) in parts.iter().enumerate().skip(1) {
        let (front, back) = part.split_at(part.len() / 2);
        write(at, front);
        write(at, back);
    }
    let frames = capture::read(&example()).expect("the example").len() as u64;
    wait_until("all is read", || frames_read(&trace) == frames);
    interrupt(&mut child);
    let trace = Trace::read(&trace, out);
    assert_eq!(trace.manifest.verdict.state, State::Complete);
    assert_eq!(rows_of(&trace), rows_of(&expected));
}

#[test]
fn an_input_that_cannot_be_followed_is_reported_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let no_capture = folder.path().join("text.pcap");
    std::fs::write(&no_capture, "no capture, but long enough for a header").expect("written");
    for (index, input) in [&folder.path().join("nothing.pcap"), &no_capture, &example()]
        .into_iter()
        .enumerate()
    {
        let out = folder.path().join(index.to_string());
        let output = run(input, &out, &["--follow"]);
        assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
        assert_eq!(
            talk(&output).matches("lineside: ").count(),
            1,
            "{}",
            talk(&output)
        );
        assert!(talk(&output).contains(&*input.to_string_lossy()));
        assert!(!out.exists());
    }
}

/// The order in which a user starts lineside and tcpdump does not matter, nor when tcpdump writes
/// its first block.
#[test]
fn a_folder_is_followed_from_its_first_file_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = tempfile::tempdir().expect("a folder");
    let (first, trace) = (folder.path().join("first.pcap"), out.path().join("trace"));
    std::fs::write(folder.path().join("empty.pcap"), "").expect("written");
    let mut child = follow(folder.path(), &trace);
    wait_until("it waits", || trace.join("trace.json").exists());
    let frames = capture::read(&example()).expect("the example");
    std::fs::write(&first, capture::write(&frames)).expect("written");
    wait_until("all is read", || frames_read(&trace) == frames.len() as u64);
    interrupt(&mut child);
    let trace = Trace::read(&trace, out);
    assert_eq!(trace.manifest.verdict.state, State::Complete);
    assert_eq!(rows_of(&trace), rows_of(&Trace::of(&first, &[])));
}

#[test]
fn only_one_input_is_followed() {
    for (arguments, what) in [
        (&["a", "b", "--follow"][..], "name the one file that grows"),
        (&["-", "--follow"], "name the one file that grows"),
        (&["a", "-a", "duration:1"], "only a live run has a duration"),
    ] {
        let output = lineside()
            .args(["capture", "-o", "never"])
            .args(arguments)
            .output()
            .expect("lineside runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(talk(&output).contains(what), "{}", talk(&output));
    }
}
