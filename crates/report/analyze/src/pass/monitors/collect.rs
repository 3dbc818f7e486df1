//! From the tables of monitors to what is reported, batch by batch, in bounded memory.

use hashbrown::HashMap;
use lineside_rows::Table;
use lineside_trace::read::{Column, ReadError};

use super::distribution::{Counts, distribution};
use super::flows::Flows;
use super::places::{Key, PLACE, Places, amount};
use super::rate::{Rate, Window};
use crate::model::{
    METRICS, MonitorDistribution, MonitorEvent, MonitorPlace, MonitoredFlow, Monitors,
};
use crate::read::columns::{Integers, Texts, Word, Words};
use crate::read::trace::Trace;

/// Bins of all distributions: 50 MB.
const BINS_MAX: usize = 1 << 20;
/// Rows of windows that wait for others of the same window: 25 MB.
const WAITING_MAX: usize = 1 << 20;
/// Events.
const EVENTS_MAX: usize = 1_000;

/// Reads the tables of monitors; `None` if the run has none.
pub(crate) fn monitors(trace: &mut Trace) -> Option<Monitors> {
    if !Table::MONITORS.iter().any(|&table| trace.has(table)) {
        return None;
    }
    let mut places = Places::default();
    let mut monitors = Monitors::default();
    // First the flows: they say which are the heaviest.
    let mut flows = Flows::default();
    read(trace, Table::MonitorFlows, &super::flows::COLUMNS, |rows| {
        flows.add(rows, &mut places)
    });
    flows.choose();
    let mut bins = Bins::default();
    read(trace, Table::MonitorBins, &Bins::COLUMNS, |rows| {
        bins.add(rows, &mut places, &flows)
    });
    let mut rates = Rates::default();
    read(trace, Table::MonitorWindows, &Rates::COLUMNS, |rows| {
        rates.add(rows, &mut places, &flows)
    });
    if trace.has(Table::MonitorEvents) {
        events(trace, &mut monitors);
    }
    monitors.rows_not_listed = places.not_listed + bins.not_listed;
    monitors.places = listed(&places, &mut flows, &bins, &mut rates);
    monitors.limit();
    Some(monitors)
}

/// Gives `take` the batches of a table, if it is there.
fn read(
    trace: &mut Trace,
    table: Table,
    columns: &[&str],
    mut take: impl FnMut(&[Column]) -> Result<(), ReadError>,
) {
    if trace.has(table) {
        trace.batches(table, &[&PLACE, columns].concat(), &mut take);
    }
}

/// The bins of all distributions.
#[derive(Default)]
struct Bins {
    counts: HashMap<(Key, Word), Counts>,
    bins: usize,
    not_listed: u64,
}

impl Bins {
    const COLUMNS: [&'static str; 4] = ["metric", "bin_from", "bin_to", "count"];

    fn add(
        &mut self,
        batch: &[Column],
        places: &mut Places,
        flows: &Flows,
    ) -> Result<(), ReadError> {
        let Some(rows) = places.rows(batch)? else {
            return Ok(());
        };
        let [metric, from, to, count] = rows.columns else {
            return Ok(());
        };
        let metric = Words::of("metric", metric, places.words())?;
        let from = Integers::of("bin_from", from)?;
        let to = Integers::of("bin_to", to)?;
        let count = Integers::of("count", count)?;
        let value = |column: &Integers<'_>, row| amount(column.get(row));
        for row in 0..rows.len {
            let Some(place) = places.of(&rows, row) else {
                continue;
            };
            let key = (place, rows.flow_id.get(row));
            if !flows.is_wanted(key) {
                continue;
            }
            let counts = self.counts.entry((key, metric.get(row))).or_default();
            let bin = (value(&from, row), value(&to, row));
            if !counts.contains_key(&bin) {
                if self.bins >= BINS_MAX {
                    self.not_listed += 1;
                    continue;
                }
                self.bins += 1;
            }
            let sum = counts.entry(bin).or_default();
            *sum = sum.saturating_add(value(&count, row));
        }
        Ok(())
    }
}

/// The windows of all places and of their heaviest flows.
#[derive(Default)]
struct Rates {
    rates: HashMap<Key, Rate>,
    waiting: usize,
}

impl Rates {
    const COLUMNS: [&'static str; 4] = ["time_ns", "window_ns", "packets", "bytes"];

    fn add(
        &mut self,
        batch: &[Column],
        places: &mut Places,
        flows: &Flows,
    ) -> Result<(), ReadError> {
        let Some(rows) = places.rows(batch)? else {
            return Ok(());
        };
        let [time, window, packets, bytes] = rows.columns else {
            return Ok(());
        };
        let time = Integers::of("time_ns", time)?;
        let window = Integers::of("window_ns", window)?;
        let packets = Integers::of("packets", packets)?;
        let bytes = Integers::of("bytes", bytes)?;
        for row in 0..rows.len {
            let Some(place) = places.of(&rows, row) else {
                continue;
            };
            let key = (place, rows.flow_id.get(row));
            let length = window.get(row).filter(|&length| length > 0);
            let Some((start_ns, window_ns)) = time.get(row).zip(length) else {
                continue;
            };
            if !flows.is_wanted(key) {
                continue;
            }
            let rate = self
                .rates
                .entry(key)
                .or_insert_with(|| Rate::new(window_ns));
            if rate.window_ns() != window_ns {
                places.not_listed += 1;
                continue;
            }
            self.waiting += usize::from(rate.add(Window {
                start_ns,
                packets: amount(packets.get(row)),
                bytes: amount(bytes.get(row)),
            }));
            if self.waiting >= WAITING_MAX {
                self.settle();
            }
        }
        Ok(())
    }

    /// Counts the earlier windows of each, so that half of the room is free again.
    fn settle(&mut self) {
        let kept = WAITING_MAX / 2 / self.rates.len().max(1);
        for rate in self.rates.values_mut() {
            self.waiting -= rate.settle(kept);
        }
    }
}

fn events(trace: &mut Trace, monitors: &mut Monitors) {
    let columns = ["time_ns", "event", "port", "frames", "text"];
    trace.batches(Table::MonitorEvents, &columns, |batch| {
        let [time, event, port, frames, text] = batch else {
            return Ok(());
        };
        let rows = time.len();
        let time = Integers::of("time_ns", time)?;
        let event = Texts::of("event", event)?;
        let port = Texts::of("port", port)?;
        let frames = Integers::of("frames", frames)?;
        let text = Texts::of("text", text)?;
        for row in 0..rows {
            if monitors.events.len() >= EVENTS_MAX {
                monitors.events_not_listed += 1;
                continue;
            }
            monitors.events.push(MonitorEvent {
                time_ns: time.get(row),
                after_ns: None,
                event: event.get(row).unwrap_or_default().to_owned(),
                port: port.get(row).map(str::to_owned),
                frames: frames.get(row).map(|frames| amount(Some(frames))),
                text: text.get(row).unwrap_or_default().to_owned(),
            });
        }
        Ok(())
    });
    // The end may be known before what happened in between is written.
    monitors.events.sort_by_key(|event| {
        let rank = match &*event.event {
            "begin" => 0,
            "end" => 2,
            _ => 1,
        };
        (event.time_ns.is_none(), event.time_ns, rank)
    });
}

fn listed(places: &Places, flows: &mut Flows, bins: &Bins, rates: &mut Rates) -> Vec<MonitorPlace> {
    let mut listed: Vec<_> = (0..places.names.len())
        .map(|number| {
            let [monitor, port, point] = places.name(number);
            let key = (number, None);
            let chosen = flows.by_flow(number);
            let by_flow = chosen.into_iter().map(|flow_id| {
                let key = (number, Some(flow_id));
                MonitoredFlow {
                    flow_id,
                    windows: rates.rates.get_mut(&key).and_then(|rate| rate.found(false)),
                    distributions: distributions(places, bins, key, false),
                }
            });
            let is_measured =
                |flow: &MonitoredFlow| flow.windows.is_some() || !flow.distributions.is_empty();
            MonitorPlace {
                monitor,
                port,
                point,
                by_flow: by_flow.filter(is_measured).collect(),
                windows: rates.rates.get_mut(&key).and_then(|rate| rate.found(true)),
                distributions: distributions(places, bins, key, true),
                flows: flows.found(number),
            }
        })
        .collect();
    listed.sort_by(|one, other| {
        let name = |of: &MonitorPlace| (of.monitor.clone(), of.port.clone(), of.point.clone());
        name(one).cmp(&name(other))
    });
    listed
}

fn distributions(
    places: &Places,
    bins: &Bins,
    key: Key,
    is_drawn: bool,
) -> Vec<MonitorDistribution> {
    let counts = bins.counts.iter().filter(|((of, _), _)| *of == key);
    let found = counts
        .filter_map(|(&(_, metric), counts)| distribution(places.text(metric), counts, is_drawn));
    let mut found: Vec<_> = found.collect();
    found.sort_by_key(|each| order(&each.metric));
    found
}

impl Monitors {
    /// Takes the begin and the end from the events or, where these do not have them, from all that
    /// has a time.
    fn limit(&mut self) {
        let stamps = |kind| {
            let events = self.events.iter().filter(move |event| event.event == kind);
            events.filter_map(|event| event.time_ns)
        };
        let windows = || {
            self.places
                .iter()
                .filter_map(|place| place.windows.as_ref())
        };
        let flows = || {
            let of_places = self.places.iter().filter_map(|place| place.flows.as_ref());
            of_places.flat_map(|flows| flows.heaviest.iter().chain(&flows.others))
        };
        let first = windows().map(|windows| windows.first_ns);
        let first = first.chain(flows().filter_map(|flow| flow.first_ns)).min();
        let last = windows().map(|windows| {
            let window_ns = windows.window_ns;
            windows.last_ns.saturating_add_unsigned(window_ns)
        });
        let last = last.chain(flows().filter_map(|flow| flow.last_ns)).max();
        let (begin, end) = (
            stamps("begin").min().or(first),
            stamps("end").max().or(last),
        );
        (self.begin_ns, self.end_ns) = (begin, end);
        for event in &mut self.events {
            let after = event.time_ns.zip(begin);
            event.after_ns = after.map(|(time, begin)| time.saturating_sub(begin));
        }
    }
}

/// Where a metric stands in a report.
fn order(metric: &str) -> (usize, String) {
    let known = METRICS.iter().position(|(name, _)| *name == metric);
    (known.unwrap_or(METRICS.len()), metric.to_owned())
}
