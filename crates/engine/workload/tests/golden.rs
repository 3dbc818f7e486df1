//! The first draws of every model for a seed, as text: the same on each machine. After a change
//! that is meant, `LINESIDE_BLESS=1 cargo test -p lineside-workload --test golden` writes them.

use std::fmt::Write as _;
use std::path::Path;

use lineside_workload::{
    Arrivals, Keys, Profile, Purpose, Schedule, Share, Sizes, Template, Unit, seed_for,
};

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
        "generalized-pareto shape 0.155",
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

#[test]
fn sizes_and_times_of_a_seed_are_those_of_the_file() {
    let mut text = String::new();
    let mut add = |setting, words: &str, unit, purpose| {
        let mut load = |_: &str| Ok("100 0.2\n1500 0.7\n9000 1\n".to_owned());
        let sizes = Sizes::parse(setting, words, unit, &mut load).expect(words);
        let seed = seed_for(SEED, purpose);
        let draws: Vec<_> = (0..32)
            .map(|ordinal| sizes.draw(seed, ordinal).to_string())
            .collect();
        writeln!(text, "{setting} {words}: {}", draws.join(" ")).expect("memory");
    };
    for words in [
        "uniform 1KiB..64KiB",
        "exponential mean 4KiB",
        "gamma mean 4KiB cv 2",
        "gamma mean 4KiB shape 3 max 8KiB",
        "weibull mean 4KiB shape 0.7",
        "lognormal median 1KiB cv 2",
        "lognormal mean 1KiB sigma 1",
        "pareto min 1KiB alpha 1.3 max 10MiB",
        "pareto min 1KiB alpha 1",
        "generalized-pareto mean 329 shape 0.348238 max 1MB",
        "table 64:90%, 4KiB:9%, 1MiB:1%",
        "file sizes.txt",
    ] {
        add("size", words, Unit::Bytes, Purpose::RequestSizes);
    }
    add(
        "think",
        "exponential mean 10ms",
        Unit::Time,
        Purpose::ThinkTimes,
    );
    add(
        "think",
        "lognormal median 5ms cv 1",
        Unit::Time,
        Purpose::ThinkTimes,
    );
    compare("sizes.txt", &text);
}

#[test]
fn keys_and_contents_of_a_seed_are_those_of_the_file() {
    let mut text = String::new();
    for words in [
        "zipf 0.99 over 1000000",
        "zipf 1 over 4294967296",
        "zipf 1.5 over 100",
        "uniform over 1000000",
        "sequential over 10",
    ] {
        let (keys, seed): (Keys, _) = (words.parse().expect(words), seed_for(SEED, Purpose::Keys));
        let draws: Vec<_> = (0..32)
            .map(|ordinal| keys.draw(seed, ordinal).to_string())
            .collect();
        writeln!(text, "{words}: {}", draws.join(" ")).expect("memory");
    }
    let keys = "zipf 0.99 over 1000000".parse().expect("keys");
    let words =
        "/{key:08}/{n:03}?c={connection}&r={random:1..1000}&h={hex:17}&b={bytes:12} {{{key}}}";
    let template = Template::parse(words, Some(keys), SEED).expect(words);
    for ordinal in 0..16 {
        let mut line = Vec::new();
        template.write(ordinal, ordinal % 3, &mut line);
        text += std::str::from_utf8(&line).expect("printable");
        text += "\n";
    }
    compare("contents.txt", &text);
}
