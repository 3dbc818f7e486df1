//! The engine that answers handshakes and reads first requests: clients that do what they like, and
//! nodes that answer rightly, wrongly or not at all. Each end that it chose is given back once, and
//! in the end nothing is left.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use lineside_account::Budget;
use lineside_balancer::proxy::{
    Arrived, Effects, Failed, Group, Joined, Offer, Outcome, Rule, Rules, Service, Settings,
    Splices, Way, tls,
};
use lineside_wire::build::{FrameBuilder, TcpFields};
use lineside_wire::tcp::Segment;
use lineside_wire::{TcpFlags, checksum};

use super::Bytes;

const OPERATIONS_MAX: usize = 200;
const CLIENTS: usize = 3;
const REQUEST: &[u8] = b"GET /img/1 HTTP/1.1\r\nHost: a.example\r\nCookie: x=1\r\n\r\n";
/// A client's hello as a browser sends it.
const HELLO: &[u8] = include_bytes!("../../../crates/engine/balancer/src/proxy/client_hello.bin");
/// Timestamps, selective acknowledgements, a window scale and a segment size, as Linux has them.
const OPTIONS: [u8; 20] = [
    2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, 7,
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Chosen,
    Spliced,
    Finished,
}

/// What the engine has done.
#[derive(Default)]
struct World {
    to_clients: VecDeque<(SocketAddr, Vec<u8>)>,
    to_nodes: VecDeque<([SocketAddr; 2], Vec<u8>)>,
    ends: HashMap<[SocketAddr; 2], End>,
    next_port: u16,
    /// Nodes that there are.
    nodes: u8,
}

impl Effects for World {
    fn transmit(
        &mut self,
        way: Way,
        ends: [SocketAddr; 2],
        _: u64,
        fields: &TcpFields<'_>,
        payload: &[u8],
    ) {
        let builder = FrameBuilder::new(ends[0].ip(), ends[1].ip());
        let fields = TcpFields {
            source_port: ends[0].port(),
            destination_port: ends[1].port(),
            ..*fields
        };
        let segment = builder.tcp_segment(&fields, payload);
        assert!(Segment::new_checked(&*segment).is_some());
        match way {
            Way::ToClient => self.to_clients.push_back((ends[1], segment)),
            Way::ToNode => self.to_nodes.push_back((ends, segment)),
        }
    }

    fn choose(
        &mut self,
        _: u32,
        (group, failed): (Group, u8),
        _: [SocketAddr; 2],
        _: u64,
    ) -> Option<[SocketAddr; 2]> {
        if failed >= self.nodes {
            return None;
        }
        self.next_port = self.next_port.wrapping_add(1);
        let own = ([10, 0, 1, 100], self.next_port).into();
        let node = ([10, 0, 1, 1 + failed], 8_080 + group).into();
        assert_eq!(self.ends.insert([own, node], End::Chosen), None);
        Some([own, node])
    }

    fn release(&mut self, node_ends: [SocketAddr; 2], why: Failed) {
        assert_eq!(self.ends.remove(&node_ends), Some(End::Chosen), "{why:?}");
    }

    fn splice(&mut self, node_ends: [SocketAddr; 2], _: &Joined) {
        let before = self.ends.insert(node_ends, End::Spliced);
        assert_eq!(before, Some(End::Chosen));
    }

    fn finish(&mut self, node_ends: [SocketAddr; 2]) {
        let before = self.ends.insert(node_ends, End::Finished);
        assert_eq!(before, Some(End::Spliced));
    }

    fn abort(&mut self, node_ends: [SocketAddr; 2]) {
        let before = self.ends.remove(&node_ends);
        assert_eq!(before, Some(End::Spliced));
    }
}

/// A client, as far as it knows of its connection.
#[derive(Clone, Copy, Default)]
struct Client {
    next: u32,
    acknowledged: u32,
}

/// Two bytes that configure the engine, then operations; or a byte, and a client's first bytes.
pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let choice = bytes.u8();
    if choice == 255 {
        return first_bytes(bytes.0);
    }
    let budget = Budget::new(16 << 20);
    {
        let services = vec![service(choice)];
        let settings = Settings {
            entries_max: 4,
            request_bytes_max: 4_096,
            ..Settings::default()
        };
        let splices = Splices::new(settings, services, [1, 2], &budget);
        let mut splices = splices.expect("there is room");
        let mut world = World {
            nodes: choice >> 6,
            ..World::default()
        };
        let (mut clients, mut now) = ([Client::default(); CLIENTS], 1_000_000_000);
        for _ in 0..OPERATIONS_MAX {
            if bytes.is_empty() {
                break;
            }
            operate(&mut splices, &mut world, &mut clients, &mut now, &mut bytes);
            assert!(splices.report().is_whole());
        }
        for _ in 0..200 {
            now += 100_000_000_000;
            splices.on_timer(now, &mut world);
        }
        assert_eq!(splices.entries(), 0, "everything that waits has an end");
        assert!(!world.ends.values().any(|end| *end == End::Chosen));
    }
    assert_eq!(budget.used_bytes(), 0, "all is given back");
}

fn service(choice: u8) -> Service {
    let rules = [
        "host a.example path /img",
        "cookie x=1",
        "sni a.example",
        "path /",
    ];
    let rules = rules.iter().enumerate();
    let rules = rules.filter_map(|(group, words)| Rule::parse(words, group as Group).ok());
    Service {
        rules: (choice & 1 != 0).then(|| Rules {
            rules: rules.collect(),
            default: (choice & 2 != 0).then_some(7),
        }),
        groups: Vec::new(),
        offer: Offer {
            timestamps: choice & 4 == 0,
            sack: choice & 8 == 0,
            ..Offer::default()
        },
    }
}

fn operate(
    splices: &mut Splices,
    world: &mut World,
    clients: &mut [Client; CLIENTS],
    now: &mut i64,
    bytes: &mut Bytes<'_>,
) {
    let what = bytes.u8();
    let number = usize::from(what >> 4) % CLIENTS;
    match what & 15 {
        0 => {
            *now += i64::from(bytes.u16()) * 1_000_000;
            splices.on_timer(*now, world);
        }
        1 => splices.set_services(vec![service(bytes.u8())]),
        2..=7 => from_client(splices, world, (clients, number), *now, (what & 15, bytes)),
        8 => hear(world, clients),
        9..=13 => answer(splices, world, *now, (what & 15, bytes)),
        _ => {
            // Anything from a node, to an end that was chosen.
            let place = usize::from(bytes.u8());
            let mut ends: Vec<_> = world.ends.keys().copied().collect();
            ends.sort_unstable();
            if let Some(&ends) = ends.get(place % ends.len().max(1)) {
                let (options, payload) = (options(bytes), bytes.u8());
                let fields = TcpFields {
                    sequence: bytes.u32(),
                    acknowledgement: bytes.u32(),
                    flags: TcpFlags(bytes.u8()),
                    options: &options,
                    ..TcpFields::default()
                };
                node_sends(
                    splices,
                    world,
                    *now,
                    ends,
                    &fields,
                    &vec![7; payload.into()],
                );
            }
        }
    }
}

fn options(bytes: &mut Bytes<'_>) -> Vec<u8> {
    match bytes.u8() {
        len @ 0..=10 => bytes.take(usize::from(len) * 4).to_vec(),
        _ => OPTIONS.to_vec(),
    }
}

fn from_client(
    splices: &mut Splices,
    world: &mut World,
    (clients, number): (&mut [Client; CLIENTS], usize),
    now: i64,
    (what, bytes): (u8, &mut Bytes<'_>),
) {
    let ends = [client_end(number), ([10, 0, 0, 100], 80).into()];
    let client = &mut clients[number];
    let all = options(bytes);
    let (flags, payload) = match what {
        2 => {
            client.next = u32::from(bytes.u8()).wrapping_sub(100);
            (TcpFlags::SYN, Vec::new())
        }
        3 => (TcpFlags::ACK, Vec::new()),
        4 => {
            let at = usize::from(bytes.u8()) % REQUEST.len();
            let len = usize::from(bytes.u8());
            let end = (at + len).min(REQUEST.len());
            (TcpFlags::ACK, REQUEST[at..end].to_vec())
        }
        5 => {
            let len = usize::from(bytes.u16()) % (HELLO.len() + 1);
            (TcpFlags::ACK, HELLO[..len].to_vec())
        }
        6 => {
            let len = usize::from(bytes.u8());
            (TcpFlags::ACK, bytes.take(len).to_vec())
        }
        _ => (TcpFlags(bytes.u8()), Vec::new()),
    };
    let off = bytes.u8();
    let moved = |value: u32, by: u8| value.wrapping_add_signed(i32::from(by.cast_signed()));
    let fields = TcpFields {
        source_port: ends[0].port(),
        destination_port: ends[1].port(),
        sequence: moved(client.next, off),
        acknowledgement: moved(client.acknowledged, bytes.u8()),
        flags,
        options: &all[..all.len().min(40)],
        ..TcpFields::default()
    };
    let mut segment = FrameBuilder::new(ends[0].ip(), ends[1].ip()).tcp_segment(&fields, &payload);
    if off == 0 {
        let takes = payload.len() + usize::from(flags.contains(TcpFlags::SYN));
        client.next = client.next.wrapping_add(takes as u32);
    }
    if bytes.u8() == 1 {
        segment[4] ^= 1;
    }
    let Some(checked) = Segment::new_checked(&*segment) else {
        return;
    };
    let arrived = Arrived {
        ends,
        segment: checked,
        checksum_offloaded: false,
        from: number as u64,
    };
    let outcome = splices.on_client(now, 0, &arrived, world);
    rewritten(outcome, Way::ToNode, &segment);
}

fn client_end(number: usize) -> SocketAddr {
    ([10, 0, 0, 1], 1_000 + number as u16).into()
}

/// What goes on is rewritten in place, and its checksum stays as right or wrong as it was.
fn rewritten(outcome: Outcome, way: Way, segment: &[u8]) {
    if let Outcome::Pass(splice) = outcome {
        let mut changed = segment.to_vec();
        let before = checksum::checksum(&changed);
        splice.rewrite(way, &mut changed, false);
        assert_eq!(changed.len(), segment.len());
        assert_eq!(checksum::checksum(&changed), before);
    }
}

/// Clients read what came for them: the next number that they acknowledge.
fn hear(world: &mut World, clients: &mut [Client; CLIENTS]) {
    while let Some((to, segment)) = world.to_clients.pop_front() {
        let segment = Segment::new_checked(&*segment).expect("it was checked");
        if let Some(client) = clients.get_mut(usize::from(to.port().wrapping_sub(1_000))) {
            let takes = u32::from(segment.flags().contains(TcpFlags::SYN));
            client.acknowledged = segment.sequence().0.wrapping_add(takes);
        }
    }
}

/// A node answers the oldest segment that came for it.
fn answer(splices: &mut Splices, world: &mut World, now: i64, (what, bytes): (u8, &mut Bytes<'_>)) {
    let Some((ends, segment)) = world.to_nodes.pop_front() else {
        return;
    };
    let segment = Segment::new_checked(&*segment).expect("it was checked");
    let is_syn = segment.flags().contains(TcpFlags::SYN);
    let all = options(bytes);
    let (sequence, len) = (segment.sequence().0, segment.payload().len() as u32);
    let fields = TcpFields {
        sequence: if is_syn { 5_000 } else { 5_001 },
        acknowledgement: sequence.wrapping_add(len + u32::from(is_syn)),
        flags: match what {
            13 => TcpFlags::RST | TcpFlags::ACK,
            _ if is_syn => TcpFlags::SYN | TcpFlags::ACK,
            _ => TcpFlags::ACK,
        },
        options: &all[..all.len().min(40)],
        ..TcpFields::default()
    };
    // One in five is lost.
    if what != 12 {
        node_sends(splices, world, now, ends, &fields, &[]);
    }
}

fn node_sends(
    splices: &mut Splices,
    world: &mut World,
    now: i64,
    [own, node]: [SocketAddr; 2],
    fields: &TcpFields<'_>,
    payload: &[u8],
) {
    let fields = TcpFields {
        source_port: node.port(),
        destination_port: own.port(),
        options: &fields.options[..fields.options.len().min(40)],
        ..*fields
    };
    let segment = FrameBuilder::new(node.ip(), own.ip()).tcp_segment(&fields, payload);
    let Some(checked) = Segment::new_checked(&*segment) else {
        return;
    };
    let arrived = Arrived {
        ends: [node, own],
        segment: checked,
        checksum_offloaded: false,
        from: 0,
    };
    let outcome = splices.on_node(now, &arrived, world);
    rewritten(outcome, Way::ToClient, &segment);
}

/// The first bytes of a client: more of them never change what was found of fewer.
fn first_bytes(bytes: &[u8]) {
    let service = service(3);
    let rules = service.rules.expect("it has some");
    let whole = rules.decide(bytes, 0);
    for cut in [
        0,
        bytes.len() / 3,
        bytes.len() / 2,
        bytes.len().saturating_sub(1),
    ] {
        let _ = rules.decide(&bytes[..cut], 0);
        let _ = rules.decide(bytes, cut);
    }
    assert_eq!(
        format!("{whole:?}"),
        format!("{:?}", rules.decide(bytes, 0))
    );
    if let tls::Hello::Name(name) = tls::client_hello(bytes) {
        assert!(name.bytes().len() <= 255);
    }
    if let Ok(words) = std::str::from_utf8(bytes)
        && let Err(error) = Rule::parse(words, 1)
    {
        assert!(!error.to_string().is_empty());
    }
}
