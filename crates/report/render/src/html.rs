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

use crate::block::{Block, Cell, Colour, Column, Fact, Kind, Meters, Section, Table, Verdict};
use crate::chart::{chart, curve};
use crate::monitors_svg;
use crate::page::{Page, page as words};
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
        report.monitors.as_ref().map_or("", |_| monitors_svg::STYLE),
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
    let json = escape_json(&json).replace('<', "\\u003c");
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

/// What the script shows where there are charts.
const ZOOM: &str = "<p id=\"zoom\" hidden>Drag over a chart to zoom into all of them: \
    <button value=\"in\">in</button><button value=\"out\">out</button>\
    <button value=\"left\">earlier</button><button value=\"right\">later</button>\
    <button value=\"all\">all</button><output></output></p>";

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");
/// By which the browser knows the script; a test compares it.
const SCRIPT_HASH: &str = "sha256-319mh6dY0sEd3JoFTgYBg92VXSfpReXDSP9mCvbDZgU=";
