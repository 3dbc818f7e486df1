//! The words of tc-netem(8), and ours where it has none, to settings and back.
//!
//! | setting | words |
//! |---|---|
//! | [`delay`] | `TIME [JITTER [CORRELATION]] [distribution uniform\|normal\|pareto\|paretonormal\|FILE] [one-sided] [order fifo\|reorder\|correlated TIME] [prbs31 [STATE]] [shift BITS [cycle TIME]] [times FACTOR]` |
//! | [`loss`] | `[random] SHARE [CORRELATION]` · `gemodel P [R [1-H [1-K]]]` · `burst TIME every TIME` · `every N` · `frames N,N,...` · `segment N [times K]` · `byte OFFSET [times K]` · `none` |
//! | [`chance`] | `SHARE [CORRELATION]` |
//! | [`rate`] | `RATE [burst SIZE] [overhead none\|ethernet\|BYTES] [drop]` |
//! | [`state`] | `up` · `down` · `flap UP-TIME DOWN-TIME` |
//! | [`limit`] | `FRAMES`, or bytes with a unit: `64kb` |

use std::fmt;

use lineside_time::{Rate, format_duration, parse_duration, parse_rate};

use crate::settings::{
    Chance, Correlation, DELAY_MAX_NS, Delay, Distribution, Draws, ETHERNET_OVERHEAD, Excess,
    Jitter, Limit, Loss, Order, Place, RateLimit, State,
};
use crate::table::{Table, Unit};

/// A cycle of the original hardware: 200 MHz.
const CYCLE_NS: u64 = 5;

/// Why words are no setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting} '{text}', column {column}: {problem}")]
pub struct WordError {
    /// Such as `delay`.
    pub setting: &'static str,
    /// All words.
    pub text: String,
    /// Where the wrong one begins, in bytes from 1; behind the last if one is missing.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub problem: String,
}

/// How a table that is not built in is had: by its name, or why not.
pub type LoadTable<'a> = &'a mut dyn FnMut(&str) -> Result<Table, String>;

/// For [`delay`] where no files are read.
pub fn no_files(name: &str) -> Result<Table, String> {
    Err(format!("'{name}' is not built in"))
}

const DISTRIBUTIONS: [&str; 4] = ["uniform", "normal", "pareto", "paretonormal"];
const DELAY_WORDS: [&str; 7] = [
    "distribution",
    "one-sided",
    "order",
    "prbs31",
    "shift",
    "cycle",
    "times",
];
const ORDERS: [&str; 3] = ["fifo", "reorder", "correlated"];
const LOSS_WORDS: [&str; 8] = [
    "random", "gemodel", "burst", "every", "frames", "segment", "byte", "none",
];
const RATE_WORDS: [&str; 3] = ["burst", "overhead", "drop"];
const STATE_WORDS: [&str; 3] = ["up", "down", "flap"];

/// A built-in table; `None` for `uniform` and names that are not built in.
fn built_in(name: &str) -> Option<Table> {
    match name {
        "normal" => Some(Table::normal()),
        "pareto" => Some(Table::pareto()),
        "paretonormal" => Some(Table::pareto_normal()),
        _ => None,
    }
}

/// How long frames are held. A distribution that is not built in comes from `load`.
pub fn delay(text: &str, load: LoadTable<'_>) -> Result<Delay, WordError> {
    let mut words = Words::new("delay", text);
    let base_ns = words.time("a time, such as 100us")?;
    let jitter_ns = match words.peek() {
        Some(word) if !DELAY_WORDS.contains(&word) && begins_as_number(word) => {
            Some(words.time("a time, such as 10us")?)
        }
        _ => None,
    };
    let correlation = match words.peek() {
        Some(word) if jitter_ns.is_some() && word.ends_with('%') => words.correlation()?,
        _ => Correlation::None,
    };
    let mut asked = DelayWords::default();
    while let Some((column, word)) = words.next() {
        match word {
            "distribution" => asked.distribution = Some(words.distribution(load)?),
            "one-sided" => asked.one_sided = Some(column),
            "order" => asked.order = words.order()?,
            "prbs31" => {
                let given = words.peek().filter(|word| begins_as_number(word));
                let state = if given.is_some() {
                    words.number(1, (1 << 31) - 1)? as u32
                } else {
                    1
                };
                asked.prbs31 = Some((column, state));
            }
            "shift" => asked.shift = Some((column, words.number(0, 32)? as u32)),
            "cycle" => {
                asked.cycle = Some((column, words.time("the time of a cycle, such as 5ns")?))
            }
            "times" => asked.times = Some((column, words.factor()?)),
            _ => return Err(words.unknown(column, word, &DELAY_WORDS)),
        }
    }
    asked.resolved(&words, base_ns, jitter_ns, correlation)
}

/// The clauses of `delay`, with their columns.
#[derive(Default)]
struct DelayWords {
    distribution: Option<(usize, Distribution)>,
    one_sided: Option<usize>,
    order: Order,
    prbs31: Option<(usize, u32)>,
    shift: Option<(usize, u32)>,
    cycle: Option<(usize, u64)>,
    times: Option<(usize, f64)>,
}

impl DelayWords {
    fn resolved(
        self,
        words: &Words<'_>,
        base_ns: u64,
        jitter_ns: Option<u64>,
        correlation: Correlation,
    ) -> Result<Delay, WordError> {
        let error = |column, problem: &str| Err(words.error(column, problem.to_owned()));
        let distribution = self.distribution;
        let is_measured = matches!(
            &distribution,
            Some((_, Distribution::Table { table, .. })) if table.unit() == Unit::Nanoseconds
        );
        if let (Some((column, _)), None) = (self.cycle, self.shift) {
            return error(column, "a cycle goes with shift");
        }
        if let (Some((column, _)), true) = (self.times, !is_measured || jitter_ns.is_some()) {
            return error(
                column,
                "times goes with a distribution of measured times, without jitter before it",
            );
        }
        let jitter = match (jitter_ns, self.shift, distribution) {
            (Some(_), Some((column, _)), _) => {
                return error(column, "shift is the jitter: leave away the one before it");
            }
            (None, Some((column, shift)), distribution) => {
                if let Some(column) = self.one_sided {
                    return error(column, "shift is one-sided in any case");
                }
                let cycle_ns = self.cycle.map_or(CYCLE_NS, |(_, cycle_ns)| cycle_ns);
                if cycle_ns.saturating_mul(1 << shift) > DELAY_MAX_NS {
                    return error(column, "that is more than a day");
                }
                let distribution = distribution.map(|(_, distribution)| distribution);
                Jitter::Shifted {
                    shift,
                    cycle_ns,
                    distribution: distribution.unwrap_or_default(),
                }
            }
            (Some(jitter_ns), None, distribution) => {
                let distribution = distribution.map(|(_, distribution)| distribution);
                let distribution = distribution.unwrap_or_default();
                if self.one_sided.is_some() {
                    Jitter::Above {
                        jitter_ns,
                        distribution,
                    }
                } else {
                    Jitter::Around {
                        jitter_ns,
                        distribution,
                    }
                }
            }
            (None, None, Some((_, Distribution::Table { name, table }))) if is_measured => {
                if let Some(column) = self.one_sided {
                    return error(column, "measured times are added to the delay as they are");
                }
                let times = self.times.map_or(1.0, |(_, times)| times);
                Jitter::Measured { name, table, times }
            }
            (None, None, Some((column, _))) => {
                return error(
                    column,
                    "a distribution needs a jitter behind the delay: '100us 10us distribution normal'",
                );
            }
            (None, None, None) => match (self.one_sided, self.prbs31) {
                (Some(column), _) | (None, Some((column, _))) => {
                    return error(
                        column,
                        "without jitter there is nothing to draw: write it behind the delay",
                    );
                }
                (None, None) => Jitter::None,
            },
        };
        let draws = match self.prbs31 {
            None => Draws::Seeded { correlation },
            Some((column, _)) if correlation != Correlation::None => {
                return error(
                    column,
                    "the draws of prbs31 are not correlated: leave the share away",
                );
            }
            Some((column, _)) if matches!(self.order, Order::Correlated { .. }) => {
                return error(
                    column,
                    "the draws of prbs31 are not correlated: choose another order",
                );
            }
            Some((column, state)) => {
                let len = table_of(&jitter).map_or(2, |table| table.values().len());
                if !len.is_power_of_two() || len < 2 {
                    return error(column, "prbs31 needs a table of 2, 4, 8, ... entries");
                }
                Draws::Prbs31 { state }
            }
        };
        if correlation != Correlation::None && matches!(self.order, Order::Correlated { .. }) {
            return error(
                1,
                "give either a share or a half-life for the correlation, not both",
            );
        }
        Ok(Delay {
            base_ns,
            jitter,
            draws,
            order: self.order,
        })
    }
}

fn table_of(jitter: &Jitter) -> Option<&Table> {
    match jitter {
        Jitter::Measured { table, .. } => Some(table),
        Jitter::Around { distribution, .. }
        | Jitter::Above { distribution, .. }
        | Jitter::Shifted { distribution, .. } => match distribution {
            Distribution::Table { table, .. } => Some(table),
            Distribution::Uniform => None,
        },
        Jitter::None => None,
    }
}

/// Which frames are lost.
pub fn loss(text: &str) -> Result<Loss, WordError> {
    let mut words = Words::new("loss", text);
    let Some(word) = words.peek() else {
        return Err(words.missing("a share, such as 0.1%"));
    };
    let column = words.column();
    if begins_as_number(word) {
        return words.chance().map(Loss::Random);
    }
    words.next();
    let loss = match word {
        "none" => Loss::None,
        "random" => return words.chance().map(Loss::Random),
        "gemodel" => {
            let p = words.share()?;
            let mut next = |default: f64| match words.peek() {
                Some(_) => words.share(),
                None => Ok(default),
            };
            // The defaults are those of tc(8): with p alone, losses are independent.
            Loss::GilbertElliott {
                p,
                r: next(1.0 - p)?,
                bad_loss: next(1.0)?,
                good_loss: next(0.0)?,
            }
        }
        "burst" => {
            let length_ns = words.time("how long all is lost, such as 50ms")?;
            words.expect("every")?;
            let column = words.column();
            let every_ns = words.time("how often, such as 10s")?;
            if length_ns == 0 || every_ns <= length_ns {
                return Err(words.error(
                    column,
                    "the burst must be shorter than the time between two, and not 0".to_owned(),
                ));
            }
            Loss::Burst {
                length_ns,
                every_ns,
            }
        }
        "every" => Loss::Every(words.number(1, u64::MAX)?),
        "frames" => Loss::Frames(words.numbers()?),
        "segment" => {
            let place = Place::Segment(words.number(1, u64::MAX)?);
            let times = words.times()?;
            Loss::Segment { place, times }
        }
        "byte" => {
            let place = Place::Byte(words.number(0, u32::MAX.into())? as u32);
            let times = words.times()?;
            Loss::Segment { place, times }
        }
        _ => return Err(words.unknown(column, word, &LOSS_WORDS)),
    };
    words.end()?;
    Ok(loss)
}

/// A share of the frames, for `setting`: `duplicate`, `corrupt` or `reorder`.
pub fn chance(setting: &'static str, text: &str) -> Result<Chance, WordError> {
    Words::new(setting, text).chance()
}

/// How fast frames leave.
pub fn rate(text: &str) -> Result<RateLimit, WordError> {
    let mut words = Words::new("rate", text);
    let Some((column, word)) = words.next() else {
        return Err(words.missing("a rate, such as 1gbit"));
    };
    let bits_per_second = match parse_rate(word) {
        Ok(Rate::Bits(bits_per_second)) => bits_per_second,
        Ok(Rate::Frames(_)) => {
            return Err(words.error(
                column,
                format!("'{word}' counts frames: give bits, such as 1gbit"),
            ));
        }
        Err(error) => return Err(words.refused(column, word, error.to_string())),
    };
    let mut rate = RateLimit {
        bits_per_second,
        burst_bytes: 0,
        overhead_bytes: 0,
        excess: Excess::Wait,
    };
    let mut drop_column = 1;
    while let Some((column, word)) = words.next() {
        match word {
            "burst" => rate.burst_bytes = words.size()?,
            "overhead" => {
                rate.overhead_bytes = match words.peek() {
                    Some("none") => 0,
                    Some("ethernet") => ETHERNET_OVERHEAD,
                    Some(word) if begins_as_number(word) => {
                        rate.overhead_bytes = words.number(0, 1024)? as u32;
                        continue;
                    }
                    Some(word) => {
                        return Err(words.unknown(words.column(), word, &["none", "ethernet"]));
                    }
                    None => return Err(words.missing("none, ethernet or bytes")),
                };
                words.next();
            }
            "drop" => {
                rate.excess = Excess::Drop;
                drop_column = column;
            }
            _ => return Err(words.unknown(column, word, &RATE_WORDS)),
        }
    }
    if rate.excess == Excess::Drop && rate.burst_bytes < 64 {
        let problem =
            "without a burst of a frame or more all would be dropped: add one, such as burst 15k";
        return Err(words.error(drop_column, problem.to_owned()));
    }
    Ok(rate)
}

/// Whether a link takes frames.
pub fn state(text: &str) -> Result<State, WordError> {
    let mut words = Words::new("link", text);
    let Some((column, word)) = words.next() else {
        return Err(words.missing("up, down or flap"));
    };
    let state = match word {
        "up" => State::Up,
        "down" => State::Down,
        "flap" => {
            let column = words.column();
            let up_ns = words.time("how long it is up, such as 10s")?;
            let down_ns = words.time("how long it is down, such as 1s")?;
            if up_ns == 0 || down_ns == 0 {
                return Err(words.error(column, "neither time may be 0".to_owned()));
            }
            State::Flapping { up_ns, down_ns }
        }
        _ => return Err(words.unknown(column, word, &STATE_WORDS)),
    };
    words.end()?;
    Ok(state)
}

/// How much is held.
pub fn limit(text: &str) -> Result<Limit, WordError> {
    let mut words = Words::new("limit", text);
    let Some(word) = words.peek() else {
        return Err(words.missing("frames, such as 1000, or bytes, such as 64kb"));
    };
    let limit = if word.bytes().all(|byte| byte.is_ascii_digit()) {
        Limit::Frames(words.number(1, u64::MAX)?)
    } else {
        Limit::Bytes(words.size()?)
    };
    words.end()?;
    Ok(limit)
}

fn begins_as_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit() || c == '.' || c == '-' || c == '+')
}

/// The words that are left, and where they stand.
struct Words<'a> {
    setting: &'static str,
    text: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    fn new(setting: &'static str, text: &'a str) -> Self {
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

    fn column(&self) -> usize {
        self.at + 1
    }

    fn peek(&self) -> Option<&'a str> {
        self.text[self.at..].split_whitespace().next()
    }

    fn next(&mut self) -> Option<(usize, &'a str)> {
        let word = self.peek()?;
        let column = self.column();
        self.at += word.len();
        self.skip_blanks();
        Some((column, word))
    }

    fn error(&self, column: usize, problem: String) -> WordError {
        WordError {
            setting: self.setting,
            text: self.text.to_owned(),
            column,
            problem,
        }
    }

    fn missing(&self, what: &str) -> WordError {
        self.error(self.text.trim_end().len() + 1, format!("{what} is missing"))
    }

    fn unknown(&self, column: usize, word: &str, known: &[&str]) -> WordError {
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

    fn end(&mut self) -> Result<(), WordError> {
        match self.next() {
            None => Ok(()),
            Some((column, word)) => {
                Err(self.error(column, format!("'{word}' is one word too many")))
            }
        }
    }

    fn expect(&mut self, wanted: &'static str) -> Result<(), WordError> {
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
    fn refused(&self, column: usize, word: &str, problem: String) -> WordError {
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

    fn time(&mut self, what: &str) -> Result<u64, WordError> {
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

    fn share(&mut self) -> Result<f64, WordError> {
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

    fn correlation(&mut self) -> Result<Correlation, WordError> {
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

    fn chance(&mut self) -> Result<Chance, WordError> {
        let share = self.share()?;
        let correlation = match self.peek() {
            Some(_) => self.correlation()?,
            None => Correlation::None,
        };
        self.end()?;
        Ok(Chance { share, correlation })
    }

    fn number(&mut self, low: u64, high: u64) -> Result<u64, WordError> {
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

    fn numbers(&mut self) -> Result<Vec<u64>, WordError> {
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
    fn times(&mut self) -> Result<u64, WordError> {
        if self.peek().is_none() {
            return Ok(1);
        }
        self.expect("times")?;
        self.number(1, u64::MAX)
    }

    fn factor(&mut self) -> Result<f64, WordError> {
        self.parsed("a factor", |word| {
            let factor = word.parse::<f64>().ok();
            let factor = factor.filter(|factor| (0.0..=1e6).contains(factor));
            factor.ok_or_else(|| format!("'{word}' is not a factor from 0 to 1000000"))
        })
    }

    /// As tc(8): k, m and g are binary, with or without b.
    fn size(&mut self) -> Result<u64, WordError> {
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

    fn distribution(&mut self, load: LoadTable<'_>) -> Result<(usize, Distribution), WordError> {
        let (column, name) = self
            .next()
            .ok_or_else(|| self.missing("the name of a distribution"))?;
        if name == "uniform" {
            return Ok((column, Distribution::Uniform));
        }
        let table = match built_in(name) {
            Some(table) => table,
            None => load(name).map_err(|why| {
                let known = self.unknown(column, name, &DISTRIBUTIONS).problem;
                self.error(column, format!("{why}; {known}"))
            })?,
        };
        Ok((column, Distribution::named(name, table)))
    }

    fn order(&mut self) -> Result<Order, WordError> {
        let (column, word) = self
            .next()
            .ok_or_else(|| self.missing("fifo, reorder or correlated"))?;
        match word {
            "fifo" => Ok(Order::Fifo),
            "reorder" => Ok(Order::Reorder),
            "correlated" => {
                let column = self.column();
                match self.time("a half-life, such as 1ms")? {
                    0 => Err(self.error(
                        column,
                        "a half-life of 0 is none: leave the words away".to_owned(),
                    )),
                    half_life_ns => Ok(Order::Correlated { half_life_ns }),
                }
            }
            _ => Err(self.unknown(column, word, &ORDERS)),
        }
    }
}

/// A share in percent, as few digits as say it.
pub(crate) struct Percent(pub(crate) f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Twelve decimals hide what the division by 100 changed; the number's own form has no zeros behind.
        let percent = (self.0 * 100.0 * 1e12).round() / 1e12;
        write!(f, "{percent}%")
    }
}

impl fmt::Display for Chance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Percent(self.share))?;
        match self.correlation {
            Correlation::Share(share) => write!(f, " {}", Percent(share)),
            Correlation::None | Correlation::HalfLife(_) => Ok(()),
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Random(chance) => write!(f, "random {chance}"),
            &Self::GilbertElliott {
                p,
                r,
                bad_loss,
                good_loss,
            } => write!(
                f,
                "gemodel {} {} {} {}",
                Percent(p),
                Percent(r),
                Percent(bad_loss),
                Percent(good_loss)
            ),
            &Self::Burst {
                length_ns,
                every_ns,
            } => {
                write!(
                    f,
                    "burst {} every {}",
                    format_duration(length_ns),
                    format_duration(every_ns)
                )
            }
            Self::Every(number) => write!(f, "every {number}"),
            Self::Frames(numbers) => {
                let numbers: Vec<_> = numbers.iter().map(u64::to_string).collect();
                write!(f, "frames {}", numbers.join(","))
            }
            Self::Segment { place, times } => match place {
                Place::Segment(number) => write!(f, "segment {number} times {times}"),
                Place::Byte(offset) => write!(f, "byte {offset} times {times}"),
            },
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uniform => "uniform",
            Self::Table { name, .. } => name,
        })
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_duration(self.base_ns))?;
        let share = match self.draws {
            Draws::Seeded {
                correlation: Correlation::Share(share),
            } => format!(" {}", Percent(share)),
            _ => String::new(),
        };
        match &self.jitter {
            Jitter::None => {}
            Jitter::Around {
                jitter_ns,
                distribution,
            } => {
                let jitter = format_duration(*jitter_ns);
                write!(f, " {jitter}{share} distribution {distribution}")?;
            }
            Jitter::Above {
                jitter_ns,
                distribution,
            } => {
                let jitter = format_duration(*jitter_ns);
                write!(f, " {jitter}{share} distribution {distribution} one-sided")?;
            }
            Jitter::Shifted {
                shift,
                cycle_ns,
                distribution,
            } => {
                let cycle = format_duration(*cycle_ns);
                write!(
                    f,
                    " shift {shift} cycle {cycle} distribution {distribution}"
                )?;
            }
            Jitter::Measured { name, times, .. } => {
                write!(f, " distribution {name} times {times}")?;
            }
        }
        if let Draws::Prbs31 { state } = self.draws {
            write!(f, " prbs31 {state}")?;
        }
        match self.order {
            Order::Fifo => f.write_str(" order fifo"),
            Order::Reorder => f.write_str(" order reorder"),
            Order::Correlated { half_life_ns } => {
                write!(f, " order correlated {}", format_duration(half_life_ns))
            }
        }
    }
}

impl fmt::Display for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const PREFIXES: [(&str, u64); 4] = [
            ("t", 1_000_000_000_000),
            ("g", 1_000_000_000),
            ("m", 1_000_000),
            ("k", 1_000),
        ];
        let Self {
            bits_per_second,
            burst_bytes,
            overhead_bytes,
            excess,
        } = self;
        let fits = |&&(_, factor): &&(&str, u64)| bits_per_second.is_multiple_of(factor);
        let (prefix, factor) = PREFIXES.iter().find(fits).copied().unwrap_or(("", 1));
        let number = bits_per_second / factor;
        write!(
            f,
            "{number}{prefix}bit burst {burst_bytes}b overhead {overhead_bytes}"
        )?;
        match excess {
            Excess::Wait => Ok(()),
            Excess::Drop => f.write_str(" drop"),
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Up => f.write_str("up"),
            Self::Down => f.write_str("down"),
            Self::Flapping { up_ns, down_ns } => {
                write!(
                    f,
                    "flap {} {}",
                    format_duration(up_ns),
                    format_duration(down_ns)
                )
            }
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Derived => f.write_str("memory"),
            Self::Frames(frames) => write!(f, "{frames}"),
            Self::Bytes(bytes) => write!(f, "{bytes}b"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> Result<Table, String> {
        match name {
            "measured" => {
                Ok(Table::new(vec![1000, 2000, 5000], Unit::Nanoseconds).expect("a table"))
            }
            "three.dist" => {
                Ok(Table::new(vec![-8192, 0, 8192], Unit::Deviations).expect("a table"))
            }
            _ => Err(format!("there is no file '{name}'")),
        }
    }

    #[test]
    fn words_are_read_and_said_again() {
        for (text, resolved) in [
            ("100us", "100us order fifo"),
            ("0", "0ns order fifo"),
            ("100us 10us", "100us 10us distribution uniform order fifo"),
            (
                "100us 10us 25% distribution normal",
                "100us 10us 25% distribution normal order fifo",
            ),
            (
                "1ms 10us distribution pareto order reorder",
                "1ms 10us distribution pareto order reorder",
            ),
            (
                "1ms 10us order correlated 2ms",
                "1ms 10us distribution uniform order correlated 2ms",
            ),
            (
                "5us 8us one-sided distribution three.dist",
                "5us 8us distribution three.dist one-sided order fifo",
            ),
            (
                "5us shift 11 prbs31",
                "5us shift 11 cycle 5ns distribution uniform prbs31 1 order fifo",
            ),
            (
                "5us shift 11 distribution paretonormal prbs31 77 cycle 10ns",
                "5us shift 11 cycle 10ns distribution paretonormal prbs31 77 order fifo",
            ),
            (
                "0ns distribution measured times 1.5",
                "0ns distribution measured times 1.5 order fifo",
            ),
            (
                "1us 10us distribution measured",
                "1us 10us distribution measured order fifo",
            ),
        ] {
            let read = delay(text, &mut file).expect(text);
            assert_eq!(read.to_string(), resolved);
            assert_eq!(delay(resolved, &mut file), Ok(read));
        }
        for (text, resolved) in [
            ("0.1%", "random 0.1%"),
            ("random 0.3% 25%", "random 0.3% 25%"),
            ("gemodel 1%", "gemodel 1% 99% 100% 0%"),
            ("gemodel 1% 10% 70% 0.1%", "gemodel 1% 10% 70% 0.1%"),
            ("burst 50ms every 10s", "burst 50ms every 10s"),
            ("every 100", "every 100"),
            ("frames 17,3", "frames 3,17"),
            ("segment 3", "segment 3 times 1"),
            ("byte 0 times 2", "byte 0 times 2"),
            ("none", "none"),
        ] {
            let read = loss(text).expect(text);
            assert_eq!(read.to_string(), resolved);
            assert_eq!(loss(resolved), Ok(read));
        }
        for (text, resolved) in [
            ("1gbit", "1gbit burst 0b overhead 0"),
            (
                "10mbit burst 15k overhead ethernet",
                "10mbit burst 15360b overhead 24",
            ),
            (
                "10mbit overhead 38 burst 2kb drop",
                "10mbit burst 2048b overhead 38 drop",
            ),
        ] {
            let read = rate(text).expect(text);
            assert_eq!(read.to_string(), resolved);
            assert_eq!(rate(resolved), Ok(read));
        }
        for text in ["up", "down", "flap 10s 500ms"] {
            assert_eq!(state(text).expect(text).to_string(), text);
        }
        assert_eq!(limit("1000"), Ok(Limit::Frames(1000)));
        assert_eq!(limit("64kb"), Ok(Limit::Bytes(65_536)));
        let chance = chance("duplicate", "1% 10%").expect("a share");
        assert_eq!(chance.to_string(), "1% 10%");
    }

    #[test]
    fn what_is_refused_is_named_and_pointed_at() {
        let refused = |text: &str| match text.split_once(' ').expect("a setting and words") {
            ("delay", words) => delay(words, &mut file).map(|_| ()),
            ("loss", words) => loss(words).map(|_| ()),
            ("rate", words) => rate(words).map(|_| ()),
            ("link", words) => state(words).map(|_| ()),
            ("limit", words) => limit(words).map(|_| ()),
            (_, words) => chance("corrupt", words).map(|_| ()),
        };
        for (text, message) in [
            (
                "delay ",
                "delay '', column 1: a time, such as 100us is missing",
            ),
            ("delay 100", "column 1: '100' is not a time"),
            ("delay -5ms", "column 1: '-5ms' must not be negative"),
            ("rate -1mbit", "column 1: '-1mbit' must not be negative"),
            ("loss -1%", "column 1: '-1%' must not be negative"),
            ("limit -5kb", "column 1: '-5kb' must not be negative"),
            ("delay 25h", "column 1: '25h' is more than a day"),
            (
                "delay 1ms 1ms distrbution normal",
                "column 9: 'distrbution' is unknown here; the nearest known word is distribution",
            ),
            (
                "delay 1ms 1ms distribution nromal",
                "column 22: there is no file 'nromal'; 'nromal' is unknown here; the nearest known word is normal",
            ),
            (
                "delay 1ms distribution normal",
                "column 18: a distribution needs a jitter behind the delay",
            ),
            (
                "delay 1ms 1ms distribution",
                "column 21: the name of a distribution is missing",
            ),
            (
                "delay 1ms 1ms order fifa",
                "column 15: 'fifa' is unknown here; the nearest known word is fifo",
            ),
            (
                "delay 1ms 1ms order correlated 0",
                "column 26: a half-life of 0 is none",
            ),
            ("delay 1ms 1ms 100%", "column 9: at 100% each draw"),
            (
                "delay 1ms 1ms prbs31 distribution three.dist",
                "column 9: prbs31 needs a table of 2, 4, 8",
            ),
            (
                "delay 1ms 1ms 5% prbs31",
                "column 12: the draws of prbs31 are not correlated",
            ),
            (
                "delay 1ms prbs31",
                "column 5: without jitter there is nothing to draw",
            ),
            ("delay 1ms 1ms shift 4", "column 9: shift is the jitter"),
            (
                "delay 1ms shift 33",
                "column 11: '33' is not a number from 0 to 32",
            ),
            ("delay 1ms cycle 4ns", "column 5: a cycle goes with shift"),
            ("delay 1ms 1ms times 2", "column 9: times goes with"),
            (
                "loss 0.1",
                "column 1: '0.1' is not a share: write a number from 0 to 100 and %",
            ),
            ("loss 101%", "column 1: '101%' is not a share"),
            (
                "loss gemodle 1%",
                "column 1: 'gemodle' is unknown here; the nearest known word is gemodel",
            ),
            (
                "loss gemodel 1% 2% 3% 4% 5%",
                "column 21: '5%' is one word too many",
            ),
            (
                "loss burst 5s every 5s",
                "column 16: the burst must be shorter",
            ),
            ("loss burst 5s", "column 9: every is missing"),
            (
                "loss frames 1,x",
                "column 8: '1,x' is not numbers of frames",
            ),
            ("loss segment 0", "column 9: '0' is not a number from 1 on"),
            (
                "loss segment 3 time 2",
                "column 11: 'time' is unknown here; the nearest known word is times",
            ),
            ("rate 0", "column 1: '0' is not a rate of 1 or more"),
            ("rate 1kpps", "column 1: '1kpps' counts frames"),
            (
                "rate 1gbit brust 5k",
                "column 7: 'brust' is unknown here; the nearest known word is burst",
            ),
            ("rate 1gbit burst 5x", "column 13: '5x' is not a size"),
            (
                "rate 1gbit overhead ethrnet",
                "column 16: 'ethrnet' is unknown here; the nearest known word is ethernet",
            ),
            ("rate 1gbit drop", "column 7: without a burst"),
            (
                "link flop",
                "column 1: 'flop' is unknown here; the nearest known word is flap",
            ),
            ("link flap 0 1s", "column 6: neither time may be 0"),
            ("limit 0", "column 1: '0' is not a number from 1 on"),
            (
                "corrupt 5% 5% 5%",
                "corrupt '5% 5% 5%', column 7: '5%' is one word too many",
            ),
        ] {
            let error = refused(text).expect_err(text).to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
