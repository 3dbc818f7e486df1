//! A prediction, printed and drawn like a lab's points.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use lineside_render::points::{Axis, Metric, Point, Points, Value};
use lineside_words::grouped;
use serde::Deserialize;

/// The axes that a prediction may have, in their order.
const AXES: [&str; 4] = ["delay", "rate", "loss", "limit"];

/// What is drawn of `predict.json`.
#[derive(Deserialize)]
struct Prediction {
    trace: String,
    calls: u64,
    captured_ns: i64,
    leaves_out: Vec<String>,
    points: Vec<OfPoint>,
}

#[derive(Deserialize)]
struct OfPoint {
    axes: BTreeMap<String, String>,
    draws: u16,
    elapsed_least_ns: i64,
    elapsed_most_ns: i64,
    elapsed_ns: i64,
    figures: Vec<Figure>,
}

#[derive(Deserialize)]
struct Figure {
    operation: Option<String>,
    p50_ns: i64,
    p99_ns: i64,
}

/// Whether a folder is a prediction's.
pub(crate) fn is_there(folder: &Path) -> bool {
    folder.join("predict.json").is_file() && !folder.join("trace.json").exists()
}

/// The points of the prediction in a folder.
pub(super) fn read(folder: &Path) -> anyhow::Result<Points> {
    let path = folder.join("predict.json");
    let text = std::fs::read_to_string(&path);
    let text = text.with_context(|| format!("{}: cannot be read", path.display()))?;
    let of: Prediction = serde_json::from_str(&text)
        .with_context(|| format!("{}: it is no prediction", path.display()))?;
    let mut axes = Vec::new();
    for name in AXES {
        let mut values: Vec<String> = Vec::new();
        for value in of.points.iter().filter_map(|point| point.axes.get(name)) {
            if !values.contains(value) {
                values.push(value.clone());
            }
        }
        if !values.is_empty() {
            axes.push(Axis::new(name.to_owned(), values));
        }
    }
    let metric = |name: &str| Metric {
        name: name.to_owned(),
        unit: "s".to_owned(),
        is_of_link: false,
    };
    let mut points: Vec<Point> = of
        .points
        .iter()
        .map(|point| of_point(&axes, point))
        .collect();
    points.sort_by(|one, other| one.place.cmp(&other.place));
    let seconds = of.captured_ns as f64 / 1e9;
    Ok(Points {
        title: of.trace.clone(),
        about: vec![format!(
            "{} calls, {} as captured; the band is the range of the draws",
            grouped(of.calls),
            metric("").text(seconds)
        )],
        axes,
        metrics: ["elapsed", "p50", "p99"].map(metric).to_vec(),
        points,
        sentences: { of.leaves_out.iter() }
            .map(|what| format!("left out: {what}"))
            .collect(),
        footer: format!("Predicted by lineside {}.", env!("CARGO_PKG_VERSION")),
        json: text,
        ..Points::default()
    })
}

fn of_point(axes: &[Axis], of: &OfPoint) -> Point {
    let number = |axis: &Axis| {
        let value = of.axes.get(&axis.name)?;
        axis.values.iter().position(|each| each == value)
    };
    let seconds = |ns: i64| ns as f64 / 1e9;
    let range = (seconds(of.elapsed_least_ns), seconds(of.elapsed_most_ns));
    let range = Some(range).filter(|_| of.draws > 1);
    let all = of.figures.iter().find(|figure| figure.operation.is_none());
    let quantile = |ns: i64| Value::finite(seconds(ns), None);
    Point {
        place: axes.iter().map(|axis| number(axis).unwrap_or(0)).collect(),
        runs: of.draws.into(),
        values: vec![
            Value::finite(seconds(of.elapsed_ns), range),
            all.and_then(|figure| quantile(figure.p50_ns)),
            all.and_then(|figure| quantile(figure.p99_ns)),
        ],
        ..Point::default()
    }
}
