//! The report as one page: its style and its drawings are in it, it runs no script and asks the network for nothing.
//!
//! Drawings are SVG without text, stretched to the width there is; their labels are HTML beside them, so that a
//! telephone, a wide screen and paper show them at the same size. The data of the page lie in it as JSON.

use std::fmt::{self, Display, Write};

use crate::model::{Busy, Direction, ErrorCount, Operation, OverTime, Ranking, Report};
use crate::numbers::{bytes, date, grouped, harmless, percent, share, time};
use crate::terminal::{file_name, loss_cause, odd, operation_name, optional_time, verdict};

/// Height of a drawing in its own units.
const HEIGHT: f64 = 100.0;
/// Rows of a table before the rest is left to the JSON form.
const ROWS: usize = 40;

/// The page.
pub fn page(report: &Report) -> String {
    let mut out = String::with_capacity(256 << 10);
    let title = format!("Report on {}", Text(&report.parameters.trace));
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
    );
    header(report, &mut out);
    missing(report, &mut out);
    tiles(report, &mut out);
    findings(report, &mut out);
    over_time(&report.over_time, &mut out);
    operations(&report.operations, &mut out);
    directions(report, &mut out);
    ranking("files", "File", &report.files, &mut out);
    ranking("clients", "Client", &report.clients, &mut out);
    errors(report, &mut out);
    footer(report, &mut out);
    // `<` never occurs in JSON outside texts, where it may be written so: nothing can end the element early.
    let json = serde_json::to_string(report)
        .unwrap_or_default()
        .replace('<', "\\u003c");
    let _ = write!(
        out,
        "</main>\n<script type=\"application/json\" id=\"report\">{json}</script>\n</body>\n</html>\n"
    );
    out
}

/// A text in HTML, harmless whatever was on the wire.
struct Text<'a>(&'a str);

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

fn header(report: &Report, out: &mut String) {
    let totals = &report.totals;
    let parameters = &report.parameters;
    let mut lines = Vec::new();
    if let (Some(first), Some(last)) = (totals.first_ns, totals.last_ns) {
        lines.push(format!("{} to {}", date(first), date(last)));
    }
    for input in report.trace.inputs.iter().take(3) {
        lines.push(format!("{} ({})", Text(&input.name), Text(&input.format)));
    }
    if report.trace.inputs.len() > 3 {
        lines.push(format!("and {} more", report.trace.inputs.len() - 3));
    }
    let chosen = [
        parameters.since_ns.map(|ns| format!("since {}", date(ns))),
        parameters.until_ns.map(|ns| format!("until {}", date(ns))),
        parameters
            .client
            .as_ref()
            .map(|client| format!("client {}", Text(client))),
        parameters
            .operation
            .as_ref()
            .map(|name| format!("operation {}", Text(name))),
    ];
    let chosen: Vec<_> = chosen.into_iter().flatten().collect();
    if !chosen.is_empty() {
        lines.push(format!("<strong>only {}</strong>", chosen.join(", ")));
    }
    let _ = writeln!(
        out,
        "<header><p class=\"kicker\">lineside report</p><h1>{}</h1><p class=\"quiet\">{}</p></header>",
        Text(&report.parameters.trace),
        lines.join("<br>")
    );
}

fn missing(report: &Report, out: &mut String) {
    let missing = &report.missing;
    let verdict = verdict(report);
    let class = if verdict == "complete" && missing.unreadable.is_empty() {
        "good"
    } else {
        "bad"
    };
    let _ = write!(
        out,
        "<section class=\"verdict {class}\"><h2>What is missing from the capture</h2><div class=\"split\"><div><p class=\"state\">{}</p>",
        Text(&verdict)
    );
    let mut reasons: Vec<String> = missing
        .reasons
        .iter()
        .map(|reason| Text(reason).to_string())
        .collect();
    for loss in &missing.losses {
        let what = match loss.dropped_frames {
            0 => format!(
                "{} in {} holes",
                bytes(loss.lost_bytes),
                grouped(loss.holes)
            ),
            frames => format!("{} frames", grouped(frames)),
        };
        reasons.push(format!(
            "{what}: {}",
            Text(&loss_cause(&loss.direction, &loss.cause))
        ));
    }
    reasons.extend(
        missing
            .unreadable
            .iter()
            .map(|text| format!("unreadable: {}", Text(text))),
    );
    if reasons.is_empty() && verdict == "complete" {
        reasons.push("Everything that passed the tap was seen.".to_owned());
    }
    let _ = write!(
        out,
        "<ul>{}</ul></div>",
        reasons
            .iter()
            .map(|reason| format!("<li>{reason}</li>"))
            .collect::<String>()
    );
    if let Some(understood) = &report.understood {
        out.push_str("<div><p class=\"label\">Understood</p>");
        for (what, share, part, whole) in [
            (
                "of connections with RPC",
                understood.rpc_connections_share,
                understood.rpc_bytes,
                understood.rpc_connections_bytes,
            ),
            (
                "of all TCP payload",
                understood.tcp_share,
                understood.tcp_rpc_bytes,
                understood.tcp_bytes,
            ),
        ] {
            let _ = write!(
                out,
                "<p class=\"meter\"><b>{}</b> {what}<span class=\"track\"><span style=\"width:{:.2}%\"></span></span>\
                 <small>{} of {}</small></p>",
                percent(share),
                share * 100.0,
                bytes(part),
                bytes(whole)
            );
        }
        let tls = match understood.tls_connections {
            0 => String::new(),
            count => format!(", {} with TLS", grouped(count)),
        };
        let _ = write!(
            out,
            "<p><small>{} connections, {} of them with RPC{tls}. Lost bytes whose place inside a record is known count as \
             understood.</small></p></div>",
            grouped(understood.connections),
            grouped(understood.rpc_connections)
        );
    }
    out.push_str("</div></section>\n");
}

fn tiles(report: &Report, out: &mut String) {
    let totals = &report.totals;
    let rate = |number: u64| number as f64 / (totals.duration_ns.max(1) as f64 / 1e9);
    let per_second = |number: u64| match totals.duration_ns {
        0 => String::new(),
        _ => format!("{}/s", grouped(rate(number).round() as u64)),
    };
    let bytes_per_second = |number: u64| match totals.duration_ns {
        0 => String::new(),
        _ => format!("{}/s", bytes(rate(number).round() as u64)),
    };
    let failed = percent(share(totals.failed, totals.operations));
    let tiles = [
        (
            "Operations",
            grouped(totals.operations),
            per_second(totals.operations),
        ),
        ("Duration", time(totals.duration_ns), String::new()),
        (
            "Read",
            bytes(totals.read_bytes),
            bytes_per_second(totals.read_bytes),
        ),
        (
            "Written",
            bytes(totals.written_bytes),
            bytes_per_second(totals.written_bytes),
        ),
        ("Clients", grouped(totals.clients), String::new()),
        ("Files", grouped(totals.files), String::new()),
        ("Failed", grouped(totals.failed), failed),
    ];
    out.push_str("<section class=\"tiles\">");
    for (label, value, note) in tiles {
        let _ = write!(
            out,
            "<div><p class=\"label\">{label}</p><p class=\"value\">{value}</p><small>{note}</small></div>"
        );
    }
    out.push_str("</section>\n");
    let odd: Vec<_> = odd(report)
        .into_iter()
        .filter(|(what, _)| *what != "failed")
        .map(|(what, count)| format!("{} {what}", grouped(count)))
        .collect();
    if !odd.is_empty() {
        let _ = writeln!(
            out,
            "<p class=\"quiet odd\">Of the operations: {}.</p>",
            odd.join(" · ")
        );
    }
}

fn findings(report: &Report, out: &mut String) {
    if report.findings.is_empty() {
        return;
    }
    out.push_str("<section><h2>What stands out</h2><ol class=\"findings\">");
    for finding in &report.findings {
        let _ = write!(
            out,
            "<li><strong>{}.</strong> {}.</li>",
            Text(&capital(&finding.what)),
            capital(finding.advice)
        );
    }
    out.push_str("</ol></section>\n");
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// A line or a layer of a drawing.
struct Layer<'a> {
    name: &'a str,
    class: &'a str,
    values: &'a [u64],
}

fn over_time(over_time: &OverTime, out: &mut String) {
    let steps = over_time.reads.len();
    if steps == 0 {
        return;
    }
    let _ = write!(
        out,
        "<section><h2>Over time</h2><p class=\"quiet\">{} a step.</p>",
        time(over_time.step_ns)
    );
    let seconds = over_time.step_ns as f64 / 1e9;
    let rate = |count: f64| format!("{}/s", short(count / seconds));
    let byte_rate = |count: f64| format!("{}/s", bytes((count / seconds).round() as u64));
    let layer = |name, class, values| Layer {
        name,
        class,
        values,
    };
    stacked(
        "Operations",
        &[
            layer("READ", "read", &over_time.reads),
            layer("WRITE", "write", &over_time.writes),
            layer("other", "other", &over_time.others),
        ],
        over_time,
        1000.0,
        &rate,
        out,
    );
    if over_time
        .read_bytes
        .iter()
        .chain(&over_time.written_bytes)
        .any(|&bytes| bytes > 0)
    {
        stacked(
            "Bytes moved",
            &[
                layer("read", "read", &over_time.read_bytes),
                layer("written", "write", &over_time.written_bytes),
            ],
            over_time,
            1024.0,
            &byte_rate,
            out,
        );
    }
    server_time(over_time, out);
    if over_time
        .failed
        .iter()
        .chain(&over_time.unanswered)
        .any(|&count| count > 0)
    {
        stacked(
            "Failed and unanswered",
            &[
                layer("failed", "failed", &over_time.failed),
                layer("no reply", "unanswered", &over_time.unanswered),
            ],
            over_time,
            1000.0,
            &rate,
            out,
        );
    }
    out.push_str("</section>\n");
}

/// Layers on one another, a bar for each step.
fn stacked(
    title: &str,
    layers: &[Layer<'_>],
    over_time: &OverTime,
    unit: f64,
    scale: &dyn Fn(f64) -> String,
    out: &mut String,
) {
    let steps = over_time.reads.len();
    let sums: Vec<u64> = (0..steps)
        .map(|at| layers.iter().map(|layer| layer.values[at]).sum())
        .collect();
    let seconds = over_time.step_ns as f64 / 1e9;
    let greatest = sums.iter().copied().max().unwrap_or(0).max(1) as f64;
    // The scale ends at a round rate, not at a round count.
    let top = round_up(greatest / seconds, unit) * seconds;
    let y = |value: f64| HEIGHT - value / top * HEIGHT;
    let mut drawing = String::new();
    let mut below = vec![0u64; steps];
    for layer in layers {
        let mut path = String::new();
        for (at, &value) in layer.values.iter().enumerate() {
            if value > 0 {
                let (low, high) = (y(below[at] as f64), y((below[at] + value) as f64));
                let _ = write!(path, "M{at} {low:.2}V{high:.2}h1V{low:.2}z");
                below[at] += value;
            }
        }
        let _ = write!(drawing, "<path class=\"{}\" d=\"{path}\"/>", layer.class);
    }
    let tips = (0..steps).map(|at| {
        let values = layers
            .iter()
            .map(|layer| format!("{} {}", layer.name, scale(layer.values[at] as f64)));
        values.collect::<Vec<_>>().join(", ")
    });
    let legend: Vec<_> = layers
        .iter()
        .map(|layer| (layer.name, layer.class))
        .collect();
    let labels = [scale(top), scale(top / 2.0), "0".to_owned()];
    chart(title, &legend, &labels, &drawing, over_time, tips, out);
}

/// The band between median and 99th percentile, on a logarithmic scale.
fn server_time(over_time: &OverTime, out: &mut String) {
    let known = || {
        over_time
            .server_time_p50_ns
            .iter()
            .chain(&over_time.server_time_p99_ns)
            .flatten()
    };
    let (Some(&least), Some(&most)) = (known().min(), known().max()) else {
        return;
    };
    let low = (least.max(1) as f64).log10().floor();
    let high = (most.max(2) as f64).log10().ceil().max(low + 1.0);
    let y = |ns: u64| HEIGHT - ((ns.max(1) as f64).log10() - low) / (high - low) * HEIGHT;
    let (mut band, mut median, mut upper) = (String::new(), String::new(), String::new());
    let quantiles = over_time
        .server_time_p50_ns
        .iter()
        .zip(&over_time.server_time_p99_ns);
    let mut tips = Vec::new();
    for (at, (p50, p99)) in quantiles.enumerate() {
        let (Some(p50), Some(p99)) = (*p50, *p99) else {
            tips.push("nothing answered".to_owned());
            continue;
        };
        let _ = write!(band, "M{at} {:.2}V{:.2}h1V{:.2}z", y(p50), y(p99), y(p50));
        let _ = write!(median, "M{at} {:.2}h1", y(p50));
        let _ = write!(upper, "M{at} {:.2}h1", y(p99));
        tips.push(format!("median {}, 99 % {}", time(p50), time(p99)));
    }
    let mut drawing = String::new();
    for decade in 1..(high - low) as u32 {
        let line = HEIGHT - f64::from(decade) / (high - low) * HEIGHT;
        let _ = write!(
            drawing,
            "<path class=\"grid\" d=\"M0 {line:.2}H{}\"/>",
            tips.len()
        );
    }
    let _ = write!(
        drawing,
        "<path class=\"band\" d=\"{band}\"/><path class=\"line upper\" d=\"{upper}\"/><path class=\"line median\" d=\"{median}\"/>"
    );
    let decades = (0..=(high - low) as i32).rev();
    let labels: Vec<_> = decades
        .map(|decade| 10f64.powf(low + f64::from(decade)).round() as u64)
        .map(|ns| time(ns).replace(".00", "").replace(".0", ""))
        .collect();
    chart(
        "Server time",
        &[("99 %", "upper"), ("median", "median")],
        &labels,
        &drawing,
        over_time,
        tips.into_iter(),
        out,
    );
}

/// A drawing over time with its labels around it; `tips` are shown when a pointer rests on a step.
fn chart(
    title: &str,
    legend: &[(&str, &str)],
    labels: &[String],
    drawing: &str,
    over_time: &OverTime,
    tips: impl Iterator<Item = String>,
    out: &mut String,
) {
    let steps = over_time.reads.len();
    let at = |step: usize| {
        over_time
            .start_ns
            .saturating_add_unsigned(over_time.step_ns.saturating_mul(step as u64))
    };
    let _ = write!(out, "<figure><figcaption><b>{title}</b>");
    for (name, class) in legend {
        let _ = write!(
            out,
            "<span class=\"key\"><i class=\"{class}\"></i>{name}</span>"
        );
    }
    out.push_str("</figcaption><div class=\"plot\"><div class=\"y\">");
    for label in labels {
        let _ = write!(out, "<span>{label}</span>");
    }
    let _ = write!(
        out,
        "</div><svg viewBox=\"0 0 {steps} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{title} over time\">\
         <path class=\"grid\" d=\"M0 0H{steps}M0 {HEIGHT}H{steps}{}\"/>{drawing}",
        if labels.len() == 3 {
            format!("M0 {}H{steps}", HEIGHT / 2.0)
        } else {
            String::new()
        },
    );
    for (step, tip) in tips.enumerate() {
        let _ = write!(
            out,
            "<rect class=\"tip\" x=\"{step}\" width=\"1\" height=\"{HEIGHT}\"><title>{}\n{tip}</title></rect>",
            clock(at(step), over_time.step_ns)
        );
    }
    let _ = writeln!(
        out,
        "</svg><div class=\"x\"><span>{}</span><span>{}</span><span>{}</span></div></div></figure>",
        clock(at(0), over_time.step_ns),
        clock(at(steps / 2), over_time.step_ns),
        clock(at(steps), over_time.step_ns),
    );
}

/// The time of day, as exact as the steps are; with the day, if they are long.
fn clock(ns: i64, step_ns: u64) -> String {
    let date = date(ns);
    let range = match step_ns {
        0..1_000_000_000 => 11..23,
        1_000_000_000..600_000_000_000 => 11..19,
        600_000_000_000..86_400_000_000_000 => 5..16,
        _ => 0..10,
    };
    date.get(range).unwrap_or(&date).to_owned()
}

/// The next of 1, 2, 5 times a power of ten, of a power of `unit`.
fn round_up(value: f64, unit: f64) -> f64 {
    let mut power = 1.0;
    while value >= power * unit {
        power *= unit;
    }
    let mut step = power * 10f64.powf((value / power).log10().floor());
    if !step.is_finite() || step <= 0.0 {
        step = 1.0;
    }
    // A thousand of a unit is the next one.
    let tops = [1.0, 2.0, 2.5, 5.0, 10.0].map(|digit| digit * step);
    let top = tops.into_iter().find(|&top| top >= value).unwrap_or(value);
    if top >= 1000.0 * power {
        (power * unit).max(value)
    } else {
        top
    }
}

/// `12.5k`
fn short(number: f64) -> String {
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

fn operations(operations: &[Operation], out: &mut String) {
    if operations.is_empty() {
        return;
    }
    out.push_str(
        "<section><h2>Operations</h2><p class=\"quiet\">Server time: from the end of the call to the begin of the reply. \
         Transfer: from the first to the last byte of a message.</p><div class=\"table\"><table><thead><tr><th>Operation</th>\
         <th class=\"n\">Count</th><th class=\"share\">Share</th><th class=\"n\">Failed</th><th class=\"n\">Moved</th>\
         <th class=\"n\">Server time, median</th><th class=\"n\">90 %</th><th class=\"n\">99 %</th><th class=\"n\">99.9 %</th><th class=\"n\">most</th>\
         <th class=\"n\">Call transfer, 99 %</th><th class=\"n\">Reply transfer, 99 %</th></tr></thead><tbody>",
    );
    let most = operations.first().map_or(0.0, |each| each.operations_share);
    for each in operations.iter().take(ROWS) {
        let times = &each.server_time;
        let _ = write!(
            out,
            "<tr><th>{}</th><td class=\"n\">{}</td><td class=\"share\"><span style=\"width:{:.2}%\"></span>{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            Text(&operation_name(each)),
            grouped(each.operations),
            each.operations_share / most.max(f64::MIN_POSITIVE) * 50.0,
            percent(each.operations_share),
            dash(each.failed, grouped(each.failed)),
            dash(each.moved_bytes, bytes(each.moved_bytes)),
            optional_time(times.p50_ns),
            optional_time(times.p90_ns),
            optional_time(times.p99_ns),
            optional_time(times.p999_ns),
            optional_time(times.max_ns),
            optional_time(each.call_transfer_time.p99_ns),
            optional_time(each.reply_transfer_time.p99_ns),
        );
    }
    out.push_str("</tbody></table></div></section>\n");
}

fn dash(number: u64, text: String) -> String {
    if number == 0 { "–".to_owned() } else { text }
}

fn directions(report: &Report, out: &mut String) {
    if report.reads.operations + report.writes.operations == 0 {
        return;
    }
    out.push_str("<section><h2>Reads and writes</h2><div class=\"split\">");
    for (name, class, direction) in [
        ("READ", "read", &report.reads),
        ("WRITE", "write", &report.writes),
    ] {
        if direction.operations > 0 {
            direction_block(name, class, direction, out);
        }
    }
    out.push_str("</div></section>\n");
}

fn direction_block(name: &str, class: &str, direction: &Direction, out: &mut String) {
    let _ = write!(
        out,
        "<div class=\"direction\"><h3>{name}</h3><p class=\"quiet\">{} operations, {}</p>",
        grouped(direction.operations),
        bytes(direction.moved_bytes)
    );
    let aligned = |number| (direction.placed > 0).then(|| share(number, direction.placed));
    for (what, share) in [
        ("sequential", direction.sequential_share),
        ("aligned to 512 B", aligned(direction.aligned_512)),
        ("aligned to 4 KiB", aligned(direction.aligned_4096)),
    ] {
        if let Some(share) = share {
            let _ = write!(
                out,
                "<p class=\"meter\"><b>{}</b> {what}<span class=\"track {class}\"><span style=\"width:{:.2}%\"></span></span></p>",
                percent(share),
                share * 100.0
            );
        }
    }
    if direction.sizes.is_empty() {
        out.push_str("</div>");
        return;
    }
    out.push_str("<div class=\"table\"><table class=\"sizes\"><thead><tr><th>Size up to</th><th class=\"n\">Operations</th><th class=\"share\">Share</th><th class=\"n\">Moved</th></tr></thead><tbody>");
    let most = direction
        .sizes
        .iter()
        .map(|size| size.operations)
        .max()
        .unwrap_or(1);
    for size in &direction.sizes {
        let _ = write!(
            out,
            "<tr><th>{}</th><td class=\"n\">{}</td><td class=\"share {class}\"><span style=\"width:{:.2}%\"></span>{}</td><td class=\"n\">{}</td></tr>",
            bytes(size.size_max_bytes),
            grouped(size.operations),
            share(size.operations, most) * 50.0,
            percent(share(size.operations, direction.operations)),
            dash(size.moved_bytes, bytes(size.moved_bytes)),
        );
    }
    out.push_str("</tbody></table></div></div>");
}

fn ranking(what: &str, head: &str, ranking: &Ranking, out: &mut String) {
    if ranking.by_operations.is_empty() {
        return;
    }
    let _ = write!(
        out,
        "<section><h2>Busiest {what}</h2><p class=\"quiet\">Of {}.",
        grouped(ranking.count)
    );
    if ranking.not_tracked_operations > 0 {
        let _ = write!(
            out,
            " There was no room for all: those not told apart have {} operations together, so one that is missing here has at most as many.",
            grouped(ranking.not_tracked_operations)
        );
    }
    out.push_str("</p>");
    concentration(what, ranking, out);
    out.push_str("<div class=\"split wide\">");
    ranking_table("by operations", head, &ranking.by_operations, out);
    if !ranking.by_bytes.is_empty() {
        ranking_table("by bytes", head, &ranking.by_bytes, out);
    }
    out.push_str("</div></section>\n");
}

/// The share of the first so many, on a logarithmic scale.
fn concentration(what: &str, ranking: &Ranking, out: &mut String) {
    let points = &ranking.concentration;
    let (Some(last), true) = (points.last(), points.len() > 2) else {
        return;
    };
    let x = |first: u64| (first as f64).ln() / (last.first as f64).ln() * 400.0;
    let curve = |value: &dyn Fn(usize) -> f64| {
        let mut path = String::new();
        for (at, point) in points.iter().enumerate() {
            let step = if at == 0 { 'M' } else { 'L' };
            let _ = write!(
                path,
                "{step}{:.1} {:.2}",
                x(point.first),
                HEIGHT - value(at) * HEIGHT
            );
        }
        path
    };
    let _ = write!(
        out,
        "<figure class=\"curve\"><figcaption><b>Share of the busiest {what}</b><span class=\"key\"><i class=\"median\"></i>operations</span>\
         <span class=\"key\"><i class=\"upper\"></i>bytes</span></figcaption><div class=\"plot\"><div class=\"y\"><span>100 %</span><span>50 %</span><span>0</span></div>\
         <svg viewBox=\"0 0 400 {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"concentration\">\
         <path class=\"grid\" d=\"M0 0H400M0 50H400M0 {HEIGHT}H400\"/>\
         <path class=\"line upper\" d=\"{}\"/><path class=\"line median\" d=\"{}\"/>",
        curve(&|at| points[at].bytes_share),
        curve(&|at| points[at].operations_share),
    );
    for pair in points.windows(2) {
        let [from, to] = pair else { continue };
        let _ = write!(
            out,
            "<rect class=\"tip\" x=\"{:.1}\" width=\"{:.1}\" height=\"{HEIGHT}\"><title>first {}: {} of operations, {} of bytes</title></rect>",
            x(from.first),
            x(to.first) - x(from.first),
            grouped(to.first),
            percent(to.operations_share),
            percent(to.bytes_share)
        );
    }
    // The middle of a logarithmic scale is the root.
    let middle = (last.first as f64).sqrt().round() as u64;
    let _ = write!(
        out,
        "</svg><div class=\"x\"><span>first 1</span><span>{}</span><span>{}</span></div></div></figure>",
        grouped(middle),
        grouped(last.first)
    );
}

fn ranking_table(title: &str, head: &str, list: &[Busy], out: &mut String) {
    let _ = write!(
        out,
        "<div><h3>{title}</h3><div class=\"table\"><table><thead><tr><th>{head}</th><th class=\"n\">Operations</th><th class=\"n\">Failed</th>\
         <th class=\"n\">Read</th><th class=\"n\">Written</th></tr></thead><tbody>"
    );
    for busy in list {
        let _ = write!(
            out,
            "<tr><th class=\"path\">{}</th><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            Text(&file_name(&busy.name, busy.file_id)),
            grouped(busy.operations),
            dash(busy.failed, grouped(busy.failed)),
            dash(busy.read_bytes, bytes(busy.read_bytes)),
            dash(busy.written_bytes, bytes(busy.written_bytes)),
        );
    }
    out.push_str("</tbody></table></div></div>");
}

fn errors(report: &Report, out: &mut String) {
    if report.errors.is_empty() {
        return;
    }
    let _ = write!(
        out,
        "<section><h2>Errors</h2><p class=\"quiet\">{} operations failed, {} of all.</p><div class=\"table\"><table><thead><tr><th>Operation</th><th>Status</th>\
         <th class=\"n\">Failed</th><th>Over time</th><th class=\"n\">First</th><th class=\"n\">Last</th></tr></thead><tbody>",
        grouped(report.totals.failed),
        percent(share(report.totals.failed, report.totals.operations))
    );
    let clock_of = |ns: Option<i64>| {
        ns.map_or_else(|| "–".to_owned(), |ns| clock(ns, report.over_time.step_ns))
    };
    for error in report.errors.iter().take(ROWS) {
        let _ = write!(
            out,
            "<tr><th>{} {}</th><td><code>{}</code></td><td class=\"n\">{}</td><td class=\"spark\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            Text(&error.program),
            Text(&error.operation),
            Text(&error.status),
            grouped(error.failed),
            spark(error),
            clock_of(error.first_ns),
            clock_of(error.last_ns),
        );
    }
    out.push_str("</tbody></table></div>");
    let further = { report.errors.iter().skip(ROWS) }
        .map(|error| error.failed)
        .sum::<u64>()
        + report.errors_not_listed;
    if further > 0 {
        let _ = write!(
            out,
            "<p class=\"quiet\">{} of other kinds.</p>",
            grouped(further)
        );
    }
    out.push_str("</section>\n");
}

fn spark(error: &ErrorCount) -> String {
    let most = error.over_time.iter().copied().max().unwrap_or(0).max(1);
    let mut path = String::new();
    for (at, &count) in error.over_time.iter().enumerate() {
        if count > 0 {
            // A single failure must still be seen.
            let height = (share(count, most) * HEIGHT).max(12.0);
            let _ = write!(path, "M{at} {HEIGHT}v-{height:.1}h1v{height:.1}z");
        }
    }
    format!(
        "<svg viewBox=\"0 0 {} {HEIGHT}\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><path class=\"failed\" d=\"{path}\"/></svg>",
        error.over_time.len().max(1)
    )
}

fn footer(report: &Report, out: &mut String) {
    let parameters = &report.parameters;
    let _ = writeln!(
        out,
        "<footer><p>Trace {}, schema {}, written by {}. Quantiles are within {} of the exact ones ({} over time); counts, sums, least and \
         most are exact. At most {} files and {} clients are told apart. The data of this page lie in it as JSON, in the element \
         <code>report</code>.</p></footer>",
        Text(&report.trace.trace_id),
        Text(&report.trace.schema_version),
        Text(&report.trace.tool),
        percent(parameters.quantile_error_share),
        percent(parameters.quantile_over_time_error_share),
        grouped(parameters.files_max),
        grouped(parameters.clients_max),
    );
}

const STYLE: &str = include_str!("report.css");

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
    fn scales_end_at_round_numbers() {
        assert_eq!(round_up(7_900.0, 1000.0), 10_000.0);
        assert_eq!(round_up(230.0, 1000.0), 250.0);
        assert_eq!(
            round_up(3.0 * 1024.0 * 1024.0, 1024.0),
            5.0 * 1024.0 * 1024.0
        );
        assert_eq!(round_up(600.0 * 1024.0, 1024.0), 1024.0 * 1024.0);
        assert!(round_up(0.001, 1000.0) >= 0.001);
        assert!(round_up(f64::MAX / 2.0, 1024.0).is_finite());
    }
}
