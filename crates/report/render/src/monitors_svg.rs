//! Distributions and rates of monitors as drawings of the page: SVG without text, stretched to the
//! width that there is, with ticks beside it at their places.

use std::fmt::Write;

use lineside_analyze::share;
use lineside_words::{bytes, grouped, percent, time};

use crate::block::short;
use crate::monitored::{Histogram, Timeline, length, position, value};
use crate::svg::{HEIGHT, Text, WIDTH, capital, round_up};

/// The style of these drawings, for pages that have any.
pub(crate) const STYLE: &str = include_str!("monitors.css");

/// Height of a bar that must still be seen.
const SEEN: f64 = 1.5;

/// Ticks of an axis, at most.
const TICKS_MAX: usize = 8;

/// A place on the axis, from 0 to 1, and what it says.
type Tick = (f64, String);

struct Drawing {
    title: String,
    /// In words, for readers that do not see it.
    summary: String,
    /// What the classes of the style stand for.
    keys: Vec<(&'static str, String)>,
    drawing: String,
    y: [String; 3],
    ticks: Vec<Tick>,
    marks: Vec<Tick>,
    /// From where to where a text is shown when a pointer rests there, in the width.
    areas: Vec<(f64, f64, String)>,
}

impl Drawing {
    fn write(&self, out: &mut String) {
        let title = Text(&self.title);
        let _ = write!(out, "<figure class=\"monitor\"><figcaption><b>{title}</b>");
        for (class, name) in &self.keys {
            let name = Text(name);
            let _ = write!(
                out,
                "<span class=\"key\"><i class=\"{class}\"></i>{name}</span>"
            );
        }
        out.push_str("</figcaption><div class=\"plot\"><div class=\"y\" aria-hidden=\"true\">");
        for label in &self.y {
            let _ = write!(out, "<span>{}</span>", Text(label));
        }
        let half = HEIGHT / 2.0;
        let _ = write!(
            out,
            "</div><div class=\"drawn\"><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\"><path class=\"grid\" \
             d=\"M0 0h{WIDTH}M0 {half}h{WIDTH}M0 {HEIGHT}h{WIDTH}\"/>{}",
            Text(&self.summary),
            self.drawing
        );
        for (from, width, text) in &self.areas {
            let _ = write!(
                out,
                "<rect class=\"tip\" x=\"{from:.2}\" width=\"{width:.2}\" \
                height=\"{HEIGHT}\"><title>{}</title></rect>",
                Text(text)
            );
        }
        out.push_str("</svg>");
        for (at, label) in &self.marks {
            let (at, label) = (at * 100.0, Text(label));
            let _ = write!(
                out,
                "<span class=\"at\" style=\"left:{at:.2}%\">{label}</span>"
            );
        }
        out.push_str("</div><div class=\"ticks\" aria-hidden=\"true\">");
        for (number, (at, label)) in self.ticks.iter().enumerate() {
            let class = if number % 2 == 1 {
                " class=\"minor\""
            } else {
                ""
            };
            let (at, label) = (at * 100.0, Text(label));
            let _ = write!(out, "<span{class} style=\"left:{at:.2}%\">{label}</span>");
        }
        out.push_str("</div></div></figure>");
    }
}

/// A distribution: how dense values are, which share is no more, and two quantiles.
pub(crate) fn histogram(histogram: &Histogram, out: &mut String) {
    let of = &histogram.distribution;
    let (from, to) = histogram.span();
    // A single bin is not drawn as wide as the page.
    let margin = ((2.0 - (to - from)) / 2.0).max(0.0);
    let (from, to) = (from - margin, to + margin);
    let x = |position: f64| (position - from) / (to - from) * WIDTH;
    let (mut drawing, areas) = bars(histogram, x);
    let quantiles = [("median", "p50", of.p50), ("failed", "p99", of.p99)];
    for (class, _, quantile) in quantiles {
        let at = x(position(quantile as f64 + 1.0));
        let _ = write!(
            drawing,
            "<path class=\"quantile {class}\" d=\"M{at:.2} 0v{HEIGHT}\"/>"
        );
    }
    let quantile_keys = quantiles
        .map(|(class, name, quantile)| (class, format!("{name} {}", value(quantile, of.unit))));
    let mut keys = vec![
        ("read", "how many".to_owned()),
        ("upper", "share that is no more".to_owned()),
    ];
    keys.extend(quantile_keys.clone());
    Drawing {
        title: format!(
            "{}: {} values",
            capital(&histogram.title),
            grouped(of.count)
        ),
        summary: format!(
            "{} on a logarithmic scale from {} to {}: {}",
            histogram.title,
            value(of.min, of.unit),
            value(of.max, of.unit),
            quantile_keys.map(|(_, text)| text).join(", ")
        ),
        keys,
        drawing,
        y: ["100 %", "50 %", "0"].map(str::to_owned),
        ticks: ticks_of_values(from, to, of.unit),
        marks: Vec::new(),
        areas,
    }
    .write(out);
}

/// The bars, the line of the shares that are no more, and what a pointer shows on each.
fn bars(histogram: &Histogram, x: impl Fn(f64) -> f64) -> (String, Vec<(f64, f64, String)>) {
    let of = &histogram.distribution;
    let densest = { histogram.densities() }.map(|(_, _, density)| density);
    let densest = densest.fold(f64::MIN_POSITIVE, f64::max);
    let (mut path, mut line) = (String::new(), format!("M0 {HEIGHT}"));
    let (mut areas, mut below) = (Vec::new(), 0u64);
    for ((low, high, density), bin) in histogram.densities().zip(&of.bins) {
        let (left, right) = (x(low), x(high));
        let height = (density / densest * HEIGHT).max(SEEN);
        let _ = write!(
            path,
            "M{left:.2} {HEIGHT}v-{height:.2}H{right:.2}v{height:.2}z"
        );
        below = below.saturating_add(bin.count);
        let up_to = HEIGHT - share(below, of.count) * HEIGHT;
        let _ = write!(line, "H{left:.2}L{right:.2} {up_to:.2}");
        let range = match bin.from == bin.to {
            true => value(bin.to, of.unit),
            false => format!("{} to {}", value(bin.from, of.unit), value(bin.to, of.unit)),
        };
        let text = format!(
            "{range}: {} ({}), {} are no more",
            grouped(bin.count),
            percent(share(bin.count, of.count)),
            percent(share(below, of.count))
        );
        areas.push((left, right - left, text));
    }
    let _ = write!(line, "H{WIDTH}");
    let drawing =
        format!("<path class=\"read\" d=\"{path}\"/><path class=\"line upper\" d=\"{line}\"/>");
    (drawing, areas)
}

/// Round values between two positions.
fn ticks_of_values(from: f64, to: f64, unit: &str) -> Vec<Tick> {
    let at = |number: f64| (position(number) - from) / (to - from);
    let text = |number: f64| match (unit, number as u64) {
        (_, 0) => "0".to_owned(),
        ("ns", ns) => length(ns),
        ("bytes", number @ 0..1_024) => format!("{number} B"),
        ("bytes", number) => bytes(number).replace(".0 ", " "),
        (_, number) => short(number as f64),
    };
    let candidates: Vec<Vec<f64>> = match unit {
        "bytes" => [1, 2, 4, 5, 10, 20]
            .map(|step| {
                (0..64)
                    .step_by(step)
                    .map(|power| 2f64.powi(power))
                    .collect()
            })
            .to_vec(),
        _ => {
            let decades = |digits: &'static [f64], step: usize| {
                let decades = (0..20).step_by(step);
                decades
                    .flat_map(|decade| digits.iter().map(move |digit| digit * 10f64.powi(decade)))
                    .collect()
            };
            vec![
                decades(&[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0], 1),
                decades(&[1.0, 2.0, 5.0], 1),
                decades(&[1.0, 3.0], 1),
                decades(&[1.0], 1),
                decades(&[1.0], 2),
                decades(&[1.0], 3),
                decades(&[1.0], 6),
            ]
        }
    };
    let shown = candidates.into_iter().map(|numbers| {
        let ticks = numbers.into_iter().map(|number| (at(number), text(number)));
        let ticks = ticks.filter(|(at, _)| (0.0..=1.0).contains(at));
        // What is counted is whole: 1.2 of it reads 1.
        let mut ticks: Vec<Tick> = ticks.collect();
        ticks.dedup_by(|next, last| next.1 == last.1);
        ticks
    });
    let mut shown = shown.filter(|ticks| ticks.len() <= TICKS_MAX);
    shown.next().unwrap_or_default()
}

/// A rate over time: an area up to the mean, and a line at the busiest windows.
pub(crate) fn timeline(timeline: &Timeline, out: &mut String) {
    let most = timeline.most.iter().copied().fold(1.0, f64::max);
    let top = round_up(most, 1_000.0);
    let y = |rate: f64| HEIGHT - rate / top * HEIGHT;
    let after = |share: f64| {
        let begin = i128::from(timeline.from_ns) - i128::from(timeline.begin_ns);
        begin as f64 + share * timeline.span_ns() as f64
    };
    let step = length(timeline.step_ns);
    let window = length(timeline.window_ns);
    let (mut area, mut line, mut areas) = (String::new(), String::new(), Vec::new());
    let rates = timeline.means.iter().zip(&timeline.most);
    let steps = timeline
        .steps()
        .zip(rates)
        .filter(|((from, to), _)| to > from);
    for ((from, to), (&mean, &busiest)) in steps {
        let (left, right) = (from * WIDTH, to * WIDTH);
        if mean > 0.0 {
            let up_to = y(mean).min(HEIGHT - SEEN);
            let _ = write!(area, "M{left:.2} {HEIGHT}V{up_to:.2}H{right:.2}V{HEIGHT}z");
        }
        let move_or_line = if line.is_empty() { 'M' } else { 'L' };
        let _ = write!(
            line,
            "{move_or_line}{left:.2} {0:.2}H{right:.2}",
            y(busiest)
        );
        let mut text = format!("{}: mean {}", clock(after(from)), timeline.text(mean));
        if timeline.is_joined() {
            let _ = write!(text, ", busiest {window} {}", timeline.text(busiest));
        }
        areas.push((left, right - left, text));
    }
    let mut keys = vec![("read", format!("mean of {step}"))];
    let mut drawing = format!("<path class=\"read\" d=\"{area}\"/>");
    if timeline.is_joined() {
        keys.push(("upper", format!("busiest {window} of them")));
        let _ = write!(drawing, "<path class=\"line upper\" d=\"{line}\"/>");
    }
    let marks = marks(timeline, &mut drawing);
    if !marks.is_empty() {
        keys.push(("event", "events".to_owned()));
    }
    let half = timeline.text(top / 2.0);
    Drawing {
        title: timeline.title.clone(),
        summary: format!(
            "{} over {}, in steps of {step}: up to {} in {window}",
            timeline.title,
            time(timeline.span_ns()),
            timeline.text(most)
        ),
        keys,
        drawing,
        y: [timeline.text(top), half, "0".to_owned()],
        ticks: ticks_of_times(after(0.0), after(1.0)),
        marks,
        areas,
    }
    .write(out);
}

/// A line for each event, and its number where there is room.
fn marks(timeline: &Timeline, drawing: &mut String) -> Vec<Tick> {
    let mut marks: Vec<Tick> = Vec::new();
    let mut path = String::new();
    for &(number, ns) in &timeline.marks {
        let share = timeline.share(ns);
        if !(0.0..=1.0).contains(&share) {
            continue;
        }
        let _ = write!(path, "M{:.2} 0v{HEIGHT}", share * WIDTH);
        let is_free = marks.last().is_none_or(|(last, _)| share - last > 0.035);
        if is_free {
            marks.push((share, number.to_string()));
        }
    }
    if !path.is_empty() {
        let _ = write!(drawing, "<path class=\"event\" d=\"{path}\"/>");
    }
    marks
}

/// A time from the begin, as exact as an axis of it is.
fn clock(ns: f64) -> String {
    let sign = if ns < 0.0 { "-" } else { "" };
    format!("{sign}{}", time(ns.abs().round() as u64))
}

const SECOND: f64 = 1e9;
const MINUTE: f64 = 60.0 * SECOND;
const HOUR: f64 = 60.0 * MINUTE;

/// Round times between two.
fn ticks_of_times(from: f64, to: f64) -> Vec<Tick> {
    let below_a_minute =
        (0..11).flat_map(|power| [1.0, 2.0, 5.0].map(|one| one * 10f64.powi(power)));
    let below_a_minute = below_a_minute.filter(|step| *step < MINUTE);
    let minutes = [1.0, 2.0, 5.0, 10.0, 20.0, 30.0].map(|minutes| minutes * MINUTE);
    let hours = [1.0, 2.0, 4.0, 6.0, 12.0, 24.0].map(|hours| hours * HOUR);
    let days = (1..16)
        .flat_map(|power| [2.0, 5.0, 10.0].map(|one| one * 24.0 * HOUR * 10f64.powi(power - 1)));
    let mut steps = below_a_minute.chain(minutes).chain(hours).chain(days);
    let is_enough = |step: &f64| (to - from) / step <= TICKS_MAX as f64 - 1.0;
    let Some(step) = steps.find(is_enough) else {
        return Vec::new();
    };
    let (unit, name) = match step {
        step if step < 1e3 => (1.0, "ns"),
        step if step < 1e6 => (1e3, "us"),
        step if step < SECOND => (1e6, "ms"),
        step if step < MINUTE => (SECOND, "s"),
        step if step < HOUR => (MINUTE, "min"),
        _ => (HOUR, "h"),
    };
    let first = (from / step).ceil() as i64;
    let last = (to / step).floor() as i64;
    let ticks = (first..=last).map(|number| {
        let ns = number as f64 * step;
        (
            (ns - from) / (to - from),
            format!("{} {name}", (ns / unit).round()),
        )
    });
    ticks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        let texts = |ticks: Vec<Tick>| {
            let texts = ticks.into_iter().map(|(_, text)| text);
            texts.collect::<Vec<_>>().join(", ")
        };
        for (from, to, expected) in [
            (0.0, 10.0 * SECOND, "0 s, 2 s, 4 s, 6 s, 8 s, 10 s"),
            (-1e6, 5e6, "-1 ms, 0 ms, 1 ms, 2 ms, 3 ms, 4 ms, 5 ms"),
            (
                0.0,
                25.0 * MINUTE,
                "0 min, 5 min, 10 min, 15 min, 20 min, 25 min",
            ),
            (
                0.0,
                3.0 * HOUR,
                "0 min, 30 min, 60 min, 90 min, 120 min, 150 min, 180 min",
            ),
        ] {
            assert_eq!(texts(ticks_of_times(from, to)), expected);
        }
        for (from, to, unit, expected) in [
            (60.0, 1_518.0, "bytes", "64 B, 128 B, 256 B, 512 B, 1 KiB"),
            (
                900.0,
                2.5e9,
                "ns",
                "1 us, 10 us, 100 us, 1 ms, 10 ms, 100 ms, 1 s",
            ),
            (1e4, 3e4, "ns", "10 us, 12 us, 15 us, 20 us, 25 us, 30 us"),
            (0.5, 4.0, "packets", "1, 2, 3, 4"),
        ] {
            let (from, to): (f64, f64) = (from, to);
            let found = texts(ticks_of_values(from.log2(), to.log2(), unit));
            assert_eq!(found, expected);
        }
    }
}
