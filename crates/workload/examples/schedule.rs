//! What an arrival costs: drawn and mapped to its instant, alone and as one of two or eight
//! workers, which draw the arrivals of the others as well.
//!
//!     cargo run --release -p lineside-workload --example schedule
//!
//! Medians of 9 rounds, in nanoseconds for each arrival of the worker's own. It does not show what
//! is done when one is due, nor caches that other work has filled.

use std::hint::black_box;
use std::time::Instant;

use lineside_workload::{Arrivals, Profile, Schedule, Share, no_files};

const ROUNDS: usize = 9;
const ARRIVALS: usize = 200_000;

#[expect(clippy::disallowed_methods, reason = "this measures")]
fn timed(schedule: &mut Schedule) -> f64 {
    let begin = Instant::now();
    for _ in 0..ARRIVALS {
        black_box(schedule.next());
    }
    begin.elapsed().as_secs_f64() * 1e9 / ARRIVALS as f64
}

fn main() {
    let rates = ["10000", "1000 for 1s, 1000 to 20000 in 10s, 20000"];
    let rates = rates.map(|rate| rate.parse::<Profile>().expect(rate));
    println!(
        "{:36} {:>7} {:>7} {:>7} {:>7}",
        "arrivals", "1 of 1", "ramp", "1 of 2", "1 of 8"
    );
    for words in [
        "constant",
        "poisson",
        "uniform",
        "gamma cv 0.5",
        "gamma cv 2",
        "weibull shape 0.7",
        "lognormal cv 1.5",
        "pareto alpha 1.5",
        "on-off 20000 for 100ms, 0 for 900ms",
    ] {
        let arrivals = Arrivals::parse(words, &mut no_files).expect(words);
        let figure = |rate: &Profile, share: Share| {
            let mut schedule = Schedule::new(&arrivals, Some(rate), 7, share).expect(words);
            let mut rounds: Vec<_> = (0..ROUNDS).map(|_| timed(&mut schedule)).collect();
            rounds.sort_by(f64::total_cmp);
            rounds[ROUNDS / 2]
        };
        let figures = [
            figure(&rates[0], Share::ALL),
            figure(&rates[1], Share::ALL),
            figure(&rates[0], Share::of(0, 2)),
            figure(&rates[0], Share::of(0, 8)),
        ];
        let [all, ramp, two, eight] = figures;
        println!("{words:36} {all:7.1} {ramp:7.1} {two:7.1} {eight:7.1}");
    }
}
