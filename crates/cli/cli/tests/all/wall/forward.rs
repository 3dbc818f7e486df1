//! `lineside forward` between real TCP ends: who sees which address, what a drain, a reload and a
//! kill cost, what nodes that fail and narrow links do.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{lineside, manifest, talk, wait_until};
use crate::wall::load_devices::inside;
use crate::wall::load_ends::{Served, certificate_by, number};
use crate::wall::wire::{Ended, Namespace, Running, Tcpdump, need_wire, private_folder, run};

/// Clients at `c0` (10.9.1.7), nodes at `s0` (10.9.2.2, 10.9.2.3), a forwarder at `f0` and `f1`.
pub(crate) struct Farm {
    pub(crate) clients: Namespace,
    pub(crate) forwarder: Namespace,
    pub(crate) nodes: Namespace,
}

pub(crate) const TCP: &str = "tcp 10.9.1.100:80 to 10.9.2.2:8080, 10.9.2.3:8080";

impl Farm {
    pub(crate) fn new() -> Self {
        // Tests run beside each other.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let namespace = |end| Namespace::new(&format!("{end}{number}"));
        let farm = Self {
            clients: namespace("fc"),
            forwarder: namespace("ff"),
            nodes: namespace("fn"),
        };
        for (end, here, there) in [(&farm.clients, "c0", "f0"), (&farm.nodes, "s0", "f1")] {
            farm.forwarder.ip(&format!(
                "link add {there} type veth peer name {here} netns {}",
                end.name()
            ));
            end.ip(&format!("link set {here} up"));
            // A veth takes frames from another driver only so.
            run(end.command("ethtool").args(["-K", here, "gro", "on"]));
            farm.forwarder.ip(&format!("link set {there} up"));
        }
        farm.clients.ip("addr add 10.9.1.7/24 dev c0");
        farm.nodes.ip("addr add 10.9.2.2/24 dev s0");
        farm.nodes.ip("addr add 10.9.2.3/24 dev s0");
        farm
    }

    /// The same with checksums that are whole as they leave the hosts: the driver forwards them.
    pub(crate) fn for_the_driver() -> Self {
        let farm = Self::new();
        for (end, here) in [(&farm.clients, "c0"), (&farm.nodes, "s0")] {
            run(end.command("ethtool").args(["-K", here, "tx", "off"]));
        }
        farm
    }

    /// Gives both ends addresses of IPv6 too.
    pub(crate) fn with_v6(self) -> Self {
        for (end, here, address) in [
            (&self.clients, "c0", "fd00:9:1::7/64"),
            (&self.nodes, "s0", "fd00:9:2::2/64"),
        ] {
            let key = format!("net.ipv6.conf.{here}.disable_ipv6=0");
            run(end.command("sysctl").args(["-qw", &key]));
            end.ip(&format!("addr add {address} dev {here} nodad"));
        }
        self
    }

    pub(crate) fn node(&self, at: &str) -> Served {
        Served::of(inside(&self.nodes), &["http", at])
    }

    pub(crate) fn nodes(&self) -> [Served; 2] {
        [self.node("10.9.2.2:8080"), self.node("10.9.2.3:8080")]
    }

    /// The forwarder; it listens when this returns.
    pub(crate) fn forward(&self, words: &[&str]) -> Running {
        let folder = private_folder();
        let out = folder.path().join("run");
        let mut command = inside(&self.forwarder);
        command.args(["forward", "-i", "f0,f1", "--nat", "10.9.2.100"]);
        command.args(words).arg("-o").arg(&out);
        let running = Running::spawn(&mut command, out, folder);
        running.wait_until("it listens", || {
            running.messages().contains("listening at f1")
        });
        running
    }

    pub(crate) fn load(&self, words: &[&str]) -> Value {
        certificate_by(inside(&self.clients), words)
    }
}

fn ctl(running: &Running, words: &[&str]) -> Output {
    let output = lineside().arg("ctl").arg(&running.out).args(words).output();
    output.expect("lineside runs")
}

pub(crate) fn done(running: &Running, words: &[&str]) -> String {
    let output = ctl(running, words);
    assert!(output.status.success(), "{words:?}: {}", talk(&output));
    String::from_utf8(output.stdout).expect("text")
}

pub(crate) fn stats(running: &Running) -> Value {
    let text = done(running, &["stats", "--json"]);
    serde_json::from_str(&text).expect("JSON")
}

pub(crate) fn certificate(ended: &Ended) -> Value {
    assert_eq!(ended.status.code(), Some(0), "{}", ended.messages);
    manifest(&ended.out).certificate.expect("it is there")
}

/// Each frame that came has one outcome.
pub(crate) fn assert_counted(certificate: &Value) {
    let outcomes = certificate["outcomes"].as_object().expect("a table");
    let sum: u64 = outcomes.values().filter_map(Value::as_u64).sum();
    let held = number(certificate, "/held");
    assert_eq!(
        number(certificate, "/arrived"),
        sum + held,
        "{certificate:#}"
    );
}

/// Frames came, and each has one outcome.
pub(crate) fn assert_whole(certificate: &Value) {
    assert_counted(certificate);
    assert_eq!(
        certificate["verdict"]["state"], "complete",
        "{certificate:#}"
    );
}

fn opened(certificate: &Value) -> Vec<u64> {
    let nodes = certificate["services"][0]["nodes"].as_array();
    let nodes = nodes.expect("a list").iter();
    nodes.map(|node| number(node, "/opened")).collect()
}

#[test]
fn connections_go_to_all_nodes_by_every_way_of_forwarding() {
    need_wire!();
    for (way, farm) in [
        (&["--mode", "driver"][..], Farm::for_the_driver()),
        (&["--mode", "loop"], Farm::new()),
        (&["--method", "af_packet"], Farm::for_the_driver()),
    ] {
        let _nodes = farm.nodes();
        let forwarder = farm.forward(&[&["--service", TCP], way].concat());
        let url = "http://10.9.1.100/";
        let found = farm.load(&[
            url,
            "-c",
            "16",
            "-n",
            "2000",
            "--requests-per-connection",
            "50",
        ]);
        assert_eq!(
            number(&found, "/requests/succeeded"),
            2000,
            "{way:?}: {found:#}"
        );
        assert_eq!(found["requests"]["failed"], json!({}), "{way:?}: {found:#}");
        let text = done(&forwarder, &["stats"]);
        assert!(text.contains("service        tcp 10.9.1.100:80"), "{text}");
        let counted = certificate(&forwarder.interrupt());
        assert_whole(&counted);
        let opened = opened(&counted);
        assert!(opened.iter().all(|&count| count >= 5), "{opened:?}");
        assert_eq!(
            opened.iter().sum::<u64>(),
            number(&counted, "/services/0/opened")
        );
        let by_driver = counted.pointer("/driver/frames").and_then(Value::as_u64);
        match way[1] {
            "driver" => assert!(by_driver > Some(1_500), "{counted:#}"),
            _ => assert!(by_driver.unwrap_or(0) == 0, "{counted:#}"),
        }
    }
}

#[test]
fn neither_end_sees_the_others_address_nor_a_wrong_checksum() {
    need_wire!("tcpdump", "tshark");
    // Checksums that hosts leave to adapters stay so as far as the other host.
    let farm = Farm::for_the_driver();
    let _nodes = farm.nodes();
    let folder = private_folder();
    let forwarder = farm.forward(&[
        "--service",
        TCP,
        "--service",
        "udp 10.9.1.100:53 to 10.9.2.2:53",
    ]);
    // What comes in: what goes out has its checksum from an adapter that is not there.
    for (end, at, own, comes_in) in [
        (&farm.clients, "c0", "10.9.1.", "dst host 10.9.1.7"),
        (
            &farm.nodes,
            "s0",
            "10.9.2.",
            "not src host 10.9.2.2 and not src host 10.9.2.3",
        ),
    ] {
        let path = folder.path().join(at);
        let tcpdump = Tcpdump::filtered(end.command("tcpdump"), at, &path, comes_in);
        farm.load(&["http://10.9.1.100/", "-c", "4", "-n", "200"]);
        let echo = farm
            .nodes
            .enter(|| UdpSocket::bind("10.9.2.2:53"))
            .expect("free");
        let asking = farm
            .clients
            .enter(|| UdpSocket::bind("10.9.1.7:0"))
            .expect("free");
        asking.send_to(b"question", "10.9.1.100:53").expect("sent");
        let mut bytes = [0; 16];
        let (_, from) = echo.recv_from(&mut bytes).expect("a datagram");
        assert_eq!(from.ip().to_string(), "10.9.2.100");
        echo.send_to(b"answer", from).expect("sent");
        let (len, from) = asking.recv_from(&mut bytes).expect("a datagram");
        assert_eq!(
            (&bytes[..len], from.to_string()),
            (&b"answer"[..], "10.9.1.100:53".to_owned())
        );
        tcpdump.end_when_quiet();
        let fields = [
            "-e",
            "ip.src",
            "-e",
            "ip.dst",
            "-e",
            "tcp.checksum.status",
            "-e",
            "udp.checksum.status",
            "-e",
            "ip.checksum.status",
        ];
        let checks = [
            "tcp.check_checksum:TRUE",
            "udp.check_checksum:TRUE",
            "ip.check_checksum:TRUE",
        ];
        let mut tshark = Command::new("tshark");
        tshark
            .args(["-n", "-r"])
            .arg(&path)
            .args(["-Y", "tcp or udp", "-T", "fields"]);
        checks.iter().for_each(|check| {
            tshark.args(["-o", check]);
        });
        let output = tshark.args(fields).output().expect("tshark runs");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(text.lines().count() > 200, "{text}");
        for line in text.lines() {
            let fields: Vec<_> = line.split('\t').collect();
            assert!(
                fields[..2].iter().all(|address| address.starts_with(own)),
                "{line}"
            );
            assert!(
                fields[2..].iter().all(|status| ["", "1"].contains(status)),
                "{line}"
            );
        }
    }
    assert_whole(&certificate(&forwarder.interrupt()));
}

#[test]
fn drain_weight_and_reload_fail_no_request() {
    need_wire!();
    let farm = Farm::new();
    let _nodes = farm.nodes();
    let farm = &farm;
    let forwarder = farm.forward(&["--service", TCP]);
    let file = forwarder.folder.path().join("new.toml");
    let text = "[forward]\nnat = [\"10.9.2.100\"]\n[[forward.service]]\n\
                address = \"10.9.1.100:80\"\nnodes = [\"10.9.2.3:8080 weight 2\"]\n";
    std::fs::write(&file, text).expect("written");
    let found = thread::scope(|scope| {
        let words = [
            "http://10.9.1.100/",
            "-c",
            "16",
            "-d",
            "6s",
            "-R",
            "2000",
            "--requests-per-connection",
            "20",
        ];
        let load = scope.spawn(move || farm.load(&words));
        let of_first = || opened(&stats(&forwarder))[0];
        let goes_on = |than: u64| of_first() > than || load.is_finished();
        wait_until("it gets connections", || goes_on(20));
        assert!(done(&forwarder, &["drain", "10.9.2.2:8080"]).contains("drains"));
        let drained = of_first();
        // While the other one gets some.
        let of_other = || opened(&stats(&forwarder))[1];
        let before = of_other();
        wait_until("the other one gets connections", || {
            of_other() > before + 20 || load.is_finished()
        });
        assert_eq!(of_first(), drained, "it gets no new ones");
        assert!(!load.is_finished(), "the load is too short");
        done(&forwarder, &["weight", "10.9.2.2:8080", "3"]);
        wait_until("it does again", || goes_on(drained));
        assert!(of_first() > drained, "it does again");
        done(&forwarder, &["drain", "10.9.2.2:8080"]);
        wait_until("it has none", || {
            number(&stats(&forwarder), "/services/0/nodes/0/connections") == 0 || load.is_finished()
        });
        done(&forwarder, &["reload", file.to_str().expect("text")]);
        assert_eq!(opened(&stats(&forwarder)).len(), 1);
        load.join().expect("it ends")
    });
    assert_eq!(found["requests"]["failed"], json!({}), "{found:#}");
    let mut explain = lineside();
    explain.arg("explain").arg(&forwarder.out);
    let explained = explain
        .args(["--flow", "10.9.1.7:5000-10.9.1.100:80"])
        .output();
    let explained = explained.expect("it runs");
    assert!(talk(&explained).is_empty(), "{}", talk(&explained));
    let text = String::from_utf8(explained.stdout).expect("text");
    assert!(text.contains("goes to 10.9.2.3:8080"), "{text}");
    for (words, expected) in [
        (&["drain", "10.9.9.9:1"][..], "10.9.9.9:1"),
        (&["add", "10.9.2.3:8080"], "twice"),
        (&["weight", "10.9.2.3:8080", "9999"], "0 to 1000"),
        (&["drain"], "the node is missing"),
        (&["add", "10.9.2.5:80", "at", "10.9.1.1:1"], "no service"),
        (&["mark", "x"], "forwarder"),
    ] {
        let output = ctl(&forwarder, words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(
            talk(&output).contains(expected),
            "{words:?}: {}",
            talk(&output)
        );
    }
    assert_whole(&certificate(&forwarder.interrupt()));
}

#[test]
fn a_killed_forwarder_is_resumed_and_no_connection_is_lost() {
    need_wire!();
    let farm = Farm::for_the_driver();
    let echo = Served::of(inside(&farm.nodes), &["echo", "10.9.2.2:8080"]);
    let service = "tcp 10.9.1.100:80 to 10.9.2.2:8080";
    let farm = &farm;
    let forwarder = farm.forward(&["--service", service]);
    let found = thread::scope(|scope| {
        let words = [
            "echo://10.9.1.100:80",
            "-c",
            "200",
            "-d",
            "4s",
            "-R",
            "1000",
            "--timeout",
            "10s",
        ];
        let load = scope.spawn(move || farm.load(&words));
        wait_until("all are open", || {
            number(&stats(&forwarder), "/table/connections") == 200 || load.is_finished()
        });
        // Bytes go back and forth.
        let came = || number(&stats(&forwarder), "/arrived");
        let before = came();
        wait_until("frames pass", || {
            came() > before + 500 || load.is_finished()
        });
        forwarder.signal("KILL");
        let killed = forwarder.end();
        let run = killed.out.to_str().expect("text");
        let resumed = farm.forward(&["--service", service, "--resume", run]);
        assert!(
            resumed.messages().contains("200 connections taken over"),
            "{}",
            resumed.messages()
        );
        let found = load.join().expect("it ends");
        assert_whole(&certificate(&resumed.interrupt()));
        found
    });
    assert_eq!(found["requests"]["failed"], json!({}), "{found:#}");
    assert_eq!(
        number(&found, "/requests/succeeded"),
        number(&found, "/requests/sent")
    );
    drop(echo);
    // Nothing is left of the one that was killed.
    let left = farm
        .forwarder
        .command("ip")
        .args(["-d", "link"])
        .output()
        .expect("it runs");
    let left = String::from_utf8(left.stdout).expect("text");
    assert!(!left.contains("xdp"), "{left}");
}

#[test]
fn a_node_that_fails_its_checks_gets_no_connections() {
    need_wire!();
    let farm = Farm::new();
    let [stays, goes] = farm.nodes();
    let checked =
        format!("{TCP}; check http / every 200ms within 150ms fall 2 rise 1; on-loss reset");
    let forwarder = farm.forward(&["--service", &checked]);
    let state = |forwarder: &Running| stats(forwarder)["services"][0]["nodes"][1]["state"].clone();
    wait_until("both are checked", || {
        number(&stats(&forwarder), "/services/0/nodes/1/checks_good") > 0
    });
    drop(goes);
    wait_until("it is down", || state(&forwarder) == "down");
    let found = farm.load(&[
        "http://10.9.1.100/",
        "-c",
        "8",
        "-n",
        "400",
        "--requests-per-connection",
        "10",
    ]);
    assert_eq!(found["requests"]["failed"], json!({}), "{found:#}");
    let again = farm.node("10.9.2.3:8080");
    wait_until("it is up again", || state(&forwarder) == "up");
    let ended = forwarder.interrupt();
    let counted = certificate(&ended);
    let history = counted["services"][0]["nodes"][1]["history"]
        .as_array()
        .map(Vec::len);
    assert!(history >= Some(2), "{counted:#}");
    assert_whole(&counted);
    assert_reported(&ended.out);
    drop((stays, again));
}

/// The report says which node was down, and how the connections ended.
fn assert_reported(run: &std::path::Path) {
    let report = |words: &[&str]| {
        let output = lineside().arg("report").arg(run).args(words).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{}", talk(&output));
        String::from_utf8(output.stdout).expect("text")
    };
    let first = report(&[]);
    assert!(first.lines().count() <= 25, "{first}");
    assert!(first.contains("tcp 10.9.1.100:80"), "{first}");
    let text = report(&["--full"]);
    let down = "10.9.2.3:8080 of tcp 10.9.1.100:80: down from";
    for line in ["Forwarder", down, "Forwarder over time"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("Emulated link"), "{text}");
    let json: Value = serde_json::from_str(&report(&["--json"])).expect("JSON");
    assert_eq!(json["emulation"], Value::Null);
    let forwarding = &json["forwarding"];
    let of_course = forwarding["course"]["opened"].as_array();
    let of_course = of_course.expect("a list").iter();
    let began: u64 = of_course.filter_map(Value::as_u64).sum();
    assert_eq!(number(forwarding, "/services/0/opened"), began);
    let page = run.with_extension("html");
    report(&["--html", page.to_str().expect("a name")]);
    let page = std::fs::read_to_string(page).expect("written");
    assert!(page.contains(down) && page.contains(">Connections that began<"));
}

#[test]
fn addresses_of_both_families_answer_and_report_narrow_links() {
    need_wire!("ping");
    let farm = Farm::for_the_driver().with_v6();
    farm.nodes.ip("link set s0 mtu 1400");
    farm.forwarder.ip("link set f1 mtu 1400");
    let services = [
        "--service",
        "tcp 10.9.1.100:80 to 10.9.2.2:8080",
        "--service",
        "tcp [fd00:9:1::100]:80 to [fd00:9:2::2]:8080",
        "--service",
        "udp 10.9.1.100:9 to 10.9.2.2:9",
    ];
    let forwarder =
        farm.forward(&[&services[..], &["--nat", "fd00:9:2::100", "--mode", "loop"]].concat());
    for (address, more) in [("10.9.1.100", "-4"), ("fd00:9:1::100", "-6")] {
        let ping = ["-c", "2", "-i", "0.2", "-W", "2", more, address];
        run(farm.clients.command("ping").args(ping));
    }
    for (node, service) in [
        ("10.9.2.2:8080", "10.9.1.100:80"),
        ("[fd00:9:2::2]:8080", "[fd00:9:1::100]:80"),
    ] {
        let listener = farm.nodes.enter(|| TcpListener::bind(node)).expect("free");
        let len = 3 << 20;
        let sent: Vec<u8> = (0..len).map(|at: usize| (at * 31 % 251) as u8).collect();
        let mut arrived = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("the other end");
                stream.read_to_end(&mut arrived).expect("all of it");
            });
            let to: SocketAddr = service.parse().expect("an address");
            let mut stream = farm
                .clients
                .enter(|| TcpStream::connect(to))
                .expect("it listens");
            stream.write_all(&sent).expect("it is read");
        });
        assert!(arrived == sent, "{service}: every byte arrived");
    }
    // A datagram that may not be cut is answered with the size that fits: the next one is cut.
    let sink = farm
        .nodes
        .enter(|| UdpSocket::bind("10.9.2.2:9"))
        .expect("free");
    sink.set_read_timeout(Some(Duration::from_millis(300)))
        .expect("a time");
    let asking = farm
        .clients
        .enter(|| UdpSocket::bind("10.9.1.7:0"))
        .expect("free");
    asking.connect("10.9.1.100:9").expect("a way");
    let bytes = [7; 1450];
    let mut got = [0; 2000];
    let cut = (0..20).find_map(|_| {
        // The first one finds no neighbour yet, and a later one learns the size here.
        let _ = asking.send(&bytes);
        sink.recv_from(&mut got).ok()
    });
    let (len, _) = cut.expect("it came in pieces");
    assert_eq!(got[..len], bytes);
    let counted = certificate(&forwarder.interrupt());
    assert_whole(&counted);
}

#[test]
fn frames_that_are_written_are_those_of_both_sides() {
    need_wire!("tshark");
    let farm = Farm::for_the_driver();
    let _nodes = farm.nodes();
    let folder = private_folder();
    let file = folder.path().join("frames.pcapng");
    let forwarder = farm.forward(&[
        "--service",
        TCP,
        "--write-pcap",
        file.to_str().expect("text"),
    ]);
    farm.load(&["http://10.9.1.100/", "-c", "2", "-n", "100"]);
    let counted = certificate(&forwarder.interrupt());
    assert_whole(&counted);
    assert_eq!(
        number(&counted, "/driver/frames"),
        0,
        "what the driver forwards, no tap sees"
    );
    let count = |filter: &str| {
        let mut tshark = Command::new("tshark");
        let output = tshark
            .args(["-n", "-r"])
            .arg(&file)
            .args(["-Y", filter])
            .output();
        let output = output.expect("tshark runs");
        String::from_utf8_lossy(&output.stdout).lines().count()
    };
    assert_eq!(count("http.request and ip.dst == 10.9.1.100"), 100);
    assert_eq!(count("http.request and ip.src == 10.9.2.100"), 100);
    assert_eq!(count("http.response and ip.src == 10.9.1.100"), 100);
}

#[test]
fn what_cannot_be_forwarded_is_refused_with_the_way_out() {
    need_wire!();
    let farm = Farm::new();
    farm.forwarder.ip("addr add 10.9.1.55/24 dev f0");
    let refused = |words: &[&str], code: i32, expected: &str| {
        let mut command = inside(&farm.forwarder);
        let output = command
            .arg("forward")
            .args(words)
            .args(["-a", "duration:1"])
            .output();
        let output = output.expect("it runs");
        assert_eq!(
            output.status.code(),
            Some(code),
            "{words:?}: {}",
            talk(&output)
        );
        assert!(
            talk(&output).contains(expected),
            "{words:?}: {}",
            talk(&output)
        );
    };
    let nat = ["-i", "f0,f1", "--nat", "10.9.2.100", "--service"];
    let with = |service| [&nat[..], &[service]].concat();
    refused(&["--service", TCP], 2, "-i IF1");
    refused(&["-i", "f0,f1"], 2, "no service");
    refused(&["-i", "f0,f1", "--service", TCP], 2, "NAT address");
    refused(
        &["--ports", "f0,fl", "--nat", "10.9.2.100", "--service", TCP],
        1,
        "did you mean",
    );
    refused(&with("tcp 10.9.1.100:80 to"), 2, "' to '");
    refused(&with("tcp 10.9.1.100:80 to 10.9.2.100:80"), 2, "twice");
    refused(&[&with(TCP)[..], &["--service", TCP]].concat(), 2, "twice");
    refused(
        &with("tcp 10.9.1.55:80 to 10.9.2.2:80"),
        2,
        "this host has the address",
    );
    refused(
        &[&with(TCP)[..], &["--connections-max", "400000000"]].concat(),
        2,
        "memory",
    );
    refused(
        &[&with(TCP)[..], &["--resume", "/nonexistent"]].concat(),
        2,
        "no whole table",
    );
    refused(
        &[&with(TCP)[..], &["--route", "default via 10.9.2.1 dev f7"]].concat(),
        2,
        "f7",
    );
    refused(
        &[&with(TCP)[..], &["--method", "afxdp"]].concat(),
        2,
        "af_xdp",
    );
    let keeps = format!("{TCP}; keep-client");
    refused(&with(&keeps), 2, "10.9.1.55");
    run(farm
        .forwarder
        .command("sysctl")
        .args(["-qw", "net.ipv4.ip_forward=1"]));
    refused(
        &[&with(TCP)[..], &["--method", "af_packet"]].concat(),
        2,
        "ip_forward",
    );
    let mut command = inside(&farm.forwarder);
    let output = command
        .arg("forward")
        .args(with(TCP))
        .arg("--check")
        .output()
        .expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("10.9.2.3:8080 weight 1"), "{text}");
    assert!(text.contains("63,488 connections a node at once"), "{text}");
}

#[test]
fn a_content_switch_sends_requests_where_their_rules_say() {
    need_wire!("curl");
    let farm = Farm::new();
    let _nodes = farm.nodes();
    let service = "tcp 10.9.1.100:80 to 10.9.2.2:8080, 10.9.2.3:8080; \
                   host img.example.com to 10.9.2.3:8080; path /api/ to 10.9.2.2:8080; \
                   default to 10.9.2.3:8080";
    let forwarder = farm.forward(&["--service", service, "--mode", "loop"]);
    let get = |host: &str, path: &str| {
        let url = format!("http://10.9.1.100{path}");
        let host = format!("Host: {host}");
        let words = [
            "-s",
            "-m",
            "5",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            "-H",
            &host,
            &url,
        ];
        let output = farm
            .clients
            .command("curl")
            .args(words)
            .output()
            .expect("curl runs");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "200",
            "{host} {path}"
        );
    };
    for (host, path, expected) in [
        ("img.example.com", "/api/a", [0, 1]),
        ("example.com", "/api/b", [1, 1]),
        ("example.com", "/c", [1, 2]),
    ] {
        get(host, path);
        assert_eq!(opened(&stats(&forwarder)), expected, "{host} {path}");
    }
    let text = done(&forwarder, &["stats"]);
    assert!(
        text.contains("answered here  3 handshakes: 3 spliced, 0 wait"),
        "{text}"
    );
    let counted = certificate(&forwarder.interrupt());
    assert_whole(&counted);
    assert_eq!(counted["splices"]["counters"]["matched"], 2, "{counted:#}");
}
