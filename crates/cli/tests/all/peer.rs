//! Our TCP endpoint (`tcp-peer`) against the kernel's: real segments over a veth pair, and through
//! an emulated link, both ways round. Every byte is compared at each end.
//!
//! `LINESIDE_PEER_BYTES=N` sends N bytes more on one connection by each method, and prints the
//! rate.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lineside_testkit::drive::fill;
use lineside_testkit::peer::stream_seed;
use serde_json::Value;

use crate::between::emulate;
use crate::lab::testkit_program;
use crate::support::{talk, wait_until};
use crate::wire::{Namespace, Running, need_wire, obstacle, open_folder, run};

const SEED: u64 = 5;
const METHODS: [&str; 3] = ["af_packet", "af_xdp", "af_xdp_generic"];
/// The kernel's addresses; those of our endpoint end with 2.
const KERNEL: [&str; 2] = ["192.0.2.1", "2001:db8::1"];
const OURS: [&str; 2] = ["192.0.2.2", "2001:db8::2"];
const BITS: [u8; 2] = [24, 64];
/// A test machine may be busy.
const PATIENCE: Duration = Duration::from_secs(90);

/// A host with a kernel's TCP, and one with ours, with a veth pair between them, or one from each
/// to a host in the middle.
struct Ends {
    kernel: Namespace,
    ours: Namespace,
    middle: Option<Namespace>,
    program: PathBuf,
}

impl Ends {
    fn new(mtu: u32, has_middle: bool) -> Self {
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
        let v6 = "echo 0 >/proc/sys/net/ipv6/conf/k0/disable_ipv6";
        run(ends.kernel.command("sh").args(["-c", v6]));
        for (address, bits) in KERNEL.into_iter().zip(BITS) {
            let more = if bits == 64 { " nodad" } else { "" };
            ends.kernel
                .ip(&format!("addr add {address}/{bits} dev k0{more}"));
        }
        ends
    }

    /// `tcp-peer` with these words at our end.
    fn peer(&self, family: usize, words: &str) -> Command {
        let mut command = self.ours.command(&self.program);
        let address = format!("{}/{}", OURS[family], BITS[family]);
        command.args([
            "-i",
            "p0",
            "--seed",
            &SEED.to_string(),
            "--address",
            &address,
        ]);
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
                SocketAddr::new(address(KERNEL[self.family]), 7)
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
        let folder = open_folder();
        let out = folder.path().join("none");
        let mut command = ends.peer(self.family, &self.words());
        let end = SocketAddr::new(address(OURS[self.family]), 7);
        let mut peer = None;
        std::thread::scope(|scope| {
            let listener = self.connects.then(|| {
                let end = SocketAddr::new(address(KERNEL[self.family]), 7);
                ends.kernel.enter(|| TcpListener::bind(end).expect("free"))
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

fn address(text: &str) -> IpAddr {
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
    let links: [(&str, &[&str]); 4] = [
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
    ];
    for (number, (method, link)) in links.into_iter().enumerate() {
        let seed = number.to_string();
        let words = ["--between", "m0,m1", "--wait", "sleep", "--seed", &seed];
        let running = emulate(middle, &[&words[..], link].concat(), "m1");
        for (turn, work) in WORKS.into_iter().enumerate() {
            for (connections, bytes) in [(1, 400_000), (50, 4_000)] {
                let case = Case {
                    family: (number + turn) % 2,
                    method,
                    connects: connections == 1,
                    work,
                    connections,
                    bytes,
                    linger: 0.2,
                };
                let counted = case.run(&ends);
                let stack = &counted["stack"];
                println!(
                    "{number} {work:?} {connections} {}: {} s, timeouts {} fast {} hs {} sent {} wrong {} dup {} unsent {}",
                    case.connects,
                    counted["seconds"],
                    stack["timeouts"],
                    stack["retransmitted_fast"],
                    stack["retransmitted_handshake"],
                    stack["sent"],
                    stack["checksum_wrong"],
                    stack["bytes_duplicate"],
                    stack["frames_unsent"]
                );
            }
        }
        let ended = running.interrupt();
        assert!(
            matches!(ended.status.code(), Some(0 | 4)),
            "{}",
            ended.messages
        );
    }
}
