//! The folder of a prediction: table `points`, and `predict.json`.

use lineside_trace::{GivenCell, GivenKind};

use super::figures::{Line, Prediction};
use crate::print::json_text;
use crate::tables::{Folder, Kind, push, table};

/// Its columns are those of CSV.
const POINTS: [(&str, GivenKind); 8] = [
    ("delay", GivenKind::Text),
    ("rate", GivenKind::Text),
    ("loss", GivenKind::Text),
    ("limit", GivenKind::Text),
    ("client", GivenKind::Text),
    ("operation", GivenKind::Text),
    ("metric", GivenKind::Text),
    ("value", GivenKind::Integer),
];
/// The folder of a prediction.
pub(super) const PREDICTION: Kind = Kind {
    name: "prediction",
    tables: &["points"],
    facts: "predict.json",
    instead: "give another folder, or --force to replace a prediction",
};

/// Writes a row a figure; what does not apply is null.
pub(super) fn write(of: &Prediction, folder: &Folder) -> anyhow::Result<()> {
    let mut points = table(&POINTS);
    for line in of.lines() {
        folder.keep("points", push(&mut points, &cells(&line))?)?;
    }
    folder.keep("points", points.finish()?.0)?;
    folder.describe(&json_text(of)?)
}

fn cells<'a>(line: &'a Line<'_>) -> [GivenCell<'a>; POINTS.len()] {
    let text = |text: &'a str| match text {
        "" => GivenCell::Null,
        text => GivenCell::Bytes(text.as_bytes()),
    };
    [
        text(line.delay),
        text(line.rate),
        text(line.loss),
        text(line.limit),
        text(line.client),
        text(line.operation),
        text(line.metric),
        GivenCell::Integer(line.value),
    ]
}
