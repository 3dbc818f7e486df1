//! Runs between live ports, for the terminal: events as they come, and the loop's facts at the end.

use lineside_analyze::grouped;
use lineside_path::emulate::Event;
use lineside_reactor::LoopFacts;

use super::flags::Arguments;
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

/// What the loop measured of itself, for the terminal.
pub(super) fn loop_lines(facts: &LoopFacts) -> String {
    let mut out = format!(
        "loop         releases begin {:.1} us early, {} stalls of the machine of more than 100 us, {:.1} \
         us the longest\n",
        us(facts.lead_ns),
        facts.stalls,
        us(facts.stall_max_ns)
    );
    if let Some(floor_ns) = facts.floor_ns {
        out += &format!(
            "             {:.1} us is the delay of a frame that no setting delays\n",
            us(floor_ns)
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
            out += &format!("             {} {what}\n", grouped(count));
        }
    }
    out
}

fn us(ns: i64) -> f64 {
    ns as f64 / 1e3
}
