//! What changed between two traces.
//!
//! ```text
//!  A ──► Sample ─┐                                        ┌─► changes, worst first
//!                ├─► questions ──► intervals ──► judged ──┤
//!  B ──► Sample ─┘   (judge)      (statistics)            └─► comparisons: no news
//! ```
//!
//! A question is one figure of one subject in both traces: the median latency of a client's READs,
//! say. Hundreds are asked at once, so each has to be so unlikely to be answered by chance that all
//! of them together are not: an interval is as wide as the number of questions asks for, and only
//! one that leaves 1 out, with a ratio that matters, is a change.
//!
//! Clients, servers and files repeat what their operation shows. They are news where they differ
//! from it.

mod appearances;
mod calls;
mod comparable;
mod judge;
mod questions;
mod sample;
mod statistics;
mod words;

use std::path::Path;

use lineside_trace::State;
use lineside_words::{grouped, time};

use crate::model::{Appearances, COMPARE_VERSION, CompareParameters, Comparison, Side};
use crate::read::filter::Filter;
use crate::read::trace::{Trace, TraceError};
pub use calls::CallsError;
pub use words::{change_words, who};

use sample::{FILES_MAX, PAIRS_MAX, SLICES, Sample, servers};

/// Compares two traces, each by its own filter.
pub fn compare(a: (&Path, &Filter), b: (&Path, &Filter)) -> Result<Comparison, TraceError> {
    let mut comparison = compared(a, b)?;
    let only = [&comparison.only_in_a, &comparison.only_in_b];
    let short = too_short([&comparison.a, &comparison.b], only);
    comparison.doubts.extend(short);
    Ok(comparison)
}

/// The same, and call by call: `top` calls of each kind of difference are listed.
pub fn compare_calls(
    a: (&Path, &Filter),
    b: (&Path, &Filter),
    top: usize,
) -> Result<Comparison, CallsError> {
    let mut comparison = compared(a, b)?;
    let (calls, doubts) = calls::calls(a, b, top)?;
    comparison.doubts.extend(doubts);
    comparison.calls = Some(calls);
    Ok(comparison)
}

/// What changed, whether the traces are too short to be sure or not.
fn compared(a: (&Path, &Filter), b: (&Path, &Filter)) -> Result<Comparison, TraceError> {
    let mut traces = [
        Trace::open_all(a.0, &a.1.zone)?,
        Trace::open_all(b.0, &b.1.zone)?,
    ];
    let addresses = traces.each_mut().map(servers);
    let is_by_server = addresses[0].union(&addresses[1]).count() > 1;
    let ([of_a, of_b], [in_a, in_b]) = (traces, addresses);
    let [mut a, mut b] = [
        Sample::of(of_a, a, in_a, is_by_server)?,
        Sample::of(of_b, b, in_b, is_by_server)?,
    ];
    let mut judged = judge::judge(&mut a, &mut b);
    let mut doubts = doubts(&a, &b);
    doubts.extend(comparable::of_different_roles(&a, &b));
    if let Some(why) = comparable::why_not(&a, &b) {
        doubts.insert(0, why);
        // Totals of different things say nothing of each other.
        judged.changes.clear();
        judged.unchanged.clear();
        judged.comparisons = 0;
    }
    let [a, b] = [side(a), side(b)];
    Ok(Comparison {
        compare_version: COMPARE_VERSION,
        parameters: CompareParameters {
            error_share: judge::ERROR_SHARE,
            ratio_min: judge::RATIO_MIN,
            slices: SLICES.into(),
            quantile_error_share: 0.01,
            pairs_max: PAIRS_MAX as u64,
            files_max: FILES_MAX as u64,
        },
        only_in_a: judged.only[0].clone(),
        only_in_b: judged.only[1].clone(),
        a,
        b,
        doubts,
        changes: judged.changes,
        unchanged: judged.unchanged,
        comparisons: judged.comparisons,
        calls: None,
        assertions: Vec::new(),
    })
}

fn side(sample: Sample) -> Side {
    let elapsed_ns = sample.elapsed_ns();
    let manifest = sample.trace.manifest;
    let verdict = manifest.as_ref().map(|manifest| &manifest.verdict);
    let mut servers: Vec<String> = sample.addresses.into_iter().collect();
    servers.sort_unstable();
    Side {
        asked: sample.asked,
        verdict: verdict.map(|verdict| verdict.state),
        reasons: verdict.map_or_else(Vec::new, |verdict| verdict.reasons.clone()),
        trace_id: { &manifest }
            .as_ref()
            .map_or_else(String::new, |of| of.trace_id.clone()),
        schema_version: manifest.map_or_else(String::new, |of| of.schema_version),
        servers,
        start_ns: (sample.operations > 0).then_some(sample.start_ns),
        duration_ns: sample.duration_ns,
        elapsed_ns,
        round_trip_ns: sample.round_trip_ns,
        operations: sample.operations,
        failed: sample.failed,
        clients: sample.clients.counts.len() as u64,
        not_compared_operations: sample.not_apart.iter().sum(),
        unreadable: sample.trace.warnings,
    }
}

/// That a trace is too short, and what only one of them has: whether that is chance, such a trace
/// does not show.
fn too_short(sides: [&Side; 2], only: [&Appearances; 2]) -> Option<String> {
    /// More are in the lists of what only one has.
    const NAMED_MAX: usize = 3;
    let named = ["A", "B"];
    let short = { named.into_iter().zip(sides) }
        .filter(|(_, side)| side.is_short())
        .min_by_key(|(_, side)| side.duration_ns)?;
    let mut words = format!(
        "{} lasts {}: too short to be sure",
        short.0,
        time(short.1.duration_ns)
    );
    for (name, only) in named.into_iter().zip(only) {
        let all = only.operations.iter().chain(&only.outcomes);
        let all = all.take(NAMED_MAX).map(|each| {
            let operations = grouped(each.operations);
            format!("{} ({operations})", who(&each.subject))
        });
        let all: Vec<_> = all.collect();
        if !all.is_empty() {
            words += &format!("; only in {name}: {}", all.join(", "));
        }
    }
    Some(words)
}

/// Why the comparison is less sure than it looks.
fn doubts(a: &Sample, b: &Sample) -> Vec<String> {
    let mut doubts = Vec::new();
    for (name, sample) in [("A", a), ("B", b)] {
        let manifest = sample.trace.manifest.as_ref();
        match manifest.map(|manifest| &manifest.verdict) {
            None => doubts.push(format!(
                "{name} has no verdict: how much it lacks is not known"
            )),
            Some(verdict) if verdict.state != State::Complete => {
                let state = format!("{:?}", verdict.state).to_lowercase();
                let why = verdict
                    .reasons
                    .first()
                    .map_or("it goes on, or was killed", |why| why);
                doubts.push(format!("{name} is {state}: {why}"));
            }
            Some(_) => {}
        }
        if !sample.trace.lacks.is_empty() {
            let lacks: Vec<&str> = sample.trace.lacks.iter().map(String::as_str).collect();
            doubts.push(format!(
                "{name} is of an older lineside, without {}: they are not compared",
                lacks.join(", ")
            ));
        }
        if sample.operations == 0 {
            let why = if sample.trace.is_of_link() {
                "it is the run of an emulated link or a forwarder, without a tap"
            } else {
                "there is nothing to compare"
            };
            doubts.push(format!("{name} has no operations: {why}"));
        }
    }
    let lists = [a, b].map(|sample| {
        let mut servers: Vec<_> = sample.addresses.iter().map(String::as_str).collect();
        servers.sort_unstable();
        let more = servers.len().saturating_sub(3);
        servers.truncate(3);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        servers.join(", ") + &more
    });
    if a.addresses.is_disjoint(&b.addresses) && !a.addresses.is_empty() && !b.addresses.is_empty() {
        doubts.push(format!(
            "the servers are others: {} in A, {} in B; no file is the same in both",
            lists[0], lists[1]
        ));
    }
    let manifests = [a, b].map(|sample| sample.trace.manifest.as_ref());
    if let [Some(a), Some(b)] = manifests {
        let filters = [a, b].map(|manifest| manifest.configuration["capture"]["filter"].clone());
        if filters[0] != filters[1] {
            doubts.push(format!(
                "they were captured with different filters: {} in A, {} in B",
                filters[0], filters[1]
            ));
        }
        if a.schema_version != b.schema_version {
            doubts.push(format!(
                "their tables have different versions: {} in A, {} in B",
                a.schema_version, b.schema_version
            ));
        }
    }
    doubts
}
