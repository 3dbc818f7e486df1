//! What passed in windows of time: quantiles over all of them, and a course that has few steps
//! however long it is.

use std::mem;

use lineside_measure::Times;

use crate::model::{MonitorRate, MonitorWindows, MonitorsOverTime};

/// Steps over time: when there are more, two or five become one.
const STEPS_MAX: i64 = 480;

/// A window of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Window {
    pub(super) start_ns: i64,
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

/// The windows of a monitor at a place, or of one of its flows.
///
/// Rows of one window are to be added wherever they are in the table, so rows wait; the caller
/// [settles](Self::settle) the earlier ones when too many do.
pub(super) struct Rate {
    window_ns: i64,
    waiting: Vec<Window>,
    /// The latest window that was settled.
    settled_ns: Option<i64>,
    span: Option<(i64, i64)>,
    windows: u64,
    /// Rows that came when their window was settled.
    not_joined: u64,
    bytes: Counted,
    packets: Counted,
    steps: Steps,
}

/// A quantity of windows that are not empty.
struct Counted {
    times: Times,
    sum: u64,
    /// The most, and the first window that has so many.
    most: (u64, i64),
}

impl Rate {
    /// Windows of this length, at least a nanosecond.
    pub(super) fn new(window_ns: i64) -> Self {
        Self {
            window_ns,
            waiting: Vec::new(),
            settled_ns: None,
            span: None,
            windows: 0,
            not_joined: 0,
            bytes: Counted::new(),
            packets: Counted::new(),
            steps: Steps::default(),
        }
    }

    pub(super) fn window_ns(&self) -> i64 {
        self.window_ns
    }

    /// Takes a row; whether it waits on its own.
    pub(super) fn add(&mut self, window: Window) -> bool {
        if let Some(last) = self.waiting.last_mut()
            && last.start_ns == window.start_ns
        {
            last.join(window);
            return false;
        }
        self.waiting.push(window);
        true
    }

    /// Counts the earlier windows, so that at most `kept` wait. Gives how many rows wait no longer.
    pub(super) fn settle(&mut self, kept: usize) -> usize {
        let mut waiting = mem::take(&mut self.waiting);
        let before = waiting.len();
        waiting.sort_unstable();
        waiting.dedup_by(|next, last| {
            let is_same = next.start_ns == last.start_ns;
            if is_same {
                last.join(*next);
            }
            is_same
        });
        let settled = waiting.len().saturating_sub(kept);
        waiting
            .drain(..settled)
            .for_each(|window| self.count(window));
        self.waiting = waiting;
        before - self.waiting.len()
    }

    fn count(&mut self, window: Window) {
        let start_ns = window.start_ns;
        match self.settled_ns {
            Some(settled_ns) if settled_ns >= start_ns => self.not_joined += 1,
            _ => self.settled_ns = Some(start_ns),
        }
        let (first, last) = self.span.unwrap_or((start_ns, start_ns));
        self.span = Some((first.min(start_ns), last.max(start_ns)));
        self.windows += 1;
        self.bytes.add(window.bytes, start_ns);
        self.packets.add(window.packets, start_ns);
        self.steps.add(start_ns.div_euclid(self.window_ns), window);
    }

    /// What was found; `None` without a window.
    pub(super) fn found(&mut self, is_drawn: bool) -> Option<MonitorWindows> {
        self.settle(0);
        let (first_ns, last_ns) = self.span?;
        let window_ns = self.window_ns.unsigned_abs();
        let windows = (last_ns.abs_diff(first_ns) / window_ns).saturating_add(1);
        let empty = windows.saturating_sub(self.windows);
        Some(MonitorWindows {
            window_ns,
            first_ns,
            last_ns,
            windows,
            empty,
            packets: self.packets.sum,
            bytes: self.bytes.sum,
            bits_per_second: self.bytes.rate(8.0, window_ns, windows, empty),
            packets_per_second: self.packets.rate(1.0, window_ns, windows, empty),
            rows_not_joined: self.not_joined,
            over_time: is_drawn.then(|| self.steps.over_time(self.window_ns, first_ns, last_ns)),
        })
    }
}

impl Window {
    fn join(&mut self, other: Self) {
        self.packets = self.packets.saturating_add(other.packets);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

impl Counted {
    fn new() -> Self {
        Self {
            times: Times::growing(2),
            sum: 0,
            most: (0, 0),
        }
    }

    fn add(&mut self, value: u64, start_ns: i64) {
        self.times.add(value);
        self.sum = self.sum.saturating_add(value);
        let (most, at_ns) = self.most;
        if value > most || (value == most && start_ns < at_ns) {
            self.most = (value, start_ns);
        }
    }

    /// By the second, over `windows` of which some are empty.
    fn rate(&self, unit: f64, window_ns: u64, windows: u64, empty: u64) -> MonitorRate {
        let by_second = |value: f64| value * unit * 1e9 / window_ns as f64;
        let full = self.times.count().max(1) as f64;
        let quantile = |share: f64| {
            let rank = (share * windows as f64).ceil() as u64;
            match rank.saturating_sub(empty) {
                0 => 0.0,
                // The middle between two ranks is rounded to neither of them.
                rank => {
                    let share = (rank as f64 - 0.5) / full;
                    by_second(self.times.quantile_ns(share).unwrap_or(0) as f64)
                }
            }
        };
        let least = self.times.min_ns().filter(|_| empty == 0).unwrap_or(0);
        MonitorRate {
            min: by_second(least as f64),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: by_second(self.most.0 as f64),
            max_at_ns: self.most.1,
            mean: by_second(self.sum as f64 / windows as f64),
        }
    }
}

/// Sums over time, in steps that become longer with the time.
#[derive(Default)]
struct Steps {
    /// Windows in a step: 1, 2, 10, 20, 100, so that each length is a multiple of the one before.
    length: i64,
    /// The number of the first step, counted from 1970.
    first: i64,
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Default)]
struct Step {
    packets: u64,
    bytes: u64,
    packets_max: u64,
    bytes_max: u64,
}

impl Steps {
    fn add(&mut self, number: i64, window: Window) {
        if self.steps.is_empty() {
            (self.length, self.first) = (1, number);
        }
        let place = loop {
            let step = number.div_euclid(self.length);
            let last = self.first.saturating_add(self.steps.len() as i64 - 1);
            let (first, last) = (self.first.min(step), last.max(step));
            let count = last.saturating_sub(first).saturating_add(1);
            if count <= STEPS_MAX || self.steps.is_empty() {
                let before = self.first.saturating_sub(first).unsigned_abs() as usize;
                drop(self.steps.splice(..0, vec![Step::default(); before]));
                self.steps
                    .resize(count.unsigned_abs() as usize, Step::default());
                self.first = first;
                break step.saturating_sub(first).unsigned_abs() as usize;
            }
            self.coarsen();
        };
        self.steps[place].join(&Step {
            packets: window.packets,
            bytes: window.bytes,
            packets_max: window.packets,
            bytes_max: window.bytes,
        });
    }

    fn coarsen(&mut self) {
        let digits = self.length.to_string();
        let factor = if digits.starts_with('1') { 2 } else { 5 };
        self.length = self.length.saturating_mul(factor);
        let first = self.first.div_euclid(factor);
        let mut steps: Vec<Step> = Vec::new();
        for (at, step) in (0i64..).zip(&self.steps) {
            let number = self.first.saturating_add(at);
            let place = number
                .div_euclid(factor)
                .saturating_sub(first)
                .unsigned_abs() as usize;
            if place == steps.len() {
                steps.push(Step::default());
            }
            steps[place].join(step);
        }
        (self.first, self.steps) = (first, steps);
    }

    fn over_time(&self, window_ns: i64, first_ns: i64, last_ns: i64) -> MonitorsOverTime {
        let step_ns = self.length.saturating_mul(window_ns);
        let start_ns = self.first.saturating_mul(step_ns);
        let mut over_time = MonitorsOverTime {
            start_ns,
            step_ns: step_ns.unsigned_abs(),
            ..MonitorsOverTime::default()
        };
        let end_ns = last_ns.saturating_add(window_ns);
        for (at, step) in (0i64..).zip(&self.steps) {
            // The first step and the last one may reach beyond the windows.
            let from_ns = start_ns.saturating_add(step_ns.saturating_mul(at));
            let to_ns = from_ns.saturating_add(step_ns).min(end_ns);
            let covered_ns = to_ns.saturating_sub(from_ns.max(first_ns)).max(window_ns);
            let mean = |value: u64| value as f64 * 1e9 / covered_ns as f64;
            let most = |value: u64| value as f64 * 1e9 / window_ns as f64;
            over_time.mean_bits_per_second.push(8.0 * mean(step.bytes));
            over_time
                .max_bits_per_second
                .push(8.0 * most(step.bytes_max));
            over_time.mean_packets_per_second.push(mean(step.packets));
            over_time
                .max_packets_per_second
                .push(most(step.packets_max));
        }
        over_time
    }
}

impl Step {
    fn join(&mut self, other: &Self) {
        self.packets = self.packets.saturating_add(other.packets);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.packets_max = self.packets_max.max(other.packets_max);
        self.bytes_max = self.bytes_max.max(other.bytes_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn rate(windows: &[(i64, u64, u64)]) -> Rate {
        let mut rate = Rate::new(MS);
        for &(at_ms, packets, bytes) in windows {
            rate.add(Window {
                start_ns: at_ms * MS,
                packets,
                bytes,
            });
        }
        rate
    }

    #[test]
    fn empty_windows_count_in_quantiles_and_means() {
        // Ten windows, of which three have something.
        let found = rate(&[(10, 1, 1_000), (12, 2, 2_000), (19, 4, 500)]).found(true);
        let found = found.expect("windows");
        assert_eq!((found.windows, found.empty, found.packets), (10, 7, 7));
        let bits = &found.bits_per_second;
        assert_eq!((bits.min, bits.p50), (0.0, 0.0));
        // The ninth of ten is the second of three, the last the third.
        assert!((bits.p90 / 8e6 - 1.0).abs() < 0.01, "{bits:?}");
        assert!((bits.p99 / 16e6 - 1.0).abs() < 0.01, "{bits:?}");
        assert_eq!((bits.max, bits.max_at_ns), (16e6, 12 * MS));
        assert_eq!(bits.mean, 3_500.0 * 8.0 / 0.01);
        assert_eq!(found.packets_per_second.max_at_ns, 19 * MS);
        assert_eq!(rate(&[]).found(true), None);
    }

    #[test]
    fn rows_of_a_window_are_added_wherever_they_are() {
        let mut apart = rate(&[(5, 1, 100), (7, 1, 60), (5, 2, 200), (-3, 1, 1), (5, 1, 1)]);
        let mut joined = rate(&[(-3, 1, 1), (5, 4, 301), (7, 1, 60)]);
        assert_eq!(apart.found(true), joined.found(true));
    }

    #[test]
    fn a_row_after_its_window_was_settled_is_counted() {
        let mut rate = rate(&[(1, 1, 100), (2, 1, 100), (3, 1, 100)]);
        assert_eq!(rate.settle(1), 2);
        rate.add(Window {
            start_ns: 2 * MS,
            packets: 1,
            bytes: 100,
        });
        let found = rate.found(true).expect("windows");
        assert_eq!(
            (found.rows_not_joined, found.bytes, found.windows),
            (1, 400, 3)
        );
    }

    #[test]
    fn however_long_steps_are_few_and_lose_nothing() {
        let windows: Vec<_> = (0..100_003)
            .map(|number: i64| (number * 7 % 100_003 - 500, 1, number as u64 % 1_500))
            .collect();
        let found = rate(&windows).found(true).expect("windows");
        let over_time = found.over_time.expect("drawn");
        assert_eq!(over_time.step_ns, 1_000 * MS as u64);
        assert_eq!(over_time.start_ns, -1_000 * MS);
        let means = &over_time.mean_packets_per_second;
        assert_eq!(means.len(), 101);
        // The first step is covered by half, the last one by the rest.
        assert!(means.iter().all(|&mean| mean == 1_000.0), "{means:?}");
        let most = over_time
            .max_bits_per_second
            .iter()
            .copied()
            .fold(0.0, f64::max);
        assert_eq!(
            (most, found.bits_per_second.max),
            (1_499.0 * 8e3, 1_499.0 * 8e3)
        );
    }

    #[test]
    fn hostile_times_neither_panic_nor_take_memory() {
        for window_ns in [1, MS, i64::MAX] {
            let mut rate = Rate::new(window_ns);
            for start_ns in [i64::MIN, i64::MAX, 0, i64::MIN, i64::MAX - 1] {
                rate.add(Window {
                    start_ns,
                    packets: u64::MAX,
                    bytes: u64::MAX,
                });
            }
            let found = rate.found(true).expect("windows");
            let over_time = found.over_time.expect("drawn");
            assert!(over_time.mean_bits_per_second.len() <= STEPS_MAX as usize);
            assert!(found.bits_per_second.mean.is_finite());
        }
    }
}
