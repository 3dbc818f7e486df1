//! `-i any`: all interfaces that are up, of any kind, each operation once.

use lineside_account::Counter;
use lineside_testkit::capture::{self, Frame};

use crate::support::{Record, Trace, counters, lineside, talk};
use crate::wall::live::{assert_same_operations, example_frames};
use crate::wall::wire::{Namespace, Running, Wire, need_wire, private_folder};
use crate::wall::written::interfaces_of;

/// Sends frames over the loopback interface as the host does: each is seen to leave and to arrive.
const OVER_LOOPBACK: &str = "
import socket, sys
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(('lo', 0))
for line in sys.stdin:
    out.send(bytes.fromhex(line))
";

/// Has IP packets arrive at a TUN device, which has no Ethernet header.
const OVER_TUN: &str = "
import fcntl, struct, sys
tun = open('/dev/net/tun', 'r+b', buffering=0)
fcntl.ioctl(tun, 0x400454ca, struct.pack('16sH', b'tun0', 0x1001))
for line in sys.stdin:
    tun.write(bytes.fromhex(line)[14:])
";

/// The frames by the interface that they shall take: those of a connection over TCP the same one,
/// all others the first.
fn by_way(frames: &[Frame]) -> [Vec<Frame>; 3] {
    let mut ways = [const { Vec::new() }; 3];
    for frame in frames {
        let bytes = &frame.bytes;
        let is_tcp = bytes[12..14] == [8, 0] && bytes[23] == 6;
        // Equal in both directions.
        let ports = bytes[35] ^ bytes[37];
        let way = if is_tcp { usize::from(ports % 3) } else { 0 };
        ways[way].push(frame.clone());
    }
    ways
}

fn bytes(frames: &[Frame]) -> Vec<Vec<u8>> {
    frames.iter().map(|frame| frame.bytes.clone()).collect()
}

/// The trace of the example's file.
fn example_trace(frames: &[Frame]) -> Trace {
    let folder = private_folder();
    let path = folder.path().join("example.pcap");
    std::fs::write(&path, capture::write(frames)).expect("written");
    Trace::of(&path, &[])
}

#[test]
fn any_reads_every_interface_and_each_operation_once() {
    need_wire!("python3");
    if let Err(why) = std::fs::File::options().write(true).open("/dev/net/tun") {
        println!("SKIP: no TUN device: {why}");
        return;
    }
    let wire = Wire::new("any", 1);
    wire.tap.ip("link set lo up");
    wire.tap.ip("tuntap add tun0 mode tun");
    wire.tap.ip("link set tun0 up");
    let frames = example_frames();
    let file = example_trace(&frames);
    let [by_wire, by_loopback, by_tun] = by_way(&frames);
    assert!(
        by_loopback.len() > 50 && by_tun.len() > 50,
        "all ways are taken"
    );
    let running = Running::start(&wire.tap, &["-i", "any", "-f", "vlan and tcp"]);
    let messages = running.messages();
    assert!(messages.contains("left out: 'tun0'"), "{messages}");
    running.interrupt().trace(0);
    let folder = private_folder();
    let written = folder.path().join("written.pcapng");
    let path = written.to_str().expect("a plain path");
    for filter in ["", "tcp or udp"] {
        let options = match filter {
            "" => vec!["-i", "any", "-w", path],
            _ => vec!["-i", "any", "-f", filter],
        };
        let running = Running::start(&wire.tap, &options);
        for name in ["lo", "t0", "tun0"] {
            assert!(
                running
                    .messages()
                    .contains(&format!("listening at {name} by AF_PACKET"))
            );
        }
        wire.send(&by_wire);
        wire.tap.python(OVER_LOOPBACK, &bytes(&by_loopback));
        wire.tap.python(OVER_TUN, &bytes(&by_tun));
        let live = running.interrupt().trace(0);
        assert_same_operations(&live, &file, filter);
        live.assert_identities(filter);
        assert_eq!(live.manifest.verdict, file.manifest.verdict, "{filter}");
        let seen = counters(&live.manifest).value(Counter::FramesReceived);
        if filter.is_empty() {
            assert_eq!(seen, frames.len() as u64, "each frame once, also over lo");
            assert_same_operations(&Trace::of(&written, &[]), &file, "written");
            let mut interfaces: Vec<_> = { interfaces_of(&written).into_iter() }
                .map(|each| {
                    (
                        each.name.unwrap_or_default(),
                        each.received,
                        each.dropped_by_system,
                    )
                })
                .collect();
            interfaces.sort();
            let counts = [("lo", &by_loopback), ("t0", &by_wire), ("tun0", &by_tun)];
            let counts =
                counts.map(|(name, frames)| (name.to_owned(), Some(frames.len() as u64), Some(0)));
            assert_eq!(interfaces, counts);
        }
    }
}

/// A frame that passes a bridge is seen where it comes in, at the bridge, and where it leaves.
#[test]
fn copies_of_a_frame_at_several_interfaces_are_read_once() {
    need_wire!();
    let wire = Wire::new("bridged", 2);
    wire.tap.ip("link add br0 mtu 9000 type bridge");
    for port in ["t0", "t1"] {
        wire.tap.ip(&format!("link set {port} master br0"));
    }
    // It does not learn that both hosts are behind the same port.
    wire.tap.ip("link set t0 type bridge_slave learning off");
    wire.tap.ip("link set br0 up");
    let frames = example_frames();
    let file = example_trace(&frames);
    let running = Running::start(&wire.tap, &["-i", "any"]);
    wire.send(&frames);
    let live = running.interrupt().trace(0);
    let seen = counters(&live.manifest).value(Counter::FramesReceived);
    assert!(
        seen >= 2 * frames.len() as u64,
        "{seen} of {}",
        frames.len()
    );
    assert_same_operations(&live, &file, "bridged");
    assert_eq!(live.manifest.verdict, file.manifest.verdict);
}

/// As on a host with a VLAN device: the frame at the adapter has a tag, and the same one at the
/// device has none.
#[test]
fn copies_with_and_without_a_tag_are_read_once() {
    need_wire!();
    let wire = Wire::new("vlandevice", 2);
    let frames = example_frames();
    let file = example_trace(&frames);
    let tagged: Vec<_> = { frames.iter() }
        .map(|frame| {
            let mut frame = frame.clone();
            frame.bytes.splice(12..12, [0x81, 0, 0, 7]);
            frame.wire_len += 4;
            frame
        })
        .collect();
    let both = tagged.iter().zip(&frames);
    let both: Vec<_> = both
        .flat_map(|(tagged, plain)| [(0, tagged), (1, plain)])
        .collect();
    let running = Running::start(&wire.tap, &["-i", "any"]);
    wire.send_into(&both);
    let live = running.interrupt().trace(0);
    // A copy that is sent more than a millisecond later, since this machine did something else
    // meanwhile, is another datagram, and counts as a call that came again: in the same row.
    assert_eq!(live.operations.len(), file.operations.len());
    let names = |trace: &Trace| {
        let name = |row: &Record| format!("{:?}", (row.integer("xid"), row.text("operation")));
        let mut names: Vec<_> = trace.operations.iter().map(name).collect();
        names.sort();
        names
    };
    assert_eq!(names(&live), names(&file));
}

#[test]
fn interfaces_that_go_meanwhile_do_not_end_any() {
    need_wire!();
    let wire = Wire::new("going", 2);
    let running = Running::start(&wire.tap, &["-i", "any"]);
    wire.tap.ip("link del t1");
    let frames = example_frames();
    wire.send(&frames);
    running.wait_for_at_least(frames.len());
    let ended = running.interrupt();
    assert!(ended.messages.contains("'t1'"), "{}", ended.messages);
    let live = ended.trace(0);
    assert!(live.operations.len() > 100);
}

#[test]
fn any_with_what_does_not_go_with_it_is_refused() {
    need_wire!();
    let namespace = Namespace::new("refused");
    let refused = |options: &[&str]| {
        let mut command = namespace.command(lineside().get_program());
        let output = command
            .args(["capture", "-o", "/nowhere/trace"])
            .args(options)
            .output();
        let output = output.expect("it runs");
        assert_eq!(
            output.status.code(),
            Some(2),
            "{options:?}: {}",
            talk(&output)
        );
        talk(&output)
    };
    assert!(refused(&["-i", "any,lo"]).contains("leave the other names out"));
    assert!(refused(&["-i", "any", "--method", "af_xdp"]).contains("leave --method out"));
    assert!(refused(&["-i", "any"]).contains("no interface is up"));
}
