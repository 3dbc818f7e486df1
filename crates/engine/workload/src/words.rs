//! The words of a model one by one, with the column of each for error messages. What the words mean
//! is not known here.

use lineside_time::parse_duration;

/// A day: nothing here takes longer.
const TIME_MAX_NS: u64 = 86_400_000_000_000;

/// Why words are not a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting} '{text}', column {column}: {problem}")]
pub struct WordError {
    /// Such as `arrivals`.
    pub setting: &'static str,
    /// All words.
    pub text: String,
    /// Where the wrong one begins, in bytes from 1; after the last one if one is missing.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub problem: String,
}

/// Reads the file of this name to its end, or says why it cannot.
pub type LoadFile<'a> = &'a mut dyn FnMut(&str) -> Result<String, String>;

/// Where no files are read.
pub fn no_files(name: &str) -> Result<String, String> {
    Err(format!("no file is read here: '{name}'"))
}

/// Reads words one by one, and knows at which column they stand. A comma is a word.
pub(crate) struct Words<'a> {
    setting: &'static str,
    text: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    pub(crate) fn new(setting: &'static str, text: &'a str) -> Self {
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

    pub(crate) fn column(&self) -> usize {
        self.at + 1
    }

    pub(crate) fn peek(&self) -> Option<&'a str> {
        let rest = &self.text[self.at..];
        let is_end = |c: char| c == ',' || c.is_whitespace();
        match rest.find(is_end).unwrap_or(rest.len()) {
            0 => rest.get(..1),
            end => rest.get(..end),
        }
    }

    pub(crate) fn next(&mut self) -> Option<(usize, &'a str)> {
        let word = self.peek()?;
        let column = self.column();
        self.at += word.len();
        self.skip_blanks();
        Some((column, word))
    }

    /// All that is left, with its column.
    pub(crate) fn rest(&mut self) -> (usize, &'a str) {
        let (column, rest) = (self.column(), self.text[self.at..].trim_end());
        self.at = self.text.len();
        (column, rest)
    }

    pub(crate) fn error(&self, column: usize, problem: impl Into<String>) -> WordError {
        WordError {
            setting: self.setting,
            text: self.text.to_owned(),
            column,
            problem: problem.into(),
        }
    }

    pub(crate) fn missing(&self, what: &str) -> WordError {
        self.error(self.text.trim_end().len() + 1, format!("{what} is missing"))
    }

    pub(crate) fn unknown(&self, column: usize, word: &str, known: &[&str]) -> WordError {
        let nearest = nearest(word, known);
        self.error(
            column,
            format!("'{word}' is unknown here; the nearest known word is {nearest}"),
        )
    }

    pub(crate) fn end(&mut self) -> Result<(), WordError> {
        match self.next() {
            None => Ok(()),
            Some((column, word)) => {
                Err(self.error(column, format!("'{word}' is one word too many")))
            }
        }
    }

    pub(crate) fn expect(&mut self, wanted: &'static str) -> Result<(), WordError> {
        match self.next() {
            Some((_, word)) if word == wanted => Ok(()),
            Some((column, word)) => Err(self.unknown(column, word, &[wanted])),
            None => Err(self.missing(wanted)),
        }
    }

    /// Takes the next word if it is this one.
    pub(crate) fn take(&mut self, wanted: &str) -> bool {
        let is_next = self.peek() == Some(wanted);
        if is_next {
            self.next();
        }
        is_next
    }

    pub(crate) fn parsed<V>(
        &mut self,
        what: &str,
        parse: impl Fn(&str) -> Result<V, String>,
    ) -> Result<V, WordError> {
        let (column, word) = self.next().ok_or_else(|| self.missing(what))?;
        let is_digit = |c: char| c.is_ascii_digit();
        let below_0 = word.strip_prefix('-');
        if below_0.is_some_and(|rest| rest.starts_with(is_digit)) {
            return Err(self.error(column, format!("'{word}' must not be negative")));
        }
        parse(word).map_err(|problem| self.error(column, problem))
    }

    /// A time from `least_ns` to a day.
    pub(crate) fn time(&mut self, what: &str, least_ns: u64) -> Result<u64, WordError> {
        self.parsed(what, |word| time(word, least_ns))
    }

    /// A number between two bounds, which are allowed.
    pub(crate) fn number(&mut self, what: &str, low: f64, high: f64) -> Result<f64, WordError> {
        self.parsed(what, |word| {
            let number = word.parse::<f64>().ok();
            let number = number.filter(|number| (low..=high).contains(number));
            number.ok_or_else(|| format!("'{word}' is not a number from {low} to {high}"))
        })
    }

    /// Requests a second: a number, perhaps with `k` or `M`, perhaps with `/s`, `/min` or `/h`.
    pub(crate) fn rate(&mut self, what: &str) -> Result<f64, WordError> {
        self.parsed(what, rate)
    }
}

/// The known word that is most like `word`.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> &'a str {
    let likeness = |known: &&&str| (strsim::jaro_winkler(word, known) * 1e6) as u64;
    known
        .iter()
        .max_by_key(likeness)
        .copied()
        .unwrap_or_default()
}

/// The time of a word, from `least_ns` to a day.
pub(crate) fn time(word: &str, least_ns: u64) -> Result<u64, String> {
    let ns = match word {
        "0" => Ok(0),
        _ => parse_duration(word),
    };
    let ns = ns.map_err(|error| error.to_string())?;
    match ns {
        _ if ns > TIME_MAX_NS => Err(format!("'{word}' is more than a day")),
        _ if ns < least_ns => Err(format!(
            "'{word}' is too short: give at least {}",
            lineside_time::format_duration(least_ns)
        )),
        _ => Ok(ns),
    }
}

/// The most of a rate: a request a nanosecond.
const RATE_MAX: f64 = 1e9;

/// The rate a second of a word such as `10000`, `10k`, `0.5/s` or `30/min`; 0 is one.
pub(crate) fn rate(word: &str) -> Result<f64, String> {
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
    fn words_and_commas_have_their_columns() {
        let mut words = Words::new("arrivals", "  on-off 5 for 1ms,0 for 2ms ");
        let mut read = Vec::new();
        while let Some(word) = words.next() {
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
            assert_eq!(rate(text), Ok(expected), "{text}");
        }
        for bad in ["", "k", "inf", "nan", "2e9", "10 k", "-1", "5/d", "/s"] {
            let error = rate(bad).expect_err(bad);
            assert!(error.contains("0.5/s"), "{error}");
        }
    }
}
