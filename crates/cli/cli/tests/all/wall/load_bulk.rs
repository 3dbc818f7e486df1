//! Bulk data by `lineside load`: to a sink and from a source, by both transports.

use lineside_rows::OperationRow;
use lineside_rows::Row as _;
use serde_json::Value;

use crate::support::{lineside, records, talk};
use crate::wall::between::{Hosts, emulate};
use crate::wall::load_devices::inside;
use crate::wall::load_ends::{Served, certificate, certificate_by, number};
use crate::wall::wire::{Wire, need_wire};

/// Flags of this program's own TCP in the client's namespace.
const OWN: [&str; 6] = [
    "-i",
    "c0",
    "--address",
    "192.0.2.64/26",
    "--method",
    "af_packet",
];

fn succeeded(found: &Value, requests: u64) {
    for count in ["/requests/planned", "/requests/succeeded"] {
        assert_eq!(number(found, count), requests, "{count}: {found:#}");
    }
}

#[test]
fn bulk_data_are_counted_alike_at_both_ends() {
    let served = Served::start(&["sink", "127.0.0.1:0"]);
    let url = format!("sink://{}?bytes=uniform 1..500000", served.at);
    let found = certificate(&[&url, "-n", "300", "-c", "4", "-t", "2"]);
    succeeded(&found, 300);
    let sent = number(&found, "/requests/request_bytes");
    assert_eq!(number(&found, "/requests/content_bytes"), sent);
    assert_eq!(number(&served.counts(), "/received_bytes"), sent);

    let served = Served::start(&["source", "127.0.0.1:0", "--size", "300000"]);
    let url = format!("source://{}?bytes=all", served.at);
    // One connection after another: none is open when the last request is over.
    let found = certificate(&[&url, "-n", "40", "-c", "1"]);
    succeeded(&found, 40);
    for count in ["received_bytes", "content_bytes"] {
        assert_eq!(number(&found, &format!("/requests/{count}")), 12_000_000);
    }
    let counts = served.counts();
    assert_eq!(number(&counts, "/answer_bytes"), 12_000_000, "{counts:#}");
    assert_eq!(number(&counts, "/opened"), 40, "{counts:#}");
}

/// A request goes on where the one before it has ended, until the server ends the connection.
#[test]
fn a_source_serves_several_requests_on_a_connection() {
    let served = Served::start(&["source", "127.0.0.1:0", "--size", "300000"]);
    let url = format!("source://{}?bytes=100000", served.at);
    let found = certificate(&[&url, "-n", "90", "-c", "3"]);
    succeeded(&found, 90);
    assert_eq!(number(&found, "/requests/content_bytes"), 9_000_000);
    let endless = Served::start(&["source", "127.0.0.1:0"]);
    let url = format!("source://{}?bytes=100000", endless.at);
    let found = certificate(&[&url, "-n", "90", "-c", "3", "-R", "500"]);
    succeeded(&found, 90);
    assert_eq!(number(&found, "/connections/opened"), 3);
    let counts = endless.counts();
    let [sent, came] = [
        number(&counts, "/answer_bytes"),
        number(&found, "/requests/received_bytes"),
    ];
    assert!((came..came + (64 << 20)).contains(&sent), "{sent}, {came}");
}

#[test]
fn rows_of_bulk_data_have_their_bytes() {
    let served = Served::start(&["sink", "127.0.0.1:0"]);
    let folder = crate::support::private_folder();
    let out = folder.path().join("run");
    let url = format!("sink://{}?bytes=70000", served.at);
    let out_text = out.to_str().expect("UTF-8");
    let words = ["-n", "200", "-R", "1000", "-c", "4", "-o", out_text];
    certificate(&[&[&*url], &words[..]].concat());
    let rows = records(&out, OperationRow::TABLE);
    assert_eq!(rows.len(), 200);
    for row in &rows {
        let at = |column| {
            row.integer(column)
                .unwrap_or_else(|| panic!("{column}: {row:?}"))
        };
        assert_eq!(row.text("operation"), Some("SEND"));
        assert_eq!((at("call_bytes"), at("transferred")), (70_000, 70_000));
        assert!(at("call_time_ns") <= at("reply_time_ns"), "{row:?}");
        assert!(at("reply_time_ns") <= at("reply_end_ns"), "{row:?}");
    }
    drop(served);
}

/// Flows of the published sizes, each by a connection of its own.
#[test]
fn a_datacentres_flows_are_connections() {
    let served = Served::start(&["sink", "127.0.0.1:0"]);
    let url = format!("sink://{}", served.at);
    let words = [
        "--preset",
        "datacentre",
        "-R",
        "200",
        "-n",
        "60",
        "--seed",
        "1",
    ];
    let found = certificate(&[&[&*url], &words[..]].concat());
    succeeded(&found, 60);
    assert_eq!(found["asked"]["arrivals"], "poisson");
    assert_eq!(number(&found, "/connections/opened"), 60);
    let counts = served.counts();
    assert_eq!(number(&counts, "/opened"), 60);
    let sent = number(&counts, "/received_bytes");
    assert_eq!(sent, number(&found, "/requests/request_bytes"));
    // The mean is 1.71 MB, and its deviation among 60 flows a third of it.
    assert!((30_000_000..250_000_000).contains(&sent), "{sent}");
}

/// The link's rate in payload, by what the certificate says: 1,514 bytes of a frame have 1,448 of
/// a stream.
#[test]
fn the_bandwidth_of_a_link_is_found_both_ways() {
    need_wire!("ethtool");
    let hosts = Hosts::new();
    let rates = ["--rate", "out: 40mbit", "--rate", "in: 24mbit"];
    let link = [&rates[..], &["--delay", "2ms"]].concat();
    let between = ["--between", "m0,m1", "--wait", "sleep"];
    let device = emulate(&hosts.between, &[&between[..], &link[..]].concat(), "m1");
    let sink = Served::of(inside(&hosts.server), &["sink", "192.0.2.2:9"]);
    let source = Served::of(inside(&hosts.server), &["source", "192.0.2.2:19"]);
    let mut sent = 0;
    for own in [&[][..], &OWN] {
        for (url, rate, mbit) in [
            ("sink://192.0.2.2?bytes=250000", "request_bytes", 40.0),
            ("source://192.0.2.2?bytes=250000", "received_bytes", 24.0),
        ] {
            let moved = ["--assert", "throughput > 1mbit"];
            let words = [&[url, "-c", "4", "-n", "60"][..], &moved, own].concat();
            let found = certificate_by(inside(&hosts.client), &words);
            succeeded(&found, 60);
            let pointer = format!("/rates/{rate}");
            let bytes = found.pointer(&pointer).and_then(Value::as_f64);
            let share = bytes.expect("a rate") * 8.0 * 1514.0 / 1448.0 / (mbit * 1e6);
            // Never more than the link carries. How near it comes is for `bench/load`.
            assert!((0.3..1.04).contains(&share), "{share} of {url} {own:?}");
            sent += number(&found, "/requests/request_bytes");
        }
    }
    hosts.server.wait_until_read();
    assert_eq!(number(&sink.counts(), "/received_bytes"), sent);
    assert_eq!(sent, 2 * 60 * 250_000);
    drop((source, device));
}

#[test]
fn both_ends_of_bulk_data_are_one_process() {
    need_wire!("ip", "ethtool");
    let wire = Wire::new("load-bulk", 1);
    let one = &wire.generator;
    one.ip("link add x0 numrxqueues 1 numtxqueues 1 type veth peer name x1 numrxqueues 1");
    for end in ["x0", "x1"] {
        one.ip(&format!("link set {end} up"));
    }
    for (url, line) in [
        ("sink://10.8.2.80?bytes=100000", "19.1 MiB in and 0 B out"),
        ("source://10.8.2.80?bytes=100000", "0 B in"),
        ("source://10.8.2.80?bytes=all", "0 B in"),
    ] {
        let mut both = one.command(lineside().get_program());
        both.args(["load", url, "-i", "x0", "--serve-on", "x1"]);
        both.args(["--address", "10.8.1.0/24", "--method", "af_packet"]);
        let output = both.args(["-n", "200", "-c", "8", "--json"]).output();
        let output = output.expect("lineside runs");
        let message = talk(&output);
        assert!(
            matches!(output.status.code(), Some(0 | 4)),
            "{url}: {message}"
        );
        let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        succeeded(&found, 200);
        assert!(message.contains(line), "{url}: {message}");
    }
}
