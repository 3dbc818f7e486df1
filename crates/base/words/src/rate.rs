//! Rates in the words of tc(8): bits, bytes or frames a second. What may mean two things is
//! refused, with what it may have meant.

use std::fmt;

/// How much a second, in the words of tc(8) where they reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// So many bits a second, at least 1.
    Bits(u64),
    /// So many frames a second, at least 1.
    Frames(u64),
}

/// Why a text is not a rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateError {
    text: String,
    /// Texts that are rates, one of which may have been meant.
    instead: Vec<String>,
}

impl fmt::Display for RateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        match &self.instead[..] {
            [] => write!(
                f,
                "'{text}' is not a rate of 1 or more a second: write a number and a unit, such as \
                 1gbit, 250mbit, 10MB/s or 100kpps (frames)"
            ),
            [one] => write!(f, "'{text}' has no unit: write {one}"),
            [bits, bytes, ..] => write!(
                f,
                "'{text}' is bits to some and bytes to tc: write {bits} or {bytes}"
            ),
        }
    }
}

impl std::error::Error for RateError {}

/// The ends of words, with the bits of one; without, it is a frame.
const UNITS: [(&str, Option<f64>); 4] = [
    ("pps", None),
    ("bit/s", Some(1.0)),
    ("b/s", Some(8.0)),
    ("bit", Some(1.0)),
];
/// What may stand before a unit; the empty one, which always does, comes last.
const PREFIXES: [(&str, f64); 9] = [
    ("ki", 1024.0),
    ("mi", 1_048_576.0),
    ("gi", 1_073_741_824.0),
    ("ti", 1_099_511_627_776.0),
    ("k", 1e3),
    ("m", 1e6),
    ("g", 1e9),
    ("t", 1e12),
    ("", 1.0),
];

/// The rate of a text such as `1gbit`, `2.5mbit`, `10MB/s`, `100kpps`; but for the `B` of bytes in
/// small letters or large.
///
/// As with tc, `kibit` are 1,024 bits. `bps` are bytes there and bits elsewhere, so they are
/// refused, and so is a number alone. `pps`, frames a second, is ours. Rounded to whole bits or
/// frames.
pub fn parse_rate(text: &str) -> Result<Rate, RateError> {
    let text = text.trim();
    let word = text.to_ascii_lowercase();
    let error = |instead: Vec<String>| RateError {
        text: text.to_owned(),
        instead,
    };
    if is_number(&word) {
        return Err(error(vec![format!("{word}mbit, or {word}bit")]));
    }
    // `Mb/s` may be either; what is meant by a large B nobody doubts.
    if let Some(amount) = word
        .strip_suffix("bps")
        .or_else(|| text.strip_suffix("b/s"))
        && is_number(amount.trim_end_matches(['k', 'm', 'g', 't', 'K', 'M', 'G', 'T', 'i', ' ']))
    {
        let small = amount.to_ascii_lowercase();
        let large = amount
            .to_ascii_uppercase()
            .replace('K', "k")
            .replace('I', "i");
        return Err(error(vec![format!("{small}bit"), format!("{large}B/s")]));
    }
    let unit = { UNITS.iter() }.find_map(|&(unit, bits)| Some((word.strip_suffix(unit)?, bits)));
    let (rest, bits) = unit.ok_or_else(|| error(Vec::new()))?;
    let prefixed = { PREFIXES.iter() }
        .find_map(|&(prefix, factor)| Some((rest.strip_suffix(prefix)?.trim_end(), factor)));
    let (digits, factor) = prefixed.unwrap_or((rest, 1.0));
    let number: f64 = digits.parse().map_err(|_| error(Vec::new()))?;
    let per_second = number * factor * bits.unwrap_or(1.0);
    // No link comes near 10^18; whatever lies above is a slip.
    if !(0.5..=1e18).contains(&per_second) {
        return Err(error(Vec::new()));
    }
    let per_second = per_second.round() as u64;
    Ok(match bits {
        Some(_) => Rate::Bits(per_second),
        None => Rate::Frames(per_second),
    })
}

/// Whether it is a number that could be a rate.
fn is_number(word: &str) -> bool {
    let number = word.parse::<f64>();
    number.is_ok_and(|number| number.is_finite() && number > 0.0)
}

/// The most of a rate: a request a nanosecond.
const RATE_MAX: f64 = 1e9;

/// The rate a second of a word such as `10000`, `10k`, `0.5/s` or `30/min`; 0 is one.
pub fn parse_per_second(word: &str) -> Result<f64, String> {
    let refused = || {
        format!(
            "'{word}' is not a rate from 0 to {RATE_MAX} a second: write a number, such as 10000, \
             10k, 0.5/s or 30/min"
        )
    };
    let units = [("/s", 1.0), ("/min", 60.0), ("/h", 3600.0)];
    let found = { units.iter() }.find_map(|&(unit, per)| Some((word.strip_suffix(unit)?, per)));
    let (number, per) = found.unwrap_or((word, 1.0));
    let prefixes = [("k", 1e3), ("M", 1e6)];
    let found = { prefixes.iter() }
        .find_map(|&(prefix, factor)| Some((number.strip_suffix(prefix)?, factor)));
    let (digits, factor) = found.unwrap_or((number, 1.0));
    // `inf`, `nan` and `1e3` are numbers to the library; the first two fall to the bounds.
    let rate = digits.parse::<f64>().map_err(|_| refused())? * factor / per;
    match (0.0..=RATE_MAX).contains(&rate) {
        true => Ok(rate),
        false => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_tc_reads_them() {
        for (text, rate) in [
            ("1gbit", Rate::Bits(1_000_000_000)),
            ("2.5 Mbit", Rate::Bits(2_500_000)),
            ("1kibit", Rate::Bits(1024)),
            ("9600bit", Rate::Bits(9600)),
            ("10kB/s", Rate::Bits(80_000)),
            ("1 MiB/s", Rate::Bits(8 << 20)),
            ("10Mbit/s", Rate::Bits(10_000_000)),
            ("0.5tbit", Rate::Bits(500_000_000_000)),
            ("100kpps", Rate::Frames(100_000)),
            ("7pps", Rate::Frames(7)),
        ] {
            assert_eq!(parse_rate(text), Ok(rate), "{text}");
        }
        for bad in [
            "", "bit", "kbit", "-1gbit", "0", "0.1pps", "nanbit", "1e99gbit", "5k", "1 parsec",
            "infpps",
        ] {
            let error = parse_rate(bad).expect_err(bad).to_string();
            assert!(
                error.starts_with(&format!("'{bad}' is not a rate")),
                "{error}"
            );
        }
    }

    #[test]
    fn rates_that_may_mean_two_things_are_refused() {
        for (text, advice) in [
            (
                "10Mbps",
                "bits to some and bytes to tc: write 10mbit or 10MB/s",
            ),
            ("1.5 kbps", "write 1.5 kbit or 1.5 kB/s"),
            ("3Mib/s", "write 3mibit or 3MiB/s"),
            ("800bps", "write 800bit or 800B/s"),
            ("10", "'10' has no unit: write 10mbit, or 10bit"),
        ] {
            let error = parse_rate(text).expect_err(text).to_string();
            assert!(error.ends_with(advice), "{error}");
        }
    }

    #[test]
    fn rates_are_numbers_with_and_without_units() {
        for (text, expected) in [
            ("10000", 10_000.0),
            ("10k", 10_000.0),
            ("1.5M", 1_500_000.0),
            ("0.5/s", 0.5),
            ("30/min", 0.5),
            ("1800/h", 0.5),
            ("2k/min", 2000.0 / 60.0),
            ("0", 0.0),
        ] {
            assert_eq!(parse_per_second(text), Ok(expected), "{text}");
        }
        for bad in ["", "k", "inf", "nan", "2e9", "10 k", "-1", "5/d", "/s"] {
            let error = parse_per_second(bad).expect_err(bad);
            assert!(error.contains("0.5/s"), "{error}");
        }
    }
}
