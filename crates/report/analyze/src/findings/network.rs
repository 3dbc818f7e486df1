//! Findings about the way between clients and server: what TCP had to do, by connection.
//!
//! | what the columns show | finding | place |
//! |---|---|---|
//! | segments sent again that were needed | `loss`, or `reordering` if as many were overtaken | network |
//! | as many bytes on the way as the receiver takes | `window` | the receiver |
//! | acknowledgements that come ever later while much flows, or messages that trickle in at one rate | `full_link` | network |
//! | one call at a time, over a round trip that takes longer than the server | `one_at_a_time` | client |
//! | one of several connections of a client to a server does worse than its siblings | `slow_one_of_connections` | network |

mod connection;
mod losses;
mod members;
mod one_at_a_time;

use hashbrown::HashMap;
use lineside_rows::Table;
use lineside_trace::read::{Column, ReadError};
use lineside_words::{bytes, grouped, percent, time};
use serde_json::json;

use super::lines::Found;
use super::scene::{Scene, Ways};
use super::watch::{Connections, Watch};
use crate::model::WireRate;
use crate::model::{Finding, Place};
use crate::numbers::share;
use crate::read::columns::{Integers, Shorts, Texts};
use crate::read::trace::Trace;

use connection::{
    Connection, FULL_WINDOWS_MIN, PLATEAU_FACTOR, QUEUE_FACTOR, QUEUE_MIN_NS, Sent, TRANSFER_SHARE,
    WINDOW_BYTES_MAX,
};
use losses::Losses;

/// The busiest ends that are listed.
const RATES_MAX: usize = 25;

const OVERTAKEN_ADVICE: &str = "look for a bond or paths that share packets rather than \
    connections among them, and for hosts or switches with several queues for one connection";
const LOSS_ADVICE: &str = "look for a bad cable or optic, a duplex mismatch or a full queue: \
    ethtool -S on both hosts, the drop counters of each switch between them";

/// The columns of one end, in the order of [`Sent`].
const SENT: [&str; 14] = [
    "packets",
    "bytes",
    "retransmissions",
    "fast_retransmissions",
    "timeout_retransmissions",
    "spurious_retransmissions",
    "out_of_order_packets",
    "zero_windows",
    "full_windows",
    "segment_max_bytes",
    "peak_1ms_bytes",
    "peak_1s_bytes",
    "rtt_min_ns",
    "rtt_ns",
];
/// Of both ends; older traces have none.
const WAITS: [&str; 2] = ["client_window_waits", "server_window_waits"];
const SHARED: [&str; 9] = [
    "connection_id",
    "client_address",
    "client_port",
    "server_address",
    "transport",
    "program",
    "outstanding_max",
    "interval_start_ns",
    "interval_ns",
];

/// The connections with operations among the chosen ones; none if the trace is older than the
/// columns.
pub(super) struct Network {
    connections: Vec<Connection>,
}

impl Network {
    pub(super) fn of(trace: &mut Trace, watch: &mut Watch) -> Self {
        let names: Vec<String> = { ["client", "server"].into_iter() }
            .flat_map(|end| SENT.map(|name| format!("{end}_{name}")))
            .collect();
        let mut columns: Vec<&str> = { SHARED.into_iter() }
            .chain(names.iter().map(String::as_str))
            .collect();
        if trace.has_columns(Table::Connections, &WAITS) {
            columns.extend(WAITS);
        }
        let mut found: HashMap<i64, Connection> = HashMap::new();
        if trace.has_columns(Table::Connections, &columns) {
            trace.batches(Table::Connections, &columns, |batch| {
                read(batch, &columns, &watch.connections, &mut found)
            });
        }
        let mut found: Vec<(i64, Connection)> = found.into_iter().collect();
        found.sort_unstable_by_key(|(id, _)| *id);
        for (id, connection) in &mut found {
            connection.id = *id;
            connection.times = { watch.connections.times(*id) }
                .cloned()
                .unwrap_or_default();
        }
        Self {
            connections: { found.into_iter() }
                .map(|(_, connection)| connection)
                .collect(),
        }
    }

    /// Connections that stand out among those of the same client and server. What nearly one of
    /// them alone lost is no loss of all.
    pub(super) fn members(
        &self,
        watch: &mut Watch,
        scene: &mut Scene<'_>,
        found: &mut Vec<Finding>,
    ) -> Vec<Found> {
        let members = members::findings(&self.connections, watch, scene);
        if members::has_most_losses(&self.connections, &members) {
            found.retain(|finding| finding.kind != "loss");
        }
        members
    }

    /// The way of most operations; `None`: nothing shows it.
    pub(super) fn ways(&self) -> Ways {
        let most = { self.connections.iter() }
            .filter(|connection| connection.sent[1].rtt_min_ns.is_some())
            .max_by_key(|connection| connection.times.operations);
        Ways {
            client_ns: most.and_then(|connection| connection.sent[0].rtt_min_ns),
            server_ns: most.and_then(|connection| connection.sent[1].rtt_min_ns),
        }
    }

    /// The shortest round trip from the tap to a server.
    pub(super) fn way_to(&self, server: &str) -> Option<u64> {
        let its = { self.connections.iter() }.filter(|connection| connection.server == server);
        its.filter_map(|connection| connection.sent[1].rtt_min_ns)
            .min()
    }

    /// The busiest ends.
    pub(super) fn rates(&self, speed_bps: Option<u64>) -> Vec<WireRate> {
        let of_end = |connection: &Connection, end: usize| WireRate {
            client: connection.client.clone(),
            client_port: connection.client_port,
            server: connection.server.clone(),
            direction: ["client_to_server", "server_to_client"][end],
            peak_1s_bytes: connection.sent[end].peak_1s,
            peak_1ms_bytes: connection.sent[end].peak_1ms,
            speed_share: speed_bps.map(|bits| share(8 * connection.sent[end].peak_1s, bits)),
        };
        let mut ends: Vec<(&Connection, usize)> = { self.connections.iter() }
            .flat_map(|connection| [(connection, 0), (connection, 1)])
            .filter(|(connection, end)| connection.sent[*end].peak_1s > 0)
            .collect();
        ends.sort_by_key(|(connection, end)| std::cmp::Reverse(connection.sent[*end].peak_1s));
        { ends.into_iter().take(RATES_MAX) }
            .map(|(connection, end)| of_end(connection, end))
            .collect()
    }

    pub(super) fn findings(&self, scene: &mut Scene<'_>) -> Vec<Finding> {
        let operations = scene.report.totals.operations;
        let mut found: Vec<Finding> = Vec::new();
        let loss = self.loss(operations);
        // A full window makes transfers long, and so does a full link, but that fills no window.
        let window = self.window(operations);
        let link = match window {
            None => self.full_link(operations, scene.trace),
            Some(_) => None,
        };
        match (link, loss) {
            // What does not fit into the queue in front of the link is dropped.
            (Some(mut link), Some(loss)) => {
                link.evidence = format!("{}; {}", link.evidence, loss.what);
                link.basis.extend(loss.basis);
                found.push(link);
            }
            (link, loss) => found.extend(link.into_iter().chain(loss)),
        }
        found.extend(window);
        found.extend(one_at_a_time::found(&self.connections, operations));
        found
    }

    fn loss(&self, operations: u64) -> Option<Finding> {
        let losses = Losses::of(self.connections.iter());
        let Losses {
            needed,
            fast,
            waited,
            ..
        } = losses;
        if !losses.matter() {
            return None;
        }
        let is_overtaken = losses.are_overtaken();
        let by_end = |end: usize| -> u64 {
            { self.connections.iter() }
                .map(|connection| connection.sent[end].needed())
                .sum()
        };
        let worst = { self.connections.iter() }
            .max_by_key(|connection| connection.sent.iter().map(Sent::needed).sum::<u64>())?;
        let whole: u64 = worst.sent.iter().map(Sent::needed).sum();
        Some(Finding {
            kind: if is_overtaken { "reordering" } else { "loss" },
            place: Some(Place::Network),
            who: match self.connections.len() {
                1 => worst.name(),
                _ if 2 * whole > needed && self.connections.len() > 2 => worst.client.clone(),
                _ => String::new(),
            },
            what: losses.what(is_overtaken),
            evidence: format!(
                "{} by the clients, {} by the server; {} fast, {}",
                grouped(by_end(0)),
                grouped(by_end(1)),
                grouped(fast),
                losses.waits()
            ),
            advice: if is_overtaken {
                OVERTAKEN_ADVICE
            } else {
                LOSS_ADVICE
            }
            .to_owned(),
            lost_ns: losses.lost_ns(),
            operations_share: share(waited, operations),
            basis: losses.basis(),
            ..Finding::default()
        })
    }

    /// A receiver that takes less at once than the way holds: data of the server fills the window
    /// of the client, and the other way round.
    fn window(&self, operations: u64) -> Option<Finding> {
        [1, 0].into_iter().find_map(|end| {
            let small: Vec<&Connection> = { self.connections.iter() }
                .filter(|connection| connection.fills_window(end))
                .collect();
            window_of(&small, end, operations)
        })
    }

    /// A link that carries all that it can: in front of it a queue grows, behind it all comes at
    /// one rate.
    fn full_link(&self, operations: u64, trace: &mut Trace) -> Option<Finding> {
        let full: Vec<&Connection> = { self.connections.iter() }
            .filter(|connection| (0..2).any(|end| connection.fills_link(end)))
            .collect();
        if full.is_empty() {
            return None;
        }
        let sent = |end: usize| -> u64 { full.iter().map(|each| each.sent[end].bytes).sum() };
        let end = usize::from(sent(0) < sent(1));
        // The busiest seconds of several connections need not be the same.
        let first = full.iter().filter_map(|each| each.times.first_ns).min();
        let last = full.iter().filter_map(|each| each.times.last_ns).max();
        let lasted_ns = first
            .zip(last)
            .map_or(1, |(first, last)| last.abs_diff(first).max(1));
        let mean = (sent(end) as f64 / (lasted_ns as f64 / 1e9)) as u64;
        let rate = match full.as_slice() {
            [one] => one.sent[end].peak_1s.max(mean),
            _ => mean,
        };
        let longest = full.iter().max_by_key(|each| each.sent[1 - end].rtt_ns)?;
        let other = &longest.sent[1 - end];
        let latency_ns: u64 = full.iter().map(|each| each.times.latency_ns).sum();
        let server_ns: u64 = full.iter().map(|each| each.times.server_ns).sum();
        let number: u64 = full.iter().map(|each| each.times.operations).sum();
        let [since_ns, until_ns] = full_times(trace, &full, end);
        Some(Finding {
            kind: "full_link",
            place: Some(Place::Network),
            since_ns,
            until_ns,
            who: match full.as_slice() {
                [one] => one.client.clone(),
                several if several.iter().all(|each| each.client == several[0].client) => {
                    several[0].client.clone()
                }
                _ => String::new(),
            },
            what: format!(
                "a link is full: {}/s pass to the {}, and what is sent waits in front of it",
                bytes(rate),
                ["server", "client"][end]
            ),
            evidence: format!(
                "the way to the {} and back takes {} on average, {} at best; transfers take {} of the \
                latency",
                ["server", "client"][end],
                time(other.rtt_ns),
                other.rtt_min_ns.map_or_else(|| "?".to_owned(), time),
                percent(share(latency_ns.saturating_sub(server_ns), latency_ns))
            ),
            advice:
                "compare this rate with that of the slowest link on the way; let less pass, or \
                give it more: a faster link, fewer clients at once, a cache nearer to them"
                    .to_owned(),
            lost_ns: latency_ns.saturating_sub(server_ns),
            operations_share: share(number, operations),
            basis: [
                ("connections", json!(full.len())),
                ("bytes_per_second", json!(rate)),
                ("rtt_ns", json!(other.rtt_ns)),
                ("rtt_min_ns", json!(other.rtt_min_ns)),
                ("rtt_factor_min", json!(QUEUE_FACTOR)),
                ("rtt_queue_min_ns", json!(QUEUE_MIN_NS)),
                ("plateau_factor_max", json!(PLATEAU_FACTOR)),
                ("transfer_share_min", json!(TRANSFER_SHARE)),
            ]
            .into(),
            ..Finding::default()
        })
    }
}

/// The finding about those whose data of one end fills the other's window.
fn window_of(small: &[&Connection], end: usize, operations: u64) -> Option<Finding> {
    let worst = small
        .iter()
        .max_by_key(|connection| connection.sent[end].bytes)?;
    let (sent, other) = (&worst.sent[end], &worst.sent[1 - end]);
    let number: u64 = small
        .iter()
        .map(|connection| connection.times.operations)
        .sum();
    let (rtt, at_once) = (worst.rtt_ns(), worst.at_once(end));
    let takes = at_once.zip(rtt).map(|(at_once, rtt)| {
        let (at_once, rtt) = (bytes(at_once), time(rtt));
        format!(": it takes about {at_once} in each round trip of {rtt}")
    });
    let (receiver, place, who) = match end {
        1 => ("client", Place::Client, &worst.client),
        _ => ("server", Place::Server, &worst.server),
    };
    Some(Finding {
        kind: "window",
        place: Some(place),
        who: who.clone(),
        what: format!(
            "the {receiver}'s receive window is too small{}",
            takes.unwrap_or_default()
        ),
        evidence: format!(
            "{} segments filled the window, {} times the next one waited for room, {} times it was \
            shut; {} of the time a message is on its way",
            grouped(sent.full_windows),
            grouped(sent.window_waits),
            grouped(other.zero_windows),
            percent(worst.transfer_share(end))
        ),
        advice: format!(
            "let the {receiver} take more: the third number of net.ipv4.tcp_rmem, net.core.rmem_max; \
            one that shuts its window does not read fast enough"
        ),
        lost_ns: { small.iter() }
            .map(|connection| connection.times.transfer_ns(end))
            .sum(),
        operations_share: share(number, operations),
        basis: [
            ("full_windows", json!(sent.full_windows)),
            ("window_waits", json!(sent.window_waits)),
            ("full_windows_min", json!(FULL_WINDOWS_MIN)),
            ("zero_windows", json!(other.zero_windows)),
            ("round_trip_bytes", json!(at_once)),
            ("round_trip_bytes_max", json!(WINDOW_BYTES_MAX)),
            ("rtt_min_ns", json!(rtt)),
            ("transfer_share", json!(worst.transfer_share(end))),
            ("transfer_share_min", json!(TRANSFER_SHARE)),
            ("connections", json!(small.len())),
        ]
        .into(),
        ..Finding::default()
    })
}

/// Begin and end of the intervals in which a link was full; `None`: it was in the first, or in the
/// last.
fn full_times(trace: &mut Trace, full: &[&Connection], end: usize) -> [Option<i64>; 2] {
    let [ours, other] = [["client", "server"][end], ["client", "server"][1 - end]];
    let (rtt, peak) = (format!("{other}_rtt_ns"), format!("{ours}_peak_1s_bytes"));
    let names = [
        "connection_id",
        "interval_start_ns",
        "interval_ns",
        &rtt,
        &peak,
    ];
    let mut all: Option<(i64, i64)> = None;
    let mut those: Option<(i64, i64)> = None;
    trace.batches(Table::Connections, &names, |batch| {
        let columns: Vec<Integers<'_>> = { names.iter().zip(batch) }
            .map(|(name, column)| Integers::of(name, column))
            .collect::<Result<_, _>>()?;
        for row in 0..batch[0].len() {
            let value = |at: usize| columns[at].get(row);
            let [Some(id), Some(start), Some(length)] = [value(0), value(1), value(2)] else {
                continue;
            };
            let Some(connection) = full.iter().find(|connection| connection.id == id) else {
                continue;
            };
            let number = |at| value(at).map_or(0, |number: i64| number.max(0).unsigned_abs());
            let own = (start, start.saturating_add(length));
            let join = |span: &mut Option<(i64, i64)>| {
                let (first, last) = span.unwrap_or(own);
                *span = Some((first.min(own.0), last.max(own.1)));
            };
            join(&mut all);
            if connection.is_full_in(end, number(3), number(4)) {
                join(&mut those);
            }
        }
        Ok(())
    });
    let Some(((begin, finish), (first, last))) = all.zip(those) else {
        return [None, None];
    };
    [
        (first > begin).then_some(first),
        (last < finish).then_some(last),
    ]
}

fn read(
    batch: &[Column],
    names: &[&str],
    wanted: &Connections,
    found: &mut HashMap<i64, Connection>,
) -> Result<(), ReadError> {
    let integers = |at: usize| Integers::of(names[at], &batch[at]);
    let rows = batch[0].len();
    let id = integers(0)?;
    let client = Texts::of(names[1], &batch[1])?;
    let client_port = Shorts::of(names[2], &batch[2])?;
    let server = Texts::of(names[3], &batch[3])?;
    let transport = Texts::of(names[4], &batch[4])?;
    let (outstanding, start, length) = (integers(6)?, integers(7)?, integers(8)?);
    let sent: Vec<Integers<'_>> = (SHARED.len()..names.len())
        .map(integers)
        .collect::<Result<_, _>>()?;
    for row in 0..rows {
        let Some(id) = id.get(row).filter(|&id| wanted.times(id).is_some()) else {
            continue;
        };
        if transport.get(row) != Some("tcp") {
            continue;
        }
        let connection = found.entry(id).or_insert_with(|| Connection {
            client: client.get(row).unwrap_or_default().to_owned(),
            client_port: client_port.get(row),
            server: server.get(row).unwrap_or_default().to_owned(),
            ..Connection::default()
        });
        let number = |value: Option<i64>| u64::try_from(value.unwrap_or(0)).unwrap_or(0);
        // Retransmissions, and those that were not needed.
        let resent =
            |at: usize| number(sent[at].get(row)).saturating_sub(number(sent[at + 3].get(row)));
        let has_resent = resent(2) + resent(SENT.len() + 2) > 0;
        connection.add_interval([start.get(row), length.get(row)], has_resent);
        connection.outstanding_max = connection.outstanding_max.max(number(outstanding.get(row)));
        for (end, sent_by) in connection.sent.iter_mut().enumerate() {
            let value = |at: usize| sent[end * SENT.len() + at].get(row);
            sent_by.packets += number(value(0));
            sent_by.bytes += number(value(1));
            sent_by.retransmissions += number(value(2));
            sent_by.fast += number(value(3));
            sent_by.timeouts += number(value(4));
            sent_by.spurious += number(value(5));
            sent_by.out_of_order += number(value(6));
            sent_by.zero_windows += number(value(7));
            sent_by.full_windows += number(value(8));
            sent_by.segment_max = sent_by.segment_max.max(number(value(9)));
            sent_by.peak_1ms = sent_by.peak_1ms.max(number(value(10)));
            sent_by.peak_1s = sent_by.peak_1s.max(number(value(11)));
            let shortest = value(12).and_then(|ns| u64::try_from(ns).ok());
            sent_by.rtt_min_ns = match (sent_by.rtt_min_ns, shortest) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
            sent_by.rtt_ns = sent_by.rtt_ns.max(number(value(13)));
            let waits = sent.get(2 * SENT.len() + end);
            sent_by.window_waits += number(waits.and_then(|waits| waits.get(row)));
        }
    }
    Ok(())
}
