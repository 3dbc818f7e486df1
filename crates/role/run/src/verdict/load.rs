//! The rules about a load. Each sentence says the figure, the limit and what helps.

use lineside_words::{grouped, time};

use super::Reason;

/// What is known of a load. A figure that a load does not have is 0, and breaks no limit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoadEvidence {
    /// Arrivals of the schedule.
    pub arrivals: u64,
    /// The share of them that did not become requests, or connections, in time.
    pub missed_share: f64,
    /// Its limit.
    pub missed_share_max: f64,
    /// 99 % of departures were no later.
    pub lateness_p99_ns: u64,
    /// Its limit.
    pub lateness_p99_max_ns: u64,
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

impl LoadEvidence {
    fn waits_too_often(&self) -> bool {
        self.waited as f64 > self.waited_share_max * self.planned as f64
    }
}

pub(super) fn rate_missed(load: &LoadEvidence) -> Vec<Reason> {
    if load.missed_share <= load.missed_share_max {
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
    // A request that had to wait for a connection is late by that: its own rule says so.
    if load.waits_too_often() || load.lateness_p99_ns <= load.lateness_p99_max_ns {
        return Vec::new();
    }
    vec![format!(
        "requests left late: 1 % by more than {} (limit {}): a machine with less to do, --pin, \
         'chrt -f 50', or a lower rate",
        time(load.lateness_p99_ns),
        time(load.lateness_p99_max_ns)
    )]
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
    if load.frames_dropped == 0 {
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
    if load.without_local == 0 {
        return Vec::new();
    }
    vec![format!(
        "{} connections or requests found no local port, descriptor or memory: more addresses \
         (--from, --address), --close rst (no TIME-WAIT), 'ulimit -n', or --memory",
        grouped(load.without_local)
    )]
}

pub(super) fn stalled(load: &LoadEvidence) -> Vec<Reason> {
    if load.stall_max_ns <= load.stall_limit_ns {
        return Vec::new();
    }
    vec![format!(
        "the generator stood still {} times for more than 1 ms, {} the longest (limit {}): \
         something else took its core",
        grouped(load.stalls),
        time(load.stall_max_ns),
        time(load.stall_limit_ns)
    )]
}

pub(super) fn stolen(load: &LoadEvidence) -> Vec<Reason> {
    if load.steal_share <= load.steal_share_max {
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
fn percent(share: f64) -> String {
    let digits = format!("{:.3}", share * 100.0);
    format!("{} %", digits.trim_end_matches('0').trim_end_matches('.'))
}
