//! Calls that a client sends all at once: each waits for its turn after those before it, which is
//! no fault of the client's way to the server, and none of the server.

use std::ops::RangeInclusive;

/// Calls of a client that are looked at: the first ones.
const CALLS_MAX: usize = 1 << 17;

/// When the calls of a client came, each with its step of time.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<(usize, i64)>);

impl Calls {
    pub(super) fn add(&mut self, step: usize, at_ns: i64) {
        if self.0.len() < CALLS_MAX {
            self.0.push((step, at_ns));
        }
    }

    /// How many times as long as one alone a call takes that waits for its turn: the geometric mean
    /// over the calls of some steps, if each takes `usual_ns` alone and a burst is served in order.
    /// 1 where calls come further apart than that.
    pub(super) fn turns(&self, steps: &RangeInclusive<usize>, usual_ns: u64) -> f64 {
        let within = self.0.iter().filter(|(step, _)| steps.contains(step));
        let mut times: Vec<i64> = within.map(|(_, at_ns)| *at_ns).collect();
        if times.is_empty() {
            return 1.0;
        }
        times.sort_unstable();
        let (mut turn, mut logs) = (1.0f64, 0.0);
        for pair in times.windows(2) {
            turn = match pair[1].abs_diff(pair[0]) < usual_ns {
                true => turn + 1.0,
                false => 1.0,
            };
            logs += turn.log2();
        }
        (logs / times.len() as f64).exp2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(gap_ns: i64, usual_ns: u64) -> f64 {
        let mut calls = Calls::default();
        for call in 0..100 {
            calls.add(3, call * gap_ns);
        }
        calls.turns(&(0..=5), usual_ns)
    }

    #[test]
    fn calls_at_once_wait_for_their_turn_and_others_do_not() {
        // The geometric mean of 1 to 100 is 37.99.
        assert!((turns(10, 1_000) - 37.99).abs() < 0.1);
        assert_eq!(turns(2_000, 1_000), 1.0);
        assert_eq!(Calls::default().turns(&(0..=5), 1), 1.0);
    }
}
