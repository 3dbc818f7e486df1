//! What it answers as the owner of its addresses, and how it checks nodes.

use std::net::IpAddr;

use lineside_balancer::{Finding, Health, HttpCheck, NodeState, Outcome, Settings};
use lineside_wire::build::{FrameBuilder, TcpFields};
use lineside_wire::neighbour::{self, Neighbour, What};
use lineside_wire::{Dissected, PROTOCOL_ICMPV6, TcpFlags, arp, dissect, icmp, ipv4, ipv6};

use crate::bench::*;

fn arp_question(target: [u8; 4]) -> Vec<u8> {
    let mut bytes = vec![0; 42];
    bytes[..6].fill(0xff);
    bytes[6..12].copy_from_slice(&CLIENT);
    bytes[12..14].copy_from_slice(&[8, 6]);
    let from = (CLIENT, [10, 9, 1, 7].into());
    arp::Packet::emit(
        &mut bytes[14..],
        arp::REQUEST,
        from,
        ([0; 6], target.into()),
    );
    bytes
}

#[test]
fn questions_for_its_addresses_are_answered() {
    let mut bench = Bench::new(settings());
    for ours in [[10, 9, 1, 100], [10, 9, 2, 100]] {
        let (port, reply) = bench.send_one(CLIENTS, &arp_question(ours));
        let packet = arp::Packet::new_checked(&reply[14..]).expect("an ARP packet");
        assert_eq!((port, packet.operation()), (CLIENTS, arp::REPLY));
        assert_eq!(
            (packet.sender(), packet.sender_address()),
            (OURS[CLIENTS], ours.into())
        );
        assert_eq!(reply[..6], CLIENT);
    }
    assert_eq!(bench.send(CLIENTS, &arp_question([10, 9, 1, 99])), []);
    // RFC 4861: to the address's group.
    let target = std::net::Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, 0x100);
    let source = std::net::Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, 7);
    let group = neighbour::solicited_node(target);
    let mut message = [0; neighbour::MESSAGE_LEN];
    let what = What::Solicitation;
    Neighbour::emit(what, target, CLIENT, [source, group], &mut message);
    for (hops, answers) in [(255, 1), (254, 0)] {
        let link = neighbour::multicast_link_address(group);
        let frame = FrameBuilder::new(source.into(), group.into())
            .with_link_addresses(CLIENT, link)
            .with_ttl(hops)
            .packet(58, &message);
        let left = bench.send(CLIENTS, &frame);
        assert_eq!(left.len(), answers, "hop limit {hops}");
        for (_, advertisement) in left {
            assert!(is_right(&advertisement));
            assert_eq!(advertisement[..6], CLIENT);
        }
    }
}

/// Somebody at the nodes' link says that an address is its own, which nobody asked.
fn claim(target: &str, ethernet: [u8; 6]) -> Vec<u8> {
    match address(target) {
        IpAddr::V4(target) => {
            let mut bytes = vec![0; 42];
            emit_link([0xff; 6], ethernet, 0x0806, &mut bytes);
            let own = (ethernet, target);
            arp::Packet::emit(&mut bytes[14..], arp::REPLY, own, ([0; 6], target));
            bytes
        }
        IpAddr::V6(target) => {
            let what = What::Advertisement {
                is_solicited: false,
                overrides: true,
            };
            let ends = [target, "ff02::1".parse().expect("an address")];
            let mut message = [0; neighbour::MESSAGE_LEN];
            Neighbour::emit(what, target, ethernet, ends, &mut message);
            FrameBuilder::new(ends[0].into(), ends[1].into())
                .with_ttl(255)
                .with_link_addresses(ethernet, OURS[NODES])
                .packet(PROTOCOL_ICMPV6, &message)
        }
    }
}

/// Forged answers take nothing from a node that is there; one that moved is found.
#[test]
fn a_node_moves_only_when_it_is_silent_where_it_was() {
    const OTHER: [u8; 6] = [2, 0, 0, 0, 9, 9];
    for [source, ours] in [["10.9.1.7", "10.9.1.100"], ["fd00:1::7", "fd00:1::100"]] {
        let mut bench = Bench::new(settings());
        let ask = |bench: &mut Bench| {
            let frame = from_client(source, ours).udp(4000, 53, b"question");
            let (port, left) = bench.send_one(CLIENTS, &frame);
            assert_eq!(port, NODES);
            (ends(&left)[1].ip(), left[..6].to_vec())
        };
        let (node, first) = ask(&mut bench);
        assert_eq!(first, node_ethernet(node));
        for _ in 0..3 {
            bench.send(NODES, &claim(&node.to_string(), OTHER));
            assert_eq!(ask(&mut bench).1, first, "it answers where it was");
            bench.pass(5 * SECOND);
            assert_eq!(ask(&mut bench).1, first);
        }
        // Our own addresses are nobody else's.
        for own in [
            ours,
            if node.is_ipv4() {
                "10.9.2.100"
            } else {
                "fd00:2::100"
            },
        ] {
            bench.send(NODES, &claim(own, OTHER));
        }
        bench.silent = vec![node];
        bench.send(NODES, &claim(&node.to_string(), OTHER));
        assert_eq!(ask(&mut bench).1, first, "it is asked first");
        bench.pass(SECOND);
        assert_eq!(ask(&mut bench).1, OTHER, "it is silent there");
        bench.check_identity();
    }
}

#[test]
fn echoes_are_answered_for_its_addresses_only() {
    let mut bench = Bench::new(settings());
    let pairs = [
        ("10.9.1.7", "10.9.1.100", 1),
        ("10.9.1.7", "10.9.2.100", 1),
        ("fd00:1::7", "fd00:1::100", 58),
        ("10.9.1.7", "10.9.1.99", 1),
    ];
    for (source, destination, protocol) in pairs {
        let mut message = [7; 64];
        let kind = if protocol == 1 { 8 } else { 128 };
        icmp::Echo::emit(&mut message[..], kind, 1, 2);
        if protocol == 58 {
            message[2..4].fill(0);
            let ends = [address(source), address(destination)];
            let sum = icmp::checksum_of(&message, ends);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        let frame = from_client(source, destination).packet(protocol, &message);
        let left = bench.send(CLIENTS, &frame);
        assert_eq!(
            left.len(),
            usize::from(!destination.ends_with("99")),
            "{destination}"
        );
        for (_, reply) in left {
            assert!(is_right(&reply));
            let at = transport_at(&reply);
            assert_eq!(reply[at], if protocol == 1 { 0 } else { 129 });
            assert_eq!(reply[at + 8..], message[8..]);
        }
    }
    bench.check_identity();
}

fn checked(http: Option<HttpCheck>, is_udp: bool) -> Settings {
    let mut settings = settings();
    settings.services.truncate(2);
    settings.services.swap(0, usize::from(is_udp));
    settings.services.truncate(1);
    settings.services[0].nodes.truncate(1);
    settings.services[0].health = Some(Health {
        http,
        ..Health::default()
    });
    settings
}

/// The segments of a check that leave; each is answered by what `answer` makes of it.
fn check(
    bench: &mut Bench,
    seconds: i64,
    answer: impl Fn(&TcpFields<'_>, &[u8]) -> Option<(TcpFlags, Vec<u8>)>,
) -> Vec<TcpFlags> {
    let mut seen = Vec::new();
    let end = bench.now + seconds * SECOND;
    let mut waiting = Vec::new();
    while bench.now < end || !waiting.is_empty() {
        if waiting.is_empty() {
            waiting = bench.pass(SECOND / 10);
        }
        for (_, bytes) in std::mem::take(&mut waiting) {
            let Dissected::Tcp(ip, tcp) = dissect(1, &bytes, bytes.len()) else {
                continue;
            };
            assert!(is_right(&bytes));
            seen.push(tcp.flags);
            let fields = segment(
                [tcp.source_port, tcp.destination_port],
                tcp.sequence.0,
                tcp.flags,
            );
            let payload = &bytes[tcp.payload..][..tcp.captured_len];
            if let Some((flags, payload)) = answer(&fields, payload) {
                let back = TcpFields {
                    acknowledgement: tcp.sequence.0
                        + u32::from(tcp.flags.opens())
                        + tcp.payload_len as u32,
                    ..segment([tcp.destination_port, tcp.source_port], 5000, flags)
                };
                let frame = FrameBuilder::new(ip.destination, ip.source)
                    .with_link_addresses(node_ethernet(ip.destination), OURS[NODES])
                    .tcp(&back, &payload);
                waiting.extend(bench.send(NODES, &frame));
            }
        }
    }
    seen
}

fn state(bench: &Bench) -> NodeState {
    bench.nat.report(bench.now).services[0].nodes[0].state
}

#[test]
fn a_check_is_a_handshake_that_is_reset() {
    let mut bench = Bench::new(checked(None, false));
    let good = |fields: &TcpFields<'_>, _: &[u8]| {
        fields
            .flags
            .opens()
            .then(|| (TcpFlags::SYN | TcpFlags::ACK, Vec::new()))
    };
    let seen = check(&mut bench, 6, good);
    assert_eq!(seen, [TcpFlags::SYN, TcpFlags::RST].repeat(3));
    let node = bench.nat.report(bench.now).services[0].nodes[0].clone();
    assert_eq!(
        (node.state, node.checks_good, node.checks_bad),
        (NodeState::Up, 3, 0)
    );
    // Three failures in a row take it down, two successes bring it up.
    let refuses = |_: &TcpFields<'_>, _: &[u8]| Some((TcpFlags::RST | TcpFlags::ACK, Vec::new()));
    check(&mut bench, 4, refuses);
    assert_eq!(state(&bench), NodeState::Up, "two are not enough");
    check(&mut bench, 2, refuses);
    assert_eq!(state(&bench), NodeState::Down);
    let syn =
        from_client("10.9.1.7", "10.9.1.100").tcp(&segment([4000, 80], 1, TcpFlags::SYN), &[]);
    let (port, reset) = bench.send_one(CLIENTS, &syn);
    assert_eq!(port, CLIENTS, "no node: the client gets a reset");
    let Dissected::Tcp(_, tcp) = dissect(1, &reset, reset.len()) else {
        panic!("a segment")
    };
    assert_eq!(
        (tcp.flags, tcp.acknowledgement.0),
        (TcpFlags::RST | TcpFlags::ACK, 2)
    );
    check(&mut bench, 4, good);
    assert_eq!(state(&bench), NodeState::Up);
    let node = bench.nat.report(bench.now).services[0].nodes[0].clone();
    let findings: Vec<_> = node
        .history
        .iter()
        .map(|change| (change.is_up, change.finding))
        .collect();
    assert_eq!(findings, [(false, Finding::Refused), (true, Finding::Good)]);
    assert_eq!(bench.outcome(Outcome::NoNode), 1);
    bench.check_identity();
}

#[test]
fn a_check_by_http_wants_its_status() {
    let http = HttpCheck {
        path: "/health".into(),
        host: "a.example".into(),
        status: 200..=299,
    };
    let mut bench = Bench::new(checked(Some(http), false));
    let answers = |status: &'static str| {
        move |fields: &TcpFields<'_>, payload: &[u8]| {
            if fields.flags.opens() {
                return Some((TcpFlags::SYN | TcpFlags::ACK, Vec::new()));
            }
            (!payload.is_empty()).then(|| {
                let request = String::from_utf8_lossy(payload);
                assert!(request.starts_with("GET /health HTTP/1.1\r\nHost: a.example\r\n"));
                (
                    TcpFlags::ACK,
                    format!("HTTP/1.1 {status}\r\n\r\n").into_bytes(),
                )
            })
        }
    };
    let seen = check(&mut bench, 2, answers("204 No Content"));
    assert_eq!(
        seen,
        [TcpFlags::SYN, TcpFlags::ACK | TcpFlags::PSH, TcpFlags::RST]
    );
    assert_eq!(state(&bench), NodeState::Up);
    check(&mut bench, 6, answers("503 Service Unavailable"));
    assert_eq!(state(&bench), NodeState::Down);
    let node = bench.nat.report(bench.now).services[0].nodes[0].clone();
    assert_eq!(node.last_check, Some(Finding::WrongStatus(503)));
}

#[test]
fn a_silent_node_is_down_after_its_first_check() {
    let mut bench = Bench::new(checked(None, false));
    check(&mut bench, 3, |_, _| None);
    assert_eq!(state(&bench), NodeState::Down);
    let node = bench.nat.report(bench.now).services[0].nodes[0].clone();
    assert_eq!(node.last_check, Some(Finding::Silent));
}

#[test]
fn an_unreachable_port_fails_a_udp_check() {
    let mut bench = Bench::new(checked(None, true));
    for _ in 0..40 {
        for (_, bytes) in bench.pass(SECOND / 5) {
            let Dissected::Udp(ip, _) = dissect(1, &bytes, bytes.len()) else {
                continue;
            };
            let mut message = [0; 8 + 28];
            let ends = [ip.destination, ip.source];
            icmp::emit_error(
                icmp::Failure::Unreachable(3),
                &bytes[14..42],
                ends,
                &mut message,
            );
            let error = FrameBuilder::new(ip.destination, ip.source)
                .with_link_addresses(node_ethernet(ip.destination), OURS[NODES])
                .packet(1, &message);
            bench.send(NODES, &error);
        }
    }
    assert_eq!(state(&bench), NodeState::Down);
    let node = bench.nat.report(bench.now).services[0].nodes[0].clone();
    assert_eq!(node.last_check, Some(Finding::Unreachable));
    // Silence is no failure: a service may have nothing to say to an empty datagram.
    bench.pass(10 * SECOND);
    assert_eq!(state(&bench), NodeState::Up);
}

#[test]
fn addresses_are_announced_at_all_ports() {
    let budget = lineside_account::Budget::new(1 << 30);
    let mut nat = lineside_balancer::Nat::new(settings(), &budget).expect("right");
    let mut out = lineside_balancer::Effects::default();
    nat.begin(0, &mut out);
    let mut announced = Vec::new();
    for outgoing in &out.frames {
        let bytes = outgoing.frame.bytes();
        let what = match arp::Packet::new_checked(&bytes[14..]) {
            Some(arp) => {
                assert_eq!(arp.sender_address(), arp.target_address());
                arp.sender_address().to_string()
            }
            None => {
                assert!(is_right(bytes));
                let packet = ipv6::Packet::new_checked(&bytes[14..]).expect("IPv6");
                packet.source().to_string()
            }
        };
        announced.push((outgoing.port, what));
    }
    announced.sort();
    let all = ["10.9.1.100", "10.9.2.100", "fd00:1::100", "fd00:2::100"];
    let expected: Vec<_> = (0..2)
        .flat_map(|port| all.map(|each| (port, each.to_string())))
        .collect();
    assert_eq!(announced, expected);
    let _ = ipv4::HEADER_LEN;
}
