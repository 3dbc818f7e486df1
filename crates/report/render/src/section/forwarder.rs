//! A forwarder: what its certificate holds, in words and pictures.

use lineside_analyze::{DEVIATIONS_MAX, Down, Forwarding, Zone, deviations, reason_words, share};
use lineside_trace::certificate::forward::{ForwardNode, ForwardPayloads, ForwardService};
use lineside_words::{bytes, grouped, percent, time};

use crate::block::{
    Block, Cell, Chart, Colour, Fact, Kind, Layer, Scale, Section, Table, Verdict, column, fact,
    table, text, wide,
};

/// The certificate in words and pictures.
pub(crate) fn sections(it: &Forwarding, zone: &Zone) -> Vec<Section> {
    let verdict = Block::Verdict(Verdict::of_run(it.verdict, &it.reasons));
    let mut sections = vec![Section {
        heading: "Forwarder".to_owned(),
        note: String::new(),
        blocks: vec![verdict, Block::List(facts(it))],
    }];
    sections.extend(nodes(it, zone));
    sections.extend(health(it, zone));
    sections.extend(course(it, zone));
    sections
}

pub(crate) fn facts(it: &Forwarding) -> Vec<Fact> {
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
        let value = format!("p50 {p50}, p99 {p99}, max {max}");
        facts.push(fact("residence", value, "of a frame in the program".into()));
    }
    let mut outcomes: Vec<_> = it.outcomes.iter().collect();
    outcomes.sort_unstable();
    let words = { outcomes.iter() }.map(|&(name, frames)| format!("{name} {}", grouped(frames)));
    if !outcomes.is_empty() {
        facts.push(plain("frames", words.collect::<Vec<_>>().join(", ")));
    }
    facts
}

fn payload_facts(payloads: &ForwardPayloads) -> [Fact; 3] {
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
fn nodes(it: &Forwarding, zone: &Zone) -> Option<Section> {
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
        wide("by weight", Kind::Bar(Colour::Other)),
        wide("over time", Kind::Spark(Colour::Read)),
        wide("now", Kind::Number),
        wide("checks good", Kind::Number),
        wide("bad", Kind::Number),
    ];
    let mut are_marked = false;
    let rows: Vec<_> = rows
        .map(|(service, node)| {
            let [opened, weights] = [
                |node: &ForwardNode| node.opened,
                |node: &ForwardNode| node.weight,
            ]
            .map(|of| service.nodes.iter().map(of).sum::<u64>());
            let [chosen, wanted] = [share(node.opened, opened), share(node.weight, weights)];
            let departs = deviations(service, node).is_some_and(|by| by.abs() > DEVIATIONS_MAX);
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
                Cell::Bar(wanted),
                Cell::Spark(opened_over_time(it, service, node)),
                text(grouped(node.connections)),
                text(grouped(node.checks_good)),
                text(grouped(node.checks_bad)),
            ]
        })
        .collect();
    let mut shown = table("nodes and the choice", &columns, rows.len(), rows, |row| {
        row
    })?;
    shown.axis = axis(it, zone);
    let marked = match are_marked {
        true => {
            " A share with * departs from its weight by more than 4 standard deviations of a \
             choice by chance."
        }
        false => "",
    };
    Some(Section {
        heading: "Nodes".to_owned(),
        note: format!(
            "Share of the connections that began, beside that of the weights, and when they \
             began.{marked}"
        ),
        blocks: vec![Block::Table(shown)],
    })
}

/// When nodes were down.
fn health(it: &Forwarding, zone: &Zone) -> Option<Section> {
    let nodes = { it.services.iter() }
        .flat_map(|service| service.nodes.iter().map(move |node| (service, node)));
    let checked: Vec<_> = nodes
        .filter(|(_, node)| node.checks_good + node.checks_bad > 0)
        .collect();
    if checked.is_empty() {
        return None;
    }
    let since = |at_ns: i64| (at_ns - it.began_ns).max(0).unsigned_abs();
    let mut blocks = Vec::new();
    for (service, node) in &checked {
        for down in it.times_down(node) {
            let until = match down.until_ns {
                Some(until_ns) => format!(
                    "until {}: {} in all",
                    time(since(until_ns)),
                    time(down.length_ns())
                ),
                None => "until the end".to_owned(),
            };
            blocks.push(Block::Text(format!(
                "{} of {} {}: down from {} after the start ({}) {until}",
                node.address,
                service.transport,
                service.address,
                time(since(down.since_ns)),
                reason_words(down.finding)
            )));
        }
    }
    if blocks.is_empty() {
        blocks.push(Block::Text("No node that is checked went down.".to_owned()));
    } else {
        let were_down = { checked.iter() }.filter(|(_, node)| !it.times_down(node).is_empty());
        blocks.extend(strips(it, were_down.copied(), zone).map(Block::Table));
    }
    Some(Section {
        heading: "Health".to_owned(),
        note: String::new(),
        blocks,
    })
}

/// A strip for each node: how much of each step it was down.
fn strips<'a>(
    it: &Forwarding,
    nodes: impl Iterator<Item = (&'a ForwardService, &'a ForwardNode)>,
    zone: &Zone,
) -> Option<Table> {
    let axis = axis(it, zone)?;
    let columns = [
        column("node", Kind::Name),
        wide("service", Kind::Name),
        column("down", Kind::Number),
        column("over time", Kind::Spark(Colour::Failed)),
    ];
    let strips = table(
        "when nodes were down",
        &columns,
        10,
        nodes,
        |(service, node)| {
            let times = it.times_down(node);
            let steps = 0..it.course.opened.len();
            let all = times.iter().map(Down::length_ns).sum();
            vec![
                text(&*node.address),
                text(format!("{} {}", service.transport, service.address)),
                text(time(all)),
                Cell::Spark(steps.map(|step| down_within(it, &times, step)).collect()),
            ]
        },
    )?;
    Some(Table {
        axis: Some(axis),
        ..strips
    })
}

/// Nanoseconds of a step for which a node was down.
fn down_within(it: &Forwarding, times: &[Down<'_>], step: usize) -> u64 {
    let step_ns = it.course.step_ns as i64;
    let begin = it
        .began_ns
        .saturating_add(step_ns.saturating_mul(step as i64));
    let end = begin.saturating_add(step_ns);
    let within = times.iter().map(|down| {
        let until_ns = down.end_ns().min(end);
        until_ns.saturating_sub(down.since_ns.max(begin)).max(0)
    });
    within.sum::<i64>().unsigned_abs()
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
    let mut frames = vec![layer("program", Colour::Other, &course.frames)];
    if it.driver.is_some() {
        frames.push(layer("driver", Colour::Read, &course.by_driver));
    }
    let opened = vec![layer("began", Colour::Read, &course.opened)];
    let whole = course.connections.iter().zip(&course.half_open);
    let whole: Vec<u64> = whole
        .map(|(&all, half)| all.saturating_sub(*half))
        .collect();
    let held = vec![
        layer("open", Colour::Other, &whole),
        layer("half open", Colour::Unanswered, &course.half_open),
    ];
    let lost = vec![layer("lost", Colour::Failed, &course.lost)];
    let is_lost = course.lost.iter().any(|&frames| frames > 0);
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
            chart("Connections in the table", Scale::Count, held),
        ]
        .into_iter()
        .chain(is_lost.then(|| chart("Frames lost", Scale::Rate, lost)))
        .collect(),
    })
}

/// Connections of a node that began, by step.
fn opened_over_time(it: &Forwarding, service: &ForwardService, node: &ForwardNode) -> Vec<u64> {
    let key = (&service.transport, &service.address, &node.address);
    let mut of_nodes = it.course.nodes.iter();
    let of = of_nodes.find(|of| (&of.transport, &of.service, &of.node) == key);
    of.map(|of| of.opened.clone()).unwrap_or_default()
}

/// The course's ends as the axis of a table.
fn axis(it: &Forwarding, zone: &Zone) -> Option<[String; 2]> {
    let (step_ns, steps) = (it.course.step_ns, it.course.opened.len());
    let length = step_ns.saturating_mul(steps as u64);
    let end = it.started_ns.saturating_add_unsigned(length);
    let clock = |ns| zone.clock(ns, step_ns);
    (length > 0).then(|| [it.started_ns, end].map(clock))
}

#[cfg(test)]
mod tests {
    use lineside_analyze::closing;

    use lineside_trace::{Manifest, State, Verdict};
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

    fn forwarding(manifest: &Manifest) -> Option<Forwarding> {
        closing("", manifest).forwarding
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
            "course": { "step_ns": 2 * second, "opened": [1, 2, 0, 0, 0],
                        "connections": [1, 3, 3, 2, 2], "half_open": [1, 0, 0, 0, 0],
                        "frames": [5, 6, 0, 0, 0], "by_driver": [0, 0, 0, 0, 0],
                        "nodes": [{ "transport": "tcp", "service": "10.9.1.100:80", "node": "a:1",
                                    "opened": [1, 0, 0, 0, 0] }] },
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
        let section = nodes(&found, &Zone::default()).expect("nodes");
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
        let by = deviations(&fair, &fair.nodes[0]).expect("a choice");
        assert!((1.8..2.0).contains(&by), "{by}");
    }

    #[test]
    fn a_node_that_was_down_is_named_with_begin_and_end() {
        let found = forwarding(&manifest(Some(certificate()))).expect("a forwarder");
        let section = health(&found, &Zone::default()).expect("it was checked");
        let lines = section.blocks.iter().filter_map(|block| match block {
            Block::Text(text) => Some(&**text),
            _ => None,
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
        let strips = section.blocks.iter().find_map(|block| match block {
            Block::Table(table) => Some(table),
            _ => None,
        });
        let strips = strips.expect("a strip for each node that was down");
        // Steps of two seconds from the start: down from 2 to 4 s, and from 8 to 10 s.
        let [Cell::Spark(down)] = &strips.rows[0][3..] else {
            panic!("a strip");
        };
        assert_eq!(down.as_slice(), [0, 2_000_000_000, 0, 0, 2_000_000_000]);
        assert_eq!(strips.rows.len(), 1);
    }
}
