//! Timers: the hold model of priority queues (Jones, CACM 1986). The first timer is taken, and
//! another one is inserted an exponentially distributed time of 1 s on average later.

use std::collections::BTreeMap;

use lineside_time::{Random, Wheel};

use crate::each;

const MEAN_NS: f64 = 1e9;
const QUANTILES: usize = 1024;

struct Distances {
    random: Random,
    quantiles: Box<[i64]>,
}

impl Distances {
    fn new() -> Self {
        let quantile = |at: usize| {
            let share = (at as f64 + 0.5) / QUANTILES as f64;
            (-share.ln() * MEAN_NS) as i64
        };
        Self {
            random: Random::new(1),
            quantiles: (0..QUANTILES).map(quantile).collect(),
        }
    }

    fn next(&mut self) -> i64 {
        let bits = self.random.bits();
        let [one, other] = [bits >> 54, bits & (QUANTILES as u64 - 1)];
        // Among the neighbours of a quantile.
        self.quantiles[one as usize] + other as i64 * 977
    }
}

/// What drawing the distances takes of either.
pub(crate) fn draws() -> f64 {
    let (mut distances, mut sum) = (Distances::new(), 0_i64);
    each(TURNS, || {
        sum = std::hint::black_box(sum.wrapping_add(distances.next()))
    })
}

const TURNS: u64 = 4_000_000;

pub(crate) fn wheel(pending: u64) -> f64 {
    let mut distances = Distances::new();
    let mut wheel = Wheel::new();
    for value in 0..pending {
        wheel.insert(distances.next(), value as u32);
    }
    let mut turn = || {
        let at = wheel.next_deadline().expect("many are pending");
        let (at, value) = wheel.pop(at).expect("it is due then");
        wheel.insert(at + distances.next(), value);
    };
    each(2 * pending, &mut turn);
    each(TURNS, &mut turn)
}

pub(crate) fn btree(pending: u64) -> f64 {
    let mut distances = Distances::new();
    let mut map = BTreeMap::new();
    for value in 0..pending {
        map.insert((distances.next(), value as u32), ());
    }
    let mut turn = || {
        let ((at, value), ()) = map.pop_first().expect("many are pending");
        map.insert((at + distances.next(), value), ());
    };
    each(2 * pending, &mut turn);
    each(TURNS, &mut turn)
}
