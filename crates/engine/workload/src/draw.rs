//! Streams of random numbers, and variates made of them. Only what IEEE 754 fixes goes into a
//! draw, so that a seed gives the same ones on each machine.

use lineside_time::Random;

use crate::math::{ln, pow};

/// The use that a stream of random numbers is for. Each has a stream of its own, so that another
/// model of one of them leaves the draws of the others as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Purpose {
    /// Gaps between arrivals.
    Arrivals,
    /// How long the states of an on-off process last.
    States,
    /// Sizes of requests.
    RequestSizes,
    /// Sizes of responses.
    ResponseSizes,
    /// Think times.
    ThinkTimes,
    /// Keys.
    Keys,
    /// Fields of templates.
    Contents,
    /// How long connections last, and how many requests they carry.
    Lifetimes,
}

/// The seed of a purpose's stream: its place in the sequence of the run's seed.
pub fn seed_for(seed: u64, purpose: Purpose) -> u64 {
    let mut random = Random::new(seed);
    random.skip(purpose as u64);
    random.bits()
}

/// The stream of the draw with this ordinal: a function of the two alone, so that any worker may
/// make any draw.
#[inline]
pub(crate) fn at(seed: u64, ordinal: u64) -> Random {
    let mut random = Random::new(seed);
    random.skip(ordinal);
    Random::new(random.bits())
}

/// Evenly distributed between 0 and 1, neither included: odd multiples of 2^-53, which are exact.
#[inline]
pub(crate) fn unit(random: &mut Random) -> f64 {
    const STEP: f64 = 1.0 / (1_u64 << 53) as f64;
    ((random.bits() >> 12) * 2 + 1) as i64 as f64 * STEP
}

/// Exponentially distributed with mean 1.
#[inline]
pub(crate) fn exponential(random: &mut Random) -> f64 {
    -ln(unit(random))
}

/// Normally distributed with mean 0 and deviation 1: the polar method of Marsaglia and Bray (SIAM
/// Review 6(3), 1964). The second variate of a pair is left out, because a stream keeps nothing but
/// its state.
#[inline]
pub(crate) fn normal(random: &mut Random) -> f64 {
    loop {
        let (x, y) = (2.0 * unit(random) - 1.0, 2.0 * unit(random) - 1.0);
        let square = x * x + y * y;
        if square < 1.0 && square > 0.0 {
            return x * (-2.0 * ln(square) / square).sqrt();
        }
    }
}

/// Gamma distributed with scale 1: Marsaglia and Tsang, "A simple method for generating gamma
/// variables", ACM TOMS 26(3), 2000. Below a shape of 1 it is a draw of the shape above, times a
/// power of an even one, as they say there.
pub(crate) fn gamma(random: &mut Random, shape: f64) -> f64 {
    if shape < 1.0 {
        let boost = pow(unit(random), 1.0 / shape);
        return gamma(random, shape + 1.0) * boost;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(random);
        let base = 1.0 + c * x;
        if base <= 0.0 {
            continue;
        }
        let (v, u) = (base * base * base, unit(random));
        let square = x * x;
        // The squeeze decides nearly always, and needs no logarithm.
        if u < 1.0 - 0.0331 * square * square || ln(u) < 0.5 * square + d * (1.0 - v + ln(v)) {
            return d * v;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purposes_and_ordinals_have_streams_of_their_own() {
        let purposes = [
            Purpose::Arrivals,
            Purpose::States,
            Purpose::Keys,
            Purpose::Lifetimes,
        ];
        let mut seeds: Vec<_> = purposes
            .iter()
            .map(|&purpose| seed_for(7, purpose))
            .collect();
        seeds.extend((0..100).map(|ordinal| at(7, ordinal).bits()));
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 104);
        assert_eq!(at(7, 3).bits(), at(7, 3).bits());
    }

    #[test]
    fn units_lie_between_0_and_1() {
        let mut random = Random::new(3);
        let (mut least, mut most, mut sum) = (1.0_f64, 0.0_f64, 0.0);
        for _ in 0..100_000 {
            let unit = unit(&mut random);
            (least, most, sum) = (least.min(unit), most.max(unit), sum + unit);
        }
        assert!(least > 0.0 && least < 1e-4 && most < 1.0 && most > 1.0 - 1e-4);
        assert!((sum / 1e5 - 0.5).abs() < 0.003, "{sum}");
    }
}
