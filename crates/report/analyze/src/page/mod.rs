//! The content of a report: its sections, tables and drawings, every number in words. The terminal
//! and the HTML form draw this and decide nothing but how it looks. Texts may come from the wire:
//! the code that draws them makes them harmless.

mod first;
mod sections;
mod usage;

use first::insights;
pub(crate) use first::{First, Insight, Line, alarm, line};

use lineside_trace::State;

use crate::model::{Concentration, Operation, Report};
use crate::monitors::{Histogram, Timeline};
use crate::numbers::{Zone, bytes, grouped, percent, time};

/// Rows of a table; the JSON form has all.
const ROWS_MAX: usize = 40;

/// A report in words.
pub(crate) struct Page {
    pub(crate) title: String,
    /// When, from what, and which operations.
    pub(crate) about: Vec<String>,
    /// The certificate of an emulated link, of a forwarder or of a load.
    pub(crate) certificate: Vec<Section>,
    /// The first screen.
    pub(crate) first: First,
    /// Everything, most important first.
    pub(crate) sections: Vec<Section>,
    pub(crate) footer: String,
}

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
    /// What stands out, and what is done about it.
    Findings(Vec<Insight>),
    Chart(Chart),
    Curve(Curve),
    Shares(ShareCurve),
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
fn state_word(state: Option<State>) -> String {
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
            Self::Rate | Self::Lines => crate::numbers::rate(rate),
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

#[derive(Clone, Copy)]
pub(crate) struct Column {
    pub(crate) head: &'static str,
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
    Bar(f64),
    Spark(Vec<u64>),
}

/// The report in words, with the times of a zone.
pub(crate) fn page(report: &Report, zone: &Zone) -> Page {
    let load = report.load.as_ref();
    let certificate = { report.emulation.as_ref() }
        .map(crate::emulation::sections)
        .or_else(|| load.map(|load| vec![crate::load::section(load)]))
        .or_else(|| {
            let forwarding = report.forwarding.as_ref()?;
            Some(crate::forwarding::sections(forwarding, zone))
        });
    // Without a tap, the link is all that there is to report.
    let is_alone =
        certificate.is_some() && report.understood.is_none() && report.totals.operations == 0;
    let mut certificate = certificate.unwrap_or_default();
    if is_alone {
        // What stands out comes before what is drawn.
        certificate.splice(1..1, findings(report, zone));
    }
    // What a load's own pictures show is not drawn again.
    let pictures = load.map_or_else(Vec::new, |load| crate::load::pictures(load, zone));
    let before = [
        sections::missing(report, zone),
        findings(report, zone),
        sections::workload(report),
        sections::over_time(&report.over_time, zone).filter(|_| pictures.is_empty()),
        sections::errors(report, zone),
        sections::again(&report.operations),
        sections::operations(&report.operations),
        sections::directions(report),
        sections::wire(report),
    ];
    let monitors = report.monitors.iter();
    let monitors = monitors.flat_map(|monitors| crate::monitors::sections(monitors, zone));
    let after = [
        usage::busiest("files", "File", &report.files),
        usage::busiest("directories", "Directory", &report.directories),
        usage::busiest("other objects", "Object", &report.objects),
        usage::busiest("clients", "Client", &report.clients),
        usage::storms(report, zone),
        usage::misaligned(report),
        usage::busiest("pairs of client and file", "Client", &report.pairs),
        usage::busiest("users", "User", &report.users),
    ];
    Page {
        title: title(report),
        about: about(report, zone),
        certificate,
        first: First::of(report, zone, is_alone),
        sections: { pictures.into_iter().chain(before.into_iter().flatten()) }
            .filter(|_| !is_alone)
            .chain(monitors)
            .chain(after.into_iter().flatten().filter(|_| !is_alone))
            .collect(),
        footer: footer(report),
    }
}

/// Empty of a run without a folder.
fn title(report: &Report) -> String {
    match report.parameters.asked.trace.as_str() {
        "" => String::new(),
        trace => format!("Report on {trace}"),
    }
}

fn about(report: &Report, zone: &Zone) -> Vec<String> {
    let totals = &report.totals;
    let mut lines = Vec::new();
    if let (Some(first), Some(last)) = (totals.first_ns, totals.last_ns) {
        lines.push(zone.span(first, last));
    }
    let inputs = &report.trace.inputs;
    for input in inputs.iter().take(3) {
        lines.push(format!("from {} ({})", input.name, input.format));
    }
    if inputs.len() > 3 {
        lines.push(format!("and {} more", inputs.len() - 3));
    }
    lines.extend(chosen(report, zone).map(|chosen| format!("only {chosen}")));
    lines
}

/// Which operations were asked for, unless it is all.
fn chosen(report: &Report, zone: &Zone) -> Option<String> {
    let asked = &report.parameters.asked;
    let chosen = [
        asked.since_ns.map(|ns| format!("since {}", zone.date(ns))),
        asked.until_ns.map(|ns| format!("until {}", zone.date(ns))),
        asked.client.as_ref().map(|name| format!("client {name}")),
        asked.user_id.map(|id| format!("user {id}")),
        asked.file.as_ref().map(|file| format!("files {file}")),
        { asked.connection.as_ref() }.map(|name| format!("connection {name}")),
        asked
            .operation
            .as_ref()
            .map(|name| format!("operation {name}")),
    ];
    let chosen: Vec<_> = chosen.into_iter().flatten().collect();
    (!chosen.is_empty()).then(|| chosen.join(", "))
}

fn findings(report: &Report, zone: &Zone) -> Option<Section> {
    (!report.findings.is_empty()).then(|| Section {
        heading: format!("What stands out: {}", grouped(report.findings.len() as u64)),
        note: "Worst first: what clients waited for, then what concerns most operations."
            .to_owned(),
        blocks: vec![Block::Findings(insights(report, zone))],
    })
}

pub(crate) const fn column(head: &'static str, kind: Kind) -> Column {
    Column {
        head,
        kind,
        wide: false,
    }
}

pub(crate) const fn wide(head: &'static str, kind: Kind) -> Column {
    Column {
        head,
        kind,
        wide: true,
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

/// In place of an amount.
const NOT_KNOWN: &str = "not known";

/// Bytes that were `read` or `written` in all. Where one direction was not captured, nothing shows
/// how many: neither calls alone do, nor replies whose procedure is not known.
fn moved_bytes(report: &Report, moved: u64, what: &str) -> String {
    let of = if what == "read" { "READ" } else { "WRITE" };
    let kinds = report.operations.iter();
    let kinds = kinds.filter(|kind| kind.operation == of && kind.program == "nfs");
    let sum =
        |sum: (u64, u64), kind: &Operation| (sum.0 + kind.operations, sum.1 + kind.unanswered);
    let (asked, unanswered) = kinds.fold((0, 0), sum);
    let totals = &report.totals;
    let is_known = match asked {
        0 => totals.without_call < totals.operations || totals.operations == 0,
        _ => unanswered < asked,
    };
    match moved == 0 && !is_known {
        true => NOT_KNOWN.to_owned(),
        false => bytes(moved),
    }
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

fn optional_time(ns: Option<u64>) -> Cell {
    Cell::Text(ns.map_or_else(|| "-".to_owned(), time))
}

/// `nfs v3 READ`
fn operation_name(operation: &Operation) -> Cell {
    let name = match (operation.program.as_str(), operation.version) {
        ("", _) => "call not seen".to_owned(),
        (program, None) => format!("{program} {}", operation.operation),
        (program, Some(version)) => format!("{program} v{version} {}", operation.operation),
    };
    text(name.trim_end())
}

fn footer(report: &Report) -> String {
    let (trace, parameters) = (&report.trace, &report.parameters);
    format!(
        "Trace {}, schema {}, written by {}. Quantiles are within {} of the exact ones ({} over \
        time); counts, sums, least \
         and most are exact. At most {} files, {} clients, {} users and {} pairs of clients and \
         shared files are distinguished.",
        trace.trace_id,
        trace.schema_version,
        trace.tool,
        percent(parameters.quantile_error_share),
        percent(parameters.quantile_over_time_error_share),
        grouped(parameters.files_max),
        grouped(parameters.clients_max),
        grouped(parameters.users_max),
        grouped(parameters.pairs_max),
    )
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
