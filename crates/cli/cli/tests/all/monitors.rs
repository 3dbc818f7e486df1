//! `--monitor`: what is measured of captures, of emulated links in virtual time and live, against
//! tshark, arithmetic and one another.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use lineside_rows::Table;
use lineside_testkit::tshark;
use lineside_wire::build::FrameBuilder;

use crate::support::{came_to_its_end, example, lineside, manifest, records, sorted, talk};

fn run(words: &[&str], paths: &[(&str, &Path)]) -> Output {
    let mut command = lineside();
    command.args(words);
    for (flag, path) in paths {
        command.arg(flag).arg(path);
    }
    command.output().expect("lineside runs")
}

/// The rows of the tables of monitors, but for events, in an order of their own.
pub(crate) fn measured(out: &Path) -> Vec<Vec<String>> {
    let tables = Table::MONITORS
        .iter()
        .filter(|&&table| table != Table::MonitorEvents);
    tables.map(|&table| sorted(&records(out, table))).collect()
}

/// Bins of a metric: from, to, count.
fn bins(out: &Path, metric: &str) -> Vec<(i64, i64, i64)> {
    let rows = records(out, Table::MonitorBins);
    let rows = rows.iter().filter(|row| row.text("metric") == Some(metric));
    let number = |value: Option<i64>| value.expect("never null");
    let bin = |row: &crate::support::Record| {
        let [from, to, count] = ["bin_from", "bin_to", "count"].map(|name| row.integer(name));
        (number(from), number(to), number(count))
    };
    rows.map(bin).collect()
}

#[test]
fn captures_are_measured_alike_on_any_number_of_cores() {
    let folder = tempfile::tempdir().expect("a folder");
    let example = example();
    let outs: Vec<_> = ["1", "2"]
        .iter()
        .map(|cores| {
            let out = folder.path().join(cores);
            let words = ["capture", "-q", "--monitor", "all", "--cores", cores];
            let output = run(&words, &[("-o", &out), ("-r", &example)]);
            assert!(output.status.success(), "{}", talk(&output));
            out
        })
        .collect();
    let alone = measured(&outs[0]);
    assert!(alone.iter().all(|rows| !rows.is_empty()));
    assert_eq!(alone, measured(&outs[1]));
    let tables = manifest(&outs[0]).tables;
    assert_eq!(tables["monitor_flows"].rows, alone[2].len() as u64);
}

#[test]
fn tshark_counts_the_same_frames_gaps_and_flows() {
    if !tshark::available() {
        println!("SKIP: no tshark to count with");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    let words = [
        "capture",
        "-q",
        "--monitor",
        "size,gap,packets,flow_size,tcp_window",
    ];
    let output = run(&words, &[("-o", &out), ("-r", &example())]);
    assert!(output.status.success(), "{}", talk(&output));
    let mut command = Command::new("tshark");
    command.arg("-r").arg(example()).args(["-T", "fields"]);
    for field in [
        "frame.len",
        "frame.time_epoch",
        "ip.src",
        "ip.dst",
        "tcp.srcport",
        "tcp.dstport",
        "tcp.len",
        "tcp.window_size",
        "tcp.flags.reset",
        "ipv6.src",
        "ipv6.dst",
    ] {
        command.args(["-e", field]);
    }
    let text = String::from_utf8(command.output().expect("tshark runs").stdout).expect("text");
    let mut sizes = BTreeMap::<i64, i64>::new();
    let mut flows = BTreeMap::<[String; 4], (i64, i64, i64, i64)>::new();
    let mut times = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let number = |at: usize| fields[at].parse::<i64>().expect("a number");
        *sizes.entry(number(0)).or_default() += 1;
        let (seconds, fraction) = fields[1].split_once('.').expect("seconds");
        let nanoseconds: i64 = fraction.parse().expect("nanoseconds");
        times.push(seconds.parse::<i64>().expect("seconds") * 1_000_000_000 + nanoseconds);
        if !fields[4].is_empty() {
            let [source, destination] = match fields[2] {
                "" => [fields[9], fields[10]],
                source => [source, fields[3]],
            };
            let key = [source, destination, fields[4], fields[5]].map(str::to_owned);
            let flow = flows.entry(key).or_default();
            // The window of a RST means nothing.
            let is_reset = matches!(fields[8], "1" | "True");
            let most = flow.3.max(if is_reset { 0 } else { number(7) });
            *flow = (flow.0 + 1, flow.1 + number(0), flow.2 + number(6), most);
        }
    }
    let found: BTreeMap<_, _> = { bins(&out, "packet_bytes").into_iter() }
        .map(|(from, _, count)| (from, count))
        .collect();
    assert_eq!(found, sizes);
    let gaps: Vec<_> = times
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).max(0))
        .collect();
    let found = bins(&out, "gap_ns");
    for (from, to, count) in &found {
        let inside = gaps.iter().filter(|gap| (from..=to).contains(gap)).count();
        assert_eq!(inside as i64, *count, "{from} to {to}");
    }
    assert_eq!(
        found.iter().map(|bin| bin.2).sum::<i64>(),
        gaps.len() as i64
    );
    let mut windows = BTreeMap::<i64, i64>::new();
    times
        .iter()
        .for_each(|time| *windows.entry(time / 1_000_000 * 1_000_000).or_default() += 1);
    let number = |row: &crate::support::Record, name| row.integer(name).expect("never null");
    let mut found = BTreeMap::<i64, i64>::new();
    for row in records(&out, Table::MonitorWindows) {
        *found.entry(number(&row, "time_ns")).or_default() += number(&row, "packets");
    }
    assert_eq!(found, windows);
    let mut tcp = 0;
    for row in records(&out, Table::MonitorFlows) {
        if row.text("transport") != Some("tcp") {
            continue;
        }
        let text = |name| row.text(name).expect("an address").to_owned();
        let port = |name| number(&row, name).to_string();
        let key = [
            text("source_address"),
            text("destination_address"),
            port("source_port"),
            port("destination_port"),
        ];
        let columns = ["packets", "bytes", "payload_bytes", "tcp_window_max_bytes"];
        let [packets, bytes, payload, window] = columns.map(|name| number(&row, name));
        assert_eq!(flows[&key], (packets, bytes, payload, window), "{key:?}");
        tcp += 1;
    }
    assert_eq!(tcp, flows.len());
}

/// A capture of 1,000 frames of 1,000 bytes that come at once.
fn burst(folder: &Path) -> std::path::PathBuf {
    use lineside_frame::{Descriptor, Frame, LinkType};
    let path = folder.join("burst.pcapng");
    let builder = FrameBuilder::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let frame = builder.udp(7, 9, &[0; 1_000 - 42]);
    let config = lineside_port::WriterConfig {
        budget: lineside_account::Budget::new(64 << 20),
        interfaces: Vec::new(),
        application: "test".to_owned(),
        comment: None,
        rotation: lineside_port::Rotation::default(),
        replaces: false,
    };
    let mut writer = lineside_port::CaptureWriter::create(&path, config, None).expect("made");
    let frames = (0..1_000).map(|number| {
        let descriptor = Descriptor {
            stamp_ns: Some(1_000_000_000_000 + number),
            wire_len: frame.len() as u32,
            link_type: LinkType::ETHERNET,
            ..Descriptor::default()
        };
        Frame::copied(&frame, descriptor)
    });
    writer.write(&frames.collect::<Vec<_>>()).expect("written");
    writer.finish().expect("written");
    path
}

#[test]
fn a_shaped_link_has_the_gaps_and_the_use_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, out) = (burst(folder.path()), folder.path().join("out"));
    let words = [
        "emulate",
        "-q",
        "--rate",
        "100mbit",
        "--limit",
        "2mb",
        "--loss",
        "every 10",
        "--monitor",
        "gap,size,burst,packets at outside.left window 10ms within 80us",
        "--monitor",
        "size at *.dropped",
    ];
    let output = run(&words, &[("-o", &out), ("-r", &input)]);
    assert!(output.status.success(), "{}", talk(&output));
    // 8,000 bits at 100 Mb/s: 80 us.
    let gaps = bins(&out, "gap_ns");
    assert!(
        matches!(gaps[..], [(from, to, 899)] if (from..=to).contains(&80_000)),
        "{gaps:?}"
    );
    let sizes = bins(&out, "packet_bytes");
    assert_eq!(
        sizes,
        [(1_000, 1_000, 100), (1_000, 1_000, 900)],
        "each frame has a place"
    );
    // A gap equal to the bound continues a burst, and the last one counts.
    let [(from, to, 1)] = bins(&out, "burst_packets")[..] else {
        panic!("one burst");
    };
    assert!((from..=to).contains(&900));
    let windows = records(&out, Table::MonitorWindows);
    let bytes: Vec<_> = windows
        .iter()
        .filter_map(|row| row.integer("bytes"))
        .collect();
    // The first frame leaves after 80 us.
    let whole = &bytes[1..7];
    assert!(whole.iter().all(|bytes| *bytes == 125_000), "{bytes:?}");
    assert_eq!(bytes.iter().sum::<i64>(), 900_000);
    // Virtual time, twice.
    let again = folder.path().join("again");
    let output = run(&words, &[("-o", &again), ("-r", &input)]);
    assert!(output.status.success(), "{}", talk(&output));
    assert_eq!(measured(&out), measured(&again));
}

#[test]
fn monitors_that_cannot_measure_are_named_with_the_way_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    let refused = |words: &[&str]| {
        let output = run(words, &[("-r", &example())]);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{words:?}: {}",
            talk(&output)
        );
        talk(&output)
    };
    let pcap = folder.path().join("x.pcapng");
    let pcap = pcap.to_str().expect("text");
    let text = refused(&["capture", "-w", pcap, "--monitor", "gap"]);
    assert!(text.contains("name the folder for them with -o"), "{text}");
    let text = refused(&["emulate", "--monitor", "gap"]);
    assert!(text.contains("name the folder for them with -o"), "{text}");
    let text = refused(&["capture", "-o", "/nowhere/x", "--monitor", "gapp"]);
    assert!(text.contains("did you mean 'gap'"), "{text}");
    // Live, where the folder is made before: nothing stays.
    let live = folder.path().join("live");
    let mut command = lineside();
    command.args(["emulate", "--monitor", "gapp", "--server", "true", "-o"]);
    let output = command.arg(&live).args(["--", "true"]).output();
    let output = output.expect("lineside runs");
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    assert!(!live.exists(), "the next try finds no folder");
    let twice = ["--monitor", "gap  at x", "--monitor", "gap at x"];
    let text = refused(&[&["capture", "-o", "/nowhere/x"], &twice[..]].concat());
    assert!(text.contains("'gap at x' is given twice"), "{text}");
    let words = ["capture", "-q", "--monitor", "gap at eth9.left"];
    let output = run(&words, &[("-o", &out), ("-r", &example())]);
    assert!(came_to_its_end(&output), "{}", talk(&output));
    let text = talk(&output);
    assert!(
        text.contains("'gap at eth9.left' measured nowhere"),
        "{text}"
    );
}
