//! The search for the highest rate that passes: trials at rates of its choice, judged by the
//! caller.
//!
//! ```text
//!  first ─ passes ─► double … fails ─┐
//!        └ fails ──► lower  … passes ─┴► belief ─► its median is tried ─► narrow enough: an interval
//!                                           ▲              │
//!                                           └──────────────┘
//! ```
//!
//! RFC 2544, section 26.1, asks for the highest rate at which no frame is lost, and leaves the way
//! open; RFC 9411, section 7, judges HTTP by its own figures. Trials of a busy machine contradict
//! each other near the limit, so that halving an interval ends wherever luck leads. A belief holds
//! how likely each rate is the limit, given all trials and three levels of noise at once
//! (probabilistic bisection; Waeber, Frazier, Henderson, 2013): where trials agree it narrows fast,
//! and where they do not it takes as many as it needs.

use lineside_host::{RunClock, StealCounts};
use lineside_trace::certificate::load::Limits;
use lineside_words::{grouped, percent, time};

use crate::certificate::{Certificate, Machine};
use crate::error::LoadError;
use crate::outcome::{Observer, Outcome};
use crate::prepared::Prepared;

/// What a search is to find.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchPlan {
    /// The first trial's rate.
    pub first: f64,
    /// No trial is beyond these rates.
    pub bounds: (f64, f64),
    /// The interval is narrow when its width is this share of its upper end.
    pub precision: f64,
    /// Trials at most.
    pub trials_max: u32,
}

impl Default for SearchPlan {
    fn default() -> Self {
        Self {
            first: 1_000.0,
            bounds: (1.0, 10_000_000.0),
            precision: 0.01,
            trials_max: 64,
        }
    }
}

/// Where a search stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Found {
    /// The next trial is at this rate.
    Try(f64),
    /// The limit lies in this interval.
    Limit(Limit),
    /// The greatest rate of all passes.
    All(f64),
    /// Not even the lowest rate passes.
    Nothing(f64),
}

/// Between which rates the limit lies, and the trials behind that.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Limit {
    /// It is as likely above this rate as below it.
    pub rate: f64,
    /// With 95 %, it is not below this rate.
    pub low: f64,
    /// Nor above this one.
    pub high: f64,
    /// Whether the interval is as narrow as was asked for.
    pub is_narrow: bool,
    /// Trials within three times the precision around the rate and below it, and how many passed.
    pub below: Tally,
    /// The same above it.
    pub above: Tally,
}

/// Trials, and those of them that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Tally {
    /// All of them.
    pub trials: u32,
    /// Of these, such that passed.
    pub passed: u32,
}

/// A search for the highest rate that passes.
#[derive(Debug, Clone)]
pub struct Search {
    plan: SearchPlan,
    /// The rates that were tried, and whether they passed.
    tried: Vec<(f64, bool)>,
    /// What the server answered in the lowest trial that failed by being too much for it.
    capacity: Option<(f64, f64)>,
    next: Found,
    /// The interval by the trials so far is close to narrow.
    is_close: bool,
}

/// How likely each rate is the limit, in a few figures.
struct Belief {
    low: f64,
    median: f64,
    high: f64,
}

/// Levels of noise: how likely a trial far from the limit comes out wrong, over which share around
/// the limit a trial may come out either way, and how likely the level is before the first trial.
const NOISE: [(f64, f64, f64); 3] = [(0.01, 0.001, 0.5), (0.04, 0.004, 0.3), (0.12, 0.015, 0.2)];
/// Steps of a belief in the precision.
const STEPS: f64 = 5.0;
/// Trials that must have passed and failed beside the limit.
const TRIALS_MIN: u32 = 2;

impl Search {
    /// A search without trials so far.
    pub fn new(plan: SearchPlan) -> Self {
        let (least, most) = plan.bounds;
        Self {
            plan,
            tried: Vec::new(),
            capacity: None,
            next: Found::Try(plan.first.clamp(least, most)),
            is_close: false,
        }
    }

    /// Trials so far.
    pub fn trials(&self) -> u32 {
        self.tried.len() as u32
    }

    /// Whether the next trial is close to the limit: a longer one shows more.
    pub fn is_close(&self) -> bool {
        self.is_close
    }

    /// Where it stands.
    pub fn next(&self) -> Found {
        self.next
    }

    /// The trial at the rate that [`next`](Self::next) gave is over. `capacity` is how much the
    /// server answered in one that failed because it was too much.
    pub fn report(&mut self, passes: bool, capacity: Option<f64>) {
        let Found::Try(rate) = self.next else {
            return;
        };
        self.tried.push((rate, passes));
        let lowest = self.capacity.map_or(f64::MAX, |(rate, _)| rate);
        if let Some(capacity) = capacity.filter(|_| !passes && rate < lowest) {
            self.capacity = Some((rate, capacity));
        }
        self.next = self.after(rate);
    }

    fn after(&mut self, rate: f64) -> Found {
        let (least, most) = self.plan.bounds;
        let count = |of: bool| {
            self.tried
                .iter()
                .filter(|(_, passed)| *passed == of)
                .count()
        };
        match (count(true), count(false)) {
            (_, 0) if rate >= most && self.times_at(rate) >= TRIALS_MIN => Found::All(rate),
            (_, 0) => Found::Try((rate * 2.0).min(most)),
            (0, _) if rate <= least && self.times_at(rate) >= TRIALS_MIN => Found::Nothing(rate),
            (0, _) => {
                let halved = rate * 0.5;
                let answered = self.capacity.map(|(_, capacity)| capacity * 0.98);
                let next = answered.filter(|next| (least..halved * 1.9).contains(next));
                Found::Try(next.unwrap_or(halved).max(least))
            }
            _ => self.by_belief(),
        }
    }

    fn times_at(&self, rate: f64) -> u32 {
        self.tried.iter().filter(|(at, _)| *at == rate).count() as u32
    }

    fn by_belief(&mut self) -> Found {
        let Belief { low, median, high } = self.belief();
        let precision = self.plan.precision;
        let width = (high - low) / high;
        self.is_close = width <= 4.0 * precision;
        let beside = |from: f64, to: f64| {
            let there = self.tried.iter().filter(|(at, _)| (from..=to).contains(at));
            let passed = there.clone().filter(|(_, passed)| *passed);
            Tally {
                trials: there.count() as u32,
                passed: passed.count() as u32,
            }
        };
        let below = beside(median * (1.0 - 3.0 * precision), median);
        let above = beside(median, median * (1.0 + 3.0 * precision));
        let is_narrow = width <= precision;
        let limit = Limit {
            rate: median,
            low,
            high,
            is_narrow,
            below,
            above,
        };
        if self.trials() >= self.plan.trials_max {
            return Found::Limit(limit);
        }
        match is_narrow {
            false => Found::Try(median),
            true if below.passed < TRIALS_MIN => Found::Try(low),
            true if above.trials - above.passed < TRIALS_MIN => Found::Try(high),
            true => Found::Limit(limit),
        }
    }

    /// How likely each rate is the limit, by all trials, over all levels of noise.
    fn belief(&self) -> Belief {
        let (least, most) = self.plan.bounds;
        let rates = |of: bool| {
            let tried = self.tried.iter().filter(move |(_, passed)| *passed == of);
            tried.map(|(rate, _)| *rate)
        };
        let failed = rates(false).fold(f64::MAX, f64::min);
        let passed = rates(true).fold(0.0, f64::max);
        let from = (failed.min(passed) / 4.0).max(least).ln();
        let to = (failed.max(passed) * 2.0).min(most).ln();
        let step = self.plan.precision / STEPS;
        let count = ((to - from) / step).ceil().max(1.0) as usize;
        let at = |place: usize| from + (place as f64 + 0.5) * step;
        let tried = self.tried.iter();
        let tried: Vec<(f64, bool)> = tried.map(|&(rate, passed)| (rate.ln(), passed)).collect();
        let mut weights = vec![0.0; count];
        for (wrong, width, prior) in NOISE {
            for (place, weight) in weights.iter_mut().enumerate() {
                let limit = at(place);
                *weight += prior * likelihood(&tried, limit, wrong, width);
            }
        }
        if let Some((_, capacity)) = self.capacity {
            for (place, weight) in weights.iter_mut().enumerate() {
                // What it answered when it had too much is the limit, or something else is.
                let apart = (at(place) - capacity.ln()) / 0.02;
                *weight *= 1.0 + 15.0 * (-0.5 * apart * apart).exp();
            }
        }
        let sum: f64 = weights.iter().sum();
        let quantile = |share: f64| {
            let mut left = share * sum;
            let mut place = 0;
            while place + 1 < count && left > weights[place] {
                left -= weights[place];
                place += 1;
            }
            let part = (left / weights[place].max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
            (from + (place as f64 + part) * step).exp()
        };
        Belief {
            low: quantile(0.025),
            median: quantile(0.5),
            high: quantile(0.975),
        }
    }
}

/// How likely trials at these rates come out as they did at a level of noise, all in logarithms.
fn likelihood(tried: &[(f64, bool)], limit: f64, wrong: f64, width: f64) -> f64 {
    let of = |&(rate, passed): &(f64, bool)| {
        let passes = 1.0 / (1.0 + (-1.7 * (limit - rate) / width).exp());
        let passes = wrong + (1.0 - 2.0 * wrong) * passes;
        if passed { passes } else { 1.0 - passes }
    };
    tried.iter().map(of).product()
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
    /// The rate was too much: how much was answered with success a second.
    pub capacity: Option<f64>,
    /// How much was answered with success a second.
    pub answered: f64,
    /// It failed, and requests waited for connections.
    pub lacks_connections: bool,
    /// It failed by no more than what the generator lost while it stood still: it says nothing.
    pub is_void: bool,
}

/// How many connections a search uses: as many as help.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Connections {
    /// As of now.
    pub count: u32,
    /// What was answered a second with half of them, when they were doubled.
    before: Option<f64>,
}

impl Connections {
    /// A search has no more of them, whatever fits.
    pub const MAX: u32 = 16_384;
    /// More connections help if they bring so much more.
    const HELPS: f64 = 1.05;

    /// Those that were asked for.
    pub fn new(count: u32) -> Self {
        Self {
            count,
            before: None,
        }
    }

    /// A trial is over. True: it failed for want of connections, there are more now, no more than
    /// `fit`, and its rate is to be tried again.
    pub fn raise_after(&mut self, trial: &Trial, fit: u32) -> bool {
        trial.why.is_some() && trial.lacks_connections && self.raise(trial.answered, fit)
    }

    /// A trial failed for want of connections, and `answered` so many requests a second. True:
    /// there are more now, no more than `fit`, and the rate is to be tried again.
    fn raise(&mut self, answered: f64, fit: u32) -> bool {
        if self
            .before
            .is_some_and(|before| answered <= before * Self::HELPS)
        {
            return false;
        }
        if self.count > fit.min(Self::MAX) / 2 {
            return false;
        }
        self.before = Some(answered);
        self.count *= 2;
        true
    }
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
        let outcome = whole(self.run(None, clock, observer)?)?;
        let machine = Machine {
            steal_share: StealCounts::share_since(steal),
        };
        let certificate = self.certificate(&outcome, false, machine, limits, Vec::new());
        let span_ns = self.settings.timing.duration_ns.unwrap_or_default();
        let too_much = why_not(&certificate, &outcome, span_ns, limits);
        let succeeded = outcome.counts.succeeded as f64 / certificate.duration_s.max(1e-9);
        let capacity = too_much.is_some().then_some(succeeded);
        let why = too_much.or_else(|| fails(&certificate, &outcome));
        let waited = outcome.counts.waited as f64 > limits.waited * outcome.counts.planned as f64;
        let lacks = waited || outcome.counts.unsent.iter().sum::<u64>() > 0;
        let stalled = certificate.generator.stalled_ns as f64
            / f64::from(self.settings.workers.max(1))
            / span_ns.max(1) as f64;
        let offered = outcome.counts.planned as f64 / (span_ns.max(1) as f64 / 1e9);
        let is_near = succeeded >= offered * (1.0 - 2.0 * stalled - VOID_MIN);
        Ok(Trial {
            capacity,
            answered: succeeded,
            lacks_connections: why.is_some() && lacks && !self.asked.is_of_connections(),
            is_void: why.is_some() && stalled > VOID_MIN && is_near,
            certificate,
            why,
        })
    }
}

/// A load whose loop failed on the way, as when its interface goes, says nothing of a rate.
fn whole(mut outcome: Outcome) -> Result<Outcome, LoadError> {
    match outcome.failure.take() {
        Some(why) => Err(LoadError::CutShort(why)),
        None => Ok(outcome),
    }
}

/// A generator that stood still for this share of a trial may have made it fail: half of what the
/// last answer may come behind.
const VOID_MIN: f64 = BEHIND_MAX / 2.0;

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

    /// A device that bears up to `capacity`, in a world where trials come out wrong now and then,
    /// and where near the limit luck decides.
    struct Device {
        capacity: f64,
        wrong: f64,
        width: f64,
        /// What it answers in a trial that is too much is wrong by up to this share.
        blur: f64,
        random: Random,
    }

    impl Device {
        fn try_at(&mut self, rate: f64) -> (bool, Option<f64>) {
            let blur = |random: &mut Random| random.below(2_001) as f64 / 1_000.0 - 1.0;
            let limit = self.capacity * (1.0 + self.width * blur(&mut self.random));
            let passes = (rate <= limit) != self.random.chance(self.wrong);
            let answered = self.capacity * (1.0 + self.blur * blur(&mut self.random));
            let is_too_much = rate > self.capacity;
            (passes, (!passes && is_too_much).then_some(answered))
        }

        fn search(&mut self, plan: SearchPlan) -> (Found, u32) {
            let mut search = Search::new(plan);
            loop {
                match search.next() {
                    Found::Try(rate) => {
                        let (passes, capacity) = self.try_at(rate);
                        search.report(passes, capacity);
                    }
                    found => return (found, search.trials()),
                }
            }
        }
    }

    /// Trials in the mean, and the share of searches that ended more than 2 % from the limit.
    fn searches(wrong: f64, width: f64, blur: f64) -> (f64, f64) {
        const SEARCHES: u32 = 60;
        let (mut trials, mut far) = (0, 0);
        for seed in 0..SEARCHES {
            let mut random = Random::new(seed.into());
            let capacity = 100.0 * 1_000f64.powf(random.below(1_000) as f64 / 1_000.0);
            let mut device = Device {
                capacity,
                wrong,
                width,
                blur,
                random,
            };
            let (found, tried) = device.search(SearchPlan::default());
            let Found::Limit(limit) = found else {
                panic!("{seed}: {found:?}");
            };
            trials += tried;
            far += u32::from((limit.rate / capacity - 1.0).abs() > 0.02);
            assert!(
                limit.low <= limit.rate && limit.rate <= limit.high,
                "{limit:?}"
            );
        }
        (
            f64::from(trials) / f64::from(SEARCHES),
            f64::from(far) / f64::from(SEARCHES),
        )
    }

    #[test]
    fn a_known_limit_is_found_within_two_percent() {
        // Idle, and a server that answers less, or more, when it has too much.
        for (blur, most) in [(0.01, 20.0), (0.2, 22.0)] {
            let (trials, far) = searches(0.0, 0.002, blur);
            assert!(trials <= most && far == 0.0, "{trials} trials, {far}");
        }
    }

    #[test]
    fn noise_costs_trials_and_not_the_truth() {
        let (trials, far) = searches(0.05, 0.01, 0.03);
        assert!(trials <= 45.0 && far <= 0.03, "{trials} trials, {far}");
    }

    /// An interval is a claim: it holds the limit in 95 of 100 searches.
    #[test]
    fn the_interval_holds_the_limit() {
        let (mut held, mut narrow) = (0, 0);
        for seed in 0..60 {
            let mut device = Device {
                capacity: 12_345.0,
                wrong: 0.02,
                width: 0.003,
                blur: 0.02,
                random: Random::new(seed),
            };
            let (Found::Limit(limit), _) = device.search(SearchPlan::default()) else {
                panic!("{seed}");
            };
            narrow += u32::from(limit.is_narrow);
            let is_held = (limit.low * 0.997..limit.high * 1.003).contains(&12_345.0);
            held += u32::from(is_held);
        }
        assert!(
            held >= 55 && narrow >= 55,
            "{held} held, {narrow} narrow of 60"
        );
    }

    /// A server that takes 100 ms for each request, as many at once as there are connections.
    #[test]
    fn connections_are_raised_as_long_as_that_helps() {
        let capacity = 7_000.0_f64;
        let mut connections = Connections::new(50);
        let mut search = Search::new(SearchPlan::default());
        let mut trials = 0;
        let found = loop {
            let Found::Try(rate) = search.next() else {
                break search.next();
            };
            trials += 1;
            let most = capacity.min(f64::from(connections.count) / 0.1);
            let passes = rate <= most;
            if !passes && connections.raise(most, Connections::MAX) {
                continue;
            }
            search.report(passes, (!passes).then_some(most));
        };
        let Found::Limit(limit) = found else {
            panic!("{found:?}");
        };
        assert!((limit.rate / capacity - 1.0).abs() < 0.01, "{limit:?}");
        assert!(
            (800..=1_600).contains(&connections.count),
            "{connections:?}"
        );
        assert!(trials <= 28, "{trials}");
    }

    /// A trial that lacked connections, and failed by an assertion alone.
    fn lacking(answered: f64) -> Trial {
        Trial {
            certificate: Certificate::default(),
            why: Some("p99 < 1ms".to_owned()),
            capacity: None,
            answered,
            lacks_connections: true,
            is_void: false,
        }
    }

    #[test]
    fn a_failed_assertion_raises_connections_as_well() {
        let mut connections = Connections::new(50);
        assert!(connections.raise_after(&lacking(500.0), Connections::MAX));
        assert!(connections.raise_after(&lacking(900.0), Connections::MAX));
        assert_eq!(connections.count, 200);
        assert!(!connections.raise_after(&lacking(905.0), Connections::MAX));
        let passed = Trial {
            why: None,
            ..lacking(9_000.0)
        };
        assert!(!connections.raise_after(&passed, Connections::MAX));
    }

    #[test]
    fn there_are_no_more_connections_than_fit() {
        let mut connections = Connections::new(50);
        assert!(connections.raise_after(&lacking(500.0), 199));
        assert!(!connections.raise_after(&lacking(1_000.0), 199));
        assert_eq!(connections.count, 100);
        assert!(connections.raise_after(&lacking(1_000.0), 200));
    }

    #[test]
    fn a_trial_that_was_cut_short_is_an_error() {
        let cut = Outcome {
            failure: Some("lo went".to_owned()),
            ..Outcome::default()
        };
        let error = whole(cut).map(drop).expect_err("it is not whole");
        assert!(!error.is_usage());
        assert_eq!(error.to_string(), "lo went");
        assert!(whole(Outcome::default()).is_ok());
    }

    #[test]
    fn bounds_hold() {
        let search = |capacity: f64| {
            let mut device = Device {
                capacity,
                wrong: 0.0,
                width: 0.0,
                blur: 0.0,
                random: Random::new(1),
            };
            device.search(SearchPlan::default()).0
        };
        assert_eq!(search(0.1), Found::Nothing(1.0));
        assert_eq!(search(f64::MAX), Found::All(SearchPlan::default().bounds.1));
    }
}
