//! The content of a report: its sections, tables and drawings, every number in words. The terminal
//! and the HTML form draw this and decide nothing but how it looks. Texts may come from the wire:
//! the code that draws them makes them harmless.

use crate::model::{
    Busy, Concentration, Direction, GetattrStorm, Loss, Operation, OverTime, Quantiles, Ranking,
    Report,
};
use crate::numbers::{bytes, date, file_name, grouped, percent, share, time};

/// Rows of a table; the JSON form has all.
const ROWS_MAX: usize = 40;

/// A report in words.
pub(crate) struct Page {
    pub(crate) title: String,
    /// When, from what, and which operations.
    pub(crate) about: Vec<String>,
    pub(crate) sections: Vec<Section>,
    pub(crate) footer: String,
}

/// A heading with what stands below it.
pub(crate) struct Section {
    pub(crate) heading: String,
    /// What its terms mean; may be empty.
    pub(crate) note: String,
    pub(crate) blocks: Vec<Block>,
}

pub(crate) enum Block {
    Verdict(Verdict),
    Facts(Vec<Fact>),
    /// Facts of more than a word: each has a line of its own.
    List(Vec<Fact>),
    Meters(Meters),
    Text(String),
    /// What stands out, and what is done about it.
    Advice(Vec<(String, String)>),
    Chart(Chart),
    Curve(Curve),
    Table(Table),
    /// Blocks that stand side by side where there is room.
    Beside(Vec<Vec<Self>>),
}

/// How far a trace can be trusted.
pub(crate) struct Verdict {
    pub(crate) state: String,
    pub(crate) complete: bool,
    /// What and why, each with a label.
    pub(crate) reasons: Vec<(&'static str, String)>,
}

/// A number that stands for itself.
pub(crate) struct Fact {
    pub(crate) label: &'static str,
    pub(crate) value: String,
    /// May be empty.
    pub(crate) note: String,
}

/// Shares of something.
pub(crate) struct Meters {
    pub(crate) label: &'static str,
    pub(crate) colour: Colour,
    pub(crate) meters: Vec<Meter>,
}

pub(crate) struct Meter {
    pub(crate) share: f64,
    pub(crate) of: &'static str,
    /// May be empty.
    pub(crate) note: String,
}

/// What a colour stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Read,
    Write,
    Other,
    Failed,
    Unanswered,
    Median,
    Upper,
}

/// Values over time.
pub(crate) struct Chart {
    pub(crate) title: &'static str,
    pub(crate) scale: Scale,
    pub(crate) start_ns: i64,
    pub(crate) step_ns: u64,
    /// Of equal length; the lowest first.
    pub(crate) layers: Vec<Layer>,
}

pub(crate) struct Layer {
    pub(crate) name: &'static str,
    pub(crate) colour: Colour,
    pub(crate) values: Vec<Option<u64>>,
}

/// What the values of a chart are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Counts, shown by the second, on one another.
    Rate,
    /// Bytes, likewise.
    ByteRate,
    /// Nanoseconds: quantiles, on a logarithmic scale.
    Time,
}

impl Scale {
    /// A value of a step in words.
    pub(crate) fn text(self, value: f64, step_ns: u64) -> String {
        let rate = value / (step_ns.max(1) as f64 / 1e9);
        match self {
            Self::Rate => format!("{}/s", short(rate)),
            Self::ByteRate => format!("{}/s", bytes(rate.round() as u64)),
            Self::Time => time(value as u64),
        }
    }
}

/// Which share of all is with the first few.
pub(crate) struct Curve {
    pub(crate) title: String,
    pub(crate) points: Vec<Concentration>,
}

pub(crate) struct Table {
    pub(crate) caption: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Cell>>,
    /// Rows where there is little room.
    pub(crate) rows_narrow: usize,
    /// What has no row, if anything.
    pub(crate) rest: String,
}

#[derive(Clone, Copy)]
pub(crate) struct Column {
    pub(crate) head: &'static str,
    pub(crate) kind: Kind,
    /// Only where there is room.
    pub(crate) wide: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A name: cut where there is no room.
    Name,
    /// A path: its end is most telling.
    Path,
    /// A number, to the right.
    Number,
    /// A share of the largest, as a bar.
    Bar(Colour),
    /// Counts over time.
    Spark,
}

pub(crate) enum Cell {
    Text(String),
    Bar(f64),
    Spark(Vec<u64>),
}

/// The report in words.
pub(crate) fn page(report: &Report) -> Page {
    let sections = [
        missing(report),
        workload(report),
        findings(report),
        over_time(&report.over_time),
        operations(&report.operations),
        directions(report),
        busiest("files", "File", &report.files),
        busiest("clients", "Client", &report.clients),
        busiest("pairs of client and file", "Client", &report.pairs),
        busiest("users", "User", &report.users),
        misaligned(report),
        storms(report),
        errors(report),
        again(&report.operations),
    ];
    let emulated = report.emulation.as_ref().map(crate::emulation::sections);
    // Without a tap, the link is all that there is to report.
    let is_alone =
        emulated.is_some() && report.understood.is_none() && report.totals.operations == 0;
    let sections = sections.into_iter().flatten().filter(|_| !is_alone);
    Page {
        title: format!("Report on {}", report.parameters.asked.trace),
        about: about(report),
        sections: emulated.into_iter().flatten().chain(sections).collect(),
        footer: footer(report),
    }
}

fn about(report: &Report) -> Vec<String> {
    let (totals, asked) = (&report.totals, &report.parameters.asked);
    let mut lines = Vec::new();
    if let (Some(first), Some(last)) = (totals.first_ns, totals.last_ns) {
        lines.push(format!("{} to {}", date(first), date(last)));
    }
    let inputs = &report.trace.inputs;
    for input in inputs.iter().take(3) {
        lines.push(format!("from {} ({})", input.name, input.format));
    }
    if inputs.len() > 3 {
        lines.push(format!("and {} more", inputs.len() - 3));
    }
    let chosen = [
        asked.since_ns.map(|ns| format!("since {}", date(ns))),
        asked.until_ns.map(|ns| format!("until {}", date(ns))),
        asked.client.as_ref().map(|name| format!("client {name}")),
        asked
            .operation
            .as_ref()
            .map(|name| format!("operation {name}")),
    ];
    let chosen: Vec<_> = chosen.into_iter().flatten().collect();
    if !chosen.is_empty() {
        lines.push(format!("only {}", chosen.join(", ")));
    }
    lines
}

fn missing(report: &Report) -> Option<Section> {
    let missing = &report.missing;
    let state = missing
        .verdict
        .and_then(|state| serde_json::to_value(state).ok());
    let state = state.as_ref().and_then(serde_json::Value::as_str);
    let state = state.unwrap_or("not known").to_owned();
    let complete = state == "complete" && missing.unreadable.is_empty();
    let reasons = {
        missing
            .reasons
            .iter()
            .map(|reason| ("because", reason.clone()))
    }
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
    if let Some(understood) = &report.understood {
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
        parts.push(vec![
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
        ]);
    }
    Some(Section {
        heading: "What is missing from the capture".to_owned(),
        note: String::new(),
        blocks: vec![Block::Beside(parts)],
    })
}

fn loss_text(loss: &Loss) -> String {
    let what = match loss.dropped_frames {
        _ if loss.cause == "call_given_up" => format!("{} calls", grouped(loss.holes)),
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
        "snap_length" => "cut by the snap length",
        "given_up" | "call_given_up" => "given up when memory ran short",
        "port_dropped" => "dropped by the port",
        _ => "cause not known",
    };
    format!("{what}: {cause}{direction}")
}

fn workload(report: &Report) -> Option<Section> {
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
    let moved = |label, number| fact(label, bytes(number), by_second(number, &bytes));
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
        blocks.push(Block::Text(format!(
            "Of the operations: {}.",
            odd.join(", ")
        )));
    }
    Some(Section {
        heading: "Workload".to_owned(),
        note: String::new(),
        blocks,
    })
}

fn findings(report: &Report) -> Option<Section> {
    let advice = { report.findings.iter() }
        .map(|finding| (finding.what.clone(), finding.advice.clone()))
        .collect();
    (!report.findings.is_empty()).then(|| Section {
        heading: "What stands out".to_owned(),
        note: String::new(),
        blocks: vec![Block::Advice(advice)],
    })
}

fn over_time(over_time: &OverTime) -> Option<Section> {
    let layer = |name, colour, values: &[u64]| Layer {
        name,
        colour,
        values: values.iter().copied().map(Some).collect(),
    };
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
                quantile("median", Colour::Median, &over_time.server_time_p50_ns),
                quantile("99 %", Colour::Upper, &over_time.server_time_p99_ns),
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
            layers,
        })
    });
    (!over_time.reads.is_empty()).then(|| Section {
        heading: "Over time".to_owned(),
        note: format!("In steps of {}.", time(over_time.step_ns)),
        blocks: blocks.collect(),
    })
}

const fn column(head: &'static str, kind: Kind) -> Column {
    Column {
        head,
        kind,
        wide: false,
    }
}

const fn wide(head: &'static str, kind: Kind) -> Column {
    Column {
        head,
        kind,
        wide: true,
    }
}

/// A table of what there is; none if there is nothing.
fn table<T>(
    caption: &str,
    columns: &[Column],
    rows_narrow: usize,
    of: impl IntoIterator<Item = T>,
    row: impl Fn(T) -> Vec<Cell>,
) -> Option<Table> {
    let mut of = of.into_iter();
    let rows: Vec<_> = of.by_ref().take(ROWS_MAX).map(row).collect();
    let rest = match of.count() {
        0 => String::new(),
        count => format!("{} more are in the JSON form.", grouped(count as u64)),
    };
    (!rows.is_empty()).then(|| Table {
        caption: caption.to_owned(),
        columns: columns.to_vec(),
        rows,
        rows_narrow,
        rest,
    })
}

fn text(text: impl Into<String>) -> Cell {
    Cell::Text(text.into())
}

/// A number, or a dash for nothing.
fn number(number: u64, text: impl Fn(u64) -> String) -> Cell {
    Cell::Text(match number {
        0 => "-".to_owned(),
        number => text(number),
    })
}

fn optional_time(ns: Option<u64>) -> Cell {
    Cell::Text(ns.map_or_else(|| "-".to_owned(), time))
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

fn operations(operations: &[Operation]) -> Option<Section> {
    let most = operations.first().map_or(0, |each| each.operations);
    let server = table(
        "Server time",
        &[
            column("Operation", Kind::Name),
            column("operations", Kind::Number),
            column("share", Kind::Number),
            wide("", Kind::Bar(Colour::Median)),
            column("failed", Kind::Number),
            column("median", Kind::Number),
            wide("90 %", Kind::Number),
            column("99 %", Kind::Number),
            wide("99.9 %", Kind::Number),
            column("most", Kind::Number),
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
            let mut row = vec![
                operation_name(each),
                text(grouped(each.operations)),
                text(percent(each.operations_share)),
                Cell::Bar(share(each.operations, most)),
                number(each.failed, |failed| {
                    percent(share(failed, each.operations))
                }),
            ];
            row.extend([p50_ns, p90_ns, p99_ns, p999_ns, max_ns].map(optional_time));
            row
        },
    )?;
    let takes_time = |each: &&Operation| {
        let times = [&each.call_transfer_time, &each.reply_transfer_time];
        times.iter().any(|times| times.max_ns > Some(0))
    };
    let transfer = table(
        "Transfer time",
        &[
            column("Operation", Kind::Name),
            column("moved", Kind::Number),
            column("call, median", Kind::Number),
            column("99 %", Kind::Number),
            wide("most", Kind::Number),
            column("reply, median", Kind::Number),
            column("99 %", Kind::Number),
            wide("most", Kind::Number),
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
    );
    let tables = [Some(server), transfer];
    Some(Section {
        heading: "Operations".to_owned(),
        note: "Server time is from the end of the call to the begin of the reply, at the tap; \
            transfer time from the first \
               to the last byte of a message, 0 for one in a single packet."
            .to_owned(),
        blocks: tables.into_iter().flatten().map(Block::Table).collect(),
    })
}

fn directions(report: &Report) -> Option<Section> {
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

fn busiest(what: &str, head: &'static str, ranking: &Ranking) -> Option<Section> {
    let pairs = { ranking.by_operations.iter() }.any(|busy| busy.client.is_some());
    let mut columns = vec![column(head, Kind::Path)];
    if pairs {
        columns.push(column("File", Kind::Path));
    }
    columns
        .extend(["operations", "failed", "read", "written"].map(|head| column(head, Kind::Number)));
    let row = |busy: &Busy| {
        let mut row = match (&busy.client, busy.user_id) {
            (Some(client), _) => vec![
                text(client.clone()),
                text(file_name(&busy.name, busy.file_id)),
            ],
            (None, Some(user_id)) => vec![text(format!("uid {user_id}"))],
            (None, None) => vec![text(file_name(&busy.name, busy.file_id))],
        };
        row.extend([
            text(grouped(busy.operations)),
            number(busy.failed, grouped),
            number(busy.read_bytes, bytes),
            number(busy.written_bytes, bytes),
        ]);
        row
    };
    let by_operations = table("by operations", &columns, 10, &ranking.by_operations, row)?;
    // Of a few, one list shows everything.
    let by_bytes = (ranking.count > 5)
        .then(|| table("by bytes", &columns, 5, &ranking.by_bytes, row))
        .flatten();
    let mut blocks = Vec::new();
    if ranking.concentration.len() > 2 {
        blocks.push(Block::Curve(Curve {
            title: format!("Share of the busiest {what}"),
            points: ranking.concentration.clone(),
        }));
    }
    let tables = [Some(by_operations), by_bytes].into_iter().flatten();
    let tables: Vec<_> = tables.map(Block::Table).collect();
    // Two names and four numbers take the whole width.
    if pairs {
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

fn misaligned(report: &Report) -> Option<Section> {
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

fn storms(report: &Report) -> Option<Section> {
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
                text(date(storm.peak_ns)),
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

fn errors(report: &Report) -> Option<Section> {
    let at = |ns: Option<i64>| {
        text(ns.map_or_else(|| "-".to_owned(), |ns| clock(ns, report.over_time.step_ns)))
    };
    let mut table = table(
        "by operation and status",
        &[
            column("Operation", Kind::Name),
            column("Status", Kind::Name),
            column("failed", Kind::Number),
            column("over time", Kind::Spark),
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
    if report.errors_not_listed > 0 {
        let count = grouped(report.errors_not_listed);
        table.rest = format!("{} {count} failures are of further kinds.", table.rest);
    }
    let totals = &report.totals;
    Some(Section {
        heading: format!("Errors: {}", grouped(totals.failed)),
        note: format!(
            "{} of the operations.",
            percent(share(totals.failed, totals.operations))
        ),
        blocks: vec![Block::Table(table)],
    })
}

fn again(operations: &[Operation]) -> Option<Section> {
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

fn footer(report: &Report) -> String {
    let (trace, parameters) = (&report.trace, &report.parameters);
    format!(
        "Trace {}, schema {}, written by {}. Quantiles are within {} of the exact ones ({} over \
        time); counts, sums, least \
         and most are exact. At most {} files, {} clients, {} users and {} pairs of clients and \
         shared files are distinguished.",
        trace.trace_id,
        trace.schema_version,
        trace.tool,
        percent(parameters.quantile_error_share),
        percent(parameters.quantile_over_time_error_share),
        grouped(parameters.files_max),
        grouped(parameters.clients_max),
        grouped(parameters.users_max),
        grouped(parameters.pairs_max),
    )
}

/// The time of day, as exact as the steps are; with the day, if they are long.
pub(crate) fn clock(ns: i64, step_ns: u64) -> String {
    let date = date(ns);
    let range = match step_ns {
        0..1_000_000_000 => 11..23,
        1_000_000_000..600_000_000_000 => 11..19,
        600_000_000_000..86_400_000_000_000 => 5..16,
        _ => 0..10,
    };
    date.get(range).unwrap_or(&date).to_owned()
}

/// `12.5k`
fn short(number: f64) -> String {
    let (value, unit) = match number {
        number if number >= 1e9 => (number / 1e9, "G"),
        number if number >= 1e6 => (number / 1e6, "M"),
        number if number >= 1e4 => (number / 1e3, "k"),
        number => (number, ""),
    };
    let digits = if value >= 100.0 || value.fract() == 0.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$}{unit}")
}
