//! Clients and nodes, real TCP endpoints, with the content switch between them, over links that
//! lose, reorder, duplicate and damage, in virtual time.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use lineside_account::Budget;
use lineside_balancer::proxy::{self, Counters, Offer, Rule, Rules};
use lineside_balancer::{
    Effects, Nat, NodeSettings, Outgoing, PortSettings, Service, Settings, Transport,
};
use lineside_frame::{Burst, Descriptor, Frame, LinkType, give_back};
use lineside_link::{Chance, Departure, Link, Loss, Settings as LinkSettings, words};
use lineside_tcp::{Closed, Config, ConnectionId, Event, Stack};
use lineside_time::Random;
use lineside_wire::build::{FrameBuilder, TcpFields};
use lineside_wire::{Dissected, TcpFlags, dissect};

const BEGIN: i64 = 1_790_000_000_000_000_000;
/// Of the port towards the client, and of the one towards the nodes.
const PORTS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 100], [2, 0, 0, 0, 0, 101]];
const STEPS_MAX: u32 = 2_000_000;

fn address(is_ipv4: bool, last: u8) -> IpAddr {
    match is_ipv4 {
        true => Ipv4Addr::new(10, 0, 0, last).into(),
        false => Ipv6Addr::from_bits(0xfd << 120 | u128::from(last)).into(),
    }
}

/// One end of a connection.
#[derive(Debug, Default)]
struct Half {
    says: Vec<u8>,
    announced: usize,
    step: usize,
    heard: Vec<u8>,
    is_open: bool,
    has_ended: bool,
    is_shut: bool,
    next_at: i64,
}

impl Half {
    /// A node answers once it has heard something, and ends after its client.
    fn may_speak(&self, is_client: bool) -> bool {
        let has_more = self.announced < self.says.len();
        let is_its_turn = is_client || !self.heard.is_empty() && (has_more || self.has_ended);
        self.is_open && !self.is_shut && is_its_turn
    }
}

/// A stack and its owner.
struct Host {
    stack: Stack,
    link_address: [u8; 6],
    inbox: Burst,
    owner: Owner,
}

#[derive(Default)]
struct Owner {
    frames: Vec<Frame>,
    halves: BTreeMap<ConnectionId, Half>,
    over: Vec<(Half, Closed)>,
    /// What a node answers.
    answer: Vec<u8>,
}

impl lineside_tcp::Effects for Owner {
    fn transmit(&mut self, frame: Frame, _: lineside_tcp::Departure) {
        self.frames.push(frame);
    }

    fn fill(&mut self, connection: ConnectionId, _: u32, offset: u64, bytes: &mut [u8]) {
        let says = &self.halves[&connection].says;
        bytes.copy_from_slice(&says[offset as usize..][..bytes.len()]);
    }

    fn on_event(&mut self, connection: ConnectionId, _: u32, event: Event<'_>) {
        let answer = &self.answer;
        let half = self.halves.entry(connection).or_insert_with(|| Half {
            says: answer.clone(),
            step: answer.len().div_ceil(3).max(1),
            ..Half::default()
        });
        match event {
            Event::Opened { .. } => half.is_open = true,
            Event::Stream(chunk) => half.heard.extend_from_slice(chunk.bytes()),
            Event::Ended => half.has_ended = true,
            Event::Acknowledged(_) => {}
            Event::Closed(why) => {
                let half = self.halves.remove(&connection).expect("it was there");
                self.over.push((half, why));
            }
        }
    }
}

impl Host {
    fn new(config: Config, seed: u64) -> Self {
        let link_address = config.link_address;
        let budget = Budget::new(64 << 20);
        let stack = Stack::new(config, [seed, !seed], &budget).expect("64 MiB are enough");
        Self {
            stack,
            link_address,
            inbox: Burst::new(),
            owner: Owner::default(),
        }
    }

    fn step(&mut self, now: i64, is_client: bool) {
        if !self.inbox.is_empty() {
            { &mut self.stack }.on_burst(now, &mut self.inbox, &mut self.owner);
        }
        if self.stack.next_deadline().is_some_and(|at| at <= now) {
            self.stack.on_timer(now, &mut self.owner);
        }
        let ids: Vec<_> = self.owner.halves.keys().copied().collect();
        for id in ids {
            let Some(half) = self.owner.halves.get_mut(&id) else {
                continue;
            };
            if half.next_at > now || !half.may_speak(is_client) {
                continue;
            }
            let len = half.step.min(half.says.len() - half.announced);
            if len > 0 {
                half.announced += len;
                half.next_at = now + 500_000;
                { &mut self.stack }
                    .send(now, id, len as u64, &mut self.owner)
                    .expect("it is open");
            } else {
                half.is_shut = true;
                { &mut self.stack }
                    .shutdown(now, id, &mut self.owner)
                    .expect("it is open");
            }
        }
    }

    fn next_deadline(&self, is_client: bool) -> Option<i64> {
        let halves = self.owner.halves.values();
        let own = halves
            .filter(|half| half.may_speak(is_client))
            .map(|half| half.next_at);
        own.chain(self.stack.next_deadline()).min()
    }
}

struct World {
    client: Host,
    nodes: Vec<Host>,
    nat: Nat,
    effects: Effects,
    /// Client to here, here to client, here to nodes, nodes to here.
    links: [Link<Frame>; 4],
    outs: [Vec<Departure<Frame>>; 4],
    now: i64,
    budget: Budget,
}

impl World {
    fn departed(&mut self, link: usize) -> Vec<Frame> {
        self.links[link].on_timer(self.now, &mut self.outs[link]);
        let now = self.now;
        let frames = self.outs[link].drain(..).map(|departure| {
            let mut frame = departure.item;
            frame.descriptor_mut().stamp_ns = Some(now);
            frame
        });
        frames.collect()
    }

    fn push(&mut self, link: usize, frame: Frame) {
        self.links[link].push(self.now, frame, &mut self.outs[link]);
    }

    fn step(&mut self) {
        let now = self.now;
        for frame in self.departed(1) {
            self.client.inbox.push(frame);
        }
        self.client.step(now, true);
        for frame in std::mem::take(&mut self.client.owner.frames) {
            self.push(0, frame);
        }
        for frame in self.departed(2) {
            let is_group = frame.bytes()[0] & 1 == 1;
            for node in &mut self.nodes {
                if is_group || node.link_address == frame.bytes()[..6] {
                    let copy = Frame::copied(frame.bytes(), *frame.descriptor());
                    node.inbox.push(copy);
                }
            }
        }
        for at in 0..self.nodes.len() {
            self.nodes[at].step(now, false);
            for frame in std::mem::take(&mut self.nodes[at].owner.frames) {
                self.push(3, frame);
            }
        }
        for (link, port) in [(0, 0), (3, 1)] {
            for frame in self.departed(link) {
                { &mut self.nat }.on_frame(now, port, frame, &mut self.effects);
            }
        }
        if self.nat.next_deadline().is_some_and(|at| at <= now) {
            self.nat.on_timer(now, &mut self.effects);
        }
        for Outgoing { port, frame } in std::mem::take(&mut self.effects.frames) {
            self.push(if port == 0 { 1 } else { 2 }, frame);
        }
    }

    fn run(&mut self) {
        for _ in 0..STEPS_MAX {
            self.step();
            let links = self.links.iter().filter_map(Link::next_deadline);
            let hosts = self.nodes.iter().map(|node| node.next_deadline(false));
            let next = links
                .chain(hosts.chain([self.client.next_deadline(true)]).flatten())
                .chain(self.nat.next_deadline())
                .min();
            match next {
                _ if self.outs.iter().any(|out| !out.is_empty()) => {}
                Some(next) => self.now = self.now.max(next),
                None => return,
            }
        }
        panic!("it does not come to rest");
    }
}

/// What a run is made of.
struct Plan {
    seed: u64,
    is_ipv4: bool,
    lossy: bool,
    requests: Vec<(Vec<u8>, usize)>,
    answer_len: usize,
    rules: Option<Rules>,
    groups: Vec<Vec<u8>>,
    nodes: Vec<Config>,
    client: Config,
    offer: Offer,
}

fn rules() -> Rules {
    let rule = |words, group| Rule::parse(words, group).expect("a rule");
    Rules {
        rules: vec![
            rule("host pics.example path /img/", 1),
            rule("path /img/", 1),
        ],
        default: Some(0),
    }
}

fn config(is_ipv4: bool, last: u8, random: &mut Random) -> Config {
    let address = address(is_ipv4, last);
    let window = [1 << 20, 1 << 18, 65_535, 20_000, 3_000][random.below(5) as usize];
    Config {
        receive_window_bytes: window,
        sack: random.chance(0.8),
        nagle: random.chance(0.3),
        delayed_ack_ns: [40_000_000, 1_000_000][random.below(2) as usize],
        ..Config::new([2, 0, 0, 0, 0, last], &[address])
    }
}

impl Plan {
    fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let is_ipv4 = random.chance(0.6);
        let mut client = config(is_ipv4, 1, &mut random);
        client.timestamps = random.chance(0.8);
        let count = 1 + random.below(4);
        let requests = (0..count).map(|_| {
            let path = ["/img/a.png", "/", "/imgx"][random.below(3) as usize];
            let mut bytes =
                format!("GET {path} HTTP/1.1\r\nHost: pics.example\r\n\r\n").into_bytes();
            // Pipelined data: what follows the first request.
            let more = [0, 10, 5_000, 40_000, 200_000][random.below(5) as usize];
            let begin = bytes.len();
            bytes.resize(begin + more, 0);
            random.fill(&mut bytes[begin..]);
            let step = [1, 7, 1000, usize::MAX][random.below(4) as usize];
            let step = if more > 1000 { step.max(1000) } else { step };
            (bytes, step)
        });
        let requests = requests.collect();
        Self {
            seed,
            is_ipv4,
            lossy: true,
            requests,
            answer_len: [1, 2000, 50_000, 300_000][random.below(4) as usize],
            rules: random.chance(0.7).then(rules),
            groups: vec![vec![2], vec![3]],
            nodes: [2, 3].map(|last| config(is_ipv4, last, &mut random)).into(),
            client,
            offer: Offer {
                window_scale: [0, 4, 7][random.below(3) as usize],
                sack: random.chance(0.9),
                ..Offer::default()
            },
        }
    }

    fn link(&self, at: u16, random: &mut Random) -> LinkSettings {
        let chance = |share| Chance {
            share: if self.lossy { share } else { 0.0 },
            ..Chance::default()
        };
        let share = |random: &mut Random, most: f64| random.below(1000) as f64 / 1000.0 * most;
        LinkSettings {
            loss: Loss::Random(chance(share(random, 0.04))),
            duplicate: chance(share(random, 0.03)),
            reorder: chance(share(random, 0.05)),
            // ARP has no checksum: a damaged answer would send a node's frames elsewhere for good.
            corrupt: chance(share(random, if at < 2 { 0.02 } else { 0.0 })),
            delay: words::delay(
                ["1ms", "20ms", "5ms 4ms distribution normal order reorder"]
                    [random.below(3) as usize],
                &mut words::no_files,
            )
            .expect("words of a delay"),
            ..LinkSettings::default()
        }
    }

    fn settings(&self, service: SocketAddr) -> Settings {
        let end = |last| SocketAddr::new(address(self.is_ipv4, last), 8080);
        let nodes = [2, 3].map(|last| NodeSettings {
            address: end(last),
            weight: 1,
        });
        let mut served = Service::new(Transport::Tcp, service, nodes.into());
        let groups = self
            .groups
            .iter()
            .map(|group| group.iter().map(|&last| end(last)).collect());
        served.splice = Some(proxy::Service {
            rules: self.rules.clone(),
            groups: groups.collect(),
            offer: self.offer,
        });
        Settings {
            ports: { PORTS.iter() }
                .map(|&ethernet| PortSettings {
                    name: "port".to_owned() + &ethernet[5].to_string(),
                    ethernet,
                    mtu: 1500,
                })
                .collect(),
            nat: vec![address(self.is_ipv4, 101)],
            services: vec![served],
            connections_max: 1000,
            seed: self.seed,
            ..Settings::default()
        }
    }

    fn world(&self) -> World {
        let mut random = Random::new(!self.seed);
        let service = SocketAddr::new(address(self.is_ipv4, 100), 80);
        let links =
            [0, 1, 2, 3].map(|at| Link::new(self.link(at, &mut random), self.seed, at, 64 << 20));
        let mut client = Host::new(self.client.clone(), self.seed);
        let mut nodes: Vec<_> = { self.nodes.iter() }
            .map(|config| Host::new(config.clone(), self.seed))
            .collect();
        client.stack.keep_neighbour(service.ip(), PORTS[0]);
        let answer: Vec<u8> = (0..self.answer_len)
            .map(|at| (at * 31 % 251) as u8)
            .collect();
        for node in &mut nodes {
            node.stack
                .keep_neighbour(address(self.is_ipv4, 101), PORTS[1]);
            node.owner.answer.clone_from(&answer);
            node.stack
                .listen(None, 8080, 0)
                .expect("nobody listens there");
        }
        let budget = Budget::new(64 << 20);
        let nat = Nat::new(self.settings(service), &budget).expect("the settings are right");
        let mut world = World {
            client,
            nodes,
            nat,
            effects: Effects::default(),
            links,
            outs: Default::default(),
            now: BEGIN,
            budget,
        };
        world.nat.begin(BEGIN, &mut world.effects);
        // The same of announcements.
        world.effects.frames.clear();
        for (bytes, step) in &self.requests {
            let local = (address(self.is_ipv4, 1), 0);
            let remote = (service.ip(), service.port());
            let host = &mut world.client;
            let id = host.stack.connect(BEGIN, local, remote, 0, &mut host.owner);
            let half = Half {
                says: bytes.clone(),
                step: *step,
                ..Half::default()
            };
            host.owner.halves.insert(id.expect("there is room"), half);
        }
        world
    }
}

/// Runs a plan whose connections all end well.
fn run(plan: &Plan) -> Counters {
    let mut world = plan.world();
    world.run();
    let seed = plan.seed;
    let over = &world.client.owner.over;
    assert_eq!(
        over.len(),
        plan.requests.len(),
        "seed {seed}: connections that ended"
    );
    for (half, why) in over {
        assert_eq!(half.heard.len(), plan.answer_len, "seed {seed}: {why:?}");
        let mut heard = half.heard.iter().enumerate();
        let is_right = heard.all(|(at, &byte)| byte == (at * 31 % 251) as u8);
        assert!(is_right, "seed {seed}: the answer differs");
    }
    let mut sent: Vec<_> = plan
        .requests
        .iter()
        .map(|(bytes, _)| bytes.clone())
        .collect();
    let nodes = world.nodes.iter().flat_map(|node| &node.owner.over);
    let mut heard: Vec<_> = nodes
        .map(|(half, _)| half.heard.clone())
        .filter(|heard| !heard.is_empty())
        .collect();
    sent.sort();
    heard.sort();
    let lens = |all: &[Vec<u8>]| all.iter().map(Vec::len).collect::<Vec<_>>();
    assert!(
        sent == heard,
        "seed {seed}: sent {:?}, heard {:?}",
        lens(&sent),
        lens(&heard)
    );
    if plan.rules.is_some() {
        let images = world.nodes[1]
            .owner
            .over
            .iter()
            .filter(|(half, _)| !half.heard.is_empty());
        for (half, _) in images {
            assert!(
                half.heard.starts_with(b"GET /img/"),
                "seed {seed}: a wrong node"
            );
        }
    }
    let splices = world.nat.splices().expect("a service is spliced");
    assert_eq!(splices.entries(), 0, "seed {seed}");
    let counters = splices.counters();
    let report = splices.report();
    assert!(report.is_whole(), "seed {seed}: {report:?}");
    assert_eq!(
        world.nat.report(world.now).table.connections,
        0,
        "seed {seed}"
    );
    drop(world.nat);
    drop(world.effects);
    drop((world.links, world.outs, world.client, world.nodes));
    give_back();
    assert_eq!(
        world.budget.used_bytes(),
        0,
        "seed {seed}: the budget is whole"
    );
    counters
}

#[test]
fn every_byte_arrives_through_a_splice() {
    let text = std::env::var("LINESIDE_SEEDS").unwrap_or_default();
    let bounds = text.split_once("..");
    let bounds = bounds.and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    let mut sum: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in bounds.map_or(0..200, |(from, to)| from..to) {
        for (name, count) in run(&Plan::draw(seed)).named() {
            *sum.entry(name).or_default() += count;
        }
    }
    println!("{sum:#?}");
    for name in [
        "cookies_sent",
        "matched",
        "unmatched",
        "spliced",
        "replayed_again",
    ] {
        assert!(sum[name] > 0, "no {name} in any run");
    }
}

/// Frames of a client's TCP to the service.
fn from_client(fields: &TcpFields<'_>, last: u32, payload: &[u8]) -> Frame {
    let client = Ipv4Addr::from_bits(0x0a01_0000 + last);
    let bytes = FrameBuilder::new(client.into(), address(true, 100))
        .with_link_addresses([2, 0, 0, 0, 0, 1], PORTS[0])
        .tcp(fields, payload);
    let descriptor = Descriptor {
        wire_len: bytes.len() as u32,
        link_type: LinkType::ETHERNET,
        ..Descriptor::default()
    };
    Frame::copied(&bytes, descriptor)
}

fn switched() -> (Nat, Budget) {
    let mut plan = Plan::draw(1);
    (plan.is_ipv4, plan.rules) = (true, Some(rules()));
    let budget = Budget::new(64 << 20);
    let service = SocketAddr::new(address(true, 100), 80);
    let nat = Nat::new(plan.settings(service), &budget).expect("the settings are right");
    (nat, budget)
}

/// The number that answers a SYN.
fn answer_of(effects: &mut Effects) -> u32 {
    let frames = std::mem::take(&mut effects.frames);
    let [Outgoing { port: 0, frame }] = &frames[..] else {
        panic!("{} frames", frames.len());
    };
    let bytes = frame.bytes();
    match dissect(1, bytes, bytes.len()) {
        Dissected::Tcp(_, tcp) if tcp.flags == TcpFlags::SYN | TcpFlags::ACK => tcp.sequence.0,
        other => panic!("{other:?}"),
    }
}

const SYN: TcpFields<'_> = TcpFields {
    source_port: 4711,
    destination_port: 80,
    sequence: 77,
    acknowledgement: 0,
    flags: TcpFlags::SYN,
    window: 1000,
    options: &[],
};

#[test]
fn a_flood_of_syns_leaves_nothing_behind() {
    let (mut nat, budget) = switched();
    let mut effects = Effects::default();
    { &mut nat }.on_frame(BEGIN, 0, from_client(&SYN, 7, &[]), &mut effects);
    effects.frames.clear();
    let before = budget.used_bytes();
    for number in 0..1_000_000 {
        let fields = TcpFields {
            source_port: (number % 60_000) as u16,
            sequence: number,
            ..SYN
        };
        let now = BEGIN + i64::from(number) * 1000;
        { &mut nat }.on_frame(now, 0, from_client(&fields, number, &[]), &mut effects);
        assert_eq!(effects.frames.len(), 1);
        effects.frames.clear();
    }
    assert_eq!(budget.used_bytes(), before);
    let splices = nat.splices().expect("a service is spliced");
    assert_eq!(
        (splices.entries(), splices.counters().cookies_sent),
        (0, 1_000_001)
    );
    assert_eq!(nat.report(BEGIN).table.connections, 0);
}

#[test]
fn only_a_cookie_that_holds_makes_an_entry() {
    /// Later than the answer, what is added to its number, and whether that makes an entry.
    const CASES: [(i64, u32, u32, bool); 5] = [
        (0, 1, 0, true),
        (60, 1, 0, true),
        (0, 2, 0, false),
        (0, 1, 1, false),
        (200, 1, 0, false),
    ];
    for (seconds, ahead, other_port, makes) in CASES {
        let (mut nat, _) = switched();
        let mut effects = Effects::default();
        { &mut nat }.on_frame(BEGIN, 0, from_client(&SYN, 7, &[]), &mut effects);
        let fields = TcpFields {
            source_port: SYN.source_port + other_port as u16,
            sequence: SYN.sequence + 1,
            acknowledgement: answer_of(&mut effects).wrapping_add(ahead),
            flags: TcpFlags::ACK,
            ..SYN
        };
        let now = BEGIN + seconds * 1_000_000_000;
        { &mut nat }.on_frame(now, 0, from_client(&fields, 7, &[]), &mut effects);
        let splices = nat.splices().expect("a service is spliced");
        assert_eq!(
            splices.entries(),
            usize::from(makes),
            "{seconds} s, {ahead}, {other_port}"
        );
        if !makes {
            continue;
        }
        // A client that says nothing is reset in the end.
        effects.frames.clear();
        let due = nat.next_deadline().expect("it waits for the request");
        nat.on_timer(due, &mut effects);
        assert_eq!(effects.frames.len(), 1);
        let splices = nat.splices().expect("a service is spliced");
        assert_eq!(
            (splices.entries(), splices.counters().request_timeouts),
            (0, 1)
        );
    }
}
