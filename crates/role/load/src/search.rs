//! The search for the highest rate that passes: trials at rates of its choice, judged by the
//! caller.
//!
//! ```text
//!  first ─ passes ─► double … fails ─► halve the interval until it is narrow ─► the same rate once
//!        └ fails ──► halve  … passes ─┘                        more; fails: a step lower, again
//! ```
//!
//! RFC 2544, section 26.1, asks for the highest rate at which no frame is lost, and leaves the way
//! open; RFC 9411, section 7, judges HTTP by its own figures. A second trial
//! detects a rate that passed once by luck.

use lineside_host::{RunClock, StealCounts};
use lineside_trace::certificate::load::Limits;
use lineside_words::{grouped, percent, time};

use crate::certificate::{Certificate, Machine};
use crate::outcome::Outcome;
use crate::prepared::Prepared;
use crate::run::{LoadError, Observer};

/// What a search is to find.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchPlan {
    /// The first trial's rate.
    pub first: f64,
    /// No trial is beyond these rates.
    pub bounds: (f64, f64),
    /// The interval is narrow when its width is this share of its upper end.
    pub resolution: f64,
    /// Trials at most.
    pub trials_max: u32,
}

impl Default for SearchPlan {
    fn default() -> Self {
        Self {
            first: 1_000.0,
            bounds: (1.0, 10_000_000.0),
            // A tenth of the 1 % to which a result shall hold.
            resolution: 0.001,
            trials_max: 64,
        }
    }
}

/// Where a search stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Found {
    /// The next trial is at this rate.
    Try(f64),
    /// This rate passed, twice, and one that is a resolution higher failed, or is out of bounds.
    Rate(f64),
    /// Not even the lowest rate passed.
    Nothing,
    /// There were too many trials; this rate was the highest that passed, once.
    Unsure(Option<f64>),
}

/// A search for the highest rate that passes.
#[derive(Debug, Clone)]
pub struct Search {
    plan: SearchPlan,
    /// The highest rate that passed, and the lowest that failed.
    passed: Option<f64>,
    failed: Option<f64>,
    rate: f64,
    /// The rate at hand is the one that was found: it is tried once more.
    confirms: bool,
    /// Rates that passed once and then failed.
    doubts: u32,
    found: Option<Found>,
    trials: u32,
}

impl Search {
    /// A search without trials so far.
    pub fn new(plan: SearchPlan) -> Self {
        let (least, most) = plan.bounds;
        Self {
            rate: plan.first.clamp(least, most),
            plan,
            passed: None,
            failed: None,
            confirms: false,
            doubts: 0,
            found: None,
            trials: 0,
        }
    }

    /// Trials so far.
    pub fn trials(&self) -> u32 {
        self.trials
    }

    /// Whether the next trial confirms what was found: a longer one shows more.
    pub fn confirms(&self) -> bool {
        self.confirms
    }

    /// Where it stands.
    pub fn next(&self) -> Found {
        self.found.unwrap_or(Found::Try(self.rate))
    }

    /// The trial at the rate that [`next`](Self::next) gave is over.
    pub fn report(&mut self, passes: bool) {
        if self.found.is_some() {
            return;
        }
        self.trials += 1;
        let (least, most) = self.plan.bounds;
        match passes {
            true if self.confirms => return self.end(Found::Rate(self.rate)),
            true => self.passed = Some(self.rate),
            false => {
                self.failed = Some(self.rate);
                // A rate that passed once and failed now is none, and what lies close to it may
                // have passed by the same luck.
                if self.passed.is_some_and(|passed| passed >= self.rate) {
                    self.passed = None;
                    self.doubts += 1;
                }
            }
        }
        if !passes && self.rate <= least {
            return self.end(Found::Nothing);
        }
        if self.trials >= self.plan.trials_max {
            return self.end(Found::Unsure(self.passed));
        }
        self.confirms = false;
        self.rate = match (self.passed, self.failed) {
            (Some(passed), None) if passed >= most => return self.confirm(passed),
            (Some(passed), None) => (passed * 2.0).min(most),
            (None, Some(failed)) => {
                let step = match self.doubts {
                    0 => 0.5,
                    doubts => (self.plan.resolution * f64::from(1 << doubts.min(9))).min(0.5),
                };
                (failed * (1.0 - step)).max(least)
            }
            (Some(passed), Some(failed)) => {
                if failed - passed <= self.plan.resolution * failed * 1.000_001 {
                    return self.confirm(passed);
                }
                f64::midpoint(passed, failed)
            }
            (None, None) => self.rate,
        };
    }

    fn confirm(&mut self, rate: f64) {
        (self.rate, self.confirms) = (rate, true);
    }

    fn end(&mut self, found: Found) {
        self.found = Some(found);
    }
}

/// The last answer of a trial may come so much later than its schedule ends, as a share of it and
/// beyond two of the shortest latencies: half of the 1 % to which a rate shall be found.
const BEHIND_MAX: f64 = 0.005;

/// A trial and what came of it.
pub struct Trial {
    /// The certificate of its run.
    pub certificate: Certificate,
    /// Why it does not pass.
    pub why: Option<String>,
}

impl Prepared {
    /// Makes the load as a trial; `fails` says what else it does not keep to.
    ///
    /// A trial passes if every request was sent and answered with success, the rate was not missed,
    /// and nothing else fails: RFC 2544, section 26.1, for loss; RFC 9411, section 7, for the
    /// answers.
    pub fn trial(
        &self,
        clock: RunClock,
        observer: &mut dyn Observer,
        limits: Limits,
        fails: impl FnOnce(&Certificate, &Outcome) -> Option<String>,
    ) -> Result<Trial, LoadError> {
        let steal = StealCounts::read();
        let outcome = self.run(None, clock, observer)?;
        let machine = Machine {
            steal_share: StealCounts::share_since(steal),
        };
        let certificate = self.certificate(&outcome, false, machine, limits, Vec::new());
        let span_ns = self.settings.timing.duration_ns.unwrap_or_default();
        let why = why_not(&certificate, &outcome, span_ns, limits);
        let why = why.or_else(|| fails(&certificate, &outcome));
        Ok(Trial { certificate, why })
    }
}

/// Why a trial of `span_ns` does not pass, whatever it was asked to keep to.
fn why_not(
    certificate: &Certificate,
    outcome: &Outcome,
    span_ns: i64,
    limits: Limits,
) -> Option<String> {
    let counts = &outcome.counts;
    let missed = certificate.rates.missed_share.unwrap_or(0.0);
    // A queue hides for a while that a rate is too high: its answers come behind the schedule.
    let span_ns = span_ns as f64;
    let least_ns = outcome.times.latency.min_ns().unwrap_or(0) as f64;
    let behind_ns = outcome.wall_ns as f64 - span_ns - 2.0 * least_ns;
    if counts.unsent.iter().sum::<u64>() > 0 {
        Some("requests found no connection".to_owned())
    } else if counts.succeeded < counts.planned {
        let lost = counts.planned - counts.succeeded;
        Some(format!("{} without a good answer", grouped(lost)))
    } else if missed > limits.rate_missed {
        Some(format!("{} of the rate missed", percent(missed)))
    } else if behind_ns > span_ns * BEHIND_MAX {
        let behind = time(behind_ns as u64);
        Some(format!("the last answer came {behind} behind the schedule"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use lineside_time::Random;

    use super::*;

    /// Runs a search against a device that passes up to `capacity`, and now and then says so of a
    /// rate that it does not bear.
    fn search(capacity: f64, luck: f64, seed: u64) -> (Found, u32) {
        let mut random = Random::new(seed);
        let mut search = Search::new(SearchPlan::default());
        loop {
            match search.next() {
                Found::Try(rate) => search.report(rate <= capacity || random.chance(luck)),
                found => return (found, search.trials()),
            }
        }
    }

    #[test]
    fn the_highest_rate_is_found_within_the_resolution() {
        let mut random = Random::new(1);
        for seed in 0..200 {
            let capacity = 1.0 + random.below(5_000_000) as f64;
            let (found, trials) = search(capacity, 0.0, seed);
            let Found::Rate(rate) = found else {
                panic!("{capacity}: {found:?}");
            };
            assert!(
                rate <= capacity && rate >= capacity * 0.998,
                "{rate} of {capacity}"
            );
            assert!(trials <= 40, "{trials}");
        }
    }

    #[test]
    fn a_rate_that_passed_by_luck_is_tried_again() {
        let (mut wrong, mut unsure) = (0, 0);
        for seed in 0..200 {
            let (found, _) = search(50_000.0, 0.05, seed);
            match found {
                Found::Rate(rate) => wrong += u32::from(rate > 50_000.0 * 1.01),
                Found::Unsure(_) => unsure += 1,
                found => panic!("{found:?}"),
            }
        }
        // Luck must come twice for a wrong rate, and again and again for none.
        assert!(
            wrong <= 6 && unsure <= 24,
            "{wrong} wrong, {unsure} unsure of 200"
        );
    }

    #[test]
    fn bounds_hold() {
        let mut none = Search::new(SearchPlan::default());
        while let Found::Try(rate) = none.next() {
            assert!(rate >= 1.0);
            none.report(false);
        }
        assert_eq!(none.next(), Found::Nothing);
        let (found, _) = search(f64::MAX, 0.0, 1);
        assert_eq!(found, Found::Rate(SearchPlan::default().bounds.1));
    }
}
