//! The rules about a load. Each sentence says the figure, the limit and what helps.

use lineside_words::{grouped, time};

use super::{LateLimits, Reason, borne};

/// What is known of a load. A figure that a load does not have is 0, and breaks no limit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoadEvidence {
    /// Arrivals of the schedule.
    pub arrivals: u64,
    /// The share of them that did not become requests, or connections, in time.
    pub missed_share: f64,
    /// Its limit.
    pub missed_share_max: f64,
    /// Requests that left at instants of their own.
    pub departures: u64,
    /// Of these, such that left more than a millisecond late.
    pub late: u64,
    /// What is borne of that.
    pub late_limits: LateLimits,
    /// The quantile of latency that late departures moved beyond its own error.
    pub moved: Option<Moved>,
    /// 99 % of departures were no later.
    pub lateness_p99_ns: u64,
    /// Its limit, if there is one.
    pub lateness_p99_max_ns: Option<u64>,
    /// The latest departure.
    pub lateness_max_ns: u64,
    /// Requests with an outcome: an answer, a failure, a connection that did not open.
    pub ended: u64,
    /// Of these, such that got no good answer.
    pub failed: u64,
    /// How they failed.
    pub failures: String,
    /// The limit of their share.
    pub failed_share_max: f64,
    /// Requests whose instant came.
    pub planned: u64,
    /// Of these, such that found no connection.
    pub waited: u64,
    /// The limit of their share.
    pub waited_share_max: f64,
    /// Of the busiest worker's time, the share that it was running.
    pub busy_share: f64,
    /// Its limit.
    pub busy_share_max: f64,
    /// Rows of the trace that found no room.
    pub rows_dropped: u64,
    /// Frames that this end's ports dropped or never sent.
    pub frames_dropped: u64,
    /// Connections and requests for which this end had no port, descriptor or memory.
    pub without_local: u64,
    /// Turns of a loop that took more than 1 ms.
    pub stalls: u64,
    /// The longest of them.
    pub stall_max_ns: u64,
    /// Its limit.
    pub stall_limit_ns: u64,
    /// Requests that were due or under way meanwhile, about.
    pub stalled: u64,
    /// Processor time that a hypervisor gave to others, as a share of all.
    pub steal_share: f64,
    /// Its limit.
    pub steal_share_max: f64,
    /// The greatest median latency of a third of the run, by the least.
    pub drift: f64,
    /// Its limit.
    pub drift_max: f64,
    /// An identity of the counts that does not hold.
    pub broken_identity: Option<String>,
}

/// A quantile of latency, without the time until departure and with it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moved {
    /// From 0 to 1.
    pub quantile: f64,
    /// From the departures.
    pub from_ns: u64,
    /// From the planned instants.
    pub to_ns: u64,
}

impl LoadEvidence {
    fn missed(&self) -> bool {
        self.missed_share > self.missed_share_max
    }

    fn stalls_show(&self) -> bool {
        let borne = borne(self.ended, self.late_limits.late);
        self.stall_max_ns > self.stall_limit_ns && self.stalled > borne
    }

    /// What of the departures' lateness is beyond its limits, and what that is.
    fn late(&self) -> Option<String> {
        // A request that had to wait for a connection is late by that: its own rule says so.
        if self.waits_too_often() {
            return None;
        }
        let over = |found: u64, most: Option<u64>| most.filter(|most| found > *most);
        if let Some(most_ns) = over(self.lateness_max_ns, self.late_limits.lateness_max_ns) {
            let (found, most) = (time(self.lateness_max_ns), time(most_ns));
            return Some(format!("one by {found} (limit {most})"));
        }
        if let Some(most_ns) = over(self.lateness_p99_ns, self.lateness_p99_max_ns) {
            let (found, most) = (time(self.lateness_p99_ns), time(most_ns));
            return Some(format!("1 % by more than {found} (limit {most})"));
        }
        let moved = self.moved?;
        let limit = self.late_limits.late;
        (self.late > borne(self.departures, limit)).then(|| {
            format!(
                "{} of {} by more than 1 ms (limit {}), so that {} % of the latencies are within \
                {} instead of {}",
                grouped(self.late),
                grouped(self.departures),
                percent(limit),
                moved.quantile * 100.0,
                time(moved.to_ns),
                time(moved.from_ns)
            )
        })
    }

    fn waits_too_often(&self) -> bool {
        self.waited as f64 > self.waited_share_max * self.planned as f64
    }
}

pub(super) fn failed(load: &LoadEvidence) -> Vec<Reason> {
    if load.failed as f64 <= load.failed_share_max * load.ended as f64 {
        return Vec::new();
    }
    vec![format!(
        "{} of {} requests failed ({}, limit {}: --errors-max): {}",
        grouped(load.failed),
        grouped(load.ended),
        percent(load.failed as f64 / load.ended.max(1) as f64),
        percent(load.failed_share_max),
        load.failures
    )]
}

pub(super) fn rate_missed(load: &LoadEvidence) -> Vec<Reason> {
    if !load.missed() {
        return Vec::new();
    }
    vec![format!(
        "the rate was missed: {} of {} arrivals did not become requests in time (limit {}): lower \
         it (-R), or give more connections (-c) or workers (-t)",
        percent(load.missed_share),
        grouped(load.arrivals),
        percent(load.missed_share_max)
    )]
}

pub(super) fn waited(load: &LoadEvidence) -> Vec<Reason> {
    if !load.waits_too_often() {
        return Vec::new();
    }
    vec![format!(
        "{} of {} requests found no connection at their instant ({}, limit {}), so that the server \
         sees another load than was asked for: more connections (-c), or --pipeline",
        grouped(load.waited),
        grouped(load.planned),
        percent(load.waited as f64 / load.planned.max(1) as f64),
        percent(load.waited_share_max)
    )]
}

pub(super) fn late(load: &LoadEvidence) -> Vec<Reason> {
    let late = load.late().into_iter();
    late.map(|late| {
        format!(
            "requests left late: {late}: a machine with less to do, --pin, 'chrt -f 50', or a \
             lower rate"
        )
    })
    .collect()
}

pub(super) fn saturated(load: &LoadEvidence) -> Vec<Reason> {
    if load.busy_share <= load.busy_share_max {
        return Vec::new();
    }
    vec![format!(
        "the generator is saturated: its busiest worker was running {} of the time (limit {}): \
         more workers (-t), or a lower rate",
        percent(load.busy_share),
        percent(load.busy_share_max)
    )]
}

pub(super) fn frames_dropped(load: &LoadEvidence) -> Vec<Reason> {
    if load.frames_dropped <= borne(load.ended, load.late_limits.late) {
        return Vec::new();
    }
    vec![format!(
        "{} frames were dropped at this end's own port, which a network's loss would look like: a \
         lower rate, or more workers (-t); joined frames are too long for AF_PACKET: 'ethtool -K \
         IF gro off', and at a veth's other end 'tso off gso off'",
        grouped(load.frames_dropped)
    )]
}

pub(super) fn without_local(load: &LoadEvidence) -> Vec<Reason> {
    if load.without_local <= borne(load.ended, load.late_limits.late) {
        return Vec::new();
    }
    vec![format!(
        "{} connections or requests found no local port, descriptor or memory: more addresses \
         (--from, --address), --close rst (no TIME-WAIT), 'ulimit -n', or --memory",
        grouped(load.without_local)
    )]
}

pub(super) fn stalled(load: &LoadEvidence) -> Vec<Reason> {
    if !load.stalls_show() {
        return Vec::new();
    }
    vec![format!(
        "the generator stood still {} times for more than 1 ms, {} the longest (limit {}), while \
         some {} of {} requests were due or under way: something else took its core",
        grouped(load.stalls),
        time(load.stall_max_ns),
        time(load.stall_limit_ns),
        grouped(load.stalled),
        grouped(load.ended)
    )]
}

pub(super) fn stolen(load: &LoadEvidence) -> Vec<Reason> {
    // Time that was missed by nobody does no harm.
    let shows = load.missed() || load.stalls_show() || load.late().is_some();
    if load.steal_share <= load.steal_share_max || !shows {
        return Vec::new();
    }
    vec![format!(
        "the hypervisor gave {} of this machine's processor time to others (limit {}): another \
         machine, or another time",
        percent(load.steal_share),
        percent(load.steal_share_max)
    )]
}

pub(super) fn drifted(load: &LoadEvidence) -> Vec<Reason> {
    if load.drift <= load.drift_max {
        return Vec::new();
    }
    vec![format!(
        "latency was not stationary: its median differs by a factor of {:.2} between the thirds of \
         the run (limit {}): a longer run, after the server has warmed up, or a rate that it holds",
        load.drift, load.drift_max
    )]
}

pub(super) fn rows_dropped(load: &LoadEvidence) -> Vec<Reason> {
    if load.rows_dropped == 0 {
        return Vec::new();
    }
    vec![format!(
        "{} requests have no row, because the writer of the trace did not keep up: --row-sample N for \
         every Nth, or a faster disk",
        grouped(load.rows_dropped)
    )]
}

pub(super) fn contradicts(load: &LoadEvidence) -> Vec<Reason> {
    let broken = load.broken_identity.iter();
    broken
        .map(|identity| {
            format!(
                "the counts contradict each other ({identity}): a fault of lineside, please \
                     report it"
            )
        })
        .collect()
}

/// `0.12 %`, `12.3 %`
pub(super) fn percent(share: f64) -> String {
    let digits = format!("{:.3}", share * 100.0);
    format!("{} %", digits.trim_end_matches('0').trim_end_matches('.'))
}
