//! Draws take only what IEEE 754 fixes, and no memory.

use lineside_alloc::allocations;
use lineside_workload::{Arrivals, Fit, Keys, Profile, Schedule, Share, Sizes, Template, Unit};

#[test]
fn a_planned_request_allocates_nothing() {
    let mut load = |_: &str| Ok("1us\n5us\n".to_owned());
    let models = [
        "constant",
        "poisson",
        "uniform",
        "gamma cv 2",
        "weibull shape 0.7",
        "lognormal cv 1",
        "pareto alpha 1.5",
        "generalized-pareto shape 0.155",
        "on-off 20000 for 1ms, 0 for 1ms",
        "file x",
    ];
    let rate: Profile = "10000 for 1s, 0 to 50000 in 10s, 9000"
        .parse()
        .expect("a rate");
    let schedules = models.map(|words| {
        let arrivals = Arrivals::parse(words, &mut load).expect(words);
        Schedule::new(&arrivals, Some(&rate), 1, Share::of(1, 2)).expect(words)
    });
    let sizes = [
        "uniform 1..9",
        "gamma mean 9 cv 2",
        "pareto min 1 alpha 1",
        "generalized-pareto mean 1 shape 0.35",
        "table 1:50%, 2:50%",
    ];
    let sizes =
        sizes.map(|words| Sizes::parse("size", words, Unit::Bytes, &mut load).expect(words));
    let keys: Keys = "zipf 0.99 over 1000000".parse().expect("keys");
    let text = "GET /{key}/{n:09} {connection} {random:0..9999}{hex:40}{bytes:100}";
    let template = Template::parse(text, Some(keys), 1).expect(text);
    let mut out = Vec::with_capacity(template.len_max());
    let mut fit = Fit::default();

    let before = allocations();
    for mut schedule in schedules {
        for arrival in schedule.by_ref().take(20_000) {
            let sum: u64 = sizes
                .iter()
                .map(|sizes| sizes.draw(2, arrival.ordinal))
                .sum();
            out.clear();
            template.write(arrival.ordinal, sum, &mut out);
            fit.record(arrival.at_ns, arrival.at_ns);
        }
    }
    assert_eq!(allocations(), before);
    assert!(fit.is_full() && !out.is_empty());
}

#[test]
fn no_draw_calls_the_c_library() {
    let sources = [
        include_str!("../src/math.rs"),
        include_str!("../src/draw.rs"),
        include_str!("../src/shape.rs"),
        include_str!("../src/arrivals.rs"),
        include_str!("../src/gap_file.rs"),
        include_str!("../src/profile.rs"),
        include_str!("../src/schedule.rs"),
        include_str!("../src/sizes.rs"),
        include_str!("../src/keys.rs"),
        include_str!("../src/template.rs"),
    ];
    // Of these, Rust says that results may differ between platforms, versions and even calls.
    let inexact = [
        "ln", "ln_1p", "log", "log2", "log10", "exp", "exp2", "exp_m1", "powf", "powi", "cbrt",
        "hypot", "sin", "cos", "tan", "tanh", "atanh", "ln_gamma", "mul_add",
    ];
    for source in sources {
        let draws = source
            .split("#[cfg(test)]\nmod tests")
            .next()
            .expect("a first part");
        for name in inexact {
            let (method, function) = (format!(".{name}("), format!("f64::{name}"));
            assert!(
                !draws.contains(&method) && !draws.contains(&function),
                "{name} in a draw"
            );
        }
    }
}
