//! The mean rate of a load in time: steps and linear ramps, their integral and its inverse.
//!
//! ```text
//!  unit-rate process: u ─► instant at which the integral of the rate is u
//! ```
//!
//! Positions on the axis of the unit-rate process are [`Position`]s of 64 binary places: gaps are
//! added to them exactly, and an instant is worked out from the position alone, so that no error
//! accumulates from one arrival to the next.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use lineside_time::Nanoseconds;
use lineside_words::{WordError, Words, format_duration};

use crate::MARKS;

/// The most steps and ramps of a profile.
pub const STEPS_MAX: usize = 1_000;

/// Steps and ramps, one after the other: `10000`, `1000 for 10s, 5000 for 20s`, `0 to 1000 in 60s,
/// 1000`. A rate without an end is the last one.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    steps: Vec<Step>,
    /// As `steps`, with where each one begins.
    segments: Arc<[Segment]>,
}

/// A part of a profile; rates are a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// The same rate for this long; `None`: from then on.
    Constant {
        /// Arrivals a second.
        rate: f64,
        /// How long.
        length_ns: Option<u64>,
    },
    /// A rate that changes evenly.
    Ramp {
        /// Arrivals a second at its begin.
        from: f64,
        /// Arrivals a second at its end.
        to: f64,
        /// How long.
        length_ns: u64,
    },
}

/// A position on the axis of the unit-rate process: 64 bits before the binary point and 64 behind
/// it.
pub(crate) type Position = u128;

/// One, as a [`Position`].
#[cfg(test)]
pub(crate) const ONE: Position = 1 << 64;
/// 2^64 as a double, exact.
const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;
/// The most that one gap counts, and where time ends: at a thousand million a second, after 146
/// years.
const GAP_MAX: f64 = (1_u64 << 62) as f64;
const END: Position = 1 << 126;

/// The position of a number that is not negative; exact but for places behind the 64th.
#[inline]
pub(crate) fn position(number: f64) -> Position {
    let number = number.clamp(0.0, GAP_MAX);
    let whole = number as i64;
    // 63 places and a doubled result: a double becomes a signed number in one step.
    let fraction = (number - whole as f64) * (TWO_TO_64 / 2.0);
    (u128::from(whole as u64) << 64) + (u128::from(fraction as i64 as u64) << 1)
}

/// The number nearest to a position, or next to it.
#[inline]
pub(crate) fn number(position: Position) -> f64 {
    let whole = (position >> 64) as i64 as f64;
    let fraction = (position as u64 >> 1) as i64 as f64;
    whole + fraction / (TWO_TO_64 / 2.0)
}

/// A step with where it begins, in time and in arrivals.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Segment {
    start_ns: u64,
    /// After the last nanosecond; `None`: it has no end.
    end_ns: Option<u64>,
    /// Arrivals a nanosecond at the begin.
    from: f64,
    /// By which that changes in a nanosecond.
    slope: f64,
    /// Arrivals a second at the begin: a constant rate is divided by exactly.
    per_second: f64,
    start: Position,
    end: Option<Position>,
}

impl Segment {
    /// Nanoseconds from the begin until `arrivals` of it have come.
    #[inline]
    fn time(&self, arrivals: f64) -> f64 {
        if self.slope == 0.0 {
            return arrivals * 1e9 / self.per_second;
        }
        // The root of the quadratic equation in the form that loses no digit, whichever sign.
        let square = self.from * self.from + 2.0 * self.slope * arrivals;
        let divisor = self.from + square.max(0.0).sqrt();
        2.0 * arrivals / divisor
    }

    /// Arrivals in the first nanoseconds.
    #[inline]
    fn arrivals(&self, time_ns: f64) -> f64 {
        if self.slope == 0.0 {
            return time_ns * self.per_second / 1e9;
        }
        time_ns * (self.from + 0.5 * self.slope * time_ns)
    }
}

impl Profile {
    /// The same rate, a second, for ever. It must be above 0 and at most a thousand million.
    pub fn constant(rate: f64) -> Result<Self, WordError> {
        rate.to_string().parse()
    }

    /// The steps and ramps.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// How long all of it takes; `None`: it has no end.
    pub fn length_ns(&self) -> Option<u64> {
        self.segments.last().and_then(|last| last.end_ns)
    }

    /// The rate, a second, if it is the same all the time.
    pub fn constant_rate(&self) -> Option<f64> {
        match self.steps[..] {
            [Step::Constant { rate, .. }] => Some(rate),
            _ => None,
        }
    }

    /// The highest rate, a second.
    pub fn peak(&self) -> f64 {
        let peak = |step: &Step| match *step {
            Step::Constant { rate, .. } => rate,
            Step::Ramp { from, to, .. } => from.max(to),
        };
        self.steps.iter().map(peak).fold(0.0, f64::max)
    }

    /// The rate a second at an instant; 0 after the end.
    pub fn rate_at(&self, at_ns: Nanoseconds) -> f64 {
        let at_ns = at_ns.max(0) as u64;
        let is_in = |segment: &&Segment| segment.end_ns.is_none_or(|end_ns| at_ns < end_ns);
        let segment = self.segments.iter().find(is_in);
        segment.map_or(0.0, |segment| {
            segment.per_second + segment.slope * (at_ns - segment.start_ns) as f64 * 1e9
        })
    }

    /// How many arrivals are expected in all of it; `None`: it has no end.
    pub fn expected(&self) -> Option<f64> {
        self.segments.last()?.end.map(number)
    }

    /// The longest time in which nothing arrives, and the least rate above 0 of its steps.
    pub(crate) fn extremes(&self) -> (u64, f64) {
        let silent = self.steps.iter().filter(|step| step.is_silent());
        let loud = self.steps.iter().filter(|step| !step.is_silent());
        let pauses = silent.filter_map(Step::length_ns);
        let rates = loud.map(Step::mean_rate);
        (
            pauses.max().unwrap_or(0),
            rates.fold(f64::INFINITY, f64::min),
        )
    }

    /// A reader of instants that only goes forward.
    pub(crate) fn cursor(&self) -> Cursor {
        Cursor {
            segments: self.segments.clone(),
            index: 0,
        }
    }

    fn new(steps: Vec<Step>) -> Self {
        let (mut start_ns, mut start) = (0_u64, 0);
        let mut segments = Vec::with_capacity(steps.len());
        for &step in &steps {
            let (from, to, length_ns) = match step {
                Step::Constant { rate, length_ns } => (rate, rate, length_ns),
                Step::Ramp {
                    from,
                    to,
                    length_ns,
                } => (from, to, Some(length_ns)),
            };
            let length = length_ns.map_or(f64::INFINITY, |length_ns| length_ns as f64);
            let mut segment = Segment {
                start_ns,
                end_ns: length_ns.map(|length_ns| start_ns + length_ns),
                from: from / 1e9,
                slope: (to - from) / 1e9 / length,
                per_second: from,
                start,
                end: None,
            };
            segment.end = length_ns.map(|_| start + position(length * (from + to) / 2e9));
            (start_ns, start) = (
                segment.end_ns.unwrap_or(start_ns),
                segment.end.unwrap_or(start),
            );
            segments.push(segment);
        }
        Self {
            steps,
            segments: segments.into(),
        }
    }
}

/// Maps rising positions to instants, and rising instants to positions. It does not go back.
#[derive(Debug, Clone)]
pub(crate) struct Cursor {
    segments: Arc<[Segment]>,
    index: usize,
}

impl Cursor {
    /// The instant of a position, to the nearest nanosecond; `None` after the end of the profile
    /// or of time.
    #[inline]
    pub(crate) fn instant(&mut self, position: Position) -> Option<Nanoseconds> {
        let mut segment = self.segments.get(self.index).filter(|_| position < END)?;
        while segment.end.is_some_and(|end| position >= end) {
            self.index += 1;
            segment = self.segments.get(self.index)?;
        }
        let after_ns = segment.time(number(position - segment.start)) + 0.5;
        let latest_ns = segment.end_ns.unwrap_or(i64::MAX as u64);
        if segment.end_ns.is_none() && after_ns >= (latest_ns - segment.start_ns) as f64 {
            return None;
        }
        Some((segment.start_ns + after_ns as u64).min(latest_ns) as i64)
    }

    /// The position of an instant; that of the end after the end. An instant before the begin is at
    /// the begin.
    pub(crate) fn position(&mut self, at_ns: Nanoseconds) -> Position {
        let at_ns = at_ns.max(0) as u64;
        loop {
            let segment = &self.segments[self.index];
            let is_last = self.index + 1 == self.segments.len();
            match segment.end_ns.zip(segment.end) {
                Some((end_ns, end)) if at_ns >= end_ns && is_last => return end,
                Some((end_ns, _)) if at_ns >= end_ns => self.index += 1,
                _ => {
                    let within_ns = at_ns.saturating_sub(segment.start_ns) as f64;
                    let at = segment.start + position(segment.arrivals(within_ns));
                    return segment.end.map_or(at, |end| at.min(end));
                }
            }
        }
    }

    /// Whether an instant lies after the end.
    pub(crate) fn is_after_end(&self, at_ns: Nanoseconds) -> bool {
        let end_ns = self.segments.last().and_then(|last| last.end_ns);
        end_ns.is_some_and(|end_ns| at_ns.max(0) as u64 >= end_ns)
    }
}

impl FromStr for Profile {
    type Err = WordError;

    /// `RATE [for TIME]` and `RATE to RATE in TIME`, with commas between.
    fn from_str(text: &str) -> Result<Self, WordError> {
        let mut words = Words::with_marks("rate", text, MARKS);
        let mut steps: Vec<Step> = Vec::new();
        let last_column = loop {
            let column = words.column();
            if steps.len() == STEPS_MAX {
                let problem = format!("more than {STEPS_MAX} steps: leave some away");
                return Err(words.error(column, problem));
            }
            let step = step(&mut words)?;
            steps.push(step);
            if words.peek().is_none() {
                break column;
            }
            let comma = words.column();
            words.expect(",")?;
            if step.length_ns().is_none() {
                let problem = "only the last rate has no end: write 'for' and a time before this";
                return Err(words.error(comma, problem));
            }
        };
        if steps.iter().all(Step::is_silent) {
            let problem = "at a rate of 0 nothing is ever sent: give more, such as 0.5/s";
            return Err(words.error(1, problem));
        }
        let last = steps.last().copied();
        if last.is_some_and(|last| last.is_silent() && last.length_ns().is_none()) {
            let problem = "a rate of 0 has no end here: write 'for' and a time, or leave it away";
            return Err(words.error(last_column, problem));
        }
        Ok(Self::new(steps))
    }
}

fn step(words: &mut Words<'_>) -> Result<Step, WordError> {
    let what = "a rate a second, such as 10000";
    let from = words.rate(what)?;
    if words.take("to") {
        let to = words.rate(what)?;
        words.expect("in")?;
        let length_ns = words.time("how long the ramp takes, such as 60s", 1_000)?;
        return Ok(Step::Ramp {
            from,
            to,
            length_ns,
        });
    }
    let length_ns = match words.take("for") {
        true => Some(words.time("how long, such as 10s", 1_000)?),
        false => None,
    };
    match words.peek() {
        None | Some(",") => Ok(Step::Constant {
            rate: from,
            length_ns,
        }),
        Some(word) => Err(words.unknown(words.column(), word, &["for", "to"])),
    }
}

impl Step {
    /// How long it takes; `None`: it has no end.
    pub fn length_ns(&self) -> Option<u64> {
        match *self {
            Self::Constant { length_ns, .. } => length_ns,
            Self::Ramp { length_ns, .. } => Some(length_ns),
        }
    }

    fn is_silent(&self) -> bool {
        self.mean_rate() == 0.0
    }

    fn mean_rate(&self) -> f64 {
        match *self {
            Self::Constant { rate, .. } => rate,
            Self::Ramp { from, to, .. } => (from + to) / 2.0,
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.steps.iter().enumerate() {
            let comma = if number > 0 { ", " } else { "" };
            f.write_str(comma)?;
            match *step {
                Step::Constant { rate, length_ns } => {
                    write!(f, "{rate}")?;
                    if let Some(length_ns) = length_ns {
                        write!(f, " for {}", format_duration(length_ns))?;
                    }
                }
                Step::Ramp {
                    from,
                    to,
                    length_ns,
                } => {
                    write!(f, "{from} to {to} in {}", format_duration(length_ns))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn profile(text: &str) -> Profile {
        text.parse().expect(text)
    }

    #[test]
    fn positions_keep_64_places() {
        for value in [0.0, 0.5, 1.0, 1e-9, 3.75, 123_456_789.25, 2f64.powi(-60)] {
            let back = number(position(value));
            assert!(
                (back - value).abs() <= value * 1e-15 + 2f64.powi(-63),
                "{value}"
            );
        }
        assert_eq!((position(1.0), position(0.5)), (ONE, ONE / 2));
        assert_eq!(position(1e300), position(GAP_MAX));
    }

    #[test]
    fn a_constant_rate_is_divided_by_exactly() {
        let profile = profile("3");
        let mut cursor = profile.cursor();
        for k in [0_u128, 1, 2, 3, 10_801] {
            let nearest = (k * 2_000_000_000 / 3).div_ceil(2) as i64;
            assert_eq!(cursor.instant(k * ONE), Some(nearest), "{k}");
        }
        // After 90 days, where a double holds half a nanosecond.
        let days = cursor.instant(23_328_001 * ONE).expect("one");
        assert!(days.abs_diff(7_776_000_333_333_333) <= 1, "{days}");
        for end in [position(3e18), position(f64::INFINITY), Position::MAX] {
            assert_eq!(cursor.instant(end), None, "the end of time");
        }
    }

    #[test]
    fn steps_and_ramps_follow_their_integral() {
        let profile =
            profile("1000 for 10s, 0 for 5s, 5000 for 2s, 0 to 1000 in 4s, 1000 to 500 in 4s");
        assert_eq!(profile.expected(), Some(25_000.0));
        assert_eq!(profile.length_ns(), Some(25_000_000_000));
        let mut cursor = profile.cursor();
        for (arrivals, at_ns) in [
            (0.0, 0),
            (9_999.0, 9_999_000_000),
            // What would come in the pause comes after it.
            (10_000.0, 15_000_000_000),
            (15_000.0, 16_000_000_000),
            (20_000.0, 17_000_000_000),
            // A quarter of the ramp's arrivals take half of its time.
            (20_500.0, 19_000_000_000),
            (22_000.0, 21_000_000_000),
            // From here the rate is 1000 - 125 t: after 1 s, 937.5 have come.
            (22_937.5, 22_000_000_000),
        ] {
            assert_eq!(
                cursor.instant(position(arrivals)),
                Some(at_ns),
                "{arrivals}"
            );
        }
        assert_eq!(cursor.instant(position(25_000.0)), None);
        assert_eq!(profile.rate_at(19_000_000_000), 500.0);
        assert_eq!(
            (profile.rate_at(12_000_000_000), profile.rate_at(i64::MAX)),
            (0.0, 0.0)
        );
    }

    #[test]
    fn profiles_print_the_words_that_they_are_read_from() {
        for text in [
            "10000",
            "0.5",
            "1000 for 10s, 5000 for 20s",
            "0 to 10000 in 1min, 10000",
        ] {
            assert_eq!(profile(text).to_string(), text);
        }
        assert_eq!(
            profile(" 10k for 60s ,5k/min").to_string(),
            "10000 for 1min, 83.33333333333333"
        );
        assert_eq!(Profile::constant(0.25).expect("a rate"), profile("0.25"));
    }

    #[test]
    fn refused_profiles_name_the_column_and_the_way_out() {
        for (text, column, advice) in [
            ("", 1, "is missing"),
            ("0", 1, "give more, such as 0.5/s"),
            ("0 for 10s, 0 to 0 in 5s", 1, "give more"),
            ("-5", 1, "must not be negative"),
            ("fast", 1, "0.5/s or 30/min"),
            ("5, 6", 2, "write 'for' and a time"),
            ("5 for 1s, 0", 11, "leave it away"),
            ("5 fro 1s", 3, "nearest known word is for"),
            ("5 for 1x", 7, "such as 100us"),
            ("5 for 0s", 7, "at least 1us"),
            ("5 to 6", 7, "in is missing"),
            ("5 for 2s,", 10, "is missing"),
            ("5 for 25h", 7, "more than a day"),
        ] {
            let error = text.parse::<Profile>().expect_err(text);
            assert_eq!(error.column, column, "{error}");
            assert!(error.to_string().contains(advice), "{error}");
        }
        assert!(Profile::constant(f64::NAN).is_err() && Profile::constant(0.0).is_err());
    }

    proptest! {
        #[test]
        fn instants_are_the_inverse_of_positions(
            rates in proptest::collection::vec((0_u32..5_000, 0_u32..5_000, 1_u64..5_000), 1..6),
            at in proptest::collection::vec(0.0..1.0_f64, 1..20),
        ) {
            prop_assume!(rates.iter().any(|rate| rate.0 > 0 || rate.1 > 0));
            let words: Vec<_> = { rates.iter() }
                .map(|(from, to, ms)| format!("{from} to {to} in {ms}ms"))
                .collect();
            let profile = profile(&words.join(", "));
            let end = profile.expected().expect("an end");
            let mut at: Vec<_> = at.iter().map(|share| position(share * end)).collect();
            at.sort_unstable();
            let (mut there, mut back) = (profile.cursor(), profile.cursor());
            for position in at {
                let Some(at_ns) = there.instant(position) else { continue };
                let error = number(back.position(at_ns)) - number(position);
                // Half a nanosecond, at the rate there, and what doubles leave out.
                let rate = profile.rate_at(at_ns).max(1.0);
                prop_assert!(error.abs() <= rate * 1e-9 + 1e-6, "{error} at {at_ns}");
            }
        }
    }
}
