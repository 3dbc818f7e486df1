//! Connections that were asked for and did not come about, by server and port:
//!
//! | what the columns show | how |
//! |---|---|
//! | SYNs of the client, and nothing of the server | unanswered |
//! | an RST answers the SYN | refused |
//! | the acknowledgement of an older connection does (RFC 5961 4.2) | challenged |
//! | the server answers again and again, the client never | unfinished |
//! | connections are reset before anything was answered, three times or more | reset |
//!
//! A server that asks its client is a callback of NFSv4.0 (`cb_path_down`).

use std::collections::{BTreeMap, BTreeSet};

use lineside_words::{grouped, time};
use serde_json::json;

use super::peers::{Peer, Peers};
use crate::model::{Finding, Place};
use crate::read::selection::end_name;

/// A connection is asked for in vain for so long, or the capture went on for so long after it was.
const UNANSWERED_MIN_NS: u64 = 1_000_000_000;
const UNANSWERED_END_NS: u64 = 3_000_000_000;
/// Connections that are reset one after the other are a loop.
const RESETS_MIN: u64 = 3;
/// One that asks for more ports in vain, at which no RPC is expected, scans them.
const PORTS_MAX: usize = 4;
/// One that is no client of RPC and asks for so many hosts or ports scans them.
const TARGETS_MAX: usize = 16;
/// Findings of a kind; the rest is one sentence of the last.
const FINDINGS_MAX: usize = 6;

/// What came of a connection that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Vain {
    Unanswered,
    Refused,
    Challenged,
    Unfinished,
    Reset,
}

impl Vain {
    fn of(peer: &Peer) -> Option<Self> {
        let [client, server] = &peer.sent;
        // An established connection may meet a SYN of its client after a restart.
        if peer.challenged > 0 {
            return Some(Self::Challenged);
        }
        if peer.refused > 0 && server.bytes == 0 {
            return Some(Self::Refused);
        }
        if client.syns == 0 || server.bytes > 0 {
            return None;
        }
        let is_silent = client.bytes == 0 && client.packets == client.syns + client.resets;
        match server.syns {
            0 if is_silent && server.packets == 0 => Some(Self::Unanswered),
            2.. if is_silent && client.resets == 0 => Some(Self::Unfinished),
            // A client that ends a connection well sends a FIN.
            1.. if server.resets > 0 && client.fins + server.fins == 0 => Some(Self::Reset),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Unanswered => "unanswered",
            Self::Refused => "refused",
            Self::Challenged => "challenged",
            Self::Unfinished => "unfinished",
            Self::Reset => "reset",
        }
    }
}

/// Connections to one port of one server that came to the same.
#[derive(Debug, Default)]
struct Group<'a> {
    clients: BTreeSet<&'a str>,
    connections: u64,
    syns: u64,
    answers: u64,
    refused: u64,
    challenged: u64,
    first_ns: i64,
    last_ns: i64,
    /// One of these clients has a connection there afterwards.
    is_over: bool,
    is_callback: bool,
}

type Key<'a> = (&'a str, i32, Vain);

/// The findings, most SYNs first.
pub(super) fn findings(peers: &Peers) -> Vec<Finding> {
    let mut groups = groups(peers);
    groups.retain(|(_, _, vain), group| counts(*vain, group, peers));
    let mut found: Vec<(&Key<'_>, &Group<'_>)> = groups.iter().collect();
    found.sort_by_key(|(key, group)| (std::cmp::Reverse(group.syns), **key));
    let left_out = found.len().saturating_sub(FINDINGS_MAX);
    found.truncate(FINDINGS_MAX);
    let mut found: Vec<Finding> = found
        .into_iter()
        .map(|(key, group)| finding(key, group, peers))
        .collect();
    if let (Some(last), 1..) = (found.last_mut(), left_out) {
        last.evidence += &format!("; {} more ports alike", grouped(left_out as u64));
    }
    found
}

fn groups(peers: &Peers) -> BTreeMap<Key<'_>, Group<'_>> {
    let tried: Vec<(&Peer, Vain)> = { peers.all.iter() }
        .filter_map(|peer| Some((peer, Vain::of(peer)?)))
        .collect();
    let mut targets: BTreeMap<&str, BTreeSet<(&str, i32)>> = BTreeMap::new();
    let mut guesses: BTreeMap<(&str, &str), BTreeSet<i32>> = BTreeMap::new();
    for (peer, _) in &tried {
        let target = (peer.server.as_str(), peer.server_port);
        targets.entry(&peer.client).or_default().insert(target);
        if !peers.expects(&peer.server, peer.server_port) {
            let pair = (peer.client.as_str(), peer.server.as_str());
            guesses.entry(pair).or_default().insert(peer.server_port);
        }
    }
    let is_scan = |peer: &Peer| match peers.expects(&peer.server, peer.server_port) {
        true => !peers.calls(&peer.client) && targets[peer.client.as_str()].len() > TARGETS_MAX,
        false => guesses[&(peer.client.as_str(), peer.server.as_str())].len() > PORTS_MAX,
    };
    // Where the tap sees one direction alone, answers are missing everywhere.
    let seen: BTreeSet<&str> = { peers.all.iter().filter(|peer| peer.sent[1].packets > 0) }
        .map(|peer| peer.server.as_str())
        .collect();
    let half: BTreeSet<&str> = { peers.all.iter().filter(|peer| peer.sent[0].bytes > 0) }
        .map(|peer| peer.server.as_str())
        .filter(|server| !seen.contains(server))
        .collect();
    let is_unknown =
        |peer: &Peer, vain: Vain| vain == Vain::Unanswered && half.contains(peer.server.as_str());
    let mut groups: BTreeMap<Key<'_>, Group<'_>> = BTreeMap::new();
    for (peer, vain) in tried {
        if is_scan(peer) || is_unknown(peer, vain) {
            continue;
        }
        let key = (peer.server.as_str(), peer.server_port, vain);
        let group = groups.entry(key).or_insert_with(|| Group {
            first_ns: i64::MAX,
            last_ns: i64::MIN,
            ..Group::default()
        });
        group.clients.insert(&peer.client);
        group.connections += 1;
        group.syns += peer.sent[0].syns;
        group.answers += peer.sent[1].syns;
        group.refused += peer.refused;
        group.challenged += peer.challenged;
        group.first_ns = group.first_ns.min(peer.first_ns);
        group.last_ns = group.last_ns.max(peer.last_ns);
        group.is_callback |= !peers.expects(&peer.server, peer.server_port)
            && peers.is_callback(&peer.client, &peer.server);
    }
    for peer in peers.all.iter().filter(|peer| peer.sent[1].bytes > 0) {
        for ((server, port, _), group) in &mut groups {
            group.is_over |= peer.server == *server
                && peer.server_port == *port
                && group.clients.contains(peer.client.as_str())
                && peer.first_ns > group.first_ns
                && peer.last_ns >= group.last_ns;
        }
    }
    groups
}

/// Whether it is more than what ends with the capture, or happens once.
fn counts(vain: Vain, group: &Group<'_>, peers: &Peers) -> bool {
    let lasted_ns = group.last_ns.abs_diff(group.first_ns);
    match vain {
        Vain::Unanswered | Vain::Unfinished => {
            lasted_ns >= UNANSWERED_MIN_NS
                || peers.end_ns.abs_diff(group.first_ns) >= UNANSWERED_END_NS
        }
        Vain::Reset => group.connections >= RESETS_MIN,
        Vain::Refused | Vain::Challenged => true,
    }
}

fn finding((server, port, vain): &Key<'_>, group: &Group<'_>, peers: &Peers) -> Finding {
    let to = end_name(server, Some(*port));
    let until_ns = if group.is_over {
        group.last_ns
    } else {
        peers.end_ns
    };
    let clients: Vec<&str> = group.clients.iter().copied().collect();
    let from = match clients[..] {
        [one] => one.to_owned(),
        _ => format!("{} clients", grouped(clients.len() as u64)),
    };
    let has_called = { peers.all.iter() }.any(|peer| {
        peer.server == *server && peer.sent[1].packets > 0 && peer.last_ns > group.first_ns
    });
    Finding {
        kind: if group.is_callback {
            "cb_path_down"
        } else {
            "unreachable"
        },
        place: Some(place(*vain, has_called)),
        since_ns: Some(group.first_ns),
        until_ns: group.is_over.then_some(group.last_ns),
        who: if clients.len() == 1 {
            from.clone()
        } else {
            to.clone()
        },
        what: what(*vain, group, &to),
        evidence: evidence(*vain, group, &from, has_called),
        advice: advice(*vain, group.is_callback, server, *port),
        lost_ns: until_ns.abs_diff(group.first_ns),
        severe: true,
        failed: true,
        basis: [
            ("how", json!(vain.name())),
            ("server", json!(server)),
            ("server_port", json!(port)),
            ("connections", json!(group.connections)),
            ("syns", json!(group.syns)),
            ("refused", json!(group.refused)),
            ("challenged", json!(group.challenged)),
            ("lasted_ns", json!(group.last_ns.abs_diff(group.first_ns))),
            ("unanswered_min_ns", json!(UNANSWERED_MIN_NS)),
            ("resets_min", json!(RESETS_MIN)),
        ]
        .into(),
        ..Finding::default()
    }
}

fn what(vain: Vain, group: &Group<'_>, to: &str) -> String {
    let lasted = time(group.last_ns.abs_diff(group.first_ns));
    let syns = counted(group.syns, "SYN");
    let what = match vain {
        Vain::Unanswered => format!("nobody answers at {to}: {syns} in {lasted}"),
        Vain::Refused => format!(
            "{to} refuses connections by RST: {}",
            counted(group.refused, "time")
        ),
        Vain::Challenged => format!(
            "{to} answers {} SYNs with acknowledgements of an older connection (a challenge ACK)",
            grouped(group.challenged)
        ),
        Vain::Unfinished => format!(
            "connections to {to} never come about: {} answers to {syns} in {lasted}, which \
            the client does not acknowledge",
            grouped(group.answers)
        ),
        Vain::Reset => format!(
            "{to} resets each connection before it answers a call: {} times in {lasted}",
            grouped(group.connections)
        ),
    };
    match group.is_callback {
        true => format!("the callback path is down, recalls cannot come: {what}"),
        false => what,
    }
}

/// `1 SYN`, `2 SYNs`
fn counted(number: u64, what: &str) -> String {
    let more = if number == 1 { "" } else { "s" };
    format!("{} {what}{more}", grouped(number))
}

fn place(vain: Vain, has_called: bool) -> Place {
    match vain {
        Vain::Unanswered if has_called => Place::Network,
        Vain::Unanswered => Place::CannotTell,
        Vain::Unfinished => Place::Network,
        Vain::Refused | Vain::Reset => Place::Server,
        Vain::Challenged => Place::CannotTell,
    }
}

fn evidence(vain: Vain, group: &Group<'_>, from: &str, has_called: bool) -> String {
    let asked = format!(
        "{from} asked for {} by {}",
        counted(group.connections, "connection"),
        counted(group.syns, "SYN")
    );
    let more = match vain {
        Vain::Unanswered if has_called => "; the same host sends on other connections meanwhile",
        Vain::Unanswered => "; nothing of that host passes the tap meanwhile",
        _ if group.is_over => "; later connections of the same client came about",
        _ => "",
    };
    asked + more
}

fn advice(vain: Vain, is_callback: bool, server: &str, port: i32) -> String {
    if is_callback {
        return format!(
            "open the way from the server to {server}, port {port} (a firewall, or NAT between \
            them), set the client's callback_tcpport, or mount by NFSv4.1, whose recalls come on \
            the client's own connection"
        );
    }
    match vain {
        Vain::Unanswered | Vain::Unfinished => format!(
            "look whether the host is up (ping {server}) and what drops port {port} on the way \
            (nc -vz {server} {port} from the client; nft list ruleset on both hosts, firewalls \
            between them)"
        ),
        Vain::Refused => format!(
            "nothing listens at port {port} of {server}, or a firewall rejects it: look at the \
            service there (ss -ltn, rpcinfo -p {server})"
        ),
        Vain::Challenged => "the server holds a connection that the client has forgotten, and the \
            RST that would end it does not reach the server: look for a firewall that drops it; on \
            the server, ss -K ends the old connection"
            .to_owned(),
        Vain::Reset => format!(
            "look why {server} ends connections at once: its log, limits of connections and \
            threads, exports that want a reserved port, a load balancer without a healthy node"
        ),
    }
}
