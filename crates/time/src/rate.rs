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
}

impl fmt::Display for RateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is not a rate of 1 or more a second: write a number and a unit, such as 1gbit, \
             250mbit, 10kbps (bytes) or 100kpps (frames)",
            self.text
        )
    }
}

impl std::error::Error for RateError {}

/// The ends of words, with the bits of one; without, it is a frame.
const UNITS: [(&str, Option<f64>); 3] = [
    ("pps", None),
    // As tc has it: bytes.
    ("bps", Some(8.0)),
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

/// The rate of a text such as `1gbit`, `2.5mbit`, `100kpps`, in small letters or large.
///
/// As with tc, `bps` are bytes a second, `kibit` 1,024 bits, and a number alone is bits. `pps`,
/// frames a second, is ours. Rounded to whole bits or frames.
pub fn parse_rate(text: &str) -> Result<Rate, RateError> {
    let word = text.trim().to_ascii_lowercase();
    let error = || RateError {
        text: text.to_owned(),
    };
    let unit = { UNITS.iter() }.find_map(|&(unit, bits)| Some((word.strip_suffix(unit)?, bits)));
    let (rest, bits) = unit.unwrap_or((&word, Some(1.0)));
    let prefixed = { PREFIXES.iter() }
        .find_map(|&(prefix, factor)| Some((rest.strip_suffix(prefix)?.trim_end(), factor)));
    let (digits, factor) = prefixed.filter(|_| unit.is_some()).unwrap_or((rest, 1.0));
    let number: f64 = digits.parse().map_err(|_| error())?;
    let per_second = number * factor * bits.unwrap_or(1.0);
    // No link comes near 10^18; whatever lies above is a slip.
    if !(0.5..=1e18).contains(&per_second) {
        return Err(error());
    }
    let per_second = per_second.round() as u64;
    Ok(match bits {
        Some(_) => Rate::Bits(per_second),
        None => Rate::Frames(per_second),
    })
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
            ("9600", Rate::Bits(9600)),
            ("9600bit", Rate::Bits(9600)),
            ("10kbps", Rate::Bits(80_000)),
            ("1mibps", Rate::Bits(8 << 20)),
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
}
