//! When requests are meant to leave: an open loop has instants of its own, a closed loop follows
//! the answers.

use lineside_time::Nanoseconds;
use lineside_workload::{Purpose, Sizes, seed_for};

/// The instants of an open loop.
pub trait Arrivals: Send {
    /// The next one: its number within the run, and nanoseconds after the start, never less than
    /// before; `None`: there are no more.
    fn next(&mut self) -> Option<(u64, Nanoseconds)>;
}

/// How long a connection of a closed loop waits between an answer and the next request.
pub trait ThinkTimes: Send {
    /// Nanoseconds before the request with this number.
    fn before(&mut self, ordinal: u64) -> i64;
}

/// When requests are meant to leave.
pub enum Pace {
    /// Each as soon as a connection takes it, or after a time to think.
    Closed(Option<Box<dyn ThinkTimes>>),
    /// At instants that do not depend on answers.
    Open(Box<dyn Arrivals>),
}

/// Times to think; `None`: there are none.
pub(super) type Thoughts = Option<Box<dyn ThinkTimes>>;

impl Pace {
    /// What a closed loop has, and what an open one has.
    pub(super) fn split(self) -> (Option<Thoughts>, Option<Box<dyn Arrivals>>) {
        match self {
            Self::Closed(think) => (Some(think), None),
            Self::Open(arrivals) => (None, Some(arrivals)),
        }
    }
}

impl Arrivals for lineside_workload::Schedule {
    fn next(&mut self) -> Option<(u64, Nanoseconds)> {
        let arrival = Iterator::next(self)?;
        Some((arrival.ordinal, arrival.at_ns))
    }
}

/// Times to think that follow from a seed and the request's number.
#[derive(Debug, Clone)]
pub struct Thinking {
    times: Sizes,
    seed: u64,
}

impl Thinking {
    /// Drawn from `times`, in nanoseconds.
    pub fn new(times: Sizes, seed: u64) -> Self {
        Self {
            times,
            seed: seed_for(seed, Purpose::ThinkTimes),
        }
    }
}

impl ThinkTimes for Thinking {
    fn before(&mut self, ordinal: u64) -> i64 {
        i64::try_from(self.times.draw(self.seed, ordinal)).unwrap_or(i64::MAX)
    }
}
