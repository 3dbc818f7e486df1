//! The certificate of an emulated link on the first screen.

use lineside_analyze::{EmulatedDirection, EmulatedTimes, Emulation, EmulationLoop};
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
    for (name, direction) in &emulation.directions {
        lines.extend(direction_lines(name, direction));
    }
    lines.extend(emulation.core.as_ref().map(|core| {
        let parts = [
            format!("{} frames came", grouped(core.came)),
            format!("{} to one port", grouped(core.forwarded)),
            format!("{} to all others", grouped(core.flooded)),
        ];
        line(&core.kind, parts)
    }));
    let steps = emulation.steps.iter();
    let steps = steps.map(|step| {
        long(line(
            "step",
            [format!("{}: {}", step.words, step_counts(step))],
        ))
    });
    lines.extend(few(steps.collect(), "step"));
    let changes = gathered(&emulation.changes);
    let changes = { changes.iter() }.map(|each| long(line("changed", [each.text()])));
    lines.extend(few(changes.collect(), "changed"));
    if emulation.clock_steps.count > 0 {
        let times = grouped(emulation.clock_steps.count);
        let text = format!("was set {times} times: no frame was moved by that");
        lines.push(line("clock", [text]));
    }
    lines.extend(emulation.polling.as_ref().map(loop_line));
    lines.push(line("seed", [emulation.seed.to_string()]));
    lines.retain(|line| !line.parts.is_empty());
    lines
}

fn direction_lines(name: &str, direction: &EmulatedDirection) -> Vec<Line> {
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
    let settings = direction.settings.iter().filter_map(|(setting, words)| {
        let words = words.as_deref()?;
        let is_news = !["none", "up", "0%"].contains(&words);
        is_news.then(|| format!("{setting} {words}"))
    });
    let mut lines = vec![long(line(name, counts)), long(line("  asked", settings))];
    for (label, times) in [
        ("  realised", &direction.realised),
        ("  late", &direction.difference),
    ] {
        lines.extend(times.as_ref().map(|times| line(label, parts(times))));
    }
    let warnings =
        { direction.warnings.iter() }.map(|warning| long(alarm("  warning", [warning.clone()])));
    lines.extend(few(warnings.collect(), "  warning"));
    lines
}

/// The quantiles, or the one time that all have.
fn parts(times: &EmulatedTimes) -> Vec<String> {
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

fn loop_line(polling: &EmulationLoop) -> Line {
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
    use lineside_analyze::EmulationChange;

    use super::*;

    #[test]
    fn equal_changes_are_gathered() {
        let words = |word: &str| {
            let words = [("link".to_owned(), Some(word.to_owned()))];
            words.into_iter().collect()
        };
        let change = |at: i64, before: &str, after: &str| EmulationChange {
            after_ns: Some(at * 1_000_000_000),
            direction: "outbound".to_owned(),
            before: words(before),
            after: words(after),
            ..EmulationChange::default()
        };
        let flaps = (1..=20).map(|at| match at % 2 {
            0 => change(at, "down", "up"),
            _ => change(at, "up", "down"),
        });
        let emulation = Emulation {
            changes: flaps.collect(),
            ..Emulation::default()
        };
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
        let times = EmulatedTimes {
            count: 9,
            mean_ns: 1e7,
            p01_ns: 10_000_000,
            p50_ns: 10_000_000,
            p99_ns: 10_000_000,
            p999_ns: 10_000_000,
            max_ns: 10_000_000,
            ..EmulatedTimes::default()
        };
        assert_eq!(parts(&times), ["10.0 ms"]);
        let varied = EmulatedTimes {
            max_ns: 11_000_000,
            ..times
        };
        assert_eq!(parts(&varied).len(), 4);
    }
}
