//! Tables of delays and path files: their figures, as JSON and as text.

use std::fmt::Write;

use lineside_link::{DEVIATION, PathFile, PathStep, Table, Unit};
use lineside_measure::Spread;
use lineside_words::{bit_rate, percent, signed_time, time};

use crate::spread_text;

/// Means over time of a path's settings.
pub fn path_figures(path: &PathFile) -> serde_json::Value {
    let duration_ns: u64 = path.spans().map(|(_, span_ns)| span_ns).sum();
    let mean = |value: &dyn Fn(&PathStep) -> Option<f64>| {
        let parts = path.spans();
        let sum: Option<f64> = parts
            .map(|(step, span_ns)| Some(value(step)? * span_ns as f64))
            .sum();
        sum.map(|sum| sum / duration_ns as f64)
    };
    serde_json::json!({
        "steps": path.steps().len(),
        "duration_ns": duration_ns,
        "repeats": path.period_ns().is_some(),
        "delay_mean_ns": mean(&|step| step.delay_ns.map(|ns| ns as f64)),
        "loss_mean": mean(&|step| step.loss),
        "rate_mean_bps": mean(&|step| step.bits_per_second.map(|rate| rate as f64)),
    })
}

/// The same as text.
pub fn path_lines(path: &PathFile) -> String {
    let figures = path_figures(path);
    let number = |name: &str| figures[name].as_f64();
    let mut out = format!(
        "path         {}, {} lines, {}{}\n",
        path.name(),
        path.steps().len(),
        time(figures["duration_ns"].as_u64().unwrap_or(0)),
        if path.period_ns().is_some() {
            ", then again"
        } else {
            ""
        }
    );
    if let Some(ns) = number("delay_mean_ns") {
        let _ = writeln!(
            out,
            "delay        {} in the mean of the time",
            signed_time(ns)
        );
    }
    if let Some(share) = number("loss_mean") {
        let _ = writeln!(
            out,
            "loss         {} in the mean of the time",
            percent(share)
        );
    }
    if let Some(rate) = number("rate_mean_bps") {
        let _ = writeln!(
            out,
            "rate         {} in the mean of the time",
            bit_rate(rate)
        );
    }
    let _ = writeln!(out, "use          --path {}", path.name());
    out
}

/// The table's entries as a distribution.
fn spread(table: &Table) -> Spread {
    Spread::of(table.values().iter().map(|&value| (value, 1)).collect())
}

fn of_samples(samples: &[i64]) -> Spread {
    Spread::of(samples.iter().map(|&value| (value, 1)).collect())
}

/// A table's figures, and those of the samples that it was made of.
pub fn table_figures(table: &Table, samples: Option<&[i64]>) -> serde_json::Value {
    let unit = match table.unit() {
        Unit::Deviations => "1/8192 deviation",
        Unit::Nanoseconds => "ns",
    };
    let samples = samples.map(of_samples);
    let distance = samples
        .as_ref()
        .and_then(|samples| spread(table).distance(samples));
    serde_json::json!({
        "entries": table.values().len(),
        "unit": unit,
        "mean": table.mean(),
        "deviation": table.deviation(),
        "entries_cut_at_4_deviations": table.standardised().1,
        "samples": samples,
        "table_from_samples_ks": distance.map(|distance| distance.ks),
    })
}

/// The same as text, and how the table is used.
pub fn table_lines(name: &str, table: &Table, samples: Option<&[i64]>) -> String {
    let mut out = String::new();
    let entries = table.values().len();
    let _ = writeln!(out, "table        {name}, {entries} entries");
    if let Some(samples) = samples {
        let samples = of_samples(samples);
        let _ = writeln!(
            out,
            "samples      {}, {}",
            samples.count,
            spread_text(&samples)
        );
        if let Some(distance) = spread(table).distance(&samples) {
            let _ = writeln!(
                out,
                "             the table is {:.4} from them by Kolmogorov and Smirnov",
                distance.ks
            );
        }
    }
    match table.unit() {
        Unit::Nanoseconds => {
            let _ = writeln!(out, "entries      {}", spread_text(&spread(table)));
            let _ = writeln!(
                out,
                "use          --delay '0 distribution {source}', or its shape: --delay '{:.0}ns \
                {:.0}ns distribution {source}'",
                table.mean(),
                table.deviation(),
                source = name
            );
        }
        Unit::Deviations => {
            let unit = DEVIATION as f64;
            let _ = writeln!(
                out,
                "entries      mean {:.4}, deviation {:.4}, from {:.4} to {:.4} (1 is what --delay \
                gives as jitter)",
                table.mean() / unit,
                table.deviation() / unit,
                spread(table).min_ns as f64 / unit,
                spread(table).max_ns as f64 / unit
            );
        }
    }
    out
}
