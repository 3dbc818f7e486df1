//! What a replay did, for the screen.

use std::fmt::Write;
use std::path::Path;

use lineside_trace::certificate::Judged;
use lineside_trace::certificate::replay::Replay;
use lineside_words::{bytes, escape, grouped, time};

/// Statuses that differ which are shown.
const DIFFERING_MAX: usize = 8;

/// The certificate as text.
pub(super) fn text(of: &Judged<Replay>, folder: Option<&Path>) -> String {
    let mut out = String::new();
    let mut line = |name: &str, text: String| {
        let _ = writeln!(out, "{name:<12} {text}");
    };
    let calls = &of.calls;
    line(
        "replay",
        format!("{} to {}", escape(&of.asked.trace), escape(&of.asked.url)),
    );
    line("loop", pace(of));
    line(
        "calls",
        format!(
            "{} of {} made, {} answered, {} written",
            grouped(calls.made),
            grouped(calls.source),
            grouped(calls.answered),
            bytes(calls.written_bytes)
        ),
    );
    line(
        "took",
        format!(
            "{}; in the trace {}",
            seconds(of.duration_s),
            seconds(of.source_duration_s)
        ),
    );
    for (name, text) in answers(of).into_iter().chain(left_out(of)) {
        line(name, text);
    }
    let verdict = &of.verdict;
    let state = serde_json::to_value(verdict.state).unwrap_or_default();
    line("verdict", state.as_str().unwrap_or_default().to_owned());
    for reason in &verdict.reasons {
        line("", escape(reason));
    }
    if let Some(folder) = folder {
        line("trace", format!("{}", folder.display()));
    }
    out
}

fn pace(of: &Replay) -> String {
    let asked = &of.asked;
    let speed = (asked.speed != 1.0).then(|| format!("speed {}", asked.speed));
    let clients = (asked.clients > 1).then(|| format!("{} clients at once", asked.clients));
    let all = [Some(asked.pace.clone()), speed, clients]
        .into_iter()
        .flatten();
    all.collect::<Vec<_>>().join(", ")
}

fn seconds(seconds: f64) -> String {
    time((seconds.max(0.0) * 1e9) as u64)
}

/// How answers and order compare with the trace's.
fn answers(of: &Replay) -> Vec<(&'static str, String)> {
    let (statuses, edges) = (&of.statuses, &of.edges);
    let [same, compared, kept, all] =
        [statuses.same, statuses.compared, edges.kept, edges.all].map(grouped);
    let mut lines = vec![("statuses", format!("{same} of {compared} as in the trace"))];
    for differing in statuses.differing.iter().take(DIFFERING_MAX) {
        let text = format!(
            "{} {}: {}, in the trace {}",
            grouped(differing.count),
            escape(&differing.operation),
            escape(&differing.found),
            escape(&differing.source)
        );
        lines.push(("", text));
    }
    lines.push(("edges", format!("{kept} of {all} kept")));
    if let Some(issue) = &of.issue_time {
        let [p50, p99, max] =
            [issue.p50_ns, issue.p99_ns, issue.max_ns].map(|ns| time(ns.max(0).cast_unsigned()));
        let text = format!("later than meant: median {p50}, p99 {p99}, most {max}");
        lines.push(("issue time", text));
    }
    lines
}

/// Lines of what was not done, or done otherwise.
fn left_out(of: &Replay) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let calls = &of.calls;
    let counts = |all: &mut dyn Iterator<Item = (&str, u64)>| {
        let some = all.filter(|(_, count)| *count > 0);
        let texts = some.map(|(name, count)| format!("{name} {}", grouped(count)));
        texts.collect::<Vec<_>>().join(", ")
    };
    let left_out = calls
        .left_out
        .iter()
        .map(|(name, &count)| (name.as_str(), count));
    let others = [
        ("not chosen", calls.not_chosen),
        ("callbacks", calls.callbacks),
        ("repeats", calls.repeats),
    ];
    let text = counts(&mut left_out.chain(others));
    if !text.is_empty() {
        lines.push(("left out", text));
    }
    let changed = [
        ("Kerberos as AUTH_SYS", calls.kerberos_as_sys),
        ("UDP over TCP", calls.udp_over_tcp),
        ("not chosen, but needed", calls.needed),
    ];
    let text = counts(&mut changed.into_iter());
    if !text.is_empty() {
        lines.push(("otherwise", text));
    }
    let repairs = of
        .repairs
        .iter()
        .map(|(name, &count)| (name.as_str(), count));
    let text = counts(&mut repairs.into_iter());
    if !text.is_empty() {
        lines.push(("repairs", text));
    }
    if of.broken > 0 {
        let text = format!("{} broke and were opened again", grouped(of.broken));
        lines.push(("connections", text));
    }
    if of.stalls > 0 {
        let longest = time(of.stall_max_ns.max(0).cast_unsigned());
        let text = format!("{}, the longest {longest}", grouped(of.stalls));
        lines.push(("stalls", text));
    }
    lines
}
