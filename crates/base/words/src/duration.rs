//! Times with units.

use std::fmt;

use crate::is_negative;

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DurationError {
    text: String,
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_negative(&self.text) {
            return write!(f, "'{}' must not be negative", self.text);
        }
        write!(
            f,
            "'{}' is not a time: write a number and a unit, such as 100us, 2ms or 60s",
            self.text
        )
    }
}

impl std::error::Error for DurationError {}

const UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Nanoseconds of a text such as `100us`, `2ms`, `1.5s`, `10min`, `1h`, `30d`.
pub fn parse_duration(text: &str) -> Result<u64, DurationError> {
    let error = || DurationError {
        text: text.to_owned(),
    };
    let trimmed = text.trim();
    let (digits, factor) = UNITS
        .iter()
        .find_map(|&(unit, factor)| Some((trimmed.strip_suffix(unit)?.trim_end(), factor)))
        .ok_or_else(error)?;
    if let Ok(whole) = digits.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(error);
    }
    let number: f64 = digits.parse().map_err(|_| error())?;
    let ns = number * factor as f64;
    if !number.is_finite() || number < 0.0 || ns > u64::MAX as f64 {
        return Err(error());
    }
    Ok(ns.round() as u64)
}

/// The longest time of most settings.
pub const DAY: (u64, &str) = (86_400_000_000_000, "a day");

/// The longest time of a path file.
pub const YEAR: (u64, &str) = (365 * DAY.0, "a year");

/// Nanoseconds of a word: a time with a unit from `least_ns` to `most`, or 0 alone.
pub fn parse_time(word: &str, least_ns: u64, most: (u64, &str)) -> Result<u64, String> {
    let ns = match word {
        "0" => 0,
        _ => parse_duration(word).map_err(|error| error.to_string())?,
    };
    match ns {
        _ if ns > most.0 => Err(format!("'{word}' is more than {}", most.1)),
        _ if ns < least_ns => Err(format!(
            "'{word}' is too short: give at least {}",
            format_duration(least_ns)
        )),
        _ => Ok(ns),
    }
}

/// The shortest text that [`parse_duration`] reads back as `ns`.
pub fn format_duration(ns: u64) -> String {
    let (unit, factor) = UNITS
        .iter()
        .filter(|&&(_, factor)| ns != 0 && ns.is_multiple_of(factor))
        .max_by_key(|&&(_, factor)| factor)
        .copied()
        .unwrap_or(("ns", 1));
    format!("{}{unit}", ns / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_durations_agree() {
        for (text, ns) in [
            ("0ns", 0),
            ("100us", 100_000),
            ("2ms", 2_000_000),
            ("1.5s", 1_500_000_000),
            ("1h", 3_600_000_000_000),
            ("30d", 2_592_000_000_000_000),
            ("7min", 420_000_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(ns));
            assert_eq!(parse_duration(&format_duration(ns)), Ok(ns));
        }
        for bad in ["", "5", "ms", "-1s", "nans", "1e300h", "3 parsecs"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }
}
