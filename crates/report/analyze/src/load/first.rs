//! The certificate of a load on the first screen.

use super::{LoadReport, LoadTimes};
use crate::numbers::time;
use crate::page::{Line, line};

/// Operations whose times are shown; `--full` has all.
const OPERATIONS_MAX: usize = 3;

/// The certificate in lines, the most telling first.
pub(crate) fn first(load: &LoadReport) -> Vec<Line> {
    let mut lines = vec![
        line("load", [load.server()]),
        line("", [load.asked.model()]),
    ];
    lines.extend(load.offered().map(|parts| line("offered", parts)));
    lines.push(line("answered", load.answered()));
    for (label, words) in load.counts() {
        lines.push(line(label, [words]));
    }
    let times = load.times();
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
        lines.push(line(name, times.parts()));
        if shown == OPERATIONS_MAX && is_operation(name) && operations > shown {
            lines.push(line(
                "",
                [format!("{} more operations", operations - shown)],
            ));
        }
    }
    let mut lead = "generator";
    for words in load.generator.words() {
        lines.push(line(lead, [words]));
        lead = "";
    }
    for line in &mut lines {
        line.lines_max = 2;
    }
    lines
}

impl LoadTimes {
    fn parts(&self) -> Vec<String> {
        self.all()
            .map(|(name, ns)| format!("{name} {}", time(ns)))
            .to_vec()
    }
}
