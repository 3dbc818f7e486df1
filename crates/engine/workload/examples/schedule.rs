//! What an arrival costs: drawn and mapped to its instant, alone and as one of two or eight
//! workers, which draw the arrivals of the others as well; and what a size, a key or a text costs.
//!
//!     cargo run --profile dist -p lineside-workload --example schedule
//!
//! Medians of 9 rounds, in nanoseconds for each arrival of the worker's own. It does not show what
//! is done when one is due, nor caches that other work has filled.

use std::hint::black_box;
use std::time::Instant;

use lineside_workload::{
    Arrivals, Keys, Profile, Schedule, Share, Sizes, Template, Unit, no_files,
};

const ROUNDS: usize = 9;
const CALLS: usize = 200_000;

/// The median of rounds, for each of this many calls.
#[expect(clippy::disallowed_methods, reason = "this measures")]
fn median(mut call: impl FnMut(u64)) -> f64 {
    let mut ordinal = 0;
    let mut rounds: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            for _ in 0..CALLS {
                call(ordinal);
                ordinal += 1;
            }
            begin.elapsed().as_secs_f64() * 1e9 / CALLS as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn main() {
    let rates = ["10000", "1000 for 1s, 1000 to 20000 in 10s, 20000"];
    let rates = rates.map(|rate| rate.parse::<Profile>().expect(rate));
    println!("arrivals                               1 of 1    ramp  1 of 2  1 of 8");
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
            median(|_| _ = black_box(schedule.next()))
        };
        let all = figure(&rates[0], Share::ALL);
        let ramp = figure(&rates[1], Share::ALL);
        let [two, eight] = [2, 8].map(|workers| figure(&rates[0], Share::of(0, workers)));
        println!("{words:36} {all:8.1} {ramp:7.1} {two:7.1} {eight:7.1}");
    }
    println!("\nsizes, keys, texts");
    for words in [
        "gamma mean 4KiB cv 2",
        "pareto min 1KiB alpha 1.3 max 10MiB",
        "table 64:90%, 4KiB:10%",
    ] {
        let sizes = Sizes::parse("size", words, Unit::Bytes, &mut no_files).expect(words);
        let cost = median(|ordinal| _ = black_box(sizes.draw(7, ordinal)));
        println!("{words:36} {cost:8.1}");
    }
    for words in ["zipf 0.99 over 1000000", "uniform over 1000000"] {
        let keys: Keys = words.parse().expect(words);
        let cost = median(|ordinal| _ = black_box(keys.draw(7, ordinal)));
        println!("{words:36} {cost:8.1}");
    }
    for words in [
        "/item/{n}",
        "/item/{hex:16}?u={random:1..1000}",
        "{bytes:64}",
    ] {
        let template = Template::parse(words, None, 7).expect(words);
        let mut out = Vec::with_capacity(template.len_max());
        let cost = median(|ordinal| {
            out.clear();
            template.write(ordinal, 0, &mut out);
            black_box(&out);
        });
        println!("{words:36} {cost:8.1}");
    }
}
