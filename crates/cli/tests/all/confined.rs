//! The sandbox of a capture, as others see it: `/proc`, `trace.json`, what may be named.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use lineside_testkit::capture;
use lineside_trace::Table;

use crate::between::{Hosts, emulate, round_trips};
use crate::support::{example, held_status, lineside, manifest, records, talk, wait_until};
use crate::wire::{Running, Wire, need_wire, open_folder};

fn field(status: &str, name: &str) -> String {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name}"))
        .trim()
        .to_owned()
}

/// Every thread of a process is in the sandbox.
fn is_confined(process: u32, capabilities: &str) {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let mut count = 0;
    for thread in threads {
        let status = thread.expect("a thread").path().join("status");
        let status = std::fs::read_to_string(status).expect("it runs");
        assert_eq!(field(&status, "NoNewPrivs"), "1");
        assert_eq!(field(&status, "Seccomp"), "2");
        assert_eq!(field(&status, "CapBnd").trim_start_matches('0'), "");
        let held = field(&status, "CapEff");
        assert_eq!(held.trim_start_matches('0'), capabilities, "{status}");
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn a_capture_runs_in_a_sandbox_and_says_so() {
    need_wire!();
    let wire = Wire::new("confined", 1);
    let options = ["-i", "t0", "--method", "af_packet"];
    let cores = [&options[..], &["--cores", "2"]].concat();
    for options in [&options[..], &cores] {
        let running = Running::start(&wire.tap, options);
        wire.send(&capture::read(&example()).expect("the example"));
        running.wait_until("a part is written", || {
            running.out.join("operations").exists()
        });
        is_confined(running.id(), "");
        running.signal("INT");
        let ended = running.end();
        assert!(ended.status.success(), "{}", ended.messages);
        let sandbox = manifest(&ended.out).sandbox.expect("it is told");
        assert_eq!(sandbox.holds, ["landlock", "seccomp"]);
        assert!(!records(&ended.out, Table::Operations).is_empty());
    }
}

#[test]
fn an_emulated_link_runs_in_a_sandbox_unless_asked_otherwise() {
    need_wire!();
    let hosts = Hosts::new();
    let words = ["--between", "m0,m1", "--wait", "sleep", "--delay", "1ms"];
    let capture = ["--tap", "--monitor", "gap,size", "--write-pcap"];
    let folder = open_folder();
    let pcap = folder.path().join("passed.pcapng");
    let pcap = pcap.to_str().expect("UTF-8");
    for method in ["af_packet", "af_xdp"] {
        let options = [
            &words[..],
            &["--method", method],
            &capture,
            &[pcap, "--force"],
        ]
        .concat();
        let running = emulate(&hosts.between, &options, "m1");
        is_confined(running.id(), "");
        assert!(!round_trips(&hosts).is_empty());
        let ended = running.interrupt();
        assert_eq!(
            ended.status.code(),
            Some(held_status(&ended.out)),
            "{}",
            ended.messages
        );
        let sandbox = manifest(&ended.out).sandbox.expect("it is told");
        assert_eq!(sandbox.holds, ["landlock", "seccomp"]);
        assert!(capture::read(Path::new(pcap)).expect("it is whole").len() >= 80);
    }
    let running = emulate(
        &hosts.between,
        &[&words[..], &["--no-sandbox"]].concat(),
        "m1",
    );
    let ended = running.interrupt();
    let sandbox = manifest(&ended.out).sandbox.expect("it is told");
    assert_eq!(sandbox.missing, ["--no-sandbox"]);
}

/// Of what is piped in, while it is read.
#[test]
fn files_are_read_in_a_sandbox_unless_asked_otherwise() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = capture::bytes(&example()).expect("the example");
    let run = |out: &Path, options: &[&str], look: &dyn Fn(u32)| {
        let mut command = lineside();
        command
            .args(["capture", "-", "-q", "-o"])
            .arg(out)
            .args(options);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("it runs");
        let mut pipe = child.stdin.take().expect("piped");
        pipe.write_all(&bytes).expect("it reads");
        wait_until("a part is written", || out.join("operations").exists());
        look(child.id());
        drop(pipe);
        assert!(child.wait().expect("it ends").success());
        manifest(out).sandbox.expect("it is told")
    };
    // CAP_DAC_READ_SEARCH is bit 2.
    let of_root = if lineside_host::user() == 0 { "4" } else { "" };
    let at = folder.path().join("inside");
    let inside = run(&at, &[], &|process| is_confined(process, of_root));
    assert_eq!(inside.holds, ["landlock", "seccomp"]);
    let outside = run(
        &folder.path().join("outside"),
        &["--no-sandbox"],
        &|process| {
            let status = std::fs::read_to_string(format!("/proc/{process}/status"));
            assert_eq!(field(&status.expect("it runs"), "Seccomp"), "0");
        },
    );
    assert_eq!(
        (outside.holds.len(), outside.missing),
        (0, vec!["--no-sandbox".to_owned()])
    );
    let tells = |verb: &str, of: &str, what: &str| {
        let output = lineside().arg(verb).arg(folder.path().join(of)).output();
        let text = String::from_utf8(output.expect("it runs").stdout).expect("UTF-8");
        { text.lines() }.any(|line| line.starts_with("sandbox ") && line.ends_with(what))
    };
    for verb in ["info", "report"] {
        assert!(tells(verb, "outside", " none: --no-sandbox"), "{verb}");
    }
    assert!(tells("info", "inside", " landlock, seccomp"));
    assert!(!tells("report", "inside", ""));
}

/// What a shell makes of `<(...)` is named; what is not named is closed.
#[test]
fn inherited_descriptors_are_closed_unless_they_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |input: &str, out: &str| {
        let mut shell = std::process::Command::new("bash");
        let script = "exec 7<\"$1\"; exec \"$0\" capture \"$2\" -q -o \"$3\"";
        shell.args(["-c", script]).arg(lineside().get_program());
        shell.arg(example()).arg(input).arg(folder.path().join(out));
        shell.output().expect("it runs")
    };
    let read = run("/dev/fd/7", "named");
    assert!(read.status.success(), "{}", talk(&read));
    let closed = run("/proc/self/fdinfo/7", "closed");
    assert!(talk(&closed).contains("No such file"), "{}", talk(&closed));
}
