//! Captures of both ends of a path, given together.

use std::collections::BTreeSet;
use std::net::IpAddr;

use lineside_rows::Table;
use lineside_testkit::capture::{self, Frame};
use lineside_trace::{Manifest, State, Verdict};
use lineside_wire::{Dissected, dissect};

use crate::support::{Record, counters, example, lineside, manifest, records, talk};

/// How much longer everything takes than in the example.
const SLOWER: i64 = 100;

const HOUR_NS: i64 = 3_600_000_000_000;

/// What the server's tap sees, and the client's, `way_ns` away, by a clock that is `ahead_ns`.
fn both_ends(way_ns: i64, ahead_ns: i64) -> [Vec<Frame>; 2] {
    let mut server = capture::read(&example()).expect("the example");
    server.retain(|frame| is_from_server(frame).is_some());
    server.sort_by_key(|frame| frame.stamp_ns);
    let first_ns = server.first().and_then(|first| first.stamp_ns).unwrap_or(0);
    for frame in &mut server {
        // Nobody is as fast as the example over a long way.
        frame.stamp_ns = frame.stamp_ns.map(|ns| first_ns + SLOWER * (ns - first_ns));
    }
    let mut client = server.clone();
    for frame in &mut client {
        let later_ns = match is_from_server(frame) {
            Some(true) => way_ns,
            _ => -way_ns,
        };
        frame.stamp_ns = frame
            .stamp_ns
            .map(|stamp_ns| stamp_ns + later_ns + ahead_ns);
    }
    client.sort_by_key(|frame| frame.stamp_ns);
    [server, client]
}

/// Of a TCP segment over IPv4, whether it is of the host of the server; the example has one.
fn is_from_server(frame: &Frame) -> Option<bool> {
    match dissect(frame.link_type, &frame.bytes, frame.wire_len as usize) {
        Dissected::Tcp(ip, _) if ip.source.is_ipv4() => {
            Some(ip.source == IpAddr::from([192, 0, 2, 1]))
        }
        _ => None,
    }
}

/// The trace of files with these frames, in this order, and what was printed.
fn captured(inputs: &[&[Frame]], options: &[&str]) -> (Vec<Record>, Manifest, String) {
    let files: Vec<_> = inputs.iter().map(|frames| capture::write(frames)).collect();
    captured_files(&files, options)
}

fn captured_files(inputs: &[Vec<u8>], options: &[&str]) -> (Vec<Record>, Manifest, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = (0..inputs.len()).map(|at| folder.path().join(format!("{at}.pcap")));
    let paths: Vec<_> = paths.collect();
    for (path, bytes) in paths.iter().zip(inputs) {
        std::fs::write(path, bytes).expect("room");
    }
    let out = folder.path().join("trace");
    let output = lineside()
        .arg("capture")
        .args(&paths)
        .arg("-o")
        .arg(&out)
        .args(options)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", talk(&output));
    let manifest = manifest(&out);
    let counted = counters(&manifest);
    assert_eq!(counted.broken_identity(), None);
    let report = lineside()
        .arg("report")
        .arg(&out)
        .output()
        .expect("it runs");
    let printed = talk(&output) + &String::from_utf8_lossy(&report.stdout);
    (records(&out, Table::Operations), manifest, printed)
}

/// Rows without what the number of inputs changes, and without the other tap's columns.
fn rows(operations: &[Record]) -> Vec<String> {
    let is_other = |column: &str| {
        column.starts_with("client_tap")
            || column.ends_with("_input")
            || column.ends_with("_frame")
            || column.ends_with("_id") && column != "user_id" && column != "group_id"
            || column == "repeat_of"
    };
    let mut rows: Vec<_> = operations
        .iter()
        .map(|row| row.text_without(is_other))
        .collect();
    rows.sort();
    rows
}

fn assert_stamps(operations: &[Record], way_ns: i64, ahead_ns: i64) {
    for row in operations {
        for (own, other, later_ns) in [
            ("call_end_ns", "client_tap_call_ns", -way_ns),
            ("reply_end_ns", "client_tap_reply_ns", way_ns),
        ] {
            let own = row.integer(own).map(|ns| ns + later_ns + ahead_ns);
            assert_eq!(row.integer(other), own, "{other}");
        }
    }
}

#[test]
fn both_ends_are_one_set_of_rows_at_any_delay_and_by_any_clock() {
    let (alone, expected) = {
        let [server, _] = both_ends(0, 0);
        let (operations, manifest, _) = captured(&[&server], &[]);
        (rows(&operations), manifest.verdict.state)
    };
    for (way_ns, ahead_ns, options) in [
        (100_000, 0, [].as_slice()),
        (5_000_000, 700_000, &["--cores", "2"]),
        (30_000_000, 3 * HOUR_NS, &[]),
        (30_000_000, -50 * HOUR_NS, &[]),
    ] {
        let [server, client] = both_ends(way_ns, ahead_ns);
        for (inputs, place) in [([&server[..], &client], 0), ([&client, &server], 1)] {
            let what = format!("{way_ns} {ahead_ns} {place}");
            let (operations, manifest, printed) = captured(&inputs, options);
            assert_eq!(rows(&operations), alone, "{what}");
            assert_stamps(&operations, way_ns, ahead_ns);
            let inputs = operations
                .iter()
                .filter_map(|row| row.integer("call_input"));
            assert!(inputs.clone().all(|input| input == place), "{what}");
            let [taps] = &manifest.two_taps[..] else {
                panic!("{what}: {:?}", manifest.two_taps);
            };
            assert!(
                taps.server_tap.ends_with(&format!("/{place}.pcap")),
                "{what}"
            );
            assert_eq!(taps.round_trip_ns, Some(2 * way_ns), "{what}");
            assert_eq!(taps.clock_offset_ns, Some(-ahead_ns), "{what}");
            assert_eq!([taps.lost_to_server, taps.lost_to_client], [0; 2], "{what}");
            assert_eq!(manifest.verdict.state, expected, "{:?}", manifest.verdict);
            assert!(printed.contains("nearer to the server"), "{printed}");
            assert!(printed.contains("clock"), "{printed}");
            assert!(printed.contains("two taps"), "{printed}");
        }
    }
}

/// One end alone, the same twice, another day: nothing is invented, no row is lost or doubled.
#[test]
fn what_are_no_two_ends_is_reported_and_changes_no_rows() {
    let [server, client] = both_ends(5_000_000, 0);
    let (operations, _, _) = captured(&[&server], &[]);
    let alone = rows(&operations);
    let (twice, manifest, printed) = captured(&[&server, &server], &[]);
    assert_eq!(rows(&twice), alone);
    assert!(
        twice
            .iter()
            .all(|row| row.integer("client_tap_call_ns").is_none())
    );
    assert!(printed.contains("the same capture again"), "{printed}");
    assert_eq!(manifest.two_taps[0].round_trip_ns, Some(0));
    // One end that begins later, in any order: its rows are there once.
    for late in [&server[server.len() / 2..], &server[..server.len() / 2]] {
        for inputs in [[late, &client[..]], [&client, late]] {
            let (operations, manifest, _) = captured(&inputs, &[]);
            assert_eq!(operations.len(), alone.len());
            assert_eq!(manifest.two_taps.len(), 1);
        }
    }
    // A ring's files follow each other.
    let (first, second) = server.split_at(server.len() / 2);
    let (ring, manifest, printed) = captured(&[first, second], &[]);
    assert_eq!(rows(&ring).len(), alone.len());
    assert_eq!(manifest.two_taps, [], "{printed}");
    // One direction at the other end.
    let one_way = |from_server| -> Vec<Frame> {
        let kept = |frame: &&Frame| is_from_server(frame) == Some(from_server);
        client.iter().filter(kept).cloned().collect()
    };
    for from_server in [false, true] {
        let (operations, manifest, printed) = captured(&[&one_way(from_server), &server], &[]);
        assert_eq!(rows(&operations), alone);
        assert_eq!(manifest.two_taps[0].round_trip_ns, None);
        assert!(printed.contains("one direction"), "{printed}");
    }
}

#[test]
fn what_the_tap_of_the_server_missed_is_read_of_the_other() {
    let [mut server, client] = both_ends(1_000_000, 0);
    let alone = captured(&[&server], &[]).0.len();
    // The server's tap misses every hundredth frame: what it missed is taken of the other.
    let mut number = 0;
    server.retain(|_| {
        number += 1;
        number % 100 != 0
    });
    let (operations, manifest, _) = captured(&[&server, &client], &[]);
    assert_eq!(operations.len(), alone);
    assert!(manifest.two_taps[0].unseen_by_server_tap > 0);
    assert_eq!(
        manifest.verdict.state,
        State::Complete,
        "{:?}",
        manifest.verdict
    );
}

/// The frames of both taps in the order of their stamps, as mergecap writes them: each with the
/// number of its tap.
fn merged([server, client]: [Vec<Frame>; 2]) -> Vec<(u32, Frame)> {
    let of = |tap, frames: Vec<Frame>| frames.into_iter().map(move |frame| (tap, frame));
    let mut frames: Vec<_> = of(0, client).chain(of(1, server)).collect();
    frames.sort_by_key(|(_, frame)| frame.stamp_ns);
    frames
}

fn pcap(frames: &[(u32, Frame)]) -> Vec<u8> {
    let frames: Vec<_> = frames.iter().map(|(_, frame)| frame.clone()).collect();
    capture::write(&frames)
}

/// A pcapng file of nanoseconds with two interfaces, or with one for both taps.
fn pcapng(frames: &[(u32, Frame)], interfaces: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let len = 12 + body.len().next_multiple_of(4);
        let len = u32::try_from(len).expect("a small block").to_le_bytes();
        out.extend(kind.to_le_bytes());
        out.extend(len);
        out.extend(body);
        out.resize(out.len().next_multiple_of(4), 0);
        out.extend(len);
    };
    let section = [
        &0x1a2b_3c4d_u32.to_le_bytes()[..],
        &[1, 0, 0, 0],
        &[0xff; 8],
    ];
    block(0x0a0d_0d0a, &section.concat());
    for _ in 0..interfaces {
        let link_type = frames[0].1.link_type.to_le_bytes();
        // No snap length, `if_tsresol` of 9.
        let options = [0, 0, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0];
        block(1, &[&link_type[..], &[0; 2], &options].concat());
    }
    for (tap, frame) in frames {
        let stamp_ns = frame.stamp_ns.expect("a stamp").cast_unsigned();
        let kept_len = u32::try_from(frame.bytes.len()).expect("a frame");
        let words = [
            tap % interfaces,
            (stamp_ns >> 32) as u32,
            (stamp_ns & u64::from(u32::MAX)) as u32,
            kept_len,
            frame.wire_len,
        ];
        let head: Vec<_> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        block(6, &[head, frame.bytes.clone()].concat());
    }
    out
}

#[test]
fn one_file_of_both_ends_is_one_set_of_rows() {
    let [server, _] = both_ends(0, 0);
    let alone = rows(&captured(&[&server], &[]).0);
    for way_ns in [10_000_000, 60_000_000] {
        let frames = merged(both_ends(way_ns, 0));
        for (form, file) in [
            ("pcap", pcap(&frames)),
            ("pcapng", pcapng(&frames, 1)),
            ("pcapng with two interfaces", pcapng(&frames, 2)),
        ] {
            let (operations, manifest, printed) = captured_files(&[file], &[]);
            assert_eq!(rows(&operations), alone, "{form} {way_ns}: {printed}");
            assert_stamps(&operations, way_ns, 0);
            let [taps] = &manifest.two_taps[..] else {
                panic!("{form} {way_ns}: {:?}", manifest.two_taps);
            };
            assert_eq!(taps.round_trip_ns, Some(2 * way_ns), "{form}");
            assert_eq!(manifest.verdict.state, State::Complete, "{form}");
        }
    }
}

#[test]
fn one_file_of_clocks_hours_apart_never_doubles_rows_silently() {
    for ahead_ns in [2 * HOUR_NS, -2 * HOUR_NS] {
        let ends = both_ends(10_000_000, ahead_ns);
        // The second tap's packets begin within the look before the run.
        let short = ends.clone().map(|end| end[..150].to_vec());
        let (operations, manifest, printed) = captured_files(&[pcap(&merged(short))], &[]);
        let call = |row: &Record| (row.integer("client_port"), row.integer("xid"));
        let calls: BTreeSet<_> = operations.iter().map(call).collect();
        assert_eq!(operations.len(), calls.len(), "{printed}");
        assert_eq!(manifest.two_taps.len(), 1, "{printed}");
        // They begin behind it.
        for options in [[].as_slice(), &["--cores", "2"]] {
            let (_, manifest, _) = captured_files(&[pcap(&merged(ends.clone()))], options);
            let Verdict { state, reasons, .. } = &manifest.verdict;
            assert_eq!(*state, State::Incomplete);
            assert!(reasons.iter().any(|why| why.contains("count twice")));
        }
    }
}

#[test]
fn one_file_of_taps_below_a_millisecond_doubles_no_row() {
    let [server, _] = both_ends(0, 0);
    let alone = captured(&[&server], &[]).0.len();
    for way_ns in [20_000, 200_000, 900_000] {
        let frames = merged(both_ends(way_ns, 0));
        for file in [pcap(&frames), pcapng(&frames, 1), pcapng(&frames, 2)] {
            assert_eq!(captured_files(&[file], &[]).0.len(), alone, "{way_ns}");
        }
    }
}
