//! What points of a lab or of a prediction say, and how they are drawn.

use lineside_words::grouped;

use crate::block::{
    Block, Cell, Column, Contours, CutLine, Cuts, Kind, LINES_MAX, Section, Table, Verdict, column,
    text,
};
use crate::points::{Metric, Point, Points, Value};

/// Drawings of contours and of cuts for each metric: their number does not grow with the axes.
const DRAWINGS_MAX: usize = 6;

/// What was found, in words.
pub(crate) fn sentences(of: &Points) -> Option<Section> {
    (!of.sentences.is_empty()).then(|| Section {
        heading: "What bounds it".to_owned(),
        note: String::new(),
        blocks: vec![Block::Sentences(of.sentences.clone())],
    })
}

/// What had to hold.
pub(crate) fn assertions(of: &Points) -> Option<Section> {
    let count = of.assertions.len() as u64;
    let held = { of.assertions.iter() }.filter(|each| each.state == "holds");
    let held = held.count() as u64;
    let reasons = of.assertions.iter().map(|each| {
        let mut words = vec![each.what.clone()];
        words.extend(each.why.iter().take(SHOWN_MAX).cloned());
        if let Some(more @ 1..) = each.why.len().checked_sub(SHOWN_MAX) {
            words.push(format!("{more} more: lab.json has all"));
        }
        (each.state, words.join("; "))
    });
    (count > 0).then(|| Section {
        heading: "What must hold".to_owned(),
        note: String::new(),
        blocks: vec![Block::Verdict(Verdict {
            state: match held == count {
                true => "holds".to_owned(),
                false => format!("{} of {} hold", grouped(held), grouped(count)),
            },
            complete: held == count,
            reasons: reasons.collect(),
        })],
    })
}

/// Where an assertion does not hold that are shown; JSON has all.
const SHOWN_MAX: usize = 5;

/// The values of the first axis beside its first one.
pub(crate) fn beside_first(of: &Points) -> Option<Section> {
    let first = of.axes.first()?;
    let heading = format!("to {}={}", first.name, first.values.first()?);
    let columns = vec![
        column("point", Kind::Path),
        column("metric", Kind::Name),
        column("pairs", Kind::Number),
        column(heading, Kind::Number),
        column("95 %", Kind::Number),
        column("", Kind::Name),
    ];
    let row = |each: &crate::points::Ratio| {
        let ratio = each.ratio.map(|it| format!("{:.3}", it.value));
        let interval = each.ratio.and_then(|it| it.interval);
        let interval = interval.map(|(low, high)| format!("{low:.3} to {high:.3}"));
        vec![
            text(each.at.clone()),
            text(each.metric.clone()),
            text(each.pairs.to_string()),
            text(ratio.unwrap_or_else(|| "-".to_owned())),
            text(interval.unwrap_or_else(|| "-".to_owned())),
            text(each.state),
        ]
    };
    let rows: Vec<_> = of.beside_first.iter().map(row).collect();
    (!rows.is_empty()).then(|| Section {
        heading: format!("{} compared", first.name),
        note: String::new(),
        blocks: vec![Block::Table(all("", columns, rows))],
    })
}

/// Runs that were disturbed in every attempt.
pub(crate) fn disturbed(of: &Points) -> Option<Section> {
    let columns = vec![
        column("point", Kind::Number),
        column("repeat", Kind::Number),
        column("why", Kind::Path),
    ];
    let rows = of.disturbed.iter().map(|run| {
        vec![
            link(&run.folder, &run.point.to_string()),
            text(run.repeat.to_string()),
            text(run.why.clone()),
        ]
    });
    let rows: Vec<_> = rows.collect();
    (!rows.is_empty()).then(|| Section {
        heading: format!("Disturbed runs: {}", grouped(rows.len() as u64)),
        note: "Their times may be this machine's, not the link's.".to_owned(),
        blocks: vec![Block::Table(all("", columns, rows))],
    })
}

/// The file of the lab.
pub(crate) fn file(of: &Points) -> Option<Section> {
    (!of.file.is_empty()).then(|| Section {
        heading: "The experiment".to_owned(),
        note: String::new(),
        blocks: vec![Block::Code(of.file.clone())],
    })
}

/// A row for each point. `has_folders`: with links to their runs, and what links carried.
pub(crate) fn points(of: &Points, has_folders: bool) -> Section {
    let mut columns = vec![column("point", Kind::Number)];
    let axes = of.axes.iter().map(|axis| axis.name.clone());
    columns.extend(axes.map(|name| column(name, Kind::Number)));
    columns.push(column("runs", Kind::Number));
    let shown = |metric: &Metric| has_folders || !metric.is_of_link;
    for metric in of.metrics.iter().filter(|metric| shown(metric)) {
        columns.push(column(metric.title(), Kind::Number));
        if !metric.is_of_link {
            columns.push(column("95 %", Kind::Number));
        }
    }
    let row = |(number, point): (usize, &Point)| {
        let mut row = vec![text((number + 1).to_string())];
        let values = { of.axes.iter().zip(&point.place) }
            .map(|(axis, at)| text(axis.values.get(*at).cloned().unwrap_or_default()));
        row.extend(values);
        let runs = match point.disturbed {
            0 => point.runs.to_string(),
            disturbed => format!("{} ({disturbed} disturbed)", point.runs),
        };
        row.push(match has_folders {
            true => link(&point.folder, &runs),
            false => text(runs),
        });
        for (metric, value) in of.metrics.iter().zip(&point.values) {
            if shown(metric) {
                row.extend(cells(metric, *value));
            }
        }
        row
    };
    let rows: Vec<_> = of.points.iter().enumerate().map(row).collect();
    Section {
        heading: "Points".to_owned(),
        note: match has_folders && of.points.iter().any(|point| !point.folder.is_empty()) {
            true => "The number of runs leads to the folder of the first one.".to_owned(),
            false => String::new(),
        },
        blocks: vec![Block::Table(all("", columns, rows))],
    }
}

fn cells(metric: &Metric, value: Option<Value>) -> Vec<Cell> {
    // The head has the unit.
    let bare = Metric::default();
    let of = if metric.is_time() { metric } else { &bare };
    let dash = || "-".to_owned();
    let mut cells = vec![text(value.map_or_else(dash, |it| of.text(it.value)))];
    if !metric.is_of_link {
        let interval = value.and_then(|it| it.interval);
        let words = |(low, high): (f64, f64)| format!("{} to {}", of.text(low), of.text(high));
        cells.push(text(interval.map_or_else(dash, words)));
    }
    cells
}

fn link(href: &str, words: &str) -> Cell {
    match href {
        "" => text(words),
        href => Cell::Link(href.to_owned(), words.to_owned()),
    }
}

/// A table that is shown whole.
fn all(caption: &str, columns: Vec<Column>, rows: Vec<Vec<Cell>>) -> Table {
    Table {
        caption: caption.to_owned(),
        columns,
        rows_narrow: rows.len(),
        rows,
        rest: String::new(),
        axis: None,
    }
}

/// Contours and cuts: a section for each metric, and one for what links carried.
pub(crate) fn drawn(of: &Points) -> Vec<Section> {
    let mut sections = Vec::new();
    for (number, metric) in of.metrics.iter().enumerate() {
        if metric.is_of_link {
            continue;
        }
        let mut blocks = contours(of, number);
        blocks.extend(cuts(of, number).into_iter().map(Block::Cuts));
        if !blocks.is_empty() {
            sections.push(Section {
                heading: metric.name.clone(),
                note: "Medians of each point's runs, with their intervals of 95 % as a band, from \
                       three runs on."
                    .to_owned(),
                blocks,
            });
        }
    }
    let of_links = { of.metrics.iter().enumerate() }.filter(|(_, metric)| metric.is_of_link);
    let pairs: Vec<Vec<Block>> = of_links
        .flat_map(|(number, _)| cuts(of, number))
        .map(|cuts| vec![Block::Cuts(cuts)])
        .collect();
    if !pairs.is_empty() {
        sections.push(Section {
            heading: "What the links carried".to_owned(),
            note: "From the certificates of the runs, while their longest node ran; use is of the \
                   rate that the link had."
                .to_owned(),
            blocks: vec![Block::Beside(pairs)],
        });
    }
    sections
}

/// Some of many, at equal distances, with both ends.
fn some(count: usize, most: usize) -> Vec<usize> {
    match count <= most {
        true => (0..count).collect(),
        false => (0..most).map(|at| at * (count - 1) / (most - 1)).collect(),
    }
}

/// The values of all axes but these, in the order of the points.
fn others(of: &Points, without: &[usize]) -> Vec<Vec<usize>> {
    let mut found = std::collections::BTreeSet::new();
    for point in &of.points {
        let mut place = point.place.clone();
        without.iter().for_each(|&axis| place[axis] = 0);
        found.insert(place);
    }
    found.into_iter().collect()
}

/// What was found of a metric at each value of an axis, where the others are as at a place.
fn along(of: &Points, metric: usize, axis: usize, place: &[usize]) -> Vec<Option<Value>> {
    let mut place = place.to_vec();
    let at = |value: usize| {
        place[axis] = value;
        let number = of.number(&place)?;
        of.points[number].values.get(metric).copied()?
    };
    (0..of.axes[axis].values.len()).map(at).collect()
}

fn cuts(of: &Points, metric: usize) -> Vec<Cuts> {
    let mut all = Vec::new();
    for (number, axis) in of.axes.iter().enumerate() {
        if axis.values.len() < 2 || all.len() >= DRAWINGS_MAX {
            continue;
        }
        let line = |place: &Vec<usize>| CutLine {
            name: of.place_text(place, &[number]),
            values: along(of, metric, number, place),
            law: of
                .law(metric, number, place)
                .map(<[_]>::to_vec)
                .unwrap_or_default(),
        };
        // A lab may leave points out.
        let measured = |place: &Vec<usize>| {
            let values = along(of, metric, number, place);
            values.iter().any(Option::is_some)
        };
        let mut places = others(of, &[number]);
        places.retain(measured);
        let chosen = some(places.len(), LINES_MAX);
        let lines: Vec<_> = chosen.iter().map(|at| line(&places[*at])).collect();
        if lines.is_empty() {
            continue;
        }
        all.push(Cuts {
            title: format!("{} over {}", of.metrics[metric].title(), axis.name),
            axis: axis.clone(),
            metric: of.metrics[metric].clone(),
            lines,
            rest: match places.len() - chosen.len() {
                0 => String::new(),
                _ => format!(
                    "{} of {} lines; the table of points has all.",
                    chosen.len(),
                    grouped(places.len() as u64)
                ),
            },
        });
    }
    all
}

/// Contours over the first two axes of numbers, for some values of the others.
fn contours(of: &Points, metric: usize) -> Vec<Block> {
    let numeric = of.axes.iter().enumerate();
    let mut numeric = numeric.filter(|(_, axis)| axis.numbers.is_some());
    let (Some((x, x_axis)), Some((y, y_axis))) = (numeric.next(), numeric.next()) else {
        return Vec::new();
    };
    let places = others(of, &[x, y]);
    let drawing = |at: usize| {
        let place = &places[at];
        let row = |value: usize| {
            let mut place = place.clone();
            place[x] = value;
            let values = along(of, metric, y, &place).into_iter();
            values.map(|value| Some(value?.value)).collect()
        };
        let name = of.metrics[metric].title();
        let drawn = Contours {
            title: match of.place_text(place, &[x, y]).as_str() {
                "" => format!("{name} over {} and {}", x_axis.name, y_axis.name),
                others => format!("{name} over {} and {}, {others}", x_axis.name, y_axis.name),
            },
            x: x_axis.clone(),
            y: y_axis.clone(),
            metric: of.metrics[metric].clone(),
            values: (0..x_axis.values.len()).map(row).collect(),
        };
        let is_measured = drawn.values.iter().flatten().any(Option::is_some);
        is_measured.then(|| vec![Block::Contours(drawn)])
    };
    let chosen = some(places.len(), DRAWINGS_MAX);
    let mut drawings: Vec<_> = chosen.into_iter().filter_map(drawing).collect();
    match drawings.len() {
        0 => Vec::new(),
        1 => drawings.remove(0),
        _ => vec![Block::Beside(drawings)],
    }
}
