//! What a lab is, and what it ran on, in a few lines.

use std::fmt::Write;
use std::path::Path;

use lineside_lab::{Experiment, Order, Results, facts_in, facts_of_run};
use lineside_words::{escape, time};
use serde_json::json;

use crate::exit::Exit;
use crate::print::{print, print_json};

/// Prints it.
pub(crate) fn info(folder: &Path, is_json: bool) -> anyhow::Result<Exit> {
    let results = Results::read(folder)?;
    let (lab, facts) = (&results.lab, facts_in(folder));
    let moved = { results.runs.iter() }
        .filter(|run| facts_of_run(folder, run).moved().next().is_some())
        .count();
    let elapsed_ns: u64 = results.runs.iter().map(|run| run.elapsed_ns).sum();
    if is_json {
        let axes = lab.sweep.iter().map(|axis| (&axis.name, &axis.values));
        print_json(&json!({
            "seed": lab.seed,
            "nodes": lab.nodes.iter().map(|node| (&node.name, &node.run)).collect::<Vec<_>>(),
            "links": lab.links.iter().map(|link| &link.name).collect::<Vec<_>>(),
            "axes": axes.collect::<Vec<_>>(),
            "metrics": lab.metrics().map(|metric| &metric.name).collect::<Vec<_>>(),
            "runs": results.runs.len(),
            "runs_planned": results.planned(),
            "disturbed": results.disturbed(),
            "facts_moved": moved,
            "elapsed_ns": elapsed_ns,
            "facts": facts,
        }))?;
        return Ok(Exit::Done);
    }
    let mut out = described(lab);
    let _ = writeln!(
        out,
        "runs         {} of {}, in {}; {} disturbed in every attempt",
        results.runs.len(),
        results.planned(),
        time(elapsed_ns),
        results.disturbed()
    );
    if moved > 0 {
        let _ = writeln!(
            out,
            "             facts were others in {moved} runs: facts.json of each"
        );
    }
    out += "\n";
    out += &lineside_render::facts(&facts);
    print(&out)?;
    Ok(Exit::Done)
}

/// What an experiment is, in lines.
fn described(lab: &Experiment) -> String {
    let mut out = String::new();
    let order = match lab.order {
        Order::Random => "random",
        Order::Paired => "paired",
    };
    let points = lab.points();
    let repeats = match lab.width {
        None => lab.repeats.to_string(),
        Some(_) => format!("{} to {}", lab.repeats_least, lab.repeats),
    };
    let _ = writeln!(
        out,
        "lab          {points} points, {repeats} repeats, {order} order, seed {}",
        lab.seed
    );
    for node in &lab.nodes {
        let run = escape(&node.run.trim().replace('\n', "; "));
        let _ = writeln!(out, "node         {}: {run}", escape(&node.name));
    }
    for link in &lab.links {
        let names = link
            .between
            .iter()
            .map(|node| lab.nodes[*node].name.as_str());
        let names: Vec<_> = names.collect();
        let (link, names) = (escape(&link.name), escape(&names.join(", ")));
        let _ = writeln!(out, "link         {link}: {names}");
    }
    for axis in &lab.sweep {
        let (name, values) = (escape(&axis.name), escape(&axis.values.join(" ")));
        let _ = writeln!(out, "axis         {name}: {values}");
    }
    let metrics: Vec<_> = lab.metrics().map(|metric| metric.name.as_str()).collect();
    let _ = writeln!(out, "metrics      {}", metrics.join(", "));
    out
}
