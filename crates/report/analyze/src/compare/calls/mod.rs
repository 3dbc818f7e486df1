//! Two traces compared call by call.
//!
//! ```text
//!  A ─► Survey ─┐         A ─► rows by time ─► calls, what each waited for ─┐
//!               ├─► rule                                                    ├─► windows ─► Found
//!  B ─► Survey ─┘         B ─► rows by time ─► calls, what each waited for ─┘
//! ```
//!
//! Each trace is read twice: first for what its calls can be joined with the other's by, then in
//! the order of the calls, a window of both in memory. Nothing depends on how rows lie in parts.

mod call;
mod found;
mod hash;
mod pair;
mod rows;
mod script;
mod survey;
mod waits;
mod window;

#[cfg(test)]
mod tests;

use std::path::Path;

use hashbrown::HashMap;
use lineside_trace::certificate::{load::Load, replay::Replay};
use lineside_trace::{Manifest, certificate};
use lineside_words::{grouped, percent, signed_time, time};

use crate::model::{CallRule, CallsOfSide, ComparedCalls, DividedTime};
use crate::read::filter::{Filter, span};
use crate::read::lexica::Lexica;
use crate::read::round_trips::RoundTrips;
use crate::read::trace::{Trace, TraceError};
use call::{Calls, Terms};
use found::{Found, TOLERANCE_NS};
use rows::{ROWS_MAX, Rows};
use survey::Survey;
use waits::{Spent, Waits};
use window::{CALLS_MAX, Side, Walk};

/// The share of the calls of the smaller trace whose transaction ids the other has too, from which
/// on both have the same traffic: two runs have none in common, but by chance.
const SAME_TRAFFIC: f64 = 0.5;

/// The share of the smaller trace's calls that correspond, up to which the two have nothing to do
/// with each other: some calls, such as NULL, every workload has.
const OTHER_WORKLOAD: f64 = 0.1;

/// Why calls cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallsError {
    /// It cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// There is nothing to compare.
    #[error("{trace} has no calls{why}: 'lineside info {trace}' shows what it has")]
    NoCalls {
        /// The trace.
        trace: String,
        /// Why.
        why: &'static str,
    },
    /// Without the calls nothing corresponds, without replies nothing differs.
    #[error(
        "{trace} has {seen} alone: the capture saw one direction; capture where both pass, at the \
        client or the server, or on both ports of a mirror"
    )]
    OneDirection {
        /// The trace.
        trace: String,
        /// `calls` or `replies`.
        seen: &'static str,
    },
    /// What there was could not be read.
    #[error("{0}; what can be read has no calls: make the trace anew with 'lineside capture'")]
    Unreadable(String),
    /// More than memory is for.
    #[error(
        "{trace}: parts with more than {ROWS_MAX} rows overlap in time, so they cannot be merged \
        within memory: choose a time with --since and --until, or make the trace anew with \
        'lineside capture', which writes rows in the order of time"
    )]
    Overlap {
        /// The trace.
        trace: String,
    },
}

/// Compares the calls of two traces, each by its own filter, and lists `top` of each kind of
/// difference; also why that shows less than it could.
pub(super) fn calls(
    a: (&Path, &Filter),
    b: (&Path, &Filter),
    top: usize,
) -> Result<(ComparedCalls, Vec<String>), CallsError> {
    calls_of(a, b, top, CALLS_MAX)
}

/// The same with `window` calls of each trace in memory.
fn calls_of(
    a: (&Path, &Filter),
    b: (&Path, &Filter),
    top: usize,
    window: usize,
) -> Result<(ComparedCalls, Vec<String>), CallsError> {
    let mut lexica = Lexica::new();
    let mut open = |(path, filter): (&Path, &Filter)| -> Result<_, TraceError> {
        let mut trace = Trace::open_all(path, &filter.zone)?;
        let survey = Survey::of(&mut trace, &mut lexica);
        Ok((trace, survey))
    };
    let ((trace_a, mut of_a), (trace_b, mut of_b)) = (open(a)?, open(b)?);
    let sources = Sources::of([&trace_a, &trace_b], [&of_a, &of_b]);
    let rule = rule([&mut of_a, &mut of_b], &sources);
    let times = match rule {
        CallRule::Source => of_a.named().times(of_b.named()),
        CallRule::Xid => of_a.xids.times(&of_b.xids),
        CallRule::Order => of_a.asked.times(&of_b.asked),
    };
    let has_sums = of_a.has_sums && of_b.has_sums;
    let has_files = !of_a.servers.is_disjoint(&of_b.servers);
    let terms = |has_source, clients| Terms {
        rule,
        has_source,
        clients,
        has_files,
    };
    let to_a = of_b.clients_of(&of_a);
    let mut sides = [
        side(
            trace_a,
            a.1,
            terms(of_a.has_source, HashMap::new()),
            has_sums,
        )?,
        side(trace_b, b.1, terms(of_b.has_source, to_a), has_sums)?,
    ];
    let mut found = Found::new(top, has_sums);
    let names = [a, b].map(|(path, _)| path.display().to_string());
    let walk = Walk {
        rule,
        window,
        times,
    };
    walk.run(&mut sides, &mut lexica, &mut found)
        .map_err(|(at, _)| {
            let trace = names[at].clone();
            CallsError::Overlap { trace }
        })?;
    for (name, side) in names.iter().zip(&sides) {
        side.chosen.check(&lexica, &side.trace.warnings)?;
        check(name, side)?;
    }
    let of_sides = ["A", "B"].into_iter().zip(&sides);
    let doubts = of_sides.flat_map(|(name, side)| doubts(name, side));
    let doubts = sources.doubts(rule).into_iter().chain(doubts).collect();
    Ok((compared_calls(rule, sides, found, &lexica), doubts))
}

fn side(
    mut trace: Trace,
    filter: &Filter,
    terms: Terms,
    has_sums: bool,
) -> Result<Side, TraceError> {
    let (chosen, _) = span(&mut trace, filter)?;
    let ways = RoundTrips::of(&mut trace, &chosen);
    let has_source = terms.has_source && terms.rule == CallRule::Source;
    let rows = Rows::of(&mut trace, &chosen, has_source, has_sums);
    let calls = Calls::new(rows, Waits::new(ways), terms);
    Ok(Side::new(trace, chosen, calls))
}

fn compared_calls(
    rule: CallRule,
    mut sides: [Side; 2],
    found: Found,
    lexica: &Lexica,
) -> ComparedCalls {
    let [of_a, of_b] = sides.each_ref().map(of_side);
    let elapsed = { sides.each_ref() }.map(|side| side.calls.waits.elapsed().map(divided));
    let mut calls = ComparedCalls {
        answer: String::new(),
        rule,
        window_calls: CALLS_MAX as u64,
        tolerance_ns: TOLERANCE_NS.unsigned_abs(),
        a: of_a,
        b: of_b,
        pairs: 0,
        missing: 0,
        added: 0,
        other_status: 0,
        other_content: 0,
        other_range: 0,
        other_arguments: 0,
        other_size: 0,
        other_data: None,
        later: 0,
        earlier: 0,
        later_themselves: 0,
        earlier_themselves: 0,
        clients: Vec::new(),
        differences: Vec::new(),
        elapsed,
        response: [DividedTime::default(); 2],
        response_pairs: 0,
    };
    let [a, b] = &mut sides;
    found.finish([&mut a.trace, &mut b.trace], lexica, &mut calls);
    calls.answer = answer(&calls);
    calls
}

/// What the calls of two traces repeat.
struct Sources {
    /// Whether each names calls of a source, as its rows show.
    have: [bool; 2],
    /// The source of each, as its certificate names it.
    of: [Option<String>; 2],
    /// Of which side ids of the source are the names: not of the source itself. `None`: neither
    /// repeats the other, nor do both repeat one trace.
    named: Option<[bool; 2]>,
}

impl Sources {
    fn of(traces: [&Trace; 2], surveys: [&Survey; 2]) -> Self {
        let manifests = traces.map(|trace| trace.manifest.as_ref());
        let of =
            manifests.map(|manifest| Some(certificate::of::<Replay>(manifest?)?.asked.trace_id));
        let have = surveys.map(|survey| survey.has_source);
        let [a, b] = manifests.map(|manifest| Some(&manifest?.trace_id));
        let is = |at: usize, wanted: Option<&String>| {
            have[at] && wanted.is_some_and(|wanted| !wanted.is_empty()) && of[at].as_ref() == wanted
        };
        let named = if is(1, a) {
            Some([false, true])
        } else if is(0, b) {
            Some([true, false])
        } else if have[0] && is(1, of[0].as_ref()) {
            Some([true, true])
        } else {
            None
        };
        Self { have, of, named }
    }

    /// Why calls do not correspond by what they repeat.
    fn doubts(&self, rule: CallRule) -> Vec<String> {
        let sides = [0, 1].into_iter().filter(|&at| self.have[at]);
        let sides = sides.filter(|_| rule != CallRule::Source);
        let doubt = |at: usize| {
            let (name, other) = [("A", "B"), ("B", "A")][at];
            let source = match self.of[at].as_deref() {
                Some(id) if !id.is_empty() => format!("trace_id {id}"),
                _ => "a trace whose trace_id it does not have".to_owned(),
            };
            format!(
                "{name} is a replay of {source}, which {other} neither is nor repeats: calls \
                correspond by other columns than source_operation_id"
            )
        };
        sides.map(doubt).collect()
    }
}

/// By what calls correspond. A replay of a part of a trace may repeat nothing of the other's.
fn rule([a, b]: [&mut Survey; 2], sources: &Sources) -> CallRule {
    [a.has_source, b.has_source] = sources.named.unwrap_or_default();
    if sources.named.is_some() && a.named().share(b.named()) > OTHER_WORKLOAD {
        CallRule::Source
    } else if a.xids.share(&b.xids) >= SAME_TRAFFIC {
        CallRule::Xid
    } else {
        CallRule::Order
    }
}

fn of_side(side: &Side) -> CallsOfSide {
    CallsOfSide {
        calls: side.calls.calls,
        unanswered: side.calls.unanswered,
        calls_not_seen: side.calls.rows.calls_not_seen,
        repeats: side.calls.rows.repeats,
    }
}

fn check(trace: &str, side: &Side) -> Result<(), CallsError> {
    let trace = trace.to_owned();
    let of = of_side(side);
    if of.calls == 0 && !side.trace.warnings.is_empty() {
        return Err(CallsError::Unreadable(side.trace.warnings[0].clone()));
    }
    if of.calls == 0 && of.calls_not_seen > 0 {
        let seen = "replies";
        return Err(CallsError::OneDirection { trace, seen });
    }
    if of.calls == 0 {
        let why = match (side.trace.is_of_link(), side.chosen.are_all()) {
            (true, _) => ", it is the run of an emulated link or a forwarder, without a tap",
            (_, false) => " that the flags choose",
            _ => "",
        };
        return Err(CallsError::NoCalls { trace, why });
    }
    if of.calls == of.unanswered && !side.calls.waits.has_servers() {
        let seen = "calls";
        return Err(CallsError::OneDirection { trace, seen });
    }
    Ok(())
}

/// Why the calls of a trace show less than they could.
fn doubts(name: &str, side: &Side) -> Vec<String> {
    let mut doubts = Vec::new();
    let of = of_side(side);
    if of.calls == of.unanswered {
        doubts.push(format!(
            "{name} has no reply to any call: statuses and times are not compared"
        ));
    }
    if of.calls_not_seen > 0 {
        let count = grouped(of.calls_not_seen);
        doubts.push(format!(
            "{name} has {count} replies whose calls were not seen: left out"
        ));
    }
    if let Some(manifest) = &side.trace.manifest {
        doubts.extend(lacking(manifest).map(|what| format!("{name} {what}")));
    }
    doubts
}

/// What a trace lacked, how its clocks went, and when the program that made it stood still.
fn lacking(manifest: &Manifest) -> impl Iterator<Item = String> {
    let share = |name: &str| manifest.verdict.shares.get(name).copied();
    let shares = [share("stream_bytes_lost"), share("frames_dropped")];
    let lost = shares.into_iter().flatten().fold(0.0, f64::max);
    let lost = (lost > 0.0).then(|| {
        let lost = percent(lost);
        format!("lacks {lost} of the bytes or frames: a call that it did not see is missing")
    });
    let coarse = { manifest.clocks.iter() }.filter_map(|clock| clock.resolution_ns);
    let coarse = { coarse.max() }.filter(|ns| *ns > TOLERANCE_NS.unsigned_abs());
    let coarse = coarse.map(|ns| {
        let steps = time(ns);
        format!("has stamps in steps of {steps}: less than that is no delay")
    });
    let back = manifest.counters.get("frames.stamped_back");
    let back = back.map(|counter| counter.value).filter(|back| *back > 0);
    let back = back.map(|back| {
        let back = grouped(back);
        format!(
            "has {back} frames with stamps that go back: its clock was set, or files were joined"
        )
    });
    let load = certificate::of::<Load>(manifest).map(|load| load.generator);
    let stalls = load.filter(|generator| generator.stalls > 0);
    let stalls = stalls.map(|generator| {
        let (stalls, most) = (grouped(generator.stalls), time(generator.stall_max_ns));
        format!("stood still {stalls} times, at most {most}: calls are later by that")
    });
    [lost, coarse, back, stalls].into_iter().flatten()
}

fn divided([server_ns, network_ns, client_ns]: Spent) -> DividedTime {
    let parts = server_ns.saturating_add(network_ns);
    DividedTime {
        total_ns: parts.saturating_add(client_ns),
        server_ns,
        network_ns,
        client_ns,
    }
}

/// What came of it, as a person wants to read it first.
fn answer(calls: &ComparedCalls) -> String {
    if calls.pairs as f64 <= OTHER_WORKLOAD * calls.a.calls.min(calls.b.calls) as f64 {
        return format!(
            "they are of different workloads, or of different times of one: of {} calls of A and \
            {} of B {} correspond",
            grouped(calls.a.calls),
            grouped(calls.b.calls),
            grouped(calls.pairs)
        );
    }
    let counts = [
        (calls.missing, "missing"),
        (calls.added, "added"),
        (calls.other_status, "with another status"),
        (calls.other_content, "with other content"),
    ];
    let differing = counts.into_iter().filter(|(count, _)| *count > 0);
    let differing = differing.map(|(count, what)| format!("{} {what}", grouped(count)));
    let differing: Vec<String> = differing.collect();
    let (what, and) = match differing.as_slice() {
        [] => {
            let pairs = grouped(calls.pairs);
            (format!("B has the same {pairs} calls as A"), ", and")
        }
        all => {
            let [a, b] = [calls.a.calls, calls.b.calls].map(grouped);
            let all = all.join(", ");
            (format!("of {a} calls of A and {b} of B: {all}"), "; B")
        }
    };
    let [Some(a), Some(b)] = calls.elapsed else {
        return what;
    };
    let by_ns = b.total_ns.saturating_sub(a.total_ns);
    let [of_a, of_b] = [a, b].map(|of| time(of.total_ns.unsigned_abs()));
    if by_ns.unsigned_abs() <= calls.tolerance_ns {
        return format!("{what}{and} takes as long: {of_a}");
    }
    let ratio = percent(b.total_ns as f64 / a.total_ns.max(1) as f64);
    let parts = [
        ("the server", b.server_ns.saturating_sub(a.server_ns)),
        ("the network", b.network_ns.saturating_sub(a.network_ns)),
        ("the client", b.client_ns.saturating_sub(a.client_ns)),
    ];
    let most = parts.into_iter().max_by_key(|(_, part)| match by_ns > 0 {
        true => *part,
        false => part.saturating_neg(),
    });
    let (who, part) = most.unwrap_or(("", 0));
    format!(
        "{what}. B takes {of_b} where A takes {of_a} ({ratio}): most of it is {who}, {}",
        signed_time(part as f64)
    )
}
