//! Times by the share of all that does not exceed them, as a drawing of the page.

use std::fmt::Write;

use lineside_words::time;

use crate::block::{ShareCurve, round_share};
use crate::chart::{Decades, Figure};
use crate::svg::{WIDTH, class};

/// Times that shares do not exceed. What is left above a share is on a logarithmic scale, so that
/// 90, 99 and 99.9 % are at equal distances.
pub(crate) fn share_curve(curve: &ShareCurve, out: &mut String) {
    let times = { curve.lines.iter() }.flat_map(|(_, _, times)| times.iter().flatten());
    let decades = Decades::of(times);
    let known = curve.shares.iter().filter(|&&share| share < 1.0);
    let last = known
        .map(|share| -(1.0 - share).log10())
        .fold(1.0, f64::max);
    // A whole power of ten, and no further one for what rounding adds.
    let end = (last - 1e-6).ceil();
    // The longest of all is a little behind the last share that is less than all.
    let left = |share: f64| (-(1.0 - share).log10()).min(last + 0.05).min(end);
    let x = |share: f64| left(share) / end * WIDTH;
    let mut drawing = String::new();
    for (_, colour, times) in &curve.lines {
        let mut path = String::new();
        for (&share, ns) in curve.shares.iter().zip(times) {
            if let Some(ns) = ns {
                let step = if path.is_empty() { 'M' } else { 'L' };
                let _ = write!(path, "{step}{:.2} {:.2}", x(share), decades.y(*ns));
            }
        }
        let class = class(*colour);
        let _ = write!(drawing, "<path class=\"line {class}\" d=\"{path}\"/>");
    }
    let text = |at: usize| {
        let times = curve
            .lines
            .iter()
            .filter_map(|(name, _, times)| Some(format!("{name} {}", time(times[at]?))));
        let digits = left(curve.shares[at]).clamp(1.0, 7.0) as usize;
        let share = format!("{:.digits$} %", curve.shares[at] * 100.0);
        format!("{share}: {}", times.collect::<Vec<_>>().join(", "))
    };
    let pairs = curve.shares.windows(2).enumerate();
    let areas = pairs.map(|(at, pair)| (x(pair[0]), x(pair[1]) - x(pair[0]), text(at + 1)));
    Figure {
        title: curve.title,
        summary: match curve.shares.len() {
            0 => curve.title.to_owned(),
            count => format!("{} by share of requests: {}", curve.title, text(count - 1)),
        },
        keys: { curve.lines.iter() }
            .map(|(name, colour, _)| (*name, *colour))
            .collect(),
        width: WIDTH,
        drawing,
        y: decades.labels(),
        x: (0..=end as i32).map(round_share).collect(),
        has_decades: true,
        areas: areas.collect(),
        steps: None,
    }
    .write(out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Colour;

    #[test]
    fn shares_end_at_the_power_of_ten_that_was_counted() {
        let shares = (0..=48).map(|point| 1.0 - 10f64.powf(-f64::from(point) / 16.0));
        let shares: Vec<f64> = shares.chain([1.0]).collect();
        let times = (1..=50u64).map(|ns| Some(ns * 1_000)).collect();
        let mut page = String::new();
        let curve = ShareCurve {
            title: "Latency",
            shares,
            lines: vec![("latency", Colour::Upper, times)],
        };
        share_curve(&curve, &mut page);
        assert!(
            page.contains("<span style=\"left:100.00%\">p99.9</span></div>"),
            "{page}"
        );
        assert!(
            page.contains("<title>90.0 %: latency 17.0 us</title>"),
            "{page}"
        );
    }
}
