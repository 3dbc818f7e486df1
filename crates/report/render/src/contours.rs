//! Contours: where a metric is equal, over two axes of numbers. What lies above a contour is
//! shaded, the more the higher; between points the metric is taken for even.

use std::fmt::Write;

use crate::block::Contours;
use crate::cuts::{Frame, spans, tick};
use crate::scale::{labels, places};
use crate::svg::{HEIGHT, WIDTH};

/// Contours of a drawing, at most.
const LEVELS_MAX: usize = 7;

/// Points that are marked.
const NODES_MAX: usize = 400;

/// A corner: where it lies, from 0 to 1, and what was found there.
type Corner = [f64; 3];

impl Contours {
    fn known(&self) -> impl Iterator<Item = f64> + Clone + '_ {
        self.values.iter().flatten().flatten().copied()
    }

    /// Round numbers between the least and the greatest.
    fn levels(&self) -> Vec<f64> {
        let low = self.known().fold(f64::INFINITY, f64::min);
        let high = self.known().fold(f64::NEG_INFINITY, f64::max);
        let between = |level: &f64| *level > low && *level < high;
        if low >= high {
            return Vec::new();
        }
        if low > 0.0 && high / low > 10.0 {
            let decades = (low.log10().floor() as i32)..=(high.log10().floor() as i32);
            let steps =
                decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|it| it * 10f64.powi(decade)));
            let all: Vec<f64> = steps.filter(between).collect();
            let every = all.len().div_ceil(LEVELS_MAX).max(1);
            return all.into_iter().step_by(every).collect();
        }
        let least = (high / 2.0 - low / 2.0) / (LEVELS_MAX as f64 / 2.0);
        let power = 10f64.powf(least.log10().floor());
        let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|digit| digit * power);
        let step = steps.into_iter().find(|step| *step >= least);
        let step = step.unwrap_or(least);
        let first = (low / step).ceil();
        let all = (0..=LEVELS_MAX).map(|number| (first + number as f64) * step);
        all.filter(between).take(LEVELS_MAX).collect()
    }

    /// Writes it for a page.
    pub(crate) fn write(&self, out: &mut String) {
        let (xs, ys) = (places(&self.x), places(&self.y));
        let [across, up] = [&xs, &ys].map(|places| {
            let mut order: Vec<usize> = (0..places.len()).collect();
            order.sort_by(|one, other| places[*one].total_cmp(&places[*other]));
            order
        });
        let mut drawing = String::new();
        let mut marks = Vec::new();
        for level in self.levels() {
            let (region, line, place) = self.above(level, [&xs, &ys], [&across, &up]);
            let _ = write!(
                drawing,
                "<path class=\"above\" d=\"{region}\"/><path class=\"contour\" d=\"{line}\"/>"
            );
            marks.extend(place.map(|(x, y)| (x, y, tick(&self.metric, level))));
        }
        drawing.push_str("<path class=\"dot node\" d=\"");
        // Where there are many they hide the rest.
        let is_dense = self.known().count() > NODES_MAX;
        for (x, row) in { self.values.iter().enumerate() }.filter(|_| !is_dense) {
            for y in (0..row.len()).filter(|y| row[*y].is_some()) {
                let _ = write!(
                    drawing,
                    "M{:.1} {:.1}h0",
                    xs[x] * WIDTH,
                    (1.0 - ys[y]) * HEIGHT
                );
            }
        }
        drawing.push_str("\"/>");
        let mut tips = Vec::new();
        for (x, left, right) in spans(&xs, &across) {
            for (y, below, above) in spans(&ys, &up) {
                let at = (left * WIDTH, (1.0 - above) * HEIGHT);
                let size = ((right - left) * WIDTH, (above - below) * HEIGHT);
                tips.push((at.0, at.1, size.0, size.1, self.tip(x, y)));
            }
        }
        let y_labels = labels(&self.y);
        Frame {
            title: &self.title,
            summary: self.summary(),
            keys: &[],
            note: "",
            drawing,
            x_name: &self.x.name,
            x: labels(&self.x),
            y: { y_labels.into_iter() }
                .map(|(at, label)| (at, label.to_owned()))
                .collect(),
            tips,
            marks,
            rest: "",
        }
        .write(out);
    }

    /// What is above a level, the line where it is equal, and a place for its label: where that is
    /// nearest to the middle.
    fn above(
        &self,
        level: f64,
        [xs, ys]: [&[f64]; 2],
        [across, up]: [&[usize]; 2],
    ) -> (String, String, Option<(f64, f64)>) {
        let (mut region, mut line) = (String::new(), String::new());
        let corner = |x: usize, y: usize| -> Option<Corner> {
            Some([xs[x], ys[y], self.values.get(x)?.get(y).copied()??])
        };
        let off = |(x, y): (f64, f64)| (x - 0.5).abs() + (y - 0.5).abs();
        let mut place: Option<(f64, f64)> = None;
        for row in up.windows(2) {
            let (low, high) = (ys[row[0]], ys[row[1]]);
            // Parts of a row that are above all over are one.
            let mut open: Option<(f64, f64)> = None;
            for column in across.windows(2) {
                let cell = [(0, 0), (1, 0), (1, 1), (0, 1)].map(|(x, y)| corner(column[x], row[y]));
                let [Some(a), Some(b), Some(c), Some(d)] = cell else {
                    close(&mut open, low, high, &mut region);
                    continue;
                };
                let cell = [a, b, c, d];
                if cell.iter().all(|corner| corner[2] >= level) {
                    open = Some((open.map_or(a[0], |it| it.0), b[0]));
                    continue;
                }
                close(&mut open, low, high, &mut region);
                if cell.iter().any(|corner| corner[2] >= level) {
                    let crossed = split(cell, level, &mut region, &mut line);
                    if place.is_none_or(|place| off(crossed) < off(place)) {
                        place = Some(crossed);
                    }
                }
            }
            close(&mut open, low, high, &mut region);
        }
        (region, line, place)
    }

    fn tip(&self, x: usize, y: usize) -> String {
        let value = self.values.get(x).and_then(|row| row.get(y).copied()?);
        let value = value.map_or_else(|| "not measured".to_owned(), |it| self.metric.text(it));
        let [across, up] = [(&self.x, x), (&self.y, y)].map(|(axis, at)| {
            let word = axis.values.get(at).map_or("", String::as_str);
            format!("{}={word}", axis.name)
        });
        format!("{across} {up}: {value}")
    }

    fn summary(&self) -> String {
        let low = self.known().fold(f64::INFINITY, f64::min);
        let high = self.known().fold(f64::NEG_INFINITY, f64::max);
        if low > high {
            return format!("{}: not measured", self.title);
        }
        let [low, high] = [low, high].map(|value| self.metric.text(value));
        format!("{}: from {low} to {high}", self.title)
    }
}

/// Ends a part of a row that is above all over.
fn close(open: &mut Option<(f64, f64)>, low: f64, high: f64, region: &mut String) {
    if let Some((from, to)) = open.take() {
        let _ = write!(
            region,
            "M{:.1} {:.1}H{:.1}V{:.1}H{:.1}z",
            from * WIDTH,
            (1.0 - low) * HEIGHT,
            to * WIDTH,
            (1.0 - high) * HEIGHT,
            from * WIDTH
        );
    }
}

/// The part of a cell that is above a level, and the line where it is equal, by four triangles
/// around its middle. Returns a place on that line.
fn split(cell: [Corner; 4], level: f64, region: &mut String, line: &mut String) -> (f64, f64) {
    let mean = |at: usize| cell.iter().map(|corner| corner[at] / 4.0).sum::<f64>();
    let middle = [mean(0), mean(1), mean(2)];
    let mut crossed = (middle[0], middle[1]);
    for side in 0..4 {
        let triangle = [cell[side], cell[(side + 1) % 4], middle];
        let mut above: Vec<(f64, f64)> = Vec::with_capacity(4);
        let mut equal: Vec<(f64, f64)> = Vec::with_capacity(2);
        for at in 0..3 {
            let (one, other) = (triangle[at], triangle[(at + 1) % 3]);
            if one[2] >= level {
                above.push((one[0], one[1]));
            }
            if (one[2] >= level) != (other[2] >= level) {
                let share = (level / 2.0 - one[2] / 2.0) / (other[2] / 2.0 - one[2] / 2.0);
                let between = |at: usize| one[at] + (other[at] - one[at]) * share.clamp(0.0, 1.0);
                let point = (between(0), between(1));
                above.push(point);
                equal.push(point);
            }
        }
        for (at, (x, y)) in above.iter().enumerate() {
            let step = if at == 0 { 'M' } else { 'L' };
            let _ = write!(region, "{step}{:.1} {:.1}", x * WIDTH, (1.0 - y) * HEIGHT);
        }
        if !above.is_empty() {
            region.push('z');
        }
        if let [(x, y), (its_x, its_y)] = equal[..] {
            let _ = write!(
                line,
                "M{:.1} {:.1}L{:.1} {:.1}",
                x * WIDTH,
                (1.0 - y) * HEIGHT,
                its_x * WIDTH,
                (1.0 - its_y) * HEIGHT
            );
            crossed = ((x + its_x) / 2.0, (y + its_y) / 2.0);
        }
    }
    crossed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points::{Axis, Metric};

    fn contours(values: Vec<Vec<Option<f64>>>) -> Contours {
        let axis = |name: &str, count: usize| {
            let values = (0..count).map(|at| at.to_string()).collect();
            Axis::new(name.to_owned(), values)
        };
        Contours {
            title: "answered".to_owned(),
            x: axis("delay", values.len()),
            y: axis("rate", values.first().map_or(0, Vec::len)),
            metric: Metric::default(),
            values,
        }
    }

    #[test]
    fn a_contour_lies_where_the_metric_has_its_value() {
        // It rises from 0 to 10 along x.
        let plane = contours((0..=10).map(|x| vec![Some(f64::from(x)); 3]).collect());
        let levels = plane.levels();
        assert!(levels == [2.0, 4.0, 6.0, 8.0], "{levels:?}");
        let corners = [
            [0.0, 0.0, 0.0],
            [1.0, 0.0, 10.0],
            [1.0, 1.0, 10.0],
            [0.0, 1.0, 0.0],
        ];
        let (mut region, mut line) = (String::new(), String::new());
        let (x, _) = split(corners, 2.5, &mut region, &mut line);
        assert!((x - 0.25).abs() < 1e-9, "{x}");
        assert!(line.contains("M100.0 "), "{line}");
    }

    #[test]
    fn holes_and_wild_values_are_drawn_around() {
        for values in [
            vec![],
            vec![vec![Some(1.0)]],
            vec![vec![None, Some(2.0)], vec![Some(3.0), Some(4.0)]],
            vec![
                vec![Some(-1e308), Some(1e308)],
                vec![Some(0.0), Some(1e-300)],
            ],
            vec![vec![Some(5.0); 4]; 4],
        ] {
            let mut out = String::new();
            let drawn = contours(values);
            drawn.write(&mut out);
            assert!(drawn.levels().len() <= LEVELS_MAX, "{:?}", drawn.levels());
            assert!(!out.contains("NaN") && !out.contains("inf"), "{out}");
        }
    }
}
