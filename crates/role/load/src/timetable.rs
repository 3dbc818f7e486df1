//! When the requests of a load leave: rate, arrivals, times to think, from words.

use lineside_words::WordError;
use lineside_workload::{Arrivals, Fit, Fitness, Profile, Schedule, Share, Sizes, Unit};

use crate::certificate::Planned;
use crate::client::{Pace, Thinking};
use crate::outcome::Outcome;
use crate::words::{UsageError, read_file};

/// So many arrivals of a schedule are counted one by one; beyond, the integral of the rate is as
/// near to it as the limit needs.
const COUNTED_MAX: u64 = 20_000_000;

/// The words of a timetable, as flags have them.
#[derive(Debug, Clone, Copy, Default)]
pub struct PaceWords<'a> {
    /// The rate, in steps and ramps.
    pub rate: Option<&'a str>,
    /// The model of arrivals.
    pub arrivals: Option<&'a str>,
    /// What arrives.
    pub arrivals_of: Option<&'a str>,
    /// Times to think.
    pub think: Option<&'a str>,
}

/// When requests leave.
#[derive(Debug, Clone)]
pub enum Timetable {
    /// After the answer before, and a time to think.
    Closed(Option<Sizes>),
    /// At instants of their own.
    Open {
        arrivals: Arrivals,
        profile: Option<Profile>,
    },
}

impl Timetable {
    /// Reads the words of `--rate`, `--arrivals` and `--think`.
    pub fn read(words: PaceWords<'_>) -> Result<Self, UsageError> {
        let wrong = |flag: &str, error: &WordError| UsageError(format!("{flag}: {error}"));
        let profile = words.rate.map(str::parse::<Profile>).transpose();
        let profile = profile.map_err(|error| wrong("-R", &error))?;
        let arrivals = { words.arrivals }
            .map(|words| Arrivals::parse(words, &mut read_file))
            .transpose();
        let arrivals = arrivals.map_err(|error| wrong("--arrivals", &error))?;
        if profile.is_none() && arrivals.is_none() {
            if words.arrivals_of.is_some() {
                return Err(UsageError::new(
                    "--arrivals-of says what arrives at a rate, and there is none: give one with \
                     -R, or leave it out",
                ));
            }
            let read = |words| Sizes::parse("think", words, Unit::Time, &mut read_file);
            let think = words.think.map(read).transpose();
            return think
                .map(Self::Closed)
                .map_err(|error| wrong("--think", &error));
        }
        if words.think.is_some() {
            return Err(UsageError::new(
                "--think is for connections that wait for their answers, and with a rate (-R, \
                 --arrivals) requests do not: leave out one of them",
            ));
        }
        let arrivals = arrivals.unwrap_or(Arrivals::Constant);
        let checked = Schedule::new(&arrivals, profile.as_ref(), 0, Share::ALL);
        checked.map_err(UsageError::of)?;
        Ok(Self::Open { arrivals, profile })
    }

    /// Changes the rate of an open loop.
    pub fn change_rate(&mut self, words: &str) -> Result<(), UsageError> {
        if let Self::Open { arrivals, profile } = self {
            let changed = words.parse::<Profile>();
            let changed = changed.map_err(|error| UsageError(format!("-R: {error}")))?;
            let checked = Schedule::new(arrivals, Some(&changed), 0, Share::ALL);
            checked.map_err(UsageError::of)?;
            *profile = Some(changed);
        }
        Ok(())
    }

    /// How arrivals are spread, in words; `None` in a closed loop.
    pub fn arrivals(&self) -> Option<String> {
        match self {
            Self::Closed(_) => None,
            Self::Open { arrivals, .. } => Some(arrivals.to_string()),
        }
    }

    /// The rate, in words.
    pub fn rate(&self) -> Option<String> {
        match self {
            Self::Closed(_) => None,
            Self::Open { profile, .. } => profile.as_ref().map(ToString::to_string),
        }
    }

    /// The most requests a second, taken over some gaps, with up to `under_way` at once in a closed
    /// loop: infinite in one where nothing but the answers limits them.
    pub fn peak(&self, under_way: u64) -> f64 {
        match self {
            Self::Closed(think) => {
                let mean_ns = think.as_ref().and_then(Sizes::mean).unwrap_or(0.0);
                under_way as f64 * 1e9 / mean_ns
            }
            Self::Open { arrivals, profile } => {
                let (own, peak) = (arrivals.own_rate(), arrivals.peak_rate());
                let Some(profile) = profile else {
                    return peak.unwrap_or(f64::INFINITY);
                };
                // A rate stretches the gaps of a model that has one of its own.
                let stretched = own.zip(peak).map_or(1.0, |(own, peak)| peak / own);
                profile.peak() * stretched
            }
        }
    }

    /// Whether it ends by itself.
    pub fn ends(&self) -> bool {
        match self {
            Self::Closed(_) => false,
            Self::Open { profile, .. } => profile
                .as_ref()
                .is_some_and(|profile| profile.length_ns().is_some()),
        }
    }

    /// The share of a worker.
    pub fn pace(&self, seed: u64, worker: u32, workers: u32) -> Pace {
        match self {
            Self::Closed(None) => Pace::Closed(None),
            Self::Closed(Some(times)) => {
                Pace::Closed(Some(Box::new(Thinking::new(times.clone(), seed))))
            }
            Self::Open { arrivals, profile } => {
                let share = Share::of(worker, workers);
                let schedule = Schedule::new(arrivals, profile.as_ref(), seed, share);
                Pace::Open(Box::new(schedule.expect("it was made once before")))
            }
        }
    }

    /// What the schedule holds up to a time, or up to this many arrivals; `None` in a closed loop.
    pub fn planned(
        &self,
        seed: u64,
        duration_ns: Option<i64>,
        requests: Option<u64>,
    ) -> Option<Planned> {
        let Self::Open { arrivals, profile } = self else {
            return None;
        };
        let length_ns = profile.as_ref().and_then(Profile::length_ns);
        let length_ns = length_ns.and_then(|length_ns| i64::try_from(length_ns).ok());
        let until_ns = duration_ns.into_iter().chain(length_ns).min();
        let wanted = requests.unwrap_or(u64::MAX);
        if until_ns.is_none() && requests.is_none() {
            return None;
        }
        let schedule = Schedule::new(arrivals, profile.as_ref(), seed, Share::ALL).ok()?;
        let (mut count, mut last_ns) = (0, 0);
        for arrival in schedule {
            if { until_ns }.is_some_and(|until_ns| arrival.at_ns >= until_ns) {
                break;
            }
            (count, last_ns) = (count + 1, arrival.at_ns);
            if count >= wanted {
                return Some(planned(count, last_ns));
            }
            if count >= COUNTED_MAX {
                let part = { until_ns }.map(|until_ns| until_ns as f64 / last_ns.max(1) as f64);
                let all = part.map_or(wanted, |part| (count as f64 * part) as u64);
                return Some(planned(all.min(wanted), until_ns.unwrap_or(last_ns)));
            }
        }
        Some(planned(count, until_ns.unwrap_or(last_ns)))
    }
}

impl Timetable {
    /// How the first departures fit the model; `None` in a closed loop, and with too few of them.
    pub fn fitness(&self, seed: u64, outcome: &Outcome) -> Option<Fitness> {
        let Self::Open { arrivals, profile } = self else {
            return None;
        };
        let start_ns = outcome.started_ns;
        let mut fit = Fit::default();
        for &(due_ns, left_ns) in &outcome.departures {
            fit.record(due_ns - start_ns, left_ns - start_ns);
        }
        fit.judge(arrivals, profile.as_ref(), seed).ok()?
    }
}

fn planned(arrivals: u64, span_ns: i64) -> Planned {
    Planned {
        arrivals,
        span_ns: span_ns.max(0).cast_unsigned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(rate: Option<&str>, arrivals: Option<&str>) -> Result<Timetable, UsageError> {
        Timetable::read(PaceWords {
            rate,
            arrivals,
            ..PaceWords::default()
        })
    }

    #[test]
    fn the_peak_of_a_timetable_is_that_of_its_highest_rate() {
        for (rate, arrivals, expected) in [
            (Some("900"), None, 900.0),
            (Some("10 for 1s, 2000 for 1ms"), None, 2_000.0),
            (Some("10 to 3000 in 1s"), Some("poisson"), 3_000.0),
            (None, Some("on-off 20000 for 100ms, 0 for 900ms"), 20_000.0),
            (
                Some("100"),
                Some("on-off 20000 for 100ms, 0 for 900ms"),
                1_000.0,
            ),
        ] {
            let peak = words(rate, arrivals).expect("valid").peak(1);
            assert!(
                (peak - expected).abs() < 1e-6,
                "{rate:?} {arrivals:?} {peak}"
            );
        }
        let closed = |think: Option<&str>| {
            let think = PaceWords {
                think,
                ..PaceWords::default()
            };
            Timetable::read(think).expect("valid").peak(50)
        };
        assert_eq!(closed(None), f64::INFINITY);
        assert_eq!(closed(Some("100ms")), 500.0);
    }

    #[test]
    fn a_rate_makes_an_open_loop_and_knows_its_arrivals() {
        let closed = words(None, None).expect("words");
        assert!(matches!(closed, Timetable::Closed(None)));
        assert_eq!(closed.planned(1, Some(1), None), None);
        let constant = words(Some("100"), None).expect("words");
        let second = Some(1_000_000_000);
        let planned = |arrivals, span_ns| Some(Planned { arrivals, span_ns });
        assert_eq!(
            constant.planned(1, second, None),
            planned(100, 1_000_000_000)
        );
        assert_eq!(
            constant.planned(1, second, Some(11)),
            planned(11, 100_000_000)
        );
        assert!(!constant.ends());
        let steps = words(Some("100 for 1s, 200 for 1s"), Some("poisson")).expect("words");
        assert!(steps.ends());
        let found = steps.planned(7, None, None).expect("it ends");
        assert_eq!(found.span_ns, 2_000_000_000);
        assert!((200..400).contains(&found.arrivals), "{found:?}");
        let own = words(None, Some("on-off 1000 for 10ms, 0 for 10ms")).expect("a rate of its own");
        assert!(matches!(own, Timetable::Open { .. }));
    }

    #[test]
    fn words_that_make_no_pace_are_refused() {
        for (rate, arrivals, expected) in [
            (Some("fast"), None, "-R: "),
            (Some("-5"), None, "-R: "),
            (None, Some("poisson"), "need a rate"),
            (Some("10"), Some("poison"), "nearest known word is poisson"),
            (Some("10"), Some("file /nowhere"), "/nowhere"),
        ] {
            let error = words(rate, arrivals).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
