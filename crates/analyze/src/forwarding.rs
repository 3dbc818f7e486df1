//! A forwarder, as the certificate in `trace.json` describes it.

use std::collections::BTreeMap;

use lineside_account::bytes;
use lineside_trace::{Manifest, State};
use serde::{Deserialize, Serialize};

use crate::emulation::fact;
use crate::numbers::{Zone, grouped, percent, share, time};
use crate::page::{
    Block, Cell, Chart, Colour, Fact, Kind, Layer, Scale, Section, Verdict, column, table, text,
    wide,
};

/// A share that departs from its weight by more standard deviations is marked: 1 in 16,000 does by
/// chance.
const DEVIATIONS_MAX: f64 = 4.0;

/// What a forwarder did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Forwarding {
    /// Whether anything is missing.
    #[serde(skip_deserializing)]
    pub verdict: Option<State>,
    /// Why.
    #[serde(skip_deserializing)]
    pub reasons: Vec<String>,
    /// When it began, nanoseconds since the Unix epoch.
    #[serde(skip_deserializing)]
    pub started_ns: i64,
    /// The same by the clock of all other instants here.
    pub began_ns: i64,
    /// How long it ran.
    pub ran_ns: i64,
    /// Frames at each port.
    pub interfaces: Vec<ForwardingPort>,
    /// Services with their nodes.
    pub services: Vec<ForwardingService>,
    /// The table of connections.
    pub table: ForwardingTable,
    /// What became of frames, by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// From a frame's arrival to the call that handed it over; null if none left.
    pub residence: Option<ForwardingTimes>,
    /// What the driver forwarded past the program; null without.
    pub driver: Option<ForwardingDriver>,
    /// Where payloads lay; null without a payload mode.
    pub payloads: Option<ForwardingPayloads>,
    /// What happened over time.
    pub course: ForwardingCourse,
}

/// Frames at a port.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardingPort {
    /// The interface.
    pub name: String,
    /// How it was read.
    pub method: String,
    /// Frames that came to the program.
    pub came: u64,
    /// Frames that left from it.
    pub left: u64,
    /// Frames that never left: the port was down, or they were too long for it.
    pub unsent: u64,
}

/// A service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardingService {
    /// `tcp` or `udp`.
    pub transport: String,
    /// Its address and port.
    pub address: String,
    /// Connections that began.
    pub opened: u64,
    /// Connections in the table.
    pub connections: u64,
    /// Its nodes.
    pub nodes: Vec<ForwardingNode>,
}

/// A node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardingNode {
    /// Its address and port.
    pub address: String,
    /// Its weight.
    pub weight: u64,
    /// `up`, `down` or `draining`.
    pub state: String,
    /// Connections that began.
    pub opened: u64,
    /// Connections in the table.
    pub connections: u64,
    /// Checks that succeeded.
    pub checks_good: u64,
    /// Checks that failed.
    pub checks_bad: u64,
    /// When it came up and went down, the latest last.
    pub history: Vec<ForwardingChange>,
}

/// A node came up or went down.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardingChange {
    /// When, by the clock of `began_ns`.
    pub at_ns: i64,
    /// What it is since then.
    pub is_up: bool,
    /// What the check that decided it found.
    pub finding: serde_json::Value,
}

/// The table of connections.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardingTable {
    /// Connections.
    pub connections: u64,
    /// Handshakes among them that are not finished.
    pub half_open: u64,
    /// The most connections.
    pub connections_max: u64,
    /// Handshakes that made room for others.
    pub evicted: u64,
}

/// A distribution of times.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardingTimes {
    /// Half of them are at most this.
    pub p50_ns: i64,
    /// 99 %.
    pub p99_ns: i64,
    /// The longest.
    pub max_ns: i64,
}

/// What the driver forwarded past the program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardingDriver {
    /// Frames.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Flows that were entered.
    pub entered: u64,
    /// Flows that could not be.
    pub refused: u64,
}

/// Where payloads lay.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardingPayloads {
    /// How they were kept.
    pub mode: String,
    /// Entries of the cache.
    pub entries: u64,
    /// Bytes of an entry.
    pub entry_bytes: u64,
    /// Frames that were to be sent.
    pub came: u64,
    /// Frames whose payload was lost.
    pub dropped: u64,
    /// The most frames that waited.
    pub queue_max: u64,
    /// Sends whose payload was in the cache.
    pub hits: u64,
    /// Sends whose payload was not any more.
    pub misses: u64,
    /// Payloads that were copied to the host to make place.
    pub spilled: u64,
    /// Payloads that were copied to the host because their port ran short of memory.
    pub spilled_dry: u64,
    /// Bytes of payload that were copied to the host.
    pub to_host_bytes: u64,
    /// Bytes of payload that were copied back.
    pub to_adapter_bytes: u64,
}

/// What happened in steps of equal length: each is a list with a value for each step. The last step
/// is not full.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForwardingCourse {
    /// How long a step is.
    pub step_ns: u64,
    /// Connections that began.
    pub opened: Vec<u64>,
    /// Connections in the table as the step ended.
    pub connections: Vec<u64>,
    /// Frames that came to the program.
    pub frames: Vec<u64>,
    /// Frames that the driver forwarded past it.
    pub by_driver: Vec<u64>,
}

/// The certificate of a forwarder, or what is known of one that has none yet; `None` of other runs.
pub(crate) fn forwarding(manifest: &Manifest) -> Option<Forwarding> {
    manifest.configuration.get("forward")?;
    let verdict = Some(manifest.verdict.state);
    let started_ns = manifest.started_ns.unwrap_or_default();
    let Some(certificate) = &manifest.certificate else {
        let why = "the run goes on, or was killed: what it did is written when it ends, and 'lineside \
                   ctl RUN stats' asks one that goes on";
        return Some(Forwarding {
            verdict,
            started_ns,
            reasons: vec![why.to_owned()],
            ..Forwarding::default()
        });
    };
    let read: Forwarding = serde_json::from_value(certificate.clone()).unwrap_or_default();
    Some(Forwarding {
        verdict,
        started_ns,
        reasons: manifest.verdict.reasons.clone(),
        ..read
    })
}

/// The certificate in words and pictures.
pub(crate) fn sections(it: &Forwarding, zone: &Zone) -> Vec<Section> {
    let state = it
        .verdict
        .and_then(|state| serde_json::to_value(state).ok());
    let state = state.as_ref().and_then(serde_json::Value::as_str);
    let state = state.unwrap_or("not known").to_owned();
    let verdict = Block::Verdict(Verdict {
        complete: state == "complete",
        state,
        reasons: { it.reasons.iter() }
            .map(|reason| ("because", reason.clone()))
            .collect(),
    });
    let mut sections = vec![Section {
        heading: "Forwarder".to_owned(),
        note: String::new(),
        blocks: vec![verdict, Block::List(facts(it))],
    }];
    sections.extend(nodes(it));
    sections.extend(health(it));
    sections.extend(course(it, zone));
    sections
}

fn facts(it: &Forwarding) -> Vec<Fact> {
    let plain = |label, value| fact(label, value, String::new());
    let mut facts = Vec::new();
    for port in &it.interfaces {
        let unsent = match port.unsent {
            0 => String::new(),
            unsent => format!(", {} never left", grouped(unsent)),
        };
        facts.push(fact(
            "port",
            format!("{} by {}", port.name, port.method),
            format!(
                "{} frames came, {} left{unsent}",
                grouped(port.came),
                grouped(port.left)
            ),
        ));
    }
    if let Some(driver) = &it.driver {
        let value = format!("{} frames, {}", grouped(driver.frames), bytes(driver.bytes));
        let refused = match driver.refused {
            0 => String::new(),
            refused => format!(", {} could not be entered", grouped(refused)),
        };
        let note = format!("of {} flows{refused}", grouped(driver.entered));
        facts.push(fact("driver", value, note));
    }
    if it.table.connections_max > 0 {
        let held = format!(
            "{} of {}",
            grouped(it.table.connections),
            grouped(it.table.connections_max)
        );
        let evicted = match it.table.evicted {
            0 => String::new(),
            evicted => format!(", {} made room for others", grouped(evicted)),
        };
        let note = format!("{} half open{evicted}", grouped(it.table.half_open));
        facts.push(fact("connections", held, note));
    }
    it.payloads.iter().for_each(|payloads| {
        facts.extend(payload_facts(payloads));
    });
    if let Some(times) = &it.residence {
        let [p50, p99, max] =
            [times.p50_ns, times.p99_ns, times.max_ns].map(|ns| time(ns.unsigned_abs()));
        let value = format!("50 % {p50}, 99 % {p99}, most {max}");
        facts.push(fact("residence", value, "of a frame in the program".into()));
    }
    let outcomes =
        { it.outcomes.iter() }.map(|(name, &frames)| format!("{name} {}", grouped(frames)));
    if !it.outcomes.is_empty() {
        facts.push(plain("frames", outcomes.collect::<Vec<_>>().join(", ")));
    }
    facts
}

fn payload_facts(payloads: &ForwardingPayloads) -> [Fact; 3] {
    let sends = payloads.hits + payloads.misses;
    let hits = match sends {
        0 => "no payload was kept".to_owned(),
        _ => format!("{} hits", percent(share(payloads.hits, sends))),
    };
    let lost = [
        ("dropped", payloads.dropped),
        ("spilled", payloads.spilled + payloads.spilled_dry),
    ];
    let lost = { lost.into_iter() }
        .filter(|(_, count)| *count > 0)
        .map(|(what, count)| format!(", {} {what}", grouped(count)));
    let bus = format!(
        "{} to the host, {} back",
        bytes(payloads.to_host_bytes),
        bytes(payloads.to_adapter_bytes)
    );
    [
        fact(
            "payloads",
            format!("{}: {hits}", payloads.mode),
            format!(
                "{} entries of {}{}",
                grouped(payloads.entries),
                bytes(payloads.entry_bytes),
                lost.collect::<String>()
            ),
        ),
        fact("bus", bus, "payload that was copied".to_owned()),
        fact(
            "queue",
            format!("{} frames at most", grouped(payloads.queue_max)),
            format!("of {} that were to leave", grouped(payloads.came)),
        ),
    ]
}

/// Which nodes were chosen, beside their weights.
fn nodes(it: &Forwarding) -> Option<Section> {
    let rows = { it.services.iter() }
        .flat_map(|service| service.nodes.iter().map(move |node| (service, node)));
    let columns = [
        column("service", Kind::Name),
        column("node", Kind::Name),
        column("state", Kind::Name),
        column("began", Kind::Number),
        column("share", Kind::Number),
        column("weight", Kind::Number),
        wide("chosen", Kind::Bar(Colour::Read)),
        wide("now", Kind::Number),
        wide("checks good", Kind::Number),
        wide("bad", Kind::Number),
    ];
    let mut are_marked = false;
    let rows: Vec<_> = rows
        .map(|(service, node)| {
            let [opened, weights] = [
                |node: &ForwardingNode| node.opened,
                |node: &ForwardingNode| node.weight,
            ]
            .map(|of| service.nodes.iter().map(of).sum::<u64>());
            let [chosen, wanted] = [share(node.opened, opened), share(node.weight, weights)];
            let departs = departs(service, node, chosen, wanted);
            are_marked |= departs;
            let mark = if departs { " *" } else { "" };
            vec![
                text(format!("{} {}", service.transport, service.address)),
                text(&*node.address),
                text(&*node.state),
                text(grouped(node.opened)),
                text(format!("{}{mark}", percent(chosen))),
                text(percent(wanted)),
                Cell::Bar(chosen),
                text(grouped(node.connections)),
                text(grouped(node.checks_good)),
                text(grouped(node.checks_bad)),
            ]
        })
        .collect();
    let shown = table("nodes and the choice", &columns, rows.len(), rows, |row| {
        row
    })?;
    let marked = match are_marked {
        true => {
            " A share with * departs from its weight by more than 4 standard deviations of a \
             choice by chance."
        }
        false => "",
    };
    Some(Section {
        heading: "Nodes".to_owned(),
        note: format!("Share of the connections that began, beside that of the weights.{marked}"),
        blocks: vec![Block::Table(shown)],
    })
}

/// Whether a share departs from its weight by more than chance, where nothing else explains it: all
/// nodes took connections all the time.
fn departs(service: &ForwardingService, node: &ForwardingNode, chosen: f64, wanted: f64) -> bool {
    let were_up = { service.nodes.iter() }
        .all(|node| node.state == "up" && node.history.iter().all(|change| change.is_up));
    let opened: u64 = service.nodes.iter().map(|node| node.opened).sum();
    let deviation = (wanted * (1.0 - wanted) / opened.max(1) as f64).sqrt();
    were_up && opened > 0 && node.weight > 0 && (chosen - wanted).abs() > DEVIATIONS_MAX * deviation
}

/// When nodes were down.
fn health(it: &Forwarding) -> Option<Section> {
    let checked = { it.services.iter() }
        .flat_map(|service| &service.nodes)
        .any(|node| node.checks_good + node.checks_bad > 0);
    if !checked {
        return None;
    }
    let since = |at_ns: i64| (at_ns - it.began_ns).max(0).unsigned_abs();
    let mut blocks = Vec::new();
    for service in &it.services {
        for node in &service.nodes {
            let mut changes = node.history.iter().peekable();
            while let Some(change) = changes.next() {
                if change.is_up {
                    continue;
                }
                let until = match changes.peek() {
                    Some(next) => format!(
                        "until {}: {} in all",
                        time(since(next.at_ns)),
                        time(since(next.at_ns) - since(change.at_ns))
                    ),
                    None => "until the end".to_owned(),
                };
                blocks.push(Block::Text(format!(
                    "{} of {} {}: down from {} after the start ({}) {until}",
                    node.address,
                    service.transport,
                    service.address,
                    time(since(change.at_ns)),
                    finding_words(&change.finding)
                )));
            }
        }
    }
    if blocks.is_empty() {
        blocks.push(Block::Text("No node that is checked went down.".to_owned()));
    }
    Some(Section {
        heading: "Health".to_owned(),
        note: String::new(),
        blocks,
    })
}

fn finding_words(finding: &serde_json::Value) -> String {
    match (finding.as_str(), finding["wrong-status"].as_u64()) {
        (_, Some(0)) => "its answer is no HTTP".to_owned(),
        (_, Some(status)) => format!("status {status}"),
        (Some("silent"), _) => "no answer in time".to_owned(),
        (Some("refused"), _) => "connections are refused".to_owned(),
        (Some("unreachable"), _) => "unreachable".to_owned(),
        (word, _) => word.unwrap_or("its checks failed").to_owned(),
    }
}

fn course(it: &Forwarding, zone: &Zone) -> Option<Section> {
    let course = &it.course;
    if course.opened.is_empty() || course.step_ns == 0 {
        return None;
    }
    let layer = |name, colour, values: &[u64]| Layer {
        name,
        colour,
        values: values.iter().copied().map(Some).collect(),
    };
    let chart = |title, scale, layers| {
        Block::Chart(Chart {
            title,
            scale,
            start_ns: it.started_ns,
            step_ns: course.step_ns,
            zone: zone.clone(),
            layers,
        })
    };
    let mut frames = vec![layer("by the program", Colour::Other, &course.frames)];
    if it.driver.is_some() {
        frames.push(layer("by the driver", Colour::Read, &course.by_driver));
    }
    let opened = vec![layer("began", Colour::Read, &course.opened)];
    let held = vec![layer("in the table", Colour::Other, &course.connections)];
    Some(Section {
        heading: "Forwarder over time".to_owned(),
        note: format!(
            "In steps of {}; times are {}. The last step is not full.",
            time(course.step_ns),
            zone.offset(it.started_ns)
        ),
        blocks: vec![
            chart("Frames", Scale::Rate, frames),
            chart("Connections that began", Scale::Rate, opened),
            chart("Connections", Scale::Count, held),
        ],
    })
}

#[cfg(test)]
mod tests {
    use lineside_trace::Verdict;
    use serde_json::json;

    use super::*;

    fn manifest(certificate: Option<serde_json::Value>) -> Manifest {
        Manifest {
            configuration: json!({ "forward": {} }),
            certificate,
            verdict: Verdict {
                state: State::Complete,
                ..Verdict::default()
            },
            started_ns: Some(7),
            ..Manifest::default()
        }
    }

    fn certificate() -> serde_json::Value {
        let node = |address: &str, opened: u64, history: serde_json::Value| {
            json!({ "address": address, "weight": 1, "state": "up", "opened": opened,
                    "checks_good": 3, "history": history })
        };
        let second = 1_000_000_000_i64;
        let down = json!([
            { "at_ns": 3 * second, "is_up": false, "finding": { "wrong-status": 503 } },
            { "at_ns": 5 * second, "is_up": true, "finding": "good" },
            { "at_ns": 9 * second, "is_up": false, "finding": "silent" },
        ]);
        json!({
            "began_ns": second, "ran_ns": 10 * second,
            "interfaces": [{ "name": "e1", "method": "AF_PACKET", "came": 5, "left": 4, "unsent": 1 }],
            "table": { "connections": 2, "connections_max": 10, "evicted": 1 },
            "outcomes": { "to node": 4, "table full": 1 },
            "services": [
                { "transport": "tcp", "address": "10.9.1.100:80",
                  "nodes": [node("a:1", 600, json!([])), node("b:1", 400, json!([]))] },
                { "transport": "tcp", "address": "10.9.1.100:81",
                  "nodes": [node("c:1", 90, down), node("d:1", 10, json!([]))] },
            ],
            "driver": null,
            "payloads": { "mode": "pcache", "entries": 10, "entry_bytes": 2048, "hits": 3,
                          "misses": 1, "spilled": 1, "spilled_dry": 1 },
            "course": { "step_ns": second, "opened": [1, 2], "connections": [1, 3],
                        "frames": [5, 6], "by_driver": [0, 0] },
            "loop": { "what": "is of no interest here" }
        })
    }

    #[test]
    fn a_certificate_of_a_forwarder_is_read_and_others_are_not() {
        let other = Manifest {
            configuration: json!({ "emulate": {} }),
            ..manifest(Some(certificate()))
        };
        assert_eq!(forwarding(&other), None);
        let killed = forwarding(&manifest(None)).expect("a forwarder");
        assert!(killed.reasons[0].contains("was killed"));
        assert_eq!(sections(&killed, &Zone::default()).len(), 1);
        let found = forwarding(&manifest(Some(certificate()))).expect("a forwarder");
        let facts = facts(&found);
        let value = |label| {
            let fact = facts.iter().find(|fact| fact.label == label);
            fact.map(|fact| format!("{} | {}", fact.value, fact.note))
        };
        let of = |label| value(label).unwrap_or_default();
        assert_eq!(
            of("port"),
            "e1 by AF_PACKET | 5 frames came, 4 left, 1 never left"
        );
        assert_eq!(
            of("payloads"),
            "pcache: 75.0 % hits | 10 entries of 2 KiB, 2 spilled"
        );
        assert_eq!(
            of("connections"),
            "2 of 10 | 0 half open, 1 made room for others"
        );
        assert_eq!(of("frames"), "table full 1, to node 4 | ");
        assert_eq!(value("driver"), None);
    }

    /// Of the two services only the first had all nodes all the time.
    #[test]
    fn a_share_that_no_chance_explains_is_marked() {
        let found = forwarding(&manifest(Some(certificate()))).expect("a forwarder");
        let section = nodes(&found).expect("nodes");
        let Block::Table(table) = &section.blocks[0] else {
            panic!("a table");
        };
        let shares = table.rows.iter().map(|row| match &row[4] {
            Cell::Text(text) => &**text,
            _ => "",
        });
        let shares: Vec<_> = shares.collect();
        assert_eq!(shares, ["60.0 % *", "40.0 % *", "90.0 %", "10.0 %"]);
        let mut fair = found.services[0].clone();
        (fair.nodes[0].opened, fair.nodes[1].opened) = (530, 470);
        assert!(!departs(&fair, &fair.nodes[0], 0.53, 0.5));
    }

    #[test]
    fn a_node_that_was_down_is_named_with_begin_and_end() {
        let found = forwarding(&manifest(Some(certificate()))).expect("a forwarder");
        let section = health(&found).expect("it was checked");
        let lines = section.blocks.iter().map(|block| match block {
            Block::Text(text) => &**text,
            _ => "",
        });
        assert_eq!(
            lines.collect::<Vec<_>>(),
            [
                "c:1 of tcp 10.9.1.100:81: down from 2.00 s after the start (status 503) until \
                 4.00 s: 2.00 s in all",
                "c:1 of tcp 10.9.1.100:81: down from 8.00 s after the start (no answer in time) \
                 until the end",
            ]
        );
    }
}
