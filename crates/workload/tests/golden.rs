//! The first draws of every model for a seed, as text: the same on each machine. After a change
//! that is meant, `LINESIDE_BLESS=1 cargo test -p lineside-workload --test golden` writes them.

use std::fmt::Write as _;
use std::path::Path;

use lineside_workload::{Arrivals, Profile, Schedule, Share};

const SEED: u64 = 20_261_125;

/// Compares with the file of this name, or writes it.
fn compare(name: &str, text: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let path = folder.join(name);
    if std::env::var_os("LINESIDE_BLESS").is_some() {
        std::fs::write(&path, text).expect("the folder is there");
        return;
    }
    let golden = std::fs::read_to_string(&path).expect("it was written before");
    assert_eq!(
        text, golden,
        "draws differ from {name}: the same seed must give the same draws"
    );
}

#[test]
fn arrivals_of_a_seed_are_those_of_the_file() {
    let mut text = String::new();
    for words in [
        "constant",
        "poisson",
        "uniform",
        "uniform 50us..150us",
        "gamma cv 2",
        "gamma cv 0.3",
        "weibull shape 0.7",
        "lognormal cv 1.5",
        "lognormal sigma 0.4",
        "pareto alpha 1.5",
        "on-off 20000 for 2ms, 0 for 3ms",
        "file gaps.txt",
    ] {
        let mut load = |_: &str| Ok("gaps in us\n10\n0.4\n25.125\n".to_owned());
        let arrivals = Arrivals::parse(words, &mut load).expect(words);
        for rate in [
            "10000",
            "0.7",
            "1000 for 3ms, 0 for 2ms, 2000 to 50000 in 3ms, 30000",
        ] {
            if rate == "0.7" && words.starts_with("on-off") {
                continue;
            }
            let profile: Profile = rate.parse().expect(rate);
            let schedule = Schedule::new(&arrivals, Some(&profile), SEED, Share::ALL);
            let at = schedule
                .expect(words)
                .take(32)
                .map(|arrival| arrival.at_ns.to_string());
            let at: Vec<_> = at.collect();
            writeln!(text, "{words} at {rate}: {}", at.join(" ")).expect("memory");
        }
    }
    compare("arrivals.txt", &text);
}
