//! Connections that stand still although both ends are there: bytes that do not get through while
//! others do (an MTU hole), and a window that stays shut.

use lineside_words::{bytes, grouped, time};
use serde_json::json;

use super::peers::{Peer, Peers};
use crate::model::{Finding, Place};
use crate::read::selection::end_name;

/// From when on bytes are stuck, and a window is shut: what healthy ends do takes less.
const STUCK_MIN_NS: u64 = 1_000_000_000;
const SHUT_MIN_NS: u64 = 1_000_000_000;
/// And bytes that nobody acknowledges while nothing else passes either: four of Linux' timeouts in
/// a row take 3 s.
const UNACKNOWLEDGED_MIN_NS: u64 = 3_000_000_000;

const ENDS: [&str; 2] = ["client", "server"];

/// One finding for each way to stand still, with the connection that did for longest.
pub(super) fn findings(peers: &Peers) -> Vec<Finding> {
    let ends = || { peers.all.iter() }.flat_map(|peer| [(peer, 0), (peer, 1)]);
    let holes: Vec<(&Peer, usize)> = ends().filter(|(peer, end)| is_hole(peer, *end)).collect();
    let mut found: Vec<Finding> = hole(&holes).into_iter().collect();
    for end in [1, 0] {
        let of_end = |is: fn(&Peer, usize) -> bool| -> Vec<&Peer> {
            peers.all.iter().filter(|peer| is(peer, end)).collect()
        };
        found.extend(shut(&of_end(is_shut), end));
        found.extend(unacknowledged(&of_end(is_unacknowledged), end));
    }
    found
}

fn is_shut(peer: &Peer, end: usize) -> bool {
    peer.sent[end].shut_ns >= SHUT_MIN_NS
}

fn is_stuck(peer: &Peer, end: usize, min_ns: u64) -> bool {
    peer.sent[end].stuck_ns >= min_ns && !is_shut(peer, 1 - end)
}

fn is_hole(peer: &Peer, end: usize) -> bool {
    let sent = &peer.sent[end];
    is_stuck(peer, end, STUCK_MIN_NS)
        && sent.passed_bytes > 0
        && sent.passed_bytes < sent.stuck_bytes
}

/// Calls that nobody acknowledges are calls without a reply, which are reported as such.
fn is_unacknowledged(peer: &Peer, end: usize) -> bool {
    end == 1 && is_stuck(peer, end, UNACKNOWLEDGED_MIN_NS) && peer.sent[end].passed_bytes == 0
}

/// Segments that do not get through while shorter ones do.
fn hole(holes: &[(&Peer, usize)]) -> Option<Finding> {
    let &(worst, end) = holes
        .iter()
        .max_by_key(|(peer, end)| peer.sent[*end].stuck_ns)?;
    let sent = &worst.sent[end];
    let (from, to) = (ENDS[end], ENDS[1 - end]);
    let (stuck, passed) = (grouped(sent.stuck_bytes), grouped(sent.passed_bytes));
    let lasted = time(sent.stuck_ns);
    // What the tap never saw, the receiver's SACK blocks show.
    let is_seen = sent.stuck_bytes <= sent.segment_max;
    let what = match is_seen {
        true => format!(
            "an MTU hole: segments of {stuck} bytes from the {from} do not get to the {to}, those \
            of {passed} bytes do"
        ),
        false => format!(
            "an MTU hole: {stuck} bytes that the {from} sent first never come, a shorter segment \
            of {passed} bytes after them does"
        ),
    };
    let evidence = match is_seen {
        true => format!("the same bytes were sent again and again for {lasted}"),
        false => format!("the {to} asked for them by SACK for {lasted}, and the tap saw none"),
    };
    Some(Finding {
        kind: "no_progress",
        severe: true,
        failed: true,
        place: Some(Place::Network),
        since_ns: sent.stuck_since_ns,
        who: end_name(&worst.client, worst.client_port),
        what,
        evidence: evidence + &several(holes.len()),
        advice: format!(
            "compare the MTU of both ends and of each link between them (ip link, ping -M do -s \
            {} {}); let ICMP \"fragmentation needed\" and \"packet too big\" pass; \
            net.ipv4.tcp_mtu_probing=1 finds a size that passes",
            sent.stuck_bytes
                .min(sent.segment_max.max(sent.passed_bytes)),
            worst.server
        ),
        lost_ns: holes
            .iter()
            .map(|(peer, end)| peer.sent[*end].stuck_ns)
            .sum(),
        basis: [
            ("how", json!("mtu_hole")),
            ("from", json!(from)),
            ("stuck_ns", json!(sent.stuck_ns)),
            ("stuck_min_ns", json!(STUCK_MIN_NS)),
            ("stuck_bytes", json!(sent.stuck_bytes)),
            ("passed_bytes", json!(sent.passed_bytes)),
            ("connections", json!(holes.len())),
        ]
        .into(),
        ..Finding::default()
    })
}

/// An end whose window stays shut although the other one asks for room.
fn shut(shut: &[&Peer], end: usize) -> Option<Finding> {
    let worst = *shut.iter().max_by_key(|peer| peer.sent[end].shut_ns)?;
    let sent = &worst.sent[end];
    let (name, other) = (ENDS[end], ENDS[1 - end]);
    let (place, address, advice) = match end {
        1 => (
            Place::Server,
            &worst.server,
            "look at the server's process: it does not read what lies in its socket (all of its \
            threads wait: /proc/fs/nfsd/pool_stats, cat /proc/PID/stack, its file system and disks)",
        ),
        _ => (
            Place::Client,
            &worst.client,
            "look at the client: it does not read replies (memory that is short, threads of rpciod \
            that wait, an application that is stopped)",
        ),
    };
    Some(Finding {
        kind: "no_progress",
        severe: true,
        failed: true,
        place: Some(place),
        since_ns: sent.shut_since_ns,
        who: address.clone(),
        what: format!(
            "the {name}'s receive window is shut for {}: it takes nothing more from the {other}",
            time(sent.shut_ns)
        ),
        evidence: format!(
            "{} segments of {} give a window of zero, and the {other} asks again and again{}",
            grouped(sent.zero_windows),
            end_name(
                address,
                if end == 1 {
                    Some(worst.server_port)
                } else {
                    worst.client_port
                }
            ),
            several(shut.len())
        ),
        advice: advice.to_owned(),
        lost_ns: shut.iter().map(|peer| peer.sent[end].shut_ns).sum(),
        basis: [
            ("how", json!("window_shut")),
            ("whose", json!(name)),
            ("shut_ns", json!(sent.shut_ns)),
            ("shut_min_ns", json!(SHUT_MIN_NS)),
            ("zero_windows", json!(sent.zero_windows)),
            ("connections", json!(shut.len())),
        ]
        .into(),
        ..Finding::default()
    })
}

/// An end whose bytes nobody acknowledges, and of which nothing else gets through.
fn unacknowledged(stuck: &[&Peer], end: usize) -> Option<Finding> {
    let worst = *stuck.iter().max_by_key(|peer| peer.sent[end].stuck_ns)?;
    let sent = &worst.sent[end];
    let (from, to) = (ENDS[end], ENDS[1 - end]);
    let address = [&worst.server, &worst.client][end];
    Some(Finding {
        kind: "no_progress",
        severe: true,
        failed: true,
        place: Some(Place::CannotTell),
        since_ns: sent.stuck_since_ns,
        who: end_name(&worst.client, worst.client_port),
        what: format!(
            "what the {from} sends is not acknowledged: the same {} for {}",
            bytes(sent.stuck_bytes),
            time(sent.stuck_ns)
        ),
        evidence: format!(
            "nothing shows that anything else of it got through meanwhile{}",
            several(stuck.len())
        ),
        advice: format!(
            "look whether the {to}'s host is up (ping {address}), and what drops packets on the \
            way to it; if small packets pass, an MTU hole: ping -M do -s {} {address}",
            sent.stuck_bytes
        ),
        lost_ns: stuck.iter().map(|peer| peer.sent[end].stuck_ns).sum(),
        basis: [
            ("how", json!("unacknowledged")),
            ("from", json!(from)),
            ("stuck_ns", json!(sent.stuck_ns)),
            ("stuck_min_ns", json!(UNACKNOWLEDGED_MIN_NS)),
            ("stuck_bytes", json!(sent.stuck_bytes)),
            ("connections", json!(stuck.len())),
        ]
        .into(),
        ..Finding::default()
    })
}

fn several(connections: usize) -> String {
    match connections {
        0 | 1 => String::new(),
        more => format!("; {} connections alike", grouped(more as u64 - 1)),
    }
}
