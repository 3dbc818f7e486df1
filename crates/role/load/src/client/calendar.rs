//! The instants of an open loop, as a client takes them one after another.

use std::collections::VecDeque;

use lineside_time::Nanoseconds;

use super::catch_up::{Leaves, Overdue};
use super::{Arrivals, Plan};
use crate::results::{Counts, Unsent};

/// The requests of an open loop that are still to come.
pub(super) struct Calendar {
    /// None of a closed loop.
    arrivals: Option<Box<dyn Arrivals>>,
    /// The next request: its number, and its instant.
    next: Option<(u64, Nanoseconds)>,
    /// Requests that may still be taken.
    left: u64,
    started_ns: Nanoseconds,
    /// Requests of later instants are none of the run.
    until_ns: Nanoseconds,
    overdue: Overdue,
}

/// What a calendar has for an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// A request: its number, and its instant.
    Request(u64, Nanoseconds),
    /// Enough of those that are overdue have left for now: it is asked again at this instant.
    LookAgain(Nanoseconds),
    /// No request.
    Nothing,
}

impl Calendar {
    pub(super) fn new(arrivals: Option<Box<dyn Arrivals>>, plan: &Plan) -> Self {
        Self {
            arrivals,
            next: None,
            left: plan.requests.unwrap_or(u64::MAX),
            started_ns: 0,
            until_ns: 0,
            overdue: Overdue::new(plan.catch_up),
        }
    }

    /// Requests arrive from `at` on, and before `until`.
    pub(super) fn start(&mut self, at: Nanoseconds, until: Nanoseconds) {
        (self.started_ns, self.until_ns) = (at, until);
        self.go_on();
    }

    fn go_on(&mut self) {
        let next = self.arrivals.as_mut().filter(|_| self.left > 0);
        let next = next.and_then(|arrivals| arrivals.next());
        self.next = next.map(|(number, after)| (number, self.started_ns.saturating_add(after)));
    }

    /// Whether no request will ever come, whatever the time.
    pub(super) fn is_over(&self) -> bool {
        self.next.is_none()
    }

    /// The instant of the next request, if there is one in the time of the run.
    pub(super) fn next_due(&self) -> Option<Nanoseconds> {
        let (_, due) = self.next?;
        (due < self.until_ns).then_some(due)
    }

    /// Takes the next request, if its instant is no later than `horizon`.
    pub(super) fn take(
        &mut self,
        now: Nanoseconds,
        horizon: Nanoseconds,
        counts: &mut Counts,
    ) -> Entry {
        let last = horizon.min(self.until_ns.saturating_sub(1));
        let Some((number, due)) = self.next.filter(|&(_, due)| due <= last) else {
            return Entry::Nothing;
        };
        let due = match self.overdue.look(due, now, counts) {
            Leaves::AsPlanned => due,
            Leaves::LookAgain(at) => return Entry::LookAgain(at),
            Leaves::Moved(by_ns) => {
                self.started_ns += by_ns;
                now
            }
        };
        self.left -= 1;
        self.go_on();
        Entry::Request(number, due)
    }

    /// Passes over the next request, if its instant has come. Whether it had.
    fn pass_over(&mut self, now: Nanoseconds) -> bool {
        let has_come = { self.next_due() }.is_some_and(|due| due <= now);
        if has_come {
            self.left -= 1;
            self.go_on();
        }
        has_come
    }

    /// The run is over: what has come by `now` and was not taken, and what waits, is never sent.
    pub(super) fn give_up(
        &mut self,
        now: Nanoseconds,
        waiting: &mut VecDeque<(u64, Nanoseconds)>,
        counts: &mut Counts,
    ) {
        let unsent = &mut counts.unsent[Unsent::RunOver as usize];
        *unsent += waiting.len() as u64;
        waiting.clear();
        while self.pass_over(now) {
            counts.planned += 1;
            *unsent += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CloseBy;
    use crate::client::CatchUp;

    struct Each(i64);

    impl Arrivals for Each {
        fn next(&mut self) -> Option<(u64, Nanoseconds)> {
            self.0 += 10;
            Some((self.0.unsigned_abs() / 10, self.0))
        }
    }

    fn calendar(requests: Option<u64>, catch_up: CatchUp) -> Calendar {
        let plan = Plan {
            connections: 1,
            opens_on_arrival: false,
            requests_each: None,
            pipeline: 1,
            close_by: CloseBy::Fin,
            requests,
            timeout_ns: 1,
            ahead_ns: 0,
            opening_max: 1,
            waiting_max: 1,
            catch_up,
            retry_ns: 1,
            share: (0, 1),
        };
        let mut calendar = Calendar::new(Some(Box::new(Each(0))), &plan);
        calendar.start(1_000, 1_040);
        calendar
    }

    #[test]
    fn only_what_is_due_before_the_end_is_of_the_run() {
        let (mut calendar, mut counts) = (calendar(None, CatchUp::Keep), Counts::default());
        let mut take = |calendar: &mut Calendar, at| calendar.take(at, at, &mut counts);
        assert_eq!(take(&mut calendar, 1_009), Entry::Nothing);
        assert_eq!(calendar.next_due(), Some(1_010));
        assert_eq!(take(&mut calendar, 5_000), Entry::Request(1, 1_010));
        assert_eq!(take(&mut calendar, 1_020), Entry::Request(2, 1_020));
        assert!(!calendar.pass_over(1_029) && calendar.pass_over(1_030));
        // The fourth is due as the run ends. The schedule itself goes on.
        assert_eq!(take(&mut calendar, 5_000), Entry::Nothing);
        assert!(!calendar.pass_over(5_000) && !calendar.is_over());
        assert_eq!(calendar.next_due(), None);
    }

    #[test]
    fn a_plan_of_two_requests_is_over_after_them() {
        let (mut calendar, mut counts) = (calendar(Some(2), CatchUp::Keep), Counts::default());
        for _ in 0..2 {
            assert!(!calendar.is_over());
            calendar.take(1_030, 1_030, &mut counts);
        }
        assert!(calendar.is_over());
    }

    #[test]
    fn a_cap_has_the_rest_wait() {
        let mut calendar = calendar(None, CatchUp::Cap(1));
        let (now, mut counts) = (9_000_000, Counts::default());
        let first = calendar.take(now, now, &mut counts);
        assert_eq!(first, Entry::Request(1, 1_010));
        let second = calendar.take(now, now, &mut counts);
        assert_eq!(second, Entry::LookAgain(10_000_000));
        assert_eq!(counts.overdue, 1);
    }
}
