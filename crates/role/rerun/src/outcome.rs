//! What came of a run, and its certificate.

use std::collections::BTreeMap;

use lineside_measure::Spread;
use lineside_replay::{Figures, Replay, Script, Why};
use lineside_trace::certificate::Judged;
use lineside_trace::certificate::replay::{
    Asked, Calls, Differing, Edges, Replay as Found, Statuses,
};
use lineside_trace::{State, Verdict};

use crate::error::RerunError;
use crate::prepare::Ground;

/// Turns of the loop that took too long.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Stalls {
    pub(crate) count: u64,
    pub(crate) max_ns: i64,
    pub(crate) sum_ns: i64,
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// What was counted, of all copies.
    pub figures: Figures,
    /// How many clients made the calls at once.
    pub copies: u64,
    /// Why it ended early.
    pub failure: Option<RerunError>,
    /// Everything was made and has ended.
    pub is_over: bool,
    duration_ns: i64,
    issue_time: Option<Spread>,
    edges: [u64; 2],
    held: u64,
    connections: u64,
    broken: u64,
    stalls: Stalls,
}

/// A statement about times holds if no more of them than this was disturbed.
const STALLED_SHARE_MAX: f64 = 0.01;

/// What a server refuses to all who write, and the way out.
const REFUSED: [(&str, &str); 6] = [
    (
        "ERR_ROFS",
        "it is read-only there: name an export that may be written",
    ),
    (
        "ERR_NOSPC",
        "it is full there: make room, and replay into a new directory",
    ),
    (
        "ERR_DQUOT",
        "a quota is used up there: raise it, or give --as of another user",
    ),
    ("ERR_JUKEBOX", PUT_OFF),
    ("ERR_DELAY", PUT_OFF),
    ("ERR_GRACE", PUT_OFF),
];

const PUT_OFF: &str = "the server put them off for as long as --timeout allows";

impl Outcome {
    pub(crate) fn new(
        replays: &[Replay<'_>],
        [connections, broken]: [u64; 2],
        stalls: Stalls,
        ended_ns: i64,
        failure: Option<RerunError>,
    ) -> Self {
        let spans = replays.iter().filter_map(|replay| replay.walk().span_ns());
        let first_ns = spans.clone().map(|(first_ns, _)| first_ns).min();
        let last_ns = spans.map(|(_, last_ns)| last_ns).max();
        let late = replays.iter().map(|replay| replay.walk().lateness());
        let lateness: Vec<_> = late
            .flat_map(|late| late.steps().collect::<Vec<_>>())
            .collect();
        let is_over = replays.iter().all(Replay::is_over);
        let last_ns = last_ns.filter(|_| is_over).unwrap_or(ended_ns);
        let mut figures = Figures::default();
        let (mut edges, mut held) = ([0; 2], 0);
        for replay in replays {
            figures.add(replay.figures());
            let of = replay.walk().edges_kept();
            edges = [edges[0] + of[0], edges[1] + of[1]];
            held += replay.walk().held();
        }
        Self {
            figures,
            copies: replays.len() as u64,
            failure,
            is_over,
            duration_ns: first_ns.map_or(0, |first| last_ns.saturating_sub(first).max(0)),
            issue_time: (!lateness.is_empty()).then(|| Spread::of(lateness)),
            edges,
            held,
            connections,
            broken,
            stalls,
        }
    }

    fn verdict(&self, source_calls: u64) -> Verdict {
        let mut reasons = Vec::new();
        let mut shares = BTreeMap::new();
        let figures = &self.figures;
        // Sessions are opened and kept here, too, by calls of the client's own.
        let of_session = figures.left_out.get(&Why::Session).copied().unwrap_or(0);
        let not_made = source_calls.saturating_sub(figures.made + of_session);
        let share = |part: u64| part as f64 / source_calls.max(1) as f64;
        let mut state = State::Complete;
        if let Some(failure) = &self.failure {
            state = State::Incomplete;
            reasons.push(format!("it ended early: {failure}"));
        } else if !self.is_over {
            state = State::Incomplete;
            reasons.push("it was stopped before its last call".to_owned());
        }
        if not_made > 0 {
            state = State::Incomplete;
            shares.insert("calls_not_made".to_owned(), share(not_made));
            reasons.push(format!("{not_made} of {source_calls} calls were not made"));
        }
        if figures.lost > 0 {
            state = State::Incomplete;
            reasons.push(format!("{} calls had no reply", figures.lost));
        }
        for (status, way) in REFUSED {
            let all = figures.differing.iter();
            let refused = all.filter(|(it, _)| it.found.ends_with(status));
            let refused: u64 = refused.map(|(_, count)| count).sum();
            if refused > 0 {
                state = State::Incomplete;
                reasons.push(format!("{refused} operations had {status}: {way}"));
            }
        }
        let [all, kept] = self.edges;
        if kept < all {
            state = State::Incomplete;
            let lost = all - kept;
            reasons.push(format!(
                "{lost} of {all} calls did not wait for what they need"
            ));
        }
        let stalled = self.stalls.sum_ns as f64 / self.duration_ns.max(1) as f64;
        if stalled > STALLED_SHARE_MAX && state == State::Complete {
            state = State::Disturbed;
            shares.insert("stalled".to_owned(), stalled);
            reasons.push(format!(
                "this machine kept the loop from its work {} times: times do not hold",
                self.stalls.count
            ));
        }
        Verdict {
            state,
            reasons,
            shares,
        }
    }
}

/// The certificate of a run.
pub fn certificate(
    asked: Asked,
    script: &Script,
    grounds: &[Ground],
    outcome: &Outcome,
) -> Judged<Found> {
    let copies = outcome.copies;
    let source_calls = copies * script.survey.calls;
    let source_ns = script.survey.span_ns;
    let figures = &outcome.figures;
    let left_out = figures.left_out.iter();
    let differing = figures.differing.iter().map(|(of, &count)| Differing {
        operation: of.operation.to_owned(),
        source: of.source.clone(),
        found: of.found.clone(),
        count,
    });
    let mut differing: Vec<_> = differing.collect();
    differing.sort_by_key(|differing| std::cmp::Reverse(differing.count));
    let found = Found {
        asked,
        duration_s: outcome.duration_ns as f64 / 1e9,
        source_duration_s: source_ns.map_or(0.0, |(first, last)| last.saturating_sub(first) as f64)
            / 1e9,
        calls: Calls {
            source: source_calls,
            made: figures.made,
            answered: figures.answered,
            lost: figures.lost,
            unanswered_in_source: figures.unanswered_before,
            left_out: left_out
                .map(|(why, &count)| (why.name().to_owned(), count))
                .collect(),
            not_chosen: copies * script.left_out.not_chosen,
            needed: copies * script.left_out.needed,
            callbacks: copies * script.left_out.callbacks,
            repeats: copies * script.left_out.repeats,
            not_seen: copies * script.left_out.calls_not_seen,
            kerberos_as_sys: copies * script.left_out.kerberos,
            udp_over_tcp: copies * script.left_out.udp,
            written_bytes: figures.written_bytes,
        },
        statuses: Statuses {
            compared: figures.compared,
            same: figures.same,
            differing,
        },
        edges: Edges {
            all: outcome.edges[0],
            kept: outcome.edges[1],
        },
        issue_time: outcome.issue_time.clone(),
        repairs: repairs(outcome, grounds),
        connections: outcome.connections,
        broken: outcome.broken,
        stalls: outcome.stalls.count,
        stall_max_ns: outcome.stalls.max_ns,
        stalled_ns: outcome.stalls.sum_ns,
        failure: { outcome.failure.as_ref() }.map_or_else(String::new, ToString::to_string),
    };
    Judged {
        found,
        verdict: outcome.verdict(source_calls),
    }
}

/// What the server has not, by name.
fn repairs(outcome: &Outcome, grounds: &[Ground]) -> BTreeMap<String, u64> {
    let repairs = outcome.figures.repairs;
    let repairs = [
        ("cookies", repairs.cookies),
        ("guards", repairs.guards),
        ("parents", repairs.parents),
        ("links", repairs.links),
        ("states", repairs.states),
        ("verifiers", repairs.verifiers),
        ("attributes", repairs.attributes),
        ("delays", repairs.delays),
        ("held", outcome.held),
        (
            "missing_files",
            { grounds.iter() }.map(|ground| ground.missing).sum(),
        ),
    ];
    let some = repairs.into_iter().filter(|(_, count)| *count > 0);
    some.map(|(name, count)| (name.to_owned(), count)).collect()
}

#[cfg(test)]
mod tests {
    use lineside_replay::Differing;

    use super::*;

    #[test]
    fn a_server_that_may_not_be_written_is_named() {
        let mut outcome = Outcome {
            figures: Figures {
                made: 9,
                ..Figures::default()
            },
            copies: 1,
            failure: None,
            is_over: true,
            duration_ns: 1,
            issue_time: None,
            edges: [0; 2],
            held: 0,
            connections: 1,
            broken: 0,
            stalls: Stalls::default(),
        };
        assert_eq!(outcome.verdict(9).state, State::Complete);
        for (found, wanted) in [
            ("NFS3ERR_ROFS", "read-only"),
            ("NFS4ERR_NOSPC", "make room"),
        ] {
            let differing = Differing {
                operation: "WRITE",
                source: "NFS3_OK".to_owned(),
                found: found.to_owned(),
            };
            outcome.figures.differing = [(differing, 3)].into();
            let verdict = outcome.verdict(9);
            assert_eq!(verdict.state, State::Incomplete);
            assert!(
                verdict.reasons[0].starts_with("3 operations"),
                "{verdict:?}"
            );
            assert!(verdict.reasons[0].contains(wanted), "{verdict:?}");
        }
    }
}
