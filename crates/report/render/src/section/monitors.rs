//! What monitors found, in words.

use lineside_analyze::{
    METRICS, MonitorDistribution, MonitorEvent, MonitorFlow, MonitorPlace, MonitorRate,
    MonitorWindows, Monitors, MonitorsOverTime, Zone, share,
};
use lineside_words::{bit_rate, bytes, grouped, percent, rate, time};

use crate::block::{
    Block, Cell, Column, Kind, Section, Table, column, fact, number, short, table, text, wide,
};
use crate::monitored::{Histogram, Timeline, length, value};

/// A metric in words; one of a user's own without its unit.
fn metric_name(of: &MonitorDistribution) -> String {
    let known = METRICS.iter().find(|(name, _)| *name == of.metric);
    let own = || {
        let name = of.metric.strip_suffix(of.unit).unwrap_or(&of.metric);
        name.trim_end_matches('_').replace('_', " ")
    };
    known.map_or_else(own, |(_, words)| (*words).to_owned())
}

/// A mean, which is seldom whole.
fn mean(number: f64, unit: &str) -> String {
    match unit {
        "ns" | "bytes" => value(number.round() as u64, unit),
        _ => short(number),
    }
}

/// The sections about monitors: what happened, and then each place.
pub(crate) fn sections(monitors: &Monitors, zone: &Zone) -> Vec<Section> {
    let mut sections: Vec<Section> = events(monitors, zone).into_iter().collect();
    let places = &monitors.places;
    let mut words: Vec<&str> = places.iter().map(|place| &*place.monitor).collect();
    words.dedup();
    for place in places {
        let at = words.iter().position(|word| *word == place.monitor);
        let which = match (words.len(), at) {
            (2.., Some(at)) => format!(" {}", at + 1),
            _ => String::new(),
        };
        let mut blocks = of_windows(monitors, place);
        blocks.extend(of_distributions(place));
        blocks.extend(of_flows(place));
        blocks.extend(by_flow(place));
        sections.push(Section {
            heading: format!("Monitor{which} at {}.{}", place.port, place.point),
            note: format!("Measures {}", place.monitor),
            blocks,
        });
    }
    sections
}

/// A line of the first screen: how much is measured, and what was busiest.
pub(crate) fn line(monitors: &Monitors) -> Vec<String> {
    let places = &monitors.places;
    let mut words: Vec<&str> = places.iter().map(|place| &*place.monitor).collect();
    words.dedup();
    let plural = |count: usize, what| match count {
        1 => format!("1 {what}"),
        count => format!("{} {what}s", grouped(count as u64)),
    };
    let points = plural(places.len(), "point");
    let mut parts = vec![format!("{} at {points}", plural(words.len(), "monitor"))];
    let windows = places
        .iter()
        .filter_map(|place| Some((place, place.windows.as_ref()?)));
    let busiest = windows.max_by(|(_, one), (_, other)| {
        one.bits_per_second
            .max
            .total_cmp(&other.bits_per_second.max)
    });
    parts.extend(busiest.map(|(place, windows)| {
        let (rate, window) = (
            bit_rate(windows.bits_per_second.max),
            length(windows.window_ns),
        );
        format!("up to {rate} in {window} at {}.{}", place.port, place.point)
    }));
    parts
}

/// How long after the begin: `+1.204 s`.
fn after(ns: i64) -> String {
    let sign = if ns < 0 { '-' } else { '+' };
    match ns.unsigned_abs() {
        ns if (1_000_000_000..3_600_000_000_000).contains(&ns) => {
            format!("{sign}{:.6} s", ns as f64 / 1e9)
        }
        ns => format!("{sign}{}", time(ns)),
    }
}

fn events(monitors: &Monitors, zone: &Zone) -> Option<Section> {
    let numbered = (1..).zip(&monitors.events);
    let row = |(at, event): (u64, &MonitorEvent)| {
        let frames = event
            .frames
            .map(|frames| format!("{} frames", grouped(frames)));
        let words = Some(event.text.clone()).filter(|text| !text.is_empty());
        let parts = [event.port.clone(), frames, words].into_iter().flatten();
        let parts: Vec<String> = parts.collect();
        vec![
            text(grouped(at)),
            text(event.after_ns.map_or_else(|| "-".to_owned(), after)),
            text(event.event.clone()),
            text(parts.join(": ")),
        ]
    };
    let columns = [
        column("#", Kind::Name),
        column("after", Kind::Number),
        column("event", Kind::Name),
        column("what", Kind::Name),
    ];
    let table = table("events", &columns, 20, numbered, row);
    let table = table.map(|mut table| {
        if monitors.events_not_listed > 0 {
            let count = grouped(monitors.events_not_listed);
            table.rest = format!("{count} more are in the table monitor_events alone.");
        }
        Block::Table(table)
    });
    let mut blocks: Vec<Block> = table.into_iter().collect();
    if monitors.rows_not_listed > 0 {
        blocks.push(Block::Text(format!(
            "{} rows of the tables are left out: there are more places, lengths of windows or bins \
            than memory is for.",
            grouped(monitors.rows_not_listed)
        )));
    }
    (!blocks.is_empty()).then(|| Section {
        heading: "What happened while monitors measured".to_owned(),
        note: match (monitors.begin_ns, monitors.end_ns) {
            (Some(begin), Some(end)) => format!(
                "Times are from the begin of the run, {}; it lasted {}.",
                zone.date(begin),
                time(end.abs_diff(begin))
            ),
            _ => String::new(),
        },
        blocks,
    })
}

/// Figures of the windows, and their course.
fn of_windows(monitors: &Monitors, place: &MonitorPlace) -> Vec<Block> {
    let Some(windows) = &place.windows else {
        return Vec::new();
    };
    let window = length(windows.window_ns);
    let begin = monitors.begin_ns.unwrap_or(windows.first_ns);
    let spans = (windows.windows).saturating_mul(windows.window_ns);
    let at = |rate: &MonitorRate| {
        format!(
            "in {window} at {}",
            after(rate.max_at_ns.saturating_sub(begin))
        )
    };
    let (bit, packet) = (&windows.bits_per_second, &windows.packets_per_second);
    let mut blocks = vec![Block::Facts(vec![
        fact(
            "packets",
            grouped(windows.packets),
            format!("in {}", time(spans)),
        ),
        fact(
            "bytes",
            bytes(windows.bytes),
            format!("{} B", grouped(windows.bytes)),
        ),
        fact("mean", bit_rate(bit.mean), rate(packet.mean)),
        fact("busiest", bit_rate(bit.max), at(bit)),
        fact(
            "windows",
            grouped(windows.windows),
            format!(
                "of {window}, {} empty",
                percent(share(windows.empty, windows.windows))
            ),
        ),
    ])];
    if windows.rows_not_joined > 0 {
        blocks.push(Block::Text(format!(
            "{} rows came long after their window, and count as windows of their own: quantiles \
            and the busiest window may be too low.",
            grouped(windows.rows_not_joined)
        )));
    }
    if let Some(over_time) = &windows.over_time {
        let [bits, packets] = timelines(monitors, place, windows, over_time);
        blocks.push(Block::Beside(vec![
            vec![Block::Timeline(bits)],
            vec![Block::Timeline(packets)],
        ]));
    }
    blocks
}

fn timelines(
    monitors: &Monitors,
    place: &MonitorPlace,
    windows: &MonitorWindows,
    over_time: &MonitorsOverTime,
) -> [Timeline; 2] {
    let marks = (1..).zip(&monitors.events).filter(|(_, event)| {
        let is_here = event.port.as_ref().is_none_or(|port| *port == place.port);
        is_here && !matches!(&*event.event, "begin" | "end")
    });
    let marks: Vec<(u64, i64)> = marks
        .filter_map(|(number, event)| Some((number, event.time_ns?)))
        .collect();
    let begin_ns = monitors.begin_ns.unwrap_or(windows.first_ns);
    let end_ns = monitors.end_ns.unwrap_or(windows.last_ns);
    let timeline = |title: &str, is_bits, means: &[f64], most: &[f64]| Timeline {
        title: title.to_owned(),
        is_bits,
        begin_ns,
        // A step may reach beyond the run, but no chart ends before its last window does.
        from_ns: begin_ns.min(windows.first_ns),
        to_ns: end_ns.max(windows.last_ns.saturating_add_unsigned(windows.window_ns)),
        start_ns: over_time.start_ns,
        step_ns: over_time.step_ns,
        window_ns: windows.window_ns,
        means: means.to_vec(),
        most: most.to_vec(),
        marks: marks.clone(),
    };
    [
        timeline(
            "Utilisation",
            true,
            &over_time.mean_bits_per_second,
            &over_time.max_bits_per_second,
        ),
        timeline(
            "Packets",
            false,
            &over_time.mean_packets_per_second,
            &over_time.max_packets_per_second,
        ),
    ]
}

/// Values and their quantiles, as a row of a table.
struct Spread {
    name: String,
    count: u64,
    /// From the least to the mean.
    values: [String; 7],
    within: String,
}

fn rates(windows: &MonitorWindows) -> [Spread; 2] {
    let row = |name: &str, rate: &MonitorRate, text: fn(f64) -> String| {
        let MonitorRate {
            min,
            p50,
            p90,
            p99,
            p999,
            max,
            mean,
            ..
        } = *rate;
        Spread {
            name: format!("{name} in {}", length(windows.window_ns)),
            count: windows.windows,
            values: [min, p50, p90, p99, p999, max, mean].map(text),
            within: percent(0.01),
        }
    };
    [
        row("rate", &windows.bits_per_second, bit_rate),
        row("packets", &windows.packets_per_second, rate),
    ]
}

impl Spread {
    fn of(of: &MonitorDistribution) -> Self {
        let in_words = |number: u64| {
            let at_least = match of.is_open && number == of.max {
                true => ">=",
                false => "",
            };
            format!("{at_least}{}", value(number, of.unit))
        };
        let [min, p50, p90, p99, p999, max] =
            [of.min, of.p50, of.p90, of.p99, of.p999, of.max].map(in_words);
        Self {
            name: metric_name(of),
            count: of.count,
            values: [min, p50, p90, p99, p999, max, mean(of.mean, of.unit)],
            within: match of.bin_width_share {
                0.0 => "exact".to_owned(),
                share => percent(share),
            },
        }
    }

    fn cells(self) -> Vec<Cell> {
        let mut row = vec![text(self.name), text(grouped(self.count))];
        row.extend(self.values.map(text));
        row.push(text(self.within));
        row
    }
}

/// Rates in windows, and distributions.
fn measured(
    windows: Option<&MonitorWindows>,
    distributions: &[MonitorDistribution],
) -> Vec<Spread> {
    let rates = windows.into_iter().flat_map(rates);
    rates.chain(distributions.iter().map(Spread::of)).collect()
}

/// A table of such rows; `first` are the columns before.
fn spread_table(caption: &str, first: &[Column], rows: Vec<Vec<Cell>>, rest: &str) -> Block {
    let columns = [
        column("Measured", Kind::Name),
        column("count", Kind::Number),
        wide("min", Kind::Number),
        column("p50", Kind::Number),
        wide("p90", Kind::Number),
        column("p99", Kind::Number),
        wide("p99.9", Kind::Number),
        column("max", Kind::Number),
        column("mean", Kind::Number),
        wide("within", Kind::Number),
    ];
    Block::Table(Table {
        caption: caption.to_owned(),
        columns: [first, &columns].concat(),
        rows_narrow: rows.len(),
        rows,
        rest: rest.to_owned(),
        axis: None,
    })
}

fn of_distributions(place: &MonitorPlace) -> Vec<Block> {
    let rows = measured(place.windows.as_ref(), &place.distributions);
    let rows: Vec<_> = rows.into_iter().map(Spread::cells).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let has_windows = |metric: &str| metric.starts_with("window_");
    let mut rest = Vec::new();
    if place.windows.is_some() {
        rest.push("Rates are of all windows, empty ones too.");
    }
    if place.distributions.iter().any(|of| has_windows(&of.metric)) {
        rest.push("Packets and bytes a window are of those that are not empty.");
    }
    rest.push(
        "A quantile is the highest value of its bin: the exact one is lower by the width of the bin \
        at most, which --html and --json give as a share.",
    );
    let mut blocks = vec![spread_table("distributions", &[], rows, &rest.join(" "))];
    // A single value has no shape.
    let drawn = place.distributions.iter().filter(|of| of.bins.len() > 1);
    let drawn = drawn.map(|of| {
        vec![Block::Histogram(Histogram {
            title: metric_name(of),
            distribution: of.clone(),
        })]
    });
    let drawn: Vec<_> = drawn.collect();
    if !drawn.is_empty() {
        blocks.push(Block::Beside(drawn));
    }
    blocks
}

/// `10.0.0.1:700 > 10.0.0.2:2049 tcp`
fn flow_name(flow: &MonitorFlow) -> String {
    let end = |address: &Option<String>, port: Option<i32>| {
        let address = address.as_deref().unwrap_or("?");
        match port {
            Some(port) if address.contains(':') => format!("[{address}]:{port}"),
            Some(port) => format!("{address}:{port}"),
            None => address.to_owned(),
        }
    };
    if flow.flow_id == 0 {
        return "others".to_owned();
    }
    let source = end(&flow.source_address, flow.source_port);
    let destination = end(&flow.destination_address, flow.destination_port);
    let transport = flow.transport.as_deref().unwrap_or_default();
    format!("{source} > {destination} {transport}")
        .trim_end()
        .to_owned()
}

fn of_flows(place: &MonitorPlace) -> Vec<Block> {
    let Some(flows) = &place.flows else {
        return Vec::new();
    };
    let sum = |what: u64, of: u64| match what {
        0 => "0".to_owned(),
        what => format!("{} ({})", bytes(what), percent(share(what, of))),
    };
    let mut blocks = vec![Block::Text(format!(
        "{} flows: {} packets, {}, {} of payload; retransmitted {}, {} packets reordered. {} \
        ended with a FIN, {} with a RST.",
        grouped(flows.flows),
        grouped(flows.packets),
        bytes(flows.bytes),
        bytes(flows.payload_bytes),
        sum(flows.retransmitted_bytes, flows.payload_bytes),
        grouped(flows.reordered_packets),
        grouped(flows.finished),
        grouped(flows.reset)
    ))];
    let listed = flows.heaviest.iter().chain(&flows.others);
    let columns = [
        column("Flow", Kind::Path),
        column("packets", Kind::Number),
        column("bytes", Kind::Number),
        wide("payload", Kind::Number),
        wide("duration", Kind::Number),
        column("rate", Kind::Number),
        column("again", Kind::Number),
        wide("reordered", Kind::Number),
        wide("window", Kind::Number),
        wide("SYN to FIN", Kind::Number),
        wide("end", Kind::Name),
    ];
    let table = table("heaviest flows", &columns, 10, listed, flow_row);
    blocks.extend(table.map(|mut table| {
        let left_out = flows.flows.saturating_sub(flows.heaviest.len() as u64);
        let more = match left_out {
            0 => String::new(),
            more => format!(
                "{} more flows are in the table monitor_flows. ",
                grouped(more)
            ),
        };
        table.rest = more + FLOWS_REST;
        Block::Table(table)
    }));
    blocks
}

/// What the columns of flows mean.
const FLOWS_REST: &str = "Again: payload that had passed here before. Reordered: packets, and \
    behind them the largest extent and n (RFC 4737). Window: least to most that was announced, and \
    the scale; raw: the SYN was not seen.";

fn flow_row(flow: &MonitorFlow) -> Vec<Cell> {
    let optional = |ns: Option<u64>| text(ns.map_or_else(|| "-".to_owned(), time));
    let reordered = match (flow.reordering_extent_max, flow.n_reordering_max) {
        (Some(extent), Some(n)) if flow.reordered_packets > 0 => {
            format!("{} ({extent}, {n})", grouped(flow.reordered_packets))
        }
        _ if flow.reordered_packets > 0 => grouped(flow.reordered_packets),
        _ => "-".to_owned(),
    };
    let windows = flow.tcp_window_min_bytes.zip(flow.tcp_window_max_bytes);
    let window = windows.map_or_else(
        || "-".to_owned(),
        |(min, max)| {
            let scale = match flow.tcp_window_scale {
                Some(scale) => format!("x{}", 1u64 << scale.clamp(0, 63)),
                None => "raw".to_owned(),
            };
            format!("{} to {} {scale}", bytes(min), bytes(max))
        },
    );
    vec![
        text(flow_name(flow)),
        text(grouped(flow.packets)),
        text(bytes(flow.bytes)),
        number(flow.payload_bytes, bytes),
        optional(flow.duration_ns),
        text(
            flow.bits_per_second
                .map_or_else(|| "-".to_owned(), bit_rate),
        ),
        number(flow.retransmitted_bytes, bytes),
        text(reordered),
        text(window),
        optional(flow.completion_ns),
        text(flow.flow_end.clone().unwrap_or_else(|| "-".to_owned())),
    ]
}

fn by_flow(place: &MonitorPlace) -> Option<Block> {
    let name = |flow_id: i64| {
        let known = place.flows.iter().flat_map(|flows| &flows.heaviest);
        let mut known = known.filter(|flow| flow.flow_id == flow_id);
        let others = || "others".to_owned();
        known.next().map_or_else(others, flow_name)
    };
    let rows = place.by_flow.iter().flat_map(|flow| {
        let name = name(flow.flow_id);
        let rows = measured(flow.windows.as_ref(), &flow.distributions).into_iter();
        rows.map(move |row| {
            [vec![text(name.clone())], row.cells()]
                .into_iter()
                .flatten()
                .collect()
        })
    });
    let rows: Vec<Vec<Cell>> = rows.collect();
    let first = [column("Flow", Kind::Path)];
    (!rows.is_empty()).then(|| spread_table("heaviest flows, each", &first, rows, ""))
}
