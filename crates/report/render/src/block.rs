//! What a report is made of: sections of blocks, with every number in words. The terminal and the
//! HTML form draw them and decide nothing but how they look. Texts may come from the wire: the code
//! that draws them makes them harmless.

use std::borrow::Cow;

use lineside_analyze::{Concentration, Zone};
use lineside_trace::State;
use lineside_words::{bytes, grouped, time};

use crate::monitored::{Histogram, Timeline};
use crate::points::{Axis, Metric, Value};

/// A heading with what stands below it.
pub(crate) struct Section {
    pub(crate) heading: String,
    /// What its terms mean; may be empty.
    pub(crate) note: String,
    pub(crate) blocks: Vec<Block>,
}

pub(crate) enum Block {
    Verdict(Verdict),
    Facts(Vec<Fact>),
    /// Facts of more than a word: each has a line of its own.
    List(Vec<Fact>),
    Meters(Meters),
    Text(String),
    /// Sentences that stand for themselves.
    Sentences(Vec<String>),
    /// Lines as they are in a file.
    Code(String),
    /// What stands out, and what is done about it.
    Findings(Vec<Insight>),
    Chart(Chart),
    Curve(Curve),
    Shares(ShareCurve),
    Cuts(Cuts),
    Contours(Contours),
    Histogram(Histogram),
    Timeline(Timeline),
    Table(Table),
    /// Blocks that stand side by side where there is room.
    Beside(Vec<Vec<Self>>),
}

/// How far a trace can be trusted.
pub(crate) struct Verdict {
    pub(crate) state: String,
    pub(crate) complete: bool,
    /// What and why, each with a label.
    pub(crate) reasons: Vec<(&'static str, String)>,
}

impl Verdict {
    /// What a run says of itself.
    pub(crate) fn of_run(state: Option<State>, reasons: &[String]) -> Self {
        let state = state_word(state);
        Self {
            complete: state == "complete",
            state,
            reasons: { reasons.iter() }
                .map(|reason| ("because", reason.clone()))
                .collect(),
        }
    }
}

/// The word of a state in `trace.json`.
pub(crate) fn state_word(state: Option<State>) -> String {
    let word = state.and_then(|state| serde_json::to_value(state).ok());
    let word = word.as_ref().and_then(serde_json::Value::as_str);
    word.unwrap_or(NOT_KNOWN).to_owned()
}

/// A number that stands for itself.
pub(crate) struct Fact {
    pub(crate) label: &'static str,
    pub(crate) value: String,
    /// May be empty.
    pub(crate) note: String,
}

/// Shares of something.
pub(crate) struct Meters {
    pub(crate) label: &'static str,
    pub(crate) colour: Colour,
    pub(crate) meters: Vec<Meter>,
}

pub(crate) struct Meter {
    pub(crate) share: f64,
    pub(crate) of: &'static str,
    /// May be empty.
    pub(crate) note: String,
}

/// What a colour stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Read,
    Write,
    Other,
    Failed,
    Unanswered,
    Median,
    Upper,
}

/// Values over time.
pub(crate) struct Chart {
    pub(crate) title: &'static str,
    pub(crate) scale: Scale,
    pub(crate) start_ns: i64,
    pub(crate) step_ns: u64,
    /// In which the axis is written.
    pub(crate) zone: Zone,
    /// Of equal length; the lowest first.
    pub(crate) layers: Vec<Layer>,
}

impl Chart {
    /// The time at which a step begins.
    pub(crate) fn clock(&self, step: usize) -> String {
        self.zone.clock(self.at(step), self.step_ns)
    }

    /// `+01:00`, or `UTC`.
    pub(crate) fn offset(&self) -> String {
        self.zone.offset(self.start_ns)
    }

    fn at(&self, step: usize) -> i64 {
        let since = self.step_ns.saturating_mul(step as u64);
        self.start_ns.saturating_add_unsigned(since)
    }
}

pub(crate) struct Layer {
    pub(crate) name: &'static str,
    pub(crate) colour: Colour,
    pub(crate) values: Vec<Option<u64>>,
}

impl Layer {
    pub(crate) fn counts(name: &'static str, colour: Colour, counts: &[u64]) -> Self {
        Self {
            name,
            colour,
            values: counts.iter().copied().map(Some).collect(),
        }
    }
}

/// What the values of a chart are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Counts, shown by the second, on one another.
    Rate,
    /// Counts, shown by the second: the first as an area, the others as lines over it.
    Lines,
    /// Counts as they are at the end of a step, on one another.
    Count,
    /// Bytes, as `Rate`.
    ByteRate,
    /// Nanoseconds: quantiles, on a logarithmic scale.
    Time,
}

impl Scale {
    /// A value of a step in words.
    pub(crate) fn text(self, value: f64, step_ns: u64) -> String {
        let rate = value / (step_ns.max(1) as f64 / 1e9);
        match self {
            Self::Rate | Self::Lines => lineside_words::rate(rate),
            Self::Count => short(value),
            Self::ByteRate => format!("{}/s", bytes(rate.round() as u64)),
            Self::Time => time(value as u64),
        }
    }
}

/// Times that shares of all do not exceed: both scales are logarithmic, that of shares in what is
/// left above them.
pub(crate) struct ShareCurve {
    pub(crate) title: &'static str,
    pub(crate) shares: Vec<f64>,
    /// For each share a time, in nanoseconds.
    pub(crate) lines: Vec<(&'static str, Colour, Vec<Option<u64>>)>,
}

/// Lines of a drawing: more look alike.
pub(crate) const LINES_MAX: usize = 6;

/// A metric over an axis.
pub(crate) struct Cuts {
    pub(crate) title: String,
    pub(crate) axis: Axis,
    pub(crate) metric: Metric,
    pub(crate) lines: Vec<CutLine>,
    /// How many more there are.
    pub(crate) rest: String,
}

/// A line of a cut.
pub(crate) struct CutLine {
    /// The values of the other axes; may be empty.
    pub(crate) name: String,
    /// For each value of the axis.
    pub(crate) values: Vec<Option<Value>>,
    /// The law, if there is one.
    pub(crate) law: Vec<(f64, f64)>,
}

/// A metric over two axes.
pub(crate) struct Contours {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) metric: Metric,
    /// For each value of `x` those of `y`.
    pub(crate) values: Vec<Vec<Option<f64>>>,
}

/// Which share of all is with the first few.
pub(crate) struct Curve {
    pub(crate) title: String,
    pub(crate) points: Vec<Concentration>,
}

pub(crate) struct Table {
    pub(crate) caption: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Cell>>,
    /// Rows where there is little room.
    pub(crate) rows_narrow: usize,
    /// What has no row, if anything.
    pub(crate) rest: String,
    /// Begin and end of its drawings over time.
    pub(crate) axis: Option<[String; 2]>,
}

#[derive(Clone)]
pub(crate) struct Column {
    pub(crate) head: Cow<'static, str>,
    pub(crate) kind: Kind,
    /// Only where there is room.
    pub(crate) wide: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A name: cut where there is no room.
    Name,
    /// A path: its end is most telling.
    Path,
    /// A number, to the right.
    Number,
    /// A share of the largest, as a bar.
    Bar(Colour),
    /// Counts over time.
    Spark(Colour),
}

pub(crate) enum Cell {
    Text(String),
    /// Where it leads, and its text.
    Link(String, String),
    Bar(f64),
    Spark(Vec<u64>),
}

pub(crate) fn column(head: impl Into<Cow<'static, str>>, kind: Kind) -> Column {
    Column {
        head: head.into(),
        kind,
        wide: false,
    }
}

pub(crate) fn wide(head: &'static str, kind: Kind) -> Column {
    Column {
        wide: true,
        ..column(head, kind)
    }
}

/// A table of what there is; none if there is nothing.
pub(crate) fn table<T>(
    caption: &str,
    columns: &[Column],
    rows_narrow: usize,
    of: impl IntoIterator<Item = T>,
    row: impl Fn(T) -> Vec<Cell>,
) -> Option<Table> {
    let mut of = of.into_iter();
    let rows: Vec<_> = of.by_ref().take(ROWS_MAX).map(row).collect();
    let rest = match of.count() {
        0 => String::new(),
        count => format!("{} more are in the JSON form.", grouped(count as u64)),
    };
    (!rows.is_empty()).then(|| Table {
        caption: caption.to_owned(),
        columns: columns.to_vec(),
        rows,
        rows_narrow,
        rest,
        axis: None,
    })
}

pub(crate) fn text(text: impl Into<String>) -> Cell {
    Cell::Text(text.into())
}

/// A number, or a dash for nothing.
pub(crate) fn number(number: u64, text: impl Fn(u64) -> String) -> Cell {
    Cell::Text(match number {
        0 => "-".to_owned(),
        number => text(number),
    })
}

pub(crate) fn optional_time(ns: Option<u64>) -> Cell {
    Cell::Text(ns.map_or_else(|| "-".to_owned(), time))
}

/// A time that is longer than what is known of it begins with `>`.
pub(crate) fn bound_time(ns: Option<u64>, is_bound: bool) -> Cell {
    match ns {
        Some(ns) if is_bound => Cell::Text(format!(">{}", time(ns))),
        ns => optional_time(ns),
    }
}

/// `p99.9`: the share of which a power of ten is left.
pub(crate) fn round_share(decade: i32) -> String {
    match decade {
        ..=0 => "p0".to_owned(),
        1 => "p90".to_owned(),
        2 => "p99".to_owned(),
        decade => format!("p99.{}", "9".repeat(decade.unsigned_abs() as usize - 2)),
    }
}

/// `12.5k`
pub(crate) fn short(number: f64) -> String {
    let (value, unit) = match number {
        number if number >= 1e9 => (number / 1e9, "G"),
        number if number >= 1e6 => (number / 1e6, "M"),
        number if number >= 1e4 => (number / 1e3, "k"),
        number => (number, ""),
    };
    let digits = if value >= 100.0 || value.fract() == 0.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$}{unit}")
}

/// In place of an amount.
pub(crate) const NOT_KNOWN: &str = "not known";

/// Rows of a table; the JSON form has all.
pub(crate) const ROWS_MAX: usize = 40;

/// A finding in words.
pub(crate) struct Insight {
    /// When, where, who and what: a sentence without its period.
    pub(crate) what: String,
    /// How long clients waited because of it; may be empty.
    pub(crate) lost: String,
    /// May be empty.
    pub(crate) evidence: String,
    pub(crate) advice: String,
}

pub(crate) struct Line {
    pub(crate) label: String,
    pub(crate) parts: Vec<String>,
    /// Whether it is a warning.
    pub(crate) alarms: bool,
    /// Lines that it may take where there is room.
    pub(crate) lines_max: usize,
}

/// A line of parts of which the empty ones are left out.
pub(crate) fn line(label: &str, parts: impl IntoIterator<Item = String>) -> Line {
    Line {
        label: label.to_owned(),
        parts: parts.into_iter().filter(|part| !part.is_empty()).collect(),
        alarms: false,
        lines_max: 1,
    }
}

pub(crate) fn alarm(label: &str, parts: impl IntoIterator<Item = String>) -> Line {
    Line {
        alarms: true,
        ..line(label, parts)
    }
}

pub(crate) fn fact(label: &'static str, value: String, note: String) -> Fact {
    Fact { label, value, note }
}
