//! Cuts: a metric over one axis, a line for some values of the others, with the intervals of its
//! medians as a band, and the law that it follows as a broken line.

use std::fmt::Write;

use crate::block::{CutLine, Cuts, LINES_MAX, short};
use crate::points::{Metric, Value};
use crate::scale::{Scale, labels, places};
use crate::svg::{HEIGHT, Text, WIDTH};

impl CutLine {
    fn known(&self) -> impl Iterator<Item = (usize, Value)> + Clone + '_ {
        let values = self.values.iter().enumerate();
        values.filter_map(|(at, value)| Some((at, (*value)?)))
    }
}

impl Cuts {
    /// In the order of their places.
    fn order(&self, places: &[f64]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_by(|one, other| places[*one].total_cmp(&places[*other]));
        order
    }

    fn scale(&self) -> Scale {
        let of = |value: Value| {
            let (low, high) = value.interval.unwrap_or((value.value, value.value));
            [value.value, low, high]
        };
        let values = self.lines.iter().flat_map(CutLine::known);
        Scale::of_values(values.flat_map(move |(_, value)| of(value)))
    }

    /// What was found at a value of the axis.
    fn tip(&self, at: usize) -> String {
        let texts = self.lines.iter().filter_map(|line| {
            let value = (*line.values.get(at)?)?;
            let text = self.metric.text(value.value);
            let interval = value.interval.map_or_else(String::new, |(low, high)| {
                let [low, high] = [low, high].map(|it| self.metric.text(it));
                format!(" ({low} to {high})")
            });
            let name = match line.name.as_str() {
                "" => String::new(),
                name => format!("{name}: "),
            };
            Some(format!("{name}{text}{interval}"))
        });
        let texts: Vec<_> = texts.collect();
        let value = self.axis.values.get(at).map_or("", String::as_str);
        match texts.is_empty() {
            true => format!("{}={value}: not measured", self.axis.name),
            false => format!("{}={value}: {}", self.axis.name, texts.join("; ")),
        }
    }

    /// Writes it for a page.
    pub(crate) fn write(&self, out: &mut String) {
        let places = places(&self.axis);
        let order = self.order(&places);
        let scale = self.scale();
        let x = |at: usize| places[at] * WIDTH;
        let y = |value: f64| HEIGHT - scale.at(value) * HEIGHT;
        let over = self.axis.numbers.as_ref().map(|numbers| {
            let between = Scale::between(numbers.iter().copied());
            move |value: f64| between.at(value) * WIDTH
        });
        let mut drawing = String::new();
        for (number, line) in self.lines.iter().enumerate() {
            let class = format!("c{}", number % LINES_MAX);
            let known = order.iter().filter_map(|at| Some((*at, line.values[*at]?)));
            let known: Vec<(usize, Value)> = known.collect();
            // What has no order is joined by no line.
            if over.is_some() {
                let _ = write!(drawing, "<path class=\"band {class}\" d=\"");
                band(&known, x, y, &mut drawing);
                let _ = write!(drawing, "\"/><path class=\"line {class}\" d=\"");
                let mut before = None;
                for (at, value) in &known {
                    let is_next = before.is_some_and(|before| follows(&order, before, *at));
                    let step = if is_next { 'L' } else { 'M' };
                    let _ = write!(drawing, "{step}{:.2} {:.2}", x(*at), y(value.value));
                    before = Some(*at);
                }
                drawing.push_str("\"/>");
            }
            let _ = write!(drawing, "<path class=\"dot {class}\" d=\"");
            for (at, value) in &known {
                let _ = write!(drawing, "M{:.2} {:.2}h0", x(*at), y(value.value));
            }
            drawing.push_str("\"/>");
            if over.is_none() {
                let _ = write!(drawing, "<path class=\"line {class}\" d=\"");
                for (at, value) in &known {
                    if let Some((low, high)) = value.interval {
                        let _ = write!(drawing, "M{:.2} {:.2}V{:.2}", x(*at), y(low), y(high));
                    }
                }
                drawing.push_str("\"/>");
            }
            if let (Some(over), false) = (&over, line.law.is_empty()) {
                let _ = write!(drawing, "<path class=\"law {class}\" d=\"");
                for (at, (value, found)) in line.law.iter().enumerate() {
                    let step = if at == 0 { 'M' } else { 'L' };
                    let _ = write!(drawing, "{step}{:.2} {:.2}", over(*value), y(*found));
                }
                drawing.push_str("\"/>");
            }
        }
        let keys: Vec<&str> = self.lines.iter().map(|line| line.name.as_str()).collect();
        let has_law = self.lines.iter().any(|line| !line.law.is_empty());
        let frame = Frame {
            title: &self.title,
            summary: self.summary(&order),
            keys: &keys,
            note: if has_law { "broken: the law" } else { "" },
            drawing,
            x_name: &self.axis.name,
            x: labels(&self.axis),
            y: { scale.ticks().into_iter() }
                .map(|at| (scale.at(at), tick(&self.metric, at)))
                .collect(),
            tips: tips(&places, &order, |at| self.tip(at)),
            marks: Vec::new(),
            rest: &self.rest,
        };
        frame.write(out);
    }

    /// The drawing in words, for readers that do not see it: its two ends.
    fn summary(&self, order: &[usize]) -> String {
        let ends = match (order.first(), order.last()) {
            (Some(first), Some(last)) if first != last => vec![*first, *last],
            (first, _) => first.copied().into_iter().collect(),
        };
        let tips: Vec<_> = ends.into_iter().map(|at| self.tip(at)).collect();
        format!("{}. {}", self.title, tips.join(". "))
    }
}

/// A value along an edge, whose title has the unit.
pub(crate) fn tick(metric: &Metric, value: f64) -> String {
    match metric.is_time() {
        true => metric.text(value),
        false if value.abs() >= 1e12 => format!("{value:.1e}"),
        false => short(value),
    }
}

/// Whether one value of an axis comes right after another.
fn follows(order: &[usize], before: usize, at: usize) -> bool {
    let place = |at: usize| order.iter().position(|each| *each == at);
    place(before).is_some_and(|place| order.get(place + 1) == Some(&at))
}

/// A part for each two neighbours that have an interval.
fn band(
    known: &[(usize, Value)],
    x: impl Fn(usize) -> f64,
    y: impl Fn(f64) -> f64,
    out: &mut String,
) {
    for pair in known.windows(2) {
        let [(one, first), (other, second)] = pair else {
            continue;
        };
        if let (Some((low, high)), Some((its_low, its_high))) = (first.interval, second.interval) {
            let (from, to) = (x(*one), x(*other));
            let _ = write!(
                out,
                "M{from:.2} {:.2}L{to:.2} {:.2}V{:.2}L{from:.2} {:.2}z",
                y(low),
                y(its_low),
                y(its_high),
                y(high)
            );
        }
    }
}

/// An area for each value, half way to its neighbours: where it begins, its width, its text.
fn tips(
    places: &[f64],
    order: &[usize],
    text: impl Fn(usize) -> String,
) -> Vec<(f64, f64, f64, f64, String)> {
    spans(places, order)
        .into_iter()
        .map(|(at, from, to)| (from * WIDTH, 0.0, (to - from) * WIDTH, HEIGHT, text(at)))
        .collect()
}

/// For each value how far it is nearer than its neighbours.
pub(crate) fn spans(places: &[f64], order: &[usize]) -> Vec<(usize, f64, f64)> {
    let middle = |one: usize, other: usize| (places[one] + places[other]) / 2.0;
    let each = order.iter().enumerate().map(|(rank, at)| {
        let before = rank.checked_sub(1).and_then(|rank| order.get(rank));
        let from = before.map_or(0.0, |before| middle(*before, *at));
        let to = order.get(rank + 1).map_or(1.0, |next| middle(*at, *next));
        (*at, from, to)
    });
    each.collect()
}

/// What is around a drawing. Its labels are HTML beside it, as those of all drawings.
pub(crate) struct Frame<'a> {
    pub(crate) title: &'a str,
    pub(crate) summary: String,
    pub(crate) keys: &'a [&'a str],
    /// Beside the keys; may be empty.
    pub(crate) note: &'a str,
    pub(crate) drawing: String,
    pub(crate) x_name: &'a str,
    /// Places from 0, at the left, to 1.
    pub(crate) x: Vec<(f64, &'a str)>,
    /// Places from 0, below, to 1.
    pub(crate) y: Vec<(f64, String)>,
    /// Left, top, width, height and text.
    pub(crate) tips: Vec<(f64, f64, f64, f64, String)>,
    /// Texts in the drawing.
    pub(crate) marks: Vec<(f64, f64, String)>,
    /// Below it; may be empty.
    pub(crate) rest: &'a str,
}

impl Frame<'_> {
    pub(crate) fn write(&self, out: &mut String) {
        let _ = write!(out, "<figure><figcaption><b>{}</b>", Text(self.title));
        let named = self.keys.iter().enumerate();
        for (number, name) in named.filter(|(_, name)| !name.is_empty()) {
            let _ = write!(
                out,
                "<span class=\"key\"><i class=\"c{}\"></i>{}</span>",
                number % LINES_MAX,
                Text(name)
            );
        }
        if !self.note.is_empty() {
            let _ = write!(out, "<span class=\"key\">{}</span>", Text(self.note));
        }
        out.push_str("</figcaption><div class=\"plot\"><div class=\"y at\" aria-hidden=\"true\">");
        let mut grid = String::new();
        for (at, label) in &self.y {
            let top = (1.0 - at) * 100.0;
            let _ = write!(out, "<span style=\"top:{top:.1}%\">{}</span>", Text(label));
            let _ = write!(grid, "M0 {:.2}h{WIDTH}", (1.0 - at) * HEIGHT);
        }
        for (at, _) in &self.x {
            let _ = write!(grid, "M{:.2} 0v{HEIGHT}", at * WIDTH);
        }
        let _ = write!(
            out,
            "</div><div class=\"field\"><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\"><path class=\"grid\" \
             d=\"{grid}\"/>{}",
            Text(&self.summary),
            self.drawing
        );
        for (left, top, width, height, text) in &self.tips {
            let _ = write!(
                out,
                "<rect class=\"tip\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
                 height=\"{height:.1}\"><title>{}</title></rect>",
                Text(text)
            );
        }
        out.push_str("</svg>");
        for (x, y, text) in &self.marks {
            let _ = write!(
                out,
                "<span class=\"mark\" style=\"left:{:.1}%;top:{:.1}%\" aria-hidden=\"true\">{}</span>",
                (x * 100.0).clamp(8.0, 92.0),
                ((1.0 - y) * 100.0).clamp(4.0, 96.0),
                Text(text)
            );
        }
        out.push_str("</div><div class=\"x placed\" aria-hidden=\"true\">");
        for (at, label) in &self.x {
            let _ = write!(
                out,
                "<span style=\"left:{:.2}%\">{}</span>",
                at * 100.0,
                Text(label)
            );
        }
        let _ = write!(
            out,
            "</div><div class=\"over\" aria-hidden=\"true\">{}</div></div>",
            Text(self.x_name)
        );
        if !self.rest.is_empty() {
            let _ = write!(out, "<p class=\"quiet\">{}</p>", Text(self.rest));
        }
        out.push_str("</figure>");
    }
}
