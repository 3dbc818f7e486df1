//! When arrivals come: an arrival process, mapped through the integral of its mean rate.
//!
//! ```text
//!  seed ─► gaps of mean 1 ─sum─► position ─Profile─► instant
//!                                   └ each worker adds up all, and maps those of its share
//! ```
//!
//! * The schedule is a function of model, rate and seed: workers that share it have the same one
//!   between them, however many they are.
//! * Positions are exact sums of 64 binary places, so no error accumulates: the instant of each
//!   arrival is rounded to the nanosecond by itself.

use std::sync::Arc;

use lineside_time::{Nanoseconds, Random};

use crate::arrivals::Arrivals;
use crate::draw::{Purpose, exponential, seed_for};
use crate::profile::{Cursor, Position, Profile, number, position};
use crate::shape::{Sampler, Shape};

/// The part of a schedule that one of several workers carries out: arrivals whose ordinal is its
/// number, modulo their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    worker: u32,
    workers: u32,
}

impl Share {
    /// The whole schedule.
    pub const ALL: Self = Self {
        worker: 0,
        workers: 1,
    };

    /// That of worker number `worker`, from 0, of this many.
    ///
    /// # Panics
    ///
    /// If there is no such worker.
    pub fn of(worker: u32, workers: u32) -> Self {
        assert!(worker < workers, "worker {worker} of {workers}");
        Self { worker, workers }
    }
}

/// An arrival of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Its number among those of all workers, from 0.
    pub ordinal: u64,
    /// Nanoseconds after the start.
    pub at_ns: Nanoseconds,
}

/// Why a model and a rate are not a schedule.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The model has no rate of its own.
    #[error("arrivals '{model}' need a rate: give one, such as -R 10000")]
    NoRate {
        /// The model's words.
        model: String,
    },
    /// The rate of a model's own is beyond all rates.
    #[error("arrivals '{model}' have a mean rate of {rate} a second: give another with -R")]
    OwnRate {
        /// The model's words.
        model: String,
        /// A second.
        rate: f64,
    },
    /// States of `on-off` would pass by in millions without an arrival.
    #[error(
        "the states of '{model}' pass more than a million times between two arrivals at this rate: \
         lengthen them"
    )]
    StatesTooShort {
        /// The model's words.
        model: String,
    },
}

/// The instants of arrivals, in order. It never blocks, and allocates nothing once it is made.
///
/// The first arrival of `constant` and `file` is at the start; all others have a gap before them.
/// A profile with an end ends the schedule: an arrival at its end is none.
#[derive(Debug, Clone)]
pub struct Schedule {
    gaps: Gaps,
    cursor: Cursor,
    /// Of the latest arrival, of any worker.
    position: Position,
    /// Of the next arrival, of any worker.
    ordinal: u64,
    /// Arrivals of others before the next one of this share, and between two of them.
    left_out: u32,
    between: u32,
}

#[derive(Debug, Clone)]
enum Gaps {
    Constant,
    Independent { sampler: Sampler, random: Random },
    OnOff { states: States, random: Random },
    File { gaps: Arc<[Position]>, next: usize },
}

impl Schedule {
    /// The share of a worker in the schedule of these arrivals, at this rate or at their own.
    pub fn new(
        arrivals: &Arrivals,
        rate: Option<&Profile>,
        seed: u64,
        share: Share,
    ) -> Result<Self, ScheduleError> {
        let profile = profile(arrivals, rate)?;
        let random = Random::new(seed_for(seed, Purpose::Arrivals));
        let gaps = match arrivals {
            Arrivals::Constant => Gaps::Constant,
            Arrivals::OnOff(_) => Gaps::OnOff {
                states: States::new(arrivals, &profile, seed)?,
                random,
            },
            Arrivals::File { gaps, .. } => Gaps::File {
                gaps: gaps.gaps().iter().map(|&gap| position(gap)).collect(),
                next: 0,
            },
            other => Gaps::Independent {
                sampler: Sampler::new(other.shape().unwrap_or(Shape::Exponential)),
                random,
            },
        };
        Ok(Self {
            gaps,
            cursor: profile.cursor(),
            position: 0,
            ordinal: 0,
            left_out: share.worker,
            between: share.workers - 1,
        })
    }

    /// Goes past `count` arrivals and to the next one; `None` at the end.
    #[inline]
    fn go_on(&mut self, count: u32) -> Option<()> {
        match &mut self.gaps {
            Gaps::Constant => {
                self.position = u128::from(self.ordinal + u64::from(count)) << 64;
            }
            Gaps::Independent { sampler, random } => {
                for _ in 0..=count {
                    let gap = position(sampler.draw(random));
                    // Beyond the end of time all is the same.
                    self.position = self.position.saturating_add(gap);
                }
            }
            Gaps::OnOff { states, random } => {
                for _ in 0..=count {
                    self.position = states.next(self.position, random)?;
                }
            }
            Gaps::File { gaps, next } => {
                for _ in 0..=count {
                    // The first arrival is at the start.
                    if *next > 0 {
                        self.position += gaps[*next - 1];
                    }
                    *next = if *next == gaps.len() { 1 } else { *next + 1 };
                }
            }
        }
        self.ordinal += u64::from(count) + 1;
        Some(())
    }
}

impl Iterator for Schedule {
    type Item = Arrival;

    #[inline]
    fn next(&mut self) -> Option<Arrival> {
        self.go_on(self.left_out)?;
        self.left_out = self.between;
        let at_ns = self.cursor.instant(self.position)?;
        Some(Arrival {
            ordinal: self.ordinal - 1,
            at_ns,
        })
    }
}

/// The rate of a schedule: this one, or the model's own.
pub(crate) fn profile(
    arrivals: &Arrivals,
    rate: Option<&Profile>,
) -> Result<Profile, ScheduleError> {
    if let Some(profile) = rate {
        return Ok(profile.clone());
    }
    let model = || arrivals.to_string();
    let rate = { arrivals.own_rate() }.ok_or_else(|| ScheduleError::NoRate { model: model() })?;
    Profile::constant(rate).map_err(|_| ScheduleError::OwnRate {
        model: model(),
        rate,
    })
}

/// The states of an on-off process one after the other: functions of the seed, and of real time
/// whatever the rate is.
#[derive(Debug, Clone)]
pub(crate) struct States {
    /// Rates in units of the mean one, and mean lengths in nanoseconds.
    states: Arc<[(f64, f64)]>,
    index: usize,
    random: Random,
    cursor: Cursor,
    /// Of the current one, by the integral of the mean rate.
    start: Position,
    end: Position,
    end_ns: Nanoseconds,
    /// What has been expected up to `start`, by the states' own rates.
    expected: Position,
}

impl States {
    /// So many states without an arrival are too many: a schedule must not take long over one.
    const PASSES_MAX: f64 = 1e6;

    pub(crate) fn new(
        arrivals: &Arrivals,
        profile: &Profile,
        seed: u64,
    ) -> Result<Self, ScheduleError> {
        let (Arrivals::OnOff(states), Some(mean)) = (arrivals, arrivals.own_rate()) else {
            unreachable!("the caller has looked");
        };
        let cycle_ns: f64 = states.iter().map(|state| state.mean_ns as f64).sum();
        let (pause_ns, least) = profile.extremes();
        if (1e9 / least).max(pause_ns as f64) > Self::PASSES_MAX * cycle_ns {
            return Err(ScheduleError::StatesTooShort {
                model: arrivals.to_string(),
            });
        }
        let relative = states
            .iter()
            .map(|state| (state.rate / mean, state.mean_ns as f64));
        let mut first = Self {
            states: relative.collect(),
            index: 0,
            random: Random::new(seed_for(seed, Purpose::States)),
            cursor: profile.cursor(),
            start: 0,
            end: 0,
            end_ns: 0,
            expected: 0,
        };
        first.last();
        Ok(first)
    }

    /// Draws how long the current state lasts.
    fn last(&mut self) {
        let length_ns = exponential(&mut self.random) * self.states[self.index].1;
        self.start = self.end;
        self.end_ns = self.end_ns.saturating_add(length_ns as i64);
        self.end = self.cursor.position(self.end_ns);
    }

    /// The next state; `false` after the end of the profile or of time.
    fn advance(&mut self) -> bool {
        if self.end_ns == Nanoseconds::MAX || self.cursor.is_after_end(self.end_ns) {
            return false;
        }
        let factor = self.states[self.index].0;
        self.expected += position(factor * number(self.end - self.start));
        self.index = (self.index + 1) % self.states.len();
        self.last();
        true
    }

    /// The position of the arrival after the one at `position`.
    fn next(&mut self, mut at: Position, random: &mut Random) -> Option<Position> {
        let mut needed = exponential(random);
        loop {
            let factor = self.states[self.index].0;
            if factor > 0.0 {
                let next = at + position(needed / factor);
                if next < self.end {
                    return Some(next);
                }
                needed -= number(self.end.saturating_sub(at)) * factor;
                needed = needed.max(0.0);
            }
            if !self.advance() {
                return None;
            }
            at = self.start;
        }
    }

    /// How many arrivals are expected up to an instant, given the states. Instants rise.
    pub(crate) fn expected(&mut self, at_ns: Nanoseconds, cursor: &mut Cursor) -> f64 {
        while self.end_ns <= at_ns && self.advance() {}
        let factor = self.states[self.index].0;
        let within = cursor.position(at_ns).clamp(self.start, self.end) - self.start;
        number(self.expected + position(factor * number(within)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::no_files;

    fn arrivals(text: &str) -> Arrivals {
        Arrivals::parse(text, &mut no_files).expect(text)
    }

    fn schedule(model: &str, rate: &str, share: Share) -> Schedule {
        let profile = (!rate.is_empty()).then(|| rate.parse::<Profile>().expect(rate));
        Schedule::new(&arrivals(model), profile.as_ref(), 7, share).expect(model)
    }

    fn file(text: &str) -> Arrivals {
        Arrivals::parse("file x", &mut |_| Ok(text.to_owned())).expect(text)
    }

    const MODELS: [&str; 11] = [
        "constant",
        "poisson",
        "uniform",
        "uniform 50us..150us",
        "gamma cv 0.5",
        "gamma cv 2",
        "weibull shape 0.7",
        "lognormal cv 1.5",
        "pareto alpha 2.5",
        "on-off 20000 for 10ms, 0 for 30ms",
        "on-off 2000 for 1ms, 5000 for 2ms, 80000 for 500us",
    ];

    #[test]
    fn workers_share_one_schedule_between_them() {
        for model in MODELS {
            for rate in [
                "10000",
                "1000 for 500ms, 0 for 100ms, 1000 to 5000 in 1s, 9000",
            ] {
                let whole: Vec<_> = schedule(model, rate, Share::ALL).take(6000).collect();
                for workers in [2, 3] {
                    let mut shared: Vec<_> = (0..workers)
                        .flat_map(|worker| {
                            schedule(model, rate, Share::of(worker, workers)).take(2000)
                        })
                        .collect();
                    shared.sort_unstable_by_key(|arrival| arrival.ordinal);
                    let count = 2000 * workers as usize;
                    assert_eq!(
                        shared,
                        whole[..count],
                        "{model} at {rate}, {workers} workers"
                    );
                }
                let ordinals = whole.iter().map(|arrival| arrival.ordinal);
                assert!(ordinals.eq(0..6000));
                assert!(whole.is_sorted_by_key(|arrival| arrival.at_ns), "{model}");
            }
        }
    }

    #[test]
    fn the_mean_rate_is_the_one_asked_for() {
        for model in MODELS {
            for (rate, per_second) in [("10000", 1e4), ("0.5", 0.5), ("600/min", 10.0)] {
                // With states in real time, a low rate needs many years: 10,000 only.
                if model.starts_with("on-off") && per_second < 1e4 {
                    continue;
                }
                let last = schedule(model, rate, Share::ALL).nth(199_999).expect("one");
                let achieved = 2e5 * 1e9 / last.at_ns as f64;
                let error = (achieved / per_second - 1.0).abs();
                let allowed = if model.starts_with("on-off 20000") {
                    0.1
                } else {
                    0.02
                };
                assert!(error < allowed, "{model} at {rate}: {achieved}");
            }
        }
    }

    #[test]
    fn constant_arrivals_do_not_drift() {
        let mut schedule = schedule("constant", "3", Share::of(1, 2));
        for k in [1_i64, 3, 5] {
            let expected = Arrival {
                ordinal: k as u64,
                at_ns: (k * 1_000_000_000 + 1) / 3,
            };
            assert_eq!(schedule.next(), Some(expected));
        }
        let hour = schedule.nth(5397).expect("one");
        assert_eq!((hour.ordinal, hour.at_ns), (10_801, 3_600_333_333_333));
    }

    #[test]
    fn a_profile_with_an_end_ends_the_schedule() {
        let count = |rate: &str| schedule("constant", rate, Share::ALL).count();
        assert_eq!(count("1000 for 10s, 5000 for 20s"), 110_000);
        assert_eq!(count("0 to 1000 in 10s"), 5_000);
        let mut poisson = schedule("poisson", "1000 for 10s", Share::ALL);
        let count = poisson.by_ref().count();
        assert!((9_700..10_300).contains(&count), "{count}");
        assert_eq!((poisson.next(), poisson.next()), (None, None));
        let mut on_off = schedule("on-off 9 for 1ms, 0 for 9ms", "1000 for 10s", Share::ALL);
        let count = on_off.by_ref().count();
        assert!((8_000..12_000).contains(&count), "{count}");
        assert_eq!((on_off.next(), on_off.next()), (None, None));
    }

    #[test]
    fn nothing_arrives_while_a_state_is_off() {
        let arrivals = arrivals("on-off 0 for 5ms, 20000 for 5ms");
        let schedule = Schedule::new(&arrivals, None, 3, Share::ALL).expect("its own rate");
        let profile = profile(&arrivals, None).expect("its own rate");
        let mut states = States::new(&arrivals, &profile, 3).expect("states");
        let (mut in_off, mut length_ns) = (0, [0, 0]);
        let mut start_ns = 0;
        for arrival in schedule.take(20_000) {
            while states.end_ns < arrival.at_ns {
                length_ns[states.index] += states.end_ns - start_ns;
                start_ns = states.end_ns;
                assert!(states.advance());
            }
            in_off += usize::from(states.index == 0);
        }
        assert_eq!(in_off, 0);
        let share = length_ns[0] as f64 / (length_ns[0] + length_ns[1]) as f64;
        assert!((0.4..0.6).contains(&share), "{share}");
    }

    #[test]
    fn files_are_repeated_with_their_own_instants() {
        let gaps = file("instants in us\n5.5\n8.5\n9\n19");
        let schedule = Schedule::new(&gaps, None, 7, Share::ALL).expect("its own rate");
        let at: Vec<_> = schedule.take(8).map(|arrival| arrival.at_ns).collect();
        assert_eq!(
            at,
            [0, 3_000, 3_500, 13_500, 16_500, 17_000, 27_000, 30_000]
        );
        // At a rate of its own, stretched.
        let profile = "1000".parse().expect("a rate");
        let schedule = Schedule::new(&gaps, Some(&profile), 7, Share::of(0, 3)).expect("a rate");
        let at: Vec<_> = schedule.take(3).map(|arrival| arrival.at_ns).collect();
        assert_eq!(at, [0, 3_000_000, 6_000_000]);
    }

    #[test]
    fn what_is_no_schedule_says_the_way_out() {
        let error = |arrivals: &Arrivals, rate: Option<&str>| {
            let profile = rate.map(|rate| rate.parse::<Profile>().expect(rate));
            let schedule = Schedule::new(arrivals, profile.as_ref(), 7, Share::ALL);
            schedule.expect_err("refused").to_string()
        };
        assert!(error(&arrivals("poisson"), None).ends_with("such as -R 10000"));
        assert!(error(&file("gaps in ns\n0.5"), None).ends_with("give another with -R"));
        let states = arrivals("on-off 20000 for 1us, 0 for 1us");
        assert!(error(&states, Some("0.001")).ends_with("lengthen them"));
        assert!(error(&states, Some("5 for 1s, 0 for 1h, 5")).ends_with("lengthen them"));
    }
}
