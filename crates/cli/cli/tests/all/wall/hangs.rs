//! What hangs, made with a real server and real kernels: a server that is stopped, a firewall that
//! drops, a link in the middle that is too small for long segments; and both ends of a mount that
//! does not hang.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Guarded, Trace, lineside, manifest, talk, wait_until};
use crate::wall::lab::{CLIENT, Lab, MIDDLE, SERVER, nfs_drive};
use crate::wall::wire::{Namespace, Running, Tcpdump, obstacle, run};

const SECOND_NS: u64 = 1_000_000_000;

/// A hang is reported this long after it began, and earlier.
const SOON_NS: u64 = 10 * SECOND_NS;

/// A client at work, until this is dropped.
fn client(words: &str) -> Guarded {
    let mut command = Namespace::of_another(CLIENT).command(nfs_drive());
    command.args(words.split(' '));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Guarded(command.spawn().expect("nfs-drive runs"))
}

/// How long the oldest call has waited, as the running capture reports it.
fn oldest_wait_ns(out: &Path) -> u64 {
    { manifest(out).in_memory }.map_or(0, |memory| memory.oldest_wait_ns)
}

/// How often the client's kernel has sent something again on a connection to NFS that is in this
/// state: proc(5), the columns `st` and `retrnsmt`.
fn sent_again(state: &str) -> u64 {
    let tables = Namespace::of_another(CLIENT).enter(|| {
        let table = |name| fs::read_to_string(format!("/proc/thread-self/net/{name}"));
        table("tcp").expect("a table") + &table("tcp6").unwrap_or_default()
    });
    let lines = tables.lines().filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let is_nfs = columns.get(2)?.ends_with(":0801") && *columns.get(3)? == state;
        let again = is_nfs.then(|| u64::from_str_radix(columns[6], 16).ok());
        again.flatten()
    });
    lines.max().unwrap_or(0)
}

const ESTABLISHED: &str = "01";
const SYN_SENT: &str = "02";

/// The findings of a trace: kind, place and what.
fn findings(trace: &Path) -> Vec<[String; 3]> {
    let output = { lineside().arg("report").arg(trace).arg("--json").output() }.expect("it runs");
    assert!(output.status.success(), "{}", talk(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let findings = report["findings"].as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    findings
        .map(|each| ["kind", "place", "what"].map(|name| text(&each[name])))
        .collect()
}

/// The headline of the finding of this kind at this place.
fn headline(trace: &Path, kind: &str, place: &str) -> String {
    let all = findings(trace);
    let found = all.iter().find(|each| each[0] == kind && each[1] == place);
    found.unwrap_or_else(|| panic!("no {kind}: {all:?}"))[2].clone()
}

/// A process that stands still until this is dropped.
struct Stopped(String);

impl Stopped {
    fn new(process: String) -> Self {
        run(Command::new("kill").args(["-STOP", &process]));
        Self(process)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        run(Command::new("kill").args(["-CONT", &self.0]));
    }
}

#[test]
fn a_stopped_server_is_reported_while_it_hangs() {
    let Some(lab) = Lab::up(&[]) else { return };
    let server = Namespace::of_another(SERVER);
    let capture = Running::start(&server, &["-i", "lineside-s"]);
    let _client = client("rand --file one --bytes 400000 --chunk 4096 --operations 400000");
    capture.wait_for_at_least(1000);
    assert!(oldest_wait_ns(&capture.out) < SECOND_NS, "it answers");
    let stopped = Stopped::new(lab.server_process());
    let mut first_ns = 0;
    capture.wait_until("the hang is reported", || {
        first_ns = oldest_wait_ns(&capture.out);
        first_ns >= SECOND_NS
    });
    assert!(first_ns < SOON_NS, "{first_ns}");
    capture.wait_until("it goes on", || {
        oldest_wait_ns(&capture.out) >= 3 * SECOND_NS
    });
    let ended = capture.interrupt();
    drop(stopped);
    let headline = headline(&ended.out, "no_answer", "server");
    assert!(
        headline.contains("the server's host acknowledges them"),
        "{headline}"
    );
}

#[test]
fn connections_that_a_firewall_drops_are_unreachable() {
    if let Some(why) = obstacle(&["nft"]) {
        println!("SKIP: no firewall: {why}");
        return;
    }
    let Some(_lab) = Lab::up(&[]) else { return };
    let server = Namespace::of_another(SERVER);
    let rules = "add table ip lineside; \
                 add chain ip lineside in { type filter hook input priority 0; }; \
                 add rule ip lineside in tcp dport 2049 drop";
    let made = { server.command("nft").arg(rules).output() }.expect("nft runs");
    if !made.status.success() {
        println!("SKIP: no firewall: {}", talk(&made));
        return;
    }
    let capture = Running::start(&server, &["-i", "lineside-s"]);
    let client = client("meta --rounds 1");
    capture.wait_until("it asks for the third time", || sent_again(SYN_SENT) >= 2);
    let ended = capture.interrupt();
    drop(client);
    let all = findings(&ended.out);
    let found = all.iter().find(|each| each[0] == "unreachable");
    let found = found.unwrap_or_else(|| panic!("{all:?}"));
    assert!(found[2].contains("192.0.2.1"), "{found:?}");
    assert!(!all.iter().any(|each| each[0] == "no_answer"), "{all:?}");
}

#[test]
fn a_link_too_small_for_long_segments_is_no_progress() {
    let Some(_lab) = Lab::up(&["--mirror"]) else {
        return;
    };
    let end = Namespace::of_another(CLIENT);
    let capture = Running::start(&end, &["-i", "lineside-c"]);
    let client = client("seq --file big --bytes 900000000 --chunk 65536 --depth 4");
    capture.wait_for_at_least(1000);
    // A bridge drops what is longer than the port beyond it, and sends no ICMP.
    Namespace::of_another(MIDDLE).ip("link set server mtu 1300");
    capture.wait_until("it sends again and again", || sent_again(ESTABLISHED) >= 4);
    let ended = capture.interrupt();
    drop(client);
    let headline = headline(&ended.out, "no_progress", "network");
    // The option of time stamps takes 12 bytes of what fits into 1,500.
    assert!(headline.contains("1,448"), "{headline}");
    let hangs = findings(&ended.out);
    let hangs = { hangs.iter() }.find(|each| each[2].contains("process answers none"));
    assert_eq!(hangs, None, "the server has not got the calls");
}

#[test]
fn both_ends_of_a_real_mount_are_one_set_of_rows() {
    let Some(_lab) = Lab::up(&[]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let taps = [(SERVER, "lineside-s"), (CLIENT, "lineside-c")].map(|(namespace, link)| {
        let path = folder.path().join(format!("{link}.pcap"));
        let program = Namespace::of_another(namespace).command("tcpdump");
        (Tcpdump::start(program, link, &path), path)
    });
    let mut client = client("meta --rounds 5");
    let mut status = None;
    wait_until("the client is done", || {
        status = client.0.try_wait().expect("our child");
        status.is_some()
    });
    assert!(status.is_some_and(|status| status.success()));
    let [server, far] = taps.map(|(tcpdump, path)| {
        tcpdump.end_when_quiet();
        path
    });
    let alone = Trace::of(&server, &[]);
    let far = far.to_str().expect("a plain path");
    let both = Trace::of(&server, &[far]);
    assert_eq!(both.operations.len(), alone.operations.len());
    let [taps] = &both.manifest.two_taps[..] else {
        panic!("{:?}", both.manifest.two_taps);
    };
    assert!(taps.server_tap.ends_with("lineside-s.pcap"), "{taps:?}");
    let seen = |name| {
        let rows = both.operations.iter();
        rows.filter(|row| row.integer(name).is_some()).count()
    };
    assert_eq!(seen("client_tap_call_ns"), both.operations.len());
    assert_eq!(seen("client_tap_reply_ns"), both.operations.len());
}
