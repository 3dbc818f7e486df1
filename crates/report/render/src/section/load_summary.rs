//! The certificate of a load on the first screen.

use lineside_analyze::LoadReport;
use lineside_trace::certificate::load::Quantiles;
use lineside_words::time;

use super::load::{answered, counts, generator_words, model, offered, quantiles, server, times};
use crate::block::{Line, line};

/// Operations whose times are shown; `--full` has all.
const OPERATIONS_MAX: usize = 3;

/// The certificate in lines, the most telling first.
pub(crate) fn summary(load: &LoadReport) -> Vec<Line> {
    let load = &load.found;
    let mut lines = vec![line("load", [server(load)]), line("", [model(&load.asked)])];
    lines.extend(offered(load).map(|parts| line("offered", parts)));
    lines.push(line("answered", answered(load)));
    for (label, words) in counts(load) {
        lines.push(line(label, [words]));
    }
    let times = times(load);
    let is_operation = |name: &str| { load.operations.keys() }.any(|key| name.trim_start() == key);
    let operations = times.iter().filter(|(name, _)| is_operation(name)).count();
    let mut shown = 0;
    for (name, times) in &times {
        if is_operation(name) {
            shown += 1;
            if shown > OPERATIONS_MAX {
                continue;
            }
        }
        lines.push(line(name, parts(times)));
        if shown == OPERATIONS_MAX && is_operation(name) && operations > shown {
            lines.push(line(
                "",
                [format!("{} more operations", operations - shown)],
            ));
        }
    }
    let mut lead = "generator";
    for words in generator_words(&load.generator) {
        lines.push(line(lead, [words]));
        lead = "";
    }
    for line in &mut lines {
        line.lines_max = 2;
    }
    lines
}

fn parts(times: &Quantiles) -> Vec<String> {
    quantiles(times)
        .map(|(name, ns)| format!("{name} {}", time(ns)))
        .to_vec()
}
