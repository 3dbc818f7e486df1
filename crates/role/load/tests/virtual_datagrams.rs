//! Loads of datagrams over our own stack in virtual time: a client and a server with an emulated
//! link between them, from a seed. `LINESIDE_SEEDS=FROM..TO` runs others.

#[path = "virtual_time/wire.rs"]
mod wire;

use std::collections::BTreeMap;
use std::time::Duration;

use lineside_account::Budget;
use lineside_link::{Settings, words};
use lineside_load::client::{CatchUp, DatagramClient, Locals, Pace, Phase, Plan};
use lineside_load::protocol::{DatagramServer, EchoDatagrams, SinkDatagrams, Stamped};
use lineside_load::results::{Cause, Counts, Row};
use lineside_load::{Application, CloseBy, DatagramService, Load, RowSource, StackLoop, rows};
use lineside_reactor::{Engine, Reactor, Wait};
use lineside_tcp::{Config, Prefix, Stack};
use lineside_time::Random;
use lineside_workload::{Arrivals, Profile, Schedule, Share, Sizes, Unit, no_files};
use wire::Wire;

const CLIENT: &str = "10.9.4.1";
const SERVER: &str = "10.9.100.1";
const PORT: u16 = 9;
const MS: i64 = 1_000_000;
const BEGIN_NS: i64 = 1_700_000_000_000_000_000;
const END_NS: i64 = BEGIN_NS + 600_000 * MS;
const CLOCK: u64 = 1;
/// No batch of rows takes that long.
const PATIENCE: Duration = Duration::from_secs(60);

fn plan() -> Plan {
    Plan {
        connections: 16,
        opens_on_arrival: false,
        requests_each: None,
        pipeline: 8,
        close_by: CloseBy::Fin,
        requests: Some(2_000),
        timeout_ns: 500 * MS,
        ahead_ns: 100_000,
        opening_max: 64,
        waiting_max: 1 << 16,
        catch_up: CatchUp::Keep,
        retry_ns: 10 * MS,
        share: (0, 1),
    }
}

/// What happens to datagrams on their way.
#[derive(Debug, Clone, Copy)]
struct Way {
    delay: &'static str,
    loss: f64,
    duplicate: f64,
}

impl Way {
    fn settings(self) -> Settings {
        let percent = |share: f64| format!("{share}%");
        Settings {
            delay: words::delay(self.delay, &mut words::no_files).expect("a delay"),
            loss: words::loss(&percent(self.loss)).expect("a loss"),
            duplicate: words::chance("duplicate", &percent(self.duplicate)).expect("a share"),
            ..Settings::default()
        }
    }
}

fn stack(address: &str, len: u8, seed: u64) -> Stack {
    let address = address.parse().expect("an address");
    let config = Config {
        addresses: vec![Prefix { address, len }],
        ..Config::new([2, 0, 0, 0, len, 1], &[address])
    };
    Stack::new(config, [seed, 2], &Budget::new(64 << 20)).expect("memory")
}

fn open_loop(rate: &str, seed: u64) -> Pace {
    let arrivals = Arrivals::parse("poisson", &mut no_files).expect("words");
    let profile: Profile = rate.parse().expect("a rate");
    let schedule = Schedule::new(&arrivals, Some(&profile), seed, Share::ALL);
    Pace::Open(Box::new(schedule.expect("a schedule")))
}

/// A client and a server, each behind a loop of its own.
struct World<S: DatagramServer> {
    client: Reactor<StackLoop<DatagramClient<Stamped>>>,
    server: Reactor<StackLoop<DatagramService<S>>>,
    wire: Wire,
    now: i64,
    rows: RowSource,
}

impl<S: DatagramServer> World<S> {
    /// Without a server at the port if `server_at` is another one.
    fn new(plan: Plan, pace: Pace, way: Way, is_echo: bool, server: S, server_at: u16) -> Self {
        let wire = Wire::new(&way.settings(), 5);
        let (rows, source) = rows(1);
        let address = CLIENT.parse().expect("an address");
        let block = Prefix { address, len: 32 };
        let locals = Locals::new(vec![block], Vec::new(), 1_024, 60_000, (0, 1));
        let target = (SERVER.parse().expect("an address"), PORT);
        let sizes = Sizes::constant(200, Unit::Bytes);
        let protocol = Stamped::new(sizes, 1, 77, is_echo).with_clock(CLOCK, 0);
        let targets = vec![target];
        let client = DatagramClient::new(protocol, plan, pace, targets, Some(locals), Some(rows));
        let engine = StackLoop::new(stack(CLIENT, 31, 3), 0, client);
        let mut served = StackLoop::new(stack(SERVER, 32, 4), 0, DatagramService::new(server));
        let bound = served.bind(BEGIN_NS, (target.0, server_at), None, 0);
        bound.expect("a port");
        let reactor = |end| vec![vec![wire.port(end)]];
        let mut world = Self {
            client: Reactor::new(engine, reactor(0), Wait::Spin, false),
            server: Reactor::new(served, reactor(1), Wait::Spin, false),
            wire: wire.clone(),
            now: BEGIN_NS,
            rows: source,
        };
        let (client, calls) = world.client.engine_mut().application_mut(BEGIN_NS);
        client.open(calls);
        world
    }

    /// Both loops turn until nothing is due now, then time passes, up to `until`.
    fn step(&mut self, until: i64) {
        self.wire.pass(self.now);
        let mut clock = || self.now;
        self.client.turn(&mut clock).expect("ports that work");
        self.server.turn(&mut clock).expect("ports that work");
        let deadlines = [
            self.client.engine().next_deadline(),
            self.server.engine().next_deadline(),
            self.wire.next_arrival(true),
        ];
        let next = deadlines
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(until)
            .min(until);
        self.now = next.max(self.now + 100);
        if self.now >= END_NS {
            let phase = self.client().phase();
            panic!(
                "it does not end: {phase:?} {:?}",
                self.client().results().counts
            );
        }
    }

    fn client(&mut self) -> &mut DatagramClient<Stamped> {
        self.client.engine_mut().application_mut(self.now).0
    }

    fn server(&mut self) -> &DatagramService<S> {
        self.server.engine_mut().application_mut(self.now).0
    }

    /// Everything is bound and the link address found; then requests leave. Returns what the client
    /// counted, after everything under way has arrived.
    fn run(&mut self) -> Counts {
        self.run_and(|_| {})
    }

    /// The same; `each` looks at the world after each step.
    fn run_and(&mut self, mut each: impl FnMut(&mut Self)) -> Counts {
        let start = self.now + 1_000 * MS;
        while self.now < start {
            self.step(start);
        }
        assert!(self.client().is_ready());
        let (client, calls) = self.client.engine_mut().application_mut(self.now);
        client.start(start + MS, i64::MAX, calls);
        let mut steps = 0;
        while self.client().phase() != Phase::Over {
            self.step(self.now + 1_000 * MS);
            each(self);
            steps += 1;
            if steps % 50 == 0 {
                assert_eq!(self.client().broken_identity(), None);
            }
        }
        assert_eq!(self.client().broken_identity(), None);
        let until = self.now + 1_000 * MS;
        while self.now < until {
            self.step(until);
        }
        for stack in [self.client.engine().stack(), self.server.engine().stack()] {
            assert_eq!(stack.counters().broken_identity(), None);
        }
        self.client().results().counts.clone()
    }

    /// By the number of a request: planned, departed, answered.
    fn rows(&mut self) -> BTreeMap<u64, (i64, Option<i64>, Option<i64>)> {
        let rows = self.client().take_rows().expect("rows");
        std::thread::scope(|scope| {
            let finishing = scope.spawn(|| rows.finish());
            let mut taken = BTreeMap::new();
            let mut take = |row: &Row| {
                let times = (row.intended_ns, row.departed_ns, row.end_ns);
                assert_eq!(taken.insert(row.ordinal, times), None);
            };
            while self.rows.next(PATIENCE, &mut take).is_ok() {}
            assert_eq!(finishing.join().expect("no panic"), 0, "all have room");
            taken
        })
    }
}

const QUIET: Way = Way {
    delay: "1ms",
    loss: 0.0,
    duplicate: 0.0,
};

#[test]
fn every_datagram_leaves_at_its_instant() {
    for is_echo in [true, false] {
        // Few of them are under way: none has to wait for a flow.
        let plan = Plan {
            connections: 64,
            ..plan()
        };
        let pace = open_loop("20000", 3);
        let counts;
        let rows = match is_echo {
            true => {
                let mut world = World::new(plan, pace, QUIET, true, EchoDatagrams, PORT);
                counts = world.run();
                assert_eq!((counts.answered, counts.one_way), (2_000, 0), "{counts:?}");
                world.rows()
            }
            false => {
                let sink = SinkDatagrams::new(64, CLOCK, 0);
                let mut world = World::new(plan, pace, QUIET, false, sink, PORT);
                counts = world.run();
                assert_eq!((counts.answered, counts.one_way), (0, 2_000), "{counts:?}");
                let figures = world.server().protocol().figures();
                assert_eq!((figures.received, figures.lost), (2_000, 0));
                // By the stamp it leaves when it is due; by the kick up to 1 us before.
                let (least, most) = (figures.delays.min_ns(), figures.delays.max_ns());
                assert!(
                    least >= Some(998_000) && most <= Some(1_002_000),
                    "{least:?} {most:?}"
                );
                world.rows()
            }
        };
        assert_eq!(
            (counts.planned, counts.sent, counts.waited),
            (2_000, 2_000, 0)
        );
        assert_eq!(rows.len(), 2_000);
        for (ordinal, (intended, departed, end)) in rows {
            // The clock moves in steps of 100 ns, and what is due within a kick leaves with it.
            let late = departed.expect("it left") - intended;
            assert!((-1_100..=200).contains(&late), "{ordinal}: {late} ns late");
            assert_eq!(end.is_some(), is_echo);
            if let Some(end) = end {
                let took = end - departed.expect("it left");
                assert!(
                    (2 * MS..2 * MS + 1_000).contains(&took),
                    "{ordinal}: {took}"
                );
            }
        }
    }
}

/// The seeds to run.
fn seeds(own: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let asked = std::env::var("LINESIDE_SEEDS").ok();
    let asked = asked.as_deref().and_then(|text| text.split_once(".."));
    asked.map_or(own, |(from, to)| {
        let number = |text: &str| text.parse().expect("LINESIDE_SEEDS=FROM..TO");
        number(from)..number(to)
    })
}

#[test]
fn lossy_links_lose_what_they_lose() {
    for seed in seeds(0..20) {
        let mut random = Random::new(seed);
        let way = Way {
            delay: ["1ms", "5ms 4ms order reorder", "20ms 10ms"][random.below(3) as usize],
            loss: random.below(10) as f64,
            duplicate: random.below(5) as f64,
        };
        let plan = Plan {
            connections: 1 + random.below(20) as u32,
            pipeline: 1 + random.below(100) as u32,
            ..plan()
        };
        let pace = match random.chance(0.5) {
            true => Pace::Closed(None),
            false => open_loop("5000", seed),
        };
        let what = format!("seed {seed}: {plan:?} {way:?}");
        let mut world = World::new(plan, pace, way, true, EchoDatagrams, PORT);
        let counts = world.run();
        assert_eq!(
            (counts.planned, counts.sent),
            (2_000, 2_000),
            "{what}: {counts:?}"
        );
        let lost = counts.failed[Cause::Timeout as usize];
        assert_eq!(counts.answered + lost, 2_000, "{what}: {counts:?}");
        // Of both ways one may be lost; nothing is late, for no delay reaches the timeout.
        let share = 1.0 - (1.0 - way.loss / 100.0).powi(2);
        let error = 4.0 * (2_000.0 * share * (1.0 - share)).sqrt();
        let difference = lost as f64 - 2_000.0 * share;
        // A duplicate saves what would be lost: up to 5 % of it, both ways.
        assert!(difference <= error + 1.0, "{what}: {counts:?}");
        assert!(
            -difference <= error + 1.0 + 0.1 * 2_000.0 * share,
            "{what}: {counts:?}"
        );
        assert_eq!(
            counts.duplicates > 0,
            way.duplicate > 0.0,
            "{what}: {counts:?}"
        );
        assert_eq!(
            (counts.strays, counts.late_answers),
            (0, 0),
            "{what}: {counts:?}"
        );
        let requests = world.server().counts().requests;
        let taken = counts.answered + counts.duplicates;
        assert!(
            requests >= counts.answered && taken >= counts.answered,
            "{what}"
        );
        assert_eq!(counts.received_bytes, 200 * taken, "{what}");
        assert_eq!(world.rows().len(), 2_000, "{what}");
    }
}

/// What the sink says is what the link did, which its own account has.
#[test]
fn a_sink_sees_what_the_link_did() {
    for seed in seeds(0..10) {
        let mut random = Random::new(seed);
        let way = Way {
            delay: ["3ms", "3ms 1ms order reorder"][random.below(2) as usize],
            loss: random.below(10) as f64,
            duplicate: random.below(5) as f64,
        };
        let what = format!("seed {seed}: {way:?}");
        let sink = SinkDatagrams::new(16, CLOCK, 0);
        let pace = open_loop("20000", seed);
        let mut world = World::new(plan(), pace, way, false, sink, PORT);
        let counts = world.run();
        assert_eq!(
            (counts.sent, counts.one_way),
            (2_000, 2_000),
            "{what}: {counts:?}"
        );
        let arrived = world.server.engine().stack().counters().datagrams;
        let flows: Vec<_> = world.server().protocol().flows().collect();
        let figures = world.server().protocol().figures();
        assert_eq!(figures.broken_identity(), None);
        assert_eq!((figures.datagrams, figures.flows), (arrived, 16), "{what}");
        assert_eq!(
            (figures.corrupt, figures.foreign, figures.beyond),
            (0, 0, 0)
        );
        // All flows have as many, to one: behind the last that came few are lost unseen.
        let unseen = 2_000 - figures.received - figures.lost;
        assert!(unseen <= 16 * 3, "{what}: {unseen}");
        let (share, lost) = (way.loss / 100.0, 2_000 - figures.received);
        let error = 4.0 * (2_000.0 * share * (1.0 - share)).sqrt() + 1.0;
        let difference = lost as f64 - 2_000.0 * share;
        assert!(
            difference <= error && -difference <= error + 0.1 * 2_000.0 * share,
            "{what}"
        );
        assert_eq!(figures.duplicates > 0, way.duplicate > 0.0, "{what}");
        // A flow's datagrams are 0.8 ms apart: a delay that varies by more changes their order.
        assert_eq!(
            figures.reordered > 0,
            way.delay != "3ms",
            "{what} {figures:?}"
        );
        let jitter = figures.jitter_mean_ns().expect("flows");
        match way.delay {
            "3ms" => assert!(jitter < 2_000, "{what}: {jitter}"),
            // Evenly from 2 to 4 ms: the mean difference of two is 2/3 ms.
            _ => assert!((500_000..850_000).contains(&jitter), "{what}: {jitter}"),
        }
        assert!(
            flows
                .iter()
                .all(|flow| flow.received > 80 && flow.from.1 >= 1_024),
            "{what}"
        );
        let most = figures.delays.max_ns().expect("one clock");
        assert!((2_999_000..4_010_000).contains(&most), "{what}: {most}");
    }
}

#[test]
fn a_port_that_nobody_has_refuses() {
    let plan = Plan {
        connections: 4,
        pipeline: 1,
        requests: Some(200),
        ..plan()
    };
    // Few enough for the errors that a host may send.
    let mut world = World::new(
        plan,
        open_loop("500", 1),
        QUIET,
        true,
        EchoDatagrams,
        PORT + 1,
    );
    let counts = world.run();
    assert_eq!((counts.sent, counts.answered), (200, 0), "{counts:?}");
    assert_eq!(counts.failed[Cause::Reset as usize], 200, "{counts:?}");
    assert_eq!(world.server().counts().requests, 0);
}

#[test]
fn after_a_stall_the_order_is_that_of_the_numbers() {
    let sink = SinkDatagrams::new(16, CLOCK, 0);
    let plan = Plan {
        connections: 1,
        pipeline: 1_000,
        ..plan()
    };
    let mut world = World::new(plan, open_loop("50000", 3), QUIET, false, sink, PORT);
    let mut stalls = 0;
    let counts = world.run_and(|world| {
        let sent = world.client().results().counts.sent;
        if sent / 100 > stalls {
            stalls += 1;
            world.now += 2 * MS;
        }
    });
    assert!(
        counts.one_way == 2_000 && counts.overdue > 500,
        "{counts:?}"
    );
    let figures = world.server().protocol().figures();
    assert_eq!(
        (figures.received, figures.reordered, figures.lost),
        (2_000, 0, 0)
    );
}

/// The same run twice is the same.
#[test]
fn the_same_seed_gives_the_same_datagrams() {
    let run = || {
        let way = Way {
            delay: "3ms 2ms",
            loss: 2.0,
            duplicate: 1.0,
        };
        let mut world = World::new(plan(), open_loop("9000", 4), way, true, EchoDatagrams, PORT);
        world.run();
        (world.rows(), world.wire.frames())
    };
    assert_eq!(run(), run());
}

/// A client that is bound is an application like others.
#[test]
fn what_arrives_after_the_end_changes_nothing() {
    let late = Way {
        delay: "600ms",
        ..QUIET
    };
    let plan = Plan {
        requests: Some(50),
        ..plan()
    };
    let mut world = World::new(plan, open_loop("5000", 1), late, true, EchoDatagrams, PORT);
    let counts = world.run();
    assert_eq!(counts.failed[Cause::Timeout as usize], 50, "{counts:?}");
    assert_eq!(
        (counts.late_answers, counts.strays),
        (0, 0),
        "the ports are given back"
    );
    fn is_application(_: &impl Application) {}
    is_application(world.client());
}
