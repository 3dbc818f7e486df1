//! Two hosts, a link each way, and the time.

use lineside_frame::{Burst, Frame, give_back};
use lineside_link::{Departure, Link};
use lineside_tcp::Counters;

use crate::edges::Edges;
use crate::host::{Host, PORT};
use crate::scenario::{Scenario, may_break};
use crate::tap::Tap;

/// When runs begin: some time after the epoch, so that no clock is 0.
const BEGIN_NS: i64 = 1_790_000_000_000_000_000;
/// A run that takes longer is stuck.
const END_NS: i64 = BEGIN_NS + 3_600_000_000_000;
/// So is one of more steps.
const STEPS_MAX: u64 = 4_000_000;
/// Memory of a link: more than any queue here needs.
const LINK_BYTES: usize = 64 << 20;
/// The client's first port.
const CLIENT_PORT: u16 = 1000;

/// What came of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Of the client's and the server's stack.
    pub counters: [Counters; 2],
    /// How long it took, TIME_WAIT included.
    pub took_ns: i64,
    /// Frames that the links lost.
    pub lost: u64,
}

struct World {
    hosts: [Host; 2],
    links: [Link<Frame>; 2],
    /// Frames that left each link.
    out: [Vec<Departure<Frame>>; 2],
    burst: Burst,
    tap: Tap,
    edges: Edges,
    now: i64,
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
        let [client, server] = scenario.configs.clone();
        let seed = scenario.seed;
        let link = |at: usize| {
            let settings = scenario.links[at].clone();
            Link::new(settings, seed, at as u16, LINK_BYTES)
        };
        Self {
            hosts: [
                Host::new(client, seed ^ 0xc11e, false),
                Host::new(server, seed ^ 0x5e17, true),
            ],
            links: [link(0), link(1)],
            out: [Vec::new(), Vec::new()],
            burst: Burst::new(),
            tap: Tap::new(),
            edges: Edges::default(),
            now: BEGIN_NS,
        }
    }

    fn run(&mut self, scenario: &Scenario) -> Result<(), String> {
        let mut talks: Vec<_> = scenario.talks.iter().enumerate().collect();
        talks.sort_by_key(|(_, talk)| std::cmp::Reverse(talk.0));
        for _ in 0..STEPS_MAX {
            let next_talk = talks.last().map(|(_, talk)| BEGIN_NS + talk.0);
            let deadlines = [
                next_talk,
                self.links[0].next_deadline(),
                self.links[1].next_deadline(),
                self.hosts[0].next_deadline(),
                self.hosts[1].next_deadline(),
            ];
            let has_out = self.out.iter().any(|out| !out.is_empty());
            let next = deadlines.into_iter().flatten().min();
            let next = if has_out { Some(self.now) } else { next };
            let Some(next) = next else {
                return Ok(());
            };
            self.now = self.now.max(next);
            if self.now > END_NS {
                return Err(format!("it does not end: {:?}", self.talks()));
            }
            if next_talk.is_some_and(|at| at <= self.now)
                && let Some((number, (_, sides))) = talks.pop()
            {
                let port = CLIENT_PORT + number as u16;
                let ends = [(scenario.client, port), (scenario.server, PORT)];
                self.hosts[1].owner.plan.insert(port, *sides);
                self.hosts[0].connect(self.now, ends, *sides);
            }
            self.step();
            let errors = self.hosts.iter().flat_map(|host| &host.owner.errors);
            if let Some(error) = errors.into_iter().next() {
                return Err(error.clone());
            }
        }
        Err(format!("it takes too many steps: {:?}", self.talks()))
    }

    fn talks(&self) -> Vec<String> {
        let hosts = self.hosts.iter();
        hosts
            .map(|host| format!("{:?}", host.owner.talks))
            .collect()
    }

    /// What is due now happens.
    fn step(&mut self) {
        let now = self.now;
        for (at, host) in self.hosts.iter_mut().enumerate() {
            // The link to the client is the second.
            let link = 1 - at;
            self.links[link].on_timer(now, &mut self.out[link]);
            for departure in self.out[link].drain(..) {
                let mut frame = departure.item;
                frame.descriptor_mut().stamp_ns = Some(departure.at_ns);
                if at == 1 {
                    self.tap.see(now, &frame);
                }
                self.burst.push(frame);
            }
            if !self.burst.is_empty() {
                host.stack.on_burst(now, &mut self.burst, &mut host.owner);
            }
            if host.stack.next_deadline().is_some_and(|at| at <= now) {
                host.stack.on_timer(now, &mut host.owner);
            }
            host.act(now);
            for frame in host.owner.frames.drain(..) {
                self.edges.see(at, &frame);
                if at == 1 {
                    self.tap.see(now, &frame);
                }
                self.links[at].push(now, frame, &mut self.out[at]);
            }
        }
    }

    fn finish(self, scenario: &Scenario) -> Result<Outcome, String> {
        let counters = [&self.hosts[0], &self.hosts[1]].map(|host| host.stack.counters());
        for (host, counters) in self.hosts.iter().zip(counters) {
            if let Some(broken) = counters.broken_identity() {
                return Err(broken);
            }
            let stack = &host.stack;
            let left = [stack.connections(), stack.active(), stack.time_waits()];
            if left != [0; 3] || !host.owner.talks.is_empty() {
                return Err(format!("left over: {left:?}, {:?}", host.owner.talks));
            }
            let breaks = { scenario.talks.iter() }
                .filter(|(_, sides)| may_break(sides))
                .count();
            let fewest = scenario.talks.len() - breaks;
            if !(fewest..=scenario.talks.len()).contains(&host.owner.closed) {
                let closed = host.owner.closed;
                return Err(format!("{closed} of {} are over", scenario.talks.len()));
            }
        }
        self.edges.finish()?;
        let breaks = { scenario.talks.iter() }.map(|(_, sides)| may_break(sides));
        let ports = (CLIENT_PORT..).zip(breaks);
        let broken = ports.filter_map(|(port, breaks)| breaks.then_some(port));
        let seen = self.tap.finish(&broken.collect::<Vec<_>>())?;
        for (number, (_, sides)) in scenario.talks.iter().enumerate() {
            let port = CLIENT_PORT + number as u16;
            if may_break(sides) {
                continue;
            }
            let bytes = [sides[0].bytes, sides[1].bytes];
            if seen.get(&port) != Some(&bytes) {
                let seen = seen.get(&port);
                return Err(format!("the tap saw {seen:?} of {bytes:?} at port {port}"));
            }
        }
        let lost = { self.links.iter() }
            .map(|link| link.counters().dropped.loss)
            .sum();
        let budgets = [0, 1].map(|at| self.hosts[at].budget.clone());
        let took_ns = self.now - BEGIN_NS;
        drop((self.hosts, self.links));
        give_back();
        match budgets.map(|budget| budget.used_bytes()) {
            [0, 0] => Ok(Outcome {
                counters,
                took_ns,
                lost,
            }),
            used => Err(format!("{used:?} bytes are still drawn")),
        }
    }
}
