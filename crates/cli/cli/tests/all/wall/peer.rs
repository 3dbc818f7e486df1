//! Our TCP endpoint (`tcp-peer`) against the kernel's: real segments over a veth pair, and through
//! an emulated link, both ways round. Every byte is compared at each end.
//!
//! `LINESIDE_PEER_SEEDS=FROM..TO` runs more cases and links, drawn by seed. `LINESIDE_PEER_BYTES=N`
//! sends N bytes on one connection by each method, and prints the rate.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lineside_testkit::drive::fill;
use lineside_testkit::peer::stream_seed;
use lineside_time::Random;
use serde_json::Value;

use crate::support::{talk, wait_until};
use crate::wall::between::emulate;
use crate::wall::lab::testkit_program;
use crate::wall::wire::{Namespace, Running, need_wire, obstacle, private_folder, run};

const SEED: u64 = 5;
const METHODS: [&str; 3] = ["af_packet", "af_xdp", "af_xdp_generic"];
/// The kernel's addresses; those of our endpoint end with 2.
const KERNEL: [&str; 2] = ["192.0.2.1", "2001:db8::1"];
pub(crate) const OURS: [&str; 2] = ["192.0.2.2", "2001:db8::2"];
const BITS: [u8; 2] = [24, 64];
/// A test machine may be busy.
const PATIENCE: Duration = Duration::from_secs(90);

/// A host with a kernel's TCP, and one with ours, with a veth pair between them, or one from each
/// to a host in the middle.
pub(crate) struct Ends {
    pub(crate) kernel: Namespace,
    ours: Namespace,
    middle: Option<Namespace>,
    program: PathBuf,
}

impl Ends {
    pub(crate) fn new(mtu: u32, has_middle: bool) -> Self {
        // Tests run beside each other.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let namespace = |end| Namespace::new(&format!("{end}{number}"));
        let ends = Self {
            kernel: namespace("pk"),
            ours: namespace("po"),
            middle: has_middle.then(|| namespace("pm")),
            program: testkit_program("tcp-peer"),
        };
        match &ends.middle {
            None => join((&ends.kernel, "k0"), (&ends.ours, "p0"), mtu),
            Some(middle) => {
                join((&ends.kernel, "k0"), (middle, "m0"), mtu);
                join((&ends.ours, "p0"), (middle, "m1"), mtu);
            }
        }
        // A web server there is looked for by its own host.
        ends.kernel.ip("link set lo up");
        let v6 = "echo 0 >/proc/sys/net/ipv6/conf/k0/disable_ipv6";
        run(ends.kernel.command("sh").args(["-c", v6]));
        for (address, bits) in KERNEL.into_iter().zip(BITS) {
            let more = if bits == 64 { " nodad" } else { "" };
            ends.kernel
                .ip(&format!("addr add {address}/{bits} dev k0{more}"));
        }
        ends
    }

    /// Without a link between them: our end makes a TAP device where the kernel is.
    fn at_a_tap_device() -> Self {
        let ends = Self::new(1500, false);
        ends.kernel.ip("link del k0");
        let v6 = "echo 0 >/proc/sys/net/ipv6/conf/default/disable_ipv6";
        run(ends.kernel.command("sh").args(["-c", v6]));
        ends
    }

    /// `tcp-peer` with these words at our end.
    pub(crate) fn peer(&self, family: usize, words: &str) -> Command {
        let is_tap = words.contains("--method tap");
        let (namespace, name) = match is_tap {
            // The kernel is the other end of the device itself.
            true => (&self.kernel, "t0"),
            false => (&self.ours, "p0"),
        };
        let mut command = namespace.command(&self.program);
        let address = format!("{}/{}", OURS[family], BITS[family]);
        command.args([
            "-i",
            name,
            "--seed",
            &SEED.to_string(),
            "--address",
            &address,
        ]);
        if is_tap {
            command.args(["--host", KERNEL[family]]);
        }
        command.args(words.split_whitespace());
        command
    }
}

/// A veth pair between two namespaces, whose ends send nothing that is longer than a frame.
fn join((one, name): (&Namespace, &str), (other, end): (&Namespace, &str), mtu: u32) {
    // Native XDP takes as many queues to receive as the other end has to send.
    let queues = "numrxqueues 1 numtxqueues 1";
    one.ip(&format!(
        "link add {name} mtu {mtu} {queues} type veth peer name {end} mtu {mtu} {queues} netns {}",
        other.name()
    ));
    for (namespace, name) in [(one, name), (other, end)] {
        let off = ["-K", name, "tso", "off", "gso", "off", "gro", "off"];
        run(namespace.command("ethtool").args(off));
        namespace.ip(&format!("link set {name} up"));
    }
}

/// What our end does with each connection; the kernel's does its counterpart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Echo,
    Sink,
    Source,
    Ask,
}

const WORKS: [Work; 4] = [Work::Echo, Work::Sink, Work::Source, Work::Ask];

/// A run of `tcp-peer` against the kernel.
#[derive(Debug, Clone, Copy)]
struct Case {
    /// 0: IPv4, 1: IPv6.
    family: usize,
    method: &'static str,
    /// Our end opens the connections.
    connects: bool,
    work: Work,
    connections: usize,
    bytes: u64,
    linger: f64,
}

impl Case {
    fn words(&self) -> String {
        let bytes = self.bytes;
        let work = match self.work {
            Work::Echo => "echo".to_owned(),
            Work::Sink => format!("sink --bytes {bytes}"),
            Work::Source => format!("source --bytes {bytes}"),
            Work::Ask => format!("ask --bytes {bytes}"),
        };
        let connect = match self.connects {
            true => format!(
                "--connect {}",
                SocketAddr::new(address_of(KERNEL[self.family]), 7)
            ),
            false => String::new(),
        };
        format!(
            "--method {} --connections {} --timeout 80 --linger {} {connect} {work}",
            self.method, self.connections, self.linger
        )
    }

    /// The other end of each connection.
    fn kernel(&self, mut stream: TcpStream) {
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        stream.set_write_timeout(Some(PATIENCE)).expect("a time");
        let ends = [stream.local_addr(), stream.peer_addr()].map(|end| end.expect("connected"));
        let is_client = !self.connects;
        let client_port = ends[usize::from(!is_client)].port();
        let mine = stream_seed(SEED, client_port, is_client);
        let other = stream_seed(SEED, client_port, !is_client);
        match self.work {
            Work::Ask => return_all(&mut stream),
            Work::Source => compare(&mut stream, other, self.bytes),
            Work::Sink => {
                send(&mut stream, mine, self.bytes);
                compare(&mut stream, other, 0);
            }
            Work::Echo => {
                let mut sending = stream.try_clone().expect("a descriptor");
                std::thread::scope(|scope| {
                    scope.spawn(move || send(&mut sending, mine, self.bytes));
                    compare(&mut stream, mine, self.bytes);
                });
            }
        }
    }

    /// Runs it; returns what `tcp-peer` counted.
    fn run(&self, ends: &Ends) -> Value {
        let folder = private_folder();
        let out = folder.path().join("none");
        let mut command = ends.peer(self.family, &self.words());
        let end = SocketAddr::new(address_of(OURS[self.family]), 7);
        let mut peer = None;
        std::thread::scope(|scope| {
            let listener = self.connects.then(|| {
                // A TAP device, and its address, come later.
                let end = SocketAddr::new(address_of(["0.0.0.0", "::"][self.family]), 7);
                let listener = ends.kernel.enter(|| TcpListener::bind(end).expect("free"));
                // Beyond this the kernel forgets handshakes, whose last segment may be lost.
                rustix::net::listen(&listener, 1024).expect("it listens");
                listener
            });
            let running = Running::spawn(&mut command, out, folder);
            running.wait_until("it is there", || running.messages().contains(" is at "));
            for _ in 0..self.connections {
                match &listener {
                    Some(listener) => {
                        let stream = accept(listener, &running);
                        scope.spawn(move || self.kernel(stream));
                    }
                    // All at once: a lost SYN takes a second.
                    None => drop(scope.spawn(move || {
                        let connect = || TcpStream::connect(end).expect("it listens");
                        self.kernel(ends.kernel.enter(connect));
                    })),
                }
            }
            peer = Some(running);
        });
        let ended = peer.expect("it was started").end();
        assert!(
            ended.status.success(),
            "{self:?}: {}{}",
            ended.messages,
            ended.printed()
        );
        let counted: Value = serde_json::from_str(&ended.printed()).expect("JSON");
        let connections = self.connections as u64;
        assert_eq!(counted["opened"], connections, "{self:?}: {counted}");
        assert_eq!(counted["finished"], connections, "{self:?}: {counted}");
        let bytes = match self.work {
            Work::Source => 0,
            _ => connections * self.bytes,
        };
        assert_eq!(counted["bytes_received"], bytes, "{self:?}: {counted}");
        counted
    }
}

fn address_of(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// The next connection, unless the other end fails before.
fn accept(listener: &TcpListener, running: &Running) -> TcpStream {
    listener.set_nonblocking(true).expect("a socket");
    let mut accepted = None;
    running.wait_until("it connects", || {
        if accepted.is_none() {
            accepted = match listener.accept() {
                Ok((stream, _)) => Some(stream),
                Err(error) if error.kind() == ErrorKind::WouldBlock => None,
                Err(error) => panic!("{error}"),
            };
        }
        accepted.is_some()
    });
    let stream = accepted.expect("it was waited for");
    stream.set_nonblocking(false).expect("a socket");
    stream
}

fn return_all(stream: &mut TcpStream) {
    let mut bytes = vec![0; 1 << 16];
    loop {
        match stream.read(&mut bytes).expect("bytes or an end") {
            0 => return stream.shutdown(Shutdown::Write).expect("it is open"),
            len => stream.write_all(&bytes[..len]).expect("it is read"),
        }
    }
}

fn send(stream: &mut TcpStream, seed: u64, len: u64) {
    let mut bytes = vec![0; 1 << 16];
    for offset in (0..len).step_by(1 << 16) {
        let part = &mut bytes[..(len - offset).min(1 << 16) as usize];
        fill(seed, offset, part);
        stream.write_all(part).expect("it is read");
    }
    stream.shutdown(Shutdown::Write).expect("it is open");
}

/// So many bytes come, these, and then the end.
fn compare(stream: &mut TcpStream, seed: u64, len: u64) {
    let mut bytes = vec![0; 1 << 16];
    let mut expected = vec![0; 1 << 16];
    let mut at = 0;
    loop {
        let read = stream.read(&mut bytes).expect("bytes or an end");
        if read == 0 {
            break;
        }
        fill(seed, at, &mut expected[..read]);
        assert!(
            bytes[..read] == expected[..read],
            "another byte than was sent, near {at}"
        );
        at += read as u64;
    }
    assert_eq!(at, len, "bytes until the end");
}

#[test]
fn a_kernels_tcp_and_ours_exchange_every_byte() {
    need_wire!();
    let ends = Ends::new(1500, false);
    // Every method with every family, way and work; sizes and numbers take turns.
    let sizes = [
        (1, 1),
        (100, 20_000),
        (1, 3_000_000),
        (100, 1),
        (5, 1_449),
        (20, 100_000),
    ];
    let mut sizes = sizes.into_iter().cycle();
    for method in METHODS {
        for family in [0, 1] {
            for connects in [true, false] {
                for work in WORKS {
                    let (connections, bytes) = sizes.next().expect("for ever");
                    let case = Case {
                        family,
                        method,
                        connects,
                        work,
                        connections,
                        bytes,
                        linger: 0.05,
                    };
                    let counted = case.run(&ends);
                    assert_eq!(counted["stack"]["checksum_wrong"], 0, "{case:?}: {counted}");
                    assert_eq!(counted["frames_too_long"], 0, "{case:?}: {counted}");
                }
            }
            // Another work for each size.
            sizes.next();
        }
    }
}

#[test]
fn five_hundred_connections_at_once_lose_no_byte() {
    need_wire!();
    let ends = Ends::new(1500, false);
    for (method, connects) in [("af_packet", true), ("af_xdp", false)] {
        let case = Case {
            family: 0,
            method,
            connects,
            work: Work::Ask,
            connections: 500,
            bytes: 20_000,
            linger: 0.05,
        };
        case.run(&ends);
    }
}

#[test]
fn a_tap_device_joins_a_kernels_tcp_and_ours() {
    need_wire!();
    let ends = Ends::at_a_tap_device();
    for family in [0, 1] {
        for connects in [true, false] {
            for (work, connections, bytes) in [
                (Work::Echo, 5, 300_000),
                (Work::Sink, 100, 1_449),
                (Work::Source, 1, 3_000_000),
                (Work::Ask, 20, 1),
            ] {
                let case = Case {
                    family,
                    method: "tap",
                    connects,
                    work,
                    connections,
                    bytes,
                    linger: 0.05,
                };
                let counted = case.run(&ends);
                assert_eq!(counted["method"], "TAP", "{case:?}: {counted}");
                // Its checksums are whole.
                assert_eq!(counted["stack"]["offloaded"], 0, "{case:?}: {counted}");
            }
        }
    }
}

#[test]
fn long_frames_pass_between_a_kernels_tcp_and_ours() {
    need_wire!();
    let ends = Ends::new(9000, false);
    for (method, work) in METHODS.into_iter().cycle().zip([WORKS, WORKS].concat()) {
        for family in [0, 1] {
            let case = Case {
                family,
                method,
                connects: family == 0,
                work,
                connections: 3,
                bytes: 1_000_000,
                linger: 0.05,
            };
            let counted = case.run(&ends);
            // Of 8,948 bytes, beside acknowledgements.
            let sent = counted["stack"]["sent"].as_u64().expect("a number");
            let most = if work == Work::Source {
                3_000_000 / 8_000 * 2
            } else {
                u64::MAX
            };
            assert!(sent < most, "{case:?}: {counted}");
        }
    }
}

#[test]
fn a_link_that_loses_and_reorders_loses_no_connection() {
    need_wire!();
    let ends = Ends::new(1500, true);
    let middle = ends.middle.as_ref().expect("it was asked for");
    let links: [(&str, &[&str]); 5] = [
        ("af_xdp", &["--delay", "1ms", "--loss", "5%"]),
        (
            "af_packet",
            &["--delay", "3ms 2ms order reorder", "--duplicate", "2%"],
        ),
        (
            "af_xdp",
            &[
                "--delay",
                "2ms 1ms order reorder",
                "--loss",
                "1%",
                "--duplicate",
                "1%",
            ],
        ),
        (
            "af_packet",
            &[
                "--rate",
                "50mbit",
                "--limit",
                "60kB",
                "--delay",
                "5ms",
                "--corrupt",
                "1%",
            ],
        ),
        ("af_xdp", &["--delay", "1ms", "--link", "flap 300ms 100ms"]),
    ];
    for (number, (method, link)) in links.into_iter().enumerate() {
        let seed = number.to_string();
        let words = ["--between", "m0,m1", "--wait", "sleep", "--seed", &seed];
        let running = emulate(middle, &[&words[..], link].concat(), "m1");
        for (turn, work) in WORKS.into_iter().enumerate() {
            // Every work on one connection and on many, in turns.
            let (connections, bytes) = [(1, 400_000), (50, 4_000)][(number + turn) % 2];
            let case = Case {
                family: turn / 2,
                method,
                connects: (turn + number / 2) % 2 == 0,
                work,
                connections,
                bytes,
                linger: 0.2,
            };
            case.run(&ends);
        }
        let ended = running.interrupt();
        assert!(
            matches!(ended.status.code(), Some(0 | 4)),
            "{}",
            ended.messages
        );
    }
}

/// A case and the words of its link, drawn by a seed.
fn draw(seed: u64) -> (Case, u32, String) {
    let mut random = Random::new(seed);
    let mut pick = |most: u64| random.below(most) as usize;
    let connections = [1, 2, 20, 100, 500][pick(5)];
    let bytes = [1, 100, 1_448, 10_000, 100_000][pick(5)] + pick(1_000) as u64;
    let case = Case {
        family: pick(2),
        method: METHODS[pick(3)],
        connects: pick(2) == 0,
        work: WORKS[pick(4)],
        connections,
        // Not more than 3 MB in all.
        bytes: bytes.min(3_000_000 / connections as u64),
        linger: 0.2,
    };
    let delay_us = [100, 1_000, 5_000, 20_000][pick(4)];
    let jitter_us = pick(delay_us / 2 + 1);
    let order = ["", " order reorder"][pick(2)];
    let mut link = format!("--delay;{delay_us}us {jitter_us}us{order};--limit;2MB");
    for (key, most) in [
        ("loss", 50),
        ("duplicate", 30),
        ("corrupt", 10),
        ("reorder", 20),
    ] {
        if pick(2) == 0 {
            link += &format!(";--{key};0.{:02}%", pick(100));
        } else if pick(2) == 0 {
            link += &format!(";--{key};{}.{}%", pick(most) / 10, pick(10));
        }
    }
    if pick(3) == 0 {
        link += &format!(";--rate;{}mbit", 5 + pick(100));
    }
    if pick(4) == 0 {
        link += &format!(";--link;flap {}ms {}ms", 200 + pick(500), 20 + pick(200));
    }
    (case, [1500, 9000][pick(2)], link)
}

#[test]
fn no_drawn_case_and_link_loses_a_connection() {
    need_wire!();
    let text = std::env::var("LINESIDE_PEER_SEEDS").unwrap_or_default();
    let bounds = text.split_once("..");
    let bounds = bounds.and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    let (from, to) = bounds.unwrap_or((0, 4));
    for seed in from..to {
        let (case, mtu, link) = draw(seed);
        let ends = Ends::new(mtu, true);
        let middle = ends.middle.as_ref().expect("it was asked for");
        println!("seed {seed}: {case:?}, MTU {mtu}, {link}");
        let text = seed.to_string();
        let mut words = vec!["--between", "m0,m1", "--wait", "sleep", "--seed", &text];
        words.extend(link.split(';'));
        let running = emulate(middle, &words, "m1");
        let counted = case.run(&ends);
        println!("seed {seed}: {} s", counted["seconds"]);
        let ended = running.interrupt();
        assert!(
            matches!(ended.status.code(), Some(0 | 4)),
            "{}",
            ended.messages
        );
    }
}

/// Runs two programs at once, the first of which listens; both end well.
fn both(server: &mut Command, client: &mut Command) {
    let folder = private_folder();
    let out = folder.path().join("none");
    let running = Running::spawn(server, out, folder);
    running.wait_until("it is there", || running.messages().contains(" is at "));
    let output = client.output().expect("it runs");
    let ended = running.end();
    assert!(ended.status.success(), "{}", ended.messages);
    assert!(output.status.success(), "{}", talk(&output));
}

#[test]
fn two_of_our_ends_exchange_every_byte() {
    need_wire!();
    let ends = Ends::new(1500, false);
    for method in METHODS {
        for (number, [one, other]) in [
            ["echo", "ask --bytes 300000"],
            ["echo", "--no-nagle ask --bytes 20000 --step 64"],
            ["source --bytes 300000", "sink --bytes 300000"],
            ["sink --bytes 300000", "source --bytes 300000"],
        ]
        .into_iter()
        .enumerate()
        {
            let family = number % 2;
            let connections = 1 + 19 * (number / 2);
            let common = format!("--method {method} --connections {connections} --linger 0.3");
            let mut server = ends.peer(family, &format!("{common} {one}"));
            let mut client = ends.kernel.command(&ends.program);
            // An address that the kernel there does not have either.
            let address = ["192.0.2.3/24", "2001:db8::3/64"][family];
            let to = SocketAddr::new(address_of(OURS[family]), 7);
            client.args([
                "-i",
                "k0",
                "--seed",
                &SEED.to_string(),
                "--address",
                address,
            ]);
            client.args(format!("{common} --connect {to} {other}").split_whitespace());
            both(&mut server, &mut client);
        }
    }
}

#[test]
fn curl_and_a_web_server_talk_to_our_end() {
    if let Some(why) = obstacle(&["curl", "python3"]) {
        println!("SKIP: no wire: {why}");
        return;
    }
    let ends = Ends::new(1500, false);
    let bytes = 1_000_000;
    let folder = private_folder();
    // HTTP/0.9 is the bytes alone.
    let page = folder.path().join("page");
    let mut server = ends.peer(0, &format!("--linger 0.1 source --bytes {bytes}"));
    let mut curl = ends.kernel.command("curl");
    curl.args([
        "--silent",
        "--show-error",
        "--http0.9",
        "--local-port",
        "40001",
        "-o",
    ]);
    curl.arg(&page).arg(format!("http://{}:7/", OURS[0]));
    both(&mut server, &mut curl);
    let mut expected = vec![0; bytes];
    fill(stream_seed(SEED, 40_001, false), 0, &mut expected);
    assert!(std::fs::read(&page).expect("curl wrote it") == expected);

    fill(stream_seed(SEED, 40_002, false), 0, &mut expected);
    std::fs::write(&page, &expected).expect("a folder of ours");
    for [program, words] in [
        ["python3", "-m http.server 8000"],
        ["nginx", "-c nginx.conf -p ."],
    ] {
        if let Some(why) = obstacle(&[program]) {
            println!("SKIP: no page from {program}: {why}");
            continue;
        }
        let config = "daemon off; master_process off; pid nginx.pid; error_log stderr; events {}\n\
            http { access_log off; server { listen 8000; root .; } }";
        std::fs::write(folder.path().join("nginx.conf"), config).expect("a folder of ours");
        let mut web = ends.kernel.command(program);
        web.args(words.split(' ')).current_dir(folder.path());
        web.stdout(Stdio::null()).stderr(Stdio::null());
        let mut web = web.spawn().expect("it runs");
        let there = SocketAddr::new(address_of(KERNEL[0]), 8000);
        wait_until("the web server listens", || {
            ends.kernel.enter(|| TcpStream::connect(there).is_ok())
        });
        let words = format!("--connect {there} --local-port 40002 --linger 0.1 sink");
        let mut sink = ends.peer(0, &words);
        sink.args(["--get", "/page", "--bytes", &bytes.to_string()]);
        let output = sink.output().expect("it runs");
        let _ = web.kill();
        let _ = web.wait();
        assert!(output.status.success(), "{program}: {}", talk(&output));
    }
}

/// Words of `tcp-peer`, and what it says about them.
const REFUSED: [(&str, &str); 10] = [
    ("-i p1 --address 192.0.2.2/24 echo", "did you mean 'p0'?"),
    (
        "-i p0 --address 192.0.2.2 echo",
        "write an address and its network's bits",
    ),
    (
        "-i p0 --address 192.0.2.2/33 echo",
        "write an address and its network's bits",
    ),
    (
        "-i p0 --address 192.0.2.2/24 --mtu 9000 echo",
        "'ip link set p0 mtu 9000'",
    ),
    (
        "-i p0 --address 192.0.2.2/24 --mtu 100 echo",
        "576 bytes at least",
    ),
    (
        "-i p0 --address 192.0.2.2/24 --connect 192.0.2.77:7 ask --bytes 1",
        "no neighbour at p0 answers for 192.0.2.77",
    ),
    (
        "-i p0 --address 192.0.2.2/24 --connect 198.51.100.1:7 ask --bytes 1",
        "no router leads to 198.51.100.1",
    ),
    (
        "-i p0 --address 192.0.2.2/24 --connect [2001:db8::1]:7 ask --bytes 1",
        "addresses of different families",
    ),
    (
        "-i p0 --address 192.0.2.2/24 --connect 192.0.2.1:9 ask --bytes 1",
        "was refused: does a program listen there?",
    ),
    (
        "-i p0 --address 192.0.2.2/24 --timeout 0.2 echo",
        "not over after 0.2 s: 0 connections opened",
    ),
];

#[test]
fn what_an_end_cannot_be_or_reach_is_named() {
    need_wire!();
    let ends = Ends::new(1500, false);
    for (words, expected) in REFUSED {
        let mut command = ends.ours.command(&ends.program);
        let output = command.args(words.split(' ')).output().expect("it runs");
        assert!(!output.status.success(), "{words}");
        assert!(
            talk(&output).contains(expected),
            "{words}: {}",
            talk(&output)
        );
    }
    // The host's own address, and a port that is in use.
    let mut command = ends.kernel.command(&ends.program);
    command.args(["-i", "k0", "--address", "192.0.2.1/24", "echo"]);
    let output = command.output().expect("it runs");
    assert!(
        talk(&output).contains("the host has this address"),
        "{}",
        talk(&output)
    );
    let listen = || TcpListener::bind(SocketAddr::new(address_of(KERNEL[0]), 7)).expect("free");
    let _listener = ends.kernel.enter(listen);
    let words = "--connect 192.0.2.1:7 --local-port 4000 --connections 2 ask --bytes 1";
    let output = ends.peer(0, words).output().expect("it runs");
    assert!(
        talk(&output).contains("port 4000 is in use there"),
        "{}",
        talk(&output)
    );
    // And nobody may without privileges.
    let mut command = ends.ours.command("setpriv");
    command.args([
        "--reuid",
        "65534",
        "--clear-groups",
        "--bounding-set",
        "-all",
    ]);
    command
        .arg(&ends.program)
        .args(["-i", "p0", "--address", "192.0.2.2/24", "echo"]);
    let output = command.output().expect("setpriv runs");
    assert!(talk(&output).contains("CAP_NET_RAW"), "{}", talk(&output));
}

#[test]
fn as_many_bytes_as_are_asked_for_pass_each_way() {
    let Some(bytes) = std::env::var("LINESIDE_PEER_BYTES").ok() else {
        return;
    };
    need_wire!();
    let bytes = bytes.parse().expect("LINESIDE_PEER_BYTES is a number");
    for (method, mtu) in METHODS
        .into_iter()
        .flat_map(|method| [(method, 1500), (method, 9000)])
    {
        let ends = Ends::new(mtu, false);
        for work in WORKS {
            let case = Case {
                family: 0,
                method,
                connects: true,
                work,
                connections: 1,
                bytes,
                linger: 0.1,
            };
            let counted = case.run(&ends);
            let seconds = counted["seconds"].as_f64().expect("a number");
            let rate = bytes as f64 * 8.0 / seconds / 1e9;
            println!("{method} MTU {mtu} {work:?}: {bytes} bytes, {rate:.2} Gb/s");
        }
    }
}
