//! Bad input and bad circumstances: a message that names the file and the way out, and everything
//! before the fault in complete parts.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use lineside_rows::Table;
use lineside_testkit::capture;
use lineside_testkit::disk::SmallDisk;
use lineside_trace::State;

use crate::follow::{frames_read, signal};
use crate::support::{
    Trace, counters, example, lineside, manifest, parts, records, sorted, talk, wait_until,
};

/// Runs `lineside capture INPUT -o OUT`.
pub(crate) fn run(input: &Path, out: &Path, options: &[&str]) -> Output {
    lineside()
        .arg("capture")
        .arg(input)
        .arg("-o")
        .arg(out)
        .args(options)
        .output()
        .expect("lineside runs")
}

/// Checks that the run failed with `status` and a message that names `path`, without a panic.
pub(crate) fn assert_refused(output: &Output, status: i32, path: &Path) {
    let talk = talk(output);
    assert_eq!(output.status.code(), Some(status), "{talk}");
    assert!(
        talk.contains(&path.display().to_string()),
        "the message does not name {}: {talk}",
        path.display()
    );
    assert!(!talk.contains("panicked"), "{talk}");
}

#[test]
fn inputs_that_are_no_capture_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("empty"), b"").expect("written");
    std::fs::write(
        at("foreign"),
        b"#!/bin/sh\necho this is no capture file, whatever its name says\n",
    )
    .expect("written");
    std::fs::write(
        at("broken.zst"),
        [&[0x28, 0xb5, 0x2f, 0xfd][..], &[0xff; 40]].concat(),
    )
    .expect("written");
    for name in ["empty", "foreign", "broken.zst", "missing"] {
        let out = at(&format!("{name}-trace"));
        assert_refused(&run(&at(name), &out, &[]), 1, &at(name));
    }
}

#[test]
fn wrong_usage_is_status_2() {
    let output = lineside()
        .args(["capture", "--no-such-flag"])
        .output()
        .expect("lineside runs");
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    let output = lineside()
        .arg("capture")
        .arg(example())
        .args(["-o", "/nowhere", "--late-window", "3 parsecs"])
        .output()
        .expect("lineside runs");
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    assert!(talk(&output).contains("3 parsecs"), "{}", talk(&output));
    let output = lineside()
        .args(["table", "normal", "--export", "coe", "--json"])
        .output()
        .expect("lineside runs");
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
}

#[test]
fn an_existing_folder_is_kept_unless_forced() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("trace");
    assert!(run(&example(), &out, &["-q"]).status.success());
    let before = manifest(&out);
    let output = run(&example(), &out, &["-q"]);
    assert!(!output.status.success());
    assert!(
        talk(&output).contains(&out.display().to_string()) && talk(&output).contains("--force"),
        "{}",
        talk(&output)
    );
    assert_eq!(manifest(&out), before, "the first trace is as it was");
    let output = run(&example(), &out, &["-q", "--force"]);
    assert!(output.status.success(), "{}", talk(&output));
    assert_ne!(manifest(&out).trace_id, String::new());

    // A folder that is not a trace is never replaced.
    let other = folder.path().join("thesis");
    std::fs::create_dir(&other).expect("made");
    std::fs::write(other.join("chapter1"), "years of work").expect("written");
    let output = run(&example(), &other, &["-q", "--force"]);
    assert!(
        !output.status.success(),
        "--force replaced a folder that is no trace"
    );
    assert!(other.join("chapter1").exists());
}

#[test]
fn a_file_cut_in_its_last_frame_is_read_with_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let frames = capture::read(&example()).expect("the example");
    let whole = capture::write(&frames);
    for (name, bytes) in [
        ("cut.pcap", whole.clone()),
        (
            "cut.pcapng",
            capture::bytes(&example()).expect("the example"),
        ),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, &bytes[..bytes.len() - 3]).expect("written");
        let out = folder.path().join(format!("{name}-trace"));
        let output = run(&path, &out, &[]);
        assert_eq!(output.status.code(), Some(0), "{}", talk(&output));
        assert!(
            talk(&output).contains(&path.display().to_string()),
            "no warning: {}",
            talk(&output)
        );
        assert!(!manifest(&out).inputs[0].warnings.is_empty());
        assert_eq!(manifest(&out).inputs[0].frames, frames.len() as u64 - 1);
    }
}

#[test]
fn a_cut_anywhere_is_read_or_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, out) = (folder.path().join("cut"), folder.path().join("trace"));
    let frames = capture::read(&example()).expect("the example");
    let compressed = std::fs::read(example()).expect("the example");
    for bytes in [capture::write(&frames[3..6]), compressed] {
        // Every offset in the headers, then some.
        for at in (0..bytes.len()).filter(|&at| at < 60 || at % (bytes.len() / 40) == 0) {
            std::fs::write(&input, &bytes[..at]).expect("written");
            let output = run(&input, &out, &["-q", "--force"]);
            match output.status.code() {
                Some(0) => assert_eq!(
                    counters(&manifest(&out)).broken_identity(),
                    None,
                    "cut at {at}"
                ),
                _ => assert_refused(&output, 1, &input),
            }
        }
    }
}

#[test]
fn a_file_broken_in_the_middle_keeps_the_frames_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let frames = capture::read(&example()).expect("the example");
    let path = folder.path().join("half.pcap");
    let mut bytes = capture::write(&frames[..1000]);
    // A frame's header whose length no frame has.
    bytes.extend_from_slice(&[0xff; 64]);
    std::fs::write(&path, &bytes).expect("written");
    let out = folder.path().join("trace");
    let output = run(&path, &out, &[]);
    assert!(
        talk(&output).contains(&path.display().to_string()),
        "{}",
        talk(&output)
    );
    assert!(!talk(&output).contains("panicked"), "{}", talk(&output));
    let half = folder.path().join("good-half.pcap");
    std::fs::write(&half, capture::write(&frames[..1000])).expect("written");
    let good = Trace::of(&half, &[]);
    assert_eq!(
        sorted(&records(&out, Table::Operations)),
        sorted(&good.operations)
    );
}

#[test]
fn every_source_of_the_same_frames_gives_the_same_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = Trace::of(&example(), &[]);
    let bytes = capture::bytes(&example()).expect("the example");

    let mut child = lineside()
        .args(["capture", "-", "-q", "-o"])
        .arg(folder.path().join("piped"))
        .stdin(Stdio::piped())
        .spawn()
        .expect("lineside runs");
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(&bytes)
        .expect("it reads");
    assert!(child.wait().expect("it ends").success());
    assert_eq!(
        sorted(&records(&folder.path().join("piped"), Table::Operations)),
        sorted(&plain.operations)
    );

    let path = folder.path().join("as.pcap");
    std::fs::write(
        &path,
        capture::write(&capture::read(&example()).expect("the example")),
    )
    .expect("written");
    assert_eq!(
        sorted(&Trace::of(&path, &[]).operations),
        sorted(&plain.operations)
    );
}

#[test]
fn ctrl_c_ends_with_complete_parts() {
    ctrl_c(&[]);
    if let Some(two) = several() {
        ctrl_c(two);
    }
}

/// The flags of a capture on two cores, where there are as many.
fn several() -> Option<&'static [&'static str]> {
    let cores = std::thread::available_parallelism();
    if cores.is_ok_and(|cores| cores.get() > 1) {
        return Some(&["--cores", "2"]);
    }
    println!("SKIP: several cores need two");
    None
}

/// `tcpdump -w - | lineside capture -`: Ctrl-C reaches both, and tcpdump writes what it has before
/// it goes.
#[test]
fn a_pipe_is_read_to_its_end_after_ctrl_c() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("trace");
    let bytes = capture::bytes(&example()).expect("the example");
    let (front, back) = bytes.split_at(bytes.len() / 2);
    let mut child = lineside()
        .args(["capture", "-", "-q", "-o"])
        .arg(&out)
        .stdin(Stdio::piped())
        .spawn()
        .expect("lineside runs");
    let mut pipe = child.stdin.take().expect("piped");
    pipe.write_all(front).expect("it reads");
    wait_until("trace.json is there", || out.join("trace.json").exists());
    signal(&child, "-INT");
    pipe.write_all(back).expect("it reads");
    drop(pipe);
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    let trace = Trace::read(&out, folder);
    assert_eq!(trace.manifest.verdict.state, State::Complete);
    assert_eq!(rows_of(&trace), rows_of(&Trace::of(&example(), &[])));
}

fn ctrl_c(options: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("trace");
    let bytes = capture::bytes(&example()).expect("the example");
    let mut child = lineside()
        .args(["capture", "-", "-o"])
        .arg(&out)
        .args(options)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("lineside runs");
    // The pipe stays open: there is no end of file to stop at.
    let mut pipe = child.stdin.take().expect("piped");
    pipe.write_all(&bytes[..bytes.len() / 2]).expect("it reads");
    pipe.flush().expect("it reads");
    wait_until("some of it went through", || frames_read(&out) > 0);
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.is_ok_and(|status| status.success()));
    wait_until("it ends", || {
        child.try_wait().is_ok_and(|status| status.is_some())
    });
    let output = child.wait_with_output().expect("it has ended");
    drop(pipe);
    assert_eq!(output.status.code(), Some(130), "{}", talk(&output));
    let rows = records(&out, Table::Operations);
    assert!(!rows.is_empty(), "what was read before the signal is there");
    assert_ne!(manifest(&out).verdict.state, State::Unfinished);
    assert_no_leftovers(&out);
}

/// No file is left under a temporary name.
fn assert_no_leftovers(out: &Path) {
    for &table in Table::ALL {
        let folder = out.join(table.name());
        if folder.is_dir() {
            let entries = std::fs::read_dir(&folder).expect("a table's folder");
            let names: Vec<_> = entries
                .map(|entry| entry.expect("an entry").path())
                .collect();
            assert_eq!(names.len(), parts(out, table).len(), "{names:?}");
        }
    }
}

#[test]
fn a_full_disk_is_named_and_complete_parts_stay() {
    full_disk(&[]);
    if let Some(two) = several() {
        full_disk(two);
    }
}

fn full_disk(options: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).expect("made");
    // What is kept for trace.json, and little more.
    let Some(_disk) = SmallDisk::mount(&disk, 576 << 10) else {
        println!("SKIP: no full disk without permission to mount one");
        return;
    };
    let out = disk.join("trace");
    let output = run(&example(), &out, options);
    // Before anything can fail, so that nothing stays mounted.
    let readable = out
        .join("operations")
        .is_dir()
        .then(|| records(&out, Table::Operations).len());
    // Lazily: a process beside the run may hold the folder for a moment longer.
    let unmounted = Command::new("umount").arg("-l").arg(&disk).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    assert_refused(&output, 1, &out);
    assert!(
        readable.is_some(),
        "the parts that were complete can be read"
    );
}

/// A file of each direction, by two hosts whose clocks differ.
#[test]
fn two_directions_are_one_capture_and_clock_skew_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let frames = capture::read(&example()).expect("the example");
    let is_from_server = |frame: &capture::Frame| {
        matches!(lineside_wire::dissect(frame.link_type, &frame.bytes, frame.wire_len as usize),
            lineside_wire::Dissected::Tcp(_, tcp) if tcp.source_port < tcp.destination_port)
    };
    let (server, client): (Vec<_>, Vec<_>) = frames.into_iter().partition(is_from_server);
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("client.pcap"), capture::write(&client)).expect("written");
    let whole = Trace::of(&example(), &[]);
    for (shift_ns, state) in [
        (0, State::Complete),
        // The rows are there, but acknowledgements precede their bytes: the times do not hold.
        (1_500_000, State::Incomplete),
        (10_000_000_000, State::Incomplete),
    ] {
        let mut server = server.clone();
        for frame in &mut server {
            frame.stamp_ns = frame.stamp_ns.map(|stamp_ns| stamp_ns - shift_ns);
        }
        std::fs::write(path("server.pcap"), capture::write(&server)).expect("written");
        let out = path(&format!("by-{shift_ns}"));
        let server = path("server.pcap");
        let output = run(
            &path("client.pcap"),
            &out,
            &[server.to_str().expect("UTF-8")],
        );
        assert!(output.status.success(), "{}", talk(&output));
        let verdict = manifest(&out).verdict;
        assert_eq!(verdict.state, state, "{shift_ns} ns: {:?}", verdict.reasons);
        if shift_ns > 1_500_000 {
            continue;
        }
        let is_early = |reason: &String| reason.contains("after they were acknowledged");
        assert_eq!(verdict.reasons.iter().any(is_early), shift_ns > 0);
        let rows = records(&out, Table::Operations).len();
        assert_eq!(rows, whole.operations.len(), "{shift_ns} ns");
        // Replies before their calls are in no quantile, which is reported.
        let trace = out.to_str().expect("UTF-8");
        let printed = |words: &[&str]| {
            let output = lineside().args(words).output().expect("it runs");
            String::from_utf8_lossy(&output.stdout).into_owned() + &talk(&output)
        };
        let runs_backwards = shift_ns > 0;
        let report = printed(&["report", trace]);
        assert_eq!(report.contains("times run backwards"), runs_backwards);
        let slow = printed(&["slow", trace, "1h"]);
        assert_eq!(slow.contains("end before they begin"), runs_backwards);
    }
}

#[test]
fn a_disk_without_room_leaves_the_account_of_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(disk) = SmallDisk::mount(folder.path(), 1 << 20) else {
        println!("SKIP: no full disk without permission to mount one");
        return;
    };
    // Inodes for the disk's folder, the trace's, its trace.json, and the room that is kept.
    let mut mount = Command::new("mount");
    let remount = mount.args(["-o", "remount,nr_inodes=4"]).arg(disk.folder());
    assert!(remount.status().is_ok_and(|status| status.success()));
    let out = disk.folder().join("trace");
    let output = run(&example(), &out, &[]);
    assert_refused(&output, 1, &out);
    // The room for its outcome was kept from the beginning.
    let verdict = manifest(&out).verdict;
    assert_eq!(verdict.state, State::Incomplete, "{verdict:?}");
    let reasons = verdict.reasons.join("; ");
    assert!(reasons.contains("No space left"), "{reasons}");
}

#[test]
fn frames_of_a_pcapng_file_are_written_in_either_format() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["out.pcap", "out.pcapng"] {
        let out = folder.path().join(name);
        let output = lineside()
            .arg("capture")
            .arg(example())
            .args(["-f", "tcp", "-q", "--write-pcap"])
            .arg(&out)
            .output()
            .expect("lineside runs");
        assert!(output.status.success(), "{name}: {}", talk(&output));
        let (filtered, written) = (Trace::of(&example(), &["-f", "tcp"]), Trace::of(&out, &[]));
        assert_eq!(
            written.operations.len(),
            filtered.operations.len(),
            "{name}"
        );
        assert_eq!(written.manifest.inputs[0].link_types, [1], "{name}");
    }
}

#[test]
fn a_capture_that_is_read_is_not_written_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("in.pcapng.zst");
    std::fs::copy(example(), &input).expect("copied");
    let write = |out: &Path, more: &[&str]| {
        let mut command = lineside();
        command.arg("capture").arg(&input).arg("--write-pcap");
        command.arg(out).args(more).output().expect("it runs")
    };
    let same = folder.path().join("./in.pcapng.zst");
    let output = write(&same, &["--force"]);
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    assert!(talk(&output).contains("is read: write another file"));
    let bytes = std::fs::read(&input).expect("it is there");
    assert!(bytes == std::fs::read(example()).expect("it is there"));
    // By another name, in a folder that is read, or by a name that rotation may give.
    let link = folder.path().join("link.pcapng");
    std::fs::hard_link(&input, &link).expect("linked");
    assert_eq!(write(&link, &["--force"]).status.code(), Some(2));
    let numbered = folder.path().join("out_00001_20261121120220.pcapng");
    std::fs::copy(example(), &numbered).expect("copied");
    let out = folder.path().join("out.pcapng");
    for input in [folder.path(), &numbered] {
        let mut command = lineside();
        command
            .arg("capture")
            .arg(input)
            .arg("--write-pcap")
            .arg(&out);
        let output = command.args(["-b", "packets:2000"]).output();
        let output = output.expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
        assert!(talk(&output).contains("write it elsewhere"));
    }
    // Neither standard output nor a file of its own is any of these.
    let output = lineside()
        .current_dir(folder.path())
        .args(["capture", "-q", "--write-pcap", "-", "."])
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", talk(&output));
    let output = lineside()
        .args(["capture", "-q"])
        .arg(&numbered)
        .arg("--write-pcap")
        .arg(&out)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", talk(&output));
    let output = write("-".as_ref(), &["--json"]);
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    assert!(talk(&output).contains("both want standard output"));
}

#[test]
fn a_run_from_a_configuration_reports_what_it_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("capture.toml");
    let out = folder.path().join("trace");
    let (input, output) = (example(), out.display());
    let text = format!("[capture]\ninputs = [{input:?}]\noutput = \"{output}\"\n");
    std::fs::write(&config, text).expect("written");
    let output = lineside()
        .arg("capture")
        .arg("--config")
        .arg(&config)
        .output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{}", talk(&output));
    let messages = String::from_utf8_lossy(&output.stdout);
    for line in ["connections  ", "operations   414 ", "tables       "] {
        assert!(messages.contains(line), "{line}: {messages}");
    }
}

/// The example's frames in files of a folder, as tcpdump turns them: `part`, `part1` ... `part11`.
pub(crate) fn rotated(folder: &Path) -> Vec<Vec<u8>> {
    let frames = capture::read(&example()).expect("the example");
    let len = frames.len().div_ceil(12);
    let parts: Vec<Vec<u8>> = frames.chunks(len).map(capture::write).collect();
    for (at, part) in parts.iter().enumerate() {
        let name = match at {
            0 => "part".to_owned(),
            at => format!("part{at}"),
        };
        std::fs::write(folder.join(name), part).expect("written");
    }
    parts
}

/// Rows without what depends on the file in which a frame is.
pub(crate) fn rows_of(trace: &Trace) -> Vec<String> {
    let rows = trace.operations.iter();
    let row = |row: &crate::support::Record| {
        let integers = [
            "operation_id",
            "call_end_ns",
            "reply_end_ns",
            "xid",
            "file_id",
        ];
        format!("{:?}", integers.map(|name| row.integer(name)))
    };
    let mut rows: Vec<String> = rows.map(row).collect();
    rows.sort();
    rows
}

#[test]
fn a_folder_of_rotated_files_is_one_capture() {
    let folder = tempfile::tempdir().expect("a folder");
    let parts = rotated(folder.path());
    let expected = Trace::of(&example(), &[]);

    std::fs::write(folder.path().join("notes"), b"what this is about\n").expect("written");
    std::fs::create_dir(folder.path().join("older")).expect("a folder");
    let out = tempfile::tempdir().expect("a folder");
    let output = run(folder.path(), &out.path().join("trace"), &["-q"]);
    let messages = talk(&output);
    assert!(output.status.success(), "{messages}");
    for left_out in ["notes' is neither", "older' is a folder"] {
        assert!(messages.contains(left_out), "{messages}");
    }
    let trace = Trace::read(&out.path().join("trace"), out);
    assert_eq!(trace.manifest.verdict.state, State::Complete);
    let names = trace.manifest.inputs.iter().map(|input| {
        let name = Path::new(&input.name).file_name();
        name.unwrap_or_default().to_string_lossy().into_owned()
    });
    let names: Vec<_> = names.collect();
    let in_order = (0..parts.len()).map(|at| match at {
        0 => "part".to_owned(),
        at => format!("part{at}"),
    });
    assert_eq!(names, in_order.collect::<Vec<_>>());
    assert_eq!(rows_of(&trace), rows_of(&expected));
}

#[test]
fn unreadable_frames_are_in_the_verdict() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.pcapng");
    let mut frames = capture::read(&example()).expect("the example");
    // DLT_USER0, and an IPv4 header of version 7.
    frames[0].link_type = 147;
    frames[1].bytes[14] = 0x75;
    // The handle of the first GETATTR, with which its frame ends, is longer than the frame.
    let getattr = [100_003_u32, 3, 1].map(u32::to_be_bytes).concat();
    let call = frames.iter_mut().find(|frame| {
        let mut words = frame.bytes.windows(getattr.len());
        words.any(|words| words == getattr)
    });
    let bytes = &mut call.expect("the example has one").bytes;
    let handle_at = bytes.len() - 32;
    assert_eq!(bytes[handle_at..][..4], [0, 0, 0, 28]);
    bytes[handle_at] = 1;
    std::fs::write(&path, capture::write(&frames)).expect("written");
    let trace = Trace::of(&path, &[]);
    assert_eq!(trace.manifest.verdict.state, State::Incomplete);
    let expected = "not read: 1 frames of link type 147 (USER0), which is not read, 1 malformed IP \
        packets, 1 malformed RPC messages, which contradict the protocol or end before their \
        fields do";
    let reasons = &trace.manifest.verdict.reasons;
    assert!(
        reasons.iter().any(|reason| reason == expected),
        "{reasons:?}"
    );
    let info = lineside().arg("info").arg(&path).output();
    let info = String::from_utf8(info.expect("lineside runs").stdout).expect("text");
    assert!(
        info.contains("not read     1 frames of link type 147"),
        "{info}"
    );
}

#[test]
fn info_lists_what_a_folder_of_captures_holds() {
    let folder = tempfile::tempdir().expect("a folder");
    let frames = capture::read(&example()).expect("the example");
    let (one, other) = frames.split_at(frames.len() / 2);
    for (name, frames) in [("a.pcap", one), ("b.pcap", other)] {
        std::fs::write(folder.path().join(name), capture::write(frames)).expect("written");
    }
    let info = |path: &Path| {
        let output = lineside().arg("info").arg(path).output();
        output.expect("lineside runs")
    };
    let [of_folder, of_file] = [folder.path(), &example()].map(|path| {
        let output = info(path);
        assert!(output.status.success(), "{}", talk(&output));
        String::from_utf8(output.stdout).expect("text")
    });
    let operations = |text: &str| {
        let lines = text
            .lines()
            .skip_while(|line| !line.starts_with("operations"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(of_folder.matches("input ").count(), 2, "{of_folder}");
    assert!(operations(&of_file).len() > 10, "{of_file}");
    assert_eq!(operations(&of_folder), operations(&of_file));

    let empty = tempfile::tempdir().expect("a folder");
    assert_refused(&info(empty.path()), 1, empty.path());
}

/// The file that it would have replaced stays.
#[test]
fn a_run_that_cannot_begin_replaces_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("trace");
    assert!(run(&example(), &out, &["-q"]).status.success());
    let before = manifest(&out);
    let nowhere = folder.path().join("nowhere/x.pcapng");
    let nowhere = nowhere.to_str().expect("UTF-8");
    for (input, options) in [
        (example(), &["--force", "--write-pcap", nowhere][..]),
        (folder.path().join("typo.pcap"), &["--force", "--follow"]),
    ] {
        let output = run(&input, &out, options);
        assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
        assert_eq!(manifest(&out), before);
        assert_eq!(parts(&out, Table::Operations).len(), 1);
    }
}

#[test]
fn standard_output_that_is_full_or_closed_is_no_panic() {
    let folder = tempfile::tempdir().expect("a folder");
    let full = || std::fs::File::create("/dev/full").expect("it is there");
    let out = folder.path().join("trace");
    let (example, out) = (example(), out.to_str().expect("UTF-8").to_owned());
    let example = example.to_str().expect("UTF-8");
    for arguments in [
        &["capture", example, "-o", &out][..],
        &["info", &out],
        &["info", "--json", &out],
        &["info", example],
        &["capture", "--list-interfaces"],
    ] {
        let output = lineside().args(arguments).stdout(full()).output();
        let output = output.expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(
            talk(&output).contains("standard output: cannot write"),
            "{arguments:?}: {}",
            talk(&output)
        );
    }
}

#[test]
fn too_many_open_files_are_reported_with_a_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let rotated = folder.path().join("rotated");
    std::fs::create_dir(&rotated).expect("made");
    let frames = capture::read(&example()).expect("the example");
    let bytes = capture::write(&frames);
    for number in 0..100 {
        std::fs::write(rotated.join(format!("{number}.pcap")), &bytes).expect("written");
    }
    for input in ["rotated", "rotated/*.pcap"] {
        let script = format!("ulimit -n 64; exec \"$0\" capture {input} -o trace --force");
        let output = Command::new("sh")
            .args(["-c", &script])
            .arg(lineside().get_program())
            .current_dir(folder.path())
            .output()
            .expect("it runs");
        let talk = talk(&output);
        assert_eq!(output.status.code(), Some(1), "{input}: {talk}");
        assert!(talk.contains("ulimit -n"), "{input}: {talk}");
        assert!(talk.len() < 1_500, "{input}: {talk}");
    }
}
