//! Whether departures are those of the model: the test that a load makes of itself. It judges
//! instants that the mechanism saw, and draws nothing; it may use the standard library's
//! logarithms.
//!
//! ```text
//!  left ─Λ─► positions ─► gaps of mean 1 ─► Kolmogorov-Smirnov against the shape: D, p
//!  left − due ─► misfit, errors of gaps, error of the rate: what the sender added, without the
//!                noise of the draws
//! ```

use lineside_measure::Distance;
use lineside_time::Nanoseconds;

use crate::arrivals::Arrivals;
use crate::profile::{Profile, number};
use crate::schedule::{ScheduleError, States, profile};
use crate::shape::Shape;

/// So many departures are judged: a fixed number, since with more of them the test finds smaller
/// differences.
pub const JUDGED: usize = 10_000;

/// Records the first departures of a run, 16 bytes each, and judges them.
#[derive(Debug, Clone)]
pub struct Fit {
    /// When each was due and when it left, in nanoseconds after the start.
    departures: Vec<(Nanoseconds, Nanoseconds)>,
    max: usize,
}

/// How well departures fit their model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fitness {
    /// How many departures were judged.
    pub departures: usize,
    /// What their gaps were compared with.
    pub against: Against,
    /// The Kolmogorov-Smirnov distance of the gaps, and how likely one at least as large is if the
    /// sender adds nothing. `None` for constant arrivals: any error at all is a distance of 1/2
    /// there, and the errors of gaps say more.
    pub distance: Option<Distance>,
    /// The area between the distributions of the gaps as they left and as they were due, which is
    /// the mean difference between quantiles of one share: nanoseconds that the sender adds to gaps
    /// or takes from them. 0 for a sender that is on time, or equally late each time.
    pub misfit_ns: f64,
    /// How far each gap was from the gap that was due, whether longer or shorter.
    pub gap_errors: GapErrors,
    /// By how much the rate from the first departure to the last was above that of the schedule,
    /// in millionths.
    pub rate_error_ppm: f64,
}

/// What gaps are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Against {
    /// The schedule itself: constant arrivals.
    Schedule,
    /// The model's distribution, at a constant rate.
    Model,
    /// The model's distribution, after the instants were mapped by the integral of the rate, and of
    /// the states of `on-off` as they were drawn.
    Integral,
    /// The gaps that were due, as two samples: those of a file. They are not independent of the
    /// ones that left, so that the true p-value is less than the one given.
    Drawn,
}

/// Errors of gaps without their sign, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GapErrors {
    /// Half of the errors are at most this.
    pub p50_ns: u64,
    /// 90 % are at most this.
    pub p90_ns: u64,
    /// 99 % are at most this.
    pub p99_ns: u64,
    /// The largest one.
    pub max_ns: u64,
}

impl Default for Fit {
    fn default() -> Self {
        Self::new(JUDGED)
    }
}

impl Fit {
    /// Room for the first `max` departures.
    pub fn new(max: usize) -> Self {
        Self {
            departures: Vec::with_capacity(max),
            max,
        }
    }

    /// A departure that was due this long after the start, and left this long after it; in the
    /// order of ordinals. Allocates nothing, and does nothing once there are enough.
    #[inline]
    pub fn record(&mut self, due_ns: Nanoseconds, left_ns: Nanoseconds) {
        if self.departures.len() < self.max {
            self.departures.push((due_ns, left_ns));
        }
    }

    /// Whether there are enough.
    pub fn is_full(&self) -> bool {
        self.departures.len() == self.max
    }

    /// Adds the departures of another worker of the same schedule: the first ones of both remain.
    pub fn merge(&mut self, other: &Self) {
        self.departures.extend_from_slice(&other.departures);
        self.departures.sort_unstable();
        self.departures.truncate(self.max);
    }

    /// Judges what was recorded against the schedule that these gave; `None` for fewer than two
    /// gaps.
    pub fn judge(
        &self,
        arrivals: &Arrivals,
        rate: Option<&Profile>,
        seed: u64,
    ) -> Result<Option<Fitness>, ScheduleError> {
        let profile = profile(arrivals, rate)?;
        let mut departures = self.departures.clone();
        departures.sort_unstable();
        if departures.len() < 3 {
            return Ok(None);
        }
        let due: Vec<_> = departures.iter().map(|departure| departure.0).collect();
        let mut left: Vec<_> = departures.iter().map(|departure| departure.1).collect();
        let gap_errors = GapErrors::of(&due, &left);
        left.sort_unstable();
        let (due_gaps, left_gaps) = (sorted_gaps(&due), sorted_gaps(&left));
        let (against, distance) = match arrivals {
            Arrivals::Constant => (Against::Schedule, None),
            Arrivals::File { .. } => (Against::Drawn, Some(between_samples(&left_gaps, &due_gaps))),
            Arrivals::OnOff(_) => {
                let mut states = States::new(arrivals, &profile, seed)?;
                let mut cursor = profile.cursor();
                let mapped = map(&left, |at_ns| states.expected(at_ns, &mut cursor));
                let distance = from_shape(&mapped, Shape::Exponential);
                (Against::Integral, Some(distance))
            }
            other => {
                let shape = other.shape().unwrap_or(Shape::Exponential);
                let mut cursor = profile.cursor();
                let mapped = map(&left, |at_ns| number(cursor.position(at_ns)));
                let against = match profile.constant_rate() {
                    Some(_) => Against::Model,
                    None => Against::Integral,
                };
                (against, Some(from_shape(&mapped, shape)))
            }
        };
        Ok(Some(Fitness {
            departures: departures.len(),
            against,
            distance,
            misfit_ns: area(&due_gaps, &left_gaps),
            gap_errors,
            rate_error_ppm: rate_error_ppm(&due, &left),
        }))
    }
}

impl GapErrors {
    /// Of departures in the order in which they were due.
    fn of(due: &[Nanoseconds], left: &[Nanoseconds]) -> Self {
        let late = due.iter().zip(left);
        let late: Vec<_> = late.map(|(due, left)| left.saturating_sub(*due)).collect();
        let errors = late.windows(2).map(|pair| pair[1].abs_diff(pair[0]));
        let mut errors: Vec<_> = errors.collect();
        errors.sort_unstable();
        let quantile = |share: f64| {
            let rank = (share * errors.len() as f64).ceil() as usize;
            errors[rank.clamp(1, errors.len()) - 1]
        };
        Self {
            p50_ns: quantile(0.5),
            p90_ns: quantile(0.9),
            p99_ns: quantile(0.99),
            max_ns: quantile(1.0),
        }
    }
}

/// The gaps of rising instants, in rising order.
fn sorted_gaps(instants: &[Nanoseconds]) -> Vec<f64> {
    let gaps = instants
        .windows(2)
        .map(|pair| pair[1].abs_diff(pair[0]) as f64);
    let mut gaps: Vec<_> = gaps.collect();
    gaps.sort_unstable_by(f64::total_cmp);
    gaps
}

/// The mean distance between values of one rank of two samples of one size.
fn area(one: &[f64], other: &[f64]) -> f64 {
    let differences = one
        .iter()
        .zip(other)
        .map(|(one, other)| (one - other).abs());
    differences.sum::<f64>() / one.len() as f64
}

fn rate_error_ppm(due: &[Nanoseconds], left: &[Nanoseconds]) -> f64 {
    let span = |instants: &[Nanoseconds]| {
        let first_and_last = instants.first().zip(instants.last());
        first_and_last.map_or(0, |(first, last)| last.abs_diff(*first))
    };
    (span(due) as f64 / span(left).max(1) as f64 - 1.0) * 1e6
}

/// Where instants lie by a rising function: the begin and the end of the nanosecond of each.
fn map(instants: &[Nanoseconds], mut position: impl FnMut(Nanoseconds) -> f64) -> Vec<(f64, f64)> {
    let mapped = instants.iter().map(|&at_ns| {
        let begin = position(at_ns);
        (begin, position(at_ns.saturating_add(1)))
    });
    mapped.collect()
}

/// Of the gaps between rising positions, each of which is known to lie between two bounds.
///
/// What remains whichever way the instants were rounded is the distance. Of a gamma distribution of
/// cv 2 at 10,000 a second 4 % of the gaps are shorter than a nanosecond: taken as 0, they alone
/// would refute the model.
fn from_shape(positions: &[(f64, f64)], shape: Shape) -> Distance {
    let pairs = positions.windows(2);
    let mut least: Vec<_> = pairs
        .clone()
        .map(|pair| (pair[1].0 - pair[0].1).max(0.0))
        .collect();
    let mut most: Vec<_> = pairs.map(|pair| pair[1].1 - pair[0].0).collect();
    least.sort_unstable_by(f64::total_cmp);
    most.sort_unstable_by(f64::total_cmp);
    let count = least.len() as f64;
    let below = (0_u32..)
        .zip(&least)
        .map(|(rank, &gap)| shape.cdf(gap) - f64::from(rank) / count);
    let above = (1_u32..)
        .zip(&most)
        .map(|(rank, &gap)| f64::from(rank) / count - shape.cdf(gap));
    Distance::of(below.chain(above).fold(0.0, f64::max), count)
}

/// Of two rising samples of one size.
fn between_samples(one: &[f64], other: &[f64]) -> Distance {
    let count = one.len();
    let (mut below_one, mut below_other, mut largest) = (0, 0, 0);
    while below_one < count && below_other < count {
        let value = one[below_one].min(other[below_other]);
        below_one += one[below_one..]
            .iter()
            .take_while(|&&gap| gap <= value)
            .count();
        below_other += other[below_other..]
            .iter()
            .take_while(|&&gap| gap <= value)
            .count();
        largest = largest.max(below_one.abs_diff(below_other));
    }
    Distance::of(largest as f64 / count as f64, count as f64 / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{Schedule, Share};

    fn arrivals(text: &str) -> Arrivals {
        let mut load = |_: &str| Ok("1us\n7us\n90us\n2us\n15us".to_owned());
        Arrivals::parse(text, &mut load).expect(text)
    }

    /// Departures of a schedule, as `sent` changes its instants.
    fn departed(
        drawn: &str,
        rate: &str,
        seed: u64,
        mut sent: impl FnMut(Nanoseconds) -> Nanoseconds,
    ) -> Fit {
        let profile = rate.parse().expect(rate);
        let schedule = Schedule::new(&arrivals(drawn), Some(&profile), seed, Share::ALL);
        let mut fit = Fit::default();
        for arrival in schedule.expect(drawn).take(JUDGED) {
            fit.record(arrival.at_ns, sent(arrival.at_ns));
        }
        assert!(fit.is_full());
        fit
    }

    fn judged(fit: &Fit, model: &str, rate: &str, seed: u64) -> Fitness {
        let profile = rate.parse().expect(rate);
        let fitness = fit.judge(&arrivals(model), Some(&profile), seed);
        fitness.expect("a schedule").expect("departures")
    }

    const MODELS: [&str; 11] = [
        "poisson",
        "uniform",
        "uniform 50us..150us",
        "gamma cv 2",
        "gamma cv 0.3",
        "weibull shape 0.7",
        "lognormal cv 1.5",
        "lognormal sigma 0.2",
        "pareto alpha 1.5",
        "on-off 20000 for 10ms, 0 for 30ms",
        "on-off 2000 for 1ms, 5000 for 2ms, 80000 for 500us",
    ];

    const RAMPS: &str = "1000 for 1s, 0 for 100ms, 1000 to 5000 in 2s, 9000";

    #[test]
    fn draws_of_each_model_fit_it_for_20_seeds() {
        for model in MODELS {
            for rate in ["10000", RAMPS] {
                let passes = |seed: &u64| {
                    let fit = departed(model, rate, *seed, |at_ns| at_ns);
                    let fitness = judged(&fit, model, rate, *seed);
                    assert_eq!(fitness.misfit_ns, 0.0);
                    fitness.distance.expect("a distance").p_value > 0.01
                };
                let passed = (1..=20).filter(passes).count();
                // Of 20 chances of 1 %, three come once in a thousand.
                assert!(passed >= 18, "{model} at {rate}: {passed} of 20");
            }
        }
    }

    #[test]
    fn draws_of_another_model_do_not_fit() {
        for (drawn, model) in [
            ("gamma cv 1.1", "poisson"),
            ("poisson", "gamma cv 1.1"),
            ("weibull shape 0.92", "poisson"),
            ("lognormal cv 1", "gamma cv 1"),
            ("uniform 1us..19us", "uniform"),
            ("pareto alpha 1.6", "pareto alpha 1.5"),
            ("poisson", "on-off 20000 for 10ms, 0 for 30ms"),
            ("on-off 20000 for 10ms, 0 for 30ms", "poisson"),
        ] {
            for rate in ["10000", RAMPS] {
                let fit = departed(drawn, rate, 5, |at_ns| at_ns);
                let distance = judged(&fit, model, rate, 5).distance.expect("a distance");
                assert!(
                    distance.p_value < 0.001,
                    "{drawn} as {model} at {rate}: {distance:?}"
                );
            }
        }
        // The right model at a rate that is 5 % off.
        let fit = departed("poisson", "10500", 5, |at_ns| at_ns);
        let distance = judged(&fit, "poisson", "10000", 5)
            .distance
            .expect("a distance");
        assert!(distance.p_value < 0.01, "{distance:?}");
    }

    #[test]
    fn a_least_gap_shows_as_distance_and_misfit() {
        // A sender that needs 3 us for each: no gap is shorter, and 1 - exp(-3 / 20) were.
        let mut free_ns = 0;
        let fit = departed("poisson", "50000", 3, |at_ns| {
            let left_ns = at_ns.max(free_ns);
            free_ns = left_ns + 3_000;
            left_ns
        });
        let fitness = judged(&fit, "poisson", "50000", 3);
        let distance = fitness.distance.expect("a distance");
        let expected = 1.0 - (-0.15_f64).exp();
        assert!((distance.ks - expected).abs() < 0.02, "{distance:?}");
        assert!(distance.p_value < 1e-9 && fitness.against == Against::Model);
        assert!(
            (300.0..3_000.0).contains(&fitness.misfit_ns),
            "{}",
            fitness.misfit_ns
        );
        assert!(
            fitness.rate_error_ppm.abs() < 50.0,
            "{}",
            fitness.rate_error_ppm
        );
    }

    #[test]
    fn being_late_each_time_alike_is_no_misfit() {
        let fit = departed("poisson", "10000", 3, |at_ns| at_ns + 5_000);
        let fitness = judged(&fit, "poisson", "10000", 3);
        assert_eq!((fitness.misfit_ns, fitness.gap_errors.max_ns), (0.0, 0));
        assert_eq!(fitness.rate_error_ppm, 0.0);
    }

    #[test]
    fn departures_that_overtake_others_are_put_in_order() {
        let ordered = departed("poisson", "10000", 3, |at_ns| at_ns);
        let mut swapped = ordered.clone();
        for pair in swapped.departures.chunks_exact_mut(2) {
            (pair[0].1, pair[1].1) = (pair[1].1, pair[0].1);
        }
        let ordered = judged(&ordered, "poisson", "10000", 3);
        let swapped = judged(&swapped, "poisson", "10000", 3);
        assert_eq!(swapped.distance, ordered.distance);
        assert_eq!(swapped.misfit_ns, 0.0);
        assert!(swapped.gap_errors.p50_ns > 10_000 && ordered.gap_errors.max_ns == 0);
    }

    #[test]
    fn constant_arrivals_have_errors_of_gaps_and_rate() {
        let mut number = 0;
        // Each tenth leaves 4 us late, and all of it takes 100 millionths longer.
        let fit = departed("constant", "10000", 3, |at_ns| {
            number += 1;
            let late_ns = if number % 10 == 0 { 4_000 } else { 0 };
            at_ns + at_ns / 10_000 + late_ns
        });
        let fitness = judged(&fit, "constant", "10000", 3);
        assert_eq!(
            (fitness.against, fitness.distance),
            (Against::Schedule, None)
        );
        let errors = fitness.gap_errors;
        assert_eq!(
            (errors.p50_ns, errors.p90_ns, errors.max_ns),
            (10, 4_010, 4_010)
        );
        // The last one is a tenth one, too.
        let expected = -100.0 - 4_000.0 / 1e9 * 1e6;
        assert!(
            (fitness.rate_error_ppm - expected).abs() < 0.1,
            "{}",
            fitness.rate_error_ppm
        );
    }

    #[test]
    fn gaps_of_a_file_are_compared_with_those_drawn() {
        let fit = departed("file x", "10000", 3, |at_ns| at_ns);
        let fitness = judged(&fit, "file x", "10000", 3);
        assert_eq!(fitness.against, Against::Drawn);
        let same = fitness.distance.expect("a distance");
        assert_eq!((same.ks, same.p_value), (0.0, 1.0));
        let fit = departed("file x", "10000", 3, |at_ns| at_ns / 20_000 * 20_000);
        let distance = judged(&fit, "file x", "10000", 3)
            .distance
            .expect("a distance");
        assert!(
            distance.ks > 0.15 && distance.p_value < 1e-9,
            "{distance:?}"
        );
    }

    #[test]
    fn departures_of_workers_are_judged_together() {
        let whole = departed("gamma cv 2", "10000", 4, |at_ns| at_ns + 70);
        let profile = "10000".parse().expect("a rate");
        let mut merged = Fit::default();
        for worker in 0..3 {
            let share = Share::of(worker, 3);
            let schedule = Schedule::new(&arrivals("gamma cv 2"), Some(&profile), 4, share);
            let mut fit = Fit::default();
            for arrival in schedule.expect("a schedule").take(JUDGED) {
                fit.record(arrival.at_ns, arrival.at_ns + 70);
            }
            merged.merge(&fit);
        }
        let judge = |fit: &Fit| judged(fit, "gamma cv 2", "10000", 4);
        assert_eq!(judge(&merged), judge(&whole));
        let mut few = Fit::default();
        few.record(0, 1);
        few.record(5, 6);
        let none = few.judge(&arrivals("constant"), Some(&profile), 1);
        assert_eq!(none, Ok(None));
    }

    #[test]
    fn a_distance_is_that_of_scipy() {
        // scipy.stats.kstest(0.005 * i * i for i in 1..=40, 'expon'), scipy 1.17.1; its p-value is
        // exact, ours is the limit with Stephens' correction.
        let mut at = 0.0;
        let positions = (0..=40).map(|i| {
            at += 0.005 * f64::from(i * i);
            (at, at)
        });
        let positions: Vec<_> = positions.collect();
        let distance = from_shape(&positions, Shape::Exponential);
        assert!(
            (distance.ks - 0.389_749_474_695_514_8).abs() < 1e-12,
            "{distance:?}"
        );
        let ratio = distance.p_value / 5.535_183_391_181_357e-6;
        assert!((0.7..1.4).contains(&ratio), "{distance:?}");
    }
}
