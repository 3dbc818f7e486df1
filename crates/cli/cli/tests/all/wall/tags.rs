//! VLAN tags on a wire: they come back into the frames, and filters take the frames that tcpdump
//! takes at an interface, where the kernel takes the outer tag out first.

use std::path::Path;

use lineside_testkit::capture::{self, Frame};
use tempfile::TempDir;

use crate::support::Trace;
use crate::wall::live::{METHODS, assert_same_operations, assert_same_rows, example_frames};
use crate::wall::wire::{Running, Tcpdump, Wire, need_wire, private_folder, run};

/// Expressions whose meaning depends on where a tag is.
const FILTERS: [&str; 13] = [
    "tcp port 2049",
    "vlan",
    "vlan 7",
    "vlan and tcp port 2049",
    "not vlan",
    "vlan 9 and vlan 7",
    "vlan and vlan and tcp",
    "vlan 7 or udp",
    "udp or vlan 7 and tcp",
    "ether proto 0x8100",
    "vlan and arp",
    "vlan and tcp[13] & 8 != 0",
    "greater 200",
];

/// The example with a VLAN tag in the frames of every other port, and with two in those of one.
pub(crate) fn tagged_frames() -> Vec<Frame> {
    let mut frames = example_frames();
    for frame in &mut frames {
        // Both directions of a connection have the same sum of their ports, and so do fragments:
        // none.
        let is_ipv4 = frame.bytes[12..14] == [8, 0];
        let ports = match is_ipv4 {
            true if frame.bytes[20] & 0x3f == 0 && frame.bytes[21] == 0 => {
                frame.bytes[35] ^ frame.bytes[37]
            }
            _ => 0,
        };
        let tags: &[u8] = match ports % 4 {
            1 => &[0x81, 0, 0, 7],
            3 => &[0x88, 0xa8, 0x20, 9, 0x81, 0, 0, 7],
            _ => &[],
        };
        frame.bytes.splice(12..12, tags.iter().copied());
        frame.wire_len = frame.bytes.len() as u32;
    }
    frames
}

#[test]
fn vlan_tags_come_back_into_the_frames_and_filters_see_them() {
    need_wire!();
    let wire = Wire::new("vlan", 1);
    let frames = tagged_frames();
    let folder = private_folder();
    let path = folder.path().join("tagged.pcap");
    std::fs::write(&path, capture::write(&frames)).expect("written");
    let all = Trace::of(&path, &[]);
    for method in METHODS {
        tagged(&wire, method, &folder, &path, &all);
    }
}

fn tagged(wire: &Wire, method: &[&str], folder: &TempDir, path: &Path, all: &Trace) {
    let frames = tagged_frames();
    let mut rows = Vec::new();
    // Those that a frame's outer tag hides nothing from mean the same of a file.
    for filter in [
        "",
        "vlan and tcp",
        "vlan 9 and vlan 7 and tcp",
        "vlan and udp",
    ] {
        let options = match filter {
            "" => vec![],
            filter => vec!["-f", filter],
        };
        let file = Trace::of(path, &options);
        let written = folder.path().join("written.pcap");
        let options: Vec<_> = ["-i", "t0", "--force", "--write-pcap"]
            .into_iter()
            .chain([written.to_str().expect("a plain path")])
            .chain(options)
            .chain(method.iter().copied())
            .collect();
        let running = Running::start(&wire.tap, &options);
        wire.send(&frames);
        let live = running.interrupt().trace(0);
        // Frames that the kernel's filter rejects have no number: ids differ.
        assert_same_operations(&live, &file, filter);
        live.assert_identities(filter);
        rows.push(live.operations.len());
        if filter.is_empty() {
            assert_same_rows(&live, &file, filter);
            let written = capture::read(&written).expect("a capture");
            assert!(
                frames
                    .iter()
                    .map(|frame| &frame.bytes)
                    .eq(written.iter().map(|frame| &frame.bytes)),
                "the frames are those that were sent"
            );
        }
    }
    assert!(rows.iter().all(|&rows| rows > 5), "{rows:?}");
    assert!(all.operations.len() > rows[1..].iter().sum(), "{rows:?}");
}

/// Tags that the example does not have: two of 802.1Q, and one that the kernel does not know.
fn odd_frames() -> Vec<Frame> {
    let tags: [&[u8]; 3] = [
        &[0x81, 0, 0, 7, 0x81, 0, 0, 9],
        &[0x91, 0, 0, 7],
        &[0x88, 0xa8, 0, 7],
    ];
    let frames = example_frames();
    let few = frames.iter().step_by(40).zip(tags.iter().cycle());
    let few = few.map(|(frame, tags)| {
        let mut frame = frame.clone();
        frame.bytes.splice(12..12, tags.iter().copied());
        frame.wire_len = frame.bytes.len() as u32;
        frame
    });
    few.collect()
}

/// The bytes of the frames of a capture file.
fn frames_of(path: &Path) -> Vec<Vec<u8>> {
    let frames = capture::read(path).expect("a capture");
    frames.into_iter().map(|frame| frame.bytes).collect()
}

/// What `lineside` and, if it is asked for, tcpdump let through of what `traffic` makes.
fn both(
    wire: &Wire,
    method: &[&str],
    filter: &str,
    tcpdumps: bool,
    traffic: impl Fn(),
) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let folder = private_folder();
    let (ours, theirs) = (
        folder.path().join("ours.pcap"),
        folder.path().join("theirs.pcap"),
    );
    let tcpdump =
        tcpdumps.then(|| Tcpdump::filtered(wire.tap.command("tcpdump"), "t0", &theirs, filter));
    let path = ours.to_str().expect("a plain path");
    let options = [&["-i", "t0", "-w", path, "-f", filter], method].concat();
    let running = Running::start(&wire.tap, &options);
    traffic();
    running.interrupt().trace(0);
    let theirs = tcpdump.map(|tcpdump| {
        tcpdump.end_when_quiet();
        frames_of(&theirs)
    });
    (frames_of(&ours), theirs.unwrap_or_default())
}

#[test]
fn live_filters_take_the_frames_that_tcpdump_takes() {
    need_wire!("tcpdump");
    let wire = Wire::new("tags", 1);
    let mut frames = tagged_frames();
    frames.extend(odd_frames());
    frames.extend(example_frames().into_iter().step_by(7));
    for filter in FILTERS {
        let (ours, theirs) = both(&wire, METHODS[0], filter, true, || wire.send(&frames));
        println!("{filter}: {} of {}", theirs.len(), frames.len());
        assert_eq!(ours.len(), theirs.len(), "{filter}");
        assert!(ours == theirs, "{filter}: other frames");
        assert!(
            theirs.len() < frames.len() && (!theirs.is_empty() || filter.ends_with("arp")),
            "{filter} takes some and leaves some"
        );
        // tcpdump would see no frame beside AF_XDP.
        for method in &METHODS[1..] {
            let (ours, _) = both(&wire, method, filter, false, || wire.send(&frames));
            assert_eq!(ours.len(), theirs.len(), "{filter}, {method:?}");
            assert!(ours == theirs, "{filter}, {method:?}: other frames");
        }
    }
}

/// Sends frames through an interface of this host as a program does, so that packet sockets see
/// them leave, with their tags among their bytes.
const SEND: &str = "
import socket, sys
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(('t0', 0))
for line in sys.stdin:
    out.send(bytes.fromhex(line))
";

#[test]
fn filters_about_tags_that_af_xdp_cannot_know_take_af_packet() {
    need_wire!();
    let wire = Wire::new("stripped", 1);
    let at = |options: &[&str]| {
        let running = Running::start(&wire.tap, &[&["-i", "t0"], options].concat());
        let ended = running.interrupt();
        let warns = ended.messages.contains("ethtool -K t0 rxvlan off");
        let live = ended.trace(0);
        let input = live.manifest.inputs[0].live.as_ref().expect("it is live");
        (input.method.clone(), warns)
    };
    let tags = ["-f", "vlan 7 and tcp"];
    assert_eq!(at(&["-f", "tcp"]).0, "AF_XDP native");
    assert_eq!(at(&tags), ("AF_PACKET".to_owned(), false));
    let asked = [&tags[..], &["--method", "af_xdp"]].concat();
    assert_eq!(at(&asked), ("AF_XDP native".to_owned(), true));
    run(wire
        .tap
        .command("ethtool")
        .args(["-K", "t0", "rxvlan", "off"]));
    assert_eq!(at(&tags), ("AF_XDP native".to_owned(), false));
}

#[test]
fn live_filters_agree_with_tcpdump_on_frames_that_leave() {
    need_wire!("tcpdump", "python3");
    let wire = Wire::new("leaving", 1);
    let mut frames = tagged_frames();
    frames.extend(odd_frames());
    let frames: Vec<_> = frames.into_iter().map(|frame| frame.bytes).collect();
    let mut taken = Vec::new();
    for filter in FILTERS {
        let send = || wire.tap.python(SEND, &frames);
        let (ours, theirs) = both(&wire, METHODS[0], filter, true, send);
        println!("{filter}: {} of {}", theirs.len(), frames.len());
        assert_eq!(ours.len(), theirs.len(), "{filter}");
        assert!(ours == theirs, "{filter}: other frames");
        taken.push(theirs.len());
    }
    // Here a tag hides the port from a filter that does not name it: some lack one, some are named.
    assert!(taken[0] > 0 && taken[3] > 0, "{taken:?}");
}
