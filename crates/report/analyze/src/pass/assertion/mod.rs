//! Assertions about a trace, such as `p99(READ) < 10ms`: the language, and their judgement.
//!
//! ```text
//!  assertion   = [ side "." ] metric [ "(" [ selection ] ")" ] comparator value
//!  side        = "A" | "B" | "ratio"                (compare alone; without it, B is meant)
//!  selection   = item { "," item }                  (all of them hold)
//!  item        = NAME | "client=" ADDRESS | "server=" ADDRESS | "user=" UID
//!  comparator  = "<" | "<=" | ">" | ">=" | "==" | "!="
//!  value       = number with the unit of the metric
//! ```
//!
//! Latency is from the first byte of a call to the last of its reply, and of a call without one as
//! long as it waited, as `slow` has it. Every
//! metric but `loss` is about the chosen operations; `count` and `rate` of none are 0, and no other
//! metric of none holds, whatever is asserted: there is nothing that it could be true of.

mod language;
mod measured;

use std::path::Path;

use lineside_measure::Times;
use lineside_words::{bytes, grouped, number, percent, rate, time};

pub use language::{Assert, AssertError};
use measured::{Figure, Measured};

use crate::model::{Assertion, ComparedCalls};
use crate::read::filter::Filter;
use crate::read::trace::TraceError;
use language::{CallCount, Comparator, Metric, Of, Unit};

/// Judges assertions about one trace.
pub fn assert(
    path: &Path,
    filter: &Filter,
    asserts: &[Assert],
) -> Result<Vec<Assertion>, TraceError> {
    let measured = Measured::of(path, filter, asserts)?;
    Ok({ asserts.iter().enumerate() }
        .map(|(at, each)| {
            judged(
                each,
                measured.figure(at, each.metric),
                &measured.note(at, each.metric),
            )
        })
        .collect())
}

/// What a load measured, for assertions.
#[derive(Debug, Clone, Copy)]
pub struct LoadFigures<'a> {
    /// From the planned instant of a request to the end of its answer.
    pub latency: &'a Times,
    /// Requests whose instant came.
    pub requests: u64,
    /// Answers.
    pub answered: u64,
    /// Requests without an answer that reports success.
    pub not_successful: u64,
    /// Requests without any.
    pub unanswered: u64,
    /// Answers a second.
    pub answers_per_s: f64,
    /// Bytes of answers a second.
    pub bytes_per_s: f64,
}

impl LoadFigures<'_> {
    fn figure(&self, metric: Metric) -> Figure {
        let none = || "no request was answered".to_owned();
        let share = |count: u64| match self.requests {
            0 => Err("no request was planned".to_owned()),
            all => Ok(count as f64 / all as f64),
        };
        let time = |ns: Option<u64>| ns.map(|ns| ns as f64).ok_or_else(none);
        let value = match metric {
            Metric::Quantile(share) => time(self.latency.quantile_ns(share)),
            Metric::Mean => time(self.latency.mean_ns()),
            Metric::Most => time(self.latency.max_ns()),
            Metric::Count => Ok(self.answered as f64),
            Metric::Rate => Ok(self.answers_per_s),
            Metric::Errors => share(self.not_successful),
            Metric::Unanswered => share(self.unanswered),
            Metric::Throughput => Ok(self.bytes_per_s),
            Metric::Retransmissions
            | Metric::Loss
            | Metric::Elapsed
            | Metric::RoundTrip
            | Metric::Calls(_) => Err("a load does not measure it".to_owned()),
        };
        let of = match metric {
            Metric::Errors | Metric::Unanswered => self.requests,
            _ => self.answered,
        };
        (value, of)
    }
}

/// Judges assertions about a load.
pub fn assert_load(figures: &LoadFigures<'_>, asserts: &[Assert]) -> Vec<Assertion> {
    { asserts.iter() }
        .map(|each| judged_of(each, figures.figure(each.metric), "", "request"))
        .collect()
}

/// Judges assertions about two traces; `calls`: what came of them call by call, if that was asked
/// for.
pub fn assert_both(
    a: (&Path, &Filter),
    b: (&Path, &Filter),
    asserts: &[Assert],
    calls: Option<&ComparedCalls>,
) -> Result<Vec<Assertion>, TraceError> {
    let a = Measured::of(a.0, a.1, asserts)?;
    let b = Measured::of(b.0, b.1, asserts)?;
    let judge = |(at, assert): (usize, &Assert)| {
        let note = |name: &str, measured: &Measured| match measured.note(at, assert.metric) {
            note if note.is_empty() => note,
            note => format!("{name}: {note}"),
        };
        let notes = [note("A", &a), note("B", &b)];
        let [of_a, of_b] = [&a, &b].map(|each| each.figure(at, assert.metric));
        if let (Metric::Calls(count), Some(calls)) = (assert.metric, calls) {
            let both: Vec<&str> = { notes.iter().map(String::as_str) }
                .filter(|note| !note.is_empty())
                .collect();
            return judged(assert, counted(count, calls), &both.join("; "));
        }
        match assert.of {
            Of::A => judged(assert, of_a, &notes[0]),
            Of::B | Of::Trace => judged(assert, of_b, &notes[1]),
            Of::Ratio => {
                let both: Vec<&str> = notes
                    .iter()
                    .map(String::as_str)
                    .filter(|n| !n.is_empty())
                    .collect();
                judged(assert, ratio(of_a, of_b), &both.join("; "))
            }
        }
    };
    Ok(asserts.iter().enumerate().map(judge).collect())
}

fn counted(count: CallCount, calls: &ComparedCalls) -> Figure {
    let value = match count {
        CallCount::Missing => calls.missing,
        CallCount::Added => calls.added,
        CallCount::OtherStatus => calls.other_status,
        CallCount::OtherContent => calls.other_content,
        CallCount::Later => calls.later,
        CallCount::Earlier => calls.earlier,
    };
    (Ok(value as f64), calls.pairs)
}

fn ratio(a: Figure, b: Figure) -> Figure {
    let operations = a.1.min(b.1);
    let value = match (a.0, b.0) {
        (Err(why), _) => Err(format!("in A {why}")),
        (_, Err(why)) => Err(format!("in B {why}")),
        (Ok(a), Ok(b)) if a == b => Ok(1.0),
        (Ok(0.0), Ok(_)) => Err("it is 0 in A, and nothing is so many times 0".to_owned()),
        (Ok(a), Ok(b)) => Ok(b / a),
    };
    (value, operations)
}

fn judged(assert: &Assert, figure: Figure, note: &str) -> Assertion {
    judged_of(assert, figure, note, "operation")
}

/// `what` is counted: a request, an operation.
fn judged_of(assert: &Assert, (value, operations): Figure, note: &str, what: &str) -> Assertion {
    let holds = value
        .as_ref()
        .is_ok_and(|&value| assert.comparator.holds(value, assert.bound));
    let unit = match assert.of {
        Of::Ratio => Unit::Times,
        _ => assert.metric.unit(),
    };
    let found = match &value {
        Ok(value) => {
            let number = text(unit, *value);
            let many = if operations == 1 { "" } else { "s" };
            match assert.metric {
                Metric::Count | Metric::Calls(_) => format!("it is {number}"),
                Metric::RoundTrip => format!("it is {number}, the median over connections"),
                Metric::Loss => format!("it is {number} of the bytes or frames"),
                _ => format!("it is {number}, of {} {what}{many}", grouped(operations)),
            }
        }
        Err(why) => why.clone(),
    };
    let state = match (holds, &value) {
        (true, _) => "holds",
        (false, Ok(_)) => "fails",
        (false, Err(_)) => "is undecided",
    };
    let note = if note.is_empty() {
        String::new()
    } else {
        format!(" ({note})")
    };
    Assertion {
        what: format!("{} {state}: {found}{note}", assert.text),
        assertion: assert.text.clone(),
        holds,
        undecided: value.is_err(),
        value: value.ok(),
        bound: assert.bound,
        operations,
    }
}

fn text(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Time => time(value as u64),
        Unit::Share => percent(value),
        Unit::PerSecond => rate(value),
        Unit::BytesPerSecond => format!("{}/s", bytes(value as u64)),
        Unit::Count => grouped(value as u64),
        Unit::Times => format!("{} times", number(value)),
    }
}

impl Comparator {
    fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Self::Less => value < bound,
            Self::AtMost => value <= bound,
            Self::Greater => value > bound,
            Self::AtLeast => value >= bound,
            Self::Equal => value == bound,
            Self::Other => value != bound,
        }
    }
}
