//! Numbers as text, with their places, and tables: netem's `.dist`, the original hardware's `.coe`,
//! and plain samples.

use std::fmt::Write;

use crate::table::{Table, TableError, Unit};

/// What the original hardware adds to an entry of netem's, to have it unsigned.
const COE_OFFSET: i64 = 32_768;
const COE_RADIX: &str = "memory_initialization_radix";
const COE_VECTOR: &str = "memory_initialization_vector";

/// Why a text is not a table; lines and columns count from 1, columns in bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// A word that is no number.
    #[error("line {line}, column {column}: '{word}' is not a number{hint}")]
    NotANumber {
        /// Where.
        line: usize,
        /// Where.
        column: usize,
        /// The word, cut after 32 characters.
        word: String,
        /// What to write, or nothing.
        hint: &'static str,
    },
    /// A number outside what the format bears.
    #[error("line {line}, column {column}: {value} lies outside {low} to {high}")]
    OutOfRange {
        /// Where.
        line: usize,
        /// Where.
        column: usize,
        /// The number.
        value: i64,
        /// The least that it may be.
        low: i64,
        /// The most that it may be.
        high: i64,
    },
    /// Milliseconds that run backwards, or too many.
    #[error(
        "line {line}, column {column}: milliseconds rise or stay, and 20 million lines are the most"
    )]
    OutOfOrder {
        /// Where.
        line: usize,
        /// Where.
        column: usize,
    },
    /// A trace of deliveries that takes no time.
    #[error("no line is later than 0 ms: the last line gives the length of a trace")]
    NoTime,
    /// A line of a path file.
    #[error("line {line}, column {column}: {problem}")]
    Malformed {
        /// Where.
        line: usize,
        /// Where.
        column: usize,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// The numbers are not a table.
    #[error(transparent)]
    Table(#[from] TableError),
}

/// A table from netem's `.dist` text or from the original's `.coe`, which is known by its first
/// word. Both are [`Unit::Deviations`].
///
/// tc(8) ignores the rest of a line after a word that is not a number, and lets entries overflow 16
/// bits; here both are errors.
pub fn read(text: &str) -> Result<Table, FormatError> {
    let values = match text.find(COE_VECTOR) {
        Some(at) if is_coe(text) => {
            let line = text[..at].matches('\n').count();
            let rest = &text[at..];
            let begin = rest.find('=').map_or(rest.len(), |equals| equals + 1);
            // Blanks keep lines and columns as they are in the file.
            let blank = " ".repeat(at - text[..at].rfind('\n').map_or(0, |end| end + 1) + begin);
            let numbers = format!("{blank}{}", &rest[begin..]);
            let separators = [',', ';'];
            read_numbers(&numbers, line, &separators, 0, 2 * COE_OFFSET - 1)?
                .into_iter()
                .map(|value| value - COE_OFFSET)
                .collect()
        }
        _ => read_numbers(text, 0, &[], i16::MIN.into(), i16::MAX.into())?,
    };
    Ok(Table::new(values, Unit::Deviations)?)
}

/// Samples in nanoseconds from plain text, one a line: a number with a unit (`12.5us`), or without
/// one, which is then `unit_ns`. Empty lines and those that begin with `#` are skipped.
pub fn read_samples(text: &str, unit_ns: f64) -> Result<Vec<i64>, FormatError> {
    let mut samples = Vec::new();
    for (line, column, word) in words(text, 0, &[]) {
        let value = match word.parse::<f64>() {
            Ok(number) if number.is_finite() => Some((number * unit_ns).round() as i64),
            _ => lineside_words::parse_duration(word)
                .ok()
                .and_then(|ns| i64::try_from(ns).ok()),
        };
        let hint = ": write one sample a line, such as 12.5us";
        samples.push(value.ok_or_else(|| not_a_number(line, column, word, hint))?);
    }
    if samples.is_empty() {
        return Err(TableError::Empty.into());
    }
    Ok(samples)
}

/// A table as netem reads it; of another unit its standardised shape.
pub fn write_dist(table: &Table, comment: &str) -> String {
    let mut text = String::new();
    for line in comment.lines() {
        let _ = writeln!(text, "# {line}");
    }
    for values in table.standardised().0.values().chunks(8) {
        let words: Vec<_> = values.iter().map(i64::to_string).collect();
        let _ = writeln!(text, " {}", words.join(" "));
    }
    text
}

/// A table as the original hardware reads it; of another unit its standardised shape.
pub fn write_coe(table: &Table) -> String {
    let (standard, _) = table.standardised();
    let words: Vec<_> = { standard.values().iter() }
        .map(|value| (value + COE_OFFSET).to_string())
        .collect();
    format!("{COE_RADIX}=10;\n{COE_VECTOR}=\n{};\n", words.join(",\n"))
}

/// The entries, one a line: nanoseconds, or deviations from the mean.
pub fn write_plain(table: &Table) -> String {
    table
        .values()
        .iter()
        .fold(String::new(), |mut text, value| {
            let _ = writeln!(text, "{value}");
            text
        })
}

/// Whether the text begins as a `.coe` file does.
pub fn is_coe(text: &str) -> bool {
    text.trim_start().starts_with(COE_RADIX)
}

fn read_numbers(
    text: &str,
    lines_before: usize,
    separators: &[char],
    low: i64,
    high: i64,
) -> Result<Vec<i64>, FormatError> {
    let mut values = Vec::new();
    for (line, column, word) in words(text, lines_before, separators) {
        let value = integer(word).ok_or_else(|| not_a_number(line, column, word, ""))?;
        if !(low..=high).contains(&value) {
            return Err(FormatError::OutOfRange {
                line,
                column,
                value,
                low,
                high,
            });
        }
        if values.len() > crate::table::TABLE_LEN_MAX {
            break;
        }
        values.push(value);
    }
    Ok(values)
}

pub(crate) fn not_a_number(
    line: usize,
    column: usize,
    word: &str,
    hint: &'static str,
) -> FormatError {
    FormatError::NotANumber {
        line,
        column,
        word: word.chars().take(32).collect(),
        hint,
    }
}

/// Words with their lines and columns.
pub(crate) fn words<'a>(
    text: &'a str,
    lines_before: usize,
    separators: &'a [char],
) -> impl Iterator<Item = (usize, usize, &'a str)> {
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| !line.starts_with('#'))
        .flat_map(move |(number, line)| {
            let parts = line.split(move |c: char| c.is_whitespace() || separators.contains(&c));
            parts.filter(|word| !word.is_empty()).map(move |word| {
                let column = word.as_ptr().addr() - line.as_ptr().addr() + 1;
                (lines_before + number + 1, column, word)
            })
        })
}

/// A number as C reads it with base 0: decimal, 0x hexadecimal, 0 octal.
fn integer(word: &str) -> Option<i64> {
    let (sign, digits) = match word.as_bytes().first()? {
        b'-' => (-1, &word[1..]),
        b'+' => (1, &word[1..]),
        _ => (1, word),
    };
    if digits.starts_with(['-', '+']) {
        return None;
    }
    let hexadecimal = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"));
    let value = match (hexadecimal, digits.strip_prefix('0')) {
        (Some(digits), _) if !digits.starts_with(['-', '+']) => i64::from_str_radix(digits, 16),
        (None, Some(octal)) if !octal.is_empty() => i64::from_str_radix(octal, 8),
        _ => digits.parse(),
    };
    value.ok().map(|value| sign * value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_back_from_each_form() {
        let table = Table::pareto_normal();
        assert_eq!(read(&write_dist(&table, "two\nlines")), Ok(table.clone()));
        assert_eq!(read(&write_coe(&table)), Ok(table.clone()));
        assert!(write_coe(&table).starts_with(
            "memory_initialization_radix=10;\nmemory_initialization_vector=\n20463,\n"
        ));
        let samples = read_samples(&write_plain(&table), 1.0).expect("numbers");
        assert_eq!(samples, table.values());
    }

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        let table = read("# a comment\n 010 0x10 -8\n\n+7\t-0x1\n").expect("a table");
        assert_eq!(table.values(), [8, 16, -8, 7, -1]);
        assert_eq!(
            read_samples("12.5us\n# no\n\n3ms\n400\n", 1e3),
            Ok(vec![12_500, 3_000_000, 400_000])
        );
    }

    #[test]
    fn malformed_tables_are_refused_with_line_and_column() {
        for (text, message) in [
            (
                "1 2\n3 four 5\n",
                "line 2, column 3: 'four' is not a number",
            ),
            ("", "there are no numbers in it"),
            (
                "1 2 40000",
                "line 1, column 5: 40000 lies outside -32768 to 32767",
            ),
            ("0x-1", "line 1, column 1: '0x-1' is not a number"),
            ("--1", "line 1, column 1: '--1' is not a number"),
            (
                "memory_initialization_radix=10;\nmemory_initialization_vector= 1,\n2, x;",
                "line 3, column 4: 'x' is not a number",
            ),
            (
                "memory_initialization_radix=10;\nmemory_initialization_vector= 70000;",
                "line 2, column 31: 70000 lies outside 0 to 65535",
            ),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert_eq!(error, message, "{text}");
        }
        let error = read_samples("12us\n13us\n 14 parsecs", 1.0).expect_err("a unit");
        assert_eq!(
            error.to_string(),
            "line 3, column 5: 'parsecs' is not a number: write one sample a line, such as 12.5us"
        );
        let long = "1 ".repeat(crate::table::TABLE_LEN_MAX + 10);
        assert!(matches!(
            read(&long),
            Err(FormatError::Table(TableError::TooLong { .. }))
        ));
    }
}
