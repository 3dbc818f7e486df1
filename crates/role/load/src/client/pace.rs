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
    /// Nanoseconds, the `ordinal`-th time that a connection waits.
    fn draw(&mut self, ordinal: u64) -> i64;
}

/// When requests are meant to leave.
pub enum Pace {
    /// Each as soon as a connection takes it, or after a time to think.
    Closed(Option<Box<dyn ThinkTimes>>),
    /// At instants that do not depend on answers.
    Open(Box<dyn Arrivals>),
}

/// The times to think of a worker's closed loop.
pub(super) struct Thoughts {
    times: Option<Box<dyn ThinkTimes>>,
    /// How many were drawn. Not how many requests were: a connection that waits has yet to draw
    /// its own, and another one that begins to wait meanwhile must not wait as long.
    count: u64,
}

impl Thoughts {
    /// Whether there are none.
    pub(super) fn are_none(&self) -> bool {
        self.times.is_none()
    }

    /// The next one, for a worker with this share of all; 0 if there are none.
    pub(super) fn next(&mut self, (place, workers): (u64, u64)) -> i64 {
        let Some(times) = &mut self.times else {
            return 0;
        };
        self.count += 1;
        times.draw((self.count - 1) * workers + place)
    }
}

impl Pace {
    /// What a closed loop has, and what an open one has.
    pub(super) fn split(self) -> (Option<Thoughts>, Option<Box<dyn Arrivals>>) {
        match self {
            Self::Closed(times) => (Some(Thoughts { times, count: 0 }), None),
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

/// Times to think that follow from a seed and a number.
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
    fn draw(&mut self, ordinal: u64) -> i64 {
        i64::try_from(self.times.draw(self.seed, ordinal)).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use lineside_workload::{Unit, no_files};

    use super::*;

    fn thoughts() -> Thoughts {
        let times = Sizes::parse("think", "uniform 1s..9s", Unit::Time, &mut no_files);
        let times = Thinking::new(times.expect("words"), 7);
        let (closed, _) = Pace::Closed(Some(Box::new(times))).split();
        closed.expect("a closed loop")
    }

    #[test]
    fn each_wait_is_drawn_anew_and_shared_by_workers() {
        let mut one = thoughts();
        let all: BTreeSet<i64> = (0..200).map(|_| one.next((0, 1))).collect();
        assert_eq!(all.len(), 200, "nobody waits as long as another");
        let mut shared = BTreeSet::new();
        for place in 0..2 {
            let mut worker = thoughts();
            shared.extend((0..100).map(|_| worker.next((place, 2))));
        }
        assert_eq!(shared, all);
        let (none, _) = Pace::Closed(None).split();
        let mut none = none.expect("a closed loop");
        assert!(none.are_none() && none.next((0, 1)) == 0);
    }
}
