//! The report as one page: its style, its drawings and its script are in it, and it asks the
//! network for nothing. Without the script everything is there; with it tables can be sorted, and
//! all charts be zoomed at once. The browser runs that script alone: the page names its hash.
//!
//! Drawings are SVG without text, stretched to the width there is; their labels are HTML beside
//! them, so that a telephone, a wide screen and paper show them at the same size. The data of the
//! page lie in it as JSON.

mod share_curve;

use std::fmt::{self, Display, Write};

use crate::model::Report;
use crate::monitors;
use crate::numbers::{Zone, grouped, harmless, harmless_json, percent, share, time};
use crate::page::{
    Block, Cell, Chart, Colour, Column, Curve, Fact, Kind, Layer, Meters, Page, Scale, Section,
    Table, Verdict, page as words,
};
use share_curve::share_curve;

/// Height of a drawing in its own units.
pub(crate) const HEIGHT: f64 = 100.0;
/// Lines over an area are drawn up to so many times its greatest value.
const PEAK_MAX: f64 = 3.0;
/// Width of a curve in its own units.
pub(crate) const WIDTH: f64 = 400.0;

/// The page, with the times of a zone.
pub fn page(report: &Report, zone: &Zone) -> String {
    let Page {
        title,
        about,
        certificate,
        first: _,
        sections,
        footer,
    } = words(report, zone);
    let sections: Vec<Section> = certificate.into_iter().chain(sections).collect();
    let report_title = title.clone();
    let title = Text(&title);
    let mut out = String::with_capacity(256 << 10);
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'unsafe-inline'; script-src '{SCRIPT_HASH}'; img-src data:\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n<style>{STYLE}{}</style>\n</head>\n<body>\n<main>\n\
         <header><p class=\"kicker\">lineside report</p><h1>{}</h1>",
        report.monitors.as_ref().map_or("", |_| monitors::STYLE),
        Breakable(&report_title)
    );
    for line in &about {
        let _ = write!(out, "<p class=\"quiet\">{}</p>", Text(line));
    }
    // On paper the last page would hold the footer alone.
    let _ = write!(out, "<p class=\"quiet printed\">{}</p>", Text(&footer));
    out.push_str("</header>\n<nav aria-label=\"Sections\">");
    for (at, each) in sections.iter().enumerate() {
        // A heading may end in figures, which no list of contents needs.
        let name = each.heading.split([',', ':']).next().unwrap_or_default();
        let _ = write!(out, "<a href=\"#s{at}\">{}</a>", Text(name));
    }
    out.push_str("</nav>\n");
    for (at, each) in sections.iter().enumerate() {
        section(at, each, &mut out);
    }
    // `<` never occurs in JSON outside texts, where it may be written so: nothing can end the
    // element early.
    let json = serde_json::to_string(report).unwrap_or_default();
    let json = harmless_json(&json).replace('<', "\\u003c");
    let _ = write!(
        out,
        "<footer><p>{} The data of this page lie in it as JSON, in the element \
        <code>report</code>.</p></footer>\n</main>\n\
         <script type=\"application/json\" id=\"report\">{json}</script>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n",
        Text(&footer)
    );
    out
}

/// A text in HTML, harmless whatever was on the wire.
pub(crate) struct Text<'a>(pub(crate) &'a str);

/// A path or an address, which may be broken behind its separators and nowhere else.
struct Breakable<'a>(&'a str);

impl Display for Breakable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.0.split_inclusive(['/', ':', '_']) {
            write!(f, "{}<wbr>", Text(part))?;
        }
        Ok(())
    }
}

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in harmless(self.0).chars() {
            match character {
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '&' => f.write_str("&amp;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                _ => f.write_char(character)?,
            }
        }
        Ok(())
    }
}

fn section(at: usize, section: &Section, out: &mut String) {
    let _ = write!(
        out,
        "<section><h2 id=\"s{at}\">{}</h2>",
        Text(&section.heading)
    );
    if !section.note.is_empty() {
        let _ = write!(out, "<p class=\"quiet\">{}</p>", Text(&section.note));
    }
    if matches!(section.blocks.first(), Some(Block::Chart(_))) {
        out.push_str(ZOOM);
    }
    for each in &section.blocks {
        block(each, out);
    }
    out.push_str("</section>\n");
}

fn block(block: &Block, out: &mut String) {
    match block {
        Block::Verdict(state) => verdict(state, out),
        Block::Facts(tiles) => facts(tiles, "facts", out),
        Block::List(lines) => facts(lines, "list", out),
        Block::Meters(shares) => meters(shares, out),
        Block::Text(text) => {
            let _ = write!(out, "<p class=\"quiet\">{}</p>", Text(text));
        }
        Block::Findings(findings) => {
            out.push_str("<ol class=\"findings\">");
            for finding in findings {
                let _ = write!(
                    out,
                    "<li><strong>{}.</strong>",
                    Text(&capital(&finding.what))
                );
                for quiet in [&finding.lost, &finding.evidence] {
                    if !quiet.is_empty() {
                        let _ = write!(
                            out,
                            " <span class=\"quiet\">{}.</span>",
                            Text(&capital(quiet))
                        );
                    }
                }
                let _ = write!(
                    out,
                    " <span class=\"do\">{}.</span></li>",
                    Text(&capital(&finding.advice))
                );
            }
            out.push_str("</ol>");
        }
        Block::Chart(values) => chart(values, out),
        Block::Curve(shares) => curve(shares, out),
        Block::Shares(curve) => share_curve(curve, out),
        Block::Histogram(values) => monitors::histogram(values, out),
        Block::Timeline(values) => monitors::timeline(values, out),
        Block::Table(rows) => table(rows, out),
        Block::Beside(parts) => {
            out.push_str("<div class=\"beside\">");
            for part in parts {
                out.push_str("<div>");
                for each in part {
                    self::block(each, out);
                }
                out.push_str("</div>");
            }
            out.push_str("</div>");
        }
    }
}

fn verdict(verdict: &Verdict, out: &mut String) {
    let class = if verdict.complete { "good" } else { "bad" };
    let state = capital(&verdict.state);
    let _ = write!(
        out,
        "<div class=\"verdict {class}\"><p class=\"state\">{}</p><ul>",
        Text(&state)
    );
    for (label, reason) in &verdict.reasons {
        let label = match *label {
            "because" => String::new(),
            label => format!("<b>{label}</b> "),
        };
        let _ = write!(out, "<li>{label}{}</li>", Text(reason));
    }
    out.push_str("</ul></div>");
}

fn facts(facts: &[Fact], class: &str, out: &mut String) {
    let _ = write!(out, "<dl class=\"{class}\">");
    for fact in facts {
        let _ = write!(
            out,
            "<div><dt>{}</dt><dd>{} <small>{}</small></dd></div>",
            fact.label,
            Text(&fact.value),
            Text(&fact.note)
        );
    }
    out.push_str("</dl>");
}

fn meters(meters: &Meters, out: &mut String) {
    let _ = write!(out, "<h3>{}</h3>", Text(&capital(meters.label)));
    for meter in &meters.meters {
        let _ = write!(
            out,
            "<p class=\"meter\"><b>{}</b> {} <small>{}</small><span class=\"track\"><span \
            class=\"{}\" style=\"width:{:.2}%\"></span></span></p>",
            percent(meter.share),
            meter.of,
            Text(&meter.note),
            class(meters.colour),
            meter.share * 100.0,
        );
    }
}

pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// The class of the style that has the colour.
fn class(colour: Colour) -> &'static str {
    match colour {
        Colour::Read => "read",
        Colour::Write => "write",
        Colour::Other => "other",
        Colour::Failed => "failed",
        Colour::Unanswered => "unanswered",
        Colour::Median => "median",
        Colour::Upper => "upper",
    }
}

/// A drawing in the width that there is, with its labels around it. Of `areas`, each is shown with
/// its text when a pointer rests on it: where it begins, how wide it is, and the text.
struct Figure<'a> {
    title: &'a str,
    /// The drawing in words, for readers that do not see it.
    summary: String,
    keys: Vec<(&'a str, Colour)>,
    width: f64,
    drawing: String,
    /// From the top, at equal distances: each has a line.
    y: Vec<String>,
    x: Vec<String>,
    /// Whether these are at equal distances, each with a line: else begin, middle and end.
    has_decades: bool,
    areas: Vec<(f64, f64, String)>,
    /// Of a drawing over time: how many steps it has, and when they end.
    steps: Option<(usize, String)>,
}

impl Figure<'_> {
    fn write(&self, out: &mut String) {
        let _ = write!(out, "<figure><figcaption><b>{}</b>", Text(self.title));
        for (name, colour) in &self.keys {
            let _ = write!(
                out,
                "<span class=\"key\"><i class=\"{}\"></i>{name}</span>",
                class(*colour)
            );
        }
        out.push_str("</figcaption><div class=\"plot\"><div class=\"y\" aria-hidden=\"true\">");
        let mut grid = String::new();
        let gaps = (self.y.len().max(2) - 1) as f64;
        for (at, label) in self.y.iter().enumerate() {
            let _ = write!(out, "<span>{}</span>", Text(label));
            let _ = write!(grid, "M0 {:.2}h{}", at as f64 / gaps * HEIGHT, self.width);
        }
        let x_gaps = (self.x.len().max(2) - 1) as f64;
        for at in { 0..self.x.len() }.filter(|_| self.has_decades) {
            let _ = write!(grid, "M{:.2} 0v{HEIGHT}", at as f64 / x_gaps * self.width);
        }
        let steps = self
            .steps
            .as_ref()
            .map(|(steps, end)| format!(" data-steps=\"{steps}\" data-end=\"{}\"", Text(end)));
        let _ = write!(
            out,
            "</div><svg{} viewBox=\"0 0 {} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" \
             aria-label=\"{}\"><path class=\"grid\" d=\"{grid}\"/>{}",
            steps.unwrap_or_default(),
            self.width,
            Text(&self.summary),
            self.drawing
        );
        for (from, width, text) in &self.areas {
            let _ = write!(
                out,
                "<rect class=\"tip\" x=\"{from:.1}\" width=\"{width:.1}\" \
                height=\"{HEIGHT}\"><title>{}</title></rect>",
                Text(text)
            );
        }
        let (class, gap) = match self.has_decades {
            true => ("x placed", 100.0 / x_gaps),
            false => ("x", 0.0),
        };
        let _ = write!(out, "</svg><div class=\"{class}\" aria-hidden=\"true\">");
        for (at, label) in self.x.iter().enumerate() {
            let place = match self.has_decades {
                true => format!(" style=\"left:{:.2}%\"", at as f64 * gap),
                false => String::new(),
            };
            let _ = write!(out, "<span{place}>{}</span>", Text(label));
        }
        out.push_str("</div></div></figure>");
    }
}

fn chart(chart: &Chart, out: &mut String) {
    let steps = chart.layers.iter().map(|layer| layer.values.len()).max();
    let steps = steps.unwrap_or(0);
    let clock = |step: usize| chart.clock(step);
    let scaled = |value: f64| chart.scale.text(value, chart.step_ns);
    let areas = (0..steps).map(|at| {
        let values = chart.layers.iter().map(|layer| match layer.values[at] {
            Some(value) => format!("{} {}", layer.name, scaled(value as f64)),
            None => format!("{} -", layer.name),
        });
        let text = format!("{}: {}", clock(at), values.collect::<Vec<_>>().join(", "));
        (at as f64, 1.0, text)
    });
    let greatest = chart.layers.iter().map(|layer| {
        let greatest = layer.values.iter().flatten().max().copied().unwrap_or(0);
        format!("{} up to {}", layer.name, scaled(greatest as f64))
    });
    let (drawing, y) = match chart.scale {
        Scale::Time => quantile_lines(chart),
        Scale::Lines => rate_lines(chart),
        Scale::Rate | Scale::Count | Scale::ByteRate => stack(chart, steps),
    };
    Figure {
        title: chart.title,
        summary: format!(
            "{} over time, {} a step: {}",
            chart.title,
            time(chart.step_ns),
            greatest.collect::<Vec<_>>().join(", ")
        ),
        keys: { chart.layers.iter() }
            .map(|layer| (layer.name, layer.colour))
            .collect(),
        width: steps as f64,
        drawing,
        y,
        x: vec![
            clock(0),
            clock(steps / 2),
            format!("{} {}", clock(steps), chart.offset()),
        ],
        has_decades: false,
        areas: areas.collect(),
        steps: Some((steps, format!("{} {}", clock(steps), chart.offset()))),
    }
    .write(out);
}

/// Layers on one another, a bar for each step.
fn stack(chart: &Chart, steps: usize) -> (String, Vec<String>) {
    let value = |layer: usize, at: usize| chart.layers[layer].values[at].unwrap_or(0);
    let sums = (0..steps).map(|at| (0..chart.layers.len()).map(|layer| value(layer, at)).sum());
    let greatest = sums.max().unwrap_or(0u64).max(1) as f64;
    let top = top(chart, greatest);
    let y = |value: u64| HEIGHT - value as f64 / top * HEIGHT;
    let mut drawing = String::new();
    let mut below = vec![0u64; steps];
    for (place, layer) in chart.layers.iter().enumerate() {
        let mut path = String::new();
        for (at, below) in below.iter_mut().enumerate() {
            let value = value(place, at);
            if value > 0 {
                let (low, high) = (y(*below), y(*below + value));
                let _ = write!(path, "M{at} {low:.2}V{high:.2}h1V{low:.2}z");
                *below += value;
            }
        }
        let _ = write!(
            drawing,
            "<path class=\"{}\" d=\"{path}\"/>",
            class(layer.colour)
        );
    }
    (drawing, rate_labels(chart, top))
}

/// The end of a scale of counts: a round rate, not a round count.
fn top(chart: &Chart, greatest: f64) -> f64 {
    let unit = if chart.scale == Scale::ByteRate {
        1024.0
    } else {
        1000.0
    };
    let seconds = match chart.scale {
        Scale::Count => 1.0,
        _ => chart.step_ns.max(1) as f64 / 1e9,
    };
    round_up(greatest / seconds, unit) * seconds
}

fn rate_labels(chart: &Chart, top: f64) -> Vec<String> {
    let scaled = |value| chart.scale.text(value, chart.step_ns);
    vec![scaled(top), scaled(top / 2.0), "0".to_owned()]
}

/// The first layer as an area, and a line for each other one.
fn rate_lines(chart: &Chart) -> (String, Vec<String>) {
    let greatest = |layers: &[Layer]| {
        let counts = layers
            .iter()
            .flat_map(|layer| layer.values.iter().flatten());
        counts.max().copied().unwrap_or(0).max(1) as f64
    };
    // What waited leaves all at once: a peak is cut, so that the rest can be seen.
    let cut = PEAK_MAX * greatest(&chart.layers[..1]);
    let top = top(chart, greatest(&chart.layers).min(cut));
    let y = |count: u64| HEIGHT - count as f64 / top * HEIGHT;
    let mut drawing = String::new();
    for (place, layer) in chart.layers.iter().enumerate() {
        let mut path = step_line(&layer.values, y);
        let class = class(layer.colour);
        let kind = if place == 0 { "" } else { "line " };
        if place == 0 {
            let _ = write!(path, "V{HEIGHT}H0z");
        }
        let _ = write!(drawing, "<path class=\"{kind}{class}\" d=\"{path}\"/>");
    }
    (drawing, rate_labels(chart, top))
}

/// A level line for each step that has a value, joined to that of the step before.
fn step_line(values: &[Option<u64>], y: impl Fn(u64) -> f64) -> String {
    let mut path = String::new();
    let mut joined = false;
    for (at, value) in values.iter().enumerate() {
        if let Some(value) = value {
            let y = y(*value);
            let _ = match joined {
                true => write!(path, "V{y:.2}h1"),
                false => write!(path, "M{at} {y:.2}h1"),
            };
        }
        joined = value.is_some();
    }
    path
}

/// A logarithmic scale of times, of whole powers of ten.
struct Decades {
    low: f64,
    high: f64,
}

impl Decades {
    fn of<'a>(times: impl Iterator<Item = &'a u64> + Clone) -> Self {
        let (least, most) = (times.clone().min().copied(), times.max().copied());
        let low = (least.unwrap_or(1).max(1) as f64).log10().floor();
        let high = (most.unwrap_or(1).max(2) as f64).log10().ceil();
        Self {
            low,
            high: high.max(low + 1.0),
        }
    }

    fn y(&self, ns: u64) -> f64 {
        HEIGHT - ((ns.max(1) as f64).log10() - self.low) / (self.high - self.low) * HEIGHT
    }

    /// From the top.
    fn labels(&self) -> Vec<String> {
        let decades = (0..=(self.high - self.low) as i32).rev();
        let decades = decades.map(|decade| 10f64.powf(self.low + f64::from(decade)).round() as u64);
        let labels = decades.map(|ns| time(ns).replace(".00", "").replace(".0", ""));
        labels.collect()
    }
}

/// A line for each layer, on a logarithmic scale, and the band between the first and the last.
fn quantile_lines(chart: &Chart) -> (String, Vec<String>) {
    let known = { chart.layers.iter() }.flat_map(|layer| layer.values.iter().flatten());
    let decades = Decades::of(known);
    let mut drawing = String::new();
    if let [lower, .., upper] = chart.layers.as_slice() {
        let mut band = String::new();
        for (at, pair) in lower.values.iter().zip(&upper.values).enumerate() {
            if let (Some(lower), Some(upper)) = pair {
                let (lower, upper) = (decades.y(*lower), decades.y(*upper));
                let _ = write!(band, "M{at} {lower:.2}V{upper:.2}h1V{lower:.2}z");
            }
        }
        let _ = write!(drawing, "<path class=\"band\" d=\"{band}\"/>");
    }
    for layer in &chart.layers {
        let path = step_line(&layer.values, |ns| decades.y(ns));
        let class = class(layer.colour);
        let _ = write!(drawing, "<path class=\"line {class}\" d=\"{path}\"/>");
    }
    (drawing, decades.labels())
}

/// The share of the first so many, on a logarithmic scale.
fn curve(curve: &Curve, out: &mut String) {
    let points = &curve.points;
    let Some(last) = points.last().filter(|last| last.first > 1) else {
        return;
    };
    let x = |first: u64| (first as f64).ln() / (last.first as f64).ln() * WIDTH;
    let line = |colour: Colour, value: &dyn Fn(usize) -> f64| {
        let mut path = String::new();
        for (at, point) in points.iter().enumerate() {
            let step = if at == 0 { 'M' } else { 'L' };
            let y = HEIGHT - value(at) * HEIGHT;
            let _ = write!(path, "{step}{:.1} {y:.2}", x(point.first));
        }
        format!("<path class=\"line {}\" d=\"{path}\"/>", class(colour))
    };
    let text = |at: usize| {
        format!(
            "the first {0} by operations: {1} of all operations; the first {0} by bytes: {2} of \
            all bytes",
            grouped(points[at].first),
            percent(points[at].operations_share),
            percent(points[at].bytes_share)
        )
    };
    let areas = points.windows(2).enumerate().map(|(at, pair)| {
        let (from, to) = (x(pair[0].first), x(pair[1].first));
        (from, to - from, text(at + 1))
    });
    // The middle of a logarithmic scale is the root.
    let middle = (last.first as f64).sqrt().round() as u64;
    let operations = line(Colour::Median, &|at| points[at].operations_share);
    Figure {
        title: &curve.title,
        summary: format!("{}: {}", curve.title, text(0)),
        keys: vec![("operations", Colour::Median), ("bytes", Colour::Upper)],
        width: WIDTH,
        drawing: line(Colour::Upper, &|at| points[at].bytes_share) + &operations,
        y: ["100 %", "50 %", "0"].map(str::to_owned).to_vec(),
        x: vec![
            "the first 1".to_owned(),
            grouped(middle),
            grouped(last.first),
        ],
        has_decades: false,
        areas: areas.collect(),
        steps: None,
    }
    .write(out);
}

fn table(table: &Table, out: &mut String) {
    let _ = write!(
        out,
        "<div class=\"table\" tabindex=\"0\" role=\"region\" \
        aria-label=\"{0}\"><table><caption>{0}</caption><thead><tr>",
        Text(&capital(&table.caption))
    );
    for column in &table.columns {
        let head = match (column.kind, &table.axis) {
            (Kind::Spark(_), Some([from, to])) => format!(
                "<span class=\"moment\">{}</span> to <span class=\"moment\">{}</span>",
                Text(from),
                Text(to)
            ),
            // A quantile is no word.
            _ if column.head.starts_with("p9") || column.head == "p50" => column.head.to_owned(),
            _ => Text(&capital(column.head)).to_string(),
        };
        let class = cell_class(column);
        let _ = match column.head {
            "" => write!(out, "<td{class}></td>"),
            _ => write!(out, "<th scope=\"col\"{class}>{head}</th>"),
        };
    }
    out.push_str("</tr></thead><tbody>");
    for row in &table.rows {
        out.push_str("<tr>");
        for (at, (column, cell)) in table.columns.iter().zip(row).enumerate() {
            let class = cell_class(column);
            let content = match (cell, column.kind) {
                (Cell::Text(text), Kind::Path) => Breakable(text).to_string(),
                (Cell::Text(text), _) => Text(text).to_string(),
                (Cell::Bar(share), Kind::Bar(colour)) => format!(
                    "<span class=\"{}\" style=\"width:{:.1}%\"></span>",
                    self::class(colour),
                    share * 100.0
                ),
                (Cell::Bar(_), _) => String::new(),
                (Cell::Spark(counts), Kind::Spark(colour)) => spark(counts, colour),
                (Cell::Spark(_), _) => String::new(),
            };
            let _ = match at {
                0 => write!(out, "<th scope=\"row\"{class}>{content}</th>"),
                _ => write!(out, "<td{class}>{content}</td>"),
            };
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    if !table.rest.is_empty() {
        let _ = write!(out, "<p class=\"quiet\">{}</p>", Text(&table.rest));
    }
}

/// The class of a cell; `w` are those that a telephone does not show.
fn cell_class(column: &Column) -> String {
    let (kind, more) = match column.kind {
        Kind::Name => ("", ""),
        Kind::Path => ("path", ""),
        Kind::Number => ("n", ""),
        Kind::Bar(_) => ("bar", " aria-hidden=\"true\""),
        Kind::Spark(_) => ("spark", ""),
    };
    let wide = if column.wide { " w" } else { "" };
    match format!("{kind}{wide}").trim() {
        "" => String::new(),
        class => format!(" class=\"{class}\"{more}"),
    }
}

fn spark(counts: &[u64], colour: Colour) -> String {
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let mut path = String::new();
    for (at, &count) in counts.iter().enumerate() {
        if count > 0 {
            // A single failure must still be seen.
            let height = (share(count, most) * HEIGHT).max(12.0);
            let _ = write!(path, "M{at} {HEIGHT}v-{height:.1}h1v{height:.1}z");
        }
    }
    format!(
        "<svg data-steps=\"{0}\" viewBox=\"0 0 {0} {HEIGHT}\" preserveAspectRatio=\"none\" \
        role=\"img\" aria-label=\"at most {1} a step\"><path class=\"{2}\" d=\"{path}\"/></svg>",
        counts.len().max(1),
        grouped(most),
        class(colour)
    )
}

/// The next round number that can be halved: a digit or two times a power of ten, of a power of
/// `unit`.
pub(crate) fn round_up(value: f64, unit: f64) -> f64 {
    let mut power = 1.0;
    while value >= power * unit {
        power *= unit;
    }
    let mut step = power * 10f64.powf((value / power).log10().floor());
    if !step.is_finite() || step <= 0.0 {
        step = 1.0;
    }
    // A thousand of a unit is the next one.
    let tops = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0].map(|digit| digit * step);
    let top = tops.into_iter().find(|&top| top >= value).unwrap_or(value);
    if top >= 1000.0 * power {
        (power * unit).max(value)
    } else {
        top
    }
}

/// What the script shows where there are charts.
const ZOOM: &str = "<p id=\"zoom\" hidden>Drag over a chart to zoom into all of them: \
    <button value=\"in\">in</button><button value=\"out\">out</button>\
    <button value=\"left\">earlier</button><button value=\"right\">later</button>\
    <button value=\"all\">all</button><output></output></p>";

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");
/// By which the browser knows the script; a test compares it.
const SCRIPT_HASH: &str = "sha256-319mh6dY0sEd3JoFTgYBg92VXSfpReXDSP9mCvbDZgU=";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_leave_their_place() {
        let text = Text("</script><img src=x onerror='a'>&\u{1b}").to_string();
        assert_eq!(
            text,
            "&lt;/script&gt;&lt;img src=x onerror=&#39;a&#39;&gt;&amp;\\u{1b}"
        );
    }

    #[test]
    fn a_peak_is_cut_where_it_would_hide_the_rest() {
        let layer = |values: [u64; 3]| Layer {
            name: "a",
            colour: Colour::Other,
            values: values.map(Some).to_vec(),
        };
        let labels = |answered| {
            rate_lines(&Chart {
                title: "Requests",
                scale: Scale::Lines,
                start_ns: 0,
                step_ns: 1_000_000_000,
                zone: Zone::default(),
                layers: vec![layer([10, 20, 10]), layer(answered)],
            })
            .1
        };
        assert_eq!(labels([10, 20, 10]), ["20/s", "10/s", "0"]);
        assert_eq!(labels([10, 0, 5_000]), ["60/s", "30/s", "0"]);
    }

    #[test]
    fn scales_end_at_round_numbers() {
        assert_eq!(round_up(7_900.0, 1000.0), 8_000.0);
        assert_eq!(round_up(230.0, 1000.0), 250.0);
        assert_eq!(
            round_up(3.3 * 1024.0 * 1024.0, 1024.0),
            4.0 * 1024.0 * 1024.0
        );
        assert_eq!(round_up(900.0 * 1024.0, 1024.0), 1024.0 * 1024.0);
        assert!(round_up(0.001, 1000.0) >= 0.001);
        assert!(round_up(f64::MAX / 2.0, 1024.0).is_finite());
    }
}
