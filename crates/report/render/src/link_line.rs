//! An emulated link at the end of its run, in a line.

use lineside_trace::certificate::Judged;
use lineside_trace::certificate::link::Link;
use lineside_words::{grouped, time};

use crate::verdict_word;

/// The certificate in a line.
pub fn link_line(certificate: &Judged<Link>) -> String {
    let mut parts = Vec::new();
    for name in ["outbound", "inbound"] {
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
pub fn nothing_passed(certificate: &Judged<Link>, beside: Option<u64>) -> Option<String> {
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
