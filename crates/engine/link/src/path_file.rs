//! Path files: how a network was over time.
//!
//! ```text
//! time   delay  loss  rate
//! 0s     20ms   0%    10mbit
//! 100ms  35ms   2%    6mbit
//! 200ms  repeat
//! ```
//!
//! A header names the columns: `time`, and at least one of `delay`, `loss` and `rate`. What a line
//! gives holds from its time on until the next line's; the last one's for ever, or until `repeat`
//! begins again at the first line. Blanks, tabs or commas separate; empty lines and those that
//! begin with `#` are skipped.

use std::fmt::Write;
use std::sync::Arc;

use lineside_time::Nanoseconds;
use lineside_words::{Rate, YEAR, format_duration, parse_rate, parse_time};

use crate::format::{FormatError, words};

/// Bits times nanoseconds per second: so whole numbers say what has been served at any nanosecond.
const SCALE: u128 = 1_000_000_000;
/// Lines of a path file: a day of ten a second.
const LINES_MAX: usize = 1_000_000;

/// A network over time, from the link's beginning on.
#[derive(Clone, PartialEq)]
pub struct PathFile {
    name: String,
    steps: Arc<[PathStep]>,
    /// The time after which it begins again.
    period_ns: Option<u64>,
    /// What the rate has brought by each step's time, in bits x [`SCALE`]; empty without a rate.
    served: Arc<[u128]>,
    /// The same of a whole period.
    served_in_period: u128,
}

/// What holds for a time. Each file gives the same of the three for all its steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathStep {
    /// From when on; the first one from 0.
    pub at_ns: u64,
    /// The delay.
    pub delay_ns: Option<u64>,
    /// The share of the frames that is lost.
    pub loss: Option<f64>,
    /// The rate, 0 for an outage.
    pub bits_per_second: Option<u64>,
}

const COLUMNS: [&str; 4] = ["time", "delay", "loss", "rate"];

impl PathFile {
    /// A path from its steps, whose times rise from 0; or what is wrong with them.
    pub fn new(
        name: &str,
        steps: Vec<PathStep>,
        period_ns: Option<u64>,
    ) -> Result<Self, &'static str> {
        let (Some(first), Some(last)) = (steps.first(), steps.last()) else {
            return Err("a line with values is missing");
        };
        if first.at_ns != 0 {
            return Err("the first line's time is not 0: say what holds at the beginning");
        }
        if !steps.is_sorted_by(|one, other| one.at_ns < other.at_ns) {
            return Err("times do not rise");
        }
        if period_ns.is_some_and(|period_ns| period_ns <= last.at_ns) {
            return Err("the time of 'repeat' is not after that of the last line");
        }
        let (mut served, mut sum) = (Vec::new(), 0);
        let has_rate = first.bits_per_second.is_some();
        for (at, step) in steps.iter().enumerate() {
            served.push(sum);
            let rate = u128::from(step.bits_per_second.unwrap_or(0));
            let until_ns = steps.get(at + 1).map(|next| next.at_ns).or(period_ns);
            sum += rate * u128::from(until_ns.unwrap_or(step.at_ns) - step.at_ns);
        }
        if has_rate && period_ns.is_none() && last.bits_per_second == Some(0) {
            return Err(
                "the last rate is 0, so nothing would ever leave: end with a rate, or with 'TIME \
                repeat'",
            );
        }
        if has_rate && period_ns.is_some() && sum == 0 {
            return Err("all rates are 0: nothing would ever leave");
        }
        if !has_rate {
            served.clear();
        }
        Ok(Self {
            name: name.to_owned(),
            steps: steps.into(),
            period_ns,
            served: served.into(),
            served_in_period: sum,
        })
    }

    /// A path from its text.
    pub fn read(name: &str, text: &str) -> Result<Self, FormatError> {
        let lines = lines(text)?;
        let Some((header, rows)) = lines.split_first() else {
            let problem = "a header such as 'time delay loss rate' is missing";
            return Err(malformed(1, 1, problem));
        };
        let columns = columns(header)?;
        let (mut steps, mut period_ns) = (Vec::<PathStep>::new(), None);
        for row in rows {
            let (line, column, word) = row[0];
            if period_ns.is_some() {
                return Err(malformed(line, column, "nothing may follow 'repeat'"));
            }
            let at_ns =
                parse_time(word, 0, YEAR).map_err(|problem| malformed(line, column, problem))?;
            if let [_, (_, _, "repeat")] = row[..] {
                period_ns = Some(at_ns);
                continue;
            }
            let step = step(at_ns, row, &columns)?;
            if steps.last().is_some_and(|last| last.at_ns >= at_ns) {
                let problem = format!("{word} is not later than the line before");
                return Err(malformed(line, column, problem));
            }
            steps.push(step);
        }
        let last_line = lines.last().map_or(1, |line| line[0].0);
        Self::new(name, steps, period_ns).map_err(|problem| malformed(last_line, 1, problem))
    }

    /// The path as text.
    pub fn write(&self) -> String {
        let first = self.steps[0];
        let mut text = "time".to_owned();
        for (is_there, column) in [
            (first.delay_ns.is_some(), " delay"),
            (first.loss.is_some(), " loss"),
            (first.bits_per_second.is_some(), " rate"),
        ] {
            text += if is_there { column } else { "" };
        }
        text.push('\n');
        for step in self.steps.iter() {
            text += &format_duration(step.at_ns);
            if let Some(delay_ns) = step.delay_ns {
                let _ = write!(text, " {}", format_duration(delay_ns));
            }
            if let Some(loss) = step.loss {
                let _ = write!(text, " {}", crate::words::percent::Percent(loss));
            }
            if let Some(rate) = step.bits_per_second {
                let _ = write!(text, " {rate}bit");
            }
            text.push('\n');
        }
        if let Some(period_ns) = self.period_ns {
            let _ = writeln!(text, "{} repeat", format_duration(period_ns));
        }
        text
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What holds when.
    pub fn steps(&self) -> &[PathStep] {
        &self.steps
    }

    /// The time after which it begins again.
    pub fn period_ns(&self) -> Option<u64> {
        self.period_ns
    }

    /// Each step with how long it holds: of the last one without `repeat`, as long as the one
    /// before.
    pub fn spans(&self) -> impl Iterator<Item = (&PathStep, u64)> {
        let steps = &self.steps;
        steps.iter().enumerate().map(move |(at, step)| {
            let until_ns = steps.get(at + 1).map(|next| next.at_ns).or(self.period_ns);
            let before_ns = at
                .checked_sub(1)
                .map(|before| step.at_ns - steps[before].at_ns);
            let span_ns = until_ns.map(|until_ns| until_ns - step.at_ns);
            (step, span_ns.or(before_ns).unwrap_or(1_000_000_000))
        })
    }

    /// Whether it gives a rate.
    pub fn has_rate(&self) -> bool {
        !self.served.is_empty()
    }

    /// The rate in the mean of the time, if it gives one: without `repeat`, its largest.
    pub fn bits_per_second(&self) -> Option<u64> {
        let mean = match self.period_ns {
            Some(period_ns) => (self.served_in_period / u128::from(period_ns)) as u64,
            None => self
                .steps
                .iter()
                .filter_map(|step| step.bits_per_second)
                .max()
                .unwrap_or(0),
        };
        self.has_rate().then_some(mean.max(1))
    }

    /// The largest delay.
    pub(crate) fn delay_max_ns(&self) -> i64 {
        let most = self.steps.iter().filter_map(|step| step.delay_ns).max();
        most.unwrap_or(0) as i64
    }

    /// What holds at an instant.
    #[inline]
    pub(crate) fn at(&self, since_ns: Nanoseconds) -> &PathStep {
        let (_, within_ns) = self.within(since_ns);
        &self.steps[self.step_at(within_ns)]
    }

    fn within(&self, since_ns: Nanoseconds) -> (u64, u64) {
        let since_ns = since_ns.max(0).cast_unsigned();
        match self.period_ns {
            Some(period_ns) => (since_ns / period_ns, since_ns % period_ns),
            None => (0, since_ns),
        }
    }

    fn step_at(&self, within_ns: u64) -> usize {
        // The first one holds from 0 on.
        self.steps.partition_point(|step| step.at_ns <= within_ns) - 1
    }

    /// What the rate has brought by an instant, in bits x [`SCALE`].
    fn served_by(&self, since_ns: Nanoseconds) -> u128 {
        let (periods, within_ns) = self.within(since_ns);
        let step = self.step_at(within_ns);
        let rate = u128::from(self.steps[step].bits_per_second.unwrap_or(0));
        u128::from(periods) * self.served_in_period
            + self.served[step]
            + rate * u128::from(within_ns - self.steps[step].at_ns)
    }

    /// The first nanosecond by which the rate has brought so much.
    fn when(&self, served: u128) -> Nanoseconds {
        let (periods, within) = match self.period_ns {
            // A frame whose last bit is served at the end of a period leaves then, and not after an
            // outage in the next one.
            Some(_) => {
                let periods = served.saturating_sub(1) / self.served_in_period;
                (periods, served - periods * self.served_in_period)
            }
            None => (0, served),
        };
        // The last step that begins with less.
        let step = self.served.partition_point(|&begin| begin < within).max(1) - 1;
        let rate = u128::from(self.steps[step].bits_per_second.unwrap_or(0)).max(1);
        let more_ns = (within - self.served[step]).div_ceil(rate);
        let ns = periods * u128::from(self.period_ns.unwrap_or(0))
            + u128::from(self.steps[step].at_ns)
            + more_ns;
        i64::try_from(ns).unwrap_or(i64::MAX)
    }
}

impl std::fmt::Debug for PathFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PathFile")
            .field("name", &self.name)
            .field("steps", &self.steps.len())
            .finish_non_exhaustive()
    }
}

/// A rate over time at work: a frame leaves when all before it and its own bits have been brought
/// since it was due.
#[derive(Debug, Clone)]
pub(crate) struct PathPace {
    path: PathFile,
    origin_ns: Nanoseconds,
    /// What has been used up.
    used: u128,
}

impl PathPace {
    pub(crate) fn new(path: PathFile, origin_ns: Nanoseconds) -> Self {
        Self {
            path,
            origin_ns,
            used: 0,
        }
    }

    pub(crate) fn ready_ns(&self, due: Nanoseconds, len_bytes: u32) -> Nanoseconds {
        let at_ns = self.path.when(self.after(due, len_bytes));
        self.origin_ns.saturating_add(at_ns).max(due)
    }

    pub(crate) fn take(&mut self, due: Nanoseconds, len_bytes: u32) {
        self.used = self.after(due, len_bytes);
    }

    fn after(&self, due: Nanoseconds, len_bytes: u32) -> u128 {
        let brought = self.path.served_by(due.saturating_sub(self.origin_ns));
        self.used.max(brought) + u128::from(len_bytes) * 8 * SCALE
    }
}

/// A word with its line and column.
type PlacedWord<'a> = (usize, usize, &'a str);

fn malformed(line: usize, column: usize, problem: impl Into<String>) -> FormatError {
    FormatError::Malformed {
        line,
        column,
        problem: problem.into(),
    }
}

/// The words of each line that has any.
fn lines(text: &str) -> Result<Vec<Vec<PlacedWord<'_>>>, FormatError> {
    let mut lines: Vec<Vec<PlacedWord<'_>>> = Vec::new();
    for word in words(text, 0, &[',']) {
        match lines.last_mut() {
            Some(line) if line[0].0 == word.0 => line.push(word),
            _ => lines.push(vec![word]),
        }
        if lines.len() > LINES_MAX {
            let problem = format!("a path file has at most {LINES_MAX} lines");
            return Err(malformed(word.0, word.1, problem));
        }
    }
    Ok(lines)
}

/// The places in [`COLUMNS`] of the columns that the first line names.
fn columns(header: &[PlacedWord<'_>]) -> Result<Vec<usize>, FormatError> {
    let mut columns = Vec::new();
    for &(line, column, word) in header {
        let known = COLUMNS.iter().position(|known| *known == word);
        match known {
            Some(known) if !columns.contains(&known) && (known == 0) == columns.is_empty() => {
                columns.push(known)
            }
            _ => {
                let problem = format!(
                    "'{word}' is no column here: the first line names them, 'time' and then some \
                    of 'delay', 'loss' and 'rate'"
                );
                return Err(malformed(line, column, problem));
            }
        }
    }
    if columns.len() < 2 {
        let problem = "name 'delay', 'loss' or 'rate' beside 'time'";
        return Err(malformed(header[0].0, 1, problem));
    }
    Ok(columns)
}

/// The step of a line.
fn step(at_ns: u64, row: &[PlacedWord<'_>], columns: &[usize]) -> Result<PathStep, FormatError> {
    if row.len() != columns.len() {
        let problem = format!("{} columns, not {}", row.len(), columns.len());
        return Err(malformed(row[0].0, row[0].1, problem));
    }
    let mut step = PathStep {
        at_ns,
        delay_ns: None,
        loss: None,
        bits_per_second: None,
    };
    for (&known, &(line, column, word)) in columns.iter().zip(row) {
        let read = match known {
            1 => parse_time(word, 0, YEAR).map(|ns| step.delay_ns = Some(ns)),
            2 => share(word).map(|share| step.loss = Some(share)),
            3 => rate(word).map(|rate| step.bits_per_second = Some(rate)),
            _ => Ok(()),
        };
        read.map_err(|problem| malformed(line, column, problem))?;
    }
    Ok(step)
}

fn share(word: &str) -> Result<f64, String> {
    lineside_words::share(word).ok_or_else(|| format!("'{word}' is not a share: write 0.1%"))
}

fn rate(word: &str) -> Result<u64, String> {
    if matches!(word, "0" | "0bit") {
        return Ok(0);
    }
    match parse_rate(word) {
        Ok(Rate::Bits(rate)) => Ok(rate),
        Ok(Rate::Frames(_)) => Err(format!("'{word}' counts frames: give bits, such as 10mbit")),
        Err(error) => Err(error.to_string()),
    }
}
