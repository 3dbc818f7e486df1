//! The clients, the server, a link each way, and the time.

use std::cmp::Reverse;
use std::net::IpAddr;

use lineside_frame::{Frame, give_back};
use lineside_link::{Departure, Link};
use lineside_tcp::Counters;

use crate::ClientEnd;
use crate::edges::Edges;
use crate::host::{Host, PORT};
use crate::scenario::{Change, Scenario, Talk, may_break};
use crate::tap::Tap;

/// When runs begin: some time after the epoch, so that no clock is 0.
const BEGIN_NS: i64 = 1_790_000_000_000_000_000;
/// A run that takes longer, after the last change of its links, is stuck.
const REST_NS: i64 = 3_600_000_000_000;
/// So is one of more steps, for each hour that it may take.
const STEPS_MAX: u64 = 4_000_000;
/// A stack keeps the end of TIME-WAIT in units of two milliseconds.
const TIME_WAIT_UNIT_NS: i64 = 2_000_000;
/// Memory of a link: more than any queue here needs.
const LINK_BYTES: usize = 64 << 20;
/// Each client's first port.
const CLIENT_PORT: u16 = 1000;

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Of each client's stack, and of the server's last.
    pub counters: Vec<Counters>,
    /// How long it took, TIME_WAIT included.
    pub took_ns: i64,
    /// Frames that the links lost.
    pub lost: u64,
    /// At each time of `sample_ns`: how much of each talk the server had received.
    pub samples: Vec<Vec<u64>>,
    /// How often the tap saw clients, and the server, wait for room in the other's window.
    pub window_waits: [u64; 2],
}

struct World {
    clients: Vec<Host>,
    server: Host,
    to_server: Way,
    to_clients: Way,
    /// What names each talk's connection.
    ends: Vec<ClientEnd>,
    tap: Tap,
    edges: Edges,
    samples: Vec<Vec<u64>>,
    now: i64,
}

/// A link.
struct Way {
    link: Link<Frame>,
    /// Frames that left it.
    out: Vec<Departure<Frame>>,
}

/// Runs a scenario; an error says what is wrong, and with which seed.
pub fn run(scenario: &Scenario) -> Result<Outcome, String> {
    let seed = scenario.seed;
    let mut world = World::new(scenario);
    world
        .run(scenario)
        .and_then(|()| world.finish(scenario))
        .map_err(|error| format!("seed {seed}: {error}"))
}

impl World {
    fn new(scenario: &Scenario) -> Self {
        let seed = scenario.seed;
        let way = |at: usize| Way {
            link: Link::new(scenario.links[at].clone(), seed, at as u16, LINK_BYTES),
            out: Vec::new(),
        };
        let seeds = (seed ^ 0xc11e..).step_by(1 << 16);
        let clients = scenario.clients.iter().zip(seeds);
        Self {
            clients: clients
                .map(|((_, config), seed)| Host::new(config.clone(), seed, false))
                .collect(),
            server: Host::new(scenario.server.1.clone(), seed ^ 0x5e17, true),
            to_server: way(0),
            to_clients: way(1),
            ends: ends(scenario),
            tap: Tap::new(),
            edges: Edges::default(),
            samples: Vec::new(),
            now: BEGIN_NS,
        }
    }

    fn run(&mut self, scenario: &Scenario) -> Result<(), String> {
        let mut talks: Vec<_> = (0..).zip(&scenario.talks).collect();
        talks.sort_by_key(|(_, talk)| Reverse(talk.begins_ns));
        let mut changes = scenario.changes.iter().peekable();
        let last_ns = scenario.changes.last().map_or(0, |change| change.at_ns);
        let hours = (last_ns / REST_NS).cast_unsigned() + 1;
        for _ in 0..STEPS_MAX * hours {
            let next_talk = talks.last().map(|(_, talk)| BEGIN_NS + talk.begins_ns);
            let Some(next) = self.next_deadline().into_iter().chain(next_talk).min() else {
                return Ok(());
            };
            if let Some(change) = changes.next_if(|change| BEGIN_NS + change.at_ns <= next) {
                self.change(change);
                continue;
            }
            self.sample(scenario.sample_ns, next);
            self.now = self.now.max(next);
            if self.now > BEGIN_NS + last_ns + REST_NS {
                return Err(format!("it does not end: {:?}", self.halves()));
            }
            if next_talk.is_some_and(|at| at <= self.now)
                && let Some((number, talk)) = talks.pop()
            {
                self.begin(self.ends[number], scenario.server.0, talk);
            }
            self.step();
            if let Some(error) = self.hosts().flat_map(|host| &host.owner.errors).next() {
                return Err(error.clone());
            }
        }
        Err(format!("it takes too many steps: {:?}", self.halves()))
    }

    /// The clients, and the server.
    fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.clients.iter().chain([&self.server])
    }

    fn halves(&self) -> Vec<String> {
        self.hosts()
            .map(|host| format!("{:?}", host.owner.halves))
            .collect()
    }

    fn next_deadline(&self) -> Option<i64> {
        let ways = [&self.to_server, &self.to_clients];
        if ways.iter().any(|way| !way.out.is_empty()) {
            return Some(self.now);
        }
        let ways = ways.into_iter().filter_map(|way| way.link.next_deadline());
        ways.chain(self.hosts().filter_map(Host::next_deadline))
            .min()
    }

    /// Nothing happens before `next`: what was received at the times of samples up to it.
    fn sample(&mut self, sample_ns: Option<i64>, next: i64) {
        let Some(sample_ns) = sample_ns else {
            return;
        };
        while BEGIN_NS + (self.samples.len() as i64 + 1) * sample_ns <= next {
            let received = &self.server.owner.received;
            let of_talks = { self.ends.iter() }.map(|end| received.get(end).copied().unwrap_or(0));
            self.samples.push(of_talks.collect());
        }
    }

    fn begin(&mut self, end: ClientEnd, server: IpAddr, talk: &Talk) {
        self.server.owner.plan.insert(end, talk.sides);
        self.clients[talk.client].connect(self.now, [end, (server, PORT)], talk.sides);
    }

    /// The links have other settings from now on.
    fn change(&mut self, change: &Change) {
        self.now = self.now.max(BEGIN_NS + change.at_ns);
        let ways = [&mut self.to_server, &mut self.to_clients];
        for (way, settings) in ways.into_iter().zip(&change.links) {
            let settings = Some(settings.clone());
            way.link.change(self.now, settings, &mut way.out);
        }
    }

    /// What is due now happens.
    fn step(&mut self) {
        let now = self.now;
        for frame in self.to_clients.departed(now) {
            // The lowest bit of the first byte is that of groups, the broadcast address among them.
            if frame.bytes()[0] & 1 == 1 {
                for client in &mut self.clients {
                    let copy = Frame::copied(frame.bytes(), *frame.descriptor());
                    client.inbox.push(copy);
                }
                continue;
            }
            // A damaged address may be nobody's.
            let mut clients = self.clients.iter_mut();
            if let Some(client) = clients.find(|client| client.is_for(&frame)) {
                client.inbox.push(frame);
            }
        }
        for client in &mut self.clients {
            client.step(now);
            for frame in client.owner.frames.drain(..) {
                self.edges.see(false, &frame);
                self.to_server.push(now, frame);
            }
        }
        for frame in self.to_server.departed(now) {
            self.tap.see(now, &frame);
            self.server.inbox.push(frame);
        }
        self.server.step(now);
        for frame in self.server.owner.frames.drain(..) {
            self.edges.see(true, &frame);
            self.tap.see(now, &frame);
            self.to_clients.push(now, frame);
        }
    }

    fn finish(self, scenario: &Scenario) -> Result<Outcome, String> {
        for (at, client) in self.clients.iter().enumerate() {
            let talks = scenario.talks.iter().filter(|talk| talk.client == at);
            check_rest(client, talks).map_err(|error| format!("client {at}: {error}"))?;
        }
        check_rest(&self.server, scenario.talks.iter())
            .map_err(|error| format!("server: {error}"))?;
        self.check_forgotten()?;
        let counters = self.hosts().map(|host| host.stack.counters()).collect();
        self.edges.finish()?;
        let talks = || self.ends.iter().copied().zip(&scenario.talks);
        let broken = talks().filter_map(|(end, talk)| may_break(&talk.sides).then_some(end));
        let (seen, window_waits) = self.tap.finish(&broken.collect::<Vec<_>>())?;
        for (end, talk) in talks().filter(|(_, talk)| !may_break(&talk.sides)) {
            let bytes = talk.sides.map(|side| side.bytes);
            let seen = seen.get(&end);
            if seen != Some(&bytes) {
                return Err(format!("the tap saw {seen:?} of {bytes:?} of {end:?}"));
            }
        }
        let ways = [self.to_server, self.to_clients];
        let lost = { ways.iter() }
            .map(|way| way.link.counters().dropped.loss)
            .sum();
        let hosts = self.clients.into_iter().chain([self.server]);
        let budgets: Vec<_> = hosts.map(|host| host.budget).collect();
        drop(ways);
        give_back();
        let used: Vec<_> = budgets.iter().map(|budget| budget.used_bytes()).collect();
        if used.iter().any(|&used| used > 0) {
            return Err(format!("{used:?} bytes are still drawn"));
        }
        Ok(Outcome {
            counters,
            took_ns: self.now - BEGIN_NS,
            lost,
            samples: self.samples,
            window_waits,
        })
    }

    /// An end in TIME-WAIT (RFC 9293, 3.6.1) cannot wait for ever: if its last acknowledgements are
    /// lost, and the next retransmission comes later, it answers with an RST (3.10.7.1). Such a
    /// reset is no fault if that end has everything, and has waited its time.
    fn check_forgotten(&self) -> Result<(), String> {
        let was_whole_before = |client: &ClientEnd, at: i64| {
            self.hosts().any(|host| {
                let whole_at = host.owner.whole.get(client);
                let waited_ns = host.time_wait_ns - TIME_WAIT_UNIT_NS;
                whole_at.is_some_and(|whole_at| at >= whole_at + waited_ns)
            })
        };
        let mut forgotten = self.hosts().flat_map(|host| &host.owner.forgotten);
        match forgotten.find(|(client, at, _)| !was_whole_before(client, *at)) {
            Some((_, _, error)) => Err(error.clone()),
            None => Ok(()),
        }
    }
}

impl Way {
    fn push(&mut self, now: i64, frame: Frame) {
        self.link.push(now, frame, &mut self.out);
    }

    /// Frames that leave by now, each with the time at which it did.
    fn departed(&mut self, now: i64) -> impl Iterator<Item = Frame> {
        self.link.on_timer(now, &mut self.out);
        self.out.drain(..).map(|departure| {
            let mut frame = departure.item;
            frame.descriptor_mut().stamp_ns = Some(departure.at_ns);
            frame
        })
    }
}

/// The client's end of each talk.
fn ends(scenario: &Scenario) -> Vec<ClientEnd> {
    let mut ports = vec![CLIENT_PORT..; scenario.clients.len()];
    let ends = scenario.talks.iter().map(|talk| {
        let port = ports[talk.client].next().expect("ports are many");
        (scenario.clients[talk.client].0, port)
    });
    ends.collect()
}

/// Whether a host's counters add up and it has nothing left of its talks.
fn check_rest<'a>(host: &Host, talks: impl Iterator<Item = &'a Talk>) -> Result<(), String> {
    let stack = &host.stack;
    if let Some(broken) = stack.counters().broken_identity() {
        return Err(broken);
    }
    let left = [stack.connections(), stack.active(), stack.time_waits()];
    if left != [0; 3] || !host.owner.halves.is_empty() {
        return Err(format!("left over: {left:?}, {:?}", host.owner.halves));
    }
    let (mut whole, mut all) = (0, 0);
    for talk in talks {
        whole += usize::from(!may_break(&talk.sides));
        all += 1;
    }
    let closed = host.owner.closed;
    if !(whole..=all).contains(&closed) {
        return Err(format!("{closed} of {all} are over"));
    }
    Ok(())
}
