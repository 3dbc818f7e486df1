//! Words one by one, with the column of each for error messages.

use std::fmt;

use crate::{DAY, is_negative, nearest, parse_per_second, parse_tc_size, parse_time, share};

/// Why words are not a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordError {
    /// Such as `delay`.
    pub setting: &'static str,
    /// All words.
    pub text: String,
    /// Where the wrong one begins, in bytes from 1; after the last one if one is missing.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl fmt::Display for WordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            setting,
            text,
            column,
            problem,
        } = self;
        write!(f, "{setting} '{text}', column {column}: {problem}")
    }
}

impl std::error::Error for WordError {}

/// Whether a word is meant to be a number.
pub fn begins_as_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit() || c == '.' || c == '-' || c == '+')
}

/// Reads words one by one, and knows at which column they stand.
pub struct Words<'a> {
    setting: &'static str,
    text: &'a str,
    /// Characters that are words of their own.
    marks: &'static [char],
    at: usize,
}

impl<'a> Words<'a> {
    /// The words of a setting's text, with blanks between.
    pub fn new(setting: &'static str, text: &'a str) -> Self {
        Self::with_marks(setting, text, &[])
    }

    /// The same, with characters of ASCII that are words of their own.
    pub fn with_marks(setting: &'static str, text: &'a str, marks: &'static [char]) -> Self {
        let mut words = Self {
            setting,
            text,
            marks,
            at: 0,
        };
        words.skip_blanks();
        words
    }

    fn skip_blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    /// The column of the next word.
    pub fn column(&self) -> usize {
        self.at + 1
    }

    /// The next word, without taking it.
    pub fn peek(&self) -> Option<&'a str> {
        let rest = &self.text[self.at..];
        let is_end = |c: char| self.marks.contains(&c) || c.is_whitespace();
        match rest.find(is_end).unwrap_or(rest.len()) {
            0 => rest.get(..1),
            end => rest.get(..end),
        }
    }

    /// Takes the next word, with its column.
    pub fn next_word(&mut self) -> Option<(usize, &'a str)> {
        let word = self.peek()?;
        let column = self.column();
        self.at += word.len();
        self.skip_blanks();
        Some((column, word))
    }

    /// All that is left, with its column.
    pub fn rest(&mut self) -> (usize, &'a str) {
        let (column, rest) = (self.column(), self.text[self.at..].trim_end());
        self.at = self.text.len();
        (column, rest)
    }

    /// What is wrong with the word at a column.
    pub fn error(&self, column: usize, problem: impl Into<String>) -> WordError {
        WordError {
            setting: self.setting,
            text: self.text.to_owned(),
            column,
            problem: problem.into(),
        }
    }

    /// The last word is not there.
    pub fn missing(&self, what: &str) -> WordError {
        self.error(self.text.trim_end().len() + 1, format!("{what} is missing"))
    }

    /// A word that is none of the known ones.
    pub fn unknown(&self, column: usize, word: &str, known: &[&str]) -> WordError {
        let nearest = nearest(word, known.iter().copied());
        self.error(
            column,
            format!("'{word}' is unknown here; the nearest known word is {nearest}"),
        )
    }

    /// Fails if a word is left.
    pub fn end(&mut self) -> Result<(), WordError> {
        match self.next_word() {
            None => Ok(()),
            Some((column, word)) => {
                Err(self.error(column, format!("'{word}' is one word too many")))
            }
        }
    }

    /// Takes the next word, which must be this one.
    pub fn expect(&mut self, wanted: &'static str) -> Result<(), WordError> {
        match self.next_word() {
            Some((_, word)) if word == wanted => Ok(()),
            Some((column, word)) => Err(self.unknown(column, word, &[wanted])),
            None => Err(self.missing(wanted)),
        }
    }

    /// Takes the next word if it is this one.
    pub fn take(&mut self, wanted: &str) -> bool {
        let is_next = self.peek() == Some(wanted);
        if is_next {
            self.next_word();
        }
        is_next
    }

    /// Takes the next word, as `parse` reads it; `what` is wanted.
    pub fn parsed<V>(
        &mut self,
        what: &str,
        parse: impl Fn(&str) -> Result<V, String>,
    ) -> Result<V, WordError> {
        let (column, word) = self.next_word().ok_or_else(|| self.missing(what))?;
        parse(word).map_err(|problem| self.refused(column, word, problem))
    }

    /// What is wrong with `word`: `problem`, if it is not simply below 0.
    pub fn refused(&self, column: usize, word: &str, problem: String) -> WordError {
        let problem = match is_negative(word) {
            true => format!("'{word}' must not be negative"),
            false => problem,
        };
        self.error(column, problem)
    }

    /// A time from `least_ns` to a day.
    pub fn time(&mut self, what: &str, least_ns: u64) -> Result<u64, WordError> {
        self.parsed(what, |word| parse_time(word, least_ns, DAY))
    }

    /// A number between two bounds, which are allowed.
    pub fn number(&mut self, what: &str, low: f64, high: f64) -> Result<f64, WordError> {
        self.parsed(what, |word| {
            let number = word.parse::<f64>().ok();
            let number = number.filter(|number| (low..=high).contains(number));
            number.ok_or_else(|| format!("'{word}' is not a number from {low} to {high}"))
        })
    }

    /// Requests a second: a number, perhaps with `k` or `M`, perhaps with `/s`, `/min` or `/h`.
    pub fn rate(&mut self, what: &str) -> Result<f64, WordError> {
        self.parsed(what, parse_per_second)
    }

    /// A share in percent.
    pub fn share(&mut self) -> Result<f64, WordError> {
        self.parsed("a share, such as 0.1%", |word| {
            share(word).ok_or_else(|| {
                format!("'{word}' is not a share: write a number from 0 to 100 and %, such as 0.1%")
            })
        })
    }

    /// A whole number between two bounds, which are allowed.
    pub fn count(&mut self, low: u64, high: u64) -> Result<u64, WordError> {
        self.parsed("a number", |word| {
            let number = word.parse::<u64>().ok();
            let number = number.filter(|number| (low..=high).contains(number));
            number.ok_or_else(|| match high {
                u64::MAX => format!("'{word}' is not a number from {low} on"),
                _ => format!("'{word}' is not a number from {low} to {high}"),
            })
        })
    }

    /// Bytes, as tc(8) reads them.
    pub fn size(&mut self) -> Result<u64, WordError> {
        self.parsed("a size, such as 15k", |word| {
            parse_tc_size(word).ok_or_else(|| {
                format!(
                    "'{word}' is not a size: write bytes or a number with k, m or g, such as 15k"
                )
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_commas_have_their_columns() {
        let mut words = Words::with_marks("arrivals", "  on-off 5 for 1ms,0 for 2ms ", &[',']);
        let mut read = Vec::new();
        while let Some(word) = words.next_word() {
            read.push(word);
        }
        let expected = [
            (3, "on-off"),
            (10, "5"),
            (12, "for"),
            (16, "1ms"),
            (19, ","),
            (20, "0"),
            (22, "for"),
            (26, "2ms"),
        ];
        assert_eq!(read, expected);
    }
}
