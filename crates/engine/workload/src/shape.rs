//! Distributions of positive numbers with mean 1, from which gaps, sizes and think times are
//! scaled: how they are drawn. Their cumulative distributions are `special`'s.

use lineside_time::Random;

use crate::draw::{exponential, gamma, normal, unit};
use crate::math::{self, exp, ln, pow};

/// A distribution with mean 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// Always 1.
    Constant,
    /// Even from `low` to 2 - `low`.
    Uniform {
        /// The least, from 0 to 1.
        low: f64,
    },
    /// Exponential: gaps of a Poisson process.
    Exponential,
    /// Gamma with this shape; the squared coefficient of variation is its inverse.
    Gamma {
        /// Above 0.
        shape: f64,
    },
    /// Weibull with this shape.
    Weibull {
        /// Above 0; 1 is exponential, less has a longer tail.
        shape: f64,
    },
    /// Lognormal: the logarithm has this deviation.
    Lognormal {
        /// Above 0.
        sigma: f64,
    },
    /// Pareto with this exponent of the tail.
    Pareto {
        /// Above 1, so that there is a mean.
        alpha: f64,
    },
    /// Generalised Pareto from 0 on with this shape: as the lengths of gaps and values of key-value
    /// stores were found to be.
    GeneralizedPareto {
        /// Above 0, and below 1, so that there is a mean.
        shape: f64,
    },
}

impl Shape {
    /// The square of the coefficient of variation: of the deviation, as the mean is 1. `None` where
    /// there is none, that is for Pareto up to an exponent of 2, and generalised Pareto from a
    /// shape of 1/2.
    pub fn variance(self) -> Option<f64> {
        Some(match self {
            Self::Constant => 0.0,
            Self::Uniform { low } => (1.0 - low) * (1.0 - low) / 3.0,
            Self::Exponential => 1.0,
            Self::Gamma { shape } => 1.0 / shape,
            Self::Weibull { shape } => {
                let mean = math::gamma(1.0 + 1.0 / shape);
                math::gamma(1.0 + 2.0 / shape) / (mean * mean) - 1.0
            }
            Self::Lognormal { sigma } => exp(sigma * sigma) - 1.0,
            Self::Pareto { alpha } if alpha > 2.0 => 1.0 / (alpha * (alpha - 2.0)),
            Self::GeneralizedPareto { shape } if shape < 0.5 => 1.0 / (1.0 - 2.0 * shape),
            Self::Pareto { .. } | Self::GeneralizedPareto { .. } => return None,
        })
    }

    /// The factor that brings the mean to 1: the scale of Gamma, Weibull and generalised Pareto,
    /// the median of lognormal, the least of Pareto.
    pub(crate) fn scale(self) -> f64 {
        match self {
            Self::Constant | Self::Uniform { .. } | Self::Exponential => 1.0,
            Self::Gamma { shape } => 1.0 / shape,
            Self::Weibull { shape } => 1.0 / math::gamma(1.0 + 1.0 / shape),
            Self::Lognormal { sigma } => exp(-0.5 * sigma * sigma),
            Self::Pareto { alpha } => (alpha - 1.0) / alpha,
            Self::GeneralizedPareto { shape } => 1.0 - shape,
        }
    }
}

/// The deviation of the logarithm of a lognormal distribution with this coefficient of variation.
pub(crate) fn sigma_of(cv: f64) -> f64 {
    // Next to 0 the sum would lose the digits of the square.
    let square = cv * cv;
    (square * math::ln_one_plus_by(square)).sqrt()
}

/// Draws from a [`Shape`]; what does not change from one draw to the next is worked out once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sampler {
    shape: Shape,
    scale: f64,
    /// The exponent of Weibull and of both Paretos.
    power: f64,
}

impl Sampler {
    pub(crate) fn new(shape: Shape) -> Self {
        let power = match shape {
            Shape::Weibull { shape } => 1.0 / shape,
            Shape::Pareto { alpha } => -1.0 / alpha,
            Shape::GeneralizedPareto { shape } => -shape,
            _ => 1.0,
        };
        Self {
            shape,
            scale: shape.scale(),
            power,
        }
    }

    #[inline]
    pub(crate) fn draw(&self, random: &mut Random) -> f64 {
        match self.shape {
            Shape::Constant => 1.0,
            Shape::Uniform { low } => low + 2.0 * (1.0 - low) * unit(random),
            Shape::Exponential => exponential(random),
            Shape::Gamma { shape } => self.scale * gamma(random, shape),
            Shape::Weibull { .. } => self.scale * exp(self.power * ln(exponential(random))),
            Shape::Lognormal { sigma } => self.scale * exp(sigma * normal(random)),
            Shape::Pareto { .. } => self.scale * pow(unit(random), self.power),
            Shape::GeneralizedPareto { shape } => {
                self.scale / shape * (pow(unit(random), self.power) - 1.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_mean_1_and_the_variance_that_is_said() {
        let shapes = [
            Shape::Constant,
            Shape::Uniform { low: 0.0 },
            Shape::Uniform { low: 0.9 },
            Shape::Exponential,
            Shape::Gamma { shape: 0.25 },
            Shape::Gamma { shape: 7.5 },
            Shape::Weibull { shape: 0.7 },
            Shape::Weibull { shape: 3.0 },
            Shape::Lognormal {
                sigma: sigma_of(1.5),
            },
            Shape::Lognormal { sigma: 0.1 },
            Shape::Pareto { alpha: 5.0 },
            Shape::GeneralizedPareto { shape: 0.1 },
        ];
        for shape in shapes {
            let (sampler, mut random) = (Sampler::new(shape), Random::new(1));
            let count = 400_000;
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..count {
                let draw = sampler.draw(&mut random);
                assert!(draw >= 0.0);
                (sum, squares) = (sum + draw, squares + draw * draw);
            }
            let mean = sum / f64::from(count);
            let variance = squares / f64::from(count) - mean * mean;
            let expected = shape.variance().expect("there is one");
            let error = (expected / f64::from(count)).sqrt();
            assert!((mean - 1.0).abs() <= 4.0 * error, "{shape:?}: mean {mean}");
            // Of the heaviest tails here, 400,000 draws give the variance to a tenth.
            assert!(
                (variance - expected).abs() <= 0.1 * expected + 1e-9,
                "{shape:?}: {variance}"
            );
        }
        assert_eq!(Shape::Pareto { alpha: 1.5 }.variance(), None);
    }

    #[test]
    fn a_coefficient_of_variation_is_that_of_the_variance() {
        for cv in [0.001, 0.5, 1.5, 30.0] {
            let variance = Shape::Lognormal {
                sigma: sigma_of(cv),
            }
            .variance()
            .expect("one");
            assert!(
                (variance.sqrt() / cv - 1.0).abs() < 1e-8,
                "{cv}: {variance}"
            );
        }
    }
}
