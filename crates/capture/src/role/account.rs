//! The account of a live run, second by second, and what it leaves out while it is behind.

use std::collections::VecDeque;
use std::fmt::Write;
use std::time::Duration;

use lineside_account::{Budget, Counter, Counters, bytes, grouped};
use lineside_port::Live;
use lineside_run::drops;
use lineside_time::Clock;
use lineside_trace::{LossRow, RELIEFS_MAX, SECONDS_MAX, Second};

/// How often the kernel's counts are read.
const TICK: Duration = Duration::from_secs(1);

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
    /// Since the last tick, the most.
    backlog: f32,
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
        self.ticked = elapsed;
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
        if self.seconds.len() == SECONDS_MAX {
            self.seconds.pop_front();
        }
        self.seconds.push_back(second);
        rows
    }

    pub(super) fn seconds(&self) -> Vec<Second> {
        self.seconds.iter().copied().collect()
    }

    /// The last second in a line for the screen.
    pub(super) fn line(&self) -> String {
        let last = self.seconds.back().copied().unwrap_or_default();
        let mut line = format!(
            "{} frames ({}/s, {}/s), {} calls",
            grouped(self.frames),
            grouped(last.received),
            bytes(last.received_bytes),
            grouped(self.calls)
        );
        let lost: u64 = self.dropped.iter().flatten().sum();
        let _ = match lost {
            0 => write!(line, ", none dropped"),
            _ => write!(line, ", {} dropped", grouped(lost)),
        };
        let now = last.dropped_interface + last.dropped_ring + last.dropped_pool;
        if now > 0 {
            let _ = write!(line, " ({}/s)", grouped(now));
        }
        if self.lost > 0 {
            let _ = write!(
                line,
                ", {} of streams missing ({}/s)",
                bytes(self.lost),
                bytes(last.stream_lost_bytes)
            );
        }
        line
    }
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
