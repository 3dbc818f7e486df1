//! What is printed of each point.

use std::collections::BTreeMap;

use lineside_predict::Outcome;
use serde::Serialize;

use super::grid::Point;
use super::workload::{Doubts, Planned};

/// What is predicted of a trace.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Prediction {
    /// Version of this form: fields are added in a minor one.
    pub(super) predict_version: &'static str,
    /// The folder of the trace.
    pub(super) trace: String,
    /// Its calls, without openings of connections.
    pub(super) calls: u64,
    /// Hosts that made them.
    pub(super) clients: u64,
    /// Connections that they came over.
    pub(super) connections: u64,
    /// From the first call to the last reply, as it was captured.
    pub(super) captured_ns: i64,
    /// What is not predicted as it was captured.
    pub(super) doubts: Doubts,
    /// What the prediction leaves out.
    pub(super) leaves_out: [&'static str; 4],
    /// What is predicted for each network, in the order of the lists.
    pub(super) points: Vec<OfPoint>,
}

/// What no prediction from a capture knows.
pub(super) const LEAVES_OUT: [&str; 4] = [
    "other traffic, and processors",
    "what clients and servers do otherwise when replies come later: caches, read-ahead, queues at \
     the server",
    "windows larger than the trace shows: a fast server hides how many calls a client would have \
     had under way",
    "how far the TCP windows of connections had opened that are older than the capture",
];

/// What is predicted for a network.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct OfPoint {
    /// The network, in the words that it was asked for by.
    pub(super) axes: BTreeMap<&'static str, String>,
    /// How often its losses and jitter were drawn; all but the next two figures are of the draw of
    /// the median time.
    pub(super) draws: u16,
    /// The shortest time of the draws.
    pub(super) elapsed_least_ns: i64,
    /// The longest.
    pub(super) elapsed_most_ns: i64,
    /// From the first call to the last reply: of the draws the median.
    pub(super) elapsed_ns: i64,
    /// Calls without a reply when the run ended.
    pub(super) unfinished: u64,
    /// Connections that broke, and were opened again.
    pub(super) broken: u64,
    /// Segments that were sent again.
    pub(super) retransmissions: u64,
    /// Frames that the links dropped.
    pub(super) dropped: u64,
    /// The latencies of all calls, of each operation, and of each client's.
    pub(super) figures: Vec<Figure>,
}

/// The latencies of some calls.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Figure {
    /// `None`: of all clients.
    pub(super) client: Option<String>,
    /// `None`: of all operations.
    pub(super) operation: Option<String>,
    /// How many have a reply.
    pub(super) calls: u64,
    /// The latency that half of them do not exceed.
    pub(super) p50_ns: i64,
    /// That 99 of 100 do not exceed.
    pub(super) p99_ns: i64,
    /// As they were captured: at the tap, and the way from there to the client and back.
    pub(super) captured_p50_ns: i64,
    /// Likewise.
    pub(super) captured_p99_ns: i64,
}

/// A line of CSV.
#[derive(Debug, Serialize)]
pub(super) struct Line<'a> {
    pub(super) delay: &'a str,
    pub(super) rate: &'a str,
    pub(super) loss: &'a str,
    pub(super) limit: &'a str,
    pub(super) client: &'a str,
    pub(super) operation: &'a str,
    pub(super) metric: &'static str,
    pub(super) value: i64,
}

/// The value of which a share is not above: nearest rank.
fn quantile(sorted: &[i64], share: f64) -> i64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or_default()
}

/// Latencies as predicted and as captured.
#[derive(Debug, Default)]
struct Latencies {
    predicted: Vec<i64>,
    captured: Vec<i64>,
}

impl Latencies {
    fn figure(mut self, client: Option<String>, operation: Option<String>) -> Figure {
        self.predicted.sort_unstable();
        self.captured.sort_unstable();
        Figure {
            client,
            operation,
            calls: self.predicted.len() as u64,
            p50_ns: quantile(&self.predicted, 0.5),
            p99_ns: quantile(&self.predicted, 0.99),
            captured_p50_ns: quantile(&self.captured, 0.5),
            captured_p99_ns: quantile(&self.captured, 0.99),
        }
    }
}

/// Figures of all calls, of each operation, and of each client's.
fn figures(planned: &Planned, outcome: &Outcome) -> Vec<Figure> {
    let mut groups: BTreeMap<(Option<u32>, Option<u32>), Latencies> = BTreeMap::new();
    for (kind, times) in planned.kinds.iter().zip(&outcome.times) {
        let (Some((client, operation, captured)), Some(latency)) = (kind, times.latency_ns())
        else {
            continue;
        };
        for key in [
            (None, None),
            (None, Some(*operation)),
            (Some(*client), Some(*operation)),
        ] {
            let group = groups.entry(key).or_default();
            group.predicted.push(latency);
            group.captured.push(*captured);
        }
    }
    let text = |number: u32| planned.texts.get(&number).cloned().unwrap_or_default();
    let figures = groups
        .into_iter()
        .map(|((client, operation), group)| group.figure(client.map(text), operation.map(text)));
    figures.collect()
}

impl OfPoint {
    pub(super) fn new(point: &Point, planned: &Planned, outcome: &Outcome) -> Self {
        Self {
            axes: point.words.iter().cloned().collect(),
            draws: 1,
            elapsed_least_ns: outcome.elapsed_ns,
            elapsed_most_ns: outcome.elapsed_ns,
            elapsed_ns: outcome.elapsed_ns,
            unfinished: outcome.unfinished,
            broken: outcome.broken,
            retransmissions: outcome.retransmissions,
            dropped: outcome.frames[1],
            figures: figures(planned, outcome),
        }
    }

    /// Its lines of CSV.
    fn lines(&self) -> Vec<Line<'_>> {
        let axis = |name: &str| self.axes.get(name).map_or("", String::as_str);
        let whole = [
            ("elapsed_ns", self.elapsed_ns),
            ("elapsed_least_ns", self.elapsed_least_ns),
            ("elapsed_most_ns", self.elapsed_most_ns),
            ("draws", self.draws.into()),
            ("unfinished", self.unfinished as i64),
            ("broken", self.broken as i64),
            ("retransmissions", self.retransmissions as i64),
            ("dropped", self.dropped as i64),
        ];
        let whole = whole
            .into_iter()
            .map(|(metric, value)| (None, metric, value));
        let figures = self.figures.iter().flat_map(|figure| {
            [
                (Some(figure), "calls", figure.calls as i64),
                (Some(figure), "p50_ns", figure.p50_ns),
                (Some(figure), "p99_ns", figure.p99_ns),
            ]
        });
        let lines = whole.chain(figures).map(|(figure, metric, value)| Line {
            delay: axis("delay"),
            rate: axis("rate"),
            loss: axis("loss"),
            limit: axis("limit"),
            client: figure
                .and_then(|of| of.client.as_deref())
                .unwrap_or_default(),
            operation: figure
                .and_then(|of| of.operation.as_deref())
                .unwrap_or_default(),
            metric,
            value,
        });
        lines.collect()
    }
}

impl Prediction {
    /// Its lines of CSV.
    pub(super) fn lines(&self) -> Vec<Line<'_>> {
        self.points.iter().flat_map(OfPoint::lines).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schema_of_a_prediction_is_that_of_the_code() {
        let settings = schemars::generate::SchemaSettings::default().for_serialize();
        let schema = settings
            .into_generator()
            .into_root_schema_for::<Prediction>();
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../../docs/schema/predict.schema.json"
        );
        let text = serde_json::to_string_pretty(&schema).expect("JSON") + "\n";
        if std::env::var_os("LINESIDE_STORE").is_some() {
            std::fs::write(path, &text).expect("stored");
        }
        let known = std::fs::read_to_string(path).unwrap_or_default();
        assert!(text == known, "{path}: run with LINESIDE_STORE=1");
    }
}
