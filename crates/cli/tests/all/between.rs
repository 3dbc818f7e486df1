//! `lineside emulate --between`: real TCP and real packets through an emulated link.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Stdio;
use std::time::{Duration, Instant};

use lineside_time::Random;

use crate::support::{lineside, manifest, talk, wait_until};
use crate::wire::{Namespace, need_wire};

/// A client and a server, each with a veth pair to a host between them.
struct Hosts {
    client: Namespace,
    between: Namespace,
    server: Namespace,
}

impl Hosts {
    fn new() -> Self {
        let hosts = Self {
            client: Namespace::new("link-c"),
            between: Namespace::new("link-b"),
            server: Namespace::new("link-s"),
        };
        for (end, here, there, address) in [
            (&hosts.client, "c0", "m0", "192.0.2.1"),
            (&hosts.server, "s0", "m1", "192.0.2.2"),
        ] {
            hosts.between.ip(&format!(
                "link add {there} numrxqueues 1 numtxqueues 1 type veth peer name {here} numrxqueues 1 numtxqueues 1 netns {}",
                end.name()
            ));
            end.ip(&format!("link set {here} up"));
            end.ip(&format!("addr add {address}/24 dev {here}"));
            hosts.between.ip(&format!("link set {there} up"));
        }
        hosts
    }
}

/// Times of 20 datagrams there and back.
fn round_trips(hosts: &Hosts) -> Vec<Duration> {
    let bind = |host: &Namespace, address: &str| {
        let socket = host.enter(|| UdpSocket::bind(address).expect("free"));
        let patience = Some(Duration::from_secs(2));
        socket.set_read_timeout(patience).expect("a time");
        socket
    };
    let echo = bind(&hosts.server, "192.0.2.2:7");
    let asking = bind(&hosts.client, "192.0.2.1:7000");
    let mut times = Vec::new();
    for number in 0..20_u8 {
        #[expect(
            clippy::disallowed_methods,
            reason = "the time of the wire is measured"
        )]
        let began = Instant::now();
        asking.send_to(&[number], "192.0.2.2:7").expect("sent");
        let mut byte = [0];
        let Ok((_, from)) = echo.recv_from(&mut byte) else {
            continue; // Lost, as asked.
        };
        echo.send_to(&byte, from).expect("sent");
        if asking.recv_from(&mut byte).is_ok() {
            times.push(began.elapsed());
        }
    }
    times
}

/// As many random bytes from the client to the server by the kernels' TCP.
fn transfer(hosts: &Hosts, len: usize) {
    let mut random = Random::new(11);
    let sent: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
    let listen = || TcpListener::bind("192.0.2.2:2049").expect("free");
    let listener = hosts.server.enter(listen);
    let mut arrived = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("the other end");
            stream.read_to_end(&mut arrived).expect("all of it");
        });
        let connect = || TcpStream::connect("192.0.2.2:2049").expect("it listens");
        let mut stream = hosts.client.enter(connect);
        stream.write_all(&sent).expect("it is read");
    });
    assert!(arrived == sent, "every byte arrived");
}

#[test]
fn tcp_and_datagrams_pass_an_emulated_link_late_and_some_never() {
    need_wire!();
    let hosts = Hosts::new();
    let folder = tempfile::tempdir().expect("a folder");
    let all_may_enter = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), all_may_enter).expect("ours");
    let (run, said) = (folder.path().join("run"), folder.path().join("said"));
    let words = [
        "--between",
        "m0,m1",
        "--delay",
        "2ms",
        "--loss",
        "out: 0.5%",
    ];
    let mut process = hosts
        .between
        .command(lineside().get_program())
        .arg("emulate")
        .args(words)
        .args(["--seed", "3", "--wait", "sleep", "-o"])
        .arg(&run)
        .stdout(Stdio::null())
        .stderr(File::create(&said).expect("a file"))
        .spawn()
        .expect("it runs");
    let text = || std::fs::read_to_string(&said).unwrap_or_default();
    wait_until("it listens at both ends", || {
        assert!(process.try_wait().expect("a child").is_none(), "{}", text());
        text().contains("listening at m1")
    });
    let times = round_trips(&hosts);
    assert!(times.len() >= 10, "{times:?}");
    let least = times.iter().min().expect("some");
    assert!(*least >= Duration::from_millis(4), "{times:?}");
    transfer(&hosts, 4 << 20);

    let id = rustix::process::Pid::from_child(&process);
    rustix::process::kill_process(id, rustix::process::Signal::INT).expect("ours");
    let status = process.wait().expect("it ends");
    assert_eq!(status.code(), Some(130), "{}", text());
    let certificate = manifest(&run).certificate.expect("it is there");
    let outbound = &certificate["directions"]["outbound"];
    let count = |name: &str| outbound["counters"][name].as_u64().expect("a number");
    let lost = outbound["counters"]["dropped"]["loss"].as_u64();
    let lost = lost.expect("a number");
    assert!(lost > 0 && lost * 20 < count("entered"), "{outbound:#}");
    assert_eq!(count("entered"), count("released") + lost, "{outbound:#}");
    let realised = outbound["realised"]["mean_ns"].as_f64().expect("a number");
    assert!(realised >= 1_950_000.0, "{outbound:#}");
    // The kernel leaves checksums to the adapter that a veth has not.
    assert!(certificate["loop"]["checksums_completed"].as_u64() > Some(0));
}

#[test]
fn two_ends_that_are_none_are_named() {
    need_wire!();
    for (words, says) in [
        (&["--between", "lo"][..], "names two interfaces"),
        (&["--between", "lo,lo"], "two different ends"),
        (&["--between", "nowhere0,lo"], "no interface 'nowhere0'"),
        (
            &["--between", "lo,lo2", "--wait", "spinn"],
            "nearest known one is spin",
        ),
        (&["--between", "lo,lo2", "in.pcap"], "are for captures"),
        (
            &["--between", "lo,lo2", "--method", "af_packet"],
            "none that is quick enough",
        ),
    ] {
        let output = lineside().arg("emulate").args(words).output();
        let output = output.expect("it runs");
        assert!(!output.status.success());
        assert!(talk(&output).contains(says), "{words:?}: {}", talk(&output));
    }
}
