//! RPC over UDP: a client that sends a call again until its reply has come, and a server that
//! answers what it answered before with the same reply (NFS servers' duplicate request cache).
//! Large datagrams go in fragments, each of which may be lost.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lineside_time::Random;
use lineside_wire::PROTOCOL_UDP;
use lineside_wire::build::FrameBuilder;

use super::{BEGIN_NS, Conditions, Exchange, PORT, SERVER_PORT, Scene, Tap, addresses, leg};

/// Linux's `timeo` of mounts over UDP is longer; what matters is that some answers take more.
const TIMEOUT_NS: i64 = 300_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A fragment of a datagram arrives.
    Arrives(usize),
    /// The client has waited for the reply to a call.
    Waited(usize),
    /// The server has done what a call asked for.
    Done(usize),
}

/// A message on its way.
#[derive(Debug)]
struct Datagram {
    from: usize,
    exchange: usize,
    /// Fragments that have not arrived.
    missing: usize,
}

/// How far an exchange is.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    is_begun: bool,
    is_done: bool,
    is_answered: bool,
    is_seen: bool,
}

struct Simulation<'a> {
    exchanges: &'a [Exchange],
    conditions: &'a Conditions,
    random: Random,
    now: i64,
    events: BinaryHeap<Reverse<(i64, usize, Event)>>,
    planned: usize,
    datagrams: Vec<Datagram>,
    progress: Vec<Progress>,
    tap: Tap,
    fragment_len: usize,
    depth: usize,
    called: usize,
    repeated: usize,
    /// Datagrams of which a part came to the tap.
    partial: usize,
}

/// Runs exchanges until the client has every reply.
pub fn simulate_datagrams(exchanges: &[Exchange], conditions: &Conditions) -> Scene {
    let mut random = Random::new(conditions.seed);
    let mut simulation = Simulation {
        exchanges,
        conditions,
        now: BEGIN_NS,
        events: BinaryHeap::new(),
        planned: 0,
        datagrams: Vec::new(),
        progress: vec![Progress::default(); exchanges.len()],
        tap: Tap::default(),
        fragment_len: [1480, 1480, 8960][random.below(3) as usize],
        depth: 1 + random.below(8) as usize,
        called: 0,
        repeated: 0,
        partial: 0,
        random,
    };
    simulation.call_more();
    while let Some(Reverse((now, _, event))) = simulation.events.pop() {
        simulation.now = now;
        simulation.handle(event);
    }
    let Simulation { progress, tap, .. } = simulation;
    assert!(progress.iter().all(|one| one.is_answered));
    Scene {
        is_whole: tap.missed == 0 && simulation.partial == 0,
        is_bounded: progress.iter().all(|one| one.is_seen),
        missed: tap.missed,
        repeated: simulation.repeated,
        frames: tap.frames(),
    }
}

impl Simulation<'_> {
    fn plan(&mut self, after_ns: i64, event: Event) {
        self.planned += 1;
        let at = self.now + after_ns;
        self.events.push(Reverse((at, self.planned, event)));
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrives(datagram) => {
                let datagram = &mut self.datagrams[datagram];
                datagram.missing -= 1;
                if datagram.missing == 0 {
                    let (from, exchange) = (datagram.from, datagram.exchange);
                    self.received(from, exchange);
                }
            }
            Event::Waited(exchange) => {
                if !self.progress[exchange].is_answered {
                    self.repeated += 1;
                    self.call(exchange);
                }
            }
            Event::Done(exchange) => {
                self.progress[exchange].is_done = true;
                self.send(1, exchange);
            }
        }
    }

    fn received(&mut self, from: usize, exchange: usize) {
        let progress = &mut self.progress[exchange];
        if from == 1 {
            progress.is_answered = true;
            self.call_more();
        } else if progress.is_done {
            self.send(1, exchange);
        } else if !progress.is_begun {
            progress.is_begun = true;
            // Some take longer than the client waits.
            let most_ns = match self.random.chance(0.1) {
                true => 700_000_000,
                false => 400_000,
            };
            let took_ns = 1_000 + self.random.below(most_ns) as i64;
            self.plan(took_ns, Event::Done(exchange));
        }
    }

    fn call_more(&mut self) {
        let waiting =
            |progress: &[Progress]| progress.iter().filter(|one| !one.is_answered).count();
        while self.called < self.exchanges.len()
            && waiting(&self.progress[..self.called]) < self.depth
        {
            self.called += 1;
            self.call(self.called - 1);
        }
    }

    fn call(&mut self, exchange: usize) {
        self.send(0, exchange);
        self.plan(TIMEOUT_NS, Event::Waited(exchange));
    }

    /// Sends a call or a reply on its way past the tap.
    fn send(&mut self, from: usize, exchange: usize) {
        let exchanges = self.exchanges;
        let message = match from {
            0 => &exchanges[exchange].call,
            _ => &exchanges[exchange].reply,
        };
        let addresses = addresses(self.conditions.is_ipv6);
        let ports = [PORT, SERVER_PORT];
        let number = self.datagrams.len();
        let builder = FrameBuilder::new(addresses[from], addresses[1 - from])
            .with_identification(number as u32);
        let datagram = builder.udp_datagram(ports[from], ports[1 - from], message);
        // Without a fragment header where there is only one.
        let frames = match datagram.len() <= self.fragment_len {
            true => vec![builder.packet(PROTOCOL_UDP, &datagram)],
            false => builder.fragments(PROTOCOL_UDP, &datagram, self.fragment_len),
        };
        let count = frames.len();
        self.datagrams.push(Datagram {
            from,
            exchange,
            missing: count,
        });
        let mut came = 0;
        for bytes in frames {
            let Some(to_tap_ns) = leg(self.conditions, &mut self.random) else {
                continue;
            };
            came += 1;
            if self.tap.sees(self.conditions, &mut self.random) {
                self.progress[exchange].is_seen = true;
                let at = self.now + to_tap_ns;
                self.tap.record(self.conditions, from, at, bytes);
            }
            if let Some(from_tap_ns) = leg(self.conditions, &mut self.random) {
                self.plan(to_tap_ns + from_tap_ns, Event::Arrives(number));
            }
        }
        self.partial += usize::from(came > 0 && came < count);
    }
}
