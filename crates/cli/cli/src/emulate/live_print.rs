//! Runs between live ports, for the terminal: events as they come, and a line at the end.

use lineside_path::emulate::Event;
use lineside_path::{Certificate, Direction};
use lineside_render::verdict_word;
use lineside_words::{grouped, time};

use super::flags::Arguments;
use crate::confine;
use crate::inputs::listening_lines;
use crate::print::{say, talk, warn};

impl Arguments {
    /// Prints an event to standard error; with `--quiet`, only what went wrong.
    pub(super) fn print_event(&self, event: &Event<'_>) {
        let text = match event {
            Event::Warning(text) => text.clone(),
            Event::ServerEnded(status) => {
                format!("the server ended before the client: {status}")
            }
            Event::OutsideEnded(status) => {
                format!("pasta ended, nothing outside is reachable: {status}")
            }
            _ if self.quiet => return,
            Event::Listening(facts) => return talk(&listening_lines(facts)),
            Event::Note(text) => return say(text),
            Event::Confined(confined) => {
                return confine::note(confined);
            }
            Event::Advice(text) => text.clone(),
            Event::NothingListens(wait) if wait.is_zero() => return,
            Event::NothingListens(_) => format!(
                "nothing listens at the server after {}: the client starts anyway (--server-wait)",
                self.keys.server_wait.as_deref().unwrap_or_default()
            ),
        };
        warn(&text);
    }
}

/// The certificate in a line.
pub(super) fn line(certificate: &Certificate) -> String {
    let mut parts = Vec::new();
    for direction in Direction::BOTH {
        let name = direction.name();
        let Some(report) = certificate.directions.get(name) else {
            continue;
        };
        let counters = &report.counters;
        let mut part = format!("{name} {}", frames_text(counters.entered));
        if let Some(realised) = &report.delays.realised {
            part += &format!(", {} under way", time(realised.p50_ns.max(0) as u64));
            // What a link without jitter and queues adds is less.
            if realised.p99_ns > realised.p50_ns + realised.p50_ns / 50 + 200_000 {
                part += &format!(" (p99 {})", time(realised.p99_ns.max(0) as u64));
            }
        }
        let drops = counters.dropped;
        let others = drops.total() - drops.loss;
        for (count, what) in [(drops.loss, "lost"), (others, "dropped")] {
            if count > 0 {
                part += &format!(", {} {what}", grouped(count));
            }
        }
        parts.push(part);
    }
    let mut line = format!("link: {}", parts.join("; "));
    let verdict = &certificate.verdict;
    if let Some(reason) = verdict.reasons.first() {
        line += &format!("; {}: {reason}", verdict_word(verdict));
    }
    line + " (--certificate: all of it)"
}

/// A sentence if no frame of the command passed the link, and why that may be: `beside` passed its
/// loopback interface, `None` if that has the link in it.
pub(super) fn nothing_passed(certificate: &Certificate, beside: Option<u64>) -> Option<String> {
    let directions = certificate.directions.values();
    if directions
        .map(|report| report.counters.entered)
        .sum::<u64>()
        > 0
    {
        return None;
    }
    let why = match beside {
        None => "sent nothing by IP".to_owned(),
        Some(0) => "sent nothing outside".to_owned(),
        Some(frames) => format!(
            "sent {} to itself, at 127.0.0.1 or ::1: --loopback has these pass the link too",
            frames_text(frames)
        ),
    };
    Some(format!("no frame passed the link: the command {why}"))
}

fn frames_text(count: u64) -> String {
    match count {
        1 => "1 frame".to_owned(),
        _ => format!("{} frames", grouped(count)),
    }
}
