//! What a trace shows of each call beside its times: bytes both ways, and how long the server took.

use std::path::Path;

use hashbrown::HashMap;
use lineside_rows::Table;

use crate::numbers::Zone;
use crate::read::columns::{Integers, Texts};
use crate::read::trace::{Trace, TraceError};

/// What a trace shows of a call, by its `rpc_id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallSize {
    /// Bytes of the call, without record marks; `None`: it was not seen.
    pub call_bytes: Option<u64>,
    /// Bytes of the reply; `None`: it was not seen.
    pub reply_bytes: Option<u64>,
    /// From the last byte of the call at the server to the first byte of the reply, as far as the
    /// tap shows it: without the way from the tap to the server, and without waits for bytes that
    /// were sent again.
    pub server_ns: i64,
    /// The way from the tap to the client and back.
    pub client_trip_ns: i64,
    /// It went over UDP.
    pub is_udp: bool,
}

/// The ways from the tap to the ends of a connection and back.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Trips {
    pub(crate) client_ns: Option<i64>,
    server_ns: Option<i64>,
}

const OF_CALL: [&str; 10] = [
    "operation_id",
    "rpc_id",
    "connection_id",
    "call_bytes",
    "reply_bytes",
    "call_end_ns",
    "reply_time_ns",
    "call_recovery_ns",
    "reply_recovery_ns",
    "transport",
];

/// The sizes of all calls of a trace.
pub fn sizes(path: &Path) -> Result<HashMap<i64, CallSize>, TraceError> {
    let mut trace = Trace::open_all(path, &Zone::default())?;
    let trips = trips(&mut trace);
    let mut sizes = HashMap::new();
    trace.batches(Table::Operations, &OF_CALL, |batch| {
        let numbers = |at: usize| Integers::of(OF_CALL[at], &batch[at]);
        let (operation, call, connection) = (numbers(0)?, numbers(1)?, numbers(2)?);
        let (call_bytes, reply_bytes) = (numbers(3)?, numbers(4)?);
        let (arrived, replied) = (numbers(5)?, numbers(6)?);
        let waits = [numbers(7)?, numbers(8)?];
        let transport = Texts::of(OF_CALL[9], &batch[9])?;
        for row in 0..batch[0].len() {
            let Some(id) = call
                .get(row)
                .filter(|_| operation.get(row) == call.get(row))
            else {
                continue;
            };
            let trip = connection.get(row).and_then(|id| trips.get(&id));
            let trip = trip.copied().unwrap_or_default();
            let took = replied.get(row).zip(arrived.get(row));
            let took_ns = took.map_or(0, |(replied, arrived)| replied.saturating_sub(arrived));
            let waited_ns = waits.iter().filter_map(|wait| wait.get(row)).sum::<i64>();
            let outside_ns = trip.server_ns.unwrap_or(0).saturating_add(waited_ns);
            let bytes = |of: Option<i64>| of.and_then(|bytes| u64::try_from(bytes).ok());
            let size = CallSize {
                call_bytes: bytes(call_bytes.get(row)),
                reply_bytes: bytes(reply_bytes.get(row)),
                server_ns: took_ns.saturating_sub(outside_ns).max(0),
                client_trip_ns: trip.client_ns.unwrap_or(0).max(0),
                is_udp: transport.get(row) == Some("udp"),
            };
            sizes.insert(id, size);
        }
        Ok(())
    });
    Ok(sizes)
}

const OF_TRIP: [&str; 3] = ["connection_id", "client_rtt_min_ns", "server_rtt_min_ns"];

/// Those ways, by connection.
pub(crate) fn trips(trace: &mut Trace) -> HashMap<i64, Trips> {
    let mut trips: HashMap<i64, Trips> = HashMap::new();
    if !trace.has_columns(Table::Connections, &OF_TRIP) {
        return trips;
    }
    trace.batches(Table::Connections, &OF_TRIP, |batch| {
        let numbers = |at: usize| Integers::of(OF_TRIP[at], &batch[at]);
        let (connection, client, server) = (numbers(0)?, numbers(1)?, numbers(2)?);
        for row in 0..batch[0].len() {
            let Some(id) = connection.get(row) else {
                continue;
            };
            let trip = trips.entry(id).or_default();
            let least = |one: Option<i64>, other: Option<i64>| one.into_iter().chain(other).min();
            trip.client_ns = least(trip.client_ns, client.get(row));
            trip.server_ns = least(trip.server_ns, server.get(row));
        }
        Ok(())
    });
    trips
}
