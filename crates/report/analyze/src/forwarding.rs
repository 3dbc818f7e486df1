//! A forwarder, as the certificate in `trace.json` describes it.

use std::ops::Deref;

use lineside_trace::certificate::forward::{Forward, ForwardNode, ForwardService};
use lineside_trace::{Manifest, Role, State, certificate};
use serde::Serialize;

use crate::numbers::share;

/// What a forwarder did.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Forwarding {
    /// Whether anything is missing.
    pub verdict: Option<State>,
    /// Why.
    pub reasons: Vec<String>,
    /// When it began, nanoseconds since the Unix epoch.
    pub started_ns: i64,
    /// Its certificate.
    #[serde(flatten)]
    pub found: Forward,
}

impl Deref for Forwarding {
    type Target = Forward;

    fn deref(&self) -> &Forward {
        &self.found
    }
}

/// A share that departs from its weight by more standard deviations is marked: 1 in 16,000 does by
/// chance.
pub const DEVIATIONS_MAX: f64 = 4.0;

/// The certificate of a forwarder, or what is known of one that has none yet; `None` of other runs.
pub(crate) fn forwarding(manifest: &Manifest) -> Option<Forwarding> {
    manifest.section(Role::Forward)?;
    let verdict = Some(manifest.verdict.state);
    let started_ns = manifest.started_ns.unwrap_or_default();
    let Some(found) = certificate::of(manifest) else {
        let why = "the run goes on, or was killed: what it did is written when it ends, and 'lineside \
                   ctl RUN stats' asks one that goes on";
        return Some(Forwarding {
            verdict,
            started_ns,
            reasons: vec![why.to_owned()],
            ..Forwarding::default()
        });
    };
    Some(Forwarding {
        verdict,
        started_ns,
        reasons: manifest.verdict.reasons.clone(),
        found,
    })
}

/// A time for which a node was down.
pub struct Down<'a> {
    /// By the clock of `began_ns`.
    pub since_ns: i64,
    /// `None`: until the end.
    pub until_ns: Option<i64>,
    /// What the check that decided it found.
    pub finding: &'a serde_json::Value,
    ended_ns: i64,
}

impl Down<'_> {
    /// When it came up again, or the run ended.
    pub fn end_ns(&self) -> i64 {
        self.until_ns.unwrap_or(self.ended_ns)
    }

    /// How long it was.
    pub fn length_ns(&self) -> u64 {
        let end_ns = self.end_ns();
        end_ns.saturating_sub(self.since_ns).max(0).unsigned_abs()
    }
}

impl Forwarding {
    /// The times for which a node was down, as far back as its history goes.
    pub fn times_down<'a>(&self, node: &'a ForwardNode) -> Vec<Down<'a>> {
        let mut changes = node.history.iter().peekable();
        let mut times = Vec::new();
        while let Some(change) = changes.next() {
            if !change.is_up {
                times.push(Down {
                    since_ns: change.at_ns,
                    until_ns: changes.peek().map(|next| next.at_ns),
                    finding: &change.finding,
                    ended_ns: self.began_ns.saturating_add(self.ran_ns),
                });
            }
        }
        times
    }

    /// An instant of the run's clock, since the Unix epoch.
    pub fn wall(&self, at_ns: i64) -> i64 {
        let since = at_ns.saturating_sub(self.began_ns);
        self.started_ns.saturating_add(since)
    }
}

/// By how many standard deviations of a binomial choice a node was chosen more often than its
/// weight says, or less; `None` where that says nothing: something was down or drained, or there
/// was no choice.
pub fn deviations(service: &ForwardService, node: &ForwardNode) -> Option<f64> {
    let were_up = { service.nodes.iter() }
        .all(|node| node.state == "up" && node.history.iter().all(|change| change.is_up));
    let opened: u64 = service.nodes.iter().map(|node| node.opened).sum();
    let weights: u64 = service.nodes.iter().map(|node| node.weight).sum();
    let [chosen, wanted] = [share(node.opened, opened), share(node.weight, weights)];
    let deviation = (wanted * (1.0 - wanted) / opened.max(1) as f64).sqrt();
    let is_choice = were_up && opened > 0 && deviation > 0.0;
    is_choice.then(|| (chosen - wanted) / deviation)
}

/// Why a check failed.
pub fn reason_words(finding: &serde_json::Value) -> String {
    match (finding.as_str(), finding["wrong-status"].as_u64()) {
        (_, Some(0)) => "its answer is no HTTP".to_owned(),
        (_, Some(status)) => format!("status {status}"),
        (Some("silent"), _) => "no answer in time".to_owned(),
        (Some("refused"), _) => "connections are refused".to_owned(),
        (Some("unreachable"), _) => "unreachable".to_owned(),
        (word, _) => word.unwrap_or("its checks failed").to_owned(),
    }
}
