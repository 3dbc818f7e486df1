//! Gaps between arrivals from a text: how it is read. What is made of them is `schedule`'s.
//!
//! ```text
//! # a comment; blank lines are skipped
//! instants in s            gaps or instants; 'in UNIT' where the numbers have none
//! 1790000000.000000250
//! 1790000000.000100500
//! ```
//!
//! Without a first line of words, the numbers are gaps with a unit each, such as `12.5us`. Of
//! instants the differences count, so that any epoch will do. Numbers are read to the picosecond,
//! digit by digit: instants since 1970 have more digits than a double holds.

use std::sync::Arc;

/// The most gaps of a file: 32 MiB of memory.
pub const GAPS_MAX: usize = 1 << 22;
const PS_PER_NS: f64 = 1_000.0;

/// The gaps of a file, in order, in units of their mean.
#[derive(Debug, Clone, PartialEq)]
pub struct GapFile {
    gaps: Arc<[f64]>,
    mean_ns: f64,
}

impl GapFile {
    /// The gaps, scaled to a mean of 1.
    pub fn gaps(&self) -> &[f64] {
        &self.gaps
    }

    /// The mean rate, a second.
    pub fn rate(&self) -> f64 {
        1e9 / self.mean_ns
    }
}

/// Units with the picoseconds of one.
const UNITS: [(&str, u128); 5] = [
    ("ns", 1_000),
    ("us", 1_000_000),
    ("ms", 1_000_000_000),
    ("min", 60_000_000_000_000),
    ("s", 1_000_000_000_000),
];

/// What the numbers of a file are.
#[derive(Debug, Clone, Copy)]
struct Form {
    are_instants: bool,
    /// Picoseconds of a number without a unit.
    unit_ps: Option<u128>,
}

/// Reads the text of a file; `name` is for errors.
pub(crate) fn read(name: &str, text: &str) -> Result<GapFile, String> {
    let mut form = Form {
        are_instants: false,
        unit_ps: None,
    };
    let (mut gaps_ps, mut before_ps) = (Vec::new(), None);
    let mut is_first = true;
    for (number, line) in (1..).zip(text.lines()) {
        let refused = |problem: String| format!("{name}, line {number}: {problem}");
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let is_words = line.starts_with(|c: char| c.is_ascii_alphabetic());
        if std::mem::take(&mut is_first) && is_words {
            form = self::form(line).map_err(refused)?;
            continue;
        }
        let ps = picoseconds(line, form.unit_ps).map_err(refused)?;
        let gap_ps = match (form.are_instants, before_ps.replace(ps)) {
            (false, _) => ps,
            (true, None) => continue,
            (true, Some(before_ps)) => ps.checked_sub(before_ps).ok_or_else(|| {
                refused("this instant is before the one above it: sort them".to_owned())
            })?,
        };
        if gaps_ps.len() == GAPS_MAX {
            return Err(refused(format!("more than {GAPS_MAX} gaps: cut the file")));
        }
        gaps_ps.push(gap_ps as f64);
    }
    let mean_ps = gaps_ps.iter().sum::<f64>() / gaps_ps.len() as f64;
    if gaps_ps.is_empty() || mean_ps <= 0.0 {
        let wanted = if form.are_instants {
            "two instants"
        } else {
            "one gap"
        };
        return Err(format!(
            "{name}: no time passes in it: it needs at least {wanted}, such as 12.5us in a line"
        ));
    }
    Ok(GapFile {
        gaps: gaps_ps.iter().map(|gap_ps| gap_ps / mean_ps).collect(),
        mean_ns: mean_ps / PS_PER_NS,
    })
}

/// `gaps [in UNIT]` or `instants [in UNIT]`.
fn form(line: &str) -> Result<Form, String> {
    let wrong = || {
        format!("'{line}' is neither a number nor 'gaps in UNIT' or 'instants in UNIT', such as us")
    };
    let words: Vec<_> = line.split_whitespace().collect();
    let are_instants = match words.first() {
        Some(&"gaps") => false,
        Some(&"instants") => true,
        _ => return Err(wrong()),
    };
    let unit_ps = match words[1..] {
        [] => None,
        ["in", unit] => {
            let found = UNITS.iter().find(|(known, _)| *known == unit);
            Some(found.ok_or_else(wrong)?.1)
        }
        _ => return Err(wrong()),
    };
    Ok(Form {
        are_instants,
        unit_ps,
    })
}

/// A decimal number with a unit, or in this one; places after the picosecond are cut.
fn picoseconds(word: &str, unit_ps: Option<u128>) -> Result<u128, String> {
    let split = word.find(|c: char| c.is_ascii_alphabetic());
    let (digits, unit) = word.split_at(split.unwrap_or(word.len()));
    let unit_ps = match (unit, unit_ps) {
        ("", Some(unit_ps)) => unit_ps,
        ("", None) => {
            return Err(format!(
                "'{word}' has no unit: write {word}us, or 'gaps in us' above"
            ));
        }
        (unit, _) => {
            let found = UNITS.iter().find(|(known, _)| *known == unit);
            found
                .ok_or_else(|| format!("'{unit}' is not ns, us, ms, s or min"))?
                .1
        }
    };
    let digits = digits.trim_end();
    let wrong = || format!("'{word}' is not a time: write a number and a unit, such as 12.5us");
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    // 12 digits of seconds are 30,000 years; 14 places of a minute are finer than a picosecond.
    let is_number = are_digits(whole) && are_digits(fraction) && whole.len() + fraction.len() > 0;
    if !is_number || whole.len() > 18 {
        return Err(wrong());
    }
    let fraction = &fraction[..fraction.len().min(14)];
    let value = |text: &str| {
        text.bytes()
            .fold(0, |sum, byte| sum * 10 + u128::from(byte - b'0'))
    };
    let places = 10_u128.pow(fraction.len() as u32);
    Ok(value(whole) * unit_ps + value(fraction) * unit_ps / places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_and_instants_are_read() {
        let gaps = read("a", "# mine\n1us\n\n3 us # long\n2000ns\n").expect("gaps");
        assert_eq!(gaps.gaps(), [0.5, 1.5, 1.0]);
        assert_eq!(gaps.rate(), 5e5);
        assert_eq!(read("a", "gaps in us\n1\n3\n2.000").expect("gaps"), gaps);
        let text = "instants in s\n1790000000.000001\n1790000000.000002\n1790000000.000005\n\
                    1790000000.000007";
        assert_eq!(read("a", text).expect("instants"), gaps);
        let fine = read("a", "gaps in ns\n0.25\n.75\n").expect("gaps");
        assert_eq!((fine.gaps(), fine.rate()), (&[0.5, 1.5][..], 2e9));
    }

    #[test]
    fn refused_files_name_the_line_and_the_way_out() {
        for (text, problem) in [
            ("", "one gap, such as 12.5us"),
            ("instants\n5s", "two instants"),
            ("0us\n0us", "no time passes"),
            ("gasp in us\n1", "line 1: 'gasp in us' is neither"),
            ("gaps in parsecs\n1", "line 1"),
            ("gaps in us\n1\n2 x", "line 3: 'x' is not ns"),
            ("5", "line 1: '5' has no unit: write 5us"),
            ("1us\n-2us", "line 2: '-2us' is not a time"),
            ("1e3us", "'e3us' is not ns"),
            ("instants in s\n5\n4", "line 3: this instant is before"),
            ("9999999999999999999s", "is not a time"),
        ] {
            let error = read("gaps.txt", text).expect_err(text);
            assert!(
                error.starts_with("gaps.txt") && error.contains(problem),
                "{error}"
            );
        }
    }
}
