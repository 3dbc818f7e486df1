//! Findings about a forwarder's run: from its certificate alone.

use std::collections::BTreeMap;

use lineside_words::{grouped, percent, time};
use serde_json::{Value, json};

use lineside_trace::certificate::forward::{ForwardNode, ForwardService};

use crate::forwarding::{DEVIATIONS_MAX, Forwarding, deviations, reason_words};
use crate::model::{Finding, Place};
use crate::numbers::share;

/// Outcomes of frames that were lost, with the way out. Frames of other hosts are no loss.
const LOST: [(&str, &str); 13] = [
    (
        "no node",
        "every node of a service was down or drained: see its checks, or add a node with 'lineside \
         ctl RUN add'",
    ),
    (
        "no port number",
        "the numbers of the NAT addresses are in use towards a node: give a further address with \
         --nat",
    ),
    (
        "tuple taken",
        "with 'keep-client' a client may use one port for two services of a node: put them on \
         nodes of their own",
    ),
    (
        "neighbour silent",
        "look whether the node or its gateway is there: 'ip neigh' in its network, or --route",
    ),
    (
        "too many wait for neighbours",
        "look whether the node or its gateway is there: 'ip neigh' in its network, or --route",
    ),
    (
        "first fragment missing",
        "find where fragments are lost before the forwarder, or let senders find the path's MTU",
    ),
    (
        "too many fragments",
        "let senders find the path's MTU: 'ping -M do -s SIZE' shows it",
    ),
    ("no memory", "give more with --memory"),
    (
        "malformed",
        "capture such frames: --write-pcap, then tshark -Y '_ws.malformed'",
    ),
    (
        "cut",
        "look whether the interface's MTU is that of its link: 'ip -d link'",
    ),
    (
        "wrong checksum",
        "find the link or adapter that damages frames: 'ethtool -S IF' at both of its ends",
    ),
    (
        "tagged",
        "give the VLAN's own interface: 'ip link add link IF name IF.7 type vlan id 7'",
    ),
    (
        "too big",
        "senders are informed: look whether they get the ICMP messages, and let MTUs be equal",
    ),
];

/// What stands out; `docs/guide/report.md` has the thresholds.
pub(super) fn findings(it: &Forwarding) -> Vec<Finding> {
    let mut found = Vec::new();
    for service in &it.services {
        for node in &service.nodes {
            found.extend(down(it, service, node));
        }
        found.extend(departing(service));
    }
    found.extend(full(it));
    found.extend(cookies(it));
    found.extend(lost(it));
    found.extend(unsent(it));
    found.extend(idle_driver(it));
    found
}

fn finding<const N: usize>(
    kind: &'static str,
    what: String,
    advice: &str,
    basis: [(&'static str, Value); N],
) -> Finding {
    Finding {
        kind,
        what,
        advice: advice.to_owned(),
        basis: BTreeMap::from(basis),
        ..Finding::default()
    }
}

fn of_service(service: &ForwardService, node: &ForwardNode) -> String {
    let ForwardService {
        transport, address, ..
    } = service;
    format!("{} of {transport} {address}", node.address)
}

/// A node that was down, as far back as its history goes.
fn down(it: &Forwarding, service: &ForwardService, node: &ForwardNode) -> Option<Finding> {
    let times = it.times_down(node);
    let (first, last) = (times.first()?, times.last()?);
    let all: u64 = times.iter().map(|down| down.length_ns()).sum();
    let is_down = last.until_ns.is_none();
    let how_often = match times.len() {
        1 => "was down".to_owned(),
        count => format!("was down {} times", grouped(count as u64)),
    };
    let still = if is_down {
        ", and is down at the end"
    } else {
        ""
    };
    let found = finding(
        "node_down",
        format!(
            "{} {how_often}, {} of {} in all{still}",
            of_service(service, node),
            time(all),
            time(it.ran_ns.unsigned_abs())
        ),
        "see what the node did at that time: its log, and whether it answers the check's request",
        [
            ("down_ns", json!(all)),
            ("times", json!(times.len())),
            ("checks_bad", json!(node.checks_bad)),
        ],
    );
    Some(Finding {
        place: Some(Place::Server),
        since_ns: Some(it.wall(first.since_ns)),
        until_ns: last.until_ns.map(|until_ns| it.wall(until_ns)),
        who: node.address.clone(),
        evidence: format!("the check that decided it: {}", reason_words(first.finding)),
        ..found
    })
}

/// The node of a service whose share departs most from its weight, if by more than chance: where
/// one has more, others have less.
fn departing(service: &ForwardService) -> Option<Finding> {
    let by = |node| Some((deviations(service, node)?, node));
    let all = service.nodes.iter().filter_map(by);
    let (deviations, node) = all.max_by(|one, other| one.0.abs().total_cmp(&other.0.abs()))?;
    if deviations.abs() <= DEVIATIONS_MAX {
        return None;
    }
    let opened: u64 = service.nodes.iter().map(|node| node.opened).sum();
    let weights: u64 = service.nodes.iter().map(|node| node.weight).sum();
    let [chosen, wanted] = [share(node.opened, opened), share(node.weight, weights)];
    let found = finding(
        "share",
        format!(
            "{} got {} of {} connections, and {} of the weights",
            of_service(service, node),
            percent(chosen),
            grouped(opened),
            percent(wanted)
        ),
        "it may be as intended if a weight or a node was changed meanwhile, or if clients keep \
         their node (affinity); else 'choose weighted' is exact",
        [
            ("chosen_share", json!(chosen)),
            ("weight_share", json!(wanted)),
            ("connections", json!(opened)),
            ("deviations", json!(deviations)),
            ("deviations_max", json!(DEVIATIONS_MAX)),
        ],
    );
    Some(Finding {
        who: node.address.clone(),
        evidence: format!(
            "{:.1} standard deviations of a binomial choice by the weights; beyond \
             {DEVIATIONS_MAX:.0} is 1 in 16,000 by chance",
            deviations.abs()
        ),
        ..found
    })
}

/// Connections that the table had no room for.
fn full(it: &Forwarding) -> Option<Finding> {
    let refused = it.outcomes.get("table full")?;
    let max = it.table.connections_max;
    let mut found = finding(
        "table_full",
        format!(
            "{} frames found the table of {} connections full: their connections did not begin",
            grouped(refused),
            grouped(max)
        ),
        "give more with --memory, or let idle ones go sooner with --idle-timeout",
        [
            ("frames", json!(refused)),
            ("connections_max", json!(max)),
            ("evicted", json!(it.table.evicted)),
        ],
    );
    found.severe = true;
    Some(found)
}

/// Handshakes that were answered without an entry, and those that made room.
fn cookies(it: &Forwarding) -> Option<Finding> {
    let (cookies, evicted) = (it.table.cookies, it.table.evicted);
    let what = match (cookies, evicted) {
        (0, 0) => return None,
        (0, _) => format!(
            "{} connections that were over, unanswered or idle made room for others",
            grouped(evicted)
        ),
        _ => format!(
            "{} handshakes were answered by SYN cookies, as too many were half open",
            grouped(cookies)
        ),
    };
    Some(finding(
        "half_open",
        what,
        "look whether clients that never answer flood the service; if not, give the table more \
         with --memory",
        [("cookies", json!(cookies)), ("evicted", json!(evicted))],
    ))
}

/// Frames that were lost, by reason.
fn lost(it: &Forwarding) -> impl Iterator<Item = Finding> {
    let came: u64 = it.outcomes.iter().map(|(_, frames)| frames).sum();
    LOST.iter().filter_map(move |&(reason, advice)| {
        let frames = it.outcomes.get(reason)?;
        Some(finding(
            "forward_drops",
            format!(
                "{} frames were dropped as '{reason}', {} of those that came",
                grouped(frames),
                percent(share(frames, came))
            ),
            advice,
            [
                ("reason", json!(reason)),
                ("frames", json!(frames)),
                ("frames_share", json!(share(frames, came))),
            ],
        ))
    })
}

fn unsent(it: &Forwarding) -> impl Iterator<Item = Finding> {
    { it.interfaces.iter() }
        .filter(|port| port.unsent > 0)
        .map(|port| {
            finding(
                "unsent",
                format!(
                    "{} frames never left by {}: it was down, or they were too long for it",
                    grouped(port.unsent),
                    port.name
                ),
                "look at its state and MTU: 'ip -s -d link'",
                [("frames", json!(port.unsent))],
            )
        })
}

/// A driver that could have forwarded, and did not.
fn idle_driver(it: &Forwarding) -> Option<Finding> {
    let driver = it.driver.as_ref()?;
    let of = |name: &str| it.outcomes.get(name).unwrap_or_default();
    let by_program = of("to node") + of("to client");
    // Short connections never enter the driver, which is as intended.
    if driver.frames > 0 || by_program < IDLE_FRAMES_MIN {
        return None;
    }
    let partial = driver.outcomes.get("unfinished checksum");
    let partial = partial.copied().unwrap_or_default();
    let advice = match partial {
        0 => {
            "it takes flows after a dozen frames each way, and none while frames are written or \
             monitored: as intended if connections are short"
        }
        _ => "have hosts finish their checksums: 'ethtool -K IF tx off' at the other ends",
    };
    let found = finding(
        "idle_driver",
        format!(
            "the driver forwarded nothing: all {} frames passed the program",
            grouped(by_program)
        ),
        advice,
        [
            ("frames", json!(by_program)),
            ("frames_min", json!(IDLE_FRAMES_MIN)),
            ("unfinished_checksums", json!(partial)),
            ("flows_refused", json!(driver.refused)),
        ],
    );
    let why = driver.refused_why.as_ref();
    let evidence = match (why, partial) {
        (Some(why), _) => format!("a flow could not be entered: {why}"),
        (None, 0) => String::new(),
        (None, _) => format!("{} frames had an unfinished checksum", grouped(partial)),
    };
    Some(Finding { evidence, ..found })
}

/// Fewer frames may be of connections that are too short for the driver.
const IDLE_FRAMES_MIN: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn forwarding(certificate: Value) -> Forwarding {
        Forwarding {
            started_ns: 1_000 * SECOND,
            found: serde_json::from_value(certificate).expect("a certificate"),
            ..Forwarding::default()
        }
    }

    fn node(opened: u64, state: &str, history: Value) -> Value {
        json!({ "address": "10.9.2.3:80", "weight": 1, "state": state, "opened": opened,
                "checks_good": 3, "history": history })
    }

    fn of_nodes(nodes: [Value; 2]) -> Forwarding {
        forwarding(
            json!({ "began_ns": SECOND, "ran_ns": 10 * SECOND, "services": [
            { "transport": "tcp", "address": "10.9.1.100:80", "nodes": nodes }
        ] }),
        )
    }

    fn kinds(found: &[Finding]) -> Vec<&str> {
        found.iter().map(|finding| finding.kind).collect()
    }

    #[test]
    fn a_node_that_was_down_twice_is_one_finding() {
        let history = json!([
            { "at_ns": 3 * SECOND, "is_up": false, "finding": { "wrong-status": 503 } },
            { "at_ns": 5 * SECOND, "is_up": true, "finding": "good" },
            { "at_ns": 9 * SECOND, "is_up": false, "finding": "silent" },
        ]);
        let up = node(500, "up", json!([]));
        let found = findings(&of_nodes([up.clone(), node(500, "down", history)]));
        assert_eq!(kinds(&found), ["node_down"]);
        let found = &found[0];
        assert_eq!(
            found.what,
            "10.9.2.3:80 of tcp 10.9.1.100:80 was down 2 times, 4.00 s of 10.0 s in all, and is \
             down at the end"
        );
        assert_eq!(found.evidence, "the check that decided it: status 503");
        assert_eq!(found.since_ns, Some(1_002 * SECOND));
        assert_eq!(found.until_ns, None);
        // The history that is left may begin with the end of a time down: its begin is not known.
        let cut = json!([
            { "at_ns": 4 * SECOND, "is_up": true, "finding": "good" },
            { "at_ns": 6 * SECOND, "is_up": false, "finding": "refused" },
            { "at_ns": 7 * SECOND, "is_up": true, "finding": "good" },
        ]);
        let found = findings(&of_nodes([up, node(500, "up", cut)]));
        assert_eq!(found[0].since_ns, Some(1_005 * SECOND));
        assert_eq!(found[0].until_ns, Some(1_006 * SECOND));
        assert_eq!(found[0].basis["down_ns"], json!(SECOND));
    }

    #[test]
    fn a_share_beyond_chance_is_a_finding() {
        let shares = |first, second| {
            let [first, second] = [first, second].map(|opened| node(opened, "up", json!([])));
            findings(&of_nodes([first, second]))
        };
        assert_eq!(kinds(&shares(530, 470)), [""; 0]);
        assert_eq!(kinds(&shares(0, 0)), [""; 0]);
        let found = shares(600, 400);
        assert_eq!(kinds(&found), ["share"]);
        assert_eq!(
            found[0].what,
            "10.9.2.3:80 of tcp 10.9.1.100:80 got 40.0 % of 1,000 connections, and 50.0 % of the \
             weights"
        );
        assert!(
            found[0]
                .evidence
                .starts_with("6.3 standard deviations of a binomial")
        );
    }

    #[test]
    fn what_was_refused_and_lost_is_a_finding_each() {
        let found = findings(&forwarding(json!({
            "outcomes": { "to node": 70, "not for us": 20, "table full": 6, "no node": 4 },
            "table": { "connections_max": 10, "cookies": 3, "evicted": 1 },
            "interfaces": [{ "name": "e1", "unsent": 2 }, { "name": "e2" }],
        })));
        let expected = ["table_full", "half_open", "forward_drops", "unsent"];
        assert_eq!(kinds(&found), expected);
        assert!(found[0].severe);
        assert!(
            found[1]
                .what
                .starts_with("3 handshakes were answered by SYN cookies")
        );
        assert_eq!(
            found[2].what,
            "4 frames were dropped as 'no node', 4.0 % of those that came"
        );
        assert!(found[3].what.contains("2 frames never left by e1"));
        assert_eq!(kinds(&findings(&Forwarding::default())), [""; 0]);
    }

    #[test]
    fn a_driver_that_forwarded_nothing_is_a_finding() {
        let driver = |frames: u64, passed: u64| {
            findings(&forwarding(json!({
                "outcomes": { "to node": passed },
                "driver": { "frames": frames, "outcomes": { "unfinished checksum": 9 } },
            })))
        };
        assert_eq!(kinds(&driver(1, 5_000)), [""; 0]);
        assert_eq!(kinds(&driver(0, 500)), [""; 0]);
        let found = driver(0, 5_000);
        assert_eq!(kinds(&found), ["idle_driver"]);
        assert!(found[0].advice.contains("tx off"));
    }
}
