//! `lineside emulate --between` three interfaces: hosts behind an emulated switch.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lineside_analyze::Report;
use lineside_rows::Table;
use lineside_time::Random;
use lineside_words::grouped;
use serde_json::Value;

use crate::report::check;
use crate::support::{held_status, lineside, manifest, records, talk};
use crate::wall::between::emulate;
use crate::wall::stats::wait_until_empty;
use crate::wall::wire::{Namespace, need_wire, run};

/// Three hosts, each with a veth pair from its `e0` to `m0`, `m1`, `m2` of a host between them.
struct Star {
    hosts: Vec<Namespace>,
    between: Namespace,
}

impl Star {
    fn new() -> Self {
        // Tests run beside each other.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let between = Namespace::new(&format!("hub{number}"));
        let host = |place: usize| {
            let host = Namespace::new(&format!("h{number}{place}"));
            between.ip(&format!(
                "link add m{place} numrxqueues 1 numtxqueues 1 type veth peer name e0 \
                numrxqueues 1 numtxqueues 1 netns {}",
                host.name()
            ));
            // No adapter is there that would cut long segments.
            run(host
                .command("ethtool")
                .args(["-K", "e0", "tso", "off", "gso", "off"]));
            host.ip("link set e0 up");
            host.ip(&format!("addr add {}/24 dev e0", address(place)));
            between.ip(&format!("link set m{place} up"));
            host
        };
        Self {
            hosts: (0..3).map(host).collect(),
            between,
        }
    }

    /// What the kernel counted at the end of a host: frames sent and received.
    fn counted(&self, place: usize) -> [u64; 2] {
        ["tx_packets", "rx_packets"].map(|name| {
            let file = format!("/sys/class/net/e0/statistics/{name}");
            let output = self.hosts[place].command("cat").arg(file).output();
            let text = String::from_utf8(output.expect("cat runs").stdout);
            let text = text.expect("a number");
            text.trim().parse().expect("a number")
        })
    }

    /// A datagram to another host and back; `None` if it was lost on the way.
    fn round_trip(&self, from: usize, to: usize) -> Option<Duration> {
        // Any port: one of a socket that was closed may still be taken, by a process that another
        // test is about to begin.
        let bind = |place: usize| {
            let bind = || UdpSocket::bind((address(place), 0)).expect("free");
            let socket = self.hosts[place].enter(bind);
            let patience = Some(Duration::from_secs(2));
            socket.set_read_timeout(patience).expect("a time");
            socket
        };
        let (asking, echo) = (bind(from), bind(to));
        #[expect(
            clippy::disallowed_methods,
            reason = "the time of the wire is measured"
        )]
        let began = Instant::now();
        let to = echo.local_addr().expect("bound");
        asking.send_to(&[7], to).expect("sent");
        let mut byte = [0];
        let (_, back) = echo.recv_from(&mut byte).ok()?;
        echo.send_to(&byte, back).expect("sent");
        asking.recv_from(&mut byte).ok()?;
        Some(began.elapsed())
    }

    /// Sends random bytes to another host by the kernels' TCP.
    fn transfer(&self, from: usize, to: usize, len: usize) {
        let mut random = Random::new(11);
        let sent: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
        let listen = || TcpListener::bind((address(to), 0)).expect("free");
        let listener = self.hosts[to].enter(listen);
        let listens = listener.local_addr().expect("bound");
        let mut arrived = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("the other end");
                stream.read_to_end(&mut arrived).expect("all of it");
            });
            let connect = || TcpStream::connect(listens).expect("it listens");
            let mut stream = self.hosts[from].enter(connect);
            stream.write_all(&sent).expect("it is read");
        });
        assert!(arrived == sent, "every byte arrived");
    }
}

fn address(place: usize) -> String {
    format!("192.0.2.{}", place + 1)
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

#[test]
fn three_hosts_reach_each_other_through_a_switch() {
    need_wire!();
    for method in ["af_xdp", "af_packet"] {
        let star = Star::new();
        let words = [
            "--between",
            "m0,m1,m2",
            "--wait",
            "sleep",
            "--method",
            method,
        ];
        let link = ["--delay", "m2 in: 5ms", "--delay", "m0 out: 3ms"];
        let running = emulate(&star.between, &[&words[..], &link].concat(), "m2");
        let before = [0, 1, 2].map(|place| star.counted(place));
        for (from, to, least_us) in [
            (0, 1, 3_000),
            (1, 0, 3_000),
            (0, 2, 8_000),
            (2, 0, 8_000),
            (1, 2, 5_000),
            (2, 1, 5_000),
        ] {
            // The first one waits for an address too.
            star.round_trip(from, to);
            let trip = star.round_trip(from, to).expect("nothing is lost");
            assert!(
                trip >= Duration::from_micros(least_us - 100),
                "{from} {to} {trip:?}"
            );
        }
        for (from, to) in [(0, 1), (1, 2), (2, 0)] {
            star.transfer(from, to, 300_000);
        }
        wait_until_empty(&running);
        let after = [0, 1, 2].map(|place| star.counted(place));
        let ended = running.interrupt();
        let held = held_status(&ended.out);
        assert_eq!(ended.status.code(), Some(held), "{}", ended.messages);
        let certificate = manifest(&ended.out).certificate.expect("it is there");
        let (core, loop_facts) = (&certificate["core"], &certificate["loop"]);
        let (mut came, mut left) = (0, 0);
        for place in 0..3 {
            let count = |way: &str, name: &str| {
                number(&certificate["directions"][format!("m{place} {way}")]["counters"][name])
            };
            let [sent, received] = [0, 1].map(|at| after[place][at] - before[place][at]);
            assert_eq!(
                count("in", "entered"),
                sent,
                "{method} m{place}: {loop_facts:#}"
            );
            assert_eq!(count("out", "released"), received, "{method} m{place}");
            let port = &core["ports"][place];
            assert_eq!(port["name"], format!("m{place}"));
            assert_eq!(number(&port["came"]), count("in", "released"));
            assert_eq!(number(&port["left"]), count("out", "entered"));
            assert_eq!(number(&port["addresses"]), 1, "{core:#}");
            came += number(&port["came"]);
            left += number(&port["left"]);
        }
        let dropped: u64 = { core["dropped"].as_object().expect("by reason").values() }
            .map(number)
            .sum();
        assert_eq!(came + number(&core["copies"]), left + dropped, "{core:#}");
        reported(&ended.out, core);
        // Requests for addresses go to all, TCP does not.
        let (flooded, forwarded) = (number(&core["flooded"]), number(&core["forwarded"]));
        // 900,000 bytes of TCP were not.
        let segments = 900_000 / 65_536;
        assert!(flooded >= 1 && forwarded > segments, "{core:#}");
        assert!(flooded < forwarded, "{core:#}");
    }
}

/// A report of the run has the switch as the certificate has it, in every form.
fn reported(run: &Path, core: &Value) {
    let report = |words: &[&str]| {
        let output = lineside().arg("report").arg(run).args(words).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{}", talk(&output));
        String::from_utf8(output.stdout).expect("text")
    };
    let json: Value = serde_json::from_str(&report(&["--json"])).expect("JSON");
    assert_eq!(json["emulation"]["core"], *core);
    let schema = schemars::schema_for!(Report).to_value();
    let mut found = Vec::new();
    check(&json, &schema, &schema, "report", &mut found);
    assert!(found.is_empty(), "{found:#?}");
    let (text, page) = (report(&["--full"]), report(&["--html", "-"]));
    let count = |name: &str| grouped(number(&core[name]));
    let flooded = format!("{} copies", count("copies"));
    for expected in ["Switch", &count("came"), &flooded, "m2", "3 known"] {
        assert!(text.contains(expected), "{expected}: {text}");
        assert!(page.contains(expected), "{expected}");
    }
    let (_, index) = page.split_once("<nav").expect("an index");
    let (index, _) = index.split_once("</nav>").expect("its end");
    assert_eq!(index.matches(">Switch<").count(), 1, "{index}");
}

#[test]
fn a_third_port_that_vanishes_ends_nothing_for_the_others() {
    need_wire!();
    for method in ["af_xdp", "af_packet"] {
        let star = Star::new();
        // Jumbo frames pass between two ports and not to the third.
        for (host, name) in [(&star.hosts[0], "e0"), (&star.hosts[1], "e0")] {
            host.ip(&format!("link set {name} mtu 3000"));
        }
        star.between.ip("link set m0 mtu 3000");
        star.between.ip("link set m1 mtu 3000");
        let words = [
            "--between",
            "m0,m1,m2",
            "--wait",
            "sleep",
            "--method",
            method,
        ];
        let running = emulate(&star.between, &words, "m2");
        star.round_trip(0, 2).expect("it is there");
        star.transfer(0, 1, 200_000);
        star.between.ip("link del m2");
        running.wait_until("it says so", || {
            running.messages().contains("m2 takes no further part")
        });
        star.transfer(1, 0, 200_000);
        assert!(star.round_trip(0, 1).is_some(), "{}", running.messages());
        let ended = running.interrupt();
        let certificate = manifest(&ended.out).certificate.expect("it is there");
        let gone = certificate["loop"]["gone"].as_array().expect("a list");
        assert_eq!(gone.len(), 1, "{certificate:#}");
        let why = gone[0]["why"].as_str().expect("words");
        assert!(why.contains("'m2' is gone"), "{why}");
        assert_eq!(certificate["core"]["ports"][2]["is_gone"], true);
        let reasons = certificate["verdict"]["reasons"].to_string();
        assert!(reasons.contains("m2"), "{reasons}");
    }
}

/// Sends lines of frames in hexadecimal by `e0`.
const SEND: &str = "
import socket, sys
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(('e0', 0))
for line in sys.stdin:
    out.send(bytes.fromhex(line))
";

#[test]
fn monitors_see_each_frame_that_the_switch_drops_where_it_came() {
    need_wire!("python3");
    for method in ["af_xdp", "af_packet"] {
        let star = Star::new();
        let words = ["--between", "m0,m1,m2", "--wait", "sleep"];
        let asked = ["--monitor", "size", "--monitor", "size at *.dropped"];
        let folder = crate::wall::wire::private_folder();
        let file = folder.path().join("passed.pcapng");
        let file = ["--write-pcap", file.to_str().expect("text")];
        let words = [&words[..], &["--method", method], &asked, &file].concat();
        let running = emulate(&star.between, &words, "m2");
        star.round_trip(0, 1).expect("nothing is lost");
        // From two hosts at one port to each other, and to the link's other end.
        let frame = |to: [u8; 6], from: u8, len: usize| {
            let mut bytes = [&to[..], &[2, 0, 0, 0, 9, from], &[0x88, 0xb5]].concat();
            bytes.resize(len, 0);
            bytes
        };
        let own = frame([2, 0, 0, 0, 9, 1], 2, 333);
        let reserved = frame([0x01, 0x80, 0xc2, 0, 0, 0x0e], 1, 444);
        let all = frame([0xff; 6], 1, 222);
        let frames = [vec![all], vec![own; 7], vec![reserved; 5]].concat();
        star.hosts[2].python(SEND, &frames);
        star.round_trip(0, 2).expect("nothing is lost");
        wait_until_empty(&running);
        let ended = running.interrupt();
        let certificate = manifest(&ended.out).certificate.expect("it is there");
        let core = &certificate["core"];
        assert_eq!(core["dropped"]["same_port"], 7, "{core:#}");
        assert_eq!(core["dropped"]["reserved"], 5, "{core:#}");
        let read = folder.path().join("read");
        let mut again = lineside();
        again.args(["capture", "-q", "-r", file[1]]).args(asked);
        let output = again.arg("-o").arg(&read).output().expect("it runs");
        assert!(output.status.success(), "{}", talk(&output));
        for folder in [&ended.out, &read] {
            let rows = records(folder, Table::MonitorBins);
            let count = |port: &str, point: &str, len: Option<i64>| {
                let rows = rows.iter().filter(|row| {
                    (row.text("port"), row.text("point")) == (Some(port), Some(point))
                        && len.is_none_or(|len| row.integer("bin_from") == Some(len))
                });
                let rows = rows.filter_map(|row| row.integer("count"));
                rows.sum::<i64>().cast_unsigned()
            };
            assert_eq!(count("m2", "dropped_switch", Some(333)), 7);
            assert_eq!(count("m2", "dropped_switch", Some(444)), 5);
            for (place, name) in ["m0", "m1", "m2"].into_iter().enumerate() {
                let port = &core["ports"][place];
                assert_eq!(count(name, "came", None), number(&port["came"]), "{method}");
                assert_eq!(count(name, "left", None), number(&port["left"]), "{method}");
                let dropped = count(name, "dropped_switch", None);
                assert_eq!(dropped, if place == 2 { 12 } else { 0 }, "{method} {name}");
            }
        }
    }
}

#[test]
fn a_switch_that_cannot_be_is_refused_with_the_way_out() {
    for (words, expected) in [
        (&["--between", "a,b,a"][..], "'a' is there twice"),
        (&["--between", "a,b,c,d,e,f,g,h,i"], "at most 8 ports"),
        (
            &["--between", "a,b,c", "--delay", "in: 5ms"],
            "'a in: WORDS'",
        ),
        (
            &["--between", "a,b,c", "--loss", "x out: 1%"],
            "the ports are a, b, c",
        ),
        (
            &["--between", "a,b", "--loss", "x out: 1%"],
            "the ports are a, b",
        ),
        (
            &[
                "--between",
                "a,b,c",
                "--delay",
                "a in: 1ms",
                "--delay",
                "a in:2ms",
            ],
            "apply to the same frames",
        ),
    ] {
        let output = lineside().arg("emulate").args(words).output();
        let output = output.expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(
            talk(&output).contains(expected),
            "{words:?}: {}",
            talk(&output)
        );
    }
}
