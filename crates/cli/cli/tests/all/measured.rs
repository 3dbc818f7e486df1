//! Measured networks, path files, classified frames and `lineside explain`, from outside.

use std::path::Path;
use std::process::Output;

use lineside_testkit::capture::{Frame, write};
use lineside_wire::build::{FrameBuilder, TcpFields};

use crate::support::{example, lineside, manifest, talk};

fn run(arguments: &[&str]) -> Output {
    lineside().args(arguments).output().expect("it runs")
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", talk(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn text(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", talk(&output));
    String::from_utf8(output.stdout).expect("UTF-8")
}

const BEGIN_NS: i64 = 1_700_000_000_000_000_000;

/// A capture of datagrams: time, direction (from the inside or not), port and length.
fn datagrams(path: &Path, sent: &[(i64, bool, u16, usize)]) {
    let frame = |&(at_ns, is_out, port, len): &(i64, bool, u16, usize)| {
        let ends = [[10, 0, 0, 2].into(), [10, 0, 0, 1].into()];
        let [source, destination] = if is_out { ends } else { [ends[1], ends[0]] };
        let bytes = FrameBuilder::new(source, destination).udp(9, port, &vec![7; len - 42]);
        Frame {
            stamp_ns: Some(BEGIN_NS + at_ns),
            wire_len: bytes.len() as u32,
            link_type: 1,
            bytes,
        }
    };
    let frames: Vec<_> = sent.iter().map(frame).collect();
    std::fs::write(path, write(&frames)).expect("written");
}

#[test]
fn round_trips_of_captures_and_traces_become_tables_and_paths() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    // A client asks ten times, each answer takes 3 ms from the tap and back, the second is asked
    // twice.
    let (mut frames, mut at_ns, mut sequences) = (Vec::new(), 0, [1000_u32, 5000]);
    let mut put = |at_ns: i64, from_server: bool, sequences: [u32; 2], len: usize| {
        let ends = [([10, 0, 0, 2], 700), ([10, 0, 0, 1], 2049)];
        let [source, destination] = if from_server {
            [ends[1], ends[0]]
        } else {
            ends
        };
        let [own, other] = if from_server {
            [sequences[1], sequences[0]]
        } else {
            sequences
        };
        let fields = TcpFields {
            source_port: source.1,
            destination_port: destination.1,
            sequence: own,
            acknowledgement: other,
            flags: lineside_wire::TcpFlags::ACK,
            ..TcpFields::default()
        };
        let bytes =
            FrameBuilder::new(source.0.into(), destination.0.into()).tcp(&fields, &vec![1; len]);
        frames.push(Frame {
            stamp_ns: Some(BEGIN_NS + at_ns),
            wire_len: bytes.len() as u32,
            link_type: 1,
            bytes,
        });
    };
    for number in 0..10_i64 {
        put(at_ns, false, sequences, 100);
        if number == 1 {
            put(at_ns + 500_000, false, sequences, 100);
        }
        sequences[0] += 100;
        put(at_ns + 3_000_000 + number * 1000, true, sequences, 1400);
        sequences[1] += 1400;
        put(at_ns + 3_500_000, false, sequences, 0);
        at_ns += 100_000_000;
    }
    let capture = path("rtt.pcap");
    std::fs::write(&capture, write(&frames)).expect("written");
    let figures = json(&["table", "from-capture", &capture, "--json"]);
    assert_eq!(
        figures["samples"]["count"], 9,
        "not the one that was sent again"
    );
    assert_eq!(figures["samples"]["min_ns"], 3_000_000);
    assert_eq!(figures["samples"]["max_ns"], 3_009_000);
    let towards = json(&[
        "table",
        "from-capture",
        &capture,
        "--towards",
        "client",
        "--json",
    ]);
    assert_eq!(towards["samples"]["count"], 10);
    assert_eq!(towards["samples"]["max_ns"], 500_000);
    let samples = text(&["table", "from-capture", &capture, "--export", "samples"]);
    assert_eq!(samples.lines().next(), Some("3000000"));

    // Over time, it can be replayed.
    let replay = text(&[
        "table",
        "from-capture",
        &capture,
        "--export",
        "path",
        "--step",
        "500ms",
    ]);
    assert_eq!(
        replay,
        "time delay loss\n0ns 1501500ns 0%\n500ms 1503500ns 0%\n1s repeat\n"
    );
    std::fs::write(path("measured.path"), &replay).expect("written");
    let certificate = json(&[
        "emulate",
        &capture,
        "--path",
        &path("measured.path"),
        "--json",
    ]);
    let outbound = &certificate["directions"]["outbound"];
    assert_eq!(outbound["realised"]["min_ns"], 1_501_500);
    assert_eq!(outbound["realised"]["max_ns"], 1_503_500);
    assert_eq!(outbound["settings"]["path"], path("measured.path"));
    // The frames towards the client as deliveries: 14,540 bytes are nine of 1,500.
    let trace = text(&[
        "table",
        "from-capture",
        &capture,
        "--towards",
        "client",
        "--export",
        "mahimahi",
    ]);
    assert_eq!(trace.lines().count(), 9);
    assert_eq!(trace.lines().next(), Some("100"));

    // Of a trace: from call to reply.
    let out = path("trace");
    let output = run(&[
        "capture",
        example().to_str().expect("UTF-8"),
        "-o",
        &out,
        "-q",
    ]);
    assert!(output.status.success(), "{}", talk(&output));
    let figures = json(&["table", "from-trace", &out, "--json"]);
    let count = figures["samples"]["count"].as_u64().expect("a number");
    let calls = &manifest(Path::new(&out)).counters["rpc.calls_answered"].value;
    assert_eq!(count, *calls);

    for (arguments, expected) in [
        (&["table", "from-trace", &capture][..], "is not a trace"),
        (&["table", "from-tcp", "127.0.0.1"], "from-tcp HOST:PORT"),
        (
            &[
                "table",
                "from-tcp",
                "127.0.0.1:1",
                "--step",
                "0s",
                "-c",
                "1",
            ],
            "step: 0 is not a step",
        ),
        (
            &["table", "normal", "--export", "path"],
            "are for what was measured over time",
        ),
        (&["table"], "name a table, or a file, or where to measure"),
    ] {
        let output = run(arguments);
        assert!(!output.status.success());
        assert!(
            talk(&output).contains(expected),
            "{arguments:?}: {}",
            talk(&output)
        );
    }
}

#[test]
fn a_port_of_this_host_is_probed() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let to = listener.local_addr().expect("bound").to_string();
    let figures = json(&["table", "from-tcp", &to, "-c", "5", "-i", "1ms", "--json"]);
    assert_eq!(figures["samples"]["count"], 5);
    assert!(figures["samples"]["max_ns"].as_i64().expect("a number") < 1_000_000_000);
    let output = run(&[
        "table",
        "from-ping",
        "127.0.0.1",
        "-c",
        "3",
        "-i",
        "1ms",
        "--json",
    ]);
    if talk(&output).contains("no right to send ICMP") {
        println!("SKIP: no permission to ping");
        return;
    }
    let figures: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(figures["samples"]["count"], 3);
}

#[test]
fn path_files_and_mahimahi_traces_are_converted_and_replayed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    std::fs::write(
        path("link.path"),
        "time rate\n0 12mbit\n3ms 0\n5ms 24mbit\n6ms repeat\n",
    )
    .expect("written");
    let trace = text(&["table", "path", &path("link.path"), "--export", "mahimahi"]);
    assert_eq!(trace, "1\n2\n3\n6\n6\n");
    std::fs::write(path("link.trace"), &trace).expect("written");
    let back = text(&[
        "table",
        "path",
        &path("link.trace"),
        "--export",
        "path",
        "--step",
        "3ms",
    ]);
    assert_eq!(
        back,
        "time rate\n0ns 12000000bit\n3ms 8000000bit\n6ms repeat\n"
    );
    let figures = json(&["table", "path", &path("link.path"), "--json"]);
    assert_eq!(figures["rate_mean_bps"], 10_000_000.0);
    // Frames of 1,500 bytes, all at once: the n-th leaves with the n-th delivery.
    datagrams(path("in.pcap").as_ref(), &[(0, true, 1, 1500); 8]);
    let left = |flag: &str, words: &str| -> Vec<i64> {
        let out = path("out.pcap");
        let output = run(&[
            "emulate",
            &path("in.pcap"),
            flag,
            words,
            "--write-pcap",
            &out,
            "--force",
            "-q",
        ]);
        assert!(output.status.success(), "{}", talk(&output));
        let frames = lineside_testkit::capture::read(out.as_ref()).expect("a capture");
        frames
            .iter()
            .map(|frame| (frame.stamp_ns.expect("a stamp") - BEGIN_NS) / 1_000_000)
            .collect()
    };
    let expected = [1, 2, 3, 6, 6, 7, 8, 9];
    assert_eq!(
        left("--rate", &format!("trace {}", path("link.trace"))),
        expected
    );
    // The rate of the path brings them half a millisecond apart at its end: the fourth at 5.5.
    let expected = [1, 2, 3, 5, 6, 7, 8, 9];
    assert_eq!(left("--path", &path("link.path")), expected);

    for (flags, expected) in [
        (
            &["--path", "nowhere.path"][..],
            "path: nowhere.path: cannot read it",
        ),
        (
            &["--path", &path("link.trace")],
            "line 1, column 1: '1' is no column here",
        ),
        (
            &["--rate", "trace nowhere"],
            "rate: nowhere: cannot read it",
        ),
        (
            &["--path", &path("link.path"), "--rate", "1gbit"],
            "sets the same as --rate",
        ),
    ] {
        let output = run(&[&["emulate", &path("in.pcap")], flags].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(
            talk(&output).contains(expected),
            "{flags:?}: {}",
            talk(&output)
        );
    }
}

#[test]
fn frames_are_classified_by_expressions() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let sent: Vec<_> = (0..40)
        .map(|k| (k * 1_000_000, k % 4 != 3, (k % 2) as u16 + 1, 100))
        .collect();
    datagrams(path("in.pcap").as_ref(), &sent);
    let certificate = json(&[
        "emulate",
        &path("in.pcap"),
        "--json",
        "--delay",
        "5ms",
        "--delay",
        "match udp port 2: 1ms",
        "--loss",
        "out: match port 2: every 2",
    ]);
    let outbound = &certificate["directions"]["outbound"];
    assert_eq!(outbound["realised"]["max_ns"], 5_000_000, "{outbound:#}");
    let matches = outbound["matches"].as_array().expect("a list");
    assert_eq!(
        matches.len(),
        1,
        "both match the same frames here: {outbound:#}"
    );
    assert_eq!(matches[0]["expressions"], "udp port 2; port 2");
    assert_eq!(matches[0]["entered"], 10);
    assert_eq!(matches[0]["lost"], 5);
    assert_eq!(matches[0]["realised"]["max_ns"], 1_000_000);
    let inbound = certificate["directions"]["inbound"]["matches"]
        .as_array()
        .expect("a list");
    assert_eq!(
        (inbound[0]["entered"].as_u64(), inbound[0]["lost"].as_u64()),
        (Some(10), Some(0))
    );
    for (flags, expected) in [
        (["--delay", "match udp:1ms"], "write 'match EXPR: WORDS'"),
        (["--delay", "match udpp: 1ms"], "match: "),
        (["--rate", "match udp: 1mbit"], "match works with delay"),
    ] {
        let output = run(&[&["emulate", &path("in.pcap")][..], &flags].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(
            talk(&output).contains(expected),
            "{flags:?}: {}",
            talk(&output)
        );
    }
}

#[test]
fn each_class_of_frames_is_reported_and_unmatched_ones_warned() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("in.pcap");
    let sent: Vec<_> = (0..40)
        .map(|k| (k * 1_000_000, true, (k % 2) as u16 + 1, 100))
        .collect();
    datagrams(&capture, &sent);
    let printed = text(&[
        "emulate",
        "--certificate",
        capture.to_str().expect("UTF-8"),
        "--loss",
        "out: match udp port 2: every 2",
        "--delay",
        "out: match tcp: 1ms",
    ]);
    for expected in [
        "10 lost: none, match udp port 2: every 2\n",
        "match tcp: matched no frame\n",
    ] {
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
    assert!(
        !printed.contains("udp port 2: matched no frame"),
        "{printed}"
    );
    let printed = text(&[
        "emulate",
        "--certificate",
        capture.to_str().expect("UTF-8"),
        "--delay",
        "match udp: 10ms 3ms order fifo",
    ]);
    assert!(
        printed.contains("as order is kept: their delays"),
        "{printed}"
    );
    let path = folder.path().join("path");
    std::fs::write(&path, "time loss\n0s 100%\n").expect("written");
    let path = path.to_str().expect("UTF-8");
    let printed = text(&[
        "emulate",
        "--certificate",
        capture.to_str().expect("UTF-8"),
        "--path",
        path,
    ]);
    let line = format!("40 lost: path {path}\n");
    assert!(printed.contains(&line), "{printed}");
}

#[test]
fn explain_predicts_what_emulate_does() {
    let parts = |explained: &serde_json::Value| -> Vec<(String, f64)> {
        let parts = explained["parts"].as_array().expect("a list");
        let each = |part: &serde_json::Value| {
            let name = part["part"].as_str().expect("a name").to_owned();
            (name, part["mean_ns"].as_f64().expect("a number"))
        };
        parts.iter().map(each).collect()
    };
    let words = ["--delay", "10ms", "--rate", "10mbit overhead ethernet"];
    let both = json(
        &[
            &["explain", "--json", "--size", "1226", "--load", "50%"][..],
            &words,
        ]
        .concat(),
    );
    // 1,250 bytes at 10 Mbit/s are 1 ms; at half the load half of that is waited.
    let expected = [("delay", 10e6), ("rate", 1e6), ("queue", 0.5e6)];
    let expected: Vec<_> = expected.map(|(name, ns)| (name.to_owned(), ns)).into();
    assert_eq!(parts(&both[0]), expected);
    assert_eq!(both[1]["direction"], "inbound");

    // A frame of a file: two come at once, the third 1 ms later.
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("in.pcap");
    datagrams(
        &capture,
        &[
            (0, true, 1, 1226),
            (0, true, 1, 1226),
            (1_500_000, true, 1, 601),
        ],
    );
    let capture = capture.to_str().expect("UTF-8");
    let of = |number: &str| {
        json(
            &[
                &["explain", "--json", "-r", capture, "--frame", number][..],
                &words,
            ]
            .concat(),
        )
    };
    for (number, queue, rate) in [("1", 0.0, 1e6), ("2", 1e6, 1e6), ("3", 0.5e6, 0.5e6)] {
        let expected = [
            ("delay", 10e6),
            ("order", 0.0),
            ("queue", queue),
            ("rate", rate),
        ];
        let expected: Vec<_> = expected.map(|(name, ns)| (name.to_owned(), ns)).into();
        assert_eq!(parts(&of(number)[0]), expected, "frame {number}");
    }
    let third = text(&[
        "explain", "-r", capture, "--frame", "3", "--delay", "10.3ms",
    ]);
    for expected in ["came 1.50 ms after the first", "it left 10.3 ms later"] {
        assert!(third.contains(expected), "{third}");
    }
    let lost = text(&[
        "explain", "-r", capture, "--frame", "2", "--loss", "frames 2",
    ]);
    assert!(lost.contains("lost by the loss model"), "{lost}");
    // A frame dropped while this one is under way is another one.
    let under_way = text(&[
        "explain", "-r", capture, "--frame", "1", "--delay", "10ms", "--loss", "frames 2",
    ]);
    assert!(!under_way.contains("lost"), "{under_way}");
    for (arguments, expected) in [
        (
            &["explain", "-r", capture, "--frame", "9"][..],
            "there is no frame 9: the capture has 3",
        ),
        (
            &["explain", "-r", capture],
            "the number of the frame is missing",
        ),
        (
            &["explain", "-r", capture, "--frame", "1", "--size", "100"],
            "--size is for settings",
        ),
        (
            &["explain", "--delay", "1ms", "--delay", "2ms"],
            "'1ms' and '2ms' apply to the same frames",
        ),
        (
            &["explain", "--load", "100%"],
            "at which the queue grows for ever",
        ),
        (&["explain", "--between", "a,b"], "and this is 'explain'"),
    ] {
        let output = run(arguments);
        assert!(!output.status.success());
        assert!(
            talk(&output).contains(expected),
            "{arguments:?}: {}",
            talk(&output)
        );
    }
}
