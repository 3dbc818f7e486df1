//! Floods of every kind beside clients that are there, in simulated time: whoever asks is served.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};

use lineside_balancer::{Decision, FlowKey, Outcome, Settings, Transport};
use lineside_time::{Nanoseconds, Random};
use lineside_wire::build::{FrameBuilder, TcpFields};
use lineside_wire::{Dissected, TcpFlags, dissect, ipv4, tcp};

use crate::bench::*;

const MILLISECOND: Nanoseconds = 1_000_000;
/// A client's answer is this late.
const ROUND_TRIP: Nanoseconds = 20 * MILLISECOND;
/// Clients a second, of TCP and of UDP each.
const CLIENTS_PER_SECOND: i64 = 100;
const CLIENT_ADDRESS: &str = "10.9.1.7";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flood {
    Syns,
    /// Each with a segment behind it that acknowledges an answer which its sender has not seen.
    Handshakes,
    Acks,
    Resets,
    /// Datagrams that nodes answer.
    Questions,
    /// Datagrams that they do not.
    Noise,
    FirstFragments,
}

const ALL: [Flood; 7] = [
    Flood::Syns,
    Flood::Handshakes,
    Flood::Acks,
    Flood::Resets,
    Flood::Questions,
    Flood::Noise,
    Flood::FirstFragments,
];

impl Flood {
    /// Frames to be sent with another sender each.
    fn frames(self) -> Vec<Vec<u8>> {
        let client = from_client("10.8.0.1", "10.9.1.100");
        let segment = |flags: TcpFlags| {
            let fields = TcpFields {
                acknowledgement: 0x1234_5678,
                ..segment([1, 80], 77, flags)
            };
            client.tcp(&fields, &[])
        };
        match self {
            Self::Syns => vec![segment(TcpFlags::SYN)],
            Self::Handshakes => vec![segment(TcpFlags::SYN), {
                let fields = TcpFields {
                    acknowledgement: 0x1234_5678,
                    ..crate::bench::segment([1, 80], 78, TcpFlags::ACK)
                };
                client.tcp(&fields, &[])
            }],
            Self::Acks => vec![segment(TcpFlags::ACK)],
            Self::Resets => vec![segment(TcpFlags::RST)],
            Self::Questions => vec![client.udp(1, 53, b"question")],
            Self::Noise => vec![client.udp(1, 53, b"noise")],
            Self::FirstFragments => {
                let datagram = client.udp_datagram(1, 53, &[b'n'; 100]);
                vec![client.fragments(17, &datagram, 48).swap_remove(0)]
            }
        }
    }
}

/// A client that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Client {
    Waits,
    Served,
    Refused,
}

struct Simulation {
    bench: Bench,
    random: Random,
    /// What arrives when.
    coming: BTreeMap<(Nanoseconds, u64), (usize, Vec<u8>)>,
    count: u64,
    clients: HashMap<u16, Client>,
}

impl Simulation {
    fn new(settings: Settings, seed: u64) -> Self {
        Self {
            bench: Bench::new(settings),
            random: Random::new(seed),
            coming: BTreeMap::new(),
            count: 0,
            clients: HashMap::new(),
        }
    }

    fn send_at(&mut self, at: Nanoseconds, port: usize, bytes: Vec<u8>) {
        self.count += 1;
        self.coming.insert((at, self.count), (port, bytes));
    }

    /// A client begins: of TCP with an even port, of UDP with an odd one.
    fn begin(&mut self, port: u16) {
        self.clients.insert(port, Client::Waits);
        let from = from_client(CLIENT_ADDRESS, "10.9.1.100");
        let frame = match port % 2 {
            0 => from.tcp(&segment([port, 80], 1, TcpFlags::SYN), &[]),
            _ => from.udp(port, 53, b"question"),
        };
        self.send_at(self.bench.now, CLIENTS, frame);
    }

    /// All that is due until then.
    fn pass_until(&mut self, until: Nanoseconds) {
        loop {
            let next = self.coming.first_key_value().map(|(&(at, _), _)| at);
            let at = next.unwrap_or(until).min(until);
            if self.bench.nat.next_deadline().is_some_and(|due| due <= at) {
                let left = self.bench.pass((at - self.bench.now).max(0));
                left.into_iter()
                    .for_each(|(port, bytes)| self.take(port, &bytes));
                continue;
            }
            self.bench.now = at;
            let Some(first) = self
                .coming
                .first_entry()
                .filter(|each| each.key().0 <= until)
            else {
                return;
            };
            let (port, bytes) = first.remove();
            self.send(port, &bytes);
        }
    }

    fn send(&mut self, port: usize, bytes: &[u8]) {
        let left = self.bench.send(port, bytes);
        left.into_iter()
            .for_each(|(port, bytes)| self.take(port, &bytes));
    }

    /// A frame that left comes to a node or a client.
    fn take(&mut self, port: usize, bytes: &[u8]) {
        let now = self.bench.now;
        let answer = match port {
            NODES => self.answer_of_node(bytes).map(|frame| (now, NODES, frame)),
            _ => self
                .answer_of_client(bytes)
                .map(|frame| (now + ROUND_TRIP, CLIENTS, frame)),
        };
        if let Some((at, port, frame)) = answer {
            self.send_at(at, port, frame);
        }
    }

    fn answer_of_node(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let own = |ip: &lineside_wire::Ip| {
            FrameBuilder::new(ip.destination, ip.source)
                .with_link_addresses(node_ethernet(ip.destination), OURS[NODES])
        };
        match dissect(1, bytes, bytes.len()) {
            Dissected::Tcp(ip, tcp) => {
                let begins = tcp.flags.opens();
                if !begins && tcp.payload_len == 0 {
                    return None;
                }
                let fields = TcpFields {
                    source_port: tcp.destination_port,
                    destination_port: tcp.source_port,
                    sequence: match begins {
                        true => self.random.bits() as u32,
                        false => tcp.acknowledgement.0,
                    },
                    acknowledgement: (tcp.sequence + tcp.payload_len as u32 + u32::from(begins)).0,
                    flags: match begins {
                        true => TcpFlags::SYN | TcpFlags::ACK,
                        false => TcpFlags::ACK,
                    },
                    ..TcpFields::default()
                };
                let payload: &[u8] = if begins { b"" } else { b"an answer" };
                Some(own(&ip).tcp(&fields, payload))
            }
            Dissected::Udp(ip, udp) => {
                let asks = bytes[transport_at(bytes) + 8..].starts_with(b"question");
                let ports = (udp.destination_port, udp.source_port);
                asks.then(|| own(&ip).udp(ports.0, ports.1, b"an answer"))
            }
            _ => None,
        }
    }

    fn answer_of_client(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let to_client = address(CLIENT_ADDRESS);
        let (fields, port) = match dissect(1, bytes, bytes.len()) {
            Dissected::Tcp(ip, tcp) if ip.destination == to_client => {
                (Some(tcp), tcp.destination_port)
            }
            Dissected::Udp(ip, udp) if ip.destination == to_client => (None, udp.destination_port),
            _ => return None,
        };
        let client = self.clients.get_mut(&port)?;
        let Some(tcp) = fields else {
            *client = Client::Served;
            return None;
        };
        if tcp.flags.contains(TcpFlags::RST) {
            *client = Client::Refused;
        } else if tcp.payload_len > 0 {
            *client = Client::Served;
        } else if tcp.flags.opens() {
            let fields = TcpFields {
                acknowledgement: (tcp.sequence + 1).0,
                ..segment([port, 80], 2, TcpFlags::ACK)
            };
            let from = from_client(CLIENT_ADDRESS, "10.9.1.100");
            return Some(from.tcp(&fields, b"a request"));
        }
        None
    }

    /// A flood at this rate for so long, beside clients; how many were served, and how many asked.
    fn flood(&mut self, flood: Flood, per_second: i64, time: Nanoseconds) -> (usize, usize) {
        let mut frames = flood.frames();
        let end = self.bench.now + time;
        let step = SECOND / per_second;
        let client_step = SECOND / CLIENTS_PER_SECOND / 2;
        let (mut next_client, mut port) = (self.bench.now, 20_000);
        while self.bench.now < end {
            if self.bench.now >= next_client {
                self.begin(port);
                port += 1;
                next_client += client_step;
            }
            let sender = (self.random.bits() as u32 | 0x0100_0000) & 0x7fff_ffff;
            let source_port = self.random.bits() as u16 | 1;
            for frame in &mut frames {
                set_sender(frame, sender, source_port);
                let bytes = std::mem::take(frame);
                self.send(CLIENTS, &bytes);
                *frame = bytes;
            }
            let next = self.bench.now + step;
            self.pass_until(next);
        }
        let after = self.bench.now + 2 * SECOND;
        self.pass_until(after);
        self.bench.check_identity();
        let served = { self.clients.values() }.filter(|client| **client == Client::Served);
        (served.count(), self.clients.len())
    }
}

/// Changes who sends a frame, as whoever forges them does.
fn set_sender(frame: &mut [u8], address: u32, port: u16) {
    let source = std::net::Ipv4Addr::from_bits(address);
    let mut packet = ipv4::Packet::new_unchecked(&mut frame[14..34]);
    packet.set_source(source);
    packet.fill_checksum();
    let destination = packet.destination();
    frame[18..20].copy_from_slice(&(address as u16).to_be_bytes());
    ipv4::Packet::new_unchecked(&mut frame[14..34]).fill_checksum();
    frame[34..36].copy_from_slice(&port.to_be_bytes());
    match frame[23] {
        6 => tcp::Segment::new_unchecked(&mut frame[34..])
            .fill_checksum(source.into(), destination.into()),
        // A datagram may go without.
        _ => frame[40..42].fill(0),
    }
}

/// The defaults of the program, with a table that is full within the time of a test.
fn defaults() -> Settings {
    let mut settings = settings();
    settings.services.truncate(2);
    for service in &mut settings.services {
        service.nodes.truncate(1);
    }
    settings.connections_max = 65_536;
    settings.cookies_above = Some(0.25);
    settings
}

/// Of the flood's own rates the highest that are made here last long enough to fill the table.
const RATES: [(i64, Nanoseconds); 4] = [
    (1_000, SECOND),
    (10_000, SECOND),
    (100_000, SECOND),
    (400_000, 300 * MILLISECOND),
];

#[test]
fn clients_are_served_beside_floods_of_every_kind() {
    for flood in ALL {
        for (per_second, time) in RATES {
            let mut simulation = Simulation::new(defaults(), 3);
            let bench = &mut simulation.bench;
            let mut talks: Vec<Talk> = (0..20)
                .map(|number| Talk::open(bench, "10.9.1.8", "10.9.1.100", 4000 + number))
                .collect();
            let (served, asked) = simulation.flood(flood, per_second, time);
            let rest = simulation.bench.nat.report(simulation.bench.now).table;
            assert_eq!(
                served, asked,
                "{flood:?} at {per_second} a second: {rest:?}"
            );
            for talk in &mut talks {
                talk.say(&mut simulation.bench, b"still here");
                talk.answer(&mut simulation.bench, b"so am I");
            }
        }
    }
}

/// 3 Mb/s of SYNs: the port numbers of an address are used up before the table is full.
#[test]
fn a_slow_flood_of_syns_leaves_ports_for_clients() {
    let mut settings = defaults();
    settings.connections_max = 262_144;
    for cookies in [Some(0.25), None] {
        settings.cookies_above = cookies;
        let mut simulation = Simulation::new(settings.clone(), 5);
        let (served, asked) = simulation.flood(Flood::Syns, 6_400, 12 * SECOND);
        let table = simulation.bench.nat.report(simulation.bench.now).table;
        // Without cookies a handshake that is slower than the flood's turn through all ports is
        // lost: not one that takes 20 ms.
        assert_eq!(served, asked, "cookies {cookies:?}: {table:?}");
        assert_eq!(simulation.bench.outcome(Outcome::NoPort), 0);
        match cookies {
            Some(_) => assert!(table.cookies > 50_000 && table.evicted == 0, "{table:?}"),
            None => assert!(table.cookies == 0 && table.evicted > 10_000, "{table:?}"),
        }
    }
}

/// Those that were silent for a minute make room, and no other.
#[test]
fn connections_in_use_never_make_room() {
    let mut settings = defaults();
    settings.connections_max = 40;
    settings.cookies_above = None;
    let mut bench = Bench::new(settings);
    let mut talks: Vec<Talk> = (0..40)
        .map(|number| Talk::open(&mut bench, "10.9.1.7", "10.9.1.100", 4000 + number))
        .collect();
    bench.pass(59 * SECOND);
    for talk in &mut talks[..20] {
        talk.say(&mut bench, b"in use");
    }
    let syn = segment([9, 80], 1, TcpFlags::SYN);
    let syn = from_client("10.9.1.9", "10.9.1.100").tcp(&syn, &[]);
    assert_eq!(bench.send(CLIENTS, &syn), [], "59 s are no minute");
    bench.pass(4 * SECOND);
    let newcomers: Vec<Talk> = (0..20)
        .map(|number| Talk::open(&mut bench, "10.9.1.8", "10.9.1.100", 4000 + number))
        .collect();
    assert_eq!(bench.send(CLIENTS, &syn), [], "all are in use");
    for mut talk in newcomers {
        talk.say(&mut bench, b"here, too");
    }
    for talk in &mut talks[..20] {
        talk.say(&mut bench, b"still here");
        talk.answer(&mut bench, b"so am I");
    }
    assert_eq!(bench.nat.report(bench.now).table.evicted, 20);
    assert_eq!(bench.outcome(Outcome::TableFull), 2);
    bench.check_identity();
}

/// Ends of connections as `explain` names them.
fn is_there(bench: &Bench, port: u16, service: &str) -> bool {
    let client = SocketAddr::new(address("10.9.1.7"), port);
    let explained = bench.nat.explain(client, socket(service));
    explained.is_ok_and(|found| matches!(found.why, lineside_balancer::Why::Connection { .. }))
}

#[test]
fn what_would_be_missed_least_makes_room_first() {
    let mut settings = defaults();
    settings.connections_max = 5;
    settings.cookies_above = None;
    let mut bench = Bench::new(settings);
    let (web, names) = ("10.9.1.100:80", "10.9.1.100:53");
    let client = from_client("10.9.1.7", "10.9.1.100");
    // In the order against that in which they go.
    drop(Talk::open(&mut bench, "10.9.1.7", "10.9.1.100", 1));
    bench.pass(70 * SECOND);
    bench.send(CLIENTS, &client.udp(2, 53, b"noise"));
    bench.send(
        CLIENTS,
        &client.tcp(&segment([3, 80], 1, TcpFlags::SYN), &[]),
    );
    let (_, question) = bench.send_one(CLIENTS, &client.udp(4, 53, b"question"));
    bench.send(NODES, &answer_to(&question));
    Talk::open(&mut bench, "10.9.1.7", "10.9.1.100", 5).finish(&mut bench);
    let order = [(5, web), (4, names), (3, web), (2, names), (1, web)];
    for (at, (port, service)) in order.into_iter().enumerate() {
        assert!(is_there(&bench, port, service), "{port} before its turn");
        drop(Talk::open(
            &mut bench,
            "10.9.1.8",
            "10.9.1.100",
            100 + at as u16,
        ));
        assert!(!is_there(&bench, port, service), "{port} has made room");
        for (port, service) in &order[at + 1..] {
            assert!(is_there(&bench, *port, service), "{port} stays");
        }
    }
    let syn = client.tcp(&segment([9, 80], 1, TcpFlags::SYN), &[]);
    assert_eq!(bench.send(CLIENTS, &syn), [], "the rest is in use");
    assert_eq!(bench.outcome(Outcome::TableFull), 1);
}

/// What a driver forwards is not seen: whoever guesses a client's port could end its connection.
#[test]
fn forged_resets_end_no_connection_of_a_driver() {
    let mut settings = defaults();
    settings.connections_max = 4;
    settings.cookies_above = None;
    let mut bench = Bench::new(settings);
    let mut talk = Talk::open(&mut bench, "10.9.1.7", "10.9.1.100", 4000);
    let key = FlowKey {
        transport: Transport::Tcp,
        source: SocketAddr::new(address("10.9.1.7"), 4000),
        destination: socket("10.9.1.100:80"),
    };
    bench.nat.passed(bench.now, &key, 100, 100_000);
    let reset = segment([4000, 80], 0xdead_beef, TcpFlags::RST);
    talk.send_client(&mut bench, &reset, &[]);
    // Its node goes on.
    talk.answer(&mut bench, b"what reset?");
    let open = bench.nat.report(bench.now).services[0].connections;
    assert_eq!(open, 1, "it is open again");
    for number in 0..3 {
        drop(Talk::open(
            &mut bench,
            "10.9.1.8",
            "10.9.1.100",
            4000 + number,
        ));
    }
    let syn = segment([9, 80], 1, TcpFlags::SYN);
    let syn = from_client("10.9.1.9", "10.9.1.100").tcp(&syn, &[]);
    assert_eq!(bench.send(CLIENTS, &syn), [], "all are in use");
    talk.say(&mut bench, b"still here");
    // One that its node takes for the end, too, makes room.
    let reset = segment([4000, 80], talk.sent[0], TcpFlags::RST);
    talk.send_client(&mut bench, &reset, &[]);
    let open = |bench: &Bench| bench.nat.report(bench.now).services[0].connections;
    assert_eq!(open(&bench), 3, "and is not open");
    assert_eq!(bench.send(CLIENTS, &syn).len(), 1);
    assert_eq!(open(&bench), 4);
    bench.check_identity();
}

/// Each flow in a driver's table is calls into the kernel.
#[test]
fn a_flood_of_datagrams_does_not_reach_the_driver() {
    let mut settings = defaults();
    settings.connections_max = 10;
    let mut bench = Bench::new(settings);
    for sender in 0..10_u16 {
        let datagram = from_client("10.9.1.7", "10.9.1.100").udp(4000 + sender, 53, b"noise");
        (0..4).for_each(|_| drop(bench.send(CLIENTS, &datagram)));
    }
    let entered = { bench.decided.iter() }.filter(|each| matches!(each, Decision::Enter(_)));
    assert_eq!(entered.count(), 5);
}

#[test]
fn a_flood_leaves_affinity_to_clients_that_are_there() {
    let mut settings = defaults();
    settings.services[0].nodes = nodes(&["10.9.2.2:8080", "10.9.2.3:8080", "10.9.2.4:8080"]);
    settings.services[0].affinity = Some(600 * SECOND);
    settings.connections_max = 1_000;
    let mut simulation = Simulation::new(settings, 4);
    simulation.flood(Flood::Syns, 10_000, SECOND / 2);
    let bench = &mut simulation.bench;
    for number in 0..50 {
        let client = format!("10.9.1.{}", 10 + number);
        let node = served_by(bench, &client, 4000);
        assert_eq!(served_by(bench, &client, 4001), node, "{client}");
    }
}

/// The node of a connection, whose handshake may be answered in its place.
fn served_by(bench: &mut Bench, client: &str, port: u16) -> IpAddr {
    let from = from_client(client, "10.9.1.100");
    let syn = from.tcp(&segment([port, 80], 1, TcpFlags::SYN), &[]);
    let left = bench.send(CLIENTS, &syn);
    let Some((_, answer)) = left.iter().find(|(port, _)| *port == CLIENTS) else {
        panic!("a cookie: {left:?}");
    };
    let Dissected::Tcp(_, tcp) = dissect(1, answer, answer.len()) else {
        panic!("a segment");
    };
    let fields = TcpFields {
        acknowledgement: (tcp.sequence + 1).0,
        ..segment([port, 80], 2, TcpFlags::ACK)
    };
    let left = bench.send(CLIENTS, &from.tcp(&fields, &[]));
    let [.., (NODES, at_node)] = &left[..] else {
        panic!("the node gets a SYN: {left:?}");
    };
    let [seen_as, node] = ends(at_node);
    let Dissected::Tcp(_, tcp) = dissect(1, at_node, at_node.len()) else {
        panic!("a segment");
    };
    let answer = TcpFields {
        acknowledgement: (tcp.sequence + 1).0,
        ..segment([8080, seen_as.port()], 1, TcpFlags::SYN | TcpFlags::ACK)
    };
    let frame = FrameBuilder::new(node.ip(), seen_as.ip())
        .with_link_addresses(node_ethernet(node.ip()), OURS[NODES])
        .tcp(&answer, &[]);
    bench.send(NODES, &frame);
    node.ip()
}

/// A node that lies about all its connections takes no one else's, and stands in nobody's way.
#[test]
fn a_node_that_answers_rubbish_harms_its_own_alone() {
    let mut settings = defaults();
    settings.services[0].nodes = nodes(&["10.9.2.2:8080", "10.9.2.3:8080"]);
    settings.connections_max = 2_000;
    let mut bench = Bench::new(settings);
    let rubbish: IpAddr = address("10.9.2.3");
    let mut random = Random::new(9);
    let mut good = Vec::new();
    for number in 0..3_000_u16 {
        let (source, port) = (format!("10.7.{}.1", number % 200), 5_000 + number);
        let syn =
            from_client(&source, "10.9.1.100").tcp(&segment([port, 80], 0, TcpFlags::SYN), &[]);
        let left = bench.send(CLIENTS, &syn);
        let Some((_, at_node)) = left
            .iter()
            .find(|(port, bytes)| *port == NODES && bytes[47] & 2 != 0)
        else {
            continue;
        };
        let [seen_as, node] = ends(at_node);
        if node.ip() != rubbish {
            if good.len() < 20 {
                good.push((source, port));
            }
            continue;
        }
        for _ in 0..4 {
            let fields = TcpFields {
                source_port: node.port(),
                destination_port: match random.below(4) {
                    0 => random.bits() as u16,
                    _ => seen_as.port(),
                },
                sequence: random.bits() as u32,
                acknowledgement: [1, random.bits() as u32][random.below(2) as usize],
                flags: TcpFlags(random.bits() as u8),
                window: random.bits() as u16,
                ..TcpFields::default()
            };
            let mut frame = FrameBuilder::new(node.ip(), seen_as.ip())
                .with_link_addresses(node_ethernet(node.ip()), OURS[NODES])
                .tcp(&fields, &vec![0xff; random.below(200) as usize]);
            if random.below(3) == 0 {
                let at = 14 + random.below(frame.len() as u64 - 14) as usize;
                frame[at] ^= random.bits() as u8;
            }
            bench.send(NODES, &frame);
        }
        bench.check_identity();
    }
    bench.pass(SECOND);
    assert_eq!(good.len(), 20, "the other node has some");
    // Whoever comes now gets in, and the rubbish is over in time.
    let mut served = 0;
    for port in 1..40 {
        let syn = segment([port, 80], 0, TcpFlags::SYN);
        let frame = from_client("10.6.0.1", "10.9.1.100").tcp(&syn, &[]);
        served += usize::from(!bench.send(CLIENTS, &frame).is_empty());
    }
    assert_eq!(served, 39);
    bench.pass(10_000 * SECOND);
    assert_eq!(bench.nat.report(bench.now).table.connections, 0);
    bench.check_identity();
}
