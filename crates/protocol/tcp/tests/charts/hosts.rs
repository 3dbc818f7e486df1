//! What a host does beside TCP: ARP, neighbour discovery, echoes, ICMP errors.

use std::net::{IpAddr, Ipv6Addr};

use lineside_tcp::Config;
use lineside_wire::build::FrameBuilder;
use lineside_wire::icmp::{self, Failure};
use lineside_wire::neighbour::{self, Neighbour, What};
use lineside_wire::{Dissected, arp, dissect_outermost};

use crate::chart::{Chart, OUR_LINK, OURS, THEIR_LINK, THEIRS, arp_frame};

const BROADCAST: [u8; 6] = [0xff; 6];

/// The ARP packets among what left: operation, Ethernet receiver, target.
fn questions(chart: &mut Chart) -> Vec<(u16, [u8; 6], [u8; 4])> {
    let frames = chart.heard.frames.drain(..);
    let read = frames.filter_map(|frame| {
        let packet = arp::Packet::new_checked(&frame[14..])?;
        let receiver = frame[..6].try_into().expect("an address");
        Some((
            packet.operation(),
            receiver,
            packet.target_address().octets(),
        ))
    });
    read.collect()
}

fn silent() -> Chart {
    let mut chart = Chart::new();
    chart.answers = false;
    chart
}

#[test]
fn who_asks_for_our_address_is_answered_and_learned() {
    let mut chart = silent();
    chart.give_frame(&arp_frame(arp::REQUEST, BROADCAST, THEIRS, OURS));
    assert_eq!(questions(&mut chart), [(arp::REPLY, THEIR_LINK, THEIRS)]);
    chart.give_frame(&arp_frame(arp::REQUEST, BROADCAST, THEIRS, [10, 0, 0, 9]));
    assert_eq!(questions(&mut chart), []);
    // A segment to it leaves at once.
    chart.call("connect").expect("there is room");
    assert_eq!(questions(&mut chart), []);
}

#[test]
fn a_neighbour_is_asked_for_three_times() {
    let mut chart = silent();
    chart.call("connect").expect("there is room");
    let asked = [(arp::REQUEST, BROADCAST, THEIRS)];
    assert_eq!(questions(&mut chart), asked);
    for _ in 0..2 {
        chart.pass(999_000_000);
        assert_eq!(questions(&mut chart), []);
        chart.pass(1_000_000);
        assert_eq!(questions(&mut chart), asked);
    }
    chart.pass(1_000_000_000);
    assert_eq!(chart.heard.silent, [IpAddr::from(THEIRS)]);
    // The SYN was sent again after 1 s and 3 s.
    assert_eq!(chart.stack.counters().frames_unresolved, 3);
}

#[test]
fn what_waited_for_a_neighbour_leaves_when_it_answers() {
    let mut chart = silent();
    chart.call("connect").expect("there is room");
    assert_eq!(questions(&mut chart).len(), 1);
    chart.give_frame(&arp_frame(arp::REPLY, OUR_LINK, THEIRS, OURS));
    let frames: Vec<_> = chart.heard.frames.drain(..).collect();
    assert_eq!(frames.len(), 1, "the SYN");
    assert_eq!(frames[0][..6], THEIR_LINK);
    // An answer from a group would make us send to all of it.
    let mut spoofed = arp_frame(arp::REPLY, OUR_LINK, THEIRS, OURS);
    spoofed[22] |= 1;
    chart.give_frame(&spoofed);
    chart.pass(1_000_000_000);
    let frames: Vec<_> = chart.heard.frames.drain(..).collect();
    assert_eq!(frames[0][..6], THEIR_LINK);
}

#[test]
fn frames_wait_for_a_neighbour_in_their_order() {
    let mut chart = silent();
    for port in 2000..2006 {
        chart.run(&format!("peer {port}"));
        chart.call("connect").expect("there is room");
    }
    chart.give_frame(&arp_frame(arp::REPLY, OUR_LINK, THEIRS, OURS));
    let segments = chart
        .heard
        .frames
        .iter()
        .filter(|frame| frame[12] == 8 && frame[13] == 0);
    let ports = segments.map(|frame| u16::from_be_bytes([frame[36], frame[37]]));
    assert_eq!(ports.collect::<Vec<_>>(), (2000..2006).collect::<Vec<_>>());
    assert_eq!(chart.stack.counters().frames_unresolved, 0);
}

#[test]
fn an_answer_ages_and_is_used_until_the_next() {
    let mut chart = Chart::established(|_| {});
    chart.answers = false;
    chart.pass(31_000_000_000);
    chart.call("send 10").expect("it is open");
    let frames = chart.heard.frames.len();
    assert_eq!(frames, 2, "a question and the segment");
    assert_eq!(questions(&mut chart).len(), 1);
    chart.give_frame(&arp_frame(arp::REPLY, OUR_LINK, THEIRS, OURS));
    chart.pass(200_000_000);
    assert_eq!(questions(&mut chart), [], "it is fresh");
}

fn ends_v6() -> [IpAddr; 2] {
    [1, 2].map(|last| Ipv6Addr::from_bits(0xfd << 120 | last).into())
}

/// The peer's message about neighbours.
fn solicitation(what: What, target: IpAddr, destination: IpAddr) -> Vec<u8> {
    let (IpAddr::V6(target), IpAddr::V6(destination)) = (target, destination) else {
        panic!("both of IPv6")
    };
    let IpAddr::V6(source) = ends_v6()[1] else {
        panic!("of IPv6")
    };
    let mut message = [0; neighbour::MESSAGE_LEN];
    let ends = [source, destination];
    Neighbour::emit(what, target, THEIR_LINK, ends, &mut message);
    FrameBuilder::new(source.into(), destination.into())
        .with_link_addresses(THEIR_LINK, OUR_LINK)
        .with_ttl(neighbour::HOP_LIMIT)
        .packet(58, &message)
}

#[test]
fn a_neighbour_is_asked_for_again_when_nothing_arrives() {
    // RFC 9293, 3.8.3: after three timeouts the way is doubted.
    let mut chart = Chart::established(|_| {});
    chart.answers = false;
    chart.call("send 10").expect("it is open");
    let mut asked = Vec::new();
    for _ in 0..4 {
        let at = chart.stack.next_deadline().expect("a timer is pending");
        chart.pass(at - chart.now);
        asked.push(questions(&mut chart).len());
    }
    assert_eq!(asked, [0, 0, 1, 1], "and a second later once more");
}

#[test]
fn packets_live_as_long_and_are_marked_as_configured() {
    let mut chart = Chart::established(|config| (config.hop_limit, config.dscp) = (9, 46));
    let segment = first_frame(&mut chart, "send 10");
    assert_eq!((segment[15], segment[22]), (46 << 2, 9));
}

#[test]
fn neighbour_discovery_asks_and_answers() {
    let [ours, theirs] = ends_v6();
    let mut chart = Chart::between(ends_v6(), |_| {});
    chart.answers = false;
    chart.call("connect").expect("there is room");
    let asked = chart.heard.frames.pop_front().expect("a question");
    assert_eq!(asked[..6], [0x33, 0x33, 0xff, 0, 0, 2], "RFC 4291, 2.7.1");
    let read = Neighbour::read(&asked[54..]).expect("a message");
    assert_eq!(
        (IpAddr::from(read.target), read.what),
        (theirs, What::Solicitation)
    );
    let advertised = What::Advertisement {
        is_solicited: true,
        overrides: true,
    };
    chart.give_frame(&solicitation(advertised, theirs, ours));
    let syn = chart.heard.frames.pop_front().expect("the SYN");
    assert_eq!(syn[..6], THEIR_LINK);
    chart.give_frame(&solicitation(What::Solicitation, ours, ours));
    let answer = chart.heard.frames.pop_front().expect("an answer");
    let read = Neighbour::read(&answer[54..]).expect("a message");
    assert_eq!(
        (IpAddr::from(read.target), read.link_address),
        (ours, Some(OUR_LINK))
    );
    // One that a router forwarded is not believed: RFC 4861, 7.1.
    let mut far = solicitation(What::Solicitation, ours, ours);
    far[21] = 254;
    chart.give_frame(&far);
    assert!(chart.heard.frames.is_empty());
}

/// A message of ICMP between the peer, or a router, and us.
fn icmp_frame(source: IpAddr, message: &[u8]) -> Vec<u8> {
    let (destination, protocol) = match source.is_ipv4() {
        true => (IpAddr::from(OURS), 1),
        false => (ends_v6()[0], 58),
    };
    FrameBuilder::new(source, destination)
        .with_link_addresses(THEIR_LINK, OUR_LINK)
        .packet(protocol, message)
}

#[test]
fn an_echo_is_answered_with_its_data() {
    let mut chart = silent();
    let mut message = *b"........ping and data";
    icmp::Echo::emit(&mut message[..], icmp::kind::ECHO_REQUEST, 5, 6);
    chart.give_frame(&icmp_frame(THEIRS.into(), &message));
    let reply = chart.heard.frames.pop_front().expect("an answer");
    let echo = icmp::Echo::new_checked(&reply[34..]).expect("a header");
    let fields = (echo.kind(), echo.identifier(), echo.sequence());
    assert_eq!(fields, (icmp::kind::ECHO_REPLY, 5, 6));
    assert_eq!(reply[42..], message[8..]);
    assert_eq!(
        icmp::checksum_of(&reply[34..], [OURS.into(), THEIRS.into()]),
        0
    );
    // A wrong checksum, and an answer to nobody.
    let mut wrong = message;
    wrong[20] ^= 1;
    chart.give_frame(&icmp_frame(THEIRS.into(), &wrong));
    icmp::Echo::emit(&mut message[..], icmp::kind::ECHO_REPLY, 5, 6);
    chart.give_frame(&icmp_frame(THEIRS.into(), &message));
    assert!(chart.heard.frames.is_empty());
}

/// A router's error about the segment that the stack sent last.
fn error(frame: &[u8], failure: Failure) -> Vec<u8> {
    let packet = &frame[14..];
    let kept = packet.len().min(48);
    let Dissected::Tcp(ip, _) = dissect_outermost(1, frame, frame.len()) else {
        panic!("a segment")
    };
    let router: IpAddr = match ip.source {
        IpAddr::V4(_) => [10, 0, 0, 254].into(),
        IpAddr::V6(_) => Ipv6Addr::from_bits(0xfd << 120 | 254).into(),
    };
    let mut message = vec![0; icmp::HEADER_LEN + kept];
    icmp::emit_error(failure, &packet[..kept], [router, ip.source], &mut message);
    icmp_frame(router, &message)
}

fn first_frame(chart: &mut Chart, call: &str) -> Vec<u8> {
    chart.answers = false;
    chart.call(call).expect("it is open");
    let frames: Vec<_> = chart.heard.frames.drain(..).collect();
    frames.into_iter().next().expect("a segment")
}

#[test]
fn a_port_that_nobody_has_refuses_a_connection() {
    for (code, is_over) in [(0, false), (1, false), (2, true), (3, true), (13, false)] {
        let mut chart = Chart::new();
        chart.give_frame(&arp_frame(arp::REQUEST, BROADCAST, THEIRS, OURS));
        let syn = first_frame(&mut chart, "connect");
        chart.give_frame(&error(&syn, Failure::Unreachable(code)));
        if is_over {
            chart.run("= closed unreachable");
        }
        assert_eq!(chart.stack.connections() == 0, is_over, "code {code}");
        chart.run("count errors_taken 1");
    }
}

#[test]
fn an_error_does_not_end_what_is_open() {
    // RFC 5461, 2.1; RFC 5927, 5.2.
    let mut chart = Chart::established(|_| {});
    let segment = first_frame(&mut chart, "send 10");
    for failure in [
        Failure::Unreachable(3),
        Failure::Unreachable(2),
        Failure::TimeExceeded(0),
    ] {
        chart.give_frame(&error(&segment, failure));
    }
    chart.run("count errors_taken 3");
    assert_eq!(chart.heard.errors.len(), 3, "the owner hears of each");
    assert_eq!(chart.stack.connections(), 1);
    // What is not in flight met nothing.
    chart.give_line("A 1:1 ack 11");
    chart.run(
        "= acked 10
         count errors_ignored 0",
    );
    chart.give_frame(&error(&segment, Failure::Unreachable(3)));
    chart.run("count errors_ignored 1");
}

#[test]
fn a_packet_that_is_too_big_is_sent_again_in_parts() {
    let mut chart = Chart::established(|_| {});
    let segment = first_frame(&mut chart, "send 2000");
    chart.answers = true;
    chart.give_frame(&error(&segment, Failure::TooBig(600)));
    chart.run(
        "> A 1:561 ack 1
         > A 561:1121 ack 1
         > A 1121:1681 ack 1
         > A 1681:2001 ack 1
         < A 1:1 ack 2001
         = acked 2000
         * send 1000
         > A 2001:2561 ack 1
         < A 1:1 ack 2561
         = acked 560
         > A 2561:3001 ack 1
         count path_mtu_reduced 1
         count timeouts 0",
    );
    // Not below what is sensible, nor up again.
    let mut chart = Chart::established(|_| {});
    let segment = first_frame(&mut chart, "send 1000");
    chart.answers = true;
    chart.give_frame(&error(&segment, Failure::TooBig(68)));
    chart.run(
        "> A 1:513 ack 1
         > A 513:1001 ack 1",
    );
    chart.give_frame(&error(&segment, Failure::TooBig(1500)));
    chart.run("count path_mtu_reduced 1");
}

#[test]
fn connections_of_a_path_share_what_it_bears_for_ten_minutes() {
    let mut chart = Chart::established(|_| {});
    let segment = first_frame(&mut chart, "send 1000");
    chart.answers = true;
    chart.give_frame(&error(&segment, Failure::TooBig(600)));
    chart.run(
        "> A 1:561 ack 1
         > A 561:1001 ack 1
         < A 1:1 ack 1001
         = acked 1000
         peer 2001
         < S 0:1 mss 1000
         > SA 0:1 ack 1
         < A 1:1 ack 1
         = opened
         * send 1000
         > A 1:561 ack 1
         < A 1:1 ack 561
         = acked 560
         > A 561:1001 ack 1
         < A 1:1 ack 1001
         = acked 440
         +601
         peer 2000
         * send 1000
         > A 1001:2001 ack 1
         < A 1:1 ack 2001
         = acked 1000
         count path_mtu_reduced 1",
    );
}

#[test]
fn a_frame_for_another_host_is_not_ours() {
    let mut chart = silent();
    chart.call("listen").expect("it is free");
    for (address, counted) in [(OURS, "segments"), ([10, 0, 0, 9], "not_ours")] {
        let builder = FrameBuilder::new(THEIRS.into(), address.into());
        let fields = lineside_wire::build::TcpFields {
            destination_port: 7,
            flags: lineside_wire::TcpFlags::SYN,
            ..Default::default()
        };
        chart.give_frame(&builder.tcp(&fields, &[]));
        chart.run(&format!("count {counted} 1"));
        let mut damaged = builder.tcp(&fields, &[]);
        damaged[40] ^= 4;
        chart.give_frame(&damaged);
    }
    chart.run("count checksum_wrong 1");
}

#[test]
fn a_tagged_host_answers_in_its_network_only() {
    let tagged = |config: &mut Config| config.tags = [Some((0x8100, 5)), None];
    let mut chart = Chart::with(tagged);
    chart.answers = false;
    chart.give_frame(&arp_frame(arp::REQUEST, BROADCAST, THEIRS, OURS));
    assert!(chart.heard.frames.is_empty());
    let mut frame = arp_frame(arp::REQUEST, BROADCAST, THEIRS, OURS);
    frame.splice(12..12, [0x81, 0, 0xe0, 5]);
    chart.give_frame(&frame);
    let answer = chart.heard.frames.pop_front().expect("an answer");
    assert_eq!(answer[12..18], [0x81, 0, 0, 5, 8, 6]);
}
