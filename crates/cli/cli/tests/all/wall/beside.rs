//! Monitors of a live link beside tcpdump at its far end: real datagrams and real TCP.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lineside_host::Stopwatch;
use lineside_rows::Table;
use lineside_time::Random;

use crate::support::{Record, records};
use crate::wall::between::{Hosts, emulate, transfer};
use crate::wall::undisturbed::undisturbed;
use crate::wall::wire::{Tcpdump, need_wire, private_folder};

const UDP: &str = "udp and src host 192.0.2.1";
const TCP: &str = "tcp and src host 192.0.2.1";

/// Gaps of the paced stream: well above the kernel's jitter.
const GAPS_NS: (u64, u64) = (200_000, 5_000_000);
const DATAGRAMS: usize = 2_000;

/// The distance between the two distributions of gaps.
const DISTANCE_MAX: f64 = 0.02;

/// Datagrams of random lengths after random gaps.
fn send_paced(hosts: &Hosts, seed: u64) {
    hosts.client.enter(|| {
        let socket = UdpSocket::bind("192.0.2.1:700").expect("free");
        let mut random = Random::new(seed);
        let (since, mut next_ns) = (Stopwatch::start(), 0);
        for _ in 0..DATAGRAMS {
            next_ns += GAPS_NS.0 + random.below(GAPS_NS.1 - GAPS_NS.0);
            let len = 18 + random.below(1_400) as usize;
            since.wait_until(Duration::from_nanos(next_ns));
            socket.send_to(&vec![7; len], "192.0.2.2:9").expect("sent");
        }
    });
}

/// A frame as tcpdump recorded it and tshark reads it.
struct Seen {
    time_ns: i64,
    bytes: i64,
    payload: i64,
    window: i64,
    sequence: i64,
}

fn seen(file: &Path, filter: &str) -> Vec<Seen> {
    let mut command = Command::new("tshark");
    command
        .arg("-r")
        .arg(file)
        .args(["-Y", filter, "-T", "fields"]);
    for field in [
        "frame.time_epoch",
        "frame.len",
        "tcp.len",
        "tcp.window_size",
        "tcp.seq",
    ] {
        command.args(["-e", field]);
    }
    let text = String::from_utf8(command.output().expect("tshark runs").stdout).expect("text");
    let frame = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let number = |at: usize| fields[at].parse::<i64>().unwrap_or_default();
        let (seconds, fraction) = fields[0].split_once('.').expect("seconds");
        let seconds: i64 = seconds.parse().expect("seconds");
        Seen {
            time_ns: seconds * 1_000_000_000 + fraction.parse::<i64>().expect("nanoseconds"),
            bytes: number(1),
            payload: number(2),
            window: number(3),
            sequence: number(4),
        }
    };
    text.lines().map(frame).collect()
}

/// Bins of a metric: from, to, count.
fn bins(rows: &[Record], monitor: &str, metric: &str) -> Vec<(i64, i64, i64)> {
    let rows = rows
        .iter()
        .filter(|row| row.text("metric") == Some(metric) && row.text("monitor") == Some(monitor));
    let bin = |row: &Record| {
        ["bin_from", "bin_to", "count"].map(|name| row.integer(name).expect("never null"))
    };
    rows.map(bin)
        .map(|[from, to, count]| (from, to, count))
        .collect()
}

/// The distance of Kolmogorov and Smirnov between values and bins, at the ends of the bins.
fn distance(values: &[i64], bins: &[(i64, i64, i64)]) -> f64 {
    let all = bins.iter().map(|bin| bin.2).sum::<i64>();
    let (mut below, mut most) = (0, 0.0_f64);
    let mut bins = bins.to_vec();
    bins.sort_unstable();
    for (_, to, count) in bins {
        below += count;
        let theirs = values.iter().filter(|value| **value <= to).count();
        let [ours, theirs] = [
            below as f64 / all as f64,
            theirs as f64 / values.len() as f64,
        ];
        most = most.max((ours - theirs).abs());
    }
    most
}

/// Gaps of the datagrams by tcpdump and by the monitor: their distance.
fn compared(attempt: u64) -> f64 {
    let hosts = Hosts::new();
    let monitors = [UDP, TCP].map(|filter| {
        format!("gap,size,flow_size,tcp_window,reordering at m1.left match {filter}")
    });
    let words = [
        "--between",
        "m0,m1",
        "--wait",
        "sleep",
        "--method",
        "af_packet",
        "--delay",
        "1ms",
        "--monitor",
        &monitors[0],
        "--monitor",
        &monitors[1],
    ];
    let running = emulate(&hosts.between, &words, "m1");
    let folder = private_folder();
    let file = folder.path().join("far.pcap");
    let tcpdump = hosts.server.command("tcpdump");
    let tcpdump = Tcpdump::filtered(tcpdump, "s0", &file, "src host 192.0.2.1 and (udp or tcp)");
    send_paced(&hosts, attempt);
    transfer(&hosts, 1 << 20);
    tcpdump.end_when_quiet();
    let ended = running.interrupt();
    let rows = records(&ended.out, Table::MonitorBins);
    let flows = records(&ended.out, Table::MonitorFlows);

    let (udp, tcp) = (seen(&file, "udp"), seen(&file, "tcp"));
    assert_eq!(udp.len(), DATAGRAMS, "nothing is lost");
    for (frames, monitor) in [(&udp, &monitors[0]), (&tcp, &monitors[1])] {
        let mut sizes = BTreeMap::<i64, i64>::new();
        frames
            .iter()
            .for_each(|frame| *sizes.entry(frame.bytes).or_default() += 1);
        let found = bins(&rows, monitor, "packet_bytes").into_iter();
        assert_eq!(
            found
                .map(|(from, _, count)| (from, count))
                .collect::<BTreeMap<_, _>>(),
            sizes
        );
        let flow = flows.iter().find(|row| {
            row.text("monitor") == Some(monitor) && row.integer("flow_id").is_some_and(|id| id > 0)
        });
        let flow = flow.expect("one flow");
        let number = |name| flow.integer(name).unwrap_or_default();
        assert_eq!(number("packets"), frames.len() as i64);
        assert_eq!(
            number("bytes"),
            frames.iter().map(|frame| frame.bytes).sum::<i64>()
        );
        if monitor.contains("match tcp") {
            assert_eq!(
                number("payload_bytes"),
                frames.iter().map(|frame| frame.payload).sum::<i64>()
            );
            let most = frames.iter().map(|frame| frame.window).max();
            assert_eq!(Some(number("tcp_window_max_bytes")), most);
            // Segments that begin before the end of another that came first.
            let (mut end, mut late) = (0, 0);
            for frame in frames.iter().filter(|frame| frame.payload > 0) {
                late += i64::from(frame.sequence < end);
                end = end.max(frame.sequence + frame.payload);
            }
            assert!(number("reordered_packets") <= late);
        }
    }
    let times: Vec<_> = udp.iter().map(|frame| frame.time_ns).collect();
    let gaps: Vec<_> = times
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).max(0))
        .collect();
    let found = bins(&rows, &monitors[0], "gap_ns");
    assert_eq!(
        found.iter().map(|bin| bin.2).sum::<i64>(),
        gaps.len() as i64
    );
    distance(&gaps, &found)
}

#[test]
fn gaps_of_a_live_link_are_those_of_tcpdump_at_its_far_end() {
    need_wire!("tcpdump", "tshark");
    // The machine may stand still between the two stamps of a frame.
    let mut attempts = 0..;
    undisturbed("gaps beside tcpdump", || {
        let distance = compared(attempts.next().unwrap_or_default());
        match distance <= DISTANCE_MAX {
            true => Ok(()),
            false => Err(format!("distance {distance:.4}")),
        }
    });
}
