//! Datagrams of UDP, and packets that come in fragments.

use std::net::{IpAddr, Ipv6Addr};

use lineside_tcp::Refused;
use lineside_wire::build::{FrameBuilder, TcpFields};
use lineside_wire::icmp::{self, Failure, PacketError};
use lineside_wire::{Dissected, TcpFlags, arp, dissect_outermost, udp};

use crate::chart::{Chart, OUR_LINK, OURS, THEIR_LINK, THEIRS, arp_frame};

const PORT: u16 = 7;
const PEERS_PORT: u16 = 2000;
const BROADCAST: [u8; 6] = [0xff; 6];

/// A stack that knows the peer's Ethernet address and keeps what leaves.
fn known() -> Chart {
    let mut chart = Chart::new();
    chart.give_frame(&arp_frame(arp::REQUEST, BROADCAST, THEIRS, OURS));
    chart.answers = false;
    chart.heard.frames.clear();
    chart
}

fn builder() -> FrameBuilder {
    FrameBuilder::new(THEIRS.into(), OURS.into()).with_link_addresses(THEIR_LINK, OUR_LINK)
}

fn ends() -> [(IpAddr, u16); 2] {
    [(OURS.into(), PORT), (THEIRS.into(), PEERS_PORT)]
}

#[test]
fn a_bound_port_hears_datagrams() {
    let mut chart = known();
    chart.stack.bind(None, PORT, 5).expect("it is free");
    let again = chart.stack.bind(None, PORT, 6);
    assert_eq!(again, Err(Refused::InUse(PORT)));
    for payload in [&b""[..], b"x", &[7; 1400]] {
        chart.give_frame(&builder().udp(PEERS_PORT, PORT, payload));
        let heard = chart.heard.datagrams.pop_front().expect("a datagram");
        assert_eq!(heard, (5, ends(), payload.to_vec()));
    }
    // Without a checksum, as RFC 768 allows over IPv4; with a wrong one.
    let mut frame = builder().udp(PEERS_PORT, PORT, b"data");
    frame[40..42].fill(0);
    chart.give_frame(&frame);
    assert_eq!(chart.heard.datagrams.len(), 1);
    frame[40] = 1;
    chart.give_frame(&frame);
    chart.run("count datagrams 4\ncount checksum_wrong 1");
    assert!(chart.stack.unbind(None, PORT));
    assert!(!chart.stack.unbind(None, PORT));
}

#[test]
fn a_datagram_over_ipv6_needs_a_checksum() {
    let [ours, theirs] = [1, 2].map(|last| IpAddr::from(Ipv6Addr::from_bits(0xfd << 120 | last)));
    let mut chart = Chart::between([ours, theirs], |_| {});
    chart.stack.bind(Some(ours), PORT, 0).expect("it is free");
    let builder = FrameBuilder::new(theirs, ours).with_link_addresses(THEIR_LINK, OUR_LINK);
    let mut frame = builder.udp(PEERS_PORT, PORT, b"data");
    chart.give_frame(&frame);
    frame[60..62].fill(0);
    chart.give_frame(&frame);
    chart.run("count datagrams 1\ncount checksum_wrong 1");
}

#[test]
fn a_datagram_leaves_as_it_was_written() {
    let mut chart = known();
    let (now, heard) = (chart.now, &mut chart.heard);
    let sent = chart
        .stack
        .datagram(now, ends(), (4, None), heard, |bytes| {
            bytes.copy_from_slice(b"data");
        });
    assert_eq!(sent, Ok(()));
    let frame = heard.frames.pop_front().expect("a frame");
    assert_eq!(frame[..12], [THEIR_LINK, OUR_LINK].concat());
    let datagram = udp::Datagram::new_checked(&frame[34..]).expect("a datagram");
    let ports = (datagram.source_port(), datagram.destination_port());
    assert_eq!(
        (ports, datagram.payload()),
        ((PORT, PEERS_PORT), &b"data"[..])
    );
    assert_ne!(datagram.checksum(), 0);
    assert!(datagram.verify_checksum(OURS.into(), THEIRS.into()));
    let sent = chart
        .stack
        .datagram(now, ends(), (1473, None), heard, |_| panic!("no room"));
    assert_eq!(sent, Err(Refused::TooLong(1473, 1472)));
    let nobody = [(IpAddr::from([10, 9, 9, 9]), PORT), ends()[1]];
    let sent = chart
        .stack
        .datagram(now, nobody, (1, None), heard, |_| panic!("not ours"));
    assert_eq!(sent, Err(Refused::NotOurs([10, 9, 9, 9].into())));
}

#[test]
fn a_datagram_for_nobody_is_refused_so_often_a_second() {
    let mut chart = known();
    let frame = builder().udp(PEERS_PORT, PORT, b"data");
    for _ in 0..1500 {
        chart.give_frame(&frame);
    }
    assert_eq!(chart.heard.frames.len(), 1000);
    let error = chart.heard.frames.pop_front().expect("an error");
    let message = &error[34..];
    assert_eq!(icmp::checksum_of(message, [OURS.into(), THEIRS.into()]), 0);
    let read = PacketError::read(message).expect("an error");
    assert_eq!(read.failure, Failure::Unreachable(3));
    assert_eq!(
        (read.source, read.destination),
        (THEIRS.into(), OURS.into())
    );
    assert_eq!(read.transport, &frame[34..]);
    chart.run("count datagrams_without_port 1500");
    // Another second, other errors.
    chart.pass(1_000_000_000);
    chart.heard.frames.clear();
    chart.give_frame(&frame);
    assert_eq!(chart.heard.frames.len(), 1);
}

#[test]
fn an_error_about_a_datagram_is_heard_by_its_port() {
    let mut chart = known();
    chart.stack.bind(None, PORT, 5).expect("it is free");
    let (now, heard) = (chart.now, &mut chart.heard);
    let sent = chart
        .stack
        .datagram(now, ends(), (4, None), heard, |bytes| bytes.fill(1));
    assert_eq!(sent, Ok(()));
    let frame = heard.frames.pop_front().expect("a frame");
    let mut message = vec![0; icmp::HEADER_LEN + 28];
    let between = [THEIRS.into(), OURS.into()];
    icmp::emit_error(
        Failure::Unreachable(3),
        &frame[14..42],
        between,
        &mut message,
    );
    chart.give_frame(&builder().packet(1, &message));
    let failed = chart.heard.failed.pop_front().expect("an error");
    assert_eq!(failed, (5, ends(), Failure::Unreachable(3)));
    chart.stack.unbind(None, PORT);
    chart.give_frame(&builder().packet(1, &message));
    assert!(chart.heard.failed.is_empty());
    chart.run("count errors_taken 1\ncount errors_ignored 1");
}

#[test]
fn fragments_make_a_datagram_in_any_order() {
    let mut chart = known();
    chart.stack.bind(None, PORT, 0).expect("it is free");
    let payload: Vec<u8> = (0..9000).map(|at: u32| (at / 3) as u8).collect();
    let datagram = builder().udp_datagram(PEERS_PORT, PORT, &payload);
    let numbered = builder().with_identification(77);
    let mut frames = numbered.fragments(17, &datagram, 1480);
    assert_eq!(frames.len(), 7);
    frames.reverse();
    for frame in &frames {
        assert!(chart.heard.datagrams.is_empty());
        chart.give_frame(frame);
    }
    let (_, from, heard) = chart.heard.datagrams.pop_front().expect("a datagram");
    assert_eq!((from, heard), (ends(), payload));
    // One that lacks a part is forgotten after a while.
    for frame in &frames[1..] {
        chart.give_frame(frame);
    }
    chart.pass(30_000_000_000);
    chart.give_frame(&frames[0]);
    assert!(chart.heard.datagrams.is_empty());
    chart.run(
        "count fragments 14
         count reassembled 1
         count reassembly_failed 1",
    );
}

#[test]
fn a_segment_may_come_in_fragments() {
    let mut chart = Chart::established(|_| {});
    let data: Vec<u8> = (1..=100).map(crate::chart::content).collect();
    let frame = {
        let fields = TcpFields {
            source_port: PEERS_PORT,
            destination_port: PORT,
            flags: TcpFlags::ACK | TcpFlags::PSH,
            ..chart.next_fields()
        };
        builder().tcp_segment(&fields, &data)
    };
    for fragment in builder().with_identification(3).fragments(6, &frame, 64) {
        let Dissected::Fragment(..) = dissect_outermost(1, &fragment, fragment.len()) else {
            panic!("a fragment")
        };
        chart.give_frame(&fragment);
    }
    chart.run("= data 100");
}
