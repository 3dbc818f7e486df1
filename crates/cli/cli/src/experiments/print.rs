//! A lab as text.

use std::fmt::Write;
use std::path::Path;

use lineside_analyze::{Assertion, Zone};
use lineside_lab::{Change, Compared, Experiment, PointRun, Results};
use lineside_render::points::Points;
use lineside_render::slow::table;
use lineside_render::terminal;
use lineside_words::{escape, number, percent, time};

use super::figures::Figures;
use crate::print::style;

/// The points and their order, before anything runs.
pub(crate) fn plan(lab: &Experiment, folder: &Path) -> String {
    let order = lab.order();
    let least = lab.points() * lab.repeats_least as usize;
    let (times, runs) = match &lab.width {
        None => (lab.repeats.to_string(), order.len().to_string()),
        Some(width) => (
            format!(
                "{} to {} times, until intervals of 95 % of {} are within {}",
                lab.repeats_least,
                lab.repeats,
                width.metric.as_deref().unwrap_or("all metrics"),
                percent(width.share)
            ),
            format!("{least} to {}", order.len()),
        ),
    };
    let times = times + if lab.width.is_none() { " times" } else { "" };
    let mut out = format!("{} points, each {times}: {runs} runs\n", lab.points());
    for step in lab.installs() {
        let _ = writeln!(out, "install: {}", escape(step));
    }
    let known = Results::read(folder).ok();
    let took: Vec<u64> = { known.iter().flat_map(|known| &known.runs) }
        .map(|run| run.elapsed_ns)
        .collect();
    let all_ns = took.iter().sum::<u64>().checked_div(took.len() as u64);
    let _ = match all_ns {
        Some(each_ns) => {
            let most = time(each_ns * order.len() as u64);
            let all = match lab.width {
                Some(_) => format!("{} to {most}", time(each_ns * least as u64)),
                None => most,
            };
            let (count, each) = (took.len(), time(each_ns));
            writeln!(
                out,
                "time: {all}, as {count} runs of before took {each} each"
            )
        }
        None => writeln!(out, "time: that of the commands, and about 0.3 s a run"),
    };
    for planned in order {
        let words = axes(lab, &lab.values(planned.point));
        let (point, repeat) = (planned.point, planned.repeat);
        let _ = writeln!(out, "point {point} repeat {repeat}  {words}");
    }
    out
}

/// The values of axes in the order of the file.
pub(super) fn axes(
    lab: &Experiment,
    values: &std::collections::BTreeMap<String, String>,
) -> String {
    let words = lab.sweep.iter().filter_map(|axis| {
        let value = values.get(&axis.name)?;
        Some(format!("{}={value}", axis.name))
    });
    words.collect::<Vec<_>>().join(" ")
}

fn place(lab: &Experiment, run: &PointRun) -> String {
    let words = axes(lab, &run.axes);
    let words = if words.is_empty() {
        words
    } else {
        format!(" {words}")
    };
    format!(
        "point {} of {}{words}, repeat {}",
        run.point,
        lab.points(),
        run.repeat
    )
}

/// A run that was measured, in a line.
pub(crate) fn measured(lab: &Experiment, run: &PointRun) -> String {
    let metrics = lab.metrics().filter_map(|metric| {
        let value = run.metrics.get(&metric.name)?;
        Some(format!(
            "{} {}",
            metric.name,
            with_unit(*value, &metric.unit)
        ))
    });
    let metrics: Vec<_> = metrics.collect();
    format!(
        "{}: {}, in {}",
        place(lab, run),
        metrics.join(", "),
        time(run.elapsed_ns)
    )
}

/// A run that is run again, in a line.
pub(crate) fn again(lab: &Experiment, run: &PointRun) -> String {
    let why = run.reasons.first().map(String::as_str).unwrap_or_default();
    format!("{}: disturbed, once more: {why}", place(lab, run))
}

fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        "" => number(value),
        unit => format!("{} {unit}", number(value)),
    }
}

/// What was found.
pub(crate) fn text(of: &Figures, folder: &Path) -> String {
    let mut out = points(&super::points::of_lab(of));
    let _ = writeln!(
        out,
        "\n{} of {} runs in {}",
        of.runs,
        of.runs_planned,
        escape(&folder.display().to_string())
    );
    out
}

/// Points of a lab or of a prediction.
pub(crate) fn points(of: &Points) -> String {
    terminal::points(of, &style(Zone::default()))
}

/// Ratios, a line each.
fn changes(of: &[Change], heading: &str, at: impl Fn(&Change) -> String) -> String {
    let heading = [
        ("POINT", false),
        ("METRIC", false),
        ("PAIRS", true),
        (heading, true),
        ("95 %", true),
        ("", false),
    ];
    let row = |change: &Change| {
        let ratio = change
            .ratio
            .map_or_else(|| "-".to_owned(), |it| format!("{:.3}", it.value));
        let interval = change.ratio.and_then(|it| it.low.zip(it.high));
        let interval = interval.map(|(low, high)| format!("{low:.3} to {high:.3}"));
        vec![
            escape(&at(change)),
            change.metric.clone(),
            change.pairs.to_string(),
            ratio,
            interval.unwrap_or_else(|| "-".to_owned()),
            change.state.to_owned(),
        ]
    };
    let rows: Vec<_> = of.iter().map(row).collect();
    table(&heading, &rows)
}

/// Two labs, compared.
pub(crate) fn compared(of: &Compared, lab: &Experiment) -> String {
    let mut out = changes(&of.changes, "B TO A", |change| {
        let at = change.at.as_ref().map(|at| axes(lab, at));
        at.unwrap_or_else(|| "all".to_owned())
    });
    let (both, all) = of.points;
    let noise = of.noise.map(|noise| {
        format!(
            ", and beyond {}, by which A differs from itself",
            percent(noise)
        )
    });
    let _ = writeln!(
        out,
        "\n{both} of {all} points are in both; a change counts beyond {}{}",
        percent(of.threshold),
        noise.unwrap_or_default()
    );
    out
}

/// Each metric at each point as an assertion: that it is not worse.
pub(super) fn cases(of: &Compared, lab: &Experiment) -> Vec<Assertion> {
    let case = |change: &Change| {
        let at = change.at.as_ref().map(|at| axes(lab, at));
        let ratio = change.ratio.map(|it| it.value);
        let interval = change.ratio.and_then(|it| it.low.zip(it.high));
        let words = match (ratio, interval) {
            (Some(ratio), Some((low, high))) => format!("{ratio:.3}, {low:.3} to {high:.3}"),
            (Some(ratio), None) => format!("{ratio:.3}, without an interval"),
            (None, _) => "no pair".to_owned(),
        };
        Assertion {
            assertion: format!(
                "{} {}",
                change.metric,
                at.unwrap_or_else(|| "all".to_owned())
            ),
            holds: !matches!(change.state, "worse" | "undecided"),
            undecided: change.state == "undecided",
            value: ratio,
            bound: of.threshold,
            operations: change.pairs as u64,
            what: format!(
                "{}: B to A is {words} ({} pairs)",
                change.state, change.pairs
            ),
        }
    };
    of.changes.iter().map(case).collect()
}

/// What there is to say of runs that were disturbed.
pub(crate) fn disturbed(of: &Figures) -> String {
    format!(
        "{} of {} runs were disturbed in every attempt: their times may be this machine's, not the \
        link's; point.json of each says why",
        of.disturbed, of.runs
    )
}
