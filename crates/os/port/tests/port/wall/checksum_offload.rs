//! Checksums that a sender left to its adapter, in frames that a port sends.

use std::process::Command;
use std::time::Duration;

use lineside_account::Budget;
use lineside_frame::{Burst, Descriptor, Frame, LinkType};
use lineside_host::Stopwatch;
use lineside_port::live::{LiveOptions, StampClock, open_each};
use lineside_port::{LivePort, Method, PortError};
use lineside_wire::build::{FrameBuilder, TcpFields};
use lineside_wire::{PROTOCOL_TCP, PROTOCOL_UDP, checksum};

use crate::wall::wire::{Wire, near, wire};

const PATIENCE: Duration = Duration::from_secs(30);

/// `None`, with the reason printed, where it is not allowed.
fn opened(method: Method) -> Option<(Wire, Box<dyn LivePort>)> {
    let wire = wire(1, 1, 1500)?;
    let options = LiveOptions {
        method: Some(method),
        sockets: 1,
        promiscuous: true,
        filter: Vec::new(),
        steering: None,
        flows: None,
        transmit_max: None,
        budget: Budget::new(64 << 20),
        bytes_max: 16 << 20,
        clock: StampClock::Wall,
    };
    match open_each(&near(), &options) {
        Ok(mut ports) => Some((wire, ports.remove(0))),
        Err(error @ PortError::Privilege { .. }) => {
            println!("SKIP: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Whether the kernel leaves checksums to the other end of the wire, as it usually does.
fn leave_checksums(is_on: bool) {
    let word = if is_on { "on" } else { "off" };
    let done = Command::new("ethtool")
        .args(["-K", "near", "tx", word])
        .output();
    assert!(done.expect("ethtool runs").status.success());
}

/// Frames as they leave their sender and as they are to arrive, each with the length of its
/// headers.
fn frames() -> Vec<(Vec<u8>, Vec<u8>, usize)> {
    let v4 = ["198.51.100.7", "198.51.100.1"].map(|text| text.parse().expect("an address"));
    let v6 = ["2001:db8::7", "2001:db8::1"].map(|text| text.parse().expect("an address"));
    let payload: Vec<u8> = (0..999).map(|at| (at * 7) as u8).collect();
    let mut frames = Vec::new();
    for ([source, destination], header_len) in [(v4, 34), (v6, 54)] {
        for protocol in [PROTOCOL_TCP, PROTOCOL_UDP] {
            let builder = FrameBuilder::new(source, destination);
            let (whole, at, len) = match protocol {
                PROTOCOL_UDP => (builder.udp(700, 800, &payload), 6, 8),
                _ => (builder.tcp(&TcpFields::default(), &payload), 16, 20),
            };
            let mut left = whole.clone();
            let segment_len = whole.len() - header_len;
            let sum = checksum::pseudo_header_sum(source, destination, protocol, segment_len);
            left[header_len + at..][..2].copy_from_slice(&sum.to_be_bytes());
            assert_ne!(left, whole);
            frames.push((left, whole, header_len + len));
        }
    }
    frames
}

fn descriptor() -> Descriptor {
    Descriptor {
        link_type: LinkType::ETHERNET,
        partial_checksum: true,
        ..Descriptor::default()
    }
}

fn received(port: &mut dyn LivePort) -> Frame {
    let mut burst = Burst::new();
    let watch = Stopwatch::start();
    while burst.is_empty() {
        assert!(watch.elapsed() < PATIENCE);
        port.receive(&mut burst, 1).expect("receives");
    }
    burst.remove(0)
}

/// A frame from memory of its own, one where it was received, one with a head of its own, and one
/// whose head is shorter than to the checksum.
fn ways(wire: &Wire, port: &mut dyn LivePort, bytes: &[u8], header_len: usize) -> [Frame; 4] {
    wire.send(&[bytes.to_vec()]);
    let mut in_place = received(port);
    in_place.descriptor_mut().partial_checksum = true;
    let mut split = |at: usize| {
        let head = Frame::copied(&bytes[..at], descriptor());
        head.with_rest(&mut in_place, at..bytes.len())
    };
    let (long, short) = (split(header_len), split(20));
    [Frame::copied(bytes, descriptor()), in_place, long, short]
}

#[test]
fn an_unfinished_checksum_is_finished_on_the_way() {
    for method in [Method::AfXdpNative, Method::AfXdpGeneric, Method::AfPacket] {
        let Some((wire, mut port)) = opened(method) else {
            return;
        };
        let arrives = |frame: Frame, port: &mut dyn LivePort| {
            let sent = port.transmit(&mut [frame].into()).expect("transmits");
            assert_eq!(sent, 1);
            let watch = Stopwatch::start();
            loop {
                if let Some(bytes) = wire.receive() {
                    port.reclaim();
                    return bytes;
                }
                assert!(watch.elapsed() < PATIENCE);
            }
        };
        for leaves in [false, true] {
            leave_checksums(leaves);
            for (left, whole, header_len) in frames() {
                let frames = ways(&wire, port.as_mut(), &left, header_len);
                for (way, frame) in frames.into_iter().enumerate() {
                    // Nobody sums it where the other end of the wire need not know; what is
                    // finished here is finished all the same.
                    let is_asked = method != Method::AfPacket && way < 3;
                    let expected = if leaves && is_asked { &left } else { &whole };
                    let arrived = arrives(frame, port.as_mut());
                    assert!(arrived == *expected, "{method} {leaves} {header_len} {way}");
                }
            }
        }
        // One that is finished stays as it is, and so does what is neither TCP nor UDP.
        leave_checksums(false);
        let (left, whole, _) = frames().swap_remove(0);
        let unmarked = Descriptor {
            partial_checksum: false,
            ..descriptor()
        };
        for bytes in [left, whole] {
            let frame = Frame::copied(&bytes, unmarked);
            assert!(arrives(frame, port.as_mut()) == bytes);
        }
        let other = [7; 60];
        assert!(arrives(Frame::copied(&other, descriptor()), port.as_mut()) == other);
    }
}
