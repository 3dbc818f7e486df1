//! A look at what a run has counted so far, a part at a time between turns of the loop: frames wait
//! for a part, and not for the whole of it.
//!
//! The counters of a direction are copied in one turn, and so are of one instant. A histogram of
//! delays has 300 KiB, most of it far from the memory of this core: a part of it is looked at in
//! each turn.

use lineside_measure::{Scan, Times};
use lineside_run::control::Reply;
use lineside_run::stats::{
    DelayStats, DirectionStats, DropStats, LateStats, LoopStats, MatchStats, PortStats, RunStats,
    STATS_VERSION, SwitchStats, TapStats,
};
use lineside_time::Nanoseconds;
use lineside_trace::certificate::link::{CorePort, CoreReport};

use crate::{LiveLoop, SideId, tap_facts};

/// Steps of a histogram that are looked at between two turns: 16 KiB, which come from far memory in
/// two or three microseconds.
const STEPS_MAX: usize = 2_048;

/// The shares of delays that a look finds.
const SHARES: [f64; 2] = [0.5, 0.99];

/// A look that is not over.
pub(super) struct Look {
    stats: RunStats,
    /// Sides whose counters are not copied yet.
    sides: std::ops::Range<usize>,
    /// Histograms that are left to look at, the next one last.
    left: Vec<(Histogram, Scan<2>)>,
    answer: Reply<RunStats>,
}

/// A histogram of a side: of the frames that match no expression, or of a class.
#[derive(Debug, Clone, Copy)]
struct Histogram {
    side: SideId,
    class: Option<usize>,
    /// Where its figures go: the number of the class among those reported.
    place: Option<usize>,
}

impl Look {
    /// Copies the counters of the loop at `now`.
    pub(super) fn begin(live: &LiveLoop, now: Nanoseconds, answer: Reply<RunStats>) -> Self {
        let path = live.engine().path();
        let counts = live.counts();
        let stats = RunStats {
            stats_version: STATS_VERSION.to_owned(),
            at_ns: now,
            after_ns: Some(path.since_begin(now)),
            directions: Vec::new(),
            switch: path.core().map(switch),
            tap: tap_facts(live).map(|tap| TapStats {
                copied: tap.tapped,
                dropped_queue: tap.dropped_queue,
                dropped_memory: tap.dropped_memory,
            }),
            polling: Some(LoopStats {
                stalls: counts.stalls,
                stalls_over_1ms: counts.stalls_over_1ms,
                stall_max_ns: counts.stall_max_ns,
                stalled_ns: counts.stalled_ns,
                refusals: counts.refusals,
                too_long: counts.too_long,
                dropped_down: counts.dropped_down,
                dropped_at_start: counts.dropped_at_start,
            }),
            monitors: Vec::new(),
        };
        Self {
            stats,
            sides: 0..path.sides().count(),
            left: Vec::new(),
            answer,
        }
    }

    /// Looks at one side, or a part of a histogram. `None` once all is seen, and answered.
    pub(super) fn go_on(mut self, live: &LiveLoop) -> Option<Self> {
        if let Some(side) = self.sides.next() {
            let direction = direction(live, SideId::new(side), &mut self.left);
            self.stats.directions.push(direction);
            return Some(self);
        }
        let Some((histogram, scan)) = self.left.last_mut() else {
            // Whoever asked may have gone meanwhile.
            let _ = self.answer.send(Ok(self.stats));
            return None;
        };
        let times = histogram.times(live);
        if scan.go_on(times, STEPS_MAX) {
            let delay = delay(times, scan);
            let direction = &mut self.stats.directions[histogram.side.index()];
            match histogram.place {
                None => direction.delay = delay,
                Some(place) => direction.matches[place].delay = delay,
            }
            self.left.pop();
        }
        Some(self)
    }
}

impl Histogram {
    fn times(self, live: &LiveLoop) -> &Times {
        let account = live.engine().path().account(self.side);
        let of_class = self
            .class
            .and_then(|class| account.residence_by_class.get(class));
        of_class.unwrap_or(&account.residence)
    }
}

/// The counters of a side; its histograms go to `left`.
fn direction(
    live: &LiveLoop,
    side: SideId,
    left: &mut Vec<(Histogram, Scan<2>)>,
) -> DirectionStats {
    let path = live.engine().path();
    let counters = path.counters(side);
    let dropped = counters.dropped;
    let (report, account) = (path.report(side), path.account(side));
    let mut look = |class, place| {
        let histogram = Histogram { side, class, place };
        left.push((histogram, histogram.times(live).scan(SHARES)));
    };
    look(None, None);
    let mut matches = Vec::new();
    let classes = report.link.classes().iter().skip(1).enumerate();
    for ((number, class), expressions) in classes.zip(report.classes) {
        if class.entered() > 0 {
            if number < account.residence_by_class.len() {
                look(Some(number), Some(matches.len()));
            }
            matches.push(MatchStats {
                expressions: expressions.clone(),
                entered: class.entered(),
                lost: class.lost(),
                delay: None,
            });
        }
    }
    DirectionStats {
        name: path.name(side).to_owned(),
        entered: counters.entered,
        entered_bytes: counters.entered_bytes,
        released: counters.released,
        released_bytes: counters.released_bytes,
        duplicated: counters.duplicated,
        corrupted: counters.corrupted,
        dropped: DropStats {
            loss: dropped.loss,
            down: dropped.down,
            limit: dropped.limit,
            rate: dropped.rate,
            memory: dropped.memory,
            interface: dropped.interface,
        },
        held: report.link.held() as u64,
        delay: None,
        late: LateStats {
            over_10us: account.late.over_10us,
            over_100us: account.late.over_100us,
            over_1000us: account.late.over_1000us,
            max_ns: account.lateness_max_ns,
        },
        matches,
        rates: None,
    }
}

/// The figures of a histogram of which the quantiles are found; `None` without times, or if another
/// one has taken its place since the look began.
fn delay(times: &Times, scan: &Scan<2>) -> Option<DelayStats> {
    let [p50_ns, p99_ns] = scan.quantiles_ns;
    Some(DelayStats {
        count: times.count(),
        min_ns: times.min_ns()?,
        p50_ns: p50_ns?,
        p99_ns: p99_ns?,
        max_ns: times.max_ns()?,
    })
}

fn switch(core: CoreReport) -> SwitchStats {
    SwitchStats {
        came: core.came,
        forwarded: core.forwarded,
        flooded: core.flooded,
        copies: core.copies,
        dropped: core.dropped.values().sum(),
        addresses: core.addresses.known,
        ports: core.ports.into_iter().map(port).collect(),
    }
}

fn port(report: CorePort) -> PortStats {
    PortStats {
        name: report.name,
        came: report.came,
        left: report.left,
        addresses: report.addresses,
        is_gone: report.is_gone,
    }
}
