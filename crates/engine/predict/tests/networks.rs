//! Workloads whose time over a network is known, and random ones.

use lineside_link::{Loss, Settings, words};
use lineside_predict::{Begin, Call, Connection, Network, Outcome, Work, Workload, predict};
use lineside_tcp::congestion::CUBIC;
use lineside_time::Random;

const MS: i64 = 1_000_000;
const HOUR_NS: i64 = 3_600_000 * MS;

/// A network by its words: delay, rate and loss of each way.
fn network(delay: &str, rate: Option<&str>, loss: Option<&str>) -> Network {
    let settings = Settings {
        delay: words::delay(delay, &mut words::no_files).expect("words"),
        rate: rate.map(|rate| words::rate(rate).expect("words")),
        loss: loss.map_or(Loss::None, |loss| words::loss(loss).expect("words")),
        ..Settings::default()
    };
    Network {
        ways: [settings.clone(), settings],
        congestion: &CUBIC,
        seed: 7,
        longest_ns: 24 * HOUR_NS,
    }
}

fn run(workload: &Workload, network: &Network) -> Outcome {
    let outcome = predict(workload, network).expect("a workload");
    assert_eq!(outcome.unfinished, 0);
    outcome
}

fn request(begin: Begin, bytes: [u64; 2]) -> Call {
    let [call_bytes, reply_bytes] = bytes;
    Call {
        connection: 0,
        thread: 0,
        work: Work::Request {
            call_bytes,
            reply_bytes,
            server_ns: MS,
        },
        begin,
    }
}

/// `count` calls, each 2 ms after the reply to the one `depth` before it, on one connection.
fn chain(count: u32, depth: u32, bytes: [u64; 2]) -> Workload {
    let begin = |index: u32| match index.checked_sub(depth) {
        Some(call) => Begin::After {
            call,
            think_ns: 2 * MS,
        },
        None => Begin::At(0),
    };
    Workload {
        connections: vec![Connection {
            client: 0,
            server: 0,
        }],
        calls: (0..count)
            .map(|index| request(begin(index), bytes))
            .collect(),
        edges: Vec::new(),
    }
}

/// Within a hundredth, and never too early.
fn about(found: i64, expected: i64) {
    assert!(found >= expected, "{found} is less than {expected}");
    assert!(
        found <= expected + expected / 100,
        "{found} is more than {expected}"
    );
}

#[test]
fn a_chain_takes_a_round_trip_a_call() {
    // A round trip, the server, and thought between two.
    let outcome = run(&chain(100, 1, [120, 160]), &network("10ms", None, None));
    about(outcome.elapsed_ns, (100 * (20 + 1) + 99 * 2) * MS);
    let latencies = outcome.times.iter().filter_map(|times| times.latency_ns());
    latencies.for_each(|latency| about(latency, 21 * MS));
}

#[test]
fn a_window_of_eight_takes_an_eighth() {
    let outcome = run(&chain(800, 8, [120, 160]), &network("10ms", None, None));
    about(outcome.elapsed_ns, (100 * (20 + 1) + 99 * 2) * MS);
}

#[test]
fn opening_a_connection_takes_a_round_trip() {
    let mut workload = chain(2, 1, [120, 160]);
    workload.calls[0].work = Work::Open;
    let outcome = run(&workload, &network("10ms", None, None));
    about(outcome.elapsed_ns, (20 + 2 + 20 + 1) * MS);
}

#[test]
fn a_connection_begins_slowly() {
    // 10 segments of 1,448 bytes, then 20, 40, ...: 1 MiB leaves in the seventh round.
    let outcome = run(&chain(1, 1, [1 << 20, 160]), &network("50ms", None, None));
    let rounds = outcome.elapsed_ns / (100 * MS);
    assert_eq!(rounds, 7, "{} ns", outcome.elapsed_ns);
}

#[test]
fn bytes_take_their_time_at_a_rate() {
    let workload = chain(20, 4, [120, 1 << 20]);
    let outcome = run(&workload, &network("100us", Some("100mbit"), None));
    // 20 MiB in segments of 1,448 bytes, in frames of 1,514.
    let frames_ns = 20.0 * f64::from(1 << 20) / 1448.0 * 1514.0 * 8.0 * 10.0;
    let share = outcome.elapsed_ns as f64 / frames_ns;
    assert!((0.999..1.05).contains(&share), "{share}");
}

#[test]
fn losses_cost_time_and_no_call() {
    let workload = chain(200, 4, [120, 100_000]);
    let whole = run(&workload, &network("5ms", None, None));
    let lossy = run(&workload, &network("5ms", None, Some("1%")));
    assert_eq!(whole.retransmissions, 0);
    assert!(lossy.retransmissions > 0 && lossy.frames[1] > 0);
    assert!(lossy.elapsed_ns > whole.elapsed_ns);
    assert_eq!(
        lossy,
        run(&workload, &network("5ms", None, Some("1%"))),
        "from its seed"
    );
}

#[test]
fn a_network_that_passes_nothing_ends_the_run() {
    let dead = Network {
        longest_ns: HOUR_NS,
        ..network("1ms", None, Some("100%"))
    };
    let outcome = predict(&chain(3, 1, [120, 160]), &dead).expect("a workload");
    assert_eq!(outcome.unfinished, 3);
}

#[test]
fn what_is_no_workload_is_an_error() {
    let network = network("1ms", None, None);
    let error = |workload: &Workload| {
        predict(workload, &network)
            .expect_err("no workload")
            .to_string()
    };
    assert_eq!(error(&Workload::default()), "it has no calls");
    let mut workload = chain(2, 1, [1, 1]);
    workload.edges = vec![(1, 0)];
    assert_eq!(
        error(&workload),
        "call 0 waits for call 1, which is no earlier one"
    );
    workload.calls[1].connection = 9;
    assert_eq!(
        error(&workload),
        "call 1 names a connection that is not there"
    );
}

/// Calls of some clients, which wait for any earlier ones.
fn random_workload(seed: u64) -> Workload {
    let mut random = Random::new(seed);
    let clients = 1 + random.below(4) as u32;
    let connections = (0..clients * 2).map(|number| Connection {
        client: number / 2,
        server: number % 2,
    });
    let connections: Vec<_> = connections.collect();
    let mut calls: Vec<Call> = Vec::new();
    let mut edges = Vec::new();
    for index in 0..1 + random.below(60) as u32 {
        let connection = random.below(connections.len() as u64) as u32;
        let begin = match random.below(5) {
            0 => Begin::At(random.below(50) as i64 * MS),
            _ if index == 0 => Begin::At(0),
            _ => Begin::After {
                call: random.below(index.into()) as u32,
                think_ns: random.below(3 * MS as u64) as i64,
            },
        };
        for _ in 0..random.below(3).min(index.into()) {
            edges.push((random.below(index.into()) as u32, index));
        }
        let is_first = calls.iter().all(|call| call.connection != connection);
        let [call_bytes, reply_bytes] = [1 + random.below(40_000), 1 + random.below(40_000)];
        let work = match random.below(8) {
            0 if is_first => Work::Open,
            1 => Work::OneWay { call_bytes },
            _ => Work::Request {
                call_bytes,
                reply_bytes,
                server_ns: random.below(5 * MS as u64) as i64,
            },
        };
        calls.push(Call {
            connection,
            thread: connection / 2 * 3 + random.below(3) as u32,
            work,
            begin,
        });
    }
    Workload {
        connections,
        calls,
        edges,
    }
}

/// No call is made before what it needs, nor before those of its thread; all are, once.
#[test]
fn calls_of_a_thousand_plans_wait_for_what_they_need() {
    let networks = [
        network("0ms", None, None),
        network("3ms 1ms", Some("20mbit"), None),
        network("1ms", None, Some("3%")),
    ];
    for seed in 0..1_000 {
        let workload = random_workload(seed);
        let network = &networks[seed as usize % networks.len()];
        let outcome = run(&workload, network);
        let times = &outcome.times;
        let [made, replied] = [|at: u32| (at, 0), |at: u32| (at, 1)].map(|of| {
            move |at: u32| {
                let (at, which) = of(at);
                let times = times[at as usize];
                [times.made_ns, times.replied_ns][which].expect("it is over")
            }
        });
        for (index, call) in (0..).zip(&workload.calls) {
            assert!(replied(index) >= made(index), "seed {seed}");
            match call.begin {
                Begin::At(at) => assert!(made(index) >= at, "seed {seed}"),
                Begin::After { call, think_ns } => {
                    assert!(made(index) >= replied(call) + think_ns, "seed {seed}");
                }
            }
            let mut before =
                (0..index).filter(|&at| workload.calls[at as usize].thread == call.thread);
            assert!(before.all(|at| made(at) <= made(index)), "seed {seed}");
        }
        for &(from, to) in &workload.edges {
            assert!(made(to) >= replied(from), "seed {seed}: {from} to {to}");
        }
        if seed % 100 == 0 {
            assert_eq!(outcome, run(&workload, network), "seed {seed}");
        }
    }
}
