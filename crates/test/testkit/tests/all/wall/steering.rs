//! Our endpoint beside a host's kernel at one interface: each has its own addresses, and neither
//! notices the other. A network namespace is the host, another one its peer, a veth pair between.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use lineside_host::{NetNamespace, Netlink, Ping, may_make_network_namespaces};
use lineside_port::live::Interface;

const METHODS: [&str; 3] = ["af_xdp", "af_xdp_generic", "af_packet"];
/// The host's own, its peer's, and ours at the host's interface.
const HOST: [&str; 2] = ["198.51.100.1", "2001:db8:5::1"];
const PEER: [&str; 2] = ["198.51.100.2", "2001:db8:5::2"];
const OURS: [&str; 2] = ["198.51.100.9", "2001:db8:5::9"];
const BITS: [u8; 2] = [24, 64];
/// A test machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// The host's and the peer's namespace, with `near` and `far`; this thread is in the first one.
fn namespaces() -> (NetNamespace, NetNamespace) {
    lineside_testkit::waiting::take_place();
    let set_up = |name: &str, addresses: [&str; 2]| {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "0");
        let netlink = Netlink::open().expect("netlink");
        let index = netlink.link_named(name).expect("just made").index;
        for (text, bits) in addresses.into_iter().zip(BITS) {
            let added = netlink.add_address(index, address(text), bits);
            added.expect("a new address");
        }
        netlink.switch_on(index).expect("switched on");
    };
    let peer = NetNamespace::new().expect("allowed");
    let host = NetNamespace::new().expect("allowed");
    let netlink = Netlink::open().expect("netlink");
    netlink
        .add_veth("near", "far", peer.as_fd())
        .expect("a pair");
    set_up("near", HOST);
    peer.enter().expect("just made");
    set_up("far", PEER);
    host.enter().expect("just made");
    (host, peer)
}

/// Returns what comes, on each connection.
fn serve_echo(listener: &TcpListener) {
    for connection in listener.incoming() {
        let Ok(mut connection) = connection else {
            return;
        };
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(len @ 1..) = connection.read(&mut buffer) {
                if connection.write_all(&buffer[..len]).is_err() {
                    return;
                }
            }
        });
    }
}

fn connect(to: SocketAddr) -> TcpStream {
    let connection = TcpStream::connect_timeout(&to, PATIENCE).expect("it listens");
    connection.set_read_timeout(Some(PATIENCE)).expect("a time");
    connection.set_nodelay(true).expect("an option");
    connection
}

/// Sends bytes to an echo, and compares what comes back.
fn exchange(connection: &mut TcpStream, seed: u8, len: usize) {
    let sent: Vec<u8> = (0..len).map(|at| at as u8 ^ seed).collect();
    connection.write_all(&sent).expect("sends");
    let mut came = vec![0; len];
    connection.read_exact(&mut came).expect("comes back");
    assert_eq!(came, sent);
}

/// `tcp-peer` beside the host; ended with the value.
struct Ours(Child);

impl Ours {
    /// Starts it, and waits until it has the interface.
    fn start(method: &str, family: usize, words: &[&str]) -> Self {
        Self::run(&mut Self::command(method, family, words))
    }

    fn run(command: &mut Command) -> Self {
        let mut child = command
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let first = lines.next().expect("a line").expect("text");
        assert!(first.contains(" is at near by "), "{first}");
        thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .for_each(|line| eprintln!("{line}"))
        });
        Self(child)
    }

    fn command(method: &str, family: usize, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tcp-peer"));
        let ours = format!("{}/{}", OURS[family], BITS[family]);
        command.args([
            "-i",
            "near",
            "--steer",
            "--method",
            method,
            "--address",
            &ours,
        ]);
        command.args(words);
        command
    }

    /// At ports of the host's own address.
    fn at_ports(method: &str, family: usize, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tcp-peer"));
        let host = format!("{}/{}", HOST[family], BITS[family]);
        command.args(["-i", "near", "--ports", "7000-7099"]);
        command.args(["--method", method, "--address", &host]);
        command.args(words);
        command
    }

    fn kill(&mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it ends");
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_host_and_our_stack_share_an_interface() {
    if !may_make_network_namespaces() {
        println!("SKIP: no network namespaces of our own: it takes root");
        return;
    }
    for method in METHODS {
        for family in 0..2 {
            beside_the_host(method, family);
        }
    }
}

fn beside_the_host(method: &str, family: usize) {
    let (host, peer) = namespaces();
    let at_host = TcpListener::bind((address(HOST[family]), 0)).expect("its address");
    let host_echo = at_host.local_addr().expect("bound");
    peer.enter().expect("just made");
    let at_peer = TcpListener::bind((address(PEER[family]), 0)).expect("its address");
    let peer_echo = at_peer.local_addr().expect("bound").to_string();
    thread::spawn(move || serve_echo(&at_peer));
    host.enter().expect("just made");
    thread::spawn(move || serve_echo(&at_host));
    let (stop, exchanged) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        // Lasts all the time, as a shell does.
        let session = scope.spawn(|| {
            peer.enter().expect("just made");
            let mut session = connect(host_echo);
            while !stop.load(Ordering::Relaxed) {
                exchange(&mut session, exchanged.load(Ordering::Relaxed) as u8, 48);
                exchanged.fetch_add(1, Ordering::Relaxed);
            }
        });
        let still_works = || {
            let before = exchanged.load(Ordering::Relaxed);
            while exchanged.load(Ordering::Relaxed) < before + 20 {
                assert!(!session.is_finished(), "{method}: the session broke");
                thread::yield_now();
            }
            let ping = Ping::new(address(HOST[family])).and_then(|mut it| it.round_trip(PATIENCE));
            assert!(
                ping.expect("allowed").is_some(),
                "{method}: the host is silent"
            );
            exchange(&mut connect(host_echo), 3, 5_000);
        };
        peer.enter().expect("just made");
        still_works();
        // Ours asks first, from cold, and is then asked.
        host.enter().expect("just made");
        let words = format!("--linger 0.1 --connections 3 --connect {peer_echo} ask --bytes 1200");
        let words: Vec<&str> = words.split(' ').collect();
        let asked = Ours::command(method, family, &words)
            .output()
            .expect("runs");
        let complaint = String::from_utf8_lossy(&asked.stderr);
        assert!(asked.status.success(), "{method}: {complaint}");
        let mut ours = Ours::start(method, family, &["--connections", "0", "echo"]);
        peer.enter().expect("just made");
        let ours_at = SocketAddr::new(address(OURS[family]), 7);
        for seed in 0..5 {
            exchange(&mut connect(ours_at), seed, 1_200);
            still_works();
        }
        if method != "af_packet" {
            host.enter().expect("just made");
            ours.kill();
            let words = ["--port", "7007", "--connections", "0", "echo"];
            ours = Ours::run(&mut Ours::at_ports(method, family, &words));
            peer.enter().expect("just made");
            for seed in 0..5 {
                let at = SocketAddr::new(address(HOST[family]), 7_007);
                exchange(&mut connect(at), seed, 1_200);
                still_works();
            }
        }
        // Nothing is left behind by a process that could not clear up.
        host.enter().expect("just made");
        ours.kill();
        while Interface::named("near").expect("it stays").has_xdp {
            thread::yield_now();
        }
        peer.enter().expect("just made");
        still_works();
        stop.store(true, Ordering::Relaxed);
        session.join().expect("not one exchange was disturbed");
    });
}
