//! `lineside forward` against real programs: what measures, traces, floods and listens.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use lineside_wire::TcpFlags;
use lineside_wire::build::{FrameBuilder, TcpFields};
use serde_json::Value;

use crate::support::{Guarded, manifest, talk, wait_until, wait_until_still};
use crate::wall::forward::{Farm, assert_counted, assert_whole, certificate, stats};
use crate::wall::load_ends::number;
use crate::wall::wire::{Namespace, Running, need_wire, run};

#[test]
fn iperf3_passes_both_ways_by_loop_and_driver() {
    need_wire!("iperf3");
    for mode in ["loop", "driver"] {
        let farm = Farm::for_the_driver().with_v6();
        let mut words = vec!["--nat", "fd00:9:2::100", "--mode", mode];
        for service in [
            "tcp 10.9.1.100:5201 to 10.9.2.2:5201",
            "udp 10.9.1.100:5201 to 10.9.2.2:5201",
            "tcp [fd00:9:1::100]:5201 to [fd00:9:2::2]:5201",
            "udp [fd00:9:1::100]:5201 to [fd00:9:2::2]:5201",
        ] {
            words.extend(["--service", service]);
        }
        let forwarder = farm.forward(&words);
        for (node, service) in [("10.9.2.2", "10.9.1.100"), ("fd00:9:2::2", "fd00:9:1::100")] {
            let mut server = farm.nodes.command("iperf3");
            server.args(["-s", "-B", node, "-p", "5201", "--forceflush"]);
            let server = server.stdout(Stdio::null()).spawn().expect("it runs");
            let _server = Guarded(server);
            wait_until("it listens", || listens(&farm.nodes, ":5201"));
            for (test, least) in [
                ("-n 20M", 10 << 20),
                ("-n 20M -R", 10 << 20),
                ("-u -b 40M -n 2M -l 1200", 1 << 20),
                ("-u -b 40M -n 2M -l 1200 -R", 1 << 20),
            ] {
                let mut client = farm.clients.command("iperf3");
                client.args(["-J", "-c", service, "-p", "5201"]);
                let output = client.args(test.split(' ')).output().expect("it runs");
                let all = format!("{mode} {service} {test}: {}", talk(&output));
                assert!(output.status.success(), "{all}");
                let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
                assert!(
                    number(&report, "/end/sum_received/bytes") >= least,
                    "{all}{report:#}"
                );
            }
        }
        let counted = certificate(&forwarder.interrupt());
        assert_whole(&counted);
        let is_driver = counted["driver"]["frames"].as_u64() > Some(1000);
        assert_eq!(is_driver, mode == "driver", "{counted:#}");
    }
}

/// Whether a TCP socket listens in a namespace.
fn listens(namespace: &Namespace, port: &str) -> bool {
    let output = namespace.command("ss").arg("-Hltn").output();
    let text = output.expect("it runs").stdout;
    String::from_utf8_lossy(&text).contains(port)
}

/// A router between clients (10.9.4.7) and forwarder, and one between forwarder and nodes
/// (10.9.3.2) whose last link is narrow.
struct Routed {
    farm: Farm,
    clients: Namespace,
    nodes: Namespace,
}

impl Routed {
    fn new() -> Self {
        // Tests run beside each other.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let farm = Farm::new();
        let [clients, nodes] = ["rc", "rn"].map(|end| Namespace::new(&format!("{end}{number}")));
        for (router, far, [here, there], [ours, theirs], network) in [
            (
                &farm.clients,
                &clients,
                ["r0", "e0"],
                ["10.9.4.1", "10.9.4.7"],
                "10.9.1.0/24",
            ),
            (
                &farm.nodes,
                &nodes,
                ["r1", "e1"],
                ["10.9.3.1", "10.9.3.2"],
                "10.9.2.0/24",
            ),
        ] {
            router.ip(&format!(
                "link add {here} type veth peer name {there} netns {}",
                far.name()
            ));
            router.ip(&format!("addr add {ours}/24 dev {here}"));
            router.ip(&format!("link set {here} up"));
            run(router
                .command("sysctl")
                .args(["-qw", "net.ipv4.ip_forward=1"]));
            far.ip(&format!("addr add {theirs}/24 dev {there}"));
            far.ip(&format!("link set {there} up"));
            far.ip(&format!("route add {network} via {ours}"));
        }
        // The node offers segments that do not fit its link: only the router can say so.
        farm.nodes.ip("link set r1 mtu 1300");
        nodes.ip("link set e1 mtu 1300");
        nodes.ip("route replace 10.9.2.0/24 via 10.9.3.1 advmss 1460");
        Self {
            farm,
            clients,
            nodes,
        }
    }

    fn forward(&self, mode: &str) -> Running {
        let service = "tcp 10.9.1.100:80 to 10.9.3.2:8080";
        let route = "10.9.3.0/24 via 10.9.2.2 dev f1";
        let words = ["--service", service, "--route", route, "--mode", mode];
        self.farm.forward(&words)
    }
}

#[test]
fn routers_on_both_sides_are_heard_and_hidden() {
    need_wire!("traceroute");
    for mode in ["loop", "driver"] {
        let routed = Routed::new();
        let forwarder = routed.forward(mode);
        let listener = routed.nodes.enter(|| TcpListener::bind("10.9.3.2:8080"));
        let listener = listener.expect("free");
        // A transfer whose segments are too long for the last link.
        let sent: Vec<u8> = (0..2 << 20)
            .map(|at: usize| (at * 31 % 251) as u8)
            .collect();
        let mut arrived = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("the other end");
                stream.read_to_end(&mut arrived).expect("all of it");
            });
            let connect = || TcpStream::connect("10.9.1.100:80");
            let mut stream = routed.clients.enter(connect).expect("it listens");
            stream.write_all(&sent).expect("it is read");
        });
        assert!(arrived == sent, "{mode}: every byte arrived");
        let route = routed
            .clients
            .command("ip")
            .args(["route", "get", "10.9.1.100"])
            .output();
        let route = String::from_utf8(route.expect("it runs").stdout).expect("text");
        assert!(
            route.contains("mtu 1300"),
            "{mode}: the path's size is known: {route}"
        );
        // Each station answers; those behind the forwarder have the service's address.
        let mut trace = routed.clients.command("traceroute");
        trace.args([
            "-n",
            "-T",
            "-p",
            "80",
            "-q",
            "1",
            "-w",
            "2",
            "-m",
            "6",
            "10.9.1.100",
        ]);
        let output = trace.output().expect("it runs");
        let text = String::from_utf8(output.stdout).expect("text");
        let stations: Vec<&str> = { text.lines().skip(1) }
            .filter_map(|line| line.split_whitespace().nth(1))
            .collect();
        assert_eq!(
            stations,
            ["10.9.4.1", "10.9.1.100", "10.9.1.100", "10.9.1.100"],
            "{text}"
        );
        assert_whole(&certificate(&forwarder.interrupt()));
    }
}

/// The Ethernet address of the forwarder's port to clients.
fn port_of(farm: &Farm) -> [u8; 6] {
    let mut cat = farm.forwarder.command("cat");
    let output = cat
        .arg("/sys/class/net/f0/address")
        .output()
        .expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let bytes = text
        .trim()
        .split(':')
        .map(|byte| u8::from_str_radix(byte, 16));
    let bytes: Result<Vec<u8>, _> = bytes.collect();
    bytes.expect("an address").try_into().expect("six bytes")
}

/// Sends each frame that it reads so often, from the clients' side.
const SENDER: &str = "
import socket, sys
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
port.bind(('c0', 0))
for _ in range(TIMES):
    for line in LINES:
        port.send(line)
";

fn flood(farm: &Farm, frames: &[Vec<u8>], times: usize) {
    let program = SENDER
        .replace("TIMES", &times.to_string())
        .replace("LINES", "lines")
        .replace(
            "for _",
            "lines = [bytes.fromhex(line) for line in sys.stdin]\nfor _",
        );
    farm.clients.python(&program, frames);
}

/// SYNs whose senders are not there.
fn spoofed(farm: &Farm, from: u32, count: u32) -> Vec<Vec<u8>> {
    let port = port_of(farm);
    let frame = |number: u32| {
        let source = Ipv4Addr::from_bits(0x0a10_0000 + number / 7);
        let fields = TcpFields {
            source_port: 1024 + (number % 50_000) as u16,
            destination_port: 80,
            sequence: number,
            flags: TcpFlags::SYN,
            window: 1000,
            ..TcpFields::default()
        };
        FrameBuilder::new(source.into(), [10, 9, 1, 100].into())
            .with_link_addresses([2, 0, 0, 0, 9, 9], port)
            .tcp(&fields, &[])
    };
    (from..from + count).map(frame).collect()
}

fn resident_bytes(running: &Running) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.id()));
    let status = status.expect("it runs");
    let line = { status.lines() }.find_map(|line| line.strip_prefix("VmRSS:"));
    let digits = line.and_then(|line| line.trim().strip_suffix(" kB"));
    1024 * digits
        .and_then(|digits| digits.parse::<u64>().ok())
        .expect("a number")
}

/// A request by a connection that stays.
fn ask(stream: &mut TcpStream) {
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .expect("it is there");
    let mut got = [0; 4096];
    let len = stream.read(&mut got).expect("an answer");
    assert!(got[..len].starts_with(b"HTTP/1.1 200"), "{:?}", &got[..len]);
}

#[test]
fn a_flood_of_syns_costs_no_memory_and_no_connection() {
    need_wire!("python3");
    let farm = Farm::new();
    let _node = farm.node("10.9.2.2:8080");
    let service = "tcp 10.9.1.100:80 to 10.9.2.2:8080";
    let forwarder = farm.forward(&[
        "--service",
        service,
        "--mode",
        "loop",
        "--connections-max",
        "2000",
        "--syn-cookies",
        "25%",
    ]);
    let connect = || TcpStream::connect("10.9.1.100:80").expect("it listens");
    let mut stays = farm.clients.enter(connect);
    stays
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a time");
    ask(&mut stays);
    flood(&farm, &spoofed(&farm, 0, 20_000), 1);
    let before = resident_bytes(&forwarder);
    let frames = spoofed(&farm, 20_000, 40_000);
    let found = thread::scope(|scope| {
        scope.spawn(|| flood(&farm, &frames, 1));
        let words = ["http://10.9.1.100/", "-c", "4", "-n", "400"];
        let found = farm.load(&[&words[..], &["--requests-per-connection", "1"]].concat());
        ask(&mut stays);
        found
    });
    ask(&mut stays);
    let failed = found["requests"]["failed"].as_object().expect("a table");
    let failed: u64 = failed.values().filter_map(Value::as_u64).sum();
    assert_eq!(
        number(&found, "/requests/succeeded") + failed,
        400,
        "{found:#}"
    );
    assert!(failed <= 4, "1 in 100: {found:#}");
    let grown = resident_bytes(&forwarder).saturating_sub(before);
    // Frames that wait on a busy machine take some of it; 40,000 connections would take 10 MB.
    assert!(grown < 4 << 20, "{grown} bytes for 40,000 SYNs");
    let counted = certificate(&forwarder.interrupt());
    // A machine that is busy beside may not bear the flood: those frames are counted as dropped.
    assert_counted(&counted);
    // The share was crossed: of the SYNs that came, all but those below it got a cookie.
    let cookies = number(&counted, "/splices/counters/cookies_sent");
    assert!(cookies > 0, "{counted:#}");
}

#[test]
fn frames_beyond_what_it_bears_are_counted() {
    need_wire!("python3");
    let farm = Farm::new();
    let service = "udp 10.9.1.100:9 to 10.9.2.2:9";
    for method in ["af_xdp", "af_packet"] {
        let forwarder = farm.forward(&["--service", service, "--mode", "loop", "--method", method]);
        let port = port_of(&farm);
        let frame = |from: u16| {
            FrameBuilder::new([10, 9, 1, 7].into(), [10, 9, 1, 100].into())
                .with_link_addresses([2, 0, 0, 0, 9, 9], port)
                .udp(from, 9, &[7; 18])
        };
        let frames: Vec<Vec<u8>> = (1000..1100).map(frame).collect();
        flood(&farm, &frames, 1);
        // It stands still while many more come than its rings hold.
        forwarder.signal("STOP");
        flood(&farm, &frames, 1_000);
        forwarder.signal("CONT");
        wait_until_still("it took what it has", || {
            number(&stats(&forwarder), "/arrived")
        });
        let after = number(&stats(&forwarder), "/outcomes/to node");
        flood(&farm, &frames, 1);
        wait_until("it goes on", || {
            number(&stats(&forwarder), "/outcomes/to node") == after + 100
        });
        let ended = forwarder.interrupt();
        let facts = manifest(&ended.out)
            .inputs
            .remove(0)
            .live
            .expect("a live one");
        let counted = certificate(&ended);
        let sum = counted["outcomes"].as_object().expect("a table").values();
        let sum: u64 = sum.filter_map(Value::as_u64).sum();
        assert_eq!(
            number(&counted, "/arrived"),
            sum + number(&counted, "/held")
        );
        let dropped = facts.dropped_ring + facts.dropped_interface + facts.dropped_pool;
        let came = number(&counted, "/interfaces/0/came");
        let all = format!("{method}: {facts:?}, {counted:#}");
        assert!(facts.arrived >= 100_200 && dropped > 0, "{all}");
        assert_eq!(facts.arrived, came + dropped, "{all}");
        assert_eq!(counted["verdict"]["state"], "incomplete", "{all}");
    }
}
