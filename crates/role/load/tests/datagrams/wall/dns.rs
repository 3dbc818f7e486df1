//! DNS: our client against our zone and servers of others, and both as tshark reads them.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use lineside_dns::{NameBuf, Zone, kind};
use lineside_load::outcome::Outcome;
use lineside_load::protocol::{Dns, DnsServer};
use lineside_workload::Template;

use super::*;

const ORIGIN: &str = "load.example";
const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);

fn zone() -> Zone {
    Zone {
        origin: NameBuf::parse(ORIGIN).expect("a name"),
        a: Some(ADDRESS),
        aaaa: None,
        ttl_s: 60,
    }
}

fn ask(names: &'static str, at: SocketAddr, plan: Plan, of: Loop) -> Outcome {
    let protocol = move |_: &Part, _| {
        let names = Template::parse(names, None, 5).expect("a template");
        Dns::new(names, vec![kind::A], true, Some(1_232), 7).expect("names")
    };
    load_by(protocol, at, plan, 1, of)
}

#[test]
fn dns_answers_each_query() {
    for of in [Loop::Closed, Loop::Open(8_000.0)] {
        let run = |at| ask("host{n}.load.example", at, plan(), of);
        let loopback = Ipv4Addr::LOCALHOST.into();
        let (outcome, served, _) = beside(loopback, 1, |_| DnsServer(zone()), |_| (), run);
        is_whole(&outcome, &served, 2_000);
        assert_eq!(outcome.counts.statuses, [(0, 2_000)]);
    }
    let run = |at| ask("host{n}.other.example", at, plan(), Loop::Closed);
    let loopback = Ipv4Addr::LOCALHOST.into();
    let (outcome, ..) = beside(loopback, 1, |_| DnsServer(zone()), |_| (), run);
    assert_eq!(outcome.counts.statuses, [(3, 2_000)]);
    assert_eq!(
        (outcome.counts.answered, outcome.counts.succeeded),
        (2_000, 0)
    );
}

/// A program that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program, if this host has it.
fn start(command: &mut Command) -> Option<Running> {
    let program = command.get_program().to_owned();
    let started = command.stdin(Stdio::null()).spawn();
    if started.is_err() {
        println!("SKIP: no {program:?} here");
    }
    started.ok().map(Running)
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.local_addr().expect("bound").port()
}

/// Starts a server that answers at a port, if this host has it. A port that was free may be another
/// test's by the time the server takes it: then it ends at once, and another one begins.
fn served(command: impl Fn(u16) -> Command) -> Option<(Running, SocketAddr)> {
    for _ in 0..20 {
        let at = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), free_port());
        let mut server = start(&mut command(at.port()))?;
        if answers(&mut server, at) {
            return Some((server, at));
        }
    }
    panic!("20 servers ended at once");
}

/// Waits until a server answers anything; whether it did before it ended.
fn answers(server: &mut Running, at: SocketAddr) -> bool {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.connect(at).expect("an address");
    let wait = socket.set_read_timeout(Some(Duration::from_millis(100)));
    wait.expect("a time");
    // A query for the root's servers.
    let query = b"\x12\x34\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x01";
    let (mut has_ended, mut answered) = (false, false);
    wait_until("the server answers or ends", || {
        has_ended = server.0.try_wait().expect("a child").is_some();
        let answer = socket.send(query).and_then(|_| socket.recv(&mut [0; 600]));
        answered = answer.is_ok();
        has_ended || answered
    });
    !has_ended
}

fn answers_all(at: SocketAddr) {
    // A server may take its time when the machine is busy, but it loses nothing.
    let outcome = ask("host{n}.load.example", at, plan(), Loop::Closed);
    let counts = &outcome.counts;
    assert_eq!(outcome.broken_identity, None);
    assert_eq!(
        (counts.sent, counts.succeeded),
        (2_000, 2_000),
        "{counts:?}"
    );
    assert_eq!((counts.strays, counts.duplicates), (0, 0));
    assert_eq!(counts.statuses, [(0, 2_000)]);
}

#[test]
fn dnsmasq_answers_our_queries() {
    let server = served(|port| {
        let mut command = Command::new("dnsmasq");
        command
            .args([
                "--keep-in-foreground",
                "--no-resolv",
                "--no-hosts",
                "--bind-interfaces",
            ])
            .args([
                "--conf-file=/dev/null",
                "--pid-file",
                "--listen-address=127.0.0.1",
            ])
            .arg(format!("--port={port}"))
            .arg(format!("--address=/{ORIGIN}/{ADDRESS}"))
            .stderr(Stdio::null());
        command
    });
    let Some((_server, at)) = server else {
        return;
    };
    answers_all(at);
}

#[test]
fn nsd_answers_our_queries() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let zone = format!(
        "$ORIGIN {ORIGIN}.\n$TTL 60\n@ IN SOA ns hostmaster 1 2 3 4 5\n@ IN NS ns\n* IN A {ADDRESS}\n"
    );
    std::fs::write(path("zone"), zone).expect("written");
    let configuration = |port: u16| {
        format!(
            "server:\n ip-address: 127.0.0.1\n port: {port}\n username: \"\"\n server-count: 1\n \
         zonesdir: \"{0}\"\n database: \"\"\n pidfile: \"\"\n xfrdfile: \"\"\n zonelistfile: \
         \"{0}/zone.list\"\n xfrdir: \"{0}\"\n rrl-ratelimit: 0\nremote-control:\n \
         control-enable: no\nzone:\n name: {ORIGIN}\n zonefile: zone\n",
            folder.path().display()
        )
    };
    let server = served(|port| {
        std::fs::write(path("nsd.conf"), configuration(port)).expect("written");
        let mut command = Command::new("nsd");
        command.args(["-d", "-c", &path("nsd.conf")]);
        command.stderr(Stdio::null());
        command
    });
    let Some((_server, at)) = server else {
        return;
    };
    answers_all(at);
}

/// Captures this many datagrams of a port of loopback; `None`: it may not.
fn capture(port: u16, count: usize, file: &Path) -> Option<Running> {
    let mut command = Command::new("dumpcap");
    command.args(["-q", "-i", "lo", "-a", "duration:60", "-P"]);
    command.args([
        "-f",
        &format!("udp port {port}"),
        "-c",
        &count.to_string(),
        "-w",
    ]);
    let mut running = start(command.arg(file).stderr(Stdio::piped()))?;
    let messages = BufReader::new(running.0.stderr.take().expect("a pipe"));
    let mut lines = messages.lines().map_while(Result::ok);
    // It says where it writes once it captures.
    if !lines.any(|line| line.starts_with("File:")) {
        println!("SKIP: dumpcap may not capture on lo");
        return None;
    }
    thread::spawn(move || lines.for_each(drop));
    Some(running)
}

#[test]
fn tshark_reads_queries_and_answers_as_they_are_meant() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("dns.pcap");
    let run = |at: SocketAddr| {
        let plan = Plan {
            requests: Some(200),
            ..plan()
        };
        let capturing = capture(at.port(), 400, &file)?;
        let outcome = ask("host{n}.load.example", at, plan, Loop::Open(4_000.0));
        Some((outcome, capturing))
    };
    let loopback = Ipv4Addr::LOCALHOST.into();
    let (captured, ..) = beside(loopback, 1, |_| DnsServer(zone()), |_| (), run);
    let Some((outcome, mut capturing)) = captured else {
        return;
    };
    assert_eq!(outcome.counts.succeeded, 200, "{:?}", outcome.counts);
    capturing.0.wait().expect("it ends after the last one");
    let port = "udp.port==0-65535,dns";
    let mut tshark = Command::new("tshark");
    tshark.args([
        "-r",
        &file.display().to_string(),
        "-d",
        port,
        "-T",
        "fields",
    ]);
    for field in [
        "dns.flags.response",
        "dns.id",
        "dns.qry.name",
        "dns.qry.type",
        "dns.a",
        "dns.flags.rcode",
        "udp.checksum.status",
        "_ws.malformed",
    ] {
        tshark.args(["-e", field]);
    }
    let Ok(read) = tshark.stderr(Stdio::null()).output() else {
        println!("SKIP: no tshark here");
        return;
    };
    let text = String::from_utf8(read.stdout).expect("text");
    let mut asked = HashMap::new();
    let mut answered = 0;
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [response, id, name, kind, address, rcode, _, malformed] = fields[..] else {
            panic!("{line}");
        };
        assert_eq!((kind, malformed), ("1", ""), "{line}");
        match response {
            "0" | "False" => {
                assert_eq!(asked.insert(name.to_owned(), id.to_owned()), None, "{line}");
            }
            _ => {
                answered += 1;
                assert_eq!(asked.get(name).map(String::as_str), Some(id), "{line}");
                assert_eq!((address, rcode), (&*ADDRESS.to_string(), "0"), "{line}");
            }
        }
    }
    assert_eq!((asked.len(), answered), (200, 200), "{text}");
    assert!({ 0..200 }.all(|n| asked.contains_key(&format!("host{n}.load.example"))));
}
