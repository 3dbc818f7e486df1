//! The pictures of a load.

use lineside_analyze::{LoadOverTime, LoadReport, LoadSteps, Zone};
use lineside_words::{grouped, time};

use super::load::cause_words;
use crate::block::{Block, Chart, Colour, Layer, Scale, Section, ShareCurve};

/// What is drawn of a load that has rows.
pub(crate) fn pictures(load: &LoadReport, zone: &Zone) -> Vec<Section> {
    let Some(over_time) = &load.over_time else {
        return Vec::new();
    };
    vec![course(load, over_time, zone), shares(load)]
}

fn course(load: &LoadReport, over_time: &LoadOverTime, zone: &Zone) -> Section {
    let chart = |title, scale, layers| {
        Block::Chart(Chart {
            title,
            scale,
            start_ns: over_time.start_ns,
            step_ns: over_time.step_ns,
            zone: zone.clone(),
            layers,
        })
    };
    let counts = |name, colour, values: &[u64]| Layer {
        name,
        colour,
        values: values.iter().copied().map(Some).collect(),
    };
    let mut rates = match load.found.asked.is_open_loop() {
        true => vec![
            counts("offered", Colour::Other, &over_time.offered),
            counts("achieved", Colour::Upper, &over_time.achieved),
        ],
        // A closed loop offers what it sends.
        false => vec![counts("achieved", Colour::Other, &over_time.achieved)],
    };
    rates.push(counts("answered", Colour::Read, &over_time.answered));
    let mut blocks = vec![
        chart("Requests", Scale::Lines, rates),
        chart("Latency", Scale::Time, times(&over_time.latency)),
    ];
    if load.found.asked.is_open_loop() {
        blocks.push(chart(
            "Late departures",
            Scale::Time,
            times(&over_time.lateness),
        ));
    }
    if !over_time.failed.is_empty() {
        let causes = over_time.failed.iter();
        let layers = causes.map(|(cause, values)| {
            let (name, colour) = cause_words(cause);
            counts(name, colour, values)
        });
        blocks.push(chart("Failed", Scale::Rate, layers.collect()));
    }
    Section {
        heading: "Load over time".to_owned(),
        note: what_is_drawn(load, over_time, zone),
        blocks,
    }
}

/// At which instant what is drawn, and what is not.
fn what_is_drawn(load: &LoadReport, over_time: &LoadOverTime, zone: &Zone) -> String {
    let rows = match over_time.requests_per_row {
        1 => String::new(),
        every => format!(
            " One request in {} has a row, and stands for the others.",
            grouped(every)
        ),
    };
    let unsent = match load.found.requests.unsent.values().sum() {
        0u64 => String::new(),
        unsent => format!(" {} that never left are not drawn.", grouped(unsent)),
    };
    let shown = match load.found.asked.is_open_loop() {
        true => {
            "Offered, latency and lateness are shown at the instant for which a request was \
            planned, achieved and failed at its departure"
        }
        false => "Latency, achieved and failed are shown at the departure of a request",
    };
    format!(
        "In steps of {}; times are {}. {shown}, answered at the end of its answer. The first and \
        the last step are not full.{rows}{unsent}",
        time(over_time.step_ns),
        zone.offset(over_time.start_ns)
    )
}

fn times(steps: &LoadSteps) -> Vec<Layer> {
    let layer = |name, colour, values: &[Option<u64>]| Layer {
        name,
        colour,
        values: values.to_vec(),
    };
    vec![
        layer("p50", Colour::Median, &steps.p50_ns),
        layer("p99", Colour::Upper, &steps.p99_ns),
        layer("max", Colour::Failed, &steps.max_ns),
    ]
}

fn shares(load: &LoadReport) -> Section {
    let curve = |title, lines: Vec<(&'static str, Colour, Vec<Option<u64>>)>| {
        Block::Shares(ShareCurve {
            title,
            shares: load.quantiles.iter().map(|each| each.share).collect(),
            lines,
        })
    };
    let quantiles = load.quantiles.iter();
    let latency = quantiles.clone().map(|each| each.latency_ns).collect();
    let service = quantiles.clone().map(|each| each.service_ns).collect();
    let lateness = quantiles.map(|each| each.lateness_ns).collect();
    let (note, blocks) = match load.found.asked.is_open_loop() {
        true => (
            "Latency counts from the instant for which a request was planned, service from its \
            departure: what lies between them is the wait for a server that stood still, which a \
            closed loop omits.",
            vec![
                curve(
                    "Latency and service",
                    vec![
                        ("latency", Colour::Upper, latency),
                        ("service", Colour::Median, service),
                    ],
                ),
                curve("Late departures", vec![("late", Colour::Failed, lateness)]),
            ],
        ),
        false => (
            "A closed loop: a server that stands still is asked less, and few requests show it.",
            vec![curve("Latency", vec![("latency", Colour::Upper, latency)])],
        ),
    };
    Section {
        heading: "Times by share of requests".to_owned(),
        note: format!("So many requests took no longer. {note}"),
        blocks,
    }
}
