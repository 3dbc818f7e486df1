//! What a step costs a polling loop when it fires and when it is undone: `cargo run --profile
//! dist --example firing` prints a line for each kind of link and step, in nanoseconds.

use std::time::Instant;

use lineside_account::Budget;
use lineside_link::{Patch, Setting, Settings, State, words};
use lineside_path::{Departures, Path, Step, When};

const TIMES: i64 = 4_000;
const PERIOD_NS: i64 = 1_000_000;

fn delayed(words: &str) -> Settings {
    Settings {
        delay: words::delay(words, &mut words::no_files).expect("a delay"),
        ..Settings::default()
    }
}

fn main() {
    let jitter = "10ms 1ms distribution normal";
    let down = Settings {
        state: State::Down {
            carrier: Default::default(),
        },
        ..Settings::default()
    };
    let loss = Settings {
        loss: words::loss("1%").expect("a loss"),
        ..Settings::default()
    };
    println!("link, step                                          p50    p99    max");
    for of_link in ["10ms", jitter] {
        for (name, setting, settings) in [
            ("link down", Setting::Link, &down),
            ("loss 1%", Setting::Loss, &loss),
            ("delay 20ms", Setting::Delay, &delayed("20ms")),
            (
                "delay 5ms, pareto",
                Setting::Delay,
                &delayed("5ms 1ms distribution pareto"),
            ),
        ] {
            let mut times = firings(of_link, setting, settings);
            times.sort_unstable();
            let at = |share: usize| times[(times.len() - 1) * share / 100];
            let [p50, p99, most] = [50, 99, 100].map(at);
            println!("{of_link:<30} {name:<18} {p50:>7} {p99:>6} {most:>6}");
        }
    }
}

/// Nanoseconds of each firing and each undoing, in one direction, as a loop has them: reports of
/// changes are worked out in between.
fn firings(of_link: &str, setting: Setting, settings: &Settings) -> Vec<u128> {
    let budget = Budget::new(1 << 30);
    let links = [delayed(of_link), Settings::default()];
    let mut path = Path::new(links, 7, 1 << 20, &budget).expect("memory");
    path.hurry();
    let step = Step {
        words: setting.name().to_owned(),
        when: When::Every(PERIOD_NS),
        times: u64::MAX,
        skips: 0,
        hold_off_ns: 0,
        for_ns: Some(PERIOD_NS / 2),
        patches: Some(vec![
            Some(vec![Patch::new([setting], settings.clone())]),
            None,
        ]),
        actions: Vec::new(),
    };
    path.arm(step, 0).expect("it can be armed");
    path.begin(0);
    let mut out = Departures::default();
    let turns = (2..TIMES * 2).map(|half| {
        let now = half * PERIOD_NS / 2;
        path.settle(1);
        #[expect(clippy::disallowed_methods, reason = "the time of a call is measured")]
        let began = Instant::now();
        path.on_timer(now, &mut out);
        began.elapsed().as_nanos()
    });
    turns.collect()
}
