//! Distributions and rates of monitors as lines of text.

use lineside_words::{escape, grouped, time};

use crate::monitored::{Histogram, Timeline, length, value};
use crate::text::{LABEL, axis, bars};

/// Columns of a distribution at most: its bins are no finer.
const COLUMNS_MAX: usize = 96;

/// A line of bars above its axis, in `width` columns.
pub(crate) fn histogram_lines(histogram: &Histogram, width: usize) -> Vec<String> {
    let (from, to) = histogram.span();
    let columns = width.saturating_sub(LABEL).clamp(1, COLUMNS_MAX);
    let step = (to - from) / columns as f64;
    let mut heights = vec![0.0f64; columns];
    for (low, high, density) in histogram.densities() {
        let place = |position: f64| ((position - from) / step + 1e-9) as usize;
        let first = place(low).min(columns - 1);
        let last = place(high - 1e-6).clamp(first, columns - 1);
        for height in &mut heights[first..=last] {
            *height = height.max(density);
        }
    }
    let most = heights.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let scaled = heights
        .iter()
        .map(|height| (height / most * 1e6).ceil() as u64);
    let of = &histogram.distribution;
    let unit = of.unit;
    let ends = [
        value(of.min, unit),
        value(2f64.powf(f64::midpoint(from, to)).round() as u64, unit),
        value(of.max, unit),
    ];
    let title = format!("{}, {} values", histogram.title, grouped(of.count));
    vec![
        String::new(),
        escape(&title),
        format!(
            "{:<LABEL$}{}",
            "how many",
            bars(&scaled.collect::<Vec<_>>())
        ),
        format!("{:<LABEL$}{}", "", axis(&ends, columns)),
    ]
}

/// A line of bars for the mean, one for the busiest windows, and one for events, above the axis.
pub(crate) fn timeline_lines(timeline: &Timeline, width: usize) -> Vec<String> {
    let room = width
        .saturating_sub(LABEL + " up to 000.0 Mb/s".len())
        .max(1);
    let span_ns = timeline.span_ns();
    let columns =
        room.min(usize::try_from(span_ns.div_ceil(timeline.step_ns.max(1))).unwrap_or(room));
    let columns = columns.max(1);
    let column_ns = span_ns.div_ceil(columns as u64);
    let place = |share: f64| ((share * columns as f64) as usize).min(columns - 1);
    let (mut means, mut most) = (vec![(0.0, 0.0); columns], vec![0.0f64; columns]);
    for ((from, to), (&mean, &max)) in { timeline.steps() }
        .zip(timeline.means.iter().zip(&timeline.most))
        .filter(|((from, to), _)| to > from)
    {
        let middle = place(f64::midpoint(from, to));
        means[middle].0 += mean * (to - from);
        means[middle].1 += to - from;
        // A step may be longer than a column.
        for most in &mut most[place(from + 1e-9)..=place(to - 1e-9)] {
            *most = most.max(max);
        }
    }
    let means = means.iter().map(|&(sum, share)| match share {
        0.0 => 0.0,
        share => sum / share,
    });
    let means: Vec<f64> = means.collect();
    let line = |name: &str, rates: &[f64]| {
        let most = rates.iter().copied().fold(0.0, f64::max);
        let counts: Vec<u64> = rates.iter().map(|rate| rate.ceil() as u64).collect();
        let (bars, text) = (bars(&counts), timeline.text(most));
        format!("{name:<LABEL$}{bars} up to {text}")
    };
    let title = format!("{}, {} a column", timeline.title, time(column_ns));
    let mut lines = vec![String::new(), title, line("mean", &means)];
    if timeline.is_joined() {
        let window = length(timeline.window_ns);
        lines.push(line(&format!("busiest {window}"), &most));
    }
    if !timeline.marks.is_empty() {
        lines.push(format!("{:<LABEL$}{}", "events", marks(timeline, columns)));
    }
    let after = |share: f64| {
        let begin = i128::from(timeline.from_ns) - i128::from(timeline.begin_ns);
        let ns = begin as f64 + share * span_ns as f64;
        let sign = if ns < 0.0 { "-" } else { "" };
        format!("{sign}{}", time(ns.abs() as u64))
    };
    let axis = axis(&[0.0, 0.5, 1.0].map(after), columns);
    lines.push(format!("{:<LABEL$}{axis}", ""));
    lines
}

/// The numbers of events below their columns; `+` where there is no room for one.
fn marks(timeline: &Timeline, columns: usize) -> String {
    let mut line = vec![' '; columns];
    let mut free = 0;
    for &(number, ns) in &timeline.marks {
        let share = timeline.share(ns);
        if !(0.0..=1.0).contains(&share) {
            continue;
        }
        let at = ((share * columns as f64) as usize).min(columns - 1);
        let digits = number.to_string();
        if at < free || at + digits.len() > columns {
            if line[at] == ' ' {
                line[at] = '+';
            }
            continue;
        }
        for (place, digit) in (at..).zip(digits.chars()) {
            line[place] = digit;
        }
        free = at + digits.len() + 1;
    }
    line.into_iter().collect::<String>().trim_end().to_owned()
}
