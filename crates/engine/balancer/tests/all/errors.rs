//! ICMP errors, translated and made; packets that are too long.

use lineside_balancer::Outcome;
use lineside_wire::build::FrameBuilder;
use lineside_wire::icmp::{self, Failure, PacketError};
use lineside_wire::{PROTOCOL_UDP, TcpFlags, ipv4};

use crate::bench::*;

const PAIRS: [[&str; 2]; 2] = [["10.9.1.7", "10.9.1.100"], ["fd00:1::7", "fd00:1::100"]];

/// An error about a packet in a frame, by a router or by its receiver.
fn error_about(
    bytes: &[u8],
    sender: &str,
    failure: Failure,
    ethernet: [u8; 6],
    ours: [u8; 6],
) -> Vec<u8> {
    let source = ends(bytes)[0].ip();
    let ends = [address(sender), source];
    let protocol = if source.is_ipv4() { 1 } else { 58 };
    let packet = &bytes[14..];
    let mut message = vec![0; 8 + packet.len().min(200)];
    icmp::emit_error(failure, packet, ends, &mut message);
    FrameBuilder::new(ends[0], ends[1])
        .with_link_addresses(ethernet, ours)
        .packet(protocol, &message)
}

fn read(bytes: &[u8]) -> PacketError<'_> {
    let message = &bytes[transport_at(bytes)..];
    let error = match bytes[14] >> 4 {
        4 => PacketError::read(message),
        _ => PacketError::read_v6(message),
    };
    error.expect("an error")
}

/// The packet inside is the one that its sender sent: also its checksums fit.
fn has_inside(error: &[u8], sent: &[u8]) {
    let inside = &error[transport_at(error) + 8..];
    // The hop count has fallen, and IPv4's checksum with it.
    let mut expected = sent[14..].to_vec();
    if sent[14] >> 4 == 4 {
        let mut packet = ipv4::Packet::new_unchecked(&mut expected[..]);
        packet.set_ttl(63);
        let header_len = packet.header_len();
        ipv4::Packet::new_unchecked(&mut expected[..header_len]).fill_checksum();
    } else {
        expected[7] = 63;
    }
    assert_eq!(inside, &expected[..inside.len()]);
}

#[test]
fn errors_about_frames_to_nodes_reach_the_client() {
    for [source, ours] in PAIRS {
        let mut bench = Bench::new(settings());
        let router = if source.contains(':') {
            "fd00:2::1"
        } else {
            "10.9.2.1"
        };
        for is_udp in [false, true] {
            let client = from_client(source, ours);
            let sent = match is_udp {
                true => client.udp(4000, 53, &[9; 64]),
                false => client.tcp(&segment([4000, 80], 5, TcpFlags::SYN), &[7; 20]),
            };
            let (_, at_node) = bench.send_one(CLIENTS, &sent);
            for failure in [
                Failure::Unreachable(1),
                Failure::TooBig(1280),
                Failure::TimeExceeded(0),
            ] {
                let error = error_about(&at_node, router, failure, [2; 6], OURS[NODES]);
                let (port, left) = bench.send_one(NODES, &error);
                assert_eq!(port, CLIENTS);
                assert!(is_right(&left), "{failure:?}");
                assert_eq!(read(&left).failure, failure);
                has_inside(&left, &sent);
                // Nothing of the other side is in it.
                let shown = if source.contains(':') {
                    &left[22..54]
                } else {
                    &left[26..34]
                };
                let expected = [address(ours), address(source)].map(|address| match address {
                    std::net::IpAddr::V4(address) => address.octets().to_vec(),
                    std::net::IpAddr::V6(address) => address.octets().to_vec(),
                });
                assert_eq!(shown, expected.concat());
            }
        }
        bench.check_identity();
    }
}

#[test]
fn errors_about_frames_to_clients_reach_the_node() {
    for [source, ours] in PAIRS {
        let mut bench = Bench::new(settings());
        let talk = Talk::open(&mut bench, source, ours, 4000);
        let fields = talk.of_node(TcpFlags::ACK);
        let left = talk.send_node(&mut bench, &fields, &[1; 100]);
        let sent = FrameBuilder::new(talk.node.ip(), talk.seen_as.ip())
            .with_link_addresses(node_ethernet(talk.node.ip()), OURS[NODES])
            .tcp(&fields, &[1; 100]);
        let router = if source.contains(':') {
            "fd00:1::1"
        } else {
            "10.9.1.1"
        };
        let error = error_about(
            &left[0].1,
            router,
            Failure::TooBig(1300),
            CLIENT,
            OURS[CLIENTS],
        );
        let (port, left) = bench.send_one(CLIENTS, &error);
        assert_eq!(port, NODES);
        assert!(is_right(&left));
        assert_eq!(read(&left).failure, Failure::TooBig(1300));
        has_inside(&left, &sent);
        assert_eq!(left[..6], node_ethernet(talk.node.ip()));
    }
}

#[test]
fn errors_about_unknown_or_damaged_packets_are_dropped() {
    let mut bench = Bench::new(settings());
    let sent = from_client("10.9.1.7", "10.9.1.100").udp(4000, 53, &[9; 64]);
    let (_, at_node) = bench.send_one(CLIENTS, &sent);
    let mut other = at_node.clone();
    other[34] ^= 1;
    let error = error_about(
        &other,
        "10.9.2.1",
        Failure::Unreachable(1),
        [2; 6],
        OURS[NODES],
    );
    assert_eq!(bench.send(NODES, &error), []);
    assert_eq!(bench.outcome(Outcome::NoSuchPacket), 1);
    let mut damaged = error_about(
        &at_node,
        "10.9.2.1",
        Failure::Unreachable(1),
        [2; 6],
        OURS[NODES],
    );
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    assert_eq!(bench.send(NODES, &damaged), []);
    assert_eq!(bench.outcome(Outcome::WrongChecksum), 1);
    bench.check_identity();
}

#[test]
fn a_packet_without_hops_left_is_reported() {
    for [source, ours] in PAIRS {
        let mut bench = Bench::new(settings());
        let sent = from_client(source, ours)
            .with_ttl(1)
            .udp(4000, 53, &[9; 64]);
        let (port, left) = bench.send_one(CLIENTS, &sent);
        assert_eq!(port, CLIENTS);
        assert!(is_right(&left));
        assert_eq!(read(&left).failure, Failure::TimeExceeded(0));
        assert_eq!(read(&left).source, address(source));
        assert_eq!(bench.nat.report(bench.now).table.connections, 0);
        bench.check_identity();
    }
}

/// RFC 1812, 4.3.2.8; RFC 4443, 2.4 (f).
#[test]
fn errors_beyond_a_rate_are_not_made() {
    let mut bench = Bench::new(settings());
    let reported = |bench: &mut Bench, frames: u32| -> usize {
        let each = |number| {
            let [source, ours] = PAIRS[number as usize % 2];
            let frame = match number % 3 {
                0 => from_client(source, ours)
                    .with_ttl(1)
                    .udp(4000, 53, &[9; 64]),
                _ => from_client(source, ours).udp(4000, 54, b"nobody"),
            };
            bench.send(CLIENTS, &frame).len()
        };
        (0..frames).map(each).sum()
    };
    assert_eq!(reported(&mut bench, 200), 50, "a burst");
    for _ in 0..10 {
        bench.pass(SECOND / 100);
        assert_eq!(reported(&mut bench, 100), 10, "1,000 a second");
    }
    bench.pass(SECOND);
    assert_eq!(
        reported(&mut bench, 200),
        50,
        "no more than a burst is saved"
    );
    assert_eq!(bench.outcome(Outcome::ErrorsLimited), 150 + 900 + 150);
    let [hops, service] = [Outcome::HopsExceeded, Outcome::NoService];
    assert_eq!(bench.outcome(hops) + bench.outcome(service), 50 + 100 + 50);
    bench.check_identity();
}

#[test]
fn packets_beyond_the_ports_mtu_are_reported() {
    for ([source, ours], udp_len) in PAIRS.into_iter().zip([1472, 1452]) {
        let mut settings = settings();
        settings.ports[NODES].mtu = 1400;
        let mut bench = Bench::new(settings);
        let mut sent = from_client(source, ours).udp(4000, 53, &vec![9; udp_len]);
        if sent[14] >> 4 == 4 {
            let mut packet = ipv4::Packet::new_unchecked(&mut sent[14..34]);
            packet.set_dont_fragment();
            packet.fill_checksum();
        }
        // The first one waits for the node's Ethernet address, and is answered as others are.
        for count in 1..4 {
            let (port, left) = bench.send_one(CLIENTS, &sent);
            assert_eq!(port, CLIENTS);
            assert!(is_right(&left));
            assert_eq!(read(&left).failure, Failure::TooBig(1400));
            let inside = read(&left);
            let both = [inside.source, inside.destination];
            assert_eq!(both, [address(source), address(ours)]);
            assert_eq!(bench.outcome(Outcome::TooBig), count);
            bench.check_identity();
        }
    }
}

#[test]
fn packets_that_may_be_cut_are_cut() {
    let mut settings = settings();
    settings.ports[NODES].mtu = 600;
    let mut bench = Bench::new(settings);
    let client = from_client("10.9.1.7", "10.9.1.100").with_identification(77);
    let payload: Vec<u8> = (0..1400).map(|at| at as u8).collect();
    // The first one waits for the node's Ethernet address, and is cut as others are.
    let first = bench.send(CLIENTS, &client.udp(4000, 53, &payload));
    let left = bench.send(CLIENTS, &client.udp(4000, 53, &payload));
    assert_eq!((left.len(), &left), (3, &first));
    let mut whole = vec![0; 8 + payload.len()];
    let mut ends = None;
    for (index, (_, piece)) in left.iter().enumerate() {
        let packet = ipv4::Packet::new_checked(&piece[14..]).expect("a packet");
        assert!(packet.verify_checksum() && packet.total_len() <= 600);
        assert_eq!(
            (packet.identification(), packet.more_fragments()),
            (77, index < 2)
        );
        let at = packet.fragment_offset();
        whole[at..at + packet.payload().len()].copy_from_slice(packet.payload());
        ends = Some([packet.source().into(), packet.destination().into()]);
    }
    let [source, destination] = ends.expect("pieces");
    let sum = lineside_wire::checksum::transport(source, destination, PROTOCOL_UDP, &whole);
    assert_eq!((sum, &whole[8..]), (0, &payload[..]));
    bench.check_identity();
}

#[test]
fn closed_ports_and_unknown_segments_are_answered() {
    let mut bench = Bench::new(settings());
    let client = from_client("10.9.1.7", "10.9.1.100");
    let (_, left) = bench.send_one(CLIENTS, &client.udp(4000, 54, b"nobody"));
    assert_eq!(read(&left).failure, Failure::Unreachable(3));
    // In the middle of a connection that is not known: RFC 9293, 3.5.2.
    let fields = lineside_wire::build::TcpFields {
        acknowledgement: 77,
        ..segment([4000, 80], 5, TcpFlags::ACK)
    };
    let (_, left) = bench.send_one(CLIENTS, &client.tcp(&fields, b"data"));
    assert!(is_right(&left));
    let reset = lineside_wire::tcp::Segment::new_unchecked(&left[34..]);
    assert_eq!((reset.flags(), reset.sequence().0), (TcpFlags::RST, 77));
    assert_eq!(
        bench.send(
            CLIENTS,
            &client.tcp(&segment([4000, 80], 5, TcpFlags::RST), &[])
        ),
        []
    );
    bench.check_identity();
}
