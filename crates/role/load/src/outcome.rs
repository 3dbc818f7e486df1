//! What came of a run: of one process, or of several that made one load together.

use lineside_time::Nanoseconds;
use lineside_trace::certificate::load::Fill;
use serde::{Deserialize, Serialize};

use crate::results::{Counts, RecentTimes, RequestTimes};
use crate::worker::DriveFacts;

/// A second of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RunSecond {
    /// Its number, from 1.
    pub number: u32,
    /// Counts since the start.
    pub counts: Counts,
    /// Connections that are open.
    pub open: u32,
    /// Answers in this second.
    pub answered: u64,
    /// Bytes that came in this second.
    pub received_bytes: u64,
    /// Of the latencies of this second: median, 99 %, most.
    pub latency_ns: Option<[u64; 3]>,
    /// All times of this second; not kept after it was reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<Box<RecentTimes>>,
}

/// Hears how a run goes on, and says when it is to stop.
pub trait Observer {
    /// So many connections are open: when requests begin to leave, at `soon` or later; `None`:
    /// never.
    fn start_at(&mut self, _open: u32, soon: Nanoseconds) -> Option<Nanoseconds> {
        Some(soon)
    }
    /// What happened in a second, of all workers.
    fn on_second(&mut self, _second: &RunSecond) {}
    /// Whether the run is to stop.
    fn stops(&mut self) -> bool {
        false
    }
}

/// Of a watch, whether the run is to stop: before requests leave, there is nothing else to report.
pub(crate) struct OnlyStops<'a>(pub(crate) &'a mut dyn Observer);

impl Observer for OnlyStops<'_> {
    fn stops(&mut self) -> bool {
        self.0.stops()
    }
}

/// What came of a run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Counts of all workers.
    pub counts: Counts,
    /// Times of all workers.
    pub times: RequestTimes,
    /// The first departures of all workers, by their planned instants.
    pub departures: Vec<(Nanoseconds, Nanoseconds)>,
    /// Each worker's transport.
    pub transports: Vec<DriveFacts>,
    /// Processor time of all workers' threads while requests were under way.
    pub cpu_ns: i64,
    /// From the first request to the last answer, or to the end of requests if that is later.
    pub wall_ns: i64,
    /// Processor time and wall time of the busiest worker.
    pub busiest: (i64, i64),
    /// Every second.
    pub seconds: Vec<RunSecond>,
    /// Times after the last of them.
    #[serde(default)]
    pub rest: RecentTimes,
    /// When requests began to leave.
    pub started_ns: Nanoseconds,
    /// Rows that found no room.
    pub rows_dropped: u64,
    /// Bytes of memory for connections and what was under way.
    pub allocated_bytes: usize,
    /// An identity of the counts that does not hold.
    pub broken_identity: Option<String>,
    /// What kept the run from being what was asked, while it went on.
    pub notes: Vec<String>,
    /// Values that were stored before it.
    #[serde(default)]
    pub fill: Option<Fill>,
    /// Why it ended before its time.
    #[serde(default)]
    pub failure: Option<String>,
}

impl Outcome {
    /// Adds what came of another process, whose clock is `ahead_ns` ahead of this one's.
    pub fn add(&mut self, other: Self, ahead_ns: i64) {
        self.counts.add(&other.counts);
        self.times.add(&other.times);
        let departures = other.departures.into_iter();
        self.departures.extend(departures.map(|(planned, left)| {
            let of_ours = |at: Nanoseconds| at.saturating_sub(ahead_ns);
            (of_ours(planned), of_ours(left))
        }));
        self.departures.sort_unstable();
        self.transports.extend(other.transports);
        self.cpu_ns = self.cpu_ns.saturating_add(other.cpu_ns);
        self.wall_ns = self.wall_ns.max(other.wall_ns);
        let share = |(cpu, wall): (i64, i64)| cpu as f64 / wall.max(1) as f64;
        if share(other.busiest) > share(self.busiest) {
            self.busiest = other.busiest;
        }
        for (number, second) in other.seconds.into_iter().enumerate() {
            match self.seconds.get_mut(number) {
                Some(own) => own.add(&second),
                None => self.seconds.push(second),
            }
        }
        let started_ns = other.started_ns.saturating_sub(ahead_ns);
        self.started_ns = match (self.started_ns, other.started_ns) {
            (own, 0) => own,
            (0, _) => started_ns,
            (own, _) => own.min(started_ns),
        };
        self.rest.add(&other.rest);
        self.rows_dropped = self.rows_dropped.saturating_add(other.rows_dropped);
        self.allocated_bytes = self.allocated_bytes.saturating_add(other.allocated_bytes);
        self.broken_identity = self.broken_identity.take().or(other.broken_identity);
        self.notes.extend(other.notes);
        self.fill = self.fill.take().or(other.fill);
        self.failure = match (self.failure.take(), other.failure) {
            (Some(one), Some(two)) => Some(format!("{one}; {two}")),
            (one, two) => one.or(two),
        };
    }
}

impl RunSecond {
    /// Adds the same second of another process. Of two medians the greater one stays, and so on:
    /// they are bounds.
    pub fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.open = self.open.saturating_add(other.open);
        self.answered = self.answered.saturating_add(other.answered);
        self.received_bytes = self.received_bytes.saturating_add(other.received_bytes);
        self.latency_ns = match (self.latency_ns, other.latency_ns) {
            (Some(one), Some(two)) => {
                Some([0, 1, 2].map(|place: usize| one[place].max(two[place])))
            }
            (one, two) => one.or(two),
        };
        match (&mut self.times, &other.times) {
            (Some(own), Some(times)) => own.add(times),
            (own, times) => *own = own.take().or_else(|| times.clone()),
        }
    }
}
