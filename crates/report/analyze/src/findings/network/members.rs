//! One of several connections of a client to a server that is slow, or loses packets, while its
//! siblings do not: a member of nconnect, on a bad member of a bundle or on one of several paths.
//!
//! ```text
//!  connections ─► Siblings: at the same time, same client and server ─► loss: Wilson's intervals
//!                     └─► those that cost much ─► a second pass: Line of each ─► Standing
//! ```
//!
//! Connections of different mounts or programs are siblings too, and what one of them asks for may
//! take longer. So a slow one needs more than its latency: it loses packets, its round trips are
//! longer, most of the excess is not the server's time; or it asks for the files that its siblings
//! ask for, and either was as quick as they were at another time or is one of four or more.

use std::collections::{BTreeMap, HashSet};

use hashbrown::HashMap;
use lineside_words::{grouped, percent, time};
use serde_json::json;

use super::connection::Connection;
use super::losses::Losses;
use crate::findings::lines::{
    FACTOR_MIN, Found, Line, OTHERS_MIN, PEERS_MIN, Standing, compare, each_call, stands, take,
};
use crate::findings::scene::{Scene, Ways};
use crate::findings::waits::{OPERATIONS_MIN, TIME_SHARE_MIN};
use crate::findings::watch::{Call, ConnectionTimes, Watch};
use crate::model::{Finding, Place};
use crate::numbers::{share, share_at_least};

/// Connections of one client to one server that are compared with each other.
const GROUP_MAX: usize = 64;
/// Connections that are compared in the second pass: those that cost most.
const SUSPECTS_MAX: usize = 8;
/// Files of a suspect and its siblings that are looked at.
const FILES_MAX: usize = 65_536;
/// Of a suspect's operations, those about files that its siblings ask for too.
const SHARED_FILES_SHARE: f64 = 0.5;
/// How many more of its operations take long than of those of its siblings: before the second pass.
const LONG_FACTOR: f64 = 2.0;
/// By how much a round trip is longer.
const RTT_FACTOR: u64 = 2;
const RTT_EXCESS_NS: u64 = 1_000_000;
/// A finding that names a connection is about a loss that has this share of all.
const MOST_SHARE: f64 = 0.8;

/// A connection, and those of the same client and server at the same time.
struct Siblings<'a> {
    own: &'a Connection,
    others: Vec<&'a Connection>,
}

impl Siblings<'_> {
    fn losses(&self) -> [Losses; 2] {
        [
            Losses::of([self.own].into_iter()),
            Losses::of(self.others.iter().copied()),
        ]
    }

    /// Whether the connection loses packets, and its siblings a fourth of that share or less.
    fn loses(&self) -> bool {
        let [own, others] = self.losses();
        let whole = others.packets.saturating_sub(others.needed);
        let others_at_most = 1.0 - share_at_least(whole, others.packets);
        own.matter()
            && !own.are_overtaken()
            && share_at_least(own.needed, own.packets) > FACTOR_MIN * others_at_most
    }

    /// Whether its way is longer than that of any sibling.
    fn is_farther(&self) -> bool {
        let shortest = |connection: &Connection| -> Option<u64> {
            let ends = connection.sent.iter().filter_map(|sent| sent.rtt_min_ns);
            ends.reduce(|one, other| one + other)
        };
        let longest = self.others.iter().filter_map(|other| shortest(other)).max();
        let own = shortest(self.own).zip(longest);
        own.is_some_and(|(own, longest)| {
            own >= RTT_FACTOR * longest && own - longest >= RTT_EXCESS_NS
        })
    }

    /// How much longer its operations took than as many of its siblings, whatever they are; 0 if no
    /// more of them than of these took long.
    fn excess_ns(&self) -> u64 {
        let sum = |of: fn(&ConnectionTimes) -> u64| -> u64 {
            self.others.iter().map(|other| of(&other.times)).sum()
        };
        let [operations, long] = [sum(|times| times.operations), sum(|times| times.long)];
        let own = &self.own.times;
        let is_longer = share(own.long, own.operations) >= LONG_FACTOR * share(long, operations);
        if own.long < OPERATIONS_MIN / 2 || operations < OTHERS_MIN || !is_longer {
            return 0;
        }
        let latency_ns = sum(|times| times.latency_ns) as f64 / operations as f64;
        (own.latency_ns as f64 - own.operations as f64 * latency_ns).max(0.0) as u64
    }

    fn name(&self) -> String {
        self.own.name()
    }

    /// `one of 4 connections to 198.51.100.20`
    fn which(&self) -> String {
        let connections = grouped(self.others.len() as u64 + 1);
        format!("one of {connections} connections to {}", self.own.server)
    }

    fn lost(&self) -> String {
        let [own, others] = self.losses();
        format!(
            "{} of its {} packets were sent again ({}), of the others {} of {}",
            grouped(own.needed),
            grouped(own.packets),
            percent(share(own.needed, own.packets)),
            grouped(others.needed),
            grouped(others.packets)
        )
    }

    fn advice(&self) -> String {
        format!(
            "look at the way of this one: a bundle, or several paths, carry each connection on one \
            member: ethtool -S and the drop counters of each member, and the hash that chooses it. \
            A mount with nconnect waits for its slowest: lineside slow TRACE --connection {}",
            self.name()
        )
    }
}

/// All that have siblings.
fn siblings(connections: &[Connection]) -> Vec<Siblings<'_>> {
    let mut groups: BTreeMap<(&str, &str), Vec<&Connection>> = BTreeMap::new();
    for connection in connections {
        let key = (connection.client.as_str(), connection.server.as_str());
        groups.entry(key).or_default().push(connection);
    }
    let mut found = Vec::new();
    for group in groups.values().filter(|group| group.len() > 1) {
        // Of very many, those that asked for most.
        let mut group = group.clone();
        group.sort_by_key(|each| (std::cmp::Reverse(each.times.operations), each.id));
        group.truncate(GROUP_MAX);
        for own in &group {
            let others = { group.iter().copied() }.filter(|other| own.is_beside(other));
            let others: Vec<_> = others.collect();
            if !others.is_empty() {
                found.push(Siblings { own, others });
            }
        }
    }
    found
}

/// What the second pass collects of a suspect and its siblings.
struct Contrast {
    own: Line,
    all: Line,
    /// By file: operations of the suspect, and whether its siblings ask for it too.
    files: HashMap<i64, (u64, bool)>,
}

impl Contrast {
    fn add(&mut self, call: &Call, is_own: bool) {
        self.all.add(call, call.latency_ns());
        if is_own {
            self.own.add(call, call.latency_ns());
        }
        let Some(file_id) = call.file_id else { return };
        if self.files.len() >= FILES_MAX && !self.files.contains_key(&file_id) {
            return;
        }
        let (operations, is_shared) = self.files.entry(file_id).or_default();
        *operations += u64::from(is_own);
        *is_shared |= !is_own;
    }

    fn shares_files(&self) -> bool {
        let of_own = self.files.values().map(|(operations, _)| operations).sum();
        let shared = self.files.values().filter(|(_, is_shared)| *is_shared);
        let shared = shared.map(|(operations, _)| operations).sum();
        share(shared, of_own) >= SHARED_FILES_SHARE
    }
}

/// The suspects that stand out, each with how it does.
fn slow<'a>(
    siblings: &'a [Siblings<'a>],
    watch: &mut Watch,
    scene: &mut Scene<'_>,
) -> Vec<(&'a Siblings<'a>, Standing)> {
    let all_ns: u64 = { siblings.iter() }
        .map(|each| each.own.times.latency_ns)
        .sum();
    let mut suspects: Vec<&Siblings<'_>> = { siblings.iter() }
        .filter(|each| share(each.excess_ns(), all_ns) >= TIME_SHARE_MIN)
        .collect();
    suspects.sort_by_key(|each| (std::cmp::Reverse(each.excess_ns()), each.own.id));
    suspects.truncate(SUSPECTS_MAX);
    if suspects.is_empty() {
        return Vec::new();
    }
    let mut contrasts: Vec<Contrast> = { suspects.iter() }
        .map(|_| Contrast {
            own: Line::new(watch.steps),
            all: Line::new(watch.steps),
            files: HashMap::new(),
        })
        .collect();
    let mut places: HashMap<i64, Vec<(usize, bool)>> = HashMap::new();
    for (at, suspect) in suspects.iter().enumerate() {
        places.entry(suspect.own.id).or_default().push((at, true));
        for other in &suspect.others {
            places.entry(other.id).or_default().push((at, false));
        }
    }
    each_call(watch, scene, Some("connection_id"), |id, call| {
        let places = id.and_then(|id| places.get(&id));
        for &(at, is_own) in places.into_iter().flatten() {
            contrasts[at].add(call, is_own);
        }
    });
    let stands = suspects
        .into_iter()
        .zip(contrasts)
        .filter_map(|(suspect, contrast)| {
            let standing = compare(&contrast.own, &contrast.all)?;
            let is_of_way =
                suspect.loses() || suspect.is_farther() || 2.0 * standing.server_share < 1.0;
            let is_one_of_many = suspect.others.len() as u64 + 1 >= PEERS_MIN;
            let is_odd = (standing.was_quick || is_one_of_many) && contrast.shares_files();
            let is_much = share(standing.lost_ns, all_ns) >= TIME_SHARE_MIN;
            (is_much && (is_of_way || is_odd)).then_some((suspect, standing))
        });
    stands.collect()
}

/// The connections that stand out among their siblings: of a client and a server the worst one.
pub(super) fn findings(
    connections: &[Connection],
    watch: &mut Watch,
    scene: &mut Scene<'_>,
) -> Vec<Found> {
    let siblings = siblings(connections);
    if siblings.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<(&Siblings<'_>, Found)> = slow(&siblings, watch, scene)
        .into_iter()
        .map(|(each, standing)| (each, of_latency(each, &standing, watch, scene)))
        .collect();
    for each in siblings.iter().filter(|each| each.loses()) {
        if !found.iter().any(|(other, _)| other.own.id == each.own.id) {
            found.push((each, of_loss(each, scene)));
        }
    }
    found.sort_by_key(|(each, one)| (std::cmp::Reverse(one.finding.lost_ns), each.own.id));
    let mut named = HashSet::new();
    found.retain(|(each, _)| named.insert((&each.own.client, &each.own.server)));
    found.into_iter().map(|(_, one)| one).collect()
}

fn of_latency(each: &Siblings<'_>, standing: &Standing, watch: &Watch, scene: &Scene<'_>) -> Found {
    let ways = Ways {
        client_ns: each.own.sent[0].rtt_min_ns,
        server_ns: each.own.sent[1].rtt_min_ns,
    };
    let mut finding = stands(standing, watch, &ways, scene);
    let loses = each.loses();
    if loses || each.is_farther() || 2.0 * standing.server_share < 1.0 {
        finding.place = Some(Place::Network);
    }
    if loses {
        finding.evidence += &format!("; {}", each.lost());
    }
    if let Some([own, other]) = round_trips(each).filter(|_| each.is_farther()) {
        let (own, other) = (time(own), time(other));
        finding.evidence += &format!("; its round trip takes {own}, that of the others {other}");
    }
    finding.what = format!(
        "{} is slow: its operations {}",
        each.which(),
        take(standing, "of the others")
    );
    let server_lost_ns = (standing.lost_ns as f64 * standing.server_share) as u64;
    named(each, finding, server_lost_ns)
}

/// The shortest round trips of a connection and, at most, of its siblings.
fn round_trips(each: &Siblings<'_>) -> Option<[u64; 2]> {
    let own = each.own.rtt_ns()?;
    let others = each
        .others
        .iter()
        .filter_map(|other| other.rtt_ns())
        .max()?;
    Some([own, others])
}

fn of_loss(each: &Siblings<'_>, scene: &Scene<'_>) -> Found {
    let [own, _] = each.losses();
    let [since_ns, until_ns] = each.own.resent_times();
    let finding = Finding {
        place: Some(Place::Network),
        since_ns,
        until_ns,
        what: format!("{} loses packets: {}", each.which(), each.lost()),
        evidence: format!("{} fast, {}", grouped(own.fast), own.waits()),
        lost_ns: own.lost_ns(),
        operations_share: share(own.waited, scene.report.totals.operations),
        ..Finding::default()
    };
    named(each, finding, 0)
}

fn named(each: &Siblings<'_>, mut finding: Finding, server_lost_ns: u64) -> Found {
    let [own, others] = each.losses();
    finding.kind = "slow_one_of_connections";
    finding.who = each.name();
    finding.advice = each.advice();
    let connections = each.others.len() + 1;
    finding.basis.extend([
        ("connection_id", json!(each.own.id.to_string())),
        ("connections", json!(connections)),
        ("loses", json!(each.loses())),
        ("needed", json!(own.needed)),
        ("packets", json!(own.packets)),
        ("others_needed", json!(others.needed)),
        ("others_packets", json!(others.packets)),
    ]);
    Found {
        finding,
        server_lost_ns,
    }
}

/// Whether a connection that is named has most of what all lost.
pub(super) fn has_most_losses(connections: &[Connection], found: &[Found]) -> bool {
    let all = Losses::of(connections.iter()).needed;
    found.iter().any(|one| {
        let own = one.finding.basis["needed"].as_u64().unwrap_or(0);
        one.finding.basis["loses"] == true && share(own, all) >= MOST_SHARE
    })
}
