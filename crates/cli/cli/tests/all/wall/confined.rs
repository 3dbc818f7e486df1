//! The sandbox of a capture, as others see it: `/proc`, `trace.json`, what may be named.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;

use lineside_rows::Table;
use lineside_testkit::capture;
use rustix::fs::inotify;

use crate::follow::signal;
use crate::support::{
    Guarded, example, held_status, lineside, manifest, records, talk, wait_until,
};
use crate::wall::between::{Hosts, emulate, round_trips};
use crate::wall::forward::{Farm, TCP};
use crate::wall::load_ends::number;
use crate::wall::wire::{Running, Wire, need_wire, private_folder};

fn field(status: &str, name: &str) -> String {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name}"))
        .trim()
        .to_owned()
}

/// Every thread of a process is in the sandbox.
pub(crate) fn is_confined(process: u32, capabilities: &str) {
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

/// Waits until a process that has begun is in its sandbox, with these capabilities.
pub(crate) fn becomes_confined(process: u32, capabilities: &str) {
    wait_until("it is in its sandbox", || {
        let status = std::fs::read_to_string(format!("/proc/{process}/status"));
        status.is_ok_and(|text| field(&text, "Seccomp") == "2")
    });
    is_confined(process, capabilities);
}

/// CAP_DAC_READ_SEARCH, which readers keep of root's: bit 2.
fn reading() -> &'static str {
    if lineside_host::user() == 0 { "4" } else { "" }
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
        let sandbox = manifest(&ended.out).sandbox.expect("it is reported");
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
    let folder = private_folder();
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
        let sandbox = manifest(&ended.out).sandbox.expect("it is reported");
        assert_eq!(sandbox.holds, ["landlock", "seccomp"]);
        assert!(capture::read(Path::new(pcap)).expect("it is whole").len() >= 80);
    }
    let running = emulate(
        &hosts.between,
        &[&words[..], &["--no-sandbox"]].concat(),
        "m1",
    );
    let ended = running.interrupt();
    let sandbox = manifest(&ended.out).sandbox.expect("it is reported");
    assert_eq!(sandbox.missing, ["--sandbox off"]);
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
        manifest(out).sandbox.expect("it is reported")
    };
    let of_root = reading();
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
        (0, vec!["--sandbox off".to_owned()])
    );
    let tells = |verb: &str, of: &str, what: &str| {
        let output = lineside().arg(verb).arg(folder.path().join(of)).output();
        let text = String::from_utf8(output.expect("it runs").stdout).expect("UTF-8");
        { text.lines() }.any(|line| line.starts_with("sandbox ") && line.ends_with(what))
    };
    for verb in ["info", "report"] {
        assert!(tells(verb, "outside", " none: --sandbox off"), "{verb}");
    }
    assert!(tells("info", "inside", " landlock, seccomp"));
    assert!(!tells("report", "inside", ""));
}

#[test]
fn programs_behind_a_link_are_outside_of_its_sandbox() {
    need_wire!();
    let folder = tempfile::tempdir().expect("a folder");
    let run = |out: &str, flags: &[&str], seccomp: &str| {
        let out = folder.path().join(out);
        // The parent is the run; it is in its sandbox when the first frame has passed the link.
        let client = "ping -c 1 -W 5 10.0.0.1 && grep -E 'Seccomp:|NoNewPrivs' /proc/self/status \
                      /proc/$PPID/status; sleep 60 & exit 0";
        let mut command = lineside();
        command.args(["emulate", "--delay", "1ms", "--server", "sleep 60"]);
        command
            .args(["--server-wait", "0", "-o"])
            .arg(&out)
            .args(flags);
        let output = command.args(["--", "sh", "-c", client]).output();
        let output = output.expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = || text.lines().filter(|line| line.contains("Seccomp:"));
        let states: Vec<_> = lines().filter_map(|line| line.split('\t').nth(1)).collect();
        assert_eq!(states, ["0", seccomp], "{text} {}", talk(&output));
        assert!(!talk(&output).contains("sandbox"), "{}", talk(&output));
        manifest(&out).sandbox.expect("it is reported")
    };
    let inside = run("inside", &[], "2");
    assert_eq!(inside.holds, ["landlock", "seccomp"]);
    assert!(inside.missing.is_empty(), "{inside:?}");
    assert_eq!(inside.allowed, ["questions about links"]);
    let outside = run("outside", &["--no-sandbox"], "0");
    assert_eq!(outside.missing, ["--sandbox off"]);
}

#[test]
fn a_capture_passes_a_link_in_a_sandbox_unless_asked_otherwise() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, flags, record) in [
        ("inside", &[][..], "landlock, seccomp"),
        ("outside", &["--no-sandbox"], "none: --sandbox off"),
    ] {
        let out = folder.path().join(name);
        let mut command = lineside();
        command.args(["emulate", "--delay", "1ms", "-q", "-o"]);
        let output = command.arg(&out).arg(example()).args(flags).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{}", talk(&output));
        assert_eq!(
            manifest(&out).sandbox.expect("it is reported").text(),
            record
        );
    }
}

/// By the kernel's sockets: the server is there before, and its port is the only one.
#[test]
fn a_load_and_its_server_run_in_sandboxes() {
    let folder = tempfile::tempdir().expect("a folder");
    for (scheme, service) in [("http", "http"), ("udp", "udp"), ("nfs", "nfs")] {
        let mut command = lineside();
        command.args(["load", "serve", service, "127.0.0.1:0", "--workers", "2"]);
        let server = command.stderr(Stdio::piped()).spawn().expect("it runs");
        let mut server = Guarded(server);
        let mut words = BufReader::new(server.stderr.take().expect("piped"));
        let mut line = String::new();
        words.read_line(&mut line).expect("it says where");
        let port = line.split(':').next_back().expect("a port");
        let port: String = port.chars().take_while(char::is_ascii_digit).collect();
        is_confined(server.id(), "");
        let out = folder.path().join(service);
        let path = if scheme == "nfs" { "/export" } else { "" };
        let url = format!("{scheme}://127.0.0.1:{port}{path}");
        let url = match scheme {
            "nfs" => format!("{url}?mountport={port}"),
            _ => url,
        };
        let mut command = lineside();
        command.args(["load", &url, "-d", "1s", "-R", "500", "-c", "4", "-q", "-o"]);
        let mut load = command.arg(&out).spawn().expect("it runs");
        becomes_confined(load.id(), "");
        let ended = load.wait().expect("it ends");
        assert!(matches!(ended.code(), Some(0 | 4)), "{service}: {ended}");
        let manifest = manifest(&out);
        assert_eq!(
            manifest.sandbox.expect("it is reported").holds,
            ["landlock", "seccomp"]
        );
        let done = manifest.certificate.expect("a certificate").to_string();
        assert!(!done.contains("Operation not permitted"), "{done}");
        assert!(!records(&out, Table::Operations).is_empty(), "{service}");
        signal(&server, "-INT");
        assert!(server.wait().expect("it ends").success());
    }
}

/// By each way that frames take, also past the loop.
#[test]
fn a_forwarder_runs_in_a_sandbox() {
    need_wire!();
    let farm = Farm::for_the_driver();
    let _nodes = farm.nodes();
    for mode in ["loop", "auto"] {
        let running = farm.forward(&["--service", TCP, "--mode", mode]);
        is_confined(running.id(), "");
        let certificate = farm.load(&["http://10.9.1.100/", "-c", "4", "-n", "200"]);
        assert_eq!(number(&certificate, "/requests/statuses/200"), 200);
        running.signal("INT");
        let ended = running.end();
        assert!(ended.status.success(), "{}", ended.messages);
        let sandbox = manifest(&ended.out).sandbox.expect("it is reported");
        assert_eq!(sandbox.holds, ["landlock", "seccomp"]);
    }
}

#[test]
fn a_probe_and_its_server_run_in_sandboxes() {
    let mut command = lineside();
    command.args(["probe", "--serve", "127.0.0.1", "--port", "0"]);
    let server = command.stderr(Stdio::piped()).spawn().expect("it runs");
    let mut server = Guarded(server);
    let mut words = BufReader::new(server.stderr.take().expect("piped"));
    let mut line = String::new();
    words.read_line(&mut line).expect("it says where");
    let port = line.split("127.0.0.1:").nth(1).expect("a port");
    let port: String = port.chars().take_while(char::is_ascii_digit).collect();
    is_confined(server.id(), "");
    let of_root = reading();
    for way in [&["--udp"][..], &["--icmp"], &["--tcp", "9"]] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = lineside();
        command.args([
            "probe",
            "127.0.0.1",
            "-c",
            "100",
            "-i",
            "20ms",
            "--port",
            &port,
        ]);
        command.args(way).args(["--force", "-o"]).arg(folder.path());
        let mut probe = command.stdout(Stdio::null()).spawn().expect("it runs");
        becomes_confined(probe.id(), of_root);
        assert!(probe.wait().expect("it ends").success(), "{way:?}");
        assert!(folder.path().join("report.json").exists());
    }
    signal(&server, "-INT");
    assert!(server.wait().expect("it ends").success());
}

/// Links of a foreign trace may lead anywhere: one leads to a part beside the trace, which is read
/// without a sandbox alone.
#[test]
fn traces_are_read_in_a_sandbox_unless_asked_otherwise() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let out = at("out");
    std::fs::create_dir(&out).expect("a folder");
    let captured = lineside()
        .args(["capture", "-q", "-o"])
        .args([&at("trace"), &example()])
        .status();
    assert!(captured.expect("it runs").success());
    let table = at("trace").join("operations");
    let part = std::fs::read_dir(&table).expect("a table").next();
    let part = part.expect("a part").expect("a part").path();
    std::fs::rename(&part, at("part")).expect("moved");
    std::os::unix::fs::symlink(at("part"), &part).expect("a link");
    let path = |name: &str| at(name).into_os_string().into_string().expect("UTF-8");
    let (trace, tar) = (path("trace"), path("out/bundle.tar"));
    let (page, id) = (path("out/page.html"), "1");
    for words in [
        vec!["report", &trace],
        vec!["report", &trace, "--html", &page],
        vec!["slow", &trace, "0ms"],
        vec!["compare", &trace, &trace],
        vec!["info", &trace],
        vec!["table", "from-trace", &trace],
        vec!["bundle", &trace, "--with-tables", "-o", &tar],
        vec!["packets", &trace, "--operation", id, "-w", "-"],
    ] {
        let run = |flags: &[&str]| {
            let output = lineside().args(&words).args(flags).output();
            let output = output.expect("it runs");
            talk(&output) + &String::from_utf8_lossy(&output.stdout)
        };
        let is_refused = |text: &str| text.contains("Permission denied");
        let inside = run(&[]);
        assert!(is_refused(&inside), "{words:?}: {inside}");
        assert!(!inside.contains("the sandbox is not whole"), "{inside}");
        let force: &[&str] = if words.contains(&"--html") {
            &["--force"]
        } else {
            &[]
        };
        let outside = run(&[&["--no-sandbox"], force].concat());
        assert!(!is_refused(&outside), "{words:?}: {outside}");
    }
    let read = |file: &str| std::fs::read(at(file)).expect("it was written").len();
    assert!(read("out/bundle.tar") > 1_000 && read("out/page.html") > 1_000);
}

/// While it waits for what is piped in.
#[test]
fn readers_of_captures_hold_no_privilege() {
    let of_root = reading();
    for words in [&["info", "-"][..], &["table", "from-capture", "-"]] {
        let mut command = lineside();
        command.args(words).stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("it runs");
        becomes_confined(child.id(), of_root);
        drop(child.stdin.take());
        child.wait().expect("it ends");
    }
}

/// While they wait for answers.
#[test]
fn networks_are_measured_for_tables_in_a_sandbox() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address").to_string();
    for way in [["from-tcp", &at], ["from-ping", "127.0.0.1"]] {
        let mut command = lineside();
        command.arg("table").args(way);
        command.args(["-c", "50", "-i", "20ms", "--json"]);
        let child = command.stdout(Stdio::piped()).spawn().expect("it runs");
        becomes_confined(child.id(), reading());
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{way:?}: {}", talk(&output));
        assert!(output.stdout.starts_with(b"{"), "{way:?}");
    }
}

/// The run is this test, which answers when it has seen who asks.
#[test]
fn a_run_is_asked_from_a_sandbox() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("UTF-8");
    let control = UnixListener::bind(folder.path().join("control")).expect("it listens");
    let flow = ["--flow", "10.9.1.7:40000-10.9.1.100:80"];
    for words in [
        vec!["ctl", path, "mark", "here"],
        vec!["ctl", path, "stats", "--every", "10ms"],
        [&["explain", path], &flow[..]].concat(),
    ] {
        let ask = |flags: &[&str], look: &dyn Fn(u32)| {
            let mut command = lineside();
            command.args(&words).args(flags).stderr(Stdio::piped());
            let child = command.spawn().expect("it runs");
            let (mut stream, _) = control.accept().expect("it asks");
            let mut asked = String::new();
            stream.read_to_string(&mut asked).expect("a request");
            assert!(asked.starts_with("{"), "{asked}");
            look(child.id());
            let answer = r#"{"version":1,"refused":"not today"}"#;
            stream.write_all(answer.as_bytes()).expect("it waits");
            drop(stream);
            let output = child.wait_with_output().expect("it ends");
            let message = talk(&output);
            assert!(message.contains("not today"), "{words:?}: {message}");
            assert!(!message.contains("sandbox"), "{words:?}: {message}");
        };
        ask(&[], &|process| is_confined(process, reading()));
        ask(&["--no-sandbox"], &|process| {
            let status = std::fs::read_to_string(format!("/proc/{process}/status"));
            assert_eq!(field(&status.expect("it runs"), "Seccomp"), "0");
        });
    }
}

/// Without `-r` the captures are those that `trace.json` names: also that is read inside, and never
/// opened where a link leads elsewhere.
#[test]
fn names_of_captures_are_read_in_a_sandbox() {
    let folder = tempfile::tempdir().expect("a folder");
    let (trace, json) = (folder.path().join("trace"), folder.path().join("json"));
    let mut command = lineside();
    command.args(["capture", "-q", "-o"]).arg(&trace);
    assert!(command.arg(example()).status().expect("it runs").success());
    let operations = records(&trace, Table::Operations);
    let id = operations[0].integer("operation_id").expect("a number");
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK).expect("a watch");
    let is_opened = |flags: &[&str]| {
        let mut command = lineside();
        command.arg("packets").arg(&trace).args(flags);
        command.args(["--operation", &id.to_string(), "-w", "-"]);
        let output = command.output();
        let output = output.expect("it runs");
        let mut room = [0; 1024];
        // What happened, or that nothing did.
        (output, rustix::io::read(&watch, &mut room[..]).is_ok())
    };
    // In its place it names the captures.
    for flags in [&[][..], &["--no-sandbox"]] {
        let (output, _) = is_opened(flags);
        assert!(output.status.success(), "{flags:?}: {}", talk(&output));
        assert!(output.stdout.len() > 100);
    }
    std::fs::rename(trace.join("trace.json"), &json).expect("moved");
    std::os::unix::fs::symlink(&json, trace.join("trace.json")).expect("a link");
    inotify::add_watch(&watch, &json, inotify::WatchFlags::OPEN).expect("watched");
    let (output, is_read) = is_opened(&[]);
    assert!(!is_read && !output.status.success(), "{}", talk(&output));
    let (output, is_read) = is_opened(&["--no-sandbox"]);
    assert!(is_read && output.status.success(), "{}", talk(&output));
}

/// A pipe has no place in the file system: there is no rule for it, and it is read.
#[test]
fn a_pipe_named_by_a_shell_is_read_in_a_sandbox() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut shell = std::process::Command::new("bash");
    let script = "\"$0\" capture <(cat \"$1\") -q -o \"$2\"";
    shell.args(["-c", script]).arg(lineside().get_program());
    shell.arg(example()).arg(folder.path().join("trace"));
    let output = shell.output().expect("it runs");
    assert!(output.status.success(), "{}", talk(&output));
    let sandbox = manifest(&folder.path().join("trace")).sandbox;
    assert_eq!(
        sandbox.expect("it is reported").holds,
        ["landlock", "seccomp"]
    );
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
