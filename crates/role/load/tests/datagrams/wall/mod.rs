//! Clients and servers of datagrams over the kernel's sockets, on loopback.

mod dns;
mod veth;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use lineside_account::Budget;
use lineside_host::RunClock;
use lineside_load::client::{CatchUp, DatagramClient, Pace, Plan, ThinkTimes};
use lineside_load::outcome::{Observer, Outcome};
use lineside_load::protocol::{
    DatagramClient as DatagramProtocol, DatagramServer, EchoDatagrams, SinkDatagrams, SinkFigures,
    Stamped, StampedHeader,
};
use lineside_load::results::{Cause, Unsent};
use lineside_load::run::{Part, run_each};
use lineside_load::serve::{Served, serve_datagrams};
use lineside_load::settings::{ServeSettings, Settings, Transport};
use lineside_load::{CloseBy, End, Timing, rows};
use lineside_reactor::Wait;
use lineside_testkit::waiting::{unread_bytes, wait_until};
use lineside_time::Nanoseconds;
use lineside_workload::{Arrivals, Profile, Schedule, Share, Sizes, Unit, no_files};

fn plan() -> Plan {
    Plan {
        connections: 8,
        opens_on_arrival: false,
        requests_each: None,
        pipeline: 4,
        close_by: CloseBy::Fin,
        requests: Some(2_000),
        timeout_ns: 5_000_000_000,
        ahead_ns: 100_000,
        opening_max: 64,
        waiting_max: 1 << 16,
        catch_up: CatchUp::Keep,
        retry_ns: 10_000_000,
        share: (0, 1),
    }
}

fn settings(at: SocketAddr, plan: Plan, workers: u32) -> Settings {
    Settings {
        targets: vec![(at.ip(), at.port())],
        transport: Transport::Sockets { from: Vec::new() },
        workers,
        among: (0, workers),
        pins: false,
        real_time: false,
        wait: Wait::Hybrid,
        plan,
        timing: Timing {
            duration_ns: None,
            drain_ns: 5_000_000_000,
            linger_ns: 1_000_000_000,
            report_ns: 100_000_000,
        },
        budget: Budget::new(64 << 20),
        secret: [1, 2],
    }
}

struct Silent;

impl Observer for Silent {}

/// What keeps a client's requests apart in time.
#[derive(Clone, Copy)]
enum Loop {
    Closed,
    Thinking,
    /// So many a second.
    Open(f64),
}

struct Thinks;

impl ThinkTimes for Thinks {
    fn draw(&mut self, ordinal: u64) -> i64 {
        (ordinal % 3 * 100_000) as i64
    }
}

fn pace(of: Loop, worker: u32, workers: u32) -> Pace {
    match of {
        Loop::Closed => Pace::Closed(None),
        Loop::Thinking => Pace::Closed(Some(Box::new(Thinks))),
        Loop::Open(rate) => {
            let arrivals = Arrivals::parse("poisson", &mut no_files).expect("words");
            let profile = Profile::constant(rate).expect("a rate");
            let share = Share::of(worker, workers);
            let schedule = Schedule::new(&arrivals, Some(&profile), 7, share);
            Pace::Open(Box::new(schedule.expect("a schedule")))
        }
    }
}

/// Names the clock of this host.
const CLOCK: u64 = 0x15c1_0c15;

fn stamped(is_echo: bool, clock: RunClock) -> Stamped {
    let sizes =
        Sizes::parse("--size", "uniform 44..1400", Unit::Bytes, &mut no_files).expect("words");
    Stamped::new(sizes, 3, 99, is_echo).with_clock(CLOCK, clock.ahead_ns())
}

fn load(at: SocketAddr, is_echo: bool, plan: Plan, workers: u32, of: Loop) -> Outcome {
    let protocol =
        |part: &Part, clock| stamped(is_echo, clock).of_worker(part.worker, part.workers);
    load_by(protocol, at, plan, workers, of)
}

/// Runs a client of a protocol, which each worker has one of.
fn load_by<P: DatagramProtocol>(
    protocol: impl Fn(&Part, RunClock) -> P + Sync,
    at: SocketAddr,
    plan: Plan,
    workers: u32,
    of: Loop,
) -> Outcome {
    run_by(protocol, &settings(at, plan, workers), of)
}

fn run_by<P: DatagramProtocol>(
    protocol: impl Fn(&Part, RunClock) -> P + Sync,
    settings: &Settings,
    of: Loop,
) -> Outcome {
    let clock = RunClock::start();
    let client = |part: Part| {
        let pace = pace(of, part.worker, part.workers);
        let protocol = protocol(&part, clock);
        DatagramClient::new(protocol, part.plan, pace, part.targets, part.locals, None)
    };
    run_each(settings, &client, clock, &mut Silent).expect("it ran")
}

/// Serves at an address while `load` goes on.
fn beside<P: DatagramServer, R: Send, T>(
    address: IpAddr,
    workers: u32,
    make: impl Fn(RunClock) -> P + Sync,
    left: impl Fn(&P) -> R + Sync,
    load: impl FnOnce(SocketAddr) -> T,
) -> (T, Served, Vec<R>) {
    let settings = ServeSettings {
        at: (address, 0).into(),
        stack: None,
        workers,
        wait: Wait::Sleep,
        budget: Budget::new(64 << 20),
        secret: [3, 4],
    };
    beside_by(settings, make, left, load)
}

fn beside_by<P: DatagramServer, R: Send, T>(
    settings: ServeSettings,
    make: impl Fn(RunClock) -> P + Sync,
    left: impl Fn(&P) -> R + Sync,
    load: impl FnOnce(SocketAddr) -> T,
) -> (T, Served, Vec<R>) {
    let stop = AtomicBool::new(false);
    let (tell, heard) = channel();
    thread::scope(|scope| {
        let (stop, make, left) = (&stop, &make, &left);
        let serving = scope.spawn(move || {
            let clock = RunClock::start();
            let ready = |at| tell.send(at).expect("somebody listens");
            serve_datagrams(&settings, &|| make(clock), left, clock, stop, ready)
        });
        let at = heard.recv().expect("it listens");
        let outcome = load(at);
        wait_until("what came is read", || unread_bytes(Some(at.port())) == 0);
        stop.store(true, Ordering::Relaxed);
        let (served, left) = serving.join().expect("no panic").expect("it served");
        (outcome, served, left)
    })
}

#[track_caller]
fn is_whole(outcome: &Outcome, served: &Served, requests: u64) {
    let counts = &outcome.counts;
    assert_eq!(outcome.broken_identity, None);
    assert_eq!(
        (counts.planned, counts.sent),
        (requests, requests),
        "{counts:?}"
    );
    assert_eq!(
        (counts.answered, counts.succeeded),
        (requests, requests),
        "{counts:?}"
    );
    assert_eq!(
        (counts.strays, counts.duplicates, counts.late_answers),
        (0, 0, 0)
    );
    assert_eq!(counts.outstanding(), 0);
    assert_eq!(served.counts.requests, requests);
    assert_eq!(served.counts.received_bytes, counts.request_bytes);
    assert_eq!(served.counts.answer_bytes, counts.received_bytes);
    assert_eq!(outcome.times.latency.count(), requests);
    assert_eq!(outcome.times.lateness.count(), requests);
    assert_eq!(outcome.departures.len(), requests as usize);
}

#[test]
fn an_echo_answers_each_datagram() {
    for (address, workers, of) in [
        (IpAddr::from(Ipv4Addr::LOCALHOST), 1, Loop::Closed),
        (Ipv4Addr::LOCALHOST.into(), 2, Loop::Open(5_000.0)),
        (Ipv4Addr::LOCALHOST.into(), 1, Loop::Thinking),
        (Ipv6Addr::LOCALHOST.into(), 1, Loop::Open(5_000.0)),
    ] {
        let run = |at| load(at, true, plan(), workers, of);
        let (outcome, served, _) = beside(address, 1, |_| EchoDatagrams, |_| (), run);
        is_whole(&outcome, &served, 2_000);
        assert_eq!(outcome.counts.opened, 8);
    }
}

#[test]
fn a_flow_has_another_port_after_its_requests() {
    for (workers, of) in [
        (1, Loop::Closed),
        (2, Loop::Open(5_000.0)),
        (1, Loop::Thinking),
    ] {
        let plan = Plan {
            requests_each: Some(10),
            ..plan()
        };
        let ports = |_| Ports(EchoDatagrams, HashMap::new());
        let run = |at| load(at, true, plan, workers, of);
        let seen = |ports: &Ports| ports.1.clone();
        let (outcome, served, left) = beside(Ipv4Addr::LOCALHOST.into(), 1, ports, seen, run);
        is_whole(&outcome, &served, 2_000);
        let (counts, ports) = (&outcome.counts, &left[0]);
        // The kernel may give a port again.
        assert!((150..=208).contains(&ports.len()), "{} ports", ports.len());
        let tens = ports.values().filter(|&&requests| requests == 10).count();
        assert!(tens * 10 >= ports.len() * 8, "{ports:?}");
        assert!((193..=208).contains(&counts.opened), "{counts:?}");
        assert!(counts.closed >= 192 && counts.closed <= 200, "{counts:?}");
    }
}

/// An echo that knows how many requests came from each port.
struct Ports(EchoDatagrams, HashMap<u16, u64>);

impl DatagramServer for Ports {
    fn read(&mut self, ends: [End; 2], at: i64, bytes: &[u8], answer: &mut Vec<u8>) -> bool {
        *self.1.entry(ends[1].1).or_default() += 1;
        self.0.read(ends, at, bytes, answer)
    }
}

#[test]
fn a_server_of_all_addresses_answers_from_the_asked_one() {
    let run = |at: SocketAddr| {
        let to = SocketAddr::new("127.0.0.9".parse().expect("an address"), at.port());
        load(to, true, plan(), 1, Loop::Closed)
    };
    let all = Ipv4Addr::UNSPECIFIED.into();
    let (outcome, served, _) = beside(all, 1, |_| EchoDatagrams, |_| (), run);
    is_whole(&outcome, &served, 2_000);
}

fn sink(clock: RunClock) -> SinkDatagrams {
    SinkDatagrams::new(100, CLOCK, clock.ahead_ns())
}

#[test]
fn a_sink_counts_what_a_client_sent() {
    for (workers, of) in [
        (1, Loop::Open(10_000.0)),
        (2, Loop::Open(10_000.0)),
        (1, Loop::Thinking),
    ] {
        let run = |at| load(at, false, plan(), workers, of);
        let loopback = Ipv4Addr::LOCALHOST.into();
        let (outcome, served, left) = beside(loopback, 2, sink, SinkDatagrams::figures, run);
        let mut figures = SinkFigures::default();
        left.iter().for_each(|each| figures.add(each));
        let counts = &outcome.counts;
        assert_eq!(outcome.broken_identity, None);
        assert_eq!(
            (counts.sent, counts.one_way, counts.answered),
            (2_000, 2_000, 0)
        );
        assert_eq!(figures.broken_identity(), None);
        let dropped = served
            .transports
            .iter()
            .map(|facts| facts.dropped)
            .sum::<u64>();
        assert_eq!((figures.received, dropped), (2_000, 0));
        // Between two processors the kernel may change the order.
        assert_eq!((figures.lost, figures.duplicates), (0, 0));
        assert_eq!((figures.foreign, figures.corrupt, figures.flows), (0, 0, 8));
        assert_eq!(figures.bytes, counts.request_bytes);
        assert_eq!(figures.delays.count(), 2_000);
        // One clock, read in two ways that differ by less than a millisecond.
        let most = figures.delays.max_ns();
        assert!(most > Some(0) && most < Some(5_000_000_000), "{most:?}");
        assert!(figures.jitter_mean_ns() > Some(0));
    }
}

/// Echoes, but drops every Nth request of a flow, sends some answers twice, and one to a
/// wrong number.
struct Faulty {
    drops: u64,
    doubles: u64,
    dropped: u64,
}

impl DatagramServer for Faulty {
    fn read(&mut self, ends: [End; 2], at: i64, bytes: &[u8], answer: &mut Vec<u8>) -> bool {
        let header = StampedHeader::parse(bytes).expect("one of ours");
        if header.number % self.drops == 3 {
            self.dropped += 1;
            return true;
        }
        EchoDatagrams.read(ends, at, bytes, answer);
        self.doubles == 0 || header.number % self.doubles != 1 || {
            // Twice in one datagram is no answer at all.
            answer.extend_from_within(..);
            true
        }
    }
}

#[test]
fn requests_without_an_answer_are_lost_and_hold_nobody_up() {
    for of in [Loop::Closed, Loop::Open(20_000.0)] {
        let plan = Plan {
            timeout_ns: 200_000_000,
            ..plan()
        };
        let faulty = |_| Faulty {
            drops: 10,
            doubles: 25,
            dropped: 0,
        };
        let run = |at| load(at, true, plan, 1, of);
        let (outcome, served, _) = beside(Ipv4Addr::LOCALHOST.into(), 1, faulty, |_| (), run);
        let counts = &outcome.counts;
        assert_eq!(outcome.broken_identity, None);
        assert_eq!(counts.sent, 2_000);
        let lost = counts.failed[Cause::Timeout as usize];
        assert_eq!(
            (counts.answered + lost, counts.outstanding()),
            (2_000, 0),
            "{counts:?}"
        );
        // A tenth and a twenty-fifth of each flow's numbers, whose counts the loop decides.
        assert!((240..=320).contains(&lost), "{counts:?}");
        assert_eq!(served.counts.requests, 2_000);
        assert!(counts.strays > 40 && counts.duplicates == 0, "{counts:?}");
    }
}

/// Answers by hand: late, twice, and nobody's.
#[test]
fn late_answers_and_duplicates_are_counted_apart() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let at = server.local_addr().expect("bound");
    let answering = thread::spawn(move || {
        let (mut buffer, mut held) = ([0; 2_000], Vec::new());
        for number in 0..20u64 {
            let (len, peer) = server.recv_from(&mut buffer).expect("a request");
            let header = StampedHeader::parse(&buffer[..len]).expect("one of ours");
            assert_eq!(header.number, number);
            buffer[5] = 2;
            if number == 4 {
                held = buffer[..len].to_vec();
                continue;
            }
            let copies = if number == 7 { 3 } else { 1 };
            for _ in 0..copies {
                server.send_to(&buffer[..len], peer).expect("sent");
            }
            if number == 9 {
                server.send_to(&held, peer).expect("sent");
                server.send_to(b"no answer", peer).expect("sent");
            }
        }
    });
    let plan = Plan {
        connections: 1,
        pipeline: 1,
        requests: Some(20),
        timeout_ns: 2_000_000_000,
        ..plan()
    };
    let outcome = load(at, true, plan, 1, Loop::Closed);
    answering.join().expect("no panic");
    let counts = &outcome.counts;
    assert_eq!(outcome.broken_identity, None);
    assert_eq!((counts.sent, counts.answered), (20, 19));
    assert_eq!(counts.failed[Cause::Timeout as usize], 1);
    assert_eq!(
        (counts.late_answers, counts.duplicates, counts.strays),
        (1, 2, 1)
    );
}

#[test]
fn a_closed_port_refuses_each_request() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let at = socket.local_addr().expect("bound");
    drop(socket);
    let plan = Plan {
        connections: 2,
        pipeline: 1,
        requests: Some(40),
        retry_ns: 1_000_000,
        ..plan()
    };
    for of in [Loop::Closed, Loop::Open(2_000.0)] {
        let outcome = load(at, true, plan.clone(), 1, of);
        let counts = &outcome.counts;
        assert_eq!(outcome.broken_identity, None);
        assert_eq!((counts.sent, counts.answered), (40, 0));
        assert_eq!(counts.failed[Cause::Reset as usize], 40, "{counts:?}");
    }
}

#[test]
fn a_flow_that_is_full_makes_requests_wait() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let at = socket.local_addr().expect("bound");
    let plan = Plan {
        connections: 1,
        pipeline: 2,
        requests: Some(20),
        timeout_ns: 20_000_000,
        waiting_max: 3,
        ..plan()
    };
    // Nobody answers: at most two are under way, three wait, and the others are given up.
    let outcome = load(at, true, plan, 1, Loop::Open(10_000.0));
    let counts = &outcome.counts;
    assert_eq!(outcome.broken_identity, None);
    assert_eq!(counts.planned, 20);
    let unsent = counts.unsent[Unsent::NoConnection as usize];
    assert!(unsent >= 10 && counts.waited >= unsent + 3, "{counts:?}");
    assert_eq!(counts.failed[Cause::Timeout as usize], counts.sent);
    assert!(counts.sent >= 5, "{counts:?}");
}

#[test]
fn each_datagram_has_a_row() {
    let (queue, source) = rows(2);
    let queue = std::sync::Mutex::new(Some(queue));
    let run = |at| {
        let clock = RunClock::start();
        let settings = settings(at, plan(), 1);
        let client = |part: Part| {
            let rows = queue.lock().expect("one worker").take();
            let pace = pace(Loop::Open(5_000.0), 0, 1);
            let protocol = stamped(true, clock);
            DatagramClient::new(protocol, part.plan, pace, part.targets, part.locals, rows)
        };
        run_each(&settings, &client, clock, &mut Silent).expect("it ran")
    };
    let reading = thread::spawn(move || {
        let mut all = Vec::new();
        let patience = std::time::Duration::from_secs(60);
        while source.next(patience, |row| all.push(*row)).is_ok() {}
        all
    });
    let (outcome, ..) = beside(
        Ipv4Addr::LOCALHOST.into(),
        1,
        |_| EchoDatagrams,
        |_| (),
        run,
    );
    let all = reading.join().expect("no panic");
    assert_eq!((all.len(), outcome.rows_dropped), (1_000, 0));
    for row in all {
        let departed_ns: Nanoseconds = row.departed_ns.expect("it left");
        assert!(row.ordinal % 2 == 0 && row.slot < 8 && row.cause.is_none());
        assert!(departed_ns <= row.end_ns.expect("answered"), "{row:?}");
        assert_eq!(row.content_bytes, row.request_bytes);
        assert!(row.ends[0].1 > 0);
    }
}
