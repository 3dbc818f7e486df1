//! `lineside compare` over kinds of traffic: two traces of one process are no news, whichever kind
//! it is, and a tail over all kinds of operations is.

use std::f64::consts::TAU;
use std::fs;

use lineside_time::Random;

use crate::compare::{changes, json, written};
use crate::traffic::{Operation, SECOND_NS, Traffic, normal, unit};

const SECONDS: i64 = 120;
/// Half seconds, in which a process stays what it is.
const STEPS: usize = SECONDS as usize * 2;

/// The logarithms of what a process makes of the load, at most 0, and of the latency, for each
/// half second.
type Process = fn(&mut Random) -> Vec<[f64; 2]>;

/// As many as `LINESIDE_SEEDS` says, or a few.
fn pairs() -> u64 {
    std::env::var("LINESIDE_SEEDS").map_or(8, |many| many.parse().expect("a number"))
}

/// A first-order autoregressive process: it forgets in about 20 steps, and is 200 old.
fn autoregressive(random: &mut Random) -> Vec<f64> {
    let mut state = 0.0;
    let mut next = || {
        state = 0.95 * state + 0.1 * normal(random);
        state
    };
    (0..200).for_each(|_| {
        next();
    });
    (0..STEPS).map(|_| next()).collect()
}

/// Two states, each for 40 steps in the mean.
fn regimes(random: &mut Random) -> Vec<bool> {
    let mut state = random.chance(0.5);
    let next = |_| {
        state ^= random.chance(1.0 / 40.0);
        state
    };
    (0..STEPS).map(next).collect()
}

const PROCESSES: [(&str, Process); 8] = [
    ("independent", |_| vec![[-0.5, 0.0]; STEPS]),
    ("AR(1) of load", |random| {
        let states = autoregressive(random).into_iter();
        states.map(|state| [(state - 1.0).min(0.0), 0.0]).collect()
    }),
    ("AR(1) of latency", |random| {
        let states = autoregressive(random).into_iter();
        states.map(|state| [-0.5, state]).collect()
    }),
    ("regimes of load", |random| {
        let states = regimes(random).into_iter();
        states
            .map(|is_high| [if is_high { 0.0 } else { -1.4 }, 0.0])
            .collect()
    }),
    ("regimes of latency", |random| {
        let states = regimes(random).into_iter();
        states
            .map(|is_high| [-0.5, if is_high { 1.1 } else { 0.0 }])
            .collect()
    }),
    ("gaps of a Pareto distribution", |random| {
        let mut steps = Vec::new();
        while steps.len() < STEPS {
            let gap = (unit(random).powf(-1.0 / 1.5) * 2.0) as usize;
            steps.extend(vec![[-8.0, 0.0]; gap.min(60)]);
            steps.extend([[0.0, 0.0]; 4]);
        }
        steps.truncate(STEPS);
        steps
    }),
    ("a day's course", |random| {
        // Each trace has three whole days, and begins at some hour.
        let hour = unit(random);
        let course = |step| f64::sin(TAU * (hour + 3.0 * step as f64 / STEPS as f64));
        (0..STEPS)
            .map(|step| [0.7 * course(step) - 0.7, 0.4 * course(step)])
            .collect()
    }),
    ("bursts", |random| {
        let mut left = 0;
        let step = |_| {
            match left {
                0 if random.chance(0.03) => left = 4 + random.below(8),
                0 => {}
                _ => left -= 1,
            }
            if left > 0 { [0.0, 0.5] } else { [-1.5, 0.0] }
        };
        (0..STEPS).map(step).collect()
    }),
];

/// Makes traffic into that of a process.
fn follow(process: Process, seed: u64) -> impl Fn(&mut Operation) -> bool {
    let steps = process(&mut Random::new(seed));
    move |each| {
        let [load, latency] = steps[(each.at_ns * 2 / SECOND_NS) as usize % STEPS];
        each.latency_ns *= latency.exp();
        // One in so many operations, whichever it is.
        let chance = Random::new(each.at_ns as u64).below(1 << 20) as f64 / f64::from(1 << 20);
        chance < load.exp()
    }
}

fn traffic(seed: u64) -> Traffic {
    Traffic {
        seed,
        seconds: SECONDS,
        per_second: 100.0,
        ..Traffic::default()
    }
}

/// By `LINESIDE_SEEDS` more pairs of each are tried.
#[test]
fn two_traces_of_one_process_are_no_news() {
    let folder = tempfile::tempdir().expect("a folder");
    let pairs = pairs();
    let mut wrong = Vec::new();
    for (name, process) in PROCESSES {
        let mut called = 0;
        for seed in 1..=pairs {
            for (trace, seed) in [("a", seed), ("b", seed + 10_000)] {
                written(trace, &folder, &traffic(seed), follow(process, seed));
            }
            let news = changes(&json(&folder, &["a", "b"]));
            called += u64::from(!news.is_empty());
            news.iter()
                .for_each(|news| println!("{name}, seed {seed}: {news}"));
            for trace in ["a", "b"] {
                fs::remove_dir_all(folder.path().join(trace)).expect("removed");
            }
        }
        println!("{name}: {called} of {pairs}");
        if called > pairs.div_ceil(100) {
            wrong.push(format!("{name}: {called} of {pairs}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_tail_over_all_kinds_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    for seed in 1..=pairs() {
        let slow = |each: &mut Operation| {
            if Random::new(each.at_ns as u64).below(100) == 0 {
                each.latency_ns *= 50.0;
            }
            true
        };
        written("a", &folder, &traffic(seed), |_| true);
        written("b", &folder, &traffic(seed + 10_000), slow);
        let news = changes(&json(&folder, &["a", "b"]));
        let is_tail = |news: &String| {
            news.starts_with("worse: all operations: ") && news.contains("longer than 99 %")
        };
        assert!(news.iter().any(is_tail), "seed {seed}: {news:#?}");
        for trace in ["a", "b"] {
            fs::remove_dir_all(folder.path().join(trace)).expect("removed");
        }
    }
}
