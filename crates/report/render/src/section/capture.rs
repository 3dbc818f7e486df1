//! Sections about the capture, the workload, errors and operations.

use lineside_analyze::{
    Direction, Loss, Operation, OverTime, Quantiles, Report, Understood, Zone, end_name, share,
};
use lineside_words::{bit_rate, bytes, grouped, percent, time};

use crate::block::{
    Block, Cell, Chart, Colour, Fact, Kind, Layer, Meter, Meters, NOT_KNOWN, ROWS_MAX, Scale,
    Section, Table, Verdict, bound_time, column, number, optional_time, state_word, table, text,
    wide,
};

pub(crate) fn missing(report: &Report, zone: &Zone) -> Option<Section> {
    let missing = &report.missing;
    // A load sees its own requests, and the verdict stands above.
    if report.load.is_some() && missing.unreadable.is_empty() {
        return None;
    }
    let state = state_word(missing.verdict);
    let complete = state == "complete" && missing.unreadable.is_empty();
    let unfinished = missing.unfinished.iter();
    let unfinished = unfinished.map(|unfinished| unfinished.text(zone));
    let reasons = { unfinished.chain(missing.reasons.iter().cloned()) }
        .map(|reason| ("because", reason))
        .chain(missing.losses.iter().map(|loss| ("lost", loss_text(loss))))
        .chain({ missing.unreadable.iter() }.map(|text| ("unreadable", text.clone())));
    let mut reasons: Vec<_> = reasons.collect();
    if complete && reasons.is_empty() {
        reasons.push((
            "because",
            "everything that passed the tap was seen".to_owned(),
        ));
    }
    let mut parts = vec![vec![Block::Verdict(Verdict {
        state,
        complete,
        reasons,
    })]];
    if missing.renames_unfollowed > 0 {
        parts.push(vec![Block::Text(format!(
            "{} files were renamed whose old name their connection had not shown: where another \
            one had, their paths here have that name still.",
            grouped(missing.renames_unfollowed)
        ))]);
    }
    parts.extend(report.understood.as_ref().map(understood_blocks));
    Some(Section {
        heading: "What is missing from the capture".to_owned(),
        note: String::new(),
        blocks: vec![Block::Beside(parts)],
    })
}

/// How much of the traffic became operations.
fn understood_blocks(understood: &Understood) -> Vec<Block> {
    let meter = |share, of, part, whole: u64| {
        (whole > 0).then(|| Meter {
            share,
            of,
            note: format!("{} of {}", bytes(part), bytes(whole)),
        })
    };
    let meters = [
        meter(
            understood.rpc_connections_share,
            "of the bytes of RPC connections",
            understood.rpc_bytes,
            understood.rpc_connections_bytes,
        ),
        meter(
            understood.tcp_share,
            "of all TCP bytes",
            understood.tcp_rpc_bytes,
            understood.tcp_bytes,
        ),
    ];
    let tls = match understood.tls_connections {
        0 => String::new(),
        count => format!(", {} with TLS", grouped(count)),
    };
    vec![
        Block::Meters(Meters {
            label: "understood",
            colour: Colour::Median,
            meters: { meters.into_iter().flatten() }.collect(),
        }),
        Block::Text(format!(
            "{} connections, {} of them with RPC{tls}. Bytes that never came count as not \
                understood.",
            grouped(understood.connections),
            grouped(understood.rpc_connections)
        )),
    ]
}

pub(crate) fn loss_text(loss: &Loss) -> String {
    let what = match loss.dropped_frames {
        _ if loss.cause == "call_given_up" => format!("{} calls", grouped(loss.holes)),
        _ if loss.cause == "ring_lapped" => format!("files, {} times", grouped(loss.holes)),
        0 => format!(
            "{} in {} holes",
            bytes(loss.lost_bytes),
            grouped(loss.holes)
        ),
        frames => format!("{} frames", grouped(frames)),
    };
    let direction = match loss.direction.as_str() {
        "client_to_server" => " from clients",
        "server_to_client" => " from servers",
        _ => "",
    };
    let cause = match loss.cause.as_str() {
        "not_seen" => "never seen by the tap",
        "damaged" => "damaged",
        "lost" => "lost on the way, the receiver asked for them",
        "snap_length" => "cut by the snap length",
        "given_up" | "call_given_up" => "given up when memory ran short",
        "port_dropped" => "dropped by the port",
        "ring_lapped" => "overwritten or deleted in a ring of files",
        _ => "cause not known",
    };
    format!("{what}: {cause}{direction}")
}

pub(crate) fn workload(report: &Report) -> Option<Section> {
    let totals = &report.totals;
    let by_second = |number: u64, text: &dyn Fn(u64) -> String| {
        let rate = number as f64 / (totals.duration_ns as f64 / 1e9);
        match rate {
            _ if totals.duration_ns == 0 => String::new(),
            0.0..1.0 if rate > 0.0 => format!("{rate:.2}/s"),
            _ => format!("{}/s", text(rate.round() as u64)),
        }
    };
    let fact = |label, value, note| Fact { label, value, note };
    let moved = |label, number| {
        let moved = moved_bytes(report, number, label);
        match moved == NOT_KNOWN {
            true => fact(label, moved, "by what was captured".to_owned()),
            false => fact(label, moved, by_second(number, &bytes)),
        }
    };
    let count = |label, number| fact(label, grouped(number), String::new());
    let failed = percent(share(totals.failed, totals.operations));
    let operations = totals.operations;
    let mut blocks = vec![Block::Facts(vec![
        fact(
            "operations",
            grouped(operations),
            by_second(operations, &grouped),
        ),
        fact("duration", time(totals.duration_ns), String::new()),
        moved("read", totals.read_bytes),
        moved("written", totals.written_bytes),
        count("clients", totals.clients),
        count("files", totals.files),
        count("directories", totals.directories),
        count("other objects", totals.objects),
        count("users", totals.users),
        fact("failed", grouped(totals.failed), failed),
    ])];
    let odd = [
        ("without reply", totals.unanswered),
        ("without call", totals.without_call),
        ("incomplete", totals.incomplete),
        ("called again after the reply", totals.repeated),
        ("retransmissions", totals.retransmissions),
        ("further replies", totals.duplicate_replies),
        ("without time", totals.without_time),
        ("without user", totals.without_user),
        ("times that run backwards", totals.negative_times),
        ("without the amount that they moved", totals.without_amount),
    ];
    let odd: Vec<_> = { odd.into_iter().filter(|(_, count)| *count > 0) }
        .map(|(what, count)| format!("{} {what}", grouped(count)))
        .collect();
    if !odd.is_empty() {
        blocks.push(Block::Text(format!("Also: {}.", odd.join(", "))));
    }
    Some(Section {
        heading: "Workload".to_owned(),
        note: String::new(),
        blocks,
    })
}

pub(crate) fn over_time(over_time: &OverTime, zone: &Zone) -> Option<Section> {
    let layer = Layer::counts;
    let quantile = |name, colour, values: &[Option<u64>]| Layer {
        name,
        colour,
        values: values.to_vec(),
    };
    let charts = [
        (
            "Operations",
            Scale::Rate,
            vec![
                layer("READ", Colour::Read, &over_time.reads),
                layer("WRITE", Colour::Write, &over_time.writes),
                layer("other", Colour::Other, &over_time.others),
            ],
        ),
        (
            "Bytes moved",
            Scale::ByteRate,
            vec![
                layer("bytes read", Colour::Read, &over_time.read_bytes),
                layer("bytes written", Colour::Write, &over_time.written_bytes),
            ],
        ),
        (
            "Server time",
            Scale::Time,
            vec![
                quantile("p50", Colour::Median, &over_time.server_time_p50_ns),
                quantile("p99", Colour::Upper, &over_time.server_time_p99_ns),
            ],
        ),
        (
            "Failed and unanswered",
            Scale::Rate,
            vec![
                layer("failed", Colour::Failed, &over_time.failed),
                layer("no reply", Colour::Unanswered, &over_time.unanswered),
            ],
        ),
    ];
    let any = |layers: &[Layer]| {
        let mut values = layers
            .iter()
            .flat_map(|layer| layer.values.iter().flatten());
        values.any(|&value| value > 0)
    };
    let charts = charts.into_iter().filter(|(_, _, layers)| any(layers));
    let blocks = charts.map(|(title, scale, layers)| {
        Block::Chart(Chart {
            title,
            scale,
            start_ns: over_time.start_ns,
            step_ns: over_time.step_ns,
            zone: zone.clone(),
            layers,
        })
    });
    (!over_time.reads.is_empty()).then(|| Section {
        heading: "Over time".to_owned(),
        note: format!(
            "In steps of {}; times are {}.",
            time(over_time.step_ns),
            zone.offset(over_time.start_ns)
        ),
        blocks: blocks.collect(),
    })
}

pub(crate) fn operations(operations: &[Operation]) -> Option<Section> {
    let tables = [Some(server_times(operations)?), transfer_times(operations)];
    Some(Section {
        heading: "Operations".to_owned(),
        note: "Server time is from the end of the call to the begin of the reply, at the tap; \
            transfer time from the first \
               to the last byte of a message, 0 for one in a single packet."
            .to_owned(),
        blocks: tables.into_iter().flatten().map(Block::Table).collect(),
    })
}

fn server_times(operations: &[Operation]) -> Option<Table> {
    let most = operations.first().map_or(0, |each| each.operations);
    table(
        "Server time",
        &[
            column("Operation", Kind::Name),
            column("operations", Kind::Number),
            column("p50", Kind::Number),
            wide("p90", Kind::Number),
            column("p99", Kind::Number),
            wide("p99.9", Kind::Number),
            column("max", Kind::Number),
            column("share", Kind::Number),
            wide("", Kind::Bar(Colour::Median)),
            column("failed", Kind::Number),
        ],
        ROWS_MAX,
        operations,
        |each| {
            let Quantiles {
                p50_ns,
                p90_ns,
                p99_ns,
                p999_ns,
                max_ns,
                ..
            } = each.server_time;
            let mut row = vec![operation_name(each), text(grouped(each.operations))];
            let times = [p50_ns, p90_ns, p99_ns, p999_ns, max_ns];
            row.extend(times.map(|ns| bound_time(ns, each.server_time.is_bound(ns))));
            row.extend([
                text(percent(each.operations_share)),
                Cell::Bar(share(each.operations, most)),
                number(each.failed, |failed| {
                    percent(share(failed, each.operations))
                }),
            ]);
            row
        },
    )
}

fn transfer_times(operations: &[Operation]) -> Option<Table> {
    let takes_time = |each: &&Operation| {
        let times = [&each.call_transfer_time, &each.reply_transfer_time];
        times.iter().any(|times| times.max_ns > Some(0))
    };
    table(
        "Transfer time",
        &[
            column("Operation", Kind::Name),
            column("moved", Kind::Number),
            column("call, p50", Kind::Number),
            column("p99", Kind::Number),
            wide("max", Kind::Number),
            column("reply, p50", Kind::Number),
            column("p99", Kind::Number),
            wide("max", Kind::Number),
        ],
        10,
        operations.iter().filter(takes_time),
        |each| {
            let (call, reply) = (&each.call_transfer_time, &each.reply_transfer_time);
            let mut row = vec![operation_name(each), number(each.moved_bytes, bytes)];
            let times = [
                call.p50_ns,
                call.p99_ns,
                call.max_ns,
                reply.p50_ns,
                reply.p99_ns,
                reply.max_ns,
            ];
            row.extend(times.map(optional_time));
            row
        },
    )
}

/// What passed at most, beside what the interface claims to carry.
pub(crate) fn wire(report: &Report) -> Option<Section> {
    let mut columns = vec![
        column("Connection", Kind::Name),
        column("to the", Kind::Name),
        column("busiest second", Kind::Number),
        column("busiest millisecond", Kind::Number),
    ];
    let speed = report.trace.speed_bps();
    if speed.is_some() {
        columns.push(column("of its speed", Kind::Number));
    }
    let table = table("by the busiest second", &columns, 5, &report.wire, |each| {
        let mut row = vec![
            text(end_name(&each.client, each.client_port)),
            text(match each.direction {
                "client_to_server" => "server".to_owned(),
                _ => "client".to_owned(),
            }),
            text(format!("{}/s", bytes(each.peak_1s_bytes))),
            text(bytes(each.peak_1ms_bytes)),
        ];
        row.extend(each.speed_share.map(|share| text(percent(share))));
        row
    })?;
    let claims = match speed {
        Some(bits) => format!(
            " The interface claims to carry {}; a virtual one may claim any speed.",
            bit_rate(bits as f64)
        ),
        None => " The speed of the interface is not known.".to_owned(),
    };
    Some(Section {
        heading: "On the wire".to_owned(),
        note: format!("Frames of one connection in one direction, with their headers.{claims}"),
        blocks: vec![Block::Table(table)],
    })
}

pub(crate) fn directions(report: &Report) -> Option<Section> {
    let ways = [
        ("READ", Colour::Read, &report.reads),
        ("WRITE", Colour::Write, &report.writes),
    ];
    let parts: Vec<_> = { ways.into_iter() }
        .filter(|(_, _, direction)| direction.operations > 0)
        .map(|(name, colour, direction)| way(name, colour, direction))
        .filter(|blocks| !blocks.is_empty())
        .collect();
    (!parts.is_empty()).then(|| Section {
        heading: "Reads and writes".to_owned(),
        note: "Sequential: it begins where the one before, of the same file, ended; any other is \
            random. Sizes are those \
               asked for."
            .to_owned(),
        blocks: vec![Block::Beside(parts)],
    })
}

fn way(name: &'static str, colour: Colour, direction: &Direction) -> Vec<Block> {
    let aligned = |number| (direction.placed > 0).then(|| share(number, direction.placed));
    let meters = [
        (direction.sequential_share, "sequential"),
        (aligned(direction.aligned_512), "aligned to 512 B"),
        (aligned(direction.aligned_4096), "aligned to 4 KiB"),
    ];
    let meters = meters.into_iter().filter_map(|(share, of)| {
        Some(Meter {
            share: share?,
            of,
            note: String::new(),
        })
    });
    let meters: Vec<_> = meters.collect();
    let sizes = &direction.sizes;
    let most = sizes.iter().map(|size| size.operations).max();
    let table = table(
        &format!("{name} by size"),
        &[
            column("up to", Kind::Number),
            column("operations", Kind::Number),
            column("share", Kind::Number),
            column("moved", Kind::Number),
            column("", Kind::Bar(colour)),
        ],
        ROWS_MAX,
        sizes,
        |size| {
            vec![
                text(bytes(size.size_max_bytes)),
                text(grouped(size.operations)),
                text(percent(share(size.operations, direction.operations))),
                number(size.moved_bytes, bytes),
                Cell::Bar(share(size.operations, most.unwrap_or(0))),
            ]
        },
    );
    // Where frames were cut short nothing may be known.
    let meters = (!meters.is_empty()).then_some(Block::Meters(Meters {
        label: name,
        colour,
        meters,
    }));
    meters.into_iter().chain(table.map(Block::Table)).collect()
}

pub(crate) fn errors(report: &Report, zone: &Zone) -> Option<Section> {
    let at = |ns: Option<i64>| {
        let clock = |ns| zone.clock(ns, report.over_time.step_ns);
        text(ns.map_or_else(|| "-".to_owned(), clock))
    };
    let mut table = table(
        "by operation and status",
        &[
            column("Operation", Kind::Name),
            column("Status", Kind::Name),
            column("failed", Kind::Number),
            column("over time", Kind::Spark(Colour::Failed)),
            wide("first", Kind::Number),
            wide("last", Kind::Number),
        ],
        10,
        &report.errors,
        |error| {
            vec![
                text(format!("{} {}", error.program, error.operation).trim()),
                text(error.status.clone()),
                text(grouped(error.failed)),
                Cell::Spark(error.over_time.clone()),
                at(error.first_ns),
                at(error.last_ns),
            ]
        },
    )?;
    let over_time = &report.over_time;
    let length = over_time
        .step_ns
        .saturating_mul(over_time.reads.len() as u64);
    let end = over_time.start_ns.saturating_add_unsigned(length);
    table.axis = Some([over_time.start_ns, end].map(|ns| zone.clock(ns, over_time.step_ns)));
    if report.errors_not_listed > 0 {
        let count = grouped(report.errors_not_listed);
        table.rest = format!("{} {count} failures are of further kinds.", table.rest);
    }
    let totals = &report.totals;
    Some(Section {
        heading: format!("Errors: {}", grouped(totals.failed)),
        note: format!(
            "{} of the operations. Times are {}.",
            percent(share(totals.failed, totals.operations)),
            zone.offset(over_time.start_ns)
        ),
        blocks: vec![Block::Table(table)],
    })
}

pub(crate) fn again(operations: &[Operation]) -> Option<Section> {
    let count = |each: &Operation| each.unanswered + each.retransmissions + each.repeated;
    let table = table(
        "by operation",
        &[
            column("Operation", Kind::Name),
            column("operations", Kind::Number),
            column("without reply", Kind::Number),
            column("before the reply", Kind::Number),
            column("after the reply", Kind::Number),
        ],
        10,
        operations.iter().filter(|each| count(each) > 0),
        |each| {
            vec![
                operation_name(each),
                text(grouped(each.operations)),
                number(each.unanswered, grouped),
                number(each.retransmissions, grouped),
                number(each.repeated, grouped),
            ]
        },
    )?;
    Some(Section {
        heading: "Calls without reply, and calls that came again".to_owned(),
        note: "Again before the reply: a retransmission. Again after it: the client did not get \
        the reply, or forgot it."
            .to_owned(),
        blocks: vec![Block::Table(table)],
    })
}

/// Bytes that were `read` or `written` in all. Where one direction was not captured, nothing shows
/// how many: neither calls alone do, nor replies whose procedure is not known.
pub(crate) fn moved_bytes(report: &Report, moved: u64, what: &str) -> String {
    let of = if what == "read" { "READ" } else { "WRITE" };
    let kinds = report.operations.iter();
    let kinds = kinds.filter(|kind| kind.operation == of && kind.program == "nfs");
    let sum =
        |sum: (u64, u64), kind: &Operation| (sum.0 + kind.operations, sum.1 + kind.unanswered);
    let (asked, unanswered) = kinds.fold((0, 0), sum);
    let totals = &report.totals;
    let is_known = match asked {
        0 => totals.without_call < totals.operations || totals.operations == 0,
        _ => unanswered < asked,
    };
    match moved == 0 && !is_known {
        true => NOT_KNOWN.to_owned(),
        false => bytes(moved),
    }
}

/// `nfs v3 READ`
fn operation_name(operation: &Operation) -> Cell {
    let name = match (operation.program.as_str(), operation.version) {
        ("", _) => "call not seen".to_owned(),
        (program, None) => format!("{program} {}", operation.operation),
        (program, Some(version)) => format!("{program} v{version} {}", operation.operation),
    };
    text(name.trim_end())
}
