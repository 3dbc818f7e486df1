//! What leaves, as tshark reads it.

use std::process::Command;

use lineside_testkit::capture::{self, Frame};
use lineside_testkit::tshark;
use lineside_wire::TcpFlags;
use lineside_wire::build::TcpFields;

use crate::bench::*;

/// Every checksum that is wrong, and all that tshark cannot read.
const WRONG: &str = "ip.checksum.status == 0 || tcp.checksum.status == 0 || udp.checksum.status == 0 \
    || icmp.checksum.status == 0 || icmpv6.checksum.status == 0 || _ws.malformed";
const CHECKS: [&str; 3] = [
    "ip.check_checksum:TRUE",
    "tcp.check_checksum:TRUE",
    "udp.check_checksum:TRUE",
];

/// Frames that leave: segments, datagrams, errors, pieces, resets, answers.
fn all() -> Vec<Vec<u8>> {
    let mut settings = settings();
    settings.ports[NODES].mtu = 600;
    let mut bench = Bench::new(settings);
    let mut left = Vec::new();
    for [source, ours] in [["10.9.1.7", "10.9.1.100"], ["fd00:1::7", "fd00:1::100"]] {
        let client = from_client(source, ours);
        let options = [2, 4, 5, 180, 1, 3, 3, 7, 4, 2, 1, 1];
        let syn = TcpFields {
            options: &options,
            ..segment([4000, 80], 1, TcpFlags::SYN)
        };
        let frames = [
            client.tcp(&syn, &[]),
            client.tcp(&segment([4001, 80], 1, TcpFlags::ACK), b"unknown"),
            client.udp(4000, 53, b"question"),
            client.udp(4000, 53, &[7; 1300]),
            client.udp(4000, 54, b"nobody"),
            client.clone().with_ttl(1).udp(4000, 53, b"question"),
        ];
        for frame in &frames {
            for (port, bytes) in bench.send(CLIENTS, frame) {
                if port == NODES && bytes.len() < 600 && bytes[20] & 0x3f == 0 {
                    left.extend(bench.send(NODES, &turned(&bytes)));
                }
                left.push((port, bytes));
            }
        }
    }
    left.into_iter().map(|(_, bytes)| bytes).collect()
}

fn lines(path: &std::path::Path, filter: &str) -> Vec<String> {
    let mut command = Command::new("tshark");
    command
        .arg("-r")
        .arg(path)
        .args(["-Y", filter, "--disable-protocol", "dns"]);
    CHECKS.iter().for_each(|check| {
        command.args(["-o", check]);
    });
    let output = command.output().expect("tshark runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(String::from)
        .collect()
}

#[test]
fn tshark_finds_no_fault_in_what_leaves() {
    if !tshark::available() {
        return;
    }
    let mut frames = all();
    assert!(frames.len() > 12, "{}", frames.len());
    let path = std::env::temp_dir().join(format!("lineside-balancer-{}.pcap", std::process::id()));
    let write = |frames: &[Vec<u8>]| {
        let frames: Vec<Frame> = frames.iter().map(|bytes| frame_of(bytes)).collect();
        std::fs::write(&path, capture::write(&frames)).expect("a file");
    };
    write(&frames);
    let faults = lines(&path, WRONG);
    // And it would see one.
    let last = frames[0].len() - 1;
    frames[0][last] ^= 1;
    write(&frames);
    let seen = lines(&path, WRONG);
    std::fs::remove_file(&path).expect("the file is there");
    assert_eq!(faults, Vec::<String>::new());
    assert_eq!(seen.len(), 1, "{seen:?}");
}

fn frame_of(bytes: &[u8]) -> Frame {
    Frame {
        stamp_ns: None,
        wire_len: bytes.len() as u32,
        link_type: 1,
        bytes: bytes.to_vec(),
    }
}
