//! The sandboxes of loads that open their interface more than once, and of those of several hosts.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use lineside_rows::Table;

use crate::follow::signal;
use crate::support::{lineside, manifest, records, talk, wait_until};
use crate::wall::confined::{becomes_confined, is_confined};
use crate::wall::load_devices::inside;
use crate::wall::load_ends::{Served, number};
use crate::wall::wire::{Wire, need_wire};

/// The processes that a thread of a process has started and that run.
fn children(process: u32) -> Vec<u32> {
    let list = format!("/proc/{process}/task/{process}/children");
    let list = std::fs::read_to_string(list).unwrap_or_default();
    list.split_whitespace()
        .filter_map(|id| id.parse().ok())
        .collect()
}

/// The programs of the hosts are started by env(1), which is in no sandbox.
#[test]
fn a_load_of_hosts_and_its_agents_run_in_sandboxes() {
    let folder = crate::support::private_folder();
    let served = Served::start(&["http", "127.0.0.1:0"]);
    let url = format!("http://{}/", served.at);
    let out = folder.path().join("run");
    let mut command = lineside();
    command.args(["load", &url, "-d", "1s", "-R", "500", "-c", "4", "-q"]);
    command.args(["--hosts", "A=1,A=2", "--rsh", "env", "--rows", "none"]);
    let mut load = command.arg("-o").arg(&out).spawn().expect("it runs");
    becomes_confined(load.id(), "");
    let agents = children(load.id());
    assert_eq!(agents.len(), 2);
    for agent in agents {
        becomes_confined(agent, "");
    }
    is_confined(load.id(), "");
    let ended = load.wait().expect("it ends");
    assert!(matches!(ended.code(), Some(0 | 4)), "{ended}");
    let manifest = manifest(&out);
    let sandbox = manifest.sandbox.expect("it is reported");
    assert_eq!(sandbox.holds, ["landlock", "seccomp"]);
    assert!(sandbox.missing.is_empty(), "{sandbox:?}");
    assert!(sandbox.allowed.is_empty(), "{sandbox:?}");
    let certificate = manifest.certificate.expect("a certificate");
    let planned = number(&certificate, "/requests/planned");
    assert!((490..=510).contains(&planned), "{certificate:#}");
    // A busy machine ends the load before the last ones are answered.
    let succeeded = number(&certificate, "/requests/succeeded");
    assert!((400..=planned).contains(&succeeded), "{certificate:#}");
    let asked = number(&served.counts(), "/requests");
    assert!((succeeded..=planned).contains(&asked), "{certificate:#}");
}

#[test]
fn a_program_of_a_host_that_hangs_is_ended_from_the_sandbox() {
    let mut command = lineside();
    command.args(["load", "http://127.0.0.1:9/", "--hosts", "7", "-q"]);
    // It says something, and then nothing more.
    let folder = crate::support::private_folder();
    let program = folder.path().join("hangs");
    std::fs::write(&program, "#!/bin/sh\necho; exec sleep 600\n").expect("written");
    let made = Command::new("chmod").arg("+x").arg(&program).status();
    assert!(made.expect("it runs").success());
    command.arg("--rsh").arg(&program);
    let output = command.output().expect("it runs");
    assert!(
        talk(&output).contains("is not an agent"),
        "{}",
        talk(&output)
    );
}

/// Reads what a search says until three trials have answers, which are in its sandbox.
fn three_trials(mut search: Child, capabilities: &str) {
    becomes_confined(search.id(), capabilities);
    let mut lines = BufReader::new(search.stderr.take().expect("piped")).lines();
    for _ in 0..3 {
        let line = lines.next().expect("a trial").expect("a line");
        // On a busy machine one may fail, but answers came.
        let mut words = line.split_whitespace().skip_while(|word| *word != "p99");
        let has_answers = words.nth(1).is_some_and(|p99| p99 != "-");
        assert!(has_answers, "{line}");
        is_confined(search.id(), capabilities);
    }
    signal(&search, "-INT");
    let message: Vec<_> = lines.map_while(Result::ok).collect();
    let ended = search.wait().expect("it ends");
    assert_eq!(ended.code(), Some(1), "{message:?}");
    let message = message.join(" ");
    assert!(
        message.contains("a signal ended") || message.contains("stopped"),
        "{message}"
    );
}

const SEARCH: [&str; 8] = ["--search", "-R", "50", "-d", "300ms", "-c", "2", "-t"];

#[test]
fn a_search_runs_in_a_sandbox() {
    for (service, query) in [("echo", ""), ("udp", ""), ("nfs", "/export?mountport=")] {
        let served = Served::start(&[service, "127.0.0.1:0"]);
        let port = served.at.rsplit(':').next().expect("a port");
        let port = if service == "nfs" { port } else { "" };
        let url = format!("{service}://{}{query}{port}", served.at);
        let mut command = lineside();
        command.args(["load", &url]).args(SEARCH).arg("1");
        let search = command.stderr(Stdio::piped()).spawn().expect("it runs");
        three_trials(search, "");
    }
}

/// A veth pair has one queue, which AF_XDP gives to one worker.
const METHODS: [(&str, &str); 2] = [("af_packet", "2"), ("af_xdp_generic", "1")];

/// The interface stays open from trial to trial, and nobody may open another.
#[test]
fn a_search_by_our_own_tcp_runs_in_a_sandbox() {
    need_wire!("ip");
    let wire = Wire::new("confined-search", 1);
    wire.tap.ip("addr add 10.9.0.1/16 dev t0");
    let _served = Served::of(inside(&wire.tap), &["echo", "10.9.0.1:7"]);
    for (method, workers) in METHODS {
        let mut command = inside(&wire.generator);
        command.args(["load", "echo://10.9.0.1/", "-i", "g0"]);
        command.args(["--address", "10.9.1.0/24", "--method", method]);
        command.args(SEARCH).arg(workers);
        let search = command.stderr(Stdio::piped()).spawn().expect("it runs");
        three_trials(search, "");
    }
}

/// Which opens its interface for a first look at the export, by one worker, and for the load.
#[test]
fn a_load_of_nfs_by_our_own_tcp_runs_in_a_sandbox() {
    need_wire!("ip");
    let wire = Wire::new("confined-nfs", 1);
    let folder = crate::support::private_folder();
    wire.tap.ip("addr add 10.9.0.1/16 dev t0");
    let _served = Served::of(inside(&wire.tap), &["nfs", "10.9.0.1:2049"]);
    for (method, workers) in METHODS {
        let out = folder.path().join(method);
        let mut command = inside(&wire.generator);
        command.args(["load", "nfs://10.9.0.1/export?mountport=2049", "-i", "g0"]);
        command.args(["--address", "10.9.1.0/24", "-c", "8", "-R", "500"]);
        command.args(["-d", "1s", "-q", "--value-size", "1KiB"]);
        command.args(["--method", method, "-t", workers, "-o"]);
        let mut load = command.arg(&out).spawn().expect("it runs");
        becomes_confined(load.id(), "");
        wait_until("a worker runs", || {
            let threads = std::fs::read_dir(format!("/proc/{}/task", load.id()));
            threads.is_ok_and(|threads| threads.count() > 1)
        });
        is_confined(load.id(), "");
        let ended = load.wait().expect("it ends");
        assert!(matches!(ended.code(), Some(0 | 4)), "{method}: {ended}");
        let sandbox = manifest(&out).sandbox.expect("it is reported");
        assert_eq!(
            sandbox.holds,
            ["landlock", "seccomp"],
            "{:?}",
            sandbox.missing
        );
        let rows = records(&out, Table::Operations).len();
        assert!(rows >= 490, "{rows}");
    }
}
