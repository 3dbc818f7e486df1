//! What it costs to take the next timer and to insert another one, beside a `BTreeMap`.
//!
//!     cargo run --profile dist -p lineside-time --example wheel
//!
//! Timers of exponentially distributed distances, this many pending at each moment ("hold model").
//! Medians of 9 rounds, both kinds in turn. It does not show what is done when a timer fires, nor
//! caches that other work has filled.

use std::collections::BTreeMap;
use std::time::Instant;

use lineside_time::{Random, Wheel};

/// Takes and inserts of a round.
const TURNS: u32 = 400_000;
const ROUNDS: usize = 9;
/// Between two timers, on average, when 10,000 are pending.
const MEAN_NS: f64 = 1_000.0;

fn distance(random: &mut Random, pending: u32) -> i64 {
    let uniform = (random.bits() >> 11) as f64 / (1_u64 << 53) as f64;
    (-(1.0 - uniform).ln() * MEAN_NS * f64::from(pending)) as i64
}

#[expect(clippy::disallowed_methods, reason = "this measures")]
fn timed(work: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    work();
    begin.elapsed().as_secs_f64() * 1e9 / f64::from(TURNS)
}

fn main() {
    for pending in [10_000, 100_000, 1_000_000] {
        let mut random = Random::new(7);
        let mut wheel = Wheel::new();
        let mut map = BTreeMap::new();
        for value in 0..pending {
            let at = distance(&mut random, pending);
            wheel.insert(at, value);
            map.insert((at, value), ());
        }
        let mut figures = [const { Vec::new() }; 3];
        for _ in 0..ROUNDS {
            figures[0].push(timed(|| {
                for _ in 0..TURNS {
                    let at = wheel.next_deadline().expect("pending");
                    let fired = wheel.pop(at).or_else(|| wheel.pop(i64::MAX));
                    let (at, value) = fired.expect("pending");
                    wheel.insert(at + distance(&mut random, pending), value);
                }
            }));
            figures[1].push(timed(|| {
                for _ in 0..TURNS {
                    let ((at, value), ()) = map.pop_first().expect("pending");
                    map.insert((at + distance(&mut random, pending), value), ());
                }
            }));
            let mut sum = 0;
            figures[2].push(timed(|| {
                for _ in 0..TURNS {
                    sum += distance(&mut random, pending);
                }
            }));
            assert!(sum > 0, "the draws are made");
        }
        let [wheel, map, draw] = figures.map(|mut each| {
            each.sort_by(f64::total_cmp);
            each[ROUNDS / 2]
        });
        let (wheel, map) = (wheel - draw, map - draw);
        println!(
            "{pending:>9} pending: wheel {wheel:4.0} ns, BTreeMap {map:4.0} ns ({:.1} x), draw \
             {draw:.0} ns",
            map / wheel
        );
    }
}
