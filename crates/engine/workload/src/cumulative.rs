//! Cumulative distributions of shapes. They judge a run and draw nothing, so they use the standard
//! library's `ln` and `exp`, whose last digits may differ between machines.

use crate::math::gamma_ln;
use crate::shape::Shape;

impl Shape {
    /// The share of draws up to `x`.
    pub fn cdf(self, x: f64) -> f64 {
        if x < 0.0 {
            return 0.0;
        }
        let scale = self.scale();
        match self {
            Self::Constant => f64::from(x >= 1.0),
            // A constant distribution, too, where the two bounds are one.
            Self::Uniform { low } if low >= 1.0 => f64::from(x >= 1.0),
            Self::Uniform { low } => ((x - low) / (2.0 * (1.0 - low))).clamp(0.0, 1.0),
            Self::Exponential => -(-x).exp_m1(),
            Self::Gamma { shape } => gamma_share(shape, x / scale),
            Self::Weibull { shape } => -(-(x / scale).powf(shape)).exp_m1(),
            Self::Lognormal { .. } if x == 0.0 => 0.0,
            Self::Lognormal { sigma } => normal_share((x / scale).ln() / sigma),
            Self::Pareto { .. } if x <= scale => 0.0,
            Self::Pareto { alpha } => -(alpha * (scale / x).ln()).exp_m1(),
            Self::GeneralizedPareto { shape } => -((shape * x / scale).ln_1p() / -shape).exp_m1(),
        }
    }
}

/// The regularised incomplete gamma function P(a, x): by its series below a + 1, by Legendre's
/// continued fraction above (Abramowitz and Stegun 6.5.29 and 6.5.31).
fn gamma_share(a: f64, x: f64) -> f64 {
    /// At the largest shapes both need some hundreds of terms.
    const TERMS_MAX: u32 = 10_000;
    const EPSILON: f64 = 1e-16;
    if x <= 0.0 {
        return 0.0;
    }
    let front = (a * x.ln() - x - gamma_ln(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut sum, mut n) = (1.0 / a, 1.0 / a, a);
        for _ in 0..TERMS_MAX {
            n += 1.0;
            term *= x / n;
            sum += term;
            if term < sum * EPSILON {
                break;
            }
        }
        return (front * sum).min(1.0);
    }
    // Lentz's way to work it out from the front; no denominator is 0 here, as all are positive.
    let mut b = x + 1.0 - a;
    let mut d = 1.0 / b;
    let (mut c, mut fraction) = (f64::INFINITY, d);
    for n in 1..TERMS_MAX {
        let n = f64::from(n);
        let factor = -n * (n - a);
        b += 2.0;
        d = 1.0 / (factor * d + b);
        c = b + factor / c;
        let change = c * d;
        fraction *= change;
        if (change - 1.0).abs() < EPSILON {
            break;
        }
    }
    (1.0 - front * fraction).clamp(0.0, 1.0)
}

/// The share of the normal distribution below `x`.
fn normal_share(x: f64) -> f64 {
    let half = gamma_share(0.5, x * x / 2.0) / 2.0;
    match x < 0.0 {
        true => 0.5 - half,
        false => 0.5 + half,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// scipy.stats 1.17.1: expon, uniform, gamma, weibull_min, lognorm and pareto, scaled to a mean
    /// of 1, their cdf.
    const SCIPY: [(Shape, [(f64, f64); 5]); 14] = [
        (
            Shape::Exponential,
            [
                (0.01, 0.00995016625083195),
                (0.3, 0.259181779318282),
                (1.0, 0.632120558828558),
                (2.5, 0.917915001376101),
                (8.0, 0.999664537372097),
            ],
        ),
        (
            Shape::Uniform { low: 0.5 },
            [(0.4, 0.0), (0.5, 0.0), (0.8, 0.3), (1.0, 0.5), (1.5, 1.0)],
        ),
        (
            Shape::Gamma { shape: 0.25 },
            [
                (0.01, 0.24657376563403),
                (0.3, 0.568873723975811),
                (1.0, 0.743677944731461),
                (2.5, 0.87688573996339),
                (8.0, 0.982713988140483),
            ],
        ),
        (
            Shape::Gamma { shape: 0.01 },
            [
                (0.01, 0.917214347092254),
                (0.3, 0.948919981204975),
                (1.0, 0.960347423521509),
                (2.5, 0.969044741314441),
                (8.0, 0.979861819089239),
            ],
        ),
        (
            Shape::Gamma { shape: 7.5 },
            [
                (0.01, 2.43802816755752e-13),
                (0.3, 0.00441998380404275),
                (1.0, 0.548582788774275),
                (2.5, 0.998930894252463),
                (8.0, 1.0),
            ],
        ),
        (
            Shape::Gamma { shape: 10000.0 },
            [
                (0.97, 0.00123417558446849),
                (0.99, 0.158651192193565),
                (1.0, 0.501329808339955),
                (1.01, 0.84134875044718),
                (1.05, 0.999999572412755),
            ],
        ),
        (
            Shape::Weibull { shape: 0.7 },
            [
                (0.01, 0.0458675388235756),
                (0.3, 0.398149079868695),
                (1.0, 0.692536910535745),
                (2.5, 0.893525679539822),
                (8.0, 0.993630278217851),
            ],
        ),
        (
            Shape::Weibull { shape: 3.0 },
            [
                (0.01, 7.12072689164851e-07),
                (0.3, 0.0190423292718797),
                (1.0, 0.509373897193112),
                (2.5, 0.999985277589916),
                (8.0, 1.0),
            ],
        ),
        (
            Shape::Lognormal { sigma: 0.1 },
            [
                (0.05, 7.90211088580419e-197),
                (0.8, 0.0145756096619577),
                (1.0, 0.519938805838372),
                (1.3, 0.996248382071904),
                (20.0, 1.0),
            ],
        ),
        (
            Shape::Lognormal { sigma: 1.0 },
            [
                (0.05, 0.0062848715758696),
                (0.8, 0.609054832616541),
                (1.0, 0.691462461274013),
                (1.3, 0.77707868585837),
                (20.0, 0.999763618606824),
            ],
        ),
        (
            Shape::Lognormal { sigma: 2.0 },
            [
                (0.05, 0.309289198321974),
                (0.8, 0.812844775600328),
                (1.0, 0.841344746068543),
                (1.3, 0.871010779610836),
                (20.0, 0.993752831763198),
            ],
        ),
        (
            Shape::Pareto { alpha: 1.5 },
            [
                (0.1, 0.0),
                (0.5, 0.455668946048183),
                (1.0, 0.807549910270125),
                (4.0, 0.975943738783766),
                (100.0, 0.99980754991027),
            ],
        ),
        (
            Shape::Pareto { alpha: 3.0 },
            [
                (0.1, 0.0),
                (0.5, 0.0),
                (1.0, 0.703703703703704),
                (4.0, 0.99537037037037),
                (100.0, 0.999999703703704),
            ],
        ),
        (
            Shape::GeneralizedPareto { shape: 0.25 },
            [
                (0.1, 0.122921947633027),
                (0.5, 0.460224906289046),
                (1.0, 0.68359375),
                (4.0, 0.966264056643065),
                (100.0, 0.999999280325491),
            ],
        ),
    ];

    #[test]
    fn cumulative_shares_are_those_of_scipy() {
        for (shape, points) in SCIPY {
            for (x, expected) in points {
                let share = shape.cdf(x);
                assert!(
                    (share - expected).abs() < 1e-11,
                    "{shape:?} up to {x}: {share}"
                );
            }
            assert_eq!((shape.cdf(-1.0), shape.cdf(0.0)), (0.0, 0.0), "{shape:?}");
        }
        assert_eq!(
            (Shape::Constant.cdf(0.999), Shape::Constant.cdf(1.0)),
            (0.0, 1.0)
        );
    }
}
