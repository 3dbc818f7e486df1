//! The switch between the ports of an emulated link, as the certificate describes it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::emulation::fact;
use crate::numbers::{grouped, time};
use crate::page::{Block, Cell, Colour, Column, Kind, Section, Table};

/// What the switch between more than two ports counted: came + copies = left + dropped.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct EmulatedCore {
    /// `switch`
    pub kind: String,
    /// Frames that came.
    pub came: u64,
    /// Frames that went on to one port, where their destination is.
    pub forwarded: u64,
    /// Frames that went on to all other ports.
    pub flooded: u64,
    /// How many more frames left than came because of that.
    pub copies: u64,
    /// Frames that went nowhere, by reason: `same_port`, `reserved`, `malformed`, `no_port`.
    pub dropped: BTreeMap<String, u64>,
    /// Its table of addresses.
    pub addresses: EmulatedAddresses,
    /// By port.
    pub ports: Vec<EmulatedPort>,
}

/// Frames of one port at the switch.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct EmulatedPort {
    /// Its name.
    pub name: String,
    /// Frames that came to the switch from this port.
    pub came: u64,
    /// Frames that went on to this port.
    pub left: u64,
    /// Addresses that are known there.
    pub addresses: u64,
    /// It vanished while the link was used.
    pub is_gone: bool,
}

/// The account of a table of addresses.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct EmulatedAddresses {
    /// Those in the table.
    pub known: u64,
    /// The room of the table.
    pub known_max: u64,
    /// For so long an address is known that sends nothing.
    pub age_ns: i64,
    /// Times that one came into the table.
    pub learned: u64,
    /// Times that one was seen at another port than before.
    pub moved: u64,
    /// Those forgotten because they had sent nothing for so long.
    pub aged: u64,
    /// Those forgotten because the table was full.
    pub displaced: u64,
}

/// The account of the switch in words.
pub(crate) fn section(core: &EmulatedCore) -> Section {
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
        fact("dropped", frames(dropped), core.dropped_words()),
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
        heading: match core.kind.as_str() {
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
fn ports(core: &EmulatedCore) -> Table {
    let column = |head, kind, wide| Column { head, kind, wide };
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
    let row = |port: &EmulatedPort| {
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

impl EmulatedCore {
    /// Frames that were dropped, and why, the most frequent reason first.
    fn dropped_words(&self) -> String {
        let why = |reason: &str| match reason {
            "same_port" => "for the port by which they came".to_owned(),
            "reserved" => "for a link's two ends, which no switch passes on".to_owned(),
            "malformed" => "no Ethernet frames, or from a group's address".to_owned(),
            "no_port" => "without another port".to_owned(),
            reason => reason.to_owned(),
        };
        let dropped = self.dropped.iter().filter(|(_, count)| **count > 0);
        let mut dropped: Vec<_> = dropped.collect();
        dropped.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        { dropped.into_iter() }
            .map(|(reason, count)| format!("{} {}", grouped(*count), why(reason)))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_reports_why_it_dropped_frames() {
        let core = r#"{"kind": "switch", "came": 9, "dropped": {"reserved": 2, "same_port": 5,
            "no_port": 0}, "ports": [{"name": "eth1", "came": 9}]}"#;
        let core: EmulatedCore = serde_json::from_str(core).expect("as certificates have it");
        assert_eq!(
            core.dropped_words(),
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
