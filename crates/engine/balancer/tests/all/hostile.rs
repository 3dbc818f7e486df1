//! Whatever comes: nothing panics, and each frame has one outcome.

use std::net::IpAddr;

use lineside_balancer::proxy::{self, Rule, Rules};
use lineside_balancer::{Choice, Health, Outcome, Service, Settings, Transport};
use lineside_wire::build::{FrameBuilder, TcpFields};
use lineside_wire::icmp::{self, Failure};
use lineside_wire::{Dissected, TcpFlags, dissect, ethernet, ipv4};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::bench::*;

/// Frames of all kinds that are right, to be damaged.
fn frames() -> Vec<(usize, Vec<u8>)> {
    let mut all = Vec::new();
    for [source, ours] in [["10.9.1.7", "10.9.1.100"], ["fd00:1::7", "fd00:1::100"]] {
        let client = from_client(source, ours);
        all.push((
            CLIENTS,
            client.tcp(&segment([4000, 80], 1, TcpFlags::SYN), &[]),
        ));
        all.push((
            CLIENTS,
            client.tcp(&segment([4000, 80], 2, TcpFlags::ACK), &[7; 40]),
        ));
        all.push((CLIENTS, client.udp(4000, 53, &[9; 40])));
        let datagram = client.udp_datagram(4001, 53, &[7; 100]);
        all.extend(
            client
                .fragments(17, &datagram, 48)
                .into_iter()
                .map(|piece| (CLIENTS, piece)),
        );
        let mut message = vec![0; 8 + 48];
        let packet = client.udp(4000, 53, &[9; 40])[14..].to_vec();
        let ends = [address(source), address(ours)];
        let failure = Failure::TooBig(1300);
        icmp::emit_error(failure, &packet, ends, &mut message);
        let protocol = if source.contains(':') { 58 } else { 1 };
        all.push((CLIENTS, client.packet(protocol, &message)));
    }
    let mut arp = vec![0; 42];
    arp[..6].fill(0xff);
    arp[12..14].copy_from_slice(&[8, 6]);
    all.push((NODES, arp));
    all
}

/// A packet that is longer than its frame has lost its end: nobody can mend it.
#[test]
fn a_packet_longer_than_its_frame_is_dropped() {
    let mut bench = Bench::new(settings());
    let damaged = frames().into_iter().filter(|(port, _)| *port == CLIENTS);
    let mut count = 0;
    for (port, mut bytes) in damaged {
        if bytes[14] >> 4 == 4 {
            let mut packet = ipv4::Packet::new_unchecked(&mut bytes[14..34]);
            let len = packet.total_len() + 8;
            packet.set_total_len(len as u16);
            packet.fill_checksum();
        } else {
            bytes[19] += 8;
        }
        count += 1;
        assert_eq!(bench.send(port, &bytes), [], "{bytes:02x?}");
    }
    assert_eq!(bench.outcome(Outcome::Malformed), count);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn damaged_frames_have_one_outcome_each(
        steps in vec(
            (
                any::<u8>(),
                vec((any::<u8>(), any::<u8>()), 0..4),
                any::<u8>(),
                any::<bool>(),
            ),
            1..60,
        ),
    ) {
        let all = frames();
        let mut bench = Bench::new(settings());
        let mut last: Option<Vec<u8>> = None;
        for (which, damage, cut, turns) in steps {
            let (port, mut bytes) = match last.take().filter(|_| turns) {
                // What left comes back, as from a node.
                Some(bytes) => (NODES, turned(&bytes)),
                None => all[usize::from(which) % all.len()].clone(),
            };
            for (at, byte) in damage {
                let at = usize::from(at) % bytes.len();
                bytes[at] = byte;
            }
            if cut < 40 {
                bytes.truncate(usize::from(cut) * 3);
            }
            let left = bench.send(port, &bytes);
            last = left.into_iter().next().map(|(_, bytes)| bytes).filter(|bytes| {
                bytes.len() > 58 && matches!(bytes[14] >> 4, 4 | 6)
            });
            bench.pass(i64::from(cut) * SECOND / 4);
            bench.check_identity();
        }
        bench.pass(10_000 * SECOND);
        bench.check_identity();
        prop_assert_eq!(bench.nat.report(bench.now).table.connections, 0);
        prop_assert_eq!(bench.nat.held(), 0);
    }
}

/// Services of every kind, each at a port of its own, for both IP versions.
fn settings_of_all_kinds() -> Settings {
    let rule = || Rule::parse("host a path /b", 1).expect("a rule");
    let switch = proxy::Service {
        rules: Some(Rules {
            rules: vec![rule()],
            default: None,
        }),
        ..proxy::Service::default()
    };
    let mut all = settings();
    for [ours, nodes_at] in [["10.9.1.100", "10.9.2."], ["[fd00:1::100]", "[fd00:2::"]] {
        let close = if ours.starts_with('[') { "]" } else { "" };
        let service = |transport, port: u16| {
            let at = |last: u8| format!("{nodes_at}{last}{close}:{}", 9000 + port);
            let nodes = nodes(&[&at(2), &at(3)]);
            Service::new(transport, socket(&format!("{ours}:{port}")), nodes)
        };
        all.services.extend([
            Service {
                keeps_client: true,
                ..service(Transport::Tcp, 81)
            },
            Service {
                splice: Some(switch.clone()),
                ..service(Transport::Tcp, 82)
            },
            Service {
                splice: Some(proxy::Service::default()),
                affinity: Some(100 * SECOND),
                ..service(Transport::Tcp, 83)
            },
            Service {
                multicast: true,
                ..service(Transport::Udp, 54)
            },
            Service {
                keeps_client: true,
                health: Some(Health {
                    interval: 100 * SECOND,
                    ..Health::default()
                }),
                choice: Choice::LeastConnections,
                ..service(Transport::Udp, 55)
            },
        ]);
    }
    all.ports[NODES].mtu = 1280;
    all.connections_max = 40;
    all.cookies_above = Some(0.5);
    all
}

/// What one of both sides does.
#[derive(Debug, Clone)]
enum Act {
    /// A client's segment or datagram: IP version, port, service's port, flags, payload.
    Ask(bool, u8, u8, u8, Vec<u8>),
    /// The receiver of a frame that left answers as it should, with these flags and payload.
    Answer(u8, u8, Vec<u8>),
    /// The receiver of a frame that left, or a router before it, reports this many bytes of it.
    Report(u8, u8, u8),
    /// A piece of a datagram: IP version, identification, which eight bytes it begins at, how
    /// many of them it has, whether more come.
    Piece(bool, u8, u8, u8, bool),
    /// Neighbour discovery or ARP with these bytes behind the header.
    Neighbour(bool, u8, Vec<u8>),
    /// Bytes behind an Ethernet header.
    Any(bool, Vec<u8>),
    Pass(u16),
}

/// A request that the content switch's rule takes, one that it does not, and any bytes.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(Vec::new()),
        Just(b"GET /b HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()),
        Just(b"GET /c HTTP/1.1\r\n".to_vec()),
        Just(vec![7; 1400]),
        vec(any::<u8>(), 0..80),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let flags = || prop_oneof![Just(0x02), Just(0x10), Just(0x18), any::<u8>()];
    let ask = (any::<bool>(), 0..4_u8, 0..7_u8, flags(), payload());
    let answer = (any::<u8>(), flags(), payload());
    let piece = (any::<bool>(), 0..3_u8, 0..6_u8, 0..6_u8, any::<bool>());
    let bytes = || vec(any::<u8>(), 0..120);
    prop_oneof![
        4 => ask.prop_map(|(v6, port, service, flags, payload)| {
            Act::Ask(v6, port, service, flags, payload)
        }),
        24 => answer.prop_map(|(which, flags, payload)| Act::Answer(which, flags, payload)),
        2 => any::<[u8; 3]>().prop_map(|[which, kind, len]| Act::Report(which, kind, len)),
        2 => piece.prop_map(|(v6, id, at, len, more)| Act::Piece(v6, id, at, len, more)),
        1 => (any::<bool>(), any::<u8>(), bytes()).prop_map(|(v6, kind, bytes)| {
            Act::Neighbour(v6, kind, bytes)
        }),
        1 => (any::<bool>(), bytes()).prop_map(|(v6, bytes)| Act::Any(v6, bytes)),
        1 => any::<u16>().prop_map(Act::Pass),
    ]
}

const CLIENTS_OF: [[&str; 2]; 2] = [["10.9.1.7", "10.9.1.100"], ["fd00:1::7", "fd00:1::100"]];

/// The frame of an act, and where it comes in. `left` is what left last.
fn frame_of(act: &Act, left: &[(usize, Vec<u8>)]) -> Option<(usize, Vec<u8>)> {
    let chosen = |which: u8| left.get(usize::from(which) % left.len().max(1));
    match act {
        Act::Ask(v6, port, service, flags, payload) => {
            let [source, ours] = CLIENTS_OF[usize::from(*v6)];
            let client = from_client(source, ours);
            let client = match port {
                0 => client.with_options(&[1, 1, 1, 0]),
                _ => client,
            };
            let ports = [
                4000 + u16::from(*port),
                [80, 81, 82, 83, 53, 54, 55][usize::from(*service)],
            ];
            let frame = match service {
                0..=3 => client.tcp(&segment(ports, 1, TcpFlags(*flags)), payload),
                _ => client.udp(ports[0], ports[1], payload),
            };
            Some((CLIENTS, frame))
        }
        Act::Answer(which, flags, payload) => {
            let (port, bytes) = chosen(*which)?;
            Some((*port, answer_to(bytes, TcpFlags(*flags), payload)?))
        }
        Act::Report(which, kind, len) => {
            let (port, bytes) = chosen(*which)?;
            Some((*port, report_of(bytes, *kind, usize::from(*len))?))
        }
        Act::Piece(v6, id, at, len, more) => {
            let [source, ours] = CLIENTS_OF[usize::from(*v6)];
            let client = from_client(source, ours).with_identification(u32::from(*id));
            let whole = client.udp_datagram(4000, 53, &[7; 88]);
            let end = 8 * usize::from(at + len);
            let mut pieces = client.fragments(17, &whole[..end.clamp(16, 96)], 8);
            let mut piece = pieces.swap_remove(usize::from(*at).min(pieces.len() - 1));
            // Longer than its place says: pieces overlap.
            piece.extend(vec![9; 8 * usize::from(*len)]);
            if !v6 {
                let mut packet = ipv4::Packet::new_unchecked(&mut piece[14..34]);
                let len = packet.total_len() + 8 * usize::from(*len);
                packet.set_total_len(len as u16);
                packet.set_fragment(8 * usize::from(*at), *more);
                packet.fill_checksum();
            } else {
                piece[19] += 8 * len;
            }
            Some((CLIENTS, piece))
        }
        Act::Neighbour(v6, kind, bytes) => {
            Some((usize::from(kind & 1), neighbour(*v6, *kind, bytes)))
        }
        Act::Any(v6, bytes) => {
            let mut frame = [&OURS[CLIENTS][..], &CLIENT].concat();
            frame.extend(if *v6 { [0x86, 0xdd] } else { [8, 0] });
            frame.extend(bytes);
            Some((CLIENTS, frame))
        }
        Act::Pass(_) => None,
    }
}

/// What the receiver of a frame answers, by right numbers.
fn answer_to(bytes: &[u8], flags: TcpFlags, payload: &[u8]) -> Option<Vec<u8>> {
    let header = ethernet::Frame::new_unchecked(bytes);
    let back = |ip: &lineside_wire::Ip| {
        FrameBuilder::new(ip.destination, ip.source)
            .with_link_addresses(header.destination(), header.source())
    };
    match dissect(1, bytes, bytes.len()) {
        Dissected::Tcp(ip, tcp) => {
            // To a SYN a SYN, whatever the flags are.
            let opens = TcpFlags(u8::from(tcp.flags == TcpFlags::SYN) << 1);
            let seen = u32::from(tcp.flags.opens()) + tcp.payload_len as u32;
            let fields = TcpFields {
                source_port: tcp.destination_port,
                destination_port: tcp.source_port,
                sequence: tcp.acknowledgement.0,
                acknowledgement: (tcp.sequence + seen).0,
                flags: flags | opens | TcpFlags::ACK,
                ..TcpFields::default()
            };
            Some(back(&ip).tcp(&fields, payload))
        }
        Dissected::Udp(ip, udp) => {
            Some(back(&ip).udp(udp.destination_port, udp.source_port, payload))
        }
        _ => None,
    }
}

/// An ICMP error about the beginning of a frame that left.
fn report_of(bytes: &[u8], kind: u8, len: usize) -> Option<Vec<u8>> {
    let header = ethernet::Frame::new_unchecked(bytes);
    let [sender, receiver] = match dissect(1, bytes, bytes.len()) {
        Dissected::Tcp(ip, _) | Dissected::Udp(ip, _) => [ip.source, ip.destination],
        _ => return None,
    };
    let quoted = &bytes[14..bytes.len().min(14 + len)];
    let failure = match kind % 3 {
        0 => Failure::TooBig(u32::from(kind) * 10),
        1 => Failure::Unreachable(kind / 3),
        _ => Failure::TimeExceeded(0),
    };
    let mut message = vec![0; 8 + quoted.len()];
    icmp::emit_error(failure, quoted, [receiver, sender], &mut message);
    let protocol = if sender.is_ipv4() { 1 } else { 58 };
    let builder = FrameBuilder::new(receiver, sender)
        .with_link_addresses(header.destination(), header.source());
    Some(builder.packet(protocol, &message))
}

/// Neighbour discovery with any options, or ARP with any fields.
fn neighbour(v6: bool, kind: u8, bytes: &[u8]) -> Vec<u8> {
    let port = usize::from(kind & 1);
    if !v6 {
        let mut frame = [&[0xff; 6][..], &CLIENT, &[8, 6, 0, 1, 8, 0, 6, 4]].concat();
        frame.extend(bytes);
        return frame;
    }
    let [source, ours] = [["fd00:1::7", "fd00:1::100"], ["fd00:2::2", "fd00:2::100"]][port];
    let target = if kind & 2 == 0 { ours } else { source };
    let mut message = vec![135 + (kind >> 2 & 1), 0, 0, 0, kind, 0, 0, 0];
    if let IpAddr::V6(target) = address(target) {
        message.extend(target.octets());
    }
    message.extend(bytes);
    let ends = [address(source), address(ours)];
    let sum = icmp::checksum_of(&message, ends);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    FrameBuilder::new(ends[0], ends[1])
        .with_ttl(255)
        .with_link_addresses(CLIENT, OURS[port])
        .packet(58, &message)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Both sides speak, lie and stammer to services of every kind: no frame is uncounted, no
    /// memory is lost, and in the end nothing is left.
    #[test]
    fn services_of_every_kind_bear_both_sides(
        acts in vec((act(), vec((any::<u16>(), any::<u8>()), 0..2), any::<u8>()), 1..120),
    ) {
        let mut bench = Bench::new(settings_of_all_kinds());
        let fresh = bench.budget.used_bytes();
        let mut left: Vec<(usize, Vec<u8>)> = Vec::new();
        for (act, damage, cut) in acts {
            if let Act::Pass(ms) = act {
                left.extend(bench.pass(i64::from(ms) * SECOND / 1000));
            }
            let Some((port, mut bytes)) = frame_of(&act, &left) else {
                continue;
            };
            // One frame in eight is damaged, one in sixteen cut.
            if cut & 7 == 0 {
                for (at, byte) in damage {
                    let at = usize::from(at) % bytes.len();
                    bytes[at] ^= byte;
                }
                mend(&mut bytes);
            }
            if cut & 15 == 1 {
                bytes.truncate(bytes.len() * usize::from(cut) / 256);
            }
            let now = bench.send(port, &bytes);
            if !now.is_empty() {
                left = now;
            }
            bench.check_identity();
            let splices = bench.nat.report(bench.now).splices.expect("services ask for it");
            prop_assert!(splices.is_whole(), "{:?}", splices);
            prop_assert!(bench.budget.used_bytes() < fresh + (4 << 20));
        }
        bench.pass(10_000 * SECOND);
        bench.check_identity();
        let report = bench.nat.report(bench.now);
        prop_assert_eq!(report.table.connections, 0);
        prop_assert_eq!(bench.nat.splices().map(proxy::Splices::entries), Some(0));
        prop_assert_eq!(bench.nat.held(), 0);
        let budget = bench.budget.clone();
        drop((bench, left));
        lineside_frame::give_back();
        prop_assert_eq!(budget.used_bytes(), 0);
    }
}

/// Makes the checksum of an IPv4 header right again, so that what is behind it is read.
fn mend(frame: &mut [u8]) {
    let is_ipv4 = frame.get(12..14) == Some(&[8, 0]);
    if let Some(header) = frame.get_mut(14..34).filter(|_| is_ipv4) {
        header[10..12].fill(0);
        let sum = lineside_wire::checksum::checksum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}
