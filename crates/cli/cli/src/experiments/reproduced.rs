//! A lab that was run again, as text.

use std::fmt::Write;

use lineside_lab::{Differing, Estimate, Experiment, MetricAgain, Reproduced};
use lineside_render::slow::table;
use lineside_words::{escape, number, percent};

/// What is reproduced, and which facts differ.
pub(crate) fn text(of: &Reproduced, lab: &Experiment) -> String {
    let heading = [
        ("POINT", false),
        ("METRIC", false),
        ("THERE", true),
        ("HERE", true),
        ("HERE TO THERE", true),
        ("95 %", true),
        ("", false),
    ];
    let rows = of.points.iter().flat_map(|point| {
        let axes = escape(&super::print::axes(lab, &point.axes));
        point.metrics.iter().map(move |metric| row(&axes, metric))
    });
    let mut out = table(&heading, &rows.collect::<Vec<_>>());
    let (all, reproduced) = (of.points.len(), of.count("reproduced"));
    let (differ, undecided) = (of.count("differs"), of.count("undecided"));
    let threshold = percent(of.threshold);
    let _ = writeln!(
        out,
        "\n{reproduced} of {all} points are reproduced: the intervals of all metrics are within \
         {threshold}; {differ} differ by more; {undecided} cannot be told"
    );
    out += &facts(&of.facts);
    out
}

fn row(axes: &str, of: &MetricAgain) -> Vec<String> {
    let value = |of: Option<Estimate>| of.map_or_else(|| "-".to_owned(), |it| number(it.value));
    let ratio = of.ratio.map(|it| format!("{:.3}", it.value));
    let interval = of.ratio.and_then(|it| it.low.zip(it.high));
    let interval = interval.map(|(low, high)| format!("{low:.3} to {high:.3}"));
    let why = of.why.iter().map(|why| format!(": {why}"));
    vec![
        axes.to_owned(),
        of.metric.clone(),
        value(of.there),
        value(of.here),
        ratio.unwrap_or_else(|| "-".to_owned()),
        interval.unwrap_or_else(|| "-".to_owned()),
        of.state.to_owned() + &why.collect::<String>(),
    ]
}

/// Facts that differ, two lines each.
fn facts(of: &[Differing]) -> String {
    if of.is_empty() {
        return "No fact of the systems differs.\n".to_owned();
    }
    let mut out = "\nFacts that differ:\n".to_owned();
    for differing in of {
        let value = |of: &Option<String>| of.as_deref().map_or_else(|| "-".to_owned(), escape);
        let _ = writeln!(out, "  {}", escape(&differing.fact));
        let _ = writeln!(out, "    there {}", value(&differing.one));
        let _ = writeln!(out, "    here  {}", value(&differing.other));
    }
    out
}
