//! `lineside emulate --on`: a host of its own stack, whose connections outlive what is put in front
//! of its interface.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lineside_time::Random;

use crate::support::{held_status, lineside, manifest, talk, wait_until};
use crate::wall::between::emulate;
use crate::wall::wire::{Namespace, Running, need_wire, run};

/// A host whose `eth0` is joined with `e0` of a far one, by which it reaches all others.
struct Hosts {
    host: Namespace,
    far: Namespace,
}

/// The far host's address in the network of both, beyond it, and one that the host has a route for:
/// by both families.
const FAR: [&str; 6] = [
    "192.0.2.2",
    "203.0.113.9",
    "198.51.100.7",
    "2001:db8::2",
    "2001:db8:9::9",
    "2001:db8:1::7",
];

/// A datagram that arrives, whatever signals do meanwhile.
fn received(socket: &UdpSocket, bytes: &mut [u8]) -> (usize, SocketAddr) {
    loop {
        match socket.recv_from(bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            received => return received.expect("it arrives"),
        }
    }
}

impl Hosts {
    fn new() -> Self {
        // Tests run beside each other.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let host = Namespace::new(&format!("oh{number}"));
        let far = Namespace::new(&format!("of{number}"));
        for end in [&host, &far] {
            // No address waits until it is known to be the only one.
            let with_v6 = "cd /proc/sys/net/ipv6/conf; for which in all default; do \
            echo 0 >$which/accept_dad; echo 0 >$which/disable_ipv6; done";
            run(end.command("sh").args(["-c", with_v6]));
            end.ip("link set lo up");
        }
        host.ip(&format!(
            "link add eth0 numrxqueues 1 numtxqueues 1 type veth peer name e0 numrxqueues 1 \
            numtxqueues 1 netns {}",
            far.name()
        ));
        run(far
            .command("ethtool")
            .args(["-K", "e0", "tso", "off", "gso", "off"]));
        for (end, words) in [
            (&host, "link set eth0 up"),
            (&far, "link set e0 up"),
            (&host, "addr add 192.0.2.1/24 brd + dev eth0"),
            (&host, "addr add 192.0.2.77/24 dev eth0"),
            (&host, "addr add 2001:db8::1/64 dev eth0 nodad"),
            (&far, "addr add 192.0.2.2/24 dev e0"),
            (&far, "addr add 2001:db8::2/64 dev e0 nodad"),
            (&host, "route add default via 192.0.2.2 metric 100"),
            (&host, "route add 198.51.100.7/32 via 192.0.2.2"),
            (&host, "route add 192.0.2.0/24 dev eth0 table 100"),
            (&host, "rule add from 192.0.2.77 lookup 100"),
            (&host, "-6 route add default via 2001:db8::2"),
            (&host, "-6 route add 2001:db8:1::7/128 via 2001:db8::2"),
            (&far, "addr add 203.0.113.9/32 dev lo"),
            (&far, "addr add 198.51.100.7/32 dev lo"),
            (&far, "addr add 2001:db8:9::9/128 dev lo nodad"),
            (&far, "addr add 2001:db8:1::7/128 dev lo nodad"),
        ] {
            end.ip(words);
        }
        let hosts = Self { host, far };
        wait_until("both have all their addresses", || {
            let state = hosts.state();
            !state.contains("tentative") && state.contains("local fe80:")
        });
        hosts
    }

    /// What the host is configured to do.
    fn state(&self) -> String {
        let asked = [
            "-d addr",
            "route show table all",
            "-6 route",
            "rule",
            "-6 rule",
            "-d link show eth0",
        ];
        let answer = |words: &str| {
            let ip = { self.host.command("ip") }.args(words.split(' ')).output();
            String::from_utf8(ip.expect("ip runs").stdout).expect("text")
        };
        asked.map(answer).concat()
    }

    /// The shortest of some round trips of datagrams with a far address.
    fn round_trip(&self, from: &str, to: &str) -> Duration {
        let bind = |host: &Namespace, address: &str| {
            let socket = host.enter(|| UdpSocket::bind((address, 0)).expect("free"));
            let patience = Some(Duration::from_secs(5));
            socket.set_read_timeout(patience).expect("a time");
            socket
        };
        let (asking, echo) = (bind(&self.host, from), bind(&self.far, to));
        let trip = |number: u8| {
            #[expect(
                clippy::disallowed_methods,
                reason = "the time of the wire is measured"
            )]
            let began = Instant::now();
            let to = echo.local_addr().expect("it is bound");
            asking.send_to(&[number], to).expect("sent");
            let mut byte = [0];
            let (_, back) = received(&echo, &mut byte);
            echo.send_to(&byte, back).expect("sent");
            received(&asking, &mut byte);
            began.elapsed()
        };
        // The first one waits for an address too.
        (0..4).map(trip).min().expect("some")
    }

    /// A connection to a far address: the host's end, and the other one.
    fn connect(&self, to: &str) -> [TcpStream; 2] {
        let listener = self.far.enter(|| TcpListener::bind((to, 0)).expect("free"));
        let address = listener.local_addr().expect("it is bound");
        let near = self.host.enter(|| TcpStream::connect(address));
        let (far, _) = listener.accept().expect("the other end");
        let ends = [near.expect("it listens"), far];
        for end in &ends {
            end.set_nodelay(true).expect("TCP");
            let patience = Some(Duration::from_secs(20));
            end.set_read_timeout(patience).expect("a time");
        }
        ends
    }
}

/// Sends random bytes there and back again; the time that took.
fn exchange(ends: &mut [TcpStream; 2], random: &mut Random) -> Duration {
    #[expect(
        clippy::disallowed_methods,
        reason = "the time of the wire is measured"
    )]
    let began = Instant::now();
    let [near, far] = ends;
    let sent: Vec<u8> = (0..4000).map(|_| random.below(256) as u8).collect();
    let mut arrived = vec![0; sent.len()];
    near.write_all(&sent).expect("it is open");
    far.read_exact(&mut arrived).expect("all of it");
    assert!(arrived == sent, "every byte arrived");
    far.write_all(&arrived).expect("it is open");
    near.read_exact(&mut arrived).expect("all of it");
    assert!(arrived == sent, "every byte came back");
    began.elapsed()
}

/// A run on `eth0` with these words; it listens when this returns.
fn emulate_on(hosts: &Hosts, words: &[&str]) -> Running {
    let words = [&["--on", "eth0", "--wait", "sleep"], words].concat();
    emulate(&hosts.host, &words, "eth0")
}

#[test]
fn what_a_host_sends_and_receives_is_late_by_both_delays() {
    need_wire!();
    for method in ["auto", "af_xdp_generic"] {
        let hosts = Hosts::new();
        let before = hosts.state();
        let link = ["--delay", "out: 12ms", "--delay", "eth0 in: 8ms"];
        let running = emulate_on(&hosts, &[&["--method", method], &link[..]].concat());
        for far in FAR {
            let near = if far.contains(':') {
                "2001:db8::1"
            } else {
                "192.0.2.1"
            };
            let trip = hosts.round_trip(near, far);
            assert!(trip >= Duration::from_micros(19_900), "{far}: {trip:?}");
        }
        // By a table of its own.
        let trip = hosts.round_trip("192.0.2.77", "192.0.2.2");
        assert!(trip >= Duration::from_micros(19_900), "{trip:?}");
        // Both begin connections, and the far one is not aware of anything.
        let mut random = Random::new(5);
        for far in ["203.0.113.9", "2001:db8::2"] {
            let took = exchange(&mut hosts.connect(far), &mut random);
            assert!(took >= Duration::from_micros(19_900), "{far}: {took:?}");
        }
        let ended = running.interrupt();
        let held = held_status(&ended.out);
        assert_eq!(ended.status.code(), Some(held), "{}", ended.messages);
        assert_eq!(hosts.state(), before, "{method}");
        let manifest = manifest(&ended.out);
        let names: Vec<_> = { manifest.inputs.iter() }
            .map(|input| input.name.as_str())
            .collect();
        assert_eq!(names, ["host", "eth0"]);
        let certificate = manifest.certificate.expect("it is there");
        for (way, delay_ns) in [("outbound", 12e6), ("inbound", 8e6)] {
            let report = &certificate["directions"][way];
            let count = |name: &str| report["counters"][name].as_u64().expect("a number");
            assert!(count("entered") > 20, "{report:#}");
            let realised = report["realised"]["p50_ns"].as_f64().expect("a number");
            assert!(realised >= delay_ns - 50_000.0, "{report:#}");
        }
        // It goes on without the link.
        hosts.round_trip("192.0.2.1", "192.0.2.2");
    }
}

/// How often a run is killed; by hand more often: `LINESIDE_KILLS=50`.
fn kills() -> usize {
    let given = std::env::var("LINESIDE_KILLS").ok();
    given.map_or(10, |kills| kills.parse().expect("a number"))
}

#[test]
fn kill_9_leaves_a_host_and_its_connections_as_they_were() {
    need_wire!();
    let hosts = Hosts::new();
    let mut random = Random::new(9);
    // Begun before there was a link.
    let mut connections = FAR.map(|far| hosts.connect(far));
    for connection in &mut connections {
        exchange(connection, &mut random);
    }
    let before = hosts.state();
    for _ in 0..kills() {
        let running = emulate_on(&hosts, &["--delay", "10ms"]);
        assert_ne!(hosts.state(), before);
        for connection in &mut connections {
            let took = exchange(connection, &mut random);
            assert!(took >= Duration::from_micros(19_900), "{took:?}");
        }
        // One that is open at both ends of a link alone goes on without it too.
        let mut during = hosts.connect("203.0.113.9");
        exchange(&mut during, &mut random);
        running.signal("KILL");
        assert_eq!(running.end().status.code(), None);
        let mut after = String::new();
        wait_until("device and program are gone", || {
            after = hosts.state();
            !after.contains("lineside0") && !after.contains("prog/xdp")
        });
        assert_eq!(after, before);
        for connection in connections.iter_mut().chain([&mut during]) {
            exchange(connection, &mut random);
        }
    }
}

#[test]
fn what_nothing_can_stand_in_front_of_is_refused() {
    need_wire!();
    let hosts = Hosts::new();
    let refused = |words: &[&str]| {
        let mut command = hosts.host.command(lineside().get_program());
        let output = command.arg("emulate").args(words).output();
        let output = output.expect("it runs");
        assert_eq!(
            output.status.code(),
            Some(2),
            "{words:?}: {}",
            talk(&output)
        );
        talk(&output)
    };
    for words in [
        "link add bare type veth peer name bare-other",
        "link add br0 type bridge",
        "link add member type veth peer name member-other",
        "link set member master br0",
        "link add trunk type veth peer name trunk-other",
        "link add link trunk name trunk.7 type macvlan",
        "addr add 10.0.0.1/24 dev trunk",
    ] {
        hosts.host.ip(words);
    }
    for (interface, why, way_out) in [
        ("lo", "is for itself", "emulate --loopback -- CMD"),
        ("member", "belongs to br0", "--on br0"),
        (
            "trunk",
            "trunk.7 is built on this interface",
            "--on trunk.7",
        ),
        ("bare", "has no address there", "--between IF1,IF2"),
    ] {
        let message = refused(&["--on", interface]);
        assert!(message.contains(why), "{interface}: {message}");
        assert!(message.contains(way_out), "{interface}: {message}");
    }
    for (words, why) in [
        (
            &["--on", "eth0", "--method", "af_packet"][..],
            "as well as late: leave --method out",
        ),
        (
            &["--on", "eth0", "--", "true"],
            "--on is for 'emulate --on IF'",
        ),
        (
            &["--on", "eth0", "--between", "a,b"],
            "--on is for 'emulate --on IF'",
        ),
        (
            &["--on", "eth0", "--delay", "eth1 in: 1ms"],
            "the ports are host, eth0",
        ),
    ] {
        let message = refused(words);
        assert!(message.contains(why), "{words:?}: {message}");
    }
    let mut missing = hosts.host.command(lineside().get_program());
    let output = missing.args(["emulate", "--on", "eth1"]).output();
    let message = talk(&output.expect("it runs"));
    assert!(message.contains("did you mean 'eth0'?"), "{message}");

    let running = emulate_on(&hosts, &[]);
    for (interface, why) in [
        ("eth0", "an XDP program is attached to it"),
        ("lineside0", "the device of another run"),
    ] {
        let message = refused(&["--on", interface]);
        assert!(message.contains(why), "{interface}: {message}");
    }
    let ended = running.interrupt();
    assert_eq!(ended.status.code(), Some(held_status(&ended.out)));
}
