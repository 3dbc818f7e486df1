//! Round trips of connections with RPC, as the tap measured them, and the elapsed time.

use hashbrown::HashMap;
use lineside_rows::Table;

use super::batch::Batch;
use super::columns::{Integers, Texts};
use super::filter::Chosen;
use super::trace::Trace;

/// Connections of which the round trip is kept, of 50 bytes each.
const CONNECTIONS_MAX: usize = 1 << 20;

const COLUMNS: [&str; 7] = [
    "connection_id",
    "client_address",
    "server_address",
    "program",
    "client_rtt_min_ns",
    "server_rtt_min_ns",
    "server_packets",
];

/// The shortest ways from the tap to each end and back.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RoundTrip {
    pub(crate) client_ns: Option<i64>,
    pub(crate) server_ns: Option<i64>,
}

/// Those of the connections that a filter chooses.
#[derive(Debug, Default)]
pub(crate) struct RoundTrips {
    of: HashMap<i64, RoundTrip>,
    /// A server sent something.
    pub(crate) has_servers: bool,
}

impl RoundTrips {
    pub(crate) fn of(trace: &mut Trace, chosen: &Chosen) -> Self {
        let mut found = Self::default();
        if !trace.has(Table::Connections) || !trace.has_columns(Table::Connections, &COLUMNS) {
            found.has_servers = true;
            return found;
        }
        trace.batches(Table::Connections, &COLUMNS, |batch| {
            let integers = |at: usize| Integers::of(COLUMNS[at], &batch[at]);
            let texts = |at: usize| Texts::of(COLUMNS[at], &batch[at]);
            let (id, client, server, program) = (integers(0)?, texts(1)?, texts(2)?, texts(3)?);
            let (to_client, to_server, packets) = (integers(4)?, integers(5)?, integers(6)?);
            for row in 0..batch[0].len() {
                let ends = (client.get(row), server.get(row));
                let (client, server) = (ends.0.unwrap_or_default(), ends.1.unwrap_or_default());
                let Some(id) = id.get(row).filter(|_| program.get(row).is_some()) else {
                    continue;
                };
                found.has_servers |= packets.get(row) > Some(0);
                let is_known = found.of.contains_key(&id);
                if !chosen.has_hosts(client, server)
                    || !is_known && found.of.len() >= CONNECTIONS_MAX
                {
                    continue;
                }
                let of = found.of.entry(id).or_default();
                let least = |known: Option<i64>, new: Option<i64>| {
                    [known, new]
                        .into_iter()
                        .flatten()
                        .filter(|ns| *ns >= 0)
                        .min()
                };
                of.client_ns = least(of.client_ns, to_client.get(row));
                of.server_ns = least(of.server_ns, to_server.get(row));
            }
            Ok(())
        });
        found
    }

    pub(crate) fn get(&self, connection: i64) -> RoundTrip {
        self.of.get(&connection).copied().unwrap_or_default()
    }

    /// The median over the connections that have both ways.
    pub(crate) fn median_ns(&self) -> Option<u64> {
        let both = self.of.values();
        let both = both.filter_map(|of| of.client_ns?.checked_add(of.server_ns?));
        let mut all: Vec<i64> = both.collect();
        all.sort_unstable();
        // The lower of two in the middle, as `quantile_disc` has it.
        let middle = all.get(all.len().saturating_sub(1) / 2)?;
        u64::try_from(*middle).ok()
    }
}

/// Widens the time from the first call to the last reply by a row.
pub(crate) fn add_ends(ends: &mut Option<(i64, i64)>, batch: &Batch<'_>, row: usize) {
    let (first, last) = ends.unwrap_or((i64::MAX, i64::MIN));
    let call = batch.call_time_ns.get(row).unwrap_or(first);
    let reply = batch.reply_end_ns.get(row).unwrap_or(last);
    *ends = Some((first.min(call), last.max(reply)));
}

/// From the first call to the last reply; `None`: one of them was not seen.
pub(crate) fn elapsed_ns(ends: Option<(i64, i64)>) -> Option<u64> {
    let (first, last) = ends?;
    (first < i64::MAX && last > i64::MIN).then(|| last.abs_diff(first.min(last)))
}
