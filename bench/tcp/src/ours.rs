//! Two stacks of ours.

use std::net::IpAddr;

use lineside_account::Budget;
use lineside_frame::Frame;
use lineside_tcp::{Closed, Config, ConnectionId, Departure, Effects, Event, Prefix, Stack};
use lineside_time::Random;

use crate::{MESSAGE, TEXT_LEN, cpu, each, fill, sum, text};

const PORT: u16 = 7;
/// The client's addresses, one after the other.
const ADDRESSES: usize = 32;
/// Ports of each that are used.
const PORTS: usize = 1 << 15;
const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 2, 0, 1));

/// What the ends' owners do: return what comes, or only count and sum it.
struct Owner {
    frames: Vec<Frame>,
    text: [u8; 2 * TEXT_LEN],
    opened: Vec<ConnectionId>,
    /// Bytes that came, of which connections.
    came: Vec<(ConnectionId, u64)>,
    ended: Vec<ConnectionId>,
    received: u64,
    acknowledged: u64,
    closed: u64,
    sum: u64,
}

impl Effects for Owner {
    #[inline]
    fn transmit(&mut self, frame: Frame, _: Departure) {
        self.frames.push(frame);
    }

    #[inline]
    fn fill(&mut self, _: ConnectionId, _: u32, offset: u64, bytes: &mut [u8]) {
        fill(&self.text, offset, bytes);
    }

    #[inline]
    fn on_event(&mut self, connection: ConnectionId, _: u32, event: Event<'_>) {
        match event {
            Event::Stream(chunk) => {
                let bytes = chunk.bytes();
                self.received += bytes.len() as u64;
                self.sum = self.sum.wrapping_add(sum(bytes));
                self.came.push((connection, bytes.len() as u64));
            }
            Event::Acknowledged(bytes) => self.acknowledged += bytes,
            Event::Opened { .. } => self.opened.push(connection),
            Event::Ended => self.ended.push(connection),
            Event::Closed(why) => {
                assert_eq!(why, Closed::Finished);
                self.closed += 1;
            }
        }
    }
}

struct End {
    stack: Stack,
    owner: Owner,
    budget: Budget,
}

impl End {
    fn new(number: u8, active_max: u32) -> Self {
        let address = IpAddr::from([10, number, 0, 1]);
        let mut config = Config::new([2, 0, 0, 0, 0, number], &[address]);
        config.addresses = vec![Prefix { address, len: 16 }];
        config.active_max = active_max;
        let budget = Budget::new(4 << 30);
        let secret = [u64::from(number), 0x5eed];
        let stack = Stack::new(config, secret, &budget).expect("it fits");
        let owner = Owner {
            frames: Vec::new(),
            text: text(),
            opened: Vec::new(),
            came: Vec::new(),
            ended: Vec::new(),
            received: 0,
            acknowledged: 0,
            closed: 0,
            sum: 0,
        };
        Self {
            stack,
            owner,
            budget,
        }
    }

    /// Takes what the other end sent, and does what is due.
    fn turn(&mut self, now: i64, other: &mut Self) {
        if !other.owner.frames.is_empty() {
            self.stack
                .on_burst(now, &mut other.owner.frames, &mut self.owner);
        }
        if self.stack.next_deadline().is_some_and(|at| at <= now) {
            self.stack.on_timer(now, &mut self.owner);
        }
    }

    /// Sends as much as came back to where it came from.
    fn echo(&mut self, now: i64) {
        let mut came = std::mem::take(&mut self.owner.came);
        for (connection, len) in came.drain(..) {
            let sent = self.stack.send(now, connection, len, &mut self.owner);
            sent.expect("it is open");
        }
        self.owner.came = came;
    }
}

/// Two ends and the wire between them.
struct Pair {
    client: End,
    server: End,
    now: i64,
}

impl Pair {
    fn new(active_max: u32) -> Self {
        let mut server = End::new(2, active_max);
        server.stack.listen(None, PORT, 0).expect("it is free");
        Self {
            client: End::new(1, active_max),
            server,
            now: 1_700_000_000_000_000_000,
        }
    }

    fn connect(&mut self, number: usize) -> ConnectionId {
        let host = number / PORTS % ADDRESSES + 1;
        let local = IpAddr::from([10, 1, 0, host as u8]);
        let port = (number % PORTS) as u16 + 1024;
        let connected = self.client.stack.connect(
            self.now,
            (local, port),
            (SERVER, PORT),
            0,
            &mut self.client.owner,
        );
        connected.expect("there is room")
    }

    /// Lets frames go to and fro until there are none.
    fn exchange(&mut self) {
        while !(self.client.owner.frames.is_empty() && self.server.owner.frames.is_empty()) {
            self.server.turn(self.now, &mut self.client);
            self.client.turn(self.now, &mut self.server);
        }
    }

    /// Opens connections, and lets them come to rest.
    fn open(&mut self, count: usize) -> Vec<ConnectionId> {
        let connections = (0..count).map(|number| {
            self.now += 1000;
            let connection = self.connect(number);
            self.exchange();
            connection
        });
        let connections = connections.collect();
        self.now += 100_000_000;
        self.server.turn(self.now, &mut self.client);
        self.client.turn(self.now, &mut self.server);
        self.exchange();
        assert_eq!(self.server.stack.connections(), count);
        assert_eq!(self.client.owner.opened.len(), count);
        connections
    }

    /// A request on each of these connections, and its answer.
    #[inline(never)]
    fn trip(&mut self, connections: &[ConnectionId]) {
        let Self {
            client,
            server,
            now,
        } = self;
        for &connection in connections {
            let sent = client
                .stack
                .send(*now, connection, MESSAGE as u64, &mut client.owner);
            sent.expect("it is open");
        }
        server.turn(*now, client);
        server.echo(*now);
        client.turn(*now, server);
        client.owner.came.clear();
    }
}

/// Nanoseconds a round trip, on `at_once` random ones of so many connections, `pace_ns` apart.
pub(crate) fn trips(connections: u64, at_once: usize, pace_ns: i64) -> f64 {
    let mut pair = Pair::new(1 << 20);
    let ids = pair.open(connections as usize);
    let mut random = Random::new(1);
    let mut chosen = Vec::new();
    let turns = 1_000_000 / at_once as u64;
    let mut turn = |pair: &mut Pair| {
        chosen.clear();
        for _ in 0..at_once {
            chosen.push(ids[random.below(connections) as usize]);
        }
        // One is asked once at a time.
        chosen.sort_unstable();
        chosen.dedup();
        pair.now += pace_ns;
        pair.trip(&chosen);
        chosen.len() as u64
    };
    let mut warm = 0;
    while warm < 200_000.min(connections.max(20_000)) {
        warm += turn(&mut pair);
    }
    let (before, began) = (pair.client.owner.received, cpu());
    for _ in 0..turns {
        turn(&mut pair);
    }
    let spent = cpu() - began;
    let trips = (pair.client.owner.received - before) / MESSAGE as u64;
    assert!(trips > turns / 2, "{trips}");
    spent.as_nanos() as f64 / trips as f64
}

/// 10,000 round trips for callgrind, which counts what happens in [`Pair::trip`].
pub(crate) fn count(connections: u64) {
    let mut pair = Pair::new(1 << 16);
    let ids = pair.open(connections as usize);
    for turn in 0..10_000 {
        pair.now += 1000;
        let at = turn * 7919 % ids.len();
        pair.trip(&ids[at..=at]);
    }
    assert_eq!(pair.client.owner.received, 10_000 * MESSAGE as u64);
}

/// Gb/s of one connection.
pub(crate) fn bulk() -> f64 {
    /// Frames that a port takes at once.
    const BURST: usize = 64;
    const BYTES: u64 = 2 << 30;
    let mut pair = Pair::new(64);
    let id = pair.open(1)[0];
    let Pair {
        client,
        server,
        now,
    } = &mut pair;
    let mut wire = std::collections::VecDeque::new();
    let mut burst = Vec::new();
    let began = cpu();
    client
        .stack
        .send(*now, id, BYTES, &mut client.owner)
        .expect("it is open");
    while server.owner.received < BYTES {
        wire.extend(client.owner.frames.drain(..));
        let count = wire.len().min(BURST);
        burst.extend(wire.drain(..count));
        *now += 100 * count as i64 + 1000;
        server.stack.on_burst(*now, &mut burst, &mut server.owner);
        server.owner.came.clear();
        let turn = |end: &mut End| {
            if end.stack.next_deadline().is_some_and(|at| at <= *now) {
                end.stack.on_timer(*now, &mut end.owner);
            }
        };
        turn(server);
        client.turn(*now, server);
    }
    let seconds = (cpu() - began).as_secs_f64();
    let counters = client.stack.counters();
    assert_eq!(counters.retransmitted_fast + counters.timeouts, 0);
    assert_ne!(server.owner.sum, 0);
    BYTES as f64 * 8.0 / seconds / 1e9
}

/// Nanoseconds of a connection from its beginning to its end.
pub(crate) fn opens() -> f64 {
    let mut pair = Pair::new(64);
    let mut number = 0;
    let mut turn = |pair: &mut Pair| {
        number += 1;
        pair.now += 3000;
        let id = pair.connect(number);
        pair.server.turn(pair.now, &mut pair.client);
        pair.client.turn(pair.now, &mut pair.server);
        let Pair {
            client,
            server,
            now,
        } = pair;
        client
            .stack
            .send(*now, id, MESSAGE as u64, &mut client.owner)
            .expect("it is open");
        server.turn(*now, client);
        server.echo(*now);
        client.turn(*now, server);
        client
            .stack
            .shutdown(*now, id, &mut client.owner)
            .expect("it is open");
        server.turn(*now, client);
        while let Some(ended) = server.owner.ended.pop() {
            server
                .stack
                .shutdown(*now, ended, &mut server.owner)
                .expect("it is open");
        }
        client.turn(*now, server);
        server.turn(*now, client);
        assert_eq!(
            [client.owner.closed, server.owner.closed],
            [number as u64; 2]
        );
        client.owner.came.clear();
        for end in [client, server] {
            end.owner.opened.clear();
            end.owner.ended.clear();
        }
    };
    // Until TIME_WAIT is full, so that each of them makes room for another one.
    each(300_000, || turn(&mut pair));
    each(200_000, || turn(&mut pair))
}

/// Bytes a connection at rest: by the budget, and resident.
pub(crate) fn at_rest(connections: u64) -> (f64, f64) {
    let mut pair = Pair::new(1 << 16);
    let before = resident();
    pair.open(connections as usize);
    let Pair { client, server, .. } = &mut pair;
    for end in [&mut *client, &mut *server] {
        assert_eq!(end.stack.active(), 0, "at rest");
        end.owner.opened = Vec::new();
        end.owner.frames = Vec::new();
    }
    let resident = resident() - before;
    let drawn = client.budget.used_bytes().max(server.budget.used_bytes());
    let each = |bytes: usize| bytes as f64 / connections as f64;
    (each(drawn), each(resident) / 2.0)
}

/// Resident bytes of this process, after what is free went back.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("a process has one");
    let pages: usize = { status.split(' ').nth(1) }
        .and_then(|pages| pages.parse().ok())
        .expect("pages");
    pages * rustix::param::page_size()
}
