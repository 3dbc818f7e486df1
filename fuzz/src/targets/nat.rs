//! A load balancer: any frames by any port, changes, saved tables and times in any order. Each
//! frame has one outcome or waits, and in the end nothing is left.

use lineside_account::Budget;
use lineside_balancer::proxy::{self, Rule, Rules};
use lineside_balancer::{
    Change, Choice, Effects, Health, Nat, NodeSettings, PortSettings, Service, ServiceName,
    Settings, Timeouts, Transport,
};
use lineside_frame::{Descriptor, Frame, LinkType, give_back};
use lineside_wire::build::{FrameBuilder, TcpFields};
use lineside_wire::{TcpFlags, checksum};

use super::Bytes;

const OURS: [[u8; 6]; 2] = [[2, 0, 0, 0, 1, 0], [2, 0, 0, 0, 1, 1]];
const OPERATIONS_MAX: usize = 100;

/// Two bytes that configure the engine, then operations.
pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let budget = Budget::new(64 << 20);
    {
        let settings = settings(bytes.u8(), bytes.u8());
        let Ok(mut nat) = Nat::new(settings.clone(), &budget) else {
            return;
        };
        let (mut now, mut arrived, mut out) = (0, 0, Effects::default());
        nat.begin(now, &mut out);
        for _ in 0..OPERATIONS_MAX {
            if bytes.is_empty() {
                break;
            }
            operate(
                &mut nat,
                &settings,
                &mut bytes,
                &mut now,
                &mut arrived,
                &mut out,
            );
            let report = nat.report(now);
            assert_eq!(report.arrived, arrived);
            assert_eq!(report.outcomes.sum() + report.held, arrived);
            assert!(report.splices.is_none_or(|splices| splices.is_whole()));
            out.frames.clear();
            out.decided.clear();
        }
        // Everything that waits has an end.
        for _ in 0..100 {
            now += 1_000_000_000_000;
            nat.on_timer(now, &mut out);
        }
        let report = nat.report(now);
        // A check may wait for a node that never answers.
        assert_eq!((report.table.connections, report.held), (0, 0));
    }
    give_back();
    assert_eq!(budget.used_bytes(), 0, "all is given back");
}

fn settings(choice: u8, more: u8) -> Settings {
    let node = |last: u8| NodeSettings {
        address: ([10, 9, 2, last], 8080).into(),
        weight: u32::from(last),
    };
    let node_v6 = |last: u16| NodeSettings {
        address: ([0xfd00, 2, 0, 0, 0, 0, 0, last], 8080).into(),
        weight: 1,
    };
    let nodes = [vec![node(2), node(3)], vec![node_v6(2), node_v6(3)]];
    let addresses = [
        ([10, 9, 1, 100], 80).into(),
        ([0xfd00, 1, 0, 0, 0, 0, 0, 0x100], 80).into(),
    ];
    let mut services = Vec::new();
    for (address, nodes) in addresses.into_iter().zip(nodes) {
        for transport in [Transport::Tcp, Transport::Udp] {
            services.push(Service {
                // Maglev's table takes a millisecond to fill.
                choice: match choice % 2 {
                    0 => Choice::RoundRobin,
                    _ => Choice::LeastConnections,
                },
                affinity: (choice & 4 != 0).then_some(50_000_000_000),
                health: (choice & 8 != 0).then(Health::default),
                keeps_client: choice & 16 != 0,
                multicast: choice & 32 != 0 && transport == Transport::Udp,
                slow_start: i64::from(choice & 64) * 1_000_000_000,
                splice: (choice & 128 != 0 && transport == Transport::Tcp).then(|| {
                    let rule = Rule::parse("host a path /b", 1).expect("a rule");
                    proxy::Service {
                        // Without rules it is a SYN proxy.
                        rules: (more & 4 == 0).then(|| Rules {
                            rules: vec![rule],
                            default: (choice & 1 != 0).then_some(0),
                        }),
                        ..proxy::Service::default()
                    }
                }),
                ..Service::new(transport, address, nodes.clone())
            });
        }
    }
    let port = |number: usize, mtu| PortSettings {
        name: number.to_string(),
        ethernet: OURS[number],
        mtu,
    };
    Settings {
        ports: vec![
            port(0, 1500),
            port(1, if more & 1 == 0 { 1500 } else { 600 }),
        ],
        nat: vec![
            [10, 9, 2, 100].into(),
            [0xfd00_u16, 2, 0, 0, 0, 0, 0, 0x100].into(),
        ],
        services,
        routes: Vec::new(),
        timeouts: Timeouts::default(),
        connections_max: 1 + u32::from(more >> 4),
        cookies_above: (more & 2 != 0).then_some(0.5),
        seed: 7,
    }
}

fn operate(
    nat: &mut Nat,
    settings: &Settings,
    bytes: &mut Bytes<'_>,
    now: &mut i64,
    arrived: &mut u64,
    out: &mut Effects,
) {
    let what = bytes.u8();
    let port = usize::from(what >> 7);
    match what & 15 {
        0 => {
            *now += i64::from(bytes.u16()) * 1_000_000;
            nat.on_timer(*now, out);
        }
        1 => {
            *now += i64::from(bytes.u16()) * 1_000_000_000;
            nat.on_timer(*now, out);
        }
        2 => change(nat, settings, bytes, *now, out),
        3 => {
            let mut saved = Vec::new();
            nat.save(*now, &mut saved);
            assert_eq!(nat.restore(*now, &saved), Ok(0), "all of it is there");
            let len = usize::from(bytes.u8());
            let _ = nat.restore(*now, bytes.take(len));
            if let Some(at) = saved.len().checked_sub(1 + usize::from(bytes.u8())) {
                saved[at] ^= bytes.u8();
                let _ = nat.restore(*now, &saved);
            }
        }
        4 => nat.spill(usize::from(bytes.u16())),
        5 => {
            let len = usize::from(bytes.u8());
            let mut foreign = [&OURS[port][..], &[2, 0, 0, 0, 2, 1]].concat();
            foreign.extend(bytes.take(len));
            give(nat, *now, port, &foreign, arrived, out);
        }
        _ => {
            let mut frame = frame(bytes, what, port);
            let damage = bytes.u8();
            if damage & 0x80 != 0 {
                let at = usize::from(bytes.u8()) % frame.len();
                frame[at] ^= damage;
                mend(&mut frame);
            }
            give(nat, *now, port, &frame, arrived, out);
            if damage & 0x40 != 0 {
                answer(nat, *now, arrived, out);
            }
        }
    }
}

fn give(nat: &mut Nat, now: i64, port: usize, bytes: &[u8], arrived: &mut u64, out: &mut Effects) {
    let descriptor = Descriptor {
        wire_len: bytes.len() as u32,
        link_type: LinkType::ETHERNET,
        ..Descriptor::default()
    };
    *arrived += 1;
    nat.on_frame(now, port, Frame::copied(bytes, descriptor), out);
}

/// What leaves comes back, with both ends changed.
fn answer(nat: &mut Nat, now: i64, arrived: &mut u64, out: &mut Effects) {
    for outgoing in std::mem::take(&mut out.frames) {
        let mut bytes = outgoing.frame.bytes().to_vec();
        let (start, end) = bytes.split_at_mut(6);
        start.swap_with_slice(&mut end[..6]);
        let (at, len) = match bytes.get(14).map_or(0, |first| first >> 4) {
            4 => (26, 4),
            6 => (22, 16),
            // A question for a neighbour: it is answered.
            _ if bytes.len() >= 42 && bytes[12..14] == [8, 6] => {
                bytes[21] = 2;
                let asked: [u8; 4] = [bytes[38], bytes[39], bytes[40], bytes[41]];
                bytes[22..28].copy_from_slice(&[2, 0, 0, 0, 3, asked[3]]);
                bytes[28..32].copy_from_slice(&asked);
                bytes[..6].copy_from_slice(&OURS[outgoing.port]);
                give(nat, now, outgoing.port, &bytes, arrived, out);
                continue;
            }
            _ => continue,
        };
        let (start, end) = bytes[at..at + 2 * len].split_at_mut(len);
        start.swap_with_slice(end);
        let transport = if len == 4 { 34 } else { 54 };
        if let Some(ports) = bytes.get_mut(transport..transport + 4) {
            ports.rotate_left(2);
        }
        give(nat, now, outgoing.port, &bytes, arrived, out);
    }
}

/// Makes the checksum of an IPv4 header right again.
fn mend(frame: &mut [u8]) {
    let is_ipv4 = frame[12..14] == [8, 0];
    if let Some(header) = frame.get_mut(14..34).filter(|_| is_ipv4) {
        header[10..12].fill(0);
        let sum = checksum::checksum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

fn frame(bytes: &mut Bytes<'_>, what: u8, port: usize) -> Vec<u8> {
    let [from, to] = [bytes.u8(), bytes.u8()];
    let ends = match what & 16 {
        0 => [
            [10, 9, 1 + port as u8, from % 4].into(),
            [10, 9, 1 + port as u8, 98 + to % 4].into(),
        ],
        _ => {
            let network = 1 + port as u16;
            [
                [0xfd00, network, 0, 0, 0, 0, 0, u16::from(from % 4)].into(),
                [0xfd00_u16, network, 0, 0, 0, 0, 0, 0xfe + u16::from(to % 4)].into(),
            ]
        }
    };
    let ports = [
        u16::from(bytes.u8() % 8) + 1,
        if to & 0x80 == 0 { 80 } else { bytes.u16() },
    ];
    let builder = FrameBuilder::new(ends[0], ends[1])
        .with_link_addresses([2, 0, 0, 0, 2, from], OURS[port])
        .with_identification(u32::from(from % 8))
        .with_ttl(if from & 0x80 == 0 { 64 } else { 1 });
    let payload = vec![7; usize::from(bytes.u8()) * 4];
    match what & 15 {
        6..=9 => {
            let fields = TcpFields {
                source_port: ports[0],
                destination_port: ports[1],
                sequence: u32::from(bytes.u8()),
                acknowledgement: u32::from(bytes.u8()),
                flags: TcpFlags(bytes.u8()),
                options: bytes.take(usize::from(what & 3) * 4),
                ..TcpFields::default()
            };
            builder.tcp(&fields, &payload)
        }
        10 | 11 => builder.udp(ports[0], ports[1], &payload),
        12 | 13 => {
            let datagram = builder.udp_datagram(ports[0], ports[1], &payload);
            let mut pieces = builder.fragments(17, &datagram, 256);
            let which = usize::from(bytes.u8()) % pieces.len();
            pieces.swap_remove(which)
        }
        // An ICMP message, an error as often as not.
        _ => {
            let protocol = if what & 16 == 0 { 1 } else { 58 };
            let len = usize::from(bytes.u8()).max(8);
            let mut message = bytes.take(len).to_vec();
            message.resize(len, 0);
            message[2..4].fill(0);
            let sum = lineside_wire::icmp::checksum_of(&message, ends);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
            builder.packet(protocol, &message)
        }
    }
}

fn change(nat: &mut Nat, settings: &Settings, bytes: &mut Bytes<'_>, now: i64, out: &mut Effects) {
    let [which, weight] = [bytes.u8(), bytes.u8()];
    let service = &settings.services[usize::from(which >> 6)];
    let name = ServiceName {
        transport: service.transport,
        address: service.address,
    };
    let node = service.nodes[usize::from(which & 1)].address;
    let change = match which >> 1 & 7 {
        0 => Change::Remove {
            service: name,
            node,
        },
        1 => Change::Drain {
            service: name,
            node,
        },
        2 | 3 => Change::Weight {
            service: name,
            node,
            weight: weight.into(),
        },
        4 | 5 => Change::Add {
            service: name,
            node: NodeSettings {
                address: node,
                weight: weight.into(),
            },
        },
        _ => {
            let mut settings = settings.clone();
            settings.services.rotate_left(usize::from(weight % 4));
            settings.services.truncate(1 + usize::from(weight >> 6));
            settings.nat.truncate(1 + usize::from(weight >> 5 & 1));
            Change::Replace(Box::new(settings))
        }
    };
    // What is refused changes nothing, and says why.
    if let Err(error) = nat.apply(now, &change, out) {
        assert!(!error.to_string().is_empty());
    }
}
