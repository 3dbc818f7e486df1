//! `lineside forward` with payload modes, between real ends.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use lineside_time::Random;
use serde_json::Value;

use crate::support::talk;
use crate::wall::forward::{Farm, assert_whole, certificate};
use crate::wall::load_devices::inside;
use crate::wall::load_ends::number;
use crate::wall::wire::need_wire;

const SERVICE: &str = "tcp 10.9.1.100:80 to 10.9.2.2:8080";
const LEN: usize = 2_000_000;
const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));

/// Sends random bytes through the forwarder, and has them back.
fn echo(farm: &Farm) {
    let mut random = Random::new(5);
    let sent: Vec<u8> = (0..LEN).map(|_| random.below(256) as u8).collect();
    let listen = || TcpListener::bind("10.9.2.2:8080").expect("free");
    let listener = farm.nodes.enter(listen);
    let mut back = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("a client");
            stream.set_read_timeout(PATIENCE).expect("a time");
            stream.set_write_timeout(PATIENCE).expect("a time");
            let mut bytes = vec![0; LEN];
            stream.read_exact(&mut bytes).expect("all of it");
            stream.write_all(&bytes).expect("it is read");
        });
        let connect = || TcpStream::connect("10.9.1.100:80").expect("it listens");
        let mut stream = farm.clients.enter(connect);
        stream.set_read_timeout(PATIENCE).expect("a time");
        stream.set_write_timeout(PATIENCE).expect("a time");
        stream.write_all(&sent).expect("it is read");
        stream.read_to_end(&mut back).expect("the other end closes");
    });
    assert!(back == sent, "every byte came back");
}

fn ran(farm: &Farm, words: &[&str]) -> Value {
    let forwarder = farm.forward(&[&["--service", SERVICE], words].concat());
    echo(farm);
    let certificate = certificate(&forwarder.interrupt());
    assert_whole(&certificate);
    certificate["payloads"].clone()
}

#[test]
fn payloads_cross_the_bus_as_their_mode_says() {
    need_wire!();
    // A packet socket gets frames as long as an adapter would cut them, unless the ends cut them.
    let farm = Farm::for_the_driver();
    let most = 2 * LEN as u64;
    let few = most / 20;
    for method in ["af_xdp", "af_packet"] {
        for mode in ["baseline", "pcache", "direct", "spill", "adaptive"] {
            let payloads = ran(&farm, &["--mode", mode, "--method", method]);
            let of = |key: &str| number(&payloads, key);
            assert_eq!(payloads["mode"], mode);
            assert_eq!(of("/dropped"), 0, "{payloads:#}");
            let [to_host, back] = [of("/to_host_bytes"), of("/to_adapter_bytes")];
            match mode {
                "baseline" => assert!(to_host >= most && back == to_host, "{payloads:#}"),
                "pcache" => assert!(to_host >= most && back < few, "{payloads:#}"),
                _ => assert!(to_host < few && back < few, "{payloads:#}"),
            }
            let hits = of("/hits");
            assert_eq!(hits > 1_000, mode != "baseline", "{payloads:#}");
        }
    }
}

#[test]
fn a_queue_longer_than_its_cache_loses_nothing_but_in_direct() {
    need_wire!();
    let farm = Farm::new();
    let short = ["--hold", "100", "--cache", "32KiB", "--mode"];
    for mode in ["pcache", "spill", "adaptive"] {
        let payloads = ran(&farm, &[&short[..], &[mode]].concat());
        let of = |key: &str| number(&payloads, key);
        assert!(of("/queue_max") > 100, "{payloads:#}");
        assert!(of("/hits") > 0 && of("/misses") > 500, "{payloads:#}");
        assert_eq!(of("/dropped"), 0);
        assert!(of("/to_adapter_bytes") > 500_000, "{payloads:#}");
        let spilled = of("/spilled");
        assert!(mode != "pcache" || spilled == 0, "{payloads:#}");
        assert!(mode != "spill" || spilled > 500, "{payloads:#}");
    }
}

#[test]
fn each_datagram_whose_payload_was_evicted_is_counted() {
    need_wire!();
    let farm = Farm::new();
    let service = "udp 10.9.1.100:53 to 10.9.2.2:53";
    let words = [
        "--service",
        service,
        "--mode",
        "direct",
        "--hold",
        "100",
        "--cache",
        "16KiB",
    ];
    let forwarder = farm.forward(&words);
    let [node, client] = [(&farm.nodes, "10.9.2.2:53"), (&farm.clients, "10.9.1.7:0")]
        .map(|(end, at)| end.enter(|| UdpSocket::bind(at)).expect("free"));
    let patience = Some(Duration::from_secs(1));
    node.set_read_timeout(patience).expect("a time");
    let ask = |byte: u8, len: usize| {
        let sent = client.send_to(&vec![byte; len], "10.9.1.100:53");
        sent.expect("sent");
    };
    let mut bytes = [0; 2000];
    ask(0, 10);
    node.recv(&mut bytes).expect("the way is known");
    (1..=200).for_each(|byte| ask(byte, 1000));
    let mut arrived = 0;
    while let Ok(len) = node.recv(&mut bytes) {
        assert!(len == 1000 && bytes[..len].iter().all(|byte| *byte == bytes[0]));
        arrived += 1;
    }
    let certificate = certificate(&forwarder.interrupt());
    assert_whole(&certificate);
    let dropped = number(&certificate, "/payloads/dropped");
    assert!(dropped > 0, "{certificate:#}");
    assert_eq!(arrived + dropped, 200, "{certificate:#}");
}

#[test]
fn words_about_payloads_that_do_not_fit_are_refused() {
    need_wire!();
    let farm = Farm::new();
    for (words, expected) in [
        (&["--cache", "1MiB"][..], "--mode pcache"),
        (&["--mode", "loop", "--hold", "5"], "--mode pcache"),
        (&["--mode", "pcaches"], "nearest known one is pcache"),
        (&["--mode", "pcache", "--cache", "1000"], "raise --cache"),
        (&["--mode", "spill", "--cache", "1GiB"], "lower --cache"),
        (&["--mode", "direct", "--hold", "1000000"], "lower --hold"),
        (&["--mode", "direct", "--hold", "2000000"], "up to 1048576"),
    ] {
        let mut command = inside(&farm.forwarder);
        command.args(["forward", "--ports", "f0,f1", "--nat", "10.9.2.100"]);
        let output = command.args(["--service", SERVICE]).args(words).output();
        let output = output.expect("it runs");
        assert_eq!(
            output.status.code(),
            Some(2),
            "{words:?}: {}",
            talk(&output)
        );
        assert!(talk(&output).contains(expected), "{}", talk(&output));
    }
}

/// By AF_XDP each receiver gets headers of its own, and all of them one payload.
#[test]
fn a_datagram_reaches_eight_receivers_whole() {
    need_wire!();
    // Checksums that the hosts leave to an adapter, and those that the receivers' kernel checks.
    for farm in [Farm::new(), Farm::for_the_driver()] {
        let receivers: Vec<_> = { 1..=8 }
            .map(|last| {
                let bind = || UdpSocket::bind(format!("10.9.2.2:{}", 5000 + last)).expect("free");
                let socket = farm.nodes.enter(bind);
                socket.set_read_timeout(PATIENCE).expect("a time");
                socket
            })
            .collect();
        let nodes: Vec<_> = { 1..=8 }
            .map(|last| format!("10.9.2.2:{}", 5000 + last))
            .collect();
        let service = format!("udp 10.9.1.100:53 to {}; multicast", nodes.join(", "));
        let client = farm
            .clients
            .enter(|| UdpSocket::bind("10.9.1.7:0"))
            .expect("free");
        for method in ["af_xdp", "af_packet"] {
            let words = ["--service", &service, "--method", method, "--mode", "loop"];
            let forwarder = farm.forward(&words);
            let mut random = Random::new(3);
            for len in [1, 100, 1400, 1472].repeat(25) {
                let sent: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
                client.send_to(&sent, "10.9.1.100:53").expect("sent");
                for receiver in &receivers {
                    let mut bytes = [0; 2000];
                    let arrived = receiver.recv(&mut bytes).expect("a datagram");
                    assert!(
                        bytes[..arrived] == sent,
                        "{method}: {arrived} of {len} bytes"
                    );
                }
            }
            let certificate = certificate(&forwarder.interrupt());
            assert_whole(&certificate);
            assert_eq!(certificate["outcomes"]["to node"], 100, "{certificate:#}");
        }
    }
}
