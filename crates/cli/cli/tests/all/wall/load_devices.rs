//! `lineside load` through devices: links that lose and reorder, address translation, firewalls.
//! What the device did is in the figures, with its number.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use lineside_rows::OperationRow;
use lineside_rows::Row as _;
use serde_json::Value;

use crate::support::{Record, Trace, lineside, manifest, records, talk};
use crate::wall::between::{Hosts, emulate};
use crate::wall::load_ends::{Served, certificate_by, number};
use crate::wall::stats::wait_until_empty;
use crate::wall::wire::{Namespace, Running, Tcpdump, Wire, need_wire, run};

/// `lineside` in a namespace.
pub(crate) fn inside(namespace: &Namespace) -> Command {
    namespace.command(lineside().get_program())
}

/// A link with these words between the hosts.
fn device(hosts: &Hosts, link: &[&str]) -> Running {
    let between = ["--between", "m0,m1", "--wait", "sleep"];
    emulate(&hosts.between, &[&between, link].concat(), "m1")
}

/// What a link that was emulated dropped of what went to the server.
fn lost_on_the_way(folder: &Path) -> u64 {
    let certificate = manifest(folder).certificate.expect("it is there");
    number(&certificate, "/directions/outbound/counters/dropped/loss")
}

#[test]
fn datagrams_of_one_way_tell_what_the_device_did() {
    need_wire!();
    let hosts = Hosts::new();
    let link = [
        "--delay",
        "2ms",
        "--loss",
        "out: 2%",
        "--reorder",
        "out: 3%",
        "--duplicate",
        "out: 1%",
        "--seed",
        "5",
    ];
    let device = device(&hosts, &link);
    let served = Served::of(inside(&hosts.server), &["udp", "192.0.2.2:7"]);
    let url = "udp://192.0.2.2?oneway&bytes=uniform 64..1000";
    let words = [url, "-c", "4", "-n", "8000", "-R", "8000"];
    let found = certificate_by(inside(&hosts.client), &words);
    assert_eq!(number(&found, "/requests/one_way"), 8000);
    assert_eq!(number(&found, "/requests/sent"), 8000);
    wait_until_empty(&device);
    hosts.server.wait_until_read();
    let one_way = served.counts()["one_way"].clone();
    let lost = lost_on_the_way(&device.interrupt().out);
    assert_eq!(8000 - number(&one_way, "/received"), lost, "{one_way:#}");
    assert!((80..240).contains(&lost), "{lost}");
    // The last ones of each flow are missed by nobody.
    assert!(lost - number(&one_way, "/lost") <= 8, "{one_way:#}");
    for count in ["/reordered", "/duplicates"] {
        assert!(number(&one_way, count) > 20, "{count}: {one_way:#}");
    }
    assert_eq!(number(&one_way, "/flows"), 4);
    for count in ["/corrupt", "/foreign", "/unkept", "/beyond"] {
        assert_eq!(number(&one_way, count), 0, "{one_way:#}");
    }
    // Both ends read one clock, in whatever network.
    assert_eq!(
        number(&one_way, "/delay/count"),
        number(&one_way, "/received")
    );
    assert!(
        number(&one_way, "/delay/p50_ns") >= 1_990_000,
        "{one_way:#}"
    );
}

#[test]
fn echoes_that_a_device_loses_fail_in_that_number() {
    need_wire!();
    let hosts = Hosts::new();
    let link = ["--loss", "out: 3%", "--seed", "5"];
    let device = device(&hosts, &link);
    let served = Served::of(inside(&hosts.server), &["udp", "192.0.2.2:7"]);
    let words = [
        "udp://192.0.2.2",
        "-c",
        "4",
        "-n",
        "3000",
        "-R",
        "6000",
        "--timeout",
        "500ms",
    ];
    let found = certificate_by(inside(&hosts.client), &words);
    assert_eq!(
        number(&served.counts(), "/requests"),
        number(&found, "/requests/answered")
    );
    let lost = lost_on_the_way(&device.interrupt().out);
    assert_eq!(number(&found, "/requests/failed/timeout"), lost);
    assert!((45..140).contains(&lost), "{lost}");
}

#[test]
fn our_own_tcp_says_how_often_it_sent_again() {
    need_wire!();
    let hosts = Hosts::new();
    let link = ["--loss", "1%", "--seed", "9"];
    let device = device(&hosts, &link);
    let served = Served::of(
        inside(&hosts.server),
        &["http", "192.0.2.2:80", "--size", "20000"],
    );
    let own = [
        "-i",
        "c0",
        "--address",
        "192.0.2.64/26",
        "--method",
        "af_packet",
    ];
    let words = ["http://192.0.2.2/", "-c", "20", "-n", "1000"];
    let found = certificate_by(inside(&hosts.client), &[&words[..], &own].concat());
    assert_eq!(number(&found, "/requests/succeeded"), 1000);
    assert_eq!(number(&found, "/requests/content_bytes"), 20_000_000);
    let lost = lost_on_the_way(&device.interrupt().out);
    assert!(lost > 0);
    // Acknowledgements are not sent again.
    let again = number(&found, "/generator/retransmitted");
    assert!(again <= lost + 20, "{again} of {lost}");
    assert_eq!(number(&served.counts(), "/requests"), 1000);
}

/// A client and a server on two networks, and a router between them with these rules of nftables.
fn router(rules: &str) -> Hosts {
    let hosts = Hosts::new();
    for (end, link, at, other) in [
        (&hosts.client, "c0", "10.1.0", "10.2.0"),
        (&hosts.server, "s0", "10.2.0", "10.1.0"),
    ] {
        end.ip(&format!("addr flush dev {link}"));
        end.ip(&format!("addr add {at}.2/24 dev {link}"));
        end.ip(&format!("route add {other}.0/24 via {at}.1"));
    }
    hosts.between.ip("addr add 10.1.0.1/24 dev m0");
    hosts.between.ip("addr add 10.2.0.1/24 dev m1");
    let forward = "echo 1 >/proc/sys/net/ipv4/ip_forward";
    run(hosts.between.command("sh").args(["-c", forward]));
    let mut nft = hosts.between.command("nft");
    let mut nft = nft
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("nft runs");
    let mut input = nft.stdin.take().expect("a pipe");
    input.write_all(rules.as_bytes()).expect("it reads");
    drop(input);
    assert!(nft.wait().expect("it ends").success());
    hosts
}

const MASQUERADE: &str = "table ip t { chain post { type nat hook postrouting priority 100; \
    oifname m1 masquerade; }; }";

#[test]
fn a_translated_load_is_whole_and_counted_alike() {
    need_wire!("nft");
    let hosts = router(MASQUERADE);
    let served = Served::of(inside(&hosts.server), &["http", "10.2.0.2:80"]);
    let words = [
        "http://10.2.0.2/",
        "-c",
        "20",
        "-n",
        "2000",
        "--requests-per-connection",
        "10",
    ];
    let found = certificate_by(inside(&hosts.client), &words);
    assert_eq!(number(&found, "/requests/succeeded"), 2000);
    let opened = number(&found, "/connections/opened");
    assert!(opened >= 200, "{found:#}");
    let counts = served.counts();
    assert_eq!(number(&counts, "/requests"), 2000);
    assert_eq!(number(&counts, "/opened"), opened);
}

/// Ports that are used again before the translator has forgotten them.
#[test]
fn few_local_ports_are_used_again_through_a_translator() {
    need_wire!("nft");
    let hosts = router(MASQUERADE);
    let served = Served::of(inside(&hosts.server), &["http", "10.2.0.2:80"]);
    let own = [
        "-i",
        "c0",
        "--address",
        "10.1.0.77/32",
        "--router",
        "10.1.0.1",
        "--method",
        "af_packet",
        "--ports",
        "5000-5009",
    ];
    let words = [
        "http://10.2.0.2/",
        "-c",
        "10",
        "-n",
        "300",
        "--requests-per-connection",
        "1",
    ];
    let ends = ["--close", "rst", "--timeout", "3s"];
    let found = certificate_by(inside(&hosts.client), &[&words[..], &own, &ends].concat());
    assert_eq!(number(&found, "/requests/succeeded"), 300, "{found:#}");
    assert!(number(&found, "/connections/opened") >= 300);
    assert_eq!(number(&served.counts(), "/requests"), 300);
}

#[test]
fn a_firewall_that_forgets_idle_connections_is_found_out() {
    need_wire!("nft");
    let rules = "table ip t { chain f { type filter hook forward priority 0; policy accept; \
        ct state invalid drop; }; }";
    let hosts = router(rules);
    let forgets = "cd /proc/sys/net/netfilter; echo 0 >nf_conntrack_tcp_loose; \
        echo 2 >nf_conntrack_tcp_timeout_established";
    run(hosts.between.command("sh").args(["-c", forgets]));
    let _served = Served::of(inside(&hosts.server), &["http", "10.2.0.2:80"]);
    let load = |think: &str| {
        let words = ["http://10.2.0.2/", "-c", "5", "-n", "10", "--think", think];
        let found = certificate_by(
            inside(&hosts.client),
            &[&words[..], &["--timeout", "1s"]].concat(),
        );
        let failed = found
            .pointer("/requests/failed/timeout")
            .and_then(Value::as_u64);
        (number(&found, "/requests/succeeded"), failed.unwrap_or(0))
    };
    assert_eq!(load("500ms"), (10, 0));
    let (succeeded, forgotten) = load("3s");
    assert!(
        succeeded <= 5 && forgotten >= 5,
        "{succeeded} and {forgotten}"
    );
    // Pauses of all lengths in one run: its rows say where the limit is, as the guide's query does.
    let folder = crate::support::private_folder();
    let out = folder.path().join("run");
    let words = "load http://10.2.0.2/ -c 80 -n 200 --timeout 1s -q -o";
    let mut load = inside(&hosts.client);
    load.args(words.split(' '))
        .arg(&out)
        .args(["--think", "uniform 500ms..4s"]);
    load.output().expect("lineside runs");
    let mut rows = records(&out, OperationRow::TABLE);
    let at = |row: &Record, column| row.integer(column);
    rows.sort_by_key(|row| (at(row, "connection_id"), at(row, "call_time_ns")));
    let (mut kept_ns, mut lost_ns) = (0, i64::MAX);
    for pair in rows.windows(2) {
        let [before, after] = pair else { continue };
        if at(before, "connection_id") != at(after, "connection_id") {
            continue;
        }
        let Some(answered_ns) = at(before, "reply_end_ns") else {
            continue;
        };
        let idle_ns = at(after, "call_time_ns").expect("it left") - answered_ns;
        match after.text("failure") {
            None => kept_ns = kept_ns.max(idle_ns),
            Some(_) => lost_ns = lost_ns.min(idle_ns),
        }
    }
    // The device forgets after two seconds by the kernel's clock; a load that reads an answer late
    // on a busy machine takes a pause for shorter than it was.
    assert!(kept_ns > 1_000_000_000, "{kept_ns}");
    assert!(lost_ns > 1_500_000_000, "{lost_ns}");
    assert!(lost_ns < 4_000_000_000, "some were forgotten: {lost_ns}");
}

#[test]
fn the_size_of_a_firewalls_table_is_how_many_open() {
    need_wire!("nft");
    let rules = "table ip t { chain f { type filter hook forward priority 0; policy accept; \
        tcp flags syn ct state new ct count over 20 reject with tcp reset; }; }";
    let hosts = router(rules);
    let _served = Served::of(inside(&hosts.server), &["http", "10.2.0.2:80"]);
    let words = ["http://10.2.0.2/", "-c", "50", "-n", "200"];
    let found = certificate_by(inside(&hosts.client), &words);
    assert_eq!(number(&found, "/connections/opened"), 20, "{found:#}");
    assert!(
        number(&found, "/connections/refused/reset") >= 30,
        "{found:#}"
    );
    assert_eq!(number(&found, "/requests/succeeded"), 200);
}

/// Rows of a load, and what tshark reads of a capture of the same load.
#[test]
fn rows_of_http_are_what_tshark_reads() {
    need_wire!("tcpdump", "tshark");
    let host = Namespace::new("rows");
    host.ip("link set lo up");
    let folder = crate::wall::wire::private_folder();
    let (file, out) = (folder.path().join("c.pcap"), folder.path().join("run"));
    let tcpdump = Tcpdump::filtered(host.command("tcpdump"), "lo", &file, "tcp");
    let served = Served::of(inside(&host), &["http", "127.0.0.1:80", "--size", "3000"]);
    let words = [
        "http://127.0.0.1/",
        "-c",
        "5",
        "-n",
        "500",
        "-R",
        "1000",
        "-o",
    ];
    let words = [&words[..], &[out.to_str().expect("UTF-8")]].concat();
    certificate_by(inside(&host), &words);
    drop(served);
    tcpdump.end_when_quiet();
    let mut tshark = Command::new("tshark");
    tshark
        .arg("-r")
        .arg(&file)
        .args(["-Y", "http.response", "-T", "fields"]);
    for field in [
        "tcp.dstport",
        "http.response.code",
        "http.content_length",
        "http.request_in",
        "frame.time_epoch",
        "http.time",
    ] {
        tshark.args(["-e", field]);
    }
    let read = String::from_utf8(tshark.output().expect("tshark runs").stdout).expect("text");
    let ns = |text: &str| (text.parse::<f64>().expect("seconds") * 1e9) as i64;
    // By connection and order, for each one's requests follow one another.
    let mut seen: Vec<(i64, i64, i64, i64, i64)> = read
        .lines()
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let number = |at: usize| fields[at].parse::<i64>().expect("a number");
            (
                number(0),
                ns(fields[4]),
                number(1),
                number(2),
                ns(fields[5]),
            )
        })
        .collect();
    seen.sort_unstable();
    let mut rows: Vec<_> = records(&out, OperationRow::TABLE)
        .into_iter()
        .map(|row| {
            let at = |column| {
                row.integer(column)
                    .unwrap_or_else(|| panic!("{column}: {row:?}"))
            };
            assert_eq!(row.text("operation"), Some("GET"));
            let status = row
                .text("status")
                .and_then(|status| status.parse::<i64>().ok());
            let took = at("reply_end_ns") - at("call_time_ns");
            (
                at("client_port"),
                at("reply_end_ns"),
                status.expect("a code"),
                at("transferred"),
                took,
            )
        })
        .collect();
    rows.sort_unstable();
    assert_eq!((rows.len(), seen.len()), (500, 500));
    for (row, seen) in rows.iter().zip(&seen) {
        assert_eq!((row.0, row.2, row.3), (seen.0, seen.2, seen.3));
        // The process writes before the wire and reads after it; the clocks of both are one.
        assert!(row.1 - seen.1 > -1_000_000, "{row:?} {seen:?}");
        assert!(row.4 - seen.4 > -1_000_000, "{row:?} {seen:?}");
    }
}

/// Answers nothing in the first 100 ms of each second since its start.
fn stalls(stream: &mut TcpStream, began: Instant) -> Option<()> {
    let mut request = [0; 1 << 12];
    loop {
        if stream.read(&mut request).ok()? == 0 {
            return None;
        }
        let into = began.elapsed().subsec_millis();
        if into < 100 {
            thread::park_timeout(Duration::from_millis(u64::from(100 - into)));
        }
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            .ok()?;
    }
}

/// With a server that stalls 100 ms in each second, a request that is planned u ms after the
/// stall's begin waits 100 - u of them: 1 % wait for 90 ms or more, 5 % for 50 or more. A closed
/// loop does not see it: it asks less while it waits.
#[test]
fn quantiles_of_a_server_that_stalls_are_those_of_arithmetic() {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    #[expect(clippy::disallowed_methods, reason = "the server's own clock")]
    let began = *BEGAN.get_or_init(Instant::now);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            thread::spawn(move || stalls(&mut stream, began));
        }
    });
    let words = [&*url, "-c", "200", "-R", "1000", "-d", "4s"];
    let open = certificate_by(lineside(), &words);
    // Never less, whatever else the machine does: that of what waits is not left out.
    let is_at_least = |pointer: &str, ms: u64| {
        let found = number(&open, pointer) / 1_000_000;
        assert!(found + 12 > ms, "{pointer}: {found} ms, {open:#}");
    };
    is_at_least("/latency/p99_ns", 90);
    is_at_least("/latency/max_ns", 100);
    let words = [&*url, "-c", "10", "-d", "4s"];
    let closed = certificate_by(lineside(), &words);
    let p99 = |of: &Value| number(of, "/latency/p99_ns");
    assert!(p99(&closed) < p99(&open), "{closed:#} {open:#}");
}

/// A value of each request is where its template says.
#[test]
fn fields_of_http_differ_from_request_to_request() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let url = format!(
        "http://{}/f{{n:04}}?k={{key}}",
        listener.local_addr().expect("an address")
    );
    let heard = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let (mut text, mut bytes) = (String::new(), [0; 1 << 12]);
        while let Ok(len @ 1..) = stream.read(&mut bytes) {
            text += std::str::from_utf8(&bytes[..len]).expect("text");
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
            if stream.write_all(answer).is_err() {
                break;
            }
        }
        text
    });
    let words = [
        &*url,
        "-c",
        "1",
        "-n",
        "20",
        "--fields",
        "--keys",
        "uniform over 7",
        "-H",
        "X-Id: {hex:8}",
        "--body",
        "{{\"n\":{n}}}",
    ];
    let found = certificate_by(lineside(), &words);
    assert_eq!(number(&found, "/requests/succeeded"), 20);
    let heard = heard.join().expect("no panic");
    for number in 0..20 {
        assert!(heard.contains(&format!("POST /f{number:04}?k=")), "{heard}");
        assert!(heard.contains(&format!("{{\"n\":{number}}}")), "{heard}");
    }
    let ids = heard.lines().filter_map(|line| line.strip_prefix("X-Id: "));
    let mut ids: Vec<&str> = ids.collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 20, "{heard}");
}

#[test]
fn rows_are_those_of_the_frames_that_a_load_writes() {
    need_wire!("ip");
    let wire = Wire::new("load-tap", 1);
    wire.tap.ip("addr add 10.9.0.1/16 dev t0");
    let served = Served::of(inside(&wire.tap), &["nfs", "10.9.0.1:2049"]);
    let folder = crate::support::private_folder();
    let (file, out) = (folder.path().join("w.pcapng"), folder.path().join("run"));
    let mut load = inside(&wire.generator);
    load.args(["load", "nfs://10.9.0.1/export?mountport=2049", "-i", "g0"]);
    load.args(["--address", "10.9.1.0/24", "-c", "20", "-n", "1000", "-q"]);
    load.arg("-o").arg(&out).arg("--write-pcap").arg(&file);
    let output = load.output().expect("lineside runs");
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 4)), "{}", talk(&output));
    drop(served);
    let row = |row: &Record| {
        let text = |column| row.text(column).map(str::to_owned);
        let number = |column| row.integer(column);
        let moved = row.text("operation") == Some("READ");
        (
            // The frames' stamps are the instants by which the load counts.
            number("call_time_ns"),
            number("client_port"),
            text("operation"),
            text("status"),
            number("transferred").filter(|_| moved),
            number("reply_end_ns"),
        )
    };
    let rows = records(&out, OperationRow::TABLE);
    let mut ours: Vec<_> = rows.iter().map(row).collect();
    let trace = Trace::of(&file, &[]);
    let captured = trace.nfs_rows().map(row);
    // The mount and a first look at the export have no rows of the load's.
    let began = ours.iter().map(|row| row.0).min().expect("rows");
    let mut captured: Vec<_> = captured.filter(|row| row.0 >= began).collect();
    ours.sort();
    captured.sort();
    assert_eq!((ours.len(), captured.len()), (1000, 1000));
    for (ours, captured) in ours.iter().zip(&captured) {
        assert_eq!(ours, captured);
    }

    // Kernel's sockets have no frames to give; and a file that is there stays.
    let again = load.output().expect("lineside runs");
    assert!(talk(&again).contains("exists already"), "{}", talk(&again));
    let mut sockets = inside(&wire.generator);
    sockets
        .args(["load", "http://10.9.0.1/", "--write-pcap"])
        .arg(&file);
    let sockets = sockets.output().expect("lineside runs");
    assert_eq!(sockets.status.code(), Some(2));
    assert!(
        talk(&sockets).contains("name its interface with -i"),
        "{}",
        talk(&sockets)
    );
}

#[test]
fn a_server_behind_a_link_is_loaded_by_our_own_tcp() {
    need_wire!("ip");
    let mut load = lineside();
    load.args([
        "load",
        "http://10.0.0.1:8080/",
        "-c",
        "20",
        "-n",
        "400",
        "--json",
    ]);
    load.args([
        "--server",
        &format!(
            "exec '{}' load serve http 10.0.0.1:8080",
            lineside().get_program().display()
        ),
    ]);
    let output = load
        .args(["--link", "delay 15ms, loss 0%"])
        .output()
        .expect("lineside runs");
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 4)), "{}", talk(&output));
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(number(&found, "/requests/succeeded"), 400, "{found:#}");
    let least = number(&found, "/latency/p50_ns");
    assert!(least >= 30_000_000, "{least}");
    assert!(
        found["generator"]["transport"]
            .as_str()
            .is_some_and(|way| way != "kernel sockets")
    );

    for (words, why) in [
        (
            &["--link", "delay 1ms"][..],
            "--link: it is the link to the server",
        ),
        (
            &["--server", "x", "-i", "lo"],
            "has an interface and an address of its own",
        ),
        (
            &["--server", "exec sleep 9", "--link", "delya 1ms"],
            "'delya' is not a setting of a link; the nearest known one is delay",
        ),
    ] {
        let output = lineside()
            .args(["load", "http://10.0.0.1/"])
            .args(words)
            .output();
        let output = output.expect("lineside runs");
        assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
        assert!(talk(&output).contains(why), "{}", talk(&output));
    }
}
