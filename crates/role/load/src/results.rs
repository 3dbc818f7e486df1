//! What a client counts, and the rows of its requests.

use lineside_measure::{LateCounts, Times};
use lineside_time::Nanoseconds;
use serde::{Deserialize, Serialize};

use crate::application::{End, Reason};

/// Why a request got no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The peer reset the connection.
    Reset,
    /// The peer ended the connection first.
    Closed,
    /// No answer in time.
    Timeout,
    /// The transport gave up, or an ICMP error reported an unreachable destination.
    Unreachable,
    /// The bytes were no answer.
    Protocol,
    /// This end had no room, port or descriptor.
    Local,
}

/// Why a planned request never left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unsent {
    /// More waited for a connection than may.
    NoConnection,
    /// The run was over before one was free.
    RunOver,
    /// The connection for it did not open.
    Refused,
}

impl Cause {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Self; 6] = [
        Self::Reset,
        Self::Closed,
        Self::Timeout,
        Self::Unreachable,
        Self::Protocol,
        Self::Local,
    ];

    /// What rows and reports call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reset => "reset",
            Self::Closed => "closed",
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::Protocol => "protocol",
            Self::Local => "local",
        }
    }
}

impl Unsent {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Self; 3] = [Self::NoConnection, Self::RunOver, Self::Refused];

    /// What reports call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoConnection => "no_connection",
            Self::RunOver => "run_over",
            Self::Refused => "refused",
        }
    }
}

impl From<Reason> for Cause {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Finished => Self::Closed,
            Reason::Reset | Reason::Refused => Self::Reset,
            Reason::TimedOut => Self::Timeout,
            Reason::Unreachable => Self::Unreachable,
            Reason::Aborted => Self::Protocol,
            Reason::NoPort | Reason::NoDescriptor | Reason::NoRoom | Reason::Other => Self::Local,
        }
    }
}

/// Of this many departures at the start of a run the instants are kept, to be compared with the
/// model.
pub const DEPARTURES_KEPT: usize = 10_000;

/// Statuses that are counted each; others share the last place.
const STATUSES_MAX: usize = 64;

/// The counts of a client. Adding those of two clients gives those of both.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests whose instant came.
    pub planned: u64,
    /// Of these, given to a connection.
    pub sent: u64,
    /// Planned, and never given to one: in the order of [`Unsent`].
    pub unsent: [u64; 3],
    /// Answers that came whole.
    pub answered: u64,
    /// Of these, with a status that reports success.
    pub succeeded: u64,
    /// Sent and not answered, by [`Cause`].
    pub failed: [u64; 6],
    /// Answers with a status that reports success, of which bytes came later that answer nothing:
    /// they are none of those that succeeded.
    #[serde(default)]
    pub spoiled: u64,
    /// Datagrams that left and want no answer.
    #[serde(default)]
    pub one_way: u64,
    /// Answers in datagrams to requests that had failed by then.
    #[serde(default)]
    pub late_answers: u64,
    /// Answers in datagrams to requests that were answered before.
    #[serde(default)]
    pub duplicates: u64,
    /// Datagrams that came and answered nothing.
    #[serde(default)]
    pub strays: u64,
    /// Requests that found no connection at their instant.
    pub waited: u64,
    /// Requests of an open loop that were looked at more than 1 ms after their instants.
    pub overdue: u64,
    /// How often a schedule was moved because of that, and by how much in all.
    pub moved: u64,
    /// Nanoseconds.
    pub moved_ns: u64,
    /// Connections that were opened.
    pub opened: u64,
    /// Connections that were tried and did not open, by cause.
    pub refused: [u64; 6],
    /// Connections that the plan ended.
    pub closed: u64,
    /// Bytes of requests; of those that are acknowledged by the peer's TCP alone, as far as they
    /// were.
    pub request_bytes: u64,
    /// Bytes that came.
    pub received_bytes: u64,
    /// Bytes of answers' contents.
    pub content_bytes: u64,
    /// Answers by status, sorted by it.
    pub statuses: Vec<(u32, u64)>,
}

impl Counts {
    /// Requests that were sent and wait for their answer.
    pub fn outstanding(&self) -> u64 {
        let over = self.answered + self.failed.iter().sum::<u64>() + self.one_way;
        self.sent.saturating_sub(over)
    }

    /// An identity that does not hold; `None`: all do. At the end of a run nothing is outstanding,
    /// and nothing waits.
    pub fn broken_identity(&self, waiting: u64, outstanding: u64) -> Option<&'static str> {
        let unsent = self.unsent.iter().sum::<u64>();
        let failed = self.failed.iter().sum::<u64>();
        if self.planned != self.sent + unsent + waiting {
            return Some("planned = sent + unsent + waiting");
        }
        if self.sent != self.answered + failed + self.one_way + outstanding {
            return Some("sent = answered + failed + one-way + outstanding");
        }
        let by_status = self.statuses.iter().map(|&(_, count)| count).sum::<u64>();
        (by_status != self.answered).then_some("answered = sum of all statuses")
    }

    /// Counts an answer's status.
    pub(crate) fn on_status(&mut self, status: u32) {
        let place = self
            .statuses
            .binary_search_by_key(&status, |&(each, _)| each);
        match place {
            Ok(place) => self.statuses[place].1 += 1,
            Err(place) if self.statuses.len() < STATUSES_MAX => {
                self.statuses.insert(place, (status, 1));
            }
            // A server that invents statuses: the largest that was seen stands for the others.
            Err(_) => self.statuses[STATUSES_MAX - 1].1 += 1,
        }
    }

    /// Adds those of another client.
    pub fn add(&mut self, other: &Self) {
        let sum = |one: &mut [u64], other: &[u64]| {
            one.iter_mut()
                .zip(other)
                .for_each(|(one, other)| *one = one.saturating_add(*other));
        };
        self.planned = self.planned.saturating_add(other.planned);
        self.sent = self.sent.saturating_add(other.sent);
        sum(&mut self.unsent, &other.unsent);
        self.answered = self.answered.saturating_add(other.answered);
        self.succeeded = self.succeeded.saturating_add(other.succeeded);
        sum(&mut self.failed, &other.failed);
        self.spoiled = self.spoiled.saturating_add(other.spoiled);
        self.one_way = self.one_way.saturating_add(other.one_way);
        self.late_answers = self.late_answers.saturating_add(other.late_answers);
        self.duplicates = self.duplicates.saturating_add(other.duplicates);
        self.strays = self.strays.saturating_add(other.strays);
        self.waited = self.waited.saturating_add(other.waited);
        self.overdue = self.overdue.saturating_add(other.overdue);
        self.moved = self.moved.saturating_add(other.moved);
        self.moved_ns = self.moved_ns.saturating_add(other.moved_ns);
        self.opened = self.opened.saturating_add(other.opened);
        sum(&mut self.refused, &other.refused);
        self.closed = self.closed.saturating_add(other.closed);
        self.request_bytes = self.request_bytes.saturating_add(other.request_bytes);
        self.received_bytes = self.received_bytes.saturating_add(other.received_bytes);
        self.content_bytes = self.content_bytes.saturating_add(other.content_bytes);
        for &(status, count) in &other.statuses {
            match self
                .statuses
                .binary_search_by_key(&status, |&(each, _)| each)
            {
                Ok(place) => {
                    let own = &mut self.statuses[place].1;
                    *own = own.saturating_add(count);
                }
                Err(place) => self.statuses.insert(place, (status, count)),
            }
        }
    }
}

/// The times of a client's requests. Recording allocates nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestTimes {
    /// From the planned instant to the end of the answer.
    pub latency: Times,
    /// From the departure to the end of the answer.
    pub service: Times,
    /// From the departure to the first byte of the answer.
    pub first_byte: Times,
    /// From the SYN to an open connection.
    pub opening: Times,
    /// From the planned instant to the departure.
    pub lateness: Times,
    /// Requests by how late they left.
    pub late: LateCounts,
    /// Latencies by the protocol's operations, if it has several.
    pub operations: Vec<Times>,
}

/// Operations of a protocol that have times of their own, of 300 KiB each.
pub(crate) const OPERATIONS_MAX: usize = 24;

/// Times of a run are measured up to an hour.
const HOUR_NS: u64 = 3_600_000_000_000;

impl Default for RequestTimes {
    fn default() -> Self {
        let times = || Times::up_to(HOUR_NS);
        Self {
            latency: times(),
            service: times(),
            first_byte: times(),
            opening: times(),
            lateness: times(),
            late: LateCounts::default(),
            operations: Vec::new(),
        }
    }
}

impl RequestTimes {
    /// Makes room for this many operations.
    pub(crate) fn tell_apart(&mut self, operations: usize) {
        let operations = operations.min(OPERATIONS_MAX);
        self.operations
            .resize_with(operations, || Times::up_to(HOUR_NS));
    }

    /// Adds those of another client.
    pub fn add(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.service.merge(&other.service);
        self.first_byte.merge(&other.first_byte);
        self.opening.merge(&other.opening);
        self.lateness.merge(&other.lateness);
        self.late.add(&other.late);
        if self.operations.len() < other.operations.len() {
            self.tell_apart(other.operations.len());
        }
        for (mine, others) in self.operations.iter_mut().zip(&other.operations) {
            mine.merge(others);
        }
    }
}

/// Times of a part of a run: those that came since the last look.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RecentTimes {
    /// From the planned instant to the end of the answer.
    pub latency: Times,
    /// From the departure to the end of the answer.
    pub service: Times,
}

impl RecentTimes {
    /// Adds those of another client.
    pub fn add(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.service.merge(&other.service);
    }

    /// Forgets all times, and keeps the memory.
    pub fn clear(&mut self) {
        self.latency.clear();
        self.service.clear();
    }
}

/// What a client has counted and measured.
#[derive(Debug)]
pub struct Results {
    /// Counts.
    pub counts: Counts,
    /// Times.
    pub times: RequestTimes,
    /// The first departures with an instant of their own: planned, left.
    pub departures: Vec<(Nanoseconds, Nanoseconds)>,
    /// Times since the counts were looked at last.
    pub recent: Box<RecentTimes>,
    /// The last answer, or the end of requests if that is later.
    pub ended_ns: Nanoseconds,
}

impl Default for Results {
    fn default() -> Self {
        Self {
            counts: Counts::default(),
            times: RequestTimes::default(),
            departures: Vec::with_capacity(DEPARTURES_KEPT),
            recent: Box::default(),
            ended_ns: 0,
        }
    }
}

/// A request, for `operations`.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its number within the run.
    pub ordinal: u64,
    /// The slot of its connection.
    pub slot: u32,
    /// For when it was planned.
    pub intended_ns: Nanoseconds,
    /// When its first byte left; `None`: it never did.
    pub departed_ns: Option<Nanoseconds>,
    /// When the first byte of the answer came.
    pub first_ns: Option<Nanoseconds>,
    /// When the answer was over.
    pub end_ns: Option<Nanoseconds>,
    /// Our end of the connection, and the server's.
    pub ends: [End; 2],
    /// The answer's status.
    pub status: Option<u32>,
    /// Bytes of the request.
    pub request_bytes: u64,
    /// Bytes of the answer's content.
    pub content_bytes: u64,
    /// Why there is no answer.
    pub cause: Option<Cause>,
}
