//! How fast a stream is when the path loses each Nth segment and nothing else bounds it: the
//! formulas of RFC 3819, 4 (Reno: Mathis and others, CCR 1997) and RFC 9438, 5.1 (CUBIC).

use lineside_link::{Loss, Settings, words};
use lineside_sim::{Scenario, Side, Talk, run};
use lineside_tcp::Config;
use lineside_tcp::congestion::{CUBIC, Congestion, NEW_RENO};

const ROUND_TRIP_S: f64 = 0.08;
const SEGMENT_BYTES: f64 = 1448.0;

/// Round trips that a stream of this many segments takes when the path loses each `every`th.
fn trips(congestion: &'static dyn Congestion, segments: u64, every: u64) -> f64 {
    let side = |bytes| Side {
        bytes,
        step: bytes.max(1),
        pause_ns: 0,
        stops_at: None,
        aborts_at: None,
    };
    let ends = [[10, 0, 0, 1], [10, 0, 0, 2]].map(std::net::IpAddr::from);
    let config = |last: u8| Config {
        congestion,
        receive_window_bytes: 1 << 20,
        time_wait_ns: 1_000_000,
        delayed_ack_ns: 1_000_000,
        ..Config::new([2, 0, 0, 0, 0, last], &ends[usize::from(last) - 1..][..1])
    };
    let link = |loss| Settings {
        loss,
        delay: words::delay("40ms", &mut words::no_files).expect("words of a delay"),
        ..Settings::default()
    };
    let scenario = Scenario {
        seed: 1,
        server: (ends[1], config(2)),
        clients: vec![(ends[0], config(1))],
        links: [link(Loss::Every(every)), link(Loss::None)],
        changes: Vec::new(),
        talks: vec![Talk {
            begins_ns: 0,
            client: 0,
            sides: [side(segments * SEGMENT_BYTES as u64), side(0)],
        }],
        sample_ns: None,
    };
    let outcome = run(&scenario).expect("every byte arrives");
    assert_eq!(outcome.counters[0].timeouts, 0);
    outcome.took_ns as f64 / 1e9 / ROUND_TRIP_S
}

/// Segments in a round trip, on average over the last 40 losses of 60.
fn window(congestion: &'static dyn Congestion, every: u64) -> f64 {
    let [begun, whole] = [20, 60].map(|losses| trips(congestion, losses * every, every));
    (40 * every) as f64 / (whole - begun)
}

fn expect_near(found: f64, expected: f64, what: &str) {
    let ratio = found / expected;
    assert!(
        (0.85..1.15).contains(&ratio),
        "{what}: {found:.1} of {expected:.1}"
    );
}

#[test]
fn reno_is_as_fast_as_the_formula_says() {
    // At a loss in 100 the round trip of each recovery, which the formula leaves out, counts.
    for every in [400, 1600] {
        let expected = 1.22 * f64::from(every as u32).sqrt();
        expect_near(window(&NEW_RENO, every), expected, &format!("1/{every}"));
    }
}

#[test]
fn cubic_is_as_fast_as_the_formula_says() {
    // RFC 9438, equation 6, where its window is larger than Reno's.
    let every = 10_000_u32;
    let expected = 1.054 * (ROUND_TRIP_S * f64::from(every)).powf(0.75);
    expect_near(window(&CUBIC, every.into()), expected, "1/10000");
}
