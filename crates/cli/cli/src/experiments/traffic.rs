//! What links carried, from the certificates of a lab's runs.

use std::collections::BTreeMap;
use std::path::Path;

use lineside_lab::PointRun;
use lineside_render::points::{Metric, Points, Value};
use lineside_words::{Rate, parse_rate};
use serde::Deserialize;

/// What a page needs of `trace.json`.
#[derive(Deserialize)]
struct Trace {
    certificate: Certificate,
}

#[derive(Deserialize)]
struct Certificate {
    #[serde(default)]
    directions: BTreeMap<String, Direction>,
}

#[derive(Deserialize)]
struct Direction {
    #[serde(default)]
    settings: Settings,
    counters: Counters,
}

#[derive(Deserialize, Default)]
struct Settings {
    rate: Option<String>,
}

#[derive(Deserialize)]
struct Counters {
    entered: u64,
    released: u64,
    released_bytes: u64,
}

/// What was carried in a direction, run by run: packets a second, share of the rate, and the share
/// of frames that never left.
#[derive(Default)]
struct Carried {
    packets: Vec<f64>,
    used: Vec<f64>,
    lost: Vec<f64>,
}

/// By direction and point.
#[derive(Default)]
pub(super) struct Traffic(BTreeMap<String, BTreeMap<usize, Carried>>);

impl Traffic {
    /// Adds what the links of a run carried, if it has a certificate.
    pub(super) fn add(&mut self, run: &PointRun, folder: &Path) {
        let longest = run
            .nodes
            .values()
            .filter_map(|ended| ended.elapsed_ns)
            .max();
        let Some(ns) = longest.filter(|ns| *ns > 0) else {
            return;
        };
        let text = std::fs::read(folder.join("trace.json")).unwrap_or_default();
        let Ok(trace) = serde_json::from_slice::<Trace>(&text) else {
            return;
        };
        let seconds = ns as f64 / 1e9;
        for (name, direction) in trace.certificate.directions {
            let points = self.0.entry(name).or_default();
            let carried = points.entry(run.point).or_default();
            let counters = direction.counters;
            carried.packets.push(counters.released as f64 / seconds);
            let rate = direction.settings.rate.as_deref().and_then(bits);
            let bits = counters.released_bytes as f64 * 8.0 / seconds;
            carried.used.extend(rate.map(|rate| 100.0 * bits / rate));
            if counters.entered > 0 {
                let lost = counters.entered.saturating_sub(counters.released);
                carried
                    .lost
                    .push(100.0 * lost as f64 / counters.entered as f64);
            }
        }
    }

    /// Adds it to the metrics of points.
    pub(super) fn describe(self, points: &mut Points) {
        for (direction, mut at) in self.0 {
            for (what, unit, of) in KINDS {
                let medians: BTreeMap<usize, f64> = { at.iter_mut() }
                    .filter_map(|(point, carried)| Some((*point, of(carried)?)))
                    .collect();
                // What is nothing everywhere is no news, such as loss.
                if medians.values().all(|value| *value == 0.0) {
                    continue;
                }
                points.metrics.push(Metric {
                    name: format!("{direction}, {what}"),
                    unit: unit.to_owned(),
                    is_of_link: true,
                });
                for (number, point) in points.points.iter_mut().enumerate() {
                    let median = medians.get(&(number + 1));
                    point
                        .values
                        .push(median.and_then(|it| Value::finite(*it, None)));
                }
            }
        }
    }
}

type Kind = (&'static str, &'static str, fn(&mut Carried) -> Option<f64>);
const KINDS: [Kind; 4] = [
    ("use", "%", |of| median(&mut of.used)),
    ("packets", "/s", |of| median(&mut of.packets)),
    ("mean gap", "s", |of| {
        Some(1.0 / median(&mut of.packets).filter(|it| *it > 0.0)?)
    }),
    ("lost", "%", |of| median(&mut of.lost)),
];

fn bits(words: &str) -> Option<f64> {
    match parse_rate(words).ok()? {
        Rate::Bits(bits) => Some(bits as f64).filter(|bits| *bits > 0.0),
        _ => None,
    }
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
