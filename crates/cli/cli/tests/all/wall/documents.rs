//! The commands of README, guides and cookbook, run as they are written, in a folder and a network
//! namespace of their own. Where a document shows what a command prints (a line that begins with
//! `$ ` and lines under it), it prints that, numbers and units apart, and anything where a line is
//! `…`; `LINESIDE_BLESS=1` writes it into the document, unless that has such a line.

use std::fmt::Write as _;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

use crate::python::python;
use crate::support::{repository, wait_until};
use crate::wall::wire::{Namespace, need_wire};

/// What a line of a document begins with if it is a command.
const PROGRAMS: [&str; 14] = [
    "$ ",
    "lineside ",
    "target/demo/lineside ",
    "target/release/lineside ",
    "target/debug/lineside ",
    "sudo ",
    "duckdb ",
    "tcpdump ",
    "python3 ",
    "cargo ",
    "cat ",
    "./",
    "crates/test/nfs-lab/",
    "apt-get ",
];

/// Commands that are not run here, and why.
const ELSEWHERE: [(&str, &str); 19] = [
    ("./demo", "builds the program"),
    ("./test", "runs this"),
    ("cargo ", "builds"),
    ("apt-get ", "`./test` installs"),
    ("setcap ", "changes the program under test"),
    ("crates/test/nfs-lab/up", "`lab` has tests of its own"),
    ("crates/test/nfs-lab/cap", "needs `crates/test/nfs-lab/up`"),
    ("crates/test/nfs-lab/down", "needs `crates/test/nfs-lab/up`"),
    (
        "--on eth0",
        "an interface of a host: `on` has tests of its own",
    ),
    (
        "load -i eth1",
        "a network whose other end answers: `load` has tests of its own",
    ),
    ("lab rerun", "asks: `lab_bundles` has tests of its own"),
    ("--hosts", "other hosts: `load` has tests of its own"),
    (
        "--search",
        "takes half a minute: `load` has tests of its own",
    ),
    (
        "nfs://SERVER",
        "an NFS server: `imaged` has tests of its own",
    ),
    (
        "labs/loop",
        "an NFS server: `experiment_keys` has tests of its own",
    ),
    (
        "--install",
        "installs: `experiment_keys` has tests of its own",
    ),
    ("spark-submit", "Spark is half a gigabyte"),
    ("dpkg -i", "installs: `package` has tests of its own"),
    (
        "systemctl ",
        "needs systemd: `package` has tests of its own",
    ),
];

/// Words of documents, and what stands for them here.
const WORDS: [(&str, &str); 8] = [
    ("-c 200", "-c 20"),
    ("wireshark -k -i -", "tshark -r - >/dev/null"),
    ("/etc/bash_completion.d/", "./"),
    ("/usr/local/share/man/", "./"),
    ("HOST", "127.0.0.1"),
    ("/srv/traces", "."),
    ("bundle RUN", "bundle TRACE"),
    (
        "--operation ID",
        "--operation $(lineside slow TRACE --top 1 --json 2>/dev/null | jq .operation_id)",
    ),
];

/// A line of a document that stands for any number of lines that a command prints.
const LEFT_OUT: &str = "…";

/// Exit states other than 0.
const STATES: [(&str, i32); 1] = [
    // Some operations of the example fail.
    ("--assert 'errors < 1%' --assert 'loss == 0%'", 3),
];

/// Flags before what a command writes.
const WRITTEN: [&str; 4] = ["-o", "-w", "--write-pcap", "--html"];

/// What documents take for granted: programs, two days' traces, files that they show.
const FOLDER: &str = r#"
    set -e
    mkdir -p bin target/demo target/release target/debug man1
    for place in bin target/demo target/release target/debug; do ln -s "$PROGRAM" $place/lineside; done
    for name in contrib examples crates docs; do ln -s "$REPOSITORY/$name" $name; done
    program() { printf '#!/bin/sh\n%s\n' "$2" >bin/$1; chmod +x bin/$1; }
    program sudo 'exec "$@"'
    program python3 "exec '$PYTHON' \"\$@\""
    # DuckDB's shell prints what its Python module prints.
    program duckdb "exec '$PYTHON' -c 'import duckdb, sys; print(duckdb.sql(sys.argv[2]))' \"\$@\""
    zstd -qdc examples/nfs-mix.pcapng.zst >CAPTURE
    lineside emulate CAPTURE --delay 5ms --write-pcap far.pcapng -q
    for trace in TRACE A yesterday trace; do lineside capture CAPTURE -q -o $trace; done
    for trace in B today; do lineside capture far.pcapng -q -o $trace; done
    printf '12.5us\n15us\n11us\n30us\n' >samples.txt
    printf 'time delay loss rate\n0s 20ms 0%% 10mbit\n100ms 35ms 2%% 6mbit\n' >link.path
    printf '[capture]\ninputs = ["CAPTURE"]\noutput = "mix-trace"\n' >capture.toml
    cat >test_echo.py <<END
import socket, threading, unittest
class Echo(unittest.TestCase):
    def test_echo(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            def answer():
                with server.accept()[0] as accepted:
                    accepted.sendall(accepted.recv(9))
            threading.Thread(target=answer).start()
            with socket.create_connection(server.getsockname()) as client:
                client.sendall(b"hello")
                self.assertEqual(client.recv(9), b"hello")
END
"#;

/// The interfaces that documents name, each with its other end.
const NETWORK: &str = r#"
    echo 1 >/proc/sys/net/ipv4/ip_forward
    ip link set lo up
    ip addr add 192.0.2.80/32 dev lo
    for name in eth0 eth1 eth2 tap0 tap1; do
        ip link add $name mtu 9000 type veth peer name ${name}p mtu 9000
        ip link set $name up
        ip link set ${name}p up
    done
"#;

/// A capture or a link that goes on until Ctrl-C gets a second of frames, then Ctrl-C.
const INTERRUPTED: &str = r#"
    { sleep 0.7; for name in eth0p eth1p tap0p tap1p; do
        lineside replay-pcap examples/nfs-mix.pcapng.zst -i $name --fast -q; done; } 2>/dev/null &
    timeout --preserve-status -s INT 3 bash -c "$COMMAND"
"#;

/// A link that runs meanwhile.
const BESIDE: &str = r#"
    run=$(grep -oiw -m 1 'run' <<<"$COMMAND" | head -n 1)
    lineside emulate --between eth1,eth2 --delay 10ms -o $run --force -q & link=$!
    until [ -S $run/control ]; do sleep 0.05; done
    # Some commands end with the run.
    { sleep 4; kill -INT $link; } >/dev/null 2>&1 & end=$!
    bash -c "$COMMAND"; status=$?
    kill -INT $link 2>/dev/null; wait $link; kill $end 2>/dev/null
    exit $status
"#;

/// A server that answers probes meanwhile.
const PROBED: &str = r#"
    lineside probe --serve 2>/dev/null & server=$!
    until ss -lnuH | grep -q .; do sleep 0.05; done
    bash -c "$COMMAND"; status=$?
    kill -INT $server; wait $server
    exit $status
"#;

/// A server that answers a load meanwhile.
const LOADED: &str = r#"
    lineside load serve http 127.0.0.1:8080 2>/dev/null & server=$!
    until ss -lntH | grep -q :8080; do sleep 0.05; done
    bash -c "$COMMAND"; status=$?
    kill -INT $server; wait $server
    exit $status
"#;

/// A command of a document.
#[derive(Debug)]
struct Shown {
    /// Lines from 0.
    line: usize,
    text: String,
    /// The lines under it with what it prints, if the document has them.
    output: Option<Range<usize>>,
}

/// The commands in the indented blocks of a document.
fn commands(text: &str) -> Vec<Shown> {
    let lines: Vec<&str> = text.lines().collect();
    let mut all = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = at;
        at += 1;
        let Some(first) = lines[line].strip_prefix("    ") else {
            continue;
        };
        let first = first.trim_start();
        if !PROGRAMS.iter().any(|program| first.starts_with(program)) {
            continue;
        }
        let is_prompted = first.starts_with("$ ");
        let mut text = first.trim_start_matches("$ ").to_owned();
        // A quotation or a document goes on over lines.
        while !is_whole(&text) && at < lines.len() {
            let _ = write!(text, "\n{}", lines[at].strip_prefix("    ").unwrap_or(""));
            at += 1;
        }
        let begin = at;
        if is_prompted {
            at += output_lines(&lines[at..]);
        }
        let output = is_prompted.then_some(begin..at);
        all.push(Shown { line, text, output });
    }
    all
}

/// How many lines a command printed; blank ones belong to an output that goes on behind them.
fn output_lines(lines: &[&str]) -> usize {
    let is_output = |line: &&str| line.starts_with("    ") && !line.starts_with("    $ ");
    let all = lines
        .iter()
        .take_while(|line| line.is_empty() || is_output(line));
    let all = all.count();
    let last = lines[..all].iter().rposition(is_output);
    last.map_or(0, |last| last + 1)
}

/// Whether bash sees the end of the last command.
fn is_whole(text: &str) -> bool {
    let mut bash = Command::new("bash");
    let output = bash.args(["-n", "-c", text]).output().expect("bash runs");
    output.status.success() && !String::from_utf8_lossy(&output.stderr).contains("here-document")
}

/// A folder and a namespace in which the commands of one document run.
struct Sandbox {
    folder: TempDir,
    network: Namespace,
    server: Child,
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Sandbox {
    fn new(what: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // A program that has dropped root's rights writes beside what it reads.
        let everybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder.path(), everybody).expect("ours");
        let network = Namespace::new(what);
        let mut server = network.command("python3");
        server.args(["-m", "http.server", "80", "--bind", "192.0.2.80"]);
        server.stdout(Stdio::null()).stderr(Stdio::null());
        for script in [NETWORK, FOLDER] {
            let output = bash(&network, folder.path(), script);
            assert!(output.status.success(), "{script}\n{}", printed(&output));
        }
        let server = server.current_dir(folder.path()).spawn();
        let server = server.expect("Python runs");
        wait_until("the server", || {
            let asked = bash(&network, folder.path(), "curl -s http://192.0.2.80/");
            asked.status.success()
        });
        Self {
            folder,
            network,
            server,
        }
    }

    /// Runs a command as its document means it.
    ///
    /// Commands without a prompt stand each by itself: what one of them wrote is in no other's way.
    fn run(&self, text: &str, is_prompted: bool) -> Output {
        let command = WORDS.iter().fold(text.to_owned(), |text, (word, here)| {
            text.replace(word, here)
        });
        if !is_prompted {
            let words: Vec<&str> = text.split_whitespace().collect();
            let written = { words.windows(2) }.filter(|pair| WRITTEN.contains(&pair[0]));
            for pair in written {
                let path = self.folder.path().join(pair[1]);
                let _ = std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path));
            }
        }
        let is_endless = (text.contains("capture -i ")
            || text.contains("--between")
            || text.contains("forward --ports")
            || text.contains("forward -i")
            || text.contains("probe --serve")
            || text.contains("load serve"))
            && !text.contains("timeout");
        let around = match () {
            () if text.contains("lineside ctl ") => BESIDE,
            () if is_endless => INTERRUPTED,
            () if text.contains("probe HOST -o") => PROBED,
            () if text.contains("load http") => LOADED,
            () => "eval \"$COMMAND\"",
        };
        let quoted = command.replace('\'', r"'\''");
        let script = format!("COMMAND='{quoted}'\n{around}");
        bash(&self.network, self.folder.path(), &script)
    }
}

/// Runs a script in a namespace and a folder; standard error goes to standard output.
fn bash(network: &Namespace, folder: &Path, script: &str) -> Output {
    let python = python().expect("asked for before");
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}:/usr/sbin:/sbin", folder.join("bin").display());
    let script = format!("exec 2>&1 </dev/null\n{script}");
    let mut bash = network.command("timeout");
    bash.args(["60", "bash", "-o", "pipefail", "-c", &script]);
    bash.current_dir(folder).env("HOME", folder);
    bash.env("REPOSITORY", repository()).env("PYTHON", python);
    bash.env("PROGRAM", env!("CARGO_BIN_EXE_lineside"));
    bash.env("PATH", path)
        .env("TZ", "UTC")
        .env("COLUMNS", "100");
    bash.output().expect("bash runs")
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A text without its numbers, their units, bars, and the widths of columns.
fn shape(text: &str) -> Vec<String> {
    const UNITS: [&str; 10] = ["ns", "us", "ms", "s", "min", "h", "B", "KiB", "MiB", "GiB"];
    let kind = |letter: char| match letter {
        '0'..='9' | '.' | ',' | ':' => '#',
        '\u{2500}'..='\u{259f}' => '-',
        letter => letter,
    };
    let word = |word: &str| {
        let mut shape: String = word.chars().map(kind).collect();
        for many in ["##", "--"] {
            while shape.contains(many) {
                shape = shape.replace(many, &many[1..]);
            }
        }
        shape
    };
    let line = |line: &str| {
        let mut shape: Vec<String> = Vec::new();
        // How late a link's frames were is the machine's.
        let line = line.split(" under way").next().unwrap_or(line);
        for word in line.split_whitespace().map(word) {
            let is_unit = UNITS.contains(&word.trim_matches(['#', ')', '(', '/']));
            let is_again = shape.last() == Some(&word) && (word == "-" || word == "#");
            if !is_unit && !is_again {
                shape.push(word);
            }
        }
        shape.join(" ")
    };
    text.trim_end().lines().map(line).collect()
}

/// Whether a document that leaves out some lines shows the others as they are, in their order.
fn is_shown(is: &[String], shown: &[String]) -> bool {
    let Some(gap) = shown.iter().position(|line| line == LEFT_OUT) else {
        return is == shown;
    };
    let (before, after) = (&shown[..gap], &shown[gap + 1..]);
    is.strip_prefix(before)
        .is_some_and(|rest| (0..=rest.len()).any(|at| is_shown(&rest[at..], after)))
}

/// Runs all commands of a document; those that fail or print something else are returned.
fn failures(document: &str) -> Vec<String> {
    let path = repository().join(document);
    let text = std::fs::read_to_string(&path).expect("the document is there");
    let what = document.replace(|letter: char| !letter.is_ascii_alphanumeric(), "");
    let sandbox = Sandbox::new(&what.to_lowercase());
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut failures = Vec::new();
    let mut printed_instead = Vec::new();
    let all = commands(&text);
    assert!(!all.is_empty(), "{document} has commands");
    for shown in all {
        if ELSEWHERE.iter().any(|(word, _)| shown.text.contains(word)) {
            continue;
        }
        let output = sandbox.run(&shown.text, shown.output.is_some());
        let state = STATES.iter().find(|(word, _)| shown.text.contains(word));
        let place = format!("{document}:{}: {}", shown.line + 1, shown.text);
        let is = printed(&output);
        // A link on a busy machine: that the run says so is right.
        let words = is.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_disturbed = ["left more than 1 ms late", "verdict disturbed"];
        let is_late = matches!(output.status.code(), Some(0 | 4))
            && is_disturbed.iter().any(|sentence| words.contains(sentence));
        if !is_late && output.status.code() != Some(state.map_or(0, |&(_, state)| state)) {
            failures.push(format!("{place}\n{}\n{is}", output.status));
            continue;
        }
        let Some(at) = shown.output else { continue };
        let was = lines[at.clone()].join("\n");
        // What it prints then is of the machine, reasons included.
        if !is_late && !is_shown(&shape(&is), &shape(&was)) {
            failures.push(format!("{place}\nprints\n{is}\nand not\n{was}"));
            if !was.lines().any(|line| line.trim() == LEFT_OUT) {
                printed_instead.push((at, is));
            }
        }
    }
    if std::env::var_os("LINESIDE_BLESS").is_some() {
        for (at, is) in printed_instead.into_iter().rev() {
            let indented = { is.trim_end().lines() }.map(|line| format!("    {line}"));
            lines.splice(at, indented.map(|line| line.trim_end().to_owned()));
        }
        std::fs::write(path, lines.join("\n") + "\n").expect("the document is ours");
    }
    failures
}

fn assert_true(document: &str) {
    let failures = failures(document);
    assert!(
        failures.is_empty(),
        "{} commands of {document} are not as it says (LINESIDE_BLESS=1 writes what they \
        print):\n\n{}",
        failures.len(),
        failures.join("\n\n")
    );
}

/// A test of each document.
macro_rules! documents {
    ($(#[test] fn $test:ident() = $document:literal;)*) => {
        $(#[test]
        fn $test() {
            need_wire!("curl", "jq", "tshark", "tcpdump", "zstd");
            if python().is_none() {
                println!("SKIP: no Python with duckdb and pandas (LINESIDE_PYTHON): ./test makes one");
                return;
            }
            assert_true($document);
        })*
    };
}

documents! {
    #[test]
    fn the_commands_of_the_readme_run() = "README.md";
    #[test]
    fn the_commands_of_the_cookbook_print_this() = "docs/cookbook.md";
    #[test]
    fn the_commands_of_the_guide_to_capture_run() = "docs/guide/capture.md";
    #[test]
    fn the_commands_of_the_guide_to_live_run() = "docs/guide/live.md";
    #[test]
    fn the_commands_of_the_guide_to_emulate_run() = "docs/guide/emulate.md";
    #[test]
    fn the_commands_of_the_guide_to_drop_ins_run() = "docs/guide/drop-ins.md";
    #[test]
    fn the_commands_of_the_guide_to_failures_run() = "docs/guide/failures.md";
    #[test]
    fn the_commands_of_the_guide_to_image_run() = "docs/guide/image.md";
    #[test]
    fn the_commands_of_the_guide_to_install_run() = "docs/guide/install.md";
    #[test]
    fn the_commands_of_the_guide_to_lab_run() = "docs/guide/lab.md";
    #[test]
    fn the_commands_of_the_guide_to_load_run() = "docs/guide/load.md";
    #[test]
    fn the_commands_of_the_guide_to_monitors_run() = "docs/guide/monitors.md";
    #[test]
    fn the_commands_of_the_guide_to_plan_run() = "docs/guide/plan.md";
    #[test]
    fn the_commands_of_the_guide_to_probe_run() = "docs/guide/probe.md";
    #[test]
    fn the_commands_of_the_guide_to_report_run() = "docs/guide/report.md";
    #[test]
    fn the_commands_of_the_examples_run() = "examples/README.md";
}

#[test]
fn a_shape_keeps_words_and_forgets_figures() {
    let shapes = [("p99  1.07 ms ██▂", "p99 12 us ▁"), ("12:02:20 a", "1 a")];
    for (one, other) in shapes {
        assert_eq!(shape(one), shape(other));
    }
    assert_ne!(shape("READ 1 ms"), shape("WRITE 1 ms"));
}

#[test]
fn a_line_of_dots_stands_for_any_lines() {
    let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
    let is = lines("a\nb\nc\nd");
    for shown in [
        "a\nb\nc\nd",
        "a\n…\nd",
        "…\nb\nc\n…",
        "…\nb\n…\nd",
        "a\n…\nb\nc\nd",
    ] {
        assert!(is_shown(&is, &lines(shown)), "{shown}");
    }
    for shown in ["a\nb\nc", "a\n…\nc", "…\nc\nb\n…", "b\n…", "…\ne\n…"] {
        assert!(!is_shown(&is, &lines(shown)), "{shown}");
    }
}
