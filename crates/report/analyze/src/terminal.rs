//! The report for a terminal, in plain text, as wide as it is asked to be, with headings in bold
//! where that is wanted: one screen with the answer, or all of it.

use std::fmt::Write;

use crate::interval::{Iostat, Series};
use crate::model::Report;
use crate::monitors::{histogram_lines, timeline_lines};
use crate::numbers::{Zone, grouped, harmless, percent, tail, time};
use crate::page::{
    Block, Cell, Chart, Column, Curve, First, Insight, Kind, Line, Meters, Page, Scale, Section,
    ShareCurve, Table, page, round_share,
};

/// Columns of a line where nothing says how many there are.
pub const WIDTH: usize = 80;
/// Lines of the first screen.
pub(crate) const SCREEN: usize = 24;
/// Lines of it that findings have at least, where there are any.
const FINDINGS_LINES: usize = 4;
/// Findings on the first screen.
const FINDINGS_MAX: usize = 5;
/// Columns of a bar in a table.
const BAR: usize = 20;
/// Columns of counts over time in a table: two times of day fit above them.
const SPARK: usize = 26;
/// Columns of a label.
pub(crate) const LABEL: usize = 14;
/// Columns that a name keeps, however little room there is.
const NAME_MIN: usize = 8;

/// How to write.
#[derive(Debug, Clone)]
pub struct Style {
    /// Headings in bold, warnings in colour.
    pub colour: bool,
    /// Columns of a line, at most.
    pub width: usize,
    /// In which times are written.
    pub zone: Zone,
}

impl Default for Style {
    fn default() -> Self {
        Self {
            colour: false,
            width: WIDTH,
            zone: Zone::default(),
        }
    }
}

impl Style {
    pub(crate) fn heading(&self, text: &str) -> String {
        let text = tail(&harmless(text), self.width);
        if self.colour {
            format!("\u{1b}[1m{text}\u{1b}[0m")
        } else {
            text
        }
    }

    pub(crate) fn alarm(&self, text: &str) -> String {
        if self.colour {
            format!("\u{1b}[33m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

pub use crate::compare::words::comparison;

/// The answer: what was seen and whether to believe it, the certificate of a run in short, what
/// stands out, and the workload, on one screen.
pub fn first(report: &Report, style: &Style) -> String {
    let mut pen = Pen::new(style);
    let first = page(report, &style.zone).first;
    let rest = match first.certificate.is_empty() {
        true => "Workload (--full and --html FILE show the rest)",
        false => "--full and --html FILE show the rest",
    };
    pen.first(&first, true, rest);
    pen.out
}

/// The same of a run that ends, of which nothing but the certificate was read.
pub fn closing(report: &Report, style: &Style) -> String {
    let mut pen = Pen::new(style);
    let rest = match report.parameters.asked.trace.as_str() {
        "" => String::new(),
        trace => format!("lineside report {trace} --full shows the rest"),
    };
    pen.first(&page(report, &style.zone).first, false, &rest);
    pen.out
}

/// The whole report.
pub fn report(report: &Report, style: &Style) -> String {
    let Page {
        title,
        about,
        certificate,
        first: _,
        sections,
        footer: _,
    } = page(report, &style.zone);
    let mut pen = Pen::new(style);
    pen.title(&title, &about);
    { certificate.iter().chain(&sections) }.for_each(|each| pen.section(each));
    pen.out
}

/// Writes line by line.
struct Pen<'a> {
    style: &'a Style,
    out: String,
}

impl<'a> Pen<'a> {
    fn new(style: &'a Style) -> Self {
        Self {
            style,
            out: String::new(),
        }
    }

    fn title(&mut self, title: &str, about: &[String]) {
        if !title.is_empty() {
            let _ = writeln!(self.out, "{}", self.style.heading(title));
        }
        for line in about {
            self.wrapped("", line);
        }
    }

    fn section(&mut self, section: &Section) {
        let _ = writeln!(self.out, "\n{}", self.style.heading(&section.heading));
        if !section.note.is_empty() {
            self.wrapped("", &section.note);
        }
        for each in &section.blocks {
            self.block(each);
        }
    }

    /// `is_read`: the rows of the trace were read, so that it is known what stands out.
    fn first(&mut self, first: &First, is_read: bool, rest: &str) {
        let mut head: Vec<String> = Vec::new();
        if !first.title.is_empty() {
            head.push(self.style.heading(&first.title));
        }
        head.extend(self.all_labelled(&first.seen));
        let mut workload = self.all_labelled(&first.workload);
        workload.extend(first.chart.iter().map(|chart| self.spark_line(chart)));
        let has_findings = is_read && !(first.findings.is_empty() && workload.is_empty());
        let rest = match rest {
            "" => Vec::new(),
            rest => vec![String::new(), self.style.heading(rest)],
        };
        // The certificate and the heading of findings stand below an empty line each.
        let least = head.len() + rest.len() + workload.len() + 1 + 2 * usize::from(has_findings);
        let mut room = SCREEN.saturating_sub(least);
        if has_findings && !first.findings.is_empty() {
            room = room.saturating_sub(FINDINGS_LINES);
        }
        let certificate = self.certificate_within(&first.certificate, room);
        let mut parts = vec![head, certificate];
        if has_findings {
            let used = parts.iter().map(Vec::len).sum::<usize>() + rest.len() + workload.len() + 2;
            parts.extend(self.findings_within(&first.findings, SCREEN.saturating_sub(used)));
        }
        parts.extend([rest, workload]);
        for line in parts.iter().flatten() {
            let _ = writeln!(self.out, "{line}");
        }
    }

    /// A heading, and the findings below it.
    fn findings_within(&self, findings: &[Insight], room: usize) -> [Vec<String>; 2] {
        let shown = findings.len().min(FINDINGS_MAX).min(room / 2);
        let heading = match findings.len() {
            0 => "Nothing stands out".to_owned(),
            all if all > shown => format!("What stands out, the worst {shown} of {all}"),
            _ => "What stands out, worst first".to_owned(),
        };
        let heading = vec![String::new(), self.style.heading(&heading)];
        [heading, self.fitted(&findings[..shown], room)]
    }

    /// The lines of a certificate below an empty one; the last ones are left out, and it says so.
    fn certificate_within(&self, lines: &[Line], room: usize) -> Vec<String> {
        if lines.is_empty() {
            return Vec::new();
        }
        let mut shown = vec![String::new()];
        for (at, each) in lines.iter().enumerate() {
            let left = lines.len() - at - 1;
            // Each of the others has a line, or all of them one that counts them.
            let kept = left.min(1);
            let free = room.saturating_sub(shown.len() - 1 + kept);
            if free == 0 && left > 0 {
                let rest = format!("{} more lines", left + 1);
                shown.push(format!("{:<LABEL$}{rest}", "..."));
                break;
            }
            let spare = free.saturating_sub(left.saturating_sub(kept)).max(1);
            let text = self.labelled_within(each, each.lines_max.min(spare));
            shown.extend(self.alarmed(each, text));
        }
        shown
    }

    fn all_labelled(&self, lines: &[Line]) -> Vec<String> {
        { lines.iter() }
            .flat_map(|line| self.alarmed(line, self.labelled_within(line, line.lines_max)))
            .collect()
    }

    fn alarmed(&self, line: &Line, text: Vec<String>) -> Vec<String> {
        match line.alarms {
            true => text.iter().map(|text| self.style.alarm(text)).collect(),
            false => text,
        }
    }

    /// Findings in so many lines at most, two for each at least: each in turn, from the worst on,
    /// shows as much as there is room for.
    fn fitted(&self, findings: &[Insight], room: usize) -> Vec<String> {
        let of = |at: usize, detail| self.finding(at + 1, &findings[at], detail);
        let mut shown: Vec<Vec<String>> = (0..findings.len())
            .map(|at| of(at, Detail::Least))
            .collect();
        for detail in [Detail::Short, Detail::NoEvidence, Detail::All] {
            for at in 0..shown.len() {
                let longer = of(at, detail);
                let others = shown.iter().map(Vec::len).sum::<usize>() - shown[at].len();
                if others + longer.len() <= room {
                    shown[at] = longer;
                }
            }
        }
        shown.concat()
    }

    fn finding(&self, number: usize, finding: &Insight, detail: Detail) -> Vec<String> {
        let width = self.style.width;
        let lead = format!("{number}. ");
        let mut what = vec![finding.what.clone()];
        if !finding.lost.is_empty() {
            what.push(finding.lost.clone());
        }
        let what = what.join("; ");
        let (mut lines, advice_lines) = match detail {
            Detail::All | Detail::NoEvidence => (lines_of(&lead, &what, width), usize::MAX),
            Detail::Short => (within(&lead, &what, width, 2), 1),
            Detail::Least => (within(&lead, &what, width, 1), 1),
        };
        if detail == Detail::All && !finding.evidence.is_empty() {
            lines.extend(lines_of("   ", &finding.evidence, width));
        }
        lines.extend(within("   -> ", &finding.advice, width, advice_lines));
        lines
    }

    /// A line of the first screen in `room` lines at most: parts that do not fit are left out.
    fn labelled_within(&self, line: &Line, room: usize) -> Vec<String> {
        let lead = format!("{:<LABEL$}", line.label);
        let joined = |parts: &[String]| parts.join(", ");
        for kept in (1..=line.parts.len()).rev() {
            let rest = if kept < line.parts.len() { ", …" } else { "" };
            let text = joined(&line.parts[..kept]) + rest;
            let lines = lines_of(&lead, &text, self.style.width);
            if lines.len() <= room {
                return lines;
            }
        }
        let first = line.parts.first().map_or("", String::as_str);
        within(&lead, first, self.style.width, room)
    }

    /// A chart in one line between its times.
    fn spark_line(&self, chart: &Chart) -> String {
        let values: Vec<u64> = { chart.layers.iter() }
            .flat_map(|layer| layer.values.iter().map(|value| value.unwrap_or(0)))
            .collect();
        let (from, to) = (chart.clock(0), chart.clock(values.len()));
        let clocks = from.chars().count() + to.chars().count();
        let up_to = " up to 000,000/s";
        let room = self
            .style
            .width
            .saturating_sub(LABEL + clocks + 2 + up_to.len());
        let group = values.len().div_ceil(room.max(1)).max(1);
        let sums: Vec<u64> = values
            .chunks(group)
            .map(|values| values.iter().sum())
            .collect();
        let greatest = sums.iter().copied().max().unwrap_or(0);
        let step_ns = chart.step_ns.saturating_mul(group as u64);
        let most = chart.scale.text(greatest as f64, step_ns);
        format!(
            "{:<LABEL$}{from} {} {to} up to {most}",
            "over time",
            bars(&sums)
        )
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Verdict(verdict) => {
                let state = match verdict.complete {
                    true => verdict.state.clone(),
                    false => self.style.alarm(&verdict.state),
                };
                let _ = writeln!(self.out, "{:<LABEL$}{state}", "verdict");
                for (label, reason) in &verdict.reasons {
                    self.labelled(label, reason);
                }
            }
            Block::Facts(facts) | Block::List(facts) => {
                for fact in facts {
                    let note = Some(&fact.note).filter(|note| !note.is_empty());
                    let note = note.map_or_else(String::new, |note| format!("  ({note})"));
                    self.labelled(fact.label, &(fact.value.clone() + &note));
                }
            }
            Block::Meters(meters) => self.labelled(meters.label, &meters_text(meters)),
            Block::Text(text) => self.wrapped("", text),
            Block::Findings(findings) => {
                for (at, finding) in findings.iter().enumerate() {
                    for line in self.finding(at + 1, finding, Detail::All) {
                        let _ = writeln!(self.out, "{line}");
                    }
                }
            }
            Block::Chart(values) => self.chart(values),
            Block::Curve(shares) => self.curve(shares),
            Block::Shares(curve) => self.shares(curve),
            Block::Histogram(values) => self.lines(&histogram_lines(values, self.style.width)),
            Block::Timeline(values) => self.lines(&timeline_lines(values, self.style.width)),
            Block::Table(rows) => self.table(rows),
            Block::Beside(parts) => {
                for each in parts.iter().flatten() {
                    self.block(each);
                }
            }
        }
    }

    /// A line of bars for each layer, each up to its own greatest value, above the times.
    fn chart(&mut self, chart: &Chart) {
        let steps = chart.layers.iter().map(|layer| layer.values.len()).max();
        let steps = steps.unwrap_or(0);
        // Behind the bars stands what they reach up to.
        let room = self
            .style
            .width
            .saturating_sub(LABEL + " up to 000.0 MiB/s".len());
        let group = steps.div_ceil(room.max(1)).max(1);
        let step_ns = chart.step_ns.saturating_mul(group as u64);
        let worst = match (chart.scale, group) {
            (Scale::Time, 2..) => format!(", the worst of {group} steps each"),
            _ => String::new(),
        };
        let title = format!("{}, {} a column{worst}", chart.title, time(step_ns));
        let _ = writeln!(self.out, "\n{title}");
        for layer in &chart.layers {
            let groups = layer.values.chunks(group).map(|values| {
                let values = values.iter().flatten().copied();
                match chart.scale {
                    // Quantiles cannot be added.
                    Scale::Time | Scale::Count => values.max().unwrap_or(0),
                    Scale::Rate | Scale::Lines | Scale::ByteRate => values.sum(),
                }
            });
            let groups: Vec<u64> = groups.collect();
            let greatest = groups.iter().copied().max().unwrap_or(0);
            if greatest > 0 {
                let scale = chart.scale.text(greatest as f64, step_ns);
                let bars = bars(&groups);
                let _ = writeln!(self.out, "{:<LABEL$}{bars} up to {scale}", layer.name);
            }
        }
        let clocks = [0, steps / 2, steps].map(|step| chart.clock(step));
        let axis = axis(&clocks, steps.div_ceil(group));
        let _ = writeln!(self.out, "{:<LABEL$}{axis} {}", "", chart.offset());
    }

    /// A line for each curve, with the times of round shares.
    fn shares(&mut self, curve: &ShareCurve) {
        let _ = writeln!(self.out, "\n{}", curve.title);
        for (name, _, times) in &curve.lines {
            let round = (0..).map_while(|decade| {
                let share = 1.0 - 0.1f64.powi(decade);
                let at = { curve.shares.iter() }.position(|&each| (each - share).abs() < 1e-12)?;
                Some(format!("{} {}", round_share(decade), time(times[at]?)))
            });
            let most = times.last().copied().flatten();
            let most = most.map(|ns| format!("most {}", time(ns)));
            let parts: Vec<String> = round.skip(1).chain(most).collect();
            self.labelled(name, &parts.join(", "));
        }
    }

    /// Each ranking is a sentence of its own: the first by operations are not the first by bytes.
    fn curve(&mut self, curve: &Curve) {
        let points = || {
            { curve.points.iter() }.filter(|point| matches!(point.first, 1 | 5 | 25 | 100 | 1_000))
        };
        let list = |share: &dyn Fn(usize) -> f64| {
            let points = points().enumerate();
            let points = points.map(|(at, point)| {
                format!("the first {} {}", grouped(point.first), percent(share(at)))
            });
            points.collect::<Vec<_>>().join(", ")
        };
        let known: Vec<_> = points().collect();
        let operations = list(&|at| known[at].operations_share);
        self.wrapped(
            "",
            &format!("Of all operations, ranked by operations: {operations}."),
        );
        let by_bytes = list(&|at| known[at].bytes_share);
        if known.iter().any(|point| point.bytes_share > 0.0) {
            self.wrapped("", &format!("Of all bytes, ranked by bytes: {by_bytes}."));
        }
    }

    fn table(&mut self, table: &Table) {
        self.out.push('\n');
        let columns: Vec<(usize, &Column)> = { table.columns.iter().enumerate() }
            .filter(|(_, column)| !column.wide)
            .collect();
        let rows = table.rows.iter().take(table.rows_narrow);
        let rows: Vec<Vec<String>> = rows
            .map(|row| columns.iter().map(|&(at, _)| cell(&row[at])).collect())
            .collect();
        // The caption stands over the names, and times over counts.
        let heads: Vec<String> = { columns.iter().enumerate() }
            .map(|(place, (_, column))| match (place, column.kind) {
                (0, Kind::Name | Kind::Path) => harmless(&table.caption),
                (_, Kind::Spark(_)) => table.axis.as_ref().map_or_else(
                    || column.head.to_owned(),
                    |[from, to]| format!("{from} {to:>0$}", SPARK - from.chars().count() - 1),
                ),
                _ => column.head.to_owned(),
            })
            .collect();
        let widths = widths(&columns, &heads, &rows, self.style.width);
        let mut line = |texts: &[String]| {
            let mut line = String::new();
            for ((text, (_, column)), &width) in texts.iter().zip(&columns).zip(&widths) {
                let gap = if line.is_empty() { "" } else { "  " };
                let _ = match column.kind {
                    Kind::Path => write!(line, "{gap}{:<width$}", tail(text, width)),
                    Kind::Name => write!(line, "{gap}{:<width$}", front(text, width)),
                    Kind::Number => write!(line, "{gap}{text:>width$}"),
                    Kind::Bar(_) | Kind::Spark(_) => write!(line, "{gap}{text:<width$}"),
                };
            }
            let line = front(line.trim_end(), self.style.width);
            let _ = writeln!(self.out, "{line}");
        };
        line(&heads);
        rows.iter().for_each(|row| line(row));
        if table.rows.len() > rows.len() {
            let text = format!("The forms --html and --json have {}.", table.rows.len());
            self.wrapped("", &text);
        } else if !table.rest.is_empty() {
            self.wrapped("", &table.rest);
        }
    }

    fn lines(&mut self, lines: &[String]) {
        for line in lines {
            let _ = writeln!(self.out, "{}", line.trim_end());
        }
    }

    fn labelled(&mut self, label: &str, text: &str) {
        self.wrapped(&format!("{label:<LABEL$}"), text);
    }

    /// Writes a text after `lead`, its further lines below its first.
    fn wrapped(&mut self, lead: &str, text: &str) {
        for line in lines_of(lead, text, self.style.width) {
            let _ = writeln!(self.out, "{line}");
        }
    }
}

/// How much of a finding is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    All,
    NoEvidence,
    /// Two lines of what happened, and one of what to do.
    Short,
    /// One line each.
    Least,
}

fn meters_text(meters: &Meters) -> String {
    let meters = meters.meters.iter().map(|meter| {
        let note = Some(&meter.note).filter(|note| !note.is_empty());
        let note = note.map_or_else(String::new, |note| format!(" ({note})"));
        format!("{} {}{note}", percent(meter.share), meter.of)
    });
    meters.collect::<Vec<_>>().join(", ")
}

/// Begin, middle and end of a chart of so many columns; the middle where there is room.
pub(crate) fn axis([from, middle, to]: &[String; 3], columns: usize) -> String {
    let [start, half, end] = [from, middle, to].map(|text| text.chars().count());
    let gap = |used: usize| columns.saturating_sub(used).max(1);
    if columns < start + half + end + 4 {
        return format!("{from}{}{to}", " ".repeat(gap(start + end)));
    }
    // The middle one begins where its column is.
    let before = columns / 2 - start;
    let after = gap(start + before + half + end);
    format!(
        "{from}{}{middle}{}{to}",
        " ".repeat(before),
        " ".repeat(after)
    )
}

/// Widths of a table's columns; where they do not fit, the widest names are cut.
fn widths(
    columns: &[(usize, &Column)],
    heads: &[String],
    rows: &[Vec<String>],
    width_max: usize,
) -> Vec<usize> {
    let width = |text: &str| text.chars().count();
    let mut widths: Vec<usize> = (0..columns.len())
        .map(|place| {
            let cells = rows.iter().map(|row| width(&row[place]));
            cells.chain([width(&heads[place])]).max().unwrap_or(0)
        })
        .collect();
    let gaps = 2 * widths.len().saturating_sub(1);
    let over = (widths.iter().sum::<usize>() + gaps).saturating_sub(width_max);
    for _ in 0..over {
        let names = widths
            .iter_mut()
            .zip(columns)
            .filter(|(width, (_, column))| {
                matches!(column.kind, Kind::Name | Kind::Path) && **width > NAME_MIN
            });
        if let Some((widest, _)) = names.max_by_key(|(width, _)| **width) {
            *widest -= 1;
        }
    }
    widths
}

/// A line of bars, from nothing to the greatest value.
pub(crate) fn bars(values: &[u64]) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let greatest = values.iter().copied().max().unwrap_or(0).max(1);
    let bar = |&value: &u64| match value {
        0 => ' ',
        // Something is never nothing.
        value => HEIGHTS[((value as f64 / greatest as f64 * 8.0).ceil() as usize).clamp(1, 8) - 1],
    };
    values.iter().map(bar).collect()
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => harmless(text),
        Cell::Bar(share) => "▪".repeat((share * BAR as f64).ceil() as usize),
        Cell::Spark(counts) => {
            let group = counts.len().div_ceil(SPARK).max(1);
            let sums: Vec<u64> = counts
                .chunks(group)
                .map(|counts| counts.iter().sum())
                .collect();
            bars(&sums)
        }
    }
}

/// The begin of a text that has to fit in `width` characters.
fn front(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain(['…']).collect()
}

/// A text in so many lines at most: one that needs more is cut.
fn within(lead: &str, text: &str, width: usize, lines_max: usize) -> Vec<String> {
    let mut lines = lines_of(lead, text, width);
    if lines.len() > lines_max {
        lines.truncate(lines_max);
        if let Some(last) = lines.last_mut() {
            *last = front(last, width - 2) + " …";
        }
    }
    lines
}

/// What nfsiostat prints, an interval after the other, with the times of a zone. `-` is
/// what only a client knows.
pub fn intervals(series: &Series, zone: &Zone) -> String {
    let mut out = String::new();
    for interval in &series.intervals {
        let seconds = series.interval_ns as f64 / 1e9;
        let _ = writeln!(
            out,
            "{}, {:.3} ops/s\n{:8}{:>10}{:>11}{:>9}{:>12}{:>9}{:>5}{:>6}{:>10}",
            zone.date(interval.start_ns),
            interval.all.operations as f64 / seconds,
            "",
            "ops/s",
            "kB/s",
            "kB/op",
            "retrans",
            "avg RTT",
            "exe",
            "queue",
            "errors"
        );
        for (name, iostat) in [("read:", &interval.read), ("write:", &interval.write)] {
            iostat_line(name, iostat, seconds, &mut out);
        }
        out.push('\n');
    }
    out
}

fn iostat_line(name: &str, iostat: &Iostat, seconds: f64, out: &mut String) {
    let operations = iostat.operations as f64;
    let kilobytes = iostat.rpc_bytes as f64 / 1024.0;
    let of = |number: f64, whole: f64| if whole == 0.0 { 0.0 } else { number / whole };
    let counted = |number: u64| format!("{number} ({:.1}%)", of(number as f64, operations) * 100.0);
    let _ = writeln!(
        out,
        "{name:<8}{:>10.3}{:>11.3}{:>9.3}{:>12}{:>9.3}{:>5}{:>6}{:>10}",
        operations / seconds,
        kilobytes / seconds,
        of(kilobytes, operations),
        counted(iostat.retransmissions),
        of(
            iostat.round_trip_sum_ns as f64 / 1e6,
            iostat.round_trips as f64
        ),
        "-",
        "-",
        counted(iostat.failed),
    );
}

/// The lines of a text after `lead`, the further ones below the first, none longer than `width`.
pub(crate) fn lines_of(lead: &str, text: &str, width: usize) -> Vec<String> {
    let text = harmless(text);
    let indent = lead.chars().count();
    let mut lines = Vec::new();
    let mut line = lead.to_owned();
    let mut used = indent;
    for word in text.split(' ') {
        let mut word = word;
        let mut length = word.chars().count();
        if used > indent && used + 1 + length > width {
            lines.push(line.trim_end().to_owned());
            line = " ".repeat(indent);
            used = indent;
        }
        if used > indent {
            line.push(' ');
            used += 1;
        }
        // A word longer than a line, such as a path, is cut into lines.
        while used + length > width {
            let at = word
                .char_indices()
                .nth(width - used)
                .map_or(word.len(), |(at, _)| at);
            lines.push(format!("{line}{}", &word[..at]));
            word = &word[at..];
            length = word.chars().count();
            line = " ".repeat(indent);
            used = indent;
        }
        line.push_str(word);
        used += length;
    }
    lines.push(line.trim_end().to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_longer_than_the_width() {
        let text = format!(
            "{} {} {}",
            "word ".repeat(40),
            "x".repeat(300),
            "ä".repeat(79)
        );
        for width in [60, 80, 200] {
            let lines = lines_of("lead         ", &text, width);
            assert!(
                lines.iter().all(|line| line.chars().count() <= width),
                "{lines:#?}"
            );
            let letters = |text: &str| text.chars().filter(|one| !one.is_whitespace()).count();
            let shown: usize = lines.iter().map(|line| letters(line)).sum();
            assert_eq!(shown, letters(&text) + 4);
        }
    }

    #[test]
    fn bars_show_something_as_more_than_nothing() {
        assert_eq!(bars(&[0, 1, 500, 1_000]), " ▁▄█");
    }
    #[test]
    fn an_axis_has_both_ends_and_the_middle_where_it_fits() {
        let clocks = ["10:00", "10:30", "11:00"].map(str::to_owned);
        assert_eq!(axis(&clocks, 20), "10:00     10:30 11:00");
        assert_eq!(axis(&clocks, 12), "10:00  11:00");
        assert_eq!(axis(&clocks, 1), "10:00 11:00");
    }

    #[test]
    fn findings_fit_and_the_worst_keeps_most() {
        let finding = |what: &str| Insight {
            what: what.repeat(30),
            lost: String::new(),
            evidence: "evidence ".repeat(10),
            advice: "advice ".repeat(20),
        };
        let findings = [finding("first "), finding("second "), finding("third ")];
        let style = Style::default();
        let pen = Pen::new(&style);
        let all = pen.fitted(&findings, 100);
        assert_eq!(
            all.iter().filter(|line| line.contains("evidence")).count(),
            6
        );
        for room in 6..all.len() {
            let lines = pen.fitted(&findings, room);
            assert!(lines.len() <= room, "{lines:#?}");
            let shown = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
            assert!(shown("first") >= shown("third"), "{lines:#?}");
            assert!(shown("third") > 0 && lines[0].starts_with("1. first"));
        }
    }
}
