//! `lineside emulate --between`: real TCP and real packets through an emulated link.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lineside_account::Budget;
use lineside_frame::{Burst, Descriptor, Frame, LinkType};
use lineside_port::live::{Interface, LiveOptions, StampClock, open_each};
use lineside_port::{LivePort, Method};
use lineside_rows::Table;
use lineside_time::Random;
use lineside_trace::State;

use crate::support::{
    came_to_its_end, held_status, lineside, manifest, parts_with_rows, talk, wait_until,
    wait_until_still,
};
use crate::wall::lab::{Counts, Lab, expected, nfs_drive, tally};
use crate::wall::stats::{stats, wait_until_empty};
use crate::wall::wire::{Namespace, Running, need_wire, private_folder, run};

/// A client and a server, each with a veth pair to a host between them.
pub(crate) struct Hosts {
    pub(crate) client: Namespace,
    pub(crate) between: Namespace,
    pub(crate) server: Namespace,
}

impl Hosts {
    pub(crate) fn new() -> Self {
        // Tests run beside each other.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let namespace = |end| Namespace::new(&format!("{end}{number}"));
        let hosts = Self {
            client: namespace("c"),
            between: namespace("b"),
            server: namespace("s"),
        };
        for (end, here, there, address) in [
            (&hosts.client, "c0", "m0", "192.0.2.1"),
            (&hosts.server, "s0", "m1", "192.0.2.2"),
        ] {
            hosts.between.ip(&format!(
                "link add {there} numrxqueues 1 numtxqueues 1 type veth peer name {here} \
                numrxqueues 1 numtxqueues 1 netns {}",
                end.name()
            ));
            // A program that takes frames after the driver sees frames that a sender joined as one.
            run(end
                .command("ethtool")
                .args(["-K", here, "tso", "off", "gso", "off"]));
            end.ip(&format!("link set {here} up"));
            end.ip(&format!("addr add {address}/24 dev {here}"));
            hosts.between.ip(&format!("link set {there} up"));
        }
        hosts
    }
}

/// Round-trip times of 20 datagrams.
pub(crate) fn round_trips(hosts: &Hosts) -> Vec<Duration> {
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

/// Sends this many random bytes from the client to the server by the kernels' TCP.
pub(crate) fn transfer(hosts: &Hosts, len: usize) {
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

/// `lineside emulate` with these words in `namespace`; it listens at `last` when this returns.
pub(crate) fn emulate(namespace: &Namespace, words: &[&str], last: &str) -> Running {
    let folder = private_folder();
    let run = folder.path().join("run");
    let mut command = namespace.command(lineside().get_program());
    command.arg("emulate").args(words).arg("-o").arg(&run);
    let running = Running::spawn(&mut command, run, folder);
    let listening = format!("listening at {last} ");
    running.wait_until("it listens at both ends", || {
        let messages = running.messages();
        messages.contains(&listening) && messages.contains("a frame takes")
    });
    running
}

#[test]
fn tcp_and_datagrams_pass_an_emulated_link_late_and_some_never() {
    need_wire!();
    for method in ["af_xdp", "af_packet"] {
        let hosts = Hosts::new();
        let link = ["--delay", "2ms", "--loss", "out: 0.5%", "--seed", "3"];
        let words = ["--between", "m0,m1", "--wait", "sleep", "--method", method];
        let running = emulate(&hosts.between, &[&words[..], &link].concat(), "m1");
        let times = round_trips(&hosts);
        assert!(times.len() >= 10, "{times:?}");
        let least = times.iter().min().expect("some");
        assert!(*least >= Duration::from_micros(3950), "{times:?}");
        transfer(&hosts, 4 << 20);

        let ended = running.interrupt();
        let held = held_status(&ended.out);
        assert_eq!(ended.status.code(), Some(held), "{}", ended.messages);
        let certificate = manifest(&ended.out).certificate.expect("it is there");
        let outbound = &certificate["directions"]["outbound"];
        let count = |name: &str| outbound["counters"][name].as_u64().expect("a number");
        let lost = outbound["counters"]["dropped"]["loss"].as_u64();
        let lost = lost.expect("a number");
        assert!(lost > 0 && lost * 20 < count("entered"), "{outbound:#}");
        assert_eq!(count("entered"), count("released") + lost, "{outbound:#}");
        let realised = outbound["realised"]["mean_ns"].as_f64().expect("a number");
        assert!(realised >= 1_950_000.0, "{outbound:#}");
        let facts = &certificate["loop"];
        // The kernel leaves checksums to the adapter that a veth has not.
        assert!(facts["checksums_completed"].as_u64() > Some(0), "{facts:#}");
        // Found by stamps of the kernel, at the start and from passing frames.
        assert!(
            facts["calibration"]["floor_ns"].as_i64() > Some(0),
            "{facts:#}"
        );
        let how = facts["calibration"]["method"].as_str().expect("words");
        assert!(how.contains("the kernel's stamps"), "{how}");
        assert!(facts["hand_over"]["count"].as_u64() > Some(5), "{facts:#}");
        assert!(facts["pickup"]["count"].as_u64() > Some(50), "{facts:#}");
        let difference = &outbound["difference"];
        assert_eq!(difference["count"], outbound["counters"]["released"]);
        assert!(
            difference["min_ns"].as_i64() > Some(-25_000),
            "{difference:#}"
        );
    }
}

/// A packet socket at the client's end of the wire, and one at the server's.
fn raw_ends(hosts: &Hosts) -> [Box<dyn LivePort>; 2] {
    [(&hosts.client, "c0"), (&hosts.server, "s0")].map(|(host, name)| {
        host.enter(|| {
            let options = LiveOptions {
                method: Some(Method::AfPacket),
                sockets: 1,
                promiscuous: true,
                filter: Vec::new(),
                budget: Budget::new(64 << 20),
                bytes_max: 16 << 20,
                steering: None,
                flows: None,
                transmit_max: None,
                clock: StampClock::Wall,
            };
            let interface = Interface::named(name).expect("it is there");
            open_each(&interface, &options).expect("it opens").remove(0)
        })
    })
}

/// The frames that a port receives until no more come.
fn arrivals(running: &Running, port: &mut dyn LivePort) -> Vec<Vec<u8>> {
    wait_until_empty(running);
    let mut burst = Burst::new();
    wait_until_still("no more frames come", || {
        port.receive(&mut burst, 99).expect("it receives");
        burst.len()
    });
    burst.iter().map(|frame| frame.bytes().to_vec()).collect()
}

fn send(port: &mut dyn LivePort, frames: &[Vec<u8>]) {
    let descriptor = Descriptor {
        link_type: LinkType::ETHERNET,
        ..Descriptor::default()
    };
    let frame = |bytes: &Vec<u8>| Frame::copied(bytes, descriptor);
    let mut burst: Burst = frames.iter().map(frame).collect();
    port.transmit(&mut burst).expect("it sends");
    assert!(burst.is_empty());
}

/// A frame of a protocol that no host answers, with a tag if one is given.
fn odd_frame(number: u8, tag: Option<u16>) -> Vec<u8> {
    let mut bytes = vec![0x02, 0, 0, 0, 0, 0x0a, 0x02, 0, 0, 0, 0, 0x0b];
    if let Some(tag) = tag {
        bytes.extend([0x81, 0x00]);
        bytes.extend(tag.to_be_bytes());
    }
    bytes.extend([0x88, 0xb6]);
    bytes.resize(100, number);
    bytes
}

#[test]
fn frames_pass_as_they_are_and_once() {
    need_wire!();
    for method in ["af_xdp", "af_packet", "af_xdp_generic"] {
        let hosts = Hosts::new();
        let words = ["--between", "m0,m1", "--wait", "sleep", "--method", method];
        let running = emulate(&hosts.between, &words, "m1");
        let [mut client, mut server] = raw_ends(&hosts);
        let tags = [None, Some(7), Some(0x2064), None];
        let sent: Vec<_> = (1..)
            .zip(tags)
            .map(|(at, tag)| odd_frame(at, tag))
            .collect();
        send(&mut *client, &sent);
        assert_eq!(
            arrivals(&running, &mut *server),
            sent,
            "{method}: tags and all, once"
        );
        assert!(
            arrivals(&running, &mut *client).is_empty(),
            "{method}: no echo"
        );
        send(&mut *server, &sent);
        assert_eq!(
            arrivals(&running, &mut *client),
            sent,
            "{method}: the other way"
        );
        assert!(
            arrivals(&running, &mut *server).is_empty(),
            "{method}: no echo"
        );
        let ended = running.interrupt();
        let held = held_status(&ended.out);
        assert_eq!(ended.status.code(), Some(held), "{}", ended.messages);
    }
}

#[test]
fn an_interface_that_goes_down_and_up_is_a_pulled_cable() {
    need_wire!();
    for method in ["af_xdp", "af_packet"] {
        let hosts = Hosts::new();
        let words = ["--between", "m0,m1", "--wait", "sleep", "--method", method];
        let running = emulate(&hosts.between, &words, "m1");
        let [mut client, mut server] = raw_ends(&hosts);
        let frames = |numbers: std::ops::Range<u8>| {
            let frame = |number| odd_frame(number, None);
            numbers.map(frame).collect::<Vec<_>>()
        };
        send(&mut *client, &frames(0..3));
        assert_eq!(arrivals(&running, &mut *server), frames(0..3), "{method}");
        hosts.between.ip("link set m1 down");
        // One at a time: the first one may stay in a ring until the interface is up.
        for number in 3..9 {
            send(&mut *client, &frames(number..number + 1));
            let entered = || stats(&running.out).directions[0].entered;
            wait_until("it came", || entered() > u64::from(number));
        }
        hosts.between.ip("link set m1 up");
        // The kernel takes up to a second to use the link again.
        let mut arrived = Vec::new();
        wait_until("frames pass again", || {
            send(&mut *client, &frames(9..10));
            arrived.append(&mut arrivals(&running, &mut *server));
            arrived.ends_with(&frames(9..10))
        });
        let stale = arrived.iter().filter(|bytes| **bytes != frames(9..10)[0]);
        assert!(stale.count() <= 1, "{method}: {arrived:?}");
        send(&mut *client, &frames(10..13));
        assert_eq!(arrivals(&running, &mut *server), frames(10..13), "{method}");

        hosts.between.ip("link del m1");
        let ended = running.end();
        assert_eq!(ended.status.code(), Some(1), "{}", ended.messages);
        assert!(
            ended.messages.contains("'m1' is gone"),
            "{}",
            ended.messages
        );
        let certificate = manifest(&ended.out).certificate.expect("it is there");
        let facts = &certificate["loop"];
        assert!(facts["dropped_down"].as_u64() >= Some(5), "{facts:#}");
    }
}

#[test]
fn a_kill_leaves_nothing_and_the_frames_pass_elsewhere_again() {
    need_wire!();
    let hosts = Hosts::new();
    let words = ["--between", "m0,m1", "--wait", "sleep"];
    let running = emulate(&hosts.between, &words, "m1");
    let has_program = || {
        let links = hosts.between.command("ip").args(["-d", "link"]).output();
        String::from_utf8_lossy(&links.expect("ip runs").stdout).contains("xdp")
    };
    assert!(has_program());
    running.signal("KILL");
    let ended = running.end();
    assert_eq!(ended.status.code(), None);
    wait_until("the programs are gone", || !has_program());
    assert_eq!(manifest(&ended.out).verdict.state, State::Unfinished);
    // And the interfaces can be used again at once.
    let running = emulate(&hosts.between, &words, "m1");
    let ended = running.interrupt();
    assert_eq!(ended.status.code(), Some(held_status(&ended.out)));
}

#[test]
fn a_tap_writes_a_trace_of_the_frames_that_passed() {
    let Some(_lab) = Lab::up(&["--mirror"]) else {
        return;
    };
    let middle = Namespace::of_another("lineside-mid");
    let client = Namespace::of_another("lineside-cli");
    middle.ip("link set client nomaster");
    middle.ip("link set server nomaster");
    let drive = nfs_drive();
    for method in ["af_xdp", "af_packet"] {
        let words = ["--between", "client,server", "--delay", "300us", "--tap"];
        let how = ["--wait", "sleep", "--method", method];
        let running = emulate(&middle, &[&words[..], &how].concat(), "server");
        let mut counts = Counts::new();
        for work in [
            "--seed 1 meta --rounds 3",
            "--seed 3 seq --file one --bytes 3000000 --chunk 1000000 --depth 3",
            "--seed 7 --udp rand --file five --bytes 200000 --chunk 16384 --depth 4 --operations 60",
        ] {
            let output = client.command(&drive).args(work.split(' ')).output();
            let output = output.expect("nfs-drive runs");
            assert!(output.status.success(), "{method}: {}", talk(&output));
            let counted = serde_json::from_slice(&output.stdout).expect("nfs-drive prints JSON");
            for (name, count) in expected(&counted) {
                *counts.entry(name).or_default() += count;
            }
        }
        if method == "af_packet" {
            running.wait_until("a part with rows is there while it runs", || {
                parts_with_rows(&running.out, Table::Operations) > 0
            });
        }
        let ended = running.interrupt();
        let held = held_status(&ended.out);
        let trace = ended.trace(held);
        assert_eq!(tally(&trace), counts, "{method}");
        trace.assert_identities(method);
        let certificate = trace.manifest.certificate.as_ref().expect("it is there");
        let tap = &certificate["loop"]["tap"];
        let number = |value: &serde_json::Value| value.as_u64().expect("a number");
        let released =
            |direction: &str| number(&certificate["directions"][direction]["counters"]["released"]);
        assert_eq!(
            number(&tap["tapped"]),
            released("outbound") + released("inbound")
        );
        assert_eq!(
            number(&tap["dropped_queue"]) + number(&tap["dropped_memory"]),
            0
        );
        let received = trace.manifest.counters["frames.received"].value;
        assert_eq!(received, number(&tap["tapped"]), "each one was looked at");
    }
}

#[test]
fn two_interfaces_that_cannot_be_ends_are_named() {
    need_wire!();
    for (words, expected) in [
        (&["--between", "lo"][..], "names two interfaces"),
        (&["--between", "lo,lo"], "two different ends"),
        (&["--between", "nowhere0,lo"], "no interface 'nowhere0'"),
        (
            &["--between", "lo,lo2", "--wait", "spinn"],
            "nearest known one is spin",
        ),
        (
            &["--between", "lo,lo2", "in.pcap"],
            "FILE is for 'emulate FILE'",
        ),
        (
            &["--between", "lo,lo2", "--method", "af_paket"],
            "nearest known one is af_packet",
        ),
        (&["--between", "lo,lo2", "--tap"], "--output"),
    ] {
        let output = lineside().arg("emulate").args(words).output();
        let output = output.expect("it runs");
        assert!(!output.status.success());
        assert!(
            talk(&output).contains(expected),
            "{words:?}: {}",
            talk(&output)
        );
    }
}

#[test]
fn where_xdp_is_refused_packet_sockets_do_and_it_says_why() {
    let apart = ["--user", "--map-root-user", "--net"];
    let may = std::process::Command::new("unshare")
        .args(apart)
        .arg("true")
        .output();
    if !may.is_ok_and(|output| output.status.success()) {
        println!("SKIP: no user namespace may be made here");
        return;
    }
    let script =
        "ip link add m0 type veth peer name c0 && ip link add m1 type veth peer name s0 || exit 9
        for end in m0 c0 m1 s0; do ip link set $end up; done
        exec \"$1\" emulate --between m0,m1 --delay 100ns --wait sleep -a duration:0.2";
    let output = std::process::Command::new("unshare")
        .args(apart)
        .args(["sh", "-c", script, "sh"])
        .arg(lineside().get_program())
        .output()
        .expect("unshare runs");
    let messages = talk(&output);
    assert!(came_to_its_end(&output), "{messages}");
    for end in ["m0", "m1"] {
        let why = format!("listening at {end} by AF_PACKET: AF_XDP cannot be had: ");
        assert!(messages.contains(&why), "{messages}");
    }
    assert!(
        messages.contains("outbound: delays of 100 ns were asked for and are below the floor"),
        "{messages}"
    );
}
