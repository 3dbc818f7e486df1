//! `lineside emulate [--server CMD] -- CMD`: real programs behind an emulated link, as an ordinary
//! user.

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use lineside_trace::State;
use tempfile::TempDir;

use crate::support::{came_to_its_end, held_status, lineside, manifest, talk, wait_until};
use crate::wall::undisturbed::undisturbed;
use crate::wall::wire::{Namespace, need_wire};

/// Answers datagrams, and sends a million bytes to each connection; as soon as the other end says
/// that it has them, how often its kernel sent something again.
const SERVER: &str = r#"
import os, select, socket
address = os.environ["LINESIDE_SERVER"]
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind((address, 7))
listener = socket.create_server((address, 80))
while True:
    ready, _, _ = select.select([datagrams, listener], [], [])
    if datagrams in ready:
        data, client = datagrams.recvfrom(100)
        datagrams.sendto(data, client)
    if listener in ready:
        stream, _ = listener.accept()
        stream.sendall(bytes(range(250)) * 4000)
        stream.recv(1)
        names, values = [line.split() for line in open("/proc/thread-self/net/snmp") if line.startswith("Tcp:")]
        stream.sendall(b"again " + values[names.index("RetransSegs")].encode())
        stream.close()
"#;

/// Prints the least round-trip time of ten datagrams in microseconds, and the server's reply.
const CLIENT: &str = r#"
import os, socket, sys, time
address = os.environ["LINESIDE_SERVER"]
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asking.settimeout(1)
least = 1e9
for number in range(10):
    began = time.monotonic()
    asking.sendto(b"x", (address, 7))
    try:
        asking.recv(100)
        least = min(least, time.monotonic() - began)
    except TimeoutError:
        pass
data = b""
with socket.create_connection((address, 80)) as stream:
    while part := stream.recv(65536):
        data += part
        if len(data) == 1000000:
            stream.sendall(b"!")
assert data[:1000000] == bytes(range(250)) * 4000
print("user", os.getuid(), "least", int(least * 1e6), data[1000000:].decode())
sys.exit(7)
"#;

/// The command as an unprivileged user runs it, and a folder that such a user may use.
pub(crate) struct Ordinary {
    folder: TempDir,
    program: PathBuf,
}

impl Ordinary {
    pub(crate) fn new() -> Self {
        // Its runs make namespaces.
        lineside_testkit::waiting::take_place();
        let folder = tempfile::tempdir().expect("a folder");
        let open = || PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(folder.path(), open()).expect("ours");
        let program = folder.path().join("lineside");
        // Another process writes it: a process forked by a concurrent test, while the file is
        // open here, would keep it busy.
        let copied = Command::new("cp")
            .arg(lineside().get_program())
            .arg(&program)
            .status();
        assert!(copied.expect("cp runs").success());
        for (name, text) in [("server.py", SERVER), ("client.py", CLIENT)] {
            std::fs::write(folder.path().join(name), text).expect("written");
        }
        Self { folder, program }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self) -> Command {
        self.command_by(&[])
    }

    /// The same, started by these words.
    fn command_by(&self, starter: &[&str]) -> Command {
        let mut command = self.verb_by(starter);
        command.arg("emulate");
        command
    }

    /// The command, without a verb.
    pub(crate) fn verb_by(&self, starter: &[&str]) -> Command {
        const ORDINARY: [&str; 6] = [
            "setpriv",
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
        ];
        let is_root = rustix::process::geteuid().is_root();
        let ordinary = if is_root { &ORDINARY[..] } else { &[] };
        let program = self.program.to_str().expect("a name in UTF-8");
        let words = [ordinary, starter, &[program]].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(self.path());
        command
    }

    /// The same where all users may make TAP devices, as distributions have it.
    fn command_with_tap(&self) -> Command {
        self.with_tap(self.command())
    }

    /// A command where all users may make TAP devices.
    pub(crate) fn with_tap(&self, command: Command) -> Command {
        if !rustix::process::geteuid().is_root() {
            return command;
        }
        let script = "rm -f tun && mknod tun c 10 200 && chmod 666 tun && mkdir -p /dev/net &&
            : >> /dev/net/tun && mount --bind tun /dev/net/tun && exec \"$@\"";
        let mut inside = Command::new("unshare");
        inside.args(["-m", "sh", "-c", script, "sh"]);
        inside.arg(command.get_program()).args(command.get_args());
        inside.current_dir(self.path());
        inside
    }

    pub(crate) fn run_with_tap(&self, arguments: &[&str]) -> Output {
        let mut command = self.command_with_tap();
        command.args(arguments).output().expect("it runs")
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).output().expect("it runs")
    }
}

/// Whether this machine forbids the feature under test; prints so if it does.
pub(crate) fn is_forbidden(output: &Output) -> bool {
    let text = talk(output);
    let is_forbidden = ["user namespace", "network namespace"]
        .iter()
        .any(|what| text.contains(&format!("lineside: cannot make a {what}")));
    if is_forbidden {
        println!("SKIP: no namespaces: {text}");
    }
    is_forbidden
}

#[test]
fn an_ordinary_user_has_real_programs_behind_a_link() {
    let ordinary = Ordinary::new();
    // A background process that no process waits for.
    let forgotten = format!("sleep {}", 100_000 + std::process::id());
    let server = format!("setsid {forgotten} & exec python3 server.py");
    let words = [
        "--delay",
        "15ms",
        "--loss",
        "in: 2%",
        "--seed",
        "4",
        "-o",
        "run",
        "--server",
        &server,
        "--",
        "python3",
        "client.py",
    ];
    let output = ordinary.run(&words);
    if is_forbidden(&output) {
        return;
    }
    let wanted: Vec<_> = forgotten.split(' ').collect();
    let is_forgotten = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.expect("an entry").path().join("cmdline");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split_terminator('\0').eq(wanted.iter().copied())
    };
    let processes = std::fs::read_dir("/proc").expect("processes");
    assert_eq!(processes.map(is_forgotten).filter(|&is| is).count(), 0);
    // The client's status and output are the run's.
    assert_eq!(output.status.code(), Some(7), "{}", talk(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words: Vec<_> = text.split_whitespace().collect();
    let number = |at: usize| words[at].parse::<u64>().expect("a number");
    assert_eq!(
        (words[0], words[2], words[4]),
        ("user", "least", "again"),
        "{text}"
    );
    assert_ne!(number(1), 0, "it stays an ordinary user");
    assert!((30_000..90_000).contains(&number(3)), "{text}");
    assert!(number(5) > 0, "what is lost is sent again: {text}");

    let run = manifest(&ordinary.path().join("run"));
    let certificate = run.certificate.expect("it is there");
    let inbound = &certificate["directions"]["inbound"];
    let count = |name: &str| inbound["counters"][name].as_u64().expect("a number");
    let lost = inbound["counters"]["dropped"]["loss"]
        .as_u64()
        .expect("a number");
    assert!(lost > 0 && count("entered") > 690, "{inbound:#}");
    assert_eq!(
        count("entered"),
        count("released") + lost + inbound["held"].as_u64().expect("a number")
    );
    assert_eq!(
        certificate["directions"]["outbound"]["counters"]["dropped"]["loss"],
        0
    );
    let ends: Vec<_> = run.inputs.iter().map(|input| input.name.as_str()).collect();
    assert_eq!(ends, ["client", "server"]);

    // The same run again, except for settings in flags.
    let again = [
        "--config",
        "run/trace.json",
        "-o",
        "again",
        "--loss",
        "0%",
        "--",
        "true",
    ];
    let output = ordinary.run(&again);
    assert!(came_to_its_end(&output), "{}", talk(&output));
    let again = manifest(&ordinary.path().join("again"))
        .certificate
        .expect("it is there");
    let settings = &again["directions"]["inbound"]["settings"];
    assert_eq!(settings["delay"], "15ms order fifo");
    assert_eq!(settings["loss"], "random 0%");
    assert_eq!(again["seed"], 4);
}

#[test]
fn frames_under_way_at_the_end_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    let mut command = lineside();
    command.args(["emulate", "--delay", "1h", "--server", "exec sleep 1h"]);
    command
        .args(["--server-wait", "0", "--certificate", "-o"])
        .arg(&run);
    command.args(["--", "bash", "-c", "echo x >/dev/udp/$LINESIDE_SERVER/7"]);
    let output = command.output().expect("it runs");
    if is_forbidden(&output) {
        return;
    }
    let printed = talk(&output);
    assert!(
        printed.contains(" were still under way at the end\n"),
        "{printed}"
    );
    let output = lineside().arg("report").arg(&run).output();
    let printed = String::from_utf8(output.expect("it runs").stdout).expect("text");
    let is_found = |line: &str| line.contains("under way") && line.contains("at the end");
    assert!(printed.lines().any(is_found), "{printed}");
}

#[test]
fn silent_clients_and_signals_cut_nothing_short() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, ids) = (folder.path().join("run"), folder.path().join("ids"));
    // Each leaves a process behind that heeds neither TERM nor HUP.
    let left = format!(
        "setsid sh -c 'trap \"\" TERM HUP; echo $$ >> {}; while :; do sleep 1; done' &",
        ids.display()
    );
    let mut command = lineside();
    command.args([
        "emulate",
        "--delay",
        "1ms",
        "--server-wait",
        "0",
        "--wait",
        "sleep",
        "-o",
    ]);
    command
        .arg(&run)
        .args(["--server", &format!("{left} sleep 1h")]);
    command.args([
        "--",
        "sh",
        "-c",
        &format!("trap '' TERM; {left} sleep 1h; sleep 1h"),
    ]);
    command.stderr(std::process::Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let started = || std::fs::read_to_string(&ids).unwrap_or_default();
    let mut has_ended = false;
    wait_until("both run", || {
        has_ended = child.try_wait().is_ok_and(|status| status.is_some());
        has_ended || started().lines().count() == 2 && run.join("control").exists()
    });
    if has_ended {
        assert!(is_forbidden(
            &child.wait_with_output().expect("it has ended")
        ));
        return;
    }
    let connect = |_| UnixStream::connect(run.join("control")).expect("it listens");
    let silent: [UnixStream; 3] = [0, 1, 2].map(connect);
    let ctl = |words: &[&str]| lineside().arg("ctl").arg(&run).args(words).output();
    for words in [&["--delay", "2ms"][..], &[]] {
        let output = ctl(words).expect("it runs");
        assert!(output.status.success(), "{}", talk(&output));
    }
    // The client heeds no TERM either: a later signal ends it, and nothing stays.
    let id = child.id().to_string();
    wait_until("it ends", || {
        let killed = Command::new("kill").args(["-TERM", &id]).output();
        assert!(killed.is_ok());
        child.try_wait().is_ok_and(|status| status.is_some())
    });
    let output = child.wait_with_output().expect("it has ended");
    assert_eq!(output.status.code(), Some(143), "{}", talk(&output));
    for id in started().lines() {
        assert!(
            !Path::new("/proc").join(id).exists(),
            "process {id} is left"
        );
    }
    assert!(manifest(&run).ended_ns.is_some(), "its account is complete");
    assert!(talk(&ctl(&[]).expect("it runs")).contains("the run has ended"));
    drop(silent);
}

/// A command's link stands still.
const STALL: &str = "kill -STOP $PPID; sleep 0.4; kill -CONT $PPID";

/// A command that stalls its link while frames are in it: from the first answer on some always are.
fn stalled(address: &str) -> String {
    format!(
        "log=$(mktemp) || exit 9; ping -n -i 0.02 -W 9 {address} >$log & \
        until grep -q from $log; do sleep 0.02; done; {STALL}; sleep 0.2; kill $!; rm $log"
    )
}

#[test]
fn late_frames_disturb_a_run_and_a_stall_alone_does_not() {
    // No frame but those of ping: without IPv6 the kernels send none of their own.
    let quiet = "sysctl -qw net.ipv6.conf.lineside.disable_ipv6=1 || exit 9";
    let ping = "ping -q -n -c 1 -W 9 $LINESIDE_SERVER >/dev/null || exit 8";
    for (is_late, client) in [
        (false, format!("{quiet}; {ping}; {STALL}; {ping}")),
        (true, format!("{quiet}; {}", stalled("$LINESIDE_SERVER"))),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let run = folder.path().join("run");
        let mut command = lineside();
        command
            .args(["emulate", "--delay", "200ms", "--server-wait", "0", "-o"])
            .arg(&run);
        command.args([
            "--server",
            &format!("{quiet}; exec sleep 1h"),
            "--",
            "sh",
            "-c",
            &client,
        ]);
        let output = command.output().expect("it runs");
        if is_forbidden(&output) {
            return;
        }
        let status = output.status.code();
        assert_eq!(status, Some(held_status(&run)), "{}", talk(&output));
        let manifest = manifest(&run);
        let directions = &manifest.certificate.expect("it is there")["directions"];
        let most = ["outbound", "inbound"].map(|name| directions[name]["lateness_max_ns"].as_i64());
        let most = most.into_iter().flatten().max().unwrap_or_default();
        // The machine may stall by itself, though not as long.
        assert_eq!(
            most > 100_000_000,
            is_late,
            "{most} ns late: {}",
            talk(&output)
        );
        if is_late {
            let reasons = manifest.verdict.reasons.join("; ");
            assert!(
                reasons.contains(" frames left more than 1 ms late, by up to "),
                "{reasons}"
            );
        }
    }
}

#[test]
fn a_command_alone_that_succeeds_is_late_only_if_strict() {
    let client = stalled("127.0.0.1");
    for (flags, expected) in [(&[][..], 0), (&["--strict"][..], 4)] {
        let folder = tempfile::tempdir().expect("a folder");
        let run = folder.path().join("run");
        let mut command = lineside();
        command.args(["emulate", "--loopback", "--delay", "200ms", "-o"]);
        command
            .arg(&run)
            .args(flags)
            .args(["--", "sh", "-c", &client]);
        let output = command.output().expect("it runs");
        if is_forbidden(&output) {
            return;
        }
        assert_eq!(output.status.code(), Some(expected), "{}", talk(&output));
        assert_eq!(
            manifest(&run).verdict.state,
            State::Disturbed,
            "{}",
            talk(&output)
        );
        assert!(talk(&output).contains("; disturbed: "), "{}", talk(&output));
    }
}

#[test]
fn two_commands_that_cannot_run_are_refused() {
    let ordinary = Ordinary::new();
    for (words, code, expected) in [
        (&["--server", "x"][..], 2, "the command is missing"),
        (
            &["--rate", "10Mbps", "--", "true"],
            2,
            "write 10mbit or 10MB/s",
        ),
        (&["--rate", "10", "--", "true"], 2, "'10' has no unit"),
        (
            &["--server", "x", "in.pcap", "--", "true"],
            2,
            "FILE is for 'emulate FILE', and this is 'emulate -- CMD'",
        ),
        (
            &["--server", "x", "--between", "a,b", "--", "true"],
            2,
            "--between is for 'emulate --between IF1,IF2', and this is 'emulate -- CMD'",
        ),
        (
            &["--server", "x", "--server-wait", "1 parsec", "--", "true"],
            2,
            "server-wait: ",
        ),
        (
            &["--server", "exit 3", "--", "true"],
            1,
            "the server ended before the client began: exit status: 3",
        ),
        (
            &[
                "--server",
                "sleep 60",
                "--server-wait",
                "0",
                "--",
                "./nowhere",
            ],
            127,
            "cannot start the client './nowhere'",
        ),
        (
            &["--server", "sleep 60", "--server-wait", "0", "--", "/tmp"],
            126,
            "cannot start the client '/tmp'",
        ),
    ] {
        let output = ordinary.run(&[&["-o", "run"], words].concat());
        if is_forbidden(&output) {
            return;
        }
        assert_eq!(
            output.status.code(),
            Some(code),
            "{words:?}: {}",
            talk(&output)
        );
        assert!(
            talk(&output).contains(expected),
            "{words:?}: {}",
            talk(&output)
        );
        let run = ordinary.path().join("run");
        assert!(
            !run.exists(),
            "{words:?}: it would be in the next try's way"
        );
    }
}

#[test]
fn the_setting_that_forbids_namespaces_is_named() {
    let ordinary = Ordinary::new();
    // A user namespace has such a setting of its own, for those below it.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces || exit 99
        exec setpriv --bounding-set -all --inh-caps -all ./lineside emulate --server true -- true";
    let mut command = Command::new("unshare");
    command
        .args(["-Ur", "sh", "-c", script])
        .current_dir(ordinary.path());
    let output = command.output().expect("it runs");
    let text = talk(&output);
    if output.status.code() == Some(99) || text.contains("unshare:") {
        println!("SKIP: no user namespace to forbid one in: {text}");
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains(
            "cannot make a user namespace: user.max_user_namespaces is 0: 'sudo sysctl \
        user.max_user_namespaces="
        ),
        "{text}"
    );
}

#[test]
fn each_flag_is_a_key_and_unknown_keys_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("link.toml");
    let run = |text: &str, flags: &[&str]| {
        std::fs::write(&config, text).expect("written");
        let mut command = lineside();
        command
            .arg("emulate")
            .arg("--config")
            .arg(&config)
            .args(flags);
        command.arg("--json").arg(crate::support::example());
        command.output().expect("it runs")
    };
    let text =
        "[emulate]\ndelay = [\"1ms\", \"in: 2ms\"]\nloss = \"1%\"\nseed = 9\nfilter = \"tcp\"\n";
    let output = run(text, &["--delay", "3ms"]);
    assert!(output.status.success(), "{}", talk(&output));
    let certificate: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let words = |direction: &str, name: &str| {
        certificate["directions"][direction]["settings"][name].clone()
    };
    // A flag replaces its key, all of it.
    assert_eq!(words("outbound", "delay"), "3ms order fifo");
    assert_eq!(words("inbound", "delay"), "3ms order fifo");
    assert_eq!(words("inbound", "loss"), "random 1%");
    assert_eq!(certificate["seed"], 9);
    for (text, expected) in [
        (
            "[emulate]\ndely = \"1ms\"\n",
            "unknown key emulate.dely; the nearest known one is delay",
        ),
        (
            "[emulat]\n",
            "unknown key emulat; the nearest known one is emulate",
        ),
        ("[emulate]\nseed = \"x\"\n", "write seed = 1"),
        ("[emulate]\ndelay = 5\n", "write delay = \"10ms\""),
        ("[emulate]\nmemory = \"12 apples\"\n", "memory: "),
    ] {
        let output = run(text, &[]);
        assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
        assert!(
            talk(&output).contains(expected),
            "{text}: {}",
            talk(&output)
        );
    }
}

/// A suite that serves on the loopback addresses, as test suites do: a round trip by TCP and UDP,
/// a port where nothing listens, and a megabyte. Prints the least round trip in microseconds.
const SUITE: &str = r#"
import socket, threading, time
least = 1e9
def timed(what):
    global least
    began = time.monotonic()
    result = what()
    least = min(least, time.monotonic() - began)
    return result
def serve(listener):
    while True:
        stream, _ = listener.accept()
        stream.sendall(bytes(1000000))
        stream.close()
for address in ["127.0.0.1", "127.9.8.7", "::1"]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, 0), family=family)
    threading.Thread(target=serve, args=[listener], daemon=True).start()
    client = timed(lambda: socket.create_connection(listener.getsockname()[:2], timeout=20))
    data = b""
    while part := client.recv(65536):
        data += part
    assert len(data) == 1000000
    one, other = [socket.socket(family, socket.SOCK_DGRAM) for _ in range(2)]
    one.bind((address, 0))
    for each in [one, other]:
        each.settimeout(20)
    def ask():
        other.sendto(b"x", one.getsockname())
        _, asking = one.recvfrom(9)
        one.sendto(b"y", asking)
        return other.recvfrom(9)
    assert timed(ask)[0] == b"y"
    listener.close()
    closed = socket.create_server((address, 0), family=family)
    free = closed.getsockname()[:2]
    closed.close()
    try:
        socket.create_connection(free, timeout=20)
        assert False, "nothing listens"
    except ConnectionRefusedError:
        pass
print(int(least * 1e6))
"#;

#[test]
fn a_suite_on_loopback_passes_the_link() {
    let ordinary = Ordinary::new();
    std::fs::write(ordinary.path().join("suite.py"), SUITE).expect("written");
    // By veth pairs where TAP devices are closed to this user, and by TAP devices.
    undisturbed("by veth pairs", || {
        passes_the_link(&ordinary, ordinary.command())
    });
    undisturbed("by TAP devices", || {
        passes_the_link(&ordinary, ordinary.command_with_tap())
    });
}

/// Fails if the suite or the account of it is wrong; an error if its least round trip is.
fn passes_the_link(ordinary: &Ordinary, mut command: Command) -> Result<(), String> {
    let words = ["--delay", "out: 20ms", "--loopback", "-o", "run", "--force"];
    command.args(words).args(["--", "python3", "suite.py"]);
    let output = command.output().expect("it runs");
    if is_forbidden(&output) || talk(&output).contains("mount:") {
        println!("SKIP: {}", talk(&output));
        return Ok(());
    }
    assert!(came_to_its_end(&output), "{}", talk(&output));
    let least = String::from_utf8_lossy(&output.stdout);
    let least: u64 = least.trim().parse().expect("a number");
    if !(20_000..900_000).contains(&least) {
        return Err(format!("{least} us"));
    }
    // A line, in units that people read.
    let text = talk(&output);
    let line = text
        .lines()
        .find(|line| line.starts_with("lineside: link: "));
    let line = line.expect("the line");
    assert!(
        line.contains("outbound ") && line.contains(" ms under way"),
        "{line}"
    );
    assert!(!text.contains("Kolmogorov"), "{text}");
    let run = manifest(&ordinary.path().join("run"));
    let directions = &run.certificate.expect("it is there")["directions"];
    let entered = |name: &str| {
        let bytes = &directions[name]["counters"]["entered_bytes"];
        bytes.as_u64().expect("a number")
    };
    // What the servers sent answers: it came inbound, whole and no longer than the MTU.
    assert!(entered("inbound") > 3_000_000, "{directions:#}");
    assert!(entered("outbound") < 1_000_000, "{directions:#}");
    let inputs: Vec<_> = { run.inputs.iter() }.map(|input| &*input.name).collect();
    assert_eq!(inputs, ["client", "loopback", "server"]);
    Ok(())
}

#[test]
fn a_run_of_which_nothing_passed_the_link_says_so() {
    let ordinary = Ordinary::new();
    std::fs::write(ordinary.path().join("suite.py"), SUITE).expect("written");
    let server = ["--server", "sleep 60", "--server-wait", "0"];
    for (flags, client, expected) in [
        (&["--loopback"][..], &["true"][..], "sent nothing by IP"),
        (&server, &["true"], "sent nothing outside"),
        (
            &server,
            &["python3", "suite.py"],
            "to itself, at 127.0.0.1 or ::1: --loopback has these pass the link too",
        ),
    ] {
        let output = ordinary.run(&[&["--delay", "1ms"], flags, &["--"], client].concat());
        if is_forbidden(&output) {
            return;
        }
        let text = talk(&output);
        assert!(output.status.success(), "{text}");
        let warning = "warning: no frame passed the link: the command ";
        assert!(text.contains(warning) && text.contains(expected), "{text}");
    }
}

/// Connects to its host, and to a host beyond if one is given; prints how long each took in
/// microseconds, and the reply.
const REACHES: &str = r#"
import os, socket, sys, time
for address in [os.environ["LINESIDE_OUTSIDE"], *sys.argv[2:]]:
    began = time.monotonic()
    with socket.create_connection((address, int(sys.argv[1])), timeout=5) as stream:
        took = time.monotonic() - began
        print(int(took * 1e6), stream.recv(100).decode())
"#;

/// Greets each connection and reports its address, until it is dropped.
fn greeter(listener: TcpListener) -> u16 {
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let from = stream.peer_addr().expect("connected").ip();
            let _ = { &stream }.write_all(format!("hello {from}").as_bytes());
        }
    });
    port
}

/// Checks the output of [`REACHES`]: all round trips include the link's delay.
fn greetings(output: &Output) -> Vec<String> {
    assert!(came_to_its_end(output), "{}", talk(output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let greeting = |line: &str| {
        let (took, answer) = line.split_once(' ').expect("two words");
        let took: u64 = took.parse().expect("a number");
        assert!((20_000..900_000).contains(&took), "{text}");
        answer.to_owned()
    };
    text.lines().map(greeting).collect()
}

/// Talks to itself at 127.0.0.1, and prints how long a handshake took, in milliseconds.
const ITSELF: &str = r#"
import socket, time
own = socket.create_server(("127.0.0.1", 0))
began = time.monotonic()
asking = socket.create_connection(own.getsockname())
print(int((time.monotonic() - began) * 1e3))
"#;

#[test]
fn without_pasta_the_link_is_in_the_loopback() {
    let ordinary = Ordinary::new();
    std::fs::write(ordinary.path().join("itself.py"), ITSELF).expect("written");
    let client = "PATH=/usr/local/bin:/usr/bin:/bin exec python3 itself.py";
    let mut command = ordinary.command_by(&["env", "PATH=/nowhere"]);
    let command = command.args(["--delay", "20ms", "--", "/bin/sh", "-c", client]);
    let output = command.output().expect("it runs");
    if is_forbidden(&output) {
        return;
    }
    let message = talk(&output);
    assert_eq!(message.matches("needs 'pasta'").count(), 1, "{message}");
    assert!(message.contains("as with --loopback"), "{message}");
    let took = String::from_utf8_lossy(&output.stdout);
    let took: u64 = took.trim().parse().expect("milliseconds");
    assert!(took >= 40, "a handshake passes the link twice: {took} ms");
}

#[test]
fn who_asks_for_the_loopback_is_not_warned_about_forwarding() {
    need_wire!();
    let host = Namespace::new("forwards");
    let warns = |flags: &[&str]| {
        let mut command = host.command(lineside().get_program());
        command.args(["emulate", "--delay", "1ms"]).args(flags);
        let output = command.args(["--", "true"]).output().expect("it runs");
        talk(&output).contains("this host does not forward")
    };
    assert!(warns(&[]));
    assert!(!warns(&["--loopback"]));
}

#[test]
fn an_ordinary_user_reaches_the_outside_by_pasta() {
    let has_pasta = Command::new("pasta").arg("--version").output().is_ok();
    let ordinary = Ordinary::new();
    std::fs::write(ordinary.path().join("reaches.py"), REACHES).expect("written");
    let port = greeter(TcpListener::bind("127.0.0.1:0").expect("a free port")).to_string();
    let words = [
        "--delay",
        "out: 20ms",
        "--server",
        "sleep 60",
        "--server-wait",
        "0",
    ];
    let client = ["--", "python3", "reaches.py", &port];
    if !rustix::process::geteuid().is_root() {
        let mut command = ordinary.command();
        let command = command.args(words).arg("--outside").args(client);
        let output = command.env("PATH", "/nowhere").output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
        assert!(talk(&output).contains("needs 'pasta'"), "{}", talk(&output));
    }
    if !has_pasta {
        println!("SKIP: pasta is missing");
        return;
    }
    // With a server at the other end, and alone.
    for words in [&[&words[..], &["--outside"]].concat()[..], &words[..2]] {
        let mut command = ordinary.command_with_tap();
        let output = command.args(words).args(client).output().expect("it runs");
        if is_forbidden(&output) {
            return;
        }
        if talk(&output).contains("pasta ended") || talk(&output).contains("mount:") {
            println!("SKIP: pasta finds no network here: {}", talk(&output));
            return;
        }
        // The host's loopback has the address that pasta gives it.
        assert_eq!(greetings(&output), ["hello 127.0.0.1"]);
    }
    // By default there is no way out.
    let output = ordinary.run(&[&words[..], &["--", "ip", "route", "show", "default"]].concat());
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "",
        "{}",
        talk(&output)
    );
}

#[test]
fn root_reaches_the_outside_and_leaves_nothing_there() {
    need_wire!();
    let [caller, beyond] = ["out", "far"].map(Namespace::new);
    caller.ip(&format!(
        "link add o0 type veth peer name f0 netns {}",
        beyond.name()
    ));
    for (host, device, address) in [(&caller, "o0", "192.0.2.1"), (&beyond, "f0", "192.0.2.2")] {
        host.ip(&format!("addr add {address}/24 dev {device}"));
        host.ip(&format!("link set {device} up"));
    }
    caller.enter(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("root's"));
    let listen = |port: u16| move || TcpListener::bind(("0.0.0.0", port)).expect("free");
    let port = greeter(caller.enter(listen(7070)));
    greeter(beyond.enter(listen(port)));
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("reaches.py"), REACHES).expect("written");
    let emulate = |client: &[&str]| {
        let mut command = caller.command(lineside().get_program());
        command.arg("emulate").current_dir(folder.path());
        command.args([
            "--outside",
            "--delay",
            "out: 20ms",
            "--server",
            "exec sleep 60",
        ]);
        command.args(["--server-wait", "0", "--"]).args(client);
        command
    };
    let output = emulate(&["python3", "reaches.py", "7070", "192.0.2.2"]).output();
    // A host beyond has a route back only to this host, which masquerades.
    let greetings = greetings(&output.expect("it runs"));
    assert!(greetings[0].starts_with("hello 198.18."), "{greetings:?}");
    assert_eq!(greetings[1], "hello 192.0.2.1");

    let is_there = || {
        let links = caller.command("ip").args(["-br", "link"]).output();
        String::from_utf8_lossy(&links.expect("ip runs").stdout).contains("lineside")
    };
    wait_until("the device is gone", || !is_there());
    let mut killed = emulate(&["sleep", "60"]).spawn().expect("it runs");
    wait_until("it is open", is_there);
    killed.kill().expect("ours");
    killed.wait().expect("ours");
    wait_until("the device is gone", || !is_there());
}
