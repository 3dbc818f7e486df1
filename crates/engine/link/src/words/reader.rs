//! The words of a setting one by one, with the column of each for error messages. What the words
//! mean is not known here.

use lineside_time::parse_duration;

use super::WordError;
use crate::settings::{Chance, Correlation, DELAY_MAX_NS};

pub(super) fn begins_as_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit() || c == '.' || c == '-' || c == '+')
}

/// Reads words one by one, and knows at which column they stand.
pub(super) struct Words<'a> {
    setting: &'static str,
    text: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    pub(super) fn new(setting: &'static str, text: &'a str) -> Self {
        let mut words = Self {
            setting,
            text,
            at: 0,
        };
        words.skip_blanks();
        words
    }

    fn skip_blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    pub(super) fn column(&self) -> usize {
        self.at + 1
    }

    pub(super) fn peek(&self) -> Option<&'a str> {
        self.text[self.at..].split_whitespace().next()
    }

    pub(super) fn next(&mut self) -> Option<(usize, &'a str)> {
        let word = self.peek()?;
        let column = self.column();
        self.at += word.len();
        self.skip_blanks();
        Some((column, word))
    }

    pub(super) fn error(&self, column: usize, problem: String) -> WordError {
        WordError {
            setting: self.setting,
            text: self.text.to_owned(),
            column,
            problem,
        }
    }

    pub(super) fn missing(&self, what: &str) -> WordError {
        self.error(self.text.trim_end().len() + 1, format!("{what} is missing"))
    }

    pub(super) fn unknown(&self, column: usize, word: &str, known: &[&str]) -> WordError {
        let likeness = |known: &&&str| (strsim::jaro_winkler(word, known) * 1e6) as u64;
        let nearest = known
            .iter()
            .max_by_key(likeness)
            .copied()
            .unwrap_or_default();
        self.error(
            column,
            format!("'{word}' is unknown here; the nearest known word is {nearest}"),
        )
    }

    pub(super) fn end(&mut self) -> Result<(), WordError> {
        match self.next() {
            None => Ok(()),
            Some((column, word)) => {
                Err(self.error(column, format!("'{word}' is one word too many")))
            }
        }
    }

    pub(super) fn expect(&mut self, wanted: &'static str) -> Result<(), WordError> {
        match self.next() {
            Some((_, word)) if word == wanted => Ok(()),
            Some((column, word)) => Err(self.unknown(column, word, &[wanted])),
            None => Err(self.missing(wanted)),
        }
    }

    fn parsed<V>(
        &mut self,
        what: &str,
        parse: impl Fn(&str) -> Result<V, String>,
    ) -> Result<V, WordError> {
        let (column, word) = self.next().ok_or_else(|| self.missing(what))?;
        parse(word).map_err(|problem| self.refused(column, word, problem))
    }

    /// What is wrong with `word`: `problem`, if it is not simply below 0.
    pub(super) fn refused(&self, column: usize, word: &str, problem: String) -> WordError {
        let is_digit = |c: char| c.is_ascii_digit();
        let is_negative = word
            .strip_prefix('-')
            .is_some_and(|rest| rest.starts_with(is_digit));
        let problem = match is_negative {
            true => format!("'{word}' must not be negative"),
            false => problem,
        };
        self.error(column, problem)
    }

    pub(super) fn time(&mut self, what: &str) -> Result<u64, WordError> {
        self.parsed(what, |word| {
            let ns = if word == "0" {
                Ok(0)
            } else {
                parse_duration(word)
            };
            let ns = ns.map_err(|error| error.to_string())?;
            if ns > DELAY_MAX_NS {
                return Err(format!("'{word}' is more than a day"));
            }
            Ok(ns)
        })
    }

    pub(super) fn share(&mut self) -> Result<f64, WordError> {
        self.parsed("a share, such as 0.1%", |word| {
            let number = word
                .strip_suffix('%')
                .and_then(|number| number.parse::<f64>().ok());
            let percent = number.filter(|percent| (0.0..=100.0).contains(percent));
            let percent = percent.ok_or_else(|| {
                format!("'{word}' is not a share: write a number from 0 to 100 and %, such as 0.1%")
            })?;
            Ok(percent / 100.0)
        })
    }

    pub(super) fn correlation(&mut self) -> Result<Correlation, WordError> {
        let column = self.column();
        match self.share()? {
            0.0 => Ok(Correlation::None),
            share if share < 1.0 => Ok(Correlation::Share(share)),
            _ => Err(self.error(
                column,
                "at 100% each draw would be the first one: give less".to_owned(),
            )),
        }
    }

    pub(super) fn chance(&mut self) -> Result<Chance, WordError> {
        let share = self.share()?;
        let correlation = match self.peek() {
            Some(_) => self.correlation()?,
            None => Correlation::None,
        };
        self.end()?;
        Ok(Chance { share, correlation })
    }

    pub(super) fn number(&mut self, low: u64, high: u64) -> Result<u64, WordError> {
        self.parsed("a number", |word| {
            let number = word.parse::<u64>().ok();
            number
                .filter(|number| (low..=high).contains(number))
                .ok_or_else(|| match high {
                    u64::MAX => format!("'{word}' is not a number from {low} on"),
                    _ => format!("'{word}' is not a number from {low} to {high}"),
                })
        })
    }

    pub(super) fn numbers(&mut self) -> Result<Vec<u64>, WordError> {
        let what = "numbers of frames, such as 3,17";
        self.parsed(what, |word| {
            let parse = |number: &str| number.parse::<u64>().ok().filter(|&number| number > 0);
            let numbers: Option<Vec<_>> = word.split(',').map(parse).collect();
            let mut numbers = numbers.ok_or_else(|| format!("'{word}' is not {what}"))?;
            numbers.sort_unstable();
            numbers.dedup();
            Ok(numbers)
        })
    }

    /// `times K`, or once.
    pub(super) fn times(&mut self) -> Result<u64, WordError> {
        if self.peek().is_none() {
            return Ok(1);
        }
        self.expect("times")?;
        self.number(1, u64::MAX)
    }

    pub(super) fn factor(&mut self) -> Result<f64, WordError> {
        self.parsed("a factor", |word| {
            let factor = word.parse::<f64>().ok();
            let factor = factor.filter(|factor| (0.0..=1e6).contains(factor));
            factor.ok_or_else(|| format!("'{word}' is not a factor from 0 to 1000000"))
        })
    }

    /// As tc(8): k, m and g are binary, with or without b.
    pub(super) fn size(&mut self) -> Result<u64, WordError> {
        self.parsed("a size, such as 15k", |word| {
            let lower = word.to_ascii_lowercase();
            let split = lower
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(lower.len());
            let (digits, unit) = lower.split_at(split);
            let shift = match unit {
                "" | "b" => Some(0),
                "k" | "kb" | "kib" => Some(10),
                "m" | "mb" | "mib" => Some(20),
                "g" | "gb" | "gib" => Some(30),
                _ => None,
            };
            let bytes = digits.parse::<u64>().ok().zip(shift);
            let bytes = bytes.and_then(|(number, shift)| number.checked_mul(1 << shift));
            bytes.ok_or_else(|| {
                format!(
                    "'{word}' is not a size: write bytes or a number with k, m or g, such as 15k"
                )
            })
        })
    }
}
