//! The switch between the ports of an emulated link, in words.

use lineside_trace::certificate::link::{CorePort, CoreReport};
use lineside_words::{grouped, time};

use crate::block::{Block, Cell, Colour, Column, Kind, Section, Table, column, fact};

/// The account of the switch in words.
pub(crate) fn section(core: &CoreReport) -> Section {
    let dropped: u64 = core.dropped.values().sum();
    let addresses = &core.addresses;
    let mut facts = vec![
        fact("came", frames(core.came), String::new()),
        fact("to one port", grouped(core.forwarded), String::new()),
        fact(
            "flooded",
            grouped(core.flooded),
            format!(
                "to all other ports, which made {} copies",
                grouped(core.copies)
            ),
        ),
        fact("dropped", frames(dropped), dropped_words(core)),
        fact(
            "addresses",
            format!("{} known", grouped(addresses.known)),
            format!(
                "of at most {}; {} learned, {} moved, {} forgotten after {} of silence, {} for \
                want of room",
                grouped(addresses.known_max),
                grouped(addresses.learned),
                grouped(addresses.moved),
                grouped(addresses.aged),
                time(addresses.age_ns.max(0).unsigned_abs()),
                grouped(addresses.displaced)
            ),
        ),
    ];
    let gone = core.ports.iter().filter(|port| port.is_gone);
    facts.extend(gone.map(|port| {
        let note = "vanished while the link was used".to_owned();
        fact("gone", port.name.clone(), note)
    }));
    Section {
        heading: match &*core.kind {
            "" | "switch" => "Switch".to_owned(),
            kind => format!("Core: {kind}"),
        },
        note: String::new(),
        blocks: vec![Block::List(facts), Block::Table(ports(core))],
    }
}

fn frames(count: u64) -> String {
    format!("{} frames", grouped(count))
}

/// What came and left at each port, drawn beside one another.
fn ports(core: &CoreReport) -> Table {
    let column = |head: &'static str, kind, wide| Column {
        wide,
        ..column(head, kind)
    };
    let columns = vec![
        column("port", Kind::Name, false),
        column("came", Kind::Number, false),
        column("", Kind::Bar(Colour::Read), true),
        column("left", Kind::Number, false),
        column("", Kind::Bar(Colour::Write), true),
        column("addresses", Kind::Number, false),
    ];
    let counts = core.ports.iter().flat_map(|port| [port.came, port.left]);
    let most = counts.max().unwrap_or_default().max(1);
    let row = |port: &CorePort| {
        let bar = |count: u64| Cell::Bar(count as f64 / most as f64);
        vec![
            Cell::Text(port.name.clone()),
            Cell::Text(grouped(port.came)),
            bar(port.came),
            Cell::Text(grouped(port.left)),
            bar(port.left),
            Cell::Text(grouped(port.addresses)),
        ]
    };
    let rows: Vec<_> = core.ports.iter().map(row).collect();
    Table {
        caption: "frames at the switch, by port".to_owned(),
        columns,
        rows_narrow: rows.len(),
        rows,
        rest: "came: to the switch from this port; left: from the switch to this port. What the \
        link of a port dropped or delayed is under its name."
            .to_owned(),
        axis: None,
    }
}

/// Frames that were dropped, and why, the most frequent reason first.
fn dropped_words(core: &CoreReport) -> String {
    let why = |reason: &str| match reason {
        "same_port" => "for the port by which they came".to_owned(),
        "reserved" => "for a link's two ends, which no switch passes on".to_owned(),
        "malformed" => "no Ethernet frames, or from a group's address".to_owned(),
        "no_port" => "without another port".to_owned(),
        reason => reason.to_owned(),
    };
    let dropped = core.dropped.iter().filter(|(_, count)| **count > 0);
    let mut dropped: Vec<_> = dropped.collect();
    dropped.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    { dropped.into_iter() }
        .map(|(reason, count)| format!("{} {}", grouped(*count), why(reason)))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_reports_why_it_dropped_frames() {
        let core = r#"{"kind": "switch", "came": 9, "dropped": {"reserved": 2, "same_port": 5,
            "no_port": 0}, "ports": [{"name": "eth1", "came": 9}]}"#;
        let core: CoreReport = serde_json::from_str(core).expect("as certificates have it");
        assert_eq!(
            dropped_words(&core),
            "5 for the port by which they came, 2 for a link's two ends, which no switch passes on"
        );
        let section = section(&core);
        let [Block::List(facts), Block::Table(table)] = &section.blocks[..] else {
            panic!("facts and ports");
        };
        let dropped = facts.iter().find(|fact| fact.label == "dropped");
        assert_eq!(dropped.expect("it is there").value, "7 frames");
        assert_eq!((section.heading.as_str(), table.rows.len()), ("Switch", 1));
    }
}
