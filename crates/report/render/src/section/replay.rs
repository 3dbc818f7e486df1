//! A replay: what its certificate holds, in words.

use lineside_analyze::Replayed;
use lineside_words::{bytes, grouped, time};

use crate::block::{Block, Fact, Line, Section, Verdict, fact, line};

/// Statuses that differ which have a line each.
const DIFFERING_MAX: usize = 8;

/// The certificate in words.
pub(crate) fn section(it: &Replayed) -> Section {
    Section {
        heading: "Replay".to_owned(),
        note: String::new(),
        blocks: vec![
            Block::Verdict(Verdict::of_run(it.verdict, &it.reasons)),
            Block::List(facts(it)),
        ],
    }
}

/// The certificate in lines, the most telling first.
pub(crate) fn summary(it: &Replayed) -> Vec<Line> {
    let of = |fact: Fact| Line {
        lines_max: 2,
        ..line(fact.label, [fact.value, fact.note])
    };
    facts(it).into_iter().map(of).collect()
}

fn facts(it: &Replayed) -> Vec<Fact> {
    let seconds = |seconds: f64| time((seconds.max(0.0) * 1e9) as u64);
    let (calls, statuses, edges) = (&it.calls, &it.statuses, &it.edges);
    let pace = match it.asked.speed == 1.0 {
        true => it.asked.pace.clone(),
        false => format!("{}, speed {}", it.asked.pace, it.asked.speed),
    };
    let mut facts = vec![
        fact("replay of", it.asked.trace.clone(), format!("loop {pace}")),
        fact(
            "calls made",
            format!("{} of {}", grouped(calls.made), grouped(calls.source)),
            format!(
                "{} answered, {} written",
                grouped(calls.answered),
                bytes(calls.written_bytes)
            ),
        ),
        fact(
            "took",
            seconds(it.duration_s),
            format!("{} in the trace", seconds(it.source_duration_s)),
        ),
        fact(
            "statuses",
            format!(
                "{} of {} the same",
                grouped(statuses.same),
                grouped(statuses.compared)
            ),
            String::new(),
        ),
    ];
    facts.extend(statuses.differing.iter().take(DIFFERING_MAX).map(|status| {
        fact(
            "differing",
            format!("{} {}", grouped(status.count), status.operation),
            format!("{}, in the trace {}", status.found, status.source),
        )
    }));
    facts.push(fact(
        "edges kept",
        format!("{} of {}", grouped(edges.kept), grouped(edges.all)),
        "calls that need an earlier reply".to_owned(),
    ));
    if let Some(late) = &it.issue_time {
        let [p50, p99, max] =
            [late.p50_ns, late.p99_ns, late.max_ns].map(|ns| time(ns.max(0).cast_unsigned()));
        let value = format!("p50 {p50}, p99 {p99}, max {max}");
        facts.push(fact("left late by", value, String::new()));
    }
    facts.extend(exceptions(it));
    facts
}

/// What was not done, or done otherwise.
fn exceptions(it: &Replayed) -> Vec<Fact> {
    let calls = &it.calls;
    let words = |all: Vec<(&str, u64)>| {
        let some = all.into_iter().filter(|(_, count)| *count > 0);
        let texts = some.map(|(name, count)| format!("{name} {}", grouped(count)));
        texts.collect::<Vec<_>>().join(", ")
    };
    let named = |all: &std::collections::BTreeMap<String, u64>| {
        words(all.iter().map(|(name, &count)| (&**name, count)).collect())
    };
    let others = words(vec![
        ("callbacks", calls.callbacks),
        ("repeats", calls.repeats),
        ("calls not seen", calls.not_seen),
    ]);
    let changed = words(vec![
        ("Kerberos as AUTH_SYS", calls.kerberos_as_sys),
        ("UDP over TCP", calls.udp_over_tcp),
    ]);
    let broken = words(vec![("broke", it.broken)]);
    let stalls = match it.stalls {
        0 => String::new(),
        stalls => format!(
            "{}, max {}",
            grouped(stalls),
            time(it.stall_max_ns.max(0).cast_unsigned())
        ),
    };
    let all = [
        ("left out", named(&calls.left_out)),
        ("not of clients", others),
        ("otherwise", changed),
        ("repairs", named(&it.repairs)),
        ("connections", broken),
        ("stalls", stalls),
    ];
    let some = all.into_iter().filter(|(_, value)| !value.is_empty());
    some.map(|(label, value)| fact(label, value, String::new()))
        .collect()
}

#[cfg(test)]
mod tests {
    use lineside_trace::{Manifest, State};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_replay_has_its_certificate_in_its_report() {
        let certificate = json!({
            "asked": { "trace": "source", "pace": "open", "speed": 2.0 },
            "calls": { "source": 1200, "made": 1199, "left_out": { "handle": 1 } },
            "statuses": { "compared": 3, "same": 2, "differing": [
                { "operation": "READ", "source": "NFS3_OK", "found": "NFS3ERR_IO", "count": 1 }
            ] }
        });
        let manifest = Manifest {
            configuration: json!({ "replay": {} }),
            certificate: Some(certificate),
            verdict: lineside_trace::Verdict {
                state: State::Incomplete,
                reasons: vec!["one".to_owned()],
                ..lineside_trace::Verdict::default()
            },
            ..Manifest::default()
        };
        let report = lineside_analyze::closing("", &manifest);
        let found = report.replay.expect("a replay");
        let lines = summary(&found);
        let parts: Vec<String> = lines.iter().map(|line| line.parts.join("; ")).collect();
        let wanted = [
            "source; loop open, speed 2",
            "1,199 of 1,200",
            "1 READ; NFS3ERR_IO, in the trace NFS3_OK",
            "handle 1",
        ];
        for wanted in wanted {
            assert!(
                parts.iter().any(|part| part.starts_with(wanted)),
                "{parts:?}"
            );
        }
    }
}
