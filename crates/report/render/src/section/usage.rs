//! Sections about who used what.

use lineside_analyze::{Busy, GetattrStorm, Ranking, Report, Zone, file_name, share};
use lineside_words::{bytes, grouped, percent, time};

use crate::block::{Block, Cell, Colour, Curve, Kind, Section, column, number, table, text, wide};

pub(crate) fn busiest(what: &str, head: &'static str, ranking: &Ranking) -> Option<Section> {
    let pairs = { ranking.by_operations.iter() }.any(|busy| busy.client.is_some());
    let mut columns = vec![column(head, Kind::Path)];
    if pairs {
        columns.push(column("File", Kind::Path));
    }
    columns
        .extend(["operations", "failed", "read", "written"].map(|head| column(head, Kind::Number)));
    let has_waits = { ranking.by_operations.iter() }.any(|busy| busy.waited_ns.is_some());
    if has_waits {
        columns.push(column("waited for", Kind::Number));
    }
    let row = |busy: &Busy| {
        let mut row = named(busy);
        row.extend([
            text(grouped(busy.operations)),
            number(busy.failed, grouped),
            number(busy.read_bytes, bytes),
            number(busy.written_bytes, bytes),
        ]);
        row.extend(
            busy.waited_ns
                .filter(|_| has_waits)
                .map(|ns| number(ns, time)),
        );
        row
    };
    let by_operations = table("by operations", &columns, 10, &ranking.by_operations, row)?;
    // Of a few, one list shows everything.
    let by_bytes = (ranking.count > 5)
        .then(|| table("by bytes", &columns, 5, &ranking.by_bytes, row))
        .flatten();
    let mut blocks = Vec::new();
    // Of what moves nothing, such as directories, the list shows everything.
    let moves = ranking
        .concentration
        .iter()
        .any(|point| point.bytes_share > 0.0 || point.waited_share.is_some());
    if ranking.concentration.len() > 2 && moves {
        blocks.push(Block::Curve(Curve {
            title: format!("Share of the busiest {what}"),
            points: ranking.concentration.clone(),
        }));
    }
    let tables = [Some(by_operations), by_bytes].into_iter().flatten();
    let tables: Vec<_> = tables.map(Block::Table).collect();
    // Two names and four numbers take the whole width, and so do five numbers.
    if pairs || has_waits {
        blocks.extend(tables);
    } else {
        blocks.push(Block::Beside(
            tables.into_iter().map(|table| vec![table]).collect(),
        ));
    }
    if ranking.not_tracked_operations > 0 {
        blocks.push(Block::Text(format!(
            "There was no room for all {what}: those not distinguished have {} operations \
            together, so one that is missing \
             here has at most as many.",
            grouped(ranking.not_tracked_operations)
        )));
    }
    Some(Section {
        heading: format!("Busiest {what}, of {}", grouped(ranking.count)),
        note: String::new(),
        blocks,
    })
}

/// Who it is, of pairs the client and the file.
fn named(busy: &Busy) -> Vec<Cell> {
    match (&busy.client, busy.user_id) {
        (Some(client), _) => vec![
            text(client.clone()),
            text(file_name(&busy.name, busy.file_id)),
        ],
        (None, Some(user_id)) => vec![text(format!("uid {user_id}"))],
        (None, None) => vec![text(file_name(&busy.name, busy.file_id))],
    }
}

pub(crate) fn misaligned(report: &Report) -> Option<Section> {
    let table = table(
        "by operations",
        &[
            column("Client", Kind::Path),
            column("READs, WRITEs", Kind::Number),
            column("not at 512 B", Kind::Number),
            column("not at 4 KiB", Kind::Number),
            column("", Kind::Bar(Colour::Failed)),
        ],
        5,
        &report.misaligned_clients,
        |each| {
            vec![
                text(each.client.clone()),
                text(grouped(each.placed)),
                text(percent(share(each.placed - each.aligned_512, each.placed))),
                text(percent(each.misaligned_share)),
                Cell::Bar(each.misaligned_share),
            ]
        },
    )?;
    Some(Section {
        heading: "Clients whose reads and writes are not aligned".to_owned(),
        note: "The range that was asked for does not begin and end at a multiple.".to_owned(),
        blocks: vec![Block::Table(table)],
    })
}

pub(crate) fn storms(report: &Report, zone: &Zone) -> Option<Section> {
    let bounds = &report.parameters.thresholds;
    let mut table = table(
        "by the most in a second",
        &[
            column("Client", Kind::Path),
            column("File", Kind::Path),
            column("most/s", Kind::Number),
            column("seconds", Kind::Number),
            column("GETATTRs", Kind::Number),
            wide("most at", Kind::Number),
        ],
        5,
        &report.getattr_storms,
        |storm: &GetattrStorm| {
            let file = match storm.file_id {
                None => "all together".to_owned(),
                file_id => file_name(&storm.path, file_id),
            };
            vec![
                text(storm.client.clone()),
                text(file),
                text(grouped(storm.peak_per_second)),
                text(grouped(storm.seconds)),
                text(grouped(storm.operations)),
                text(zone.date(storm.peak_ns)),
            ]
        },
    )?;
    if report.getattr_storms_not_listed > 0 {
        let count = grouped(report.getattr_storms_not_listed);
        table.rest = format!("{count} more have lower peaks.");
    }
    Some(Section {
        heading: "GETATTR storms".to_owned(),
        note: format!(
            "Seconds in which one client sends {} GETATTRs or more on one file, or {} on all \
            together.",
            grouped(bounds.getattr_storm_file_per_second),
            grouped(bounds.getattr_storm_client_per_second)
        ),
        blocks: vec![Block::Table(table)],
    })
}
