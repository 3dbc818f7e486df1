//! The certificate of an emulated link on the first screen.

use lineside_analyze::Emulation;
use lineside_measure::Spread;
use lineside_trace::certificate::link::DirectionReport;
use lineside_trace::certificate::run::LoopFacts;
use lineside_words::{grouped, time};

use super::link::{dropped, gathered, signed, step_counts};
use crate::block::{Line, alarm, line};

/// Entries of a kind that are shown; the others are counted.
const SHOWN: usize = 4;

/// The certificate in lines, the most telling first.
pub(crate) fn summary(emulation: &Emulation) -> Vec<Line> {
    let asked = emulation
        .asked
        .iter()
        .map(|(name, words)| format!("{name} {words}"));
    let mut lines = vec![long(line("asked", asked))];
    let link = &emulation.link;
    for (name, direction) in &link.directions {
        lines.extend(direction_lines(name, direction));
    }
    lines.extend(link.core.as_ref().map(|core| {
        let parts = [
            format!("{} frames came", grouped(core.came)),
            format!("{} to one port", grouped(core.forwarded)),
            format!("{} to all others", grouped(core.flooded)),
        ];
        line(&core.kind, parts)
    }));
    let steps = link.steps.iter();
    let steps = steps.map(|step| {
        long(line(
            "step",
            [format!("{}: {}", step.words, step_counts(step))],
        ))
    });
    lines.extend(few(steps.collect(), "step"));
    let changes = gathered(&link.changes);
    let changes = { changes.iter() }.map(|each| long(line("changed", [each.text()])));
    lines.extend(few(changes.collect(), "changed"));
    if link.clock_steps.count > 0 {
        let times = grouped(link.clock_steps.count);
        let text = format!("was set {times} times: no frame was moved by that");
        lines.push(line("clock", [text]));
    }
    lines.extend(link.polling.as_ref().map(loop_line));
    lines.push(line("seed", [link.seed.to_string()]));
    lines.retain(|line| !line.parts.is_empty());
    lines
}

fn direction_lines(name: &str, direction: &DirectionReport) -> Vec<Line> {
    let counters = &direction.counters;
    let dropped = dropped(direction)
        .into_iter()
        .filter(|(count, _)| *count > 0);
    let dropped = dropped.map(|(count, why)| format!("{} dropped {why}", grouped(count)));
    let under_way = match direction.held {
        0 => String::new(),
        held => format!("{} under way at the end", grouped(held)),
    };
    let counts = [
        format!("{} frames came", grouped(counters.entered)),
        format!("{} left", grouped(counters.released)),
    ];
    let counts = counts.into_iter().chain(dropped).chain([under_way]);
    let settings = direction.settings.by_name().into_iter();
    let settings = settings.filter_map(|(setting, words)| {
        let words = words?;
        let is_news = !["none", "up", "0%"].contains(&words);
        is_news.then(|| format!("{setting} {words}"))
    });
    let mut lines = vec![long(line(name, counts)), long(line("  asked", settings))];
    for (label, times) in [
        ("  realised", &direction.delays.realised),
        ("  late", &direction.delays.difference),
    ] {
        lines.extend(times.as_ref().map(|times| line(label, parts(times))));
    }
    let warnings =
        { direction.warnings.iter() }.map(|warning| long(alarm("  warning", [warning.clone()])));
    lines.extend(few(warnings.collect(), "  warning"));
    lines
}

/// The quantiles, or the one time that all have.
fn parts(times: &Spread) -> Vec<String> {
    if times.deviation_ns == 0.0 && times.p01_ns == times.max_ns {
        return vec![signed(times.max_ns)];
    }
    let quantiles = [
        ("p50", times.p50_ns),
        ("p99", times.p99_ns),
        ("p99.9", times.p999_ns),
        ("max", times.max_ns),
    ];
    quantiles
        .map(|(name, ns)| format!("{name} {}", signed(ns)))
        .to_vec()
}

fn loop_line(polling: &LoopFacts) -> Line {
    let longest = match polling.stalls {
        0 => String::new(),
        _ => format!(
            "{} the longest",
            time(polling.stall_max_ns.max(0).unsigned_abs())
        ),
    };
    let floor = polling
        .floor_ns
        .map(|ns| format!("a frame takes {} at least", signed(ns)));
    let dropped = match polling.dropped_at_start {
        0 => String::new(),
        count => format!("{} frames dropped at the start", grouped(count)),
    };
    let stalls = format!("{} stalls over 100 us", grouped(polling.stalls));
    line(
        "loop",
        [stalls, longest, floor.unwrap_or_default(), dropped],
    )
}

/// A line that may take two where there is room.
fn long(line: Line) -> Line {
    Line {
        lines_max: 2,
        ..line
    }
}

/// The first few lines, and how many there are beside them.
fn few(mut lines: Vec<Line>, label: &str) -> Vec<Line> {
    let more = lines.len().saturating_sub(SHOWN);
    if more > 0 {
        lines.truncate(SHOWN);
        lines.push(line(label, [format!("{} more", grouped(more as u64))]));
    }
    lines
}

#[cfg(test)]
mod tests {
    use lineside_trace::certificate::link::{ChangeReport, SettingsWords};

    use super::*;

    #[test]
    fn equal_changes_are_gathered() {
        let words = |word: &str| SettingsWords {
            link: word.to_owned(),
            ..SettingsWords::default()
        };
        let change = |at: i64, before: &str, after: &str| ChangeReport {
            after_ns: Some(at * 1_000_000_000),
            direction: "outbound".to_owned(),
            before: words(before),
            after: words(after),
            ..ChangeReport::default()
        };
        let flaps = (1..=20).map(|at| match at % 2 {
            0 => change(at, "down", "up"),
            _ => change(at, "up", "down"),
        });
        let mut emulation = Emulation::default();
        emulation.link.changes = flaps.collect();
        let lines = summary(&emulation);
        let changed: Vec<_> = { lines.iter() }
            .filter(|line| line.label == "changed")
            .map(|line| line.parts.join(", "))
            .collect();
        assert_eq!(
            changed,
            [
                "outbound: link down (before: up), 10 times, at 1.00 s, 3.00 s, 5.00 s, ...",
                "outbound: link up (before: down), 10 times, at 2.00 s, 4.00 s, 6.00 s, ..."
            ]
        );
    }

    #[test]
    fn a_constant_delay_is_one_time() {
        let times = Spread::of(vec![(10_000_000, 9)]);
        assert_eq!(parts(&times), ["10.0 ms"]);
        let varied = Spread::of(vec![(10_000_000, 8), (11_000_000, 1)]);
        assert_eq!(parts(&varied).len(), 4);
    }
}
