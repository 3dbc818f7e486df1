//! How many calls waited at the end of each interval, and for how long the oldest had.

use lineside_trace::InMemory;

use crate::read::batch::Batch;

/// Calls that wait over the end of an interval and are kept: the longest need not be among more,
/// which are counted all the same.
const SPANS_MAX: usize = 1 << 20;

/// Calls that waited over the end of an interval.
pub(super) struct Gauges {
    start_ns: i64,
    interval_ns: u64,
    /// By interval: by how many more wait at its end than at that of the one before.
    more: Vec<i64>,
    /// When a call began, and the first and the last interval at whose end it waited.
    spans: Vec<(i64, usize, usize)>,
}

/// What waited at the end of an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Gauge {
    pub(super) waiting: u64,
    pub(super) oldest_ns: u64,
}

impl Gauges {
    pub(super) fn new(start_ns: i64, interval_ns: u64, intervals: usize) -> Self {
        Self {
            start_ns,
            interval_ns,
            more: vec![0; intervals + 1],
            spans: Vec::new(),
        }
    }

    /// Adds a row, which is the first of its call.
    #[inline]
    pub(super) fn add(&mut self, batch: &Batch<'_>, row: usize) {
        let Some(call_ns) = batch.call_time_ns.get(row) else {
            return;
        };
        // What waited until the capture ended did so at the end of the interval that has it.
        let wait = batch.wait(row).filter(|wait| wait.is_hang());
        let (until_ns, is_bound) = match wait {
            Some(wait) => (wait.until_ns, wait.is_bound),
            None => match batch.reply_end_ns.get(row) {
                Some(reply_end) => (reply_end, false),
                None => return,
            },
        };
        let interval = |ns: i64| (ns.abs_diff(self.start_ns) / self.interval_ns) as usize;
        if call_ns < self.start_ns || until_ns < call_ns {
            return;
        }
        let (first, end) = (
            interval(call_ns),
            interval(until_ns) + usize::from(is_bound),
        );
        let end = end.min(self.more.len() - 1);
        if first < end {
            self.wait(call_ns, first, end);
        }
    }

    /// Adds what a run held in memory: all that is known is how many calls waited at last, and
    /// since when the oldest of them.
    fn add_in_memory(&mut self, memory: &InMemory) {
        let oldest_ns = memory
            .time_ns
            .saturating_sub_unsigned(memory.oldest_wait_ns);
        let since_start = |ns: i64| ns.saturating_sub(self.start_ns).max(0).unsigned_abs();
        let interval = |ns: i64| (since_start(ns) / self.interval_ns) as usize;
        let end = self.more.len() - 1;
        let last = interval(memory.time_ns).min(end.saturating_sub(1));
        let first = interval(oldest_ns);
        if end == 0 || first > last {
            return;
        }
        self.wait(oldest_ns, first, last + 1);
        let others = i64::try_from(memory.calls_waiting).unwrap_or(i64::MAX);
        self.more[last] += others.saturating_sub(1).max(0);
        self.more[last + 1] -= others.saturating_sub(1).max(0);
    }

    /// A call waited at the ends of these intervals, the last one exclusive.
    fn wait(&mut self, call_ns: i64, first: usize, end: usize) {
        self.more[first] += 1;
        self.more[end] -= 1;
        if self.spans.len() < SPANS_MAX {
            self.spans.push((call_ns, first, end));
        }
    }

    /// The gauges of all intervals, with what waits in a run's memory; the last one ends at
    /// `last_ns`.
    pub(super) fn finish(mut self, in_memory: Option<InMemory>, last_ns: i64) -> Vec<Gauge> {
        if let Some(memory) = in_memory {
            self.add_in_memory(&memory);
        }
        let intervals = self.more.len() - 1;
        let mut gauges = vec![Gauge::default(); intervals];
        let mut waiting = 0;
        for (gauge, more) in gauges.iter_mut().zip(&self.more) {
            waiting += more;
            gauge.waiting = waiting.unsigned_abs();
        }
        // By the begin of the call: an interval that an earlier one reaches has the oldest.
        self.spans.sort_unstable();
        let mut known = 0;
        for (call_ns, first, end) in self.spans {
            let places = gauges.iter_mut().enumerate().take(end);
            for (at, gauge) in places.skip(first.max(known)) {
                let ends_ns = (at as u64 + 1).saturating_mul(self.interval_ns);
                let ends_ns = self.start_ns.saturating_add_unsigned(ends_ns).min(last_ns);
                gauge.oldest_ns = ends_ns.abs_diff(call_ns.min(ends_ns));
            }
            known = known.max(end);
        }
        gauges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_wait_at_the_ends_of_the_intervals_they_span() {
        let mut gauges = Gauges::new(0, 10, 4);
        gauges.wait(5, 0, 3);
        gauges.wait(12, 1, 2);
        gauges.wait(25, 2, 4);
        let found: Vec<_> = { gauges.finish(None, 36).into_iter() }
            .map(|gauge| (gauge.waiting, gauge.oldest_ns))
            .collect();
        assert_eq!(found, [(1, 5), (2, 15), (2, 25), (1, 11)]);
    }
}
