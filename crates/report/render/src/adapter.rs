//! The adapter of the payload-caching paper: its figures beside the paper's, and its counts.

use std::fmt::Write;

use lineside_payload::figures::{Cell, Curve, Figure, Tolerance};
use lineside_payload::patterns::PatternOutcome;
use lineside_payload::{AdapterCounters, Parameters};
use lineside_words::grouped;

/// Columns and rows of a drawing.
const WIDTH: usize = 64;
const HEIGHT: usize = 14;
/// The signs of the curves.
const SIGNS: [char; 9] = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'];

/// A figure as a table beside the paper's, with a drawing.
pub fn figure_text(figure: &Figure) -> String {
    let mut out = format!("{}: {}\n", heading(figure), figure.title);
    if !figure.cells.is_empty() {
        let widest = { figure.cells.iter() }.map(|cell| cell.name.len()).max();
        let widest = widest.unwrap_or(0);
        let _ = writeln!(
            out,
            "\n{:widest$} {:>9} {:>9} {:>10}",
            "", "ours", "paper", "deviation"
        );
        for cell in &figure.cells {
            let _ = writeln!(out, "{:widest$} {}", cell.name, numbers(cell));
        }
        let judged = { figure.cells.iter() }.filter_map(Cell::is_met);
        let missed = judged.clone().filter(|is_met| !is_met).count();
        let _ = writeln!(out, "\n{missed} of {} numbers missed", judged.count());
    }
    if !figure.queues.is_empty() {
        let _ = writeln!(out);
    }
    for sample in &figure.queues {
        let bar = |sign: &str, count: usize| sign.repeat(count);
        let queues = [
            bar("u", sample.unbound),
            bar("v", sample.victim),
            bar("p", sample.priority),
            bar("*", sample.pending),
        ];
        let _ = writeln!(out, "{}  {}", queues.concat(), sample.after);
    }
    if !figure.queues.is_empty() {
        let _ = writeln!(out, "u unbound, v victim, p priority, * pending");
    }
    if !figure.curves.is_empty() {
        out += &drawing(figure);
    }
    let _ = writeln!(out);
    for note in &figure.notes {
        let _ = writeln!(out, "* {note}");
    }
    out + &machine(&figure.parameters)
}

fn heading(figure: &Figure) -> String {
    let kind = if figure.number == 2 {
        "table"
    } else {
        "figure"
    };
    format!("{kind} {}", figure.number)
}

fn numbers(cell: &Cell) -> String {
    let precision = if cell.ours.abs() < 1.0 { 3 } else { 1 };
    let ours = format!("{:.precision$}", cell.ours);
    let Some(paper) = cell.paper else {
        return format!("{ours:>9} {:>9} {:>10}  {}", "-", "", cell.unit);
    };
    let is_bound = matches!(cell.tolerance, Tolerance::AtLeast | Tolerance::AtMost);
    let deviation = match paper {
        _ if is_bound => String::new(),
        _ => format!("{:+.1} %", 100.0 * (cell.ours / paper - 1.0)),
    };
    let bound = match cell.tolerance {
        Tolerance::AtLeast => "≥ ",
        Tolerance::AtMost => "≤ ",
        _ => "",
    };
    let missed = match cell.is_met() {
        Some(false) => "  missed",
        _ => "",
    };
    let paper = format!("{bound}{paper}");
    format!(
        "{ours:>9} {paper:>9} {deviation:>10}  {}{missed}",
        cell.unit
    )
}

/// Both axes' ends.
fn ends(curves: &[Curve]) -> [f64; 4] {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let x_min = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let x_max = points().map(|point| point.0).fold(0.0, f64::max);
    let y_max = points().map(|point| point.1).fold(0.0, f64::max);
    [x_min, x_max.max(x_min + 1.0), 0.0, y_max.max(1.0)]
}

fn drawing(figure: &Figure) -> String {
    let [x_min, x_max, _, y_max] = ends(&figure.curves);
    let mut rows = vec![vec![' '; WIDTH]; HEIGHT];
    for (curve, sign) in figure.curves.iter().zip(SIGNS) {
        for (x, y) in &curve.points {
            let column = (x - x_min) / (x_max - x_min) * (WIDTH - 1) as f64;
            let row = (1.0 - y / y_max) * (HEIGHT - 1) as f64;
            let row = &mut rows[(row.round() as usize).min(HEIGHT - 1)];
            row[(column.round() as usize).min(WIDTH - 1)] = sign;
        }
    }
    let mut out = format!("\n{}\n", figure.axes[1]);
    for (number, row) in rows.iter().enumerate() {
        let label = match number {
            0 => format!("{y_max:.0}"),
            _ if number == HEIGHT - 1 => "0".to_owned(),
            _ => String::new(),
        };
        let row: String = row.iter().collect();
        let _ = writeln!(out, "{label:>6} │{}", row.trim_end());
    }
    let _ = writeln!(out, "       └{}", "─".repeat(WIDTH));
    let (from, to) = (format!("{x_min:.0}"), format!("{x_max:.0}"));
    let between = WIDTH.saturating_sub(from.len());
    let _ = writeln!(out, "        {from}{to:>between$}  {}", figure.axes[0]);
    for (curve, sign) in figure.curves.iter().zip(SIGNS) {
        let _ = writeln!(out, "        {sign} {}", curve.name);
    }
    out
}

/// The machine in a line.
fn machine(parameters: &Parameters) -> String {
    format!(
        "machine: link {} MB/s, bus {} (alone {}), CPU {} us an interrupt, {} + {} a packet,\n\
        {} a further page, {} % of it lost to the bus, input queue {}, {} pages posted \
        of {}\n",
        parameters.link_bytes_per_s / 1_000_000,
        parameters.bus_bytes_per_s / 1_000_000,
        parameters.lone_bus_bytes_per_s / 1_000_000,
        parameters.interrupt_ns as f64 / 1e3,
        parameters.interrupt_packet_ns as f64 / 1e3,
        parameters.thread_ns as f64 / 1e3,
        parameters.page_ns as f64 / 1e3,
        parameters.stolen_permille as f64 / 10.0,
        parameters.input_queue_max,
        parameters.posted_pages,
        parameters.pool_pages,
    )
}

/// What the adapter did with a flow.
pub fn flow_text(parameters: &Parameters, counters: &AdapterCounters) -> String {
    let mut out = format!(
        "{}, cache {} bytes\n",
        parameters.mode.name(),
        grouped(parameters.cache_bytes)
    );
    let drops = counters.dropped;
    let _ = writeln!(out, "delivered    {:.1} MB/s", counters.left_mb_per_s());
    let _ = writeln!(
        out,
        "packets      {} came, {} left",
        counters.came, counters.left
    );
    let _ = writeln!(
        out,
        "dropped      {} input queue, {} missed payload, {} before the link",
        drops.input_queue, drops.missed, drops.waiting
    );
    let _ = writeln!(out, "hits         {:.1} %", 100.0 * counters.hit_rate());
    let queue = (counters.queued_mean(), counters.queued_max);
    let _ = writeln!(
        out,
        "queue        {:.1} packets, at most {}",
        queue.0, queue.1
    );
    let _ = writeln!(
        out,
        "bus          {} bytes to the host, {} back, {} spilled",
        grouped(counters.received_bytes),
        grouped(counters.sent_bytes),
        grouped(counters.spilled_bytes)
    );
    let _ = writeln!(
        out,
        "CPU          {:.0} %",
        100.0 * counters.processor_share()
    );
    out + &machine(parameters)
}

/// What a pattern of use does to the cache.
pub fn pattern_text(outcome: &PatternOutcome) -> String {
    let mut out = format!("{}: {}\n", outcome.name, outcome.what);
    let _ = writeln!(out, "cache        {} entries of 4 KiB", outcome.entries);
    let counters = outcome.cache;
    let _ = writeln!(
        out,
        "sends        {} hits, {} misses",
        counters.hits, counters.misses
    );
    let _ = writeln!(out, "hits         {:.1} %", 100.0 * outcome.hit_rate());
    let _ = writeln!(out, "invalidated  {}", counters.invalidated);
    let _ = writeln!(
        out,
        "evicted      {} sent, {} not yet sent",
        counters.evicted_victim, counters.evicted_priority
    );
    let _ = writeln!(
        out,
        "bus          {} pages, {} without a cache",
        outcome.crossings, outcome.crossings_without
    );
    out
}

/// The same figure as a page.
pub fn figure_html(figure: &Figure) -> String {
    const COLOURS: [&str; 9] = [
        "#1b6ca8", "#c8553d", "#3a7d44", "#7b4b94", "#b8860b", "#0f7173", "#8b1e3f", "#555",
        "#d1495b",
    ];
    let [x_min, x_max, _, y_max] = ends(&figure.curves);
    let place = |&(x, y): &(f64, f64)| {
        let x = 60.0 + 560.0 * (x - x_min) / (x_max - x_min);
        (x, 320.0 - 300.0 * y / y_max)
    };
    let mut lines = String::new();
    for (number, (curve, colour)) in figure.curves.iter().zip(COLOURS).enumerate() {
        let points = curve.points.iter().map(|point| {
            let (x, y) = place(point);
            format!("{x:.1},{y:.1}")
        });
        let points: Vec<_> = points.collect();
        let _ = writeln!(
            lines,
            "<polyline fill='none' stroke='{colour}' stroke-width='2' points='{}'/>\
            <text x='640' y='{}' fill='{colour}'>{}</text>",
            points.join(" "),
            30 + 18 * number,
            curve.name
        );
        for point in paper_marks(figure, curve) {
            let (x, y) = place(&point);
            let _ = writeln!(
                lines,
                "<circle cx='{x:.1}' cy='{y:.1}' r='5' fill='none' stroke='{colour}' \
                stroke-width='2'/>"
            );
        }
    }
    if !figure.curves.is_empty() {
        lines += &axes(figure, [x_min, x_max, y_max]);
    }
    let mut text = figure_text(figure);
    for (sign, name) in [("&", "&amp;"), ("<", "&lt;")] {
        text = text.replace(sign, name);
    }
    format!(
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>{heading}</title>\
        <h1>{heading}: {title}</h1><svg viewBox='0 0 860 360' width='860' \
        font-family='sans-serif' font-size='13'>\
        {lines}</svg><pre>{text}</pre></html>\n",
        heading = heading(figure),
        title = figure.title,
    )
}

/// The paper's numbers of a curve, each where ours is.
fn paper_marks(figure: &Figure, curve: &Curve) -> Vec<(f64, f64)> {
    let cells = { figure.cells.iter() }
        .filter(|cell| cell.name.contains(&curve.name) && figure.axes[1].contains(cell.unit));
    let marks = cells.filter_map(|cell| {
        let at = curve.points.iter().rfind(|point| point.1 == cell.ours)?;
        Some((at.0, cell.paper?))
    });
    marks.collect()
}

/// Axes with five parts each, and what they are.
fn axes(figure: &Figure, [x_min, x_max, y_max]: [f64; 3]) -> String {
    let mut out = String::from("<path d='M60 20V320H620' fill='none' stroke='#888'/>");
    for part in 0..=5 {
        let share = f64::from(part) / 5.0;
        let (x, y) = (60.0 + 560.0 * share, 320.0 - 300.0 * share);
        let _ = writeln!(
            out,
            "<path d='M{x} 320v5M55 {y}h5' stroke='#888'/>\
            <text x='{x}' y='340' text-anchor='middle'>{:.0}</text>\
            <text x='50' y='{}' text-anchor='end'>{:.0}</text>",
            x_min + (x_max - x_min) * share,
            y + 4.0,
            y_max * share
        );
    }
    let _ = writeln!(
        out,
        "<text x='10' y='12'>{}</text><text x='340' y='357' text-anchor='middle'>{}</text>\
        <text x='640' y='318'>lines: ours; rings: the paper's</text>",
        figure.axes[1], figure.axes[0]
    );
    out
}
