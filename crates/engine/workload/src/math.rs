//! Logarithm, exponential, power and gamma function from what IEEE 754 fixes: `+ - * / sqrt`,
//! comparisons and conversions. A C library's `log` and `exp` differ in their last digits from one
//! machine to the next, and a draw made with them would, too.
//!
//! Not here: cumulative distributions, which are no draws and use the standard library
//! (`special`).

use std::f64::consts::{LN_2, LOG2_E, SQRT_2};

/// ln 2 in two parts: the first one has 21 trailing zero bits, so that its product with an exponent
/// is exact.
const LN_2_HIGH: f64 = f64::from_bits(LN_2.to_bits() & !0x1f_ffff);
/// What the double nearest to ln 2 leaves out, and what the mask takes.
const LN_2_LOW: f64 = LN_2 - LN_2_HIGH + 2.319_046_813_846_299_6e-17;
/// Half of ln(2 pi), as in Stirling's series.
const HALF_LN_TWO_PI: f64 = 0.918_938_533_204_672_8;

const EXPONENT_BIAS: i64 = 1023;
const FRACTION_BITS: u32 = 52;

/// Terms of the series of [`ln`]: the next one is below 2^-60 of the sum.
const LN_TERMS: usize = 11;
/// Terms of the series of [`exp`] after 1 and the argument, likewise.
const EXP_TERMS: usize = 13;

/// `2 / (2 i + 3)`.
const LN_FACTORS: [f64; LN_TERMS] = {
    let mut factors = [0.0; LN_TERMS];
    let mut i = 0;
    while i < LN_TERMS {
        factors[i] = 2.0 / (2 * i + 3) as f64;
        i += 1;
    }
    factors
};

/// `1 / (i + 2)!`.
const EXP_FACTORS: [f64; EXP_TERMS] = {
    let mut factors = [0.0; EXP_TERMS];
    let (mut i, mut factorial) = (0, 1.0);
    while i < EXP_TERMS {
        factorial *= (i + 2) as f64;
        factors[i] = 1.0 / factorial;
        i += 1;
    }
    factors
};

/// The natural logarithm of a positive, finite number, within 2 units in the last place.
///
/// `x = 2^k m` with `m` about 1; `ln m` is twice the inverse hyperbolic tangent of
/// `(m - 1) / (m + 1)`, whose series ends soon.
#[inline]
pub(crate) fn ln(x: f64) -> f64 {
    debug_assert!(x > 0.0 && x.is_finite(), "the logarithm of {x}");
    let (x, shift) = match x < f64::MIN_POSITIVE {
        true => (x * (1_u64 << 54) as f64, -54),
        false => (x, 0),
    };
    let bits = x.to_bits();
    let exponent = (bits >> FRACTION_BITS) as i64 - EXPONENT_BIAS + shift;
    let fraction = bits & ((1 << FRACTION_BITS) - 1);
    let mantissa = f64::from_bits(fraction | (EXPONENT_BIAS as u64) << FRACTION_BITS);
    let (mantissa, exponent) = match mantissa > SQRT_2 {
        true => (mantissa * 0.5, exponent + 1),
        false => (mantissa, exponent),
    };
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let (fourth, even_odd) = (square * square, &LN_FACTORS);
    // Two sums, of even and of odd places: half as long a chain of dependent operations.
    let even = polynomial(fourth, [0, 2, 4, 6, 8, 10].map(|i| even_odd[i]));
    let odd = polynomial(fourth, [1, 3, 5, 7, 9].map(|i| even_odd[i]));
    let rest = ratio * square * (even + square * odd);
    let exponent = exponent as f64;
    exponent * LN_2_HIGH + (2.0 * ratio + (rest + exponent * LN_2_LOW))
}

/// The exponential of a finite number, within 2 units in the last place; beyond what a double
/// holds, 0 or infinity.
#[inline]
pub(crate) fn exp(x: f64) -> f64 {
    if x > 709.79 {
        return f64::INFINITY;
    }
    if x < -745.2 {
        return 0.0;
    }
    let half = if x < 0.0 { -0.5 } else { 0.5 };
    let power = (x * LOG2_E + half) as i64;
    let rest = (x - power as f64 * LN_2_HIGH) - power as f64 * LN_2_LOW;
    let square = rest * rest;
    let even = polynomial(square, [0, 2, 4, 6, 8, 10, 12].map(|i| EXP_FACTORS[i]));
    let odd = polynomial(square, [1, 3, 5, 7, 9, 11].map(|i| EXP_FACTORS[i]));
    let value = 1.0 + (rest + square * (even + rest * odd));
    // In two steps: a power of two next to the least double or the greatest is none itself.
    let first = power / 2;
    value * power_of_two(first) * power_of_two(power - first)
}

/// `x` to the power of `y`, for a positive `x`: within `3 + 4 |y ln x|` units in the last place.
#[inline]
pub(crate) fn pow(x: f64, y: f64) -> f64 {
    exp(y * ln(x))
}

/// `(exp(x) - 1) / x`, also next to 0, where the difference would lose all digits.
pub(crate) fn exp_less_one_by(x: f64) -> f64 {
    if x.abs() > 0.5 {
        return (exp(x) - 1.0) / x;
    }
    let factors = EXP_FACTORS.iter().rev();
    1.0 + x * factors.fold(0.0, |sum, factor| sum * x + factor)
}

/// `ln(1 + x) / x` for `x > -1`, also next to 0.
pub(crate) fn ln_one_plus_by(x: f64) -> f64 {
    if x.abs() > 0.25 {
        return ln(1.0 + x) / x;
    }
    // As in `ln`, with 1 + x in the place of the mantissa: (x / (2 + x)), which loses no digit.
    let ratio = x / (2.0 + x);
    let factors = LN_FACTORS.iter().rev();
    let square = ratio * ratio;
    let sum = factors.fold(0.0, |sum, factor| sum * square + factor);
    (2.0 + square * sum) / (2.0 + x)
}

/// The gamma function for `x > 0`, to 13 digits.
pub(crate) fn gamma(x: f64) -> f64 {
    let (stirling, product) = gamma_parts(x);
    exp(stirling) / product
}

/// The logarithm of the gamma function for `x > 0`.
pub(crate) fn gamma_ln(x: f64) -> f64 {
    let (stirling, product) = gamma_parts(x);
    stirling - ln(product)
}

/// Stirling's series where it is exact, and the product by which the gamma function is moved there.
fn gamma_parts(x: f64) -> (f64, f64) {
    let (mut moved, mut product) = (x, 1.0);
    while moved < 16.0 {
        product *= moved;
        moved += 1.0;
    }
    let inverse = 1.0 / moved;
    let square = inverse * inverse;
    let terms = [
        1.0 / 12.0,
        -1.0 / 360.0,
        1.0 / 1260.0,
        -1.0 / 1680.0,
        1.0 / 1188.0,
        -691.0 / 360_360.0,
    ];
    let series = inverse * polynomial(square, terms);
    let stirling = (moved - 0.5) * ln(moved) - moved + HALF_LN_TWO_PI + series;
    (stirling, product)
}

/// The polynomial of these factors, the one of the lowest power first.
#[inline]
fn polynomial<const N: usize>(x: f64, factors: [f64; N]) -> f64 {
    { factors.iter().rev() }.fold(0.0, |sum, factor| sum * x + factor)
}

/// 2 to a power from -1022 to 1023.
#[inline]
fn power_of_two(power: i64) -> f64 {
    f64::from_bits(((power + EXPONENT_BIAS) as u64) << FRACTION_BITS)
}

#[cfg(test)]
mod tests {
    use lineside_time::Random;

    use super::*;

    /// How many doubles lie between two of one sign.
    fn ulps(one: f64, other: f64) -> u64 {
        one.to_bits().abs_diff(other.to_bits())
    }

    /// Numbers of all sizes.
    fn numbers(count: usize) -> impl Iterator<Item = f64> {
        let mut random = Random::new(11);
        (0..count)
            .map(move |_| f64::from_bits(random.bits() >> 1))
            .filter(|x| x.is_finite())
    }

    #[test]
    fn logarithms_are_the_standard_librarys_to_2_ulp() {
        let near_one = (1..200_000).map(|k| 0.4 + f64::from(k) * 1e-5);
        let edges = [
            f64::MIN_POSITIVE,
            5e-324,
            f64::MAX,
            1.0,
            SQRT_2,
            1.0 + f64::EPSILON,
        ];
        for x in numbers(200_000).chain(near_one).chain(edges) {
            if x > 0.0 {
                assert!(
                    ulps(ln(x), x.ln()) <= 2,
                    "ln({x:e}): {:e}, {:e}",
                    ln(x),
                    x.ln()
                );
            }
        }
    }

    #[test]
    fn exponentials_are_the_standard_librarys_to_2_ulp() {
        for k in -744_000..709_700 {
            let x = f64::from(k) * 1e-3 + 1e-5 / 3.0;
            let (ours, theirs) = (exp(x), x.exp());
            assert!(ulps(ours, theirs) <= 2, "exp({x}): {ours:e}, {theirs:e}");
        }
        assert_eq!(
            (exp(0.0), exp(-800.0), exp(800.0)),
            (1.0, 0.0, f64::INFINITY)
        );
        assert!(exp(709.78) > 1.7e308 && exp(709.78).is_finite());
    }

    #[test]
    fn powers_are_as_exact_as_promised() {
        let mut random = Random::new(5);
        for _ in 0..200_000 {
            let x = (random.bits() >> 11) as f64 / (1_u64 << 53) as f64 * 10.0 + 1e-9;
            let y = (random.bits() >> 11) as f64 / (1_u64 << 53) as f64 * 40.0 - 20.0;
            let (ours, theirs) = (pow(x, y), x.powf(y));
            let allowed = 3.0 + 4.0 * (y * x.ln()).abs();
            assert!(
                ulps(ours, theirs) as f64 <= allowed,
                "{x}^{y}: {ours:e}, {theirs:e}"
            );
        }
    }

    #[test]
    fn differences_next_to_zero_keep_their_digits() {
        for k in -4_000..4_000 {
            for scale in [1e-3, 1e-7, 1e-12] {
                let x = f64::from(k) * scale;
                if x == 0.0 {
                    continue;
                }
                let (ours, theirs) = (exp_less_one_by(x), x.exp_m1() / x);
                assert!((ours / theirs - 1.0).abs() < 2e-15, "{x}: {ours} {theirs}");
                if x > -1.0 {
                    let (ours, theirs) = (ln_one_plus_by(x), x.ln_1p() / x);
                    assert!((ours / theirs - 1.0).abs() < 2e-15, "{x}: {ours} {theirs}");
                }
            }
        }
        assert_eq!((exp_less_one_by(0.0), ln_one_plus_by(0.0)), (1.0, 1.0));
    }

    #[test]
    fn the_gamma_function_is_that_of_factorials_and_halves() {
        let mut factorial = 1.0;
        for n in 1..30 {
            let n = f64::from(n);
            assert!((gamma(n) / factorial - 1.0).abs() < 1e-13, "{n}");
            factorial *= n;
        }
        assert!((gamma(0.5) / std::f64::consts::PI.sqrt() - 1.0).abs() < 1e-13);
        assert!((gamma(1.5) * 2.0 / std::f64::consts::PI.sqrt() - 1.0).abs() < 1e-13);
    }
}
