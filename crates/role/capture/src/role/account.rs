//! The account of a live run, second by second, and what it leaves out while it is behind.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use lineside_account::{Budget, Counter, Counters};
use lineside_measure::{CountedTimes, SharedTimes};
use lineside_operations::Waiting;
use lineside_port::Live;
use lineside_rows::LossRow;
use lineside_run::drops;
use lineside_time::Clock;
use lineside_trace::{RELIEFS_MAX, SECONDS_MAX, Second};
use lineside_words::{bytes, grouped, time};

/// How often the kernel's counts are read.
const TICK: Duration = Duration::from_secs(1);

/// So long calls may go without any reply before the line says so: a pause of a second is common.
const SILENT_S: u64 = 2;

/// Calls that wait for less are in flight.
const OLDEST_MIN_NS: u64 = 1_000_000_000;

/// What passed, second by second.
#[derive(Default)]
pub(super) struct Account {
    /// As of the last tick, by input.
    dropped: Vec<[u64; 3]>,
    frames: u64,
    bytes: u64,
    filtered: u64,
    lost: u64,
    calls: u64,
    /// Calls with a reply; how many calls had come with the latest of them, and when.
    replies: u64,
    calls_replied: u64,
    replied: Duration,
    /// Recorded where rows are made.
    latencies: Arc<SharedTimes>,
    counted: CountedTimes,
    /// What came between the last two ticks, and how far apart they were.
    recent: CountedTimes,
    recent_s: f64,
    /// Since the last tick, the most.
    backlog: f32,
    /// As of the last tick.
    waiting: Waiting,
    /// Time since the start of the run.
    ticked: Duration,
    seconds: VecDeque<Second>,
}

impl Account {
    /// Whether it is time to look at the counts.
    pub(super) fn is_due(&self, elapsed: Duration) -> bool {
        elapsed - self.ticked >= TICK
    }

    /// Once a burst.
    pub(super) fn note_backlog(&mut self, port: &impl Live) {
        self.backlog = self.backlog.max(port.backlog());
    }

    /// Looks at the counts; returns a row for each input that dropped frames since the last time.
    pub(super) fn tick(
        &mut self,
        elapsed: Duration,
        now_ns: i64,
        port: &mut impl Live,
        counters: &Counters,
        budget: &Budget,
    ) -> Vec<LossRow> {
        port.account();
        let counted = self.latencies.counted();
        self.recent = counted.since(&self.counted);
        self.recent_s = (elapsed - self.ticked).as_secs_f64();
        (self.counted, self.ticked) = (counted, elapsed);
        let mut second = Second {
            time_ns: now_ns,
            backlog_permille: (std::mem::take(&mut self.backlog) * 1000.0) as u16,
            memory_bytes: budget.used_bytes() as u64,
            ..Second::default()
        };
        let mut rows = Vec::new();
        let (mut frames, mut bytes) = (0, 0);
        let mut filtered = counters.value(Counter::FramesFiltered);
        for (input, facts) in port.facts().into_iter().enumerate() {
            frames += facts.frames;
            bytes += facts.bytes;
            let Some(live) = &facts.live else { continue };
            filtered += live.filtered.unwrap_or(0);
            let total = drops(live);
            if self.dropped.len() <= input {
                self.dropped.resize(input + 1, [0; 3]);
            }
            let before = std::mem::replace(&mut self.dropped[input], total);
            let [interface, ring, pool] =
                std::array::from_fn(|cause| total[cause].saturating_sub(before[cause]));
            second.dropped_interface += interface;
            second.dropped_ring += ring;
            second.dropped_pool += pool;
            let frames = interface + ring + pool;
            if frames > 0 {
                rows.push(LossRow {
                    time_ns: Some(now_ns),
                    cause: Some("port_dropped"),
                    frames: Some(frames as i64),
                    input: Some(input as i32),
                    ..LossRow::default()
                });
            }
        }
        // What was read ahead and goes back at the end makes a total less.
        let since =
            |total: u64, before: &mut u64| total.saturating_sub(std::mem::replace(before, total));
        second.received = since(frames, &mut self.frames);
        second.received_bytes = since(bytes, &mut self.bytes);
        second.filtered = since(filtered, &mut self.filtered);
        second.stream_lost_bytes = since(counters.value(Counter::StreamLost), &mut self.lost);
        self.calls = counters.value(Counter::RpcCalls);
        let replies = counters.value(Counter::CallsAnswered);
        if replies != self.replies || self.calls == self.calls_replied {
            (self.replies, self.calls_replied) = (replies, self.calls);
            self.replied = elapsed;
        }
        if self.seconds.len() == SECONDS_MAX {
            self.seconds.pop_front();
        }
        self.seconds.push_back(second);
        rows
    }

    pub(super) fn seconds(&self) -> Vec<Second> {
        self.seconds.iter().copied().collect()
    }

    /// Where the latencies of operations go, from whatever thread.
    pub(super) fn latencies(&self) -> &Arc<SharedTimes> {
        &self.latencies
    }

    /// What waits for replies, as of the tick.
    pub(super) fn set_waiting(&mut self, waiting: Waiting) {
        self.waiting = waiting;
    }

    /// The last second in a line for the screen.
    pub(super) fn line(&self) -> String {
        let mut line = format!(
            "{} calls/s{}",
            rate(&self.recent, self.recent_s),
            quantiles(&self.recent)
        );
        let unanswered = self.calls.saturating_sub(self.calls_replied);
        let silent_s = (self.ticked - self.replied).as_secs();
        if unanswered > 0 && silent_s >= SILENT_S {
            let _ = write!(
                line,
                ", NO REPLY for {silent_s} s to {} calls",
                grouped(unanswered)
            );
        }
        if self.waiting.oldest_ns >= OLDEST_MIN_NS {
            let _ = write!(
                line,
                ", {} calls wait, the oldest for {} s",
                grouped(self.waiting.calls),
                self.waiting.oldest_ns / 1_000_000_000
            );
        }
        let last = self.seconds.back().copied().unwrap_or_default();
        self.dropped(&mut line, Some(&last));
        let _ = write!(
            line,
            "; {} frames ({}/s, {}/s), {} calls",
            grouped(self.frames),
            grouped(last.received),
            bytes(last.received_bytes),
            grouped(self.calls)
        );
        line
    }

    /// A run that only wrote frames, in a line: no operations were looked for.
    pub(super) fn passed(&self, elapsed: Duration) -> String {
        let took = time(elapsed.as_nanos() as u64);
        let mut line = format!("{} frames written in {took}", grouped(self.frames));
        self.dropped(&mut line, None);
        line + "; no operations were looked for: -o RUN does"
    }

    /// The whole run in a line.
    pub(super) fn whole(&self, elapsed: Duration) -> String {
        let times = self.latencies.counted();
        let mut line = format!(
            "{} calls in {} ({}/s){}",
            grouped(times.count()),
            time(elapsed.as_nanos() as u64),
            rate(&times, elapsed.as_secs_f64()),
            quantiles(&times)
        );
        self.dropped(&mut line, None);
        let _ = write!(line, "; {} frames", grouped(self.frames));
        line
    }

    /// Adds what was dropped and is missing, so far and in the last second.
    fn dropped(&self, line: &mut String, last: Option<&Second>) {
        let lost: u64 = self.dropped.iter().flatten().sum();
        let _ = match lost {
            0 => write!(line, ", none dropped"),
            _ => write!(line, ", {} dropped", grouped(lost)),
        };
        let now = last.map_or(0, |last| {
            last.dropped_interface + last.dropped_ring + last.dropped_pool
        });
        if now > 0 {
            let _ = write!(line, " ({}/s)", grouped(now));
        }
        if self.lost > 0 {
            let _ = write!(line, ", {} of streams missing", bytes(self.lost));
            if let Some(last) = last {
                let _ = write!(line, " ({}/s)", bytes(last.stream_lost_bytes));
            }
        }
    }
}

/// `, p50 1.20 ms, p99 3.40 ms`
fn quantiles(times: &CountedTimes) -> String {
    let quantile = |share| times.quantile_ns(share).map(time);
    let both = quantile(0.5).zip(quantile(0.99));
    both.map_or_else(String::new, |(median, p99)| {
        format!(", p50 {median}, p99 {p99}")
    })
}

fn rate(times: &CountedTimes, seconds: f64) -> String {
    grouped((times.count() as f64 / seconds.max(0.001)).round() as u64)
}

/// Leaves checksums out while a run is behind, and notes when.
#[derive(Default)]
pub(super) struct Relief {
    pub(super) times: Vec<lineside_trace::Relief>,
    is_on: bool,
}

impl Relief {
    /// More of the ring than this waits: what is left is for the time until this helps.
    const BEGIN: f32 = 0.5;
    /// Less waits again.
    const END: f32 = 0.125;

    /// Whether data goes without checksums now.
    pub(super) fn look(&mut self, port: &impl Live, clock: &impl Clock) -> bool {
        let backlog = port.backlog();
        match self.is_on {
            false if backlog > Self::BEGIN => {
                self.is_on = true;
                if self.times.len() < RELIEFS_MAX {
                    self.times.push(lineside_trace::Relief {
                        from_ns: clock.now(),
                        until_ns: None,
                    });
                }
            }
            true if backlog < Self::END => {
                self.is_on = false;
                if let Some(last) = self.times.last_mut().filter(|last| last.until_ns.is_none()) {
                    last.until_ns = Some(clock.now());
                }
            }
            _ => {}
        }
        self.is_on
    }
}

#[cfg(test)]
mod tests {
    use lineside_port::{CaptureReader, Merge};

    use super::*;

    #[test]
    fn the_line_has_latencies_and_calls_without_a_reply() {
        let mut account = Account::default();
        let mut port = Merge::new(Vec::<CaptureReader>::new());
        let (mut counters, budget) = (Counters::new(), Budget::new(1 << 20));
        let mut line_at = |seconds, counters: &Counters, account: &mut Account| {
            let elapsed = Duration::from_secs(seconds);
            account.tick(elapsed, 0, &mut port, counters, &budget);
            account.line()
        };
        counters.add(Counter::RpcCalls, 100);
        counters.add(Counter::CallsAnswered, 98);
        (1..=100).for_each(|us| account.latencies().add(us * 1_000));
        let line = line_at(1, &counters, &mut account);
        assert!(
            line.starts_with("100 calls/s, p50 50.2 us, p99 99.3 us, none dropped; 0 f"),
            "{line}"
        );
        // Two calls of long ago have no reply: that is no stall.
        let line = line_at(60, &counters, &mut account);
        assert!(
            line.starts_with("0 calls/s, none dropped; 0 frames"),
            "{line}"
        );
        counters.add(Counter::RpcCalls, 3);
        line_at(61, &counters, &mut account);
        let line = line_at(63, &counters, &mut account);
        assert!(line.contains("NO REPLY for 3 s to 3 calls"), "{line}");
        counters.count(Counter::CallsAnswered);
        let line = line_at(64, &counters, &mut account);
        assert!(!line.contains("NO REPLY"), "{line}");
        account.set_waiting(Waiting {
            calls: 16,
            oldest_ns: 12_300_000_000,
            ..Waiting::default()
        });
        let line = line_at(65, &counters, &mut account);
        assert!(
            line.contains(", 16 calls wait, the oldest for 12 s, none dropped"),
            "{line}"
        );
    }

    /// Seconds are counted by a clock that is never set.
    #[test]
    fn a_wall_clock_that_is_set_moves_no_second() {
        const S: i64 = 1_000_000_000;
        let mut account = Account::default();
        let mut port = Merge::new(Vec::<CaptureReader>::new());
        let (mut counters, budget) = (Counters::new(), Budget::new(1 << 20));
        let begin_ns = 1_795_000_000 * S;
        let walls = [
            begin_ns,
            begin_ns + 3_600 * S,
            begin_ns - 86_400 * S,
            0,
            begin_ns,
        ];
        for (second, wall_ns) in (1..).zip(walls) {
            let elapsed = Duration::from_secs(second);
            assert!(account.is_due(elapsed), "second {second}");
            counters.add(Counter::RpcCalls, 100);
            counters.add(Counter::CallsAnswered, 100);
            (0..100).for_each(|_| account.latencies().add(50_000));
            account.tick(elapsed, wall_ns, &mut port, &counters, &budget);
            assert!(!account.is_due(elapsed + TICK / 2), "second {second}");
            let line = account.line();
            assert!(line.starts_with("100 calls/s, p50 50.2 us"), "{line}");
            assert!(!line.contains("NO REPLY"), "{line}");
        }
        let times = account.seconds().into_iter().map(|second| second.time_ns);
        assert_eq!(times.collect::<Vec<_>>(), walls, "each as the wall had it");
    }
}
