//! An emulated link: what its certificate holds, and what was drawn, in words.

use lineside_analyze::{Emulation, LINK_SETTINGS};
use lineside_measure::Spread;
use lineside_trace::certificate::link::{
    ChangeReport, ClockSteps, Delays, DirectionReport, StepReport,
};
use lineside_trace::certificate::run::LoopFacts;
use lineside_words::{bytes, grouped, signed_time};

use super::switch;
use crate::block::{Block, Cell, Fact, Kind, Section, Table, Verdict, column, fact};

/// The certificate in words.
pub(crate) fn sections(emulation: &Emulation) -> Vec<Section> {
    let verdict = Verdict::of_run(emulation.verdict, &emulation.reasons);
    let mut blocks = vec![Block::Verdict(verdict)];
    let link = &emulation.link;
    let mut facts = vec![fact("seed", link.seed.to_string(), String::new())];
    if !link.clock.is_empty() {
        facts.push(fact("clock", link.clock.clone(), String::new()));
    }
    let asked = emulation.asked.iter();
    facts.extend(asked.map(|(name, words)| fact(label(name), words.clone(), "asked".to_owned())));
    let steps = link.steps.iter();
    facts.extend(steps.map(|step| fact("step", step.words.clone(), step_counts(step))));
    facts.extend(clock_facts(&link.clock_steps));
    if let Some(polling) = &link.polling {
        facts.extend(loop_facts(polling));
    }
    blocks.push(Block::List(facts));
    let mut sections = vec![Section {
        heading: "Emulated link".to_owned(),
        note: String::new(),
        blocks,
    }];
    let directions = link.directions.iter();
    sections.extend(directions.map(|(name, direction)| direction_section(name, direction)));
    sections.extend(link.core.as_ref().map(switch::section));
    if !link.changes.is_empty() {
        sections.push(changes_section(&link.changes));
    }
    sections
}

/// What was changed, and what frames had until then.
fn changes_section(changes: &[ChangeReport]) -> Section {
    let columns = vec![
        column("after", Kind::Number),
        column("direction", Kind::Name),
        column("frames", Kind::Number),
        column("dropped", Kind::Number),
        column("mean", Kind::Number),
        column("p99", Kind::Number),
    ];
    let row = |change: &ChangeReport| {
        let realised = |of: fn(&Spread) -> i64| {
            let realised = change.delays.realised.as_ref();
            realised.map_or_else(|| "none".to_owned(), |times| signed(of(times)))
        };
        let cells = [
            change.after_ns.map(signed).unwrap_or_default(),
            change.direction.clone(),
            grouped(change.entered),
            grouped(change.dropped.total()),
            realised(|times| times.mean_ns as i64),
            realised(|times| times.p99_ns),
        ];
        cells.map(Cell::Text).into()
    };
    let rows: Vec<Vec<Cell>> = changes.iter().map(row).collect();
    let mut blocks = vec![Block::Table(Table {
        caption: "changes, and the delays until then".to_owned(),
        columns,
        rows_narrow: rows.len(),
        rows,
        rest: "delays of a direction above are those since its latest change".to_owned(),
        axis: None,
    })];
    blocks.extend(
        gathered(changes)
            .into_iter()
            .map(|each| Block::Text(each.text())),
    );
    Section {
        heading: "Changes of the link".to_owned(),
        note: String::new(),
        blocks,
    }
}

/// Equal changes of a direction.
pub(crate) struct Gathered<'a> {
    direction: &'a str,
    words: String,
    times_ns: Vec<i64>,
}

/// Equal changes together, in the order of the first of each.
pub(crate) fn gathered(changes: &[ChangeReport]) -> Vec<Gathered<'_>> {
    let mut all: Vec<Gathered<'_>> = Vec::new();
    for change in changes {
        let (direction, words) = (&*change.direction, change_words(change));
        let is_same =
            |each: &&mut Gathered<'_>| (each.direction, &each.words) == (direction, &words);
        match all.iter_mut().find(is_same) {
            Some(each) => each.times_ns.extend(change.after_ns),
            None => all.push(Gathered {
                direction,
                words,
                times_ns: change.after_ns.into_iter().collect(),
            }),
        }
    }
    all
}

impl Gathered<'_> {
    /// `outbound: link down (before: up), 20 times, at 1.00 s, 2.00 s, 3.00 s, ...`
    pub(crate) fn text(&self) -> String {
        const SHOWN: usize = 3;
        let times = { self.times_ns.iter().take(SHOWN) }.map(|&ns| signed(ns));
        let mut times: Vec<String> = times.collect();
        let count = match self.times_ns.len() {
            0 | 1 => String::new(),
            count => format!(", {} times", grouped(count as u64)),
        };
        if self.times_ns.len() > SHOWN {
            times.push("...".to_owned());
        }
        let Self {
            direction, words, ..
        } = self;
        format!("{direction}: {words}{count}, at {}", times.join(", "))
    }
}

/// `fired 20 times, 2 refused`
pub(crate) fn step_counts(step: &StepReport) -> String {
    let fired = match step.fired {
        0 => "never fired".to_owned(),
        1 => "fired once".to_owned(),
        count => format!("fired {} times", grouped(count)),
    };
    let more = [(step.refused, "refused"), (step.missed, "missed")];
    let more = more.into_iter().filter(|(count, _)| *count > 0);
    more.fold(fired, |text, (count, what)| {
        format!("{text}, {} {what}", grouped(count))
    })
}

/// Which settings are others from then on, and what they were.
fn change_words(change: &ChangeReport) -> String {
    let settings = change
        .before
        .by_name()
        .into_iter()
        .zip(change.after.by_name());
    let changed = settings.filter_map(|((name, before), (_, after))| {
        let [before, after] = [before, after].map(|word| word.unwrap_or("none"));
        (before != after).then(|| format!("{name} {after} (before: {before})"))
    });
    changed.collect::<Vec<_>>().join(", ")
}

/// When the wall clock was set.
fn clock_facts(steps: &ClockSteps) -> Vec<Fact> {
    let mut facts: Vec<Fact> = { steps.first.iter() }
        .map(|step| {
            let value = format!("by {}", signed(step.by_ns));
            let note = format!(
                "{} after the start: no frame was moved by that",
                signed(step.after_ns)
            );
            fact("clock was set", value, note)
        })
        .collect();
    let more = steps.count.saturating_sub(steps.first.len() as u64);
    if more > 0 {
        facts.push(fact(
            "clock was set",
            format!("{} times more", grouped(more)),
            String::new(),
        ));
    }
    facts
}

fn loop_facts(polling: &LoopFacts) -> Vec<Fact> {
    let mut facts = Vec::new();
    if let Some(floor_ns) = polling.floor_ns {
        let note = "what a frame took that nothing delayed".to_owned();
        facts.push(fact("floor", signed(floor_ns), note));
    }
    if let Some(found) = &polling.calibration {
        let note = format!("found by {}", found.method);
        facts.push(fact("calibrated", signed(found.floor_ns), note));
    }
    facts.push(fact(
        "lead",
        signed(polling.lead_ns),
        "it wakes so much early".to_owned(),
    ));
    facts.push(fact(
        "stalls",
        grouped(polling.stalls),
        format!(
            "of the machine, of more than 100 us; {} of more than 1 ms, {} the longest, {} together",
            grouped(polling.stalls_over_1ms),
            signed(polling.stall_max_ns),
            signed(polling.stalled_ns)
        ),
    ));
    if polling.dropped_at_start > 0 {
        let note = "came while it started, and were dropped".to_owned();
        facts.push(fact(
            "at the start",
            grouped(polling.dropped_at_start),
            note,
        ));
    }
    if let Some(tap) = &polling.tap {
        let dropped = tap.dropped_queue + tap.dropped_memory;
        let note = format!("{} could not be kept", grouped(dropped));
        facts.push(fact("tapped frames", grouped(tap.tapped), note));
    }
    facts
}

fn direction_section(name: &str, direction: &DirectionReport) -> Section {
    let mut blocks = vec![Block::List(facts(direction))];
    blocks.extend(delays_table(&direction.delays));
    let warnings = direction.warnings.iter();
    blocks.extend(warnings.map(|warning| Block::Text(warning.clone())));
    Section {
        heading: format!("Link {name}"),
        note: String::new(),
        blocks,
    }
}

/// The settings of a direction, and what became of its frames.
fn facts(direction: &DirectionReport) -> Vec<Fact> {
    let counters = &direction.counters;
    let frames = |count, len| format!("{} frames, {}", grouped(count), bytes(len));
    let mut facts = Vec::new();
    for (setting, words) in direction.settings.by_name() {
        let words = words.unwrap_or("none");
        if !["none", "up", "0%"].contains(&words) {
            facts.push(fact(label(setting), words.to_owned(), String::new()));
        }
    }
    let came = frames(counters.entered, counters.entered_bytes);
    facts.push(fact("came", came, String::new()));
    let left = frames(counters.released, counters.released_bytes);
    facts.push(fact("left", left, String::new()));
    for (label, counts) in [("dropped", dropped(direction)), ("late", late(direction))] {
        let counts: Vec<_> = { counts.into_iter().filter(|(count, _)| *count > 0) }
            .map(|(count, what)| format!("{} {what}", grouped(count)))
            .collect();
        if !counts.is_empty() {
            facts.push(fact(label, counts.join(", "), String::new()));
        }
    }
    if direction.held > 0 {
        let note = "at the end".to_owned();
        facts.push(fact("under way", grouped(direction.held), note));
    }
    facts.push(fact(
        "buffer",
        bytes(direction.rate_times_delay_bytes_max),
        "the bandwidth x delay that memory bears".to_owned(),
    ));
    facts
}

/// How delays were asked for, drawn and realised; `None` if no frame was delayed.
fn delays_table(delays: &Delays) -> Option<Block> {
    let names = ["mean", "deviation", "p1", "p50", "p99", "p99.9", "max"];
    let mut columns = vec![column("", Kind::Name)];
    columns.extend(names.map(|name| column(name, Kind::Number)));
    let rows: Vec<Vec<Cell>> = [
        ("asked", Some(&delays.asked)),
        ("drawn", delays.drawn.as_ref()),
        ("realised", delays.realised.as_ref()),
        ("live - virtual", delays.difference.as_ref()),
    ]
    .into_iter()
    .filter_map(|(name, times)| {
        let times = times.filter(|times| times.count > 0)?;
        // A constant delay needs one word.
        if times.deviation_ns == 0.0 && times.p01_ns == times.max_ns {
            let mut row = vec![
                Cell::Text(name.to_owned()),
                Cell::Text(signed(times.max_ns)),
            ];
            row.resize_with(names.len() + 1, || Cell::Text(String::new()));
            return Some(row);
        }
        let cells = [
            times.mean_ns as i64,
            times.deviation_ns as i64,
            times.p01_ns,
            times.p50_ns,
            times.p99_ns,
            times.p999_ns,
            times.max_ns,
        ];
        let mut row = vec![Cell::Text(name.to_owned())];
        row.extend(cells.map(|ns| Cell::Text(signed(ns))));
        Some(row)
    })
    .collect();
    if rows.is_empty() {
        return None;
    }
    Some(Block::Table(Table {
        caption: "delays".to_owned(),
        columns,
        rows_narrow: rows.len(),
        rows,
        rest: match delays.difference {
            Some(_) => "live - virtual: how much later a frame left than by the same link in \
            virtual time"
                .to_owned(),
            None => String::new(),
        },
        axis: None,
    }))
}

/// Frames that were dropped, and why.
pub(crate) fn dropped(direction: &DirectionReport) -> Vec<(u64, String)> {
    let why = |reason: &str| match reason {
        "down" => "while the link was down".to_owned(),
        "memory" => "because memory was full".to_owned(),
        "interface" => "due at an interface that was down".to_owned(),
        reason => format!("by {reason}"),
    };
    let dropped = direction.counters.dropped.by_name();
    { dropped.into_iter() }
        .map(|(reason, count)| (count, why(reason)))
        .collect()
}

/// Frames that left late, and by how much, the latest first.
fn late(direction: &DirectionReport) -> Vec<(u64, String)> {
    let late = &direction.delays.late;
    let late = [
        (late.over_1000us, "1 ms"),
        (late.over_100us, "100 us"),
        (late.over_10us, "10 us"),
        (late.over_1us, "1 us"),
    ];
    late.map(|(count, bound)| (count, format!("by more than {bound}")))
        .into()
}

/// The names of settings are ours.
fn label(setting: &str) -> &'static str {
    let known = LINK_SETTINGS.iter().find(|name| **name == setting);
    known.copied().unwrap_or("other")
}

pub(crate) fn signed(ns: i64) -> String {
    signed_time(ns as f64)
}

#[cfg(test)]
mod tests {
    use lineside_measure::LateCounts;

    use super::*;

    #[test]
    fn a_clock_that_was_set_is_reported() {
        let steps = r#"{"count": 3, "first": [{"after_ns": 2000000000, "by_ns": -4000000000}]}"#;
        let mut emulation = Emulation::default();
        emulation.link.clock_steps = serde_json::from_str(steps).expect("as certificates have it");
        let sections = sections(&emulation);
        let Some(Block::List(facts)) = sections[0].blocks.last() else {
            panic!("a list of facts");
        };
        let set = facts.iter().filter(|fact| fact.label == "clock was set");
        let set: Vec<_> = set.map(|fact| (&*fact.value, &*fact.note)).collect();
        assert_eq!(
            set,
            [
                (
                    "by -4.00 s",
                    "2.00 s after the start: no frame was moved by that"
                ),
                ("2 times more", "")
            ]
        );
    }

    #[test]
    fn counts_are_written_in_words() {
        let mut direction = DirectionReport::default();
        let dropped = &mut direction.counters.dropped;
        (dropped.limit, dropped.down) = (536, 2);
        direction.delays.late = LateCounts {
            over_1000us: 406,
            over_100us: 843,
            over_10us: 0,
            over_1us: 900,
        };
        let section = direction_section("outbound", &direction);
        let Some(Block::List(facts)) = section.blocks.first() else {
            panic!("what was counted comes first");
        };
        for (label, words) in [
            ("dropped", "2 while the link was down, 536 by limit"),
            (
                "late",
                "406 by more than 1 ms, 843 by more than 100 us, 900 by more than 1 us",
            ),
        ] {
            let fact = facts.iter().find(|fact| fact.label == label);
            assert_eq!(fact.expect(label).value, words);
        }
    }
}
