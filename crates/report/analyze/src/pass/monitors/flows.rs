//! The flows of all places: their sums, and the heaviest.

use std::cmp::Reverse;

use hashbrown::HashMap;
use lineside_trace::read::{Column, ReadError};

use super::places::{Key, Places, amount};
use crate::model::{MonitorFlow, MonitorFlows};
use crate::read::columns::{Integers, Shorts, Texts};

/// Flows in a list of the heaviest.
const HEAVIEST_MAX: usize = 25;
/// Flows of which a monitor by flow shows what it measured.
const BY_FLOW_MAX: usize = 10;
/// Flows of all places that are distinguished while the table is read: 64 MB. When there are more,
/// the lighter half is only counted.
const FLOWS_MAX: usize = 1 << 18;

/// What is read of the table after what says where.
pub(super) const COLUMNS: [&str; 19] = [
    "source_address",
    "destination_address",
    "transport",
    "flow_end",
    "source_port",
    "destination_port",
    "tcp_window_scale",
    "first_ns",
    "last_ns",
    "packets",
    "bytes",
    "payload_bytes",
    "retransmitted_bytes",
    "reordered_packets",
    "reordering_extent_max",
    "n_reordering_max",
    "tcp_window_min_bytes",
    "tcp_window_max_bytes",
    "completion_ns",
];

/// The flows of all places.
#[derive(Default)]
pub(super) struct Flows {
    flows: HashMap<(usize, i64), MonitorFlow>,
    /// Of each place all of its flows together.
    sums: HashMap<usize, MonitorFlows>,
    /// Of each place the heaviest ones, heaviest first.
    chosen: HashMap<usize, Vec<i64>>,
}

impl Flows {
    pub(super) fn add(&mut self, batch: &[Column], places: &mut Places) -> Result<(), ReadError> {
        let Some(rows) = places.rows(batch)? else {
            return Ok(());
        };
        let (texts, rest) = rows.columns.split_at(rows.columns.len().min(4));
        let (shorts, integers) = rest.split_at(rest.len().min(3));
        let (text_names, rest) = COLUMNS.split_at(4);
        let (short_names, integer_names) = rest.split_at(3);
        let texts = { text_names.iter().zip(texts) }.map(|(name, column)| Texts::of(name, column));
        let texts = texts.collect::<Result<Vec<_>, _>>()?;
        let shorts =
            { short_names.iter().zip(shorts) }.map(|(name, column)| Shorts::of(name, column));
        let shorts = shorts.collect::<Result<Vec<_>, _>>()?;
        let integers =
            { integer_names.iter().zip(integers) }.map(|(name, column)| Integers::of(name, column));
        let integers = integers.collect::<Result<Vec<_>, _>>()?;
        for row in 0..rows.len {
            let Some(place) = places.of(&rows, row) else {
                continue;
            };
            let text = |at: usize| texts[at].get(row).map(str::to_owned);
            let short = |at: usize| shorts[at].get(row);
            let integer = |at: usize| integers[at].get(row);
            let optional = |at: usize| integer(at).map(|number| amount(Some(number)));
            self.take(
                place,
                MonitorFlow {
                    flow_id: rows.flow_id.get(row).unwrap_or(0),
                    source_address: text(0),
                    destination_address: text(1),
                    transport: text(2),
                    flow_end: text(3),
                    source_port: short(0),
                    destination_port: short(1),
                    tcp_window_scale: short(2),
                    first_ns: integer(0),
                    last_ns: integer(1),
                    packets: amount(integer(2)),
                    bytes: amount(integer(3)),
                    payload_bytes: amount(integer(4)),
                    retransmitted_bytes: amount(integer(5)),
                    reordered_packets: amount(integer(6)),
                    reordering_extent_max: optional(7),
                    n_reordering_max: optional(8),
                    tcp_window_min_bytes: optional(9),
                    tcp_window_max_bytes: optional(10),
                    completion_ns: optional(11),
                    ..MonitorFlow::default()
                },
            );
        }
        Ok(())
    }

    fn take(&mut self, place: usize, flow: MonitorFlow) {
        let sums = self.sums.entry(place).or_default();
        for (sum, number) in [
            (&mut sums.packets, flow.packets),
            (&mut sums.bytes, flow.bytes),
            (&mut sums.payload_bytes, flow.payload_bytes),
            (&mut sums.retransmitted_bytes, flow.retransmitted_bytes),
            (&mut sums.reordered_packets, flow.reordered_packets),
        ] {
            *sum = sum.saturating_add(number);
        }
        match flow.flow_end.as_deref() {
            Some("fin") => sums.finished += 1,
            Some("rst") => sums.reset += 1,
            _ => {}
        }
        let key = (place, flow.flow_id);
        match self.flows.get_mut(&key) {
            Some(known) => known.join(flow),
            None => {
                sums.flows += u64::from(flow.flow_id != 0);
                self.flows.insert(key, flow);
            }
        }
        if self.flows.len() > FLOWS_MAX {
            self.forget();
        }
    }

    /// Forgets the lighter half, except those without a place.
    fn forget(&mut self) {
        let mut bytes: Vec<u64> = self.flows.values().map(|flow| flow.bytes).collect();
        let middle = bytes.len() / 2;
        let (_, &mut bound, _) = bytes.select_nth_unstable(middle);
        // Where half of them are alike, as many as there is room for are kept.
        let mut alike = FLOWS_MAX / 4;
        self.flows.retain(|&(_, flow_id), flow| {
            let is_kept = match flow.bytes.cmp(&bound) {
                std::cmp::Ordering::Less => false,
                std::cmp::Ordering::Greater => true,
                std::cmp::Ordering::Equal => {
                    alike = alike.saturating_sub(1);
                    alike > 0
                }
            };
            is_kept || flow_id == 0
        });
    }

    /// Looks for the heaviest flows of each place, once all rows were read.
    pub(super) fn choose(&mut self) {
        let mut heaviest: HashMap<usize, Vec<(Reverse<u64>, i64)>> = HashMap::new();
        for (&(place, flow_id), flow) in self.flows.iter().filter(|((_, id), _)| *id != 0) {
            let list = heaviest.entry(place).or_default();
            list.push((Reverse(flow.bytes), flow_id));
        }
        for (place, mut list) in heaviest {
            list.sort_unstable();
            list.truncate(HEAVIEST_MAX);
            let ids = list.into_iter().map(|(_, flow_id)| flow_id);
            self.chosen.insert(place, ids.collect());
        }
    }

    /// Whether rows of a table are reported: those of all flows together, of the heaviest, and of
    /// those without a place.
    pub(super) fn is_wanted(&self, (place, flow_id): Key) -> bool {
        flow_id.is_none_or(|flow_id| flow_id == 0 || self.heaviest(place).contains(&flow_id))
    }

    /// The flows of a place that a monitor by flow shows.
    pub(super) fn by_flow(&self, place: usize) -> Vec<i64> {
        self.heaviest(place).iter().copied().chain([0]).collect()
    }

    fn heaviest(&self, place: usize) -> &[i64] {
        let chosen = self.chosen.get(&place).map_or(&[][..], Vec::as_slice);
        &chosen[..chosen.len().min(BY_FLOW_MAX)]
    }

    /// What is reported of the flows of a place; `None` if it has none.
    pub(super) fn found(&mut self, place: usize) -> Option<MonitorFlows> {
        let sums = self.sums.remove(&place)?;
        let chosen = self.chosen.remove(&place).unwrap_or_default();
        let mut found = |flow_id| {
            let mut flow = self.flows.remove(&(place, flow_id))?;
            flow.derive();
            Some(flow)
        };
        Some(MonitorFlows {
            heaviest: chosen.into_iter().filter_map(&mut found).collect(),
            others: found(0),
            ..sums
        })
    }
}

impl MonitorFlow {
    /// Adds another row of the same flow, as a run in several parts writes them.
    fn join(&mut self, other: Self) {
        for (sum, number) in [
            (&mut self.packets, other.packets),
            (&mut self.bytes, other.bytes),
            (&mut self.payload_bytes, other.payload_bytes),
            (&mut self.retransmitted_bytes, other.retransmitted_bytes),
            (&mut self.reordered_packets, other.reordered_packets),
        ] {
            *sum = sum.saturating_add(number);
        }
        self.first_ns = [self.first_ns, other.first_ns].into_iter().flatten().min();
        self.last_ns = self.last_ns.max(other.last_ns);
        self.reordering_extent_max = self.reordering_extent_max.max(other.reordering_extent_max);
        self.n_reordering_max = self.n_reordering_max.max(other.n_reordering_max);
        let least = [self.tcp_window_min_bytes, other.tcp_window_min_bytes];
        self.tcp_window_min_bytes = least.into_iter().flatten().min();
        self.tcp_window_max_bytes = self.tcp_window_max_bytes.max(other.tcp_window_max_bytes);
        self.tcp_window_scale = self.tcp_window_scale.or(other.tcp_window_scale);
        self.completion_ns = self.completion_ns.or(other.completion_ns);
        self.flow_end = self.flow_end.take().or(other.flow_end);
    }

    fn derive(&mut self) {
        let times = self.first_ns.zip(self.last_ns);
        self.duration_ns = times.map(|(first, last)| last.abs_diff(first));
        let duration = self.duration_ns.filter(|&ns| ns > 0);
        self.bits_per_second = duration.map(|ns| self.bytes as f64 * 8e9 / ns as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(flow_id: i64, bytes: u64) -> MonitorFlow {
        MonitorFlow {
            flow_id,
            bytes,
            packets: 1,
            first_ns: Some(1_000 - flow_id),
            last_ns: Some(1_000_000_000 + 1_000 - flow_id),
            ..MonitorFlow::default()
        }
    }

    #[test]
    fn the_heaviest_come_first_and_all_are_in_the_sums() {
        let mut flows = Flows::default();
        for flow_id in 0..40 {
            flows.take(0, flow(flow_id, 100 * (flow_id as u64 % 20)));
        }
        // A second row of one of them.
        flows.take(0, flow(3, 10_000));
        flows.choose();
        assert_eq!(flows.by_flow(0), [3, 19, 39, 18, 38, 17, 37, 16, 36, 15, 0]);
        assert!(flows.is_wanted((0, None)) && flows.is_wanted((0, Some(0))));
        assert!(flows.is_wanted((0, Some(15))) && !flows.is_wanted((0, Some(35))));
        assert!(!flows.is_wanted((1, Some(3))));
        let found = flows.found(0).expect("flows");
        assert_eq!((found.flows, found.packets), (39, 41));
        assert_eq!(
            (found.heaviest.len(), found.bytes),
            (25, 2 * 19_000 + 10_000)
        );
        let heaviest = &found.heaviest[0];
        assert_eq!((heaviest.bytes, heaviest.packets), (10_300, 2));
        assert_eq!(heaviest.duration_ns, Some(1_000_000_000));
        assert_eq!(heaviest.bits_per_second, Some(82_400.0));
        assert!(found.others.is_some_and(|others| others.flow_id == 0));
        assert_eq!(flows.found(7), None);
    }

    #[test]
    fn more_flows_than_memory_is_for_keep_the_heaviest() {
        let mut flows = Flows::default();
        let many = FLOWS_MAX as i64 + 10_000;
        for flow_id in 0..many {
            let bytes = if flow_id == 7 { 1 << 40 } else { 60 };
            flows.take(0, flow(flow_id, bytes));
            assert!(flows.flows.len() <= FLOWS_MAX);
        }
        flows.choose();
        let found = flows.found(0).expect("flows");
        assert_eq!(found.flows, many.unsigned_abs() - 1);
        assert_eq!(found.heaviest[0].flow_id, 7);
        assert!(found.others.is_some());
    }
}
