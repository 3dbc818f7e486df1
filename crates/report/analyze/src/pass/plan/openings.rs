//! When connections were opened.

use hashbrown::{HashMap, HashSet};
use lineside_rows::Table;

use crate::read::columns::{Integers, Lexicon, Texts, Word, Words};
use crate::read::trace::Trace;

/// Connections of which the opening is planned: more are planned without.
const OPENINGS_MAX: usize = 1 << 20;

/// The opening of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Opening {
    pub(super) ns: i64,
    pub(super) connection: i64,
    pub(super) client: Word,
    pub(super) server: Word,
}

const ENDS: [&str; 6] = [
    "connection_id",
    "first_packet_ns",
    "client_address",
    "server_address",
    "client_syns",
    "transport",
];

/// The openings of connections that have calls, the last first, and how many were not seen.
pub(super) fn of(trace: &mut Trace, words: &mut Lexicon) -> (Vec<Opening>, u64) {
    let calling = calling(trace);
    let mut seen: HashMap<i64, Opening> = HashMap::new();
    let mut over_udp: HashSet<i64> = HashSet::new();
    if trace.has(Table::Connections) {
        trace.batches(Table::Connections, &ENDS, |batch| {
            let integers = |at: usize| Integers::of(ENDS[at], &batch[at]);
            let (id, first) = (integers(0)?, integers(1)?);
            let mut named = |at: usize| Words::of(ENDS[at], &batch[at], words);
            let (clients, servers) = (named(2)?, named(3)?);
            let transport = Texts::of(ENDS[5], &batch[5])?;
            let syns = Integers::of(ENDS[4], &batch[4])?;
            for row in 0..batch[0].len() {
                let Some(connection) = id.get(row).filter(|id| calling.contains(id)) else {
                    continue;
                };
                if transport.get(row) == Some("udp") {
                    over_udp.insert(connection);
                    continue;
                }
                let Some(ns) = first.get(row).filter(|_| syns.get(row) > Some(0)) else {
                    continue;
                };
                let (client, server) = (clients.get(row), servers.get(row));
                let opening = Opening {
                    ns,
                    connection,
                    client,
                    server,
                };
                let earliest = seen.entry(connection).or_insert(opening);
                *earliest = opening.min(*earliest);
            }
            Ok(())
        });
    }
    let known = seen.len() + over_udp.len();
    let not_seen = calling.len().saturating_sub(known);
    let mut openings: Vec<_> = seen.into_values().collect();
    openings.sort_unstable_by(|one, other| other.cmp(one));
    (openings, not_seen as u64)
}

/// Connections with calls of a program: those of other protocols have none.
fn calling(trace: &mut Trace) -> HashSet<i64> {
    let columns = ["connection_id", "program"];
    let mut calling = HashSet::new();
    trace.batches(Table::Operations, &columns, |batch| {
        let id = Integers::of(columns[0], &batch[0])?;
        let program = Texts::of(columns[1], &batch[1])?;
        let mut last = None;
        for row in 0..batch[0].len() {
            let connection = id.get(row);
            if connection == last || program.get(row).is_none_or(|name| name == "nfs_cb") {
                continue;
            }
            last = connection;
            if calling.len() < OPENINGS_MAX {
                calling.extend(connection);
            }
        }
        Ok(())
    });
    calling
}
