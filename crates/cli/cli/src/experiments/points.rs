//! What a lab found, as `lineside_render` prints and draws it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lineside_lab::{Estimate, Fit, Results};
use lineside_render::points::{
    Asserted, Axis, Disturbed, Law, Metric, Point, Points, Ratio, Value,
};
use lineside_words::grouped;

use super::figures::Figures;
use super::traffic::Traffic;
use crate::print::json_text;

/// Steps of a law's curve between two values of its axis.
const STEPS: usize = 8;

/// A lab as text needs it.
pub(super) fn of_lab(of: &Figures) -> Points {
    let axes: Vec<Axis> = { of.axes.iter() }
        .map(|axis| Axis::new(axis.name.clone(), axis.values.clone()))
        .collect();
    let metrics = of.points.first().map_or(&[][..], |point| &point.metrics);
    let metrics: Vec<Metric> = { metrics.iter() }
        .map(|metric| Metric {
            name: metric.metric.clone(),
            unit: metric.unit.clone(),
            is_of_link: false,
        })
        .collect();
    let point = |point: &super::figures::Point| Point {
        place: place(&axes, &point.axes),
        folder: String::new(),
        runs: point.repeats,
        disturbed: point.disturbed,
        values: { point.metrics.iter() }
            .map(|metric| metric.estimate.and_then(value))
            .collect(),
    };
    let ratio = |change: &lineside_lab::Change| {
        let at = change.at.clone().unwrap_or_default();
        let words = axes
            .iter()
            .filter_map(|axis| Some((axis, at.get(&axis.name)?)));
        let words = words.map(|(axis, value)| format!("{}={value}", axis.name));
        Ratio {
            at: words.collect::<Vec<_>>().join(" "),
            metric: change.metric.clone(),
            pairs: change.pairs,
            ratio: change.ratio.and_then(value),
            state: change.state,
        }
    };
    let asserted = |each: &super::figures::Assertion| Asserted {
        state: each.state,
        what: format!("{}: {}", each.name, each.words),
        why: each.why.clone(),
    };
    Points {
        points: of.points.iter().map(point).collect(),
        laws: { of.fits.iter() }
            .filter_map(|fit| law(fit, &axes, &metrics))
            .collect(),
        sentences: { of.fits.iter() }
            .map(|fit| fit.place() + &fit.sentence)
            .collect(),
        assertions: of.assertions.iter().map(asserted).collect(),
        beside_first: of.beside_first.iter().map(ratio).collect(),
        axes,
        metrics,
        ..Points::default()
    }
}

/// The same with all that its page has: where the runs are and what their links carried.
pub(super) fn with_runs(
    of: &Figures,
    results: &Results,
    folder: &Path,
    beside: &str,
) -> anyhow::Result<Points> {
    let mut points = of_lab(of);
    let name = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    points.title = name.file_name().map_or_else(
        || "lab".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    );
    points.about = vec![format!(
        "{} of {} runs at {} points, seed {}",
        grouped(of.runs as u64),
        grouped(of.runs_planned as u64),
        grouped(of.points.len() as u64),
        of.seed
    )];
    if of.disturbed > 0 {
        let count = grouped(of.disturbed as u64);
        points
            .about
            .push(format!("{count} of them were disturbed in every attempt"));
    }
    let place = |point: usize, repeat: u32| format!("point={point}/repeat={repeat}");
    for run in &results.runs {
        if let Some(point) = points.points.get_mut(run.point - 1)
            && point.folder.is_empty()
        {
            point.folder = format!("{beside}{}/", place(run.point, run.repeat));
        }
        if run.is_disturbed() {
            points.disturbed.push(Disturbed {
                point: run.point,
                repeat: run.repeat,
                folder: format!("{beside}{}/", place(run.point, run.repeat)),
                why: run.reasons.first().cloned().unwrap_or_default(),
            });
        }
    }
    let mut traffic = Traffic::default();
    for run in &results.runs {
        traffic.add(run, &folder.join(place(run.point, run.repeat)));
    }
    traffic.describe(&mut points);
    points.file = results.lab.text.clone();
    points.footer = format!(
        "lab.json {}, written by lineside {}.",
        of.lab_version,
        env!("CARGO_PKG_VERSION")
    );
    points.json = json_text(of)?;
    Ok(points)
}

fn value(of: Estimate) -> Option<Value> {
    Value::finite(of.value, of.low.zip(of.high))
}

/// For each axis which of its values.
fn place(axes: &[Axis], at: &BTreeMap<String, String>) -> Vec<usize> {
    let number = |axis: &Axis| {
        let value = at.get(&axis.name);
        { axis.values.iter() }.position(|each| Some(each) == value)
    };
    axes.iter().map(|axis| number(axis).unwrap_or(0)).collect()
}

fn law(fit: &Fit, axes: &[Axis], metrics: &[Metric]) -> Option<Law> {
    let axis = axes.iter().position(|axis| axis.name == fit.over)?;
    let metric = metrics
        .iter()
        .position(|metric| metric.name == fit.metric)?;
    let mut numbers = axes[axis].numbers()?.to_vec();
    numbers.sort_by(f64::total_cmp);
    let between = numbers.windows(2).flat_map(|pair| {
        let step = (pair[1] - pair[0]) / STEPS as f64;
        (0..STEPS).map(move |at| pair[0] + step * at as f64)
    });
    let curve = between.chain(numbers.last().copied());
    let curve = curve.map(|x| Some((x, fit.at(x)?)));
    Some(Law {
        metric,
        axis,
        place: place(axes, &fit.at),
        curve: curve.collect::<Option<_>>()?,
    })
}

/// How a page leads to a folder, as the beginning of a link: relative, so that both can be moved
/// together.
pub(super) fn beside(page: &Path, folder: &Path) -> String {
    let parent = match page.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let (from, to) = (whole(parent), whole(folder));
    let common = { from.components().zip(to.components()) }.take_while(|(one, other)| one == other);
    let common = common.count();
    let up = from.components().skip(common).map(|_| "..");
    let down = to.components().skip(common);
    let path: PathBuf = { up.map(Path::new) }
        .chain(down.map(|part| Path::new(part.as_os_str())))
        .collect();
    let mut link = String::from("./");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' | b'=' => link.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => link.push(char::from(*byte)),
            byte => link.push_str(&format!("%{byte:02X}")),
        }
    }
    if !link.ends_with('/') {
        link.push('/');
    }
    link
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_relative_and_lead_to_no_other_scheme() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        std::fs::create_dir_all(path.join("a/javascript:1 \"<b>")).expect("made");
        let of = |page: &str, run: &str| beside(&path.join(page), &path.join(run));
        assert_eq!(of("page.html", "a"), "./a/");
        assert_eq!(of("a/page.html", "a"), "./");
        assert_eq!(
            of("page.html", "a/javascript:1 \"<b>"),
            "./a/javascript%3A1%20%22%3Cb%3E/"
        );
        std::fs::create_dir_all(path.join("b/c")).expect("made");
        assert_eq!(of("b/c/page.html", "a"), "./../../a/");
    }
}
