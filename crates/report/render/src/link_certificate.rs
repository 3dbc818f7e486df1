//! The certificate of an emulated link, all of it, as lines of text.

use std::fmt::Write;

use lineside_link::Drops;
use lineside_measure::Spread;
use lineside_trace::certificate::Judged;
use lineside_trace::certificate::link::{
    ChangeReport, ClockSteps, CoreReport, DirectionReport, FiringEvent, Link, MatchReport,
    SettingsWords,
};
use lineside_trace::certificate::run::LoopFacts;
use lineside_words::{bytes, grouped, number, signed_time, time};

use crate::lines::{spread_text, verdict_lines};

/// The whole certificate; `directions` in the order of their numbers.
pub fn link_certificate<'a>(
    certificate: &Judged<Link>,
    directions: impl Iterator<Item = (&'a str, &'a DirectionReport)>,
) -> String {
    let mut out = String::new();
    for (name, report) in directions {
        let (words, counters) = (&report.settings, &report.counters);
        let _ = writeln!(
            out,
            "{name:<12} {} frames in, {}; {} out, {}",
            grouped(counters.entered),
            bytes(counters.entered_bytes),
            grouped(counters.released),
            bytes(counters.released_bytes)
        );
        let changes: Vec<_> = { certificate.changes.iter() }
            .filter(|change| change.direction == name)
            .collect();
        count_lines(report, &changes, &mut out);
        let _ = writeln!(out, "  delay      {}", words.delay);
        if let Some(rate) = &words.rate {
            let _ = writeln!(out, "  rate       {rate}, limit {}", words.limit);
        }
        if let Some(path) = &words.path {
            let _ = writeln!(out, "  path       {path}, limit {}", words.limit);
        }
        delay_lines(report, &mut out);
        for warning in &report.warnings {
            let _ = writeln!(out, "             {warning}");
        }
        change_lines(&changes, &mut out);
    }
    if let Some(core) = &certificate.core {
        core_lines(core, &mut out);
    }
    step_lines(certificate, &mut out);
    clock_lines(&certificate.clock_steps, &mut out);
    let _ = writeln!(out, "seed         {}", certificate.seed);
    verdict_lines(&certificate.verdict, &mut out);
    if let Some(facts) = &certificate.polling {
        loop_lines(facts, &mut out);
    }
    out
}

/// What frames had until each change; changes with equal delays are gathered.
fn change_lines(changes: &[&ChangeReport], out: &mut String) {
    let words = |change: &ChangeReport| {
        let realised = change.delays.realised.as_ref().map(spread_text);
        let asked = spread_text(&change.delays.asked);
        (change.before.delay.clone(), asked, realised)
    };
    let mut groups: Vec<(_, Vec<&ChangeReport>)> = Vec::new();
    for &change in changes {
        let words = words(change);
        match groups.iter_mut().find(|(known, _)| *known == words) {
            Some((_, group)) => group.push(change),
            None => groups.push((words, vec![change])),
        }
    }
    for ((delay, asked, realised), group) in groups {
        let after = group
            .last()
            .and_then(|change| change.after_ns)
            .unwrap_or_default();
        let count = match group.len() {
            1 => String::new(),
            count => format!("{} changes, ", grouped(count as u64)),
        };
        let _ = writeln!(
            out,
            "  {count}until {} after the start: {} frames had come, {} were dropped; delay {delay}",
            time(after.max(0).cast_unsigned()),
            grouped(group.iter().map(|change| change.entered).sum()),
            grouped(group.iter().map(|change| change.dropped.total()).sum())
        );
        let _ = writeln!(out, "  {:<10} {asked}", "asked");
        if let Some(realised) = realised {
            let _ = writeln!(out, "  {:<10} {realised}", "realised");
        }
    }
}

/// What steps did.
fn step_lines(certificate: &Link, out: &mut String) {
    const SHOWN: usize = 3;
    for (number, step) in certificate.steps.iter().enumerate() {
        let of_step = { certificate.firings.iter() }
            .filter(|firing| firing.step == number + 1 && firing.event == FiringEvent::Fired);
        let mut at: Vec<_> = { of_step.take(SHOWN) }
            .map(|firing| time(firing.after_ns.max(0).cast_unsigned()))
            .collect();
        if step.fired > SHOWN as u64 {
            at.push("...".to_owned());
        }
        let fired = match step.fired {
            0 => "never fired".to_owned(),
            1 => format!("fired at {}", at.join(", ")),
            count => format!("fired {} times, at {}", grouped(count), at.join(", ")),
        };
        let _ = writeln!(out, "{:<12} {}: {fired}", "step", step.words);
        for (count, what) in [
            (
                step.refused,
                "times it was to fire, and nothing was changed",
            ),
            (step.missed, "instants passed while the machine stood still"),
        ] {
            if count > 0 {
                let _ = writeln!(out, "             {} {what}", grouped(count));
            }
        }
    }
}

/// What the switch between the ports counted.
fn core_lines(core: &CoreReport, out: &mut String) {
    let _ = writeln!(
        out,
        "{:<12} {} frames came; {} to one port, {} to all others",
        core.kind,
        grouped(core.came),
        grouped(core.forwarded),
        grouped(core.flooded)
    );
    for (reason, what) in [
        ("same_port", "were for the port by which they came"),
        (
            "reserved",
            "were for a link's two ends, and no switch passes them on",
        ),
        (
            "malformed",
            "were no Ethernet frames, or came from a group's address",
        ),
        ("no_port", "found no other port"),
    ] {
        let count = core.dropped.get(reason).copied().unwrap_or_default();
        if count > 0 {
            let _ = writeln!(out, "             {} {what}", grouped(count));
        }
    }
    let addresses = &core.addresses;
    let _ = writeln!(
        out,
        "             {} addresses are known, of {} learned; {} moved, {} aged, {} gone for want \
        of room",
        grouped(addresses.known),
        grouped(addresses.learned),
        grouped(addresses.moved),
        grouped(addresses.aged),
        grouped(addresses.displaced)
    );
    for port in core.ports.iter().filter(|port| port.is_gone) {
        let _ = writeln!(out, "             {} vanished while it ran", port.name);
    }
}

/// When the wall clock was set, which changed no delay.
fn clock_lines(steps: &ClockSteps, out: &mut String) {
    for step in &steps.first {
        let _ = writeln!(
            out,
            "clock        was set {} by {}, {} after the start: no frame was moved by that",
            if step.by_ns < 0 { "back" } else { "forward" },
            time(step.by_ns.unsigned_abs()),
            time(step.after_ns.max(0) as u64)
        );
    }
    let more = steps.count - steps.first.len() as u64;
    if more > 0 {
        let _ = writeln!(out, "             and {} times more", grouped(more));
    }
}

/// The effects of the link other than delay, with the settings that caused them.
fn count_lines(report: &DirectionReport, changes: &[&ChangeReport], out: &mut String) {
    let counters = &report.counters;
    let drops = counters.dropped;
    let dropped = |what: &str, count: fn(&Drops) -> u64, word| {
        let words = words_of_drops(report, changes, count, word);
        (count(&drops), format!("{what}: {words}"))
    };
    let counted = |count, what: &str, word| match changes.is_empty() {
        true => {
            let words = words_of(&report.settings, &report.matches, word);
            (count, format!("{what}: {words}"))
        }
        // These counts are not kept by change, so no setting is named.
        false => (count, what.to_owned()),
    };
    for (count, what) in [
        dropped("lost", |drops| drops.loss, |words| &words.loss),
        dropped(
            "dropped: link down",
            |drops| drops.down,
            |words| &words.link,
        ),
        dropped(
            "dropped by the limit",
            |drops| drops.limit,
            |words| &words.limit,
        ),
        (drops.rate, "dropped by the rate".to_owned()),
        (drops.memory, "dropped because memory was full".to_owned()),
        counted(counters.duplicated, "doubled", |words| &words.duplicate),
        counted(counters.corrupted, "with a bit turned", |words| {
            &words.corrupt
        }),
        counted(counters.hastened, "that passed the delay", |words| {
            &words.reorder
        }),
        (report.held, "were still under way at the end".to_owned()),
    ] {
        if count > 0 {
            let _ = writeln!(out, "             {} {what}", grouped(count));
        }
    }
}

/// The requested delays, and those that frames had.
fn delay_lines(report: &DirectionReport, out: &mut String) {
    let delays = &report.delays;
    spread_line("asked", Some(&delays.asked), out);
    spread_line("drawn", delays.drawn.as_ref(), out);
    spread_line("realised", delays.realised.as_ref(), out);
    let distances = [
        ("drawn", delays.drawn_distance),
        ("realised", delays.realised_distance),
    ];
    // Without jitter a distance adds nothing to the means.
    for (what, distance) in distances.into_iter().filter(|_| delays.drawn.is_some()) {
        if let Some(distance) = distance {
            let _ = write!(
                out,
                "  {what:<10} KS distance from asked {}",
                number(distance.ks)
            );
            // It is for independent draws.
            if !report.settings.delay.contains(" order correlated ") {
                let _ = write!(out, ", p={}", number(distance.p_value));
            }
            out.push('\n');
        }
    }
    for matching in &report.matches {
        let words = &matching.settings;
        let _ = writeln!(
            out,
            "  match {}: {} frames, {} lost: {}; delay {}",
            matching.expressions,
            grouped(matching.entered),
            grouped(matching.lost),
            words.loss,
            words.delay
        );
        spread_line("asked", Some(&matching.asked), out);
        spread_line("realised", matching.realised.as_ref(), out);
    }
}

/// The settings by which frames were dropped: those that held at the time.
fn words_of_drops(
    report: &DirectionReport,
    changes: &[&ChangeReport],
    count: fn(&Drops) -> u64,
    word: fn(&SettingsWords) -> &str,
) -> String {
    let mut since = count(&report.counters.dropped);
    let mut words = Vec::new();
    for change in changes {
        let before = count(&change.dropped);
        since -= before;
        if before > 0 {
            words.push(words_of(&change.before, &change.matches, word));
        }
    }
    if since > 0 {
        words.push(words_of(&report.settings, &report.matches, word));
    }
    words.dedup();
    words.join(", then ")
}

/// A setting of the link, and those of matching frames where they differ.
fn words_of(
    settings: &SettingsWords,
    matches: &[MatchReport],
    word: fn(&SettingsWords) -> &str,
) -> String {
    let own = word(settings);
    let others = { matches.iter() }.filter(|matching| word(&matching.settings) != own);
    others.fold(own.to_owned(), |words, matching| {
        let other = word(&matching.settings);
        format!("{words}, match {}: {other}", matching.expressions)
    })
}

fn spread_line(name: &str, spread: Option<&Spread>, out: &mut String) {
    if let Some(spread) = spread {
        let _ = writeln!(out, "  {name:<10} {}", spread_text(spread));
    }
}

/// What the loop measured of itself.
fn loop_lines(facts: &LoopFacts, out: &mut String) {
    *out += &format!(
        "loop         releases begin {} early, {} stalls of the machine of more than 100 us, {} the \
         longest\n",
        signed_time(facts.lead_ns as f64),
        facts.stalls,
        signed_time(facts.stall_max_ns as f64)
    );
    if let Some(floor_ns) = facts.floor_ns {
        *out += &format!(
            "             {} is the delay of a frame that no setting delays\n",
            signed_time(floor_ns as f64)
        );
    }
    for (count, what) in [
        (
            facts.refusals,
            "times a port did not accept a frame that was due",
        ),
        (
            facts.dropped_at_start,
            "frames came during the start, and were dropped",
        ),
        (
            facts.too_long,
            "frames were too long for the other side: offload joins them; 'ethtool -K IF tso off \
             gso off' at the senders, 'gro off' here",
        ),
        (
            facts.dropped_down,
            "frames were due while their outgoing interface was down",
        ),
        (
            facts.checksums_completed,
            "checksums that the sender had left to its adapter were computed",
        ),
    ] {
        if count > 0 {
            *out += &format!("             {} {what}\n", grouped(count));
        }
    }
}

#[cfg(test)]
mod tests {
    use lineside_trace::certificate::link::ClockStep;

    use super::*;

    #[test]
    fn each_time_that_the_clock_was_set_is_printed() {
        let step = |by_ns| ClockStep {
            after_ns: 10_000_000_000,
            by_ns,
        };
        let steps = ClockSteps {
            count: 5,
            first: vec![step(-4_000_000_000), step(2_000_000)],
        };
        let mut text = String::new();
        clock_lines(&steps, &mut text);
        let lines: Vec<_> = text.lines().collect();
        let [back, forward, more] = lines[..] else {
            panic!("{text}");
        };
        assert!(back.starts_with("clock        was set back by 4"), "{back}");
        assert!(back.contains("10"), "{back}");
        assert!(forward.contains("forward by 2"), "{forward}");
        assert!(more.contains("3 times more"), "{more}");
        text.clear();
        clock_lines(&ClockSteps::default(), &mut text);
        assert_eq!(text, "");
    }
}
