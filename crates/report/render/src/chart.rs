//! Values over time and shares of the first few, as drawings of the page.
//!
//! Drawings are SVG without text, stretched to the width there is; their labels are HTML beside
//! them.

use std::fmt::Write;

use lineside_words::{grouped, percent, time};

use crate::block::{Chart, Colour, Curve, Layer, Scale};
use crate::svg::{HEIGHT, Text, WIDTH, class, round_up};

/// Lines over an area are drawn up to this many times its greatest value.
const PEAK_MAX: f64 = 3.0;

/// A drawing in the width that there is, with its labels around it. Of `areas`, each is shown with
/// its text when a pointer rests on it: where it begins, how wide it is, and the text.
pub(crate) struct Figure<'a> {
    pub(crate) title: &'a str,
    /// The drawing in words, for readers that do not see it.
    pub(crate) summary: String,
    pub(crate) keys: Vec<(&'a str, Colour)>,
    pub(crate) width: f64,
    pub(crate) drawing: String,
    /// From the top, at equal distances: each has a line.
    pub(crate) y: Vec<String>,
    pub(crate) x: Vec<String>,
    /// Whether these are at equal distances, each with a line: else begin, middle and end.
    pub(crate) has_decades: bool,
    pub(crate) areas: Vec<(f64, f64, String)>,
    /// Of a drawing over time: how many steps it has, and when they end.
    pub(crate) steps: Option<(usize, String)>,
}

impl Figure<'_> {
    pub(crate) fn write(&self, out: &mut String) {
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

pub(crate) fn chart(chart: &Chart, out: &mut String) {
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
pub(crate) struct Decades {
    low: f64,
    high: f64,
}

impl Decades {
    pub(crate) fn of<'a>(times: impl Iterator<Item = &'a u64> + Clone) -> Self {
        let (least, most) = (times.clone().min().copied(), times.max().copied());
        let low = (least.unwrap_or(1).max(1) as f64).log10().floor();
        let high = (most.unwrap_or(1).max(2) as f64).log10().ceil();
        Self {
            low,
            high: high.max(low + 1.0),
        }
    }

    pub(crate) fn y(&self, ns: u64) -> f64 {
        HEIGHT - ((ns.max(1) as f64).log10() - self.low) / (self.high - self.low) * HEIGHT
    }

    /// From the top.
    pub(crate) fn labels(&self) -> Vec<String> {
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

/// The share of the first ones, this many, on a logarithmic scale.
pub(crate) fn curve(curve: &Curve, out: &mut String) {
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
        let first = grouped(points[at].first);
        let mut text = format!(
            "the first {first} by operations: {} of all operations; the first {first} by bytes: {} \
            of all bytes",
            percent(points[at].operations_share),
            percent(points[at].bytes_share)
        );
        if let Some(share) = points[at].waited_share {
            let share = percent(share);
            let _ = write!(
                text,
                "; the first {first} by waiting: {share} of all that clients waited"
            );
        }
        text
    };
    let areas = points.windows(2).enumerate().map(|(at, pair)| {
        let (from, to) = (x(pair[0].first), x(pair[1].first));
        (from, to - from, text(at + 1))
    });
    // The middle of a logarithmic scale is the root.
    let middle = (last.first as f64).sqrt().round() as u64;
    let mut drawing = line(Colour::Upper, &|at| points[at].bytes_share);
    let mut keys = vec![("operations", Colour::Median), ("bytes", Colour::Upper)];
    if last.waited_share.is_some() {
        keys.push(("waiting", Colour::Other));
        drawing += &line(Colour::Other, &|at| points[at].waited_share.unwrap_or(0.0));
    }
    drawing += &line(Colour::Median, &|at| points[at].operations_share);
    Figure {
        title: &curve.title,
        summary: format!("{}: {}", curve.title, text(0)),
        keys,
        width: WIDTH,
        drawing,
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

#[cfg(test)]
mod tests {
    use lineside_analyze::Zone;

    use super::*;

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
}
