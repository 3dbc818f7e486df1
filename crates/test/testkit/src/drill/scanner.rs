//! Words, numbers and signs of a script, with their lines.

use super::Fault;

/// A place in a text.
#[derive(Debug, Clone)]
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    pub(super) line: u32,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            line: 1,
        }
    }

    pub(super) fn fault(&self, what: impl Into<String>) -> Fault {
        Fault::new(self.line, what)
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn skip(&mut self, bytes: usize) {
        let skipped = &self.text[self.at..self.at + bytes];
        self.line += skipped.matches('\n').count() as u32;
        self.at += bytes;
    }

    /// Skips white space and comments.
    pub(super) fn skip_space(&mut self) -> Result<(), Fault> {
        loop {
            let rest = self.rest();
            let space = rest.len() - rest.trim_start().len();
            self.skip(space);
            let rest = self.rest();
            if rest.starts_with("//") {
                self.skip(rest.find('\n').unwrap_or(rest.len()));
            } else if rest.starts_with("/*") {
                let end = rest.find("*/");
                self.skip(end.ok_or_else(|| self.fault("a comment without an end: add */"))? + 2);
            } else if space == 0 {
                return Ok(());
            }
        }
    }

    /// Takes a sign if it comes next, after white space.
    pub(super) fn takes(&mut self, sign: &str) -> Result<bool, Fault> {
        self.skip_space()?;
        let is_next = self.rest().starts_with(sign);
        if is_next {
            self.skip(sign.len());
        }
        Ok(is_next)
    }

    pub(super) fn expect(&mut self, sign: &str) -> Result<(), Fault> {
        match self.takes(sign)? {
            true => Ok(()),
            false => Err(self.unexpected(&format!("`{sign}`"))),
        }
    }

    /// What comes next is not what was wanted.
    pub(super) fn unexpected(&self, wanted: &str) -> Fault {
        let found: String = self.rest().chars().take(20).collect();
        let found = found.lines().next().unwrap_or_default();
        self.fault(format!("{wanted} is expected, not `{found}`"))
    }

    /// Letters, digits and underscores; empty if there are none.
    pub(super) fn word(&mut self) -> Result<&'a str, Fault> {
        self.skip_space()?;
        Ok(self.take_while(|letter| letter.is_ascii_alphanumeric() || letter == '_'))
    }

    pub(super) fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|letter| !belongs(letter)).unwrap_or(rest.len());
        self.skip(len);
        &rest[..len]
    }

    pub(super) fn number<N: TryFrom<u64>>(&mut self) -> Result<N, Fault> {
        self.skip_space()?;
        let start = self.clone();
        let word = self.word()?;
        let number = match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => word.parse().ok(),
        };
        let fits = number.and_then(|number| N::try_from(number).ok());
        fits.ok_or_else(|| start.unexpected("a number that fits"))
    }

    /// A number of seconds, in nanoseconds.
    pub(super) fn seconds(&mut self) -> Result<i64, Fault> {
        self.skip_space()?;
        let start = self.clone();
        let mut digits = self.take_while(|letter| letter.is_ascii_digit());
        let mut fraction = "";
        let rest = self.rest();
        // `0...0.2` is two numbers.
        if rest.starts_with('.') && !rest.starts_with("...") {
            self.skip(1);
            fraction = self.take_while(|letter| letter.is_ascii_digit());
        }
        if digits.is_empty() && fraction.is_empty() {
            return Err(start.unexpected("a time in seconds"));
        }
        if digits.is_empty() {
            digits = "0";
        }
        let fraction = format!("{fraction:0<9}");
        let parse = |digits: &str| digits.parse::<i64>().ok();
        let total = parse(digits)
            .and_then(|seconds| seconds.checked_mul(1_000_000_000))
            .zip(parse(&fraction[..9]))
            .and_then(|(whole, part)| whole.checked_add(part))
            .filter(|&total| total < i64::MAX / 4);
        total.ok_or_else(|| start.unexpected("a time that fits"))
    }

    /// What stands between this mark and the next one.
    pub(super) fn quoted(&mut self, mark: char) -> Result<String, Fault> {
        self.skip(mark.len_utf8());
        let rest = self.rest();
        let end = rest.find(mark);
        let end = end.ok_or_else(|| self.fault(format!("`{mark}` without its end")))?;
        self.skip(end + mark.len_utf8());
        Ok(rest[..end].to_owned())
    }
}
