//! What stands out in a trace: what happened, since when, to whom, and what is done about it.
//!
//! ```text
//!  rows of operations ──► Findings::add ─► failures, no_answer ───────┐
//!                                      └─► watch, stalls ─► latency ──┤
//!                                              └─► suspects, a second │
//!                                                  pass if need be ───┤
//!  the table connections ─┬────────────────────► network ─────────────┼─► Findings::find ─► ranked
//!                         └─► peers ─► unreachable, no_progress,      │
//!                                      delayed_ack ───────────────────┤
//!  the finished report ────────────────────────► workload ────────────┤
//!  a forwarder's certificate ──────────────────► forwarder ───────────┘
//! ```
//!
//! What is severe comes first, then what failed. Then a finding is ranked by the time that clients
//! waited because of it; those that cost no time come after, by the share of operations that they
//! are about. A
//! sentence is true whatever the workload: a finding that may be harmless says so. Every number
//! that a sentence has is in `basis` too, with the thresholds that it passed, so that a program
//! need not read the sentence.

mod advice;
mod bursts;
mod delayed_ack;
mod failures;
mod few;
mod forwarder;
mod latency;
mod lines;
mod listing;
mod network;
mod no_answer;
mod no_progress;
mod noted;
mod peers;
mod scene;
mod servers;
mod services;
mod stalls;
mod state;
mod suspects;
mod unreachable;
mod waits;
mod watch;
mod workload;

use lineside_trace::read::{Column, ReadError};

use crate::model::{Finding, Place, WireRate};
use crate::read::batch::Batch;
use crate::read::columns::Word;
use crate::read::lexica::Lexica;
use crate::read::trace::Trace;
pub(crate) use scene::Scene;

use failures::Failures;
use lines::Found;
use network::Network;
use no_answer::NoAnswer;
use noted::Noted;
use peers::Peers;
use watch::Watch;

/// What is collected for findings in the pass over `operations`.
pub(crate) struct Findings {
    watch: Watch,
    no_answer: NoAnswer,
    failures: Failures,
    noted: Noted,
}

impl Findings {
    /// For operations between two times, both inclusive.
    pub(crate) fn new(trace: &mut Trace, span: Option<(i64, i64)>) -> Self {
        Self {
            watch: Watch::new(trace, span),
            no_answer: NoAnswer::default(),
            failures: Failures::default(),
            noted: Noted::default(),
        }
    }

    /// The columns of `operations` that it looks at, besides those of every pass.
    pub(crate) fn columns(&self) -> &[&'static str] {
        self.watch.columns()
    }

    /// Adds the chosen rows of a batch, and those of them that `failed`, each with its status;
    /// `own` are [`columns`](Self::columns).
    pub(crate) fn add(
        &mut self,
        batch: &Batch<'_>,
        own: &[Column],
        (rows, failed): (&[usize], &[(usize, Word)]),
        lexica: &mut Lexica,
    ) -> Result<(), ReadError> {
        self.no_answer.add(batch, rows, lexica);
        self.failures.add(batch, failed);
        self.noted.add(batch, (rows, failed), lexica);
        self.watch.add(batch, own, rows, lexica)
    }

    /// Everything that stands out, worst first, and the busiest ends of connections, which the
    /// same reading shows.
    pub(crate) fn find(mut self, scene: &mut Scene<'_>) -> (Vec<Finding>, Vec<WireRate>) {
        let network = Network::of(scene.trace, &mut self.watch);
        let mut found = network.findings(scene);
        let ways = network.ways();
        let peers = Peers::of(scene);
        let stands = no_progress::findings(&peers);
        found.retain(|finding| !is_of_hole(finding, &stands));
        found.extend(stands);
        found.extend(unreachable::findings(&peers));
        found.extend(delayed_ack::findings(&peers, &self.watch, &ways, scene));
        let suspects = suspects::suspects(&mut self.watch, scene);
        let mut ones = { suspects.iter() }
            .flat_map(|suspects| suspects::findings(suspects, &self.watch, &ways, scene))
            .collect::<Vec<_>>();
        ones.retain(|one| !is_of_network(&one.finding, &found));
        let members = network.members(&mut self.watch, scene, &mut found);
        ones.retain(|one| !{ members.iter() }.any(|member| is_of_connection(one, member)));
        ones.extend(members);
        if let Some(server) = servers::finding(&mut self.watch, &network, scene) {
            // Clients and files that wait for that server are no findings of their own.
            ones.retain(|one| {
                one.server_lost_ns > server.server_lost_ns
                    || 2 * one.server_lost_ns < one.finding.lost_ns
            });
            ones.push(server);
        }
        let mut latency = latency::findings(&mut self.watch, &ways, &found, scene);
        latency.retain(|finding| !is_of_one(finding, &ones));
        if let Some(suspects) = &suspects {
            { latency.iter_mut() }
                .filter(|finding| matches!(finding.kind, "latency_jump" | "queue"))
                .for_each(|finding| suspects.name_time(finding, &self.watch, scene));
        }
        found.extend(latency);
        found.extend(ones.into_iter().map(|one| one.finding));
        found.extend(self.failed(scene));
        found.extend(self.no_answer.findings(scene));
        found.extend(workload::findings(scene.report));
        if scene.report.load.is_some() {
            found.retain(|finding| !OF_CLIENTS.contains(&finding.kind));
        }
        let forwarding = scene.report.forwarding.iter();
        found.extend(forwarding.flat_map(forwarder::findings));
        rank(&mut found);
        (found, network.rates(scene.report.trace.speed_bps()))
    }
}

impl Findings {
    /// What failed, and state that client and server disagree about.
    fn failed(&self, scene: &mut Scene<'_>) -> Vec<Finding> {
        let mut found = self.failures.findings(scene.report, scene.lexica);
        services::add_reasons(&mut found, &self.noted, scene);
        found.extend(services::findings(&self.noted, scene));
        found.extend(state::findings(&self.noted, scene));
        found.extend(listing::findings(&self.noted, scene));
        found
    }
}

/// Findings that advise clients: a load asked for its mix itself.
const OF_CLIENTS: [&str; 9] = [
    "attributes",
    "getattr_storm",
    "alignment",
    "misaligned_client",
    "small_sequential",
    "hot_files",
    "busy_client",
    "slow_client",
    "one_at_a_time",
];

/// Whether the losses of a connection are those of segments that are too long for the way.
fn is_of_hole(finding: &Finding, stands: &[Finding]) -> bool {
    let is_hole = |one: &&Finding| one.basis["how"] == "mtu_hole";
    finding.kind == "loss" && { stands.iter().filter(is_hole) }.any(|one| one.who == finding.who)
}

/// Whether what TCP had to do explains why one is slow: to this client, or for everybody where
/// replies wait for earlier ones to leave, which counts as the server's time.
fn is_of_network(one: &Finding, network: &[Finding]) -> bool {
    let waits = |found: &Finding| matches!(found.kind, "window" | "full_link");
    let is_its = |found: &Finding| {
        is_end_of(&found.who, &one.who)
            && matches!(found.kind, "loss" | "reordering" | "window" | "full_link")
    };
    network
        .iter()
        .any(|found| is_its(found) || waits(found) && one.kind == "slow_file")
}

/// Whether a client is slow because one of its connections is.
fn is_of_connection(one: &Found, member: &Found) -> bool {
    let is_its =
        one.finding.kind == "slow_client" && is_end_of(&member.finding.who, &one.finding.who);
    is_its && 5 * member.finding.lost_ns >= 4 * one.finding.lost_ns
}

/// Whether a name is that of a host, or of an end of a connection there.
fn is_end_of(name: &str, host: &str) -> bool {
    let rest = name.strip_prefix('[').unwrap_or(name).strip_prefix(host);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':') || rest.starts_with("]:"))
}

/// Whether a finding about everybody's operations is about those of one client or file.
fn is_of_one(finding: &Finding, ones: &[Found]) -> bool {
    let is_of_server = matches!(
        finding.kind,
        "slow_server" | "latency_jump" | "queue" | "tail"
    );
    // Most of it: one client in four is not the server, but one with four fifths of the time is.
    let most = |one: &Found| one.server_lost_ns >= finding.lost_ns / 5 * 4;
    is_of_server && ones.iter().any(most)
}

/// Worst first; of what failed, those whose place is known. Kinds and sentences break ties, so that
/// a report is the same every time.
fn rank(findings: &mut [Finding]) {
    let is_vague = |one: &Finding| one.failed && one.place == Some(Place::CannotTell);
    findings.sort_by(|one, other| {
        (other.severe.cmp(&one.severe))
            .then(other.failed.cmp(&one.failed))
            .then(is_vague(one).cmp(&is_vague(other)))
            .then(other.lost_ns.cmp(&one.lost_ns))
            .then(other.operations_share.total_cmp(&one.operations_share))
            .then_with(|| (one.kind, &one.what).cmp(&(other.kind, &other.what)))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_that_cost_time_come_first() {
        let finding = |kind, lost_ns, operations_share| Finding {
            kind,
            lost_ns,
            operations_share,
            ..Finding::default()
        };
        let mut findings = [
            finding("few", 0, 0.1),
            finding("many", 0, 0.9),
            finding("short", 5, 0.0),
            finding("long", 7, 0.0),
            finding("full", 0, 0.0),
            finding("failed", 0, 0.0),
        ];
        findings[4].severe = true;
        findings[5].failed = true;
        rank(&mut findings);
        let kinds = findings.map(|finding| finding.kind);
        assert_eq!(kinds, ["full", "failed", "long", "short", "many", "few"]);
    }
}
