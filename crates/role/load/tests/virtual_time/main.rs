//! Whole loads over our own TCP in virtual time: a client and a server with an emulated link
//! between them, from a seed. `LINESIDE_SEEDS=FROM..TO` runs others.

mod bulk;
mod nfs;
mod wire;

use std::time::Duration;

use lineside_account::Budget;
use lineside_http::{Body, RequestTemplate, Responder, ResponseTemplate, Url};
use lineside_link::{Settings, words};
use lineside_load::Load as _;
use lineside_load::client::{CatchUp, Client, Locals, Pace, Phase, Plan};
use lineside_load::protocol::{self, Echo, EchoServer, Http, HttpServer};
use lineside_load::results::{Cause, Row};
use lineside_load::server::Server;
use lineside_load::{CloseBy, RowSource, StackLoop, rows};
use lineside_reactor::{Engine, Reactor, Wait};
use lineside_tcp::{Config, Prefix, Stack};
use lineside_time::Random;
use lineside_workload::{Arrivals, Profile, Schedule, Share, no_files};
use wire::Wire;

const CLIENT: &str = "10.9.4.0";
const SERVER: &str = "10.9.100.1";
const PORT: u16 = 80;
const MS: i64 = 1_000_000;
const BEGIN_NS: i64 = 1_700_000_000_000_000_000;
/// Nor more steps.
const STEPS_MAX: u64 = 200_000;
/// Nothing of these tests takes longer in virtual time.
const END_NS: i64 = BEGIN_NS + 600_000 * MS;
/// No batch of rows takes that long.
const PATIENCE: Duration = Duration::from_secs(60);

fn plan() -> Plan {
    Plan {
        connections: 16,
        opens_on_arrival: false,
        requests_each: None,
        pipeline: 1,
        close_by: CloseBy::Fin,
        requests: Some(1_000),
        timeout_ns: 30_000 * MS,
        ahead_ns: 100_000,
        opening_max: 64,
        waiting_max: 1 << 16,
        catch_up: CatchUp::Keep,
        retry_ns: 10 * MS,
        share: (0, 1),
    }
}

/// A link by its words: a delay, then perhaps a share that is lost, and one that comes twice.
fn link_of(words: &str) -> Settings {
    let mut parts = words.split(", ");
    let delay = parts.next().expect("a delay");
    let mut settings = Settings {
        delay: words::delay(delay, &mut words::no_files).expect("words of a delay"),
        ..Settings::default()
    };
    for part in parts {
        let (what, share) = part.split_once(' ').expect("a word and a share");
        match what {
            "loss" => settings.loss = words::loss(share).expect("words of a loss"),
            _ => settings.duplicate = words::chance("duplicate", share).expect("a share"),
        }
    }
    settings
}

/// A row: its number, when it was planned, left and was answered, or why it was not.
type Taken = (u64, i64, Option<i64>, Option<i64>, Option<Cause>);

/// A client and a server, each behind a loop of its own.
struct World<C: protocol::Client, S: protocol::Server> {
    client: Reactor<StackLoop<Client<C>>>,
    server: Reactor<StackLoop<Server<S>>>,
    wire: Wire,
    now: i64,
    rows: RowSource,
    /// Nobody answers any more, not even the stack.
    is_server_gone: bool,
    steps: u64,
}

fn stack(address: &str, len: u8, seed: u64) -> Stack {
    let address = address.parse().expect("an address");
    let config = Config {
        addresses: vec![Prefix { address, len }],
        nagle: false,
        time_wait_ns: 1_000 * MS,
        user_timeout_ns: Some(20_000 * MS),
        ..Config::new([2, 0, 0, 0, len, 1], &[address])
    };
    Stack::new(config, [seed, 2], &Budget::new(64 << 20)).expect("memory")
}

fn pace(words: &str, rate: Option<&str>, seed: u64) -> Pace {
    let Some(rate) = rate else {
        return Pace::Closed(None);
    };
    let arrivals = Arrivals::parse(words, &mut no_files).expect("words");
    let profile: Profile = rate.parse().expect("a rate");
    let schedule = Schedule::new(&arrivals, Some(&profile), seed, Share::ALL);
    Pace::Open(Box::new(schedule.expect("a schedule")))
}

impl<C: protocol::Client, S: protocol::Server> World<C, S> {
    fn new(plan: Plan, pace: Pace, link: &str, seed: u64, client: C, server: S) -> Self {
        let link = link_of(link);
        let wire = Wire::new(&link, seed);
        let (rows, source) = rows(1);
        let address = CLIENT.parse().expect("an address");
        let block = Prefix { address, len: 24 };
        let locals = Locals::new(vec![block], Vec::new(), 1_024, 60_000, (0, 1));
        let target = (SERVER.parse().expect("an address"), PORT);
        let client = Client::new(client, plan, pace, vec![target], Some(locals), Some(rows));
        let mut listening = stack(SERVER, 32, seed ^ 1);
        listening.listen(None, PORT, 0).expect("a port");
        let engine = StackLoop::new(stack(CLIENT, 24, seed), 0, client);
        let served = StackLoop::new(listening, 0, Server::new(server));
        let reactor = |end| vec![vec![wire.port(end)]];
        let mut world = Self {
            client: Reactor::new(engine, reactor(0), Wait::Spin, false),
            server: Reactor::new(served, reactor(1), Wait::Spin, false),
            wire: wire.clone(),
            now: BEGIN_NS,
            rows: source,
            is_server_gone: false,
            steps: 0,
        };
        let (client, calls) = world.client.engine_mut().application_mut(BEGIN_NS);
        client.open(calls);
        world
    }

    /// Both loops turn until nothing is due now, then time passes.
    fn step(&mut self) {
        self.steps += 1;
        assert!(self.steps < STEPS_MAX, "it spins: {}", self.standing());
        self.wire.pass(self.now);
        let mut clock = || self.now;
        self.client.turn(&mut clock).expect("ports that work");
        let mut deadlines = vec![self.client.engine().next_deadline()];
        if !self.is_server_gone {
            self.server.turn(&mut clock).expect("ports that work");
            deadlines.push(self.server.engine().next_deadline());
        }
        deadlines.push(self.wire.next_arrival(!self.is_server_gone));
        let next = deadlines.into_iter().flatten().min().unwrap_or(END_NS);
        self.now = next.max(self.now + 100);
        assert!(self.now < END_NS, "it does not end");
    }

    /// Where everything stands, for a failure.
    fn standing(&mut self) -> String {
        let now = self.now;
        let deadlines = [
            self.client.engine().next_deadline(),
            self.server.engine().next_deadline(),
            self.wire.next_arrival(true),
        ];
        let deadlines = deadlines.map(|deadline| deadline.map(|at| at - now));
        let held = [self.client.held(), self.server.held()];
        let counts = self.client().results().counts.clone();
        let phase = self.client().phase();
        format!(
            "{} {deadlines:?} held {held:?} {phase:?} {counts:?}",
            now - BEGIN_NS
        )
    }

    fn client(&mut self) -> &mut Client<C> {
        self.client.engine_mut().application_mut(self.now).0
    }

    /// Everything opens; then requests leave; `each` looks at the world after each step.
    fn run(&mut self, mut each: impl FnMut(&mut Self)) {
        while !self.client().is_ready() {
            self.step();
        }
        let start = self.now + MS;
        let (client, calls) = self.client.engine_mut().application_mut(self.now);
        client.start(start, i64::MAX, calls);
        let mut steps = 0;
        while self.client().phase() != Phase::Over {
            self.step();
            each(self);
            steps += 1;
            if steps % 50 == 0 {
                assert_eq!(self.client().broken_identity(), None);
            }
        }
        assert_eq!(self.client().broken_identity(), None);
        // Ends of connections.
        let until = self.now + 5_000 * MS;
        while self.now < until && self.client.engine().stack().connections() > 0 {
            self.step();
        }
        for stack in [self.client.engine().stack(), self.server.engine().stack()] {
            assert_eq!(stack.counters().broken_identity(), None);
        }
    }

    /// All rows, in the order of the requests: planned, departed, answered.
    fn rows(&mut self) -> Vec<Taken> {
        let rows = self.client().take_rows().expect("rows");
        let thread = std::thread::scope(|scope| {
            let finishing = scope.spawn(|| rows.finish());
            let mut taken = Vec::new();
            let mut take = |row: &Row| {
                let (departed, end) = (row.departed_ns, row.end_ns);
                taken.push((row.ordinal, row.intended_ns, departed, end, row.cause));
            };
            while self.rows.next(PATIENCE, &mut take).is_ok() {}
            assert_eq!(finishing.join().expect("no panic"), 0, "all have room");
            taken
        });
        let mut taken = thread;
        taken.sort_unstable();
        taken
    }
}

fn http() -> Http {
    let url = Url::parse(&format!("http://{SERVER}/file")).expect("a URL");
    let template = RequestTemplate::new("GET", &url, &[] as &[&str], b"");
    Http::new(template.expect("a request"))
}

fn responder(bytes: u64) -> HttpServer {
    let mut responder = Responder::new();
    let response = ResponseTemplate::new(200, &[] as &[&str], Body::Synthetic(bytes));
    let added = responder.route_others(response.expect("a response"));
    added.expect("room for a template");
    HttpServer::new(responder)
}

#[test]
fn every_request_leaves_at_its_instant() {
    for words in ["constant", "poisson", "gamma cv 2"] {
        let pace = pace(words, Some("5000"), 3);
        let plan = Plan {
            connections: 200,
            ..plan()
        };
        let mut world = World::new(plan, pace, "1ms", 3, http(), responder(64));
        world.run(|_| {});
        let counts = world.client().results().counts.clone();
        assert_eq!(
            (counts.planned, counts.succeeded),
            (1_000, 1_000),
            "{counts:?}"
        );
        for (ordinal, intended, departed, end, _) in world.rows() {
            // The clock moves in steps of 100 ns, and what is due within a kick leaves with it.
            let late = departed.expect("it left") - intended;
            assert!(
                (-1_100..=200).contains(&late),
                "{words}, {ordinal}: {late} ns late"
            );
            let took = end.expect("it was answered") - departed.expect("it left");
            assert!(
                (2 * MS..2 * MS + 1_000).contains(&took),
                "{ordinal}: {took}"
            );
        }
    }
}

#[test]
fn lossy_links_lose_no_request() {
    let (from, to) = seeds(0..40);
    for seed in from..to {
        let mut random = Random::new(seed);
        let rate = format!("{}", 500 + random.below(5_000));
        let is_open = random.chance(0.6);
        let plan = Plan {
            connections: 1 + random.below(60) as u32,
            requests_each: random.chance(0.5).then(|| 1 + random.below(5) as u32),
            pipeline: 1 + random.below(4) as u32,
            close_by: [CloseBy::Fin, CloseBy::Rst][random.below(2) as usize],
            requests: Some(400),
            opens_on_arrival: false,
            ..plan()
        };
        let link = format!(
            "{}ms 1ms, loss {}%, duplicate 1%",
            1 + random.below(20),
            random.below(4)
        );
        let pace = pace("poisson", is_open.then_some(&*rate), seed);
        let body = random.below(40_000);
        let what = format!("seed {seed}: {plan:?} {link} body {body}");
        let mut world = World::new(plan, pace, &link, seed, http(), responder(body));
        world.run(|_| {});
        let counts = world.client().results().counts.clone();
        let failed = counts.failed.iter().sum::<u64>();
        assert_eq!(counts.planned, 400, "{what}: {counts:?}");
        assert_eq!(counts.succeeded + failed, counts.sent, "{what}: {counts:?}");
        // A server that a FIN or RST reaches while a request is under way does not answer it.
        assert!(counts.succeeded >= 380, "{what}: {counts:?}");
        assert_eq!(counts.content_bytes, counts.succeeded * body, "{what}");
        let (server, _) = world.server.engine_mut().application_mut(0);
        assert!(server.counts().requests >= counts.succeeded, "{what}");
        assert_eq!(world.rows().len() as u64, counts.sent, "{what}");
    }
}

/// Each request opens a connection, and all at once more than there may be: the others wait until
/// some are over.
#[test]
fn requests_wait_for_a_connection_that_is_over() {
    for seed in 0..10 {
        let plan = Plan {
            connections: 3 + seed as u32,
            requests_each: Some(2),
            requests: Some(60),
            opens_on_arrival: true,
            ..plan()
        };
        let pace = pace("poisson", Some("1000000"), seed);
        let mut world = World::new(plan, pace, "1ms", seed, http(), responder(100));
        world.run(|_| {});
        let counts = &world.client().results().counts;
        assert!(counts.opened == 60 && counts.sent >= 60, "{counts:?}");
        assert_eq!(counts.succeeded, counts.sent, "{counts:?}");
    }
}

/// The seeds to run.
fn seeds(own: std::ops::Range<u64>) -> (u64, u64) {
    let asked = std::env::var("LINESIDE_SEEDS").ok();
    let asked = asked.as_deref().and_then(|text| text.split_once(".."));
    asked.map_or((own.start, own.end), |(from, to)| {
        let number = |text: &str| text.parse().expect("LINESIDE_SEEDS=FROM..TO");
        (number(from), number(to))
    })
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = || {
        let pace = pace("pareto alpha 1.5", Some("3000"), 9);
        let link = "3ms 2ms, loss 2%";
        let mut world = World::new(plan(), pace, link, 9, Echo::new(3_000, 4), EchoServer);
        world.run(|_| {});
        (world.rows(), world.wire.frames())
    };
    assert_eq!(run(), run());
}

/// The loop stands still for 50 ms in the middle of an open loop of 5,000 requests a second.
fn stalled(catch_up: CatchUp) -> (Vec<i64>, lineside_load::results::Counts) {
    let plan = Plan {
        connections: 1_000,
        catch_up,
        ..plan()
    };
    let pace = pace("constant", Some("5000"), 1);
    let mut world = World::new(plan, pace, "1ms", 1, http(), responder(64));
    let mut has_stalled = false;
    world.run(|world| {
        if !has_stalled && world.client().results().counts.sent == 500 {
            has_stalled = true;
            world.now += 50 * MS;
        }
    });
    let counts = world.client().results().counts.clone();
    assert_eq!(counts.succeeded, 1_000, "{counts:?}");
    let left = world.rows().into_iter();
    (
        left.map(|(_, _, departed, ..)| departed.expect("it left"))
            .collect(),
        counts,
    )
}

/// The most that left within a millisecond.
fn most_in_a_millisecond(left: &[i64]) -> usize {
    let within = |at: &i64| {
        left.iter()
            .filter(|each| (at..&(at + MS)).contains(each))
            .count()
    };
    left.iter().map(within).max().expect("some")
}

#[test]
fn after_a_stall_requests_leave_as_asked() {
    let (kept, counts) = stalled(CatchUp::Keep);
    assert!((240..=256).contains(&counts.overdue), "{counts:?}");
    assert!(most_in_a_millisecond(&kept) >= 240);

    let (capped, counts) = stalled(CatchUp::Cap(20));
    assert!(counts.overdue >= 240, "{counts:?}");
    let most = most_in_a_millisecond(&capped);
    // Two caps may touch, and those that are on time come besides.
    assert!((20..=50).contains(&most), "{most}");

    let (moved, counts) = stalled(CatchUp::Reanchor);
    assert_eq!((counts.moved, counts.overdue), (1, 0), "{counts:?}");
    assert!(
        (48 * MS as u64..=51 * MS as u64).contains(&counts.moved_ns),
        "{counts:?}"
    );
    assert!(most_in_a_millisecond(&moved) <= 6);
    let whole = moved.last().expect("some") - moved[0];
    assert!((248 * MS..=252 * MS).contains(&whole), "{whole}");
}

#[test]
fn a_server_that_is_gone_fails_requests_by_name() {
    let pace = pace("constant", Some("2000"), 1);
    let plan = Plan {
        timeout_ns: 500 * MS,
        requests: Some(2_000),
        ..plan()
    };
    let mut world = World::new(plan, pace, "1ms", 1, http(), responder(64));
    let mut is_gone = false;
    world.run(|world| {
        if !is_gone && world.client().results().counts.answered == 500 {
            is_gone = true;
            world.is_server_gone = true;
        }
        if is_gone && world.now > BEGIN_NS + 3_000 * MS {
            let now = world.now;
            let (client, calls) = world.client.engine_mut().application_mut(now);
            client.stop(calls);
        }
    });
    let counts = world.client().results().counts.clone();
    assert!(counts.failed[Cause::Timeout as usize] > 0, "{counts:?}");
    assert_eq!(counts.outstanding(), 0);
    assert!(counts.unsent.iter().sum::<u64>() > 0, "{counts:?}");
}
