//! Which of many keys a request asks for: by Zipf's law, evenly, or in order. Keys are numbers;
//! what text they become is `template`'s.

use std::fmt;
use std::str::FromStr;

use lineside_time::Random;
use lineside_words::{WordError, Words};

use crate::MARKS;
use crate::draw;
use crate::math::{exp, exp_less_one_by, ln, ln_one_plus_by};

/// The most keys.
pub const KEYS_MAX: u64 = 1 << 32;

/// A distribution over keys from 0 on.
///
/// | words | keys |
/// |---|---|
/// | `zipf 0.99 over 1000000` | key k with a weight of (k + 1)^-0.99 |
/// | `uniform over 1000000` | each as likely as the others |
/// | `sequential over 1000000` | in order, from 0 again after the last |
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Keys {
    order: Order,
    count: u64,
    zipf: Zipf,
}

/// How keys are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Order {
    /// By Zipf's law with this exponent, from 0 to 10: the first key is the most frequent.
    Zipf(f64),
    /// Each as likely as the others.
    Uniform,
    /// In the order of requests.
    Sequential,
}

const ORDERS: [&str; 3] = ["zipf", "uniform", "sequential"];

impl Keys {
    /// Keys from 0 to `count` - 1, of which there is at least one.
    fn new(order: Order, count: u64) -> Self {
        let exponent = match order {
            Order::Zipf(exponent) => exponent,
            _ => 0.0,
        };
        Self {
            order,
            count,
            zipf: Zipf::new(count, exponent),
        }
    }

    /// How many keys there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How keys are chosen.
    pub fn order(&self) -> Order {
        self.order
    }

    /// The key for this ordinal: a function of the two alone.
    #[inline]
    pub fn draw(&self, seed: u64, ordinal: u64) -> u64 {
        match self.order {
            Order::Sequential => ordinal % self.count,
            Order::Uniform => draw::at(seed, ordinal).below(self.count),
            Order::Zipf(_) => self.zipf.draw(&mut draw::at(seed, ordinal)) - 1,
        }
    }
}

impl FromStr for Keys {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        let mut words = Words::with_marks("keys", text, MARKS);
        let order = match words.next_word() {
            None => return Err(words.missing("a model, such as 'zipf 0.99 over 1000000',")),
            Some((_, "zipf")) => {
                Order::Zipf(words.number("an exponent, such as 0.99,", 0.0, 10.0)?)
            }
            Some((_, "uniform")) => Order::Uniform,
            Some((_, "sequential")) => Order::Sequential,
            Some((column, word)) => return Err(words.unknown(column, word, &ORDERS)),
        };
        words.expect("over")?;
        let count = words.parsed("a number of keys, such as 1000000,", |word| {
            let count = word.parse::<u64>().ok();
            let count = count.filter(|count| (1..=KEYS_MAX).contains(count));
            count.ok_or_else(|| format!("'{word}' is not a number of keys from 1 to {KEYS_MAX}"))
        })?;
        words.end()?;
        Ok(Self::new(order, count))
    }
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.order {
            Order::Zipf(exponent) => write!(f, "zipf {exponent} over {}", self.count),
            Order::Uniform => write!(f, "uniform over {}", self.count),
            Order::Sequential => write!(f, "sequential over {}", self.count),
        }
    }
}

/// Draws ranks from 1 on by rejection-inversion: Hörmann and Derflinger, "Rejection-inversion to
/// generate variates from monotone discrete distributions", ACM TOMACS 6(3), 1996. It is exact,
/// takes no table, and rejects few draws whatever count and exponent are.
///
/// The histogram of the weights is covered by the area under `x^-s`, from 1/2 to count + 1/2; a
/// point drawn evenly from that area, by the inverse of its integral, is kept where it lies in the
/// histogram.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Zipf {
    count: f64,
    exponent: f64,
    /// Integrals up to the ends: the first bar is kept whole, and begins where its area does.
    first: f64,
    last: f64,
    /// A rank that rounding moved up by less than this is in the histogram.
    sure: f64,
}

impl Zipf {
    fn new(count: u64, exponent: f64) -> Self {
        let mut zipf = Self {
            count: count as f64,
            exponent,
            first: 0.0,
            last: 0.0,
            sure: 0.0,
        };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(count as f64 + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    #[inline]
    fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.last + draw::unit(random) * (self.first - self.last);
            let x = self.inverse(area);
            let rank = ((x + 0.5) as i64 as f64).clamp(1.0, self.count);
            if rank - x <= self.sure || area >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u64;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        exp(-self.exponent * ln(x))
    }

    /// The integral of `x^-s` from 1 to x, also for s = 1 and next to it.
    fn integral(&self, x: f64) -> f64 {
        let log = ln(x);
        log * exp_less_one_by((1.0 - self.exponent) * log)
    }

    /// The inverse of [`integral`](Self::integral).
    fn inverse(&self, area: f64) -> f64 {
        // At the far end of a steep exponent rounding may reach the integral's limit.
        let moved = ((1.0 - self.exponent) * area).max(-1.0 + f64::EPSILON);
        exp(area * ln_one_plus_by(moved))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Keys {
        text.parse().expect(text)
    }

    #[test]
    fn keys_print_the_words_that_they_are_read_from() {
        for text in [
            "zipf 0.99 over 1000000",
            "uniform over 4294967296",
            "sequential over 1",
        ] {
            assert_eq!(keys(text).to_string(), text);
        }
    }

    #[test]
    fn frequencies_are_those_of_zipfs_law() {
        for (exponent, count) in [
            (0.0, 10_u64),
            (0.5, 1000),
            (0.99, 100_000),
            (1.0, 10),
            (1.0, 1_000_000),
            (1.2, 5000),
            (3.0, 50),
            (10.0, 1 << 32),
            (0.7, 1),
            (1.01, 2),
        ] {
            let keys = keys(&format!("zipf {exponent} over {count}"));
            let draws = 200_000_u32;
            let mut seen = [0_u32; 20];
            for ordinal in 0..u64::from(draws) {
                let key = keys.draw(11, ordinal);
                assert!(key < count);
                if let Some(seen) = seen.get_mut(key as usize) {
                    *seen += 1;
                }
            }
            // By summation, of which the tail beyond a million is nothing at these exponents.
            let weight = |rank: u64| (rank as f64).powf(-exponent);
            let sum: f64 = (1..=count.min(1_000_000)).map(weight).sum();
            for (rank, &seen) in (1..=count).zip(&seen) {
                let share = weight(rank) / sum;
                let expected = share * f64::from(draws);
                let error = (expected * (1.0 - share)).sqrt();
                let off = (f64::from(seen) - expected).abs();
                assert!(
                    off <= 4.5 * error + 1e-6,
                    "{exponent} over {count}: {rank} came {seen}"
                );
            }
        }
    }

    #[test]
    fn the_rarest_of_4_billion_keys_come_too() {
        let keys = keys("zipf 0.5 over 4294967296");
        // The upper half has 1 - sqrt(1/2) of the weight.
        let draws = (0..100_000).filter(|&ordinal| keys.draw(2, ordinal) >= 1 << 31);
        let count = draws.count();
        assert!(count.abs_diff(29_289) < 600, "{count}");
    }

    #[test]
    fn other_orders_are_even_or_in_order() {
        let sequential = keys("sequential over 3");
        let drawn: Vec<_> = (0..7).map(|ordinal| sequential.draw(1, ordinal)).collect();
        assert_eq!(drawn, [0, 1, 2, 0, 1, 2, 0]);
        let uniform = keys("uniform over 4");
        let count = (0..40_000)
            .filter(|&ordinal| uniform.draw(1, ordinal) == 3)
            .count();
        assert!(count.abs_diff(10_000) < 400, "{count}");
    }

    #[test]
    fn refused_keys_name_the_column_and_the_way_out() {
        for (text, column, advice) in [
            ("", 1, "such as 'zipf 0.99 over 1000000'"),
            ("zpif 1 over 5", 1, "nearest known word is zipf"),
            ("zipf over 5", 6, "not a number from 0 to 10"),
            ("zipf 1 of 5", 8, "nearest known word is over"),
            ("uniform over 0", 14, "from 1 to 4294967296"),
            ("uniform over -1", 14, "must not be negative"),
            ("uniform over 5 keys", 16, "one word too many"),
        ] {
            let error = text.parse::<Keys>().expect_err(text);
            assert_eq!(error.column, column, "{error}");
            assert!(error.to_string().contains(advice), "{error}");
        }
    }
}
