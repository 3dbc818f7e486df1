//! The report as one page: its style, its drawings and its script are in it, and it asks the
//! network for nothing. Without the script everything is there; with it tables can be sorted, and
//! all charts be zoomed at once. The browser runs that script alone: the page names its hash.
//!
//! Drawings are SVG without text, stretched to the width there is; their labels are HTML beside
//! them, so that a telephone, a wide screen and paper show them at the same size. The data of the
//! page lie in it as JSON.

use std::fmt::{self, Display, Write};

use lineside_analyze::{Report, Zone, share};
use lineside_words::{escape_json, grouped, percent};

use crate::block::{
    Block, Cell, Colour, Column, Fact, Insight, Kind, Meters, Section, Table, Verdict,
};
use crate::chart::{chart, curve};
use crate::monitors_svg;
use crate::page::{Page, page as words};
use crate::points::Points;
use crate::section::points;
use crate::share_curve::share_curve;
use crate::svg::{HEIGHT, Text, capital, class};

/// The page, with the times of a zone.
pub fn page(report: &Report, zone: &Zone) -> String {
    let Page {
        title,
        about,
        certificate,
        summary: _,
        sections,
        footer,
    } = words(report, zone);
    let style = report.monitors.as_ref().map_or("", |_| monitors_svg::STYLE);
    let document = Document {
        kicker: "lineside report",
        title,
        about,
        sections: certificate.into_iter().chain(sections).collect(),
        footer,
        json: serde_json::to_string(report).unwrap_or_default(),
        style,
    };
    document.write()
}

/// The page of a lab, or of a prediction.
pub fn points(of: &Points, kicker: &'static str) -> String {
    let first = [
        points::sentences(of),
        points::assertions(of),
        points::beside_first(of),
    ];
    let last = [
        points::disturbed(of),
        Some(points::points(of, true)),
        points::file(of),
    ];
    let sections = { first.into_iter().flatten() }.chain(points::drawn(of));
    let document = Document {
        kicker,
        title: of.title.clone(),
        about: of.about.clone(),
        sections: sections.chain(last.into_iter().flatten()).collect(),
        footer: of.footer.clone(),
        json: of.json.clone(),
        style: POINTS_STYLE,
    };
    document.write()
}

/// What a page is made of.
struct Document {
    kicker: &'static str,
    title: String,
    about: Vec<String>,
    sections: Vec<Section>,
    footer: String,
    json: String,
    /// Beside the style that all pages have.
    style: &'static str,
}

impl Document {
    fn write(&self) -> String {
        let title = Text(&self.title);
        let mut out = String::with_capacity(256 << 10);
        let _ = write!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
             'unsafe-inline'; script-src '{SCRIPT_HASH}'; img-src data:\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" \
             href=\"data:,\">\n<title>{title}</title>\n<style>{STYLE}{}</style>\n</head>\n<body>\n\
             <main>\n<header><p class=\"kicker\">{}</p><h1>{}</h1>",
            self.style,
            self.kicker,
            Breakable(&self.title)
        );
        for line in &self.about {
            let _ = write!(out, "<p class=\"quiet\">{}</p>", Text(line));
        }
        // On paper the last page would hold the footer alone.
        let _ = write!(out, "<p class=\"quiet printed\">{}</p>", Text(&self.footer));
        out.push_str("</header>\n<nav aria-label=\"Sections\">");
        for (at, each) in self.sections.iter().enumerate() {
            // A heading may end in figures, which no list of contents needs.
            let name = each.heading.split([',', ':']).next().unwrap_or_default();
            let _ = write!(out, "<a href=\"#s{at}\">{}</a>", Text(name));
        }
        out.push_str("</nav>\n");
        for (at, each) in self.sections.iter().enumerate() {
            section(at, each, &mut out);
        }
        // `<` never occurs in JSON outside texts, where it may be written so: nothing can end the
        // element early.
        let json = escape_json(&self.json).replace('<', "\\u003c");
        let _ = write!(
            out,
            "<footer><p>{} The data of this page lie in it as JSON, in the element \
            <code>report</code>.</p></footer>\n</main>\n\
             <script type=\"application/json\" id=\"report\">{json}</script>\n\
             <script>{SCRIPT}</script>\n</body>\n</html>\n",
            Text(&self.footer)
        );
        out
    }
}

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
        Block::Sentences(all) => {
            let (shown, folded) = all.split_at(all.len().min(SENTENCES_MAX));
            sentences(shown, out);
            if !folded.is_empty() {
                let count = grouped(folded.len() as u64);
                let _ = write!(
                    out,
                    "<details class=\"printed-too\"><summary>{count} more</summary>"
                );
                sentences(folded, out);
                out.push_str("</details>");
            }
        }
        Block::Code(lines) => {
            out.push_str("<pre>");
            for line in lines.lines() {
                let _ = writeln!(out, "{}", Text(line));
            }
            out.push_str("</pre>");
        }
        Block::Cuts(cuts) => cuts.write(out),
        Block::Contours(contours) => contours.write(out),
        Block::Findings(all) => findings(all, out),
        Block::Chart(values) => chart(values, out),
        Block::Curve(shares) => curve(shares, out),
        Block::Shares(curve) => share_curve(curve, out),
        Block::Histogram(values) => monitors_svg::histogram(values, out),
        Block::Timeline(values) => monitors_svg::timeline(values, out),
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

fn sentences(all: &[String], out: &mut String) {
    out.push_str("<ul class=\"sentences\">");
    for sentence in all {
        let _ = write!(out, "<li>{}</li>", Text(sentence));
    }
    out.push_str("</ul>");
}

/// What stands out, each with what is done about it.
fn findings(all: &[Insight], out: &mut String) {
    out.push_str("<ol class=\"findings\">");
    for finding in all {
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

fn table(table: &Table, out: &mut String) {
    let is_folded = table.rows.len() > OPEN_MAX;
    if is_folded {
        let count = grouped(table.rows.len() as u64);
        let _ = write!(out, "<details><summary>{count} rows</summary>");
    }
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
            _ if column.head.starts_with("p9") || column.head == "p50" => column.head.to_string(),
            _ => Text(&capital(&column.head)).to_string(),
        };
        let class = cell_class(column);
        let _ = match column.head.as_ref() {
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
                (Cell::Link(href, text), _) => {
                    format!("<a href=\"{}\">{}</a>", Text(href), Text(text))
                }
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
    if is_folded {
        out.push_str("</details>");
    }
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

/// What the script shows where there are charts.
const ZOOM: &str = "<p id=\"zoom\" hidden>Drag over a chart to zoom into all of them: \
    <button value=\"in\">in</button><button value=\"out\">out</button>\
    <button value=\"left\">earlier</button><button value=\"right\">later</button>\
    <button value=\"all\">all</button><output></output></p>";

/// Sentences that are shown at once: the others are behind a word.
const SENTENCES_MAX: usize = 12;

/// Rows of a table that are shown at once: the others are behind a word.
const OPEN_MAX: usize = 200;

const POINTS_STYLE: &str = include_str!("points.css");
const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");
/// By which the browser knows the script; a test compares it.
const SCRIPT_HASH: &str = "sha256-319mh6dY0sEd3JoFTgYBg92VXSfpReXDSP9mCvbDZgU=";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points::{Asserted, Axis, Disturbed, Law, Metric, Point, Ratio, Value};

    /// A point for each combination of the values of some axes, the last one first to change.
    fn lab(axes: &[(&str, &[String])], of: impl Fn(&[usize]) -> Option<Value>) -> Points {
        let mut places: Vec<Vec<usize>> = vec![Vec::new()];
        for (_, values) in axes {
            places = { places.iter() }
                .flat_map(|place| (0..values.len()).map(|at| [&place[..], &[at]].concat()))
                .collect();
        }
        let point = |place: Vec<usize>| Point {
            values: vec![of(&place)],
            runs: 3,
            folder: "./point=1/repeat=1/".to_owned(),
            place,
            ..Point::default()
        };
        Points {
            title: "lab".to_owned(),
            axes: { axes.iter() }
                .map(|(name, values)| Axis::new((*name).to_owned(), values.to_vec()))
                .collect(),
            metrics: vec![Metric {
                name: "answered".to_owned(),
                unit: "/s".to_owned(),
                is_of_link: false,
            }],
            points: places.into_iter().map(point).collect(),
            json: "{}".to_owned(),
            ..Points::default()
        }
    }

    fn words(of: &[&str]) -> Vec<String> {
        of.iter().map(|word| (*word).to_owned()).collect()
    }

    fn drawn(of: &Points) -> String {
        let page = points(of, "lineside lab");
        for wrong in ["NaN", "inf"] {
            assert!(!page.contains(wrong), "{wrong} in a page");
        }
        for tag in ["figure", "section", "table", "svg", "div", "details", "ul"] {
            let [open, close] =
                ["<", "</"].map(|begin| page.matches(&format!("{begin}{tag}")).count());
            assert_eq!(open, close, "{tag}");
        }
        page
    }

    #[test]
    fn a_page_has_contours_cuts_bands_and_the_law() {
        let (delay, rate) = (
            words(&["0", "1ms", "2ms"]),
            words(&["1mbit", "10mbit", "1gbit"]),
        );
        let value = |at: &[usize]| {
            let value = 1_000.0 / (1.0 + at[0] as f64) * (1.0 + at[1] as f64);
            Value::finite(value, Some((value * 0.9, value * 1.1)))
        };
        let mut of = lab(&[("delay", &delay), ("rate", &rate)], value);
        of.laws.push(Law {
            metric: 0,
            axis: 0,
            place: vec![0, 1],
            curve: vec![(0.0, 2_000.0), (2e6, 700.0)],
        });
        of.sentences.push("answered is bound by delay".to_owned());
        let page = drawn(&of);
        for part in [
            "answered (/s) over delay and rate",
            "class=\"contour\"",
            "answered (/s) over rate",
            "class=\"band c0\"",
            "class=\"law c1\"",
            "delay=1ms rate=10mbit: 1,000/s",
            "1,000/s (900/s to 1,100/s)",
            "<a href=\"./point=1/repeat=1/\">3</a>",
            "<li>answered is bound by delay</li>",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        // The terminal has the same values and sentences.
        let text = crate::terminal::points(&of, &crate::Style::default());
        assert!(
            text.contains("900 to 1,100") && text.contains("bound by delay"),
            "{text}"
        );
    }

    #[test]
    fn a_page_stands_whatever_was_measured() {
        let delay = words(&["0", "1ms", "1h"]);
        let builds = words(&[
            "<script>alert(1)</script>",
            "b\"onload=x '",
            "\u{1b}[31m\u{202e}",
        ]);
        let some = |value: f64| Value::finite(value, None);
        let cases = [
            lab(&[], |_| some(5.0)),
            lab(&[], |_| None),
            lab(&[("delay", &delay)], |_| None),
            lab(&[("delay", &delay[..1])], |_| some(0.0)),
            lab(&[("build", &builds)], |at| some(at[0] as f64)),
            lab(&[("build", &builds), ("delay", &delay)], |at| match at[1] {
                0 => None,
                1 => some(-1e300),
                _ => some(1e300),
            }),
            lab(&[("delay", &delay), ("x", &words(&["1", "2"]))], |at| {
                Value::finite(
                    [f64::NAN, f64::INFINITY, -2.0][at[0]],
                    Some((f64::NAN, 1.0)),
                )
            }),
        ];
        for mut of in cases {
            let text = "<script>alert(1)</script>".to_owned();
            of.title.clone_from(&text);
            of.metrics[0].name.clone_from(&text);
            of.json = format!("{{\"a\": \"{text}\"}}");
            of.sentences.push(text.clone());
            of.file.clone_from(&text);
            of.assertions.push(Asserted {
                state: "failed",
                what: text.clone(),
                why: vec![text.clone(); 9],
            });
            of.disturbed.push(Disturbed {
                point: 1,
                repeat: 1,
                folder: String::new(),
                why: text.clone(),
            });
            of.beside_first.push(Ratio {
                at: text.clone(),
                metric: text.clone(),
                pairs: 0,
                ratio: None,
                state: "undecided",
            });
            let page = drawn(&of);
            assert!(!page.contains("<script>alert"), "{page}");
            assert!(
                !page.contains('\u{1b}') && !page.contains('\u{202e}'),
                "{page}"
            );
            assert!(page.contains("&lt;script&gt;alert"), "{page}");
            assert!(!crate::terminal::points(&of, &crate::Style::default()).is_empty());
        }
    }

    #[test]
    fn ten_thousand_points_have_a_page_of_bounded_size() {
        let delay: Vec<String> = (0..100).map(|at| format!("{at}ms")).collect();
        let rate: Vec<String> = (1..=100).map(|at| format!("{at}mbit")).collect();
        let of = lab(&[("delay", &delay), ("rate", &rate)], |at| {
            Value::finite(1e6 / (1.0 + at[0] as f64) + at[1] as f64, None)
        });
        let page = drawn(&of);
        assert!(page.contains("10,000 rows</summary>"));
        assert!(page.len() < 8 << 20, "{} bytes", page.len());
        assert!(page.contains("6 of 100 lines"));
    }
}
