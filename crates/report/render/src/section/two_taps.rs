//! The section about captures of both ends.

use lineside_trace::{TwoTaps, WayBetween};
use lineside_words::{grouped, time};

use crate::block::{Block, Kind, Section, Table, column, number, table, text};

pub(crate) fn section(pairs: &[TwoTaps]) -> Option<Section> {
    (!pairs.is_empty()).then(|| Section {
        heading: "Between the two taps".to_owned(),
        note: String::new(),
        blocks: pairs.iter().flat_map(blocks).collect(),
    })
}

/// Both in short, of each pair.
pub(crate) fn summary(pairs: &[TwoTaps]) -> Vec<String> {
    let one = |taps: &TwoTaps| {
        let median = |way: &Option<WayBetween>| {
            way.as_ref()
                .map_or_else(|| "?".to_owned(), |way| signed(way.median_ns))
        };
        let lost = match (taps.lost_to_server, taps.lost_to_client) {
            (0, 0) => "nothing lost between them".to_owned(),
            (to_server, to_client) => format!(
                "lost between them {} packets to the server, {} to the client",
                grouped(to_server),
                grouped(to_client)
            ),
        };
        let name = |tap: &str| tap.rsplit('/').next().unwrap_or_default().to_owned();
        [
            format!(
                "{} there, {} back",
                median(&taps.to_server),
                median(&taps.to_client)
            ),
            lost,
            clocks(taps),
            format!("rows of {}", name(&taps.server_tap)),
        ]
    };
    pairs.iter().flat_map(one).collect()
}

fn clocks(taps: &TwoTaps) -> String {
    match taps.clock_offset_ns {
        None => "one direction in common shows no clocks' offset".to_owned(),
        Some(0) => "the clocks agree".to_owned(),
        Some(offset_ns) => format!(
            "the server's side is {} {}",
            time(offset_ns.unsigned_abs()),
            if offset_ns < 0 { "behind" } else { "ahead" },
        ),
    }
}

fn blocks(taps: &TwoTaps) -> Vec<Block> {
    let (server, client) = (&taps.server_tap, &taps.client_tap);
    let distance = match taps.round_trip_ns {
        Some(round_trip_ns) => format!(
            "If the fastest packets take as long there as back, {}; the round trip between the \
             taps, {}, does not depend on that.",
            clocks(taps),
            time(round_trip_ns.unsigned_abs()),
        ),
        None => "They have packets of one direction in common, which shows neither the distance \
                 nor the clocks' offset."
            .to_owned(),
    };
    let about = format!(
        "{server} is nearer to the server than {client}: rows, frames and server times are of \
         {server}. {} packets with bytes, of {} connections, are in both. {distance}",
        grouped(taps.packets),
        grouped(taps.connections),
    );
    let table = table_of(taps).map(Block::Table);
    [Some(Block::Text(about)), table]
        .into_iter()
        .flatten()
        .collect()
}

fn table_of(taps: &TwoTaps) -> Option<Table> {
    let ways = [
        (
            "to the server",
            &taps.to_server,
            taps.lost_to_server,
            taps.unseen_by_server_tap,
        ),
        (
            "to the client",
            &taps.to_client,
            taps.lost_to_client,
            taps.unseen_by_client_tap,
        ),
    ];
    let columns = [
        column("The way", Kind::Name),
        column("least", Kind::Number),
        column("p50", Kind::Number),
        column("p99", Kind::Number),
        column("packets lost", Kind::Number),
        column("seen by one tap only", Kind::Number),
    ];
    table("", &columns, 2, ways, |(name, way, lost, unseen)| {
        let of = |value: fn(&WayBetween) -> i64| {
            text(
                way.as_ref()
                    .map_or_else(|| "-".to_owned(), |way| signed(value(way))),
            )
        };
        vec![
            text(name),
            of(|way| way.least_ns),
            of(|way| way.median_ns),
            of(|way| way.p99_ns),
            number(lost, grouped),
            number(unseen, grouped),
        ]
    })
}

fn signed(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    format!("{sign}{}", time(ns.unsigned_abs()))
}
