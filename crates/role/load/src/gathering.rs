//! What the agents of one load report, put together. It reads no line and writes none.

use std::collections::VecDeque;

use lineside_words::grouped;

use crate::agents::{AgentError, FromAgent};
use crate::outcome::{Outcome, RunSecond};
use crate::so_far::SoFar;

/// Seconds that one host may report before another one does: more than a day of them.
const SECONDS_MAX: usize = 100_000;

/// A load that hosts make, as far as they have reported it.
pub struct Gathering {
    hosts: Vec<Host>,
    /// Connections of those that are ready.
    open: u32,
    /// Seconds that all of them have reported.
    shown: u32,
    outcome: Outcome,
}

struct Host {
    name: String,
    /// How far its clock is ahead of ours.
    ahead_ns: i64,
    stage: Stage,
    /// Those that not all others have reported.
    seconds: VecDeque<RunSecond>,
    /// All of them: what is known of a host that dies.
    so_far: SoFar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Opening,
    Ready,
    Over,
}

/// What follows from a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// Nothing yet.
    None,
    /// All hosts are ready, with so many connections.
    AllReady(u32),
}

impl Gathering {
    /// Of hosts by their names, and how far the clock of each is ahead of ours.
    pub fn new(hosts: impl IntoIterator<Item = (String, i64)>) -> Self {
        let host = |(name, ahead_ns)| Host {
            name,
            ahead_ns,
            stage: Stage::Opening,
            seconds: VecDeque::new(),
            so_far: SoFar::default(),
        };
        Self {
            hosts: hosts.into_iter().map(host).collect(),
            open: 0,
            shown: 0,
            outcome: Outcome {
                busiest: (0, 1),
                ..Outcome::default()
            },
        }
    }

    /// Takes what a host reports; `show` takes the seconds that all of them have reported.
    pub fn on_message(
        &mut self,
        host: usize,
        message: FromAgent,
        show: &mut dyn FnMut(&RunSecond),
    ) -> Result<News, AgentError> {
        let from = &mut self.hosts[host];
        match (message, from.stage) {
            // Whether it is still there is all that was asked.
            (FromAgent::Pong { .. }, _) => Ok(News::None),
            (FromAgent::Ready { open }, Stage::Opening) => {
                from.stage = Stage::Ready;
                self.open = self.open.saturating_add(open);
                Ok(self.all_ready())
            }
            (FromAgent::Second(second), Stage::Ready) if from.seconds.len() < SECONDS_MAX => {
                from.so_far.on_second(&second);
                from.seconds.push_back(*second);
                self.show(show);
                Ok(News::None)
            }
            (FromAgent::Over(outcome), Stage::Opening | Stage::Ready) => {
                let was_opening = from.stage == Stage::Opening;
                from.stage = Stage::Over;
                self.outcome.add(*outcome, from.ahead_ns);
                // Stopped before it was ready, it keeps no other waiting.
                Ok(match was_opening {
                    true => self.all_ready(),
                    false => News::None,
                })
            }
            (FromAgent::Failed { why }, _) => Err(AgentError::Failed {
                host: from.name.clone(),
                why,
            }),
            (other, _) => Err(AgentError::OutOfTurn {
                host: from.name.clone(),
                text: format!("{other:?}").chars().take(100).collect(),
            }),
        }
    }

    fn all_ready(&self) -> News {
        match self.hosts.iter().all(|host| host.stage != Stage::Opening) {
            true => News::AllReady(self.open),
            false => News::None,
        }
    }

    /// A host is gone, and why: what it reported stays, and the others go on.
    pub fn on_gone(&mut self, host: usize, why: &str, show: &mut dyn FnMut(&RunSecond)) {
        let from = &mut self.hosts[host];
        from.stage = Stage::Over;
        let so_far = from.so_far.outcome();
        let (seconds, waiting) = (so_far.seconds.len(), so_far.counts.outstanding());
        let known = Outcome {
            counts: so_far.counts.clone(),
            times: so_far.times.clone(),
            wall_ns: so_far.wall_ns,
            seconds: so_far.seconds.clone(),
            failure: Some(format!(
                "{why}; of its part of the load the first {seconds} s are known, at whose end {} \
                requests waited for an answer",
                grouped(waiting)
            )),
            ..Outcome::default()
        };
        self.outcome.add(known, from.ahead_ns);
        self.show(show);
    }

    /// Shows the seconds that all have reported that go on.
    fn show(&mut self, show: &mut dyn FnMut(&RunSecond)) {
        let has_reported = |host: &Host| host.stage == Stage::Over || !host.seconds.is_empty();
        while self.hosts.iter().all(has_reported)
            && self.hosts.iter().any(|host| !host.seconds.is_empty())
        {
            self.shown = self.shown.saturating_add(1);
            let mut all = RunSecond {
                number: self.shown,
                ..RunSecond::default()
            };
            for host in &mut self.hosts {
                match host.seconds.pop_front() {
                    Some(second) => all.add(&second),
                    // Counts are those since the start.
                    None => all.counts.add(&host.so_far.outcome().counts),
                }
            }
            show(&all);
        }
    }

    /// The name of a host.
    pub fn name(&self, host: usize) -> &str {
        &self.hosts[host].name
    }

    /// Whether a host has reported its outcome.
    pub fn is_over(&self, host: usize) -> bool {
        self.hosts[host].stage == Stage::Over
    }

    /// Whether all have.
    pub fn all_over(&self) -> bool {
        (0..self.hosts.len()).all(|host| self.is_over(host))
    }

    /// What came of it.
    pub fn into_outcome(mut self) -> Outcome {
        // A host that was over before the others has reported no such seconds.
        let rest = self.hosts.iter().flat_map(|host| &host.seconds);
        for times in rest.filter_map(|second| second.times.as_ref()) {
            self.outcome.rest.add(times);
        }
        self.outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Gathering {
        Gathering::new([("a".to_owned(), 0), ("b".to_owned(), 7)])
    }

    #[test]
    fn all_are_ready_when_each_is_ready_or_over() {
        let (mut gathering, mut show) = (two(), |_: &RunSecond| {});
        let ready = |open| FromAgent::Ready { open };
        let none = gathering.on_message(0, ready(3), &mut show);
        assert_eq!(none.expect("in turn"), News::None);
        // One host is not two.
        let twice = gathering.on_message(0, ready(3), &mut show);
        assert!(
            twice
                .expect_err("out of turn")
                .to_string()
                .starts_with("a answered")
        );
        let over = FromAgent::Over(Box::default());
        let all = gathering.on_message(1, over, &mut show);
        assert_eq!(all.expect("in turn"), News::AllReady(3));
        assert!(gathering.is_over(1) && !gathering.all_over());
    }

    #[test]
    fn a_second_is_shown_when_all_have_reported_it() {
        let mut gathering = two();
        let second = |open| {
            FromAgent::Second(Box::new(RunSecond {
                open,
                ..RunSecond::default()
            }))
        };
        let mut shown = Vec::new();
        let mut show = |second: &RunSecond| shown.push((second.number, second.open));
        assert!(gathering.on_message(0, second(1), &mut show).is_err());
        for host in [0, 1] {
            let ready = FromAgent::Ready { open: 1 };
            gathering
                .on_message(host, ready, &mut show)
                .expect("in turn");
        }
        for (host, open) in [(0, 1), (0, 2), (1, u32::MAX), (1, 5)] {
            let news = gathering.on_message(host, second(open), &mut show);
            assert_eq!(news.expect("in turn"), News::None);
        }
        assert_eq!(shown, [(1, u32::MAX), (2, 7)]);
    }

    #[test]
    fn what_a_host_that_dies_has_reported_is_kept() {
        let (mut gathering, mut shown) = (two(), Vec::new());
        let mut show = |second: &RunSecond| shown.push((second.number, second.counts.sent));
        let second = |number: u32, sent| {
            let mut second = RunSecond {
                number,
                times: Some(Box::default()),
                ..RunSecond::default()
            };
            (second.counts.sent, second.counts.answered) = (sent, sent - 2);
            let times = second.times.as_mut().expect("times");
            (2..sent).for_each(|_| times.latency.record(1_000));
            FromAgent::Second(Box::new(second))
        };
        for host in [0, 1] {
            let ready = FromAgent::Ready { open: 1 };
            gathering
                .on_message(host, ready, &mut show)
                .expect("in turn");
        }
        for (host, message) in [(0, second(1, 10)), (1, second(1, 100)), (1, second(2, 200))] {
            gathering
                .on_message(host, message, &mut show)
                .expect("in turn");
        }
        gathering.on_gone(0, "a: unexpected end of file", &mut show);
        assert!(gathering.is_over(0) && !gathering.all_over());
        let last = gathering.on_message(1, second(3, 300), &mut show);
        last.expect("in turn");
        let mut over = Outcome::default();
        (over.counts.sent, over.counts.answered) = (300, 300);
        over.started_ns = 77;
        let over = FromAgent::Over(Box::new(over));
        gathering.on_message(1, over, &mut show).expect("in turn");
        assert!(gathering.all_over());
        assert_eq!(shown, [(1, 110), (2, 210), (3, 310)]);
        let outcome = gathering.into_outcome();
        assert_eq!((outcome.counts.sent, outcome.counts.answered), (310, 308));
        assert_eq!((outcome.times.latency.count(), outcome.started_ns), (8, 70));
        assert_eq!(
            outcome.failure.as_deref(),
            Some(
                "a: unexpected end of file; of its part of the load the first 1 s are known, at \
                whose end 2 requests waited for an answer"
            )
        );
    }
}
