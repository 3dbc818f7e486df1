//! The words of sizes and times, and tables of them in files. Drawing is `sizes`'s.

use std::fmt;

use lineside_words::{DAY, WordError, Words, format_duration, parse_share, parse_time, share};

use crate::arrivals::{
    alpha, gamma_width, generalized_pareto_shape, lognormal_width, weibull_shape,
};
use crate::sizes::{Centre, Family, ROWS_MAX, SizeModel, Sizes, Unit, VALUE_MAX};
use crate::{LoadFile, MARKS};

impl Sizes {
    /// Reads the words of the table at its type; `setting` names them in errors, and `load` reads a
    /// file.
    pub fn parse(
        setting: &'static str,
        text: &str,
        unit: Unit,
        load: LoadFile<'_>,
    ) -> Result<Self, WordError> {
        let model = model(&mut Words::with_marks(setting, text, MARKS), unit, load)?;
        Ok(Self::new(model, unit))
    }
}

impl fmt::Display for Sizes {
    /// The words that [`parse`](Self::parse) reads as the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |value: u64| format(value, self.unit);
        let write_max = |f: &mut fmt::Formatter<'_>, max: Option<u64>| match max {
            Some(max) => write!(f, " max {}", value(max)),
            None => Ok(()),
        };
        match self.model() {
            &SizeModel::Constant(constant) => write!(f, "constant {}", value(constant)),
            &SizeModel::Uniform(low, high) => write!(f, "uniform {}..{}", value(low), value(high)),
            &SizeModel::Shaped {
                family,
                centre,
                max,
            } => {
                let centre = match centre {
                    Centre::Mean(mean) => format!("mean {}", value(mean)),
                    Centre::Median(median) => format!("median {}", value(median)),
                };
                match family {
                    Family::Exponential => write!(f, "exponential {centre}")?,
                    Family::Gamma(width) => write!(f, "gamma {centre} {width}")?,
                    Family::Weibull(shape) => write!(f, "weibull {centre} shape {shape}")?,
                    Family::GeneralizedPareto(shape) => {
                        write!(f, "generalized-pareto {centre} shape {shape}")?;
                    }
                    Family::Lognormal(width) => write!(f, "lognormal {centre} {width}")?,
                }
                write_max(f, max)
            }
            &SizeModel::Pareto { min, alpha, max } => {
                write!(f, "pareto min {} alpha {alpha}", value(min))?;
                write_max(f, max)
            }
            SizeModel::Table(rows) | SizeModel::Cdf(rows) => {
                let is_table = matches!(self.model(), SizeModel::Table(_));
                f.write_str(if is_table { "table" } else { "cdf" })?;
                for (number, &(row, share)) in rows.iter().enumerate() {
                    let comma = if number > 0 { "," } else { "" };
                    // Twelve decimals hide what the division by 100 changed.
                    let percent = (share * 1e14).round() / 1e12;
                    write!(f, "{comma} {}:{percent}%", value(row))?;
                }
                Ok(())
            }
            SizeModel::File { name, .. } => write!(f, "file {name}"),
        }
    }
}

const MODELS: [&str; 11] = [
    "constant",
    "uniform",
    "exponential",
    "gamma",
    "weibull",
    "lognormal",
    "pareto",
    "generalized-pareto",
    "table",
    "cdf",
    "file",
];

/// Shares may be written to this many digits that they add up to 100 % only within this.
const SHARE_ERROR: f64 = 1e-6;

pub(crate) fn model(
    words: &mut Words<'_>,
    unit: Unit,
    load: LoadFile<'_>,
) -> Result<SizeModel, WordError> {
    let Some(word) = words.peek() else {
        let example = unit.example();
        return Err(words.missing(&format!("a value, such as {example}, or a model")));
    };
    let column = words.column();
    let model = if word.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.') {
        SizeModel::Constant(next_value(words, unit, 0)?)
    } else {
        words.next_word();
        match word {
            "constant" => SizeModel::Constant(next_value(words, unit, 0)?),
            "uniform" => uniform(words, unit)?,
            "exponential" => {
                let centre = mean(words, unit)?;
                shaped(words, Family::Exponential, centre, unit)?
            }
            "gamma" => {
                let centre = mean(words, unit)?;
                let width = gamma_width(words)?;
                shaped(words, Family::Gamma(width), centre, unit)?
            }
            "weibull" => {
                let centre = mean(words, unit)?;
                let shape = weibull_shape(words)?;
                shaped(words, Family::Weibull(shape), centre, unit)?
            }
            "lognormal" => {
                let centre = centre(words, unit)?;
                let width = lognormal_width(words)?;
                shaped(words, Family::Lognormal(width), centre, unit)?
            }
            "pareto" => pareto(words, unit)?,
            "generalized-pareto" => {
                let centre = mean(words, unit)?;
                let shape = generalized_pareto_shape(words)?;
                shaped(words, Family::GeneralizedPareto(shape), centre, unit)?
            }
            "table" => table(words, unit)?,
            "cdf" => cdf(words, unit)?,
            "file" => file(words, unit, load)?,
            _ => return Err(words.unknown(column, word, &MODELS)),
        }
    };
    words.end()?;
    Ok(model)
}

impl Unit {
    fn example(self) -> &'static str {
        match self {
            Self::Bytes => "4KiB",
            Self::Time => "100us",
        }
    }
}

/// The value of a word, from `least` to [`VALUE_MAX`].
fn value(word: &str, unit: Unit, least: u64) -> Result<u64, String> {
    let value = match unit {
        Unit::Bytes => bytes(word)?,
        Unit::Time => parse_time(word, 0, DAY)?,
    };
    match value {
        _ if value < least => Err(format!("'{word}' is too small: give {}", unit.example())),
        _ if value > VALUE_MAX => Err(format!("'{word}' is more than 1PiB")),
        _ => Ok(value),
    }
}

/// Units of bytes; the longer ones come first, as each ends in the last one.
const SIZES: [(&str, f64); 8] = [
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("B", 1.0),
    ("", 1.0),
];

fn bytes(word: &str) -> Result<u64, String> {
    let refused = || {
        format!("'{word}' is not a size: write bytes, or a number with kB, KiB, MB, MiB, GB or GiB")
    };
    let found =
        { SIZES.iter() }.find_map(|&(unit, factor)| Some((word.strip_suffix(unit)?, factor)));
    let (digits, factor) = found.ok_or_else(refused)?;
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let number = digits.parse::<f64>().ok().filter(|_| is_number);
    let bytes = number.ok_or_else(refused)? * factor;
    match bytes == bytes.trunc() && bytes < 1e18 {
        true => Ok(bytes as u64),
        false => Err(format!(
            "'{word}' is not a whole number of bytes below 1e18"
        )),
    }
}

/// A value as [`value`] reads it.
pub(crate) fn format(value: u64, unit: Unit) -> String {
    if unit == Unit::Time {
        return format_duration(value);
    }
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let fits = |&&(_, factor): &&(&str, u64)| value > 0 && value.is_multiple_of(factor);
    let (unit, factor) = units.iter().find(fits).copied().unwrap_or(("", 1));
    format!("{}{unit}", value / factor)
}

fn next_value(words: &mut Words<'_>, unit: Unit, least: u64) -> Result<u64, WordError> {
    let what = format!("a value, such as {}", unit.example());
    words.parsed(&what, |word| value(word, unit, least))
}

fn uniform(words: &mut Words<'_>, unit: Unit) -> Result<SizeModel, WordError> {
    let what = match unit {
        Unit::Bytes => "a range, such as 1KiB..64KiB",
        Unit::Time => "a range, such as 1ms..5ms",
    };
    words.parsed(what, |word| {
        let (low, high) = word
            .split_once("..")
            .ok_or_else(|| format!("'{word}' is not {what}"))?;
        let (low, high) = (value(low, unit, 0)?, value(high, unit, 0)?);
        match low <= high {
            true => Ok(SizeModel::Uniform(low, high)),
            false => Err(format!("'{word}' goes down: write the smaller value first")),
        }
    })
}

fn mean(words: &mut Words<'_>, unit: Unit) -> Result<Centre, WordError> {
    words.expect("mean")?;
    Ok(Centre::Mean(next_value(words, unit, 1)?))
}

fn centre(words: &mut Words<'_>, unit: Unit) -> Result<Centre, WordError> {
    match words.next_word() {
        Some((_, "mean")) => Ok(Centre::Mean(next_value(words, unit, 1)?)),
        Some((_, "median")) => Ok(Centre::Median(next_value(words, unit, 1)?)),
        Some((column, word)) => Err(words.unknown(column, word, &["mean", "median"])),
        None => Err(words.missing(&format!("median and a value, such as {},", unit.example()))),
    }
}

fn shaped(
    words: &mut Words<'_>,
    family: Family,
    centre: Centre,
    unit: Unit,
) -> Result<SizeModel, WordError> {
    Ok(SizeModel::Shaped {
        family,
        centre,
        max: max(words, unit, 1)?,
    })
}

fn max(words: &mut Words<'_>, unit: Unit, least: u64) -> Result<Option<u64>, WordError> {
    match words.peek() {
        None => Ok(None),
        Some(_) => {
            words.expect("max")?;
            let column = words.column();
            let max = next_value(words, unit, 1)?;
            match max >= least {
                true => Ok(Some(max)),
                false => Err(words.error(column, "max must be above min")),
            }
        }
    }
}

fn pareto(words: &mut Words<'_>, unit: Unit) -> Result<SizeModel, WordError> {
    words.expect("min")?;
    let min = next_value(words, unit, 1)?;
    let alpha = alpha(words, 0.1)?;
    // With both the same, all would be min, and the share above it would be none.
    let max = max(words, unit, min + 1)?;
    Ok(SizeModel::Pareto { min, alpha, max })
}

/// Values with their shares.
fn table(words: &mut Words<'_>, unit: Unit) -> Result<SizeModel, WordError> {
    let begin = words.column();
    let rows = shares(words, unit)?;
    let sum: f64 = rows.iter().map(|row| row.1).sum();
    if (sum - 1.0).abs() > SHARE_ERROR {
        let percent = sum * 100.0;
        let problem = format!("the shares add up to {percent}%: make it 100%");
        return Err(words.error(begin, problem));
    }
    Ok(SizeModel::Table(rows.into()))
}

/// Values with the shares up to them.
fn cdf(words: &mut Words<'_>, unit: Unit) -> Result<SizeModel, WordError> {
    let begin = words.column();
    let rows = shares(words, unit)?;
    let rises = |two: &[(u64, f64)]| two[0].0 <= two[1].0 && two[0].1 < two[1].1;
    if !rows.windows(2).all(rises) {
        let problem = "values and shares must rise: sort them, shares summed";
        return Err(words.error(begin, problem));
    }
    let last = rows.last().map_or(0.0, |row| row.1);
    if (last - 1.0).abs() > SHARE_ERROR {
        let percent = last * 100.0;
        let problem = format!("the last share is {percent}%: make it 100%");
        return Err(words.error(begin, problem));
    }
    Ok(SizeModel::Cdf(rows.into()))
}

/// `VALUE:SHARE%`, with commas between.
fn shares(words: &mut Words<'_>, unit: Unit) -> Result<Vec<(u64, f64)>, WordError> {
    let mut rows = Vec::new();
    loop {
        if rows.len() == ROWS_MAX {
            return Err(words.error(words.column(), format!("more than {ROWS_MAX} rows")));
        }
        rows.push(
            words.parsed("a value and its share, such as 64:90%", |word| {
                let wrong = || format!("'{word}' is not a value and its share, such as 64:90%");
                let (number, share) = word.split_once(':').ok_or_else(wrong)?;
                let share = self::share(share).ok_or_else(wrong)?;
                Ok((value(number, unit, 0)?, share))
            })?,
        );
        if words.peek().is_none() {
            break;
        }
        words.expect(",")?;
    }
    Ok(rows)
}

fn file(words: &mut Words<'_>, unit: Unit, load: LoadFile<'_>) -> Result<SizeModel, WordError> {
    let (column, name) = words.rest();
    if name.is_empty() {
        return Err(words.missing("the name of a file"));
    }
    let rows = load(name).and_then(|text| rows(name, &text, unit));
    Ok(SizeModel::File {
        name: name.to_owned(),
        rows: rows.map_err(|problem| words.error(column, problem))?.into(),
    })
}

/// Rows of a value and the share up to it, which ends in 1, or in 100 %; `#` begins a comment.
fn rows(name: &str, text: &str, unit: Unit) -> Result<Vec<(u64, f64)>, String> {
    let mut rows: Vec<(u64, f64)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let refused = |problem: String| format!("{name}, line {number}: {problem}");
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let row = row(line, unit).map_err(refused)?;
        let before = rows.last().copied().unwrap_or_default();
        let is_first = rows.is_empty();
        if !is_first && (row.0 < before.0 || row.1 <= before.1) {
            let problem = "values and shares must rise from line to line: sort them, shares summed";
            return Err(refused(problem.to_owned()));
        }
        if rows.len() == ROWS_MAX {
            return Err(refused(format!(
                "more than {ROWS_MAX} rows: leave some away"
            )));
        }
        rows.push(row);
    }
    let last = rows.last().map_or(0.0, |row| row.1);
    if (last - 1.0).abs() > SHARE_ERROR {
        return Err(format!(
            "{name}: the last share is {last}, and must be 1 (or 100%)"
        ));
    }
    Ok(rows)
}

fn row(line: &str, unit: Unit) -> Result<(u64, f64), String> {
    let wrong = || {
        let example = unit.example();
        format!("'{line}' is not a value and the share up to it, such as '{example} 0.35'")
    };
    let mut words = line
        .split([' ', '\t', ',', ';'])
        .filter(|word| !word.is_empty());
    let (Some(number), Some(share), None) = (words.next(), words.next(), words.next()) else {
        return Err(wrong());
    };
    let share = parse_share(share).ok_or_else(wrong)?;
    Ok((value(number, unit, 0)?, share))
}
