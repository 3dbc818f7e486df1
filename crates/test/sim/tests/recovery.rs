//! What loss and reordering cost a stream: its time, and what leaves again for nothing.

use lineside_link::{Chance, Delay, Limit, Loss, Order, Settings, words};
use lineside_sim::{Scenario, Side, Talk, run};
use lineside_tcp::congestion::{CUBIC, Congestion, NEW_RENO};
use lineside_tcp::{Config, Counters};

const BYTES: u64 = 4_000_000;
/// After the stream: late segments still find who knows them.
const TIME_WAIT_NS: i64 = 1_000_000_000;
/// Runs of which the median counts.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=7;

/// What the path of a stream does, at 50 Mb/s.
#[derive(Debug, Clone, Copy, Default)]
struct Path {
    trip_ms: u64,
    /// The share of its segments that is lost.
    loss: f64,
    /// The share that does not wait, and overtakes what was sent in half of a round trip.
    overtakes: f64,
    /// The deviation of the time that each takes; they overtake each other.
    jitter_us: u64,
}

/// How long a stream takes, and what its sender counted.
fn stream(congestion: &'static dyn Congestion, path: Path, seed: u64) -> (i64, Counters) {
    let side = |bytes| Side {
        bytes,
        step: BYTES,
        pause_ns: 0,
        stops_at: None,
        aborts_at: None,
    };
    let ends = [[10, 0, 0, 1], [10, 0, 0, 2]].map(std::net::IpAddr::from);
    let config = |last: u8| Config {
        congestion,
        time_wait_ns: TIME_WAIT_NS,
        receive_window_bytes: 400_000,
        ..Config::new([2, 0, 0, 0, 0, last], &ends[usize::from(last) - 1..][..1])
    };
    let chance = |share| Chance {
        share,
        ..Chance::default()
    };
    let delay = match path.jitter_us {
        0 => format!("{}us", path.trip_ms * 500),
        jitter => format!("{}us {jitter}us distribution normal", path.trip_ms * 500),
    };
    let link = |path: Path| Settings {
        loss: Loss::Random(chance(path.loss)),
        reorder: chance(path.overtakes),
        delay: Delay {
            order: Order::Reorder,
            ..words::delay(&delay, &mut words::no_files).expect("words of a delay")
        },
        rate: Some(words::rate("50mbit").expect("words of a rate")),
        limit: Limit::Bytes(1 << 20),
        ..Settings::default()
    };
    let back = Path {
        trip_ms: path.trip_ms,
        ..Path::default()
    };
    let scenario = Scenario {
        seed,
        server: (ends[1], config(2)),
        clients: vec![(ends[0], config(1))],
        links: [link(path), link(back)],
        changes: Vec::new(),
        talks: vec![Talk {
            begins_ns: 0,
            client: 0,
            sides: [side(BYTES), side(0)],
        }],
        sample_ns: None,
    };
    let outcome = run(&scenario).expect("every byte arrives");
    (outcome.took_ns - TIME_WAIT_NS, outcome.counters[0])
}

/// The median goodput in Mb/s, and what all runs sent again.
fn measure(congestion: &'static dyn Congestion, path: Path) -> (f64, u64) {
    let runs: Vec<_> = SEEDS.map(|seed| stream(congestion, path, seed)).collect();
    let mut times: Vec<_> = runs.iter().map(|run| run.0).collect();
    times.sort_unstable();
    let again = runs
        .iter()
        .map(|run| run.1.retransmitted_fast + run.1.retransmitted_timeout);
    let goodput = BYTES as f64 * 8e3 / times[times.len() / 2] as f64;
    let again = again.sum();
    println!("{congestion:?} {path:?}: {goodput:.2} Mb/s, {again} sent again");
    (goodput, again)
}

const STRATEGIES: [&dyn Congestion; 2] = [&NEW_RENO, &CUBIC];

#[test]
fn loss_with_reordering_is_no_slower_than_it_was() {
    // What RFC 6675 without RACK, PRR, D-SACK and F-RTO took.
    for (trip_ms, before) in [(20, [8.47, 11.02]), (80, [2.13, 2.82])] {
        for (congestion, before) in STRATEGIES.into_iter().zip(before) {
            let path = Path {
                trip_ms,
                loss: 0.01,
                overtakes: 0.01,
                ..Path::default()
            };
            let (goodput, _) = measure(congestion, path);
            assert!(goodput >= before, "{goodput} of {before}");
        }
    }
}

#[test]
fn overtaking_makes_less_leave_again_than_it_did() {
    for (trip_ms, before) in [(20, [1165, 1387]), (80, [2417, 3030])] {
        for (congestion, before) in STRATEGIES.into_iter().zip(before) {
            let path = Path {
                trip_ms,
                overtakes: 0.01,
                ..Path::default()
            };
            let (_, again) = measure(congestion, path);
            assert!(again < before, "{again} of {before}");
        }
    }
}

#[test]
fn jitter_within_the_reordering_window_costs_little() {
    for trip_ms in [20, 80] {
        for congestion in STRATEGIES {
            let path = Path {
                trip_ms,
                jitter_us: 1000,
                ..Path::default()
            };
            let (_, again) = measure(congestion, path);
            // RFC 6675 had 1,386 to 1,629 of 20,000.
            assert!(again < 60, "{again} sent again");
        }
    }
}
