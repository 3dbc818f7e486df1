//! The report for a terminal, in plain text, as wide as it is asked to be, with headings in bold
//! where that is wanted: one screen with the answer, or all of it.

use std::fmt::Write;

use lineside_analyze::{Report, tail};
use lineside_words::{escape, grouped, percent, time};

use crate::block::{
    Block, Cell, Chart, Column, Curve, Insight, Kind, Line, Meters, Scale, Section, ShareCurve,
    Table, round_share,
};
use crate::monitors_text::{histogram_lines, timeline_lines};
use crate::page::{Page, page};
use crate::points::Points;
use crate::section::points;
use crate::summary::Summary;
use crate::text::{LABEL, SCREEN, Style, axis, bars, front, lead, lines_of, within};

/// Lines of it that findings have at least, where there are any.
const FINDINGS_LINES: usize = 4;
/// Findings on the first screen.
const FINDINGS_MAX: usize = 5;
/// Columns of a bar in a table.
const BAR: usize = 20;
/// Columns of counts over time in a table: two times of day fit above them.
const SPARK: usize = 26;
/// Columns that a name keeps, however little room there is.
const NAME_MIN: usize = 8;

/// The answer: what was seen and whether to believe it, the certificate of a run in short, what
/// stands out, and the workload, on one screen.
pub fn summary(report: &Report, style: &Style) -> String {
    let mut pen = Pen::new(style);
    let summary = page(report, &style.zone).summary;
    let rest = match summary.certificate.is_empty() {
        true => "Workload (--full and --html FILE show the rest)",
        false => "--full and --html FILE show the rest",
    };
    pen.summary(&summary, true, rest);
    pen.out
}

/// The same of a run that ends, of which nothing but the certificate was read.
pub fn closing(report: &Report, style: &Style) -> String {
    let mut pen = Pen::new(style);
    let rest = match report.parameters.asked.trace.as_str() {
        "" => String::new(),
        trace => format!("lineside report {trace} --full shows the rest"),
    };
    pen.summary(&page(report, &style.zone).summary, false, &rest);
    pen.out
}

/// The whole report.
pub fn report(report: &Report, style: &Style) -> String {
    let Page {
        title,
        about,
        certificate,
        summary: _,
        sections,
        footer: _,
    } = page(report, &style.zone);
    let mut pen = Pen::new(style);
    pen.title(&title, &about);
    { certificate.iter().chain(&sections) }.for_each(|each| pen.section(each));
    pen.out
}

/// A lab or a prediction: a row for each point, and what they say. Rows are as long as they need.
pub fn points(of: &Points, style: &Style) -> String {
    let style = Style {
        width: usize::MAX,
        ..style.clone()
    };
    let mut pen = Pen::new(&style);
    let sections = [
        Some(points::points(of, false)),
        points::beside_first(of),
        points::sentences(of),
        points::assertions(of),
    ];
    sections.iter().flatten().for_each(|each| pen.section(each));
    pen.out.split_off(1)
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
    fn summary(&mut self, summary: &Summary, is_read: bool, rest: &str) {
        let mut head: Vec<String> = Vec::new();
        if !summary.title.is_empty() {
            head.push(self.style.heading(&summary.title));
        }
        head.extend(self.all_labelled(&summary.seen));
        let mut workload = self.all_labelled(&summary.workload);
        workload.extend(summary.chart.iter().map(|chart| self.spark_line(chart)));
        let has_findings = is_read && !(summary.findings.is_empty() && workload.is_empty());
        let rest = match rest {
            "" => Vec::new(),
            rest => vec![String::new(), self.style.heading(rest)],
        };
        // The certificate and the heading of findings stand below an empty line each.
        let least = head.len() + rest.len() + workload.len() + 1 + 2 * usize::from(has_findings);
        let mut room = SCREEN.saturating_sub(least);
        if has_findings && !summary.findings.is_empty() {
            room = room.saturating_sub(FINDINGS_LINES);
        }
        let certificate = self.certificate_within(&summary.certificate, room);
        let mut parts = vec![head, certificate];
        if has_findings {
            let used = parts.iter().map(Vec::len).sum::<usize>() + rest.len() + workload.len() + 2;
            parts.extend(self.findings_within(&summary.findings, SCREEN.saturating_sub(used)));
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

    /// Findings in this many lines at most, two for each at least: each in turn, from the worst on,
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
        let lead = lead(&line.label);
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
            Block::Sentences(all) => all.iter().for_each(|text| self.wrapped("", text)),
            Block::Code(lines) => lines.lines().for_each(|line| self.wrapped("", line)),
            // Their numbers are those of the points.
            Block::Cuts(_) | Block::Contours(_) => (),
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
        if known.iter().any(|point| point.waited_share.is_some()) {
            let by_waiting = list(&|at| known[at].waited_share.unwrap_or(0.0));
            let words = format!("Of all that clients waited, ranked by that: {by_waiting}.");
            self.wrapped("", &words);
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
                (0, Kind::Name | Kind::Path) => escape(&table.caption),
                (_, Kind::Spark(_)) => table.axis.as_ref().map_or_else(
                    || column.head.to_string(),
                    |[from, to]| format!("{from} {to:>0$}", SPARK - from.chars().count() - 1),
                ),
                _ => column.head.to_string(),
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
        self.wrapped(&lead(label), text);
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

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) | Cell::Link(_, text) => escape(text),
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

#[cfg(test)]
mod tests {
    use super::*;

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
